// SPDX-License-Identifier: Apache-2.0
//
// The fields of pods, and of pod templates, that have to do with claims. The rest of a pod is not
// looked at beyond its structure and metadata.
#include <stdlib.h>

#include "api/validate_int.h"

#include "base/banned.h"

static const char mirror_annotation[] = "kubernetes.io/config.mirror";

static bool has_annotation(const struct api_object_meta *meta, const char *key)
{
    for (size_t i = 0; i < meta->annotations.n; i++)
        if (str_eqz(meta->annotations.p[i].key, key))
            return true;
    return false;
}

// What the checks of one pod spec share.
struct pod_check {
    struct validator *v;
    const struct api_pod_resource_claim_array *claims;
    struct seen names;  // of the pod's claims
    struct str missing; // what to say of a claim the pod does not have; made when it is needed
};

// --- spec.resourceClaims -------------------------------------------------------------------------

static void check_claim_source(struct validator *v, const struct path *at,
                               const struct api_pod_resource_claim *c)
{
    struct path name = path_field(at, STR("resourceClaimName"));
    struct path template = path_field(at, STR("resourceClaimTemplateName"));
    struct str shown = internal_json_of(&api_pod_resource_claim_type, c, scratch(v));
    if (c->has_resource_claim_name && c->has_resource_claim_template_name)
        cause_invalid_json(v->causes, at, shown,
                           STR("at most one of `resourceClaimName` or `resourceClaimTemplateName` "
                               "may be specified"));
    if (!c->has_resource_claim_name && !c->has_resource_claim_template_name)
        cause_invalid_json(v->causes, at, shown,
                           STR("must specify one of: `resourceClaimName`, "
                               "`resourceClaimTemplateName`"));
    if (c->has_resource_claim_name)
        check_format(v, &name, c->resource_claim_name, name_dns_subdomain, NULL);
    if (c->has_resource_claim_template_name)
        check_format(v, &template, c->resource_claim_template_name, name_dns_subdomain, NULL);
}

static void check_pod_claims(struct validator *v, const struct path *at,
                             const struct api_object_meta *meta,
                             const struct api_pod_resource_claim_array *claims)
{
    struct path nowhere = path_root(STR(""));
    cleanup_seen struct seen names = {0};
    for (size_t i = 0; i < claims->n; i++) {
        const struct api_pod_resource_claim *c = &claims->p[i];
        struct path item = path_index(at, i), name = path_field(&item, STR("name"));
        if (meta && has_annotation(meta, mirror_annotation)) {
            cause_forbidden(v->causes, &nowhere, STR("static pods do not support resource claims"));
            continue;
        }
        if (c->name.n == 0)
            cause_required(v->causes, &name, STR(""));
        else if (seen_add(&names, c->name))
            cause_duplicate(v->causes, &name, c->name);
        else
            check_dns_label(v, &name, c->name);
        check_claim_source(v, &item, c);
    }
}

// --- resources.claims ----------------------------------------------------------------------------

