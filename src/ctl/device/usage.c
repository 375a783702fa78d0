// SPDX-License-Identifier: Apache-2.0
//
// How devices are used, for dashboards (docs/reference/metrics.md): which are allocated, how broken
// up what is left is, and how many device-seconds each namespace has had since this process began
// to watch.
//
// Bounded: namespaces beyond NAMESPACES_MAX are counted as one; with more devices than SERIES_MAX
// only pools are shown.
#include <assert.h>
#include <stdlib.h>

#include "base/map.h"
#include "ctl/core/ctl_int.h"

#include "base/banned.h"

#define NAMESPACES_MAX 1000
#define SERIES_MAX     10000
#define OTHERS         "_others"

struct held {
    char *name;
    int64_t devices;
    double seconds;
    int64_t since_ns; // up to when seconds are counted
};

struct usage_ctl {
    struct ctl *ctl;
    struct held_by MAP(struct held *) namespaces;
};

// --- Device-seconds ------------------------------------------------------------------------------

// Devices of a claim; access for administration holds none.
static int64_t usage_count_devices(const struct typed_object *o)
{
    const struct api_resource_claim *c = maybe_claim(o);
    int64_t n = 0;
    if (!c || !c->status.allocation)
        return 0;
    const struct api_device_request_allocation_result_array *rs =
        &c->status.allocation->devices.results;
    for (size_t i = 0; i < rs->n; i++)
        n += !(rs->p[i].has_admin_access && rs->p[i].admin_access);
    return n;
}

static struct held *held_of(struct usage_ctl *u, struct str namespace)
{
    struct held **at = map_get(&u->namespaces, namespace);
    if (at)
        return *at;
    if (map_len(&u->namespaces) >= NAMESPACES_MAX && !str_eqz(namespace, OTHERS))
        return held_of(u, STR(OTHERS)); // NOLINT(misc-no-recursion): once
    struct held *h = xcalloc(1, sizeof(*h));
    h->name = xstrndup(namespace.p, namespace.n);
    h->since_ns = exec_now_ns(u->ctl->exec);
    *map_put(&u->namespaces, str_z(h->name)) = h;
    return h;
}

static void usage_settle_claim(const struct usage_ctl *u, struct held *h)
{
    int64_t now = exec_now_ns(u->ctl->exec);
    h->seconds += (double)h->devices * (double)(now - h->since_ns) / (double)CLOCK_NS_PER_SEC;
    h->since_ns = now;
}

static void usage_on_claim_changed(void *arg, const struct typed_object *before,
                                   const struct typed_object *after)
{
    struct usage_ctl *u = arg;
    int64_t more = usage_count_devices(after) - usage_count_devices(before);
    if (!more)
        return;
    struct held *h = held_of(u, (after ? after : before)->meta->namespace);
    usage_settle_claim(u, h);
    h->devices += more;
}

struct usage_ctl *usage_ctl_new(struct ctl *c)
{
    struct usage_ctl *u = xcalloc(1, sizeof(*u));
    const struct informer_handler h = {.changed = usage_on_claim_changed, .arg = u};
    u->ctl = c;
    informer_add_handler(c->caches[CACHE_CLAIMS], &h);
    return u;
}

void usage_ctl_free(struct usage_ctl *u)
{
    if (!u)
        return;
    map_foreach(&u->namespaces, i) {
        assert(u->namespaces.values);
        free((*map_value(&u->namespaces, i))->name);
        free(*map_value(&u->namespaces, i));
    }
    map_done(&u->namespaces);
    free(u);
}

// --- Devices -------------------------------------------------------------------------------------

struct use_count {
    struct str driver, pool, device; // borrowed from the cache
    uint32_t claims;
};

struct pool_count {
    struct str driver, name;
    int64_t generation;
    size_t devices, used;
};

struct tally {
    struct arena arena;
    struct uses_of MAP(struct use_count) devices; // driver/pool/device
    struct pools_of MAP(struct pool_count) pools; // driver/pool
};

static struct str usage_pool_key(struct tally *t, struct str driver, struct str pool)
{
    return arena_strf(&t->arena, "%.*s/%.*s", STR_ARG(driver), STR_ARG(pool));
}

static void usage_note_newest(void *arg, const struct typed_object *o)
{
    struct tally *t = arg;
    const struct api_resource_slice_spec *s = &as_slice(o)->spec;
    struct pool_count *p = map_put(&t->pools, usage_pool_key(t, s->driver, s->pool.name));
    p->driver = s->driver;
    p->name = s->pool.name;
    if (s->pool.generation > p->generation)
        p->generation = s->pool.generation;
}

static void count_slice(void *arg, const struct typed_object *o)
{
    struct tally *t = arg;
    const struct api_resource_slice_spec *s = &as_slice(o)->spec;
    struct pool_count *p = map_put(&t->pools, usage_pool_key(t, s->driver, s->pool.name));
    if (s->pool.generation < p->generation)
        return;
    p->devices += s->devices.n;
    for (size_t i = 0; i < s->devices.n; i++) {
        struct str key = arena_strf(&t->arena, "%.*s/%.*s/%.*s", STR_ARG(s->driver),
                                    STR_ARG(s->pool.name), STR_ARG(s->devices.p[i].name));
        struct use_count *u = map_put(&t->devices, key);
        *u = (struct use_count){s->driver, s->pool.name, s->devices.p[i].name, 0};
    }
}

