// SPDX-License-Identifier: Apache-2.0
//
// The runtime's files: identifiers of pods and containers, their directories, and the descriptions
// that survive a restart.
#ifndef NODE_RUNTIME_CRUN_STATE_H
#define NODE_RUNTIME_CRUN_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "node/runtime/runtime.h"

#define CRUN_ID_LEN 64

struct crun;

// A program that runs containers, and where it keeps its state.
struct crun_program {
    struct str name; // of a RuntimeClass's handler
    const char *path, *state;
    struct str version;
    bool is_crun, no_seccomp;
};
struct crun_programs VEC(struct crun_program);

// crun_program_named finds a program by its handler's name, NULL: there is none (empty: the
// default). crun_program_of is the one that has a container, by its state.
const struct crun_program *crun_program_named(const struct crun *c, struct str name);
const struct crun_program *crun_program_of(const struct crun *c, const char *id);

// What is on disk of a pod, and is listed.
struct crun_pod_meta {
    struct str namespace, name, uid, hostname, log_dir, address, cgroup;
    uint32_t attempt;
    bool host_network, host_pid, host_ipc, share_pid;
    struct runtime_users users;
    struct str handler; // empty: the default program
    bool stopped;
    int64_t created_ns;
    struct str boot_id;
};

struct crun_container_meta {
    struct str pod, pod_uid, name, image, image_id, log, cgroup;
    uint32_t attempt;
    int stop_signal;
    int64_t created_ns;
    struct str boot_id;
};

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

bool crun_has_file(const char *dir, const char *name);

// crun_container_read_end reads how a container ended. False: it has not, or that is unknown.
bool crun_container_read_end(const char *folder, struct runtime_container_status *ret);
int64_t crun_container_read_time(const char *folder, const char *name);

#endif
