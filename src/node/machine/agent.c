// SPDX-License-Identifier: Apache-2.0
//
// Builds a whole node on one loop: runtime, DRA manager, device plugins, pods, images, the kubelet
// endpoint and the Node object, and routes the callbacks between them.
#include "node/agent.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/grpc.h"
#include "node/devplug/devplug.h"
#include "node/dra.h"
#include "node/endpoint/kubelet_http.h"
#include "node/image_keeper.h"
#include "node/machine/node.h"
#include "node/podresources.h"
#include "node/pods/pods.h"
#include "node/pods/probe_net.h"
#include "node/runtime/runtime_crun.h"
#include "node/volume/volume.h"

#include "base/banned.h"

#define DATA_DIR_DEFAULT "/var/lib/dray-agent"
#define LISTEN_DEFAULT   "0.0.0.0:10250"
#define TRIM_FIRST_NS    (2 * CLOCK_NS_PER_SEC)
#define TRIM_AGAIN_NS    (30 * CLOCK_NS_PER_SEC)

struct agent {
    struct agent_options options;
    struct arena arena;
    struct node_machine machine;
    struct runtime *runtime;
    struct transport *transport;
    struct disk *disk;
    struct dra *dra;
    struct disk *plugins_disk;
    struct devplug *devices; // NULL: another program serves device plugins here
    struct probe_net *net;
    struct event_recorder *events;
    struct pods *pods;
    struct image_keeper *images;
    struct node *node;
    struct kubelet_reviews *reviews;
    struct kubelet_http *http;
    struct grpc_server *grpc;
    struct podresources *podresources;
    uint16_t port;
    struct exec_timer trim;
    struct eviction_config eviction;
    struct id_ranges ids;
};

static void agent_log(struct agent *a, const char *what, struct str about, const char *why)
{
    cleanup_sbuf struct sbuf line = {0};
    if (!a->options.say)
        return;
    sbuf_addf(&line, "%s %.*s%s%s", what, STR_ARG(about), why ? ": " : "", why ? why : "");
    a->options.say(a->options.arg, line.p);
}

// --- Callbacks between the parts -----------------------------------------------------------------

static const struct typed_object *agent_node(void *arg)
{
    struct agent *a = arg;
    return a->node ? node_object(a->node) : NULL;
}

static bool each_pod(void *arg, dra_pod_fn each, void *ctx)
{
    struct agent *a = arg;
    return pods_each(a->pods, each, ctx);
}

static void on_health(void *arg, struct str uid)
{
    struct agent *a = arg;
    pods_health_changed(a->pods, uid);
}

static void on_plugin(void *arg, struct str driver, bool usable)
{
    agent_log(arg, usable ? "driver is there:" : "driver is gone:", driver, NULL);
}

static void agent_on_plugin_failed(void *arg, struct str path, const struct err *err)
{
    agent_log(arg, "driver refused:", path, err->msg);
}

static void agent_on_work(void *arg, exec_fn work, exec_fn after, void *job)
{
    struct agent *a = arg;
    loop_work(a->options.loop, work, after, job);
}

static void on_disk_full(void *arg)
{
    struct agent *a = arg;
    image_keeper_disk_full(a->images);
}

static void agent_on_reclaim(void *arg, exec_fn done, void *done_arg)
{
    struct agent *a = arg;
    image_keeper_reclaim(a->images, done, done_arg);
}

// On another thread, where the agent may be gone already.
static void agent_observe(void *arg, const struct eviction_places *at, struct eviction_facts *ret)
{
    (void)arg;
    node_machine_observe(at, ret);
}

static void agent_on_pressure(void *arg)
{
    struct agent *a = arg;
    if (a->node)
        node_check(a->node);
}

static void agent_pressure(void *arg, struct eviction_conditions *ret)
{
    const struct agent *a = arg;
    pods_pressure(a->pods, ret);
}

static void on_node_changed(void *arg)
{
    struct agent *a = arg;
    pods_node_changed(a->pods);
}

static void agent_on_registered(void *arg)
{
    struct agent *a = arg;
    agent_log(a, "registered node", a->options.node, NULL);
    if (a->options.registered)
        a->options.registered(a->options.arg);
}

static void on_devices_changed(void *arg)
{
    struct agent *a = arg;
    if (a->node)
        node_check(a->node);
}

static void on_device_plugin(void *arg, struct str resource, bool there)
{
    agent_log(arg, there ? "device plugin is there:" : "device plugin is gone:", resource, NULL);
}

static void each_amount(void *arg, node_amount_fn fn, void *ctx)
{
    const struct agent *a = arg;
    if (a->devices)
        devplug_amounts(a->devices, fn, ctx);
}

