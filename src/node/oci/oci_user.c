// SPDX-License-Identifier: Apache-2.0
//
// Users and groups of an image. Its files are opened as a process in it would open them, so that a
// link in it cannot show files of the host, and read within bounds.
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/vec.h"
#include "node/image/tree.h"
#include "node/oci/oci.h"
#include "os/file.h"

#include "base/banned.h"

#define FILE_BYTES_MAX ((size_t)4 << 20)
#define GROUPS_MAX     1024

struct groups VEC(uint32_t);

static void oci_user_read_file(int rootfs, const char *path, struct sbuf *out)
{
    struct stat st;
    cleanup_fd int fd = rootfs < 0 ? -1 : tree_open_in(rootfs, path, O_RDONLY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return;
    while (out->n < FILE_BYTES_MAX) {
        ssize_t n = read(fd, sbuf_space(out, 65536), 65536);
        if (n <= 0)
            return;
        sbuf_commit(out, (size_t)n);
    }
}

static bool id_of(struct str s, uint32_t *ret)
{
    uint64_t v;
    if (str_to_u64(s, &v) != 0 || v >= UINT32_MAX)
        return false;
    *ret = (uint32_t)v;
    return true;
}

// One line of passwd or group, cut at its colons; missing fields are empty.
static void cut_fields(struct str line, struct str *fields, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (void)str_cut(line, ':', &fields[i], &line);
}

enum { NAME, PASSWORD, ID, GROUP_ID, COMMENT, HOME, SHELL, FIELDS };

// Finds a user by name or, when it is a number, by id.
static bool oci_user_find_name(struct str text, struct str wanted, struct str *name,
                               struct oci_user *ret, struct arena *arena)
{
    uint32_t number = 0;
    bool is_number = id_of(wanted, &number);
    while (text.n > 0) {
        struct str line, f[FIELDS];
        struct oci_user u = {0};
        (void)str_cut(text, '\n', &line, &text);
        cut_fields(line, f, FIELDS);
        if (!id_of(f[ID], &u.uid) || !id_of(f[GROUP_ID], &u.gid))
            continue;
        if (is_number ? u.uid != number : !str_eq(f[NAME], wanted))
            continue;
        u.home = arena_str(arena, f[HOME]);
        *ret = u;
        *name = f[NAME];
        return true;
    }
    return false;
}

static bool oci_user_find_group(struct str text, struct str wanted, uint32_t *ret)
{
    while (text.n > 0) {
        struct str line, f[3];
        (void)str_cut(text, '\n', &line, &text);
        cut_fields(line, f, 3);
        if (str_eq(f[NAME], wanted))
            return id_of(f[ID], ret);
    }
    return false;
}

static bool lists_user(struct str members, struct str user)
{
    while (members.n > 0) {
        struct str one;
        (void)str_cut(members, ',', &one, &members);
        if (str_eq(str_trim(one), user))
            return true;
    }
    return false;
}

// The groups that name the user as a member.
static void oci_user_add_groups(struct str text, struct str user, struct arena *arena,
                                struct groups *out)
{
    while (text.n > 0 && user.n > 0 && out->n < GROUPS_MAX) {
        struct str line, f[4];
        uint32_t id;
        (void)str_cut(text, '\n', &line, &text);
        cut_fields(line, f, 4);
        if (id_of(f[ID], &id) && lists_user(f[3], user))
            vec_push_arena(arena, out, id);
    }
}

int oci_user_find(int rootfs, struct str said, struct arena *arena, struct oci_user *ret,
                  struct err *err)
{
    cleanup_sbuf struct sbuf passwd = {0}, group = {0};
    struct str user, wanted_group, name = STR("");
    struct oci_user u = {0};
    struct groups groups = {0};
    bool has_group = str_cut(said, ':', &user, &wanted_group) && wanted_group.n;
    oci_user_read_file(rootfs, "etc/passwd", &passwd);
    oci_user_read_file(rootfs, "etc/group", &group);
    if (user.n == 0)
        user = STR("0");
    if (!oci_user_find_name(sbuf_str(&passwd), user, &name, &u, arena) && !id_of(user, &u.uid))
        return err_set(err, ERR_INVALID, "the image's /etc/passwd has no user '%.*s'",
                       STR_ARG(str_upto(user, 100)));
    if (has_group && !id_of(wanted_group, &u.gid) &&
        !oci_user_find_group(sbuf_str(&group), wanted_group, &u.gid))
        return err_set(err, ERR_INVALID, "the image's /etc/group has no group '%.*s'",
                       STR_ARG(str_upto(wanted_group, 100)));
    oci_user_add_groups(sbuf_str(&group), name, arena, &groups);
    u.groups = groups.p;
    u.groups_len = groups.n;
    *ret = u;
    return 0;
}
