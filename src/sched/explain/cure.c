// SPDX-License-Identifier: Apache-2.0
//
// The search for remedies of a pod. All nodes are surveyed: what refuses the pod there, and whether
// its devices would do. On the nearest of each sort one obstacle after the other is taken away, on
// copies, until the node would take the pod.
#include "sched/explain/cure.h"

#include <stdarg.h>

#include "sched/core/cycle.h"
#include "sched/dra/dra_int.h"
#include "sched/explain/cure_int.h"
#include "sched/filter/filter_int.h"

#include "base/banned.h"

#define STEPS_MAX     4  // obstacles of one node
#define SORTS_MAX     64 // of nodes that are told apart
#define TRIED_MAX     10 // nodes on which changes are tried
#define PER_SORT      2
#define LIKE_MAX      2                // remedies of one sort that are kept
#define CURE_COST     UINT64_C(100000) // of selectors, for all trials
#define NO_GROUP      SIZE_MAX
#define DEVICES_HARD  450   // distance of a node whose devices do not do
#define DEVICES_NEVER 20000 // … and that has none of the class

// --- Results -------------------------------------------------------------------------------------

void cures_done(struct cures *c)
{
    arena_done(&c->arena);
    *c = (struct cures){0};
}

struct cure_change *cure_add(struct trial *t, const char *kind, size_t weight, const char *fmt, ...)
{
    char line[1024];
    va_list args;
    if (t->cure.n == CURE_CHANGES_MAX)
        return NULL;
    va_start(args, fmt);
    int n = vsnprintf(line, sizeof(line), fmt, args); // a longer one is cut
    va_end(args);
    struct cure_change *c = &t->cure.changes[t->cure.n++];
    *c = (struct cure_change){.kind = kind, .action = CURE_MANUAL, .weight = weight};
    c->text = n < 0 ? STR("") : arena_str(&t->out->arena, str_z(line));
    return c;
}

static bool cure_has_change(const struct cure *c, struct str text)
{
    for (size_t i = 0; i < c->n; i++)
        if (str_eq(c->changes[i].text, text))
            return true;
    return false;
}

// Does a consist of changes of b, and perhaps fewer?
static bool cure_is_part(const struct cure *a, const struct cure *b)
{
    for (size_t i = 0; i < a->n; i++)
        if (!cure_has_change(b, a->changes[i].text))
            return false;
    return true;
}

static void cure_remove_at(struct cures *c, size_t at)
{
    memmove(&c->list.p[at], &c->list.p[at + 1], (c->list.n - at - 1) * sizeof(*c->list.p));
    c->list.n--;
}

// Remedies that differ in names alone: the same done to another node or pod.
static size_t cure_count_like(const struct cures *all, const struct cure *new)
{
    size_t count = 0;
    for (size_t i = 0; i < all->list.n; i++) {
        const struct cure *c = &all->list.p[i];
        bool like = c->n == new->n;
        for (size_t k = 0; like && k < c->n; k++)
            like = strcmp(c->changes[k].kind, new->changes[k].kind) == 0 &&
                   c->changes[k].weight == new->changes[k].weight;
        count += like;
    }
    return count;
}

// A pod that was made up for the question cannot be changed.
static bool cure_is_of_nobody(const struct cure *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->changes[i].action == CURE_PATCH && !c->changes[i].name.n)
            return true;
    return false;
}

void cure_offer(struct trial *t)
{
    struct cures *out = t->out;
    struct cure new = t->cure;
    size_t at = 0;
    new.weight = 0;
    for (size_t i = 0; i < new.n; i++)
        new.weight += new.changes[i].weight;
    new.node = arena_str(&out->arena, t->node->name);
    for (size_t i = 0; i < out->list.n; i++)
        if (cure_is_part(&out->list.p[i], &new))
            return;
    for (size_t i = out->list.n; i > 0; i--)
        if (cure_is_part(&new, &out->list.p[i - 1]))
            cure_remove_at(out, i - 1);
    while (at < out->list.n && out->list.p[at].weight <= new.weight)
        at++;
    if (at == CURES_MAX || new.n == 0 || cure_is_of_nobody(&new) ||
        cure_count_like(out, &new) >= (new.weight < CURE_WEIGHT_NODE ? LIKE_MAX : 1))
        return;
    if (out->list.n == CURES_MAX)
        out->list.n--;
    vec_push_arena(&out->arena, &out->list, new);
    memmove(&out->list.p[at + 1], &out->list.p[at], (out->list.n - 1 - at) * sizeof(new));
    out->list.p[at] = new;
}

