// SPDX-License-Identifier: Apache-2.0
//
// Depth-first search with undo. The order is upstream's: claims, requests, alternatives, then
// devices as published (or as the policy orders them); a request takes combinations, not
// permutations. Nothing is allocated while it runs. Once it has met a few dead ends, prune.c
// decides which branches cannot lead anywhere.
#include "alloc/search/search_int.h"

#include "base/banned.h"

// Dead ends that are cheaper to walk than to reason about.
#define DEAD_ENDS_FREE 12

// What trying a device amounts to, in the unit of solver_tick.
#define WORK_PER_STEP (WORK_PER_LOOK / 64)

enum placed {
    PLACED,
    REJECTED,
    FATAL,
};

// --- Constraints ---------------------------------------------------------------------------------

static void push_number(struct alloc_solver *s, uint32_t id)
{
    if (s->at.numbers_n == s->numbers_cap)
        s->numbers = vec_grow(s->numbers, &s->numbers_cap, s->at.numbers_n + 1, sizeof(uint32_t));
    s->numbers[s->at.numbers_n++] = id;
}

static bool has_number(const uint32_t *p, size_t n, uint32_t id)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] == id)
            return true;
    return false;
}

static void save_state(struct alloc_solver *s, uint32_t constraint)
{
    s->at.saved_states[s->at.saved_states_n++] =
        (struct saved_state){constraint, s->at.states[constraint]};
}

// The values that all devices so far have in common must not run out.
static bool match_add(struct alloc_solver *s, struct constraint_state *st,
                      const struct attr_value *v)
{
    if (st->devices == 0) {
        st->first = (uint32_t)s->at.numbers_n;
        st->n = v->n;
        for (uint16_t i = 0; i < v->n; i++)
            push_number(s, v->ids[i]);
        st->devices = 1;
        return true;
    }
    if (v->state == ATTR_NO_VALUE)
        return false;
    uint32_t first = (uint32_t)s->at.numbers_n;
    uint32_t common = 0;
    for (uint32_t i = 0; i < st->n; i++) {
        uint32_t id = s->numbers[st->first + i];
        if (has_number(v->ids, v->n, id)) {
            push_number(s, id);
            common++;
        }
    }
    if (common == 0)
        return false;
    if (common == st->n)
        s->at.numbers_n = first; // nothing changed
    else
        st->first = first;
    st->n = common;
    st->devices++;
    return true;
}

// No value may occur twice.
static bool distinct_add(struct alloc_solver *s, struct constraint_state *st,
                         const struct attr_value *v)
{
    if (v->state == ATTR_NO_VALUE && st->devices > 0)
        return false;
    for (uint16_t i = 0; i < v->n; i++)
        if (st->n && has_number(s->numbers + st->first, st->n, v->ids[i]))
            return false;
    if (st->n == 0 || st->first + st->n != s->at.numbers_n) {
        uint32_t from = st->first;
        st->first = (uint32_t)s->at.numbers_n;
        for (uint32_t i = 0; i < st->n; i++)
            push_number(s, s->numbers[from + i]);
    }
    for (uint16_t i = 0; i < v->n; i++)
        push_number(s, v->ids[i]);
    st->n += v->n;
    st->devices++;
    return true;
}

static enum placed search_add_constraints(struct alloc_solver *s, const struct alternative *a,
                                          uint32_t device)
{
    const struct claim *c = &s->p.claims[a->claim];
    for (uint32_t j = 0; j < c->constraints_len; j++) {
        if (a->columns[j] == UINT32_MAX)
            continue;
        const struct attr_value *v = attr_column_value(s, a->columns[j], device);
        if (v->state == ATTR_ERROR) {
            attr_column_error(s, a->columns[j], device);
            return FATAL;
        }
        if (v->state == ATTR_MISSING)
            return REJECTED;
        uint32_t at = c->first_constraint + j;
        save_state(s, at);
        bool ok = s->p.constraints[at].distinct ? distinct_add(s, &s->at.states[at], v)
                                                : match_add(s, &s->at.states[at], v);
        if (!ok)
            return REJECTED;
    }
    return PLACED;
}

// --- Counters and groups -------------------------------------------------------------------------

