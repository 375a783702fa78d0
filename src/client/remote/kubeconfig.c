// SPDX-License-Identifier: Apache-2.0
//
// Kubeconfig files, merged as kubectl merges them, and the configuration that a pod finds in its
// service account. Fields that would change who one is and are not supported are errors.
#include "client/kubeconfig.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "codec/base64.h"
#include "codec/yaml.h"

#include "base/banned.h"

#define FILE_BYTES_MAX    ((size_t)1024 * 1024)
#define IN_CLUSTER_FOLDER "/var/run/secrets/kubernetes.io/serviceaccount"

int kubeconfig_read_file(const char *path, struct sbuf *out, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        int code = errno;
        return err_set(err, code, "cannot read %s: %m", path);
    }
    int r = 0;
    size_t before = out->n;
    for (ssize_t n = 1; n != 0 && r == 0;) {
        n = read(fd, sbuf_space(out, 65536), 65536);
        if (n < 0) {
            int code = errno;
            r = code == EINTR ? 0 : err_set(err, code, "cannot read %s: %m", path);
            continue;
        }
        sbuf_commit(out, (size_t)n);
        if (out->n - before > FILE_BYTES_MAX)
            r = err_set(err, ERR_TOO_LARGE, "%s has more than %zu bytes", path, FILE_BYTES_MAX);
    }
    (void)close(fd);
    return r;
}

// --- Fields --------------------------------------------------------------------------------------

// Where reading is, for messages: FILE: users[admin].user.
struct place {
    const char *section; // clusters …
    const char *inner;   // cluster …
    const struct kubeconfig_entry *entry;
};

static int kubeconfig_bad_field(const struct place *p, const char *field, int code,
                                const char *what, struct err *err)
{
    return err_set(err, code, "%.*s: %s[%.*s].%s.%s: %s", STR_ARG(p->entry->file), p->section,
                   STR_ARG(p->entry->name), p->inner, field, what);
}

// get_str reads a text that may be absent or null.
static int get_str(const struct place *p, const char *field, struct str *ret, struct err *err)
{
    const yyjson_val *v = json_get(p->entry->value, str_z(field));
    *ret = (struct str){0};
    if (!v || json_is_null(v))
        return 0;
    if (!json_is_string(v))
        return kubeconfig_bad_field(p, field, ERR_BAD_REQUEST,
                                    "a text is wanted here; put it in quotes", err);
    if (memchr(json_str(v).p, 0, json_str(v).n))
        return kubeconfig_bad_field(p, field, ERR_BAD_REQUEST, "a text without NUL is wanted here",
                                    err);
    *ret = json_str(v);
    return 0;
}

static int get_bool(const struct place *p, const char *field, bool *ret, struct err *err)
{
    const yyjson_val *v = json_get(p->entry->value, str_z(field));
    *ret = false;
    if (!v || json_is_null(v))
        return 0;
    if (json_to_bool(v, ret, NULL) < 0)
        return kubeconfig_bad_field(p, field, ERR_BAD_REQUEST, "true or false is wanted here", err);
    return 0;
}

// kubeconfig_resolve_path makes a path that a file names: relative ones start at its own folder.
static struct str kubeconfig_resolve_path(struct arena *a, struct str file, struct str path)
{
    ptrdiff_t slash = str_rfind_char(file, '/');
    if (path.n == 0 || path.p[0] == '/' || slash < 0)
        return arena_str(a, path);
    return arena_strf(a, "%.*s/%.*s", STR_ARG(str_upto(file, (size_t)slash)), STR_ARG(path));
}

// get_pem reads FIELD-data (base64), or else the file that FIELD names; *ret_file (may be NULL) is
// its path.
static int get_pem(struct kubeconfig *k, const struct place *p, const char *field, struct str *ret,
                   struct str *ret_file, struct err *err)
{
    char data_field[64];
    (void)snprintf(data_field, sizeof(data_field), "%s-data", field);
    struct str data = {0}, path = {0};
    int r = get_str(p, data_field, &data, err);
    if (r == 0)
        r = get_str(p, field, &path, err);
    if (r < 0)
        return r;
    *ret = (struct str){0};
    cleanup_sbuf struct sbuf bytes = {0};
    if (data.n) {
        struct err why = {0};
        if (base64_decode(str_trim(data), BASE64_STD, &bytes, &why) < 0)
            return kubeconfig_bad_field(p, data_field, ERR_BAD_REQUEST, "this is not base64", err);
    } else if (path.n) {
        struct err why = {0};
        path = kubeconfig_resolve_path(&k->arena, p->entry->file, path);
        r = kubeconfig_read_file(path.p, &bytes, &why);
        if (r < 0)
            return kubeconfig_bad_field(p, field, -r, why.msg, err);
    } else {
        return 0;
    }
    if (!str_contains(sbuf_str(&bytes), STR("-----BEGIN ")))
        return kubeconfig_bad_field(p, data.n ? data_field : field, ERR_BAD_REQUEST,
                                    "this is not PEM (-----BEGIN …)", err);
    *ret = arena_str(&k->arena, sbuf_str(&bytes));
    if (ret_file && !data.n)
        *ret_file = path;
    return 0;
}

