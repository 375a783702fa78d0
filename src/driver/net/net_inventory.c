// SPDX-License-Identifier: Apache-2.0
//
// Decides which interfaces of the host may be offered, names them, and writes their attributes as
// DRANET publishes them.
#include "driver/net/net_inventory.h"

#include <fnmatch.h>
#include <stdlib.h>

#include "base/sorted.h"
#include "base/utf8.h"
#include "codec/json_writer.h"

#include "base/banned.h"

enum { ATTRIBUTE_MAX = 64, OFFER_MAX = 256, VLAN_MAX = 4094 };

// --- Offers --------------------------------------------------------------------------------------

static int bad_offer(const char *text, struct err *err)
{
    return err_set(err, ERR_INVALID,
                   "\"%.64s\" is not an offer: veth[:BRIDGE]=N, macvlan:PARENT=N, ipvlan:PARENT=N "
                   "(N up to %d) or vlan:PARENT=FIRST[-LAST]",
                   text, OFFER_MAX);
}

static bool read_vlans(struct str range, struct net_offer *o)
{
    struct str first, last;
    uint64_t a = 0, b = 0;
    if (!str_cut(range, '-', &first, &last))
        last = first;
    if (str_to_u64(first, &a) != 0 || str_to_u64(last, &b) != 0 || a < 1 || b > VLAN_MAX || a > b ||
        b - a >= OFFER_MAX)
        return false;
    o->vlan_first = (uint16_t)a;
    o->vlan_last = (uint16_t)b;
    o->count = (uint32_t)(b - a + 1);
    return true;
}

int net_offer_parse(const char *text, struct net_offer *ret, struct err *err)
{
    struct net_offer o = {.count = 1};
    struct str what, number;
    bool has_number = str_cut(str_z(text), '=', &what, &number);
    (void)str_cut(what, ':', &o.kind, &o.parent);
    bool vlan = str_eqz(o.kind, "vlan");
    bool veth = str_eqz(o.kind, "veth");
    if (!vlan && !veth && !str_eqz(o.kind, "macvlan") && !str_eqz(o.kind, "ipvlan"))
        return bad_offer(text, err);
    if ((o.parent.n || !veth) && net_name_check(o.parent, NULL) != 0)
        return bad_offer(text, err);
    uint64_t n = 1;
    if (vlan && (!has_number || !read_vlans(number, &o)))
        return bad_offer(text, err);
    if (!vlan && has_number && (str_to_u64(number, &n) != 0 || n < 1 || n > OFFER_MAX))
        return bad_offer(text, err);
    if (!vlan)
        o.count = (uint32_t)n;
    *ret = o;
    return 0;
}

// --- Eligible interfaces -------------------------------------------------------------------------

static bool net_inventory_matches(const struct net_patterns *patterns, const char *name)
{
    vec_foreach(patterns, p)
        if (fnmatch(*p, name, 0) == 0)
            return true;
    return false;
}

static const struct net_link *by_index(const struct net_view *v, int index)
{
    vec_foreach(&v->links, l)
        if (l->index == index)
            return l;
    return NULL;
}

static bool carries_default_route(const struct net_view *v, int index)
{
    vec_foreach(&v->routes, r)
        if (r->index == index && r->route.destination.bits == 0 &&
            (r->route.table == NET_TABLE_MAIN || r->route.table == 0))
            return true;
    return false;
}

// The host's way out: an interface with the default route, its members, and what it stands on.
static bool is_uplink(const struct net_view *v, const struct net_link *link)
{
    if (carries_default_route(v, link->index))
        return true;
    const struct net_link *above = link;
    for (size_t depth = 0; above && above->master && depth < 8; depth++) {
        above = by_index(v, above->master);
        if (above && carries_default_route(v, above->index))
            return true;
    }
    vec_foreach(&v->links, child) { // a VLAN or macvlan on it that has the route
        const struct net_link *below = child;
        bool uplink = carries_default_route(v, child->index);
        for (size_t depth = 0;
             uplink && below && below->parent && !below->parent_elsewhere && depth < 8; depth++) {
            below = by_index(v, below->parent);
            if (below == link)
                return true;
        }
    }
    return false;
}

static bool is_parent_of_offer(const struct net_filter *f, const struct net_link *l)
{
    vec_foreach(&f->offers, o)
        if (str_eqz(o->parent, l->name))
            return true;
    return false;
}

// Kinds that belong to the host, or that make no sense elsewhere.
static const char *const host_kinds[] = {"bridge",      "bond",      "team",      "vrf",    "ifb",
                                         "openvswitch", "sit",       "ip6tnl",    "ipip",   "gre",
                                         "gretap",      "vti",       "vti6",      "ip6gre", "vxlan",
                                         "geneve",      "ip6gretap", "wireguard", "nlmon"};
