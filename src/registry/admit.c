// SPDX-License-Identifier: Apache-2.0
//
// Admission: what a cluster's own rules say of a request beyond the object itself. Each admitter
// may change the object, before it is prepared and validated, or refuse it; they run in the order
// of the table, to which others can be added.
#include <stdlib.h>

#include "api/match/claim.h"
#include "api/match/taint.h"
#include "api/storage.h"
#include "registry/stage_int.h"

#include "base/banned.h"

// The name an error shows: names are generated later.
struct status_subject admit_about(const struct op *op, const struct api_object *object)
{
    const struct api_object_meta *meta = api_object_meta(object);
    struct str name = op->request->name;
    if (name.n == 0)
        name = meta->name.n            ? meta->name
               : meta->generate_name.n ? meta->generate_name
                                       : STR("Unknown");
    return op_subject(op, name);
}

// --- Namespaces ----------------------------------------------------------------------------------

int admit_content(struct op *op, struct str namespace, struct str name)
{
    const struct store_key key = {op->reg->kinds.namespace, STR(""), namespace};
    const struct object *ns = store_head(op->reg->store, &key);
    if (!ns)
        return fail_not_found(op, (struct status_subject){STR(""), STR("namespaces"), namespace});
    if (!namespace_terminating(ns))
        return 0;
    int r = fail_forbidden(op, op_subject(op, name),
                           "unable to create new content in namespace %.*s because it is being "
                           "terminated",
                           STR_ARG(namespace));
    fail_cause(op, STR("NamespaceTerminating"),
               arena_strf(op->arena, "namespace %.*s is being terminated", STR_ARG(namespace)),
               STR("metadata.namespace"));
    return r;
}

static int admit_namespace(struct op *op, const struct api_object *object,
                           const struct api_object *old)
{
    if (old || !object->kind->namespaced)
        return 0;
    return admit_content(op, op->request->namespace, admit_about(op, object).name);
}

static int keep_immortals(struct op *op, struct str name)
{
    static const char *const immortal[] = {"default", "kube-system", "kube-public"};
    for (size_t i = 0; op->stored == op->reg->kinds.namespace && i < array_len(immortal); i++)
        if (str_eqz(name, immortal[i]))
            return fail_forbidden(op, op_subject(op, name), "this namespace may not be deleted");
    return 0;
}

// --- Priority ------------------------------------------------------------------------------------

struct priority {
    struct str class_name;
    int32_t value;
    struct str policy; // empty: none
};

static void learn_default(struct registry *reg)
{
    struct default_priority *d = &reg->default_priority;
    struct store_walk walk = {.kind = reg->kinds.priority};
    static const struct api_time unknown;
    cleanup_arena struct arena arena = {0};
    free((void *)(uintptr_t)d->class_name.p);
    *d = (struct default_priority){.known = true};
    if (store_walk_start(reg->store, &walk, NULL) < 0)
        return;
    for (const struct object *o; (o = store_walk_next(reg->store, &walk));) {
        struct api_object object = {0};
        if (encode_read_stored(o, &unknown, &arena, &object, NULL) < 0)
            continue;
        const struct api_priority_class *c = object.value;
        if (!c->global_default || (d->class_name.n && d->value <= c->value))
            continue;
        free((void *)(uintptr_t)d->class_name.p);
        d->class_name = str_make(xstrndup(o->name.p, o->name.n), o->name.n);
        d->value = c->value;
        d->never_preempts = c->has_preemption_policy && str_eqz(c->preemption_policy, "Never");
    }
    store_walk_done(&walk);
}

static int find_priority(struct op *op, const struct api_object *object, struct str class_name,
                         struct priority *ret)
{
    struct registry *reg = op->reg;
    struct api_object found = {0};
    if (class_name.n == 0) {
        if (!reg->default_priority.known)
            learn_default(reg);
        const struct default_priority *d = &reg->default_priority;
        *ret = (struct priority){arena_str(op->arena, d->class_name), d->value,
                                 d->never_preempts ? STR("Never") : STR("PreemptLowerPriority")};
        return 0;
    }
    const struct store_key key = {reg->kinds.priority, STR(""), class_name};
    const struct object *o = store_head(reg->store, &key);
    if (!o)
        return fail_forbidden(op, admit_about(op, object),
                              "no PriorityClass with name %.*s was found", STR_ARG(class_name));
    int r = op_decode(op, o, &found);
    if (r < 0)
        return r;
    const struct api_priority_class *c = found.value;
    *ret = (struct priority){class_name, c->value,
                             c->has_preemption_policy ? c->preemption_policy : STR("")};
    return 0;
}

