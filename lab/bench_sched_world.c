// SPDX-License-Identifier: Apache-2.0
//
// The cluster that pods are scheduled on: made, checked, removed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "lab/bench_sched.h"

#include "base/banned.h"

#define DRIVER          BENCH_DRIVER
#define PODS_A_CLAIM    5 // where claims are shared
#define SETUP_AT_A_TIME 64
#define WIPE_ROUNDS     50
#define WIPE_PAUSE_NS   (100 * CLOCK_NS_PER_MS)

static void node_name(char *out, size_t cap, size_t i)
{
    (void)snprintf(out, cap, "sb-node-%04zu", i);
}

// --- Writing -------------------------------------------------------------------------------------

// Calls that follow each other for one thing.
struct chain {
    struct sched_bench *bench;
    size_t i;
    int step;
    struct arena arena;
    struct client_key key;
};

static struct chain *chain_new(struct sched_bench *s, size_t i)
{
    struct chain *c = xcalloc(1, sizeof(*c));
    c->bench = s;
    c->i = i;
    return c;
}

static void chain_end(struct chain *c, int code, const struct err *err)
{
    struct bench *b = &c->bench->bench;
    arena_done(&c->arena);
    free(c);
    bench_finished(b, code, err);
}

static void on_made(void *arg, const struct client_answer *a)
{
    int r = a->code == -ERR_ALREADY_EXISTS ? 0 : a->code;
    bench_finished(arg, r, a->err);
}

static void bench_sched_create_object(struct bench *b, struct str json)
{
    struct arena arena = {0};
    struct api_object o = bench_decode(&arena, json);
    client_create(b->client, &o, NULL, on_made, b);
    arena_done(&arena);
}

static void make_text(struct bench *b, size_t i, void *arg)
{
    (void)i;
    bench_sched_create_object(b, *(const struct str *)arg);
}

static int make_one(struct bench *b, struct str json)
{
    return bench_each(b, 1, 1, make_text, &json);
}

// --- Nodes ---------------------------------------------------------------------------------------

#define NODE_STATUS                                                                    \
    "\"status\":{\"capacity\":{\"cpu\":\"64\",\"memory\":\"256Gi\",\"pods\":\"110\"}," \
    "\"allocatable\":{\"cpu\":\"64\",\"memory\":\"256Gi\",\"pods\":\"110\"},"          \
    "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"schedbench\"}]}"

static void bench_sched_on_node(void *arg, const struct client_answer *a);

static void patch_node(struct chain *c, const char *body, const char *subresource)
{
    const struct client_write how = {.subresource = str_z(subresource)};
    client_patch(c->bench->bench.client, &c->key, CLIENT_PATCH_MERGE, str_z(body), &how,
                 bench_sched_on_node, c);
}

// A server may taint new nodes and drop their status: then both are written afterwards.
static void bench_sched_on_node(void *arg, const struct client_answer *a)
{
    struct chain *c = arg;
    if (a->code < 0 && a->code != -ERR_ALREADY_EXISTS) {
        chain_end(c, a->code, a->err);
        return;
    }
    const struct api_node *node = a->object ? a->object->object.value : NULL;
    if (c->step == 0 && (!node || node->spec.taints.n > 0)) {
        c->step = 1;
        patch_node(c, "{\"spec\":{\"taints\":null}}", "");
    } else if (c->step < 2 && (!node || node->status.conditions.n == 0)) {
        c->step = 2;
        patch_node(c, "{" NODE_STATUS "}", "status");
    } else {
        chain_end(c, 0, NULL);
    }
}

static void bench_sched_make_node(struct bench *b, size_t i, void *arg)
{
    struct chain *c = chain_new(arg, i);
    char name[64];
    node_name(name, sizeof(name), i);
    c->key = (struct client_key){bench_kind("v1", "Node"), {0}, arena_str(&c->arena, str_z(name))};
    struct api_object o = bench_decode(
        &c->arena,
        arena_strf(&c->arena,
                   "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"%s\","
                   "\"labels\":{\"kubernetes.io/hostname\":\"%s\",\"schedbench\":\"true\","
                   "\"topology.kubernetes.io/zone\":\"zone-%zu\"}}," NODE_STATUS "}",
                   name, name, i % 3));
    client_create(b->client, &o, NULL, bench_sched_on_node, c);
}

