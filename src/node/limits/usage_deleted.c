// SPDX-License-Identifier: Apache-2.0
//
// Files that a process holds open or mapped after their names are gone: they take disk space and no
// walk of a tree finds them. Looks at /proc; the process may end meanwhile. A process cannot tell
// the truth about names that are gone, but the kernel tells on which mount a file is.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/str.h"
#include "node/limits/usage.h"
#include "os/file.h"

#include "base/banned.h"

#define USAGE_MOUNTINFO_BYTES ((size_t)1024 * 1024)

static bool usage_deleted_is_known(const struct usage_deleted *d, const struct stat *st)
{
    for (size_t i = 0; i < d->known.n; i++)
        if (d->known.p[i].device == st->st_dev && d->known.p[i].inode == st->st_ino)
            return true;
    return false;
}

// --- Mounts --------------------------------------------------------------------------------------

// One line of mountinfo; proc_pid_mountinfo(5).
struct usage_mount {
    struct str id, device, root, point, type;
};

static struct str usage_deleted_word(struct str *line)
{
    struct str word;
    (void)str_cut(*line, ' ', &word, line);
    return word;
}

static struct usage_mount usage_deleted_read_mount(struct str line)
{
    struct usage_mount m = {.id = usage_deleted_word(&line)};
    (void)usage_deleted_word(&line); // the mount above it
    m.device = usage_deleted_word(&line);
    m.root = usage_deleted_word(&line);
    m.point = usage_deleted_word(&line);
    while (line.n && !str_eq(usage_deleted_word(&line), STR("-")))
        ; // options, and fields that may come
    m.type = usage_deleted_word(&line);
    return m;
}

static bool usage_deleted_is_below(const struct usage_mount *m, const struct usage_mount *root)
{
    struct str top = str_eqz(root->root, "/") ? (struct str){0} : root->root;
    struct str rest = str_from(m->root, top.n);
    return str_eq(m->device, root->device) && str_starts(m->root, top) &&
           (!rest.n || rest.p[0] == '/');
}

bool usage_mount_counts(struct str mountinfo, uint64_t mount)
{
    struct usage_mount of = {0}, root = {0};
    for (struct str line; mountinfo.n;) {
        uint64_t id = 0;
        (void)str_cut(mountinfo, '\n', &line, &mountinfo);
        const struct usage_mount m = usage_deleted_read_mount(line);
        if (str_to_u64(m.id, &id) == 0 && id == mount)
            of = m;
        if (str_eqz(m.point, "/"))
            root = m; // of several the last one covers the others
    }
    // The layer of a container is an overlay, which a process may mount a second time elsewhere.
    return !of.id.n || str_eqz(of.type, "overlay") || usage_deleted_is_below(&of, &root) ||
           str_find(of.root, STR("/" USAGE_EMPTY_DIR "/")) >= 0;
}

// What is read of a process when it holds a deleted file.
struct usage_holder {
    int64_t pid;
    bool read;
    struct sbuf mountinfo;
};

static bool usage_deleted_on_own_mount(struct usage_holder *h, int fd)
{
    struct statx at;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &at) != 0 || !(at.stx_mask & STATX_MNT_ID))
        return true;
    if (!h->read) {
        cleanup_sbuf struct sbuf path = {0};
        sbuf_addf(&path, "/proc/%lld/mountinfo", (long long)h->pid);
        // More mounts than are read: those that are not among them count.
        (void)!file_read(path.p, USAGE_MOUNTINFO_BYTES, &h->mountinfo, NULL);
        h->read = true;
    }
    return usage_mount_counts(sbuf_str(&h->mountinfo), at.stx_mnt_id);
}

// --- Files ---------------------------------------------------------------------------------------

// usage_deleted_on_disk: files in memory are the memory's matter, those of other volumes are
// nobody's here.
static bool usage_deleted_on_disk(struct usage_holder *h, int folder, const char *name)
{
    struct statfs fs;
    int fd = openat(folder, name, O_PATH | O_CLOEXEC);
    bool on_disk = fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type != TMPFS_MAGIC &&
                   fs.f_type != HUGETLBFS_MAGIC && usage_deleted_on_own_mount(h, fd);
    if (fd >= 0)
        (void)close(fd);
    return on_disk;
}

static void usage_deleted_look(struct usage_deleted *d, struct usage_holder *h, int folder,
                               const char *name)
{
    struct stat st;
    d->left--;
    if (fstatat(folder, name, &st, 0) != 0 || !S_ISREG(st.st_mode) || st.st_nlink != 0 ||
        usage_deleted_is_known(d, &st) || !usage_deleted_on_disk(h, folder, name))
        return;
    // Beyond the bound a file counts for each descriptor.
    if (d->known.n < USAGE_DELETED_MAX)
        vec_push(&d->known, ((struct usage_inode){st.st_dev, st.st_ino}));
    d->usage.bytes += (uint64_t)st.st_blocks * 512;
    d->usage.files++;
}

void usage_add_deleted(struct usage_deleted *d, int64_t pid)
{
    static const char *const folders[] = {"fd", "map_files"};
    struct usage_holder holder = {.pid = pid};
    for (size_t i = 0; i < array_len(folders) && d->left > 0; i++) {
        cleanup_sbuf struct sbuf path = {0};
        sbuf_addf(&path, "/proc/%lld/%s", (long long)pid, folders[i]);
        DIR *folder = opendir(path.p);
        const struct dirent *e;
        while (folder && d->left > 0 && (e = file_next_entry(folder)))
            usage_deleted_look(d, &holder, dirfd(folder), e->d_name);
        if (folder)
            (void)closedir(folder);
    }
    sbuf_done(&holder.mountinfo);
}

void usage_deleted_done(struct usage_deleted *d)
{
    vec_done(&d->known);
}
