// SPDX-License-Identifier: Apache-2.0
//
// What the API server understands before it does anything: paths, queries, headers, tokens.
#include "base/arena.h"
#include "server/auth/auth.h"
#include "server/auth/token.h"
#include "server/http/catalog.h"
#include "server/http/discovery.h"
#include "server/http/encode.h"
#include "server/http/negotiate.h"
#include "server/http/query.h"
#include "server/http/route.h"
#include "unit.h"

#include "base/banned.h"

// --- Catalog and routes --------------------------------------------------------------------------

static struct catalog make_catalog(const char *config)
{
    struct catalog c;
    struct err err = {0};
    assert_int_equal(catalog_init(&c, str_z(config), &err), 0);
    return c;
}

static void stable_and_dra_beta_versions_are_served(void **state)
{
    (void)state;
    struct catalog c = make_catalog("");
    assert_non_null(catalog_find(&c, STR(""), STR("v1"), STR("pods")));
    assert_non_null(catalog_find(&c, STR("resource.k8s.io"), STR("v1"), STR("resourceclaims")));
    assert_non_null(catalog_find(&c, STR("resource.k8s.io"), STR("v1beta1"), STR("deviceclasses")));
    assert_non_null(catalog_find(&c, STR("resource.k8s.io"), STR("v1beta2"), STR("deviceclasses")));
    assert_null(catalog_find(&c, STR("resource.k8s.io"), STR("v1alpha3"), STR("devicetaintrules")));
    const struct catalog_group *g = catalog_find_group(&c, STR("resource.k8s.io"));
    assert_int_equal(g->versions.n, 3);
    assert_str(g->versions.p[0].version, "v1");
    assert_str(g->versions.p[1].version, "v1beta2");
    assert_str(g->versions.p[2].version, "v1beta1");
    assert_str(c.groups.p[0].name, "");
    catalog_done(&c);
}

// Custom resources have versions of any name.
static void versions_are_preferred_in_order(void **state)
{
    (void)state;
    static const char *const order[] = {
        "v99999999999999999999999999999999999999999999999999999999999999",
        "v1000000000",
        "v101",
        "v2",
        "v1",
        "x",
        "v3beta1",
        "v1beta2147483647",
        "v1beta2",
        "v1beta",
        "v200alpha1",
        "v1alpha99999999999999999999999999",
    };
    for (size_t i = 0; i < array_len(order); i++)
        for (size_t k = 0; k < array_len(order); k++)
            if (catalog_prefers(str_z(order[i]), str_z(order[k])) != (i < k))
                fail_msg("%s, %s", order[i], order[k]);
    assert_false(catalog_prefers(STR("v1"), STR("v1")));
}

static void the_closer_switch_wins(void **state)
{
    (void)state;
    struct catalog c = make_catalog("resource.k8s.io/v1alpha3=true,api/alpha=false,api/beta=false,"
                                    "resource.k8s.io/v1alpha3/devicetaintrules=false");
    assert_null(catalog_find(&c, STR("resource.k8s.io"), STR("v1beta1"), STR("deviceclasses")));
    assert_null(catalog_find(&c, STR("resource.k8s.io"), STR("v1alpha3"), STR("devicetaintrules")));
    assert_non_null(catalog_find(&c, STR("resource.k8s.io"), STR("v1alpha3"),
                                 STR("resourcepoolstatusrequests")));
    catalog_done(&c);
    struct err err = {0};
    assert_int_equal(catalog_init(&c, STR("nonsense/v9=true"), &err), -ERR_INVALID);
    assert_non_null(strstr(err.msg, "nonsense/v9"));
    assert_int_equal(catalog_init(&c, STR("apps/v1=maybe"), &err), -ERR_INVALID);
}

struct route_row {
    const char *path;
    enum route_type type;
    const char *plural, *namespace, *name, *sub;
};

