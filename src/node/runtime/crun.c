// SPDX-License-Identifier: Apache-2.0
//
// The runtime object: jobs that run off the loop in order for each pod, listing, and setup and
// teardown of the runtime's directory.
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/file.h>
#include <sys/stat.h>

#include "node/runtime/crun_int.h"
#include "os/file.h"

#include "base/banned.h"

struct crun *crun_of(struct runtime *r)
{
    return container_of(r, struct crun, runtime);
}

// --- Jobs ----------------------------------------------------------------------------------------

struct crun_job *crun_job_new(struct crun *c, struct crun_pod *pod)
{
    struct crun_job *j = xcalloc(1, sizeof(*j));
    j->crun = c;
    j->pod = pod;
    c->under_way++;
    return j;
}

static void crun_job_work(void *arg)
{
    struct crun_job *j = arg;
    if (j->work)
        j->work(j);
}

static void crun_job_finish(void *arg);

static void crun_job_begin(struct crun_job *j)
{
    if (j->pod)
        j->pod->busy = true;
    if (j->before)
        j->before(j);
    loop_work(j->crun->loop, crun_job_work, crun_job_finish, j);
}

void crun_job_submit(struct crun_job *j)
{
    if (j->pod && j->pod->busy)
        list_push_back(&j->pod->jobs, &j->node);
    else
        crun_job_begin(j);
}

static void crun_job_answer(struct crun_job *j)
{
    const struct err *err = j->code < 0 ? &j->err : NULL;
    if (j->id_done) {
        struct str id = j->answer.n ? j->answer : str_z(j->id);
        j->id_done(j->arg, j->code, j->code < 0 ? STR("") : id, err);
    } else if (j->done) {
        j->done(j->arg, j->code, err);
    }
}

void crun_job_end(struct crun_job *j)
{
    struct crun *c = j->crun;
    struct crun_pod *pod = j->pod;
    struct list_node *next = NULL;
    if (j->after)
        j->after(j);
    if (pod) {
        pod->busy = false;
        next = list_pop_front(&pod->jobs);
        if (next)
            pod->busy = true; // jobs submitted by the callback queue behind it
    }
    crun_job_answer(j);
    arena_done(&j->arena);
    free(j);
    if (next)
        crun_job_begin(list_entry(next, struct crun_job, node));
    else if (pod && pod->gone && !pod->busy)
        crun_pod_drop(pod);
    crun_operation_ended(c);
}

static void crun_job_finish(void *arg)
{
    crun_job_end(arg);
}

static void crun_work_nothing(void *arg)
{
    (void)arg;
}

void crun_answer_later(struct crun *c, int code, const char *why, runtime_done_fn done, void *arg)
{
    struct crun_job *j = crun_job_new(c, NULL);
    j->done = done;
    j->arg = arg;
    j->code = code;
    if (code < 0)
        (void)err_set(&j->err, -code, "%s", why);
    loop_work(c->loop, crun_work_nothing, crun_job_finish, j);
}

// --- Status --------------------------------------------------------------------------------------

static void crun_about(struct runtime *r, struct str *ret_version,
                       const struct str **ret_not_enforced, size_t *ret_len)
{
    struct crun *c = crun_of(r);
    *ret_version = c->version;
    *ret_not_enforced = c->not_enforced.p;
    *ret_len = c->not_enforced.n;
}

static bool crun_container_status(struct runtime *r, struct str id,
                                  struct runtime_container_status *ret)
{
    struct crun_container *ct = crun_container_find(crun_of(r), id);
    if (ct)
        *ret = ct->status;
    return ct != NULL;
}

struct listing {
    struct crun *crun;
    void (*fn)(void *arg, const struct runtime_list *all);
    void *arg;
};