void cure_point(struct trial *t, struct cure_change *c, enum cure_action action, const char *object,
                struct str namespace, struct str name)
{
    c->action = action;
    c->object = object;
    c->namespace = arena_str(&t->out->arena, namespace);
    c->name = arena_str(&t->out->arena, name);
}

void cure_add_path(struct sbuf *out, struct str member)
{
    sbuf_addc(out, '/');
    for (size_t i = 0; i < member.n; i++) {
        char x = member.p[i];
        if (x == '~' || x == '/')
            sbuf_addz(out, x == '~' ? "~0" : "~1");
        else
            sbuf_addc(out, x);
    }
}

// --- Trials --------------------------------------------------------------------------------------

void cure_refresh(struct trial *t)
{
    t->pod.api = t->api;
    needs_of_pod(&t->s->cluster, &t->pod, NULL);
    cluster_ports_of_pod(&t->pod);
}

static void trial_copy_pod(struct trial *t, struct sched *s, struct cures *out,
                           const struct sched_pod *p, struct sched_node *n)
{
    *t = (struct trial){.s = s, .out = out, .original = p, .pod = *p, .node = n, .real = n->api};
    t->pod.needs = NULL;
    t->pod.ports = NULL;
    t->api = arena_one(&t->arena, struct api_pod);
    api_copy(&api_pod_type, p->api, t->api, &t->arena);
    t->fake = arena_one(&t->arena, struct api_node);
    api_copy(&api_node_type, n->api, t->fake, &t->arena);
    cure_refresh(t);
    n->api = t->fake;
}

static void trial_end(struct trial *t)
{
    t->node->api = t->real;
    for (size_t i = 0; i < t->lifted.n; i++)
        cluster_place(&t->s->cluster, t->lifted.p[i], t->node);
    free(t->pod.needs);
    free(t->pod.ports);
    arena_done(&t->arena);
}

// What the survey knows of the devices holds, unless the pod asks for them by its own limits.
static bool trial_has_devices(struct trial *t, struct attempt *a)
{
    if (!t->devices && !a->special.want && a->open_len)
        return false;
    return dra_filter(a, t->node, NULL) == WHY_NONE;
}

// Takes obstacles away until the node takes the pod, devices aside; then looks at those.
static void trial_run(struct trial *t)
{
    for (int i = 0; i <= STEPS_MAX; i++) {
        struct attempt a;
        struct refusals why = {0};
        enum why w = WHY_NONE;
        enum dra_begin begun = cycle_begin(t->s, &t->pod, &a);
        if (begun == DRA_OK)
            w = filter_node(&a, t->node, &why);
        bool clear = begun == DRA_OK && w == WHY_NONE;
        bool goes_on =
            begun == DRA_OK && w != WHY_NONE && i < STEPS_MAX && cure_step(t, &a, w, &why);
        if (clear && trial_has_devices(t, &a))
            cure_offer(t);
        else if (clear)
            cure_devices(t, &a);
        cycle_end(&a);
        if (!goes_on)
            return;
    }
}

// --- Survey --------------------------------------------------------------------------------------

struct survey_node {
    struct sched_node *node;
    uint32_t mask; // obstacles
    size_t group;  // of the report; NO_GROUP: none
    bool devices;  // would do
    size_t distance;
};

struct survey {
    struct sched *s;
    struct attempt *a;
    struct alloc_report *report;
    struct index_explaining explain;
    struct survey_node *nodes;
    size_t n;
};

static size_t mask_distance(const struct survey_node *n)
{
    static const uint16_t distances[WHYS] = {
        [WHY_UNSCHEDULABLE] = CURE_WEIGHT_UNCORDON, [WHY_NODE_AFFINITY] = CURE_WEIGHT_LESS,
        [WHY_TAINT] = CURE_WEIGHT_TOLERATION,       [WHY_PORTS] = CURE_WEIGHT_LESS,
        [WHY_RESOURCES] = CURE_WEIGHT_LESS,         [WHY_SPREAD] = CURE_WEIGHT_RULE,
        [WHY_POD_AFFINITY] = CURE_WEIGHT_RULE,      [WHY_VOLUMES] = 5000,
    };
    size_t sum = 0;
    for (size_t i = 0; i < WHYS; i++)
        sum += n->mask & WHY_BIT(i) ? distances[i] : 0;
    return sum;
}

