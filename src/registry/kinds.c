// SPDX-License-Identifier: Apache-2.0
//
// What differs from kind to kind: how it may be updated and deleted, and what field selectors may
// ask for. What is not listed has the plain rules.
#include <stdlib.h>

#include "registry/stage_int.h"

#include "base/banned.h"

// --- Fields for selectors ------------------------------------------------------------------------

static void kinds_add_pair(struct arena *arena, struct pairs *out, struct str key, struct str value)
{
    vec_push_arena(arena, out, (struct object_pair){key, value});
}

static struct str kinds_bool_text(bool b)
{
    return b ? STR("true") : STR("false");
}

static void pod_fields(const void *value, struct arena *arena, struct pairs *out)
{
    const struct api_pod *pod = value;
    kinds_add_pair(arena, out, STR("spec.nodeName"), pod->spec.node_name);
    kinds_add_pair(arena, out, STR("spec.restartPolicy"), pod->spec.restart_policy);
    kinds_add_pair(arena, out, STR("spec.schedulerName"), pod->spec.scheduler_name);
    kinds_add_pair(arena, out, STR("spec.serviceAccountName"), pod->spec.service_account_name);
    kinds_add_pair(arena, out, STR("spec.hostNetwork"), kinds_bool_text(pod->spec.host_network));
    kinds_add_pair(arena, out, STR("status.phase"), pod->status.phase);
    kinds_add_pair(arena, out, STR("status.podIP"),
                   pod->status.pod_ips.n ? pod->status.pod_ips.p[0].ip : pod->status.pod_ip);
    kinds_add_pair(arena, out, STR("status.podIPs"), STR(""));
    kinds_add_pair(arena, out, STR("status.nominatedNodeName"), pod->status.nominated_node_name);
}

static void event_fields(const void *value, struct arena *arena, struct pairs *out)
{
    const struct api_event *e = value;
    const struct api_object_reference *about = &e->involved_object;
    kinds_add_pair(arena, out, STR("involvedObject.kind"), about->kind);
    kinds_add_pair(arena, out, STR("involvedObject.namespace"), about->namespace);
    kinds_add_pair(arena, out, STR("involvedObject.name"), about->name);
    kinds_add_pair(arena, out, STR("involvedObject.uid"), about->uid);
    kinds_add_pair(arena, out, STR("involvedObject.apiVersion"), about->api_version);
    kinds_add_pair(arena, out, STR("involvedObject.resourceVersion"), about->resource_version);
    kinds_add_pair(arena, out, STR("involvedObject.fieldPath"), about->field_path);
    kinds_add_pair(arena, out, STR("reason"), e->reason);
    kinds_add_pair(arena, out, STR("reportingComponent"), e->reporting_component);
    kinds_add_pair(arena, out, STR("source"),
                   e->source.component.n ? e->source.component : e->reporting_component);
    kinds_add_pair(arena, out, STR("type"), e->type);
}

static void slice_fields(const void *value, struct arena *arena, struct pairs *out)
{
    const struct api_resource_slice *s = value;
    kinds_add_pair(arena, out, STR("spec.driver"), s->spec.driver);
    kinds_add_pair(arena, out, STR("spec.nodeName"), s->spec.node_name);
    kinds_add_pair(arena, out, STR("spec.pool.name"), s->spec.pool.name);
}

static void node_fields(const void *value, struct arena *arena, struct pairs *out)
{
    const struct api_node *n = value;
    kinds_add_pair(arena, out, STR("spec.unschedulable"), kinds_bool_text(n->spec.unschedulable));
}

static void namespace_fields(const void *value, struct arena *arena, struct pairs *out)
{
    const struct api_namespace *n = value;
    kinds_add_pair(arena, out, STR("status.phase"), n->status.phase);
}

static void secret_fields(const void *value, struct arena *arena, struct pairs *out)
{
    const struct api_secret *s = value;
    kinds_add_pair(arena, out, STR("type"), s->type);
}

static void service_fields(const void *value, struct arena *arena, struct pairs *out)
{
    const struct api_service *s = value;
    kinds_add_pair(arena, out, STR("spec.clusterIP"), s->spec.cluster_ip);
    kinds_add_pair(arena, out, STR("spec.type"), s->spec.type);
}

