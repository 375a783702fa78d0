// SPDX-License-Identifier: Apache-2.0
//
// The life of a pod: the first stage that is not done has the cause.
#include "plan/life.h"

#include <stdarg.h>
#include <stdio.h>

#include "codec/json_writer.h"
#include "codec/rfc3339.h"
#include "plan/life/life_int.h"

#include "base/banned.h"

// --- Parts of objects ----------------------------------------------------------------------------

const yyjson_val *life_at(const yyjson_val *v, const char *path)
{
    bool whole = false;
    const yyjson_val *t = v ? json_at_path(v, str_z(path), &whole) : NULL;
    return whole ? t : NULL;
}

struct str life_text(const yyjson_val *v, const char *path)
{
    const yyjson_val *t = life_at(v, path);
    return t && json_is_string(t) ? json_str(t) : (struct str){0};
}

const yyjson_val *life_list(const yyjson_val *v, const char *path)
{
    const yyjson_val *t = life_at(v, path);
    return t && json_is_array(t) && json_len(t) ? t : NULL;
}

int64_t life_number(const yyjson_val *v, const char *path)
{
    const yyjson_val *t = life_at(v, path);
    int64_t n = 0;
    if (t)
        (void)!json_to_i64(t, &n, NULL);
    return n;
}

// --- Events --------------------------------------------------------------------------------------

static struct str life_event_time(const yyjson_val *e)
{
    struct str at = json_get_str(e, "lastTimestamp");
    return at.n ? at : json_get_str(e, "eventTime");
}

const yyjson_val *life_event(const struct life *l, const char *const *reasons, size_t n)
{
    const yyjson_val *items = life_list(l->events.root, "items");
    const yyjson_val *newest = NULL;
    struct str uid = life_text(l->pod, "metadata.uid");
    if (!items)
        return NULL;
    json_arr_foreach(items, e) {
        struct str about = life_text(e, "involvedObject.uid");
        if ((about.n && !str_eq(about, uid)) ||
            (n && !str_is_one_of(json_get_str(e, "reason"), reasons, n)))
            continue;
        if (!newest || str_cmp(life_event_time(e), life_event_time(newest)) >= 0)
            newest = e;
    }
    return newest;
}

static void life_read_events(struct life *l)
{
    cleanup_sbuf struct sbuf target = {0};
    sbuf_addf(&target, "/api/v1/namespaces/%.*s/events?fieldSelector=involvedObject.name%%3D%.*s",
              STR_ARG(l->namespace), STR_ARG(l->name));
    (void)l->s->get(l->s->arg, target.p, &l->events);
}

// --- Remedies ------------------------------------------------------------------------------------

static void life_write_change(struct json_writer *w, const struct life_fix *fix, struct str text)
{
    json_write_object_begin(w);
    json_write_text(w, "kind", str_z(fix->kind));
    json_write_text(w, "action", str_z(fix->action));
    json_write_text(w, "text", text);
    if (fix->object) {
        json_write_object_in(w, "object");
        json_write_text(w, "kind", str_z(fix->object));
        json_write_text_if(w, "namespace", fix->namespace);
        json_write_text(w, "name", fix->name);
        json_write_object_end(w);
    }
    if (fix->patch.n) {
        json_write_key(w, strcmp(fix->action, "create") == 0 ? STR("body") : STR("patch"));
        json_write_raw(w, fix->patch);
    }
    json_write_text_if(w, "command", fix->command);
    json_write_object_end(w);
}

void life_add_remedy(struct life *l, const struct life_fix *fix, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, args); // a longer one is cut
    va_end(args);
    struct json_writer w = {.out = &l->remedies};
    if (n < 0)
        return;
    if (l->remedies_len++)
        sbuf_addc(&l->remedies, ',');
    json_write_object_begin(&w);
    json_write_number(&w, "fix", (int64_t)l->remedies_len);
    json_write_text(&w, "by", fix->admin ? STR("admin") : STR("owner"));
    json_write_flag(&w, "verified", false);
    json_write_flag(&w, "executable", strcmp(fix->action, "manual") != 0);
    json_write_array_in(&w, "changes");
    life_write_change(&w, fix, str_z(text));
    json_write_array_end(&w);
    json_write_object_end(&w);
}

