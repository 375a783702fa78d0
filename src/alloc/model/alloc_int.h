// SPDX-License-Identifier: Apache-2.0
//
// Data of the allocator, shared by its files. README.md in this folder tells how it fits together.
#ifndef ALLOC_MODEL_ALLOC_INT_H
#define ALLOC_MODEL_ALLOC_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/alloc.h"
#include "alloc/model/amount.h"
#include "api/match/node.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "cel/cel.h"

// --- Cluster -------------------------------------------------------------------------------------

// An attribute's value for constraints: the numbers of its values in the cluster's table, where
// type and value together make the number. A scalar is a set of one.
struct attr_value {
    const uint32_t *ids;
    uint16_t n;
    uint8_t state; // enum attr_state
};

enum attr_state {
    ATTR_UNKNOWN,  // not looked up yet
    ATTR_MISSING,  // no such attribute, or no value where one is needed: never fits
    ATTR_VALUE,    // n >= 1
    ATTR_NO_VALUE, // lists are off and the attribute has no scalar: fits as the first only
    ATTR_ERROR,    // a derived attribute that cannot be computed
};

enum match_state {
    MATCH_UNKNOWN,
    MATCH_NO,
    MATCH_YES,
    MATCH_ERROR,
};

struct cl_device {
    const struct api_device *api;
    const struct api_resource_slice *slice;
    struct cel_device **cel;        // made when first needed, for all clusters of these slices
    const struct attr_value *attrs; // parallel to api->attributes
    const struct attr_value *pcie, *numa; // of these, where it sits; NULL: not told
    const struct alloc_use *owner;        // the exclusive use, if any
    struct api_device_taint_array taints; // with those of the rules
    amount *used;                         // parallel to api->capacity: consumed by shares
    uint64_t kind;                        // equal for devices that a fleet cannot tell apart
    uint64_t sign;                        // tells partitions of a counter set from each other
    uint32_t kind_number;                 // what expressions can tell apart; 0: not known
    bool exclusive_use;
    bool shared_use;  // a share, or recorded consumption
    bool shared;      // may be allocated several times (and the feature is on)
    uint8_t name_bit; // in cluster.use_bits
};

struct cl_slice {
    const struct api_resource_slice *api;
    uint32_t first_device; // in cluster.devices
    bool uses_groups;
};

struct u32_vec VEC(uint32_t);

struct cl_class {
    const struct api_device_class *api;
    struct cel_program **programs; // parallel to selectors; NULL where it does not compile
    uint8_t *match;                // enum match_state for each device of the cluster
};

struct cl_use {
    bool exclusive;
    bool share;
    bool has_capacity;
    const struct alloc_use *owner;
    struct u32_vec capacities; // indexes of uses that carry capacity
};

// A kind of device, as far as expressions and packing can tell (answer.c). kind and sign are those of all its devices.
struct device_kind {
    uint64_t hash;
    uint64_t kind, sign;
    uint32_t number; // from 1
    bool seen;       // kind and sign are known
};

// Which kinds the devices of a cluster are of, slice by slice; NULL: not known.
struct cl_kinds {
    struct device_kind *const *of;
    uint32_t generation;
    uint32_t
        reads; // so many of the attributes that expressions read make a difference; UINT32_MAX: all
};

struct alloc_cluster {
    struct arena arena;
    struct alloc_features features;
    bool experimental; // a feature that only upstream's experimental allocator knows is on
    struct cl_slice *slices;
    size_t slices_len;
    struct cl_device *devices;
    size_t devices_len;
    struct cl_class *classes;
    size_t classes_len;
    struct class_names MAP(uint32_t) class_names;
    struct slices_by MAP(struct u32_vec) by_node; // slices with a node name
    struct slices_by by_pool;                     // by "driver\0pool"
    struct u32_vec elsewhere;                     // slices without a node name
    struct cl_uses MAP(struct cl_use) uses;       // by "driver\0pool\0device"
    uint64_t use_bits[4];                         // of names in uses: most devices are in none
    struct alloc_use *use_list;
    size_t use_list_len;
    const struct api_device_taint_rule **taint_rules; // for smaller clusters made of this one
    size_t taint_rules_len;
    struct value_ids MAP(uint32_t) values; // attribute values by type and bytes
    struct cel_env *env;
    struct cel_env *derived_env;
    struct cel_shapes *shapes;
    struct cel_cache *cache;
    struct answers *answers;   // NULL: kinds are not known
    struct cl_kinds kinds;     // without the numbers
    struct alloc_kit *own_kit; // where the five above are from, unless they are shared
    bool borrowed;             // all but devices, use and arena belong to another cluster
};

