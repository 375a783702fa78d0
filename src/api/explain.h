// SPDX-License-Identifier: Apache-2.0
//
// What a kind or a field of it means, as text for a person.
#ifndef API_EXPLAIN_H
#define API_EXPLAIN_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

// api_explain describes what stands at a path such as resourceclaims.spec.devices: first a kind
// (kind, plural, singular or short name), then fields. api_version may be empty: the preferred
// version. recursive lists everything below as a tree of names. Returns 0 or -ERR_NOT_FOUND with
// the names that exist.
int api_explain(struct str path, struct str api_version, bool recursive, struct sbuf *out,
                struct err *err) MUST_USE;

#endif
