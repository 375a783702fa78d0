// SPDX-License-Identifier: Apache-2.0
//
// Objects of a large cluster, and the core of a scheduler on them.
#include <stdlib.h>

#include "lab/bench_fleet.h"

#include "base/banned.h"

#define GPU_DRIVER "gpu.example.com"
#define NET_DRIVER "net.example.com"
#define NODE_CPU   192000
#define CPU_A_GPU  8000

// Nodes looked at again for one pod, as the scheduler has it: worth is a preference.
#define NODES_AT_ONCE 512

// --- Objects -------------------------------------------------------------------------------------

static const char *const models[] = {"H200", "B200", "MI350", "Gaudi-4"};

static void write_gpu(struct sbuf *b, size_t node, size_t i)
{
    size_t model = node / 7 % array_len(models);
    sbuf_addf(b,
              "%s{\"name\":\"gpu-%zu\",\"attributes\":{\"uuid\":{\"string\":\"GPU-%08zx-%zu\"},"
              "\"model\":{\"string\":\"%s\"},\"index\":{\"int\":%zu},"
              "\"driverVersion\":{\"version\":\"570.86.%zu\"},"
              "\"resource.kubernetes.io/pcieRoot\":{\"string\":\"pci0000:%02zx\"},"
              "\"numa\":{\"int\":%zu}},"
              "\"capacity\":{\"memory\":{\"value\":\"%uGi\"}}}",
              i ? "," : "", i, node * 2654435761U & 0xffffffffU, i, models[model], i, node / 11 % 3,
              0x10 + i / 2, i / 4, model < 2 ? 141U : 288U);
}

static void write_slice(const struct fleet_objects *o, size_t node, int64_t generation,
                        struct sbuf *b)
{
    sbuf_addf(b,
              "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceSlice\",\"metadata\":{"
              "\"name\":\"node-%06zu-gpu\"},\"spec\":{\"driver\":\"" GPU_DRIVER "\","
              "\"nodeName\":\"node-%06zu\",\"pool\":{\"name\":\"node-%06zu\",\"generation\":%lld,"
              "\"resourceSliceCount\":1},\"devices\":[",
              node, node, node, (long long)generation);
    for (size_t i = 0; i < o->devices; i++)
        write_gpu(b, node, i);
    sbuf_addz(b, "]}}");
}

// A pool of network-attached devices that the nodes of a rack reach; the last of a thousand is for
// all nodes.
static void bench_fleet_write_pool(size_t pool, struct sbuf *b)
{
    sbuf_addf(b,
              "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceSlice\",\"metadata\":{"
              "\"name\":\"net-%04zu\"},\"spec\":{\"driver\":\"" NET_DRIVER "\","
              "\"pool\":{\"name\":\"net-%04zu\",\"generation\":1,\"resourceSliceCount\":1},",
              pool, pool);
    if (pool % 1000 == 999)
        sbuf_addz(b, "\"allNodes\":true,");
    else
        sbuf_addf(b,
                  "\"nodeSelector\":{\"nodeSelectorTerms\":[{\"matchExpressions\":[{\"key\":"
                  "\"rack\",\"operator\":\"In\",\"values\":[\"r%zu\"]}]}]},",
                  pool);
    sbuf_addz(b, "\"devices\":[");
    for (size_t i = 0; i < 16; i++)
        sbuf_addf(b, "%s{\"name\":\"link-%zu\",\"attributes\":{\"speed\":{\"int\":400}}}",
                  i ? "," : "", i);
    sbuf_addz(b, "]}}");
}

// Decodes an object and keeps it in memory of its own, as a client does.
static void *bench_fleet_decode(struct arena *arena, struct str json)
{
    cleanup_arena struct arena scratch = {0};
    struct api_object o = bench_decode(&scratch, json);
    arena_reserve(arena, scratch.used_bytes + scratch.used_bytes / 8 + 64);
    void *value = arena_alloc(arena, o.kind->type->size, 16);
    api_copy(o.kind->type, o.value, value, arena);
    return value;
}

static struct api_node *bench_fleet_make_node(struct fleet_objects *o, size_t i)
{
    cleanup_sbuf struct sbuf b = {0};
    sbuf_addf(&b,
              "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"node-%06zu\","
              "\"labels\":{\"kubernetes.io/hostname\":\"node-%06zu\",\"rack\":\"r%zu\"}}}",
              i, i, i / FLEET_RACK);
    return bench_fleet_decode(&o->arenas[i], sbuf_str(&b));
}

static void bench_fleet_make_slice(struct fleet_objects *o, size_t i)
{
    cleanup_sbuf struct sbuf b = {0};
    if (i < o->nodes)
        write_slice(o, i, 1, &b);
    else
        bench_fleet_write_pool(i - o->nodes, &b);
    o->slice[i] = bench_fleet_decode(&o->arenas[o->nodes + i], sbuf_str(&b));
}

