// SPDX-License-Identifier: Apache-2.0
//
// What the files of the API in memory share: its tables, its clients, its watches.
#ifndef INPROC_MEMORY_INT_H
#define INPROC_MEMORY_INT_H

#include "base/list.h"
#include "base/map.h"
#include "inproc/memory.h"

struct memory_objects MAP(const struct typed_object *); // by "namespace/name"; keys are owned

struct memory_table {
    const struct api_kind *kind;
    struct memory_objects objects;
    struct list watches;
};

struct memory_tables MAP(struct memory_table *); // by kind and group; keys are owned

struct memory {
    struct exec *exec;
    struct features features;
    struct memory_tables tables;
    uint64_t revision;
    uint64_t writes;
    memory_guard_fn guard;
    void *guard_arg;
    memory_hook_fn hook;
    void *hook_arg;
};

struct memory_client {
    struct client client; // first
    struct memory *m;
    uint32_t busy; // answers to come
    bool freed;
};

struct client_watch {
    struct list_node node;
    struct memory *m;
    char *namespace; // NULL: all
    client_event_fn event;
    void *arg;
    uint32_t posted; // events on the exec
    bool stopped;
};

static inline struct memory_client *memory_client_of(struct client *c)
{
    return container_of(c, struct memory_client, client);
}

// memory_table finds the table of a kind, whatever its version.
struct memory_table *memory_table(struct memory *m, const struct api_kind *kind);

// memory_send_event posts an event to a watch, unless it looks at another namespace. o may be NULL.
void memory_send_event(struct client_watch *watch, enum client_event_type type,
                       const struct typed_object *o, uint64_t revision);

struct client_watch *memory_op_watch(struct client *c, const struct api_kind *kind,
                                     const struct client_list_options *options, uint64_t since,
                                     client_event_fn event, void *arg);
void memory_op_watch_stop(struct client_watch *watch);

#endif
