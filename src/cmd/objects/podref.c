// SPDX-License-Identifier: Apache-2.0
//
// The pod and container that logs and exec address: pods by name or through the workload that owns
// them.
#include "cmd/objects/podref.h"

#include <stdio.h>

#include "cmd/common.h"
#include "cmd/objects/follow.h"

#include "base/banned.h"

#define DEFAULT_CONTAINER "metadata.annotations[kubectl.kubernetes.io/default-container]"

// --- Pods ----------------------------------------------------------------------------------------

static void podref_add_selector(struct sbuf *out, const yyjson_val *labels)
{
    json_obj_foreach(labels, key, value)
        sbuf_addf(out, "%s%.*s=%.*s", out->n ? "," : "", STR_ARG(json_str(key)),
                  STR_ARG(json_is_string(value) ? json_str(value) : STR("")));
}

// first_pod asks for the first pod that an object selects.
static int first_pod(struct cluster *c, const yyjson_val *owner, struct json_doc *ret,
                     struct err *err)
{
    cleanup_sbuf struct sbuf labels = {0}, target = {0}, query = {0}, body = {0};
    cleanup_json_doc struct json_doc list = {0};
    const yyjson_val *selector = objects_at(owner, "spec.selector.matchLabels");
    if (!selector)
        selector = objects_at(owner, "spec.selector");
    if (!selector || !json_is_object(selector))
        return err_set(err, ERR_INVALID, "a %.*s has no pods",
                       STR_ARG(objects_text(owner, "kind")));
    podref_add_selector(&labels, selector);
    follow_add_query(&query, "labelSelector", sbuf_str(&labels));
    sbuf_addz(&target, "/api/v1/namespaces/");
    client_escape(&target, common_namespace(c));
    sbuf_addf(&target, "/pods?%s", query.p);
    int r = cluster_get(c, target.p, &body, err);
    if (r == 0)
        r = json_parse(sbuf_str(&body), NULL, &list, err);
    if (r < 0)
        return r;
    const yyjson_val *items = objects_list(list.root, "items");
    const yyjson_val *pod = items ? json_at(items, 0) : NULL;
    if (!pod)
        return err_set(err, ERR_NOT_FOUND, "it has no pods");
    cleanup_json_builder struct json_builder b = {0};
    r = json_build_value(&b, pod, err);
    if (r == 0)
        json_build_finish(&b, ret);
    return r;
}

int podref_find(struct cluster *c, const char *word, struct json_doc *ret, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf full = {0};
    struct targets targets = {0};
    sbuf_addf(&full, "%s%s", strchr(word, '/') ? "" : "pod/", word);
    const char *p = full.p;
    const struct cli_texts words = {.p = &p, .n = 1};
    int r = objects_read(c, &words, &arena, &targets, err);
    if (r < 0)
        return r;
    if (common.all_namespaces)
        return err_set(err, ERR_INVALID, "a pod is in one namespace: -n NAME");
    if (str_eqz(targets.p[0].kind->kind, "Pod"))
        return objects_get(c, &targets.p[0], common_namespace(c), ret, err);
    cleanup_json_doc struct json_doc owner = {0};
    r = objects_get(c, &targets.p[0], common_namespace(c), &owner, err);
    if (r == 0)
        r = first_pod(c, owner.root, ret, err);
    return r < 0 ? err_wrap(err, "%s", word) : 0;
}

void podref_add_path(struct sbuf *out, const yyjson_val *pod, const char *subresource)
{
    sbuf_addz(out, "/api/v1/namespaces/");
    client_escape(out, objects_text(pod, "metadata.namespace"));
    sbuf_addz(out, "/pods/");
    client_escape(out, objects_text(pod, "metadata.name"));
    sbuf_addf(out, "/%s?", subresource);
}

// --- Containers ----------------------------------------------------------------------------------

// podref_has_container adds the containers of a pod, with spaces between, and gives the first;
// returns whether one is among them.
static bool podref_has_container(const yyjson_val *pod, struct str wanted, struct sbuf *out,
                                 struct str *first)
{
    static const char *const lists[] = {"spec.containers", "spec.initContainers",
                                        "spec.ephemeralContainers"};
    bool found = false;
    for (size_t i = 0; i < array_len(lists); i++) {
        const yyjson_val *list = objects_list(pod, lists[i]);
        if (!list)
            continue;
        json_arr_foreach(list, c) {
            struct str name = objects_text(c, "name");
            if (!first->n)
                *first = name;
            found = found || str_eq(name, wanted);
            sbuf_addf(out, "%s%.*s", out->n ? " " : "", STR_ARG(name));
        }
    }
    return found;
}

int podref_container(const yyjson_val *pod, const char *wanted, struct str *ret, struct err *err)
{
    cleanup_sbuf struct sbuf all = {0};
    struct str first = {0};
    struct str usual = objects_text(pod, DEFAULT_CONTAINER);
    struct str name = wanted ? str_z(wanted) : usual;
    bool found = podref_has_container(pod, name, &all, &first);
    if (wanted && !found)
        return err_set(err, ERR_INVALID, "the pod has no container '%s'; there is: %s", wanted,
                       all.n ? all.p : "none");
    if (!first.n)
        return err_set(err, ERR_INVALID, "the pod has no containers");
    if (!found && all.n > first.n)
        (void)fprintf(stderr, "container %.*s of: %s\n", STR_ARG(first), all.p);
    *ret = found ? name : first;
    return 0;
}
