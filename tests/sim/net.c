// SPDX-License-Identifier: Apache-2.0
#include "net.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/vec.h"

#include "base/banned.h"

enum verb { VERB_GET, VERB_CREATE, VERB_UPDATE, VERB_PATCH, VERB_DELETE };
enum state { ON_THE_WAY, AT_THE_SERVER, ON_THE_WAY_BACK };
enum fate { FATE_FINE, FATE_REQUEST_LOST, FATE_ANSWER_LOST, FATE_LATE };

struct net_client {
    struct client client;
    struct net *net;
    const char *who;
    struct list_node node;
    struct list calls;
    struct list watches;
};

struct net_call {
    struct list_node node;
    struct net *net;
    struct net_client *client; // NULL: gone
    enum verb verb;
    enum state state;
    enum fate fate;
    struct arena arena;
    struct client_key key;
    struct api_object body;
    struct client_write how;
    struct api_delete_options *options;
    enum client_patch patch_type;
    struct str patch;
    client_done_fn done;
    void *arg;
    struct exec_timer timer;
    struct exec_timer given_up; // on the client's exec
    int code;
    struct err err;
    const struct typed_object *object; // referenced
};

struct queued {
    struct client_event event; // object referenced
    struct err err;
};

struct queued_list VEC(struct queued);

// The transport's idea of a watch.
struct client_watch {
    struct list_node node;
    struct net *net;
    struct net_client *client;
    const struct api_kind *kind;
    struct arena arena;
    struct client_list_options options;
    uint64_t since;
    client_event_fn event;
    void *arg;
    struct client *server;      // that has inner
    struct client_watch *inner; // at the server; NULL before and after
    struct exec_timer start;    // on the network
    struct exec_timer deliver;  // on the client's exec
    struct queued_list queue;
    bool ended, stopped, delivering;
};

void net_init(struct net *n, struct exec *exec, struct rng *rng)
{
    *n = (struct net){.exec = exec, .rng = rng};
    list_init(&n->clients);
    list_init(&n->orphans);
}

void net_trace(struct net *n, uint64_t a, uint64_t b)
{
    uint64_t words[3] = {n->trace, a, b};
    n->trace = hash_str(str_make((const char *)words, sizeof(words)));
}

static bool chance(const struct net *n, uint64_t in)
{
    return n->faulty && rng_below(n->rng, in) == 0;
}

// How long a message takes: mostly next to nothing, sometimes long enough for others to overtake.
static int64_t delay(const struct net *n)
{
    uint64_t kind = rng_below(n->rng, 100);
    if (!n->faulty || kind < 30)
        return (int64_t)rng_below(n->rng, 2) * CLOCK_NS_PER_MS;
    if (kind < 85)
        return (int64_t)rng_below(n->rng, 20) * CLOCK_NS_PER_MS;
    if (kind < 98)
        return (int64_t)rng_below(n->rng, 1000) * CLOCK_NS_PER_MS;
    return (int64_t)rng_below(n->rng, 15000) * CLOCK_NS_PER_MS;
}

// --- Calls ---------------------------------------------------------------------------------------

// How long a request takes at least that nobody waits for any more.
#define LATE_NS (CLOCK_NS_PER_SEC / 4)

static const char *const verb_names[] = {"get", "create", "update", "patch", "delete"};

static void call_free(struct net_call *call)
{
    list_remove(&call->node);
    typed_object_unref(call->object);
    arena_done(&call->arena);
    free(call);
}

static void call_trace(struct net_call *call)
{
    struct net *n = call->net;
    n->messages++;
    net_trace(n, hash_str(call->key.name), (uint64_t)clock_mono_ns(n->exec->clock));
    net_trace(n, (uint64_t)call->verb << 32 | (uint32_t)call->code,
              call->object ? call->object->revision : 0);
    if (n->verbose)
        printf("%10.3f %-6s %s %.*s %.*s/%.*s%s%.*s: %s%s\n",
               (double)clock_mono_ns(n->exec->clock) / 1e9,
               call->client ? call->client->who : "(gone)", verb_names[call->verb],
               STR_ARG(call->key.kind->kind), STR_ARG(call->key.namespace), STR_ARG(call->key.name),
               call->how.subresource.n ? "/" : "", STR_ARG(call->how.subresource),
               call->code ? err_reason(-call->code) : "ok",
               call->fate == FATE_ANSWER_LOST && call->state == ON_THE_WAY_BACK ? " (answer lost)"
                                                                                : "");
}

