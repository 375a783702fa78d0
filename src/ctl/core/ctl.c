// SPDX-License-Identifier: Apache-2.0
//
// Starts and stops the controllers, and the caches that they share: each kind is watched once, and
// only if a controller reads it.
#include "ctl/ctl.h"

#include <assert.h>
#include <stdlib.h>

#include "api/match/claim.h"
#include "client/cluster_info.h"
#include "ctl/core/ctl_int.h"

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
    [CACHE_VOLUMES] = {"v1", "PersistentVolume"},
    [CACHE_STORAGE_CLASSES] = {"storage.k8s.io/v1", "StorageClass"},
    [CACHE_NAMESPACES] = {"v1", "Namespace"},
    [CACHE_ACCOUNTS] = {"v1", "ServiceAccount"},
    [CACHE_LEASES] = {"coordination.k8s.io/v1", "Lease"},
    [CACHE_QUOTAS] = {"v1", "ResourceQuota"},
    [CACHE_ROOT_CAS] = {"v1", "ConfigMap"},
    [CACHE_REQUESTS] = {"certificates.k8s.io/v1", "CertificateSigningRequest"},
    [CACHE_TOKENS] = {"v1", "Secret"},
    [CACHE_CLUSTER_INFO] = {"v1", "ConfigMap"},
};

// Who needs which of the caches that not everybody does.
static const struct {
    size_t n;
    enum ctl_controller by[7];
} needed[CACHES] = {
    [CACHE_NODES] = {7,
                     {CTL_DAEMON_SETS, CTL_NODES, CTL_TAINT_EVICTION, CTL_STALE_SLICES,
                      CTL_POD_GARBAGE, CTL_CSR_APPROVING, CTL_VOLUMES}},
    [CACHE_DEPLOYMENTS] = {1, {CTL_DEPLOYMENTS}},
    [CACHE_REPLICA_SETS] = {2, {CTL_DEPLOYMENTS, CTL_REPLICA_SETS}},
    [CACHE_DAEMON_SETS] = {1, {CTL_DAEMON_SETS}},
    [CACHE_STATEFUL_SETS] = {1, {CTL_STATEFUL_SETS}},
    [CACHE_JOBS] = {1, {CTL_JOBS}},
    [CACHE_REVISIONS] = {2, {CTL_DAEMON_SETS, CTL_STATEFUL_SETS}},
    [CACHE_VOLUME_CLAIMS] = {2, {CTL_STATEFUL_SETS, CTL_VOLUMES}},
    [CACHE_VOLUMES] = {1, {CTL_VOLUMES}},
    [CACHE_STORAGE_CLASSES] = {1, {CTL_VOLUMES}},
    [CACHE_NAMESPACES] = {2, {CTL_ACCOUNTS, CTL_ROOT_CA}},
    [CACHE_ACCOUNTS] = {1, {CTL_ACCOUNTS}},
    [CACHE_LEASES] = {2, {CTL_NODES, CTL_STALE_SLICES}},
    [CACHE_ROOT_CAS] = {1, {CTL_ROOT_CA}},
    [CACHE_REQUESTS] = {3, {CTL_CSR_APPROVING, CTL_CSR_SIGNING, CTL_CSR_CLEANER}},
    [CACHE_TOKENS] = {2, {CTL_BOOTSTRAP_SIGNER, CTL_TOKEN_CLEANER}},
    [CACHE_CLUSTER_INFO] = {1, {CTL_BOOTSTRAP_SIGNER}},
};

// Caches of some objects of their kind.
static const struct {
    const char *namespace, *fields;
} some[CACHES] = {
    [CACHE_ROOT_CAS] = {NULL, "metadata.name=kube-root-ca.crt"},
    [CACHE_TOKENS] = {BOOTSTRAP_NAMESPACE, "type=" BOOTSTRAP_TYPE},
    [CACHE_CLUSTER_INFO] = {CLUSTER_INFO_NAMESPACE, "metadata.name=" CLUSTER_INFO_NAME},
};

static bool is_needed(const struct ctl *c, enum ctl_cache which)
{
    for (size_t i = 0; i < needed[which].n; i++)
        if (!c->off[needed[which].by[i]])
            return true;
    return false;
}

const struct api_kind *ctl_kind(enum ctl_cache which)
{
    return api_kind_find(str_z(cached[which].api_version), str_z(cached[which].kind));
}

bool ctl_has_all(const struct ctl *c, enum ctl_cache which)
{
    return c->caches[which] && !some[which].namespace && !some[which].fields;
}