static int set_pod_priority(struct op *op, const struct api_object *object)
{
    struct api_pod_spec *spec = &((struct api_pod *)object->value)->spec;
    struct priority p = {0};
    int r = find_priority(op, object, spec->priority_class_name, &p);
    if (r < 0)
        return r;
    if (spec->has_priority && spec->priority != p.value)
        return fail_forbidden(op, admit_about(op, object),
                              "the integer value of priority (%d) must not be provided in pod "
                              "spec; priority admission controller computed %d from the given "
                              "PriorityClass name",
                              (int)spec->priority, (int)p.value);
    if (p.policy.n && spec->has_preemption_policy && !str_eq(spec->preemption_policy, p.policy))
        return fail_forbidden(op, admit_about(op, object),
                              "the string value of PreemptionPolicy (%.*s) must not be provided "
                              "in pod spec; priority admission controller computed %.*s from the "
                              "given PriorityClass name",
                              STR_ARG(spec->preemption_policy), STR_ARG(p.policy));
    spec->priority_class_name = p.class_name;
    spec->has_priority = true;
    spec->priority = p.value;
    if (p.policy.n) {
        spec->has_preemption_policy = true;
        spec->preemption_policy = p.policy;
    }
    return 0;
}

// Clients that do not know the fields keep them.
static void keep_pod_priority(struct api_pod_spec *spec, const struct api_pod_spec *old)
{
    if (!spec->has_priority && old->has_priority) {
        spec->has_priority = true;
        spec->priority = old->priority;
    }
    if (!spec->has_preemption_policy && old->has_preemption_policy) {
        spec->has_preemption_policy = true;
        spec->preemption_policy = old->preemption_policy;
    }
}

static int set_group_priority(struct op *op, const struct api_object *object)
{
    struct api_pod_group_spec *spec = &((struct api_pod_group *)object->value)->spec;
    struct priority p = {0};
    int r = find_priority(op, object, spec->priority_class_name, &p);
    if (r < 0)
        return r;
    if (spec->has_priority && spec->priority != p.value)
        return fail_forbidden(op, admit_about(op, object),
                              "priority set in the pod group (%d) must match the priority computed "
                              "(%d) based on the priority class set in the spec",
                              (int)spec->priority, (int)p.value);
    spec->has_priority = true;
    spec->priority = p.value;
    spec->priority_class_name = p.class_name;
    return 0;
}

static int check_default_class(struct op *op, const struct api_object *object)
{
    const struct api_priority_class *c = object->value;
    if (!c->global_default)
        return 0;
    if (!op->reg->default_priority.known)
        learn_default(op->reg);
    struct str other = op->reg->default_priority.class_name;
    if (other.n == 0 || (op->verb != VERB_CREATE && str_eq(other, c->metadata.name)))
        return 0;
    return fail_forbidden(op, admit_about(op, object),
                          "PriorityClass %.*s is already marked as default. Only one default can "
                          "exist",
                          STR_ARG(other));
}

static int admit_priority(struct op *op, const struct api_object *object,
                          const struct api_object *old)
{
    const struct api_type *t = object->kind->type;
    if (t == &api_priority_class_type)
        return check_default_class(op, object);
    if (t == &api_pod_type && old)
        keep_pod_priority(&((struct api_pod *)object->value)->spec,
                          &((const struct api_pod *)old->value)->spec);
    else if (t == &api_pod_type)
        return set_pod_priority(op, object);
    else if (t == &api_pod_group_type && !old &&
             features_on(op->reg->features, FEATURE_GENERIC_WORKLOAD))
        return set_group_priority(op, object);
    return 0;
}

// --- Tolerations ---------------------------------------------------------------------------------

