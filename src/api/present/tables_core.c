// SPDX-License-Identifier: Apache-2.0
//
// Tables of the core group and events.
#include <ctype.h>
#include <stdlib.h>

#include "api/present/tables_int.h"

#include "base/banned.h"

// --- Pods ----------------------------------------------------------------------------------------

static const struct table_column pod_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Ready", "How many of its containers are ready."),
    TABLE_TEXT("Status", "What its containers are doing, in one word."),
    TABLE_TEXT("Restarts", "How often its containers were restarted, and when last."),
    TABLE_AGE,
    TABLE_WIDE("IP", "Its address."),
    TABLE_WIDE("Node", "The node it runs on."),
    TABLE_WIDE("Nominated Node", "The node it will run on once others have been evicted."),
    TABLE_WIDE("Readiness Gates", "How many of its readiness gates are open."),
};

// What a pod's row is made of, while looking through its containers.
struct pod_summary {
    const struct api_pod *pod;
    struct arena *arena;
    struct str reason;
    int64_t restarts;
    int64_t ready;
    int64_t total;
    struct api_time last_restart;
};

static const struct api_pod_condition *pod_condition(const struct api_pod *pod, const char *type)
{
    for (size_t i = 0; i < pod->status.conditions.n; i++)
        if (str_eqz(pod->status.conditions.p[i].type, type))
            return &pod->status.conditions.p[i];
    return NULL;
}

static bool pod_has_ready(const struct api_pod *pod)
{
    for (size_t i = 0; i < pod->status.conditions.n; i++)
        if (str_eqz(pod->status.conditions.p[i].type, "Ready") &&
            str_eqz(pod->status.conditions.p[i].status, "True"))
            return true;
    return false;
}

// tables_core_is_sidecar reports whether an init container goes on running beside the others.
static bool tables_core_is_sidecar(const struct api_container *container)
{
    return container->has_restart_policy && str_eqz(container->restart_policy, "Always");
}

static bool names_sidecar(const struct api_pod *pod, struct str name)
{
    bool sidecar = false; // of containers with one name the last counts
    for (size_t i = 0; i < pod->spec.init_containers.n; i++)
        if (str_eq(pod->spec.init_containers.p[i].name, name))
            sidecar = tables_core_is_sidecar(&pod->spec.init_containers.p[i]);
    return sidecar;
}

static void note_restarts(const struct api_container_status *status, int64_t *restarts,
                          struct api_time *last)
{
    *restarts += status->restart_count;
    const struct api_container_state_terminated *ended = status->last_state.terminated;
    if (ended && ended->finished_at.set &&
        (!last->set || moment_cmp(last->at, ended->finished_at.at) < 0))
        *last = ended->finished_at;
}

// end_reason is why a container ended.
static struct str end_reason(const struct api_container_state_terminated *ended, const char *before,
                             struct arena *arena)
{
    if (ended->reason.n)
        return arena_strf(arena, "%s%.*s", before, STR_ARG(ended->reason));
    if (ended->signal)
        return arena_strf(arena, "%sSignal:%d", before, ended->signal);
    return arena_strf(arena, "%sExitCode:%d", before, ended->exit_code);
}

// sum_init looks at the init containers up to the first that has not done its work; true when there
// is one. sidecars gets what counts once all are done.
static bool sum_init(struct pod_summary *s, struct pod_summary *sidecars)
{
    const struct api_container_status_array *statuses = &s->pod->status.init_container_statuses;
    for (size_t i = 0; i < statuses->n; i++) {
        const struct api_container_status *status = &statuses->p[i];
        const struct api_container_state_terminated *ended = status->state.terminated;
        const struct api_container_state_waiting *waiting = status->state.waiting;
        bool sidecar = names_sidecar(s->pod, status->name);
        note_restarts(status, &s->restarts, &s->last_restart);
        if (sidecar)
            note_restarts(status, &sidecars->restarts, &sidecars->last_restart);
        if (ended && ended->exit_code == 0)
            continue;
        if (sidecar && status->has_started && status->started) {
            s->ready += status->ready;
            continue;
        }
        if (ended)
            s->reason = end_reason(ended, "Init:", s->arena);
        else if (waiting && waiting->reason.n && !str_eqz(waiting->reason, "PodInitializing"))
            s->reason = arena_strf(s->arena, "Init:%.*s", STR_ARG(waiting->reason));
        else
            s->reason = arena_strf(s->arena, "Init:%zu/%zu", i, s->pod->spec.init_containers.n);
        return true;
    }
    return false;
}

