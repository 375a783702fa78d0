// SPDX-License-Identifier: Apache-2.0
//
// The claim controller: which change makes which object worth a look.
#include <stdlib.h>

#include "ctl/device/claim_int.h"

#include "base/banned.h"

// --- Keys and indexes ----------------------------------------------------------------------------

static void claim_add_key(struct claim_ctl *c, char type, struct str namespace, struct str name)
{
    struct sbuf key = {0};
    sbuf_addf(&key, "%c/%.*s/%.*s", type, STR_ARG(namespace), STR_ARG(name));
    work_add(c->work, sbuf_str(&key));
    sbuf_done(&key);
}

typedef void (*index_add_fn)(void *ctx, struct str key);

static void claim_add_pair(index_add_fn add, void *ctx, struct str namespace, struct str name)
{
    struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(namespace), STR_ARG(name));
    add(ctx, sbuf_str(&key));
    sbuf_done(&key);
}

static void index_pod_templates(const struct typed_object *o, index_add_fn add, void *ctx)
{
    const struct api_pod *pod = as_pod(o);
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++) {
        const struct api_pod_resource_claim *e = &pod->spec.resource_claims.p[i];
        if (e->has_resource_claim_template_name)
            claim_add_pair(add, ctx, pod->metadata.namespace, e->resource_claim_template_name);
    }
}

static void index_pod_group(const struct typed_object *o, index_add_fn add, void *ctx)
{
    const struct api_pod *pod = as_pod(o);
    if (pod->spec.scheduling_group && pod->spec.scheduling_group->has_pod_group_name)
        claim_add_pair(add, ctx, pod->metadata.namespace,
                       pod->spec.scheduling_group->pod_group_name);
}

static void index_group_templates(const struct typed_object *o, index_add_fn add, void *ctx)
{
    const struct api_pod_group *group = as_group(o);
    for (size_t i = 0; i < group->spec.resource_claims.n; i++) {
        const struct api_pod_group_resource_claim *e = &group->spec.resource_claims.p[i];
        if (e->has_resource_claim_template_name)
            claim_add_pair(add, ctx, group->metadata.namespace, e->resource_claim_template_name);
    }
}

static void index_owner(const struct typed_object *o, index_add_fn add, void *ctx)
{
    const struct api_owner_reference *owner = meta_controller(o->meta);
    if (owner)
        add(ctx, owner->uid);
}

// --- Groups --------------------------------------------------------------------------------------

const struct api_pod_group *claim_find_pod_group(const struct claim_ctl *c,
                                                 const struct api_pod *pod)
{
    if (!c->groups || !pod->spec.scheduling_group ||
        !pod->spec.scheduling_group->has_pod_group_name)
        return NULL;
    return maybe_group(ctl_find(c->ctl, CACHE_GROUPS, pod->metadata.namespace,
                                pod->spec.scheduling_group->pod_group_name));
}

// --- What changed --------------------------------------------------------------------------------

static void claim_add_pod(void *arg, const struct typed_object *o)
{
    claim_add_key(arg, 'p', o->meta->namespace, o->meta->name);
}

static void claim_add_claim(void *arg, const struct typed_object *o)
{
    claim_add_key(arg, 'c', o->meta->namespace, o->meta->name);
}

static void claim_add_group(void *arg, const struct typed_object *o)
{
    claim_add_key(arg, 'g', o->meta->namespace, o->meta->name);
}

static void add_pods_by(struct claim_ctl *c, size_t index, struct str namespace, struct str name)
{
    struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(namespace), STR_ARG(name));
    informer_by(c->ctl->caches[CACHE_PODS], index, sbuf_str(&key), claim_add_pod, c);
    sbuf_done(&key);
}

static void add_left(struct claim_ctl *c, struct str namespace, struct str name)
{
    struct sbuf key = {0};
    sbuf_addf(&key, "c/%.*s/%.*s", STR_ARG(namespace), STR_ARG(name));
    claim_remember_left(c, sbuf_str(&key));
    work_add(c->work, sbuf_str(&key));
    sbuf_done(&key);
}

// The claims of a pod that will not use them any more.
static void add_claims_of(struct claim_ctl *c, const struct api_pod *pod)
{
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++) {
        struct str name;
        bool check;
        if (claim_name_of(pod, &pod->spec.resource_claims.p[i], &name, &check) == CLAIM_NAMED)
            add_left(c, pod->metadata.namespace, name);
    }
    if (pod->status.extended_resource_claim_status)
        claim_add_key(c, 'c', pod->metadata.namespace,
                      pod->status.extended_resource_claim_status->resource_claim_name);
}

static void claim_add_extended(void *arg, const struct typed_object *o)
{
    if (claim_is_extended(o->meta))
        claim_add_claim(arg, o);
}

