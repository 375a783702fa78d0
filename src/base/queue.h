// SPDX-License-Identifier: Apache-2.0
//
// Bounded queue between threads, typed by macro over one implementation. Many producers, many
// consumers. Closing wakes everyone: pushes fail from then on, pops drain what is left.
//
//     struct jobs QUEUE(struct job);
//     struct jobs q;
//     queue_init(&q, 128);
//     queue_push(&q, job);                 // waits for room
//     while (queue_pop(&q, &job, -1)) …    // waits for an item or the close
#ifndef BASE_QUEUE_H
#define BASE_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// wake runs after every push, outside the lock; an event loop passes a function that writes to its
// eventfd, so that it can pop without waiting.
typedef void (*queue_wake_fn)(void *ctx);

struct queue_core {
    pthread_mutex_t lock;
    pthread_cond_t not_empty;
    pthread_cond_t not_full;
    char *items;
    size_t item_size;
    size_t cap;
    size_t head;
    size_t n;
    bool closed;
    queue_wake_fn wake;
    void *wake_ctx;
};

// NOLINTBEGIN(bugprone-macro-parentheses): types and loop variables cannot stand in parentheses
#define QUEUE(T)                                        \
    {                                                   \
        struct queue_core core;                         \
        T *type; /* never set; carries the item type */ \
    }
// NOLINTEND(bugprone-macro-parentheses)

void queue_core_init(struct queue_core *q, size_t cap, size_t item_size);
bool queue_core_push(struct queue_core *q, const void *item, bool wait);
bool queue_core_pop(struct queue_core *q, void *item, int64_t timeout_ns);
void queue_core_close(struct queue_core *q);
size_t queue_core_len(struct queue_core *q);
void queue_core_done(struct queue_core *q);

#define queue_init(q, cap) queue_core_init(&(q)->core, (cap), sizeof(*(q)->type))

// queue_on_push sets the wake function; call it before threads share the queue.
#define queue_on_push(q, fn, ctx) ((q)->core.wake = (fn), (void)((q)->core.wake_ctx = (ctx)))

// queue_push waits for room; false when the queue is closed. queue_try_push does not wait: false
// when full or closed. The item is copied.
#define queue_push(q, item) \
    queue_core_push(&(q)->core, (const __typeof__(*(q)->type)[]){item}, true)
#define queue_try_push(q, item) \
    queue_core_push(&(q)->core, (const __typeof__(*(q)->type)[]){item}, false)

// queue_pop takes the oldest item. timeout_ns < 0 waits for ever, 0 not at all. False when nothing
// came in time or the queue is closed and empty.
#define queue_pop(q, ret, timeout_ns) \
    queue_core_pop(&(q)->core, (1 ? (ret) : (q)->type), (timeout_ns))

#define queue_close(q) queue_core_close(&(q)->core)
#define queue_len(q)   queue_core_len(&(q)->core)

// queue_done frees the queue; no thread may use it any more. Items still inside are dropped.
#define queue_done(q) queue_core_done(&(q)->core)

#endif
