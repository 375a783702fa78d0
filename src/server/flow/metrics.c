// SPDX-License-Identifier: Apache-2.0
//
// Counters and histograms of requests by resource and verb, written in Prometheus' text format
// under kube-apiserver's names.
#include "server/metrics.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/resource.h>

#include "base/clock.h"

#include "base/banned.h"

// Upper ends of the buckets, in milliseconds; upstream's.
static const int64_t bucket_ms[METRICS_BUCKETS] = {5,     25,    50,    100,   200,  400,
                                                   600,   800,   1000,  1250,  1500, 2000,
                                                   3000,  4000,  5000,  6000,  8000, 10000,
                                                   15000, 20000, 30000, 45000, 60000};

static struct metrics_row *metrics_row_of(struct metrics *m, const struct api_kind *kind,
                                          struct str sub, unsigned verb)
{
    // The row that was just used is often the next one too: it moves to the front.
    for (size_t i = 0; i < m->rows.n; i++) {
        struct metrics_row *row = m->rows.p[i];
        if (row->kind != kind || row->verb != verb || !str_eq(row->sub, sub))
            continue;
        if (i > 0) {
            m->rows.p[i] = m->rows.p[i - 1];
            m->rows.p[i - 1] = row;
        }
        return row;
    }
    struct metrics_row *row = xcalloc(1, sizeof(*row));
    *row = (struct metrics_row){.kind = kind, .sub = sub, .verb = verb};
    vec_push(&m->rows, row);
    return row;
}

static void count_code(struct metrics_row *row, int code)
{
    size_t i = 0;
    while (i + 1 < METRICS_CODES && row->codes[i].code && row->codes[i].code != code)
        i++;
    row->codes[i].code = code;
    row->codes[i].count++;
}

void metrics_count(struct metrics *m, const struct api_kind *kind, struct str sub, unsigned verb,
                   int code, int64_t took_ns)
{
    struct metrics_row *row = metrics_row_of(m, kind, sub, verb);
    count_code(row, code);
    if (verb == VERB_WATCH)
        return;
    row->count++;
    row->sum_ns += took_ns;
    size_t i = 0;
    while (i < METRICS_BUCKETS && took_ns > bucket_ms[i] * CLOCK_NS_PER_MS)
        i++;
    if (i < METRICS_BUCKETS)
        row->buckets[i]++;
}

static const char *verb_label(unsigned verb)
{
    switch (verb) {
    case VERB_CREATE:
        return "POST";
    case VERB_DELETE:
        return "DELETE";
    case VERB_DELETE_COLLECTION:
        return "DELETECOLLECTION";
    case VERB_GET:
        return "GET";
    case VERB_LIST:
        return "LIST";
    case VERB_PATCH:
        return "PATCH";
    case VERB_UPDATE:
        return "PUT";
    case VERB_WATCH:
        return "WATCH";
    default:
        return "";
    }
}

static void metrics_write_labels(const struct metrics_row *row, struct sbuf *out)
{
    static const struct api_kind none = {0};
    const struct api_kind *k = row->kind ? row->kind : &none;
    sbuf_addf(out,
              "component=\"apiserver\",dry_run=\"\",group=\"%.*s\",resource=\"%.*s\",scope=\"%s\","
              "subresource=\"%.*s\",verb=\"%s\",version=\"%.*s\"",
              STR_ARG(k->group), STR_ARG(k->plural),
              !row->kind      ? ""
              : k->namespaced ? "namespace"
                              : "cluster",
              STR_ARG(row->sub), row->kind ? verb_label(row->verb) : "GET", STR_ARG(k->version));
}

