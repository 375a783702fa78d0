// SPDX-License-Identifier: Apache-2.0
//
// The rules of object metadata, and of two types that many kinds carry: conditions and node
// selectors.
#include <stdlib.h>
#include <string.h>

#include "api/validate/validate_core.h"
#include "base/utf8.h"

#include "base/banned.h"

#define ANNOTATIONS_BYTES_MAX       (256 * 1024)
#define MANAGER_BYTES_MAX           128
#define SUBRESOURCE_BYTES_MAX       256
#define REASON_BYTES_MAX            1024
#define CONDITION_MESSAGE_BYTES_MAX (32 * 1024)

static const char label_key[] = "format=k8s-label-key";

// --- Names ---------------------------------------------------------------------------------------

// A generated name gets letters behind it, so a dash may stand at its end; upstream puts an 'a'
// over the last two characters to look at the rest.
static struct str mask_trailing_dash(struct str name, struct arena *arena)
{
    if (name.n < 2 || name.p[name.n - 1] != '-')
        return name;
    return arena_strf(arena, "%.*sa", (int)(name.n - 2), name.p);
}

struct str validate_in_characters(struct str message, name_check check, struct arena *arena)
{
    static const struct str bytes = STR_INIT(" bytes");
    bool old =
        check == name_dns_label || check == name_dns_subdomain || check == name_dns1035_label;
    if (!old || !str_ends(message, bytes))
        return message;
    return arena_strf(arena, "%.*s characters", (int)(message.n - bytes.n), message.p);
}

void validate_prefix_name(struct validator *v, const struct path *at, struct str name,
                          name_check check)
{
    struct name_msgs msgs = {.arena = scratch(v)};
    check(check == name_path_segment ? name : mask_trailing_dash(name, scratch(v)), &msgs);
    // What is the beginning of a path segment may well be "." or "..".
    bool dots = check == name_path_segment && (str_eqz(name, ".") || str_eqz(name, ".."));
    for (size_t i = 0; i < msgs.n && !dots; i++)
        cause_invalid(v->causes, at, name, validate_in_characters(msgs.p[i], check, scratch(v)));
}

static void validate_meta_names(struct validator *v, const struct api_object_meta *meta,
                                const struct name_rule *rule)
{
    const struct path *name = AT(AT(NULL, "metadata"), "name");
    if (meta->generate_name.n && !rule->own_way)
        validate_prefix_name(v, AT(AT(NULL, "metadata"), "generateName"), meta->generate_name,
                             rule->check);
    if (meta->name.n == 0) {
        cause_required(v->causes, name, STR("name or generateName is required"));
    } else if (rule->own_way) {
        size_t from = v->causes->n;
        validate_format(v, name, meta->name, rule->check, "format=k8s-long-name");
        causes_mark(v->causes, from, NULL, COVERED);
    } else if (rule->characters) {
        validate_named(v, name, meta->name, rule->check);
    } else {
        validate_format(v, name, meta->name, rule->check, NULL);
    }
}

static void check_namespace(struct validator *v, const struct api_object_meta *meta,
                            bool namespaced)
{
    const struct path *at = AT(AT(NULL, "metadata"), "namespace");
    if (!namespaced) {
        if (meta->namespace.n)
            cause_forbidden(v->causes, at, STR("not allowed on this type"));
    } else if (meta->namespace.n == 0) {
        cause_required(v->causes, at, STR(""));
    } else {
        validate_format(v, at, meta->namespace, name_dns_label, NULL);
    }
}

// --- Labels, annotations, owners, finalizers, managers -------------------------------------------

void validate_labels(struct validator *v, const struct path *at, const struct api_str_map *labels)
{
    for (size_t i = 0; i < labels->n; i++) {
        validate_label_key(v, at, labels->p[i].key);
        validate_format(v, at, labels->p[i].value, name_label_value, "format=k8s-label-value");
    }
}

