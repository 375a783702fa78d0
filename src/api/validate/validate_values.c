// SPDX-License-Identifier: Apache-2.0
//
// Rules of single values in the kinds of resource.k8s.io: names, identifiers, lists of texts, raw
// JSON, immutable fields. Each sets the origin of the declarative rule that it duplicates.
#include <string.h>

#include "api/validate/validate_int.h"
#include "base/utf8.h"
#include "codec/json.h"

#include "base/banned.h"

#define DRIVER_NAME_MAX 63
#define POOL_NAME_MAX   253
#define IDENTIFIER_MAX  32

void validate_format(struct validator *v, const struct path *at, struct str value, name_check check,
                     const char *origin)
{
    struct name_msgs msgs = {.arena = scratch(v)};
    check(value, &msgs);
    for (size_t i = 0; i < msgs.n; i++) {
        size_t n = cause_invalid(v->causes, at, value, msgs.p[i]);
        v->causes->p[n].origin = origin;
    }
}

void validate_dns_label(struct validator *v, const struct path *at, struct str value)
{
    validate_format(v, at, value, name_dns_label, "format=k8s-short-name");
}

void validate_dns_subdomain(struct validator *v, const struct path *at, struct str value)
{
    validate_format(v, at, value, name_dns_subdomain, "format=k8s-long-name");
}

void validate_label_key(struct validator *v, const struct path *at, struct str value)
{
    validate_format(v, at, value, name_label_key, "format=k8s-label-key");
}

void validate_label_value(struct validator *v, const struct path *at, struct str value)
{
    validate_format(v, at, value, name_label_value, NULL);
}

struct str validate_lower_case(struct str s, struct arena *arena)
{
    char *p = arena_dup(arena, s.p, s.n, 1);
    for (size_t i = 0; i < s.n; i++)
        if (p[i] >= 'A' && p[i] <= 'Z')
            p[i] = (char)(p[i] + ('a' - 'A'));
    return str_make(p, s.n);
}

void validate_driver_name(struct validator *v, const struct path *at, struct str value,
                          bool covered)
{
    size_t from = v->causes->n;
    if (value.n == 0) {
        cause_required(v->causes, at, STR(""));
        causes_mark(v->causes, from, NULL, covered);
        return;
    }
    if (value.n > DRIVER_NAME_MAX) {
        cause_too_long(v->causes, at, DRIVER_NAME_MAX);
        causes_mark(v->causes, from, covered ? "maxLength" : NULL, covered);
    }
    // Capitals are allowed, but the words are those for the lower-case rule.
    from = v->causes->n;
    struct name_msgs msgs = {.arena = scratch(v)};
    name_dns_subdomain(validate_lower_case(value, scratch(v)), &msgs);
    for (size_t i = 0; i < msgs.n; i++)
        cause_invalid(v->causes, at, value, msgs.p[i]);
    causes_mark(v->causes, from, covered ? "format=k8s-long-name-caseless" : NULL, covered);
}

void validate_pool_name(struct validator *v, const struct path *at, struct str value)
{
    if (value.n == 0) {
        cause_required(v->causes, at, STR(""));
        return;
    }
    size_t from = v->causes->n;
    if (value.n > POOL_NAME_MAX)
        cause_too_long(v->causes, at, POOL_NAME_MAX);
    for (bool more = true; more;) {
        struct str part;
        more = str_cut(value, '/', &part, &value);
        validate_dns_subdomain(v, at, part);
    }
    causes_mark(v->causes, from, "format=k8s-resource-pool-name", false);
}

static bool values_is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// The 36 characters of a UUID in either case.
static bool uuid_shape(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? s.p[i] != '-' : !values_is_hex(s.p[i]))
            return false;
    }
    return true;
}

// What is wrong with a UUID in any of the notations that upstream's parser takes: plain, urn:uuid:,
// in braces, without dashes. Empty when nothing is.
static struct str uuid_error(struct str s, struct arena *arena)
{
    bool good = true;
    if (s.n == 36 + 9) {
        struct str prefix = validate_lower_case(str_upto(s, 9), arena);
        if (!str_eqz(prefix, "urn:uuid:")) {
            cleanup_sbuf struct sbuf b = {0};
            sbuf_addz(&b, "invalid urn prefix: ");
            sbuf_add_quoted(&b, str_upto(s, 9));
            return arena_str(arena, sbuf_str(&b));
        }
        good = uuid_shape(str_from(s, 9));
    } else if (s.n == 36 + 2) {
        if (s.p[0] != '{' || s.p[37] != '}')
            return STR("invalid bracketed UUID format");
        good = uuid_shape(str_make(s.p + 1, 36));
    } else if (s.n == 32) {
        for (size_t i = 0; i < s.n; i++)
            good = good && values_is_hex(s.p[i]);
    } else if (s.n == 36) {
        good = uuid_shape(s);
    } else {
        return arena_strf(arena, "invalid UUID length: %zu", s.n);
    }
    return good ? STR("") : STR("invalid UUID format");
}