static int agent_find_container(void *arg, struct str namespace, struct str pod, struct str uid,
                                struct str container, struct kubelet_container *ret,
                                struct err *err)
{
    struct agent *a = arg;
    struct pods_container c;
    int r = pods_find(a->pods, namespace, pod, uid, container, &c, err);
    if (r == 0)
        *ret = (struct kubelet_container){.id = c.id,
                                          .previous_id = c.previous_id,
                                          .running = c.running,
                                          .log_path = c.log_path,
                                          .previous_log_path = c.previous_log_path,
                                          .waiting = c.waiting};
    return r;
}

static void list_pods(void *arg, struct sbuf *out)
{
    struct agent *a = arg;
    pods_list_json(a->pods, out);
}

// --- Setup ---------------------------------------------------------------------------------------

static const char *agent_path_below(struct agent *a, const char *name)
{
    return arena_strf(&a->arena, "%s/%s", a->options.data_dir, name).p;
}

static int agent_make_directories(struct agent *a, struct err *err)
{
    static const char *const names[] = {"plugins_registry", "plugins", "pods",
                                        "pod-resources",    "logs",    "images"};
    int r = volume_make_directory(a->options.data_dir, 0755, err);
    for (size_t i = 0; r == 0 && i < array_len(names); i++)
        r = volume_make_directory(agent_path_below(a, names[i]), 0755, err);
    return r;
}

static int make_runtime(struct agent *a, struct err *err)
{
    const struct agent_options *o = &a->options;
    const struct runtime_crun_options r = {
        .loop = o->loop,
        .root = agent_path_below(a, "runtime"),
        .monitor = o->monitor,
        .runtime = o->runtime,
        .handlers = o->handlers,
        .handlers_len = o->handlers_len,
        .image_dir = o->image_dir ? o->image_dir : agent_path_below(a, "images"),
        .cdi_dirs = o->cdi_dirs,
        .cdi_dirs_len = o->cdi_dirs_len,
        .cgroup_top = o->cgroup_top,
        .bridge = o->bridge,
        .boot_id = o->boot_id,
        .subnet = o->subnet};
    return runtime_crun_new(&r, &a->runtime, err);
}

static int make_claims(struct agent *a, struct err *err)
{
    const struct agent_options *o = &a->options;
    int r = disk_folder_new(o->data_dir, &a->disk, err);
    if (r < 0)
        return r;
    a->transport = transport_grpc_new(o->loop);
    const struct dra_options d = {.exec = loop_exec(o->loop),
                                  .client = o->client,
                                  .events = a->events,
                                  .transport = a->transport,
                                  .disk = a->disk,
                                  .features = o->features,
                                  .node = o->node,
                                  .boot_id = a->machine.boot_id,
                                  .registry = agent_path_below(a, "plugins_registry"),
                                  .keep_slices = o->keep_slices,
                                  .pods = each_pod,
                                  .health_changed = on_health,
                                  .plugin_changed = on_plugin,
                                  .plugin_failed = agent_on_plugin_failed,
                                  .arg = a};
    return dra_new(&d, &a->dra, err);
}

// Where device plugins cannot be served, the node does without them: a kubelet may be at work
// beside it.
static void make_devices(struct agent *a)
{
    const struct agent_options *o = &a->options;
    struct err err = {0};
    int r = volume_make_directory(o->device_plugins, 0755, &err);
    if (r == 0)
        r = disk_folder_new(o->device_plugins, &a->plugins_disk, &err);
    const struct devplug_options d = {.exec = loop_exec(o->loop),
                                      .transport = a->transport,
                                      .disk = a->plugins_disk,
                                      .folder = o->device_plugins,
                                      .pods = each_pod,
                                      .changed = on_devices_changed,
                                      .health_changed = on_health,
                                      .plugin_changed = on_device_plugin,
                                      .arg = a};
    if (r == 0) {
        a->devices = devplug_new(&d);
        r = devplug_serve(a->devices, o->loop, &err);
    }
    if (r == 0)
        return;
    devplug_free(take_ptr(a->devices));
    agent_log(a, "no device plugins in", str_z(o->device_plugins), err.msg);
}

