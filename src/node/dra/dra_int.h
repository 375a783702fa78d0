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

struct dra_op {
    struct list_node node;
    struct dra *dra; // NULL: ended, only its last answer is waited for
    void (*run)(struct dra_op *op);
    struct arena arena;
    struct str pod_uid, namespace;
    const struct typed_object *pod; // referenced; may be NULL
    struct VEC(struct dra_op_claim) claims;
    struct VEC(struct dra_op_batch) batches;
    size_t next_claim, next_batch;
    bool preparing;
    bool waiting; // for an answer, or for its turn
    bool started;
    bool internal;               // no event for its failure
    int64_t since_ns, called_ns; // when it began; its last call
    struct str method;           // of that call, in full
    dra_done_fn done;
    void *arg;
    struct err err;
};

// dra_op_new makes an operation that runs when earlier ones of the pod are over.
struct dra_op *dra_op_new(struct dra *d, struct str pod_uid, void (*run)(struct dra_op *op),
                          dra_done_fn done, void *arg);
// dra_op_end ends it; err of the operation tells why if code is not 0. The operation is gone then.
void dra_op_end(struct dra_op *op, int code);
// dra_op_resume is called first in every answer that an operation waited for. NULL: it has ended meanwhile.
struct dra_op *dra_op_resume(struct dra_op *op);
// dra_op_call asks the driver of a batch; done is called with the operation.
void dra_op_call(struct dra_op *op, struct dra_op_batch *batch, struct plugin *plugin,
                 struct str method, void (*done)(void *arg, const struct grpc_result *r));
// dra_op_answered counts the answer to its last call.
void dra_op_answered(struct dra_op *op, const struct grpc_result *r);
// dra_op_batch_for finds or adds the batch of a driver and adds a claim to it.
void dra_op_batch_for(struct dra_op *op, struct str driver, const struct node_claim *claim);
// dra_op_answers finds the answer to each claim of a batch among n entries of size bytes whose first member
// is the UID: its number, or SIZE_MAX. An answer is a map: of two entries for a claim the last one
// counts. Returns how many have none, or -ERR_INTERNAL when a claim was not asked for.
int dra_op_answers(struct dra_op *op, const struct dra_op_batch *b, const char *method,
                   const void *entries, size_t n, size_t size, size_t *ret) MUST_USE;

void dra_prepare_run(struct dra_op *op);
void dra_unprepare_run(struct dra_op *op);

// dra_save writes the checkpoint if memory is ahead of it.
int dra_save(struct dra *d, struct err *err) MUST_USE;
// dra_load reads it, by the rules of docs/agent.md.
int dra_load(struct dra *d, struct err *err) MUST_USE;

// heal_soon looks on a later turn whether claims that are not believed can be prepared again.
void dra_heal_soon(struct dra *d);

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
