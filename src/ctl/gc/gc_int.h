// SPDX-License-Identifier: Apache-2.0
//
// What the files of the garbage collector share. Private to src/ctl.
#ifndef CTL_GC_GC_INT_H
#define CTL_GC_GC_INT_H

#include "base/bits.h"
#include "base/map.h"
#include "base/vec.h"
#include "ctl/core/ctl_int.h"
#include "ctl/gc/gone.h"

struct gc_ctl;

// A kind whose objects own, are owned, or both.
struct gc_kind {
    struct gc_ctl *g;
    size_t number; // of its keys, and as a source of work
    const struct api_kind *kind;
    struct informer *cache; // NULL: users had added the kind, and it is not served any more
    bool own;               // the cache is the collector's own
    bool refused;           // the server does not give us this kind
    size_t by_owner;        // index: UIDs of owners
    size_t by_uid;
    // Of a kind that users added:
    struct arena arena;    // of these and the kind
    struct str definition; // its name; empty: the kind is one of ours
    int64_t since_ns;      // when its cache was begun
    bool undefined;        // the definition was deleted, and all objects with it
    uint64_t ended;        // the how manieth whose cache was given up
};

// Which owners of one version of an object the server has reported as gone, while others are still
// being looked up. It is forgotten when the object is judged. A bit for each reference: an object
// may have more of them than `gone` remembers.
struct gc_inquiry {
    char *key;
    uint64_t revision;
    struct bits gone; // by the position of the reference
    size_t next;      // those before were looked at
};
struct gc_inquiries MAP(struct gc_inquiry);

struct gc_ctl {
    struct ctl *ctl;
    struct work *work;
    struct list calls;
    struct VEC(struct gc_kind *) kinds;
    const struct gc_kind *definitions; // their kind; NULL: custom kinds are not collected
    uint64_t ended;                    // caches given up so far
    struct gone gone;                  // owners
    struct gc_inquiries inquiries;     // by key; keys belong to the values
};

#define GC_ORPHAN     "orphan"
#define GC_FOREGROUND "foregroundDeletion"

// --- The graph (gc.c) ----------------------------------------------------------------------------

// gc_add looks at an object soon.
void gc_add(const struct gc_kind *k, const struct api_object_meta *meta);

// gc_kind_of_owner is the kind that a reference names, NULL when it is not known here. One whose
// definition was deleted is known for a while.
const struct gc_kind *gc_kind_of_owner(const struct gc_ctl *g, const struct api_owner_reference *o);

// gc_by_uid finds an object of a kind; NULL when there is none.
const struct typed_object *gc_by_uid(const struct gc_kind *k, struct str uid);

// gc_dependents calls fn with everything that names a UID as owner.
typedef void (*gc_dependent_fn)(void *arg, const struct gc_kind *k, const struct typed_object *o);
void gc_dependents(const struct gc_ctl *g, struct str uid, gc_dependent_fn fn, void *arg);

void gc_remember(void *g, struct str uid); // that it is gone

// gc_gone remembers an object that is gone, and looks at what it owned.
void gc_gone(struct gc_ctl *g, const struct api_object_meta *meta);

// --- Which kinds (gc_kinds.c) --------------------------------------------------------------------

void gc_kinds_init(struct gc_ctl *g);
void gc_kinds_done(struct gc_ctl *g);

// gc_kind_watch begins to follow a kind; without a cache, in one of its own. Called by gc_kinds.c.
void gc_kind_watch(struct gc_kind *k, struct informer *cache);

// --- One look at an object (gc_step.c) -----------------------------------------------------------

void gc_step(void *g, struct str key);

void gc_inquiries_done(struct gc_ctl *g);

#endif
