// SPDX-License-Identifier: Apache-2.0
//
// The parts of src/client that the scheduler needs, for tests until that room is built.
#include "base/map.h"
#include "client/informer.h"

#include "base/banned.h"

struct client_object *client_object_ref(const struct client_object *o)
{
    struct client_object *mine = (struct client_object *)(uintptr_t)o;
    mine->refs++;
    return mine;
}

void client_object_unref(const struct client_object *o)
{
    struct client_object *mine = (struct client_object *)(uintptr_t)o;
    if (!mine || --mine->refs)
        return;
    arena_done(&mine->arena);
    free(mine);
}

void client_get(struct client *c, const struct client_key *key, client_done_fn done, void *arg)
{
    c->ops->get(c, key, done, arg);
}

void client_create(struct client *c, const struct api_object *object,
                   const struct client_write *how, client_done_fn done, void *arg)
{
    c->ops->create(c, object, how, done, arg);
}

void client_update(struct client *c, const struct api_object *object,
                   const struct client_write *how, client_done_fn done, void *arg)
{
    c->ops->update(c, object, how, done, arg);
}

void client_patch(struct client *c, const struct client_key *key, enum client_patch type,
                  struct str body, const struct client_write *how, client_done_fn done, void *arg)
{
    c->ops->patch(c, key, type, body, how, done, arg);
}

void client_delete(struct client *c, const struct client_key *key,
                   const struct api_delete_options *options, client_done_fn done, void *arg)
{
    c->ops->remove(c, key, options, done, arg);
}

struct client_watch *client_watch(struct client *c, const struct api_kind *kind,
                                  const struct client_list_options *options, uint64_t since,
                                  client_event_fn event, void *arg)
{
    return c->ops->watch(c, kind, options, since, event, arg);
}

void client_watch_stop(struct client *c, struct client_watch *w)
{
    c->ops->watch_stop(w);
}

void client_free(struct client *c)
{
    c->ops->free(c);
}

void client_bind(struct client *c, struct str namespace, struct str pod, struct str uid,
                 struct str node, client_done_fn done, void *arg)
{
    struct api_binding b = {.metadata = {.namespace = namespace, .name = pod, .uid = uid},
                            .target = {.kind = STR("Node"), .name = node}};
    struct api_object o = {api_kind_find(STR("v1"), STR("Binding")), &b};
    client_create(c, &o, &(struct client_write){.subresource = STR("binding")}, done, arg);
}

// --- Informer ------------------------------------------------------------------------------------

struct informer {
    struct client *client;
    const struct api_kind *kind;
    struct informer_handler handler;
    struct client_watch *watch;
    struct cached MAP(const struct client_object *) objects; // keys owned
    uint64_t revision;
    bool synced;
};

struct informer *informer_new(const struct informer_options *options)
{
    struct informer *i = xcalloc(1, sizeof(*i));
    i->client = options->client;
    i->kind = options->kind;
    return i;
}

void informer_free(struct informer *i)
{
    if (i->watch)
        client_watch_stop(i->client, i->watch);
    map_foreach(&i->objects, k) {
        client_object_unref(*map_value(&i->objects, k));
        free((void *)(uintptr_t)map_key(&i->objects, k).p);
    }
    map_done(&i->objects);
    free(i);
}

void informer_add_handler(struct informer *i, const struct informer_handler *h)
{
    i->handler = *h;
}

static void on_event(void *arg, const struct client_event *e)
{
    struct informer *i = arg;
    i->revision = e->revision;
    if (e->type == CLIENT_SYNCED) {
        i->synced = true;
        i->handler.synced(i->handler.arg);
        return;
    }
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(e->object->meta->namespace),
              STR_ARG(e->object->meta->name));
    const struct client_object **slot = map_get(&i->objects, sbuf_str(&key));
    const struct client_object *before = slot ? *slot : NULL;
    if (e->type == CLIENT_DELETED) {
        if (!slot)
            return;
        struct str mine = map_key(&i->objects, map_index_find(&i->objects.index, sbuf_str(&key)));
        (void)map_del(&i->objects, mine);
        free((void *)(uintptr_t)mine.p);
        i->handler.changed(i->handler.arg, before, NULL);
    } else {
        if (!slot)
            slot = map_put(&i->objects, str_make(xstrndup(key.p, key.n), key.n));
        *slot = client_object_ref(e->object);
        i->handler.changed(i->handler.arg, before, e->object);
    }
    client_object_unref(before);
}

void informer_start(struct informer *i)
{
    i->watch = client_watch(i->client, i->kind, NULL, 0, on_event, i);
}

uint64_t informer_revision(const struct informer *i)
{
    return i->revision;
}

size_t informer_len(const struct informer *i)
{
    return map_len(&i->objects);
}

void informer_foreach(const struct informer *i, void (*fn)(void *arg, const struct client_object *o),
                      void *arg)
{
    map_foreach(&i->objects, k)
        fn(arg, *map_value(&i->objects, k));
}
