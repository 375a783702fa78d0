// SPDX-License-Identifier: Apache-2.0
//
// Requests for a remedy. Nodes and controllers are patched. Claims, templates and most fields of
// pods cannot change: those objects are deleted and created again. A pod of a controller is changed
// in the controller's template.
#include "cmd/why/why_step.h"

#include <stdio.h>

#include "api/patch.h"
#include "cmd/objects/objects.h"
#include "cmd/why/why_fix.h"
#include "codec/json_writer.h"

#include "base/banned.h"

#define JSON_PATCH   "application/json-patch+json"
#define GONE_TRIES   600 // times 100 ms
#define GONE_WAIT_NS (100 * CLOCK_NS_PER_MS)
#define OWNERS_MAX   4

struct why_object {
    const struct why_kind *kind;
    struct str namespace, name;
    struct json_doc doc;
};

// --- Reading -------------------------------------------------------------------------------------

static int object_read(struct why_plan *p, struct str kind, struct str namespace, struct str name,
                       struct why_object *ret, struct err *err)
{
    cleanup_sbuf struct sbuf body = {0};
    int r = err_set(err, ERR_INVALID, "objects of kind %.*s cannot be changed from here",
                    STR_ARG(kind));
    const struct why_kind *k = NULL;
    ret->namespace = arena_str(&p->arena, namespace);
    ret->name = arena_str(&p->arena, name);
    while ((r == -ERR_INVALID || r == -ERR_NOT_FOUND) && (k = why_kind_find(kind, k))) {
        cleanup_sbuf struct sbuf path = {0};
        ret->kind = k;
        sbuf_clear(&body);
        why_kind_add_path(&path, k, namespace, name);
        r = cluster_get(p->c, path.p, &body, err);
    }
    struct str kept = arena_str(&p->arena, sbuf_str(&body)); // the document points into it
    return r < 0 ? r : json_parse(kept, NULL, &ret->doc, err);
}

static const yyjson_val *controller_of(const yyjson_val *object)
{
    const yyjson_val *all = objects_list(object, "metadata.ownerReferences");
    if (all)
        json_arr_foreach(all, o) {
            bool controller = false;
            const yyjson_val *v = json_get(o, STR("controller"));
            if (v && json_to_bool(v, &controller, NULL) == 0 && controller)
                return o;
        }
    return NULL;
}

// --- Patches -------------------------------------------------------------------------------------

static const yyjson_val *pointer_find(const yyjson_val *v, struct str pointer)
{
    while (v && pointer.n > 1) {
        struct str member, rest;
        char name[256];
        size_t n = 0;
        pointer = str_from(pointer, 1);
        if (!str_cut(pointer, '/', &member, &rest)) {
            member = pointer;
            rest = STR("");
        }
        for (size_t i = 0; i < member.n && n + 1 < sizeof(name); i++) {
            char c = member.p[i];
            if (c == '~' && i + 1 < member.n)
                c = member.p[++i] == '1' ? '/' : '~';
            name[n++] = c;
        }
        uint64_t at = 0;
        if (json_is_array(v))
            v = str_to_u64(str_make(name, n), &at) == 0 ? json_at(v, (size_t)at) : NULL;
        else
            v = json_get(v, str_make(name, n));
        pointer = str_make(rest.n ? rest.p - 1 : "", rest.n ? rest.n + 1 : 0);
    }
    return v;
}

// An operation with a prefix before its paths. Adding to the end of a list that is not there makes
// the list.
static void patch_add_operation(struct json_writer *w, const yyjson_val *op, const char *prefix,
                                const yyjson_val *object)
{
    struct str path = json_get_str(op, "path"), from = json_get_str(op, "from");
    cleanup_sbuf struct sbuf whole = {0}, other = {0};
    sbuf_addf(&whole, "%s%.*s", prefix, STR_ARG(path));
    bool ends = str_ends(path, STR("/-"));
    if (ends)
        sbuf_truncate(&whole, whole.n - 2);
    bool list = ends && !pointer_find(object, sbuf_str(&whole));
    if (ends && !list)
        sbuf_addz(&whole, "/-");
    json_write_object_begin(w);
    json_write_text(w, "op", json_get_str(op, "op"));
    json_write_text(w, "path", sbuf_str(&whole));
    if (from.n) {
        sbuf_addf(&other, "%s%.*s", prefix, STR_ARG(from));
        json_write_text(w, "from", sbuf_str(&other));
    }
    const yyjson_val *value = json_get(op, STR("value"));
    if (value) {
        json_write_key(w, STR("value"));
        if (list)
            json_write_array_begin(w);
        json_write_value(w, value);
        if (list)
            json_write_array_end(w);
    }
    json_write_object_end(w);
}

