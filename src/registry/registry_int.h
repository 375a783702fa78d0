// SPDX-License-Identifier: Apache-2.0
//
// What the files of the registry share. A request is an op: it goes through its stages on the exec
// without interruption, is answered when everything it wrote is visible, and lives in the caller's
// arena until then. Functions that can refuse return 0 or, with op->status set, a negative code.
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
    KIND_ORPHANS = 1 << 3,          // dependents are orphaned unless the deletion says otherwise
    KIND_NO_COLLECTION = 1 << 4,    // propagation policies mean nothing
    KIND_GRACEFUL = 1 << 5,         // deletion takes its time (pods)
    KIND_NAMED_FIELD = 1 << 6,      // field selectors know "name", too
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

// What pods that name no priority class get. Found anew when a class changes.
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

struct registry {
    struct store *store;
    struct exec *exec;
    const struct features *features;
    registry_authorize_fn authorize; // may be NULL: everyone may do everything
    void *authorize_arg;
    registry_guard_fn guard; // may be NULL
    void *guard_arg;
    struct cel_memo cel;
    struct list
        waiting; // ops that wait for a write of another: they changed nothing, or were refused
    uint64_t accepted;  // revision of the newest write that was accepted
    size_t unsettled;   // writes that were accepted and are neither visible nor lost
    struct list sweeps; // namespaces to be emptied
    struct exec_timer sweep_timer;
    struct default_priority default_priority;
    struct sbuf scratch;  // JSON being made
    bool scratch_altered; // it does not read back as the typed object it was made from
    struct sbuf spliced;  // the same with another resourceVersion
    const struct api_kind *namespace_kind, *pod_kind, *priority_kind, *storage_kind, *budget_kind,
        *runtime_kind, *quota_kind, *limits_kind, *account_kind, *event_kind;
    struct exec_timer events_timer; // events.c
    struct event_mark event_marks[EVENT_MARKS];
    size_t event_marks_len;
    unsigned admission_off; // bits of the admitters that do not run
    // Kinds that users added.
    struct custom_kinds *customs; // the store's
    const struct api_kind *crd_kind;
    struct store_watch definitions;
    struct exec_timer definitions_timer;
    bool definitions_watched;
    bool definitions_all; // the next sweep deletes, not only looks
    void (*kinds_changed)(void *arg);
    void *kinds_changed_arg;
    struct policies *policies; // policies.c
    struct typed_cache *typed;
    struct empty_objects *empty; // fields.c
};

// --- Ops -----------------------------------------------------------------------------------------

enum verb { VERB_CREATE, VERB_UPDATE, VERB_PATCH, VERB_DELETE };

// A quota that an object is counted in, with its new count.
struct charge {
    const struct object *stored; // referenced
    struct api_object quota;
};

struct op {
    struct registry *reg;
    const struct registry_request *request;
    const struct api_kind *stored; // the kind in the version it is stored in
    const struct kind_rules *rules;
    struct arena *arena;
    registry_done_fn done;
    void *arg;
    enum verb verb;
    bool dry_run;
    struct api_time now;              // whole seconds
    struct api_authorizer authorizer; // asks for the op's user
    struct VEC(struct charge) charges;
    // Server-side apply: who manages what was worked out with the object.
    bool applied;
    struct api_managed_fields_entry_array applied_entries;
    // The answer.
    struct api_status *status;
    const struct object *object;   // referenced
    const struct object **objects; // on the heap, referenced; of a collection
    size_t objects_len;
    bool created, deleted;
    struct texts warnings;
    // Writes that are not visible yet.
    struct list_node waiting; // in the registry's list, for a write of another
    uint64_t waits_for;
    size_t pending;
    bool ready; // all stages are done
    bool full;  // the store takes no more: that rests on nothing that was accepted
    int code;   // of a write that was lost
};

// op_new starts an op.
struct op *op_new(struct registry *reg, const struct registry_request *request, enum verb verb,
                  struct arena *arena, registry_done_fn done, void *arg);

// op_finish answers, now or when everything written is visible. r is the result of the last stage.
// op is gone afterwards.
void op_finish(struct op *op, int r);

