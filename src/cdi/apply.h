// SPDX-License-Identifier: Apache-2.0
//
// Edits applied to a container's configuration, the config.json of the OCI runtime specification.
// The document may have fields unknown to this code; they stay as they are. Applying the same edits
// to the result changes nothing more.
#ifndef CDI_APPLY_H
#define CDI_APPLY_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "cdi/spec.h"
#include "codec/json.h"
#include "codec/json_writer.h"

#define CDI_EDITS_MAX 4096 // device nodes, mounts, hooks or groups in one application

// A device node as it is on the host.
struct cdi_node_info {
    char type; // b, c, p
    int64_t major, minor;
    uint32_t file_mode; // permission bits
};

// The host's files behind an interface.
struct cdi_host {
    // Looks at a path without following a link at its end. Returns 0, or a negative code with a
    // message when there is no device node.
    int (*look)(void *context, struct str path, struct cdi_node_info *ret, struct err *err);
    void *context;
};

// cdi_host_system is the machine's file system. Static.
const struct cdi_host *cdi_host_system(void);

// cdi_apply writes oci with the edits applied. oci must be an object without repeated keys. Nothing
// is written on failure. Returns 0, -ERR_INVALID (a part of oci is not what it should be, or a
// device node is not what the host has; err has the path), -ERR_TOO_LARGE, or the code of the
// host's lookup.
int cdi_apply(const struct cdi_edits *edits, const yyjson_val *oci, const struct cdi_host *host,
              struct json_writer *w, struct err *err) MUST_USE;

#endif
