// SPDX-License-Identifier: Apache-2.0
//
// Discovery documents, plain and aggregated, from the catalog.
#include "server/http/discovery.h"

#include "codec/json_writer.h"

#include "base/banned.h"

static void type_meta(struct json_writer *w, struct str kind, struct str api_version)
{
    json_write_text(w, "kind", kind);
    json_write_text(w, "apiVersion", api_version);
}

static void discovery_write_words(struct json_writer *w, struct str key, const char *const *items)
{
    if (!items || !*items)
        return;
    json_write_key(w, key);
    json_write_array_begin(w);
    for (; *items; items++)
        json_write_str(w, str_z(*items));
    json_write_array_end(w);
}

static void discovery_write_verbs(struct json_writer *w, unsigned bits)
{
    json_write_key(w, STR("verbs"));
    json_write_array_begin(w);
    for (unsigned i = 0; i < VERB_BITS; i++)
        if (bits & (1U << i))
            json_write_str(w, str_z(catalog_verb_name(i)));
    json_write_array_end(w);
}

void discovery_versions(const struct catalog *c, struct str address, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    json_write_object_begin(&w);
    json_write_text(&w, "kind", STR("APIVersions"));
    json_write_key(&w, STR("versions"));
    json_write_array_begin(&w);
    const struct catalog_group *core = catalog_find_group(c, STR(""));
    for (size_t i = 0; core && i < core->versions.n; i++)
        json_write_str(&w, core->versions.p[i].version);
    json_write_array_end(&w);
    json_write_key(&w, STR("serverAddressByClientCIDRs"));
    json_write_array_begin(&w);
    json_write_object_begin(&w);
    json_write_text(&w, "clientCIDR", STR("0.0.0.0/0"));
    json_write_text(&w, "serverAddress", address);
    json_write_object_end(&w);
    json_write_array_end(&w);
    json_write_object_end(&w);
}

// --- Groups --------------------------------------------------------------------------------------

static void group_version(struct json_writer *w, const struct catalog_version *v)
{
    json_write_object_begin(w);
    json_write_key(w, STR("groupVersion"));
    cleanup_sbuf struct sbuf name = {0};
    sbuf_addf(&name, "%.*s/%.*s", STR_ARG(v->group), STR_ARG(v->version));
    json_write_str(w, sbuf_str(&name));
    json_write_text(w, "version", v->version);
    json_write_object_end(w);
}

static void group_body(struct json_writer *w, const struct catalog_group *g)
{
    json_write_text(w, "name", g->name);
    json_write_key(w, STR("versions"));
    json_write_array_begin(w);
    vec_foreach(&g->versions, v)
        group_version(w, v);
    json_write_array_end(w);
    json_write_key(w, STR("preferredVersion"));
    group_version(w, &g->versions.p[0]);
}

void discovery_groups(const struct catalog *c, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    json_write_object_begin(&w);
    type_meta(&w, STR("APIGroupList"), STR("v1"));
    json_write_key(&w, STR("groups"));
    json_write_array_begin(&w);
    vec_foreach(&c->groups, g) {
        if (g->name.n == 0)
            continue;
        json_write_object_begin(&w);
        group_body(&w, g);
        json_write_object_end(&w);
    }
    json_write_array_end(&w);
    json_write_object_end(&w);
}

void discovery_group(const struct catalog_group *g, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    json_write_object_begin(&w);
    type_meta(&w, STR("APIGroup"), STR("v1"));
    group_body(&w, g);
    json_write_object_end(&w);
}

// --- Resources of a version ----------------------------------------------------------------------

static void resource_entry(struct json_writer *w, const struct catalog_resource *r)
{
    const struct api_kind *k = r->kind;
    json_write_object_begin(w);
    json_write_text(w, "name", k->plural);
    json_write_text(w, "singularName", k->singular);
    json_write_key(w, STR("namespaced"));
    json_write_bool(w, k->namespaced);
    json_write_text(w, "kind", k->kind);
    discovery_write_verbs(w, r->verbs);
    discovery_write_words(w, STR("shortNames"), k->short_names);
    discovery_write_words(w, STR("categories"), k->categories);
    json_write_object_end(w);
}

