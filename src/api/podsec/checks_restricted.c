// SPDX-License-Identifier: Apache-2.0
//
// Checks of the restricted level: what a pod must say, and the few things it may ask for. From 1.25
// on Windows pods, and from 1.35 on pods in a user namespace, need not say what has no meaning for
// them.
#include "api/podsec/podsec_int.h"

#include "base/banned.h"

bool podsec_escalation_8(struct podsec_case *c)
{
    struct podsec_names bad = {0};
    vec_foreach(&c->containers, it)
        if (!it->security->has_allow_privilege_escalation ||
            it->security->allow_privilege_escalation)
            podsec_add_name(c, &bad, it->name);
    if (bad.n == 0)
        return true;
    c->reason = STR("allowPrivilegeEscalation != false");
    podsec_add_counted(c, "container", "containers", &bad);
    sbuf_addz(c->detail, " must set securityContext.allowPrivilegeEscalation=false");
    return false;
}

bool podsec_escalation_25(struct podsec_case *c)
{
    return podsec_is_windows(c) || podsec_escalation_8(c);
}

// --- Capabilities --------------------------------------------------------------------------------

bool podsec_capabilities_22(struct podsec_case *c)
{
    static const struct api_capabilities none;
    struct podsec_names keeping = {0}, adding = {0}, added = {0};
    vec_foreach(&c->containers, it) {
        const struct api_capabilities *caps =
            it->security->capabilities ? it->security->capabilities : &none;
        size_t before = added.n;
        if (!str_listed(caps->drop.p, caps->drop.n, STR("ALL")))
            podsec_add_name(c, &keeping, it->name);
        for (size_t i = 0; i < caps->add.n; i++)
            if (!str_eqz(caps->add.p[i], "NET_BIND_SERVICE"))
                podsec_add_name(c, &added, caps->add.p[i]);
        if (added.n > before)
            podsec_add_name(c, &adding, it->name);
    }
    if (keeping.n == 0 && adding.n == 0)
        return true;
    c->reason = STR("unrestricted capabilities");
    if (keeping.n) {
        podsec_add_counted(c, "container", "containers", &keeping);
        sbuf_addz(c->detail, " must set securityContext.capabilities.drop=[\"ALL\"]");
    }
    if (adding.n) {
        podsec_sort_names(&added);
        sbuf_addz(c->detail, keeping.n ? "; " : "");
        podsec_add_counted(c, "container", "containers", &adding);
        sbuf_addz(c->detail, " must not include ");
        podsec_add_quoted(c, &added);
        sbuf_addz(c->detail, " in securityContext.capabilities.add");
    }
    return false;
}

bool podsec_capabilities_25(struct podsec_case *c)
{
    return podsec_is_windows(c) || podsec_capabilities_22(c);
}

// --- Volumes -------------------------------------------------------------------------------------

// Sources of volumes as upstream looks at them: a volume with an allowed source is good whatever
// else it has; else the first one it has names it.
#define SOURCE(field) offsetof(struct api_volume_source, field)
static const size_t allowed_sources[] = {
    SOURCE(config_map),
    SOURCE(csi),
    SOURCE(downward_api),
    SOURCE(empty_dir),
    SOURCE(ephemeral),
    SOURCE(image),
    SOURCE(persistent_volume_claim),
    SOURCE(projected),
    SOURCE(secret),
};
static const struct {
    size_t at;
    const char *name;
} refused_sources[] = {
    {SOURCE(host_path), "hostPath"},
    {SOURCE(gce_persistent_disk), "gcePersistentDisk"},
    {SOURCE(aws_elastic_block_store), "awsElasticBlockStore"},
    {SOURCE(git_repo), "gitRepo"},
    {SOURCE(nfs), "nfs"},
    {SOURCE(iscsi), "iscsi"},
    {SOURCE(glusterfs), "glusterfs"},
    {SOURCE(rbd), "rbd"},
    {SOURCE(flex_volume), "flexVolume"},
    {SOURCE(cinder), "cinder"},
    {SOURCE(cephfs), "cephfs"},
    {SOURCE(flocker), "flocker"},
    {SOURCE(fc), "fc"},
    {SOURCE(azure_file), "azureFile"},
    {SOURCE(vsphere_volume), "vsphereVolume"},
    {SOURCE(quobyte), "quobyte"},
    {SOURCE(azure_disk), "azureDisk"},
    {SOURCE(photon_persistent_disk), "photonPersistentDisk"},
    {SOURCE(portworx_volume), "portworxVolume"},
    {SOURCE(scale_io), "scaleIO"},
    {SOURCE(storageos), "storageos"},
};
#undef SOURCE

