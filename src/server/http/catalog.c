// SPDX-License-Identifier: Apache-2.0
//
// Every resource, its verbs and subresources, made once from the schema and --runtime-config; kinds
// of users come and go. Routes, discovery and OpenAPI read nothing else.
#include "server/http/catalog.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/custom.h"

#include "base/banned.h"

// In the order of the bits, which is that of the alphabet.
static const char *const verb_names[VERB_BITS] = {"create", "delete", "deletecollection", "get",
                                                  "list",   "patch",  "update",           "watch"};

#define VERBS_ALL    0xffU
#define VERBS_STATUS (VERB_GET | VERB_PATCH | VERB_UPDATE)

#define VERBS_CONNECT (VERB_CREATE | VERB_GET)

#define CONNECT(sub, can, options)                                                         \
    {                                                                                      \
        .name = STR_INIT(sub), .verbs = (can), .connect = true, .shown = STR_INIT(options) \
    }

// Subresources that are served, and the kinds they speak where it is not their owner's.
static const struct {
    struct str name;
    unsigned verbs;
    struct str api_version, kind;
    bool connect;
    struct str shown;
} known_subs[] = {
    {.name = STR_INIT("approval"), .verbs = VERBS_STATUS},
    CONNECT("attach", VERBS_CONNECT, "PodAttachOptions"),
    {.name = STR_INIT("binding"),
     .verbs = VERB_CREATE,
     .api_version = STR_INIT("v1"),
     .kind = STR_INIT("Binding")},
    {.name = STR_INIT("ephemeralcontainers"), .verbs = VERBS_STATUS},
    {.name = STR_INIT("eviction"),
     .verbs = VERB_CREATE,
     .api_version = STR_INIT("policy/v1"),
     .kind = STR_INIT("Eviction")},
    CONNECT("exec", VERBS_CONNECT, "PodExecOptions"),
    {.name = STR_INIT("finalize"), .verbs = VERB_UPDATE},
    CONNECT("log", VERB_GET, ""),
    CONNECT("portforward", VERBS_CONNECT, "PodPortForwardOptions"),
    {.name = STR_INIT("resize"), .verbs = VERBS_STATUS},
    {.name = STR_INIT("scale"),
     .verbs = VERBS_STATUS,
     .api_version = STR_INIT("autoscaling/v1"),
     .kind = STR_INIT("Scale")},
    {.name = STR_INIT("status"), .verbs = VERBS_STATUS},
    {.name = STR_INIT("token"),
     .verbs = VERB_CREATE,
     .api_version = STR_INIT("authentication.k8s.io/v1"),
     .kind = STR_INIT("TokenRequest")},
};

const char *catalog_verb_name(unsigned bit)
{
    return bit < VERB_BITS ? verb_names[bit] : "";
}

// --- What is switched on -------------------------------------------------------------------------

enum stage { STAGE_ALPHA, STAGE_BETA, STAGE_STABLE };

static enum stage stage_of(struct str version)
{
    if (str_contains(version, STR("alpha")))
        return STAGE_ALPHA;
    return str_contains(version, STR("beta")) ? STAGE_BETA : STAGE_STABLE;
}

static bool on_by_default(const struct api_kind *k)
{
    enum stage stage = stage_of(k->version);
    return stage == STAGE_STABLE ||
           (stage == STAGE_BETA && str_eq(k->group, STR("resource.k8s.io")));
}

// How closely a key of the configuration names a kind: 0 not at all; a closer one wins.
static int key_rank(struct str key, const struct api_kind *k)
{
    struct str group = {0}, rest = {0}, version = {0}, plural = {0};
    if (str_eq(key, STR("api/all")))
        return 1;
    enum stage stage = stage_of(k->version);
    if ((str_eq(key, STR("api/ga")) && stage == STAGE_STABLE) ||
        (str_eq(key, STR("api/beta")) && stage == STAGE_BETA) ||
        (str_eq(key, STR("api/alpha")) && stage == STAGE_ALPHA))
        return 2;
    if (k->group.n == 0)
        return str_eq(key, k->version) ? 3 : 0;
    if (!str_cut(key, '/', &group, &rest) || !str_eq(group, k->group))
        return 0;
    if (!str_cut(rest, '/', &version, &plural))
        return str_eq(rest, k->version) ? 3 : 0;
    return str_eq(version, k->version) && str_eq(plural, k->plural) ? 4 : 0;
}

static int read_switch(struct str item, struct str *ret_key, bool *ret_on, struct err *err)
{
    struct str value = {0};
    bool has_value = str_cut(str_trim(item), '=', ret_key, &value);
    *ret_on = !has_value || value.n == 0 || str_eq(value, STR("true")) || str_eq(value, STR("1"));
    if (!*ret_on && !str_eq(value, STR("false")) && !str_eq(value, STR("0")))
        return err_set(err, ERR_INVALID,
                       "runtime-config: '%.*s' must be true or false, as in "
                       "resource.k8s.io/v1alpha3=true",
                       STR_ARG(value));
    return 0;
}

