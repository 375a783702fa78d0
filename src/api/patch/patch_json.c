// SPDX-License-Identifier: Apache-2.0
//
// JSON patch.
#include <stdio.h>
#include <string.h>

#include "api/patch.h"
#include "api/patch/patch_int.h"
#include "api/type/tree.h"

#include "base/banned.h"

struct patcher {
    struct patch_work work;
    struct tree *root;
    size_t copied; // bytes, by copy operations
    struct err *err;
};

// One operation, its members already looked up. Absent and null are the same for the texts.
struct operation {
    const struct json_doc *doc;
    const yyjson_val *op;
    const yyjson_val *path;
    const yyjson_val *from;
    const yyjson_val *value_key;
    const yyjson_val *value;
};

// Where a path leads: the last step, and the container it is a step of.
struct place {
    struct tree *container;
    struct str key;
};

// --- Steps ---------------------------------------------------------------------------------------

// decode_step undoes ~1 and ~0.
static struct str decode_step(struct str step, struct arena *arena)
{
    if (str_find_char(step, '~') < 0)
        return step;
    char *to = arena_alloc(arena, step.n + 1, 1);
    size_t n = 0;
    for (size_t i = 0; i < step.n; i++) {
        bool escape =
            step.p[i] == '~' && i + 1 < step.n && (step.p[i + 1] == '0' || step.p[i + 1] == '1');
        to[n++] = !escape ? step.p[i] : step.p[i + 1] == '1' ? '/' : '~';
        i += escape;
    }
    return str_make(to, n);
}

// patch_json_read_index reads a number as Go's Atoi does. Returns 0 or, with Go's words,
// -ERR_INVALID.
static int patch_json_read_index(struct str text, int64_t *ret, struct err *err)
{
    struct str digits = text.n && text.p[0] == '+' ? str_from(text, 1) : text;
    bool number = digits.n > 0;
    for (size_t i = digits.n && digits.p[0] == '-' && digits.p == text.p; i < digits.n; i++)
        number &= digits.p[i] >= '0' && digits.p[i] <= '9';
    int r = number ? str_to_i64(digits, ret) : -EINVAL;
    if (r == 0)
        return 0;
    cleanup_sbuf struct sbuf quoted = {0};
    sbuf_add_quoted(&quoted, text);
    return err_set(err, ERR_INVALID, "strconv.Atoi: parsing %s: %s", quoted.p,
                   r == -ERANGE ? "value out of range" : "invalid syntax");
}

// item_index turns a step into a position below len; negative ones count from the end.
static int item_index(struct str step, size_t len, size_t *ret, struct err *err)
{
    int64_t index = 0;
    int r = patch_json_read_index(step, &index, err);
    if (r < 0)
        return r;
    if (index >= (int64_t)len || index < -(int64_t)len)
        return err_set(err, ERR_INVALID,
                       "Unable to access invalid index: %lld: invalid index referenced",
                       (long long)index);
    *ret = (size_t)(index < 0 ? index + (int64_t)len : index);
    return 0;
}

// patch_json_get_value finds what a step leads to; *ret is NULL for a member that is not there.
static int patch_json_get_value(struct patcher *p, const struct place *at, struct tree **ret,
                                struct err *err)
{
    if (tree_is_object(at->container)) {
        *ret = tree_get(at->container, at->key, p->work.arena);
        return 0;
    }
    tree_open(at->container, p->work.arena);
    size_t index = 0;
    int r = item_index(at->key, at->container->list.n, &index, err);
    if (r < 0)
        return r;
    *ret = at->container->list.p[index];
    return 0;
}

