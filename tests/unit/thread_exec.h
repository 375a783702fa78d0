// SPDX-License-Identifier: Apache-2.0
//
// An exec on the thread that runs it, with the machine's clock: posted work may come from any thread.
// For tests of what crosses threads.
#ifndef UNIT_THREAD_EXEC_H
#define UNIT_THREAD_EXEC_H

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/exec.h"
#include "base/vec.h"

struct thread_post {
    exec_fn fn;
    void *arg;
};

struct thread_posts VEC(struct thread_post);

struct thread_exec {
    struct exec exec;
    struct exec_timers timers;
    pthread_mutex_t lock;
    pthread_cond_t posted;
    struct thread_posts posts;
};

static inline void thread_exec_post(struct exec *e, exec_fn fn, void *arg)
{
    struct thread_exec *t = container_of(e, struct thread_exec, exec);
    (void)pthread_mutex_lock(&t->lock);
    vec_push(&t->posts, ((struct thread_post){fn, arg}));
    (void)pthread_cond_signal(&t->posted);
    (void)pthread_mutex_unlock(&t->lock);
}

static inline void thread_exec_timer_start(struct exec *e, struct exec_timer *timer, int64_t delay)
{
    struct thread_exec *t = container_of(e, struct thread_exec, exec);
    exec_timers_start(&t->timers, timer, exec_now_ns(e) + delay);
}

static inline void thread_exec_timer_stop(struct exec *e, struct exec_timer *timer)
{
    exec_timers_stop(&container_of(e, struct thread_exec, exec)->timers, timer);
}

static inline void thread_exec_init(struct thread_exec *t)
{
    static const struct exec_ops ops = {
        .post = thread_exec_post,
        .timer_start = thread_exec_timer_start,
        .timer_stop = thread_exec_timer_stop,
    };
    *t = (struct thread_exec){.exec = {.ops = &ops, .clock = clock_system(), .rng = rng_system()}};
    exec_timers_init(&t->timers);
    (void)pthread_mutex_init(&t->lock, NULL);
    (void)pthread_cond_init(&t->posted, NULL);
}

static inline void thread_exec_done(struct thread_exec *t)
{
    exec_timers_done(&t->timers);
    (void)pthread_mutex_destroy(&t->lock);
    (void)pthread_cond_destroy(&t->posted);
    vec_done(&t->posts);
}

// thread_exec_step runs what is ready; waits a little when nothing is.
static inline void thread_exec_step(struct thread_exec *t)
{
    struct thread_posts posts = {0};
    (void)pthread_mutex_lock(&t->lock);
    if (t->posts.n == 0 && exec_timers_next_ns(&t->timers) > exec_now_ns(&t->exec)) {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 1000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        (void)pthread_cond_timedwait(&t->posted, &t->lock, &until);
    }
    posts = t->posts;
    t->posts = (struct thread_posts){0};
    (void)pthread_mutex_unlock(&t->lock);
    for (size_t i = 0; i < posts.n; i++)
        posts.p[i].fn(posts.p[i].arg);
    vec_done(&posts);
    while (exec_timers_fire(&t->timers, exec_now_ns(&t->exec)))
        ;
}

#endif
