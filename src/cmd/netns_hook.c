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

const char netns_hook_usage[] =
    "dray netns-hook --state DIR --claim UID --device NAME  < the container's state\n\n"
    "Called by container runtimes (an OCI hook of stage createRuntime, put into containers by the\n"
    "CDI specs of 'dray driver net'). Moves the claim's interface into the network namespace of\n"
    "the container's process and sets it up. Calling it again changes nothing.";

static int read_state(struct sbuf *out)
{
    ssize_t n;
    do {
        n = read(STDIN_FILENO, sbuf_space(out, 4096), 4096);
        if (n > 0)
            sbuf_commit(out, (size_t)n);
    } while ((n > 0 && out->n <= NET_HOOK_STATE_MAX) || (n < 0 && errno == EINTR));
    return n < 0 ? -errno : 0;
}

int verb_netns_hook(int argc, char **argv)
{
    struct net_hook h = {0};
    const struct {
        const char *name, **value;
    } options[] = {{"--state", &h.state_dir}, {"--claim", &h.uid}, {"--device", &h.device}};
    for (int i = 1; i < argc; i += 2) {
        bool known = false;
        for (size_t k = 0; k < array_len(options) && i + 1 < argc; k++) {
            if (strcmp(argv[i], options[k].name) == 0) {
                *options[k].value = argv[i + 1];
                known = true;
            }
        }
        if (!known)
            return verb_usage_error("netns-hook", verb_no_sense);
    }
    if (!h.state_dir || !h.uid || !h.device || strchr(h.device, '/'))
        return verb_usage_error("netns-hook", "needs --state, --claim and --device");
    cleanup_sbuf struct sbuf state = {0};
    struct err err = {0};
    int code = read_state(&state);
    if (code != 0)
        code =
            err_set(&err, -code, "cannot read the container's state: %s", strerrordesc_np(-code));
    else
        code = net_hook_run(&h, sbuf_str(&state), &err);
    if (code == 0)
        return VERB_OK;
    (void)fprintf(stderr, "dray netns-hook: device %s: %s\n", h.device, err.msg);
    return VERB_NO;
}