struct alloc_kit {
    struct cel_env *env;
    struct cel_env *derived_env;
    struct cel_shapes *shapes;
    struct cel_cache *cache;
    struct answers *answers;
};

// --- answer.c ------------------------------------------------------------------------------------

// device_make_record makes the CEL record of a device; device_record does so if there is none yet, NULL: it cannot be
// read. device_eval evaluates a selector on it.
int device_make_record(const struct alloc_cluster *c, const struct cl_device *d,
                       struct err *err) MUST_USE;
const struct cel_device *device_record(const struct alloc_cluster *c, const struct cl_device *d);
bool device_eval(const struct alloc_cluster *c, const struct cl_device *d, struct cel_run *run,
                 const struct cel_program *p, struct cel_result *ret);

// Answers of expressions by kind of device. answers_begin comes before the kinds of a cluster are numbered, and is
// their generation. hash is of what expressions can see; of attributes those that some expression reads.
struct answers *answers_new(void);
void answers_free(struct answers *a);
uint32_t answers_begin(struct answers *a);
struct device_kind *answers_kind(struct answers *a, uint64_t hash);

// answers_learn: answers of this expression are to be kept for clusters whose kinds tell so many attributes apart.
void answers_learn(struct answers *a, struct str expression, uint32_t reads);

// answers_of are those of an expression on devices of this cluster; NULL: none are kept. Good until the next
// answers_learn or answers_begin. answers_passing are those of a part of an expression, such as a term; good until the
// next answers_trim, which makes room, or answers_begin. answers_kept are one or the other.
struct answer_set;
struct answer_set *answers_of(const struct alloc_cluster *c, struct str expression);
struct answer_set *answers_passing(const struct alloc_cluster *c, struct str expression);
struct answer_set *answers_kept(const struct alloc_cluster *c, struct str expression);
void answers_trim(struct answers *a);

// answer_find is what is known; answer_make evaluates, charges the meter and keeps the answer, or says MATCH_UNKNOWN:
// the meter has nothing left. answer_failure is the text of a known failure, or stands for one that is not kept;
// borrowed from the set. A failure is not evaluated again for its text: a question that does so for each of many nodes
// would use up every slice without getting further.
struct evaluator {
    struct cel_run *run;
    const struct cel_program *program;
    struct alloc_meter *meter; // may be NULL
};
enum match_state answer_find(const struct answer_set *s, const struct cl_device *d);
enum match_state answer_make(const struct alloc_cluster *c, struct answer_set *s,
                             const struct cl_device *d, const struct evaluator *e);
struct str answer_failure(const struct answer_set *s, const struct cl_device *d);

// meter_charge counts an evaluation; meter_refuses says that no other may be made, and remembers that one was wanted.
void meter_charge(struct alloc_meter *m, const struct cel_result *r);
static inline bool meter_refuses(struct alloc_meter *m)
{
    if (!m || m->left)
        return false;
    m->refused = true;
    return true;
}

// attr_value_of reads an attribute by the rules in force; ids for new values come from intern.
struct attr_value attr_value_of(const struct api_device_attribute *a, bool lists,
                                uint32_t (*intern)(void *arg, char type, struct str bytes),
                                void *arg, struct arena *arena);

// device_kind hashes what a device has in common with others of its kind.
uint64_t device_kind(const struct api_device *d, const struct api_resource_slice_spec *slice);

// slice_uses_groups says whether devices of a slice have compatibility groups.
bool slice_uses_groups(const struct api_resource_slice *s);

// device_sign hashes what tells a partition from others of its counter set: 0 for other devices.
uint64_t device_sign(const struct api_device *d);