void op_warn(struct op *op, struct str text);

// op_answer_with makes o, of which it takes its own reference, the object of the answer.
void op_answer_with(struct op *op, const struct object *o);

// op_world says what preparation and validation must know.
struct api_rules op_world(const struct op *op, struct str namespace);

// op_head finds the newest accepted version of an object of the op's kind, NULL when there is none.
const struct object *op_head(const struct op *op, struct str name);

// op_wait lets the answer wait until o, the head of its key, is visible.
void op_wait(struct op *op, const struct object *o);

// create_generate_name adds random letters to a base, which is cut where that is too long.
struct str create_generate_name(struct op *op, struct str base);

// registry_found_object creates an object unless it is there, on nobody's behalf. fill (may be
// NULL) sets it; arg is for fill.
int registry_found_object(struct registry *reg, const struct store_key *key,
                          void (*fill)(void *value, const void *arg), const void *arg,
                          struct err *err);

// --- Writing (op.c) -------------------------------------------------------------------------------

// op_write_new stores a new object, given in the stored version; with dry run it only makes it.
int op_write_new(struct op *op, const struct api_object *object);

// op_write_change replaces old by object. The same bytes are no change: the old version stays.
int op_write_change(struct op *op, const struct api_object *object, const struct object *old);

// op_write_removal deletes old; watchers see its last state, and so does the answer if it is to.
int op_write_removal(struct op *op, const struct object *old, bool answer_with_it);

// op_write_nothing only makes the answer: object with the version of old.
int op_write_nothing(struct op *op, const struct api_object *object, const struct object *old);

// --- Objects (encode.c) --------------------------------------------------------------------------

// encode_read_stored makes the typed form in the stored version, with defaults.
int encode_read_stored(const struct object *o, const struct api_time *now, struct arena *arena,
                       struct api_object *ret, struct err *err) MUST_USE;

// op_decode is encode_read_stored for an op; what cannot be read refuses it.
int op_decode(struct op *op, const struct object *o, struct api_object *ret) MUST_USE;

// encode_json writes a typed object, with this resourceVersion, to the registry's scratch. revision
// 0: it has none (dry run). encode_new_object makes a stored object of it, encode_new_object_at one
// with another resourceVersion.
int encode_json(struct registry *reg, const struct api_object *object, uint64_t revision,
                struct arena *arena, struct err *err) MUST_USE;
struct object *encode_new_object(struct registry *reg, const struct api_object *object,
                                 uint64_t revision, struct arena *arena);
struct object *encode_new_object_at(struct registry *reg, const struct api_object *object,
                                    uint64_t revision, struct arena *arena);

// encode_object_at makes a copy of o with another revision; same bytes otherwise.
struct object *encode_object_at(struct registry *reg, const struct object *o, uint64_t revision);

// encode_to_stored brings an object from its version to the stored one; in place where both have
// the same structs.
int encode_to_stored(struct op *op, const struct api_object *in, struct api_object *ret) MUST_USE;

// --- Refusals (fail.c) ---------------------------------------------------------------------------

// op_subject is what an error is about: the request's resource and a name.
struct status_subject op_subject(const struct op *op, struct str name);

// Each sets op->status to what apimachinery's function of that name makes, and returns -code.
int fail_not_found(struct op *op, struct status_subject s);
int fail_exists(struct op *op, struct status_subject s, bool being_deleted);
int fail_generated(struct op *op, struct status_subject s);
int fail_conflict(struct op *op, struct status_subject s, const char *fmt, ...) ERR_PRINTF(3, 4);
int fail_forbidden(struct op *op, struct status_subject s, const char *fmt, ...) ERR_PRINTF(3, 4);
int fail_bad_request(struct op *op, const char *fmt, ...) ERR_PRINTF(2, 3);
int fail_invalid(struct op *op, struct status_subject s, const struct causes *causes);
int fail_too_many(struct op *op, struct str message, int32_t retry_after_seconds);
int fail_internal(struct op *op, const char *fmt, ...) ERR_PRINTF(2, 3);

