// SPDX-License-Identifier: Apache-2.0
//
// Questions of the API server to scheduler and controllers: from the server's thread to theirs and
// back.
#include <stdlib.h>

#include "cmd/up/up_int.h"

#include "base/banned.h"

// An object as it is stored at the moment of a check.
struct stored {
    size_t kind; // of sched_watched
    struct object *object;
};

// A check of a large cluster is done a slice at a time on either thread: others are served between.
#define UP_QUESTION_SLICE 4096

struct asked {
    struct up *up;
    struct server_question *q;
    struct { // of SERVER_CHECK
        struct VEC(struct stored) stored;
        struct store_walk walk; // at one revision for all kinds
        bool walking;
        size_t kind;   // that is walked, then compared
        size_t at;     // in stored: compared so far
        size_t first;  // of the kind that is compared
        size_t pieces; // given back
    };
};

static void up_question_finish(void *arg)
{
    struct asked *a = arg;
    if (a->q)
        server_answer(take_ptr(a->q));
    for (size_t n = 0; a->pieces < a->stored.n; n++) {
        if (n == UP_QUESTION_SLICE && !a->up->stopping) {
            exec_post(loop_exec(a->up->host.loop), up_question_finish, a);
            return;
        }
        object_unref(a->stored.p[a->pieces++].object);
    }
    vec_done(&a->stored);
    free(a);
}

static void up_question_answer(void *arg);

// up_question_walk takes up to a slice of objects. Returns whether there are more.
static bool up_question_walk(struct asked *a, const struct store *store)
{
    const struct api_kind *kind;
    for (size_t n = 0; (kind = sched_watched(a->kind)); a->kind++) {
        if (!a->walking) {
            const uint64_t revision = a->walk.revision; // of the first one
            a->walk = (struct store_walk){.kind = registry_stored_kind(kind), .revision = revision};
            a->walking = store_walk_start(store, &a->walk, NULL) == 0;
        }
        for (const struct object *o; a->walking && (o = store_walk_next(store, &a->walk)); n++) {
            vec_push(&a->stored, ((struct stored){a->kind, object_ref(o)}));
            if (n + 1 == UP_QUESTION_SLICE)
                return true;
        }
        if (!a->walking || a->walk.expired)
            return false;
        store_walk_done(&a->walk);
        a->walking = false;
    }
    return false;
}

// On the server's thread, whose store it is.
static void up_question_collect(void *arg)
{
    struct asked *a = arg;
    if (!a->up->stopping && up_question_walk(a, registry_store(a->up->host.registry))) {
        exec_post(loop_exec(a->up->host.loop), up_question_collect, a);
        return;
    }
    bool whole = !sched_watched(a->kind);
    if (a->walking)
        store_walk_done(&a->walk);
    a->walking = false;
    a->kind = 0;
    if (whole) {
        exec_post(loop_exec(up_worker_loop(a->up->worker)), up_question_answer, a);
        return;
    }
    a->q->code = err_set(&a->q->err, ERR_UNAVAILABLE, "the check did not end: %s; ask again",
                         a->up->stopping ? "the server is stopping"
                                         : "what it began with has left the history meanwhile");
    up_question_finish(a);
}

static void up_question_compare(const struct asked *a, const struct api_kind *kind,
                                const struct object *o, struct sbuf *problems)
{
    uint64_t known = sched_known(a->up->sched, a->kind, o->namespace, o->name);
    // Known at a later revision: it has changed since the walk.
    if (known != o->revision && known <= a->walk.revision)
        sbuf_addf(problems, "%.*s %.*s/%.*s is known at %llu, stored at %llu\n",
                  STR_ARG(kind->kind), STR_ARG(o->namespace), STR_ARG(o->name),
                  (unsigned long long)known, (unsigned long long)o->revision);
}

// up_question_check compares a slice of what the scheduler caches with the store, object by object.
// Returns whether there is more.
static bool up_question_check(struct asked *a, struct sbuf *problems)
{
    const struct sched *sched = a->up->sched;
    const struct api_kind *kind;
    if (a->kind == 0 && a->at == 0) {
        (void)sched_check(a->up->sched, problems);
        (void)ctl_check(a->up->ctl, problems);
    }
    for (size_t n = 0; (kind = sched_watched(a->kind)); a->kind++) {
        for (; a->at < a->stored.n && a->stored.p[a->at].kind == a->kind; a->at++) {
            if (n++ == UP_QUESTION_SLICE)
                return true;
            up_question_compare(a, kind, a->stored.p[a->at].object, problems);
        }
        if (a->at - a->first != sched_known_count(sched, a->kind))
            sbuf_addf(problems, "%zu objects of kind %.*s are known, %zu are stored\n",
                      sched_known_count(sched, a->kind), STR_ARG(kind->kind), a->at - a->first);
        a->first = a->at;
    }
    return false;
}

static void up_question_answer(void *arg)
{
    struct asked *a = arg;
    struct up *u = a->up;
    struct server_question *q = a->q;
    if (!u->sched) {
        q->code = err_set(&q->err, ERR_UNAVAILABLE, "the scheduler is stopping");
    } else if (q->topic == SERVER_EXPLAIN) {
        q->code = sched_explain(u->sched, q->kind, q->namespace, q->name, &q->out, &q->err);
    } else if (q->topic == SERVER_METRICS) {
        sched_metrics(u->sched, &q->out);
        ctl_metrics(u->ctl, &q->out);
    } else if (up_question_check(a, &q->out)) {
        exec_post(loop_exec(up_worker_loop(u->worker)), up_question_answer, a);
        return;
    }
    exec_post(loop_exec(u->host.loop), up_question_finish, a);
}

void up_ask(void *up, struct server_question *q)
{
    struct asked *a = xcalloc(1, sizeof(*a));
    a->up = up;
    a->q = q;
    if (q->topic == SERVER_CHECK)
        up_question_collect(a);
    else
        exec_post(loop_exec(up_worker_loop(a->up->worker)), up_question_answer, a);
}
