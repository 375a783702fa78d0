// SPDX-License-Identifier: Apache-2.0
//
// What a bound pod refers to: ConfigMaps and Secrets that do not exist or lack a key, claims whose
// devices the driver did not prepare.
#include "base/nearest.h"
#include "base/vec.h"
#include "codec/json_writer.h"
#include "plan/life/life_int.h"

#include "base/banned.h"

// A reference of the pod to a ConfigMap or Secret.
struct life_ref {
    const char *kind, *plural;
    struct str name, key; // key: that must be in it; empty: any
    struct str path;      // of the name in the pod
    bool optional;
};

struct life_refs VEC(struct life_ref);

static void refs_add(struct life *l, struct life_refs *all, const yyjson_val *v, const char *kind,
                     const char *member, struct str path)
{
    bool optional = false;
    struct str name = json_get_str(v, member);
    if (!v || !name.n)
        return;
    if (json_get(v, STR("optional")))
        (void)!json_to_bool(json_get(v, STR("optional")), &optional, NULL);
    vec_push_arena(
        &l->arena, all,
        ((struct life_ref){.kind = kind,
                           .plural = strcmp(kind, "Secret") == 0 ? "secrets" : "configmaps",
                           .name = name,
                           .key = json_get_str(v, "key"),
                           .path = arena_strf(&l->arena, "%.*s/%s", STR_ARG(path), member),
                           .optional = optional}));
}

static void refs_of_volumes(struct life *l, struct life_refs *all)
{
    const yyjson_val *volumes = life_list(l->pod, "spec.volumes");
    size_t i = 0;
    if (!volumes)
        return;
    json_arr_foreach(volumes, v) {
        refs_add(l, all, json_get(v, STR("configMap")), "ConfigMap", "name",
                 arena_strf(&l->arena, "/spec/volumes/%zu/configMap", i));
        refs_add(l, all, json_get(v, STR("secret")), "Secret", "secretName",
                 arena_strf(&l->arena, "/spec/volumes/%zu/secret", i));
        const yyjson_val *sources = life_list(v, "projected.sources");
        size_t k = 0;
        if (sources)
            json_arr_foreach(sources, s) {
                struct str base =
                    arena_strf(&l->arena, "/spec/volumes/%zu/projected/sources/%zu", i, k++);
                refs_add(l, all, json_get(s, STR("configMap")), "ConfigMap", "name",
                         arena_strf(&l->arena, "%.*s/configMap", STR_ARG(base)));
                refs_add(l, all, json_get(s, STR("secret")), "Secret", "name",
                         arena_strf(&l->arena, "%.*s/secret", STR_ARG(base)));
            }
        i++;
    }
}

static void refs_of_container(struct life *l, struct life_refs *all, const yyjson_val *c,
                              struct str base)
{
    const yyjson_val *env = life_list(c, "env"), *from = life_list(c, "envFrom");
    size_t i = 0;
    if (env)
        json_arr_foreach(env, e) {
            struct str at = arena_strf(&l->arena, "%.*s/env/%zu/valueFrom", STR_ARG(base), i++);
            refs_add(l, all, life_at(e, "valueFrom.configMapKeyRef"), "ConfigMap", "name",
                     arena_strf(&l->arena, "%.*s/configMapKeyRef", STR_ARG(at)));
            refs_add(l, all, life_at(e, "valueFrom.secretKeyRef"), "Secret", "name",
                     arena_strf(&l->arena, "%.*s/secretKeyRef", STR_ARG(at)));
        }
    i = 0;
    if (from)
        json_arr_foreach(from, e) {
            struct str at = arena_strf(&l->arena, "%.*s/envFrom/%zu", STR_ARG(base), i++);
            refs_add(l, all, json_get(e, STR("configMapRef")), "ConfigMap", "name",
                     arena_strf(&l->arena, "%.*s/configMapRef", STR_ARG(at)));
            refs_add(l, all, json_get(e, STR("secretRef")), "Secret", "name",
                     arena_strf(&l->arena, "%.*s/secretRef", STR_ARG(at)));
        }
}

