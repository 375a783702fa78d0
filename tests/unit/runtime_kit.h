// SPDX-License-Identifier: Apache-2.0
//
// A real runtime for tests, called as if it blocked.
#ifndef UNIT_RUNTIME_KIT_H
#define UNIT_RUNTIME_KIT_H

#include "image_kit.h"
#include "node/runtime/runtime_crun.h"
#include "unit.h"

struct kit_runtime {
    struct loop *loop;
    struct runtime *runtime;
    char dir[64];
    char image[80]; // id of the busybox image
    char bridge[16];
    char cgroup_top[48];
    const char *monitor;
    const char *program;  // NULL: as found
    struct sbuf not_here; // why it cannot run on this machine
    // The last answer.
    bool answered;
    int code;
    char id[160];
    struct err err;
    // The last end of a container.
    bool exited;
    struct runtime_container_status end;
    char end_id[80];
};

// kit_runtime_possible says why tests with containers cannot run here, or NULL.
const char *kit_runtime_possible(void);

// kit_runtime_open makes a folder and a runtime in it; kit_runtime_again a new runtime over the same folder.
void kit_runtime_open(struct kit_runtime *k);
void kit_runtime_again(struct kit_runtime *k);
void kit_runtime_quit(struct kit_runtime *k);  // what runs goes on
void kit_remove_pods(struct kit_runtime *k);   // all of them
void kit_runtime_close(struct kit_runtime *k); // all pods go, and nothing may be left

// Each waits for the answer; the id or the error is in k. Returns the code.
int kit_image(struct kit_runtime *k, const char *reference, enum runtime_pull pull);
int kit_pod(struct kit_runtime *k, const char *uid, char id[80]);
int kit_pod_run(struct kit_runtime *k, const struct runtime_pod *pod, char id[80]);
int kit_pod_stop(struct kit_runtime *k, const char *id);
int kit_pod_remove(struct kit_runtime *k, const char *id);
int kit_create(struct kit_runtime *k, const char *pod, const struct runtime_container *c,
               char id[80]);
// kit_shell makes a container that runs a script.
int kit_shell(struct kit_runtime *k, const char *pod, const char *name, const char *script,
              char id[80]);
int kit_start(struct kit_runtime *k, const char *id);
int kit_stop(struct kit_runtime *k, const char *id, int64_t grace_ns);
int kit_remove_container(struct kit_runtime *k, const char *id);
// kit_exec runs a command; what it says goes to out. Returns the code; *ret_exit is its status.
int kit_exec(struct kit_runtime *k, const char *id, const char *script, int64_t timeout_ns,
             struct sbuf *out, int32_t *ret_exit);
struct runtime_container_status kit_status(struct kit_runtime *k, const char *id);
// kit_wait waits until a container is at its end.
struct runtime_container_status kit_wait(struct kit_runtime *k, const char *id);
// kit_log adds what a container said, without times and streams.
void kit_log(struct kit_runtime *k, const char *name, unsigned attempt, struct sbuf *out);
// kit_run runs a script in a pod of its own to its end, and adds what it said to out. Returns its exit code.
int kit_run(struct kit_runtime *k, const struct runtime_container *like, const char *script,
            struct sbuf *out);
// kit_turn lets the loop run until *flag, at most a minute.
void kit_turn(struct kit_runtime *k, const bool *flag);

#endif
