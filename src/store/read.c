// SPDX-License-Identifier: Apache-2.0
//
// Reading: by key, in order, by label, by owner.
#include <assert.h>

#include "store/store_int.h"

#include "base/banned.h"

const struct object *store_get(const struct store *s, const struct store_key *key)
{
    const struct entry *e = index_table_find(&s->entries, key);
    return e ? e->visible : NULL;
}

const struct object *store_head(const struct store *s, const struct store_key *key)
{
    const struct entry *e = index_table_find(&s->entries, key);
    if (!e)
        return NULL;
    if (e->pending)
        return e->head_deleted ? NULL : e->head;
    return e->visible;
}

int store_walk_start(const struct store *s, struct store_walk *w, struct err *err)
{
    if (w->revision == 0)
        w->revision = s->visible;
    if (w->revision < s->history.oldest)
        return err_set(err, ERR_EXPIRED, "the provided resource version %llu is too old (%llu)",
                       (unsigned long long)w->revision, (unsigned long long)s->history.oldest);
    if (w->revision > s->visible)
        return err_set(err, ERR_TIMEOUT, "Too large resource version: %llu, current: %llu",
                       (unsigned long long)w->revision, (unsigned long long)s->visible);
    w->last = NULL;
    w->expired = false;
    w->index = NULL;
    w->changes = UINT64_MAX;
    return 0;
}

// walk_place is the place of the next entry: noted, or found again behind the last key.
static struct sorted_place walk_place(const struct sorted *x, const struct store_walk *w)
{
    if (w->changes == x->changes)
        return w->place;
    struct store_key from = {w->kind, w->after_namespace, w->after_name};
    if (w->last) {
        from.namespace = w->last->namespace;
        from.name = w->last->name;
    } else if (w->one_namespace && str_cmp(from.namespace, w->namespace) < 0) {
        from.namespace = w->namespace;
        from.name = (struct str){0};
    }
    return sorted_seek(x, &from, false);
}

// walk_index is the index of the walk's kind; NULL when there is nothing to walk.
static const struct sorted *walk_index(const struct store *s, struct store_walk *w)
{
    if (w->revision < s->history.oldest) {
        w->expired = true;
        return NULL;
    }
    if (!w->index) {
        const struct kind_state *k = store_kind_get(s, w->kind);
        w->index = k ? &k->index : NULL;
    }
    return w->index;
}

// walk_take finds up to `most` objects from the walk's place on. The index is sorted by namespace:
// a walk through one namespace ends where the next begins.
static inline size_t walk_take(const struct store *s, struct store_walk *w,
                               const struct object **ret, size_t most)
{
    const struct sorted *x = walk_index(s, w);
    if (!x)
        return 0;
    struct sorted_place p = walk_place(x, w);
    size_t n = 0;
    for (const struct entry *e; n < most && (e = sorted_at(x, p)); p = sorted_step(x, p)) {
        if (w->one_namespace && !str_eq(store_entry_key(e).namespace, w->namespace))
            break;
        const struct object *found = store_entry_at(s, e, w->revision);
        if (found)
            ret[n++] = found;
    }
    w->place = p;
    w->changes = x->changes;
    if (n > 0) {
        object_unref(w->last);
        w->last = object_ref(ret[n - 1]);
    }
    return n;
}

const struct object *store_walk_next(const struct store *s, struct store_walk *w)
{
    const struct object *found = NULL;
    return walk_take(s, w, &found, 1) ? found : NULL;
}

size_t store_walk_some(const struct store *s, struct store_walk *w,
                       const struct object *ret[STORE_WALK_SOME])
{
    return walk_take(s, w, ret, STORE_WALK_SOME);
}

void store_walk_done(struct store_walk *w)
{
    object_unref(w->last);
    w->last = NULL;
}

size_t store_count(const struct store *s, const struct api_kind *kind, struct str namespace)
{
    struct kind_state *k = store_kind_get(s, kind);
    if (!k)
        return 0;
    if (namespace.n == 0)
        return k->count;
    const size_t *n = map_get(&k->namespaces, namespace);
    return n ? *n : 0;
}
