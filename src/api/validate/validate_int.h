// SPDX-License-Identifier: Apache-2.0
//
// What the files of validation share. Private to src/api. Functions that check something add causes
// to v->causes and return nothing.
#ifndef API_VALIDATE_VALIDATE_INT_H
#define API_VALIDATE_VALIDATE_INT_H

#include "api/names.h"
#include "api/validate.h"
#include "base/map.h"

struct validator {
    const struct api_rules *rules;
    struct causes *causes;
    enum api_op op;
    const struct api_kind *version; // of the request
    bool meta_checked;              // check_object_meta was called
};

static inline bool gate(const struct validator *v, enum feature which)
{
    return features_on(v->rules->features, which);
}

static inline struct arena *scratch(const struct validator *v)
{
    return v->causes->arena;
}

// lower_case is a copy with ASCII letters in lower case.
struct str lower_case(struct str s, struct arena *arena);

// Whether a value is taken from a declarative rule if that finds the same.
enum { OWN = false, COVERED = true };

// --- validate_values.c: single values ------------------------------------------------------------

// check_format adds an Invalid cause with the given origin for everything a name check says.
void check_format(struct validator *v, const struct path *at, struct str value, name_check check,
                  const char *origin);

void check_dns_label(struct validator *v, const struct path *at, struct str value);
void check_dns_subdomain(struct validator *v, const struct path *at, struct str value);
void check_label_key(struct validator *v, const struct path *at, struct str value);
void check_label_value(struct validator *v, const struct path *at, struct str value);

// check_driver_name is the rule of CSI driver names.
void check_driver_name(struct validator *v, const struct path *at, struct str value, bool covered);
void check_pool_name(struct validator *v, const struct path *at, struct str value);
void check_share_id(struct validator *v, const struct path *at, struct str value);

// check_qualified_name takes name or domain/name, the fully qualified one wants the domain.
void check_qualified_name(struct validator *v, const struct path *at, struct str value);
void check_fully_qualified_name(struct validator *v, const struct path *at, struct str value);

// check_max_items adds a cause and returns false when there are too many.
bool check_max_items(struct validator *v, const struct path *at, size_t have, size_t most,
                     bool covered);

// check_raw_object checks the JSON text of a RawExtension; the length only if it is new.
void check_raw_object(struct validator *v, const struct path *at, struct str raw, bool stored,
                      size_t most);

// immutable adds "field is immutable"; the value is shown as upstream's internal type prints.
size_t cause_immutable(struct validator *v, const struct path *at, const struct api_type *t,
                       const void *value);

// json_of writes a value as JSON, internal_json_of as upstream prints its internal types: Go's field
// names, nothing left out.
struct str json_of(const struct api_type *t, const void *value, struct arena *arena);
struct str internal_json_of(const struct api_type *t, const void *value, struct arena *arena);
struct str json_of_strings(const struct str *p, size_t n, struct arena *arena);
struct str quantity_text(const struct quantity *q, struct arena *arena);

// struct seen is a set of texts, for lists without a bound. seen_add says whether a text, which must
// live on, was there before. Zeroed, it is empty.
struct seen MAP(bool);

static inline bool seen_add(struct seen *s, struct str text)
{
    bool added;
    (void)map_put_new(s, text, &added);
    return !added;
}

static inline void seen_done(struct seen *s)
{
    map_done(s);
}
#define cleanup_seen cleanup_with(seen_done)

// struct positions says where in a list without a bound a text stands.
struct positions MAP(size_t);

static inline void positions_done(struct positions *p)
{
    map_done(p);
}
#define cleanup_positions cleanup_with(positions_done)

// --- validate_meta.c -----------------------------------------------------------------------------

// What the name of a kind must look like.
struct name_rule {
    name_check check;
    bool characters; // a kind of the older sort: lengths are told in characters
    bool own_way; // DeviceClass: generateName is not looked at, the name is covered by its own rule
};

void check_object_meta(struct validator *v, const struct api_object_meta *meta, bool namespaced,
                       const struct name_rule *rule);
void check_object_meta_update(struct validator *v, const struct api_object_meta *meta,
                              const struct api_object_meta *old);
void check_kube_finalizers(struct validator *v, const struct api_object_meta *meta);