static void sum_containers(struct pod_summary *s)
{
    const struct api_container_status_array *statuses = &s->pod->status.container_statuses;
    bool running = false;
    struct str error = {0};
    for (size_t i = statuses->n; i-- > 0;) {
        const struct api_container_status *status = &statuses->p[i];
        const struct api_container_state_terminated *ended = status->state.terminated;
        note_restarts(status, &s->restarts, &s->last_restart);
        if (status->state.waiting && status->state.waiting->reason.n) {
            s->reason = status->state.waiting->reason;
        } else if (ended) {
            s->reason = end_reason(ended, "", s->arena);
            if (ended->exit_code)
                error = s->reason;
        } else if (status->ready && status->state.running) {
            running = true;
            s->ready++;
        }
    }
    if (!str_eqz(s->reason, "Completed"))
        return;
    if (running && pod_has_ready(s->pod))
        s->reason = STR("Running");
    else if (error.n)
        s->reason = error;
    else if (running)
        s->reason = STR("NotReady");
}

static void tables_core_summarize_pod(struct pod_summary *s)
{
    const struct api_pod *pod = s->pod;
    const struct api_pod_status *status = &pod->status;
    s->reason = status->reason.n ? status->reason : status->phase;
    for (size_t i = 0; i < status->conditions.n; i++)
        if (str_eqz(status->conditions.p[i].type, "PodScheduled") &&
            str_eqz(status->conditions.p[i].reason, "SchedulingGated"))
            s->reason = STR("SchedulingGated");
    s->total = (int64_t)pod->spec.containers.n;
    for (size_t i = 0; i < pod->spec.init_containers.n; i++)
        s->total += tables_core_is_sidecar(&pod->spec.init_containers.p[i]);

    struct pod_summary sidecars = {0};
    const struct api_pod_condition *initialized = pod_condition(pod, "Initialized");
    if (!sum_init(s, &sidecars) || (initialized && str_eqz(initialized->status, "True"))) {
        s->restarts = sidecars.restarts;
        s->last_restart = sidecars.last_restart;
        sum_containers(s);
    }
    if (!pod->metadata.deletion_timestamp.set)
        return;
    if (str_eqz(status->reason, "NodeLost"))
        s->reason = STR("Unknown");
    else if (!str_eqz(status->phase, "Failed") && !str_eqz(status->phase, "Succeeded"))
        s->reason = STR("Terminating");
}

static void pod_gates(struct cells *c, const struct api_pod *pod)
{
    if (pod->spec.readiness_gates.n == 0) {
        tables_cell_z(c, "<none>");
        return;
    }
    int64_t open = 0;
    for (size_t i = 0; i < pod->spec.readiness_gates.n; i++) {
        struct str type = pod->spec.readiness_gates.p[i].condition_type;
        for (size_t k = 0; k < pod->status.conditions.n; k++) {
            if (str_eq(pod->status.conditions.p[k].type, type)) {
                open += str_eqz(pod->status.conditions.p[k].status, "True");
                break;
            }
        }
    }
    tables_cell_ratio(c, open, (int64_t)pod->spec.readiness_gates.n);
}