static void replica_set_fields(const void *value, struct arena *arena, struct pairs *out)
{
    const struct api_replica_set *s = value;
    kinds_add_pair(arena, out, STR("status.replicas"),
                   arena_strf(arena, "%d", (int)s->status.replicas));
}

static void controller_fields(const void *value, struct arena *arena, struct pairs *out)
{
    const struct api_replication_controller *c = value;
    kinds_add_pair(arena, out, STR("status.replicas"),
                   arena_strf(arena, "%d", (int)c->status.replicas));
}

static void job_fields(const void *value, struct arena *arena, struct pairs *out)
{
    const struct api_job *j = value;
    kinds_add_pair(arena, out, STR("status.successful"),
                   arena_strf(arena, "%d", (int)j->status.succeeded));
}

static void certificate_fields(const void *value, struct arena *arena, struct pairs *out)
{
    const struct api_certificate_signing_request *c = value;
    kinds_add_pair(arena, out, STR("spec.signerName"), c->spec.signer_name);
}

static void pod_certificate_fields(const void *value, struct arena *arena, struct pairs *out)
{
    const struct api_pod_certificate_request *c = value;
    kinds_add_pair(arena, out, STR("spec.signerName"), c->spec.signer_name);
    kinds_add_pair(arena, out, STR("spec.podName"), c->spec.pod_name);
    kinds_add_pair(arena, out, STR("spec.nodeName"), c->spec.node_name);
}

static void bundle_fields(const void *value, struct arena *arena, struct pairs *out)
{
    const struct api_cluster_trust_bundle *b = value;
    kinds_add_pair(arena, out, STR("spec.signerName"), b->spec.signer_name);
}

static void address_fields(const void *value, struct arena *arena, struct pairs *out)
{
    const struct api_ip_address *a = value;
    static const struct api_parent_reference none;
    const struct api_parent_reference *p = a->spec.parent_ref ? a->spec.parent_ref : &none;
    kinds_add_pair(arena, out, STR("spec.parentRef.group"), p->group);
    kinds_add_pair(arena, out, STR("spec.parentRef.resource"), p->resource);
    kinds_add_pair(arena, out, STR("spec.parentRef.namespace"), p->namespace);
    kinds_add_pair(arena, out, STR("spec.parentRef.name"), p->name);
}

static int compare_keys(const void *a, const void *b)
{
    return str_cmp(((const struct object_pair *)a)->key, ((const struct object_pair *)b)->key);
}

// A field that a definition offers to selectors.
static void add_custom(const struct custom_object *o, struct str path, struct arena *arena,
                       struct pairs *out)
{
    const struct dyn *v = custom_at(&o->content, path);
    cleanup_sbuf struct sbuf text = {0};
    if (v && v->type == DYN_STR)
        sbuf_add(&text, v->text);
    else if (v && v->type != DYN_NULL)
        dyn_text(v, &text);
    kinds_add_pair(arena, out, str_from(path, path.n && path.p[0] == '.' ? 1 : 0),
                   arena_str(arena, sbuf_str(&text)));
}

void kinds_fields_of(const struct api_object *object, struct arena *arena, struct pairs *out)
{
    const struct kind_rules *rules = kinds_rules_of(object->kind);
    const struct api_object_meta *meta = api_object_meta(object);
    kinds_add_pair(arena, out, STR("metadata.name"), meta->name);
    if (object->kind->namespaced)
        kinds_add_pair(arena, out, STR("metadata.namespace"), meta->namespace);
    const struct api_custom *custom = object->kind->custom;
    for (size_t i = 0; custom && i < custom->selectable_len; i++)
        add_custom(object->value, custom->selectable[i], arena, out);
    if (rules->flags & KIND_NAMED_FIELD)
        kinds_add_pair(arena, out, STR("name"), meta->name);
    if (rules->fields)
        rules->fields(object->value, arena, out);
    qsort(out->p, out->n, sizeof(*out->p), compare_keys);
}

// --- The table -----------------------------------------------------------------------------------

