// SPDX-License-Identifier: Apache-2.0
//
// Claims, templates, classes and slices in words.
#include "cmd/objects/describe.h"
#include "view/human.h"
#include "view/table.h"

#include "base/banned.h"

static void describe_dra_add_selectors(struct sbuf *out, size_t indent, const yyjson_val *selectors)
{
    if (!selectors)
        return;
    json_arr_foreach(selectors, s)
        describe_field(out, indent, "Selector", objects_text(s, "cel.expression"));
}

static void add_config(struct sbuf *out, size_t indent, const yyjson_val *configs)
{
    if (!configs)
        return;
    json_arr_foreach(configs, c) {
        cleanup_sbuf struct sbuf text = {0};
        sbuf_addf(&text, "%.*s ", STR_ARG(objects_text(c, "opaque.driver")));
        describe_value(&text, objects_at(c, "opaque.parameters"));
        describe_field(out, indent, "Config", sbuf_str(&text));
    }
}

// --- Requests ------------------------------------------------------------------------------------

// add_wish adds what one request or alternative wants.
static void add_wish(struct sbuf *out, size_t indent, const yyjson_val *wish)
{
    cleanup_sbuf struct sbuf text = {0};
    const yyjson_val *count = objects_at(wish, "count");
    const yyjson_val *capacity = objects_at(wish, "capacity.requests");
    const yyjson_val *admin = objects_at(wish, "adminAccess");
    bool all = str_eqz(objects_text(wish, "allocationMode"), "All");
    sbuf_addz(&text, all ? "all devices" : "");
    if (!all && count)
        describe_value(&text, count);
    else if (!all)
        sbuf_addz(&text, "1");
    sbuf_addf(&text, " of class %.*s", STR_ARG(objects_text(wish, "deviceClassName")));
    if (capacity) {
        sbuf_addz(&text, ", with ");
        describe_map_line(&text, capacity);
    }
    if (admin)
        sbuf_addz(&text, ", admin access");
    describe_field(out, indent, "Wants", sbuf_str(&text));
    describe_dra_add_selectors(out, indent, objects_list(wish, "selectors"));
}

static void describe_dra_add_request(struct sbuf *out, const yyjson_val *request)
{
    const yyjson_val *exactly = objects_at(request, "exactly");
    const yyjson_val *first = objects_list(request, "firstAvailable");
    describe_field(out, 2, "Request", objects_text(request, "name"));
    if (exactly)
        add_wish(out, 4, exactly);
    if (!first)
        return;
    json_arr_foreach(first, sub) {
        describe_field(out, 4, "Or, by turn", objects_text(sub, "name"));
        add_wish(out, 6, sub);
    }
}

static void add_constraint(struct sbuf *out, const yyjson_val *c)
{
    cleanup_sbuf struct sbuf text = {0};
    const yyjson_val *requests = objects_list(c, "requests");
    bool match = objects_text(c, "matchAttribute").n > 0;
    sbuf_addf(&text, "%s %.*s", match ? "the same" : "different",
              STR_ARG(objects_text(c, match ? "matchAttribute" : "distinctAttribute")));
    if (requests && json_len(requests)) {
        sbuf_addz(&text, " for ");
        describe_value(&text, requests);
    }
    describe_field(out, 2, "Constraint", sbuf_str(&text));
}

static void describe_dra_add_devices(struct sbuf *out, const yyjson_val *devices)
{
    const yyjson_val *requests = objects_list(devices, "requests");
    const yyjson_val *constraints = objects_list(devices, "constraints");
    sbuf_addz(out, "Asks for:\n");
    if (requests) {
        json_arr_foreach(requests, r)
            describe_dra_add_request(out, r);
    }
    if (constraints) {
        json_arr_foreach(constraints, c)
            add_constraint(out, c);
    }
    add_config(out, 2, objects_list(devices, "config"));
}

// --- What it got ---------------------------------------------------------------------------------

static void describe_dra_add_result(struct sbuf *out, const yyjson_val *r)
{
    cleanup_sbuf struct sbuf text = {0};
    const yyjson_val *consumed = objects_at(r, "consumedCapacity");
    sbuf_addf(&text, "device %.*s of pool %.*s, driver %.*s", STR_ARG(objects_text(r, "device")),
              STR_ARG(objects_text(r, "pool")), STR_ARG(objects_text(r, "driver")));
    if (consumed) {
        sbuf_addz(&text, ", ");
        describe_map_line(&text, consumed);
        sbuf_addz(&text, " of it");
    }
    describe_field(out, 2, "Request", objects_text(r, "request"));
    describe_field(out, 4, "Got", sbuf_str(&text));
}

// describe_dra_node_name finds the node's name in a node selector that names one.
static struct str describe_dra_node_name(const yyjson_val *allocation)
{
    struct str field =
        objects_text(allocation, "nodeSelector.nodeSelectorTerms[0].matchFields[0].values[0]");
    return field.n
               ? field
               : objects_text(allocation,
                              "nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values[0]");
}

static void describe_dra_add_allocation(struct sbuf *out, const yyjson_val *claim)
{
    const yyjson_val *allocation = objects_at(claim, "status.allocation");
    const yyjson_val *results = objects_list(claim, "status.allocation.devices.results");
    if (!allocation) {
        cleanup_sbuf struct sbuf text = {0};
        struct str name = objects_text(claim, "metadata.name");
        sbuf_addf(&text, "none yet; 'dray why claim/%.*s' explains it", STR_ARG(name));
        describe_field(out, 0, "Allocation", sbuf_str(&text));
        return;
    }
    struct str node = describe_dra_node_name(allocation);
    describe_field(out, 0, "Allocation", node.n ? node : STR("on nodes that reach the devices"));
    if (results) {
        json_arr_foreach(results, r)
            describe_dra_add_result(out, r);
    }
    add_config(out, 2, objects_list(allocation, "devices.config"));
}

