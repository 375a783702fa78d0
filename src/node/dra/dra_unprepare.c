// SPDX-License-Identifier: Apache-2.0
//
// Unpreparing claims, from the checkpoint: remove the pod, and call the drivers of claims that no
// pod uses any more.
#include "node/dra/dra_int.h"

#include "base/banned.h"

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
    // Nothing is owed to a driver then; but a pod whose claims cannot be named is a failure.
    const struct api_pod *pod = op->pod->object.value;
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++) {
        struct str name;
        bool check;
        int r = dra_pod_claim_name(pod, &pod->spec.resource_claims.p[i], &name, &check, &op->err);
        if (r < 0)
            return r;
    }
    return 0;
}

static struct node_claim *dra_unprepare_claim(const struct dra_op *op, size_t i)
{
    struct node_claim *const *found = map_get(&op->dra->claims.by_key, op->claims.p[i].name);
    return found ? *found : NULL;
}

static void dra_unprepare_run(struct dra_op *op)
{
    struct dra *d = op->dra;
    int r = dra_unprepare_collect_claims(op);
    if (r < 0) {
        dra_op_end(op, r);
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
                dra_call_add(op, part->name, c);
            else
                dra_meter_skip(&d->meter, part->name, false);
    }
    dra_call_drivers(op);
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
    dra_call_end(op);
}

static int dra_unprepare_take_claim(struct dra_op *op, const struct dra_op_batch *b,
                                    const struct plugin_claim *asked, const void *entry)
{
    const struct plugin_unprepared *r = entry;
    (void)b;
    return r->claim.error.n > 0 ? dra_call_claim_failed(op, asked, r->claim.error) : 0;
}

static int dra_unprepare_decode(struct str message, struct dra_answers *ret, struct arena *a,
                                struct err *err)
{
    struct plugin_unprepare_response r = {0};
    if (plugin_decode(&plugin_unprepare_response_message, message, &r, a, err) < 0)
        return -err->code;
    *ret = (struct dra_answers){r.claims.p, r.claims.n, sizeof(*r.claims.p)};
    return 0;
}

const struct dra_op_kind dra_unprepare_kind = {.method = "NodeUnprepareResources",
                                               .run = dra_unprepare_run,
                                               .decode = dra_unprepare_decode,
                                               .take = dra_unprepare_take_claim,
                                               .finish = dra_unprepare_finish};