void validate_annotations(struct validator *v, const struct path *at,
                          const struct api_str_map *annotations)
{
    size_t bytes = 0;
    for (size_t i = 0; i < annotations->n; i++) {
        struct name_msgs msgs = {.arena = scratch(v)};
        struct str key = annotations->p[i].key;
        name_label_key(validate_lower_case(key, scratch(v)), &msgs);
        for (size_t j = 0; j < msgs.n; j++) {
            size_t n = cause_invalid(v->causes, at, key, msgs.p[j]);
            v->causes->p[n].origin = label_key;
        }
        bytes += key.n + annotations->p[i].value.n;
    }
    if (bytes > ANNOTATIONS_BYTES_MAX)
        cause_too_long(v->causes, at, ANNOTATIONS_BYTES_MAX);
}

static void check_must(struct validator *v, const struct path *at, struct str field,
                       struct str value)
{
    if (value.n == 0)
        validate_covered(v,
                         cause_required(v->causes, AT_NAME(at, field), STR("must not be empty")));
}

static void validate_meta_owner(struct validator *v, const struct path *at,
                                const struct api_owner_reference *owner)
{
    struct str group, version, more = STR("");
    bool has_group = str_cut(owner->api_version, '/', &group, &version);
    bool slashes = has_group && str_cut(version, '/', &version, &more);
    if (!has_group) {
        version = group;
        group = STR("");
    }
    check_must(v, at, STR("apiVersion"), owner->api_version);
    if (owner->api_version.n && (slashes || version.n == 0))
        cause_invalid(v->causes, AT(at, "apiVersion"), owner->api_version,
                      STR("must be <group>/<version> or <version>"));
    check_must(v, at, STR("kind"), owner->kind);
    check_must(v, at, STR("name"), owner->name);
    check_must(v, at, STR("uid"), owner->uid);
    if (!slashes && group.n == 0 && str_eqz(version, "v1") && str_eqz(owner->kind, "Event"))
        cause_invalid_json(v->causes, at,
                           validate_show_json(&api_owner_reference_type, owner, scratch(v)),
                           STR("/v1, Kind=Event is disallowed from being an owner"));
}

static struct str json_of_owners(const struct api_owner_reference_array *owners,
                                 struct arena *arena)
{
    cleanup_sbuf struct sbuf b = {0};
    sbuf_addc(&b, '[');
    for (size_t i = 0; i < owners->n; i++) {
        if (i)
            sbuf_addc(&b, ',');
        sbuf_add(&b, validate_show_json(&api_owner_reference_type, &owners->p[i], arena));
    }
    sbuf_addc(&b, ']');
    return arena_str(arena, sbuf_str(&b));
}

static void check_owners(struct validator *v, const struct path *at,
                         const struct api_owner_reference_array *owners)
{
    const struct api_owner_reference *controller = NULL;
    for (size_t i = 0; i < owners->n && !causes_full(v->causes); i++) {
        const struct api_owner_reference *owner = &owners->p[i];
        validate_meta_owner(v, AT_ITEM(at, i), owner);
        if (!owner->has_controller || !owner->controller)
            continue;
        if (controller)
            cause_invalid_json(
                v->causes, at, json_of_owners(owners, scratch(v)),
                arena_strf(scratch(v),
                           "Only one reference can have Controller set to true. Found \"true\" in "
                           "references for %.*s/%.*s and %.*s/%.*s",
                           STR_ARG(controller->kind), STR_ARG(controller->name),
                           STR_ARG(owner->kind), STR_ARG(owner->name)));
        else
            controller = owner;
    }
}

static void check_finalizers(struct validator *v, const struct path *at,
                             const struct api_str_array *finalizers)
{
    for (size_t i = 0; i < finalizers->n; i++)
        validate_format(v, at, finalizers->p[i], name_label_key, NULL);
    if (api_str_listed(finalizers, STR("orphan")) &&
        api_str_listed(finalizers, STR("foregroundDeletion")))
        cause_invalid_json(v->causes, at,
                           validate_show_strings(finalizers->p, finalizers->n, scratch(v)),
                           STR("finalizer orphan and foregroundDeletion cannot be both set"));
}

