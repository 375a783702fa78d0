// SPDX-License-Identifier: Apache-2.0
//
// Remedies: the smallest changes with which the claims would fit. What the explanation counts
// suggests changes; each is tried by solving again, singles first, pairs when no single one helps.
#include "alloc/explain/remedy_int.h"
#include "codec/json_writer.h"

#include "base/banned.h"

#define FOUND_MAX 16 // remedies that are kept

struct found_list VEC(struct alloc_remedy);

static bool remedy_is_expired(const struct alloc_solver *s)
{
    return s->options.expired && s->options.expired(s->options.expired_arg);
}

// A count is lowered in steps, and nodes have shapes: the first that fits is the one to tell.
static bool remedy_is_found(const struct found_list *found, const struct alloc_change *c)
{
    for (size_t i = 0; i < found->n; i++)
        for (size_t k = 0; k < found->p[i].changes_len; k++) {
            const struct alloc_change *o = &found->p[i].changes[k];
            if (o->kind == ALLOC_CHANGE_NODE && c->kind == ALLOC_CHANGE_NODE)
                return true;
            if (o->kind == ALLOC_CHANGE_HOLDER && c->kind == ALLOC_CHANGE_HOLDER &&
                str_eq(o->what, c->what))
                return true; // its devices are of many nodes
            if (o->kind == ALLOC_CHANGE_COUNT && c->kind == ALLOC_CHANGE_COUNT &&
                str_eq(o->claim, c->claim) && str_eq(o->request, c->request))
                return true;
        }
    return false;
}

// Tries some changes. False when time ran out.
static bool remedy_try_changes(struct remedy_search *r, const struct candidate *const *changes,
                               size_t n, struct found_list *found, struct alloc_remedies *ret)
{
    struct alloc_remedy one = {.changes_len = n};
    if (remedy_is_expired(r->s))
        return false;
    int fits = remedy_try(r, changes, n, &one.node);
    if (fits < 0)
        return false;
    ret->tried++;
    for (size_t i = 0; fits && i < n; i++)
        one.changes[i] = remedy_change(r, changes[i]);
    if (fits && found->n < FOUND_MAX)
        vec_push_arena(r->arena, found, one);
    return true;
}

static bool try_singles(struct remedy_search *r, struct found_list *found,
                        struct alloc_remedies *ret)
{
    for (size_t i = 0; i < r->candidates.n; i++) {
        const struct candidate *c = &r->candidates.p[i];
        struct alloc_change change = remedy_change(r, c);
        if (remedy_is_found(found, &change)) {
            ret->tried++;
            continue;
        }
        if (!remedy_try_changes(r, &c, 1, found, ret))
            return false;
    }
    return true;
}

static bool remedy_is_pair_useful(const struct candidate *a, const struct candidate *b)
{
    if (a->kind == ALLOC_CHANGE_NODE || b->kind == ALLOC_CHANGE_NODE)
        return a->kind != b->kind && a->kind != ALLOC_CHANGE_HOLDER &&
               b->kind != ALLOC_CHANGE_HOLDER;
    if (a->kind == ALLOC_CHANGE_HOLDER && b->kind == ALLOC_CHANGE_HOLDER)
        return a->view == b->view;
    return !(a->kind == ALLOC_CHANGE_COUNT && b->kind == ALLOC_CHANGE_COUNT &&
             a->claim == b->claim && a->request == b->request);
}

static bool try_pairs(struct remedy_search *r, struct found_list *found, struct alloc_remedies *ret)
{
    for (size_t sum = 1; sum < 2 * r->candidates.n; sum++) // light ones first
        for (size_t i = 0; 2 * i < sum; i++) {
            size_t j = sum - i;
            if (j >= r->candidates.n)
                continue;
            const struct candidate *both[2] = {&r->candidates.p[i], &r->candidates.p[j]};
            if (!remedy_is_pair_useful(both[0], both[1])) {
                ret->tried++;
                continue;
            }
            if (!remedy_try_changes(r, both, 2, found, ret))
                return false;
        }
    return true;
}

