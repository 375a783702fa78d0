// SPDX-License-Identifier: Apache-2.0
//
// GPUs with partitions as NVIDIA's driver publishes them: a slice with a counter set for each GPU
// (engines, multiprocessors, memory, eight slices of memory), and for each GPU a slice with the
// whole device and every profile in every place. Numbers: NVIDIA's MIG user guide.
#include "api/api.h"
#include "plan/replay/replay_mig_int.h"

#include "base/banned.h"

#define DRIVER "gpu.nvidia.com"
#define CLASS  "mig.nvidia.com"
#define MIB    (INT64_C(1) << 20)

static const struct mig_gpu gpus[] = {
    {"a100",
     "NVIDIA A100-SXM4-40GB",
     "Ampere",
     {{"1g.5gb", "1g5gb-19", 4864, 14, 1, 0, 0, 0, 1, 0x7F},
      {"1g.5gb+me", "1g5gb-me-20", 4864, 14, 1, 1, 1, 1, 1, 0x7F},
      {"1g.10gb", "1g10gb-15", 9856, 14, 1, 1, 0, 0, 2, 0x55},
      {"2g.10gb", "2g10gb-14", 9856, 28, 2, 1, 0, 0, 2, 0x15},
      {"3g.20gb", "3g20gb-9", 19968, 42, 3, 2, 0, 0, 4, 0x11},
      {"4g.20gb", "4g20gb-5", 19968, 56, 4, 2, 0, 0, 4, 0x01},
      {"7g.40gb", "7g40gb-0", 40192, 98, 7, 5, 1, 1, 8, 0x01}}},
    {"h100",
     "NVIDIA H100 80GB HBM3",
     "Hopper",
     {{"1g.10gb", "1g10gb-19", 9984, 16, 1, 1, 1, 0, 1, 0x7F},
      {"1g.10gb+me", "1g10gb-me-20", 9984, 16, 1, 1, 1, 1, 1, 0x7F},
      {"1g.20gb", "1g20gb-15", 20096, 26, 1, 1, 1, 0, 2, 0x55},
      {"2g.20gb", "2g20gb-14", 20096, 32, 2, 2, 2, 0, 2, 0x15},
      {"3g.40gb", "3g40gb-9", 40448, 60, 3, 3, 3, 0, 4, 0x11},
      {"4g.40gb", "4g40gb-5", 40448, 64, 4, 4, 4, 0, 4, 0x01},
      {"7g.80gb", "7g80gb-0", 81152, 132, 8, 7, 7, 1, 8, 0x01}}},
};

// Shares of 1g, 1g+me, 1g with two slices of memory, 2g, 3g, 4g and 7g among claims.
static const struct mig_mix mixes[] = {
    {"uniform", {14, 14, 14, 14, 15, 15, 14}},
    {"small", {25, 5, 25, 20, 10, 10, 5}},
    {"large", {4, 1, 10, 10, 20, 25, 30}},
    {"bimodal", {25, 5, 15, 5, 5, 15, 30}},
};

const struct mig_gpu *replay_mig_find_gpu(struct str name)
{
    for (size_t i = 0; i < array_len(gpus); i++)
        if (str_eqz(name, gpus[i].name))
            return &gpus[i];
    return NULL;
}

const struct mig_mix *replay_mig_find_mix(struct str name)
{
    for (size_t i = 0; i < array_len(mixes); i++)
        if (str_eqz(name, mixes[i].name))
            return &mixes[i];
    return NULL;
}

size_t replay_mig_list_places(const struct mig_gpu *g, struct mig_place ret[MIG_DEVICES])
{
    size_t n = 0;
    for (uint8_t p = 0; p < MIG_PROFILES; p++)
        for (unsigned at = 0; at < MIG_SLICES; at++)
            if (g->profiles[p].starts >> at & 1 && n < MIG_DEVICES)
                ret[n++] =
                    (struct mig_place){p, (uint8_t)(((1U << g->profiles[p].size) - 1) << at)};
    return n;
}