void validate_kube_finalizers(struct validator *v, const struct api_object_meta *meta)
{
    static const struct str standard[] = {STR_INIT("kubernetes"), STR_INIT("orphan"),
                                          STR_INIT("foregroundDeletion")};
    for (size_t i = 0; i < meta->finalizers.n; i++) {
        struct str name = meta->finalizers.p[i];
        bool known = str_find_char(name, '/') >= 0;
        for (size_t j = 0; j < array_len(standard); j++)
            known = known || str_eq(name, standard[j]);
        if (!known)
            cause_invalid(
                v->causes, AT_ITEM(AT(AT(NULL, "metadata"), "finalizers"), i), name,
                STR("name is neither a standard finalizer name nor is it fully qualified"));
    }
}

// A rough unicode.IsPrint: no controls, no separators but the space, no surrogates or private use.
static bool meta_rune_printable(uint32_t c)
{
    if (c < 0x20 || (c >= 0x7f && c <= 0xa0) || c == 0xad)
        return false;
    if ((c >= 0x2000 && c <= 0x200f) || (c >= 0x2028 && c <= 0x202f) ||
        (c >= 0x205f && c <= 0x206f))
        return false;
    return c != 0x3000 && c != 0xfeff && !(c >= 0xd800 && c <= 0xf8ff) && c < 0xf0000;
}

static void validate_meta_manager(struct validator *v, const struct path *at, struct str manager)
{
    if (manager.n > MANAGER_BYTES_MAX)
        cause_too_long(v->causes, at, MANAGER_BYTES_MAX);
    size_t len;
    for (size_t i = 0; i < manager.n; i += len) {
        uint32_t c = utf8_decode(manager, i, &len);
        if (!meta_rune_printable(c))
            cause_invalid(v->causes, at, manager,
                          arena_strf(scratch(v), "invalid character U+%04X (at position %zu)", c,
                                     i));
    }
}

static void check_managed_fields(struct validator *v, const struct path *list,
                                 const struct api_managed_fields_entry_array *entries)
{
    static const struct str operations[] = {STR_INIT("Apply"), STR_INIT("Update")};
    for (size_t i = 0; i < entries->n; i++) {
        const struct api_managed_fields_entry *e = &entries->p[i];
        const struct path *at = AT_ITEM(list, i);
        check_must(v, at, STR("operation"), e->operation);
        if (e->operation.n && !str_eq(e->operation, operations[0]) &&
            !str_eq(e->operation, operations[1]))
            validate_covered(v, cause_not_supported(v->causes, AT(at, "operation"), e->operation,
                                                    operations, 2));
        if (e->fields_type.n && !str_eqz(e->fields_type, "FieldsV1"))
            cause_invalid(v->causes, AT(at, "fieldsType"), e->fields_type,
                          STR("must be `FieldsV1`"));
        validate_meta_manager(v, AT(at, "manager"), e->manager);
        if (e->subresource.n > SUBRESOURCE_BYTES_MAX)
            cause_too_long(v->causes, AT(at, "subresource"), SUBRESOURCE_BYTES_MAX);
    }
}

// --- The whole -----------------------------------------------------------------------------------

static void check_generation(struct validator *v, int64_t generation)
{
    if (generation < 0)
        causes_mark(v->causes,
                    cause_invalid_i64(v->causes, AT(AT(NULL, "metadata"), "generation"), generation,
                                      STR("must be greater than or equal to 0")),
                    "minimum", COVERED);
}

void validate_object_meta(struct validator *v, const struct api_object_meta *meta, bool namespaced,
                          const struct name_rule *rule)
{
    const struct path *root = AT(NULL, "metadata");
    validate_meta_names(v, meta, rule);
    if (v->clean_meta == meta) // the general rules and those of the kind differ in names alone
        return;
    size_t before = v->causes->n;
    check_namespace(v, meta, namespaced);
    check_generation(v, meta->generation);
    validate_labels(v, AT(root, "labels"), &meta->labels);
    validate_annotations(v, AT(root, "annotations"), &meta->annotations);
    check_owners(v, AT(root, "ownerReferences"), &meta->owner_references);
    check_finalizers(v, AT(root, "finalizers"), &meta->finalizers);
    check_managed_fields(v, AT(root, "managedFields"), &meta->managed_fields);
    if (v->causes->n == before)
        v->clean_meta = meta;
}

