// SPDX-License-Identifier: Apache-2.0
#include "ctl/ctl.h"

#include <stdlib.h>

#include "api/pod_claims.h"
#include "ctl/ctl_int.h"

#include "base/banned.h"

static const struct {
    const char *api_version;
    const char *kind;
} cached[CACHES] = {
    [CACHE_PODS] = {"v1", "Pod"},
    [CACHE_CLAIMS] = {"resource.k8s.io/v1", "ResourceClaim"},
    [CACHE_TEMPLATES] = {"resource.k8s.io/v1", "ResourceClaimTemplate"},
    [CACHE_GROUPS] = {"scheduling.k8s.io/v1beta1", "PodGroup"},
    [CACHE_SLICES] = {"resource.k8s.io/v1", "ResourceSlice"},
    [CACHE_RULES] = {"resource.k8s.io/v1", "DeviceTaintRule"},
    [CACHE_POOL_REQUESTS] = {"resource.k8s.io/v1alpha3", "ResourcePoolStatusRequest"},
    [CACHE_NODES] = {"v1", "Node"},
    [CACHE_ROLES] = {"rbac.authorization.k8s.io/v1", "ClusterRole"},
    [CACHE_DEPLOYMENTS] = {"apps/v1", "Deployment"},
    [CACHE_REPLICA_SETS] = {"apps/v1", "ReplicaSet"},
    [CACHE_DAEMON_SETS] = {"apps/v1", "DaemonSet"},
    [CACHE_STATEFUL_SETS] = {"apps/v1", "StatefulSet"},
    [CACHE_JOBS] = {"batch/v1", "Job"},
    [CACHE_REVISIONS] = {"apps/v1", "ControllerRevision"},
    [CACHE_VOLUME_CLAIMS] = {"v1", "PersistentVolumeClaim"},
    [CACHE_NAMESPACES] = {"v1", "Namespace"},
    [CACHE_ACCOUNTS] = {"v1", "ServiceAccount"},
    [CACHE_LEASES] = {"coordination.k8s.io/v1", "Lease"},
};

// Who needs which of the caches that not everybody does.
static const unsigned needed[CACHES] = {
    [CACHE_DEPLOYMENTS] = CTL_DEPLOYMENTS,
    [CACHE_REPLICA_SETS] = CTL_DEPLOYMENTS | CTL_REPLICA_SETS,
    [CACHE_DAEMON_SETS] = CTL_DAEMON_SETS,
    [CACHE_STATEFUL_SETS] = CTL_STATEFUL_SETS,
    [CACHE_JOBS] = CTL_JOBS,
    [CACHE_REVISIONS] = CTL_DAEMON_SETS | CTL_STATEFUL_SETS,
    [CACHE_VOLUME_CLAIMS] = CTL_STATEFUL_SETS,
    [CACHE_NAMESPACES] = CTL_ACCOUNTS,
    [CACHE_ACCOUNTS] = CTL_ACCOUNTS,
    [CACHE_LEASES] = CTL_NODES | CTL_STALE_SLICES,
};

const struct api_kind *ctl_kind(enum ctl_cache which)
{
    return api_kind_find(str_z(cached[which].api_version), str_z(cached[which].kind));
}

// Caches of kinds whose gate is off are not made: the server would not serve them.
static bool wanted(const struct ctl *c, enum ctl_cache which)
{
    if (which == CACHE_GROUPS)
        return features_on(c->features, FEATURE_GENERIC_WORKLOAD);
    if (which == CACHE_POOL_REQUESTS)
        return features_on(c->features, FEATURE_DRA_RESOURCE_POOL_STATUS);
    if (which == CACHE_ROLES)
        return c->aggregate;
    if (needed[which])
        return c->controllers & needed[which];
    if (which == CACHE_RULES)
        return features_on(c->features, FEATURE_DRA_DEVICE_TAINT_RULES);
    return true;
}

// Who is told how far a cache is.
struct follower {
    struct list_node node; // in ctl.followers
    struct work *work;
    size_t source;
};

static void cache_progress(void *arg, uint64_t revision)
{
    const struct follower *f = arg;
    work_seen(f->work, f->source, revision);
}

void ctl_watch(struct ctl *c, enum ctl_cache which, ctl_changed_fn changed, void *arg,
               struct work *work)
{
    if (!c->caches[which])
        return;
    struct follower *f = xcalloc(1, sizeof(*f));
    f->work = work;
    f->source = which;
    list_push_back(&c->followers, &f->node);
    const struct informer_handler change = {.changed = changed, .arg = arg};
    const struct informer_handler progress = {.progress = cache_progress, .arg = f};
    informer_add_handler(c->caches[which], &change);
    informer_add_handler(c->caches[which], &progress);
}

const struct client_object *ctl_find(const struct ctl *c, enum ctl_cache which,
                                     struct str namespace, struct str name)
{
    return c->caches[which] ? informer_get(c->caches[which], namespace, name) : NULL;
}

