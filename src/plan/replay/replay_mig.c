// SPDX-License-Identifier: Apache-2.0
//
// Claims for partitions that come and go: the generator, the rule that dray's is held against, and
// what is measured.
#include <math.h>

#include "base/heap.h"
#include "base/rand.h"
#include "plan/replay/replay_mig_int.h"

#include "base/banned.h"

#define GPUS_MOST   8000
#define CLAIMS_MOST 2000000
#define LOAD_MOST   1000
#define WARM_UP     5 // one part of so many is not measured

static const char *const policy_names[] = {"pack", "first", "mfi"};

bool replay_mig_parse_policy(struct str name, enum mig_policy *ret)
{
    size_t at = 0;
    bool known = replay_find_name(policy_names, array_len(policy_names), name, &at);
    if (known)
        *ret = (enum mig_policy)at;
    return known;
}

const char *replay_mig_check_options(const struct mig_options *o)
{
    if (!replay_mig_find_gpu(o->gpu))
        return "--gpu is one of a100, h100";
    if (!replay_mig_find_mix(o->mix))
        return "--mix is one of uniform, small, large, bimodal";
    if (o->gpus == 0 || o->gpus % MIG_GPUS || o->gpus > GPUS_MOST)
        return "--gpus is a multiple of 8, at most 8000";
    if (!(o->load > 0) || o->load > LOAD_MOST)
        return "--load is a percentage above 0, at most 1000";
    if (o->claims < WARM_UP || o->claims > CLAIMS_MOST)
        return "--claims is a number from 5 to 2000000";
    return NULL;
}

// A claim that runs.
struct guest {
    struct heap_node heap;
    double leaves;
    uint64_t number;
    struct str name;
    uint32_t node;
    uint32_t gpu;
    struct mig_place place;
};

struct mig_play {
    const struct mig_options *options;
    const struct mig_gpu *gpu;
    const struct mig_mix *mix;
    struct stage stage;
    struct fleet_rule rule;
    struct api_resource_claim *claims[MIG_PROFILES];
    uint64_t hashes[MIG_PROFILES];
    struct rng_seeded rng;
    struct heap guests;
    struct mig_place places[MIG_DEVICES];
    size_t places_len;
    struct VEC(uint8_t) taken; // memory slices, by node and GPU
    struct VEC(bool) media;    // likewise: the partition with media extensions is there
    uint32_t asked;            // profile, of the question that is asked now
    double now;
    uint64_t numbers;
    uint32_t used; // slices
};

// --- Minimum growth of fragmentation -------------------------------------------------------------

// Slices of placements that are blocked although their number of slices is free.
static int64_t replay_mig_count_fragments(const struct mig_play *m, uint8_t taken)
{
    int64_t sum = 0;
    int left = MIG_SLICES - __builtin_popcount(taken);
    for (size_t i = 0; i < m->places_len; i++) {
        int size = __builtin_popcount(m->places[i].slices);
        if (size <= left && (taken & m->places[i].slices))
            sum += size;
    }
    return sum;
}

static bool replay_mig_is_open(const struct mig_play *m, size_t gpu, const struct mig_place *p)
{
    bool media = m->gpu->profiles[p->profile].ofa && m->gpu->profiles[p->profile].size == 1;
    return !(m->taken.p[gpu] & p->slices) && !(media && m->media.p[gpu]);
}

static int64_t replay_mig_fragment_growth(const struct mig_play *m, size_t gpu,
                                          const struct mig_place *p)
{
    uint8_t taken = m->taken.p[gpu];
    return replay_mig_count_fragments(m, taken | p->slices) - replay_mig_count_fragments(m, taken);
}

static int64_t mfi_score(void *arg, uint32_t node, const struct fleet_node *n,
                         const struct fleet_question *q)
{
    const struct mig_play *m = arg;
    int64_t least = INT32_MAX;
    (void)n;
    (void)q;
    for (size_t g = 0; g < MIG_GPUS; g++)
        for (size_t i = 0; i < m->places_len; i++) {
            size_t gpu = (size_t)node * MIG_GPUS + g;
            if (m->places[i].profile != m->asked || !replay_mig_is_open(m, gpu, &m->places[i]))
                continue;
            int64_t more = replay_mig_fragment_growth(m, gpu, &m->places[i]);
            least = more < least ? more : least;
        }
    return -least;
}

