// SPDX-License-Identifier: Apache-2.0
//
// Components on any API server: options, leader election, health and metrics, start and stop.
#include "cmd/run/component.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/uuid.h"
#include "client/kubeconfig.h"
#include "client/lease.h"
#include "client/offer.h"
#include "client/remote.h"
#include "cmd/common.h"
#include "cmd/run/component_http.h"
#include "cmd/run/logging.h"
#include "cmd/run/process.h"
#include "cmd/verb.h"
#include "net/loop.h"

#include "base/banned.h"

#define ASK_AGAIN_NS (CLOCK_NS_PER_SEC)
#define GIVE_UP_NS   (3 * CLOCK_NS_PER_SEC)

static struct log_module log_mod = LOG_MODULE("component");

static struct {
    const char *listen, *gates;
    const char *lease_namespace, *lease_name;
    bool elect;
    int64_t duration_ns, deadline_ns, retry_ns;
} component_set = {.gates = "",
                   .lease_namespace = "kube-system",
                   .elect = true,
                   .duration_ns = 2000 * CLOCK_NS_PER_MS,
                   .deadline_ns = 1500 * CLOCK_NS_PER_MS,
                   .retry_ns = 500 * CLOCK_NS_PER_MS};

static const struct cli_option component_options[] = {
    {"--bind-address", NULL, "HOST:PORT",
     "serve /healthz, /livez, /readyz and /metrics here over plain HTTP; 'none': not at all",
     .text = &component_set.listen},
    {"--leader-elect", NULL, NULL, "act only while holding the lease; default true",
     .flag = &component_set.elect},
    {"--leader-elect-lease-duration", NULL, "TIME",
     "replace a leader that is gone after this time; default 2s",
     .duration_ns = &component_set.duration_ns},
    {"--leader-elect-renew-deadline", NULL, "TIME",
     "stop leading if the lease was not renewed for this time; default 1500ms",
     .duration_ns = &component_set.deadline_ns},
    {"--leader-elect-retry-period", NULL, "TIME",
     "renew or try to take the lease this often; default 500ms",
     .duration_ns = &component_set.retry_ns},
    {"--leader-elect-resource-namespace", NULL, "NAME",
     "keep the lease in this namespace; default kube-system",
     .text = &component_set.lease_namespace},
    {"--leader-elect-resource-name", NULL, "NAME", "name the lease; default: the component's name",
     .text = &component_set.lease_name},
    {"--feature-gates", NULL, "A=true,B=false", "override the gates that the server reports",
     .text = &component_set.gates},
};
const struct cli_group component_group = CLI_GROUP("Component options", component_options);

struct component {
    const struct component_ops *ops;
    struct loop *loop;
    struct exec *exec;
    struct kubeconfig kubeconfig;
    struct kubeconfig_target target;
    struct client *client;
    struct client *lease_client; // not behind everything else that is being sent
    struct features features;
    struct lease *lease; // NULL: no election, or not yet
    struct sbuf identity;
    struct component_http *http;
    struct exec_timer again, give_up;
    bool started; // the part
    bool leading, stopping;
};

int component_check(struct err *err)
{
    const struct lease_options times = {.duration_ns = component_set.duration_ns,
                                        .renew_deadline_ns = component_set.deadline_ns,
                                        .retry_ns = component_set.retry_ns};
    int r = component_set.elect ? lease_check(&times, err) : 0;
    return r < 0 ? r : logging_start(LOG_FORMAT_JSON, err);
}

// --- Leading -------------------------------------------------------------------------------------

static void component_begin_role(struct component *c, bool standby)
{
    c->ops->start(c->ops->arg, c->client, &c->features, standby);
    c->started = true;
    c->leading = !standby;
}

static void component_end_role(struct component *c)
{
    if (c->started)
        c->ops->stop(c->ops->arg);
    c->started = false;
    c->leading = false;
}

static void on_leading(void *arg)
{
    struct component *c = arg;
    LOG_INFO(&log_mod, "leading", log_str("identity", sbuf_str(&c->identity)));
    c->leading = true;
    c->ops->lead(c->ops->arg);
}

static void on_lost(void *arg)
{
    struct component *c = arg;
    LOG_WARN(&log_mod, "the lease is lost; standing by again");
    component_end_role(c);
    component_begin_role(c, true);
    lease_start(c->lease);
}

static void on_holder(void *arg, struct str identity)
{
    (void)arg;
    LOG_INFO(&log_mod, "the lease changed hands", log_str("holder", identity));
}

static void start_election(struct component *c)
{
    char host[256] = "", uuid[UUID_TEXT_LEN + 1];
    (void)gethostname(host, sizeof(host) - 1);
    struct uuid id = uuid_random(c->exec->rng);
    uuid_write(&id, uuid);
    sbuf_clear(&c->identity);
    sbuf_addf(&c->identity, "%s_%s", host, uuid);
    const struct lease_options o = {.client = c->lease_client,
                                    .namespace = str_z(component_set.lease_namespace),
                                    .name = str_z(component_set.lease_name),
                                    .identity = sbuf_str(&c->identity),
                                    .duration_ns = component_set.duration_ns,
                                    .renew_deadline_ns = component_set.deadline_ns,
                                    .retry_ns = component_set.retry_ns,
                                    .steadfast = true,
                                    .leading = on_leading,
                                    .lost = on_lost,
                                    .holder = on_holder,
                                    .arg = c};
    c->lease = lease_new(&o);
    lease_start(c->lease);
}

// --- What the server offers ----------------------------------------------------------------------

static int decide_features(struct component *c, const struct offer *o, struct err *err)
{
    int r = offer_features(o, &c->features, err);
    if (r == 0)
        r = features_parse(&c->features, str_z(component_set.gates), err);
    return r;
}

