// SPDX-License-Identifier: Apache-2.0
//
// The registry of functions and overloads, built once from decl_table.c: signatures parsed, names
// indexed.
#include "cel/front/decl.h"

#include <assert.h>
#include <pthread.h>

#include "base/banned.h"

static struct {
    const char *id;
    uint8_t cost;
} const overload_costs[] = {
    {"list_slice", CEL_COST_SLICE},
    {"lists_range", CEL_COST_RANGE},
    {"list_reverse", CEL_COST_REVERSE},
    {"list_flatten", CEL_COST_FLATTEN},
    {"list_flatten_int", CEL_COST_FLATTEN},
    {"list_distinct", CEL_COST_DISTINCT},
    {"list_string_sort", CEL_COST_SORT_TEXT},
    {"list_bytes_sort", CEL_COST_SORT_TEXT},
    {"list_string_sortByAssociatedKeys", CEL_COST_SORT_BY_TEXT},
    {"list_bytes_sortByAssociatedKeys", CEL_COST_SORT_BY_TEXT},
    {"list_sets_contains_list", CEL_COST_SETS},
    {"list_sets_intersects_list", CEL_COST_SETS},
    {"list_sets_equivalent_list", CEL_COST_SETS_TWICE},
    {"starts_with_string", CEL_COST_AFFIX},
    {"ends_with_string", CEL_COST_AFFIX},
    {"string_to_bytes", CEL_COST_STRING_TO_BYTES},
    {"bytes_to_string", CEL_COST_BYTES_TO_STRING},
    {"strings_quote", CEL_COST_QUOTE},
    {"string_format", CEL_COST_FORMAT},
    {"in_list", CEL_COST_IN_LIST},
    {"less_string", CEL_COST_COMPARE},
    {"less_bytes", CEL_COST_COMPARE},
    {"less_equals_string", CEL_COST_COMPARE},
    {"less_equals_bytes", CEL_COST_COMPARE},
    {"greater_string", CEL_COST_COMPARE},
    {"greater_bytes", CEL_COST_COMPARE},
    {"greater_equals_string", CEL_COST_COMPARE},
    {"greater_equals_bytes", CEL_COST_COMPARE},
    {"equals", CEL_COST_EQUALS},
    {"not_equals", CEL_COST_COMPARE},
    {"add_string", CEL_COST_CONCAT},
    {"add_bytes", CEL_COST_CONCAT},
    {"add_list", CEL_COST_CONCAT_LIST},
    {"matches", CEL_COST_MATCHES},
    {"matches_string", CEL_COST_MATCHES},
    {"contains_string", CEL_COST_CONTAINS},
    {"logical_and", CEL_COST_LOGIC},
    {"logical_or", CEL_COST_LOGIC},
    {"conditional", CEL_COST_CONDITIONAL},
    {"index_list", CEL_COST_INDEX_LIST},
    {"index_map", CEL_COST_INDEX_MAP},
};

static struct {
    const char *name;
    uint8_t cost;
} const function_costs[] = {
    {"isSorted", CEL_COST_TRAVERSE},
    {"sum", CEL_COST_TRAVERSE},
    {"max", CEL_COST_TRAVERSE},
    {"min", CEL_COST_TRAVERSE},
    {"indexOf", CEL_COST_TRAVERSE},
    {"lastIndexOf", CEL_COST_TRAVERSE},
    {"includes", CEL_COST_TRAVERSE},
    {"url", CEL_COST_PARSE_SIZED},
    {"lowerAscii", CEL_COST_TRANSFORM},
    {"upperAscii", CEL_COST_TRANSFORM},
    {"substring", CEL_COST_TRANSFORM},
    {"trim", CEL_COST_TRANSFORM},
    {"replace", CEL_COST_REPLACE},
    {"split", CEL_COST_SPLIT},
    {"join", CEL_COST_JOIN},
    {"find", CEL_COST_FIND},
    {"findAll", CEL_COST_FIND},
    {"cidr", CEL_COST_PARSE},
    {"isIP", CEL_COST_PARSE},
    {"isCIDR", CEL_COST_PARSE},
    {"ip", CEL_COST_PARSE},
    {"quantity", CEL_COST_PARSE},
    {"isQuantity", CEL_COST_PARSE},
    {"semver", CEL_COST_PARSE},
    {"isSemver", CEL_COST_PARSE},
    {"ip.isCanonical", CEL_COST_CANONICAL},
    {"containsIP", CEL_COST_CONTAINS_IP},
    {"containsCIDR", CEL_COST_CONTAINS_CIDR},
    {"validate", CEL_COST_VALIDATE},
    {"check", CEL_COST_CHECK},
    {"fieldSelector", CEL_COST_SELECTOR},
    {"labelSelector", CEL_COST_SELECTOR},
};

// Functions whose overloads share one binding upstream, so that a call with several candidates
// still evaluates all its arguments.
static const char *const singletons[] = {
    "_+_",
    "_-_",
    "_*_",
    "_/_",
    "_%_",
    "_<_",
    "_<=_",
    "_>_",
    "_>=_",
    "_==_",
    "_!=_",
    "@in",
    "size",
    "dyn",
    "type",
    "matches",
    "!_",
    "-_",
    "sort",
    "@sortByAssociatedKeys",
    // One overload each, and none of them checks its arguments' types first.
    "@not_strictly_false",
    "contains",
    "endsWith",
    "startsWith",
    "flatten",
};

static struct arena registry_arena;
static struct cel_function *functions;
static size_t function_count;
static uint32_t *name_index; // open addressing by name_hash, function number + 1
static uint32_t name_mask;

