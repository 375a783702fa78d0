// SPDX-License-Identifier: Apache-2.0
//
// Operators and the plain functions of the standard library.
#include "base/utf8.h"
#include "cel/lib/lib.h"

#include "base/banned.h"

#define DURATION_OVERFLOW "duration overflow"
#define INT_OVERFLOW      "integer overflow"
#define UINT_OVERFLOW     "unsigned integer overflow"

// Instants run from year 1 to year 9999, as protobuf's.
#define MIN_UNIX (-62135596800)
#define MAX_UNIX 253402300799

static struct cel_val lib_std_error(struct cel_run *run, const char *text)
{
    return cel_errorf(&run->arena, "%s", text);
}

static struct cel_val shift_time(struct cel_run *run, struct cel_val t, struct cel_val d, int sign)
{
    int64_t whole = d.i / 1000000000 * sign;
    int64_t nanos = (int64_t)t.n + d.i % 1000000000 * sign;
    if (nanos < 0) {
        nanos += 1000000000;
        whole--;
    } else if (nanos >= 1000000000) {
        nanos -= 1000000000;
        whole++;
    }
    t.i += whole;
    t.n = (uint32_t)nanos;
    if (t.i < MIN_UNIX || t.i > MAX_UNIX)
        return lib_std_error(run, "timestamp overflow");
    return t;
}

static struct cel_val lib_std_concat_values(struct cel_run *run, struct cel_val a, struct cel_val b)
{
    size_t n = (size_t)a.n + b.n;
    char *p = arena_alloc(&run->arena, n + 1, 1);
    if (a.n)
        memcpy(p, a.s, a.n);
    if (b.n)
        memcpy(p + a.n, b.s, b.n);
    a.s = p;
    a.n = (uint32_t)n;
    a.flags &= b.flags;
    return a;
}

static struct cel_val concat_lists(struct cel_run *run, struct cel_list *a, struct cel_list *b)
{
    struct cel_list *out = a;
    if (!a->open) {
        if (b->n == 0)
            return cel_list_value(a);
        if (a->n == 0)
            return cel_list_value(b);
        out = cel_list_new(&run->arena, (size_t)a->n + b->n);
        for (uint32_t i = 0; i < a->n; i++)
            out->items[out->n++] = a->items[i];
    }
    uint32_t n = b->n; // b may be the list that grows
    for (uint32_t i = 0; i < n; i++)
        cel_list_push(&run->arena, out, b->items[i]);
    return cel_list_value(out);
}

static struct cel_val add_same(struct cel_run *run, struct cel_val a, struct cel_val b)
{
    switch (a.kind) {
    case CEL_INT: {
        int64_t r;
        return __builtin_add_overflow(a.i, b.i, &r) ? lib_std_error(run, INT_OVERFLOW) : cel_int(r);
    }
    case CEL_UINT: {
        uint64_t r;
        return __builtin_add_overflow(a.u, b.u, &r) ? lib_std_error(run, UINT_OVERFLOW)
                                                    : cel_uint(r);
    }
    case CEL_DOUBLE:
        return cel_double(a.d + b.d);
    case CEL_STRING:
    case CEL_BYTES:
        return lib_std_concat_values(run, a, b);
    case CEL_LIST:
        return concat_lists(run, a.list, b.list);
    case CEL_DURATION: {
        int64_t r;
        return __builtin_add_overflow(a.i, b.i, &r) ? lib_std_error(run, DURATION_OVERFLOW)
                                                    : cel_duration(r);
    }
    default:
        return cel_no_such_overload();
    }
}

struct cel_val cel_add(struct cel_run *run, struct cel_val a, struct cel_val b)
{
    if (a.kind == b.kind)
        return add_same(run, a, b);
    if (a.kind == CEL_TIMESTAMP && b.kind == CEL_DURATION)
        return shift_time(run, a, b, 1);
    if (a.kind == CEL_DURATION && b.kind == CEL_TIMESTAMP)
        return shift_time(run, b, a, 1);
    return cel_no_such_overload();
}

static struct cel_val lib_std_fn_add(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    return n == 2 ? cel_add(run, args[0], args[1]) : cel_no_such_overload();
}

static struct cel_val subtract_times(struct cel_run *run, struct cel_val a, struct cel_val b)
{
    int64_t seconds = a.i - b.i;
    int64_t nanos = (int64_t)a.n - (int64_t)b.n;
    int64_t r;
    if (__builtin_mul_overflow(seconds, 1000000000, &r) || __builtin_add_overflow(r, nanos, &r))
        return lib_std_error(run, DURATION_OVERFLOW);
    return cel_duration(r);
}

static struct cel_val fn_subtract(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    struct cel_val a = args[0];
    struct cel_val b = args[1];
    int64_t r;
    uint64_t u;
    if (n == 2 && a.kind == CEL_TIMESTAMP && b.kind == CEL_DURATION)
        return shift_time(run, a, b, -1);
    if (n != 2 || a.kind != b.kind)
        return cel_no_such_overload();
    switch (a.kind) {
    case CEL_INT:
        return __builtin_sub_overflow(a.i, b.i, &r) ? lib_std_error(run, INT_OVERFLOW) : cel_int(r);
    case CEL_UINT:
        return __builtin_sub_overflow(a.u, b.u, &u) ? lib_std_error(run, UINT_OVERFLOW)
                                                    : cel_uint(u);
    case CEL_DOUBLE:
        return cel_double(a.d - b.d);
    case CEL_DURATION:
        return __builtin_sub_overflow(a.i, b.i, &r) ? lib_std_error(run, DURATION_OVERFLOW)
                                                    : cel_duration(r);
    case CEL_TIMESTAMP:
        return subtract_times(run, a, b);
    default:
        return cel_no_such_overload();
    }
}

