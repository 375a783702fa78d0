// SPDX-License-Identifier: Apache-2.0
//
// What the machine calls when something is not ordinary: errors, missing keys, lists and maps under
// construction. Nothing here is on the way of a simple selector.
#include "cel/code/vm_slow.h"

#include <math.h>

#include "cel/cost/work.h"

#include "base/banned.h"

static struct cel_val missing_key(struct cel_run *run, struct cel_val key, const char *what)
{
    cleanup_sbuf struct sbuf b = {0};
    cel_work_write(run, key, &b);
    return cel_errorf(&run->arena, "%s: %.*s", what, STR_ARG(sbuf_str(&b)));
}

// Gives an error that has no position yet the one of the instruction that made it.
struct cel_val cel_slow_placed(struct cel_run *run, const struct cel_program *p, size_t pc,
                               struct cel_val v)
{
    if (v.kind != CEL_ERROR || v.error->pos != CEL_NO_POS)
        return v;
    struct cel_error *e = arena_one(&run->arena, struct cel_error);
    *e = *v.error;
    e->pos = p->positions.p[pc];
    return cel_error_const(e);
}

// An index into a list: whole numbers of any numeric type.
static bool list_index(struct cel_val key, int64_t *ret)
{
    if (key.kind == CEL_INT) {
        *ret = key.i;
        return true;
    }
    if (key.kind == CEL_UINT) {
        *ret = key.u > INT64_MAX ? INT64_MAX : key.i;
        return true;
    }
    if (key.kind != CEL_DOUBLE || floor(key.d) != key.d || fabs(key.d) > 9e18)
        return false;
    *ret = (int64_t)key.d;
    return true;
}

// One qualification of a value by a key. `soft`: what is not there is ABSENT, no error.
enum found cel_slow_qualify(struct cel_run *run, struct cel_val obj, struct cel_val key, bool soft,
                            struct cel_val *ret)
{
    if (key.kind != CEL_STRING && key.kind != CEL_INT && key.kind != CEL_UINT &&
        key.kind != CEL_BOOL && key.kind != CEL_DOUBLE) {
        *ret = cel_is_error(key) ? key
                                 : cel_errorf(&run->arena, "invalid qualifier type: %.*s",
                                              STR_ARG(cel_type_name(key)));
        return FAILED;
    }
    if (key.kind == CEL_STRING && !cel_work_add(run, cel_weight(key))) {
        *ret = cel_no_such_overload(); // and it ends
        return FAILED;
    }
    if (obj.kind == CEL_MAP) {
        const struct cel_val *v = cel_map_get(obj.map, key);
        if (v) {
            *ret = *v;
            return FOUND;
        }
    } else if (obj.kind == CEL_LIST) {
        int64_t i;
        if (!list_index(key, &i)) {
            *ret = key.kind == CEL_DOUBLE
                       ? missing_key(run, key, "unsupported index value")
                       : cel_errorf(&run->arena, "unsupported index type '%.*s' in list",
                                    STR_ARG(cel_type_name(key)));
            return FAILED;
        }
        if (i >= 0 && i < (int64_t)obj.list->n) {
            *ret = obj.list->items[i];
            return FOUND;
        }
    }
    // The specification wants an error where what is tested has no parts at all.
    bool partless = obj.kind != CEL_MAP && obj.kind != CEL_LIST && obj.kind != CEL_OPTIONAL;
    if (soft && !(partless && run->program && run->program->strict_rules))
        return ABSENT;
    *ret = missing_key(run, key, obj.kind == CEL_LIST ? "index out of bounds" : "no such key");
    return FAILED;
}

// Upstream's cost trackers of these functions fall over when the list they count is an error.
bool cel_slow_cost_needs_list(const struct cel_call *c, const struct cel_val *args)
{
    switch (c->cost) {
    case CEL_COST_DISTINCT:
    case CEL_COST_SORT:
    case CEL_COST_SORT_TEXT:
        return cel_is_error(args[0]);
    case CEL_COST_SORT_BY:
    case CEL_COST_SORT_BY_TEXT:
        return cel_is_error(args[1]);
    case CEL_COST_FLATTEN:
        return c->args == 2 && cel_is_error(args[1]);
    default:
        return false;
    }
}

