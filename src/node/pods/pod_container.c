// SPDX-License-Identifier: Apache-2.0
//
// The request to the runtime for a container: its command, environment, mounts, devices, privileges
// and limits, from its spec and the objects that the pod refers to.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>

#include "api/amounts.h"
#include "api/service_names.h"
#include "node/pods/env.h"
#include "node/pods/pods_int.h"
#include "node/volume/volume.h"

#include "base/banned.h"

#define CPU_PERIOD_US    100000
#define CPU_QUOTA_MIN    1000
#define CPU_SHARES_MIN   2
#define CPU_SHARES_MAX   262144
#define GUARANTEED_SCORE (-997)

// --- Environment and command ---------------------------------------------------------------------

struct service_walk {
    struct arena *arena;
    struct env_pairs env;
    struct str namespace;
    bool all; // of the pod's namespace; else only the API's own
    bool api;
};

static void pod_container_add_service_env(void *arg, const struct typed_object *o)
{
    struct service_walk *w = arg;
    bool api = str_eqz(o->meta->namespace, "default") && str_eqz(o->meta->name, "kubernetes");
    if (api && api_map_find(&o->meta->annotations, STR(SERVICE_DIRECT)))
        return; // its cluster IP has no route: pod_container_add_api_env adds the real address
    if (api)
        w->api = true;
    if (api || (w->all && str_eq(o->meta->namespace, w->namespace)))
        env_service(o->object.value, w->arena, &w->env);
}

static void pod_container_add_api_env(const struct pods *p, struct service_walk *w)
{
    if (w->api || p->options.api_host.n == 0)
        return;
    vec_push_arena(w->arena, &w->env,
                   ((struct runtime_pair){STR("KUBERNETES_SERVICE_HOST"), p->options.api_host}));
    vec_push_arena(w->arena, &w->env,
                   ((struct runtime_pair){STR("KUBERNETES_SERVICE_PORT"), p->options.api_port}));
    vec_push_arena(
        w->arena, &w->env,
        ((struct runtime_pair){STR("KUBERNETES_SERVICE_PORT_HTTPS"), p->options.api_port}));
}

static int pod_container_make_env(struct pod_container *c, struct arena *arena,
                                  struct env_pairs *ret, struct err *err)
{
    const struct pod *p = c->pod;
    const struct api_pod *pod = pod_spec_of(p);
    const struct typed_object *node = p->owner->options.node_object(p->owner->options.arg);
    struct service_walk w = {.arena = arena,
                             .namespace = pod->metadata.namespace,
                             .all = !pod->spec.has_enable_service_links ||
                                    pod->spec.enable_service_links};
    cleanup_sbuf struct sbuf skipped = {0};
    informer_foreach(p->owner->services, pod_container_add_service_env, &w);
    pod_container_add_api_env(p->owner, &w);
    const struct env_options o = {.facts = {.pod = pod,
                                            .pod_ip = pod->spec.host_network
                                                          ? p->owner->options.host_ips
                                                          : str_z(p->sandbox.address),
                                            .host_ips = p->owner->options.host_ips,
                                            .node = node ? node->object.value : NULL},
                                  .refs = &p->refs,
                                  .services = w.env.p,
                                  .services_len = w.env.n};
    int r = env_make(&o, pod_container_spec(c), arena, ret, &skipped, err);
    if (r == 0 && skipped.n)
        pod_add_event(c->pod, EVENT_WARNING, "InvalidEnvironmentVariableNames",
                      "Keys [%s] were skipped since they are invalid environment variable names.",
                      skipped.p);
    return r;
}

static int pod_container_expand_all(const struct api_str_array *in, const struct env_pairs *env,
                                    size_t *left, struct arena *arena, const struct str **ret,
                                    struct err *err)
{
    struct str *out = arena_array(arena, struct str, in->n + 1);
    int r = 0;
    for (size_t i = 0; r == 0 && i < in->n; i++)
        r = env_expand(in->p[i], env, left, arena, &out[i], err);
    *ret = out;
    return r;
}

// --- Mounts --------------------------------------------------------------------------------------

struct mounts VEC(struct runtime_mount);