static int compare_texts(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

static struct str missing_claim(struct pod_check *c)
{
    cleanup_sbuf struct sbuf b = {0};
    cleanup_seen struct seen names = {0};
    struct arena *arena = scratch(c->v);
    size_t n = 0;
    if (c->missing.n)
        return c->missing;
    struct str *sorted = arena_array(arena, struct str, c->claims->n + 1);
    for (size_t i = 0; i < c->claims->n; i++)
        if (c->claims->p[i].name.n && !seen_add(&names, c->claims->p[i].name))
            sorted[n++] = c->claims->p[i].name;
    qsort(sorted, n, sizeof(*sorted), compare_texts);
    sbuf_addz(&b, "must be one of the names in pod.spec.resourceClaims");
    sbuf_addz(&b, n ? ": " : " which is empty");
    for (size_t i = 0; i < n; i++)
        sbuf_addf(&b, "%s%.*s", i ? ", " : "", STR_ARG(sorted[i]));
    c->missing = arena_str(arena, sbuf_str(&b));
    return c->missing;
}

// The claims that a container has named so far.
struct named {
    struct seen whole; // names of claims
    struct seen keys;  // name, or name/request
    struct seen parts; // names of claims of which single requests were named
};

static void check_reference(struct pod_check *p, const struct path *item,
                            const struct api_container_resource_claim *c, struct named *named)
{
    struct validator *v = p->v;
    struct path request = path_field(item, STR("request"));
    if (map_has(&named->whole, c->name)) {
        cause_duplicate(v->causes, item, c->name);
        return;
    }
    struct str key = c->name;
    if (c->request.n) {
        check_dns_label(v, &request, c->request);
        key = arena_strf(scratch(v), "%.*s/%.*s", STR_ARG(c->name), STR_ARG(c->request));
        (void)seen_add(&named->parts, c->name);
    } else if (map_has(&named->parts, c->name)) {
        // The claim as a whole and one of its requests.
        cause_duplicate(v->causes, item, c->name);
    }
    if (seen_add(&named->keys, key))
        cause_duplicate(v->causes, item, key);
    if (c->request.n == 0)
        (void)seen_add(&named->whole, c->name);
}

static void check_claim_names(struct pod_check *p, const struct path *at,
                              const struct api_container_resource_claim_array *claims)
{
    struct named named = {0};
    for (size_t i = 0; i < claims->n && !causes_full(p->v->causes); i++) {
        const struct api_container_resource_claim *c = &claims->p[i];
        struct path item = path_index(at, i);
        if (c->name.n == 0) {
            cause_required(p->v->causes, &item, STR(""));
            continue;
        }
        check_reference(p, &item, c, &named);
        if (!map_has(&p->names, c->name))
            cause_not_found_because(p->v->causes, &item, c->name, missing_claim(p));
    }
    seen_done(&named.whole);
    seen_done(&named.keys);
    seen_done(&named.parts);
}

static void check_container_claims(struct pod_check *p, const struct path *list,
                                   const struct api_container_array *containers)
{
    for (size_t i = 0; i < containers->n; i++) {
        struct path item = path_index(list, i), resources = path_field(&item, STR("resources"));
        struct path at = path_field(&resources, STR("claims"));
        check_claim_names(p, &at, &containers->p[i].resources.claims);
    }
}

static void check_ephemeral_claims(struct validator *v, const struct path *list,
                                   const struct api_ephemeral_container_array *containers)
{
    for (size_t i = 0; i < containers->n; i++) {
        struct path item = path_index(list, i), resources = path_field(&item, STR("resources"));
        if (containers->p[i].ephemeral_container_common.resources.claims.n)
            cause_forbidden(v->causes, &resources, STR("cannot be set for an Ephemeral Container"));
    }
}

// --- The whole spec ------------------------------------------------------------------------------

static void check_pod_spec(struct validator *v, const struct path *at,
                           const struct api_object_meta *meta, const struct api_pod_spec *spec)
{
    struct path claims = path_field(at, STR("resourceClaims"));
    struct path containers = path_field(at, STR("containers"));
    struct path init = path_field(at, STR("initContainers"));
    struct path ephemeral = path_field(at, STR("ephemeralContainers"));
    struct path resources = path_field(at, STR("resources"));
    struct path pod_level = path_field(&resources, STR("claims"));
    check_pod_claims(v, &claims, meta, &spec->resource_claims);
    struct pod_check p = {.v = v, .claims = &spec->resource_claims};
    for (size_t i = 0; i < spec->resource_claims.n; i++)
        if (spec->resource_claims.p[i].name.n)
            (void)seen_add(&p.names, spec->resource_claims.p[i].name);
    check_container_claims(&p, &containers, &spec->containers);
    check_container_claims(&p, &init, &spec->init_containers);
    check_ephemeral_claims(v, &ephemeral, &spec->ephemeral_containers);
    if (spec->resources && spec->resources->claims.p) {
        cause_forbidden(v->causes, &pod_level,
                        STR("claims may not be set for Resources at pod-level"));
        check_claim_names(&p, &pod_level, &spec->resources->claims);
    }
    seen_done(&p.names);
}

static bool same_container_claims(const struct api_container_array *a,
                                  const struct api_container_array *b)
{
    const struct api_field *f = api_type_field(&api_resource_requirements_type, STR("claims"));
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!api_field_equal(f, &a->p[i].resources, &b->p[i].resources))
            return false;
    return true;
}

static void check_pod_update(struct validator *v, const struct api_pod_spec *spec,
                             const struct api_pod_spec *old)
{
    struct path at = path_root(STR("spec"));
    const struct api_field *f = api_type_field(&api_pod_spec_type, STR("resourceClaims"));
    if (api_field_equal(f, spec, old) &&
        same_container_claims(&spec->containers, &old->containers) &&
        same_container_claims(&spec->init_containers, &old->init_containers))
        return;
    cause_forbidden(v->causes, &at,
                    STR("pod updates may not change fields other than "
                        "`spec.containers[*].image`,`spec.initContainers[*].image`,"
                        "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
                        "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to "
                        "be set to 1 if it was previously negative)"));
}

void check_pod(struct validator *v, const struct api_pod *pod, const struct api_pod *old)
{
    static const struct name_rule subdomain = {.check = name_dns_subdomain};
    struct path spec = path_root(STR("spec"));
    if (v->op == API_STATUS_UPDATE) {
        check_pod_status(v, pod);
        return;
    }
    check_object_meta(v, &pod->metadata, true, &subdomain);
    check_kube_finalizers(v, &pod->metadata);
    check_pod_spec(v, &spec, &pod->metadata, &pod->spec);
    if (old)
        check_pod_update(v, &pod->spec, &old->spec);
}

void check_pod_template(struct validator *v, const struct api_type *t, const void *value)
{
    struct path spec = path_root(STR("spec")), template = path_field(&spec, STR("template"));
    struct path bare = path_root(STR("template"));
    const struct api_pod_template_spec *found = NULL;
    if (t == &api_deployment_type)
        found = &((const struct api_deployment *)value)->spec.template;
    else if (t == &api_replica_set_type)
        found = &((const struct api_replica_set *)value)->spec.template;
    else if (t == &api_daemon_set_type)
        found = &((const struct api_daemon_set *)value)->spec.template;
    else if (t == &api_stateful_set_type)
        found = &((const struct api_stateful_set *)value)->spec.template;
    else if (t == &api_job_type)
        found = &((const struct api_job *)value)->spec.template;
    else if (t == &api_pod_template_type)
        found = &((const struct api_pod_template *)value)->template;
    struct path at = path_field(t == &api_pod_template_type ? &bare : &template, STR("spec"));
    if (found)
        check_pod_spec(v, &at, NULL, &found->spec);
}