static void check_new_finalizers(struct validator *v, const struct path *at,
                                 const struct api_str_array *now, const struct api_str_array *old)
{
    cleanup_sbuf struct sbuf b = {0};
    cleanup_seen struct seen known = {0};
    struct api_str_array extra = {arena_array(scratch(v), struct str, now->n + 1), 0};
    for (size_t i = 0; i < old->n; i++)
        (void)seen_add(&known, old->p[i]);
    for (size_t i = 0; i < now->n; i++)
        if (!seen_add(&known, now->p[i]))
            extra.p[extra.n++] = now->p[i];
    if (extra.n == 0)
        return;
    qsort(extra.p, extra.n, sizeof(*extra.p), str_cmp_elements);
    sbuf_addz(&b, "no new finalizers can be added if the object is being deleted, found new "
                  "finalizers []string{");
    for (size_t i = 0; i < extra.n; i++) {
        if (i)
            sbuf_addz(&b, ", ");
        sbuf_add_quoted(&b, extra.p[i]);
    }
    sbuf_addc(&b, '}');
    cause_forbidden(v->causes, at, sbuf_str(&b));
}

static void check_same_text(struct validator *v, struct str field, struct str value, struct str old,
                            const char *origin)
{
    if (str_eq(value, old))
        return;
    size_t n = cause_invalid(v->causes, AT_NAME(AT(NULL, "metadata"), field), value,
                             STR("field is immutable"));
    causes_mark(v->causes, n, origin, origin != NULL);
}

static bool meta_time_equal(const struct api_time *a, const struct api_time *b)
{
    return a->set == b->set && (!a->set || (a->at.sec == b->at.sec && a->at.nsec == b->at.nsec));
}

static void check_same_time(struct validator *v, struct str field, const struct api_time *value,
                            const struct api_time *old)
{
    if (meta_time_equal(value, old))
        return;
    cleanup_sbuf struct sbuf b = {0};
    if (value->set) {
        sbuf_addc(&b, '"');
        rfc3339_write_seconds(value->at, &b);
        sbuf_addc(&b, '"');
    } else {
        sbuf_addz(&b, "null");
    }
    size_t n = cause_invalid_json(v->causes, AT_NAME(AT(NULL, "metadata"), field), sbuf_str(&b),
                                  STR("field is immutable"));
    causes_mark(v->causes, n, "immutable", COVERED);
}

static void check_same_grace(struct validator *v, const struct api_object_meta *meta,
                             const struct api_object_meta *old)
{
    if (meta->has_deletion_grace_period_seconds == old->has_deletion_grace_period_seconds &&
        meta->deletion_grace_period_seconds == old->deletion_grace_period_seconds)
        return;
    struct str shown = STR("null");
    if (meta->has_deletion_grace_period_seconds)
        shown = arena_strf(scratch(v), "%lld", (long long)meta->deletion_grace_period_seconds);
    size_t n = cause_invalid_json(v->causes, AT(AT(NULL, "metadata"), "deletionGracePeriodSeconds"),
                                  shown, STR("field is immutable"));
    causes_mark(v->causes, n, "immutable", COVERED);
}

void validate_object_meta_update(struct validator *v, const struct api_object_meta *meta,
                                 const struct api_object_meta *old)
{
    const struct path *root = AT(NULL, "metadata");
    if (v->clean_update == meta)
        return;
    size_t before = v->causes->n;
    if (old->deletion_timestamp.set)
        check_new_finalizers(v, AT(root, "finalizers"), &meta->finalizers, &old->finalizers);
    if (meta->resource_version.n == 0)
        cause_invalid(v->causes, AT(root, "resourceVersion"), meta->resource_version,
                      STR("must be specified for an update"));
    check_generation(v, meta->generation);
    if (meta->generation < old->generation)
        cause_invalid_i64(v->causes, AT(root, "generation"), meta->generation,
                          STR("must not be decremented"));
    check_same_text(v, STR("name"), meta->name, old->name, NULL);
    check_same_text(v, STR("namespace"), meta->namespace, old->namespace, NULL);
    check_same_text(v, STR("uid"), meta->uid, old->uid, "immutable");
    check_same_time(v, STR("creationTimestamp"), &meta->creation_timestamp,
                    &old->creation_timestamp);
    check_same_time(v, STR("deletionTimestamp"), &meta->deletion_timestamp,
                    &old->deletion_timestamp);
    check_same_grace(v, meta, old);
    if (v->clean_meta != meta) {
        validate_labels(v, AT(root, "labels"), &meta->labels);
        validate_annotations(v, AT(root, "annotations"), &meta->annotations);
        check_owners(v, AT(root, "ownerReferences"), &meta->owner_references);
        check_managed_fields(v, AT(root, "managedFields"), &meta->managed_fields);
    }
    if (v->causes->n == before)
        v->clean_update = meta;
}

