// SPDX-License-Identifier: Apache-2.0
//
// Status objects: the answers to calls that fail, or that succeed without an object. Codes, reasons
// and messages are those of apimachinery's errors package. Each function makes one in the arena;
// texts given to it are copied. Write it with api_json_write(&api_status_type, ...); its code is
// the HTTP status.
#ifndef API_STATUS_H
#define API_STATUS_H

#include <stdint.h>

#include "api/api.h"
#include "api/cause.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

// What a Status is about. name is a resource (resourceclaims) or, for api_status_invalid, a kind
// (ResourceClaim).
struct status_subject {
    struct str group;
    struct str resource;
    struct str name;
};

struct api_status *api_status_not_found(struct arena *a, const struct status_subject *s);
struct api_status *api_status_already_exists(struct arena *a, const struct status_subject *s);

// api_status_generate_name_conflict: no free name could be made of generateName.
struct api_status *api_status_generate_name_conflict(struct arena *a,
                                                     const struct status_subject *s,
                                                     int32_t retry_after_seconds);

// api_status_conflict: 409 with why, such as API_STATUS_MODIFIED.
struct api_status *api_status_conflict(struct arena *a, const struct status_subject *s,
                                       struct str why);
#define API_STATUS_MODIFIED                                                                  \
    "the object has been modified; please apply your changes to the latest version and try " \
    "again"

// api_status_forbidden: the subject's resource and name may be empty.
struct api_status *api_status_forbidden(struct arena *a, const struct status_subject *s,
                                        struct str why);

// api_status_invalid: 422 with the causes, all of them also in the message.
struct api_status *api_status_invalid(struct arena *a, const struct status_subject *s,
                                      const struct causes *causes);

struct api_status *api_status_bad_request(struct arena *a, struct str message);
struct api_status *api_status_expired(struct arena *a, struct str message);

// api_status_too_many: the message as it is, and when to come back.
struct api_status *api_status_too_many(struct arena *a, struct str message,
                                       int32_t retry_after_seconds);

struct api_status *api_status_method_not_allowed(struct arena *a, const struct status_subject *s,
                                                 struct str action);

// api_status_resource_version_too_large: 504 with the cause that informers look for.
struct api_status *api_status_resource_version_too_large(struct arena *a, uint64_t asked,
                                                         uint64_t current,
                                                         int32_t retry_after_seconds);

// api_status_too_large: 413, "Request entity too large: " and the message.
struct api_status *api_status_too_large(struct arena *a, struct str message);

// api_status_internal: 500, "Internal error occurred: " and the message. api_status_unknown: 500
// with the bare message and no reason, which is what becomes of an error that upstream does not
// translate.
struct api_status *api_status_internal(struct arena *a, struct str message);
struct api_status *api_status_unknown(struct arena *a, struct str message);

// api_status_patch_failed: 422 for a patch that does not apply. The message is upstream's, which
// keeps the reason to itself; here it is a cause.
struct api_status *api_status_patch_failed(struct arena *a, struct str why);

// api_status_success: what a delete answers. uid may be empty.
struct api_status *api_status_success(struct arena *a, const struct status_subject *s,
                                      struct str uid);

// api_status_of chooses by the code of an error; for those whose message upstream makes from the
// subject (not found, already exists) the error's own is not used.
struct api_status *api_status_of(struct arena *a, const struct status_subject *s,
                                 const struct err *err);

#endif
