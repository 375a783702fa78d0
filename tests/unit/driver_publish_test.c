// SPDX-License-Identifier: Apache-2.0
//
// Publishing pools: the fewest writes, generations, repair, taints, what a server does not keep.
#include "client/informer.h"
#include "ctl_world.h"
#include "driver/sdk/publish.h"

#include "base/banned.h"

struct desk {
    struct ctl_world c;
    struct publisher *p;
    struct informer *slices;
    struct str lease_namespace;
    size_t troubles;
    char trouble[DRAY_ERR_MSG_MAX];
};

static void trouble(void *arg, const struct err *err)
{
    struct desk *d = arg;
    d->troubles++;
    (void)snprintf(d->trouble, sizeof(d->trouble), "%s", err->msg);
}

static void desk_publisher(struct desk *d)
{
    const struct publisher_options o = {.lease_namespace = d->lease_namespace,
                                        .lease_holder = STR("n1"),
                                        .lease_seconds = 20,
                                        .client = d->c.client,
                                        .driver = STR("led.example.com"),
                                        .node = STR("n1"),
                                        .trouble = trouble,
                                        .arg = d};
    d->p = publish_new(&o);
}

static void desk_open(struct desk *d, const char *gates)
{
    ctl_world_start(&d->c, gates);
    (void)do_create(d->c.w, NODE(""), "{\"metadata\":{\"name\":\"n1\"}}");
    const struct informer_options o = {.client = d->c.client,
                                       .kind = api_kind_find(STR("resource.k8s.io/v1"),
                                                             STR("ResourceSlice"))};
    d->slices = informer_new(&o);
    informer_start(d->slices);
    desk_publisher(d);
    settle(&d->c);
}

static void desk_start(struct desk *d, const char *gates)
{
    *d = (struct desk){0};
    desk_open(d, gates);
}

static void desk_end(struct desk *d)
{
    publish_free(d->p);
    informer_free(d->slices);
    ctl_world_end(&d->c);
}

struct summary {
    size_t n, devices, taints;
    int64_t min_generation, max_generation;
    uint64_t max_revision;
    size_t at_max; // slices with the newest revision
    bool owned, consistent;
};

static void add_to_summary(void *arg, const struct typed_object *o)
{
    struct summary *s = arg;
    const struct api_resource_slice *slice = o->object.value;
    int64_t generation = slice->spec.pool.generation;
    s->min_generation =
        s->n == 0 || generation < s->min_generation ? generation : s->min_generation;
    s->max_generation = generation > s->max_generation ? generation : s->max_generation;
    s->max_revision = o->revision > s->max_revision ? o->revision : s->max_revision;
    s->n++;
    s->devices += slice->spec.devices.n;
    for (size_t i = 0; i < slice->spec.devices.n; i++)
        s->taints += slice->spec.devices.p[i].taints.n;
    s->owned = s->owned || slice->metadata.owner_references.n == 1;
}

static struct summary look(struct desk *d)
{
    struct summary s = {0};
    world_pass(d->c.w, 5);
    informer_foreach(d->slices, add_to_summary, &s);
    return s;
}

// A pool of n LEDs; the one with number odd has another colour.
static void set_pool(struct desk *d, size_t n, int odd, bool counters)
{
    struct dray_pool *pool = dray_pool_new("n1");
    char name[32];
    if (counters)
        dray_pool_counter(pool, "power", "milliwatts", "1000");
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(name, sizeof(name), "led-%zu", i);
        struct dray_device *led = dray_pool_device(pool, name);
        dray_attribute_text(led, "color", (int)i == odd ? "green" : "red");
        dray_capacity(led, "brightness", "255");
        if (counters)
            dray_consumes(led, "power", "milliwatts", "5");
    }
    struct arena arena = {0};
    struct pool_specs specs;
    struct err err = {0};
    assert_int_equal(pool_make(pool, &arena, &specs, &err), 0);
    publish_set_pool(d->p, STR("n1"), pool_is_shared(pool), &specs);
    arena_done(&arena);
    dray_pool_free(pool);
}

