// SPDX-License-Identifier: Apache-2.0
//
// A part of a control plane as a process of its own, on any API server: connects, asks what the
// server offers, stands by, leads when it has the lease, reports its health over HTTP, and stops
// cleanly. What the part is (scheduler, controllers) is its verb's business.
#ifndef CMD_RUN_COMPONENT_H
#define CMD_RUN_COMPONENT_H

#include <stdbool.h>

#include "api/features.h"
#include "base/err.h"
#include "base/str.h"
#include "client/client.h"
#include "cmd/engine/cli.h"

struct component;

struct component_ops {
    const char *name;   // "dray-scheduler": of the lease, the user agent, in logs
    const char *verb;   // for messages
    const char *listen; // default address for health and metrics
    // start makes the part, watching; with standby it does nothing before lead.
    void (*start)(void *arg, struct client *client, const struct features *features, bool standby);
    void (*lead)(void *arg);
    void (*stop)(void *arg); // start may follow
    bool (*synced)(const void *arg);
    void (*metrics)(const void *arg, struct sbuf *out);
    void *arg;
};

extern const struct cli_group component_group; // options of all components

// component_check looks at these options; for cli_verb.check.
int component_check(struct err *err) MUST_USE;

// component_run runs it until SIGTERM or SIGINT. Returns one of VERB_*.
int component_run(const struct component_ops *ops);

#endif
