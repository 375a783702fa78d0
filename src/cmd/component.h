// SPDX-License-Identifier: Apache-2.0
//
// A part of a control plane as a process of its own, on any API server: connects, asks what the server offers, stands
// by, leads when it has the lease, tells how it is over HTTP, and stops cleanly. What the part is (scheduler,
// controllers) is its verb's business.
#ifndef CMD_COMPONENT_H
#define CMD_COMPONENT_H

#include <stdbool.h>

#include "api/features.h"
#include "base/err.h"
#include "base/str.h"
#include "client/client.h"
#include "cmd/option.h"

struct component;

struct component_ops {
    const char *name;             // "dray-scheduler": of the lease, the user agent, in logs
    const char *verb;             // for messages
    const char *listen;           // default address for health and metrics
    const struct option *options; // its own
    size_t options_len;
    // check looks at its options before anything is started; may be NULL.
    int (*check)(void *arg, struct err *err);
    // start makes the part, watching; with standby it does nothing before lead.
    void (*start)(void *arg, struct client *client, const struct features *features, bool standby);
    void (*lead)(void *arg);
    void (*stop)(void *arg); // start may follow
    bool (*synced)(const void *arg);
    void (*metrics)(const void *arg, struct sbuf *out);
    void *arg;
};

// component_usage is what 'dray help' says of the options that all parts have.
#define COMPONENT_USAGE                                                                            \
    "--kubeconfig FILE, --context NAME   the API server; default $KUBECONFIG, ~/.kube/config, or " \
    "the\n"                                                                                        \
    "                        pod's service account\n"                                              \
    "--bind-address HOST:PORT  /healthz, /livez, /readyz and /metrics, plain HTTP; 'none': not "   \
    "at "                                                                                          \
    "all\n"                                                                                        \
    "--leader-elect=false    act at once, whoever else does\n"                                     \
    "--leader-elect-lease-duration 2s, --leader-elect-renew-deadline 1500ms,\n"                    \
    "--leader-elect-retry-period 500ms   a leader that is gone is replaced after the first\n"      \
    "--leader-elect-resource-namespace kube-system, --leader-elect-resource-name NAME\n"           \
    "--feature-gates A=true,B=false   over what the server says of itself\n"                       \
    "--log-format json|text, --log-level LEVELS   default json, info\n"                            \
    "--config FILE           YAML with the same names; flags win over it"

// component_run runs it until SIGTERM or SIGINT. Returns one of VERB_*.
int component_run(const struct component_ops *ops, int argc, char **argv);

#endif
