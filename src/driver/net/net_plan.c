// SPDX-License-Identifier: Apache-2.0
//
// Reads DRANET's NetworkConfig by field tables, checks it, and merges several configurations into
// one plan of numbers that the kernel understands.
#include "driver/net/net_plan.h"

#include <stdio.h>

#include <sys/socket.h>

#include "dray/driver.h"

#include "base/banned.h"

// --- Parameter tables ----------------------------------------------------------------------------

struct vrf_params {
    const char *name;
    const int64_t *table;
};

struct interface_params {
    const char *name, *mac;
    struct dray_texts addresses;
    const bool *dhcp, *drop_ebpf, *forwarding;
    const int64_t *mtu, *sizes[NET_SIZES], *arp_ignore, *arp_announce;
    struct vrf_params *vrf;
};

struct route_params {
    const char *destination, *gateway, *source;
    int64_t scope, table, metric;
};

struct rule_params {
    const char *source, *destination;
    int64_t priority, table;
};

struct neighbor_params {
    const char *destination, *mac;
};

struct ethtool_params {
    struct dray_flags features, private_flags;
};

struct params {
    const char *profile;
    struct interface_params *interface;
    struct dray_objects routes, rules, neighbors;
    struct ethtool_params *ethtool;
};

#define TABLE_MAX UINT32_MAX
#define SIZE_MAX_ INT32_MAX

#define MEMBER(type, member) .offset = offsetof(struct type, member)

static const struct dray_field vrf_fields[] = {
    {"name", DRAY_TEXT, MEMBER(vrf_params, name), .required = true},
    {"table", DRAY_OPT_INT, MEMBER(vrf_params, table), .min = 1, .max = TABLE_MAX},
    {0},
};

static const struct dray_field interface_fields[] = {
    {"name", DRAY_TEXT, MEMBER(interface_params, name)},
    {"addresses", DRAY_TEXTS, MEMBER(interface_params, addresses)},
    {"dhcp", DRAY_OPT_BOOL, MEMBER(interface_params, dhcp)},
    {"mtu", DRAY_OPT_INT, MEMBER(interface_params, mtu), .min = 1, .max = SIZE_MAX_},
    {"hardwareAddr", DRAY_TEXT, MEMBER(interface_params, mac)},
    {"gsoMaxSize", DRAY_OPT_INT, MEMBER(interface_params, sizes[NET_GSO]), .min = 1,
     .max = SIZE_MAX_},
    {"groMaxSize", DRAY_OPT_INT, MEMBER(interface_params, sizes[NET_GRO]), .min = 1,
     .max = SIZE_MAX_},
    {"gsoIPv4MaxSize", DRAY_OPT_INT, MEMBER(interface_params, sizes[NET_GSO_V4]), .min = 1,
     .max = SIZE_MAX_},
    {"groIPv4MaxSize", DRAY_OPT_INT, MEMBER(interface_params, sizes[NET_GRO_V4]), .min = 1,
     .max = SIZE_MAX_},
    {"disableEbpfPrograms", DRAY_OPT_BOOL, MEMBER(interface_params, drop_ebpf)},
    {"forwarding", DRAY_OPT_BOOL, MEMBER(interface_params, forwarding)},
    {"arpIgnore", DRAY_OPT_INT, MEMBER(interface_params, arp_ignore), .max = 8},
    {"arpAnnounce", DRAY_OPT_INT, MEMBER(interface_params, arp_announce), .max = 2},
    {"vrf", DRAY_OBJECT, MEMBER(interface_params, vrf), .fields = vrf_fields,
     .size = sizeof(struct vrf_params)},
    {0},
};

static const struct dray_field route_fields[] = {
    {"destination", DRAY_TEXT, MEMBER(route_params, destination), .required = true},
    {"gateway", DRAY_TEXT, MEMBER(route_params, gateway)},
    {"source", DRAY_TEXT, MEMBER(route_params, source)},
    {"scope", DRAY_INT, MEMBER(route_params, scope), .max = 255},
    {"table", DRAY_INT, MEMBER(route_params, table), .max = TABLE_MAX},
    {"metric", DRAY_INT, MEMBER(route_params, metric), .max = UINT32_MAX},
    {0},
};

