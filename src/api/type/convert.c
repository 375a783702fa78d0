// SPDX-License-Identifier: Apache-2.0
//
// Conversion between versions. Fields are matched by name; types that are shared between versions
// are copied; only what a version calls or nests differently is written out here. v1beta1 keeps a
// device's content in `basic` and an exact request's fields in the request itself.
#include <string.h>

#include "api/api.h"
#include "api/custom.h"

#include "base/banned.h"

static void convert_struct(const struct api_type *from, const void *in, const struct api_type *to,
                           void *out, struct arena *arena);

// Names that core/v1 Event and events.k8s.io/v1 Event give to the same field.
static const struct rename {
    struct str core;
    struct str events;
} event_names[] = {
    {STR_INIT("involvedObject"), STR_INIT("regarding")},
    {STR_INIT("message"), STR_INIT("note")},
    {STR_INIT("source"), STR_INIT("deprecatedSource")},
    {STR_INIT("firstTimestamp"), STR_INIT("deprecatedFirstTimestamp")},
    {STR_INIT("lastTimestamp"), STR_INIT("deprecatedLastTimestamp")},
    {STR_INIT("count"), STR_INIT("deprecatedCount")},
    {STR_INIT("reportingComponent"), STR_INIT("reportingController")},
};

static struct str name_in(const struct api_type *from, const struct api_type *to, struct str name)
{
    bool to_events = from == &api_event_type && to == &api_events_event_type;
    bool to_core = from == &api_events_event_type && to == &api_event_type;
    for (size_t i = 0; i < array_len(event_names); i++) {
        if (to_events && str_eq(name, event_names[i].core))
            return event_names[i].events;
        if (to_core && str_eq(name, event_names[i].events))
            return event_names[i].core;
    }
    return name;
}

static const struct api_field *convert_find_field(const struct api_type *t, struct str name)
{
    for (size_t i = 0; i < t->fields_len; i++)
        if (str_eq(t->fields[i].name, name))
            return &t->fields[i];
    return NULL;
}

// as_copy is one field of a type as if it were a type of its own, so that api_copy can take it.
static void convert_copy_value(const struct api_field *from, const void *in,
                               const struct api_field *to, void *out, struct arena *arena)
{
    struct api_field row = *from;
    row.offset = 0;
    row.has_offset = 0;
    row.shape = from->shape == API_LIST || from->shape == API_MAP ? from->shape : API_ONE;
    struct api_type one = {.size = 0, .fields = &row, .fields_len = 1};
    const void *source = api_member_const(from, in);
    void *target = api_member(to, out);
    if (api_field_is_pointer(from))
        source = *(void *const *)source;
    if (!source)
        return;
    if (api_field_is_pointer(to)) {
        void **pointer = target;
        *pointer = arena_alloc(arena, api_elem_size(to), _Alignof(max_align_t));
        target = *pointer;
    }
    api_copy(&one, source, target, arena);
    if (to->has_offset)
        *(bool *)((char *)out + to->has_offset) = true;
}

static void convert_list(const struct api_field *from, const struct api_span *in,
                         const struct api_field *to, struct api_span *out, struct arena *arena)
{
    if (!in->p)
        return;
    bool map = from->shape == API_MAP;
    size_t step = map ? api_entry_size(from) : api_elem_size(from);
    size_t out_step = map ? api_entry_size(to) : api_elem_size(to),
           skip = map ? API_ENTRY_VALUE : 0;
    const char *item = in->p;
    char *made = arena_alloc_array(arena, in->n, out_step, _Alignof(max_align_t));
    out->p = made;
    out->n = in->n;
    for (size_t i = 0; i < in->n; i++, item += step, made += out_step) {
        if (map)
            *(struct str *)(void *)made = arena_str(arena, *(const struct str *)(const void *)item);
        convert_struct(from->sub, item + skip, to->sub, made + skip, arena);
    }
}

static void convert_field(const struct api_field *from, const void *in, const struct api_field *to,
                          void *out, struct arena *arena)
{
    if (from->elem != API_STRUCT || from->sub == to->sub) {
        // A pointer to a zero value becomes a plain one and back only as nil, as upstream has it.
        if (api_field_present(from, in))
            convert_copy_value(from, in, to, out, arena);
        return;
    }
    const void *source = api_member_const(from, in);
    void *target = api_member(to, out);
    if (from->shape == API_LIST || from->shape == API_MAP) {
        convert_list(from, source, to, target, arena);
        return;
    }
    if (api_field_is_pointer(from))
        source = *(void *const *)source;
    if (!source)
        return;
    if (api_field_is_pointer(to)) {
        void **pointer = target;
        *pointer = arena_alloc(arena, api_elem_size(to), _Alignof(max_align_t));
        target = *pointer;
    }
    convert_struct(from->sub, source, to->sub, target, arena);
}

