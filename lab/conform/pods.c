// SPDX-License-Identifier: Apache-2.0
//
// Pods of the conformance checks: creating them, waiting for their end, and reading the devices
// that their containers see.
#include "lab/conform/pods.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/banned.h"

#define BEGIN  "--- dray conformance"
#define FINISH "--- end"

// What a container has: variables, device nodes, mounts, network interfaces, and the files by which
// simulated devices show themselves.
static const char look_around[] =
    "echo '" BEGIN "'; env | sort; "
    "ls -1R /dev 2>/dev/null | sed 's/^/dev /'; "
    "cut -d' ' -f2 /proc/mounts 2>/dev/null | sort | sed 's/^/mount /'; "
    "ls -1 /sys/class/net 2>/dev/null | sed 's/^/net /'; "
    "find /var/run/dray /run/dray -type f 2>/dev/null | sort | sed 's/^/file /'; "
    "echo '" FINISH "'";

static const char *pods_path(struct session *s, const char *name)
{
    return session_text(s, "/api/v1/namespaces/%s/pods%s%s", s->namespace.p, *name ? "/" : "",
                        name);
}

// --- Making --------------------------------------------------------------------------------------

static const char *pods_make_container(struct session *s, const struct wish *w, const char *name,
                                       bool claim)
{
    const char *script = session_text(s, "%s%s", look_around, w->stays ? "; sleep 3600" : "");
    return session_text(s,
                        "{\"name\":\"%s\",\"image\":%s,\"imagePullPolicy\":\"IfNotPresent\","
                        "\"command\":[\"/bin/sh\",\"-c\",%s]%s}",
                        name, session_json(s, s->o->image), session_json(s, script),
                        claim ? ",\"resources\":{\"claims\":[{\"name\":\"device\"}]}" : "");
}

int pods_create(struct session *s, const struct wish *w)
{
    cleanup_sbuf struct sbuf b = {0};
    bool claim = w->template_name || w->claim_name;
    sbuf_addf(&b,
              "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"%s\",\"labels\":{"
              "\"" CONFORM_LABEL "\":\"%s\"}},\"spec\":{\"restartPolicy\":\"Never\","
              "\"terminationGracePeriodSeconds\":1,\"tolerations\":[{\"key\":\"nvidia.com/gpu\","
              "\"operator\":\"Exists\"}],",
              w->name, s->run.p);
    if (claim)
        sbuf_addf(&b, "\"resourceClaims\":[{\"name\":\"device\",\"%s\":\"%s\"}],",
                  w->template_name ? "resourceClaimTemplateName" : "resourceClaimName",
                  w->template_name ? w->template_name : w->claim_name);
    if (w->node)
        sbuf_addf(&b, "\"nodeSelector\":{\"kubernetes.io/hostname\":%s},",
                  session_json(s, w->node));
    if (w->selector)
        sbuf_addf(&b, "\"nodeSelector\":%s,", w->selector);
    if (w->group)
        sbuf_addf(&b, "\"schedulingGroup\":{\"podGroupName\":\"%s\"},", w->group);
    sbuf_addf(&b, "\"containers\":[%s%s%s]}}", pods_make_container(s, w, "first", claim),
              w->second ? "," : "", w->second ? pods_make_container(s, w, "second", false) : "");
    struct answer a = session_call(s, "POST", pods_path(s, ""), NULL, b.p);
    return session_expect(s, &a, 0, session_text(s, "creating pod %s", w->name));
}

void pods_remove(struct session *s, const char *name)
{
    (void)session_call(s, "DELETE", session_text(s, "%s?gracePeriodSeconds=1", pods_path(s, name)),
                       NULL, NULL);
}

