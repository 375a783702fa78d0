// SPDX-License-Identifier: Apache-2.0
//
// JSON values as CEL sees them.
#ifndef API_CRD_DYN_CEL_H
#define API_CRD_DYN_CEL_H

#include "api/crd/crd_schema.h"
#include "cel/value.h"

// dyn_cel makes a CEL value of a JSON value. A schema, if there is one, determines which texts are
// times, durations and bytes, and which numbers are doubles; names of fields are escaped then, as
// Kubernetes does.
struct cel_val dyn_cel(const struct dyn *v, const struct crd_node *n, struct arena *a);

// dyn_cel_escape writes the name of a field as CEL must spell it. False: it cannot be spelt.
bool dyn_cel_escape(struct str name, struct arena *a, struct str *ret);

#endif