static enum runtime_propagation pod_container_propagation_of(const struct api_volume_mount *m)
{
    return str_eqz(m->mount_propagation, "Bidirectional")     ? RUNTIME_BIDIRECTIONAL
           : str_eqz(m->mount_propagation, "HostToContainer") ? RUNTIME_HOST_TO_CONTAINER
                                                              : RUNTIME_PRIVATE;
}

static bool pod_container_path_escapes(struct str path)
{
    struct str rest = path;
    if (path.n > 0 && path.p[0] == '/')
        return true;
    while (rest.n > 0) {
        struct str part;
        (void)str_cut(rest, '/', &part, &rest);
        if (str_eqz(part, ".."))
            return true;
    }
    return memchr(path.n ? path.p : "", '\0', path.n) != NULL;
}

// What the agent writes, and claims that the pod wants to read alone.
static bool pod_container_is_read_only(const struct api_pod *pod, struct str name)
{
    for (size_t i = 0; i < pod->spec.volumes.n; i++) {
        const struct api_volume_source *v = &pod->spec.volumes.p[i].volume_source;
        if (str_eq(pod->spec.volumes.p[i].name, name))
            return v->config_map || v->secret || v->projected || v->downward_api ||
                   (v->persistent_volume_claim && v->persistent_volume_claim->read_only);
    }
    return false;
}

static int pod_container_add_mount(const struct pod *p, const struct api_volume_mount *m,
                                   const struct env_pairs *env, size_t *left, struct arena *arena,
                                   struct mounts *out, struct err *err)
{
    cleanup_sbuf struct sbuf folder = {0};
    pod_directory(p, &folder);
    const char *host = volume_path(folder.p, pod_spec_of(p), &p->refs, m->name, arena);
    if (!host)
        return err_set(err, ERR_NOT_FOUND, "cannot find volume \"%.*s\" to mount into container",
                       STR_ARG(m->name));
    struct str sub = m->sub_path;
    if (m->sub_path_expr.n) {
        int r = env_expand(m->sub_path_expr, env, left, arena, &sub, err);
        if (r < 0)
            return r;
    }
    if (m->sub_path_expr.n && str_contains(sub, STR("$(")))
        return err_set(err, ERR_INVALID, "missing value for \"%.*s\"", STR_ARG(m->sub_path_expr));
    if (pod_container_path_escapes(sub))
        return err_set(err, ERR_INVALID, "subPath \"%.*s\" must be a relative path without \"..\"",
                       STR_ARG(sub));
    vec_push_arena(
        arena, out,
        ((struct runtime_mount){.host_path = host,
                                .container_path = arena_str(arena, m->mount_path).p,
                                .sub_path = arena_str(arena, sub).p,
                                .read_only = m->read_only ||
                                             pod_container_is_read_only(pod_spec_of(p), m->name),
                                .recursive = pod_mount_is_recursive(p, m),
                                .propagation = pod_container_propagation_of(m)}));
    return 0;
}

static int pod_container_add_message_file(struct pod_container *c, struct arena *arena,
                                          struct mounts *out, struct err *err)
{
    struct str at = pod_container_spec(c)->termination_message_path;
    cleanup_sbuf struct sbuf path = {0};
    if (at.n == 0)
        return 0;
    pod_directory(c->pod, &path);
    sbuf_addz(&path, "/containers");
    int r = volume_make_messages(path.p, c->pod->owner->options.may_mount, err);
    sbuf_addf(&path, "/%s", c->name);
    if (r == 0)
        r = volume_make_directory(path.p, 0755, err);
    sbuf_clear(&path);
    pod_message_path(c, c->next_attempt, &path);
    if (r < 0)
        return r;
    int fd = open(path.p, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0 || fchmod(fd, 0666) != 0)
        r = err_set(err, errno, "%s: %s", path.p, strerrordesc_np(errno));
    if (fd >= 0)
        (void)close(fd);
    if (r == 0)
        vec_push_arena(arena, out,
                       ((struct runtime_mount){.host_path = arena_str(arena, sbuf_str(&path)).p,
                                               .container_path = arena_str(arena, at).p,
                                               .sub_path = ""}));
    return r;
}

// --- Privileges ----------------------------------------------------------------------------------

