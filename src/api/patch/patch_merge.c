// SPDX-License-Identifier: Apache-2.0
//
// JSON merge patch.
#include "api/patch.h"
#include "api/type/tree.h"

#include "base/banned.h"

// patch_merge_drop_nulls drops the members that are null, here and below; a patch that adds a value
// cannot mean them.
static void patch_merge_drop_nulls(struct tree *t, struct arena *arena)
{
    if (!tree_is_object(t) && !tree_is_list(t))
        return;
    tree_open(t, arena);
    for (size_t i = 0; i < t->list.n; i++)
        patch_merge_drop_nulls(t->list.p[i], arena);
    tree_foreach(t, m)
    {
        if (tree_is_null(m->value))
            (void)tree_remove(t, m->key, arena);
        else
            patch_merge_drop_nulls(m->value, arena);
    }
}

// merge_into applies the members of patch to object. Both are as deep as a document may be, no
// more.
static void merge_into(struct tree *object, struct tree *patch, struct arena *arena)
{
    tree_open(patch, arena);
    tree_foreach(patch, m)
    {
        if (tree_is_null(m->value)) {
            (void)tree_remove(object, m->key, arena);
            continue;
        }
        struct tree *old = tree_get(object, m->key, arena);
        if (old && tree_is_object(old) && tree_is_object(m->value)) {
            merge_into(old, m->value, arena);
            continue;
        }
        // What takes the place of an object is taken as it is, nulls in lists of objects included.
        if (!old || !tree_is_object(old))
            patch_merge_drop_nulls(m->value, arena);
        tree_put(object, m->key, m->value, arena);
    }
}

int api_patch_merge(const struct json_doc *object, const struct json_doc *patch,
                    struct json_strict *strict, struct sbuf *out, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    const yyjson_val *root = patch->root;
    if (strict && !json_is_object(root) && !json_is_null(root))
        return err_set(err, ERR_BAD_REQUEST,
                       "error decoding patch: json: cannot unmarshal %s into Go value of type "
                       "map[string]interface {}",
                       json_type_name(root));
    if (!json_is_container(root))
        return err_set(err, ERR_BAD_REQUEST, "Invalid JSON Patch");
    json_strict_walk(strict, root);
    struct tree *changes = tree_of(&arena, patch, NULL, root);
    struct tree *result = tree_of(&arena, object, NULL, object->root);
    if (json_is_object(root) && json_is_object(object->root)) {
        merge_into(result, changes, &arena);
    } else {
        patch_merge_drop_nulls(changes, &arena);
        result = changes;
    }
    struct json_writer w = {.out = out};
    return tree_write(result, &w, err);
}
