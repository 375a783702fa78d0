// SPDX-License-Identifier: Apache-2.0
//
// What the controllers share: caches, and how to tell people. Private to src/ctl.
#ifndef CTL_CORE_CTL_INT_H
#define CTL_CORE_CTL_INT_H

#include "base/list.h"
#include "client/client.h"
#include "client/events.h"
#include "client/informer.h"
#include "client/work.h"
#include "ctl/ctl.h"

// The caches; also the sources of struct work.
enum ctl_cache {
    CACHE_PODS,
    CACHE_CLAIMS,
    CACHE_TEMPLATES,
    CACHE_GROUPS, // PodGroups, when the gate is on
    CACHE_SLICES,
    CACHE_RULES,
    CACHE_POOL_REQUESTS,
    CACHE_NODES,
    CACHE_ROLES,       // ClusterRoles, when they are to be aggregated
    CACHE_DEPLOYMENTS, // these as the controllers that are on need them
    CACHE_REPLICA_SETS,
    CACHE_DAEMON_SETS,
    CACHE_STATEFUL_SETS,
    CACHE_JOBS,
    CACHE_REVISIONS,
    CACHE_VOLUME_CLAIMS,
    CACHE_VOLUMES,
    CACHE_STORAGE_CLASSES,
    CACHE_NAMESPACES,
    CACHE_ACCOUNTS,
    CACHE_LEASES,
    CACHE_QUOTAS,
    CACHE_ROOT_CAS, // ConfigMaps of that one name
    CACHE_REQUESTS, // for certificates
    CACHE_TOKENS,   // Secrets of that type
    CACHE_CLUSTER_INFO,
    CACHES,
};

struct claim_ctl;
struct taint_ctl;
struct pool_ctl;
struct gc_ctl;
struct group_ctl;
struct role_ctl;
struct load_ctl;
struct account_ctl;
struct node_ctl;
struct evict_ctl;
struct stale_ctl;
struct usage_ctl;
struct quota_ctl;
struct pod_gc;
struct root_ca_ctl;
struct csr_ctl;
struct token_ctl;
struct volume_ctl;
struct history_ctl;

struct ctl {
    struct client *client;
    struct exec *exec;
    const struct features *features;
    struct informer *caches[CACHES]; // NULL where the gate is off
    struct event_recorder *events;
    struct list followers;
    struct { // the controllers; NULL where one is off
        struct claim_ctl *claims;
        struct taint_ctl *taints;
        struct pool_ctl *pools;
        struct gc_ctl *garbage;
        struct group_ctl *groups; // NULL where the gate is off
        struct role_ctl *roles;   // NULL: somebody else aggregates them
        struct load_ctl *loads;
        struct account_ctl *accounts; // these NULL where they are off
        struct node_ctl *nodes;
        struct evict_ctl *evict;
        struct stale_ctl *stale;
        struct usage_ctl *usage; // NULL without claims
        struct quota_ctl *quotas;
        struct pod_gc *pod_garbage;
        struct root_ca_ctl *root_cas;
        struct csr_ctl *requests;
        struct token_ctl *tokens;
        struct volume_ctl *volumes;
        struct history_ctl *history;
    };
    struct { // settings
        bool off[CTL_CONTROLLERS];
        bool aggregate, collect, collect_all, count;
        bool standby;
    };
    struct work *works[WORKS_MAX]; // of the controllers
    size_t works_len;
};

// ctl_work makes a controller's work, which begins when the controllers lead. The controller frees
// it. queue is what metrics call it, as kube-controller-manager does where it has such a queue.
struct work *ctl_work(struct ctl *c, const char *queue, work_fn fn, void *arg);

// The kinds of the caches.
const struct api_kind *ctl_kind(enum ctl_cache which);

// ctl_has_all: there is this cache, and it holds all objects of its kind, not some by name, type or
// namespace.
bool ctl_has_all(const struct ctl *c, enum ctl_cache which);

// Typed views of cached objects: as_… of one that is there, maybe_… NULL when there is none.
#define CTL_VIEW(name, type)                                                    \
    static inline const struct type *as_##name(const struct typed_object *o)    \
    {                                                                           \
        return o->object.value;                                                 \
    }                                                                           \
    static inline const struct type *maybe_##name(const struct typed_object *o) \
    {                                                                           \
        return o ? o->object.value : NULL;                                      \
    }

CTL_VIEW(pod, api_pod)
CTL_VIEW(claim, api_resource_claim)
CTL_VIEW(template, api_resource_claim_template)
CTL_VIEW(group, api_pod_group)
CTL_VIEW(slice, api_resource_slice)
CTL_VIEW(rule, api_device_taint_rule)
CTL_VIEW(role, api_cluster_role)

// ctl_watch adds a handler to a cache and reports the cache's progress to work; a cache that does
// not exist is left alone.
typedef void (*ctl_changed_fn)(void *arg, const struct typed_object *before,
                               const struct typed_object *after);
void ctl_watch(struct ctl *c, enum ctl_cache which, ctl_changed_fn changed, void *arg,
               struct work *work);

const struct typed_object *ctl_find(const struct ctl *c, enum ctl_cache which, struct str namespace,
                                    struct str name);