static const struct route_row route_rows[] = {
    {"/api/v1/pods", ROUTE_RESOURCE, "pods", "", "", ""},
    {"/api/v1/pods/", ROUTE_RESOURCE, "pods", "", "", ""},
    {"/api/v1/namespaces", ROUTE_RESOURCE, "namespaces", "", "", ""},
    {"/api/v1/namespaces/a", ROUTE_RESOURCE, "namespaces", "", "a", ""},
    {"/api/v1/namespaces/a/finalize", ROUTE_RESOURCE, "namespaces", "", "a", "finalize"},
    {"/api/v1/namespaces/a/status", ROUTE_RESOURCE, "namespaces", "", "a", "status"},
    {"/api/v1/namespaces/a/pods", ROUTE_RESOURCE, "pods", "a", "", ""},
    {"/api/v1/namespaces/a/pods/b", ROUTE_RESOURCE, "pods", "a", "b", ""},
    {"/api/v1/namespaces/a/pods/b/binding", ROUTE_RESOURCE, "pods", "a", "b", "binding"},
    {"/api/v1/watch/namespaces/a/pods/b", ROUTE_RESOURCE, "pods", "a", "b", ""},
    {"/apis/resource.k8s.io/v1/resourceslices/x", ROUTE_RESOURCE, "resourceslices", "", "x", ""},
    {"/apis/resource.k8s.io/v1/namespaces/n/resourceclaims/c/status", ROUTE_RESOURCE,
     "resourceclaims", "n", "c", "status"},
    {"/api/v1/pods/b", ROUTE_UNKNOWN_API, "", "", "", ""},
    {"/api/v1/namespaces/a/nodes", ROUTE_UNKNOWN_API, "", "", "", ""},
    {"/api/v1/foos", ROUTE_UNKNOWN_API, "", "", "", ""},
    {"/api/v1/nodes/a/b/c", ROUTE_UNKNOWN_API, "", "", "", ""},
    {"/api/v1/namespaces/a/pods/b/nosuch", ROUTE_UNKNOWN_API, "", "", "", ""},
    {"/apis/resource.k8s.io/v9/resourceslices", ROUTE_UNKNOWN_API, "", "", "", ""},
    {"/apis/nosuch/v1", ROUTE_UNKNOWN, "", "", "", ""},
    {"/apis//v1", ROUTE_UNKNOWN, "", "", "", ""},
    {"/foo", ROUTE_UNKNOWN, "", "", "", ""},
    {"/a/a/a/a/a/a/a/a/a/a/a/a/a/a", ROUTE_UNKNOWN, "", "", "", ""},
    {"/", ROUTE_ROOT, "", "", "", ""},
    {"", ROUTE_ROOT, "", "", "", ""},
    {"/api", ROUTE_API_VERSIONS, "", "", "", ""},
    {"/apis", ROUTE_API_GROUPS, "", "", "", ""},
    {"/apis/apps", ROUTE_API_GROUP, "", "", "", ""},
    {"/apis/apps/v1", ROUTE_API_RESOURCES, "", "", "", ""},
    {"/api/v1", ROUTE_API_RESOURCES, "", "", "", ""},
    {"/openapi/v3", ROUTE_OPENAPI_V3, "", "", "", ""},
    {"/openapi/v3/apis/apps/v1", ROUTE_OPENAPI_V3, "", "", "", ""},
    {"/openapi/v2", ROUTE_OPENAPI_V2, "", "", "", ""},
    {"/version", ROUTE_VERSION, "", "", "", ""},
    {"/readyz/ping", ROUTE_HEALTH, "", "", "ping", ""},
};

static void paths_are_understood(void **state)
{
    (void)state;
    struct catalog c = make_catalog("");
    for (size_t i = 0; i < array_len(route_rows); i++) {
        const struct route_row *row = &route_rows[i];
        struct route r;
        route_parse(&c, str_z(row->path), &r);
        if (r.type != row->type)
            fail_msg("%s is of type %d, not %d", row->path, (int)r.type, (int)row->type);
        if (row->type != ROUTE_RESOURCE)
            continue;
        assert_str(r.resource->kind->plural, row->plural);
        assert_str(r.namespace, row->namespace);
        assert_str(r.name, row->name);
        assert_str(r.sub ? r.sub->name : STR(""), row->sub);
    }
    catalog_done(&c);
}

static unsigned verb_of(const struct catalog *c, const char *path, const char *method)
{
    struct route r;
    route_parse(c, str_z(path), &r);
    assert_int_equal(r.type, ROUTE_RESOURCE);
    return route_verb(&r, str_z(method));
}