void bench_fleet_objects_renew(struct fleet_objects *o, size_t node, int64_t generation,
                               struct fleet_old *ret)
{
    cleanup_sbuf struct sbuf b = {0};
    *ret = (struct fleet_old){o->slice[node], o->arenas[o->nodes + node]};
    o->arenas[o->nodes + node] = (struct arena){0};
    write_slice(o, node, generation, &b);
    o->slice[node] = bench_fleet_decode(&o->arenas[o->nodes + node], sbuf_str(&b));
}

#define REQUEST(count, more)                                                         \
    "{\"name\":\"gpu\",\"exactly\":{\"deviceClassName\":\"gpu\",\"allocationMode\":" \
    "\"ExactCount\",\"count\":" #count more "}}"

static const char *const asks[FLEET_ASKS] = {
    "{\"requests\":[" REQUEST(1, "") "]}",
    "{\"requests\":[" REQUEST(
        1, ",\"selectors\":[{\"cel\":{\"expression\":\"device.capacity['" GPU_DRIVER
           "'].memory.compareTo(quantity('200Gi')) > 0\"}}]") "]}",
    "{\"requests\":[" REQUEST(2, "") "],\"constraints\":[{\"matchAttribute\":"
                                     "\"resource.kubernetes.io/pcieRoot\"}]}",
    "{\"requests\":[" REQUEST(
        4, ",\"selectors\":[{\"cel\":{\"expression\":\"device.attributes['" GPU_DRIVER
           "'].model == 'B200'\"}}]") "]}",
    "{\"requests\":[" REQUEST(8, "") "]}",
    "{\"requests\":[" REQUEST(
        1, "") ",{\"name\":\"net\",\"exactly\":{\"deviceClassName\":\"net\",\"allocationMode\":"
               "\"ExactCount\",\"count\":1}}]}",
};

static struct api_device_class *bench_fleet_make_class(struct fleet_objects *o, const char *name,
                                                       const char *driver)
{
    return bench_decode(
               &o->shared,
               arena_strf(&o->shared,
                          "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"DeviceClass\","
                          "\"metadata\":{\"name\":\"%s\"},\"spec\":{\"selectors\":[{\"cel\":{"
                          "\"expression\":\"device.driver == '%s'\"}}]}}",
                          name, driver))
        .value;
}

static void make_asks(struct fleet_objects *o)
{
    for (size_t i = 0; i < FLEET_ASKS; i++) {
        struct str json = arena_strf(
            &o->shared,
            "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceClaim\",\"metadata\":{"
            "\"name\":\"c\",\"namespace\":\"default\"},\"spec\":{\"devices\":%s}}",
            asks[i]);
        o->asks[i] = bench_decode(&o->shared, json).value;
        const struct api_resource_claim *one = o->asks[i];
        o->hashes[i] = fleet_hash(&one, 1);
    }
}

void bench_fleet_objects_make(struct fleet_objects *o)
{
    o->arenas = xcalloc(2 * o->nodes + o->pools, sizeof(*o->arenas));
    o->node = xcalloc(o->nodes, sizeof(struct api_node *));
    o->slice = xcalloc(o->nodes + o->pools, sizeof(struct api_resource_slice *));
    for (size_t i = 0; i < o->nodes; i++)
        o->node[i] = bench_fleet_make_node(o, i);
    for (size_t i = 0; i < o->nodes + o->pools; i++)
        bench_fleet_make_slice(o, i);
    o->classes[0] = bench_fleet_make_class(o, "gpu", GPU_DRIVER);
    o->classes[1] = bench_fleet_make_class(o, "net", NET_DRIVER);
    make_asks(o);
}

void bench_fleet_objects_free(struct fleet_objects *o)
{
    for (size_t i = 0; i < 2 * o->nodes + o->pools; i++)
        arena_done(&o->arenas[i]);
    arena_done(&o->shared);
    free(o->arenas);
    free((void *)o->node);
    free((void *)o->slice);
}

// --- Core ----------------------------------------------------------------------------------------

static const struct alloc_view *bench_fleet_view_of(void *arg, uint32_t node)
{
    struct fleet_core *c = arg;
    struct err err;
    return index_view(c->index, node, &err);
}

static bool bench_fleet_is_closed(const struct fleet_core *c, uint32_t node)
{
    return c->closed[node / 64] >> (node % 64) & 1;
}

static void bench_fleet_update_index(struct fleet_core *c, uint32_t node)
{
    struct fleet_room room = {
        .order = node, .cpu = c->cpu[node], .cpu_all = NODE_CPU, .memory = 1, .memory_all = 1};
    if (bench_fleet_is_closed(c, node))
        fleet_gone(c->fleet, node);
    else
        fleet_set_state(c->fleet, node, &room, index_state(c->index, node));
}

// Nodes that changed last come first: mostly one pod after the other goes to the same.
void bench_fleet_core_refresh(struct fleet_core *c, size_t most)
{
    struct index_numbers *t = index_touched(c->index);
    if (t->n > c->objects->nodes) {
        t->n = 0;
        for (uint32_t i = (uint32_t)c->objects->nodes; i-- > 0;)
            vec_push(t, i);
    }
    for (; t->n && most; most--)
        bench_fleet_update_index(c, vec_pop(t));
}

