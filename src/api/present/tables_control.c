// SPDX-License-Identifier: Apache-2.0
//
// Tables of what steers a cluster: certificates, admission, flow control, autoscalers, migrations.
#include "api/certificate.h"
#include "api/present/tables_int.h"

#include "base/banned.h"

// --- Certificates --------------------------------------------------------------------------------

static const struct table_column request_columns[] = {
    TABLE_NAME,
    TABLE_AGE,
    TABLE_TEXT("SignerName", "Who is asked to sign."),
    TABLE_TEXT("Requestor", "Who asks."),
    TABLE_TEXT("RequestedDuration", "How long the certificate is to be good."),
    TABLE_TEXT("Condition", "What has been decided and done."),
};

static void request_cells(struct cells *c, const void *value)
{
    const struct api_certificate_signing_request *r = value;
    cleanup_sbuf struct sbuf lasts = {0}, state = {0};
    if (r->spec.has_expiration_seconds)
        sbuf_add_duration(&lasts, r->spec.expiration_seconds);
    sbuf_addz(&state, certificate_condition(r, "Denied")     ? "Denied"
                      : certificate_condition(r, "Approved") ? "Approved"
                                                             : "Pending");
    if (certificate_condition(r, "Failed"))
        sbuf_addz(&state, ",Failed");
    if (r->status.certificate.n)
        sbuf_addz(&state, ",Issued");
    tables_cell_name(c);
    tables_cell_age(c);
    tables_cell_text_or(c, r->spec.signer_name, "<none>");
    tables_cell_text(c, r->spec.username);
    tables_cell_text_or(c, sbuf_str(&lasts), "<none>");
    tables_cell_text(c, sbuf_str(&state));
}

static const struct table_column bundle_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("SignerName", "Whose certificates they are."),
};

static void bundle_cells(struct cells *c, const void *value)
{
    tables_cell_name(c);
    tables_cell_text_or(c, ((const struct api_cluster_trust_bundle *)value)->spec.signer_name,
                        "<none>");
}

static const struct table_column pod_request_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("PodName", "The pod that the certificate is for."),
    TABLE_TEXT("ServiceAccountName", "The pod's account."),
    TABLE_TEXT("NodeName", "The pod's node."),
    TABLE_TEXT("SignerName", "Who is asked to sign."),
    TABLE_TEXT("State", "Pending, Issued, Denied or Failed."),
    TABLE_TEXT("UnverifiedUserAnnotations", "What the pod passes to the signer."),
};

static void pod_request_cells(struct cells *c, const void *value)
{
    const struct api_pod_certificate_request *r = value;
    struct str state = STR("Pending");
    for (size_t i = 0; i < r->status.conditions.n; i++) {
        struct str type = r->status.conditions.p[i].type;
        if (str_eqz(type, "Issued") || str_eqz(type, "Denied") || str_eqz(type, "Failed"))
            state = type;
    }
    tables_cell_name(c);
    tables_cell_text(c, r->spec.pod_name);
    tables_cell_text(c, r->spec.service_account_name);
    tables_cell_text(c, r->spec.node_name);
    tables_cell_text(c, r->spec.signer_name);
    tables_cell_text(c, state);
    tables_cell_labels(c, &r->spec.unverified_user_annotations);
}

// --- Admission -----------------------------------------------------------------------------------

static const struct table_column webhook_columns[] = {
    TABLE_NAME,
    TABLE_NUMBER("Webhooks", "How many webhooks it has."),
    TABLE_AGE,
};

static void tables_control_webhook_cells(struct cells *c, size_t n)
{
    tables_cell_name(c);
    tables_cell_number(c, (int64_t)n);
    tables_cell_age(c);
}

static void mutating_cells(struct cells *c, const void *value)
{
    tables_control_webhook_cells(
        c, ((const struct api_mutating_webhook_configuration *)value)->webhooks.n);
}

static void validating_cells(struct cells *c, const void *value)
{
    tables_control_webhook_cells(
        c, ((const struct api_validating_webhook_configuration *)value)->webhooks.n);
}

static const struct table_column policy_columns[] = {
    TABLE_NAME,
    TABLE_NUMBER("Validations", "How many rules it has."),
    TABLE_TEXT("ParamKind", "The kind of its parameters."),
    TABLE_AGE,
};