// --- Slices and claims ---------------------------------------------------------------------------

static void bench_sched_make_slice(struct bench *b, size_t i, void *arg)
{
    const struct sched_bench *s = arg;
    size_t node = i / s->form->slices, slice = i % s->form->slices;
    char name[64];
    node_name(name, sizeof(name), node);
    cleanup_sbuf struct sbuf json = {0};
    sbuf_addf(&json,
              "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceSlice\",\"metadata\":{"
              "\"name\":\"%s-%zu\"},\"spec\":{\"driver\":\"" DRIVER "\","
              "\"pool\":{\"name\":\"%s\",\"generation\":1,\"resourceSliceCount\":%zu},",
              name, slice, name, s->form->slices);
    if (s->form->network)
        sbuf_addz(&json, "\"nodeSelector\":{\"nodeSelectorTerms\":[{\"matchExpressions\":[{\"key\":"
                         "\"schedbench\",\"operator\":\"In\",\"values\":[\"true\"]}]}]},");
    else
        sbuf_addf(&json, "\"nodeName\":\"%s\",", name);
    s->form->write(&json, s, node, slice);
    sbuf_addz(&json, "}}");
    bench_sched_create_object(b, sbuf_str(&json));
}

// How many claims made beforehand a node has room for.
static size_t units_of(const struct sched_bench *s)
{
    return s->form->fill == 1 ? s->gpus : 1;
}

// What such a claim holds: a device, or the last ones of a node.
static void add_results(struct sbuf *out, const struct sched_bench *s, const char *node,
                        size_t unit)
{
    if (s->form->fill == 1)
        sbuf_addf(out,
                  "{\"request\":\"gpu\",\"driver\":\"" DRIVER "\",\"pool\":\"%s\",\"device\":"
                  "\"gpu-%zu\"}",
                  node, unit);
    for (size_t i = s->gpus - s->form->fill + 1; s->form->fill > 1 && i <= s->gpus; i++)
        sbuf_addf(out,
                  "%s{\"request\":\"r\",\"driver\":\"" DRIVER "\",\"pool\":\"%s\",\"device\":"
                  "\"device-%zu\"}",
                  out->n ? "," : "", node, i);
}

static void on_prefilled(void *arg, const struct client_answer *a)
{
    struct chain *c = arg;
    struct sched_bench *s = c->bench;
    if (a->code < 0 || c->step++ > 0) {
        chain_end(c, a->code, a->err);
        return;
    }
    size_t units = units_of(s);
    size_t node = s->fill.p[c->i] / units, unit = s->fill.p[c->i] % units;
    char name[64];
    node_name(name, sizeof(name), node);
    cleanup_sbuf struct sbuf results = {0};
    add_results(&results, s, name, unit);
    struct str body = arena_strf(
        &c->arena,
        "{\"status\":{\"allocation\":{\"devices\":{\"results\":[%s]},\"nodeSelector\":{"
        "\"nodeSelectorTerms\":[{\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\","
        "\"values\":[\"%s\"]}]}]}}}}",
        results.p, name);
    client_patch(s->bench.client, &c->key, CLIENT_PATCH_MERGE, body,
                 &(struct client_write){.subresource = STR("status")}, on_prefilled, c);
}

static void make_prefill(struct bench *b, size_t i, void *arg)
{
    struct sched_bench *s = arg;
    struct chain *c = chain_new(s, i);
    c->key = (struct client_key){bench_kind("resource.k8s.io/v1", "ResourceClaim"),
                                 str_z(s->namespace), arena_strf(&c->arena, "prefill-%06zu", i)};
    struct api_object o = bench_decode(
        &c->arena, arena_strf(&c->arena,
                              "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceClaim\","
                              "\"metadata\":{\"name\":\"%.*s\",\"namespace\":\"%s\"},"
                              "\"spec\":%s}",
                              STR_ARG(c->key.name), s->namespace,
                              s->form->fill == 1 ? bench_form_find("one")->claim : s->form->claim));
    client_create(b->client, &o, NULL, on_prefilled, c);
}

