// SPDX-License-Identifier: Apache-2.0
#include "net_kit.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <sys/wait.h>

#include "os/file.h"

#include "base/banned.h"

#define BOOT "boot-1"

// --- Namespaces ----------------------------------------------------------------------------------

static pid_t start(void)
{
    int ready[2];
    char c = 0;
    if (pipe(ready) != 0)
        return -1;
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(ready[0]);
        c = unshare(CLONE_NEWNET) == 0 ? 'y' : 'n';
        (void)!write(ready[1], &c, 1);
        (void)close(ready[1]);
        while (getppid() == parent) // ends with the test, whatever becomes of that
            (void)usleep(50 * 1000);
        _exit(0);
    }
    (void)close(ready[1]);
    (void)!read(ready[0], &c, 1);
    (void)close(ready[0]);
    if (c == 'y')
        return pid;
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    return -1;
}

void kit_ns_new(struct kit_ns *ns)
{
    char path[64];
    struct err err;
    ns->pid = start();
    assert_true(ns->pid > 0);
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)ns->pid);
    assert_int_equal(net_ns_open(path, &ns->fd, &err), 0);
}

void kit_ns_end(struct kit_ns *ns)
{
    if (ns->pid <= 0)
        return;
    (void)kill(ns->pid, SIGKILL);
    (void)waitpid(ns->pid, NULL, 0);
    (void)close(ns->fd);
    ns->pid = 0;
}

bool kit_can(const char *kind)
{
    struct kit_ns ns;
    struct net_sock *s = NULL;
    struct err err;
    struct net_new n = {.kind = kind, .name = "try0"};
    kit_ns_new(&ns);
    assert_int_equal(net_sock_open(ns.fd, &s, &err), 0);
    assert_int_equal(
        net_link_add(s, &(struct net_new){.kind = "veth", .name = "a", .peer = "b"}, &err), 0);
    bool child = strstr(kind, "vlan") != NULL;
    if (child)
        n.parent = 2;
    if (strcmp(kind, "vlan") == 0)
        n.vlan = 5;
    struct net_links links = {0};
    struct arena arena = {0};
    assert_int_equal(net_links_read(s, &arena, &links, &err), 0);
    vec_foreach(&links, l)
        if (child && strcmp(l->name, "a") == 0)
            n.parent = l->index;
    int code = net_link_add(s, &n, &err);
    arena_done(&arena);
    net_sock_free(s);
    kit_ns_end(&ns);
    return code == 0;
}

const char *net_kit_missing(void)
{
    struct net_sock *s = NULL;
    const char *why = NULL;
    char path[64];
    int fd = -1;
    if (geteuid() != 0)
        return "not root";
    pid_t pid = start();
    if (pid < 0)
        return "no network namespaces";
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
    if (net_ns_open(path, &fd, NULL) != 0 || net_sock_open(fd, &s, NULL) != 0)
        why = "network namespaces cannot be entered";
    else if (net_link_add(s, &(struct net_new){.kind = "veth", .name = "a", .peer = "b"}, NULL) !=
             0)
        why = "the kernel has no veth";
    else if (net_link_add(s, &(struct net_new){.kind = "bridge", .name = "c"}, NULL) != 0)
        why = "the kernel has no bridge";
    net_sock_free(s);
    if (fd >= 0)
        (void)close(fd);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    return why;
}

// --- Interfaces ----------------------------------------------------------------------------------

static struct net_sock *sock(const struct kit_ns *ns)
{
    struct net_sock *s = NULL;
    struct err err;
    if (net_sock_open(ns->fd, &s, &err) != 0)
        fail_msg("%s", err.msg);
    return s;
}

bool kit_link(struct kit *k, const struct kit_ns *ns, const char *name, struct net_link *ret)
{
    struct net_links links = {0};
    struct err err;
    struct net_sock *s = sock(ns);
    bool found = false;
    assert_int_equal(net_links_read(s, &k->arena, &links, &err), 0);
    net_sock_free(s);
    vec_foreach(&links, l) {
        if (strcmp(l->name, name) == 0) {
            *ret = *l;
            found = true;
        }
    }
    return found;
}

void kit_add(const struct kit_ns *ns, const struct net_new *n)
{
    struct net_sock *s = sock(ns);
    struct err err = {0};
    if (net_link_add(s, n, &err) != 0)
        fail_msg("%s", err.msg);
    net_sock_free(s);
}

void kit_change(struct kit *k, const struct kit_ns *ns, const char *name, struct net_change c)
{
    struct net_link l;
    struct err err = {0};
    assert_true(kit_link(k, ns, name, &l));
    struct net_sock *s = sock(ns);
    if (net_link_change(s, l.index, &c, &err) != 0)
        fail_msg("%s: %s", name, err.msg);
    net_sock_free(s);
}

