// SPDX-License-Identifier: Apache-2.0
//
// A request is an op: it goes through its stages on the exec without interruption, is answered when
// everything it wrote is visible, and lives in the caller's arena until then. Functions that can
// refuse return 0 or, with op->status set, a negative code.
#ifndef REGISTRY_OP_INT_H
#define REGISTRY_OP_INT_H

#include "registry/registry_int.h"

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
    struct {
        bool done;
        bool apart; // on another thread: the registry's caches are out of reach
        struct api_managed_fields_entry_array entries;
    } applied;
    // The answer.
    struct api_status *status;
    const struct object *object; // referenced
    struct {
        const struct object **p; // on the heap, referenced
        size_t n;
    } collection;
    bool created, deleted;
    struct {
        struct texts warnings;
        struct VEC(struct registry_note) notes; // of audited requests
    } said;
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

// op_note adds an annotation for the audit event, if there will be one; value lives as long as op.
void op_note(struct op *op, struct str key, struct str value);

// op_note_listed makes the annotation a JSON list with one more item.
void op_note_listed(struct op *op, struct str key, struct str item);

// op_hold lets the answer wait until op_release, which may free op.
void op_hold(struct op *op);
void op_release(struct op *op);

// op_answer_with makes o, of which it takes its own reference, the object of the answer.
void op_answer_with(struct op *op, const struct object *o);

// op_world is what preparation and validation must know.
struct api_rules op_world(const struct op *op, struct str namespace);

// op_head finds the newest accepted version of an object of the op's kind, NULL when there is none.
const struct object *op_head(const struct op *op, struct str name);

// op_wait lets the answer wait until o, the head of its key, is visible.
void op_wait(struct op *op, const struct object *o);

// create_generate_name adds random letters to a base, which is cut where that is too long.
struct str create_generate_name(struct op *op, struct str base);

// registry_found_object creates an object unless it exists, for no user. fill (may be
// NULL) sets it; arg is for fill.
int registry_found_object(struct registry *reg, const struct store_key *key,
                          void (*fill)(void *value, const void *arg), const void *arg,
                          struct err *err);

// --- Writing (op.c) ------------------------------------------------------------------------------

// op_write_new stores a new object, given in the stored version; with dry run it only makes it.
int op_write_new(struct op *op, const struct api_object *object);

// op_check_new_room refuses a new object that the store has no room for, before quotas are charged.
int op_check_new_room(struct op *op, const struct api_object *object);

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

#endif
