// SPDX-License-Identifier: Apache-2.0
//
// Reading an encryption configuration. A field or provider that is unknown is an error: what is
// believed to be encrypted must not be written plain because of a misspelt name.
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdlib.h>

#include <sys/stat.h>

#include "base/mem.h"
#include "codec/base64.h"
#include "codec/yaml.h"
#include "os/file.h"
#include "registry/registry.h"
#include "server/seal/seal_int.h"

#include "base/banned.h"

#define SEAL_FILE_BYTES_MAX ((size_t)1024 * 1024)
#define SEAL_KEYS_MAX       64 // of a resource

static int seal_wrong_type(const yyjson_val *v, const char *want, struct err *err)
{
    return err_set(err, ERR_INVALID, "is of type %s, not %s", json_type_name(v), want);
}

static int seal_at_field(struct err *err, int r, struct str name)
{
    if (r < 0)
        err_path_field(err, name.p, name.n);
    return r;
}

// seal_read_list calls fn for each item of a list that must not be empty.
static int seal_read_list(const yyjson_val *parent, const char *field,
                          int (*fn)(const yyjson_val *item, struct seal_config *c,
                                    struct seal_entry *e, struct err *err),
                          struct seal_config *c, struct seal_entry *e, struct err *err)
{
    const yyjson_val *v = json_get(parent, str_z(field));
    int r = !v || json_is_null(v) ? err_set(err, ERR_INVALID, "is required")
            : !json_is_array(v)   ? seal_wrong_type(v, "array", err)
            : json_len(v) == 0    ? err_set(err, ERR_INVALID, "must have an item")
                                  : 0;
    size_t i = 0;
    if (r == 0)
        json_arr_foreach(v, item) {
            r = fn(item, c, e, err);
            if (r < 0) {
                err_path_index(err, i);
                break;
            }
            i++;
        }
    return seal_at_field(err, r, str_z(field));
}

// seal_check_fields refuses members of an object that are not among the names.
static int seal_check_fields(const yyjson_val *v, const char *const *names, struct err *err)
{
    if (!json_is_object(v))
        return seal_wrong_type(v, "object", err);
    json_obj_foreach(v, key, val) {
        (void)val;
        size_t i = 0;
        while (names[i] && !str_eqz(json_str(key), names[i]))
            i++;
        if (!names[i])
            return seal_at_field(err, err_set(err, ERR_INVALID, "unknown field"), json_str(key));
    }
    return 0;
}

static int seal_read_text(const yyjson_val *parent, const char *field, struct str *ret,
                          struct err *err)
{
    const yyjson_val *v = json_get(parent, str_z(field));
    int r = !v                   ? err_set(err, ERR_INVALID, "is required")
            : !json_is_string(v) ? seal_wrong_type(v, "string", err)
                                 : 0;
    if (r == 0)
        *ret = json_str(v);
    return seal_at_field(err, r, str_z(field));
}

// --- Providers -----------------------------------------------------------------------------------

static int seal_decode_secret(struct str text, struct seal_key *key, struct err *err)
{
    cleanup_sbuf struct sbuf bytes = {0};
    int r = 0;
    if (base64_decode(text, BASE64_STD, &bytes, NULL) < 0)
        r = err_set(err, ERR_INVALID, "is not base64");
    else if (bytes.n != 16 && bytes.n != 24 && bytes.n != 32)
        r = err_set(err, ERR_INVALID,
                    "has %zu bytes, not 32, 24 or 16; make one with 'head -c 32 /dev/urandom | "
                    "base64'",
                    bytes.n);
    if (r == 0) {
        memcpy(key->bytes, bytes.p, bytes.n);
        key->n = bytes.n;
    }
    if (bytes.p)
        explicit_bzero(bytes.p, bytes.n);
    return seal_at_field(err, r, STR("secret"));
}

