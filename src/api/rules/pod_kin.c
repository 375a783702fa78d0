// SPDX-License-Identifier: Apache-2.0
//
// Objects that a pod refers to: secrets, config maps, claims, service accounts. Admission and
// the authorizer of nodes decide by them.
#include "api/pod_kin.h"

#include "api/api.h"
#include "api/match/claim.h"
#include "base/mem.h"

#include "base/banned.h"

bool pod_is_mirror(const struct api_pod *pod)
{
    return api_map_find(&pod->metadata.annotations, STR("kubernetes.io/config.mirror")) != NULL;
}

struct visit {
    kin_fn fn;
    void *arg;
};

static void pod_kin_emit_name(const struct visit *v, enum kin kin, struct str name)
{
    if (name.n)
        v->fn(v->arg, kin, name);
}

static void name_local(const struct visit *v, const struct api_local_object_reference *ref)
{
    if (ref)
        pod_kin_emit_name(v, KIN_SECRET, ref->name);
}

static void visit_env(const struct visit *v, const struct api_env_from_source_array *from,
                      const struct api_env_var_array *env)
{
    for (size_t i = 0; i < from->n; i++) {
        if (from->p[i].secret_ref)
            pod_kin_emit_name(v, KIN_SECRET, from->p[i].secret_ref->local_object_reference.name);
        if (from->p[i].config_map_ref)
            pod_kin_emit_name(v, KIN_CONFIG_MAP,
                              from->p[i].config_map_ref->local_object_reference.name);
    }
    for (size_t i = 0; i < env->n; i++) {
        const struct api_env_var_source *s = env->p[i].value_from;
        if (s && s->secret_key_ref)
            pod_kin_emit_name(v, KIN_SECRET, s->secret_key_ref->local_object_reference.name);
        if (s && s->config_map_key_ref)
            pod_kin_emit_name(v, KIN_CONFIG_MAP,
                              s->config_map_key_ref->local_object_reference.name);
    }
}

static void visit_containers(const struct visit *v, const struct api_pod_spec *spec)
{
    for (size_t i = 0; i < spec->init_containers.n; i++)
        visit_env(v, &spec->init_containers.p[i].env_from, &spec->init_containers.p[i].env);
    for (size_t i = 0; i < spec->containers.n; i++)
        visit_env(v, &spec->containers.p[i].env_from, &spec->containers.p[i].env);
    for (size_t i = 0; i < spec->ephemeral_containers.n; i++) {
        const struct api_ephemeral_container_common *c =
            &spec->ephemeral_containers.p[i].ephemeral_container_common;
        visit_env(v, &c->env_from, &c->env);
    }
}

static void visit_projected(const struct visit *v, const struct api_projected_volume_source *p)
{
    for (size_t i = 0; i < p->sources.n; i++) {
        const struct api_volume_projection *s = &p->sources.p[i];
        if (s->secret)
            pod_kin_emit_name(v, KIN_SECRET, s->secret->local_object_reference.name);
        if (s->config_map)
            pod_kin_emit_name(v, KIN_CONFIG_MAP, s->config_map->local_object_reference.name);
    }
}

static void visit_volume(const struct visit *v, const struct api_volume_source *s)
{
    if (s->secret)
        pod_kin_emit_name(v, KIN_SECRET, s->secret->secret_name);
    if (s->config_map)
        pod_kin_emit_name(v, KIN_CONFIG_MAP, s->config_map->local_object_reference.name);
    if (s->projected)
        visit_projected(v, s->projected);
    if (s->azure_file)
        pod_kin_emit_name(v, KIN_SECRET, s->azure_file->secret_name);
    if (s->persistent_volume_claim)
        pod_kin_emit_name(v, KIN_VOLUME_CLAIM, s->persistent_volume_claim->claim_name);
    name_local(v, s->cephfs ? s->cephfs->secret_ref : NULL);
    name_local(v, s->cinder ? s->cinder->secret_ref : NULL);
    name_local(v, s->flex_volume ? s->flex_volume->secret_ref : NULL);
    name_local(v, s->rbd ? s->rbd->secret_ref : NULL);
    name_local(v, s->scale_io ? s->scale_io->secret_ref : NULL);
    name_local(v, s->iscsi ? s->iscsi->secret_ref : NULL);
    name_local(v, s->storageos ? s->storageos->secret_ref : NULL);
    name_local(v, s->csi ? s->csi->node_publish_secret_ref : NULL);
}