struct cel_val cel_slow_misfit(struct cel_run *run, const struct cel_call *c,
                               const struct cel_val *args)
{
    return cel_run_mismatch(run, c->name.p, args, c->args);
}

// Arguments of a call that has no implementation, or whose function does not exist.
struct cel_val cel_slow_unbound(struct cel_run *run, const struct cel_call *c,
                                const struct cel_val *args)
{
    for (unsigned i = 0; i < c->args; i++)
        if (cel_is_error(args[i]))
            return args[i];
    return cel_errorf(&run->arena, "no such overload: %.*s", STR_ARG(c->name));
}

struct cel_val cel_slow_unhashable(struct cel_run *run, struct cel_val v)
{
    return cel_errorf(&run->arena, "internal error: runtime error: hash of unhashable type %s",
                      v.kind == CEL_SEMVER ? "cel.Semver" : "types.Bytes");
}

// Starts an iteration: slots range, position.
struct cel_val cel_slow_not_iterable(struct cel_run *run, struct cel_val v, bool two)
{
    static const char *const go_types[CEL_KINDS] = {
        [CEL_NULL] = "types.Null",
        [CEL_BOOL] = "types.Bool",
        [CEL_INT] = "types.Int",
        [CEL_UINT] = "types.Uint",
        [CEL_DOUBLE] = "types.Double",
        [CEL_STRING] = "types.String",
        [CEL_BYTES] = "types.Bytes",
        [CEL_TYPE] = "*types.Type",
        [CEL_DURATION] = "types.Duration",
        [CEL_TIMESTAMP] = "types.Timestamp",
        [CEL_OPTIONAL] = "*types.Optional",
        [CEL_QUANTITY] = "cel.Quantity",
        [CEL_SEMVER] = "cel.Semver",
        [CEL_IP] = "cel.IP",
        [CEL_CIDR] = "cel.CIDR",
        [CEL_URL] = "cel.URL",
        [CEL_FORMAT] = "*cel.Format",
    };
    const char *name = go_types[v.kind] ? go_types[v.kind] : "?";
    if (two)
        return cel_errorf(&run->arena, "unsupported comprehension range type: %s", name);
    return cel_errorf(&run->arena, "got '%s', expected iterable type", name);
}

// An accumulator that starts empty grows in place, as upstream's mutable lists and maps.
struct cel_val cel_slow_opened(struct cel_run *run, struct cel_val v)
{
    if (v.kind == CEL_LIST && v.list->n == 0) {
        struct cel_list *l = cel_list_new(&run->arena, 0);
        l->open = true;
        return cel_list_value(l);
    }
    if (v.kind == CEL_MAP && v.map->n == 0) {
        struct cel_map *m = cel_map_new(&run->arena, 0);
        m->open = true;
        return cel_map_value(m);
    }
    return v;
}

struct cel_val cel_slow_closed(struct cel_run *run, struct cel_val v)
{
    if (v.kind == CEL_LIST && v.list->open) {
        struct cel_list *l = arena_one(&run->arena, struct cel_list);
        *l = *v.list;
        l->open = false;
        l->cap = l->n; // growing the closed list must not write into the open one
        return cel_list_value(l);
    }
    if (v.kind == CEL_MAP && v.map->open) {
        struct cel_map *m = arena_one(&run->arena, struct cel_map);
        *m = *v.map;
        m->open = false;
        return cel_map_value(m);
    }
    return v;
}

static struct cel_val optional_element(struct cel_run *run, struct cel_val v,
                                       const struct cel_val *key)
{
    cleanup_sbuf struct sbuf b = {0};
    cel_work_write(run, v, &b);
    if (!key)
        return cel_errorf(&run->arena,
                          "cannot initialize optional list element from non-optional value %.*s",
                          STR_ARG(sbuf_str(&b)));
    cleanup_sbuf struct sbuf k = {0};
    cel_work_write(run, *key, &k);
    return cel_errorf(&run->arena,
                      "cannot initialize optional entry '%.*s' from non-optional value %.*s",
                      STR_ARG(sbuf_str(&k)), STR_ARG(sbuf_str(&b)));
}

