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
// Numbers go into a heap, from which they are taken as the search asks for them.
#include "alloc/alloc_int.h"

#include "base/banned.h"

// Bits from the left: binding 1, begun 1, size 16, PCIe 6, NUMA 6, fullness 6, excluded 8, position 20.
#define SHIFT_BINDING  63
#define SHIFT_BEGUN    62
#define SHIFT_SIZE     46
#define SHIFT_PCIE     40
#define SHIFT_NUMA     34
#define SHIFT_FULLNESS 28
#define SHIFT_EXCLUDED 20
#define PLACE_MOST     63U
#define EXCLUDED_MOST  255U

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
    memcpy(f->place_free, v->place_free, v->places_len * sizeof(*f->place_free));
    for (size_t i = 0; i < v->sets_len; i++)
        f->sets[i] = (struct set_now){v->sets[i].fits, v->sets[i].begun};
    for (size_t i = 0; i < s->picks_n; i++) {
        const struct vw_rank *r = &v->ranks[s->picks[i].device];
        bool shared = v->devices[s->picks[i].device].shared;
        f->place_free[r->pcie] -= !shared && f->place_free[r->pcie];
        f->place_free[r->numa] -= !shared && f->place_free[r->numa];
        if (!r->set)
            continue;
        struct set_now *set = &f->sets[r->set - 1];
        set->begun = true;
        set->fits &= ~r->excludes;
        if (r->local < VIEW_SET_MEMBERS)
            set->fits &= ~(UINT64_C(1) << r->local);
    }
}

static bool begun(const struct alloc_solver *s, uint32_t device)
{
    const struct vw_device *d = &s->view->devices[device];
    const struct vw_rank *r = &s->view->ranks[device];
    return (r->set && s->preference.sets[r->set - 1].begun) ||
           (d->shared && (d->shared_use || s->shares[device]));
}

static uint16_t size_now(const struct alloc_solver *s, uint32_t device)
{
    const struct vw_device *d = &s->view->devices[device];
    if (!s->shares[device])
        return s->view->ranks[device].size;
    amount sum = 0;
    for (uint32_t i = 0; i < d->caps_len; i++) {
        const struct vw_cap *c = &s->view->caps[d->first_cap + i];
        sum += c->value - c->used - s->taken[d->first_cap + i];
    }
    return rank_size(sum);
}

// --- Preferences ---------------------------------------------------------------------------------

// A place that holds all that is wanted, with as little as possible left over; else the fullest part.
static uint64_t place_rest(uint32_t place, uint32_t have, int64_t want)
{
    if (!place)
        return 0;
    if (have >= want)
        return have - want < 31 ? (uint64_t)(have - want) : 31;
    return 32 + 31 - (have < 31 ? have : 31);
}

static uint64_t pack_preference(const struct alloc_solver *s, uint32_t device, int64_t want)
{
    const struct preference *f = &s->preference;
    const struct vw_rank *r = &s->view->ranks[device];
    uint64_t key = (uint64_t)size_now(s, device) << SHIFT_SIZE |
                   place_rest(r->pcie, f->place_free[r->pcie], want) << SHIFT_PCIE |
                   place_rest(r->numa, f->place_free[r->numa], want) << SHIFT_NUMA;
    if (!begun(s, device))
        return key | UINT64_C(1) << SHIFT_BEGUN;
    if (r->set) {
        uint64_t fits = f->sets[r->set - 1].fits;
        uint32_t excluded = rank_excluded(s->view, device, fits);
        uint64_t left = (uint64_t)__builtin_popcountll(fits);
        key |= (left < PLACE_MOST ? left : PLACE_MOST) << SHIFT_FULLNESS |
               (uint64_t)(excluded < EXCLUDED_MOST ? excluded : EXCLUDED_MOST) << SHIFT_EXCLUDED;
    }
    return key;
}

static uint64_t most_first(uint32_t n)
{
    return PLACE_MOST - (n < PLACE_MOST ? n : PLACE_MOST);
}

static uint64_t spread_preference(struct alloc_solver *s, uint32_t device)
{
    struct preference *f = &s->preference;
    const struct vw_rank *r = &s->view->ranks[device];
    uint32_t turn = r->pcie ? f->turns[r->pcie]++ : r->set ? f->set_turns[r->set]++ : 0;
    return (uint64_t)begun(s, device) << SHIFT_BEGUN |
           (uint64_t)(turn < 255 ? turn : 255) << SPREAD_TURN |
           most_first(r->pcie ? f->place_free[r->pcie] : 0) << SPREAD_PCIE |
           most_first(r->numa ? f->place_free[r->numa] : 0) << SPREAD_NUMA |
           (uint64_t)(UINT16_MAX - size_now(s, device)) << SPREAD_SIZE;
}

// --- Heap ----------------------------------------------------------------------------------------

static void sift_down(uint64_t *heap, uint32_t n, uint32_t at)
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

void order_sort(struct order *o, uint32_t at)
{
    while (o->sorted <= at && o->sorted < o->n) {
        uint32_t left = o->n - o->sorted;
        o->keys[o->sorted++] = o->heap[0];
        o->heap[0] = o->heap[left - 1];
        if (left > 1)
            sift_down(o->heap, left - 1, 0);
    }
}

// --- Orders --------------------------------------------------------------------------------------

bool order_begin(struct alloc_solver *s)
{
    const struct alloc_view *v = s->view;
    struct preference *f = &s->preference;
    if (v->devices_len > ORDER_POSITION)
        return false; // more than a key can number: as published
    const struct piece pieces[] = {
        PIECE(s->orders, s->requests_len + 1), PIECE(f->place_free, v->places_len),
        PIECE(f->turns, v->places_len),        PIECE(f->set_turns, v->sets_len + 1),
        PIECE(f->sets, v->sets_len + 1),
    };
    solver_allocate(s, pieces, array_len(pieces));
    return true;
}

static bool worth_trying(const struct alloc_solver *s, const struct alternative *a, uint32_t device)
{
    const struct vw_device *d = &s->view->devices[device];
    if (!a->admin && (d->exclusive_use || s->marks[device]))
        return false;
    return !d->refused && a->class_->match[d->cl_index] != MATCH_NO;
}

void order_prepare(struct alloc_solver *s, const struct alternative *a)
{
    const struct alloc_view *v = s->view;
    struct order *o = &s->orders[a->request];
    bool spread = s->options.policy == ALLOC_SPREAD;
    if (!o->keys) {
        const struct piece pieces[] = {PIECE(o->keys, v->devices_len),
                                       PIECE(o->heap, v->devices_len)};
        solver_allocate(s, pieces, array_len(pieces));
    }
    o->n = 0;
    o->sorted = 0;
    note_picks(s);
    if (spread) {
        memset(s->preference.turns, 0, v->places_len * sizeof(uint32_t));
        memset(s->preference.set_turns, 0, (v->sets_len + 1) * sizeof(uint32_t));
    }
    for (uint32_t i = 0; i < v->devices_len; i++) {
        uint32_t device = v->by_position[i];
        if (!worth_trying(s, a, device))
            continue;
        uint64_t key = spread ? spread_preference(s, device) : pack_preference(s, device, a->count);
        o->heap[o->n++] =
            key | (uint64_t)v->pools[v->devices[device].pool].binding << SHIFT_BINDING | i;
    }
    for (uint32_t i = o->n / 2; i-- > 0;)
        sift_down(o->heap, o->n, i);
    (void)solver_tick(s, (uint32_t)v->devices_len);
}
