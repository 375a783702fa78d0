// SPDX-License-Identifier: Apache-2.0
//
// The explanation of a PodGroup: what it lacks, where its pods would go if all were placed at once,
// and what keeps the first that finds no room from it.
#include "sched/explain/explain_int.h"
#include "sched/gang/gang.h"

#include "base/banned.h"

void explain_group_begin(struct json_writer *w, const struct sched_group *g)
{
    json_write_object_begin(w);
    explain_field(w, "kind", STR("PodGroup"));
    explain_field(w, "name", g->key);
    json_write_key(w, STR("minCount"));
    json_write_u64(w, groups_min(g));
    json_write_key(w, STR("pods"));
    json_write_u64(w, g->pods.n);
    json_write_key(w, STR("scheduled"));
    json_write_u64(w, groups_scheduled(g));
    if (!g->api)
        explain_field(w, "state", STR("missing"));
    if (g->reason)
        explain_field(w, "reason", str_z(g->reason));
    if (g->reason && g->message)
        explain_field(w, "message", str_z(g->message));
}

// --- All at once ---------------------------------------------------------------------------------

// A member as a look has found it.
struct member {
    const struct sched_pod *pod;
    const struct sched_node *node; // where it would go; NULL: nowhere
    struct sbuf cause;             // why not
};

struct members VEC(struct member);

struct look {
    struct members members;
    size_t fits;
    const struct sched_pod *first; // of those that find no room
    struct told *told;             // the explanation
};

static void member_seen(void *arg, struct attempt *a, enum dra_begin begun,
                        const struct sched_node *n)
{
    struct look *look = arg;
    struct member m = {.pod = a->pod, .node = n};
    look->fits += n != NULL;
    if (!n) {
        struct told other = {0};
        struct told *t = look->first ? &other : look->told;
        if (!look->first)
            cures_find(a->s, a->pod, &t->cures);
        explain_attempt(a, begun, t);
        sbuf_add(&m.cause, sbuf_str(&t->cause));
        look->first = look->first ? look->first : a->pod;
        explain_verdict_done(&other);
    }
    vec_push(&look->members, m);
}

static void explain_group_look_done(struct look *look)
{
    for (size_t i = 0; i < look->members.n; i++)
        sbuf_done(&look->members.p[i].cause);
    vec_done(&look->members);
}

// What the group as a whole lacks, in one line; the first of its pods that finds no room explains
// the rest.
static void explain_group_write_lack(const struct sched_group *g, const struct look *look,
                                     struct told *t)
{
    cleanup_sbuf struct sbuf pod = {0};
    size_t min = groups_min(g);
    size_t have = groups_scheduled(g) + look->fits;
    sbuf_add(&pod, sbuf_str(&t->cause));
    sbuf_clear(&t->cause);
    sbuf_addf(&t->cause, "%zu of its pods must start together, and %zu fit%s at once", min, have,
              have == 1 ? "s" : "");
    if (look->first)
        sbuf_addf(&t->cause, "; pod %.*s: %.*s", STR_ARG(look->first->api->metadata.name),
                  STR_ARG(sbuf_str(&pod)));
    if (g->api && have > 1)
        advice_add(&t->advice, "lower minCount of PodGroup %.*s to %zu", STR_ARG(g->key), have);
}

// Looks at a group whose pods are all there. False: t has what it lacks.
static bool explain_group_inspect(struct sched *s, struct sched_group *g, struct look *look)
{
    struct told *t = look->told;
    cleanup_sbuf struct sbuf wrong = {0};
    bool fits = gang_preview(s, g, member_seen, look, &wrong);
    if (fits)
        return true;
    if (wrong.n)
        sbuf_add(&t->cause, sbuf_str(&wrong));
    else
        explain_group_write_lack(g, look, t);
    return false;
}

bool explain_group_fits(struct sched *s, struct sched_group *g, struct told *t)
{
    struct told fresh = {0};
    struct look look = {.told = &fresh};
    bool fits = explain_group_inspect(s, g, &look);
    explain_group_look_done(&look);
    if (fits) {
        explain_verdict_done(&fresh);
        return true;
    }
    explain_verdict_done(t);
    *t = fresh;
    cleanup_sbuf struct sbuf alone = {0};
    sbuf_add(&alone, sbuf_str(&t->cause));
    sbuf_clear(&t->cause);
    sbuf_addf(&t->cause, "alone it would fit, but its PodGroup %.*s waits: %.*s", STR_ARG(g->key),
              STR_ARG(sbuf_str(&alone)));
    return false;
}

// --- The group -----------------------------------------------------------------------------------

static void explain_group_write(struct sched *s, struct sched_group *g, struct look *look)
{
    struct told *t = look->told;
    size_t min = groups_min(g);
    size_t scheduled = groups_scheduled(g);
    advice_group(&t->advice, g, &t->cause);
    if (t->cause.n || scheduled == g->pods.n)
        return;
    if (g->take)
        sbuf_addz(&t->cause, "devices of an earlier attempt are being given back");
    else if (explain_group_inspect(s, g, look))
        sbuf_addf(&t->cause, "%zu of its pods would fit now, and will be tried again soon",
                  look->fits);
    else if (scheduled >= min)
        sbuf_clear(&t->cause); // it runs: who is left over waits alone
}

static const struct member *member_of(const struct look *look, const struct sched_pod *p)
{
    for (size_t i = 0; i < look->members.n; i++)
        if (look->members.p[i].pod == p)
            return &look->members.p[i];
    return NULL;
}

static void write_member(struct sched *s, const struct sched_pod *p, const struct member *m,
                         struct json_writer *w)
{
    struct told t = {0};
    json_write_object_begin(w);
    explain_field(w, "name", p->key);
    explain_field(w, "state", str_z(explain_state(p)));
    if (p->node)
        explain_field(w, "node", p->node->name);
    if (m && m->node)
        explain_field(w, "wouldRunOn", m->node->name);
    if (m && !m->node)
        sbuf_add(&t.cause, sbuf_str(&m->cause));
    else if (!m && p->state == POD_GATED)
        advice_gate(&t.advice, s, p, &t.cause);
    explain_field(w, "cause", sbuf_str(&t.cause));
    if (p->report.gate)
        explain_field(w, "gate", str_z(p->report.gate));
    if (p->report.message && !p->node)
        explain_field(w, "message", str_z(p->report.message));
    json_write_object_end(w);
    explain_verdict_done(&t);
}

void explain_group(struct sched *s, struct sched_group *g, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    struct told t = {0};
    struct look look = {.told = &t};
    explain_group_write(s, g, &look);
    explain_group_begin(&w, g);
    explain_field(&w, "cause", sbuf_str(&t.cause));
    if (t.cause.n)
        cures_write(&t.cures, &w);
    advice_write(&t.advice, &w);
    json_write_key(&w, STR("members"));
    json_write_array_begin(&w);
    for (size_t i = 0; i < g->pods.n; i++)
        write_member(s, g->pods.p[i], member_of(&look, g->pods.p[i]), &w);
    json_write_array_end(&w);
    if (t.now.n && t.cause.n) {
        json_write_key(&w, STR("now"));
        json_write_raw(&w, sbuf_str(&t.now));
    }
    json_write_object_end(&w);
    explain_group_look_done(&look);
    explain_verdict_done(&t);
}
