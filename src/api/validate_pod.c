// SPDX-License-Identifier: Apache-2.0
//
// The fields of pods, and of pod templates, that have to do with claims. The rest of a pod is not
// looked at beyond its structure and metadata.
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

// --- spec.resourceClaims -------------------------------------------------------------------------

static bool has_pod_claim(const struct api_pod_resource_claim_array *claims, size_t n,
                          struct str name)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(claims->p[i].name, name))
            return true;
    return false;
}

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
    for (size_t i = 0; i < claims->n; i++) {
        const struct api_pod_resource_claim *c = &claims->p[i];
        struct path item = path_index(at, i), name = path_field(&item, STR("name"));
        if (meta && has_annotation(meta, mirror_annotation)) {
            cause_forbidden(v->causes, &nowhere, STR("static pods do not support resource claims"));
            continue;
        }
        if (c->name.n == 0)
            cause_required(v->causes, &name, STR(""));
        else if (has_pod_claim(claims, i, c->name))
            cause_duplicate(v->causes, &name, c->name);
        else
            check_dns_label(v, &name, c->name);
        check_claim_source(v, &item, c);
    }
}

// --- resources.claims ----------------------------------------------------------------------------

// Whether an entry repeats one before it: the same request of a claim, or a claim as a whole and one
// of its requests.
static size_t repeats(const struct api_container_resource_claim_array *claims, size_t at)
{
    const struct api_container_resource_claim *c = &claims->p[at];
    size_t overlaps = 0;
    for (size_t i = 0; i < at; i++) {
        const struct api_container_resource_claim *o = &claims->p[i];
        if (!str_eq(o->name, c->name))
            continue;
        if (o->request.n == 0 || str_eq(o->request, c->request))
            return 1;
        overlaps += c->request.n == 0;
    }
    return overlaps;
}

static bool names_whole_claim(const struct api_container_resource_claim_array *claims, size_t n,
                              struct str name)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(claims->p[i].name, name) && claims->p[i].request.n == 0)
            return true;
    return false;
}

static struct str missing_claim(struct validator *v,
                                const struct api_pod_resource_claim_array *claims)
{
    cleanup_sbuf struct sbuf b = {0};
    struct str *names = arena_array(scratch(v), struct str, claims->n + 1);
    size_t n = 0;
    for (size_t i = 0; i < claims->n; i++) {
        struct str name = claims->p[i].name;
        size_t j = n;
        if (name.n == 0 || has_pod_claim(claims, i, name))
            continue;
        for (; j > 0 && str_cmp(name, names[j - 1]) < 0; j--)
            names[j] = names[j - 1];
        names[j] = name;
        n++;
    }
    sbuf_addz(&b, "must be one of the names in pod.spec.resourceClaims");
    sbuf_addz(&b, n ? ": " : " which is empty");
    for (size_t i = 0; i < n; i++)
        sbuf_addf(&b, "%s%.*s", i ? ", " : "", STR_ARG(names[i]));
    return arena_str(scratch(v), sbuf_str(&b));
}

static void check_claim_names(struct validator *v, const struct path *at,
                              const struct api_container_resource_claim_array *claims,
                              const struct api_pod_resource_claim_array *pod_claims)
{
    for (size_t i = 0; i < claims->n; i++) {
        const struct api_container_resource_claim *c = &claims->p[i];
        struct path item = path_index(at, i), request = path_field(&item, STR("request"));
        if (c->name.n == 0) {
            cause_required(v->causes, &item, STR(""));
            continue;
        }
        bool whole = names_whole_claim(claims, i, c->name);
        if (!whole && c->request.n)
            check_dns_label(v, &request, c->request);
        bool named = c->request.n && !whole;
        struct str key =
            named ? arena_strf(scratch(v), "%.*s/%.*s", STR_ARG(c->name), STR_ARG(c->request))
                  : c->name;
        for (size_t n = repeats(claims, i); n > 0; n--)
            cause_duplicate(v->causes, &item, key);
        if (!has_pod_claim(pod_claims, pod_claims->n, c->name))
            cause_not_found_because(v->causes, &item, c->name, missing_claim(v, pod_claims));
    }
}

static void check_container_claims(struct validator *v, const struct path *list,
                                   const struct api_container_array *containers,
                                   const struct api_pod_resource_claim_array *claims)
{
    for (size_t i = 0; i < containers->n; i++) {
        struct path item = path_index(list, i), resources = path_field(&item, STR("resources"));
        struct path at = path_field(&resources, STR("claims"));
        check_claim_names(v, &at, &containers->p[i].resources.claims, claims);
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
    check_container_claims(v, &containers, &spec->containers, &spec->resource_claims);
    check_container_claims(v, &init, &spec->init_containers, &spec->resource_claims);
    check_ephemeral_claims(v, &ephemeral, &spec->ephemeral_containers);
    if (!spec->resources || !spec->resources->claims.p)
        return;
    cause_forbidden(v->causes, &pod_level, STR("claims may not be set for Resources at pod-level"));
    check_claim_names(v, &pod_level, &spec->resources->claims, &spec->resource_claims);
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
