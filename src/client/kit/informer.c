// SPDX-License-Identifier: Apache-2.0
//
// A lost watch is resumed from the last revision seen; if the server no longer has that, everything
// is listed again and compared: each item carries the number of the list that showed it last.
#include "client/informer.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/sorted.h"
#include "base/vec.h"
#include "client/backoff.h"

#include "base/banned.h"

static struct log_module log_mod = LOG_MODULE("informer");

struct item {
    const struct typed_object *object; // referenced
    uint64_t listed;                   // number of the list that showed it
};

struct item_key {
    struct str namespace;
    struct str name;
};

// The items an index has under one key.
struct bucket {
    char *key;
    struct sorted items;
};

struct buckets MAP(struct bucket *);

struct informer_index {
    informer_index_fn key;
    struct buckets buckets;
};

struct handlers VEC(struct informer_handler);
struct indexes VEC(struct informer_index);

struct informer {
    struct client *client;
    const struct api_kind *kind;
    struct arena arena; // of list
    struct client_list_options list;
    struct handlers handlers;
    struct indexes indexes;
    struct sorted items;
    struct client_watch *watch;
    struct exec_timer retry;
    struct backoff backoff;
    uint64_t revision; // everything up to it has been seen
    uint64_t lists;    // begun so far
    bool listing;
    bool synced;
};

static struct item_key informer_object_key(const struct typed_object *o)
{
    return (struct item_key){o->meta->namespace, o->meta->name};
}

static int item_order(const void *item, const void *key)
{
    struct item_key a = informer_object_key(((const struct item *)item)->object);
    const struct item_key *b = key;
    int order = str_cmp(a.namespace, b->namespace);
    return order ? order : str_cmp(a.name, b->name);
}

// --- Indexes -------------------------------------------------------------------------------------

struct index_change {
    struct informer_index *index;
    struct item *item;
};

static void index_put(void *ctx, struct str key)
{
    const struct index_change *c = ctx;
    struct bucket **found = map_get(&c->index->buckets, key);
    struct bucket *b = found ? *found : NULL;
    if (!b) {
        b = xcalloc(1, sizeof(*b));
        b->key = xstrndup(key.p, key.n);
        sorted_init(&b->items, item_order);
        *map_put(&c->index->buckets, str_make(b->key, key.n)) = b;
    }
    struct item_key item = informer_object_key(c->item->object);
    (void)sorted_add(&b->items, &item, c->item);
}

static void bucket_free(struct bucket *b)
{
    sorted_done(&b->items);
    free(b->key);
    free(b);
}

static void index_take(void *ctx, struct str key)
{
    const struct index_change *c = ctx;
    struct bucket **found = map_get(&c->index->buckets, key);
    if (!found)
        return; // the same key twice
    struct bucket *b = *found;
    struct item_key item = informer_object_key(c->item->object);
    (void)sorted_remove(&b->items, &item);
    if (b->items.len > 0)
        return;
    (void)map_del(&c->index->buckets, key);
    bucket_free(b);
}

static void index_item(struct informer *i, struct item *item, bool put)
{
    vec_foreach(&i->indexes, index) {
        struct index_change change = {index, item};
        index->key(item->object, put ? index_put : index_take, &change);
    }
}

// --- The cache -----------------------------------------------------------------------------------

static void informer_notify_handlers(const struct informer *i, const struct typed_object *before,
                                     const struct typed_object *after)
{
    for (size_t n = 0; n < i->handlers.n; n++)
        if (i->handlers.p[n].changed)
            i->handlers.p[n].changed(i->handlers.p[n].arg, before, after);
}

static void tell_progress(const struct informer *i)
{
    for (size_t n = 0; n < i->handlers.n; n++)
        if (i->handlers.p[n].progress)
            i->handlers.p[n].progress(i->handlers.p[n].arg, i->revision);
}

