// SPDX-License-Identifier: Apache-2.0
//
// PersistentVolumeClaims: a PersistentVolume that is a path of this node is mounted as it is.
// Directories of dray's own provisioner are created here, for the first pod; they outlive their
// pods.
#include <fcntl.h>
#include <unistd.h>

#include <sys/stat.h>

#include "api/match/claim.h"
#include "api/match/node.h"
#include "api/storage.h"
#include "node/volume/volume.h"

#include "base/banned.h"

struct str volume_claim_path(const struct api_persistent_volume *volume)
{
    const struct api_persistent_volume_source *s = &volume->spec.persistent_volume_source;
    return s->host_path ? s->host_path->path : s->local ? s->local->path : STR("");
}

// Every user in the pod may write there, as in an emptyDir; the directory above it, this volume's
// alone, keeps other users of the node out.
static int volume_claim_make_own(const struct api_host_path_volume_source *s, struct arena *arena,
                                 struct err *err)
{
    const char *path = arena_str(arena, s->path).p;
    struct stat st;
    if (!str_starts(s->path, STR("/")) || str_contains(s->path, STR("/../")) ||
        str_ends(s->path, STR("/..")))
        return 0; // is refused next, and nothing is made before
    if (lstat(path, &st) == 0 || errno != ENOENT)
        return 0; // what it is, is looked at next
    int r = volume_make_directory(path, 0777, err);
    if (r < 0)
        return r;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchmod(fd, 0777) != 0)
        r = err_set(err, errno, "%s: %s", path, strerrordesc_np(errno));
    if (fd >= 0)
        (void)close(fd);
    return r;
}

static int volume_claim_check_local(const struct api_local_volume_source *s, struct arena *arena,
                                    struct err *err)
{
    const struct api_host_path_volume_source as_host = {
        .path = s->path, .type = STR("Directory"), .has_type = true};
    return volume_check_host(&as_host, arena, err);
}

static const char *volume_claim_source_type(const struct api_persistent_volume_source *s)
{
    return s->csi ? "csi" : s->nfs ? "nfs" : s->iscsi ? "iscsi" : s->fc ? "fc" : "another type";
}

int volume_claim_set_up(const struct api_persistent_volume *volume, const struct api_node *node,
                        struct arena *arena, struct err *err)
{
    const struct api_persistent_volume_source *s = &volume->spec.persistent_volume_source;
    const struct api_volume_node_affinity *affinity = volume->spec.node_affinity;
    bool own =
        str_eqz(meta_annotation(&volume->metadata, STR(STORAGE_PROVISIONED_BY)), STORAGE_LOCAL);
    int r = 0;
    if (affinity && affinity->required && !node)
        return err_set(err, ERR_UNAVAILABLE,
                       "this node's Node is not known yet: whether it has PersistentVolume %.*s is "
                       "open",
                       STR_ARG(volume->metadata.name));
    if (affinity && affinity->required && node_selector_match(affinity->required, node) <= 0)
        return err_set(err, ERR_INVALID,
                       "PersistentVolume %.*s is not on this node: no matching NodeSelectorTerms",
                       STR_ARG(volume->metadata.name));
    if (volume->spec.has_volume_mode && !str_eqz(volume->spec.volume_mode, "Filesystem"))
        return err_set(err, ERR_UNSUPPORTED,
                       "PersistentVolume %.*s is a raw block volume: this node offers file systems",
                       STR_ARG(volume->metadata.name));
    if (s->local)
        return volume_claim_check_local(s->local, arena, err);
    if (!s->host_path)
        return err_set(err, ERR_UNSUPPORTED,
                       "PersistentVolume %.*s is of type %s: this node mounts hostPath and local "
                       "ones; run the pod on another node",
                       STR_ARG(volume->metadata.name), volume_claim_source_type(s));
    if (own)
        r = volume_claim_make_own(s->host_path, arena, err);
    return r < 0 ? r : volume_check_host(s->host_path, arena, err);
}
