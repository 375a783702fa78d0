// SPDX-License-Identifier: Apache-2.0
//
// Environments: a set of libraries, variables and struct types, seen as filters over the table of
// all overloads.
#include "cel/env.h"

#include "cel/front/parse.h"

#include "base/banned.h"

#define STORED_MINOR  255
#define DEFAULT_MINOR 36 // compatibility version of a 1.37 server

static unsigned syntax_for(const struct cel_env *env)
{
    unsigned s = CEL_SYNTAX_MACROS;
    if (env->minor >= 28)
        s |= CEL_SYNTAX_OPTIONAL;
    if (env->minor >= 31)
        s |= CEL_SYNTAX_BIND | CEL_SYNTAX_QUOTED;
    if (env->minor >= 32)
        s |= CEL_SYNTAX_TWO_VARS;
    if (env->minor >= 34)
        s |= CEL_SYNTAX_SORT_BY;
    return s;
}

static void declare_device(struct cel_env *env)
{
    struct arena *a = &env->arena;
    bool stored = env->minor == STORED_MINOR;
    bool lists = stored || (env->options.list_type_attributes && env->minor >= 36);
    env->multi_alloc_field = stored || (env->options.consumable_capacity && env->minor >= 34);
    env->includes = lists;
    env->attribute_type = lists ? &cel_type_dyn : &cel_type_any;
    env->attributes_type =
        cel_type_map(a, &cel_type_string, cel_type_map(a, &cel_type_string, env->attribute_type));
    env->capacity_type =
        cel_type_map(a, &cel_type_string, cel_type_map(a, &cel_type_string, &cel_type_quantity));
    struct cel_type *device = arena_one(a, struct cel_type);
    *device = (struct cel_type){.kind = CEL_T_STRUCT, .name = STR("kubernetes.DRADevice")};
    env->device_type = device;
    env->device = true;
    vec_push(&env->variables, (struct cel_variable){STR("device"), device});
}

struct cel_env *cel_env_new(const struct cel_env_options *options)
{
    struct cel_env *env = xcalloc(1, sizeof(*env));
    env->options = *options;
    env->container = arena_str(&env->arena, options->container);
    env->options.container = env->container;
    bool generic = options->kind == CEL_ENV_GENERIC;
    env->minor = STORED_MINOR;
    if (options->new_expressions && !generic)
        env->minor = options->compat_minor ? options->compat_minor : DEFAULT_MINOR;
    env->validators = !generic && env->minor >= 29;
    env->syntax = syntax_for(env);
    if (generic)
        env->syntax |= CEL_SYNTAX_EXISTS_ONE;
    if (options->no_macros)
        env->syntax &= ~(unsigned)CEL_SYNTAX_MACROS;
    if (!generic)
        declare_device(env);
    return env;
}

void cel_env_free(struct cel_env *env)
{
    if (!env)
        return;
    vec_done(&env->variables);
    vec_done(&env->functions);
    arena_done(&env->arena);
    free(env);
}

const struct cel_variable *cel_env_variable(const struct cel_env *env, struct str name)
{
    // The latest declaration of a name wins.
    for (size_t i = env->variables.n; i > 0; i--)
        if (str_eq(env->variables.p[i - 1].name, name))
            return &env->variables.p[i - 1];
    return NULL;
}

bool cel_env_has_overload(const struct cel_env *env, const struct cel_overload *o)
{
    if (o->lib == CEL_LIB_USER)
        return true;
    if (env->includes && str_eqz(o->function->name, "includes"))
        return true;
    return o->since <= env->minor;
}

const struct cel_function *cel_env_function(const struct cel_env *env, struct str name)
{
    for (size_t i = 0; i < env->functions.n; i++)
        if (str_eq(env->functions.p[i]->name, name))
            return env->functions.p[i];
    const struct cel_function *f = cel_function_find(name);
    if (!f)
        return NULL;
    for (uint32_t i = 0; i < f->count; i++)
        if (cel_env_has_overload(env, &f->overloads[i]))
            return f;
    return NULL;
}

void cel_env_add_variable(struct cel_env *env, struct str name, const struct cel_type *type)
{
    vec_push(&env->variables, (struct cel_variable){arena_str(&env->arena, name), type});
}