static bool volume_has(const struct api_volume_source *source, size_t at)
{
    return *(const void *const *)(const void *)((const char *)source + at) != NULL;
}

static bool volume_is_allowed(const struct api_volume_source *source)
{
    for (size_t i = 0; i < array_len(allowed_sources); i++)
        if (volume_has(source, allowed_sources[i]))
            return true;
    return false;
}

static struct str volume_type(const struct api_volume_source *source)
{
    for (size_t i = 0; i < array_len(refused_sources); i++)
        if (volume_has(source, refused_sources[i].at))
            return str_z(refused_sources[i].name);
    return STR("unknown");
}

bool podsec_volumes(struct podsec_case *c)
{
    struct podsec_names bad = {0}, types = {0};
    for (size_t i = 0; i < c->spec->volumes.n; i++) {
        const struct api_volume *v = &c->spec->volumes.p[i];
        if (volume_is_allowed(&v->volume_source))
            continue;
        podsec_add_name(c, &bad, v->name);
        podsec_add_name(c, &types, volume_type(&v->volume_source));
    }
    if (bad.n == 0)
        return true;
    podsec_sort_names(&types);
    c->reason = STR("restricted volume types");
    podsec_add_counted(c, "volume", "volumes", &bad);
    sbuf_addf(c->detail, " %s ", podsec_plural("uses", "use", bad.n));
    podsec_add_counted(c, "restricted volume type", "restricted volume types", &types);
    return false;
}

// --- Users ---------------------------------------------------------------------------------------

bool podsec_non_root_0(struct podsec_case *c)
{
    struct podsec_names bad = {0}, silent = {0};
    bool pod_says = c->security->has_run_as_non_root;
    bool pod_good = pod_says && c->security->run_as_non_root, pod_bad = pod_says && !pod_good;
    vec_foreach(&c->containers, it) {
        if (it->security->has_run_as_non_root && !it->security->run_as_non_root)
            podsec_add_name(c, &bad, it->name);
        if (!it->security->has_run_as_non_root && !pod_good)
            podsec_add_name(c, &silent, it->name);
    }
    c->reason = STR("runAsNonRoot != true");
    if (pod_bad || bad.n) {
        podsec_add_setters(c, pod_bad, &bad);
        sbuf_addz(c->detail, " must not set securityContext.runAsNonRoot=false");
        return false;
    }
    if (silent.n == 0)
        return true;
    sbuf_addz(c->detail, "pod or ");
    podsec_add_counted(c, "container", "containers", &silent);
    sbuf_addz(c->detail, " must set securityContext.runAsNonRoot=true");
    return false;
}

bool podsec_non_root_35(struct podsec_case *c)
{
    return podsec_in_user_namespace(c) || podsec_non_root_0(c);
}

bool podsec_user_23(struct podsec_case *c)
{
    struct podsec_names bad = {0};
    bool pod = c->security->has_run_as_user && c->security->run_as_user == 0;
    vec_foreach(&c->containers, it)
        if (it->security->has_run_as_user && it->security->run_as_user == 0)
            podsec_add_name(c, &bad, it->name);
    if (!pod && bad.n == 0)
        return true;
    c->reason = STR("runAsUser=0");
    podsec_add_setters(c, pod, &bad);
    sbuf_addz(c->detail, " must not set runAsUser=0");
    return false;
}

bool podsec_user_35(struct podsec_case *c)
{
    return podsec_in_user_namespace(c) || podsec_user_23(c);
}

// --- Seccomp -------------------------------------------------------------------------------------

bool podsec_seccomp_required_19(struct podsec_case *c)
{
    return podsec_seccomp_fields(c, true);
}

bool podsec_seccomp_required_25(struct podsec_case *c)
{
    return podsec_is_windows(c) || podsec_seccomp_required_19(c);
}
