// SPDX-License-Identifier: Apache-2.0
//
// Fields of a pod that promise isolation which this node cannot provide. A pod with one of them is
// rejected with a reason: running it without the promised isolation would be worse than not running
// it. One table holds them all; a field that becomes supported leaves it. Reasons and messages are
// kubelet's where kubelet refuses the same pods.
#include "node/pods/pods_int.h"

#include "base/banned.h"

struct isolation_row {
    const char *reason;
    const char *message;
    // Each checks whether the pod or one of its containers has the field set; NULL: it does not
    // exist there. The pod's may add to the message.
    bool (*pod_asks)(const struct pods *p, const struct api_pod *pod, struct sbuf *detail);
    bool (*container_asks)(const struct api_container *c);
};

// --- Rows ----------------------------------------------------------------------------------------

static bool isolation_asks_user_namespace(const struct pods *p, const struct api_pod *pod,
                                          struct sbuf *detail)
{
    (void)p;
    (void)detail;
    return pod->spec.has_host_users && !pod->spec.host_users;
}

static const struct api_runtime_class *isolation_find_class(const struct pods *p,
                                                            const struct api_pod *pod)
{
    const struct typed_object *o =
        informer_get(p->runtime_classes, STR(""), pod->spec.runtime_class_name);
    return o ? o->object.value : NULL;
}

// A class that does not exist (any more) is not judged here: pod_runtime_class_is_known waits for
// it.
static bool isolation_asks_handler(const struct pods *p, const struct api_pod *pod,
                                   struct sbuf *detail)
{
    if (!pod->spec.has_runtime_class_name || pod->spec.runtime_class_name.n == 0)
        return false;
    const struct api_runtime_class *class = isolation_find_class(p, pod);
    if (!class || class->handler.n == 0 || str_eq(class->handler, p->runtime_name))
        return false;
    sbuf_addf(detail, ": RuntimeClass \"%.*s\" has handler \"%.*s\", this node has \"%.*s\"",
              STR_ARG(pod->spec.runtime_class_name), STR_ARG(class->handler),
              STR_ARG(p->runtime_name));
    return true;
}

static bool isolation_is_confined(const struct api_app_armor_profile *profile)
{
    return profile && !str_eqz(profile->type, "Unconfined");
}

// Before there was a field, an annotation for each container named its profile; it still counts.
static bool isolation_is_annotated(const struct api_pod *pod)
{
    static const struct str prefix = STR_INIT("container.apparmor.security.beta.kubernetes.io/");
    const struct api_str_map *all = &pod->metadata.annotations;
    for (size_t i = 0; i < all->n; i++)
        if (str_starts(all->p[i].key, prefix) && all->p[i].value.n > 0 &&
            !str_eqz(all->p[i].value, "unconfined"))
            return true;
    return false;
}

static bool isolation_pod_asks_apparmor(const struct pods *p, const struct api_pod *pod,
                                        struct sbuf *detail)
{
    (void)p;
    (void)detail;
    const struct api_pod_security_context *s = pod->spec.security_context;
    return (s && isolation_is_confined(s->app_armor_profile)) || isolation_is_annotated(pod);
}

static bool isolation_container_asks_apparmor(const struct api_container *c)
{
    return c->security_context && isolation_is_confined(c->security_context->app_armor_profile);
}

static bool isolation_is_labelled(const struct api_se_linux_options *o)
{
    return o && (o->user.n || o->role.n || o->type.n || o->level.n);
}

static bool isolation_pod_asks_selinux(const struct pods *p, const struct api_pod *pod,
                                       struct sbuf *detail)
{
    (void)p;
    (void)detail;
    const struct api_pod_security_context *s = pod->spec.security_context;
    return s && isolation_is_labelled(s->se_linux_options);
}

static bool isolation_container_asks_selinux(const struct api_container *c)
{
    return c->security_context && isolation_is_labelled(c->security_context->se_linux_options);
}