static void pod_cells(struct cells *c, const void *value)
{
    const struct api_pod *pod = value;
    struct pod_summary s = {.pod = pod, .arena = c->arena};
    tables_core_summarize_pod(&s);
    tables_cell_name(c);
    tables_cell_ratio(c, s.ready, s.total);
    tables_cell_text(c, s.reason);
    cleanup_sbuf struct sbuf restarts = {0};
    sbuf_add_i64(&restarts, s.restarts);
    if (s.restarts && s.last_restart.set) {
        sbuf_addz(&restarts, " (");
        sbuf_add_age(&restarts, &s.last_restart, c->table->now);
        sbuf_addz(&restarts, " ago)");
    }
    tables_cell_text(c, sbuf_str(&restarts));
    tables_cell_age(c);
    tables_cell_text_or(c, pod->status.pod_ips.n ? pod->status.pod_ips.p[0].ip : pod->status.pod_ip,
                        "<none>");
    tables_cell_text_or(c, pod->spec.node_name, "<none>");
    tables_cell_text_or(c, pod->status.nominated_node_name, "<none>");
    pod_gates(c, pod);
}

static const struct table_column pod_template_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Containers", "The names of the template's containers."),
    TABLE_TEXT("Images", "The images of the template's containers."),
    TABLE_TEXT("Pod Labels", "The labels of the template."),
};

static void pod_template_cells(struct cells *c, const void *value)
{
    const struct api_pod_template *template = value;
    tables_cell_name(c);
    tables_cell_containers(c, &template->template.spec.containers);
    tables_cell_labels(c, &template->template.metadata.labels);
}

// --- Nodes and namespaces ------------------------------------------------------------------------

static const struct table_column node_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Status", "Whether the node is ready."),
    TABLE_TEXT("Roles", "The roles its labels name."),
    TABLE_AGE,
    TABLE_TEXT("Version", "The version of its kubelet."),
    TABLE_WIDE("Internal-IP", "Its address inside the cluster."),
    TABLE_WIDE("External-IP", "Its address outside the cluster."),
    TABLE_WIDE("OS-Image", "Its operating system."),
    TABLE_WIDE("Kernel-Version", "Its kernel."),
    TABLE_WIDE("Container-Runtime", "What runs its containers."),
};

static void node_status(struct cells *c, const struct api_node *node)
{
    struct str ready = STR("Unknown"); // of conditions with one type the last counts
    for (size_t i = 0; i < node->status.conditions.n; i++)
        if (str_eqz(node->status.conditions.p[i].type, "Ready"))
            ready = str_eqz(node->status.conditions.p[i].status, "True") ? STR("Ready")
                                                                         : STR("NotReady");
    tables_cell_text(c, arena_strf(c->arena, "%.*s%s", STR_ARG(ready),
                                   node->spec.unschedulable ? ",SchedulingDisabled" : ""));
}

// cell_set shows texts sorted, each once.
static void cell_set(struct cells *c, struct str *items, size_t n, const char *otherwise)
{
    cleanup_sbuf struct sbuf text = {0};
    if (n)
        qsort(items, n, sizeof(*items), str_cmp_elements);
    for (size_t i = 0; i < n; i++) {
        if (i && str_eq(items[i], items[i - 1]))
            continue;
        if (i)
            sbuf_addc(&text, ',');
        sbuf_add(&text, items[i]);
    }
    tables_cell_text_or(c, sbuf_str(&text), otherwise);
}

static void node_roles(struct cells *c, const struct api_node *node)
{
    const struct str prefix = STR("node-role.kubernetes.io/");
    const struct api_str_map *labels = &node->metadata.labels;
    struct str *roles = arena_array(c->arena, struct str, labels->n);
    size_t n = 0;
    for (size_t i = 0; i < labels->n; i++) {
        struct str key = labels->p[i].key;
        if (str_starts(key, prefix) && key.n > prefix.n)
            roles[n++] = str_from(key, prefix.n);
        else if (str_eqz(key, "kubernetes.io/role") && labels->p[i].value.n)
            roles[n++] = labels->p[i].value;
    }
    cell_set(c, roles, n, "<none>");
}

static void node_address(struct cells *c, const struct api_node *node, const char *type)
{
    for (size_t i = 0; i < node->status.addresses.n; i++) {
        if (str_eqz(node->status.addresses.p[i].type, type)) {
            tables_cell_text(c, node->status.addresses.p[i].address);
            return;
        }
    }
    tables_cell_z(c, "<none>");
}

