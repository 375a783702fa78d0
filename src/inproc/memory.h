// SPDX-License-Identifier: Apache-2.0
//
// An API that lives in memory on one exec, for questions about a copy of a cluster: the scheduler
// and the controllers run on it as they run on a server. It keeps revisions, conflicts, finalizers
// and watches, prepares objects as the registry does (status apart from the rest), and validates
// nothing: what is put in comes from a cluster or was validated by the caller.
//
// Differences from a server, on purpose: deletion has no grace period, watches select by namespace
// only and never expire by themselves, nothing is persisted.
#ifndef INPROC_MEMORY_H
#define INPROC_MEMORY_H

#include "api/features.h"
#include "client/client.h"

struct memory;

// memory_new makes an empty API. exec and features are borrowed; features NULL: defaults of the
// newest release. memory_free comes after its clients were freed and the exec has run what was
// posted.
struct memory *memory_new(struct exec *exec, const struct features *features);
void memory_free(struct memory *m);

// memory_client makes a client of it; client_free ends it.
struct client *memory_client(struct memory *m);

// memory_put creates an object, or replaces one with its status, as it is given; watchers see it.
// Names, UIDs and creation times that are missing are filled in. An object that is marked for
// deletion and has neither finalizers nor time left goes. Returns the stored object, borrowed until
// it is written again, NULL when it is gone.
const struct typed_object *memory_put(struct memory *m, const struct api_object *object);

// memory_delete removes an object, or marks it for deletion if it has finalizers. False: there is
// none.
bool memory_delete(struct memory *m, const struct client_key *key);

// memory_find gives what is stored, NULL when there is none. Borrowed until it is written again.
const struct typed_object *memory_find(const struct memory *m, const struct client_key *key);

// memory_foreach gives all objects of a kind, those put in first first. fn must not write.
void memory_foreach(const struct memory *m, const struct api_kind *kind,
                    void (*fn)(void *arg, const struct typed_object *o), void *arg);
size_t memory_count(const struct memory *m, const struct api_kind *kind);

// memory_revision is that of the newest write; memory_writes counts writes.
uint64_t memory_revision(const struct memory *m);
uint64_t memory_writes(const struct memory *m);

// memory_set_guard has fn asked before a client creates or replaces an object (not its status). A
// negative code refuses it with the message in err.
typedef int (*memory_guard_fn)(void *arg, const struct api_object *object,
                               const struct typed_object *old, struct err *err);
void memory_set_guard(struct memory *m, memory_guard_fn fn, void *arg);

// memory_set_hook has fn called after each write, with the objects before and after;
// either may be NULL. fn must not write.
typedef void (*memory_hook_fn)(void *arg, const struct typed_object *before,
                               const struct typed_object *after);
void memory_set_hook(struct memory *m, memory_hook_fn fn, void *arg);

#endif