// Explains the claims on all nodes, also those that something else keeps the pod from.
static void survey_explain(struct survey *v)
{
    struct cluster *c = &v->s->cluster;
    v->nodes = arena_array(v->a->arena, struct survey_node, c->order.n + 1);
    for (size_t i = 0; i < c->order.n && !v->s->cost.meter.refused; i++) {
        struct sched_node *n = c->order.p[i];
        bool first;
        if (!n || !n->api)
            continue;
        struct survey_node *x = &v->nodes[v->n++];
        struct refusals why = {0};
        *x = (struct survey_node){.node = n, .group = NO_GROUP};
        x->mask = filter_node_all(v->a, n, &why);
        x->devices = !v->a->wants_len;
        if (v->a->special.want)
            x->devices = dra_filter(v->a, n, NULL) == WHY_NONE;
        v->explain.claims_len = v->a->open_len + v->a->special.used;
        if (x->devices || !v->explain.claims_len)
            x->devices = x->devices || dra_filter(v->a, n, NULL) == WHY_NONE;
        else if (index_explain(v->s->devices, &v->explain, n->index))
            x->group = alloc_report_last(v->report, &first);
    }
}

// The groups of the report by their number before they were sorted.
static void survey_order_groups(struct survey *v, const struct alloc_group **by_number,
                                size_t *rank, size_t len)
{
    size_t n = 0;
    const struct alloc_group *sorted = alloc_report_finish(v->report, &n);
    for (size_t i = 0; i < v->n; i++) {
        size_t g = v->nodes[i].group;
        if (g == NO_GROUP || g >= len || by_number[g])
            continue;
        for (size_t k = 0; k < n && !by_number[g]; k++)
            if (sorted[k].names_len && str_eq(sorted[k].names[0], v->nodes[i].node->name)) {
                by_number[g] = &sorted[k];
                rank[g] = k;
            }
    }
}

static uint64_t survey_classes(const struct alloc_group *g)
{
    uint64_t seen = 0;
    for (size_t i = 0; i < g->explanation.funnels_len && i < CURE_CLASSES_MAX; i++)
        if (g->explanation.funnels[i].class_refused < g->explanation.funnels[i].published)
            seen |= UINT64_C(1) << i;
    return seen;
}

static bool survey_has_class(const struct alloc_group *g)
{
    for (size_t i = 0; i < g->explanation.funnels_len; i++) {
        const struct alloc_funnel *f = &g->explanation.funnels[i];
        if (!f->alternative && f->published == f->class_refused)
            return false;
    }
    return true;
}

// Does each request match a device there, in use or not?
static bool survey_has_match(const struct alloc_group *g)
{
    for (size_t i = 0; i < g->explanation.funnels_len; i++) {
        const struct alloc_funnel *f = &g->explanation.funnels[i];
        size_t lost = f->class_refused + f->selector_refused + f->selector_failed;
        if (!f->alternative &&
            (f->published <= lost || (!f->all && f->published - lost < f->wanted)))
            return false;
    }
    return true;
}

static bool survey_lacks_none(const struct alloc_group *g)
{
    return g->explanation.nearest == SIZE_MAX;
}

// How far each node is from taking the pod.
static void survey_measure(struct survey *v, struct cures *out)
{
    size_t len = 0;
    (void)alloc_report_finish(v->report, &len);
    const struct alloc_group **groups =
        arena_array(v->a->arena, const struct alloc_group *, len + 1);
    size_t *rank = arena_array(v->a->arena, size_t, len + 1);
    survey_order_groups(v, groups, rank, len);
    for (size_t i = 0; i < v->n && !v->s->cost.meter.refused; i++) {
        struct survey_node *x = &v->nodes[i];
        const struct alloc_group *g = x->group < len ? groups[x->group] : NULL;
        if (g && !v->a->special.want && survey_lacks_none(g))
            x->devices = dra_filter(v->a, x->node, NULL) == WHY_NONE;
        out->classes_seen |= g ? survey_classes(g) : 0;
        out->class_seen = out->class_seen || (g && survey_has_class(g));
        out->selectors_seen = out->selectors_seen || (g && survey_has_match(g));
        out->fits = out->fits || (x->devices && !x->mask);
        x->distance = mask_distance(x);
        if (!x->devices)
            x->distance += g && !survey_has_class(g) ? DEVICES_NEVER + rank[x->group]
                           : g                       ? DEVICES_HARD + rank[x->group]
                                                     : DEVICES_HARD;
    }
}

static int survey_cmp(const void *x, const void *y)
{
    const struct survey_node *a = x;
    const struct survey_node *b = y;
    if (a->distance != b->distance)
        return a->distance < b->distance ? -1 : 1;
    return str_cmp(a->node->name, b->node->name);
}

// Nodes of a sort are alike: the first of them are tried.
struct survey_sort {
    uint32_t mask;
    size_t group;
    bool devices;
    size_t tried;
};

