// SPDX-License-Identifier: Apache-2.0
//
// The image store: resolves references, finds stored images and installs new ones from layouts,
// archives, directories or a registry. An image appears by one rename, after all digests matched.
#include "node/image/image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>

#include "codec/json.h"
#include "codec/json_writer.h"
#include "node/image/image_blob.h"
#include "node/image/image_int.h"
#include "node/image/image_pull.h"
#include "node/image/image_source.h"
#include "node/image/image_unpack.h"
#include "os/fault.h"
#include "os/file.h"

#include "base/banned.h"

int image_store_new(const struct image_store_options *o, struct image_store **ret, struct err *err)
{
    static const char *const parts[] = {"unpacked", "refs", "tmp"};
    int r = file_make_dirs(o->folder, 0700, NULL);
    cleanup_fd int fd = r == 0 ? open(o->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0)
        return err_set(err, r < 0 ? -r : errno, "cannot use the image directory %s: %s", o->folder,
                       strerrordesc_np(r < 0 ? -r : errno));
    (void)file_remove_tree_at(fd, "tmp");
    for (size_t i = 0; i < array_len(parts); i++)
        if (mkdirat(fd, parts[i], 0700) != 0 && errno != EEXIST)
            return err_set(err, errno, "cannot make %s/%s: %s", o->folder, parts[i],
                           strerrordesc_np(errno));
    cleanup_sbuf struct sbuf refs = {0};
    sbuf_addf(&refs, "%s/refs", o->folder);
    file_remove_temporaries(refs.p, STR(""));
    struct image_store *s = xcalloc(1, sizeof(*s));
    s->folder = xstrndup(o->folder, strlen(o->folder));
    s->local = o->local ? xstrndup(o->local, strlen(o->local)) : NULL;
    s->fd = fd_take(&fd);
    s->clock = o->clock ? o->clock : clock_system();
    s->measure = o->measure;
    s->measure_arg = o->measure_arg;
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_mutex_init(&s->use_lock, NULL);
    *ret = s;
    return 0;
}

void image_store_free(struct image_store *s)
{
    if (!s)
        return;
    (void)pthread_mutex_destroy(&s->lock);
    (void)pthread_mutex_destroy(&s->use_lock);
    (void)close(s->fd);
    free(s->folder);
    free(s->local);
    free(s);
}

// --- Images by path ------------------------------------------------------------------------------

static bool is_file_reference(struct str full)
{
    return str_starts(full, STR("oci:")) || str_starts(full, STR("oci-archive:")) ||
           str_starts(full, STR("docker-archive:")) || str_starts(full, STR("dir:"));
}

// PATH[:TAG], where a colon may be part of the path of an existing file.
static void split_tag(struct str text, struct arena *arena, struct str *path, struct str *tag)
{
    struct stat st;
    ptrdiff_t colon = str_rfind_char(text, ':');
    *path = arena_str(arena, text);
    *tag = STR("");
    if (colon <= 0 || stat(path->p, &st) == 0)
        return;
    *tag = str_from(*path, (size_t)colon + 1);
    *path = arena_str(arena, str_upto(text, (size_t)colon));
}

static void split_reference(struct str full, struct arena *arena, struct str *kind,
                            struct str *path, struct str *tag)
{
    struct str rest;
    (void)str_cut(full, ':', kind, &rest);
    *path = arena_str(arena, rest);
    *tag = STR("");
    if (!str_eq(*kind, STR("dir")))
        split_tag(rest, arena, path, tag);
}

static bool is_below(struct str path, const char *top)
{
    struct str t = str_z(top);
    return t.n > 0 && str_starts(path, t) && path.n > t.n && path.p[t.n] == '/';
}

static bool image_has_dots(struct str path)
{
    for (struct str part; path.n;) {
        str_cut(path, '/', &part, &path);
        if (str_eq(part, STR("..")))
            return true;
    }
    return false;
}

// The name of an image is chosen by the pod's author; a path in it must not reach arbitrary files.
// So it leads to the directory of local images, with and without following links, and any other
// path is refused whether or not it exists.
static bool is_local(const struct image_store *s, struct str path)
{
    cleanup_free char *top = s->local ? realpath(s->local, NULL) : NULL;
    cleanup_free char *real = realpath(path.p, NULL);
    if (!top || image_has_dots(path) || !(is_below(path, s->local) || is_below(path, top)))
        return false;
    return !real || is_below(str_z(real), top);
}