const struct cel_type *cel_struct_type(struct arena *a, struct str name)
{
    struct cel_type *t = arena_one(a, struct cel_type);
    *t = (struct cel_type){.kind = CEL_T_STRUCT, .name = name};
    return t;
}

void cel_env_set_structs(struct cel_env *env, const struct cel_struct *structs, size_t n)
{
    env->structs = structs;
    env->structs_len = n;
}

struct cel_function *cel_env_add_function(struct cel_env *env, struct str name, size_t overloads)
{
    struct cel_function *f = arena_one(&env->arena, struct cel_function);
    f->name = arena_str(&env->arena, name);
    const struct cel_function *known = cel_function_find(name);
    size_t inherited = known ? known->count : 0;
    f->overloads = arena_array(&env->arena, struct cel_overload, overloads + inherited);
    if (known) {
        memcpy(f->overloads, known->overloads, inherited * sizeof(*f->overloads));
        f->count = (uint32_t)inherited;
        f->impl = known->impl;
        f->cost = known->cost;
        f->singleton = known->singleton;
    }
    vec_push(&env->functions, f);
    return f;
}

void cel_env_add_overload(struct cel_function *f, struct str id, bool member,
                          const struct cel_type *const *args, size_t n,
                          const struct cel_type *result)
{
    struct cel_overload *o = &f->overloads[f->count++];
    o->function = f;
    o->id = id;
    o->lib = CEL_LIB_USER;
    o->member = member;
    o->args = (uint8_t)(n < CEL_ARGS_MAX ? n : CEL_ARGS_MAX);
    for (size_t i = 0; i < o->args; i++)
        o->arg[i] = args[i];
    o->result = result;
    o->type_params = 8;
}

struct arena *cel_env_arena(struct cel_env *env)
{
    return &env->arena;
}

bool cel_env_candidate(const struct cel_env *env, struct arena *a, struct str name, size_t i,
                       struct str *ret)
{
    if (name.n && name.p[0] == '.') {
        *ret = str_from(name, 1);
        return i == 0;
    }
    struct str prefix = env->container;
    for (size_t k = 0; k < i && prefix.n; k++) {
        ptrdiff_t dot = str_rfind_char(prefix, '.');
        bool last = dot < 0;
        prefix = str_upto(prefix, last ? 0 : (size_t)dot);
        if (last && k + 1 < i)
            return false;
    }
    if (!env->container.n && i > 0)
        return false;
    if (prefix.n) {
        *ret = arena_strf(a, "%.*s.%.*s", STR_ARG(prefix), STR_ARG(name));
        return true;
    }
    // The bare name comes once, behind all prefixes.
    size_t prefixes = 0;
    for (struct str p = env->container; p.n; prefixes++) {
        ptrdiff_t dot = str_rfind_char(p, '.');
        p = str_upto(p, dot < 0 ? 0 : (size_t)dot);
    }
    *ret = name;
    return i == prefixes;
}

static const struct cel_message_field bool_fields[] = {{"value", &cel_type_bool}};
static const struct cel_message_field bytes_fields[] = {{"value", &cel_type_bytes}};
static const struct cel_message_field double_fields[] = {{"value", &cel_type_double}};
static const struct cel_message_field int_fields[] = {{"value", &cel_type_int}};
static const struct cel_message_field uint_fields[] = {{"value", &cel_type_uint}};
static const struct cel_message_field string_fields[] = {{"value", &cel_type_string}};
static const struct cel_message_field time_fields[] = {{"seconds", &cel_type_int},
                                                       {"nanos", &cel_type_int}};
static const struct cel_message_field struct_fields[] = {{"fields", &cel_type_map_string_dyn}};
static const struct cel_message_field list_fields[] = {{"values", &cel_type_list_dyn}};
static const struct cel_message_field value_fields[] = {{"null_value", &cel_type_int},
                                                        {"number_value", &cel_type_double},
                                                        {"string_value", &cel_type_string},
                                                        {"bool_value", &cel_type_bool},
                                                        {"struct_value", &cel_type_map_string_dyn},
                                                        {"list_value", &cel_type_list_dyn}};
