// SPDX-License-Identifier: Apache-2.0
//
// A whole node on one loop: runtime, manager of claims, pods, the Node object, and the endpoint for
// logs and commands. It lays out one directory as kubelet does (plugins_registry, plugins, pods,
// pod-resources), so that DRA drivers find what they look for.
#ifndef NODE_AGENT_H
#define NODE_AGENT_H

#include <stdbool.h>

#include "api/features.h"
#include "base/err.h"
#include "client/client.h"
#include "net/loop.h"
#include "net/tls.h"
#include "node/eviction.h"

struct agent;

// Texts are copied; NULL and 0 mean the default.
struct agent_options {
    struct loop *loop;
    struct client *client;
    const struct features *features; // borrowed
    struct str node;
    struct {                         // paths and programs
        const char *data_dir;        // /var/lib/dray-agent
        const char *image_dir;       // local images: OCI layouts and archives
        const char *runtime;         // crun or runc
        const char *const *handlers; // "NAME=PATH[,type=crun|runc]"
        size_t handlers_len;
        // Where device plugins register: below data_dir; /var/lib/kubelet/device-plugins where
        // data_dir is the default.
        const char *device_plugins;
        const char *monitor; // dray-monitor
        const char *bridge, *subnet, *cgroup_top;
        const char *const *cdi_dirs;
        size_t cdi_dirs_len;
        const char *boot_id; // the machine's
    };
    struct {                    // the Node object and its endpoint
        struct str node_ip;     // the machine's first address
        struct str labels;      // "a=b,c=d"
        struct str taints;      // "key=value:Effect"
        struct str api_url;     // for KUBERNETES_SERVICE_HOST where there is no such service
        struct tls_server *tls; // borrowed; NULL: no endpoint for logs and commands
        const char *listen;     // of the endpoint; 0.0.0.0:10250
    };
    struct { // limits
        int64_t pods_max;
        int64_t pids_max; // processes of one pod: 4096; less than 0: no limit
        // Percent of the disk at which images go, and until which: 85, 80.
        int64_t image_high, image_low;
        struct eviction_texts eviction; // borrowed until agent_new has returned
    };
    int64_t refresh_ns; // of config maps and secrets in volumes
    bool keep_slices;
    bool trim; // memory that is not needed at the moment is given back now and then
    // What happens, one line each; may be NULL.
    void (*say)(void *arg, const char *line);
    // registered: the Node is there.
    void (*registered)(void *arg);
    void *arg;
};

// agent_new looks at the machine and takes over what it has. Returns 0; -ERR_UNSUPPORTED (not root,
// no crun and no runc) with what to do; -ERR_CONFLICT (another agent uses the directory); -errno.
int agent_new(const struct agent_options *options, struct agent **ret, struct err *err) MUST_USE;
void agent_start(struct agent *a);

// agent_quiet begins nothing new; agent_busy: something is still under way. agent_free leaves what
// runs running; a runtime that is still busy stops watching and is left to the end of the process.
void agent_quiet(struct agent *a);
bool agent_busy(const struct agent *a);
void agent_free(struct agent *a);

// agent_port is that of the endpoint, 0: there is none. agent_about is the runtime and what this
// machine does not enforce, one line each.
uint16_t agent_port(const struct agent *a);
void agent_about(const struct agent *a, struct sbuf *out);

#endif