// Devices are published GPU by GPU, the whole one first.
static void mfi_devices(void *arg, uint32_t node, uint32_t devices, uint16_t *ret)
{
    const struct mig_play *m = arg;
    for (uint32_t d = 0; d < devices; d++) {
        size_t g = d / (m->places_len + 1);
        size_t i = d % (m->places_len + 1);
        size_t gpu = (size_t)node * MIG_GPUS + g;
        ret[d] = UINT16_MAX;
        if (i > 0 && g < MIG_GPUS && replay_mig_is_open(m, gpu, &m->places[i - 1]))
            ret[d] = (uint16_t)(INT16_MAX + replay_mig_fragment_growth(m, gpu, &m->places[i - 1]));
    }
}

static int64_t first_score(void *arg, uint32_t node, const struct fleet_node *n,
                           const struct fleet_question *q)
{
    (void)arg;
    (void)node;
    (void)n;
    (void)q;
    return 0;
}

// --- Coming and going ----------------------------------------------------------------------------

static bool leaves_first(const struct heap_node *a, const struct heap_node *b)
{
    const struct guest *x = heap_entry(a, struct guest, heap);
    const struct guest *y = heap_entry(b, struct guest, heap);
    return x->leaves != y->leaves ? x->leaves < y->leaves : x->number < y->number;
}

// A time until something that happens once in a unit of time.
static double replay_mig_draw_wait(struct mig_play *m)
{
    return -log(((double)(rng_u64(&m->rng.rng) >> 11) + 1) * 0x1p-53);
}

static uint32_t draw_profile(struct mig_play *m)
{
    uint32_t at = (uint32_t)rng_below(&m->rng.rng, 100);
    uint32_t p = 0;
    for (; p < MIG_PROFILES - 1 && at >= m->mix->percent[p]; p++)
        at -= m->mix->percent[p];
    return p;
}

static double mean_size(const struct mig_play *m)
{
    double sum = 0;
    for (size_t i = 0; i < MIG_PROFILES; i++)
        sum += m->mix->percent[i] / 100.0 * m->gpu->profiles[i].size;
    return sum;
}

static int replay_mig_grow_node(struct mig_play *m, struct err *err)
{
    int r = replay_mig_add_node(m->stage.world, m->gpu, err);
    for (size_t i = 0; i < MIG_GPUS; i++) {
        vec_push(&m->taken, 0);
        vec_push(&m->media, false);
    }
    if (r == 0)
        replay_stage_update_node(&m->stage, (uint32_t)m->stage.world->nodes.n - 1);
    return r;
}

static void replay_mig_mark_slices(struct mig_play *m, const struct guest *g, bool there)
{
    size_t gpu = (size_t)g->node * MIG_GPUS + g->gpu;
    const struct mig_profile *p = &m->gpu->profiles[g->place.profile];
    m->taken.p[gpu] =
        (uint8_t)(there ? m->taken.p[gpu] | g->place.slices : m->taken.p[gpu] & ~g->place.slices);
    if (p->ofa && p->size == 1)
        m->media.p[gpu] = there;
    m->used = there ? m->used + p->size : m->used - p->size;
}

static int replay_mig_release_guest(struct mig_play *m, struct guest *g, struct err *err)
{
    replay_mig_mark_slices(m, g, false);
    int r = replay_world_release(m->stage.world, g->node, g->name, err);
    if (r == 0)
        replay_stage_update_node(&m->stage, g->node);
    free(g);
    return r;
}

// Puts a claim somewhere. *ret is NULL when there is no place.
static int replay_mig_place_guest(struct mig_play *m, uint32_t profile, struct guest **ret,
                                  struct err *err)
{
    struct guest g = {.number = ++m->numbers};
    const struct api_resource_claim *claim = m->claims[profile];
    *ret = NULL;
    g.name = arena_strf(&m->stage.world->arena, "claim-%llu", (unsigned long long)g.number);
    m->claims[profile]->metadata.name = g.name;
    m->asked = profile;
    (void)fleet_ask(m->stage.fleet, m->hashes[profile], &claim, 1, 0, 0);
    fleet_learn(m->stage.fleet, 1);
    const struct trace_pod pod = {.name = g.name};
    int r = replay_stage_place(&m->stage, claim, &pod, &g.node, err);
    if (r < 0 || g.node == NO_NODE)
        return r;
    const struct world_node *n = &m->stage.world->nodes.p[g.node];
    if (!replay_mig_parse_device(m->gpu, vec_last(&n->uses)->id.device, &g.gpu, &g.place))
        return err_set(err, ERR_INTERNAL, "a device that was not published was allocated");
    replay_mig_mark_slices(m, &g, true);
    *ret = xmalloc(sizeof(g));
    **ret = g;
    return 0;
}

