// SPDX-License-Identifier: Apache-2.0
//
// What the files of validation share. Private to src/api. Functions that check something add causes
// to v->causes and return nothing.
#ifndef API_VALIDATE_VALIDATE_INT_H
#define API_VALIDATE_VALIDATE_INT_H

#include "api/names.h"
#include "api/rules/at.h"
#include "api/validate.h"
#include "api/validate/seen.h"

struct validator {
    const struct api_rules *rules;
    struct causes *causes;
    enum api_op op;
    const struct api_kind *version; // of the request
    // Metadata in which the rules of objects, and those of updates, found nothing: kinds repeat the
    // general rules, and what is clean need not be checked twice.
    const struct api_object_meta *clean_meta, *clean_update;
};

static inline bool gate(const struct validator *v, enum feature which)
{
    return features_on(v->rules->features, which);
}

static inline struct arena *scratch(const struct validator *v)
{
    return v->causes->arena;
}

// validate_covered marks one cause as found by a declarative rule too.
static inline void validate_covered(const struct validator *v, size_t cause)
{
    causes_mark(v->causes, cause, NULL, true);
}

// validate_lower_case is a copy with ASCII letters in lower case.
struct str validate_lower_case(struct str s, struct arena *arena);

// Whether a value is taken from a declarative rule if that finds the same.
enum { OWN = false, COVERED = true };

// --- validate_values.c: single values ------------------------------------------------------------

// validate_format adds an Invalid cause with the given origin for every message of a name check.
void validate_format(struct validator *v, const struct path *at, struct str value, name_check check,
                     const char *origin);

void validate_dns_label(struct validator *v, const struct path *at, struct str value);
void validate_dns_subdomain(struct validator *v, const struct path *at, struct str value);
void validate_label_key(struct validator *v, const struct path *at, struct str value);
void validate_label_value(struct validator *v, const struct path *at, struct str value);

// validate_driver_name is the rule of CSI driver names.
void validate_driver_name(struct validator *v, const struct path *at, struct str value,
                          bool covered);
void validate_pool_name(struct validator *v, const struct path *at, struct str value);
void validate_share_id(struct validator *v, const struct path *at, struct str value);

// validate_qualified_name takes name or domain/name, the fully qualified one wants the domain.
void validate_qualified_name(struct validator *v, const struct path *at, struct str value);
void validate_fully_qualified_name(struct validator *v, const struct path *at, struct str value);

// validate_max_items adds a cause and returns false when there are too many.
bool validate_max_items(struct validator *v, const struct path *at, size_t have, size_t most,
                        bool covered);

// A text in each item of a list.
struct text_list {
    const void *items;
    size_t n;
    size_t stride; // bytes from one item to the next
    size_t offset; // of the text in its item
};
#define TEXTS(list, member)                                              \
    (&(const struct text_list){(list)->p, (list)->n, sizeof(*(list)->p), \
                               offsetof(typeof(*(list)->p), member)})
#define STRINGS(list) (&(const struct text_list){(list)->p, (list)->n, sizeof(*(list)->p), 0})

// validate_unique reports each item whose text an item before it has.
void validate_unique(struct validator *v, const struct path *at, const struct text_list *list,
                     bool covered);

// validate_unchanged reports a string that an update must not change.
void validate_unchanged(struct validator *v, const struct path *at, struct str value,
                        struct str old);

// validate_raw_object checks the JSON text of a RawExtension; the length only if it is new.
void validate_raw_object(struct validator *v, const struct path *at, struct str raw, bool stored,
                         size_t most);

// immutable adds "field is immutable"; the value is shown as upstream's internal type prints.
size_t validate_report_immutable(struct validator *v, const struct path *at,
                                 const struct api_type *t, const void *value);

// validate_show_json writes a value as JSON, validate_show_internal_json as upstream prints its
// internal types: Go's field names, nothing left out.
struct str validate_show_json(const struct api_type *t, const void *value, struct arena *arena);
struct str validate_show_internal_json(const struct api_type *t, const void *value,
                                       struct arena *arena);
struct str validate_show_strings(const struct str *p, size_t n, struct arena *arena);
struct str validate_quantity_text(const struct quantity *q, struct arena *arena);

// --- validate_meta.c -----------------------------------------------------------------------------

// What the name of a kind must look like.
struct name_rule {
    name_check check;
    bool characters; // a kind of the older sort: lengths are counted in characters
    bool own_way; // DeviceClass: generateName is not looked at, the name is covered by its own rule
};

void validate_object_meta(struct validator *v, const struct api_object_meta *meta, bool namespaced,
                          const struct name_rule *rule);
void validate_object_meta_update(struct validator *v, const struct api_object_meta *meta,
                                 const struct api_object_meta *old);
// validate_cluster_meta: of a kind without namespace whose names are subdomains. old may be NULL.
void validate_cluster_meta(struct validator *v, const struct api_object_meta *meta,
                           const struct api_object_meta *old);
void validate_kube_finalizers(struct validator *v, const struct api_object_meta *meta);