static bool isolation_asks_recursive(const struct api_container *c)
{
    for (size_t i = 0; i < c->volume_mounts.n; i++)
        if (str_eqz(c->volume_mounts.p[i].recursive_read_only, "Enabled"))
            return true;
    return false;
}

static bool isolation_asks_mount_options(const struct api_container *c)
{
    for (size_t i = 0; i < c->volume_mounts.n; i++)
        if (c->volume_mounts.p[i].bind_mount_options.n)
            return true;
    return false;
}

static const struct isolation_row isolation_rows[] = {
    {.reason = "UserNamespacesNotSupported",
     .message = "hostUsers: false is not supported on this node: it has no user namespaces for "
                "pods; remove hostUsers or choose another node",
     .pod_asks = isolation_asks_user_namespace},
    {.reason = "RuntimeHandlerNotSupported",
     .message = "the pod's runtime handler is not supported on this node",
     .pod_asks = isolation_asks_handler},
    {.reason = "AppArmor",
     .message = "Cannot enforce AppArmor: this node does not apply AppArmor profiles",
     .pod_asks = isolation_pod_asks_apparmor,
     .container_asks = isolation_container_asks_apparmor},
    {.reason = "SELinuxNotSupported",
     .message = "seLinuxOptions is not supported on this node: it does not apply SELinux labels",
     .pod_asks = isolation_pod_asks_selinux,
     .container_asks = isolation_container_asks_selinux},
    {.reason = "RecursiveReadOnlyNotSupported",
     .message = "recursiveReadOnly: Enabled is not supported on this node; IfPossible is",
     .container_asks = isolation_asks_recursive},
    {.reason = "BindMountOptionsNotSupported",
     .message = "bindMountOptions is not supported on this node",
     .container_asks = isolation_asks_mount_options},
};

// --- Interface -----------------------------------------------------------------------------------

static bool isolation_row_refuses(const struct isolation_row *row, const struct pods *p,
                                  const struct pod *pod, const struct pod_container *only,
                                  struct sbuf *detail)
{
    if (row->pod_asks && row->pod_asks(p, pod_spec_of(pod), detail))
        return true;
    for (size_t i = 0; row->container_asks && i < pod->containers_len; i++)
        if ((!only || only == pod->containers[i]) &&
            row->container_asks(pod_container_spec(pod->containers[i])))
            return true;
    return false;
}

bool pod_isolation_is_possible(const struct pod *pod, const struct pod_container *only,
                               struct sbuf *reason, struct sbuf *message)
{
    cleanup_sbuf struct sbuf detail = {0};
    for (size_t i = 0; i < array_len(isolation_rows); i++) {
        const struct isolation_row *row = &isolation_rows[i];
        if (!isolation_row_refuses(row, pod->owner, pod, only, &detail))
            continue;
        sbuf_addz(reason, row->reason);
        sbuf_addz(message, row->message);
        sbuf_add(message, sbuf_str(&detail));
        return false;
    }
    return true;
}

bool pod_runtime_class_is_known(const struct pod *pod)
{
    const struct api_pod *a = pod_spec_of(pod);
    return !a->spec.has_runtime_class_name || a->spec.runtime_class_name.n == 0 ||
           isolation_find_class(pod->owner, a);
}

// --- Runtime classes -----------------------------------------------------------------------------

static void isolation_class_changed(void *arg, const struct typed_object *before,
                                    const struct typed_object *after)
{
    (void)before;
    (void)after;
    pods_node_changed(arg); // pods that wait for a class look again
}

static void isolation_classes_synced(void *arg)
{
    pods_node_changed(arg);
}

void pods_watch_runtime_classes(struct pods *p)
{
    const struct informer_options o = {.client = p->options.client,
                                       .kind = api_kind_find(STR("node.k8s.io/v1"),
                                                             STR("RuntimeClass"))};
    const struct informer_handler h = {
        .changed = isolation_class_changed, .synced = isolation_classes_synced, .arg = p};
    p->runtime_classes = informer_new(&o);
    informer_add_handler(p->runtime_classes, &h);
}