// Pods leave a node that is not ready or cannot be reached after five minutes, unless they say
// when.
static int admit_tolerations(struct op *op, const struct api_object *object,
                             const struct api_object *old)
{
    static const struct str taints[] = {STR_INIT("node.kubernetes.io/not-ready"),
                                        STR_INIT("node.kubernetes.io/unreachable")};
    (void)old;
    if (object->kind->type != &api_pod_type)
        return 0;
    struct api_toleration_array *list = &((struct api_pod *)object->value)->spec.tolerations;
    struct api_toleration_array all = {
        arena_array(op->arena, struct api_toleration, list->n + array_len(taints)), list->n};
    for (size_t i = 0; i < list->n; i++)
        all.p[i] = list->p[i];
    for (size_t i = 0; i < array_len(taints); i++)
        if (!toleration_names(list, taints[i]))
            all.p[all.n++] = (struct api_toleration){.key = taints[i],
                                                     .operator= STR(TOLERATION_EXISTS),
                                                     .effect = STR(TAINT_NO_EXECUTE),
                                                     .has_toleration_seconds = true,
                                                     .toleration_seconds = 300};
    *list = all;
    return 0;
}

// --- Services ------------------------------------------------------------------------------------

static bool same_strings(const struct api_str_array *a, const struct api_str_array *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++)
        same = str_eq(a->p[i], b->p[i]);
    return same;
}

// clusterIP and clusterIPs say the same; a client that knows only the first sets or changes that
// one, and one that replaces the object without either keeps what was given.
static int admit_service(struct op *op, const struct api_object *object,
                         const struct api_object *old)
{
    if (object->kind->type != &api_service_type)
        return 0;
    struct api_service_spec *now = &((struct api_service *)object->value)->spec;
    const struct api_service_spec *before =
        old ? &((const struct api_service *)old->value)->spec : NULL;
    if (before && now->cluster_ip.n == 0 && now->cluster_ips.n == 0) {
        now->cluster_ip = before->cluster_ip;
        now->cluster_ips = before->cluster_ips;
    }
    bool only_first = before ? !str_eq(now->cluster_ip, before->cluster_ip) &&
                                   same_strings(&now->cluster_ips, &before->cluster_ips)
                             : now->cluster_ips.n == 0;
    if (!only_first)
        return 0;
    now->cluster_ips = (struct api_str_array){0};
    if (now->cluster_ip.n) {
        struct str *one = arena_one(op->arena, struct str);
        *one = now->cluster_ip;
        now->cluster_ips = (struct api_str_array){one, 1};
    }
    return 0;
}

// --- Storage -------------------------------------------------------------------------------------

// A new claim that names no class, not even none (""), gets the default one.
static int admit_storage(struct op *op, const struct api_object *object,
                         const struct api_object *old)
{
    static const struct api_time unknown;
    const struct api_storage_class *best = NULL;
    struct store_walk walk = {.kind = op->reg->kinds.storage};
    if (object->kind->type != &api_persistent_volume_claim_type || old)
        return 0;
    struct api_persistent_volume_claim *claim = object->value;
    if (volume_claim_names_class(claim) || store_walk_start(op->reg->store, &walk, NULL) < 0)
        return 0;
    for (const struct object *o; (o = store_walk_next(op->reg->store, &walk));) {
        struct api_object class = {0};
        if (encode_read_stored(o, &unknown, op->arena, &class, NULL) == 0)
            best = storage_default(best, class.value);
    }
    store_walk_done(&walk);
    if (best) {
        claim->spec.has_storage_class_name = true;
        claim->spec.storage_class_name = best->metadata.name;
    }
    return 0;
}

// --- PodGroups -----------------------------------------------------------------------------------

// A new group stays as long as pods need it; the controller of its protection lets it go.
static int admit_group(struct op *op, const struct api_object *object, const struct api_object *old)
{
    if (object->kind->type != &api_pod_group_type || old ||
        !features_on(op->reg->features, FEATURE_GENERIC_WORKLOAD))
        return 0;
    struct api_object_meta *meta = api_object_meta(object);
    if (meta_has_finalizer(meta, STR(GROUP_FINALIZER)))
        return 0;
    struct str *list = arena_array(op->arena, struct str, meta->finalizers.n + 1);
    for (size_t i = 0; i < meta->finalizers.n; i++)
        list[i] = meta->finalizers.p[i];
    list[meta->finalizers.n] = STR(GROUP_FINALIZER);
    meta->finalizers = (struct api_str_array){list, meta->finalizers.n + 1};
    return 0;
}

// --- What rooms above ask for --------------------------------------------------------------------

