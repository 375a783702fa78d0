// SPDX-License-Identifier: Apache-2.0
//
// The report of a conformance run as a table, as JSON and as JUnit XML.
#include "codec/json_writer.h"
#include "codec/rfc3339.h"
#include "lab/conform/conform.h"

#include "base/banned.h"

static const char *const words[] = {
    [CONFORM_PASS] = "pass", [CONFORM_FAIL] = "FAIL", [CONFORM_SKIP] = "skip"};
static const char *const results[] = {
    [CONFORM_PASS] = "Pass", [CONFORM_FAIL] = "Fail", [CONFORM_SKIP] = "Skip"};

static void report_add_seconds(struct sbuf *out, int64_t ns)
{
    sbuf_addf(out, "%lld.%03lld", (long long)(ns / CLOCK_NS_PER_SEC),
              (long long)(ns % CLOCK_NS_PER_SEC / CLOCK_NS_PER_MS));
}

static void report_add_summary(const struct conform_report *r, struct sbuf *out)
{
    sbuf_addf(out, "%zu passed, %zu failed, %zu skipped", conform_count(r, CONFORM_PASS, false),
              conform_count(r, CONFORM_FAIL, false), conform_count(r, CONFORM_SKIP, false));
    size_t musts = conform_count(r, CONFORM_FAIL, true);
    if (musts != conform_count(r, CONFORM_FAIL, false))
        sbuf_addf(out, " (%zu of the failed must pass)", musts);
}

void conform_write_table(const struct conform_report *r, bool evidence, struct sbuf *out)
{
    sbuf_addf(out, "%.*s, Kubernetes %.*s\n\n", STR_ARG(r->server), STR_ARG(r->version));
    sbuf_addf(out, "%-6s %-6s %-27s %8s  %s\n", "RESULT", "LEVEL", "CHECK", "SECONDS", "");
    vec_foreach(&r->outcomes, o) {
        cleanup_sbuf struct sbuf took = {0};
        report_add_seconds(&took, o->took_ns);
        sbuf_addf(out, "%-6s %-6s %-27s %8s  %.*s\n", words[o->result], o->must ? "MUST" : "SHOULD",
                  o->id, took.p, STR_ARG(o->why.n ? o->why : str_z(o->title)));
        if (!evidence)
            continue;
        vec_foreach(&o->evidence, e)
            sbuf_addf(out, "         %-8.*s %.*s\n", STR_ARG(e->type), STR_ARG(e->text));
    }
    sbuf_addc(out, '\n');
    report_add_summary(r, out);
    sbuf_addz(out, r->interrupted ? "; interrupted\n" : "\n");
    if (r->leftover.n)
        sbuf_addf(out, "not removed in time: %.*s\n", STR_ARG(r->leftover));
}

// --- JSON ----------------------------------------------------------------------------------------

static void report_write_time(struct json_writer *w, const char *key, int64_t ns)
{
    cleanup_sbuf struct sbuf t = {0};
    rfc3339_write_micros(moment_from_ns(ns), &t);
    json_write_text(w, key, sbuf_str(&t));
}

static void report_write_duration(struct json_writer *w, int64_t ns)
{
    cleanup_sbuf struct sbuf t = {0};
    report_add_seconds(&t, ns);
    json_write_key(w, STR("seconds"));
    json_write_raw(w, sbuf_str(&t));
}

static void write_outcome(const struct conform_outcome *o, struct json_writer *w)
{
    json_write_object_begin(w);
    json_write_text(w, "id", str_z(o->id));
    json_write_text(w, "title", str_z(o->title));
    json_write_text(w, "requirement", str_z(o->requirement));
    json_write_text(w, "level", o->must ? STR("MUST") : STR("SHOULD"));
    json_write_text(w, "result", str_z(results[o->result]));
    if (o->why.n)
        json_write_text(w, "reason", o->why);
    report_write_time(w, "started", o->started_ns);
    report_write_duration(w, o->took_ns);
    json_write_key(w, STR("evidence"));
    json_write_array_begin(w);
    vec_foreach(&o->evidence, e) {
        json_write_object_begin(w);
        report_write_time(w, "time", e->at_ns);
        json_write_text(w, "type", e->type);
        json_write_text(w, "text", e->text);
        json_write_object_end(w);
    }
    json_write_array_end(w);
    json_write_object_end(w);
}