static int pods_create_object(struct session *s, const char *kind, const char *plural,
                              const char *name, const char *spec)
{
    struct answer a = session_call(
        s, "POST",
        session_text(s, "/apis/resource.k8s.io/v1/namespaces/%s/%s", s->namespace.p, plural), NULL,
        session_text(
            s,
            "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"%s\",\"metadata\":{\"name\":"
            "\"%s\",\"labels\":{\"" CONFORM_LABEL "\":\"%s\"}},\"spec\":%s}",
            kind, name, s->run.p, spec));
    return a.code == -ERR_ALREADY_EXISTS
               ? 0
               : session_expect(s, &a, 0, session_text(s, "creating %s", name));
}

int pods_create_template(struct session *s, const char *name, const char *spec)
{
    return pods_create_object(s, "ResourceClaimTemplate", "resourceclaimtemplates", name,
                              session_text(s, "{\"spec\":%s}", spec));
}

int pods_create_claim(struct session *s, const char *name, const char *spec)
{
    return pods_create_object(s, "ResourceClaim", "resourceclaims", name, spec);
}

// --- Waiting -------------------------------------------------------------------------------------

static const char *why_not(struct session *s, const struct answer *pod)
{
    const yyjson_val *status = json_get(pod->root, STR("status"));
    const yyjson_val *conditions = status ? json_get(status, STR("conditions")) : NULL;
    const yyjson_val *containers = status ? json_get(status, STR("containerStatuses")) : NULL;
    if (session_at(status, "message").n)
        return arena_str(s->arena, session_at(status, "message")).p;
    if (containers && json_is_array(containers)) {
        json_arr_foreach(containers, c) {
            struct str reason = session_at(c, "state.waiting.reason");
            if (reason.n)
                return session_text(s, "container %.*s: %.*s %.*s", STR_ARG(session_at(c, "name")),
                                    STR_ARG(reason),
                                    STR_ARG(session_at(c, "state.waiting.message")));
        }
    }
    if (conditions && json_is_array(conditions)) {
        json_arr_foreach(conditions, c)
            if (str_eqz(session_at(c, "type"), "PodScheduled") &&
                str_eqz(session_at(c, "status"), "False"))
                return arena_str(s->arena, session_at(c, "message")).p;
    }
    return session_text(s, "it is %.*s on node '%.*s'", STR_ARG(session_at(status, "phase")),
                        STR_ARG(session_at(pod->root, "spec.nodeName")));
}

static bool all_started(const yyjson_val *pod)
{
    const yyjson_val *all = json_get(json_get(pod, STR("status")), STR("containerStatuses"));
    if (!all || !json_is_array(all) || json_len(all) == 0)
        return false;
    json_arr_foreach(all, c)
        if (!json_get(json_get(c, STR("state")), STR("running")))
            return false;
    return true;
}

static bool pods_is_settled(const struct wish *w, const struct answer *a, enum pod_end *ret)
{
    struct str phase = session_at(a->root, "status.phase");
    if (a->code == -ECANCELED)
        *ret = POD_STOPPED;
    else if (str_eqz(phase, "Failed") || (w->stays && str_eqz(phase, "Succeeded")))
        *ret = POD_FAILED;
    else if (str_eqz(phase, "Succeeded") ||
             (w->stays && str_eqz(phase, "Running") && all_started(a->root)))
        *ret = POD_DONE;
    else
        return false;
    return true;
}

static void note_pod(struct session *s, const char *name, const struct answer *a)
{
    const yyjson_val *status = a->root ? json_get(a->root, STR("status")) : NULL;
    cleanup_sbuf struct sbuf out = {0};
    struct json_writer w = {.out = &out};
    sbuf_addf(&out, "pod %s on %.*s: ", name, STR_ARG(session_at(a->root, "spec.nodeName")));
    if (status)
        json_write_value(&w, status);
    session_note(s, "object", sbuf_str(&out));
}

