// SPDX-License-Identifier: Apache-2.0
//
// Nodes, questions and what is known about each on the other. Nodes that cannot be distinguished
// are a class: a choice looks at classes, and at nodes only as they are named.
#include <stdlib.h>
#include <string.h>

#include "alloc/fleet/fleet_int.h"
#include "alloc/model/crowd.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/vec.h"

#include "base/banned.h"

// Choices between two looks at what is scarce; more often where it is a matter of single slots.
#define LOOK_EVERY 64
#define LOOK_OFTEN 16

// Numbers kept about questions on nodes, all in all.
#define CELLS_MAX     (size_t)4000000
#define QUESTIONS_MIN 32

// What is known about a question on a class.
struct cell {
    uint32_t stamp; // when it was found out
    int32_t score;  // CELL_*, or how good
};

#define CELL_NO     INT32_MIN       // certainly not
#define CELL_UNSURE (INT32_MIN + 1) // the model sees no room
#define CELL_LEAST  (INT32_MIN + 2)

struct question {
    struct fleet_question pub;
    uint64_t used; // when, to find the oldest
    size_t types;  // for which parts are known
    bool plain;    // it wants no units
    uint16_t part; // that one unit must have left at the least; 0: not certain
    uint64_t fit;  // types that will do for the first request, one bit each; all: not certain
    double price;  // of its units, at price_stamp
    uint32_t price_stamp;
    struct cell *cells;
    size_t cells_len;
};

struct choice {
    int32_t score;
    uint64_t tie; // among equal scores the lower
    uint32_t order;
    uint32_t class;
    uint32_t place; // in the crowd of its class
};

// Nodes with equal units, processors and memory. What decides about most of them stands in front,
// because a choice looks at all classes.
struct class
{
    int64_t cpu; // left
    int64_t memory;
    uint64_t types;       // of units, one bit each; all of them: not certain
    uint32_t stamp;       // when it came up; 0: there is none of this number
    uint32_t left;        // of all units
    uint16_t most;        // left of a unit; more than WORTH_WHOLE: not certain
    uint16_t press;       // of its units, in hundredths
    uint32_t worth_stamp; // 0: not known
    double worth;         // at worth_stamp
    struct class_key *key;
    struct fleet_node pub;
    struct fleet_units *units;
    struct crowd nodes;
};

// What makes a class; without padding, since it is compared as bytes.
struct class_key {
    const struct fleet_units *units;
    int64_t cpu, cpu_all;
    int64_t memory, memory_all;
    uint64_t alone; // a node that is a class of its own; UINT64_MAX: none
};

// A node that was refused though its class may do.
struct refusal {
    uint64_t hash; // of the question
    uint32_t node;
};

#define NO_CLASS UINT32_MAX

// Units that no node has now are kept for a while.
#define UNITS_SPARE 1024

struct fleet {
    struct fleet_options options;
    struct worth *worth;
    struct cel_run *run;
    struct class_of VEC(uint32_t) class_of;   // by node; NO_CLASS: it is not there
    struct class_places VEC(uint32_t) places; // by node: in the crowd of its class
    struct class_list VEC(struct class) classes;
    struct class_spare VEC(uint32_t) spare; // numbers without a class
    struct class_map MAP(uint32_t) by_key;
    struct units_map MAP(struct fleet_units *) by_state;
    size_t units_unused;
    struct refusals VEC(struct refusal) refusals;
    struct question *questions[FLEET_QUESTIONS];
    size_t questions_len;
    struct question_map MAP(struct question *) by_hash;
    struct question *now;
    struct choice_list VEC(struct choice) heap;
    size_t named; // since the start; from the second on it is a heap
    struct choice last;
    bool crowded; // some node lacks processors or memory
    uint32_t at;
    uint32_t stamp; // of the last change of anything
    uint32_t prices_stamp;
    uint32_t starts;
    uint64_t clock;
};

