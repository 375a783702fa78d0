// SPDX-License-Identifier: Apache-2.0
//
// What the policies know about the devices of a view before any question: how large they are, with
// which others they share a PCIe root, a NUMA node or a counter set, and which partitions of a set
// exclude each other. Made once with the view; order.c uses it.
#include "alloc/search/search_int.h"

#include "base/banned.h"

// --- Sizes ---------------------------------------------------------------------------------------

// An amount as a number of 16 bits that keeps the order: a length and the bits behind the first.
uint16_t rank_size(amount a)
{
    if (a <= 0)
        return 0;
    uint64_t high = (uint64_t)(a >> 64);
    uint64_t low = (uint64_t)a;
    unsigned bits =
        high ? 128U - (unsigned)__builtin_clzll(high) : 64U - (unsigned)__builtin_clzll(low);
    uint64_t top =
        (uint64_t)(bits > 10 ? a >> (bits - 10) : a << (10 - bits)); // 10 bits, first is 1
    return (uint16_t)((bits - 1) << 9 | (top & 0x1FF));
}

static amount rank_size_of(const struct alloc_view *v, const struct vw_device *d)
{
    amount sum = 0;
    for (uint32_t i = 0; i < d->caps_len; i++)
        sum += v->caps[d->first_cap + i].value - v->caps[d->first_cap + i].used;
    for (uint16_t i = 0; d->caps_len == 0 && i < d->counters_len; i++)
        sum += v->counter_uses[d->first_counter + i].value;
    return sum;
}

// --- Places --------------------------------------------------------------------------------------

static const char *const pcie_names[] = {"resource.kubernetes.io/pcieRoot", "pcieRoot"};
static const char *const numa_names[] = {"resource.kubernetes.io/numaNode", "numaNode", "numa"};

struct place_key {
    uint32_t pool;
    uint32_t value;
    uint32_t kind;
};

struct place_map MAP(uint32_t);

static const struct attr_value *rank_find_attribute(const struct cl_device *d,
                                                    const char *const *names, size_t n)
{
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < d->api->attributes.n; i++)
            if (str_eqz(d->api->attributes.p[i].key, names[k]) && d->attrs[i].n)
                return &d->attrs[i];
    return NULL;
}

void rank_device(struct cl_device *d)
{
    d->pcie = rank_find_attribute(d, pcie_names, array_len(pcie_names));
    d->numa = rank_find_attribute(d, numa_names, array_len(numa_names));
}

// The number of a device's place, from 1; 0 when it has none.
static uint32_t rank_place_of(struct alloc_view *v, struct place_map *m, const struct vw_device *d,
                              const struct attr_value *value, uint32_t kind)
{
    bool is_new = false;
    if (!value)
        return 0;
    struct place_key *key = arena_one(&v->arena, struct place_key);
    *key = (struct place_key){d->pool, value->ids[0], kind};
    uint32_t *at = map_put_new(m, str_make((const char *)key, sizeof(*key)), &is_new);
    if (is_new)
        *at = (uint32_t)map_len(m);
    return *at;
}

static void find_places(struct alloc_view *v)
{
    struct place_map m = {0};
    for (size_t i = 0; i < v->devices_len; i++) {
        const struct vw_device *d = &v->devices[i];
        struct vw_rank *r = &v->ranks[i];
        r->pcie = rank_place_of(v, &m, d, d->cl->pcie, 0);
        r->numa = rank_place_of(v, &m, d, d->cl->numa, 1);
    }
    v->places.n = map_len(&m) + 1;
    v->places.free = arena_array(&v->arena, uint32_t, v->places.n);
    v->places.begun = arena_array(&v->arena, bool, v->places.n);
    map_done(&m);
}

