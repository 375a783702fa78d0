// SPDX-License-Identifier: Apache-2.0
//
// The order in which pods are tried: active ones by priority, those in back-off by its end, those
// that wait by the reasons that keep them waiting.
#include "sched/core/queue.h"

#include "base/backoff.h"

#include "base/banned.h"

static bool active_less(const struct heap_node *a, const struct heap_node *b)
{
    const struct sched_pod *x = heap_entry(a, const struct sched_pod, queue.heap);
    const struct sched_pod *y = heap_entry(b, const struct sched_pod, queue.heap);
    return x->queue.priority != y->queue.priority ? x->queue.priority > y->queue.priority
                                                  : x->queue.order < y->queue.order;
}

static bool backoff_less(const struct heap_node *a, const struct heap_node *b)
{
    const struct sched_pod *x = heap_entry(a, const struct sched_pod, queue.heap);
    const struct sched_pod *y = heap_entry(b, const struct sched_pod, queue.heap);
    return x->queue.due_ns != y->queue.due_ns ? x->queue.due_ns < y->queue.due_ns
                                              : x->queue.order < y->queue.order;
}

static void queue_arm_timer(struct queue *q)
{
    const struct heap_node *first = heap_peek(&q->backoff);
    if (!first) {
        exec_timer_stop(q->exec, &q->backoff_timer);
        return;
    }
    int64_t wait =
        heap_entry(first, const struct sched_pod, queue.heap)->queue.due_ns - exec_now_ns(q->exec);
    exec_timer_start(q->exec, &q->backoff_timer, wait > 0 ? wait : 0);
}

static void backoff_over(void *arg)
{
    struct queue *q = arg;
    for (;;) {
        struct heap_node *first = heap_peek(&q->backoff);
        if (!first)
            break;
        struct sched_pod *p = heap_entry(first, struct sched_pod, queue.heap);
        if (p->queue.due_ns > exec_now_ns(q->exec))
            break;
        queue_activate(q, p);
    }
    queue_arm_timer(q);
}

// No event is known to be missed; if one is, its pods wait minutes, not for ever.
static void queue_on_timer(void *arg)
{
    struct queue *q = arg;
    int64_t now = exec_now_ns(q->exec);
    for (size_t w = 0; w < WHYS; w++)
        list_foreach(&q->waiting[w], node) {
            struct sched_pod *p = list_entry(node, struct sched_pod, queue.waits[w]);
            if (now - p->queue.tried_ns >= QUEUE_FLUSH_NS)
                queue_retry(q, p);
        }
    exec_timer_start(q->exec, &q->flush_timer, QUEUE_FLUSH_NS);
}

void queue_init(struct queue *q, struct exec *exec, void (*ready)(void *arg), void *arg)
{
    *q = (struct queue){.exec = exec, .ready = ready, .arg = arg};
    heap_init(&q->active, active_less);
    heap_init(&q->backoff, backoff_less);
    heap_init(&q->postponed, active_less);
    for (size_t w = 0; w < WHYS; w++)
        list_init(&q->waiting[w]);
    q->backoff_timer = (struct exec_timer){.fn = backoff_over, .arg = q};
    q->flush_timer = (struct exec_timer){.fn = queue_on_timer, .arg = q};
    exec_timer_start(exec, &q->flush_timer, QUEUE_FLUSH_NS);
}

void queue_done(struct queue *q)
{
    exec_timer_stop(q->exec, &q->backoff_timer);
    exec_timer_stop(q->exec, &q->flush_timer);
    heap_done(&q->active);
    heap_done(&q->backoff);
    heap_done(&q->postponed);
}

static void leave_waiting(struct queue *q, struct sched_pod *p)
{
    for (size_t w = 0; w < WHYS; w++)
        list_remove(&p->queue.waits[w]);
    q->waiting_len--;
}

static void count_blocked(struct queue *q, struct sched_pod *p, uint32_t by)
{
    uint32_t changed = p->queue.blocked ^ by;
    for (size_t i = 0; changed; i++, changed >>= 1)
        if (changed & 1)
            q->blocked[i] += by & (1U << i) ? 1 : (size_t)-1;
    p->queue.blocked = by;
}

