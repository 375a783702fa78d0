// SPDX-License-Identifier: Apache-2.0
//
// An inventory that is kept from event to event is the one that is made at once, whatever has happened in whatever order.
#include "api/api.h"
#include "api/table.h"
#include "base/rand.h"
#include "plan/parts.h"
#include "plan/sim/plan_int.h"
#include "unit.h"

#include "base/banned.h"

#define STEPS 400

// Objects of which some are there at a time: each in two forms.
#define NODE(n, label) \
    "---\napiVersion: v1\nkind: Node\nmetadata: {name: n" n ", labels: {at: '" label "'}}\n"
#define SLICE(name, node, pool, generation, count, devices)                                    \
    "---\napiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: " name "}\n"   \
    "spec: {driver: gpu.example.com, " node ", pool: {name: " pool ", generation: " generation \
    ", resourceSliceCount: " count "}, devices: [" devices "]}\n"
#define DEVICES "{name: a, allowMultipleAllocations: true, capacity: {m: {value: 4}}}, {name: b}"
#define CLAIM(name, node, first, second)                                                   \
    "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: " name     \
    "}\nspec: {devices: {requests: [{name: r, exactly: {deviceClassName: x}}]}}\n"         \
    "status:\n  reservedFor: [{resource: pods, name: p" name ", uid: u}]\n"                \
    "  allocation: {devices: {results: [{request: r, driver: gpu.example.com, pool: " node \
    ", device: " first "}, {request: r, driver: gpu.example.com, pool: " second            \
    ", device: b}]}}\n"
#define POD(name, more)                                                         \
    "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p" name "}\nspec: {" more \
    "containers: [{name: c, image: i}], resourceClaims: [{name: k, "            \
    "resourceClaimName: " name "}]}\n"
#define RULE(key)                                                                          \
    "---\napiVersion: resource.k8s.io/v1\nkind: DeviceTaintRule\nmetadata: {name: rule}\n" \
    "spec: {deviceSelector: {pool: n1}, taint: {key: " key ", effect: NoSchedule}}\n"

static const char *const texts[] = {
    NODE("0", "x") NODE("0", "y"),
    NODE("1", "x") NODE("1", "y"),
    NODE("2", "x") NODE("2", "y"),
    SLICE("s0", "nodeName: n0", "n0", "1", "1", DEVICES)
        SLICE("s0", "nodeName: n0", "n0", "2", "1", "{name: a}, {name: c}"),
    SLICE("s1", "nodeName: n1", "n1", "1", "2", DEVICES)
        SLICE("s1", "nodeName: n1", "n1", "1", "2", "{name: a}"),
    SLICE("s1b", "nodeName: n1", "n1", "1", "2", "{name: d}")
        SLICE("s1b", "nodeName: n3", "n1", "2", "1", "{name: d}"),
    SLICE("s2", "nodeName: n2", "n2", "1", "1", DEVICES)
        SLICE("s2", "nodeName: n2", "other", "1", "1", DEVICES),
    SLICE("net", "allNodes: true", "net", "1", "1", DEVICES)
        SLICE("net",
              "nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: at, operator: In, "
              "values: ['x']}]}]}",
              "net", "1", "1", DEVICES),
    CLAIM("c0", "n0", "a", "net") CLAIM("c0", "n1", "a", "n1"),
    CLAIM("c1", "n1", "a", "n1") CLAIM("c1", "n2", "a", "gone"),
    CLAIM("c2", "net", "a", "n2") CLAIM("c2", "other", "a", "other"),
    POD("c0", "") POD("c0", "nodeName: n0, "),
    POD("c1", "") POD("c1", "nodeName: n1, "),
    POD("c2", "nodeName: n2, ") POD("c2", ""),
    RULE("broken") RULE("hot"),
};

static struct alloc_features features(void)
{
    struct alloc_features f = {0};
    assert_true(alloc_features_add(&f, STR("all")));
    return f;
}

static int by_text(const void *x, const void *y)
{
    return str_cmp(*(const struct str *)x, *(const struct str *)y);
}

