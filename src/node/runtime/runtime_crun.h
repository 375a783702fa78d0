// SPDX-License-Identifier: Apache-2.0
//
// The runtime of a real node: OCI bundles run by crun, or runc, each container under a small
// monitor process of its own (`dray-monitor`), images unpacked by src/node/image/image.h.
// Everything it makes lies in one directory and outlives the process; a new runtime over the same
// directory goes on with it. Needs root.
#ifndef NODE_RUNTIME_RUNTIME_CRUN_H
#define NODE_RUNTIME_RUNTIME_CRUN_H

#include <stddef.h>

#include "base/err.h"
#include "net/loop.h"
#include "node/runtime/runtime.h"

// Texts are copied. The comment gives the meaning of NULL.
struct runtime_crun_options {
    struct loop *loop;
    const char *root;            // the directory of state and images; made when it is missing
    const char *monitor;         // dray-monitor; NULL: beside this program
    const char *runtime;         // crun or runc; NULL: crun of PATH, else runc
    const char *const *handlers; // "NAME=PATH[,type=crun|runc]" beside crun and runc
    size_t handlers_len;
    const char *image_dir; // local images: OCI layouts and archives; NULL: none
    const char *const *cdi_dirs;
    size_t cdi_dirs_len;    // 0: CDI's own
    const char *cgroup_top; // NULL: "dray"
    const char *bridge;     // NULL: "dray0"
    const char *boot_id;    // NULL: the machine's
    const char *subnet;     // of pods, IPv4; NULL: "10.199.0.0/16"; "": pods have a loopback only
};

// runtime_crun_new looks for a runtime, takes over what the directory has, and clears away what a
// crash left half done. It blocks. Returns 0, -ERR_UNSUPPORTED (not root, no crun and no runc),
// -ERR_CONFLICT (another process uses the directory) or -errno. The caller frees it by its ops,
// after its last operation ended.
int runtime_crun_new(const struct runtime_crun_options *options, struct runtime **ret,
                     struct err *err) MUST_USE;

#endif
