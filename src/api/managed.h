// SPDX-License-Identifier: Apache-2.0
//
// Who manages which fields of an object: metadata.managedFields, kept by every write, and
// server-side apply, which is defined by them. Pure: objects come and go as JSON in the version of
// the request.
//
// Behaviour, order and texts are those of apimachinery's managedfields package in Kubernetes 1.37
// over sigs.k8s.io/structured-merge-diff.
#ifndef API_MANAGED_H
#define API_MANAGED_H

#include "api/api.h"
#include "api/patch/field_set.h"
#include "api/types.h"

// More entries of updates than this are merged, the oldest first.
#define MANAGED_UPDATERS_MAX 10

// Conflicts are listed until their paths take this much; a path may be as long as the object.
#define MANAGED_CONFLICT_BYTES_MAX ((size_t)256 * 1024)

struct managed_request {
    const struct api_kind *kind; // in the request's version
    struct str manager;          // empty: "unknown"
    struct str subresource;
    struct moment now;
    bool force; // of apply: take over what others own
    // ignored are paths the write cannot change, with all below them; no manager owns them by it.
    // May be NULL.
    const struct field_set *ignored;
};

// managed_update works out the entries after a write that made after out of before (both without
// managedFields; of a creation before is the empty object). entries are those the object had.
// Returns 0;
// -ERR_BAD_REQUEST for entries that cannot be understood; -ERR_INVALID for lists without keys.
int managed_update(const struct managed_request *q, const yyjson_val *before,
                   const yyjson_val *after, const struct api_managed_fields_entry_array *entries,
                   struct arena *a, struct api_managed_fields_entry_array *ret,
                   struct err *err) MUST_USE;

// managed_empty adds the JSON of an object with nothing set: what a creation is compared with.
int managed_empty(const struct api_kind *kind, struct arena *a, struct sbuf *out,
                  struct err *err) MUST_USE;

// A field that another manager owns and an apply would change.
struct managed_conflict {
    struct str manager; // as upstream prints it: "name" using v1
    struct str field;   // .spec.replicas
};

struct managed_applied {
    bool changed;       // the object is another one; else text is empty
    struct sbuf object; // its JSON
    struct api_managed_fields_entry_array entries;
    struct managed_conflict *conflicts;
    size_t conflicts_len;
};

// managed_apply lays a configuration over an object. Returns 0; -ERR_CONFLICT with conflicts; or as
// managed_update. The caller frees ret->object.
int managed_apply(const struct managed_request *q, const yyjson_val *live, const yyjson_val *config,
                  const struct api_managed_fields_entry_array *entries, struct arena *a,
                  struct managed_applied *ret, struct err *err) MUST_USE;

// kubectl's record of what it applied by itself.
#define MANAGED_LAST_APPLIED "kubectl.kubernetes.io/last-applied-configuration"

// managed_last_write adds the annotation after the manager "kubectl" has applied a configuration.
void managed_last_write(const yyjson_val *config, struct arena *a, struct sbuf *out);

// managed_conflict_message is upstream's text for conflicts.
struct str managed_conflict_message(const struct managed_conflict *conflicts, size_t n,
                                    struct arena *a);

// managed_is_reset: a client wants the entries forgotten: a list that is there and empty, or has
// one empty entry.
bool managed_is_reset(const struct api_managed_fields_entry_array *entries);

#endif
