// SPDX-License-Identifier: Apache-2.0
//
// Runs probes and hooks: by a command in the container or over the network, once or periodically,
// and counts successes and failures up to the thresholds.
#include "node/pods/probe.h"

#include <stdlib.h>
#include <strings.h>

#include "base/mem.h"

#include "base/banned.h"

#define OUTPUT_MAX ((size_t)10 * 1024) // as kubelet keeps of a check

// --- One check -----------------------------------------------------------------------------------

struct probe_action {
    struct runtime *runtime;
    struct probe_net *net;
    struct exec *exec;
    struct runtime_exec *command;
    struct probe_net_call *call;
    struct exec_timer later; // of a check that fails before it begins
    probe_net_fn done;
    void *arg;
    struct sbuf text;
    bool cancelled;
};

static void probe_action_free(struct probe_action *a)
{
    sbuf_done(&a->text);
    free(a);
}

static void probe_action_end(struct probe_action *a, bool ok, struct str text)
{
    if (!a->cancelled)
        a->done(a->arg, ok, text);
    probe_action_free(a);
}

static void probe_on_output(void *arg, int stream, struct str bytes)
{
    struct probe_action *a = arg;
    (void)stream;
    if (a->text.n < OUTPUT_MAX)
        sbuf_add(&a->text, str_upto(bytes, OUTPUT_MAX - a->text.n));
}

static void probe_on_command(void *arg, int code, int32_t exit_code, const struct err *err)
{
    struct probe_action *a = arg;
    a->command = NULL;
    if (code == -ERR_TIMEOUT) {
        sbuf_clear(&a->text);
        sbuf_addf(&a->text, "command timed out");
    } else if (code < 0) {
        sbuf_clear(&a->text);
        sbuf_addz(&a->text, err->msg);
    }
    probe_action_end(a, code == 0 && exit_code == 0, sbuf_str(&a->text));
}

static void probe_on_net(void *arg, bool ok, struct str text)
{
    struct probe_action *a = arg;
    a->call = NULL;
    probe_action_end(a, ok, text);
}

static void probe_on_failed_later(void *arg)
{
    struct probe_action *a = arg;
    probe_action_end(a, false, sbuf_str(&a->text));
}

static void probe_fail_later(struct probe_action *a, const char *why)
{
    sbuf_addz(&a->text, why);
    a->later = (struct exec_timer){.fn = probe_on_failed_later, .arg = a};
    exec_timer_start(a->exec, &a->later, 0);
}

// The number of a port that may be given by name; 0: there is none.
static uint16_t probe_resolve_port(const struct api_int_or_string *p, const struct api_container *c)
{
    uint64_t number = 0;
    if (!p->is_text)
        return p->number > 0 && p->number < 65536 ? (uint16_t)p->number : 0;
    for (size_t i = 0; i < c->ports.n; i++)
        if (str_eq(c->ports.p[i].name, p->text))
            return (uint16_t)c->ports.p[i].container_port;
    return str_to_u64(p->text, &number) == 0 && number < 65536 ? (uint16_t)number : 0;
}

static struct str probe_find_header(const struct api_http_get_action *h, const char *name)
{
    for (size_t i = 0; i < h->http_headers.n; i++)
        if (h->http_headers.p[i].name.n == strlen(name) &&
            strncasecmp(h->http_headers.p[i].name.p, name, strlen(name)) == 0)
            return h->http_headers.p[i].value;
    return (struct str){0};
}

static bool probe_make_net_request(const struct probe_target *t, const struct api_probe_handler *h,
                                   struct probe_net_request *q)
{
    struct str own = t->address.n ? t->address : STR("127.0.0.1");
    q->host = own;
    q->netns = t->address.n ? NULL : t->netns;
    if (h->http_get) {
        q->kind = str_eqz(h->http_get->scheme, "HTTPS") ? PROBE_NET_HTTPS : PROBE_NET_HTTP;
        q->port = probe_resolve_port(&h->http_get->port, t->container);
        q->path = h->http_get->path.n ? h->http_get->path : STR("/");
        if (h->http_get->host.n) {
            q->host = h->http_get->host;
            q->netns = NULL; // somebody else is meant
        }
        q->host_header = probe_find_header(h->http_get, "host");
        q->headers = h->http_get->http_headers.p;
        q->headers_len = h->http_get->http_headers.n;
    } else if (h->tcp_socket) {
        q->kind = PROBE_NET_TCP;
        q->port = probe_resolve_port(&h->tcp_socket->port, t->container);
        if (h->tcp_socket->host.n) {
            q->host = h->tcp_socket->host;
            q->netns = NULL;
        }
    } else {
        q->kind = PROBE_NET_GRPC;
        q->port = (uint16_t)h->grpc->port;
        q->service = h->grpc->service;
    }
    return q->port != 0;
}

static void probe_run_command(struct probe_action *a, const struct probe_target *t,
                              const struct api_exec_action *e, int64_t timeout_ns)
{
    const struct runtime_exec_options o = {.container_id = t->container_id,
                                           .command = e->command.p,
                                           .command_len = e->command.n,
                                           .timeout_ns = timeout_ns,
                                           .output = probe_on_output,
                                           .done = probe_on_command,
                                           .arg = a};
    a->command = t->runtime->ops->exec(t->runtime, &o);
}

