// SPDX-License-Identifier: Apache-2.0
//
// Lists of the kernel: interfaces by their messages (the library's objects lack some attributes),
// addresses and routes by the library's caches.
#include <netlink/attr.h>
#include <netlink/cache.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/nexthop.h>
#include <netlink/route/route.h>
#include <netlink/socket.h>
#include <netlink/utils.h>

#include <linux/if_link.h>
#include <linux/rtnetlink.h>

#include "driver/net/net_link.h"
#include "driver/net/net_link_int.h"

#include "base/banned.h"

// --- Interfaces ----------------------------------------------------------------------------------

struct dump {
    struct net_links *links;
    struct arena *arena;
    int error;
    bool done;
};

static uint32_t net_link_read_number(struct nlattr *const *tb, int type)
{
    return tb[type] && nla_len(tb[type]) >= (int)sizeof(uint32_t) ? nla_get_u32(tb[type]) : 0;
}

static void hardware_address(const struct nlattr *a, struct net_mac *ret)
{
    int n = a ? nla_len(a) : 0;
    if (n <= 0 || n > NET_MAC_MAX)
        return;
    ret->n = (uint8_t)n;
    memcpy(ret->bytes, nla_data(a), (size_t)n);
}

static void net_link_read_kind(struct nlattr *info, struct net_link *l)
{
    struct nlattr *tb[IFLA_INFO_MAX + 1];
    if (info && nla_parse_nested(tb, IFLA_INFO_MAX, info, NULL) == 0 && tb[IFLA_INFO_KIND])
        (void)nla_strlcpy(l->kind, tb[IFLA_INFO_KIND], sizeof(l->kind));
}

static void read_sizes(struct nlattr *const *tb, struct net_link *l)
{
    l->sizes[NET_GSO] = net_link_read_number(tb, IFLA_GSO_MAX_SIZE);
    l->sizes[NET_GRO] = net_link_read_number(tb, IFLA_GRO_MAX_SIZE);
    l->sizes[NET_GSO_V4] = net_link_read_number(tb, NET_IFLA_GSO_IPV4_MAX_SIZE);
    l->sizes[NET_GRO_V4] = net_link_read_number(tb, NET_IFLA_GRO_IPV4_MAX_SIZE);
}

static int on_link(struct nl_msg *m, void *arg)
{
    struct dump *d = arg;
    struct nlattr *tb[NET_IFLA_MAX + 1];
    const struct nlmsghdr *h = nlmsg_hdr(m);
    if (h->nlmsg_type != RTM_NEWLINK ||
        nlmsg_parse(nlmsg_hdr(m), sizeof(struct ifinfomsg), tb, NET_IFLA_MAX, NULL) != 0 ||
        !tb[IFLA_IFNAME])
        return NL_OK;
    const struct ifinfomsg *head = nlmsg_data(h);
    struct net_link l = {.index = head->ifi_index,
                         .flags = head->ifi_flags,
                         .hardware = head->ifi_type,
                         .mtu = net_link_read_number(tb, IFLA_MTU),
                         .parent = (int)net_link_read_number(tb, IFLA_LINK),
                         .master = (int)net_link_read_number(tb, IFLA_MASTER),
                         .parent_elsewhere = tb[IFLA_LINK_NETNSID] != NULL,
                         .state = tb[IFLA_OPERSTATE] ? nla_get_u8(tb[IFLA_OPERSTATE]) : 0};
    (void)nla_strlcpy(l.name, tb[IFLA_IFNAME], sizeof(l.name));
    hardware_address(tb[IFLA_ADDRESS], &l.mac);
    hardware_address(tb[IFLA_PERM_ADDRESS], &l.permanent);
    net_link_read_kind(tb[IFLA_LINKINFO], &l);
    read_sizes(tb, &l);
    if (tb[IFLA_IFALIAS] && nla_len(tb[IFLA_IFALIAS]) > 0) {
        const char *p = nla_data(tb[IFLA_IFALIAS]);
        l.alias = arena_str(d->arena, str_make(p, strnlen(p, (size_t)nla_len(tb[IFLA_IFALIAS]))));
    }
    vec_push_arena(d->arena, d->links, l);
    return NL_OK;
}

static int on_finish(struct nl_msg *m, void *arg)
{
    (void)m;
    ((struct dump *)arg)->done = true;
    return NL_STOP;
}

static int net_link_read_on_error(struct sockaddr_nl *who, struct nlmsgerr *e, void *arg)
{
    struct dump *d = arg;
    (void)who;
    d->error = e->error;
    d->done = true;
    return NL_STOP;
}

static int net_link_read_receive(struct net_sock *s, struct dump *d)
{
    struct nl_cb *cb = nl_cb_alloc(NL_CB_DEFAULT);
    (void)nl_cb_set(cb, NL_CB_VALID, NL_CB_CUSTOM, on_link, d);
    (void)nl_cb_set(cb, NL_CB_FINISH, NL_CB_CUSTOM, on_finish, d);
    (void)nl_cb_set(cb, NL_CB_SEQ_CHECK, NL_CB_CUSTOM, net_link_no_check, NULL);
    (void)nl_cb_err(cb, NL_CB_CUSTOM, net_link_read_on_error, d);
    int r = 0;
    while (r >= 0 && !d->done)
        r = nl_recvmsgs(s->sk, cb);
    nl_cb_put(cb);
    return r;
}

