// SPDX-License-Identifier: Apache-2.0
//
// What keeps requests from being satisfied together when each has enough devices: constraints,
// which need one value or enough values; devices that several requests want; shared counters.
//
// Everything reported here is certain: a bound is broken even when all else is left aside. When no
// bound is, the requests still do not fit together, and the answer reports that.
#include "alloc/explain/explain_int.h"

#include "base/banned.h"

#define PAIRS_MAX 32 // requests among which pairs are compared

// A usable device of a request has a value.
struct has_value {
    uint32_t id;
    uint32_t request; // position among those in scope
    uint32_t device;
};

// A request in the scope of a constraint, with what it needs at least.
struct scoped {
    uint32_t request;
    size_t wanted; // by the alternative that wants least
};

struct scope {
    const struct constraint *k;
    struct scoped *requests;
    size_t n;
    size_t wanted; // by all of them
    struct VEC(struct has_value) values;
};

static bool conflict_is_satisfied(const struct explainer *x, const struct request *q)
{
    for (uint32_t i = 0; i < q->n; i++)
        if (x->funnels[q->first + i].f.satisfied)
            return true;
    return false;
}

static void conflict_add(struct explainer *x, const struct draft_conflict *d)
{
    x->conflicts[x->conflicts_len++] = *d;
}

// --- Constraints ---------------------------------------------------------------------------------

static void scope_values(struct explainer *x, struct scope *sc, const struct alternative *a,
                         uint32_t column, uint32_t position)
{
    const uint8_t *rows = x->funnels[a - x->s->p.alternatives].rows;
    for (uint32_t d = 0; d < x->s->view->devices_len; d++) {
        if (rows[d])
            continue;
        const struct attr_value *v = attr_column_value(x->s, column, d);
        for (uint16_t i = 0; i < v->n; i++)
            vec_push_arena(&x->s->arena, &sc->values, (struct has_value){v->ids[i], position, d});
    }
}

// Requests that the constraint binds. One with an alternative out of scope is not bound.
static void conflict_find_scope(struct explainer *x, const struct claim *c, uint32_t j,
                                struct scope *sc)
{
    struct alloc_solver *s = x->s;
    *sc = (struct scope){.k = &s->p.constraints[c->first_constraint + j],
                         .requests = arena_array(&s->arena, struct scoped, c->requests_len + 1)};
    for (uint32_t i = 0; i < c->requests_len; i++) {
        const struct request *q = &s->p.requests[c->first_request + i];
        size_t least = SIZE_MAX;
        bool bound = true;
        for (uint32_t k = 0; k < q->n; k++) {
            const struct alternative *a = &s->p.alternatives[q->first + k];
            bound &= a->columns[j] != UINT32_MAX;
            if ((size_t)a->count < least)
                least = (size_t)a->count;
        }
        if (!bound)
            continue;
        for (uint32_t k = 0; k < q->n; k++)
            scope_values(x, sc, &s->p.alternatives[q->first + k],
                         s->p.alternatives[q->first + k].columns[j], (uint32_t)sc->n);
        sc->requests[sc->n++] = (struct scoped){c->first_request + i, least};
        sc->wanted += least;
    }
}

static int conflict_value_cmp(const void *x, const void *y)
{
    const struct has_value *a = x;
    const struct has_value *b = y;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    if (a->request != b->request)
        return a->request < b->request ? -1 : 1;
    return a->device < b->device ? -1 : a->device > b->device;
}

// Devices with one value, request by request; a device of two alternatives counts once.
static void conflict_count_value(const struct has_value *p, size_t n, size_t *counts)
{
    for (size_t i = 0; i < n; i++)
        if (i == 0 || p[i].request != p[i - 1].request || p[i].device != p[i - 1].device)
            counts[p[i].request]++;
}

static struct str request_name(const struct explainer *x, uint32_t request)
{
    const struct request *q = &x->s->p.requests[request];
    const struct claim *c = &x->s->p.claims[q->claim];
    return c->api->spec.devices.requests.p[request - c->first_request].name;
}

static struct str value_text(struct explainer *x, uint32_t id)
{
    const struct alloc_cluster *c = x->s->view->cluster;
    struct str key = {0};
    map_foreach(&c->values, i)
        if (*map_value(&c->values, i) == id)
            key = map_key(&c->values, i);
    map_foreach(&x->s->p.local_values, i)
        if (*map_value(&x->s->p.local_values, i) == id)
            key = map_key(&x->s->p.local_values, i);
    struct str bytes = str_from(key, 1);
    if (key.n && key.p[0] == 'i' && bytes.n == sizeof(int64_t)) {
        int64_t v;
        memcpy(&v, bytes.p, sizeof(v));
        return arena_strf(&x->s->arena, "%lld", (long long)v);
    }
    if (key.n && key.p[0] == 'b')
        return str_eqz(bytes, "1") ? STR("true") : STR("false");
    return bytes;
}

