// SPDX-License-Identifier: Apache-2.0
//
// /containerLogs/NAMESPACE/POD/CONTAINER with the parameters of v1.PodLogOptions.
#include <stdlib.h>

#include "node/endpoint/kubelet_http_int.h"
#include "node/runtime/cri_log.h"

#include "base/banned.h"

struct log_stream {
    struct kubelet_stream stream; // first
    struct kubelet_http *h;
    struct http_request *q;
    struct log_follower *follower;
    struct cri_log log;
    bool cut; // the limit of bytes was reached
};

struct log_query {
    struct cri_log_options options;
    int64_t tail_lines;
    bool follow;
    bool previous;
};

// --- Parameters ----------------------------------------------------------------------------------

static bool kubelet_logs_read_number(const struct query *q, const char *name, int64_t least,
                                     int64_t *ret, int *status)
{
    int64_t n = 0;
    int r = query_i64(q, str_z(name), &n, NULL);
    if (r < 0)
        *status = 400;
    else if (r > 0 && n < least)
        *status = 422;
    else if (r > 0)
        *ret = n;
    return r > 0;
}

static void kubelet_logs_read_stream(const struct query *q, struct log_query *ret, int *status)
{
    struct str stream = query_str(q, STR("stream"));
    ret->options.no_stdout = str_eqz(stream, "Stderr");
    ret->options.no_stderr = str_eqz(stream, "Stdout");
    bool one = ret->options.no_stdout || ret->options.no_stderr;
    if ((stream.n && !one && !str_eqz(stream, "All")) || (one && ret->tail_lines >= 0))
        *status = 422;
}

// Returns 0, or the status to refuse with.
static int kubelet_logs_read_query(const struct query *q, int64_t now_ns, struct log_query *ret)
{
    int status = 0;
    int64_t seconds = 0;
    struct str tail = query_str(q, STR("tail")), time = query_str(q, STR("sinceTime"));
    *ret = (struct log_query){.tail_lines = -1, .options = {.limit_bytes = -1}};
    ret->follow = query_bool(q, STR("follow"));
    ret->previous = query_bool(q, STR("previous"));
    ret->options.timestamps = query_bool(q, STR("timestamps"));
    if (!str_eqz(tail, "all"))
        (void)kubelet_logs_read_number(q, tail.n ? "tail" : "tailLines", 0, &ret->tail_lines,
                                       &status);
    (void)kubelet_logs_read_number(q, "limitBytes", 1, &ret->options.limit_bytes, &status);
    bool has_seconds = kubelet_logs_read_number(q, "sinceSeconds", 1, &seconds, &status);
    if (has_seconds && time.n)
        status = status ? status : 422;
    if (has_seconds && seconds < INT64_MAX / CLOCK_NS_PER_SEC)
        ret->options.since = moment_from_ns(now_ns - seconds * CLOCK_NS_PER_SEC);
    if (time.n && rfc3339_parse(time, &ret->options.since, NULL) < 0)
        status = 400;
    kubelet_logs_read_stream(q, ret, &status);
    return status;
}

// --- Stream --------------------------------------------------------------------------------------

static void kubelet_logs_free(struct log_stream *l)
{
    list_remove(&l->stream.node);
    log_follower_free(l->follower);
    cri_log_done(&l->log);
    free(l);
}

static void kubelet_logs_end(struct kubelet_stream *s)
{
    struct log_stream *l = container_of(s, struct log_stream, stream);
    http_abort(l->q);
    kubelet_logs_free(l);
}

static void kubelet_logs_on_closed(void *arg)
{
    kubelet_logs_free(arg);
}

static void kubelet_logs_on_drained(void *arg)
{
    struct log_stream *l = arg;
    log_follower_go(l->follower);
}

static bool kubelet_logs_send(struct log_stream *l, struct sbuf *text)
{
    return text->n == 0 || http_write(l->q, net_buf_new(text));
}

static void kubelet_logs_on_done(void *arg)
{
    struct log_stream *l = arg;
    struct sbuf text = {0};
    if (!l->cut)
        cri_log_end(&l->log, 0, &text);
    (void)kubelet_logs_send(l, &text);
    sbuf_done(&text);
    http_end(l->q);
    kubelet_logs_free(l);
}