static void crun_list_deliver(void *arg)
{
    struct listing *l = arg;
    struct crun *c = l->crun;
    struct pods VEC(struct runtime_pod_status) pods = {0};
    struct containers VEC(struct runtime_container_status) containers = {0};
    map_foreach(&c->pods, i) {
        const struct crun_pod *p = *map_value(&c->pods, i);
        if (!p->known)
            continue;
        vec_push(&pods, ((struct runtime_pod_status){
                            .id = str_z(p->id),
                            .namespace = p->meta.namespace,
                            .name = p->meta.name,
                            .uid = p->meta.uid,
                            .attempt = p->meta.attempt,
                            .state = p->meta.stopped ? RUNTIME_POD_NOT_READY : RUNTIME_POD_READY,
                            .address = p->meta.address,
                            .created_ns = p->meta.created_ns,
                        }));
    }
    map_foreach(&c->containers, i)
        vec_push(&containers, (*map_value(&c->containers, i))->status);
    const struct runtime_list all = {.pods = pods.p,
                                     .pods_len = pods.n,
                                     .containers = containers.p,
                                     .containers_len = containers.n};
    l->fn(l->arg, &all);
    vec_done(&pods);
    vec_done(&containers);
    free(l);
    crun_operation_ended(c);
}

static void crun_list(struct runtime *r, void (*fn)(void *arg, const struct runtime_list *all),
                      void *arg)
{
    struct listing *l = xcalloc(1, sizeof(*l));
    *l = (struct listing){crun_of(r), fn, arg};
    l->crun->under_way++;
    exec_post(l->crun->exec, crun_list_deliver, l);
}

// --- Lifecycle -----------------------------------------------------------------------------------

static void crun_destroy(struct crun *c)
{
    map_foreach(&c->containers, i)
        crun_container_free(*map_value(&c->containers, i));
    map_done(&c->containers);
    map_foreach(&c->pods, i) {
        struct crun_pod *p = *map_value(&c->pods, i);
        arena_done(&p->arena);
        free(p);
    }
    map_done(&c->pods);
    map_done(&c->references);
    image_store_free(c->images);
    podnet_free(c->net);
    cdi_cache_free(c->cdi);
    cgroup_layout_done(&c->cgroups);
    (void)pthread_mutex_destroy(&c->cdi_lock);
    (void)pthread_mutex_destroy(&c->puller.lock);
    (void)pthread_cond_destroy(&c->puller.wake);
    if (c->lock >= 0)
        (void)close(c->lock);
    arena_done(&c->arena);
    free(c);
}

void crun_operation_ended(struct crun *c)
{
    c->under_way--;
    if (c->freed && c->under_way == 0)
        crun_destroy(c);
}

// Jobs that the runtime began by itself, when a monitor died or to send a signal, are not known to
// the caller, and may still be at work.
static void crun_free(struct runtime *r)
{
    struct crun *c = crun_of(r);
    if (c->puller.runs)
        crun_puller_stop(c);
    c->left = c->freed = true;
    map_foreach(&c->containers, i)
        crun_container_detach(*map_value(&c->containers, i));
    if (c->under_way == 0)
        crun_destroy(c);
}

static void crun_detach(struct runtime *r)
{
    struct crun *c = crun_of(r);
    (void)pthread_mutex_lock(&c->puller.lock);
    c->left = true;
    (void)pthread_mutex_unlock(&c->puller.lock);
    map_foreach(&c->containers, i)
        crun_watch_stop(*map_value(&c->containers, i));
}

static const struct runtime_features *crun_features(const struct runtime *r)
{
    return &container_of(r, const struct crun, runtime)->features;
}

static const struct runtime_ops ops = {
    .about = crun_about,
    .image_ensure = crun_image_ensure,
    .image_gc = crun_image_gc,
    .pod_run = crun_pod_run,
    .pod_stop = crun_pod_stop,
    .pod_remove = crun_pod_remove,
    .pod_netns = crun_pod_netns,
    .measure = crun_measure,
    .features = crun_features,
    .container_create = crun_container_create,
    .container_start = crun_container_start,
    .container_stop = crun_container_stop,
    .container_remove = crun_container_remove,
    .container_status = crun_container_status,
    .list = crun_list,
    .exec = crun_exec,
    .attach = crun_attach,
    .exec_write = crun_exec_write,
    .exec_resize = crun_exec_resize,
    .exec_queued = crun_exec_queued,
    .exec_hold = crun_exec_hold,
    .exec_cancel = crun_exec_cancel,
    .leave = crun_detach,
    .free = crun_free,
};