static void pod_container_set_user(const struct api_pod_security_context *pod,
                                   const struct api_security_context *own,
                                   struct runtime_security *s)
{
    if (own && own->has_run_as_user) {
        s->has_user = true;
        s->user = own->run_as_user;
    } else if (pod && pod->has_run_as_user) {
        s->has_user = true;
        s->user = pod->run_as_user;
    }
    if (own && own->has_run_as_group) {
        s->has_group = true;
        s->group = own->run_as_group;
    } else if (pod && pod->has_run_as_group) {
        s->has_group = true;
        s->group = pod->run_as_group;
    }
    s->must_not_be_root =
        own && own->has_run_as_non_root ? own->run_as_non_root : pod && pod->run_as_non_root;
}

static void pod_container_set_groups(const struct api_pod_security_context *pod,
                                     struct arena *arena, struct runtime_security *s)
{
    size_t n = pod ? pod->supplemental_groups.n : 0;
    int64_t *groups = arena_array(arena, int64_t, n + 1);
    for (size_t i = 0; i < n; i++)
        groups[i] = pod->supplemental_groups.p[i];
    if (pod && pod->has_fs_group)
        groups[n++] = pod->fs_group;
    s->groups = groups;
    s->groups_len = n;
    s->strict_groups = pod && str_eqz(pod->supplemental_groups_policy, "Strict");
}

static void pod_container_set_seccomp(const struct pod *p,
                                      const struct api_seccomp_profile *profile,
                                      struct arena *arena, struct runtime_security *s)
{
    if (!profile || str_eqz(profile->type, "RuntimeDefault"))
        return;
    if (str_eqz(profile->type, "Unconfined")) {
        s->seccomp = RUNTIME_SECCOMP_UNCONFINED;
        return;
    }
    s->seccomp = RUNTIME_SECCOMP_FILE;
    s->seccomp_file = arena_strf(arena, "%s/seccomp/%.*s", p->owner->options.data_dir,
                                 STR_ARG(profile->localhost_profile))
                          .p;
}

static int pod_container_set_security(struct pod_container *c, struct arena *arena,
                                      struct runtime_security *s, struct err *err)
{
    const struct api_pod_security_context *pod = pod_spec_of(c->pod)->spec.security_context;
    const struct api_security_context *own = pod_container_spec(c)->security_context;
    pod_container_set_user(pod, own, s);
    pod_container_set_groups(pod, arena, s);
    if (s->must_not_be_root && s->has_user && s->user == 0)
        return err_set(
            err, ERR_INVALID,
            "container's runAsUser breaks non-root policy (pod: \"%.*s\", container: %s)",
            STR_ARG(c->pod->object->meta->name), c->name);
    const struct api_seccomp_profile *profile = own && own->seccomp_profile ? own->seccomp_profile
                                                : pod                       ? pod->seccomp_profile
                                                                            : NULL;
    if (profile && str_eqz(profile->type, "Localhost") &&
        (profile->localhost_profile.n == 0 ||
         pod_container_path_escapes(profile->localhost_profile)))
        return err_set(err, ERR_INVALID, "localhostProfile must be a relative path without \"..\"");
    pod_container_set_seccomp(c->pod, profile, arena, s);
    pod_set_labels(c, arena, s);
    if (!own)
        return 0;
    s->privileged = own->privileged;
    s->no_new_privileges = own->has_allow_privilege_escalation && !own->allow_privilege_escalation;
    s->read_only_root = own->read_only_root_filesystem;
    s->unmasked_proc = str_eqz(own->proc_mount, "Unmasked");
    if (own->capabilities) {
        s->add_caps = own->capabilities->add.p;
        s->add_caps_len = own->capabilities->add.n;
        s->drop_caps = own->capabilities->drop.p;
        s->drop_caps_len = own->capabilities->drop.n;
    }
    return 0;
}

// --- Limits --------------------------------------------------------------------------------------

static bool pod_container_set_oom_score(int64_t score)
{
    char number[24];
    int n = snprintf(number, sizeof(number), "%lld", (long long)score);
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, number, (size_t)n) == n;
    if (fd >= 0)
        (void)close(fd);
    return ok;
}

