// SPDX-License-Identifier: Apache-2.0
//
// dray netns-hook: what container runtimes call for containers with a device of `dray driver net`.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cmd/verb.h"
#include "driver/net_hook.h"

#include "base/banned.h"

static struct net_hook hook;

static int verb_netns_hook(void);
static int netns_hook_check(struct err *err);

static const struct cli_option hook_options[] = {
    {"--state", NULL, "DIR", "read the state of 'dray driver net' here", .text = &hook.state_dir,
     .required = true},
    {"--claim", NULL, "UID", "move an interface of this claim", .text = &hook.uid,
     .required = true},
    {"--device", NULL, "NAME", "move this device", .text = &hook.device, .required = true},
};
static const struct cli_group hook_group = CLI_GROUP("Options", hook_options);

const struct cli_verb netns_hook_verb = {
    .name = "netns-hook",
    .summary = "move a claim's interface into a pod (for runtimes)",
    .chapter = CLI_DEVELOPERS,
    .synopsis = "netns-hook --state DIR --claim UID --device NAME",
    .text = "An OCI hook of stage createRuntime, which the CDI specs of 'dray driver net' add to "
            "containers. Reads the state of "
            "the container from standard input, moves the interface into the network namespace of "
            "its process and configures "
            "it. Calling it again changes nothing.",
    .examples = "dray netns-hook --state /var/lib/kubelet/plugins/dra.net --claim UID --device "
                "eth1 < state.json",
    .groups = {&hook_group},
    .check = netns_hook_check,
    .run = verb_netns_hook,
};

static int netns_hook_check(struct err *err)
{
    return strchr(hook.device, '/')
               ? err_set(err, ERR_INVALID, "--device is the name of a device, not '%s'",
                         hook.device)
               : 0;
}

static int netns_hook_read_state(struct sbuf *out)
{
    ssize_t n;
    do {
        n = read(STDIN_FILENO, sbuf_space(out, 4096), 4096);
        if (n > 0)
            sbuf_commit(out, (size_t)n);
    } while ((n > 0 && out->n <= NET_HOOK_STATE_MAX) || (n < 0 && errno == EINTR));
    return n < 0 ? -errno : 0;
}

static int verb_netns_hook(void)
{
    cleanup_sbuf struct sbuf state = {0};
    struct err err = {0};
    int r = netns_hook_read_state(&state);
    if (r != 0)
        r = err_set(&err, -r, "cannot read the container's state: %s", strerrordesc_np(-r));
    else
        r = net_hook_run(&hook, sbuf_str(&state), &err);
    if (r == 0)
        return VERB_OK;
    (void)fprintf(stderr, "dray netns-hook: device %s: %s\n", hook.device, err.msg);
    return VERB_NO;
}
