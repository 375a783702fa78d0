// SPDX-License-Identifier: Apache-2.0
//
// dray validate -f FILE...: would the API server take these objects? One line an error:
//
//     FILE:LINE: FIELD: REASON: MESSAGE
#include "cmd/tools/validate.h"

#include <stdio.h>
#include <string.h>

#include "api/cel_check.h"
#include "base/vec.h"
#include "cmd/input.h"
#include "cmd/verb.h"

#include "base/banned.h"

static struct {
    struct cli_texts files;
    const char *gates, *release;
    bool no_admin, quiet, verbose, jsonl, server_only;
} args;

static int verb_validate(void);

static const struct cli_option validate_options[] = {
    {"--filename", "-f", "FILE…",
     "validate objects in YAML, JSON or protobuf; - reads standard input", .many = &args.files,
     .greedy = true, .excludes = "--jsonl"},
    {"--feature-gates", NULL, "A=true,B=false", "change gates from the defaults of the release",
     .text = &args.gates, .excludes = "--jsonl"},
    {"--emulate", NULL, "1.N", "validate as this release of Kubernetes; default 1.37",
     .text = &args.release, .excludes = "--jsonl"},
    {"--no-admin-access", NULL, NULL, "assume namespaces without the label for admin access",
     .flag = &args.no_admin, .excludes = "--jsonl"},
    {"--quiet", "-q", NULL, "print no summary", .flag = &args.quiet, .excludes = "--jsonl"},
    {"--verbose", "-v", NULL, "print a line for every object", .flag = &args.verbose,
     .excludes = "--jsonl"},
    {"--jsonl", NULL, NULL, "answer cases from standard input, one JSON object a line",
     .flag = &args.jsonl},
    {"--server-only", NULL, NULL, "leave out rules for objects that are not prepared yet",
     .flag = &args.server_only, .needs = "--jsonl"},
};
static const struct cli_group validate_group = CLI_GROUP("Options", validate_options);

const struct cli_verb validate_verb = {
    .name = "validate",
    .summary = "validate objects as the API server does",
    .chapter = CLI_OBJECTS,
    .synopsis = "validate -f FILE… [--feature-gates A=true,B=false] [--emulate 1.N] [OPTIONS]\n"
                "validate --jsonl [--server-only]",
    .text = "Validates the objects of files without a server and prints one line an error: "
            "FILE:LINE: FIELD: REASON: MESSAGE.",
    .examples = "dray validate -f examples/claim.yaml\n"
                "kubectl get resourceclaims -o yaml | dray validate -f - --emulate 1.34",
    .groups = {&validate_group},
    .run = verb_validate,
};

// --- Files ---------------------------------------------------------------------------------------

struct validate {
    struct features features;
    struct api_rules rules;
    struct api_cel_engine *engine;
    size_t good, bad;
};

static void validate_done(struct validate *v)
{
    api_cel_engine_free(v->engine);
}

// What is being looked at.
struct place {
    const struct input *in;
    const struct json_doc *doc; // NULL for protobuf
    const yyjson_val *object;
    size_t line; // of the object, when nothing better is known
};

// Line of the deepest value on a field path of the object.
static size_t validate_find_line(const struct place *p, struct str field)
{
    struct json_pos pos;
    if (!p->doc)
        return p->line;
    const yyjson_val *v = json_at_path(p->object, field, NULL);
    return v && json_locate(p->doc, v, &pos) ? pos.line : p->line;
}

static void validate_report_problem(const struct place *p, size_t line, struct str field,
                                    struct str reason, struct str message)
{
    cleanup_sbuf struct sbuf b = {0};
    sbuf_addf(&b, "%s:", p->in->name);
    if (line)
        sbuf_addf(&b, "%zu:", line);
    if (field.n)
        sbuf_addf(&b, " %.*s:", STR_ARG(field));
    sbuf_addf(&b, " %.*s: ", STR_ARG(reason));
    // Messages of the CEL compiler have several lines.
    for (size_t i = 0; i < message.n; i++)
        sbuf_addc(&b, message.p[i] == '\n' ? ' ' : message.p[i]);
    puts(b.p);
}

static void report_err(const struct place *p, struct err *err)
{
    if (p->doc && err->line == 0)
        json_locate_err(p->doc, err);
    validate_report_problem(p, err->line ? err->line : p->line, str_z(err->path),
                            str_z(err_reason(err->code)), str_z(err->msg));
}

// Strict decoding reports `unknown field "spec.foo"`; the field's path goes to its place in the
// line.
static size_t validate_report_strict(const struct place *p, const struct json_strict *strict)
{
    for (size_t i = 0; i < strict->reports.n; i++) {
        struct str text = strict->reports.p[i], what, quoted = STR("");
        str_cut(text, '"', &what, &quoted);
        struct str field = quoted.n ? str_upto(quoted, quoted.n - 1) : quoted;
        validate_report_problem(p, validate_find_line(p, field), field, STR("BadRequest"),
                                str_trim(what));
    }
    return strict->reports.n;
}

// The result of one object: counted and, if requested, printed.
static void validate_conclude_object(struct validate *v, const struct place *p, struct str kind,
                                     struct str name, size_t problems)
{
    if (problems)
        v->bad++;
    else
        v->good++;
    if (!args.verbose)
        return;
    printf("%s:", p->in->name);
    if (p->line)
        printf("%zu:", p->line);
    printf(" %.*s %.*s: %s\n", STR_ARG(kind), STR_ARG(name), problems ? "refused" : "good");
}

