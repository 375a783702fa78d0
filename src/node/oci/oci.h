// SPDX-License-Identifier: Apache-2.0
//
// A container's config.json, as the OCI runtime specification has it: namespaces, mounts,
// capabilities, system calls, limits, devices. Pure but for reading users from the image and
// devices from the host.
#ifndef NODE_OCI_OCI_H
#define NODE_OCI_OCI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "cdi/cache.h"
#include "node/image/image.h"
#include "node/runtime/runtime.h"

// What containers take from their pod. NULL paths: not there.
struct oci_pod {
    const char *netns, *ipcns, *utsns; // NULL: the host's
    const char *pidns;                 // NULL: the container's own, or the host's
    bool host_pid;
    struct str hostname;
    const char *resolv_conf, *hosts, *hostname_file; // to be mounted to /etc
    const char *shm;                                 // the directory for /dev/shm
    const char *userns;                              // NULL: the host's
    struct runtime_users users;                      // of userns
};

// Mount sources that the monitor puts at mounts/N.
struct oci_bind {
    const char *host, *sub;
};
struct oci_binds VEC(struct oci_bind);

struct oci_options {
    const struct runtime_container *container;
    const struct image_info *image;
    const struct oci_pod *pod;
    const char *folder;            // of rootfs and mounts/N
    struct oci_binds *binds;       // what mounts/N are, in the arena
    const char *cgroup;            // NULL: none
    bool unified_cgroups;          // version 2
    bool no_seccomp;               // the runtime has none
    const struct cdi_edits *edits; // of its devices; NULL: none
    // Filters that crun compiled before, by the digest of what they were made of: handing it the
    // result saves it half of its time. NULL: none.
    const char *filters;
    char *ret_filter; // 65 bytes: the name of the filter that is missing there; may be NULL
};

// What the process will run as.
struct oci_user {
    uint32_t uid, gid;
    const uint32_t *groups;
    size_t groups_len;
    struct str home; // empty: not known
};

// oci_config_write adds the configuration to out. Returns 0, -ERR_INVALID (no command, no such
// user, a path with .., must not be root), or the code of cdi_apply.
int oci_config_write(const struct oci_options *options, struct arena *arena, struct sbuf *out,
                     struct err *err) MUST_USE;

// oci_device_edits adds the devices that plugins ask for to a container's edits, a directory as all
// nodes below it. Returns 0, -ERR_INVALID (not a path, permissions other than r, w and m) or
// -ERR_NOT_FOUND.
int oci_device_edits(const struct runtime_container *container, struct arena *arena,
                     struct cdi_edits *edits, struct err *err) MUST_USE;

// oci_process_write makes the process.json of a command from a container's config.json: the same
// user, environment (and mark, NAME=VALUE), directory, capabilities. Returns 0 or -ERR_INVALID.
int oci_process_write(struct str config, const struct str *command, size_t command_len, bool tty,
                      struct str mark, struct sbuf *out, struct err *err) MUST_USE;

// oci_user_find resolves "USER[:GROUP]", names or numbers, in an image. rootfs is its
// directory, or -1. Returns 0 or -ERR_INVALID.
int oci_user_find(int rootfs, struct str said, struct arena *arena, struct oci_user *ret,
                  struct err *err) MUST_USE;

// oci_signal is the number of a signal, "15", "TERM" or "SIGTERM"; 0: there is none of that name.
int oci_signal(struct str name);

#endif