static const struct cel_message_field any_fields[] = {{"type_url", &cel_type_string},
                                                      {"value", &cel_type_bytes}};
static const struct cel_type empty_type = {.kind = CEL_T_STRUCT,
                                           .name = STR_INIT("google.protobuf.Empty")};

// The checker knows the device's type by name; making one fails when it is evaluated.
static const struct cel_type device_message_type = {.kind = CEL_T_STRUCT,
                                                    .name = STR_INIT("kubernetes.DRADevice")};

#define PB "google.protobuf."
static const struct cel_message messages[] = {
    {PB "BoolValue", &cel_type_wrap_bool, bool_fields, 1},
    {PB "BytesValue", &cel_type_wrap_bytes, bytes_fields, 1},
    {PB "DoubleValue", &cel_type_wrap_double, double_fields, 1},
    {PB "FloatValue", &cel_type_wrap_double, double_fields, 1},
    {PB "Int32Value", &cel_type_wrap_int, int_fields, 1},
    {PB "Int64Value", &cel_type_wrap_int, int_fields, 1},
    {PB "UInt32Value", &cel_type_wrap_uint, uint_fields, 1},
    {PB "UInt64Value", &cel_type_wrap_uint, uint_fields, 1},
    {PB "StringValue", &cel_type_wrap_string, string_fields, 1},
    {PB "Duration", &cel_type_duration, time_fields, 2},
    {PB "Timestamp", &cel_type_timestamp, time_fields, 2},
    {PB "Struct", &cel_type_map_string_dyn, struct_fields, 1},
    {PB "ListValue", &cel_type_list_dyn, list_fields, 1},
    {PB "Value", &cel_type_dyn, value_fields, 6},
    {PB "Any", &cel_type_any, any_fields, 2},
    {PB "Empty", &empty_type, NULL, 0},
    {"kubernetes.DRADevice", &device_message_type, NULL, 0},
};

const struct cel_message *cel_message_find(struct str name)
{
    for (size_t i = 0; i < array_len(messages); i++)
        if (str_eqz(name, messages[i].name))
            return &messages[i];
    return NULL;
}

const struct cel_type *cel_env_named_type(struct str name)
{
    static const struct cel_type *const named[] = {
        &cel_type_bool,      &cel_type_bytes,   &cel_type_double,       &cel_type_int,
        &cel_type_null,      &cel_type_string,  &cel_type_type,         &cel_type_uint,
        &cel_type_list_dyn,  &cel_type_map_dyn, &cel_type_optional_dyn, &cel_type_duration,
        &cel_type_timestamp, &cel_type_ip,      &cel_type_cidr,
    };
    for (size_t i = 0; i < array_len(named); i++)
        if (str_eq(named[i]->name, name))
            return named[i];
    const struct cel_message *m = cel_message_find(name);
    return m && m->type != &device_message_type ? m->type : NULL;
}

static const struct cel_type *device_field(const struct cel_env *env, struct str field)
{
    if (str_eqz(field, "driver"))
        return &cel_type_string;
    if (str_eqz(field, "attributes"))
        return env->attributes_type;
    if (str_eqz(field, "capacity"))
        return env->capacity_type;
    if (env->multi_alloc_field && str_eqz(field, "allowMultipleAllocations"))
        return &cel_type_bool;
    return NULL;
}

static const struct cel_type *env_struct_field(const struct cel_struct *s, struct str field)
{
    for (size_t i = 0; i < s->fields_len; i++)
        if (str_eq(s->fields[i].name, field))
            return s->fields[i].type;
    return NULL;
}

const struct cel_type *cel_env_field(const struct cel_env *env, struct str type, struct str field,
                                     bool *ret_known)
{
    *ret_known = true;
    for (size_t i = 0; i < env->structs_len; i++)
        if (str_eq(env->structs[i].name, type))
            return env_struct_field(&env->structs[i], field);
    if (env->device && str_eq(type, env->device_type->name))
        return device_field(env, field);
    const struct cel_message *m = cel_message_find(type);
    if (!m) {
        *ret_known = false;
        return NULL;
    }
    for (size_t i = 0; i < m->count; i++)
        if (str_eqz(field, m->fields[i].name))
            return m->fields[i].type;
    return NULL;
}