static void the_fewest_writes(void **state)
{
    (void)state;
    struct desk d;
    desk_start(&d, "");
    set_pool(&d, 300, -1, false);
    struct summary s = look(&d);
    assert_int_equal(s.n, 3);
    assert_int_equal(s.devices, 300);
    assert_int_equal(s.min_generation, 1);
    assert_int_equal(s.max_generation, 1);
    assert_true(s.owned && publish_idle(d.p));
    // The same again, and a new publisher: nothing is written.
    uint64_t revision = s.max_revision;
    set_pool(&d, 300, -1, false);
    assert_int_equal(look(&d).max_revision, revision);
    publish_free(d.p);
    desk_publisher(&d);
    set_pool(&d, 300, -1, false);
    assert_int_equal(look(&d).max_revision, revision);
    // One device changes: one slice is written, the generation stays.
    set_pool(&d, 300, 200, false);
    s = look(&d);
    assert_int_equal(s.max_generation, 1);
    assert_int_equal(s.max_revision, revision + 1);
    // More slices: all are written with the next generation.
    set_pool(&d, 400, 200, false);
    s = look(&d);
    assert_int_equal(s.n, 4);
    assert_int_equal(s.min_generation, 2);
    assert_int_equal(s.max_generation, 2);
    // Fewer: the surplus goes.
    set_pool(&d, 1, -1, false);
    s = look(&d);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.devices, 1);
    assert_int_equal(s.min_generation, 3);
    publish_remove_pool(d.p, STR("n1"));
    assert_int_equal(look(&d).n, 0);
    assert_false(publish_has_pool(d.p, STR("n1")));
    assert_int_equal(d.troubles, 0);
    desk_end(&d);
}

static void first_name(void *arg, const struct typed_object *o)
{
    char *name = arg;
    if (!*name)
        (void)snprintf(name, 128, "%.*s", STR_ARG(o->meta->name));
}

static void what_others_do_is_undone(void **state)
{
    (void)state;
    struct desk d;
    desk_start(&d, "");
    set_pool(&d, 10, -1, true);
    struct summary s = look(&d);
    assert_int_equal(s.n, 2); // counters, devices
    char name[128] = "";
    informer_foreach(d.slices, first_name, name);
    assert_non_null(strstr(name, "00000-led.example.com-n1-"));
    (void)do_delete(d.c.w, SLICE(name), NULL);
    s = look(&d);
    assert_int_equal(s.n, 2);
    assert_int_equal(s.devices, 10);
    // A slice that is not the driver's in the driver's pool.
    (void)do_create(
        d.c.w, SLICE(""),
        "{\"metadata\":{\"name\":\"stray\"},\"spec\":{\"driver\":\"led.example.com\",\"nodeName\":"
        "\"n1\",\"pool\":{\"name\":\"n1\",\"generation\":1,\"resourceSliceCount\":2},\"devices\":"
        "[{\"name\":\"ghost\"}]}}");
    s = look(&d);
    assert_int_equal(s.n, 2);
    assert_int_equal(s.devices, 10);
    desk_end(&d);
}

static void taints_come_and_go(void **state)
{
    (void)state;
    struct desk d;
    desk_start(&d, "");
    set_pool(&d, 100, -1, false);
    assert_int_equal(look(&d).n, 1);
    const struct pool_taint taint = {STR("led-7"), STR("led.example.com/burnt"), STR("1"),
                                     STR("NoSchedule")};
    publish_taint(d.p, STR("n1"), &taint);
    struct summary s = look(&d);
    assert_int_equal(s.taints, 1);
    assert_int_equal(s.n, 2); // with taints a slice has 64 devices at most
    assert_int_equal(s.devices, 100);
    uint64_t revision = s.max_revision;
    // It outlives a new pool, and is not written again although the server put a time on it.
    set_pool(&d, 100, -1, false);
    s = look(&d);
    assert_int_equal(s.taints, 1);
    assert_int_equal(s.max_revision, revision);
    publish_untaint(d.p, STR("n1"), STR("led-7"), STR("led.example.com/burnt"));
    s = look(&d);
    assert_int_equal(s.taints, 0);
    assert_int_equal(s.n, 1);
    desk_end(&d);
}