static int patch_json_add_value(struct patcher *p, const struct place *at, struct tree *value,
                                struct err *err)
{
    if (tree_is_object(at->container)) {
        tree_put(at->container, at->key, value, p->work.arena);
        return 0;
    }
    tree_open(at->container, p->work.arena);
    struct tree_list *list = &at->container->list;
    size_t index = list->n;
    int64_t number;
    if (!str_eqz(at->key, "-")) {
        if (patch_json_read_index(at->key, &number, err) < 0)
            return err_wrap(err, "value was not a proper array index: '%.*s'", STR_ARG(at->key));
        int r = item_index(at->key, list->n + 1, &index, err);
        if (r < 0)
            return r;
    }
    int r = patch_work_add(&p->work, list->n - index);
    if (r < 0)
        return r;
    tree_list_add(list, value, p->work.arena);
    memmove(&list->p[index + 1], &list->p[index], (list->n - 1 - index) * sizeof(*list->p));
    list->p[index] = value;
    return 0;
}

static int patch_json_remove_value(struct patcher *p, const struct place *at, struct err *err)
{
    if (tree_is_object(at->container)) {
        if (tree_remove(at->container, at->key, p->work.arena))
            return 0;
        return err_set(err, ERR_INVALID, "Unable to remove nonexistent key: %.*s: missing value",
                       STR_ARG(at->key));
    }
    tree_open(at->container, p->work.arena);
    struct tree_list *list = &at->container->list;
    size_t index = 0;
    int r = item_index(at->key, list->n, &index, err);
    if (r < 0)
        return r;
    r = patch_work_add(&p->work, list->n - index);
    if (r < 0)
        return r;
    list->n--;
    memmove(&list->p[index], &list->p[index + 1], (list->n - index) * sizeof(*list->p));
    return 0;
}

// patch_json_find_place follows a path up to its last step. What stands before the first slash does
// not count.
static bool patch_json_find_place(struct patcher *p, struct str path, struct place *ret)
{
    struct str step, rest;
    if (!str_cut(path, '/', &step, &rest))
        return false;
    struct place at = {p->root, {NULL, 0}};
    while (str_cut(rest, '/', &step, &rest)) {
        at.key = decode_step(step, p->work.arena);
        struct tree *next = NULL;
        if (patch_json_get_value(p, &at, &next, NULL) < 0 || !next ||
            (!tree_is_object(next) && !tree_is_list(next)))
            return false;
        at.container = next;
    }
    at.key = decode_step(step, p->work.arena);
    *ret = at;
    return true;
}

// --- Operations ----------------------------------------------------------------------------------

// patch_json_read_text reads a path. Returns 0, or -ERR_INVALID with the reason why it is none.
static int patch_json_read_text(const yyjson_val *v, const char *missing, struct str *ret,
                                struct err *err)
{
    if (!v || json_is_null(v))
        return err_set(err, ERR_INVALID, "%s: missing value", missing);
    if (!json_is_string(v))
        return err_set(err, ERR_INVALID, "json: cannot unmarshal %s into Go value of type string",
                       json_type_name(v));
    *ret = json_str(v);
    return 0;
}

static int patch_json_read_path(const struct operation *o, struct str *ret, struct err *err)
{
    return patch_json_read_text(o->path, "operation missing path field", ret, err);
}

static int from_of(const struct operation *o, struct str *ret, struct err *err)
{
    return patch_json_read_text(o->from, "operation, missing from field", ret, err);
}

static struct tree *patch_json_read_value(struct patcher *p, const struct operation *o)
{
    return o->value ? tree_of(p->work.arena, o->doc, o->value_key, o->value)
                    : tree_null(p->work.arena);
}

static int patch_json_fail_missing(struct patcher *p, const char *what, struct str path)
{
    return err_set(p->err, ERR_INVALID, "%s: %.*s: missing value", what, STR_ARG(path));
}

// in_context puts the operation and its path before an error, unless it is about limits.
static int in_context(struct patcher *p, int r, const char *what, struct str path)
{
    if (r == -ERR_TOO_LARGE)
        return r;
    return err_wrap(p->err, "%s: '%.*s'", what, STR_ARG(path));
}