struct worth *fleet_model(struct fleet *f)
{
    return f->worth;
}

struct cel_run *fleet_run(struct fleet *f)
{
    return f->run;
}

struct alloc_meter *fleet_meter(struct fleet *f)
{
    return f->options.meter;
}

const struct worth *fleet_worth(const struct fleet *f)
{
    return f->worth;
}

static struct class *class_at(const struct fleet *f, uint32_t node)
{
    return node < f->class_of.n && f->class_of.p[node] != NO_CLASS
               ? &f->classes.p[f->class_of.p[node]]
               : NULL;
}

const struct fleet_node *fleet_node_at(const struct fleet *f, uint32_t node)
{
    const struct class *c = class_at(f, node);
    return c ? &c->pub : NULL;
}

struct fleet *fleet_new(const struct fleet_options *options)
{
    struct fleet *f = xcalloc(1, sizeof(*f));
    f->options = *options;
    f->worth = worth_new();
    f->run = cel_run_new();
    f->at = UINT32_MAX;
    f->stamp = 1;
    return f;
}

void fleet_free(struct fleet *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->classes.n; i++) {
        vec_done(&f->classes.p[i].nodes);
        free(f->classes.p[i].key);
    }
    map_foreach(&f->by_state, i)
        fleet_units_free(*map_value(&f->by_state, i));
    map_done(&f->by_state);
    map_done(&f->by_key);
    vec_done(&f->class_of);
    vec_done(&f->places);
    vec_done(&f->classes);
    vec_done(&f->spare);
    vec_done(&f->refusals);
    for (size_t i = 0; i < f->questions_len; i++) {
        free(f->questions[i]->cells);
        free(f->questions[i]);
    }
    map_done(&f->by_hash);
    vec_done(&f->heap);
    cel_run_free(f->run);
    worth_free(f->worth);
    free(f);
}

// --- Nodes ---------------------------------------------------------------------------------------

static struct str fleet_bytes_of(const void *p, size_t n)
{
    return str_make(p, n);
}

// What is known of units alone decides about most nodes.
static void set_brief(const struct fleet *f, struct class *c)
{
    const struct fleet_units *u = c->units;
    double press = 0;
    c->left = 0;
    c->most = u->partial ? UINT16_MAX : 0;
    c->types = u->partial ? UINT64_MAX : 0;
    for (uint32_t i = 0; i < u->n; i++) {
        uint16_t left = u->units[i].loose ? UINT16_MAX : u->units[i].left;
        double p = worth_press(f->worth, u->units[i].group);
        press = p > press ? p : press;
        c->most = left > c->most ? left : c->most;
        c->left += u->units[i].left;
        c->types |= UINT64_C(1) << u->units[i].type;
    }
    c->press = press > 600 ? 60000 : (uint16_t)(press * 100);
}

static uint32_t class_new(struct fleet *f, const struct class_key *key, struct fleet_units *units)
{
    uint32_t number = f->spare.n ? vec_pop(&f->spare) : (uint32_t)f->classes.n;
    if (number == f->classes.n)
        vec_push(&f->classes, (struct class){0});
    struct class *c = &f->classes.p[number];
    *c = (struct class){.cpu = key->cpu,
                        .memory = key->memory,
                        .stamp = ++f->stamp,
                        .units = units,
                        .key = xmalloc(sizeof(*key))};
    *c->key = *key;
    c->pub = (struct fleet_node){
        .state = {.cpu = key->cpu, .memory = key->memory, .units = units->units, .n = units->n},
        .cpu_all = key->cpu_all,
        .memory_all = key->memory_all};
    set_brief(f, c);
    *map_put(&f->by_key, fleet_bytes_of(c->key, sizeof(*key))) = number;
    return number;
}

