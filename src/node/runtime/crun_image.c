// SPDX-License-Identifier: Apache-2.0
//
// Images for pods: stored images are answered at once; missing ones are pulled in order by one
// thread, so that a slow registry delays nothing else. The same thread removes images, between two
// pulls.
#include <stdlib.h>

#include "node/runtime/crun_int.h"

#include "base/banned.h"

struct wanted {
    struct runtime_image image;
    struct image_info info;
    bool needs_pull;
};

static void crun_image_work_pull(struct crun_job *j)
{
    struct wanted *w = j->more;
    j->code = image_get(j->crun->images, &w->image, &j->arena, &w->info, &j->err);
}

static void crun_image_after_ensure(struct crun_job *j)
{
    const struct wanted *w = j->more;
    struct crun *c = j->crun;
    if (j->code < 0)
        return;
    j->answer = w->info.id;
    struct str *reference = map_get(&c->references, w->info.id);
    if (!reference)
        reference = map_put(&c->references, arena_str(&c->arena, w->info.id));
    if (!str_eq(*reference, w->image.reference))
        *reference = arena_str(&c->arena, w->image.reference);
}

static void crun_image_end_pull(void *arg)
{
    crun_job_end(arg);
}

static void *crun_image_run_puller(void *arg)
{
    struct crun *c = arg;
    while (true) {
        (void)pthread_mutex_lock(&c->puller.lock);
        while (list_empty(&c->puller.queue) && !c->puller.stops)
            (void)pthread_cond_wait(&c->puller.wake, &c->puller.lock);
        struct list_node *n = list_pop_front(&c->puller.queue);
        (void)pthread_mutex_unlock(&c->puller.lock);
        if (!n)
            return NULL;
        struct crun_job *j = list_entry(n, struct crun_job, node);
        j->work(j);
        (void)pthread_mutex_lock(&c->puller.lock);
        if (!c->left) // else the loop may be gone
            exec_post(c->exec, crun_image_end_pull, j);
        (void)pthread_mutex_unlock(&c->puller.lock);
    }
}

void crun_puller_stop(struct crun *c)
{
    (void)pthread_mutex_lock(&c->puller.lock);
    c->puller.stops = true;
    (void)pthread_cond_signal(&c->puller.wake);
    (void)pthread_mutex_unlock(&c->puller.lock);
    (void)pthread_join(c->puller.thread, NULL);
    c->puller.runs = false;
}

static void crun_image_queue_pull(struct crun_job *j, bool first)
{
    struct crun *c = j->crun;
    if (!c->puller.runs)
        c->puller.runs = pthread_create(&c->puller.thread, NULL, crun_image_run_puller, c) == 0;
    (void)pthread_mutex_lock(&c->puller.lock);
    if (first)
        list_push_front(&c->puller.queue, &j->node);
    else
        list_push_back(&c->puller.queue, &j->node);
    (void)pthread_cond_signal(&c->puller.wake);
    (void)pthread_mutex_unlock(&c->puller.lock);
}

// --- Lookup --------------------------------------------------------------------------------------

static void crun_image_work_find(void *arg)
{
    struct crun_job *j = arg;
    struct wanted *w = j->more;
    if (w->image.pull != RUNTIME_PULL_ALWAYS)
        j->code = image_find(j->crun->images, w->image.reference, &j->arena, &w->info, &j->err);
    w->needs_pull = w->image.pull == RUNTIME_PULL_ALWAYS || j->code == -ERR_NOT_FOUND;
}

static void crun_image_after_find(void *arg)
{
    struct crun_job *j = arg;
    const struct wanted *w = j->more;
    if (w->needs_pull) {
        j->code = 0;
        j->work = crun_image_work_pull;
        crun_image_queue_pull(j, false);
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
    j->after = crun_image_after_ensure;
    j->id_done = done;
    j->arg = arg;
    loop_work(c->loop, crun_image_work_find, crun_image_after_find, j);
}

// --- Removal -------------------------------------------------------------------------------------

struct removal {
    struct runtime_image_gc rules;
    struct crun_images used; // ids, or names with digests
    struct image_freed freed;
    runtime_freed_fn done;
    void *arg;
};

static bool crun_image_is_used(void *arg, struct str id, struct str name)
{
    const struct removal *x = arg;
    return map_has(&x->used, id) || (name.n && map_has(&x->used, name));
}

static void crun_image_work_gc(struct crun_job *j)
{
    struct removal *x = j->more;
    const struct image_gc how = {.rules = x->rules, .used = crun_image_is_used, .arg = x};
    j->code = image_gc(j->crun->images, &how, &x->freed, &j->err);
}

static void crun_image_after_gc(struct crun_job *j)
{
    struct removal *x = j->more;
    map_done(&x->used);
    x->done(x->arg, j->code, &x->freed, j->code < 0 ? &j->err : NULL);
}

// An image that is used after this is protected by the time of its last use.
void crun_image_gc(struct runtime *r, const struct runtime_image_gc *how, runtime_freed_fn done,
                   void *arg)
{
    struct crun *c = crun_of(r);
    struct crun_job *j = crun_job_new(c, NULL);
    struct removal *x = arena_one(&j->arena, struct removal);
    *x = (struct removal){.rules = *how, .done = done, .arg = arg};
    map_foreach(&c->containers, i)
        *map_put(&x->used, arena_str(&j->arena, (*map_value(&c->containers, i))->meta.image_id)) =
            true;
    list_foreach(&c->making, n)
        *map_put(&x->used, arena_str(&j->arena, crun_image_of_making(n))) = true;
    j->more = x;
    j->work = crun_image_work_gc;
    j->after = crun_image_after_gc;
    crun_image_queue_pull(j, true);
}
