// SPDX-License-Identifier: Apache-2.0
//
// Probes and hooks of containers: what is called, how often, with which limits.
#include "api/validate/validate_core.h"

#include "base/banned.h"

static const struct str linux_signals[] = {
    STR_INIT("SIGABRT"),     STR_INIT("SIGALRM"),     STR_INIT("SIGBUS"),
    STR_INIT("SIGCHLD"),     STR_INIT("SIGCLD"),      STR_INIT("SIGCONT"),
    STR_INIT("SIGFPE"),      STR_INIT("SIGHUP"),      STR_INIT("SIGILL"),
    STR_INIT("SIGINT"),      STR_INIT("SIGIO"),       STR_INIT("SIGIOT"),
    STR_INIT("SIGKILL"),     STR_INIT("SIGPIPE"),     STR_INIT("SIGPOLL"),
    STR_INIT("SIGPROF"),     STR_INIT("SIGPWR"),      STR_INIT("SIGQUIT"),
    STR_INIT("SIGRTMAX"),    STR_INIT("SIGRTMAX-1"),  STR_INIT("SIGRTMAX-10"),
    STR_INIT("SIGRTMAX-11"), STR_INIT("SIGRTMAX-12"), STR_INIT("SIGRTMAX-13"),
    STR_INIT("SIGRTMAX-14"), STR_INIT("SIGRTMAX-2"),  STR_INIT("SIGRTMAX-3"),
    STR_INIT("SIGRTMAX-4"),  STR_INIT("SIGRTMAX-5"),  STR_INIT("SIGRTMAX-6"),
    STR_INIT("SIGRTMAX-7"),  STR_INIT("SIGRTMAX-8"),  STR_INIT("SIGRTMAX-9"),
    STR_INIT("SIGRTMIN"),    STR_INIT("SIGRTMIN+1"),  STR_INIT("SIGRTMIN+10"),
    STR_INIT("SIGRTMIN+11"), STR_INIT("SIGRTMIN+12"), STR_INIT("SIGRTMIN+13"),
    STR_INIT("SIGRTMIN+14"), STR_INIT("SIGRTMIN+15"), STR_INIT("SIGRTMIN+2"),
    STR_INIT("SIGRTMIN+3"),  STR_INIT("SIGRTMIN+4"),  STR_INIT("SIGRTMIN+5"),
    STR_INIT("SIGRTMIN+6"),  STR_INIT("SIGRTMIN+7"),  STR_INIT("SIGRTMIN+8"),
    STR_INIT("SIGRTMIN+9"),  STR_INIT("SIGSEGV"),     STR_INIT("SIGSTKFLT"),
    STR_INIT("SIGSTOP"),     STR_INIT("SIGSYS"),      STR_INIT("SIGTERM"),
    STR_INIT("SIGTRAP"),     STR_INIT("SIGTSTP"),     STR_INIT("SIGTTIN"),
    STR_INIT("SIGTTOU"),     STR_INIT("SIGURG"),      STR_INIT("SIGUSR1"),
    STR_INIT("SIGUSR2"),     STR_INIT("SIGVTALRM"),   STR_INIT("SIGWINCH"),
    STR_INIT("SIGXCPU"),     STR_INIT("SIGXFSZ"),
};

static void check_http(struct validator *v, const struct path *at,
                       const struct api_http_get_action *http)
{
    static const struct str schemes[] = {STR_INIT("HTTP"), STR_INIT("HTTPS")};
    static const struct str protocols[] = {STR_INIT("HTTP1"), STR_INIT("HTTP2")};
    validate_required(v, AT(at, "path"), http->path);
    validate_port_or_name(v, AT(at, "port"), &http->port);
    validate_choice(v, AT(at, "scheme"), http->scheme, CHOICES(schemes));
    for (size_t i = 0; i < http->http_headers.n; i++)
        validate_named(v, AT(at, "httpHeaders"), http->http_headers.p[i].name, name_http_header);
    if (!http->has_protocol)
        return;
    bool two = str_eqz(http->protocol, "HTTP2");
    if (!validate_is_choice(CHOICES(protocols), http->protocol))
        validate_choice(v, AT(at, "protocol"), http->protocol, CHOICES(protocols));
    else if (two && !str_eqz(http->scheme, "HTTP"))
        cause_invalid(v->causes, AT(at, "protocol"), http->protocol,
                      STR("is only supported with HTTP (H2C)"));
    else if (two && http->host.n)
        cause_invalid(v->causes, AT(at, "host"), http->host,
                      STR("must be empty when `protocol` is \"HTTP2\""));
}

static void check_grpc(struct validator *v, const struct path *at, const struct api_grpc_action *g)
{
    static const struct str modes[] = {STR_INIT("Plaintext"), STR_INIT("TLS")};
    validate_port(v, AT(at, "port"), g->port);
    if (g->has_mode)
        validate_choice(v, AT(at, "mode"), g->mode, CHOICES(modes));
}

static void check_sleep(struct pod_rules *p, const struct path *at,
                        const struct api_sleep_action *s)
{
    int64_t grace = p->spec->termination_grace_period_seconds;
    if (p->spec->has_termination_grace_period_seconds && (s->seconds < 0 || s->seconds > grace))
        cause_invalid_i64(
            p->v->causes, at, s->seconds,
            arena_strf(scratch(p->v),
                       "must be non-negative and less than terminationGracePeriodSeconds (%lld)",
                       (long long)grace));
}

