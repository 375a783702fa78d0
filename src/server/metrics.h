// SPDX-License-Identifier: Apache-2.0
//
// What the server counts: requests by resource, verb and code, with their duration, under the names
// kube-apiserver gives them.
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "base/vec.h"
#include "server/http/catalog.h"

#define METRICS_BUCKETS 23
#define METRICS_CODES   12

// Requests of one resource (and subresource) and verb.
struct metrics_row {
    const struct api_kind *kind; // NULL: not a resource
    struct str sub;
    unsigned verb;
    struct {
        int code;
        uint64_t count;
    } codes[METRICS_CODES]; // the last one also takes what has no room
    uint64_t buckets[METRICS_BUCKETS];
    uint64_t count;
    int64_t sum_ns;
};

struct metrics {
    struct VEC(struct metrics_row *) rows;
};

// metrics_count counts an answer. watches are counted without a duration.
void metrics_count(struct metrics *m, const struct api_kind *kind, struct str sub, unsigned verb,
                   int code, int64_t took_ns);

// metrics_write adds the request metrics in Prometheus' text form.
void metrics_write(const struct metrics *m, struct sbuf *out);

// metrics_write_process adds process_* from the system.
void metrics_write_process(struct sbuf *out, int64_t started_wall_ns);

// metrics_gauge and metrics_counter add one number with its help.
void metrics_gauge(struct sbuf *out, const char *name, const char *help, uint64_t value);
void metrics_counter(struct sbuf *out, const char *name, const char *help, uint64_t value);

void metrics_done(struct metrics *m);

#endif
