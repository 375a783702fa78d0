// SPDX-License-Identifier: Apache-2.0
//
// Which branches of the search cannot lead to a solution: the facts that reasons are built on
// (bound.c has the reasons), and the memory of states that failed.
//
// States are compared by what can still matter. Devices that no request can tell apart count as the
// same, and so do counter sets that mirror each other, such as the GPUs of a host.
//
// Upstream's errors hide behind candidates. A request whose candidates could raise one is fragile:
// reasons look no further than the next one to come, because only a branch that does not get there
// may be cut. The memory is used all the same: a branch that was walked without an error has none.
#include "alloc/search/prune_int.h"

#include "base/banned.h"

#define MEMO_SLOTS (1U << 16)
#define MEMO_WAYS  4U

static uint64_t prune_mix_hash(uint64_t h, uint64_t x)
{
    h ^= x + UINT64_C(0x9E3779B97F4A7C15) + (h << 6) + (h >> 2);
    h *= UINT64_C(0xFF51AFD7ED558CCD);
    return h ^ (h >> 32);
}

static uint64_t mix_amount(uint64_t h, amount a)
{
    return prune_mix_hash(prune_mix_hash(h, (uint64_t)a), (uint64_t)(a >> 64));
}

static uint64_t *new_bits(struct alloc_solver *s)
{
    return arena_array(&s->arena, uint64_t, s->view->devices_len / 64 + 1);
}

static uint64_t **new_rows(struct alloc_solver *s, size_t n)
{
    size_t words = s->view->devices_len / 64 + 1;
    uint64_t **rows = arena_array(&s->arena, uint64_t *, n + 1);
    uint64_t *bits = arena_array(&s->arena, uint64_t, n * words + 1);
    for (size_t i = 0; i < n; i++)
        rows[i] = bits + i * words;
    return rows;
}

// --- Static candidates ---------------------------------------------------------------------------

static bool counters_possible(const struct alloc_solver *s, const struct vw_device *d)
{
    const struct alloc_view *v = s->view;
    if (d->groups_len == 0 || (d->shared && d->shared_use))
        return true;
    if (v->pools[d->pool].overdrawn)
        return false;
    for (uint16_t i = 0; i < d->counters_len; i++) {
        const struct counter_use *u = &v->counter_uses[d->first_counter + i];
        if (u->value > v->counters.available[u->counter])
            return false;
    }
    for (uint16_t i = 0; v->cluster->features.compatibility_groups && i < d->groups_len; i++) {
        const struct group_use *u = &v->group_uses[d->first_group + i];
        const struct group_state *g = &v->groups[u->set];
        if (g->members && (u->mask == 0 ? !g->all_empty : g->all_empty || !(g->mask & u->mask)))
            return false;
    }
    return true;
}

static bool capacity_possible(struct alloc_solver *s, const struct alternative *a, uint32_t device)
{
    const struct vw_device *d = &s->view->devices[device];
    for (uint32_t i = 0; i < d->caps_len; i++) {
        const struct vw_cap *c = &s->view->caps[d->first_cap + i];
        if (c->used + need_amount(s, a, d->first_cap + i) > c->value)
            return false;
    }
    return true;
}

enum fit {
    FIT_NO,
    FIT_YES,
    FIT_ERROR,
};

static enum fit columns_fit(struct alloc_solver *s, const struct alternative *a, uint32_t device)
{
    const struct claim *c = &s->p.claims[a->claim];
    for (uint32_t j = 0; j < c->constraints_len; j++) {
        if (a->columns[j] == UINT32_MAX)
            continue;
        const struct attr_value *v = attr_column_value(s, a->columns[j], device);
        if (v->state == ATTR_ERROR)
            return FIT_ERROR;
        if (v->state == ATTR_MISSING)
            return FIT_NO;
    }
    return FIT_YES;
}

// Refused whatever is picked, before the constraints are asked.
static bool prune_is_refused(const struct alloc_solver *s, const struct alternative *a,
                             uint32_t device)
{
    const struct vw_device *d = &s->view->devices[device];
    return (!a->admin && d->exclusive_use) || d->unsupported || !counters_possible(s, d) ||
           (d->hard_taints && !select_tolerates(d->cl, a->tolerations));
}

