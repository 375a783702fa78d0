// SPDX-License-Identifier: Apache-2.0
//
// Security settings of pods and containers: identities, profiles, kernel parameters, Windows.
#include "api/validate/validate_core.h"

#include "base/banned.h"

#define PROFILE_BYTES_MAX 4095
#define SYSCTL_BYTES_MAX  253

static const struct str profile_types[] = {STR_INIT("Localhost"), STR_INIT("RuntimeDefault"),
                                           STR_INIT("Unconfined")};

// --- Profiles ------------------------------------------------------------------------------------

static void check_seccomp(struct validator *v, const struct path *at,
                          const struct api_seccomp_profile *p)
{
    if (!p)
        return;
    const struct path *profile = AT(at, "localhostProfile");
    if (p->type.n == 0)
        cause_required(v->causes, AT(at, "type"),
                       STR("type is required when seccompProfile is set"));
    else
        validate_choice(v, AT(at, "type"), p->type, CHOICES(profile_types));
    bool local = str_eqz(p->type, "Localhost");
    if (local && !p->has_localhost_profile)
        cause_required(v->causes, profile, STR("must be set when seccomp type is Localhost"));
    else if (local)
        validate_descending_path(v, profile, p->localhost_profile);
    else if (p->has_localhost_profile)
        cause_invalid_json(v->causes, profile,
                           validate_show_internal_json(&api_seccomp_profile_type, p, scratch(v)),
                           STR("can only be set when seccomp type is Localhost"));
}

static void check_local_app_armor(struct validator *v, const struct path *at,
                                  const struct api_app_armor_profile *p)
{
    struct str trimmed = str_trim(p->localhost_profile);
    if (p->has_localhost_profile && trimmed.n != p->localhost_profile.n)
        cause_invalid(v->causes, at, p->localhost_profile,
                      STR("must not be padded with whitespace"));
    else if (trimmed.n == 0)
        cause_required(v->causes, at, STR("must be set when AppArmor type is Localhost"));
    if (p->localhost_profile.n > PROFILE_BYTES_MAX)
        cause_too_long(v->causes, at, PROFILE_BYTES_MAX);
}

static void check_app_armor(struct validator *v, const struct path *at,
                            const struct api_app_armor_profile *p)
{
    if (!p)
        return;
    const struct path *profile = AT(at, "localhostProfile");
    if (p->type.n == 0)
        cause_required(v->causes, AT(at, "type"),
                       STR("type is required when appArmorProfile is set"));
    else if (str_eqz(p->type, "Localhost"))
        check_local_app_armor(v, profile, p);
    else if (!validate_is_choice(CHOICES(profile_types), p->type))
        validate_choice(v, AT(at, "type"), p->type, CHOICES(profile_types));
    else if (p->has_localhost_profile)
        cause_invalid(v->causes, profile, p->localhost_profile,
                      STR("can only be set when AppArmor type is Localhost"));
}

// --- Windows -------------------------------------------------------------------------------------

static bool has_control(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
            return true;
    return false;
}

static bool has_any(struct str s, const char *set)
{
    for (size_t i = 0; i < s.n; i++)
        if (str_find_char(str_z(set), s.p[i]) >= 0)
            return true;
    return false;
}

static bool good_domain(struct str s)
{
    bool netbios = s.n > 0 && s.n <= 15 && s.p[0] != '.' && !has_any(s, "\\/:*?\"<>|");
    char lowered[256];
    for (size_t i = 0; i < s.n && i < sizeof(lowered); i++)
        lowered[i] = s.p[i] >= 'A' && s.p[i] <= 'Z' ? (char)(s.p[i] + ('a' - 'A')) : s.p[i];
    return netbios || (s.n < sizeof(lowered) && name_is_dns_subdomain(str_make(lowered, s.n)));
}

