// SPDX-License-Identifier: Apache-2.0
//
// Construction of the well-known protobuf messages; there are no others.
#include "cel/code/message.h"

#include "base/banned.h"

static struct cel_val field_or(const struct cel_map *fields, const char *name,
                               struct cel_val otherwise)
{
    const struct cel_val *v = cel_map_get_str(fields, str_z(name));
    return v ? *v : otherwise;
}

static struct cel_val zero_of(const struct cel_type *t)
{
    switch ((int)t->kind) {
    case CEL_T_BOOL:
        return cel_false;
    case CEL_T_INT:
        return cel_int(0);
    case CEL_T_UINT:
        return cel_uint(0);
    case CEL_T_DOUBLE:
        return cel_double(0);
    case CEL_T_BYTES:
        return cel_bytes(STR(""));
    default:
        return cel_string(STR(""));
    }
}

static struct cel_val message_field_error(struct cel_run *run, const struct cel_message *m,
                                          const char *field, const char *why)
{
    return cel_errorf(&run->arena, "field type conversion error for %s.%s value type: %s", m->name,
                      field, why);
}

static bool message_is_narrow(const struct cel_message *m)
{
    return strstr(m->name, "nt32Value") != NULL;
}

static struct cel_val make_wrapper(struct cel_run *run, const struct cel_message *m,
                                   const struct cel_map *fields)
{
    struct cel_val v = field_or(fields, "value", zero_of(m->type));
    if (v.kind == CEL_INT && message_is_narrow(m) && (v.i < INT32_MIN || v.i > INT32_MAX))
        return message_field_error(run, m, "value", "integer overflow");
    if (v.kind == CEL_UINT && message_is_narrow(m) && v.u > UINT32_MAX)
        return message_field_error(run, m, "value", "unsigned integer overflow");
    if (v.kind == CEL_DOUBLE && strstr(m->name, "FloatValue"))
        v.d = (double)(float)v.d;
    if (v.kind != zero_of(m->type).kind)
        return message_field_error(run, m, "value", "unsupported conversion");
    return v;
}

static struct cel_val make_time(struct cel_run *run, const struct cel_message *m,
                                const struct cel_map *fields)
{
    struct cel_val seconds = field_or(fields, "seconds", cel_int(0));
    struct cel_val nanos = field_or(fields, "nanos", cel_int(0));
    if (seconds.kind != CEL_INT || nanos.kind != CEL_INT || nanos.i < INT32_MIN ||
        nanos.i > INT32_MAX)
        return message_field_error(run, m, "nanos", "integer overflow");
    if (m->type->kind == CEL_T_TIMESTAMP) {
        int64_t n = nanos.i % 1000000000;
        int64_t s = seconds.i + nanos.i / 1000000000 - (n < 0 ? 1 : 0);
        return cel_timestamp(s, (uint32_t)(n < 0 ? n + 1000000000 : n));
    }
    int64_t total;
    if (__builtin_mul_overflow(seconds.i, 1000000000, &total) ||
        __builtin_add_overflow(total, nanos.i, &total))
        return cel_errorf(&run->arena, "duration overflow");
    return cel_duration(total);
}

// JSON knows one kind of number.
static struct cel_val to_json(struct cel_run *run, struct cel_val v)
{
    if (v.kind == CEL_INT || v.kind == CEL_UINT)
        return cel_double(v.kind == CEL_INT ? (double)v.i : (double)v.u);
    if (v.kind == CEL_LIST) {
        struct cel_list *l = cel_list_new(&run->arena, v.list->n);
        for (uint32_t i = 0; i < v.list->n; i++)
            cel_list_push(&run->arena, l, to_json(run, v.list->items[i]));
        return cel_list_value(l);
    }
    if (v.kind == CEL_MAP) {
        struct cel_map *m = cel_map_new(&run->arena, v.map->n);
        for (uint32_t i = 0; i < v.map->n; i++)
            (void)cel_map_set(&run->arena, m, v.map->entries[i].key,
                              to_json(run, v.map->entries[i].value));
        return cel_map_value(m);
    }
    return v;
}

static struct cel_val make_value(struct cel_run *run, const struct cel_message *m,
                                 const struct cel_map *fields)
{
    for (size_t i = 0; i < m->count; i++) {
        const struct cel_val *v = cel_map_get_str(fields, str_z(m->fields[i].name));
        if (v)
            return strcmp(m->fields[i].name, "null_value") == 0 ? cel_null : to_json(run, *v);
    }
    return cel_null;
}

struct cel_val cel_message_make(struct cel_run *run, const struct cel_message *m,
                                const struct cel_map *fields)
{
    switch ((int)m->type->kind) {
    case CEL_T_DURATION:
    case CEL_T_TIMESTAMP:
        return make_time(run, m, fields);
    case CEL_T_MAP:
        return to_json(run, field_or(fields, "fields", cel_map_value(cel_map_new(&run->arena, 0))));
    case CEL_T_LIST:
        return to_json(run,
                       field_or(fields, "values", cel_list_value(cel_list_new(&run->arena, 0))));
    case CEL_T_DYN:
        return make_value(run, m, fields);
    case CEL_T_ANY:
        return cel_errorf(&run->arena, "unsupported conversion to ref.Val: (*dynamicpb.Message)");
    case CEL_T_STRUCT:
        if (str_eqz(m->type->name, "kubernetes.DRADevice"))
            return cel_errorf(&run->arena, "unknown type 'kubernetes.DRADevice'");
        return cel_map_value(cel_map_new(&run->arena, 0)); // Empty: equal to itself only
    default:
        return make_wrapper(run, m, fields);
    }
}
