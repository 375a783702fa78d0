// SPDX-License-Identifier: Apache-2.0
//
// Counters of durations and their text in Prometheus' format.
#include "codec/prom.h"

#include <assert.h>

#include "base/clock.h"

#include "base/banned.h"

static double edge_at(const struct prom_buckets *b, size_t i, double before)
{
    if (b->edges)
        return b->edges[i];
    return i ? before * b->factor : b->first;
}

void prom_observe(struct prom_times *t, const struct prom_buckets *b, double value)
{
    assert(b->n <= PROM_BUCKETS_MAX);
    double edge = 0;
    size_t i = 0;
    for (; i < b->n; i++) {
        edge = edge_at(b, i, edge);
        if (value <= edge)
            break;
    }
    t->counts[i < b->n ? i : PROM_BUCKETS_MAX]++;
    t->n++;
    t->sum += value;
}

void prom_observe_ns(struct prom_times *t, const struct prom_buckets *b, int64_t took_ns)
{
    prom_observe(t, b, (double)took_ns / (double)CLOCK_NS_PER_SEC);
}

void prom_head(struct sbuf *out, const char *name, const char *type, const char *help)
{
    sbuf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void prom_write_times(struct sbuf *out, const char *name, const char *labels,
                      const struct prom_times *t, const struct prom_buckets *b)
{
    uint64_t sum = 0;
    double edge = 0;
    const char *comma = *labels ? "," : "";
    for (size_t i = 0; i < b->n; i++) {
        edge = edge_at(b, i, edge);
        sum += t->counts[i];
        sbuf_addf(out, "%s_bucket{%s%sle=\"%.12g\"} %llu\n", name, labels, comma, edge,
                  (unsigned long long)sum);
    }
    sbuf_addf(out, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", name, labels, comma,
              (unsigned long long)t->n);
    const char *open = *labels ? "{" : "";
    const char *close = *labels ? "}" : "";
    sbuf_addf(out, "%s_sum%s%s%s %.15g\n%s_count%s%s%s %llu\n", name, open, labels, close, t->sum,
              name, open, labels, close, (unsigned long long)t->n);
}