static bool survey_is_next(const struct survey_node *x, struct survey_sort *sorts, size_t *len)
{
    size_t i = 0;
    while (i < *len && (sorts[i].mask != x->mask || sorts[i].devices != x->devices ||
                        (!x->devices && sorts[i].group != x->group)))
        i++;
    if (i == SORTS_MAX)
        return false;
    if (i == *len)
        sorts[(*len)++] = (struct survey_sort){x->mask, x->group, x->devices, 0};
    return sorts[i].tried++ < PER_SORT;
}

// The nearest nodes, in the cures' arena: the survey goes with its attempt.
static size_t survey_choose(struct survey *v, struct survey_node *ret)
{
    struct survey_sort sorts[SORTS_MAX];
    size_t len = 0;
    size_t n = 0;
    qsort(v->nodes, v->n, sizeof(*v->nodes), survey_cmp);
    for (size_t i = 0; i < v->n && n < TRIED_MAX; i++)
        if (survey_is_next(&v->nodes[i], sorts, &len))
            ret[n++] = v->nodes[i];
    return n;
}

// Finds the nodes to try. Returns how many.
static size_t survey_run(struct sched *s, struct sched_pod *p, struct cures *out,
                         struct survey_node *ret)
{
    struct attempt a;
    size_t n = 0;
    enum dra_begin begun = cycle_begin(s, p, &a);
    out->refused = begun != DRA_OK;
    if (begun == DRA_OK) {
        struct survey v = {.s = s, .a = &a, .report = alloc_report_new()};
        v.explain =
            (struct index_explaining){.solver = s->solver, .report = v.report, .claims = a.open};
        alloc_report_set_quiet(v.report);
        survey_explain(&v);
        map_done(&v.explain.seen);
        survey_measure(&v, out);
        n = out->fits ? 0 : survey_choose(&v, ret);
        alloc_report_free(v.report);
        index_unpin(s->devices);
    }
    cycle_end(&a);
    return n;
}

// --- Missing classes -----------------------------------------------------------------------------

#define NODES_ASKED 512

// A class that does not exist keeps the pod from every node: others are tried where the pod fits
// without its claims.
static void cures_of_class(struct sched *s, struct sched_pod *p, struct cures *out)
{
    struct api_pod bare = *p->api;
    struct sched_pod pod = *p;
    struct attempt a;
    size_t asked = 0, n = 0;
    const struct api_resource_claim **claims =
        arena_array(&out->arena, const struct api_resource_claim *, p->claims_len + 1);
    for (size_t i = 0; i < p->claims_len; i++) {
        struct sched_claim **k = map_get(&s->claims.by_key, p->claims[i]);
        const struct api_resource_claim *claim = k ? claims_api(*k) : NULL;
        if (claim && !claim->status.allocation)
            claims[n++] = claim;
    }
    bare.spec.resource_claims.n = 0;
    pod.api = &bare;
    if (n == 0)
        return;
    enum dra_begin begun = cycle_begin(s, &pod, &a);
    for (size_t i = 0; begun == DRA_OK && i < s->cluster.order.n && asked < NODES_ASKED; i++) {
        struct sched_node *node = s->cluster.order.p[i];
        if (!node || !node->api || out->list.n || filter_node(&a, node, NULL) != WHY_NONE)
            continue;
        struct trial t;
        struct attempt whole = {.s = s, .open = claims, .open_len = n};
        asked++;
        trial_copy_pod(&t, s, out, p, node);
        cure_devices(&t, &whole);
        trial_end(&t);
    }
    cycle_end(&a);
}

// --- All -----------------------------------------------------------------------------------------

// Trials have a budget of their own: what they find must not depend on what was evaluated before.
static void cures_try(struct sched *s, struct sched_pod *p, const struct survey_node *nodes,
                      size_t n, struct cures *ret)
{
    struct alloc_meter *m = &s->cost.meter;
    uint64_t left = m->left;
    m->left = CURE_COST;
    for (size_t i = 0; i < n && !m->refused; i++)
        for (int others = 0; others < (nodes[i].mask ? 2 : 1); others++) {
            struct trial t;
            trial_copy_pod(&t, s, ret, p, nodes[i].node);
            t.others = others;
            t.devices = nodes[i].devices;
            trial_run(&t);
            trial_end(&t);
        }
    if (ret->refused)
        cures_of_class(s, p, ret);
    ret->cut = m->refused;
    m->left = left;
    m->refused = false;
}