static struct cel_val fn_multiply(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    struct cel_val a = args[0];
    struct cel_val b = args[1];
    int64_t r;
    uint64_t u;
    if (n != 2 || a.kind != b.kind)
        return cel_no_such_overload();
    if (a.kind == CEL_INT)
        return __builtin_mul_overflow(a.i, b.i, &r) ? lib_std_error(run, INT_OVERFLOW) : cel_int(r);
    if (a.kind == CEL_UINT)
        return __builtin_mul_overflow(a.u, b.u, &u) ? lib_std_error(run, UINT_OVERFLOW)
                                                    : cel_uint(u);
    return a.kind == CEL_DOUBLE ? cel_double(a.d * b.d) : cel_no_such_overload();
}

static struct cel_val fn_divide(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    struct cel_val a = args[0];
    struct cel_val b = args[1];
    if (n != 2 || a.kind != b.kind)
        return cel_no_such_overload();
    if (a.kind == CEL_DOUBLE)
        return cel_double(a.d / b.d);
    if (a.kind != CEL_INT && a.kind != CEL_UINT)
        return cel_no_such_overload();
    if (b.u == 0)
        return lib_std_error(run, "division by zero");
    if (a.kind == CEL_UINT)
        return cel_uint(a.u / b.u);
    if (a.i == INT64_MIN && b.i == -1)
        return lib_std_error(run, INT_OVERFLOW);
    return cel_int(a.i / b.i);
}

static struct cel_val fn_modulo(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    struct cel_val a = args[0];
    struct cel_val b = args[1];
    if (n != 2 || a.kind != b.kind || (a.kind != CEL_INT && a.kind != CEL_UINT))
        return cel_no_such_overload();
    if (b.u == 0)
        return lib_std_error(run, "modulus by zero");
    if (a.kind == CEL_UINT)
        return cel_uint(a.u % b.u);
    if (a.i == INT64_MIN && b.i == -1)
        return lib_std_error(run, INT_OVERFLOW);
    return cel_int(a.i % b.i);
}

static struct cel_val fn_negate(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    (void)n;
    if (args[0].kind == CEL_DOUBLE)
        return cel_double(-args[0].d);
    if (args[0].kind != CEL_INT)
        return cel_no_such_overload();
    return args[0].i == INT64_MIN ? lib_std_error(run, INT_OVERFLOW) : cel_int(-args[0].i);
}

struct cel_val cel_list_contains(const struct cel_list *l, struct cel_val v)
{
    // Values that cannot be compared are different ones here, upstream as well.
    for (uint32_t i = 0; i < l->n; i++)
        if (cel_is_true(cel_equal(v, l->items[i])))
            return cel_true;
    return cel_false;
}

static struct cel_val fn_in(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    (void)run;
    (void)n;
    if (args[1].kind == CEL_LIST)
        return cel_list_contains(args[1].list, args[0]);
    if (args[1].kind != CEL_MAP)
        return cel_no_such_overload();
    // The outer maps of a device know only their real domains here.
    struct cel_map plain = *args[1].map;
    plain.always = false;
    return cel_bool(cel_map_get(&plain, args[0]) != NULL);
}

static struct cel_val fn_size(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    (void)n;
    uint8_t k = args[0].kind;
    if (k != CEL_STRING && k != CEL_BYTES && k != CEL_LIST && k != CEL_MAP && k != CEL_IP &&
        k != CEL_CIDR)
        return cel_run_mismatch(run, "size", args, 1);
    return cel_int((int64_t)cel_size(args[0]));
}

static bool lib_std_takes_two_strings(const struct cel_val *args, unsigned n)
{
    return n == 2 && args[0].kind == CEL_STRING && args[1].kind == CEL_STRING;
}

static struct cel_val fn_contains(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (!lib_std_takes_two_strings(args, n))
        return cel_run_mismatch(run, "contains", args, n);
    return cel_bool(str_contains(cel_str(args[0]), cel_str(args[1])));
}

static struct cel_val fn_starts(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (!lib_std_takes_two_strings(args, n))
        return cel_run_mismatch(run, "startsWith", args, n);
    return cel_bool(str_starts(cel_str(args[0]), cel_str(args[1])));
}

static struct cel_val fn_ends(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (!lib_std_takes_two_strings(args, n))
        return cel_run_mismatch(run, "endsWith", args, n);
    return cel_bool(str_ends(cel_str(args[0]), cel_str(args[1])));
}

static const struct cel_impl table[] = {
    {"_+_", lib_std_fn_add},   {"_-_", fn_subtract},      {"_*_", fn_multiply},  {"_/_", fn_divide},
    {"_%_", fn_modulo},        {"-_", fn_negate},         {"@in", fn_in},        {"size", fn_size},
    {"contains", fn_contains}, {"startsWith", fn_starts}, {"endsWith", fn_ends},
};

CEL_IMPLS(std, table);