static void component_on_offer(void *arg, int code, const struct err *err, const struct offer *o)
{
    struct component *c = arg;
    struct err why = {0};
    if (c->stopping)
        return;
    if (code < 0)
        why = *err;
    else
        code = decide_features(c, o, &why);
    if (code < 0) {
        LOG_WARN(&log_mod, "cannot start yet", log_z("error", why.msg));
        exec_timer_start(c->exec, &c->again, ASK_AGAIN_NS);
        return;
    }
    LOG_INFO(&log_mod, "connected", log_str("server", c->target.server), log_i64("minor", o->minor),
             log_bool("gates_known", o->gates_known),
             log_str("taint_rules", o->rules ? o->rules->api_version : STR("none")),
             log_bool("pod_groups", o->pod_groups));
    (void)malloc_trim(0); // the metrics were large
    component_begin_role(c, component_set.elect);
    if (component_set.elect)
        start_election(c);
    else
        LOG_INFO(&log_mod, "leading without election");
}

static void component_request_features(void *arg)
{
    struct component *c = arg;
    offer_ask(c->client, component_on_offer, c);
}

// --- How it is -----------------------------------------------------------------------------------

static bool component_is_ready(void *arg, struct sbuf *why)
{
    const struct component *c = arg;
    if (c->started && c->ops->synced(c->ops->arg))
        return true;
    sbuf_addz(why,
              c->started ? "not everything has been listed" : "the API server has not answered");
    return false;
}

static void component_add_metrics(void *arg, struct sbuf *out)
{
    struct component *c = arg;
    sbuf_addf(out,
              "# HELP leader_election_master_status Gauge of if the reporting system is master of "
              "the relevant lease, 0 indicates backup, 1 indicates master.\n"
              "# TYPE leader_election_master_status gauge\n"
              "leader_election_master_status{name=\"%s\"} %d\n",
              component_set.lease_name, c->leading);
    if (c->started)
        c->ops->metrics(c->ops->arg, out);
    client_remote_metrics(c->client, out);
}

// --- Life ----------------------------------------------------------------------------------------

static void component_on_done(void *arg)
{
    struct component *c = arg;
    loop_stop(c->loop);
}

static void component_on_signal(void *arg)
{
    struct component *c = arg;
    if (c->stopping)
        _exit(VERB_OK); // asked twice
    c->stopping = true;
    LOG_INFO(&log_mod, "stopping");
    exec_timer_stop(c->exec, &c->again);
    component_end_role(c);
    exec_timer_start(c->exec, &c->give_up, GIVE_UP_NS);
    if (c->lease)
        lease_release(c->lease, component_on_done, c);
    else
        loop_stop(c->loop);
}

static int open_http(struct component *c, struct err *err)
{
    const struct component_http_options o = {.loop = c->loop,
                                             .listen = component_set.listen,
                                             .ready = component_is_ready,
                                             .metrics = component_add_metrics,
                                             .arg = c};
    if (strcmp(component_set.listen, "none") == 0)
        return 0;
    uint16_t port = 0;
    int r = component_http_new(&o, &c->http, &port, err);
    if (r == 0)
        LOG_INFO(&log_mod, "health and metrics", log_z("address", component_set.listen),
                 log_u64("port", port));
    return r;
}

static int component_start_loop(struct component *c, struct err *err)
{
    const struct client_remote_options o = {.target = &c->target,
                                            .user_agent = str_z(c->ops->name)};
    int r = loop_new(&c->loop, err);
    if (r < 0)
        return r;
    loop_watch_turns(c->loop, c->ops->name);
    c->exec = loop_exec(c->loop);
    c->again = (struct exec_timer){.fn = component_request_features, .arg = c};
    c->give_up = (struct exec_timer){.fn = component_on_done, .arg = c};
    r = kubeconfig_find(&c->kubeconfig, common.kubeconfig, common.context, &c->target, err);
    if (r == 0)
        r = client_remote_new(c->loop, &o, &c->client, err);
    if (r == 0)
        r = client_remote_new(c->loop, &o, &c->lease_client, err);
    if (r == 0)
        r = open_http(c, err);
    if (r == 0)
        r = loop_on_signal(c->loop, SIGTERM, component_on_signal, c, err);
    if (r == 0)
        r = loop_on_signal(c->loop, SIGINT, component_on_signal, c, err);
    if (r == 0)
        exec_timer_start(c->exec, &c->again, 0);
    return r;
}

static void component_free_parts(struct component *c)
{
    c->stopping = true;
    component_end_role(c);
    lease_free(c->lease);
    component_http_free(c->http);
    if (c->client)
        client_free(c->client);
    if (c->lease_client)
        client_free(c->lease_client);
    if (c->loop) {
        exec_timer_stop(c->exec, &c->again);
        exec_timer_stop(c->exec, &c->give_up);
        exec_post(c->exec, component_on_done, c);
        loop_run(c->loop); // what was cancelled is answered
        loop_free(c->loop);
    }
    kubeconfig_done(&c->kubeconfig);
    sbuf_done(&c->identity);
}

int component_run(const struct component_ops *ops)
{
    struct component c = {.ops = ops};
    struct err err = {0};
    component_set.listen = component_set.listen ? component_set.listen : ops->listen;
    component_set.lease_name = component_set.lease_name ? component_set.lease_name : ops->name;
    process_confine();
    int r = component_start_loop(&c, &err);
    if (r < 0)
        (void)fprintf(stderr, "dray %s: %s\n", ops->verb, err.msg);
    else
        loop_run(c.loop);
    component_free_parts(&c);
    return r < 0 ? VERB_NO : VERB_OK;
}
