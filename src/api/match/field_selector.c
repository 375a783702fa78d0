// SPDX-License-Identifier: Apache-2.0
//
// Field selectors: which fields each kind offers, and where they are.
#include "api/match/field_selector.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/custom.h"

#include "base/banned.h"

enum field_how {
    FIELD_TEXT,
    FIELD_BOOL,
    FIELD_I32,
    FIELD_EMPTY, // accepted, but no object has it
    FIELD_POD_ADDRESS,
    FIELD_POD_ACCOUNT,
    FIELD_EVENT_SOURCE,
};

// One field of one type. Fields that versions of a kind call differently have one name in common.
struct field_row {
    const struct api_type *type;
    struct str label; // in a request; empty when requests in this version do not have it
    struct str name;
    enum field_how how;
    size_t offset;
};

#define TEXT(stem, label, member)                                         \
    {                                                                     \
        &api_##stem##_type, STR_INIT(label), STR_INIT(label), FIELD_TEXT, \
            offsetof(struct api_##stem, member)                           \
    }
#define AS(stem, label, name, member)                                    \
    {                                                                    \
        &api_##stem##_type, STR_INIT(label), STR_INIT(name), FIELD_TEXT, \
            offsetof(struct api_##stem, member)                          \
    }
#define SPECIAL(stem, label, name, how, member)                   \
    {                                                             \
        &api_##stem##_type, STR_INIT(label), STR_INIT(name), how, \
            offsetof(struct api_##stem, member)                   \
    }

// Every kind has metadata.name; namespaced ones that are not listed have metadata.namespace too.
static const struct field_row rows[] = {
    TEXT(pod, "metadata.name", metadata.name),
    TEXT(pod, "metadata.namespace", metadata.namespace),
    TEXT(pod, "spec.nodeName", spec.node_name),
    AS(pod, "spec.host", "spec.nodeName", spec.node_name),
    TEXT(pod, "spec.restartPolicy", spec.restart_policy),
    TEXT(pod, "spec.schedulerName", spec.scheduler_name),
    SPECIAL(pod, "spec.serviceAccountName", "spec.serviceAccountName", FIELD_POD_ACCOUNT, spec),
    SPECIAL(pod, "spec.hostNetwork", "spec.hostNetwork", FIELD_BOOL, spec.host_network),
    TEXT(pod, "status.phase", status.phase),
    SPECIAL(pod, "status.podIP", "status.podIP", FIELD_POD_ADDRESS, status),
    SPECIAL(pod, "status.podIPs", "status.podIPs", FIELD_EMPTY, status),
    TEXT(pod, "status.nominatedNodeName", status.nominated_node_name),

    TEXT(certificate_signing_request, "metadata.name", metadata.name),
    TEXT(certificate_signing_request, "spec.signerName", spec.signer_name),
    TEXT(cluster_trust_bundle, "metadata.name", metadata.name),
    TEXT(cluster_trust_bundle, "spec.signerName", spec.signer_name),
    TEXT(pod_certificate_request, "metadata.name", metadata.name),
    TEXT(pod_certificate_request, "metadata.namespace", metadata.namespace),
    TEXT(pod_certificate_request, "spec.signerName", spec.signer_name),
    TEXT(pod_certificate_request, "spec.podName", spec.pod_name),
    TEXT(pod_certificate_request, "spec.nodeName", spec.node_name),

    TEXT(node, "metadata.name", metadata.name),
    SPECIAL(node, "spec.unschedulable", "spec.unschedulable", FIELD_BOOL, spec.unschedulable),

    TEXT(namespace, "metadata.name", metadata.name),
    TEXT(namespace, "status.phase", status.phase),

    TEXT(secret, "metadata.name", metadata.name),
    TEXT(secret, "metadata.namespace", metadata.namespace),
    TEXT(secret, "type", type),

    TEXT(service, "metadata.name", metadata.name),
    TEXT(service, "metadata.namespace", metadata.namespace),
    TEXT(service, "spec.clusterIP", spec.cluster_ip),
    TEXT(service, "spec.type", spec.type),

    TEXT(replication_controller, "metadata.name", metadata.name),
    TEXT(replication_controller, "metadata.namespace", metadata.namespace),
    SPECIAL(replication_controller, "status.replicas", "status.replicas", FIELD_I32,
            status.replicas),

    TEXT(job, "metadata.name", metadata.name),
    TEXT(job, "metadata.namespace", metadata.namespace),
    SPECIAL(job, "status.successful", "status.successful", FIELD_I32, status.succeeded),

    TEXT(event, "metadata.name", metadata.name),
    TEXT(event, "metadata.namespace", metadata.namespace),
    TEXT(event, "involvedObject.kind", involved_object.kind),
    TEXT(event, "involvedObject.namespace", involved_object.namespace),
    TEXT(event, "involvedObject.name", involved_object.name),
    TEXT(event, "involvedObject.uid", involved_object.uid),
    TEXT(event, "involvedObject.apiVersion", involved_object.api_version),
    TEXT(event, "involvedObject.resourceVersion", involved_object.resource_version),
    TEXT(event, "involvedObject.fieldPath", involved_object.field_path),
    TEXT(event, "reason", reason),
    TEXT(event, "reportingComponent", reporting_component),
    SPECIAL(event, "source", "source", FIELD_EVENT_SOURCE, source),
    TEXT(event, "type", type),

    TEXT(events_event, "metadata.name", metadata.name),
    TEXT(events_event, "metadata.namespace", metadata.namespace),
    AS(events_event, "regarding.kind", "involvedObject.kind", regarding.kind),
    AS(events_event, "regarding.namespace", "involvedObject.namespace", regarding.namespace),
    AS(events_event, "regarding.name", "involvedObject.name", regarding.name),
    AS(events_event, "regarding.uid", "involvedObject.uid", regarding.uid),
    AS(events_event, "regarding.apiVersion", "involvedObject.apiVersion", regarding.api_version),
    AS(events_event, "regarding.resourceVersion", "involvedObject.resourceVersion",
       regarding.resource_version),
    AS(events_event, "regarding.fieldPath", "involvedObject.fieldPath", regarding.field_path),
    TEXT(events_event, "reason", reason),
    AS(events_event, "reportingController", "reportingComponent", reporting_controller),
    TEXT(events_event, "type", type),
    SPECIAL(events_event, "", "source", FIELD_EVENT_SOURCE, deprecated_source),

    TEXT(resource_slice, "metadata.name", metadata.name),
    TEXT(resource_slice, "spec.nodeName", spec.node_name),
    TEXT(resource_slice, "spec.driver", spec.driver),
    TEXT(resource_slice, "spec.pool.name", spec.pool.name),
    TEXT(v1beta1_resource_slice, "metadata.name", metadata.name),
    TEXT(v1beta1_resource_slice, "spec.nodeName", spec.node_name),
    TEXT(v1beta1_resource_slice, "spec.driver", spec.driver),
    TEXT(v1beta1_resource_slice, "spec.pool.name", spec.pool.name),
};

// What kinds without rows have, relative to their metadata.
static const struct field_row meta_rows[] = {
    TEXT(object_meta, "metadata.name", name),
    TEXT(object_meta, "metadata.namespace", namespace),
};

// --- Finding fields ------------------------------------------------------------------------------

static bool has_rows(const struct api_type *t)
{
    for (size_t i = 0; i < array_len(rows); i++)
        if (rows[i].type == t)
            return true;
    return false;
}

static const struct field_row *find_row(const struct api_type *t, struct str name, bool by_label)
{
    for (size_t i = 0; i < array_len(rows); i++)
        if (rows[i].type == t && name.n && str_eq(by_label ? rows[i].label : rows[i].name, name))
            return &rows[i];
    for (size_t i = 0; !has_rows(t) && i < array_len(meta_rows); i++)
        if (str_eq(meta_rows[i].label, name))
            return &meta_rows[i];
    return NULL;
}

static int not_supported(const struct api_kind *kind, struct str label, struct err *err)
{
    cleanup_sbuf struct sbuf quoted = {0};
    sbuf_add_quoted(&quoted, label);
    if (kind->custom)
        return err_set(err, ERR_BAD_REQUEST, "field label not supported: %.*s", STR_ARG(label));
    if (!has_rows(kind->type))
        return err_set(err, ERR_BAD_REQUEST,
                       "%s is not a known field selector: only \"metadata.name\", "
                       "\"metadata.namespace\"",
                       quoted.p);
    if (kind->type == &api_job_type)
        return err_set(err, ERR_BAD_REQUEST, "field label %s not supported for Job", quoted.p);
    if (str_eqz(kind->kind, "ResourceSlice"))
        return err_set(err, ERR_BAD_REQUEST,
                       "field label not supported for %.*s, Kind=ResourceSlice: %.*s",
                       STR_ARG(kind->api_version), STR_ARG(label));
    return err_set(err, ERR_BAD_REQUEST, "field label not supported: %.*s", STR_ARG(label));
}

// --- Reading -------------------------------------------------------------------------------------

struct terms VEC(struct str);

// field_selector_split_terms cuts at the commas that no backslash stands before.
static void field_selector_split_terms(struct str text, struct arena *arena, struct terms *out)
{
    size_t start = 0;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == '\\') {
            i++;
        } else if (text.p[i] == ',') {
            vec_push_arena(arena, out, str_make(text.p + start, i - start));
            start = i + 1;
        }
    }
    if (text.n)
        vec_push_arena(arena, out, str_from(text, start));
}

// field_selector_rune_size is the length of the character at p.
static size_t field_selector_rune_size(struct str s, size_t at)
{
    size_t n = 1;
    while (at + n < s.n && ((unsigned char)s.p[at + n] & 0xc0) == 0x80)
        n++;
    return n;
}

static int field_selector_unescape(struct str text, struct arena *arena, struct str *ret,
                                   struct err *err)
{
    char *to = arena_alloc(arena, text.n + 1, 1);
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        if (c == ',' || c == '=')
            return err_set(err, ERR_BAD_REQUEST,
                           "invalid field selector: unescaped character in value: %d", c);
        if (c == '\\') {
            i++;
            if (i == text.n || !strchr("\\,=", text.p[i]) || !text.p[i])
                return err_set(err, ERR_BAD_REQUEST,
                               "invalid field selector: invalid escape sequence: \\%.*s",
                               i < text.n ? (int)field_selector_rune_size(text, i) : 0, text.p + i);
            c = text.p[i];
        }
        to[n++] = c;
    }
    *ret = str_make(to, n);
    return 0;
}