// ctl_index_pod_claims: pods by the claims they name, NAMESPACE/CLAIM, those of extended resources
// too.
void ctl_index_pod_claims(const struct typed_object *o, void (*add)(void *ctx, struct str key),
                          void *ctx);

// ctl_index_pod_node: pods by the node they are bound to.
void ctl_index_pod_node(const struct typed_object *o, void (*add)(void *ctx, struct str key),
                        void *ctx);

// ctl_now is the wall clock in whole seconds.
struct api_time ctl_now(const struct ctl *c);

// One controller each: new registers handlers and indexes, before the caches start.
struct claim_ctl *claim_ctl_new(struct ctl *c);
void claim_ctl_free(struct claim_ctl *c);
bool claim_ctl_check(const struct claim_ctl *c, struct sbuf *problems);
void claim_ctl_metrics(const struct claim_ctl *c, struct sbuf *out);

struct taint_ctl *taint_ctl_new(struct ctl *c);
void taint_ctl_free(struct taint_ctl *t);
void taint_ctl_metrics(const struct taint_ctl *t, struct sbuf *out);

struct pool_ctl *pool_ctl_new(struct ctl *c);
void pool_ctl_free(struct pool_ctl *p);
void pool_ctl_metrics(const struct pool_ctl *p, struct sbuf *out);

struct gc_ctl *gc_ctl_new(struct ctl *c);
void gc_ctl_free(struct gc_ctl *g);
void gc_ctl_start(struct gc_ctl *g); // its own caches
bool gc_ctl_synced(const struct gc_ctl *g);

struct group_ctl *group_ctl_new(struct ctl *c);
void group_ctl_free(struct group_ctl *g);

struct role_ctl *role_ctl_new(struct ctl *c);
void role_ctl_free(struct role_ctl *c);
struct quota_ctl *quota_ctl_new(struct ctl *c);
void quota_ctl_free(struct quota_ctl *c);

struct load_ctl *load_ctl_new(struct ctl *c);
void load_ctl_free(struct load_ctl *c);

struct account_ctl *account_ctl_new(struct ctl *c);
void account_ctl_free(struct account_ctl *a);

struct node_ctl *node_ctl_new(struct ctl *c);
void node_ctl_free(struct node_ctl *n);

struct evict_ctl *node_evict_ctl_new(struct ctl *c);
void node_evict_ctl_free(struct evict_ctl *e);

struct stale_ctl *stale_ctl_new(struct ctl *c);
void stale_ctl_free(struct stale_ctl *s);

// How devices are used, for metrics.
struct usage_ctl *usage_ctl_new(struct ctl *c);
void usage_ctl_free(struct usage_ctl *u);
void usage_ctl_metrics(struct usage_ctl *u, struct sbuf *out);

struct pod_gc *pod_gc_new(struct ctl *c, int64_t limit);
void pod_gc_free(struct pod_gc *g);

struct root_ca_ctl *root_ca_ctl_new(struct ctl *c, struct str pem);
void root_ca_ctl_set(struct root_ca_ctl *r, struct str pem);
void root_ca_ctl_free(struct root_ca_ctl *r);
struct csr_ctl *csr_ctl_new(struct ctl *c, const struct ctl_certificates *with);
void csr_ctl_set_ca(struct csr_ctl *c, struct str certificate, struct str key);
void csr_ctl_free(struct csr_ctl *c);
struct token_ctl *token_ctl_new(struct ctl *c);
void token_ctl_free(struct token_ctl *t);

struct history_ctl *history_ctl_new(struct ctl *ctl);
void history_ctl_free(struct history_ctl *h);
// PersistentVolumeClaims and PersistentVolumes.
struct volume_ctl *volume_ctl_new(struct ctl *c);
void volume_ctl_free(struct volume_ctl *c);

// --- Calls that outlive their controller ---------------------------------------------------------

// A write under way for a key. The controller may go while it is: then its answer is dropped.
struct ctl_call {
    struct list_node node; // in the controller's list
    struct work *work;
    size_t source; // whose revision shows that the write is seen
    struct str key;
    void (*failed)(void *owner, struct str key, const struct client_answer *a); // may be NULL
    uint64_t *counted; // of successes; may be NULL
    void (*ended)(const struct ctl_call *c, const struct client_answer *a); // may be NULL
    int64_t began_ns;                                                       // for ended
    void (*gone)(void *owner, struct str uid);
    void *owner;
    char *uid;
};

// ctl_call_new makes one and links it; ctl_call_done is the client_done_fn for it: it ends the step
// with work_after on success, work_done when the object is gone (-ERR_NOT_FOUND), else work_retry.
struct ctl_call *ctl_call_new(struct list *calls, struct work *work, struct str key, size_t source);
void ctl_call_done(void *arg, const struct client_answer *answer);

// ctl_call_ask asks the server whether an object is still there with this UID. If not, gone is
// called and the key is looked at again at once; if it is, the cache is behind: the key is looked
// at later.
void ctl_call_ask(struct ctl_call *c, struct client *client, const struct client_key *at,
                  struct str uid, void (*gone)(void *owner, struct str uid), void *owner);

// ctl_calls_drop cuts the calls of a controller that goes.
void ctl_calls_drop(struct list *calls);

#endif