static void refs_of_pod(struct life *l, struct life_refs *all)
{
    static const char *const lists[] = {"initContainers", "containers"};
    refs_of_volumes(l, all);
    for (size_t k = 0; k < array_len(lists); k++) {
        cleanup_sbuf struct sbuf path = {0};
        sbuf_addf(&path, "spec.%s", lists[k]);
        const yyjson_val *cs = life_list(l->pod, path.p);
        size_t i = 0;
        if (cs)
            json_arr_foreach(cs, c)
                refs_of_container(l, all, c, arena_strf(&l->arena, "/spec/%s/%zu", lists[k], i++));
    }
}

// --- What is missing -----------------------------------------------------------------------------

// A name of the same kind, in the namespace, that may have been meant.
static struct str near_object(struct life *l, const struct life_ref *r)
{
    struct json_doc list = {0};
    struct nearest near = {.word = r->name};
    cleanup_sbuf struct sbuf target = {0};
    sbuf_addf(&target, "/api/v1/namespaces/%.*s/%s?limit=500", STR_ARG(l->namespace), r->plural);
    const yyjson_val *items =
        l->s->get(l->s->arg, target.p, &list) ? life_list(list.root, "items") : NULL;
    if (items)
        json_arr_foreach(items, o)
            nearest_try(&near, life_text(o, "metadata.name"));
    struct str best = arena_str(&l->arena, near.best);
    json_doc_done(&list);
    return best;
}

static void add_rename(struct life *l, const struct life_ref *r, struct str to)
{
    cleanup_sbuf struct sbuf patch = {0};
    sbuf_addz(&patch, "[{\"op\":\"replace\",\"path\":");
    sbuf_add_json_str(&patch, r->path, false);
    sbuf_addz(&patch, ",\"value\":");
    sbuf_add_json_str(&patch, to, false);
    sbuf_addz(&patch, "}]");
    struct life_fix fix = life_fix_pod(l, "reference", arena_str(&l->arena, sbuf_str(&patch)));
    life_add_remedy(l, &fix, "did you mean %s %.*s?", r->kind, STR_ARG(to));
}

// The object that is missing, with all keys that the pod wants of it.
static void add_create(struct life *l, const struct life_refs *all, const struct life_ref *r)
{
    cleanup_sbuf struct sbuf body = {0}, command = {0};
    struct json_writer w = {.out = &body};
    bool secret = strcmp(r->kind, "Secret") == 0;
    sbuf_addf(&command, "kubectl create %s %.*s -n %.*s", secret ? "secret generic" : "configmap",
              STR_ARG(r->name), STR_ARG(l->namespace));
    json_write_object_begin(&w);
    json_write_text(&w, "apiVersion", STR("v1"));
    json_write_text(&w, "kind", str_z(r->kind));
    json_write_object_in(&w, "metadata");
    json_write_text(&w, "name", r->name);
    json_write_text(&w, "namespace", l->namespace);
    json_write_object_end(&w);
    json_write_object_in(&w, secret ? "stringData" : "data");
    for (size_t i = 0; i < all->n; i++) {
        bool seen = false;
        for (size_t k = 0; k < i; k++)
            seen |= str_eq(all->p[k].key, all->p[i].key) && str_eq(all->p[k].name, r->name);
        if (seen || all->p[i].kind != r->kind || !str_eq(all->p[i].name, r->name) ||
            !all->p[i].key.n)
            continue;
        json_write_key(&w, all->p[i].key);
        json_write_str(&w, STR(""));
        sbuf_addf(&command, " --from-literal=%.*s=VALUE", STR_ARG(all->p[i].key));
    }
    json_write_object_end(&w);
    json_write_object_end(&w);
    struct life_fix fix = {.kind = "create",
                           .action = "create",
                           .object = r->kind,
                           .namespace = l->namespace,
                           .name = r->name,
                           .patch = arena_str(&l->arena, sbuf_str(&body)),
                           .command = arena_str(&l->arena, sbuf_str(&command))};
    life_add_remedy(l, &fix, "create %s %.*s: %s", r->kind, STR_ARG(r->name), command.p);
}