static void policy_cells(struct cells *c, const void *value)
{
    const struct api_validating_admission_policy *policy = value;
    const struct api_param_kind *kind = policy->spec.param_kind;
    tables_cell_name(c);
    tables_cell_number(c, (int64_t)policy->spec.validations.n);
    tables_cell_text(c, kind ? arena_strf(c->arena, "%.*s/%.*s", STR_ARG(kind->api_version),
                                          STR_ARG(kind->kind))
                             : STR("<unset>"));
    tables_cell_age(c);
}

static const struct table_column policy_binding_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("PolicyName", "The policy that it puts to work."),
    TABLE_TEXT("ParamRef", "Where the parameters come from."),
    TABLE_AGE,
};

// A selector is shown as Go shows the struct.
static void tables_control_add_selector(struct sbuf *out, const struct api_label_selector *s)
{
    sbuf_addz(out, "&LabelSelector{MatchLabels:map[string]string{");
    for (size_t i = 0; i < s->match_labels.n; i++)
        sbuf_addf(out, "%.*s: %.*s,", STR_ARG(s->match_labels.p[i].key),
                  STR_ARG(s->match_labels.p[i].value));
    sbuf_addz(out, "},MatchExpressions:[]LabelSelectorRequirement{");
    for (size_t i = 0; i < s->match_expressions.n; i++) {
        const struct api_label_selector_requirement *r = &s->match_expressions.p[i];
        sbuf_addf(out, "LabelSelectorRequirement{Key:%.*s,Operator:%.*s,Values:[", STR_ARG(r->key),
                  STR_ARG(r->operator));
        for (size_t k = 0; k < r->values.n; k++)
            sbuf_addf(out, "%s%.*s", k ? " " : "", STR_ARG(r->values.p[k]));
        sbuf_addz(out, "],},");
    }
    sbuf_addz(out, "},}");
}

static void policy_binding_cells(struct cells *c, const void *value)
{
    const struct api_validating_admission_policy_binding *b = value;
    const struct api_param_ref *p = b->spec.param_ref;
    cleanup_sbuf struct sbuf text = {0};
    if (p && p->name.n)
        sbuf_addf(&text, "%.*s/%.*s", STR_ARG(p->namespace.n ? p->namespace : STR("*")),
                  STR_ARG(p->name));
    else if (p && p->selector)
        tables_control_add_selector(&text, p->selector);
    tables_cell_name(c);
    tables_cell_text(c, b->spec.policy_name);
    tables_cell_text_or(c, sbuf_str(&text), "<unset>");
    tables_cell_age(c);
}

// --- Flow control --------------------------------------------------------------------------------

static const struct table_column flow_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("PriorityLevel", "The level that handles its requests."),
    TABLE_TEXT("MatchingPrecedence", "The smallest number of those that match counts."),
    TABLE_TEXT("DistinguisherMethod", "How its flows are distinguished."),
    TABLE_AGE,
    TABLE_TEXT("MissingPL", "Whether there is no such level."),
};

static void flow_cells(struct cells *c, const void *value)
{
    const struct api_flow_schema *flow = value;
    struct str missing = STR("?");
    for (size_t i = flow->status.conditions.n; i-- > 0;)
        if (str_eqz(flow->status.conditions.p[i].type, "Dangling"))
            missing = flow->status.conditions.p[i].status;
    tables_cell_name(c);
    tables_cell_text(c, flow->spec.priority_level_configuration.name);
    tables_cell_number(c, flow->spec.matching_precedence);
    tables_cell_text(c, flow->spec.distinguisher_method ? flow->spec.distinguisher_method->type
                                                        : STR("<none>"));
    tables_cell_age(c);
    tables_cell_text(c, missing);
}

static const struct table_column level_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Type", "Whether its requests are limited."),
    TABLE_TEXT("NominalConcurrencyShares", "Its share of what may run at once."),
    TABLE_TEXT("Queues", "How many queues it has."),
    TABLE_TEXT("HandSize", "How many of them a flow may use."),
    TABLE_TEXT("QueueLengthLimit", "How many requests may wait in each."),
    TABLE_AGE,
};

static void cell_number_if(struct cells *c, bool there, int32_t number)
{
    if (there)
        tables_cell_number(c, number);
    else
        tables_cell_z(c, "<none>");
}