// What is wrong with the name of a Windows user, NULL when nothing is.
static const char *user_name_fault(struct str name)
{
    struct str domain, user, more;
    if (name.n == 0)
        return "runAsUserName cannot be an empty string";
    if (has_control(name))
        return "runAsUserName cannot contain control characters";
    bool has_domain = str_cut(name, '\\', &domain, &user);
    if (has_domain && str_cut(user, '\\', &domain, &more))
        return "runAsUserName cannot contain more than one backslash";
    if (has_domain && !good_domain(domain))
        return "runAsUserName's Domain doesn't match the NetBios nor the DNS format";
    if (!has_domain)
        user = name;
    if (user.n == 0)
        return "runAsUserName's User cannot be empty";
    if (user.n > 104)
        return "runAsUserName's User length must not be longer than 104 characters";
    bool blank = true;
    for (size_t i = 0; i < user.n; i++)
        blank = blank && (user.p[i] == '.' || user.p[i] == ' ');
    if (blank)
        return "runAsUserName's User cannot contain only periods or spaces";
    if (has_any(user, "\"/\\:;|=,+*?<>@[]"))
        return "runAsUserName's User cannot contain the following characters: "
               "\"/\\:;|=,+*?<>@[]";
    return NULL;
}

static void check_windows(struct validator *v, const struct path *at,
                          const struct api_windows_security_context_options *w)
{
    if (!w)
        return;
    if (w->has_gmsa_credential_spec_name)
        validate_named(v, AT(at, "gmsaCredentialSpecName"), w->gmsa_credential_spec_name,
                       name_dns_subdomain);
    if (w->has_gmsa_credential_spec && w->gmsa_credential_spec.n == 0)
        cause_invalid(v->causes, AT(at, "gmsaCredentialSpec"), w->gmsa_credential_spec,
                      STR("gmsaCredentialSpec cannot be an empty string"));
    else if (w->gmsa_credential_spec.n > (size_t)64 * 1024)
        cause_invalid(v->causes, AT(at, "gmsaCredentialSpec"), w->gmsa_credential_spec,
                      STR("gmsaCredentialSpec size must be under 64 KiB"));
    const char *fault = w->has_run_as_user_name ? user_name_fault(w->run_as_user_name) : NULL;
    if (fault)
        cause_invalid(v->causes, AT(at, "runAsUserName"), w->run_as_user_name, str_z(fault));
}

// --- Containers ----------------------------------------------------------------------------------

static void check_escalation(struct validator *v, const struct path *at,
                             const struct api_security_context *sc)
{
    if (!sc->has_allow_privilege_escalation || sc->allow_privilege_escalation)
        return;
    struct str shown = validate_show_internal_json(&api_security_context_type, sc, scratch(v));
    if (sc->has_privileged && sc->privileged)
        cause_invalid_json(
            v->causes, at, shown,
            STR("cannot set `allowPrivilegeEscalation` to false and `privileged` to true"));
    for (size_t i = 0; sc->capabilities && i < sc->capabilities->add.n; i++)
        if (str_eqz(sc->capabilities->add.p[i], "CAP_SYS_ADMIN"))
            cause_invalid_json(v->causes, at, shown,
                               STR("cannot set `allowPrivilegeEscalation` to false and "
                                   "`capabilities.Add` CAP_SYS_ADMIN"));
}

void validate_security_context(struct pod_rules *p, const struct path *at,
                               const struct api_security_context *sc)
{
    static const struct str mounts[] = {STR_INIT("Default"), STR_INIT("Unmasked")};
    struct validator *v = p->v;
    if (!sc)
        return;
    validate_user_id(v, AT(at, "runAsUser"), sc->has_run_as_user, sc->run_as_user);
    validate_user_id(v, AT(at, "runAsGroup"), sc->has_run_as_group, sc->run_as_group);
    if (sc->has_proc_mount) {
        validate_choice(v, AT(at, "procMount"), sc->proc_mount, CHOICES(mounts));
        if (p->host_users && str_eqz(sc->proc_mount, "Unmasked"))
            cause_invalid(v->causes, AT(at, "procMount"), sc->proc_mount,
                          STR("`hostUsers` must be false to use `Unmasked`"));
    }
    check_seccomp(v, AT(at, "seccompProfile"), sc->seccomp_profile);
    check_escalation(v, at, sc);
    check_windows(v, AT(at, "windowsOptions"), sc->windows_options);
    check_app_armor(v, AT(at, "appArmorProfile"), sc->app_armor_profile);
}