int net_links_read(struct net_sock *s, struct arena *arena, struct net_links *ret, struct err *err)
{
    struct net_links links = {0};
    struct dump d = {.links = &links, .arena = arena};
    struct ifinfomsg head = {0};
    int r = nl_send_simple(s->sk, RTM_GETLINK, NLM_F_DUMP, &head, sizeof(head));
    if (r >= 0)
        r = net_link_read_receive(s, &d);
    if (d.error < 0)
        return err_set(err, -d.error, "cannot list interfaces: %s", strerrordesc_np(-d.error));
    if (r < 0)
        return err_set(err, EIO, "cannot list interfaces: %s", nl_geterror(r));
    *ret = links;
    return 0;
}

const char *net_link_state(uint8_t state)
{
    static const char *const names[] = {"unknown", "not-present", "down", "lower-layer-down",
                                        "testing", "dormant",     "up"};
    return state < array_len(names) ? names[state] : "unknown";
}

const char *net_link_encapsulation(uint16_t hardware)
{
    switch (hardware) {
    case 1:
        return "ether";
    case 32:
        return "infiniband";
    case 772:
        return "loopback";
    case 65534:
        return "none";
    default:
        return "generic";
    }
}

// --- Addresses and routes ------------------------------------------------------------------------

static bool read_ip(const struct nl_addr *a, struct net_ip *ret)
{
    int family = a ? nl_addr_get_family(a) : AF_UNSPEC;
    unsigned n = a ? nl_addr_get_len(a) : 0;
    struct net_ip ip = {.family = (uint8_t)family,
                        .bits = (uint8_t)(a ? nl_addr_get_prefixlen(a) : 0)};
    if ((family != AF_INET && family != AF_INET6) || n > sizeof(ip.bytes))
        return false;
    if (n)
        memcpy(ip.bytes, nl_addr_get_binary_addr(a), n);
    *ret = ip;
    return true;
}

int net_addresses_read(struct net_sock *s, struct arena *arena, struct net_addresses *ret,
                       struct err *err)
{
    struct net_addresses all = {0};
    struct nl_cache *cache = NULL;
    int r = rtnl_addr_alloc_cache(s->sk, &cache);
    if (r < 0)
        return err_set(err, EIO, "cannot list addresses: %s", nl_geterror(r));
    for (struct nl_object *o = nl_cache_get_first(cache); o; o = nl_cache_get_next(o)) {
        struct rtnl_addr *a = (struct rtnl_addr *)(void *)o;
        struct net_address one = {.index = rtnl_addr_get_ifindex(a),
                                  .scope = (uint8_t)rtnl_addr_get_scope(a),
                                  .permanent = (rtnl_addr_get_flags(a) & IFA_F_PERMANENT) != 0};
        if (!read_ip(rtnl_addr_get_local(a), &one.ip))
            continue;
        one.ip.bits = (uint8_t)rtnl_addr_get_prefixlen(a);
        vec_push_arena(arena, &all, one);
    }
    nl_cache_free(cache);
    *ret = all;
    return 0;
}

static void net_link_read_route(struct rtnl_route *r, struct arena *arena,
                                struct net_known_routes *all)
{
    struct net_known_route one = {.protocol = rtnl_route_get_protocol(r),
                                  .route = {.metric = rtnl_route_get_priority(r)}};
    one.route.table = rtnl_route_get_table(r);
    one.route.scope = rtnl_route_get_scope(r);
    if (rtnl_route_get_type(r) != RTN_UNICAST || one.route.table == RT_TABLE_LOCAL)
        return;
    if (!read_ip(rtnl_route_get_dst(r), &one.route.destination))
        one.route.destination.family = rtnl_route_get_family(r);
    (void)read_ip(rtnl_route_get_pref_src(r), &one.route.source);
    for (int i = 0; i < rtnl_route_get_nnexthops(r); i++) {
        struct rtnl_nexthop *hop = rtnl_route_nexthop_n(r, i);
        struct net_known_route each = one;
        each.index = rtnl_route_nh_get_ifindex(hop);
        (void)read_ip(rtnl_route_nh_get_gateway(hop), &each.route.gateway);
        vec_push_arena(arena, all, each);
    }
}

int net_routes_read(struct net_sock *s, struct arena *arena, struct net_known_routes *ret,
                    struct err *err)
{
    struct net_known_routes all = {0};
    struct nl_cache *cache = NULL;
    int r = rtnl_route_alloc_cache(s->sk, AF_UNSPEC, 0, &cache);
    if (r < 0)
        return err_set(err, EIO, "cannot list routes: %s", nl_geterror(r));
    for (struct nl_object *o = nl_cache_get_first(cache); o; o = nl_cache_get_next(o))
        net_link_read_route((struct rtnl_route *)(void *)o, arena, &all);
    nl_cache_free(cache);
    *ret = all;
    return 0;
}