// The lowest score that may be given here: a machine within a machine may not lower its own.
static int64_t pod_container_lowest_oom_score(void)
{
    static bool known;
    static int64_t lowest = GUARANTEED_SCORE;
    char number[24] = "";
    int64_t own;
    if (known)
        return lowest;
    known = true;
    int fd = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, number, sizeof(number) - 1) : -1;
    if (fd >= 0)
        (void)close(fd);
    if (n <= 0 || str_to_i64(str_trim(str_make(number, (size_t)n)), &own) < 0)
        return lowest;
    if (!pod_container_set_oom_score(GUARANTEED_SCORE))
        lowest = own;
    else
        (void)pod_container_set_oom_score(own);
    return lowest;
}

static int64_t pod_container_oom_score(struct pod_container *c, int64_t memory_request)
{
    const struct pod *p = c->pod;
    struct str qos = pod_spec_of(p)->status.qos_class;
    const struct typed_object *node = p->owner->options.node_object(p->owner->options.arg);
    const struct api_node *n = node ? node->object.value : NULL;
    const struct quantity *all = n ? amounts_get(&n->status.capacity, STR("memory")) : NULL;
    int64_t capacity = all ? quantity_value(all) : 0;
    if (str_eqz(qos, "Guaranteed"))
        return GUARANTEED_SCORE;
    if (str_eqz(qos, "BestEffort") || capacity <= 0)
        return 1000;
    int64_t score = 1000 - 1000 * (memory_request / 1024) / (capacity / 1024);
    return score < 3 ? 3 : score >= 1000 ? 999 : score;
}

void pod_set_cpu(const struct quantity *request, const struct quantity *limit,
                 struct runtime_limits *l)
{
    int64_t shares = request ? quantity_milli(request) * 1024 / 1000 : CPU_SHARES_MIN;
    l->cpu_shares = shares < CPU_SHARES_MIN   ? CPU_SHARES_MIN
                    : shares > CPU_SHARES_MAX ? CPU_SHARES_MAX
                                              : shares;
    if (limit && quantity_sign(limit) > 0) {
        int64_t quota = quantity_milli(limit) * CPU_PERIOD_US / 1000;
        l->cpu_period_us = CPU_PERIOD_US;
        l->cpu_quota_us = quota < CPU_QUOTA_MIN ? CPU_QUOTA_MIN : quota;
    }
}

static void pod_container_set_limits(struct pod_container *c, struct runtime_limits *l)
{
    const struct api_resource_requirements *r = &pod_container_spec(c)->resources;
    const struct quantity *cpu = amounts_get(&r->limits, STR("cpu"));
    const struct quantity *memory = amounts_get(&r->limits, STR("memory"));
    const struct quantity *cpu_request = amounts_get(&r->requests, STR("cpu"));
    const struct quantity *memory_request = amounts_get(&r->requests, STR("memory"));
    pod_set_cpu(cpu_request ? cpu_request : cpu, cpu, l);
    l->memory_bytes = memory ? quantity_value(memory) : 0;
    int64_t score = pod_container_oom_score(c, memory_request ? quantity_value(memory_request) : 0);
    l->oom_score_adj =
        score < pod_container_lowest_oom_score() ? pod_container_lowest_oom_score() : score;
}

// --- The request ---------------------------------------------------------------------------------

// Devices of claims and of device plugins.
static int pod_container_set_dra_devices(struct pod_container *c, const struct devplug_gifts *gifts,
                                         struct arena *arena, struct runtime_container *q,
                                         struct err *err)
{
    const struct api_container *spec = pod_container_spec(c);
    struct dra_texts names = {0};
    int r = 0;
    if (c->pod->owner->dra)
        r = dra_container_devices(c->pod->owner->dra, pod_spec_of(c->pod), spec, arena, &names,
                                  err);
    vec_foreach(&gifts->cdi_devices, name)
        vec_push_arena(arena, &names, *name);
    q->devices = gifts->devices.p;
    q->devices_len = gifts->devices.n;
    q->annotations = gifts->annotations.p;
    q->annotations_len = gifts->annotations.n;
    q->cdi_devices = names.p;
    q->cdi_devices_len = names.n;
    return r;
}

