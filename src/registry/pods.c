// SPDX-License-Identifier: Apache-2.0
//
// The subresources of pods: binding, eviction, resize, ephemeralcontainers.
#include <assert.h>

#include "api/match/claim.h"
#include "api/match/label_selector.h"
#include "api/names.h"
#include "registry/stage_int.h"

#include "base/banned.h"

// pod_set_condition adds or changes a condition, as a controller would.
static void pod_set_condition(struct op *op, struct api_pod *pod, const struct api_pod_condition *c)
{
    struct api_pod_condition_array *list = &pod->status.conditions;
    for (size_t i = 0; i < list->n; i++) {
        if (!str_eq(list->p[i].type, c->type))
            continue;
        struct api_time since = list->p[i].last_transition_time;
        bool same = str_eq(list->p[i].status, c->status);
        list->p[i] = *c;
        list->p[i].last_transition_time = same ? since : op->now;
        return;
    }
    struct api_pod_condition *all = arena_array(op->arena, struct api_pod_condition, list->n + 1);
    for (size_t i = 0; i < list->n; i++)
        all[i] = list->p[i];
    all[list->n] = *c;
    all[list->n].last_transition_time = op->now;
    *list = (struct api_pod_condition_array){all, list->n + 1};
}

// --- Binding -------------------------------------------------------------------------------------

static int pods_check_binding(struct op *op, const struct api_binding *b)
{
    struct causes causes = {.arena = op->arena};
    static const struct str kinds[] = {STR_INIT("Node"), STR_INIT("<empty>")};
    struct path root = path_root(STR("target")), kind = path_field(&root, STR("kind"));
    struct path name = path_field(&root, STR("name"));
    bool node = b->target.kind.n == 0 || str_eqz(b->target.kind, "Node");
    if (!node)
        cause_not_supported(&causes, &kind, b->target.kind, kinds, array_len(kinds));
    if (b->target.name.n == 0) {
        cause_required(&causes, &name, STR(""));
    } else if (node) {
        struct name_msgs msgs = {.arena = op->arena};
        name_dns_subdomain(b->target.name, &msgs);
        for (size_t i = 0; i < msgs.n; i++)
            cause_invalid(&causes, &name, b->target.name, msgs.p[i]);
    }
    if (causes.n == 0)
        return 0;
    // Upstream does not make an Invalid of it.
    cleanup_sbuf struct sbuf text = {0};
    for (size_t i = 0; i < causes.n; i++)
        sbuf_addf(&text, "%s%.*s: %.*s",
                  i              ? ", "
                  : causes.n > 1 ? "["
                                 : "",
                  STR_ARG(causes.p[i].field), STR_ARG(causes.p[i].message));
    return fail_unknown(op, "%.*s%s", STR_ARG(sbuf_str(&text)), causes.n > 1 ? "]" : "");
}

// What from has goes into *to, sorted by key as ever.
static void merge_map(struct op *op, struct api_str_map *to, const struct api_str_map *from)
{
    if (from->n == 0)
        return;
    struct api_str_entry *all = arena_array(op->arena, struct api_str_entry, to->n + from->n);
    size_t n = 0, i = 0, j = 0;
    while (i < to->n || j < from->n) {
        int order = i == to->n ? 1 : j == from->n ? -1 : str_cmp(to->p[i].key, from->p[j].key);
        all[n++] = order < 0 ? to->p[i] : from->p[j];
        i += order <= 0;
        j += order >= 0;
    }
    *to = (struct api_str_map){all, n};
}

static int check_bindable(struct op *op, const struct api_pod *pod)
{
    const struct status_subject s = {STR(""), STR("pods/binding"), pod->metadata.name};
    struct str name = pod->metadata.name;
    if (pod->metadata.deletion_timestamp.set)
        return fail_conflict(op, s, "pod %.*s is being deleted, cannot be assigned to a host",
                             STR_ARG(name));
    if (pod->spec.node_name.n) {
        cleanup_sbuf struct sbuf node = {0};
        sbuf_add_quoted(&node, pod->spec.node_name);
        return fail_conflict(op, s, "pod %.*s is already assigned to node %.*s", STR_ARG(name),
                             STR_ARG(sbuf_str(&node)));
    }
    if (pod->spec.scheduling_gates.n)
        return fail_conflict(op, s, "pod %.*s has non-empty .spec.schedulingGates", STR_ARG(name));
    return 0;
}