enum pod_end pods_await_end(struct session *s, const struct wish *w, int64_t timeout_s,
                            const char **ret_why, struct answer *ret)
{
    enum pod_end end = POD_WAITING;
    struct answer a = {0};
    int64_t until = clock_mono_ns(clock_system()) + timeout_s * CLOCK_NS_PER_SEC;
    for (;;) {
        a = session_get(s, pods_path(s, w->name));
        if (pods_is_settled(w, &a, &end) || clock_mono_ns(clock_system()) >= until)
            break;
        if (!session_pause(s, 200)) {
            end = POD_STOPPED;
            break;
        }
    }
    if (a.root)
        note_pod(s, w->name, &a);
    *ret_why = end == POD_STOPPED ? "interrupted"
               : a.root           ? why_not(s, &a)
                                  : session_text(s, "%.*s", STR_ARG(a.why));
    if (ret)
        *ret = a;
    return end;
}

// --- Looking -------------------------------------------------------------------------------------

// What differs from pod to pod without any device.
static bool is_noise(struct str line)
{
    static const char *const starts[] = {"HOSTNAME=",  "KUBERNETES_", "SHLVL=",    "PWD=",
                                         "OLDPWD=",    "_=",          "dev total", "mount /proc",
                                         "mount /sys", "dev console"};
    if (line.n == 0 || str_eqz(line, "dev "))
        return true;
    for (size_t i = 0; i < array_len(starts); i++)
        if (str_starts(line, str_z(starts[i])))
            return true;
    ptrdiff_t equals = str_find_char(line, '=');
    struct str name = equals > 0 ? str_upto(line, (size_t)equals) : STR("");
    return str_ends(name, STR("_SERVICE_HOST")) || str_ends(name, STR("_SERVICE_PORT")) ||
           str_contains(name, STR("_PORT_")) || str_contains(name, STR("_SERVICE_PORT_"));
}

int pods_list_devices(struct session *s, const char *pod, const char *container, struct lines *ret)
{
    struct lines all = {0};
    bool inside = false, whole = false;
    struct answer a = {0};
    for (int i = 0; i < 50 && !whole; i++) { // a container that has just started has not spoken yet
        a = session_get(s, session_text(s, "%s/log?container=%s", pods_path(s, pod), container));
        whole = a.code != 0 || str_contains(a.body, STR(FINISH));
        if (!whole && !session_pause(s, 100))
            break;
    }
    a = session_call(s, "GET", session_text(s, "%s/log?container=%s", pods_path(s, pod), container),
                     NULL, NULL);
    if (session_expect(s, &a, 0, session_text(s, "log of pod %s, container %s", pod, container)) !=
        0)
        return -1;
    session_note(s, "log", a.body);
    for (struct str rest = a.body; rest.n > 0;) {
        struct str line;
        (void)str_cut(rest, '\n', &line, &rest);
        line = str_trim(line);
        if (str_eqz(line, FINISH)) {
            *ret = all;
            return 0;
        }
        if (inside && !is_noise(line))
            vec_push_arena(s->arena, &all, line);
        inside = inside || str_eqz(line, BEGIN);
    }
    return session_fail(s, "pod %s, container %s did not say what it sees (has the image a shell?)",
                        pod, container);
}

int pods_run_once(struct session *s, const struct wish *w, struct lines *ret)
{
    const char *why = NULL;
    if (pods_create(s, w) != 0)
        return -1;
    enum pod_end end = pods_await_end(s, w, s->o->timeout_s, &why, NULL);
    if (end == POD_STOPPED)
        return session_skip(s, "interrupted");
    if (end != POD_DONE)
        return session_fail(s, "pod %s did not %s: %s", w->name, w->stays ? "run" : "end well",
                            why);
    return pods_list_devices(s, w->name, "first", ret);
}

struct lines pods_subtract_lines(struct session *s, const struct lines *a, const struct lines *b)
{
    struct lines out = {0};
    vec_foreach(a, one) {
        bool there = false;
        vec_foreach(b, other)
            there = there || str_eq(*one, *other);
        if (!there)
            vec_push_arena(s->arena, &out, *one);
    }
    return out;
}