static void blame_missing(struct life *l, const struct life_refs *all, const struct life_ref *r)
{
    struct str near = near_object(l, r);
    sbuf_addf(&l->cause, "%s %.*s does not exist in namespace %.*s", r->kind, STR_ARG(r->name),
              STR_ARG(l->namespace));
    if (near.n)
        add_rename(l, r, near);
    add_create(l, all, r);
}

static void blame_key(struct life *l, const struct life_ref *r, const yyjson_val *object)
{
    const yyjson_val *data = life_at(object, "data");
    struct nearest near = {.word = r->key};
    sbuf_addf(&l->cause, "%s %.*s has no key %.*s", r->kind, STR_ARG(r->name), STR_ARG(r->key));
    if (data && json_is_object(data))
        json_obj_foreach(data, k, v) {
            (void)v;
            nearest_try(&near, json_str(k));
        }
    if (near.best.n) {
        struct life_ref of_key = *r;
        of_key.path = arena_strf(&l->arena, "%.*skey",
                                 STR_ARG(str_upto(r->path, r->path.n - strlen("name"))));
        cleanup_sbuf struct sbuf patch = {0};
        sbuf_addf(&patch,
                  "[{\"op\":\"replace\",\"path\":\"%.*s\",\"value\":", STR_ARG(of_key.path));
        sbuf_add_json_str(&patch, near.best, false);
        sbuf_addz(&patch, "}]");
        struct life_fix fix = life_fix_pod(l, "reference", arena_str(&l->arena, sbuf_str(&patch)));
        life_add_remedy(l, &fix, "did you mean key %.*s?", STR_ARG(near.best));
    }
    cleanup_sbuf struct sbuf patch = {0};
    struct life_fix fix = {.kind = "key",
                           .action = "patch",
                           .object = r->kind,
                           .namespace = l->namespace,
                           .name = r->name};
    if (data) {
        sbuf_addz(&patch, "[{\"op\":\"add\",\"path\":");
        sbuf_add_json_str(&patch, arena_strf(&l->arena, "/data/%.*s", STR_ARG(r->key)), false);
        sbuf_addz(&patch, ",\"value\":\"\"}]");
    } else {
        sbuf_addz(&patch, "[{\"op\":\"add\",\"path\":\"/data\",\"value\":{");
        sbuf_add_json_str(&patch, r->key, false);
        sbuf_addz(&patch, ":\"\"}}]");
    }
    fix.patch = arena_str(&l->arena, sbuf_str(&patch));
    life_add_remedy(l, &fix, "add key %.*s to %s %.*s", STR_ARG(r->key), r->kind, STR_ARG(r->name));
}

// Containers that wait for nothing else have no such problem.
static bool refs_matter(const struct life *l)
{
    static const char *const reasons[] = {"FailedMount", "Failed"};
    const yyjson_val *all = life_list(l->pod, "status.containerStatuses");
    const yyjson_val *inits = life_list(l->pod, "status.initContainerStatuses");
    bool waits = false;
    if (all)
        json_arr_foreach(all, c)
            waits |= life_at(c, "state.waiting") != NULL;
    if (inits)
        json_arr_foreach(inits, c)
            waits |= str_eqz(life_text(c, "state.waiting.reason"), "CreateContainerConfigError");
    return waits || !all || life_event(l, reasons, array_len(reasons));
}

bool life_of_references(struct life *l)
{
    struct life_refs all = {0};
    if (!refs_matter(l))
        return false;
    refs_of_pod(l, &all);
    for (size_t i = 0; i < all.n && !l->cause.n; i++) {
        const struct life_ref *r = &all.p[i];
        struct json_doc object = {0};
        cleanup_sbuf struct sbuf target = {0};
        sbuf_addf(&target, "/api/v1/namespaces/%.*s/%s/%.*s", STR_ARG(l->namespace), r->plural,
                  STR_ARG(r->name));
        bool there = l->s->get(l->s->arg, target.p, &object);
        if (!there && !r->optional && !l->s->forbidden(l->s->arg))
            blame_missing(l, &all, r);
        else if (there && r->key.n && !r->optional) {
            const yyjson_val *data = life_at(object.root, "data");
            if (!data || !json_get(data, r->key))
                blame_key(l, r, object.root);
        }
        json_doc_done(&object);
    }
    if (l->cause.n)
        l->stage = "container";
    return l->cause.n > 0;
}

