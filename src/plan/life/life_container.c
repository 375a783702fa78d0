// SPDX-License-Identifier: Apache-2.0
//
// Images, containers and probes of a bound pod.
#include "base/nearest.h"
#include "codec/json_writer.h"
#include "codec/quantity.h"
#include "plan/life/life_int.h"

#include "base/banned.h"

// A container of the pod with its status.
struct life_container {
    const yyjson_val *spec, *status;
    const char *list; // containers, initContainers
    size_t at;
    struct str name;
};

static const yyjson_val *find_named(const yyjson_val *list, struct str name, size_t *at)
{
    size_t i = 0;
    *at = 0;
    if (list)
        json_arr_foreach(list, c) {
            if (str_eq(json_get_str(c, "name"), name)) {
                *at = i;
                return c;
            }
            i++;
        }
    return NULL;
}

static struct str container_path(struct life *l, const struct life_container *c, const char *rest)
{
    return arena_strf(&l->arena, "/spec/%s/%zu%s", c->list, c->at, rest);
}

static struct str patch_of(struct life *l, const char *op, struct str path, struct str value)
{
    cleanup_sbuf struct sbuf b = {0};
    sbuf_addf(&b, "[{\"op\":\"%s\",\"path\":", op);
    sbuf_add_json_str(&b, path, false);
    if (value.n)
        sbuf_addf(&b, ",\"value\":%.*s", STR_ARG(value));
    sbuf_addz(&b, "}]");
    return arena_str(&l->arena, sbuf_str(&b));
}

static struct str image_quote_text(struct life *l, struct str s)
{
    cleanup_sbuf struct sbuf b = {0};
    sbuf_add_json_str(&b, s, false);
    return arena_str(&l->arena, sbuf_str(&b));
}

static void add_logs(struct life *l, const struct life_container *c, bool previous)
{
    struct life_fix fix = {.kind = "logs", .action = "manual"};
    life_add_remedy(l, &fix, "see what it wrote: dray logs %.*s -n %.*s -c %.*s%s",
                    STR_ARG(l->name), STR_ARG(l->namespace), STR_ARG(c->name),
                    previous ? " --previous" : "");
}

static const char *container_word(const struct life_container *c)
{
    return strcmp(c->list, "initContainers") == 0 ? "init container" : "container";
}

// --- Images --------------------------------------------------------------------------------------

// Images that containers of the namespace run: one of them may have been meant.
static struct str near_image(struct life *l, struct str image)
{
    struct json_doc pods = {0};
    struct nearest near = {.word = image};
    cleanup_sbuf struct sbuf target = {0};
    struct str best = {0};
    sbuf_addf(&target, "/api/v1/namespaces/%.*s/pods?limit=500", STR_ARG(l->namespace));
    const yyjson_val *items =
        l->s->get(l->s->arg, target.p, &pods) ? life_list(pods.root, "items") : NULL;
    if (items)
        json_arr_foreach(items, p) {
            const yyjson_val *all = life_list(p, "status.containerStatuses");
            if (all)
                json_arr_foreach(all, c)
                    if (life_at(c, "state.running") || life_at(c, "lastState.terminated"))
                        nearest_try(&near, json_get_str(c, "image"));
        }
    if (near.best.n && !str_eq(near.best, image))
        best = arena_str(&l->arena, near.best);
    json_doc_done(&pods);
    return best;
}

