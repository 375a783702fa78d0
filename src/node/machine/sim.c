// SPDX-License-Identifier: Apache-2.0
//
// Simulated nodes: creates classes, nodes and slices from profiles with bounded concurrency, then
// plays kubelet for their pods by patching statuses.
#include "node/sim.h"

#include <stdlib.h>

#include "base/list.h"
#include "base/vec.h"
#include "client/informer.h"
#include "client/work.h"
#include "codec/json_writer.h"
#include "codec/rfc3339.h"

#include "base/banned.h"

// Writes under way at once while everything is made.
enum { WRITES_MAX = 128 };

enum { SOURCE_PODS };

struct object_list VEC(struct api_object);

struct sim_nodes {
    struct sim_options options;
    struct arena arena; // of all objects, until they are made
    struct informer *pods;
    struct work *work;
    struct list calls;
    struct object_list objects; // classes, then for each node the Node and its slices
    size_t next;
    size_t under_way;
    size_t left;
    struct sim_stats stats;
    struct exec_timer ready; // calls options.ready when there is nothing to create
    struct err first_error;
    bool failed;
    bool reported;
};

// A write of an object, or a step for a pod; the owner may be gone when it ends.
struct sim_call {
    struct list_node node;
    struct sim_nodes *owner;
    size_t index; // in objects
    char *key;    // of a pod
};

static struct sim_call *sim_call_new(struct sim_nodes *s)
{
    struct sim_call *c = xcalloc(1, sizeof(*c));
    c->owner = s;
    list_push_back(&s->calls, &c->node);
    return c;
}

// sim_call_take ends a call; the owner, or NULL when it is gone.
static struct sim_nodes *sim_call_take(struct sim_call *c)
{
    struct sim_nodes *s = list_linked(&c->node) ? c->owner : NULL;
    list_remove(&c->node);
    return s;
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

static const struct api_kind *sim_kind_of(const char *api_version, const char *kind)
{
    return api_kind_find(str_z(api_version), str_z(kind));
}

static void sim_add_object(struct sim_nodes *s, const struct api_kind *kind, void *value)
{
    vec_push(&s->objects, ((struct api_object){kind, value}));
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
    struct api_str_map *labels = &node->metadata.labels;
    struct api_str_entry *all = arena_array(&s->arena, struct api_str_entry, labels->n + 1);
    struct str host = STR("kubernetes.io/hostname");
    size_t n = 0;
    bool placed = false;
    for (size_t i = 0; i < labels->n; i++) {
        int order = str_cmp(labels->p[i].key, host);
        if (order >= 0 && !placed) {
            all[n++] = (struct api_str_entry){host, node->metadata.name};
            placed = true;
        }
        if (order != 0)
            all[n++] = labels->p[i];
    }
    if (!placed)
        all[n++] = (struct api_str_entry){host, node->metadata.name};
    *labels = (struct api_str_map){all, n};
}

static void add_slices(struct sim_nodes *s, const struct profile_objects *o)
{
    for (size_t i = 0; i < o->slices_len; i++) {
        sim_add_object(s, sim_kind_of("resource.k8s.io/v1", "ResourceSlice"), o->slices[i]);
        s->stats.slices++;
        s->stats.devices += o->slices[i]->spec.devices.n;
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
            sim_add_object(s, sim_kind_of("v1", "Node"), made_of.node);
            s->stats.nodes++;
            add_slices(s, &made_of);
        }
    }
    return 0;
}

// --- Pods ----------------------------------------------------------------------------------------

static bool is_simulated(const struct sim_nodes *s, struct str node)
{
    for (size_t p = 0; p < s->options.profiles_len; p++) {
        struct str name = profile_name(s->options.profiles[p]);
        if (str_starts(node, name) && node.n > name.n && node.p[name.n] == '-')
            return true;
    }
    return false;
}

static void sim_on_step_done(void *arg, const struct client_answer *a)
{
    struct sim_call *c = arg;
    struct sim_nodes *s = sim_call_take(c);
    if (s && a->code == 0 && a->object)
        work_after(s->work, str_z(c->key), SOURCE_PODS, a->object->revision);
    else if (s && (a->code == 0 || a->code == -ERR_NOT_FOUND))
        work_done(s->work, str_z(c->key));
    else if (s)
        work_retry(s->work, str_z(c->key));
    free(c->key);
    free(c);
}

static struct sim_call *pod_call(struct sim_nodes *s, struct str key)
{
    struct sim_call *c = sim_call_new(s);
    c->key = xstrndup(key.p, key.n);
    return c;
}

static void sim_write_condition(struct json_writer *w, struct str type, struct str now)
{
    json_write_object_begin(w);
    json_write_text(w, "type", type);
    json_write_text(w, "status", STR("True"));
    json_write_text(w, "lastTransitionTime", now);
    json_write_object_end(w);
}

