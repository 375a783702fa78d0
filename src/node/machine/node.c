// SPDX-License-Identifier: Apache-2.0
//
// Registers the Node object, patches its status when it changed or the heartbeat is due, and renews
// its Lease, with kubelet's intervals and texts.
#include "node/machine/node.h"

#include <stdlib.h>

#include "api/amounts.h"
#include "base/list.h"
#include "base/mem.h"
#include "client/informer.h"
#include "codec/json_writer.h"

#include "base/banned.h"

#define LEASE_NAMESPACE "kube-node-lease"
#define LEASE_SECONDS   40

struct node {
    struct node_options options;
    struct node_machine machine;
    struct arena arena;
    struct informer *informer;
    struct list calls;
    struct exec_timer lease, look;
    bool creating, patching, leasing;
    bool again; // check once more after the pending patch
    bool registered;
    int64_t written_ns; // the last status, monotonic
};

struct node_call {
    struct list_node node;
    struct node *owner;
};

static struct node_call *node_call_new(struct node *n)
{
    struct node_call *c = xcalloc(1, sizeof(*c));
    c->owner = n;
    list_push_back(&n->calls, &c->node);
    return c;
}

static struct node *node_call_take(void *arg)
{
    struct node_call *c = arg;
    struct node *n = list_linked(&c->node) ? c->owner : NULL;
    list_remove(&c->node);
    free(c);
    return n;
}

const struct typed_object *node_object(const struct node *n)
{
    return informer_get(n->informer, STR(""), n->options.name);
}

// --- JSON ----------------------------------------------------------------------------------------

static void node_write_amount(struct json_writer *w, const char *key, int64_t value)
{
    char number[24];
    (void)snprintf(number, sizeof(number), "%lld", (long long)value);
    json_write_text(w, key, str_z(number));
}

static void node_write_kibibytes(struct json_writer *w, const char *key, int64_t bytes)
{
    char number[24];
    (void)snprintf(number, sizeof(number), "%lldKi", (long long)(bytes / 1024));
    json_write_text(w, key, str_z(number));
}

static void node_write_amounts(const struct node *n, struct json_writer *w, bool allocatable)
{
    const struct node_machine *m = &n->machine;
    int64_t memory = m->memory_bytes, disk = m->disk_bytes;
    if (allocatable && memory > 2 * n->options.memory_reserved)
        memory -= n->options.memory_reserved;
    if (allocatable && disk > n->options.disk_reserved)
        disk -= n->options.disk_reserved;
    json_write_object_begin(w);
    node_write_amount(w, "cpu", m->cpus);
    node_write_kibibytes(w, "memory", memory);
    node_write_kibibytes(w, "ephemeral-storage", disk);
    node_write_amount(w, "pods", n->options.pods_max);
    bool reset = n->options.extended_is_new && n->written_ns == 0 && node_object(n);
    node_extended_write(&n->options, reset ? node_object(n)->object.value : NULL, allocatable, w);
    json_write_object_end(w);
}

static void node_write_addresses(const struct node *n, struct json_writer *w)
{
    struct str rest = n->machine.addresses, one;
    json_write_array_in(w, "addresses");
    // Addresses are merged by type on the server: several of one type need the whole list.
    json_write_object_begin(w);
    json_write_text(w, "$patch", STR("replace"));
    json_write_object_end(w);
    while (rest.n > 0) {
        (void)str_cut(rest, ',', &one, &rest);
        json_write_object_begin(w);
        json_write_text(w, "type", STR("InternalIP"));
        json_write_text(w, "address", one);
        json_write_object_end(w);
    }
    json_write_object_begin(w);
    json_write_text(w, "type", STR("Hostname"));
    json_write_text(w, "address", n->machine.hostname.n ? n->machine.hostname : n->options.name);
    json_write_object_end(w);
    json_write_array_end(w);
}