// The same for an object that could not be decoded: its kind as given.
static void conclude_undecoded(struct validate *v, const struct place *p)
{
    const yyjson_val *kind = p->doc ? json_get(p->object, STR("kind")) : NULL;
    const yyjson_val *meta = p->doc ? json_get(p->object, STR("metadata")) : NULL;
    const yyjson_val *name = meta ? json_get(meta, STR("name")) : NULL;
    validate_conclude_object(v, p, kind && json_is_string(kind) ? json_str(kind) : STR("?"),
                             name && json_is_string(name) ? json_str(name) : STR("?"), 1);
}

static void validate_check_object(struct validate *v, const struct place *p,
                                  const struct api_object *decoded, struct arena *arena,
                                  size_t problems)
{
    struct causes causes = {.arena = arena};
    struct judged j;
    struct err err = {0};
    if (judge_decode(decoded, &v->rules, arena, &j, &err) < 0) {
        report_err(p, &err);
        conclude_undecoded(v, p);
        return;
    }
    const struct api_object_meta *meta = api_object_meta(&j.hub);
    struct str name = meta ? judge_name(&j, arena) : STR("");
    api_prepare(API_CREATE, &j.hub, NULL, &v->rules, arena);
    api_validate(API_CREATE, &j.hub, NULL, j.version, &v->rules, &causes);
    for (size_t i = 0; i < causes.n; i++)
        validate_report_problem(p, validate_find_line(p, causes.p[i].field), causes.p[i].field,
                                str_z(cause_reason(causes.p[i].type)), causes.p[i].message);
    if (meta && name.n == 0)
        name = meta->generate_name;
    validate_conclude_object(v, p, decoded->kind->kind, name, causes.n + problems);
}

static void validate_read_value(struct validate *v, const struct place *p)
{
    struct arena arena = {0};
    struct api_object o;
    struct err err = {0};
    cleanup_json_strict struct json_strict strict = {0};
    if (api_decode(p->doc, p->object, &arena, &strict, &o, &err) < 0) {
        report_err(p, &err);
        conclude_undecoded(v, p);
    } else {
        validate_check_object(v, p, &o, &arena, validate_report_strict(p, &strict));
    }
    arena_done(&arena);
}

// Lists of any sort are taken apart.
static const yyjson_val *validate_list_items(const yyjson_val *v)
{
    if (!json_is_object(v))
        return NULL;
    const yyjson_val *kind = json_get(v, STR("kind")), *items = json_get(v, STR("items"));
    bool list = kind && json_is_string(kind) && str_ends(json_str(kind), STR("List"));
    return list && items && json_is_array(items) ? items : NULL;
}

static size_t first_line(const struct json_doc *doc, const yyjson_val *v)
{
    struct json_pos pos;
    return json_locate(doc, v, &pos) ? pos.line : doc->start.line;
}

static void validate_read_document(struct validate *v, const struct input *in,
                                   const struct json_doc *doc)
{
    const yyjson_val *items = validate_list_items(doc->root);
    struct place p = {in, doc, doc->root, first_line(doc, doc->root)};
    if (!items) {
        validate_read_value(v, &p);
        return;
    }
    json_arr_foreach(items, item) {
        p.object = item;
        p.line = first_line(doc, item);
        validate_read_value(v, &p);
    }
}

static void validate_read_proto(struct validate *v, const struct input *in)
{
    struct arena arena = {0};
    struct api_object o;
    struct err err = {0};
    struct place p = {.in = in};
    if (api_envelope_read(sbuf_str(&in->bytes), &arena, &o, &err) < 0) {
        report_err(&p, &err);
        conclude_undecoded(v, &p);
    } else {
        validate_check_object(v, &p, &o, &arena, 0);
    }
    arena_done(&arena);
}

static void validate_read_file(struct validate *v, const char *path)
{
    struct err err = {0};
    cleanup_input struct input in = {0};
    struct json_doc doc = {0};
    int r = input_open(&in, path, &err);
    if (r == 0 && input_is_proto(&in)) {
        validate_read_proto(v, &in);
        return;
    }
    while (r >= 0 && (r = input_next(&in, &doc, &err)) > 0) {
        validate_read_document(v, &in, &doc);
        json_doc_done(&doc);
    }
    if (r < 0) {
        struct place p = {.in = &in};
        report_err(&p, &err);
        v->bad++;
    }
}

// --- The verb ------------------------------------------------------------------------------------

static int validate_read_features(struct features *ret, struct err *err)
{
    uint32_t minor = FEATURES_MINOR;
    int r = args.release ? features_parse_version(str_z(args.release), &minor, err) : 0;
    if (r < 0)
        return err_wrap(err, "--emulate");
    features_init(ret, minor);
    r = args.gates ? features_parse(ret, str_z(args.gates), err) : 0;
    return r < 0 ? err_wrap(err, "--feature-gates") : 0;
}

static void validate_print_summary(const struct validate *v)
{
    if (args.quiet)
        return;
    size_t all = v->good + v->bad;
    if (v->bad == 0)
        printf("%zu %s, all good\n", all, all == 1 ? "object" : "objects");
    else
        printf("%zu of %zu %s with errors\n", v->bad, all, all == 1 ? "object" : "objects");
}

static int verb_validate(void)
{
    cleanup_with(validate_done) struct validate v = {.rules.admin_namespace = !args.no_admin};
    struct err err = {0};
    if (args.jsonl)
        return validate_jsonl(args.server_only);
    if (args.files.n == 0)
        return cli_usage_error("validate", "-f FILE is missing");
    if (validate_read_features(&v.features, &err) < 0)
        return cli_usage_error("validate", err.msg);
    v.rules.features = &v.features;
    v.engine = api_cel_engine_new();
    v.rules.cel = api_cel_engine_rules(v.engine);
    for (size_t i = 0; i < args.files.n; i++)
        validate_read_file(&v, args.files.p[i]);
    validate_print_summary(&v);
    return v.bad ? VERB_NO : VERB_OK;
}
