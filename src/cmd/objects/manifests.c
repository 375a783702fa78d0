// SPDX-License-Identifier: Apache-2.0
//
// Manifests of -f: files, directories and standard input, object by object, and the API path of
// each.
#include "cmd/objects/manifests.h"

#include <dirent.h>
#include <stdlib.h>

#include <sys/stat.h>

#include "cmd/common.h"
#include "cmd/input.h"

#include "base/banned.h"

#define FOLDERS_DEEP 16

struct walk {
    bool recursive;
    manifest_fn each;
    void *arg;
    const char *path; // of the file that is read
};

// --- Lines ---------------------------------------------------------------------------------------

// manifest_find_field is the first path of a field in a message, without a leading dot.
static struct str manifest_find_field(struct str message)
{
    static const char *const tops[] = {"spec.",  "metadata.", "status.", "data.",
                                       "rules[", "subjects[", "roleRef."};
    ptrdiff_t first = -1;
    for (size_t i = 0; i < array_len(tops); i++) {
        ptrdiff_t at = str_find(message, str_z(tops[i]));
        if (at >= 0 && (first < 0 || at < first))
            first = at;
    }
    struct str field, rest;
    if (first < 0 || !str_cut(str_from(message, (size_t)first), ':', &field, &rest))
        return STR("");
    return field;
}

// manifest_find_entry: the entry of a list whose member has this value; text is name="c".
static const yyjson_val *manifest_find_entry(const yyjson_val *list, struct str text)
{
    struct str key, value;
    if (!str_cut(text, '=', &key, &value) || value.n < 2 || !json_is_array(list))
        return NULL;
    value = str_make(value.p + 1, value.n - 2);
    json_arr_foreach(list, entry) {
        const yyjson_val *v = json_is_object(entry) ? json_get(entry, key) : NULL;
        if (v && json_is_string(v) && str_eq(json_str(v), value))
            return entry;
    }
    return NULL;
}

// manifest_walk follows a path as far as it goes.
static const yyjson_val *manifest_walk(const yyjson_val *at, struct str path)
{
    while (path.n) {
        ptrdiff_t open = str_find_char(path, '[');
        struct str head = open < 0 ? path : str_upto(path, (size_t)open), inside, rest;
        bool keyed = open >= 0 && str_cut(str_from(path, (size_t)open + 1), ']', &inside, &rest) &&
                     str_find_char(inside, '=') > 0;
        if (!keyed)
            return json_at_path(at, path, NULL);
        at = json_at_path(at, head, NULL);
        const yyjson_val *entry = at ? manifest_find_entry(at, inside) : NULL;
        if (!entry)
            return at;
        at = entry;
        path = str_starts(rest, STR(".")) ? str_from(rest, 1) : rest;
    }
    return at;
}

size_t manifest_find_line(const struct manifest *m, struct str message)
{
    struct json_pos pos;
    const yyjson_val *v = manifest_walk(m->object, manifest_find_field(message));
    if (v && json_locate(m->doc, v, &pos))
        return pos.line;
    return json_locate(m->doc, m->object, &pos) ? pos.line : m->doc->start.line;
}

// --- Files ---------------------------------------------------------------------------------------

static int each_object(const struct walk *w, const struct json_doc *doc, struct err *err)
{
    const yyjson_val *v = doc->root;
    const yyjson_val *items = objects_list(v, "items");
    if (!json_is_object(v))
        return err_set(err, ERR_BAD_REQUEST,
                       "%s: Kubernetes objects are expected (apiVersion, kind, …), not a %s",
                       w->path, json_type_name(v));
    if (!items || !str_ends(objects_text(v, "kind"), STR("List")))
        return w->each(w->arg, &(struct manifest){w->path, doc, v}, err);
    json_arr_foreach(items, item) {
        int r = w->each(w->arg, &(struct manifest){w->path, doc, item}, err);
        if (r != 0)
            return r;
    }
    return 0;
}

