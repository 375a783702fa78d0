// SPDX-License-Identifier: Apache-2.0
//
// Fields of a pod that promise isolation. A pod with one that this node cannot provide is rejected
// with a reason: running it without the promised isolation would be worse than not running it. One
// table holds them all. Reasons and messages are kubelet's where kubelet refuses the same pods.
#include "node/pods/pods_int.h"

#include "base/banned.h"

// The profile of RuntimeDefault: the name under which distributions load containerd's.
#define APPARMOR_DEFAULT "cri-containerd.apparmor.d"

struct isolation_row {
    const char *reason;
    const char *message;
    // Each checks whether the pod or one of its containers has the field set; NULL: it does not
    // exist there. The pod's may add to the message.
    bool (*pod_asks)(const struct pods *p, const struct api_pod *pod, struct sbuf *detail);
    bool (*container_asks)(const struct api_container *c);
    // provides: this machine has it. NULL: none has.
    bool (*provides)(const struct runtime_features *f);
    bool of_host_users; // only of pods without a user namespace
};

static const struct runtime_features *isolation_features(const struct pods *p)
{
    static const struct runtime_features none = {.no_users = "its runtime has none"};
    const struct runtime *r = p->options.runtime;
    return r->ops->features ? r->ops->features(r) : &none;
}

// --- Rows ----------------------------------------------------------------------------------------

static const struct api_runtime_class *isolation_find_class(const struct pods *p,
                                                            const struct api_pod *pod)
{
    const struct typed_object *o =
        informer_get(p->runtime_classes, STR(""), pod->spec.runtime_class_name);
    return o ? o->object.value : NULL;
}

static struct str isolation_handler_of(const struct pods *p, const struct api_pod *pod)
{
    const struct api_runtime_class *class =
        pod->spec.has_runtime_class_name && pod->spec.runtime_class_name.n
            ? isolation_find_class(p, pod)
            : NULL;
    return class ? class->handler : STR("");
}

static const struct runtime_handler *isolation_find_handler(const struct pods *p, struct str name)
{
    const struct runtime_features *f = isolation_features(p);
    for (size_t i = 0; i < f->handlers_len; i++)
        if (name.n == 0 || str_eq(f->handlers[i].name, name))
            return &f->handlers[i];
    return NULL;
}

// A class that does not exist (any more) is not judged here: pod_runtime_class_is_known waits for
// it.
static bool isolation_asks_handler(const struct pods *p, const struct api_pod *pod,
                                   struct sbuf *detail)
{
    struct str handler = isolation_handler_of(p, pod);
    const struct runtime_features *f = isolation_features(p);
    if (handler.n == 0 || str_eq(handler, p->runtime_name) || isolation_find_handler(p, handler))
        return false;
    sbuf_addf(detail, ": RuntimeClass \"%.*s\" has handler \"%.*s\", this node has \"%.*s\"",
              STR_ARG(pod->spec.runtime_class_name), STR_ARG(handler), STR_ARG(p->runtime_name));
    for (size_t i = 0; i < f->handlers_len; i++)
        if (!str_eq(f->handlers[i].name, p->runtime_name))
            sbuf_addf(detail, ", \"%.*s\"", STR_ARG(f->handlers[i].name));
    return true;
}

