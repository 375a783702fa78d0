// SPDX-License-Identifier: Apache-2.0
//
// Builds Status objects with upstream's codes, reasons, messages and details, and chooses one by
// the code of an error.
#include "api/status.h"

#include <string.h>

#include "base/map.h"

#include "base/banned.h"

static const struct status_subject nothing = {{NULL, 0}, {NULL, 0}, {NULL, 0}};

static struct api_status *status_create(struct arena *a, int32_t code, const char *reason,
                                        struct str message)
{
    struct api_status *s = arena_one(a, struct api_status);
    s->kind = STR("Status");
    s->api_version = STR("v1");
    s->status = STR("Failure");
    s->code = code;
    s->reason = str_z(reason);
    s->message = arena_str(a, message);
    return s;
}

static struct api_status_details *status_add_details(struct arena *a, struct api_status *status,
                                                     const struct status_subject *s)
{
    struct api_status_details *d = arena_one(a, struct api_status_details);
    d->group = arena_str(a, s->group);
    d->kind = arena_str(a, s->resource);
    d->name = arena_str(a, s->name);
    status->details = d;
    return d;
}

static void status_add_cause(struct arena *a, struct api_status_details *d, const char *reason,
                             struct str message)
{
    d->causes.p = arena_one(a, struct api_status_cause);
    d->causes.n = 1;
    d->causes.p[0] =
        (struct api_status_cause){.reason = str_z(reason), .message = arena_str(a, message)};
}

// status_qualified_resource names a resource or kind with its group:
// resourceclaims.resource.k8s.io.
static struct str status_qualified_resource(struct arena *a, const struct status_subject *s)
{
    if (s->group.n == 0)
        return s->resource;
    return arena_strf(a, "%.*s.%.*s", STR_ARG(s->resource), STR_ARG(s->group));
}

// status_named_subject is a qualified resource and, in quotes, a name.
static struct str status_named_subject(struct arena *a, const struct status_subject *s)
{
    cleanup_sbuf struct sbuf quoted = {0};
    sbuf_add_quoted(&quoted, s->name);
    return arena_strf(a, "%.*s %s", STR_ARG(status_qualified_resource(a, s)), quoted.p);
}

// status_create_about makes a Status with details of a subject.
static struct api_status *status_create_about(struct arena *a, const struct status_subject *s,
                                              int32_t code, const char *reason, struct str message)
{
    struct api_status *status = status_create(a, code, reason, message);
    (void)status_add_details(a, status, s);
    return status;
}

static struct str status_join_text(struct arena *a, const char *before, struct str text)
{
    cleanup_sbuf struct sbuf out = {0};
    sbuf_addz(&out, before);
    sbuf_add(&out, text);
    return arena_str(a, sbuf_str(&out));
}

struct api_status *api_status_not_found(struct arena *a, const struct status_subject *s)
{
    return status_create_about(a, s, 404, "NotFound",
                               arena_strf(a, "%.*s not found",
                                          STR_ARG(status_named_subject(a, s))));
}

struct api_status *api_status_already_exists(struct arena *a, const struct status_subject *s)
{
    return status_create_about(a, s, 409, "AlreadyExists",
                               arena_strf(a, "%.*s already exists",
                                          STR_ARG(status_named_subject(a, s))));
}

struct api_status *api_status_generate_name_conflict(struct arena *a,
                                                     const struct status_subject *s,
                                                     int32_t retry_after_seconds)
{
    struct api_status *status = status_create_about(
        a, s, 409, "AlreadyExists",
        arena_strf(a,
                   "%.*s already exists, the server was not able to generate a unique name "
                   "for the object",
                   STR_ARG(status_named_subject(a, s))));
    status->details->retry_after_seconds = retry_after_seconds;
    return status;
}