static const char *const controller_names[CTL_CONTROLLERS] = {
    [CTL_CLAIMS] = "resourceclaim-controller",
    [CTL_TAINTS] = "device-taint-eviction-controller",
    [CTL_POOLS] = "resourcepoolstatusrequest-controller",
    [CTL_GARBAGE] = "garbage-collector-controller",
    [CTL_GROUPS] = "podgroup-protection-controller",
    [CTL_ROLES] = "clusterrole-aggregation-controller",
    [CTL_REPLICA_SETS] = "replicaset-controller",
    [CTL_DEPLOYMENTS] = "deployment-controller",
    [CTL_DAEMON_SETS] = "daemonset-controller",
    [CTL_STATEFUL_SETS] = "statefulset-controller",
    [CTL_JOBS] = "job-controller",
    [CTL_ACCOUNTS] = "serviceaccount-controller",
    [CTL_NODES] = "node-lifecycle-controller",
    [CTL_TAINT_EVICTION] = "taint-eviction-controller",
    [CTL_STALE_SLICES] = "stale-slice-controller",
    [CTL_QUOTAS] = "resourcequota-controller",
    [CTL_POD_GARBAGE] = "pod-garbage-collector-controller",
    [CTL_ROOT_CA] = "root-ca-certificate-publisher-controller",
    [CTL_CSR_APPROVING] = "certificatesigningrequest-approving-controller",
    [CTL_CSR_SIGNING] = "certificatesigningrequest-signing-controller",
    [CTL_CSR_CLEANER] = "certificatesigningrequest-cleaner-controller",
    [CTL_BOOTSTRAP_SIGNER] = "bootstrap-signer-controller",
    [CTL_TOKEN_CLEANER] = "token-cleaner-controller",
    [CTL_VOLUMES] = "persistentvolume-binder-controller",
    [CTL_HISTORY] = "device-history-controller",
};

const char *ctl_controller_name(enum ctl_controller which)
{
    return controller_names[which];
}

int ctl_controllers_parse(struct str list, bool on[CTL_CONTROLLERS], struct err *err)
{
    bool chosen[CTL_CONTROLLERS] = {0};
    while (list.n) {
        struct str word;
        str_cut(list, ',', &word, &list);
        bool off = str_starts(word, STR("-"));
        struct str name = off ? str_from(word, 1) : word;
        size_t i = 0;
        while (i < CTL_CONTROLLERS && !str_eqz(name, controller_names[i]))
            i++;
        if (i < CTL_CONTROLLERS)
            chosen[i] = !off;
        else if (str_eqz(word, "*"))
            memcpy(chosen, on, sizeof(chosen));
        else
            return err_set(err, ERR_INVALID,
                           "there is no controller '%.*s': *, or names such as %s, with - in "
                           "front for all but it",
                           STR_ARG(word), controller_names[CTL_CLAIMS]);
    }
    memcpy(on, chosen, sizeof(chosen));
    return 0;
}

// Caches of kinds whose gate is off are not made: the server would not serve them.
static bool ctl_wants_cache(const struct ctl *c, enum ctl_cache which)
{
    if (which == CACHE_GROUPS)
        return features_on(c->features, FEATURE_GENERIC_WORKLOAD);
    if (which == CACHE_POOL_REQUESTS)
        return features_on(c->features, FEATURE_DRA_RESOURCE_POOL_STATUS);
    if (which == CACHE_ROLES)
        return c->aggregate;
    if (which == CACHE_QUOTAS)
        return c->count;
    if (which == CACHE_NODES)
        return c->collect || is_needed(c, which);
    if (needed[which].n > 0)
        return is_needed(c, which);
    if (which == CACHE_RULES)
        return features_on(c->features, FEATURE_DRA_DEVICE_TAINT_RULES);
    return true;
}

// Consumers of a cache's progress.
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

const struct typed_object *ctl_find(const struct ctl *c, enum ctl_cache which, struct str namespace,
                                    struct str name)
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

