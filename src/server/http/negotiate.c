// SPDX-License-Identifier: Apache-2.0
//
// The Accept and Content-Type headers: media types, table and partial forms, as apimachinery reads
// them.
#include "server/http/negotiate.h"

#include <stdlib.h>

#include "base/mem.h"

#include "base/banned.h"

struct clause {
    struct str type;
    struct str subtype;
    struct str as, group, version;
    bool pretty;
    bool refused; // wants something that is not offered
    int quality;  // thousandths
    size_t order;
};

static bool negotiate_same_word(struct str a, const char *lower)
{
    size_t n = strlen(lower);
    if (a.n != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = a.p[i];
        if (c >= 'A' && c <= 'Z')
            c = (char)(c + 32);
        if (c != lower[i])
            return false;
    }
    return true;
}

// read_quality reads 0, 0.5, 1.000 to thousandths; what is not a number counts as 1, as in Go.
static int read_quality(struct str v)
{
    if (v.n == 0 || v.p[0] < '0' || v.p[0] > '9')
        return 1000;
    int whole = v.p[0] - '0', thousandths = 0, unit = 100;
    for (size_t i = 2; i < v.n && i < 5 && v.p[1] == '.'; i++, unit /= 10)
        if (v.p[i] >= '0' && v.p[i] <= '9')
            thousandths += (v.p[i] - '0') * unit;
    int q = whole * 1000 + thousandths;
    return q > 1000 ? 1000 : q;
}

static void read_parameter(struct str part, struct clause *c)
{
    struct str name, value;
    str_cut(part, '=', &name, &value);
    name = str_trim(name);
    value = str_trim(value);
    if (value.n >= 2 && value.p[0] == '"' && value.p[value.n - 1] == '"')
        value = str_make(value.p + 1, value.n - 2);
    if (negotiate_same_word(name, "q"))
        c->quality = read_quality(value);
    else if (negotiate_same_word(name, "as"))
        c->as = value;
    else if (negotiate_same_word(name, "g"))
        c->group = value;
    else if (negotiate_same_word(name, "v"))
        c->version = value;
    else if (negotiate_same_word(name, "pretty"))
        c->pretty = str_eq(value, STR("1"));
    else if (negotiate_same_word(name, "stream"))
        c->refused |= value.n > 0 && !str_eq(value, STR("watch"));
    else if (negotiate_same_word(name, "sv"))
        c->refused |= value.n > 0;
}

static struct clause read_clause(struct str text)
{
    struct clause c = {.quality = 1000};
    struct str media, rest;
    str_cut(text, ';', &media, &rest);
    str_cut(str_trim(media), '/', &c.type, &c.subtype);
    while (rest.n) {
        struct str part;
        str_cut(rest, ';', &part, &rest);
        read_parameter(part, &c);
    }
    return c;
}

static int compare_clauses(const void *pa, const void *pb)
{
    const struct clause *a = pa, *b = pb;
    if (a->quality != b->quality)
        return a->quality > b->quality ? -1 : 1;
    bool any_a = str_eq(a->type, STR("*")), any_b = str_eq(b->type, STR("*"));
    if (any_a != any_b)
        return any_a ? 1 : -1;
    any_a = str_eq(a->subtype, STR("*"));
    any_b = str_eq(b->subtype, STR("*"));
    if (any_a != any_b)
        return any_a ? 1 : -1;
    return a->order < b->order ? -1 : a->order > b->order;
}

// transform_of reads what a clause turns objects into. False when that is not offered.
static bool transform_of(const struct clause *c, unsigned allowed, struct form *f)
{
    f->as = FORM_OBJECT;
    if (f->media == MEDIA_OPENAPI && !(allowed & FORM_ALLOW_OPENAPI))
        return false;
    if (c->as.n == 0 && c->group.n == 0 && c->version.n == 0)
        return f->media != MEDIA_PROTOBUF || (allowed & FORM_ALLOW_PROTOBUF);
    if (str_eq(c->group, STR("meta.k8s.io")) && (allowed & FORM_ALLOW_TRANSFORMS)) {
        f->v1beta1 = str_eq(c->version, STR("v1beta1"));
        if (!f->v1beta1 && !str_eq(c->version, STR("v1")))
            return false;
        if (str_eq(c->as, STR("Table")) && !f->v1beta1 && f->media != MEDIA_PROTOBUF)
            f->as = FORM_TABLE;
        else if (str_eq(c->as, STR("PartialObjectMetadata")) ||
                 str_eq(c->as, STR("PartialObjectMetadataList")))
            f->as = FORM_METADATA;
        return f->as != FORM_OBJECT;
    }
    if (str_eq(c->group, STR("apidiscovery.k8s.io")) && (allowed & FORM_ALLOW_DISCOVERY) &&
        f->media != MEDIA_PROTOBUF && str_eq(c->as, STR("APIGroupDiscoveryList"))) {
        f->as = str_eq(c->version, STR("v2"))        ? FORM_DISCOVERY_V2
                : str_eq(c->version, STR("v2beta1")) ? FORM_DISCOVERY_V2BETA1
                                                     : FORM_OBJECT;
        return f->as != FORM_OBJECT;
    }
    return false;
}