struct life_fix life_fix_pod(struct life *l, const char *kind, struct str patch)
{
    return (struct life_fix){.kind = kind,
                             .action = "patch",
                             .object = "Pod",
                             .namespace = l->namespace,
                             .name = l->name,
                             .patch = patch};
}

struct life_fix life_fix_again(struct life *l)
{
    return (struct life_fix){.kind = "again",
                             .action = "replace",
                             .object = "Pod",
                             .namespace = l->namespace,
                             .name = l->name};
}

// --- The end -------------------------------------------------------------------------------------

static void life_blame_finalizers(struct life *l, const yyjson_val *finalizers)
{
    sbuf_addz(&l->cause, "it is being deleted, and waits for the finalizer");
    json_arr_foreach(finalizers, f)
        sbuf_addf(&l->cause, " %.*s", STR_ARG(json_str(f)));
    struct life_fix fix = life_fix_pod(
        l, "finalizer", STR("[{\"op\":\"remove\",\"path\":\"/metadata/finalizers\"}]"));
    fix.action = "patchInPlace";
    fix.admin = true;
    life_add_remedy(
        l, &fix,
        "remove the finalizer, if the controller that set it is gone: kubectl patch pod "
        "%.*s -n %.*s --type=merge -p '{\"metadata\":{\"finalizers\":null}}'",
        STR_ARG(l->name), STR_ARG(l->namespace));
}

static void life_blame_unprepare(struct life *l, const yyjson_val *event)
{
    sbuf_addf(&l->cause, "it is being deleted, and its devices are not given back: %.*s",
              STR_ARG(json_get_str(event, "message")));
    struct life_fix fix = {.kind = "startDriver", .action = "manual", .admin = true};
    life_add_remedy(
        l, &fix, "start the driver on node %.*s again: it has to unprepare the claims of the pod",
        STR_ARG(l->node));
}

static bool life_of_deletion(struct life *l, bool node_ready)
{
    static const char *const unprepare[] = {"FailedUnprepareDynamicResources",
                                            "DRAUnprepareBlocked"};
    const yyjson_val *finalizers = life_list(l->pod, "metadata.finalizers");
    const yyjson_val *event = life_event(l, unprepare, array_len(unprepare));
    if (!life_text(l->pod, "metadata.deletionTimestamp").n)
        return false;
    l->stage = "ending";
    struct life_fix force = {.kind = "forceDelete",
                             .action = "forceDelete",
                             .object = "Pod",
                             .namespace = l->namespace,
                             .name = l->name,
                             .admin = true};
    if (l->node.n && !node_ready) {
        sbuf_addf(&l->cause,
                  "it is being deleted, and node %.*s, which has to end it, is not ready",
                  STR_ARG(l->node));
    } else if (finalizers) {
        life_blame_finalizers(l, finalizers);
        return true;
    } else if (event) {
        life_blame_unprepare(l, event);
    } else {
        sbuf_addf(&l->cause, "it is being deleted since %.*s, its containers have not ended yet",
                  STR_ARG(life_text(l->pod, "metadata.deletionTimestamp")));
    }
    life_add_remedy(l, &force,
                    "delete it without waiting for the node, if its containers are gone: kubectl "
                    "delete pod %.*s -n %.*s --grace-period=0 --force",
                    STR_ARG(l->name), STR_ARG(l->namespace));
    return true;
}

// Rejections and evictions of the node, with what was meant to follow.
static void life_blame_end(struct life *l, struct str reason, struct str message)
{
    struct life_fix again = life_fix_again(l);
    if (str_eqz(reason, "Evicted"))
        sbuf_addf(&l->cause, "it was evicted from node %.*s: %.*s", STR_ARG(l->node),
                  STR_ARG(message));
    else if (str_eqz(reason, "DeadlineExceeded"))
        sbuf_addf(&l->cause, "it was ended after activeDeadlineSeconds %lld: %.*s",
                  (long long)life_number(l->pod, "spec.activeDeadlineSeconds"), STR_ARG(message));
    else
        sbuf_addf(&l->cause, "it has failed: %.*s%s%.*s", STR_ARG(reason), message.n ? ": " : "",
                  STR_ARG(message));
    if (str_eqz(reason, "DeadlineExceeded")) {
        struct life_fix more = life_fix_pod(
            l, "deadline",
            arena_strf(
                &l->arena,
                "[{\"op\":\"replace\",\"path\":\"/spec/activeDeadlineSeconds\",\"value\":%lld}]",
                (long long)life_number(l->pod, "spec.activeDeadlineSeconds") * 10));
        life_add_remedy(l, &more, "give it more time: activeDeadlineSeconds %lld",
                        (long long)life_number(l->pod, "spec.activeDeadlineSeconds") * 10);
    }
    life_add_remedy(l, &again, "create the pod again%s",
                    str_eqz(reason, "Evicted") ? ", so that it is placed anew" : "");
}

