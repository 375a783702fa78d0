// SPDX-License-Identifier: Apache-2.0
//
// Deletes ResourceSlices of drivers that are gone, one job a driver, retried until the API server
// has accepted it: a scheduler must not allocate devices that no driver serves.
#include "node/dra/wipe.h"

#include <stdlib.h>

#include "base/backoff.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"

#include "base/banned.h"

#define DELAY_NS     (30 * CLOCK_NS_PER_SEC)
#define RETRY_MIN_NS CLOCK_NS_PER_SEC
#define RETRY_MAX_NS (300 * CLOCK_NS_PER_SEC)
#define TRIES_MAX    100

static struct log_module log_mod = LOG_MODULE("agent");

// One wiping: waiting for its time, or under way. It is alone in its memory while a call is.
struct job {
    struct list_node node;
    struct wipe *owner; // NULL: abandoned
    char *driver;       // "": all
    struct exec_timer timer;
    bool calling;
    unsigned tries;
};

struct wipe {
    struct wipe_options options;
    char *node;
    struct list jobs;
};

static void wipe_run_job(void *arg);

static void wipe_job_free(struct job *j)
{
    if (j->owner)
        exec_timer_stop(j->owner->options.exec, &j->timer);
    list_remove(&j->node);
    free(j->driver);
    free(j);
}

// Forgets a job; one whose call is under way goes when that has ended.
static void wipe_job_drop(struct job *j)
{
    if (!j->calling) {
        wipe_job_free(j);
        return;
    }
    exec_timer_stop(j->owner->options.exec, &j->timer);
    list_remove(&j->node);
    j->owner = NULL;
}

static struct job *wipe_find_job(const struct wipe *w, struct str driver)
{
    list_foreach(&w->jobs, n) {
        struct job *j = list_entry(n, struct job, node);
        if (str_eqz(driver, j->driver))
            return j;
    }
    return NULL;
}

static struct job *wipe_job_new(struct wipe *w, struct str driver, int64_t delay_ns)
{
    struct job *j = xcalloc(1, sizeof(*j));
    j->owner = w;
    j->driver = xstrndup(driver.p, driver.n);
    j->timer.fn = wipe_run_job;
    j->timer.arg = j;
    list_push_back(&w->jobs, &j->node);
    exec_timer_start(w->options.exec, &j->timer, delay_ns);
    return j;
}

static void wipe_retry_later(struct job *j)
{
    struct exec *e = j->owner->options.exec;
    static const struct backoff_policy p = {
        .first_ns = RETRY_MIN_NS, .max_ns = RETRY_MAX_NS, .later_percent = 20};
    int64_t wait_ns = backoff_spread_ns(&p, backoff_wait_ns(&p, j->tries), e->rng);
    if (++j->tries >= TRIES_MAX)
        wipe_job_free(j);
    else
        exec_timer_start(e, &j->timer, wait_ns);
}

// The job after its call, or NULL when it is abandoned.
static struct job *wipe_end_call(struct job *j)
{
    j->calling = false;
    if (j->owner)
        return j;
    wipe_job_free(j);
    return NULL;
}

static void wipe_on_deleted(void *arg, const struct client_answer *a)
{
    struct job *j = wipe_end_call(arg);
    if (!j)
        return;
    if (a->code != 0 && a->code != -ERR_NOT_FOUND) {
        LOG_INFO(&log_mod, "deleting slices failed, will be tried again",
                 log_z("driver", j->driver), log_z("why", a->err ? a->err->msg : ""));
        wipe_retry_later(j);
        return;
    }
    const struct wipe_options *o = &j->owner->options;
    LOG_INFO(&log_mod, "deleted the slices of the node", log_z("node", j->owner->node),
             log_z("driver", j->driver));
    if (o->wiped)
        o->wiped(o->arg, str_z(j->driver));
    wipe_job_free(j);
}

static void wipe_on_node(void *arg, const struct client_answer *a)
{
    struct job *j = wipe_end_call(arg);
    if (!j)
        return;
    if (a->code != 0) {
        wipe_retry_later(j);
        return;
    }
    struct wipe *w = j->owner;
    cleanup_sbuf struct sbuf fields = {0};
    if (j->driver[0])
        sbuf_addf(&fields, "spec.driver=%s,", j->driver);
    sbuf_addf(&fields, "spec.nodeName=%s", w->node);
    const struct client_list_options list = {.field_selector = sbuf_str(&fields)};
    j->calling = true;
    client_delete_all(w->options.client,
                      api_kind_find(STR("resource.k8s.io/v1"), STR("ResourceSlice")), &list,
                      wipe_on_deleted, j);
}

static void wipe_run_job(void *arg)
{
    struct job *j = arg;
    const struct client_key key = {.kind = api_kind_find(STR("v1"), STR("Node")),
                                   .name = str_z(j->owner->node)};
    j->calling = true;
    client_get(j->owner->options.client, &key, wipe_on_node, j);
}

struct wipe *wipe_new(const struct wipe_options *options)
{
    struct wipe *w = xcalloc(1, sizeof(*w));
    w->options = *options;
    w->node = xstrndup(options->node.p, options->node.n);
    list_init(&w->jobs);
    return w;
}

void wipe_free(struct wipe *w)
{
    if (!w)
        return;
    list_foreach(&w->jobs, n)
        wipe_job_drop(list_entry(n, struct job, node));
    free(w->node);
    free(w);
}

void wipe_all(struct wipe *w)
{
    if (!wipe_find_job(w, STR("")))
        (void)wipe_job_new(w, STR(""), 0);
}

void wipe_driver(struct wipe *w, struct str driver, bool usable)
{
    struct job *j = wipe_find_job(w, driver);
    if (usable && j)
        wipe_job_drop(j);
    else if (!usable && !j)
        (void)wipe_job_new(w, driver, w->options.delay_ns ? w->options.delay_ns : DELAY_NS);
}
