// SPDX-License-Identifier: Apache-2.0
//
// Data of the scheduler, shared by its files. docs/scheduler.md tells how it fits together.
#ifndef SCHED_CORE_SCHED_INT_H
#define SCHED_CORE_SCHED_INT_H

#include "base/arena.h"
#include "base/log.h"
#include "client/events.h"
#include "client/informer.h"
#include "sched/core/cluster.h"
#include "sched/core/meter.h"
#include "sched/core/queue.h"
#include "sched/dra/claims.h"
#include "sched/dra/devices.h"
#include "sched/explain/refusal.h"
#include "sched/gang/groups.h"
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

struct sched_config {
    struct features features;
    struct alloc_features alloc_features;
    enum alloc_policy policy;
    int64_t binding_timeout_ns;
    size_t feasible_max;
    struct name_vec VEC(struct str) names; // owned
    bool groups_on;                        // PodGroups are watched
    bool group_claims;                     // claims may be a PodGroup's
};

struct sched_watch {
    struct informer *informers[WATCHES];
    size_t n;
    size_t synced;
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
    uint64_t epoch; // of the newest one
    uint32_t whys;  // of all that are of that epoch
};

struct sched {
    struct client *client;
    struct exec *exec;
    struct sched_config config;
    bool started;
    bool standby; // another replica acts

