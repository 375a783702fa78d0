// SPDX-License-Identifier: Apache-2.0
//
// dray kubelet-stub run: runs until stopped, reports what drivers do, and looks after the claims of
// a node's pods. It runs no containers and writes no pod's status.
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "api/match/claim.h"
#include "client/events.h"
#include "client/informer.h"
#include "client/workqueue.h"
#include "cmd/verb.h"
#include "lab/kubelet_stub.h"
#include "node/podresources.h"

#include "base/banned.h"

struct staying {
    struct stub stub; // first: callbacks of the manager get a pointer to it
    struct informer *pods;
    struct workqueue *queue;
    struct event_recorder *events;
    struct grpc_server *server;
    struct podresources *podresources;
};

static struct staying *staying_of(struct stub *s)
{
    return container_of(s, struct staying, stub);
}

static void kubelet_stub_run_log(const char *what, struct str about, const char *why)
{
    printf("%-12s %.*s%s%s\n", what, STR_ARG(about), why ? ": " : "", why ? why : "");
    (void)fflush(stdout);
}

// --- What drivers do -----------------------------------------------------------------------------

static void kubelet_stub_on_plugin(void *arg, struct str driver, bool usable)
{
    (void)arg;
    kubelet_stub_run_log(usable ? "driver up" : "driver down", driver, NULL);
}

static void kubelet_stub_run_on_plugin_failed(void *arg, struct str path, const struct err *err)
{
    (void)arg;
    kubelet_stub_run_log("refused", path, err->msg);
}

static void kubelet_stub_on_health(void *arg, struct str uid)
{
    struct stub *s = arg;
    const struct node_claims *all = dra_claims(s->dra);
    map_foreach(&all->by_key, i) {
        const struct node_claim *c = *map_value(&all->by_key, i);
        if (!node_claim_pod_has(c, uid))
            continue;
        vec_foreach(&c->drivers, part)
            vec_foreach(&part->devices, d) {
                struct str message = {0};
                struct str health =
                    dra_device_health(s->dra, part->name, d->pool_name, d->device_name, &message);
                printf("%-12s %.*s/%.*s/%.*s of claim %.*s: %.*s%s%.*s\n", "health",
                       STR_ARG(part->name), STR_ARG(d->pool_name), STR_ARG(d->device_name),
                       STR_ARG(c->key), STR_ARG(health), message.n ? ", " : "", STR_ARG(message));
            }
    }
    (void)fflush(stdout);
}

// --- Pods of the node ----------------------------------------------------------------------------

struct visit {
    dra_pod_fn each;
    void *ctx;
};

static void visit_pod(void *arg, const struct typed_object *o)
{
    const struct visit *v = arg;
    if (!pod_is_terminal(o->object.value))
        v->each(v->ctx, o);
}

static bool active_pods(void *arg, dra_pod_fn each, void *ctx)
{
    struct staying *w = staying_of(arg);
    struct visit v = {each, ctx};
    if (!w->pods || !informer_synced(w->pods))
        return false;
    informer_foreach(w->pods, visit_pod, &v);
    return true;
}

struct work {
    struct staying *owner;
    char *key;
    bool preparing;
};

static void kubelet_stub_on_worked(void *arg, int code, const struct err *err)
{
    struct work *k = arg;
    struct staying *w = k->owner;
    struct str key = str_z(k->key);
    if (code < 0 && code != -ECANCELED) {
        kubelet_stub_run_log(k->preparing ? "not prepared" : "not let go", key, err->msg);
        workqueue_retry(w->queue, key);
    } else if (code == 0) {
        kubelet_stub_run_log(k->preparing ? "prepared" : "unprepared", key, NULL);
        workqueue_forget(w->queue, key);
    }
    if (code != -ECANCELED)
        workqueue_done(w->queue, key);
    free(k->key);
    free(k);
}

static bool kubelet_stub_run_is_terminated(const struct typed_object *pod)
{
    return pod_is_terminal(pod->object.value) || pod->meta->deletion_timestamp.set;
}

static void work_on(void *arg, struct str key)
{
    struct staying *w = arg;
    struct str namespace, name;
    (void)str_cut(key, '/', &namespace, &name);
    const struct typed_object *pod = informer_get(w->pods, namespace, name);
    bool over = pod && kubelet_stub_run_is_terminated(pod);
    if (!pod || (over && !dra_needs_unprepare(w->stub.dra, pod->meta->uid))) {
        workqueue_done(w->queue, key);
        if (!pod)
            dra_reconcile(w->stub.dra); // it is gone: what it had goes too
        return;
    }
    struct work *k = xcalloc(1, sizeof(*k));
    *k = (struct work){w, xstrndup(key.p, key.n), !over};
    if (over)
        dra_unprepare(w->stub.dra, pod, kubelet_stub_on_worked, k);
    else
        dra_prepare(w->stub.dra, pod, kubelet_stub_on_worked, k);
}

