// SPDX-License-Identifier: Apache-2.0
//
// Objects that every cluster has besides roles: those of schema/cluster.yaml, and the ConfigMaps by
// which joining machines and aggregated servers learn whom to trust.
#include "server/auth/cluster.h"

#include <assert.h>
#include <stdlib.h>

#include "api/api.h"
#include "base/civil.h"
#include "base/clock.h"
#include "base/log.h"
#include "client/cluster_info.h"
#include "codec/docs.h"

#include "base/banned.h"

static struct log_module log_mod = LOG_MODULE("server");

#define NAMESPACE "kube-system"

static void cluster_on_ensured(void *arg, const struct client_answer *a)
{
    (void)arg;
    if (a->code < 0 && a->code != -ERR_ALREADY_EXISTS && a->code != -ECANCELED)
        LOG_WARN(&log_mod, "something that every cluster has could not be made",
                 log_str("error", str_z(a->err->msg)));
}

// --- Objects of the schema -----------------------------------------------------------------------

static void ensure_objects(struct client *client)
{
    cleanup_arena struct arena arena = {0};
    struct docs_reader docs;
    struct err err = {0};
    int more;
    docs_reader_init(&docs, cluster_objects, NULL);
    for (;;) {
        cleanup_json_doc struct json_doc doc = {0};
        struct api_object o = {0};
        more = docs_next(&docs, &doc, &err);
        if (more <= 0)
            break;
        int r = api_decode(&doc, doc.root, &arena, NULL, &o, &err);
        assert(r == 0); // they come with the program, and a test reads them
        client_create(client, &o, NULL, cluster_on_ensured, NULL);
    }
    assert(more == 0);
    docs_reader_done(&docs);
}

// --- ConfigMaps ----------------------------------------------------------------------------------

// A ConfigMap that is written whether it is there or not.
struct writing {
    struct client *client;
    struct arena arena;
    struct api_object object;
};

static void cluster_on_written(void *arg, const struct client_answer *a)
{
    struct writing *w = arg;
    cluster_on_ensured(NULL, a);
    arena_done(&w->arena);
    free(w);
}

static void cluster_on_created(void *arg, const struct client_answer *a)
{
    struct writing *w = arg;
    if (a->code == -ERR_ALREADY_EXISTS)
        client_update(w->client, &w->object, NULL, cluster_on_written, w);
    else
        cluster_on_written(w, a);
}

static void cluster_add_entry(struct api_config_map *map, const char *key, struct str value,
                              struct arena *arena)
{
    map->data.p[map->data.n++] = (struct api_str_entry){str_z(key), arena_str(arena, value)};
}

static struct api_config_map *cluster_new_map(const char *namespace, const char *name,
                                              struct arena *arena)
{
    enum { MOST = 8 };
    struct api_config_map *map = arena_one(arena, struct api_config_map);
    map->metadata.name = str_z(name);
    map->metadata.namespace = str_z(namespace);
    map->data.p = arena_array(arena, struct api_str_entry, MOST);
    return map;
}

static struct writing *writing_new(struct client *client, const char *namespace, const char *name,
                                   struct api_config_map **ret_map)
{
    struct writing *w = xcalloc(1, sizeof(*w));
    w->client = client;
    *ret_map = cluster_new_map(namespace, name, &w->arena);
    w->object = (struct api_object){api_kind_find(STR("v1"), STR("ConfigMap")), *ret_map};
    return w;
}

// ensure_cluster_info publishes the server's address and CA for machines that want to join.
// Who holds tokens signs it (ctl/access/token.c).
static void ensure_cluster_info(struct client *client, const struct cluster_facts *facts)
{
    cleanup_sbuf struct sbuf text = {0};
    struct api_config_map *map = NULL;
    struct writing *w = writing_new(client, CLUSTER_INFO_NAMESPACE, CLUSTER_INFO_NAME, &map);
    cluster_info_write(facts->url, facts->client_ca_pem, &text);
    cluster_add_entry(map, CLUSTER_INFO_TEXT, sbuf_str(&text), &w->arena);
    client_create(client, &w->object, NULL, cluster_on_created, w);
}

// ensure_authentication publishes the CAs that aggregated servers trust.
static void ensure_authentication(struct client *client, const struct cluster_facts *facts)
{
    struct api_config_map *map = NULL;
    struct writing *w = writing_new(client, NAMESPACE, "extension-apiserver-authentication", &map);
    cluster_add_entry(map, "client-ca-file", facts->client_ca_pem, &w->arena);
    if (facts->proxy_ca_pem.n) { // sorted by key
        cluster_add_entry(map, "requestheader-allowed-names", STR("[\"front-proxy-client\"]"),
                          &w->arena);
        cluster_add_entry(map, "requestheader-client-ca-file", facts->proxy_ca_pem, &w->arena);
        cluster_add_entry(map, "requestheader-extra-headers-prefix", STR("[\"X-Remote-Extra-\"]"),
                          &w->arena);
        cluster_add_entry(map, "requestheader-group-headers", STR("[\"X-Remote-Group\"]"),
                          &w->arena);
        cluster_add_entry(map, "requestheader-uid-headers", STR("[\"X-Remote-Uid\"]"), &w->arena);
        cluster_add_entry(map, "requestheader-username-headers", STR("[\"X-Remote-User\"]"),
                          &w->arena);
    }
    client_create(client, &w->object, NULL, cluster_on_created, w);
}

// ensure_tracking records since when tokens in Secrets would have been seen. There are none here;
// who cleans up after them wants to know.
static void ensure_tracking(struct client *client, int64_t now_ns)
{
    cleanup_arena struct arena arena = {0};
    struct api_config_map *map =
        cluster_new_map(NAMESPACE, "kube-apiserver-legacy-service-account-token-tracking", &arena);
    const struct api_object o = {api_kind_find(STR("v1"), STR("ConfigMap")), map};
    struct civil_date d = civil_from_days(now_ns / CLOCK_NS_PER_SEC / 86400);
    cluster_add_entry(map, "since",
                      arena_strf(&arena, "%04d-%02d-%02d", (int)d.year, (int)d.month, (int)d.day),
                      &arena);
    client_create(client, &o, NULL, cluster_on_ensured, NULL);
}

void cluster_publish_ca(struct client *client, const struct cluster_facts *facts)
{
    if (facts->client_ca_pem.n)
        ensure_authentication(client, facts);
    if (facts->client_ca_pem.n && facts->url.n)
        ensure_cluster_info(client, facts);
}

void cluster_ensure(struct client *client, const struct cluster_facts *facts)
{
    ensure_objects(client);
    cluster_publish_ca(client, facts);
    ensure_tracking(client, facts->now_ns);
}
