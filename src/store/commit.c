// SPDX-License-Identifier: Apache-2.0
//
// Two lists between two threads, under one lock: writes on their way down, results on their way up.
// While results wait, one posted call is on its way to the exec.
#include "store/commit.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/mem.h"
#include "store/db.h"

#include "base/banned.h"

// One transaction's share of what waits: its writes are answered together.
#define COMMIT_BYTES_MAX ((size_t)16 * 1024 * 1024)

// What was posted to the exec; outlives the committer if it must.
struct mailbox {
    struct committer *committer; // NULL: closed
    bool posted;                 // under the committer's lock
};

struct backup_job {
    struct backup_job *next;
    char *path;
    store_done_fn done;
    void *arg;
    struct db_backup *running;
};

struct committer {
    struct commit_options options;
    struct exec_timer timer; // without a thread: there is work
    struct mailbox *mailbox;
    pthread_t thread;
    bool threaded;

    pthread_mutex_t lock;
    pthread_cond_t work;
    // Under the lock:
    struct write *first, *last; // submitted
    struct revisions doomed;
    uint64_t oldest;
    struct backup_job *jobs, *jobs_last;
    struct commit_result *results, *results_last;
    bool stop;
    bool look; // for disk space

    // The committing side's alone:
    struct revisions doomed_now; // not yet gone from disk
    uint64_t oldest_now;
    bool failed;
    uint64_t failed_epoch;
    struct err failed_err;
    struct backup_job *job;
};

// --- Going up ------------------------------------------------------------------------------------

static struct commit_result *take_results(struct committer *c)
{
    must_succeed(pthread_mutex_lock(&c->lock));
    struct commit_result *first = c->results;
    c->results = c->results_last = NULL;
    c->mailbox->posted = false;
    must_succeed(pthread_mutex_unlock(&c->lock));
    return first;
}

static void commit_deliver_results(struct committer *c)
{
    struct commit_result *next;
    for (struct commit_result *r = take_results(c); r; r = next) {
        next = r->next;
        c->options.finished(c->options.arg, r);
        free(r);
    }
}

static void on_post(void *arg)
{
    struct mailbox *box = arg;
    if (box->committer)
        commit_deliver_results(box->committer);
    else
        free(box);
}

// commit_report_result takes a result, which the exec will free.
static void commit_report_result(struct committer *c, struct commit_result *result)
{
    must_succeed(pthread_mutex_lock(&c->lock));
    if (c->results_last)
        c->results_last->next = result;
    else
        c->results = result;
    c->results_last = result;
    bool post = c->threaded && !c->mailbox->posted;
    if (post)
        c->mailbox->posted = true;
    must_succeed(pthread_mutex_unlock(&c->lock));
    if (post)
        exec_post(c->options.exec, on_post, c->mailbox);
}

// --- Committing ----------------------------------------------------------------------------------

static void commit_group(struct committer *c, const struct write *first,
                         struct commit_result *result)
{
    if (c->failed && first->epoch <= c->failed_epoch) {
        result->code = -c->failed_err.code;
        result->err = c->failed_err;
        return;
    }
    if (c->options.fail && c->options.fail(c->options.fail_arg, &result->err))
        result->code = -result->err.code;
    else if (c->options.db)
        result->code = db_commit(c->options.db, first, result->writes, &c->doomed_now,
                                 c->oldest_now, &result->err);
    if (result->code == 0) {
        vec_clear(&c->doomed_now);
        return;
    }
    c->failed = true;
    c->failed_epoch = first->epoch;
    c->failed_err = result->err;
}

// take_group takes the first writes that belong together, and all that is doomed. The lock is held.
static const struct write *take_group(struct committer *c, struct commit_result *result)
{
    const struct write *first = c->first;
    size_t bytes = 0;
    result->epoch = first->epoch;
    while (c->first && c->first->epoch == first->epoch && bytes < COMMIT_BYTES_MAX) {
        bytes += c->first->object->block_size;
        result->writes++;
        c->first = c->first->queue_next;
    }
    if (!c->first)
        c->last = NULL;
    for (size_t i = 0; i < c->doomed.n; i++)
        vec_push(&c->doomed_now, c->doomed.p[i]);
    vec_clear(&c->doomed);
    c->oldest_now = c->oldest;
    return first;
}