static void usage_count_claim(void *arg, const struct typed_object *o)
{
    struct tally *t = arg;
    const struct api_allocation_result *a = as_claim(o)->status.allocation;
    for (size_t i = 0; a && i < a->devices.results.n; i++) {
        const struct api_device_request_allocation_result *r = &a->devices.results.p[i];
        struct use_count *u =
            map_get(&t->devices, arena_strf(&t->arena, "%.*s/%.*s/%.*s", STR_ARG(r->driver),
                                            STR_ARG(r->pool), STR_ARG(r->device)));
        struct pool_count *p = map_get(&t->pools, usage_pool_key(t, r->driver, r->pool));
        if (!u || !p || (r->has_admin_access && r->admin_access))
            continue;
        p->used += u->claims == 0;
        u->claims++;
    }
}

// --- Prometheus' text ----------------------------------------------------------------------------

static void usage_write_devices(const struct tally *t, struct sbuf *out)
{
    sbuf_addz(out, "# HELP dray_device_allocations Claims that hold the device.\n"
                   "# TYPE dray_device_allocations gauge\n");
    map_foreach(&t->devices, i) {
        assert(t->devices.values);
        const struct use_count *u = map_value(&t->devices, i);
        sbuf_addf(out,
                  "dray_device_allocations{driver=\"%.*s\",pool=\"%.*s\",device=\"%.*s\"} %u\n",
                  STR_ARG(u->driver), STR_ARG(u->pool), STR_ARG(u->device), u->claims);
    }
}

static void write_pools(const struct tally *t, struct sbuf *out)
{
    sbuf_addz(out, "# HELP dray_pool_devices Devices of the pool's newest generation.\n"
                   "# TYPE dray_pool_devices gauge\n");
    map_foreach(&t->pools, i) {
        assert(t->pools.values);
        const struct pool_count *p = map_value(&t->pools, i);
        sbuf_addf(out, "dray_pool_devices{driver=\"%.*s\",pool=\"%.*s\"} %zu\n", STR_ARG(p->driver),
                  STR_ARG(p->name), p->devices);
    }
    sbuf_addz(out, "# HELP dray_pool_devices_allocated Devices of the pool that claims hold.\n"
                   "# TYPE dray_pool_devices_allocated gauge\n");
    map_foreach(&t->pools, i) {
        assert(t->pools.values);
        const struct pool_count *p = map_value(&t->pools, i);
        sbuf_addf(out, "dray_pool_devices_allocated{driver=\"%.*s\",pool=\"%.*s\"} %zu\n",
                  STR_ARG(p->driver), STR_ARG(p->name), p->used);
    }
}

struct broken_up {
    size_t free, begun; // free devices; those of them in pools of which something is in use
};

// Free devices that stand beside used ones cannot serve those who need a whole pool.
static void write_fragmentation(const struct tally *t, struct sbuf *out)
{
    struct by_driver MAP(struct broken_up) drivers = {0};
    map_foreach(&t->pools, i) {
        assert(t->pools.values);
        const struct pool_count *p = map_value(&t->pools, i);
        struct broken_up *b = map_put(&drivers, p->driver);
        b->free += p->devices - p->used;
        b->begun += p->used ? p->devices - p->used : 0;
    }
    sbuf_addz(out, "# HELP dray_fragmentation_ratio Free devices in pools that are partly in use, "
                   "by all free devices of the driver.\n# TYPE dray_fragmentation_ratio gauge\n");
    map_foreach(&drivers, i) {
        assert(drivers.values);
        const struct broken_up *b = map_value(&drivers, i);
        sbuf_addf(out, "dray_fragmentation_ratio{driver=\"%.*s\"} %.6g\n",
                  STR_ARG(map_key(&drivers, i)),
                  b->free ? (double)b->begun / (double)b->free : 0.0);
    }
    map_done(&drivers);
}

static void usage_write_namespaces(struct usage_ctl *u, struct sbuf *out)
{
    sbuf_addz(out,
              "# HELP dray_device_seconds_total Seconds that claims of the namespace held devices, "
              "times devices, since this process began to watch.\n"
              "# TYPE dray_device_seconds_total counter\n");
    map_foreach(&u->namespaces, i) {
        assert(u->namespaces.values);
        struct held *h = *map_value(&u->namespaces, i);
        usage_settle_claim(u, h);
        sbuf_addf(out, "dray_device_seconds_total{namespace=\"%s\"} %.3f\n", h->name, h->seconds);
    }
    sbuf_addz(out, "# HELP dray_namespace_devices Devices that claims of the namespace hold now.\n"
                   "# TYPE dray_namespace_devices gauge\n");
    map_foreach(&u->namespaces, i) {
        assert(u->namespaces.values);
        const struct held *h = *map_value(&u->namespaces, i);
        sbuf_addf(out, "dray_namespace_devices{namespace=\"%s\"} %lld\n", h->name,
                  (long long)h->devices);
    }
}

void usage_ctl_metrics(struct usage_ctl *u, struct sbuf *out)
{
    struct tally t = {0};
    if (u->ctl->caches[CACHE_SLICES]) {
        informer_foreach(u->ctl->caches[CACHE_SLICES], usage_note_newest, &t);
        informer_foreach(u->ctl->caches[CACHE_SLICES], count_slice, &t);
        informer_foreach(u->ctl->caches[CACHE_CLAIMS], usage_count_claim, &t);
        if (map_len(&t.devices) <= SERIES_MAX)
            usage_write_devices(&t, out);
        write_pools(&t, out);
        write_fragmentation(&t, out);
    }
    usage_write_namespaces(u, out);
    map_done(&t.devices);
    map_done(&t.pools);
    arena_done(&t.arena);
}
