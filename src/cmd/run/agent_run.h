// SPDX-License-Identifier: Apache-2.0
//
// Running a node in this process: `dray agent`, and `dray join` once it has what it needs.
#ifndef CMD_RUN_AGENT_RUN_H
#define CMD_RUN_AGENT_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "cmd/engine/cli.h"
#include "net/loop.h"
#include "net/tls.h"
#include "node/agent.h"

// The options of an agent; NULL and 0 mean the default. See agent_node_group.
struct agent_args {
    const char *device_plugins;
    const char *kubeconfig, *context, *node, *node_ip, *data_dir, *image_dir, *runtime, *subnet,
        *bridge, *cgroup, *labels, *taints, *listen, *certificate, *key, *client_ca, *pki, *monitor;
    struct { // lists
        struct cli_texts cdi_dirs, handlers;
    };
    struct { // limits
        int64_t max_pods, pod_pids, refresh_s, image_high, image_low;
        struct eviction_texts eviction;
    };
    bool keep_slices;
};

// What the options of the command line set. agent_node_group is for `dray agent` and `dray join`,
// agent_machine_group also for `dray up`; agent_apply_args sets what the latter has.
extern struct agent_args agent_args;
extern const struct cli_group agent_node_group, agent_machine_group;
void agent_apply_args(const struct agent_args *a, struct agent_options *o);
int agent_check(struct err *err); // for cli_verb.check

struct agent_host {
    struct loop *loop;
    struct client *client;
    struct tls_server *tls; // NULL: no endpoint
};

// Who works beside the agent on its loop.
struct agent_guest {
    void (*registered)(void *arg, const struct agent_host *host); // once, when the Node is there
    void (*stop)(void *arg); // when it begins to stop; may be called twice
    void *arg;
};

// agent_run runs until it is stopped. Returns one of VERB_*.
int agent_run(const char *verb, const struct agent_args *args, const struct agent_guest *guest);

#endif