// --- A run ---------------------------------------------------------------------------------------

struct tally {
    uint32_t come, accepted;
    double asked, given; // slices
    double area;         // slices in use, times time
    double since;
    int64_t spent;
    bool on;
    bool rejected;
};

static int replay_mig_begin_play(struct mig_play *m, const struct mig_options *o, int64_t seed,
                                 uint32_t nodes, struct err *err)
{
    *m = (struct mig_play){
        .options = o, .gpu = replay_mig_find_gpu(o->gpu), .mix = replay_mig_find_mix(o->mix)};
    m->places_len = replay_mig_list_places(m->gpu, m->places);
    m->rule = (struct fleet_rule){.score = o->policy == MIG_MFI ? mfi_score : first_score,
                                  .devices = o->policy == MIG_MFI ? mfi_devices : NULL,
                                  .arg = m};
    rng_seeded_init(&m->rng, (uint64_t)seed);
    heap_init(&m->guests, leaves_first);
    replay_stage_begin(&m->stage, replay_mig_new_world(), o->policy == MIG_PACK ? NULL : &m->rule,
                       o->policy == MIG_FIRST ? ALLOC_FIRST : ALLOC_PACK);
    m->stage.check = o->check;
    for (size_t i = 0; i < MIG_PROFILES; i++) {
        m->claims[i] = replay_mig_make_claim(m->stage.world, &m->gpu->profiles[i]);
        const struct api_resource_claim *c = m->claims[i];
        m->hashes[i] = fleet_hash(&c, 1);
    }
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < nodes; i++)
        r = replay_mig_grow_node(m, err);
    return r;
}

static void replay_mig_end_play(struct mig_play *m)
{
    for (struct heap_node *n; (n = heap_pop(&m->guests));)
        free(heap_entry(n, struct guest, heap));
    heap_done(&m->guests);
    vec_done(&m->taken);
    vec_done(&m->media);
    replay_stage_end(&m->stage);
}

static void pass_time(struct mig_play *m, struct tally *t, double until)
{
    if (t->on)
        t->area += m->used * (until - m->now);
    m->now = until;
}

// Time goes on until the next claim comes.
static int until_next(struct mig_play *m, struct tally *t, double next, struct err *err)
{
    int r = 0;
    for (struct heap_node *n; r == 0 && (n = heap_peek(&m->guests));) {
        struct guest *g = heap_entry(n, struct guest, heap);
        if (g->leaves > next)
            break;
        (void)heap_pop(&m->guests);
        pass_time(m, t, g->leaves);
        r = replay_mig_release_guest(m, g, err);
    }
    pass_time(m, t, next);
    return r;
}

static void replay_mig_count_request(struct mig_play *m, struct tally *t, uint32_t profile,
                                     bool accepted, struct mig_result *ret)
{
    double all = (double)m->stage.world->nodes.n * MIG_GPUS * MIG_SLICES;
    double size = m->gpu->profiles[profile].size;
    if (!accepted && !t->rejected) {
        t->rejected = true;
        ret->first_rejection = 100 * m->used / all;
    }
    if (!t->on)
        return;
    t->come++;
    t->asked += size;
    t->accepted += accepted;
    t->given += accepted ? size : 0;
}

// All claims of a seed. With buying, nodes are added where there is no place.
static int replay_mig_run_play(struct mig_play *m, bool buys, struct tally *t,
                               struct mig_result *ret, struct err *err)
{
    const struct mig_options *o = m->options;
    double rate = o->load / 100 * o->gpus * MIG_SLICES / mean_size(m);
    for (uint32_t i = 0; i < o->claims; i++) {
        double gap = replay_mig_draw_wait(m) / rate;
        uint32_t profile = draw_profile(m);
        double stays = replay_mig_draw_wait(m);
        int r = until_next(m, t, m->now + gap, err);
        if (r < 0)
            return r;
        if (i == o->claims / WARM_UP) {
            t->on = true;
            t->since = m->now;
        }
        struct guest *g = NULL;
        int64_t before = clock_mono_ns(o->clock);
        r = replay_mig_place_guest(m, profile, &g, err);
        t->spent += clock_mono_ns(o->clock) - before;
        if (r == 0 && !g && buys)
            r = replay_mig_grow_node(m, err) < 0 ? -err->code
                                                 : replay_mig_place_guest(m, profile, &g, err);
        if (r < 0)
            return r;
        replay_mig_count_request(m, t, profile, g != NULL, ret);
        if (!g)
            continue;
        g->leaves = m->now + stays;
        heap_push(&m->guests, &g->heap);
    }
    return 0;
}

