// SPDX-License-Identifier: Apache-2.0
//
// Finds the manifest, configuration and layers of an image in an OCI layout or a docker archive. A
// tar archive is indexed once; its blobs are read in place.
#include "node/image/image_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/map.h"
#include "base/mem.h"
#include "node/image/tar.h"
#include "node/image/tree.h"
#include "os/file.h"

#include "base/banned.h"

#define ARCHIVE_ENTRIES_MAX 100000
#define INDEX_DEPTH_MAX     4

struct place_in {
    uint64_t offset, size;
    char *link; // another file's name
};
struct places MAP(struct place_in);
struct fds VEC(int);

struct image_source {
    char *path;
    int fd; // a directory or an archive
    bool is_archive;
    struct places places; // of an archive
    struct arena names;
    struct fds open; // blobs of a directory
};

// --- Archives ------------------------------------------------------------------------------------

struct cursor {
    int fd;
    uint64_t at;
};

static ssize_t read_at(void *arg, void *buf, size_t n, struct err *err)
{
    struct cursor *c = arg;
    ssize_t got;
    do
        got = pread(c->fd, buf, n, (off_t)c->at);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return err_set(err, errno, "cannot read the archive: %s", strerrordesc_np(errno));
    c->at += (uint64_t)got;
    return got;
}

static struct str plain_name(struct str name)
{
    while (str_starts(name, STR("./")))
        name = str_from(name, 2);
    return name;
}

static int index_archive(struct image_source *s, struct err *err)
{
    struct cursor c = {.fd = s->fd};
    struct tar_reader tar;
    struct tar_entry e;
    int r;
    tar_reader_init(&tar, read_at, &c);
    while ((r = tar_next(&tar, &e, err)) > 0) {
        if (map_len(&s->places) == ARCHIVE_ENTRIES_MAX) {
            r = err_set(err, ERR_TOO_LARGE, "the archive has more than %d files",
                        ARCHIVE_ENTRIES_MAX);
            break;
        }
        if (e.type == TAR_FILE || e.type == TAR_SYMBOLIC_LINK || e.type == TAR_HARD_LINK) {
            struct str name = arena_str(&s->names, plain_name(e.name));
            char *link = e.type == TAR_FILE ? NULL : xstrndup(e.link.p, e.link.n);
            struct place_in *p = map_put(&s->places, name);
            free(p->link);
            *p = (struct place_in){c.at, e.size, link};
        }
        // The data is stepped over, not read; reading the last file detects a truncated end.
        c.at += tar.left + tar.padding;
        tar.offset += tar.left + tar.padding;
        tar.left = tar.padding = 0;
    }
    tar_reader_done(&tar);
    return r;
}

static int image_source_detect_archive(struct image_source *s, struct err *err)
{
    unsigned char magic[4] = {0};
    (void)!pread(s->fd, magic, sizeof(magic), 0);
    if (magic[0] == 0x1f && magic[1] == 0x8b)
        return err_set(err, ERR_UNSUPPORTED, "%s is compressed; decompress it first (gunzip)",
                       s->path);
    int r = index_archive(s, err);
    return r < 0 ? err_wrap(err, "%s", s->path) : 0;
}

int image_source_open(const char *path, struct image_source **ret, struct err *err)
{
    struct stat st;
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_set(err, errno == ENOENT ? ERR_NOT_FOUND : errno, "cannot open the image %s: %s",
                       path, strerrordesc_np(errno));
    if (fstat(fd, &st) != 0 || (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)))
        return err_set(err, ERR_INVALID, "%s is neither a directory nor a file", path);
    struct image_source *s = xcalloc(1, sizeof(*s));
    *s = (struct image_source){.path = xstrndup(path, strlen(path)),
                               .fd = fd_take(&fd),
                               .is_archive = S_ISREG(st.st_mode)};
    int r = s->is_archive ? image_source_detect_archive(s, err) : 0;
    if (r < 0)
        image_source_free(s);
    else
        *ret = s;
    return r;
}

void image_source_free(struct image_source *s)
{
    if (!s)
        return;
    map_foreach(&s->places, i)
        if (s->places.values)
            free(s->places.values[i].link);
    map_done(&s->places);
    vec_foreach(&s->open, fd)
        (void)close(*fd);
    vec_done(&s->open);
    arena_done(&s->names);
    (void)close(s->fd);
    free(s->path);
    free(s);
}

// --- Files ---------------------------------------------------------------------------------------

static int place_in_archive(struct image_source *s, struct str name, struct image_place *ret)
{
    // docker save links layers that images share.
    for (int hops = 0; hops < 4; hops++) {
        const struct place_in *p = map_get(&s->places, name);
        if (!p)
            return -ERR_NOT_FOUND;
        if (!p->link) {
            *ret = (struct image_place){s->fd, p->offset, p->size};
            return 0;
        }
        name = str_z(p->link);
        while (str_starts(name, STR("../")))
            name = str_from(name, 3);
    }
    return -ERR_NOT_FOUND;
}

