// SPDX-License-Identifier: Apache-2.0
//
// Tables of workloads, storage, quotas, roles and leases.
#include <ctype.h>

#include "api/api.h"
#include "api/present/tables_int.h"

#include "base/banned.h"

// --- Workloads -----------------------------------------------------------------------------------

static const struct table_column replica_columns[] = {
    TABLE_NAME,
    TABLE_NUMBER("Desired", "How many pods are wanted."),
    TABLE_NUMBER("Current", "How many pods there are."),
    TABLE_NUMBER("Ready", "How many of them are ready."),
    TABLE_AGE,
    TABLE_CONTAINERS,
    TABLE_IMAGES,
    TABLE_WIDE("Selector", "The pods that belong to it."),
};

static void replica_set_cells(struct cells *c, const void *value)
{
    const struct api_replica_set *set = value;
    tables_cell_name(c);
    tables_cell_number(c, set->spec.replicas);
    tables_cell_number(c, set->status.replicas);
    tables_cell_number(c, set->status.ready_replicas);
    tables_cell_age(c);
    tables_cell_containers(c, &set->spec.template.spec.containers);
    tables_cell_selector(c, set->spec.selector, "<none>", "<error>");
}

static void controller_cells(struct cells *c, const void *value)
{
    static const struct api_container_array none;
    const struct api_replication_controller *controller = value;
    const struct api_pod_template_spec *template = controller->spec.template;
    tables_cell_name(c);
    tables_cell_number(c, controller->spec.replicas);
    tables_cell_number(c, controller->status.replicas);
    tables_cell_number(c, controller->status.ready_replicas);
    tables_cell_age(c);
    tables_cell_containers(c, template ? &template->spec.containers : &none);
    tables_cell_labels(c, &controller->spec.selector);
}

static const struct table_column deployment_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Ready", "How many pods are ready, and how many are wanted."),
    TABLE_TEXT("Up-to-date", "How many pods are of the newest template."),
    TABLE_TEXT("Available", "How many pods have been ready for long enough."),
    TABLE_AGE,
    TABLE_CONTAINERS,
    TABLE_IMAGES,
    TABLE_WIDE("Selector", "The pods that belong to it."),
};

static void deployment_cells(struct cells *c, const void *value)
{
    const struct api_deployment *deployment = value;
    tables_cell_name(c);
    tables_cell_ratio(c, deployment->status.ready_replicas, deployment->spec.replicas);
    tables_cell_number(c, deployment->status.updated_replicas);
    tables_cell_number(c, deployment->status.available_replicas);
    tables_cell_age(c);
    tables_cell_containers(c, &deployment->spec.template.spec.containers);
    tables_cell_selector(c, deployment->spec.selector, "", "<invalid>");
}

static const struct table_column daemon_set_columns[] = {
    TABLE_NAME,
    TABLE_NUMBER("Desired", "How many nodes should run it."),
    TABLE_NUMBER("Current", "How many nodes run it."),
    TABLE_NUMBER("Ready", "How many of its pods are ready."),
    TABLE_NUMBER("Up-to-date", "How many pods are of the newest template."),
    TABLE_NUMBER("Available", "How many pods have been ready for long enough."),
    TABLE_TEXT("Node Selector", "The nodes it runs on."),
    TABLE_AGE,
    TABLE_CONTAINERS,
    TABLE_IMAGES,
    TABLE_WIDE("Selector", "The pods that belong to it."),
};

static void daemon_set_cells(struct cells *c, const void *value)
{
    const struct api_daemon_set *set = value;
    tables_cell_name(c);
    tables_cell_number(c, set->status.desired_number_scheduled);
    tables_cell_number(c, set->status.current_number_scheduled);
    tables_cell_number(c, set->status.number_ready);
    tables_cell_number(c, set->status.updated_number_scheduled);
    tables_cell_number(c, set->status.number_available);
    tables_cell_labels(c, &set->spec.template.spec.node_selector);
    tables_cell_age(c);
    tables_cell_containers(c, &set->spec.template.spec.containers);
    tables_cell_selector(c, set->spec.selector, "<none>", "<error>");
}

static const struct table_column stateful_set_columns[] = {
    TABLE_NAME,   TABLE_TEXT("Ready", "How many pods are ready, and how many are wanted."),
    TABLE_AGE,    TABLE_CONTAINERS,
    TABLE_IMAGES,
};