static int check_binding_target(struct op *op, const struct api_object_meta *meta,
                                const struct object *old)
{
    uint64_t version = 0;
    if (meta->uid.n && !str_eq(meta->uid, old->uid))
        return update_fail_other_uid(op, meta, old->uid);
    if (meta->resource_version.n &&
        (str_to_u64(meta->resource_version, &version) < 0 || version != old->revision))
        return fail_conflict(
            op, (struct status_subject){STR(""), STR("pods"), old->name},
            "StorageError: invalid object, Code: 4, Key: /registry/pods/%.*s/%.*s, "
            "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
            "ResourceVersion in precondition: %.*s, ResourceVersion in object "
            "meta: %llu",
            STR_ARG(old->namespace), STR_ARG(old->name), STR_ARG(meta->resource_version),
            (unsigned long long)old->revision);
    return 0;
}

static int bind_to(struct op *op, const struct api_binding *b, const struct object *old)
{
    struct api_object object = {0};
    int r = check_binding_target(op, &b->metadata, old);
    if (r == 0)
        r = op_decode(op, old, &object);
    if (r == 0)
        r = check_bindable(op, object.value);
    if (r < 0)
        return r;
    struct api_pod *pod = object.value;
    assert(pod);
    pod->spec.node_name = b->target.name;
    pod->status.nominated_node_name = STR("");
    merge_map(op, &pod->metadata.annotations, &b->metadata.annotations);
    merge_map(op, &pod->metadata.labels, &b->metadata.labels);
    pod_set_condition(
        op, pod, &(struct api_pod_condition){.type = STR("PodScheduled"), .status = STR("True")});
    return op_write_change(op, &object, old);
}

int pods_bind(struct op *op, const struct api_object *body)
{
    struct api_binding *b = body->value;
    bool legacy = op->stored->type == &api_binding_type;
    op->stored = op->reg->kinds.pod;
    op->rules = kinds_rules_of(op->stored);
    struct str name = legacy ? b->metadata.name : op->request->name;
    int r = create_fit_namespace(op, &b->metadata);
    if (r == 0)
        r = admit_content(op, op->request->namespace, name);
    if (r == 0 && !str_eq(name, b->metadata.name))
        r = fail_bad_request(op, "name in URL does not match name in Binding object");
    if (r == 0)
        r = pods_check_binding(op, b);
    if (r < 0)
        return r;
    const struct object *old = op_head(op, name);
    if (!old)
        return fail_not_found(op, (struct status_subject){STR(""), STR("pods"), name});
    r = admit_part(op, body, old);
    if (r == 0)
        r = bind_to(op, b, old);
    if (r == 0)
        op_succeed(op, 201);
    return r;
}

// --- Eviction ------------------------------------------------------------------------------------

// As upstream: evictions that the budget's controller has not confirmed yet.
#define DISRUPTED_PODS_MAX 2000

static bool pod_ready(const struct api_pod *pod)
{
    for (size_t i = 0; i < pod->status.conditions.n; i++)
        if (str_eqz(pod->status.conditions.p[i].type, "Ready"))
            return str_eqz(pod->status.conditions.p[i].status, "True");
    return false;
}

// A budget that counts a pod in.
struct budget {
    const struct object *stored; // referenced
    struct api_object object;
    size_t matches;
};

static int find_budget(struct op *op, const struct api_pod *pod, struct budget *ret)
{
    struct registry *reg = op->reg;
    struct err err = {0};
    struct store_walk walk = {
        .kind = reg->kinds.budget, .one_namespace = true, .namespace = pod->metadata.namespace};
    int r = 0;
    if (store_walk_start(reg->store, &walk, &err) < 0)
        return fail_internal(op, "%s", err.msg);
    for (const struct object *o; r == 0 && (o = store_walk_next(reg->store, &walk));) {
        const struct store_key key = {o->kind, o->namespace, o->name};
        const struct object *head = store_head(reg->store, &key);
        struct label_selector selector = {0};
        struct api_object object = {0};
        if (!head)
            continue;
        r = op_decode(op, head, &object);
        const struct api_pod_disruption_budget *b = r == 0 ? object.value : NULL;
        // One with a bad selector matches no pod.
        if (!b || label_selector_of(b->spec.selector, op->arena, &selector, NULL) < 0 ||
            !label_selector_matches(&selector, &pod->metadata.labels))
            continue;
        if (ret->matches++ == 0) {
            ret->stored = object_ref(head);
            ret->object = object;
        }
    }
    store_walk_done(&walk);
    return r;
}

static int fail_budget(struct op *op, struct str text, int32_t retry_after_seconds)
{
    int r =
        fail_too_many(op, STR("Cannot evict pod as it would violate the pod's disruption budget."),
                      retry_after_seconds);
    fail_cause(op, STR("DisruptionBudget"), text, STR(""));
    return r;
}

static const struct api_condition *disruption_allowed(const struct api_pod_disruption_budget *b)
{
    for (size_t i = 0; i < b->status.conditions.n; i++)
        if (str_eqz(b->status.conditions.p[i].type, "DisruptionAllowed"))
            return &b->status.conditions.p[i];
    return NULL;
}

