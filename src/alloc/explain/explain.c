// SPDX-License-Identifier: Apache-2.0
//
// Why not, on one node: for every request the funnel from published to usable devices, each device
// in the first row that takes it away, and what exactly took it. Counting makes no texts, so that
// many nodes can be compared; texts are made for those that are shown.
#include "alloc/explain/explain_int.h"

#include "base/banned.h"

#define REASONS_MAX 48 // distinct ones of a request; what is beyond counts in its row only

// --- Reasons -------------------------------------------------------------------------------------

static bool same_reason(const struct draft_reason *a, const struct draft_reason *b)
{
    return a->row == b->row && a->needs == b->needs && str_eq(a->what, b->what) &&
           str_eq(a->value, b->value) && str_eq(a->effect, b->effect);
}

static void funnel_add_reason(struct explainer *x, struct draft_funnel *f,
                              const struct draft_reason *r)
{
    size_t at = 0;
    while (at < f->reasons.n && !same_reason(&f->reasons.p[at], r))
        at++;
    if (at == REASONS_MAX)
        return;
    if (at == f->reasons.n) {
        vec_push_arena(&x->s->arena, &f->reasons, *r);
        f->reasons.p[at].devices = 0;
    }
    struct draft_reason *same = &f->reasons.p[at];
    same->devices++;
    if (r->has > same->has)
        same->has = r->has;
    if (r->whole > same->whole)
        same->whole = r->whole;
}

static struct draft_reason funnel_make_reason(enum alloc_row row, struct str what)
{
    return (struct draft_reason){.row = row, .what = what};
}

// The most that a policy lets a share be; NULL: it sets no limit.
static const struct quantity *policy_most(const struct api_capacity_request_policy *p)
{
    const struct quantity *most = p && p->valid_range ? p->valid_range->max : NULL;
    for (size_t i = 0; p && !p->valid_range && i < p->valid_values.n; i++)
        if (!most || quantity_cmp(&p->valid_values.p[i], most) > 0)
            most = &p->valid_values.p[i];
    return most;
}

// Which amount a device cannot give by its policy, or whatever is left of it: one that it does not
// have, or one above the policy's maximum.
static void capacity_against_policy(const struct alternative *a, const struct vw_device *d,
                                    struct draft_reason *ret)
{
    const struct api_device_capacity_map *have = &d->cl->api->capacity;
    for (size_t i = 0; a->capacity && i < a->capacity->requests.n; i++) {
        const struct api_quantity_entry *want = &a->capacity->requests.p[i];
        size_t at = 0;
        while (at < have->n && !str_eq(have->p[at].key, want->key))
            at++;
        const struct quantity *most =
            at < have->n ? policy_most(have->p[at].value.request_policy) : NULL;
        if (at < have->n && (!most || quantity_cmp(&want->value, most) <= 0))
            continue;
        ret->what = want->key;
        ret->shortage = at < have->n ? ALLOC_SHORT_POLICY : ALLOC_SHORT_UNKNOWN;
        ret->amounts = most != NULL;
        ret->unit = most ? &want->value : NULL;
        ret->needs = most ? amount_from_quantity(&want->value) : 0;
        ret->has = ret->whole = most ? amount_from_quantity(most) : 0;
        return;
    }
}

// The capacity that falls short by the most, in its own measure; false when all suffice.
static bool capacity_short(struct explainer *x, const struct alternative *a, uint32_t device,
                           struct draft_reason *ret)
{
    struct alloc_solver *s = x->s;
    const struct vw_device *d = &s->view->devices[device];
    if (!s->view->cluster->features.consumable_capacity)
        return false;
    *ret = funnel_make_reason(ALLOC_ROW_CAPACITY,
                              STR("a capacity it does not have, or against its policy"));
    if (capacity_need_of(s, a, device) != NEED_OK) {
        capacity_against_policy(a, d, ret);
        return true;
    }
    for (uint32_t i = 0; i < d->caps_len; i++) {
        const struct vw_cap *c = &s->view->caps[d->first_cap + i];
        amount need = need_amount(s, a, d->first_cap + i);
        if (c->used + need <= c->value)
            continue;
        ret->what = c->api->key;
        ret->unit = &c->api->value.value;
        ret->needs = need;
        ret->has = c->value - c->used;
        ret->whole = c->value;
        ret->amounts = true;
        return true;
    }
    return false;
}

