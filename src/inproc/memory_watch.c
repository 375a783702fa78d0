// SPDX-License-Identifier: Apache-2.0
//
// Watches of the API in memory: all objects first, then every change, delivered by the exec.
#include <stdlib.h>

#include "base/mem.h"
#include "inproc/memory_int.h"

#include "base/banned.h"

struct memory_event {
    struct client_watch *watch;
    struct client_event event;
    struct err err;
};

static void memory_release_watch(struct client_watch *watch)
{
    if (!watch->stopped || watch->posted)
        return;
    free(watch->namespace);
    free(watch);
}

static void memory_deliver_event(void *arg)
{
    struct memory_event *e = arg;
    struct client_watch *watch = e->watch;
    if (!watch->stopped)
        watch->event(watch->arg, &e->event);
    typed_object_unref(e->event.object);
    free(e);
    watch->posted--;
    memory_release_watch(watch);
}

void memory_send_event(struct client_watch *watch, enum client_event_type type,
                       const struct typed_object *o, uint64_t revision)
{
    if (o && watch->namespace && !str_eqz(o->meta->namespace, watch->namespace))
        return;
    struct memory_event *e = xcalloc(1, sizeof(*e));
    e->watch = watch;
    e->event =
        (struct client_event){.type = type, .object = typed_object_ref(o), .revision = revision};
    watch->posted++;
    exec_post(watch->m->exec, memory_deliver_event, e);
}

static void memory_end_watch(struct client_watch *watch, int code, const char *why)
{
    struct memory_event *e = xcalloc(1, sizeof(*e));
    e->watch = watch;
    e->event = (struct client_event){
        .type = CLIENT_ENDED, .code = err_set(&e->err, code, "%s", why), .err = &e->err};
    watch->posted++;
    exec_post(watch->m->exec, memory_deliver_event, e);
}

struct client_watch *memory_op_watch(struct client *c, const struct api_kind *kind,
                                     const struct client_list_options *options, uint64_t since,
                                     client_event_fn event, void *arg)
{
    struct memory *m = memory_client_of(c)->m;
    struct memory_table *t = memory_table(m, kind);
    struct client_watch *watch = xcalloc(1, sizeof(*watch));
    *watch = (struct client_watch){.m = m, .event = event, .arg = arg};
    if (options && options->namespace.n)
        watch->namespace = xstrndup(options->namespace.p, options->namespace.n);
    list_push_back(&t->watches, &watch->node);
    if (options && (options->label_selector.n || options->field_selector.n)) {
        memory_end_watch(watch, ERR_UNSUPPORTED, "objects in memory are not selected by fields");
    } else if (since && since != m->revision) {
        memory_end_watch(watch, ERR_EXPIRED, "old events are not kept in memory");
    } else if (!since) {
        map_foreach(&t->objects, i) {
            const struct typed_object *o = *map_value(&t->objects, i);
            memory_send_event(watch, CLIENT_ADDED, o, o->revision);
        }
        memory_send_event(watch, CLIENT_SYNCED, NULL, m->revision);
    }
    return watch;
}

void memory_op_watch_stop(struct client_watch *watch)
{
    list_remove(&watch->node);
    watch->stopped = true;
    memory_release_watch(watch);
}
