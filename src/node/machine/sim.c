// SPDX-License-Identifier: Apache-2.0
//
// Simulated nodes: creates classes, nodes and slices from profiles with bounded concurrency.
// sim_pods.c runs their pods, sim_attach.c attaches their network devices.
#include "node/sim.h"

#include <stdlib.h>

#include "api/match/node.h"
#include "api/match/taint.h"
#include "node/machine/sim_int.h"

#include "base/banned.h"

// Writes under way at once while everything is made.
enum { WRITES_MAX = 128 };

// --- Calls ---------------------------------------------------------------------------------------

struct sim_call *sim_call_new(struct sim_nodes *s)
{
    struct sim_call *c = xcalloc(1, sizeof(*c));
    c->owner = s;
    list_push_back(&s->calls, &c->node);
    return c;
}

struct sim_nodes *sim_call_take(struct sim_call *c)
{
    struct sim_nodes *s = list_linked(&c->node) ? c->owner : NULL;
    list_remove(&c->node);
    return s;
}

struct sim_call *sim_step_call(struct sim_nodes *s, struct work *work, struct str key)
{
    struct sim_call *c = sim_call_new(s);
    c->work = work;
    c->key = xstrndup(key.p, key.n);
    return c;
}

void sim_on_step_done(void *arg, const struct client_answer *a)
{
    struct sim_call *c = arg;
    struct sim_nodes *s = sim_call_take(c);
    if (s && a->code == 0 && a->object)
        work_after(c->work, str_z(c->key), 0, a->object->revision);
    else if (s && (a->code == 0 || a->code == -ERR_NOT_FOUND))
        work_done(c->work, str_z(c->key));
    else if (s)
        work_retry(c->work, str_z(c->key));
    free(c->key);
    free(c);
}

// --- Object creation -----------------------------------------------------------------------------

static void sim_create_more(struct sim_nodes *s);

static void sim_count_created(struct sim_nodes *s)
{
    s->under_way--;
    s->left--;
    if (s->left == 0 && !s->reported) {
        s->reported = true;
        if (s->options.ready)
            s->options.ready(s->options.arg, s->failed ? &s->first_error : NULL);
        return;
    }
    sim_create_more(s);
}

static void sim_on_created(void *arg, const struct client_answer *a)
{
    struct sim_call *c = arg;
    struct sim_nodes *s = sim_call_take(c);
    free(c);
    if (!s)
        return;
    if (a->code != 0 && a->code != -ERR_ALREADY_EXISTS && !s->failed) {
        s->failed = true;
        s->first_error = *a->err;
    }
    sim_count_created(s);
}

// sim_own_slices makes the slices of a node its own, now that it has a UID.
static void sim_own_slices(struct sim_nodes *s, size_t node_index, struct str uid)
{
    const struct api_node *node = s->objects.p[node_index].value;
    for (size_t i = node_index + 1; i < s->objects.n; i++) {
        if (!str_eq(s->objects.p[i].kind->kind, STR("ResourceSlice")))
            break;
        struct api_resource_slice *slice = s->objects.p[i].value;
        struct api_owner_reference *owner = arena_one(&s->arena, struct api_owner_reference);
        *owner = (struct api_owner_reference){.api_version = STR("v1"),
                                              .kind = STR("Node"),
                                              .name = node->metadata.name,
                                              .uid = arena_str(&s->arena, uid),
                                              .controller = true,
                                              .has_controller = true};
        slice->metadata.owner_references = (struct api_owner_reference_array){owner, 1};
    }
}

static void sim_create_object(struct sim_nodes *s, size_t index)
{
    struct sim_call *c = sim_call_new(s);
    c->index = index;
    s->under_way++;
    client_create(s->options.client, &s->objects.p[index], NULL, sim_on_created, c);
}

// The slices behind a node are made when the node is there.
static void create_slices_of(struct sim_nodes *s, size_t node_index)
{
    for (size_t i = node_index + 1; i < s->objects.n; i++) {
        if (!str_eq(s->objects.p[i].kind->kind, STR("ResourceSlice")))
            break;
        sim_create_object(s, i);
    }
}

