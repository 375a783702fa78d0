// SPDX-License-Identifier: Apache-2.0
//
// Device nodes that device plugins name, as CDI edits: one way into a container's configuration.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <sys/stat.h>

#include "node/oci/oci_int.h"

#include "base/banned.h"

#define NODES_MAX 4096
#define DEPTH_MAX 4

struct adding {
    struct arena *arena;
    struct cdi_edits *edits;
    struct str permissions;
};

static void oci_devices_add_node(const struct adding *a, struct str host, struct str path)
{
    vec_push_arena(
        a->arena, &a->edits->device_nodes,
        ((struct cdi_device_node){.path = path, .host_path = host, .permissions = a->permissions}));
}

// NOLINTNEXTLINE(misc-no-recursion): DEPTH_MAX directories deep at most
static void oci_devices_add_directory(const struct adding *a, struct str host, struct str path,
                                      int depth)
{
    DIR *dir = depth < DEPTH_MAX ? opendir(host.p) : NULL;
    const struct dirent *e;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of our own
    while (dir && (e = readdir(dir)) && a->edits->device_nodes.n < NODES_MAX) {
        struct stat st;
        if (e->d_name[0] == '.' || fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        struct str from = arena_strf(a->arena, "%s/%s", host.p, e->d_name);
        struct str to = arena_strf(a->arena, "%s/%s", path.p, e->d_name);
        if (S_ISDIR(st.st_mode))
            oci_devices_add_directory(a, from, to, depth + 1);
        else if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))
            oci_devices_add_node(a, from, to);
    }
    if (dir)
        (void)closedir(dir);
}

static int oci_devices_check(const struct runtime_device *d, struct err *err)
{
    int r = oci_path_check(d->host_path, "the device", err);
    if (r == 0)
        r = oci_path_check(d->container_path, "the device at", err);
    for (size_t i = 0; r == 0 && i < d->permissions.n; i++)
        if (!strchr("rwm", d->permissions.p[i]) || d->permissions.p[i] == '\0')
            r = err_set(err, ERR_INVALID, "permissions of device '%.*s' are of r, w and m",
                        STR_ARG(d->host_path));
    if (r == 0 &&
        (str_find_char(d->host_path, '\0') >= 0 || str_find_char(d->container_path, '\0') >= 0))
        r = err_set(err, ERR_INVALID, "the path of a device is not a text");
    return r;
}

int oci_device_edits(const struct runtime_container *container, struct arena *arena,
                     struct cdi_edits *edits, struct err *err)
{
    for (size_t i = 0; i < container->devices_len; i++) {
        const struct runtime_device *d = &container->devices[i];
        const struct adding a = {arena, edits, arena_str(arena, d->permissions)};
        struct str host = arena_str(arena, d->host_path);
        struct str path = arena_str(arena, d->container_path);
        struct stat st;
        int r = oci_devices_check(d, err);
        if (r < 0)
            return r;
        if (stat(host.p, &st) != 0)
            return err_set(err, errno == ENOENT ? ERR_NOT_FOUND : errno, "device %s: %s", host.p,
                           strerrordesc_np(errno));
        if (S_ISDIR(st.st_mode))
            oci_devices_add_directory(&a, host, path, 0);
        else
            oci_devices_add_node(&a, host, path);
    }
    return 0;
}
