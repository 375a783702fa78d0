// SPDX-License-Identifier: Apache-2.0
//
// What a controller has to look at: keys, each once however often it is added, at most one step of
// a key under way at a time. A step reads the caches, does at most one write, and reports how it
// went: done, try again later (with growing pauses), or look again when the cache has seen the
// write. So a controller needs no memory of its own writes, and a crash between two steps costs
// nothing.
#ifndef CLIENT_WORK_H
#define CLIENT_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/exec.h"
#include "base/str.h"

struct work;

// Looks at a key. It must end in exactly one call of work_done, work_retry, work_again or
// work_after for this key, before it returns or later. key is good until then.
typedef void (*work_fn)(void *arg, struct str key);

// name: of its queue in metrics; NULL: nothing is counted.
struct work *work_new(struct exec *exec, const char *name, work_fn fn, void *arg);

// work_hold looks at nothing (true) or goes on (false); keys are taken meanwhile.
void work_hold(struct work *w, bool hold);

// work_free forgets everything; steps under way must not end any more.
void work_free(struct work *w);

// work_add looks at a key soon. Pauses of earlier failures are over: something has changed. A key
// under way is looked at again when it ends.
void work_add(struct work *w, struct str key);

// work_add_after looks at a key after a while, unless it is added before.
void work_add_after(struct work *w, struct str key, int64_t delay_ns);

// work_done: nothing more to do now.
void work_done(struct work *w, struct str key);

// work_retry: it failed; look again after 5 ms, doubled with each failure in a row up to 1000 s.
void work_retry(struct work *w, struct str key);

// work_after: a write gave an object revision of source; look again when work_seen reports it.
// source is any number that the controller gives its caches; small ones, they are indexes.
void work_after(struct work *w, struct str key, size_t source, uint64_t revision);

// work_look looks at a key that is under way once more, at once: the step has not ended.
void work_look(struct work *w, struct str key);

// work_again: nothing to do yet; look again after a while, or when it is added.
void work_again(struct work *w, struct str key, int64_t delay_ns);

// work_again_in: the same in seconds, at most a day: who has to wait longer looks and waits again.
void work_again_in(struct work *w, struct str key, int64_t seconds);

// work_seen: a cache has come to a revision.
void work_seen(struct work *w, size_t source, uint64_t revision);

// work_forget: a cache is given up. What waits for it is looked at; its number may be another's.
void work_forget(struct work *w, size_t source);

// work_idle: nothing is waiting to be looked at now, under way, or waiting for a cache.
bool work_idle(const struct work *w);

// work_metrics adds Prometheus' text about the queues of those with a name.
#define WORKS_MAX 32
void work_metrics(struct work *const *all, size_t n, struct sbuf *out);

#endif