// Could this alternative have this device if no other were picked?
static enum fit fits_alone(struct alloc_solver *s, const struct alternative *a, uint32_t device)
{
    if (!a->admin && s->view->devices[device].exclusive_use)
        return FIT_NO;
    enum match_state m = select_match(s, a, device);
    if (m != MATCH_YES)
        return m == MATCH_ERROR ? FIT_ERROR : FIT_NO;
    if (s->view->cluster->features.consumable_capacity) {
        enum need_state n = capacity_need_of(s, a, device);
        if (n == NEED_ERROR)
            return FIT_ERROR;
        if (n != NEED_OK || !capacity_possible(s, a, device))
            return FIT_NO;
    }
    return prune_is_refused(s, a, device) ? FIT_NO : columns_fit(s, a, device);
}

static bool prune_is_constrained(const struct alloc_solver *s, const struct alternative *a)
{
    for (uint32_t j = 0; j < s->p.claims[a->claim].constraints_len; j++)
        if (a->columns[j] != UINT32_MAX)
            return true;
    return false;
}

static void find_candidates(struct alloc_solver *s, struct prune *p, uint32_t index)
{
    const struct alternative *a = &s->p.alternatives[index];
    if (a->mode_all) {
        // All or nothing: a constraint that refuses one is an error, not a failure. Whether the
        // search gets that far depends on each device by itself; never if it ends at the first.
        p->fragile[index] =
            a->count && prune_is_constrained(s, a) && !prune_is_refused(s, a, a->all[0]);
        for (int64_t i = 0; i < a->count; i++) {
            if (fits_alone(s, a, a->all[i]) == FIT_YES)
                set_bit(p->cand[index], a->all[i]);
            if (p->fragile[index]) {
                set_bit(p->errors[index], a->all[i]);
                set_bit(p->unique, a->all[i]);
            }
        }
    }
    for (uint32_t d = 0; d < s->view->devices_len && !solver_tick(s, 4); d++) {
        if (!a->mode_all) {
            enum fit f = fits_alone(s, a, d);
            if (f == FIT_YES)
                set_bit(p->cand[index], d);
            if (f == FIT_ERROR) {
                set_bit(p->errors[index], d);
                p->fragile[index] = true;
            }
        }
        if (test_bit(p->cand[index], d) && s->view->devices[d].shared)
            p->sharing[index] = true;
    }
}

// --- What makes devices the same -----------------------------------------------------------------

// What requests and constraints can tell about a device.
static uint64_t plain_signature(struct alloc_solver *s, const struct prune *p, uint32_t device)
{
    const struct alloc_view *v = s->view;
    const struct vw_device *d = &v->devices[device];
    uint64_t h = prune_mix_hash(d->shared, d->groups_len);
    if (test_bit(p->unique, device))
        h = prune_mix_hash(h, device + 1);
    for (size_t i = 0; i < s->p.alternatives_len; i++)
        h = prune_mix_hash(h, (uint64_t)test_bit(p->cand[i], device) * 2 +
                                  test_bit(p->errors[i], device));
    for (size_t i = 0; i < s->p.columns_len; i++) {
        const struct attr_value *x = &s->p.columns[i].values[device];
        h = prune_mix_hash(h, x->state);
        for (uint16_t k = 0; k < x->n; k++)
            h = prune_mix_hash(h, x->ids[k]);
    }
    if (!d->shared)
        return h;
    h = prune_mix_hash(h, d->shared_use);
    for (uint32_t i = 0; i < d->caps_len; i++) {
        const struct vw_cap *c = &v->caps[d->first_cap + i];
        h = mix_amount(mix_amount(h, c->value - c->used), c->default_need);
        for (size_t k = 1; k < s->p.capreqs_len; k++)
            if (s->p.capreqs[k].state[device] == NEED_OK)
                h = mix_amount(h, s->p.capreqs[k].need[d->first_cap + i]);
    }
    return h;
}

// With what it draws, the counters named by number.
static uint64_t signature_of(const struct alloc_solver *s, uint64_t h, const struct vw_device *d)
{
    const struct alloc_view *v = s->view;
    for (uint16_t i = 0; i < d->counters_len; i++) {
        const struct counter_use *u = &v->counter_uses[d->first_counter + i];
        h = mix_amount(prune_mix_hash(h, u->counter), u->value);
    }
    for (uint16_t i = 0; i < d->groups_len; i++)
        h = prune_mix_hash(prune_mix_hash(h, v->group_uses[d->first_group + i].set),
                           v->group_uses[d->first_group + i].mask);
    return h;
}