// check_common_meta is what the server checks of every kind: names must do for a URL.
void check_common_meta(struct validator *v, const struct api_object_meta *meta,
                       const struct api_object_meta *old, bool namespaced);

void check_template_meta(struct validator *v, const struct api_object_meta *meta,
                         const struct path *at);
void check_labels(struct validator *v, const struct path *at, const struct api_str_map *labels);
void check_annotations(struct validator *v, const struct path *at,
                       const struct api_str_map *annotations);
void check_conditions(struct validator *v, const struct path *list,
                      const struct api_condition_array *conditions);
void check_node_selector(struct validator *v, const struct path *at,
                         const struct api_node_selector *selector);

// --- validate_claim.c ----------------------------------------------------------------------------

void check_claim_create(struct validator *v, const struct api_resource_claim *claim);
void check_claim_update(struct validator *v, const struct api_resource_claim *claim,
                        const struct api_resource_claim *old);
void check_template_create(struct validator *v, const struct api_resource_claim_template *t);
void check_template_update(struct validator *v, const struct api_resource_claim_template *t,
                           const struct api_resource_claim_template *old);

// check_request_ref: the name of a request, or request/subrequest, of the claim.
void check_request_ref(struct validator *v, const struct path *at, struct str name,
                       const struct api_device_claim *claim);
void check_request_refs(struct validator *v, const struct path *at,
                        const struct api_str_array *names, const struct api_device_claim *claim);
void check_selectors(struct validator *v, const struct path *at,
                     const struct api_device_selector_array *selectors, bool stored);
void check_configuration(struct validator *v, const struct path *at,
                         const struct api_device_configuration *config, bool stored);
void check_toleration(struct validator *v, const struct path *at,
                      const struct api_device_toleration *toleration);

// --- validate_status.c, validate_access.c --------------------------------------------------------

void check_claim_status(struct validator *v, const struct api_resource_claim *claim,
                        const struct api_resource_claim *old);

// check_admin_access: requests with admin access need a labelled namespace.
void check_admin_access(struct validator *v, const struct api_device_request_array *requests);
void check_admin_access_status(struct validator *v, const struct api_resource_claim_status *status,
                               const struct api_resource_claim_status *old);

// check_status_access: changing parts of a claim's status needs permission for each.
void check_status_access(struct validator *v, const struct api_resource_claim *claim,
                         const struct api_resource_claim *old);

// --- validate_slice.c, validate_device.c, validate_capacity.c ------------------------------------

void check_slice(struct validator *v, const struct api_resource_slice *slice,
                 const struct api_resource_slice *old);
void check_device(struct validator *v, const struct path *at, const struct api_device *device,
                  const struct api_device *old, bool per_device_nodes);
void check_request_policy(struct validator *v, const struct path *at,
                          const struct api_device_capacity *capacity);
void check_binding_conditions(struct validator *v, const struct path *at,
                              const struct api_str_array *conditions,
                              const struct api_str_array *failures);
void check_skip_node_operations(struct validator *v, const struct path *at,
                                const struct api_str_array *operations);
void check_taint(struct validator *v, const struct path *at, const struct api_device_taint *taint,
                 const struct api_device_taint *old);

// --- validate_class.c: DeviceClass, DeviceTaintRule, ResourcePoolStatusRequest -------------------

void check_class(struct validator *v, const struct api_device_class *class_,
                 const struct api_device_class *old);
void check_taint_rule(struct validator *v, const struct api_device_taint_rule *rule,
                      const struct api_device_taint_rule *old);
void check_pool_status_request(struct validator *v,
                               const struct api_resource_pool_status_request *request,
                               const struct api_resource_pool_status_request *old);

// --- validate_pod.c, validate_pod_status.c -------------------------------------------------------

void check_pod(struct validator *v, const struct api_pod *pod, const struct api_pod *old);
void check_pod_status(struct validator *v, const struct api_pod *pod);

// check_pod_template checks the pod template of a workload, if t is one.
void check_pod_template(struct validator *v, const struct api_type *t, const void *value);

// --- declarative.c -------------------------------------------------------------------------------

// check_declarative applies the rules of the schema to an object of the request's version. Its
// causes come to v->causes with beta set where a rule replaces what was found by hand.
void check_declarative(struct validator *v, const struct api_object *object,
                       const struct api_object *old);

#endif
