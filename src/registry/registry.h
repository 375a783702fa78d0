// SPDX-License-Identifier: Apache-2.0
//
// What may happen to an object: default → prepare → admit → validate → compare-and-swap. The one
// way to the store, for the HTTP server and for clients in the same process alike. A registry lives
// on its store's exec.
#ifndef REGISTRY_REGISTRY_H
#define REGISTRY_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/api.h"
#include "api/features.h"
#include "api/validate.h"
#include "base/arena.h"
#include "base/err.h"
#include "store/store.h"

struct registry;

// Pod Security Admission. Lists are by commas.
struct registry_podsec {
    struct str defaults; // of namespaces without labels: enforce=LEVEL[:VERSION],audit=…,warn=…
    struct str exempt_users, exempt_namespaces, exempt_runtime_classes;
};

// How long work runs beside the exec: work(job) on another thread, then after(job) on the exec.
struct registry_offload {
    void (*run)(void *arg, exec_fn work, exec_fn after, void *job); // NULL: there is no other
    void *arg;
};

struct registry_options {
    struct store *store;
    struct exec *exec;
    const struct features *features; // borrowed
    const struct api_cel *cel;       // borrowed
    struct str disable_admission;    // plugins that do not run: kube-apiserver's names, by commas
    struct registry_podsec podsec;
    struct registry_offload offload;
};

// registry_new makes a registry and sees to it that the namespaces every cluster has exist
// (default, kube-system, kube-public, kube-node-lease).
int registry_new(const struct registry_options *options, struct registry **ret,
                 struct err *err) MUST_USE;
void registry_free(struct registry *reg);

// registry_stop lets go of the store's watches, for those who close the store before they free the
// registry. Nothing new may be asked of it then.
void registry_stop(struct registry *reg);

struct store *registry_store(struct registry *reg);

// registry_typed is the cache of typed objects; take a reference to keep it.
struct typed_cache;
struct typed_cache *registry_typed(struct registry *reg);

struct registry_request;
struct registry_user;

// registry_set_guard adds an admission step of a room above: it sees every created or changed
// object, as the user sent it, and those that are to be deleted. old is NULL for a creation, object
// for a deletion; the request names the part of an object (of a binding or an eviction
// object is that, old the pod). It returns 0, or -ERR_FORBIDDEN or -ERR_NOT_FOUND with the reason.
typedef int (*registry_guard_fn)(void *arg, const struct registry_request *request,
                                 const struct api_object *object, const struct api_object *old,
                                 struct sbuf *why);
void registry_set_guard(struct registry *reg, registry_guard_fn fn, void *arg);

// registry_set_authorizer lets validation ask what a user may do beyond the request itself, see
// api/validate.h. NULL: everyone may do everything.
typedef bool (*registry_authorize_fn)(void *arg, const struct registry_user *user,
                                      const struct api_authz_question *question,
                                      struct arena *arena, struct str *ret_reason);
void registry_set_authorizer(struct registry *reg, registry_authorize_fn fn, void *arg);

// Kinds that users added. registry_set_kinds_hook has fn called when they have changed.
struct custom_kinds;
const struct custom_kinds *registry_customs(const struct registry *reg);
void registry_set_kinds_hook(struct registry *reg, void (*fn)(void *arg), void *arg);

// --- Who and what --------------------------------------------------------------------------------

struct registry_extra {
    struct str key;
    const struct str *values;
    size_t values_len;
};

struct registry_user {
    struct str name;
    struct str uid;
    const struct str *groups;
    size_t groups_len;
    const struct registry_extra *extra;
    size_t extra_len;
    int64_t until; // when what they showed ends, in seconds since 1970; 0: it does not
};

enum registry_field_validation {
    REGISTRY_FIELDS_WARN, // Kubernetes' default
    REGISTRY_FIELDS_IGNORE,
    REGISTRY_FIELDS_STRICT,
};

// Common to all requests. Everything is borrowed until the answer.
struct registry_request {
    const struct api_kind *kind; // in the version of the request
    struct str subresource;      // empty, status, binding, eviction, …
    struct str namespace;        // of the path; empty for cluster-scoped kinds
    struct str name;             // of the path; empty for create
    const struct registry_user *user;
    bool dry_run;
    enum registry_field_validation field_validation;
    struct str field_manager;
    bool force;   // of an apply: take over what other managers own
    bool audited; // the answer is to carry notes
};