static bool life_of_end(struct life *l, bool *ret_good)
{
    struct str phase = life_text(l->pod, "status.phase");
    struct str reason = life_text(l->pod, "status.reason");
    if (str_eqz(phase, "Succeeded")) {
        *ret_good = true;
        l->stage = "ended";
        return true;
    }
    if (!str_eqz(phase, "Failed"))
        return false;
    l->stage = "ended";
    if (reason.n)
        life_blame_end(l, reason, life_text(l->pod, "status.message"));
    else if (!life_of_containers(l))
        life_blame_end(l, STR("Failed"), life_text(l->pod, "status.message"));
    return true;
}

// --- The node ------------------------------------------------------------------------------------

static const yyjson_val *life_find_condition(const yyjson_val *object, const char *type)
{
    const yyjson_val *all = life_list(object, "status.conditions");
    if (all)
        json_arr_foreach(all, c)
            if (str_eqz(json_get_str(c, "type"), type))
                return c;
    return NULL;
}

// A node that reports nothing cannot run the pod.
static bool life_of_node(struct life *l, bool found, const yyjson_val *node)
{
    const yyjson_val *ready = life_find_condition(node, "Ready");
    struct life_fix again = life_fix_again(l);
    struct life_fix repair = {.kind = "repairNode", .action = "manual", .admin = true};
    if (found && (!ready || str_eqz(json_get_str(ready, "status"), "True")))
        return false;
    l->stage = "bound";
    again.action = "replaceNow"; // the node does not end it
    if (!found)
        sbuf_addf(&l->cause, "node %.*s does not exist", STR_ARG(l->node));
    else
        sbuf_addf(&l->cause, "node %.*s is not ready: %.*s", STR_ARG(l->node),
                  STR_ARG(json_get_str(ready, "message")));
    life_add_remedy(l, &again, "create the pod again, so that it is placed on another node");
    life_add_remedy(l, &repair, "bring node %.*s back: see that its agent or kubelet runs",
                    STR_ARG(l->node));
    return true;
}

// --- Not bound, starting, running ----------------------------------------------------------------

static bool life_of_scheduling(struct life *l)
{
    const yyjson_val *c = life_find_condition(l->pod, "PodScheduled");
    if (l->node.n)
        return false;
    l->stage = "scheduling";
    sbuf_addf(&l->cause, "%.*s",
              STR_ARG(c && json_get_str(c, "message").n ? json_get_str(c, "message")
                                                        : STR("no scheduler has tried it yet")));
    return true;
}

static bool life_is_ready(const struct life *l)
{
    const yyjson_val *c = life_find_condition(l->pod, "Ready");
    return str_eqz(life_text(l->pod, "status.phase"), "Running") &&
           (!c || str_eqz(json_get_str(c, "status"), "True"));
}

static void life_blame_gates(struct life *l)
{
    const yyjson_val *gates = life_list(l->pod, "spec.readinessGates");
    if (!gates)
        return;
    json_arr_foreach(gates, g) {
        struct str type = json_get_str(g, "conditionType");
        const yyjson_val *c = NULL;
        const yyjson_val *all = life_list(l->pod, "status.conditions");
        if (all)
            json_arr_foreach(all, x)
                if (str_eq(json_get_str(x, "type"), type))
                    c = x;
        if (c && str_eqz(json_get_str(c, "status"), "True"))
            continue;
        l->stage = "ready";
        struct life_fix fix = {.kind = "readinessGate", .action = "manual"};
        sbuf_addf(&l->cause, "it is not ready: its readiness gate %.*s is not true", STR_ARG(type));
        life_add_remedy(l, &fix, "the controller of the gate has to set condition %.*s of the pod",
                        STR_ARG(type));
        return;
    }
}

