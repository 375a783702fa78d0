// SPDX-License-Identifier: Apache-2.0
//
// The volumes of a pod on the node: folders below pods/UID/volumes, laid out as kubelet does,
// filled from config maps, secrets, tokens and facts about the pod; paths of the host, also those
// that claims for storage are bound to, as they are. Files are replaced all at once, by one
// symbolic link (..data), so that a reader sees the old set or the new one.
//
// Folders of the agent are written by the agent alone, but what is in an emptyDir is written by
// containers: nothing here follows a symbolic link below a pod's folder, and removal never leaves
// it nor crosses into another file system.
#ifndef NODE_VOLUME_VOLUME_H
#define NODE_VOLUME_VOLUME_H

#include <stdbool.h>

#include "base/arena.h"
#include "node/pods/env.h"
#include "node/pods/pod_refs.h"

struct volume_options {
    const char *folder; // the pod's
    struct env_facts facts;
    const struct pod_refs *refs;
    bool may_mount;     // tmpfs for volumes in memory
    int64_t memory_max; // bytes of a volume in memory: the pod's limit, else the node's; 0: none
    bool *on_disk;      // set when a volume in memory is on disk instead; may be NULL
};

// volumes_set_up makes all volumes of the pod, or brings those that are there up to date. Returns
// 0, or -ERR_… with kubelet's text (MountVolume.SetUp failed for volume "x" : …).
int volumes_set_up(const struct volume_options *o, struct err *err) MUST_USE;

// volumes_update brings files of config maps, secrets, tokens and facts up to date.
int volumes_update(const struct volume_options *o, struct err *err) MUST_USE;

// volume_path is where a volume of the pod is on the host, in arena; NULL when there is none of
// that name, or a claim's is not known.
const char *volume_path(const char *folder, const struct api_pod *pod, const struct pod_refs *refs,
                        struct str name, struct arena *arena);

// volumes_tear_down unmounts what is mounted below folder/volumes and removes it all;
// volumes_remove_pod removes the whole folder. What is gone already is fine. Returns 0 or -errno.
int volumes_tear_down(const char *folder, struct err *err) MUST_USE;
int volumes_remove_pod(const char *folder, struct err *err) MUST_USE;

// --- Parts ---------------------------------------------------------------------------------------

struct volume_file {
    struct str path; // relative; no "..", no empty part
    struct str bytes;
    uint32_t mode;
};

struct volume_files VEC(struct volume_file);

// volume_files_write makes the files of a folder exactly these, all at once. group: their group, -1
// for none. Returns 0 (1: nothing had to be changed) or -errno.
int volume_files_write(const char *folder, const struct volume_files *files, int64_t group,
                       struct err *err) MUST_USE;

// volume_check_host checks the type of a host path and creates it for the types *OrCreate.
int volume_check_host(const struct api_host_path_volume_source *v, struct arena *arena,
                      struct err *err) MUST_USE;

// volume_claim_path is where a PersistentVolume lies on its node; empty: it is of a type that is
// not offered.
struct str volume_claim_path(const struct api_persistent_volume *volume);

// volume_claim_set_up sees to it that the volume of a claim is there. node may be NULL: not known
// yet. Returns 0 or -ERR_….
int volume_claim_set_up(const struct api_persistent_volume *volume, const struct api_node *node,
                        struct arena *arena, struct err *err) MUST_USE;

// volume_make_messages makes the folder of termination messages, which containers write to: on a
// tmpfs that bounds them, where may_mount.
int volume_make_messages(const char *path, bool may_mount, struct err *err) MUST_USE;

// volume_make_directory makes a folder and those above it (0750 for new ones, mode for the last).
int volume_make_directory(const char *path, uint32_t mode, struct err *err) MUST_USE;

// volume_remove_tree removes a folder with everything in it, following nothing and staying on its
// file system.
int volume_remove_tree(const char *path, struct err *err) MUST_USE;

#endif
