// SPDX-License-Identifier: Apache-2.0
//
// The thread of the components, and its orderly end: calls of the components may still be on their
// way to the server's loop, and answers on their way back.
#include "cmd/up/up_worker.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"

#include "base/banned.h"

// A call, its answer, the release that follows from it, and one more of each.
#define UP_WORKER_HOPS 6

struct up_worker {
    struct loop *loop;   // the thread's
    struct loop *server; // the server's
    pthread_t thread;
    bool started;
    struct up_worker_end end;
    int hops;
};

int up_worker_new(struct loop *server, struct up_worker **ret, struct err *err)
{
    struct up_worker *w = xcalloc(1, sizeof(*w));
    w->server = server;
    int r = loop_new(&w->loop, err);
    if (r < 0) {
        free(w);
        return r;
    }
    *ret = w;
    return 0;
}

struct loop *up_worker_loop(struct up_worker *w)
{
    return w->loop;
}

static void *up_worker_run(void *arg)
{
    struct up_worker *w = arg;
    loop_run(w->loop);
    w->end.leave(w->end.arg);
    exec_post(loop_exec(w->server), w->end.done, w->end.done_arg);
    return NULL;
}

int up_worker_start(struct up_worker *w, struct err *err)
{
    int r = pthread_create(&w->thread, NULL, up_worker_run, w);
    if (r != 0)
        return err_set(err, r, "cannot start the thread of the components: %s", strerrordesc_np(r));
    w->started = true;
    return 0;
}

// Work posted before a hop runs before it: after some hops nothing is under way between the loops.
static void up_worker_hop(void *arg)
{
    struct up_worker *w = arg;
    if (++w->hops > UP_WORKER_HOPS)
        loop_stop(w->loop);
    else
        exec_post(loop_exec(w->hops % 2 ? w->server : w->loop), up_worker_hop, w);
}

static void up_worker_begin_end(void *arg)
{
    struct up_worker *w = arg;
    w->end.stop(w->end.arg);
    up_worker_hop(w);
}

void up_worker_stop(struct up_worker *w, const struct up_worker_end *end)
{
    w->end = *end;
    exec_post(loop_exec(w->loop), up_worker_begin_end, w);
}

static void up_worker_end_run(void *arg)
{
    loop_stop(arg);
}

void up_worker_free(struct up_worker *w)
{
    if (!w)
        return;
    if (w->started)
        (void)pthread_join(w->thread, NULL);
    // Answers that came while the store was closed.
    exec_post(loop_exec(w->loop), up_worker_end_run, w->loop);
    loop_run(w->loop);
    loop_free(w->loop);
    free(w);
}
