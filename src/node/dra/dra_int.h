// SPDX-License-Identifier: Apache-2.0
//
// What the files of the manager share.
#ifndef NODE_DRA_DRA_INT_H
#define NODE_DRA_DRA_INT_H

#include "base/list.h"
#include "base/log.h"
#include "node/dra.h"
#include "node/dra/dra_meter.h"
#include "node/dra/health.h"
#include "node/dra/registrar.h"
#include "node/dra/wipe.h"

#define DRA_CALL_NS      (45 * CLOCK_NS_PER_SEC)
#define DRA_RECONCILE_NS (60 * CLOCK_NS_PER_SEC)

// Of the devices in a driver's answer for one claim. A claim has 32 devices at most.
#define DRA_ANSWER_BYTES_MAX ((size_t)1024 * 1024)

extern struct log_module dra_log;

struct blocked; // blocked.c

struct dra {
    struct dra_options options;
    char *node, *boot_id;
    struct node_claims claims;
    struct health *health;
    struct plugins *plugins;
    struct registrar *registrar;
    struct wipe *wipe;
    struct blocked *blocked;
    struct dra_meter meter;
    struct list ops;
    struct exec_timer reconcile;
    struct exec_timer heal_soon;
    bool dirty;      // memory is ahead of the disk
    bool rebuilding; // claims of active pods may be missing
    size_t healing;  // operations of a round of healing that are not over
    bool heal_failed;
    bool closing;
};

// --- Operations ----------------------------------------------------------------------------------

struct dra_op_claim {
    struct str name;
    bool check_owner;
    const struct typed_object *object; // from the API; referenced
    struct node_claim *fresh;          // made from it; owned until it is added
    bool calls;                        // its drivers are to be called
};

// One call: a driver and the claims it is asked about.
struct dra_op_batch {
    struct str driver;
    struct plugin_claims request;
};

// The entries of a driver's answer, of size bytes each, with the claim's UID as first member.
struct dra_answers {
    const void *entries;
    size_t n, size;
};

struct dra_op;

// How the two kinds of operations differ.
struct dra_op_kind {
    bool preparing;
    const char *method;
    void (*run)(struct dra_op *op); // begins it and ends with dra_call_drivers
    int (*decode)(struct str message, struct dra_answers *ret, struct arena *a, struct err *err);
    int (*take)(struct dra_op *op, const struct dra_op_batch *b, const struct plugin_claim *asked,
                const void *entry);    // one claim's answer
    void (*finish)(struct dra_op *op); // all drivers have answered; ends with dra_call_end
};
extern const struct dra_op_kind dra_prepare_kind, dra_unprepare_kind;

struct dra_op {
    struct list_node node;
    struct dra *dra; // NULL: ended, only its last answer is waited for
    const struct dra_op_kind *kind;
    struct arena arena;
    struct str pod_uid, namespace;
    const struct typed_object *pod; // referenced; may be NULL
    struct VEC(struct dra_op_claim) claims;
    struct VEC(struct dra_op_batch) batches;
    size_t next_claim, next_batch;
    bool waiting; // for an answer, or for its turn
    bool started;
    bool internal;               // no event for its failure
    int64_t since_ns, called_ns; // when it began; its last call
    struct str method;           // of that call, in full
    dra_done_fn done;
    void *arg;
    struct err err;
};

// dra_op_end ends it; err of the operation has the reason if code is not 0. The operation is freed.
void dra_op_end(struct dra_op *op, int code);
// dra_op_resume is called first in every answer that an operation waited for. NULL: it has ended
// meanwhile.
struct dra_op *dra_op_resume(struct dra_op *op);

// dra_call_add adds a claim to the call of a driver.
void dra_call_add(struct dra_op *op, struct str driver, const struct node_claim *claim);
// dra_call_drivers calls the drivers one after the other, then the kind's finish.
void dra_call_drivers(struct dra_op *op);
// dra_call_claim_failed is the failure of one claim of a call.
int dra_call_claim_failed(struct dra_op *op, const struct plugin_claim *claim, struct str why);
// dra_call_end saves the checkpoint and ends the operation.
void dra_call_end(struct dra_op *op);

// dra_save writes the checkpoint if memory is ahead of it.
int dra_save(struct dra *d, struct err *err) MUST_USE;
// dra_load reads it, by the rules of docs/design/agent.md.
int dra_load(struct dra *d, struct err *err) MUST_USE;

// dra_pod_claim_name finds the claim of an entry of a pod. Returns 1 with the name, 0 when there is
// none to care for, or -ERR_INVALID with kubelet's text.
int dra_pod_claim_name(const struct api_pod *pod, const struct api_pod_resource_claim *entry,
                       struct str *ret, bool *ret_check, struct err *err) MUST_USE;

// --- Drivers that are gone -----------------------------------------------------------------------

struct blocked *blocked_new(struct dra *d);
void blocked_free(struct blocked *b);
// blocked_note: an unprepare failed since its driver is not there. blocked_clear: it answered.
void blocked_note(struct blocked *b, const struct dra_op_batch *batch, const struct err *err);
void blocked_clear(struct blocked *b, struct str driver);
// blocked_check writes what could not be written, and looks for drivers to abandon.
void blocked_check(struct blocked *b);

#endif
