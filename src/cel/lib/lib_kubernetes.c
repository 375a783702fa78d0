// SPDX-License-Identifier: Apache-2.0
//
// Quantities and versions.
#include "cel/lib/lib.h"

#include "base/banned.h"

static bool is_quantity(const struct cel_val *args, unsigned n, unsigned i)
{
    return i < n && args[i].kind == CEL_QUANTITY;
}

static bool parse_quantity(struct cel_run *run, struct cel_val v, struct quantity *ret,
                           struct err *err)
{
    return quantity_parse(cel_str(v), &run->arena, ret, err) == 0;
}

static struct cel_val fn_quantity(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || args[0].kind != CEL_STRING)
        return cel_run_mismatch(run, "quantity", args, n);
    struct quantity q;
    struct err err = {0};
    if (!parse_quantity(run, args[0], &q, &err))
        return cel_errorf(&run->arena, "%s", err.msg);
    return cel_quantity(&run->arena, &q);
}

static struct cel_val fn_is_quantity(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || args[0].kind != CEL_STRING)
        return cel_run_mismatch(run, "isQuantity", args, n);
    struct quantity q;
    struct err err = {0};
    return cel_bool(parse_quantity(run, args[0], &q, &err));
}

static struct cel_val fn_sign(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || !is_quantity(args, n, 0))
        return cel_run_mismatch(run, "sign", args, n);
    return cel_int(quantity_sign(args[0].quantity));
}

static struct cel_val fn_is_integer(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || !is_quantity(args, n, 0))
        return cel_run_mismatch(run, "isInteger", args, n);
    int64_t i;
    return cel_bool(quantity_as_i64(args[0].quantity, &i));
}

static struct cel_val fn_as_integer(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || !is_quantity(args, n, 0))
        return cel_run_mismatch(run, "asInteger", args, n);
    int64_t i;
    if (!quantity_as_i64(args[0].quantity, &i))
        return cel_errorf(&run->arena, "cannot convert value to integer");
    return cel_int(i);
}

static struct cel_val fn_as_double(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || !is_quantity(args, n, 0))
        return cel_run_mismatch(run, "asApproximateFloat", args, n);
    return cel_double(quantity_as_double(args[0].quantity));
}

static struct cel_val lib_kubernetes_quantity_arithmetic(struct cel_run *run, const char *name,
                                                         const struct cel_val *args, unsigned n,
                                                         bool subtract)
{
    if (n != 2 || !is_quantity(args, n, 0) ||
        (args[1].kind != CEL_QUANTITY && args[1].kind != CEL_INT))
        return cel_run_mismatch(run, name, args, n);
    struct quantity other = args[1].kind == CEL_INT
                                ? quantity_from_i64(args[1].i, QUANTITY_DECIMAL_EXPONENT)
                                : *args[1].quantity;
    struct quantity r;
    if (subtract)
        quantity_sub(&r, args[0].quantity, &other, &run->arena);
    else
        quantity_add(&r, args[0].quantity, &other, &run->arena);
    struct cel_val v = cel_quantity(&run->arena, &r);
    v.flags |= CEL_F_COMPUTED;
    return v;
}

static struct cel_val lib_kubernetes_fn_add(struct cel_run *run, const struct cel_val *args,
                                            unsigned n)
{
    return lib_kubernetes_quantity_arithmetic(run, "add", args, n, false);
}

static struct cel_val fn_sub(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    return lib_kubernetes_quantity_arithmetic(run, "sub", args, n, true);
}

// Orders two quantities or two versions: -1, 0, 1. False when they are neither.
static inline bool lib_kubernetes_compare_quantities(const struct cel_val *args, unsigned n,
                                                     int *ret)
{
    if (n != 2 || args[0].kind != args[1].kind)
        return false;
    int c;
    if (args[0].kind == CEL_QUANTITY)
        c = quantity_cmp(args[0].quantity, args[1].quantity);
    else if (args[0].kind == CEL_SEMVER)
        c = semver_cmp(args[0].semver, args[1].semver);
    else
        return false;
    *ret = (c > 0) - (c < 0);
    return true;
}

static struct cel_val fn_compare(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    int c;
    return lib_kubernetes_compare_quantities(args, n, &c)
               ? cel_int(c)
               : cel_run_mismatch(run, "compareTo", args, n);
}

static struct cel_val fn_greater(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    int c;
    return lib_kubernetes_compare_quantities(args, n, &c)
               ? cel_bool(c > 0)
               : cel_run_mismatch(run, "isGreaterThan", args, n);
}

static struct cel_val fn_less(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    int c;
    return lib_kubernetes_compare_quantities(args, n, &c)
               ? cel_bool(c < 0)
               : cel_run_mismatch(run, "isLessThan", args, n);
}

static bool parse_semver(struct cel_run *run, const struct cel_val *args, unsigned n,
                         struct semver *ret, struct err *err)
{
    struct str s = cel_str(args[0]);
    if (n == 2 && args[1].b)
        return semver_parse_tolerant(s, &run->arena, ret, err) == 0;
    return semver_parse(s, ret, err) == 0;
}

static bool semver_args(const struct cel_val *args, unsigned n)
{
    return n <= 2 && args[0].kind == CEL_STRING && (n == 1 || args[1].kind == CEL_BOOL);
}

static struct cel_val fn_semver(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (!semver_args(args, n))
        return cel_run_mismatch(run, "semver", args, n);
    struct semver v;
    struct err err = {0};
    if (!parse_semver(run, args, n, &v, &err))
        return cel_errorf(&run->arena, "%s", err.msg);
    return cel_semver(&run->arena, &v);
}

static struct cel_val fn_is_semver(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (!semver_args(args, n))
        return cel_run_mismatch(run, "isSemver", args, n);
    struct semver v;
    struct err err = {0};
    return cel_bool(parse_semver(run, args, n, &v, &err));
}

#define VERSION_PART(fn, name, field)                                                     \
    static struct cel_val fn(struct cel_run *run, const struct cel_val *args, unsigned n) \
    {                                                                                     \
        if (n != 1 || args[0].kind != CEL_SEMVER)                                         \
            return cel_run_mismatch(run, name, args, n);                                  \
        return cel_int((int64_t)args[0].semver->field);                                   \
    }

VERSION_PART(fn_major, "major", major)
VERSION_PART(fn_minor, "minor", minor)
VERSION_PART(fn_patch, "patch", patch)

static const struct cel_impl table[] = {
    {"quantity", fn_quantity},
    {"isQuantity", fn_is_quantity},
    {"sign", fn_sign},
    {"isInteger", fn_is_integer},
    {"asInteger", fn_as_integer},
    {"asApproximateFloat", fn_as_double},
    {"add", lib_kubernetes_fn_add},
    {"sub", fn_sub},
    {"compareTo", fn_compare},
    {"isGreaterThan", fn_greater},
    {"isLessThan", fn_less},
    {"semver", fn_semver},
    {"isSemver", fn_is_semver},
    {"major", fn_major},
    {"minor", fn_minor},
    {"patch", fn_patch},
};

CEL_IMPLS(kubernetes, table);
