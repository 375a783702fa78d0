// SPDX-License-Identifier: Apache-2.0
//
// One pod and its containers, as the life cycle keeps them.
//
// A pod is starting or running (POD_ACTIVE), stopping (POD_STOPPING: containers stop, then the
// sandbox, claims and volumes are removed), or stopped (POD_STOPPED). pod_sync begins what is due;
// every end of an operation and every change wakes it again. A pod has at most one step of its
// start under way; containers stop in parallel.
#ifndef NODE_PODS_POD_H
#define NODE_PODS_POD_H

#include "base/list.h"
#include "node/pods/pod_refs.h"
#include "node/pods/pods.h"

struct pod;

// One run of a container, as the runtime reports it.
struct pod_run {
    char *id;         // NULL: none
    char *sandbox_id; // of its creation; NULL: not known
    uint32_t attempt;
    enum runtime_container_state state;
    char *image, *image_id;
    int64_t started_ns, finished_ns; // wall clock
    int32_t exit_code, signal;
    bool oom_killed;
    bool message_read;
    char *reason;  // why it ended, if more is known than the exit code
    char *message; // of its termination
};

// POD_DEBUG: an ephemeral container, added to a running pod. It does not count for the pod's phase.
enum pod_container_kind { POD_DEBUG, POD_INIT, POD_SIDECAR, POD_MAIN };

// A delay that grows with each failure and is forgotten after a while without one.
struct pod_backoff {
    int64_t delay_ns; // 0: no failure yet
    int64_t updated_ns;
};

// The steps of the start of a container, in order: pod_launch.c.
enum pod_launch_step {
    LAUNCH_IDLE,
    LAUNCH_REFS,       // fetch config maps and secrets again
    LAUNCH_FIND_IMAGE, // on this machine
    LAUNCH_PULL_IMAGE,
    LAUNCH_DEVICES,   // device plugins prepare theirs
    LAUNCH_CONFIGURE, // make the request to the runtime
    LAUNCH_CREATE,
    LAUNCH_START,
    LAUNCH_POST_START, // the hook
    LAUNCH_DONE        // probes begin
};

struct pod_launch {
    enum pod_launch_step step;
    struct arena arena; // of image and request, until the container is created
    struct str image;   // the runtime's id of it; empty: not here yet
    struct runtime_container *request;
};

struct pod_container {
    struct pod *pod;
    enum pod_container_kind kind;
    size_t index; // in the spec's list of its kind (init and sidecar: initContainers)
    struct api_container *debug; // spec of an ephemeral container, in the newest object's memory
    char *name;
    struct pod_run now, last;
    uint32_t next_attempt;
    char *image_asked; // by the spec, for the newest run; NULL: not known
    struct pod_launch launch;
    char *waiting_reason, *waiting_message; // while it does not run
    struct pod_backoff crash, pull;         // crash: on the wall clock, as the times of runs
    int64_t not_before_ns;                  // the next try; monotonic
    char *pull_error;                       // of the last pull; NULL: it did not fail
    bool started, ready;
    bool stopping;
    struct probe *probes[PROBE_TYPES];
    struct probe_action *hook;
    struct exec_timer hook_timer;
    int64_t grace_ns, stop_begun_ns; // of the stop under way
};

enum pod_stage { POD_ACTIVE, POD_STOPPING, POD_STOPPED };

// The steps of the start of a pod, in order: pod_start.c.
enum pod_start_step {
    START_IDLE,
    START_REFS, // fetch config maps, secrets and tokens
    START_VOLUMES,
    START_CLAIMS,      // prepare them
    START_OLD_SANDBOX, // stop one of an earlier attempt
    START_SANDBOX,
    START_ADDRESS, // read the sandbox's address
    START_DONE
};

// The steps of the stop of a pod, in order: pod_stop.c.
enum pod_stop_step {
    STOP_CONTAINERS,
    STOP_SANDBOX,
    STOP_CLAIMS,
    STOP_VOLUMES,
    STOP_RECORDS, // of the runtime; the pod is POD_STOPPED from here on
    STOP_FILES,
    STOP_OBJECT
};

struct pod_sandbox {
    bool ready, known;
    char *id, *address;
    uint32_t attempt;
};

struct pod_stopping {
    enum pod_stop_step step;
    bool deleting, delete_sent;
    int64_t begun_ns, grace_ns; // monotonic; the newest grace
};

// The status as the API has it.
struct pod_report {
    bool busy, dirty;
    bool refused; // the server rejects it: do not wait for it
    bool lost;    // the object was replaced: there is nothing to write to
    struct exec_timer soon, again;
    struct typed_object *written; // the last response
};

struct pod {
    struct pods *owner;
    struct list_node node;
    const struct typed_object *object; // the newest; referenced
    char *uid_text;
    enum pod_stage stage;
    enum pod_start_step start;
    struct pod_stopping stop;
    struct {            // state
        bool admitting; // waits for devices of plugins
        bool admitted;
        bool rejected;
        bool gone; // from the API
        bool busy; // a step of the start or of the stop is under way
        bool volumes_ready;
        bool evicted, evicted_for_node; // the node itself was short of something
    };
    int64_t evict_grace_ns; // of an evicted pod, if that is less than its own
    struct pod_sandbox sandbox;
    struct pod_call *pull;                // of an image: the stop does not wait for it
    char *failed_reason, *failed_message; // of the pod: DeadlineExceeded, admission
    struct api_time start_time;
    struct exec_timer wake, refresh;
    struct pod_backoff retry;
    int64_t retry_at_ns;
    struct { // ConfigMaps and Secrets
        struct pod_refs refs;
        int64_t refs_at_ns;
        bool refs_fresh;
    };
    struct list calls;
    // In the order of the spec: initContainers, containers, ephemeralContainers. Only the last kind
    // grows.
    struct pod_container **containers;
    size_t containers_len;
    struct pod_report status;
};

// An operation that ends in a callback; the pod may be freed by then.
struct pod_call {
    struct list_node node;
    struct pod *pod;
    struct pod_container *container;
    int64_t begun_ns;
    char *text;
};

#endif