// fail_unknown is an error that upstream does not translate: the bare text.
int fail_unknown(struct op *op, const char *fmt, ...) ERR_PRINTF(2, 3);

// fail_unsupported is for what is not built yet.
int fail_unsupported(struct op *op, const char *fmt, ...) ERR_PRINTF(2, 3);

// fail_cause adds a cause to the refusal that was made last.
void fail_cause(struct op *op, struct str reason, struct str message, struct str field);

// op_succeed makes a Status of success the answer.
void op_succeed(struct op *op, int32_t http);

// --- Stages --------------------------------------------------------------------------------------

// create_fit_namespace makes the namespace of the object that of the request, or refuses.
int create_fit_namespace(struct op *op, struct api_object_meta *meta);

// create_single_owners drops owner references that are there twice, with a warning.
void create_single_owners(struct op *op, struct api_object_meta *meta);

// admit_change lets every admitter look at, and change, an object in the stored version. old is
// NULL on create.
int admit_change(struct op *op, const struct api_object *object, const struct api_object *old);

// admit_switch_off reads the names of plugins that are not to run. Returns 0 or -ERR_INVALID.
int admit_switch_off(struct str list, unsigned *ret, struct err *err) MUST_USE;

// accounts_admit is the admitter of accounts.c.
int accounts_admit(struct op *op, const struct api_object *object, const struct api_object *old);

// admit_content asks whether a namespace takes new content. name is that of the content.
int admit_content(struct op *op, struct str namespace, struct str name);

// admit_deletion asks whether an object may be deleted. old (may be NULL) is what it is.
int admit_deletion(struct op *op, struct str name, const struct api_object *old);

// admit_part asks whether something may be created in an object: a binding, an eviction.
int admit_part(struct op *op, const struct api_object *part, const struct object *whole);

// certificates_check_texts reads what a request for a certificate has in PEM.
void certificates_check_texts(struct op *op, const struct api_object *object,
                              const struct api_object *old, struct causes *causes);

// certificates_admit writes down who asks for a certificate; certificates_decide is an update of a
// request's approval (certificates.c).
int certificates_admit(struct op *op, const struct api_object *object,
                       const struct api_object *old);
int certificates_decide(struct op *op, const struct api_object *object,
                        const struct api_object *old);

// admit_about is the subject of an error about an object that may have no name yet;
// runtime_admit_class is the admitter of pods that name a RuntimeClass.
struct status_subject admit_about(const struct op *op, const struct api_object *object);
int runtime_admit_class(struct op *op, const struct api_object *object,
                        const struct api_object *old);

// limits_admit gives containers what LimitRanges say they get; limits_check refuses what asks for
// too much or too little. old is NULL for a creation.
int limits_admit(struct op *op, const struct api_object *object, const struct api_object *old);
int limits_check(struct op *op, const struct api_object *object, const struct api_object *old);

// quota_check refuses what a ResourceQuota does not allow; else quota_charge counts it in, with the
// write that follows, or quota_forget does not.
int quota_check(struct op *op, const struct api_object *object, const struct api_object *old);
int quota_charge(struct op *op);
void quota_forget(struct op *op);

// create_annotate sets an annotation.
void create_annotate(struct op *op, struct api_object_meta *meta, struct str key, struct str value);

// create_object does all of a creation behind decoding. object is in the stored version.
int create_object(struct op *op, const struct api_object *object);

// update_object does all of an update of old behind decoding.
int update_object(struct op *op, const struct api_object *object, const struct object *old);

// update_body is an update behind decoding, as it comes. old is NULL when there is none.
int update_body(struct op *op, const struct api_object *body, const struct object *old);

// fields_manage notes in object, which is in the stored version and not admitted yet, who manages
// which of its fields after this write. before and old are NULL for a creation.
void fields_manage(struct op *op, const struct api_object *object, const struct api_object *before,
                   const struct object *old);

// fields_done frees what fields.c keeps in a registry.
void fields_done(struct registry *reg);

// fields_settle gives the managers' times back where nothing else has changed: a write that changes
// nothing is none.
void fields_settle(const struct api_object *object, const struct api_object *before);