void conform_write_json(const struct conform_report *r, struct sbuf *out)
{
    struct json_writer w = {.out = out, .indent = 2};
    json_write_object_begin(&w);
    json_write_text(&w, "kind", STR("ConformanceReport"));
    json_write_text(&w, "server", r->server);
    json_write_text(&w, "kubernetesVersion", r->version);
    json_write_text(&w, "namespace", r->namespace);
    report_write_time(&w, "started", r->started_ns);
    report_write_duration(&w, r->took_ns);
    json_write_key(&w, STR("passed"));
    json_write_u64(&w, conform_count(r, CONFORM_PASS, false));
    json_write_key(&w, STR("failed"));
    json_write_u64(&w, conform_count(r, CONFORM_FAIL, false));
    json_write_key(&w, STR("failedMust"));
    json_write_u64(&w, conform_count(r, CONFORM_FAIL, true));
    json_write_key(&w, STR("skipped"));
    json_write_u64(&w, conform_count(r, CONFORM_SKIP, false));
    json_write_key(&w, STR("interrupted"));
    json_write_bool(&w, r->interrupted);
    if (r->leftover.n)
        json_write_text(&w, "leftover", r->leftover);
    json_write_key(&w, STR("checks"));
    json_write_array_begin(&w);
    vec_foreach(&r->outcomes, o)
        write_outcome(o, &w);
    json_write_array_end(&w);
    json_write_object_end(&w);
    sbuf_addc(out, '\n');
}

// --- JUnit ---------------------------------------------------------------------------------------

// What XML 1.0 cannot hold becomes a question mark.
static void report_add_xml(struct sbuf *out, struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == '&')
            sbuf_addz(out, "&amp;");
        else if (c == '<')
            sbuf_addz(out, "&lt;");
        else if (c == '>')
            sbuf_addz(out, "&gt;");
        else if (c == '"')
            sbuf_addz(out, "&quot;");
        else if ((unsigned char)c < 32 && c != '\n' && c != '\t')
            sbuf_addc(out, '?');
        else
            sbuf_addc(out, c);
    }
}

void conform_write_junit(const struct conform_report *r, struct sbuf *out)
{
    sbuf_addf(out,
              "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"dray conformance\" "
              "tests=\"%zu\" failures=\"%zu\" skipped=\"%zu\" time=\"",
              r->outcomes.n, conform_count(r, CONFORM_FAIL, false),
              conform_count(r, CONFORM_SKIP, false));
    report_add_seconds(out, r->took_ns);
    sbuf_addz(out, "\">\n");
    vec_foreach(&r->outcomes, o) {
        sbuf_addf(out, "  <testcase classname=\"%s\" name=\"%s\" time=\"", o->requirement, o->id);
        report_add_seconds(out, o->took_ns);
        sbuf_addz(out, "\">\n");
        if (o->result != CONFORM_PASS) {
            sbuf_addf(out, "    <%s message=\"", o->result == CONFORM_FAIL ? "failure" : "skipped");
            report_add_xml(out, o->why);
            sbuf_addz(out, "\"/>\n");
        }
        sbuf_addz(out, "    <system-out>");
        vec_foreach(&o->evidence, e) {
            report_add_xml(out, e->type);
            sbuf_addc(out, ' ');
            report_add_xml(out, e->text);
            sbuf_addc(out, '\n');
        }
        sbuf_addz(out, "</system-out>\n  </testcase>\n");
    }
    sbuf_addz(out, "</testsuite>\n");
}