struct probe_action *probe_run(const struct probe_target *t, const struct api_probe_handler *h,
                               int64_t timeout_ns, probe_net_fn done, void *arg)
{
    struct probe_action *a = xcalloc(1, sizeof(*a));
    *a = (struct probe_action){
        .runtime = t->runtime, .net = t->net, .exec = t->exec, .done = done, .arg = arg};
    struct probe_net_request q = {.timeout_ns = timeout_ns};
    if (h->exec)
        probe_run_command(a, t, h->exec, timeout_ns);
    else if (!h->http_get && !h->tcp_socket && !h->grpc)
        probe_fail_later(a, "missing handler");
    else if (!probe_make_net_request(t, h, &q))
        probe_fail_later(a, "the port is no number and no name of a port of the container");
    else if (!t->net)
        probe_fail_later(a, "this agent was started without a network");
    else
        a->call = t->net->check(t->net, &q, probe_on_net, a);
    return a;
}

void probe_cancel(struct probe_action *a)
{
    if (!a)
        return;
    if (a->command) {
        a->cancelled = true; // its end comes all the same
        a->runtime->ops->exec_cancel(a->command);
        return;
    }
    if (a->call)
        a->net->cancel(a->call);
    exec_timer_stop(a->exec, &a->later);
    probe_action_free(a);
}

// --- Periodic probes -----------------------------------------------------------------------------

struct probe {
    struct probe_options options;
    struct arena arena;
    struct exec_timer timer;
    struct probe_action *action;
    bool running;
    bool good, known;
    bool last;
    int32_t in_a_row;
};

const char *probe_type_name(enum probe_type t)
{
    static const char *const names[] = {"Startup", "Liveness", "Readiness"};
    return names[t];
}

static int32_t probe_or_default(int32_t v, int32_t otherwise)
{
    return v > 0 ? v : otherwise;
}

static void probe_count_result(struct probe *p, bool ok)
{
    const struct api_probe *s = p->options.probe;
    p->in_a_row = p->known && p->last == ok ? p->in_a_row + 1 : 1;
    if (!p->known)
        p->known = true;
    p->last = ok;
    if (p->in_a_row <
        probe_or_default(ok ? s->success_threshold : s->failure_threshold, ok ? 1 : 3))
        return;
    bool over = p->options.type == PROBE_STARTUP || (p->options.type == PROBE_LIVENESS && !ok);
    bool changed = p->good != ok || p->options.type == PROBE_STARTUP;
    p->good = ok;
    if (over) {
        p->running = false;
        exec_timer_stop(p->options.target.exec, &p->timer);
    }
    if (changed) // last: the owner may end this from there
        p->options.changed(p->options.arg, p->options.type, ok);
}

static void probe_on_checked(void *arg, bool ok, struct str text)
{
    struct probe *p = arg;
    p->action = NULL;
    if (!p->running)
        return;
    exec_timer_start(p->options.target.exec, &p->timer,
                     probe_or_default(p->options.probe->period_seconds, 10) * CLOCK_NS_PER_SEC);
    if (!ok)
        p->options.failed(p->options.arg, p->options.type, text);
    probe_count_result(p, ok);
}

static void probe_start_check(void *arg)
{
    struct probe *p = arg;
    const struct api_probe *s = p->options.probe;
    p->action =
        probe_run(&p->options.target, &s->probe_handler,
                  probe_or_default(s->timeout_seconds, 1) * CLOCK_NS_PER_SEC, probe_on_checked, p);
}

struct probe *probe_new(const struct probe_options *options)
{
    struct probe *p = xcalloc(1, sizeof(*p));
    p->options = *options;
    p->options.pod = typed_object_ref(options->pod);
    struct probe_target *t = &p->options.target;
    t->container_id = arena_str(&p->arena, t->container_id);
    t->address = arena_str(&p->arena, t->address);
    t->netns = t->netns ? arena_str(&p->arena, str_z(t->netns)).p : NULL;
    p->good = options->good;
    p->timer = (struct exec_timer){.fn = probe_start_check, .arg = p};
    return p;
}

void probe_start(struct probe *p)
{
    if (p->running)
        return;
    int64_t delay = p->options.probe->initial_delay_seconds * CLOCK_NS_PER_SEC;
    int64_t due = p->options.started_ns + delay - exec_wall_ns(p->options.target.exec);
    if (due > delay)
        due = delay; // the clock was set back since
    p->running = true;
    exec_timer_start(p->options.target.exec, &p->timer, due > 0 ? due : 0);
}

void probe_free(struct probe *p)
{
    if (!p)
        return;
    exec_timer_stop(p->options.target.exec, &p->timer);
    probe_cancel(p->action);
    typed_object_unref(p->options.pod);
    arena_done(&p->arena);
    free(p);
}

bool probe_good(const struct probe *p)
{
    return p->good;
}
