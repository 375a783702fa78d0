// SPDX-License-Identifier: Apache-2.0
//
// Parses image indexes, manifests, configurations and references, with a bound on every list.
#include "node/image/image_manifest.h"

#include <string.h>

#include <sys/utsname.h>

#include "codec/json.h"

#include "base/banned.h"

#define REFERENCE_MAX 4096

// --- Members -------------------------------------------------------------------------------------

bool image_digest_ok(struct str digest)
{
    struct str algorithm, hex;
    if (!str_cut(digest, ':', &algorithm, &hex))
        return false;
    if (!(str_eq(algorithm, STR("sha256")) && hex.n == 64) &&
        !(str_eq(algorithm, STR("sha512")) && hex.n == 128))
        return false;
    for (size_t i = 0; i < hex.n; i++)
        if (!(hex.p[i] >= '0' && hex.p[i] <= '9') && !(hex.p[i] >= 'a' && hex.p[i] <= 'f'))
            return false;
    return true;
}

static int image_manifest_parse(struct str text, struct json_doc *ret, struct err *err)
{
    const struct json_options options = {.max_bytes = IMAGE_DOCUMENT_BYTES_MAX,
                                         .duplicates = JSON_DUPLICATES_REFUSE};
    return json_parse(text, &options, ret, err);
}

// A member that is text; missing and null are empty.
static int get_text(const yyjson_val *in, const char *key, struct arena *arena, struct str *ret,
                    struct err *err)
{
    const yyjson_val *v = json_get(in, str_z(key));
    struct str s = {0};
    if (!v || json_is_null(v))
        return 0;
    int r = json_to_str(v, &s, err);
    if (r == 0 && s.n && memchr(s.p, '\0', s.n))
        r = err_set(err, ERR_INVALID, "a NUL character in a text");
    if (r < 0) {
        err_path_field(err, key, strlen(key));
        return r;
    }
    *ret = arena_str(arena, s);
    return 0;
}

static int get_texts(const yyjson_val *in, const char *key, struct arena *arena,
                     struct image_texts *ret, struct err *err)
{
    const yyjson_val *list = json_get(in, str_z(key));
    int r = 0;
    if (!list || json_is_null(list))
        return 0;
    r = json_want_array(list, err);
    if (r == 0 && json_len(list) > IMAGE_WORDS_MAX)
        r = err_set(err, ERR_TOO_LARGE, "more than %d words", IMAGE_WORDS_MAX);
    if (r == 0) {
        json_arr_foreach(list, v) {
            struct str s = {0};
            r = json_to_str(v, &s, err);
            if (r == 0 && s.n && memchr(s.p, '\0', s.n))
                r = err_set(err, ERR_INVALID, "a NUL character in a text");
            if (r < 0)
                break;
            vec_push_arena(arena, ret, arena_str(arena, s));
        }
    }
    if (r < 0)
        err_path_field(err, key, strlen(key));
    return r;
}

static int get_blob(const yyjson_val *v, struct arena *arena, struct image_blob_ref *ret,
                    struct err *err)
{
    struct image_blob_ref b = {.media_type = STR(""), .digest = STR("")};
    const yyjson_val *size = json_is_object(v) ? json_get(v, STR("size")) : NULL;
    if (!json_is_object(v))
        return err_set(err, ERR_INVALID, "must be an object that describes a blob");
    int r = get_text(v, "mediaType", arena, &b.media_type, err);
    if (r == 0)
        r = get_text(v, "digest", arena, &b.digest, err);
    if (r == 0 && !image_digest_ok(b.digest))
        r = err_set(err, ERR_INVALID, "'%.*s' is not a digest that is known here (sha256, sha512)",
                    STR_ARG(str_upto(b.digest, 80)));
    if (r == 0 && (!size || json_to_u64(size, &b.size, NULL) != 0))
        r = err_set(err, ERR_INVALID, "the blob has no size");
    if (r == 0)
        *ret = b;
    return r;
}

// --- Index ---------------------------------------------------------------------------------------

