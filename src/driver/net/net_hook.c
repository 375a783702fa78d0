// SPDX-License-Identifier: Apache-2.0
//
// The OCI hook that attaches a prepared interface: reads the container's pid from the state on
// standard input and calls net_attach with the pod's network namespace.
#include "driver/net_hook.h"

#include <stdio.h>
#include <unistd.h>

#include "codec/json.h"
#include "driver/net/net_attach.h"
#include "driver/sdk/core.h"

#include "base/banned.h"

#define HOOK_WAIT_NS (3 * CLOCK_NS_PER_SEC)

int net_hook_pid(struct str state, int *ret, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    const struct json_options options = {.max_bytes = NET_HOOK_STATE_MAX,
                                         .duplicates = JSON_DUPLICATES_KEEP};
    int64_t pid = 0;
    int r = json_parse(state, &options, &doc, err);
    if (r != 0)
        return err_wrap(err, "the container's state");
    const yyjson_val *v = json_get(doc.root, STR("pid"));
    if (!v || json_to_i64(v, &pid, NULL) != 0 || pid <= 0 || pid > INT32_MAX)
        return err_set(err, ERR_INVALID, "the container's state has no pid");
    *ret = (int)pid;
    return 0;
}

int net_hook_run(const struct net_hook *h, struct str state, struct err *err)
{
    char boot[64];
    char path[64];
    int pid = 0, pod = -1;
    struct net_world w = {.state_dir = h->state_dir,
                          .proc = "/proc",
                          .sys = "/sys",
                          .boot_id = boot,
                          .host_ns = -1,
                          .wait_ns = HOOK_WAIT_NS,
                          .clock = clock_system()};
    core_boot_id(boot);
    int r = net_hook_pid(state, &pid, err);
    if (r == 0)
        r = net_ns_open("/proc/self/ns/net", &w.host_ns, err);
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
    if (r == 0)
        r = net_ns_open(path, &pod, err);
    if (r == 0)
        r = net_attach(&w, str_z(h->uid), str_z(h->device), pod, pid, err);
    if (pod >= 0)
        (void)close(pod);
    if (w.host_ns >= 0)
        (void)close(w.host_ns);
    return r;
}
