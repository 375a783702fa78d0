// SPDX-License-Identifier: Apache-2.0
//
// The registry itself and the rules of kinds. Its requests are in op_int.h, their stages in
// stage_int.h.
#ifndef REGISTRY_REGISTRY_INT_H
#define REGISTRY_REGISTRY_INT_H

#include "api/custom.h"
#include "api/status.h"
#include "base/exec.h"
#include "base/list.h"
#include "base/map.h"
#include "base/vec.h"
#include "registry/registry.h"
#include "registry/typed_cache.h"

struct texts VEC(struct str);

// --- What differs from kind to kind --------------------------------------------------------------

enum kind_flag {
    KIND_CREATE_ON_UPDATE = 1 << 0, // a PUT of what does not exist creates it
    KIND_CONDITIONAL = 1 << 1,      // an update must say of which version
    KIND_RETURNS_DELETED = 1 << 2,  // a deletion answers with the object, not with a Status
    KIND_ORPHANS = 1 << 3,          // dependents are orphaned unless the deletion wants otherwise
    KIND_NO_COLLECTION = 1 << 4,    // propagation policies mean nothing
    KIND_GRACEFUL = 1 << 5,         // deletion takes its time (pods)
    KIND_NAMED_FIELD = 1 << 6,      // field selectors know "name", too
    KIND_POD_SECURITY = 1 << 7,     // pods, what makes pods, and namespaces
};

// Pairs under construction, for field selectors.
struct pairs VEC(struct object_pair);

struct kind_rules {
    const struct api_type *type; // stored
    unsigned flags;              // enum kind_flag
    // fields adds what field selectors may ask for besides the metadata; may be NULL.
    void (*fields)(const void *value, struct arena *arena, struct pairs *out);
};

// kinds_rules_of finds the rules of a stored kind; never NULL.
const struct kind_rules *kinds_rules_of(const struct api_kind *stored);

// kinds_fields_of adds all selectable fields of an object in its stored version, sorted by key.
void kinds_fields_of(const struct api_object *object, struct arena *arena, struct pairs *out);

// --- The registry --------------------------------------------------------------------------------

// Verdicts of the CEL engine by expression; asking it costs more than all the rest of a create.
struct cel_verdicts MAP(struct api_cel_answer);

struct cel_memo {
    struct api_cel cel; // what validation sees
    const struct api_cel *engine;
    struct cel_verdicts verdicts[8]; // by what the expression is for
    size_t count;
    struct arena arena; // expressions and texts
};

void cel_memo_init(struct cel_memo *m, const struct api_cel *engine);
void cel_memo_done(struct cel_memo *m);

// What pods that name no priority class get. Looked up again when a class changes.
struct default_priority {
    bool known;
    struct str class_name; // on the heap; empty: there is no default class
    int32_t value;
    bool never_preempts;
};

// When the newest revision was which.
struct event_mark {
    int64_t at_ns;
    uint64_t revision;
};
#define EVENT_MARKS 64

// What other rooms decide or want to know; each may be NULL.
struct registry_hooks {
    registry_authorize_fn authorize; // NULL: every user may do everything
    void *authorize_arg;
    registry_guard_fn guard;
    void *guard_arg;
    void (*kinds_changed)(void *arg);
    void *kinds_changed_arg;
};

// Stored kinds that rules are about.
struct registry_kinds {
    const struct api_kind *namespace, *pod, *priority, *storage, *budget, *runtime, *quota, *limits,
        *account, *event, *definition;
};

struct registry {
    struct store *store;
    struct exec *exec;
    const struct features *features;
    struct registry_hooks hooks;
    struct registry_kinds kinds;
    struct cel_memo cel;
    struct {
        struct list waiting; // ops that wait for another's write: unchanged or refused ones
        uint64_t accepted;   // revision of the newest write that was accepted
        size_t unsettled;    // accepted writes that are neither visible nor lost
    } writes;
    struct {
        struct list namespaces; // to be emptied
        struct exec_timer timer;
    } sweep;
    struct default_priority default_priority;
    struct {
        struct sbuf text;    // of the object being encoded
        bool altered;        // it does not read back as the typed object it was made from
        struct sbuf spliced; // the same with another resourceVersion
    } json;
    struct {
        struct exec_timer timer;
        struct event_mark marks[EVENT_MARKS];
        size_t marks_len;
    } events;
    unsigned admission_off;       // bits of the admitters that do not run
    struct custom_kinds *customs; // the store's
    struct {
        struct store_watch watch;
        struct exec_timer timer;
        bool watched;
        bool all; // the next sweep deletes, not only checks
    } definitions;
    struct policies *policies; // policies.c
    struct podsec *podsec;     // NULL: Pod Security does not run
    struct typed_cache *typed;
    struct empty_objects *empty; // fields.c
    struct {
        struct registry_offload offload;
        struct list jobs; // under way on other threads
        bool stopped;
    } apart;
};

#endif