static struct str patch_for(struct why_plan *p, const yyjson_val *patch, const char *prefix,
                            const yyjson_val *object)
{
    cleanup_sbuf struct sbuf out = {0};
    struct json_writer w = {.out = &out};
    json_write_array_begin(&w);
    if (patch)
        json_arr_foreach(patch, op)
            patch_add_operation(&w, op, prefix, object);
    json_write_array_end(&w);
    return arena_str(&p->arena, sbuf_str(&out));
}

// What the server has made of an object, and must make anew.
static bool is_of_server(struct str path)
{
    static const char *const all[] = {
        "metadata.uid",
        "metadata.resourceVersion",
        "metadata.creationTimestamp",
        "metadata.generation",
        "metadata.managedFields",
        "metadata.deletionTimestamp",
        "metadata.finalizers",
        "metadata.ownerReferences",
        "metadata.deletionGracePeriodSeconds",
        "spec.nodeName",
        "status",
        "spec.selector",
        "metadata.selfLink",
    };
    return str_is_one_of(path, all, array_len(all));
}

static bool is_of_job(struct str key)
{
    return str_ends(key, STR("controller-uid")) || str_ends(key, STR("job-name"));
}

static void write_fresh(struct json_writer *w, const yyjson_val *v, const char *at, bool job)
{
    json_write_object_begin(w);
    json_obj_foreach(v, k, x) {
        cleanup_sbuf struct sbuf path = {0};
        sbuf_addf(&path, "%s%s%.*s", at, at[0] ? "." : "", STR_ARG(json_str(k)));
        bool selector = str_eqz(sbuf_str(&path), "spec.selector");
        if ((is_of_server(sbuf_str(&path)) && (!selector || job)) ||
            (job && str_starts(sbuf_str(&path), STR("spec.template.metadata.labels.")) &&
             is_of_job(json_str(k))))
            continue;
        json_write_key(w, json_str(k));
        bool deeper = json_is_object(x) &&
                      (str_eqz(sbuf_str(&path), "metadata") || str_eqz(sbuf_str(&path), "spec") ||
                       (job && str_starts(sbuf_str(&path), STR("spec.template"))));
        if (deeper)
            write_fresh(w, x, path.p, job);
        else
            json_write_value(w, x);
    }
    json_write_object_end(w);
}

// The object as it is to be created, with a patch applied.
static int object_renew(struct why_plan *p, const struct why_object *o, struct str patch,
                        struct str *ret, struct err *err)
{
    cleanup_json_doc struct json_doc ops = {0}, changed = {0};
    cleanup_sbuf struct sbuf text = {0}, fresh = {0};
    struct json_writer w = {.out = &fresh};
    int r = json_parse(patch, NULL, &ops, err);
    if (r == 0)
        r = api_patch_json(&o->doc, &ops, NULL, &text, err);
    if (r == 0)
        r = json_parse(sbuf_str(&text), NULL, &changed, err);
    if (r < 0)
        return r;
    write_fresh(&w, changed.root, "", strcmp(o->kind->kind, "Job") == 0);
    *ret = arena_str(&p->arena, sbuf_str(&fresh));
    return 0;
}

// --- Steps ---------------------------------------------------------------------------------------

static struct str object_path(struct why_plan *p, const struct why_object *o)
{
    cleanup_sbuf struct sbuf path = {0};
    why_kind_add_path(&path, o->kind, o->namespace, o->name);
    return arena_str(&p->arena, sbuf_str(&path));
}