static const struct dray_field rule_fields[] = {
    {"priority", DRAY_INT, MEMBER(rule_params, priority), .max = 32767},
    {"source", DRAY_TEXT, MEMBER(rule_params, source)},
    {"destination", DRAY_TEXT, MEMBER(rule_params, destination)},
    {"table", DRAY_INT, MEMBER(rule_params, table), .max = TABLE_MAX},
    {0},
};

static const struct dray_field neighbor_fields[] = {
    {"destination", DRAY_TEXT, MEMBER(neighbor_params, destination), .required = true},
    {"hardwareAddr", DRAY_TEXT, MEMBER(neighbor_params, mac), .required = true},
    {0},
};

static const struct dray_field ethtool_fields[] = {
    {"features", DRAY_FLAGS, MEMBER(ethtool_params, features)},
    {"privateFlags", DRAY_FLAGS, MEMBER(ethtool_params, private_flags)},
    {0},
};

static const struct dray_field fields[] = {
    {"profile", DRAY_TEXT, MEMBER(params, profile)},
    {"interface", DRAY_OBJECT, MEMBER(params, interface), .fields = interface_fields,
     .size = sizeof(struct interface_params)},
    {"routes", DRAY_OBJECTS, MEMBER(params, routes), .fields = route_fields,
     .size = sizeof(struct route_params)},
    {"rules", DRAY_OBJECTS, MEMBER(params, rules), .fields = rule_fields,
     .size = sizeof(struct rule_params)},
    {"neighbors", DRAY_OBJECTS, MEMBER(params, neighbors), .fields = neighbor_fields,
     .size = sizeof(struct neighbor_params)},
    {"ethtool", DRAY_OBJECT, MEMBER(params, ethtool), .fields = ethtool_fields,
     .size = sizeof(struct ethtool_params)},
    {0},
};

static const struct dray_schema schema = {NULL, NULL, fields, sizeof(struct params)};

// --- Merging -------------------------------------------------------------------------------------

// Whose words they are.
enum source { OF_USER, OF_KERNEL };

void net_plan_init(struct net_plan *p)
{
    *p = (struct net_plan){
        .forwarding = NET_UNSET, .arp_ignore = NET_UNSET, .arp_announce = NET_UNSET};
}

// The way to a value, for errors.
static int net_plan_in_field(int code, const char *field, struct err *err)
{
    if (code != 0)
        err_path_field(err, field, strlen(field));
    return code;
}

static int net_plan_in_item(int code, size_t index, const char *list, struct err *err)
{
    if (code != 0)
        err_path_index(err, index);
    return net_plan_in_field(code, list, err);
}

int net_name_check(struct str name, struct err *err)
{
    bool good =
        name.n > 0 && name.n < IFNAMSIZ && !str_eq(name, STR(".")) && !str_eq(name, STR(".."));
    for (size_t i = 0; good && i < name.n; i++) {
        char c = name.p[i];
        good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '_' || c == '.';
    }
    // "all" and "default" are directories of /proc/sys/net/ipv4/conf that mean every interface.
    if (!good || str_eq(name, STR("all")) || str_eq(name, STR("default")))
        return err_set(err, ERR_INVALID,
                       "\"%.*s\" cannot be an interface's name: 1 to %d letters, digits, '-', '_' "
                       "and '.', not all, default, '.' or '..'",
                       (int)(name.n > 64 ? 64 : name.n), name.p ? name.p : "", IFNAMSIZ - 1);
    return 0;
}

static int too_many(struct err *err)
{
    return err_set(err, ERR_INVALID, "more than %d entries", NET_LIST_MAX);
}

// The kernel takes more than people should write.
static int net_plan_check_name(struct str name, enum source of, struct err *err)
{
    if (of == OF_USER)
        return net_name_check(name, err);
    return name.n < IFNAMSIZ && str_find_char(name, '/') < 0
               ? 0
               : err_set(err, ERR_INVALID, "that cannot be an interface's name");
}

static int net_plan_read_name(const char *text, enum source of, char ret[IFNAMSIZ], struct err *err)
{
    if (!text || !*text)
        return 0;
    int r = net_plan_check_name(str_z(text), of, err);
    if (r == 0)
        (void)snprintf(ret, IFNAMSIZ, "%s", text);
    return r;
}