struct run {
    size_t from, n; // in scope.values
    size_t count;   // devices as far as they are wanted
};

static int run_cmp(const void *x, const void *y)
{
    const struct run *a = x;
    const struct run *b = y;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return a->from < b->from ? -1 : a->from > b->from;
}

// Devices of a run, each once; no bound when one can be had several times. seen has a mark a
// device.
static size_t distinct_devices(const struct explainer *x, const struct has_value *p, size_t n,
                               uint32_t *seen, uint32_t mark)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (x->s->view->devices[p[i].device].shared)
            return SIZE_MAX;
        count += seen[p[i].device] != mark;
        seen[p[i].device] = mark;
    }
    return count;
}

// Cuts the sorted values into runs of equal ones. wanted bounds what a request can use.
static struct run *cut_runs(struct explainer *x, const struct scope *sc, size_t *ret_n)
{
    struct run *runs = arena_array(&x->s->arena, struct run, sc->values.n + 1);
    size_t *counts = arena_array(&x->s->arena, size_t, sc->n + 1);
    uint32_t *seen = arena_array(&x->s->arena, uint32_t, x->s->view->devices_len + 1);
    size_t n = 0;
    for (size_t i = 0; i < sc->values.n;) {
        size_t end = i;
        while (end < sc->values.n && sc->values.p[end].id == sc->values.p[i].id)
            end++;
        memset(counts, 0, sc->n * sizeof(*counts));
        conflict_count_value(sc->values.p + i, end - i, counts);
        runs[n] = (struct run){.from = i, .n = end - i};
        for (size_t k = 0; k < sc->n; k++)
            runs[n].count +=
                counts[k] < sc->requests[k].wanted ? counts[k] : sc->requests[k].wanted;
        size_t together = distinct_devices(x, sc->values.p + i, end - i, seen, (uint32_t)n + 1);
        if (together < runs[n].count)
            runs[n].count = together;
        n++;
        i = end;
    }
    *ret_n = n;
    return runs;
}

static void conflict_check_constraint(struct explainer *x, const struct claim *c, uint32_t j)
{
    struct scope *sc = arena_one(&x->s->arena, struct scope);
    size_t n = 0;
    conflict_find_scope(x, c, j, sc);
    if (sc->n == 0 || sc->wanted == 0)
        return;
    if (sc->values.n)
        qsort(sc->values.p, sc->values.n, sizeof(*sc->values.p), conflict_value_cmp);
    struct run *runs = cut_runs(x, sc, &n);
    size_t best = 0;
    for (size_t i = 0; i < n; i++)
        if (runs[i].count > best)
            best = runs[i].count;
    if (sc->k->distinct)
        best = n;
    if (best >= sc->wanted)
        return;
    enum alloc_conflict_kind kind =
        sc->k->distinct ? ALLOC_CONFLICT_DISTINCT : ALLOC_CONFLICT_MATCH;
    conflict_add(x, &(struct draft_conflict){.c = {.kind = kind,
                                                   .what = sc->k->attribute,
                                                   .claim = c->api->metadata.name,
                                                   .needed = sc->wanted,
                                                   .best = best},
                                             .scope = sc,
                                             .runs = runs,
                                             .runs_len = n});
}

// --- The same devices ----------------------------------------------------------------------------

static size_t conflict_fewest_devices(const struct explainer *x, const struct request *q)
{
    size_t least = SIZE_MAX;
    for (uint32_t i = 0; i < q->n; i++)
        if ((size_t)x->s->p.alternatives[q->first + i].count < least)
            least = (size_t)x->s->p.alternatives[q->first + i].count;
    return least;
}

static bool usable_for(const struct explainer *x, const struct request *q, uint32_t device)
{
    for (uint32_t i = 0; i < q->n; i++)
        if (!x->funnels[q->first + i].rows[device])
            return true;
    return false;
}

static bool conflict_is_admin(const struct explainer *x, const struct request *q)
{
    return x->s->p.alternatives[q->first].admin;
}

// Too few devices for requests a and b, or for all when a == b.
static bool conflict_requests_compete(struct explainer *x, uint32_t a, uint32_t b)
{
    struct alloc_solver *s = x->s;
    size_t needed = 0, have = 0;
    for (uint32_t i = 0; i < s->p.requests_len; i++)
        if (!conflict_is_admin(x, &s->p.requests[i]) && (a == b || i == a || i == b))
            needed += conflict_fewest_devices(x, &s->p.requests[i]);
    for (uint32_t d = 0; d < s->view->devices_len; d++) {
        bool wanted = false;
        for (uint32_t i = 0; i < s->p.requests_len && !wanted; i++)
            wanted = !conflict_is_admin(x, &s->p.requests[i]) && (a == b || i == a || i == b) &&
                     usable_for(x, &s->p.requests[i], d);
        if (wanted && s->view->devices[d].shared)
            return false; // it can be had more than once
        have += wanted;
    }
    if (have >= needed)
        return false;
    conflict_add(x, &(struct draft_conflict){
                        .c = {.kind = ALLOC_CONFLICT_DEVICES, .needed = needed, .best = have},
                        .a = a,
                        .b = b});
    return true;
}

