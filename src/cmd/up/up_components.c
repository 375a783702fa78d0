// SPDX-License-Identifier: Apache-2.0
//
// Scheduler, controllers and simulated nodes of `dray up`: set up before the worker's thread runs,
// then owned by it.
#include <stdlib.h>

#include "cmd/up/up_card.h"
#include "cmd/up/up_int.h"
#include "cmd/up/up_storage.h"
#include "inproc/local.h"
#include "pki/certificate.h"

#include "base/banned.h"

// Components of this process need no authorization for a call; what a write itself needs (a claim's
// binding, a role's rules) they have by these names.
static const struct str up_masters[] = {STR_INIT("system:masters"),
                                        STR_INIT("system:authenticated")};
static const struct registry_user up_scheduler_user = {
    .name = STR_INIT("system:kube-scheduler"), .groups = up_masters + 1, .groups_len = 1};
static const struct registry_user up_controller_user = {
    .name = STR_INIT("system:kube-controller-manager"), .groups = up_masters, .groups_len = 2};

// Whether requests for certificates by the creator of this one are approved without a person.
static bool up_may_have_certificate(void *server,
                                    const struct api_certificate_signing_request *request,
                                    const char *subresource)
{
    const struct registry_user user = {.name = request->spec.username,
                                       .uid = request->spec.uid,
                                       .groups = request->spec.groups.p,
                                       .groups_len = request->spec.groups.n};
    return server_may(server, &user, STR("certificates.k8s.io"), STR("certificatesigningrequests"),
                      str_z(subresource), STR("create"));
}

static void up_start_scheduler(struct up *u, struct exec *exec)
{
    static const struct str names[] = {STR_INIT("default-scheduler"), STR_INIT("dray")};
    u->sched_client = local_client_new(u->host.registry, exec, &up_scheduler_user);
    const struct sched_options o = {.client = u->sched_client,
                                    .names = names,
                                    .names_len = array_len(names),
                                    .features = u->host.features,
                                    .policy = u->asked.policy,
                                    .preemption = u->asked.preemption,
                                    .binding_timeout_ns = u->asked.binding_timeout_ns};
    u->sched = sched_new(&o);
    sched_start(u->sched);
}

// The approver needs the answer of the server's authorizer, so it runs on the server's thread.
static void up_start_approver(struct up *u, const struct ctl_options *all)
{
    struct ctl_options o = *all;
    o.exec = loop_exec(u->host.loop);
    for (size_t i = 0; i < CTL_CONTROLLERS; i++)
        o.off[i] = i != CTL_CSR_APPROVING;
    u->approver_client = local_client_new(u->host.registry, o.exec, &up_controller_user);
    o.client = u->approver_client;
    u->approver = ctl_new(&o);
    ctl_start(u->approver);
}

static void up_make_controllers(struct up *u, struct ctl_options *o)
{
    if (u->asked.controllers[CTL_CSR_APPROVING])
        up_start_approver(u, o);
    for (size_t i = 0; i < CTL_CONTROLLERS; i++)
        o->off[i] = i == CTL_CSR_APPROVING || !u->asked.controllers[i];
    u->ctl = ctl_new(o);
    ctl_start(u->ctl);
}

static int up_start_controllers(struct up *u, struct exec *exec, struct err *err)
{
    const struct pki *pki = u->host.pki;
    struct pki_key_pair ca = {0};
    char *certificate = NULL;
    int r = 0;
    if (pki)
        r = pki_read_ca(pki, &ca, err);
    if (pki && r == 0)
        r = pki_read_file(pki->server_file, &certificate, err);
    if (r == 0) {
        struct ctl_options o = {
            .client = u->client,
            .exec = exec,
            .features = u->host.features,
            .aggregate_roles = true,
            .collect_all = true,
            .terminated_pods = u->asked.terminated_pods,
            .root_ca = str_z(ca.certificate_pem),
            .certificates = {.ca_certificate = str_z(ca.certificate_pem),
                             .ca_key = str_z(ca.key_pem),
                             .server_certificate = str_z(certificate),
                             .may = up_may_have_certificate,
                             .arg = u->host.server},
        };
        up_make_controllers(u, &o);
    }
    pki_key_pair_done(&ca);
    free(certificate);
    return r < 0 ? err_wrap(err, "the cluster's certificates") : 0;
}

void up_take_ca(void *arg)
{
    struct up *u = arg;
    struct pki_key_pair ca = {0};
    struct err err = {0};
    int r = pki_read_ca(u->host.pki, &ca, &err);
    if (r == 0 && u->ctl)
        ctl_set_ca(u->ctl, str_z(ca.certificate_pem), str_z(ca.key_pem));
    pki_key_pair_done(&ca);
    if (r == 0 && u->real)
        r = up_agent_renew(u->real, &err);
    if (r < 0)
        (void)fprintf(stderr, "dray up: the new CA: %s\n", err.msg);
}

static size_t up_count_digits(size_t n)
{
    size_t digits = 1;
    for (; n >= 10; n /= 10)
        digits++;
    return digits;
}

static int up_start_nodes(struct up *u, struct exec *exec,
                          void (*ready)(void *arg, const struct err *failure), struct err *err)
{
    size_t nodes = u->asked.nodes, all = nodes * u->profiles_len;
    const struct sim_options o = {.client = u->client,
                                  .exec = exec,
                                  .profiles = u->profiles,
                                  .profiles_len = u->profiles_len,
                                  .nodes = nodes,
                                  .job_run_time_ns = u->asked.job_run_time_ns,
                                  .min_digits = up_count_digits(nodes ? nodes - 1 : 0),
                                  .ready = ready,
                                  .arg = u};
    if (all)
        up_progress("making %zu simulated node%s of %s", all, all == 1 ? "" : "s", u->asked.sim);
    u->sim_nodes = sim_nodes_new(&o);
    return sim_nodes_start(u->sim_nodes, err);
}

int up_start_components(struct up *u, void (*ready)(void *arg, const struct err *failure),
                        struct err *err)
{
    struct exec *exec = loop_exec(up_worker_loop(u->worker));
    up_progress("starting scheduler and controllers");
    u->client = local_client_new(u->host.registry, exec, &up_controller_user);
    up_start_scheduler(u, exec);
    int r = up_start_controllers(u, exec, err);
    if (r < 0)
        return r;
    if (u->asked.controllers[CTL_VOLUMES])
        up_storage_start(u->host.registry, u->client);
    return up_start_nodes(u, exec, ready, err);
}

void up_stop_components(void *up)
{
    struct up *u = up;
    up_card_stop(u);
    up_watch_free(take_ptr(u->watch));
    up_agent_stop(u->real);
    sim_nodes_free(take_ptr(u->sim_nodes));
    sched_free(take_ptr(u->sched));
    ctl_free(take_ptr(u->ctl));
}

void up_stop_approver(struct up *u)
{
    ctl_free(take_ptr(u->approver));
    client_free(take_ptr(u->approver_client));
}

void up_free_clients(void *up)
{
    struct up *u = up;
    up_agent_free(take_ptr(u->real));
    client_free(take_ptr(u->sched_client));
    client_free(take_ptr(u->client));
}