// cluster_pool_key and cluster_device_key write the key of a pool or device.
struct str cluster_pool_key(struct arena *a, struct str driver, struct str pool);

// --- View ----------------------------------------------------------------------------------------

struct counter_use {
    uint32_t counter; // in view.available
    amount value;
};

struct group_use {
    uint32_t set; // in view.groups
    uint64_t mask;
};

// Static answers of a device, each for itself.
enum node_match {
    NODE_NO,
    NODE_YES,
    NODE_ERROR,
};

enum need_state {
    NEED_UNKNOWN,
    NEED_OK,    // amounts are known; whether they fit depends on what is consumed
    NEED_SKIP,  // an unknown capacity or a policy violated
    NEED_ERROR, // fatal
};

struct vw_device {
    const struct cl_device *cl;
    uint32_t cl_index;
    uint32_t pool;
    uint32_t first_cap; // in the arrays of capacities
    uint32_t first_counter;
    uint32_t first_group;
    uint16_t caps_len;
    uint16_t counters_len;
    uint16_t groups_len;
    uint8_t node;         // enum node_match
    uint8_t default_need; // enum need_state without a capacity request
    bool default_fits;    // the default need fits beside what is in use
    bool refused;         // binding conditions with the feature off
    bool unsupported;     // skipped operations or counters that cannot be had
    bool shared;
    bool exclusive_use;
    bool shared_use;
    bool hard_taints; // has a taint that needs toleration
};

struct group_state {
    uint64_t mask;
    bool members;
    bool all_empty;
};

// How a capacity's policy rounds, where 64-bit numbers of its unit can say it.
enum cap_rounding {
    CAP_SLOW,  // by quantities
    CAP_PLAIN, // no policy: as asked
    CAP_RANGE,
};

struct vw_cap {
    const struct api_device_capacity_entry *api;
    int64_t min, max, step; // in units; max and step are 0 when there is none
    uint8_t rounding;       // enum cap_rounding
    bool milli;             // the unit is a thousandth

    amount value;
    amount used;         // by shares in use
    amount default_need; // what an unspecific request takes
};

struct vw_pool {
    struct str driver;
    struct str name;
    bool incomplete;
    bool invalid;
    bool binding;
    uint32_t first_device;
    uint32_t devices_len;
    uint32_t first_set;
    uint32_t sets_len;
    uint32_t overdrawn;     // counters below zero before anything is allocated
    uint32_t begun_free;    // devices not in use on PCIe roots with some that are
    uint32_t largest_place; // devices of the largest PCIe root of which nothing is in use
    struct str invalid_reason;
};

// Partitions of a counter set that are looked ahead at.
#define VIEW_SET_MEMBERS 64

// A device as the policies see it.
struct vw_rank {
    uint64_t excludes; // members of its set that do not fit beside it
    uint32_t pcie;     // number of the place, from 1; 0: none
    uint32_t numa;     // likewise
    uint32_t set;      // likewise, the first counter set it draws on
    uint16_t size;
    uint8_t local; // which member of its set
    uint8_t weight;
};

struct vw_set {
    uint32_t *members; // devices
    uint32_t n;
    uint32_t counters;
};

// What is left of a counter set.
struct set_now {
    uint64_t fits; // members that could be had
    bool begun;    // something of it is in use
};

// A device in its place of the order, with what a preference is made of.
struct vw_seat {
    uint64_t key;      // binding conditions, size and position, as in order.c
    uint64_t pack_one; // the preference of pack when one device is wanted and nothing is picked
    uint32_t device;
    uint32_t cl_index;
    uint32_t pcie, numa, set; // as in its rank
    bool refused;
    bool exclusive_use;
    bool shared;
    bool shared_use;
};

