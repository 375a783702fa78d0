// SPDX-License-Identifier: Apache-2.0
//
// From a decoded object to one that may be stored: preparation (what a user may not set is reset,
// fields of disabled features are dropped) and validation with Kubernetes' causes.
//
// Both work on the hub version of a kind (api_hub_kind), to which the caller converts first.
// Validation also looks at the object as the request's version has it, because declarative rules
// belong to versions.
#ifndef API_VALIDATE_H
#define API_VALIDATE_H

#include <stdbool.h>
#include <stdint.h>

#include "api/api.h"
#include "api/cause.h"
#include "api/features.h"

enum api_op {
    API_CREATE,
    API_UPDATE,
    API_STATUS_UPDATE, // update of the status subresource
};

// The result of checking an expression with the CEL engine.
struct api_cel_answer {
    enum {
        API_CEL_OK,
        API_CEL_INVALID,
        API_CEL_INTERNAL,
        API_CEL_REFUSED, // the request's expressions take too long to compile
    } verdict;
    struct str detail; // what is wrong; unless OK
    uint64_t max_cost; // estimate; if OK
};

// Which environment an expression is for.
struct api_cel_question {
    struct str expression;
    bool derived_attribute; // answers a value, not a bool
    bool consumable_capacity;
    bool list_type_attributes;
    struct cel_spending *spending; // of the request
};

// The CEL engine as validation sees it.
struct api_cel {
    // check compiles an expression and estimates its cost; texts go into arena.
    void (*check)(void *ctx, const struct api_cel_question *question, struct arena *arena,
                  struct api_cel_answer *ret);
    void *ctx;
};

// What is asked of the authorizer: a subresource of resourceclaims that exists for this alone.
struct api_authz_question {
    struct str verb;
    struct str subresource;
    struct str namespace; // empty: cluster-wide
    struct str name;      // empty: all
};

struct api_authorizer {
    // allows answers yes or no; a no may come with a reason, allocated in arena.
    bool (*allows)(void *ctx, const struct api_authz_question *question, struct arena *arena,
                   struct str *ret_reason);
    void *ctx;
};

// Who asks for a change, as far as validation must know.
struct api_requester {
    struct str user;
    struct str node; // extra authentication.kubernetes.io/node-name if there is exactly one
    struct str verb; // update or patch
};

// The world around an object.
struct api_rules {
    const struct features *features;
    const struct api_cel *cel;               // NULL: expressions are not looked at
    const struct api_authorizer *authorizer; // NULL: everyone may do everything
    struct api_requester requester;          // for the authorizer
    bool admin_namespace;           // the object's namespace carries the label for admin access
    struct str subresource;         // that is updated, when it is neither the whole nor the status
    const struct api_kind *version; // of the request; kinds that users added are prepared by it
    struct api_time now;            // for timeAdded; not set: times stay as they are
};

// api_hub_kind is the version of a kind in which preparation and validation see it; the kind itself
// when there is but one.
const struct api_kind *api_hub_kind(const struct api_kind *kind);

// api_prepare changes an object, given in its hub version, as upstream's strategies do before
// validation. old is NULL for API_CREATE; it is not changed, and object may share its memory with
// it afterwards.
void api_prepare(enum api_op op, const struct api_object *object, const struct api_object *old,
                 const struct api_rules *rules, struct arena *arena);

// api_validate adds what is wrong with a prepared object, given in its hub version, to causes.
// version is the kind in the version of the request. old is NULL for API_CREATE. Kinds without
// rules of their own get those of object metadata.
void api_validate(enum api_op op, const struct api_object *object, const struct api_object *old,
                  const struct api_kind *version, const struct api_rules *rules,
                  struct causes *causes);

#endif