static const struct kind_rules kinds[] = {
    {&api_resource_claim_type, KIND_RETURNS_DELETED, NULL},
    {&api_resource_claim_template_type, KIND_RETURNS_DELETED, NULL},
    {&api_resource_slice_type, KIND_RETURNS_DELETED, slice_fields},
    {&api_device_class_type, KIND_RETURNS_DELETED, NULL},
    {&api_device_taint_rule_type, KIND_CONDITIONAL, NULL},
    {&api_resource_pool_status_request_type, KIND_RETURNS_DELETED | KIND_CONDITIONAL, NULL},
    {&api_pod_type, KIND_RETURNS_DELETED | KIND_GRACEFUL | KIND_POD_SECURITY, pod_fields},
    {&api_event_type, KIND_CREATE_ON_UPDATE | KIND_NO_COLLECTION, event_fields},
    {&api_lease_type, KIND_CREATE_ON_UPDATE | KIND_CONDITIONAL, NULL},
    {&api_node_type, 0, node_fields},
    {&api_namespace_type, KIND_RETURNS_DELETED | KIND_NAMED_FIELD | KIND_POD_SECURITY,
     namespace_fields},
    {&api_secret_type, 0, secret_fields},
    {&api_service_account_type, KIND_RETURNS_DELETED, NULL},
    {&api_service_type, KIND_RETURNS_DELETED | KIND_CREATE_ON_UPDATE, service_fields},
    {&api_resource_quota_type, KIND_RETURNS_DELETED, NULL},
    {&api_limit_range_type, KIND_CREATE_ON_UPDATE, NULL},
    {&api_endpoints_type, KIND_CREATE_ON_UPDATE, NULL},
    {&api_pod_template_type, KIND_RETURNS_DELETED | KIND_POD_SECURITY, NULL},
    {&api_persistent_volume_type, KIND_RETURNS_DELETED | KIND_NAMED_FIELD, NULL},
    {&api_persistent_volume_claim_type, KIND_RETURNS_DELETED | KIND_NAMED_FIELD, NULL},
    {&api_replication_controller_type, KIND_ORPHANS | KIND_POD_SECURITY, controller_fields},
    {&api_replica_set_type, KIND_POD_SECURITY, replica_set_fields},
    {&api_deployment_type, KIND_POD_SECURITY, NULL},
    {&api_daemon_set_type, KIND_POD_SECURITY, NULL},
    {&api_stateful_set_type, KIND_POD_SECURITY, NULL},
    {&api_cron_job_type, KIND_POD_SECURITY, NULL},
    {&api_job_type, KIND_ORPHANS | KIND_POD_SECURITY, job_fields},
    {&api_role_type, KIND_CREATE_ON_UPDATE, NULL},
    {&api_role_binding_type, KIND_CREATE_ON_UPDATE, NULL},
    {&api_cluster_role_type, KIND_CREATE_ON_UPDATE, NULL},
    {&api_cluster_role_binding_type, KIND_CREATE_ON_UPDATE, NULL},
    {&api_pod_disruption_budget_type, KIND_CONDITIONAL, NULL},
    {&api_workload_type, KIND_CONDITIONAL, NULL},
    {&api_pod_group_type, KIND_CONDITIONAL, NULL},
    {&api_v1alpha3_composite_pod_group_type, KIND_CONDITIONAL, NULL},
    {&api_storage_class_type, KIND_RETURNS_DELETED, NULL},
    {&api_csi_node_type, KIND_RETURNS_DELETED | KIND_CONDITIONAL, NULL},
    {&api_csi_driver_type, KIND_RETURNS_DELETED | KIND_CONDITIONAL, NULL},
    {&api_csi_storage_capacity_type, KIND_CONDITIONAL, NULL},
    {&api_volume_attachment_type, KIND_RETURNS_DELETED | KIND_CONDITIONAL, NULL},
    {&api_volume_attributes_class_type, KIND_RETURNS_DELETED, NULL},
    {&api_certificate_signing_request_type, 0, certificate_fields},
    {&api_pod_certificate_request_type, KIND_CONDITIONAL, pod_certificate_fields},
    {&api_cluster_trust_bundle_type, KIND_CONDITIONAL, bundle_fields},
    {&api_storage_version_migration_type, KIND_CONDITIONAL, NULL},
    {&api_ip_address_type, 0, address_fields},
};

const struct kind_rules *kinds_rules_of(const struct api_kind *stored)
{
    static const struct kind_rules plain, custom = {.flags = KIND_CONDITIONAL};
    if (stored->custom)
        return &custom;
    for (size_t i = 0; i < array_len(kinds); i++)
        if (kinds[i].type == stored->type)
            return &kinds[i];
    return &plain;
}