// --- Pods ----------------------------------------------------------------------------------------

static bool bench_sched_compare_groups(const struct sched_bench *s)
{
    return s->form->uses == USES_GROUP || s->form->uses == USES_GROUP_TEMPLATE;
}

// The entry that a group and its pods have in common.
static void add_group_claim(struct sbuf *json, const struct sched_bench *s, size_t group)
{
    if (s->form->uses == USES_GROUP)
        sbuf_addf(
            json,
            "\"resourceClaims\":[{\"name\":\"gpu\",\"resourceClaimName\":\"sb-claim-%06zu\"}],",
            group);
    else
        sbuf_addf(json,
                  "\"resourceClaims\":[{\"name\":\"gpu\",\"resourceClaimTemplateName\":"
                  "\"schedbench-%s\"}],",
                  s->variant);
}

static void bench_sched_make_group(struct bench *b, size_t i, void *arg)
{
    const struct sched_bench *s = arg;
    cleanup_sbuf struct sbuf json = {0};
    sbuf_addf(&json,
              "{\"apiVersion\":\"scheduling.k8s.io/v1beta1\",\"kind\":\"PodGroup\",\"metadata\":{"
              "\"name\":\"sb-group-%06zu\",\"namespace\":\"%s\"},\"spec\":{",
              i, s->namespace);
    add_group_claim(&json, s, i);
    sbuf_addz(&json, "\"schedulingPolicy\":{\"basic\":{}}}}");
    bench_sched_create_object(b, sbuf_str(&json));
}

static void add_pod_claims(struct sbuf *json, const struct sched_bench *s, size_t kind)
{
    if (bench_sched_compare_groups(s)) {
        add_group_claim(json, s, kind);
        sbuf_addf(json, "\"schedulingGroup\":{\"podGroupName\":\"sb-group-%06zu\"},", kind);
    } else if (s->form->uses == USES_TEMPLATE)
        sbuf_addf(json,
                  "\"resourceClaims\":[{\"name\":\"gpu\",\"resourceClaimTemplateName\":"
                  "\"schedbench-%s\"}],",
                  s->variant);
    else if (s->form->uses == USES_SHARED)
        sbuf_addf(json,
                  "\"resourceClaims\":[{\"name\":\"gpu\",\"resourceClaimName\":"
                  "\"sb-claim-%06zu\"}],",
                  kind);
}

// The name of the extended resource of a class; empty when pods use none.
static void resource_name(char *out, size_t cap, const struct sched_bench *s, size_t class)
{
    *out = 0;
    if (s->form->uses == USES_SAME)
        (void)snprintf(out, cap, "example.com/gpu");
    else if (s->form->uses == USES_EXPLICIT)
        (void)snprintf(out, cap, "example.com/gpu-%zu", class);
    else if (s->form->uses == USES_IMPLICIT)
        (void)snprintf(out, cap, "deviceclass.resource.kubernetes.io/sb-class-%zu", class);
}

static struct api_object pod_form(struct sched_bench *s, size_t kind)
{
    cleanup_sbuf struct sbuf json = {0};
    char resource[96];
    bool claims = s->form->uses == USES_TEMPLATE || s->form->uses == USES_SHARED ||
                  bench_sched_compare_groups(s);
    resource_name(resource, sizeof(resource), s, kind);
    sbuf_addf(&json,
              "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"x\",\"namespace\":"
              "\"%s\",\"labels\":{\"app\":\"schedbench\"}},\"spec\":{"
              "\"automountServiceAccountToken\":false,\"terminationGracePeriodSeconds\":0,",
              s->namespace);
    if (s->scheduler_name)
        sbuf_addf(&json, "\"schedulerName\":\"%s\",", s->scheduler_name);
    add_pod_claims(&json, s, kind);
    sbuf_addf(&json,
              "\"containers\":[{\"name\":\"c\",\"image\":\"pause\",\"resources\":{%s\"requests\":{"
              "\"cpu\":\"100m\",\"memory\":\"64Mi\"",
              claims ? "\"claims\":[{\"name\":\"gpu\"}]," : "");
    if (*resource)
        sbuf_addf(&json, ",\"%s\":\"1\"},\"limits\":{\"%s\":\"1\"", resource, resource);
    sbuf_addz(&json, "}}}]}}");
    return bench_decode(&s->arena, sbuf_str(&json));
}