// With what it draws, the counters named by their place in the set.
static uint64_t mirror_of(const struct alloc_solver *s, uint64_t h, const struct vw_device *d,
                          const uint32_t *first_counter)
{
    const struct alloc_view *v = s->view;
    uint32_t set = v->group_uses[d->first_group].set;
    for (uint16_t i = 0; i < d->counters_len; i++) {
        const struct counter_use *u = &v->counter_uses[d->first_counter + i];
        h = mix_amount(prune_mix_hash(h, u->counter - first_counter[set]), u->value);
    }
    return prune_mix_hash(h, v->group_uses[d->first_group].mask);
}

static void shape_sets(struct alloc_solver *s, struct prune *p)
{
    const struct alloc_view *v = s->view;
    uint32_t *first = arena_array(&s->arena, uint32_t, v->sets_len + 1);
    for (size_t c = v->counters.n; c-- > 0;)
        first[v->counters.set[c]] = (uint32_t)c;
    for (size_t c = 0; c < v->counters.n; c++) {
        struct set_shape *shape = &p->sum.shapes[v->counters.set[c]];
        shape->hash += mix_amount(prune_mix_hash(0x5E7, c - first[v->counters.set[c]]),
                                  v->counters.available[c]);
    }
    for (size_t i = 0; i < v->sets_len; i++)
        p->sum.shapes[i].hash =
            prune_mix_hash(prune_mix_hash(p->sum.shapes[i].hash, v->groups[i].mask),
                           v->groups[i].members * 2U + v->groups[i].all_empty);
    for (uint32_t i = 0; i < v->devices_len; i++) {
        const struct vw_device *d = &v->devices[i];
        if (d->groups_len == 0)
            continue;
        p->mirrored[i] = mirror_of(s, p->mirrored[i], d, first);
        for (uint16_t k = 0; d->groups_len > 1 && k < d->groups_len; k++)
            p->sum.shapes[v->group_uses[d->first_group + k].set].alone = true;
        p->sum.shapes[v->group_uses[d->first_group].set].hash +=
            prune_mix_hash(p->mirrored[i], 0xDE7);
    }
}

// --- Values --------------------------------------------------------------------------------------

