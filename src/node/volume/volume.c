// SPDX-License-Identifier: Apache-2.0
//
// The volumes of a pod: creates, fills, updates and removes them. Containers write to some of these
// directories, so nothing here follows a symbolic link below them.
#include "node/volume/volume.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/mount.h>
#include <sys/stat.h>

#include "base/map.h"
#include "node/limits/usage.h"
#include "os/fault.h"

#include "base/banned.h"

#define DEFAULT_MODE 0644
// A container may write as much as it likes to its termination message; 4 KiB of it are read.
#define MESSAGES_OPTIONS "mode=0755,size=1024k"

// The kinds of volumes that are made here, by the names of their folders.
enum kind { EMPTY_DIR, HOST_PATH, CONFIG_MAP, SECRET, PROJECTED, DOWNWARD, CLAIM, KINDS };

static const char *const kind_folders[KINDS] = {
    [EMPTY_DIR] = USAGE_EMPTY_DIR,
    [HOST_PATH] = NULL,
    [CONFIG_MAP] = "kubernetes.io~configmap",
    [SECRET] = "kubernetes.io~secret",
    [PROJECTED] = "kubernetes.io~projected",
    [DOWNWARD] = "kubernetes.io~downward-api",
    [CLAIM] = NULL,
};

static enum kind volume_source_kind(const struct api_volume_source *v)
{
    return v->host_path                 ? HOST_PATH
           : v->config_map              ? CONFIG_MAP
           : v->secret                  ? SECRET
           : v->projected               ? PROJECTED
           : v->downward_api            ? DOWNWARD
           : v->empty_dir               ? EMPTY_DIR
           : v->persistent_volume_claim ? CLAIM
                                        : KINDS;
}

static const struct api_volume *volume_find(const struct api_pod *pod, struct str name)
{
    for (size_t i = 0; i < pod->spec.volumes.n; i++)
        if (str_eq(pod->spec.volumes.p[i].name, name))
            return &pod->spec.volumes.p[i];
    return NULL;
}

static struct str volume_directory(const char *folder, const struct api_volume *v,
                                   struct arena *arena)
{
    return arena_strf(arena, "%s/volumes/%s/%.*s", folder,
                      kind_folders[volume_source_kind(&v->volume_source)], STR_ARG(v->name));
}

static struct str volume_bound_claim_path(const struct pod_refs *refs, const struct api_volume *v)
{
    struct err err = {0};
    const struct api_persistent_volume *volume =
        pod_refs_volume(refs, v->volume_source.persistent_volume_claim->claim_name, &err);
    return volume ? volume_claim_path(volume) : STR("");
}

const char *volume_path(const char *folder, const struct api_pod *pod, const struct pod_refs *refs,
                        struct str name, struct arena *arena)
{
    const struct api_volume *v = volume_find(pod, name);
    enum kind kind = v ? volume_source_kind(&v->volume_source) : KINDS;
    if (kind == KINDS)
        return NULL;
    if (kind == CLAIM) {
        struct str path = volume_bound_claim_path(refs, v);
        return path.n ? arena_str(arena, path).p : NULL;
    }
    return kind == HOST_PATH ? arena_str(arena, v->volume_source.host_path->path).p
                             : volume_directory(folder, v, arena).p;
}

static int64_t volume_fs_group(const struct api_pod *pod)
{
    const struct api_pod_security_context *s = pod->spec.security_context;
    return s && s->has_fs_group ? s->fs_group : -1;
}

// --- Directories ---------------------------------------------------------------------------------

static bool volume_is_mounted(const char *path)
{
    struct stat here, above;
    struct sbuf up = {0};
    sbuf_addf(&up, "%s/..", path);
    bool mounted =
        lstat(path, &here) == 0 && stat(up.p, &above) == 0 && here.st_dev != above.st_dev;
    sbuf_done(&up);
    return mounted;
}

// The least of the volume's own limit, the pod's and the node's memory, as kubelet.
static int64_t volume_memory_bytes(const struct volume_options *o, const struct quantity *limit)
{
    int64_t own = limit && quantity_sign(limit) > 0 ? quantity_value(limit) : 0;
    return own > 0 && (o->memory_max <= 0 || own < o->memory_max) ? own : o->memory_max;
}

