// SPDX-License-Identifier: Apache-2.0
//
// Images for pods: what is here is answered at once, what is not is pulled one after the other by a thread of its
// own, so that a slow registry holds up nothing else.
#include <stdlib.h>

#include "agent/crun_int.h"

#include "base/banned.h"

struct wanted {
    struct runtime_image image;
    struct image_info info;
    bool needs_pull;
};

static void pull(struct crun_job *j)
{
    struct wanted *w = j->more;
    j->code = image_get(j->crun->images, &w->image, &j->arena, &w->info, &j->err);
}

static void answered(struct crun_job *j)
{
    const struct wanted *w = j->more;
    struct crun *c = j->crun;
    if (j->code < 0)
        return;
    j->answer = w->info.id;
    struct str id = arena_str(&c->arena, w->info.id);
    bool is_new;
    struct str *reference = map_put_new(&c->references, id, &is_new);
    if (!str_eq(*reference, w->image.reference))
        *reference = arena_str(&c->arena, w->image.reference);
}

static void end_pull(void *arg)
{
    crun_job_end(arg);
}

static void *run_puller(void *arg)
{
    struct crun *c = arg;
    while (true) {
        (void)pthread_mutex_lock(&c->pull_lock);
        while (list_empty(&c->pulls) && !c->puller_stops)
            (void)pthread_cond_wait(&c->pull_wake, &c->pull_lock);
        struct list_node *n = list_pop_front(&c->pulls);
        (void)pthread_mutex_unlock(&c->pull_lock);
        if (!n)
            return NULL;
        struct crun_job *j = list_entry(n, struct crun_job, node);
        pull(j);
        (void)pthread_mutex_lock(&c->pull_lock);
        if (!c->left) // else the loop may be gone
            exec_post(c->exec, end_pull, j);
        (void)pthread_mutex_unlock(&c->pull_lock);
    }
}

void crun_puller_stop(struct crun *c)
{
    (void)pthread_mutex_lock(&c->pull_lock);
    c->puller_stops = true;
    (void)pthread_cond_signal(&c->pull_wake);
    (void)pthread_mutex_unlock(&c->pull_lock);
    (void)pthread_join(c->puller, NULL);
    c->puller_runs = false;
}

static void queue_pull(struct crun_job *j)
{
    struct crun *c = j->crun;
    if (!c->puller_runs)
        c->puller_runs = pthread_create(&c->puller, NULL, run_puller, c) == 0;
    (void)pthread_mutex_lock(&c->pull_lock);
    list_push_back(&c->pulls, &j->node);
    (void)pthread_cond_signal(&c->pull_wake);
    (void)pthread_mutex_unlock(&c->pull_lock);
}

// --- First a look --------------------------------------------------------------------------------

static void look(void *arg)
{
    struct crun_job *j = arg;
    struct wanted *w = j->more;
    if (w->image.pull != RUNTIME_PULL_ALWAYS)
        j->code = image_find(j->crun->images, w->image.reference, &j->arena, &w->info, &j->err);
    w->needs_pull = w->image.pull == RUNTIME_PULL_ALWAYS || j->code == -ERR_NOT_FOUND;
}

static void looked(void *arg)
{
    struct crun_job *j = arg;
    const struct wanted *w = j->more;
    if (w->needs_pull) {
        j->code = 0;
        queue_pull(j);
    } else {
        crun_job_end(j);
    }
}

void crun_image_ensure(struct runtime *r, const struct runtime_image *image, runtime_id_fn done,
                       void *arg)
{
    struct crun *c = crun_of(r);
    struct crun_job *j = crun_job_new(c, NULL);
    struct wanted *w = arena_one(&j->arena, struct wanted);
    struct str *auths = arena_array(&j->arena, struct str, image->auths_len + 1);
    for (size_t i = 0; i < image->auths_len; i++)
        auths[i] = arena_str(&j->arena, image->auths[i]);
    w->image = (struct runtime_image){
        .reference = arena_str(&j->arena, image->reference),
        .pull = image->pull,
        .auths = auths,
        .auths_len = image->auths_len,
    };
    j->more = w;
    j->after = answered;
    j->id_done = done;
    j->arg = arg;
    loop_work(c->loop, look, looked, j);
}
