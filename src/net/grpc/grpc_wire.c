// SPDX-License-Identifier: Apache-2.0
//
// Pure functions on the texts and bytes of gRPC: timeouts, percent-encoded messages, message
// prefixes, statuses of HTTP and HTTP/2 errors. Kept apart from connections so that they can be
// fuzzed.
#include "net/grpc/grpc_wire.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>

#include "codec/percent.h"

#include "base/banned.h"

#define TIMEOUT_DIGITS_MAX ((size_t)8)
#define TIMEOUT_VALUE_MAX  INT64_C(99999999)
#define TIMEOUT_NS_MAX     (INT64_C(100) * 365 * 24 * 3600 * CLOCK_NS_PER_SEC)

static const char *const status_names[] = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
};

const char *grpc_status_name(enum grpc_status s)
{
    return (size_t)s < array_len(status_names) ? status_names[s] : "UNKNOWN";
}

enum grpc_status grpc_status_read(struct str s)
{
    uint64_t n = 0;
    if (str_to_u64(s, &n) < 0 || n >= array_len(status_names))
        return GRPC_UNKNOWN;
    return (enum grpc_status)n;
}

// --- Time-outs -----------------------------------------------------------------------------------

// Finest first.
static const struct {
    char unit;
    int64_t ns;
} units[] = {
    {'n', 1},
    {'u', CLOCK_NS_PER_US},
    {'m', CLOCK_NS_PER_MS},
    {'S', CLOCK_NS_PER_SEC},
    {'M', 60 * CLOCK_NS_PER_SEC},
    {'H', 3600 * CLOCK_NS_PER_SEC},
};

int grpc_timeout_read(struct str s, int64_t *ret_ns)
{
    if (s.n < 2 || s.n > TIMEOUT_DIGITS_MAX + 1)
        return -ERR_BAD_REQUEST;
    int64_t value = 0;
    for (size_t i = 0; i + 1 < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return -ERR_BAD_REQUEST;
        value = value * 10 + (s.p[i] - '0');
    }
    for (size_t i = 0; i < array_len(units); i++) {
        if (units[i].unit != s.p[s.n - 1])
            continue;
        *ret_ns = value > TIMEOUT_NS_MAX / units[i].ns ? TIMEOUT_NS_MAX : value * units[i].ns;
        return 0;
    }
    return -ERR_BAD_REQUEST;
}

void grpc_timeout_write(int64_t ns, struct sbuf *out)
{
    if (ns < 0)
        ns = 0;
    for (size_t i = 0; i < array_len(units); i++) {
        int64_t value = ns / units[i].ns + (ns % units[i].ns != 0);
        if (value <= TIMEOUT_VALUE_MAX) {
            sbuf_add_i64(out, value);
            sbuf_addc(out, units[i].unit);
            return;
        }
    }
    sbuf_add_i64(out, TIMEOUT_VALUE_MAX);
    sbuf_addc(out, 'H');
}

// --- Messages of errors --------------------------------------------------------------------------

static bool grpc_message_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '%';
}

void grpc_percent_encode(struct str s, struct sbuf *out)
{
    percent_encode(s, grpc_message_plain, out);
}

// --- Frames --------------------------------------------------------------------------------------

enum grpc_status grpc_frame_next(struct str in, size_t limit, struct str *ret_message,
                                 size_t *ret_used)
{
    *ret_used = 0;
    if (in.n == 0)
        return GRPC_OK;
    if (in.p[0] != 0)
        return in.p[0] == 1 ? GRPC_UNIMPLEMENTED : GRPC_INTERNAL;
    if (in.n < GRPC_PREFIX_BYTES)
        return GRPC_OK;
    const unsigned char *p = (const unsigned char *)in.p;
    size_t n = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    if (n > limit)
        return GRPC_RESOURCE_EXHAUSTED;
    if (in.n - GRPC_PREFIX_BYTES < n)
        return GRPC_OK;
    *ret_message = str_make(in.p + GRPC_PREFIX_BYTES, n);
    *ret_used = GRPC_PREFIX_BYTES + n;
    return GRPC_OK;
}

void grpc_prefix(char to[GRPC_PREFIX_BYTES], size_t message_bytes)
{
    to[0] = 0;
    to[1] = (char)(message_bytes >> 24 & 0xff);
    to[2] = (char)(message_bytes >> 16 & 0xff);
    to[3] = (char)(message_bytes >> 8 & 0xff);
    to[4] = (char)(message_bytes & 0xff);
}

// --- What others say -----------------------------------------------------------------------------

enum grpc_status grpc_status_of_http(int status)
{
    switch (status) {
    case 400:
        return GRPC_INTERNAL;
    case 401:
        return GRPC_UNAUTHENTICATED;
    case 403:
        return GRPC_PERMISSION_DENIED;
    case 404:
        return GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return GRPC_UNAVAILABLE;
    default:
        return GRPC_UNKNOWN;
    }
}

enum grpc_status grpc_status_of_reset(uint32_t code)
{
    switch (code) {
    case NGHTTP2_REFUSED_STREAM:
        return GRPC_UNAVAILABLE;
    case NGHTTP2_CANCEL:
        return GRPC_CANCELLED;
    case NGHTTP2_ENHANCE_YOUR_CALM:
        return GRPC_RESOURCE_EXHAUSTED;
    case NGHTTP2_INADEQUATE_SECURITY:
        return GRPC_PERMISSION_DENIED;
    default:
        return GRPC_INTERNAL;
    }
}

bool grpc_meta_reserved(struct str name)
{
    static const struct str taken[] = {
        STR_INIT("content-type"), STR_INIT("te"),   STR_INIT("user-agent"),
        STR_INIT("connection"),   STR_INIT("host"), STR_INIT("transfer-encoding"),
    };
    for (size_t i = 0; i < array_len(taken); i++)
        if (str_eq(name, taken[i]))
            return true;
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.'))
            return true;
    }
    return name.n == 0 || str_starts(name, STR("grpc-"));
}