// cut_term splits at the first operator: !=, ==, =.
static bool cut_term(struct str term, struct field_requirement *ret, struct str *ret_value)
{
    for (size_t i = 0; i < term.n; i++) {
        bool differs = term.p[i] == '!' && i + 1 < term.n && term.p[i + 1] == '=';
        if (!differs && term.p[i] != '=')
            continue;
        bool two = differs || (i + 1 < term.n && term.p[i + 1] == '=');
        ret->field = str_upto(term, i);
        ret->differs = differs;
        *ret_value = str_from(term, i + (two ? 2 : 1));
        return true;
    }
    return false;
}

static int read_term(struct str all, struct str term, struct arena *arena,
                     struct field_requirement *ret, struct err *err)
{
    struct str value;
    if (!cut_term(term, ret, &value))
        return err_set(err, ERR_BAD_REQUEST, "invalid selector: '%.*s'; can't understand '%.*s'",
                       STR_ARG(all), STR_ARG(term));
    return field_selector_unescape(value, arena, &ret->value, err);
}

// Fields that the definition of a kind offers.
static bool custom_has(const struct api_custom *c, struct str field)
{
    for (size_t i = 0; c && i < c->selectable_len; i++)
        if (str_eq(str_from(c->selectable[i], 1), field))
            return true;
    return false;
}