static struct str why_not_allowed(struct op *op, const struct api_pod_disruption_budget *b)
{
    struct str name = b->metadata.name;
    const struct api_condition *c = disruption_allowed(b);
    bool has_reason = c && str_eqz(c->status, "False") && c->message.n;
    if (has_reason && str_eqz(c->reason, "SyncFailed"))
        return arena_strf(op->arena,
                          "The disruption budget %.*s does not allow evicting pods currently "
                          "because it failed sync: %.*s",
                          STR_ARG(name), STR_ARG(c->message));
    if (b->status.current_healthy <= b->status.desired_healthy)
        return arena_strf(op->arena,
                          "The disruption budget %.*s needs %d healthy pods and has %d currently",
                          STR_ARG(name), (int)b->status.desired_healthy,
                          (int)b->status.current_healthy);
    if (has_reason)
        return arena_strf(op->arena,
                          "The disruption budget %.*s does not allow evicting pods currently "
                          "(%.*s): %.*s",
                          STR_ARG(name), STR_ARG(c->reason), STR_ARG(c->message));
    return arena_strf(op->arena,
                      "The disruption budget %.*s does not allow evicting pods currently",
                      STR_ARG(name));
}

static int fail_budget_state(struct op *op, const struct api_pod_disruption_budget *b,
                             const char *short_text, const char *long_text)
{
    const struct status_subject s = {STR("policy"), STR("poddisruptionbudget"), b->metadata.name};
    int r = fail_forbidden(op, s, "%s", short_text);
    fail_cause(op, STR("DisruptionBudget"),
               arena_strf(op->arena,
                          "The disruption budget %.*s does not allow evicting pods currently: %s",
                          STR_ARG(b->metadata.name), long_text),
               STR(""));
    return r;
}

static int pods_check_budget(struct op *op, const struct api_pod_disruption_budget *b)
{
    if (b->status.observed_generation < b->metadata.generation)
        return fail_budget(op,
                           arena_strf(op->arena,
                                      "The disruption budget %.*s is still being processed by the "
                                      "server.",
                                      STR_ARG(b->metadata.name)),
                           10);
    if (b->status.disruptions_allowed < 0)
        return fail_budget_state(op, b, "pdb disruptions allowed is negative",
                                 "pdb disruptions allowed is negative");
    if (b->status.disrupted_pods.n > DISRUPTED_PODS_MAX)
        return fail_budget_state(op, b,
                                 "DisruptedPods map too big - too many evictions not confirmed by "
                                 "PDB controller",
                                 "too many pending evictions not confirmed by PDB controller");
    if (b->status.disruptions_allowed == 0)
        return fail_budget(op, why_not_allowed(op, b), 0);
    return 0;
}

// Records the pod that is about to go for the budget's controller.
static int charge_budget(struct op *op, struct budget *budget, struct str pod)
{
    struct api_pod_disruption_budget *b = budget->object.value;
    struct api_time_map *pods = &b->status.disrupted_pods;
    int r = pods_check_budget(op, b);
    if (r < 0)
        return r;
    if (--b->status.disruptions_allowed == 0)
        for (size_t i = 0; i < b->status.conditions.n; i++) {
            struct api_condition *c = &b->status.conditions.p[i];
            if (!str_eqz(c->type, "DisruptionAllowed") || str_eqz(c->status, "False"))
                continue;
            c->status = STR("False");
            c->reason = STR("InsufficientPods");
            c->last_transition_time = op->now;
        }
    struct api_time_entry *all = arena_array(op->arena, struct api_time_entry, pods->n + 1);
    size_t n = 0, i = 0;
    for (; i < pods->n && str_cmp(pods->p[i].key, pod) < 0; i++)
        all[n++] = pods->p[i];
    all[n++] = (struct api_time_entry){pod, op->now};
    for (i += i < pods->n && str_eq(pods->p[i].key, pod); i < pods->n; i++)
        all[n++] = pods->p[i];
    *pods = (struct api_time_map){all, n};
    return op->dry_run ? 0 : op_write_change(op, &budget->object, budget->stored);
}

static int ask_budgets(struct op *op, const struct api_pod *pod)
{
    struct budget budget = {0};
    int r = find_budget(op, pod, &budget);
    if (r == 0 && budget.matches > 1)
        r = fail_unknown(op, "This pod has more than one PodDisruptionBudget, which the eviction "
                             "subresource does not support.");
    if (r == 0 && budget.matches == 1) {
        const struct api_pod_disruption_budget *b = budget.object.value;
        bool always = b->spec.has_unhealthy_pod_eviction_policy &&
                      str_eqz(b->spec.unhealthy_pod_eviction_policy, "AlwaysAllow");
        bool enough =
            b->status.current_healthy >= b->status.desired_healthy && b->status.desired_healthy > 0;
        // A pod that is not ready takes nothing from the budget.
        if (pod_ready(pod) || (!always && !enough))
            r = charge_budget(op, &budget, pod->metadata.name);
    }
    object_unref(budget.stored);
    return r;
}