void ctl_index_pod_claims(const struct typed_object *o, void (*add)(void *ctx, struct str key),
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

void ctl_index_pod_node(const struct typed_object *o, void (*add)(void *ctx, struct str key),
                        void *ctx)
{
    if (as_pod(o)->spec.node_name.n)
        add(ctx, as_pod(o)->spec.node_name);
}

struct api_time ctl_now(const struct ctl *c)
{
    int64_t seconds = exec_wall_ns(c->exec) / CLOCK_NS_PER_SEC;
    return (struct api_time){.at = {.sec = seconds}, .set = true};
}

struct work *ctl_work(struct ctl *c, const char *queue, work_fn fn, void *arg)
{
    struct work *w = work_new(c->exec, queue, fn, arg);
    assert(c->works_len < array_len(c->works));
    c->works[c->works_len++] = w;
    work_hold(w, c->standby);
    return w;
}

// start_cluster makes the controllers of namespaces, nodes and drivers.
static void start_cluster(struct ctl *c, const struct ctl_options *options)
{
    if (!c->off[CTL_ACCOUNTS])
        c->accounts = account_ctl_new(c);
    if (!c->off[CTL_NODES])
        c->nodes = node_ctl_new(c);
    if (!c->off[CTL_TAINT_EVICTION])
        c->evict = node_evict_ctl_new(c);
    if (!c->off[CTL_STALE_SLICES] && c->caches[CACHE_RULES])
        c->stale = stale_ctl_new(c);
    if (!c->off[CTL_POD_GARBAGE])
        c->pod_garbage = pod_gc_new(c, options->terminated_pods);
    if (!c->off[CTL_ROOT_CA])
        c->root_cas = root_ca_ctl_new(c, options->root_ca);
    if (c->caches[CACHE_REQUESTS])
        c->requests = csr_ctl_new(c, &options->certificates);
    if (c->caches[CACHE_TOKENS])
        c->tokens = token_ctl_new(c);
    if (!c->off[CTL_VOLUMES])
        c->volumes = volume_ctl_new(c);
    if (!c->off[CTL_HISTORY])
        c->history = history_ctl_new(c);
}

struct ctl *ctl_new(const struct ctl_options *options)
{
    struct ctl *c = xcalloc(1, sizeof(*c));
    c->client = options->client;
    c->exec = options->exec;
    c->features = options->features;
    c->aggregate = options->aggregate_roles;
    memcpy(c->off, options->off, sizeof(c->off));
    c->collect = !options->off[CTL_GARBAGE];
    c->count = !options->off[CTL_QUOTAS];
    c->collect_all = options->collect_all;
    c->standby = options->standby;
    for (enum ctl_cache i = 0; i < CACHES; i++) {
        struct informer_options o = {.client = c->client, .kind = ctl_kind(i)};
        o.list = (struct client_list_options){.namespace = str_z(some[i].namespace),
                                              .field_selector = str_z(some[i].fields)};
        if (ctl_wants_cache(c, i))
            c->caches[i] = informer_new(&o);
    }
    list_init(&c->followers);
    const struct event_recorder_options events = {.client = c->client,
                                                  .component = STR("resource_claim")};
    c->events = events_recorder_new(&events);
    if (!options->off[CTL_CLAIMS])
        c->claims = claim_ctl_new(c);
    if (c->caches[CACHE_CLAIMS])
        c->usage = usage_ctl_new(c);
    if (!options->off[CTL_TAINTS])
        c->taints = taint_ctl_new(c);
    if (!options->off[CTL_POOLS])
        c->pools = pool_ctl_new(c);
    if (c->collect)
        c->garbage = gc_ctl_new(c);
    if (c->caches[CACHE_GROUPS] && !options->off[CTL_GROUPS])
        c->groups = group_ctl_new(c);
    if (c->caches[CACHE_ROLES])
        c->roles = role_ctl_new(c);
    c->loads = load_ctl_new(c);
    start_cluster(c, options);
    if (c->count)
        c->quotas = quota_ctl_new(c);
    return c;
}

void ctl_start(struct ctl *c)
{
    for (size_t i = 0; i < CACHES; i++)
        if (c->caches[i])
            informer_start(c->caches[i]);
    if (c->garbage)
        gc_ctl_start(c->garbage);
}

void ctl_set_ca(struct ctl *c, struct str ca_certificate, struct str ca_key)
{
    if (c->root_cas)
        root_ca_ctl_set(c->root_cas, ca_certificate);
    if (c->requests)
        csr_ctl_set_ca(c->requests, ca_certificate, ca_key);
}

void ctl_lead(struct ctl *c)
{
    assert(c->standby);
    c->standby = false;
    for (size_t i = 0; i < c->works_len; i++)
        work_hold(c->works[i], false);
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
    account_ctl_free(c->accounts);
    node_ctl_free(c->nodes);
    node_evict_ctl_free(c->evict);
    stale_ctl_free(c->stale);
    usage_ctl_free(c->usage);
    quota_ctl_free(c->quotas);
    pod_gc_free(c->pod_garbage);
    root_ca_ctl_free(c->root_cas);
    csr_ctl_free(c->requests);
    token_ctl_free(c->tokens);
    volume_ctl_free(c->volumes);
    history_ctl_free(c->history);
    for (size_t i = 0; i < CACHES; i++)
        informer_free(c->caches[i]);
    events_recorder_free(c->events);
    while (!list_empty(&c->followers))
        free(list_entry(list_pop_front(&c->followers), struct follower, node));
    free(c);
}

void ctl_metrics(const struct ctl *c, struct sbuf *out)
{
    if (c->claims)
        claim_ctl_metrics(c->claims, out);
    if (c->taints)
        taint_ctl_metrics(c->taints, out);
    if (c->pools)
        pool_ctl_metrics(c->pools, out);
    if (c->usage)
        usage_ctl_metrics(c->usage, out);
    work_metrics(c->works, c->works_len, out);
}

bool ctl_check(const struct ctl *c, struct sbuf *problems)
{
    return !c->claims || claim_ctl_check(c->claims, problems);
}

bool ctl_synced(const struct ctl *c)
{
    for (size_t i = 0; i < CACHES; i++)
        if (c->caches[i] && !informer_synced(c->caches[i]))
            return false;
    return !c->garbage || gc_ctl_synced(c->garbage);
}

bool ctl_idle(const struct ctl *c)
{
    bool idle = ctl_synced(c);
    for (size_t i = 0; i < c->works_len; i++)
        idle = idle && work_idle(c->works[i]);
    return idle;
}