static const char *const host_names[] = {"docker0",     "cni0",       "cilium_net",
                                         "cilium_host", "kube-ipvs0", "nodelocaldns"};

const char *net_why_not(const struct net_view *v, const struct net_filter *f,
                        const struct net_link *l)
{
    if (l->flags & IFF_LOOPBACK)
        return "it is the loopback interface";
    if (str_starts(l->alias, STR("dray ")))
        return "a claim has it";
    if (is_parent_of_offer(f, l))
        return "interfaces are offered on it";
    if (net_inventory_matches(&f->allow, l->name))
        return NULL;
    if (f->only.n && !net_inventory_matches(&f->only, l->name))
        return "it is not among those to be given away";
    if (net_inventory_matches(&f->skip, l->name))
        return "it is among those to be left alone";
    for (size_t i = 0; i < array_len(host_kinds); i++)
        if (strcmp(l->kind, host_kinds[i]) == 0)
            return "interfaces of its kind belong to the host";
    for (size_t i = 0; i < array_len(host_names); i++)
        if (strcmp(l->name, host_names[i]) == 0)
            return "it belongs to the cluster's own network";
    if (l->master)
        return "it is part of another interface";
    if (strcmp(l->kind, "veth") == 0 && l->parent_elsewhere)
        return "its other end is in another network namespace: a pod's, most likely";
    if (is_uplink(v, l))
        return "the host's default route needs it";
    return NULL;
}

// --- Names ---------------------------------------------------------------------------------------

static bool net_inventory_is_label(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool alnum = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!alnum && (c != '-' || i == 0 || i + 1 == s.n))
            return false;
    }
    return s.n > 0 && s.n <= 63;
}

// net_device_name is what an interface without PCI address is published as: its name, or, when that
// is no DNS label, "net-" and the name in base 32.
static struct str net_device_name(struct str interface, struct arena *arena)
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
    if (net_inventory_is_label(interface))
        return arena_str(arena, interface);
    cleanup_sbuf struct sbuf out = {0};
    uint32_t bits = 0;
    int have = 0;
    sbuf_addz(&out, "net-");
    for (size_t i = 0; i < interface.n; i++) {
        bits = (bits << 8) | (uint8_t)interface.p[i];
        for (have += 8; have >= 5; have -= 5)
            sbuf_addc(&out, digits[(bits >> (have - 5)) & 31]);
    }
    if (have > 0)
        sbuf_addc(&out, digits[(bits << (5 - have)) & 31]);
    return arena_str(arena, sbuf_str(&out));
}

static struct str pci_name(struct str pci, struct arena *arena)
{
    struct str s = arena_strf(arena, "pci-%.*s", STR_ARG(pci));
    char *p = arena_dup(arena, s.p, s.n + 1, 1);
    for (size_t i = 0; i < s.n; i++)
        if (p[i] == ':' || p[i] == '.')
            p[i] = '-';
    return str_make(p, s.n);
}

// --- Attributes ----------------------------------------------------------------------------------

static void net_inventory_write_name(struct json_writer *w, const char *name)
{
    json_write_object_in(w, name);
}

// Cuts to the size of an attribute at whole characters: invalid bytes grow when they are written.
static struct str net_inventory_cut_text(struct str value)
{
    size_t n = 0, len;
    uint32_t cp;
    while (n < value.n && utf8_decode_strict(value, n, &cp, &len) && n + len <= ATTRIBUTE_MAX)
        n += len;
    return str_upto(value, n);
}

static void net_inventory_write_text(struct json_writer *w, const char *name, struct str value)
{
    net_inventory_write_name(w, name);
    json_write_text(w, "string", net_inventory_cut_text(value));
    json_write_object_end(w);
}

static void net_inventory_write_text_if(struct json_writer *w, const char *name, struct str value)
{
    if (value.n)
        net_inventory_write_text(w, name, value);
}

static void net_inventory_write_number(struct json_writer *w, const char *name, int64_t value)
{
    net_inventory_write_name(w, name);
    json_write_number(w, "int", value);
    json_write_object_end(w);
}

static void net_inventory_write_flag(struct json_writer *w, const char *name, bool value)
{
    net_inventory_write_name(w, name);
    json_write_flag(w, "bool", value);
    json_write_object_end(w);
}

struct texts VEC(struct str);