static const struct quantity *counter_unit(const struct vw_device *d, struct str name)
{
    struct str set, counter;
    (void)str_cut(name, '/', &set, &counter);
    const struct api_device_counter_consumption_array *all = &d->cl->api->consumes_counters;
    for (size_t i = 0; i < all->n; i++)
        for (size_t k = 0; str_eq(all->p[i].counter_set, set) && k < all->p[i].counters.n; k++)
            if (str_eq(all->p[i].counters.p[k].key, counter))
                return &all->p[i].counters.p[k].value.value;
    return NULL;
}

static bool groups_clash(const struct alloc_view *v, const struct vw_device *d)
{
    for (uint16_t i = 0; v->cluster->features.compatibility_groups && i < d->groups_len; i++) {
        const struct group_use *u = &v->group_uses[d->first_group + i];
        const struct group_state *g = &v->groups[u->set];
        if (g->members && !(u->mask == 0 ? g->all_empty : !g->all_empty && (g->mask & u->mask)))
            return true;
    }
    return false;
}

bool explain_counters_short(const struct alloc_view *v, const struct vw_device *d,
                            struct draft_reason *ret)
{
    if (d->groups_len == 0 || (d->shared && d->shared_use))
        return false;
    for (uint16_t i = 0; i < d->counters_len; i++) {
        const struct counter_use *u = &v->counter_uses[d->first_counter + i];
        if (u->value <= v->counters.available[u->counter])
            continue;
        *ret = funnel_make_reason(ALLOC_ROW_COUNTERS, v->counters.names[u->counter]);
        ret->unit = counter_unit(d, ret->what);
        ret->needs = u->value;
        ret->has = v->counters.available[u->counter];
        ret->amounts = true;
        return true;
    }
    bool clash = groups_clash(v, d);
    if (!clash && !v->pools[d->pool].overdrawn)
        return false;
    *ret = funnel_make_reason(ALLOC_ROW_COUNTERS,
                              clash ? STR("in another compatibility group than devices in use")
                                    : STR("the pool's counters are overdrawn"));
    return true;
}

static bool attribute_missing(struct explainer *x, const struct alternative *a, uint32_t device,
                              struct draft_reason *ret)
{
    const struct claim *c = &x->s->p.claims[a->claim];
    for (uint32_t j = 0; j < c->constraints_len; j++) {
        if (a->columns[j] == UINT32_MAX)
            continue;
        uint8_t st = attr_column_value(x->s, a->columns[j], device)->state;
        if (st != ATTR_MISSING && st != ATTR_ERROR)
            continue;
        *ret = funnel_make_reason(ALLOC_ROW_ATTRIBUTE,
                                  x->s->p.constraints[c->first_constraint + j].attribute);
        return true;
    }
    return false;
}

static bool funnel_refuse_tainted(const struct vw_device *d, const struct alternative *a,
                                  struct draft_reason *ret)
{
    const struct api_device_taint *t =
        d->hard_taints ? select_refusing_taint(d->cl, a->tolerations) : NULL;
    if (!t)
        return false;
    *ret = funnel_make_reason(ALLOC_ROW_TAINTED, t->key);
    ret->value = t->value;
    ret->effect = t->effect;
    return true;
}

static bool funnel_set_reason(struct draft_reason *ret, enum alloc_row row, struct str what)
{
    *ret = funnel_make_reason(row, what);
    return true;
}

static bool refuse_by_term(struct draft_reason *ret, const struct judged_set *set, uint32_t device)
{
    *ret = funnel_make_reason(set->match[device] == MATCH_NO ? ALLOC_ROW_SELECTOR
                                                             : ALLOC_ROW_SELECTOR_FAILED,
                              set->terms[set->refuser[device]].text);
    ret->term = set->refuser[device];
    return true;
}

// False when the device is usable; else the row that it falls into and why.
static bool funnel_refuse_device(struct explainer *x, const struct alternative *a, uint32_t device,
                                 struct draft_reason *ret)
{
    const struct vw_device *d = &x->s->view->devices[device];
    const struct judged_set *set = &x->sets[a->selset];
    uint8_t class_match = a->class_->match[d->cl_index];
    if (class_match == MATCH_NO || class_match == MATCH_ERROR)
        return funnel_set_reason(
            ret, class_match == MATCH_NO ? ALLOC_ROW_CLASS : ALLOC_ROW_SELECTOR_FAILED,
            a->class_->api->metadata.name);
    if (set->match && set->match[device] != MATCH_YES)
        return refuse_by_term(ret, set, device);
    if (d->node != NODE_YES)
        return funnel_set_reason(ret, ALLOC_ROW_NODE, (struct str){0});
    if (d->refused || d->unsupported)
        return funnel_set_reason(ret, ALLOC_ROW_UNSUPPORTED,
                                 explain_missing_feature(x->s->view, d));
    if (funnel_refuse_tainted(d, a, ret))
        return true;
    if (!a->admin && d->exclusive_use)
        return funnel_set_reason(ret, ALLOC_ROW_IN_USE, (struct str){0});
    return capacity_short(x, a, device, ret) || explain_counters_short(x->s->view, d, ret) ||
           attribute_missing(x, a, device, ret);
}