// convert_fields carries over every field that both types have.
static void convert_fields(const struct api_type *from, const void *in, const struct api_type *to,
                           void *out, struct arena *arena)
{
    for (size_t i = 0; i < from->fields_len; i++) {
        const struct api_field *f = &from->fields[i];
        const struct api_field *match = convert_find_field(to, name_in(from, to, f->name));
        if (match && match->elem == f->elem)
            convert_field(f, in, match, out, arena);
    }
}

static bool sets_exact_fields(const struct api_v1beta1_device_request *in)
{
    return in->device_class_name.n > 0 || in->selectors.p || in->allocation_mode.n > 0 ||
           in->count != 0 || in->has_admin_access || in->tolerations.p || in->capacity ||
           in->derived_attributes.p;
}

static void nest_request(const struct api_v1beta1_device_request *in,
                         struct api_device_request *out, struct arena *arena)
{
    if (!sets_exact_fields(in))
        return;
    out->exactly = arena_one(arena, struct api_exact_device_request);
    convert_fields(&api_v1beta1_device_request_type, in, &api_exact_device_request_type,
                   out->exactly, arena);
}

static void convert_struct(const struct api_type *from, const void *in, const struct api_type *to,
                           void *out, struct arena *arena)
{
    if (from == to) {
        api_copy(from, in, out, arena);
        return;
    }
    convert_fields(from, in, to, out, arena);
    if (from == &api_v1beta1_device_type && to == &api_device_type) {
        const struct api_v1beta1_device *device = in;
        if (device->basic)
            convert_fields(&api_v1beta1_basic_device_type, device->basic, to, out, arena);
    } else if (from == &api_device_type && to == &api_v1beta1_device_type) {
        struct api_v1beta1_device *device = out;
        device->basic = arena_one(arena, struct api_v1beta1_basic_device);
        convert_fields(from, in, &api_v1beta1_basic_device_type, device->basic, arena);
    } else if (from == &api_v1beta1_device_request_type && to == &api_device_request_type) {
        nest_request(in, out, arena);
    } else if (from == &api_device_request_type && to == &api_v1beta1_device_request_type) {
        const struct api_device_request *request = in;
        if (request->exactly)
            convert_fields(&api_exact_device_request_type, request->exactly, to, out, arena);
    }
}

static bool is_event(const struct api_kind *k)
{
    return k->type == &api_event_type || k->type == &api_events_event_type ||
           k->type == &api_event_list_type || k->type == &api_events_event_list_type;
}

// convert_set_version writes the new apiVersion where the old one stood: in the object and, in a
// list, in the items that carry theirs.
static void convert_set_version(const struct api_object *o)
{
    api_set_type_meta(o);
    const struct api_field *items =
        o->kind->item ? convert_find_field(o->kind->type, STR("items")) : NULL;
    if (!items)
        return;
    const struct api_span *span = api_member(items, o->value);
    for (size_t i = 0; i < span->n; i++) {
        struct api_object item = {o->kind->item, (char *)span->p + i * items->sub->size};
        const struct str *own = api_member(&items->sub->fields[1], item.value);
        if (own->n)
            api_set_type_meta(&item);
    }
}

int api_convert(const struct api_object *in, const struct api_kind *to, struct arena *arena,
                struct api_object *ret, struct err *err)
{
    bool same = str_eq(in->kind->kind, to->kind) && str_eq(in->kind->group, to->group);
    if (!same && !(is_event(in->kind) && is_event(to) && str_eq(in->kind->kind, to->kind)))
        return err_set(err, ERR_INVALID, "cannot convert %.*s %.*s to %.*s %.*s",
                       STR_ARG(in->kind->api_version), STR_ARG(in->kind->kind),
                       STR_ARG(to->api_version), STR_ARG(to->kind));
    if (to->custom)
        return custom_convert(in, to, arena, ret);
    struct api_object o = {to, arena_alloc(arena, to->type->size, _Alignof(max_align_t))};
    convert_struct(in->kind->type, in->value, to->type, o.value, arena);
    const struct str *version = to->type->root ? api_member(&to->type->fields[1], o.value) : NULL;
    if (version && version->n)
        convert_set_version(&o);
    *ret = o;
    return 0;
}