static int replay_mig_buy_nodes(const struct mig_options *o, int64_t seed, double *ret,
                                struct err *err)
{
    struct mig_play m;
    struct tally t = {0};
    struct mig_result unused = {0};
    int r = replay_mig_begin_play(&m, o, seed, 1, err);
    if (r == 0)
        r = replay_mig_run_play(&m, true, &t, &unused, err);
    *ret = (double)(m.stage.world->nodes.n * MIG_GPUS);
    replay_mig_end_play(&m);
    return r;
}

int replay_mig_run(const struct mig_options *o, int64_t seed, struct mig_result *ret,
                   struct err *err)
{
    struct mig_play m;
    struct tally t = {0};
    *ret = (struct mig_result){.seed = seed, .first_rejection = 100};
    int r = replay_mig_begin_play(&m, o, seed, o->gpus / MIG_GPUS, err);
    if (r == 0)
        r = replay_mig_run_play(&m, false, &t, ret, err);
    ret->acceptance = t.come ? 100.0 * t.accepted / t.come : 0;
    ret->accepted_demand = t.asked > 0 ? 100 * t.given / t.asked : 0;
    double all = (double)o->gpus * MIG_SLICES * (m.now - t.since);
    ret->allocated = all > 0 ? 100 * t.area / all : 0;
    ret->decisions_per_second = t.spent > 0 ? 1e9 * o->claims / (double)t.spent : 0;
    replay_mig_end_play(&m);
    if (r == 0 && !o->no_buying)
        r = replay_mig_buy_nodes(o, seed, &ret->gpus_needed, err);
    return r;
}

// --- Output --------------------------------------------------------------------------------------

#define COLUMN(key, title, width, decimals, exact, member)                      \
    {                                                                           \
        key, title, width, decimals, exact, offsetof(struct mig_result, member) \
    }

static const struct replay_column mig_columns[] = {
    COLUMN("firstRejection", "REJECTS", 9, 2, false, first_rejection),
    COLUMN("acceptance", "ACCEPTED", 9, 2, false, acceptance),
    COLUMN("acceptedDemand", "OF DEMAND", 9, 2, false, accepted_demand),
    COLUMN("allocated", "IN USE", 9, 2, false, allocated),
    COLUMN("gpusNeeded", "TO BUY", 9, 1, true, gpus_needed),
    COLUMN("decisionsPerSecond", "DECISIONS/S", 12, 0, false, decisions_per_second),
};

void replay_mig_write_json(const struct mig_options *o, const struct mig_result *results, size_t n,
                           struct sbuf *out)
{
    sbuf_addf(out,
              "{\"policy\":\"%s\",\"gpu\":\"%.*s\",\"mix\":\"%.*s\",\"gpus\":%u,\"load\":%g,"
              "\"claims\":%u,",
              policy_names[o->policy], STR_ARG(o->gpu), STR_ARG(o->mix), o->gpus, o->load,
              o->claims);
    if (n == 1)
        sbuf_addf(out, "\"seed\":%lld,", (long long)results[0].seed);
    replay_report_json(&(struct replay_report){mig_columns, array_len(mig_columns), results,
                                               sizeof(*results), n},
                       out);
}

void replay_mig_write_text(const struct mig_options *o, const struct mig_result *results, size_t n,
                           struct sbuf *out)
{
    sbuf_addf(out, "policy %s; %u GPUs (%.*s), mix %.*s, load %g %%\n", policy_names[o->policy],
              o->gpus, STR_ARG(o->gpu), STR_ARG(o->mix), o->load);
    replay_report_text(&(struct replay_report){mig_columns, array_len(mig_columns), results,
                                               sizeof(*results), n},
                       out);
}