// --- Pods ----------------------------------------------------------------------------------------

static bool good_sysctl(struct str name)
{
    if (name.n == 0 || name.n > SYSCTL_BYTES_MAX)
        return false;
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i], before = i ? name.p[i - 1] : '.';
        char after = i + 1 < name.n ? name.p[i + 1] : '.';
        bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        bool edge = before == '.' || before == '/' || after == '.' || after == '/';
        if (c == '.' || c == '/')
            edge = i == 0 || i + 1 == name.n || before == '.' || before == '/';
        else if (c != '-' && c != '_')
            edge = false;
        if ((!word && c != '-' && c != '_' && c != '.' && c != '/') || (!word && edge))
            return false;
    }
    return true;
}

// The namespace a kernel parameter belongs to: network, IPC, or none.
static const char *sysctl_owner(struct str name)
{
    static const struct str ipc[] = {STR_INIT("kernel.sem")};
    char dotted[SYSCTL_BYTES_MAX + 1];
    struct str s = name;
    // With slashes as separators, dots are part of a name, and the other way round.
    ptrdiff_t slash = str_find_char(name, '/'), dot = str_find_char(name, '.');
    if (slash >= 0 && (dot < 0 || slash < dot) && name.n < sizeof(dotted)) {
        for (size_t i = 0; i < name.n; i++)
            dotted[i] = name.p[i] == '/' ? '.' : name.p[i] == '.' ? '/' : name.p[i];
        s = str_make(dotted, name.n);
    }
    if (str_starts(s, STR("net.")))
        return "net";
    if (validate_is_choice(CHOICES(ipc), s) || str_starts(s, STR("kernel.shm")) ||
        str_starts(s, STR("kernel.msg")) || str_starts(s, STR("fs.mqueue.")))
        return "ipc";
    return "";
}

static void check_sysctls(struct pod_rules *p, const struct path *list,
                          const struct api_sysctl_array *sysctls)
{
    struct validator *v = p->v;
    cleanup_seen struct seen names = {0};
    for (size_t i = 0; i < sysctls->n && !causes_full(v->causes); i++) {
        struct str name = sysctls->p[i].name;
        const struct path *at = AT(AT_ITEM(list, i), "name");
        bool again = seen_add(&names, name);
        if (name.n == 0)
            cause_required(v->causes, at, STR(""));
        else if (!good_sysctl(name))
            cause_invalid(v->causes, at, name,
                          STR("must have at most 253 characters and match regex "
                              "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9]"
                              ")?$"));
        else if (again)
            cause_duplicate(v->causes, at, name);
        const char *owner = sysctl_owner(name);
        if (p->spec->host_network && str_eqz(str_z(owner), "net"))
            cause_invalid(v->causes, at, name,
                          STR("may not be specified when 'hostNetwork' is true"));
        else if (p->spec->host_ipc && str_eqz(str_z(owner), "ipc"))
            cause_invalid(v->causes, at, name, STR("may not be specified when 'hostIPC' is true"));
    }
}