static void stateful_set_cells(struct cells *c, const void *value)
{
    const struct api_stateful_set *set = value;
    tables_cell_name(c);
    tables_cell_ratio(c, set->status.ready_replicas, set->spec.replicas);
    tables_cell_age(c);
    tables_cell_containers(c, &set->spec.template.spec.containers);
}

static const struct table_column revision_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Controller", "What it is a revision of."),
    TABLE_TEXT("Revision", "Its number."),
    TABLE_AGE,
};

// revision_owner shows the controller as kind.group/name, in small letters but for the name.
static void revision_owner(struct cells *c)
{
    const struct api_owner_reference_array *owners = &c->meta->owner_references;
    size_t i = 0;
    while (i < owners->n && !(owners->p[i].has_controller && owners->p[i].controller))
        i++;
    if (i == owners->n) {
        tables_cell_z(c, "<none>");
        return;
    }
    const struct api_owner_reference *owner = &owners->p[i];
    struct str group, version;
    if (!str_cut(owner->api_version, '/', &group, &version))
        group = STR("");
    cleanup_sbuf struct sbuf text = {0};
    sbuf_add(&text, owner->kind);
    if (group.n) {
        sbuf_addc(&text, '.');
        sbuf_add(&text, group);
    }
    for (size_t k = 0; k < text.n; k++)
        text.p[k] = (char)tolower((unsigned char)text.p[k]);
    if (owner->kind.n || group.n)
        sbuf_addc(&text, '/');
    sbuf_add(&text, owner->name);
    tables_cell_text(c, sbuf_str(&text));
}

static void revision_cells(struct cells *c, const void *value)
{
    tables_cell_name(c);
    revision_owner(c);
    tables_cell_number(c, ((const struct api_controller_revision *)value)->revision);
    tables_cell_age(c);
}

// --- Jobs ----------------------------------------------------------------------------------------

static const struct table_column job_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Status", "What has become of the job."),
    TABLE_TEXT("Completions", "How many pods have succeeded, and how many must."),
    TABLE_TEXT("Duration", "How long it took, or has taken so far."),
    TABLE_AGE,
    TABLE_CONTAINERS,
    TABLE_IMAGES,
    TABLE_WIDE("Selector", "The pods that belong to it."),
};

static bool job_is(const struct api_job *job, const char *type)
{
    for (size_t i = 0; i < job->status.conditions.n; i++)
        if (str_eqz(job->status.conditions.p[i].type, type))
            return str_eqz(job->status.conditions.p[i].status, "True");
    return false;
}

static const char *job_status(const struct api_job *job)
{
    static const char *const ends[] = {"Complete", "Failed"};
    static const char *const states[] = {"Suspended", "FailureTarget", "SuccessCriteriaMet"};
    for (size_t i = 0; i < array_len(ends); i++)
        if (job_is(job, ends[i]))
            return ends[i];
    if (job->metadata.deletion_timestamp.set)
        return "Terminating";
    for (size_t i = 0; i < array_len(states); i++)
        if (job_is(job, states[i]))
            return states[i];
    return "Running";
}

static void job_cells(struct cells *c, const void *value)
{
    const struct api_job *job = value;
    const struct api_job_status *status = &job->status;
    tables_cell_name(c);
    tables_cell_z(c, job_status(job));
    if (job->spec.has_completions)
        tables_cell_ratio(c, status->succeeded, job->spec.completions);
    else if (job->spec.parallelism > 1)
        tables_cell_text(c, arena_strf(c->arena, "%d/1 of %d", status->succeeded,
                                       job->spec.parallelism));
    else
        tables_cell_ratio(c, status->succeeded, 1);
    cleanup_sbuf struct sbuf duration = {0};
    if (status->start_time.set)
        sbuf_add_age(&duration, &status->start_time,
                     status->completion_time.set ? status->completion_time.at : c->table->now);
    tables_cell_text(c, sbuf_str(&duration));
    tables_cell_age(c);
    tables_cell_containers(c, &job->spec.template.spec.containers);
    tables_cell_selector(c, job->spec.selector, "<none>", "<error>");
}