static void claim_pod_changed(void *arg, const struct typed_object *before,
                              const struct typed_object *after)
{
    struct claim_ctl *c = arg;
    const struct api_pod *pod = as_pod(after ? after : before);
    if (!after)
        gone_add(&c->gone, pod->metadata.uid);
    else if (before && !str_eq(before->meta->uid, after->meta->uid))
        gone_add(&c->gone, before->meta->uid);
    if (!after || pod_is_done(pod)) {
        // Those made for it are found though its status may not name them yet.
        informer_by(c->ctl->caches[CACHE_CLAIMS], c->claims_by_owner, pod->metadata.uid,
                    claim_add_claim, c);
        add_claims_of(c, pod);
    } else if (pod->spec.node_name.n && (!before || !as_pod(before)->spec.node_name.n)) {
        informer_by(c->ctl->caches[CACHE_CLAIMS], c->claims_by_owner, pod->metadata.uid,
                    claim_add_extended, c);
    }
    if (pod->spec.resource_claims.n == 0 && !pod->status.extended_resource_claim_status)
        return;
    if (after && !pod->metadata.deletion_timestamp.set)
        claim_add_pod(c, after);
}

static void forget_claim(struct claim_ctl *c, const struct api_object_meta *meta)
{
    struct sbuf key = {0};
    sbuf_addf(&key, "c/%.*s/%.*s", STR_ARG(meta->namespace), STR_ARG(meta->name));
    claim_forget(c, sbuf_str(&key));
    sbuf_done(&key);
}

static void claim_on_claim_changed(void *arg, const struct typed_object *before,
                                   const struct typed_object *after)
{
    struct claim_ctl *c = arg;
    const struct api_object_meta *meta = (after ? after : before)->meta;
    if (after)
        claim_add_key(c, 'c', meta->namespace, meta->name);
    else
        forget_claim(c, meta);
    if (after && before && as_claim(before)->status.reserved_for.n &&
        !as_claim(after)->status.reserved_for.n)
        add_left(c, meta->namespace, meta->name);
    add_pods_by(c, c->pods_by_claim, meta->namespace, meta->name);
    const struct api_owner_reference *owner = meta_controller(meta);
    if (owner && str_eq(owner->kind, STR("Pod")))
        claim_add_key(c, 'p', meta->namespace, owner->name);
    else if (owner && c->groups && group_is_controller(owner)) {
        claim_add_key(c, 'g', meta->namespace, owner->name);
        add_pods_by(c, c->pods_by_group, meta->namespace, owner->name);
    }
}

static void template_changed(void *arg, const struct typed_object *before,
                             const struct typed_object *after)
{
    struct claim_ctl *c = arg;
    (void)before;
    if (!after)
        return;
    add_pods_by(c, c->pods_by_template, after->meta->namespace, after->meta->name);
    if (!c->groups)
        return;
    struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(after->meta->namespace), STR_ARG(after->meta->name));
    informer_by(c->ctl->caches[CACHE_GROUPS], c->groups_by_template, sbuf_str(&key),
                claim_add_group, c);
    sbuf_done(&key);
}

static void claim_group_changed(void *arg, const struct typed_object *before,
                                const struct typed_object *after)
{
    struct claim_ctl *c = arg;
    const struct api_object_meta *meta = (after ? after : before)->meta;
    if (after) {
        claim_add_group(c, after);
    } else {
        const struct api_pod_group *group = as_group(before);
        gone_add(&c->gone, meta->uid);
        informer_by(c->ctl->caches[CACHE_CLAIMS], c->claims_by_owner, meta->uid, claim_add_claim,
                    c);
        for (size_t i = 0; i < group->spec.resource_claims.n; i++) {
            const struct api_pod_group_resource_claim *e = &group->spec.resource_claims.p[i];
            if (e->has_resource_claim_name)
                claim_add_key(c, 'c', meta->namespace, e->resource_claim_name);
        }
    }
    add_pods_by(c, c->pods_by_group, meta->namespace, meta->name);
}

// --- The controller ------------------------------------------------------------------------------

static void claim_step_key(void *arg, struct str key)
{
    struct claim_ctl *c = arg;
    struct str namespace;
    struct str name;
    str_cut(str_from(key, 2), '/', &namespace, &name);
    // Before the first list is complete nothing is known to be missing.
    for (size_t i = CACHE_PODS; i <= CACHE_GROUPS; i++) {
        if (c->ctl->caches[i] && !informer_synced(c->ctl->caches[i])) {
            work_retry(c->work, key);
            return;
        }
    }
    if (key.p[0] == 'p')
        claim_step_pod(c, key, namespace, name);
    else if (key.p[0] == 'g')
        claim_step_group(c, key, namespace, name);
    else
        claim_step_claim(c, key, namespace, name);
}

