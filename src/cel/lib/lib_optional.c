// SPDX-License-Identifier: Apache-2.0
//
// Optional values.
#include "cel/cost/work.h"
#include "cel/lib/lib.h"

#include "base/banned.h"

static struct cel_val fn_of(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    return n == 1 ? cel_optional(&run->arena, args[0]) : cel_no_such_overload();
}

static struct cel_val fn_none(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    (void)run;
    (void)args;
    (void)n;
    return cel_none;
}

static bool lib_optional_is_zero(struct cel_val v)
{
    switch (v.kind) {
    case CEL_NULL:
        return true;
    case CEL_BOOL:
        return !v.b;
    case CEL_INT:
    case CEL_UINT:
    case CEL_DURATION:
        return v.i == 0;
    case CEL_DOUBLE:
        return v.d == 0;
    case CEL_STRING:
    case CEL_BYTES:
        return v.n == 0;
    case CEL_LIST:
        return v.list->n == 0;
    case CEL_MAP:
        return v.map->n == 0;
    case CEL_TIMESTAMP:
        return v.i == -62135596800 && v.n == 0; // Go's zero time: year 1
    default:
        return false;
    }
}

static struct cel_val fn_of_non_zero(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1)
        return cel_no_such_overload();
    return lib_optional_is_zero(args[0]) ? cel_none : cel_optional(&run->arena, args[0]);
}

static struct cel_val fn_value(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || args[0].kind != CEL_OPTIONAL)
        return cel_run_mismatch(run, "value", args, n);
    return args[0].opt ? *args[0].opt : cel_errorf(&run->arena, "optional.none() dereference");
}

static struct cel_val fn_has_value(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || args[0].kind != CEL_OPTIONAL)
        return cel_run_mismatch(run, "hasValue", args, n);
    return cel_bool(args[0].opt != NULL);
}

static struct cel_val fn_first(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || args[0].kind != CEL_LIST)
        return cel_run_mismatch(run, "first", args, n);
    const struct cel_list *l = args[0].list;
    return l->n ? cel_optional(&run->arena, l->items[0]) : cel_none;
}

static struct cel_val fn_last(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || args[0].kind != CEL_LIST)
        return cel_run_mismatch(run, "last", args, n);
    const struct cel_list *l = args[0].list;
    return l->n ? cel_optional(&run->arena, l->items[l->n - 1]) : cel_none;
}

static struct cel_val fn_unwrap(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || args[0].kind != CEL_LIST)
        return cel_run_mismatch(run, "unwrapOpt", args, n);
    const struct cel_list *in = args[0].list;
    struct cel_list *out = cel_list_new(&run->arena, in->n);
    for (uint32_t i = 0; i < in->n; i++) {
        if (in->items[i].kind != CEL_OPTIONAL) {
            cleanup_sbuf struct sbuf b = {0};
            cel_work_write(run, in->items[i], &b);
            return cel_errorf(&run->arena, "value %.*s is not optional", STR_ARG(sbuf_str(&b)));
        }
        if (in->items[i].opt)
            cel_list_push(&run->arena, out, *in->items[i].opt);
    }
    return cel_list_value(out);
}

static const struct cel_impl table[] = {
    {"optional.of", fn_of},
    {"optional.none", fn_none},
    {"optional.ofNonZeroValue", fn_of_non_zero},
    {"value", fn_value},
    {"hasValue", fn_has_value},
    {"first", fn_first},
    {"last", fn_last},
    {"optional.unwrap", fn_unwrap},
    {"unwrapOpt", fn_unwrap},
};

CEL_IMPLS(optional, table);