static struct str object_words(struct why_plan *p, const struct why_object *o)
{
    return arena_strf(&p->arena, "%s %.*s%s%.*s", o->kind->kind, STR_ARG(o->namespace),
                      o->namespace.n ? "/" : "", STR_ARG(o->name));
}

static void step_patch(struct why_plan *p, const struct why_object *o, struct str patch)
{
    struct why_step s = {.method = "PATCH", .type = JSON_PATCH};
    s.target = object_path(p, o);
    s.body = patch;
    s.text = arena_strf(&p->arena, "patch %.*s: %.*s", STR_ARG(object_words(p, o)), STR_ARG(patch));
    vec_push_arena(&p->arena, &p->steps, s);
}

static void step_delete(struct why_plan *p, const struct why_object *o, bool force, bool wait)
{
    struct why_step s = {.method = "DELETE", .type = "application/json"};
    s.target = object_path(p, o);
    s.uid = arena_str(&p->arena, objects_text(o->doc.root, "metadata.uid"));
    // What was shown is deleted, not another object that has its name by now.
    s.body =
        arena_strf(&p->arena,
                   "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",%s"
                   "\"propagationPolicy\":\"Background\",\"preconditions\":{\"uid\":\"%.*s\"}}",
                   force ? "\"gracePeriodSeconds\":0," : "", STR_ARG(s.uid));
    s.text = arena_strf(&p->arena, "delete %.*s", STR_ARG(object_words(p, o)));
    s.path = wait ? s.target : STR("");
    vec_push_arena(&p->arena, &p->steps, s);
}

static void step_create(struct why_plan *p, const struct why_object *o, struct str body)
{
    struct why_step s = {.method = "POST", .type = "application/json", .body = body};
    struct str path = object_path(p, o);
    s.target = str_upto(path, (size_t)str_rfind_char(path, '/'));
    s.text = arena_strf(&p->arena, "create %.*s", STR_ARG(object_words(p, o)));
    vec_push_arena(&p->arena, &p->steps, s);
}

static int step_replace(struct why_plan *p, const struct why_object *o, struct str patch,
                        bool force, struct err *err)
{
    struct str body = {0};
    int r = object_renew(p, o, patch, &body, err);
    if (r < 0)
        return r;
    step_delete(p, o, force, true);
    step_create(p, o, body);
    return 0;
}

// --- Pods ----------------------------------------------------------------------------------------

// A pod may get tolerations, lose gates and change images where it is.
static bool is_mutable(const yyjson_val *patch)
{
    bool all = patch && json_is_array(patch) && json_len(patch) > 0;
    if (all)
        json_arr_foreach(patch, op) {
            struct str path = json_get_str(op, "path");
            all &= str_starts(path, STR("/spec/tolerations")) ||
                   str_starts(path, STR("/spec/schedulingGates")) ||
                   str_starts(path, STR("/metadata/")) || str_ends(path, STR("/image"));
        }
    return all;
}

// Who creates a pod chooses what its owner references name: only kinds with a template are
// followed.
static bool owner_is_workload(const yyjson_val *owner)
{
    static const struct {
        const char *version, *kind;
    } kinds[] = {{"apps/v1", "Deployment"},
                 {"apps/v1", "ReplicaSet"},
                 {"apps/v1", "StatefulSet"},
                 {"apps/v1", "DaemonSet"},
                 {"batch/v1", "Job"}};
    for (size_t i = 0; i < array_len(kinds); i++)
        if (str_eqz(json_get_str(owner, "apiVersion"), kinds[i].version) &&
            str_eqz(json_get_str(owner, "kind"), kinds[i].kind))
            return true;
    return false;
}