static const struct table_column cron_job_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Schedule", "When it runs."),
    TABLE_TEXT("Timezone", "The time zone of the schedule."),
    TABLE_BOOL("Suspend", "Whether it is suspended."),
    TABLE_NUMBER("Active", "How many of its jobs are running."),
    TABLE_TEXT("Last Schedule", "How long ago a job was started."),
    TABLE_AGE,
    TABLE_CONTAINERS,
    TABLE_IMAGES,
    TABLE_WIDE("Selector", "The pods that belong to its jobs."),
};

static void cron_job_cells(struct cells *c, const void *value)
{
    const struct api_cron_job *cron = value;
    const struct api_job_spec *job = &cron->spec.job_template.spec;
    tables_cell_name(c);
    tables_cell_text(c, cron->spec.schedule);
    tables_cell_text(c, cron->spec.has_time_zone ? cron->spec.time_zone : STR("<none>"));
    tables_cell_z(c, !cron->spec.has_suspend ? "<unset>" : cron->spec.suspend ? "True" : "False");
    tables_cell_number(c, (int64_t)cron->status.active.n);
    if (cron->status.last_schedule_time.set)
        tables_cell_since(c, &cron->status.last_schedule_time);
    else
        tables_cell_z(c, "<none>");
    tables_cell_age(c);
    tables_cell_containers(c, &job->template.spec.containers);
    tables_cell_selector(c, job->selector, "<none>", "<error>");
}

static const struct table_column budget_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Min Available", "How many pods must stay."),
    TABLE_TEXT("Max Unavailable", "How many pods may be gone."),
    TABLE_NUMBER("Allowed Disruptions", "How many pods may be evicted now."),
    TABLE_AGE,
};

static void cell_int_or_string(struct cells *c, const struct api_int_or_string *v)
{
    if (!v)
        tables_cell_z(c, "N/A");
    else if (v->is_text)
        tables_cell_text(c, v->text);
    else
        tables_cell_text(c, arena_strf(c->arena, "%d", v->number));
}

static void budget_cells(struct cells *c, const void *value)
{
    const struct api_pod_disruption_budget *budget = value;
    tables_cell_name(c);
    cell_int_or_string(c, budget->spec.min_available);
    cell_int_or_string(c, budget->spec.max_unavailable);
    tables_cell_number(c, budget->status.disruptions_allowed);
    tables_cell_age(c);
}

// --- Storage -------------------------------------------------------------------------------------

static void cell_quantity(struct cells *c, const struct quantity *q)
{
    cleanup_sbuf struct sbuf text = {0};
    if (q)
        quantity_write(q, &text);
    tables_cell_text(c, q ? sbuf_str(&text) : STR("0"));
}

static const struct quantity *find_quantity(const struct api_quantity_map *map, const char *name)
{
    for (size_t i = 0; i < map->n; i++)
        if (str_eqz(map->p[i].key, name))
            return &map->p[i].value;
    return NULL;
}

static void cell_access_modes(struct cells *c, const struct api_str_array *modes)
{
    static const char *const names[][2] = {{"ReadWriteOnce", "RWO"},
                                           {"ReadOnlyMany", "ROX"},
                                           {"ReadWriteMany", "RWX"},
                                           {"ReadWriteOncePod", "RWOP"}};
    cleanup_sbuf struct sbuf text = {0};
    for (size_t i = 0; i < array_len(names); i++) {
        bool found = false;
        for (size_t k = 0; k < modes->n; k++)
            found |= str_eqz(modes->p[k], names[i][0]);
        if (found)
            sbuf_addf(&text, "%s%s", text.n ? "," : "", names[i][1]);
    }
    tables_cell_text(c, sbuf_str(&text));
}

static void cell_storage_class(struct cells *c, struct str class)
{
    const struct str *before =
        api_map_find(&c->meta->annotations, STR("volume.beta.kubernetes.io/storage-class"));
    tables_cell_text(c, before ? *before : class);
}

static const struct table_column volume_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Capacity", "How much it holds."),
    TABLE_TEXT("Access Modes", "How it can be mounted."),
    TABLE_TEXT("Reclaim Policy", "What happens to it once it is released."),
    TABLE_TEXT("Status", "Whether it is bound."),
    TABLE_TEXT("Claim", "The claim it is bound to."),
    TABLE_TEXT("StorageClass", "Its storage class."),
    TABLE_TEXT("VolumeAttributesClass", "Its volume attributes class."),
    TABLE_TEXT("Reason", "Why it is in this state."),
    TABLE_AGE,
    TABLE_WIDE("VolumeMode", "A file system or a raw device."),
};