static int image_source_find_place(struct image_source *s, struct str name, struct image_place *ret,
                                   struct err *err)
{
    struct stat st;
    if (s->is_archive) {
        int r = place_in_archive(s, name, ret);
        return r < 0 ? err_set(err, ERR_NOT_FOUND, "%s has no file %.*s", s->path, STR_ARG(name))
                     : 0;
    }
    cleanup_free char *z = xstrndup(name.p, name.n);
    int fd = tree_open_in(s->fd, z, O_RDONLY | O_NONBLOCK);
    if (fd < 0)
        return err_set(err, fd == -ENOENT || fd == -ENOTDIR ? ERR_NOT_FOUND : -fd,
                       "%s has no file %s: %s", s->path, z, strerrordesc_np(-fd));
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        (void)close(fd);
        return err_set(err, ERR_INVALID, "%s/%s is not a file", s->path, z);
    }
    vec_push(&s->open, fd);
    *ret = (struct image_place){fd, 0, (uint64_t)st.st_size};
    return 0;
}

static int place_of_blob(struct image_source *s, const struct image_blob_ref *b,
                         struct image_place *ret, struct err *err)
{
    cleanup_sbuf struct sbuf name = {0};
    struct str algorithm, hex;
    (void)str_cut(b->digest, ':', &algorithm, &hex);
    sbuf_addf(&name, "blobs/%.*s/%.*s", STR_ARG(algorithm), STR_ARG(hex));
    int r = image_source_find_place(s, sbuf_str(&name), ret, err);
    if (r == 0 && ret->size != b->size)
        r = err_set(err, ERR_INVALID, "the image is damaged: blob %.*s has %llu bytes, not %llu",
                    STR_ARG(b->digest), (unsigned long long)ret->size, (unsigned long long)b->size);
    return r;
}

static int read_blob(struct image_source *s, const struct image_blob_ref *b, struct arena *arena,
                     struct str *ret, struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    struct image_place place = {.fd = -1};
    int r = place_of_blob(s, b, &place, err);
    if (r == 0)
        r = image_blob_text(&place, b->digest, IMAGE_DOCUMENT_BYTES_MAX, &text, err);
    if (r == 0)
        *ret = arena_str(arena, sbuf_str(&text));
    return r;
}

static int image_source_read_file(struct image_source *s, const char *name, struct arena *arena,
                                  struct str *ret, struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    struct image_place place;
    int r = image_source_find_place(s, str_z(name), &place, err);
    if (r == 0)
        r = image_blob_text(&place, STR(""), IMAGE_DOCUMENT_BYTES_MAX, &text, err);
    if (r == 0)
        *ret = arena_str(arena, sbuf_str(&text));
    return r;
}

// --- Selection -----------------------------------------------------------------------------------

static bool same_reference(struct str a, struct str full, struct arena *arena)
{
    struct str complete;
    return a.n && image_reference_full(a, arena, &complete, NULL) == 0 && str_eq(complete, full);
}

// Whether a tag alone, in a file called like the image, makes the name: busybox.tar with "1.36".
static bool file_and_tag(const struct image_source *s, struct str tag, struct str full,
                         struct arena *arena)
{
    struct str path = str_z(s->path);
    struct str base = str_from(path, (size_t)(str_rfind_char(path, '/') + 1));
    if (str_ends(base, STR(".tar")))
        base = str_upto(base, base.n - 4);
    if (tag.n == 0 || base.n == 0)
        return false;
    return same_reference(arena_strf(arena, "%.*s:%.*s", STR_ARG(base), STR_ARG(tag)), full, arena);
}

static bool image_source_is_wanted(const struct image_source *s, const struct image_choice *c,
                                   struct str tag, struct str name, struct arena *arena)
{
    if (tag.n)
        return str_eq(c->name, tag) || str_eq(c->fullname, tag);
    if (name.n)
        return same_reference(c->fullname, name, arena) || same_reference(c->name, name, arena) ||
               file_and_tag(s, c->name, name, arena);
    return true;
}

static int image_source_choose(struct image_source *s, const struct image_choices *all,
                               struct str tag, struct str name, struct arena *arena,
                               const struct image_choice **ret, struct err *err)
{
    const struct image_choice *found = NULL;
    size_t wanted = 0;
    vec_foreach(all, c) {
        if (!image_source_is_wanted(s, c, tag, name, arena))
            continue;
        wanted++;
        if (c->platform_fits && (!found || (!found->has_platform && c->has_platform)))
            found = c;
    }
    if (found) {
        *ret = found;
        return 0;
    }
    struct image_platform here = image_platform_here();
    if (wanted)
        return err_set(err, ERR_NOT_FOUND, "%s has no image for %s/%s", s->path, here.os,
                       here.architecture);
    struct str what = tag.n ? tag : name;
    return err_set(err, ERR_NOT_FOUND, "%s has no image '%.*s'", s->path, STR_ARG(what));
}

