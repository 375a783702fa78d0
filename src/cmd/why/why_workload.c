// SPDX-License-Identifier: Apache-2.0
//
// Why a workload does not run: the first of its pods that does not, or why it has no pods.
#include "cmd/objects/objects.h"
#include "cmd/why/why_fix.h"
#include "cmd/why/why_object.h"
#include "codec/json_writer.h"

#include "base/banned.h"

struct workload {
    struct why_source *s;
    const struct why_kind *kind;
    struct str namespace, name;
    struct json_doc object, pods, owners, events;
    size_t found, good;
    struct str bad; // the first pod that does not run
    struct sbuf answer;
};

static int workload_read(struct workload *w, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0}, pods = {0}, sets = {0}, events = {0};
    why_kind_add_path(&path, w->kind, w->namespace, w->name);
    int r = why_source_get(w->s, path.p, &w->object, err);
    if (r < 0)
        return r;
    sbuf_addf(&pods, "/api/v1/namespaces/%.*s/pods", STR_ARG(w->namespace));
    r = why_source_get(w->s, pods.p, &w->pods, err);
    sbuf_addf(&sets, "/apis/apps/v1/namespaces/%.*s/replicasets", STR_ARG(w->namespace));
    if (r == 0 && strcmp(w->kind->kind, "Deployment") == 0)
        r = why_source_get(w->s, sets.p, &w->owners, err);
    sbuf_addf(&events, "/api/v1/namespaces/%.*s/events", STR_ARG(w->namespace));
    if (r == 0)
        (void)!why_source_get(w->s, events.p, &w->events, NULL);
    return r;
}

static bool is_owned_by(const yyjson_val *object, struct str uid)
{
    const yyjson_val *all = objects_list(object, "metadata.ownerReferences");
    if (all)
        json_arr_foreach(all, o)
            if (str_eq(json_get_str(o, "uid"), uid))
                return true;
    return false;
}

static bool workload_has_pod(const struct workload *w, const yyjson_val *pod)
{
    struct str uid = objects_text(w->object.root, "metadata.uid");
    const yyjson_val *sets = objects_list(w->owners.root, "items");
    if (is_owned_by(pod, uid))
        return true;
    if (sets)
        json_arr_foreach(sets, s)
            if (is_owned_by(s, uid) && is_owned_by(pod, objects_text(s, "metadata.uid")))
                return true;
    return false;
}

static bool pod_is_good(const yyjson_val *pod)
{
    const yyjson_val *conditions = objects_list(pod, "status.conditions");
    struct str phase = objects_text(pod, "status.phase");
    if (str_eqz(phase, "Succeeded"))
        return true;
    if (!str_eqz(phase, "Running") || objects_text(pod, "metadata.deletionTimestamp").n)
        return false;
    if (conditions)
        json_arr_foreach(conditions, c)
            if (str_eqz(json_get_str(c, "type"), "Ready"))
                return str_eqz(json_get_str(c, "status"), "True");
    return true;
}

static void workload_look_at_pods(struct workload *w)
{
    const yyjson_val *items = objects_list(w->pods.root, "items");
    struct str ending = {0};
    if (!items)
        return;
    json_arr_foreach(items, p) {
        if (!workload_has_pod(w, p))
            continue;
        bool good = pod_is_good(p);
        struct str name = objects_text(p, "metadata.name");
        w->found++;
        w->good += good;
        if (!good && objects_text(p, "metadata.deletionTimestamp").n)
            ending = ending.n ? ending : name;
        else if (!good && !w->bad.n)
            w->bad = name;
    }
    w->bad = w->bad.n ? w->bad : ending;
}

static int64_t workload_number(const struct workload *w, const char *path)
{
    const yyjson_val *v = objects_at(w->object.root, path);
    int64_t n = 0;
    if (v)
        (void)!json_to_i64(v, &n, NULL);
    return n;
}

static int64_t workload_wants(const struct workload *w)
{
    if (strcmp(w->kind->kind, "Job") == 0)
        return objects_at(w->object.root, "spec.completions")
                   ? workload_number(w, "spec.completions")
                   : 1;
    if (strcmp(w->kind->kind, "DaemonSet") == 0)
        return workload_number(w, "status.desiredNumberScheduled");
    return objects_at(w->object.root, "spec.replicas") ? workload_number(w, "spec.replicas") : 1;
}

