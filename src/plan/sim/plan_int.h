// SPDX-License-Identifier: Apache-2.0
//
// Data of src/plan, shared by its files.
#ifndef PLAN_SIM_PLAN_INT_H
#define PLAN_SIM_PLAN_INT_H

#include "api/api.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "client/client.h"
#include "plan/plan.h"

// --- World ---------------------------------------------------------------------------------------

enum plan_kind {
    PLAN_SLICE,
    PLAN_CLASS,
    PLAN_RULE,
    PLAN_NODE,
    PLAN_CLAIM,
    PLAN_TEMPLATE,
    PLAN_POD,
    PLAN_WORKLOAD, // Deployment, ReplicaSet, StatefulSet, Job
    PLAN_EVENT,
    PLAN_RECORD, // ConfigMaps: past holders of devices
    PLAN_OTHER,  // what the scheduler and the controllers look at, and plans do not
};

// An object as it was read. value is a struct of type, in the hub version.
struct plan_object {
    enum plan_kind kind;
    const struct api_type *type;
    void *value;
    struct str name; // namespace/name, or the name alone
    struct str file;
    size_t line;
    bool gone;
    bool moved;         // a pod that has to find another place
    struct str staying; // a pod that a drain cannot evict: the server's reason
};

struct plan_world {
    struct arena arena;
    struct plan_objects VEC(struct plan_object) objects; // in the order of the files
    struct object_names MAP(uint32_t) names;             // by kind and name
    struct plan_notes VEC(struct str) notes;
    size_t skipped; // objects of other kinds
    bool evicts;    // a taint was added that evicts
};

// world_find finds an object that is not gone, or NULL.
struct plan_object *world_find(const struct plan_world *w, enum plan_kind kind, struct str name);

// world_find_other finds an object of PLAN_OTHER.
struct plan_object *world_find_other(const struct plan_world *w, const struct api_type *type,
                                     struct str name);

// world_add puts an object in; one of the same kind and name is replaced.
struct plan_object *world_add(struct plan_world *w, const struct plan_object *o);

// taint_rule_parse reads a taint as plan_taint does.
int taint_rule_parse(struct str text, struct arena *arena, struct api_device_taint_rule **ret,
                     struct err *err) MUST_USE;

// whatif_copy_object makes an object's value a copy that may be changed. whatif_find_node finds a
// node; one that only slices name becomes an object. whatif_no_such_object reports that there is no
// object of a name.
void *whatif_copy_object(struct plan_world *w, struct plan_object *o);
struct plan_object *whatif_find_node(struct plan_world *w, struct str name);
int whatif_no_such_object(const struct plan_world *w, enum plan_kind kind, struct str name,
                          struct err *err) MUST_USE;

// whatif_release_claim frees the devices of a claim. whatif_move_pod unbinds a pod, as its
// controller would create it again; claims that were generated for it are removed.
void whatif_release_claim(struct plan_world *w, struct plan_object *o);
void whatif_move_pod(struct plan_world *w, struct plan_object *o);

// world_kind is the kind of objects of a type.
const struct api_kind *world_kind(const struct api_type *type);

// world_note records a line for people.
void world_note(struct plan_world *w, const char *fmt, ...) ERR_PRINTF(2, 3);

// world_full_name makes namespace/name.
struct str world_full_name(struct arena *a, struct str namespace, struct str name);

// NOLINTBEGIN(bugprone-macro-parentheses): loop variables cannot stand in parentheses
#define world_foreach(w, k, o)                                                          \
    for (struct plan_object *o = (w)->objects.p, *o##_end = o ? o + (w)->objects.n : o; \
         o < o##_end; o++)                                                              \
        if (o->kind == (k) && !o->gone)

// NOLINTEND(bugprone-macro-parentheses)

// --- New nodes -----------------------------------------------------------------------------------

struct profile;

// Where the objects of a node that was added stand.
struct addition_node {
    size_t first, end;
};

// A kind of node that may be added, and how many of it have been.
struct addition {
    struct str text; // as it was given
    struct str like; // a node of the world; else empty
    struct profile *profile;
    struct str prefix;
    uint64_t count;           // requested; 0: not given
    uint64_t added, number;   // in the world now; of the last name
    struct plan_object shape; // of like
    size_t known;             // objects before any was added
    struct VEC(struct addition_node) nodes;
};

// addnode_read reads like=NODE or profile=NAME, [,count=N][,name=PREFIX]. Returns 0, -ERR_INVALID
// or -ERR_NOT_FOUND.
int addnode_read(struct plan_world *w, struct str text, struct addition *a,
                 struct err *err) MUST_USE;

// addnode_set_count has exactly n of the nodes in the world.
int addnode_set_count(struct plan_world *w, struct addition *a, uint64_t n,
                      struct err *err) MUST_USE;
void addnode_free(struct addition *a);

// --- Inventory -----------------------------------------------------------------------------------

struct inventory;

// inventory_sort_by_node puts the devices of each node side by side, inventory_pending gathers the
// pods of its world that wait.
void inventory_sort_by_node(struct inventory *inv);
void inventory_pending(struct inventory *inv);

// --- Units ---------------------------------------------------------------------------------------

// What is placed at once: a pod with its claims, or a claim that no pod names. For the latter a pod
// that wants nothing else is put in.
struct unit {
    struct str name; // namespace/name
    bool is_pod;
    struct str namespace;
    struct str pod;              // name of the pod
    struct str claim;            // name of the claim that no pod names
    const struct api_pod *fresh; // a pod that is not in the cluster yet; else NULL
    struct str group;            // its PodGroup
    bool bound;                  // before the scheduler did anything
    bool gone;                   // evicted, and its controller has created another one
    struct str staying;          // why a drain cannot evict it; empty: it can
    struct str alike;            // the workload of which it is one of many
};

struct step {
    struct plan_step pub;
    const struct unit *unit;
    struct VEC(const struct typed_object *) claims; // referenced
    struct str explanation;                         // text, with remedies
    struct str explanation_json;
    struct str remedies_json;
};

struct plan {
    struct arena arena;
    struct plan_options options;
    struct plan_world *world;
    struct plan_units VEC(struct unit) units;
    struct VEC(const struct api_node *) nodes; // that the scheduler sees
    struct VEC(struct step) steps;
    bool why;               // one detailed answer
    struct str needed;      // of plan_needed: in words
    struct str needed_json; // and for programs
};

// units_collect finds what there is to place, in the order of the files.
void units_collect(struct plan *p);

// units_is_fresh: a pod that is not in the cluster yet. Those of a cluster have a UID.
bool units_is_fresh(const struct plan_object *o);

// units_is_new_claim: a claim of a file that the cluster does not have.
bool units_is_new_claim(const struct plan_object *o);

#endif