static int volume_mount_memory(const struct volume_options *o, const char *path,
                               const struct quantity *limit)
{
    char data[64] = "mode=0777";
    int64_t most = volume_memory_bytes(o, limit);
    if (volume_is_mounted(path))
        return 0;
    fault_point("mount tmpfs");
    if (most > 0)
        (void)snprintf(data, sizeof(data), "mode=0777,size=%lld", (long long)most);
    if (o->may_mount && mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOATIME, data) == 0)
        return 0;
    if (o->on_disk)
        *o->on_disk = true;
    return 0;
}

static int volume_set_owner(const char *path, int64_t group, uint32_t mode)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = 0;
    if (group >= 0 && fchown(fd, (uid_t)-1, (gid_t)group) != 0)
        r = -errno;
    if (r == 0 && fchmod(fd, group >= 0 ? mode | 02070 : mode) != 0)
        r = -errno;
    (void)close(fd);
    return r;
}

static int volume_make_own(const struct volume_options *o, const char *path, bool memory,
                           const struct quantity *limit, uint32_t mode, struct err *err)
{
    int r = volume_make_directory(path, 0777, err);
    if (r == 0 && memory)
        r = volume_mount_memory(o, path, limit);
    if (r < 0)
        return r;
    r = volume_set_owner(path, volume_fs_group(o->facts.pod), mode);
    return r < 0 ? err_set(err, -r, "%s: %s", path, strerrordesc_np(-r)) : 0;
}

static int volume_make_empty(const struct volume_options *o,
                             const struct api_empty_dir_volume_source *v, const char *path,
                             struct err *err)
{
    struct stat st;
    bool memory = str_eqz(v->medium, "Memory");
    if (v->medium.n > 0 && !memory)
        return err_set(
            err, ERR_UNSUPPORTED,
            "unknown storage medium \"%.*s\": this node offers the disk (\"\") and Memory",
            STR_ARG(v->medium));
    if (lstat(path, &st) == 0 && (!memory || volume_is_mounted(path)))
        return 0; // containers may have changed it since
    return volume_make_own(o, path, memory, v->size_limit, v->has_mode ? (uint32_t)v->mode : 0777,
                           err);
}

// --- Paths of the host ---------------------------------------------------------------------------

static int volume_create_host_path(const char *path, bool folder, struct err *err)
{
    if (folder)
        return volume_make_directory(path, 0755, err);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 && errno == EEXIST)
        return 0; // another pod was faster
    int r = fd < 0 || fchmod(fd, 0644) != 0
                ? err_set(err, errno, "%s: %s", path, strerrordesc_np(errno))
                : 0;
    if (fd >= 0)
        (void)close(fd);
    return r;
}

int volume_check_host(const struct api_host_path_volume_source *v, struct arena *arena,
                      struct err *err)
{
    static const struct {
        const char *type;
        mode_t format;
        bool create;
        const char *what;
    } rows[] = {
        {"DirectoryOrCreate", S_IFDIR, true, "a directory"},
        {"Directory", S_IFDIR, false, "a directory"},
        {"FileOrCreate", S_IFREG, true, "a file"},
        {"File", S_IFREG, false, "a file"},
        {"Socket", S_IFSOCK, false, "a socket"},
        {"CharDevice", S_IFCHR, false, "a character device"},
        {"BlockDevice", S_IFBLK, false, "a block device"},
    };
    const char *path = arena_str(arena, v->path).p;
    struct stat st;
    if (v->path.n == 0 || path[0] != '/' || str_contains(v->path, STR("/../")) ||
        str_ends(v->path, STR("/..")))
        return err_set(err, ERR_INVALID, "hostPath %s is not an absolute path without \"..\"",
                       path);
    for (size_t i = 0; i < array_len(rows); i++) {
        if (!str_eqz(v->type, rows[i].type))
            continue;
        if (stat(path, &st) != 0 && errno == ENOENT && rows[i].create) {
            int r = volume_create_host_path(path, rows[i].format == S_IFDIR, err);
            if (r < 0)
                return r;
        }
        if (stat(path, &st) != 0 || (st.st_mode & S_IFMT) != rows[i].format)
            return err_set(err, ERR_INVALID, "hostPath type check failed: %s is not %s", path,
                           rows[i].what);
        return 0;
    }
    if (v->type.n > 0)
        return err_set(err, ERR_INVALID, "unknown hostPath type %.*s", STR_ARG(v->type));
    if (stat(path, &st) != 0 && errno == ENOENT) // container runtimes make a folder then
        return volume_create_host_path(path, true, err);
    return 0;
}

