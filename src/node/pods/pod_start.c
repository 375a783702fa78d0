// SPDX-License-Identifier: Apache-2.0
//
// The way up: volumes, claims, namespaces, then for each container its image, its making, its start and
// what follows the start. Each function begins one step, the next is begun by its end.
#include <stdlib.h>

#include "base/mem.h"
#include "node/pods/pods_int.h"
#include "node/pods/volume.h"
#include "os/fault.h"

#include "base/banned.h"

static struct runtime *pod_start_runtime(const struct pod *p)
{
    return p->owner->options.runtime;
}

// The end of a step: false when the pod is gone, or has begun to end meanwhile.
static bool pod_start_end_call(void *arg, struct pod_call *call)
{
    if (!pod_call_take(arg, call))
        return false;
    struct pod *p = call->pod;
    if (p->stage == POD_ACTIVE && !p->owner->quiet)
        return true;
    p->busy = false;
    pod_sync(p);
    return false;
}

static void pod_start_env_facts(const struct pod *p, struct env_facts *f)
{
    const struct typed_object *node = p->owner->options.node_object(p->owner->options.arg);
    *f = (struct env_facts){.pod = pod_spec_of(p),
                            .pod_ip = pod_spec_of(p)->spec.host_network ? p->owner->options.host_ips
                                                                        : str_z(p->address),
                            .host_ips = p->owner->options.host_ips,
                            .node = node ? node->object.value : NULL};
}

// pod_start_report_failure says what went wrong around a pod, the same thing once.
static void pod_start_report_failure(struct pod *p, const char *reason, const char *message)
{
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text, "%s %s", reason, message);
    pod_add_event(p, EVENT_WARNING, reason, "%s", message);
    free(p->last_event);
    p->last_event = sbuf_take(&text);
}

// --- Namespaces ----------------------------------------------------------------------------------

static void pod_start_on_address(void *arg, const struct runtime_list *all)
{
    struct pod_call call;
    if (!pod_start_end_call(arg, &call))
        return;
    struct pod *p = call.pod;
    for (size_t i = 0; i < all->pods_len; i++) {
        const struct runtime_pod_status *s = &all->pods[i];
        if (!str_eqz(s->id, p->sandbox_id))
            continue;
        free(p->address);
        p->address = xstrndup(s->address.n ? s->address.p : "", s->address.n);
        p->sandbox_ready = s->state == RUNTIME_POD_READY;
    }
    pod_status_changed(p);
    pod_step_done(p);
}

static void pod_start_on_sandbox_created(void *arg, int code, struct str id, const struct err *err)
{
    struct pod_call call;
    if (code == 0) { // before anything else: the end has to know it
        struct pod_call *c = arg;
        if (list_linked(&c->node)) {
            free(c->pod->sandbox_id);
            c->pod->sandbox_id = xstrndup(id.p, id.n);
            c->pod->sandbox_known = true;
        }
    }
    if (!pod_start_end_call(arg, &call))
        return;
    struct pod *p = call.pod;
    if (code < 0) {
        cleanup_sbuf struct sbuf text = {0};
        sbuf_addf(&text, "Failed to create pod sandbox: %s", err->msg);
        pod_start_report_failure(p, "FailedCreatePodSandBox", text.p);
        pod_step_failed(p);
        return;
    }
    pod_start_runtime(p)->ops->list(pod_start_runtime(p), pod_start_on_address,
                                    pod_call_new(p, NULL));
}

static struct str pod_start_hostname(const struct api_pod *pod)
{
    if (pod->spec.has_hostname_override)
        return pod->spec.hostname_override;
    struct str name = pod->spec.hostname.n ? pod->spec.hostname : pod->metadata.name;
    name = str_upto(name, 63);
    while (name.n > 0 && (name.p[name.n - 1] == '-' || name.p[name.n - 1] == '.'))
        name.n--;
    return name;
}

static void pod_start_add_hosts(const struct pod *p, struct sbuf *out)
{
    const struct api_host_alias_array *all = &pod_spec_of(p)->spec.host_aliases;
    if (all->n == 0)
        return;
    sbuf_addz(out, "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"
                   "::1\tlocalhost ip6-localhost ip6-loopback\n");
    sbuf_addf(out, "127.0.0.1\t%.*s\n", STR_ARG(pod_start_hostname(pod_spec_of(p))));
    sbuf_addz(out, "\n# Entries added by HostAliases.\n");
    for (size_t i = 0; i < all->n; i++) {
        sbuf_add(out, all->p[i].ip);
        for (size_t h = 0; h < all->p[i].hostnames.n; h++)
            sbuf_addf(out, "\t%.*s", STR_ARG(all->p[i].hostnames.p[h]));
        sbuf_addc(out, '\n');
    }
}

