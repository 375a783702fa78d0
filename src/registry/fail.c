// SPDX-License-Identifier: Apache-2.0
//
// Refusals in Kubernetes' words.
#include <stdarg.h>
#include <stdio.h>

#include "registry/registry_int.h"

#include "base/banned.h"

struct subject op_subject(const struct op *op, struct str name)
{
    return (struct subject){op->request->kind->group, op->request->kind->plural, name};
}

// resource.group, or the resource alone in the core group.
static struct str qualified(struct op *op, struct str group, struct str resource)
{
    if (group.n == 0)
        return resource;
    return arena_strf(op->arena, "%.*s.%.*s", STR_ARG(resource), STR_ARG(group));
}

// In quotes, with Go's escapes: names come from the path as they are.
static struct str quoted(struct op *op, struct str name)
{
    cleanup_sbuf struct sbuf b = {0};
    sbuf_add_quoted(&b, name);
    return arena_str(op->arena, sbuf_str(&b));
}

static struct str format(struct op *op, const char *fmt, va_list ap) ERR_PRINTF(2, 0);

static struct str format(struct op *op, const char *fmt, va_list ap)
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

static struct api_status *refuse(struct op *op, int32_t http, const char *reason,
                                 struct str message)
{
    struct api_status *s = arena_one(op->arena, struct api_status);
    *s = (struct api_status){.kind = STR("Status"),
                             .api_version = STR("v1"),
                             .status = STR("Failure"),
                             .message = message,
                             .reason = str_z(reason),
                             .code = http};
    op->status = s;
    return s;
}

static struct api_status_details *add_details(struct op *op, struct api_status *s,
                                              struct subject about)
{
    s->details = arena_one(op->arena, struct api_status_details);
    s->details->group = about.group;
    s->details->kind = about.resource;
    s->details->name = about.name;
    return s->details;
}

int fail_not_found(struct op *op, struct subject s)
{
    struct str r = qualified(op, s.group, s.resource), name = quoted(op, s.name);
    (void)add_details(
        op,
        refuse(op, 404, "NotFound",
               arena_strf(op->arena, "%.*s %.*s not found", STR_ARG(r), STR_ARG(name))),
        s);
    return -ERR_NOT_FOUND;
}

int fail_exists(struct op *op, struct subject s, bool being_deleted)
{
    struct str r = qualified(op, s.group, s.resource), name = quoted(op, s.name);
    (void)add_details(op,
                      refuse(op, 409, "AlreadyExists",
                             arena_strf(op->arena, "%s%.*s %.*s already exists",
                                        being_deleted ? "object is being deleted: " : "",
                                        STR_ARG(r), STR_ARG(name))),
                      s);
    return -ERR_ALREADY_EXISTS;
}

int fail_generated(struct op *op, struct subject s)
{
    struct str r = qualified(op, s.group, s.resource), name = quoted(op, s.name);
    struct str text = arena_strf(op->arena,
                                 "%.*s %.*s already exists, the server was not able to "
                                 "generate a unique name for the object",
                                 STR_ARG(r), STR_ARG(name));
    add_details(op, refuse(op, 409, "AlreadyExists", text), s)->retry_after_seconds = 1;
    return -ERR_ALREADY_EXISTS;
}

int fail_conflict(struct op *op, struct subject s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    struct str why = format(op, fmt, ap), r = qualified(op, s.group, s.resource);
    struct str name = quoted(op, s.name);
    va_end(ap);
    (void)add_details(op,
                      refuse(op, 409, "Conflict",
                             arena_strf(op->arena,
                                        "Operation cannot be fulfilled on %.*s %.*s: %.*s",
                                        STR_ARG(r), STR_ARG(name), STR_ARG(why))),
                      s);
    return -ERR_CONFLICT;
}

int fail_forbidden(struct op *op, struct subject s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    struct str why = format(op, fmt, ap), r = qualified(op, s.group, s.resource);
    struct str name = quoted(op, s.name);
    va_end(ap);
    struct str text =
        s.name.n ? arena_strf(op->arena, "%.*s %.*s is forbidden: %.*s", STR_ARG(r), STR_ARG(name),
                              STR_ARG(why))
                 : arena_strf(op->arena, "%.*s is forbidden: %.*s", STR_ARG(r), STR_ARG(why));
    (void)add_details(op, refuse(op, 403, "Forbidden", text), s);
    return -ERR_FORBIDDEN;
}