static bool conflict_check_devices(struct explainer *x)
{
    uint32_t n = (uint32_t)x->s->p.requests_len;
    for (uint32_t a = 0; n > 2 && n <= PAIRS_MAX && a < n; a++)
        for (uint32_t b = a + 1; b < n; b++)
            if (!conflict_is_admin(x, &x->s->p.requests[a]) &&
                !conflict_is_admin(x, &x->s->p.requests[b]) && conflict_requests_compete(x, a, b))
                return true;
    return n > 1 && conflict_requests_compete(x, 0, 0);
}

// --- Counters ------------------------------------------------------------------------------------

static int amount_cmp(const void *x, const void *y)
{
    const amount *a = x;
    const amount *b = y;
    return *a < *b ? -1 : *a > *b;
}

// How many of the devices one counter carries at most: the least draws first.
static size_t conflict_count_carried(const struct alloc_view *v, const uint32_t *devices, size_t n,
                                     uint32_t counter, amount *draws)
{
    size_t drawing = 0, fit = 0;
    amount sum = 0;
    for (size_t i = 0; i < n; i++) {
        const struct vw_device *d = &v->devices[devices[i]];
        for (uint16_t k = 0; k < d->counters_len; k++)
            if (v->counter_uses[d->first_counter + k].counter == counter)
                draws[drawing++] = v->counter_uses[d->first_counter + k].value;
    }
    qsort(draws, drawing, sizeof(*draws), amount_cmp);
    while (fit < drawing && sum + draws[fit] <= v->counters.available[counter])
        sum += draws[fit++];
    return n - drawing + fit;
}

// The set that a device counts in: its first. The last one is for devices without counters.
static uint32_t conflict_set_of(const struct alloc_view *v, const struct vw_device *d)
{
    return d->groups_len ? v->group_uses[d->first_group].set : (uint32_t)v->sets_len;
}

static size_t set_carries(const struct alloc_view *v, uint32_t set, const uint32_t *devices,
                          size_t n, amount *draws)
{
    size_t best = n;
    for (uint32_t c = 0; n && set < v->sets_len && c < v->counters.n; c++) {
        size_t fit =
            v->counters.set[c] == set ? conflict_count_carried(v, devices, n, c, draws) : n;
        best = fit < best ? fit : best;
    }
    return best;
}

// An upper bound of how many devices can be had at once, of those that one request or (NULL) any of
// them could use. No bound when one can be had several times.
static size_t counters_carry(struct explainer *x, const struct request *only)
{
    const struct alloc_view *v = x->s->view;
    uint32_t *devices = arena_array(&x->s->arena, uint32_t, v->devices_len + 1);
    size_t n = 0, draws_len = 0, total = 0;
    for (uint32_t d = 0; d < v->devices_len; d++) {
        bool wanted = only && usable_for(x, only, d);
        for (uint32_t i = 0; !only && i < x->s->p.requests_len && !wanted; i++)
            wanted = usable_for(x, &x->s->p.requests[i], d);
        if (!wanted)
            continue;
        if (v->devices[d].shared)
            return SIZE_MAX;
        devices[n++] = d;
        draws_len += v->devices[d].counters_len;
    }
    amount *draws = arena_array(&x->s->arena, amount, draws_len + 1);
    uint32_t *of_set = arena_array(&x->s->arena, uint32_t, n + 1);
    for (uint32_t set = 0; set <= v->sets_len; set++) {
        size_t k = 0;
        for (size_t i = 0; i < n; i++)
            if (conflict_set_of(v, &v->devices[devices[i]]) == set)
                of_set[k++] = devices[i];
        total += set_carries(v, set, of_set, k, draws);
    }
    return total;
}

static bool counters_lack(struct explainer *x, uint32_t a, uint32_t b, size_t needed, size_t carry)
{
    if (carry >= needed)
        return false;
    conflict_add(x, &(struct draft_conflict){
                        .c = {.kind = ALLOC_CONFLICT_COUNTERS, .needed = needed, .best = carry},
                        .a = a,
                        .b = b});
    return true;
}