static void tables_core_node_cells(struct cells *c, const void *value)
{
    const struct api_node *node = value;
    const struct api_node_system_info *info = &node->status.node_info;
    struct str kernel = info->kernel_version.n ? info->kernel_version : STR("<unknown>");
    tables_cell_name(c);
    node_status(c, node);
    node_roles(c, node);
    tables_cell_age(c);
    tables_cell_text(c, info->kubelet_version);
    node_address(c, node, "InternalIP");
    node_address(c, node, "ExternalIP");
    tables_cell_text_or(c, info->os_image, "<unknown>");
    if (info->architecture.n)
        kernel = arena_strf(c->arena, "%.*s (%.*s)", STR_ARG(kernel), STR_ARG(info->architecture));
    tables_cell_text(c, kernel);
    tables_cell_text_or(c, info->container_runtime_version, "<unknown>");
}

static const struct table_column namespace_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Status", "Whether the namespace is in use or going away."),
    TABLE_AGE,
};

static void namespace_cells(struct cells *c, const void *value)
{
    tables_cell_name(c);
    tables_cell_text(c, ((const struct api_namespace *)value)->status.phase);
    tables_cell_age(c);
}

// --- Events --------------------------------------------------------------------------------------

static const struct table_column event_columns[] = {
    TABLE_TEXT("Last Seen", "How long ago it happened last."),
    TABLE_TEXT("Type", "Normal or Warning."),
    TABLE_TEXT("Reason", "Why it happened, in one word."),
    TABLE_TEXT("Object", "The object it is about."),
    TABLE_WIDE("Subobject", "The part of the object it is about."),
    TABLE_WIDE("Source", "Who reported it."),
    TABLE_TEXT("Message", "What happened, for people."),
    TABLE_WIDE("First Seen", "How long ago it happened first."),
    TABLE_WIDE("Count", "How often it happened."),
    {"Name", "string", "name", "The name, unique within kind and namespace.", 1},
};

// An event of either group.
struct event_view {
    const struct api_object_reference *about;
    const struct api_event_source *source;
    struct str type, reason, message, controller, instance;
    const struct api_time *first, *last, *at, *series_last;
    int32_t count, series_count;
};

static void event_target(struct cells *c, const struct event_view *e)
{
    cleanup_sbuf struct sbuf text = {0};
    for (size_t i = 0; i < e->about->kind.n; i++)
        sbuf_addc(&text, (char)tolower((unsigned char)e->about->kind.p[i]));
    if (e->about->name.n) {
        sbuf_addc(&text, '/');
        sbuf_add(&text, e->about->name);
    }
    tables_cell_text(c, sbuf_str(&text));
}

static void tables_core_event_source(struct cells *c, const struct event_view *e)
{
    struct str component = e->source->component.n ? e->source->component : e->controller;
    struct str instance = e->source->host.n ? e->source->host : e->instance;
    if (instance.n)
        tables_cell_text(c,
                         arena_strf(c->arena, "%.*s, %.*s", STR_ARG(component), STR_ARG(instance)));
    else
        tables_cell_text(c, component);
}

static void event_row(struct cells *c, const struct event_view *e)
{
    const struct api_time *first = e->first->set ? e->first : e->at;
    const struct api_time *last = e->last->set ? e->last : first;
    int32_t count = e->series_last ? e->series_count : e->count;
    tables_cell_since(c, e->series_last ? e->series_last : last);
    tables_cell_text(c, e->type);
    tables_cell_text(c, e->reason);
    event_target(c, e);
    tables_cell_text(c, e->about->field_path);
    tables_core_event_source(c, e);
    tables_cell_text(c, str_trim(e->message));
    tables_cell_since(c, first);
    tables_cell_number(c, !e->series_last && count == 0 ? 1 : count);
    tables_cell_name(c);
}