struct alloc_view {
    struct arena arena;
    const struct alloc_cluster *cluster;
    const struct api_node *node;
    struct vw_pool *pools; // in search order, unusable ones too
    size_t pools_len;
    struct vw_device *devices; // of usable pools, in search order
    size_t devices_len;
    struct vw_cap *caps;
    size_t caps_len;
    struct counter_use *counter_uses;
    struct group_use *group_uses;
    amount *available; // by counter
    amount *totals;    // likewise: with nothing in use
    uint32_t *counter_pool;
    uint32_t *counter_set;
    struct str *counter_names; // "set/counter", for explanations
    size_t counters_len;
    struct group_state *groups; // by counter set: the baseline
    size_t sets_len;
    uint32_t *counter_kind; // counters of one name in one pool are of one kind
    uint32_t kinds_len;
    struct vw_rank *ranks; // parallel to devices
    struct vw_set *sets;   // by counter set
    struct set_now *sets_now;
    struct vw_seat *seats; // devices in an order that has neighbours side by side
    uint32_t *place_free;  // by place: devices not in use
    bool *place_begun;     // by place: some device is in use
    size_t places_len;     // with number 0, no place
    bool declares_optional_operations;
    bool any_invalid;
    bool any_shared;
    bool any_set_begun;
    bool elsewhere; // devices that the node does not see draw on its counters
};

// view_join_group lets a device in use with these groups into the state of a counter set.
void view_join_group(struct group_state *g, uint64_t mask);

// --- Problem -------------------------------------------------------------------------------------

// Requests with the same class and selectors share what is known about devices.
struct selset {
    const struct cl_class *class_;
    const struct api_device_selector_array *selectors;
    struct cel_program **programs; // fetched when first needed
    size_t programs_len;           // the claims may be gone when the programs are dropped
    bool *tried;                   // fetched, or failed to compile
    struct answer_set **answers;   // parallel to programs; NULL: none are kept
    bool *asked;                   // for answers
    uint8_t *match;                // enum match_state by device
    bool class_only;
};

// Distinct capacity requests; 0 is "none", which the view has answered already.
struct asked_amount {
    amount value;
    int64_t whole, milli; // the same in units, -1 when it is not a number of them
};

struct capreq {
    const struct api_capacity_requirements *api;
    struct asked_amount *asked; // parallel to api->requests
    uint8_t *state;             // enum need_state by device
    amount *need;               // parallel to view.caps
};

// A column holds the values of one attribute, published or derived, by device.
struct column {
    struct str name;
    struct str expression; // empty: published
    struct cel_program *program;
    struct attr_value *values;
};

struct constraint {
    struct str attribute;
    const struct api_str_array *requests;
    bool distinct;
};

// What a constraint has seen. Sets live on the solver's stack of numbers.
struct constraint_state {
    uint32_t devices; // that are in scope and picked
    uint32_t first;   // in solver.numbers: match: the values all have; distinct: those taken
    uint32_t n;
};

// A request, or one alternative of it.
struct alternative {
    struct str name;      // short
    struct str full_name; // request or request/alternative
    const struct cl_class *class_;
    const struct api_device_selector_array *selectors;
    const struct api_device_toleration_array *tolerations;
    const struct api_capacity_requirements *capacity;
    const struct api_device_derived_attribute_array *derived;
    uint32_t *all;     // mode All: the devices
    uint32_t *columns; // by constraint of the claim: column, UINT32_MAX when out of scope
    uint32_t selset;
    uint32_t capreq;
    uint32_t claim;
    uint32_t request; // flat index
    int64_t count;
    bool mode_all;
    bool admin;
};

struct request {
    uint32_t claim;
    uint32_t first; // alternative
    uint32_t n;
    bool has_alternatives;
    bool claim_ends; // the next request is of another claim
};

struct claim {
    const struct api_resource_claim *api;
    uint32_t first_request; // flat
    uint32_t requests_len;
    uint32_t first_constraint;
    uint32_t constraints_len;
};

struct pick {
    uint32_t alternative;
    uint32_t device;
};

// Facts that pruning works with; see prune.c.
struct prune;

struct undo {
    uint32_t numbers_n;
    uint32_t states_n;
    uint32_t groups_n;
};

struct saved_state {
    uint32_t constraint;
    struct constraint_state state;
};

struct saved_group {
    uint32_t set;
    struct group_state state;
};

