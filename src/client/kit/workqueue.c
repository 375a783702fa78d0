// SPDX-License-Identifier: Apache-2.0
//
// A queue of keys with client-go's numbers: each key once, delays that double after failures, a
// token bucket over all retries, metrics.
#include "client/workqueue.h"

#include <assert.h>
#include <stdlib.h>

#include "base/backoff.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "codec/prom.h"

#include "base/banned.h"

#define RETRY_FIRST_NS (5 * CLOCK_NS_PER_MS)
#define RETRY_MAX_NS   (1000 * CLOCK_NS_PER_SEC)
#define RETRY_PER_SEC  10
#define RETRY_BURST    100

// Everything known of a key; goes when there is nothing left to know.
struct work_key {
    struct str key;        // its bytes stand behind the struct
    struct list_node node; // in ready
    struct heap_node later;
    int64_t due_ns;
    int64_t added_ns; // these two for counts
    int64_t began_ns;
    uint64_t order; // among those due at the same time
    size_t failures;
    bool working;
    bool again; // came while it was worked on
};

struct work_keys MAP(struct work_key *);

// What a queue with a name counts.
struct work_counts {
    uint64_t adds, retries;
    struct prom_times waited, worked;
};

struct workqueue {
    struct workqueue_options options;
    struct work_keys keys;
    struct list ready;
    size_t ready_len;
    size_t working;
    bool held;
    struct heap later;
    uint64_t orders;
    struct exec_timer go;  // something is ready and a worker is free
    struct exec_timer due; // the first of later
    double tokens;
    int64_t tokens_ns; // when there were that many
    struct work_counts counts;
};

static bool due_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct work_key *x = heap_entry(a, const struct work_key, later);
    const struct work_key *y = heap_entry(b, const struct work_key, later);
    return x->due_ns != y->due_ns ? x->due_ns < y->due_ns : x->order < y->order;
}

static struct work_key *key_find(const struct workqueue *q, struct str key)
{
    struct work_key *const *k = map_get(&q->keys, key);
    return k ? *k : NULL;
}

static struct work_key *key_make(struct workqueue *q, struct str key)
{
    struct work_key *k = key_find(q, key);
    if (k)
        return k;
    k = xcalloc(1, sizeof(*k) + key.n + 1);
    char *bytes = (char *)(k + 1);
    if (key.n)
        memcpy(bytes, key.p, key.n);
    k->key = str_make(bytes, key.n);
    *map_put(&q->keys, k->key) = k;
    return k;
}

static void key_tidy(struct workqueue *q, struct work_key *k)
{
    if (k->working || k->failures || list_linked(&k->node) || heap_linked(&k->later))
        return;
    (void)map_del(&q->keys, k->key);
    free(k);
}

// --- Counting ------------------------------------------------------------------------------------

// client-go's, from 10 ns to 1000 s.
static const struct prom_buckets buckets = {.first = 1e-8, .factor = 10, .n = 12};

static void count_added(struct workqueue *q, struct work_key *k)
{
    if (!q->options.name)
        return;
    q->counts.adds++;
    k->added_ns = exec_now_ns(q->options.exec);
}

static void count_begun(struct workqueue *q, struct work_key *k)
{
    if (!q->options.name)
        return;
    k->began_ns = exec_now_ns(q->options.exec);
    prom_observe_ns(&q->counts.waited, &buckets, k->began_ns - k->added_ns);
}

static void count_done(struct workqueue *q, const struct work_key *k)
{
    if (q->options.name)
        prom_observe_ns(&q->counts.worked, &buckets, exec_now_ns(q->options.exec) - k->began_ns);
}

// --- Working -------------------------------------------------------------------------------------

static void workqueue_schedule_run(struct workqueue *q)
{
    if (q->ready_len && !q->held && q->working < q->options.workers && !exec_timer_armed(&q->go))
        exec_timer_start(q->options.exec, &q->go, 0);
}

static void push_ready(struct workqueue *q, struct work_key *k)
{
    list_push_back(&q->ready, &k->node);
    q->ready_len++;
    workqueue_schedule_run(q);
}

static void make_ready(struct workqueue *q, struct work_key *k)
{
    if (list_linked(&k->node) || k->again)
        return;
    count_added(q, k);
    if (k->working)
        k->again = true;
    else
        push_ready(q, k);
}

static void on_go(void *arg)
{
    struct workqueue *q = arg;
    if (list_empty(&q->ready) || q->held || q->working >= q->options.workers)
        return;
    struct work_key *k = list_entry(list_pop_front(&q->ready), struct work_key, node);
    q->ready_len--;
    q->working++;
    k->working = true;
    count_begun(q, k);
    workqueue_schedule_run(q); // before the work, which may free the queue
    q->options.work(q->options.arg, k->key);
}

