// SPDX-License-Identifier: Apache-2.0
//
// Which branches of the search cannot lead to a solution. Three kinds of reasons, each a relaxation
// of the problem, so that a branch that is cut holds no solution:
//
//   counting   every request still to come must find enough free candidates; together those of
//              exclusive devices must find different ones (a matching); counters must suffice
//   values     a match constraint needs one value that all its requests can have, a distinct
//              constraint enough different values
//   memory     a state that failed before fails again. States are compared by what can still matter,
//              and devices that no request can tell apart count as the same
//
// Upstream's errors hide behind candidates. A request whose candidates could raise one is fragile:
// as long as one is to come only the memory is used, because a branch that was walked without an
// error has none.
#include "alloc/alloc_int.h"

#include "base/banned.h"

#define MEMO_SLOTS (1U << 16)
#define MEMO_WAYS  4U

// Requests up to this many get the matching test; its cost grows with their square.
#define MATCHING_SLOTS_MAX 256

struct value_bits {
    uint32_t id;
    uint64_t *bits;
};

struct column_values {
    struct value_bits *p;
    size_t n;
};

struct prune {
    size_t words;
    uint64_t **cand;              // by alternative: devices that fit, each for itself
    uint64_t **errors;            // by alternative: devices that would raise an error
    bool *fragile;                // by alternative
    bool *fragile_from;           // by request: it or a later one is fragile
    uint64_t **later;             // by request: candidates of it and of later ones
    bool *sharing;                // by alternative: some candidate may be allocated several times
    uint64_t *unique;             // devices like no other
    uint64_t *signature;          // by device
    struct column_values *values; // by column
    uint64_t *scratch;            // words
    uint64_t *scratch2;           // words
    uint64_t *range;              // words: positions that are left to the request at work
    // Scratch of the counter test.
    amount *least;     // by counter
    uint32_t *least_n; // by counter: devices that draw on it
    uint32_t *in_set;  // by counter set: devices
    uint32_t *limit;   // by counter set: how many of them at once
    uint32_t *stamp;   // by counter
    uint32_t stamp_now;
    // Matching.
    uint32_t *owner;   // by device: slot + 1
    uint64_t *visited; // words
    uint64_t **slot_bits;
};

static uint64_t mix(uint64_t h, uint64_t x)
{
    h ^= x + UINT64_C(0x9E3779B97F4A7C15) + (h << 6) + (h >> 2);
    h *= UINT64_C(0xFF51AFD7ED558CCD);
    return h ^ (h >> 32);
}

static uint64_t mix_amount(uint64_t h, amount a)
{
    return mix(mix(h, (uint64_t)a), (uint64_t)(a >> 64));
}

static void set_bit(uint64_t *w, uint32_t i)
{
    w[i / 64] |= UINT64_C(1) << i % 64;
}

static bool test_bit(const uint64_t *w, uint32_t i)
{
    return w[i / 64] >> (i % 64) & 1;
}

static uint64_t *new_bits(struct alloc_solver *s)
{
    return arena_array(&s->arena, uint64_t, s->view->devices_len / 64 + 1);
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
        if (u->value > v->available[u->counter])
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
    const struct claim *c = &s->claims[a->claim];
    for (uint32_t j = 0; j < c->constraints_len; j++) {
        if (a->columns[j] == UINT32_MAX)
            continue;
        const struct attr_value *v = column_value(s, a->columns[j], device);
        if (v->state == ATTR_ERROR)
            return FIT_ERROR;
        if (v->state == ATTR_MISSING)
            return FIT_NO;
    }
    return FIT_YES;
}