void cures_find(struct sched *s, struct sched_pod *p, struct cures *ret)
{
    struct survey_node nodes[TRIED_MAX];
    struct arena kept = s->turn.arena; // of an attempt under way
    *ret = (struct cures){0};
    s->turn.arena = (struct arena){0};
    size_t n = survey_run(s, p, ret, nodes);
    if (!s->cost.meter.refused)
        cures_try(s, p, nodes, n, ret);
    else
        ret->cut = true;
    arena_done(&s->turn.arena);
    s->turn.arena = kept;
}

// --- Text ----------------------------------------------------------------------------------------

void cures_text(const struct cures *c, size_t max, struct sbuf *out)
{
    for (size_t i = 0; i < c->list.n && i < max; i++) {
        const struct cure *m = &c->list.p[i];
        sbuf_addz(out, i ? "  or with " : "It would fit with ");
        for (size_t k = 0; k < m->n; k++)
            sbuf_addf(out, "%s%.*s", k ? "\n       and " : "", STR_ARG(m->changes[k].text));
        if (m->weight < CURE_WEIGHT_NODE && m->node.n)
            sbuf_addf(out, " (on %.*s)", STR_ARG(m->node));
        sbuf_addc(out, '\n');
    }
    if (c->list.n > max)
        sbuf_addf(out, "  or in %zu more way%s (-o json lists them)\n", c->list.n - max,
                  c->list.n - max == 1 ? "" : "s");
}

// --- JSON ----------------------------------------------------------------------------------------

static const char *const cure_actions[] = {
    [CURE_PATCH] = "patch",
    [CURE_DELETE] = "delete",
    [CURE_RELEASE] = "release",
    [CURE_MANUAL] = "manual",
};

static void cure_write_change(const struct cure_change *c, struct json_writer *w)
{
    json_write_object_begin(w);
    json_write_text(w, "kind", str_z(c->kind));
    json_write_text(w, "action", str_z(cure_actions[c->action]));
    json_write_text(w, "text", c->text);
    if (c->object) {
        json_write_object_in(w, "object");
        json_write_text(w, "kind", str_z(c->object));
        json_write_text_if(w, "namespace", c->namespace);
        json_write_text(w, "name", c->name);
        json_write_object_end(w);
    }
    if (c->patch.n) {
        json_write_key(w, STR("patch"));
        json_write_raw(w, c->patch);
    }
    json_write_text_if(w, "command", c->command);
    json_write_text_if(w, "claim", c->claim);
    json_write_text_if(w, "request", c->request);
    json_write_text_if(w, "what", c->what);
    json_write_text_if(w, "from", c->from);
    json_write_text_if(w, "to", c->to);
    json_write_object_end(w);
}

struct str cures_node(const struct cures *c)
{
    return c->list.n && c->list.p[0].weight < CURE_WEIGHT_NODE ? c->list.p[0].node
                                                               : (struct str){0};
}

void cures_write_found(const struct cures *c, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    json_write_object_begin(&w);
    json_write_array_in(&w, "remedies");
    for (size_t i = 0; i < c->list.n; i++) {
        json_write_object_begin(&w);
        json_write_array_in(&w, "changes");
        for (size_t k = 0; k < c->list.p[i].n; k++)
            cure_write_change(&c->list.p[i].changes[k], &w);
        json_write_array_end(&w);
        json_write_text_if(&w, "node", c->list.p[i].node);
        json_write_object_end(&w);
    }
    json_write_array_end(&w);
    json_write_flag(&w, "complete", !c->cut);
    json_write_object_end(&w);
}

void cures_write_best(const struct cures *c, struct sbuf *out)
{
    for (size_t i = 0; c->list.n && i < c->list.p[0].n; i++)
        sbuf_addf(out, "%s%.*s", i ? " and " : "; would fit with ",
                  STR_ARG(c->list.p[0].changes[i].text));
}

void cures_write(const struct cures *c, struct json_writer *w)
{
    json_write_array_in(w, "remedies");
    for (size_t i = 0; i < c->list.n; i++) {
        const struct cure *cure = &c->list.p[i];
        bool admin = false, manual = false;
        json_write_object_begin(w);
        json_write_number(w, "fix", (int64_t)i + 1);
        for (size_t k = 0; k < cure->n; k++) {
            admin |= cure->changes[k].admin;
            manual |= cure->changes[k].action == CURE_MANUAL;
        }
        json_write_text_if(w, "node", cure->node);
        json_write_text(w, "by", admin ? STR("admin") : STR("owner"));
        json_write_flag(w, "verified", !cure->unproven);
        json_write_flag(w, "executable", !manual);
        json_write_array_in(w, "changes");
        for (size_t k = 0; k < cure->n; k++)
            cure_write_change(&cure->changes[k], w);
        json_write_array_end(w);
        json_write_object_end(w);
    }
    json_write_array_end(w);
}