static void store_object(struct informer *i, const struct typed_object *o)
{
    struct item_key key = informer_object_key(o);
    struct item *item = sorted_find(&i->items, &key);
    if (!item) {
        item = xmalloc(sizeof(*item));
        *item = (struct item){typed_object_ref(o), i->lists};
        (void)sorted_add(&i->items, &key, item);
        index_item(i, item, true);
        informer_notify_handlers(i, NULL, o);
        return;
    }
    item->listed = i->lists;
    if (item->object->revision >= o->revision)
        return; // known already: a list shows again what a watch had given
    const struct typed_object *before = item->object;
    index_item(i, item, false);
    item->object = typed_object_ref(o);
    index_item(i, item, true);
    // Deleted and made again between two lists: two changes, as a watch would have shown.
    if (!str_eq(before->meta->uid, o->meta->uid)) {
        informer_notify_handlers(i, before, NULL);
        informer_notify_handlers(i, NULL, o);
    } else {
        informer_notify_handlers(i, before, o);
    }
    typed_object_unref(before);
}

static void remove_item(struct informer *i, struct item *item)
{
    struct item_key key = informer_object_key(item->object);
    index_item(i, item, false);
    (void)sorted_remove(&i->items, &key);
    informer_notify_handlers(i, item->object, NULL);
    typed_object_unref(item->object);
    free(item);
}

static void remove_object(struct informer *i, const struct typed_object *o)
{
    struct item_key key = informer_object_key(o);
    struct item *item = sorted_find(&i->items, &key);
    if (item)
        remove_item(i, item);
}

struct item_list VEC(struct item *);

// What the list that has just ended did not show is gone.
static void remove_unlisted(struct informer *i)
{
    struct item_list gone = {0};
    struct sorted_place p = {0};
    for (struct item *item; (item = sorted_at(&i->items, p)); p = sorted_step(&i->items, p))
        if (item->listed != i->lists)
            vec_push(&gone, item);
    for (size_t n = 0; n < gone.n; n++)
        remove_item(i, gone.p[n]);
    vec_done(&gone);
}

// --- List and watch ------------------------------------------------------------------------------

static void informer_on_event(void *arg, const struct client_event *event);

static void start_watch(struct informer *i)
{
    i->listing = i->revision == 0;
    if (i->listing)
        i->lists++;
    i->watch = client_watch(i->client, i->kind, &i->list, i->revision, informer_on_event, i);
}

static void informer_on_retry(void *arg)
{
    start_watch(arg);
}

static void informer_reset_backoff(struct informer *i)
{
    if (i->backoff.tries >= 3)
        LOG_INFO(&log_mod, "it works again", log_str("kind", i->kind->kind));
    i->backoff = (struct backoff){0};
}

static void informer_on_synced(struct informer *i)
{
    remove_unlisted(i);
    i->listing = false;
    informer_reset_backoff(i);
    if (i->synced)
        return;
    i->synced = true;
    for (size_t n = 0; n < i->handlers.n; n++)
        if (i->handlers.p[n].synced)
            i->handlers.p[n].synced(i->handlers.p[n].arg);
}

// A kind that was never listed and that the server does not give us: who can do without must not
// wait for it.
static void tell_refused(const struct informer *i, int code)
{
    if (i->synced || (code != -ERR_FORBIDDEN && code != -ERR_NOT_FOUND && code != -ERR_UNSUPPORTED))
        return;
    for (size_t n = 0; n < i->handlers.n; n++)
        if (i->handlers.p[n].refused)
            i->handlers.p[n].refused(i->handlers.p[n].arg, code);
}

static void on_ended(struct informer *i, int code, const struct err *err)
{
    client_watch_stop(i->client, take_ptr(i->watch));
    // An incomplete list proves nothing about objects it did not show.
    if (code == -ERR_EXPIRED || code == -ERR_GONE || i->listing)
        i->revision = 0;
    struct exec *exec = i->client->exec;
    exec_timer_start(exec, &i->retry, backoff_next(&i->backoff, code, exec->rng));
    if (code < 0 && backoff_worth_telling(&i->backoff, code) && code != -ERR_EXPIRED &&
        code != -ERR_GONE)
        LOG_WARN(&log_mod, "cannot list or watch; trying on", log_str("kind", i->kind->kind),
                 log_z("why", err ? err->msg : "unknown"));
    tell_refused(i, code);
}

