// SPDX-License-Identifier: Apache-2.0
//
// Counts of durations, and Prometheus' text. Who counts keeps a prom_times for each set of labels;
// the buckets are written once, beside the name of the metric.
#ifndef CODEC_PROM_H
#define CODEC_PROM_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

#define PROM_BUCKETS_MAX 20

// Upper edges: those of edges, or n from first on, each factor times the one before.
struct prom_buckets {
    double first, factor;
    const double *edges; // NULL: as first and factor say
    size_t n;            // at most PROM_BUCKETS_MAX
};

// How often something took how long; the last counter is for what is above all edges.
struct prom_times {
    uint64_t counts[PROM_BUCKETS_MAX + 1];
    uint64_t n;
    double sum;
};

void prom_observe(struct prom_times *t, const struct prom_buckets *b, double value);
void prom_observe_ns(struct prom_times *t, const struct prom_buckets *b, int64_t took_ns);

// prom_head adds HELP and TYPE of a metric.
void prom_head(struct sbuf *out, const char *name, const char *type, const char *help);

// prom_write_times adds a histogram's lines. labels: such as `a="b"`, without a comma at its end;
// may be empty.
void prom_write_times(struct sbuf *out, const char *name, const char *labels,
                      const struct prom_times *t, const struct prom_buckets *b);

#endif