static void level_cells(struct cells *c, const void *value)
{
    const struct api_priority_level_configuration *level = value;
    const struct api_limited_priority_level_configuration *limited = level->spec.limited;
    const struct api_queuing_configuration *q = limited ? limited->limit_response.queuing : NULL;
    tables_cell_name(c);
    tables_cell_text(c, level->spec.type);
    cell_number_if(c, limited, limited ? limited->nominal_concurrency_shares : 0);
    cell_number_if(c, q, q ? q->queues : 0);
    cell_number_if(c, q, q ? q->hand_size : 0);
    cell_number_if(c, q, q ? q->queue_length_limit : 0);
    tables_cell_age(c);
}

// --- Autoscalers ---------------------------------------------------------------------------------

static const struct table_column scaler_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Reference", "What it scales."),
    TABLE_TEXT("Targets", "The first metrics: what they say, and what they should."),
    TABLE_TEXT("MinPods", "The fewest pods."),
    TABLE_TEXT("MaxPods", "The most pods."),
    TABLE_TEXT("Replicas", "How many pods there are."),
    TABLE_AGE,
};

// A metric of any type: what it should be, and what it was.
struct metric {
    struct str name; // empty: it is not shown
    const struct api_metric_target *target;
    const struct api_metric_value_status *current; // NULL: not known
    bool resource;                                 // has a utilization
    bool pods;                                     // has averages alone
};

static struct metric metric_of(const struct api_metric_spec *s, const struct api_metric_status *now)
{
    if (str_eqz(s->type, "External") && s->external)
        return (struct metric){.target = &s->external->target,
                               .current = now && now->external ? &now->external->current : NULL};
    if (str_eqz(s->type, "Object") && s->object)
        return (struct metric){.target = &s->object->target,
                               .current = now && now->object ? &now->object->current : NULL};
    if (str_eqz(s->type, "Pods") && s->pods)
        return (struct metric){.target = &s->pods->target,
                               .current = now && now->pods ? &now->pods->current : NULL,
                               .pods = true};
    if (str_eqz(s->type, "Resource") && s->resource)
        return (struct metric){.name = s->resource->name,
                               .target = &s->resource->target,
                               .current = now && now->resource ? &now->resource->current : NULL,
                               .resource = true};
    if (str_eqz(s->type, "ContainerResource") && s->container_resource)
        return (struct metric){
            .name = s->container_resource->name,
            .target = &s->container_resource->target,
            .current = now && now->container_resource ? &now->container_resource->current : NULL,
            .resource = true};
    return (struct metric){0};
}

static void add_quantity(struct sbuf *out, const struct quantity *q)
{
    if (q)
        quantity_write(q, out);
    else
        sbuf_addz(out, "<nil>");
}

static void add_averages(struct sbuf *out, const struct metric *m)
{
    bool known = m->current && (m->resource || m->pods || m->current->average_value);
    if (known)
        add_quantity(out, m->current->average_value);
    else
        sbuf_addz(out, "<unknown>");
    sbuf_addc(out, '/');
    add_quantity(out, m->target->average_value);
    if (!m->resource && !m->pods)
        sbuf_addz(out, " (avg)");
}

static void add_utilization(struct sbuf *out, const struct metric *m)
{
    if (m->current && m->current->has_average_utilization)
        sbuf_addf(out, "%d%%", m->current->average_utilization);
    else
        sbuf_addz(out, "<unknown>");
    if (m->target->has_average_utilization)
        sbuf_addf(out, "/%d%%", m->target->average_utilization);
    else
        sbuf_addz(out, "/<auto>");
}

static void tables_control_add_values(struct sbuf *out, const struct metric *m)
{
    if (m->current)
        add_quantity(out, m->current->value);
    else
        sbuf_addz(out, "<unknown>");
    sbuf_addc(out, '/');
    add_quantity(out, m->target->value);
}

static void add_metric(struct sbuf *out, const struct metric *m)
{
    if (!m->target) {
        sbuf_addz(out, "<unknown type>");
        return;
    }
    if (m->resource)
        sbuf_addf(out, "%.*s: ", STR_ARG(m->name));
    if (m->pods || m->target->average_value)
        add_averages(out, m);
    else if (m->resource)
        add_utilization(out, m);
    else
        tables_control_add_values(out, m);
}