static bool join_groups(struct alloc_solver *s, const struct vw_device *d)
{
    for (uint16_t i = 0; i < d->groups_len; i++) {
        const struct group_use *u = &s->view->group_uses[d->first_group + i];
        struct group_state *g = &s->at.groups[u->set];
        bool admits =
            !g->members || (u->mask == 0 ? g->all_empty : !g->all_empty && (g->mask & u->mask));
        if (!admits)
            return false;
        s->at.saved_groups[s->at.saved_groups_n++] = (struct saved_group){u->set, *g};
        if (!g->members)
            *g = (struct group_state){u->mask, true, u->mask == 0};
        else if (!g->all_empty && u->mask)
            g->mask &= u->mask;
    }
    return true;
}

static void draw_counters(struct alloc_solver *s, const struct vw_device *d, int sign)
{
    const struct alloc_view *v = s->view;
    for (uint16_t i = 0; i < d->counters_len; i++) {
        const struct counter_use *u = &v->counter_uses[d->first_counter + i];
        amount *sum = &s->at.consumed[u->counter];
        bool before = *sum > v->counters.available[u->counter];
        *sum += sign > 0 ? u->value : -u->value;
        bool after = *sum > v->counters.available[u->counter];
        if (before != after)
            s->at.overdrawn[d->pool] += after ? 1U : UINT32_MAX;
    }
}

// --- One device ----------------------------------------------------------------------------------

static bool search_claim_holds(const struct alloc_solver *s, uint32_t claim, uint32_t device)
{
    for (size_t i = s->at.picks_n; i > 0; i--) {
        const struct pick *p = &s->at.picks[i - 1];
        uint32_t of = s->p.alternatives[p->alternative].claim;
        if (of != claim)
            break; // claims are placed one after the other
        if (p->device == device && !s->view->devices[device].shared)
            return true;
    }
    return false;
}

static bool search_in_use(const struct alloc_solver *s, const struct alternative *a,
                          uint32_t device)
{
    if (a->admin)
        return search_claim_holds(s, a->claim, device);
    return s->view->devices[device].exclusive_use || s->at.marks[device];
}

static bool capacity_fits(const struct alloc_solver *s, const struct alternative *a,
                          uint32_t device)
{
    const struct vw_device *d = &s->view->devices[device];
    if (!s->view->cluster->features.consumable_capacity)
        return true;
    if (a->capreq == 0 && !d->shared)
        return d->default_fits;
    for (uint32_t i = 0; i < d->caps_len; i++) {
        uint32_t at = d->first_cap + i;
        const struct vw_cap *c = &s->view->caps[at];
        if (c->used + s->at.taken[at] + need_amount(s, a, at) > c->value)
            return false;
    }
    return true;
}

struct trail {
    size_t numbers_n;
    size_t states_n;
    size_t groups_n;
    bool counted;
};

static void search_roll_back(struct alloc_solver *s, const struct vw_device *d,
                             const struct trail *t)
{
    while (s->at.saved_states_n > t->states_n) {
        const struct saved_state *x = &s->at.saved_states[--s->at.saved_states_n];
        s->at.states[x->constraint] = x->state;
    }
    while (s->at.saved_groups_n > t->groups_n) {
        const struct saved_group *x = &s->at.saved_groups[--s->at.saved_groups_n];
        s->at.groups[x->set] = x->state;
    }
    s->at.numbers_n = t->numbers_n;
    if (t->counted)
        draw_counters(s, d, -1);
}

static void take_capacity(struct alloc_solver *s, const struct alternative *a, uint32_t device,
                          int sign)
{
    const struct vw_device *d = &s->view->devices[device];
    s->at.shares[device] = (uint16_t)(s->at.shares[device] + sign);
    for (uint32_t i = 0; i < d->caps_len; i++) {
        amount need = need_amount(s, a, d->first_cap + i);
        s->at.taken[d->first_cap + i] += sign > 0 ? need : -need;
    }
}

static void search_mark_device(struct alloc_solver *s, uint32_t device, bool on)
{
    s->at.marks[device] = (uint16_t)(s->at.marks[device] + (on ? 1 : -1));
    if (s->at.marks[device])
        s->at.marked[device / 64] |= UINT64_C(1) << device % 64;
    else
        s->at.marked[device / 64] &= ~(UINT64_C(1) << device % 64);
}