struct api_status *api_status_conflict(struct arena *a, const struct status_subject *s,
                                       struct str why)
{
    return status_create_about(a, s, 409, "Conflict",
                               arena_strf(a, "Operation cannot be fulfilled on %.*s: %.*s",
                                          STR_ARG(status_named_subject(a, s)), STR_ARG(why)));
}

struct api_status *api_status_forbidden(struct arena *a, const struct status_subject *s,
                                        struct str why)
{
    struct str message;
    if (s->resource.n == 0 && s->group.n == 0)
        message = status_join_text(a, "forbidden: ", why);
    else
        message = arena_strf(a, "%.*s is forbidden: %.*s",
                             STR_ARG(s->name.n ? status_named_subject(a, s)
                                               : status_qualified_resource(a, s)),
                             STR_ARG(why));
    return status_create_about(a, s, 403, "Forbidden", message);
}

// --- Invalid -------------------------------------------------------------------------------------

struct seen MAP(bool);

// add_causes_text adds all causes that differ, in brackets when there are several.
static void add_causes_text(const struct causes *causes, struct arena *a, struct sbuf *out)
{
    struct seen seen = {0};
    size_t start = out->n;
    for (size_t i = 0; i < causes->n; i++) {
        bool added = false;
        struct str text =
            arena_strf(a, "%.*s: %.*s", STR_ARG(causes->p[i].field), STR_ARG(causes->p[i].message));
        (void)map_put_new(&seen, text, &added);
        if (!added)
            continue;
        sbuf_addz(out, out->n > start ? ", " : "");
        sbuf_add(out, text);
    }
    if (map_len(&seen) > 1) {
        sbuf_addc(out, ']');
        (void)sbuf_space(out, 1);
        sbuf_commit(out, 1);
        memmove(out->p + start + 1, out->p + start, out->n - start - 1);
        out->p[start] = '[';
    }
    map_done(&seen);
}

struct api_status *api_status_invalid(struct arena *a, const struct status_subject *s,
                                      const struct causes *causes)
{
    cleanup_sbuf struct sbuf message = {0};
    cleanup_arena struct arena texts = {0};
    sbuf_add(&message, status_named_subject(a, s));
    sbuf_addz(&message, causes->n ? " is invalid: " : " is invalid");
    add_causes_text(causes, &texts, &message);
    struct api_status *status = status_create(a, 422, "Invalid", sbuf_str(&message));
    struct api_status_details *d = status_add_details(a, status, s);
    d->causes.p = arena_array(a, struct api_status_cause, causes->n);
    d->causes.n = causes->n;
    for (size_t i = 0; i < causes->n; i++)
        d->causes.p[i] = (struct api_status_cause){
            .reason = str_z(cause_reason(causes->p[i].type)),
            .message = arena_str(a, causes->p[i].message),
            .field = arena_str(a, causes->p[i].field),
        };
    return status;
}

// --- The rest ------------------------------------------------------------------------------------

struct api_status *api_status_bad_request(struct arena *a, struct str message)
{
    return status_create(a, 400, "BadRequest", message);
}

struct api_status *api_status_expired(struct arena *a, struct str message)
{
    return status_create(a, 410, "Expired", message);
}

struct api_status *api_status_too_many(struct arena *a, struct str message,
                                       int32_t retry_after_seconds)
{
    struct api_status *status = status_create_about(a, &nothing, 429, "TooManyRequests", message);
    status->details->retry_after_seconds = retry_after_seconds;
    return status;
}

struct api_status *api_status_method_not_allowed(struct arena *a, const struct status_subject *s,
                                                 struct str action)
{
    struct status_subject kind = {s->group, s->resource, {NULL, 0}};
    cleanup_sbuf struct sbuf quoted = {0};
    sbuf_add_quoted(&quoted, status_qualified_resource(a, s));
    return status_create_about(a, &kind, 405, "MethodNotAllowed",
                               arena_strf(a, "%.*s is not supported on resources of kind %s",
                                          STR_ARG(action), quoted.p));
}