static int ask_guard(struct op *op, struct status_subject about, const struct api_object *object,
                     const struct api_object *old)
{
    cleanup_sbuf struct sbuf why = {0};
    int r = op->reg->hooks.guard
                ? op->reg->hooks.guard(op->reg->hooks.guard_arg, op->request, object, old, &why)
                : 0;
    if (r == -ERR_NOT_FOUND) {
        r = fail_not_found(op, about);
        op->status->message = arena_str(op->arena, sbuf_str(&why));
        return r;
    }
    return r < 0 ? fail_forbidden(op, about, "%.*s", STR_ARG(sbuf_str(&why))) : 0;
}

static int admit_guard(struct op *op, const struct api_object *object, const struct api_object *old)
{
    return ask_guard(op, admit_about(op, object), object, old);
}

int admit_part(struct op *op, const struct api_object *part, const struct object *whole)
{
    struct api_object old = {0};
    int r = op->reg->hooks.guard ? op_decode(op, whole, &old) : 0;
    return r < 0 || !op->reg->hooks.guard ? r
                                          : ask_guard(op, op_subject(op, whole->name), part, &old);
}

void registry_set_guard(struct registry *reg, registry_guard_fn fn, void *arg)
{
    reg->hooks.guard = fn;
    reg->hooks.guard_arg = arg;
}

// --- All of them ---------------------------------------------------------------------------------

// plugin is kube-apiserver's name of what can be switched off.
static const struct admitter {
    const char *plugin;
    int (*change)(struct op *op, const struct api_object *object, const struct api_object *old);
    int (*deletion)(struct op *op, struct str name);
} admitters[] = {
    {"NamespaceLifecycle", admit_namespace, keep_immortals},
    {"LimitRanger", limits_admit, NULL},
    {"ServiceAccount", accounts_admit, NULL},
    {"DefaultTolerationSeconds", admit_tolerations, NULL},
    {"Priority", admit_priority, NULL},
    {"DefaultStorageClass", admit_storage, NULL},
    {NULL, admit_service, NULL},
    {NULL, admit_group, NULL},
    {"RuntimeClass", runtime_admit_class, NULL},
    {"PodSecurity", NULL, NULL}, // behind validation: admit_valid
    {NULL, certificates_admit, NULL},
    {NULL, admit_guard, NULL},
};

static bool is_off(const struct registry *reg, size_t which)
{
    return reg->admission_off & (1U << which);
}

bool admit_runs(const struct registry *reg, const char *plugin)
{
    for (size_t i = 0; i < array_len(admitters); i++)
        if (admitters[i].plugin && str_eqz(str_z(plugin), admitters[i].plugin))
            return !is_off(reg, i);
    return false;
}

int admit_switch_off(struct str list, unsigned *ret, struct err *err)
{
    unsigned off = 0;
    while (list.n) {
        struct str name;
        str_cut(list, ',', &name, &list);
        size_t i = 0;
        while (i < array_len(admitters) &&
               !(admitters[i].plugin && str_eqz(name, admitters[i].plugin)))
            i++;
        if (i == array_len(admitters)) {
            cleanup_sbuf struct sbuf known = {0};
            for (size_t k = 0; k < array_len(admitters); k++)
                if (admitters[k].plugin)
                    sbuf_addf(&known, "%s%s", known.n ? ", " : "", admitters[k].plugin);
            return err_set(err, ERR_INVALID, "there is no admission plugin '%.*s' to disable: %.*s",
                           STR_ARG(name), STR_ARG(sbuf_str(&known)));
        }
        off |= 1U << i;
    }
    *ret = off;
    return 0;
}

int admit_change(struct op *op, const struct api_object *object, const struct api_object *old)
{
    // Parts of an object are the business of the last alone.
    int r = 0;
    if (op->request->subresource.n)
        return admit_guard(op, object, old);
    for (size_t i = 0; r == 0 && i < array_len(admitters); i++)
        if (admitters[i].change && !is_off(op->reg, i))
            r = admitters[i].change(op, object, old);
    return r;
}

int admit_valid(struct op *op, const struct api_object *object, const struct api_object *old)
{
    int r = op->rules->flags & KIND_POD_SECURITY ? podsec_admit(op, object, old) : 0;
    return r < 0 ? r : policies_admit(op, object, old);
}

int admit_deletion(struct op *op, struct str name, const struct api_object *old)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < array_len(admitters); i++)
        if (admitters[i].deletion && !is_off(op->reg, i))
            r = admitters[i].deletion(op, name);
    return r < 0 || !old ? r : ask_guard(op, op_subject(op, name), NULL, old);
}