// Could this alternative have this device if no other were picked?
static enum fit fits_alone(struct alloc_solver *s, const struct alternative *a, uint32_t device)
{
    const struct vw_device *d = &s->view->devices[device];
    if (!a->admin && d->exclusive_use)
        return FIT_NO;
    enum match_state m = select_match(s, a, device);
    if (m != MATCH_YES)
        return m == MATCH_ERROR ? FIT_ERROR : FIT_NO;
    if (s->view->cluster->features.consumable_capacity) {
        enum need_state n = need_of(s, a, device);
        if (n == NEED_ERROR)
            return FIT_ERROR;
        if (n != NEED_OK || !capacity_possible(s, a, device))
            return FIT_NO;
    }
    if (d->unsupported || !counters_possible(s, d) ||
        (d->hard_taints && !taints_tolerated(d->cl, a->tolerations)))
        return FIT_NO;
    return columns_fit(s, a, device);
}

static bool constrained(const struct alloc_solver *s, const struct alternative *a)
{
    for (uint32_t j = 0; j < s->claims[a->claim].constraints_len; j++)
        if (a->columns[j] != UINT32_MAX)
            return true;
    return false;
}

static void find_candidates(struct alloc_solver *s, struct prune *p, uint32_t index)
{
    const struct alternative *a = &s->alternatives[index];
    p->cand[index] = new_bits(s);
    p->errors[index] = new_bits(s);
    if (a->mode_all) {
        // All or nothing: a constraint that refuses one is an error, not a failure. Whether the
        // search gets that far depends on each device by itself.
        p->fragile[index] = constrained(s, a);
        for (int64_t i = 0; i < a->count; i++) {
            if (fits_alone(s, a, a->all[i]) == FIT_YES)
                set_bit(p->cand[index], a->all[i]);
            if (p->fragile[index]) {
                set_bit(p->errors[index], a->all[i]);
                set_bit(p->unique, a->all[i]);
            }
        }
    }
    for (uint32_t d = 0; d < s->view->devices_len; d++) {
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

static uint64_t signature_of(struct alloc_solver *s, const struct prune *p, uint32_t device)
{
    const struct alloc_view *v = s->view;
    const struct vw_device *d = &v->devices[device];
    uint64_t h = mix(d->shared, d->groups_len);
    if (test_bit(p->unique, device))
        h = mix(h, device + 1);
    for (size_t i = 0; i < s->alternatives_len; i++)
        h = mix(h, (uint64_t)test_bit(p->cand[i], device) * 2 + test_bit(p->errors[i], device));
    for (size_t i = 0; i < s->columns_len; i++) {
        const struct attr_value *x = &s->columns[i].values[device];
        h = mix(h, x->state);
        for (uint16_t k = 0; k < x->n; k++)
            h = mix(h, x->ids[k]);
    }
    for (uint16_t i = 0; i < d->counters_len; i++) {
        const struct counter_use *u = &v->counter_uses[d->first_counter + i];
        h = mix_amount(mix(h, u->counter), u->value);
    }
    for (uint16_t i = 0; i < d->groups_len; i++)
        h = mix(mix(h, v->group_uses[d->first_group + i].set),
                v->group_uses[d->first_group + i].mask);
    if (!d->shared)
        return h;
    h = mix(h, d->shared_use);
    for (uint32_t i = 0; i < d->caps_len; i++) {
        const struct vw_cap *c = &v->caps[d->first_cap + i];
        h = mix_amount(mix_amount(h, c->value - c->used), c->default_need);
        for (size_t k = 1; k < s->capreqs_len; k++)
            if (s->capreqs[k].state[device] == NEED_OK)
                h = mix_amount(h, s->capreqs[k].need[d->first_cap + i]);
    }
    return h;
}

// --- Values --------------------------------------------------------------------------------------

static struct value_bits *value_of(struct alloc_solver *s, struct column_values *c, uint32_t id,
                                   bool add)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->p[i].id == id)
            return &c->p[i];
    if (!add)
        return NULL;
    c->p[c->n] = (struct value_bits){id, new_bits(s)};
    return &c->p[c->n++];
}