static void sim_on_node_found(void *arg, const struct client_answer *a)
{
    struct sim_call *c = arg;
    size_t index = c->index;
    struct sim_nodes *s = list_linked(&c->node) ? c->owner : NULL;
    if (s && a->code == -ERR_ALREADY_EXISTS) {
        const struct api_node *node = s->objects.p[index].value;
        const struct client_key at = {s->objects.p[index].kind, STR(""), node->metadata.name};
        client_get(s->options.client, &at, sim_on_node_found, c);
        return;
    }
    (void)sim_call_take(c);
    free(c);
    if (!s)
        return;
    if (a->code == 0 && a->object)
        sim_own_slices(s, index, a->object->meta->uid);
    else if (!s->failed) {
        s->failed = true;
        s->first_error = *a->err;
    }
    create_slices_of(s, index);
    sim_count_created(s);
}

static void sim_create_more(struct sim_nodes *s)
{
    while (s->next < s->objects.n && s->under_way < WRITES_MAX) {
        size_t i = s->next++;
        if (str_eq(s->objects.p[i].kind->kind, STR("ResourceSlice")) &&
            ((const struct api_resource_slice *)s->objects.p[i].value)->spec.has_node_name)
            continue; // made with its node
        if (str_eq(s->objects.p[i].kind->kind, STR("Node"))) {
            struct sim_call *c = sim_call_new(s);
            c->index = i;
            s->under_way++;
            client_create(s->options.client, &s->objects.p[i], NULL, sim_on_node_found, c);
        } else {
            sim_create_object(s, i);
        }
    }
}

// --- Objects of the profiles ---------------------------------------------------------------------

const struct api_kind *sim_kind_of(const char *api_version, const char *kind)
{
    return api_kind_find(str_z(api_version), str_z(kind));
}

static void sim_add_object(struct sim_nodes *s, const struct api_kind *kind, void *value)
{
    vec_push(&s->objects, ((struct api_object){kind, value}));
}

// People must not mistake a simulated node for a machine: label, role and taint tell. The taint is
// a preference only, so manifests run unmodified, and on machines where there are some.
static void sim_mark_node(struct sim_nodes *s, struct api_node *node, struct str profile)
{
    struct api_str_map *labels = &node->metadata.labels;
    struct api_taint_array *taints = &node->spec.taints;
    struct api_taint *all = arena_array(&s->arena, struct api_taint, taints->n + 1);
    for (size_t i = 0; i < taints->n; i++)
        all[i] = taints->p[i];
    all[taints->n] =
        (struct api_taint){.key = STR(NODE_SIMULATED), .effect = STR(TAINT_PREFER_NO_SCHEDULE)};
    *taints = (struct api_taint_array){all, taints->n + 1};
    api_map_set(labels, &s->arena, STR("kubernetes.io/hostname"), node->metadata.name);
    api_map_set(labels, &s->arena, STR("node-role.kubernetes.io/simulated"), STR(""));
    api_map_set(labels, &s->arena, STR(NODE_SIMULATED), STR("true"));
    api_map_set(labels, &s->arena, STR(NODE_PROFILE), profile);
}

static void sim_make_node_ready(struct sim_nodes *s, struct api_node *node)
{
    struct api_node_condition *c = arena_one(&s->arena, struct api_node_condition);
    int64_t now = exec_wall_ns(s->options.exec) / CLOCK_NS_PER_SEC;
    *c = (struct api_node_condition){
        .type = STR("Ready"),
        .status = STR("True"),
        .reason = STR("KubeletReady"),
        .message = STR("simulated node"),
        .last_heartbeat_time = {.at = {.sec = now}, .set = true},
        .last_transition_time = {.at = {.sec = now}, .set = true},
    };
    node->status.conditions = (struct api_node_condition_array){c, 1};
}

