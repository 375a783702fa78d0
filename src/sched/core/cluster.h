// SPDX-License-Identifier: Apache-2.0
//
// What the scheduler knows of nodes, pods and namespaces: per node what it offers and what its pods
// take, ports, and the pods themselves, those that are only assumed to be there included. Kept from
// the informers' changes, read by the filters. Private to src/sched.
#ifndef SCHED_CORE_CLUSTER_H
#define SCHED_CORE_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/index.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/vec.h"
#include "client/client.h"

// Resources are numbered; the first four are fixed. Amounts are thousandths of cpus, bytes, pieces.
// Numbers are not given back, and users who create pods can name any resource: behind RES_MANY,
// what pods ask for and no node offers is one resource, which none has.
enum { RES_CPU, RES_MEMORY, RES_STORAGE, RES_PODS, RES_FIXED, RES_STRANGE = RES_FIXED };
#define RES_MANY 4096

struct amount_vec VEC(int64_t); // by number; what lies behind the end is 0

struct pod_need {
    uint32_t res;
    int64_t amount;
};

struct pod_port {
    struct str ip; // "0.0.0.0" for any
    struct str protocol;
    int32_t port;
};

// cluster_port_cmp orders ports by number and protocol; of the same, those of any address come
// first.
int cluster_port_cmp(const void *a, const void *b);
bool cluster_port_is_any(const struct pod_port *p);

struct sched_node;

// Why a node refuses a pod; also what a pod waits for.
enum why {
    WHY_NODE_NAME,
    WHY_UNSCHEDULABLE,
    WHY_NODE_AFFINITY,
    WHY_TAINT,
    WHY_PORTS,
    WHY_RESOURCES,
    WHY_SPREAD,
    WHY_POD_AFFINITY,
    WHY_DEVICES,
    WHY_VOLUMES,
    WHYS,
    WHY_NONE = WHYS, // the node will do
};

enum pod_state {
    POD_ELSEWHERE, // not ours to place: bound, finished, another scheduler's
    POD_GATED,     // a gate is closed, a claim is missing: not tried until that changes
    POD_ACTIVE,    // in the heap of those to be tried
    POD_BACKOFF,   // in the heap of those to be tried later
    POD_WAITING,   // no node fits; in a list for each reason
    POD_POSTPONED, // its attempt goes on in a later turn
    POD_BINDING,   // a node is chosen, writes are under way
};

struct binding;
struct preempt_search;
struct sched_group;

// A pod in the queue (queue.c).
struct pod_queue {
    struct heap_node heap;
    struct list_node waits[WHYS];
    int32_t priority;
    uint32_t attempts;
    uint32_t whys;                 // bits of enum why
    uint32_t blocked;              // bits of enum queue_block under which it is counted
    uint64_t order;                // among equals
    int64_t due_ns;                // end of back-off
    int64_t tried_ns;              // last attempt
    int64_t queued_ns;             // first time it could be tried
    int64_t jitter_ns;             // added to its back-off
    struct preempt_search *search; // where its dry run goes on (src/sched/preempt); NULL: none
};

// The node that a pod waits for: the API's nominatedNodeName, or newer (preempt/nominate.c).
struct pod_nomination {
    struct sched_node *node; // NULL: none
    struct list_node by_node;
    uint64_t revision; // of the pod's last write: older versions say nothing about the nomination
    bool writing;      // it is being stored
    bool failed;       // its end could not be stored; it is written again
};

// What the condition of a pod reports (report.c).
struct pod_report {
    char *reason;          // Unschedulable, SchedulerError
    char *message;         // one line
    char *gate;            // why it is not tried
    char *given_up;        // why it gave devices back that did not become ready; NULL: it did not
    char *given_up_device; // the one to blame: DRIVER/POOL/DEVICE
    int64_t written_ns;
    struct list_node pending; // while a newer text waits to be written
};

struct sched_pod {
    struct str key;                    // namespace/name; owned
    const struct typed_object *object; // referenced
    const struct api_pod *api;
    struct pod_need *needs; // pods: 1 is among them
    size_t needs_len;
    struct pod_port *ports; // sorted
    size_t ports_len;
    struct { // cpu, memory for scoring: containers that ask for none count a little
        int64_t nonzero[2];
        // Without pod-level resources: as kube-scheduler scores the pod that is to be placed.
        int64_t nonzero_own[2];
    };
    struct sched_node *node; // where it counts, NULL: nowhere
    bool assumed;            // the node is ours, the API does not say so yet
    bool strange;            // it asks for a resource that had no number
    bool anothers;           // another scheduler is placing it, with devices
    bool anothers_waits;     // … or would, as soon as there is room
    struct {
        uint32_t at;                   // its place in node->pods
        struct list_node by_namespace; // of those on a node
        struct list_node by_affinity;  // of those on a node that have terms of their own
        bool evicted;                  // preempted; its deletion is on its way
        struct pod_nomination nominated;
    } on;
    enum pod_state state;
    struct pod_queue queue;
    struct str *claims; // keys of the claims it is indexed under; owned
    size_t claims_len;
    struct {
        uint64_t spent; // for selectors, in the attempt that was postponed; 0: none was
        bool learnt;    // the attempt that was postponed is counted (packing.c)
        bool costly;    // its selectors cost too much, as the message explains
    } cost;