// A gate is off: the server drops a field. The driver says so and does not write for ever.
static void fields_that_are_dropped(void **state)
{
    (void)state;
    struct desk d;
    desk_start(&d, "DRADeviceTaints=false");
    const struct pool_taint taint = {STR("led-0"), STR("led.example.com/burnt"), STR("1"),
                                     STR("NoSchedule")};
    set_pool(&d, 3, -1, false);
    publish_taint(d.p, STR("n1"), &taint);
    struct summary s = look(&d);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.taints, 0);
    assert_int_equal(d.troubles, 1);
    assert_non_null(strstr(d.trouble, "did not keep"));
    assert_int_equal(look(&d).max_revision, s.max_revision);
    assert_int_equal(d.troubles, 1);
    desk_end(&d);
}

static void old_servers_want_counters_beside_devices(void **state)
{
    (void)state;
    struct desk d;
    desk_start(&d, "");
    publish_old_server(d.p);
    struct dray_pool *pool = dray_pool_new("n1");
    for (int i = 0; i < 2; i++)
        dray_pool_counter(pool, i ? "b" : "a", "x", "4");
    dray_consumes(dray_pool_device(pool, "d"), "b", "x", "1");
    struct arena arena = {0};
    struct pool_specs specs;
    struct err err = {0};
    assert_int_equal(pool_make(pool, &arena, &specs, &err), 0);
    assert_int_equal(specs.n, 2);
    pool_combine(&specs, &arena);
    assert_int_equal(specs.n, 1);
    assert_int_equal(specs.p[0].shared_counters.n, 1);
    assert_str(specs.p[0].shared_counters.p[0].name, "b");
    arena_done(&arena);
    dray_pool_free(pool);
    desk_end(&d);
}

static void pools_of_the_network(void **state)
{
    (void)state;
    struct desk d;
    desk_start(&d, "");
    struct dray_pool *pool = dray_pool_new("cameras");
    dray_pool_for_all_nodes(pool);
    struct dray_device *camera = dray_pool_device(pool, "cam");
    dray_binding(camera, "example.com/attached", "example.com/failed");
    dray_device_json(camera, "{\"bindsToNode\":true}");
    struct arena arena = {0};
    struct pool_specs specs;
    struct err err = {0};
    assert_int_equal(pool_make(pool, &arena, &specs, &err), 0);
    publish_set_pool(d.p, STR("cameras"), pool_is_shared(pool), &specs);
    struct summary s = look(&d);
    assert_int_equal(s.n, 1);
    assert_false(s.owned);
    arena_done(&arena);
    dray_pool_free(pool);
    desk_end(&d);
}

// --- Signs of life -------------------------------------------------------------------------------

#define LEASE_NAME "led.example.com-n1"
#define LEASE(ns)  ((struct target){"coordination.k8s.io/v1", "Lease", "", ns, LEASE_NAME})

static void count_named(void *arg, const struct typed_object *o)
{
    size_t *n = arg;
    for (size_t i = 0; i < o->meta->annotations.n; i++)
        *n += str_eqz(o->meta->annotations.p[i].key, "dray.dev/publisher-lease") &&
              str_eqz(o->meta->annotations.p[i].value, "kube-system/" LEASE_NAME);
}

static size_t named(struct desk *d)
{
    size_t n = 0;
    informer_foreach(d->slices, count_named, &n);
    return n;
}

static size_t rules(struct desk *d)
{
    return store_count(d->c.w->store,
                       api_kind_find(STR("resource.k8s.io/v1"), STR("DeviceTaintRule")), STR(""));
}

static void desk_with_lease(struct desk *d, const char *namespace)
{
    *d =
        (struct desk){.c.controllers = WITH(CTL_STALE_SLICES), .lease_namespace = str_z(namespace)};
    desk_open(d, "");
}