// What has not come yet, without a failure that was reported.
static void life_blame_start(struct life *l)
{
    static const char *const sandbox[] = {"FailedCreatePodSandBox"};
    const yyjson_val *e = life_event(l, sandbox, array_len(sandbox));
    struct life_fix fix = {.kind = "repairNode", .action = "manual", .admin = true};
    l->stage = "container";
    if (e) {
        sbuf_addf(&l->cause, "node %.*s cannot create its sandbox: %.*s", STR_ARG(l->node),
                  STR_ARG(json_get_str(e, "message")));
        life_add_remedy(l, &fix, "repair the container runtime or the network of node %.*s",
                        STR_ARG(l->node));
        return;
    }
    sbuf_addf(&l->cause, "node %.*s is starting it, nothing has failed yet", STR_ARG(l->node));
}

// --- Output --------------------------------------------------------------------------------------

static void life_write_event(const struct life *l, struct json_writer *w)
{
    const yyjson_val *e = life_event(l, NULL, 0);
    if (!e)
        return;
    json_write_object_in(w, "lastEvent");
    json_write_text_if(w, "type", json_get_str(e, "type"));
    json_write_text_if(w, "reason", json_get_str(e, "reason"));
    json_write_text_if(w, "message", json_get_str(e, "message"));
    json_write_text_if(w, "time", life_event_time(e));
    json_write_object_end(w);
}

static void life_write(const struct life *l, bool good, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    struct str phase = life_text(l->pod, "status.phase");
    const char *state = good && str_eqz(phase, "Succeeded") ? "ended"
                        : good                              ? "running"
                        : !l->node.n                        ? "waiting"
                                                            : "failing";
    json_write_object_begin(&w);
    json_write_text(&w, "kind", STR("Pod"));
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(l->namespace), STR_ARG(l->name));
    json_write_text(&w, "name", sbuf_str(&key));
    json_write_text(&w, "state", str_z(state));
    json_write_text_if(&w, "node", l->node);
    json_write_text_if(&w, "phase", phase);
    json_write_text(&w, "stage", str_z(l->stage ? l->stage : "ready"));
    json_write_text_if(&w, "cause", sbuf_str(&l->cause));
    json_write_key(&w, STR("remedies"));
    sbuf_addf(out, "[%.*s]", STR_ARG(sbuf_str(&l->remedies)));
    w.comma = true;
    w.value = false;
    life_write_event(l, &w);
    json_write_object_end(&w);
}

// The stages in the order in which a failure of one hides those behind it.
static bool life_look(struct life *l, bool *good)
{
    struct json_doc node = {0};
    cleanup_sbuf struct sbuf target = {0};
    sbuf_addf(&target, "/api/v1/nodes/%.*s", STR_ARG(l->node));
    bool found = l->node.n && l->s->get(l->s->arg, target.p, &node);
    bool unknown = l->node.n && !found && l->s->forbidden(l->s->arg); // the user may not read nodes
    const yyjson_val *ready = found ? life_find_condition(node.root, "Ready") : NULL;
    bool node_ready =
        unknown || (found && (!ready || str_eqz(json_get_str(ready, "status"), "True")));
    bool done = life_of_deletion(l, node_ready) || life_of_scheduling(l) || life_of_end(l, good) ||
                (!unknown && life_of_node(l, found, node.root));
    json_doc_done(&node);
    return done;
}

bool life_explain(const struct life_source *s, struct sbuf *out)
{
    struct life l = {.s = s, .pod = s->pod};
    bool good = false;
    l.namespace = life_text(s->pod, "metadata.namespace");
    l.name = life_text(s->pod, "metadata.name");
    l.node = life_text(s->pod, "spec.nodeName");
    life_read_events(&l);
    if (!life_look(&l, &good)) {
        good = life_is_ready(&l);
        if (!good && !life_of_claims(&l) && !life_of_references(&l) && !life_of_containers(&l)) {
            life_blame_gates(&l);
            if (!l.cause.n)
                life_blame_start(&l);
        }
    }
    life_write(&l, good, out);
    json_doc_done(&l.events);
    sbuf_done(&l.cause);
    sbuf_done(&l.remedies);
    arena_done(&l.arena);
    return good;
}
