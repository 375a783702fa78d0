// SPDX-License-Identifier: Apache-2.0
#include "server/http/route.h"

#include "base/banned.h"

// Longest: apis/G/V/watch/namespaces/N/plural/name/subresource.
#define SEGMENTS_MAX 10

struct segments {
    struct str p[SEGMENTS_MAX];
    size_t n;
    bool too_many;
};

static struct segments route_split_path(struct str path)
{
    struct segments s = {0};
    if (path.n && path.p[0] == '/')
        path = str_from(path, 1);
    // One slash at the end changes nothing.
    if (path.n && path.p[path.n - 1] == '/')
        path.n--;
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

static void parse_openapi(const struct segments *s, struct route *r)
{
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

static bool is_health(struct str s)
{
    return str_eq(s, STR("healthz")) || str_eq(s, STR("livez")) || str_eq(s, STR("readyz"));
}

void route_parse(const struct catalog *c, struct str path, struct route *ret)
{
    *ret = (struct route){0};
    struct segments s = route_split_path(path);
    if (s.too_many)
        return;
    if (s.n == 0) {
        ret->type = ROUTE_ROOT;
        return;
    }
    struct str first = s.p[0];
    if (str_eq(first, STR("apis")))
        parse_apis(c, &s, ret);
    else if (str_eq(first, STR("api")))
        parse_api(c, &s, ret);
    else if (str_eq(first, STR("openapi")))
        parse_openapi(&s, ret);
    else if (str_eq(first, STR("version")) && s.n == 1)
        ret->type = ROUTE_VERSION;
    else if (str_eq(first, STR("metrics")) && s.n == 1)
        ret->type = ROUTE_METRICS;
    else if (str_eq(first, STR(".well-known")) && s.n == 2 &&
             str_eq(s.p[1], STR("openid-configuration")))
        ret->type = ROUTE_ISSUER;
    else if (str_eq(first, STR("openid")) && s.n == 3 && str_eq(s.p[1], STR("v1")) &&
             str_eq(s.p[2], STR("jwks")))
        ret->type = ROUTE_KEYS;
    else if (is_health(first) && s.n <= 2) {
        ret->type = ROUTE_HEALTH;
        ret->group = first;
        ret->name = s.n == 2 ? s.p[1] : (struct str){0};
    } else if (str_eq(first, STR("dray")) && s.n == 2 && str_eq(s.p[1], STR("backup")))
        ret->type = ROUTE_BACKUP;
    else if (str_eq(first, STR("dray")) && s.n == 2 && str_eq(s.p[1], STR("explain")))
        ret->type = ROUTE_EXPLAIN;
    else if (str_eq(first, STR("dray")) && s.n == 2 && str_eq(s.p[1], STR("check")))
        ret->type = ROUTE_CHECK;
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