// Only devices that some alternative could have were looked up; the others have no value here.
static void collect_values(struct alloc_solver *s, struct prune *p, size_t column)
{
    const struct column *c = &s->columns[column];
    size_t most = 0;
    for (size_t d = 0; d < s->view->devices_len; d++)
        most += c->values[d].n;
    p->values[column].p = arena_array(&s->arena, struct value_bits, most + 1);
    for (uint32_t d = 0; d < s->view->devices_len; d++)
        for (uint16_t k = 0; k < c->values[d].n; k++)
            set_bit(value_of(s, &p->values[column], c->values[d].ids[k], true)->bits, d);
}

// --- Preparation ---------------------------------------------------------------------------------

static void prepare_suffixes(struct alloc_solver *s, struct prune *p)
{
    p->later = arena_array(&s->arena, uint64_t *, s->requests_len + 1);
    p->fragile_from = arena_array(&s->arena, bool, s->requests_len + 1);
    p->later[s->requests_len] = new_bits(s);
    for (size_t r = s->requests_len; r-- > 0;) {
        const struct request *q = &s->requests[r];
        p->later[r] = new_bits(s);
        memcpy(p->later[r], p->later[r + 1], p->words * sizeof(uint64_t));
        p->fragile_from[r] = p->fragile_from[r + 1];
        for (uint32_t k = 0; k < q->n; k++) {
            for (size_t w = 0; w < p->words; w++)
                p->later[r][w] |= p->cand[q->first + k][w] | p->errors[q->first + k][w];
            p->fragile_from[r] |= p->fragile[q->first + k];
        }
    }
}

void prune_prepare(struct alloc_solver *s)
{
    const struct alloc_view *v = s->view;
    struct prune *p = arena_one(&s->arena, struct prune);
    p->words = v->devices_len / 64 + 1;
    p->cand = arena_array(&s->arena, uint64_t *, s->alternatives_len + 1);
    p->errors = arena_array(&s->arena, uint64_t *, s->alternatives_len + 1);
    p->fragile = arena_array(&s->arena, bool, s->alternatives_len + 1);
    p->sharing = arena_array(&s->arena, bool, s->alternatives_len + 1);
    p->unique = new_bits(s);
    for (uint32_t i = 0; i < s->alternatives_len; i++)
        find_candidates(s, p, i);
    prepare_suffixes(s, p);
    p->values = arena_array(&s->arena, struct column_values, s->columns_len + 1);
    for (size_t i = 0; i < s->columns_len; i++)
        collect_values(s, p, i);
    p->signature = arena_array(&s->arena, uint64_t, v->devices_len + 1);
    for (uint32_t i = 0; i < v->devices_len; i++)
        p->signature[i] = signature_of(s, p, i);
    p->scratch = new_bits(s);
    p->scratch2 = new_bits(s);
    p->range = new_bits(s);
    p->visited = new_bits(s);
    p->least = arena_array(&s->arena, amount, v->counters_len + 1);
    p->least_n = arena_array(&s->arena, uint32_t, v->counters_len + 1);
    p->stamp = arena_array(&s->arena, uint32_t, v->counters_len + 1);
    p->in_set = arena_array(&s->arena, uint32_t, v->sets_len + 1);
    p->limit = arena_array(&s->arena, uint32_t, v->sets_len + 1);
    p->owner = arena_array(&s->arena, uint32_t, v->devices_len + 1);
    p->slot_bits = arena_array(&s->arena, uint64_t *, MATCHING_SLOTS_MAX + 1);
    if (!s->memo)
        s->memo = xcalloc((size_t)MEMO_SLOTS * 2, sizeof(uint64_t));
    s->memo_salt = mix(s->memo_salt, 0x5A17);
    s->prune = p;
}

bool prune_skips(const struct alloc_solver *s, const struct alternative *a, uint32_t device)
{
    size_t i = (size_t)(a - s->alternatives);
    return !test_bit(s->prune->cand[i], device) && !test_bit(s->prune->errors[i], device);
}

// --- Counting ------------------------------------------------------------------------------------