// Candidates of a request in the order of the policy, as preferences that end in a position of the
// view. What the search has not asked for yet is in a heap: most searches end long before.
struct order {
    uint64_t *keys; // n: from the end on those that are sorted, before them the others
    uint32_t n;
    uint32_t sorted;
    uint32_t least; // which one is the first, as long as nothing is sorted
    uint16_t *loss; // by device, from the options; NULL: no opinion
    bool asked;     // for it
};

#define ORDER_POSITION ((1U << 20) - 1)

// What preferences are made of, see order.c.
struct preference {
    const uint32_t *place_free; // by place
    const struct set_now *sets; // by counter set
    uint32_t *own_free;         // with what is picked; the view's until something is
    struct set_now *own_sets;
    uint32_t *turns;     // by place
    uint32_t *set_turns; // by counter set, from 1
};

// What a solution costs under pack, and what the next one may cost at most; see improve.c.
struct pack_cost {
    uint32_t opened; // PCIe roots and counter sets of which nothing was in use
    uint64_t size;   // of all devices
};

struct improvement {
    bool on;
    struct pack_cost now;
    struct pack_cost most;
    uint64_t steps_most;
    uint16_t *in_place; // by place: picks
    uint16_t *in_set;   // by counter set: picks
};

struct alloc_solver {
    struct alloc_options options;
    struct arena arena; // of one solve
    struct cel_run *run;
    struct sbuf error;
    struct sbuf scratch;
    uint32_t *numbers; // stack of value numbers
    size_t numbers_cap;
    uint64_t *memo; // of failed states; its key changes from solve to solve
    uint64_t memo_salt;
    struct term_memory *terms; // selectors taken apart, for explanations
    // The question. From here on everything is forgotten before the next.
    const struct alloc_view *view;
    struct claim *claims;
    size_t claims_len;
    struct request *requests;
    size_t requests_len;
    struct alternative *alternatives;
    size_t alternatives_len;
    struct constraint *constraints;
    size_t constraints_len;
    struct selset *selsets;
    size_t selsets_len;
    struct capreq *capreqs;
    size_t capreqs_len;
    struct column *columns;
    size_t columns_len;
    struct value_ids local_values; // values that only derived attributes have
    bool any_admin;
    // The search.
    uint16_t *marks;            // by device: claims that have it exclusively
    uint64_t *marked;           // the same as a bitset: any claim
    uint16_t *shares;           // by device: shares of this attempt
    amount *taken;              // parallel to view.caps
    amount *consumed;           // by counter
    uint32_t *overdrawn;        // by pool: counters whose sum is too large
    struct group_state *groups; // by counter set
    struct constraint_state *states;
    size_t numbers_n;
    struct saved_state *saved_states;
    size_t saved_states_n;
    struct saved_group *saved_groups;
    size_t saved_groups_n;
    struct pick *picks;
    size_t picks_n;
    uint32_t *claim_picks; // by claim
    uint32_t *chosen;      // by request: alternative, relative
    uint32_t *forced;      // by request: the only alternative to try, UINT32_MAX: all
    struct preference preference;
    struct improvement improvement;
    struct order *orders; // by request: candidates in the order of the policy; NULL: as published
    uint64_t steps;
    uint64_t steps_most;  // of the slice at work
    uint64_t slice_began; // after so many steps
    uint32_t work;        // done since the deadline was looked at, in some small unit
    uint32_t dead_ends;
    bool fatal;
    bool timeout;
    bool postponed;      // … because the meter has nothing left
    bool paused;         // the slice is over
    struct prune *prune; // NULL until the search met a dead end
};

// Work between two looks at the deadline: some 50 us.
#define WORK_PER_LOOK 20000

// solver_tick counts work and asks now and then whether time is up; true when it is.
static inline bool solver_tick(struct alloc_solver *s, uint32_t work)
{
    s->work += work;
    if (s->work >= WORK_PER_LOOK) {
        s->work = 0;
        if (s->options.expired && s->options.expired(s->options.expired_arg))
            s->timeout = true;
    }
    return s->timeout;
}
// terms_forget frees them.
void terms_forget(struct alloc_solver *s);

#define DEVICES_MAX 4096 // picked in one question; the search recurses once for each

enum outcome {
    SOLVED,
    FAILED,
    EXCEEDED, // more than a claim can hold
    STOPPED,  // error or timeout
};