// apply_config sets served of each resource. A key that names nothing is an error.
static int apply_config(struct catalog *c, struct str config, struct err *err)
{
    int *ranks = arena_array(&c->arena, int, c->resources.n + 1);
    int ret = 0;
    while (config.n && ret == 0) {
        struct str item, key;
        bool on = false, used = false;
        str_cut(config, ',', &item, &config);
        if (str_trim(item).n == 0)
            continue;
        ret = read_switch(item, &key, &on, err);
        for (size_t i = 0; i < c->resources.n && ret == 0; i++) {
            int rank = key_rank(key, c->resources.p[i].kind);
            used |= rank > 0;
            if (rank && rank >= ranks[i]) {
                c->resources.p[i].served = on;
                ranks[i] = rank;
            }
        }
        used |= str_starts(key, STR("api/"));
        if (ret == 0 && !used)
            ret = err_set(err, ERR_INVALID,
                          "runtime-config: there is no API '%.*s'; name a group and version such "
                          "as resource.k8s.io/v1alpha3, or api/all, api/ga, api/beta, api/alpha",
                          STR_ARG(key));
    }
    return ret;
}

// --- Building ------------------------------------------------------------------------------------

static void add_subs(struct catalog_resource *r)
{
    for (size_t i = 0; i < array_len(known_subs); i++) {
        for (const char *const *sub = r->kind->subresources; sub && *sub; sub++) {
            if (!str_eqz(known_subs[i].name, *sub))
                continue;
            const struct api_kind *kind = r->kind;
            if (known_subs[i].kind.n)
                kind = api_kind_find(known_subs[i].api_version, known_subs[i].kind);
            if (kind && r->subs_len < CATALOG_SUBS_MAX)
                r->subs[r->subs_len++] =
                    (struct catalog_sub){known_subs[i].name, known_subs[i].verbs, kind,
                                         known_subs[i].connect, known_subs[i].shown};
        }
    }
}

static void add_resource(struct catalog *c, const struct api_kind *k)
{
    // Kinds without a list are questions: they are only ever created.
    struct catalog_resource r = {.kind = k,
                                 .verbs = k->list ? VERBS_ALL : VERB_CREATE,
                                 .served = on_by_default(k),
                                 .notices = notices_of(k, &c->arena)};
    // Namespaces go one at a time: each takes what is in it along.
    if (k->group.n == 0 && str_eq(k->plural, STR("namespaces")))
        r.verbs &= ~(unsigned)VERB_DELETE_COLLECTION;
    add_subs(&r);
    vec_push(&c->resources, r);
}

// The digits at *i; of very many the first ones.
static uint64_t catalog_take_number(struct str v, size_t *i)
{
    uint64_t n = 0;
    for (; *i < v.n && v.p[*i] >= '0' && v.p[*i] <= '9'; (*i)++)
        if (n < UINT32_MAX)
            n = n * 10 + (uint64_t)(v.p[*i] - '0');
    return n;
}

bool catalog_prefers(struct str a, struct str b)
{
    enum stage a_stage = stage_of(a), b_stage = stage_of(b);
    if (a_stage != b_stage)
        return a_stage > b_stage;
    size_t i = 1, k = 1;
    uint64_t a_major = catalog_take_number(a, &i), b_major = catalog_take_number(b, &k);
    if (a_major != b_major)
        return a_major > b_major;
    while (i < a.n && (a.p[i] < '0' || a.p[i] > '9'))
        i++;
    while (k < b.n && (b.p[k] < '0' || b.p[k] > '9'))
        k++;
    return catalog_take_number(a, &i) > catalog_take_number(b, &k);
}

static struct catalog_group *catalog_add_group(struct catalog *c, struct str name)
{
    vec_foreach(&c->groups, g)
        if (str_eq(g->name, name))
            return g;
    // Core first, the others by name.
    size_t at = 0;
    while (at < c->groups.n && str_cmp(c->groups.p[at].name, name) < 0)
        at++;
    vec_push(&c->groups, (struct catalog_group){0});
    for (size_t i = c->groups.n - 1; i > at; i--)
        c->groups.p[i] = c->groups.p[i - 1];
    c->groups.p[at] = (struct catalog_group){.name = name};
    return &c->groups.p[at];
}

static struct catalog_version *catalog_add_version(struct catalog_group *g, struct str version)
{
    vec_foreach(&g->versions, v)
        if (str_eq(v->version, version))
            return v;
    size_t at = 0;
    while (at < g->versions.n && catalog_prefers(g->versions.p[at].version, version))
        at++;
    vec_push(&g->versions, (struct catalog_version){0});
    for (size_t i = g->versions.n - 1; i > at; i--)
        g->versions.p[i] = g->versions.p[i - 1];
    g->versions.p[at] = (struct catalog_version){.group = g->name, .version = version};
    return &g->versions.p[at];
}

