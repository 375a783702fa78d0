// SPDX-License-Identifier: Apache-2.0
//
// Watches: a list for every kind. Callbacks may start and stop watches while events are given.
#include <assert.h>

#include "store/store_int.h"

#include "base/banned.h"

static void watch_deliver_event(struct store_watch *w, const struct history_event *e)
{
    uint64_t revision = e->object->revision;
    if (w->seen >= revision)
        return;
    w->seen = revision;
    if (w->namespace.n && !str_eq(w->namespace, e->object->namespace))
        return;
    struct store_event event = {e->type, e->object, e->before};
    w->event(w->arg, &event); // w may be gone now
}

void watch_publish(struct store *s, const struct history_event *e)
{
    struct kind_state *k = store_kind_get(s, e->object->kind);
    assert(k && !s->publishing);
    s->publishing = true;
    for (struct list_node *n = k->watches.head.next; n != &k->watches.head; n = s->next_watch) {
        s->next_watch = n->next;
        watch_deliver_event(list_entry(n, struct store_watch, node), e);
    }
    s->next_watch = NULL;
    s->publishing = false;
}

int store_watch_start(struct store *s, struct store_watch *w, struct err *err)
{
    const struct history *h = &s->history;
    if (w->seen < h->oldest)
        return err_set(err, ERR_EXPIRED, "too old resource version: %llu (%llu)",
                       (unsigned long long)w->seen, (unsigned long long)h->oldest);
    w->node = (struct list_node){0};
    list_push_back(&store_kind_find(s, w->kind)->watches, &w->node);
    struct replay replay = {w, s->replays};
    s->replays = &replay;
    // The history only moves between events, never while callbacks run.
    for (size_t i = history_find(h, w->seen); i < h->n && replay.watch; i++) {
        const struct history_event *e = history_at(h, i);
        if (e->object->kind == w->kind)
            watch_deliver_event(w, e);
    }
    s->replays = replay.outer;
    return 0;
}

void store_watch_stop(struct store *s, struct store_watch *w)
{
    if (s->next_watch == &w->node)
        s->next_watch = w->node.next;
    list_remove(&w->node);
    for (struct replay *r = s->replays; r; r = r->outer)
        if (r->watch == w)
            r->watch = NULL;
}
