// SPDX-License-Identifier: Apache-2.0
//
// Keys to work on, as client-go's queues: a key that waits is not added twice; one that is being
// worked on waits until that is done, then comes once more; failures come back later and later.
// Lives on one exec and moves by its timers alone.
#ifndef CLIENT_WORKQUEUE_H
#define CLIENT_WORKQUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/exec.h"
#include "base/str.h"

struct workqueue;

struct workqueue_options {
    struct exec *exec;
    // work begins on a key; workqueue_done ends it, at once or later. key is good until then.
    void (*work)(void *arg, struct str key);
    void *arg;
    const char *name; // it counts and times its work, for workqueue_metrics; NULL: it does not
    size_t workers;   // keys worked on at the same time; 0: 1
    int64_t retry_first_ns; // of workqueue_retry, doubling with each failure; 0: 5 ms
    int64_t retry_max_ns;   // 0: 1000 s
    double retry_per_sec;   // over all keys; 0: 10; negative: no such bound
    double retry_burst;     // 0: 100
};

struct workqueue *workqueue_new(const struct workqueue_options *options);

// workqueue_free forgets everything; work that is under way must not call workqueue_done any more.
void workqueue_free(struct workqueue *q);

// workqueue_add adds a key (copied). workqueue_add_after adds it later; if it already waits, the
// earlier time counts.
void workqueue_add(struct workqueue *q, struct str key);
void workqueue_add_after(struct workqueue *q, struct str key, int64_t delay_ns);

// workqueue_retry adds a key that failed: later with each failure, and not too many of all keys at
// once. workqueue_forget ends the counting of its failures.
void workqueue_retry(struct workqueue *q, struct str key);
void workqueue_forget(struct workqueue *q, struct str key);
size_t workqueue_failures(const struct workqueue *q, struct str key);

// workqueue_hold begins no work (true) or goes on (false); keys are taken meanwhile.
void workqueue_hold(struct workqueue *q, bool hold);

// workqueue_done ends the work on a key.
void workqueue_done(struct workqueue *q, struct str key);

// workqueue_len is how many keys wait to be worked on now; later ones are not counted.
size_t workqueue_len(const struct workqueue *q);
size_t workqueue_busy(const struct workqueue *q); // keys that are being worked on
bool workqueue_idle(const struct workqueue *q); // nothing waits, now or later, nothing is worked on

// workqueue_metrics adds Prometheus' text for queues that have names, with client-go's metrics.
void workqueue_metrics(const struct workqueue *const *queues, size_t n, struct sbuf *out);

#endif