// fields_apply lays a configuration over old, or makes an object of it. *ret is in the request's
// version; it is created or updated like any other body.
int fields_apply(struct op *op, struct str patch, const struct object *old, struct api_object *ret);

// create_body is a creation behind decoding, as it comes.
int create_body(struct op *op, const struct api_object *body);

// update_check_subresource refuses what cannot be updated.
int update_check_subresource(struct op *op);

// create_finish_object warns of what is allowed but not good, and sets what the server sets last.
void create_finish_object(struct op *op, const struct api_object *object);

// update_check_name refuses an object that has no name, or another than the request's path.
int update_check_name(struct op *op, const struct api_object_meta *meta);

// update_check_versions refuses an update of another version than old's; fills in the version if it
// may.
int update_check_versions(struct op *op, struct api_object_meta *meta, const struct object *old);

// update_fail_other_uid refuses to change an object with another UID than the request means.
int update_fail_other_uid(struct op *op, const struct api_object_meta *meta, struct str uid);

// create_check_valid prepares and validates an object.
int create_check_valid(struct op *op, enum api_op what, const struct api_object *object,
                       const struct api_object *old);

// create_check_prepared is the second half of create_check_valid: the rules alone.
int create_check_prepared(struct op *op, enum api_op what, const struct api_object *object,
                          const struct api_object *old) MUST_USE;

// registry_delete_object deletes or marks old, the head of its key.
int registry_delete_object(struct op *op, const struct object *old,
                           const struct api_delete_options *options);

// delete_decoded is the same behind all checks. object is the typed form of old and is changed.
int delete_decoded(struct op *op, const struct object *old, const struct api_object *object,
                   const struct api_delete_options *options);

// Subresources. The pod_keep functions undo every change but those they are for.
int pods_bind(struct op *op, const struct api_object *body);
int registry_evict_pod(struct op *op, const struct api_object *body);
void pods_keep_but_resources(struct op *op, struct api_pod *pod, const struct api_pod *old);
void pods_keep_but_debuggers(struct op *op, struct api_pod *pod, const struct api_pod *old);
int scale_object(struct op *op, const struct api_scale *scale, const struct object *old);

// pod_change_denied: why a deletion or eviction of a pod must not be, by preconditions.
int delete_check_preconditions(struct op *op, const struct object *old,
                               const struct api_preconditions *preconditions);

// namespace_delete marks a namespace, or deletes it when nothing holds it any more.
int namespace_delete(struct op *op, const struct object *old, const struct api_object *decoded,
                     const struct api_delete_options *options);

// Definitions of kinds. definitions_start makes the kinds of those that are there and follows them
// from then on.
int definitions_start(struct registry *reg, struct err *err) MUST_USE;
void definitions_stop(struct registry *reg);
void definitions_sweep(void *arg);

// definitions_settle says in the status of a definition that is about to be written which names it
// has.
void definitions_settle(struct op *op, const struct api_object *object);

// definitions_delete marks one; its objects go first.
int definitions_delete(struct op *op, const struct object *old, const struct api_object *decoded,
                       const struct api_delete_options *options);

// definitions_due has a definition looked at whose last object may be gone.
void definitions_due(struct registry *reg, const struct api_kind *hub);

// Admission policies. policies_admit asks them about a write (old is NULL for a creation) or a
// deletion (object is NULL).
int policies_start(struct registry *reg, struct err *err) MUST_USE;
void policies_stop(struct registry *reg);
int policies_admit(struct op *op, const struct api_object *object, const struct api_object *old);

// Events do not stay for ever. events_due: there may be some.
void events_due(struct registry *reg);
void events_look(void *arg);
void events_stop(struct registry *reg);

// namespace_due has a namespace looked at soon: all of it when it was just marked, else only
// whether it is empty by now.
void namespace_due(struct registry *reg, struct str name, bool all);
bool namespace_terminating(const struct object *ns);
void namespace_sweep_deleted(void *arg);
void namespace_sweep_done(struct registry *reg);

#endif
