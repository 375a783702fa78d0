// SPDX-License-Identifier: Apache-2.0
//
// Work of one request on another thread, so that the loop serves others meanwhile. The work must
// not touch the registry: it reads immutable objects and writes to its request alone. The request
// continues on the loop; when the registry stops first, it is refused.
#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "registry/stage_int.h"

#include "base/banned.h"

struct apart_job {
    struct list_node node; // in the registry's list; not linked: it was abandoned
    void (*work)(void *arg);
    void (*after)(void *arg, bool stopping);
    void *arg;
    bool done; // under the lock
};

// One for all registries: a worker may still hold it when its registry goes.
static pthread_mutex_t apart_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t apart_done = PTHREAD_COND_INITIALIZER;

static void apart_work(void *arg)
{
    struct apart_job *job = arg;
    job->work(job->arg);
    (void)pthread_mutex_lock(&apart_lock);
    job->done = true;
    (void)pthread_cond_broadcast(&apart_done);
    (void)pthread_mutex_unlock(&apart_lock);
}

static void apart_after(void *arg)
{
    struct apart_job *job = arg;
    if (list_linked(&job->node)) {
        list_remove(&job->node);
        job->after(job->arg, false);
    }
    free(job);
}

bool apart_possible(const struct registry *reg)
{
    return reg->apart.offload.run != NULL && !reg->apart.stopped;
}

void apart_run(struct registry *reg, void (*work)(void *arg),
               void (*after)(void *arg, bool stopping), void *arg)
{
    struct apart_job *job = xcalloc(1, sizeof(*job));
    job->work = work;
    job->after = after;
    job->arg = arg;
    list_push_back(&reg->apart.jobs, &job->node);
    reg->apart.offload.run(reg->apart.offload.arg, apart_work, apart_after, job);
}

void apart_stop(struct registry *reg)
{
    reg->apart.stopped = true;
    for (struct list_node *node; (node = list_pop_front(&reg->apart.jobs));) {
        struct apart_job *job = list_entry(node, struct apart_job, node); // the loop frees it
        (void)pthread_mutex_lock(&apart_lock);
        while (!job->done)
            (void)pthread_cond_wait(&apart_done, &apart_lock);
        (void)pthread_mutex_unlock(&apart_lock);
        job->after(job->arg, true);
    }
}
