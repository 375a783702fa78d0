// SPDX-License-Identifier: Apache-2.0
//
// The Node object of this machine: made when it is not there, its status and conditions written as
// kubelet does, its Lease renewed every ten seconds. Others may change labels, annotations, taints
// and conditions of their own; they stay.
#ifndef NODE_MACHINE_NODE_H
#define NODE_MACHINE_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "api/types.h"
#include "base/arena.h"
#include "base/exec.h"
#include "client/client.h"
#include "client/events.h"
#include "codec/json_writer.h"
#include "node/eviction.h"
#include "node/runtime/runtime.h"

#define NODE_PODS_MAX 110 // as kubelet

// --- Machine -------------------------------------------------------------------------------------

// Facts about the machine, in arena.
struct node_machine {
    struct str hostname, machine_id, system_uuid, boot_id, kernel, os_image, architecture;
    struct str addresses; // by commas, the first is the main one
    int64_t cpus, memory_bytes, disk_bytes, swap_bytes;
};

// node_machine_read reads this machine; disk is the file system of a directory. What cannot be read
// is empty or 0.
void node_machine_read(const char *folder, struct arena *arena, struct node_machine *ret);

// node_machine_observe measures what there is left of memory, of the disks of two directories, and
// of process ids. It may block.
void node_machine_observe(const struct eviction_places *at, struct eviction_facts *ret);

// node_memory_trim gives back memory that only the start has needed.
void node_memory_trim(void);

// --- Node object ---------------------------------------------------------------------------------

struct node;

// 0: as kubelet.
struct node_times {
    int64_t lease_ns;     // 10 s
    int64_t heartbeat_ns; // of a status that does not change: 5 min
    int64_t look_ns;      // at the machine: 10 s
};

typedef void (*node_amount_fn)(void *ctx, struct str resource, int64_t capacity,
                               int64_t allocatable);

struct node_options {
    struct exec *exec;
    struct client *client;
    struct event_recorder *events; // may be NULL
    struct str name;               // copied, as everything
    const struct node_machine *machine;
    struct str labels; // "a=b,c=d", besides the usual ones
    struct str taints; // "key=value:Effect,…", when the object is made
    struct str runtime_version;
    const struct runtime_features *features; // of the runtime; borrowed; NULL: none
    uint16_t port;                           // of the kubelet endpoint; 0: none
    int64_t pods_max;                        // 0: NODE_PODS_MAX
    int64_t memory_reserved, disk_reserved;  // bytes that eviction keeps free: not allocatable
    bool has_health;                         // declares the features of claims
    struct node_times times;
    // not_ready returns true and the reason while the node is not ready. May be NULL.
    bool (*not_ready)(void *arg, struct sbuf *why);
    // pressure: what the node is short of. NULL: nothing.
    void (*pressure)(void *arg, struct eviction_conditions *ret);
    // extended calls fn for every extended resource that this node knows of. May be NULL.
    // extended_is_new: others that the object names at the start are of another life, and are set
    // to 0.
    void (*extended)(void *arg, node_amount_fn fn, void *ctx);
    bool extended_is_new;
    // registered: the object is there (again). changed: it is another. Both on the exec.
    void (*registered)(void *arg);
    void (*changed)(void *arg);
    void *arg;
};

struct node *node_new(const struct node_options *options);
void node_start(struct node *n);
void node_free(struct node *n);

// node_object is the cached Node, NULL before it is known. Borrowed until control returns to the
// exec.
const struct typed_object *node_object(const struct node *n);

// node_extended_write writes amounts of extended resources into an open object; reset (may be NULL)
// is the object whose others are set to 0. node_extended_is_current: the object has the same
// amounts.
void node_extended_write(const struct node_options *o, const struct api_node *reset,
                         bool allocatable, struct json_writer *w);
bool node_extended_is_current(const struct node_options *o, const struct api_node *node);

// node_handlers_write writes runtimeHandlers, what the programs that run containers can do.
void node_handlers_write(const struct node_options *o, struct json_writer *w);

// node_check checks the machine at once, as it otherwise does every 10 s.
void node_check(struct node *n);

#endif
