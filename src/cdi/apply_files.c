// SPDX-License-Identifier: Apache-2.0
//
// Device nodes and mounts of a container's configuration.
#include <errno.h>
#include <stdlib.h>

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "cdi/apply_int.h"

#include "base/banned.h"

// --- Host ----------------------------------------------------------------------------------------

static int cdi_apply_read_host_node(void *context, struct str path, struct cdi_node_info *ret,
                                    struct err *err)
{
    (void)context;
    cleanup_free char *z = xstrndup(path.p, path.n);
    struct stat st;
    if (strlen(z) != path.n)
        return err_set(err, ERR_INVALID, "a path cannot have a NUL byte in it");
    if (lstat(z, &st) != 0)
        return err_set(err, errno, "%s", strerrordesc_np(errno));
    char type = S_ISBLK(st.st_mode) ? 'b' : S_ISCHR(st.st_mode) ? 'c' : 'p';
    if (type == 'p' && !S_ISFIFO(st.st_mode))
        return err_set(err, ERR_INVALID, "it is not a device node");
    *ret = (struct cdi_node_info){.type = type,
                                  .major = (int64_t)major(st.st_rdev),
                                  .minor = (int64_t)minor(st.st_rdev),
                                  .file_mode = st.st_mode & ~(uint32_t)S_IFMT};
    return 0;
}

const struct cdi_host *cdi_host_system(void)
{
    static const struct cdi_host host = {.look = cdi_apply_read_host_node};
    return &host;
}

// --- Device nodes --------------------------------------------------------------------------------

// Fills in what the spec leaves to the host. A node that the spec describes in full need not exist.
static int complete_node(struct oci *o, struct cdi_device_node *n)
{
    struct str host_path = n->host_path.n ? n->host_path : n->path;
    bool fifo = str_eq(n->type, STR("p"));
    bool in_full = n->type.n && (n->major != 0 || fifo);
    struct cdi_node_info info = {0};
    int r = o->host->look(o->host->context, host_path, &info, in_full ? NULL : o->err);
    if (r != 0) {
        if (in_full)
            return 0;
        (void)err_wrap(o->err, "the device node %.*s of the host",
                       STR_ARG(str_upto(host_path, 200)));
        return r;
    }
    if (!n->file_mode.set)
        n->file_mode = (struct cdi_opt_u32){true, info.file_mode};
    if (in_full)
        return 0;
    if (n->type.n && n->type.p[0] != info.type)
        return err_set(o->err, ERR_INVALID,
                       "the device node %.*s shall be of type %.*s, but %.*s is of type %c",
                       STR_ARG(str_upto(n->path, 120)), STR_ARG(n->type),
                       STR_ARG(str_upto(host_path, 120)), info.type);
    n->type = info.type == 'b' ? STR("b") : info.type == 'c' ? STR("c") : STR("p");
    if (info.type != 'p' && n->major == 0) {
        n->major = info.major;
        n->minor = info.minor;
    }
    return 0;
}

// The process's user or group owns a node for which the spec names no owner.
static struct cdi_opt_u32 cdi_apply_owner(struct oci *o, struct cdi_opt_u32 said, const char *key)
{
    if (said.set)
        return said;
    yyjson_mut_val *process = yyjson_mut_obj_get(o->doc->root, "process");
    yyjson_mut_val *id = yyjson_mut_obj_get(yyjson_mut_obj_get(process, "user"), key);
    uint64_t number = yyjson_mut_is_uint(id) ? yyjson_mut_get_uint(id) : 0;
    return (struct cdi_opt_u32){number > 0 && number <= UINT32_MAX, (uint32_t)number};
}

// Whether the rules, which the kernel obeys in order, already say this with no denial behind it.
static bool already_allowed(yyjson_mut_val *rules, yyjson_mut_val *wanted)
{
    bool allowed = false;
    yyjson_mut_arr_iter it;
    (void)yyjson_mut_arr_iter_init(rules, &it);
    for (yyjson_mut_val *v = yyjson_mut_arr_iter_next(&it); v; v = yyjson_mut_arr_iter_next(&it)) {
        if (yyjson_mut_equals(v, wanted))
            allowed = true;
        else if (!yyjson_mut_is_true(yyjson_mut_obj_get(v, "allow")))
            allowed = false;
    }
    return allowed;
}

static int allow_node(struct oci *o, yyjson_mut_val *linux_part, const struct cdi_device_node *n)
{
    yyjson_mut_val *resources = oci_object(o, linux_part, "resources");
    yyjson_mut_val *rules = resources ? oci_list(o, resources, "devices") : NULL;
    if (!rules)
        return -ERR_INVALID;
    yyjson_mut_val *made = yyjson_mut_obj(o->doc);
    (void)yyjson_mut_obj_add_bool(o->doc, made, "allow", true);
    oci_add_text(o, made, "type", n->type);
    oci_add_int(o, made, "major", n->major);
    oci_add_int(o, made, "minor", n->minor);
    if (n->permissions.n == 0)
        oci_add_text(o, made, "access", STR("rwm"));
    else if (!str_eqz(n->permissions, CDI_NO_PERMISSIONS))
        oci_add_text(o, made, "access", n->permissions);
    if (!already_allowed(rules, made))
        (void)yyjson_mut_arr_append(rules, made);
    return 0;
}