// Appends to a list under construction; the result is the list or an error.
struct cel_val cel_slow_append(struct cel_run *run, struct cel_val list, struct cel_val v,
                               bool optional)
{
    if (cel_is_error(v))
        return v;
    if (optional) {
        if (v.kind != CEL_OPTIONAL)
            return optional_element(run, v, NULL);
        if (!v.opt)
            return list;
        v = *v.opt;
    }
    cel_list_push(&run->arena, list.list, v);
    return list;
}

struct cel_val cel_slow_put(struct cel_run *run, const struct cel_program *p,
                            const struct cel_val *at, bool optional)
{
    struct cel_val map = at[0];
    struct cel_val key = at[1];
    struct cel_val v = at[2];
    if (cel_is_error(v))
        return v;
    if (!cel_key_allowed(key, p->strict_rules))
        return p->strict_rules ? cel_errorf(&run->arena, "unsupported key type")
                               : cel_slow_unhashable(run, key);
    if (optional) {
        if (v.kind != CEL_OPTIONAL)
            return optional_element(run, v, &key);
        if (!v.opt) {
            cel_map_remove(&run->arena, map.map, key);
            return map;
        }
        v = *v.opt;
    }
    // A key that is a container is compared with those that are there.
    if ((key.kind == CEL_LIST || key.kind == CEL_MAP || key.kind == CEL_OPTIONAL) &&
        !cel_work_add(run, cel_weight(key) * (map.map->n + (uint64_t)1)))
        return cel_no_such_overload(); // and it ends
    if (!cel_map_set(&run->arena, map.map, key, v) && p->strict_rules)
        return missing_key(run, key, "Failed with repeated key");
    return map;
}

struct cel_val cel_slow_list_of(struct cel_run *run, const struct cel_val *items, uint32_t n)
{
    struct cel_list *l = cel_list_new(&run->arena, n);
    if (n)
        memcpy(l->items, items, n * sizeof(*items));
    l->n = n;
    return cel_list_value(l);
}

struct cel_val cel_slow_fatal(struct cel_run *run, const char *text)
{
    struct cel_val v = cel_errorf(&run->arena, "%s", text);
    struct cel_error *e =
        arena_dup(&run->arena, v.error, sizeof(*v.error), _Alignof(struct cel_error));
    e->fatal = true;
    return cel_error_const(e);
}

struct cel_val cel_slow_no_name(struct cel_run *run, const struct cel_program *p, uint32_t path)
{
    return cel_errorf(&run->arena, "no such key: %.*s", STR_ARG(p->paths.p[path].name));
}

// The end of an attribute: wrap what came through an optional qualifier; has() answers a bool.
struct cel_val cel_slow_attribute_end(struct cel_run *run, struct cel_val v, bool test)
{
    if (test && v.kind == CEL_OPTIONAL)
        return cel_bool(v.opt != NULL);
    if (v.flags & CEL_F_CHAIN) {
        if (test)
            return cel_bool(v.kind == CEL_BOOL && v.b);
        return cel_optional(&run->arena, v);
    }
    return v;
}

// The stack and slots for a program, and a path cache that belongs to it.
void cel_slow_prepare(struct cel_run *run, const struct cel_program *p)
{
    size_t need = (size_t)p->stack + p->slots + 8;
    if (need > run->stack_cap) {
        free(run->stack);
        run->stack = xcalloc(need, sizeof(*run->stack));
        run->stack_cap = need;
    }
    if (p->paths.n > run->paths_cap) {
        free(run->paths);
        run->paths = xcalloc(p->paths.n, sizeof(*run->paths));
        run->paths_cap = p->paths.n;
    }
    if (p->paths.n)
        memset(run->paths, 0, p->paths.n * sizeof(*run->paths));
    run->program = p;
    run->program_serial = p->serial;
}