static void units_purge(struct fleet *f)
{
    if (f->units_unused < UNITS_SPARE + map_len(&f->by_state) / 2)
        return;
    map_foreach(&f->by_state, i) {
        struct fleet_units *u = *map_value(&f->by_state, i);
        if (u->nodes)
            continue;
        (void)map_del(&f->by_state, fleet_bytes_of(&u->state, sizeof(u->state)));
        fleet_units_free(u);
    }
    f->units_unused = 0;
}

static void fleet_leave_class(struct fleet *f, uint32_t node)
{
    uint32_t number = f->class_of.p[node];
    struct class *c = &f->classes.p[number];
    crowd_remove(&c->nodes, f->places.p, node);
    f->class_of.p[node] = NO_CLASS;
    f->units_unused += --c->units->nodes == 0;
    if (c->nodes.n)
        return;
    (void)map_del(&f->by_key, fleet_bytes_of(c->key, sizeof(*c->key)));
    vec_done(&c->nodes);
    free(c->key);
    *c = (struct class){0};
    vec_push(&f->spare, number);
}

static void fleet_enter_class(struct fleet *f, uint32_t node, uint32_t order,
                              const struct class_key *key, struct fleet_units *units)
{
    const uint32_t *known = map_get(&f->by_key, fleet_bytes_of(key, sizeof(*key)));
    uint32_t number = known ? *known : class_new(f, key, units);
    f->units_unused -= units->nodes++ == 0;
    f->class_of.p[node] = number;
    crowd_add(&f->classes.p[number].nodes, f->places.p, (struct crowd_member){order, node});
}

// The units of a state, as they were read from the first node that was in it.
static struct fleet_units *units_get(struct fleet *f, uint64_t state, bool told,
                                     struct fleet_units *fresh)
{
    bool is_new = false;
    fresh->state = state;
    fresh->told = told;
    struct fleet_units **at =
        map_put_new(&f->by_state, fleet_bytes_of(&fresh->state, sizeof(fresh->state)), &is_new);
    if (is_new) {
        *at = fresh;
        f->units_unused++;
        return fresh;
    }
    fleet_units_free(fresh);
    return *at;
}

// For nodes whose state is not set: what the units are.
static uint64_t units_hash(const struct fleet_units *u)
{
    uint64_t h = hash_str(fleet_bytes_of(u->units, u->n * sizeof(*u->units)));
    h = h * 31 + hash_str(fleet_bytes_of(u->unit_of, u->devices));
    h = h * 31 + hash_str(fleet_bytes_of(u->slot_of, u->devices));
    return h * 31 + u->partial;
}

static bool same_types(const struct fleet_units *a, const struct fleet_units *b)
{
    if (a->n != b->n)
        return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (a->units[i].group != b->units[i].group)
            return false;
    return true;
}

static void set_units(struct fleet *f, uint32_t node, const struct fleet_room *room,
                      struct fleet_units *units)
{
    while (f->class_of.n <= node) {
        vec_push(&f->class_of, NO_CLASS);
        vec_push(&f->places, 0);
    }
    bool each = f->options.rule && !f->options.rule->by_state;
    struct class_key key = {.units = units,
                            .cpu = room->cpu,
                            .cpu_all = room->cpu_all,
                            .memory = room->memory,
                            .memory_all = room->memory_all,
                            .alone = each ? node : UINT64_MAX};
    const struct class *old = class_at(f, node);
    if (old && memcmp(old->key, &key, sizeof(key)) == 0 && !each)
        return;
    struct fleet_units *had = old ? old->units : NULL;
    if (!had || !same_types(had, units)) {
        if (had)
            fleet_units_supply(f, had, -1);
        fleet_units_supply(f, units, 1);
    }
    if (old)
        fleet_leave_class(f, node);
    fleet_enter_class(f, node, room->order, &key, units);
    f->stamp++;
    units_purge(f);
}

void fleet_set(struct fleet *f, uint32_t node, const struct fleet_room *room,
               const struct alloc_view *view)
{
    struct fleet_units *fresh = fleet_units_read(f, view);
    set_units(f, node, room, units_get(f, units_hash(fresh), false, fresh));
}

