// SPDX-License-Identifier: Apache-2.0
//
// The start of a pod up to its sandbox; its containers follow in pod_launch.c. pod_start_steps is
// the whole chain in order; pod_start_advance runs it. A step that waits is advanced by its
// callback, with the result.
#include <stdlib.h>

#include "api/amounts.h"
#include "base/mem.h"
#include "node/pods/pods_int.h"
#include "node/volume/volume.h"
#include "os/fault.h"

#include "base/banned.h"

static void pod_start_advance(struct pod *p, int r, const struct err *err);

static void pod_start_on_done(void *arg, int code, const struct err *err)
{
    struct pod_call call;
    if (pod_step_take(arg, &call))
        pod_start_advance(call.pod, code, err);
}

// --- Limits --------------------------------------------------------------------------------------

// Whether a limit holds for the pod as a whole: its own, or one of every container.
static bool pod_start_is_limited(const struct api_pod *pod, struct str resource)
{
    const struct api_container_array *lists[] = {&pod->spec.containers, &pod->spec.init_containers};
    if (pod->spec.resources && amounts_get(&pod->spec.resources->limits, resource))
        return true;
    for (size_t l = 0; l < array_len(lists); l++)
        for (size_t i = 0; i < lists[l]->n; i++)
            if (!amounts_get(&lists[l]->p[i].resources.limits, resource))
                return false;
    return true;
}

// Limits of all containers together, as kubelet sets them for the pod's control group.
static void pod_start_set_limits(const struct pod *p, struct runtime_limits *l)
{
    const struct api_pod *pod = pod_spec_of(p);
    cleanup_arena struct arena arena = {0};
    const struct api_quantity_map limits = pod_with_overhead(pod, true, &arena);
    const struct api_quantity_map requests = pod_with_overhead(pod, false, &arena);
    const struct quantity *memory = amounts_get(&limits, STR("memory"));
    const struct quantity *cpu = amounts_get(&limits, STR("cpu"));
    const struct quantity *asked = amounts_get(&requests, STR("cpu"));
    pod_set_cpu(asked, pod_start_is_limited(pod, STR("cpu")) ? cpu : NULL, l);
    if (memory && pod_start_is_limited(pod, STR("memory")))
        l->memory_bytes = quantity_value(memory);
    if (p->owner->options.pids_max > 0)
        l->pids = p->owner->options.pids_max;
}

// --- References and volumes ----------------------------------------------------------------------

static void pod_start_on_refs_fetched(void *arg)
{
    struct pod *p = arg;
    if (pod_step_goes_on(p))
        pod_start_advance(p, 0, NULL);
}

static int pod_start_fetch_refs(struct pod *p, struct err *err)
{
    (void)err;
    pod_refs_cancel(&p->refs); // of a refresh
    pod_refs_fetch(&p->refs, p->owner->options.client, p->object, pod_start_on_refs_fetched, p);
    return p->refs.waiting > 0 ? POD_STEP_WAITS : 0;
}

static void pod_start_env_facts(const struct pod *p, struct env_facts *f)
{
    const struct typed_object *node = p->owner->options.node_object(p->owner->options.arg);
    *f = (struct env_facts){.pod = pod_spec_of(p),
                            .pod_ip = pod_spec_of(p)->spec.host_network ? p->owner->options.host_ips
                                                                        : str_z(p->sandbox.address),
                            .host_ips = p->owner->options.host_ips,
                            .node = node ? node->object.value : NULL};
}

// What a volume in memory may hold: as much as the pod, which is charged for it, or the node has.
static int64_t pod_start_memory_max(const struct pod *p)
{
    const struct typed_object *node = p->owner->options.node_object(p->owner->options.arg);
    const struct api_node *n = node ? node->object.value : NULL;
    const struct quantity *all = n ? amounts_get(&n->status.allocatable, STR("memory")) : NULL;
    struct runtime_limits limits = {0};
    pod_start_set_limits(p, &limits);
    return limits.memory_bytes ? limits.memory_bytes : all ? quantity_value(all) : 0;
}