struct claim_ctl *claim_ctl_new(struct ctl *ctl)
{
    struct claim_ctl *c = xcalloc(1, sizeof(*c));
    c->ctl = ctl;
    c->work = ctl_work(ctl, "resource_claim", claim_step_key, c);
    c->groups = features_on(ctl->features, FEATURE_DRA_WORKLOAD_RESOURCE_CLAIMS);
    list_init(&c->calls);
    struct informer *pods = ctl->caches[CACHE_PODS];
    c->pods_by_claim = informer_add_index(pods, ctl_index_pod_claims);
    c->pods_by_template = informer_add_index(pods, index_pod_templates);
    c->pods_by_group = informer_add_index(pods, index_pod_group);
    c->claims_by_owner = informer_add_index(ctl->caches[CACHE_CLAIMS], index_owner);
    if (c->groups)
        c->groups_by_template =
            informer_add_index(ctl->caches[CACHE_GROUPS], index_group_templates);
    ctl_watch(ctl, CACHE_PODS, claim_pod_changed, c, c->work);
    ctl_watch(ctl, CACHE_CLAIMS, claim_on_claim_changed, c, c->work);
    ctl_watch(ctl, CACHE_TEMPLATES, template_changed, c, c->work);
    if (c->groups)
        ctl_watch(ctl, CACHE_GROUPS, claim_group_changed, c, c->work);
    return c;
}

void claim_ctl_free(struct claim_ctl *c)
{
    if (!c)
        return;
    ctl_calls_drop(&c->calls);
    claim_forget_all(c);
    work_free(c->work);
    gone_done(&c->gone);
    free(c);
}

static void see_user(void *arg, const struct typed_object *o)
{
    bool *used = arg;
    *used |= !pod_is_done(as_pod(o));
}

bool claim_is_wanted(const struct claim_ctl *c, const struct api_resource_claim *claim)
{
    const struct api_object_meta *meta = &claim->metadata;
    const struct api_owner_reference *owner = meta_controller(meta);
    bool used = owner && !gone_has(&c->gone, owner->uid); // whose end is looked at elsewhere
    struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(meta->namespace), STR_ARG(meta->name));
    informer_by(c->ctl->caches[CACHE_PODS], c->pods_by_claim, sbuf_str(&key), see_user, &used);
    sbuf_done(&key);
    return used;
}

// --- Metrics -------------------------------------------------------------------------------------

enum source { SOURCE_USER, SOURCE_TEMPLATE, SOURCE_EXTENDED, SOURCES };

struct tally {
    uint64_t n[2][2][SOURCES]; // allocated, with admin access
};

static bool asks_admin(const struct api_resource_claim *claim)
{
    for (size_t i = 0; i < claim->spec.devices.requests.n; i++) {
        const struct api_device_request *r = &claim->spec.devices.requests.p[i];
        if (r->exactly && r->exactly->has_admin_access && r->exactly->admin_access)
            return true;
    }
    return false;
}

static void tally_claim(void *arg, const struct typed_object *o)
{
    struct tally *t = arg;
    const struct api_resource_claim *claim = as_claim(o);
    enum source source = claim_is_extended(o->meta)                              ? SOURCE_EXTENDED
                         : meta_annotation(o->meta, STR(CLAIM_POD_ANNOTATION)).n ? SOURCE_TEMPLATE
                                                                                 : SOURCE_USER;
    t->n[claim->status.allocation != NULL][asks_admin(claim)][source]++;
}

void claim_ctl_metrics(const struct claim_ctl *c, struct sbuf *out)
{
    static const char *const sources[SOURCES] = {"", "resource_claim_template",
                                                 "extended_resource"};
    static const char *const truth[] = {"false", "true"};
    struct tally t = {0};
    informer_foreach(c->ctl->caches[CACHE_CLAIMS], tally_claim, &t);
    sbuf_addz(out, "# HELP dynamic_resource_allocation_resource_claims Number of ResourceClaims, "
                   "categorized by allocation status, admin access, and source.\n"
                   "# TYPE dynamic_resource_allocation_resource_claims gauge\n");
    for (size_t a = 0; a < 2; a++)
        for (size_t d = 0; d < 2; d++)
            for (size_t s = 0; s < SOURCES; s++)
                if (t.n[a][d][s])
                    sbuf_addf(out,
                              "dynamic_resource_allocation_resource_claims{admin_access=\"%s\","
                              "allocated=\"%s\",source=\"%s\"} %llu\n",
                              truth[d], truth[a], sources[s], (unsigned long long)t.n[a][d][s]);
    sbuf_addf(out,
              "# HELP dynamic_resource_allocation_resourceclaim_creates_total Number of "
              "ResourceClaims creation requests, categorized by creation status.\n"
              "# TYPE dynamic_resource_allocation_resourceclaim_creates_total counter\n"
              "dynamic_resource_allocation_resourceclaim_creates_total{status=\"success\"} %llu\n"
              "dynamic_resource_allocation_resourceclaim_creates_total{status=\"failure\"} %llu\n",
              (unsigned long long)c->created, (unsigned long long)c->create_failures);
}