static void blame_image(struct life *l, const struct life_container *c, struct str reason,
                        struct str message)
{
    struct str image = json_get_str(c->spec, "image");
    struct str near = near_image(l, image);
    static const char *const reasons[] = {"Failed"};
    const yyjson_val *e = life_event(l, reasons, array_len(reasons));
    struct life_fix fix = {.kind = "image", .action = "manual"};
    l->stage = "image";
    if (str_starts(message, STR("Back-off")) && e && json_get_str(e, "message").n)
        message = json_get_str(e, "message");
    sbuf_addf(&l->cause, "image %.*s of %s %.*s %s (%.*s): %.*s", STR_ARG(image), container_word(c),
              STR_ARG(c->name),
              str_eqz(reason, "InvalidImageName") ? "has an invalid name" : "cannot be pulled",
              STR_ARG(reason), STR_ARG(message));
    if (str_eqz(reason, "ErrImageNeverPull")) {
        struct life_fix policy = life_fix_pod(
            l, "imagePullPolicy",
            patch_of(l, "add", container_path(l, c, "/imagePullPolicy"), STR("\"IfNotPresent\"")));
        life_add_remedy(l, &policy, "let the node pull it: imagePullPolicy IfNotPresent");
    }
    if (near.n) {
        struct life_fix rename = life_fix_pod(l, "image",
                                              patch_of(l, "replace", container_path(l, c, "/image"),
                                                       image_quote_text(l, near)));
        life_add_remedy(l, &rename, "did you mean image %.*s, which runs in this namespace?",
                        STR_ARG(near));
    }
    life_add_remedy(
        l, &fix,
        "correct the name of the image, or push it where node %.*s can pull it: kubectl "
        "set image pod/%.*s -n %.*s %.*s=IMAGE",
        STR_ARG(l->node), STR_ARG(l->name), STR_ARG(l->namespace), STR_ARG(c->name));
    if (str_contains(message, STR("unauthorized")) || str_contains(message, STR("denied")) ||
        str_contains(message, STR("401")) || str_contains(message, STR("403")))
        life_add_remedy(l, &fix,
                        "give the pod a Secret for the registry: spec.imagePullSecrets, or one of "
                        "its ServiceAccount");
}

// --- Containers that end -------------------------------------------------------------------------

static void add_more_memory(struct life *l, const struct life_container *c)
{
    struct str limit = life_text(c->spec, "resources.limits.memory");
    struct quantity q, twice;
    cleanup_sbuf struct sbuf text = {0}, patch = {0};
    if (!limit.n || quantity_parse(limit, &l->arena, &q, NULL) < 0)
        return;
    quantity_add(&twice, &q, &q, &l->arena);
    quantity_write(&twice, &text);
    sbuf_addf(&patch, "[{\"op\":\"replace\",\"path\":\"%.*s\",\"value\":\"%s\"}",
              STR_ARG(container_path(l, c, "/resources/limits/memory")), text.p);
    struct str request = life_text(c->spec, "resources.requests.memory");
    if (str_eq(request, limit)) // of one class of service
        sbuf_addf(&patch, ",{\"op\":\"replace\",\"path\":\"%.*s\",\"value\":\"%s\"}",
                  STR_ARG(container_path(l, c, "/resources/requests/memory")), text.p);
    sbuf_addc(&patch, ']');
    struct life_fix fix = life_fix_pod(l, "memory", arena_str(&l->arena, sbuf_str(&patch)));
    life_add_remedy(l, &fix, "raise the memory limit of container %.*s from %.*s to %s",
                    STR_ARG(c->name), STR_ARG(limit), text.p);
}

// The probe that made the node kill the container, if one did.
static const yyjson_val *killing_probe(struct life *l, const struct life_container *c)
{
    static const char *const reasons[] = {"Unhealthy"};
    const yyjson_val *e = life_event(l, reasons, array_len(reasons));
    struct str message = e ? json_get_str(e, "message") : (struct str){0};
    bool probe = (str_starts(message, STR("Liveness")) && life_at(c->spec, "livenessProbe")) ||
                 (str_starts(message, STR("Startup")) && life_at(c->spec, "startupProbe"));
    return probe ? e : NULL;
}

// A probe asks a port that the container does not declare, while it declares one.
static void add_probe_port(struct life *l, const struct life_container *c, const char *probe)
{
    static const char *const ways[] = {"httpGet", "tcpSocket", "grpc"};
    const yyjson_val *ports = life_list(c->spec, "ports");
    for (size_t i = 0; ports && i < array_len(ways); i++) {
        cleanup_sbuf struct sbuf path = {0};
        sbuf_addf(&path, "%s.%s.port", probe, ways[i]);
        int64_t asked = life_number(c->spec, path.p);
        bool declared = false;
        json_arr_foreach(ports, p)
            declared |= life_number(p, "containerPort") == asked;
        if (!asked || declared)
            continue;
        int64_t port = life_number(json_at(ports, 0), "containerPort");
        struct life_fix fix =
            life_fix_pod(l, "probePort",
                         patch_of(l, "replace",
                                  arena_strf(&l->arena, "/spec/%s/%zu/%s/%s/port", c->list, c->at,
                                             probe, ways[i]),
                                  arena_strf(&l->arena, "%lld", (long long)port)));
        life_add_remedy(l, &fix,
                        "let the probe ask port %lld, which the container declares, "
                        "instead of %lld",
                        (long long)port, (long long)asked);
    }
}