static bool by_class(const struct sched_bench *s)
{
    return s->form->uses == USES_EXPLICIT || s->form->uses == USES_IMPLICIT ||
           s->form->uses == USES_SAME;
}

static size_t shared_claims(const struct sched_bench *s)
{
    if (s->form->uses == USES_GROUP)
        return s->classes;
    return s->form->uses == USES_SHARED ? (s->init_pods + s->pods + PODS_A_CLAIM - 1) / PODS_A_CLAIM
                                        : 0;
}

static void make_pod_forms(struct sched_bench *s)
{
    size_t n = by_class(s) || bench_sched_compare_groups(s) ? s->classes : shared_claims(s);
    for (size_t i = 0; i == 0 || i < n; i++)
        vec_push(&s->pods_of, pod_form(s, i));
}

struct api_pod bench_sched_make_pod(const struct sched_bench *s, size_t i, char name[32])
{
    size_t number = s->first + i;
    size_t kind = s->form->uses == USES_SHARED ? number / PODS_A_CLAIM : number;
    struct api_pod pod = *(const struct api_pod *)s->pods_of.p[kind % s->pods_of.n].value;
    (void)snprintf(name, 32, "sb-pod-%06zu", number);
    pod.metadata.name = str_z(name);
    return pod;
}

// The service account controller, where there is one, makes "default" some time after its
// namespace.
static int wait_for_account(struct sched_bench *s);

struct trial {
    struct sched_bench *bench;
    bool again;
};

static void on_tried(void *arg, const struct client_answer *a)
{
    struct trial *t = arg;
    t->again = a->err && strstr(a->err->msg, "serviceaccount") != NULL;
    bench_finished(&t->bench->bench, t->again ? 0 : a->code, a->err);
}

static void bench_sched_try_pod(struct bench *b, size_t i, void *arg)
{
    (void)i;
    struct trial *t = arg;
    char name[32];
    struct api_pod pod = bench_sched_make_pod(t->bench, 999999, name);
    pod.spec.resource_claims.n = 0;
    struct api_container container = pod.spec.containers.p[0];
    container.resources.claims.n = 0;
    pod.spec.containers.p = &container;
    pod.spec.scheduler_name = STR("none");
    client_create(b->client, &(struct api_object){t->bench->pods_of.p[0].kind, &pod},
                  &(struct client_write){.dry_run = true}, on_tried, t);
}

static int wait_for_account(struct sched_bench *s)
{
    for (size_t tries = 0;; tries++) {
        struct trial t = {.bench = s};
        int r = bench_each(&s->bench, 1, 1, bench_sched_try_pod, &t);
        if (r < 0 || !t.again)
            return r;
        if (tries > 300)
            return err_set(&s->bench.err, ERR_TIMEOUT,
                           "the namespace's default service account does not come");
        bench_sleep(&s->bench, WIPE_PAUSE_NS);
    }
}

// --- All of it -----------------------------------------------------------------------------------

// choose_fill selects which devices are allocated beforehand: all of some nodes, the first of each,
// any (the same in every run).
static void choose_fill(struct sched_bench *s)
{
    struct bench_devices any = {0};
    size_t units = units_of(s);
    for (size_t i = 0; s->form->fill && i < s->nodes * units; i++) {
        if (i / units < s->prefill_full_nodes || i % units < s->prefill_per_node)
            vec_push(&s->fill, i);
        else
            vec_push(&any, i);
    }
    struct rng_seeded rng;
    rng_seeded_init(&rng, 1);
    for (size_t n = 0; n < s->prefill && any.n > 0; n++) {
        size_t at = (size_t)rng_below(&rng.rng, any.n);
        vec_push(&s->fill, any.p[at]);
        any.p[at] = any.p[--any.n];
    }
    vec_done(&any);
}