void validate_pod_security(struct pod_rules *p, const struct path *spec)
{
    static const struct str changes[] = {STR_INIT("Always"), STR_INIT("OnRootMismatch")};
    static const struct str groups[] = {STR_INIT("Merge"), STR_INIT("Strict")};
    static const struct str labels[] = {STR_INIT("MountOption"), STR_INIT("Recursive")};
    const struct api_pod_security_context *sc = p->spec->security_context;
    struct validator *v = p->v;
    const struct path *at = AT(spec, "securityContext");
    if (!sc)
        return;
    validate_user_id(v, AT(at, "fsGroup"), sc->has_fs_group, sc->fs_group);
    validate_user_id(v, AT(at, "runAsUser"), sc->has_run_as_user, sc->run_as_user);
    validate_user_id(v, AT(at, "runAsGroup"), sc->has_run_as_group, sc->run_as_group);
    for (size_t i = 0; i < sc->supplemental_groups.n; i++)
        validate_user_id(v, AT_ITEM(AT(at, "supplementalGroups"), i), true,
                         sc->supplemental_groups.p[i]);
    check_sysctls(p, AT(at, "sysctls"), &sc->sysctls);
    if (sc->has_fs_group_change_policy)
        validate_choice(v, AT(at, "fsGroupChangePolicy"), sc->fs_group_change_policy,
                        CHOICES(changes));
    check_seccomp(v, AT(at, "seccompProfile"), sc->seccomp_profile);
    check_windows(v, AT(at, "windowsOptions"), sc->windows_options);
    check_app_armor(v, AT(at, "appArmorProfile"), sc->app_armor_profile);
    if (sc->has_supplemental_groups_policy)
        validate_choice(v, AT(at, "supplementalGroupsPolicy"), sc->supplemental_groups_policy,
                        CHOICES(groups));
    if (sc->has_se_linux_change_policy)
        validate_choice(v, AT(at, "seLinuxChangePolicy"), sc->se_linux_change_policy,
                        CHOICES(labels));
}

// --- Annotations that are older than the fields --------------------------------------------------

static bool good_seccomp_name(struct str p)
{
    return str_eqz(p, "runtime/default") || str_eqz(p, "docker/default") ||
           str_eqz(p, "unconfined");
}

static void check_seccomp_annotation(struct validator *v, const struct path *at, struct str profile)
{
    static const struct str local = STR_INIT("localhost/");
    if (str_starts(profile, local))
        validate_descending_path(v, at, str_from(profile, local.n));
    else if (!good_seccomp_name(profile))
        cause_invalid(v->causes, at, profile, STR("must be a valid seccomp profile"));
}

static bool has_container(const struct api_pod_spec *s, struct str name)
{
    bool found = false;
    for (size_t i = 0; i < s->containers.n; i++)
        found = found || str_eq(s->containers.p[i].name, name);
    for (size_t i = 0; i < s->init_containers.n; i++)
        found = found || str_eq(s->init_containers.p[i].name, name);
    for (size_t i = 0; i < s->ephemeral_containers.n; i++)
        found = found || str_eq(s->ephemeral_containers.p[i].ephemeral_container_common.name, name);
    return found;
}

static void check_app_armor_annotation(struct pod_rules *p, const struct path *at, struct str key,
                                       struct str profile, struct str container)
{
    struct validator *v = p->v;
    if (!has_container(p->spec, container))
        cause_invalid(v->causes, AT_KEY(at, key), container, STR("container not found"));
    if (profile.n == 0 || str_eqz(profile, "runtime/default") || str_eqz(profile, "unconfined") ||
        str_starts(profile, STR("localhost/")))
        return;
    cleanup_sbuf struct sbuf b = {0};
    sbuf_addz(&b, "invalid AppArmor profile name: ");
    sbuf_add_quoted(&b, profile);
    cause_invalid(v->causes, AT_KEY(at, key), profile, sbuf_str(&b));
}

void validate_security_annotations(struct pod_rules *p, const struct path *at)
{
    static const struct str seccomp = STR_INIT("container.seccomp.security.alpha.kubernetes.io/");
    static const struct str app_armor = STR_INIT("container.apparmor.security.beta.kubernetes.io/");
    for (size_t i = 0; i < p->meta->annotations.n; i++) {
        struct str key = p->meta->annotations.p[i].key, value = p->meta->annotations.p[i].value;
        if (str_eqz(key, "seccomp.security.alpha.kubernetes.io/pod") || str_starts(key, seccomp))
            check_seccomp_annotation(p->v, AT_NAME(at, key), value);
        if (str_starts(key, app_armor))
            check_app_armor_annotation(p, at, key, value, str_from(key, app_armor.n));
    }
}

