// SPDX-License-Identifier: Apache-2.0
//
// Events go an hour after they were last written, as upstream's do. They need not be read for that: revisions grow with time, so it is
// enough to know which one there was an hour ago. A new start knows nothing of before; what it finds stays another hour.
#include <stdlib.h>

#include "base/vec.h"
#include "registry/registry_int.h"

#include "base/banned.h"

#define LIFE_NS (3600 * CLOCK_NS_PER_SEC)
#define LOOK_NS (60 * CLOCK_NS_PER_SEC)
#define SOON_NS CLOCK_NS_PER_SEC // when more have to go than in one look

enum { LOOK_EVENTS = 500 };

// --- What was when -------------------------------------------------------------------------------

static void note_revision(struct registry *r, int64_t now)
{
    struct event_mark *last = r->event_marks_len ? &r->event_marks[r->event_marks_len - 1] : NULL;
    if (r->event_marks_len == EVENT_MARKS || (last && now - last->at_ns < LOOK_NS))
        return;
    r->event_marks[r->event_marks_len++] = (struct event_mark){now, store_revision(r->store)};
}

// revision_then is the newest revision that is known to be as old as events become; 0: none is.
static uint64_t revision_then(struct registry *r, int64_t now)
{
    struct event_mark *m = r->event_marks;
    size_t drop = 0;
    while (drop + 1 < r->event_marks_len && now - m[drop + 1].at_ns >= LIFE_NS)
        drop++;
    r->event_marks_len -= drop;
    memmove(m, m + drop, r->event_marks_len * sizeof(*m));
    return r->event_marks_len && now - m[0].at_ns >= LIFE_NS ? m[0].revision : 0;
}

// --- Going ---------------------------------------------------------------------------------------

struct errand {
    struct registry_request request;
    struct arena arena;
};

// Whatever became of it, the next look finds out.
static void events_on_request_done(void *arg, const struct registry_answer *answer)
{
    struct errand *e = arg;
    (void)answer;
    arena_done(&e->arena);
    free(e);
}

static void delete_event(struct registry *r, const struct object *o, uint64_t until)
{
    const struct store_key key = {o->kind, o->namespace, o->name};
    const struct object *head = store_head(r->store, &key);
    if (!head || head->revision > until)
        return;
    struct errand *e = xcalloc(1, sizeof(*e));
    e->request = (struct registry_request){.kind = o->kind,
                                           .namespace = arena_str(&e->arena, o->namespace),
                                           .name = arena_str(&e->arena, o->name)};
    registry_delete(r, &e->request, NULL, &e->arena, events_on_request_done, e);
}

static size_t events_delete_expired(struct registry *r, uint64_t until)
{
    struct VEC(const struct object *) old = {0};
    struct store_walk walk = {.kind = r->event_kind};
    if (store_walk_start(r->store, &walk, NULL) < 0)
        return 0;
    for (const struct object *o; old.n < LOOK_EVENTS && (o = store_walk_next(r->store, &walk));)
        if (o->revision <= until)
            vec_push(&old, object_ref(o));
    store_walk_done(&walk);
    size_t n = old.n;
    vec_foreach(&old, o) {
        delete_event(r, *o, until);
        object_unref(*o);
    }
    vec_done(&old);
    return n;
}

void events_look(void *arg)
{
    struct registry *r = arg;
    int64_t now = exec_now_ns(r->exec);
    note_revision(r, now);
    uint64_t until = revision_then(r, now);
    size_t n = until ? events_delete_expired(r, until) : 0;
    if (store_count(r->store, r->event_kind, STR("")) > 0)
        exec_timer_start(r->exec, &r->events_timer, n == LOOK_EVENTS ? SOON_NS : LOOK_NS);
}

void events_due(struct registry *r)
{
    if (!exec_timer_armed(&r->events_timer) && store_count(r->store, r->event_kind, STR("")) > 0)
        exec_timer_start(r->exec, &r->events_timer, LOOK_NS);
}

void events_stop(struct registry *r)
{
    exec_timer_stop(r->exec, &r->events_timer);
}
