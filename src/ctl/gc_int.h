// SPDX-License-Identifier: Apache-2.0
//
// What the files of the garbage collector share. Private to src/ctl.
#ifndef CTL_GC_INT_H
#define CTL_GC_INT_H

#include "base/vec.h"
#include "ctl/ctl_int.h"
#include "ctl/gone.h"

struct gc_ctl;

// A kind whose objects own, are owned, or both.
struct gc_kind {
    struct gc_ctl *g;
    size_t number; // of its keys, and as a source of work
    const struct api_kind *kind;
    struct informer *cache;
    bool own;        // the cache is the collector's own
    size_t by_owner; // index: UIDs of owners
    size_t by_uid;
};

struct gc_ctl {
    struct ctl *ctl;
    struct work *work;
    struct list calls;
    struct VEC(struct gc_kind *) kinds;
    struct gone gone; // owners
};

#define GC_ORPHAN     "orphan"
#define GC_FOREGROUND "foregroundDeletion"

// --- The graph (gc.c) ----------------------------------------------------------------------------

// gc_add looks at an object soon.
void gc_add(const struct gc_kind *k, const struct api_object_meta *meta);

// gc_kind_of_owner is the kind that a reference names, NULL when it is not known here.
const struct gc_kind *gc_kind_of_owner(const struct gc_ctl *g, const struct api_owner_reference *o);

// gc_by_uid finds an object of a kind; NULL when there is none.
const struct client_object *gc_by_uid(const struct gc_kind *k, struct str uid);

// gc_dependents calls fn with everything that names a UID as owner.
typedef void (*gc_dependent_fn)(void *arg, const struct gc_kind *k, const struct client_object *o);
void gc_dependents(const struct gc_ctl *g, struct str uid, gc_dependent_fn fn, void *arg);

void gc_remember(void *g, struct str uid); // that it is gone

// --- One look at an object (gc_step.c) -----------------------------------------------------------

void gc_step(void *g, struct str key);

bool gc_has_finalizer(const struct api_object_meta *meta, const char *name);

#endif