void workqueue_hold(struct workqueue *q, bool hold)
{
    q->held = hold;
    workqueue_schedule_run(q);
}

void workqueue_done(struct workqueue *q, struct str key)
{
    struct work_key *k = key_find(q, key);
    assert(k && k->working);
    k->working = false;
    q->working--;
    count_done(q, k);
    if (k->again) {
        k->again = false;
        push_ready(q, k);
    }
    workqueue_schedule_run(q);
    key_tidy(q, k);
}

// --- Later ---------------------------------------------------------------------------------------

static void arm_due(struct workqueue *q)
{
    const struct heap_node *first = heap_peek(&q->later);
    if (!first) {
        exec_timer_stop(q->options.exec, &q->due);
        return;
    }
    int64_t delay =
        heap_entry(first, const struct work_key, later)->due_ns - exec_now_ns(q->options.exec);
    exec_timer_start(q->options.exec, &q->due, delay > 0 ? delay : 0);
}

static void on_due(void *arg)
{
    struct workqueue *q = arg;
    int64_t now = exec_now_ns(q->options.exec);
    for (struct heap_node *first; (first = heap_peek(&q->later));) {
        struct work_key *k = heap_entry(first, struct work_key, later);
        if (k->due_ns > now)
            break;
        (void)heap_pop(&q->later);
        make_ready(q, k);
    }
    arm_due(q);
}

void workqueue_add(struct workqueue *q, struct str key)
{
    make_ready(q, key_make(q, key));
}

void workqueue_add_after(struct workqueue *q, struct str key, int64_t delay_ns)
{
    struct work_key *k = key_make(q, key);
    q->counts.retries++; // as client-go counts them: whatever comes back by the clock
    if (delay_ns <= 0) {
        make_ready(q, k);
        return;
    }
    int64_t due = exec_now_ns(q->options.exec) + delay_ns;
    if (heap_linked(&k->later)) {
        if (k->due_ns <= due)
            return;
        k->due_ns = due;
        heap_update(&q->later, &k->later);
    } else {
        k->due_ns = due;
        k->order = q->orders++;
        heap_push(&q->later, &k->later);
    }
    arm_due(q);
}

// --- Failures ------------------------------------------------------------------------------------

// take_token is how long one more retry has to wait for its turn among all.
static int64_t take_token(struct workqueue *q)
{
    double rate = q->options.retry_per_sec;
    if (rate < 0)
        return 0;
    int64_t now = exec_now_ns(q->options.exec);
    q->tokens += (double)(now - q->tokens_ns) / (double)CLOCK_NS_PER_SEC * rate;
    q->tokens_ns = now;
    if (q->tokens > q->options.retry_burst)
        q->tokens = q->options.retry_burst;
    q->tokens -= 1;
    return q->tokens >= 0 ? 0 : (int64_t)(-q->tokens / rate * (double)CLOCK_NS_PER_SEC);
}

void workqueue_retry(struct workqueue *q, struct str key)
{
    struct work_key *k = key_make(q, key);
    const struct backoff_policy p = {.first_ns = q->options.retry_first_ns,
                                     .max_ns = q->options.retry_max_ns};
    int64_t backoff = backoff_wait_ns(&p, k->failures++);
    int64_t turn = take_token(q);
    workqueue_add_after(q, key, backoff > turn ? backoff : turn);
}

void workqueue_forget(struct workqueue *q, struct str key)
{
    struct work_key *k = key_find(q, key);
    if (!k)
        return;
    k->failures = 0;
    key_tidy(q, k);
}

size_t workqueue_failures(const struct workqueue *q, struct str key)
{
    const struct work_key *k = key_find(q, key);
    return k ? k->failures : 0;
}

// --- The queue itself ----------------------------------------------------------------------------

struct workqueue *workqueue_new(const struct workqueue_options *options)
{
    struct workqueue *q = xcalloc(1, sizeof(*q));
    struct workqueue_options *o = &q->options;
    *o = *options;
    o->workers = o->workers ? o->workers : 1;
    o->retry_first_ns = o->retry_first_ns ? o->retry_first_ns : RETRY_FIRST_NS;
    o->retry_max_ns = o->retry_max_ns ? o->retry_max_ns : RETRY_MAX_NS;
    if (!(o->retry_per_sec < 0 || o->retry_per_sec > 0))
        o->retry_per_sec = RETRY_PER_SEC;
    if (!(o->retry_burst > 0))
        o->retry_burst = RETRY_BURST;
    q->tokens = o->retry_burst;
    q->tokens_ns = exec_now_ns(o->exec);
    list_init(&q->ready);
    heap_init(&q->later, due_before);
    q->go = (struct exec_timer){.fn = on_go, .arg = q};
    q->due = (struct exec_timer){.fn = on_due, .arg = q};
    return q;
}

