// SPDX-License-Identifier: Apache-2.0
//
// Writes plans as parameters: records on disk have the same form as a user's configuration.
#include "codec/json_writer.h"
#include "driver/net/net_plan.h"

#include "base/banned.h"

static void net_plan_write_number(struct json_writer *w, const char *key, int64_t value)
{
    if (value > 0)
        json_write_number(w, key, value);
}

static void net_plan_write_ip(struct json_writer *w, const char *key, const struct net_ip *value,
                              bool prefix)
{
    char buf[NET_IP_TEXT_MAX];
    net_ip_text(value, prefix, buf);
    json_write_text_if(w, key, str_z(buf));
}

static void net_plan_write_mac(struct json_writer *w, const char *key, const struct net_mac *value)
{
    char buf[NET_MAC_TEXT_MAX];
    net_mac_text(value, buf);
    json_write_text_if(w, key, str_z(buf));
}

static void write_interface(const struct net_plan *p, struct json_writer *w)
{
    static const char *const sizes[NET_SIZES] = {"gsoMaxSize", "groMaxSize", "gsoIPv4MaxSize",
                                                 "groIPv4MaxSize"};
    json_write_object_in(w, "interface");
    json_write_text_if(w, "name", str_z(p->name));
    if (p->addresses.n) {
        json_write_array_in(w, "addresses");
        vec_foreach(&p->addresses, a) {
            char buf[NET_IP_TEXT_MAX];
            net_ip_text(a, true, buf);
            json_write_str(w, str_z(buf));
        }
        json_write_array_end(w);
    }
    net_plan_write_number(w, "mtu", p->mtu);
    net_plan_write_mac(w, "hardwareAddr", &p->mac);
    for (size_t i = 0; i < NET_SIZES; i++)
        net_plan_write_number(w, sizes[i], p->sizes[i]);
    if (p->drop_ebpf)
        json_write_flag(w, "disableEbpfPrograms", true);
    if (p->forwarding != NET_UNSET) {
        json_write_flag(w, "forwarding", p->forwarding != 0);
    }
    if (p->arp_ignore != NET_UNSET)
        json_write_number(w, "arpIgnore", p->arp_ignore);
    if (p->arp_announce != NET_UNSET) {
        json_write_number(w, "arpAnnounce", p->arp_announce);
    }
    if (p->vrf[0]) {
        json_write_object_in(w, "vrf");
        json_write_text_if(w, "name", str_z(p->vrf));
        net_plan_write_number(w, "table", p->vrf_table);
        json_write_object_end(w);
    }
    json_write_object_end(w);
}

static void write_routes(const struct net_plan *p, struct json_writer *w)
{
    json_write_array_in(w, "routes");
    vec_foreach(&p->routes, r) {
        json_write_object_begin(w);
        net_plan_write_ip(w, "destination", &r->destination, true);
        net_plan_write_ip(w, "gateway", &r->gateway, false);
        net_plan_write_ip(w, "source", &r->source, false);
        net_plan_write_number(w, "scope", r->scope);
        net_plan_write_number(w, "table", r->table);
        net_plan_write_number(w, "metric", r->metric);
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

static void write_rules(const struct net_plan *p, struct json_writer *w)
{
    json_write_array_in(w, "rules");
    vec_foreach(&p->rules, r) {
        json_write_object_begin(w);
        net_plan_write_number(w, "priority", r->priority);
        net_plan_write_ip(w, "source", &r->source, true);
        net_plan_write_ip(w, "destination", &r->destination, true);
        net_plan_write_number(w, "table", r->table);
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

static void write_neighbors(const struct net_plan *p, struct json_writer *w)
{
    json_write_array_in(w, "neighbors");
    vec_foreach(&p->neighbors, n) {
        json_write_object_begin(w);
        net_plan_write_ip(w, "destination", &n->destination, false);
        net_plan_write_mac(w, "hardwareAddr", &n->mac);
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

static void write_flags(const struct net_flags *flags, const char *key, struct json_writer *w)
{
    json_write_object_in(w, key);
    vec_foreach(flags, f) {
        json_write_key(w, f->name);
        json_write_bool(w, f->on);
    }
    json_write_object_end(w);
}

void net_plan_write(const struct net_plan *p, struct json_writer *w)
{
    json_write_object_begin(w);
    write_interface(p, w);
    if (p->routes.n)
        write_routes(p, w);
    if (p->rules.n)
        write_rules(p, w);
    if (p->neighbors.n)
        write_neighbors(p, w);
    if (p->features.n || p->private_flags.n) {
        json_write_object_in(w, "ethtool");
        write_flags(&p->features, "features", w);
        write_flags(&p->private_flags, "privateFlags", w);
        json_write_object_end(w);
    }
    json_write_object_end(w);
}