static void informer_on_event(void *arg, const struct client_event *event)
{
    struct informer *i = arg;
    if (!i->listing && event->type != CLIENT_ENDED) {
        if (event->revision)
            i->revision = event->revision;
        informer_reset_backoff(i);
    }
    switch (event->type) {
    case CLIENT_ADDED:
    case CLIENT_MODIFIED:
        store_object(i, event->object);
        break;
    case CLIENT_DELETED:
        remove_object(i, event->object);
        break;
    case CLIENT_SYNCED:
        i->revision = event->revision;
        informer_on_synced(i);
        break;
    case CLIENT_ENDED:
        on_ended(i, event->code, event->err);
        break;
    case CLIENT_BOOKMARK:
        break;
    }
    if (!i->listing && event->type != CLIENT_ENDED)
        tell_progress(i);
}

// --- What is public ------------------------------------------------------------------------------

struct informer *informer_new(const struct informer_options *options)
{
    struct informer *i = xcalloc(1, sizeof(*i));
    i->client = options->client;
    i->kind = options->kind;
    i->list = (struct client_list_options){
        .namespace = arena_str(&i->arena, options->list.namespace),
        .label_selector = arena_str(&i->arena, options->list.label_selector),
        .field_selector = arena_str(&i->arena, options->list.field_selector),
    };
    i->retry = (struct exec_timer){.fn = informer_on_retry, .arg = i};
    sorted_init(&i->items, item_order);
    return i;
}

void informer_free(struct informer *i)
{
    if (!i)
        return;
    client_watch_stop(i->client, i->watch);
    exec_timer_stop(i->client->exec, &i->retry);
    vec_foreach(&i->indexes, index) {
        map_foreach(&index->buckets, at) {
            bucket_free(*map_value(&index->buckets, at));
        }
        map_done(&index->buckets);
    }
    struct sorted_place p = {0};
    for (struct item *item; (item = sorted_at(&i->items, p)); p = sorted_step(&i->items, p)) {
        typed_object_unref(item->object);
        free(item);
    }
    sorted_done(&i->items);
    vec_done(&i->indexes);
    vec_done(&i->handlers);
    arena_done(&i->arena);
    free(i);
}

void informer_add_handler(struct informer *i, const struct informer_handler *h)
{
    assert(!i->watch && i->lists == 0);
    vec_push(&i->handlers, *h);
}

size_t informer_add_index(struct informer *i, informer_index_fn key)
{
    assert(!i->watch && i->lists == 0);
    vec_push(&i->indexes, ((struct informer_index){.key = key}));
    return i->indexes.n - 1;
}

void informer_start(struct informer *i)
{
    assert(i->lists == 0);
    start_watch(i);
}

bool informer_synced(const struct informer *i)
{
    return i->synced;
}

uint64_t informer_revision(const struct informer *i)
{
    return i->revision;
}

const struct typed_object *informer_get(const struct informer *i, struct str namespace,
                                        struct str name)
{
    struct item_key key = {namespace, name};
    const struct item *item = sorted_find(&i->items, &key);
    return item ? item->object : NULL;
}

size_t informer_len(const struct informer *i)
{
    return i->items.len;
}

static void informer_walk_sorted(const struct sorted *items,
                                 void (*fn)(void *arg, const struct typed_object *o), void *arg)
{
    struct sorted_place p = {0};
    for (const struct item *item; (item = sorted_at(items, p)); p = sorted_step(items, p))
        fn(arg, item->object);
}

void informer_foreach(const struct informer *i, void (*fn)(void *arg, const struct typed_object *o),
                      void *arg)
{
    informer_walk_sorted(&i->items, fn, arg);
}

void informer_by(const struct informer *i, size_t index, struct str key,
                 void (*fn)(void *arg, const struct typed_object *o), void *arg)
{
    assert(index < i->indexes.n);
    struct bucket *const *b = map_get(&i->indexes.p[index].buckets, key);
    if (b)
        informer_walk_sorted(&(*b)->items, fn, arg);
}
