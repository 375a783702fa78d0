// SPDX-License-Identifier: Apache-2.0
//
// The network driver on the SDK: publishes interfaces, answers prepare and unprepare, and watches
// the kernel and the records from a thread of its own to publish changes and report attach results.
#include "driver/net.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/socket.h>

#include "driver/net/net_prepare.h"
#include "driver/sdk/core.h"
#include "driver/sdk/sdk.h"
#include "os/file.h"

#include "base/banned.h"

enum {
    RESCAN_MS = 60 * 1000, // however quiet it is
    SETTLE_MS = 200,       // changes come in bursts
};

// The last report of a device.
struct reported {
    enum net_phase phase;
    char *error;
    char *uid;
};

struct reports MAP(struct reported);

// A namespace that is held open for an interface in it.
struct pin {
    struct net_ns_id id;
    int fd;
    bool wanted;
};

struct pins VEC(struct pin);

struct net_driver {
    struct net_options o;
    struct net_preparer preparer;
    struct dray_driver *driver;
    struct net_pci_names *names;
    char *state_dir;
    char boot_id[64];
    pthread_t thread;
    bool has_thread;
    int quit, netlink, changes; // eventfd, socket, inotify
    struct reports reports;     // of the watching thread, as what follows
    struct pins pins;
};

static void net_driver_log(const struct net_driver *d, const char *what)
{
    if (d->o.told)
        d->o.told(d->o.arg, what);
}

// --- Publishing ----------------------------------------------------------------------------------

static int net_driver_read_all(struct net_driver *d, struct arena *a, struct net_records *records,
                               struct net_devices *devices, struct err *err)
{
    struct net_damages damaged = {0};
    struct net_view *view = arena_one(a, struct net_view);
    *view = (struct net_view){.sys = d->preparer.world.sys, .names = d->names};
    int r = net_records_read(d->state_dir, a, records, &damaged, err);
    if (r == 0)
        r = net_view_read(d->preparer.world.host_ns, a, view, err);
    if (r == 0)
        net_inventory(view, d->o.filter, records, a, devices);
    vec_foreach(&damaged, one)
        net_driver_log(d, one->why.p);
    return r;
}

static int net_driver_publish(struct net_driver *d, const struct net_devices *devices,
                              struct err *err)
{
    struct dray_pool *pool = dray_pool_new(NULL);
    struct dray_error why = {0};
    vec_foreach(devices, one) {
        cleanup_sbuf struct sbuf json = {0};
        cleanup_free char *name = xstrndup(one->name.p, one->name.n);
        sbuf_addf(&json, "{\"attributes\":%.*s}",
                  STR_ARG(one->attributes.n ? one->attributes : STR("{}")));
        dray_device_json(dray_pool_device(pool, name), json.p);
        dray_health(d->driver, NULL, name, DRAY_HEALTHY, "");
    }
    int r = dray_publish(d->driver, pool, &why);
    dray_pool_free(pool);
    return r == 0 ? 0 : err_set(err, ERR_INVALID, "%s", why.message);
}

// --- Claim status --------------------------------------------------------------------------------

static void net_driver_report(struct net_driver *d, const struct net_record *rec)
{
    cleanup_arena struct arena a = {0};
    const struct dray_claim claim = {.namespace_ = arena_str(&a, rec->namespace).p,
                                     .name = arena_str(&a, rec->claim).p,
                                     .uid = arena_str(&a, rec->uid).p};
    bool attached = rec->phase == NET_ATTACHED;
    const struct dray_claim_condition c = {
        .pool = arena_str(&a, rec->pool).p,
        .device = arena_str(&a, rec->device).p,
        .type = "NetworkReady",
        .reason = attached ? "Attached" : "AttachFailed",
        .message = arena_str(&a, rec->error).p,
        .yes = attached,
    };
    dray_report(d->driver, &claim, &c);
    if (!attached)
        dray_event(d->driver, true, "AttachFailed",
                   arena_strf(&a, "claim %s/%s, device %s: %.*s", claim.namespace_, claim.name,
                              c.device, STR_ARG(rec->error))
                       .p);
}

// The hook writes its result into the records; changes go into the claim's status.
static void net_driver_report_new(struct net_driver *d, const struct net_records *records)
{
    vec_foreach(records, r) {
        struct reported *t = map_get(&d->reports, r->device);
        bool news = r->phase == NET_ATTACHED || r->error.n > 0;
        bool known =
            t && t->phase == r->phase && str_eqz(r->error, t->error) && str_eqz(r->uid, t->uid);
        if (!news || known)
            continue;
        if (!t)
            t = map_put(&d->reports, str_z(xstrndup(r->device.p, r->device.n)));
        free(t->error);
        free(t->uid);
        *t = (struct reported){r->phase, xstrndup(r->error.p, r->error.n),
                               xstrndup(r->uid.p, r->uid.n)};
        net_driver_report(d, r);
    }
}