// What is free where.
static void count_places(struct alloc_view *v)
{
    memset(v->places.free, 0, v->places.n * sizeof(*v->places.free));
    memset(v->places.begun, 0, v->places.n * sizeof(*v->places.begun));
    for (size_t i = 0; i < v->pools_len; i++)
        v->pools[i].begun_free = v->pools[i].largest_place = 0;
    for (size_t i = 0; i < v->devices_len; i++) {
        bool free_now = !v->devices[i].exclusive_use;
        v->places.begun[v->ranks[i].pcie] |= !free_now;
        v->places.free[v->ranks[i].pcie] += free_now;
        v->places.free[v->ranks[i].numa] += free_now;
    }
    for (size_t i = 0; i < v->devices_len; i++) {
        struct vw_pool *p = &v->pools[v->devices[i].pool];
        uint32_t place = v->ranks[i].pcie;
        if (place && v->places.begun[place])
            p->begun_free += !v->devices[i].exclusive_use;
        else if (place && v->places.free[place] > p->largest_place)
            p->largest_place = v->places.free[place];
    }
}

// --- Counter sets --------------------------------------------------------------------------------

bool rank_beside(const struct alloc_view *v, const struct vw_device *a, const struct vw_device *b,
                 const amount *have)
{
    for (uint16_t i = 0; i < a->counters_len; i++) {
        const struct counter_use *x = &v->counter_uses[a->first_counter + i];
        for (uint16_t k = 0; k < b->counters_len; k++) {
            const struct counter_use *y = &v->counter_uses[b->first_counter + k];
            if (x->counter == y->counter && x->value + y->value > have[x->counter])
                return false;
        }
    }
    return true;
}

static bool fits_now(const struct alloc_view *v, const struct vw_device *d)
{
    bool fits = !d->exclusive_use;
    for (uint16_t i = 0; i < d->counters_len; i++) {
        const struct counter_use *u = &v->counter_uses[d->first_counter + i];
        fits &= u->value <= v->counters.available[u->counter];
    }
    return fits;
}

static amount rank_sixteenths_of(amount part, amount all)
{
    if (part < INT64_MAX / 16 && all < INT64_MAX) // mostly; dividing more takes long
        return (int64_t)part * 16 / (int64_t)all;
    return part * 16 / all;
}

// How much of a set a device is, from 1 to 16: the largest part of any counter, or of the counters.
static uint8_t weight_of(const struct alloc_view *v, const struct vw_device *d, uint32_t counters)
{
    amount most = 1 + (amount)d->counters_len * 15 / (counters ? counters : 1);
    for (uint16_t i = 0; i < d->counters_len; i++) {
        const struct counter_use *u = &v->counter_uses[d->first_counter + i];
        amount all = v->counters.available[u->counter];
        amount part = all > 0 && u->value > 0 ? rank_sixteenths_of(u->value, all) : 0;
        // A counter that is one or nothing, such as a slice of memory, has nothing to do with size.
        if (u->value < all && part > most)
            most = part;
    }
    return (uint8_t)(most > 16 ? 16 : most);
}

// Amounts of a device by counter, more by one: what it does not draw on is 0.
#define SCRATCH_MARK 1

static bool fits_beside(const struct alloc_view *v, const amount *scratch,
                        const struct vw_device *d)
{
    const struct counter_use *use = &v->counter_uses[d->first_counter];
    for (uint16_t i = 0; i < d->counters_len; i++) {
        amount other = scratch[use[i].counter];
        if (other && other - SCRATCH_MARK + use[i].value > v->counters.available[use[i].counter])
            return false;
    }
    return true;
}

// Fills in which members exclude each other, by rank_beside. scratch: 0 for each counter.
static void compare_in_set(struct alloc_view *v, const struct vw_set *s, amount *scratch)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const struct vw_device *a = &v->devices[s->members[i]];
        const struct counter_use *own = &v->counter_uses[a->first_counter];
        for (uint16_t c = 0; c < a->counters_len; c++)
            scratch[own[c].counter] = own[c].value + SCRATCH_MARK;
        for (uint32_t k = i + 1; k < s->n; k++)
            if (!fits_beside(v, scratch, &v->devices[s->members[k]])) {
                v->ranks[s->members[i]].excludes |= UINT64_C(1) << k;
                v->ranks[s->members[k]].excludes |= UINT64_C(1) << i;
            }
        for (uint16_t c = 0; c < a->counters_len; c++)
            scratch[own[c].counter] = 0;
    }
}