static struct net_ip ip(const char *text)
{
    struct net_ip v = {0};
    assert_int_equal(net_ip_parse(str_z(text), strchr(text, '/') != NULL, &v, NULL), 0);
    return v;
}

bool kit_has_address(struct kit *k, const struct kit_ns *ns, const char *name, const char *text)
{
    struct net_addresses all = {0};
    struct net_link l;
    struct err err;
    struct net_ip want = ip(text);
    if (!kit_link(k, ns, name, &l))
        return false;
    struct net_sock *s = sock(ns);
    assert_int_equal(net_addresses_read(s, &k->arena, &all, &err), 0);
    net_sock_free(s);
    vec_foreach(&all, a)
        if (a->index == l.index && net_ip_equal(&a->ip, &want))
            return true;
    return false;
}

bool kit_has_route(struct kit *k, const struct kit_ns *ns, const char *name, const char *network,
                   const char *gateway)
{
    struct net_known_routes all = {0};
    struct net_link l;
    struct err err;
    struct net_ip want = ip(network);
    if (!kit_link(k, ns, name, &l))
        return false;
    struct net_sock *s = sock(ns);
    assert_int_equal(net_routes_read(s, &k->arena, &all, &err), 0);
    net_sock_free(s);
    vec_foreach(&all, r) {
        char text[NET_IP_TEXT_MAX];
        net_ip_text(&r->route.gateway, false, text);
        if (r->index == l.index && net_ip_equal(&r->route.destination, &want) &&
            strcmp(text, gateway) == 0)
            return true;
    }
    return false;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct lines VEC(const char *);

const char *kit_show(struct kit *k, const struct kit_ns *ns)
{
    struct net_view v = {.sys = k->top};
    struct err err;
    struct lines lines = {0};
    struct arena *a = &k->arena;
    assert_int_equal(net_view_read(ns->fd, a, &v, &err), 0);
    vec_foreach(&v.links, l) {
        char mac[NET_MAC_TEXT_MAX];
        net_mac_text(&l->mac, mac);
        vec_push_arena(a, &lines,
                       arena_strf(a, "%s %s %s mtu %u gso %u %s alias '%.*s'", l->name, l->kind,
                                  mac, (unsigned)l->mtu, (unsigned)l->sizes[NET_GSO],
                                  l->flags & IFF_UP ? "up" : "down", STR_ARG(l->alias))
                           .p);
        vec_foreach(&v.addresses, one) {
            char text[NET_IP_TEXT_MAX];
            net_ip_text(&one->ip, true, text);
            if (one->index == l->index && net_ip_is_global(&one->ip))
                vec_push_arena(a, &lines, arena_strf(a, "%s has %s", l->name, text).p);
        }
        vec_foreach(&v.routes, r) {
            char to[NET_IP_TEXT_MAX], by[NET_IP_TEXT_MAX];
            net_ip_text(&r->route.destination, true, to);
            net_ip_text(&r->route.gateway, false, by);
            if (r->index == l->index && r->protocol == 4)
                vec_push_arena(a, &lines,
                               arena_strf(a, "%s to %s by %s metric %u", l->name, to, by,
                                          (unsigned)r->route.metric)
                                   .p);
        }
    }
    qsort(lines.p, lines.n, sizeof(lines.p[0]), by_text);
    cleanup_sbuf struct sbuf out = {0};
    vec_foreach(&lines, line)
        sbuf_addf(&out, "%s\n", *line);
    return arena_str(a, sbuf_str(&out)).p;
}

// --- The kit -------------------------------------------------------------------------------------

static int on_step(void *arg, const char *what)
{
    struct kit *k = arg;
    (void)what;
    k->steps++;
    if (k->steps == k->die_at)
        (void)raise(SIGKILL);
    return k->steps == k->fail_at ? -ENOSPC : 0;
}

static void on_told(void *arg, bool warning, const char *reason, const char *message)
{
    struct kit *k = arg;
    size_t n = strlen(k->told);
    (void)warning;
    (void)message;
    (void)snprintf(k->told + n, sizeof(k->told) - n, "%s ", reason);
}

static void make_host(struct kit *k)
{
    struct err err = {0};
    struct net_link nic, eth;
    kit_ns_new(&k->host);
    kit_add(&k->host, &(struct net_new){.kind = "veth", .name = "nic0", .peer = "nic0-far"});
    kit_add(&k->host, &(struct net_new){.kind = "veth", .name = "eth1", .peer = "eth1-far"});
    const struct net_mac mac = {6, {2, 0, 0, 0, 0, 1}}; // else it takes that of a member
    kit_add(&k->host, &(struct net_new){.kind = "bridge", .name = "br0", .mac = &mac});
    kit_change(k, &k->host, "nic0", (struct net_change){.mtu = 1400, .alias = "the first"});
    kit_change(k, &k->host, "nic0", (struct net_change){.up = true});
    kit_change(k, &k->host, "nic0-far", (struct net_change){.up = true});
    kit_change(k, &k->host, "eth1", (struct net_change){.up = true});
    kit_change(k, &k->host, "br0", (struct net_change){.up = true});
    assert_true(kit_link(k, &k->host, "nic0", &nic) && kit_link(k, &k->host, "eth1", &eth));
    struct net_sock *s = sock(&k->host);
    const struct net_ip four = ip("10.7.0.2/24"), six = ip("2001:db8:7::2/64");
    const struct net_route route = {.destination = ip("10.8.0.0/16"), .gateway = ip("10.7.0.1")};
    const struct net_route last = {
        .destination = ip("10.8.0.0/16"), .gateway = ip("10.7.0.3"), .metric = 900};
    int code = net_address_add(s, nic.index, &four, &err);
    if (code == 0)
        code = net_address_add(s, nic.index, &six, &err);
    if (code == 0)
        code = net_route_add(s, nic.index, &route, &err);
    if (code == 0)
        code = net_route_add(s, nic.index, &last, &err);
    if (code != 0)
        fail_msg("%s", err.msg);
    net_sock_free(s);
}

struct kit *kit_new(void)
{
    struct kit *k = calloc(1, sizeof(*k));
    assert_non_null(k);
    (void)snprintf(k->top, sizeof(k->top), "/tmp/dray-net-XXXXXX");
    assert_non_null(mkdtemp(k->top));
    (void)snprintf(k->state, sizeof(k->state), "%s/interfaces", k->top);
    assert_int_equal(file_make_dirs(k->state, 0755, NULL), 0);
    make_host(k);
    k->hook = (struct fault_hook){on_step, k};
    fault_hook_set(&k->hook);
    k->preparer = (struct net_preparer){.world = {.state_dir = k->state,
                                                  .proc = "/proc",
                                                  .sys = k->top, // no hardware
                                                  .boot_id = BOOT,
                                                  .host_ns = k->host.fd,
                                                  .wait_ns = 2 * CLOCK_NS_PER_SEC,
                                                  .clock = clock_system()},
                                        .filter = &k->filter,
                                        .hook = "/usr/bin/dray",
                                        .report = on_told,
                                        .arg = k};
    return k;
}

void kit_free(struct kit *k)
{
    fault_hook_set(NULL);
    kit_ns_end(&k->host);
    assert_int_equal(file_remove_tree(k->top, NULL), 0);
    vec_done(&k->filter.only);
    vec_done(&k->filter.skip);
    vec_done(&k->filter.allow);
    vec_done(&k->filter.offers);
    arena_done(&k->arena);
    free(k);
}

const struct dray_claim *kit_claim(struct kit *k, const char *uid, const char *parameters,
                                   const char *const *devices)
{
    struct arena *a = &k->arena;
    struct dray_claim *c = arena_one(a, struct dray_claim);
    struct dray_config *config = arena_one(a, struct dray_config);
    size_t n = 0;
    while (devices[n])
        n++;
    struct dray_allocated *all = arena_array(a, struct dray_allocated, n);
    config->parameters = parameters;
    for (size_t i = 0; i < n; i++)
        all[i] = (struct dray_allocated){.request = "nic",
                                         .request_ref = "nic",
                                         .pool = "node",
                                         .device = devices[i],
                                         .configs = config,
                                         .configs_len = parameters ? 1 : 0};
    *c = (struct dray_claim){
        .namespace_ = "default", .name = "claim", .uid = uid, .devices = all, .devices_len = n};
    return c;
}

int kit_prepare(struct kit *k, const struct dray_claim *claim, struct err *err)
{
    struct dray_outcome out;
    struct journal_entry entry = {0};
    const struct outcome_names names = {STR("dra.net"), STR("net"), STR("")};
    outcome_init(&out, claim, &k->arena);
    int code = net_prepare(&k->preparer, claim, &out, err);
    if (code == 0)
        code = outcome_finish(&out, &names, STR("2026-01-01T00:00:00Z"), &entry, err);
    if (code == 0)
        (void)snprintf(k->told, sizeof(k->told), "%.*s%.*s", STR_ARG(entry.spec),
                       STR_ARG(entry.status));
    return code;
}

int kit_attach(struct kit *k, const struct dray_claim *claim, const struct kit_ns *pod,
               struct err *err)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < claim->devices_len; i++)
        code = net_attach(&k->preparer.world, str_z(claim->uid), str_z(claim->devices[i].device),
                          pod->fd, pod->pid, err);
    return code;
}

int kit_unprepare(struct kit *k, const struct dray_claim *claim, struct err *err)
{
    k->told[0] = '\0';
    return net_unprepare(&k->preparer, claim, err);
}

size_t kit_records(struct kit *k)
{
    struct net_records all = {0};
    struct err err;
    if (net_records_read(k->state, &k->arena, &all, NULL, &err) != 0)
        fail_msg("%s", err.msg);
    return all.n;
}
