// SPDX-License-Identifier: Apache-2.0
//
// Refusals in Kubernetes' words.
#include <stdarg.h>
#include <stdio.h>

#include "registry/stage_int.h"

#include "base/banned.h"

struct status_subject op_subject(const struct op *op, struct str name)
{
    return (struct status_subject){op->request->kind->group, op->request->kind->plural, name};
}

static struct str fail_format_text(struct op *op, const char *fmt, va_list ap) ERR_PRINTF(2, 0);

static struct str fail_format_text(struct op *op, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    size_t size = n > 0 ? (size_t)n : 0;
    char *text = arena_alloc(op->arena, size + 1, 1);
    (void)vsnprintf(text, size + 1, fmt, again);
    va_end(again);
    return str_make(text, size);
}

int fail_not_found(struct op *op, struct status_subject s)
{
    op->status = api_status_not_found(op->arena, &s);
    return -ERR_NOT_FOUND;
}

int fail_exists(struct op *op, struct status_subject s, bool being_deleted)
{
    op->status = api_status_already_exists(op->arena, &s);
    if (being_deleted)
        op->status->message =
            arena_strf(op->arena, "object is being deleted: %.*s", STR_ARG(op->status->message));
    return -ERR_ALREADY_EXISTS;
}

int fail_generated(struct op *op, struct status_subject s)
{
    op->status = api_status_generate_name_conflict(op->arena, &s, 1);
    return -ERR_ALREADY_EXISTS;
}

int fail_conflict(struct op *op, struct status_subject s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    op->status = api_status_conflict(op->arena, &s, fail_format_text(op, fmt, ap));
    va_end(ap);
    return -ERR_CONFLICT;
}

int fail_forbidden(struct op *op, struct status_subject s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    op->status = api_status_forbidden(op->arena, &s, fail_format_text(op, fmt, ap));
    va_end(ap);
    return -ERR_FORBIDDEN;
}

int fail_bad_request(struct op *op, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    op->status = api_status_bad_request(op->arena, fail_format_text(op, fmt, ap));
    va_end(ap);
    return -ERR_BAD_REQUEST;
}

int fail_invalid(struct op *op, struct status_subject s, const struct causes *causes)
{
    op->status = api_status_invalid(op->arena, &s, causes);
    return -ERR_INVALID;
}

int fail_too_many(struct op *op, struct str message, int32_t retry_after_seconds)
{
    op->status = api_status_too_many(op->arena, message, retry_after_seconds);
    return -ERR_TOO_MANY;
}

int fail_internal(struct op *op, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    op->status = api_status_internal(op->arena, fail_format_text(op, fmt, ap));
    va_end(ap);
    return -ERR_INTERNAL;
}

int fail_unknown(struct op *op, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    op->status = api_status_unknown(op->arena, fail_format_text(op, fmt, ap));
    va_end(ap);
    return -ERR_INTERNAL;
}

int fail_unsupported(struct op *op, const char *fmt, ...)
{
    const struct status_subject s = op_subject(op, STR(""));
    va_list ap;
    va_start(ap, fmt);
    op->status = api_status_method_not_allowed(op->arena, &s, STR(""));
    op->status->message = fail_format_text(op, fmt, ap);
    va_end(ap);
    return -ERR_UNSUPPORTED;
}

void fail_cause(struct op *op, struct str reason, struct str message, struct str field)
{
    if (!op->status->details)
        op->status->details = arena_one(op->arena, struct api_status_details);
    struct api_status_cause_array *list = &op->status->details->causes;
    struct api_status_cause *all = arena_array(op->arena, struct api_status_cause, list->n + 1);
    for (size_t i = 0; i < list->n; i++)
        all[i] = list->p[i];
    all[list->n] = (struct api_status_cause){reason, message, field};
    *list = (struct api_status_cause_array){all, list->n + 1};
}

void op_succeed(struct op *op, int32_t http)
{
    const struct status_subject nothing = {0};
    op->status = api_status_success(op->arena, &nothing, STR(""));
    op->status->details = NULL;
    op->status->code = http;
}
