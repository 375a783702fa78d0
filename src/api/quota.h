// SPDX-License-Identifier: Apache-2.0
//
// What a ResourceQuota counts: how much of each resource an object uses, and which quotas it is
// counted by. Admission and the controller that keeps status.used must agree on it.
#ifndef API_QUOTA_H
#define API_QUOTA_H

#include "api/api.h"
#include "api/features.h"
#include "base/arena.h"

// What must be known beyond the object.
struct quota_world {
    const struct features *features;
    struct api_time now;
    // extended_of gives the extended resource of a device class, empty when it has none; has_class
    // reports whether a class gives an extended resource; pod_of finds a pod by UID, NULL when it
    // is not there. What they give is good until the answer is used.
    struct str (*extended_of)(void *ctx, struct str class_name, struct arena *arena);
    bool (*has_class)(void *ctx, struct str extended);
    const struct api_pod *(*pod_of)(void *ctx, struct str namespace, struct str name,
                                    struct arena *arena);
    void *ctx;
};

// quota_usage is what an object, in its stored version, uses.
struct api_quantity_map quota_usage(const struct api_object *o, const struct quota_world *w,
                                    struct arena *arena);

// quota_counts: the quota's resource of this name counts objects of a kind.
bool quota_counts(struct str resource, const struct api_kind *kind, const struct quota_world *w);

// quota_in_scope: the object is in all scopes of a quota.
bool quota_in_scope(const struct api_resource_quota *q, const struct api_object *o);

// quota_lacks lists what containers of a pod must specify for a quota of these resources and do
// not; *out stays empty when there is nothing.
void quota_lacks(const struct api_pod *pod, const struct api_str_array *resources,
                 struct sbuf *out);

// What a change of an object means to quotas. old is NULL for a creation.
struct quota_change {
    const struct api_object *object, *old;
    const struct quota_world *world;
    struct api_quantity_map usage; // of the object
    struct api_quantity_map more;  // than that of the old one
};

struct quota_change quota_change_of(const struct api_object *object, const struct api_object *old,
                                    const struct quota_world *world, struct arena *arena);

// quota_admit counts a change in a quota of its namespace: *ret_counted reports whether q's
// status.used has grown. Returns 0, or -ERR_FORBIDDEN with the reason in why; q is unchanged then.
int quota_admit(struct api_resource_quota *q, const struct quota_change *c, struct arena *arena,
                bool *ret_counted, struct sbuf *why) MUST_USE;

#endif
