// SPDX-License-Identifier: Apache-2.0
//
// Preparing claims: check everything, save what is about to be owed, call the drivers, save their
// answers. A crash at any point leaves a checkpoint that is safe to continue from.
#include "api/match/claim.h"
#include "node/dra/dra_int.h"
#include "os/fault.h"

#include "base/banned.h"

static const struct api_resource_claim *dra_prepare_api_claim(const struct typed_object *o)
{
    return o->object.value;
}

static const struct api_pod *dra_prepare_pod_spec(const struct dra_op *op)
{
    return op->pod->object.value;
}

static bool dra_prepare_is_enabled(const struct dra_op *op, enum feature which)
{
    return features_on(op->dra->options.features, which);
}

int dra_pod_claim_name(const struct api_pod *pod, const struct api_pod_resource_claim *entry,
                       struct str *ret, bool *ret_check, struct err *err)
{
    const struct api_object_meta *meta = &pod->metadata;
    switch (claim_name_of(pod, entry, ret, ret_check)) {
    case CLAIM_NAMED:
        return 1;
    case CLAIM_NOT_NEEDED:
        return 0;
    case CLAIM_NOT_CREATED:
        return err_set(err, ERR_INVALID, "pod \"%.*s/%.*s\": ResourceClaim not created yet",
                       STR_ARG(meta->namespace), STR_ARG(meta->name));
    case CLAIM_UNSUPPORTED:
        break;
    }
    return err_set(err, ERR_INVALID,
                   "pod \"%.*s/%.*s\", spec.resourceClaim \"%.*s\": none of the supported fields "
                   "are set",
                   STR_ARG(meta->namespace), STR_ARG(meta->name), STR_ARG(entry->name));
}

// --- Checks, without side effects ----------------------------------------------------------------

static void dra_prepare_check_next(struct dra_op *op);
static void dra_prepare_commit(struct dra_op *op);

static int dra_prepare_check_owner(struct dra_op *op, const struct api_resource_claim *claim)
{
    const struct api_pod *pod = dra_prepare_pod_spec(op);
    bool groups = dra_prepare_is_enabled(op, FEATURE_DRA_WORKLOAD_RESOURCE_CLAIMS);
    const struct api_pod_scheduling_group *group = pod->spec.scheduling_group;
    if (claim_is_for(claim, pod, groups))
        return 0;
    cleanup_sbuf struct sbuf who = {0};
    if (groups && group && group->has_pod_group_name)
        sbuf_addf(&who, "neither Pod nor PodGroup %.*s is the owner",
                  STR_ARG(group->pod_group_name));
    else
        sbuf_addz(&who, "Pod is not owner");
    return err_set(&op->err, ERR_FORBIDDEN,
                   "ResourceClaim %.*s/%.*s was not created for Pod %.*s/%.*s (%s)",
                   STR_ARG(claim->metadata.namespace), STR_ARG(claim->metadata.name),
                   STR_ARG(pod->metadata.namespace), STR_ARG(pod->metadata.name), who.p);
}

static int dra_prepare_check_pod(struct dra_op *op, const struct dra_op_claim *c)
{
    const struct api_resource_claim *claim = dra_prepare_api_claim(c->object);
    const struct api_pod *pod = dra_prepare_pod_spec(op);
    int r = c->check_owner ? dra_prepare_check_owner(op, claim) : 0;
    if (r == 0 && !claim_is_reserved_for_pod(
                      claim, pod, dra_prepare_is_enabled(op, FEATURE_DRA_WORKLOAD_RESOURCE_CLAIMS)))
        r = err_set(&op->err, ERR_FORBIDDEN,
                    "pod %.*s (%.*s) is not allowed to use ResourceClaim %.*s (%.*s)",
                    STR_ARG(pod->metadata.name), STR_ARG(pod->metadata.uid), STR_ARG(c->name),
                    STR_ARG(claim->metadata.uid));
    return r;
}

// Drivers must be there, even for a claim that is prepared already: something is wrong otherwise.
static int dra_prepare_check_drivers(struct dra_op *op, const struct node_claim *claim)
{
    vec_foreach(&claim->drivers, part)
        if (!node_claim_driver_skips(part, CLAIM_SKIP_PREPARE) &&
            !plugins_pick(op->dra->plugins, part->name, &op->err))
            return -op->err.code;
    return 0;
}

static int dra_prepare_check_claim(struct dra_op *op, struct dra_op_claim *c)
{
    int r = op->pod ? dra_prepare_check_pod(op, c) : 0;
    if (r < 0)
        return r;
    struct err why = {0};
    r = node_claim_from_api(dra_prepare_api_claim(c->object),
                            dra_prepare_is_enabled(op, FEATURE_DRA_OPTIONAL_NODE_OPERATIONS),
                            &c->fresh, &why);
    if (r < 0)
        return err_set(&op->err, why.code, "ResourceClaim %.*s: %s", STR_ARG(c->name), why.msg);
    return dra_prepare_check_drivers(op, c->fresh);
}

