// SPDX-License-Identifier: Apache-2.0
//
// The table of Pod Security checks, and a pod's way through those of a level and version. Checks
// run in upstream's order, baseline before restricted and each by name, because messages list
// refusals in that order.
#include <assert.h>

#include "api/podsec/podsec_int.h"

#include "base/banned.h"

#define REVISIONS_MAX 5

// A check and its revisions, each in force from a minor version until that of the next. A
// restricted check that is in force takes the place of the baseline check that it names.
struct podsec_check {
    const char *id;
    enum podsec_level level;
    const char *replaces;
    struct {
        int64_t since;
        podsec_check_fn fn; // NULL behind the last one
    } revisions[REVISIONS_MAX + 1];
};

static const struct podsec_check checks[] = {
    {"appArmorProfile", PODSEC_BASELINE, NULL, {{0, podsec_app_armor}}},
    {"capabilities_baseline", PODSEC_BASELINE, NULL, {{0, podsec_added_capabilities}}},
    {"hostNamespaces", PODSEC_BASELINE, NULL, {{0, podsec_host_namespaces}}},
    {"hostPathVolumes", PODSEC_BASELINE, NULL, {{0, podsec_host_path}}},
    {"hostPorts", PODSEC_BASELINE, NULL, {{0, podsec_host_ports}}},
    {"hostProbesAndHostLifecycle", PODSEC_BASELINE, NULL, {{34, podsec_probe_hosts}}},
    {"privileged", PODSEC_BASELINE, NULL, {{0, podsec_privileged}}},
    {"procMount", PODSEC_BASELINE, NULL, {{0, podsec_proc_mount}, {35, podsec_proc_mount_35}}},
    {"seLinuxOptions", PODSEC_BASELINE, NULL, {{0, podsec_se_linux_0}, {31, podsec_se_linux_31}}},
    {"seccompProfile_baseline",
     PODSEC_BASELINE,
     NULL,
     {{0, podsec_seccomp_0}, {19, podsec_seccomp_19}}},
    {"sysctls",
     PODSEC_BASELINE,
     NULL,
     {{0, podsec_sysctls_0},
      {27, podsec_sysctls_27},
      {29, podsec_sysctls_29},
      {32, podsec_sysctls_32},
      {37, podsec_sysctls_37}}},
    {"windowsHostProcess", PODSEC_BASELINE, NULL, {{0, podsec_host_process}}},
    {"allowPrivilegeEscalation",
     PODSEC_RESTRICTED,
     NULL,
     {{8, podsec_escalation_8}, {25, podsec_escalation_25}}},
    {"capabilities_restricted",
     PODSEC_RESTRICTED,
     "capabilities_baseline",
     {{22, podsec_capabilities_22}, {25, podsec_capabilities_25}}},
    {"procMount_restricted", PODSEC_RESTRICTED, "procMount", {{35, podsec_proc_mount}}},
    {"restrictedVolumes", PODSEC_RESTRICTED, "hostPathVolumes", {{0, podsec_volumes}}},
    {"runAsNonRoot", PODSEC_RESTRICTED, NULL, {{0, podsec_non_root_0}, {35, podsec_non_root_35}}},
    {"runAsUser", PODSEC_RESTRICTED, NULL, {{23, podsec_user_23}, {35, podsec_user_35}}},
    {"seccompProfile_restricted",
     PODSEC_RESTRICTED,
     "seccompProfile_baseline",
     {{19, podsec_seccomp_required_19}, {25, podsec_seccomp_required_25}}},
};

static podsec_check_fn judge_revision_of(const struct podsec_check *check, int64_t minor)
{
    podsec_check_fn fn = NULL;
    for (size_t i = 0; check->revisions[i].fn && check->revisions[i].since <= minor; i++)
        fn = check->revisions[i].fn;
    return fn;
}

static bool judge_is_replaced(const struct podsec_check *check, int64_t minor)
{
    for (size_t i = 0; i < array_len(checks); i++)
        if (checks[i].replaces && str_eqz(str_z(check->id), checks[i].replaces) &&
            judge_revision_of(&checks[i], minor))
            return true;
    return false;
}

// --- The pod -------------------------------------------------------------------------------------

static_assert(sizeof(struct api_container) == sizeof(struct api_ephemeral_container_common) &&
                  offsetof(struct api_container, security_context) ==
                      offsetof(struct api_ephemeral_container_common, security_context),
              "an ephemeral container is looked at as a container");

static const struct api_container *judge_debugger(const struct api_ephemeral_container *e)
{
    return (const struct api_container *)(const void *)&e->ephemeral_container_common;
}

static void judge_add_container(struct podsec_case *c, const struct api_container *container)
{
    static const struct api_security_context nothing_set;
    const struct podsec_container one = {
        .name = container->name,
        .security = container->security_context ? container->security_context : &nothing_set,
        .all = container};
    vec_push_arena(c->arena, &c->containers, one);
}