static bool outside_budgets(const struct api_pod *pod)
{
    return pod_is_terminal(pod) || str_eqz(pod->status.phase, "Pending") ||
           pod->metadata.deletion_timestamp.set;
}

static int pods_evict_one(struct op *op, const struct object *old,
                          const struct api_delete_options *options)
{
    struct api_object object = {0};
    struct api_delete_options rest = *options;
    int r = op_decode(op, old, &object);
    if (r == 0)
        r = delete_check_preconditions(op, old, options->preconditions);
    if (r == 0 && !outside_budgets(object.value))
        r = ask_budgets(op, object.value);
    if (r == 0 && !op->dry_run) {
        pod_set_condition(op, object.value,
                          &(struct api_pod_condition){.type = STR("DisruptionTarget"),
                                                      .status = STR("True"),
                                                      .reason = STR("EvictionByEvictionAPI"),
                                                      .message = STR("Eviction API: evicting")});
        r = op_write_change(op, &object, old);
    }
    if (r < 0)
        return r;
    rest.preconditions = NULL; // checked, and the version is another by now
    const struct object *head = object_ref(op_head(op, old->name));
    r = registry_delete_object(op, head, &rest);
    object_unref(head);
    return r;
}

int registry_evict_pod(struct op *op, const struct api_object *body)
{
    struct api_eviction *e = body->value;
    static const struct api_delete_options none;
    const struct api_delete_options *options = e->delete_options ? e->delete_options : &none;
    int r = create_fit_namespace(op, &e->metadata);
    if (r == 0)
        r = admit_content(op, op->request->namespace, op->request->name);
    if (r == 0 && !str_eq(op->request->name, e->metadata.name))
        r = fail_bad_request(op, "name in URL does not match name in Eviction object");
    if (r < 0)
        return r;
    op->dry_run |= options->dry_run.n > 0;
    const struct object *old = object_ref(op_head(op, op->request->name));
    r = old ? admit_part(op, body, old) : fail_not_found(op, op_subject(op, op->request->name));
    if (r == 0)
        r = pods_evict_one(op, old, options);
    object_unref(old);
    if (r == 0)
        op_succeed(op, 201);
    return r;
}

// --- Resize and debugging ------------------------------------------------------------------------

static void keep_meta(struct api_object_meta *meta, const struct api_object_meta *old)
{
    meta->deletion_timestamp = old->deletion_timestamp;
    meta->generation = old->generation;
    meta->labels = old->labels;
    meta->annotations = old->annotations;
    meta->finalizers = old->finalizers;
    meta->owner_references = old->owner_references;
}

// The old containers with the new resources; those of another number or name as they are, for
// validation to refuse.
static struct api_container_array pods_merge_resized(struct op *op, struct api_container_array now,
                                                     const struct api_container_array *old)
{
    struct api_container *all = arena_array(op->arena, struct api_container, old->n + 1);
    for (size_t i = 0; i < old->n; i++) {
        if (!str_eq(now.p[i].name, old->p[i].name))
            return now;
        all[i] = old->p[i];
        all[i].resources = now.p[i].resources;
        all[i].resize_policy = now.p[i].resize_policy;
    }
    return (struct api_container_array){old->p ? all : NULL, old->n};
}

void pods_keep_but_resources(struct op *op, struct api_pod *pod, const struct api_pod *old)
{
    if (pod->spec.containers.n != old->spec.containers.n ||
        pod->spec.init_containers.n != old->spec.init_containers.n)
        return;
    struct api_container_array containers =
        pods_merge_resized(op, pod->spec.containers, &old->spec.containers);
    struct api_container_array init =
        pods_merge_resized(op, pod->spec.init_containers, &old->spec.init_containers);
    struct api_resource_requirements *whole = pod->spec.resources;
    pod->spec = old->spec;
    pod->status = old->status;
    keep_meta(&pod->metadata, &old->metadata);
    pod->spec.containers = containers;
    pod->spec.init_containers = init;
    if (whole)
        pod->spec.resources = whole;
}

void pods_keep_but_debuggers(struct op *op, struct api_pod *pod, const struct api_pod *old)
{
    (void)op;
    struct api_ephemeral_container_array debuggers = pod->spec.ephemeral_containers;
    pod->spec = old->spec;
    pod->status = old->status;
    keep_meta(&pod->metadata, &old->metadata);
    pod->spec.ephemeral_containers = debuggers;
}
