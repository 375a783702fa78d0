// SPDX-License-Identifier: Apache-2.0
//
// The calls of client.h: each goes to the transport behind the client. Binding a pod is a creation
// of its subresource.
#include "client/client.h"

#include <assert.h>
#include <stdlib.h>

#include "api/partial.h"
#include "base/mem.h"

#include "base/banned.h"

static const struct client_write plain_write = {0};

void client_get(struct client *c, const struct client_key *key, client_done_fn done, void *arg)
{
    c->ops->get(c, key, done, arg);
}

void client_create(struct client *c, const struct api_object *object,
                   const struct client_write *how, client_done_fn done, void *arg)
{
    assert(!api_kind_is_partial(object->kind));
    c->ops->create(c, object, how ? how : &plain_write, done, arg);
}

void client_update(struct client *c, const struct api_object *object,
                   const struct client_write *how, client_done_fn done, void *arg)
{
    assert(!api_kind_is_partial(object->kind)); // all else would be lost
    c->ops->update(c, object, how ? how : &plain_write, done, arg);
}

void client_patch(struct client *c, const struct client_key *key, enum client_patch type,
                  struct str body, const struct client_write *how, client_done_fn done, void *arg)
{
    c->ops->patch(c, key, type, body, how ? how : &plain_write, done, arg);
}

void client_delete(struct client *c, const struct client_key *key,
                   const struct api_delete_options *options, client_done_fn done, void *arg)
{
    c->ops->remove(c, key, options, done, arg);
}

void client_delete_all(struct client *c, const struct api_kind *kind,
                       const struct client_list_options *list, client_done_fn done, void *arg)
{
    c->ops->remove_all(c, kind, list, done, arg);
}

struct client_watch *client_watch(struct client *c, const struct api_kind *kind,
                                  const struct client_list_options *options, uint64_t since,
                                  client_event_fn event, void *arg)
{
    static const struct client_list_options everything = {0};
    return c->ops->watch(c, kind, options ? options : &everything, since, event, arg);
}

void client_watch_stop(struct client *c, struct client_watch *w)
{
    if (w)
        c->ops->watch_stop(w);
}

void client_free(struct client *c)
{
    if (c)
        c->ops->free(c);
}

void client_bind(struct client *c, const struct api_object_meta *pod, struct str node,
                 client_done_fn done, void *arg)
{
    struct api_binding binding = {
        .metadata = {.name = pod->name,
                     .namespace = pod->namespace,
                     .uid = pod->uid,
                     .resource_version = pod->resource_version},
        .target = {.kind = STR("Node"), .name = node},
    };
    struct api_object object = {api_kind_find(STR("v1"), STR("Binding")), &binding};
    assert(object.kind);
    api_set_type_meta(&object);
    client_create(c, &object, &(struct client_write){.subresource = STR("binding")}, done, arg);
}
