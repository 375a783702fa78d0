// SPDX-License-Identifier: Apache-2.0
//
// A cache of all objects of a kind that keeps itself current by list and watch, calls handlers with
// every change, and answers by key or by an index of the owner's making. Lives on the client's
// exec.
#ifndef CLIENT_INFORMER_H
#define CLIENT_INFORMER_H

#include <stdbool.h>
#include <stddef.h>

#include "client/client.h"

struct informer;

struct informer_handler {
    // changed (may be NULL): before is NULL for an addition, after for a deletion. A relist after a
    // lost watch gives the same calls, with nothing doubled and nothing left out.
    void (*changed)(void *arg, const struct typed_object *before, const struct typed_object *after);
    void (*synced)(void *arg); // once, when the first list is complete; may be NULL
    // refused: the server does not know the kind (-ERR_NOT_FOUND, -ERR_UNSUPPORTED), or does not
    // let us list it (-ERR_FORBIDDEN). Comes with each try until it does; may be NULL.
    void (*refused)(void *arg, int code);
    // progress: the cache is now as the server was at a revision; after changed. May be NULL.
    void (*progress)(void *arg, uint64_t revision);
    void *arg;
};

struct informer_options {
    struct client *client;
    const struct api_kind *kind;
    struct client_list_options list; // texts are copied
};

struct informer *informer_new(const struct informer_options *options);
void informer_free(struct informer *i);

// informer_add_handler before informer_start. Handlers run in the order they were added.
void informer_add_handler(struct informer *i, const struct informer_handler *h);

// informer_add_index: key names what an object is found by (it may call add several times, or not
// at all). Before informer_start. Returns the index's number.
typedef void (*informer_index_fn)(const struct typed_object *o,
                                  void (*add)(void *ctx, struct str key), void *ctx);
size_t informer_add_index(struct informer *i, informer_index_fn key);

void informer_start(struct informer *i);
bool informer_synced(const struct informer *i);
uint64_t informer_revision(const struct informer *i);

// informer_get finds by namespace and name; borrowed until control returns to the exec.
const struct typed_object *informer_get(const struct informer *i, struct str namespace,
                                        struct str name);
size_t informer_len(const struct informer *i);

// informer_foreach and informer_by call fn for all objects, for those an index has under key; in
// order of their keys.
void informer_foreach(const struct informer *i, void (*fn)(void *arg, const struct typed_object *o),
                      void *arg);
void informer_by(const struct informer *i, size_t index, struct str key,
                 void (*fn)(void *arg, const struct typed_object *o), void *arg);

#endif
