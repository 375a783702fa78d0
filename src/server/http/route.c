// SPDX-License-Identifier: Apache-2.0
//
// Paths of requests, taken apart by tables: trees of resources and documents by their first
// segment, single documents by the whole path. No state; every segment is a slice of the path.
#include "server/http/route.h"

#include "base/banned.h"

// Longest: apis/G/V/watch/namespaces/N/plural/name/subresource.
#define SEGMENTS_MAX 10

struct segments {
    struct str p[SEGMENTS_MAX];
    size_t n;
    bool too_many;
};

// A path without its first slash, and without one at the end, which changes nothing.
static struct str route_trim_path(struct str path)
{
    if (path.n && path.p[0] == '/')
        path = str_from(path, 1);
    if (path.n && path.p[path.n - 1] == '/')
        path.n--;
    return path;
}

static struct segments route_split_path(struct str path)
{
    struct segments s = {0};
    while (path.n) {
        struct str head;
        str_cut(path, '/', &head, &path);
        if (s.n == SEGMENTS_MAX) {
            s.too_many = true;
            break;
        }
        s.p[s.n++] = head;
    }
    return s;
}

static bool is_namespace_sub(struct str s)
{
    return str_eq(s, STR("status")) || str_eq(s, STR("finalize"));
}

// parse_resource understands what stands behind the group and version.
static void parse_resource(const struct catalog *c, const struct segments *s, size_t at,
                           struct route *r)
{
    r->type = ROUTE_UNKNOWN_API;
    if (str_eq(s->p[at], STR("watch")) && s->n > at + 1) {
        r->watch = true;
        at++;
    }
    bool in_namespace = false;
    struct str plural = s->p[at++];
    if (str_eq(plural, STR("namespaces")) && s->n > at + 1 &&
        !(s->n == at + 2 && is_namespace_sub(s->p[at + 1]))) {
        r->namespace = s->p[at];
        plural = s->p[at + 1];
        at += 2;
        in_namespace = true;
    }
    const struct catalog_resource *res = catalog_find(c, r->group, r->version, plural);
    if (!res || s->n > at + 2)
        return;
    if (s->n > at)
        r->name = s->p[at++];
    struct str sub = s->n > at ? s->p[at] : (struct str){0};
    if (sub.n) {
        r->sub = catalog_sub(res, sub);
        if (!r->sub || r->name.n == 0)
            return;
    }
    // One object of a namespaced kind is found in its namespace, and nothing else is.
    if (in_namespace ? (!res->kind->namespaced || r->namespace.n == 0)
                     : (res->kind->namespaced && r->name.n))
        return;
    r->resource = res;
    r->type = ROUTE_RESOURCE;
}

static void parse_apis(const struct catalog *c, const struct segments *s, struct route *r)
{
    if (s->n == 1) {
        r->type = ROUTE_API_GROUPS;
        return;
    }
    r->group = s->p[1];
    const struct catalog_group *g = catalog_find_group(c, r->group);
    if (!g || r->group.n == 0)
        return;
    r->type = ROUTE_UNKNOWN_API;
    if (s->n == 2) {
        r->type = ROUTE_API_GROUP;
        return;
    }
    r->version = s->p[2];
    if (!catalog_find_version(c, r->group, r->version))
        return;
    if (s->n == 3)
        r->type = ROUTE_API_RESOURCES;
    else
        parse_resource(c, s, 3, r);
}

static void parse_api(const struct catalog *c, const struct segments *s, struct route *r)
{
    if (s->n == 1) {
        r->type = ROUTE_API_VERSIONS;
        return;
    }
    r->version = s->p[1];
    if (!catalog_find_version(c, r->group, r->version))
        return;
    if (s->n == 2)
        r->type = ROUTE_API_RESOURCES;
    else
        parse_resource(c, s, 2, r);
}

