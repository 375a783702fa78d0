// SPDX-License-Identifier: Apache-2.0
//
// Plans for people, as an aligned table with explanations below, and for programs as JSON.
#include "api/match/node.h"
#include "codec/json_writer.h"
#include "plan/inventory.h"
#include "plan/sim/plan_int.h"

#include "base/banned.h"

static const char *const status_words[] = {
    [PLAN_PLACED] = "placed",
    [PLAN_RUNNING] = "running",
    [PLAN_NO] = "unplaced",
    [PLAN_ERROR] = "error",
};

// --- Text ----------------------------------------------------------------------------------------

static bool show_is_simulated(const struct plan *p, struct str node)
{
    for (size_t i = 0; i < p->nodes.n; i++)
        if (str_eq(p->nodes.p[i]->metadata.name, node))
            return node_is_simulated(p->nodes.p[i]);
    return false;
}

static void show_add_node(const struct plan *p, const struct plan_step *s, struct sbuf *out)
{
    sbuf_addf(out, "%.*s%s", STR_ARG(s->node.n ? s->node : STR("-")),
              show_is_simulated(p, s->node) ? INVENTORY_SIMULATED : "");
}

static struct str result_text(const struct plan_step *s)
{
    if (s->status == PLAN_NO)
        return s->node.n ? STR("cannot be evicted") : STR("does not fit");
    if (s->status == PLAN_ERROR)
        return STR("cannot be judged");
    return s->devices.n ? s->devices : STR("(no devices)");
}

static void show_pad_text(struct sbuf *out, struct str s, size_t width)
{
    sbuf_add(out, s);
    sbuf_add_repeat(out, ' ', width > s.n ? width - s.n : 0);
}

// What runs already and stays is only counted.
static bool show_is_shown(const struct plan *p, const struct plan_step *s)
{
    return p->options.show_running || s->status != PLAN_RUNNING;
}

static void show_add_table(const struct plan *p, struct sbuf *out)
{
    size_t name = 4;
    size_t node = 4;
    size_t running = 0;
    for (size_t i = 0; i < p->steps.n; i++) {
        const struct plan_step *s = &p->steps.p[i].pub;
        running += !show_is_shown(p, s);
        if (!show_is_shown(p, s))
            continue;
        name = s->name.n > name ? s->name.n : name;
        cleanup_sbuf struct sbuf text = {0};
        show_add_node(p, s, &text);
        node = text.n > node ? text.n : node;
    }
    if (running < p->steps.n) {
        show_pad_text(out, STR("WHAT"), name + 2);
        show_pad_text(out, STR("NODE"), node + 2);
        sbuf_addz(out, "DEVICES\n");
    }
    for (size_t i = 0; i < p->steps.n; i++) {
        const struct plan_step *s = &p->steps.p[i].pub;
        if (!show_is_shown(p, s))
            continue;
        show_pad_text(out, s->name, name + 2);
        cleanup_sbuf struct sbuf text = {0};
        show_add_node(p, s, &text);
        show_pad_text(out, sbuf_str(&text), node + 2);
        sbuf_add(out, result_text(s));
        if (s->status == PLAN_RUNNING)
            sbuf_addz(out, "  (already)");
        sbuf_addc(out, '\n');
    }
    if (running)
        sbuf_addf(out, "%s%zu more stay where they are (--all shows them)\n",
                  running < p->steps.n ? "" : "Nothing to place: ", running);
}

static bool same_problem(const struct step *a, const struct step *b)
{
    return a->pub.status == b->pub.status && str_eq(a->explanation, b->explanation) &&
           (a->pub.status == PLAN_NO || str_eq(a->pub.summary, b->pub.summary));
}

static bool show_is_failed(const struct step *s)
{
    return s->pub.status == PLAN_NO || s->pub.status == PLAN_ERROR;
}

static bool show_is_repeated(const struct plan *p, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (show_is_failed(&p->steps.p[i]) && same_problem(&p->steps.p[i], &p->steps.p[at]))
            return true;
    return false;
}

#define NAMES_SHOWN 3

// A problem is shown once, with all that have it.
static void show_add_problem(const struct plan *p, size_t at, struct sbuf *out)
{
    const struct step *s = &p->steps.p[at];
    size_t n = 0;
    for (size_t i = at; i < p->steps.n; i++) {
        if (!show_is_failed(&p->steps.p[i]) || !same_problem(s, &p->steps.p[i]))
            continue;
        if (n++ < NAMES_SHOWN)
            sbuf_addf(out, "%s%.*s", n > 1 ? ", " : "", STR_ARG(p->steps.p[i].pub.name));
    }
    if (n > NAMES_SHOWN)
        sbuf_addf(out, " and %zu more", n - NAMES_SHOWN);
    if (s->pub.status == PLAN_ERROR)
        sbuf_addf(out, " cannot be judged: %.*s\n", STR_ARG(s->pub.summary));
    else if (s->unit->staying.n)
        sbuf_addf(out, " cannot be evicted from %.*s:\n%.*s", STR_ARG(s->pub.node),
                  STR_ARG(s->explanation));
    else
        sbuf_addf(out, " %s not fit:\n%.*s", n > 1 ? "do" : "does", STR_ARG(s->explanation));
}

