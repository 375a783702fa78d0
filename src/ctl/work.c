// SPDX-License-Identifier: Apache-2.0
#include "ctl/work.h"

#include <assert.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/map.h"

#include "base/banned.h"

// Steps that may be under way at once; more wait.
enum { STEPS_MAX = 64 };

static const int64_t pause_first_ns = 5 * CLOCK_NS_PER_MS;
static const int64_t pause_last_ns = 1000 * CLOCK_NS_PER_SEC;

enum item_state {
    ITEM_READY,   // in work.ready
    ITEM_BUSY,    // a step is under way
    ITEM_WAITING, // for a cache, in work.waiting
    ITEM_PAUSED,  // its timer is armed
};

struct item {
    struct list_node node;
    struct exec_timer timer;
    struct work *work;
    enum item_state state;
    bool dirty; // added while busy
    unsigned failures;
    size_t source;
    uint64_t revision;
    struct str key; // behind the struct
};

struct item_map MAP(struct item *);

struct work {
    struct exec *exec;
    work_fn fn;
    void *arg;
    struct item_map items;
    struct list ready;
    struct list waiting;
    uint64_t seen[WORK_SOURCES];
    size_t busy;
    bool posted;
    bool *freed; // set while steps run: tells whether the queue went away below them
};

static void post(struct work *w);

struct work *work_new(struct exec *exec, work_fn fn, void *arg)
{
    struct work *w = xcalloc(1, sizeof(*w));
    w->exec = exec;
    w->fn = fn;
    w->arg = arg;
    list_init(&w->ready);
    list_init(&w->waiting);
    return w;
}

static void item_free(struct item *i)
{
    exec_timer_stop(i->work->exec, &i->timer);
    list_remove(&i->node);
    free(i);
}

void work_free(struct work *w)
{
    if (!w)
        return;
    map_foreach(&w->items, at)
        item_free(*map_value(&w->items, at));
    map_done(&w->items);
    if (w->freed)
        *w->freed = true;
    // A posted run finds the queue gone: it belongs to the run then.
    if (w->posted) {
        w->fn = NULL;
        return;
    }
    free(w);
}

static void make_ready(struct item *i)
{
    exec_timer_stop(i->work->exec, &i->timer);
    list_remove(&i->node);
    list_push_back(&i->work->ready, &i->node);
    i->state = ITEM_READY;
    post(i->work);
}

static void pause_over(void *arg)
{
    make_ready(arg);
}

static struct item *item_of(struct work *w, struct str key, bool *ret_new)
{
    struct item **found = map_get(&w->items, key);
    *ret_new = !found;
    if (found)
        return *found;
    struct item *i = xcalloc(1, sizeof(*i) + key.n + 1);
    char *copy = (char *)(i + 1);
    if (key.n > 0)
        memcpy(copy, key.p, key.n);
    i->work = w;
    i->key = str_make(copy, key.n);
    i->timer = (struct exec_timer){.fn = pause_over, .arg = i};
    *map_put(&w->items, i->key) = i;
    return i;
}

static void forget(struct item *i)
{
    map_del(&i->work->items, i->key);
    item_free(i);
}

void work_add(struct work *w, struct str key)
{
    bool is_new;
    struct item *i = item_of(w, key, &is_new);
    i->failures = 0;
    if (i->state == ITEM_BUSY && !is_new)
        i->dirty = true;
    else if (is_new || i->state == ITEM_PAUSED)
        make_ready(i);
    // One that waits for a cache will be looked at with what the cache knows then.
}

void work_add_after(struct work *w, struct str key, int64_t delay_ns)
{
    bool is_new;
    struct item *i = item_of(w, key, &is_new);
    if (!is_new)
        return;
    i->state = ITEM_PAUSED;
    exec_timer_start(w->exec, &i->timer, delay_ns);
}

// --- Steps ---------------------------------------------------------------------------------------

static void run(void *arg)
{
    struct work *w = arg;
    w->posted = false;
    if (!w->fn) {
        free(w);
        return;
    }
    bool freed = false;
    w->freed = &freed;
    while (!list_empty(&w->ready) && w->busy < STEPS_MAX) {
        struct item *i = list_entry(list_pop_front(&w->ready), struct item, node);
        i->state = ITEM_BUSY;
        i->dirty = false;
        w->busy++;
        w->fn(w->arg, i->key);
        if (freed)
            return;
    }
    w->freed = NULL;
}

static void post(struct work *w)
{
    if (w->posted || w->busy >= STEPS_MAX)
        return;
    w->posted = true;
    exec_post(w->exec, run, w);
}

// ended takes a key whose step is over out of the busy ones.
static struct item *ended(struct work *w, struct str key)
{
    struct item **found = map_get(&w->items, key);
    assert(found && (*found)->state == ITEM_BUSY);
    w->busy--;
    if (!list_empty(&w->ready))
        post(w);
    return *found;
}

void work_done(struct work *w, struct str key)
{
    struct item *i = ended(w, key);
    i->failures = 0;
    if (i->dirty)
        make_ready(i);
    else
        forget(i);
}

void work_retry(struct work *w, struct str key)
{
    struct item *i = ended(w, key);
    if (i->dirty) {
        make_ready(i);
        return;
    }
    int64_t pause = i->failures < 18 ? pause_first_ns << i->failures : pause_last_ns;
    i->failures++;
    i->state = ITEM_PAUSED;
    exec_timer_start(w->exec, &i->timer, pause < pause_last_ns ? pause : pause_last_ns);
}

void work_again(struct work *w, struct str key, int64_t delay_ns)
{
    struct item *i = ended(w, key);
    i->failures = 0;
    if (i->dirty) {
        make_ready(i);
        return;
    }
    i->state = ITEM_PAUSED;
    exec_timer_start(w->exec, &i->timer, delay_ns);
}

void work_after(struct work *w, struct str key, size_t source, uint64_t revision)
{
    assert(source < WORK_SOURCES);
    struct item *i = ended(w, key);
    i->failures = 0;
    if (w->seen[source] >= revision) {
        make_ready(i);
        return;
    }
    i->state = ITEM_WAITING;
    i->source = source;
    i->revision = revision;
    list_push_back(&w->waiting, &i->node);
}

void work_seen(struct work *w, size_t source, uint64_t revision)
{
    assert(source < WORK_SOURCES);
    if (revision > w->seen[source])
        w->seen[source] = revision;
    list_foreach(&w->waiting, node) {
        struct item *i = list_entry(node, struct item, node);
        if (i->source == source && i->revision <= w->seen[source])
            make_ready(i);
    }
}

bool work_idle(const struct work *w)
{
    return w->busy == 0 && list_empty(&w->ready) && list_empty(&w->waiting);
}
