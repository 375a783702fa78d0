// SPDX-License-Identifier: Apache-2.0
//
// A real node within `dray up`: this machine, whose pods run in containers and see simulated
// devices, by a driver process that registers as any other does.
#ifndef CMD_UP_UP_AGENT_H
#define CMD_UP_UP_AGENT_H

#include "base/err.h"
#include "cmd/run/server_run.h"

struct up_agent;

struct up_agent_options {
    const struct server_host *host;
    struct loop *loop;     // where it runs
    const char *node;      // NULL: this machine's name
    const char *data_dir;  // of up; the node's is DIR/agent
    const char *image_dir; // NULL: DIR/agent/images
    const char *devices;   // profiles of simulated devices, by commas; NULL: none
    // registered is called once, when the node is there.
    void (*registered)(void *arg);
    void *arg;
};

// up_agent_new starts it. Returns 0, -ERR_UNSUPPORTED (not root, no crun and no runc) with what to
// do, or another code.
int up_agent_new(const struct up_agent_options *options, struct up_agent **ret,
                 struct err *err) MUST_USE;

// up_agent_renew makes its certificates again, with the CA of now; it takes them up by itself.
int up_agent_renew(struct up_agent *u, struct err *err) MUST_USE;

// up_agent_stop ends the driver and begins nothing new; up_agent_free frees. Containers go on.
void up_agent_stop(struct up_agent *u);
void up_agent_free(struct up_agent *u);

const char *up_agent_node(const struct up_agent *u);
void up_agent_about(const struct up_agent *u, struct sbuf *out);

#endif
