// SPDX-License-Identifier: Apache-2.0
//
// The kinds that extend the server: CustomResourceDefinitions, admission policies, webhook
// configurations. Defaults, preparation and validation beyond what the tables say. Private to
// src/api.
#ifndef API_TYPE_EXTENSION_H
#define API_TYPE_EXTENSION_H

#include "api/prepare/default.h"
#include "api/prepare/prepare_int.h"
#include "api/validate/validate_int.h"

// extension_default_hook finds the hook of a type, or NULL.
default_hook *extension_default_hook(const struct api_type *t);

// extension_prepare prepares an object; false: it is none of these kinds.
bool extension_prepare(const struct preparer *p, const struct api_object *object,
                       const struct api_object *old);

// validate_definition judges a CustomResourceDefinition.
void validate_definition(struct validator *v, const struct api_custom_resource_definition *crd,
                         const struct api_custom_resource_definition *old);

// validate_admission judges the kinds of admissionregistration.k8s.io.
void validate_admission(struct validator *v, const struct api_type *t, const void *value,
                        const void *old);

#endif