static void bench_sched_make_class(struct bench *b, size_t i, void *arg)
{
    const struct sched_bench *s = arg;
    cleanup_sbuf struct sbuf json = {0};
    char resource[96];
    resource_name(resource, sizeof(resource), s, i);
    sbuf_addf(&json,
              "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"DeviceClass\",\"metadata\":{"
              "\"name\":\"sb-class-%zu\"},\"spec\":{\"selectors\":[{\"cel\":{\"expression\":"
              "\"device.driver == \\\"" DRIVER "\\\"\"}}]",
              i);
    if (s->form->uses != USES_IMPLICIT)
        sbuf_addf(&json, ",\"extendedResourceName\":\"%s\"", resource);
    sbuf_addz(&json, "}}");
    bench_sched_create_object(b, sbuf_str(&json));
}

static void make_shared(struct bench *b, size_t i, void *arg)
{
    const struct sched_bench *s = arg;
    cleanup_sbuf struct sbuf json = {0};
    sbuf_addf(&json,
              "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceClaim\",\"metadata\":{"
              "\"name\":\"sb-claim-%06zu\",\"namespace\":\"%s\"},\"spec\":%s}",
              i, s->namespace, s->form->claim);
    bench_sched_create_object(b, sbuf_str(&json));
}

static int make_template(struct sched_bench *s)
{
    cleanup_sbuf struct sbuf json = {0};
    sbuf_addf(&json,
              "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceClaimTemplate\","
              "\"metadata\":{\"name\":\"schedbench-%s\",\"namespace\":\"%s\"},\"spec\":{"
              "\"spec\":%s}}",
              s->variant, s->namespace, s->form->claim);
    return make_one(&s->bench, sbuf_str(&json));
}

static int bench_sched_make_claims(struct sched_bench *s)
{
    struct bench *b = &s->bench;
    size_t holders = s->form->network ? s->classes : s->nodes;
    int r = bench_each(b, holders * s->form->slices, SETUP_AT_A_TIME, bench_sched_make_slice, s);
    if (r == 0 && s->form->tainted)
        r = make_one(b, STR("{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"DeviceTaintRule\","
                            "\"metadata\":{\"name\":\"sb-taint\"},\"spec\":{\"deviceSelector\":{"
                            "\"driver\":\"" DRIVER "\"},\"taint\":{\"key\":\"example.com/taint\","
                            "\"effect\":\"NoSchedule\"}}}"));
    if (r == 0 && by_class(s))
        r = bench_each(b, s->classes, SETUP_AT_A_TIME, bench_sched_make_class, s);
    if (r == 0 && (s->form->uses == USES_TEMPLATE || s->form->uses == USES_GROUP_TEMPLATE))
        r = make_template(s);
    if (r == 0)
        r = bench_each(b, shared_claims(s), SETUP_AT_A_TIME, make_shared, s);
    if (r == 0 && bench_sched_compare_groups(s))
        r = bench_each(b, s->classes, SETUP_AT_A_TIME, bench_sched_make_group, s);
    if (r < 0)
        return r;
    choose_fill(s);
    return bench_each(b, s->fill.n, SETUP_AT_A_TIME, make_prefill, s);
}

int bench_sched_setup(struct sched_bench *s, const char **ret_what)
{
    struct bench *b = &s->bench;
    cleanup_sbuf struct sbuf namespace = {0};
    sbuf_addf(&namespace,
              "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"%s\"}}",
              s->namespace);
    make_pod_forms(s);
    *ret_what = "the namespace";
    int r = make_one(b, sbuf_str(&namespace));
    if (r == 0) {
        *ret_what = "what an earlier run left";
        r = bench_sched_wipe(s);
    }
    if (r == 0) {
        *ret_what = "the service account";
        r = wait_for_account(s);
    }
    if (r == 0) {
        *ret_what = "the device class";
        r = make_one(b,
                     STR("{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"DeviceClass\","
                         "\"metadata\":{\"name\":\"" DRIVER "\"},\"spec\":{\"selectors\":[{"
                         "\"cel\":{\"expression\":\"device.driver == \\\"" DRIVER "\\\"\"}}]}}"));
    }
    if (r == 0) {
        *ret_what = "the nodes";
        r = bench_each(b, s->nodes + s->plain_nodes, SETUP_AT_A_TIME, bench_sched_make_node, s);
    }
    if (r == 0 && s->form->uses != USES_NOTHING) {
        *ret_what = "slices and claims";
        r = bench_sched_make_claims(s);
    }
    return r;
}