static int do_add(struct patcher *p, const struct operation *o)
{
    struct str path;
    struct place at;
    if (patch_json_read_path(o, &path, NULL) < 0)
        return err_set(p->err, ERR_INVALID, "add operation failed to decode path: missing value");
    if (!patch_json_find_place(p, path, &at))
        return err_set(p->err, ERR_INVALID,
                       "add operation does not apply: doc is missing path: \"%.*s\": missing value",
                       STR_ARG(path));
    int r = patch_json_add_value(p, &at, patch_json_read_value(p, o), p->err);
    return r < 0 ? in_context(p, r, "error in add for path", path) : 0;
}

static int do_remove(struct patcher *p, const struct operation *o)
{
    struct str path;
    struct place at;
    if (patch_json_read_path(o, &path, NULL) < 0)
        return err_set(p->err, ERR_INVALID,
                       "remove operation failed to decode path: missing value");
    if (!patch_json_find_place(p, path, &at))
        return err_set(
            p->err, ERR_INVALID,
            "remove operation does not apply: doc is missing path: \"%.*s\": missing value",
            STR_ARG(path));
    int r = patch_json_remove_value(p, &at, p->err);
    return r < 0 ? in_context(p, r, "error in remove for path", path) : 0;
}

static int replace_root(struct patcher *p, const struct operation *o)
{
    struct tree *value = patch_json_read_value(p, o);
    if (!tree_is_object(value) && !tree_is_list(value))
        return err_set(p->err, ERR_INVALID, "%s",
                       "replace operation value must be object or array: %!w(<nil>)");
    p->root = value;
    return 0;
}

static int do_replace(struct patcher *p, const struct operation *o)
{
    struct str path;
    struct place at;
    struct tree *old;
    if (patch_json_read_path(o, &path, p->err) < 0)
        return err_wrap(p->err, "replace operation failed to decode path");
    if (path.n == 0)
        return replace_root(p, o);
    if (!patch_json_find_place(p, path, &at))
        return patch_json_fail_missing(p, "replace operation does not apply: doc is missing path",
                                       path);
    if (patch_json_get_value(p, &at, &old, NULL) < 0)
        return patch_json_fail_missing(p, "replace operation does not apply: doc is missing key",
                                       path);
    if (tree_is_object(at.container)) {
        tree_put(at.container, at.key, patch_json_read_value(p, o), p->work.arena);
        return 0;
    }
    size_t index = 0;
    int r = item_index(at.key, at.container->list.n, &index, p->err);
    if (r == 0)
        at.container->list.p[index] = patch_json_read_value(p, o);
    return r;
}

static int do_move(struct patcher *p, const struct operation *o)
{
    struct str from, path;
    struct place at;
    struct tree *value = NULL;
    if (from_of(o, &from, p->err) < 0)
        return err_wrap(p->err, "move operation failed to decode from");
    if (!patch_json_find_place(p, from, &at))
        return patch_json_fail_missing(p, "move operation does not apply: doc is missing from path",
                                       from);
    int r = patch_json_get_value(p, &at, &value, p->err);
    if (r == 0)
        r = patch_json_remove_value(p, &at, p->err);
    if (r < 0)
        return in_context(p, r, "error in move for path", at.key);
    if (patch_json_read_path(o, &path, p->err) < 0)
        return err_wrap(p->err, "move operation failed to decode path");
    if (!patch_json_find_place(p, path, &at))
        return patch_json_fail_missing(
            p, "move operation does not apply: doc is missing destination path", path);
    r = patch_json_add_value(p, &at, value, p->err);
    return r < 0 ? in_context(p, r, "error in move for path", path) : 0;
}