static bool draw_shared_counters(struct alloc_solver *s, const struct vw_device *d, struct trail *t)
{
    if (s->view->cluster->features.compatibility_groups && !join_groups(s, d))
        return false;
    draw_counters(s, d, 1);
    t->counted = true;
    return s->at.overdrawn[d->pool] == 0;
}

// Picks a device if everything allows it; a rejected one leaves no trace. The order of the checks
// decides which error is met first.
static enum placed search_place_device(struct alloc_solver *s, const struct alternative *a,
                                       uint32_t device, struct trail *t)
{
    const struct vw_device *d = &s->view->devices[device];
    *t = (struct trail){s->at.numbers_n, s->at.saved_states_n, s->at.saved_groups_n, false};
    if (d->unsupported)
        return REJECTED;
    bool charged_already = d->shared && (d->shared_use || s->at.shares[device]);
    if (d->groups_len && !charged_already && !draw_shared_counters(s, d, t)) {
        search_roll_back(s, d, t);
        return REJECTED;
    }
    if (d->hard_taints && !select_tolerates(d->cl, a->tolerations)) {
        search_roll_back(s, d, t);
        return REJECTED;
    }
    enum placed r = search_add_constraints(s, a, device);
    if (r == REJECTED && a->mode_all) {
        cleanup_sbuf struct sbuf claim = {0};
        cleanup_sbuf struct sbuf name = {0};
        solver_claim_name(&claim, s->p.claims[a->claim].api);
        solver_device_name(&name, d);
        solver_fail(s,
                    "claim %.*s, request %.*s: cannot add device %.*s because a claim constraint "
                    "would not be satisfied",
                    STR_ARG(sbuf_str(&claim)), STR_ARG(a->name), STR_ARG(sbuf_str(&name)));
        r = FATAL;
    }
    if (r == PLACED && a->mode_all && !capacity_fits(s, a, device))
        r = REJECTED; // others were judged before they got here
    if (r == PLACED && s->improvement.on && !improve_take(s, device))
        r = REJECTED;
    if (r != PLACED) {
        search_roll_back(s, d, t);
        return r;
    }
    if (d->shared)
        take_capacity(s, a, device, 1);
    else
        search_mark_device(s, device, true);
    s->at.picks[s->at.picks_n++] = (struct pick){(uint32_t)(a - s->p.alternatives), device};
    s->at.claim_picks[a->claim]++;
    return PLACED;
}

static void search_unplace_device(struct alloc_solver *s, const struct alternative *a,
                                  uint32_t device, const struct trail *t)
{
    const struct vw_device *d = &s->view->devices[device];
    s->at.picks_n--;
    s->at.claim_picks[a->claim]--;
    if (s->improvement.on)
        improve_give_back(s, device);
    if (d->shared)
        take_capacity(s, a, device, -1);
    else
        search_mark_device(s, device, false);
    search_roll_back(s, d, t);
}

// Everything that comes before place() for a candidate of an exact request.
static enum placed try_candidate(struct alloc_solver *s, const struct alternative *a,
                                 uint32_t device, struct trail *t)
{
    if (search_in_use(s, a, device))
        return REJECTED;
    enum match_state m = select_match(s, a, device);
    if (m == MATCH_NO)
        return REJECTED;
    if (m != MATCH_YES) {
        select_error(s, a, device);
        return FATAL;
    }
    if (s->view->cluster->features.consumable_capacity) {
        enum need_state n = capacity_need_of(s, a, device);
        if (n == NEED_ERROR) {
            capacity_need_error(s, a, device, false);
            return FATAL;
        }
        if (n != NEED_OK || !capacity_fits(s, a, device))
            return REJECTED;
    }
    return search_place_device(s, a, device, t);
}

// --- The search ----------------------------------------------------------------------------------

static bool search_out_of_time(struct alloc_solver *s)
{
    s->budget.steps++;
    if (s->improvement.on && s->budget.steps > s->improvement.steps_most)
        s->budget.timeout = true; // for the better solution, not for the one there is
    if (s->prune && s->budget.steps > s->budget.steps_most)
        s->budget.paused = true;
    return solver_tick(s, WORK_PER_STEP) || s->budget.paused;
}

static enum outcome next_request(struct alloc_solver *s, uint32_t request);

static enum outcome after_request(struct alloc_solver *s, const struct alternative *a)
{
    enum outcome o = next_request(s, a->request + 1);
    return o == EXCEEDED && s->p.requests[a->request].claim_ends ? FAILED : o;
}