static void volume_cells(struct cells *c, const void *value)
{
    const struct api_persistent_volume *volume = value;
    const struct api_persistent_volume_spec *spec = &volume->spec;
    tables_cell_name(c);
    cell_quantity(c, find_quantity(&spec->capacity, "storage"));
    cell_access_modes(c, &spec->access_modes);
    tables_cell_text(c, spec->persistent_volume_reclaim_policy);
    tables_cell_text(c,
                     c->meta->deletion_timestamp.set ? STR("Terminating") : volume->status.phase);
    tables_cell_text(c, spec->claim_ref
                            ? arena_strf(c->arena, "%.*s/%.*s", STR_ARG(spec->claim_ref->namespace),
                                         STR_ARG(spec->claim_ref->name))
                            : STR(""));
    cell_storage_class(c, spec->storage_class_name);
    tables_cell_text(c, spec->has_volume_attributes_class_name ? spec->volume_attributes_class_name
                                                               : STR("<unset>"));
    tables_cell_text(c, volume->status.reason);
    tables_cell_age(c);
    tables_cell_text(c, spec->has_volume_mode ? spec->volume_mode : STR("<unset>"));
}

static const struct table_column volume_claim_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Status", "Whether it is bound."),
    TABLE_TEXT("Volume", "The volume it is bound to."),
    TABLE_TEXT("Capacity", "How much the volume holds."),
    TABLE_TEXT("Access Modes", "How the volume can be mounted."),
    TABLE_TEXT("StorageClass", "Its storage class."),
    TABLE_TEXT("VolumeAttributesClass", "Its volume attributes class."),
    TABLE_AGE,
    TABLE_WIDE("VolumeMode", "A file system or a raw device."),
};

static void volume_claim_cells(struct cells *c, const void *value)
{
    const struct api_persistent_volume_claim *claim = value;
    const struct api_persistent_volume_claim_spec *spec = &claim->spec;
    tables_cell_name(c);
    tables_cell_text(c, c->meta->deletion_timestamp.set ? STR("Terminating") : claim->status.phase);
    tables_cell_text(c, spec->volume_name);
    if (spec->volume_name.n) {
        cell_quantity(c, find_quantity(&claim->status.capacity, "storage"));
        cell_access_modes(c, &claim->status.access_modes);
    } else {
        tables_cell_z(c, "");
        tables_cell_z(c, "");
    }
    cell_storage_class(c, spec->storage_class_name);
    tables_cell_text(c, spec->has_volume_attributes_class_name ? spec->volume_attributes_class_name
                                                               : STR("<unset>"));
    tables_cell_age(c);
    tables_cell_text(c, spec->has_volume_mode ? spec->volume_mode : STR("<unset>"));
}

static const struct table_column class_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Provisioner", "What makes the volumes."),
    TABLE_TEXT("ReclaimPolicy", "What happens to volumes once they are released."),
    TABLE_TEXT("VolumeBindingMode", "When volumes are made and bound."),
    TABLE_TEXT("AllowVolumeExpansion", "Whether volumes can grow."),
    TABLE_AGE,
};

static void class_cells(struct cells *c, const void *value)
{
    const struct api_storage_class *class = value;
    const struct api_storage_class *chosen = c->table->default_class;
    bool is_default = chosen && str_eq(chosen->metadata.name, class->metadata.name);
    tables_cell_text(c, arena_strf(c->arena, "%.*s%s", STR_ARG(class->metadata.name),
                                   is_default ? " (default)" : ""));
    tables_cell_text(c, class->provisioner);
    tables_cell_text(c, class->has_reclaim_policy ? class->reclaim_policy : STR("Delete"));
    tables_cell_text(c, class->has_volume_binding_mode ? class->volume_binding_mode
                                                       : STR("Immediate"));
    tables_cell_bool(c, class->allow_volume_expansion);
    tables_cell_age(c);
}

static const struct table_column attachment_columns[] = {
    TABLE_NAME,
    {"Attacher", "string", "name", "What attaches the volume.", 0},
    TABLE_TEXT("PV", "The volume."),
    TABLE_TEXT("Node", "The node it is attached to."),
    TABLE_BOOL("Attached", "Whether it is attached."),
    TABLE_AGE,
};