static void add_without_probe(struct life *l, const struct life_container *c, const char *probe)
{
    struct life_fix fix = life_fix_pod(
        l, "probe",
        patch_of(l, "remove", arena_strf(&l->arena, "/spec/%s/%zu/%s", c->list, c->at, probe),
                 STR("")));
    life_add_remedy(l, &fix, "take the %s out of container %.*s, or correct what it asks", probe,
                    STR_ARG(c->name));
}

static void blame_probe(struct life *l, const struct life_container *c, const yyjson_val *event)
{
    struct str message = json_get_str(event, "message");
    const char *probe = str_starts(message, STR("Startup"))    ? "startupProbe"
                        : str_starts(message, STR("Liveness")) ? "livenessProbe"
                                                               : "readinessProbe";
    sbuf_addf(&l->cause, "%s %.*s %s: %.*s", container_word(c), STR_ARG(c->name),
              strcmp(probe, "readinessProbe") == 0 ? "is not ready"
                                                   : "is killed again and again by its probe",
              STR_ARG(message));
    add_probe_port(l, c, probe);
    add_without_probe(l, c, probe);
    add_logs(l, c, false);
}

static void blame_exit(struct life *l, const struct life_container *c, const yyjson_val *ended,
                       bool loops)
{
    int64_t code = life_number(ended, "exitCode");
    struct str reason = json_get_str(ended, "reason"), message = json_get_str(ended, "message");
    int64_t restarts = life_number(c->status, "restartCount");
    const yyjson_val *probe = loops ? killing_probe(l, c) : NULL;
    l->stage = "container";
    if (str_eqz(reason, "OOMKilled")) {
        sbuf_addf(&l->cause, "%s %.*s was killed for its use of memory (OOMKilled), limit %.*s",
                  container_word(c), STR_ARG(c->name),
                  STR_ARG(life_text(c->spec, "resources.limits.memory")));
        add_more_memory(l, c);
        add_logs(l, c, loops);
        return;
    }
    if (probe) {
        blame_probe(l, c, probe);
        return;
    }
    sbuf_addf(&l->cause, "%s %.*s ends with exit code %lld", container_word(c), STR_ARG(c->name),
              (long long)code);
    if (reason.n)
        sbuf_addf(&l->cause, " (%.*s)", STR_ARG(reason));
    if (loops)
        sbuf_addf(&l->cause, ", restarted %lld time%s", (long long)restarts,
                  restarts == 1 ? "" : "s");
    if (message.n)
        sbuf_addf(&l->cause, ": %.*s", STR_ARG(message));
    if (code == 0 && loops && strcmp(c->list, "containers") == 0) {
        struct life_fix fix = life_fix_pod(
            l, "restartPolicy",
            STR("[{\"op\":\"add\",\"path\":\"/spec/restartPolicy\",\"value\":\"OnFailure\"}]"));
        life_add_remedy(l, &fix,
                        "let it end when its work is done: restartPolicy OnFailure, or a Job");
    }
    struct life_fix fix = {.kind = "command", .action = "manual"};
    if (code == 126 || code == 127)
        life_add_remedy(l, &fix,
                        "correct spec.%s[%zu].command: the shell in the image does not "
                        "find or may not run it",
                        c->list, c->at);
    add_logs(l, c, loops);
}

// --- Waiting -------------------------------------------------------------------------------------