static void dra_prepare_on_claim(void *arg, const struct client_answer *a)
{
    struct dra_op *op = dra_op_resume(arg);
    if (!op)
        return;
    struct dra_op_claim *c = &op->claims.p[op->next_claim];
    if (a->code < 0) {
        dra_op_end(op, err_set(&op->err, -a->code, "fetch ResourceClaim %.*s: %s", STR_ARG(c->name),
                               a->err ? a->err->msg : "no answer"));
        return;
    }
    c->object = typed_object_ref(a->object);
    dra_prepare_check_next(op);
}

static void dra_prepare_fetch_claim(struct dra_op *op, struct dra_op_claim *c)
{
    struct client *client = op->dra->options.client;
    if (!client) {
        dra_op_end(op, err_set(&op->err, ERR_UNAVAILABLE, "fetch ResourceClaim %.*s: no API server",
                               STR_ARG(c->name)));
        return;
    }
    const struct client_key key = {
        .kind = api_kind_find(STR("resource.k8s.io/v1"), STR("ResourceClaim")),
        .namespace = op->namespace,
        .name = c->name,
    };
    op->waiting = true;
    client_get(client, &key, dra_prepare_on_claim, op);
}

static void dra_prepare_check_next(struct dra_op *op)
{
    for (; op->next_claim < op->claims.n; op->next_claim++) {
        struct dra_op_claim *c = &op->claims.p[op->next_claim];
        if (!c->object) {
            dra_prepare_fetch_claim(op, c);
            return;
        }
        int r = dra_prepare_check_claim(op, c);
        if (r < 0) {
            dra_op_end(op, r);
            return;
        }
    }
    dra_prepare_commit(op);
}

// The claims of the pod by name.
static int dra_prepare_collect_claims(struct dra_op *op)
{
    const struct api_pod *pod = dra_prepare_pod_spec(op);
    const struct api_pod_resource_claim_array *entries = &pod->spec.resource_claims;
    for (size_t i = 0; i < entries->n; i++) {
        struct dra_op_claim c = {0};
        int r = dra_pod_claim_name(pod, &entries->p[i], &c.name, &c.check_owner, &op->err);
        if (r < 0)
            return r;
        if (r > 0)
            vec_push_arena(&op->arena, &op->claims, c);
    }
    const struct api_pod_extended_resource_claim_status *extended =
        pod->status.extended_resource_claim_status;
    if (extended && dra_prepare_is_enabled(op, FEATURE_DRA_EXTENDED_RESOURCE))
        vec_push_arena(&op->arena, &op->claims,
                       ((struct dra_op_claim){.name = extended->resource_claim_name}));
    return 0;
}

static void dra_prepare_run(struct dra_op *op)
{
    int r = op->pod ? dra_prepare_collect_claims(op) : 0;
    if (r < 0)
        dra_op_end(op, r);
    else
        dra_prepare_check_next(op);
}

// --- Checkpoint ----------------------------------------------------------------------------------

static struct node_claim *dra_prepare_known_claim(const struct dra_op *op,
                                                  const struct dra_op_claim *c)
{
    const struct api_object_meta *meta = c->object->meta;
    return node_claims_find(&op->dra->claims, meta->namespace, meta->name);
}

static int dra_prepare_check_known(struct dra_op *op, const struct dra_op_claim *c)
{
    const struct node_claim *before = dra_prepare_known_claim(op, c);
    if (before && !str_eq(before->uid, c->object->meta->uid))
        return err_set(&op->err, ERR_CONFLICT,
                       "old ResourceClaim with same name %.*s and different UID %.*s still exists "
                       "(previous pod force-deleted?!)",
                       STR_ARG(before->name), STR_ARG(before->uid));
    if (before && before->unpreparing)
        return err_set(&op->err, ERR_CONFLICT, "ResourceClaim %.*s is being unprepared",
                       STR_ARG(before->name));
    return 0;
}

// What was done to the claims, to be taken back if it cannot be saved.
struct addition {
    struct node_claim *claim;
    bool claim_is_new, pod_is_new;
};
struct additions VEC(struct addition);

static void dra_prepare_add_claims(struct dra_op *op, struct additions *done)
{
    struct dra *d = op->dra;
    for (size_t i = 0; i < op->claims.n; i++) {
        struct dra_op_claim *c = &op->claims.p[i];
        struct addition a = {.claim = dra_prepare_known_claim(op, c)};
        if (!a.claim) {
            a.claim = take_ptr(c->fresh);
            a.claim_is_new = true;
            node_claims_add(&d->claims, a.claim);
        }
        a.pod_is_new = node_claim_pod_add(a.claim, op->pod_uid);
        d->dirty = d->dirty || a.claim_is_new || a.pod_is_new;
        vec_push_arena(&op->arena, done, a);
    }
}

