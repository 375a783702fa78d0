// SPDX-License-Identifier: Apache-2.0
//
// Pods and containers as a runtime gets them, and what it reports of them (runtime.h).
#ifndef NODE_RUNTIME_RUNTIME_SPEC_H
#define NODE_RUNTIME_RUNTIME_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct runtime_pair {
    struct str name;
    struct str value;
};

// Limits of a pod or a container. 0: none.
struct runtime_limits {
    int64_t cpu_shares;
    int64_t cpu_quota_us;
    int64_t cpu_period_us;
    int64_t memory_bytes;
    int64_t pids;
    int64_t oom_score_adj; // of containers alone
};

// --- Pods ----------------------------------------------------------------------------------------

// A user namespace: ids 0... of the pod are these of the host. A length of 0: the host's own.
struct runtime_users {
    uint32_t base, length;
};

// What this machine can provide beside the usual.
struct runtime_handler {
    struct str name; // of a RuntimeClass
    bool users;      // its program copes with user namespaces
};

struct runtime_features {
    const struct runtime_handler *handlers; // the first is the default
    size_t handlers_len;
    const char *no_users; // why pods cannot have a user namespace; NULL: they can
    bool recursive_read_only, apparmor, selinux;
};

struct runtime_pod {
    struct str namespace;
    struct str name;
    struct str uid;
    uint32_t attempt;    // counts sandboxes made for one pod
    struct str hostname; // empty: the host's (only with host_network)
    const char *log_dir; // holds CONTAINER/ATTEMPT.log, in the CRI's format
    bool host_network;
    bool host_pid;
    bool host_ipc;
    bool share_pid;         // one pid namespace for all containers
    struct str resolv_conf; // the text of the file; empty: the host's file
    struct str hosts;       // the text of /etc/hosts; empty: made from hostname and address
    const struct runtime_pair *sysctls;
    size_t sysctls_len;
    struct str cgroup_parent;     // "guaranteed", "burstable", "besteffort"
    struct runtime_limits limits; // of all its containers together
    struct runtime_users users;
    struct str handler; // empty: the default
};

enum runtime_pod_state { RUNTIME_POD_READY, RUNTIME_POD_NOT_READY };

// --- Containers ----------------------------------------------------------------------------------

enum runtime_propagation { RUNTIME_PRIVATE, RUNTIME_HOST_TO_CONTAINER, RUNTIME_BIDIRECTIONAL };

struct runtime_mount {
    const char *host_path;
    const char *container_path;
    // sub_path is walked below host_path without ever leaving it, whatever symbolic links say; made
    // as a directory when it is not there. Empty: host_path itself.
    const char *sub_path;
    bool read_only;
    bool recursive; // read-only with everything mounted below it
    enum runtime_propagation propagation;
};

// A device node of the host, or a directory of them, as a device plugin asks for it.
struct runtime_device {
    struct str host_path, container_path;
    struct str permissions; // of r, w, m; empty: all
};

enum runtime_seccomp { RUNTIME_SECCOMP_DEFAULT, RUNTIME_SECCOMP_UNCONFINED, RUNTIME_SECCOMP_FILE };

struct runtime_security {
    bool privileged;
    bool has_user, has_group;
    int64_t user, group;  // else the image's
    struct str user_name; // looked up in the image's /etc/passwd
    const int64_t *groups;
    size_t groups_len;
    bool strict_groups;         // only these: the image's /etc/group adds none
    const struct str *add_caps; // "NET_ADMIN", "ALL"
    size_t add_caps_len;
    const struct str *drop_caps;
    size_t drop_caps_len;
    bool no_new_privileges;
    bool read_only_root;
    bool unmasked_proc;
    bool must_not_be_root; // runAsNonRoot: an image whose user is root is refused
    enum runtime_seccomp seccomp;
    const char *seccomp_file;
    struct str apparmor;                   // a loaded profile; empty: none
    struct str selinux_label, mount_label; // empty: none
};

struct runtime_container {
    struct str name;
    uint32_t attempt;          // restart count
    struct str image;          // what image_ensure answered as id
    const struct str *command; // replaces the image's entrypoint when not empty
    size_t command_len;
    const struct str *args; // replaces the image's command when not empty
    size_t args_len;
    struct str working_dir;         // empty: the image's
    const struct runtime_pair *env; // over the image's; the last of a name counts
    size_t env_len;
    const struct runtime_mount *mounts;
    size_t mounts_len;
    const struct str *cdi_devices; // "vendor/class=name"
    size_t cdi_devices_len;
    const struct runtime_device *devices;
    size_t devices_len;
    const struct runtime_pair *annotations; // for the OCI runtime and its hooks
    size_t annotations_len;
    struct runtime_security security;
    struct runtime_limits limits;
    bool stdin;
    bool stdin_once;
    bool tty;
    struct str target; // id of a running container whose processes it shall see; empty: none
};

enum runtime_container_state { RUNTIME_CREATED, RUNTIME_RUNNING, RUNTIME_EXITED, RUNTIME_UNKNOWN };

struct runtime_container_status {
    struct str id; // the runtime's, 64 hexadecimal digits or so
    struct str pod_uid;
    struct str pod_id; // of the pod's namespaces that it was made in
    struct str name;
    uint32_t attempt;
    enum runtime_container_state state;
    struct str image;                            // as the pod names it
    struct str image_id;                         // with its digest
    int64_t created_ns, started_ns, finished_ns; // wall clock; 0: not yet
    int32_t exit_code;
    int32_t signal; // that ended it; 0: none
    bool oom_killed;
    struct str message; // why it could not start
};

struct runtime_pod_status {
    struct str id;
    struct str namespace, name, uid;
    uint32_t attempt;
    enum runtime_pod_state state;
    struct str address; // of its network; empty: none, or the host's
    int64_t created_ns;
};

#endif
