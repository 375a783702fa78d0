// SPDX-License-Identifier: Apache-2.0
//
// What the files of preparation share. Private to src/api. `old` is NULL on create.
#ifndef API_PREPARE_PREPARE_INT_H
#define API_PREPARE_PREPARE_INT_H

#include "api/validate.h"

struct preparer {
    enum api_op op;
    const struct api_rules *rules;
    struct arena *arena;
};

static inline bool gate_on(const struct preparer *p, enum feature which)
{
    return features_on(p->rules->features, which);
}

void prepare_claim(const struct preparer *p, struct api_resource_claim *claim,
                   const struct api_resource_claim *old);
void prepare_template(const struct preparer *p, struct api_resource_claim_template *t,
                      const struct api_resource_claim_template *old);
void prepare_slice(const struct preparer *p, struct api_resource_slice *slice,
                   const struct api_resource_slice *old);

// prepare_core prepares the kinds of all other groups.
void prepare_core(const struct preparer *p, const struct api_object *object,
                  const struct api_object *old);

// prepare_new_job gives a new job its selector and its pods the labels that it looks for.
void prepare_new_job(const struct preparer *p, struct api_job *job);

// prepare_certificate_status lets an update of the status decide neither for nor against a request.
void prepare_certificate_status(const struct preparer *p,
                                struct api_certificate_signing_request *now,
                                const struct api_certificate_signing_request *old);

// prepare_meta_for_status takes over from the old object what a status update may not change.
void prepare_meta_for_status(struct api_object_meta *meta, const struct api_object_meta *old);

#endif
