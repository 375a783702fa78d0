// SPDX-License-Identifier: Apache-2.0
//
// The parts of the runtime. State in memory belongs to the loop; work that blocks runs on other threads with copies
// of what it needs, in order for each pod, and answers on the loop. What is on disk (docs/containers.md) tells
// everything again after a restart.
#ifndef NODE_RUNTIME_CRUN_INT_H
#define NODE_RUNTIME_CRUN_INT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/exec.h"
#include "base/list.h"
#include "base/map.h"
#include "base/vec.h"
#include "cdi/cache.h"
#include "net/loop.h"
#include "node/image/image.h"
#include "node/runtime/cgroup.h"
#include "node/runtime/podnet.h"
#include "node/runtime/runtime.h"
#include "node/runtime/runtime_crun.h"

#define CRUN_ID_LEN     64
#define CRUN_CALL_NS    (120 * CLOCK_NS_PER_SEC) // for crun, or a monitor's answer
#define CRUN_META_BYTES ((size_t)1 << 20)

struct crun;
struct crun_watch;

// What is on disk of a pod, and goes to those who list.
struct crun_pod_meta {
    struct str namespace, name, uid, hostname, log_dir, address, cgroup;
    uint32_t attempt;
    bool host_network, host_pid, host_ipc, share_pid;
    bool stopped;
    int64_t created_ns;
    struct str boot_id;
};

struct crun_pod {
    struct crun *crun;
    char id[CRUN_ID_LEN + 1];
    struct arena arena;
    struct crun_pod_meta meta;
    const char *netns; // its path, once asked for
    bool known;        // made; false: being made
    bool gone;         // removed: freed when its last job ends
    bool busy;
    struct list jobs;
};

struct crun_container_meta {
    struct str pod, pod_uid, name, image, image_id, log, cgroup;
    uint32_t attempt;
    int stop_signal;
    int64_t created_ns;
    struct str boot_id;
};

struct crun_waiter {
    struct list_node node;
    runtime_done_fn done;
    void *arg;
};

// A container.
struct crun_container {
    struct crun *crun;
    char id[CRUN_ID_LEN + 1];
    struct arena arena;
    struct crun_container_meta meta;
    struct runtime_container_status status;
    struct crun_watch *watch; // NULL: nobody to watch
    bool starting;            // its end is told after its start
    bool end_untold;
    struct list waiters; // of its end
    struct exec_timer kill_timer;
};

// One operation. before runs on the loop when its turn has come, work elsewhere, after on the loop; then it is freed.
// Each may be NULL.
struct crun_job {
    struct list_node node;
    struct crun *crun;
    struct crun_pod *pod; // whose jobs run in order; may be NULL
    void (*before)(struct crun_job *j);
    void (*work)(struct crun_job *j);
    void (*after)(struct crun_job *j);
    struct arena arena;
    int code;
    struct err err;
    char id[CRUN_ID_LEN + 1]; // of the container or pod it is about
    struct str answer;        // of id_done, when it is not id
    runtime_done_fn done;
    runtime_id_fn id_done;
    void *arg;
    void *more; // of the operation
};

struct crun_texts VEC(struct str);
struct crun_pods MAP(struct crun_pod *);
struct crun_containers MAP(struct crun_container *);
struct crun_references MAP(struct str);
struct crun_images MAP(bool);

struct crun {
    struct runtime runtime; // first
    struct loop *loop;
    struct exec *exec;
    struct arena arena; // texts of the options and of `about`
    const char *root, *monitor, *program, *state, *cgroup_top, *filters;
    bool is_crun, no_seccomp, no_overlay, no_cgroups;
    struct str boot_id, version;
    const char *hide; // a mount that crun must not see; NULL: none
    struct crun_texts not_enforced;
    struct cgroup_layout cgroups;
    struct image_store *images;
    struct podnet *net; // NULL: pods have a loopback only
    pthread_mutex_t cdi_lock;
    struct cdi_cache *cdi;
    int lock;
    struct crun_pods pods;
    struct crun_containers containers;
    struct list making;                // containers that are not in containers yet
    struct crun_references references; // what images were asked for as, by id
    // The thread that pulls.
    pthread_t puller;
    bool puller_runs, puller_stops;
    pthread_mutex_t pull_lock;
    pthread_cond_t pull_wake;
    struct list pulls;
    size_t under_way;
    bool left;  // nothing is watched any more
    bool freed; // by who had it: it goes with the last that is under way
    uint64_t execs;
};

struct crun *crun_of(struct runtime *r);

// crun_name_ok: a name can be a file's. crun_pairs_copy copies pairs and their strings.
bool crun_name_ok(struct str s);
struct runtime_pair *crun_pairs_copy(const struct runtime_pair *from, size_t n, struct arena *a);

// --- Jobs ----------------------------------------------------------------------------------------

struct crun_job *crun_job_new(struct crun *c, struct crun_pod *pod);
void crun_job_submit(struct crun_job *j);
// crun_job_end runs what follows the work; for those that did not go through a pool.
void crun_job_end(struct crun_job *j);
// crun_operation_ended: something that is counted as under way has ended. Its caller touches c no more.
void crun_operation_ended(struct crun *c);
// crun_answer_later answers an operation without work, later.
void crun_answer_later(struct crun *c, int code, const char *why, runtime_done_fn done, void *arg);

// --- Names and files -----------------------------------------------------------------------------

void crun_pod_id(const struct crun *c, struct str uid, uint32_t attempt, char out[CRUN_ID_LEN + 1]);
void crun_container_id(const struct crun *c, struct str pod_id, struct str name, uint32_t attempt,
                       char out[CRUN_ID_LEN + 1]);
