// SPDX-License-Identifier: Apache-2.0
//
// The bound of the database. Bytes are counted twice: of visible versions, and of accepted ones
// (the heads), against which writes are checked; when pending writes are lost, the second count
// falls back to the first.
//
// The share of a namespace is of the bytes that other namespaces leave: with the default of 50 %, a
// single namespace may fill half of the database, two a third each. However many are full, the next
// one finds room.
#include "store/room.h"

#include <assert.h>
#include <errno.h>

#include "base/mem.h"
#include "store/store_int.h"

#include "base/banned.h"

// The reserve is a sixteenth of the bound.
#define ROOM_RESERVE_DIVISOR 16

static void room_add(size_t *count, const struct object *more, const struct object *less)
{
    *count += more ? more->block_size : 0U;
    assert(*count >= (less ? less->block_size : 0U));
    *count -= less ? less->block_size : 0U;
}

// room_change counts a key's change from one version to another; NULL: none.
static void room_change(struct room *room, const struct object *from, const struct object *to,
                        bool visible)
{
    struct str namespace = (to ? to : from)->namespace;
    room_add(visible ? &room->all.visible : &room->all.accepted, to, from);
    if (namespace.n == 0)
        return;
    struct room_bytes *bytes = map_get(&room->namespaces, namespace);
    if (!bytes)
        bytes =
            map_put(&room->namespaces, str_make(xstrndup(namespace.p, namespace.n), namespace.n));
    room_add(visible ? &bytes->visible : &bytes->accepted, to, from);
    if (bytes->visible || bytes->accepted)
        return;
    size_t at = map_index_find(&room->namespaces.index, namespace);
    char *owned = (char *)(uintptr_t)map_key(&room->namespaces, at).p;
    (void)map_del(&room->namespaces, str_make(owned, namespace.n));
    free(owned);
}

void room_accept(struct room *room, const struct object *from, const struct object *to)
{
    if (from || to)
        room_change(room, from, to, false);
}

void room_show(struct room *room, const struct object *from, const struct object *to)
{
    if (from || to)
        room_change(room, from, to, true);
}

void room_fall_back(struct room *room)
{
    room->all.accepted = room->all.visible;
    map_foreach(&room->namespaces, i) {
        struct room_bytes *bytes = map_value(&room->namespaces, i);
        bytes->accepted = bytes->visible;
        if (bytes->visible)
            continue;
        struct str key = map_key(&room->namespaces, i);
        (void)map_del(&room->namespaces, key);
        free((char *)(uintptr_t)key.p);
    }
}

void room_done(struct room *room)
{
    map_foreach(&room->namespaces, i) {
        free((char *)(uintptr_t)map_key(&room->namespaces, i).p);
    }
    map_done(&room->namespaces);
}

// room_check_share: what others take counts once, what the namespace takes is its own.
static int room_check_share(const struct room *room, const struct object *o, size_t growth,
                            size_t limit, struct err *err)
{
    const struct room_bytes *bytes = map_get(&room->namespaces, o->namespace);
    size_t own = bytes ? bytes->accepted : 0;
    size_t others = room->all.accepted - own;
    size_t left = limit > others ? limit - others : 0;
    size_t share = (size_t)((double)left * (double)room->share_percent / 100.0);
    if (own + growth <= share)
        return 0;
    return err_set(err, ERR_FORBIDDEN,
                   "exceeded the namespace's share of the database: objects in namespace "
                   "\"%.*s\" take %zu bytes, this one adds %zu, the share is %zu (%zu %% of what "
                   "other namespaces leave); delete objects, or raise --max-database-bytes",
                   STR_ARG(o->namespace), own, growth, share, room->share_percent);
}

bool room_is_urgent(const struct object *head, const struct object *o)
{
    return head && o->block_size <= head->block_size + STORE_SMALL_GROWTH;
}

int store_room(struct store *s, const struct object *o, struct err *err)
{
    const struct room *room = &s->room;
    const struct store_key key = {o->kind, o->namespace, o->name};
    const struct object *head = store_head(s, &key);
    size_t before = head ? head->block_size : 0;
    if (s->low && !room_is_urgent(head, o)) {
        committer_look_for_space(s->committer);
        return err_set(err, ENOSPC,
                       "no space left on the disk of the database: only deletions and small "
                       "updates are accepted; free some space");
    }
    if (room->max == 0 || o->block_size <= before)
        return 0;
    size_t growth = o->block_size - before, limit = room->max;
    if (room_is_urgent(head, o))
        limit += room->max / ROOM_RESERVE_DIVISOR;
    if (room->all.accepted + growth > limit)
        return err_set(err, ENOSPC,
                       "database space exceeded: objects take %zu bytes, this one adds %zu, the "
                       "bound is %zu; delete objects, or raise --max-database-bytes",
                       room->all.accepted, growth, room->max);
    return o->namespace.n ? room_check_share(room, o, growth, limit, err) : 0;
}

size_t store_largest_namespaces(const struct store *s, struct store_namespace_bytes *ret, size_t n)
{
    size_t found = 0;
    map_foreach(&s->room.namespaces, i) {
        const struct store_namespace_bytes one = {map_key(&s->room.namespaces, i),
                                                  map_value(&s->room.namespaces, i)->visible};
        size_t at = found;
        while (at > 0 && ret[at - 1].bytes < one.bytes)
            at--;
        if (at == n)
            continue;
        found += found < n;
        for (size_t j = found - 1; j > at; j--)
            ret[j] = ret[j - 1];
        ret[at] = one;
    }
    return found;
}