void validate_cluster_meta(struct validator *v, const struct api_object_meta *meta,
                           const struct api_object_meta *old)
{
    static const struct name_rule subdomain = {.check = name_dns_subdomain};
    if (old)
        validate_object_meta_update(v, meta, old);
    else
        validate_object_meta(v, meta, false, &subdomain);
    validate_kube_finalizers(v, meta);
}

void validate_common_meta(struct validator *v, const struct api_object_meta *meta,
                          const struct api_object_meta *old, bool namespaced)
{
    static const struct name_rule segment = {.check = name_path_segment};
    validate_object_meta(v, meta, namespaced, &segment);
    if (old)
        validate_object_meta_update(v, meta, old);
}

void validate_template_meta(struct validator *v, const struct api_object_meta *meta,
                            const struct path *at)
{
    validate_annotations(v, AT(at, "annotations"), &meta->annotations);
    validate_labels(v, AT(at, "labels"), &meta->labels);
    const struct api_type *t = &api_object_meta_type;
    for (size_t i = 0; i < t->fields_len; i++) {
        const struct api_field *f = &t->fields[i];
        if (str_eqz(f->name, "labels") || str_eqz(f->name, "annotations") ||
            !api_field_present(f, meta))
            continue;
        // Upstream makes the path from Go's name of the field.
        cause_forbidden(v->causes, AT_NAME(at, str_eqz(f->name, "uid") ? STR("uID") : f->name),
                        STR("cannot be set"));
    }
}

// --- Conditions ----------------------------------------------------------------------------------

static bool meta_is_alpha(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool good_reason(struct str s)
{
    if (s.n == 0 || !meta_is_alpha(s.p[0]))
        return false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool word = meta_is_alpha(c) || (c >= '0' && c <= '9') || c == '_';
        if (!word && (i + 1 == s.n || (c != ',' && c != ':')))
            return false;
    }
    return true;
}

static void check_reason(struct validator *v, const struct path *at, struct str reason)
{
    if (reason.n == 0) {
        validate_covered(v, cause_required(v->causes, at, STR("")));
        return;
    }
    if (!good_reason(reason))
        cause_invalid(v->causes, at, reason,
                      STR("a condition reason must start with alphabetic character, optionally "
                          "followed by a string of alphanumeric characters or '_,:', and must end "
                          "with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  "
                          "or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used "
                          "for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"));
    if (reason.n > REASON_BYTES_MAX)
        causes_mark(v->causes, cause_too_long(v->causes, at, REASON_BYTES_MAX), "maxBytes",
                    COVERED);
}

static void validate_condition(struct validator *v, const struct path *at,
                               const struct api_condition *c)
{
    static const struct str statuses[] = {STR_INIT("False"), STR_INIT("True"), STR_INIT("Unknown")};
    if (c->type.n == 0)
        validate_covered(v, cause_required(v->causes, AT(at, "type"), STR("is required")));
    else
        validate_label_key(v, AT(at, "type"), c->type);
    bool known = false;
    for (size_t i = 0; i < array_len(statuses); i++)
        known = known || str_eq(c->status, statuses[i]);
    if (c->status.n == 0)
        validate_covered(v, cause_required(v->causes, AT(at, "status"), STR("")));
    else if (!known)
        validate_covered(v, cause_not_supported(v->causes, AT(at, "status"), c->status, statuses,
                                                array_len(statuses)));
    if (c->observed_generation < 0)
        causes_mark(v->causes,
                    cause_invalid_i64(v->causes, AT(at, "observedGeneration"),
                                      c->observed_generation,
                                      STR("must be greater than or equal to zero")),
                    "minimum", COVERED);
    if (!c->last_transition_time.set)
        validate_covered(v, cause_required(v->causes, AT(at, "lastTransitionTime"), STR("")));
    check_reason(v, AT(at, "reason"), c->reason);
    if (c->message.n > CONDITION_MESSAGE_BYTES_MAX)
        cause_too_long(v->causes, AT(at, "message"), CONDITION_MESSAGE_BYTES_MAX);
}

