// SPDX-License-Identifier: Apache-2.0
//
// Changes interfaces, addresses, routes, rules and neighbours by netlink. Messages are built by
// hand: libnl's objects lack moving and renaming in one request.
#include "driver/net/net_link.h"

#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <stdlib.h>
#include <unistd.h>

#include <linux/fib_rules.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>

#include "driver/net/net_link_int.h"

#include "base/banned.h"

// --- Sockets -------------------------------------------------------------------------------------

static int connect_socket(struct net_sock *s, struct err *err)
{
    int r = nl_connect(s->sk, NETLINK_ROUTE);
    if (r != 0)
        return err_set(err, EIO, "no netlink socket: %s", nl_geterror(r));
    int on = 1;
    int fd = nl_socket_get_fd(s->sk);
    // Texts with errors; older kernels have none.
    (void)setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof(on));
    nl_socket_disable_auto_ack(s->sk);
    return 0;
}

int net_sock_open(int ns_fd, struct net_sock **ret, struct err *err)
{
    int back = -1;
    int r = ns_fd >= 0 ? net_ns_enter(ns_fd, &back, err) : 0;
    if (r != 0)
        return r;
    struct net_sock *s = xcalloc(1, sizeof(*s));
    s->sk = nl_socket_alloc();
    r = s->sk ? connect_socket(s, err) : err_set(err, ENOMEM, "no netlink socket");
    if (back >= 0)
        net_ns_leave(back);
    if (r != 0) {
        net_sock_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

void net_sock_free(struct net_sock *s)
{
    if (!s)
        return;
    if (s->sk)
        nl_socket_free(s->sk);
    free(s);
}

// --- Requests ------------------------------------------------------------------------------------

struct answer {
    int error; // errno of the kernel
    char text[256];
    bool done;
};

static void net_link_read_error_text(const struct nlmsgerr *e, struct answer *a)
{
    // Behind the header of the request, or the whole of it, come attributes with the kernel's
    // words.
    const struct nlmsghdr *h =
        (const struct nlmsghdr *)(const void *)((const char *)e - NLMSG_HDRLEN);
    size_t skip = sizeof(*e);
    if (!(h->nlmsg_flags & NLM_F_CAPPED))
        skip += e->msg.nlmsg_len > NLMSG_HDRLEN ? e->msg.nlmsg_len - NLMSG_HDRLEN : 0;
    size_t len = h->nlmsg_len - NLMSG_HDRLEN;
    if (!(h->nlmsg_flags & NLM_F_ACK_TLVS) || skip > len)
        return;
    struct nlattr *at = (struct nlattr *)(void *)((uintptr_t)(const void *)e + NLMSG_ALIGN(skip));
    struct nlattr *text = NLMSG_ALIGN(skip) < len
                              ? nla_find(at, (int)(len - NLMSG_ALIGN(skip)), NLMSGERR_ATTR_MSG)
                              : NULL;
    if (text && nla_len(text) > 0)
        (void)nla_strlcpy(a->text, text, sizeof(a->text));
}

static int net_link_on_error(struct sockaddr_nl *who, struct nlmsgerr *e, void *arg)
{
    struct answer *a = arg;
    (void)who;
    a->error = -e->error;
    a->done = true;
    net_link_read_error_text(e, a);
    return NL_STOP;
}

static int on_ack(struct nl_msg *m, void *arg)
{
    struct answer *a = arg;
    (void)m;
    a->done = true;
    return NL_STOP;
}

int net_link_no_check(struct nl_msg *m, void *arg)
{
    (void)m;
    (void)arg;
    return NL_OK;
}

// Sends m, which it frees, and waits for the answer. Returns 0 or -errno with the kernel's text.
static int net_link_request(struct net_sock *s, struct nl_msg *m, struct err *err)
{
    struct answer a = {0};
    nlmsg_hdr(m)->nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
    int r = nl_send_auto(s->sk, m);
    nlmsg_free(m);
    if (r < 0)
        return err_set(err, EIO, "netlink: %s", nl_geterror(r));
    struct nl_cb *cb = nl_cb_alloc(NL_CB_DEFAULT);
    (void)nl_cb_err(cb, NL_CB_CUSTOM, net_link_on_error, &a);
    (void)nl_cb_set(cb, NL_CB_ACK, NL_CB_CUSTOM, on_ack, &a);
    (void)nl_cb_set(cb, NL_CB_SEQ_CHECK, NL_CB_CUSTOM, net_link_no_check, NULL);
    while (r >= 0 && !a.done)
        r = nl_recvmsgs(s->sk, cb);
    nl_cb_put(cb);
    if (!a.done)
        return err_set(err, EIO, "netlink: %s", nl_geterror(r));
    if (a.error == 0)
        return 0;
    return err_set(err, a.error, "%s%s%s", strerrordesc_np(a.error), a.text[0] ? ": " : "", a.text);
}

// Allocation of a message fails only when it outgrows its page, which ours do not.
static struct nl_msg *net_link_message_new(int type, int flags, const void *head, size_t n)
{
    struct nl_msg *m = nlmsg_alloc_simple(type, flags);
    if (!m || nlmsg_append(m, (void *)(uintptr_t)head, n, NLMSG_ALIGNTO) != 0)
        abort();
    return m;
}

static void net_link_put(struct nl_msg *m, int type, const void *data, size_t n)
{
    if (nla_put(m, type, (int)n, data) != 0)
        abort();
}

static void net_link_put_u32(struct nl_msg *m, int type, uint32_t v)
{
    net_link_put(m, type, &v, sizeof(v));
}

static void net_link_put_z(struct nl_msg *m, int type, const char *z)
{
    net_link_put(m, type, z, strlen(z) + 1);
}

static struct nlattr *net_link_nest(struct nl_msg *m, int type)
{
    struct nlattr *n = nla_nest_start(m, type);
    if (!n)
        abort();
    return n;
}

// --- Interfaces ----------------------------------------------------------------------------------

static const int size_attributes[NET_SIZES] = {
    [NET_GSO] = IFLA_GSO_MAX_SIZE,
    [NET_GRO] = IFLA_GRO_MAX_SIZE,
    [NET_GSO_V4] = NET_IFLA_GSO_IPV4_MAX_SIZE,
    [NET_GRO_V4] = NET_IFLA_GRO_IPV4_MAX_SIZE,
};

int net_link_change(struct net_sock *s, int index, const struct net_change *c, struct err *err)
{
    struct ifinfomsg head = {.ifi_index = index};
    if (c->up || c->down) {
        head.ifi_change = IFF_UP;
        head.ifi_flags = c->up ? IFF_UP : 0;
    }
    // NEWLINK without NLM_F_CREATE changes; unlike SETLINK it moves and renames at once.
    struct nl_msg *m = net_link_message_new(RTM_NEWLINK, 0, &head, sizeof(head));
    if (c->name)
        net_link_put_z(m, IFLA_IFNAME, c->name);
    if (c->alias) // an empty one is taken away
        net_link_put(m, IFLA_IFALIAS, c->alias, strlen(c->alias));
    if (c->mac && c->mac->n)
        net_link_put(m, IFLA_ADDRESS, c->mac->bytes, c->mac->n);
    if (c->mtu)
        net_link_put_u32(m, IFLA_MTU, c->mtu);
    for (size_t i = 0; i < NET_SIZES; i++)
        if (c->sizes[i])
            net_link_put_u32(m, size_attributes[i], c->sizes[i]);
    if (c->master)
        net_link_put_u32(m, IFLA_MASTER, c->master > 0 ? (uint32_t)c->master : 0);
    if (c->moves)
        net_link_put_u32(m, IFLA_NET_NS_FD, (uint32_t)c->ns_fd);
    return net_link_request(s, m, err);
}

static void put_data(struct nl_msg *m, const struct net_new *n)
{
    struct nlattr *data = net_link_nest(m, IFLA_INFO_DATA);
    if (n->peer) {
        struct nlattr *peer = net_link_nest(m, VETH_INFO_PEER);
        struct ifinfomsg head = {0};
        if (nlmsg_append(m, &head, sizeof(head), NLMSG_ALIGNTO) != 0)
            abort();
        net_link_put_z(m, IFLA_IFNAME, n->peer);
        (void)nla_nest_end(m, peer);
    }
    if (strcmp(n->kind, "macvlan") == 0)
        net_link_put_u32(m, IFLA_MACVLAN_MODE, MACVLAN_MODE_BRIDGE);
    if (strcmp(n->kind, "ipvlan") == 0) {
        uint16_t mode = IPVLAN_MODE_L2;
        net_link_put(m, IFLA_IPVLAN_MODE, &mode, sizeof(mode));
    }
    if (n->vlan)
        net_link_put(m, IFLA_VLAN_ID, &n->vlan, sizeof(n->vlan));
    if (n->vrf_table)
        net_link_put_u32(m, IFLA_VRF_TABLE, n->vrf_table);
    (void)nla_nest_end(m, data);
}

int net_link_add(struct net_sock *s, const struct net_new *n, struct err *err)
{
    struct ifinfomsg head = {0};
    struct nl_msg *m =
        net_link_message_new(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &head, sizeof(head));
    net_link_put_z(m, IFLA_IFNAME, n->name);
    if (n->mac && n->mac->n)
        net_link_put(m, IFLA_ADDRESS, n->mac->bytes, n->mac->n);
    if (n->mtu)
        net_link_put_u32(m, IFLA_MTU, n->mtu);
    if (n->parent)
        net_link_put_u32(m, IFLA_LINK, (uint32_t)n->parent);
    if (n->elsewhere)
        net_link_put_u32(m, IFLA_NET_NS_FD, (uint32_t)n->ns_fd);
    struct nlattr *info = net_link_nest(m, IFLA_LINKINFO);
    net_link_put(m, IFLA_INFO_KIND, n->kind, strlen(n->kind));
    if (n->peer || n->vlan || n->vrf_table || strstr(n->kind, "vlan"))
        put_data(m, n);
    (void)nla_nest_end(m, info);
    int r = net_link_request(s, m, err);
    return r == 0 ? 0 : err_wrap(err, "cannot make %s of kind %s", n->name, n->kind);
}

int net_link_delete(struct net_sock *s, int index, struct err *err)
{
    struct ifinfomsg head = {.ifi_index = index};
    int r = net_link_request(s, net_link_message_new(RTM_DELLINK, 0, &head, sizeof(head)), err);
    return r == -ENODEV ? 0 : r;
}

// --- Addresses, routes, rules, neighbours --------------------------------------------------------

static size_t ip_len(const struct net_ip *ip)
{
    return ip->family == AF_INET ? 4 : 16;
}

static void net_link_put_ip(struct nl_msg *m, int type, const struct net_ip *ip)
{
    if (ip->family)
        net_link_put(m, type, ip->bytes, ip_len(ip));
}

static int net_link_ignore_exists(int r, struct err *err, const char *what, const struct net_ip *ip)
{
    char text[NET_IP_TEXT_MAX];
    net_ip_text(ip, true, text);
    return r == 0 || r == -EEXIST ? 0 : err_wrap(err, "cannot add the %s %s", what, text);
}

int net_address_add(struct net_sock *s, int index, const struct net_ip *ip, struct err *err)
{
    const struct ifaddrmsg head = {
        .ifa_family = ip->family,
        .ifa_prefixlen = ip->bits,
        // Without duplicate detection: the pod would start before the address is usable.
        .ifa_flags = ip->family == AF_INET6 ? IFA_F_NODAD : 0,
        .ifa_index = (unsigned)index};
    struct nl_msg *m =
        net_link_message_new(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, &head, sizeof(head));
    net_link_put_ip(m, IFA_LOCAL, ip);
    net_link_put_ip(m, IFA_ADDRESS, ip);
    return net_link_ignore_exists(net_link_request(s, m, err), err, "address", ip);
}

int net_route_add(struct net_sock *s, int index, const struct net_route *route, struct err *err)
{
    const struct rtmsg head = {.rtm_family = route->destination.family,
                               .rtm_dst_len = route->destination.bits,
                               .rtm_table =
                                   route->table < 256 ? (uint8_t)route->table : RT_TABLE_UNSPEC,
                               .rtm_protocol = RTPROT_STATIC,
                               .rtm_scope = route->scope,
                               .rtm_type = RTN_UNICAST};
    struct nl_msg *m =
        net_link_message_new(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &head, sizeof(head));
    if (route->destination.bits)
        net_link_put_ip(m, RTA_DST, &route->destination);
    net_link_put_ip(m, RTA_GATEWAY, &route->gateway);
    net_link_put_ip(m, RTA_PREFSRC, &route->source);
    net_link_put_u32(m, RTA_OIF, (uint32_t)index);
    net_link_put_u32(m, RTA_TABLE, route->table ? route->table : RT_TABLE_MAIN);
    if (route->metric)
        net_link_put_u32(m, RTA_PRIORITY, route->metric);
    return net_link_ignore_exists(net_link_request(s, m, err), err, "route to",
                                  &route->destination);
}

static int net_link_add_rule(struct net_sock *s, const struct net_rule *rule, uint8_t family,
                             struct err *err)
{
    const struct fib_rule_hdr head = {.family = family,
                                      .src_len = rule->source.family ? rule->source.bits : 0,
                                      .dst_len =
                                          rule->destination.family ? rule->destination.bits : 0,
                                      .action = FR_ACT_TO_TBL};
    struct nl_msg *m =
        net_link_message_new(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, &head, sizeof(head));
    if (head.src_len)
        net_link_put_ip(m, FRA_SRC, &rule->source);
    if (head.dst_len)
        net_link_put_ip(m, FRA_DST, &rule->destination);
    if (rule->priority)
        net_link_put_u32(m, FRA_PRIORITY, rule->priority);
    net_link_put_u32(m, FRA_TABLE, rule->table ? rule->table : RT_TABLE_MAIN);
    int r = net_link_request(s, m, err);
    return r == 0 || r == -EEXIST
               ? 0
               : err_wrap(err, "cannot add the rule for table %u", (unsigned)rule->table);
}

// A rule without addresses is for both families.
int net_rule_add(struct net_sock *s, const struct net_rule *rule, struct err *err)
{
    uint8_t family = rule->source.family ? rule->source.family : rule->destination.family;
    if (family)
        return net_link_add_rule(s, rule, family, err);
    int r = net_link_add_rule(s, rule, AF_INET, err);
    return r == 0 ? net_link_add_rule(s, rule, AF_INET6, err) : r;
}

int net_neighbor_add(struct net_sock *s, int index, const struct net_neighbor *n, struct err *err)
{
    const struct ndmsg head = {
        .ndm_family = n->destination.family, .ndm_ifindex = index, .ndm_state = NUD_PERMANENT};
    struct nl_msg *m =
        net_link_message_new(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &head, sizeof(head));
    net_link_put_ip(m, NDA_DST, &n->destination);
    net_link_put(m, NDA_LLADDR, n->mac.bytes, n->mac.n);
    return net_link_ignore_exists(net_link_request(s, m, err), err, "neighbour", &n->destination);
}

int net_programs_drop(struct net_sock *s, int index, struct err *err)
{
    const struct tcmsg head = {.tcm_family = AF_UNSPEC,
                               .tcm_ifindex = index,
                               .tcm_parent = TC_H_CLSACT,
                               .tcm_handle = TC_H_MAKE(TC_H_CLSACT, 0)};
    int r = net_link_request(s, net_link_message_new(RTM_DELQDISC, 0, &head, sizeof(head)), err);
    return r == -EINVAL || r == -ENOENT ? 0 : r; // there is none
}
