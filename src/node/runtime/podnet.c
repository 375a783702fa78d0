// SPDX-License-Identifier: Apache-2.0
//
// The host's end of a pod's link is named after the pod, and a file ADDRESS_POD records the owner
// of an address: both are there before anything that could be leaked, and go last.
#include "node/runtime/podnet.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/link/veth.h>
#include <netlink/route/route.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <arpa/inet.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/mem.h"
#include "os/fault.h"
#include "os/file.h"

#include "base/banned.h"

struct addresses MAP(uint32_t); // of pods, in host order

struct podnet {
    char bridge[IFNAMSIZ];
    uint32_t base, count; // the subnet's first address, and how many
    int prefix;
    char *folder;
    int fd;
    pthread_mutex_t lock;
    struct addresses addresses;
    struct arena names;
    uint32_t next;
};

// --- Netlink -------------------------------------------------------------------------------------

static int podnet_error_code(int nl)
{
    switch (-nl) {
    case NLE_PERM:
    case NLE_NOACCESS:
        return EPERM;
    case NLE_EXIST:
        return EEXIST;
    case NLE_OBJ_NOTFOUND:
    case NLE_NODEV:
        return ENODEV;
    case NLE_OPNOTSUPP:
        return EOPNOTSUPP;
    case NLE_BUSY:
        return EBUSY;
    default:
        return EIO;
    }
}

static int nl_fail(struct err *err, const char *doing, const char *what, int nl)
{
    return err_set(err, podnet_error_code(nl), "cannot %s %s: %s", doing, what, nl_geterror(nl));
}

static void close_socket(struct nl_sock **s)
{
    if (*s)
        nl_socket_free(*s);
}
#define cleanup_nl cleanup_with(close_socket)

static void put_link(struct rtnl_link **l)
{
    if (*l)
        rtnl_link_put(*l);
}
#define cleanup_link cleanup_with(put_link)

static void put_addr(struct nl_addr **a)
{
    if (*a)
        nl_addr_put(*a);
}
#define cleanup_nl_addr cleanup_with(put_addr)

static int open_socket(struct nl_sock **ret, struct err *err)
{
    struct nl_sock *s = nl_socket_alloc();
    int r = s ? nl_connect(s, NETLINK_ROUTE) : -NLE_NOMEM;
    if (r < 0) {
        if (s)
            nl_socket_free(s);
        return nl_fail(err, "open", "a netlink socket", r);
    }
    *ret = s;
    return 0;
}

static int find_link(struct nl_sock *s, const char *name, struct rtnl_link **ret)
{
    return rtnl_link_get_kernel(s, 0, name, ret);
}

static int raise_link(struct nl_sock *s, struct rtnl_link *link)
{
    cleanup_link struct rtnl_link *change = rtnl_link_alloc();
    rtnl_link_set_flags(change, IFF_UP);
    return rtnl_link_change(s, link, change, 0);
}

static struct nl_addr *make_addr(uint32_t address, int prefix)
{
    uint32_t wire = htonl(address);
    struct nl_addr *a = nl_addr_build(AF_INET, &wire, sizeof(wire));
    nl_addr_set_prefixlen(a, prefix);
    return a;
}

static int podnet_add_address(struct nl_sock *s, int ifindex, uint32_t address, int prefix)
{
    cleanup_nl_addr struct nl_addr *local = make_addr(address, prefix);
    struct rtnl_addr *a = rtnl_addr_alloc();
    rtnl_addr_set_ifindex(a, ifindex);
    int r = rtnl_addr_set_local(a, local);
    if (r == 0)
        r = rtnl_addr_add(s, a, 0);
    rtnl_addr_put(a);
    return r == -NLE_EXIST ? 0 : r;
}

static int delete_link(struct nl_sock *s, const char *name)
{
    cleanup_link struct rtnl_link *link = rtnl_link_alloc();
    rtnl_link_set_name(link, name);
    return rtnl_link_delete(s, link);
}

// --- Bridge --------------------------------------------------------------------------------------

static int make_bridge(const struct podnet *n, struct nl_sock *s, struct rtnl_link **ret,
                       struct err *err)
{
    int r = find_link(s, n->bridge, ret);
    if (r < 0) {
        cleanup_link struct rtnl_link *made = rtnl_link_alloc();
        rtnl_link_set_name(made, n->bridge);
        r = rtnl_link_set_type(made, "bridge");
        if (r == 0) {
            fault_point("make the bridge");
            r = rtnl_link_add(s, made, NLM_F_CREATE | NLM_F_EXCL);
        }
        if (r < 0 && r != -NLE_EXIST)
            return nl_fail(err, "make the bridge", n->bridge, r);
        r = find_link(s, n->bridge, ret);
        if (r < 0)
            return nl_fail(err, "find the bridge", n->bridge, r);
    }
    fault_point("set up the bridge");
    r = podnet_add_address(s, rtnl_link_get_ifindex(*ret), n->base + 1, n->prefix);
    if (r == 0 && !(rtnl_link_get_flags(*ret) & IFF_UP))
        r = raise_link(s, *ret);
    return r < 0 ? nl_fail(err, "set up the bridge", n->bridge, r) : 0;
}

