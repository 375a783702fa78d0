// SPDX-License-Identifier: Apache-2.0
//
// What the rules of core kinds share: short ways to name a place and to say what is wrong there,
// and the parts of pods that other kinds have too. Private to src/api.
#ifndef API_VALIDATE_VALIDATE_CORE_H
#define API_VALIDATE_VALIDATE_CORE_H

#include "api/amounts.h"
#include "api/validate/validate_int.h"
#include "codec/json_writer.h"

// A list of words that a value must be one of, in the order in which messages show them.
struct choices {
    const struct str *p;
    size_t n;
};
#define CHOICES(list) ((struct choices){(list), array_len(list)})

bool validate_is_choice(struct choices c, struct str value);

// The must_ functions say what they find; validate_choice takes no empty value for a missing one.
void validate_required(struct validator *v, const struct path *at, struct str value);
void validate_choice(struct validator *v, const struct path *at, struct str value,
                     struct choices c);
void validate_choice_required(struct validator *v, const struct path *at, struct str value,
                              struct choices c);
void validate_not_negative(struct validator *v, const struct path *at, int64_t value);
void validate_positive(struct validator *v, const struct path *at, int64_t value);
void validate_between(struct validator *v, const struct path *at, int64_t value, int64_t least,
                      int64_t most);
void validate_user_id(struct validator *v, const struct path *at, bool has, int64_t id);

// validate_named: the name of an object, checked by the given rule.
void validate_named(struct validator *v, const struct path *at, struct str value, name_check check);

// validate_in_characters: the older checks of core kinds count characters where newer ones say
// bytes.
struct str validate_in_characters(struct str message, name_check check, struct arena *arena);

// validate_prefix_name: the beginning of such a name, which may end in a dash.
void validate_prefix_name(struct validator *v, const struct path *at, struct str name,
                          name_check check);

// validate_ip: an address as old fields take it, without leading zeroes or IPv4 in IPv6 clothes.
void validate_ip(struct validator *v, const struct path *at, struct str value);

// Paths of files: relative ones, without .. in them.
bool validate_path_steps_back(struct str path);
void validate_descending_path(struct validator *v, const struct path *at, struct str value);
void validate_no_backsteps(struct validator *v, const struct path *at, struct str value);
void validate_local_path(struct validator *v, const struct path *at, struct str value);

// validate_port: a number of 1 to 65535, or the name of a port.
void validate_port(struct validator *v, const struct path *at, int64_t port);
void validate_port_or_name(struct validator *v, const struct path *at,
                           const struct api_int_or_string *port);

void validate_label_selector(struct validator *v, const struct path *at,
                             const struct api_label_selector *selector);

// validate_preferred_term: preferences may name labels that no node can have.
void validate_preferred_term(struct validator *v, const struct path *at,
                             const struct api_node_selector_term *term);

// --- validate_resources.c: names and amounts of resources ----------------------------------------

bool resources_is_huge_page(struct str resource);
bool resources_can_overcommit(struct str resource); // may be promised more often than it is there
bool resources_is_quota(struct str name);           // one that a quota knows by itself
void validate_resource_name(struct validator *v, const struct path *at, struct str name);
void validate_container_resource_name(struct validator *v, const struct path *at, struct str name);
void validate_amount(struct validator *v, const struct path *at, struct str resource,
                     const struct quantity *amount);

// validate_requirements: limits and requests; claims are looked at by their own rule.
void validate_requirements(struct validator *v, const struct path *at,
                           const struct api_quantity_map *limits,
                           const struct api_quantity_map *requests, bool of_pod);

void validate_pod_resources(struct validator *v, const struct path *at,
                            const struct api_pod_spec *spec);

// --- validate_volume.c, validate_source.c --------------------------------------------------------

struct volume_map MAP(const struct api_volume_source *);

// validate_volumes adds the volumes that are in order to ret.
void validate_volumes(struct validator *v, const struct path *list,
                      const struct api_volume_array *volumes, const struct api_object_meta *meta,
                      struct volume_map *ret);
void validate_volume_drivers(struct validator *v, const struct path *at,
                             const struct api_volume_source *s, size_t *found);
void validate_field_ref(struct validator *v, const struct path *at,
                        const struct api_object_field_selector *ref, struct choices allowed);
void validate_resource_field_ref(struct validator *v, const struct path *at,
                                 const struct api_resource_field_selector *ref, bool in_volume);
void validate_volume_claim_spec(struct validator *v, const struct path *at,
                                const struct api_persistent_volume_claim_spec *spec);