// The controller at the top, whose template the pod is made of; *ret_found is false for a pod of
// its own.
static int owner_find(struct why_plan *p, const yyjson_val *pod, struct str namespace,
                      struct why_object *ret, bool *ret_found, struct err *err)
{
    const yyjson_val *o = controller_of(pod);
    *ret_found = false;
    for (size_t i = 0; o && i < OWNERS_MAX; i++) {
        struct str kind = json_get_str(o, "kind");
        struct str uid = json_get_str(o, "uid");
        if (!owner_is_workload(o))
            return *ret_found ? 0
                              : err_set(err, ERR_INVALID,
                                        "the pod belongs to %.*s %.*s; change that instead",
                                        STR_ARG(kind), STR_ARG(json_get_str(o, "name")));
        json_doc_done(&ret->doc);
        int r = object_read(p, kind, namespace, json_get_str(o, "name"), ret, err);
        if (r == 0 && !str_eq(objects_text(ret->doc.root, "metadata.uid"), uid))
            r = err_set(err, ERR_CONFLICT, "the pod's owner %.*s %.*s is another object by now",
                        STR_ARG(kind), STR_ARG(json_get_str(o, "name")));
        if (r < 0)
            return r;
        *ret_found = true;
        o = controller_of(ret->doc.root);
    }
    return 0;
}

static int pod_of_controller(struct why_plan *p, const struct why_object *pod,
                             const struct why_object *owner, const yyjson_val *patch, bool force,
                             struct err *err)
{
    bool changes = patch && json_len(patch);
    if (changes && strcmp(owner->kind->kind, "Job") == 0)
        return step_replace(p, owner, patch_for(p, patch, "/spec/template", owner->doc.root), false,
                            err);
    if (changes)
        step_patch(p, owner, patch_for(p, patch, "/spec/template", owner->doc.root));
    // A Deployment replaces its pods by itself.
    if (!changes || strcmp(owner->kind->kind, "Deployment") != 0)
        step_delete(p, pod, force, false);
    return 0;
}

static int plan_pod(struct why_plan *p, struct str namespace, struct str name,
                    const yyjson_val *patch, bool force, struct err *err)
{
    struct why_object pod = {0}, owner = {0};
    bool owned = false;
    int r = object_read(p, STR("Pod"), namespace, name, &pod, err);
    if (r == 0)
        r = owner_find(p, pod.doc.root, pod.namespace, &owner, &owned, err);
    force |= r == 0 && !objects_text(pod.doc.root, "spec.nodeName").n; // no node has to end it
    if (r == 0 && owned)
        r = pod_of_controller(p, &pod, &owner, patch, force, err);
    else if (r == 0 && is_mutable(patch) && !p->pod_again)
        step_patch(p, &pod, patch_for(p, patch, "", pod.doc.root));
    else if (r == 0)
        r = step_replace(p, &pod, patch_for(p, patch, "", pod.doc.root), force, err);
    json_doc_done(&pod.doc);
    json_doc_done(&owner.doc);
    p->pod_made = true;
    return r;
}

// --- Changes -------------------------------------------------------------------------------------

// Ends the pods that a claim is reserved for.
static int plan_release(struct why_plan *p, const struct why_object *claim, struct err *err)
{
    const yyjson_val *users = objects_list(claim->doc.root, "status.reservedFor");
    if (!users || json_len(users) == 0) {
        step_delete(p, claim, false, false);
        return 0;
    }
    json_arr_foreach(users, u) {
        struct why_object pod = {0};
        if (!str_eqz(json_get_str(u, "resource"), "pods"))
            return err_set(err, ERR_INVALID, "claim %.*s is reserved for %.*s %.*s; end that first",
                           STR_ARG(claim->name), STR_ARG(json_get_str(u, "resource")),
                           STR_ARG(json_get_str(u, "name")));
        int r = object_read(p, STR("Pod"), claim->namespace, json_get_str(u, "name"), &pod, err);
        if (r == 0)
            step_delete(p, &pod, false, false);
        json_doc_done(&pod.doc);
        if (r < 0)
            return r;
    }
    return 0;
}