static void methods_become_verbs_where_they_are_allowed(void **state)
{
    (void)state;
    struct catalog c = make_catalog("");
    const char *all = "/api/v1/pods", *some = "/api/v1/namespaces/a/pods",
               *one = "/api/v1/namespaces/a/pods/b";
    assert_int_equal(verb_of(&c, all, "GET"), VERB_LIST);
    assert_int_equal(verb_of(&c, all, "POST"), 0);
    assert_int_equal(verb_of(&c, all, "DELETE"), 0);
    assert_int_equal(verb_of(&c, some, "POST"), VERB_CREATE);
    assert_int_equal(verb_of(&c, some, "DELETE"), VERB_DELETE_COLLECTION);
    assert_int_equal(verb_of(&c, some, "PUT"), 0);
    assert_int_equal(verb_of(&c, one, "GET"), VERB_GET);
    assert_int_equal(verb_of(&c, one, "PUT"), VERB_UPDATE);
    assert_int_equal(verb_of(&c, one, "PATCH"), VERB_PATCH);
    assert_int_equal(verb_of(&c, one, "DELETE"), VERB_DELETE);
    assert_int_equal(verb_of(&c, one, "POST"), 0);
    assert_int_equal(verb_of(&c, one, "BREW"), 0);
    assert_int_equal(verb_of(&c, "/api/v1/namespaces/a/pods/b/binding", "POST"), VERB_CREATE);
    assert_int_equal(verb_of(&c, "/api/v1/namespaces/a/pods/b/binding", "GET"), 0);
    assert_int_equal(verb_of(&c, "/api/v1/namespaces/a/pods/b/status", "DELETE"), 0);
    assert_int_equal(verb_of(&c, "/api/v1/namespaces", "DELETE"), 0);
    assert_int_equal(verb_of(&c, "/api/v1/watch/namespaces/a/pods/b", "GET"), VERB_WATCH);
    catalog_done(&c);
}

static void discovery_names_everything(void **state)
{
    (void)state;
    struct catalog c = make_catalog("");
    cleanup_sbuf struct sbuf out = {0};
    discovery_resources(catalog_find_version(&c, STR("resource.k8s.io"), STR("v1")), &out);
    assert_non_null(strstr(out.p, "\"name\":\"resourceclaims/status\",\"singularName\":\"\","
                                  "\"namespaced\":true,\"kind\":\"ResourceClaim\",\"verbs\":[\"get"
                                  "\",\"patch\",\"update\"]"));
    sbuf_clear(&out);
    discovery_resources(catalog_find_version(&c, STR(""), STR("v1")), &out);
    assert_non_null(strstr(out.p, "\"name\":\"pods/eviction\",\"singularName\":\"\",\"namespaced\":"
                                  "true,\"group\":\"policy\",\"version\":\"v1\",\"kind\":"
                                  "\"Eviction\",\"verbs\":[\"create\"]"));
    sbuf_clear(&out);
    discovery_aggregated(&c, false, false, &out);
    assert_non_null(strstr(out.p, "\"resource\":\"deviceclasses\""));
    assert_null(strstr(out.p, "\"resource\":\"pods\""));
    catalog_done(&c);
}

// --- Queries -------------------------------------------------------------------------------------

static int list_options(const char *text, struct arena *arena, struct list_options *ret,
                        struct causes *causes, struct err *err)
{
    struct query q;
    query_parse(str_z(text), arena, &q);
    *causes = (struct causes){.arena = arena};
    return query_list_options(&q, false, ret, causes, err);
}

static void queries_are_decoded(void **state)
{
    (void)state;
    cleanup_arena struct arena arena = {0};
    struct query q;
    query_parse(STR("a=1&b=x%20y+z&a=2&bad=%zz&cut=%2&empty&=nameless&semi;colon=1"), &arena, &q);
    assert_str(query_str(&q, STR("a")), "1");
    assert_str(query_str(&q, STR("b")), "x y z");
    struct str v;
    assert_false(query_get(&q, STR("bad"), &v));
    assert_false(query_get(&q, STR("cut"), &v));
    assert_true(query_get(&q, STR("empty"), &v));
    assert_true(query_bool(&q, STR("empty")));
    assert_int_equal(query_flag(&q, STR("none")), QUERY_ABSENT);
    query_parse(STR("w=FALSE&x=0&y=no"), &arena, &q);
    assert_int_equal(query_flag(&q, STR("w")), QUERY_FALSE);
    assert_int_equal(query_flag(&q, STR("x")), QUERY_FALSE);
    assert_int_equal(query_flag(&q, STR("y")), QUERY_TRUE);
}