struct image_platform image_platform_here(void)
{
    static const struct {
        const char *machine, *architecture;
    } rows[] = {{"x86_64", "amd64"},    {"aarch64", "arm64"}, {"riscv64", "riscv64"},
                {"ppc64le", "ppc64le"}, {"s390x", "s390x"},   {"armv7l", "arm"},
                {"i686", "386"}};
    struct utsname name;
    struct image_platform here = {"linux", "unknown", ""};
    if (uname(&name) == 0)
        for (size_t i = 0; i < array_len(rows); i++)
            if (strcmp(name.machine, rows[i].machine) == 0)
                here.architecture = rows[i].architecture;
    return here;
}

static bool is_index_type(struct str type)
{
    return str_eq(type, STR("application/vnd.oci.image.index.v1+json")) ||
           str_eq(type, STR("application/vnd.docker.distribution.manifest.list.v2+json"));
}

static bool is_manifest_type(struct str type)
{
    return type.n == 0 || str_eq(type, STR("application/vnd.oci.image.manifest.v1+json")) ||
           str_eq(type, STR("application/vnd.docker.distribution.manifest.v2+json"));
}

static int image_manifest_read_choice(const yyjson_val *v, const struct image_platform *here,
                                      struct arena *arena, struct image_choice *c, struct err *err)
{
    struct str os = STR(""), architecture = STR("");
    int r = get_blob(v, arena, &c->blob, err);
    const yyjson_val *platform = r == 0 ? json_get(v, STR("platform")) : NULL;
    const yyjson_val *notes = r == 0 ? json_get(v, STR("annotations")) : NULL;
    if (r == 0 && notes && json_is_object(notes)) {
        r = get_text(notes, "org.opencontainers.image.ref.name", arena, &c->name, err);
        if (r == 0)
            r = get_text(notes, "io.containerd.image.name", arena, &c->fullname, err);
    }
    if (r == 0 && platform && json_is_object(platform)) {
        c->has_platform = true;
        r = get_text(platform, "os", arena, &os, err);
        if (r == 0)
            r = get_text(platform, "architecture", arena, &architecture, err);
    }
    c->is_index = is_index_type(c->blob.media_type);
    c->platform_fits =
        !c->has_platform || (str_eqz(os, here->os) && str_eqz(architecture, here->architecture));
    return r;
}

int image_index_read(struct str text, const struct image_platform *platform, struct arena *arena,
                     struct image_choices *ret, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    int r = image_manifest_parse(text, &doc, err);
    const yyjson_val *list = r == 0 ? json_get(doc.root, STR("manifests")) : NULL;
    if (r < 0)
        return r;
    if (!list || !json_is_array(list))
        return err_set(err, ERR_INVALID, "an image index has a list \"manifests\"");
    if (json_len(list) > IMAGE_MANIFESTS_MAX)
        return err_set(err, ERR_TOO_LARGE, "an index of more than %d manifests",
                       IMAGE_MANIFESTS_MAX);
    size_t i = 0;
    json_arr_foreach(list, v) {
        struct image_choice c = {0};
        r = image_manifest_read_choice(v, platform, arena, &c, err);
        if (r < 0) {
            err_path_index(err, i);
            err_path_field(err, "manifests", 9);
            return r;
        }
        i++;
        // Signatures, attestations and the like are not images.
        if (c.is_index || is_manifest_type(c.blob.media_type))
            vec_push_arena(arena, ret, c);
    }
    return 0;
}

// --- Manifest ------------------------------------------------------------------------------------

int image_layer_kind(struct str type, enum image_compression *ret, struct err *err)
{
    static const struct {
        const char *type;
        enum image_compression compression;
    } rows[] = {
        {"application/vnd.oci.image.layer.v1.tar", IMAGE_PLAIN},
        {"application/vnd.oci.image.layer.v1.tar+gzip", IMAGE_GZIP},
        {"application/vnd.oci.image.layer.v1.tar+zstd", IMAGE_ZSTD},
        {"application/vnd.oci.image.layer.nondistributable.v1.tar", IMAGE_PLAIN},
        {"application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", IMAGE_GZIP},
        {"application/vnd.docker.image.rootfs.diff.tar", IMAGE_PLAIN},
        {"application/vnd.docker.image.rootfs.diff.tar.gzip", IMAGE_GZIP},
        {"application/vnd.docker.image.rootfs.diff.tar.zstd", IMAGE_ZSTD},
    };
    for (size_t i = 0; i < array_len(rows); i++)
        if (str_eqz(type, rows[i].type)) {
            *ret = rows[i].compression;
            return 0;
        }
    return err_set(err, ERR_UNSUPPORTED, "layers of type '%.*s' are not known here",
                   STR_ARG(str_upto(type, 120)));
}