bool crun_id_ok(struct str id);
struct str crun_pod_dir(const struct crun *c, const char *id, struct arena *arena);
struct str crun_container_dir(const struct crun *c, const char *id, struct arena *arena);

int crun_pod_write(const struct crun *c, const char *id, const struct crun_pod_meta *said,
                   struct err *err) MUST_USE;
int crun_pod_read(const char *folder, struct arena *arena, struct crun_pod_meta *ret) MUST_USE;
int crun_container_write(const struct crun *c, const char *id,
                         const struct crun_container_meta *said, struct err *err) MUST_USE;
int crun_container_read(const char *folder, struct arena *arena,
                        struct crun_container_meta *ret) MUST_USE;

// crun_container_read_end reads how a container ended. False: it has not, or nobody knows.
bool crun_container_read_end(const char *folder, struct runtime_container_status *ret);
int64_t crun_container_read_time(const char *folder, const char *name);

// --- Pods ----------------------------------------------------------------------------------------

void crun_pod_run(struct runtime *r, const struct runtime_pod *pod, runtime_id_fn done, void *arg);
void crun_pod_stop(struct runtime *r, struct str id, runtime_done_fn done, void *arg);
void crun_pod_remove(struct runtime *r, struct str id, runtime_done_fn done, void *arg);
const char *crun_pod_netns(struct runtime *r, struct str id);
// crun_pod_dismantle takes a pod's namespaces and network apart; its folder stays. It blocks.
void crun_pod_dismantle(const struct crun *c, const char *id, const struct crun_pod_meta *m);
struct crun_pod *crun_pod_find(struct crun *c, struct str id);
struct crun_pod *crun_pod_add(struct crun *c, const char *id);
void crun_pod_drop(struct crun_pod *p); // freed when nothing is under way for it

// --- Containers ----------------------------------------------------------------------------------

void crun_container_create(struct runtime *r, struct str pod_id,
                           const struct runtime_container *container, runtime_id_fn done,
                           void *arg);
// crun_image_of_making is the id of the image of one that is being made.
struct str crun_image_of_making(const struct list_node *n);
void crun_container_start(struct runtime *r, struct str id, runtime_done_fn done, void *arg);
void crun_container_stop(struct runtime *r, struct str id, int64_t grace_ns, runtime_done_fn done,
                         void *arg);
void crun_container_remove(struct runtime *r, struct str id, runtime_done_fn done, void *arg);
struct crun_container *crun_container_find(struct crun *c, struct str id);
struct crun_container *crun_container_add(struct crun *c, const char *id,
                                          const struct crun_container_meta *meta);
void crun_container_free(struct crun_container *ct);
// crun_container_detach: nobody watches it any more, and nobody waits for its end.
void crun_container_detach(struct crun_container *ct);
// crun_container_ended: it came to its end; whoever waits hears of it.
void crun_container_ended(struct crun_container *ct);

// crun_container_kill ends a container's processes and waits for its monitor, from what is on disk alone; afterwards the
// file `exit` is there. It blocks. Returns 0, or -ERR_TIMEOUT when something would not die.
int crun_container_kill(const struct crun *c, const char *id, struct str cgroup,
                        struct err *err) MUST_USE;
// crun_container_destroy is that, and its files go. It blocks.
int crun_container_destroy(const struct crun *c, const char *id, struct str cgroup,
                           struct err *err) MUST_USE;

// crun_container_copy copies what the caller may free.
struct runtime_container *crun_container_copy(const struct runtime_container *from,
                                              struct arena *arena);

// --- Monitors ------------------------------------------------------------------------------------

// crun_monitor_send connects to a container's monitor and says one thing. Returns the connection, or -errno.
int crun_monitor_send(const char *folder, const char *text);
// crun_monitor_receive waits for one packet. Returns its length, 0 at the end, -ERR_TIMEOUT or -errno.
ssize_t crun_monitor_receive(int fd, char *buf, size_t cap, int64_t timeout_ns);
// crun_monitor_call is both, for an "ok". Returns 0, or a negative code with the monitor's words.
int crun_monitor_call(const char *folder, const char *text, struct err *err) MUST_USE;

// crun_watch_start watches a container through a connection, which it takes.
void crun_watch_start(struct crun_container *ct, int fd);
void crun_watch_stop(struct crun_container *ct);
// crun_container_update changes a container's status by what its monitor said.
void crun_container_update(struct crun_container *ct, struct str said);

// crun_runtime_error finds the message in what crun wrote to its log.
void crun_runtime_error(struct str said, struct sbuf *out);

// --- The start -----------------------------------------------------------------------------------

int crun_detect(struct crun *c, const struct runtime_crun_options *o, struct err *err) MUST_USE;
int crun_recover(struct crun *c, struct err *err) MUST_USE;

// --- Images, execution ---------------------------------------------------------------------------

void crun_image_ensure(struct runtime *r, const struct runtime_image *image, runtime_id_fn done,
                       void *arg);
void crun_image_gc(struct runtime *r, const struct runtime_image_gc *how, runtime_freed_fn done,
                   void *arg);
void crun_puller_stop(struct crun *c);

struct runtime_exec *crun_exec(struct runtime *r, const struct runtime_exec_options *options);
struct runtime_exec *crun_attach(struct runtime *r, const struct runtime_exec_options *options);
void crun_exec_write(struct runtime_exec *x, struct str bytes);
void crun_exec_resize(struct runtime_exec *x, uint16_t columns, uint16_t rows);
size_t crun_exec_queued(const struct runtime_exec *x);
void crun_exec_hold(struct runtime_exec *x, bool hold);
void crun_exec_cancel(struct runtime_exec *x);

#endif