void fleet_set_state(struct fleet *f, uint32_t node, const struct fleet_room *room, uint64_t state)
{
    struct fleet_units **known = map_get(&f->by_state, fleet_bytes_of(&state, sizeof(state)));
    struct fleet_units *units =
        known ? *known
              : units_get(f, state, true,
                          fleet_units_read(f, f->options.view(f->options.view_arg, node)));
    set_units(f, node, room, units);
}

void fleet_gone(struct fleet *f, uint32_t node)
{
    const struct class *c = class_at(f, node);
    if (!c)
        return;
    fleet_units_supply(f, c->units, -1);
    fleet_leave_class(f, node);
    f->stamp++;
    units_purge(f);
}

// --- Questions -----------------------------------------------------------------------------------

static size_t questions_max(const struct fleet *f)
{
    size_t n = CELLS_MAX / (f->classes.n + 1);
    return n > FLEET_QUESTIONS ? FLEET_QUESTIONS : n < QUESTIONS_MIN ? QUESTIONS_MIN : n;
}

static struct str hash_key(const uint64_t *hash)
{
    return str_make((const char *)hash, sizeof(*hash));
}

static struct question *fleet_question_new(struct fleet *f, uint64_t hash)
{
    struct question *q = NULL;
    if (f->questions_len < questions_max(f)) {
        q = f->questions[f->questions_len++] = xcalloc(1, sizeof(*q));
    } else {
        q = f->questions[0];
        for (size_t i = 1; i < f->questions_len; i++)
            if (f->questions[i]->used < q->used)
                q = f->questions[i];
        (void)map_del(&f->by_hash, hash_key(&q->pub.hash));
        free(q->cells);
        *q = (struct question){0};
    }
    q->pub.hash = hash;
    *map_put(&f->by_hash, hash_key(&q->pub.hash)) = q;
    return q;
}

// A view that has a unit of this type; NULL: none is to be had now.
static const struct alloc_view *view_with(struct fleet *f, uint8_t type)
{
    for (uint32_t i = 0; i < f->classes.n; i++) {
        const struct class *c = &f->classes.p[i];
        for (uint32_t k = 0; c->stamp && k < c->units->n; k++)
            if (c->units->units[k].type == type)
                return f->options.view(f->options.view_arg, c->nodes.p[0].node);
    }
    return NULL;
}

static uint32_t fleet_count_wanted(const struct api_device_request *r, bool *loose)
{
    struct str mode = r->exactly ? r->exactly->allocation_mode : (struct str){0};
    int64_t count = r->exactly ? r->exactly->count : 1;
    if (r->exactly && r->exactly->has_admin_access && r->exactly->admin_access)
        return 0;
    if (!r->exactly) {
        *loose = true;
        count = r->first_available.n ? r->first_available.p[0].count : 1;
        mode = r->first_available.n ? r->first_available.p[0].allocation_mode : mode;
    }
    if (str_eqz(mode, "All")) {
        *loose = true;
        return 1;
    }
    return count < 0 ? 0 : count > WORTH_UNITS ? WORTH_UNITS : (uint32_t)count;
}

// Parts of types that came up since the question was asked last. A type for which the meter refuses
// an evaluation is looked at again the next time.
static void find_parts(struct fleet *f, struct question *q,
                       const struct api_resource_claim *const *claims, size_t claims_len)
{
    size_t all = worth_types(f->worth);
    for (; q->types < all; q->types++) {
        const struct alloc_view *v = view_with(f, (uint8_t)q->types);
        size_t at = 0;
        bool loose = q->pub.loose;
        for (size_t c = 0; v && c < claims_len; c++)
            for (size_t k = 0; k < claims[c]->spec.devices.requests.n && at < FLEET_WANTS; k++) {
                struct worth_request *r = &q->pub.wants[at++];
                r->part[q->types] = fleet_units_part(f, v, (uint8_t)q->types,
                                                     &claims[c]->spec.devices.requests.p[k],
                                                     &r->slots[q->types], &loose);
            }
        if (f->options.meter && f->options.meter->refused)
            return;
        q->pub.loose = loose;
    }
}