static bool media_of(const struct clause *c, enum media *ret)
{
    *ret = MEDIA_JSON;
    if (negotiate_same_word(c->type, "*"))
        return negotiate_same_word(c->subtype, "*");
    if (!negotiate_same_word(c->type, "application"))
        return false;
    if (negotiate_same_word(c->subtype, "yaml"))
        *ret = MEDIA_YAML;
    else if (negotiate_same_word(c->subtype, "vnd.kubernetes.protobuf"))
        *ret = MEDIA_PROTOBUF;
    else if (negotiate_same_word(c->subtype, "com.github.proto-openapi.spec.v2@v1.0+protobuf") ||
             negotiate_same_word(c->subtype, "com.github.proto-openapi.spec.v2.v1.0+protobuf"))
        *ret = MEDIA_OPENAPI;
    return *ret != MEDIA_JSON || negotiate_same_word(c->subtype, "json") ||
           negotiate_same_word(c->subtype, "*");
}

int negotiate_accept(struct str header, unsigned allowed, struct form *ret, struct err *err)
{
    *ret = (struct form){0};
    if (str_trim(header).n == 0)
        return 0;
    struct clause clauses[ACCEPT_CLAUSES_MAX];
    size_t n = 0;
    while (header.n && n < ACCEPT_CLAUSES_MAX) {
        struct str text;
        str_cut(header, ',', &text, &header);
        if (str_trim(text).n == 0)
            continue;
        clauses[n] = read_clause(text);
        clauses[n].order = n;
        n++;
    }
    qsort(clauses, n, sizeof(clauses[0]), compare_clauses);
    for (size_t i = 0; i < n; i++) {
        struct form f = {.pretty = clauses[i].pretty};
        if (!clauses[i].refused && media_of(&clauses[i], &f.media) &&
            transform_of(&clauses[i], allowed, &f)) {
            *ret = f;
            return 0;
        }
    }
    return err_set(err, ERR_UNSUPPORTED,
                   "only the following media types are accepted: application/json, "
                   "application/yaml%s",
                   allowed & FORM_ALLOW_PROTOBUF ? ", application/vnd.kubernetes.protobuf" : "");
}

// media_name cuts parameters off.
static struct str media_name(struct str header)
{
    struct str media, rest;
    str_cut(header, ';', &media, &rest);
    return str_trim(media);
}

int negotiate_body(struct str header, enum media *ret, struct err *err)
{
    struct str media = media_name(header);
    if (media.n == 0 || negotiate_same_word(media, "application/json"))
        *ret = MEDIA_JSON;
    else if (negotiate_same_word(media, "application/yaml"))
        *ret = MEDIA_YAML;
    else if (negotiate_same_word(media, "application/vnd.kubernetes.protobuf"))
        *ret = MEDIA_PROTOBUF;
    else
        return err_set(err, ERR_UNSUPPORTED,
                       "the body of the request was in an unknown format - accepted media types "
                       "include: application/json, application/yaml, "
                       "application/vnd.kubernetes.protobuf");
    return 0;
}

int negotiate_patch(struct str header, enum patch_media *ret, struct err *err)
{
    static const char *const names[] = {
        [PATCH_JSON] = "application/json-patch+json",
        [PATCH_MERGE] = "application/merge-patch+json",
        [PATCH_STRATEGIC] = "application/strategic-merge-patch+json",
        [PATCH_APPLY] = "application/apply-patch+yaml",
    };
    struct str media = media_name(header);
    for (size_t i = 0; i < array_len(names); i++) {
        if (negotiate_same_word(media, names[i])) {
            *ret = (enum patch_media)i;
            return 0;
        }
    }
    return err_set(err, ERR_UNSUPPORTED,
                   "the body of the request was in an unknown format - accepted media types "
                   "include: application/json-patch+json, application/merge-patch+json, "
                   "application/strategic-merge-patch+json, application/apply-patch+yaml");
}