// gpu-<GPU>-mig-<profile>-<first slice>, both numbers of one digit.
bool replay_mig_parse_device(const struct mig_gpu *g, struct str device, uint32_t *ret_gpu,
                             struct mig_place *ret)
{
    struct mig_place places[MIG_DEVICES];
    size_t n = replay_mig_list_places(g, places);
    const size_t before = sizeof("gpu-0-mig-") - 1;
    if (device.n < before + 2)
        return false;
    struct str profile = str_make(device.p + before, device.n - before - 2);
    int slice = device.p[device.n - 1] - '0';
    *ret_gpu = (uint32_t)(device.p[4] - '0');
    for (size_t i = 0; i < n && *ret_gpu < MIG_GPUS; i++) {
        if (__builtin_ctz(places[i].slices) != slice ||
            !str_eqz(profile, g->profiles[places[i].profile].device))
            continue;
        *ret = places[i];
        return true;
    }
    return false;
}

// --- Slices --------------------------------------------------------------------------------------

// Counters of a profile that covers these slices; also the counters that a GPU has.
static struct api_counter_map make_counters(struct arena *a, const struct mig_profile *p,
                                            uint8_t slices)
{
    const struct {
        const char *name;
        int64_t value;
    } amounts[] = {
        {"copy-engines", p->copy}, {"decoders", p->decoders},
        {"encoders", 0},           {"jpeg-engines", p->jpeg},
        {"memory", p->mib * MIB},  {"multiprocessors", p->multiprocessors},
        {"ofa-engines", p->ofa},
    };
    struct api_counter_entry *e =
        arena_array(a, struct api_counter_entry, array_len(amounts) + MIG_SLICES);
    size_t n = 0;
    for (size_t i = 0; i < array_len(amounts); i++) {
        e[n].key = str_z(amounts[i].name);
        e[n++].value.value = quantity_from_i64(amounts[i].value, QUANTITY_DECIMAL_SI);
    }
    for (unsigned i = 0; i < MIG_SLICES; i++)
        if (slices >> i & 1) {
            e[n].key = arena_strf(a, "memory-slice-%u", i);
            e[n++].value.value = quantity_from_i64(1, QUANTITY_DECIMAL_SI);
        }
    return (struct api_counter_map){e, n};
}

static void mig_world_add_text(struct api_device_attribute_entry *e, const char *key,
                               struct str value)
{
    e->key = str_z(key);
    e->value.has_string_value = true;
    e->value.string_value = value;
}

static struct api_device mig_world_make_device(struct arena *a, const struct mig_gpu *g,
                                               uint32_t gpu, const struct mig_profile *p,
                                               uint8_t slices)
{
    struct api_device d = {0};
    struct api_device_attribute_entry *e = arena_array(a, struct api_device_attribute_entry, 8);
    size_t n = 0;
    mig_world_add_text(&e[n++], "type", p ? STR("mig") : STR("gpu"));
    mig_world_add_text(&e[n++], p ? "parentUUID" : "uuid", arena_strf(a, "GPU-%u", gpu));
    if (p)
        mig_world_add_text(&e[n++], "profile", str_z(p->name));
    mig_world_add_text(&e[n++], "productName", str_z(g->product));
    mig_world_add_text(&e[n++], "architecture", str_z(g->architecture));
    mig_world_add_text(&e[n++], "resource.kubernetes.io/pcieRoot",
                       arena_strf(a, "pci0000:%u", gpu / 2));
    e[n].key = STR("resource.kubernetes.io/numaNode");
    e[n].value.has_int_value = true;
    e[n++].value.int_value = gpu / 4;
    d.attributes = (struct api_device_attribute_map){e, n};
    d.name = p ? arena_strf(a, "gpu-%u-mig-%s-%d", gpu, p->device, __builtin_ctz(slices))
               : arena_strf(a, "gpu-%u", gpu);
    struct api_device_counter_consumption *c = arena_one(a, struct api_device_counter_consumption);
    c->counter_set = arena_strf(a, "gpu-%u-counter-set", gpu);
    c->counters = make_counters(a, p ? p : &g->profiles[MIG_PROFILES - 1], slices);
    d.consumes_counters = (struct api_device_counter_consumption_array){c, 1};
    return d;
}