// What a unit must have left for any of the types; more than there can be when none will do.
static uint16_t least_part(const struct worth_request *r, uint64_t *ret_types)
{
    uint16_t least = WORTH_WHOLE + 1;
    *ret_types = 0;
    for (size_t t = 0; t < WORTH_TYPES; t++) {
        *ret_types |= (uint64_t)(r->part[t] > 0) << t;
        if (r->part[t] && r->part[t] < least)
            least = r->part[t];
    }
    return least;
}

static void find_least(struct question *q)
{
    q->part = 0;
    q->plain = true;
    q->fit = UINT64_MAX;
    for (size_t i = 0; i < q->pub.wants_len; i++) {
        const struct worth_request *r = &q->pub.wants[i];
        uint64_t types;
        uint16_t least = least_part(r, &types);
        q->plain &= r->num == 0;
        if (!r->num || q->pub.loose)
            continue;
        q->part = least > q->part ? least : q->part;
        q->fit = q->fit == UINT64_MAX ? types : q->fit;
    }
}

static void fleet_read_claims(struct question *q, const struct api_resource_claim *const *claims,
                              size_t claims_len)
{
    size_t n = 0;
    for (size_t c = 0; c < claims_len; c++) {
        const struct api_device_claim *d = &claims[c]->spec.devices;
        q->pub.loose |= d->constraints.n > 0;
        for (size_t k = 0; k < d->requests.n; k++) {
            if (n == FLEET_WANTS) {
                q->pub.loose = true;
                break;
            }
            q->pub.wants[n++].num = fleet_count_wanted(&d->requests.p[k], &q->pub.loose);
        }
    }
    if (n == 0)
        n = 1; // processors and memory alone
    q->pub.wants[0].cpu = q->pub.cpu;
    q->pub.wants[0].memory = q->pub.memory;
    q->pub.wants_len = n;
}

struct fleet_question *fleet_ask(struct fleet *f, uint64_t hash,
                                 const struct api_resource_claim *const *claims, size_t claims_len,
                                 int64_t cpu, int64_t memory)
{
    const uint64_t all[3] = {hash, (uint64_t)cpu, (uint64_t)memory};
    uint64_t key = hash_str(str_make((const char *)all, sizeof(all)));
    struct question **known = map_get(&f->by_hash, hash_key(&key));
    struct question *q = known ? *known : fleet_question_new(f, key);
    if (!known) {
        q->pub.cpu = cpu;
        q->pub.memory = memory;
        fleet_read_claims(q, claims, claims_len);
    }
    bool more = q->types < worth_types(f->worth);
    if (more)
        find_parts(f, q, claims, claims_len);
    if (!known || more)
        find_least(q);
    q->used = ++f->clock;
    f->now = q;
    return &q->pub;
}

void fleet_learn(struct fleet *f, double times)
{
    for (size_t i = 0; i < f->now->pub.wants_len; i++)
        worth_seen(f->worth, f->now->pub.hash + i, &f->now->pub.wants[i], times);
}

// --- Scores --------------------------------------------------------------------------------------

static double class_worth(const struct fleet *f, struct class *c)
{
    if (c->worth_stamp < f->prices_stamp || !c->worth_stamp) {
        c->worth = worth_of(f->worth, &c->pub.state);
        c->worth_stamp = f->stamp;
    }
    return c->worth;
}

static int32_t fleet_clip_score(double score)
{
    return score > INT32_MAX ? INT32_MAX : score <= CELL_LEAST ? CELL_LEAST : (int32_t)score;
}

#define FULL 100