// validate_common_meta is what the server checks of every kind: names must do for a URL.
void validate_common_meta(struct validator *v, const struct api_object_meta *meta,
                          const struct api_object_meta *old, bool namespaced);

void validate_template_meta(struct validator *v, const struct api_object_meta *meta,
                            const struct path *at);
void validate_labels(struct validator *v, const struct path *at, const struct api_str_map *labels);
void validate_annotations(struct validator *v, const struct path *at,
                          const struct api_str_map *annotations);
void validate_conditions(struct validator *v, const struct path *list,
                         const struct api_condition_array *conditions);
void validate_node_selector(struct validator *v, const struct path *at,
                            const struct api_node_selector *selector);

// --- validate_claim.c ----------------------------------------------------------------------------

void validate_claim_create(struct validator *v, const struct api_resource_claim *claim);
void validate_claim_update(struct validator *v, const struct api_resource_claim *claim,
                           const struct api_resource_claim *old);
void validate_template_create(struct validator *v, const struct api_resource_claim_template *t);
void validate_template_update(struct validator *v, const struct api_resource_claim_template *t,
                              const struct api_resource_claim_template *old);

// validate_request_ref: the name of a request, or request/subrequest, of the claim.
void validate_request_ref(struct validator *v, const struct path *at, struct str name,
                          const struct api_device_claim *claim);
void validate_request_refs(struct validator *v, const struct path *at,
                           const struct api_str_array *names, const struct api_device_claim *claim);
void validate_selectors(struct validator *v, const struct path *at,
                        const struct api_device_selector_array *selectors, bool stored);
void validate_configuration(struct validator *v, const struct path *at,
                            const struct api_device_configuration *config, bool stored);
void validate_toleration(struct validator *v, const struct path *at,
                         const struct api_device_toleration *toleration);

// --- validate_status.c, validate_access.c --------------------------------------------------------

void validate_claim_status(struct validator *v, const struct api_resource_claim *claim,
                           const struct api_resource_claim *old);

// validate_admin_access: requests with admin access need a labelled namespace.
void validate_admin_access(struct validator *v, const struct api_device_request_array *requests);
void validate_admin_access_status(struct validator *v,
                                  const struct api_resource_claim_status *status,
                                  const struct api_resource_claim_status *old);

// validate_status_access: changing parts of a claim's status needs permission for each.
void validate_status_access(struct validator *v, const struct api_resource_claim *claim,
                            const struct api_resource_claim *old);

// --- validate_slice.c, validate_device.c, validate_capacity.c ------------------------------------

void validate_slice(struct validator *v, const struct api_resource_slice *slice,
                    const struct api_resource_slice *old);
void validate_device(struct validator *v, const struct path *at, const struct api_device *device,
                     const struct api_device *old, bool per_device_nodes);
void validate_request_policy(struct validator *v, const struct path *at,
                             const struct api_device_capacity *capacity);
// validate_counters: the name of a counter set, in `field`, and the names of its counters.
void validate_counters(struct validator *v, const struct path *at, struct str field,
                       struct str name, const struct api_counter_map *map);

// Fields of which exactly one may be set. validate_choose notes one; validate_one_chosen reports
// when there is none, or several, and frees the list.
struct chosen {
    struct sbuf names;
    size_t n;
};
void validate_choose(struct chosen *c, const char *field);
void validate_one_chosen(struct validator *v, const struct path *at, struct chosen *c,
                         struct str none, struct str several);
void validate_binding_conditions(struct validator *v, const struct path *at,
                                 const struct api_str_array *conditions,
                                 const struct api_str_array *failures);
void validate_skip_node_operations(struct validator *v, const struct path *at,
                                   const struct api_str_array *operations);
void validate_taint(struct validator *v, const struct path *at,
                    const struct api_device_taint *taint, const struct api_device_taint *old);

// --- validate_class.c: DeviceClass, DeviceTaintRule, ResourcePoolStatusRequest -------------------

void validate_class(struct validator *v, const struct api_device_class *class_,
                    const struct api_device_class *old);
void validate_taint_rule(struct validator *v, const struct api_device_taint_rule *rule,
                         const struct api_device_taint_rule *old);
void validate_pool_status_request(struct validator *v,
                                  const struct api_resource_pool_status_request *request,
                                  const struct api_resource_pool_status_request *old);

// --- validate_pod.c, validate_pod_status.c -------------------------------------------------------

void validate_pod(struct validator *v, const struct api_pod *pod, const struct api_pod *old);
void validate_pod_status(struct validator *v, const struct api_pod *pod);

// validate_pod_template checks the pod template of a workload, if t is one.
void validate_pod_template(struct validator *v, const struct api_type *t, const void *value);

// --- declarative.c -------------------------------------------------------------------------------

// validate_declarative applies the rules of the schema to an object of the request's version. Its
// causes come to v->causes with beta set where a rule replaces what was found by hand.
void validate_declarative(struct validator *v, const struct api_object *object,
                          const struct api_object *old);

#endif