static void call_deliver(void *arg)
{
    struct net_call *call = arg;
    call_trace(call);
    const struct client_answer answer = {
        .code = call->code, .err = call->code ? &call->err : NULL, .object = call->object};
    list_remove(&call->node);
    exec_timer_stop(call->client->client.exec, &call->given_up);
    if (call->done)
        call->done(call->arg, &answer);
    call_free(call);
}

static void call_back(struct net_call *call)
{
    call->state = ON_THE_WAY_BACK;
    if (!call->client) {
        call_trace(call);
        call_free(call);
        return;
    }
    call->timer = (struct exec_timer){.fn = call_deliver, .arg = call};
    exec_timer_start(call->client->client.exec, &call->timer, delay(call->net));
}

static void call_fail(struct net_call *call, int code)
{
    typed_object_unref(call->object);
    call->object = NULL;
    call->code = err_set(&call->err, code, "the network failed");
}

static void at_server(void *arg, const struct client_answer *a)
{
    struct net_call *call = arg;
    call->code = a->code;
    if (a->err)
        call->err = *a->err;
    call->object = typed_object_ref(a->object);
    if (call->fate == FATE_ANSWER_LOST)
        call_fail(call, rng_below(call->net->rng, 2) ? ERR_UNAVAILABLE : ERR_TIMEOUT);
    call_back(call);
}

static void call_send(void *arg)
{
    struct net_call *call = arg;
    struct net *n = call->net;
    if (!n->server || call->fate == FATE_REQUEST_LOST) {
        call_fail(call, n->server && rng_below(n->rng, 3) == 0 ? ERR_TIMEOUT : ERR_UNAVAILABLE);
        call_back(call);
        return;
    }
    call->state = AT_THE_SERVER;
    switch (call->verb) {
    case VERB_GET:
        client_get(n->server, &call->key, at_server, call);
        break;
    case VERB_CREATE:
        client_create(n->server, &call->body, &call->how, at_server, call);
        break;
    case VERB_UPDATE:
        client_update(n->server, &call->body, &call->how, at_server, call);
        break;
    case VERB_PATCH:
        client_patch(n->server, &call->key, call->patch_type, call->patch, &call->how, at_server,
                     call);
        break;
    case VERB_DELETE:
        client_delete(n->server, &call->key, call->options, at_server, call);
        break;
    }
}

static struct net_client *of(struct client *c)
{
    return container_of(c, struct net_client, client);
}

// The caller is told that there was no answer; the request is still on its way.
static void call_give_up(void *arg)
{
    struct net_call *call = arg;
    struct net *n = call->net;
    struct err err;
    const struct client_answer none = {.code = err_set(&err, ERR_TIMEOUT, "no answer in time"),
                                       .err = &err};
    client_done_fn done = call->done;
    if (call->state == ON_THE_WAY_BACK)
        return; // the answer comes after all
    call->done = NULL;
    call->client = NULL;
    list_remove(&call->node);
    list_push_back(&n->orphans, &call->node);
    done(call->arg, &none);
}

static struct net_call *call_new(struct client *c, enum verb verb, client_done_fn done, void *arg)
{
    struct net_client *from = of(c);
    struct net *n = from->net;
    struct net_call *call = xcalloc(1, sizeof(*call));
    call->net = n;
    call->client = from;
    call->verb = verb;
    call->done = done;
    call->arg = arg;
    call->fate = chance(n, 40)   ? FATE_REQUEST_LOST
                 : chance(n, 40) ? FATE_ANSWER_LOST
                 : chance(n, 40) ? FATE_LATE
                                 : FATE_FINE;
    list_push_back(&from->calls, &call->node);
    call->timer = (struct exec_timer){.fn = call_send, .arg = call};
    exec_timer_start(n->exec, &call->timer,
                     call->fate == FATE_LATE ? LATE_NS + LATE_NS * 4 * (int64_t)rng_below(n->rng, 4)
                                             : delay(n));
    if (call->fate == FATE_LATE) {
        call->given_up = (struct exec_timer){.fn = call_give_up, .arg = call};
        exec_timer_start(c->exec, &call->given_up, delay(n));
    }
    return call;
}

static void set_key(struct net_call *call, const struct client_key *key)
{
    call->key = (struct client_key){key->kind, arena_str(&call->arena, key->namespace),
                                    arena_str(&call->arena, key->name)};
}

static void set_how(struct net_call *call, const struct client_write *how)
{
    call->how = *how;
    call->how.subresource = arena_str(&call->arena, how->subresource);
    call->how.field_manager = arena_str(&call->arena, how->field_manager);
}