void workqueue_free(struct workqueue *q)
{
    if (!q)
        return;
    exec_timer_stop(q->options.exec, &q->go);
    exec_timer_stop(q->options.exec, &q->due);
    heap_done(&q->later);
    map_foreach(&q->keys, i) {
        free(*map_value(&q->keys, i));
    }
    map_done(&q->keys);
    free(q);
}

size_t workqueue_len(const struct workqueue *q)
{
    return q->ready_len;
}

size_t workqueue_busy(const struct workqueue *q)
{
    return q->working;
}

bool workqueue_idle(const struct workqueue *q)
{
    return q->ready_len == 0 && q->working == 0 && !heap_peek(&q->later);
}

// --- Prometheus' text ----------------------------------------------------------------------------

// What is ready or comes again, how long those worked on have been, and the longest of them.
struct work_state {
    size_t depth;
    int64_t unfinished_ns, longest_ns;
};

static struct work_state workqueue_get_state(const struct workqueue *q)
{
    struct work_state r = {.depth = q->ready_len};
    int64_t now = exec_now_ns(q->options.exec);
    map_foreach(&q->keys, i) {
        const struct work_key *k = *map_value(&q->keys, i);
        if (!k->working)
            continue;
        int64_t took = now - k->began_ns;
        r.depth += k->again;
        r.unfinished_ns += took;
        r.longest_ns = took > r.longest_ns ? took : r.longest_ns;
    }
    return r;
}

enum work_metric { DEPTH, ADDS, RETRIES, UNFINISHED, LONGEST, WORK_NUMBERS };

static const struct {
    const char *name, *type, *help;
} numbers[WORK_NUMBERS] = {
    [DEPTH] = {"workqueue_depth", "gauge", "Current depth of workqueue"},
    [ADDS] = {"workqueue_adds_total", "counter", "Total number of adds handled by workqueue"},
    [RETRIES] = {"workqueue_retries_total", "counter",
                 "Total number of retries handled by workqueue"},
    [UNFINISHED] = {"workqueue_unfinished_work_seconds", "gauge",
                    "How many seconds of work is in progress and has not been observed by "
                    "work_duration."},
    [LONGEST] = {"workqueue_longest_running_processor_seconds", "gauge",
                 "How many seconds the longest running processor has been running."},
};

static double workqueue_get_number(const struct workqueue *q, enum work_metric which)
{
    switch (which) {
    case DEPTH:
        return (double)workqueue_get_state(q).depth;
    case ADDS:
        return (double)q->counts.adds;
    case RETRIES:
        return (double)q->counts.retries;
    case UNFINISHED:
        return (double)workqueue_get_state(q).unfinished_ns / (double)CLOCK_NS_PER_SEC;
    case LONGEST:
        return (double)workqueue_get_state(q).longest_ns / (double)CLOCK_NS_PER_SEC;
    case WORK_NUMBERS:
        break;
    }
    return 0;
}

static void workqueue_write_times(const struct workqueue *const *queues, size_t n, bool worked,
                                  struct sbuf *out)
{
    const char *name =
        worked ? "workqueue_work_duration_seconds" : "workqueue_queue_duration_seconds";
    prom_head(out, name, "histogram",
              worked ? "How long in seconds processing an item from workqueue takes."
                     : "How long in seconds an item stays in workqueue before being requested.");
    for (size_t i = 0; i < n; i++) {
        const struct work_counts *c = &queues[i]->counts;
        cleanup_sbuf struct sbuf labels = {0};
        if (!queues[i]->options.name)
            continue;
        sbuf_addf(&labels, "name=\"%s\"", queues[i]->options.name);
        prom_write_times(out, name, labels.p, worked ? &c->worked : &c->waited, &buckets);
    }
}

void workqueue_metrics(const struct workqueue *const *queues, size_t n, struct sbuf *out)
{
    for (enum work_metric m = 0; m < WORK_NUMBERS; m++) {
        prom_head(out, numbers[m].name, numbers[m].type, numbers[m].help);
        for (size_t i = 0; i < n; i++)
            if (queues[i]->options.name)
                sbuf_addf(out, "%s{name=\"%s\"} %.15g\n", numbers[m].name, queues[i]->options.name,
                          workqueue_get_number(queues[i], m));
    }
    workqueue_write_times(queues, n, false, out);
    workqueue_write_times(queues, n, true, out);
}