static int read_layers(const yyjson_val *list, struct arena *arena, struct image_manifest *m,
                       struct err *err)
{
    size_t i = 0;
    if (!list || !json_is_array(list))
        return err_set(err, ERR_INVALID, "an image manifest has a list \"layers\"");
    if (json_len(list) > IMAGE_LAYERS_MAX)
        return err_set(err, ERR_TOO_LARGE, "an image of more than %d layers", IMAGE_LAYERS_MAX);
    json_arr_foreach(list, v) {
        struct image_blob_ref layer;
        enum image_compression kind;
        int r = get_blob(v, arena, &layer, err);
        if (r == 0)
            r = image_layer_kind(layer.media_type, &kind, err);
        if (r < 0) {
            err_path_index(err, i);
            err_path_field(err, "layers", 6);
            return r;
        }
        vec_push_arena(arena, &m->layers, layer);
        i++;
    }
    return 0;
}

int image_manifest_read(struct str text, struct arena *arena, struct image_manifest *ret,
                        struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct image_manifest m = {0};
    int r = image_manifest_parse(text, &doc, err);
    const yyjson_val *config = r == 0 ? json_get(doc.root, STR("config")) : NULL;
    if (r < 0)
        return r;
    if (json_get(doc.root, STR("schemaVersion")) && json_get(doc.root, STR("fsLayers")))
        return err_set(
            err, ERR_UNSUPPORTED,
            "Docker's image manifest of version 1 is not supported; push the image again");
    if (!config)
        return err_set(err, ERR_INVALID, "an image manifest has a member \"config\"");
    r = get_blob(config, arena, &m.config, err);
    if (r < 0)
        err_path_field(err, "config", 6);
    if (r == 0)
        r = read_layers(json_get(doc.root, STR("layers")), arena, &m, err);
    if (r == 0)
        *ret = m;
    return r;
}

// --- Configuration -------------------------------------------------------------------------------

static int read_process(const yyjson_val *v, struct arena *arena, struct image_config *c,
                        struct err *err)
{
    int r = get_texts(v, "Entrypoint", arena, &c->entrypoint, err);
    if (r == 0)
        r = get_texts(v, "Cmd", arena, &c->command, err);
    if (r == 0)
        r = get_texts(v, "Env", arena, &c->env, err);
    if (r == 0)
        r = get_text(v, "User", arena, &c->user, err);
    if (r == 0)
        r = get_text(v, "WorkingDir", arena, &c->working_dir, err);
    if (r == 0)
        r = get_text(v, "StopSignal", arena, &c->stop_signal, err);
    if (r < 0)
        err_path_field(err, "config", 6);
    return r;
}

int image_config_read(struct str text, struct arena *arena, struct image_config *ret,
                      struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct image_config c = {0};
    int r = image_manifest_parse(text, &doc, err);
    if (r < 0)
        return r;
    if (!json_is_object(doc.root))
        return err_set(err, ERR_INVALID, "an image configuration is an object");
    const yyjson_val *process = json_get(doc.root, STR("config"));
    const yyjson_val *rootfs = json_get(doc.root, STR("rootfs"));
    if (process && json_is_object(process))
        r = read_process(process, arena, &c, err);
    if (r == 0 && rootfs && json_is_object(rootfs))
        r = get_texts(rootfs, "diff_ids", arena, &c.diff_ids, err);
    vec_foreach(&c.diff_ids, d)
        if (r == 0 && !image_digest_ok(*d))
            r = err_set(err, ERR_INVALID, "rootfs.diff_ids has '%.*s', which is no digest",
                        STR_ARG(str_upto(*d, 80)));
    if (r == 0)
        *ret = c;
    return r;
}