int oci_device_node(struct oci *o, const struct cdi_device_node *said)
{
    struct cdi_device_node n = *said;
    n.type.p = n.type.n ? n.type.p : "";
    int r = complete_node(o, &n);
    if (r != 0)
        return r;
    n.uid = cdi_apply_owner(o, n.uid, "uid");
    n.gid = cdi_apply_owner(o, n.gid, "gid");
    yyjson_mut_val *linux_part = oci_object(o, o->doc->root, "linux");
    yyjson_mut_val *devices = linux_part ? oci_list(o, linux_part, "devices") : NULL;
    if (!devices)
        return -ERR_INVALID;
    oci_drop(devices, "path", n.path);
    yyjson_mut_val *made = yyjson_mut_obj(o->doc);
    oci_add_text(o, made, "path", n.path);
    oci_add_text(o, made, "type", n.type);
    oci_add_int(o, made, "major", n.major);
    oci_add_int(o, made, "minor", n.minor);
    if (n.file_mode.set)
        oci_add_int(o, made, "fileMode", n.file_mode.value);
    if (n.uid.set)
        oci_add_int(o, made, "uid", n.uid.value);
    if (n.gid.set)
        oci_add_int(o, made, "gid", n.gid.value);
    (void)yyjson_mut_arr_append(devices, made);
    if (str_eq(n.type, STR("b")) || str_eq(n.type, STR("c")))
        return allow_node(o, linux_part, &n);
    return 0;
}

// --- Mounts --------------------------------------------------------------------------------------

// How many slashes a path has once it is simplified: a mount must come behind those it lies in.
static size_t cdi_apply_path_depth(struct str path)
{
    bool rooted = str_starts(path, STR("/"));
    size_t names = 0, ups = 0;
    struct str part, rest = path;
    while (rest.n > 0) {
        (void)str_cut(rest, '/', &part, &rest);
        if (part.n == 0 || str_eq(part, STR(".")))
            continue;
        if (!str_eq(part, STR("..")))
            names++;
        else if (names > 0)
            names--;
        else if (!rooted)
            ups++;
    }
    size_t parts = names + ups;
    return rooted ? (parts ? parts : 1) : (parts ? parts - 1 : 0);
}

static bool has_user_namespace(struct oci *o)
{
    yyjson_mut_val *linux_part = yyjson_mut_obj_get(o->doc->root, "linux");
    yyjson_mut_val *spaces = yyjson_mut_obj_get(linux_part, "namespaces");
    if (!yyjson_mut_is_arr(spaces))
        return false;
    yyjson_mut_arr_iter it;
    (void)yyjson_mut_arr_iter_init(spaces, &it);
    for (yyjson_mut_val *v = yyjson_mut_arr_iter_next(&it); v; v = yyjson_mut_arr_iter_next(&it))
        if (str_eq(oci_text(v, "type"), STR("user")))
            return true;
    return false;
}

// The option that maps owners of a bind mount into a user namespace; empty when none is needed.
static struct str map_option(const struct cdi_mount *m)
{
    struct str option = str_eq(m->type, STR("bind")) ? STR("idmap") : STR("");
    vec_foreach(&m->options, o) {
        if (str_eq(*o, STR("idmap")) || str_eq(*o, STR("ridmap")))
            return STR("");
        if (str_eq(*o, STR("bind")))
            option = STR("idmap");
        else if (str_eq(*o, STR("rbind")))
            option = STR("ridmap");
    }
    return option;
}

static yyjson_mut_val *make_mount(struct oci *o, const struct cdi_mount *m, bool mapped)
{
    struct cdi_texts options = {0};
    vec_foreach(&m->options, option)
        vec_push_arena(o->arena, &options, *option);
    struct str map = mapped ? map_option(m) : STR("");
    if (map.n)
        vec_push_arena(o->arena, &options, map);
    yyjson_mut_val *made = yyjson_mut_obj(o->doc);
    oci_add_text(o, made, "destination", m->container_path);
    oci_add_text(o, made, "type", m->type);
    oci_add_text(o, made, "source", m->host_path);
    oci_add_texts(o, made, "options", &options);
    return made;
}

struct sorted_mount {
    yyjson_mut_val *value;
    size_t depth, place;
};

static int cdi_apply_by_depth(const void *a, const void *b)
{
    const struct sorted_mount *x = a, *y = b;
    if (x->depth != y->depth)
        return x->depth < y->depth ? -1 : 1;
    return x->place < y->place ? -1 : 1;
}

static void sort_mounts(struct oci *o, yyjson_mut_val *list)
{
    size_t n = yyjson_mut_arr_size(list), i = 0;
    struct sorted_mount *sorted = arena_array(o->arena, struct sorted_mount, n ? n : 1);
    yyjson_mut_arr_iter it;
    (void)yyjson_mut_arr_iter_init(list, &it);
    for (yyjson_mut_val *v = yyjson_mut_arr_iter_next(&it); v; v = yyjson_mut_arr_iter_next(&it)) {
        sorted[i] = (struct sorted_mount){v, cdi_apply_path_depth(oci_text(v, "destination")), i};
        i++;
    }
    qsort(sorted, n, sizeof(*sorted), cdi_apply_by_depth);
    (void)yyjson_mut_arr_clear(list);
    for (i = 0; i < n; i++)
        (void)yyjson_mut_arr_append(list, sorted[i].value);
}

int oci_mounts(struct oci *o, const struct cdi_mounts *mounts)
{
    if (mounts->n == 0)
        return 0;
    yyjson_mut_val *list = oci_list(o, o->doc->root, "mounts");
    if (!list)
        return -ERR_INVALID;
    bool mapped = has_user_namespace(o);
    vec_foreach(mounts, m) {
        oci_drop(list, "destination", m->container_path);
        (void)yyjson_mut_arr_append(list, make_mount(o, m, mapped));
    }
    sort_mounts(o, list);
    return 0;
}