// A claim that pods use goes only after them: the pod is made anew behind it.
static int plan_used_claim(struct why_plan *p, const struct why_object *claim, struct str patch,
                           struct err *err)
{
    struct str namespace, name, body = {0}, fresh = {0};
    struct why_object pod = {0};
    if (!str_cut(json_get_str(p->explanation, "name"), '/', &namespace, &name))
        return err_set(err, ERR_INVALID, "claim %.*s is in use; end its pods first",
                       STR_ARG(claim->name));
    int r = object_renew(p, claim, patch, &body, err);
    if (r == 0)
        r = object_read(p, STR("Pod"), namespace, name, &pod, err);
    bool owned = r == 0 && controller_of(pod.doc.root);
    if (r == 0)
        r = object_renew(p, &pod, STR("[]"), &fresh, err);
    if (r == 0) {
        step_delete(p, &pod, false, true);
        step_delete(p, claim, false, true);
        step_create(p, claim, body);
        if (!owned)
            step_create(p, &pod, fresh);
        p->pod_made = true;
    }
    json_doc_done(&pod.doc);
    return r;
}

static int plan_object(struct why_plan *p, const yyjson_val *change, struct str action,
                       struct err *err)
{
    const yyjson_val *about = json_get(change, STR("object"));
    const yyjson_val *patch = json_get(change, STR("patch"));
    struct str kind = json_get_str(about, "kind");
    struct why_object o = {0};
    int r = object_read(p, kind, json_get_str(about, "namespace"), json_get_str(about, "name"), &o,
                        err);
    if (r < 0)
        return r;
    if (str_eqz(action, "release")) {
        r = plan_release(p, &o, err);
    } else if (str_eqz(action, "delete") || str_eqz(action, "forceDelete")) {
        step_delete(p, &o, str_eqz(action, "forceDelete"), false);
    } else if (str_eqz(kind, "ResourceClaim") && objects_list(o.doc.root, "status.reservedFor")) {
        r = plan_used_claim(p, &o, patch_for(p, patch, "", o.doc.root), err);
    } else if (str_eqz(kind, "ResourceClaim") || str_eqz(kind, "ResourceClaimTemplate")) {
        r = step_replace(p, &o, patch_for(p, patch, "", o.doc.root), false, err);
        p->pod_again |= str_eqz(kind, "ResourceClaimTemplate");
    } else {
        step_patch(p, &o, patch_for(p, patch, "", o.doc.root));
    }
    json_doc_done(&o.doc);
    return r;
}

static int plan_create(struct why_plan *p, const yyjson_val *change)
{
    const yyjson_val *about = json_get(change, STR("object"));
    struct why_object o = {.kind = why_kind_find(json_get_str(about, "kind"), NULL),
                           .namespace = json_get_str(about, "namespace"),
                           .name = json_get_str(about, "name")};
    cleanup_sbuf struct sbuf body = {0};
    struct json_writer w = {.out = &body};
    json_write_value(&w, json_get(change, STR("body")));
    step_create(p, &o, arena_str(&p->arena, sbuf_str(&body)));
    return 0;
}

// All operations on the pod at once: they are of one version of it.
static const yyjson_val *pod_patches(const yyjson_val *changes, struct json_doc *ret,
                                     struct sbuf *text, struct err *err)
{
    struct json_writer w = {.out = text};
    json_write_array_begin(&w);
    json_arr_foreach(changes, c) {
        const yyjson_val *patch = json_get(c, STR("patch"));
        if (!str_eqz(json_get_str(json_get(c, STR("object")), "kind"), "Pod") ||
            !str_eqz(json_get_str(c, "action"), "patch") || !patch)
            continue;
        json_arr_foreach(patch, op)
            json_write_value(&w, op);
    }
    json_write_array_end(&w);
    return json_parse(sbuf_str(text), NULL, ret, err) < 0 ? NULL : ret->root;
}

static bool is_of_pod(const yyjson_val *change, struct str *namespace, struct str *name)
{
    const yyjson_val *about = json_get(change, STR("object"));
    struct str action = json_get_str(change, "action");
    if (!str_eqz(json_get_str(about, "kind"), "Pod") ||
        !(str_eqz(action, "patch") || str_starts(action, STR("replace"))))
        return false;
    *namespace = json_get_str(about, "namespace");
    *name = json_get_str(about, "name");
    return true;
}

