// SPDX-License-Identifier: Apache-2.0
//
// Baseline checks on what a container may do: privileges, capabilities, AppArmor, SELinux, seccomp,
// the masks of /proc.
#include "api/podsec/podsec_int.h"

#include "base/banned.h"

bool podsec_privileged(struct podsec_case *c)
{
    struct podsec_names bad = {0};
    vec_foreach(&c->containers, it)
        if (it->security->has_privileged && it->security->privileged)
            podsec_add_name(c, &bad, it->name);
    if (bad.n == 0)
        return true;
    c->reason = STR("privileged");
    podsec_add_counted(c, "container", "containers", &bad);
    sbuf_addz(c->detail, " must not set securityContext.privileged=true");
    return false;
}

bool podsec_added_capabilities(struct podsec_case *c)
{
    static const char *const usual[] = {"AUDIT_WRITE", "CHOWN",  "DAC_OVERRIDE", "FOWNER",
                                        "FSETID",      "KILL",   "MKNOD",        "NET_BIND_SERVICE",
                                        "SETFCAP",     "SETGID", "SETPCAP",      "SETUID",
                                        "SYS_CHROOT"};
    struct podsec_names bad = {0}, added = {0};
    vec_foreach(&c->containers, it) {
        const struct api_capabilities *caps = it->security->capabilities;
        size_t before = added.n;
        for (size_t i = 0; caps && i < caps->add.n; i++)
            if (!str_is_one_of(caps->add.p[i], usual, array_len(usual)))
                podsec_add_name(c, &added, caps->add.p[i]);
        if (added.n > before)
            podsec_add_name(c, &bad, it->name);
    }
    if (bad.n == 0)
        return true;
    podsec_sort_names(&added);
    c->reason = STR("non-default capabilities");
    podsec_add_counted(c, "container", "containers", &bad);
    sbuf_addz(c->detail, " must not include ");
    podsec_add_quoted(c, &added);
    sbuf_addz(c->detail, " in securityContext.capabilities.add");
    return false;
}

bool podsec_proc_mount(struct podsec_case *c)
{
    struct podsec_names bad = {0}, types = {0};
    vec_foreach(&c->containers, it) {
        if (!it->security->has_proc_mount || str_eqz(it->security->proc_mount, "Default"))
            continue;
        podsec_add_name(c, &bad, it->name);
        podsec_add_name(c, &types, it->security->proc_mount);
    }
    if (bad.n == 0)
        return true;
    podsec_sort_names(&types);
    c->reason = STR("procMount");
    podsec_add_counted(c, "container", "containers", &bad);
    sbuf_addz(c->detail, " must not set securityContext.procMount to ");
    podsec_add_quoted(c, &types);
    return false;
}

bool podsec_proc_mount_35(struct podsec_case *c)
{
    return podsec_in_user_namespace(c) || podsec_proc_mount(c);
}

// --- AppArmor ------------------------------------------------------------------------------------

static bool armor_is_bad(const struct api_app_armor_profile *p)
{
    return p && !str_eqz(p->type, "RuntimeDefault") && !str_eqz(p->type, "Localhost");
}

static struct str baseline_show_annotation(struct podsec_case *c, struct str key, struct str value)
{
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text, "%.*s=", STR_ARG(key));
    sbuf_add_quoted(&text, value);
    return arena_str(c->arena, sbuf_str(&text));
}

// armor_list_annotations adds the beta annotations that upstream read before the fields existed.
static void armor_list_annotations(struct podsec_case *c, struct podsec_names *out)
{
    for (size_t i = 0; i < c->annotations->n; i++) {
        struct str key = c->annotations->p[i].key, value = c->annotations->p[i].value;
        if (str_starts(key, STR("container.apparmor.security.beta.kubernetes.io/")) && value.n &&
            !str_eqz(value, "runtime/default") && !str_starts(value, STR("localhost/")))
            podsec_add_name(c, out, baseline_show_annotation(c, key, value));
    }
    podsec_sort_names(out);
}

bool podsec_app_armor(struct podsec_case *c)
{
    struct podsec_names bad = {0}, values = {0}, annotations = {0};
    bool pod = armor_is_bad(c->security->app_armor_profile);
    if (pod)
        podsec_add_name(c, &values, c->security->app_armor_profile->type);
    vec_foreach(&c->containers, it) {
        if (!armor_is_bad(it->security->app_armor_profile))
            continue;
        podsec_add_name(c, &bad, it->name);
        podsec_add_name(c, &values, it->security->app_armor_profile->type);
    }
    armor_list_annotations(c, &annotations);
    if (!pod && bad.n == 0 && annotations.n == 0)
        return true;
    podsec_sort_names(&values);
    podsec_add_setters(c, pod, &bad);
    if (annotations.n)
        sbuf_addf(c->detail, "%s%s", c->detail->n ? " and " : "",
                  podsec_plural("annotation", "annotations", annotations.n));
    for (size_t i = 0; i < annotations.n; i++)
        podsec_add_name(c, &values, annotations.p[i]);
    c->reason =
        values.n == 1 ? STR("forbidden AppArmor profile") : STR("forbidden AppArmor profiles");
    sbuf_addz(c->detail, " must not set AppArmor profile type to ");
    podsec_add_quoted(c, &values);
    return false;
}