void bench_fleet_core_begin(struct fleet_core *c, const struct fleet_objects *o)
{
    struct alloc_features features = alloc_features_default();
    *c = (struct fleet_core){.objects = o};
    c->cpu = xcalloc(o->nodes, sizeof(*c->cpu));
    c->closed = xcalloc(o->nodes / 64 + 1, sizeof(*c->closed));
    c->index = index_new(&(struct index_options){.features = features, .policy = ALLOC_PACK});
    c->fleet = fleet_new(&(struct fleet_options){.view = bench_fleet_view_of, .view_arg = c});
    c->solver = alloc_solver_new(
        &(struct alloc_options){.policy = ALLOC_PACK, .loss = fleet_loss, .loss_arg = c->fleet});
    for (size_t i = 0; i < 2; i++)
        index_set_class(c->index, (struct index_object){0},
                        (struct index_object){.value = o->classes[i]});
    for (size_t i = 0; i < o->nodes + o->pools; i++)
        index_set_slice(c->index, (struct index_object){0},
                        (struct index_object){.value = o->slice[i]});
    for (uint32_t i = 0; i < o->nodes; i++) {
        c->cpu[i] = NODE_CPU;
        index_set_node(c->index, i, o->node[i]->metadata.name,
                       (struct index_object){.value = o->node[i]});
    }
}

void bench_fleet_core_end(struct fleet_core *c)
{
    alloc_solver_free(c->solver);
    fleet_free(c->fleet);
    index_free(c->index);
    free(c->cpu);
    free(c->closed);
}

void bench_fleet_core_take(struct fleet_core *c, struct fleet_claim *k)
{
    index_expect(c->index,
                 c->objects->asks[k->ask]); // as the scheduler does with each claim that it sees
    index_use_list(c->index, &k->user, k->uses, k->user.uses_len);
    c->cpu[k->node] -= CPU_A_GPU;
    k->held = true;
}

void bench_fleet_core_release(struct fleet_core *c, struct fleet_claim *k)
{
    c->cpu[k->node] += CPU_A_GPU;
    index_use_list(c->index, &k->user, NULL, 0);
    free(k->uses);
    *k = (struct fleet_claim){.ask = k->ask};
}

static void keep_answer(struct fleet_claim *k, const struct alloc_answer *a)
{
    const struct api_device_request_allocation_result_array *rs = &a->results[0].devices.results;
    k->uses = xcalloc(rs->n, sizeof(*k->uses));
    k->user.uses_len = rs->n;
    for (size_t i = 0; i < rs->n; i++) // names are the slices'
        k->uses[i] = (struct alloc_use){.id = {rs->p[i].driver, rs->p[i].pool, rs->p[i].device},
                                        .exclusive = true};
}

struct placing {
    struct fleet_core *core;
    struct fleet_claim *claim;
    bool by_worth;
};

static enum index_reply bench_fleet_ask_node(void *arg, uint32_t node)
{
    struct placing *p = arg;
    struct fleet_core *c = p->core;
    const struct api_resource_claim *claim = c->objects->asks[p->claim->ask];
    struct err err;
    struct alloc_answer a;
    c->asked += p->by_worth;
    if (!p->by_worth && (bench_fleet_is_closed(c, node) || c->cpu[node] < CPU_A_GPU))
        return INDEX_SKIP;
    const struct alloc_view *v = index_view(c->index, node, &err);
    if (!v)
        return INDEX_NO;
    alloc_solve(c->solver, v, &claim, 1, &a);
    c->solved++;
    if (a.verdict != ALLOC_ALLOCATED)
        return INDEX_NO;
    keep_answer(p->claim, &a);
    p->claim->node = node;
    bench_fleet_core_take(c, p->claim);
    return INDEX_ENOUGH;
}

static bool bench_fleet_search_node(struct fleet_core *c, struct fleet_claim *k)
{
    const struct api_resource_claim *claim = c->objects->asks[k->ask];
    struct placing p = {c, k, true};
    struct index_ask ask = {.hash = c->objects->hashes[k->ask],
                            .claims = &claim,
                            .claims_len = 1,
                            .need = 1,
                            .fleet = c->fleet,
                            .ask = bench_fleet_ask_node,
                            .arg = &p};
    (void)fleet_ask(c->fleet, ask.hash, &claim, 1, CPU_A_GPU, 0);
    fleet_learn(c->fleet, 1);
    fleet_start(c->fleet);
    index_find(c->index, &ask);
    if (k->held)
        return true;
    // What worth does not offer is asked, too, as the scheduler does.
    fleet_at(c->fleet, UINT32_MAX);
    ask.fleet = NULL;
    p.by_worth = false;
    index_find(c->index, &ask);
    return k->held;
}

bool bench_fleet_core_place(struct fleet_core *c, struct fleet_claim *k)
{
    bench_fleet_core_refresh(c, NODES_AT_ONCE);
    return bench_fleet_search_node(c, k);
}