// commit_next commits one group; false when nothing waits.
static bool commit_next(struct committer *c)
{
    must_succeed(pthread_mutex_lock(&c->lock));
    if (!c->first) {
        must_succeed(pthread_mutex_unlock(&c->lock));
        return false;
    }
    struct commit_result *result = xcalloc(1, sizeof(*result));
    const struct write *first = take_group(c, result);
    must_succeed(pthread_mutex_unlock(&c->lock));
    commit_group(c, first, result);
    result->low = db_is_low(c->options.db);
    commit_report_result(c, result);
    return true;
}

// commit_look looks for disk space if that was asked for.
static void commit_look(struct committer *c)
{
    must_succeed(pthread_mutex_lock(&c->lock));
    bool look = c->look;
    c->look = false;
    must_succeed(pthread_mutex_unlock(&c->lock));
    if (!look)
        return;
    db_look_for_space(c->options.db);
    struct commit_result *result = xcalloc(1, sizeof(*result));
    result->low = db_is_low(c->options.db);
    commit_report_result(c, result);
}

// --- Backups -------------------------------------------------------------------------------------

static void end_job(struct committer *c, int code, const struct err *err)
{
    struct backup_job *job = take_ptr(c->job);
    db_backup_free(job->running);
    struct commit_result *result = xcalloc(1, sizeof(*result));
    result->backup_done = job->done;
    result->backup_arg = job->arg;
    result->code = code;
    if (code)
        result->err = *err;
    free(job->path);
    free(job);
    commit_report_result(c, result);
}

static bool take_job(struct committer *c)
{
    must_succeed(pthread_mutex_lock(&c->lock));
    c->job = c->jobs;
    if (c->job)
        c->jobs = c->job->next;
    if (!c->jobs)
        c->jobs_last = NULL;
    must_succeed(pthread_mutex_unlock(&c->lock));
    return c->job != NULL;
}

// backup_next does one step of a backup; false when there is none to do.
static bool backup_next(struct committer *c)
{
    struct err err;
    if (!c->job && !take_job(c))
        return false;
    int r = 1;
    if (!c->options.db)
        r = err_set(&err, ERR_UNSUPPORTED,
                    "this store is in memory only: there is nothing to copy");
    else if (!c->job->running)
        r = db_backup_start(c->options.db, c->job->path, &c->job->running, &err);
    if (r >= 0)
        r = db_backup_step(c->job->running, &err);
    if (r != 1)
        end_job(c, r, &err);
    return true;
}

// --- The thread ----------------------------------------------------------------------------------

static bool has_work(const struct committer *c)
{
    return c->first || c->jobs || c->job || c->look;
}

// commit_wait_for_work waits, for a second only while the mark is to be written. Returns true then.
static bool commit_wait_for_work(struct committer *c)
{
    if (db_is_marked(c->options.db)) {
        must_succeed(pthread_cond_wait(&c->work, &c->lock));
        return false;
    }
    struct timespec until;
    must_succeed(clock_gettime(CLOCK_REALTIME, &until));
    until.tv_sec += 1;
    return pthread_cond_timedwait(&c->work, &c->lock, &until) == ETIMEDOUT;
}

static void *thread_main(void *arg)
{
    struct committer *c = arg;
    for (;;) {
        bool worked = commit_next(c);
        worked |= backup_next(c);
        commit_look(c);
        must_succeed(pthread_mutex_lock(&c->lock));
        bool idle = !has_work(c);
        must_succeed(pthread_mutex_unlock(&c->lock));
        db_checkpoint(c->options.db, idle);
        db_note_progress(c->options.db);
        if (worked)
            continue;
        must_succeed(pthread_mutex_lock(&c->lock));
        bool timed_out = false;
        while (!has_work(c) && !c->stop && !timed_out)
            timed_out = commit_wait_for_work(c);
        bool end = !has_work(c) && c->stop;
        must_succeed(pthread_mutex_unlock(&c->lock));
        if (end)
            return NULL;
    }
}

// Without a thread all of it happens on the exec.
static void work_here(struct committer *c)
{
    while (commit_next(c) || backup_next(c))
        commit_deliver_results(c);
    commit_look(c);
    commit_deliver_results(c);
    if (c->options.db)
        db_checkpoint(c->options.db, true);
}