// --- Claims --------------------------------------------------------------------------------------

static const yyjson_val *claim_of_entry(struct life *l, struct str entry, struct json_doc *ret)
{
    const yyjson_val *statuses = life_list(l->pod, "status.resourceClaimStatuses");
    const yyjson_val *entries = life_list(l->pod, "spec.resourceClaims");
    struct str name = {0};
    cleanup_sbuf struct sbuf target = {0};
    if (entries)
        json_arr_foreach(entries, e)
            if (str_eq(json_get_str(e, "name"), entry))
                name = json_get_str(e, "resourceClaimName");
    if (statuses && !name.n)
        json_arr_foreach(statuses, s)
            if (str_eq(json_get_str(s, "name"), entry))
                name = json_get_str(s, "resourceClaimName");
    sbuf_addf(&target, "/apis/resource.k8s.io/v1/namespaces/%.*s/resourceclaims/%.*s",
              STR_ARG(l->namespace), STR_ARG(name));
    return name.n && l->s->get(l->s->arg, target.p, ret) ? ret->root : NULL;
}

// A driver that refuses may refuse what the claim's configuration says.
static void claim_add_config(struct life *l, const yyjson_val *entry, const yyjson_val *claim)
{
    const yyjson_val *config = life_list(claim, "spec.devices.config");
    struct str template = json_get_str(entry, "resourceClaimTemplateName");
    if (!config)
        return;
    struct life_fix fix = {
        .kind = "config",
        .action = "patch",
        .object = template.n ? "ResourceClaimTemplate" : "ResourceClaim",
        .namespace = l->namespace,
        .name = arena_str(&l->arena, template.n ? template : life_text(claim, "metadata.name")),
        .patch = template.n ? STR("[{\"op\":\"remove\",\"path\":\"/spec/spec/devices/config\"}]")
                            : STR("[{\"op\":\"remove\",\"path\":\"/spec/devices/config\"}]")};
    life_add_remedy(l, &fix, "take the configuration out of %s %.*s, or correct it", fix.object,
                    STR_ARG(fix.name));
}

bool life_of_claims(struct life *l)
{
    static const char *const reasons[] = {"FailedPrepareDynamicResources"};
    const yyjson_val *e = life_event(l, reasons, array_len(reasons));
    const yyjson_val *entries = life_list(l->pod, "spec.resourceClaims");
    const yyjson_val *all = life_list(l->pod, "status.containerStatuses");
    bool started = false;
    if (all)
        json_arr_foreach(all, c)
            started |= life_at(c, "state.running") || life_at(c, "state.terminated") ||
                       life_at(c, "lastState.terminated");
    if (!e || started)
        return false;
    l->stage = "claims";
    struct str message = json_get_str(e, "message");
    sbuf_addf(&l->cause, "its devices are not prepared on node %.*s: %.*s", STR_ARG(l->node),
              STR_ARG(message));
    bool absent = str_contains(message, STR("not registered")) ||
                  str_contains(message, STR("not found")) ||
                  str_contains(message, STR("no driver")) || str_contains(message, STR("connect"));
    if (entries && !absent)
        json_arr_foreach(entries, x) {
            struct json_doc claim = {0};
            const yyjson_val *c = claim_of_entry(l, json_get_str(x, "name"), &claim);
            if (c)
                claim_add_config(l, x, c);
            json_doc_done(&claim);
        }
    struct life_fix fix = {.kind = "startDriver", .action = "manual", .admin = true};
    struct life_fix again = life_fix_again(l);
    life_add_remedy(l, &fix, "%s the driver on node %.*s: the agent tries again by itself",
                    absent ? "start" : "look at the log of", STR_ARG(l->node));
    life_add_remedy(l, &again, "create the pod again, so that it is placed anew");
    return true;
}