// How full processors and memory get, up to FULL.
static uint64_t fleet_class_fullness(const struct class *n, const struct fleet_question *q)
{
    int64_t cpu_all = n->pub.cpu_all > 0 ? n->pub.cpu_all : 1;
    int64_t memory_all = n->pub.memory_all > 0 ? n->pub.memory_all : 1;
    double left = (double)(n->pub.state.cpu - q->cpu) / (double)cpu_all +
                  (double)(n->pub.state.memory - q->memory) / (double)memory_all;
    return left < 0 ? FULL : left > 2 ? 0 : (uint64_t)(0.5 * FULL * (2 - left));
}

// Those who want no units: kube-scheduler spreads them, so do we over nodes without units. Others
// come after those, one after the other: processors in one piece are what requests for units need.
static uint64_t tie_plain(const struct class *c, const struct fleet_question *q)
{
    return c->units->n ? FULL + 1 : fleet_class_fullness(c, q);
}

// Among equals: units that are wanted least, then the fullest node.
static uint64_t tie_of(const struct fleet *f, const struct class *c)
{
    const struct question *q = f->now;
    if (f->options.rule)
        return 0;
    return q->plain ? tie_plain(c, &q->pub) : (uint64_t)c->press << 32 | c->left;
}

static double question_price(const struct fleet *f, struct question *q)
{
    if (q->price_stamp >= f->prices_stamp && q->price_stamp)
        return q->price;
    q->price = 0;
    q->price_stamp = f->stamp;
    for (size_t i = 0; i < q->pub.wants_len; i++)
        q->price += worth_price_of(f->worth, &q->pub.wants[i]);
    return q->price;
}

static int32_t score_by_worth(struct fleet *f, struct class *c)
{
    struct question *q = f->now;
    double then;
    if (!worth_after(f->worth, &c->pub.state, q->pub.wants, q->pub.wants_len, &then))
        return CELL_UNSURE;
    return fleet_clip_score(worth_steps(then - class_worth(f, c), question_price(f, q)));
}

static int32_t find_score(struct fleet *f, struct class *c)
{
    const struct fleet_question *q = &f->now->pub;
    const struct worth_state *s = &c->pub.state;
    bool fits = true;
    for (size_t i = 0; i < q->wants_len; i++) {
        const struct worth_request *r = &q->wants[i];
        if (!r->num || worth_fits(s, r))
            continue;
        fits = false;
        if (!q->loose && !c->units->partial && worth_refuses(s, r))
            return CELL_NO;
    }
    if (!fits)
        return CELL_UNSURE;
    if (f->options.rule)
        return fleet_clip_score(
            (double)f->options.rule->score(f->options.rule->arg, c->nodes.p[0].node, &c->pub, q));
    return score_by_worth(f, c);
}

// --- Choice --------------------------------------------------------------------------------------

static void prices_changed(struct fleet *f)
{
    f->prices_stamp = ++f->stamp;
    for (uint32_t i = 0; i < f->classes.n; i++)
        if (f->classes.p[i].stamp)
            set_brief(f, &f->classes.p[i]);
}

static void fleet_count_places(struct fleet *f)
{
    worth_places_begin(f->worth);
    for (size_t i = 0; i < f->classes.n; i++)
        if (f->classes.p[i].stamp)
            worth_places(f->worth, &f->classes.p[i].pub.state, (double)f->classes.p[i].nodes.n);
    if (worth_places_end(f->worth))
        f->prices_stamp = ++f->stamp;
}

void fleet_settle(struct fleet *f)
{
    if (worth_settle(f->worth, true))
        prices_changed(f);
    fleet_count_places(f);
    f->starts = 0;
}

static void fleet_refresh(struct fleet *f)
{
    uint32_t every = worth_slotted(f->worth) ? LOOK_OFTEN : LOOK_EVERY;
    if (f->options.rule || f->starts++ % every)
        return;
    if (worth_settle(f->worth, false))
        prices_changed(f);
    fleet_count_places(f);
}

