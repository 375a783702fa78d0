// SPDX-License-Identifier: Apache-2.0
//
// A pod under judgement and the texts of what is against it. Private to src/api/podsec.
#ifndef API_PODSEC_PODSEC_INT_H
#define API_PODSEC_PODSEC_INT_H

#include "api/podsec.h"
#include "base/vec.h"

struct podsec_names VEC(struct str);

// What the checks read of a container of any kind.
struct podsec_container {
    struct str name;
    const struct api_security_context *security; // never NULL
    const struct api_container *all;
};

struct podsec_case {
    const struct api_str_map *annotations;
    const struct api_pod_spec *spec;
    const struct api_pod_security_context *security; // never NULL
    struct VEC(struct podsec_container) containers;  // init, ordinary, ephemeral
    struct arena *arena;
    struct str reason;   // of the check that refuses
    struct sbuf *detail; // empty before each check
};

// A check returns whether it allows the pod; else it has set reason and detail.
typedef bool (*podsec_check_fn)(struct podsec_case *c);

// podsec_add_name adds a name, podsec_sort_names sorts a list and drops repetitions.
void podsec_add_name(struct podsec_case *c, struct podsec_names *list, struct str name);
void podsec_sort_names(struct podsec_names *list);

// podsec_plural is many unless n is 1.
const char *podsec_plural(const char *one, const char *many, size_t n);

// podsec_add_quoted writes "a", "b"; podsec_add_counted writes `container "a"` or `containers "a",
// "b"`; podsec_add_setters writes `pod and container "a"`.
void podsec_add_quoted(struct podsec_case *c, const struct podsec_names *list);
void podsec_add_counted(struct podsec_case *c, const char *one, const char *many,
                        const struct podsec_names *list);
void podsec_add_setters(struct podsec_case *c, bool pod, const struct podsec_names *containers);

// podsec_annotation finds an annotation by bisection.
bool podsec_annotation(const struct podsec_case *c, struct str key, struct str *ret);

static inline bool podsec_in_user_namespace(const struct podsec_case *c)
{
    return c->spec->has_host_users && !c->spec->host_users;
}

static inline bool podsec_is_windows(const struct podsec_case *c)
{
    return c->spec->os && str_eqz(c->spec->os->name, "windows");
}

// Checks of both levels on the same field. seccomp_fields refuses bad types; with required also
// containers without any.
bool podsec_seccomp_fields(struct podsec_case *c, bool required);
bool podsec_proc_mount(struct podsec_case *c);

// checks_host.c: baseline, what reaches the host.
bool podsec_host_namespaces(struct podsec_case *c);
bool podsec_host_path(struct podsec_case *c);
bool podsec_host_ports(struct podsec_case *c);
bool podsec_probe_hosts(struct podsec_case *c);
bool podsec_host_process(struct podsec_case *c);
bool podsec_sysctls_0(struct podsec_case *c);
bool podsec_sysctls_27(struct podsec_case *c);
bool podsec_sysctls_29(struct podsec_case *c);
bool podsec_sysctls_32(struct podsec_case *c);
bool podsec_sysctls_37(struct podsec_case *c);

// checks_baseline.c: baseline, what a container may do.
bool podsec_app_armor(struct podsec_case *c);
bool podsec_added_capabilities(struct podsec_case *c);
bool podsec_privileged(struct podsec_case *c);
bool podsec_proc_mount_35(struct podsec_case *c);
bool podsec_se_linux_0(struct podsec_case *c);
bool podsec_se_linux_31(struct podsec_case *c);
bool podsec_seccomp_0(struct podsec_case *c);
bool podsec_seccomp_19(struct podsec_case *c);

// checks_restricted.c.
bool podsec_escalation_8(struct podsec_case *c);
bool podsec_escalation_25(struct podsec_case *c);
bool podsec_capabilities_22(struct podsec_case *c);
bool podsec_capabilities_25(struct podsec_case *c);
bool podsec_volumes(struct podsec_case *c);
bool podsec_non_root_0(struct podsec_case *c);
bool podsec_non_root_35(struct podsec_case *c);
bool podsec_user_23(struct podsec_case *c);
bool podsec_user_35(struct podsec_case *c);
bool podsec_seccomp_required_19(struct podsec_case *c);
bool podsec_seccomp_required_25(struct podsec_case *c);

#endif