// --- Stored images -------------------------------------------------------------------------------

// image_damaged changes the code for a document that cannot be parsed: to callers of image_find and
// image_get, -ERR_BAD_REQUEST is a wrong name.
static int image_damaged(int r, struct err *err)
{
    if (r != -ERR_BAD_REQUEST)
        return r;
    if (err)
        err->code = ERR_INVALID;
    return -ERR_INVALID;
}

bool image_id_ok(struct str id)
{
    return image_digest_ok(id) && str_starts(id, STR("sha256:"));
}

int image_read_info(struct image_store *s, struct str hex, struct arena *arena,
                    struct image_info *ret, struct err *err)
{
    cleanup_sbuf struct sbuf name = {0}, text = {0};
    cleanup_json_doc struct json_doc doc = {0};
    sbuf_addf(&name, "unpacked/%.*s/info", STR_ARG(hex));
    if (file_read_at(s->fd, name.p, IMAGE_INFO_BYTES_MAX, &text) < 0)
        return err_set(err, ERR_NOT_FOUND, "there is no image sha256:%.*s here", STR_ARG(hex));
    int r = json_parse(sbuf_str(&text), NULL, &doc, err);
    if (r < 0)
        return err_wrap(err, "%s/%s", s->folder, name.p);
    const yyjson_val *rootfs = json_get(doc.root, STR("rootfs"));
    const yyjson_val *full = json_get(doc.root, STR("name"));
    const yyjson_val *size = json_get(doc.root, STR("size"));
    *ret = (struct image_info){.id = arena_strf(arena, "sha256:%.*s", STR_ARG(hex))};
    if (rootfs && json_is_string(rootfs) && !is_local(s, arena_str(arena, json_str(rootfs))))
        return err_set(err, ERR_NOT_FOUND, "the image sha256:%.*s is no local image any more",
                       STR_ARG(hex));
    if (rootfs && json_is_string(rootfs))
        ret->rootfs = arena_str(arena, json_str(rootfs));
    else
        ret->rootfs = arena_strf(arena, "%s/unpacked/%.*s/rootfs", s->folder, STR_ARG(hex));
    if (full && json_is_string(full))
        ret->name = arena_str(arena, json_str(full));
    if (size)
        (void)json_to_u64(size, &ret->size, NULL);
    return 0;
}

int image_load_unused(struct image_store *s, struct str id, struct arena *arena,
                      struct image_info *ret, struct err *err)
{
    cleanup_sbuf struct sbuf name = {0}, text = {0};
    if (!image_id_ok(id))
        return err_set(err, ERR_NOT_FOUND, "'%.*s' is not the id of an image",
                       STR_ARG(str_upto(id, 100)));
    struct str hex = str_from(id, 7);
    int r = image_read_info(s, hex, arena, ret, err);
    if (r < 0)
        return r;
    sbuf_addf(&name, "unpacked/%.*s/config", STR_ARG(hex));
    r = file_read_at(s->fd, name.p, IMAGE_DOCUMENT_BYTES_MAX, &text);
    if (r < 0)
        return err_set(err, ERR_NOT_FOUND, "the image %.*s has no configuration", STR_ARG(id));
    return image_config_read(sbuf_str(&text), arena, &ret->config, err);
}

// The use is noted before the image is read: the garbage collector checks it before it removes.
int image_load(struct image_store *s, struct str id, struct arena *arena, struct image_info *ret,
               struct err *err)
{
    if (image_id_ok(id))
        image_note_use(s, str_from(id, 7));
    return image_damaged(image_load_unused(s, id, arena, ret, err), err);
}

// A reference in the form under which it is kept.
static int image_canonical_reference(const struct image_store *s, struct str reference,
                                     struct arena *arena, struct str *ret, struct err *err)
{
    struct str kind, path, tag;
    if (!is_file_reference(reference))
        return image_reference_full(reference, arena, ret, err);
    if (memchr(reference.p, '\0', reference.n))
        return err_set(err, ERR_BAD_REQUEST, "a NUL character in the name of an image");
    split_reference(reference, arena, &kind, &path, &tag);
    if (!is_local(s, path))
        return err_set(
            err, ERR_INVALID,
            "'%.*s' is not in the directory of local images, %s: images by path are taken "
            "from there alone",
            STR_ARG(str_upto(reference, 200)), s->local ? s->local : "(none)");
    *ret = arena_str(arena, reference);
    return 0;
}