// As many addresses as fit an attribute.
static void net_inventory_write_addresses(struct json_writer *w, const char *name,
                                          const struct net_view *v, int index, uint8_t family,
                                          struct arena *a)
{
    struct texts all = {0};
    cleanup_sbuf struct sbuf joined = {0};
    vec_foreach(&v->addresses, one) {
        char buf[NET_IP_TEXT_MAX];
        if (one->index != index || one->ip.family != family || !net_ip_is_global(&one->ip))
            continue;
        net_ip_text(&one->ip, true, buf);
        vec_push_arena(a, &all, arena_str(a, str_z(buf)));
    }
    if (all.n)
        qsort(all.p, all.n, sizeof(all.p[0]), str_cmp_elements);
    vec_foreach(&all, one) {
        if (joined.n + one->n + 1 > ATTRIBUTE_MAX)
            break;
        if (joined.n)
            sbuf_addc(&joined, ',');
        sbuf_add(&joined, *one);
    }
    net_inventory_write_text_if(w, name, sbuf_str(&joined));
}

static void write_hardware(struct json_writer *w, const struct net_hardware *h)
{
    if (h->pci.n) {
        net_inventory_write_text(w, "dra.net/pciAddress", h->pci);
        net_inventory_write_text_if(w, "dra.net/pciVendor", h->vendor);
        net_inventory_write_text_if(w, "dra.net/pciDevice", h->device);
        net_inventory_write_text_if(w, "dra.net/pciSubsystem", h->subsystem);
        net_inventory_write_text(w, "resource.kubernetes.io/pciBusID", h->pci);
        net_inventory_write_text_if(w, "resource.kubernetes.io/pcieRoot", h->pcie_root);
    }
    if (h->numa_node >= 0) {
        net_inventory_write_number(w, "dra.net/numaNode", h->numa_node);
        net_inventory_write_number(w, "resource.kubernetes.io/numaNode", h->numa_node);
    }
    net_inventory_write_flag(w, "dra.net/sriov", h->total_vfs > 0);
    if (h->total_vfs > 0)
        net_inventory_write_number(w, "dra.net/sriovVfs", h->vfs < 0 ? 0 : h->vfs);
    if (h->is_vf)
        net_inventory_write_flag(w, "dra.net/isSriovVf", true);
    net_inventory_write_flag(w, "dra.net/rdma", h->rdma.n > 0);
    net_inventory_write_text_if(w, "dra.net/rdmaDevice", h->rdma);
}

static struct str attributes_of(const struct net_view *v, const struct net_link *l,
                                const struct net_hardware *h, struct arena *a)
{
    cleanup_sbuf struct sbuf out = {0};
    struct json_writer w = {.out = &out};
    char mac[NET_MAC_TEXT_MAX];
    net_mac_text(&l->mac, mac);
    json_write_object_begin(&w);
    net_inventory_write_text(&w, "dra.net/ifName", str_z(l->name));
    net_inventory_write_text(&w, "dra.net/mac", str_z(mac));
    net_inventory_write_number(&w, "dra.net/mtu", l->mtu);
    net_inventory_write_text(&w, "dra.net/encapsulation",
                             str_z(net_link_encapsulation(l->hardware)));
    net_inventory_write_text(&w, "dra.net/alias", l->alias);
    net_inventory_write_text(&w, "dra.net/state", str_z(net_link_state(l->state)));
    net_inventory_write_text(&w, "dra.net/type", l->kind[0] ? str_z(l->kind) : STR("device"));
    net_inventory_write_addresses(&w, "dra.net/ipv4", v, l->index, AF_INET, a);
    net_inventory_write_addresses(&w, "dra.net/ipv6", v, l->index, AF_INET6, a);
    net_inventory_write_flag(&w, "dra.net/virtual", h->virtual || (l->kind[0] && !h->pci.n));
    write_hardware(&w, h);
    json_write_object_end(&w);
    return arena_str(a, sbuf_str(&out));
}

// A made interface has the NUMA node and PCIe root of its parent.
static struct str attributes_of_offer(const struct net_offer *o, const struct net_link *parent,
                                      const struct net_hardware *h, uint16_t vlan, struct arena *a)
{
    cleanup_sbuf struct sbuf out = {0};
    struct json_writer w = {.out = &out};
    json_write_object_begin(&w);
    net_inventory_write_text(&w, "dra.net/type", o->kind);
    net_inventory_write_flag(&w, "dra.net/virtual", true);
    net_inventory_write_number(&w, "dra.net/mtu", parent ? parent->mtu : 1500);
    net_inventory_write_text(&w, "dra.net/encapsulation", STR("ether"));
    net_inventory_write_text(&w, "dra.net/state",
                             str_z(parent ? net_link_state(parent->state) : "up"));
    net_inventory_write_text_if(&w, "dra.net/parent", o->parent);
    if (vlan)
        net_inventory_write_number(&w, "dra.net/vlan", vlan);
    if (h->numa_node >= 0) {
        net_inventory_write_number(&w, "dra.net/numaNode", h->numa_node);
        net_inventory_write_number(&w, "resource.kubernetes.io/numaNode", h->numa_node);
    }
    net_inventory_write_text_if(&w, "resource.kubernetes.io/pcieRoot", h->pcie_root);
    net_inventory_write_flag(&w, "dra.net/rdma", false);
    net_inventory_write_flag(&w, "dra.net/sriov", false);
    json_write_object_end(&w);
    return arena_str(a, sbuf_str(&out));
}