    // Its PodGroup (groups.c).
    struct sched_group *group; // NULL: none
    uint32_t group_at;         // its place in group->pods
    bool group_gated;          // the gate is its group's: too few pods, no object

    struct pod_report report;
    uint64_t signature; // 0: not made yet

    struct binding *binding;
};

struct pod_vec VEC(struct sched_pod *);

struct sched_node {
    struct str name;                   // owned
    const struct typed_object *object; // NULL: only its pods are known
    const struct api_node *api;
    uint32_t index; // dense; reused
    uint64_t version;
    struct amount_vec allocatable;
    struct amount_vec requested;
    int64_t nonzero[2];
    struct pod_vec pods;
    uint32_t ports;        // host ports in use by its pods
    struct list nominated; // pods that wait for it: pod_nomination.by_node
};

// How many pods on nodes have a priority; sorted, the lowest first.
struct priority_count {
    int32_t priority;
    size_t pods;
};

struct sched_namespace {
    struct str name;                   // owned
    const struct typed_object *object; // NULL: not seen
    struct list pods;                  // on nodes
};

// An image that nodes report: how many have it, and its size as the first of them had it.
struct image_use {
    char *name;
    size_t nodes;
    int64_t bytes;
};

struct cluster {
    struct res_map MAP(uint32_t) res_numbers;
    struct res_names VEC(struct str) res_names; // owned
    struct node_map MAP(struct sched_node *) nodes;
    struct node_vec VEC(struct sched_node *) order; // by index; holes are NULL
    struct index_numbers holes;
    struct index_numbers changed; // nodes, since somebody looked; more than there are nodes: any
    struct pod_map MAP(struct sched_pod *) pods;
    struct ns_map MAP(struct sched_namespace *) namespaces;
    struct image_map MAP(struct image_use) images; // by name
    struct list affine;                            // pods on nodes with affinity terms of their own
    size_t nominated_len; // pods without a node that are to get one when others have gone
    struct priority_vec VEC(struct priority_count) priorities;
    size_t nodes_known; // with an object
    uint64_t version;   // changes with everything that filters look at
};

void cluster_init(struct cluster *c);
void cluster_done(struct cluster *c);

// cluster_resource numbers a resource name, cluster_resource_asked one that a pod asks for.
uint32_t cluster_resource(struct cluster *c, struct str name);
uint32_t cluster_resource_asked(struct cluster *c, struct str name);

static inline int64_t amount_at(const struct amount_vec *v, uint32_t res)
{
    return res < v->n ? v->p[res] : 0;
}

// amount_add adds amounts, of which none is negative; beyond the largest number there is none.
static inline int64_t amount_add(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

// cluster_node finds a node, or makes one that is not known yet.
struct sched_node *cluster_node(struct cluster *c, struct str name);

// cluster_node_set takes the node's newest object, NULL when it is gone. Returns the node, or NULL
// when nothing is left of it.
struct sched_node *cluster_node_set(struct cluster *c, struct str name,
                                    const struct typed_object *object);

struct sched_pod *cluster_pod(const struct cluster *c, struct str key);

// cluster_pod_add makes a pod; cluster_pod_set reads a newer object into one. Neither places it.
// True: it asks for less of something than before.
struct sched_pod *cluster_pod_add(struct cluster *c, const struct typed_object *object);
bool cluster_pod_set(struct cluster *c, struct sched_pod *p, const struct typed_object *object);

// cluster_nominate sets the node that a pod without one waits for; an empty name: none. The node
// need not be known.
void cluster_nominate(struct cluster *c, struct sched_pod *p, struct str node);

void cluster_pod_remove(struct cluster *c, struct sched_pod *p); // frees it

// cluster_place counts a pod on a node, cluster_lift takes it off again.
void cluster_place(struct cluster *c, struct sched_pod *p, struct sched_node *n);
void cluster_lift(struct cluster *c, struct sched_pod *p);

// cluster_show and cluster_hide do the same for a dry run: nothing that is kept about the node is
// invalidated, so the caller must put everything back before anything else is asked.
void cluster_show(struct cluster *c, struct sched_pod *p, struct sched_node *n);
void cluster_hide(struct sched_pod *p);

// cluster_has_lower: a pod on a node has a lower priority.
bool cluster_has_lower(const struct cluster *c, int32_t priority);

struct sched_namespace *cluster_namespace(struct cluster *c, struct str name);
void cluster_namespace_set(struct cluster *c, struct str name, const struct typed_object *object);

// cluster_image: NULL when no node has it. cluster_node_has_image: the node reports it.
const struct image_use *cluster_image(const struct cluster *c, struct str image);
bool cluster_node_has_image(const struct sched_node *n, struct str image);

// cluster_check recomputes all sums and adds a line for each difference.
bool cluster_check(const struct cluster *c, struct sbuf *problems);

// cluster_ports_of_pod reads the host ports of a pod.
void cluster_ports_of_pod(struct sched_pod *p);

// needs_of_pod adds up what a pod asks of a node, as Kubernetes does: containers, the most of init
// containers with the sidecars before them, pod-level resources, overhead, and what its devices
// take of the node (NULL: as in its status).
void needs_of_pod(struct cluster *c, struct sched_pod *p,
                  const struct api_node_allocatable_resource_claim_status_array *devices);

#endif
