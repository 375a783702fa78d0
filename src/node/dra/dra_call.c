// SPDX-License-Identifier: Apache-2.0
//
// The calls of an operation to its drivers, one driver after the other: NodePrepareResources and
// NodeUnprepareResources, which differ in how an answer is read and what the end of all means.
#include "node/dra/dra_int.h"
#include "os/fault.h"

#include "base/banned.h"

void dra_call_add(struct dra_op *op, struct str driver, const struct node_claim *claim)
{
    struct dra_op_batch *b = NULL;
    vec_foreach(&op->batches, it)
        if (str_eq(it->driver, driver))
            b = it;
    if (!b) {
        vec_push_arena(&op->arena, &op->batches,
                       ((struct dra_op_batch){.driver = arena_str(&op->arena, driver)}));
        b = &op->batches.p[op->batches.n - 1];
    }
    vec_foreach(&b->request.claims, c)
        if (str_eq(c->uid, claim->uid))
            return; // the pod has two names for it
    const struct plugin_claim c = {
        .namespace = arena_str(&op->arena, claim->namespace),
        .uid = arena_str(&op->arena, claim->uid),
        .name = arena_str(&op->arena, claim->name),
    };
    vec_push_arena(&op->arena, &b->request.claims, c);
}

static size_t dra_call_claim_index(const struct dra_op_batch *b, struct str uid)
{
    for (size_t i = 0; i < b->request.claims.n; i++)
        if (str_eq(b->request.claims.p[i].uid, uid))
            return i;
    return SIZE_MAX;
}

// dra_call_match finds the answer to each claim of a batch: its number, or SIZE_MAX. An answer is a
// map: of two entries for a claim the last one counts. Returns how many have none, or -ERR_INTERNAL
// for a claim that was not in the request.
static int dra_call_match(struct dra_op *op, const struct dra_op_batch *b,
                          const struct dra_answers *answers, size_t *ret)
{
    int missing = 0;
    for (size_t i = 0; i < b->request.claims.n; i++)
        ret[i] = SIZE_MAX;
    for (size_t i = 0; i < answers->n; i++) {
        struct str uid;
        memcpy(&uid, (const char *)answers->entries + i * answers->size, sizeof(uid));
        size_t at = dra_call_claim_index(b, uid);
        if (at == SIZE_MAX)
            return err_set(&op->err, ERR_INTERNAL, "%s returned result for unknown claim UID %.*s",
                           op->kind->method, STR_ARG(uid));
        ret[at] = i;
    }
    for (size_t i = 0; i < b->request.claims.n; i++)
        missing += ret[i] == SIZE_MAX;
    return missing;
}

static int dra_call_take_answer(struct dra_op *op, const struct dra_op_batch *b, struct str message)
{
    cleanup_arena struct arena a = {0};
    struct dra_answers answers = {0};
    size_t *at = arena_array(&a, size_t, b->request.claims.n);
    if (op->kind->decode(message, &answers, &a, &op->err) < 0)
        return err_wrap(&op->err, "%s", op->kind->method);
    int r = dra_call_match(op, b, &answers, at);
    for (size_t i = 0; r >= 0 && i < b->request.claims.n; i++)
        if (at[i] != SIZE_MAX) {
            int taken = op->kind->take(op, b, &b->request.claims.p[i],
                                       (const char *)answers.entries + at[i] * answers.size);
            r = taken < 0 ? taken : r;
        }
    if (r > 0)
        r = err_set(&op->err, ERR_INTERNAL, "%s skipped %d ResourceClaims", op->kind->method, r);
    return r;
}

int dra_call_claim_failed(struct dra_op *op, const struct plugin_claim *claim, struct str why)
{
    return err_set(&op->err, ERR_INTERNAL, "%s failed for ResourceClaim %.*s: %.*s",
                   op->kind->method, STR_ARG(claim->name), STR_ARG(why));
}

static void dra_call_on_answer(void *arg, const struct grpc_result *result)
{
    struct dra_op *op = dra_op_resume(arg);
    if (!op)
        return;
    struct dra *d = op->dra;
    struct dra_op_batch *b = &op->batches.p[op->next_batch];
    int r;
    fault_point("take the driver's answer");
    dra_meter_call(&d->meter, b->driver, op->method, result->status,
                   exec_now_ns(d->options.exec) - op->called_ns);
    if (result->status != GRPC_OK) {
        (void)transport_error(result, &op->err);
        r = err_wrap(&op->err, "%s", op->kind->method);
        if (!op->kind->preparing && (r == -ERR_UNAVAILABLE || r == -ERR_TIMEOUT))
            blocked_note(d->blocked, b, &op->err);
    } else {
        r = dra_call_take_answer(op, b, result->response);
    }
    if (r < 0) {
        dra_op_end(op, r);
        return;
    }
    if (!op->kind->preparing)
        blocked_clear(d->blocked, b->driver);
    op->next_batch++;
    dra_call_drivers(op);
}

void dra_call_drivers(struct dra_op *op)
{
    struct dra *d = op->dra;
    if (op->next_batch == op->batches.n) {
        op->kind->finish(op);
        return;
    }
    struct dra_op_batch *b = &op->batches.p[op->next_batch];
    struct plugin *plugin = plugins_pick(d->plugins, b->driver, &op->err);
    if (!plugin) {
        if (!op->kind->preparing)
            blocked_note(d->blocked, b, &op->err);
        dra_op_end(op, -op->err.code);
        return;
    }
    cleanup_proto_writer struct proto_writer w = {0};
    plugin_encode(&plugin_claims_message, &b->request, &w);
    op->waiting = true;
    op->called_ns = exec_now_ns(d->options.exec);
    op->method = arena_strf(&op->arena, "%s%s", plugins_service(plugin), op->kind->method);
    fault_point("call the driver");
    plugins_call(plugin, str_z(op->kind->method), proto_written(&w),
                 d->options.times.call_ns ? d->options.times.call_ns : DRA_CALL_NS,
                 dra_call_on_answer, op);
}

void dra_call_end(struct dra_op *op)
{
    int r = dra_save(op->dra, &op->err);
    if (r < 0)
        (void)err_wrap(&op->err, "checkpoint ResourceClaim state");
    fault_point(op->kind->preparing ? "tell that it is prepared" : "tell that it is unprepared");
    dra_op_end(op, r);
}