// --- Removing ------------------------------------------------------------------------------------

static void on_removed(void *arg, const struct client_answer *a)
{
    bench_finished(arg, a->code == -ERR_NOT_FOUND ? 0 : a->code, a->err);
}

static const struct api_delete_options at_once = {.has_grace_period_seconds = true};

static void bench_sched_remove_object(struct bench *b, size_t i, void *arg)
{
    const struct bench_objects *all = arg;
    const struct typed_object *o = all->p[i];
    const struct client_key key = {o->object.kind, o->meta->namespace, o->meta->name};
    client_delete(b->client, &key, &at_once, on_removed, b);
}

static int remove_all(struct sched_bench *s, const char *version, const char *kind,
                      const char *prefix, struct str namespace)
{
    struct bench_objects all = {0};
    int r = bench_list(&s->bench, bench_kind(version, kind), namespace, &all);
    size_t n = 0;
    for (size_t i = 0; i < all.n; i++) {
        if (str_starts(all.p[i]->meta->name, str_z(prefix)))
            all.p[n++] = all.p[i];
        else
            typed_object_unref(all.p[i]);
    }
    all.n = n;
    if (r == 0)
        r = bench_each(&s->bench, all.n, SETUP_AT_A_TIME, bench_sched_remove_object, &all);
    bench_objects_done(&all);
    return r;
}

// A claim is first taken from its holders, then freed of finalizers, then deleted. Somebody else
// may be faster with any of it.
static void on_claim(void *arg, const struct client_answer *a)
{
    struct chain *c = arg;
    struct client *client = c->bench->bench.client;
    if (a->code == -ERR_NOT_FOUND)
        c->step = 3;
    switch (c->step++) {
    case 0:
        client_patch(
            client, &c->key, CLIENT_PATCH_MERGE,
            STR("{\"status\":{\"allocation\":null,\"reservedFor\":null,\"devices\":null}}"),
            &(struct client_write){.subresource = STR("status")}, on_claim, c);
        break;
    case 1:
        client_patch(client, &c->key, CLIENT_PATCH_MERGE,
                     STR("{\"metadata\":{\"finalizers\":null}}"), NULL, on_claim, c);
        break;
    case 2:
        client_delete(client, &c->key, &at_once, on_claim, c);
        break;
    default:
        chain_end(c, 0, NULL);
    }
}

struct claims {
    struct sched_bench *bench;
    struct bench_objects all;
};

static void remove_claim(struct bench *b, size_t i, void *arg)
{
    (void)b;
    struct claims *all = arg;
    const struct typed_object *o = all->all.p[i];
    struct chain *c = chain_new(all->bench, i);
    c->key = (struct client_key){o->object.kind, arena_str(&c->arena, o->meta->namespace),
                                 arena_str(&c->arena, o->meta->name)};
    const struct api_resource_claim *claim = o->object.value;
    if (!claim->status.allocation && claim->status.reserved_for.n == 0)
        c->step = o->meta->finalizers.n ? 1 : 2;
    on_claim(c, &(struct client_answer){0});
}

static int remove_claims(struct sched_bench *s)
{
    for (size_t round = 0; round < WIPE_ROUNDS; round++) {
        struct claims all = {.bench = s};
        int r = bench_list(&s->bench, bench_kind("resource.k8s.io/v1", "ResourceClaim"),
                           str_z(s->namespace), &all.all);
        size_t left = all.all.n;
        if (r == 0)
            (void)bench_each(&s->bench, left, SETUP_AT_A_TIME, remove_claim, &all);
        bench_objects_done(&all.all);
        if (r < 0 || left == 0)
            return r;
        bench_sleep(&s->bench, WIPE_PAUSE_NS);
    }
    return err_set(&s->bench.err, ERR_TIMEOUT, "somebody keeps the claims in namespace %s",
                   s->namespace);
}