static int net_plan_read_addresses(struct net_plan *p, const struct dray_texts *texts,
                                   struct arena *a, struct err *err)
{
    for (size_t i = 0; i < texts->n; i++) {
        struct net_ip ip = {0};
        bool there = false;
        int r = net_ip_parse(str_z(texts->p[i]), true, &ip, err);
        if (r == 0 && p->addresses.n == NET_LIST_MAX)
            r = too_many(err);
        if (r != 0)
            return net_plan_in_item(r, i, "addresses", err);
        vec_foreach(&p->addresses, have)
            there = there || net_ip_equal(have, &ip);
        if (!there)
            vec_push_arena(a, &p->addresses, ip);
    }
    return 0;
}

// A table for all that join a VRF without saying which: the same for the same name.
static uint32_t vrf_table(const char *name)
{
    uint32_t h = 2166136261U;
    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 16777619U;
    return h % 1000 + NET_VRF_TABLE_FIRST;
}

static int read_vrf(struct net_plan *p, const struct vrf_params *v, struct err *err)
{
    int r = net_name_check(str_z(v->name), err);
    if (r != 0)
        return net_plan_in_field(r, "name", err);
    if (v->table && *v->table >= 253 && *v->table <= 255)
        return net_plan_in_field(err_set(err, ERR_INVALID, "table %lld is the kernel's own",
                                         (long long)*v->table),
                                 "table", err);
    (void)snprintf(p->vrf, sizeof(p->vrf), "%s", v->name);
    p->vrf_table = v->table ? (uint32_t)*v->table : vrf_table(v->name);
    return 0;
}

static int read_interface(struct net_plan *p, const struct interface_params *i, enum source of,
                          struct arena *a, struct err *err)
{
    int r = net_plan_in_field(net_plan_read_name(i->name, of, p->name, err), "name", err);
    if (r == 0)
        r = net_plan_read_addresses(p, &i->addresses, a, err);
    if (r == 0 && i->mac)
        r = net_plan_in_field((of == OF_USER ? net_mac_parse : net_mac_read)(str_z(i->mac), &p->mac,
                                                                             err),
                              "hardwareAddr", err);
    if (r == 0 && of == OF_USER && i->mtu && *i->mtu < NET_MTU_MIN)
        r = net_plan_in_field(err_set(err, ERR_INVALID, "%lld is not within %d to %d",
                                      (long long)*i->mtu, NET_MTU_MIN, SIZE_MAX_),
                              "mtu", err);
    if (r == 0 && i->dhcp && *i->dhcp)
        r = net_plan_in_field(
            err_set(err, ERR_INVALID,
                    "this driver has no DHCP client; say the addresses, or run a client in "
                    "the pod"),
            "dhcp", err);
    if (r == 0 && i->arp_ignore && *i->arp_ignore > 3 && *i->arp_ignore != 8)
        r = net_plan_in_field(err_set(err, ERR_INVALID, "%lld is not one of 0, 1, 2, 3, 8",
                                      (long long)*i->arp_ignore),
                              "arpIgnore", err);
    if (r == 0 && i->vrf)
        r = net_plan_in_field(read_vrf(p, i->vrf, err), "vrf", err);
    if (r != 0)
        return r;
    p->mtu = i->mtu ? *i->mtu : p->mtu;
    for (size_t k = 0; k < NET_SIZES; k++)
        p->sizes[k] = i->sizes[k] ? *i->sizes[k] : p->sizes[k];
    p->forwarding = i->forwarding ? *i->forwarding : p->forwarding;
    p->arp_ignore = i->arp_ignore ? (int)*i->arp_ignore : p->arp_ignore;
    p->arp_announce = i->arp_announce ? (int)*i->arp_announce : p->arp_announce;
    p->drop_ebpf = i->drop_ebpf ? *i->drop_ebpf : p->drop_ebpf;
    return 0;
}

// An address that must be of the family of the destination; empty texts are none.
static int read_same_family(const char *text, const struct net_ip *of, const char *field,
                            struct net_ip *ret, struct err *err)
{
    if (!text || !*text)
        return 0;
    int r = net_ip_parse(str_z(text), false, ret, err);
    if (r == 0 && of->family && ret->family != of->family)
        r = err_set(err, ERR_INVALID, "must be an IPv%d address as the destination is",
                    of->family == AF_INET ? 4 : 6);
    return net_plan_in_field(r, field, err);
}

// A network: bits of the host are cut off, as Go's ParseCIDR does.
static int read_network(const char *text, const char *field, struct net_ip *ret, struct err *err)
{
    if (!text || !*text)
        return 0;
    int r = net_ip_parse(str_z(text), true, ret, err);
    if (r == 0)
        net_ip_mask(ret);
    return net_plan_in_field(r, field, err);
}

