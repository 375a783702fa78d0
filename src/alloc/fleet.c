// SPDX-License-Identifier: Apache-2.0
//
// Nodes, questions and what is known about each on the other.
#include <stdlib.h>
#include <string.h>

#include "alloc/fleet_int.h"
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

// What is known about a question on a node.
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
    uint32_t node;
    int32_t score;
    uint64_t tie; // among equal scores the lower
    uint32_t order;
};

// What decides about most nodes, together because a choice looks at all.
struct brief {
    uint32_t stamp; // when the node changed; 0: it is not there
    uint32_t order; // its place among equals
    int64_t cpu;    // left
    int64_t memory;
    uint16_t most;  // left of a unit; more than WORTH_WHOLE: not certain
    uint16_t press; // of its units, in hundredths
    uint32_t left;  // of all of them
    uint64_t types; // of units, one bit each; all of them: not certain
};

// A node for which the present question has been answered just now, for others in the same state.
#define TWINS 64
struct twin {
    uint32_t node;
    uint32_t start; // at which; others are old
};

struct fleet {
    struct fleet_options options;
    struct worth *worth;
    struct cel_run *run;
    struct node_list VEC(struct node_entry *) nodes;
    struct brief_list VEC(struct brief) briefs; // beside them
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
    uint32_t scorings;
    struct twin twins[TWINS];
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

const struct worth *fleet_worth(const struct fleet *f)
{
    return f->worth;
}

const struct fleet_node *fleet_node_at(const struct fleet *f, uint32_t node)
{
    return node < f->nodes.n && f->nodes.p[node] ? &f->nodes.p[node]->pub : NULL;
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
    for (size_t i = 0; i < f->nodes.n; i++) {
        if (f->nodes.p[i]) {
            free(f->nodes.p[i]->unit_of);
            free(f->nodes.p[i]->slot_of);
        }
        free(f->nodes.p[i]);
    }
    vec_done(&f->nodes);
    vec_done(&f->briefs);
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

static void set_brief(struct fleet *f, uint32_t node);

// Nodes in the same state look the same; few others do.
static uint64_t look_of(const struct node_entry *n)
{
    const struct worth_state *s = &n->pub.state;
    uint64_t h = (uint64_t)s->cpu * 31 + (uint64_t)s->memory;
    for (uint32_t i = 0; i < s->n; i++)
        h = h * 31 + n->units[i].left + n->units[i].group + n->units[i].fits + n->units[i].taken;
    h *= UINT64_C(0x9E3779B97F4A7C15);
    return h >> 32;
}

void fleet_set(struct fleet *f, uint32_t node, const struct fleet_room *room,
               const struct alloc_view *view)
{
    while (f->nodes.n <= node) {
        vec_push(&f->nodes, NULL);
        vec_push(&f->briefs, (struct brief){0});
    }
    if (!f->nodes.p[node])
        f->nodes.p[node] = xcalloc(1, sizeof(struct node_entry));
    struct node_entry *n = f->nodes.p[node];
    n->known = true;
    n->pub.cpu_all = room->cpu_all;
    n->pub.memory_all = room->memory_all;
    n->pub.state.cpu = room->cpu;
    n->pub.state.memory = room->memory;
    n->pub.state.units = n->units;
    n->worth_stamp = 0;
    units_read(f, n, view);
    n->look = (uint8_t)(look_of(n) % TWINS);
    f->briefs.p[node] = (struct brief){
        .stamp = ++f->stamp, .order = room->order, .cpu = room->cpu, .memory = room->memory};
    set_brief(f, node);
}

void fleet_gone(struct fleet *f, uint32_t node)
{
    if (node >= f->nodes.n || !f->nodes.p[node] || !f->nodes.p[node]->known)
        return;
    units_read(f, f->nodes.p[node], NULL);
    f->nodes.p[node]->known = false;
    f->briefs.p[node].stamp = 0;
    f->stamp++;
}

// --- Questions -----------------------------------------------------------------------------------

static size_t questions_max(const struct fleet *f)
{
    size_t n = CELLS_MAX / (f->nodes.n + 1);
    return n > FLEET_QUESTIONS ? FLEET_QUESTIONS : n < QUESTIONS_MIN ? QUESTIONS_MIN : n;
}

static struct str hash_key(const uint64_t *hash)
{
    return str_make((const char *)hash, sizeof(*hash));
}

static struct question *question_new(struct fleet *f, uint64_t hash)
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
    for (uint32_t i = 0; i < f->nodes.n; i++) {
        const struct node_entry *n = f->nodes.p[i];
        for (uint32_t k = 0; n && n->known && k < n->pub.state.n; k++)
            if (n->units[k].type == type)
                return f->options.view(f->options.view_arg, i);
    }
    return NULL;
}

static uint32_t wanted(const struct api_device_request *r, bool *loose)
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

// Parts of types that came up since the question was asked last.
static void find_parts(struct fleet *f, struct question *q,
                       const struct api_resource_claim *const *claims, size_t claims_len)
{
    size_t all = worth_types(f->worth);
    for (; q->types < all; q->types++) {
        const struct alloc_view *v = view_with(f, (uint8_t)q->types);
        size_t at = 0;
        for (size_t c = 0; v && c < claims_len; c++)
            for (size_t k = 0; k < claims[c]->spec.devices.requests.n && at < FLEET_WANTS; k++) {
                struct worth_request *r = &q->pub.wants[at++];
                r->part[q->types] =
                    units_part(f, v, (uint8_t)q->types, &claims[c]->spec.devices.requests.p[k],
                               &r->slots[q->types], &q->pub.loose);
            }
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

static void read_claims(struct question *q, const struct api_resource_claim *const *claims,
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
            q->pub.wants[n++].num = wanted(&d->requests.p[k], &q->pub.loose);
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
    struct question *q = known ? *known : question_new(f, key);
    if (!known) {
        q->pub.cpu = cpu;
        q->pub.memory = memory;
        read_claims(q, claims, claims_len);
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

static double node_worth(const struct fleet *f, struct node_entry *n)
{
    if (n->worth_stamp < f->prices_stamp || !n->worth_stamp) {
        n->worth = worth_of(f->worth, &n->pub.state);
        n->worth_stamp = f->stamp;
    }
    return n->worth;
}

static int32_t clip(double score)
{
    return score > INT32_MAX ? INT32_MAX : score <= CELL_LEAST ? CELL_LEAST : (int32_t)score;
}

// How full processors and memory get, for those who want nothing else: kube-scheduler spreads them.
static uint64_t fullness(const struct node_entry *n, const struct fleet_question *q)
{
    int64_t cpu_all = n->pub.cpu_all > 0 ? n->pub.cpu_all : 1;
    int64_t memory_all = n->pub.memory_all > 0 ? n->pub.memory_all : 1;
    double left = (double)(n->pub.state.cpu - q->cpu) / (double)cpu_all +
                  (double)(n->pub.state.memory - q->memory) / (double)memory_all;
    return left < 0 ? 100 : left > 2 ? 0 : (uint64_t)(50 * (2 - left));
}

// Among equals: units that are wanted least, then the fullest node.
static uint64_t tie_of(const struct fleet *f, uint32_t node)
{
    const struct question *q = f->now;
    const struct brief *b = &f->briefs.p[node];
    if (f->options.rule)
        return 0;
    return q->plain ? fullness(f->nodes.p[node], &q->pub) : (uint64_t)b->press << 32 | b->left;
}

static void set_brief(struct fleet *f, uint32_t node)
{
    const struct node_entry *n = f->nodes.p[node];
    struct brief *b = &f->briefs.p[node];
    double press = 0;
    b->left = 0;
    b->most = n->partial ? UINT16_MAX : 0;
    b->types = n->partial ? UINT64_MAX : 0;
    for (uint32_t i = 0; i < n->pub.state.n; i++) {
        uint16_t left = n->units[i].loose ? UINT16_MAX : n->units[i].left;
        double p = worth_press(f->worth, n->units[i].group);
        press = p > press ? p : press;
        b->most = left > b->most ? left : b->most;
        b->left += n->units[i].left;
        b->types |= UINT64_C(1) << n->units[i].type;
    }
    b->press = press > 600 ? 60000 : (uint16_t)(press * 100);
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

static int32_t score_by_worth(struct fleet *f, struct node_entry *n)
{
    struct question *q = f->now;
    double then;
    if (!worth_after(f->worth, &n->pub.state, q->pub.wants, q->pub.wants_len, &then))
        return CELL_UNSURE;
    return clip(worth_steps(then - node_worth(f, n), question_price(f, q)));
}

static int32_t find_score(struct fleet *f, uint32_t node, struct node_entry *n)
{
    const struct fleet_question *q = &f->now->pub;
    const struct worth_state *s = &n->pub.state;
    bool fits = true;
    for (size_t i = 0; i < q->wants_len; i++) {
        const struct worth_request *r = &q->wants[i];
        if (!r->num || worth_fits(s, r))
            continue;
        fits = false;
        if (!q->loose && !n->partial && worth_refuses(s, r))
            return CELL_NO;
    }
    if (!fits)
        return CELL_UNSURE;
    if (f->options.rule)
        return clip((double)f->options.rule->score(f->options.rule->arg, node, &n->pub, q));
    return score_by_worth(f, n);
}

static bool same_state(const struct node_entry *a, const struct node_entry *b)
{
    return a->pub.state.cpu == b->pub.state.cpu && a->pub.state.memory == b->pub.state.memory &&
           a->partial == b->partial && a->pub.state.n == b->pub.state.n &&
           memcmp(a->units, b->units, a->pub.state.n * sizeof(*a->units)) == 0;
}

// Many nodes are in the same state, most of all those on which nothing is: one answer does for all.
static int32_t find_score_once(struct fleet *f, uint32_t node)
{
    struct node_entry *n = f->nodes.p[node];
    if (f->options.rule && !f->options.rule->by_state)
        return find_score(f, node, n);
    struct twin *t = &f->twins[n->look];
    if (t->start == f->scorings && same_state(f->nodes.p[t->node], n))
        return f->now->cells[t->node].score;
    *t = (struct twin){node, f->scorings};
    return find_score(f, node, n);
}

// --- Choice --------------------------------------------------------------------------------------

static void prices_changed(struct fleet *f)
{
    f->prices_stamp = ++f->stamp;
    for (uint32_t i = 0; i < f->nodes.n; i++)
        if (f->briefs.p[i].stamp)
            set_brief(f, i);
}

static void look_at_places(struct fleet *f)
{
    worth_places_begin(f->worth);
    for (size_t i = 0; i < f->nodes.n; i++)
        if (f->nodes.p[i] && f->nodes.p[i]->known)
            worth_places(f->worth, &f->nodes.p[i]->pub.state);
    if (worth_places_end(f->worth))
        f->prices_stamp = ++f->stamp;
}

void fleet_settle(struct fleet *f)
{
    if (worth_settle(f->worth, true))
        prices_changed(f);
    look_at_places(f);
    f->starts = 0;
}

static void look(struct fleet *f)
{
    uint32_t every = worth_slotted(f->worth) ? LOOK_OFTEN : LOOK_EVERY;
    if (f->options.rule || f->starts++ % every)
        return;
    if (worth_settle(f->worth, false))
        prices_changed(f);
    look_at_places(f);
}

static void make_cells(struct fleet *f, struct question *q)
{
    if (q->cells_len >= f->nodes.n)
        return;
    q->cells = xreallocarray(q->cells, f->nodes.n, sizeof(*q->cells));
    memset(q->cells + q->cells_len, 0, (f->nodes.n - q->cells_len) * sizeof(*q->cells));
    q->cells_len = f->nodes.n;
}

static inline bool before(const struct choice *a, const struct choice *b)
{
    if (a->score != b->score)
        return a->score > b->score;
    return a->tie != b->tie ? a->tie < b->tie : a->order < b->order;
}

static struct choice choice_at(const struct fleet *f, uint32_t node)
{
    return (struct choice){node, f->now->cells[node].score, tie_of(f, node),
                           f->briefs.p[node].order};
}

// Looks at all nodes. The best is known then: mostly it will do, and no others are needed.
void fleet_start(struct fleet *f)
{
    struct question *q = f->now;
    look(f);
    make_cells(f, q);
    f->heap.n = 0;
    f->named = 0;
    f->crowded = false;
    f->scorings++;
    f->last = (struct choice){.node = UINT32_MAX, .score = CELL_NO};
    for (uint32_t i = 0; i < f->nodes.n; i++) {
        struct cell *c = &q->cells[i];
        const struct brief *b = &f->briefs.p[i];
        bool crowded = b->cpu < q->pub.cpu || b->memory < q->pub.memory;
        bool other = b->most < q->part || (q->fit != UINT64_MAX && !(b->types & q->fit));
        if (!b->stamp || crowded || other) {
            f->crowded |= b->stamp && crowded;
            c->score = CELL_NO;
            c->stamp = f->stamp;
            continue;
        }
        if (c->stamp < b->stamp || c->stamp < f->prices_stamp) {
            c->score = find_score_once(f, i);
            c->stamp = f->stamp;
        }
        if (c->score == CELL_NO || c->score < f->last.score)
            continue;
        struct choice here = choice_at(f, i);
        if (before(&here, &f->last))
            f->last = here;
    }
}

static void sift_down(struct choice *heap, size_t n, size_t at)
{
    struct choice x = heap[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &x))
            break;
        heap[at] = heap[child];
    }
    heap[at] = x;
}

static void make_heap(struct fleet *f)
{
    vec_reserve(&f->heap, f->nodes.n + 1);
    for (uint32_t i = 0; i < f->nodes.n; i++)
        if (f->now->cells[i].score != CELL_NO && i != f->last.node)
            f->heap.p[f->heap.n++] = choice_at(f, i);
    for (size_t i = f->heap.n / 2; i-- > 0;)
        sift_down(f->heap.p, f->heap.n, i);
}

bool fleet_next(struct fleet *f, uint32_t *ret_node)
{
    if (f->last.node == UINT32_MAX)
        return false;
    if (f->named++ == 1)
        make_heap(f);
    if (f->named > 1) {
        if (f->heap.n == 0)
            return false;
        f->last = f->heap.p[0];
        f->heap.p[0] = f->heap.p[--f->heap.n];
        if (f->heap.n > 1)
            sift_down(f->heap.p, f->heap.n, 0);
    }
    *ret_node = f->last.node;
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
    if (f->now && node < f->now->cells_len)
        f->now->cells[node].score = CELL_NO;
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
    if (f->at >= f->nodes.n || !f->now || request >= f->now->pub.wants_len)
        return false;
    const struct node_entry *n = f->nodes.p[f->at];
    if (!n || !n->known || n->devices != alloc_view_devices(view))
        return false;
    if (f->options.rule && f->options.rule->devices) {
        f->options.rule->devices(f->options.rule->arg, f->at, n->devices, ret);
        return true;
    }
    if (!f->options.rule) {
        struct worth_request r = f->now->pub.wants[request];
        r.cpu = f->now->pub.cpu;
        r.memory = f->now->pub.memory;
        worth_loss(f->worth, &n->pub.state, &r, rank);
    } else if (f->options.rule->ranks) {
        f->options.rule->ranks(f->options.rule->arg, f->at, &n->pub, &f->now->pub, rank);
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