static struct api_status *status_create_timeout(struct arena *a, struct str message,
                                                int32_t retry_after_seconds)
{
    struct api_status *status =
        status_create_about(a, &nothing, 504, "Timeout", status_join_text(a, "Timeout: ", message));
    status->details->retry_after_seconds = retry_after_seconds;
    return status;
}

struct api_status *api_status_resource_version_too_large(struct arena *a, uint64_t asked,
                                                         uint64_t current,
                                                         int32_t retry_after_seconds)
{
    struct api_status *status =
        status_create_timeout(a,
                              arena_strf(a, "Too large resource version: %llu, current: %llu",
                                         (unsigned long long)asked, (unsigned long long)current),
                              retry_after_seconds);
    status_add_cause(a, status->details, "ResourceVersionTooLarge",
                     STR("Too large resource version"));
    return status;
}

struct api_status *api_status_too_large(struct arena *a, struct str message)
{
    return status_create(a, 413, "RequestEntityTooLarge",
                         status_join_text(a, "Request entity too large: ", message));
}

struct api_status *api_status_internal(struct arena *a, struct str message)
{
    struct api_status *status =
        status_create_about(a, &nothing, 500, "InternalError",
                            status_join_text(a, "Internal error occurred: ", message));
    status_add_cause(a, status->details, NULL, message);
    return status;
}

struct api_status *api_status_unknown(struct arena *a, struct str message)
{
    return status_create(a, 500, NULL, message);
}

struct api_status *api_status_patch_failed(struct arena *a, struct str why)
{
    struct api_status *status =
        status_create_about(a, &nothing, 422, "Invalid",
                            STR("the server rejected our request due to an error in our request"));
    status_add_cause(a, status->details, "UnexpectedServerResponse", why);
    return status;
}

struct api_status *api_status_success(struct arena *a, const struct status_subject *s,
                                      struct str uid)
{
    struct api_status *status = status_create(a, 0, NULL, STR(""));
    status->status = STR("Success");
    status_add_details(a, status, s)->uid = arena_str(a, uid);
    return status;
}

struct api_status *api_status_of(struct arena *a, const struct status_subject *s,
                                 const struct err *err)
{
    struct str message = str_z(err->msg);
    switch (err->code) {
    case ERR_BAD_REQUEST:
        return api_status_bad_request(a, message);
    case ERR_UNAUTHORIZED:
        return status_create(a, 401, "Unauthorized", message.n ? message : STR("not authorized"));
    case ERR_FORBIDDEN:
        return api_status_forbidden(a, s, message);
    case ERR_NOT_FOUND:
        return api_status_not_found(a, s);
    case ERR_ALREADY_EXISTS:
        return api_status_already_exists(a, s);
    case ERR_CONFLICT:
        return api_status_conflict(a, s, message);
    case ERR_GONE:
        return status_create(a, 410, "Gone", message);
    case ERR_EXPIRED:
        return api_status_expired(a, message);
    case ERR_INVALID:
        return status_create_about(a, s, 422, "Invalid",
                                   arena_strf(a, "%.*s is invalid: %.*s",
                                              STR_ARG(status_named_subject(a, s)),
                                              STR_ARG(message)));
    case ERR_TOO_LARGE:
        // Patches say so themselves.
        if (str_starts(message, STR("Request entity too large: ")))
            return status_create(a, 413, "RequestEntityTooLarge", message);
        return api_status_too_large(a, message);
    case ERR_TOO_MANY:
        return api_status_too_many(a, message, 1);
    case ERR_TIMEOUT:
        return status_create_timeout(a, message, 0);
    case ERR_UNAVAILABLE:
        return status_create(a, 503, "ServiceUnavailable", message);
    case ERR_UNSUPPORTED:
        return status_create(a, 415, "UnsupportedMediaType", message);
    default:
        return api_status_internal(a, message);
    }
}