uint32_t rank_excluded(const struct alloc_view *v, uint32_t device, uint64_t fits)
{
    const struct vw_rank *r = &v->ranks[device];
    const struct vw_set *set = &v->sets[r->set - 1];
    uint32_t sum = 0;
    for (uint64_t x = r->excludes & fits; x; x &= x - 1)
        sum += v->ranks[set->members[__builtin_ctzll(x)]].weight;
    return sum;
}

static void rank_find_sets(struct alloc_view *v)
{
    v->sets = arena_array(&v->arena, struct vw_set, v->sets_len + 1);
    v->sets_now = arena_array(&v->arena, struct set_now, v->sets_len + 1);
    for (size_t i = 0; i < v->counters.n; i++)
        v->sets[v->counters.set[i]].counters++;
    for (uint32_t i = 0; i < v->devices_len; i++) {
        const struct vw_device *d = &v->devices[i];
        struct vw_rank *r = &v->ranks[i];
        if (d->groups_len == 0)
            continue;
        struct vw_set *set = &v->sets[v->group_uses[d->first_group].set];
        r->set = v->group_uses[d->first_group].set + 1;
        if (!set->members)
            set->members = arena_array(&v->arena, uint32_t, VIEW_SET_MEMBERS);
        r->local = (uint8_t)set->n;
        if (set->n < VIEW_SET_MEMBERS) // the rest is not looked ahead at
            set->members[set->n++] = i;
    }
}

// What is left of the sets that changed; NULL: of all.
static void look_at_sets(struct alloc_view *v, const bool *changed)
{
    v->any_set_begun = false;
    for (size_t i = 0; i < v->sets_len; i++)
        if (!changed || changed[i])
            v->sets_now[i] = (struct set_now){0};
    for (uint32_t i = 0; i < v->devices_len; i++) {
        const struct vw_device *d = &v->devices[i];
        struct vw_rank *r = &v->ranks[i];
        if (!r->set)
            continue;
        struct set_now *now = &v->sets_now[r->set - 1];
        now->begun |= d->exclusive_use || d->shared_use;
        v->any_set_begun |= now->begun;
        if (changed && !changed[r->set - 1])
            continue;
        r->excludes = 0;
        r->weight = weight_of(v, d, v->sets[r->set - 1].counters);
        if (r->local < VIEW_SET_MEMBERS && fits_now(v, d))
            now->fits |= UINT64_C(1) << r->local;
    }
    struct arena_mark m = arena_mark(&v->arena);
    amount *scratch = arena_array(&v->arena, amount, v->counters.n + 1);
    for (size_t i = 0; i < v->sets_len; i++)
        if (!changed || changed[i])
            compare_in_set(v, &v->sets[i], scratch);
    arena_rewind(&v->arena, m);
}

// Names are compared with those of the pool's first set, which mostly has them all.
static void name_kinds(struct alloc_view *v)
{
    v->counters.kind = arena_array(&v->arena, uint32_t, v->counters.n + 1);
    size_t *first = arena_array(&v->arena, size_t, v->counters.n + 1);
    for (size_t c = 0; c < v->counters.n; c++) {
        struct str set;
        struct str name = v->counters.names[c];
        (void)str_cut(v->counters.names[c], '/', &set, &name);
        uint32_t k = 0;
        for (; k < v->counters.kinds; k++) {
            struct str other = v->counters.names[first[k]];
            (void)str_cut(v->counters.names[first[k]], '/', &set, &other);
            if (v->counters.pool[first[k]] == v->counters.pool[c] && str_eq(other, name))
                break;
        }
        if (k == v->counters.kinds)
            first[v->counters.kinds++] = c;
        v->counters.kind[c] = k;
    }
}

