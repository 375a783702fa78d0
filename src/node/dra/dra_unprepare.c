// SPDX-License-Identifier: Apache-2.0
//
// Unpreparing, from the checkpoint: strike the pod off, and let drivers go of claims that nobody uses any
// more.
#include "node/dra/dra_int.h"
#include "os/fault.h"

#include "base/banned.h"

static void dra_unprepare_call_next(struct dra_op *op);

// Which claims the pod has, by the checkpoint; by the pod itself if the checkpoint has none.
static int dra_unprepare_collect_claims(struct dra_op *op)
{
    struct dra *d = op->dra;
    map_foreach(&d->claims.by_key, i) {
        const struct node_claim *c = *map_value(&d->claims.by_key, i);
        if (node_claim_pod_has(c, op->pod_uid))
            vec_push_arena(&op->arena, &op->claims,
                           ((struct dra_op_claim){.name = arena_str(&op->arena, c->key)}));
    }
    if (op->claims.n > 0 || !op->pod)
        return 0;
    // Nothing is owed to a driver then; but a pod whose claims cannot be named is told of.
    const struct api_pod *pod = op->pod->object.value;
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++) {
        struct str name;
        bool check;
        int rc = dra_pod_claim_name(pod, &pod->spec.resource_claims.p[i], &name, &check, &op->err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static struct node_claim *dra_unprepare_claim(const struct dra_op *op, size_t i)
{
    struct node_claim *const *found = map_get(&op->dra->claims.by_key, op->claims.p[i].name);
    return found ? *found : NULL;
}

void dra_unprepare_run(struct dra_op *op)
{
    struct dra *d = op->dra;
    int rc = dra_unprepare_collect_claims(op);
    if (rc < 0) {
        dra_op_end(op, rc);
        return;
    }
    for (size_t i = 0; i < op->claims.n; i++) {
        struct node_claim *c = dra_unprepare_claim(op, i);
        if (!c)
            continue;
        if (c->pods.n > 1) {
            // Saved at the end; after a crash before that, this is done again.
            (void)node_claim_pod_remove(c, op->pod_uid);
            d->dirty = true;
            continue;
        }
        op->claims.p[i].calls = true;
        c->unpreparing = true;
        vec_foreach(&c->drivers, part)
            if (!node_claim_driver_skips(part, CLAIM_SKIP_UNPREPARE))
                dra_op_batch_for(op, part->name, c);
            else
                dra_meter_skip(&d->meter, part->name, false);
    }
    dra_unprepare_call_next(op);
}

static void dra_unprepare_finish(struct dra_op *op)
{
    struct dra *d = op->dra;
    for (size_t i = 0; i < op->claims.n; i++) {
        struct node_claim *c = op->claims.p[i].calls ? dra_unprepare_claim(op, i) : NULL;
        if (!c)
            continue;
        node_claim_free(node_claims_take(&d->claims, c));
        d->dirty = true;
    }
    int rc = dra_save(d, &op->err);
    if (rc < 0)
        (void)err_wrap(&op->err, "checkpoint ResourceClaim state");
    fault_point("tell that it is unprepared");
    dra_op_end(op, rc);
}

static int dra_unprepare_take_answer(struct dra_op *op, const struct dra_op_batch *b,
                                     struct str message)
{
    cleanup_arena struct arena a = {0};
    struct plugin_unprepare_response r = {0};
    size_t *answers = arena_array(&a, size_t, b->request.claims.n);
    int rc = plugin_decode(&plugin_unprepare_response_message, message, &r, &a, &op->err);
    if (rc < 0) {
        (void)err_wrap(&op->err, "NodeUnprepareResources");
        return rc;
    }
    rc = dra_op_answers(op, b, "NodeUnprepareResources", r.claims.p, r.claims.n,
                        sizeof(*r.claims.p), answers);
    for (size_t i = 0; rc >= 0 && i < b->request.claims.n; i++) {
        struct str why = answers[i] == SIZE_MAX ? STR("") : r.claims.p[answers[i]].claim.error;
        if (why.n > 0)
            rc = err_set(&op->err, ERR_INTERNAL,
                         "NodeUnprepareResources failed for ResourceClaim %.*s: %.*s",
                         STR_ARG(b->request.claims.p[i].name), STR_ARG(why));
    }
    if (rc > 0)
        rc =
            err_set(&op->err, ERR_INTERNAL, "NodeUnprepareResources skipped %d ResourceClaims", rc);
    return rc;
}

static void dra_unprepare_on_unprepared(void *arg, const struct grpc_result *r)
{
    struct dra_op *op = dra_op_resume(arg);
    if (!op)
        return;
    fault_point("take the driver's answer");
    dra_op_answered(op, r);
    struct dra_op_batch *b = &op->batches.p[op->next_batch];
    int rc;
    if (r->status != GRPC_OK) {
        rc = transport_error(r, &op->err);
        (void)err_wrap(&op->err, "NodeUnprepareResources");
        if (rc == -ERR_UNAVAILABLE || rc == -ERR_TIMEOUT)
            blocked_note(op->dra->blocked, b, &op->err);
    } else {
        rc = dra_unprepare_take_answer(op, b, r->response);
    }
    if (rc < 0) {
        dra_op_end(op, rc);
        return;
    }
    blocked_clear(op->dra->blocked, b->driver);
    op->next_batch++;
    dra_unprepare_call_next(op);
}

static void dra_unprepare_call_next(struct dra_op *op)
{
    if (op->next_batch == op->batches.n) {
        dra_unprepare_finish(op);
        return;
    }
    struct dra_op_batch *b = &op->batches.p[op->next_batch];
    struct plugin *plugin = plugins_pick(op->dra->plugins, b->driver, &op->err);
    if (plugin) {
        dra_op_call(op, b, plugin, STR("NodeUnprepareResources"), dra_unprepare_on_unprepared);
        return;
    }
    blocked_note(op->dra->blocked, b, &op->err);
    dra_op_end(op, -op->err.code);
}