static void set_body(struct net_call *call, const struct api_object *object)
{
    const struct api_type *type = object->kind->type;
    call->body.kind = object->kind;
    call->body.value = arena_alloc(&call->arena, type->size, _Alignof(max_align_t));
    api_copy(type, object->value, call->body.value, &call->arena);
    const struct api_object_meta *meta = api_object_meta(&call->body);
    call->key =
        (struct client_key){object->kind, meta ? meta->namespace : STR(""),
                            meta ? (meta->name.n ? meta->name : meta->generate_name) : STR("")};
}

static void net_get(struct client *c, const struct client_key *key, client_done_fn done, void *arg)
{
    set_key(call_new(c, VERB_GET, done, arg), key);
}

static void net_create(struct client *c, const struct api_object *object,
                       const struct client_write *how, client_done_fn done, void *arg)
{
    struct net_call *call = call_new(c, VERB_CREATE, done, arg);
    set_body(call, object);
    set_how(call, how);
}

static void net_update(struct client *c, const struct api_object *object,
                       const struct client_write *how, client_done_fn done, void *arg)
{
    struct net_call *call = call_new(c, VERB_UPDATE, done, arg);
    set_body(call, object);
    set_how(call, how);
}

static void net_patch(struct client *c, const struct client_key *key, enum client_patch type,
                      struct str body, const struct client_write *how, client_done_fn done,
                      void *arg)
{
    struct net_call *call = call_new(c, VERB_PATCH, done, arg);
    set_key(call, key);
    set_how(call, how);
    call->patch_type = type;
    call->patch = arena_str(&call->arena, body);
}

static void net_remove(struct client *c, const struct client_key *key,
                       const struct api_delete_options *options, client_done_fn done, void *arg)
{
    struct net_call *call = call_new(c, VERB_DELETE, done, arg);
    set_key(call, key);
    if (options) {
        call->options = arena_one(&call->arena, struct api_delete_options);
        api_copy(&api_delete_options_type, options, call->options, &call->arena);
    }
}

// --- Watches -------------------------------------------------------------------------------------

static void watch_close(struct client_watch *w)
{
    if (w->inner)
        client_watch_stop(w->server, w->inner);
    w->inner = NULL;
}

static void watch_drop_queue(struct client_watch *w)
{
    for (size_t i = 0; i < w->queue.n; i++)
        typed_object_unref(w->queue.p[i].event.object);
    vec_clear(&w->queue);
}

static void watch_free(struct client_watch *w)
{
    list_remove(&w->node);
    watch_close(w);
    watch_drop_queue(w);
    vec_done(&w->queue);
    arena_done(&w->arena);
    free(w);
}

static void watch_later(struct client_watch *w)
{
    if (!exec_timer_armed(&w->deliver) && !w->stopped && !w->delivering)
        exec_timer_start(w->client->client.exec, &w->deliver, delay(w->net));
}

static void watch_over(struct client_watch *w, int code)
{
    if (w->ended)
        return;
    struct queued q = {.event = {.type = CLIENT_ENDED}};
    q.event.code = err_set(&q.err, code, "the watch was cut");
    w->ended = true;
    watch_close(w);
    vec_push(&w->queue, q);
    watch_later(w);
}

static void on_event(void *arg, const struct client_event *e)
{
    struct client_watch *w = arg;
    if (w->ended)
        return;
    if (e->type == CLIENT_ENDED) {
        watch_over(w, -e->code);
        return;
    }
    struct queued q = {.event = *e};
    q.event.object = typed_object_ref(e->object);
    q.event.err = NULL;
    vec_push(&w->queue, q);
    watch_later(w);
}

static void watch_tell(const struct client_watch *w, const struct client_event *e)
{
    static const char *const types[] = {"added",  "modified", "deleted",
                                        "synced", "bookmark", "ended"};
    const struct api_object_meta *meta = e->object ? e->object->meta : NULL;
    if (w->net->verbose)
        printf("%10.3f %-6s    sees %.*s %.*s/%.*s %s at %llu%s%s\n",
               (double)clock_mono_ns(w->net->exec->clock) / 1e9, w->client->who,
               STR_ARG(w->kind->kind), STR_ARG(meta ? meta->namespace : STR("")),
               STR_ARG(meta ? meta->name : STR("")), types[e->type],
               (unsigned long long)e->revision, e->code ? ": " : "",
               e->code ? err_reason(-e->code) : "");
}