static void node_write_info(const struct node *n, struct json_writer *w)
{
    const struct node_machine *m = &n->machine;
    json_write_object_in(w, "nodeInfo");
    json_write_text(w, "machineID", m->machine_id);
    json_write_text(w, "systemUUID", m->system_uuid);
    json_write_text(w, "bootID", m->boot_id);
    json_write_text(w, "kernelVersion", m->kernel);
    json_write_text(w, "osImage", m->os_image);
    json_write_text(w, "containerRuntimeVersion", n->options.runtime_version);
    json_write_text(w, "kubeletVersion", STR("v1.37.1+dray"));
    json_write_text(w, "kubeProxyVersion", STR(""));
    json_write_text(w, "operatingSystem", STR("linux"));
    json_write_text(w, "architecture", m->architecture);
    json_write_object_end(w);
}

// --- Conditions ----------------------------------------------------------------------------------

struct condition {
    const char *type, *status, *reason;
    struct str message;
};

enum { CONDITIONS = 4 };

static void node_observe(const struct node *n, struct sbuf *why, struct condition *c)
{
    struct eviction_conditions p = {0};
    if (n->options.pressure)
        n->options.pressure(n->options.arg, &p);
    bool sick = n->options.not_ready && n->options.not_ready(n->options.arg, why);
    c[0] =
        (struct condition){"MemoryPressure", p.memory ? "True" : "False",
                           p.memory ? "KubeletHasInsufficientMemory" : "KubeletHasSufficientMemory",
                           p.memory ? STR("kubelet has insufficient memory available")
                                    : STR("kubelet has sufficient memory available")};
    c[1] = (struct condition){"DiskPressure", p.disk ? "True" : "False",
                              p.disk ? "KubeletHasDiskPressure" : "KubeletHasNoDiskPressure",
                              p.disk ? STR("kubelet has disk pressure")
                                     : STR("kubelet has no disk pressure")};
    c[2] = (struct condition){"PIDPressure", p.pids ? "True" : "False",
                              p.pids ? "KubeletHasInsufficientPID" : "KubeletHasSufficientPID",
                              p.pids ? STR("kubelet has insufficient PID available")
                                     : STR("kubelet has sufficient PID available")};
    c[3] = (struct condition){"Ready", sick ? "False" : "True",
                              sick ? "KubeletNotReady" : "KubeletReady",
                              sick ? sbuf_str(why) : STR("kubelet is posting ready status")};
}

static const struct api_node_condition *node_condition_of(const struct api_node *node,
                                                          const char *type)
{
    for (size_t i = 0; node && i < node->status.conditions.n; i++)
        if (str_eqz(node->status.conditions.p[i].type, type))
            return &node->status.conditions.p[i];
    return NULL;
}

static void node_write_time(struct json_writer *w, const char *key, const struct api_time *t)
{
    cleanup_sbuf struct sbuf out = {0};
    rfc3339_write_seconds(t->at, &out);
    json_write_text(w, key, sbuf_str(&out));
}