int image_docker_read(struct str text, struct arena *arena, struct image_dockers *ret,
                      struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    int r = image_manifest_parse(text, &doc, err);
    if (r < 0)
        return r;
    if (!json_is_array(doc.root) || json_len(doc.root) > IMAGE_MANIFESTS_MAX)
        return err_set(err, ERR_INVALID, "manifest.json of an archive is a list of images");
    json_arr_foreach(doc.root, v) {
        struct image_docker d = {0};
        if (!json_is_object(v))
            return err_set(err, ERR_INVALID, "manifest.json of an archive is a list of images");
        r = get_text(v, "Config", arena, &d.config, err);
        if (r == 0)
            r = get_texts(v, "RepoTags", arena, &d.names, err);
        if (r == 0)
            r = get_texts(v, "Layers", arena, &d.layers, err);
        if (r == 0 && d.layers.n > IMAGE_LAYERS_MAX)
            r = err_set(err, ERR_TOO_LARGE, "an image of more than %d layers", IMAGE_LAYERS_MAX);
        if (r < 0)
            return r;
        vec_push_arena(arena, ret, d);
    }
    return 0;
}

// --- References ----------------------------------------------------------------------------------

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

// Lower-case words between slashes; each begins and ends with a letter or a digit.
static bool path_ok(struct str path)
{
    struct str part;
    do {
        bool more = str_cut(path, '/', &part, &path);
        if (part.n == 0 || (more && path.n == 0))
            return false;
        for (size_t i = 0; i < part.n; i++)
            if (!is_name_char(part.p[i]) ||
                ((i == 0 || i + 1 == part.n) && strchr("._-", part.p[i])))
                return false;
    } while (path.n > 0);
    return true;
}

static bool host_ok(struct str host)
{
    if (host.n == 0 || strchr(".-_:]", host.p[0]) || str_contains(host, STR("..")))
        return false;
    for (size_t i = 0; i < host.n; i++)
        if (!is_name_char(host.p[i]) && !(host.p[i] >= 'A' && host.p[i] <= 'Z') &&
            (host.p[i] == '\0' || !strchr(":[]", host.p[i])))
            return false;
    return true;
}

static bool tag_ok(struct str tag)
{
    for (size_t i = 0; i < tag.n; i++) {
        char c = tag.p[i];
        bool ok = is_name_char(c) || (c >= 'A' && c <= 'Z');
        if (!ok || (i == 0 && (c == '.' || c == '-')))
            return false;
    }
    return tag.n > 0 && tag.n <= 128;
}

int image_reference_full(struct str reference, struct arena *arena, struct str *ret,
                         struct err *err)
{
    struct str rest = reference, digest = STR(""), tag = STR(""), host, path;
    ptrdiff_t at = str_find_char(rest, '@');
    if (at >= 0) {
        digest = str_from(rest, (size_t)at + 1);
        rest = str_upto(rest, (size_t)at);
    }
    ptrdiff_t colon = str_rfind_char(rest, ':'), slash = str_rfind_char(rest, '/');
    if (colon > slash) {
        tag = str_from(rest, (size_t)colon + 1);
        rest = str_upto(rest, (size_t)colon);
    }
    bool has_host = str_cut(rest, '/', &host, &path) &&
                    (str_find_char(host, '.') >= 0 || str_find_char(host, ':') >= 0 ||
                     str_eq(host, STR("localhost")));
    if (!has_host) {
        host = STR("docker.io");
        path = rest;
    }
    if (reference.n > REFERENCE_MAX || !host_ok(host) || !path_ok(path) ||
        (colon > slash && !tag_ok(tag)) || (at >= 0 && !image_digest_ok(digest)))
        return err_set(err, ERR_BAD_REQUEST, "'%.*s' is not the name of an image",
                       STR_ARG(str_upto(reference, 200)));
    bool library = str_eq(host, STR("docker.io")) && str_find_char(path, '/') < 0;
    if (tag.n == 0 && digest.n == 0)
        tag = STR("latest");
    *ret = arena_strf(arena, "%.*s/%s%.*s%s%.*s%s%.*s", STR_ARG(host), library ? "library/" : "",
                      STR_ARG(path), tag.n ? ":" : "", STR_ARG(tag), digest.n ? "@" : "",
                      STR_ARG(digest));
    return 0;
}