// problem_build reads the claims: everything upstream checks before its search. False with
// s->error set when it refuses.
bool problem_build(struct alloc_solver *s, const struct api_resource_claim *const *claims,
                   size_t claims_len);

// solver_begin forgets the last question and starts one on a node.
void solver_begin(struct alloc_solver *s, const struct alloc_view *view);

// One of several arrays that are allocated together.
struct piece {
    void **where;
    size_t bytes;
};

#ifdef __clang__
#    define UNROLL _Pragma("unroll")
#else
#    define UNROLL _Pragma("GCC unroll 16")
#endif

#define PIECE(pointer, count)                             \
    {                                                     \
        (void **)&(pointer), (count) * sizeof(*(pointer)) \
    }

// solver_allocate gives each piece zeroed memory of the solver's arena. It is inlined where the
// pieces are listed: that leaves of them nothing but additions, which small questions notice.
static inline __attribute__((always_inline)) void solver_allocate(struct alloc_solver *s,
                                                                  const struct piece *pieces,
                                                                  size_t n)
{
    const size_t mask = _Alignof(max_align_t) - 1;
    size_t total = 0;
    UNROLL
    for (size_t i = 0; i < n; i++)
        total += (pieces[i].bytes + mask) & ~mask;
    char *at = arena_alloc(&s->arena, total + 1, mask + 1);
    UNROLL
    for (size_t i = 0; i < n; i++) {
        *pieces[i].where = at;
        at += (pieces[i].bytes + mask) & ~mask;
    }
}

// solver_fail records a fatal error.
void solver_fail(struct alloc_solver *s, const char *fmt, ...) ERR_PRINTF(2, 3);

// claim_name adds namespace/name.
void claim_name(struct sbuf *out, const struct api_resource_claim *claim);

// device_name adds driver/pool/device.
void device_name(struct sbuf *out, const struct vw_device *d);

// select_match says whether a device is selectable for an alternative (MATCH_*); on MATCH_ERROR
// the reason can be had from select_error.
enum match_state select_match(struct alloc_solver *s, const struct alternative *a, uint32_t device);
void select_error(struct alloc_solver *s, const struct alternative *a, uint32_t device);

// select_selectors answers for class and selectors alone.
enum match_state select_selectors(struct alloc_solver *s, const struct alternative *a,
                                  uint32_t device);

// need_of computes what an alternative would take of a device (NEED_*).
enum need_state need_of(struct alloc_solver *s, const struct alternative *a, uint32_t device);

// need_amount is the amount of the cap-th capacity of the view; valid after NEED_OK.
static inline amount need_amount(const struct alloc_solver *s, const struct alternative *a,
                                 uint32_t cap)
{
    return a->capreq ? s->capreqs[a->capreq].need[cap] : s->view->caps[cap].default_need;
}

// need_error writes why, behind "claim …, request …: checking capacity for device …: ".
void need_error(struct alloc_solver *s, const struct alternative *a, uint32_t device,
                bool short_name);

// capacity_amount is what one capacity yields for a request (NULL: unspecific). Returns 0, or
// -ERR_INVALID with upstream's text. arena holds digits of large numbers.
int capacity_amount(const struct quantity *request, const struct api_device_capacity *capacity,
                    bool fractional, struct arena *arena, struct quantity *ret,
                    struct err *err) MUST_USE;

// capacity_violates says whether an amount breaks the capacity's policy.
bool capacity_violates(const struct quantity *value, const struct api_capacity_request_policy *p,
                       bool fractional);

// capacity_need computes all amounts of a device for a request.
enum need_state capacity_need(const struct api_device *device,
                              const struct api_capacity_requirements *request, bool fractional,
                              amount *ret_need, struct arena *arena, struct err *err);

// capacity_rounding fills in how a capacity's policy rounds.
void capacity_rounding(struct vw_cap *c, bool fractional);

// capacity_asked converts the amounts of a request once; ret has room for each.
void capacity_asked(const struct api_capacity_requirements *r, struct asked_amount *ret);