// Devices that failed in one place, so that others like them are not tried.
#define FAILED_MAX 8

static bool like_failed(const struct alloc_solver *s, uint32_t device, const uint32_t *failed,
                        uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (prune_alike(s, failed[i], device))
            return true;
    return false;
}

static enum outcome place_exact(struct alloc_solver *s, const struct alternative *a, int64_t done,
                                uint32_t start)
{
    if (search_out_of_time(s))
        return STOPPED;
    if (done >= a->count)
        return after_request(s, a);
    if (a->count - done > ALLOC_CLAIM_DEVICES_MAX - (int64_t)s->at.claim_picks[a->claim])
        return EXCEEDED;
    uint32_t left = (uint32_t)(a->count - done);
    struct memo_key key = {0};
    bool pruning = s->prune != NULL;
    if (pruning && (bound_is_hopeless(s, a, left, start) || prune_known(s, a, left, start, &key)))
        return FAILED;
    struct order *order = s->at.orders ? &s->at.orders[a->request] : NULL;
    uint32_t failed[FAILED_MAX];
    uint32_t failed_n = 0;
    for (uint32_t at = start, n = order ? order->n : (uint32_t)s->view->devices_len; at < n; at++) {
        if (order && at >= order->sorted)
            order_sort(order, at);
        uint32_t device = order ? order_device(s, order, at) : at;
        struct trail t;
        if (s->prune && (prune_skips(s, a, device) || like_failed(s, device, failed, failed_n)))
            continue;
        if (search_out_of_time(s))
            return STOPPED;
        enum placed p = try_candidate(s, a, device, &t);
        if (p == FATAL)
            return STOPPED;
        if (p != PLACED)
            continue;
        enum outcome o = place_exact(s, a, done + 1, at + 1);
        if (o == SOLVED)
            return o;
        search_unplace_device(s, a, device, &t);
        if (o != FAILED)
            return o;
        if (s->prune && failed_n < FAILED_MAX)
            failed[failed_n++] = device;
        if (s->prune && bound_is_hopeless(s, a, left, at + 1))
            break;
    }
    if (pruning)
        prune_remember(s, key);
    else if (!s->prune && s->at.picks_n && !s->options.no_pruning && !s->improvement.on &&
             ++s->budget.dead_ends > DEAD_ENDS_FREE) {
        prune_prepare(s);
        s->budget.steps_most += s->budget.steps; // the way here was no detour
    }
    return FAILED;
}

static enum outcome place_all(struct alloc_solver *s, const struct alternative *a, int64_t done)
{
    struct trail t;
    if (search_out_of_time(s))
        return STOPPED;
    if (a->count == 0)
        return FAILED;
    if (done >= a->count)
        return after_request(s, a);
    if (a->count - done > ALLOC_CLAIM_DEVICES_MAX - (int64_t)s->at.claim_picks[a->claim])
        return EXCEEDED;
    uint32_t device = a->all[done];
    if (search_in_use(s, a, device))
        return FAILED;
    enum placed p = search_place_device(s, a, device, &t);
    if (p != PLACED)
        return p == FATAL ? STOPPED : FAILED;
    enum outcome o = place_all(s, a, done + 1);
    if (o != SOLVED)
        search_unplace_device(s, a, device, &t);
    return o;
}

static enum outcome place_request(struct alloc_solver *s, const struct alternative *a)
{
    if (a->mode_all)
        return place_all(s, a, 0);
    if (s->at.orders)
        order_prepare(s, a);
    return place_exact(s, a, 0, 0);
}

static enum outcome next_request(struct alloc_solver *s, uint32_t request)
{
    if (request >= s->p.requests_len)
        return SOLVED;
    const struct request *q = &s->p.requests[request];
    s->at.chosen[request] = 0;
    if (!q->has_alternatives)
        return place_request(s, &s->p.alternatives[q->first]);
    bool all_exceeded = true;
    for (uint32_t i = 0; i < q->n; i++) {
        if (s->at.forced && s->at.forced[request] != UINT32_MAX && s->at.forced[request] != i)
            continue;
        enum outcome o = place_request(s, &s->p.alternatives[q->first + i]);
        if (o == EXCEEDED)
            continue;
        all_exceeded = false;
        if (o == SOLVED)
            s->at.chosen[request] = i;
        if (o != FAILED)
            return o;
    }
    return all_exceeded ? EXCEEDED : FAILED;
}