// --- Counting ------------------------------------------------------------------------------------

static size_t *row_count(struct alloc_funnel *f, enum alloc_row row)
{
    switch (row) {
    case ALLOC_ROW_CLASS:
        return &f->class_refused;
    case ALLOC_ROW_SELECTOR:
        return &f->selector_refused;
    case ALLOC_ROW_SELECTOR_FAILED:
        return &f->selector_failed;
    case ALLOC_ROW_NODE:
        return &f->node_refused;
    case ALLOC_ROW_UNSUPPORTED:
        return &f->not_supported;
    case ALLOC_ROW_TAINTED:
        return &f->tainted;
    case ALLOC_ROW_IN_USE:
        return &f->in_use;
    case ALLOC_ROW_CAPACITY:
        return &f->capacity_short;
    case ALLOC_ROW_COUNTERS:
        return &f->counters_short;
    case ALLOC_ROW_ATTRIBUTE:
        return &f->attribute_missing;
    }
    return &f->usable;
}

static void funnel_count_devices(struct explainer *x, const struct alternative *a,
                                 struct draft_funnel *f)
{
    struct draft_reason r;
    f->rows = arena_array(&x->s->arena, uint8_t, x->s->view->devices_len + 1);
    f->f = (struct alloc_funnel){.request = a->full_name,
                                 .wanted = (size_t)a->count,
                                 .published = x->s->view->devices_len,
                                 .all = a->mode_all,
                                 .alternative = x->s->p.requests[a->request].has_alternatives};
    for (uint32_t d = 0; d < x->s->view->devices_len; d++) {
        if (!funnel_refuse_device(x, a, d, &r)) {
            f->f.usable++;
            continue;
        }
        f->rows[d] = (uint8_t)(r.row + 1);
        (*row_count(&f->f, r.row))++;
        r.device = d;
        if (r.what.n)
            funnel_add_reason(x, f, &r);
    }
    f->f.satisfied = f->f.usable >= f->f.wanted && !(a->mode_all && a->count == 0);
}

static uint64_t funnel_state(const struct draft_funnel *f)
{
    uint64_t h = state_mix(f->f.usable, f->f.published);
    uint64_t sum = 0;
    for (int row = 0; row <= ALLOC_ROW_ATTRIBUTE; row++)
        h = state_mix(h, explain_funnel_row(&f->f, (enum alloc_row)row));
    for (size_t i = 0; i < f->reasons.n; i++) {
        const struct draft_reason *r = &f->reasons.p[i];
        uint64_t one = state_mix(r->row, r->devices);
        one = state_mix(one, state_text(r->what));
        one = state_mix(one, r->value.n ? state_text(r->value) : 0);
        sum += state_mix(one, (uint64_t)r->needs); // in whatever order they were met
    }
    return state_mix(state_mix(h, sum), f->f.wanted);
}

static uint64_t state_of_pools(const struct alloc_view *v)
{
    uint64_t h = 0;
    for (size_t i = 0; i < v->pools_len; i++)
        h += state_mix(v->pools[i].incomplete, v->pools[i].invalid);
    return h;
}

bool explain_begin(struct explainer *x, struct alloc_solver *s, const struct alloc_view *view,
                   const struct api_resource_claim *const *claims, size_t claims_len,
                   struct kept_programs *kept)
{
    *x = (struct explainer){.s = s, .kept = kept};
    solver_begin(s, view);
    if (!problem_build(s, claims, claims_len))
        return false;
    explain_terms_begin(s);
    x->sets = arena_array(&s->arena, struct judged_set, s->p.selsets_len + 1);
    x->funnels = arena_array(&s->arena, struct draft_funnel, s->p.alternatives_len + 1);
    for (size_t i = 0; i < s->p.alternatives_len; i++) {
        const struct alternative *a = &s->p.alternatives[i];
        if (!s->p.selsets[a->selset].class_only && !explain_judge_set(x, a->selset))
            return false;
        funnel_count_devices(x, a, &x->funnels[i]);
    }
    explain_conflicts(x);
    return true;
}

