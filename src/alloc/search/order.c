// SPDX-License-Identifier: Apache-2.0
//
// The order in which candidates are tried under the policies pack and spread. The first solution
// still wins, so the order is the preference; what is tried does not change, only when.
//
// A preference is a number of 64 bits, smallest first. From the most important part on:
//
//   pack    pools without binding conditions · shared devices and counter sets that are begun ·
//           the smallest · the PCIe root, then the NUMA node that the request fills best · of begun
//           sets the fullest · the partition that excludes the least of what still fits · position
//   spread  pools without binding conditions · what is not begun · the first of each place before
//           the second · the place with the most left · the largest · position
//
// The smallest number is found at once; when the search asks for more they become a heap, and move
// from its root to the end of the same array.
#include "alloc/search/search_int.h"

#include "base/banned.h"

// Bits from the left: binding 1, begun 1, size 16, PCIe 6, NUMA 6, fullness 6, excluded 8, position
// 20.
#define SHIFT_BINDING  63
#define SHIFT_BEGUN    62
#define SHIFT_SIZE     46
#define SHIFT_PCIE     40
#define SHIFT_NUMA     34
#define SHIFT_FULLNESS 28
#define SHIFT_EXCLUDED 20
#define PLACE_MOST     63U
#define EXCLUDED_MOST  255U
#define ORDER_FIXED    (UINT64_C(1) << SHIFT_BINDING | ORDER_POSITION)

// spread: binding 1, begun 1, turn 8, PCIe 6, NUMA 6, size 16, position 20.
#define SPREAD_TURN 54
#define SPREAD_PCIE 48
#define SPREAD_NUMA 42
#define SPREAD_SIZE 26

// --- What has been picked ------------------------------------------------------------------------

static void note_picks(struct alloc_solver *s)
{
    const struct alloc_view *v = s->view;
    struct preference *f = &s->preference;
    f->place_free = v->places.free;
    f->sets = v->sets_now;
    if (s->at.picks_n == 0)
        return;
    memcpy(f->own_free, v->places.free, v->places.n * sizeof(*f->own_free));
    memcpy(f->own_sets, v->sets_now, v->sets_len * sizeof(*f->own_sets));
    f->place_free = f->own_free;
    f->sets = f->own_sets;
    for (size_t i = 0; i < s->at.picks_n; i++) {
        const struct vw_rank *r = &v->ranks[s->at.picks[i].device];
        bool shared = v->devices[s->at.picks[i].device].shared;
        f->own_free[r->pcie] -= !shared && f->own_free[r->pcie];
        f->own_free[r->numa] -= !shared && f->own_free[r->numa];
        if (!r->set)
            continue;
        struct set_now *set = &f->own_sets[r->set - 1];
        set->begun = true;
        set->fits &= ~r->excludes;
        if (r->local < VIEW_SET_MEMBERS)
            set->fits &= ~(UINT64_C(1) << r->local);
    }
}

static inline bool order_is_begun(const struct alloc_solver *s, const struct vw_seat *t)
{
    return (t->set && s->preference.sets[t->set - 1].begun) ||
           (t->shared && (t->shared_use || s->at.shares[t->device]));
}

// The size of a device that shares were picked of.
static uint64_t size_left(const struct alloc_solver *s, uint32_t device)
{
    const struct vw_device *d = &s->view->devices[device];
    amount sum = 0;
    for (uint32_t i = 0; i < d->caps_len; i++) {
        const struct vw_cap *c = &s->view->caps[d->first_cap + i];
        sum += c->value - c->used - s->at.taken[d->first_cap + i];
    }
    return rank_size(sum);
}

static inline uint64_t size_now(const struct alloc_solver *s, const struct vw_seat *t)
{
    return t->shared && s->at.shares[t->device] ? size_left(s, t->device)
                                                : t->key >> SHIFT_SIZE & UINT16_MAX;
}

// --- Preferences ---------------------------------------------------------------------------------

// A place that holds all that is wanted, with as little as possible left over; else the fullest
// part.
static inline uint64_t place_rest(uint32_t place, uint32_t have, int64_t want)
{
    if (!place)
        return 0;
    if (have >= want)
        return have - want < 31 ? (uint64_t)(have - want) : 31;
    return 32 + 31 - (have < 31 ? have : 31);
}

