// SPDX-License-Identifier: Apache-2.0
//
// The index of a whole cluster, in the objects of `dray bench fleet`: what a decision, a pod that
// goes and a slice that is published again cost, as the cluster grows. With --count: instructions.
#include <stdlib.h>

#include "bench.h"
#include "lab/bench_fleet.h"

#include "base/banned.h"

// A node of `dray bench fleet` has processors for so many pods.
enum { ROUNDS = 200, PODS_A_NODE = 24 };

struct cluster {
    struct fleet_objects objects;
    struct fleet_core core;
    struct VEC(struct fleet_claim *) claims;
    struct VEC(struct fleet_old) old; // claims have their strings
    size_t next;
};

// The objects are made from text of ours, as the verb makes them.
struct api_object bench_decode(struct arena *arena, struct str json)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct api_object o;
    if (json_parse(json, NULL, &doc, NULL) < 0 ||
        api_decode(&doc, doc.root, arena, NULL, &o, NULL) < 0)
        abort();
    return o;
}

static bool place(struct cluster *c, uint8_t ask)
{
    struct fleet_claim *k = xcalloc(1, sizeof(*k));
    k->ask = ask;
    if (!bench_fleet_core_place(&c->core, k)) {
        free(k);
        return false;
    }
    vec_push(&c->claims, k);
    return true;
}

static void release(struct cluster *c, size_t i)
{
    bench_fleet_core_release(&c->core, c->claims.p[i]);
    free(c->claims.p[i]);
    c->claims.p[i] = vec_pop(&c->claims);
}

// A pod with one device goes and another comes, each time elsewhere.
static void exchange(struct cluster *c)
{
    release(c, c->next++ * 7919 % c->claims.n);
    if (!place(c, 0))
        abort();
}

static void publish_again(struct cluster *c)
{
    struct fleet_old o;
    size_t node = c->next++ * 7919 % c->objects.nodes;
    bench_fleet_objects_renew(&c->objects, node, (int64_t)c->next + 1, &o);
    vec_push(&c->old, o);
    index_set_slice(c->core.index, (struct index_object){.value = o.slice},
                    (struct index_object){.value = c->objects.slice[node]});
    bench_fleet_core_refresh(&c->core, SIZE_MAX);
}

// Half of the devices are in use, as far as processors go.
static void begin(struct cluster *c, size_t nodes, size_t devices, size_t pools)
{
    *c = (struct cluster){.objects = {.nodes = nodes, .devices = devices, .pools = pools}};
    bench_fleet_objects_make(&c->objects);
    bench_fleet_core_begin(&c->core, &c->objects);
    bench_fleet_core_refresh(&c->core, SIZE_MAX);
    size_t pods = nodes * (devices < PODS_A_NODE ? devices : PODS_A_NODE) / 2;
    for (size_t i = 0; i < pods; i++)
        if (!place(c, 0))
            abort();
}

static void end(struct cluster *c)
{
    while (c->claims.n)
        release(c, c->claims.n - 1);
    vec_done(&c->claims);
    bench_fleet_core_end(&c->core);
    for (size_t i = 0; i < c->old.n; i++)
        arena_done(&c->old.p[i].arena);
    vec_done(&c->old);
    bench_fleet_objects_free(&c->objects);
}

static void count(void)
{
    struct cluster c;
    begin(&c, 100, 8, 10);
    COUNT("a pod goes, another comes, 100 nodes", 20, exchange(&c));
    COUNT("a slice is published again, 100 nodes", 20, publish_again(&c));
    end(&c);
}

static void measure(const char *what, size_t n, size_t nodes, size_t devices, size_t pools)
{
    struct cluster c;
    char name[96];
    begin(&c, nodes, devices, pools);
    double before = bench_cpu_ns();
    for (int i = 0; i < ROUNDS; i++)
        exchange(&c);
    (void)snprintf(name, sizeof(name), "a pod goes, another comes, %s", what);
    bench_point(name, n, (bench_cpu_ns() - before) / ROUNDS);
    before = bench_cpu_ns();
    for (int i = 0; i < ROUNDS; i++)
        publish_again(&c);
    (void)snprintf(name, sizeof(name), "a slice is published again, %s", what);
    bench_point(name, n, (bench_cpu_ns() - before) / ROUNDS);
    end(&c);
}

int main(int argc, char **argv)
{
    static const size_t nodes[] = {100, 1000, 10000};
    static const size_t devices[] = {1, 10, 100};
    static const size_t pools[] = {0, 10, 100};
    if (bench_counting(argc, argv)) {
        count();
        return 0;
    }
    for (size_t i = 0; i < array_len(nodes); i++)
        measure("nodes of 8 devices", nodes[i], nodes[i], 8, 0);
    for (size_t i = 0; i < array_len(devices); i++)
        measure("devices on each of 100 nodes", devices[i], 100, devices[i], 0);
    for (size_t i = 0; i < array_len(pools); i++)
        measure("network pools beside 1000 nodes", pools[i], 1000, 8, pools[i]);
    return 0;
}