// --- Arrays --------------------------------------------------------------------------------------

static size_t picks_most(const struct alloc_solver *s)
{
    size_t sum = 0;
    for (size_t i = 0; i < s->p.claims_len; i++) {
        const struct claim *c = &s->p.claims[i];
        int64_t most = 0;
        for (uint32_t r = 0; r < c->requests_len; r++) {
            const struct request *q = &s->p.requests[c->first_request + r];
            int64_t largest = 0;
            for (uint32_t k = 0; k < q->n; k++)
                if (s->p.alternatives[q->first + k].count > largest)
                    largest = s->p.alternatives[q->first + k].count;
            most += largest > ALLOC_CLAIM_DEVICES_MAX ? ALLOC_CLAIM_DEVICES_MAX : largest;
        }
        sum += (size_t)(most > ALLOC_CLAIM_DEVICES_MAX ? ALLOC_CLAIM_DEVICES_MAX : most);
    }
    return sum;
}

bool search_prepare(struct alloc_solver *s)
{
    const struct alloc_view *v = s->view;
    size_t picks = picks_most(s);
    size_t constraints = 0;
    size_t groups = 0;
    if (picks > DEVICES_MAX) {
        solver_fail(s, "the claims want %zu devices, more than %d", picks, DEVICES_MAX);
        return false;
    }
    for (size_t i = 0; i < s->p.claims_len; i++)
        if (s->p.claims[i].constraints_len > constraints)
            constraints = s->p.claims[i].constraints_len;
    if (v->cluster->features.compatibility_groups)
        for (size_t i = 0; i < v->devices_len; i++)
            if (v->devices[i].groups_len > groups)
                groups = v->devices[i].groups_len;
    const struct piece pieces[] = {
        PIECE(s->at.marks, v->devices_len + 1),
        PIECE(s->at.marked, v->devices_len / 64 + 1),
        PIECE(s->at.shares, v->devices_len + 1),
        PIECE(s->at.taken, v->caps_len + 1),
        PIECE(s->at.consumed, v->counters.n + 1),
        PIECE(s->at.overdrawn, v->pools_len + 1),
        PIECE(s->at.groups, v->sets_len + 1),
        PIECE(s->at.states, s->p.constraints_len + 1),
        PIECE(s->at.saved_states, (picks + 1) * constraints + 1),
        PIECE(s->at.saved_groups, (picks + 1) * groups + 1),
        PIECE(s->at.picks, picks + 1),
        PIECE(s->at.claim_picks, s->p.claims_len + 1),
        PIECE(s->at.chosen, s->p.requests_len + 1),
    };
    solver_allocate(s, pieces, array_len(pieces));
    for (size_t i = 0; i < v->pools_len; i++)
        s->at.overdrawn[i] = v->pools[i].overdrawn;
    if (v->sets_len)
        memcpy(s->at.groups, v->groups, v->sets_len * sizeof(*v->groups));
    return true;
}

void search_reset(struct alloc_solver *s)
{
    const struct alloc_view *v = s->view;
    memset(s->at.marks, 0, v->devices_len * sizeof(*s->at.marks));
    memset(s->at.marked, 0, (v->devices_len / 64 + 1) * sizeof(*s->at.marked));
    memset(s->at.shares, 0, v->devices_len * sizeof(*s->at.shares));
    memset(s->at.taken, 0, v->caps_len * sizeof(*s->at.taken));
    memset(s->at.consumed, 0, v->counters.n * sizeof(*s->at.consumed));
    memset(s->at.states, 0, s->p.constraints_len * sizeof(*s->at.states));
    memset(s->at.claim_picks, 0, s->p.claims_len * sizeof(*s->at.claim_picks));
    for (size_t i = 0; i < v->pools_len; i++)
        s->at.overdrawn[i] = v->pools[i].overdrawn;
    if (v->sets_len)
        memcpy(s->at.groups, v->groups, v->sets_len * sizeof(*v->groups));
    s->at.numbers_n = 0;
    s->at.saved_states_n = 0;
    s->at.saved_groups_n = 0;
    s->at.picks_n = 0;
}

enum outcome search_from(struct alloc_solver *s, uint32_t request)
{
    return next_request(s, request);
}
