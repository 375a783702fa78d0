// SPDX-License-Identifier: Apache-2.0
//
// The parts of the runtime. State in memory belongs to the loop; work that blocks runs on other
// threads with copies of what it needs, in order for each pod, and answers on the loop. The files
// on disk (docs/design/containers.md) restore everything again after a restart.
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
#include "node/runtime/crun_state.h"
#include "node/runtime/podnet.h"
#include "node/runtime/runtime.h"
#include "node/runtime/runtime_crun.h"

#define CRUN_CALL_NS    (120 * CLOCK_NS_PER_SEC) // for crun, or a monitor's answer
#define CRUN_META_BYTES ((size_t)1 << 20)

struct crun_watch;

struct crun_pod {
    struct crun *crun;
    char id[CRUN_ID_LEN + 1];
    struct arena arena;
    struct crun_pod_meta meta;
    const char *netns; // its path, on first use
    bool known;        // made; false: being made
    bool gone;         // removed: freed when its last job ends
    bool busy;
    struct list jobs;
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
    struct crun_watch *watch; // NULL: not watched
    bool starting;            // its end is reported after its start
    bool end_untold;
    struct list waiters; // of its end
    struct exec_timer kill_timer;
};

// One operation. before runs on the loop when its turn has come, work elsewhere, after on the loop;
// then it is freed. Each may be NULL.
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

// Paths of programs and directories, made absolute at the start.
struct crun_paths {
    const char *root, *monitor, *filters;
    const char *hide; // a mount that crun must not see; NULL: none
};

// The thread that pulls images, and removes them between two pulls.
struct crun_puller {
    pthread_t thread;
    bool runs, stops;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct list queue;
};

struct crun {
    struct runtime runtime; // first
    struct loop *loop;
    struct exec *exec;
    struct arena arena; // texts of the options and of `about`
    struct crun_paths paths;
    struct {
        bool no_overlay, no_cgroups;
    } machine;
    struct {
        struct crun_programs programs; // the first is the default; never empty
        struct runtime_features features;
        struct str version; // of the default
    };
    const char *cgroup_top;
    struct str boot_id;
    struct crun_texts not_enforced;
    struct cgroup_layout cgroups;
    struct image_store *images;
    struct podnet *net; // NULL: pods have a loopback only
    pthread_mutex_t cdi_lock;
    struct cdi_cache *cdi;
    int lock;
    struct crun_pods pods;
    struct crun_containers containers;
    struct list making;                // containers that are not in `containers` yet
    struct crun_references references; // how pods referred to images, by id
    struct crun_puller puller;
    size_t under_way;
    bool left;  // nothing is watched any more
    bool freed; // by its owner; destroyed with the last operation that is under way
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
// crun_operation_ended: something that is counted as under way has ended. Its caller touches c no
// more.
void crun_operation_ended(struct crun *c);
// crun_answer_later answers an operation without work, later.
void crun_answer_later(struct crun *c, int code, const char *why, runtime_done_fn done, void *arg);

// --- Pods ----------------------------------------------------------------------------------------

void crun_pod_run(struct runtime *r, const struct runtime_pod *pod, runtime_id_fn done, void *arg);
void crun_pod_stop(struct runtime *r, struct str id, runtime_done_fn done, void *arg);
void crun_pod_remove(struct runtime *r, struct str id, runtime_done_fn done, void *arg);
const char *crun_pod_netns(struct runtime *r, struct str id);
void crun_measure(const struct runtime *r, const struct runtime_measure *what,
                  struct runtime_usage *ret);
// crun_pod_dismantle takes a pod's namespaces and network apart; its directory stays. It blocks.
void crun_pod_dismantle(const struct crun *c, const char *id, const struct crun_pod_meta *m);
struct crun_pod *crun_pod_find(struct crun *c, struct str id);
struct crun_pod *crun_pod_add(struct crun *c, const char *id);
void crun_pod_drop(struct crun_pod *p); // freed when nothing is under way for it

// --- Containers ----------------------------------------------------------------------------------

void crun_container_create(struct runtime *r, struct str pod_id,
                           const struct runtime_container *container, runtime_id_fn done,
                           void *arg);
// crun_image_of_making is the image id of a container in creation.
struct str crun_image_of_making(const struct list_node *n);
void crun_container_start(struct runtime *r, struct str id, runtime_done_fn done, void *arg);
void crun_container_stop(struct runtime *r, struct str id, int64_t grace_ns, runtime_done_fn done,
                         void *arg);
void crun_container_remove(struct runtime *r, struct str id, runtime_done_fn done, void *arg);
struct crun_container *crun_container_find(struct crun *c, struct str id);
struct crun_container *crun_container_add(struct crun *c, const char *id,
                                          const struct crun_container_meta *meta);
void crun_container_free(struct crun_container *ct);
// crun_container_detach stops watching it and answers those that wait for its end.
void crun_container_detach(struct crun_container *ct);
// crun_container_ended reports its end to the listener and to the waiters.
void crun_container_ended(struct crun_container *ct);

// crun_container_kill ends a container's processes and waits for its monitor, from what is on disk
// alone; afterwards the file `exit` is there. It blocks. Returns 0, or -ERR_TIMEOUT when something
// would not die.
int crun_container_kill(const struct crun *c, const char *id, struct str cgroup,
                        struct err *err) MUST_USE;
// crun_container_destroy is that, and its files go. It blocks.
int crun_container_destroy(const struct crun *c, const char *id, struct str cgroup,
                           struct err *err) MUST_USE;

// crun_container_copy is a deep copy of a request.
struct runtime_container *crun_container_copy(const struct runtime_container *from,
                                              struct arena *arena);

// --- Monitors ------------------------------------------------------------------------------------

// crun_monitor_send connects to a container's monitor and sends one request. Returns the
// connection, or -errno.
int crun_monitor_send(const char *folder, const char *text);
// crun_monitor_receive waits for one packet. Returns its length, 0 at the end, -ERR_TIMEOUT or
// -errno.
ssize_t crun_monitor_receive(int fd, char *buf, size_t cap, int64_t timeout_ns);
// crun_monitor_call is both, for an "ok". Returns 0, or a negative code with the monitor's message.
int crun_monitor_call(const char *folder, const char *text, struct err *err) MUST_USE;

// crun_watch_start watches a container through a connection, which it takes.
void crun_watch_start(struct crun_container *ct, int fd);
void crun_watch_stop(struct crun_container *ct);
// crun_container_update changes a container's status by a packet of its monitor.
void crun_container_update(struct crun_container *ct, struct str said);

// crun_runtime_error finds the error message in crun's log.
void crun_runtime_error(struct str said, struct sbuf *out);

// --- Start ---------------------------------------------------------------------------------------

static inline const char *crun_hidden_mount(const struct crun *c, const struct crun_program *p)
{
    return p->is_crun && c->paths.hide ? c->paths.hide : "";
}
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
