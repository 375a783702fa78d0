// SPDX-License-Identifier: Apache-2.0
//
// Devices for a pod: its claims, extended resources, resources that devices take of the node, the
// cost of selectors, and other schedulers that allocate devices.
#ifndef SCHED_DRA_DRA_INT_H
#define SCHED_DRA_DRA_INT_H

#include "sched/core/sched_int.h"

// --- dra.c: claims of a pod ----------------------------------------------------------------------

// dra_gate reports whether all claims of a pod exist and are its own; else adds why not.
bool dra_gate(struct sched *s, const struct api_pod *pod, struct sbuf *why);

// dra_begin resolves the pod's claims and what must be allocated. Anything but DRA_OK comes with a
// text in a->text.
enum dra_begin dra_begin(struct attempt *a);

// dra_claims_of gives the claims of a pod, in arena, and what they ask for as a number. Claims that
// are missing or not the pod's own are left out.
size_t dra_claims_of(struct sched *s, const struct api_pod *pod, struct arena *arena,
                     const struct api_resource_claim *const **ret, uint64_t *ret_hash);

// dra_filter asks one node. WHY_NONE: it will do (and a->answer has the allocation, if any was
// needed); else WHY_DEVICES or WHY_RESOURCES, with the reason added to why unless that is NULL. May
// set a->failed.
enum why dra_filter(struct attempt *a, struct sched_node *n, struct refusals *why);

// dra_is_special: the claim was made for extended resources of the pod, and there is still
// something to take back.
bool dra_is_special(const struct api_resource_claim *claim, const struct api_pod *pod);

// dra_rank sums up how far in front of their lists the chosen alternatives stand.
int64_t dra_rank(const struct attempt *a);

// dra_has_conditions reports whether results of an allocation have conditions to wait for;
// dra_binding_state looks at them. Below BINDING_WAITS, where it is hopeless, it adds why.
enum binding_state {
    BINDING_LATE = -2, // some are not true, and the time is over
    BINDING_FAILED,    // a condition of failure is true
    BINDING_WAITS,
    BINDING_READY,
};
// dra_unready is a device of an allocated claim that has failed, else one that is not ready; NULL:
// none.
const struct api_device_request_allocation_result *dra_unready(
    const struct api_resource_claim *claim);
bool dra_has_conditions(const struct api_allocation_result *allocation);
enum binding_state dra_binding_state(const struct sched *s, const struct api_resource_claim *claim,
                                     struct sbuf *why);

// --- extended.c ----------------------------------------------------------------------------------

// extended_rebuild rebuilds the map of resource names from all classes.
void extended_rebuild(struct sched *s);

// extended_class finds the class behind a resource name that may be served by devices.
const struct api_device_class *extended_class(const struct sched *s, struct str resource);

// extended_wanted reports whether the pod asks for a resource with a class behind it.
bool extended_wanted(const struct sched *s, const struct sched_pod *p);

// extended_on_node makes the requests that a node has to serve with devices. Returns 1 with
// requests, 0 when none are left, -1 when the node has a resource neither way.
int extended_on_node(struct attempt *a, const struct sched_node *n);

// --- nodealloc.c ---------------------------------------------------------------------------------

// nodealloc_filter adds up what devices take of the node's own resources and checks that it fits.
enum why nodealloc_filter(struct attempt *a, struct sched_node *n, struct refusals *why);

// --- cost.c: what selectors may cost -------------------------------------------------------------

// cost_begin gives an attempt, or a look at what would come of one, its slice.
// s->cost.meter.refused afterwards: it was used up: then nothing that was found out holds.
// cost_turn_over:  the loop is to be left, given what had been spent when the turn began;
// cost_end_turn is called when it is.
#define COST_BUDGET_DEFAULT UINT64_C(1000000000)
void cost_begin(struct sched *s);
bool cost_turn_over(const struct sched *s, uint64_t spent_before);
void cost_end_turn(struct sched *s, uint64_t spent_before);

// cost_has_too_many: the claims of the pod have more selectors than anybody needs; why is
// in the attempt's text then.
bool cost_has_too_many(struct attempt *a);

// cost_learn_again comes before a postponed attempt goes on.
void cost_learn_again(struct attempt *a);

// cost_postpone puts the pod of an attempt whose slice is used up where it gets its next one, or
// gives it up. cost_postpone_line does so for the explanation; false: line is the message.
// cost_postpone_group: the same for a group's cycle; true: its pods are to be postponed, else given
// up.
void cost_postpone(struct attempt *a);
bool cost_postpone_line(struct attempt *a, struct sbuf *line);
bool cost_postpone_group(struct sched *s, struct sched_group *g);

// cost_find_remedies is alloc_remedies_find with a slice of its own.
void cost_find_remedies(struct attempt *a, struct alloc_report *r, struct alloc_remedies *ret);

// --- beside.c ------------------------------------------------------------------------------------

// beside_pod looks at a pod that has changed, beside_gone forgets one.
void beside_pod(struct sched *s, struct sched_pod *p);
void beside_gone(struct sched *s, struct sched_pod *p);

// beside_freed: devices have become free: another's pods that wait for some are tried at
// once.
void beside_freed(struct sched *s);

// beside_wait_ns is for how long the next pod leaves the field to others; 0: it is ours.
int64_t beside_wait_ns(struct sched *s);

// beside_wrote records how long a write of a claim took; beside_settle_ns how long to wait before a
// Binding: 0, not at all.
void beside_wrote(struct sched *s, int64_t took_ns);
int64_t beside_settle_ns(const struct sched *s);

#endif