void validate_share_id(struct validator *v, const struct path *at, struct str value)
{
    size_t from = v->causes->n;
    struct str why = uuid_error(value, scratch(v));
    if (why.n)
        cause_invalid(v->causes, at, value,
                      arena_strf(scratch(v), "error validating uid: %.*s", STR_ARG(why)));
    else if (!name_is_uuid(value))
        cause_invalid(v->causes, at, value,
                      STR("uid must be in RFC 4122 normalized form, "
                          "`xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal "
                          "characters"));
    causes_mark(v->causes, from, "format=k8s-uuid", true);
}

static void check_identifier(struct validator *v, const struct path *at, struct str value)
{
    if (value.n > IDENTIFIER_MAX)
        cause_too_long(v->causes, at, IDENTIFIER_MAX);
    validate_format(v, at, value, name_c_identifier, NULL);
}

void validate_qualified_name(struct validator *v, const struct path *at, struct str value)
{
    struct str domain, name;
    if (!str_cut(value, '/', &domain, &name)) {
        check_identifier(v, at, value);
        return;
    }
    // A known gap of upstream's, kept: more than one slash is not looked at.
    if (str_find_char(name, '/') >= 0)
        return;
    if (domain.n == 0)
        cause_invalid(v->causes, at, STR(""), STR("the domain must not be empty"));
    else
        validate_driver_name(v, at, domain, OWN);
    if (name.n == 0)
        cause_invalid(v->causes, at, STR(""), STR("the name must not be empty"));
    else
        check_identifier(v, at, name);
}

void validate_fully_qualified_name(struct validator *v, const struct path *at, struct str value)
{
    size_t from = v->causes->n;
    validate_qualified_name(v, at, value);
    if (str_find_char(value, '/') < 0)
        cause_invalid(
            v->causes, at, value,
            STR("a fully qualified name must be a domain and a name separated by a slash"));
    causes_mark(v->causes, from, "format=k8s-resource-fully-qualified-name", false);
}

bool validate_max_items(struct validator *v, const struct path *at, size_t have, size_t most,
                        bool covered)
{
    if (have <= most)
        return true;
    size_t n = cause_too_many(v->causes, at, have, most);
    causes_mark(v->causes, n, "maxItems", covered);
    return false;
}

void validate_unique(struct validator *v, const struct path *at, const struct text_list *list,
                     bool covered)
{
    cleanup_seen struct seen texts = {0};
    for (size_t i = 0; list->n > 1 && i < list->n; i++) {
        const struct str *text =
            (const void *)((const char *)list->items + i * list->stride + list->offset);
        if (seen_add(&texts, *text))
            causes_mark(v->causes, cause_duplicate(v->causes, AT_ITEM(at, i), *text), NULL,
                        covered);
    }
}

void validate_unchanged(struct validator *v, const struct path *at, struct str value,
                        struct str old)
{
    if (!str_eq(value, old))
        cause_invalid(v->causes, at, value, STR("field is immutable"));
}

void validate_raw_object(struct validator *v, const struct path *at, struct str raw, bool stored,
                         size_t most)
{
    if (raw.n == 0) {
        cause_required(v->causes, at, STR(""));
        return;
    }
    if (!stored && raw.n > most) {
        cause_too_long(v->causes, at, most);
        return;
    }
    cleanup_json_doc struct json_doc doc = {0};
    struct err err = {0};
    struct json_options options = {.max_bytes = SIZE_MAX, .duplicates = JSON_DUPLICATES_KEEP};
    if (json_parse(raw, &options, &doc, &err) < 0)
        cause_invalid(v->causes, at, STR("<value omitted>"),
                      arena_strf(scratch(v), "error parsing data as JSON: %s", err.msg));
    else if (json_is_null(doc.root))
        cause_required(v->causes, at, STR(""));
    else if (!json_is_object(doc.root))
        cause_invalid(v->causes, at, STR("<value omitted>"), STR("must be a valid JSON object"));
}

size_t validate_report_immutable(struct validator *v, const struct path *at,
                                 const struct api_type *t, const void *value)
{
    struct str shown = value ? validate_show_internal_json(t, value, scratch(v)) : STR("null");
    return cause_invalid_json(v->causes, at, shown, STR("field is immutable"));
}

struct str validate_quantity_text(const struct quantity *q, struct arena *arena)
{
    cleanup_sbuf struct sbuf b = {0};
    quantity_write(q, &b);
    return arena_str(arena, sbuf_str(&b));
}
