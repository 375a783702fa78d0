// SPDX-License-Identifier: Apache-2.0
//
// What the files of the pod life cycle share. Private to src/agent.
//
// A pod is one of: starting or running (POD_ACTIVE), ending (POD_STOPPING: containers stop, then namespaces,
// claims and volumes go), ended (POD_STOPPED). pod_sync looks at it and begins what is due; whatever
// ends or changes wakes it again. At most one step of the start is under way for each pod; containers stop
// side by side.
#ifndef NODE_PODS_PODS_INT_H
#define NODE_PODS_PODS_INT_H

#include "base/list.h"
#include "base/map.h"
#include "base/vec.h"
#include "client/informer.h"
#include "node/pods/pod_refs.h"
#include "node/pods/pods.h"

struct pod;

// One run of a container, as the runtime told of it.
struct pod_run {
    char *id;         // NULL: there is none
    char *sandbox_id; // that it was made in; NULL: not known
    uint32_t attempt;
    enum runtime_container_state state;
    char *image, *image_id;
    int64_t started_ns, finished_ns; // wall clock
    int32_t exit_code, signal;
    bool oom_killed;
    bool message_read;
    char *reason;  // why it ended, if more is known than the exit code
    char *message; // its last words
};

// POD_DEBUG: an ephemeral container, which was added to a pod that was here already. It counts for nothing.
enum pod_container_kind { POD_DEBUG, POD_INIT, POD_SIDECAR, POD_MAIN };

// A delay that grows with each failure and is forgotten after a good while.
struct pod_backoff {
    int64_t delay_ns; // 0: no failure yet
    int64_t updated_ns;
};

struct pod_container {
    struct pod *pod;
    enum pod_container_kind kind;
    size_t index; // in the spec's list of its kind (init and sidecar: initContainers)
    struct api_container
        *debug; // what the newest object says of an ephemeral container, in its memory
    char *name;
    struct pod_run now, last;
    uint32_t next_attempt;
    char *image_asked; // by the spec, for the run of now; NULL: not known
    // Why it does not run, while it does not.
    char *waiting_reason, *waiting_message;
    struct pod_backoff crash, pull; // crash: on the wall clock, as the times of runs
    int64_t not_before_ns;          // another try; monotonic
    char *pull_error;               // what the last pull said; NULL: it did not fail
    bool started, ready;
    bool stopping; // a stop is under way
    bool hook_done;
    struct probe *probes[PROBE_TYPES];
    struct probe_action *hook;
    struct exec_timer hook_timer;
    int64_t grace_ns, stop_begun_ns; // of the stop under way
};

enum pod_stage { POD_ACTIVE, POD_STOPPING, POD_STOPPED };

// How far the end has come.
enum pod_end { END_CONTAINERS, END_SANDBOX, END_CLAIMS, END_VOLUMES, END_DONE };

struct pod {
    struct pods *owner;
    struct list_node node;
    const struct typed_object *object; // the newest; kept
    struct str uid;                    // in object's memory: refreshed with it
    char *uid_text;
    enum pod_stage stage;
    enum pod_end end;
    bool admitting; // it waits for its devices
    bool admitted;
    bool rejected;
    bool gone;    // from the API
    bool removed; // everything of it is removed from the machine
    bool freed;   // after what is under way
    bool busy;    // a step of the start or of the end is under way
    bool again;   // look once more when it is over
    bool deleting, delete_sent;
    bool sandbox_ready, sandbox_known;
    bool claims_ready;
    bool volumes_ready;
    char *sandbox_id, *address;
    uint32_t sandbox_attempt;
    struct pod_call *pull; // an image on its way: the one step that is not waited for
    char *failed_reason, *failed_message; // pod-level: DeadlineExceeded, admission
    struct api_time start_time;
    int64_t stop_begun_ns, stop_grace_ns; // monotonic; grace as it is now
    struct exec_timer wake;
    struct pod_backoff retry;
    int64_t retry_at_ns;
    struct pod_refs refs;
    int64_t refs_at_ns;
    bool refs_fresh;
    struct exec_timer refresh;
    struct list calls;
    // In the order of the spec: initContainers, containers, ephemeralContainers. Only the last kind grows.
    struct pod_container **containers;
    size_t containers_len;
    // Status
    bool status_busy, status_dirty;
    bool status_refused; // the server does not take it: nothing waits for it
    bool status_lost;    // the object is another one now: there is nothing to write to
    struct exec_timer status_soon, status_again;
    struct typed_object *written; // the last answer
    char *last_event;             // reason and message of the last failure told
};

struct pod_table MAP(struct pod *); // by UID

// A call of the node's own, or for an orphan; the owner may be gone when it ends.
struct pods_call {
    struct list_node node;
    struct pods *owner;
};

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
    bool swept;              // what runtime and API have is known, and orphans are on their way out
    bool quiet;              // nothing new is begun
    struct str runtime_name; // of container ids
    struct sbuf found[2];
};

// --- Calls ---------------------------------------------------------------------------------------

// An operation of somebody else that ends in a callback; the pod may be gone by then.
struct pod_call {
    struct list_node node;
    struct pod *pod;
    struct pod_container *container;
    int64_t begun_ns;
    char *text;
};

