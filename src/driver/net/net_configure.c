// SPDX-License-Identifier: Apache-2.0
//
// What an interface is to be in its pod: settings of the kernel before it is up, then addresses,
// then routes. Doing it again changes nothing.
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "driver/net/net_attach.h"
#include "os/fault.h"

#include "base/banned.h"

static int net_configure_sysctl(const struct net_world *w, const char *family, const char *name,
                                const char *setting, int value, struct err *err)
{
    char path[256];
    char text[16];
    (void)snprintf(path, sizeof(path), "%s/sys/net/%s/conf/%s/%s", w->proc, family, name, setting);
    int n = snprintf(text, sizeof(text), "%d\n", value);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, (size_t)n) != n) {
        int r = err_set(err, errno, "cannot write %s: %s", path, strerrordesc_np(errno));
        if (fd >= 0)
            (void)close(fd);
        return r;
    }
    (void)close(fd);
    return 0;
}

// /proc/sys/net shows the namespace of the thread that opens it.
static int net_configure_sysctls(const struct net_world *w, int ns, const struct net_plan *p,
                                 struct err *err)
{
    int back = -1;
    if (p->forwarding == NET_UNSET && p->arp_ignore == NET_UNSET && p->arp_announce == NET_UNSET)
        return 0;
    int r = net_ns_enter(ns, &back, err);
    if (r != 0)
        return r;
    if (p->arp_ignore != NET_UNSET)
        r = net_configure_sysctl(w, "ipv4", p->name, "arp_ignore", p->arp_ignore, err);
    if (r == 0 && p->arp_announce != NET_UNSET)
        r = net_configure_sysctl(w, "ipv4", p->name, "arp_announce", p->arp_announce, err);
    if (r == 0 && p->forwarding != NET_UNSET) {
        r = net_configure_sysctl(w, "ipv4", p->name, "forwarding", p->forwarding, err);
        if (r == 0) // a kernel without IPv6 has no such file
            r = net_configure_sysctl(w, "ipv6", p->name, "forwarding", p->forwarding, err);
        if (r == -ENOENT)
            r = 0;
    }
    net_ns_leave(back);
    return r;
}

static int find_index(struct net_sock *s, const char *name, int *ret, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct net_links links = {0};
    int r = net_links_read(s, &arena, &links, err);
    *ret = 0;
    vec_foreach(&links, l)
        if (strcmp(l->name, name) == 0)
            *ret = l->index;
    return r;
}

static int join_vrf(struct net_sock *s, int index, const struct net_plan *p, struct err *err)
{
    const struct net_new vrf = {.kind = "vrf", .name = p->vrf, .vrf_table = p->vrf_table};
    int master = 0;
    int r = net_link_add(s, &vrf, err);
    if (r == 0 || r == -EEXIST)
        r = find_index(s, p->vrf, &master, err);
    if (r == 0 && master)
        r = net_link_change(s, master, &(struct net_change){.up = true}, err);
    if (r == 0)
        r = net_link_change(s, index, &(struct net_change){.master = master}, err);
    return r;
}

// Routes of the link first: gateways are found through them.
static int add_routes(struct net_sock *s, int index, const struct net_plan *p, struct err *err)
{
    int r = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; r == 0 && i < p->routes.n; i++) {
            struct net_route route = p->routes.p[i];
            if ((route.scope == NET_SCOPE_LINK) != (pass == 0))
                continue;
            if (p->vrf[0])
                route.table = p->vrf_table;
            r = net_route_add(s, index, &route, err);
        }
    }
    return r;
}

static int configure_step(int code, const char *what, struct err *err)
{
    return code == 0 ? fault_check(what, err) : code;
}

static int net_configure_basics(struct net_sock *s, int index, const struct net_plan *p,
                                struct err *err)
{
    struct net_change c = {.mac = &p->mac, .mtu = (uint32_t)p->mtu};
    for (size_t i = 0; i < NET_SIZES; i++)
        c.sizes[i] = (uint32_t)p->sizes[i];
    int r = net_link_change(s, index, &c, err);
    return r == 0 ? 0 : err_wrap(err, "cannot set MTU, hardware address or sizes");
}

int net_configure(const struct net_world *w, int ns, struct net_sock *s, int index,
                  const struct net_plan *p, struct err *err)
{
    int r = net_configure_sysctls(w, ns, p, err);
    if (r == 0 && p->drop_ebpf)
        r = net_programs_drop(s, index, err);
    r = configure_step(r, "set MTU and hardware address", err);
    if (r == 0)
        r = net_configure_basics(s, index, p, err);
    if (r == 0 && p->vrf[0])
        r = join_vrf(s, index, p, err);
    r = configure_step(r, "add addresses", err);
    for (size_t i = 0; r == 0 && i < p->addresses.n; i++)
        r = net_address_add(s, index, &p->addresses.p[i], err);
    r = configure_step(r, "bring the interface up", err);
    if (r == 0)
        r = net_link_change(s, index, &(struct net_change){.up = true}, err);
    r = configure_step(r, "add routes", err);
    if (r == 0)
        r = add_routes(s, index, p, err);
    for (size_t i = 0; r == 0 && i < p->rules.n; i++)
        r = net_rule_add(s, &p->rules.p[i], err);
    for (size_t i = 0; r == 0 && i < p->neighbors.n; i++)
        r = net_neighbor_add(s, index, &p->neighbors.p[i], err);
    if (r == 0 && (p->features.n || p->private_flags.n))
        r = net_ethtool(ns, p->name, &p->features, &p->private_flags, err);
    return r;
}