// --- Annotations and fields that say the same ----------------------------------------------------

struct profile {
    struct str type;
    bool has_name;
    struct str name; // of a local one
};

// Whether annotation and field agree; word is the name of the profile kind in messages.
static void validate_security_profile_match(struct validator *v, const struct path *at,
                                            struct str annotation, const struct profile *p,
                                            const char *word)
{
    static const struct str local = STR_INIT("localhost/");
    bool seccomp = str_eqz(str_z(word), "seccomp");
    bool same = true;
    if (str_eqz(p->type, "Unconfined"))
        same = str_eqz(annotation, "unconfined");
    else if (str_eqz(p->type, "RuntimeDefault"))
        same = str_eqz(annotation, "runtime/default") ||
               (seccomp && str_eqz(annotation, "docker/default"));
    else if (str_eqz(p->type, "Localhost"))
        same = str_starts(annotation, local);
    if (!same)
        cause_forbidden(v->causes, AT(at, "type"),
                        arena_strf(scratch(v), "%s type in annotation and field must match", word));
    else if (str_eqz(p->type, "Localhost") &&
             (!p->has_name || !str_eq(str_from(annotation, local.n), p->name)))
        cause_forbidden(v->causes, AT(at, "localhostProfile"),
                        arena_strf(scratch(v), "%s profile in annotation and field must match",
                                   word));
}

static bool find_annotation(const struct api_object_meta *meta, struct str key, struct str *ret)
{
    for (size_t i = 0; i < meta->annotations.n; i++) {
        if (str_eq(meta->annotations.p[i].key, key)) {
            *ret = meta->annotations.p[i].value;
            return true;
        }
    }
    return false;
}

static void check_seccomp_match(struct pod_rules *p, const struct path *at, struct str key,
                                const struct api_seccomp_profile *field)
{
    struct str annotation;
    if (!field || !find_annotation(p->meta, key, &annotation))
        return;
    const struct profile profile = {field->type, field->has_localhost_profile,
                                    field->localhost_profile};
    validate_security_profile_match(p->v, AT(AT(at, "securityContext"), "seccompProfile"),
                                    annotation, &profile, "seccomp");
}

static void check_container_match(struct pod_rules *p, const struct path *at,
                                  const struct api_container *c)
{
    const struct api_security_context *sc = c->security_context;
    const struct api_pod_security_context *whole = p->spec->security_context;
    struct arena *arena = scratch(p->v);
    struct str annotation;
    check_seccomp_match(p, at,
                        arena_strf(arena, "container.seccomp.security.alpha.kubernetes.io/%.*s",
                                   STR_ARG(c->name)),
                        sc ? sc->seccomp_profile : NULL);
    const struct api_app_armor_profile *armor = whole ? whole->app_armor_profile : NULL;
    if (sc && sc->app_armor_profile)
        armor = sc->app_armor_profile;
    bool windows = p->spec->os && str_eqz(p->spec->os->name, "windows");
    struct str key =
        arena_strf(arena, "container.apparmor.security.beta.kubernetes.io/%.*s", STR_ARG(c->name));
    if (!armor || windows || !find_annotation(p->meta, key, &annotation))
        return;
    const struct profile profile = {armor->type, armor->has_localhost_profile,
                                    armor->localhost_profile};
    validate_security_profile_match(p->v, AT(AT(at, "securityContext"), "appArmorProfile"),
                                    annotation, &profile, "apparmor");
}

void validate_profiles_match(struct pod_rules *p, const struct path *spec)
{
    const struct api_pod_security_context *sc = p->spec->security_context;
    check_seccomp_match(p, spec, STR("seccomp.security.alpha.kubernetes.io/pod"),
                        sc ? sc->seccomp_profile : NULL);
    validate_each_container(p, spec, check_container_match);
}