static void ref_name(struct str full, struct sbuf *out)
{
    sbuf_addz(out, "refs/");
    image_sha256(full, false, out);
}

static int image_find_stored(struct image_store *s, struct str full, struct arena *arena,
                             struct image_info *ret, struct err *err)
{
    cleanup_sbuf struct sbuf name = {0}, text = {0};
    struct str id, rest;
    ref_name(full, &name);
    if (file_read_at(s->fd, name.p, IMAGE_INFO_BYTES_MAX, &text) < 0)
        return err_set(err, ERR_NOT_FOUND, "there is no image '%.*s' here", STR_ARG(full));
    (void)str_cut(sbuf_str(&text), '\n', &id, &rest);
    return image_load(s, id, arena, ret, err);
}

int image_find(struct image_store *s, struct str reference, struct arena *arena,
               struct image_info *ret, struct err *err)
{
    struct str full;
    if (image_id_ok(reference))
        return image_load(s, reference, arena, ret, err);
    int r = image_canonical_reference(s, reference, arena, &full, err);
    return r < 0 ? r : image_find_stored(s, full, arena, ret, err);
}

// --- Creation ------------------------------------------------------------------------------------

static int image_fail(const char *doing, const char *what, int code, struct err *err)
{
    return err_set(err, code, "cannot %s %s: %s", doing, what, strerrordesc_np(code));
}

static int keep_reference(struct image_store *s, struct str full, struct str id, struct err *err)
{
    cleanup_sbuf struct sbuf name = {0}, text = {0};
    ref_name(full, &name);
    sbuf_addf(&text, "%.*s\n%.*s\n", STR_ARG(id), STR_ARG(full));
    cleanup_fd int refs = openat(s->fd, "refs", O_PATH | O_DIRECTORY | O_CLOEXEC);
    fault_point("keep the reference of an image");
    int r = file_replace_atomic(refs, name.p + 5, sbuf_str(&text), 0644, NULL);
    return r < 0 ? image_fail("keep a reference in", s->folder, -r, err) : 0;
}

static int unpack_one(const struct image_layer *layer, struct str diff_id, struct unpack *u,
                      struct err *err)
{
    struct image_blob *b;
    struct tar_reader tar;
    const struct image_blob_options o = {
        .place = layer->place,
        .digest = layer->digest,
        .diff_id = diff_id,
        .compression = layer->compression,
        .max_bytes = UNPACK_BYTES_MAX,
    };
    int r = image_blob_new(&o, &b, err);
    if (r < 0)
        return r;
    tar_reader_init(&tar, image_blob_read, b);
    r = image_unpack_layer(u, &tar, err);
    tar_reader_done(&tar);
    if (r == 0)
        r = image_blob_finish(b, err);
    image_blob_free(b);
    return r;
}

static int image_write_info(int folder, const struct image_content *c, struct str full,
                            struct str rootfs, uint64_t size, struct err *err)
{
    cleanup_sbuf struct sbuf text = {0}, name = {0};
    struct json_writer w = {.out = &text};
    ptrdiff_t colon = str_rfind_char(full, ':'), at = str_find_char(full, '@');
    struct str bare = at >= 0     ? str_upto(full, (size_t)at)
                      : colon > 0 ? str_upto(full, (size_t)colon)
                                  : full;
    if (c->digest.n)
        sbuf_addf(&name, "%.*s@%.*s", STR_ARG(bare), STR_ARG(c->digest));
    json_write_object_begin(&w);
    json_write_text(&w, "name", sbuf_str(&name));
    if (rootfs.n)
        json_write_text(&w, "rootfs", rootfs);
    json_write_number(&w, "size", (int64_t)size);
    json_write_object_end(&w);
    int r = file_replace_atomic(folder, "info", sbuf_str(&text), 0644, NULL);
    if (r == 0)
        r = file_replace_atomic(folder, "config", c->config_text, 0644, NULL);
    return r < 0 ? image_fail("write", "an image's description", -r, err) : 0;
}

