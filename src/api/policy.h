// SPDX-License-Identifier: Apache-2.0
//
// Admission policies: the expressions of a ValidatingAdmissionPolicy compiled, and evaluated for
// one request. Pure: the caller that asks brings the objects as JSON.
#ifndef API_POLICY_H
#define API_POLICY_H

#include "api/api.h"
#include "api/cause.h"
#include "api/crd/dyn.h"
#include "cel/cel.h"

struct policy;

// policy_new compiles; free it with policy_free. Expressions that do not compile fail when they are
// asked.
struct policy *policy_new(const struct api_validating_admission_policy_spec *spec);
void policy_free(struct policy *p);

// policy_check adds what is wrong with the expressions of a policy.
void policy_check(const struct api_validating_admission_policy_spec *spec, struct causes *causes);

// What a request is, to expressions. NULL: null.
struct policy_request {
    const struct dyn *object, *old, *request, *params, *namespace_object;
};

struct policy_verdict {
    bool refused;
    struct str message, reason; // in the arena; reason empty: Invalid
    size_t rule;                // which of the policy's validations
};

// policy_ask answers how many verdicts refuse; ret gets room for them in the arena. -1: the request
// is not meant (a condition does not hold).
int policy_ask(const struct policy *p, const struct policy_request *q, struct arena *arena,
               struct policy_verdict **ret);

#endif