static int seal_read_key(const yyjson_val *v, struct seal_config *c, struct seal_entry *e,
                         struct err *err)
{
    static const char *const fields[] = {"name", "secret", NULL};
    struct seal_key key = {0};
    struct str name = {0}, secret = {0};
    int r = seal_check_fields(v, fields, err);
    if (r == 0)
        r = seal_read_text(v, "name", &name, err);
    if (r == 0 && (name.n == 0 || name.n > SEAL_NAME_BYTES_MAX || str_find_char(name, ':') >= 0))
        r = seal_at_field(err,
                          err_set(err, ERR_INVALID, "must have 1 to %d bytes and no colon",
                                  SEAL_NAME_BYTES_MAX),
                          STR("name"));
    if (r == 0)
        r = seal_read_text(v, "secret", &secret, err);
    if (r == 0)
        r = seal_decode_secret(secret, &key, err);
    if (r == 0 && e->keys.n == SEAL_KEYS_MAX)
        r = err_set(err, ERR_INVALID, "more than %d keys", SEAL_KEYS_MAX);
    if (r == 0) {
        key.name = arena_str(&c->arena, name);
        vec_push(&e->keys, key);
    }
    explicit_bzero(&key, sizeof(key));
    return r;
}

static int seal_refuse_provider(struct str name, struct err *err)
{
    bool known = str_eqz(name, "aescbc") || str_eqz(name, "secretbox") || str_eqz(name, "kms");
    return err_set(err, ERR_INVALID,
                   known ? "this provider is not supported; use aesgcm with a key of 32 bytes"
                         : "unknown provider; providers are aesgcm and identity");
}

static int seal_read_provider(const yyjson_val *v, struct seal_config *c, struct seal_entry *e,
                              struct err *err)
{
    static const char *const key_fields[] = {"keys", NULL}, *const no_fields[] = {NULL};
    if (!json_is_object(v))
        return seal_wrong_type(v, "object", err);
    if (json_len(v) != 1)
        return err_set(err, ERR_INVALID, "must name one provider, such as aesgcm or identity");
    json_obj_foreach(v, key, val) {
        struct str name = json_str(key);
        int r;
        if (str_eqz(name, "aesgcm")) {
            r = seal_check_fields(val, key_fields, err);
            if (r == 0)
                r = seal_read_list(val, "keys", seal_read_key, c, e, err);
        } else if (str_eqz(name, "identity")) {
            r = seal_check_fields(val, no_fields, err);
            if (r == 0)
                vec_push(&e->keys, ((struct seal_key){0}));
        } else {
            r = seal_refuse_provider(name, err);
        }
        return seal_at_field(err, r, name);
    }
    return 0;
}

// --- Resources -----------------------------------------------------------------------------------

// seal_check_stored: a name that matches nothing would leave objects plain without a word.
static int seal_check_stored(struct str spec, struct err *err)
{
    struct str resource, group = {0};
    (void)str_cut(spec, '.', &resource, &group);
    if (str_eqz(resource, "*"))
        return 0;
    for (size_t i = 0; i < api_kinds_len; i++) {
        const struct api_kind *kind = &api_kinds[i];
        if (!str_eq(kind->plural, resource) || !str_eq(kind->group, group))
            continue;
        const struct api_kind *stored = registry_stored_kind(kind);
        if (str_eq(stored->group, group))
            return 0;
        return err_set(err, ERR_INVALID, "these objects are stored as %.*s.%.*s; name that",
                       STR_ARG(stored->plural), STR_ARG(stored->group));
    }
    return err_set(err, ERR_INVALID,
                   "\"%.*s\" is not a built-in resource; name the plural and the group, and custom "
                   "resources by their group: *.example.com",
                   STR_ARG(str_upto(spec, 100)));
}

