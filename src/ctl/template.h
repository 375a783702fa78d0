// SPDX-License-Identifier: Apache-2.0
//
// What controllers make of the templates of workloads, as pure functions: pods, and the storage of
// StatefulSets. Plans make the same without running the controllers.
#ifndef CTL_TEMPLATE_H
#define CTL_TEMPLATE_H

#include "api/api.h"
#include "base/arena.h"

// template_pod makes a pod of owner's template; the name is left to the caller. Shares with the
// template.
struct api_pod template_pod(const struct api_pod_template_spec *template,
                            const struct api_kind *kind, const struct api_object_meta *owner,
                            struct arena *arena);

// template_add_storage makes volumes of a StatefulSet's claims for a pod; those of the template
// with their names give way.
void template_add_storage(const struct api_stateful_set *set, struct api_pod *pod,
                          struct arena *arena);

// template_storage_claim makes the claim of number i of a StatefulSet's for the pod of a name.
struct api_persistent_volume_claim template_storage_claim(const struct api_stateful_set *set,
                                                          size_t i, struct str pod,
                                                          struct arena *arena);

// load_scaled is a number, or a percentage of total (rounded up or down); never negative.
int32_t load_scaled(const struct api_int_or_string *value, int32_t total, bool up);

#endif