static void add_users(struct sbuf *out, const yyjson_val *claim)
{
    const yyjson_val *users = objects_list(claim, "status.reservedFor");
    if (!users || json_len(users) == 0) {
        describe_field(out, 0, "In use by", STR("<none>"));
        return;
    }
    json_arr_foreach(users, u) {
        cleanup_sbuf struct sbuf text = {0};
        sbuf_addf(&text, "%.*s/%.*s", STR_ARG(objects_text(u, "resource")),
                  STR_ARG(objects_text(u, "name")));
        describe_field(out, 0, "In use by", sbuf_str(&text));
    }
}

static void add_states(struct sbuf *out, const yyjson_val *claim)
{
    const yyjson_val *devices = objects_list(claim, "status.devices");
    if (!devices)
        return;
    json_arr_foreach(devices, d) {
        cleanup_sbuf struct sbuf name = {0};
        sbuf_addf(&name, "%.*s/%.*s", STR_ARG(objects_text(d, "pool")),
                  STR_ARG(objects_text(d, "device")));
        describe_field(out, 0, "Device", sbuf_str(&name));
        describe_field(out, 2, "Interface", objects_text(d, "networkData.interfaceName"));
        const yyjson_val *ips = objects_list(d, "networkData.ips");
        if (ips) {
            json_arr_foreach(ips, ip)
                describe_field(out, 2, "Address", json_is_string(ip) ? json_str(ip) : STR(""));
        }
    }
}

void describe_claim(struct sbuf *out, const yyjson_val *claim)
{
    describe_dra_add_devices(out, objects_at(claim, "spec.devices"));
    describe_dra_add_allocation(out, claim);
    add_users(out, claim);
    add_states(out, claim);
}

void describe_template(struct sbuf *out, const yyjson_val *template)
{
    describe_map(out, 0, "Claim labels", objects_at(template, "spec.metadata.labels"));
    describe_dra_add_devices(out, objects_at(template, "spec.spec.devices"));
}

void describe_class(struct sbuf *out, const yyjson_val *class)
{
    if (objects_text(class, "spec.extendedResourceName").n)
        describe_field(out, 0, "Also called", objects_text(class, "spec.extendedResourceName"));
    describe_dra_add_selectors(out, 0, objects_list(class, "spec.selectors"));
    add_config(out, 0, objects_list(class, "spec.config"));
}

// --- Slices --------------------------------------------------------------------------------------

// add_typed adds attributes or capacities: name=value, whatever the value's type is called.
static void add_typed(struct sbuf *out, const yyjson_val *map)
{
    const char *between = "";
    if (!map || !json_is_object(map))
        return;
    json_obj_foreach(map, key, value) {
        sbuf_addf(out, "%s%.*s=", between, STR_ARG(json_str(key)));
        between = ", ";
        if (!json_is_object(value) || json_len(value) == 0)
            describe_value(out, value);
        else
            describe_value(out, json_obj_first(value) + 1);
    }
}

static void add_taints(struct sbuf *out, const yyjson_val *taints)
{
    if (!taints)
        return;
    json_arr_foreach(taints, t) {
        cleanup_sbuf struct sbuf text = {0};
        sbuf_addf(&text, "%.*s=%.*s:%.*s", STR_ARG(objects_text(t, "key")),
                  STR_ARG(objects_text(t, "value")), STR_ARG(objects_text(t, "effect")));
        describe_field(out, 4, "Taint", sbuf_str(&text));
    }
}

static void describe_dra_add_device(struct sbuf *out, const yyjson_val *d)
{
    cleanup_sbuf struct sbuf attributes = {0}, capacity = {0};
    add_typed(&attributes, objects_at(d, "attributes"));
    add_typed(&capacity, objects_at(d, "capacity"));
    describe_field(out, 2, "Device", objects_text(d, "name"));
    describe_field(out, 4, "Attributes", sbuf_str(&attributes));
    describe_field(out, 4, "Capacity", sbuf_str(&capacity));
    if (objects_text(d, "nodeName").n)
        describe_field(out, 4, "Node", objects_text(d, "nodeName"));
    add_taints(out, objects_list(d, "taints"));
}

static void describe_dra_add_number(struct sbuf *out, size_t indent, const char *name,
                                    const yyjson_val *v)
{
    cleanup_sbuf struct sbuf text = {0};
    describe_value(&text, v);
    describe_field(out, indent, name, sbuf_str(&text));
}

void describe_slice(struct sbuf *out, const yyjson_val *slice)
{
    const yyjson_val *devices = objects_list(slice, "spec.devices");
    describe_field(out, 0, "Driver", objects_text(slice, "spec.driver"));
    describe_field(out, 0, "Pool", objects_text(slice, "spec.pool.name"));
    describe_dra_add_number(out, 2, "Generation", objects_at(slice, "spec.pool.generation"));
    describe_dra_add_number(out, 2, "Slices", objects_at(slice, "spec.pool.resourceSliceCount"));
    describe_field(out, 0, "Node",
                   objects_at(slice, "spec.allNodes") ? STR("all")
                                                      : objects_text(slice, "spec.nodeName"));
    if (!devices)
        return;
    json_arr_foreach(devices, d)
        describe_dra_add_device(out, d);
}
