// SPDX-License-Identifier: Apache-2.0
//
// A pod on its way to its node. Files: bind.c (the steps), bind_claim.c (writing a claim),
// bind_devices.c (waiting for devices), bind_undo.c (taking it all back), gang_bind.c (pods of a
// group together), gang_take.c (what a group that is not placed has to give back).
#ifndef SCHED_BIND_BIND_INT_H
#define SCHED_BIND_BIND_INT_H

#include "api/match/claim.h"
#include "sched/bind/bind.h"

#define CLAIM_TRIES  5
#define CONDITION_NS (5 * CLOCK_NS_PER_SEC)
#define LOOK_NS      (CLOCK_NS_PER_SEC) // between looks at a pod whose binding had no answer

// Reservations a claim can have (resource/v1 ResourceClaimReservedForMaxSize).
#define RESERVED_MAX 256

// Pods that share a claim do not write it at once, only to run into conflicts: one writes, the
// others wait, and its status update takes their reservations along.
struct claim_writer {
    struct bind_claim *writer; // NULL: the next is being looked for
    struct list waiting;       // bind_claim.wait
    bool turning;              // the next writer is being called
};

// The way of a claim that is written for a pod (bind_claim.c).
enum claim_step {
    CLAIM_STEP_CREATE,    // the special claim does not exist yet
    CLAIM_STEP_TURN,      // another binding may be writing the claim
    CLAIM_STEP_READ,      // the version at hand is or may be old
    CLAIM_STEP_FINALIZER, // is written
    CLAIM_STEP_STATUS,    // allocation and reservation are written
    CLAIM_STEP_TOUCH,     // the group's reservation exists: a write makes taking it back fail
    CLAIM_STEP_FOREIGN,   // reserved for the pod by another attempt
};

struct bind_claim {
    struct binding *b;
    enum claim_step step;
    struct list_node wait;
    bool riding;     // a write under way has our reservation in it
    struct str name; // empty: the special claim, not created yet
    struct str uid;
    bool special;
    bool group; // it is reserved for the pod's group, not for the pod
    const struct api_allocation_result *allocation; // to be written; NULL: it has one
    struct flight *flight;                          // ours while it is in flight; referenced
    const struct typed_object *object;              // newest version of it; referenced
    const struct typed_object *decided;             // as the attempt saw it; referenced
    bool fresh; // object is what the API answered just now, not what the cache believes
    unsigned tries;
    int64_t sent_ns;   // the last write
    uint64_t revision; // at which the claim was as it must be; the watch has to show it
    bool reserved;     // our write put the pod itself into reservedFor
    bool gives_way;    // its allocation is taken back: another scheduler's came first
    bool again;        // taking back ran into a conflict: to be retried with the present version
};

// A claim for storage that is not bound yet, and what it shall get.
struct bind_volume {
    struct binding *b;
    struct str key;  // of the claim: namespace/name
    struct str name; // of the claim
    struct str uid;
    struct str volume;                 // to be bound; empty: to be made, for the node
    const struct typed_object *object; // the volume, or the claim, as decided; referenced
    bool shared;                       // another pod on its way writes it
    bool held;                         // it is in the scheduler's maps
    uint64_t revision;                 // of our write; 0: none
};

enum bind_step {
    BIND_DECIDED,    // nothing has been written yet
    BIND_VOLUMES,    // claims for storage are being bound
    BIND_CLAIMS,     // writes are under way
    BIND_ECHO,       // the watch has not shown them yet
    BIND_STATUS,     // the pod's status is being written
    BIND_CONDITIONS, // devices are being made ready
    BIND_QUORUM,     // too few pods of its gang have come this far
    BIND_POD,        // pods/binding is under way
    BIND_UNDO,       // reservations are being taken back
};

struct gang;
struct group_take;

struct binding {
    struct list_node node; // in sched.bindings
    struct {
        struct gang *gang; // NULL: it goes alone
        struct list_node gang_node;
        const struct typed_object *group; // the pod's PodGroup as it was; referenced; NULL: none
        struct group_take *take;          // it is only fenced, for this
    } in;
    struct sched *s;
    struct sched_pod *pod;                 // NULL: gone
    const struct typed_object *pod_object; // as it was; referenced
    struct str node_name;
    enum bind_step step;
    struct arena arena;
    struct bind_claim *claims;
    size_t claims_len;
    struct {
        struct bind_volume *all;
        size_t n;
        struct list_node wait; // in sched.volumes.sharing
        int64_t until_ns;
    } volume;
    size_t pending; // answers to come
    bool failed;
    bool give_way; // another scheduler's allocation came first: ours is taken back
    struct {
        bool cleanup; // no attempt: what an earlier one left is taken back
        bool slow;    // the watch has yet to show what a cleanup took: not retried at once
        bool gone;    // the pod, or going: none of its devices are needed
    } undo;
    bool sent;    // a Binding, which may still come
    bool settled; // it has waited for other schedulers
    unsigned tries;
    bool told; // of pending conditions
    struct {
        int64_t began_ns; // what is timed now: the way to the Binding, or the Binding; 0: nothing
        int64_t waits_ns; // since when it waits for conditions; 0: it does not, or they are counted
    } time;
    struct sbuf error;
    struct exec_timer timer;
    struct {
        struct api_resource_claim *claim;
        struct str key; // of what is in flight for it
        struct api_container_extended_resource_request_array mappings;
    } special;
    struct api_node_allocatable_resource_claim_status_array node_statuses;
};