// Environment and mounts of plugins come first: the pod's own override them.
static int pod_container_set_plugin_devices(struct pod_container *c, struct arena *arena,
                                            struct devplug_gifts *gifts, struct env_pairs *env,
                                            struct mounts *mounts, struct err *err)
{
    const struct devplug *d = c->pod->owner->devices;
    struct env_pairs own = *env;
    if (!d)
        return 0;
    int r = devplug_container(d, str_z(c->pod->uid_text), str_z(c->name), arena, gifts, err);
    if (gifts->env.n > 0) {
        *env = (struct env_pairs){0};
        vec_foreach(&gifts->env, e)
            vec_push_arena(arena, env, *e);
        vec_foreach(&own, e)
            vec_push_arena(arena, env, *e);
    }
    vec_foreach(&gifts->mounts, m)
        vec_push_arena(arena, mounts, *m);
    return r;
}

// The container whose processes an ephemeral container shall see.
static int pod_container_set_target(const struct pod_container *c, struct str *ret, struct err *err)
{
    if (c->kind != POD_DEBUG)
        return 0;
    struct str name =
        pod_spec_of(c->pod)->spec.ephemeral_containers.p[c->index].target_container_name;
    const struct pod_container *t = pod_container_named(c->pod, name);
    if (name.n && (!t || !t->now.id || t->now.state != RUNTIME_RUNNING))
        return err_set(err, ERR_NOT_FOUND, "unable to find target container %.*s", STR_ARG(name));
    *ret = name.n ? str_z(t->now.id) : STR("");
    return 0;
}

// Admission has not seen ephemeral containers, nor pods that an older agent admitted.
static int pod_container_check_isolation(const struct pod_container *c, struct err *err)
{
    cleanup_sbuf struct sbuf reason = {0}, message = {0};
    if (pod_isolation_is_possible(c->pod, c, &reason, &message))
        return 0;
    return err_set(err, ERR_UNSUPPORTED, "%s", message.p);
}

int pod_request_make(struct pod_container *c, struct str image, struct arena *arena,
                     struct runtime_container *q, struct err *err)
{
    const struct api_container *spec = pod_container_spec(c);
    struct env_pairs env = {0};
    struct mounts mounts = {0};
    struct devplug_gifts gifts = {0};
    const struct str *command = NULL, *args = NULL;
    size_t left = DRAY_EXPANDED_BYTES_MAX;
    int r = pod_container_check_isolation(c, err);
    if (r == 0)
        r = pod_container_make_env(c, arena, &env, err);
    if (r == 0)
        r = pod_container_set_plugin_devices(c, arena, &gifts, &env, &mounts, err);
    for (size_t i = 0; r == 0 && i < spec->volume_mounts.n; i++)
        r = pod_container_add_mount(c->pod, &spec->volume_mounts.p[i], &env, &left, arena, &mounts,
                                    err);
    if (r == 0 && spec->volume_devices.n)
        r = err_set(err, ERR_UNSUPPORTED,
                    "this node offers no raw block volumes: use a volumeMount");
    if (r == 0)
        r = pod_container_add_message_file(c, arena, &mounts, err);
    if (r == 0)
        r = pod_container_expand_all(&spec->command, &env, &left, arena, &command, err);
    if (r == 0)
        r = pod_container_expand_all(&spec->args, &env, &left, arena, &args, err);
    *q = (struct runtime_container){.name = spec->name,
                                    .attempt = c->next_attempt,
                                    .image = arena_str(arena, image),
                                    .command = command,
                                    .command_len = spec->command.n,
                                    .args = args,
                                    .args_len = spec->args.n,
                                    .working_dir = spec->working_dir,
                                    .env = env.p,
                                    .env_len = env.n,
                                    .mounts = mounts.p,
                                    .mounts_len = mounts.n,
                                    .stdin = spec->stdin,
                                    .stdin_once = spec->stdin_once,
                                    .tty = spec->tty};
    if (r == 0)
        r = pod_container_set_target(c, &q->target, err);
    if (r == 0)
        r = pod_container_set_security(c, arena, &q->security, err);
    if (r == 0)
        r = pod_container_set_dra_devices(c, &gifts, arena, q, err);
    pod_container_set_limits(c, &q->limits);
    return r;
}