const char *pods_join_lines(struct session *s, const struct lines *l)
{
    cleanup_sbuf struct sbuf out = {0};
    vec_foreach(l, one)
        sbuf_addf(&out, "%s%.*s", out.n ? ", " : "", STR_ARG(*one));
    return session_text(s, "%.300s", out.n ? out.p : "nothing");
}

int pods_baseline(struct session *s, struct lines *ret)
{
    if (s->baseline) {
        *ret = *s->baseline;
        return 0;
    }
    const struct wish w = {.name = "without-claim"};
    struct lines *kept = arena_one(s->arena, struct lines);
    if (pods_run_once(s, &w, kept) != 0)
        return -1;
    s->baseline = kept;
    *ret = *kept;
    return 0;
}

// --- Claims --------------------------------------------------------------------------------------

static bool is_published(const struct answer *slices, struct str driver)
{
    const yyjson_val *items = slices->root ? json_get(slices->root, STR("items")) : NULL;
    if (!items || !json_is_array(items))
        return false;
    json_arr_foreach(items, item)
        if (str_eq(session_at(item, "spec.driver"), driver))
            return true;
    return false;
}

// The class of accelerators: one named like a driver that publishes, those with "gpu" first.
static const char *conform_find_class(struct session *s)
{
    struct answer classes =
        session_call(s, "GET", "/apis/resource.k8s.io/v1/deviceclasses", NULL, NULL);
    struct answer slices =
        session_call(s, "GET", "/apis/resource.k8s.io/v1/resourceslices", NULL, NULL);
    const yyjson_val *items = classes.root ? json_get(classes.root, STR("items")) : NULL;
    struct str best = {0};
    int rank = 0;
    if (!items || !json_is_array(items))
        return NULL;
    json_arr_foreach(items, item) {
        struct str name = session_at(item, "metadata.name");
        bool published = is_published(&slices, name);
        bool gpu = str_contains(name, STR("gpu"));
        int now = 1 + (published ? 2 : 0) + (gpu ? 1 : 0);
        if (str_starts(name, STR("conformance-")) || now <= rank)
            continue;
        rank = now;
        best = name;
    }
    return best.n ? arena_str(s->arena, best).p : NULL;
}

const char *pods_claim_spec(struct session *s)
{
    if (s->o->claim_spec.n)
        return arena_str(s->arena, s->o->claim_spec).p;
    const char *class = s->o->class_name ? s->o->class_name : conform_find_class(s);
    if (!class) {
        (void)session_skip(s, "the cluster has no DeviceClass; say --class or --claim");
        return NULL;
    }
    session_notef(s, "DeviceClass %s", class);
    return session_text(s,
                        "{\"devices\":{\"requests\":[{\"name\":\"device\",\"exactly\":{"
                        "\"deviceClassName\":%s}}]}}",
                        session_json(s, class));
}

int pods_find_claim(struct session *s, const struct answer *pod, struct answer *ret)
{
    struct str name = session_at(pod->root, "status.resourceClaimStatuses[0].resourceClaimName");
    if (name.n == 0)
        name = session_at(pod->root, "spec.resourceClaims[0].resourceClaimName");
    if (name.n == 0)
        return session_fail(s, "the pod's status does not name its claim");
    *ret =
        session_call(s, "GET",
                     session_text(s, "/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims/%.*s",
                                  s->namespace.p, STR_ARG(name)),
                     NULL, NULL);
    if (session_expect(s, ret, 0, "get the claim") != 0)
        return -1;
    const yyjson_val *status = json_get(ret->root, STR("status"));
    cleanup_sbuf struct sbuf out = {0};
    struct json_writer w = {.out = &out};
    sbuf_addf(&out, "claim %.*s: ", STR_ARG(name));
    if (status)
        json_write_value(&w, status);
    session_note(s, "object", sbuf_str(&out));
    return 0;
}