static void event_cells(struct cells *c, const void *value)
{
    const struct api_event *e = value;
    event_row(c, &(struct event_view){
                     .about = &e->involved_object,
                     .source = &e->source,
                     .type = e->type,
                     .reason = e->reason,
                     .message = e->message,
                     .controller = e->reporting_component,
                     .instance = e->reporting_instance,
                     .first = &e->first_timestamp,
                     .last = &e->last_timestamp,
                     .at = &e->event_time,
                     .series_last = e->series ? &e->series->last_observed_time : NULL,
                     .count = e->count,
                     .series_count = e->series ? e->series->count : 0,
                 });
}

static void events_event_cells(struct cells *c, const void *value)
{
    const struct api_events_event *e = value;
    event_row(c, &(struct event_view){
                     .about = &e->regarding,
                     .source = &e->deprecated_source,
                     .type = e->type,
                     .reason = e->reason,
                     .message = e->note,
                     .controller = e->reporting_controller,
                     .instance = e->reporting_instance,
                     .first = &e->deprecated_first_timestamp,
                     .last = &e->deprecated_last_timestamp,
                     .at = &e->event_time,
                     .series_last = e->series ? &e->series->last_observed_time : NULL,
                     .count = e->deprecated_count,
                     .series_count = e->series ? e->series->count : 0,
                 });
}

// --- Services ------------------------------------------------------------------------------------

static const struct table_column service_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Type", "How the service is offered."),
    TABLE_TEXT("Cluster-IP", "Its address inside the cluster."),
    TABLE_TEXT("External-IP", "Its addresses outside the cluster."),
    TABLE_TEXT("Port(s)", "Its ports."),
    TABLE_AGE,
    TABLE_WIDE("Selector", "The pods behind it."),
};

static void balancer_addresses(struct cells *c, const struct api_service *service)
{
    const struct api_load_balancer_ingress_array *ingress = &service->status.load_balancer.ingress;
    cleanup_sbuf struct sbuf text = {0};
    struct str *found = arena_array(c->arena, struct str, ingress->n);
    size_t n = 0;
    for (size_t i = 0; i < ingress->n; i++) {
        struct str address = ingress->p[i].ip.n ? ingress->p[i].ip : ingress->p[i].hostname;
        if (address.n)
            found[n++] = address;
    }
    if (n)
        qsort(found, n, sizeof(*found), str_cmp_elements);
    for (size_t i = 0; i < n; i++) {
        if (i && str_eq(found[i], found[i - 1]))
            continue;
        sbuf_addz(&text, text.n ? "," : "");
        sbuf_add(&text, found[i]);
    }
    for (size_t i = 0; i < service->spec.external_ips.n; i++) {
        sbuf_addz(&text, text.n || i ? "," : "");
        sbuf_add(&text, service->spec.external_ips.p[i]);
    }
    tables_cell_text_or(c, sbuf_str(&text), "<pending>");
}

static void service_addresses(struct cells *c, const struct api_service *service)
{
    struct str type = service->spec.type;
    if (str_eqz(type, "ClusterIP") || str_eqz(type, "NodePort"))
        tables_cell_list(c, &service->spec.external_ips, ",", "<none>");
    else if (str_eqz(type, "LoadBalancer"))
        balancer_addresses(c, service);
    else if (str_eqz(type, "ExternalName"))
        tables_cell_text(c, service->spec.external_name);
    else
        tables_cell_z(c, "<unknown>");
}

static void service_ports(struct cells *c, const struct api_service *service)
{
    cleanup_sbuf struct sbuf text = {0};
    for (size_t i = 0; i < service->spec.ports.n; i++) {
        const struct api_service_port *port = &service->spec.ports.p[i];
        sbuf_addf(&text, "%s%d", i ? "," : "", port->port);
        if (port->node_port > 0)
            sbuf_addf(&text, ":%d", port->node_port);
        sbuf_addf(&text, "/%.*s", STR_ARG(port->protocol));
    }
    tables_cell_text_or(c, sbuf_str(&text), "<none>");
}