// What a look at the pod found.
enum pod_is {
    POD_IS_OPEN,      // as this attempt knows it, whatever else changed
    POD_IS_FENCED,    // another attempt has put up a fence
    POD_IS_BOUND,     // to the node of this attempt
    POD_IS_ELSEWHERE, // bound to another
    POD_IS_GONE,      // or going: it cannot be bound any more
};

static inline const struct api_pod *bind_pod(const struct binding *b)
{
    return b->pod_object->object.value;
}

// bind_enter begins a step, bind_next the one that follows. bind_is_waiting: no answer is under
// way.
void bind_enter(struct binding *b, enum bind_step step);
void bind_next(struct binding *b);
bool bind_is_waiting(const struct binding *b);

// bind_claim_start begins to write a claim; bind_claim_finished comes back from it.
void bind_claim_start(struct bind_claim *c);
void bind_claim_finished(struct binding *b);

// bind_await_devices waits until the devices are ready for the pod, and measures that the first
// time; bind_check_conditions checks whether they are.
void bind_await_devices(struct binding *b, bool first);
void bind_check_conditions(struct binding *b);

// bind_writers_done frees what is known of writers when all bindings are dropped.
void bind_writers_done(struct sched *s);

// bind_prepare holds what the attempt found on node n, in memory; bind_next starts to write,
// bind_revert drops it all.
struct binding *bind_prepare(struct attempt *a, struct sched_node *n);
void bind_revert(struct binding *b);

// bind_volumes_take holds what the attempt found for unbound claims on node n; bind_volumes_start
// writes it and ends the step once all are bound; bind_volumes_land releases it, bind_volumes_free
// frees it.
void bind_volumes_take(struct attempt *a, struct binding *b, const struct sched_node *n);
void bind_volumes_start(struct binding *b);
void bind_volumes_land(struct binding *b);
void bind_volumes_free(struct binding *b);

// bind_volumes_left: a volume is held that its claim has no use for, because it got another one.
bool bind_volumes_left(const struct binding *b);

// bind_volume_claim_changed, bind_volume_changed: news for bindings that wait for their volumes.
void bind_volume_claim_changed(struct sched *s, const struct api_object_meta *claim);
void bind_volume_changed(struct sched *s, const struct typed_object *volume);

// bind_volume_open is the first claim that the binding still waits for; NULL: none.
const struct bind_volume *bind_volume_open(const struct binding *b);

// bind_land lets go of what a binding has in flight.
void bind_land(struct binding *b);

// bind_fence puts up a fence and nothing else, for a take; bind_finish ends a binding.
struct binding *bind_fence(struct sched *s, struct sched_pod *p, struct group_take *t);
void bind_finish(struct binding *b);

// bind_fail notes an error and ends the binding once all answers are in.
void bind_fail(struct binding *b, const char *fmt, ...) ERR_PRINTF(2, 3);

// bind_undo takes back what was reserved and written, and gives the pod back to the queue.
void bind_undo(struct binding *b);

void bind_free(struct binding *b);

// bind_entry finds the cache's entry for a claim; NULL when there is none.
struct sched_claim *bind_entry(const struct bind_claim *c);

// bind_wake_users gives pods that wait for this claim their turn.
void bind_wake_users(struct sched *s, struct sched_claim *k);

// bind_undo_again goes on with taking back when the pod was looked at; bind_leave ends the binding
// and takes nothing. bind_pod_is hands over what fence_look found.
void bind_undo_again(struct binding *b, bool gone);
void bind_leave(struct binding *b);
void bind_pod_is(struct binding *b, enum pod_is is);

void bind_claim_done(struct bind_claim *c);
void bind_hold_claim(struct bind_claim *c, const struct typed_object *o);

// --- meter_bind.c --------------------------------------------------------------------------------

// meter_bind_prepared: claims are about to be written; meter_bind_written: the Binding is about to
// be sent; meter_bind_over: the pod is bound (well), or will not be by this attempt.
void meter_bind_prepared(struct binding *b);
void meter_bind_written(struct binding *b);
void meter_bind_over(struct binding *b, bool well);

// meter_bind_awaited counts a wait for conditions that is over, by driver; without one it does
// nothing.
void meter_bind_awaited(struct binding *b, enum meter_wait how);

// --- gang_bind.c ---------------------------------------------------------------------------------

// gang_arrive: the pod has everything that it needs. True: it may be bound now. gang_leave: it will
// not be, or is (done).
bool gang_arrive(struct binding *b);
void gang_leave(struct binding *b);
void gang_drop_all(struct sched *s);

// --- gang_take.c ---------------------------------------------------------------------------------

// gang_take_fenced: a pod has been looked at or fenced for a take. well: no Binding of it can come
// any more.
void gang_take_fenced(struct binding *b, bool well);
void gang_take_member_gone(struct binding *b);

#endif