// The host and port of "https://HOST:PORT/…".
static void split_url(struct str url, struct str *host, struct str *port)
{
    ptrdiff_t scheme = str_find(url, STR("://"));
    struct str rest = scheme < 0 ? url : str_from(url, (size_t)scheme + 3), tail;
    (void)str_cut(rest, '/', &rest, &tail);
    ptrdiff_t colon = str_rfind_char(rest, ':');
    bool six = rest.n && rest.p[rest.n - 1] == ']';
    *host = colon < 0 || six ? rest : str_upto(rest, (size_t)colon);
    *port = colon < 0 || six ? STR("443") : str_from(rest, (size_t)colon + 1);
    if (host->n > 2 && host->p[0] == '[')
        *host = str_upto(str_from(*host, 1), host->n - 2);
}

static void make_pods(struct agent *a)
{
    const struct agent_options *o = &a->options;
    struct str host, port;
    split_url(o->api_url, &host, &port);
    const struct pods_options p = {.exec = loop_exec(o->loop),
                                   .client = o->client,
                                   .events = a->events,
                                   .runtime = a->runtime,
                                   .net = a->net,
                                   .node = o->node,
                                   .data_dir = o->data_dir,
                                   .log_dir = agent_path_below(a, "logs"),
                                   .host_ips = a->machine.addresses,
                                   .api_host = host,
                                   .api_port = port,
                                   .features = o->features,
                                   .may_mount = geteuid() == 0,
                                   .ids = &a->ids,
                                   .pids_max = o->pids_max,
                                   .eviction = {.config = &a->eviction,
                                                .observe = agent_observe,
                                                .images = agent_path_below(a, "runtime"),
                                                .reclaim = agent_on_reclaim,
                                                .changed = agent_on_pressure,
                                                .arg = a},
                                   .times = {.refresh_ns = o->refresh_ns},
                                   .node_object = agent_node,
                                   .disk_full = on_disk_full,
                                   .arg = a,
                                   .work = agent_on_work};
    a->pods = pods_new(&p);
    pods_set_dra(a->pods, a->dra);
    pods_set_devices(a->pods, a->devices);
}

static void make_images(struct agent *a)
{
    const struct agent_options *o = &a->options;
    const struct image_keeper_options k = {.exec = loop_exec(o->loop),
                                           .runtime = a->runtime,
                                           .events = a->events,
                                           .node = o->node,
                                           .high_percent = o->image_high,
                                           .low_percent = o->image_low,
                                           .say = o->say,
                                           .arg = o->arg};
    a->images = image_keeper_new(&k);
}

static void agent_add_metrics(void *arg, struct sbuf *out)
{
    const struct agent *a = arg;
    if (a->dra)
        dra_metrics(a->dra, out);
    loop_add_metrics(out);
}

static int make_endpoint(struct agent *a, struct err *err)
{
    const struct agent_options *o = &a->options;
    if (!o->tls)
        return 0;
    a->reviews = kubelet_reviews_new(o->client, o->node);
    const struct kubelet_http_options h = {.loop = o->loop,
                                           .tls = o->tls,
                                           .runtime = a->runtime,
                                           .access = kubelet_reviews_access(a->reviews),
                                           .find = agent_find_container,
                                           .list = list_pods,
                                           .metrics = agent_add_metrics,
                                           .arg = a};
    a->http = kubelet_http_new(&h);
    return kubelet_http_listen(a->http, str_z(o->listen ? o->listen : LISTEN_DEFAULT), &a->port,
                               err);
}

static void agent_make_node(struct agent *a)
{
    const struct agent_options *o = &a->options;
    struct str version = {0};
    const struct str *missing;
    size_t n;
    a->runtime->ops->about(a->runtime, &version, &missing, &n);
    const struct node_options no = {
        .exec = loop_exec(o->loop),
        .client = o->client,
        .events = a->events,
        .name = o->node,
        .machine = &a->machine,
        .labels = o->labels,
        .taints = o->taints,
        .runtime_version = version,
        .features = a->runtime->ops->features(a->runtime),
        .port = a->port,
        .pods_max = o->pods_max,
        .memory_reserved =
            eviction_reserved(&a->eviction, EVICTION_MEMORY, a->machine.memory_bytes),
        .disk_reserved = eviction_reserved(&a->eviction, EVICTION_NODE_DISK, a->machine.disk_bytes),
        .pressure = agent_pressure,
        .has_health = true,
        .extended = each_amount,
        .extended_is_new = a->devices && devplug_is_new(a->devices),
        .registered = agent_on_registered,
        .changed = on_node_changed,
        .arg = a};
    a->node = node_new(&no);
}

static int make_podresources(struct agent *a, struct err *err)
{
    const struct podresources_options o = {
        .dra = a->dra, .devices = a->devices, .pods = each_pod, .arg = a};
    a->grpc = grpc_server_new(a->options.loop, NULL);
    a->podresources = podresources_new(a->grpc, &o);
    return grpc_server_listen(a->grpc, agent_path_below(a, "pod-resources/kubelet.sock"), err);
}