// --- Reading a file ------------------------------------------------------------------------------

static const struct kubeconfig_entry *kubeconfig_find_entry(
    const struct kubeconfig_entries *entries, struct str name)
{
    for (size_t i = 0; i < entries->n; i++)
        if (str_eq(entries->p[i].name, name))
            return &entries->p[i];
    return NULL;
}

struct file {
    struct kubeconfig *k;
    struct str name;
    const struct json_doc *doc;
};

static int kubeconfig_add_entry(const struct file *f, const char *section, const char *inner,
                                size_t index, const yyjson_val *item,
                                struct kubeconfig_entries *into, struct err *err)
{
    const yyjson_val *name = json_get(item, STR("name"));
    const yyjson_val *value = json_get(item, str_z(inner));
    if (!name || !json_is_string(name) || json_len(name) == 0)
        return err_set(err, ERR_BAD_REQUEST, "%.*s: %s[%zu].name: a name is missing here",
                       STR_ARG(f->name), section, index);
    if (!value || !json_is_object(value))
        return err_set(err, ERR_BAD_REQUEST, "%.*s: %s[%zu].%s: a map is missing here",
                       STR_ARG(f->name), section, index, inner);
    if (!kubeconfig_find_entry(into, json_str(name)))
        vec_push(into, ((struct kubeconfig_entry){json_str(name), f->name, value, f->doc}));
    return 0;
}