static void sim_write_containers(struct json_writer *w, const struct api_pod *pod, struct str now)
{
    json_write_array_begin(w);
    for (size_t i = 0; i < pod->spec.containers.n; i++) {
        const struct api_container *c = &pod->spec.containers.p[i];
        json_write_object_begin(w);
        json_write_text(w, "name", c->name);
        json_write_text(w, "image", c->image);
        json_write_text(w, "imageID", STR(""));
        json_write_flag(w, "ready", true);
        json_write_flag(w, "started", true);
        json_write_number(w, "restartCount", 0);
        json_write_object_in(w, "state");
        json_write_object_in(w, "running");
        json_write_text(w, "startedAt", now);
        json_write_object_end(w);
        json_write_object_end(w);
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

static void run_pod(struct sim_nodes *s, struct str key, const struct typed_object *o)
{
    static const struct str conditions[] = {STR_INIT("PodReadyToStartContainers"),
                                            STR_INIT("Initialized"), STR_INIT("ContainersReady"),
                                            STR_INIT("Ready")};
    struct sbuf body = {0};
    struct sbuf now = {0};
    struct json_writer w = {.out = &body};
    rfc3339_write_seconds((struct moment){.sec = exec_wall_ns(s->options.exec) / CLOCK_NS_PER_SEC},
                          &now);
    json_write_object_begin(&w);
    json_write_object_in(&w, "metadata");
    json_write_text(&w, "uid", o->meta->uid);
    json_write_text(&w, "resourceVersion", o->meta->resource_version); // nothing newer is undone
    json_write_object_end(&w);
    json_write_object_in(&w, "status");
    json_write_text(&w, "phase", STR("Running"));
    json_write_text(&w, "startTime", sbuf_str(&now));
    json_write_array_in(&w, "conditions");
    for (size_t i = 0; i < array_len(conditions); i++)
        sim_write_condition(&w, conditions[i], sbuf_str(&now));
    json_write_array_end(&w);
    json_write_key(&w, STR("containerStatuses"));
    sim_write_containers(&w, o->object.value, sbuf_str(&now));
    json_write_object_end(&w);
    json_write_object_end(&w);
    const struct client_key at = {o->object.kind, o->meta->namespace, o->meta->name};
    const struct client_write how = {.subresource = STR("status")};
    client_patch(s->options.client, &at, CLIENT_PATCH_STRATEGIC, sbuf_str(&body), &how,
                 sim_on_step_done, pod_call(s, key));
    sbuf_done(&now);
    sbuf_done(&body);
}

static void stop_pod(struct sim_nodes *s, struct str key, const struct typed_object *o)
{
    const struct client_key at = {o->object.kind, o->meta->namespace, o->meta->name};
    struct api_preconditions same = {.uid = o->meta->uid, .has_uid = true};
    const struct api_delete_options now = {
        .preconditions = &same, .grace_period_seconds = 0, .has_grace_period_seconds = true};
    client_delete(s->options.client, &at, &now, sim_on_step_done, pod_call(s, key));
}

static void sim_step_pod(void *arg, struct str key)
{
    struct sim_nodes *s = arg;
    struct str namespace;
    struct str name;
    str_cut(key, '/', &namespace, &name);
    const struct typed_object *o = informer_get(s->pods, namespace, name);
    const struct api_pod *pod = o ? o->object.value : NULL;
    if (!pod || !is_simulated(s, pod->spec.node_name))
        work_done(s->work, key);
    else if (pod->metadata.deletion_timestamp.set)
        stop_pod(s, key, o);
    else if (str_eq(pod->status.phase, STR("Pending")))
        run_pod(s, key, o);
    else
        work_done(s->work, key);
}

static void sim_on_pod_changed(void *arg, const struct typed_object *before,
                               const struct typed_object *after)
{
    struct sim_nodes *s = arg;
    (void)before;
    if (!after || ((const struct api_pod *)after->object.value)->spec.node_name.n == 0)
        return;
    struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(after->meta->namespace), STR_ARG(after->meta->name));
    work_add(s->work, sbuf_str(&key));
    sbuf_done(&key);
}

static void pods_progress(void *arg, uint64_t revision)
{
    struct sim_nodes *s = arg;
    work_seen(s->work, SOURCE_PODS, revision);
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
    s->work = work_new(options->exec, NULL, sim_step_pod, s);
    const struct informer_options o = {.client = options->client, .kind = sim_kind_of("v1", "Pod")};
    s->pods = informer_new(&o);
    const struct informer_handler h = {
        .changed = sim_on_pod_changed, .progress = pods_progress, .arg = s};
    informer_add_handler(s->pods, &h);
    return s;
}

int sim_nodes_start(struct sim_nodes *s, struct err *err)
{
    int r = sim_gather_objects(s, err);
    if (r != 0)
        return r;
    s->left = s->objects.n;
    informer_start(s->pods);
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
    work_free(s->work);
    informer_free(s->pods);
    arena_done(&s->arena);
    vec_done(&s->objects);
    free(s);
}

void sim_nodes_stats(const struct sim_nodes *s, struct sim_stats *ret)
{
    *ret = s->stats;
}
