// SPDX-License-Identifier: Apache-2.0
//
// Data of replays.
#ifndef PLAN_REPLAY_REPLAY_INT_H
#define PLAN_REPLAY_REPLAY_INT_H

#include "alloc/fleet.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "plan/replay.h"

#define REPLAY_GPUS_MAX   64 // of a node
#define REPLAY_MODELS_MAX 64
#define REPLAY_WHOLE_GPU  1000
#define NO_NODE           UINT32_MAX

struct trace_node {
    struct str name;
    int64_t cpu;    // thousandths
    int64_t memory; // MiB
    uint32_t gpus;
    uint32_t model;
};

struct trace_pod {
    struct str name;
    int64_t cpu;
    int64_t memory;
    uint32_t num;
    uint32_t milli; // of each GPU
    uint32_t spec;
};

// Models a pod allows, as a text and as bits of trace.models.
struct trace_spec {
    struct str text;
    uint64_t models;
};

struct trace_line {
    int64_t seed;
    size_t first; // in rows
    size_t n;
};

struct trace_lines {
    struct VEC(struct trace_line) lines;
    struct VEC(uint32_t) rows;
};

struct trace_pods VEC(struct trace_pod);

struct replay_trace {
    struct arena arena;
    struct VEC(struct trace_node) nodes;
    struct trace_pods pods;
    struct trace_pods history;
    bool has_history;
    struct VEC(struct str) models;
    struct VEC(struct trace_spec) specs;
    struct name_ids MAP(uint32_t) model_ids;
    struct name_ids spec_ids;
    struct trace_lines arrivals;
    struct trace_lines order;
};

static inline const struct trace_pods *replay_known_pods(const struct replay_trace *t)
{
    return t->has_history ? &t->history : &t->pods;
}

// --- replay_world.c: the trace as objects --------------------------------------------------------

struct world_node {
    struct api_node *node;
    struct alloc_cluster *base;
    struct alloc_cluster *state;
    struct alloc_view *view;
    struct VEC(struct alloc_use) uses;
    int64_t cpu, memory; // left
    int64_t cpu_all, memory_all;
    uint32_t model;
    uint32_t order;
};

// A kind of claim, and what is needed to ask for it.
struct world_claim {
    struct api_resource_claim *claim;
    uint64_t hash;
};

struct replay_world {
    struct arena arena;
    const struct replay_trace *trace;
    bool whole;     // GPUs cannot be shared
    bool any_model; // pods may run on all models
    struct alloc_kit *kit;
    const struct api_device_class *class_;
    struct VEC(struct world_node) nodes;
    struct claim_ids MAP(struct world_claim) claims;
};

struct replay_world *replay_world_new(const struct replay_trace *t, bool whole, bool any_model);
void replay_world_free(struct replay_world *w);

// replay_world_add_node makes a node of the trace, empty. Returns 0 or -ERR_INVALID.
int replay_world_add_node(struct replay_world *w, const struct trace_node *t, uint32_t order,
                          struct err *err) MUST_USE;

// replay_world_put_node adds a node with slices, empty; all amounts, model and order are as in
// like. Returns 0 or -ERR_INVALID.
int replay_world_put_node(struct replay_world *w, struct str name, const struct world_node *like,
                          const struct api_resource_slice *const *slices, size_t slices_len,
                          struct err *err) MUST_USE;

// replay_world_make_class makes the device class that claims name.
const struct api_device_class *replay_world_make_class(struct arena *a, const char *name,
                                                       const char *expression);

// replay_world_make_claim makes the claim of a pod; NULL for one without GPUs. *ret_hash is of what
// it asks for.
const struct api_resource_claim *replay_world_make_claim(struct replay_world *w,
                                                         const struct trace_pod *p,
                                                         uint64_t *ret_hash);

// replay_world_allocate gives a pod its place; results may be NULL. Returns 0 or -ERR_INVALID.
int replay_world_allocate(struct replay_world *w, uint32_t node, const struct trace_pod *p,
                          const struct api_allocation_result *result, struct err *err) MUST_USE;

// replay_world_release takes back what a pod has on a node, known by the name. Returns 0 or
// -ERR_INVALID.
int replay_world_release(struct replay_world *w, uint32_t node, struct str owner,
                         struct err *err) MUST_USE;

struct fleet_room replay_world_node_room(const struct world_node *n);

// --- replay_stage.c: one pod after the other -----------------------------------------------------

struct stage {
    struct replay_world *world;
    struct fleet *fleet;
    struct alloc_solver *solver;
    bool check; // let the independent checker see every allocation
};

// replay_stage_begin takes the world; rule NULL: by worth. replay_stage_update_node updates a
// changed node.
void replay_stage_begin(struct stage *s, struct replay_world *w, const struct fleet_rule *rule,
                        enum alloc_policy policy);
void replay_stage_end(struct stage *s);
void replay_stage_update_node(struct stage *s, uint32_t node);

// replay_stage_place finds a node for the fleet's present question and puts the pod there; claim is
// NULL for one without devices. *ret_node is NO_NODE when there is none. Returns 0, -ERR_INVALID or
// -ERR_INTERNAL.
int replay_stage_place(struct stage *s, const struct api_resource_claim *claim,
                       const struct trace_pod *p, uint32_t *ret_node, struct err *err) MUST_USE;

// --- replay_rules.c: published rules -------------------------------------------------------------

struct rules;

// replay_rules_new prepares a rule for a trace; node_model gives the model of a node by its number.
struct rules *replay_rules_new(const struct replay_trace *t, const struct replay_world *w,
                               enum replay_policy policy);
void replay_rules_free(struct rules *r);

// replay_rules_fleet is the rule for a fleet; NULL: by worth.
const struct fleet_rule *replay_rules_fleet(const struct rules *r);

// rules_fragments is what the next pod could not use of a node, in thousandths of GPUs.
double rules_fragments(const struct rules *r, uint32_t node, const struct fleet_node *n);

// --- replay_report.c: results --------------------------------------------------------------------

// A figure of a result: a double at offset.
struct replay_column {
    const char *key;   // in JSON
    const char *title; // in text
    int width, decimals;
    bool exact; // in JSON all its digits; else four decimals, or none
    size_t offset;
};

// Results are structs of size bytes that begin with int64_t seed.
struct replay_report {
    const struct replay_column *columns;
    size_t columns_len;
    const void *results;
    size_t size, n;
};

// replay_report_json ends an object that the caller has begun: means, then an array of seeds.
void replay_report_json(const struct replay_report *r, struct sbuf *out);
void replay_report_text(const struct replay_report *r, struct sbuf *out);

// replay_find_name finds the index of a name in a table of names. False: it is not there.
bool replay_find_name(const char *const *names, size_t n, struct str name, size_t *ret);

#endif