static void prepare_view(struct remedy_search *r, const struct alloc_view *v)
{
    struct remedy_view *to = &r->views[r->views_len++];
    const struct alloc_cluster *c = v->cluster;
    *to = (struct remedy_view){.view = v};
    for (size_t p = 0; p < v->pools_len; p++) {
        const struct u32_vec *all =
            map_get(&c->by_pool, cluster_pool_key(r->arena, v->pools[p].driver, v->pools[p].name));
        for (size_t i = 0; all && i < all->n; i++)
            vec_push_arena(r->arena, &to->slices, c->slices[all->p[i]].api);
    }
    for (size_t i = 0; i < c->use_list_len; i++)
        for (size_t p = 0; p < v->pools_len; p++)
            if (str_eq(c->use_list[i].id.pool, v->pools[p].name) &&
                str_eq(c->use_list[i].id.driver, v->pools[p].driver))
                vec_push_arena(r->arena, &to->uses, c->use_list[i]);
}

static void remedy_gather_classes(struct remedy_search *r, struct remedy_view *v)
{
    const struct alloc_cluster *c = v->view->cluster;
    bool *taken = arena_array(r->arena, bool, c->classes_len + 1);
    for (size_t i = 0; i < r->claims_len; i++) {
        const struct api_device_request_array *rs = &r->claims[i]->spec.devices.requests;
        for (size_t j = 0; j < rs->n; j++) {
            const uint32_t *at = rs->p[j].exactly
                                     ? map_get(&c->class_names, rs->p[j].exactly->device_class_name)
                                     : NULL;
            if (at)
                taken[*at] = true;
            for (size_t k = 0; k < rs->p[j].first_available.n; k++) {
                at = map_get(&c->class_names, rs->p[j].first_available.p[k].device_class_name);
                if (at)
                    taken[*at] = true;
            }
        }
    }
    for (size_t i = 0; i < c->classes_len; i++)
        if (taken[i])
            vec_push_arena(r->arena, &v->classes, c->classes[i].api);
}

static void count_possible(const struct remedy_search *r, bool pairs, struct alloc_remedies *ret)
{
    size_t n = r->candidates.n;
    ret->possible = n + r->dropped + (pairs ? n * (n - (n > 0)) / 2 : 0);
}

static void remedy_search_run(struct remedy_search *r, struct alloc_remedies *ret)
{
    struct found_list found = {0};
    struct alloc_solver *s = r->s;
    enum alloc_policy policy = s->options.policy;
    *ret = (struct alloc_remedies){0};
    s->options.policy =
        ALLOC_FIRST; // whether it fits does not depend on it, and it is the quickest
    remedy_gather(r);
    bool done = try_singles(r, &found, ret);
    bool pairs = done && found.n == 0;
    if (pairs)
        done = try_pairs(r, &found, ret);
    count_possible(r, pairs, ret);
    s->options.policy = policy;
    ret->cut = !done;
    ret->remedies = found.p;
    ret->remedies_len = found.n;
}

static void remedy_add_view(struct remedy_search *r, const struct alloc_view *v)
{
    if (!v || r->views_len == REMEDY_VIEWS_MAX)
        return;
    prepare_view(r, v);
    remedy_gather_classes(r, &r->views[r->views_len - 1]);
}

void alloc_remedies_find(struct alloc_report *report, struct alloc_solver *s,
                         struct alloc_remedies *ret)
{
    size_t n = 0;
    const struct alloc_group *groups = alloc_report_finish(report, &n);
    arena_reset(&report->remedies);
    struct remedy_search r = {.s = s,
                              .arena = &report->remedies,
                              .claims = report->claims,
                              .claims_len = report->claims_len};
    for (size_t i = 0; i < n; i++)
        remedy_add_view(&r, groups[i].view);
    remedy_search_run(&r, ret);
}