// One of the ways to call a container; exactly one of them is to be there.
struct handler {
    const struct api_exec_action *exec;
    const struct api_http_get_action *http;
    const struct api_tcp_socket_action *tcp;
    const struct api_grpc_action *grpc;
    const struct api_sleep_action *sleep;
};

// Whether a handler counts: a second one is reported and not checked.
static bool first_handler(struct validator *v, const struct path *at, const void *given, size_t *n)
{
    if (!given)
        return false;
    if (*n > 0) {
        cause_forbidden(v->causes, at, STR("may not specify more than 1 handler type"));
        return false;
    }
    (*n)++;
    return true;
}

static void check_handler(struct pod_rules *p, const struct path *at, const struct handler *h)
{
    struct validator *v = p->v;
    size_t n = 0;
    if (first_handler(v, AT(at, "exec"), h->exec, &n) && h->exec->command.n == 0)
        cause_required(v->causes, AT(AT(at, "exec"), "command"), STR(""));
    if (first_handler(v, AT(at, "httpGet"), h->http, &n))
        check_http(v, AT(at, "httpGet"), h->http);
    if (first_handler(v, AT(at, "tcpSocket"), h->tcp, &n))
        validate_port_or_name(v, AT(AT(at, "tcpSocket"), "port"), &h->tcp->port);
    if (first_handler(v, AT(at, "grpc"), h->grpc, &n))
        check_grpc(v, AT(at, "grpc"), h->grpc);
    if (first_handler(v, AT(at, "sleep"), h->sleep, &n))
        check_sleep(p, AT(at, "sleep"), h->sleep);
    if (n == 0)
        cause_required(v->causes, at, STR("must specify a handler type"));
}

// Liveness and startup probes succeed with the first success.
static void check_probe(struct pod_rules *p, const struct path *at, const struct api_probe *probe,
                        bool readiness)
{
    struct validator *v = p->v;
    if (!probe)
        return;
    const struct api_probe_handler *h = &probe->probe_handler;
    check_handler(p, at,
                  &(struct handler){
                      .exec = h->exec, .http = h->http_get, .tcp = h->tcp_socket, .grpc = h->grpc});
    validate_not_negative(v, AT(at, "initialDelaySeconds"), probe->initial_delay_seconds);
    validate_not_negative(v, AT(at, "timeoutSeconds"), probe->timeout_seconds);
    validate_not_negative(v, AT(at, "periodSeconds"), probe->period_seconds);
    validate_not_negative(v, AT(at, "successThreshold"), probe->success_threshold);
    validate_not_negative(v, AT(at, "failureThreshold"), probe->failure_threshold);
    const struct path *grace = AT(at, "terminationGracePeriodSeconds");
    if (probe->has_termination_grace_period_seconds && probe->termination_grace_period_seconds <= 0)
        cause_invalid_i64(v->causes, grace, probe->termination_grace_period_seconds,
                          STR("must be greater than 0"));
    if (readiness && probe->has_termination_grace_period_seconds)
        cause_invalid_i64(v->causes, grace, probe->termination_grace_period_seconds,
                          STR("must not be set for readinessProbes"));
    if (!readiness && probe->success_threshold != 1)
        cause_invalid_i64(v->causes, AT(at, "successThreshold"), probe->success_threshold,
                          STR("must be 1"));
}

static void check_stop_signal(struct pod_rules *p, const struct path *at, struct str sig)
{
    static const struct str windows[] = {STR_INIT("SIGKILL"), STR_INIT("SIGTERM")};
    const struct api_pod_os *os = p->spec->os;
    if (!os)
        cause_forbidden(p->v->causes, at,
                        STR("may not be set for containers with empty `spec.os.name`"));
    else if (str_eqz(os->name, "windows"))
        validate_choice(p->v, at, sig, CHOICES(windows));
    else if (str_eqz(os->name, "linux"))
        validate_choice(p->v, at, sig, CHOICES(linux_signals));
}

static struct handler probe_from_hook(const struct api_lifecycle_handler *h)
{
    return (struct handler){
        .exec = h->exec, .http = h->http_get, .tcp = h->tcp_socket, .sleep = h->sleep};
}

static void validate_lifecycle(struct pod_rules *p, const struct path *at,
                               const struct api_lifecycle *l)
{
    if (l->post_start) {
        struct handler h = probe_from_hook(l->post_start);
        check_handler(p, AT(at, "postStart"), &h);
    }
    if (l->pre_stop) {
        struct handler h = probe_from_hook(l->pre_stop);
        check_handler(p, AT(at, "preStop"), &h);
    }
    if (l->has_stop_signal)
        check_stop_signal(p, AT(at, "stopSignal"), l->stop_signal);
}

void validate_probes(struct pod_rules *p, const struct path *at, const struct api_container *c)
{
    if (c->lifecycle)
        validate_lifecycle(p, AT(at, "lifecycle"), c->lifecycle);
    check_probe(p, AT(at, "livenessProbe"), c->liveness_probe, false);
    check_probe(p, AT(at, "readinessProbe"), c->readiness_probe, true);
    check_probe(p, AT(at, "startupProbe"), c->startup_probe, false);
}