// --- Order ---------------------------------------------------------------------------------------

struct placed {
    uint32_t place; // first device of the same PCIe root
    uint32_t set;   // first device of the same counter set
    uint32_t excluded;
    uint32_t device;
};

static int by_place(const void *x, const void *y)
{
    const struct placed *a = x;
    const struct placed *b = y;
    if (a->place != b->place)
        return a->place < b->place ? -1 : 1;
    if (a->set != b->set)
        return a->set < b->set ? -1 : 1;
    if (a->excluded != b->excluded)
        return a->excluded < b->excluded ? -1 : 1;
    return a->device < b->device ? -1 : 1;
}

static void fill_seat(const struct alloc_view *v, struct vw_seat *t, uint32_t device)
{
    const struct vw_device *d = &v->devices[device];
    const struct vw_rank *r = &v->ranks[device];
    *t = (struct vw_seat){.device = device,
                          .cl_index = d->cl_index,
                          .pcie = r->pcie,
                          .numa = r->numa,
                          .set = r->set,
                          .refused = d->refused,
                          .exclusive_use = d->exclusive_use,
                          .shared = d->shared,
                          .shared_use = d->shared_use};
    order_seat(v, t, v->pools[d->pool].binding, r->size);
}

// Nearly sorted as they are when little has changed.
static void sort_again(struct placed *p, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        struct placed x = p[i];
        size_t at = i;
        for (; at > 0 && by_place(&p[at - 1], &x) > 0; at--)
            p[at] = p[at - 1];
        p[at] = x;
    }
}

// Devices side by side with those of their place and set; in a set, the least in the way first.
// again: seats are in an order from before.
static void find_positions(struct alloc_view *v, bool again)
{
    struct arena_mark m = arena_mark(&v->arena);
    struct placed *p = arena_array(&v->arena, struct placed, v->devices_len + 1);
    uint32_t *first_of_place = arena_array(&v->arena, uint32_t, v->places.n);
    uint32_t *first_of_set = arena_array(&v->arena, uint32_t, v->sets_len + 1);
    for (uint32_t i = (uint32_t)v->devices_len; i-- > 0;) {
        first_of_place[v->ranks[i].pcie] = i;
        first_of_set[v->ranks[i].set] = i;
    }
    for (uint32_t i = 0; i < v->devices_len; i++) {
        uint32_t device = again ? v->seats[i].device : i;
        const struct vw_rank *r = &v->ranks[device];
        uint32_t set = r->set ? first_of_set[r->set] : device;
        p[i] = (struct placed){r->pcie ? first_of_place[r->pcie] : set, set,
                               r->set ? rank_excluded(v, device, v->sets_now[r->set - 1].fits) : 0,
                               device};
    }
    if (again)
        sort_again(p, v->devices_len);
    else
        qsort(p, v->devices_len, sizeof(*p), by_place);
    for (uint32_t i = 0; i < v->devices_len; i++)
        fill_seat(v, &v->seats[i], p[i].device);
    arena_rewind(&v->arena, m);
}

void rank_view(struct alloc_view *v)
{
    v->ranks = arena_array(&v->arena, struct vw_rank, v->devices_len + 1);
    v->seats = arena_array(&v->arena, struct vw_seat, v->devices_len + 1);
    for (size_t i = 0; i < v->devices_len; i++)
        v->ranks[i].size = rank_size(rank_size_of(v, &v->devices[i]));
    find_places(v);
    count_places(v);
    rank_find_sets(v);
    look_at_sets(v, NULL);
    name_kinds(v);
    find_positions(v, false);
}

void rank_again(struct alloc_view *v, const bool *sets_changed)
{
    for (size_t i = 0; i < v->devices_len; i++)
        if (v->devices[i].caps_len)
            v->ranks[i].size = rank_size(rank_size_of(v, &v->devices[i]));
    count_places(v);
    look_at_sets(v, sets_changed);
    find_positions(v, true);
}