static void service_cells(struct cells *c, const void *value)
{
    const struct api_service *service = value;
    struct str address =
        service->spec.cluster_ips.n ? service->spec.cluster_ips.p[0] : service->spec.cluster_ip;
    tables_cell_name(c);
    tables_cell_text(c, service->spec.type);
    tables_cell_text_or(c, address, "<none>");
    service_addresses(c, service);
    service_ports(c, service);
    tables_cell_age(c);
    tables_cell_labels(c, &service->spec.selector);
}

static const struct table_column endpoints_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Endpoints", "The first few addresses."),
    TABLE_AGE,
};

#define ENDPOINTS_SHOWN 3

// subset_addresses adds the addresses of a subset, with one port or none, and counts all.
static size_t subset_addresses(const struct api_endpoint_subset *subset, const int32_t *port,
                               size_t shown, struct sbuf *out)
{
    for (size_t i = 0; i < subset->addresses.n && shown < ENDPOINTS_SHOWN; i++, shown++) {
        struct str ip = subset->addresses.p[i].ip;
        bool brackets = port && str_find_char(ip, ':') >= 0;
        sbuf_addf(out, "%s%s%.*s%s", out->n ? "," : "", brackets ? "[" : "", STR_ARG(ip),
                  brackets ? "]" : "");
        if (port)
            sbuf_addf(out, ":%d", *port);
    }
    return shown;
}

static void endpoints_cells(struct cells *c, const void *value)
{
    const struct api_endpoints *endpoints = value;
    cleanup_sbuf struct sbuf text = {0};
    size_t count = 0, shown = 0;
    for (size_t i = 0; i < endpoints->subsets.n; i++) {
        const struct api_endpoint_subset *subset = &endpoints->subsets.p[i];
        for (size_t p = 0; p < subset->ports.n || (p == 0 && subset->ports.n == 0); p++) {
            const int32_t *port = subset->ports.n ? &subset->ports.p[p].port : NULL;
            count += subset->addresses.n;
            shown = subset_addresses(subset, port, shown, &text);
        }
    }
    if (count > ENDPOINTS_SHOWN)
        sbuf_addf(&text, " + %zu more...", count - ENDPOINTS_SHOWN);
    tables_cell_name(c);
    tables_cell_text(c, endpoints->subsets.n ? sbuf_str(&text) : STR("<none>"));
    tables_cell_age(c);
}

// --- What holds data -----------------------------------------------------------------------------

static const struct table_column config_map_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Data", "How many entries it has."),
    TABLE_AGE,
};

static void config_map_cells(struct cells *c, const void *value)
{
    const struct api_config_map *map = value;
    tables_cell_name(c);
    tables_cell_number(c, (int64_t)(map->data.n + map->binary_data.n));
    tables_cell_age(c);
}

static const struct table_column secret_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Type", "What kind of secret it is."),
    TABLE_TEXT("Data", "How many entries it has."),
    TABLE_AGE,
};

static void secret_cells(struct cells *c, const void *value)
{
    const struct api_secret *secret = value;
    tables_cell_name(c);
    tables_cell_text(c, secret->type);
    tables_cell_number(c, (int64_t)secret->data.n);
    tables_cell_age(c);
}

const struct table_printer table_printers_core[] = {
    TABLE_PRINTER(pod, pod_columns, pod_cells),
    TABLE_PRINTER(pod_template, pod_template_columns, pod_template_cells),
    TABLE_PRINTER(node, node_columns, tables_core_node_cells),
    TABLE_PRINTER(namespace, namespace_columns, namespace_cells),
    TABLE_PRINTER(event, event_columns, event_cells),
    TABLE_PRINTER(events_event, event_columns, events_event_cells),
    TABLE_PRINTER(service, service_columns, service_cells),
    TABLE_PRINTER(endpoints, endpoints_columns, endpoints_cells),
    TABLE_PRINTER(config_map, config_map_columns, config_map_cells),
    TABLE_PRINTER(secret, secret_columns, secret_cells),
};
const size_t table_printers_core_len = array_len(table_printers_core);