    struct sched_watch watch;
    struct cluster cluster;
    struct index *devices;
    struct claims claims;
    struct groups groups;
    struct volumes volumes;
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

// --- dra.c: claims of a pod ----------------------------------------------------------------------

enum dra_begin { DRA_OK, DRA_GATED, DRA_WAIT, DRA_REFUSED, DRA_FAILED };

// dra_gate says whether all claims of a pod exist and are its own; else adds why not.
bool dra_gate(struct sched *s, const struct api_pod *pod, struct sbuf *why);

// dra_begin resolves the pod's claims and what must be allocated. Anything but DRA_OK comes with a
// text in a->text.
enum dra_begin dra_begin(struct attempt *a);

// dra_filter asks one node. WHY_NONE: it will do (and a->answer has the allocation, if any was
// needed); else WHY_DEVICES or WHY_RESOURCES, with the reason added to why unless that is NULL. May
// set a->failed.
enum why dra_filter(struct attempt *a, struct sched_node *n, struct refusals *why);

// dra_is_special: the claim was made for extended resources of the pod, and there is still something
// to take back.
bool dra_is_special(const struct api_resource_claim *claim, const struct api_pod *pod);

// dra_rank sums up how far in front of their lists the chosen alternatives stand.
int64_t dra_rank(const struct attempt *a);

// dra_has_conditions says whether results of an allocation have conditions to wait for; dra_binding_state
// looks at them. Where it is hopeless, that is below BINDING_WAITS, it says why.
enum binding_state {
    BINDING_LATE = -2, // some are not true, and the time is over
    BINDING_FAILED,    // a condition of failure is true
    BINDING_WAITS,
    BINDING_READY,
};
// dra_unready is a device of an allocated claim that has failed, else one that is not ready; NULL: none.
const struct api_device_request_allocation_result *dra_unready(
    const struct api_resource_claim *claim);
bool dra_has_conditions(const struct api_allocation_result *allocation);
enum binding_state dra_binding_state(const struct sched *s, const struct api_resource_claim *claim,
                                     struct sbuf *why);

// --- extended.c ----------------------------------------------------------------------------------

// extended_rebuild makes the map of resource names anew from all classes.
void extended_rebuild(struct sched *s);

// extended_class finds the class behind a resource name that may be served by devices.
const struct api_device_class *extended_class(const struct sched *s, struct str resource);

// extended_wanted says whether the pod asks for a resource with a class behind it.
bool extended_wanted(const struct sched *s, const struct sched_pod *p);

// extended_on_node makes the requests that a node has to serve with devices. Returns 1 with requests, 0
// when none are left, -1 when the node has a resource neither way.
int extended_on_node(struct attempt *a, const struct sched_node *n);

// --- nodealloc.c ---------------------------------------------------------------------------------

// nodealloc_filter adds up what devices take of the node's own resources and checks that it fits.
enum why nodealloc_filter(struct attempt *a, struct sched_node *n, struct refusals *why);

// --- filter.c ------------------------------------------------------------------------------------

// filter_node applies everything but devices. With why, the reasons are added.
enum why filter_node(struct attempt *a, const struct sched_node *n, struct refusals *why);

// filter_nominated: another pod is to get the node, and does not give way to this one.
bool filter_nominated(const struct attempt *a, const struct sched_node *n,
                      const struct sched_pod *p);

// filter_fits checks amounts, those of needs instead of the pod's own.
bool filter_fits(struct attempt *a, const struct sched_node *n, const struct pod_need *needs,
                 size_t needs_len, struct refusals *why);

// filter_selected: node selector and required node affinity; filter_tolerated: hard taints.
bool filter_selected(const struct api_pod *pod, const struct api_node *node);
bool filter_tolerated(const struct api_pod *pod, const struct api_node *node);

// --- affinity.c, spread.c ------------------------------------------------------------------------

void affinity_begin(struct attempt *a);
enum why affinity_filter(struct attempt *a, const struct sched_node *n, struct refusals *why);
int64_t affinity_score(const struct attempt *a, const struct sched_node *n);
bool affinity_scores(const struct attempt *a);
void affinity_end(struct attempt *a);

void spread_begin(struct attempt *a);
void spread_end(struct attempt *a);
enum why spread_filter(struct attempt *a, const struct sched_node *n, struct refusals *why);
void spread_score(const struct attempt *a, struct sched_node *const *nodes, size_t n,
                  int64_t *ret); // normalized

// --- volume_rules.c ------------------------------------------------------------------------------

// volume_rules_begin looks at the pod's claims for storage. DRA_OK, or with a text DRA_WAIT (what there is of volumes is not known
// yet) or DRA_REFUSED. volume_rules_filter: can they be had from the node? It chooses volumes for claims that have none.
enum dra_begin volume_rules_begin(struct attempt *a);
enum why volume_rules_filter(struct attempt *a, const struct sched_node *n, struct refusals *why);

// --- score.c -------------------------------------------------------------------------------------

// score_best chooses among nodes that will do; ranks are those of dra_rank, one a node; worths are
// steps of worth, the first node's being the best, or NULL.
size_t score_best(const struct attempt *a, struct sched_node *const *nodes, const int64_t *ranks,
                  const int64_t *worths, size_t n);

// score_settled says that a node cannot be beaten by one that is worth no more: nothing else than worth
// is asked for.
bool score_settled(const struct attempt *a, const struct sched_node *n);

// --- cycle.c -------------------------------------------------------------------------------------

// cycle_run tries the pod; it ends in the queue or in a binding.
void cycle_run(struct sched *s, struct sched_pod *p);

// cycle_begin and cycle_end enclose everything that looks at one pod. cycle_begin: as dra_begin.
enum dra_begin cycle_begin(struct sched *s, struct sched_pod *p, struct attempt *a);
void cycle_end(struct attempt *a);

// cycle_signature is equal for pods that get the same answer; 0: it is not known.
uint64_t cycle_signature(struct attempt *a);

// cycle_find looks for the best node; NULL: none, and a->whys, a->failed and a->text say why. With a
// verdict that is known nothing is looked for, and *ret_known is it.
struct sched_node *cycle_find(struct attempt *a, const struct verdict **ret_known);

// cycle_keep remembers what is said of the pod, for its equals.
void cycle_keep(struct attempt *a, struct str message);

// cycle_give_up finds a claim whose allocation keeps the pod from other nodes and that nobody else uses
// (PostFilter); NULL: none.
const struct want *cycle_give_up(const struct attempt *a);

// cycle_gate puts the pod aside until something lifts the gate; the text is a->text.
void cycle_gate(struct attempt *a);

// --- cost.c: what selectors may cost ---------------------------------------------------------------

// cost_begin gives an attempt, or a look at what would come of one, its slice. s->cost.refused says
// afterwards that it was used up: then nothing that was found out holds. cost_turn_over says that the
// loop is to be left, given what had been spent when the turn began; cost_end_turn is called when it is.
#define COST_BUDGET_DEFAULT UINT64_C(1000000000)
void cost_begin(struct sched *s);
bool cost_turn_over(const struct sched *s, uint64_t spent_before);
void cost_end_turn(struct sched *s, uint64_t spent_before);

// cost_has_too_many says that the claims of the pod have more selectors than anybody needs; why is in
// the attempt's text then.
bool cost_has_too_many(struct attempt *a);

// cost_learn_again comes before a postponed attempt goes on.
void cost_learn_again(struct attempt *a);

// cost_postpone puts the pod of an attempt whose slice is used up where it gets its next one, or gives it
// up. cost_postpone_line does so for the explanation; false: line is what is told. cost_postpone_group:
// the same for a group's cycle; true: its pods are to be postponed, else given up.
void cost_postpone(struct attempt *a);
bool cost_postpone_line(struct attempt *a, struct sbuf *line);
bool cost_postpone_group(struct sched *s, struct sched_group *g);

// cost_write_over says which selectors cost too much.
void cost_write_over(const struct attempt *a, struct sbuf *out);

// cost_find_remedies is alloc_remedies_find with a slice of its own.
void cost_find_remedies(struct attempt *a, struct alloc_report *r, struct alloc_remedies *ret);

// --- gang.c, gang_ways.c, gang_bind.c, gang_take.c -----------------------------------------------

// gang_run tries the pods of first's group together; gang_holds says whether the pod has devices though
// its gang does not run.
void gang_run(struct sched *s, struct sched_pod *first);
bool gang_holds(struct sched *s, const struct sched_pod *p);

// gang_preview places the pods of a group in memory, shows each with the node it would get (NULL: none, and the attempt knows
// why), and takes it all back. Returns whether as many fit as the group needs; what is wrong with all of them is added.
typedef void (*gang_seen_fn)(void *arg, struct attempt *a, enum dra_begin begun,
                             const struct sched_node *n);
bool gang_preview(struct sched *s, struct sched_group *g, gang_seen_fn seen, void *arg,
                  struct sbuf *wrong);

// gang_start sends prepared bindings (of one group; their list is copied) on their way. need: so many must
// get as far as the Binding before any goes on.
void gang_start(struct sched *s, struct binding *const *all, size_t n, size_t need);

// A claim to be given back: cleared, or only without the group's reservation.
struct take_want {
    struct sched_claim *entry;
    bool clear;
};

// gang_take_start takes claims from a group none of whose pods runs, once no Binding of them can come any
// more. False: not now. gang_take_pods_advanced: the watch of pods has come to a revision.
bool gang_take_start(struct sched *s, struct sched_group *g, const struct take_want *wants,
                     size_t n);
void gang_take_pods_advanced(struct sched *s);

enum take_rule {
    TAKE_LOST, // what collides with an earlier allocation
    TAKE_ALL,  // a gang holds all or nothing
    TAKE_SOME, // what keeps a basic group from other nodes, else its reservations
};

// gang_give_back starts to take from a group what it holds by the rule. False: there is nothing.
bool gang_give_back(struct sched *s, struct sched_group *g, enum take_rule rule);
void gang_take_drop_all(struct sched *s);

// --- bind.c --------------------------------------------------------------------------------------

// bind_start reserves what the attempt found on node n and starts to write.
void bind_start(struct attempt *a, struct sched_node *n);

// bind_claim_changed and bind_pod_gone: news for bindings under way.
void bind_claims_listed(struct sched *s); // the watch is beyond its list
void bind_claim_changed(struct sched *s, struct sched_claim *k);
void bind_pod_changed(struct sched *s, struct sched_pod *p);
void bind_drop_all(struct sched *s);

// bind_deallocate clears the allocation of a claim that keeps a pod from being placed (PostFilter).
// bind_leftovers takes back what an earlier attempt left of a pod: reservations and special claims.
// Either ends with the pod in the queue. bind_leftovers: false when there is nothing.
void bind_deallocate(struct sched *s, struct sched_pod *p, const struct typed_object *claim);
bool bind_leftovers(struct sched *s, struct sched_pod *p);

// --- calls.c -------------------------------------------------------------------------------------

// A call of the client under way. Its answer goes to done unless the scheduler is gone by then.
typedef void (*call_fn)(struct sched *s, void *arg, const struct client_answer *answer);

struct call {
    struct list_node node;
    struct sched *s; // NULL: gone
    call_fn done;    // NULL: nobody cares
    void *arg;
    char *owned; // freed with the call; may be arg
};

struct call *calls_begin(struct sched *s, call_fn done, void *arg);
void calls_on_answer(void *arg, const struct client_answer *answer); // the client_done_fn of calls

// --- report.c ------------------------------------------------------------------------------------

// report_line says in one line why no node fits. report_write_whole is for a->tips: all there is to say as
// JSON and as text, the cause in one line. report_set_message says anything else: what is said already is not
// repeated, and a text that changes often is written every few seconds.
void report_line(struct attempt *a, struct sbuf *out);
void report_write_whole(struct attempt *a, struct sbuf *out, struct sbuf *cause, struct sbuf *text);
void report_init(struct sched *s);
void report_set_message(struct sched *s, struct sched_pod *p, const char *reason,
                        struct str message);

// report_gated tells a pod what it is waiting for before it can be tried, unless that comes soon.
void report_gated(struct sched *s, struct sched_pod *p);
void report_event(struct sched *s, const struct typed_object *about, const char *type,
                  const char *reason, struct str message);

// report_bound tells that a pod got its node, unless many have been told of just now.
void report_bound(struct sched *s, const struct typed_object *pod, struct str node);

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

// beside_pod looks at a pod that has changed, beside_gone forgets one.
void beside_pod(struct sched *s, struct sched_pod *p);
void beside_gone(struct sched *s, struct sched_pod *p);

// beside_freed tells that devices have become free: another's pods that wait for some are tried at once.
void beside_freed(struct sched *s);

// beside_wait_ns is for how long the next pod leaves the field to others; 0: it is ours.
int64_t beside_wait_ns(struct sched *s);

// beside_wrote tells how long a write of a claim took; beside_settle_ns how long to wait before a Binding: 0, not at all.
void beside_wrote(struct sched *s, int64_t took_ns);
int64_t beside_settle_ns(const struct sched *s);

#endif