static void judge_list_containers(struct podsec_case *c)
{
    const struct api_pod_spec *s = c->spec;
    for (size_t i = 0; i < s->init_containers.n; i++)
        judge_add_container(c, &s->init_containers.p[i]);
    for (size_t i = 0; i < s->containers.n; i++)
        judge_add_container(c, &s->containers.p[i]);
    for (size_t i = 0; i < s->ephemeral_containers.n; i++)
        judge_add_container(c, judge_debugger(&s->ephemeral_containers.p[i]));
}

// --- Judgement -----------------------------------------------------------------------------------

static void judge_note_refusal(const struct podsec_case *c, struct sbuf *reasons,
                               struct sbuf *details)
{
    sbuf_addz(reasons, reasons->n ? ", " : "");
    sbuf_add(reasons, c->reason);
    sbuf_addz(details, details->n ? ", " : "");
    sbuf_add(details, c->reason);
    if (c->detail->n)
        sbuf_addf(details, " (%.*s)", STR_ARG(sbuf_str(c->detail)));
}

struct podsec_verdict podsec_judge(const struct podsec_standard *s,
                                   const struct api_object_meta *meta,
                                   const struct api_pod_spec *spec, struct arena *arena)
{
    static const struct api_pod_security_context nothing_set;
    cleanup_sbuf struct sbuf reasons = {0}, details = {0}, detail = {0};
    struct podsec_case c = {.annotations = &meta->annotations,
                            .spec = spec,
                            .security =
                                spec->security_context ? spec->security_context : &nothing_set,
                            .arena = arena,
                            .detail = &detail};
    int64_t minor =
        s->minor == PODSEC_LATEST || s->minor > PODSEC_NEWEST ? PODSEC_NEWEST : s->minor;
    if (s->level == PODSEC_PRIVILEGED)
        return (struct podsec_verdict){.allowed = true};
    judge_list_containers(&c);
    for (size_t i = 0; i < array_len(checks); i++) {
        podsec_check_fn fn = judge_revision_of(&checks[i], minor);
        if (!fn || checks[i].level > s->level ||
            (s->level == PODSEC_RESTRICTED && judge_is_replaced(&checks[i], minor)))
            continue;
        sbuf_clear(&detail);
        if (!fn(&c))
            judge_note_refusal(&c, &reasons, &details);
    }
    return (struct podsec_verdict){.allowed = reasons.n == 0,
                                   .reasons = arena_str(arena, sbuf_str(&reasons)),
                                   .details = arena_str(arena, sbuf_str(&details))};
}

// --- Updates and templates -----------------------------------------------------------------------

static bool judge_images_differ(const struct api_container_array *now,
                                const struct api_container_array *old)
{
    bool differ = now->n != old->n;
    for (size_t i = 0; !differ && i < now->n; i++)
        differ = !str_eq(now->p[i].image, old->p[i].image);
    return differ;
}

// judge_debugger_is_new: it was not there, or with another image. Validation lets ephemeral
// containers only be appended, so the one at the same place is nearly always the one of that name.
static bool judge_debugger_is_new(const struct api_ephemeral_container_array *old, size_t at,
                                  const struct api_container *c)
{
    size_t i = at < old->n && str_eq(judge_debugger(&old->p[at])->name, c->name) ? at : 0;
    while (i < old->n && !str_eq(judge_debugger(&old->p[i])->name, c->name))
        i++;
    return i == old->n || !str_eq(judge_debugger(&old->p[i])->image, c->image);
}

bool podsec_update_matters(const struct api_pod_spec *now, const struct api_pod_spec *old)
{
    bool matters = judge_images_differ(&now->containers, &old->containers) ||
                   judge_images_differ(&now->init_containers, &old->init_containers);
    for (size_t i = 0; !matters && i < now->ephemeral_containers.n; i++)
        matters = judge_debugger_is_new(&old->ephemeral_containers, i,
                                        judge_debugger(&now->ephemeral_containers.p[i]));
    return matters;
}

static const struct api_pod_template_spec *judge_template_of(const struct api_object *object)
{
    const struct api_type *t = object->kind->type;
    if (t == &api_deployment_type)
        return &((const struct api_deployment *)object->value)->spec.template;
    if (t == &api_replica_set_type)
        return &((const struct api_replica_set *)object->value)->spec.template;
    if (t == &api_stateful_set_type)
        return &((const struct api_stateful_set *)object->value)->spec.template;
    if (t == &api_daemon_set_type)
        return &((const struct api_daemon_set *)object->value)->spec.template;
    if (t == &api_job_type)
        return &((const struct api_job *)object->value)->spec.template;
    if (t == &api_cron_job_type)
        return &((const struct api_cron_job *)object->value)->spec.job_template.spec.template;
    if (t == &api_pod_template_type)
        return &((const struct api_pod_template *)object->value)->template;
    if (t == &api_replication_controller_type)
        return ((const struct api_replication_controller *)object->value)->spec.template;
    return NULL;
}

bool podsec_template(const struct api_object *object, const struct api_object_meta **ret_meta,
                     const struct api_pod_spec **ret_spec)
{
    const struct api_pod_template_spec *template = judge_template_of(object);
    if (!template)
        return false;
    *ret_meta = &template->metadata;
    *ret_spec = &template->spec;
    return true;
}
