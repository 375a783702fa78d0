// SPDX-License-Identifier: Apache-2.0
//
// The API as those see it who use it: scheduler, controllers, agent, drivers, command line. One
// interface, two transports: the registry in the same process, a remote API server. A client
// belongs to one exec; every answer comes there, never before the call that asked has returned.
//
// Objects come and go typed. What an answer or an event points to is good until the callback
// returns; typed_object_ref keeps an object.
//
// A kind that dray was not built with is partial (api_kind_partial): it can be read, watched,
// patched and deleted, not created or updated. Its maker keeps it as long as a watch; calls
// copy it, so that the kind of an answer's object is good until the callback returns, even if the
// object is kept.
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/api.h"
#include "api/typed_object.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/exec.h"

struct client;

struct client_key {
    const struct api_kind *kind;
    struct str namespace;
    struct str name;
};

// How a call ended. code 0, or -ERR_NOT_FOUND, -ERR_CONFLICT, -ERR_ALREADY_EXISTS, -ERR_INVALID,
// -ERR_EXPIRED, -ERR_TIMEOUT, -ERR_UNAVAILABLE … with the server's message in err.
struct client_answer {
    int code;
    const struct err *err;
    const struct typed_object *object; // NULL for failures, and where the server sends none
};

// Runs exactly once for each call.
typedef void (*client_done_fn)(void *arg, const struct client_answer *answer);

enum client_patch {
    CLIENT_PATCH_JSON,
    CLIENT_PATCH_MERGE,
    CLIENT_PATCH_STRATEGIC,
    CLIENT_PATCH_APPLY,
};

struct client_write {
    struct str subresource;   // empty, status, binding, eviction
    struct str field_manager; // of apply
    bool force;
    bool dry_run;
};

struct client_list_options {
    struct str namespace; // empty: all
    struct str label_selector;
    struct str field_selector;
};

enum client_event_type {
    CLIENT_ADDED,
    CLIENT_MODIFIED,
    CLIENT_DELETED,
    CLIENT_SYNCED,   // the initial objects have all been given; revision is set
    CLIENT_BOOKMARK, // revision is set
    CLIENT_ENDED,    // the watch is over: code and err say why (-ERR_EXPIRED: list again); stop it
};

struct client_event {
    enum client_event_type type;
    const struct typed_object *object; // of a deletion: as it was last
    uint64_t revision;                 // of the change; always set but in CLIENT_ENDED
    int code;
    const struct err *err;
};

typedef void (*client_event_fn)(void *arg, const struct client_event *event);

struct client_watch; // of the transport

struct client_ops {
    void (*get)(struct client *c, const struct client_key *key, client_done_fn done, void *arg);
    void (*create)(struct client *c, const struct api_object *object,
                   const struct client_write *how, client_done_fn done, void *arg);
    void (*update)(struct client *c, const struct api_object *object,
                   const struct client_write *how, client_done_fn done, void *arg);
    void (*patch)(struct client *c, const struct client_key *key, enum client_patch type,
                  struct str body, const struct client_write *how, client_done_fn done, void *arg);
    void (*remove)(struct client *c, const struct client_key *key,
                   const struct api_delete_options *options, client_done_fn done, void *arg);
    // remove_all deletes what list selects; may be NULL where it is not needed. The answer has no
    // object.
    void (*remove_all)(struct client *c, const struct api_kind *kind,
                       const struct client_list_options *list, client_done_fn done, void *arg);
    // watch gives all objects as ADDED, then SYNCED, then what changes; with since != 0 only what
    // changed after that revision.
    struct client_watch *(*watch)(struct client *c, const struct api_kind *kind,
                                  const struct client_list_options *options, uint64_t since,
                                  client_event_fn event, void *arg);
    void (*watch_stop)(struct client_watch *w); // no event comes afterwards
    void (*free)(struct client *c);
};

struct client {
    const struct client_ops *ops;
    struct exec *exec;
};

// The calls; what they are given is copied or used before they return. how may be NULL.
void client_get(struct client *c, const struct client_key *key, client_done_fn done, void *arg);
void client_create(struct client *c, const struct api_object *object,
                   const struct client_write *how, client_done_fn done, void *arg);
void client_update(struct client *c, const struct api_object *object,
                   const struct client_write *how, client_done_fn done, void *arg);
void client_patch(struct client *c, const struct client_key *key, enum client_patch type,
                  struct str body, const struct client_write *how, client_done_fn done, void *arg);
void client_delete(struct client *c, const struct client_key *key,
                   const struct api_delete_options *options, client_done_fn done, void *arg);
void client_delete_all(struct client *c, const struct api_kind *kind,
                       const struct client_list_options *list, client_done_fn done, void *arg);
struct client_watch *client_watch(struct client *c, const struct api_kind *kind,
                                  const struct client_list_options *options, uint64_t since,
                                  client_event_fn event, void *arg);
void client_watch_stop(struct client *c, struct client_watch *w);

// client_free ends a client whose watches have been stopped. Calls that were not answered yet still
// will be: whatever became of them, with -ECANCELED.
void client_free(struct client *c);

// client_bind binds a pod to a node (pods/binding). The pod must have the UID and be at the
// resourceVersion in pod, if there is one: else the answer is a conflict.
void client_bind(struct client *c, const struct api_object_meta *pod, struct str node,
                 client_done_fn done, void *arg);

#endif
