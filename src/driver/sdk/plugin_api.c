// SPDX-License-Identifier: Apache-2.0
//
// The messages that kubelet and its plugins exchange, as tables over the protobuf codec. Lists are
// bounded by the message's size.
#include "driver/plugin_api.h"

#include "base/banned.h"

enum kind {
    KIND_STR,
    KIND_OPTIONAL_STR, // a bool follows it in the struct
    KIND_BOOL,
    KIND_I64,
    KIND_STRS,
    KIND_I64S,
    KIND_ONE,
    KIND_MANY,
};

struct field {
    uint32_t number;
    enum kind kind;
    size_t offset;
    const struct plugin_message *message; // of ONE and MANY
};

// Fields stand in ascending order of their numbers.
struct plugin_message {
    size_t size;
    const struct field *fields;
    size_t fields_len;
};

// Every VEC has this form.
struct any_list {
    void *p;
    size_t n;
    size_t cap;
};

#define MESSAGE(name, type, ...)                                               \
    static const struct field name##_fields[] = {__VA_ARGS__};                 \
    const struct plugin_message name##_message = {sizeof(type), name##_fields, \
                                                  array_len(name##_fields)}

// NOLINTBEGIN(bugprone-macro-parentheses): members cannot stand in parentheses
#define FIELD(number, kind, type, member)                 \
    {                                                     \
        number, KIND_##kind, offsetof(type, member), NULL \
    }
#define NESTED(number, kind, type, member, of)                     \
    {                                                              \
        number, KIND_##kind, offsetof(type, member), &of##_message \
    }
#define PART(name, type, ...)                                                         \
    static const struct field name##_fields[] = {__VA_ARGS__};                        \
    static const struct plugin_message name##_message = {sizeof(type), name##_fields, \
                                                         array_len(name##_fields)}
// NOLINTEND(bugprone-macro-parentheses)

const struct plugin_message plugin_empty_message = {sizeof(struct plugin_empty), NULL, 0};

MESSAGE(plugin_info, struct plugin_info, FIELD(1, STR, struct plugin_info, type),
        FIELD(2, STR, struct plugin_info, name), FIELD(3, STR, struct plugin_info, endpoint),
        FIELD(4, STRS, struct plugin_info, supported_versions));

MESSAGE(plugin_registration_status, struct plugin_registration_status,
        FIELD(1, BOOL, struct plugin_registration_status, plugin_registered),
        FIELD(2, STR, struct plugin_registration_status, error));

PART(claim, struct plugin_claim, FIELD(1, STR, struct plugin_claim, namespace),
     FIELD(2, STR, struct plugin_claim, uid), FIELD(3, STR, struct plugin_claim, name));
MESSAGE(plugin_claims, struct plugin_claims, NESTED(1, MANY, struct plugin_claims, claims, claim));

PART(device, struct plugin_device, FIELD(1, STRS, struct plugin_device, request_names),
     FIELD(2, STR, struct plugin_device, pool_name),
     FIELD(3, STR, struct plugin_device, device_name),
     FIELD(4, STRS, struct plugin_device, cdi_device_ids),
     FIELD(5, OPTIONAL_STR, struct plugin_device, share_id));
_Static_assert(offsetof(struct plugin_device, has_share_id) ==
                   offsetof(struct plugin_device, share_id) + sizeof(struct str),
               "an optional text is followed by its flag");

#define PREPARED __typeof__(((struct plugin_prepared *)NULL)->claim)
PART(prepared_claim, PREPARED, NESTED(1, MANY, PREPARED, devices, device),
     FIELD(2, STR, PREPARED, error));
PART(prepared, struct plugin_prepared, FIELD(1, STR, struct plugin_prepared, uid),
     NESTED(2, ONE, struct plugin_prepared, claim, prepared_claim));
MESSAGE(plugin_prepare_response, struct plugin_prepare_response,
        NESTED(1, MANY, struct plugin_prepare_response, claims, prepared));

#define UNPREPARED __typeof__(((struct plugin_unprepared *)NULL)->claim)
PART(unprepared_claim, UNPREPARED, FIELD(1, STR, UNPREPARED, error));
PART(unprepared, struct plugin_unprepared, FIELD(1, STR, struct plugin_unprepared, uid),
     NESTED(2, ONE, struct plugin_unprepared, claim, unprepared_claim));
MESSAGE(plugin_unprepare_response, struct plugin_unprepare_response,
        NESTED(1, MANY, struct plugin_unprepare_response, claims, unprepared));

#define HEALTH_DEVICE __typeof__(((struct plugin_device_health *)NULL)->device)
PART(health_device, HEALTH_DEVICE, FIELD(1, STR, HEALTH_DEVICE, pool_name),
     FIELD(2, STR, HEALTH_DEVICE, device_name));
PART(device_health, struct plugin_device_health,
     NESTED(1, ONE, struct plugin_device_health, device, health_device),
     FIELD(2, I64, struct plugin_device_health, health),
     FIELD(3, I64, struct plugin_device_health, last_updated_time_sec),
     FIELD(4, I64, struct plugin_device_health, health_check_timeout_sec),
     FIELD(5, STR, struct plugin_device_health, message));
MESSAGE(plugin_health_response, struct plugin_health_response,
        NESTED(1, MANY, struct plugin_health_response, devices, device_health));

PART(cdi_device, struct plugin_cdi_device, FIELD(1, STR, struct plugin_cdi_device, name));
PART(claim_resource, struct plugin_claim_resource,
     NESTED(1, MANY, struct plugin_claim_resource, cdi_devices, cdi_device),
     FIELD(2, STR, struct plugin_claim_resource, driver_name),
     FIELD(3, STR, struct plugin_claim_resource, pool_name),
     FIELD(4, STR, struct plugin_claim_resource, device_name),
     FIELD(5, OPTIONAL_STR, struct plugin_claim_resource, share_id));
_Static_assert(offsetof(struct plugin_claim_resource, has_share_id) ==
                   offsetof(struct plugin_claim_resource, share_id) + sizeof(struct str),
               "an optional text is followed by its flag");
PART(dynamic_resource, struct plugin_dynamic_resource,
     FIELD(2, STR, struct plugin_dynamic_resource, claim_name),
     FIELD(3, STR, struct plugin_dynamic_resource, claim_namespace),
     NESTED(4, MANY, struct plugin_dynamic_resource, claim_resources, claim_resource));
PART(numa_node, struct plugin_numa_node, FIELD(1, I64, struct plugin_numa_node, id));
PART(topology, struct plugin_topology, NESTED(1, MANY, struct plugin_topology, nodes, numa_node));
PART(container_devices, struct plugin_container_devices,
     FIELD(1, STR, struct plugin_container_devices, resource_name),
     FIELD(2, STRS, struct plugin_container_devices, device_ids),
     NESTED(3, MANY, struct plugin_container_devices, topology, topology));
MESSAGE(plugin_allocatable_response, struct plugin_allocatable_response,
        NESTED(1, MANY, struct plugin_allocatable_response, devices, container_devices),
        FIELD(2, I64S, struct plugin_allocatable_response, cpu_ids));
PART(container_resources, struct plugin_container_resources,
     FIELD(1, STR, struct plugin_container_resources, name),
     NESTED(2, MANY, struct plugin_container_resources, devices, container_devices),
     FIELD(3, I64S, struct plugin_container_resources, cpu_ids),
     NESTED(5, MANY, struct plugin_container_resources, dynamic_resources, dynamic_resource));
PART(pod_resources, struct plugin_pod_resources, FIELD(1, STR, struct plugin_pod_resources, name),
     FIELD(2, STR, struct plugin_pod_resources, namespace),
     NESTED(3, MANY, struct plugin_pod_resources, containers, container_resources),
     FIELD(4, I64S, struct plugin_pod_resources, cpu_ids));
MESSAGE(plugin_list_pods_response, struct plugin_list_pods_response,
        NESTED(1, MANY, struct plugin_list_pods_response, pod_resources, pod_resources));
MESSAGE(plugin_get_pod_request, struct plugin_get_pod_request,
        FIELD(1, STR, struct plugin_get_pod_request, pod_name),
        FIELD(2, STR, struct plugin_get_pod_request, pod_namespace));
MESSAGE(plugin_get_pod_response, struct plugin_get_pod_response,
        NESTED(1, ONE, struct plugin_get_pod_response, pod_resources, pod_resources));

MESSAGE(plugin_devices_options, struct plugin_devices_options,
        FIELD(1, BOOL, struct plugin_devices_options, pre_start_required),
        FIELD(2, BOOL, struct plugin_devices_options, preferred_allocation_available));
MESSAGE(plugin_register_request, struct plugin_register_request,
        FIELD(1, STR, struct plugin_register_request, version),
        FIELD(2, STR, struct plugin_register_request, endpoint),
        FIELD(3, STR, struct plugin_register_request, resource_name),
        NESTED(4, ONE, struct plugin_register_request, options, plugin_devices_options));
PART(listed_device, struct plugin_listed_device, FIELD(1, STR, struct plugin_listed_device, id),
     FIELD(2, STR, struct plugin_listed_device, health),
     NESTED(3, MANY, struct plugin_listed_device, topology, topology));
MESSAGE(plugin_device_list, struct plugin_device_list,
        NESTED(1, MANY, struct plugin_device_list, devices, listed_device));
MESSAGE(plugin_device_ids, struct plugin_device_ids, FIELD(1, STRS, struct plugin_device_ids, ids));
MESSAGE(plugin_devices_by_container, struct plugin_devices_by_container,
        NESTED(1, MANY, struct plugin_devices_by_container, containers, plugin_device_ids));
PART(preference, struct plugin_preference, FIELD(1, STRS, struct plugin_preference, available),
     FIELD(2, STRS, struct plugin_preference, must_include),
     FIELD(3, I64, struct plugin_preference, size));
MESSAGE(plugin_preferred_request, struct plugin_preferred_request,
        NESTED(1, MANY, struct plugin_preferred_request, containers, preference));
PART(pair, struct plugin_pair, FIELD(1, STR, struct plugin_pair, key),
     FIELD(2, STR, struct plugin_pair, value));
PART(mount, struct plugin_mount, FIELD(1, STR, struct plugin_mount, container_path),
     FIELD(2, STR, struct plugin_mount, host_path), FIELD(3, BOOL, struct plugin_mount, read_only));
PART(device_node, struct plugin_device_node,
     FIELD(1, STR, struct plugin_device_node, container_path),
     FIELD(2, STR, struct plugin_device_node, host_path),
     FIELD(3, STR, struct plugin_device_node, permissions));
MESSAGE(plugin_allocation, struct plugin_allocation,
        NESTED(1, MANY, struct plugin_allocation, envs, pair),
        NESTED(2, MANY, struct plugin_allocation, mounts, mount),
        NESTED(3, MANY, struct plugin_allocation, devices, device_node),
        NESTED(4, MANY, struct plugin_allocation, annotations, pair),
        NESTED(5, MANY, struct plugin_allocation, cdi_devices, cdi_device));
MESSAGE(plugin_allocate_response, struct plugin_allocate_response,
        NESTED(1, MANY, struct plugin_allocate_response, containers, plugin_allocation));

// --- Writing -------------------------------------------------------------------------------------

static void write_strs(struct proto_writer *w, uint32_t number, const struct plugin_strs *l)
{
    for (size_t i = l->n; i-- > 0;)
        proto_put_bytes(w, number, l->p[i]);
}

static void write_i64s(struct proto_writer *w, uint32_t number, const struct plugin_i64s *l)
{
    if (l->n == 0)
        return;
    size_t mark = proto_mark(w);
    for (size_t i = l->n; i-- > 0;)
        proto_put_packed_item(w, (uint64_t)l->p[i]);
    proto_close(w, number, mark);
}

static void plugin_api_write_one(struct proto_writer *w, const struct field *f, const void *value)
{
    size_t mark = proto_mark(w);
    plugin_encode(f->message, value, w);
    proto_close(w, f->number, mark);
}

static void plugin_api_write_field(struct proto_writer *w, const struct field *f, const char *at)
{
    const struct str *s = (const void *)at;
    const struct any_list *l = (const void *)at;
    switch (f->kind) {
    case KIND_STR:
        if (s->n)
            proto_put_bytes(w, f->number, *s);
        break;
    case KIND_OPTIONAL_STR:
        if (*(const bool *)(at + sizeof(struct str)))
            proto_put_bytes(w, f->number, *s);
        break;
    case KIND_BOOL:
        if (*(const bool *)at)
            proto_put_bool(w, f->number, true);
        break;
    case KIND_I64:
        if (*(const int64_t *)(const void *)at)
            proto_put_i64(w, f->number, *(const int64_t *)(const void *)at);
        break;
    case KIND_STRS:
        write_strs(w, f->number, (const void *)at);
        break;
    case KIND_I64S:
        write_i64s(w, f->number, (const void *)at);
        break;
    case KIND_ONE:
        plugin_api_write_one(w, f, at);
        break;
    case KIND_MANY:
        for (size_t i = l->n; i-- > 0;)
            plugin_api_write_one(w, f, (const char *)l->p + i * f->message->size);
        break;
    }
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the tables
void plugin_encode(const struct plugin_message *m, const void *value, struct proto_writer *w)
{
    for (size_t i = m->fields_len; i-- > 0;)
        plugin_api_write_field(w, &m->fields[i], (const char *)value + m->fields[i].offset);
}

// --- Reading -------------------------------------------------------------------------------------

// Where lists go, and how much of it they may take: an entry without anything in it has two bytes
// on the wire.
struct room {
    struct arena *arena;
    size_t until;
};

static int plugin_api_read_message(const struct plugin_message *m, struct proto_reader *r,
                                   void *value, const struct room *room, struct err *err);

static int read_nested(const struct plugin_message *m, const struct proto_reader *r,
                       const struct proto_field *p, void *value, const struct room *room,
                       struct err *err)
{
    struct proto_reader inner;
    int code = proto_enter(r, p, &inner, err);
    return code < 0 ? code : plugin_api_read_message(m, &inner, value, room, err);
}

static void *plugin_api_add_item(struct any_list *l, size_t size, struct arena *a)
{
    if (l->n == l->cap)
        l->p = vec_grow_arena(a, l->p, l->n, &l->cap, l->n + 1, size);
    void *item = (char *)l->p + l->n++ * size;
    memset(item, 0, size);
    return item;
}

static int read_i64s(const struct proto_reader *r, const struct proto_field *p,
                     struct plugin_i64s *l, struct arena *a, struct err *err)
{
    struct proto_items items;
    uint64_t v;
    int code = proto_items_of(r, p, PROTO_VARINT, &items, err);
    while (code >= 0 && (code = proto_items_next(&items, &v, err)) > 0)
        vec_push_arena(a, l, (int64_t)v);
    return code;
}

// NOLINTNEXTLINE(readability-function-size): what reading needs
static int plugin_api_read_field(const struct field *f, const struct proto_reader *r,
                                 const struct proto_field *p, char *at, const struct room *room,
                                 struct err *err)
{
    struct arena *a = room->arena;
    switch (f->kind) {
    case KIND_STR:
        return proto_to_str(r, p, (void *)at, err);
    case KIND_OPTIONAL_STR:
        *(bool *)(at + sizeof(struct str)) = true;
        return proto_to_str(r, p, (void *)at, err);
    case KIND_BOOL:
        return proto_to_bool(r, p, (bool *)at, err);
    case KIND_I64:
        return proto_to_i64(r, p, (void *)at, err);
    case KIND_STRS:
        return proto_to_str(r, p, plugin_api_add_item((void *)at, sizeof(struct str), a), err);
    case KIND_I64S:
        return read_i64s(r, p, (void *)at, a, err);
    case KIND_ONE:
        return read_nested(f->message, r, p, at, room, err);
    case KIND_MANY:
        return read_nested(f->message, r, p, plugin_api_add_item((void *)at, f->message->size, a),
                           room, err);
    }
    return 0;
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the tables
static int plugin_api_read_message(const struct plugin_message *m, struct proto_reader *r,
                                   void *value, const struct room *room, struct err *err)
{
    struct proto_field p;
    int code;
    while ((code = proto_next(r, &p, err)) > 0) {
        for (size_t i = 0; i < m->fields_len && code >= 0; i++)
            if (m->fields[i].number == p.number)
                code = plugin_api_read_field(&m->fields[i], r, &p,
                                             (char *)value + m->fields[i].offset, room, err);
        if (code >= 0 && room->arena->used_bytes > room->until)
            code = err_set(err, ERR_TOO_LARGE, "the message has too many entries");
        if (code < 0)
            return code;
    }
    return code;
}

int plugin_decode(const struct plugin_message *m, struct str bytes, void *value, struct arena *a,
                  struct err *err)
{
    struct proto_reader r = proto_reader_of(bytes);
    const struct room room = {a, a->used_bytes + PLUGIN_DECODE_BYTES_MAX};
    return plugin_api_read_message(m, &r, value, &room, err);
}
