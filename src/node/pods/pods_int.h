// SPDX-License-Identifier: Apache-2.0
//
// Shared by the files of the pod life cycle: the node's set of pods, and functions on one pod.
#ifndef NODE_PODS_PODS_INT_H
#define NODE_PODS_PODS_INT_H

#include "base/map.h"
#include "base/vec.h"
#include "client/informer.h"
#include "node/eviction.h"
#include "node/limits/usage.h"
#include "node/pods/pod.h"

struct pod_table MAP(struct pod *); // by UID

// A call for the node or an orphan; the owner may be freed when it ends.
struct pods_call {
    struct list_node node;
    struct pods *owner;
};

struct pods_evict;

struct pods {
    struct pods_options options;
    struct exec *exec;
    struct arena arena; // of the options
    struct dra *dra;
    struct devplug *devices; // NULL: no device plugins
    struct informer *informer;
    struct informer *services;
    struct informer *runtime_classes;
    struct pod_table by_uid;
    struct list all;
    struct list orphans;
    struct list calls; // of orphans
    struct exec_timer logs;
    struct pods_evict *evict;
    bool swept;              // pods of runtime and API are known; orphans are being removed
    bool quiet;              // begin nothing new
    struct str runtime_name; // of container ids
    struct sbuf found[2];
};

static inline struct runtime *pod_runtime(const struct pod *p)
{
    return p->owner->options.runtime;
}

// --- Calls ---------------------------------------------------------------------------------------

struct pod_call *pod_call_new(struct pod *p, struct pod_container *c);
// pod_call_take ends a call: true, or false when the pod is gone. The call is copied to *ret and
// freed in both cases.
bool pod_call_take(void *arg, struct pod_call *ret);

// --- pods.c --------------------------------------------------------------------------------------

const struct api_pod *pod_spec_of(const struct pod *p);
const struct api_container *pod_container_spec(const struct pod_container *c);
struct pod_container *pod_container_named(struct pod *p, struct str name);

// pod_text_copy copies to the heap; pod_text_set replaces a text with a copy (NULL: none).
char *pod_text_copy(struct str s);
void pod_text_set(char **at, const char *text);

// pod_wake runs pod_sync after a delay; 0: in the next turn of the exec. The earlier time counts.
void pod_wake(struct pod *p, int64_t delay_ns);
void pod_directory(const struct pod *p, struct sbuf *out);
void pod_log_directory(const struct pod *p, struct sbuf *out);
void pod_release(struct pod *p); // frees it when nothing is under way

// pod_add_event records an event of a pod, pod_container_event of a container.
void pod_add_event(struct pod *p, struct str type, const char *reason, const char *fmt, ...)
    ERR_PRINTF(4, 5);
void pod_container_event(struct pod_container *c, struct str type, const char *reason,
                         const char *fmt, ...) ERR_PRINTF(4, 5);

void pod_run_done(struct pod_run *r);
void pod_run_set(struct pod_run *to, const struct runtime_container_status *s);

int64_t pod_backoff_next(struct pod_backoff *b, int64_t failed_ns, int64_t first_ns,
                         int64_t max_ns);

// --- pod_admit.c ---------------------------------------------------------------------------------

// pod_admit: the pod may run here; else reason and message get upstream's texts.
bool pod_admit(struct pods *p, struct pod *pod, struct sbuf *reason, struct sbuf *message);

// --- pod_usage.c, pod_evict.c --------------------------------------------------------------------

// What a container uses: its runs that are kept are pod_usage.ids[first...].
struct pod_usage_container {
    struct str name;
    const char *logs;
    size_t first, runs;
    int64_t memory_bytes;
    struct usage layers, log;
};

struct pod_usage_volume {
    struct str name;
    const char *path;
    bool memory; // in memory: not on the disk
    struct usage usage;
};

struct pod_usage_containers VEC(struct pod_usage_container);
struct pod_usage_volumes VEC(struct pod_usage_volume);
struct pod_usage_ids VEC(struct str);

struct pod_usage {
    struct str uid, cgroup_parent;
    struct pod_usage_ids ids;
    struct pod_usage_containers containers;
    struct pod_usage_volumes volumes; // emptyDirs
    int64_t memory_bytes, processes;
    struct usage disk; // writable layers, logs and emptyDirs
};

// pod_usage_gather notes where to look; pod_usage_measure looks, on any thread.
void pod_usage_gather(const struct pod *p, struct arena *arena, struct pod_usage *ret);
void pod_usage_measure(const struct runtime *runtime, bool disk, struct arena *arena,
                       struct pod_usage *u);
bool pod_has_storage_limit(const struct api_pod *pod);

struct pods_evict *pods_evict_new(struct pods *p);
void pods_evict_start(struct pods_evict *e);
bool pods_evict_busy(const struct pods_evict *e);
void pods_evict_free(struct pods_evict *e);
// pod_evict_admits: the node is not too short of something for this pod.
bool pod_evict_admits(const struct pod *p, struct sbuf *message);