static void sub_entry(struct json_writer *w, const struct catalog_resource *r,
                      const struct catalog_sub *sub)
{
    const struct api_kind *k = r->kind;
    cleanup_sbuf struct sbuf name = {0};
    sbuf_addf(&name, "%.*s/%.*s", STR_ARG(k->plural), STR_ARG(sub->name));
    json_write_object_begin(w);
    json_write_text(w, "name", sbuf_str(&name));
    json_write_text(w, "singularName", STR(""));
    json_write_key(w, STR("namespaced"));
    json_write_bool(w, k->namespaced);
    if (!str_eq(sub->kind->api_version, k->api_version)) {
        json_write_text(w, "group", sub->kind->group);
        json_write_text(w, "version", sub->kind->version);
    }
    json_write_text(w, "kind", sub->shown.n ? sub->shown : sub->kind->kind);
    discovery_write_verbs(w, sub->verbs);
    json_write_object_end(w);
}

void discovery_resources(const struct catalog_version *v, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    json_write_object_begin(&w);
    json_write_text(&w, "kind", STR("APIResourceList"));
    // Upstream leaves apiVersion out for the core group's old form, and has v1 elsewhere.
    if (v->group.n)
        json_write_text(&w, "apiVersion", STR("v1"));
    cleanup_sbuf struct sbuf name = {0};
    sbuf_addf(&name, "%.*s%s%.*s", STR_ARG(v->group), v->group.n ? "/" : "", STR_ARG(v->version));
    json_write_text(&w, "groupVersion", sbuf_str(&name));
    json_write_key(&w, STR("resources"));
    json_write_array_begin(&w);
    vec_foreach(&v->resources, r) {
        resource_entry(&w, *r);
        for (size_t i = 0; i < (*r)->subs_len; i++)
            sub_entry(&w, *r, &(*r)->subs[i]);
    }
    json_write_array_end(&w);
    json_write_object_end(&w);
}

// --- Aggregated ----------------------------------------------------------------------------------

static void response_kind(struct json_writer *w, const struct api_kind *k, struct str shown)
{
    json_write_key(w, STR("responseKind"));
    json_write_object_begin(w);
    json_write_text(w, "group", k->group);
    json_write_text(w, "version", k->version);
    json_write_text(w, "kind", shown.n ? shown : k->kind);
    json_write_object_end(w);
}

static void aggregated_resource(struct json_writer *w, const struct catalog_resource *r)
{
    const struct api_kind *k = r->kind;
    json_write_object_begin(w);
    json_write_text(w, "resource", k->plural);
    response_kind(w, k, STR(""));
    json_write_text(w, "scope", k->namespaced ? STR("Namespaced") : STR("Cluster"));
    json_write_text(w, "singularResource", k->singular);
    discovery_write_verbs(w, r->verbs);
    discovery_write_words(w, STR("shortNames"), k->short_names);
    discovery_write_words(w, STR("categories"), k->categories);
    if (r->subs_len) {
        json_write_key(w, STR("subresources"));
        json_write_array_begin(w);
        for (size_t i = 0; i < r->subs_len; i++) {
            json_write_object_begin(w);
            json_write_text(w, "subresource", r->subs[i].name);
            response_kind(w, r->subs[i].kind, r->subs[i].shown);
            discovery_write_verbs(w, r->subs[i].verbs);
            json_write_object_end(w);
        }
        json_write_array_end(w);
    }
    json_write_object_end(w);
}

static void aggregated_group(struct json_writer *w, const struct catalog_group *g)
{
    json_write_object_begin(w);
    json_write_key(w, STR("metadata"));
    json_write_object_begin(w);
    if (g->name.n)
        json_write_text(w, "name", g->name);
    json_write_key(w, STR("creationTimestamp"));
    json_write_null(w);
    json_write_object_end(w);
    json_write_key(w, STR("versions"));
    json_write_array_begin(w);
    vec_foreach(&g->versions, v) {
        json_write_object_begin(w);
        json_write_text(w, "version", v->version);
        json_write_key(w, STR("resources"));
        json_write_array_begin(w);
        vec_foreach(&v->resources, r)
            aggregated_resource(w, *r);
        json_write_array_end(w);
        json_write_text(w, "freshness", STR("Current"));
        json_write_object_end(w);
    }
    json_write_array_end(w);
    json_write_object_end(w);
}

void discovery_aggregated(const struct catalog *c, bool core, bool v2beta1, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    json_write_object_begin(&w);
    type_meta(&w, STR("APIGroupDiscoveryList"),
              v2beta1 ? STR("apidiscovery.k8s.io/v2beta1") : STR("apidiscovery.k8s.io/v2"));
    json_write_key(&w, STR("metadata"));
    json_write_raw(&w, STR("{}"));
    json_write_key(&w, STR("items"));
    json_write_array_begin(&w);
    vec_foreach(&c->groups, g) {
        if ((g->name.n == 0) == core)
            aggregated_group(&w, g);
    }
    json_write_array_end(&w);
    json_write_object_end(&w);
}