static void add_answer(const struct step *s, struct sbuf *out)
{
    if (s->pub.status == PLAN_PLACED)
        sbuf_addf(out, "%.*s fits: it would land on %.*s", STR_ARG(s->pub.name),
                  STR_ARG(s->pub.node));
    else
        sbuf_addf(out, "%.*s is placed already%s%.*s", STR_ARG(s->pub.name),
                  s->pub.node.n ? ": on " : "", STR_ARG(s->pub.node));
    if (s->pub.devices.n)
        sbuf_addf(out, " with %.*s", STR_ARG(s->pub.devices));
    sbuf_addz(out, ".\n");
}

void plan_text(const struct plan *p, struct sbuf *out)
{
    size_t no = 0;
    sbuf_add(out, p->needed);
    if (p->steps.n == 0) {
        sbuf_addz(out, "There is nothing to place: the files have no pods, workloads or claims.\n");
        return;
    }
    if (!p->why)
        show_add_table(p, out);
    for (size_t i = 0; i < p->steps.n; i++) {
        const struct step *s = &p->steps.p[i];
        bool tell = show_is_failed(s) && !show_is_repeated(p, i);
        no += show_is_failed(s);
        if (!p->why && tell)
            sbuf_addc(out, '\n');
        if (tell)
            show_add_problem(p, i, out);
        else if (p->why && !show_is_failed(s))
            add_answer(s, out);
    }
    if (no && !p->why)
        sbuf_addf(out, "\n%zu of %zu not placed\n", no, p->steps.n);
}

void plan_notes(const struct plan *p, struct sbuf *out)
{
    for (size_t i = 0; i < p->world->notes.n; i++)
        sbuf_addf(out, "%.*s\n", STR_ARG(p->world->notes.p[i]));
}

// --- JSON ----------------------------------------------------------------------------------------

static void show_write_raw(struct json_writer *w, const char *key, struct str v)
{
    if (!v.n)
        return;
    json_write_key(w, str_z(key));
    json_write_raw(w, v);
}

static void show_write_claims(const struct step *s, struct json_writer *w)
{
    json_write_key(w, STR("claims"));
    json_write_array_begin(w);
    for (size_t i = 0; i < s->claims.n; i++) {
        const struct api_resource_claim *c = s->claims.p[i]->object.value;
        cleanup_sbuf struct sbuf name = {0};
        sbuf_addf(&name, "%.*s/%.*s", STR_ARG(c->metadata.namespace), STR_ARG(c->metadata.name));
        json_write_object_begin(w);
        json_write_text_if(w, "name", sbuf_str(&name));
        if (c->status.allocation) {
            json_write_key(w, STR("allocation"));
            if (api_json_write(&api_allocation_result_type, c->status.allocation, w, NULL) < 0)
                json_write_null(w);
        }
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

static void write_step(const struct step *s, struct json_writer *w)
{
    json_write_object_begin(w);
    json_write_text_if(w, s->unit->is_pod ? "pod" : "claim", s->unit->name);
    json_write_text_if(w, "status", str_z(status_words[s->pub.status]));
    json_write_text_if(w, "node", s->pub.node);
    show_write_claims(s, w);
    json_write_text_if(w, s->pub.status == PLAN_ERROR ? "error" : "summary", s->pub.summary);
    show_write_raw(w, "explanation", s->explanation_json);
    show_write_raw(w, "remedies", s->remedies_json);
    json_write_object_end(w);
}

void plan_json(const struct plan *p, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    json_write_object_begin(&w);
    json_write_key(&w, STR("complete"));
    json_write_bool(&w, plan_complete(p));
    show_write_raw(&w, "needed", p->needed_json);
    json_write_key(&w, STR("steps"));
    json_write_array_begin(&w);
    for (size_t i = 0; i < p->steps.n; i++)
        write_step(&p->steps.p[i], &w);
    json_write_array_end(&w);
    if (p->world->notes.n) {
        json_write_key(&w, STR("notes"));
        json_write_array_begin(&w);
        for (size_t i = 0; i < p->world->notes.n; i++)
            json_write_str(&w, p->world->notes.p[i]);
        json_write_array_end(&w);
    }
    json_write_object_end(&w);
    sbuf_addc(out, '\n');
}