// --- SELinux -------------------------------------------------------------------------------------

struct selinux_findings {
    size_t types_allowed; // of the list below
    struct podsec_names types;
    bool user, role;
};

static bool selinux_is_bad(struct podsec_case *c, const struct api_se_linux_options *o,
                           struct selinux_findings *found)
{
    static const char *const types[] = {"", "container_t", "container_init_t", "container_kvm_t",
                                        "container_engine_t"};
    if (!o)
        return false;
    bool type = !str_is_one_of(o->type, types, found->types_allowed);
    if (type)
        podsec_add_name(c, &found->types, o->type);
    found->user |= o->user.n > 0;
    found->role |= o->role.n > 0;
    return type || o->user.n || o->role.n;
}

static bool selinux_check(struct podsec_case *c, size_t types_allowed)
{
    struct selinux_findings found = {.types_allowed = types_allowed};
    struct podsec_names bad = {0};
    bool pod = selinux_is_bad(c, c->security->se_linux_options, &found);
    vec_foreach(&c->containers, it)
        if (selinux_is_bad(c, it->security->se_linux_options, &found))
            podsec_add_name(c, &bad, it->name);
    if (!pod && bad.n == 0)
        return true;
    podsec_sort_names(&found.types);
    c->reason = STR("seLinuxOptions");
    podsec_add_setters(c, pod, &bad);
    sbuf_addz(c->detail, " set forbidden securityContext.seLinuxOptions: ");
    if (found.types.n)
        podsec_add_counted(c, "type", "types", &found.types);
    if (found.user)
        sbuf_addf(c->detail, "%suser may not be set", found.types.n ? "; " : "");
    if (found.role)
        sbuf_addf(c->detail, "%srole may not be set", found.types.n || found.user ? "; " : "");
    return false;
}

bool podsec_se_linux_0(struct podsec_case *c)
{
    return selinux_check(c, 4);
}

bool podsec_se_linux_31(struct podsec_case *c)
{
    return selinux_check(c, 5);
}

// --- Seccomp -------------------------------------------------------------------------------------

static void seccomp_check_annotation(struct podsec_case *c, struct str key,
                                     struct podsec_names *bad)
{
    struct str value;
    if (podsec_annotation(c, key, &value) && !str_eqz(value, "runtime/default") &&
        !str_eqz(value, "docker/default") && !str_starts(value, STR("localhost/")))
        podsec_add_name(c, bad, baseline_show_annotation(c, key, value));
}

bool podsec_seccomp_0(struct podsec_case *c)
{
    struct podsec_names bad = {0};
    seccomp_check_annotation(c, STR("seccomp.security.alpha.kubernetes.io/pod"), &bad);
    vec_foreach(&c->containers, it)
        seccomp_check_annotation(c,
                                 arena_strf(c->arena,
                                            "container.seccomp.security.alpha.kubernetes.io/%.*s",
                                            STR_ARG(it->name)),
                                 &bad);
    if (bad.n == 0)
        return true;
    podsec_sort_names(&bad);
    c->reason = STR("seccompProfile");
    sbuf_addf(c->detail, "forbidden %s ", podsec_plural("annotation", "annotations", bad.n));
    for (size_t i = 0; i < bad.n; i++)
        sbuf_addf(c->detail, "%s%.*s", i ? ", " : "", STR_ARG(bad.p[i]));
    return false;
}

static bool seccomp_is_good(const struct api_seccomp_profile *p)
{
    return p && (str_eqz(p->type, "RuntimeDefault") || str_eqz(p->type, "Localhost"));
}

bool podsec_seccomp_fields(struct podsec_case *c, bool required)
{
    const struct api_seccomp_profile *of_pod = c->security->seccomp_profile;
    struct podsec_names bad = {0}, missing = {0}, values = {0};
    bool pod_good = seccomp_is_good(of_pod), pod_bad = of_pod && !pod_good;
    if (pod_bad)
        podsec_add_name(c, &values, of_pod->type);
    vec_foreach(&c->containers, it) {
        const struct api_seccomp_profile *p = it->security->seccomp_profile;
        if (!p && !pod_good)
            podsec_add_name(c, &missing, it->name);
        if (!p || seccomp_is_good(p))
            continue;
        podsec_add_name(c, &bad, it->name);
        podsec_add_name(c, &values, p->type);
    }
    c->reason = STR("seccompProfile");
    if (pod_bad || bad.n) {
        podsec_sort_names(&values);
        podsec_add_setters(c, pod_bad, &bad);
        sbuf_addz(c->detail, " must not set securityContext.seccompProfile.type to ");
        podsec_add_quoted(c, &values);
        return false;
    }
    if (!required || missing.n == 0)
        return true;
    sbuf_addz(c->detail, "pod or ");
    podsec_add_counted(c, "container", "containers", &missing);
    sbuf_addz(c->detail, " must set securityContext.seccompProfile.type to \"RuntimeDefault\" or "
                         "\"Localhost\"");
    return false;
}

bool podsec_seccomp_19(struct podsec_case *c)
{
    return podsec_seccomp_fields(c, false);
}