static void make_cells(const struct fleet *f, struct question *q)
{
    if (q->cells_len >= f->classes.n)
        return;
    size_t n = f->classes.n + f->classes.n / 2 + 16;
    q->cells = xreallocarray(q->cells, n, sizeof(*q->cells));
    memset(q->cells + q->cells_len, 0, (n - q->cells_len) * sizeof(*q->cells));
    q->cells_len = n;
}

// A refused node that could be distinguished from others of its class only by the allocator is one
// by itself, until it changes.
static void part_refused(struct fleet *f)
{
    for (size_t i = 0; i < f->refusals.n; i++) {
        const struct refusal *r = &f->refusals.p[i];
        const struct class *c = class_at(f, r->node);
        struct question **q = map_get(&f->by_hash, hash_key(&r->hash));
        if (!c || !q)
            continue;
        struct class_key key = *c->key;
        struct fleet_units *units = c->units;
        uint32_t order = c->nodes.p[f->places.p[r->node]].order;
        key.alone = r->node;
        fleet_leave_class(f, r->node);
        fleet_enter_class(f, r->node, order, &key, units);
        make_cells(f, *q);
        (*q)->cells[f->class_of.p[r->node]] = (struct cell){f->stamp, CELL_NO};
    }
    f->refusals.n = 0;
}

static inline bool fleet_is_before(const struct choice *a, const struct choice *b)
{
    if (a->score != b->score)
        return a->score > b->score;
    return a->tie != b->tie ? a->tie < b->tie : a->order < b->order;
}

static struct choice choice_at(const struct fleet *f, uint32_t class, uint32_t place)
{
    const struct class *c = &f->classes.p[class];
    return (struct choice){.score = f->now->cells[class].score,
                           .tie = tie_of(f, c),
                           .order = c->nodes.p[place].order,
                           .class = class,
                           .place = place};
}

// Looks at all classes. The best is known then: mostly its first node will do, and no others are
// needed.
void fleet_start(struct fleet *f)
{
    struct question *q = f->now;
    part_refused(f);
    fleet_refresh(f);
    make_cells(f, q);
    f->heap.n = 0;
    f->named = 0;
    f->crowded = false;
    f->last = (struct choice){.class = NO_CLASS, .score = CELL_NO};
    for (uint32_t i = 0; i < f->classes.n; i++) {
        struct cell *cell = &q->cells[i];
        struct class *c = &f->classes.p[i];
        bool crowded = c->cpu < q->pub.cpu || c->memory < q->pub.memory;
        bool other = c->most < q->part || (q->fit != UINT64_MAX && !(c->types & q->fit));
        if (!c->stamp || crowded || other) {
            f->crowded |= c->stamp && crowded;
            *cell = (struct cell){f->stamp, CELL_NO};
            continue;
        }
        if (cell->stamp < c->stamp || cell->stamp < f->prices_stamp)
            *cell = (struct cell){f->stamp, find_score(f, c)};
        if (cell->score == CELL_NO || cell->score < f->last.score)
            continue;
        struct choice here = choice_at(f, i, 0);
        if (fleet_is_before(&here, &f->last))
            f->last = here;
    }
}

static void fleet_sift_down(struct choice *heap, size_t n, size_t at)
{
    struct choice x = heap[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && fleet_is_before(&heap[child + 1], &heap[child]))
            child++;
        if (!fleet_is_before(&heap[child], &x))
            break;
        heap[at] = heap[child];
    }
    heap[at] = x;
}

static void fleet_push_choice(struct fleet *f, uint32_t class, size_t place)
{
    if (place >= f->classes.p[class].nodes.n)
        return;
    struct choice x = choice_at(f, class, (uint32_t)place);
    vec_push(&f->heap, x);
    size_t at = f->heap.n - 1;
    for (; at && fleet_is_before(&x, &f->heap.p[(at - 1) / 2]); at = (at - 1) / 2)
        f->heap.p[at] = f->heap.p[(at - 1) / 2];
    f->heap.p[at] = x;
}

