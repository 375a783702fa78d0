// SPDX-License-Identifier: Apache-2.0
//
// Reasons to turn back: can the requests still to come be served at all? Every test is a relaxation
// of the problem, so a branch that fails one holds no solution.
//
// Each alternative has a domain: free candidates that agree with the constraints and counters as
// they stand. Then, from cheap to dear:
//   sizes       a domain holds as many devices as are wanted
//   counters    requests whose domains lie within one of them find enough room in its counter sets;
//               all together do not draw more than there is, counter by counter
//   matching    requests for exclusive devices find different ones
//   values      what a match constraint leaves its requests in common, and whether a distinct has
//               values enough, goes back into the domains until nothing changes. Only once cheaper
//               reasons have not ended the search
#include "alloc/search/prune_int.h"

#include "base/banned.h"

// Calls before values are looked at.
#define CALLS_CHEAP 24

// --- Domains -------------------------------------------------------------------------------------

static bool bound_is_drawable(const struct alloc_solver *s, uint32_t device)
{
    const struct alloc_view *v = s->view;
    const struct vw_device *d = &v->devices[device];
    if (d->shared && (d->shared_use || s->at.shares[device]))
        return true;
    for (uint16_t i = 0; i < d->counters_len; i++) {
        const struct counter_use *u = &v->counter_uses[d->first_counter + i];
        if (s->at.consumed[u->counter] + u->value > v->counters.available[u->counter])
            return false;
    }
    for (uint16_t i = 0; v->cluster->features.compatibility_groups && i < d->groups_len; i++) {
        const struct group_use *u = &v->group_uses[d->first_group + i];
        const struct group_state *g = &s->at.groups[u->set];
        if (g->members && (u->mask == 0 ? !g->all_empty : g->all_empty || !(g->mask & u->mask)))
            return false;
    }
    return true;
}

static void find_usable(struct alloc_solver *s)
{
    struct prune *p = s->prune;
    memset(p->now.usable, 0xFF, p->words * sizeof(*p->now.usable));
    if (s->view->counters.n == 0 && s->view->sets_len == 0)
        return;
    for (uint32_t i = 0; i < s->view->devices_len; i++)
        if (s->view->devices[i].groups_len && !bound_is_drawable(s, i))
            p->now.usable[i / 64] &= ~(UINT64_C(1) << i % 64);
    (void)solver_tick(s, (uint32_t)s->view->devices_len);
}