uint64_t explain_hash(const struct explainer *x)
{
    uint64_t h = state_of_pools(x->s->view);
    for (size_t i = 0; i < x->s->p.alternatives_len; i++)
        h = state_mix(h, funnel_state(&x->funnels[i]));
    for (size_t i = 0; i < x->conflicts_len; i++) {
        const struct alloc_conflict *c = &x->conflicts[i].c;
        h = state_mix(h, state_mix(c->kind, state_mix(c->needed, c->best)));
    }
    return h;
}

void explain_end(struct explainer *x)
{
    for (size_t i = 0; x->sets && !x->kept && i < x->s->p.selsets_len; i++)
        for (size_t k = 0; k < x->sets[i].terms_len; k++)
            cel_program_free(x->sets[i].terms[k].program);
    x->sets = NULL;
}

// --- Texts ---------------------------------------------------------------------------------------

struct str explain_amount_text(struct arena *arena, amount v, const struct quantity *like)
{
    const amount nano = 1000000000;
    cleanup_sbuf struct sbuf b = {0};
    struct quantity q = {.format = like ? like->format : QUANTITY_DECIMAL_SI};
    bool whole = v % nano == 0;
    amount units = whole ? v / nano : v / 1000000;
    if (units > INT64_MAX || units < INT64_MIN)
        return STR("very much");
    q.value = (int64_t)units;
    q.scale = whole ? 0 : -3;
    quantity_write_canonical(&q, &b);
    return arena_str(arena, sbuf_str(&b));
}

static int reason_cmp(const void *x, const void *y)
{
    const struct alloc_reason *a = x;
    const struct alloc_reason *b = y;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    if (a->devices != b->devices)
        return a->devices > b->devices ? -1 : 1;
    return str_cmp(a->what, b->what);
}

// Does this one fail on the device, and with which text? An answer that is known is not made again.
static bool explain_failed(const struct explainer *x, const struct cel_program *p,
                           const struct answer_set *answers, const struct cl_device *d,
                           struct str *ret)
{
    struct cel_result r;
    enum match_state known = answer_find(answers, d);
    *ret = STR("the expression does not compile");
    if (!p)
        return true;
    if (known == MATCH_ERROR)
        *ret = answer_failure(answers, d);
    if (known != MATCH_UNKNOWN)
        return known == MATCH_ERROR;
    (void)answer_eval_device(x->s->view->cluster, d, x->s->run, p, &r);
    answer_charge(x->s->options.meter, &r);
    *ret = r.error;
    return r.failed;
}

// Why a selector fails on a device. Class selectors come first, as in the search.
static struct str funnel_failure_text(const struct explainer *x, const struct alternative *a,
                                      uint32_t device, struct arena *arena)
{
    const struct cl_device *d = x->s->view->devices[device].cl;
    const struct judged_set *set = &x->sets[a->selset];
    size_t classes = a->class_->api->spec.selectors.n;
    for (size_t i = 0; i < classes + set->terms_len; i++) {
        const struct flat_term *t = i < classes ? NULL : &set->terms[i - classes];
        struct str text;
        if (explain_failed(x, t ? t->program : a->class_->programs[i],
                           t ? explain_term_answers(x, t) : NULL, d, &text))
            return arena_str(arena, text);
    }
    return (struct str){0};
}

// key=value:effect
static struct str funnel_taint_text(const struct draft_reason *d, struct arena *arena)
{
    const struct str parts[] = {d->what, d->value.n ? STR("=") : (struct str){0}, d->value,
                                STR(":"), d->effect};
    size_t n = 0;
    for (size_t i = 0; i < array_len(parts); i++)
        n += parts[i].n;
    char *text = arena_alloc(arena, n + 1, 1);
    n = 0;
    for (size_t i = 0; i < array_len(parts); i++) {
        if (parts[i].n)
            memcpy(text + n, parts[i].p, parts[i].n);
        n += parts[i].n;
    }
    return str_make(text, n);
}