int bench_sched_wipe(struct sched_bench *s)
{
    int r = remove_all(s, "v1", "Pod", "", str_z(s->namespace));
    if (r == 0 && bench_sched_compare_groups(s))
        r = remove_all(s, "scheduling.k8s.io/v1beta1", "PodGroup", "sb-group-",
                       str_z(s->namespace));
    if (r == 0)
        r = remove_claims(s);
    if (r == 0)
        r = remove_all(s, "resource.k8s.io/v1", "ResourceSlice", "sb-node-", (struct str){0});
    if (r == 0)
        r = remove_all(s, "v1", "Node", "sb-node-", (struct str){0});
    if (r == 0)
        r = remove_all(s, "resource.k8s.io/v1", "ResourceClaimTemplate", "schedbench-",
                       str_z(s->namespace));
    if (r == 0 && by_class(s))
        r = remove_all(s, "resource.k8s.io/v1", "DeviceClass", "sb-class-", (struct str){0});
    if (r == 0 && s->form->tainted)
        r = remove_all(s, "resource.k8s.io/v1", "DeviceTaintRule", "sb-taint", (struct str){0});
    return r;
}

// --- Checking ------------------------------------------------------------------------------------

struct devices MAP(size_t);

struct check {
    const struct sched_bench *bench;
    const struct str *on;
    size_t on_len;
    struct devices devices;
    struct arena arena;
    size_t bad, allocated;
};

// number_behind reads the number behind a prefix; SIZE_MAX when there is none.
static size_t number_behind(struct str s, const char *prefix)
{
    uint64_t v = 0;
    if (!str_starts(s, str_z(prefix)))
        return SIZE_MAX;
    return str_to_u64(str_from(s, strlen(prefix)), &v) == 0 ? (size_t)v : SIZE_MAX;
}

static void bench_sched_check_result(struct check *c, const struct api_resource_claim *claim,
                                     const struct api_device_request_allocation_result *r)
{
    struct str key = arena_strf(&c->arena, "%.*s/%.*s/%.*s", STR_ARG(r->driver), STR_ARG(r->pool),
                                STR_ARG(r->device));
    if ((*map_put(&c->devices, key))++ > 0 && !c->bench->form->several)
        c->bad++; // given twice
    c->allocated++;
    for (size_t i = 0; i < claim->status.reserved_for.n; i++) {
        size_t pod =
            number_behind(claim->status.reserved_for.p[i].name, "sb-pod-") - c->bench->first;
        if (pod < c->on_len && c->on[pod].n && !str_eq(c->on[pod], r->pool))
            c->bad++; // the device is elsewhere
    }
}

static void bench_sched_check_claim(struct check *c, const struct typed_object *o)
{
    const struct api_resource_claim *claim = o->object.value;
    if (!claim->status.allocation)
        return;
    const struct api_device_request_allocation_result_array *results =
        &claim->status.allocation->devices.results;
    for (size_t i = 0; i < results->n; i++)
        bench_sched_check_result(c, claim, &results->p[i]);
    if (strcmp(c->bench->variant, "pair") != 0 || str_starts(o->meta->name, STR("prefill-")))
        return;
    size_t half = (c->bench->gpus + 1) / 2;
    if (results->n != 2 || !str_eq(results->p[0].pool, results->p[1].pool) ||
        number_behind(results->p[0].device, "gpu-") / half !=
            number_behind(results->p[1].device, "gpu-") / half)
        c->bad++; // not on one root
}

bool bench_sched_verify(struct sched_bench *s, const struct str *on, size_t n, struct sbuf *out)
{
    struct bench_objects all = {0};
    struct check c = {.bench = s, .on = on, .on_len = n};
    if (bench_list(&s->bench, bench_kind("resource.k8s.io/v1", "ResourceClaim"),
                   str_z(s->namespace), &all) < 0) {
        sbuf_addf(out, "cannot list the claims: %s", s->bench.err.msg);
        bench_objects_done(&all);
        return false;
    }
    for (size_t i = 0; i < all.n; i++)
        bench_sched_check_claim(&c, all.p[i]);
    if (c.bad)
        sbuf_addf(out, "BAD %zu violations, %zu devices allocated", c.bad, c.allocated);
    else
        sbuf_addf(out, "ok, %zu devices allocated", c.allocated);
    bench_objects_done(&all);
    map_done(&c.devices);
    arena_done(&c.arena);
    return c.bad == 0;
}
