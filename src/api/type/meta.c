// SPDX-License-Identifier: Apache-2.0
//
// Changing and asking metadata. Objects are immutable: what changes is copied into the arena of the
// object that is being made.
#include "api/meta.h"

#include "api/table.h"

#include "base/banned.h"

void meta_map_put(struct api_str_map *map, struct str key, struct str value, struct arena *arena)
{
    struct api_str_entry *all = arena_array(arena, struct api_str_entry, map->n + 1);
    size_t n = 0;
    bool placed = false;
    for (size_t i = 0; i < map->n; i++) {
        int order = str_cmp(map->p[i].key, key);
        if (order >= 0 && !placed) {
            all[n++] = (struct api_str_entry){key, value};
            placed = true;
        }
        if (order != 0)
            all[n++] = map->p[i];
    }
    if (!placed)
        all[n++] = (struct api_str_entry){key, value};
    *map = (struct api_str_map){all, n};
}

void meta_map_drop(struct api_str_map *map, struct str key, struct arena *arena)
{
    struct api_str_entry *all = arena_array(arena, struct api_str_entry, map->n + 1);
    size_t n = 0;
    for (size_t i = 0; i < map->n; i++)
        if (!str_eq(map->p[i].key, key))
            all[n++] = map->p[i];
    *map = (struct api_str_map){n > 0 ? all : NULL, n};
}

bool meta_map_int(const struct api_str_map *map, struct str key, int64_t *ret)
{
    const struct str *text = api_map_find(map, key);
    return text && str_to_i64(*text, ret) == 0;
}

void meta_list_drop(struct api_str_array *list, struct str text, struct arena *arena)
{
    struct str *kept = arena_array(arena, struct str, list->n + 1);
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++)
        if (!str_eq(list->p[i], text))
            kept[n++] = list->p[i];
    *list = (struct api_str_array){n > 0 ? kept : NULL, n};
}

void meta_list_add(struct api_str_array *list, struct str text, struct arena *arena)
{
    struct str *all = arena_array(arena, struct str, list->n + 1);
    for (size_t i = 0; i < list->n; i++)
        all[i] = list->p[i];
    all[list->n] = text;
    *list = (struct api_str_array){all, list->n + 1};
}

void meta_own(struct api_object_meta *meta, const struct api_kind *kind,
              const struct api_object_meta *owner, bool block, struct arena *arena)
{
    struct api_owner_reference *o = arena_one(arena, struct api_owner_reference);
    *o = (struct api_owner_reference){
        .api_version = kind->api_version,
        .kind = kind->kind,
        .name = owner->name,
        .uid = owner->uid,
        .controller = true,
        .has_controller = true,
        .block_owner_deletion = block,
        .has_block_owner_deletion = block,
    };
    meta->owner_references = (struct api_owner_reference_array){o, 1};
}

const struct api_owner_reference *meta_controller(const struct api_object_meta *meta)
{
    for (size_t i = 0; i < meta->owner_references.n; i++) {
        const struct api_owner_reference *o = &meta->owner_references.p[i];
        if (o->has_controller && o->controller)
            return o;
    }
    return NULL;
}

bool meta_has_finalizer(const struct api_object_meta *meta, struct str finalizer)
{
    return api_str_listed(&meta->finalizers, finalizer);
}

struct str meta_annotation(const struct api_object_meta *meta, struct str key)
{
    const struct str *value = api_map_find(&meta->annotations, key);
    return value ? *value : (struct str){0};
}

uint64_t meta_hash(uint64_t hash, struct str bytes)
{
    for (size_t i = 0; i < bytes.n; i++)
        hash = (hash ^ (unsigned char)bytes.p[i]) * UINT64_C(1099511628211);
    return hash;
}

void meta_hash_letters(uint64_t hash, char *out, size_t n)
{
    static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";
    for (size_t i = 0; i < n; i++) {
        out[i] = letters[hash % (sizeof(letters) - 1)];
        hash /= sizeof(letters) - 1;
    }
}