static int do_test(struct patcher *p, const struct operation *o)
{
    struct str path;
    struct place at;
    struct tree *found = p->root;
    if (patch_json_read_path(o, &path, p->err) < 0)
        return err_wrap(p->err, "test operation failed to decode path");
    if (path.n > 0) {
        if (!patch_json_find_place(p, path, &at))
            return patch_json_fail_missing(p, "test operation does not apply: is missing path",
                                           path);
        int r = patch_json_get_value(p, &at, &found, p->err);
        if (r < 0)
            return in_context(p, r, "error in test for path", path);
    }
    struct tree *wanted = patch_json_read_value(p, o);
    bool same = found ? tree_equal(found, wanted, p->work.arena) : tree_is_null(wanted);
    if (same)
        return 0;
    return err_set(p->err, ERR_INVALID, "testing value %.*s failed: test failed", STR_ARG(path));
}

// count_copy adds the size of a value to what was copied so far.
static int count_copy(struct patcher *p, const struct tree *value)
{
    cleanup_sbuf struct sbuf text = {0};
    struct json_writer w = {.out = &text, .html = true};
    int r = tree_write(value, &w, p->err);
    if (r < 0)
        return r;
    p->copied += text.n;
    if (p->copied <= API_PATCH_COPY_BYTES_MAX)
        return 0;
    return err_set(p->err, ERR_INVALID,
                   "Unable to complete the copy, the accumulated size increase of copy is %zu, "
                   "exceeding the limit %d",
                   p->copied, API_PATCH_COPY_BYTES_MAX);
}

static int do_copy(struct patcher *p, const struct operation *o)
{
    struct str from, path;
    struct place at;
    struct tree *value = NULL;
    if (from_of(o, &from, p->err) < 0)
        return err_wrap(p->err, "copy operation failed to decode from");
    if (!patch_json_find_place(p, from, &at))
        return patch_json_fail_missing(p, "copy operation does not apply: doc is missing from path",
                                       from);
    int r = patch_json_get_value(p, &at, &value, p->err);
    if (r < 0)
        return in_context(p, r, "error in copy for from", from);
    if (patch_json_read_path(o, &path, NULL) < 0)
        return err_set(p->err, ERR_INVALID, "copy operation failed to decode path: missing value");
    if (!patch_json_find_place(p, path, &at))
        return patch_json_fail_missing(
            p, "copy operation does not apply: doc is missing destination path", path);
    if (!value || tree_is_null(value)) {
        value = tree_null(p->work.arena); // which counts for nothing
    } else {
        r = count_copy(p, value);
        if (r < 0)
            return r;
        value = tree_copy(value, p->work.arena);
    }
    r = patch_json_add_value(p, &at, value, p->err);
    if (r < 0 && r != -ERR_TOO_LARGE)
        return err_wrap(p->err, "error while adding value during copy");
    return r;
}

static int patch_json_apply_operation(struct patcher *p, const struct operation *o)
{
    static const struct {
        const char *name;
        int (*run)(struct patcher *p, const struct operation *o);
    } kinds[] = {{"add", do_add},   {"remove", do_remove}, {"replace", do_replace},
                 {"move", do_move}, {"test", do_test},     {"copy", do_copy}};
    struct str name = o->op && json_is_string(o->op) ? json_str(o->op) : STR("unknown");
    for (size_t i = 0; i < array_len(kinds); i++)
        if (str_eqz(name, kinds[i].name))
            return kinds[i].run(p, o);
    return err_set(p->err, ERR_INVALID, "Unexpected kind: %.*s", STR_ARG(name));
}

// --- The patch -----------------------------------------------------------------------------------

static void patch_json_report_field(struct json_strict *strict, const char *what, size_t index,
                                    struct str name)
{
    if (strict->reports.n >= JSON_STRICT_REPORTS_MAX) {
        strict->dropped++;
        return;
    }
    cleanup_sbuf struct sbuf quoted = {0};
    sbuf_add_quoted(&quoted, str_upto(name, JSON_STRICT_PATH_MAX));
    vec_push(&strict->reports, arena_strf(&strict->arena, "json patch %s field \"[%zu].%.*s", what,
                                          index, (int)quoted.n - 1, quoted.p + 1));
}