static void attachment_cells(struct cells *c, const void *value)
{
    const struct api_volume_attachment *attachment = value;
    tables_cell_name(c);
    tables_cell_text(c, attachment->spec.attacher);
    tables_cell_text(c, attachment->spec.source.persistent_volume_name);
    tables_cell_text(c, attachment->spec.node_name);
    tables_cell_bool(c, attachment->status.attached);
    tables_cell_age(c);
}

static const struct table_column csi_node_columns[] = {
    TABLE_NAME,
    TABLE_NUMBER("Drivers", "How many drivers the node has."),
    TABLE_AGE,
};

static void csi_node_cells(struct cells *c, const void *value)
{
    tables_cell_name(c);
    tables_cell_number(c, (int64_t)((const struct api_csi_node *)value)->spec.drivers.n);
    tables_cell_age(c);
}

static const struct table_column csi_driver_columns[] = {
    TABLE_NAME,
    TABLE_BOOL("AttachRequired", "Whether volumes must be attached before they are mounted."),
    TABLE_BOOL("PodInfoOnMount", "Whether the driver hears of the pod."),
    TABLE_BOOL("StorageCapacity", "Whether the driver publishes its free capacity."),
    TABLE_TEXT("TokenRequests", "The audiences of the tokens it asks for."),
    TABLE_BOOL("RequiresRepublish", "Whether volumes are published again and again."),
    TABLE_TEXT("Modes", "The volumes it offers."),
    TABLE_AGE,
};

static void csi_driver_cells(struct cells *c, const void *value)
{
    const struct api_csi_driver_spec *spec = &((const struct api_csi_driver *)value)->spec;
    cleanup_sbuf struct sbuf audiences = {0};
    for (size_t i = 0; i < spec->token_requests.n; i++)
        sbuf_addf(&audiences, "%s%.*s", i ? "," : "", STR_ARG(spec->token_requests.p[i].audience));
    tables_cell_name(c);
    tables_cell_bool(c, !spec->has_attach_required || spec->attach_required);
    tables_cell_bool(c, spec->pod_info_on_mount);
    tables_cell_bool(c, spec->storage_capacity);
    tables_cell_text(c, spec->token_requests.p ? sbuf_str(&audiences) : STR("<unset>"));
    tables_cell_bool(c, spec->requires_republish);
    tables_cell_list(c, &spec->volume_lifecycle_modes, ",", "<none>");
    tables_cell_age(c);
}

static const struct table_column capacity_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("StorageClassName", "The storage class."),
    TABLE_TEXT("Capacity", "How much room there is."),
};

static void capacity_cells(struct cells *c, const void *value)
{
    const struct api_csi_storage_capacity *capacity = value;
    tables_cell_name(c);
    tables_cell_text(c, capacity->storage_class_name);
    if (capacity->capacity)
        cell_quantity(c, capacity->capacity);
    else
        tables_cell_z(c, "<unset>");
}

// --- Quotas, roles, leases -----------------------------------------------------------------------

static const struct table_column quota_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Request", "Used and allowed requests."),
    TABLE_TEXT("Limit", "What is used of what limits may add up to."),
    TABLE_AGE,
};

static void quota_part(struct cells *c, const struct api_resource_quota_status *status, bool limits)
{
    cleanup_sbuf struct sbuf text = {0};
    for (size_t i = 0; i < status->hard.n; i++) {
        struct str name = status->hard.p[i].key;
        if (str_starts(name, STR("limits.")) != limits)
            continue;
        const struct quantity *used = NULL;
        for (size_t k = 0; k < status->used.n && !used; k++)
            used = str_eq(status->used.p[k].key, name) ? &status->used.p[k].value : NULL;
        sbuf_addf(&text, "%s%.*s: ", text.n ? ", " : "", STR_ARG(name));
        if (used)
            quantity_write(used, &text);
        else
            sbuf_addc(&text, '0');
        sbuf_addc(&text, '/');
        quantity_write(&status->hard.p[i].value, &text);
    }
    tables_cell_text(c, sbuf_str(&text));
}

static void quota_cells(struct cells *c, const void *value)
{
    const struct api_resource_quota *quota = value;
    tables_cell_name(c);
    quota_part(c, &quota->status, false);
    quota_part(c, &quota->status, true);
    tables_cell_age(c);
}