static int image_fill_directory(int folder, const struct image_content *c, struct str full,
                                struct err *err)
{
    struct unpack u;
    int r = file_make_dir_at(folder, "rootfs", 0755);
    if (r < 0)
        return image_fail("make", "a root file system", -r, err);
    cleanup_fd int root = openat(folder, "rootfs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return image_fail("open", "a root file system", errno, err);
    image_unpack_init(&u, root);
    for (size_t i = 0; r == 0 && i < c->layers.n; i++) {
        fault_point("unpack a layer");
        r = unpack_one(&c->layers.p[i], c->config.diff_ids.p[i], &u, err);
    }
    fault_point("describe an image");
    return r < 0 ? r
                 : image_write_info(folder, c, full, STR(""), UNPACK_BYTES_MAX - u.bytes_left, err);
}

// Unpacks into a temporary directory, which becomes the image's at the end.
static int image_install(struct image_store *s, const struct image_content *c, struct str full,
                         struct str *ret_id, struct arena *arena, struct err *err)
{
    cleanup_sbuf struct sbuf id = {0}, to = {0}, temporary = {0};
    struct stat st;
    image_sha256(c->config_text, true, &id);
    *ret_id = arena_str(arena, sbuf_str(&id));
    sbuf_addf(&to, "unpacked/%s", id.p + 7);
    if (fstatat(s->fd, to.p, &st, 0) == 0)
        return 0;
    sbuf_addf(&temporary, "tmp/%lu", s->next++);
    fault_point("make a directory for an image");
    if (mkdirat(s->fd, temporary.p, 0700) != 0)
        return image_fail("make a directory in", s->folder, errno, err);
    int folder = openat(s->fd, temporary.p, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = folder < 0 ? image_fail("open a directory in", s->folder, errno, err)
                       : image_fill_directory(folder, c, full, err);
    if (r == 0 && syncfs(folder) != 0)
        r = image_fail("write to", s->folder, errno, err);
    if (folder >= 0)
        (void)close(folder);
    fault_point("let an image appear");
    if (r == 0 && renameat(s->fd, temporary.p, s->fd, to.p) != 0)
        r = image_fail("rename a directory in", s->folder, errno, err);
    if (r < 0)
        (void)file_remove_tree_at(s->fd, temporary.p);
    return r;
}

// An image in a layout or archive: by tag, by name, or the only one.
struct place {
    const char *path;
    struct str tag;
    struct str name;
};

static int install_from(struct image_store *s, const struct place *at, struct str full,
                        struct arena *arena, struct str *ret_id, struct err *err)
{
    struct image_source *source;
    struct image_content content;
    int r = image_source_open(at->path, &source, err);
    if (r < 0)
        return r;
    r = image_source_find(source, at->tag, at->name, arena, &content, err);
    if (r == 0)
        r = image_install(s, &content, full, ret_id, arena, err);
    image_source_free(source);
    return image_damaged(r, err);
}

// Registers a directory without copying it: its id is a hash of the reference.
static int image_install_directory(struct image_store *s, struct str path, struct str full,
                                   struct arena *arena, struct str *ret_id, struct err *err)
{
    struct stat st;
    struct image_content c = {.digest = STR("")};
    if (path.n == 0 || path.p[0] != '/' || stat(path.p, &st) != 0 || !S_ISDIR(st.st_mode))
        return err_set(err, ERR_NOT_FOUND, "'%s' is not a directory; dir: needs a whole path",
                       path.p);
    c.config_text = arena_strf(arena,
                               "{\"config\":{},\"rootfs\":{\"type\":\"layers\"},"
                               "\"comment\":\"%zu\"}",
                               path.n);
    cleanup_sbuf struct sbuf hex = {0}, to = {0}, temporary = {0};
    image_sha256(full, false, &hex);
    *ret_id = arena_strf(arena, "sha256:%s", hex.p);
    sbuf_addf(&to, "unpacked/%s", hex.p);
    if (fstatat(s->fd, to.p, &st, 0) == 0)
        return 0;
    sbuf_addf(&temporary, "tmp/%lu", s->next++);
    if (mkdirat(s->fd, temporary.p, 0700) != 0)
        return image_fail("make a directory in", s->folder, errno, err);
    cleanup_fd int folder = openat(s->fd, temporary.p, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = image_write_info(folder, &c, full, path, 0, err);
    if (r == 0 && renameat(s->fd, temporary.p, s->fd, to.p) != 0)
        r = image_fail("rename a directory in", s->folder, errno, err);
    if (r < 0)
        (void)file_remove_tree_at(s->fd, temporary.p);
    return r;
}

// --- Sources -------------------------------------------------------------------------------------

static int from_file(struct image_store *s, struct str full, struct arena *arena,
                     struct str *ret_id, struct err *err)
{
    struct str kind, path, tag;
    split_reference(full, arena, &kind, &path, &tag);
    if (str_eq(kind, STR("dir")))
        return image_install_directory(s, path, full, arena, ret_id, err);
    const struct place at = {.path = path.p, .tag = tag};
    return install_from(s, &at, full, arena, ret_id, err);
}

// Looks through the directory of local images. A file that is no image, or damaged, hides no other;
// the last error is returned when nothing is found.
static int from_local(struct image_store *s, struct str full, struct arena *arena,
                      struct str *ret_id, struct err *err)
{
    struct dirent **names;
    int n = s->local ? scandir(s->local, &names, NULL, alphasort) : 0;
    int r = err_set(err, ERR_NOT_FOUND, "there is no image '%.*s' here", STR_ARG(full));
    for (int i = 0; i < n; i++) {
        cleanup_sbuf struct sbuf path = {0};
        struct err why = {0};
        sbuf_addf(&path, "%s/%s", s->local, names[i]->d_name);
        if (r != 0 && names[i]->d_name[0] != '.') {
            const struct place at = {.path = path.p, .name = full};
            int one = install_from(s, &at, full, arena, ret_id, &why);
            if (one == 0)
                r = 0;
            else if (one != -ERR_NOT_FOUND && err)
                r = (*err = why, one);
        }
        free(names[i]);
    }
    if (n > 0)
        free(names);
    return r;
}

static int image_pull_registry(struct image_store *s, const struct runtime_image *image,
                               struct str full, struct arena *arena, struct str *ret_id,
                               struct err *err)
{
    cleanup_sbuf struct sbuf folder = {0}, layout = {0};
    sbuf_addf(&folder, "%s/tmp/%lu", s->folder, s->next++);
    fault_point("make a directory for a pulled image");
    if (mkdir(folder.p, 0700) != 0)
        return image_fail("make", folder.p, errno, err);
    sbuf_addf(&layout, "%s/layout", folder.p);
    int r = image_pull(full, image->auths, image->auths_len, folder.p, layout.p, err);
    const struct place at = {.path = layout.p};
    if (r == 0)
        r = install_from(s, &at, full, arena, ret_id, err);
    (void)file_remove_tree(folder.p, NULL);
    return r;
}

static int image_get_locked(struct image_store *s, const struct runtime_image *image,
                            struct str full, struct arena *arena, struct image_info *ret,
                            struct err *err)
{
    struct str id = {0};
    int r;
    if (image->pull != RUNTIME_PULL_ALWAYS && image_find_stored(s, full, arena, ret, NULL) == 0)
        return 0;
    if (is_file_reference(full)) {
        r = from_file(s, full, arena, &id, err);
    } else {
        r = from_local(s, full, arena, &id, err);
        if (r == -ERR_NOT_FOUND && image->pull != RUNTIME_PULL_NEVER && image_pull_possible())
            r = image_pull_registry(s, image, full, arena, &id, err);
    }
    if (r == 0)
        r = keep_reference(s, full, id, err);
    return r < 0 ? r : image_load(s, id, arena, ret, err);
}

int image_get(struct image_store *s, const struct runtime_image *image, struct arena *arena,
              struct image_info *ret, struct err *err)
{
    struct str full;
    if (image_id_ok(image->reference))
        return image_load(s, image->reference, arena, ret, err);
    int r = image_canonical_reference(s, image->reference, arena, &full, err);
    if (r < 0)
        return r;
    if (image->pull != RUNTIME_PULL_ALWAYS && image_find_stored(s, full, arena, ret, NULL) == 0)
        return 0;
    (void)pthread_mutex_lock(&s->lock);
    r = image_get_locked(s, image, full, arena, ret, err);
    (void)pthread_mutex_unlock(&s->lock);
    return r;
}