// From the index down to a manifest.
static int find_manifest(struct image_source *s, struct str tag, struct str name,
                         struct arena *arena, struct image_blob_ref *ret, struct err *err)
{
    struct image_platform here = image_platform_here();
    struct str text;
    int r = image_source_read_file(s, "index.json", arena, &text, err);
    for (int depth = 0; r == 0; depth++) {
        struct image_choices all = {0};
        const struct image_choice *c = NULL;
        r = image_index_read(text, &here, arena, &all, err);
        if (r == 0)
            r = image_source_choose(s, &all, tag, name, arena, &c, err);
        if (r < 0 || !c)
            break;
        if (!c->is_index) {
            *ret = c->blob;
            return 0;
        }
        if (depth == INDEX_DEPTH_MAX)
            return err_set(err, ERR_INVALID, "%s has indexes within indexes, more than %d deep",
                           s->path, INDEX_DEPTH_MAX);
        r = read_blob(s, &c->blob, arena, &text, err);
        tag = name = STR("");
    }
    return r;
}

// --- Content -------------------------------------------------------------------------------------

static int check_layers(const struct image_content *c, struct err *err)
{
    if (c->config.diff_ids.n != c->layers.n)
        return err_set(err, ERR_INVALID,
                       "the image is damaged: %zu layers, but sums of %zu in its configuration",
                       c->layers.n, c->config.diff_ids.n);
    return 0;
}

static int find_oci(struct image_source *s, struct str tag, struct str name, struct arena *arena,
                    struct image_content *c, struct err *err)
{
    struct image_blob_ref blob = {.digest = STR("")};
    struct image_manifest m = {0};
    struct str text = STR("");
    int r = find_manifest(s, tag, name, arena, &blob, err);
    if (r == 0)
        r = read_blob(s, &blob, arena, &text, err);
    if (r == 0)
        r = image_manifest_read(text, arena, &m, err);
    if (r == 0)
        r = read_blob(s, &m.config, arena, &c->config_text, err);
    if (r == 0)
        r = image_config_read(c->config_text, arena, &c->config, err);
    for (size_t i = 0; r == 0 && i < m.layers.n; i++) {
        struct image_layer layer = {.digest = m.layers.p[i].digest};
        r = image_layer_kind(m.layers.p[i].media_type, &layer.compression, err);
        if (r == 0)
            r = place_of_blob(s, &m.layers.p[i], &layer.place, err);
        if (r == 0)
            vec_push_arena(arena, &c->layers, layer);
    }
    c->digest = blob.digest;
    return r;
}

static const struct image_docker *choose_docker(const struct image_dockers *all, struct str tag,
                                                struct str name, struct arena *arena)
{
    vec_foreach(all, d) {
        if (tag.n == 0 && name.n == 0)
            return d;
        vec_foreach(&d->names, n)
            if ((tag.n && str_eq(*n, tag)) || (name.n && same_reference(*n, name, arena)))
                return d;
    }
    return NULL;
}

// A file of docker-archive is a tar archive, or gzip when it begins like it.
static enum image_compression compression_of(const struct image_place *p)
{
    unsigned char magic[2] = {0};
    (void)!pread(p->fd, magic, sizeof(magic), (off_t)p->offset);
    return p->size >= 2 && magic[0] == 0x1f && magic[1] == 0x8b ? IMAGE_GZIP : IMAGE_PLAIN;
}

static int find_docker(struct image_source *s, struct str tag, struct str name, struct arena *arena,
                       struct image_content *c, struct err *err)
{
    struct image_dockers all = {0};
    struct str text;
    int r = image_source_read_file(s, "manifest.json", arena, &text, err);
    if (r == 0)
        r = image_docker_read(text, arena, &all, err);
    if (r < 0)
        return r;
    const struct image_docker *d = choose_docker(&all, tag, name, arena);
    if (!d)
        return err_set(err, ERR_NOT_FOUND, "%s has no image '%.*s'", s->path,
                       STR_ARG(tag.n ? tag : name));
    cleanup_free char *config = xstrndup(d->config.p, d->config.n);
    r = image_source_read_file(s, config, arena, &c->config_text, err);
    if (r == 0)
        r = image_config_read(c->config_text, arena, &c->config, err);
    for (size_t i = 0; r == 0 && i < d->layers.n; i++) {
        struct image_layer layer = {.digest = STR("")};
        r = image_source_find_place(s, plain_name(d->layers.p[i]), &layer.place, err);
        if (r < 0)
            break;
        layer.compression = compression_of(&layer.place);
        vec_push_arena(arena, &c->layers, layer);
    }
    return r;
}

int image_source_find(struct image_source *s, struct str tag, struct str name, struct arena *arena,
                      struct image_content *ret, struct err *err)
{
    struct image_content c = {.digest = STR("")};
    struct image_place place;
    // Newer docker save writes both forms; the OCI one has more sums.
    bool oci = image_source_find_place(s, STR("index.json"), &place, NULL) == 0;
    int r =
        oci ? find_oci(s, tag, name, arena, &c, err) : find_docker(s, tag, name, arena, &c, err);
    if (r == -ERR_NOT_FOUND && oci && s->is_archive &&
        image_source_find_place(s, STR("manifest.json"), &place, NULL) == 0) {
        c = (struct image_content){.digest = STR("")};
        r = find_docker(s, tag, name, arena, &c, err);
    }
    if (r == 0)
        r = check_layers(&c, err);
    if (r == 0)
        *ret = c;
    return r;
}