static struct api_resource_slice *mig_world_make_slice(struct arena *a, struct str node,
                                                       uint32_t number)
{
    struct api_resource_slice *s = arena_one(a, struct api_resource_slice);
    s->metadata.name = arena_strf(a, "%.*s-%u", STR_ARG(node), number);
    s->spec.driver = STR(DRIVER);
    s->spec.pool = (struct api_resource_pool){node, 1, MIG_GPUS + 1};
    s->spec.has_node_name = true;
    s->spec.node_name = node;
    return s;
}

static const struct api_resource_slice *make_gpu(struct arena *a, const struct mig_gpu *g,
                                                 struct str node, uint32_t gpu)
{
    struct mig_place places[MIG_DEVICES];
    size_t n = replay_mig_list_places(g, places);
    struct api_resource_slice *s = mig_world_make_slice(a, node, gpu + 1);
    struct api_device *d = arena_array(a, struct api_device, n + 1);
    d[0] = mig_world_make_device(a, g, gpu, NULL, UINT8_MAX);
    for (size_t i = 0; i < n; i++)
        d[i + 1] =
            mig_world_make_device(a, g, gpu, &g->profiles[places[i].profile], places[i].slices);
    s->spec.devices = (struct api_device_array){d, n + 1};
    return s;
}

static const struct api_resource_slice *make_sets(struct arena *a, const struct mig_gpu *g,
                                                  struct str node)
{
    struct api_resource_slice *s = mig_world_make_slice(a, node, 0);
    struct api_counter_set *c = arena_array(a, struct api_counter_set, MIG_GPUS);
    for (uint32_t i = 0; i < MIG_GPUS; i++) {
        c[i].name = arena_strf(a, "gpu-%u-counter-set", i);
        c[i].counters = make_counters(a, &g->profiles[MIG_PROFILES - 1], UINT8_MAX);
    }
    s->spec.shared_counters = (struct api_counter_set_array){c, MIG_GPUS};
    return s;
}

struct replay_world *replay_mig_new_world(void)
{
    struct replay_world *w = replay_world_new(NULL, false, false);
    w->class_ = replay_world_make_class(&w->arena, CLASS,
                                        "device.driver == '" DRIVER
                                        "' && device.attributes['" DRIVER "'].type == 'mig'");
    return w;
}

int replay_mig_add_node(struct replay_world *w, const struct mig_gpu *g, struct err *err)
{
    struct arena *a = &w->arena;
    const struct world_node n = {.order = (uint32_t)w->nodes.n};
    struct str name = arena_strf(a, "node-%zu", w->nodes.n);
    const struct api_resource_slice *slices[MIG_GPUS + 1];
    slices[0] = make_sets(a, g, name);
    for (uint32_t i = 0; i < MIG_GPUS; i++)
        slices[i + 1] = make_gpu(a, g, name, i);
    return replay_world_put_node(w, name, &n, slices, array_len(slices), err);
}

struct api_resource_claim *replay_mig_make_claim(struct replay_world *w,
                                                 const struct mig_profile *p)
{
    struct arena *a = &w->arena;
    struct api_resource_claim *c = arena_one(a, struct api_resource_claim);
    struct api_device_request *r = arena_one(a, struct api_device_request);
    struct api_exact_device_request *e = arena_one(a, struct api_exact_device_request);
    struct api_device_selector *s = arena_one(a, struct api_device_selector);
    s->cel = arena_one(a, struct api_cel_device_selector);
    s->cel->expression = arena_strf(a, "device.attributes['" DRIVER "'].profile == '%s'", p->name);
    c->metadata.namespace = STR("replay");
    r->name = STR("mig");
    r->exactly = e;
    e->device_class_name = STR(CLASS);
    e->allocation_mode = STR("ExactCount");
    e->count = 1;
    e->selectors = (struct api_device_selector_array){s, 1};
    c->spec.devices.requests = (struct api_device_request_array){r, 1};
    return c;
}