static void add_claim_key(void (*add)(void *ctx, struct str key), void *ctx,
                          const struct api_pod *pod, struct str claim)
{
    struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(pod->metadata.namespace), STR_ARG(claim));
    add(ctx, sbuf_str(&key));
    sbuf_done(&key);
}

void ctl_index_pod_claims(const struct client_object *o, void (*add)(void *ctx, struct str key),
                          void *ctx)
{
    const struct api_pod *pod = as_pod(o);
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++) {
        struct str name;
        bool check;
        if (claim_name_of(pod, &pod->spec.resource_claims.p[i], &name, &check) == CLAIM_NAMED)
            add_claim_key(add, ctx, pod, name);
    }
    if (pod->status.extended_resource_claim_status)
        add_claim_key(add, ctx, pod,
                      pod->status.extended_resource_claim_status->resource_claim_name);
}

struct api_time ctl_now(const struct ctl *c)
{
    int64_t seconds = exec_wall_ns(c->exec) / CLOCK_NS_PER_SEC;
    return (struct api_time){.at = {.sec = seconds}, .set = true};
}

int ctl_controllers_parse(struct str list, unsigned *ret, struct err *err)
{
    static const struct {
        const char *name;
        unsigned which;
    } names[] = {
        {"*", CTL_ALL},
        {"replicaset-controller", CTL_REPLICA_SETS},
        {"deployment-controller", CTL_DEPLOYMENTS},
        {"daemonset-controller", CTL_DAEMON_SETS},
        {"statefulset-controller", CTL_STATEFUL_SETS},
        {"job-controller", CTL_JOBS},
        {"serviceaccount-controller", CTL_ACCOUNTS},
        {"pod-garbage-collector-controller", CTL_POD_GC},
        {"node-lifecycle-controller", CTL_NODES},
        {"taint-eviction-controller", CTL_TAINT_EVICTION},
        {"stale-slice-controller", CTL_STALE_SLICES},
    };
    unsigned on = 0;
    while (list.n > 0) {
        struct str name;
        str_cut(list, ',', &name, &list);
        bool off = str_starts(name, STR("-"));
        size_t i = 0;
        while (i < array_len(names) && !str_eqz(str_from(name, off ? 1 : 0), names[i].name))
            i++;
        if (i == array_len(names))
            return err_set(err, ERR_INVALID, "there is no controller \"%.*s\"", STR_ARG(name));
        on = off ? on & ~names[i].which : on | names[i].which;
    }
    *ret = on;
    return 0;
}

struct ctl *ctl_new(const struct ctl_options *options)
{
    struct ctl *c = xcalloc(1, sizeof(*c));
    c->client = options->client;
    c->exec = options->exec;
    c->features = options->features;
    c->aggregate = options->aggregate_roles;
    c->controllers = options->controllers;
    for (enum ctl_cache i = 0; i < CACHES; i++) {
        const struct informer_options o = {.client = c->client, .kind = ctl_kind(i)};
        if (wanted(c, i))
            c->caches[i] = informer_new(&o);
    }
    list_init(&c->followers);
    const struct event_recorder_options events = {.client = c->client,
                                                  .component = STR("resource_claim")};
    c->events = event_recorder_new(&events);
    c->claims = claim_ctl_new(c);
    c->taints = taint_ctl_new(c);
    c->pools = pool_ctl_new(c);
    c->garbage = gc_ctl_new(c);
    if (c->caches[CACHE_GROUPS])
        c->groups = group_ctl_new(c);
    if (c->caches[CACHE_ROLES])
        c->roles = role_ctl_new(c);
    c->loads = load_ctl_new(c);
    return c;
}

void ctl_start(struct ctl *c)
{
    for (size_t i = 0; i < CACHES; i++)
        if (c->caches[i])
            informer_start(c->caches[i]);
}

void ctl_free(struct ctl *c)
{
    if (!c)
        return;
    claim_ctl_free(c->claims);
    taint_ctl_free(c->taints);
    pool_ctl_free(c->pools);
    gc_ctl_free(c->garbage);
    group_ctl_free(c->groups);
    role_ctl_free(c->roles);
    load_ctl_free(c->loads);
    for (size_t i = 0; i < CACHES; i++)
        informer_free(c->caches[i]);
    event_recorder_free(c->events);
    while (!list_empty(&c->followers))
        free(list_entry(list_pop_front(&c->followers), struct follower, node));
    free(c);
}

void ctl_metrics(const struct ctl *c, struct sbuf *out)
{
    claim_ctl_metrics(c->claims, out);
}

bool ctl_check(const struct ctl *c, struct sbuf *problems)
{
    return claim_ctl_check(c->claims, problems);
}

bool ctl_idle(const struct ctl *c)
{
    for (size_t i = 0; i < CACHES; i++)
        if (c->caches[i] && !informer_synced(c->caches[i]))
            return false;
    return claim_ctl_idle(c->claims) && taint_ctl_idle(c->taints) && pool_ctl_idle(c->pools) &&
           gc_ctl_idle(c->garbage) && group_ctl_idle(c->groups) && load_ctl_idle(c->loads) &&
           (!c->roles || role_ctl_idle(c->roles));
}