struct pod_call *pod_call_new(struct pod *p, struct pod_container *c);
// pod_call_take ends a call: true, or false when the pod is gone. The call is freed in both cases, with
// what it knew in *ret.
bool pod_call_take(void *arg, struct pod_call *ret);

// --- pods.c --------------------------------------------------------------------------------------

const struct api_pod *pod_spec_of(const struct pod *p);
const struct api_container *pod_container_spec(const struct pod_container *c);
struct pod_container *pod_container_named(struct pod *p, struct str name);

// pod_wake looks at a pod in a while; 0: as soon as control is back at the exec. The earlier time counts.
void pod_wake(struct pod *p, int64_t delay_ns);
void pod_directory(const struct pod *p, struct sbuf *out);
void pod_log_directory(const struct pod *p, struct sbuf *out);
void pod_release(struct pod *p); // frees it when nothing is under way

// pod_add_event tells of a pod, pod_container_event of a container (c may be NULL).
void pod_add_event(struct pod *p, struct str type, const char *reason, const char *fmt, ...)
    ERR_PRINTF(4, 5);
void pod_container_event(struct pod_container *c, struct str type, const char *reason,
                         const char *fmt, ...) ERR_PRINTF(4, 5);

void pod_run_done(struct pod_run *r);
void pod_run_set(struct pod_run *to, const struct runtime_container_status *s);

int64_t pod_backoff_next(struct pod_backoff *b, int64_t failed_ns, int64_t first_ns,
                         int64_t max_ns);

// --- pod_admit.c ---------------------------------------------------------------------------------

// pod_admit says whether a pod may run here; else reason and message get upstream's texts.
bool pod_admit(struct pods *p, struct pod *pod, struct sbuf *reason, struct sbuf *message);

// --- pod_isolation.c -----------------------------------------------------------------------------

// pod_isolation_is_possible: this agent can provide the isolation that a pod's fields promise; else reason and
// message say what it cannot. only: of the containers, just this one counts; NULL: all.
bool pod_isolation_is_possible(const struct pod *pod, const struct pod_container *only,
                               struct sbuf *reason, struct sbuf *message);
// pod_runtime_class_is_known: the pod names no RuntimeClass, or one that exists.
bool pod_runtime_class_is_known(const struct pod *pod);
// pods_watch_runtime_classes makes the informer; the caller starts and frees it.
void pods_watch_runtime_classes(struct pods *p);

// --- pod_sync.c ----------------------------------------------------------------------------------

void pod_sync(struct pod *p);
void pod_step_done(struct pod *p);                         // a step ended well: look again
void pod_step_failed(struct pod *p);                       // later again
void pod_stop(struct pod *p, const char *why);             // begin the end
bool pod_container_is_over(const struct pod_container *c); // ended, and is not started again
void pod_container_exited(struct pod_container *c);
bool pod_run_is_stale(const struct pod *p, const struct pod_run *r); // of other namespaces
bool pod_container_is_alive(const struct pod_container *c);          // may have processes

// --- pod_start.c ---------------------------------------------------------------------------------

void pod_start_sandbox(struct pod *p);             // volumes, claims, namespaces
void pod_start_container(struct pod_container *c); // image, create, start, postStart
void pod_container_wait(struct pod_container *c, const char *reason, const char *message);
void pod_begin_probes(struct pod_container *c);
void pod_end_probes(struct pod_container *c, bool all);
void pod_probe_target(const struct pod_container *c, struct probe_target *ret);

// --- pod_logs.c ----------------------------------------------------------------------------------

void pod_logs_start(struct pods *p); // looks at their sizes from now on
void pod_logs_drop(const struct pod_container *c, uint32_t attempt); // of a run that is not kept

// --- pod_stop.c ----------------------------------------------------------------------------------

// pod_stop_container ends one: preStop, then the stop with the rest of the grace.
void pod_stop_container(struct pod_container *c, int64_t grace_ns, const char *message);
void pod_continue_stop(struct pod *p);
int64_t pod_grace_ns(const struct pod *p);
// pod_seconds_ns: a pod's seconds are any number; of more than an int32 holds, which the server cuts deletions to, as many.
int64_t pod_seconds_ns(int64_t seconds);
// pods_sweep begins to remove what no pod of the API has; pods_free_orphans frees what it keeps of that.
void pods_sweep(struct pods *p, const struct runtime_list *all);
void pods_free_orphans(struct pods *p);

// --- pod_container.c -----------------------------------------------------------------------------

struct pod_request {
    struct runtime_container container;
    const char *message_file; // of termination messages, on the host
};

// pod_request_make says what the runtime shall make, in arena. -ERR_… : CreateContainerConfigError.
int pod_request_make(struct pod_container *c, struct str image, struct arena *arena,
                     struct pod_request *ret, struct err *err) MUST_USE;

// pod_message_read reads the last words of a run.
void pod_message_read(struct pod_container *c, struct pod_run *r);
void pod_message_path(const struct pod_container *c, uint32_t attempt, struct sbuf *out);

// --- pod_status.c --------------------------------------------------------------------------------

// pod_status_changed writes the status if it is another than the API has.
void pod_status_changed(struct pod *p);
void pod_status_flush(void *arg);
// pod_phase is the phase as it is now.
struct str pod_phase(const struct pod *p);
bool pod_status_written(const struct pod *p); // the API knows the final state

#endif