// Namespaces of attached interfaces are held until these are back.
static void net_driver_pin_new(struct net_driver *d, const struct net_records *records)
{
    const struct net_world *w = &d->preparer.world;
    vec_foreach(&d->pins, p)
        p->wanted = false;
    vec_foreach(records, r) {
        struct pin *have = NULL;
        if (!str_eqz(r->kind, NET_KIND_MOVE) || r->ns.inode == 0)
            continue;
        vec_foreach(&d->pins, p)
            if (p->id.inode == r->ns.inode && p->id.device == r->ns.device)
                have = p;
        struct pin made = {.id = r->ns, .fd = -1, .wanted = true};
        if (have)
            have->wanted = true;
        else if (net_pin(w, r->ns, r->pid, &made.fd, NULL) == 0)
            vec_push(&d->pins, made);
    }
    size_t left = 0;
    for (size_t i = 0; i < d->pins.n; i++) {
        if (d->pins.p[i].wanted)
            d->pins.p[left++] = d->pins.p[i];
        else
            net_unpin(w, d->pins.p[i].id, d->pins.p[i].fd);
    }
    d->pins.n = left;
}

static void net_driver_pins_done(struct net_driver *d)
{
    vec_foreach(&d->pins, p)
        net_unpin(&d->preparer.world, p->id, p->fd);
    vec_done(&d->pins);
}

static void net_driver_reports_done(struct net_driver *d)
{
    map_foreach(&d->reports, i) {
        free((void *)(uintptr_t)map_key(&d->reports, i).p);
        free(map_value(&d->reports, i)->error);
        free(map_value(&d->reports, i)->uid);
    }
    map_done(&d->reports);
}

// At once, before anything else: a pod may be short-lived.
static void net_driver_pin_now(struct net_driver *d)
{
    cleanup_arena struct arena arena = {0};
    struct net_records records = {0};
    if (net_records_read(d->state_dir, &arena, &records, NULL, NULL) == 0)
        net_driver_pin_new(d, &records);
}

static void net_driver_rescan(struct net_driver *d)
{
    cleanup_arena struct arena arena = {0};
    struct net_records records = {0};
    struct net_devices devices = {0};
    struct err err = {0};
    int r = net_driver_read_all(d, &arena, &records, &devices, &err);
    if (r == 0)
        r = net_driver_publish(d, &devices, &err);
    net_driver_pin_now(d);
    if (r == 0)
        net_driver_report_new(d, &records);
    else
        net_driver_log(d, err.msg);
}

// --- Watch ---------------------------------------------------------------------------------------

static void net_driver_drain_fd(int fd)
{
    char bytes[8192];
    while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        continue;
}

static void drain_file(int fd)
{
    char bytes[8192] __attribute__((aligned(__alignof__(struct inotify_event))));
    while (read(fd, bytes, sizeof(bytes)) > 0)
        continue;
}

static void *net_driver_watch(void *arg)
{
    struct net_driver *d = arg;
    struct pollfd fds[] = {{.fd = d->quit, .events = POLLIN},
                           {.fd = d->netlink, .events = POLLIN},
                           {.fd = d->changes, .events = POLLIN}};
    for (;;) {
        int n = poll(fds, array_len(fds), RESCAN_MS);
        if (fds[0].revents)
            return NULL;
        if (fds[2].revents)
            net_driver_pin_now(d);
        if (n > 0 && poll(fds, 1, SETTLE_MS) > 0)
            return NULL;
        net_driver_drain_fd(d->netlink);
        drain_file(d->changes);
        net_driver_rescan(d);
    }
}

static int open_netlink(struct net_driver *d, struct err *err)
{
    const struct sockaddr_nl groups = {.nl_family = AF_NETLINK,
                                       .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR |
                                                    RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE |
                                                    RTMGRP_IPV6_ROUTE};
    d->netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    if (d->netlink < 0 ||
        bind(d->netlink, (const struct sockaddr *)(const void *)&groups, sizeof(groups)) != 0)
        return err_set(err, errno, "cannot watch interfaces: %s", strerrordesc_np(errno));
    return 0;
}

static int net_driver_start_watching(struct net_driver *d, struct err *err)
{
    d->quit = eventfd(0, EFD_CLOEXEC);
    d->changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (d->quit < 0 || d->changes < 0 ||
        inotify_add_watch(d->changes, d->state_dir, IN_MOVED_TO | IN_DELETE) < 0)
        return err_set(err, errno, "cannot watch %s: %s", d->state_dir, strerrordesc_np(errno));
    int r = open_netlink(d, err);
    if (r != 0)
        return r;
    r = pthread_create(&d->thread, NULL, net_driver_watch, d);
    if (r != 0)
        return err_set(err, r, "no thread: %s", strerrordesc_np(r));
    d->has_thread = true;
    return 0;
}

// --- Callbacks -----------------------------------------------------------------------------------

static int net_driver_give_error(int code, const struct err *from, struct dray_error *to)
{
    if (code == 0)
        return 0;
    if (to) {
        (void)snprintf(to->field, sizeof(to->field), "%s", from->path);
        (void)snprintf(to->message, sizeof(to->message), "%.511s", from->msg);
    }
    return -1;
}