// What comes after the one named last: the rest of its class, and at first all other classes.
static void fleet_refill_heap(struct fleet *f)
{
    uint32_t class = f->last.class;
    if (f->now->cells[class].score != CELL_NO) {
        fleet_push_choice(f, class, 2 * (size_t)f->last.place + 1);
        fleet_push_choice(f, class, 2 * (size_t)f->last.place + 2);
    }
    for (uint32_t i = 0; f->named == 1 && i < f->classes.n && i < f->now->cells_len; i++)
        if (f->classes.p[i].stamp && f->now->cells[i].score != CELL_NO && i != class)
            fleet_push_choice(f, i, 0);
}

static bool take_best(struct fleet *f)
{
    while (f->heap.n) {
        f->last = f->heap.p[0];
        f->heap.p[0] = f->heap.p[--f->heap.n];
        if (f->heap.n > 1)
            fleet_sift_down(f->heap.p, f->heap.n, 0);
        if (f->now->cells[f->last.class].score != CELL_NO)
            return true; // else it was refused with all of its class
    }
    return false;
}

bool fleet_next(struct fleet *f, uint32_t *ret_node)
{
    if (f->last.class == NO_CLASS)
        return false;
    if (f->named) {
        fleet_refill_heap(f);
        if (!take_best(f)) {
            f->last.class = NO_CLASS;
            return false;
        }
    }
    f->named++;
    *ret_node = f->classes.p[f->last.class].nodes.p[f->last.place].node;
    return true;
}

int64_t fleet_score(const struct fleet *f)
{
    return f->last.score == CELL_UNSURE ? INT64_MIN : f->last.score;
}

bool fleet_crowded(const struct fleet *f)
{
    return f->crowded;
}

void fleet_refused(struct fleet *f, uint32_t node)
{
    const struct class *c = class_at(f, node);
    if (!f->now || !c)
        return;
    if (c->units->told && f->class_of.p[node] < f->now->cells_len)
        f->now->cells[f->class_of.p[node]].score = CELL_NO;
    else
        vec_push(&f->refusals, (struct refusal){f->now->pub.hash, node});
}

// --- Devices -------------------------------------------------------------------------------------

void fleet_at(struct fleet *f, uint32_t node)
{
    f->at = node;
}

bool fleet_loss(void *arg, const struct alloc_view *view, uint32_t request, uint16_t *ret)
{
    struct fleet *f = arg;
    uint16_t rank[WORTH_UNITS];
    const struct class *c = f->at == UINT32_MAX ? NULL : class_at(f, f->at);
    if (!c || !f->now || request >= f->now->pub.wants_len ||
        c->units->devices != alloc_view_devices(view))
        return false;
    const struct fleet_units *n = c->units;
    if (f->options.rule && f->options.rule->devices) {
        f->options.rule->devices(f->options.rule->arg, f->at, n->devices, ret);
        return true;
    }
    if (!f->options.rule) {
        struct worth_request r = f->now->pub.wants[request];
        r.cpu = f->now->pub.cpu;
        r.memory = f->now->pub.memory;
        worth_loss(f->worth, &c->pub.state, &r, rank);
    } else if (f->options.rule->ranks) {
        f->options.rule->ranks(f->options.rule->arg, f->at, &c->pub, &f->now->pub, rank);
    } else {
        return false;
    }
    for (uint32_t i = 0; i < n->devices; i++)
        ret[i] = n->unit_of[i] == FLEET_NO_UNIT ? UINT16_MAX
                 : n->slot_of[i] == FLEET_NO_SLOT || f->options.rule
                     ? rank[n->unit_of[i]]
                     : worth_slot_loss(f->worth, &n->units[n->unit_of[i]], n->slot_of[i]);
    return true;
}
