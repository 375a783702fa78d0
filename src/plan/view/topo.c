// SPDX-License-Identifier: Apache-2.0
//
// How near the devices of a node are to each other, from the attributes that drivers publish.
#include "plan/topo.h"

#include <strings.h>

#include "base/vec.h"

#include "base/banned.h"

const char *topo_word(enum topo_near n)
{
    static const char *const words[] = {"X", "PART", "LINK", "PHB", "NODE", "SOCK", "SYS", "?"};
    return words[n];
}

const char *topo_meaning(enum topo_near n)
{
    static const char *const meanings[] = {
        "the device itself",
        "parts of one piece of hardware (they draw on the same counters)",
        "one clique of fast links (NVLink, xGMI and the like)",
        "behind the same PCIe root (host bridge)",
        "same NUMA node, different PCIe roots",
        "same socket, different NUMA nodes",
        "across NUMA nodes or sockets",
        "the devices' attributes do not tell",
    };
    return meanings[n];
}

// --- Attributes ----------------------------------------------------------------------------------

enum place { PLACE_LINK, PLACE_PCIE, PLACE_NUMA, PLACE_SOCKET, PLACES };

static bool topo_has_word(struct str name, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= name.n; i++)
        if (strncasecmp(name.p + i, word, n) == 0)
            return true;
    return false;
}

// The topic of an attribute, by the last part of its name: drivers have no common names for most.
static enum place topo_attribute_level(struct str name)
{
    static const struct {
        const char *word;
        enum place place;
    } words[] = {{"pcieroot", PLACE_PCIE}, {"pciroot", PLACE_PCIE}, {"clique", PLACE_LINK},
                 {"nvlink", PLACE_LINK},   {"xgmi", PLACE_LINK},    {"numa", PLACE_NUMA},
                 {"socket", PLACE_SOCKET}};
    ptrdiff_t slash = str_rfind_char(name, '/');
    name = str_from(name, (size_t)(slash + 1));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (topo_has_word(name, words[i].word))
            return words[i].place;
    return PLACES;
}

// Where a device sits: values with commas around each, so that one can be looked for.
struct seat {
    uint32_t device;
    uint32_t folded;
    struct str at[PLACES];
};

static struct seat seat_of(const struct inventory *inv, uint32_t device, struct arena *arena)
{
    const struct inventory_device *d = &inv->devices[device];
    struct seat s = {.device = device};
    for (size_t i = 0; i < d->device->attributes.n; i++) {
        cleanup_sbuf struct sbuf text = {0};
        enum place p = topo_attribute_level(d->device->attributes.p[i].key);
        if (p == PLACES || s.at[p].n)
            continue;
        inventory_value(&d->device->attributes.p[i].value, &text);
        if (text.n)
            s.at[p] = arena_str(arena, sbuf_str(&text));
    }
    return s;
}

static bool topo_list_has(struct str list, struct str one)
{
    while (list.n) {
        struct str head;
        (void)str_cut(list, ',', &head, &list);
        if (str_eq(head, one))
            return true;
    }
    return false;
}

// Lists have something in common.
static bool topo_lists_meet(struct str a, struct str b)
{
    while (a.n) {
        struct str head;
        (void)str_cut(a, ',', &head, &a);
        if (topo_list_has(b, head))
            return true;
    }
    return false;
}

static bool share_counters(const struct inventory_device *a, const struct inventory_device *b)
{
    if (a->pool != b->pool)
        return false;
    for (size_t i = 0; i < a->device->consumes_counters.n; i++)
        for (size_t k = 0; k < b->device->consumes_counters.n; k++)
            if (str_eq(a->device->consumes_counters.p[i].counter_set,
                       b->device->consumes_counters.p[k].counter_set))
                return true;
    return false;
}

static enum topo_near topo_compare_seats(const struct inventory *inv, const struct seat *a,
                                         const struct seat *b)
{
    static const enum topo_near levels[] = {TOPO_LINK, TOPO_PCIE, TOPO_NUMA, TOPO_SOCKET};
    bool apart = false;
    if (a->device == b->device)
        return TOPO_SELF;
    if (share_counters(&inv->devices[a->device], &inv->devices[b->device]))
        return TOPO_PART;
    for (int p = 0; p < PLACES; p++) {
        if (topo_lists_meet(a->at[p], b->at[p]))
            return levels[p];
        apart |= p != PLACE_LINK && a->at[p].n && b->at[p].n;
    }
    return apart ? TOPO_SYSTEM : TOPO_UNKNOWN;
}

// --- The matrix ----------------------------------------------------------------------------------

static int seat_cmp(const void *x, const void *y)
{
    const struct seat *a = x;
    const struct seat *b = y;
    int r = str_cmp(a->at[PLACE_NUMA], b->at[PLACE_NUMA]);
    if (!r)
        r = str_cmp(a->at[PLACE_PCIE], b->at[PLACE_PCIE]);
    return r ? r : a->device < b->device ? -1 : a->device > b->device;
}

static void topo_fill_matrix(const struct inventory *inv, const struct seat *seats,
                             struct arena *arena, struct topo *t)
{
    t->devices = arena_array(arena, uint32_t, t->n + 1);
    t->folded = arena_array(arena, uint32_t, t->n + 1);
    t->near = arena_array(arena, uint8_t, t->n * t->n + 1);
    t->pcie = arena_array(arena, struct str, t->n + 1);
    t->numa = arena_array(arena, struct str, t->n + 1);
    t->socket = arena_array(arena, struct str, t->n + 1);
    for (size_t i = 0; i < t->n; i++) {
        t->devices[i] = seats[i].device;
        t->folded[i] = seats[i].folded;
        t->pcie[i] = seats[i].at[PLACE_PCIE];
        t->numa[i] = seats[i].at[PLACE_NUMA];
        t->socket[i] = seats[i].at[PLACE_SOCKET];
        for (size_t k = 0; k < t->n; k++)
            t->near[i * t->n + k] = (uint8_t)topo_compare_seats(inv, &seats[i], &seats[k]);
    }
}

// Takes a device in, unless one that is there is made of the same hardware and stands for it.
static void add_seat(const struct inventory *inv, struct seat *seats, size_t *n, uint32_t device,
                     bool all, struct arena *arena)
{
    for (size_t i = 0; !all && i < *n; i++)
        if (share_counters(&inv->devices[seats[i].device], &inv->devices[device])) {
            seats[i].folded++;
            return;
        }
    seats[(*n)++] = seat_of(inv, device, arena);
}

int topo_find(const struct inventory *inv, struct str node, bool all, struct arena *arena,
              struct topo *ret, struct err *err)
{
    for (size_t i = 0; i < inv->nodes_len; i++) {
        const struct inventory_node *n = &inv->nodes[i];
        if (!str_eq(n->name, node))
            continue;
        struct topo t = {0};
        struct seat *seats = arena_array(arena, struct seat, n->devices + 1);
        for (size_t k = 0; k < n->devices; k++)
            add_seat(inv, seats, &t.n, inv->by_node[n->first + k], all, arena);
        if (t.n)
            qsort(seats, t.n, sizeof(*seats), seat_cmp);
        topo_fill_matrix(inv, seats, arena, &t);
        *ret = t;
        return 0;
    }
    return err_set(err, ERR_NOT_FOUND, "there is no node %.*s", STR_ARG(node));
}
