// SPDX-License-Identifier: Apache-2.0
//
// Data of the scheduler, shared by its files. docs/design/scheduler.md describes how it fits
// together.
#ifndef SCHED_CORE_SCHED_INT_H
#define SCHED_CORE_SCHED_INT_H

#include "base/arena.h"
#include "base/log.h"
#include "client/events.h"
#include "client/informer.h"
#include "sched/core/cluster.h"
#include "sched/core/config.h"
#include "sched/core/meter.h"
#include "sched/core/queue.h"
#include "sched/dra/claims.h"
#include "sched/dra/devices.h"
#include "sched/explain/refusal.h"
#include "sched/filter/owners.h"
#include "sched/gang/groups.h"
#include "sched/preempt/preempt.h"
#include "sched/sched.h"
#include "sched/volume/volumes.h"

// Kinds that are watched.
enum watched {
    WATCH_PODS,
    WATCH_NODES,
    WATCH_NAMESPACES,
    WATCH_CLAIMS,
    WATCH_SLICES,
    WATCH_CLASSES,
    WATCH_RULES,
    WATCH_TEMPLATES, // only to tell which are missing
    WATCH_GROUPS,
    WATCHES,
};

// Extended resource names and the classes behind them.
struct ext_map MAP(const struct api_device_class *);

// What was found for pods of one signature: holds as long as nothing that could help has changed.
struct verdict {
    uint64_t signature;
    uint64_t epoch;
    uint32_t whys;
    char *message;
};

#define VERDICTS_MAX 256

struct claim_writer;
struct packing;

// Other schedulers that give devices away (beside.c).
struct beside {
    int64_t settle_ns;  // sched_options'
    int64_t write_ns;   // how long a write of a claim takes, the slowest of late
    size_t trying;      // pods with claims that others have to place and have not given up
    size_t waiting;     // … also those that they come back to when there is room
    int64_t seen_ns;    // when there was one last
    int64_t holding_ns; // since when we wait for them; 0: we do not
    bool seen;
};

struct sched_watch {
    struct informer *informers[WATCHES];
    size_t n;
    size_t synced;
    bool forbidden;          // the server does not let us list a kind
    size_t special_by_owner; // index of claims for extended resources, by UID of the pod
};

// What selectors may cost (cost.c), and how long a turn may take.
struct sched_cost {
    struct alloc_meter meter;
    uint64_t began;        // spent when the attempt or preview under way began
    uint64_t budget;       // of an attempt, in all its slices
    uint64_t expire_calls; // left until the allocator has to stop
    bool active_next;      // a postponed pod had the last turn
};

// Attempts, one after the other.
struct sched_turn {
    struct exec_timer run_timer;
    struct exec_timer warm_timer;
    struct arena arena; // of the attempt under way
    uint64_t epoch;     // changes with everything that can help a pod
    uint64_t begun;     // attempts and previews
    size_t rotate;      // where the next walk over all nodes starts
    uint64_t gang_now;  // the group cycle under way; 0: none
    uint64_t gang_last; // number of the last one
};

// Writes under way.
struct sched_writes {
    struct list bindings;
    struct writer_map MAP(struct claim_writer *) writers; // by claim's key, owned, while one writes
    struct list calls;                                    // of the client
    struct list gangs;                                    // pods of groups on their way together
    struct list takes;                                    // groups that give back what they hold
    bool echo_later; // bindings wait for a list of claims to be complete
};

struct sched_report {
    struct list pending; // pods whose condition has an old text, oldest first
    struct exec_timer timer;
    int64_t bound_ns; // up to when events of bound pods are paid for
};

struct sched_verdicts {
    struct verdict all[VERDICTS_MAX];
    uint64_t sound[4096]; // hashes of questions and states of nodes where they meet no error
    uint64_t classes;     // changes with device classes, which are no part of a node's state
    uint64_t epoch;       // of the newest one; whys: of all of that epoch
    uint32_t whys;
};