static void commit_on_timer(void *arg)
{
    work_here(arg);
}

static void commit_wake_thread(struct committer *c)
{
    if (c->threaded)
        must_succeed(pthread_cond_signal(&c->work));
    else if (!exec_timer_armed(&c->timer))
        exec_timer_start(c->options.exec, &c->timer, 0);
}

static int start_thread(struct committer *c, struct err *err)
{
    // Signals belong to the program's own threads.
    sigset_t all, before;
    must_succeed(sigfillset(&all));
    must_succeed(pthread_sigmask(SIG_SETMASK, &all, &before));
    int r = pthread_create(&c->thread, NULL, thread_main, c);
    must_succeed(pthread_sigmask(SIG_SETMASK, &before, NULL));
    if (r)
        c->threaded = false;
    return r == 0 ? 0 : err_set(err, r, "cannot start the commit thread: %s", strerrordesc_np(r));
}

int committer_new(const struct commit_options *options, struct committer **ret, struct err *err)
{
    struct committer *c = xcalloc(1, sizeof(*c));
    c->options = *options;
    c->timer = (struct exec_timer){.fn = commit_on_timer, .arg = c};
    c->mailbox = xcalloc(1, sizeof(*c->mailbox));
    c->mailbox->committer = c;
    must_succeed(pthread_mutex_init(&c->lock, NULL));
    must_succeed(pthread_cond_init(&c->work, NULL));
    c->threaded = !options->on_exec; // before the thread looks
    int r = options->on_exec ? 0 : start_thread(c, err);
    if (r < 0) {
        committer_close(c);
        return r;
    }
    *ret = c;
    return 0;
}

void committer_close(struct committer *c)
{
    if (!c)
        return;
    if (c->threaded) {
        must_succeed(pthread_mutex_lock(&c->lock));
        c->stop = true;
        must_succeed(pthread_cond_signal(&c->work));
        must_succeed(pthread_mutex_unlock(&c->lock));
        must_succeed(pthread_join(c->thread, NULL));
        c->threaded = false;
    }
    // Answers may ask for more; that is committed here.
    bool posted = c->mailbox->posted;
    commit_deliver_results(c);
    work_here(c);
    exec_timer_stop(c->options.exec, &c->timer);
    db_close(c->options.db);
    if (posted && !exec_unpost(c->options.exec, on_post, c->mailbox))
        c->mailbox->committer = NULL;
    else
        free(c->mailbox);
    must_succeed(pthread_mutex_destroy(&c->lock));
    must_succeed(pthread_cond_destroy(&c->work));
    vec_done(&c->doomed);
    vec_done(&c->doomed_now);
    free(c);
}

// --- Going down ----------------------------------------------------------------------------------

void committer_submit(struct committer *c, struct write *w)
{
    must_succeed(pthread_mutex_lock(&c->lock));
    if (c->last)
        c->last->queue_next = w;
    else
        c->first = w;
    c->last = w;
    commit_wake_thread(c);
    must_succeed(pthread_mutex_unlock(&c->lock));
}

void committer_doom(struct committer *c, struct revisions *doomed, uint64_t oldest)
{
    must_succeed(pthread_mutex_lock(&c->lock));
    c->oldest = oldest;
    for (size_t i = 0; c->options.db && i < doomed->n; i++)
        vec_push(&c->doomed, doomed->p[i]);
    must_succeed(pthread_mutex_unlock(&c->lock));
    vec_clear(doomed);
}

void committer_look_for_space(struct committer *c)
{
    must_succeed(pthread_mutex_lock(&c->lock));
    c->look = true;
    commit_wake_thread(c);
    must_succeed(pthread_mutex_unlock(&c->lock));
}

void committer_backup(struct committer *c, const char *path, store_done_fn done, void *arg)
{
    struct backup_job *job = xcalloc(1, sizeof(*job));
    job->path = xstrndup(path, strlen(path));
    job->done = done;
    job->arg = arg;
    must_succeed(pthread_mutex_lock(&c->lock));
    if (c->jobs_last)
        c->jobs_last->next = job;
    else
        c->jobs = job;
    c->jobs_last = job;
    commit_wake_thread(c);
    must_succeed(pthread_mutex_unlock(&c->lock));
}