void validate_conditions(struct validator *v, const struct path *list,
                         const struct api_condition_array *conditions)
{
    cleanup_seen struct seen types = {0};
    for (size_t i = 0; i < conditions->n; i++) {
        if (seen_add(&types, conditions->p[i].type))
            validate_covered(v,
                             cause_duplicate(v->causes, AT_ITEM(list, i), conditions->p[i].type));
        validate_condition(v, AT_ITEM(list, i), &conditions->p[i]);
    }
}

// --- Node selectors ------------------------------------------------------------------------------

static bool meta_is_either(struct str s, const char *a, const char *b)
{
    return str_eqz(s, a) || str_eqz(s, b);
}

static void validate_node_expression(struct validator *v, const struct path *at,
                                     const struct api_node_selector_requirement *r, bool preferred)
{
    const struct path *values = AT(at, "values");
    if (meta_is_either(r->operator, "In", "NotIn")) {
        if (r->values.n == 0)
            cause_required(v->causes, values,
                           STR("must be specified when `operator` is 'In' or 'NotIn'"));
    } else if (meta_is_either(r->operator, "Exists", "DoesNotExist")) {
        if (r->values.n)
            cause_forbidden(
                v->causes, values,
                STR("may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
    } else if (meta_is_either(r->operator, "Gt", "Lt")) {
        if (r->values.n != 1)
            cause_required(v->causes, values,
                           STR("must be specified single value when `operator` is 'Lt' or 'Gt'"));
    } else {
        cause_invalid(v->causes, AT(at, "operator"), r->operator,
                      STR("not a valid selector operator"));
    }
    validate_label_key(v, AT(at, "key"), r->key);
    for (size_t i = 0; i < r->values.n && !preferred; i++)
        validate_format(v, AT_ITEM(values, i), r->values.p[i], name_label_value,
                        "format=k8s-label-value");
}

static void check_field_requirement(struct validator *v, const struct path *at,
                                    const struct api_node_selector_requirement *r)
{
    if (!meta_is_either(r->operator, "In", "NotIn"))
        cause_invalid(v->causes, AT(at, "operator"), r->operator,
                      STR("not a valid selector operator"));
    else if (r->values.n != 1)
        cause_required(v->causes, AT(at, "values"),
                       STR("must be only one value when `operator` is 'In' or 'NotIn' for node "
                           "field selector"));
    if (!str_eqz(r->key, "metadata.name")) {
        cause_invalid(v->causes, AT(at, "key"), r->key, STR("not a valid field selector key"));
        return;
    }
    for (size_t i = 0; i < r->values.n; i++)
        validate_format(v, AT_ITEM(AT(at, "values"), i), r->values.p[i], name_dns_subdomain, NULL);
}

static void check_term(struct validator *v, const struct path *at,
                       const struct api_node_selector_term *term, bool preferred)
{
    for (size_t i = 0; i < term->match_expressions.n; i++)
        validate_node_expression(v, AT_ITEM(AT(at, "matchExpressions"), i),
                                 &term->match_expressions.p[i], preferred);
    for (size_t i = 0; i < term->match_fields.n; i++)
        check_field_requirement(v, AT_ITEM(AT(at, "matchFields"), i), &term->match_fields.p[i]);
}

void validate_preferred_term(struct validator *v, const struct path *at,
                             const struct api_node_selector_term *term)
{
    check_term(v, at, term, true);
}

void validate_node_selector(struct validator *v, const struct path *at,
                            const struct api_node_selector *selector)
{
    if (selector->node_selector_terms.n == 0)
        cause_required(v->causes, AT(at, "nodeSelectorTerms"),
                       STR("must have at least one node selector term"));
    for (size_t i = 0; i < selector->node_selector_terms.n; i++)
        check_term(v, AT_ITEM(AT(at, "nodeSelectorTerms"), i), &selector->node_selector_terms.p[i],
                   false);
}