static void a_watch_from_nowhere_begins_with_what_is_there(void **state)
{
    (void)state;
    cleanup_arena struct arena arena = {0};
    struct list_options o;
    struct causes causes;
    struct err err = {0};
    assert_int_equal(list_options("watch=1", &arena, &o, &causes, &err), 0);
    assert_int_equal(o.send_initial, QUERY_TRUE);
    assert_int_equal(list_options("watch=1&resourceVersion=0", &arena, &o, &causes, &err), 0);
    assert_int_equal(o.send_initial, QUERY_TRUE);
    assert_int_equal(list_options("watch=1&resourceVersion=7", &arena, &o, &causes, &err), 0);
    assert_int_equal(o.send_initial, QUERY_ABSENT);
    assert_int_equal(o.revision, 7);
}

struct bad_row {
    const char *query;
    const char *field;
    const char *message;
};

static const struct bad_row bad_rows[] = {
    {"resourceVersionMatch=Exact", "resourceVersionMatch",
     "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"},
    {"resourceVersionMatch=Exact&resourceVersion=0", "resourceVersionMatch",
     "Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""},
    {"resourceVersionMatch=Maybe&resourceVersion=1", "resourceVersionMatch",
     "Unsupported value: \"Maybe\": supported values: \"Exact\", \"NotOlderThan\", \"\""},
    {"sendInitialEvents=true", "sendInitialEvents",
     "Forbidden: sendInitialEvents is forbidden for list"},
    {"watch=1&sendInitialEvents=true", "resourceVersionMatch",
     "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"},
    {"watch=1&resourceVersion=1&resourceVersionMatch=NotOlderThan", "resourceVersionMatch",
     "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"},
};

static void options_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < array_len(bad_rows); i++) {
        cleanup_arena struct arena arena = {0};
        struct list_options o;
        struct causes causes;
        struct err err = {0};
        assert_int_equal(list_options(bad_rows[i].query, &arena, &o, &causes, &err), -ERR_INVALID);
        assert_true(causes.n >= 1);
        assert_str(causes.p[0].field, bad_rows[i].field);
        assert_str(causes.p[0].message, bad_rows[i].message);
    }
    cleanup_arena struct arena arena = {0};
    struct list_options o;
    struct causes causes;
    struct err err = {0};
    assert_int_equal(list_options("limit=ten", &arena, &o, &causes, &err), -ERR_BAD_REQUEST);
    assert_string_equal(err.msg, "strconv.ParseInt: parsing \"ten\": invalid syntax");
    assert_int_equal(list_options("resourceVersion=x", &arena, &o, &causes, &err),
                     -ERR_BAD_REQUEST);
}

static void write_options_are_judged(void **state)
{
    (void)state;
    cleanup_arena struct arena arena = {0};
    struct query q;
    struct write_options o;
    query_parse(STR("dryRun=All&fieldManager=me&fieldValidation=Strict"), &arena, &q);
    struct causes causes = {.arena = &arena};
    assert_int_equal(query_write_options(&q, false, false, &o, &causes), 0);
    assert_true(o.dry_run);
    assert_int_equal(o.fields, QUERY_FIELDS_STRICT);
    query_parse(STR("dryRun=Some&fieldManager=a%0ab&fieldValidation=Loose&force=1"), &arena, &q);
    assert_int_equal(query_write_options(&q, true, false, &o, &causes), -ERR_INVALID);
    assert_int_equal(causes.n, 4);
    assert_str(causes.p[0].field, "force");
    assert_str(causes.p[3].message, "Unsupported value: \"Loose\": supported values: \"\", "
                                    "\"Ignore\", \"Strict\", \"Warn\"");
    causes.n = 0;
    query_parse(STR(""), &arena, &q);
    assert_int_equal(query_write_options(&q, true, true, &o, &causes), -ERR_INVALID);
    assert_str(causes.p[0].message, "Required value: is required for apply patch");
}

