// SPDX-License-Identifier: Apache-2.0
//
// The probes of a container and what their verdicts change: whether it has started, whether it is
// ready, and a restart when it is neither alive nor starting.
#include "node/pods/pods_int.h"

#include "base/banned.h"

static void pod_probes_target(const struct pod_container *c, struct probe_target *ret)
{
    const struct pod *p = c->pod;
    struct runtime *r = p->owner->options.runtime;
    *ret = (struct probe_target){.exec = p->owner->exec,
                                 .runtime = r,
                                 .net = p->owner->options.net,
                                 .container_id = str_z(c->now.id),
                                 .address = str_z(p->sandbox.address),
                                 .container = pod_container_spec(c)};
    if (p->sandbox.id)
        ret->netns = r->ops->pod_netns(r, str_z(p->sandbox.id));
}

static void pod_probes_update_ready(struct pod_container *c)
{
    const struct probe *r = c->probes[PROBE_READINESS];
    bool ready =
        c->now.id && c->now.state == RUNTIME_RUNNING && c->started && (!r || probe_good(r));
    if (ready != c->ready) {
        c->ready = ready;
        pod_status_changed(c->pod);
    }
}

// The startup probe has succeeded, or there is none: the other probes begin.
static void pod_probes_on_started(struct pod_container *c)
{
    c->started = true;
    if (c->probes[PROBE_LIVENESS])
        probe_start(c->probes[PROBE_LIVENESS]);
    if (c->probes[PROBE_READINESS])
        probe_start(c->probes[PROBE_READINESS]);
}

static int64_t pod_probes_grace_ns(const struct pod_container *c, const struct api_probe *probe)
{
    return probe->has_termination_grace_period_seconds
               ? pod_seconds_ns(probe->termination_grace_period_seconds)
               : pod_grace_ns(c->pod);
}

static void pod_probes_on_changed(void *arg, enum probe_type type, bool good)
{
    struct pod_container *c = arg;
    struct pod *p = c->pod;
    const struct api_container *spec = pod_container_spec(c);
    if (type == PROBE_STARTUP && good) {
        pod_probes_on_started(c);
        pod_status_changed(p);
        pod_wake(p, 0);
    }
    if (!good && type != PROBE_READINESS && p->stage == POD_ACTIVE) {
        cleanup_sbuf struct sbuf text = {0};
        bool again =
            c->kind == POD_SIDECAR || !str_eqz(pod_spec_of(p)->spec.restart_policy, "Never");
        sbuf_addf(&text, "%s %s failed %s probe%s",
                  c->kind == POD_MAIN ? "Container" : "Init container", c->name,
                  type == PROBE_LIVENESS ? "liveness" : "startup",
                  again ? ", will be restarted" : "");
        const struct api_probe *probe =
            type == PROBE_LIVENESS ? spec->liveness_probe : spec->startup_probe;
        pod_stop_container(c, probe ? pod_probes_grace_ns(c, probe) : pod_grace_ns(p), text.p);
    }
    pod_probes_update_ready(c);
}

static void pod_probes_on_failed(void *arg, enum probe_type type, struct str text)
{
    struct pod_container *c = arg;
    pod_container_event(c, EVENT_WARNING, "Unhealthy", "%s probe failed: %.*s",
                        probe_type_name(type), STR_ARG(text));
}

static void pod_probes_add(struct pod_container *c, enum probe_type type,
                           const struct api_probe *probe, bool good)
{
    if (!probe || c->probes[type])
        return;
    struct probe_options o = {.type = type,
                              .pod = c->pod->object,
                              .probe = probe,
                              .started_ns = c->now.started_ns,
                              .good = good,
                              .changed = pod_probes_on_changed,
                              .failed = pod_probes_on_failed,
                              .arg = c};
    pod_probes_target(c, &o.target);
    c->probes[type] = probe_new(&o);
}

void pod_probes_begin(struct pod_container *c)
{
    const struct api_container *s = pod_container_spec(c);
    if (c->kind == POD_INIT || c->kind == POD_DEBUG) {
        c->started = true;
        return;
    }
    if (!c->started)
        pod_probes_add(c, PROBE_STARTUP, s->startup_probe, false);
    pod_probes_add(c, PROBE_LIVENESS, s->liveness_probe, true);
    pod_probes_add(c, PROBE_READINESS, s->readiness_probe, c->ready);
    if (c->probes[PROBE_STARTUP]) {
        probe_start(c->probes[PROBE_STARTUP]);
    } else {
        pod_probes_on_started(c);
    }
    pod_probes_update_ready(c);
}

void pod_probes_end(struct pod_container *c, bool all)
{
    for (size_t i = 0; i < PROBE_TYPES; i++)
        if (all || i != PROBE_READINESS)
            probe_free(take_ptr(c->probes[i]));
}

void pod_hook_run(struct pod_container *c, const struct api_lifecycle_handler *h,
                  int64_t timeout_ns, exec_fn slept, probe_net_fn done)
{
    if (h->sleep) {
        int64_t wait_ns = pod_seconds_ns(h->sleep->seconds);
        c->hook_timer = (struct exec_timer){.fn = slept, .arg = c};
        exec_timer_start(c->pod->owner->exec, &c->hook_timer,
                         wait_ns < timeout_ns ? wait_ns : timeout_ns);
        return;
    }
    struct probe_target t;
    pod_probes_target(c, &t);
    const struct api_probe_handler handler = {
        .exec = h->exec, .http_get = h->http_get, .tcp_socket = h->tcp_socket};
    c->hook = probe_run(&t, &handler, timeout_ns, done, c);
}