static const struct table_column binding_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Role", "The role it grants."),
    TABLE_AGE,
    TABLE_WIDE("Users", "The users it grants the role to."),
    TABLE_WIDE("Groups", "The groups it grants the role to."),
    TABLE_WIDE("ServiceAccounts", "The service accounts it grants the role to."),
};

static void binding_subjects(struct cells *c, const struct api_subject_array *subjects,
                             const char *kind, bool namespaced)
{
    cleanup_sbuf struct sbuf text = {0};
    bool first = true;
    for (size_t i = 0; i < subjects->n; i++) {
        const struct api_subject *subject = &subjects->p[i];
        if (!str_eqz(subject->kind, kind))
            continue;
        sbuf_addz(&text, first ? "" : ", ");
        first = false;
        if (namespaced)
            sbuf_addf(&text, "%.*s/", STR_ARG(subject->namespace));
        sbuf_add(&text, subject->name);
    }
    tables_cell_text(c, sbuf_str(&text));
}

static void binding_row(struct cells *c, const struct api_role_ref *role,
                        const struct api_subject_array *subjects)
{
    tables_cell_name(c);
    tables_cell_text(c,
                     arena_strf(c->arena, "%.*s/%.*s", STR_ARG(role->kind), STR_ARG(role->name)));
    tables_cell_age(c);
    binding_subjects(c, subjects, "User", false);
    binding_subjects(c, subjects, "Group", false);
    binding_subjects(c, subjects, "ServiceAccount", true);
}

static void role_binding_cells(struct cells *c, const void *value)
{
    const struct api_role_binding *binding = value;
    binding_row(c, &binding->role_ref, &binding->subjects);
}

static void cluster_role_binding_cells(struct cells *c, const void *value)
{
    const struct api_cluster_role_binding *binding = value;
    binding_row(c, &binding->role_ref, &binding->subjects);
}

static const struct table_column runtime_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Handler", "The configuration of the node's runtime that runs such pods."),
    TABLE_AGE,
};

static void runtime_cells(struct cells *c, const void *value)
{
    tables_cell_name(c);
    tables_cell_text(c, ((const struct api_runtime_class *)value)->handler);
    tables_cell_age(c);
}

static const struct table_column lease_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Holder", "Who holds it."),
    TABLE_AGE,
};

static void lease_cells(struct cells *c, const void *value)
{
    tables_cell_name(c);
    tables_cell_text(c, ((const struct api_lease *)value)->spec.holder_identity);
    tables_cell_age(c);
}

const struct table_printer table_printers_work[] = {
    TABLE_PRINTER(replica_set, replica_columns, replica_set_cells),
    TABLE_PRINTER(replication_controller, replica_columns, controller_cells),
    TABLE_PRINTER(deployment, deployment_columns, deployment_cells),
    TABLE_PRINTER(daemon_set, daemon_set_columns, daemon_set_cells),
    TABLE_PRINTER(stateful_set, stateful_set_columns, stateful_set_cells),
    TABLE_PRINTER(controller_revision, revision_columns, revision_cells),
    TABLE_PRINTER(job, job_columns, job_cells),
    TABLE_PRINTER(cron_job, cron_job_columns, cron_job_cells),
    TABLE_PRINTER(pod_disruption_budget, budget_columns, budget_cells),
    TABLE_PRINTER(persistent_volume, volume_columns, volume_cells),
    TABLE_PRINTER(persistent_volume_claim, volume_claim_columns, volume_claim_cells),
    TABLE_PRINTER(storage_class, class_columns, class_cells),
    TABLE_PRINTER(volume_attachment, attachment_columns, attachment_cells),
    TABLE_PRINTER(csi_node, csi_node_columns, csi_node_cells),
    TABLE_PRINTER(csi_driver, csi_driver_columns, csi_driver_cells),
    TABLE_PRINTER(csi_storage_capacity, capacity_columns, capacity_cells),
    TABLE_PRINTER(resource_quota, quota_columns, quota_cells),
    TABLE_PRINTER(role_binding, binding_columns, role_binding_cells),
    TABLE_PRINTER(cluster_role_binding, binding_columns, cluster_role_binding_cells),
    TABLE_PRINTER(lease, lease_columns, lease_cells),
    TABLE_PRINTER(runtime_class, runtime_columns, runtime_cells),
};
const size_t table_printers_work_len = array_len(table_printers_work);