// --- Files ---------------------------------------------------------------------------------------

// What all volumes of the pod may still have.
struct room {
    size_t files, bytes;
};

struct values MAP(struct str);

struct payload {
    const struct volume_options *o;
    struct room *room;
    struct arena *arena;
    struct volume_files files;
    struct values fields; // of the pod, by path: all annotations are a lot to write for each file
    uint32_t mode;
};

static int volume_add_file(struct payload *p, struct str path, struct str bytes, bool has_mode,
                           int32_t mode, struct err *err)
{
    if (p->room->files == 0 || p->room->bytes < bytes.n)
        return err_set(err, ERR_TOO_LARGE,
                       "the volumes of the pod have more than %zu files or %zu bytes of config "
                       "maps, secrets and facts",
                       DRAY_VOLUME_FILES_MAX, DRAY_VOLUME_BYTES_MAX);
    p->room->files--;
    p->room->bytes -= bytes.n;
    vec_push_arena(p->arena, &p->files,
                   ((struct volume_file){path, bytes, has_mode ? (uint32_t)mode & 0777 : p->mode}));
    return 0;
}

static int volume_add_map(struct payload *p, const struct api_str_map *data, struct err *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < data->n; i++)
        r = volume_add_file(p, data->p[i].key, data->p[i].value, false, 0, err);
    return r;
}

static void volume_index_values(const struct api_str_map *data, struct values *out)
{
    for (size_t i = 0; i < data->n; i++)
        *map_put(out, data->p[i].key) = data->p[i].value;
}

static int volume_add_items(struct payload *p, const struct values *values,
                            const struct api_key_to_path_array *items, const char *kind,
                            bool optional, struct err *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < items->n; i++) {
        const struct api_key_to_path *k = &items->p[i];
        const struct str *bytes = map_get(values, k->key);
        if (bytes)
            r = volume_add_file(p, k->path, *bytes, k->has_mode, k->mode, err);
        else if (!optional)
            r = err_set(err, ERR_NOT_FOUND, "%s key: %.*s", kind, STR_ARG(k->key));
    }
    return r;
}

// data and more: the two maps of a config map.
static int volume_add_keys(struct payload *p, const struct api_str_map *data,
                           const struct api_str_map *more,
                           const struct api_key_to_path_array *items, bool optional,
                           struct err *err)
{
    struct values values = {0};
    if (items->n == 0) {
        int r = volume_add_map(p, data, err);
        return r == 0 && more ? volume_add_map(p, more, err) : r;
    }
    if (more)
        volume_index_values(more, &values);
    volume_index_values(data, &values); // data goes before
    int r = volume_add_items(p, &values, items,
                             more ? "configmap references non-existent config"
                                  : "references non-existent secret",
                             optional, err);
    map_done(&values);
    return r;
}

static int volume_add_config_map(struct payload *p, struct str name,
                                 const struct api_key_to_path_array *items, bool optional,
                                 struct err *err)
{
    const struct api_config_map *m = pod_refs_config_map(p->o->refs, name, err);
    if (!m)
        return optional && err->code == ERR_NOT_FOUND ? 0 : -err->code;
    return volume_add_keys(p, &m->data, &m->binary_data, items, optional, err);
}

static int volume_add_secret(struct payload *p, struct str name,
                             const struct api_key_to_path_array *items, bool optional,
                             struct err *err)
{
    const struct api_secret *s = pod_refs_secret(p->o->refs, name, err);
    if (!s)
        return optional && err->code == ERR_NOT_FOUND ? 0 : -err->code;
    return volume_add_keys(p, &s->data, NULL, items, optional, err);
}

static int volume_field_value(struct payload *p, struct str path, struct str *ret, struct err *err)
{
    const struct str *known = map_get(&p->fields, path);
    if (known) {
        *ret = *known;
        return 0;
    }
    int r = env_field(&p->o->facts, path, p->arena, ret, err);
    if (r == 0)
        *map_put(&p->fields, path) = *ret;
    return r;
}