static void agent_copy_options(struct agent *a, const struct agent_options *o)
{
    struct arena *s = &a->arena;
    a->options = *o;
    a->options.node = arena_str(s, o->node);
    a->options.data_dir = arena_str(s, str_z(o->data_dir ? o->data_dir : DATA_DIR_DEFAULT)).p;
    a->options.device_plugins =
        arena_str(s, str_z(o->device_plugins ? o->device_plugins
                           : o->data_dir     ? agent_path_below(a, "device-plugins")
                                             : DEVPLUG_FOLDER_DEFAULT))
            .p;
    a->options.api_url = arena_str(s, o->api_url);
    a->options.labels = arena_str(s, o->labels);
    a->options.taints = arena_str(s, o->taints);
}

int agent_new(const struct agent_options *options, struct agent **ret, struct err *err)
{
    struct agent *a = xcalloc(1, sizeof(*a));
    agent_copy_options(a, options);
    const struct event_recorder_options e = {
        .client = options->client, .component = STR("kubelet"), .host = a->options.node};
    int r = eviction_config_parse(&options->eviction, &a->eviction, err);
    if (r == 0)
        r = id_ranges_read("/etc/subuid", "/etc/subgid", (uint32_t)options->pods_max, &a->ids, err);
    if (r == 0)
        r = agent_make_directories(a, err);
    if (r == 0)
        r = make_runtime(a, err);
    if (r == 0)
        r = probe_net_new(options->loop, &a->net, err);
    if (r == 0) {
        a->events = events_recorder_new(&e);
        node_machine_read(a->options.data_dir, &a->arena, &a->machine);
        if (options->boot_id)
            a->machine.boot_id = str_z(options->boot_id);
        if (options->node_ip.n)
            a->machine.addresses = arena_str(&a->arena, options->node_ip);
        r = make_claims(a, err);
    }
    if (r == 0) {
        make_devices(a);
        make_pods(a);
        make_images(a);
        r = make_endpoint(a, err);
    }
    if (r == 0)
        r = make_podresources(a, err);
    if (r < 0) {
        agent_free(a);
        return r;
    }
    agent_make_node(a);
    *ret = a;
    return 0;
}

static void on_trim(void *arg)
{
    struct agent *a = arg;
    node_memory_trim();
    exec_timer_start(loop_exec(a->options.loop), &a->trim, TRIM_AGAIN_NS);
}

void agent_start(struct agent *a)
{
    a->trim = (struct exec_timer){.fn = on_trim, .arg = a};
    if (a->options.trim)
        exec_timer_start(loop_exec(a->options.loop), &a->trim, TRIM_FIRST_NS);
    node_start(a->node);
    dra_start(a->dra);
    pods_start(a->pods);
    image_keeper_start(a->images);
}

void agent_quiet(struct agent *a)
{
    pods_pause(a->pods);
    image_keeper_quiet(a->images);
}

bool agent_busy(const struct agent *a)
{
    return pods_busy(a->pods) || image_keeper_busy(a->images);
}

void agent_free(struct agent *a)
{
    if (!a)
        return;
    bool busy = a->pods && agent_busy(a);
    exec_timer_stop(loop_exec(a->options.loop), &a->trim);
    kubelet_http_free(a->http);
    kubelet_reviews_free(a->reviews);
    grpc_server_free(a->grpc);
    if (a->dra)
        dra_free(a->dra);
    podresources_free(a->podresources);
    pods_free(a->pods);
    image_keeper_free(a->images);
    devplug_free(a->devices);
    node_free(a->node);
    events_recorder_free(a->events);
    transport_grpc_free(a->transport);
    disk_folder_free(a->disk);
    disk_folder_free(a->plugins_disk);
    probe_net_free(a->net);
    if (a->runtime && busy)
        a->runtime->ops->leave(a->runtime);
    else if (a->runtime)
        a->runtime->ops->free(a->runtime);
    arena_done(&a->arena);
    free(a);
}

uint16_t agent_port(const struct agent *a)
{
    return a->port;
}

void agent_about(const struct agent *a, struct sbuf *out)
{
    struct str version = {0};
    const struct str *missing = NULL;
    size_t n = 0;
    a->runtime->ops->about(a->runtime, &version, &missing, &n);
    sbuf_addf(out, "%.*s\n", STR_ARG(version));
    for (size_t i = 0; i < n; i++)
        sbuf_addf(out, "%.*s\n", STR_ARG(missing[i]));
}