static int each_document(const struct walk *all, const char *path, struct err *err)
{
    struct walk named = *all;
    const struct walk *w = &named;
    named.path = path;
    cleanup_input struct input in = {0};
    int r = input_open(&in, path, err);
    while (r == 0) {
        cleanup_json_doc struct json_doc doc = {0};
        int more = input_next(&in, &doc, err);
        if (more == 0)
            return 0;
        r = more < 0 ? more : each_object(w, &doc, err);
        if (r < 0 && more > 0)
            return r; // the error names the file
    }
    if (r >= 0)
        return r;
    char text[DRAY_ERR_MSG_MAX];
    err_text(err, text, sizeof(text));
    return err_set(err, -r, "%s: %s", path, text);
}

static bool manifests_is_manifest(struct str name)
{
    return str_ends(name, STR(".yaml")) || str_ends(name, STR(".yml")) ||
           str_ends(name, STR(".json"));
}

static int each_path(const struct walk *w, const char *path, int depth, struct err *err);

// each_in walks a folder. NOLINTNEXTLINE(misc-no-recursion): FOLDERS_DEEP at most
static int each_in(const struct walk *w, const char *folder, int depth, struct err *err)
{
    struct dirent **names = NULL;
    int n = scandir(folder, &names, NULL, alphasort);
    int r = n < 0 ? err_set(err, errno, "%s: %s", folder, strerrordesc_np(errno)) : 0;
    for (int i = 0; i < n; i++) {
        cleanup_sbuf struct sbuf path = {0};
        struct stat st;
        struct str name = str_z(names[i]->d_name);
        sbuf_addf(&path, "%s/%s", folder, names[i]->d_name);
        bool found = stat(path.p, &st) == 0;
        bool wanted = found && (S_ISDIR(st.st_mode) ? w->recursive && name.p[0] != '.'
                                                    : manifests_is_manifest(name));
        if (r == 0 && wanted)
            r = each_path(w, path.p, depth + 1, err);
        free(names[i]);
    }
    free(names);
    return r;
}

// NOLINTNEXTLINE(misc-no-recursion): FOLDERS_DEEP at most
static int each_path(const struct walk *w, const char *path, int depth, struct err *err)
{
    struct stat st;
    if (depth > FOLDERS_DEEP)
        return err_set(err, ERR_TOO_LARGE, "%s: folders may stand in each other %d deep", path,
                       FOLDERS_DEEP);
    if (strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return each_in(w, path, depth, err);
    return each_document(w, path, err);
}

int manifests_each(const struct cli_texts *paths, bool recursive, manifest_fn each, void *arg,
                   struct err *err)
{
    const struct walk w = {.recursive = recursive, .each = each, .arg = arg};
    int r = 0;
    for (size_t i = 0; i < paths->n && r == 0; i++)
        r = each_path(&w, paths->p[i], 0, err);
    return r;
}

int manifests_target(struct cluster *c, const yyjson_val *object, struct target *ret,
                     struct str *ret_namespace, struct err *err)
{
    struct str version = objects_text(object, "apiVersion"), kind = objects_text(object, "kind");
    struct str namespace = objects_text(object, "metadata.namespace");
    ret->name = objects_text(object, "metadata.name");
    if (!version.n || !kind.n || !ret->name.n)
        return err_set(err, ERR_INVALID, "an object needs apiVersion, kind and metadata.name");
    int r = cluster_kinds(c, false, err);
    ret->kind = r < 0 ? NULL : discovery_of(&c->kinds, version, kind);
    if (r == 0 && !ret->kind) {
        r = cluster_kinds(c, true, err); // a definition may have come before it
        ret->kind = r < 0 ? NULL : discovery_of(&c->kinds, version, kind);
    }
    if (r < 0)
        return r;
    if (!ret->kind)
        return err_set(err, ERR_NOT_FOUND, "the server has no kind %.*s of %.*s", STR_ARG(kind),
                       STR_ARG(version));
    if (namespace.n && common.namespace && !str_eqz(namespace, common.namespace))
        return err_set(err, ERR_INVALID, "%.*s %.*s is of namespace %.*s, not of -n %s",
                       STR_ARG(kind), STR_ARG(ret->name), STR_ARG(namespace), common.namespace);
    *ret_namespace = namespace.n ? namespace : common_namespace(c);
    return 0;
}