// Free candidates of an alternative, limited to the positions left for the one at work.
static size_t free_candidates(const struct alloc_solver *s, const struct alternative *a,
                              bool at_work, uint64_t *out)
{
    const struct prune *p = s->prune;
    const uint64_t *cand = p->cand[a - s->alternatives];
    size_t n = 0;
    for (size_t w = 0; w < p->words; w++) {
        uint64_t x = cand[w];
        if (!a->admin)
            x &= ~s->marked[w];
        if (at_work)
            x &= p->range[w];
        if (out)
            out[w] = x;
        n += (size_t)__builtin_popcountll(x);
    }
    return n;
}

static amount floor_div(amount a, amount b)
{
    return a < 0 ? -1 : a / b;
}

static void count_device(struct alloc_solver *s, struct prune *p, const struct vw_device *d)
{
    const struct alloc_view *v = s->view;
    uint32_t set = v->group_uses[d->first_group].set;
    p->in_set[set]++;
    for (uint16_t i = 0; i < d->counters_len; i++) {
        const struct counter_use *u = &v->counter_uses[d->first_counter + i];
        if (v->counter_set[u->counter] != set)
            continue;
        if (p->stamp[u->counter] != p->stamp_now) {
            p->stamp[u->counter] = p->stamp_now;
            p->least[u->counter] = u->value;
            p->least_n[u->counter] = 1;
        } else {
            p->least_n[u->counter]++;
            if (u->value < p->least[u->counter])
                p->least[u->counter] = u->value;
        }
    }
}

// At most how many of these devices can be had at once, by their counters? Each device is counted in
// the first set it draws on, where all of them take at least the smallest amount.
static size_t counter_limit(struct alloc_solver *s, const uint64_t *devices)
{
    struct prune *p = s->prune;
    const struct alloc_view *v = s->view;
    size_t total = 0;
    p->stamp_now++;
    memset(p->in_set, 0, v->sets_len * sizeof(*p->in_set));
    for (size_t w = 0; w < p->words; w++)
        for (uint64_t x = devices[w]; x; x &= x - 1) {
            const struct vw_device *d = &v->devices[w * 64 + (size_t)__builtin_ctzll(x)];
            if (d->groups_len == 0)
                total++;
            else if (d->shared)
                return SIZE_MAX; // its shares are charged once
            else
                count_device(s, p, d);
        }
    memcpy(p->limit, p->in_set, v->sets_len * sizeof(*p->limit));
    for (size_t c = 0; c < v->counters_len; c++) {
        if (p->stamp[c] != p->stamp_now || p->least[c] <= 0)
            continue;
        amount room = floor_div(v->available[c] - s->consumed[c], p->least[c]);
        if (room >= p->least_n[c])
            continue;
        // Those that do not draw on this counter can all be had, as far as it goes.
        uint32_t set = v->counter_set[c];
        uint32_t most = p->in_set[set] - p->least_n[c] + (room < 0 ? 0 : (uint32_t)room);
        if (most < p->limit[set])
            p->limit[set] = most;
    }
    for (size_t i = 0; i < v->sets_len; i++)
        total += p->limit[i];
    return total;
}

static bool enough_for(struct alloc_solver *s, const struct alternative *a, int64_t want,
                       bool at_work)
{
    struct prune *p = s->prune;
    size_t n = free_candidates(s, a, at_work, p->scratch);
    if ((int64_t)n < want)
        return false;
    if (s->view->counters_len == 0 || want == 0)
        return true;
    size_t limit = counter_limit(s, p->scratch);
    return limit == SIZE_MAX || (int64_t)limit >= want;
}

static bool may_choose(const struct alloc_solver *s, uint32_t request, uint32_t k)
{
    return !s->forced || s->forced[request] == UINT32_MAX || s->forced[request] == k;
}

static bool request_possible(struct alloc_solver *s, uint32_t request)
{
    const struct request *q = &s->requests[request];
    for (uint32_t k = 0; k < q->n; k++) {
        const struct alternative *a = &s->alternatives[q->first + k];
        if (!may_choose(s, request, k) || (a->mode_all && a->count == 0))
            continue;
        if (enough_for(s, a, a->count, false))
            return true;
    }
    return false;
}