static void kubelet_stub_run_pod_changed(void *arg, const struct typed_object *before,
                                         const struct typed_object *after)
{
    struct staying *w = arg;
    const struct typed_object *o = after ? after : before;
    const struct api_pod *pod = o->object.value;
    if (pod->spec.resource_claims.n == 0 && !pod->status.extended_resource_claim_status)
        return;
    if (before && after &&
        kubelet_stub_run_is_terminated(before) == kubelet_stub_run_is_terminated(after) &&
        dra_needs_unprepare(w->stub.dra, o->meta->uid))
        return; // prepared already, or on the way out
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(o->meta->namespace), STR_ARG(o->meta->name));
    workqueue_add(w->queue, sbuf_str(&key));
}

static void pods_synced(void *arg)
{
    struct staying *w = arg;
    dra_reconcile(w->stub.dra);
}

static void kubelet_stub_run_watch_pods(struct staying *w)
{
    struct stub *s = &w->stub;
    cleanup_sbuf struct sbuf fields = {0};
    sbuf_addf(&fields, "spec.nodeName=%s", s->args->node);
    const struct workqueue_options q = {
        .exec = loop_exec(s->loop), .work = work_on, .arg = w, .workers = 16};
    w->queue = workqueue_new(&q);
    const struct informer_options o = {.client = s->client,
                                       .kind = api_kind_find(STR("v1"), STR("Pod")),
                                       .list = {.field_selector = sbuf_str(&fields)}};
    w->pods = informer_new(&o);
    const struct informer_handler h = {
        .changed = kubelet_stub_run_pod_changed, .synced = pods_synced, .arg = w};
    informer_add_handler(w->pods, &h);
    informer_start(w->pods);
}

// --- Life ----------------------------------------------------------------------------------------

static void kubelet_stub_run_set_options(struct stub *s, struct dra_options *o)
{
    struct staying *w = staying_of(s);
    if (s->client && s->args->node) {
        const struct event_recorder_options e = {.client = s->client,
                                                 .component = STR("dray-kubelet-stub"),
                                                 .host = str_z(s->args->node)};
        w->events = events_recorder_new(&e);
        o->events = w->events;
        o->pods = active_pods;
        o->keep_slices = !s->args->wipe;
    }
    o->times.look_ns = 0;
    o->plugin_changed = kubelet_stub_on_plugin;
    o->plugin_failed = kubelet_stub_run_on_plugin_failed;
    o->health_changed = kubelet_stub_on_health;
}

static int serve_podresources(struct staying *w, struct err *err)
{
    struct stub *s = &w->stub;
    if (!s->args->pod_resources)
        return 0;
    const struct podresources_options o = {.dra = s->dra, .pods = active_pods, .arg = s};
    w->server = grpc_server_new(s->loop, NULL);
    w->podresources = podresources_new(w->server, &o);
    return grpc_server_listen(w->server, s->args->pod_resources, err);
}

static void kubelet_stub_run_on_signal(void *arg)
{
    struct staying *w = arg;
    loop_stop(w->stub.loop);
}

static int kubelet_stub_run_start(struct staying *w, struct err *err)
{
    struct stub *s = &w->stub;
    int r = kubelet_stub_open(s, kubelet_stub_run_set_options, err);
    if (r == 0)
        r = loop_on_signal(s->loop, SIGTERM, kubelet_stub_run_on_signal, w, err);
    if (r == 0)
        r = loop_on_signal(s->loop, SIGINT, kubelet_stub_run_on_signal, w, err);
    if (r == 0)
        r = serve_podresources(w, err);
    if (r < 0)
        return r;
    dra_start(s->dra);
    if (s->client && s->args->node)
        kubelet_stub_run_watch_pods(w);
    printf("watching %s, state in %s\n", s->args->registry, s->state.p);
    (void)fflush(stdout);
    return 0;
}

int kubelet_stub_run(void)
{
    const struct stub_args *args = &stub_args;
    struct staying w = {.stub = {.args = args}};
    struct err err = {0};
    if (args->node && !kubelet_stub_has_server(args))
        return cli_usage_error("kubelet-stub run", "--node needs --kubeconfig or $KUBECONFIG");
    int r = kubelet_stub_run_start(&w, &err);
    if (r == 0)
        loop_run(w.stub.loop);
    else
        (void)fprintf(stderr, "dray kubelet-stub: %s\n", err.msg);
    grpc_server_free(w.server);
    dra_free(take_ptr(w.stub.dra)); // its operations use the queue
    podresources_free(w.podresources);
    if (w.pods)
        informer_free(w.pods);
    if (w.queue)
        workqueue_free(w.queue);
    events_recorder_free(w.events);
    kubelet_stub_close(&w.stub);
    return r == 0 ? VERB_OK : VERB_NO;
}
