// SPDX-License-Identifier: Apache-2.0
//
// Data of src/plan, shared by its files.
#ifndef PLAN_PLAN_INT_H
#define PLAN_PLAN_INT_H

#include "alloc/index.h"
#include "api/api.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
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
};

struct plan_world {
    struct arena arena;
    struct plan_objects VEC(struct plan_object) objects; // in the order of the files
    struct object_names MAP(uint32_t) names;             // by kind and name
    struct plan_notes VEC(struct str) notes;
    size_t skipped; // objects of other kinds
};

// world_find finds an object that is not gone, or NULL.
struct plan_object *world_find(const struct plan_world *w, enum plan_kind kind, struct str name);

// world_add puts an object in; one of the same kind and name is replaced.
struct plan_object *world_add(struct plan_world *w, const struct plan_object *o);

// rule_parse reads a taint as plan_taint does.
int rule_parse(struct str text, struct arena *arena, struct api_device_taint_rule **ret,
               struct err *err) MUST_USE;

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

// --- Inventory -----------------------------------------------------------------------------------

struct inventory;

// inventory_sort_by_node puts the devices of each node side by side, inventory_pending gathers the pods of its world that wait.
void inventory_sort_by_node(struct inventory *inv);
void inventory_pending(struct inventory *inv);

// --- Units ---------------------------------------------------------------------------------------

// What is placed at once: a pod with its claims, or a claim alone.
struct unit {
    struct str name; // namespace/name
    const struct api_pod *pod;
    struct VEC(uint32_t) claims; // positions in plan.claims
    struct str error;            // what is missing; else empty
};

// A claim with what it has got so far.
struct held_claim {
    const struct api_resource_claim *claim;
    struct str name;
    bool generated; // of a template or for extended resources: nobody else sees it
    struct index_user user;
};

struct step {
    struct plan_step pub;
    const struct unit *unit;
    struct str explanation; // text
    struct str remedies;    // text
    struct str explanation_json;
    struct str remedies_json;
};

struct deadline {
    const struct clock *clock;
    int64_t at_ns;
};

struct plan {
    struct arena arena;
    struct plan_options options;
    struct plan_world *world;
    struct VEC(struct unit) units;
    struct VEC(struct held_claim) claims;
    struct claim_names MAP(uint32_t) claim_names;
    struct VEC(const struct api_node *) sites; // nodes, by their number in the index
    struct site_names MAP(uint32_t) site_names;
    struct VEC(struct step) steps;
    struct VEC(const struct api_device_class *) classes;
    struct index *index; // their devices, and who has them
    struct alloc_solver *solver;
    struct fleet *fleet; // of the sites; NULL unless the policy is pack
    struct deadline deadline;
    bool why; // one answer, told at length
};

// units_collect makes the units of a world, and all claims.
void units_collect(struct plan *p);

// fits_node says whether a pod may run on a node as far as anything but devices is concerned. pod may be
// NULL. False with the reason in arena.
bool fits_node(const struct api_pod *pod, const struct api_node *node, struct arena *arena,
               struct str *ret_reason);

// fits_allocation says whether an allocated claim can be used on a node.
bool fits_allocation(const struct api_resource_claim *claim, const struct api_node *node);

#endif