// Where a value is, or would be.
static size_t prune_place_of(const struct column_values *c, uint32_t id)
{
    size_t low = 0;
    size_t high = c->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c->p[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct value_bits *prune_value(const struct column_values *c, uint32_t id)
{
    size_t at = prune_place_of(c, id);
    return at < c->n && c->p[at].id == id ? &c->p[at] : NULL;
}

static int by_id(const void *x, const void *y)
{
    const struct value_bits *a = x;
    const struct value_bits *b = y;
    return (a->id > b->id) - (a->id < b->id);
}

// Only devices that some alternative could have were looked up; the others have no value here.
static void collect_values(struct alloc_solver *s, struct prune *p, size_t column)
{
    const struct column *c = &s->p.columns[column];
    struct column_values *out = &p->values[column];
    size_t most = 0;
    for (size_t d = 0; d < s->view->devices_len; d++)
        most += c->values[d].n;
    out->p = arena_array(&s->arena, struct value_bits, most + 1);
    out->without = new_bits(s);
    for (uint32_t d = 0; d < s->view->devices_len; d++)
        for (uint16_t k = 0; k < c->values[d].n; k++)
            out->p[out->n++].id = c->values[d].ids[k];
    qsort(out->p, out->n, sizeof(*out->p), by_id);
    size_t n = 0;
    for (size_t i = 0; i < out->n; i++)
        if (n == 0 || out->p[n - 1].id != out->p[i].id)
            out->p[n++].id = out->p[i].id;
    out->n = n;
    uint64_t *bits = arena_array(&s->arena, uint64_t, n * p->words + 1);
    for (size_t i = 0; i < n; i++)
        out->p[i].bits = bits + i * p->words;
    out->of = arena_array(&s->arena, uint32_t, s->view->devices_len + 1);
    for (uint32_t d = 0; d < s->view->devices_len; d++) {
        if (c->values[d].n > 1)
            out->of = NULL;
        else if (c->values[d].n && out->of)
            out->of[d] = (uint32_t)prune_place_of(out, c->values[d].ids[0]) + 1;
        if (c->values[d].state == ATTR_NO_VALUE) {
            set_bit(out->without, d);
            out->any_without = true;
        }
        for (uint16_t k = 0; k < c->values[d].n; k++)
            set_bit(out->p[prune_place_of(out, c->values[d].ids[k])].bits, d);
    }
}

// --- Preparation ---------------------------------------------------------------------------------

static void prepare_suffixes(struct alloc_solver *s, struct prune *p)
{
    p->later = new_rows(s, s->p.requests_len + 1);
    p->next_fragile = arena_array(&s->arena, uint32_t, s->p.requests_len + 1);
    p->next_fragile[s->p.requests_len] = (uint32_t)s->p.requests_len;
    for (size_t r = s->p.requests_len; r-- > 0;) {
        const struct request *q = &s->p.requests[r];
        memcpy(p->later[r], p->later[r + 1], p->words * sizeof(uint64_t));
        p->next_fragile[r] = p->next_fragile[r + 1];
        for (uint32_t k = 0; k < q->n; k++) {
            for (size_t w = 0; w < p->words; w++)
                p->later[r][w] |= p->cand[q->first + k][w] | p->errors[q->first + k][w];
            if (p->fragile[q->first + k])
                p->next_fragile[r] = (uint32_t)r;
        }
    }
}

static void prepare_scratch(struct alloc_solver *s, struct prune *p)
{
    const struct alloc_view *v = s->view;
    size_t counters = v->counters.n + 1;
    size_t sets = v->sets_len + 1;
    size_t values = 0;
    for (size_t i = 0; i < s->p.columns_len; i++)
        if (p->values[i].n > values)
            values = p->values[i].n;
    const struct piece pieces[] = {
        PIECE(p->range, p->words),
        PIECE(p->visited, p->words),
        PIECE(p->now.usable, p->words),
        PIECE(p->now.merged, p->words),
        PIECE(p->now.mask, p->words),
        PIECE(p->now.bound, s->p.requests_len + 1),
        PIECE(p->owner, p->words * 64),
        PIECE(p->slot_bits, MATCHING_SLOTS_MAX + 1),
        PIECE(p->now.needs, s->p.constraints_len + 1),
        PIECE(p->now.covered, s->p.requests_len + 1),
        PIECE(p->now.scope, s->p.alternatives_len + 1),
        PIECE(p->now.dirty, s->p.requests_len + 1),
        PIECE(p->now.tally, values + 1),
        PIECE(p->now.served, values + 1),
    };
    solver_allocate(s, pieces, array_len(pieces));
    const struct piece counter_pieces[] = {
        PIECE(p->sum.least, counters),   PIECE(p->sum.supply, counters),
        PIECE(p->sum.demand, counters),  PIECE(p->sum.lowest, counters),
        PIECE(p->sum.least_n, counters), PIECE(p->sum.stamp, counters),
        PIECE(p->sum.drawn_n, counters), PIECE(p->sum.in_set, sets),
        PIECE(p->sum.limit, sets),       PIECE(p->sum.set_stamp, sets),
        PIECE(p->sum.set_sum, sets),     PIECE(p->sum.shapes, sets),
    };
    solver_allocate(s, counter_pieces, array_len(counter_pieces));
    p->now.dom = new_rows(s, s->p.alternatives_len);
    p->now.fresh = new_rows(s, s->p.alternatives_len);
    p->now.joined = new_rows(s, s->p.requests_len);
    p->now.of_value = new_rows(s, s->p.constraints_len ? s->p.requests_len : 0);
}

void prune_prepare(struct alloc_solver *s)
{
    const struct alloc_view *v = s->view;
    struct prune *p = arena_one(&s->arena, struct prune);
    p->words = v->devices_len / 64 + 1;
    p->cand = new_rows(s, s->p.alternatives_len);
    p->errors = new_rows(s, s->p.alternatives_len);
    p->fragile = arena_array(&s->arena, bool, s->p.alternatives_len + 1);
    p->sharing = arena_array(&s->arena, bool, s->p.alternatives_len + 1);
    p->unique = new_bits(s);
    for (uint32_t i = 0; i < s->p.alternatives_len && !s->budget.timeout; i++)
        find_candidates(s, p, i);
    prepare_suffixes(s, p);
    p->values = arena_array(&s->arena, struct column_values, s->p.columns_len + 1);
    for (size_t i = 0; i < s->p.columns_len; i++)
        collect_values(s, p, i);
    prepare_scratch(s, p);
    p->signature = arena_array(&s->arena, uint64_t, v->devices_len + 1);
    p->mirrored = arena_array(&s->arena, uint64_t, v->devices_len + 1);
    for (uint32_t i = 0; i < v->devices_len; i++) {
        p->mirrored[i] = plain_signature(s, p, i);
        p->signature[i] = signature_of(s, p->mirrored[i], &v->devices[i]);
    }
    shape_sets(s, p);
    p->sum.kind = v->counters.kind;
    p->sum.kinds = v->counters.kinds;
    for (size_t i = 0; i < s->p.constraints_len; i++)
        p->now.needs[i].draws = arena_array(&s->arena, amount, p->sum.kinds + 1);
    if (!s->memo)
        s->memo = xcalloc((size_t)MEMO_SLOTS * 2, sizeof(uint64_t));
    s->memo_salt = prune_mix_hash(s->memo_salt, 0x5A17);
    s->prune = p;
}

bool prune_alike(const struct alloc_solver *s, uint32_t a, uint32_t b)
{
    const struct prune *p = s->prune;
    return p->signature[a] == p->signature[b] && s->at.shares[a] == 0 && s->at.shares[b] == 0 &&
           !s->p.any_admin;
}

bool prune_skips(const struct alloc_solver *s, const struct alternative *a, uint32_t device)
{
    size_t i = (size_t)(a - s->p.alternatives);
    return !test_bit(s->prune->cand[i], device) && !test_bit(s->prune->errors[i], device);
}

void prune_range(struct alloc_solver *s, const struct alternative *a, uint32_t start)
{
    struct prune *p = s->prune;
    const struct order *o = s->at.orders ? &s->at.orders[a->request] : NULL;
    memset(p->range, 0, p->words * sizeof(*p->range));
    if (!o) {
        for (size_t w = start / 64; w < p->words; w++)
            p->range[w] = UINT64_MAX;
        p->range[start / 64] &= UINT64_MAX << start % 64;
        return;
    }
    for (uint32_t i = 0; i + start < o->n; i++)
        set_bit(p->range, s->view->seats[o->keys[i] & ORDER_POSITION].device);
}

// --- Memory --------------------------------------------------------------------------------------

struct key_builder {
    uint64_t a, b;         // running
    uint64_t sum_a, sum_b; // of parts whose order does not matter
};

static void prune_key_add(struct key_builder *k, uint64_t x)
{
    k->a = prune_mix_hash(k->a, x);
    k->b = prune_mix_hash(k->b ^ UINT64_C(0xA5A5A5A5A5A5A5A5), x);
}

static void key_unordered(struct key_builder *k, uint64_t h)
{
    k->sum_a += h;
    k->sum_b += prune_mix_hash(h, 0xB0B);
}

// A device adds to its counter set, if that is the only one it draws on; sets are then summed by
// what is in them.
static void key_device(struct alloc_solver *s, struct key_builder *k, uint32_t device,
                       unsigned where, uint32_t claim)
{
    struct prune *p = s->prune;
    const struct vw_device *d = &s->view->devices[device];
    uint32_t set = d->groups_len ? s->view->group_uses[d->first_group].set : 0;
    bool in_set = d->groups_len && !p->sum.shapes[set].alone;
    uint64_t h = prune_mix_hash(in_set ? p->mirrored[device] : p->signature[device], where);
    if (s->p.any_admin) {
        uint64_t own = 0;
        for (size_t i = 0; i < s->at.picks_n; i++)
            own |= s->at.picks[i].device == device &&
                   s->p.alternatives[s->at.picks[i].alternative].claim == claim;
        h = prune_mix_hash(h, s->at.marks[device] * 2U + own);
    }
    if (d->shared && s->at.shares[device]) {
        h = prune_mix_hash(h, 1);
        for (uint32_t i = 0; i < d->caps_len; i++)
            h = mix_amount(h, s->at.taken[d->first_cap + i]);
    }
    if (in_set)
        p->sum.set_sum[set] += prune_mix_hash(h, 0x1D);
    else
        key_unordered(k, h);
}

// Marks the sets that a device draws on as ones that matter.
static void touch_sets(struct alloc_solver *s, const struct vw_device *d)
{
    struct prune *p = s->prune;
    for (uint16_t i = 0; i < d->groups_len; i++) {
        uint32_t set = s->view->group_uses[d->first_group + i].set;
        if (p->sum.set_stamp[set] != p->sum.stamp_now) {
            p->sum.set_stamp[set] = p->sum.stamp_now;
            p->sum.set_sum[set] = 0;
        }
    }
}

static void key_sets(struct alloc_solver *s, struct key_builder *k)
{
    struct prune *p = s->prune;
    const struct alloc_view *v = s->view;
    uint32_t first = 0;
    for (uint32_t c = 0; c < v->counters.n; c++) {
        uint32_t set = v->counters.set[c];
        if (c == 0 || v->counters.set[c - 1] != set)
            first = c;
        if (p->sum.set_stamp[set] == p->sum.stamp_now && s->at.consumed[c])
            p->sum.set_sum[set] += mix_amount(prune_mix_hash(0xC0, c - first), s->at.consumed[c]);
    }
    for (uint32_t i = 0; i < v->sets_len; i++) {
        if (p->sum.set_stamp[i] != p->sum.stamp_now)
            continue;
        const struct group_state *g = &s->at.groups[i];
        uint64_t h = prune_mix_hash(p->sum.set_sum[i],
                                    p->sum.shapes[i].alone ? i + 1 : p->sum.shapes[i].hash);
        if (v->cluster->features.compatibility_groups)
            h = prune_mix_hash(prune_mix_hash(h, g->mask), g->members * 2U + g->all_empty);
        key_unordered(k, prune_mix_hash(h, 0x5E75));
    }
}

static void key_constraints(const struct alloc_solver *s, struct key_builder *k, uint32_t claim)
{
    const struct claim *c = &s->p.claims[claim];
    for (uint32_t j = 0; j < c->constraints_len; j++) {
        const struct constraint_state *st = &s->at.states[c->first_constraint + j];
        prune_key_add(k, prune_mix_hash(j, st->devices > 0));
        for (uint32_t i = 0; i < st->n; i++)
            key_unordered(k, prune_mix_hash(prune_mix_hash(0xCC, j), s->numbers[st->first + i]));
    }
}

bool prune_known(struct alloc_solver *s, const struct alternative *a, uint32_t left, uint32_t start,
                 struct memo_key *ret)
{
    struct prune *p = s->prune;
    struct key_builder k = {s->memo_salt, ~s->memo_salt, 0, 0};
    const uint64_t *cand = p->cand[a - s->p.alternatives];
    const uint64_t *errors = p->errors[a - s->p.alternatives];
    const uint64_t *later = p->later[a->request + 1];
    prune_range(s, a, start);
    p->sum.stamp_now++;
    prune_key_add(&k, (uint64_t)(a - s->p.alternatives));
    prune_key_add(&k, left);
    prune_key_add(&k, s->at.claim_picks[a->claim]);
    for (size_t w = 0; w < p->words; w++) {
        uint64_t now = (cand[w] | errors[w]) & p->range[w];
        uint64_t any = now | later[w];
        if (!s->p.any_admin)
            any &= ~s->at.marked[w];
        for (uint64_t x = any; x; x &= x - 1) {
            unsigned bit = (unsigned)__builtin_ctzll(x);
            uint32_t device = (uint32_t)(w * 64) + bit;
            unsigned where = (unsigned)(now >> bit & 1) * 2 + (unsigned)(later[w] >> bit & 1);
            touch_sets(s, &s->view->devices[device]);
            key_device(s, &k, device, where, a->claim);
        }
    }
    key_sets(s, &k);
    key_constraints(s, &k, a->claim);
    prune_key_add(&k, k.sum_a);
    prune_key_add(&k, k.sum_b);
    *ret = (struct memo_key){k.a, k.b | 1};
    const uint64_t *slot = &s->memo[(ret->a % (MEMO_SLOTS / MEMO_WAYS)) * MEMO_WAYS * 2];
    for (unsigned i = 0; i < MEMO_WAYS; i++)
        if (slot[2 * i] == ret->a && slot[2 * i + 1] == ret->b)
            return true;
    return false;
}

void prune_remember(struct alloc_solver *s, struct memo_key key)
{
    uint64_t *slot = &s->memo[(key.a % (MEMO_SLOTS / MEMO_WAYS)) * MEMO_WAYS * 2];
    memmove(slot + 2, slot, (MEMO_WAYS - 1) * 2 * sizeof(*slot));
    slot[0] = key.a;
    slot[1] = key.b;
}