static int volume_add_downward(struct payload *p,
                               const struct api_downward_api_volume_file_array *items,
                               struct err *err)
{
    for (size_t i = 0; i < items->n; i++) {
        const struct api_downward_api_volume_file *f = &items->p[i];
        struct str value = {0};
        int r = 0;
        if (f->field_ref)
            r = volume_field_value(p, f->field_ref->field_path, &value, err);
        else if (f->resource_field_ref)
            r = env_resource(&p->o->facts, f->resource_field_ref, NULL, p->arena, &value, err);
        if (r == 0)
            r = volume_add_file(p, f->path, value, f->has_mode, f->mode, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int volume_add_token(struct payload *p, const struct api_service_account_token_projection *t,
                            struct err *err)
{
    const struct pod_ref *ref = pod_refs_token(
        p->o->refs, t->audience, t->has_expiration_seconds ? t->expiration_seconds : 3600);
    if (!ref || !ref->object)
        return err_set(err, ref && ref->err.code ? ref->err.code : ERR_NOT_FOUND,
                       "failed to fetch token: %s", ref ? ref->err.msg : "not fetched");
    const struct api_token_request *got = ref->object->object.value;
    return volume_add_file(p, t->path, got->status.token, false, 0, err);
}

static int volume_add_projection(struct payload *p, const struct api_volume_projection *s,
                                 struct err *err)
{
    if (s->config_map)
        return volume_add_config_map(p, s->config_map->local_object_reference.name,
                                     &s->config_map->items,
                                     s->config_map->has_optional && s->config_map->optional, err);
    if (s->secret)
        return volume_add_secret(p, s->secret->local_object_reference.name, &s->secret->items,
                                 s->secret->has_optional && s->secret->optional, err);
    if (s->downward_api)
        return volume_add_downward(p, &s->downward_api->items, err);
    if (s->service_account_token)
        return volume_add_token(p, s->service_account_token, err);
    return err_set(err, ERR_UNSUPPORTED,
                   "this node projects config maps, secrets, facts about the pod and tokens, "
                   "not trust bundles and pod certificates: remove that source");
}

static uint32_t volume_file_mode(bool has, int32_t mode)
{
    return has ? (uint32_t)mode & 0777 : DEFAULT_MODE;
}

static int volume_fill_payload(struct payload *p, const struct api_volume_source *v,
                               struct err *err)
{
    int r = 0;
    if (v->config_map) {
        p->mode = volume_file_mode(v->config_map->has_default_mode, v->config_map->default_mode);
        r = volume_add_config_map(p, v->config_map->local_object_reference.name,
                                  &v->config_map->items,
                                  v->config_map->has_optional && v->config_map->optional, err);
    } else if (v->secret) {
        p->mode = volume_file_mode(v->secret->has_default_mode, v->secret->default_mode);
        r = volume_add_secret(p, v->secret->secret_name, &v->secret->items,
                              v->secret->has_optional && v->secret->optional, err);
    } else if (v->downward_api) {
        p->mode =
            volume_file_mode(v->downward_api->has_default_mode, v->downward_api->default_mode);
        r = volume_add_downward(p, &v->downward_api->items, err);
    } else if (v->projected) {
        p->mode = volume_file_mode(v->projected->has_default_mode, v->projected->default_mode);
        for (size_t i = 0; r == 0 && i < v->projected->sources.n; i++)
            r = volume_add_projection(p, &v->projected->sources.p[i], err);
    }
    return r;
}

static int volume_write_files(const struct volume_options *o, const struct api_volume *v,
                              const char *path, struct room *room, struct arena *arena,
                              struct err *err)
{
    struct payload p = {.o = o, .room = room, .arena = arena};
    int64_t group = volume_fs_group(o->facts.pod);
    int r = volume_fill_payload(&p, &v->volume_source, err);
    map_done(&p.fields);
    for (size_t i = 0; group >= 0 && i < p.files.n; i++)
        p.files.p[i].mode |= (p.files.p[i].mode & 0700) >> 3 & 0050; // the group may read
    if (r == 0)
        r = volume_files_write(path, &p.files, group, err);
    return r < 0 ? r : 0;
}

// --- Volumes of a pod ----------------------------------------------------------------------------

static int volume_set_up_claim(const struct volume_options *o,
                               const struct api_persistent_volume_claim_volume_source *s,
                               struct arena *arena, struct err *err)
{
    const struct api_persistent_volume *volume = pod_refs_volume(o->refs, s->claim_name, err);
    return volume ? volume_claim_set_up(volume, o->facts.node, arena, err) : -err->code;
}

static int volume_set_up(const struct volume_options *o, const struct api_volume *v,
                         bool update_only, struct room *room, struct arena *arena, struct err *err)
{
    const struct api_volume_source *s = &v->volume_source;
    enum kind kind = volume_source_kind(s);
    if (kind == KINDS)
        return err_set(err, ERR_UNSUPPORTED,
                       "this node offers configMap, secret, emptyDir, hostPath, projected, "
                       "downwardAPI and persistentVolumeClaim volumes: use one of these, or run "
                       "the pod on another node");
    if (kind == CLAIM)
        return update_only ? 0 : volume_set_up_claim(o, s->persistent_volume_claim, arena, err);
    if (kind == HOST_PATH)
        return update_only ? 0 : volume_check_host(s->host_path, arena, err);
    const char *path = volume_directory(o->folder, v, arena).p;
    if (kind == EMPTY_DIR)
        return update_only ? 0 : volume_make_empty(o, s->empty_dir, path, err);
    bool memory = kind != CONFIG_MAP && kind != DOWNWARD; // secrets and tokens never see the disk
    int r = update_only ? 0 : volume_make_own(o, path, memory, NULL, 0777, err);
    return r == 0 ? volume_write_files(o, v, path, room, arena, err) : r;
}

static int volume_set_up_all(const struct volume_options *o, bool update_only, struct err *err)
{
    const struct api_volume_array *all = &o->facts.pod->spec.volumes;
    cleanup_arena struct arena arena = {0};
    struct room room = {DRAY_VOLUME_FILES_MAX, DRAY_VOLUME_BYTES_MAX};
    for (size_t i = 0; i < all->n; i++) {
        struct err why = {0};
        int r = volume_set_up(o, &all->p[i], update_only, &room, &arena, &why);
        if (r < 0)
            return err_set(err, -r, "MountVolume.SetUp failed for volume \"%.*s\" : %s",
                           STR_ARG(all->p[i].name), why.msg);
    }
    return 0;
}

int volumes_set_up(const struct volume_options *o, struct err *err)
{
    return volume_set_up_all(o, false, err);
}

int volumes_update(const struct volume_options *o, struct err *err)
{
    return volume_set_up_all(o, true, err);
}

// --- Removal -------------------------------------------------------------------------------------

static void volume_unmount(const char *folder)
{
    DIR *d = opendir(folder);
    const struct dirent *e;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours
    while (d && (e = readdir(d))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        cleanup_sbuf struct sbuf path = {0};
        sbuf_addf(&path, "%s/%s", folder, e->d_name);
        // One may lie over another after a crash between a mount and the next look.
        for (int i = 0; i < 16 && volume_is_mounted(path.p); i++)
            if (umount2(path.p, UMOUNT_NOFOLLOW) != 0 &&
                umount2(path.p, UMOUNT_NOFOLLOW | MNT_DETACH) != 0)
                break;
    }
    if (d)
        (void)closedir(d);
}

int volume_make_messages(const char *path, bool may_mount, struct err *err)
{
    int r = volume_make_directory(path, 0755, err);
    if (r == 0 && may_mount && !volume_is_mounted(path) &&
        mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, MESSAGES_OPTIONS) != 0)
        r = err_set(err, errno, "cannot mount %s: %s", path, strerrordesc_np(errno));
    return r;
}

int volumes_tear_down(const char *folder, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0};
    for (size_t k = 0; k < KINDS; k++) {
        if (!kind_folders[k])
            continue;
        sbuf_clear(&path);
        sbuf_addf(&path, "%s/volumes/%s", folder, kind_folders[k]);
        volume_unmount(path.p);
    }
    sbuf_clear(&path);
    sbuf_addf(&path, "%s/volumes", folder);
    return volume_remove_tree(path.p, err);
}

int volumes_remove_pod(const char *folder, struct err *err)
{
    int r = volumes_tear_down(folder, err);
    if (r == 0)
        volume_unmount(folder); // messages
    return r < 0 ? r : volume_remove_tree(folder, err);
}