// What pack thinks of a device of this size, begun or not, for a request of so many.
static inline uint64_t pack_key(const struct alloc_view *v, const struct preference *f,
                                const struct vw_seat *t, uint64_t size, bool begun, int64_t want)
{
    uint64_t key = size << SHIFT_SIZE |
                   place_rest(t->pcie, f->place_free[t->pcie], want) << SHIFT_PCIE |
                   place_rest(t->numa, f->place_free[t->numa], want) << SHIFT_NUMA;
    if (!begun)
        return key | UINT64_C(1) << SHIFT_BEGUN;
    if (t->set) {
        uint64_t fits = f->sets[t->set - 1].fits;
        uint32_t excluded = rank_excluded(v, t->device, fits);
        uint64_t left = (uint64_t)__builtin_popcountll(fits);
        key |= (left < PLACE_MOST ? left : PLACE_MOST) << SHIFT_FULLNESS |
               (uint64_t)(excluded < EXCLUDED_MOST ? excluded : EXCLUDED_MOST) << SHIFT_EXCLUDED;
    }
    return key;
}

void order_seat(const struct alloc_view *v, struct vw_seat *t, bool binding, uint16_t size)
{
    const struct preference f = {.place_free = v->places.free, .sets = v->sets_now};
    bool begun = (t->set && v->sets_now[t->set - 1].begun) || (t->shared && t->shared_use);
    t->key = (uint64_t)binding << SHIFT_BINDING | (uint64_t)size << SHIFT_SIZE |
             (uint64_t)(t - v->seats);
    t->pack_one = pack_key(v, &f, t, size, begun, 1) | (t->key & ORDER_FIXED);
}

static uint64_t most_first(uint32_t n)
{
    return PLACE_MOST - (n < PLACE_MOST ? n : PLACE_MOST);
}

static uint64_t spread_preference(struct alloc_solver *s, const struct vw_seat *t)
{
    struct preference *f = &s->preference;
    uint32_t turn = t->pcie ? f->turns[t->pcie]++ : t->set ? f->set_turns[t->set]++ : 0;
    return (uint64_t)order_is_begun(s, t) << SHIFT_BEGUN |
           (uint64_t)(turn < 255 ? turn : 255) << SPREAD_TURN |
           most_first(t->pcie ? f->place_free[t->pcie] : 0) << SPREAD_PCIE |
           most_first(t->numa ? f->place_free[t->numa] : 0) << SPREAD_NUMA |
           (UINT16_MAX - size_now(s, t)) << SPREAD_SIZE;
}

// --- Heap ----------------------------------------------------------------------------------------

static void order_sift_down(uint64_t *heap, uint32_t n, uint32_t at)
{
    uint64_t x = heap[at];
    for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= x)
            break;
        heap[at] = heap[child];
    }
    heap[at] = x;
}

// The first one is known without a heap, and often enough.
static void sort_first(struct order *o)
{
    uint64_t first = o->keys[o->least];
    o->keys[o->least] = o->keys[o->n - 1];
    o->keys[o->n - 1] = first;
}

void order_sort(struct order *o, uint32_t at)
{
    while (o->sorted <= at && o->sorted < o->n) {
        uint32_t left = o->n - o->sorted;
        if (o->sorted == 1)
            for (uint32_t i = left / 2; i-- > 0;)
                order_sift_down(o->keys, left, i);
        if (o->sorted++ == 0) {
            sort_first(o);
            continue;
        }
        uint64_t first = o->keys[0];
        o->keys[0] = o->keys[left - 1];
        if (left > 1)
            order_sift_down(o->keys, left - 1, 0);
        o->keys[left - 1] = first;
    }
}

// --- Orders --------------------------------------------------------------------------------------

bool order_begin(struct alloc_solver *s)
{
    const struct alloc_view *v = s->view;
    struct preference *f = &s->preference;
    bool spread = s->options.policy == ALLOC_SPREAD;
    bool several = s->p.requests_len > 1; // a single request is ordered before anything is picked
    if (v->devices_len > ORDER_POSITION)
        return false; // more than a key can number: as published
    uint64_t *keys;   // of the first request, which is always ordered
    const struct piece pieces[] = {
        PIECE(s->at.orders, s->p.requests_len + 1),
        PIECE(keys, v->devices_len),
        PIECE(f->own_free, several ? v->places.n : 0),
        PIECE(f->own_sets, several ? v->sets_len + 1 : 0),
        PIECE(f->turns, spread ? v->places.n : 0),
        PIECE(f->set_turns, spread ? v->sets_len + 1 : 0),
    };
    solver_allocate(s, pieces, array_len(pieces));
    s->at.orders[0].keys = keys;
    return true;
}