static int wrong_type(const yyjson_val *v, const char *want, bool strict, struct err *err)
{
    return err_set(err, ERR_BAD_REQUEST, "%sjson: cannot unmarshal %s into %s",
                   strict ? "error decoding patch: " : "", json_type_name(v), want);
}

// read_operation looks at the members of an operation; what is null or not there stays NULL.
static int read_operation(const struct json_doc *patch, const yyjson_val *v, size_t index,
                          struct json_strict *strict, struct operation *ret, struct err *err)
{
    const yyjson_val *value = NULL, *value_key = NULL, *texts[3] = {0};
    static const char *const names[] = {"op", "path", "from"};
    static const char *const types[] = {"Go struct field jsonPatchOp.op of type string",
                                        "Go struct field jsonPatchOp.path of type string",
                                        "Go struct field jsonPatchOp.from of type string"};
    bool seen[4] = {0};
    json_obj_foreach(v, key, val) {
        struct str name = json_str(key);
        size_t i = 0;
        while (i < array_len(names) && !str_eqz(name, names[i]))
            i++;
        bool known = i < array_len(names) || str_eqz(name, "value");
        if (strict && (!known || seen[i]))
            patch_json_report_field(strict, known ? "duplicate" : "unknown", index, name);
        if (!known)
            continue;
        seen[i] = true;
        if (i == array_len(names)) {
            value = val;
            value_key = key;
            continue;
        }
        if (strict && !json_is_string(val) && !json_is_null(val))
            return wrong_type(val, types[i], true, err);
        texts[i] = val;
    }
    *ret = (struct operation){patch, texts[0], texts[1], texts[2], value_key, value};
    return 0;
}

// read_patch fills ops, one for each item.
static int read_patch(const struct json_doc *patch, struct json_strict *strict,
                      struct operation *ops, struct err *err)
{
    size_t n = 0;
    json_arr_foreach(patch->root, item) {
        if (json_is_null(item)) { // an empty operation
            ops[n++] = (struct operation){0};
            continue;
        }
        if (!json_is_object(item))
            return wrong_type(item,
                              strict ? "Go value of type handlers.jsonPatchOp"
                                     : "Go value of type jsonpatch.Operation",
                              strict != NULL, err);
        int r = read_operation(patch, item, n, strict, &ops[n], err);
        if (r < 0)
            return r;
        n++;
    }
    return 0;
}

static int read_checked(const struct json_doc *patch, struct json_strict *strict,
                        struct arena *arena, struct operation **ret, struct err *err)
{
    if (!json_is_array(patch->root))
        return wrong_type(patch->root,
                          strict ? "Go value of type []handlers.jsonPatchOp"
                                 : "Go value of type jsonpatch.Patch",
                          strict != NULL, err);
    size_t n = json_len(patch->root);
    *ret = arena_array(arena, struct operation, n);
    int r = read_patch(patch, strict, *ret, err);
    if (r < 0)
        return r;
    if (n > API_PATCH_OPERATIONS_MAX)
        return err_set(
            err, ERR_TOO_LARGE,
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            "%d, got %zu",
            API_PATCH_OPERATIONS_MAX, n);
    return 0;
}

int api_patch_json(const struct json_doc *object, const struct json_doc *patch,
                   struct json_strict *strict, struct sbuf *out, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct err ignored;
    err = err ? err : &ignored; // texts are put together in it
    struct patcher p = {.work = {.arena = &arena, .err = err}, .err = err};
    p.root = tree_of(&arena, object, NULL, object->root);
    struct operation *ops = NULL;
    size_t n = json_is_null(patch->root) ? 0 : json_len(patch->root);
    if (!json_is_null(patch->root)) {
        int r = read_checked(patch, strict, &arena, &ops, err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < n; i++) {
        int r = patch_json_apply_operation(&p, &ops[i]);
        if (r < 0)
            return r;
    }
    struct json_writer w = {.out = out};
    return tree_write(p.root, &w, err);
}