static int add_section(const struct file *f, const char *section, const char *inner,
                       struct kubeconfig_entries *into, struct err *err)
{
    const yyjson_val *list = json_get(f->doc->root, str_z(section));
    if (!list || json_is_null(list))
        return 0;
    if (!json_is_array(list))
        return err_set(err, ERR_BAD_REQUEST, "%.*s: %s: a list is wanted here", STR_ARG(f->name),
                       section);
    size_t index = 0;
    json_arr_foreach(list, item) {
        int r = kubeconfig_add_entry(f, section, inner, index++, item, into, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int add_document(struct kubeconfig *k, const struct file *f, struct err *err)
{
    const yyjson_val *root = f->doc->root;
    if (json_is_null(root))
        return 0; // an empty file
    const yyjson_val *kind = json_get(root, STR("kind"));
    if (!json_is_object(root) ||
        (kind && !(json_is_string(kind) && str_eqz(json_str(kind), "Config"))))
        return err_set(err, ERR_BAD_REQUEST,
                       "%.*s: this is not a kubeconfig (apiVersion: v1, kind: Config)",
                       STR_ARG(f->name));
    int r = add_section(f, "clusters", "cluster", &k->clusters, err);
    if (r == 0)
        r = add_section(f, "users", "user", &k->users, err);
    if (r == 0)
        r = add_section(f, "contexts", "context", &k->contexts, err);
    const yyjson_val *current = json_get(root, STR("current-context"));
    if (r == 0 && current && json_is_string(current) && k->current_context.n == 0)
        k->current_context = json_str(current);
    return r;
}

int kubeconfig_add(struct kubeconfig *k, struct str file, struct str text, struct err *err)
{
    static const struct json_options options = {.max_bytes = FILE_BYTES_MAX,
                                                .duplicates = JSON_DUPLICATES_LAST};
    struct json_doc *doc = xcalloc(1, sizeof(*doc));
    if (yaml_parse(text, &options, doc, err) < 0) {
        free(doc);
        return err_wrap(err, "%.*s", STR_ARG(file));
    }
    vec_push(&k->docs, doc);
    struct file f = {k, arena_str(&k->arena, file), doc};
    int r = add_document(k, &f, err);
    doc->source = (struct str){0}; // not ours to keep
    return r;
}

// --- A context -----------------------------------------------------------------------------------

static int read_cluster(struct kubeconfig *k, const struct kubeconfig_entry *e,
                        struct kubeconfig_target *t, struct err *err)
{
    struct place p = {"clusters", "cluster", e};
    int r = get_str(&p, "server", &t->server, err);
    if (r == 0 && t->server.n == 0)
        r = kubeconfig_bad_field(&p, "server", ERR_INVALID, "the server's URL is missing", err);
    if (r == 0 && !str_contains(t->server, STR("://")))
        t->server = arena_strf(&k->arena, "https://%.*s", STR_ARG(t->server));
    if (r == 0)
        r = get_str(&p, "tls-server-name", &t->server_name, err);
    if (r == 0)
        r = get_str(&p, "proxy-url", &t->proxy, err);
    if (r == 0)
        r = get_bool(&p, "insecure-skip-tls-verify", &t->insecure, err);
    if (r == 0)
        r = get_pem(k, &p, "certificate-authority", &t->ca_pem, &t->ca_file, err);
    if (r == 0 && t->insecure && t->ca_pem.n)
        r = kubeconfig_bad_field(&p, "insecure-skip-tls-verify", ERR_INVALID,
                                 "this and a certificate-authority exclude each other; remove one",
                                 err);
    return r;
}

static int read_args(struct kubeconfig *k, const struct place *p, const yyjson_val *list,
                     struct kubeconfig_exec *exec, struct err *err)
{
    if (!list || json_is_null(list))
        return 0;
    if (!json_is_array(list))
        return kubeconfig_bad_field(p, "args", ERR_BAD_REQUEST, "a list of texts is wanted here",
                                    err);
    struct str *args = arena_array(&k->arena, struct str, json_len(list));
    json_arr_foreach(list, item) {
        if (!json_is_string(item))
            return kubeconfig_bad_field(p, "args", ERR_BAD_REQUEST,
                                        "a list of texts is wanted here", err);
        args[exec->args_len++] = json_str(item);
    }
    exec->args = args;
    return 0;
}

static int read_env(struct kubeconfig *k, const struct place *p, const yyjson_val *list,
                    struct kubeconfig_exec *exec, struct err *err)
{
    if (!list || json_is_null(list))
        return 0;
    if (!json_is_array(list))
        return kubeconfig_bad_field(p, "env", ERR_BAD_REQUEST,
                                    "a list of name and value is wanted here", err);
    struct kubeconfig_env *env = arena_array(&k->arena, struct kubeconfig_env, json_len(list));
    json_arr_foreach(list, item) {
        const yyjson_val *name = json_get(item, STR("name"));
        const yyjson_val *value = json_get(item, STR("value"));
        if (!name || !json_is_string(name) || !value || !json_is_string(value))
            return kubeconfig_bad_field(p, "env", ERR_BAD_REQUEST, "name and value are wanted here",
                                        err);
        env[exec->env_len++] = (struct kubeconfig_env){json_str(name), json_str(value)};
    }
    exec->env = env;
    return 0;
}

static int read_exec(struct kubeconfig *k, const struct kubeconfig_entry *user,
                     struct kubeconfig_exec *exec, struct err *err)
{
    const yyjson_val *v = json_get(user->value, STR("exec"));
    if (!v || json_is_null(v))
        return 0;
    struct kubeconfig_entry inner = {user->name, user->file, v, user->doc};
    struct place p = {"users", "user.exec", &inner};
    int r = get_str(&p, "command", &exec->command, err);
    if (r == 0 && exec->command.n == 0)
        r = kubeconfig_bad_field(&p, "command", ERR_INVALID, "the program's name is missing", err);
    if (r == 0 && str_find_char(exec->command, '/') >= 0)
        exec->command = kubeconfig_resolve_path(&k->arena, user->file, exec->command);
    if (r == 0)
        r = get_str(&p, "apiVersion", &exec->api_version, err);
    if (r == 0 && !str_eqz(exec->api_version, "client.authentication.k8s.io/v1") &&
        !str_eqz(exec->api_version, "client.authentication.k8s.io/v1beta1"))
        r = kubeconfig_bad_field(&p, "apiVersion", ERR_INVALID,
                                 "use client.authentication.k8s.io/v1 (or v1beta1)", err);
    if (r == 0)
        r = get_str(&p, "installHint", &exec->install_hint, err);
    if (r == 0)
        r = get_bool(&p, "provideClusterInfo", &exec->provide_cluster_info, err);
    if (r == 0)
        r = read_args(k, &p, json_get(v, STR("args")), exec, err);
    return r < 0 ? r : read_env(k, &p, json_get(v, STR("env")), exec, err);
}

static int kubeconfig_reject_unsupported(const struct place *p, struct err *err)
{
    static const struct {
        const char *field, *why;
    } refused[] = {
        {"username", "Kubernetes knows no passwords any more; use a token or a client certificate"},
        {"password", "Kubernetes knows no passwords any more; use a token or a client certificate"},
        {"auth-provider", "kubectl has dropped these; use exec with the provider's plugin"},
    };
    for (size_t i = 0; i < array_len(refused); i++) {
        const yyjson_val *v = json_get(p->entry->value, str_z(refused[i].field));
        if (v && !json_is_null(v))
            return kubeconfig_bad_field(p, refused[i].field, ERR_INVALID, refused[i].why, err);
    }
    return 0;
}

static int read_user(struct kubeconfig *k, const struct kubeconfig_entry *e,
                     struct kubeconfig_target *t, struct err *err)
{
    struct place p = {"users", "user", e};
    t->user = e->name;
    int r = kubeconfig_reject_unsupported(&p, err);
    if (r == 0)
        r = get_str(&p, "token", &t->token, err);
    if (r == 0)
        r = get_str(&p, "tokenFile", &t->token_file, err);
    if (r == 0 && t->token_file.n)
        t->token_file = kubeconfig_resolve_path(&k->arena, e->file, t->token_file);
    if (r == 0)
        r = get_pem(k, &p, "client-certificate", &t->certificate_pem, &t->certificate_file, err);
    if (r == 0)
        r = get_pem(k, &p, "client-key", &t->key_pem, &t->key_file, err);
    if (r == 0 && (t->certificate_pem.n > 0) != (t->key_pem.n > 0))
        r = kubeconfig_bad_field(
            &p, t->key_pem.n ? "client-certificate" : "client-key", ERR_INVALID,
            "a client certificate and its key come together; this one is missing", err);
    return r < 0 ? r : read_exec(k, e, &t->exec, err);
}

static int no_context(const struct kubeconfig *k, struct str name, struct err *err)
{
    struct str some = k->contexts.n ? k->contexts.p[0].name : (struct str){0};
    if (name.n == 0)
        return err_set(err, ERR_NOT_FOUND,
                       "the kubeconfig names no current-context; choose one with --context%s%.*s",
                       some.n ? ", such as " : "", STR_ARG(some));
    return err_set(err, ERR_NOT_FOUND, "the kubeconfig has no context '%.*s'%s%.*s", STR_ARG(name),
                   some.n ? "; it has " : "", STR_ARG(some));
}

int kubeconfig_target(struct kubeconfig *k, struct str context, struct kubeconfig_target *ret,
                      struct err *err)
{
    *ret = (struct kubeconfig_target){0};
    struct str wanted = context.n ? context : k->current_context;
    const struct kubeconfig_entry *e = kubeconfig_find_entry(&k->contexts, wanted);
    if (!e)
        return no_context(k, wanted, err);
    struct place p = {"contexts", "context", e};
    struct str cluster = {0}, user = {0};
    int r = get_str(&p, "cluster", &cluster, err);
    if (r == 0)
        r = get_str(&p, "user", &user, err);
    if (r == 0)
        r = get_str(&p, "namespace", &ret->namespace, err);
    if (r < 0)
        return r;
    if (ret->namespace.n == 0)
        ret->namespace = STR("default");
    const struct kubeconfig_entry *c = kubeconfig_find_entry(&k->clusters, cluster);
    if (!c)
        return kubeconfig_bad_field(&p, "cluster", ERR_NOT_FOUND,
                                    "no cluster of this name is in clusters", err);
    ret->file = c->file;
    r = read_cluster(k, c, ret, err);
    if (r < 0 || user.n == 0)
        return r;
    const struct kubeconfig_entry *u = kubeconfig_find_entry(&k->users, user);
    if (!u)
        return kubeconfig_bad_field(&p, "user", ERR_NOT_FOUND, "no user of this name is in users",
                                    err);
    return read_user(k, u, ret, err);
}

// --- Files ---------------------------------------------------------------------------------------

// kubeconfig_add_file merges a file. Returns 1 when it does not exist and may miss.
static int kubeconfig_add_file(struct kubeconfig *k, struct str path, bool may_miss,
                               struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    char *z = xstrndup(path.p, path.n);
    int r = kubeconfig_read_file(z, &text, err);
    free(z);
    if (r == -ENOENT && may_miss)
        return 1;
    return r < 0 ? r : kubeconfig_add(k, path, sbuf_str(&text), err);
}

const char *kubeconfig_env(void)
{
    const char *list = getenv("KUBECONFIG"); // NOLINT(concurrency-mt-unsafe): nothing sets it
    return list && list[0] ? list : NULL;
}

static bool kubeconfig_is_empty(const struct kubeconfig *k)
{
    return k->clusters.n == 0 && k->contexts.n == 0;
}

// The variable names a cluster on purpose: if that cannot be found, no other one may be taken.
static int load_env_list(struct kubeconfig *k, const char *list, struct err *err)
{
    struct str rest = str_z(list);
    size_t found = 0;
    while (rest.n > 0) {
        struct str one;
        str_cut(rest, ':', &one, &rest);
        int r = one.n ? kubeconfig_add_file(k, one, true, err) : 1;
        if (r < 0)
            return err_wrap(err, "KUBECONFIG");
        found += r == 0;
    }
    if (found == 0)
        return err_set(err, ENOENT,
                       "no file that KUBECONFIG names exists: '%.200s'; correct it, or unset it to "
                       "use the default cluster",
                       list);
    if (kubeconfig_is_empty(k))
        return err_set(err, ERR_INVALID,
                       "KUBECONFIG='%.200s' holds no cluster and no context; write a kubeconfig "
                       "there, or unset it to use the default cluster",
                       list);
    return 0;
}

// kubeconfig_load adds files as kubectl does: path if it is not NULL, else those of $KUBECONFIG,
// else ~/.kube/config. $KUBECONFIG is a list with colons, whose missing files are passed over; when
// nothing is left, no file or nothing in them, that is an error (-ENOENT, -ERR_INVALID): another
// cluster must not be taken instead.
static int kubeconfig_load(struct kubeconfig *k, const char *path, struct err *err)
{
    const char *list = kubeconfig_env();
    const char *home = getenv("HOME"); // NOLINT(concurrency-mt-unsafe): nothing sets it
    if (path)
        return kubeconfig_add_file(k, str_z(path), false, err);
    if (list)
        return load_env_list(k, list, err);
    if (!home)
        return 0;
    int r = kubeconfig_add_file(k, arena_strf(&k->arena, "%s/.kube/config", home), true, err);
    return r > 0 ? 0 : r;
}

int kubeconfig_in_cluster(struct kubeconfig *k, const char *folder, struct kubeconfig_target *ret,
                          struct err *err)
{
    *ret = (struct kubeconfig_target){0};
    // NOLINTBEGIN(concurrency-mt-unsafe): nothing sets them
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    // NOLINTEND(concurrency-mt-unsafe)
    if (!host || !host[0] || !port || !port[0])
        return err_set(err, ERR_NOT_FOUND,
                       "there is no kubeconfig: give one with --kubeconfig or in KUBECONFIG");
    folder = folder ? folder : IN_CLUSTER_FOLDER;
    cleanup_sbuf struct sbuf ca = {0}, namespace = {0};
    ret->ca_file = arena_strf(&k->arena, "%s/ca.crt", folder);
    int r = kubeconfig_read_file(ret->ca_file.p, &ca, err);
    if (r < 0)
        return err_wrap(err, "in a pod, but without its service account");
    if (kubeconfig_read_file(arena_strf(&k->arena, "%s/namespace", folder).p, &namespace, NULL) < 0)
        sbuf_addz(&namespace, "default");
    bool v6 = strchr(host, ':') != NULL;
    ret->server =
        arena_strf(&k->arena, "https://%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "", port);
    ret->ca_pem = arena_str(&k->arena, sbuf_str(&ca));
    ret->namespace = arena_str(&k->arena, str_trim(sbuf_str(&namespace)));
    ret->token_file = arena_strf(&k->arena, "%s/token", folder);
    ret->user = STR("service account");
    return 0;
}

int kubeconfig_find(struct kubeconfig *k, const char *path, const char *context,
                    struct kubeconfig_target *ret, struct err *err)
{
    int r = kubeconfig_load(k, path, err);
    if (r < 0)
        return r;
    if (!path && kubeconfig_is_empty(k))
        return kubeconfig_in_cluster(k, NULL, ret, err);
    return kubeconfig_target(k, str_z(context), ret, err);
}

void kubeconfig_done(struct kubeconfig *k)
{
    vec_foreach(&k->docs, doc) {
        json_doc_done(*doc);
        free(*doc);
    }
    vec_done(&k->docs);
    vec_done(&k->clusters);
    vec_done(&k->users);
    vec_done(&k->contexts);
    arena_done(&k->arena);
}