static void node_write_conditions(const struct node *n, const struct condition *all,
                                  struct json_writer *w)
{
    const struct typed_object *o = node_object(n);
    struct api_time now = {.at = {.sec = exec_wall_ns(n->options.exec) / CLOCK_NS_PER_SEC},
                           .set = true};
    json_write_array_in(w, "conditions");
    for (size_t i = 0; i < CONDITIONS; i++) {
        const struct api_node_condition *old =
            node_condition_of(o ? o->object.value : NULL, all[i].type);
        bool same = old && str_eqz(old->status, all[i].status) && old->last_transition_time.set;
        json_write_object_begin(w);
        json_write_text(w, "type", str_z(all[i].type));
        json_write_text(w, "status", str_z(all[i].status));
        node_write_time(w, "lastHeartbeatTime", &now);
        node_write_time(w, "lastTransitionTime", same ? &old->last_transition_time : &now);
        json_write_text(w, "reason", str_z(all[i].reason));
        json_write_text(w, "message", all[i].message);
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

// --- Status --------------------------------------------------------------------------------------

static void node_write_status(const struct node *n, const struct condition *conditions,
                              struct json_writer *w)
{
    static const char *const features[] = {
        "DRANodeAllocatableResources", "DRAOptionalNodeOperations", "ExtendWebSocketsToKubelet"};
    json_write_object_begin(w);
    json_write_key(w, STR("capacity"));
    node_write_amounts(n, w, false);
    json_write_key(w, STR("allocatable"));
    node_write_amounts(n, w, true);
    node_write_conditions(n, conditions, w);
    node_write_addresses(n, w);
    if (n->options.port) {
        json_write_object_in(w, "daemonEndpoints");
        json_write_object_in(w, "kubeletEndpoint");
        json_write_number(w, "Port", n->options.port);
        json_write_object_end(w);
        json_write_object_end(w);
    }
    node_write_info(n, w);
    node_handlers_write(&n->options, w);
    json_write_object_in(w, "features");
    json_write_flag(w, "supplementalGroupsPolicy", true);
    json_write_object_end(w);
    if (n->options.has_health) {
        json_write_array_in(w, "declaredFeatures");
        for (size_t i = 0; i < array_len(features); i++)
            json_write_str(w, str_z(features[i]));
        json_write_array_end(w);
    }
    json_write_object_end(w);
}

// Whether the API's object has the same status, times aside.
static bool node_status_is_current(const struct node *n, const struct api_node *node,
                                   const struct condition *conditions)
{
    const struct quantity *cpu = amounts_get(&node->status.allocatable, STR("cpu"));
    const struct quantity *memory = amounts_get(&node->status.capacity, STR("memory"));
    for (size_t i = 0; i < CONDITIONS; i++) {
        const struct api_node_condition *c = node_condition_of(node, conditions[i].type);
        if (!c || !str_eqz(c->status, conditions[i].status) ||
            !str_eqz(c->reason, conditions[i].reason) || !str_eq(c->message, conditions[i].message))
            return false;
    }
    return cpu && quantity_value(cpu) == n->machine.cpus && memory &&
           quantity_value(memory) / 1024 == n->machine.memory_bytes / 1024 &&
           node_extended_is_current(&n->options, node) &&
           str_eq(node->status.node_info.boot_id, n->machine.boot_id) &&
           str_eq(node->status.node_info.container_runtime_version, n->options.runtime_version) &&
           node->status.daemon_endpoints.kubelet_endpoint.port == (int32_t)n->options.port;
}

static void node_on_status(void *arg, const struct client_answer *a)
{
    struct node *n = node_call_take(arg);
    if (!n)
        return;
    n->patching = false;
    if (a->code == 0)
        n->written_ns = exec_now_ns(n->options.exec);
    bool again = n->again;
    n->again = false;
    if (again) // something changed meanwhile
        node_check(n);
}

static void node_report_reboot(struct node *n, const struct typed_object *o)
{
    const struct api_node *node = o->object.value;
    struct str old = node->status.node_info.boot_id;
    if (n->options.events && old.n && !str_eq(old, n->machine.boot_id))
        events_record(n->options.events, o, EVENT_WARNING, STR("Rebooted"),
                      arena_strf(&n->arena, "Node %.*s has been rebooted, boot id: %.*s",
                                 STR_ARG(n->options.name), STR_ARG(n->machine.boot_id)));
}

static void node_write_if_changed(struct node *n)
{
    const struct typed_object *o = node_object(n);
    struct condition conditions[CONDITIONS];
    cleanup_sbuf struct sbuf why = {0}, body = {0};
    n->again |= n->patching;
    if (!o || n->patching || n->creating)
        return;
    node_observe(n, &why, conditions);
    int64_t age = exec_now_ns(n->options.exec) - n->written_ns;
    if (n->written_ns && age < n->options.times.heartbeat_ns &&
        node_status_is_current(n, o->object.value, conditions))
        return;
    node_report_reboot(n, o);
    struct json_writer w = {.out = &body};
    json_write_object_begin(&w);
    json_write_key(&w, STR("status"));
    node_write_status(n, conditions, &w);
    json_write_object_end(&w);
    const struct client_key at = {o->object.kind, STR(""), n->options.name};
    const struct client_write how = {.subresource = STR("status")};
    n->patching = true;
    client_patch(n->options.client, &at, CLIENT_PATCH_STRATEGIC, sbuf_str(&body), &how,
                 node_on_status, node_call_new(n));
}

// --- Registration --------------------------------------------------------------------------------

static void node_write_labels(const struct node *n, struct json_writer *w)
{
    const struct {
        const char *key;
        struct str value;
    } usual[] = {{"beta.kubernetes.io/arch", n->machine.architecture},
                 {"beta.kubernetes.io/os", STR("linux")},
                 {"kubernetes.io/arch", n->machine.architecture},
                 {"kubernetes.io/hostname", n->options.name},
                 {"kubernetes.io/os", STR("linux")}};
    struct str rest = n->options.labels, one, key, value;
    json_write_object_in(w, "labels");
    for (size_t i = 0; i < array_len(usual); i++)
        json_write_text(w, usual[i].key, usual[i].value);
    while (rest.n > 0) {
        (void)str_cut(rest, ',', &one, &rest);
        (void)str_cut(one, '=', &key, &value);
        json_write_key(w, key);
        json_write_str(w, value);
    }
    json_write_object_end(w);
}

// "key=value:Effect,key:Effect"
static void node_write_taints(const struct node *n, struct json_writer *w)
{
    struct str rest = n->options.taints, one, left, effect, key, value;
    if (rest.n == 0)
        return;
    json_write_object_in(w, "spec");
    json_write_array_in(w, "taints");
    while (rest.n > 0) {
        (void)str_cut(rest, ',', &one, &rest);
        (void)str_cut(one, ':', &left, &effect);
        (void)str_cut(left, '=', &key, &value);
        json_write_object_begin(w);
        json_write_text(w, "key", key);
        json_write_text(w, "value", value);
        json_write_text(w, "effect", effect);
        json_write_object_end(w);
    }
    json_write_array_end(w);
    json_write_object_end(w);
}

static void node_on_created(void *arg, const struct client_answer *a)
{
    struct node *n = node_call_take(arg);
    (void)a; // a failure is retried at the next check
    if (n)
        n->creating = false;
}

static const struct api_kind *node_kind(void)
{
    return api_kind_find(STR("v1"), STR("Node"));
}

// The object is made of its JSON, so that status and labels are written in one place each.
static void node_create(struct node *n)
{
    struct condition conditions[CONDITIONS];
    cleanup_sbuf struct sbuf body = {0}, why = {0};
    cleanup_arena struct arena arena = {0};
    cleanup_json_doc struct json_doc doc = {0};
    struct api_object o;
    struct err err = {0};
    struct json_writer w = {.out = &body};
    node_observe(n, &why, conditions);
    json_write_object_begin(&w);
    json_write_object_in(&w, "metadata");
    json_write_text(&w, "name", n->options.name);
    node_write_labels(n, &w);
    json_write_object_end(&w);
    node_write_taints(n, &w);
    json_write_object_end(&w);
    if (json_parse(sbuf_str(&body), NULL, &doc, &err) < 0 ||
        api_decode_as(node_kind(), &doc, doc.root, &arena, NULL, &o, &err) < 0)
        return;
    n->creating = true;
    client_create(n->options.client, &o, NULL, node_on_created, node_call_new(n));
}

static void node_on_labelled(void *arg, const struct client_answer *a)
{
    (void)a;
    (void)node_call_take(arg);
}

static void node_update_labels(struct node *n)
{
    cleanup_sbuf struct sbuf body = {0};
    struct json_writer w = {.out = &body};
    json_write_object_begin(&w);
    json_write_object_in(&w, "metadata");
    node_write_labels(n, &w);
    json_write_object_end(&w);
    json_write_object_end(&w);
    const struct client_key at = {node_kind(), STR(""), n->options.name};
    client_patch(n->options.client, &at, CLIENT_PATCH_STRATEGIC, sbuf_str(&body), NULL,
                 node_on_labelled, node_call_new(n));
}

void node_check(struct node *n)
{
    if (!informer_synced(n->informer))
        return;
    if (!node_object(n)) {
        if (!n->creating)
            node_create(n);
        return;
    }
    if (!n->registered) {
        n->registered = true;
        exec_timer_start(n->options.exec, &n->lease, 0);
        node_update_labels(n);
        if (n->options.events)
            events_record(n->options.events, node_object(n), EVENT_NORMAL, STR("Starting"),
                          STR("Starting kubelet."));
        if (n->options.registered)
            n->options.registered(n->options.arg);
    }
    node_write_if_changed(n);
}

static void node_on_update_timer(void *arg)
{
    struct node *n = arg;
    exec_timer_start(n->options.exec, &n->look, n->options.times.look_ns);
    node_check(n);
}

static void node_on_changed(void *arg, const struct typed_object *before,
                            const struct typed_object *after)
{
    struct node *n = arg;
    (void)before;
    if (!after)
        n->registered = false; // deleted: it is created again
    exec_timer_start(n->options.exec, &n->look, 0);
    if (after && n->options.changed)
        n->options.changed(n->options.arg);
}

static void node_on_synced(void *arg)
{
    struct node *n = arg;
    exec_timer_start(n->options.exec, &n->look, 0);
}

// --- Lease ---------------------------------------------------------------------------------------

static const struct api_kind *node_lease_kind(void)
{
    return api_kind_find(STR("coordination.k8s.io/v1"), STR("Lease"));
}

static struct api_time node_micro_now(const struct node *n)
{
    return (struct api_time){.at = moment_from_ns(exec_wall_ns(n->options.exec)), .set = true};
}

static void node_create_lease(struct node *n);

static void node_on_lease_renewed(void *arg, const struct client_answer *a)
{
    struct node *n = node_call_take(arg);
    if (!n)
        return;
    n->leasing = false;
    if (a->code == -ERR_NOT_FOUND)
        node_create_lease(n);
}

static void node_on_lease_created(void *arg, const struct client_answer *a)
{
    struct node *n = node_call_take(arg);
    (void)a;
    if (n)
        n->leasing = false;
}

static void node_on_namespace(void *arg, const struct client_answer *a)
{
    struct node *n = node_call_take(arg);
    (void)a; // it exists, or may not be created: creating the lease shows which
    const struct typed_object *o = n ? node_object(n) : NULL;
    if (!o) {
        if (n)
            n->leasing = false;
        return;
    }
    struct api_owner_reference owner = {.api_version = STR("v1"),
                                        .kind = STR("Node"),
                                        .name = n->options.name,
                                        .uid = o->meta->uid};
    struct api_lease lease = {.metadata = {.name = n->options.name,
                                           .namespace = STR(LEASE_NAMESPACE),
                                           .owner_references = {&owner, 1}},
                              .spec = {.holder_identity = n->options.name,
                                       .has_holder_identity = true,
                                       .lease_duration_seconds = LEASE_SECONDS,
                                       .has_lease_duration_seconds = true,
                                       .renew_time = node_micro_now(n)}};
    const struct api_object object = {node_lease_kind(), &lease};
    client_create(n->options.client, &object, NULL, node_on_lease_created, node_call_new(n));
}

static void node_create_lease(struct node *n)
{
    struct api_namespace space = {.metadata = {.name = STR(LEASE_NAMESPACE)}};
    const struct api_object object = {api_kind_find(STR("v1"), STR("Namespace")), &space};
    n->leasing = true;
    client_create(n->options.client, &object, NULL, node_on_namespace, node_call_new(n));
}

static void node_renew_lease(void *arg)
{
    struct node *n = arg;
    cleanup_sbuf struct sbuf body = {0}, now = {0};
    exec_timer_start(n->options.exec, &n->lease, n->options.times.lease_ns);
    if (n->leasing || !node_object(n))
        return;
    rfc3339_write_micros(node_micro_now(n).at, &now);
    sbuf_addf(&body,
              "{\"spec\":{\"holderIdentity\":\"%.*s\",\"leaseDurationSeconds\":%d,"
              "\"renewTime\":\"%s\"}}",
              STR_ARG(n->options.name), LEASE_SECONDS, now.p);
    const struct client_key at = {node_lease_kind(), STR(LEASE_NAMESPACE), n->options.name};
    n->leasing = true;
    client_patch(n->options.client, &at, CLIENT_PATCH_MERGE, sbuf_str(&body), NULL,
                 node_on_lease_renewed, node_call_new(n));
}

// --- Lifecycle -----------------------------------------------------------------------------------

static int64_t node_default_or(int64_t v, int64_t usual)
{
    return v > 0 ? v : usual;
}

static void node_copy_machine(struct node *n, const struct node_machine *m)
{
    struct arena *a = &n->arena;
    n->machine = *m;
    n->machine.hostname = arena_str(a, m->hostname);
    n->machine.machine_id = arena_str(a, m->machine_id);
    n->machine.system_uuid = arena_str(a, m->system_uuid);
    n->machine.boot_id = arena_str(a, m->boot_id);
    n->machine.kernel = arena_str(a, m->kernel);
    n->machine.os_image = arena_str(a, m->os_image);
    n->machine.architecture = arena_str(a, m->architecture);
    n->machine.addresses = arena_str(a, m->addresses);
}

struct node *node_new(const struct node_options *options)
{
    struct node *n = xcalloc(1, sizeof(*n));
    list_init(&n->calls);
    n->options = *options;
    n->options.name = arena_str(&n->arena, options->name);
    n->options.labels = arena_str(&n->arena, options->labels);
    n->options.taints = arena_str(&n->arena, options->taints);
    n->options.runtime_version = arena_str(&n->arena, options->runtime_version);
    n->options.pods_max = node_default_or(options->pods_max, NODE_PODS_MAX);
    n->options.times.lease_ns = node_default_or(options->times.lease_ns, 10 * CLOCK_NS_PER_SEC);
    n->options.times.heartbeat_ns =
        node_default_or(options->times.heartbeat_ns, 300 * CLOCK_NS_PER_SEC);
    n->options.times.look_ns = node_default_or(options->times.look_ns, 10 * CLOCK_NS_PER_SEC);
    node_copy_machine(n, options->machine);
    n->lease = (struct exec_timer){.fn = node_renew_lease, .arg = n};
    n->look = (struct exec_timer){.fn = node_on_update_timer, .arg = n};
    struct str fields = arena_strf(&n->arena, "metadata.name=%.*s", STR_ARG(n->options.name));
    const struct informer_options o = {
        .client = options->client, .kind = node_kind(), .list = {.field_selector = fields}};
    const struct informer_handler h = {
        .changed = node_on_changed, .synced = node_on_synced, .arg = n};
    n->informer = informer_new(&o);
    informer_add_handler(n->informer, &h);
    return n;
}

void node_start(struct node *n)
{
    informer_start(n->informer);
    exec_timer_start(n->options.exec, &n->lease, 0);
}

void node_free(struct node *n)
{
    if (!n)
        return;
    while (list_pop_front(&n->calls))
        ;
    exec_timer_stop(n->options.exec, &n->lease);
    exec_timer_stop(n->options.exec, &n->look);
    informer_free(n->informer);
    arena_done(&n->arena);
    free(n);
}
