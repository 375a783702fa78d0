// SPDX-License-Identifier: Apache-2.0
//
// What the load generators share: a client on a loop of their own, many operations in flight,
// times, processor time of others. They are written straight on: each step runs the loop until it
// is done.
#ifndef LAB_BENCH_H
#define LAB_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/kubeconfig.h"
#include "client/remote.h"
#include "cmd/engine/cli.h"
#include "net/loop.h"

#define BENCH_PIDS_MAX 16

// How to reach the server and what to show; the flags both generators have.
struct bench_args {
    const char *pids; // name=pid,…
    size_t concurrency;
    bool json;
};

struct bench {
    const struct bench_args *args;
    struct kubeconfig config;
    struct loop *loop;
    struct client *client;
    struct err err; // the first failure of bench_each
    // A step under way:
    void (*op)(struct bench *b, size_t i, void *arg);
    void *arg;
    size_t next, total, finished, failures;
    struct exec_timer timer;
};

int bench_open(struct bench *b, const struct bench_args *args, struct err *err) MUST_USE;
void bench_close(struct bench *b);

// bench_each starts op for 0 … n-1, concurrency of them at a time, and runs the loop until each has
// called bench_finished. Returns 0, or the first failure's code, which is in b->err.
int bench_each(struct bench *b, size_t n, size_t concurrency,
               void (*op)(struct bench *b, size_t i, void *arg), void *arg);
void bench_finished(struct bench *b, int code, const struct err *err);

// bench_sleep runs the loop for a while.
void bench_sleep(struct bench *b, int64_t ns);

struct bench_objects VEC(const struct typed_object *);

// bench_list adds all objects of a kind in a namespace (empty: all), referenced.
int bench_list(struct bench *b, const struct api_kind *kind, struct str namespace,
               struct bench_objects *out) MUST_USE;
void bench_objects_done(struct bench_objects *o);

// bench_decode makes a typed object of JSON text, in arena; aborts on text that is not one: it is
// ours.
struct api_object bench_decode(struct arena *arena, struct str json);
const struct api_kind *bench_kind(const char *api_version, const char *kind);

// --- Numbers -------------------------------------------------------------------------------------

int64_t bench_now_ns(void);

// Processor time at one moment.
struct bench_cpu {
    double self_s, machine_s;
    size_t pids_len;
    struct {
        struct str name;
        double s;
    } pids[BENCH_PIDS_MAX];
};

void bench_cpu_read(const struct bench_args *args, struct bench_cpu *ret);
// bench_cpu_since makes *now the time used since before; machine_s becomes that of all others.
void bench_cpu_since(struct bench_cpu *now, const struct bench_cpu *before);

struct bench_times VEC(int64_t);

// bench_percentile_ms: the times must be sorted (bench_sort). 0 of none.
void bench_sort(struct bench_times *t);
double bench_percentile_ms(const struct bench_times *t, double part);

extern const struct cli_verb bench_sched_verb, bench_api_verb, bench_fleet_verb;

// Options that generators of requests have in common, beside common_connect.
extern struct bench_args bench_args;
extern const struct cli_group bench_group;

#endif