static void metrics_write_histogram(const struct metrics_row *row, struct sbuf *out)
{
    static const char name[] = "apiserver_request_duration_seconds";
    uint64_t below = 0;
    for (size_t i = 0; i < METRICS_BUCKETS; i++) {
        below += row->buckets[i];
        sbuf_addf(out, "%s_bucket{", name);
        metrics_write_labels(row, out);
        sbuf_addf(out, ",le=\"%g\"} %llu\n", (double)bucket_ms[i] / 1000,
                  (unsigned long long)below);
    }
    sbuf_addf(out, "%s_bucket{", name);
    metrics_write_labels(row, out);
    sbuf_addf(out, ",le=\"+Inf\"} %llu\n%s_sum{", (unsigned long long)row->count, name);
    metrics_write_labels(row, out);
    sbuf_addf(out, "} %.9f\n%s_count{", (double)row->sum_ns / 1e9, name);
    metrics_write_labels(row, out);
    sbuf_addf(out, "} %llu\n", (unsigned long long)row->count);
}

void metrics_write(const struct metrics *m, struct sbuf *out)
{
    sbuf_addz(out, "# HELP apiserver_request_total Requests by verb, resource and HTTP code.\n"
                   "# TYPE apiserver_request_total counter\n");
    vec_foreach(&m->rows, row) {
        for (size_t i = 0; i < METRICS_CODES && (*row)->codes[i].code; i++) {
            sbuf_addf(out, "apiserver_request_total{code=\"%d\",", (*row)->codes[i].code);
            metrics_write_labels(*row, out);
            sbuf_addf(out, "} %llu\n", (unsigned long long)(*row)->codes[i].count);
        }
    }
    sbuf_addz(out,
              "# HELP apiserver_request_duration_seconds Time from request to answer, by verb and "
              "resource.\n# TYPE apiserver_request_duration_seconds histogram\n");
    vec_foreach(&m->rows, row)
        if ((*row)->count)
            metrics_write_histogram(*row, out);
}

void metrics_gauge(struct sbuf *out, const char *name, const char *help, uint64_t value)
{
    sbuf_addf(out, "# HELP %s %s\n# TYPE %s gauge\n%s %llu\n", name, help, name, name,
              (unsigned long long)value);
}

void metrics_counter(struct sbuf *out, const char *name, const char *help, uint64_t value)
{
    sbuf_addf(out, "# HELP %s %s\n# TYPE %s counter\n%s %llu\n", name, help, name, name,
              (unsigned long long)value);
}

static uint64_t open_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    if (!d)
        return 0;
    uint64_t n = 0;
    while (readdir(d)) // NOLINT(concurrency-mt-unsafe): d is ours alone
        n++;
    (void)closedir(d);
    return n > 3 ? n - 3 : 0; // ., .. and the folder itself
}

void metrics_write_process(struct sbuf *out, int64_t started_wall_ns)
{
    struct rusage usage = {0};
    (void)getrusage(RUSAGE_SELF, &usage);
    double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    sbuf_addf(out,
              "# HELP process_cpu_seconds_total CPU time in user and system.\n"
              "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total %.6f\n",
              cpu);
    unsigned long long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f) {
        char line[128];
        size_t n = fread(line, 1, sizeof(line), f);
        struct str text = str_make(line, n), first, second;
        uint64_t value = 0;
        str_cut(text, ' ', &first, &text);
        str_cut(text, ' ', &second, &text);
        if (str_to_u64(first, &value) == 0)
            pages = value;
        if (str_to_u64(second, &value) == 0)
            resident = value;
        (void)fclose(f);
    }
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    metrics_gauge(out, "process_resident_memory_bytes", "Resident memory.", resident * page);
    metrics_gauge(out, "process_virtual_memory_bytes", "Virtual memory.", pages * page);
    metrics_gauge(out, "process_open_fds", "Open file descriptors.", open_files());
    struct rlimit files = {0};
    (void)getrlimit(RLIMIT_NOFILE, &files);
    metrics_gauge(out, "process_max_fds", "Limit of open file descriptors.", files.rlim_cur);
    sbuf_addf(out,
              "# HELP process_start_time_seconds When the process started.\n"
              "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %.3f\n",
              (double)started_wall_ns / 1e9);
}

void metrics_done(struct metrics *m)
{
    vec_foreach(&m->rows, row)
        free(*row);
    vec_done(&m->rows);
}
