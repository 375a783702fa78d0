// SPDX-License-Identifier: Apache-2.0
//
// Conversions between types: int(x), string(x), timestamp(x)…
#include <ctype.h>
#include <math.h>

#include "base/utf8.h"
#include "cel/lib/lib.h"
#include "cel/text.h"

#include "base/banned.h"

#define MIN_UNIX (-62135596800)
#define MAX_UNIX 253402300799

static struct cel_val lib_convert_type_error(struct cel_run *run, struct cel_val from,
                                             const char *to)
{
    return cel_errorf(&run->arena, "type conversion error from '%.*s' to '%s'",
                      STR_ARG(cel_type_name(from)), to);
}

static struct cel_val lib_convert_overflow_error(struct cel_run *run, bool is_signed)
{
    return cel_errorf(&run->arena, "%s",
                      is_signed ? "integer overflow" : "unsigned integer overflow");
}

static struct cel_val string_to_int(struct cel_run *run, struct cel_val v)
{
    struct str s = cel_str(v);
    bool plus = s.n > 1 && s.p[0] == '+' && isdigit((unsigned char)s.p[1]);
    int64_t i;
    if (str_to_i64(plus ? str_from(s, 1) : s, &i) != 0)
        return lib_convert_type_error(run, v, "int");
    return cel_int(i);
}

static struct cel_val fn_int(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    (void)n;
    struct cel_val v = args[0];
    switch (v.kind) {
    case CEL_INT:
        return v;
    case CEL_UINT:
        return v.u > INT64_MAX ? lib_convert_overflow_error(run, true) : cel_int(v.i);
    case CEL_DOUBLE:
        if (isnan(v.d) || v.d <= -9223372036854775808.0 || v.d >= 9223372036854775807.0)
            return lib_convert_overflow_error(run, true);
        return cel_int((int64_t)v.d);
    case CEL_STRING:
        return string_to_int(run, v);
    case CEL_DURATION:
    case CEL_TIMESTAMP:
        return cel_int(v.i);
    default:
        return lib_convert_type_error(run, v, "int");
    }
}

static struct cel_val fn_uint(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    (void)n;
    struct cel_val v = args[0];
    uint64_t u;
    switch (v.kind) {
    case CEL_UINT:
        return v;
    case CEL_INT:
        return v.i < 0 ? lib_convert_overflow_error(run, false) : cel_uint(v.u);
    case CEL_DOUBLE:
        if (isnan(v.d) || v.d < 0 || v.d >= 18446744073709551615.0)
            return lib_convert_overflow_error(run, false);
        return cel_uint((uint64_t)v.d);
    case CEL_STRING:
        return str_to_u64(cel_str(v), &u) != 0 ? lib_convert_type_error(run, v, "uint")
                                               : cel_uint(u);
    default:
        return lib_convert_type_error(run, v, "uint");
    }
}

static struct cel_val fn_double(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    (void)n;
    struct cel_val v = args[0];
    double d;
    switch (v.kind) {
    case CEL_DOUBLE:
        return v;
    case CEL_INT:
        return cel_double((double)v.i);
    case CEL_UINT:
        return cel_double((double)v.u);
    case CEL_STRING:
        return cel_text_read_double(cel_str(v), &d) ? cel_double(d)
                                                    : lib_convert_type_error(run, v, "double");
    default:
        return lib_convert_type_error(run, v, "double");
    }
}

static struct cel_val fn_bool(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    (void)n;
    static const char *const yes[] = {"1", "t", "T", "TRUE", "true", "True"};
    static const char *const no[] = {"0", "f", "F", "FALSE", "false", "False"};
    if (args[0].kind == CEL_BOOL)
        return args[0];
    if (args[0].kind == CEL_STRING) {
        for (size_t i = 0; i < array_len(yes); i++)
            if (str_eqz(cel_str(args[0]), yes[i]))
                return cel_true;
        for (size_t i = 0; i < array_len(no); i++)
            if (str_eqz(cel_str(args[0]), no[i]))
                return cel_false;
    }
    return lib_convert_type_error(run, args[0], "bool");
}

static struct cel_val fn_bytes(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    (void)n;
    if (args[0].kind == CEL_BYTES)
        return args[0];
    return args[0].kind == CEL_STRING ? cel_bytes(cel_str(args[0]))
                                      : lib_convert_type_error(run, args[0], "bytes");
}

static struct cel_val fn_string(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    (void)n;
    struct cel_val v = args[0];
    switch (v.kind) {
    case CEL_STRING:
        return v;
    case CEL_BYTES:
        if (!utf8_valid(cel_str(v), NULL))
            return cel_errorf(&run->arena, "invalid UTF-8 in bytes, cannot convert to string");
        return cel_string(cel_str(v));
    case CEL_BOOL:
    case CEL_INT:
    case CEL_UINT:
    case CEL_DOUBLE:
    case CEL_DURATION:
    case CEL_TIMESTAMP:
    case CEL_IP:
    case CEL_CIDR:
        sbuf_clear(&run->text);
        cel_write(v, &run->text);
        return cel_run_take(run);
    default:
        return lib_convert_type_error(run, v, "string");
    }
}

struct cel_val cel_to_duration(struct cel_run *run, struct cel_val v)
{
    int64_t nanos;
    if (v.kind == CEL_DURATION)
        return v;
    if (v.kind == CEL_STRING && cel_text_read_duration(cel_str(v), &nanos))
        return cel_duration(nanos);
    return lib_convert_type_error(run, v, "google.protobuf.Duration");
}

static struct cel_val fn_duration(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    (void)n;
    return cel_to_duration(run, args[0]);
}

struct cel_val cel_to_timestamp(struct cel_run *run, struct cel_val v)
{
    if (v.kind == CEL_TIMESTAMP)
        return v;
    int64_t seconds = v.i;
    uint32_t nanos = 0;
    int offset = 0;
    if (v.kind == CEL_STRING) {
        if (!cel_text_read_timestamp(cel_str(v), &seconds, &nanos, &offset))
            return lib_convert_type_error(run, v, "google.protobuf.Timestamp");
    } else if (v.kind != CEL_INT) {
        return lib_convert_type_error(run, v, "google.protobuf.Timestamp");
    }
    if (seconds < MIN_UNIX || seconds > MAX_UNIX)
        return cel_errorf(&run->arena, "timestamp overflow");
    struct cel_val t = cel_timestamp(seconds, nanos);
    t.spare = (int16_t)offset;
    return t;
}

static struct cel_val fn_timestamp(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    (void)n;
    return cel_to_timestamp(run, args[0]);
}

static struct cel_val fn_dyn(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    (void)run;
    (void)n;
    return args[0];
}

static struct cel_val fn_type(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    (void)run;
    (void)n;
    return cel_type_value(cel_type_of_value(args[0]));
}

static const struct cel_impl table[] = {
    {"int", fn_int},           {"uint", fn_uint},           {"double", fn_double},
    {"bool", fn_bool},         {"bytes", fn_bytes},         {"string", fn_string},
    {"duration", fn_duration}, {"timestamp", fn_timestamp}, {"dyn", fn_dyn},
    {"type", fn_type},
};

CEL_IMPLS(convert, table);