static void blame_create(struct life *l, const struct life_container *c, struct str reason,
                         struct str message)
{
    struct life_fix fix = {.kind = "command", .action = "manual"};
    l->stage = "container";
    sbuf_addf(&l->cause, "%s %.*s cannot be created (%.*s): %.*s", container_word(c),
              STR_ARG(c->name), STR_ARG(reason), STR_ARG(message));
    if (str_contains(message, STR("runAsNonRoot"))) {
        struct life_fix user = life_fix_pod(
            l, "runAsUser",
            life_at(c->spec, "securityContext")
                ? patch_of(l, "add", container_path(l, c, "/securityContext/runAsUser"),
                           STR("65534"))
                : patch_of(l, "add", container_path(l, c, "/securityContext"),
                           STR("{\"runAsUser\":65534}")));
        life_add_remedy(l, &user, "let it run as a user other than root: runAsUser 65534");
    } else if (str_contains(message, STR("CDI"))) {
        struct life_fix again = life_fix_again(l);
        life_add_remedy(
            l, &again,
            "create the pod again: its devices are prepared anew on node %.*s or another",
            STR_ARG(l->node));
    } else if (str_contains(message, STR("not found")) || str_contains(message, STR("no such"))) {
        life_add_remedy(l, &fix, "correct spec.%s[%zu].command: the image has no such program",
                        c->list, c->at);
    }
    add_logs(l, c, false);
}

static bool is_image_reason(struct str reason)
{
    static const char *const all[] = {"ErrImagePull",      "ImagePullBackOff",
                                      "InvalidImageName",  "ErrImageNeverPull",
                                      "ImageInspectError", "RegistryUnavailable"};
    return str_is_one_of(reason, all, array_len(all));
}

static bool blame_waiting(struct life *l, const struct life_container *c)
{
    struct str reason = life_text(c->status, "state.waiting.reason");
    struct str message = life_text(c->status, "state.waiting.message");
    if (is_image_reason(reason))
        blame_image(l, c, reason, message);
    else if (str_eqz(reason, "CrashLoopBackOff"))
        blame_exit(l, c, life_at(c->status, "lastState.terminated"), true);
    else if (reason.n && !str_eqz(reason, "ContainerCreating") &&
             !str_eqz(reason, "PodInitializing"))
        blame_create(l, c, reason, message);
    return l->cause.n > 0;
}

static bool blame_container(struct life *l, const struct life_container *c, bool ended)
{
    const yyjson_val *terminated = life_at(c->status, "state.terminated");
    bool started = true, ready = true;
    if (blame_waiting(l, c))
        return true;
    if (terminated && (life_number(terminated, "exitCode") != 0 ||
                       str_eqz(json_get_str(terminated, "reason"), "OOMKilled"))) {
        blame_exit(l, c, terminated, false);
        if (ended) {
            struct life_fix again = life_fix_again(l);
            life_add_remedy(l, &again, "create the pod again");
        }
        return true;
    }
    if (json_get(c->status, STR("started")))
        (void)!json_to_bool(json_get(c->status, STR("started")), &started, NULL);
    if (json_get(c->status, STR("ready")))
        (void)!json_to_bool(json_get(c->status, STR("ready")), &ready, NULL);
    static const char *const reasons[] = {"Unhealthy"};
    const yyjson_val *e = life_event(l, reasons, array_len(reasons));
    if (life_at(c->status, "state.running") && (!ready || !started) && e) {
        l->stage = "ready";
        blame_probe(l, c, e);
        return true;
    }
    return false;
}

static bool look_at_statuses(struct life *l, const char *list, const char *statuses)
{
    bool ended = str_eqz(life_text(l->pod, "status.phase"), "Failed");
    cleanup_sbuf struct sbuf specs = {0}, path = {0};
    sbuf_addf(&specs, "spec.%s", list);
    sbuf_addf(&path, "status.%s", statuses);
    const yyjson_val *all = life_list(l->pod, path.p);
    if (!all)
        return false;
    json_arr_foreach(all, s) {
        struct life_container c = {.status = s, .list = list, .name = json_get_str(s, "name")};
        c.spec = find_named(life_list(l->pod, specs.p), c.name, &c.at);
        if (c.spec && blame_container(l, &c, ended))
            return true;
    }
    return false;
}

bool life_of_containers(struct life *l)
{
    return look_at_statuses(l, "initContainers", "initContainerStatuses") ||
           look_at_statuses(l, "containers", "containerStatuses");
}