static void visit_claims(const struct visit *v, const struct api_pod *pod)
{
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++) {
        struct str name;
        bool check;
        if (claim_name_of(pod, &pod->spec.resource_claims.p[i], &name, &check) == CLAIM_NAMED)
            pod_kin_emit_name(v, KIN_RESOURCE_CLAIM, name);
    }
    if (pod->status.extended_resource_claim_status)
        pod_kin_emit_name(v, KIN_RESOURCE_CLAIM,
                          pod->status.extended_resource_claim_status->resource_claim_name);
}

void kin_of_pod(const struct api_pod *pod, struct arena *arena, kin_fn fn, void *arg)
{
    const struct visit v = {fn, arg};
    pod_kin_emit_name(&v, KIN_ACCOUNT, pod->spec.service_account_name);
    for (size_t i = 0; i < pod->spec.image_pull_secrets.n; i++)
        pod_kin_emit_name(&v, KIN_SECRET, pod->spec.image_pull_secrets.p[i].name);
    visit_containers(&v, &pod->spec);
    for (size_t i = 0; i < pod->spec.volumes.n; i++) {
        const struct api_volume *volume = &pod->spec.volumes.p[i];
        visit_volume(&v, &volume->volume_source);
        if (volume->volume_source.ephemeral)
            pod_kin_emit_name(&v, KIN_VOLUME_CLAIM,
                              arena_strf(arena, "%.*s-%.*s", STR_ARG(pod->metadata.name),
                                         STR_ARG(volume->name)));
    }
    visit_claims(&v, pod);
}

// --- Mirror pods ---------------------------------------------------------------------------------

struct finding {
    bool secret, config_map;
};

static void pod_kin_note_token(void *arg, enum kin kin, struct str name)
{
    struct finding *f = arg;
    (void)name;
    f->secret |= kin == KIN_SECRET;
    f->config_map |= kin == KIN_CONFIG_MAP;
}

static const char *projection_asks(const struct api_projected_volume_source *p)
{
    for (size_t i = 0; i < p->sources.n; i++) {
        const struct api_volume_projection *s = &p->sources.p[i];
        if (s->service_account_token)
            return "serviceaccounts (via projected volumes)";
        if (s->cluster_trust_bundle)
            return "clustertrustbundles";
        if (s->pod_certificate)
            return "podcertificates";
    }
    return NULL;
}

static const char *pod_kin_volume_needs(const struct api_volume_source *s)
{
    if (s->csi)
        return "csidrivers (via CSI volumes)";
    if (s->glusterfs)
        return "endpoints (via glusterFS volumes)";
    if (s->persistent_volume_claim)
        return "persistentvolumeclaims";
    if (s->ephemeral)
        return "persistentvolumeclaims (via ephemeral volumes)";
    return s->projected ? projection_asks(s->projected) : NULL;
}

bool pod_asks_api(const struct api_pod *pod, struct str *ret)
{
    cleanup_arena struct arena arena = {0};
    struct finding f = {0};
    const char *what = NULL;
    kin_of_pod(pod, &arena, pod_kin_note_token, &f);
    if (pod->spec.service_account_name.n)
        what = "serviceaccounts";
    else if (f.secret)
        what = "secrets";
    else if (f.config_map)
        what = "configmaps";
    else if (pod->spec.resource_claims.n)
        what = "resourceclaims";
    for (size_t i = 0; !what && i < pod->spec.volumes.n; i++)
        what = pod_kin_volume_needs(&pod->spec.volumes.p[i].volume_source);
    *ret = str_z(what ? what : "");
    return what != NULL;
}