static int net_driver_on_prepare(void *arg, const struct dray_claim *claim,
                                 struct dray_outcome *out, struct dray_error *err)
{
    struct net_driver *d = arg;
    struct err why = {0};
    return net_driver_give_error(net_prepare(&d->preparer, claim, out, &why), &why, err);
}

static int on_unprepare(void *arg, const struct dray_claim *claim, struct dray_error *err)
{
    struct net_driver *d = arg;
    struct err why = {0};
    return net_driver_give_error(net_unprepare(&d->preparer, claim, &why), &why, err);
}

static int on_verify(void *arg, const struct dray_claim *claim, struct dray_error *err)
{
    struct net_driver *d = arg;
    struct err why = {0};
    return net_driver_give_error(net_verify(&d->preparer, claim, &why), &why, err);
}

static void net_driver_on_registered(void *arg, bool yes, const char *why)
{
    net_driver_log(arg, yes ? "registered" : why);
}

static void on_trouble(void *arg, const struct dray_error *err)
{
    net_driver_log(arg, err->message);
}

static void net_driver_on_reported(void *arg, bool warning, const char *reason, const char *message)
{
    struct net_driver *d = arg;
    net_driver_log(d, message);
    dray_event(d->driver, warning, reason, message);
}

// --- Start and end -------------------------------------------------------------------------------

static int net_driver_open_world(struct net_driver *d, struct err *err)
{
    struct net_world *w = &d->preparer.world;
    cleanup_sbuf struct sbuf dir = {0};
    sbuf_addf(&dir, "%s/%s/interfaces",
              d->o.plugins_dir ? d->o.plugins_dir : "/var/lib/kubelet/plugins", d->o.name);
    d->state_dir = sbuf_take(&dir);
    core_boot_id(d->boot_id);
    *w = (struct net_world){.state_dir = d->state_dir,
                            .proc = "/proc",
                            .sys = "/sys",
                            .boot_id = d->boot_id,
                            .host_ns = -1,
                            .wait_ns = NET_WAIT_NS,
                            .clock = clock_system()};
    int r = file_make_dirs(d->state_dir, 0755, err);
    file_remove_temporaries(d->state_dir, STR(""));
    return r == 0 ? net_ns_open("/proc/self/ns/net", &w->host_ns, err) : r;
}

static int net_driver_register(struct net_driver *d, struct err *err)
{
    const struct dray_driver_options o = {.name = d->o.name,
                                          .node = d->o.node,
                                          .plugins_dir = d->o.plugins_dir,
                                          .registry_dir = d->o.registry_dir,
                                          .cdi_dir = d->o.cdi_dir,
                                          .instance = d->o.instance,
                                          .cdi_class = "net",
                                          .health = true,
                                          .metadata = true,
                                          .callbacks = {.prepare = net_driver_on_prepare,
                                                        .unprepare = on_unprepare,
                                                        .verify = on_verify,
                                                        .registered = net_driver_on_registered,
                                                        .trouble = on_trouble},
                                          .arg = d};
    return sdk_driver_start(d->o.runtime, &o, NULL, &d->driver, err);
}

static int publish_first(struct net_driver *d, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct net_records records = {0};
    struct net_devices devices = {0};
    int r = net_driver_read_all(d, &arena, &records, &devices, err);
    if (r == 0)
        r = net_driver_publish(d, &devices, err);
    if (r == 0) {
        net_driver_pin_new(d, &records);
        net_driver_report_new(d, &records);
    }
    return r;
}

int net_driver_start(const struct net_options *options, struct net_driver **ret, struct err *err)
{
    struct net_driver *d = xcalloc(1, sizeof(*d));
    d->o = *options;
    d->o.name = options->name ? options->name : NET_DRIVER_NAME;
    d->quit = d->netlink = d->changes = -1;
    d->names = net_pci_names_open(NET_PCI_IDS);
    int r = net_driver_open_world(d, err);
    d->preparer.filter = options->filter;
    d->preparer.names = d->names;
    d->preparer.hook = options->hook;
    d->preparer.runtime_moves = options->runtime_moves;
    d->preparer.report = net_driver_on_reported;
    d->preparer.arg = d;
    if (r == 0)
        r = net_driver_register(d, err);
    if (r == 0)
        r = publish_first(d, err);
    if (r == 0)
        r = net_driver_start_watching(d, err);
    *ret = d; // freed by the caller, after the runtime that may know of it
    return r;
}

void net_driver_stop(struct net_driver *d)
{
    const uint64_t one = 1;
    if (!d || !d->has_thread)
        return;
    (void)!write(d->quit, &one, sizeof(one));
    (void)pthread_join(d->thread, NULL);
    d->has_thread = false;
}

void net_driver_free(struct net_driver *d)
{
    if (!d)
        return;
    net_driver_stop(d);
    const int fds[] = {d->quit, d->netlink, d->changes, d->preparer.world.host_ns};
    for (size_t i = 0; i < array_len(fds); i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
    net_driver_pins_done(d);
    net_driver_reports_done(d);
    net_pci_names_free(d->names);
    free(d->state_dir);
    free(d);
}