// field_selector_resolve finds the field of a requirement: by its label in kind, then by its name
// in stored.
static int field_selector_resolve(struct field_requirement *r, const struct api_kind *kind,
                                  const struct api_type *stored, struct err *err)
{
    if (custom_has(kind->custom, r->field))
        return 0; // kept beside the stored object under this very name
    const struct field_row *row = find_row(kind->type, r->field, true);
    if (!row)
        return not_supported(kind, r->field, err);
    r->field = row->name;
    r->row = find_row(stored, row->name, false);
    if (!r->row)
        return not_supported(kind, r->field, err);
    const struct api_field *meta = api_type_field(stored, STR("metadata"));
    r->base = r->row->type == &api_object_meta_type && meta ? meta->offset : 0;
    return 0;
}

int field_selector_parse(struct str text, const struct api_kind *kind,
                         const struct api_type *stored, struct arena *arena,
                         struct field_selector *ret, struct err *err)
{
    struct terms terms = {0};
    text = arena_str(arena, text);
    field_selector_split_terms(text, arena, &terms);
    if (terms.n)
        qsort(terms.p, terms.n, sizeof(*terms.p), str_cmp_elements);
    struct field_requirement *p = arena_array(arena, struct field_requirement, terms.n);
    size_t n = 0;
    for (size_t i = 0; i < terms.n; i++) {
        if (terms.p[i].n == 0)
            continue;
        int r = read_term(text, terms.p[i], arena, &p[n++], err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < n; i++) {
        int r = field_selector_resolve(&p[i], kind, stored ? stored : kind->type, err);
        if (r < 0)
            return r;
    }
    *ret = (struct field_selector){p, n};
    return 0;
}

// --- Matching and writing ------------------------------------------------------------------------

static struct str pod_address(const struct api_pod_status *status)
{
    return status->pod_ips.n ? status->pod_ips.p[0].ip : status->pod_ip;
}

static struct str field_selector_event_source(const struct field_row *row, const void *object)
{
    const struct api_event_source *source = (const void *)((const char *)object + row->offset);
    if (source->component.n)
        return source->component;
    return row->type == &api_event_type
               ? ((const struct api_event *)object)->reporting_component
               : ((const struct api_events_event *)object)->reporting_controller;
}

static bool field_selector_is_number(struct str text, int32_t number)
{
    char shown[16];
    int n = snprintf(shown, sizeof(shown), "%d", number);
    return str_eq(text, str_make(shown, (size_t)n));
}

static bool field_selector_has_value(const struct field_row *row, const void *object,
                                     struct str value)
{
    const void *member = (const char *)object + row->offset;
    switch (row->how) {
    case FIELD_TEXT:
        return str_eq(*(const struct str *)member, value);
    case FIELD_BOOL:
        return str_eqz(value, *(const bool *)member ? "true" : "false");
    case FIELD_I32:
        return field_selector_is_number(value, *(const int32_t *)member);
    case FIELD_EMPTY:
        return value.n == 0;
    case FIELD_POD_ADDRESS:
        return str_eq(pod_address(member), value);
    case FIELD_POD_ACCOUNT: {
        const struct api_pod_spec *spec = member;
        return str_eq(spec->service_account_name.n ? spec->service_account_name
                                                   : spec->service_account,
                      value);
    }
    case FIELD_EVENT_SOURCE:
        return str_eq(field_selector_event_source(row, object), value);
    }
    return false;
}

bool field_selector_matches(const struct field_selector *s, const void *object)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->p[i].row &&
            field_selector_has_value(s->p[i].row, (const char *)object + s->p[i].base,
                                     s->p[i].value) == s->p[i].differs)
            return false;
    return true;
}

bool field_selector_exact(const struct field_selector *s, struct str field, struct str *ret)
{
    for (size_t i = 0; i < s->n; i++) {
        if (!s->p[i].differs && str_eq(s->p[i].field, field)) {
            *ret = s->p[i].value;
            return true;
        }
    }
    return false;
}

void field_selector_write(const struct field_selector *s, struct sbuf *out)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct field_requirement *r = &s->p[i];
        if (i)
            sbuf_addc(out, ',');
        sbuf_add(out, r->field);
        sbuf_addz(out, r->differs ? "!=" : "=");
        for (size_t c = 0; c < r->value.n; c++) {
            if (strchr("\\,=", r->value.p[c]) && r->value.p[c])
                sbuf_addc(out, '\\');
            sbuf_addc(out, r->value.p[c]);
        }
    }
}