#define METRICS_SHOWN 2

static void scaler_targets(struct cells *c, const struct api_horizontal_pod_autoscaler *s)
{
    cleanup_sbuf struct sbuf text = {0};
    size_t n = s->spec.metrics.n;
    for (size_t i = 0; i < n && i < METRICS_SHOWN; i++) {
        const struct api_metric_status_array *now = &s->status.current_metrics;
        struct metric m = metric_of(&s->spec.metrics.p[i], i < now->n ? &now->p[i] : NULL);
        if (i)
            sbuf_addz(&text, ", ");
        add_metric(&text, &m);
    }
    if (n > METRICS_SHOWN)
        sbuf_addf(&text, " + %zu more...", n - METRICS_SHOWN);
    tables_cell_text_or(c, sbuf_str(&text), "<none>");
}

static void scaler_cells(struct cells *c, const void *value)
{
    const struct api_horizontal_pod_autoscaler *s = value;
    tables_cell_name(c);
    tables_cell_text(c, arena_strf(c->arena, "%.*s/%.*s", STR_ARG(s->spec.scale_target_ref.kind),
                                   STR_ARG(s->spec.scale_target_ref.name)));
    scaler_targets(c, s);
    tables_cell_text(c, s->spec.has_min_replicas ? arena_strf(c->arena, "%d", s->spec.min_replicas)
                                                 : STR("<unset>"));
    tables_cell_number(c, s->spec.max_replicas);
    tables_cell_number(c, s->status.current_replicas);
    tables_cell_age(c);
}

// --- Storage -------------------------------------------------------------------------------------

static const struct table_column attributes_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("DriverName", "The driver that it is for."),
    TABLE_AGE,
};

static void attributes_cells(struct cells *c, const void *value)
{
    tables_cell_name(c);
    tables_cell_text(c, ((const struct api_volume_attributes_class *)value)->driver_name);
    tables_cell_age(c);
}

static const struct table_column migration_columns[] = {
    TABLE_TEXT("Name", "The name, unique within kind and namespace."),
    TABLE_TEXT("Resource", "The objects that are rewritten."),
    TABLE_TEXT("Status", "How far it has come."),
};

static void migration_cells(struct cells *c, const void *value)
{
    const struct api_storage_version_migration *m = value;
    const struct api_group_resource *r = &m->spec.resource;
    struct str state = STR("Unknown");
    for (size_t i = 0; i < m->status.conditions.n; i++) {
        const struct api_condition *now = &m->status.conditions.p[i];
        if (str_eqz(now->status, "True") &&
            (str_eqz(now->type, "Running") || str_eqz(now->type, "Failed") ||
             str_eqz(now->type, "Succeeded")))
            state = now->type;
    }
    tables_cell_name(c);
    tables_cell_text(c, arena_strf(c->arena, "%.*s%s%.*s", STR_ARG(r->resource),
                                   r->group.n ? "." : "", STR_ARG(r->group)));
    tables_cell_text(c, state);
}

const struct table_printer table_printers_control[] = {
    TABLE_PRINTER(certificate_signing_request, request_columns, request_cells),
    TABLE_PRINTER(cluster_trust_bundle, bundle_columns, bundle_cells),
    TABLE_PRINTER(pod_certificate_request, pod_request_columns, pod_request_cells),
    TABLE_PRINTER(mutating_webhook_configuration, webhook_columns, mutating_cells),
    TABLE_PRINTER(validating_webhook_configuration, webhook_columns, validating_cells),
    TABLE_PRINTER(validating_admission_policy, policy_columns, policy_cells),
    TABLE_PRINTER(validating_admission_policy_binding, policy_binding_columns,
                  policy_binding_cells),
    TABLE_PRINTER(flow_schema, flow_columns, flow_cells),
    TABLE_PRINTER(priority_level_configuration, level_columns, level_cells),
    TABLE_PRINTER(horizontal_pod_autoscaler, scaler_columns, scaler_cells),
    TABLE_PRINTER(volume_attributes_class, attributes_columns, attributes_cells),
    TABLE_PRINTER(storage_version_migration, migration_columns, migration_cells),
};
const size_t table_printers_control_len = array_len(table_printers_control);