static int net_plan_read_route(const struct route_params *route, enum source of,
                               struct net_route *ret, struct err *err)
{
    const struct net_ip any = {0};
    int r = read_network(route->destination, "destination", &ret->destination, err);
    const struct net_ip *family = of == OF_USER ? &ret->destination : &any;
    if (r == 0 && !ret->destination.family)
        r = net_plan_in_field(err_set(err, ERR_INVALID, "is required"), "destination", err);
    if (r == 0 && route->scope != 0 && route->scope != NET_SCOPE_LINK)
        r = net_plan_in_field(err_set(err, ERR_INVALID,
                                      "%lld is neither 0 (universe) nor %d (link)",
                                      (long long)route->scope, NET_SCOPE_LINK),
                              "scope", err);
    if (r == 0)
        r = read_same_family(route->gateway, family, "gateway", &ret->gateway, err);
    if (r == 0 && !ret->gateway.family && route->scope == 0)
        r = net_plan_in_field(err_set(err, ERR_INVALID, "is required, unless scope is %d (link)",
                                      NET_SCOPE_LINK),
                              "gateway", err);
    if (r == 0)
        r = read_same_family(route->source, family, "source", &ret->source, err);
    ret->scope = (uint8_t)route->scope;
    ret->table = (uint32_t)route->table;
    ret->metric = (uint32_t)route->metric;
    return r;
}

static bool same_route(const struct net_route *a, const struct net_route *b)
{
    return net_ip_equal(&a->destination, &b->destination) && a->table == b->table &&
           a->metric == b->metric;
}

static int read_routes(struct net_plan *p, const struct dray_objects *routes, enum source of,
                       struct arena *a, struct err *err)
{
    const struct route_params *all = routes->p;
    for (size_t i = 0; i < routes->n; i++) {
        struct net_route route = {0};
        bool there = false;
        int r = net_plan_read_route(&all[i], of, &route, err);
        if (r == 0 && p->routes.n == NET_LIST_MAX)
            r = too_many(err);
        if (r != 0)
            return net_plan_in_item(r, i, "routes", err);
        vec_foreach(&p->routes, have) {
            if (same_route(have, &route)) {
                *have = route;
                there = true;
            }
        }
        if (!there)
            vec_push_arena(a, &p->routes, route);
    }
    return 0;
}

static int net_plan_read_rule(const struct rule_params *rule, struct net_rule *ret, struct err *err)
{
    int r = read_network(rule->source, "source", &ret->source, err);
    if (r == 0)
        r = read_network(rule->destination, "destination", &ret->destination, err);
    if (r == 0 && ret->source.family && ret->destination.family &&
        ret->source.family != ret->destination.family)
        r = err_set(err, ERR_INVALID, "source and destination must both be IPv4 or both IPv6");
    ret->priority = (uint32_t)rule->priority;
    ret->table = (uint32_t)rule->table;
    return r;
}

static int net_plan_read_rules(struct net_plan *p, const struct dray_objects *rules,
                               struct arena *a, struct err *err)
{
    const struct rule_params *all = rules->p;
    for (size_t i = 0; i < rules->n; i++) {
        struct net_rule rule = {0};
        bool there = false;
        int r = net_plan_read_rule(&all[i], &rule, err);
        if (r == 0 && p->rules.n == NET_LIST_MAX)
            r = too_many(err);
        if (r != 0)
            return net_plan_in_item(r, i, "rules", err);
        vec_foreach(&p->rules, have)
            there = there || (net_ip_equal(&have->source, &rule.source) &&
                              net_ip_equal(&have->destination, &rule.destination) &&
                              have->priority == rule.priority && have->table == rule.table);
        if (!there)
            vec_push_arena(a, &p->rules, rule);
    }
    return 0;
}

