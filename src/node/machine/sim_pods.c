// SPDX-License-Identifier: Apache-2.0
//
// Pods of simulated nodes: a kubelet's part played by patching statuses. A bound pod runs, a
// deleted one stops, and one with a run time succeeds when that is over.
#include <stdlib.h>

#include "cel/text.h"
#include "codec/json_writer.h"
#include "codec/rfc3339.h"
#include "node/machine/sim_int.h"

#include "base/banned.h"

#define RUN_TIME_MAX_NS (30 * 24 * 3600 * CLOCK_NS_PER_SEC)

// --- Run times -----------------------------------------------------------------------------------

static bool sim_pods_is_of_job(const struct api_pod *pod)
{
    for (size_t i = 0; i < pod->metadata.owner_references.n; i++) {
        const struct api_owner_reference *o = &pod->metadata.owner_references.p[i];
        if (o->controller && str_eqz(o->kind, "Job"))
            return true;
    }
    return false;
}

// sim_pods_run_time: how long a pod runs. False: until it is deleted. A pod that is always started
// again never ends; an annotation that is no duration counts as none.
static bool sim_pods_run_time(const struct sim_nodes *s, const struct api_pod *pod, int64_t *ret_ns)
{
    const struct str *declared = api_map_find(&pod->metadata.annotations, STR(POD_RUN_TIME));
    if (str_eqz(pod->spec.restart_policy, "Always"))
        return false;
    if (declared && cel_text_read_duration(str_trim(*declared), ret_ns) && *ret_ns >= 0) {
        *ret_ns = *ret_ns > RUN_TIME_MAX_NS ? RUN_TIME_MAX_NS : *ret_ns;
        return true;
    }
    *ret_ns = s->options.job_run_time_ns;
    return sim_pods_is_of_job(pod) && s->options.job_run_time_ns > 0;
}

static int64_t sim_pods_age_ns(const struct sim_nodes *s, const struct api_pod *pod)
{
    int64_t now_s = exec_wall_ns(s->options.exec) / CLOCK_NS_PER_SEC;
    int64_t began_s = pod->status.start_time.set ? pod->status.start_time.at.sec : now_s;
    int64_t age_s = now_s > began_s ? now_s - began_s : 0;
    return age_s > RUN_TIME_MAX_NS / CLOCK_NS_PER_SEC ? RUN_TIME_MAX_NS : age_s * CLOCK_NS_PER_SEC;
}

// --- Statuses ------------------------------------------------------------------------------------

static void sim_pods_write_condition(struct json_writer *w, struct str type, bool is_true,
                                     bool completed, struct str now)
{
    json_write_object_begin(w);
    json_write_text(w, "type", type);
    json_write_text(w, "status", is_true ? STR("True") : STR("False"));
    if (completed)
        json_write_text(w, "reason", STR("PodCompleted"));
    json_write_text(w, "lastTransitionTime", now);
    json_write_object_end(w);
}

static void sim_pods_write_state(struct json_writer *w, const struct api_pod *pod, bool over,
                                 struct str now)
{
    json_write_object_in(w, "state");
    if (!over) {
        json_write_object_in(w, "running");
        json_write_text(w, "startedAt", now);
    } else {
        cleanup_sbuf struct sbuf began = {0};
        rfc3339_write_seconds(pod->status.start_time.at, &began);
        json_write_key(w, STR("running"));
        json_write_null(w);
        json_write_object_in(w, "terminated");
        json_write_number(w, "exitCode", 0);
        json_write_text(w, "reason", STR("Completed"));
        json_write_text(w, "startedAt", sbuf_str(&began));
        json_write_text(w, "finishedAt", now);
    }
    json_write_object_end(w);
    json_write_object_end(w);
}

