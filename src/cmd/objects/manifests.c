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

static int each_object(const struct walk *w, const yyjson_val *v, struct err *err)
{
    const yyjson_val *items = objects_list(v, "items");
    if (!json_is_object(v))
        return err_set(err, ERR_BAD_REQUEST,
                       "%s: Kubernetes objects are expected (apiVersion, kind, …), not a %s",
                       w->path, json_type_name(v));
    if (!items || !str_ends(objects_text(v, "kind"), STR("List")))
        return w->each(w->arg, v, err);
    json_arr_foreach(items, item) {
        int r = w->each(w->arg, item, err);
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
        r = more < 0 ? more : each_object(w, doc.root, err);
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
