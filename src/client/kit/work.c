// SPDX-License-Identifier: Apache-2.0
//
// Keys of a controller: a step of a key starts only when the caches have seen the last write of
// that key, so that a controller needs no memory of its own writes.
#include "client/work.h"

#include <assert.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/map.h"
#include "base/vec.h"
#include "client/workqueue.h"

#include "base/banned.h"

// Steps that may be under way at once; more wait.
enum { STEPS_MAX = 64 };

// A key that is not looked at before a cache has seen what its last step wrote.
struct waiting {
    struct list_node node; // in work.list
    size_t source;
    uint64_t revision;
    struct str key; // behind the struct
};

struct waiting_map MAP(struct waiting *);

struct work {
    struct workqueue *queue;
    work_fn fn;
    void *arg;
    struct waiting_map waiting;
    struct list list;          // the same, oldest first
    struct VEC(uint64_t) seen; // by source; as many as there were
};

static void work_step_key(void *arg, struct str key)
{
    struct work *w = arg;
    if (map_has(&w->waiting, key))
        workqueue_done(w->queue, key); // comes back when the cache is there
    else
        w->fn(w->arg, key);
}

struct work *work_new(struct exec *exec, const char *name, work_fn fn, void *arg)
{
    struct work *w = xcalloc(1, sizeof(*w));
    const struct workqueue_options o = {.exec = exec,
                                        .work = work_step_key,
                                        .arg = w,
                                        .name = name,
                                        .workers = STEPS_MAX,
                                        .retry_per_sec = -1};
    w->queue = workqueue_new(&o);
    w->fn = fn;
    w->arg = arg;
    list_init(&w->list);
    return w;
}

void work_hold(struct work *w, bool hold)
{
    workqueue_hold(w->queue, hold);
}

void work_free(struct work *w)
{
    if (!w)
        return;
    workqueue_free(w->queue);
    map_foreach(&w->waiting, i)
        free(*map_value(&w->waiting, i));
    map_done(&w->waiting);
    vec_done(&w->seen);
    free(w);
}

void work_add(struct work *w, struct str key)
{
    workqueue_forget(w->queue, key);
    workqueue_add(w->queue, key);
}

void work_add_after(struct work *w, struct str key, int64_t delay_ns)
{
    workqueue_add_after(w->queue, key, delay_ns);
}

void work_done(struct work *w, struct str key)
{
    workqueue_forget(w->queue, key);
    workqueue_done(w->queue, key);
}

void work_retry(struct work *w, struct str key)
{
    workqueue_retry(w->queue, key);
    workqueue_done(w->queue, key);
}

void work_look(struct work *w, struct str key)
{
    w->fn(w->arg, key);
}

void work_again(struct work *w, struct str key, int64_t delay_ns)
{
    workqueue_forget(w->queue, key);
    workqueue_add_after(w->queue, key, delay_ns);
    workqueue_done(w->queue, key);
}

void work_again_in(struct work *w, struct str key, int64_t seconds)
{
    enum { DAY_S = 86400 };
    work_again(w, key, (seconds < DAY_S ? seconds : DAY_S) * CLOCK_NS_PER_SEC);
}

static uint64_t *seen_of(struct work *w, size_t source)
{
    while (w->seen.n <= source)
        vec_push(&w->seen, 0);
    return &w->seen.p[source];
}

void work_after(struct work *w, struct str key, size_t source, uint64_t revision)
{
    workqueue_forget(w->queue, key);
    if (*seen_of(w, source) >= revision) {
        workqueue_add(w->queue, key);
    } else {
        struct waiting *x = xcalloc(1, sizeof(*x) + key.n + 1);
        char *copy = (char *)(x + 1);
        memcpy(copy, key.p, key.n);
        x->key = str_make(copy, key.n);
        x->source = source;
        x->revision = revision;
        *map_put(&w->waiting, x->key) = x;
        list_push_back(&w->list, &x->node);
    }
    workqueue_done(w->queue, key);
}

// work_wake_waiting looks at what waits for a source up to a revision.
static void work_wake_waiting(struct work *w, size_t source, uint64_t revision)
{
    list_foreach(&w->list, node) {
        struct waiting *x = list_entry(node, struct waiting, node);
        if (x->source != source || x->revision > revision)
            continue;
        map_del(&w->waiting, x->key);
        list_remove(&x->node);
        workqueue_add(w->queue, x->key);
        free(x);
    }
}

void work_seen(struct work *w, size_t source, uint64_t revision)
{
    uint64_t *seen = seen_of(w, source);
    if (revision <= *seen)
        return;
    *seen = revision;
    work_wake_waiting(w, source, revision);
}

void work_forget(struct work *w, size_t source)
{
    *seen_of(w, source) = 0;
    work_wake_waiting(w, source, UINT64_MAX);
}

bool work_idle(const struct work *w)
{
    return list_empty(&w->list) && workqueue_len(w->queue) == 0 && workqueue_busy(w->queue) == 0;
}

void work_metrics(struct work *const *all, size_t n, struct sbuf *out)
{
    const struct workqueue *queues[WORKS_MAX];
    assert(n <= WORKS_MAX);
    for (size_t i = 0; i < n; i++)
        queues[i] = all[i]->queue;
    workqueue_metrics(queues, n, out);
}