static void sim_pods_write_containers(struct json_writer *w, const struct api_pod *pod, bool over,
                                      struct str now)
{
    json_write_array_begin(w);
    for (size_t i = 0; i < pod->spec.containers.n; i++) {
        const struct api_container *c = &pod->spec.containers.p[i];
        json_write_object_begin(w);
        json_write_text(w, "name", c->name);
        json_write_text(w, "image", c->image);
        json_write_text(w, "imageID", STR(""));
        json_write_flag(w, "ready", !over);
        json_write_flag(w, "started", !over);
        json_write_number(w, "restartCount", 0);
        sim_pods_write_state(w, pod, over, now);
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

static void sim_pods_write_conditions(struct json_writer *w, bool over, struct str now)
{
    static const struct {
        struct str type;
        bool holds_after; // of a pod that has succeeded
    } conditions[] = {{STR_INIT("PodReadyToStartContainers"), false},
                      {STR_INIT("Initialized"), true},
                      {STR_INIT("ContainersReady"), false},
                      {STR_INIT("Ready"), false}};
    json_write_array_in(w, "conditions");
    for (size_t i = 0; i < array_len(conditions); i++)
        sim_pods_write_condition(w, conditions[i].type, !over || conditions[i].holds_after,
                                 over && i > 0, now);
    json_write_array_end(w);
}

static void sim_pods_write_status(struct json_writer *w, const struct api_pod *pod, bool over,
                                  struct str now)
{
    json_write_object_in(w, "status");
    json_write_text(w, "phase", over ? STR("Succeeded") : STR("Running"));
    if (!over)
        json_write_text(w, "startTime", now);
    sim_pods_write_conditions(w, over, now);
    json_write_key(w, STR("containerStatuses"));
    sim_pods_write_containers(w, pod, over, now);
    json_write_object_end(w);
}

// sim_pods_patch makes a pod run, or end: over.
static void sim_pods_patch(struct sim_nodes *s, struct str key, const struct typed_object *o,
                           bool over)
{
    cleanup_sbuf struct sbuf body = {0}, now = {0};
    struct json_writer w = {.out = &body};
    rfc3339_write_seconds((struct moment){.sec = exec_wall_ns(s->options.exec) / CLOCK_NS_PER_SEC},
                          &now);
    json_write_object_begin(&w);
    json_write_object_in(&w, "metadata");
    json_write_text(&w, "uid", o->meta->uid);
    json_write_text(&w, "resourceVersion", o->meta->resource_version); // nothing newer is undone
    json_write_object_end(&w);
    sim_pods_write_status(&w, o->object.value, over, sbuf_str(&now));
    json_write_object_end(&w);
    const struct client_key at = {o->object.kind, o->meta->namespace, o->meta->name};
    const struct client_write how = {.subresource = STR("status")};
    client_patch(s->options.client, &at, CLIENT_PATCH_STRATEGIC, sbuf_str(&body), &how,
                 sim_on_step_done, sim_step_call(s, s->pod_work, key));
}

static void sim_pods_stop(struct sim_nodes *s, struct str key, const struct typed_object *o)
{
    const struct client_key at = {o->object.kind, o->meta->namespace, o->meta->name};
    struct api_preconditions same = {.uid = o->meta->uid, .has_uid = true};
    const struct api_delete_options now = {
        .preconditions = &same, .grace_period_seconds = 0, .has_grace_period_seconds = true};
    client_delete(s->options.client, &at, &now, sim_on_step_done,
                  sim_step_call(s, s->pod_work, key));
}

// --- Steps ---------------------------------------------------------------------------------------

static void sim_pods_end_in_time(struct sim_nodes *s, struct str key, const struct typed_object *o)
{
    const struct api_pod *pod = o->object.value;
    int64_t runs_ns = 0;
    if (!sim_pods_run_time(s, pod, &runs_ns)) {
        work_done(s->pod_work, key);
        return;
    }
    int64_t left_ns = runs_ns - sim_pods_age_ns(s, pod);
    if (left_ns <= 0)
        sim_pods_patch(s, key, o, true);
    else
        work_again(s->pod_work, key, left_ns);
}

static void sim_pods_step(void *arg, struct str key)
{
    struct sim_nodes *s = arg;
    struct str namespace, name;
    str_cut(key, '/', &namespace, &name);
    const struct typed_object *o = informer_get(s->pods, namespace, name);
    const struct api_pod *pod = o ? o->object.value : NULL;
    if (!pod || !sim_is_simulated(s, pod->spec.node_name))
        work_done(s->pod_work, key);
    else if (pod->metadata.deletion_timestamp.set)
        sim_pods_stop(s, key, o);
    else if (str_eqz(pod->status.phase, "Pending"))
        sim_pods_patch(s, key, o, false);
    else if (str_eqz(pod->status.phase, "Running"))
        sim_pods_end_in_time(s, key, o);
    else
        work_done(s->pod_work, key);
}

static void sim_pods_on_changed(void *arg, const struct typed_object *before,
                                const struct typed_object *after)
{
    struct sim_nodes *s = arg;
    cleanup_sbuf struct sbuf key = {0};
    (void)before;
    if (!after || ((const struct api_pod *)after->object.value)->spec.node_name.n == 0)
        return;
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(after->meta->namespace), STR_ARG(after->meta->name));
    work_add(s->pod_work, sbuf_str(&key));
}

static void sim_pods_on_progress(void *arg, uint64_t revision)
{
    struct sim_nodes *s = arg;
    work_seen(s->pod_work, 0, revision);
}

void sim_pods_new(struct sim_nodes *s)
{
    const struct informer_options o = {.client = s->options.client,
                                       .kind = sim_kind_of("v1", "Pod")};
    const struct informer_handler h = {
        .changed = sim_pods_on_changed, .progress = sim_pods_on_progress, .arg = s};
    s->pod_work = work_new(s->options.exec, NULL, sim_pods_step, s);
    s->pods = informer_new(&o);
    informer_add_handler(s->pods, &h);
}