static int crun_lock_root(struct crun *c, const char *path, struct err *err)
{
    static const char *const parts[] = {"pods", "containers", "net"};
    int r = file_make_dirs(path, 0711, NULL);
    cleanup_free char *real = r == 0 ? realpath(path, NULL) : NULL;
    if (!real)
        return err_set(err, r < 0 ? -r : errno, "cannot use the directory %s: %s", path,
                       strerrordesc_np(r < 0 ? -r : errno));
    c->paths.root = arena_str(&c->arena, str_z(real)).p;
    for (size_t i = 0; i < array_len(parts); i++) {
        cleanup_sbuf struct sbuf part = {0};
        sbuf_addf(&part, "%s/%s", real, parts[i]);
        // Root in a container makes files that are set-user-id root: others of the machine must not
        // get to them.
        r = file_make_dirs(part.p, 0700, NULL);
        if (r == 0 && chmod(part.p, 0700) != 0)
            r = -errno;
        if (r < 0)
            return err_set(err, -r, "cannot make %s: %s", part.p, strerrordesc_np(-r));
    }
    cleanup_sbuf struct sbuf lock = {0};
    sbuf_addf(&lock, "%s/lock", real);
    c->lock = open(lock.p, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (c->lock < 0)
        return err_set(err, errno, "cannot open %s: %s", lock.p, strerrordesc_np(errno));
    if (flock(c->lock, LOCK_EX | LOCK_NB) != 0)
        return err_set(err, ERR_CONFLICT, "another process uses the directory %s", real);
    return 0;
}

static int crun_open_parts(struct crun *c, const struct runtime_crun_options *o, struct err *err)
{
    const struct image_store_options images = {
        .folder = arena_strf(&c->arena, "%s/images", c->paths.root).p,
        .local = o->image_dir,
    };
    const struct podnet_options net = {
        .bridge = o->bridge ? o->bridge : "dray0",
        .subnet = o->subnet ? o->subnet : "10.199.0.0/16",
        .folder = arena_strf(&c->arena, "%s/net", c->paths.root).p,
    };
    int r = image_store_new(&images, &c->images, err);
    if (r < 0)
        return r;
    c->cdi = cdi_cache_new(o->cdi_dirs, o->cdi_dirs_len);
    if (net.subnet[0]) {
        struct err why = {0};
        r = podnet_new(&net, &c->net, &why);
        if (r == -ERR_INVALID && err)
            return (*err = why, r);
        if (r < 0)
            vec_push_arena(&c->arena, &c->not_enforced,
                           arena_strf(&c->arena, "pods have no network but loopback: %s", why.msg));
    } else {
        vec_push_arena(&c->arena, &c->not_enforced,
                       STR("pods have no network but loopback: no subnet is set"));
    }
    return 0;
}

int runtime_crun_new(const struct runtime_crun_options *o, struct runtime **ret, struct err *err)
{
    struct crun *c = xcalloc(1, sizeof(*c));
    c->runtime.ops = &ops;
    c->loop = o->loop;
    c->exec = loop_exec(o->loop);
    c->lock = -1;
    list_init(&c->puller.queue);
    list_init(&c->making);
    (void)pthread_mutex_init(&c->cdi_lock, NULL);
    (void)pthread_mutex_init(&c->puller.lock, NULL);
    (void)pthread_cond_init(&c->puller.wake, NULL);
    c->cgroup_top = arena_str(&c->arena, str_z(o->cgroup_top ? o->cgroup_top : "dray")).p;
    int r = geteuid() == 0
                ? 0
                : err_set(err, ERR_UNSUPPORTED, "containers need root; run the agent as root");
    if (r == 0)
        r = crun_lock_root(c, o->root, err);
    if (r == 0)
        r = crun_detect(c, o, err);
    if (r == 0)
        r = crun_open_parts(c, o, err);
    if (r == 0)
        r = crun_recover(c, err);
    if (r < 0)
        crun_free(&c->runtime);
    else
        *ret = &c->runtime;
    return r;
}