static void dra_prepare_undo(struct dra_op *op, const struct additions *done)
{
    for (size_t i = done->n; i-- > 0;) {
        const struct addition *a = &done->p[i];
        if (a->pod_is_new)
            (void)node_claim_pod_remove(a->claim, op->pod_uid);
        if (a->claim_is_new)
            node_claim_free(node_claims_take(&op->dra->claims, a->claim));
    }
}

static void dra_prepare_make_batches(struct dra_op *op)
{
    for (size_t i = 0; i < op->claims.n; i++) {
        struct dra_op_claim *c = &op->claims.p[i];
        const struct node_claim *claim = dra_prepare_known_claim(op, c);
        if (claim->prepared)
            continue;
        c->calls = true;
        vec_foreach(&claim->drivers, part)
            if (!node_claim_driver_skips(part, CLAIM_SKIP_PREPARE))
                dra_call_add(op, part->name, claim);
            else
                dra_meter_skip(&op->dra->meter, part->name, true);
    }
}

static void dra_prepare_commit(struct dra_op *op)
{
    struct additions done = {0};
    for (size_t i = 0; i < op->claims.n; i++) {
        int r = dra_prepare_check_known(op, &op->claims.p[i]);
        if (r < 0) {
            dra_op_end(op, r);
            return;
        }
    }
    dra_prepare_add_claims(op, &done);
    int r = dra_save(op->dra, &op->err);
    if (r < 0) {
        dra_prepare_undo(op, &done);
        op->dra->dirty = true; // the file may have been replaced nevertheless
        (void)err_wrap(&op->err, "checkpoint ResourceClaim cache");
        dra_op_end(op, r);
        return;
    }
    dra_prepare_make_batches(op);
    dra_call_drivers(op);
}

// --- Answers of the drivers ----------------------------------------------------------------------

static void dra_prepare_finish(struct dra_op *op)
{
    struct dra *d = op->dra;
    for (size_t i = 0; i < op->claims.n; i++) {
        struct node_claim *claim =
            op->claims.p[i].calls ? dra_prepare_known_claim(op, &op->claims.p[i]) : NULL;
        if (!claim)
            continue;
        claim->prepared = true;
        claim->stale = false;
        d->dirty = true;
    }
    dra_call_end(op);
}

static size_t dra_prepare_texts_bytes(const struct plugin_strs *texts)
{
    size_t n = 0;
    vec_foreach(texts, text)
        n += text->n + sizeof(*text);
    return n;
}

// What is kept of an answer, in memory and in the state file, for as long as the claim is here.
static bool dra_prepare_answer_fits(const struct plugin_prepared *r)
{
    size_t n = 0;
    vec_foreach(&r->claim.devices, d)
        n += sizeof(*d) + d->pool_name.n + d->device_name.n + d->share_id.n +
             dra_prepare_texts_bytes(&d->request_names) +
             dra_prepare_texts_bytes(&d->cdi_device_ids);
    return n <= DRA_ANSWER_BYTES_MAX;
}

static int dra_prepare_take_claim(struct dra_op *op, const struct dra_op_batch *b,
                                  const struct plugin_claim *asked, const void *entry)
{
    const struct plugin_prepared *r = entry;
    if (r->claim.error.n > 0)
        return dra_call_claim_failed(op, asked, r->claim.error);
    if (!dra_prepare_answer_fits(r))
        return err_set(&op->err, ERR_TOO_LARGE,
                       "NodePrepareResources: the answer for ResourceClaim %.*s has more than %zu "
                       "bytes of devices",
                       STR_ARG(asked->name), DRA_ANSWER_BYTES_MAX);
    struct node_claim *claim = node_claims_find(&op->dra->claims, asked->namespace, asked->name);
    struct node_claim_driver *part = claim ? node_claim_driver_find(claim, b->driver) : NULL;
    if (!part)
        return err_set(&op->err, ERR_INTERNAL,
                       "internal error: unable to get claim info for ResourceClaim %.*s in "
                       "namespace %.*s",
                       STR_ARG(asked->name), STR_ARG(asked->namespace));
    node_claim_driver_set(part, r->claim.devices.p, r->claim.devices.n);
    op->dra->dirty = true;
    return 0;
}

static int dra_prepare_decode(struct str message, struct dra_answers *ret, struct arena *a,
                              struct err *err)
{
    struct plugin_prepare_response r = {0};
    if (plugin_decode(&plugin_prepare_response_message, message, &r, a, err) < 0)
        return -err->code;
    *ret = (struct dra_answers){r.claims.p, r.claims.n, sizeof(*r.claims.p)};
    return 0;
}

const struct dra_op_kind dra_prepare_kind = {.preparing = true,
                                             .method = "NodePrepareResources",
                                             .run = dra_prepare_run,
                                             .decode = dra_prepare_decode,
                                             .take = dra_prepare_take_claim,
                                             .finish = dra_prepare_finish};
