// SPDX-License-Identifier: Apache-2.0
#include "store/commit.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"

#include "base/banned.h"

struct committer {
    struct commit_options options;
    struct exec_timer timer; // on the exec: there is something to commit
    struct write *first, *last;
    struct revisions doomed;
    uint64_t oldest;
};

static void commit_waiting(struct committer *c)
{
    struct commit_result result = {0};
    if (!c->first)
        return;
    result.epoch = c->first->epoch;
    for (const struct write *w = c->first; w; w = w->queue_next)
        result.writes++;
    c->first = c->last = NULL;
    if (c->options.fail && c->options.fail(c->options.fail_arg, &result.err))
        result.code = -result.err.code;
    c->options.finished(c->options.arg, &result);
}

static void on_timer(void *arg)
{
    commit_waiting(arg);
}

int committer_new(const struct commit_options *options, struct committer **ret, struct err *err)
{
    if (!options->on_exec)
        return err_set(err, ERR_UNSUPPORTED, "only in memory yet");
    struct committer *c = xcalloc(1, sizeof(*c));
    c->options = *options;
    c->timer = (struct exec_timer){.fn = on_timer, .arg = c};
    *ret = c;
    return 0;
}

void committer_close(struct committer *c)
{
    if (!c)
        return;
    while (c->first)
        commit_waiting(c);
    exec_timer_stop(c->options.exec, &c->timer);
    vec_done(&c->doomed);
    free(c);
}

void committer_submit(struct committer *c, struct write *w)
{
    if (c->last)
        c->last->queue_next = w;
    else
        c->first = w;
    c->last = w;
    if (!exec_timer_armed(&c->timer))
        exec_timer_start(c->options.exec, &c->timer, 0);
}

void committer_doom(struct committer *c, struct revisions *doomed, uint64_t oldest)
{
    c->oldest = oldest;
    vec_clear(doomed);
}

void committer_backup(struct committer *c, const char *path, store_done_fn done, void *arg)
{
    (void)c;
    (void)path;
    struct err err;
    int r = err_set(&err, ERR_UNSUPPORTED, "a store in memory cannot be backed up");
    done(arg, r, &err);
}