static void a_driver_that_dies_has_its_devices_tainted_until_it_is_back(void **state)
{
    (void)state;
    struct desk d;
    desk_with_lease(&d, "kube-system");
    set_pool(&d, 300, -1, false);
    struct summary s = look(&d);
    assert_int_equal(s.n, 3);
    assert_int_equal(s.max_generation, 1); // they named the Lease from the start
    assert_int_equal(named(&d), 3);
    (void)do_get(d.c.w, LEASE("kube-system"));
    assert_field(d.c.w, "spec.leaseDurationSeconds", "20");
    assert_field(d.c.w, "metadata.ownerReferences[0].kind", "Node");
    world_pass(d.c.w, 300);
    assert_int_equal(rules(&d), 0);
    publish_free(d.p);
    world_pass(d.c.w, 14);
    assert_int_equal(rules(&d), 0);
    world_pass(d.c.w, 10);
    assert_int_equal(rules(&d), 1);
    desk_publisher(&d);
    set_pool(&d, 300, -1, false);
    assert_int_equal(look(&d).max_revision, s.max_revision); // the slices are as they were
    assert_int_equal(rules(&d), 0);
    desk_end(&d);
}

static void owner_of(void *arg, const struct typed_object *o)
{
    struct sbuf *out = arg;
    sbuf_clear(out);
    sbuf_add(out, o->meta->owner_references.p[0].uid);
}

static void a_node_that_is_made_anew_owns_the_slices(void **state)
{
    (void)state;
    struct desk d = {0};
    struct sbuf owner = {0};
    desk_with_lease(&d, "kube-system");
    set_pool(&d, 3, -1, false);
    assert_int_equal(look(&d).n, 1);
    assert_ok(do_delete(d.c.w, NODE("n1"), NULL));
    world_pass(d.c.w, 10);
    assert_ok(do_create(d.c.w, NODE(""), "{\"metadata\":{\"name\":\"n1\"}}"));
    world_pass(d.c.w, 60);
    struct summary s = look(&d);
    assert_int_equal(s.n, 1);
    informer_foreach(d.slices, owner_of, &owner);
    assert_ok(do_get(d.c.w, NODE("n1")));
    assert_field(d.c.w, "metadata.uid", owner.p);
    world_pass(d.c.w, 60);
    assert_int_equal(look(&d).max_revision, s.max_revision); // and nobody takes them away again
    sbuf_done(&owner);
    desk_end(&d);
}

static void a_driver_that_may_not_have_a_lease_publishes_without(void **state)
{
    (void)state;
    struct desk d;
    desk_with_lease(&d, "nowhere");
    set_pool(&d, 10, -1, false);
    assert_int_equal(look(&d).n, 1);
    assert_int_equal(named(&d), 0);
    assert_int_equal(d.troubles, 1);
    desk_end(&d);
}

static void slices_of_an_older_driver_learn_of_the_lease(void **state)
{
    (void)state;
    struct desk d;
    desk_with_lease(&d, "");
    set_pool(&d, 10, -1, false);
    assert_int_equal(look(&d).n, 1);
    assert_int_equal(named(&d), 0);
    publish_free(d.p);
    d.lease_namespace = STR("kube-system");
    desk_publisher(&d);
    set_pool(&d, 10, -1, false);
    assert_int_equal(look(&d).n, 1);
    assert_int_equal(named(&d), 1);
    desk_end(&d);
}

RUN_TESTS(TEST_CASE(a_driver_that_dies_has_its_devices_tainted_until_it_is_back),
          TEST_CASE(a_node_that_is_made_anew_owns_the_slices),
          TEST_CASE(a_driver_that_may_not_have_a_lease_publishes_without),
          TEST_CASE(slices_of_an_older_driver_learn_of_the_lease), TEST_CASE(the_fewest_writes),
          TEST_CASE(what_others_do_is_undone), TEST_CASE(taints_come_and_go),
          TEST_CASE(fields_that_are_dropped), TEST_CASE(old_servers_want_counters_beside_devices),
          TEST_CASE(pools_of_the_network))