int fail_bad_request(struct op *op, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)refuse(op, 400, "BadRequest", format(op, fmt, ap));
    va_end(ap);
    return -ERR_BAD_REQUEST;
}

int fail_too_many(struct op *op, struct str message, int32_t retry_after_seconds)
{
    struct api_status *s = refuse(op, 429, "TooManyRequests", message);
    add_details(op, s, (struct subject){0})->retry_after_seconds = retry_after_seconds;
    return -ERR_TOO_MANY;
}

int fail_internal(struct op *op, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    struct str why = format(op, fmt, ap);
    va_end(ap);
    struct api_status *s =
        refuse(op, 500, "InternalError",
               arena_strf(op->arena, "Internal error occurred: %.*s", STR_ARG(why)));
    (void)add_details(op, s, (struct subject){0});
    fail_cause(op, STR(""), why, STR(""));
    return -ERR_INTERNAL;
}

int fail_bare(struct op *op, int32_t http, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)refuse(op, http, "", format(op, fmt, ap));
    va_end(ap);
    return -code;
}

int fail_unsupported(struct op *op, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)refuse(op, 405, "MethodNotAllowed", format(op, fmt, ap));
    va_end(ap);
    return -ERR_UNSUPPORTED;
}

void fail_cause(struct op *op, struct str reason, struct str message, struct str field)
{
    struct api_status_cause_array *list = &op->status->details->causes;
    struct api_status_cause *all = arena_array(op->arena, struct api_status_cause, list->n + 1);
    for (size_t i = 0; i < list->n; i++)
        all[i] = list->p[i];
    all[list->n] = (struct api_status_cause){reason, message, field};
    *list = (struct api_status_cause_array){all, list->n + 1};
}

struct told MAP(bool);

// Every cause once: "a: Required value", or "[a: …, b: …]" for several.
static void add_causes_text(struct sbuf *b, struct arena *arena, const struct causes *causes)
{
    struct told told = {0};
    size_t n = 0;
    cleanup_sbuf struct sbuf list = {0};
    for (size_t i = 0; i < causes->n; i++) {
        bool added = false;
        struct str one = arena_strf(arena, "%.*s: %.*s", STR_ARG(causes->p[i].field),
                                    STR_ARG(causes->p[i].message));
        (void)map_put_new(&told, one, &added);
        if (!added)
            continue;
        if (n++)
            sbuf_addz(&list, ", ");
        sbuf_add(&list, one);
    }
    map_done(&told);
    if (n > 1)
        sbuf_addc(b, '[');
    sbuf_add(b, sbuf_str(&list));
    if (n > 1)
        sbuf_addc(b, ']');
}

int fail_invalid(struct op *op, struct subject s, const struct causes *causes)
{
    cleanup_sbuf struct sbuf b = {0};
    struct str kind = qualified(op, s.group, s.resource);
    sbuf_add(&b, kind);
    sbuf_addc(&b, ' ');
    sbuf_add_quoted(&b, s.name);
    sbuf_addz(&b, " is invalid");
    if (causes->n) {
        sbuf_addz(&b, ": ");
        add_causes_text(&b, op->arena, causes);
    }
    struct api_status *status = refuse(op, 422, "Invalid", arena_str(op->arena, sbuf_str(&b)));
    struct api_status_details *d = add_details(op, status, s);
    d->causes.p = arena_array(op->arena, struct api_status_cause, causes->n + 1);
    d->causes.n = causes->n;
    for (size_t i = 0; i < causes->n; i++)
        d->causes.p[i] = (struct api_status_cause){str_z(cause_reason(causes->p[i].type)),
                                                   causes->p[i].message, causes->p[i].field};
    return -ERR_INVALID;
}

struct api_status *status_success(struct op *op, int32_t http)
{
    struct api_status *s = arena_one(op->arena, struct api_status);
    *s = (struct api_status){
        .kind = STR("Status"), .api_version = STR("v1"), .status = STR("Success"), .code = http};
    return s;
}