static int64_t fewest_of(const struct alloc_solver *s, uint32_t request)
{
    const struct request *q = &s->requests[request];
    int64_t fewest = INT64_MAX;
    for (uint32_t k = 0; k < q->n; k++)
        if (may_choose(s, request, k) && s->alternatives[q->first + k].count < fewest)
            fewest = s->alternatives[q->first + k].count;
    return fewest == INT64_MAX ? 0 : fewest;
}

// --- Matching ------------------------------------------------------------------------------------

// Kuhn's augmenting path: finds a device for a slot, moving others if that helps. The depth is
// bounded by the number of slots.
static bool augment(struct prune *p, uint32_t slot) // NOLINT(misc-no-recursion)
{
    for (size_t w = 0; w < p->words; w++)
        for (uint64_t x = p->slot_bits[slot][w] & ~p->visited[w]; x;
             x = p->slot_bits[slot][w] & ~p->visited[w]) {
            uint32_t d = (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(x);
            set_bit(p->visited, d);
            if (p->owner[d] == 0 || augment(p, p->owner[d] - 1)) {
                p->owner[d] = slot + 1;
                return true;
            }
        }
    return false;
}

// Free candidates of any alternative of a request; false when devices may be shared or are for
// admins, who need none of their own.
static bool request_bits(struct alloc_solver *s, uint32_t request, uint64_t *out)
{
    struct prune *p = s->prune;
    const struct request *q = &s->requests[request];
    memset(out, 0, p->words * sizeof(*out));
    for (uint32_t k = 0; k < q->n; k++) {
        const struct alternative *a = &s->alternatives[q->first + k];
        if (!may_choose(s, request, k))
            continue;
        if (a->admin || p->sharing[q->first + k])
            return false;
        for (size_t w = 0; w < p->words; w++)
            out[w] |= p->cand[q->first + k][w] & ~s->marked[w];
    }
    return true;
}

static bool matching_exists(struct alloc_solver *s, uint32_t request)
{
    struct prune *p = s->prune;
    struct arena_mark m = arena_mark(&s->arena);
    uint32_t slots = 0;
    for (uint32_t r = request; r < s->requests_len; r++) {
        uint64_t *bits = new_bits(s);
        int64_t want = fewest_of(s, r);
        if (!request_bits(s, r, bits))
            continue;
        for (int64_t i = 0; i < want && slots < MATCHING_SLOTS_MAX; i++)
            p->slot_bits[slots++] = bits;
    }
    bool ok = true;
    memset(p->owner, 0, s->view->devices_len * sizeof(*p->owner));
    for (uint32_t i = 0; i < slots && ok; i++) {
        memset(p->visited, 0, p->words * sizeof(*p->visited));
        ok = augment(p, i);
    }
    arena_rewind(&s->arena, m);
    return ok;
}

// --- Constraints ---------------------------------------------------------------------------------

// What a constraint still has to cover: the alternative at work (NULL: none) and the requests from
// `from` to the end of its claim.
struct span {
    const struct alternative *work;
    int64_t left;
    uint32_t from;
    uint32_t to;
    uint32_t index; // of the constraint in its claim
};

// All alternatives of a request are in the constraint's scope; only such requests must obey.
static bool bound_by(const struct alloc_solver *s, uint32_t request, uint32_t index)
{
    const struct request *q = &s->requests[request];
    for (uint32_t k = 0; k < q->n; k++)
        if (may_choose(s, request, k) && s->alternatives[q->first + k].columns[index] == UINT32_MAX)
            return false;
    return true;
}

static size_t with_value(struct alloc_solver *s, const struct alternative *a, bool at_work,
                         uint32_t index, uint32_t id, uint64_t *merged)
{
    struct prune *p = s->prune;
    const struct value_bits *v = value_of(s, &p->values[a->columns[index]], id, false);
    if (!v)
        return 0;
    (void)free_candidates(s, a, at_work, p->scratch);
    size_t n = 0;
    for (size_t w = 0; w < p->words; w++) {
        uint64_t x = p->scratch[w] & v->bits[w];
        merged[w] |= x;
        n += (size_t)__builtin_popcountll(x);
    }
    return n;
}

// Can everything in the span have this value?
static bool value_serves(struct alloc_solver *s, const struct span *sp, uint32_t id)
{
    struct prune *p = s->prune;
    uint64_t *merged = p->scratch2;
    int64_t sum = 0;
    bool exclusive = true;
    memset(merged, 0, p->words * sizeof(*merged));
    if (sp->work) {
        if ((int64_t)with_value(s, sp->work, true, sp->index, id, merged) < sp->left)
            return false;
        sum = sp->left;
        exclusive = !sp->work->admin && !p->sharing[sp->work - s->alternatives];
    }
    for (uint32_t r = sp->from; r < sp->to; r++) {
        const struct request *q = &s->requests[r];
        bool any = false;
        if (!bound_by(s, r, sp->index))
            continue;
        for (uint32_t k = 0; k < q->n; k++) {
            const struct alternative *a = &s->alternatives[q->first + k];
            if (!may_choose(s, r, k))
                continue;
            any |= (int64_t)with_value(s, a, false, sp->index, id, merged) >= a->count;
            exclusive &= !a->admin && !p->sharing[q->first + k];
        }
        if (!any)
            return false;
        sum += fewest_of(s, r);
    }
    if (!exclusive)
        return true;
    size_t n = 0;
    for (size_t w = 0; w < p->words; w++)
        n += (size_t)__builtin_popcountll(merged[w]);
    return (int64_t)n >= sum;
}

// The column that a constraint's span starts with, UINT32_MAX when nothing must obey.
static uint32_t first_column(const struct alloc_solver *s, const struct span *sp)
{
    if (sp->work && sp->left > 0)
        return sp->work->columns[sp->index];
    for (uint32_t r = sp->from; r < sp->to; r++)
        if (s->requests[r].n == 1 && bound_by(s, r, sp->index) && fewest_of(s, r) > 0)
            return s->alternatives[s->requests[r].first].columns[sp->index];
    return UINT32_MAX;
}

static bool match_possible(struct alloc_solver *s, const struct span *sp,
                           const struct constraint_state *st)
{
    uint32_t column = first_column(s, sp);
    if (column == UINT32_MAX)
        return true;
    if (st && st->devices) {
        for (uint32_t i = 0; i < st->n; i++)
            if (value_serves(s, sp, s->numbers[st->first + i]))
                return true;
        return false;
    }
    const struct column_values *c = &s->prune->values[column];
    for (size_t i = 0; i < c->n; i++)
        if (value_serves(s, sp, c->p[i].id))
            return true;
    // A first device without a scalar value is accepted when lists are off, but only alone.
    for (size_t d = 0; d < s->view->devices_len; d++)
        if (s->columns[column].values[d].state == ATTR_NO_VALUE)
            return true;
    return false;
}

static bool taken_already(const struct alloc_solver *s, const struct constraint_state *st,
                          uint32_t id)
{
    for (uint32_t i = 0; st && i < st->n; i++)
        if (s->numbers[st->first + i] == id)
            return true;
    return false;
}

static bool distinct_possible(struct alloc_solver *s, const struct span *sp,
                              const struct constraint_state *st)
{
    struct prune *p = s->prune;
    uint32_t column = first_column(s, sp);
    if (column == UINT32_MAX)
        return true;
    int64_t sum = 0;
    memset(p->scratch2, 0, p->words * sizeof(*p->scratch2));
    if (sp->work && sp->left > 0) {
        (void)free_candidates(s, sp->work, true, p->scratch2);
        sum = sp->left;
    }
    for (uint32_t r = sp->from; r < sp->to; r++) {
        const struct request *q = &s->requests[r];
        if (q->n != 1 || !bound_by(s, r, sp->index) ||
            s->alternatives[q->first].columns[sp->index] != column)
            continue;
        (void)free_candidates(s, &s->alternatives[q->first], false, p->scratch);
        for (size_t w = 0; w < p->words; w++)
            p->scratch2[w] |= p->scratch[w];
        sum += s->alternatives[q->first].count;
    }
    int64_t values = 0;
    const struct column_values *c = &p->values[column];
    for (size_t i = 0; i < c->n && values < sum; i++) {
        bool present = false;
        for (size_t w = 0; w < p->words && !present; w++)
            present = (c->p[i].bits[w] & p->scratch2[w]) != 0;
        values += present && !taken_already(s, st, c->p[i].id);
    }
    for (size_t d = 0; d < s->view->devices_len && values < sum; d++)
        values += s->columns[column].values[d].state == ATTR_NO_VALUE;
    return values >= sum;
}

static bool constraints_possible(struct alloc_solver *s, const struct alternative *work,
                                 int64_t left)
{
    for (uint32_t i = work->claim; i < s->claims_len; i++) {
        const struct claim *c = &s->claims[i];
        bool here = i == work->claim;
        for (uint32_t j = 0; j < c->constraints_len; j++) {
            bool covers = here && work->columns[j] != UINT32_MAX;
            struct span sp = {.work = covers ? work : NULL,
                              .left = covers ? left : 0,
                              .from = here ? work->request + 1 : c->first_request,
                              .to = c->first_request + c->requests_len,
                              .index = j};
            uint32_t at = c->first_constraint + j;
            const struct constraint_state *st = here ? &s->states[at] : NULL;
            if (!(s->constraints[at].distinct ? distinct_possible(s, &sp, st)
                                              : match_possible(s, &sp, st)))
                return false;
        }
    }
    return true;
}

// --- Together ------------------------------------------------------------------------------------

// Positions from start on, as devices.
static void set_range(struct alloc_solver *s, const struct alternative *a, uint32_t start)
{
    struct prune *p = s->prune;
    const uint32_t *order = s->orders ? s->orders[a->request] : NULL;
    memset(p->range, 0, p->words * sizeof(*p->range));
    if (!order) {
        for (size_t w = start / 64; w < p->words; w++)
            p->range[w] = UINT64_MAX;
        p->range[start / 64] &= UINT64_MAX << start % 64;
        return;
    }
    for (uint32_t i = start; i < s->view->devices_len; i++)
        set_bit(p->range, order[i]);
}

// All requests to come, and the rest of the one at work, out of the same counters.
static bool counters_suffice(struct alloc_solver *s, const struct alternative *a, int64_t left)
{
    struct prune *p = s->prune;
    if (s->view->counters_len == 0 || a->admin || p->sharing[a - s->alternatives])
        return true;
    int64_t sum = left;
    (void)free_candidates(s, a, true, p->scratch2);
    for (uint32_t r = a->request + 1; r < s->requests_len; r++) {
        if (!request_bits(s, r, p->scratch))
            return true;
        for (size_t w = 0; w < p->words; w++)
            p->scratch2[w] |= p->scratch[w];
        sum += fewest_of(s, r);
    }
    size_t limit = counter_limit(s, p->scratch2);
    return limit == SIZE_MAX || (int64_t)limit >= sum;
}

bool prune_hopeless(struct alloc_solver *s, const struct alternative *a, uint32_t left,
                    uint32_t start)
{
    struct prune *p = s->prune;
    if (p->fragile[a - s->alternatives] || p->fragile_from[a->request + 1])
        return false;
    set_range(s, a, start);
    if (!enough_for(s, a, left, true))
        return true;
    for (uint32_t r = a->request + 1; r < s->requests_len; r++)
        if (!request_possible(s, r))
            return true;
    if (!constraints_possible(s, a, left) || !counters_suffice(s, a, left))
        return true;
    return a->request + 1 < s->requests_len && !matching_exists(s, a->request + 1);
}

// --- Memory --------------------------------------------------------------------------------------

struct key_builder {
    uint64_t a, b;         // running
    uint64_t sum_a, sum_b; // of parts whose order does not matter
};

static void key_add(struct key_builder *k, uint64_t x)
{
    k->a = mix(k->a, x);
    k->b = mix(k->b ^ UINT64_C(0xA5A5A5A5A5A5A5A5), x);
}

static void key_unordered(struct key_builder *k, uint64_t h)
{
    k->sum_a += h;
    k->sum_b += mix(h, 0xB0B);
}

static void key_device(struct alloc_solver *s, struct key_builder *k, uint32_t device,
                       unsigned where, uint32_t claim)
{
    const struct prune *p = s->prune;
    const struct vw_device *d = &s->view->devices[device];
    uint64_t h = mix(p->signature[device], where);
    if (s->any_admin) {
        uint64_t own = 0;
        for (size_t i = 0; i < s->picks_n; i++)
            own |= s->picks[i].device == device &&
                   s->alternatives[s->picks[i].alternative].claim == claim;
        h = mix(h, s->marks[device] * 2U + own);
    }
    if (d->shared && s->shares[device]) {
        h = mix(h, 1);
        for (uint32_t i = 0; i < d->caps_len; i++)
            h = mix_amount(h, s->taken[d->first_cap + i]);
    }
    key_unordered(k, h);
}

static void key_counters(struct alloc_solver *s, struct key_builder *k, const struct vw_device *d)
{
    struct prune *p = s->prune;
    for (uint16_t i = 0; i < d->counters_len; i++) {
        uint32_t c = s->view->counter_uses[d->first_counter + i].counter;
        if (p->stamp[c] == p->stamp_now)
            continue;
        p->stamp[c] = p->stamp_now;
        if (s->consumed[c])
            key_unordered(k, mix_amount(mix(0xC0, c), s->consumed[c]));
    }
    for (uint16_t i = 0; s->view->cluster->features.compatibility_groups && i < d->groups_len;
         i++) {
        uint32_t set = s->view->group_uses[d->first_group + i].set;
        const struct group_state *g = &s->groups[set];
        // The same set may be added again by the next device: that is as deterministic.
        key_unordered(k, mix(mix(mix(0x60, set), g->mask), g->members * 2U + g->all_empty));
    }
}

static void key_constraints(const struct alloc_solver *s, struct key_builder *k, uint32_t claim)
{
    const struct claim *c = &s->claims[claim];
    for (uint32_t j = 0; j < c->constraints_len; j++) {
        const struct constraint_state *st = &s->states[c->first_constraint + j];
        key_add(k, mix(j, st->devices > 0));
        for (uint32_t i = 0; i < st->n; i++)
            key_unordered(k, mix(mix(0xCC, j), s->numbers[st->first + i]));
    }
}

bool prune_known(struct alloc_solver *s, const struct alternative *a, uint32_t left, uint32_t start,
                 struct memo_key *ret)
{
    struct prune *p = s->prune;
    struct key_builder k = {s->memo_salt, ~s->memo_salt, 0, 0};
    const uint64_t *cand = p->cand[a - s->alternatives];
    const uint64_t *errors = p->errors[a - s->alternatives];
    const uint64_t *later = p->later[a->request + 1];
    set_range(s, a, start);
    p->stamp_now++;
    key_add(&k, (uint64_t)(a - s->alternatives));
    key_add(&k, left);
    key_add(&k, s->claim_picks[a->claim]);
    for (size_t w = 0; w < p->words; w++) {
        uint64_t now = (cand[w] | errors[w]) & p->range[w];
        uint64_t any = now | later[w];
        if (!s->any_admin)
            any &= ~s->marked[w];
        for (uint64_t x = any; x; x &= x - 1) {
            unsigned bit = (unsigned)__builtin_ctzll(x);
            uint32_t device = (uint32_t)(w * 64) + bit;
            unsigned where = (unsigned)(now >> bit & 1) * 2 + (unsigned)(later[w] >> bit & 1);
            key_device(s, &k, device, where, a->claim);
            key_counters(s, &k, &s->view->devices[device]);
        }
    }
    key_constraints(s, &k, a->claim);
    key_add(&k, k.sum_a);
    key_add(&k, k.sum_b);
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