// --- Device list ---------------------------------------------------------------------------------

static const struct net_record *record_of(const struct net_records *records, struct str device)
{
    vec_foreach(records, r)
        if (str_eq(r->device, device))
            return r;
    return NULL;
}

static void net_inventory_add_device(struct net_devices *all, const struct net_records *records,
                                     struct net_device d, struct arena *a)
{
    const struct net_record *rec = record_of(records, d.name);
    if (all->n == NET_DEVICES_MAX)
        return;
    vec_foreach(all, have)
        if (str_eq(have->name, d.name))
            return;
    if (rec && rec->attributes.n)
        d.attributes = rec->attributes;
    vec_push_arena(a, all, d);
}

static void add_offer(const struct net_view *v, const struct net_offer *o,
                      const struct net_records *records, struct arena *a, struct net_devices *all)
{
    const struct net_link *parent = NULL;
    struct net_hardware h = {.numa_node = -1};
    vec_foreach(&v->links, l)
        if (str_eqz(o->parent, l->name))
            parent = l;
    if (o->parent.n && !parent)
        return; // it may come
    if (parent)
        net_hardware_read(v->sys, parent->name, v->names, a, &h);
    for (uint32_t i = 0; i < o->count; i++) {
        uint16_t vlan = o->vlan_first ? (uint16_t)(o->vlan_first + i) : 0;
        struct str on = o->parent.n ? net_device_name(o->parent, a) : STR("host");
        struct str name =
            arena_strf(a, "%.*s-%.*s-%u", STR_ARG(o->kind), STR_ARG(on), vlan ? (unsigned)vlan : i);
        net_inventory_add_device(
            all, records,
            (struct net_device){.name = name,
                                .kind = o->kind,
                                .parent = o->parent,
                                .vlan = vlan,
                                .hardware = {.numa_node = -1},
                                .attributes = attributes_of_offer(o, parent, &h, vlan, a)},
            a);
    }
}

static int net_inventory_by_name(const void *a, const void *b)
{
    return str_cmp(((const struct net_device *)a)->name, ((const struct net_device *)b)->name);
}

void net_inventory(const struct net_view *v, const struct net_filter *f,
                   const struct net_records *records, struct arena *a, struct net_devices *ret)
{
    struct net_devices all = {0};
    vec_foreach(&v->links, l) {
        struct net_device d = {.kind = STR(NET_KIND_MOVE), .link = l};
        if (net_why_not(v, f, l))
            continue;
        net_hardware_read(v->sys, l->name, v->names, a, &d.hardware);
        d.name =
            d.hardware.pci.n ? pci_name(d.hardware.pci, a) : net_device_name(str_z(l->name), a);
        d.attributes = attributes_of(v, l, &d.hardware, a);
        net_inventory_add_device(&all, records, d, a);
    }
    vec_foreach(&f->offers, o)
        add_offer(v, o, records, a, &all);
    vec_foreach(records, r) // devices that are in a pod now
        net_inventory_add_device(&all, records,
                                 (struct net_device){.name = r->device,
                                                     .kind = r->kind,
                                                     .parent = r->parent,
                                                     .vlan = r->vlan,
                                                     .hardware = {.numa_node = -1},
                                                     .attributes = r->attributes},
                                 a);
    if (all.n)
        qsort(all.p, all.n, sizeof(all.p[0]), net_inventory_by_name);
    *ret = all;
}

int net_view_read(int ns, struct arena *arena, struct net_view *ret, struct err *err)
{
    struct net_sock *s = NULL;
    int r = net_sock_open(ns, &s, err);
    if (r == 0)
        r = net_links_read(s, arena, &ret->links, err);
    if (r == 0)
        r = net_addresses_read(s, arena, &ret->addresses, err);
    if (r == 0)
        r = net_routes_read(s, arena, &ret->routes, err);
    net_sock_free(s);
    return r;
}