static void add_slices(struct sim_nodes *s, const struct profile_objects *o)
{
    for (size_t i = 0; i < o->slices_len; i++) {
        sim_add_object(s, sim_kind_of("resource.k8s.io/v1", "ResourceSlice"), o->slices[i]);
        s->stats.slices++;
        s->stats.devices += o->slices[i]->spec.devices.n;
        for (size_t k = 0; k < o->slices[i]->spec.devices.n; k++)
            s->attaches |= o->slices[i]->spec.devices.p[k].binding_conditions.n > 0;
    }
}

static int sim_gather_objects(struct sim_nodes *s, struct err *err)
{
    const struct sim_options *o = &s->options;
    for (size_t p = 0; p < o->profiles_len; p++) {
        struct profile_objects shared;
        int r = profile_shared(o->profiles[p], &s->arena, &shared, err);
        if (r != 0)
            return r;
        for (size_t i = 0; i < shared.classes_len; i++)
            sim_add_object(s, sim_kind_of("resource.k8s.io/v1", "DeviceClass"), shared.classes[i]);
        s->stats.classes += shared.classes_len;
        add_slices(s, &shared);
    }
    for (size_t p = 0; p < o->profiles_len; p++) {
        struct str name = profile_name(o->profiles[p]);
        for (size_t n = 0; n < o->nodes; n++) {
            struct profile_objects made_of;
            struct str node = arena_strf(&s->arena, "%.*s-%0*zu", STR_ARG(name),
                                         (int)(o->min_digits ? o->min_digits : 1), n);
            int r = profile_node(o->profiles[p], node, n, &s->arena, &made_of, err);
            if (r != 0)
                return r;
            sim_make_node_ready(s, made_of.node);
            sim_mark_node(s, made_of.node, name);
            sim_add_object(s, sim_kind_of("v1", "Node"), made_of.node);
            s->stats.nodes++;
            add_slices(s, &made_of);
        }
    }
    return 0;
}

// --- What is simulated ---------------------------------------------------------------------------

bool sim_is_simulated(const struct sim_nodes *s, struct str node)
{
    for (size_t p = 0; p < s->options.profiles_len; p++) {
        struct str name = profile_name(s->options.profiles[p]);
        if (str_starts(node, name) && node.n > name.n && node.p[name.n] == '-')
            return true;
    }
    return false;
}

bool sim_has_driver(const struct sim_nodes *s, struct str driver)
{
    for (size_t i = 0; i < s->objects.n; i++) {
        const struct api_object *o = &s->objects.p[i];
        if (str_eqz(o->kind->kind, "ResourceSlice") &&
            str_eq(((const struct api_resource_slice *)o->value)->spec.driver, driver))
            return true;
    }
    return false;
}

// --- Lifecycle -----------------------------------------------------------------------------------

static void sim_report_ready(void *arg)
{
    struct sim_nodes *s = arg;
    if (s->options.ready)
        s->options.ready(s->options.arg, NULL);
}

struct sim_nodes *sim_nodes_new(const struct sim_options *options)
{
    struct sim_nodes *s = xcalloc(1, sizeof(*s));
    s->options = *options;
    s->ready = (struct exec_timer){.fn = sim_report_ready, .arg = s};
    list_init(&s->calls);
    sim_pods_new(s);
    sim_attach_new(s);
    return s;
}

int sim_nodes_start(struct sim_nodes *s, struct err *err)
{
    int r = sim_gather_objects(s, err);
    if (r != 0)
        return r;
    s->left = s->objects.n;
    informer_start(s->pods);
    if (s->attaches)
        informer_start(s->claims);
    if (s->left == 0) {
        s->reported = true;
        exec_timer_start(s->options.exec, &s->ready, 0);
    }
    sim_create_more(s);
    return 0;
}

void sim_nodes_free(struct sim_nodes *s)
{
    if (!s)
        return;
    while (list_pop_front(&s->calls))
        ;
    exec_timer_stop(s->options.exec, &s->ready);
    work_free(s->pod_work);
    work_free(s->claim_work);
    informer_free(s->pods);
    informer_free(s->claims);
    arena_done(&s->arena);
    vec_done(&s->objects);
    free(s);
}

void sim_nodes_stats(const struct sim_nodes *s, struct sim_stats *ret)
{
    *ret = s->stats;
}
