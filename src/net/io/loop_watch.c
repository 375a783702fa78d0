// SPDX-License-Identifier: Apache-2.0
//
// The watchdog of event loops: how long a turn takes, from the end of one poll to the beginning of
// the next. libuv counts the time it waits in a poll; the rest of a turn is work.
#include "net/io/loop_watch.h"

#include <pthread.h>

#include "base/log.h"
#include "net/loop.h"

#include "base/banned.h"

static struct log_module log_mod = LOG_MODULE("loop");

// Sanitizers make everything several times slower.
#ifdef DRAY_ASAN
#    define LOOP_TURN_NS (INT64_C(1000) * CLOCK_NS_PER_MS)
#else
#    define LOOP_TURN_NS (INT64_C(50) * CLOCK_NS_PER_MS)
#endif
#define LOOP_LOG_NS (INT64_C(10) * CLOCK_NS_PER_SEC)

// All watched loops of the process.
static pthread_mutex_t loop_watch_lock = PTHREAD_MUTEX_INITIALIZER;
static struct loop_watch *loop_watch_all;

static void loop_watch_count(struct loop_watch *w, int64_t took_ns, int64_t now_ns)
{
    pthread_mutex_lock(&loop_watch_lock);
    w->stalls++;
    if (took_ns > w->longest_ns)
        w->longest_ns = took_ns;
    pthread_mutex_unlock(&loop_watch_lock);
    if (w->logged_ns && now_ns - w->logged_ns < LOOP_LOG_NS)
        return;
    w->logged_ns = now_ns;
    LOG_WARN(&log_mod, "a turn of an event loop took too long; requests waited meanwhile",
             log_z("loop", w->name), log_i64("ms", took_ns / CLOCK_NS_PER_MS));
}

static void loop_watch_turn(uv_prepare_t *prepare)
{
    struct loop_watch *w = container_of(prepare, struct loop_watch, prepare);
    int64_t now_ns = (int64_t)uv_hrtime();
    uint64_t idle_ns = uv_metrics_idle_time(prepare->loop);
    int64_t took_ns = now_ns - w->began_ns - (int64_t)(idle_ns - w->idle_ns);
    if (w->began_ns && took_ns > LOOP_TURN_NS)
        loop_watch_count(w, took_ns, now_ns);
    w->began_ns = now_ns;
    w->idle_ns = idle_ns;
}

void loop_watch_start(struct loop_watch *w, struct uv_loop_s *uv, const char *name)
{
    w->name = name;
    (void)uv_loop_configure(uv, UV_METRICS_IDLE_TIME);
    (void)uv_prepare_start(&w->prepare, loop_watch_turn);
    pthread_mutex_lock(&loop_watch_lock);
    w->next = loop_watch_all;
    loop_watch_all = w;
    pthread_mutex_unlock(&loop_watch_lock);
}

void loop_watch_stop(struct loop_watch *w)
{
    if (!w->name)
        return;
    pthread_mutex_lock(&loop_watch_lock);
    struct loop_watch **at = &loop_watch_all;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    pthread_mutex_unlock(&loop_watch_lock);
}

void loop_add_metrics(struct sbuf *out)
{
    cleanup_sbuf struct sbuf longest = {0};
    sbuf_addz(out, "# HELP dray_loop_stalls_total Turns of an event loop that took longer than "
                   "50 ms.\n# TYPE dray_loop_stalls_total counter\n");
    sbuf_addz(&longest, "# HELP dray_loop_longest_turn_seconds The longest such turn.\n"
                        "# TYPE dray_loop_longest_turn_seconds gauge\n");
    pthread_mutex_lock(&loop_watch_lock);
    for (const struct loop_watch *w = loop_watch_all; w; w = w->next) {
        sbuf_addf(out, "dray_loop_stalls_total{loop=\"%s\"} %llu\n", w->name,
                  (unsigned long long)w->stalls);
        sbuf_addf(&longest, "dray_loop_longest_turn_seconds{loop=\"%s\"} %.3f\n", w->name,
                  (double)w->longest_ns / (double)CLOCK_NS_PER_SEC);
    }
    pthread_mutex_unlock(&loop_watch_lock);
    sbuf_add(out, sbuf_str(&longest));
}