static inline bool worth_trying(const struct alloc_solver *s, const struct alternative *a,
                                const struct vw_seat *t)
{
    if (!a->admin && (t->exclusive_use || s->at.marks[t->device]))
        return false;
    return !t->refused && a->class_->match[t->cl_index] != MATCH_NO;
}

// One device, before any is picked: the view has thought of that.
static void order_known(const struct alloc_solver *s, const struct alternative *a, struct order *o)
{
    const uint8_t *match = a->class_->match;
    uint64_t first = UINT64_MAX;
    uint32_t n = 0;
    for (const struct vw_seat *t = s->view->seats, *end = t + s->view->devices_len; t < end; t++) {
        if (t->refused || (t->exclusive_use && !a->admin) || match[t->cl_index] == MATCH_NO)
            continue;
        o->least = t->pack_one < first ? n : o->least;
        first = t->pack_one < first ? t->pack_one : first;
        o->keys[n++] = t->pack_one;
    }
    o->n = n;
}

// What devices cost is known from outside: that first, then the place.
static inline uint64_t loss_key(const struct preference *f, const struct vw_seat *t, uint16_t loss,
                                int64_t want)
{
    return (uint64_t)loss << SHIFT_SIZE |
           place_rest(t->pcie, f->place_free[t->pcie], want) << SHIFT_PCIE |
           place_rest(t->numa, f->place_free[t->numa], want) << SHIFT_NUMA;
}

// Of partitions with the same loss that of the fullest set, and there the one that is least in the
// way.
static inline uint64_t slot_key(const struct alloc_view *v, const struct preference *f,
                                const struct vw_seat *t, uint16_t loss)
{
    uint64_t fits = f->sets[t->set - 1].fits;
    uint64_t left = (uint64_t)__builtin_popcountll(fits);
    uint32_t excluded = rank_excluded(v, t->device, fits);
    return (uint64_t)loss << SHIFT_SIZE | (left < PLACE_MOST ? left : PLACE_MOST) << SHIFT_PCIE |
           (uint64_t)(excluded < EXCLUDED_MOST ? excluded : EXCLUDED_MOST) << SHIFT_EXCLUDED;
}

static void ask_loss(struct alloc_solver *s, const struct alternative *a, struct order *o)
{
    if (o->asked || !s->options.loss || s->options.policy != ALLOC_PACK)
        return;
    o->asked = true;
    o->loss = arena_array(&s->arena, uint16_t, s->view->devices_len + 1);
    if (!s->options.loss(s->options.loss_arg, s->view, a->request, o->loss))
        o->loss = NULL;
}

static void order_all(struct alloc_solver *s, const struct alternative *a, struct order *o)
{
    const struct alloc_view *v = s->view;
    bool spread = s->options.policy == ALLOC_SPREAD;
    uint64_t first = UINT64_MAX;
    uint32_t n = 0;
    note_picks(s);
    if (spread) {
        memset(s->preference.turns, 0, v->places.n * sizeof(uint32_t));
        memset(s->preference.set_turns, 0, (v->sets_len + 1) * sizeof(uint32_t));
    }
    for (const struct vw_seat *t = v->seats, *end = t + v->devices_len; t < end; t++) {
        if (!worth_trying(s, a, t))
            continue;
        uint64_t key = spread              ? spread_preference(s, t)
                       : o->loss && t->set ? slot_key(v, &s->preference, t, o->loss[t->device])
                       : o->loss ? loss_key(&s->preference, t, o->loss[t->device], a->count)
                                 : pack_key(v, &s->preference, t, size_now(s, t),
                                            order_is_begun(s, t), a->count);
        key |= t->key & ORDER_FIXED;
        if (key < first) {
            first = key;
            o->least = n;
        }
        o->keys[n++] = key;
    }
    o->n = n;
}

void order_prepare(struct alloc_solver *s, const struct alternative *a)
{
    struct order *o = &s->at.orders[a->request];
    if (!o->keys)
        o->keys = arena_array(&s->arena, uint64_t, s->view->devices_len);
    ask_loss(s, a, o);
    if (s->options.policy == ALLOC_PACK && !o->loss && s->at.picks_n == 0 && a->count == 1)
        order_known(s, a, o);
    else
        order_all(s, a, o);
    o->sorted = 0;
    (void)solver_tick(s, (uint32_t)s->view->devices_len);
}