static void drop_full(struct alloc_solver *s, const struct alternative *a, uint64_t *dom)
{
    const struct prune *p = s->prune;
    for (size_t w = 0; w < p->words; w++)
        for (uint64_t x = dom[w]; x; x &= x - 1) {
            uint32_t device = (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(x);
            const struct vw_device *d = &s->view->devices[device];
            bool fits = true;
            for (uint32_t i = 0; s->at.shares[device] && i < d->caps_len && fits; i++) {
                uint32_t at = d->first_cap + i;
                const struct vw_cap *c = &s->view->caps[at];
                fits = c->used + s->at.taken[at] + need_amount(s, a, at) <= c->value;
            }
            if (!fits)
                dom[w] &= ~(x & -x);
        }
}

// What the constraints of the claim at work leave of a domain, by what they have seen so far.
static void drop_conflicting(struct alloc_solver *s, const struct alternative *a, uint64_t *dom)
{
    struct prune *p = s->prune;
    const struct claim *c = &s->p.claims[a->claim];
    for (uint32_t j = 0; j < c->constraints_len; j++) {
        uint32_t at = c->first_constraint + j;
        const struct constraint_state *st = &s->at.states[at];
        if (a->columns[j] == UINT32_MAX || st->devices == 0)
            continue;
        const struct column_values *values = &p->values[a->columns[j]];
        memset(p->now.mask, 0, p->words * sizeof(*p->now.mask));
        for (uint32_t i = 0; i < st->n; i++) {
            const struct value_bits *v = prune_value(values, s->numbers[st->first + i]);
            for (size_t w = 0; v && w < p->words; w++)
                p->now.mask[w] |= v->bits[w];
        }
        bool distinct = s->p.constraints[at].distinct;
        for (size_t w = 0; w < p->words; w++)
            dom[w] &= distinct ? ~(p->now.mask[w] | values->without[w]) : p->now.mask[w];
    }
}

static void make_domain(struct alloc_solver *s, const struct alternative *a)
{
    struct prune *p = s->prune;
    uint64_t *dom = p->now.dom[a - s->p.alternatives];
    const uint64_t *cand = p->cand[a - s->p.alternatives];
    for (size_t w = 0; w < p->words; w++) {
        dom[w] = cand[w] & p->now.usable[w];
        if (!a->admin)
            dom[w] &= ~s->at.marked[w];
        if (a == p->now.work)
            dom[w] &= p->range[w];
    }
    if (a->claim == p->now.work->claim)
        drop_conflicting(s, a, dom);
    if (p->sharing[a - s->p.alternatives])
        drop_full(s, a, dom);
}

bool bound_large_enough(const struct alloc_solver *s, uint32_t request)
{
    const struct prune *p = s->prune;
    const struct request *q = &s->p.requests[request];
    for (uint32_t k = 0; k < q->n; k++) {
        const struct alternative *a = &s->p.alternatives[q->first + k];
        if (chooses(s, request, k) && !(a->mode_all && a->count == 0) &&
            (int64_t)count_bits(p->now.dom[q->first + k], p->words) >= wanted(s, a))
            return true;
    }
    return false;
}

static bool make_domains(struct alloc_solver *s)
{
    struct prune *p = s->prune;
    find_usable(s);
    for (uint32_t r = p->now.work->request; r < p->now.end; r++) {
        const struct request *q = &s->p.requests[r];
        for (uint32_t k = 0; k < q->n; k++)
            if (chooses(s, r, k))
                make_domain(s, &s->p.alternatives[q->first + k]);
        if (!bound_large_enough(s, r))
            return false;
        if (solver_tick(s, q->n * (uint32_t)p->words * 2))
            return true;
    }
    return true;
}

// --- Counters ------------------------------------------------------------------------------------

static void bound_count_device(struct alloc_solver *s, struct prune *p, const struct vw_device *d)
{
    const struct alloc_view *v = s->view;
    uint32_t set = v->group_uses[d->first_group].set;
    p->sum.in_set[set]++;
    for (uint16_t i = 0; i < d->counters_len; i++) {
        const struct counter_use *u = &v->counter_uses[d->first_counter + i];
        if (v->counters.set[u->counter] != set)
            continue;
        if (p->sum.stamp[u->counter] != p->sum.stamp_now) {
            p->sum.stamp[u->counter] = p->sum.stamp_now;
            p->sum.least[u->counter] = u->value;
            p->sum.least_n[u->counter] = 1;
        } else {
            p->sum.least_n[u->counter]++;
            if (u->value < p->sum.least[u->counter])
                p->sum.least[u->counter] = u->value;
        }
    }
}

// At most how many of these devices can be had at once, by their counters? Each device is counted
// in the first set it draws on, where all of them take at least the smallest amount.
static size_t counter_limit(struct alloc_solver *s, const uint64_t *devices)
{
    struct prune *p = s->prune;
    const struct alloc_view *v = s->view;
    size_t total = 0;
    p->sum.stamp_now++;
    memset(p->sum.in_set, 0, v->sets_len * sizeof(*p->sum.in_set));
    for (size_t w = 0; w < p->words; w++)
        for (uint64_t x = devices[w]; x; x &= x - 1) {
            const struct vw_device *d = &v->devices[w * 64 + (size_t)__builtin_ctzll(x)];
            if (d->groups_len == 0)
                total++;
            else if (d->shared)
                return SIZE_MAX; // its shares are charged once
            else
                bound_count_device(s, p, d);
        }
    memcpy(p->sum.limit, p->sum.in_set, v->sets_len * sizeof(*p->sum.limit));
    for (size_t c = 0; c < v->counters.n; c++) {
        if (p->sum.stamp[c] != p->sum.stamp_now || p->sum.least[c] <= 0)
            continue;
        amount room = v->counters.available[c] - s->at.consumed[c];
        room = room < 0 ? 0 : room / p->sum.least[c];
        if (room >= p->sum.least_n[c])
            continue;
        // Those that do not draw on this counter can all be had, as far as it goes.
        uint32_t set = v->counters.set[c];
        uint32_t most = p->sum.in_set[set] - p->sum.least_n[c] + (uint32_t)room;
        if (most < p->sum.limit[set])
            p->sum.limit[set] = most;
    }
    for (size_t i = 0; i < v->sets_len; i++)
        total += p->sum.limit[i];
    return total;
}

static bool bound_is_subset(const uint64_t *a, const uint64_t *b, size_t words)
{
    for (size_t w = 0; w < words; w++)
        if (a[w] & ~b[w])
            return false;
    return true;
}

// Every device that the request may get is its own.
static bool all_exclusive(const struct alloc_solver *s, uint32_t request)
{
    const struct request *q = &s->p.requests[request];
    bool all = true;
    for (uint32_t k = 0; k < q->n; k++)
        all &= !chooses(s, request, k) || exclusive(s, &s->p.alternatives[q->first + k]);
    return all;
}

// The domains of a request's alternatives together.
static void join_domain(struct alloc_solver *s, uint32_t request)
{
    struct prune *p = s->prune;
    const struct request *q = &s->p.requests[request];
    uint64_t *out = p->now.joined[request];
    memset(out, 0, p->words * sizeof(*out));
    for (uint32_t k = 0; k < q->n; k++)
        for (size_t w = 0; chooses(s, request, k) && w < p->words; w++)
            out[w] |= p->now.dom[q->first + k][w];
}

// Requests whose domains lie within one of them compete for what it holds.
static bool room_for_groups(struct alloc_solver *s)
{
    struct prune *p = s->prune;
    for (uint32_t r = p->now.work->request; r < p->now.end; r++) {
        bool seen = false;
        if (fewest_of(s, r) == 0 || !all_exclusive(s, r))
            continue;
        for (uint32_t o = p->now.work->request; o < r && !seen; o++)
            seen = all_exclusive(s, o) &&
                   memcmp(p->now.joined[o], p->now.joined[r], p->words * sizeof(uint64_t)) == 0;
        if (seen)
            continue;
        size_t limit = counter_limit(s, p->now.joined[r]);
        if (limit == SIZE_MAX)
            continue;
        int64_t sum = 0;
        for (uint32_t o = p->now.work->request; o < p->now.end; o++)
            if (all_exclusive(s, o) &&
                bound_is_subset(p->now.joined[o], p->now.joined[r], p->words))
                sum += fewest_of(s, o);
        if ((int64_t)limit < sum)
            return false;
        if (solver_tick(s, (uint32_t)(s->p.requests_len + s->view->devices_len)))
            return true;
    }
    return true;
}

// Whether an earlier counter of the device is of the same kind as the one at i.
static bool kind_again(const struct alloc_solver *s, const struct vw_device *d, uint16_t i)
{
    const struct counter_use *uses = &s->view->counter_uses[d->first_counter];
    const uint32_t *kind = s->prune->sum.kind;
    bool again = false;
    for (uint16_t k = 0; k < i && !again; k++)
        again = kind[uses[k].counter] == kind[uses[i].counter];
    return again;
}

void bound_draws(struct alloc_solver *s, const uint64_t *devices)
{
    struct prune *p = s->prune;
    const struct alloc_view *v = s->view;
    uint32_t n = 0;
    memset(p->sum.drawn_n, 0, p->sum.kinds * sizeof(*p->sum.drawn_n));
    for (size_t w = 0; w < p->words; w++)
        for (uint64_t x = devices[w]; x; x &= x - 1, n++) {
            const struct vw_device *d = &v->devices[w * 64 + (size_t)__builtin_ctzll(x)];
            if (d->shared)
                continue; // may be charged already
            for (uint16_t i = 0; i < d->counters_len; i++) {
                const struct counter_use *u = &v->counter_uses[d->first_counter + i];
                uint32_t k = p->sum.kind[u->counter];
                if (p->sum.drawn_n[k] == 0 || u->value < p->sum.lowest[k])
                    p->sum.lowest[k] = u->value;
                p->sum.drawn_n[k] += !kind_again(s, d, i);
            }
        }
    // Only what every one of the devices draws.
    for (uint32_t k = 0; k < p->sum.kinds; k++)
        if (p->sum.drawn_n[k] < n || p->sum.lowest[k] < 0)
            p->sum.lowest[k] = 0;
}

static bool volume_suffices(struct alloc_solver *s)
{
    struct prune *p = s->prune;
    const struct alloc_view *v = s->view;
    memset(p->sum.supply, 0, p->sum.kinds * sizeof(*p->sum.supply));
    memset(p->sum.demand, 0, p->sum.kinds * sizeof(*p->sum.demand));
    for (size_t c = 0; c < v->counters.n; c++)
        if (v->counters.available[c] > s->at.consumed[c])
            p->sum.supply[p->sum.kind[c]] += v->counters.available[c] - s->at.consumed[c];
    const uint64_t *last = NULL;
    for (uint32_t r = p->now.work->request; r < p->now.end; r++) {
        int64_t want = fewest_of(s, r);
        if (want == 0)
            continue;
        if (!last || memcmp(last, p->now.joined[r], p->words * sizeof(*last)) != 0)
            bound_draws(s, p->now.joined[r]);
        last = p->now.joined[r];
        for (uint32_t k = 0; k < p->sum.kinds; k++) {
            p->sum.demand[k] += p->sum.lowest[k] * want;
            if (p->sum.demand[k] > p->sum.supply[k])
                return false;
        }
        if (solver_tick(s, (uint32_t)s->view->devices_len))
            return true;
    }
    return true;
}

// --- Matching ------------------------------------------------------------------------------------

// Kuhn's augmenting path: finds an item for a slot, moving others if that helps. The depth is
// bounded by the number of slots.
static bool bound_augment_path(struct prune *p, uint32_t slot) // NOLINT(misc-no-recursion)
{
    for (size_t w = 0; w < p->words; w++)
        for (uint64_t x = p->slot_bits[slot][w] & ~p->visited[w]; x;
             x = p->slot_bits[slot][w] & ~p->visited[w]) {
            uint32_t d = (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(x);
            set_bit(p->visited, d);
            if (p->owner[d] == 0 || bound_augment_path(p, p->owner[d] - 1)) {
                p->owner[d] = slot + 1;
                return true;
            }
        }
    return false;
}

// Takes what is free before it moves anything.
static bool bound_take_free(struct prune *p, uint32_t slot, uint64_t *used)
{
    for (size_t w = 0; w < p->words; w++) {
        uint64_t x = p->slot_bits[slot][w] & ~used[w];
        if (x) {
            used[w] |= x & -x;
            p->owner[w * 64 + (size_t)__builtin_ctzll(x)] = slot + 1;
            return true;
        }
    }
    return false;
}

bool bound_matching(struct alloc_solver *s, uint32_t slots)
{
    struct prune *p = s->prune;
    uint64_t *used = p->now.merged;
    memset(p->owner, 0, p->words * 64 * sizeof(*p->owner));
    memset(used, 0, p->words * sizeof(*used));
    for (uint32_t i = 0; i < slots; i++) {
        if (solver_tick(s, (uint32_t)p->words * 4))
            return true;
        if (bound_take_free(p, i, used))
            continue;
        memset(p->visited, 0, p->words * sizeof(*p->visited));
        if (!bound_augment_path(p, i))
            return false;
        for (size_t w = 0; w < p->words; w++)
            for (uint64_t x = p->visited[w] & ~used[w]; x; x &= x - 1)
                if (p->owner[w * 64 + (size_t)__builtin_ctzll(x)])
                    used[w] |= x & -x;
    }
    return true;
}

static bool devices_suffice(struct alloc_solver *s)
{
    struct prune *p = s->prune;
    uint32_t slots = 0;
    for (uint32_t r = p->now.work->request; r < p->now.end; r++) {
        join_domain(s, r);
        if (!all_exclusive(s, r))
            continue;
        for (int64_t i = 0, n = fewest_of(s, r); i < n && slots < MATCHING_SLOTS_MAX; i++)
            p->slot_bits[slots++] = p->now.joined[r];
    }
    return bound_matching(s, slots);
}

// --- Shares --------------------------------------------------------------------------------------

// The only alternative of a request, NULL when there is a choice.
static const struct alternative *only_one(const struct alloc_solver *s, uint32_t request)
{
    const struct request *q = &s->p.requests[request];
    if (at_work(s->prune, request))
        return s->prune->now.work;
    return q->n == 1 ? &s->p.alternatives[q->first] : NULL;
}

// How often could this be had of a device, one beside the other?
static int64_t shares_of(struct alloc_solver *s, const struct alternative *a, uint32_t device)
{
    const struct vw_device *d = &s->view->devices[device];
    int64_t most = INT32_MAX;
    if (!d->shared)
        return 1;
    for (uint32_t i = 0; i < d->caps_len; i++) {
        uint32_t at = d->first_cap + i;
        amount need = need_amount(s, a, at);
        amount room = s->view->caps[at].value - s->view->caps[at].used - s->at.taken[at];
        if (need > 0 && room / need < most)
            most = room < 0 ? 0 : (int64_t)(room / need);
    }
    return most;
}

// Requests that take the same of shared devices, one after the other.
static bool shares_suffice(struct alloc_solver *s)
{
    struct prune *p = s->prune;
    for (uint32_t r = p->now.work->request; r < p->now.end; r++) {
        const struct alternative *a = only_one(s, r);
        bool seen = false;
        if (!a || a->admin || !p->sharing[a - s->p.alternatives] || wanted(s, a) == 0)
            continue;
        int64_t sum = 0;
        for (uint32_t o = p->now.work->request; o < p->now.end && !seen; o++) {
            const struct alternative *b = only_one(s, o);
            if (!b || b->admin || b->capreq != a->capreq || !p->sharing[b - s->p.alternatives] ||
                !bound_is_subset(p->now.joined[o], p->now.joined[r], p->words))
                continue;
            seen = o < r && bound_is_subset(p->now.joined[r], p->now.joined[o], p->words);
            sum += wanted(s, b);
        }
        int64_t most = 0;
        for (size_t w = 0; w < p->words && !seen && most < sum; w++)
            for (uint64_t x = p->now.joined[r][w]; x && most < sum; x &= x - 1)
                most += shares_of(s, a, (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(x));
        if (!seen && most < sum)
            return false;
        if (solver_tick(s, (uint32_t)(s->p.requests_len + s->view->devices_len)))
            return true;
    }
    return true;
}

// --- Together ------------------------------------------------------------------------------------

static bool bound_is_possible(struct alloc_solver *s)
{
    bool values =
        s->p.constraints_len && (s->prune->calls > CALLS_CHEAP || s->options.eager_pruning);
    if (!make_domains(s) || (values && !bound_check_values(s)))
        return false;
    if (!devices_suffice(s) || (s->view->any_shared && !shares_suffice(s)))
        return false;
    if (values && !bound_check_groups(s))
        return false;
    return s->budget.timeout || s->view->counters.n == 0 ||
           (room_for_groups(s) && volume_suffices(s));
}

bool bound_is_hopeless(struct alloc_solver *s, const struct alternative *a, uint32_t left,
                       uint32_t start)
{
    struct prune *p = s->prune;
    if (p->fragile[a - s->p.alternatives])
        return false;
    p->calls++;
    p->now.end = p->next_fragile[a->request + 1];
    p->now.work = a;
    p->now.left = left;
    prune_range(s, a, start);
    return !bound_is_possible(s) && !s->budget.timeout;
}
