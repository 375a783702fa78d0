// SPDX-License-Identifier: Apache-2.0
//
// A world for the scheduler's tests: the API in memory (inproc/memory.h) on a simulated exec; any
// number of clients, whose writes fail and whose watches lag on demand.
#ifndef UNIT_SCHED_WORLD_H
#define UNIT_SCHED_WORLD_H

#include "base/exec.h"
#include "base/list.h"
#include "base/map.h"
#include "inproc/memory.h"
#include "sched/sched.h"
#include "unit.h"

struct world {
    struct clock_fake clock;
    struct rng_seeded rng;
    struct exec_sim *sim;
    struct exec *exec;
    struct memory *memory;
    struct list watches;
    struct list clients;
    // refuse, if set, is asked before every write; a negative code fails it.
    int (*refuse)(struct world *w, const char *verb, const struct api_kind *kind, struct str name);
    int refusals;       // left; for the use of refuse
    int64_t refused_ms; // how long a refusal takes
    const char *denied; // kind that nobody may list; NULL: none
    bool unknown;       // … because the server does not have it
};

void world_start(struct world *w);
void world_end(struct world *w);

// world_client makes a client; world_end frees it. With lag its watches hold back events of claims
// until world_release.
struct client *world_client(struct world *w);
void world_lag(struct client *c, const char *kind);
void world_release(struct client *c);

// world_put creates an object, or replaces it with its status; the text is JSON with single quotes
// for double ones.
void world_put(struct world *w, const char *text);
void world_putf(struct world *w, const char *fmt, ...) ERR_PRINTF(2, 3);
void world_delete(struct world *w, const char *kind, const char *key);

// world_run runs what is ready for so many milliseconds of the fake clock.
void world_run(struct world *w, int64_t ms);

// What is stored; NULL when there is none. Borrowed until something is written.
const struct api_pod *world_pod(struct world *w, const char *key);
const struct api_resource_claim *world_claim(struct world *w, const char *key);
const struct api_pod_group *world_group(struct world *w, const char *key);
const struct api_persistent_volume *world_volume(struct world *w, const char *name);
const struct api_persistent_volume_claim *world_volume_claim(struct world *w, const char *key);
size_t world_count(struct world *w, const char *kind);

// world_watches: somebody watches the kind.
bool world_watches(struct world *w, const char *kind);

// world_condition is the message of a pod's PodScheduled condition, "" when there is none.
struct str world_condition(struct world *w, const char *key);
struct str world_node_of(struct world *w, const char *key);

// world_sound demands that no device is held twice and every bound pod's claims are allocated and
// reserved for it.
void world_sound(struct world *w);

// world_event finds an event about an object by its reason; NULL when there is none.
const struct api_event *world_event(struct world *w, const char *name, const char *reason);

#endif