// --- Causes of its own ---------------------------------------------------------------------------

// The newest event of a controller that could not create a pod.
static struct str workload_event(const struct workload *w)
{
    const yyjson_val *items = objects_list(w->events.root, "items");
    struct str message = {0}, newest = {0};
    struct str uid = objects_text(w->object.root, "metadata.uid");
    const yyjson_val *sets = objects_list(w->owners.root, "items");
    if (items)
        json_arr_foreach(items, e) {
            struct str about = objects_text(e, "involvedObject.uid");
            bool own = str_eq(about, uid);
            if (sets && !own)
                json_arr_foreach(sets, s)
                    own |= is_owned_by(s, uid) && str_eq(objects_text(s, "metadata.uid"), about);
            struct str at = json_get_str(e, "lastTimestamp");
            if (!own || !str_eqz(json_get_str(e, "reason"), "FailedCreate") ||
                str_cmp(at, newest) < 0)
                continue;
            newest = at;
            message = json_get_str(e, "message");
        }
    return message;
}

static struct str workload_failure(const struct workload *w)
{
    const yyjson_val *all = objects_list(w->object.root, "status.conditions");
    if (all)
        json_arr_foreach(all, c)
            if ((str_eqz(json_get_str(c, "type"), "Failed") ||
                 str_eqz(json_get_str(c, "type"), "ReplicaFailure")) &&
                str_eqz(json_get_str(c, "status"), "True"))
                return json_get_str(c, "message");
    return (struct str){0};
}

static bool workload_flag(const struct workload *w, const char *path)
{
    bool on = false;
    const yyjson_val *v = objects_at(w->object.root, path);
    if (v)
        (void)!json_to_bool(v, &on, NULL);
    return on;
}

static void write_fix(struct workload *w, struct json_writer *out, const char *patch,
                      const char *text)
{
    json_write_object_begin(out);
    json_write_number(out, "fix", 1);
    json_write_text(out, "by", STR("owner"));
    json_write_flag(out, "verified", false);
    json_write_flag(out, "executable", patch != NULL);
    json_write_array_in(out, "changes");
    json_write_object_begin(out);
    json_write_text(out, "kind", STR("workload"));
    json_write_text(out, "action", patch ? STR("patch") : STR("manual"));
    json_write_text(out, "text", str_z(text));
    json_write_object_in(out, "object");
    json_write_text(out, "kind", str_z(w->kind->kind));
    json_write_text(out, "namespace", w->namespace);
    json_write_text(out, "name", w->name);
    json_write_object_end(out);
    if (patch) {
        json_write_key(out, STR("patch"));
        json_write_raw(out, str_z(patch));
    }
    json_write_object_end(out);
    json_write_array_end(out);
    json_write_object_end(out);
}

// Writes cause and remedies that are the workload's own. False: there are none.
static bool write_own_cause(struct workload *w, struct json_writer *out)
{
    struct str event = workload_event(w), failure = workload_failure(w);
    const char *patch = NULL, *text = NULL;
    cleanup_sbuf struct sbuf cause = {0};
    if (workload_flag(w, "spec.suspend")) {
        sbuf_addz(&cause, "it is suspended");
        patch = "[{\"op\":\"replace\",\"path\":\"/spec/suspend\",\"value\":false}]";
        text = "let it run: spec.suspend false";
    } else if (w->found == 0 && workload_wants(w) == 0 &&
               objects_at(w->object.root, "spec.replicas")) {
        sbuf_addz(&cause, "it is scaled to 0 replicas");
        patch = "[{\"op\":\"replace\",\"path\":\"/spec/replicas\",\"value\":1}]";
        text = "let it have a pod: spec.replicas 1";
    } else if (w->found == 0 && workload_flag(w, "spec.paused")) {
        sbuf_addz(&cause, "it is paused");
        patch = "[{\"op\":\"replace\",\"path\":\"/spec/paused\",\"value\":false}]";
        text = "let it go on: spec.paused false";
    } else if (!w->bad.n && event.n && (int64_t)w->found < workload_wants(w)) {
        sbuf_addf(&cause, "its pods cannot be created: %.*s", STR_ARG(event));
        text = str_contains(event, STR("exceeded quota"))
                   ? "raise the quota, or delete pods that count: kubectl describe resourcequota"
                   : "change what is refused: the pods are tried again by themselves";
    } else if (failure.n) {
        sbuf_addf(&cause, "it has failed: %.*s", STR_ARG(failure));
    }
    if (!cause.n)
        return false;
    json_write_text(out, "cause", sbuf_str(&cause));
    json_write_array_in(out, "remedies");
    if (text)
        write_fix(w, out, patch, text);
    json_write_array_end(out);
    return true;
}