static struct alloc_reason finish_reason(const struct explainer *x, size_t funnel,
                                         const struct draft_reason *d, struct arena *arena)
{
    struct alloc_reason r = {
        .row = d->row, .devices = d->devices, .term = d->term, .shortage = d->shortage};
    r.what = d->row == ALLOC_ROW_TAINTED ? funnel_taint_text(d, arena) : arena_str(arena, d->what);
    if (d->row == ALLOC_ROW_SELECTOR_FAILED && !x->s->no_error_texts)
        r.error = funnel_failure_text(x, &x->s->p.alternatives[funnel], d->device, arena);
    if (d->amounts) {
        r.needs = explain_amount_text(arena, d->needs, d->unit);
        r.has = explain_amount_text(arena, d->has > 0 ? d->has : 0, d->unit);
        if (d->row == ALLOC_ROW_CAPACITY && d->whole < d->needs)
            r.whole = explain_amount_text(arena, d->whole, d->unit);
    }
    return r;
}

static void finish_funnel(const struct explainer *x, size_t i, struct arena *arena,
                          struct alloc_funnel *f)
{
    const struct draft_funnel *d = &x->funnels[i];
    const struct api_object_meta *m = &x->s->p.claims[x->s->p.alternatives[i].claim].api->metadata;
    struct alloc_reason *reasons = arena_array(arena, struct alloc_reason, d->reasons.n + 1);
    char *name = arena_alloc(arena, m->namespace.n + m->name.n + 2, 1);
    size_t n = m->namespace.n ? m->namespace.n + 1 : 0;
    if (n) {
        memcpy(name, m->namespace.p, m->namespace.n);
        name[n - 1] = '/';
    }
    if (m->name.n)
        memcpy(name + n, m->name.p, m->name.n);
    *f = d->f;
    f->claim = str_make(name, n + m->name.n);
    f->request = arena_str(arena, f->request);
    for (size_t k = 0; k < d->reasons.n; k++)
        reasons[k] = finish_reason(x, i, &d->reasons.p[k], arena);
    if (d->reasons.n > 1)
        qsort(reasons, d->reasons.n, sizeof(*reasons), reason_cmp);
    f->reasons = reasons;
    f->reasons_len = d->reasons.n;
}

static void explain_copy_pools(const struct alloc_view *v, struct arena *arena,
                               struct alloc_explanation *ret)
{
    cleanup_sbuf struct sbuf b = {0};
    bool good = true;
    for (size_t i = 0; i < v->pools_len; i++)
        good &= !v->pools[i].incomplete && !v->pools[i].invalid;
    if (good)
        return;
    for (size_t i = 0; i < v->pools_len; i++) {
        const struct vw_pool *p = &v->pools[i];
        if (!p->incomplete && !p->invalid)
            continue;
        ret->pools_unusable++;
        if (b.n)
            continue;
        sbuf_addf(&b, "pool %.*s/%.*s does not count: ", STR_ARG(p->driver), STR_ARG(p->name));
        if (p->incomplete)
            sbuf_addz(&b, "slices are missing, its driver may be updating it");
        else
            sbuf_add(&b, p->invalid_reason);
    }
    if (ret->pools_unusable > 1)
        sbuf_addf(&b, " (and %zu more)", ret->pools_unusable - 1);
    ret->pools = arena_str(arena, sbuf_str(&b));
}

void explain_finish(struct explainer *x, struct arena *arena, struct alloc_explanation *ret)
{
    size_t n = x->s->p.alternatives_len;
    struct alloc_funnel *fs = arena_array(arena, struct alloc_funnel, n + 1);
    size_t least = SIZE_MAX;
    *ret = (struct alloc_explanation){.funnels = fs, .funnels_len = n, .nearest = SIZE_MAX};
    x->finished = fs;
    for (size_t i = 0; i < n; i++) {
        finish_funnel(x, i, arena, &fs[i]);
        size_t missing = fs[i].wanted > fs[i].usable ? fs[i].wanted - fs[i].usable : 0;
        if (!fs[i].satisfied && missing < least) {
            least = missing;
            ret->nearest = i;
        }
    }
    ret->enough_each = ret->nearest == SIZE_MAX;
    explain_conflict_texts(x, arena, ret);
    explain_copy_pools(x->s->view, arena, ret);
}

// --- Holders -------------------------------------------------------------------------------------

static void count_owner(struct holders *h, struct str owner)
{
    if (owner.n == 0)
        return;
    if (!h->last_count || h->last.p != owner.p) {
        h->last = owner;
        h->last_count = map_put(&h->counts, owner);
    }
    (*h->last_count)++;
}