static void pod_start_set_dns(const struct pod *p, struct sbuf *out)
{
    const struct api_pod_dns_config *d = pod_spec_of(p)->spec.dns_config;
    if (!d)
        return;
    for (size_t i = 0; i < d->nameservers.n; i++)
        sbuf_addf(out, "nameserver %.*s\n", STR_ARG(d->nameservers.p[i]));
    for (size_t i = 0; i < d->searches.n; i++)
        sbuf_addf(out, "%s%.*s%s", i ? " " : "search ", STR_ARG(d->searches.p[i]),
                  i + 1 == d->searches.n ? "\n" : "");
    for (size_t i = 0; i < d->options.n; i++)
        sbuf_addf(out, "%s%.*s%s%.*s%s", i ? " " : "options ", STR_ARG(d->options.p[i].name),
                  d->options.p[i].has_value ? ":" : "", STR_ARG(d->options.p[i].value),
                  i + 1 == d->options.n ? "\n" : "");
}

static size_t pod_start_set_sysctls(const struct api_pod *pod, struct arena *arena,
                                    struct runtime_pair **ret)
{
    const struct api_pod_security_context *s = pod->spec.security_context;
    size_t n = s ? s->sysctls.n : 0;
    *ret = arena_array(arena, struct runtime_pair, n + 1);
    for (size_t i = 0; i < n; i++)
        (*ret)[i] = (struct runtime_pair){s->sysctls.p[i].name, s->sysctls.p[i].value};
    return n;
}

static struct str pod_start_cgroup_parent(const struct api_pod *pod)
{
    struct str q = pod->status.qos_class;
    return str_eqz(q, "Guaranteed")   ? STR("guaranteed")
           : str_eqz(q, "BestEffort") ? STR("besteffort")
                                      : STR("burstable");
}

static void pod_start_create_sandbox(struct pod *p)
{
    const struct api_pod *pod = pod_spec_of(p);
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf logs = {0}, hosts = {0}, dns = {0};
    struct runtime_pair *sysctls = NULL;
    size_t sysctls_len = pod_start_set_sysctls(pod, &arena, &sysctls);
    pod_log_directory(p, &logs);
    pod_start_add_hosts(p, &hosts);
    pod_start_set_dns(p, &dns);
    p->sandbox_attempt = p->sandbox_known ? p->sandbox_attempt + 1 : 0;
    const struct runtime_pod q = {
        .namespace = pod->metadata.namespace,
        .name = pod->metadata.name,
        .uid = pod->metadata.uid,
        .attempt = p->sandbox_attempt,
        .hostname = pod->spec.host_network ? (struct str){0} : pod_start_hostname(pod),
        .log_dir = logs.p,
        .host_network = pod->spec.host_network,
        .host_pid = pod->spec.host_pid,
        .host_ipc = pod->spec.host_ipc,
        .share_pid = pod->spec.has_share_process_namespace && pod->spec.share_process_namespace,
        .resolv_conf = sbuf_str(&dns),
        .hosts = sbuf_str(&hosts),
        .sysctls = sysctls,
        .sysctls_len = sysctls_len,
        .cgroup_parent = pod_start_cgroup_parent(pod)};
    fault_point("pod_run");
    pod_start_runtime(p)->ops->pod_run(pod_start_runtime(p), &q, pod_start_on_sandbox_created,
                                       pod_call_new(p, NULL));
}

// --- Claims --------------------------------------------------------------------------------------

static void pod_start_on_old_sandbox_stopped(void *arg, int code, const struct err *err)
{
    struct pod_call call;
    (void)code;
    (void)err;
    if (pod_start_end_call(arg, &call))
        pod_start_create_sandbox(call.pod);
}

// Namespaces of an earlier attempt are taken apart before new ones are made.
static void pod_start_stop_old_sandbox(struct pod *p)
{
    if (!p->sandbox_id) {
        pod_start_create_sandbox(p);
        return;
    }
    fault_point("pod_stop");
    pod_start_runtime(p)->ops->pod_stop(pod_start_runtime(p), str_z(p->sandbox_id),
                                        pod_start_on_old_sandbox_stopped, pod_call_new(p, NULL));
}