static void deletions_take_their_options_from_the_query(void **state)
{
    (void)state;
    cleanup_arena struct arena arena = {0};
    struct query q;
    struct err err = {0};
    query_parse(STR("gracePeriodSeconds=5&propagationPolicy=Foreground&uid=u&dryRun=All"), &arena,
                &q);
    struct api_delete_options o = {0};
    assert_int_equal(query_delete_options(&q, true, &arena, &o, &err), 0);
    assert_int_equal(o.grace_period_seconds, 5);
    assert_true(o.has_propagation_policy);
    assert_str(o.preconditions->uid, "u");
    assert_false(o.preconditions->has_resource_version);
    assert_int_equal(o.dry_run.n, 1);
    struct causes causes = {.arena = &arena};
    assert_int_equal(query_check_delete_options(&o, &causes), 0);
    o.propagation_policy = STR("Sideways");
    o.has_orphan_dependents = true;
    assert_int_equal(query_check_delete_options(&o, &causes), -ERR_INVALID);
    assert_int_equal(causes.n, 2);
}

// --- Headers -------------------------------------------------------------------------------------

static struct form accept(const char *header, unsigned allowed)
{
    struct form f;
    struct err err = {0};
    if (negotiate_accept(str_z(header), allowed, &f, &err) < 0)
        fail_msg("%s is refused: %s", header, err.msg);
    return f;
}

static void the_best_form_is_chosen(void **state)
{
    (void)state;
    assert_int_equal(accept("", 0).media, MEDIA_JSON);
    assert_int_equal(accept("*/*", 0).media, MEDIA_JSON);
    assert_int_equal(accept("application/*", 0).media, MEDIA_JSON);
    assert_int_equal(accept("application/yaml", 0).media, MEDIA_YAML);
    assert_int_equal(accept("application/yaml;q=0.1, application/json", 0).media, MEDIA_JSON);
    assert_int_equal(accept("application/json;q=0.1,application/yaml;q=0.5", 0).media, MEDIA_YAML);
    assert_int_equal(accept("application/vnd.kubernetes.protobuf,application/json", 0).media,
                     MEDIA_JSON);
    struct form f = accept("application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;"
                           "v=v1beta1;g=meta.k8s.io,application/json",
                           FORM_ALLOW_TRANSFORMS);
    assert_int_equal(f.as, FORM_TABLE);
    f = accept("application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v="
               "v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
               FORM_ALLOW_TRANSFORMS);
    assert_int_equal(f.as, FORM_METADATA);
    f = accept("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/"
               "json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
               FORM_ALLOW_DISCOVERY);
    assert_int_equal(f.as, FORM_DISCOVERY_V2);
    // What is not offered is passed over.
    f = accept("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", 0);
    assert_int_equal(f.as, FORM_OBJECT);
}

static void unknown_media_are_refused(void **state)
{
    (void)state;
    struct form f;
    struct err err = {0};
    assert_int_equal(negotiate_accept(STR("application/vnd.kubernetes.protobuf"), 0, &f, &err),
                     -ERR_UNSUPPORTED);
    assert_int_equal(negotiate_accept(STR("text/html"), 0, &f, &err), -ERR_UNSUPPORTED);
    enum media m;
    assert_int_equal(negotiate_body(STR("application/cbor"), &m, &err), -ERR_UNSUPPORTED);
    assert_int_equal(negotiate_body(STR("Application/JSON; charset=utf-8"), &m, &err), 0);
    assert_int_equal(negotiate_body(STR("application/vnd.kubernetes.protobuf"), &m, &err), 0);
    assert_int_equal(m, MEDIA_PROTOBUF);
    enum patch_media p;
    assert_int_equal(negotiate_patch(STR("application/json"), &p, &err), -ERR_UNSUPPORTED);
    assert_int_equal(negotiate_patch(STR("application/merge-patch+json"), &p, &err), 0);
    assert_int_equal(p, PATCH_MERGE);
}

// --- Tokens --------------------------------------------------------------------------------------

static void continue_tokens_go_round(void **state)
{
    (void)state;
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf text = {0};
    struct token in = {.revision = 42, .namespace = STR("ns"), .name = STR("a"), .left = 9}, out;
    struct err err = {0};
    token_write(&in, true, &text);
    assert_int_equal(token_read(sbuf_str(&text), true, STR(""), &arena, &out, &err), 0);
    assert_int_equal(out.revision, 42);
    assert_str(out.namespace, "ns");
    assert_str(out.name, "a");
    assert_int_equal(out.left, 9);
    // It belongs to its namespace.
    assert_int_equal(token_read(sbuf_str(&text), true, STR("other"), &arena, &out, &err),
                     -ERR_BAD_REQUEST);
    assert_int_equal(token_read(sbuf_str(&text), true, STR("ns"), &arena, &out, &err), 0);
}