static void parse_openapi(const struct catalog *c, const struct segments *s, struct route *r)
{
    (void)c;
    if (s->n == 2 && str_eq(s->p[1], STR("v2")))
        r->type = ROUTE_OPENAPI_V2;
    if (s->n < 2 || !str_eq(s->p[1], STR("v3")))
        return;
    if (s->n == 2)
        r->type = ROUTE_OPENAPI_V3;
    if (s->n == 4 && str_eq(s->p[2], STR("api"))) {
        r->version = s->p[3];
        r->type = ROUTE_OPENAPI_V3;
    }
    if (s->n == 5 && str_eq(s->p[2], STR("apis"))) {
        r->group = s->p[3];
        r->version = s->p[4];
        r->type = ROUTE_OPENAPI_V3;
    }
}

// Health checks: /healthz, or one of them: /healthz/NAME.
static void parse_health(const struct catalog *c, const struct segments *s, struct route *r)
{
    (void)c;
    if (s->n > 2)
        return;
    r->type = ROUTE_HEALTH;
    r->group = s->p[0];
    r->name = s->n == 2 ? s->p[1] : (struct str){0};
}

// Paths of a kind, by their first segment.
static const struct {
    struct str first;
    void (*parse)(const struct catalog *c, const struct segments *s, struct route *r);
} route_trees[] = {
    {STR_INIT("apis"), parse_apis},       {STR_INIT("api"), parse_api},
    {STR_INIT("openapi"), parse_openapi}, {STR_INIT("healthz"), parse_health},
    {STR_INIT("livez"), parse_health},    {STR_INIT("readyz"), parse_health},
};

// Single documents.
static const struct {
    struct str path;
    enum route_type type;
} route_documents[] = {
    {STR_INIT("version"), ROUTE_VERSION},
    {STR_INIT("metrics"), ROUTE_METRICS},
    {STR_INIT(".well-known/openid-configuration"), ROUTE_ISSUER},
    {STR_INIT("openid/v1/jwks"), ROUTE_KEYS},
    {STR_INIT("dray/backup"), ROUTE_BACKUP},
    {STR_INIT("dray/explain"), ROUTE_EXPLAIN},
    {STR_INIT("dray/check"), ROUTE_CHECK},
    {STR_INIT("dray/deny"), ROUTE_DENY},
};

void route_parse(const struct catalog *c, struct str path, struct route *ret)
{
    *ret = (struct route){0};
    path = route_trim_path(path);
    struct segments s = route_split_path(path);
    if (s.too_many)
        return;
    if (s.n == 0)
        ret->type = ROUTE_ROOT;
    for (size_t i = 0; s.n && i < array_len(route_trees); i++)
        if (str_eq(s.p[0], route_trees[i].first)) {
            route_trees[i].parse(c, &s, ret);
            return;
        }
    for (size_t i = 0; i < array_len(route_documents); i++)
        if (str_eq(path, route_documents[i].path))
            ret->type = route_documents[i].type;
}

unsigned route_verb(const struct route *r, struct str method)
{
    bool named = r->name.n > 0;
    unsigned verb = 0;
    if (str_eq(method, STR("GET")) || str_eq(method, STR("HEAD")))
        verb = r->watch ? VERB_WATCH : named ? VERB_GET : VERB_LIST;
    else if (str_eq(method, STR("POST")))
        verb = named && !r->sub ? 0 : VERB_CREATE;
    else if (str_eq(method, STR("PUT")))
        verb = named ? VERB_UPDATE : 0;
    else if (str_eq(method, STR("PATCH")))
        verb = named ? VERB_PATCH : 0;
    else if (str_eq(method, STR("DELETE")))
        verb = named ? VERB_DELETE : VERB_DELETE_COLLECTION;
    if (r->sub)
        return verb & r->sub->verbs;
    // All namespaces at once can be read, not written.
    if (r->resource->kind->namespaced && r->namespace.n == 0)
        verb &= VERB_LIST | VERB_WATCH;
    return verb & r->resource->verbs;
}
