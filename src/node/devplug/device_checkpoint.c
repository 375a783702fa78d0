// SPDX-License-Identifier: Apache-2.0
//
// The ledger as the text of kubelet's checkpoint and back. kubelet's checksum is that of the data
// as a Go program would print it, so that form is made here too.
#include <stdlib.h>

#include "codec/base64.h"
#include "codec/json_writer.h"
#include "node/checkpoint.h"
#include "node/devplug/device_ledger.h"

#include "base/banned.h"

// --- Order ---------------------------------------------------------------------------------------

struct node_list VEC(int64_t);

static int device_checkpoint_compare_numbers(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// The nodes of a grant's devices, each once, in ascending order.
static struct node_list device_checkpoint_numa_nodes(const struct device_grant *g, struct arena *a)
{
    struct node_list all = {0}, once = {0};
    vec_foreach(&g->devices, d)
        vec_push_arena(a, &all, d->node);
    if (all.n > 0)
        qsort(all.p, all.n, sizeof(*all.p), device_checkpoint_compare_numbers);
    vec_foreach(&all, node)
        if (once.n == 0 || *vec_last(&once) != *node)
            vec_push_arena(a, &once, *node);
    return once;
}

static int device_checkpoint_compare_resources(const void *a, const void *b)
{
    return str_cmp(((const struct device_registered *)a)->resource,
                   ((const struct device_registered *)b)->resource);
}

static struct device_registrations device_checkpoint_sort_registrations(
    const struct device_registrations *r, struct arena *a)
{
    struct device_registrations all = {0};
    vec_foreach(r, one)
        vec_push_arena(a, &all, *one);
    if (all.n > 0)
        qsort(all.p, all.n, sizeof(*all.p), device_checkpoint_compare_resources);
    return all;
}

// --- The checksum --------------------------------------------------------------------------------

static void device_checkpoint_print_grant(const struct device_grant *g, struct arena *a,
                                          struct sbuf *out)
{
    struct node_list nodes = device_checkpoint_numa_nodes(g, a);
    sbuf_addf(out,
              "{PodUID:(string)%.*s ContainerName:(string)%.*s ResourceName:(string)%.*s "
              "DeviceIDs:(checkpoint.DevicesPerNUMA)map[",
              STR_ARG(g->pod_uid), STR_ARG(g->container), STR_ARG(g->resource));
    vec_foreach(&nodes, node) {
        sbuf_addf(out, "%s%lld:[", node == nodes.p ? "" : " ", (long long)*node);
        const char *space = "";
        vec_foreach(&g->devices, d) {
            if (d->node != *node)
                continue;
            sbuf_addz(out, space);
            sbuf_add(out, d->id);
            space = " ";
        }
        sbuf_addc(out, ']');
    }
    sbuf_addz(out, "] AllocResp:([]uint8)[");
    for (size_t i = 0; i < g->response.n; i++)
        sbuf_addf(out, "%s%u", i ? " " : "", (unsigned)(unsigned char)g->response.p[i]);
    sbuf_addz(out, "]}");
}

static void device_checkpoint_print_registrations(const struct device_registrations *sorted,
                                                  struct sbuf *out)
{
    sbuf_addz(out, " RegisteredDevices:(map[string][]string)map[");
    vec_foreach(sorted, r) {
        sbuf_addf(out, "%s%.*s:[", r == sorted->p ? "" : " ", STR_ARG(r->resource));
        vec_foreach(&r->ids, id) {
            sbuf_addz(out, id == r->ids.p ? "" : " ");
            sbuf_add(out, *id);
        }
        sbuf_addc(out, ']');
    }
    sbuf_addz(out, "]}");
}

static uint32_t device_checkpoint_hash_fnv1a(struct str bytes)
{
    uint32_t sum = UINT32_C(2166136261);
    for (size_t i = 0; i < bytes.n; i++)
        sum = (sum ^ (unsigned char)bytes.p[i]) * UINT32_C(16777619);
    return sum;
}

static uint32_t device_checkpoint_checksum(const struct device_ledger *l,
                                           const struct device_registrations *r)
{
    cleanup_sbuf struct sbuf text = {0};
    cleanup_arena struct arena a = {0};
    struct device_registrations sorted = device_checkpoint_sort_registrations(r, &a);
    bool any = false;
    sbuf_addz(&text, "(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)");
    vec_foreach(&l->grants, g) {
        if (!(*g)->settled)
            continue;
        sbuf_addc(&text, any ? ' ' : '[');
        any = true;
        device_checkpoint_print_grant(*g, &a, &text);
    }
    sbuf_addz(&text, any ? "]" : "<nil>");
    device_checkpoint_print_registrations(&sorted, &text);
    return device_checkpoint_hash_fnv1a(sbuf_str(&text));
}

// --- Writing -------------------------------------------------------------------------------------

static void device_checkpoint_write_devices(struct json_writer *w, const struct device_grant *g,
                                            struct arena *a)
{
    struct node_list nodes = device_checkpoint_numa_nodes(g, a);
    json_write_key(w, STR("DeviceIDs"));
    json_write_object_begin(w);
    vec_foreach(&nodes, node) {
        json_write_key(w, arena_strf(a, "%lld", (long long)*node));
        json_write_array_begin(w);
        vec_foreach(&g->devices, d)
            if (d->node == *node)
                json_write_str(w, d->id);
        json_write_array_end(w);
    }
    json_write_object_end(w);
}

static void device_checkpoint_write_grant(struct json_writer *w, const struct device_grant *g,
                                          struct arena *a)
{
    cleanup_sbuf struct sbuf response = {0};
    base64_encode(g->response, BASE64_STD, &response);
    json_write_object_begin(w);
    json_write_text(w, "PodUID", g->pod_uid);
    json_write_text(w, "ContainerName", g->container);
    json_write_text(w, "ResourceName", g->resource);
    device_checkpoint_write_devices(w, g, a);
    json_write_text(w, "AllocResp", sbuf_str(&response));
    json_write_object_end(w);
}

static void device_checkpoint_write_grants(struct json_writer *w, const struct device_ledger *l,
                                           struct arena *a)
{
    bool any = false;
    json_write_key(w, STR("PodDeviceEntries"));
    vec_foreach(&l->grants, g) {
        if (!(*g)->settled)
            continue;
        if (!any)
            json_write_array_begin(w);
        any = true;
        device_checkpoint_write_grant(w, *g, a);
    }
    if (any)
        json_write_array_end(w);
    else
        json_write_null(w); // Go's nil
}

void device_ledger_write(const struct device_ledger *l, const struct device_registrations *r,
                         struct sbuf *out)
{
    cleanup_arena struct arena a = {0};
    struct device_registrations sorted = device_checkpoint_sort_registrations(r, &a);
    struct json_writer w = {.out = out, .html = true};
    json_write_object_begin(&w);
    json_write_key(&w, STR("Data"));
    json_write_object_begin(&w);
    device_checkpoint_write_grants(&w, l, &a);
    json_write_key(&w, STR("RegisteredDevices"));
    json_write_object_begin(&w);
    vec_foreach(&sorted, one) {
        json_write_key(&w, one->resource);
        json_write_array_begin(&w);
        vec_foreach(&one->ids, id)
            json_write_str(&w, *id);
        json_write_array_end(&w);
    }
    json_write_object_end(&w);
    json_write_object_end(&w);
    json_write_key(&w, STR("Checksum"));
    json_write_u64(&w, device_checkpoint_checksum(l, r));
    json_write_object_end(&w);
}

// --- Reading -------------------------------------------------------------------------------------

static int device_checkpoint_read_devices(const yyjson_val *v, struct device_grant *g,
                                          struct err *err)
{
    int r = v ? json_want_object(v, err) : 0;
    if (!v || r < 0)
        return r;
    json_obj_foreach(v, key, list) {
        int64_t node;
        struct str id;
        if (str_to_i64(json_str(key), &node) < 0)
            return err_set(err, ERR_BAD_REQUEST, "a NUMA node must be a number");
        if (json_is_null(list))
            continue;
        r = json_want_array(list, err);
        if (r < 0)
            return r;
        json_arr_foreach(list, item) {
            r = json_to_str(item, &id, err);
            if (r < 0)
                return r;
            device_grant_add(g, node, id);
        }
    }
    return 0;
}

static int device_checkpoint_read_grant(const yyjson_val *v, struct device_ledger *l,
                                        struct err *err)
{
    struct str pod = {0}, container = {0}, resource = {0}, response = {0};
    cleanup_sbuf struct sbuf bytes = {0};
    int r = json_want_object(v, err);
    if (r == 0)
        r = checkpoint_text(v, STR("PodUID"), &pod, err);
    if (r == 0)
        r = checkpoint_text(v, STR("ContainerName"), &container, err);
    if (r == 0)
        r = checkpoint_text(v, STR("ResourceName"), &resource, err);
    if (r == 0)
        r = checkpoint_text(v, STR("AllocResp"), &response, err);
    if (r == 0)
        r = base64_decode(response, BASE64_STD, &bytes, err);
    if (r < 0)
        return r;
    struct device_grant *g = device_ledger_add(l, pod, container, resource);
    g->response = arena_str(&g->arena, sbuf_str(&bytes));
    g->settled = true;
    return device_checkpoint_read_devices(checkpoint_member(v, STR("DeviceIDs")), g, err);
}

static int device_checkpoint_read_grants(const yyjson_val *v, struct device_ledger *l,
                                         struct err *err)
{
    int r = v ? json_want_array(v, err) : 0;
    if (!v || r < 0)
        return r;
    if (json_len(v) > DEVICE_GRANTS_MAX)
        return err_set(err, ERR_BAD_REQUEST, "more than %d grants", DEVICE_GRANTS_MAX);
    size_t i = 0;
    json_arr_foreach(v, item) {
        r = device_checkpoint_read_grant(item, l, err);
        if (r < 0) {
            err_path_index(err, i);
            return r;
        }
        i++;
    }
    return 0;
}

static int device_checkpoint_read_registered(const yyjson_val *v, struct arena *a,
                                             struct device_registrations *out, struct err *err)
{
    int r = v ? json_want_object(v, err) : 0;
    if (!v || r < 0)
        return r;
    json_obj_foreach(v, key, list) {
        struct device_registered one = {.resource = arena_str(a, json_str(key))};
        r = json_is_null(list) ? 0 : json_want_array(list, err);
        if (r < 0)
            return r;
        json_arr_foreach(list, item) {
            struct str id;
            r = json_to_str(item, &id, err);
            if (r < 0)
                return r;
            vec_push_arena(a, &one.ids, arena_str(a, id));
        }
        vec_push_arena(a, out, one);
    }
    return 0;
}

static int device_checkpoint_read_all(const yyjson_val *root, struct device_ledger *l,
                                      struct arena *a, struct device_registrations *out,
                                      struct err *err)
{
    uint64_t sum = 0;
    int r = json_want_object(root, err);
    const yyjson_val *data = r == 0 ? checkpoint_member(root, STR("Data")) : NULL;
    const yyjson_val *said = r == 0 ? checkpoint_member(root, STR("Checksum")) : NULL;
    if (data)
        r = json_want_object(data, err);
    if (data && r == 0)
        r = device_checkpoint_read_grants(checkpoint_member(data, STR("PodDeviceEntries")), l, err);
    if (data && r == 0)
        r = device_checkpoint_read_registered(checkpoint_member(data, STR("RegisteredDevices")), a,
                                              out, err);
    if (said && r == 0)
        r = json_to_u64(said, &sum, err);
    if (r < 0)
        return -ERR_BAD_REQUEST;
    uint32_t want = device_checkpoint_checksum(l, out);
    if (sum != want)
        return err_set(err, ERR_INVALID,
                       "checkpoint is corrupted: the checksum is %llu, that of the data is %u",
                       (unsigned long long)sum, want);
    return 0;
}

int device_ledger_read(struct str text, struct device_ledger *ret, struct arena *arena,
                       struct device_registrations *ret_registered, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    int r = json_parse(text, &checkpoint_json, &doc, err) < 0
                ? -ERR_BAD_REQUEST
                : device_checkpoint_read_all(doc.root, ret, arena, ret_registered, err);
    if (r < 0) {
        device_ledger_done(ret);
        vec_clear(ret_registered);
    }
    return r;
}