// --- pod_isolation.c -----------------------------------------------------------------------------

// pod_isolation_is_possible: this node can provide the isolation that a pod's fields promise; else
// reason and message state what it cannot. only: of the containers, just this one counts; NULL:
// all.
bool pod_isolation_is_possible(const struct pod *pod, const struct pod_container *only,
                               struct sbuf *reason, struct sbuf *message);
// pod_handler is that of the pod's RuntimeClass; empty: the default one.
void pod_handler(const struct pod *p, struct str *ret);
// pod_set_labels sets AppArmor profile and SELinux labels of a container, in arena.
void pod_set_labels(const struct pod_container *c, struct arena *arena, struct runtime_security *s);
// pod_mount_is_recursive: a read-only mount is so with all below it.
bool pod_mount_is_recursive(const struct pod *p, const struct api_volume_mount *m);
// pod_runtime_class_is_known: the pod names no RuntimeClass, or one that exists.
bool pod_runtime_class_is_known(const struct pod *pod);
// pods_watch_runtime_classes makes the informer; the caller starts and frees it.
void pods_watch_runtime_classes(struct pods *p);

// --- pod_sync.c ----------------------------------------------------------------------------------

void pod_sync(struct pod *p);
void pod_stop(struct pod *p);
bool pod_container_is_over(const struct pod_container *c); // ended, and is not started again
void pod_container_exited(struct pod_container *c);
bool pod_run_is_stale(const struct pod *p, const struct pod_run *r); // of another sandbox
bool pod_container_is_alive(const struct pod_container *c);          // may have processes

// A step of a chain returns 0 (done), a failure, or POD_STEP_WAITS: its callback advances the
// chain.
#define POD_STEP_WAITS 1

void pod_step_done(struct pod *p);   // the chain ended well: pod_sync
void pod_step_failed(struct pod *p); // retry it later
// pod_step_goes_on: the pod is still active; else its chain has ended, and pod_sync begins what is
// due.
bool pod_step_goes_on(struct pod *p);
// pod_step_take is pod_call_take and pod_step_goes_on.
bool pod_step_take(void *arg, struct pod_call *ret);

// --- pod_start.c, pod_launch.c, pod_probes.c -----------------------------------------------------

void pod_start_sandbox(struct pod *p);
struct str pod_cgroup_parent(const struct api_pod *pod); // by its class of service; a literal
// pod_drop_last_run removes the files of the run before the newest; its status stays.
void pod_drop_last_run(struct pod_container *c);
void pod_start_container(struct pod_container *c);
void pod_container_wait(struct pod_container *c, const char *reason, const char *message);
void pod_probes_begin(struct pod_container *c);
void pod_probes_end(struct pod_container *c, bool all);
// pod_hook_run runs a handler of the life cycle: done is called, or slept after a sleep (timeout_ns
// at most).
void pod_hook_run(struct pod_container *c, const struct api_lifecycle_handler *h,
                  int64_t timeout_ns, exec_fn slept, probe_net_fn done);

// --- pod_logs.c ----------------------------------------------------------------------------------

void pod_logs_start(struct pods *p);                                 // rotates them from now on
void pod_logs_drop(const struct pod_container *c, uint32_t attempt); // of a run that is not kept

// --- pod_stop.c ----------------------------------------------------------------------------------

// pod_stop_container ends one: preStop, then the stop with the rest of the grace.
void pod_stop_container(struct pod_container *c, int64_t grace_ns, const char *message);
void pod_continue_stop(struct pod *p);
int64_t pod_grace_ns(const struct pod *p);
// pod_seconds_ns converts a pod's seconds, which may be any number; the largest int32 is the most,
// as for the server's deletions.
int64_t pod_seconds_ns(int64_t seconds);
// pods_sweep begins to remove what belongs to no pod of the API; pods_free_orphans frees its
// records.
void pods_sweep(struct pods *p, const struct runtime_list *all);
void pods_free_orphans(struct pods *p);

// --- pod_container.c -----------------------------------------------------------------------------

// pod_request_make fills the request to the runtime, in arena. -ERR_…: CreateContainerConfigError.
int pod_request_make(struct pod_container *c, struct str image, struct arena *arena,
                     struct runtime_container *q, struct err *err) MUST_USE;

// pod_set_cpu sets shares and quota from a request and a limit; each may be NULL.
void pod_set_cpu(const struct quantity *request, const struct quantity *limit,
                 struct runtime_limits *l);

// pod_message_read reads the termination message of a run.
void pod_message_read(struct pod_container *c, struct pod_run *r);
void pod_message_path(const struct pod_container *c, uint32_t attempt, struct sbuf *out);

// --- pod_status.c --------------------------------------------------------------------------------

// pod_status_changed writes the status if it differs from the API's.
void pod_status_changed(struct pod *p);
bool pod_status_written(const struct pod *p); // the API knows the final state

#endif