struct sched {
    struct client *client;
    struct exec *exec;
    struct sched_config config;
    struct {
        bool started;
        bool standby; // another replica acts
    };
    struct sched_watch watch;
    struct cluster cluster;
    struct index *devices;
    struct claims claims;
    struct groups groups;
    struct volumes volumes;
    struct owners owners;
    struct ext_map extended; // keys owned
    struct beside beside;
    struct queue queue;
    struct sched_turn turn;
    struct sched_cost cost;
    struct alloc_solver *solver;
    struct packing *packing; // NULL unless the policy is pack
    struct sched_verdicts verdicts;

    struct sched_writes writes;
    struct sched_report report;
    struct event_recorder *recorder;
    struct sched_stats stats;
    struct meter meter;
    struct preempt preempt;
};

// --- An attempt ----------------------------------------------------------------------------------

// A claim of the pod.
struct want {
    struct sched_claim *entry;              // NULL for the special claim until it is created
    const struct typed_object *object;      // as read at the start of the attempt
    const struct api_resource_claim *claim; // same
    const struct api_allocation_result *allocation; // stored or pending; NULL: none
    bool allocated;
    bool pending;     // its allocation is in flight for another pod of this group cycle
    bool group;       // it is reserved for the pod's group
    bool special;     // made for extended resources; last
    bool stale;       // a special claim of an earlier attempt, to be deleted
    bool unavailable; // on some node: may be deallocated if nothing fits
};

// Topology spread: one constraint and how many matching pods each domain has.
struct spread;
struct affinity;
struct pod_volume;

struct attempt {
    struct sched *s;
    struct sched_pod *pod;
    const struct api_pod *api;
    struct arena *arena;

    struct want *wants;
    size_t wants_len;
    const struct api_resource_claim **open; // unallocated ones, and room for the special one
    size_t open_len;
    struct {
        struct want *want;                                             // NULL: none
        struct api_resource_claim *claim;                              // variant for the node
        struct api_container_extended_resource_request_array mappings; // of that variant
        bool used; // the node at hand gives it devices
    } special;
    bool by_worth;         // nodes are named by packing.c
    bool learnt;           // the pod's requests are counted
    uint64_t devices_hash; // of the requests of open claims
    size_t need;
    struct {
        struct str only;                       // empty: any
        const struct sched_node *const *avoid; // nodes that are left out
        size_t avoid_len;
        const struct pod_vec *going; // in a dry run: pods of the node that may go; NULL: none
    } nodes;
    struct spread *spreads;
    size_t spreads_len;
    struct affinity *affinity;
    struct {
        struct pod_volume *all; // claims for storage
        size_t n;
        size_t open;                      // those that are not bound
        struct volume_ref refused;        // keeps the pod from every node; no name: none
        const struct pod_volume *lacking; // on the last node; NULL: none, or it has too many
    } volume;

    // Of the last node whose devices were tried.
    struct {
        const struct sched_node *node;
        struct alloc_answer answer;
        struct api_node_allocatable_resource_claim_status_array statuses;
    } last;

    uint32_t whys;
    const char *refused_by; // plugin that refuses the pod as a whole; NULL: DynamicResources
    bool failed;            // an error ends the attempt
    struct advice *tips;    // receives what would help; NULL: not needed
    bool not_counted;       // the pod waits for a claim that is being allocated: no back-off
    struct sbuf text;       // the error, or why the pod as a whole cannot be placed
};

// What the first look at a pod finds.
enum dra_begin { DRA_OK, DRA_GATED, DRA_WAIT, DRA_REFUSED, DRA_FAILED };

// --- sched.c -------------------------------------------------------------------------------------

// sched_wake: something changed that can help pods waiting for these reasons.
void sched_wake(struct sched *s, uint32_t whys);

// sched_enqueue gives a pod its turn, unless a gate is closed or a claim missing.
void sched_enqueue(struct sched *s, struct sched_pod *p);

// sched_room_whys: what may become possible when a pod leaves its node.
uint32_t sched_room_whys(const struct sched_pod *p);

// sched_is_mine: the pod waits for a node, and this scheduler is to give it one.
bool sched_is_mine(const struct sched *s, const struct api_pod *pod);

// sched_index_claim puts a claim into a pod's list, unless it is there.
void sched_index_claim(struct sched *s, struct sched_pod *p, struct str key);
const struct api_kind *sched_kind(enum watched w);

#endif