// deliver gives some of the events that wait, in their order.
static void deliver(void *arg)
{
    struct client_watch *w = arg;
    struct net *n = w->net;
    if (chance(n, 60)) { // whatever was on its way is gone
        watch_drop_queue(w);
        w->ended = false;
        watch_over(w, rng_below(n->rng, 2) ? ERR_EXPIRED : ERR_UNAVAILABLE);
    }
    size_t count = n->faulty ? 1 + (size_t)rng_below(n->rng, 8) : w->queue.n;
    size_t i = 0;
    w->delivering = true;
    for (; i < w->queue.n && i < count && !w->stopped; i++) {
        struct queued q = w->queue.p[i];
        if (q.event.code)
            q.event.err = &q.err;
        n->messages++;
        net_trace(n, q.event.revision, (uint64_t)q.event.type);
        watch_tell(w, &q.event);
        w->event(w->arg, &q.event);
        typed_object_unref(q.event.object);
    }
    w->delivering = false;
    size_t left = w->queue.n - i;
    if (left)
        memmove(w->queue.p, w->queue.p + i, left * sizeof(w->queue.p[0]));
    w->queue.n = left;
    if (w->stopped)
        watch_free(w);
    else if (left)
        watch_later(w);
}

static void watch_start(void *arg)
{
    struct client_watch *w = arg;
    struct net *n = w->net;
    if (!n->server || chance(n, 30)) {
        watch_over(w, ERR_UNAVAILABLE);
        return;
    }
    w->server = n->server;
    w->inner = client_watch(n->server, w->kind, &w->options, w->since, on_event, w);
}

static struct client_watch *net_watch(struct client *c, const struct api_kind *kind,
                                      const struct client_list_options *options, uint64_t since,
                                      client_event_fn event, void *arg)
{
    struct net_client *client = of(c);
    struct client_watch *w = xcalloc(1, sizeof(*w));
    w->net = client->net;
    w->client = client;
    w->kind = kind;
    w->options = (struct client_list_options){arena_str(&w->arena, options->namespace),
                                              arena_str(&w->arena, options->label_selector),
                                              arena_str(&w->arena, options->field_selector)};
    w->since = since;
    w->event = event;
    w->arg = arg;
    w->start = (struct exec_timer){.fn = watch_start, .arg = w};
    w->deliver = (struct exec_timer){.fn = deliver, .arg = w};
    list_push_back(&client->watches, &w->node);
    exec_timer_start(w->net->exec, &w->start, delay(w->net));
    return w;
}

static void net_watch_stop(struct client_watch *w)
{
    assert(!w->stopped);
    w->stopped = true;
    exec_timer_stop(w->net->exec, &w->start);
    exec_timer_stop(w->client->client.exec, &w->deliver);
    watch_close(w);
    if (!w->delivering)
        watch_free(w);
}

// --- Clients -------------------------------------------------------------------------------------

static void net_free(struct client *c)
{
    net_client_kill(c);
}

static const struct client_ops net_ops = {
    .get = net_get,
    .create = net_create,
    .update = net_update,
    .patch = net_patch,
    .remove = net_remove,
    .watch = net_watch,
    .watch_stop = net_watch_stop,
    .free = net_free,
};

struct client *net_client_new(struct net *n, struct exec *exec, const char *who)
{
    struct net_client *c = xcalloc(1, sizeof(*c));
    c->client = (struct client){&net_ops, exec};
    c->net = n;
    c->who = who;
    list_init(&c->calls);
    list_init(&c->watches);
    list_push_back(&n->clients, &c->node);
    return &c->client;
}

void net_client_kill(struct client *client)
{
    struct net_client *c = of(client);
    struct net *n = c->net;
    assert(list_empty(&c->watches));
    for (struct list_node *node; (node = list_pop_front(&c->calls));) {
        struct net_call *call = list_entry(node, struct net_call, node);
        struct err err;
        const struct client_answer gone = {.code = err_set(&err, ECANCELED, "gone"), .err = &err};
        client_done_fn done = call->done;
        exec_timer_stop(client->exec, &call->given_up);
        call->done = NULL;
        call->client = NULL;
        if (done)
            done(call->arg, &gone);
        bool dropped = call->state == ON_THE_WAY && rng_below(n->rng, 2);
        if (call->state == ON_THE_WAY_BACK || dropped) {
            exec_timer_stop(dropped ? n->exec : client->exec, &call->timer);
            call_free(call);
        } else {
            list_push_back(&n->orphans, &call->node);
        }
    }
    list_remove(&c->node);
    free(c);
}

void net_server_lost(struct net *n)
{
    list_foreach(&n->clients, node) {
        struct net_client *c = list_entry(node, struct net_client, node);
        list_foreach(&c->calls, at) {
            struct net_call *call = list_entry(at, struct net_call, node);
            if (call->state == AT_THE_SERVER)
                call->fate = FATE_ANSWER_LOST;
        }
        list_foreach(&c->watches, at) {
            struct client_watch *w = list_entry(at, struct client_watch, node);
            if (w->inner)
                watch_over(w, ERR_UNAVAILABLE);
        }
    }
    n->server = NULL;
}
