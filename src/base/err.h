// SPDX-License-Identifier: Apache-2.0
//
// Errors as values. A fallible function returns 0 (or a non-negative result) on success and a
// negative code on failure; a function with something to say takes `struct err *err` as its last
// parameter. The message lives in a fixed buffer, so failing never allocates. A NULL err is legal
// everywhere and only loses the text.
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>

#include "base/limits.h"

// Codes beyond errno. Each maps to one reason of a Kubernetes Status (err_reason).
enum err_code {
    ERR_BAD_REQUEST = 1000, // the bytes cannot be understood
    ERR_UNAUTHORIZED,
    ERR_FORBIDDEN,
    ERR_NOT_FOUND,
    ERR_ALREADY_EXISTS,
    ERR_CONFLICT,
    ERR_GONE,
    ERR_EXPIRED,
    ERR_INVALID, // understood, but breaks a rule
    ERR_TOO_LARGE,
    ERR_TOO_MANY,
    ERR_TIMEOUT,
    ERR_UNAVAILABLE,
    ERR_UNSUPPORTED,
    ERR_INTERNAL,
};

// struct err: what went wrong and where. line and column start at 1; 0 means unknown.
struct err {
    int code;                     // positive: an errno value or an enum err_code; 0 when unset
    size_t line;                  // position in a source text
    size_t column;                // in bytes
    char path[DRAY_ERR_PATH_MAX]; // field path such as spec.devices[0].name, may be empty
    char msg[DRAY_ERR_MSG_MAX];
};

#define ERR_PRINTF(fmt_index, args_index) __attribute__((format(printf, fmt_index, args_index)))
#define MUST_USE                          __attribute__((warn_unused_result))

// err_set records code and message, clears path and position. Returns -code. A macro, so that
// compilers and analyzers see that the result is negative.
#define err_set(err, code, ...) (err_record((err), (code), __VA_ARGS__), err_result(code))

// The function behind err_set, and what it returns.
void err_record(struct err *err, int code, const char *fmt, ...) ERR_PRINTF(3, 4);

static inline int err_result(int code)
{
    return -code;
}

// err_set_v is err_set for a va_list.
int err_set_v(struct err *err, int code, const char *fmt, va_list ap) ERR_PRINTF(3, 0);

// err_wrap puts "context: " before the message. Returns -code of the wrapped error.
int err_wrap(struct err *err, const char *fmt, ...) ERR_PRINTF(2, 3);

// err_at records a position in the source text.
void err_at(struct err *err, size_t line, size_t column);

// err_path_field and err_path_index put one more step before the field path; callers use them
// while unwinding, innermost first.
void err_path_field(struct err *err, const char *name, size_t len);
void err_path_index(struct err *err, size_t index);

// err_path_key puts a map key step, `[key]`, before the field path.
void err_path_key(struct err *err, const char *key, size_t len);

// err_reason names a code as Kubernetes' Status.reason does. Never NULL; static storage.
const char *err_reason(int code);

// err_text formats position, path and message on one line into buf (always NUL-terminated).
void err_text(const struct err *err, char *buf, size_t cap);

// must_succeed is for calls that fail only when they are used wrongly, such as pthread_mutex_lock.
static inline void must_succeed(int r)
{
    assert(r == 0);
    (void)r;
}

#endif