// --- All -----------------------------------------------------------------------------------------

static bool workload_is_done(const struct workload *w)
{
    int64_t wants = workload_wants(w);
    if (strcmp(w->kind->kind, "Job") == 0)
        return workload_number(w, "status.succeeded") >= wants || (w->good == w->found && w->found);
    return (int64_t)w->good >= wants && wants > 0;
}

static int workload_add_pod(struct workload *w, struct json_writer *out, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    cleanup_sbuf struct sbuf cause = {0};
    int r = why_cluster_explain(w->s, STR("Pod"), w->namespace, w->bad, &w->answer, err);
    if (r == 0)
        r = json_parse(sbuf_str(&w->answer), NULL, &doc, err);
    if (r < 0)
        return r;
    struct str own = json_get_str(doc.root, "cause");
    sbuf_addf(&cause, "%zu of %lld pods run; pod %.*s %s: %.*s", w->good,
              (long long)workload_wants(w), STR_ARG(w->bad),
              json_get_str(doc.root, "node").n ? "does not run" : "waits",
              STR_ARG(own.n ? own : STR("its node is starting it")));
    json_write_text(out, "cause", sbuf_str(&cause));
    static const char *const taken[] = {"remedies", "advice", "urgentAdvice", "lastEvent", "now"};
    for (size_t i = 0; i < array_len(taken); i++) {
        const yyjson_val *v = json_get(doc.root, str_z(taken[i]));
        if (!v)
            continue;
        json_write_key(out, str_z(taken[i]));
        json_write_value(out, v);
    }
    json_write_array_in(out, "stuckPods");
    const yyjson_val *items = objects_list(w->pods.root, "items");
    if (items)
        json_arr_foreach(items, p)
            if (workload_has_pod(w, p) && !pod_is_good(p))
                json_write_str(out, objects_text(p, "metadata.name"));
    json_write_array_end(out);
    return 0;
}

static int workload_write(struct workload *w, struct sbuf *out, struct err *err)
{
    struct json_writer j = {.out = out};
    cleanup_sbuf struct sbuf key = {0};
    int r = 0;
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(w->namespace), STR_ARG(w->name));
    json_write_object_begin(&j);
    json_write_text(&j, "kind", str_z(w->kind->kind));
    json_write_text(&j, "name", sbuf_str(&key));
    json_write_number(&j, "wants", workload_wants(w));
    json_write_number(&j, "pods", (int64_t)w->found);
    json_write_number(&j, "running", (int64_t)w->good);
    if (workload_is_done(w)) {
        json_write_text(&j, "state", STR("running"));
    } else {
        json_write_text(&j, "state", STR("failing"));
        if (!write_own_cause(w, &j) && w->bad.n)
            r = workload_add_pod(w, &j, err);
        else if (!w->bad.n && !w->found)
            json_write_text(&j, "note", STR("its controller has not created pods yet"));
    }
    json_write_object_end(&j);
    return r;
}

int why_workload(struct why_source *s, struct str kind, struct str namespace, struct str name,
                 struct sbuf *out, struct err *err)
{
    struct workload w = {.s = s, .kind = why_kind_find(kind, NULL), .name = name};
    w.namespace = arena_str(&s->arena, namespace.n ? namespace : STR("default"));
    int r = workload_read(&w, err);
    if (r == 0) {
        workload_look_at_pods(&w);
        r = workload_write(&w, out, err);
    }
    json_doc_done(&w.object);
    json_doc_done(&w.pods);
    json_doc_done(&w.owners);
    json_doc_done(&w.events);
    sbuf_done(&w.answer);
    return r;
}