static int pod_start_write_volumes(struct pod *p, bool update, struct err *err)
{
    cleanup_sbuf struct sbuf folder = {0};
    bool on_disk = false;
    pod_directory(p, &folder);
    struct volume_options o = {.folder = folder.p,
                               .refs = &p->refs,
                               .may_mount = p->owner->options.may_mount,
                               .on_disk = &on_disk};
    pod_start_env_facts(p, &o.facts);
    o.memory_max = pod_start_memory_max(p);
    int r = update ? volumes_update(&o, err) : volume_make_directory(folder.p, 0750, err);
    if (r == 0 && !update)
        r = volumes_set_up(&o, err);
    if (on_disk && !update && !p->volumes_ready)
        pod_add_event(
            p, EVENT_WARNING, "PossibleMemoryBackedVolumesOnDisk",
            "volumes that should be in memory are on the disk of the node: mounting a tmpfs "
            "needs root");
    return r;
}

static void pod_start_on_refresh_fetched(void *arg)
{
    struct pod *p = arg;
    struct err err = {0};
    if (p->stage == POD_ACTIVE && p->volumes_ready && pod_start_write_volumes(p, true, &err) < 0)
        pod_add_event(p, EVENT_WARNING, "FailedMount", "%s", err.msg);
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

static int pod_start_set_up_volumes(struct pod *p, struct err *err)
{
    p->refs_at_ns = exec_now_ns(p->owner->exec);
    p->refs_fresh = true;
    int r = pod_start_write_volumes(p, false, err);
    if (r < 0)
        return r;
    p->volumes_ready = true;
    pod_start_schedule_refresh(p);
    return 0;
}

// --- Claims --------------------------------------------------------------------------------------

static int pod_start_prepare_claims(struct pod *p, struct err *err)
{
    const struct api_pod *pod = pod_spec_of(p);
    if (pod->spec.resource_claims.n == 0 && !pod->status.extended_resource_claim_status)
        return 0;
    if (!p->owner->dra)
        return err_set(err, ERR_UNSUPPORTED, "this node runs without a manager of claims");
    dra_prepare(p->owner->dra, p->object, pod_start_on_done, pod_call_new(p, NULL));
    return POD_STEP_WAITS;
}

// --- The sandbox ---------------------------------------------------------------------------------

// A sandbox of an earlier attempt is stopped first. Its failure is not the new one's.
static int pod_start_stop_old_sandbox(struct pod *p, struct err *err)
{
    struct runtime *runtime = pod_runtime(p);
    (void)err;
    if (!p->sandbox.id)
        return 0;
    fault_point("pod_stop");
    runtime->ops->pod_stop(runtime, str_z(p->sandbox.id), pod_start_on_done, pod_call_new(p, NULL));
    return POD_STEP_WAITS;
}

static void pod_start_on_sandbox_created(void *arg, int code, struct str id, const struct err *err)
{
    struct pod_call *call = arg;
    if (code == 0 && list_linked(&call->node)) { // also for a pod that is stopping: it must know
        free(call->pod->sandbox.id);
        call->pod->sandbox.id = xstrndup(id.p, id.n);
        call->pod->sandbox.known = true;
    }
    pod_start_on_done(arg, code, err);
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

struct str pod_cgroup_parent(const struct api_pod *pod)
{
    struct str q = pod->status.qos_class;
    return str_eqz(q, "Guaranteed")   ? STR("guaranteed")
           : str_eqz(q, "BestEffort") ? STR("besteffort")
                                      : STR("burstable");
}

// The ids of a pod with a user namespace are its own for as long as it has a directory.
static int pod_start_set_users(const struct pod *p, struct runtime_users *ret, struct err *err)
{
    const struct api_pod_spec *s = &pod_spec_of(p)->spec;
    const struct pods_options *o = &p->owner->options;
    cleanup_sbuf struct sbuf all = {0};
    if (!s->has_host_users || s->host_users)
        return 0;
    sbuf_addf(&all, "%s/pods", o->data_dir);
    ret->length = ID_RANGE_LENGTH;
    return id_ranges_assign(o->ids, all.p, p->uid_text, &ret->base, err);
}

static int pod_start_create_sandbox(struct pod *p, struct err *err)
{
    struct runtime *runtime = pod_runtime(p);
    const struct api_pod *pod = pod_spec_of(p);
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf logs = {0}, hosts = {0}, dns = {0};
    struct runtime_pair *sysctls = NULL;
    size_t sysctls_len = pod_start_set_sysctls(pod, &arena, &sysctls);
    pod_log_directory(p, &logs);
    pod_start_add_hosts(p, &hosts);
    pod_start_set_dns(p, &dns);
    p->sandbox.attempt = p->sandbox.known ? p->sandbox.attempt + 1 : 0;
    struct runtime_pod q = {
        .namespace = pod->metadata.namespace,
        .name = pod->metadata.name,
        .uid = pod->metadata.uid,
        .attempt = p->sandbox.attempt,
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
        .cgroup_parent = pod_cgroup_parent(pod)};
    pod_start_set_limits(p, &q.limits);
    pod_handler(p, &q.handler);
    int r = pod_start_set_users(p, &q.users, err);
    if (r < 0)
        return r;
    fault_point("pod_run");
    runtime->ops->pod_run(runtime, &q, pod_start_on_sandbox_created, pod_call_new(p, NULL));
    return POD_STEP_WAITS;
}

static void pod_start_on_address(void *arg, const struct runtime_list *all)
{
    struct pod_call call;
    if (!pod_step_take(arg, &call))
        return;
    struct pod *p = call.pod;
    for (size_t i = 0; i < all->pods_len; i++) {
        const struct runtime_pod_status *s = &all->pods[i];
        if (!str_eqz(s->id, p->sandbox.id))
            continue;
        free(p->sandbox.address);
        p->sandbox.address = pod_text_copy(s->address);
        p->sandbox.ready = s->state == RUNTIME_POD_READY;
    }
    pod_start_advance(p, 0, NULL);
}

static int pod_start_read_address(struct pod *p, struct err *err)
{
    struct runtime *runtime = pod_runtime(p);
    (void)err;
    runtime->ops->list(runtime, pod_start_on_address, pod_call_new(p, NULL));
    return POD_STEP_WAITS;
}

static int pod_start_finish(struct pod *p, struct err *err)
{
    (void)err;
    pod_status_changed(p);
    pod_step_done(p);
    return POD_STEP_WAITS;
}

// --- The chain -----------------------------------------------------------------------------------

// begin returns 0 (done), POD_STEP_WAITS (its callback advances), or a failure: the event has
// reason and message; without a reason the failure is ignored.
static const struct {
    int (*begin)(struct pod *p, struct err *err);
    const char *reason, *message;
} pod_start_steps[] = {
    [START_REFS] = {pod_start_fetch_refs, NULL, NULL},
    [START_VOLUMES] = {pod_start_set_up_volumes, "FailedMount", ""},
    [START_CLAIMS] = {pod_start_prepare_claims, "FailedPrepareDynamicResources",
                      "Failed to prepare dynamic resources: prepare dynamic resources: "},
    [START_OLD_SANDBOX] = {pod_start_stop_old_sandbox, NULL, NULL},
    [START_SANDBOX] = {pod_start_create_sandbox, "FailedCreatePodSandBox",
                       "Failed to create pod sandbox: "},
    [START_ADDRESS] = {pod_start_read_address, NULL, NULL},
    [START_DONE] = {pod_start_finish, NULL, NULL},
};

// pod_start_advance takes the result of the step under way and runs the next ones up to one that
// waits.
static void pod_start_advance(struct pod *p, int r, const struct err *err)
{
    struct err why = {0};
    while (r == 0 || (r < 0 && !pod_start_steps[p->start].reason)) {
        p->start++;
        r = pod_start_steps[p->start].begin(p, &why);
        err = &why;
    }
    if (r > 0)
        return;
    pod_add_event(p, EVENT_WARNING, pod_start_steps[p->start].reason, "%s%s",
                  pod_start_steps[p->start].message, err->msg);
    pod_step_failed(p);
}

void pod_start_sandbox(struct pod *p)
{
    p->busy = true;
    p->start = START_IDLE;
    pod_start_advance(p, 0, NULL);
}