static enum log_take kubelet_logs_on_data(void *arg, struct str bytes)
{
    struct log_stream *l = arg;
    struct sbuf text = {0};
    l->cut = !cri_log_read(&l->log, bytes, 0, &text);
    bool room = kubelet_logs_send(l, &text);
    sbuf_done(&text);
    return l->cut ? LOG_STOP : room ? LOG_MORE : LOG_WAIT;
}

static int kubelet_logs_start(struct kubelet_http *h, struct http_request *q,
                              const struct log_query *lq, const struct kubelet_container *c,
                              struct err *err)
{
    struct log_stream *l = xcalloc(1, sizeof(*l));
    *l = (struct log_stream){
        .stream.end = kubelet_logs_end, .h = h, .q = q, .log.options = lq->options};
    const struct log_follower_options o = {
        .exec = h->exec,
        .runtime = h->o.runtime,
        .container_id = lq->previous ? c->previous_id : c->id,
        .path = lq->previous ? c->previous_log_path : c->log_path,
        .follow = lq->follow,
        .tail_lines = lq->tail_lines,
        .data = kubelet_logs_on_data,
        .done = kubelet_logs_on_done,
        .arg = l,
    };
    int r = log_follower_new(&o, &l->follower, err);
    if (r < 0) {
        free(l);
        return r;
    }
    list_push_back(&h->streams, &l->stream.node);
    q->arg = l;
    q->closed = kubelet_logs_on_closed;
    q->drained = kubelet_logs_on_drained;
    http_start(q, 200, STR("text/plain"), NULL, 0);
    http_set_patient(q);
    return 0;
}

// The run whose log is wanted, as kubelet chooses it. Returns 0 or -ERR_BAD_REQUEST.
static int kubelet_logs_check_run(const struct kubelet_target *t, const struct kubelet_container *c,
                                  bool previous, struct err *err)
{
    if (previous && !c->previous_log_path)
        return err_set(err, ERR_BAD_REQUEST,
                       "previous terminated container \"%.*s\" in pod \"%.*s\" not found",
                       STR_ARG(t->container), STR_ARG(t->pod));
    if (previous || c->log_path)
        return 0;
    if (str_eqz(c->waiting, "ErrImagePull"))
        return err_set(err, ERR_BAD_REQUEST,
                       "container \"%.*s\" in pod \"%.*s\" is waiting to start: image can't be "
                       "pulled",
                       STR_ARG(t->container), STR_ARG(t->pod));
    if (str_eqz(c->waiting, "ImagePullBackOff"))
        return err_set(err, ERR_BAD_REQUEST,
                       "container \"%.*s\" in pod \"%.*s\" is waiting to start: trying and failing "
                       "to pull image",
                       STR_ARG(t->container), STR_ARG(t->pod));
    if (c->waiting.n)
        return err_set(err, ERR_BAD_REQUEST,
                       "container \"%.*s\" in pod \"%.*s\" is waiting to start: %.*s",
                       STR_ARG(t->container), STR_ARG(t->pod), STR_ARG(c->waiting));
    return err_set(err, ERR_BAD_REQUEST,
                   "container \"%.*s\" in pod \"%.*s\" is waiting to start - no logs yet",
                   STR_ARG(t->container), STR_ARG(t->pod));
}

void kubelet_logs(struct kubelet_http *h, struct http_request *q, const struct kubelet_target *t)
{
    struct log_query lq;
    struct kubelet_container c = {0};
    struct err err = {0};
    int status = kubelet_logs_read_query(&t->query, exec_wall_ns(h->exec), &lq);
    if (status) {
        kubelet_reply(q, status,
                      status == 400 ? STR("{\"message\": \"Unable to decode query.\"}")
                                    : STR("{\"message\": \"Invalid request.\"}"));
        return;
    }
    int r = h->o.find(h->o.arg, t->namespace, t->pod, t->uid, t->container, &c, &err);
    if (r == 0)
        r = kubelet_logs_check_run(t, &c, lq.previous, &err);
    if (r == 0)
        r = kubelet_logs_start(h, q, &lq, &c, &err);
    if (r < 0)
        kubelet_reply_error(q, &err);
}