static void add_served(struct catalog *c, struct catalog_resource *r)
{
    const struct api_kind *k = r->kind;
    struct catalog_version *v = catalog_add_version(catalog_add_group(c, k->group), k->version);
    vec_push(&v->resources, r);
    for (size_t i = v->resources.n - 1;
         i > 0 && str_cmp(v->resources.p[i - 1]->kind->plural, k->plural) > 0; i--) {
        v->resources.p[i] = v->resources.p[i - 1];
        v->resources.p[i - 1] = r;
    }
    struct str key = arena_strf(&c->paths, "%.*s/%.*s/%.*s", STR_ARG(k->group), STR_ARG(k->version),
                                STR_ARG(k->plural));
    *map_put(&c->by_path, key) = r;
}

static bool is_review(const struct api_kind *k)
{
    return str_eq(k->group, STR("authorization.k8s.io")) ||
           str_eq(k->group, STR("authentication.k8s.io"));
}

int catalog_init(struct catalog *c, struct str config, struct err *err)
{
    *c = (struct catalog){0};
    for (size_t i = 0; i < api_kinds_len; i++)
        if (api_kinds[i].plural.n && (api_kinds[i].list || is_review(&api_kinds[i])))
            add_resource(c, &api_kinds[i]);
    int r = apply_config(c, config, err);
    vec_foreach(&c->resources, resource)
        if (resource->served)
            add_served(c, resource);
    if (r < 0)
        catalog_done(c);
    return r;
}

static void forget_served(struct catalog *c)
{
    vec_foreach(&c->groups, g) {
        vec_foreach(&g->versions, v)
            vec_done(&v->resources);
        vec_done(&g->versions);
    }
    vec_done(&c->groups);
    map_done(&c->by_path);
    c->by_path.index = (struct map_index){0};
    arena_done(&c->paths);
    c->paths = (struct arena){0};
}

// A resource whose subresources follow its definition.
static struct catalog_resource *custom_resource(struct catalog *c, const struct api_kind *k)
{
    struct catalog_resource *r = NULL;
    vec_foreach(&c->customs, have)
        if ((*have)->kind == k)
            r = *have;
    if (!r) {
        r = xcalloc(1, sizeof(*r));
        vec_push(&c->customs, r);
    }
    *r = (struct catalog_resource){.kind = k, .verbs = VERBS_ALL, .served = true};
    add_subs(r);
    return r;
}

void catalog_set_customs(struct catalog *c, const struct custom_kinds *customs)
{
    forget_served(c);
    vec_foreach(&c->resources, resource)
        if (resource->served)
            add_served(c, resource);
    const struct api_kind *hub, *k;
    for (size_t i = 0; (hub = custom_hub_at(customs, i)); i++)
        for (size_t v = 0; (k = custom_version_at(hub, v)); v++)
            if (!catalog_find(c, k->group, k->version, k->plural))
                add_served(c, custom_resource(c, k));
}

void catalog_done(struct catalog *c)
{
    forget_served(c);
    vec_done(&c->resources);
    vec_foreach(&c->customs, r)
        free(*r);
    vec_done(&c->customs);
    arena_done(&c->arena);
}

// --- Finding -------------------------------------------------------------------------------------

const struct catalog_resource *catalog_find(const struct catalog *c, struct str group,
                                            struct str version, struct str plural)
{
    // Plural and group are at most 253 bytes together, being the name of a definition; the version
    // 63.
    char key[512];
    int n = snprintf(key, sizeof(key), "%.*s/%.*s/%.*s", STR_ARG(group), STR_ARG(version),
                     STR_ARG(plural));
    if (n < 0 || (size_t)n >= sizeof(key))
        return NULL;
    struct catalog_resource **r = map_get(&c->by_path, str_make(key, (size_t)n));
    return r ? *r : NULL;
}

const struct catalog_group *catalog_find_group(const struct catalog *c, struct str group)
{
    vec_foreach(&c->groups, g)
        if (str_eq(g->name, group))
            return g;
    return NULL;
}

const struct catalog_version *catalog_find_version(const struct catalog *c, struct str group,
                                                   struct str version)
{
    const struct catalog_group *g = catalog_find_group(c, group);
    if (!g)
        return NULL;
    vec_foreach(&g->versions, v)
        if (str_eq(v->version, version))
            return v;
    return NULL;
}

const struct catalog_sub *catalog_sub(const struct catalog_resource *r, struct str name)
{
    for (size_t i = 0; i < r->subs_len; i++)
        if (str_eq(r->subs[i].name, name))
            return &r->subs[i];
    return NULL;
}