// What admission found, for the annotations of an audit event.
struct registry_note {
    struct str key, value;
};

struct registry_answer {
    int code;                        // 0 or -ERR_…
    const struct api_status *status; // why not; or Success, where a Status is the answer: deletions
                                     // of most kinds, binding, eviction. NULL: object is the answer
    const struct object *object;     // as stored, or as it would be with dry run; may be NULL
    const struct object *const *objects; // what was deleted from a collection, as it was before
    size_t objects_len;
    bool created;               // else changed, deleted or left as it was
    bool deleted;               // the object is gone (not only marked)
    const struct str *warnings; // for the Warning header
    size_t warnings_len;
    const struct registry_note *notes; // empty unless the request is audited
    size_t notes_len;
};

// Runs exactly once, on the exec, perhaps before the call that asked returns. What the answer
// points to is good until it returns; take a reference on the object to keep it.
typedef void (*registry_done_fn)(void *arg, const struct registry_answer *answer);

// --- Writing -------------------------------------------------------------------------------------

// registry_create stores a new object. body is in the request's version and is changed. For
// subresources that are created (pods/binding, pods/eviction) body is a Binding, an Eviction.
void registry_create(struct registry *reg, const struct registry_request *request,
                     const struct api_object *body, struct arena *arena, registry_done_fn done,
                     void *arg);

// registry_update replaces an object, or with subresource status its status. Other subresources:
// namespaces/finalize, pods/resize, pods/ephemeralcontainers, scale (body is a Scale; the answer
// has the workload, see registry_scale).
void registry_update(struct registry *reg, const struct registry_request *request,
                     const struct api_object *body, struct arena *arena, registry_done_fn done,
                     void *arg);

enum registry_patch_type {
    REGISTRY_PATCH_JSON,
    REGISTRY_PATCH_MERGE,
    REGISTRY_PATCH_STRATEGIC,
    REGISTRY_PATCH_APPLY, // server-side apply: YAML or JSON; creates what is not there
};

// registry_patch applies a patch to an object, trying again when another write comes between
// (unless the patch names a resourceVersion).
void registry_patch(struct registry *reg, const struct registry_request *request,
                    enum registry_patch_type type, struct str patch, struct arena *arena,
                    registry_done_fn done, void *arg);

// registry_delete deletes, or marks for deletion, one object. options may be NULL.
void registry_delete(struct registry *reg, const struct registry_request *request,
                     const struct api_delete_options *options, struct arena *arena,
                     registry_done_fn done, void *arg);

// Selects the objects of registry_delete_collection.
struct registry_filter {
    bool (*match)(void *arg, const struct object *o);
    void *arg;
};

void registry_delete_collection(struct registry *reg, const struct registry_request *request,
                                const struct api_delete_options *options,
                                const struct registry_filter *filter, struct arena *arena,
                                registry_done_fn done, void *arg);

// registry_write_metrics adds counters of admission in Prometheus' text form.
void registry_write_metrics(const struct registry *reg, struct sbuf *out);

// --- Reading -------------------------------------------------------------------------------------

// registry_creates_on_update: an update of what is not there creates it.
bool registry_creates_on_update(const struct api_kind *kind);

// registry_stored_kind is the version in which objects of a kind are stored.
const struct api_kind *registry_stored_kind(const struct api_kind *kind);

// registry_decode makes the typed form of a stored object, in any version of its kind. Never fails
// on what a registry stored; -ERR_INTERNAL if the bytes are damaged.
int registry_decode(const struct object *o, const struct api_kind *as, struct arena *arena,
                    struct api_object *ret, struct err *err) MUST_USE;

// registry_scale fills *ret, which then shares memory with arena, with the Scale of a workload.
// Returns 0, -ERR_UNSUPPORTED for kinds that cannot be scaled, or as registry_decode.
int registry_scale(const struct object *o, struct arena *arena, struct api_scale *ret,
                   struct err *err) MUST_USE;

// registry_json writes an object as a client of a version sees it: the stored bytes if that is the
// stored version, else converted. in_list leaves out kind and apiVersion, as lists do.
int registry_json(const struct object *o, const struct api_kind *as, bool in_list, struct sbuf *out,
                  struct err *err) MUST_USE;

#endif
