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

struct asked {
    struct up *up;
    struct server_question *q;
    struct VEC(struct stored) stored; // of SERVER_CHECK
};

static void up_question_finish(void *arg)
{
    struct asked *a = arg;
    server_answer(a->q);
    vec_foreach(&a->stored, s)
        object_unref(s->object);
    vec_done(&a->stored);
    free(a);
}

static void up_question_collect(struct asked *a)
{
    struct store *store = registry_store(a->up->host.registry);
    const struct api_kind *kind;
    for (size_t i = 0; (kind = sched_watched(i)); i++) {
        struct store_walk walk = {.kind = registry_stored_kind(kind)};
        if (store_walk_start(store, &walk, NULL) < 0)
            continue;
        for (const struct object *o; (o = store_walk_next(store, &walk));)
            vec_push(&a->stored, ((struct stored){i, object_ref(o)}));
        store_walk_done(&walk);
    }
}

// Compares what the scheduler caches with the store, object by object.
static void up_question_check(const struct asked *a, struct sbuf *problems)
{
    const struct sched *sched = a->up->sched;
    const struct api_kind *kind;
    size_t at = 0;
    (void)sched_check(a->up->sched, problems);
    (void)ctl_check(a->up->ctl, problems);
    for (size_t i = 0; (kind = sched_watched(i)); i++) {
        size_t first = at;
        for (; at < a->stored.n && a->stored.p[at].kind == i; at++) {
            const struct object *o = a->stored.p[at].object;
            uint64_t known = sched_known(sched, i, o->namespace, o->name);
            if (known != o->revision)
                sbuf_addf(problems, "%.*s %.*s/%.*s is known at %llu, stored at %llu\n",
                          STR_ARG(kind->kind), STR_ARG(o->namespace), STR_ARG(o->name),
                          (unsigned long long)known, (unsigned long long)o->revision);
        }
        if (at - first != sched_known_count(sched, i))
            sbuf_addf(problems, "%zu objects of kind %.*s are known, %zu are stored\n",
                      sched_known_count(sched, i), STR_ARG(kind->kind), at - first);
    }
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
    } else {
        up_question_check(a, &q->out);
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
    exec_post(loop_exec(up_worker_loop(a->up->worker)), up_question_answer, a);
}
