// SPDX-License-Identifier: Apache-2.0
//
// Error messages in a fixed buffer, so that reporting a failure never allocates. A message that is
// too long is cut, and ends in an ellipsis.
#include "base/err.h"

#include <stdio.h>
#include <string.h>

#include "base/banned.h"

// Marks a text that fills its buffer as cut. The mark never begins within a character.
static void err_mark_cut(char *buf, size_t cap)
{
    static const char mark[] = "…";
    size_t at = cap - sizeof(mark);
    while (at > 0 && ((unsigned char)buf[at] & 0xc0) == 0x80)
        at--;
    memcpy(buf + at, mark, sizeof(mark));
}

int err_set_v(struct err *err, int code, const char *fmt, va_list ap)
{
    if (!err)
        return -code;
    err->code = code;
    err->line = 0;
    err->column = 0;
    err->path[0] = '\0';
    if (vsnprintf(err->msg, sizeof(err->msg), fmt, ap) >= (int)sizeof(err->msg))
        err_mark_cut(err->msg, sizeof(err->msg));
    return -code;
}

void err_record(struct err *err, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)err_set_v(err, code, fmt, ap);
    va_end(ap);
}

// Puts head before the text in buf; what does not fit is cut from the end.
static void err_prepend_text(char *buf, size_t cap, const char *head, size_t head_len)
{
    size_t old = strlen(buf);
    if (head_len >= cap)
        head_len = cap - 1;
    size_t keep = old < cap - 1 - head_len ? old : cap - 1 - head_len;
    memmove(buf + head_len, buf, keep);
    memcpy(buf, head, head_len);
    buf[head_len + keep] = '\0';
    if (keep < old)
        err_mark_cut(buf, cap);
}

int err_wrap(struct err *err, const char *fmt, ...)
{
    if (!err)
        return -ERR_INTERNAL;
    char head[DRAY_ERR_MSG_MAX];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(head, sizeof(head) - 2, fmt, ap);
    va_end(ap);
    size_t len = n < 0 ? 0 : strlen(head);
    memcpy(head + len, ": ", 3);
    err_prepend_text(err->msg, sizeof(err->msg), head, len + 2);
    return -err->code;
}

void err_at(struct err *err, size_t line, size_t column)
{
    if (!err)
        return;
    err->line = line;
    err->column = column;
}

void err_path_field(struct err *err, const char *name, size_t len)
{
    if (!err)
        return;
    if (err->path[0] != '\0' && err->path[0] != '[')
        err_prepend_text(err->path, sizeof(err->path), ".", 1);
    err_prepend_text(err->path, sizeof(err->path), name, len);
}

void err_path_index(struct err *err, size_t index)
{
    char step[32];
    int n = snprintf(step, sizeof(step), "%zu", index);
    err_path_key(err, step, n < 0 ? 0 : (size_t)n);
}

void err_path_key(struct err *err, const char *key, size_t len)
{
    if (!err)
        return;
    if (err->path[0] != '\0' && err->path[0] != '[')
        err_prepend_text(err->path, sizeof(err->path), ".", 1);
    err_prepend_text(err->path, sizeof(err->path), "]", 1);
    err_prepend_text(err->path, sizeof(err->path), key, len);
    err_prepend_text(err->path, sizeof(err->path), "[", 1);
}

static const struct {
    int code;
    const char *reason;
} reasons[] = {
    {ERR_BAD_REQUEST, "BadRequest"},
    {ERR_UNAUTHORIZED, "Unauthorized"},
    {ERR_FORBIDDEN, "Forbidden"},
    {ERR_NOT_FOUND, "NotFound"},
    {ERR_ALREADY_EXISTS, "AlreadyExists"},
    {ERR_CONFLICT, "Conflict"},
    {ERR_GONE, "Gone"},
    {ERR_EXPIRED, "Expired"},
    {ERR_INVALID, "Invalid"},
    {ERR_TOO_LARGE, "RequestEntityTooLarge"},
    {ERR_TOO_MANY, "TooManyRequests"},
    {ERR_TIMEOUT, "Timeout"},
    {ERR_UNAVAILABLE, "ServiceUnavailable"},
    {ERR_UNSUPPORTED, "UnsupportedMediaType"},
    {ERR_INTERNAL, "InternalError"},
};

const char *err_reason(int code)
{
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (reasons[i].code == code)
            return reasons[i].reason;
    return "InternalError";
}

void err_text(const struct err *err, char *buf, size_t cap)
{
    char where[64] = "";
    if (err->line)
        (void)snprintf(where, sizeof(where), "line %zu, column %zu: ", err->line, err->column);
    (void)snprintf(buf, cap, "%s%s%s%s", where, err->path, err->path[0] ? ": " : "", err->msg);
}