static bool conflict_check_counters(struct explainer *x)
{
    struct alloc_solver *s = x->s;
    size_t needed = 0;
    uint32_t n = (uint32_t)s->p.requests_len;
    if (s->view->counters.n == 0 || s->p.any_admin)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        size_t wanted = conflict_fewest_devices(x, &s->p.requests[i]);
        size_t carry = wanted > 1 ? counters_carry(x, &s->p.requests[i]) : SIZE_MAX;
        needed += wanted;
        if (counters_lack(x, i, UINT32_MAX, wanted, carry))
            return true;
    }
    return n > 1 && counters_lack(x, 0, 0, needed, counters_carry(x, NULL));
}

// --- All of it -----------------------------------------------------------------------------------

void explain_conflicts(struct explainer *x)
{
    struct alloc_solver *s = x->s;
    x->conflicts = arena_array(&s->arena, struct draft_conflict, s->p.constraints_len + 2);
    for (size_t i = 0; i < s->p.requests_len; i++)
        if (!conflict_is_satisfied(x, &s->p.requests[i]))
            return; // that is reason enough
    for (size_t i = 0; i < s->p.claims_len; i++)
        for (uint32_t j = 0; j < s->p.claims[i].constraints_len; j++)
            conflict_check_constraint(x, &s->p.claims[i], j);
    if (x->conflicts_len || conflict_check_devices(x) || conflict_check_counters(x))
        return;
    conflict_add(x, &(struct draft_conflict){.c = {.kind = ALLOC_CONFLICT_TOGETHER}});
}

// --- Texts ---------------------------------------------------------------------------------------

static struct alloc_value conflict_value_of(struct explainer *x, const struct draft_conflict *d,
                                            size_t i, struct arena *arena)
{
    const struct scope *sc = d->scope;
    const struct run *r = &d->runs[i];
    size_t *counts = arena_array(&x->s->arena, size_t, sc->n + 1);
    cleanup_sbuf struct sbuf b = {0};
    conflict_count_value(sc->values.p + r->from, r->n, counts);
    for (size_t k = 0; k < sc->n; k++) {
        struct str name = request_name(x, sc->requests[k].request);
        sbuf_addz(&b, k ? ", " : "");
        if (sc->n > 1) {
            sbuf_add(&b, name);
            sbuf_addc(&b, ' ');
        }
        sbuf_add_u64(&b, counts[k]);
    }
    return (struct alloc_value){.value = arena_str(arena, value_text(x, sc->values.p[r->from].id)),
                                .devices = arena_str(arena, sbuf_str(&b)),
                                .count = r->count};
}

static void conflict_show_values(struct explainer *x, const struct draft_conflict *d,
                                 struct arena *arena, struct alloc_conflict *c)
{
    qsort(d->runs, d->runs_len, sizeof(*d->runs), run_cmp);
    size_t shown = d->runs_len < ALLOC_VALUES_SHOWN ? d->runs_len : ALLOC_VALUES_SHOWN;
    struct alloc_value *vs = arena_array(arena, struct alloc_value, shown + 1);
    for (size_t i = 0; i < shown; i++)
        vs[i] = conflict_value_of(x, d, i, arena);
    c->values = vs;
    c->values_len = shown;
    c->values_all = d->runs_len;
}

static bool conflict_concerns(const struct explainer *x, const struct draft_conflict *d,
                              uint32_t request)
{
    for (size_t i = 0; d->scope && i < d->scope->n; i++)
        if (d->scope->requests[i].request == request)
            return true;
    return !d->scope && !conflict_is_admin(x, &x->s->p.requests[request]) &&
           (d->a == d->b || request == d->a || request == d->b);
}

static struct str conflict_request_names(struct explainer *x, const struct draft_conflict *d,
                                         struct arena *arena)
{
    cleanup_sbuf struct sbuf b = {0};
    for (uint32_t i = 0; i < x->s->p.requests_len; i++)
        if (conflict_concerns(x, d, i)) {
            sbuf_addz(&b, b.n ? ", " : "");
            sbuf_add(&b, request_name(x, i));
        }
    return arena_str(arena, sbuf_str(&b));
}

void explain_conflict_texts(struct explainer *x, struct arena *arena, struct alloc_explanation *ret)
{
    struct alloc_conflict *cs = arena_array(arena, struct alloc_conflict, x->conflicts_len + 1);
    for (size_t i = 0; i < x->conflicts_len; i++) {
        const struct draft_conflict *d = &x->conflicts[i];
        cs[i] = d->c;
        cs[i].claim = arena_str(arena, d->c.claim);
        cs[i].requests = conflict_request_names(x, d, arena);
        cs[i].what = arena_str(arena, d->c.what);
        if (d->scope)
            conflict_show_values(x, d, arena, &cs[i]);
    }
    ret->conflicts = cs;
    ret->conflicts_len = x->conflicts_len;
}