static bool has_ports(const char *bridge)
{
    cleanup_sbuf struct sbuf path = {0};
    struct dirent *e;
    bool found = false;
    sbuf_addf(&path, "/sys/class/net/%s/brif", bridge);
    DIR *d = opendir(path.p);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): each thread has a stream of its own
    while (d && !found && (e = readdir(d)))
        found = e->d_name[0] != '.';
    if (d)
        (void)closedir(d);
    return found;
}

// --- Files ---------------------------------------------------------------------------------------

static void file_name(uint32_t address, const char *pod_id, struct sbuf *out)
{
    sbuf_addf(out, "%u.%u.%u.%u_%s", address >> 24, address >> 16 & 255, address >> 8 & 255,
              address & 255, pod_id);
}

static bool podnet_read_name(struct str name, uint32_t *ret, struct str *pod_id)
{
    struct str text;
    struct in_addr in;
    char z[16];
    if (!str_cut(name, '_', &text, pod_id) || text.n >= sizeof(z))
        return false;
    memcpy(z, text.p, text.n);
    z[text.n] = '\0';
    if (inet_pton(AF_INET, z, &in) != 1)
        return false;
    *ret = ntohl(in.s_addr);
    return true;
}

static void podnet_load_addresses(struct podnet *n)
{
    DIR *d = fdopendir(openat(n->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct dirent *e;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): each thread has a stream of its own
    while (d && (e = readdir(d))) {
        uint32_t address;
        struct str pod_id;
        if (podnet_read_name(str_z(e->d_name), &address, &pod_id))
            *map_put(&n->addresses, arena_str(&n->names, pod_id)) = address;
    }
    if (d)
        (void)closedir(d);
}

static bool podnet_is_taken(const struct podnet *n, uint32_t address)
{
    map_foreach(&n->addresses, i)
        if (n->addresses.values && n->addresses.values[i] == address)
            return true;
    return false;
}

static int take_address(struct podnet *n, const char *pod_id, uint32_t *ret, struct err *err)
{
    cleanup_sbuf struct sbuf name = {0};
    const uint32_t *had = map_get(&n->addresses, str_z(pod_id));
    if (had) {
        *ret = *had;
        return 0;
    }
    // Without the network's own address, the bridge's, and the broadcast address.
    uint32_t room = n->count - 3;
    for (uint32_t i = 0; i < room; i++) {
        uint32_t address = n->base + 2 + (n->next + i) % room;
        if (podnet_is_taken(n, address))
            continue;
        file_name(address, pod_id, &name);
        fault_point("keep the pod's address");
        int fd = openat(n->fd, name.p, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
            return err_set(err, errno, "cannot write to %s: %s", n->folder, strerrordesc_np(errno));
        (void)close(fd);
        n->next = (n->next + i + 1) % room;
        *map_put(&n->addresses, arena_str(&n->names, str_z(pod_id))) = address;
        *ret = address;
        return 0;
    }
    return err_set(err, ERR_TOO_MANY, "the pods' network has no address left");
}

// --- The pod's side ------------------------------------------------------------------------------

struct inside {
    const struct podnet *n;
    const char *netns;
    uint32_t address;
    struct err *err;
    int r;
};

static int add_route(struct nl_sock *s, int ifindex, uint32_t gateway)
{
    cleanup_nl_addr struct nl_addr *to = make_addr(0, 0), *via = make_addr(gateway, 32);
    struct rtnl_route *route = rtnl_route_alloc();
    struct rtnl_nexthop *hop = rtnl_route_nh_alloc();
    rtnl_route_nh_set_ifindex(hop, ifindex);
    rtnl_route_nh_set_gateway(hop, via);
    (void)rtnl_route_set_family(route, AF_INET);
    rtnl_route_set_scope(route, RT_SCOPE_UNIVERSE);
    int r = rtnl_route_set_dst(route, to);
    rtnl_route_add_nexthop(route, hop);
    if (r == 0)
        r = rtnl_route_add(s, route, 0);
    rtnl_route_put(route);
    return r == -NLE_EXIST ? 0 : r;
}

static int podnet_set_up_inside(struct inside *in)
{
    cleanup_nl struct nl_sock *s = NULL;
    cleanup_link struct rtnl_link *link = NULL;
    int r = open_socket(&s, in->err);
    if (r < 0)
        return r;
    r = find_link(s, "eth0", &link);
    if (r == 0)
        r = podnet_add_address(s, rtnl_link_get_ifindex(link), in->address, in->n->prefix);
    if (r == 0)
        r = raise_link(s, link);
    if (r == 0)
        r = add_route(s, rtnl_link_get_ifindex(link), in->n->base + 1);
    return r < 0 ? nl_fail(in->err, "set up", "the pod's end of its link", r) : 0;
}

// Runs on a thread of its own, which ends: no other code runs in the namespace.
static void *podnet_enter_netns(void *arg)
{
    struct inside *in = arg;
    cleanup_fd int fd = open(in->netns, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0)
        in->r =
            err_set(in->err, errno, "cannot enter the pod's network: %s", strerrordesc_np(errno));
    else
        in->r = podnet_set_up_inside(in);
    return NULL;
}

static void link_name(const char *pod_id, char host[IFNAMSIZ])
{
    (void)snprintf(host, IFNAMSIZ, "dray%.11s", pod_id);
}

// The pod's end is made where it belongs: moving it there would cost the kernel another round of
// waiting.
static int make_pair(const char *host, int netns, int bridge, struct nl_sock *s)
{
    cleanup_link struct rtnl_link *pair = rtnl_link_veth_alloc();
    struct rtnl_link *peer = rtnl_link_veth_get_peer(pair);
    rtnl_link_set_name(pair, host);
    rtnl_link_set_name(peer, "eth0");
    rtnl_link_set_ns_fd(peer, netns);
    rtnl_link_put(peer);
    rtnl_link_set_master(pair, bridge);
    rtnl_link_set_flags(pair, IFF_UP);
    return rtnl_link_add(s, pair, NLM_F_CREATE | NLM_F_EXCL);
}

static int podnet_move_link(struct nl_sock *s, const char *link, const char *netns,
                            const char *name)
{
    cleanup_link struct rtnl_link *found = NULL, *change = rtnl_link_alloc();
    cleanup_fd int fd = open(netns, O_RDONLY | O_CLOEXEC);
    int r = fd < 0 ? -NLE_OBJ_NOTFOUND : find_link(s, link, &found);
    if (r < 0)
        return r;
    rtnl_link_set_ns_fd(change, fd);
    rtnl_link_set_name(change, name);
    return rtnl_link_change(s, found, change, 0);
}

static int connect_pod(const struct podnet *n, const char *pod_id, const char *netns,
                       uint32_t address, struct err *err)
{
    char host[IFNAMSIZ];
    cleanup_nl struct nl_sock *s = NULL;
    cleanup_link struct rtnl_link *bridge = NULL;
    cleanup_fd int fd = open(netns, O_RDONLY | O_CLOEXEC);
    struct inside in = {.n = n, .netns = netns, .address = address, .err = err};
    pthread_t thread;
    link_name(pod_id, host);
    if (fd < 0)
        return err_set(err, errno, "cannot open %s: %s", netns, strerrordesc_np(errno));
    int r = open_socket(&s, err);
    if (r == 0)
        r = make_bridge(n, s, &bridge, err);
    if (r < 0)
        return r;
    fault_point("make the pod's link");
    (void)delete_link(s, host);
    r = make_pair(host, fd, rtnl_link_get_ifindex(bridge), s);
    if (r < 0)
        return nl_fail(err, "make the link", host, r);
    fault_point("set up the pod's link");
    int code = pthread_create(&thread, NULL, podnet_enter_netns, &in);
    if (code != 0)
        return err_set(err, code, "cannot make a thread: %s", strerrordesc_np(code));
    (void)pthread_join(thread, NULL);
    return in.r;
}

int podnet_add(struct podnet *n, const char *pod_id, const char *netns, struct sbuf *out,
               struct err *err)
{
    uint32_t address = 0;
    (void)pthread_mutex_lock(&n->lock);
    int r = take_address(n, pod_id, &address, err);
    // Another process with the same bridge may take it away just then.
    for (int tries = 0; r == 0 && tries < 3; tries++) {
        r = connect_pod(n, pod_id, netns, address, err);
        if (r != -ENODEV)
            break;
        r = tries < 2 ? 0 : r;
    }
    (void)pthread_mutex_unlock(&n->lock);
    if (r == 0)
        sbuf_addf(out, "%u.%u.%u.%u", address >> 24, address >> 16 & 255, address >> 8 & 255,
                  address & 255);
    return r;
}

void podnet_remove(struct podnet *n, const char *pod_id)
{
    char host[IFNAMSIZ];
    cleanup_nl struct nl_sock *s = NULL;
    (void)pthread_mutex_lock(&n->lock);
    const uint32_t *had = map_get(&n->addresses, str_z(pod_id));
    if (had && open_socket(&s, NULL) == 0) {
        cleanup_sbuf struct sbuf name = {0};
        link_name(pod_id, host);
        fault_point("remove the pod's link");
        (void)delete_link(s, host);
        file_name(*had, pod_id, &name);
        fault_point("let the pod's address go");
        (void)unlinkat(n->fd, name.p, 0);
        (void)map_del(&n->addresses, str_z(pod_id));
        if (map_len(&n->addresses) == 0 && !has_ports(n->bridge)) {
            fault_point("remove the bridge");
            (void)delete_link(s, n->bridge);
        }
    }
    (void)pthread_mutex_unlock(&n->lock);
}

int podnet_move(const char *link, const char *netns, const char *name, struct err *err)
{
    cleanup_nl struct nl_sock *s = NULL;
    int r = open_socket(&s, err);
    if (r < 0)
        return r;
    r = podnet_move_link(s, link, netns, name);
    if (r == -NLE_NODEV || r == -NLE_OBJ_NOTFOUND)
        return err_set(err, ERR_NOT_FOUND, "the host has no link '%s'", link);
    return r < 0 ? nl_fail(err, "move the link", link, r) : 0;
}

// --- Lifecycle -----------------------------------------------------------------------------------

static int read_subnet(struct podnet *n, const char *subnet, struct err *err)
{
    struct str text, bits;
    struct in_addr in;
    uint64_t prefix = 0;
    char z[16] = {0};
    if (!str_cut(str_z(subnet), '/', &text, &bits) || text.n >= sizeof(z) ||
        str_to_u64(bits, &prefix) != 0 || prefix < 8 || prefix > 29)
        return err_set(err, ERR_INVALID, "'%s' is not a subnet such as 10.199.0.0/16", subnet);
    memcpy(z, text.p, text.n);
    if (inet_pton(AF_INET, z, &in) != 1)
        return err_set(err, ERR_INVALID, "'%s' is not a subnet such as 10.199.0.0/16", subnet);
    n->prefix = (int)prefix;
    n->count = (uint32_t)1 << (32 - prefix);
    n->base = ntohl(in.s_addr) & ~(n->count - 1);
    return 0;
}

// Checks that bridges can be made here. Removes an unused one.
static int podnet_probe(const struct podnet *n, struct err *err)
{
    cleanup_nl struct nl_sock *s = NULL;
    cleanup_link struct rtnl_link *made = rtnl_link_alloc(), *there = NULL;
    char name[IFNAMSIZ];
    int r = open_socket(&s, err);
    if (r < 0)
        return r;
    if (find_link(s, n->bridge, &there) == 0) {
        if (map_len(&n->addresses) == 0 && !has_ports(n->bridge))
            (void)delete_link(s, n->bridge);
        return 0;
    }
    (void)snprintf(name, sizeof(name), "dt%d", (int)getpid());
    rtnl_link_set_name(made, name);
    r = rtnl_link_set_type(made, "bridge");
    if (r == 0)
        r = rtnl_link_add(s, made, NLM_F_CREATE | NLM_F_EXCL);
    (void)delete_link(s, name);
    return r < 0 ? nl_fail(err, "make", "a bridge", r) : 0;
}

int podnet_new(const struct podnet_options *o, struct podnet **ret, struct err *err)
{
    struct podnet *n = xcalloc(1, sizeof(*n));
    n->fd = -1;
    (void)pthread_mutex_init(&n->lock, NULL);
    n->folder = xstrndup(o->folder, strlen(o->folder));
    int r = read_subnet(n, o->subnet, err);
    if (r == 0 && (strlen(o->bridge) == 0 || strlen(o->bridge) >= IFNAMSIZ))
        r = err_set(err, ERR_INVALID, "'%s' is not a name for a bridge", o->bridge);
    if (r == 0) {
        (void)snprintf(n->bridge, sizeof(n->bridge), "%s", o->bridge);
        r = file_make_dirs(o->folder, 0700, NULL);
        n->fd = r == 0 ? open(o->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        if (n->fd < 0)
            r = err_set(err, r < 0 ? -r : errno, "cannot use %s", o->folder);
        else
            podnet_load_addresses(n);
    }
    if (r == 0)
        r = podnet_probe(n, err);
    if (r < 0)
        podnet_free(n);
    else
        *ret = n;
    return r;
}

void podnet_free(struct podnet *n)
{
    if (!n)
        return;
    map_done(&n->addresses);
    arena_done(&n->names);
    (void)pthread_mutex_destroy(&n->lock);
    if (n->fd >= 0)
        (void)close(n->fd);
    free(n->folder);
    free(n);
}