// Every device with its state, its node and its holders, every node with its devices, and who waits: sorted lines.
static void describe(const struct inventory *inv, struct arena *a, struct sbuf *out)
{
    struct VEC(struct str) lines = {0};
    for (size_t i = 0; i < inv->devices_len; i++) {
        const struct inventory_device *d = &inv->devices[i];
        cleanup_sbuf struct sbuf line = {0};
        inventory_name(&d->id, &line);
        sbuf_addf(&line, " %s %.*s '%.*s' of %.*s, %zu left:", inventory_state_name(d->state),
                  STR_ARG(d->node), STR_ARG(d->why), STR_ARG(inv->pools[d->pool].name),
                  d->left ? d->left[0].n : 0);
        for (uint32_t k = d->first_hold; k < d->first_hold + d->holds_len; k++) {
            const struct inventory_claim *c = &inv->claims[inv->holds[k].claim];
            assert_int_equal(inv->holds[k].device, i);
            sbuf_addf(&line, " %.*s(%.*s@%.*s)", STR_ARG(c->name), STR_ARG(c->pods),
                      STR_ARG(c->node));
        }
        vec_push_arena(a, &lines, arena_str(a, sbuf_str(&line)));
    }
    for (size_t i = 0; i < inv->nodes_len; i++)
        vec_push_arena(a, &lines,
                       arena_strf(a, "node %.*s %u", STR_ARG(inv->nodes[i].name),
                                  inv->nodes[i].devices));
    for (size_t i = 0; i < inv->pending_len; i++)
        vec_push_arena(a, &lines, arena_strf(a, "waits %.*s", STR_ARG(inv->pending[i].pod)));
    if (lines.n)
        qsort(lines.p, lines.n, sizeof(lines.p[0]), by_text);
    for (size_t i = 0; i < lines.n; i++)
        sbuf_addf(out, "%.*s\n", STR_ARG(lines.p[i]));
    sbuf_addf(out, "%zu claims\n", inv->claims_len);
}

static void compare(const struct inventory *kept, const struct api_object *const *there, int step)
{
    cleanup_arena struct arena a = {0};
    cleanup_sbuf struct sbuf got = {0}, want = {0};
    struct plan_world *w = plan_world_new();
    struct inventory *made = NULL;
    const struct inventory_options o = {.features = features(), .nodes_known = true};
    for (size_t i = 0; i < array_len(texts); i++)
        if (there[i])
            assert_true(plan_world_borrow(w, there[i]));
    assert_int_equal(inventory_new(w, &o, &made, NULL), 0);
    describe(kept, &a, &got);
    describe(made, &a, &want);
    if (!str_eq(sbuf_str(&got), sbuf_str(&want)))
        fail_msg("step %d: kept:\n%s\nmade:\n%s", step, got.p, want.p);
    inventory_free(made);
    plan_world_free(w);
}

static struct api_object object_of(const struct plan_object *o)
{
    bool core = o->kind == PLAN_NODE || o->kind == PLAN_POD;
    return (struct api_object){.kind = api_kind_find(core ? STR("v1") : STR("resource.k8s.io/v1"),
                                                     o->type->name),
                               .value = o->value};
}

static void kept_is_made(void **state)
{
    struct plan_world *w[array_len(texts)][2];
    struct api_object forms[array_len(texts)][2];
    const struct api_object *there[array_len(texts)] = {0};
    const struct alloc_features f = features();
    struct inventory_parts *parts = inventory_parts_new(&f);
    struct rng_seeded rng;
    (void)state;
    rng_seeded_init(&rng, 15);
    for (size_t i = 0; i < array_len(texts); i++) {
        const char *second = strstr(texts[i] + 3, "---");
        struct str text[] = {str_make(texts[i], (size_t)(second - texts[i])), str_z(second)};
        for (size_t k = 0; k < 2; k++) {
            struct err err = {0};
            w[i][k] = plan_world_new();
            if (plan_world_read(w[i][k], STR("test"), text[k], &err) < 0)
                fail_msg("%zu: line %zu: %s", i, err.line, err.msg);
            assert_int_equal(w[i][k]->objects.n, 1);
            forms[i][k] = object_of(&w[i][k]->objects.p[0]);
        }
    }
    for (int step = 0; step < STEPS; step++) {
        for (uint64_t n = 1 + rng_below(&rng.rng, 3); n > 0; n--) {
            size_t i = (size_t)rng_below(&rng.rng, array_len(texts));
            size_t form = (size_t)rng_below(&rng.rng, 3);
            const struct api_object *after = form < 2 ? &forms[i][form] : NULL;
            if (there[i] || after)
                inventory_parts_change(parts, there[i], after);
            there[i] = after;
        }
        const struct inventory *inv = NULL;
        assert_int_equal(inventory_parts_update(parts, &inv, NULL), 0);
        compare(inv, there, step);
    }
    inventory_parts_free(parts);
    for (size_t i = 0; i < array_len(texts); i++)
        for (size_t k = 0; k < 2; k++)
            plan_world_free(w[i][k]);
}

RUN_TESTS(TEST_CASE(kept_is_made))