// "*" alone is refused, as upstream does: it reads like everything and is no resource.
static int seal_read_resource(const yyjson_val *v, struct seal_config *c, struct seal_entry *e,
                              struct err *err)
{
    if (!json_is_string(v))
        return seal_wrong_type(v, "string", err);
    struct str s = json_str(v);
    if (s.n == 0 || s.n > 512 || s.p[0] == '.' || str_find_char(s, '/') >= 0 || str_eqz(s, "*"))
        return err_set(err, ERR_INVALID,
                       "\"%.*s\" is not a resource; write secrets, *.example.com, "
                       "\"*.\" for the core group or *.* for all",
                       STR_ARG(str_upto(s, 100)));
    int r = seal_check_stored(s, err);
    if (r < 0)
        return r;
    vec_push(&e->resources, arena_str(&c->arena, s));
    return 0;
}

static int seal_read_entry(const yyjson_val *v, struct seal_config *c, struct seal_entry *unused,
                           struct err *err)
{
    static const char *const fields[] = {"resources", "providers", NULL};
    (void)unused;
    vec_push(&c->entries, ((struct seal_entry){0}));
    struct seal_entry *e = vec_last(&c->entries);
    int r = seal_check_fields(v, fields, err);
    if (r == 0)
        r = seal_read_list(v, "resources", seal_read_resource, c, e, err);
    if (r == 0)
        r = seal_read_list(v, "providers", seal_read_provider, c, e, err);
    return r;
}

static int seal_read_root(const yyjson_val *v, struct seal_config *c, struct err *err)
{
    static const char *const fields[] = {"apiVersion", "kind", "resources", NULL};
    if (!v || !json_is_object(v) || !str_eqz(json_get_str(v, "kind"), "EncryptionConfiguration") ||
        !str_eqz(json_get_str(v, "apiVersion"), "apiserver.config.k8s.io/v1"))
        return err_set(err, ERR_INVALID,
                       "not an encryption configuration; write apiVersion: "
                       "apiserver.config.k8s.io/v1, kind: EncryptionConfiguration");
    int r = seal_check_fields(v, fields, err);
    return r < 0 ? r : seal_read_list(v, "resources", seal_read_entry, c, NULL, err);
}

int seal_config_parse(struct str text, struct seal_config **ret, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct seal_config *c = xcalloc(1, sizeof(*c));
    struct err own = {0};
    if (!err)
        err = &own;
    int r = yaml_parse(text, NULL, &doc, err);
    if (r == 0)
        r = seal_read_root(doc.root, c, err);
    if (r < 0) {
        seal_config_free(c);
        return r;
    }
    seal_config_bind(c);
    *ret = c;
    return 0;
}

int seal_config_load(const char *path, struct seal_config **ret, struct err *err)
{
    int fd cleanup_fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(err, errno, "cannot read %s: %m", path);
    if (!S_ISREG(st.st_mode) || (st.st_mode & 077))
        return err_set(err, EPERM,
                       "%s holds keys and can be read by others than its owner: run 'chmod 600 %s'",
                       path, path);
    cleanup_sbuf struct sbuf text = {0};
    int r = file_read_fd(fd, SEAL_FILE_BYTES_MAX, &text);
    if (r < 0)
        return err_set(err, -r, "cannot read %s: %s", path,
                       r == -ERR_TOO_LARGE ? "it is larger than 1 MiB" : strerrordesc_np(-r));
    r = seal_config_parse(sbuf_str(&text), ret, err);
    if (text.p)
        explicit_bzero(text.p, text.n);
    if (r == 0 || !err)
        return r;
    char full[DRAY_ERR_MSG_MAX];
    err_text(err, full, sizeof(full));
    return err_set(err, err->code, "%s: %s", path, full);
}

void seal_config_free(struct seal_config *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->entries.n; i++) {
        struct seal_entry *e = &c->entries.p[i];
        if (e->keys.n)
            OPENSSL_cleanse(e->keys.p, e->keys.n * sizeof(*e->keys.p));
        vec_done(&e->keys);
        vec_done(&e->resources);
    }
    vec_done(&c->entries);
    arena_done(&c->arena);
    free(c);
}