static int plan_change(struct why_plan *p, const yyjson_val *change, struct err *err)
{
    struct str action = json_get_str(change, "action"), namespace, name;
    if (is_of_pod(change, &namespace, &name))
        return 0; // with the others, at the end
    if (str_eqz(action, "create"))
        return plan_create(p, change);
    return plan_object(p, change, action, err);
}

// Claims are made of a template once, for a new pod: the pod of the explanation, or those of a
// workload that do not run.
static int plan_pods_again(struct why_plan *p, struct err *err)
{
    const yyjson_val *stuck = objects_list(p->explanation, "stuckPods");
    struct str namespace, name;
    int r = 0;
    if (!str_cut(json_get_str(p->explanation, "name"), '/', &namespace, &name))
        return 0;
    if (stuck)
        json_arr_foreach(stuck, pod)
            r = r < 0 ? r : plan_pod(p, namespace, json_str(pod), NULL, false, err);
    else if (str_eqz(json_get_str(p->explanation, "kind"), "Pod"))
        r = plan_pod(p, namespace, name, NULL, false, err);
    return r;
}

int why_plan_make(struct why_plan *p, const yyjson_val *remedy, struct err *err)
{
    const yyjson_val *changes = objects_list(remedy, "changes");
    struct str namespace = {0}, name = {0};
    cleanup_json_doc struct json_doc patches = {0};
    cleanup_sbuf struct sbuf text = {0};
    bool pod = false, force = false;
    int r = 0;
    json_arr_foreach(changes, c) {
        pod |= is_of_pod(c, &namespace, &name);
        force |= str_eqz(json_get_str(c, "action"), "replaceNow");
        r = r < 0 ? r : plan_change(p, c, err);
    }
    const yyjson_val *patch = pod ? pod_patches(changes, &patches, &text, err) : NULL;
    if (r == 0 && pod)
        r = patch ? plan_pod(p, namespace, name, patch, force, err) : -ERR_INTERNAL;
    if (r == 0 && p->pod_again && !p->pod_made)
        r = plan_pods_again(p, err);
    return r;
}

void why_plan_done(struct why_plan *p)
{
    arena_done(&p->arena);
}

// --- Requests ------------------------------------------------------------------------------------

static int step_await_gone(struct why_plan *p, const struct why_step *s, struct err *err)
{
    for (int i = 0; i < GONE_TRIES; i++) {
        cleanup_sbuf struct sbuf body = {0};
        cleanup_json_doc struct json_doc doc = {0};
        cleanup_sbuf struct sbuf path = {0};
        sbuf_add(&path, s->path);
        int r = cluster_get(p->c, path.p, &body, err);
        if (r == -ERR_NOT_FOUND)
            return 0;
        if (r < 0)
            return r;
        if (json_parse(sbuf_str(&body), NULL, &doc, NULL) == 0 &&
            !str_eq(objects_text(doc.root, "metadata.uid"), s->uid))
            return 0;
        cluster_pause(p->c, GONE_WAIT_NS);
    }
    return err_set(err, ERR_TIMEOUT, "%.*s: it is not gone within a minute", STR_ARG(s->text));
}

int why_plan_run(struct why_plan *p, struct err *err)
{
    for (size_t i = 0; i < p->steps.n; i++) {
        const struct why_step *s = &p->steps.p[i];
        cleanup_sbuf struct sbuf answer = {0};
        const struct client_raw_request q = {.method = s->method,
                                             .target = s->target,
                                             .body = s->body,
                                             .content_type = str_z(s->type)};
        int r = cluster_request(p->c, q, &answer, err);
        if (r < 0 && i && strcmp(s->method, "POST") == 0) // nothing that was deleted may be lost
            (void)fprintf(stderr, "What was to be created, for 'dray apply -f FILE':\n%.*s\n",
                          STR_ARG(s->body));
        if (r < 0)
            return err_wrap(err, "%.*s", STR_ARG(s->text));
        if (s->path.n && (r = step_await_gone(p, s, err)) < 0)
            return r;
    }
    return 0;
}