// Every claim that has the device, or a share of it.
static void count_owners(const struct alloc_cluster *c, const struct cl_device *d, struct sbuf *key,
                         struct holders *out)
{
    if (d->exclusive_use && !d->shared_use && d->owner) {
        count_owner(out, d->owner->owner);
        return;
    }
    sbuf_clear(key);
    sbuf_add(key, d->slice->spec.driver);
    sbuf_addc(key, '\0');
    sbuf_add(key, d->slice->spec.pool.name);
    sbuf_addc(key, '\0');
    sbuf_add(key, d->api->name);
    const struct cl_use *u = map_get(&c->uses, sbuf_str(key));
    bool told = false;
    for (size_t i = 0; u && i < u->capacities.n; i++) {
        const struct alloc_use *use = &c->use_list[u->capacities.p[i]];
        told |= use == u->owner;
        count_owner(out, use->owner);
    }
    if (u && u->owner && !told)
        count_owner(out, u->owner->owner);
}

// Marks the counter sets in which a device finds too little.
static void mark_short_sets(const struct alloc_view *v, const struct vw_device *d, bool *sets)
{
    for (uint16_t i = 0; i < d->counters_len; i++) {
        const struct counter_use *u = &v->counter_uses[d->first_counter + i];
        sets[v->counters.set[u->counter]] |= u->value > v->counters.available[u->counter];
    }
}

static bool draws_on(const struct alloc_view *v, const struct vw_device *d, const bool *sets)
{
    for (uint16_t i = 0; i < d->groups_len; i++)
        if (sets[v->group_uses[d->first_group + i].set])
            return true;
    return false;
}

// Would the device be too small even if it were unused?
static bool too_small(struct explainer *x, const struct alternative *a, uint32_t device)
{
    struct draft_reason r;
    return capacity_short(x, a, device, &r) && (!r.amounts || r.whole < r.needs);
}

void explain_holders(struct explainer *x, size_t i, struct holders *out)
{
    const struct alloc_view *v = x->s->view;
    const struct draft_funnel *f = &x->funnels[i];
    cleanup_sbuf struct sbuf key = {0};
    bool *sets = NULL;
    if (f->f.in_use + f->f.capacity_short + f->f.counters_short == 0)
        return;
    if (f->f.counters_short) {
        sets = arena_array(&x->s->arena, bool, v->sets_len + 1);
        for (uint32_t d = 0; d < v->devices_len; d++)
            if (f->rows[d] == ALLOC_ROW_COUNTERS + 1)
                mark_short_sets(v, &v->devices[d], sets);
    }
    for (uint32_t d = 0; d < v->devices_len; d++) {
        const struct vw_device *vd = &v->devices[d];
        if (!vd->exclusive_use && !vd->shared_use)
            continue;
        if (f->rows[d] == ALLOC_ROW_IN_USE + 1 ||
            (f->rows[d] == ALLOC_ROW_CAPACITY + 1 && !too_small(x, &x->s->p.alternatives[i], d)) ||
            (sets && draws_on(v, vd, sets)))
            count_owners(v->cluster, vd->cl, &key, out);
    }
}

void explain_name_holders(struct alloc_funnel *f, const struct holders *h, struct arena *arena)
{
    size_t n = f->reasons_len;
    if (map_len(&h->counts) == 0)
        return;
    struct alloc_reason *all = arena_array(arena, struct alloc_reason, n + map_len(&h->counts));
    if (n)
        memcpy(all, f->reasons, n * sizeof(*all));
    map_foreach(&h->counts, k)
        all[n++] = (struct alloc_reason){.row = ALLOC_ROW_IN_USE,
                                         .what = map_key(&h->counts, k),
                                         .devices = *map_value(&h->counts, k)};
    qsort(all, n, sizeof(*all), reason_cmp);
    f->reasons = all;
    f->reasons_len = n;
}

bool alloc_explain(struct alloc_solver *s, const struct alloc_view *view,
                   const struct api_resource_claim *const *claims, size_t claims_len,
                   struct alloc_explanation *ret)
{
    struct explainer x;
    bool ok = explain_begin(&x, s, view, claims, claims_len, NULL);
    if (ok) {
        explain_finish(&x, &s->arena, ret);
        for (size_t i = 0; i < ret->funnels_len; i++) {
            struct holders h = {0};
            explain_holders(&x, i, &h);
            explain_name_holders(&x.finished[i], &h, &s->arena);
            map_done(&h.counts);
        }
    }
    explain_end(&x);
    return ok;
}