static bool isolation_asks_user_namespace(const struct pods *p, const struct api_pod *pod,
                                          struct sbuf *detail)
{
    const struct runtime_features *f = isolation_features(p);
    const struct runtime_handler *h = isolation_find_handler(p, isolation_handler_of(p, pod));
    if (!pod->spec.has_host_users || pod->spec.host_users || (!f->no_users && h && h->users))
        return false;
    if (f->no_users)
        sbuf_addf(detail, ": %s", f->no_users);
    else if (h)
        sbuf_addf(detail, ": the runtime %.*s is too old for them", STR_ARG(h->name));
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

// Without a user namespace, root of the container could change the host through /proc. Validation
// demands one; an object may be older than that rule.
static bool isolation_asks_unmasked(const struct api_container *c)
{
    return c->security_context && str_eqz(c->security_context->proc_mount, "Unmasked");
}

static bool isolation_asks_block_device(const struct api_container *c)
{
    return c->volume_devices.n > 0;
}

static bool isolation_has_apparmor(const struct runtime_features *f)
{
    return f->apparmor;
}

static bool isolation_has_selinux(const struct runtime_features *f)
{
    return f->selinux;
}

static bool isolation_has_recursive(const struct runtime_features *f)
{
    return f->recursive_read_only;
}

static const struct isolation_row isolation_rows[] = {
    {.reason = "RuntimeHandlerNotSupported",
     .message = "the pod's runtime handler is not supported on this node",
     .pod_asks = isolation_asks_handler},
    {.reason = "UserNamespacesNotSupported",
     .message = "hostUsers: false is not supported on this node; remove hostUsers or choose "
                "another node",
     .pod_asks = isolation_asks_user_namespace},
    {.reason = "ProcMountNotSupported",
     .message = "procMount: Unmasked needs hostUsers: false",
     .container_asks = isolation_asks_unmasked,
     .of_host_users = true},
    {.reason = "AppArmor",
     .message = "Cannot enforce AppArmor: AppArmor is not enabled on the host",
     .pod_asks = isolation_pod_asks_apparmor,
     .container_asks = isolation_container_asks_apparmor,
     .provides = isolation_has_apparmor},
    {.reason = "SELinuxNotSupported",
     .message = "seLinuxOptions is not supported on this node: its kernel has no SELinux",
     .pod_asks = isolation_pod_asks_selinux,
     .container_asks = isolation_container_asks_selinux,
     .provides = isolation_has_selinux},
    {.reason = "RecursiveReadOnlyNotSupported",
     .message = "recursiveReadOnly: Enabled is not supported on this node; IfPossible is",
     .container_asks = isolation_asks_recursive,
     .provides = isolation_has_recursive},
    {.reason = "BindMountOptionsNotSupported",
     .message = "bindMountOptions is not supported on this node",
     .container_asks = isolation_asks_mount_options},
    {.reason = "BlockVolumesNotSupported",
     .message = "volumeDevices is not supported on this node: use a volumeMount",
     .container_asks = isolation_asks_block_device},
};

// --- Interface -----------------------------------------------------------------------------------

static bool isolation_row_refuses(const struct isolation_row *row, const struct pods *p,
                                  const struct pod *pod, const struct pod_container *only,
                                  struct sbuf *detail)
{
    const struct api_pod_spec *spec = &pod_spec_of(pod)->spec;
    if (row->of_host_users && spec->has_host_users && !spec->host_users)
        return false;
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
        if ((row->provides && row->provides(isolation_features(pod->owner))) ||
            !isolation_row_refuses(row, pod->owner, pod, only, &detail))
            continue;
        sbuf_addz(reason, row->reason);
        sbuf_addz(message, row->message);
        sbuf_add(message, sbuf_str(&detail));
        return false;
    }
    return true;
}

void pod_handler(const struct pod *p, struct str *ret)
{
    struct str name = isolation_handler_of(p->owner, pod_spec_of(p));
    const struct runtime_handler *h = isolation_find_handler(p->owner, name);
    *ret = name.n && h ? h->name : STR("");
}

bool pod_mount_is_recursive(const struct pod *p, const struct api_volume_mount *m)
{
    return str_eqz(m->recursive_read_only, "Enabled") ||
           (str_eqz(m->recursive_read_only, "IfPossible") &&
            isolation_features(p->owner)->recursive_read_only);
}

// The profile's name for the kernel; empty: unconfined.
static struct str isolation_profile(const struct api_app_armor_profile *p)
{
    return !isolation_is_confined(p)       ? STR("")
           : str_eqz(p->type, "Localhost") ? p->localhost_profile
                                           : STR(APPARMOR_DEFAULT);
}

static struct str isolation_annotated_profile(const struct api_pod *pod, const char *container,
                                              struct arena *arena)
{
    struct str key =
        arena_strf(arena, "container.apparmor.security.beta.kubernetes.io/%s", container);
    const struct str *v = api_map_find(&pod->metadata.annotations, key);
    if (!v || v->n == 0 || str_eqz(*v, "unconfined"))
        return STR("");
    return str_starts(*v, STR("localhost/")) ? str_from(*v, 10) : STR(APPARMOR_DEFAULT);
}

// "USER:ROLE:TYPE:LEVEL", with what containers usually have where nothing is set.
static struct str isolation_label(const struct api_se_linux_options *o, bool file,
                                  struct arena *arena)
{
    const char *role = file ? "object_r" : "system_r";
    const char *type = file ? "container_file_t" : "container_t";
    return arena_strf(arena, "%.*s:%.*s:%.*s:%.*s", STR_ARG(o->user.n ? o->user : STR("system_u")),
                      STR_ARG(o->role.n && !file ? o->role : str_z(role)),
                      STR_ARG(o->type.n && !file ? o->type : str_z(type)),
                      STR_ARG(o->level.n ? o->level : STR("s0")));
}

void pod_set_labels(const struct pod_container *c, struct arena *arena, struct runtime_security *s)
{
    const struct runtime_features *f = isolation_features(c->pod->owner);
    const struct api_pod *spec = pod_spec_of(c->pod);
    const struct api_pod_security_context *pod = spec->spec.security_context;
    const struct api_security_context *own = pod_container_spec(c)->security_context;
    const struct api_app_armor_profile *profile = own && own->app_armor_profile
                                                      ? own->app_armor_profile
                                                  : pod ? pod->app_armor_profile
                                                        : NULL;
    const struct api_se_linux_options *label = own && isolation_is_labelled(own->se_linux_options)
                                                   ? own->se_linux_options
                                               : pod ? pod->se_linux_options
                                                     : NULL;
    if (f->apparmor)
        s->apparmor = profile ? isolation_profile(profile)
                              : isolation_annotated_profile(spec, c->name, arena);
    if (f->selinux && isolation_is_labelled(label)) {
        s->selinux_label = isolation_label(label, false, arena);
        s->mount_label = isolation_label(label, true, arena);
    }
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
