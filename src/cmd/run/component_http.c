// SPDX-License-Identifier: Apache-2.0
//
// Health and metrics of a component over HTTP: /healthz, /livez, /readyz and /metrics.
#include "cmd/run/component_http.h"

#include <stdlib.h>

#include "net/http.h"
#include "server/metrics.h"

#include "base/banned.h"

struct component_http {
    struct component_http_options o;
    struct http_server *server;
    int64_t started_wall_ns;
};

static void component_http_send_answer(struct http_request *q, int status, const char *type,
                                       struct sbuf *text)
{
    http_reply(q, status, str_z(type), NULL, 0, net_buf_new(text));
}

static void answer_health(struct http_request *q, bool good, struct sbuf *why)
{
    struct sbuf text = {0};
    if (good)
        sbuf_addz(&text, "ok");
    else
        sbuf_addf(&text, "not ok: %s\n", why->p);
    component_http_send_answer(q, good ? 200 : 500, "text/plain; charset=utf-8", &text);
    sbuf_done(&text);
}

static void answer_metrics(struct component_http *h, struct http_request *q)
{
    struct sbuf text = {0};
    h->o.metrics(h->o.arg, &text);
    loop_add_metrics(&text);
    metrics_write_process(&text, h->started_wall_ns);
    component_http_send_answer(q, 200, "text/plain; version=0.0.4; charset=utf-8", &text);
    sbuf_done(&text);
}

static void component_http_handle_request(void *arg, struct http_request *q)
{
    struct component_http *h = arg;
    cleanup_sbuf struct sbuf why = {0};
    struct sbuf text = {0};
    bool read = str_eqz(q->method, "GET") || str_eqz(q->method, "HEAD");
    if (read && (str_eqz(q->path, "/healthz") || str_eqz(q->path, "/livez"))) {
        answer_health(q, true, &why);
    } else if (read && str_eqz(q->path, "/readyz")) {
        answer_health(q, h->o.ready(h->o.arg, &why), &why);
    } else if (read && str_eqz(q->path, "/metrics")) {
        answer_metrics(h, q);
    } else {
        sbuf_addz(&text, "there is /healthz, /livez, /readyz and /metrics\n");
        component_http_send_answer(q, read ? 404 : 405, "text/plain; charset=utf-8", &text);
        sbuf_done(&text);
    }
}

int component_http_new(const struct component_http_options *options, struct component_http **ret,
                       uint16_t *ret_port, struct err *err)
{
    struct component_http *h = xcalloc(1, sizeof(*h));
    h->o = *options;
    h->started_wall_ns = exec_wall_ns(loop_exec(options->loop));
    const struct http_server_options so = {.loop = options->loop,
                                           .limits = {.body_bytes = 1024, .connections = 64},
                                           .handle = component_http_handle_request,
                                           .arg = h};
    h->server = http_server_new(&so);
    int r = http_server_listen_tcp(h->server, str_z(options->listen), ret_port, err);
    if (r < 0) {
        component_http_free(h);
        return err_wrap(err, "--bind-address");
    }
    *ret = h;
    return 0;
}

void component_http_free(struct component_http *h)
{
    if (!h)
        return;
    http_server_free(h->server);
    free(h);
}