static void kubernetes_own_tokens_are_read(void **state)
{
    (void)state;
    cleanup_arena struct arena arena = {0};
    struct token out;
    struct err err = {0};
    // {"v":"meta.k8s.io/v1","rv":5,"start":"node-1\u0000"}
    struct str text = STR("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiJub2RlLTFcdTAwMDAifQ");
    assert_int_equal(token_read(text, false, STR(""), &arena, &out, &err), 0);
    assert_int_equal(out.revision, 5);
    assert_str(out.name, "node-1");
    assert_int_equal(out.left, -1);
    assert_int_equal(token_read(STR("!!!"), false, STR(""), &arena, &out, &err), -ERR_BAD_REQUEST);
    assert_string_equal(err.msg, "continue key is not valid");
    // {"v":"v0"}
    assert_int_equal(token_read(STR("eyJ2IjoidjAifQ"), false, STR(""), &arena, &out, &err),
                     -ERR_BAD_REQUEST);
    assert_non_null(strstr(err.msg, "server does not recognize this encoded version v0"));
}

static void token_files_are_read(void **state)
{
    (void)state;
    struct auth a = {0};
    struct err err = {0};
    assert_int_equal(auth_parse(&a,
                                STR("# comment\n\nsecret,alice,1,\"dev,ops\"\nother,bob,2\n"
                                    "\"quo\"\"ted\",carol,3,x\n"),
                                &err),
                     0);
    struct registry_user *alice = map_get(&a.tokens, STR("secret"));
    assert_non_null(alice);
    assert_str(alice->name, "alice");
    assert_int_equal(alice->groups_len, 3);
    assert_str(alice->groups[1], "ops");
    assert_str(alice->groups[2], "system:authenticated");
    assert_non_null(map_get(&a.tokens, STR("quo\"ted")));
    assert_int_equal(auth_parse(&a, STR("secret,mallory,9\n"), &err), -ERR_INVALID);
    assert_int_equal(auth_parse(&a, STR("lonely\n"), &err), -ERR_INVALID);
    auth_done(&a);
}

// --- Bytes ---------------------------------------------------------------------------------------

static void revisions_and_metadata_are_found_in_json(void **state)
{
    (void)state;
    struct str json =
        STR("{\"kind\":\"X\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\\\"}{\","
            "\"resourceVersion\":\"7\",\"labels\":{\"b\":\"c\"}},\"spec\":{\"resourceVersion\":"
            "\"9\"}}");
    cleanup_sbuf struct sbuf out = {0};
    encode_revision(json, 12, &out);
    assert_non_null(strstr(out.p, "\"resourceVersion\":\"12\",\"labels\""));
    assert_non_null(strstr(out.p, "\"spec\":{\"resourceVersion\":\"9\"}}"));
    sbuf_clear(&out);
    encode_metadata(json, &out);
    assert_string_equal(out.p, "{\"name\":\"a\\\"}{\",\"resourceVersion\":\"7\",\"labels\":{\"b\":"
                               "\"c\"}}");
}

RUN_TESTS(TEST_CASE(stable_and_dra_beta_versions_are_served),
          TEST_CASE(versions_are_preferred_in_order), TEST_CASE(the_closer_switch_wins),
          TEST_CASE(paths_are_understood), TEST_CASE(methods_become_verbs_where_they_are_allowed),
          TEST_CASE(discovery_names_everything), TEST_CASE(queries_are_decoded),
          TEST_CASE(a_watch_from_nowhere_begins_with_what_is_there),
          TEST_CASE(options_that_make_no_sense_are_refused), TEST_CASE(write_options_are_judged),
          TEST_CASE(deletions_take_their_options_from_the_query),
          TEST_CASE(the_best_form_is_chosen), TEST_CASE(unknown_media_are_refused),
          TEST_CASE(continue_tokens_go_round), TEST_CASE(kubernetes_own_tokens_are_read),
          TEST_CASE(token_files_are_read), TEST_CASE(revisions_and_metadata_are_found_in_json))
