// SPDX-License-Identifier: Apache-2.0
//
// A stored object: immutable, shared by reference count between threads, one block of memory. It is
// kept as the JSON a client gets, in the version it is stored in, with what indexes and selectors
// ask for beside it; users of the typed form decode it.
#ifndef STORE_OBJECT_H
#define STORE_OBJECT_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/table.h"
#include "base/str.h"

struct object_pair {
    struct str key;
    struct str value;
};

struct object_note;

struct object {
    _Atomic uint32_t refs;
    uint32_t
        body_offset; // in json, behind kind and apiVersion: a list shows '{' and json from here
    const struct api_kind *kind; // in the version it is stored in
    uint64_t revision;           // metadata.resourceVersion
    struct str namespace;        // empty for cluster-scoped kinds
    struct str name;
    struct str uid;
    struct str json;                  // compact; kind and apiVersion are the first two members
    const struct object_pair *labels; // sorted by key
    const struct object_pair
        *fields; // what field selectors of this kind may ask for, sorted by key
    uint32_t labels_len;
    uint32_t fields_len;
    uint32_t block_size;                // bytes of the whole block, for accounting
    _Atomic(struct object_note *) note; // see object_note
};

// What an object is made of; everything is copied.
struct object_parts {
    const struct api_kind *kind;
    uint64_t revision;
    struct str namespace;
    struct str name;
    struct str uid;
    struct str json;
    const struct object_pair *labels;
    size_t labels_len;
    const struct object_pair *fields;
    size_t fields_len;
};

// object_new makes an object with one reference, the caller's.
struct object *object_new(const struct object_parts *parts);

// object_ref and object_unref take NULL, too. The last reference frees the object, on any thread.
// Counting is the one thing that changes in a shared object.
static inline struct object *object_ref(const struct object *o)
{
    if (!o)
        return NULL;
    struct object *shared = (struct object *)(uintptr_t)o;
    uint32_t before = atomic_fetch_add_explicit(&shared->refs, 1, memory_order_relaxed);
    assert(before > 0 && before < UINT32_MAX);
    return shared;
}

// object_free is for object_unref alone.
void object_free(struct object *o);

static inline void object_unref(const struct object *o)
{
    if (!o)
        return;
    struct object *shared = (struct object *)(uintptr_t)o;
    uint32_t before = atomic_fetch_sub_explicit(&shared->refs, 1, memory_order_acq_rel);
    assert(before > 0);
    if (before == 1)
        object_free(shared);
}

// object_label and object_field find a value. False: there is none.
bool object_label(const struct object *o, struct str key, struct str *ret);
bool object_field(const struct object *o, struct str key, struct str *ret);

// object_note is an encoding of the object that was made once and is kept with it: the item of a
// list in protobuf, in the stored version. Empty: there is none. object_set_note keeps a copy
// unless the notes of all objects would take over OBJECT_NOTES_MAX bytes; the first one stays. Both
// on any thread.
#define OBJECT_NOTES_MAX ((size_t)64 * 1024 * 1024)
struct str object_note(const struct object *o);
void object_set_note(const struct object *o, struct str bytes);

// object_notes_bytes is how much the notes of all objects take.
size_t object_notes_bytes(void);

#endif