// --- validate_pod.c, validate_container.c, validate_probe.c --------------------------------------

// What the rules of one pod share.
struct pod_rules {
    struct validator *v;
    const struct api_pod_spec *spec;
    const struct api_object_meta *meta; // NULL: a template
    struct volume_map volumes;          // those that are in order
    struct seen claims;                 // names of the pod's claims
    struct str missing_claim; // what to say of a claim it does not have; made when it is needed
    bool host_users;
};

void validate_containers(struct pod_rules *p, const struct path *spec);
void validate_images(struct validator *v, const struct path *list,
                     const struct api_container_array *containers);
void validate_claim_names(struct pod_rules *p, const struct path *at,
                          const struct api_container_resource_claim_array *claims);
void validate_probes(struct pod_rules *p, const struct path *at, const struct api_container *c);
void validate_mounts(struct pod_rules *p, const struct path *at, const struct api_container *c);
void validate_env(struct pod_rules *p, const struct path *at, const struct api_container *c);
void validate_pull_policy(struct validator *v, const struct path *at, struct str policy);

// validate_pod_state: an update of the status, apart from claims.
void validate_pod_state(struct validator *v, const struct api_pod *pod, const struct api_pod *old);
void validate_pod_update(struct validator *v, const struct api_pod *pod, const struct api_pod *old);

// validate_each_container calls fn with every container of a pod and where it stands, in upstream's
// order.
typedef void (*container_fn)(struct pod_rules *p, const struct path *at,
                             const struct api_container *c);
void validate_each_container(struct pod_rules *p, const struct path *spec, container_fn fn);

// --- validate_scheduling.c: affinity, tolerations, spreading -------------------------------------

void validate_affinity(struct validator *v, const struct path *at, const struct api_affinity *a);
void validate_tolerations(struct validator *v, const struct path *list,
                          const struct api_toleration_array *tolerations);
void validate_spread(struct validator *v, const struct path *list,
                     const struct api_topology_spread_constraint_array *constraints);
void validate_taint_effect(struct validator *v, const struct path *at, struct str effect);

// --- validate_security.c -------------------------------------------------------------------------

void validate_security_context(struct pod_rules *p, const struct path *at,
                               const struct api_security_context *sc);
void validate_pod_security(struct pod_rules *p, const struct path *spec);
void validate_profiles_match(struct pod_rules *p, const struct path *spec);
void validate_security_annotations(struct pod_rules *p, const struct path *at);

// --- validate_kinds.c, validate_node.c, validate_service.c, validate_quota.c ---------------------

// validate_work_numbers: the numbers of a kind of apps or batch, of its status in an update of that
// (validate_work.c). The rules of Jobs are in validate_job.c.
void validate_work_numbers(struct validator *v, const struct api_type *t, const void *value,
                           const void *old);
// validate_selector: the selector of a workload and what its template must be for it. old may be
// NULL.
void validate_selector(struct validator *v, const struct api_type *t, const void *value,
                       const void *old);
// validate_share: a number that is not negative, or a percentage of at most 100.
void validate_share(struct validator *v, const struct path *at,
                    const struct api_int_or_string *share);
void validate_job(struct validator *v, const void *value, const void *old);
void validate_job_status(struct validator *v, const void *value, const void *old);
void validate_autoscaler(struct validator *v, const void *value, const void *old);
void validate_autoscaler_status(struct validator *v, const void *value, const void *old);
void validate_cron_job(struct validator *v, const void *value, const void *old);

// validate_pod_group, validate_pod_group_status, validate_workload: what the schema's rules do not
// say.
void validate_pod_group(struct validator *v, const struct api_pod_group *group, bool is_new);
void validate_pod_group_status(struct validator *v, const struct api_pod_group *group);
void validate_workload(struct validator *v, const struct api_workload *workload);

// validate_core_kind applies the rules of a kind of core, coordination, scheduling or policy other
// than pods, and those of the names of others.
void validate_core_kind(struct validator *v, const struct api_object *object,
                        const struct api_object *old);
// validate_certificate_request: all but what stands in PEM (validate_certificate.c).
void validate_certificate_request(struct validator *v,
                                  const struct api_certificate_signing_request *now,
                                  const struct api_certificate_signing_request *old);
void validate_node(struct validator *v, const struct api_node *node, const struct api_node *old);
void validate_service(struct validator *v, const struct api_service *service,
                      const struct api_service *old);
void validate_limit_range(struct validator *v, const struct api_limit_range *range);
void validate_quota(struct validator *v, const struct api_resource_quota *quota,
                    const struct api_resource_quota *old);

#endif