// Out of whatever it is in, but still counted as kept by what kept it.
static void queue_take_out(struct queue *q, struct sched_pod *p)
{
    switch (p->state) {
    case POD_ACTIVE:
        heap_remove(&q->active, &p->queue.heap);
        break;
    case POD_BACKOFF:
        heap_remove(&q->backoff, &p->queue.heap);
        break;
    case POD_WAITING:
        leave_waiting(q, p);
        break;
    case POD_POSTPONED:
        heap_remove(&q->postponed, &p->queue.heap);
        break;
    case POD_GATED:
        q->gated_len--;
        break;
    case POD_BINDING:
        q->binding_len--;
        break;
    case POD_ELSEWHERE:
        break;
    }
    p->state = POD_ELSEWHERE;
}

void queue_leave(struct queue *q, struct sched_pod *p)
{
    queue_take_out(q, p);
    count_blocked(q, p, 0);
}

void queue_activate(struct queue *q, struct sched_pod *p)
{
    queue_take_out(q, p);
    if (!p->queue.order)
        p->queue.order = ++q->order;
    if (!p->queue.queued_ns)
        p->queue.queued_ns = exec_now_ns(q->exec);
    p->state = POD_ACTIVE;
    heap_push(&q->active, &p->queue.heap);
    q->ready(q->arg);
}

void queue_postpone(struct queue *q, struct sched_pod *p)
{
    queue_take_out(q, p);
    p->state = POD_POSTPONED;
    heap_push(&q->postponed, &p->queue.heap);
    q->ready(q->arg);
}

// block_of is what closes the gate of a pod: its own gates, its group, or claims that are missing.
static uint32_t block_of(const struct sched_pod *p)
{
    if (p->api->spec.scheduling_gates.n)
        return 1U << BLOCK_GATES;
    return 1U << (p->group_gated ? (unsigned)BLOCK_GANG : (unsigned)WHY_DEVICES);
}

void queue_gate(struct queue *q, struct sched_pod *p)
{
    queue_take_out(q, p);
    count_blocked(q, p, block_of(p));
    if (!p->queue.order)
        p->queue.order = ++q->order;
    p->state = POD_GATED;
    q->gated_len++;
}

void queue_wait(struct queue *q, struct sched_pod *p, uint32_t whys)
{
    queue_take_out(q, p);
    count_blocked(q, p, whys);
    p->state = POD_WAITING;
    p->queue.whys = whys;
    q->waiting_len++;
    for (size_t w = 0; w < WHYS; w++)
        if (whys & WHY_BIT(w))
            list_push_back(&q->waiting[w], &p->queue.waits[w]);
}

void queue_retry(struct queue *q, struct sched_pod *p)
{
    static const struct backoff_policy policy = {.first_ns = QUEUE_BACKOFF_FIRST_NS,
                                                 .max_ns = QUEUE_BACKOFF_MAX_NS};
    int64_t due = p->queue.attempts
                      ? p->queue.tried_ns + backoff_wait_ns(&policy, p->queue.attempts - 1) +
                            p->queue.jitter_ns
                      : 0;
    if (due <= exec_now_ns(q->exec)) {
        queue_activate(q, p);
        return;
    }
    queue_take_out(q, p);
    p->queue.due_ns = due;
    p->state = POD_BACKOFF;
    heap_push(&q->backoff, &p->queue.heap);
    if (heap_peek(&q->backoff) == &p->queue.heap)
        queue_arm_timer(q);
}

void queue_bind(struct queue *q, struct sched_pod *p)
{
    queue_leave(q, p);
    p->state = POD_BINDING;
    q->binding_len++;
}

const struct sched_pod *queue_peek(const struct queue *q)
{
    const struct heap_node *first = heap_peek(&q->active);
    return first ? heap_entry(first, const struct sched_pod, queue.heap) : NULL;
}

static struct sched_pod *queue_pop_first(struct queue *q, const struct heap *from)
{
    struct heap_node *first = heap_peek(from);
    if (!first)
        return NULL;
    struct sched_pod *p = heap_entry(first, struct sched_pod, queue.heap);
    queue_leave(q, p);
    return p;
}

struct sched_pod *queue_pop(struct queue *q)
{
    return queue_pop_first(q, &q->active);
}

struct sched_pod *queue_pop_postponed(struct queue *q)
{
    return queue_pop_first(q, &q->postponed);
}

size_t queue_ready_len(const struct queue *q)
{
    return q->active.n + q->postponed.n;
}

void queue_wake(struct queue *q, uint32_t whys)
{
    for (size_t w = 0; w < WHYS; w++) {
        if (!(whys & WHY_BIT(w)))
            continue;
        list_foreach(&q->waiting[w], node)
            queue_retry(q, list_entry(node, struct sched_pod, queue.waits[w]));
    }
}
