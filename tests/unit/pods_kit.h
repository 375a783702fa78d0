// SPDX-License-Identifier: Apache-2.0
//
// A machine in memory that runs containers, for tests of the pod life cycle: it outlives the agent and its
// runtime, as a real one does. What a container does is said by its command:
//   run                  until it is stopped
//   stubborn             until it is killed
//   exit CODE [MS]       ends by itself
//   nostart              cannot be started
// What is run in a container: true, false, hang, "check WORD" (good while the machine's `good` has the word).
#ifndef UNIT_PODS_KIT_H
#define UNIT_PODS_KIT_H

#include "base/list.h"
#include "base/vec.h"
#include "node/pods/pods.h"
#include "unit.h"

struct fake_sandbox {
    char *id, *namespace, *name, *uid, *address;
    uint32_t attempt;
    bool ready;
    int64_t created_ns;
    struct runtime_users users;
    struct runtime_limits limits;
    char *handler;
};

struct fake_container {
    char *id, *pod_uid, *pod_id, *name, *image, *command, *env, *mounts, *devices, *labels;
    uint32_t attempt;
    enum runtime_container_state state;
    int64_t created_ns, started_ns, finished_ns;
    int32_t exit_code;
    bool stubborn;
    int32_t own_code;
    int64_t own_end_ns;               // after its start; 0: never
    bool told;                        // of its end
    int64_t memory_bytes, disk_bytes; // what it uses
};

struct fake_machine {
    struct VEC(struct fake_sandbox *) sandboxes;
    struct VEC(struct fake_container *) containers;
    uint32_t made;
    const char *images;                      // names that are here, by spaces
    const char *registry;                    // that can be pulled
    const char *huge;                        // for which there is no space
    const char *good;                        // words of checks that pass
    const struct runtime_features *features; // NULL: none
    struct sbuf log;                         // what was done, one a line
    int most_running;                        // of one container's name at the same time
    struct clock_fake *clock;
};

void fake_machine_done(struct fake_machine *m);
// fake_machine_reboot: nothing runs any more, and nobody knows how it ended.
void fake_machine_reboot(struct fake_machine *m);
size_t fake_running(const struct fake_machine *m);
struct fake_container *fake_find(struct fake_machine *m, const char *name); // the newest

struct fake_runtime {
    struct runtime runtime;
    struct fake_machine *machine;
    struct exec *exec;
    struct list calls;
    struct exec_timer tick;
    bool cut; // nothing happens any more: the process is dead
    bool refuse_pods;
};

void fake_runtime_init(struct fake_runtime *r, struct fake_machine *m, struct exec *exec);
void fake_runtime_done(struct fake_runtime *r);

// --- A client that can be cut off ----------------------------------------------------------------

struct cut_client {
    struct client client;
    struct client *inner;
    bool cut;
    struct list calls;
};

void cut_client_init(struct cut_client *c, struct client *inner);
void cut_client_done(struct cut_client *c);

// --- A network -----------------------------------------------------------------------------------

struct fake_net {
    struct probe_net net;
    struct exec *exec;
    const char *open; // "tcp:80 http:8080" that answer
};

void fake_net_init(struct fake_net *n, struct exec *exec);

#endif
