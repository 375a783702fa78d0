// SPDX-License-Identifier: Apache-2.0
//
// What runs containers, behind one interface: crun or runc with OCI bundles now, a CRI runtime
// later, memory in tests. The words are those of the CRI: a pod is a set of namespaces that its
// containers share, a container is made, started, stopped and removed, an image is pulled by
// reference.
//
// A runtime belongs to one exec. Every operation ends once, by its `done`, never before the call
// has returned. Everything is idempotent: existing pods and containers are not made again, missing
// ones are stopped and removed with success. Pods and containers outlive the process: after a
// restart `list` returns them all. Requests are copied where they must outlive the call.
#ifndef NODE_RUNTIME_RUNTIME_H
#define NODE_RUNTIME_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "node/runtime/runtime_spec.h"

struct runtime;

// --- Images --------------------------------------------------------------------------------------

enum runtime_pull { RUNTIME_PULL_IF_NOT_PRESENT, RUNTIME_PULL_ALWAYS, RUNTIME_PULL_NEVER };

struct runtime_image {
    struct str reference; // as the pod has it
    enum runtime_pull pull;
    const struct str *auths; // texts of .dockerconfigjson, tried in order; may be empty
    size_t auths_len;
};

// What removing images did.
struct image_freed {
    uint64_t capacity, available; // of their disk, afterwards, in bytes
    unsigned percent_before;      // how much of it was in use
    size_t removed;
    uint64_t wanted, freed; // bytes; wanted is 0 where the disk was not full
    bool enough;            // at least `wanted` bytes are free
};

// Percent of the disk that are in use: from high on, images go until low. min_age_ns: what was used
// since stays. all: every unused image is removed.
struct runtime_image_gc {
    unsigned high_percent, low_percent;
    int64_t min_age_ns;
    bool all;
};

// --- Measurement ---------------------------------------------------------------------------------

// What is to be measured: a pod and its containers, by the runtime's ids.
struct runtime_measure {
    struct str uid, cgroup_parent;
    const struct str *containers;
    size_t containers_len;
    bool disk; // also what they hold on disk, which takes longer
};

struct runtime_container_usage {
    int64_t memory_bytes;       // its working set
    uint64_t disk_bytes, files; // its writable layer
};

struct runtime_usage {
    int64_t memory_bytes, processes;            // of the whole pod
    struct runtime_container_usage *containers; // as many as were asked for, from the caller
};

// --- Execution in a container --------------------------------------------------------------------

struct runtime_exec;

struct runtime_exec_options {
    struct str container_id;
    const struct str *command;
    size_t command_len;
    bool stdin;
    bool tty;
    // 0: none. When it expires, all processes of the command are killed; done gets -ERR_TIMEOUT.
    int64_t timeout_ns;
    // output is called for what the command writes, stream 1 or 2. May be NULL.
    void (*output)(void *arg, int stream, struct str bytes);
    // done ends it: code 0 and exit_code, or -ERR_… when the command could not be run.
    void (*done)(void *arg, int code, int32_t exit_code, const struct err *err);
    void *arg;
};

// --- Interface -----------------------------------------------------------------------------------

typedef void (*runtime_done_fn)(void *arg, int code, const struct err *err);
// id is good until the callback returns; empty for failures.
typedef void (*runtime_id_fn)(void *arg, int code, struct str id, const struct err *err);

typedef void (*runtime_freed_fn)(void *arg, int code, const struct image_freed *freed,
                                 const struct err *err);

struct runtime_list {
    const struct runtime_pod_status *pods;
    size_t pods_len;
    const struct runtime_container_status *containers;
    size_t containers_len;
};

struct runtime_ops {
    // name and version, and what this machine does not enforce, one line each, for the node's
    // status.
    void (*about)(struct runtime *r, struct str *ret_version, const struct str **ret_not_enforced,
                  size_t *ret_len);