static uint32_t name_hash(struct str s)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < s.n; i++)
        h = (h ^ (unsigned char)s.p[i]) * 16777619u;
    return h ^ h >> 15;
}

static uint8_t cost_of_overload(struct str id)
{
    for (size_t i = 0; i < array_len(overload_costs); i++)
        if (str_eqz(id, overload_costs[i].id))
            return overload_costs[i].cost;
    if (str_ends(id, STR("_sortByAssociatedKeys")))
        return CEL_COST_SORT_BY;
    return str_ends(id, STR("_sort")) ? CEL_COST_SORT : CEL_COST_ONE;
}

static uint8_t cost_of_function(struct str name)
{
    for (size_t i = 0; i < array_len(function_costs); i++)
        if (str_eqz(name, function_costs[i].name))
            return function_costs[i].cost;
    return CEL_COST_ONE;
}

static bool is_singleton(struct str name)
{
    for (size_t i = 0; i < array_len(singletons); i++)
        if (str_eqz(name, singletons[i]))
            return true;
    return false;
}

static bool decl_is_open(const struct cel_type *t)
{
    return t->kind == CEL_T_DYN || t->kind == CEL_T_ANY || t->kind == CEL_T_PARAM;
}

// The kind of values of a type without parts; CEL_KINDS for all others.
static uint8_t plain_kind(const struct cel_type *t)
{
    static const struct {
        const struct cel_type *type;
        uint8_t kind;
    } table[] = {
        {&cel_type_bool, CEL_BOOL},
        {&cel_type_int, CEL_INT},
        {&cel_type_uint, CEL_UINT},
        {&cel_type_double, CEL_DOUBLE},
        {&cel_type_string, CEL_STRING},
        {&cel_type_bytes, CEL_BYTES},
        {&cel_type_duration, CEL_DURATION},
        {&cel_type_timestamp, CEL_TIMESTAMP},
        {&cel_type_quantity, CEL_QUANTITY},
        {&cel_type_semver, CEL_SEMVER},
        {&cel_type_ip, CEL_IP},
        {&cel_type_cidr, CEL_CIDR},
        {&cel_type_url, CEL_URL},
        {&cel_type_format, CEL_FORMAT},
    };
    for (size_t i = 0; i < array_len(table); i++)
        if (t == table[i].type)
            return table[i].kind;
    if (decl_is_open(t))
        return CEL_KIND_ANY;
    if (cel_type_is_optional(t))
        return CEL_OPTIONAL;
    if (t->kind == CEL_T_LIST && decl_is_open(t->param[0]))
        return CEL_LIST;
    if (t->kind == CEL_T_MAP && decl_is_open(t->param[0]) && decl_is_open(t->param[1]))
        return CEL_MAP;
    return CEL_KINDS;
}

// cel_overload_init fills an overload from a signature such as "list(A),A>int".
static void cel_overload_init(struct arena *a, struct cel_overload *o, struct str id, bool member,
                              const char *signature)
{
    const char *p = signature;
    struct str letters = {0};
    o->id = id;
    o->member = member;
    while (*p != '>') {
        assert(o->args < CEL_ARGS_MAX);
        o->arg[o->args++] = cel_type_parse(a, &p, &letters);
        if (*p == ',')
            p++;
    }
    p++;
    o->result = cel_type_parse(a, &p, &letters);
    o->type_params = (uint8_t)letters.n;
    for (size_t i = 0; i < o->args; i++)
        o->arg_kind[i] = plain_kind(o->arg[i]);
    o->cost = cost_of_overload(id);
    o->takes_string =
        str_eqz(id, "cidr_contains_ip_string") || str_eqz(id, "cidr_contains_cidr_string");
}

static struct cel_function *slot_for(struct str name)
{
    uint32_t at = name_hash(name) & name_mask;
    while (name_index[at]) {
        struct cel_function *f = &functions[name_index[at] - 1];
        if (str_eq(f->name, name))
            return f;
        at = (at + 1) & name_mask;
    }
    name_index[at] = (uint32_t)++function_count;
    struct cel_function *f = &functions[function_count - 1];
    f->name = name;
    f->impl = cel_impl_find(name);
    f->cost = cost_of_function(name);
    f->singleton = is_singleton(name);
    return f;
}

static void decl_build_index(void)
{
    functions = arena_array(&registry_arena, struct cel_function, cel_decl_row_count);
    uint32_t size = 1024;
    name_index = arena_array(&registry_arena, uint32_t, size);
    name_mask = size - 1;
    for (size_t i = 0; i < cel_decl_row_count; i++)
        slot_for(str_z(cel_decl_rows[i].function))->count++;
    for (size_t i = 0; i < function_count; i++) {
        functions[i].overloads =
            arena_array(&registry_arena, struct cel_overload, functions[i].count);
        functions[i].count = 0;
    }
    for (size_t i = 0; i < cel_decl_row_count; i++) {
        const struct cel_decl_row *r = &cel_decl_rows[i];
        struct cel_function *f = slot_for(str_z(r->function));
        struct cel_overload *o = &f->overloads[f->count++];
        o->function = f;
        o->lib = r->lib;
        o->since = r->since;
        cel_overload_init(&registry_arena, o, str_z(r->id), r->member, r->signature);
    }
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

const struct cel_function *cel_function_find(struct str name)
{
    (void)pthread_once(&once, decl_build_index);
    for (uint32_t at = name_hash(name) & name_mask; name_index[at]; at = (at + 1) & name_mask) {
        const struct cel_function *f = &functions[name_index[at] - 1];
        if (str_eq(f->name, name))
            return f;
    }
    return NULL;
}
