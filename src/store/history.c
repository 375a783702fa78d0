// SPDX-License-Identifier: Apache-2.0
//
// The history: a window of the newest changes over all kinds. An event holds the version it made
// and the one it replaced; when it falls out of the window, the replaced one goes.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/store_int.h"

#include "base/banned.h"

const struct history_event *history_at(const struct history *h, size_t i)
{
    assert(i < h->n);
    return h->ring[(h->first + i) & (h->cap - 1)];
}

size_t history_find(const struct history *h, uint64_t revision)
{
    size_t low = 0, high = h->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (history_at(h, mid)->object->revision <= revision)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static void history_grow_ring(struct history *h)
{
    size_t cap = h->cap ? h->cap * 2 : 64;
    struct history_event **ring = xreallocarray(NULL, cap, sizeof(struct history_event *));
    for (size_t i = 0; i < h->n; i++)
        ring[i] = h->ring[(h->first + i) & (h->cap - 1)];
    free(h->ring);
    h->ring = ring;
    h->cap = cap;
    h->first = 0;
}

// What an event keeps in memory that nothing else would.
static size_t event_bytes(const struct history_event *e)
{
    return (e->before ? e->before->block_size : 0) +
           (e->type == STORE_DELETED ? e->object->block_size : 0);
}

const struct history_event *history_add(struct store *s, struct entry *e,
                                        const struct object *object, const struct object *before,
                                        bool deleted)
{
    struct history *h = &s->history;
    if (h->n == h->cap)
        history_grow_ring(h);
    struct history_event *event = xmalloc(sizeof(*event));
    *event = (struct history_event){
        .object = object_ref(object),
        .before = object_ref(before),
        .entry = e,
        .older = e->newest,
        .older_revision = e->newest ? e->newest->object->revision : 0,
        .type = deleted  ? STORE_DELETED
                : before ? STORE_MODIFIED
                         : STORE_ADDED,
    };
    e->newest = event;
    h->ring[(h->first + h->n) & (h->cap - 1)] = event;
    h->n++;
    h->bytes += event_bytes(event);
    return event;
}

static void drop_first(struct store *s)
{
    struct history *h = &s->history;
    struct history_event *event = h->ring[h->first];
    h->first = (h->first + 1) & (h->cap - 1);
    h->n--;
    h->bytes -= event_bytes(event);
    h->oldest = event->object->revision;
    if (event->before)
        vec_push(&s->doomed, event->before->revision);
    if (event->type == STORE_DELETED)
        vec_push(&s->doomed, event->object->revision);
    struct entry *e = event->entry;
    if (e->newest == event) {
        if (!e->visible && !e->pending)
            store_entry_drop(s, e);
        else
            e->newest = NULL;
    }
    object_unref(event->before);
    object_unref(event->object);
    free(event);
}

void history_trim(struct store *s)
{
    const struct history *h = &s->history;
    size_t max =
        s->low && h->max_bytes > STORE_HISTORY_BYTES_LOW ? STORE_HISTORY_BYTES_LOW : h->max_bytes;
    while (h->n && (h->n > h->max_events || h->bytes > max))
        drop_first(s);
}

void history_done(struct store *s)
{
    struct history *h = &s->history;
    for (size_t i = 0; i < h->n; i++) {
        struct history_event *event = h->ring[(h->first + i) & (h->cap - 1)];
        object_unref(event->before);
        object_unref(event->object);
        free(event);
    }
    free(h->ring);
    *h = (struct history){0};
}

const struct object *store_entry_at(const struct store *s, const struct entry *e, uint64_t revision)
{
    if (e->visible && e->visible->revision <= revision)
        return e->visible;
    const struct history_event *event = e->newest;
    while (event && event->object->revision > revision) {
        if (event->older_revision <= s->history.oldest || event->older_revision <= revision)
            return event->before;
        event = event->older;
    }
    // Either nothing changed since, and nothing is there; or this is the change of that moment.
    return event && event->type != STORE_DELETED ? event->object : NULL;
}