static void pod_start_on_claims_prepared(void *arg, int code, const struct err *err)
{
    struct pod_call call;
    if (!pod_start_end_call(arg, &call))
        return;
    struct pod *p = call.pod;
    if (code < 0) {
        cleanup_sbuf struct sbuf text = {0};
        sbuf_addf(&text, "Failed to prepare dynamic resources: prepare dynamic resources: %s",
                  err->msg);
        pod_start_report_failure(p, "FailedPrepareDynamicResources", text.p);
        pod_step_failed(p);
        return;
    }
    pod_start_stop_old_sandbox(p);
}

static void pod_start_prepare_claims(struct pod *p)
{
    const struct api_pod *pod = pod_spec_of(p);
    if (pod->spec.resource_claims.n == 0 && !pod->status.extended_resource_claim_status) {
        pod_start_stop_old_sandbox(p);
        return;
    }
    if (!p->owner->dra) {
        pod_start_report_failure(
            p, "FailedPrepareDynamicResources",
            "Failed to prepare dynamic resources: this agent runs without a manager of claims");
        pod_step_failed(p);
        return;
    }
    dra_prepare(p->owner->dra, p->object, pod_start_on_claims_prepared, pod_call_new(p, NULL));
}

// --- Volumes -------------------------------------------------------------------------------------

static int pod_start_set_up_volumes(struct pod *p, bool update, struct err *err)
{
    cleanup_sbuf struct sbuf folder = {0};
    bool on_disk = false;
    pod_directory(p, &folder);
    struct volume_options o = {.folder = folder.p,
                               .refs = &p->refs,
                               .may_mount = p->owner->options.may_mount,
                               .on_disk = &on_disk};
    pod_start_env_facts(p, &o.facts);
    int code = update ? volumes_update(&o, err) : volume_make_directory(folder.p, 0750, err);
    if (code == 0 && !update)
        code = volumes_set_up(&o, err);
    if (on_disk && !update && !p->volumes_ready)
        pod_add_event(
            p, EVENT_WARNING, "PossibleMemoryBackedVolumesOnDisk",
            "volumes that should be in memory are on the disk of the node: mounting a tmpfs "
            "needs root");
    return code;
}

static void pod_start_on_refresh_fetched(void *arg)
{
    struct pod *p = arg;
    struct err err = {0};
    if (p->stage == POD_ACTIVE && p->volumes_ready && pod_start_set_up_volumes(p, true, &err) < 0)
        pod_start_report_failure(p, "FailedMount", err.msg);
}

static void pod_start_refresh_volumes(void *arg)
{
    struct pod *p = arg;
    if (p->stage != POD_ACTIVE)
        return;
    // A step may be fetching already.
    exec_timer_start(p->owner->exec, &p->refresh,
                     p->busy ? CLOCK_NS_PER_SEC : p->owner->options.times.refresh_ns);
    if (p->busy)
        return;
    pod_refs_cancel(&p->refs);
    pod_refs_fetch(&p->refs, p->owner->options.client, p->object, pod_start_on_refresh_fetched, p);
    if (p->refs.waiting == 0)
        pod_start_on_refresh_fetched(p);
}

static void pod_start_schedule_refresh(struct pod *p)
{
    if (pod_spec_of(p)->spec.volumes.n == 0 || exec_timer_armed(&p->refresh))
        return;
    p->refresh = (struct exec_timer){.fn = pod_start_refresh_volumes, .arg = p};
    exec_timer_start(p->owner->exec, &p->refresh, p->owner->options.times.refresh_ns);
}

static void pod_start_on_refs_fetched(void *arg)
{
    struct pod *p = arg;
    struct err err = {0};
    p->refs_at_ns = exec_now_ns(p->owner->exec);
    p->refs_fresh = true;
    if (p->stage != POD_ACTIVE) {
        p->busy = false;
        pod_sync(p);
        return;
    }
    if (pod_start_set_up_volumes(p, false, &err) < 0) {
        pod_start_report_failure(p, "FailedMount", err.msg);
        pod_step_failed(p);
        return;
    }
    p->volumes_ready = true;
    pod_start_schedule_refresh(p);
    pod_start_prepare_claims(p);
}

void pod_start_sandbox(struct pod *p)
{
    p->busy = true;
    pod_refs_cancel(&p->refs); // of a refresh
    pod_refs_fetch(&p->refs, p->owner->options.client, p->object, pod_start_on_refs_fetched, p);
    if (p->refs.waiting == 0)
        pod_start_on_refs_fetched(p);
}