static int read_neighbors(struct net_plan *p, const struct dray_objects *neighbors, struct arena *a,
                          struct err *err)
{
    const struct neighbor_params *all = neighbors->p;
    for (size_t i = 0; i < neighbors->n; i++) {
        struct net_neighbor n = {0};
        bool there = false;
        int r =
            net_plan_in_field(net_ip_parse(str_z(all[i].destination), false, &n.destination, err),
                              "destination", err);
        if (r == 0)
            r = net_plan_in_field(net_mac_parse(str_z(all[i].mac), &n.mac, err), "hardwareAddr",
                                  err);
        if (r == 0 && p->neighbors.n == NET_LIST_MAX)
            r = too_many(err);
        if (r != 0)
            return net_plan_in_item(r, i, "neighbors", err);
        vec_foreach(&p->neighbors, have) {
            if (net_ip_equal(&have->destination, &n.destination)) {
                *have = n;
                there = true;
            }
        }
        if (!there)
            vec_push_arena(a, &p->neighbors, n);
    }
    return 0;
}

static int net_plan_read_flags(struct net_flags *to, const struct dray_flags *from,
                               const char *field, struct arena *a, struct err *err)
{
    for (size_t i = 0; i < from->n; i++) {
        struct str name = str_z(from->p[i].name);
        bool there = false;
        if (name.n == 0 || name.n >= 32 || to->n == NET_LIST_MAX)
            return net_plan_in_field(err_set(err, ERR_INVALID,
                                             "a feature's name has 1 to 31 characters, and "
                                             "there are at most %d",
                                             NET_LIST_MAX),
                                     field, err);
        vec_foreach(to, have) {
            if (str_eq(have->name, name)) {
                have->on = from->p[i].on;
                there = true;
            }
        }
        if (!there)
            vec_push_arena(a, to, ((struct net_flag){arena_str(a, name), from->p[i].on}));
    }
    return 0;
}

static int net_plan_merge(struct net_plan *p, const struct params *from, enum source of,
                          struct arena *a, struct err *err)
{
    int r = 0;
    if (from->profile && *from->profile)
        return net_plan_in_field(
            err_set(err, ERR_INVALID,
                    "this driver has no profiles; say what the interface is to have"),
            "profile", err);
    if (from->interface)
        r = net_plan_in_field(read_interface(p, from->interface, of, a, err), "interface", err);
    if (r == 0)
        r = read_routes(p, &from->routes, of, a, err);
    if (r == 0)
        r = net_plan_read_rules(p, &from->rules, a, err);
    if (r == 0 && p->vrf[0] && p->rules.n)
        r = net_plan_in_field(
            err_set(err, ERR_INVALID, "cannot be used together with interface.vrf"), "rules", err);
    if (r == 0)
        r = read_neighbors(p, &from->neighbors, a, err);
    if (r == 0 && from->ethtool)
        r = net_plan_in_field(net_plan_read_flags(&p->features, &from->ethtool->features,
                                                  "features", a, err),
                              "ethtool", err);
    if (r == 0 && from->ethtool)
        r = net_plan_in_field(net_plan_read_flags(&p->private_flags, &from->ethtool->private_flags,
                                                  "privateFlags", a, err),
                              "ethtool", err);
    return r;
}

// Lists of a copy, so that a plan that could not be merged stays as it was.
#define COPY_LIST(a, list)                                                             \
    ((list)->p = (list)->n ? arena_dup((a), (list)->p, (list)->n * sizeof(*(list)->p), \
                                       _Alignof(max_align_t))                          \
                           : NULL,                                                     \
     (void)((list)->cap = (list)->n))

static int net_plan_add_json(struct net_plan *p, const char *json, enum source of,
                             struct arena *arena, struct err *err)
{
    struct dray_params *params = NULL;
    struct dray_error why = {0};
    if (dray_decode(json, &schema, 1, NULL, &params, &why) != 0) {
        int r = err_set(err, ERR_INVALID, "%s", why.message);
        return why.field[0] ? net_plan_in_field(r, why.field, err) : r;
    }
    struct net_plan made = *p;
    COPY_LIST(arena, &made.addresses);
    COPY_LIST(arena, &made.routes);
    COPY_LIST(arena, &made.rules);
    COPY_LIST(arena, &made.neighbors);
    COPY_LIST(arena, &made.features);
    COPY_LIST(arena, &made.private_flags);
    int r = net_plan_merge(&made, dray_params_value(params), of, arena, err);
    dray_params_free(params);
    if (r == 0)
        *p = made;
    return r;
}

int net_plan_add(struct net_plan *p, const char *json, struct arena *arena, struct err *err)
{
    return net_plan_add_json(p, json, OF_USER, arena, err);
}

int net_plan_read(struct net_plan *p, const char *json, struct arena *arena, struct err *err)
{
    return net_plan_add_json(p, json, OF_KERNEL, arena, err);
}