    // features of the machine. NULL: none.
    const struct runtime_features *(*features)(const struct runtime *r);

    // image_ensure answers with the image's id. Codes: -ERR_NOT_FOUND (not here and may not be
    // pulled: ErrImageNeverPull; or nowhere: ErrImagePull), -ERR_BAD_REQUEST
    // (InvalidImageName), …
    void (*image_ensure)(struct runtime *r, const struct runtime_image *image, runtime_id_fn done,
                         void *arg);

    // image_gc removes images that no container has, when their disk is fuller than it should be.
    // May be NULL.
    void (*image_gc)(struct runtime *r, const struct runtime_image_gc *how, runtime_freed_fn done,
                     void *arg);

    void (*pod_run)(struct runtime *r, const struct runtime_pod *pod, runtime_id_fn done,
                    void *arg);
    // pod_stop kills what still runs, and takes the namespaces apart.
    void (*pod_stop)(struct runtime *r, struct str id, runtime_done_fn done, void *arg);
    void (*pod_remove)(struct runtime *r, struct str id, runtime_done_fn done, void *arg);
    // pod_netns is a path of the pod's network namespace, NULL for the host's. Good until the next
    // call.
    const char *(*pod_netns)(struct runtime *r, struct str id);

    // container_create: -ERR_FORBIDDEN when the security context rules the image out.
    void (*container_create)(struct runtime *r, struct str pod_id,
                             const struct runtime_container *container, runtime_id_fn done,
                             void *arg);
    void (*container_start)(struct runtime *r, struct str id, runtime_done_fn done, void *arg);
    // container_stop sends the stop signal, and SIGKILL grace_ns later (0: at once). done: it has
    // ended.
    void (*container_stop)(struct runtime *r, struct str id, int64_t grace_ns, runtime_done_fn done,
                           void *arg);
    void (*container_remove)(struct runtime *r, struct str id, runtime_done_fn done, void *arg);

    // status of one container, from memory: legal at any time. Returns false for one that is not
    // known.
    bool (*container_status)(struct runtime *r, struct str id,
                             struct runtime_container_status *ret);
    void (*list)(struct runtime *r, void (*fn)(void *arg, const struct runtime_list *all),
                 void *arg);

    struct runtime_exec *(*exec)(struct runtime *r, const struct runtime_exec_options *options);
    // attach is the same with the container's own first process: command and timeout are not used,
    // its end is reported with exit code 0, and canceling it detaches without killing. Where the
    // container has no input, or its input has ended, what is written is dropped.
    struct runtime_exec *(*attach)(struct runtime *r, const struct runtime_exec_options *options);
    void (*exec_write)(struct runtime_exec *x, struct str bytes); // end of input: bytes.p NULL
    void (*exec_resize)(struct runtime_exec *x, uint16_t columns, uint16_t rows);
    // exec_queued is how many bytes of input wait for the command. May be NULL.
    size_t (*exec_queued)(const struct runtime_exec *x);
    // exec_hold pauses (true) or resumes (false) output, for a slow reader. May be NULL.
    void (*exec_hold)(struct runtime_exec *x, bool hold);
    void (*exec_cancel)(struct runtime_exec *x); // done is still called

    // measure fills in what a pod uses. It blocks, and any thread may call it while the runtime
    // lives. May be NULL.
    void (*measure)(const struct runtime *r, const struct runtime_measure *what,
                    struct runtime_usage *ret);

    // leave stops all watches, so that the loop can end while operations are under way; for an
    // owner that cannot free yet.
    void (*leave)(struct runtime *r);
    void (*free)(struct runtime *r); // containers keep running
};

// Events of a runtime, on its exec.
struct runtime_listener {
    // A container ended, or could not be watched any more.
    void (*exited)(void *arg, const struct runtime_container_status *status);
    void *arg;
};

struct runtime {
    const struct runtime_ops *ops;
    struct runtime_listener listener; // set by the user of the runtime, before the first call
};

#endif
