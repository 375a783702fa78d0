// SPDX-License-Identifier: Apache-2.0
#include "base/queue.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"

#include "base/banned.h"

#define NS_PER_SEC INT64_C(1000000000)

static void must(int r)
{
    assert(r == 0);
}

void queue_core_init(struct queue_core *q, size_t cap, size_t item_size)
{
    assert(cap > 0 && item_size > 0);
    *q = (struct queue_core){.cap = cap, .item_size = item_size};
    q->items = xreallocarray(NULL, cap, item_size);
    must(pthread_mutex_init(&q->lock, NULL));
    // Waiting goes by the monotonic clock: a set-back of the wall clock must not hang a consumer.
    pthread_condattr_t attr;
    must(pthread_condattr_init(&attr));
    must(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
    must(pthread_cond_init(&q->not_empty, &attr));
    must(pthread_cond_init(&q->not_full, &attr));
    must(pthread_condattr_destroy(&attr));
}

bool queue_core_push(struct queue_core *q, const void *item, bool wait)
{
    must(pthread_mutex_lock(&q->lock));
    while (wait && q->n == q->cap && !q->closed)
        must(pthread_cond_wait(&q->not_full, &q->lock));
    bool room = !q->closed && q->n < q->cap;
    if (room) {
        size_t at = (q->head + q->n) % q->cap;
        memcpy(q->items + at * q->item_size, item, q->item_size);
        q->n++;
        must(pthread_cond_signal(&q->not_empty));
    }
    must(pthread_mutex_unlock(&q->lock));
    if (room && q->wake)
        q->wake(q->wake_ctx);
    return room;
}

static struct timespec deadline_in(int64_t ns)
{
    struct timespec ts;
    must(clock_gettime(CLOCK_MONOTONIC, &ts));
    // Anything beyond a century waits a century.
    int64_t most = INT64_C(3155760000) * NS_PER_SEC;
    ns = ns > most ? most : ns;
    ts.tv_sec += (time_t)(ns / NS_PER_SEC);
    ts.tv_nsec += (long)(ns % NS_PER_SEC);
    if (ts.tv_nsec >= NS_PER_SEC) {
        ts.tv_nsec -= NS_PER_SEC;
        ts.tv_sec++;
    }
    return ts;
}

// Waits until there is an item, the queue is closed or time is up. The lock is held.
static void wait_for_item(struct queue_core *q, int64_t timeout_ns)
{
    if (timeout_ns == 0)
        return;
    struct timespec until = deadline_in(timeout_ns < 0 ? 0 : timeout_ns);
    while (q->n == 0 && !q->closed) {
        int r = timeout_ns < 0 ? pthread_cond_wait(&q->not_empty, &q->lock)
                               : pthread_cond_timedwait(&q->not_empty, &q->lock, &until);
        if (r == ETIMEDOUT)
            return;
        must(r);
    }
}

bool queue_core_pop(struct queue_core *q, void *item, int64_t timeout_ns)
{
    must(pthread_mutex_lock(&q->lock));
    wait_for_item(q, timeout_ns);
    bool got = q->n > 0;
    if (got) {
        memcpy(item, q->items + q->head * q->item_size, q->item_size);
        q->head = (q->head + 1) % q->cap;
        q->n--;
        must(pthread_cond_signal(&q->not_full));
    }
    must(pthread_mutex_unlock(&q->lock));
    return got;
}

void queue_core_close(struct queue_core *q)
{
    must(pthread_mutex_lock(&q->lock));
    q->closed = true;
    must(pthread_cond_broadcast(&q->not_empty));
    must(pthread_cond_broadcast(&q->not_full));
    must(pthread_mutex_unlock(&q->lock));
    if (q->wake)
        q->wake(q->wake_ctx);
}

size_t queue_core_len(struct queue_core *q)
{
    must(pthread_mutex_lock(&q->lock));
    size_t n = q->n;
    must(pthread_mutex_unlock(&q->lock));
    return n;
}

void queue_core_done(struct queue_core *q)
{
    must(pthread_mutex_destroy(&q->lock));
    must(pthread_cond_destroy(&q->not_empty));
    must(pthread_cond_destroy(&q->not_full));
    free(q->items);
    *q = (struct queue_core){0};
}
