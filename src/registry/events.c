// SPDX-License-Identifier: Apache-2.0
//
// Events go an hour after they were last written, as upstream's do. They need not be read for that:
// revisions grow with time, so it is enough to know which one there was an hour ago. A new start
// knows nothing of before; what it finds stays another hour.
#include <stdlib.h>

#include "base/vec.h"
#include "registry/stage_int.h"

#include "base/banned.h"

#define LIFE_NS (3600 * CLOCK_NS_PER_SEC)
#define LOOK_NS (60 * CLOCK_NS_PER_SEC)
#define SOON_NS CLOCK_NS_PER_SEC // when more have to go than in one look

enum { LOOK_EVENTS = 500 };

// --- What was when -------------------------------------------------------------------------------

static void note_revision(struct registry *reg, int64_t now)
{
    struct event_mark *last =
        reg->events.marks_len ? &reg->events.marks[reg->events.marks_len - 1] : NULL;
    if (reg->events.marks_len == EVENT_MARKS || (last && now - last->at_ns < LOOK_NS))
        return;
    reg->events.marks[reg->events.marks_len++] =
        (struct event_mark){now, store_revision(reg->store)};
}

// revision_then is the newest revision that is known to be as old as events become; 0: none is.
static uint64_t revision_then(struct registry *reg, int64_t now)
{
    struct event_mark *m = reg->events.marks;
    size_t drop = 0;
    while (drop + 1 < reg->events.marks_len && now - m[drop + 1].at_ns >= LIFE_NS)
        drop++;
    reg->events.marks_len -= drop;
    memmove(m, m + drop, reg->events.marks_len * sizeof(*m));
    return reg->events.marks_len && now - m[0].at_ns >= LIFE_NS ? m[0].revision : 0;
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

static void delete_event(struct registry *reg, const struct object *o, uint64_t until)
{
    const struct store_key key = {o->kind, o->namespace, o->name};
    const struct object *head = store_head(reg->store, &key);
    if (!head || head->revision > until)
        return;
    struct errand *e = xcalloc(1, sizeof(*e));
    e->request = (struct registry_request){.kind = o->kind,
                                           .namespace = arena_str(&e->arena, o->namespace),
                                           .name = arena_str(&e->arena, o->name)};
    registry_delete(reg, &e->request, NULL, &e->arena, events_on_request_done, e);
}

static size_t events_delete_expired(struct registry *reg, uint64_t until)
{
    struct VEC(const struct object *) old = {0};
    struct store_walk walk = {.kind = reg->kinds.event};
    if (store_walk_start(reg->store, &walk, NULL) < 0)
        return 0;
    for (const struct object *o; old.n < LOOK_EVENTS && (o = store_walk_next(reg->store, &walk));)
        if (o->revision <= until)
            vec_push(&old, object_ref(o));
    store_walk_done(&walk);
    size_t n = old.n;
    vec_foreach(&old, o) {
        delete_event(reg, *o, until);
        object_unref(*o);
    }
    vec_done(&old);
    return n;
}

void events_look(void *arg)
{
    struct registry *reg = arg;
    int64_t now = exec_now_ns(reg->exec);
    note_revision(reg, now);
    uint64_t until = revision_then(reg, now);
    size_t n = until ? events_delete_expired(reg, until) : 0;
    if (store_count(reg->store, reg->kinds.event, STR("")) > 0)
        exec_timer_start(reg->exec, &reg->events.timer, n == LOOK_EVENTS ? SOON_NS : LOOK_NS);
}

void events_due(struct registry *reg)
{
    if (!exec_timer_armed(&reg->events.timer) &&
        store_count(reg->store, reg->kinds.event, STR("")) > 0)
        exec_timer_start(reg->exec, &reg->events.timer, LOOK_NS);
}

void events_stop(struct registry *reg)
{
    exec_timer_stop(reg->exec, &reg->events.timer);
}