void alloc_remedies_ask(struct alloc_solver *s, const struct alloc_remedy_ask *ask,
                        struct alloc_remedies *ret)
{
    struct remedy_search r = {.s = s,
                              .arena = ask->arena,
                              .claims = ask->claims,
                              .claims_len = ask->claims_len,
                              .rewrites = ask->rewrites,
                              .rewrites_len = ask->rewrites_len};
    for (size_t i = 0; i < ask->views_len; i++)
        remedy_add_view(&r, ask->views[i]);
    remedy_search_run(&r, ret);
}

// --- Writing -------------------------------------------------------------------------------------

void alloc_remedies_text(const struct alloc_remedies *r, size_t max, struct sbuf *out)
{
    for (size_t i = 0; i < r->remedies_len && i < max; i++) {
        const struct alloc_remedy *m = &r->remedies[i];
        sbuf_addz(out, i ? "  or with " : "It would fit with ");
        for (size_t k = 0; k < m->changes_len; k++)
            sbuf_addf(out, "%s%.*s", k ? "\n       and " : "", STR_ARG(m->changes[k].text));
        if (m->changes[0].kind != ALLOC_CHANGE_NODE && m->node.n)
            sbuf_addf(out, " (on %.*s)", STR_ARG(m->node));
        sbuf_addc(out, '\n');
    }
    if (r->remedies_len > max)
        sbuf_addf(out, "  or in %zu more way%s (-o json lists them)\n", r->remedies_len - max,
                  r->remedies_len - max == 1 ? "" : "s");
    if (r->remedies_len == 0 && !r->cut)
        sbuf_addf(out, "No single change and no two together make it fit (%zu tried).\n", r->tried);
    if (r->cut)
        sbuf_addf(out, "Time ran out: searched %zu of %zu changes.\n", r->tried, r->possible);
}

static const char *const kinds[] = {
    [ALLOC_CHANGE_TOLERATION] = "tolerate",   [ALLOC_CHANGE_CAPACITY] = "capacity",
    [ALLOC_CHANGE_COUNT] = "count",           [ALLOC_CHANGE_SELECTOR] = "selectorTerm",
    [ALLOC_CHANGE_CONSTRAINT] = "constraint", [ALLOC_CHANGE_HOLDER] = "claimGone",
    [ALLOC_CHANGE_NODE] = "nodeAdded",        [ALLOC_CHANGE_REWRITE] = "rewrite",
};

const char *alloc_change_word(enum alloc_change_kind kind)
{
    return kinds[kind];
}

static void remedy_write_change(struct json_writer *w, const struct alloc_change *c)
{
    json_write_object_begin(w);
    json_write_text_if(w, "kind", str_z(alloc_change_word(c->kind)));
    json_write_text_if(w, "claim", c->claim);
    json_write_text_if(w, "request", c->request);
    json_write_text_if(w, "what", c->what);
    json_write_text_if(w, "from", c->from);
    json_write_text_if(w, "to", c->to);
    json_write_text_if(w, "text", c->text);
    json_write_object_end(w);
}

void alloc_remedies_json(const struct alloc_remedies *r, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    json_write_object_begin(&w);
    json_write_key(&w, STR("remedies"));
    json_write_array_begin(&w);
    for (size_t i = 0; i < r->remedies_len; i++) {
        json_write_object_begin(&w);
        json_write_key(&w, STR("changes"));
        json_write_array_begin(&w);
        for (size_t k = 0; k < r->remedies[i].changes_len; k++)
            remedy_write_change(&w, &r->remedies[i].changes[k]);
        json_write_array_end(&w);
        json_write_text_if(&w, "node", r->remedies[i].node);
        json_write_object_end(&w);
    }
    json_write_array_end(&w);
    json_write_key(&w, STR("tried"));
    json_write_u64(&w, r->tried);
    json_write_key(&w, STR("possible"));
    json_write_u64(&w, r->possible);
    json_write_key(&w, STR("complete"));
    json_write_bool(&w, !r->cut);
    json_write_object_end(&w);
}