// capacity_taken sets *ret, a zero, to what a placed alternative takes of a capacity.
void capacity_taken(struct alloc_solver *s, const struct alternative *a, uint32_t cap,
                    struct quantity *ret);

// column_value is the value of an attribute of a device, looked up once.
const struct attr_value *column_value(struct alloc_solver *s, uint32_t column, uint32_t device);
void column_error(struct alloc_solver *s, uint32_t column, uint32_t device);

// taint_refusing is the first of a device's taints that keeps an alternative from having it, or NULL.
const struct api_device_taint *taint_refusing(const struct cl_device *d,
                                              const struct api_device_toleration_array *t);

// taints_tolerated says whether a device's taints let an alternative have it.
bool taints_tolerated(const struct cl_device *d, const struct api_device_toleration_array *t);

// search_run searches for a solution with the options' policy; search_from walks the search from a
// request on, in the state there is, until it ends or s->steps_most is reached (paused).
enum outcome search_run(struct alloc_solver *s);
enum outcome search_from(struct alloc_solver *s, uint32_t request);

// search_prepare makes the arrays of the search. False with s->error set when the claims ask for more
// devices than a search may hold.
bool search_prepare(struct alloc_solver *s);

// search_reset takes back everything that a search has placed.
void search_reset(struct alloc_solver *s);

// order_begin makes room for orders; false when there are too many devices for them. order_prepare
// sets the order of candidates of a request for the policy. order_sort puts the candidate at a
// position in place, with all before it.
bool order_begin(struct alloc_solver *s);
void order_prepare(struct alloc_solver *s, const struct alternative *a);
void order_sort(struct order *o, uint32_t at);

// order_device is the candidate at a position that is sorted; order_seat fills in the keys of a seat.
static inline uint32_t order_device(const struct alloc_solver *s, const struct order *o,
                                    uint32_t at)
{
    return s->view->seats[o->keys[o->n - 1 - at] & ORDER_POSITION].device;
}

void order_seat(const struct alloc_view *v, struct vw_seat *t, bool binding, uint16_t size);

// improve_solution looks for a solution that breaks into less than the one found, for a bounded time.
// improve_take and improve_give_back keep count of what picks cost; false: too much.
void improve_solution(struct alloc_solver *s);
bool improve_take(struct alloc_solver *s, uint32_t device);
void improve_give_back(struct alloc_solver *s, uint32_t device);

// rank_view fills in what policies want to know about the devices of a view. rank_size shortens an
// amount, keeping the order. rank_excluded weighs the partitions in fits that a device excludes.
// rank_device finds the attributes of a device that tell where it sits.
void rank_view(struct alloc_view *v);

// rank_again does so when other devices are in use; sets_changed: counter sets that this concerns.
void rank_again(struct alloc_view *v, const bool *sets_changed);
void rank_device(struct cl_device *d);
uint16_t rank_size(amount a);
uint32_t rank_excluded(const struct alloc_view *v, uint32_t device, uint64_t fits);

// rank_beside says whether two devices can be had together when counters have so much.
bool rank_beside(const struct alloc_view *v, const struct vw_device *a, const struct vw_device *b,
                 const amount *have);

// prune_prepare collects what pruning needs. prune_hopeless says that no solution can come of the
// present state: alternative a still wants left devices from position start on, then the requests
// behind it. prune_known looks the state up in the memory of failed ones (and says where to put it
// if it fails), prune_remember puts it there.
void prune_prepare(struct alloc_solver *s);
bool prune_hopeless(struct alloc_solver *s, const struct alternative *a, uint32_t left,
                    uint32_t start);
// prune_alike: what failed with one device fails with the other.
bool prune_alike(const struct alloc_solver *s, uint32_t a, uint32_t b);
bool prune_skips(const struct alloc_solver *s, const struct alternative *a, uint32_t device);
struct memo_key {
    uint64_t a, b;
};
bool prune_known(struct alloc_solver *s, const struct alternative *a, uint32_t left, uint32_t start,
                 struct memo_key *ret);
void prune_remember(struct alloc_solver *s, struct memo_key key);

// result_build makes the answer of the picks. False with s->error set.
bool result_build(struct alloc_solver *s, struct alloc_answer *ret);

#endif
