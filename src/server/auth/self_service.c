// SPDX-License-Identifier: Apache-2.0
//
// The Service default/kubernetes (self_service.h). Each turn patches what must hold; a write that
// changes nothing makes no new version. An object that does not exist is created.
#include "server/auth/self_service.h"

#include <assert.h>
#include <stdlib.h>

#include <netinet/in.h>

#include "api/api.h"
#include "api/service_names.h"
#include "base/clock.h"
#include "base/ip.h"
#include "base/log.h"
#include "net/address.h"

#include "base/banned.h"

static struct log_module log_mod = LOG_MODULE("server");

// As kube-apiserver's.
#define SELF_SERVICE_PERIOD_NS (10 * CLOCK_NS_PER_SEC)

#define SELF_META "\"metadata\":{\"name\":\"kubernetes\",\"namespace\":\"default\",%s}"

// What is written of one of the objects.
struct self_write {
    struct client *client;
    struct client_key key;
    struct sbuf whole; // to create it
};

static void self_write_done(struct self_write *w)
{
    sbuf_done(&w->whole);
    free(w);
}

static void self_write_end(void *arg, const struct client_answer *a)
{
    struct self_write *w = arg;
    if (a->code < 0 && a->code != -ERR_ALREADY_EXISTS && a->code != -ECANCELED)
        LOG_WARN(&log_mod, "cannot write the server's own service",
                 log_str("kind", w->key.kind->kind), log_str("error", str_z(a->err->msg)));
    self_write_done(w);
}

static void self_write_create(struct self_write *w)
{
    cleanup_arena struct arena arena = {0};
    cleanup_json_doc struct json_doc doc = {0};
    struct api_object o = {0};
    struct err err = {0};
    int r = json_parse(sbuf_str(&w->whole), NULL, &doc, &err);
    if (r == 0)
        r = api_decode(&doc, doc.root, &arena, NULL, &o, &err);
    assert(r == 0); // an address or a name with a number, in our own words
    client_create(w->client, &o, NULL, self_write_end, w);
}

// The type of addresses cannot be changed: a slice of another type goes, and comes back in the next
// turn.
static void self_write_patched(void *arg, const struct client_answer *a)
{
    struct self_write *w = arg;
    if (a->code == -ERR_NOT_FOUND)
        self_write_create(w);
    else if (a->code == -ERR_INVALID && str_eqz(w->key.kind->kind, "EndpointSlice"))
        client_delete(w->client, &w->key, NULL, self_write_end, w);
    else
        self_write_end(w, a);
}

// self_write_object patches an object with the members of change, or creates it with those of
// whole.
static void self_write_object(const struct self_service *s, const char *api_version,
                              const char *kind, const char *meta, struct str change,
                              struct str whole)
{
    struct self_write *w = xcalloc(1, sizeof(*w));
    cleanup_sbuf struct sbuf patch = {0};
    w->client = s->client;
    w->key = (struct client_key){api_kind_find(str_z(api_version), str_z(kind)), STR("default"),
                                 STR("kubernetes")};
    sbuf_addf(&w->whole, "{\"apiVersion\":\"%s\",\"kind\":\"%s\"," SELF_META ",%.*s}", api_version,
              kind, meta, STR_ARG(whole));
    sbuf_addf(&patch, "{" SELF_META ",%.*s}", meta, STR_ARG(change));
    client_patch(s->client, &w->key, CLIENT_PATCH_MERGE, sbuf_str(&patch), NULL, self_write_patched,
                 w);
}

static void self_write_service(const struct self_service *s)
{
    static const char meta[] =
        "\"labels\":{\"component\":\"apiserver\",\"provider\":\"kubernetes\"},"
        "\"annotations\":{\"" SERVICE_DIRECT "\":\"true\"}";
    cleanup_sbuf struct sbuf ports = {0}, spec = {0}, whole = {0};
    sbuf_addf(
        &ports,
        "\"ports\":[{\"name\":\"https\",\"protocol\":\"TCP\",\"port\":443,\"targetPort\":%u}]",
        (unsigned)s->port);
    sbuf_addf(&spec, "\"spec\":{%.*s}", STR_ARG(sbuf_str(&ports)));
    // Cluster IPs are not changed: an administrator may have chosen another.
    sbuf_addf(&whole,
              "\"spec\":{\"type\":\"ClusterIP\",\"sessionAffinity\":\"None\",\"clusterIP\":"
              "\"" SELF_SERVICE_IP "\",\"clusterIPs\":[\"" SELF_SERVICE_IP "\"],"
              "\"ipFamilies\":[\"IPv4\"],\"ipFamilyPolicy\":\"SingleStack\",%.*s}",
              STR_ARG(sbuf_str(&ports)));
    self_write_object(s, "v1", "Service", meta, sbuf_str(&spec), sbuf_str(&whole));
}

static void self_write_endpoints(const struct self_service *s)
{
    bool v4 = ip_is(s->host, AF_INET), v6 = ip_is(s->host, AF_INET6);
    const char *type = v4 ? "IPv4" : v6 ? "IPv6" : "FQDN";
    cleanup_sbuf struct sbuf port = {0}, slice = {0}, subsets = {0};
    sbuf_addf(&port, "\"ports\":[{\"name\":\"https\",\"port\":%u,\"protocol\":\"TCP\"}]",
              (unsigned)s->port);
    sbuf_addf(&slice,
              "\"addressType\":\"%s\",\"endpoints\":[{\"addresses\":[\"%.*s\"],\"conditions\":{"
              "\"ready\":true}}],%.*s",
              type, STR_ARG(s->host), STR_ARG(sbuf_str(&port)));
    self_write_object(s, "discovery.k8s.io/v1", "EndpointSlice",
                      "\"labels\":{\"kubernetes.io/service-name\":\"kubernetes\"}",
                      sbuf_str(&slice), sbuf_str(&slice));
    if (!v4 && !v6) // Endpoints have no names
        return;
    sbuf_addf(&subsets, "\"subsets\":[{\"addresses\":[{\"ip\":\"%.*s\"}],%.*s}]", STR_ARG(s->host),
              STR_ARG(sbuf_str(&port)));
    self_write_object(s, "v1", "Endpoints",
                      "\"labels\":{\"endpointslice.kubernetes.io/skip-mirror\":\"true\"}",
                      sbuf_str(&subsets), sbuf_str(&subsets));
}

static void self_service_turn(void *arg)
{
    struct self_service *s = arg;
    self_write_service(s);
    self_write_endpoints(s);
    exec_timer_start(s->exec, &s->timer, SELF_SERVICE_PERIOD_NS);
}

void self_service_start(struct self_service *s, struct exec *exec, struct client *client,
                        struct str url)
{
    struct str port, rest;
    uint64_t number = 0;
    ptrdiff_t at = str_find(url, STR("://"));
    *s = (struct self_service){.exec = exec, .client = client};
    s->text = xstrndup(url.p, url.n);
    rest = at >= 0 ? str_from(str_z(s->text), (size_t)at + 3) : str_z(s->text);
    if (!address_split(rest, &s->host, &port) || str_to_u64(port, &number) < 0 || number == 0 ||
        number > UINT16_MAX) {
        LOG_WARN(&log_mod, "no service for the server itself: its address cannot be read",
                 log_str("url", url));
        return;
    }
    s->port = (uint16_t)number;
    s->timer = (struct exec_timer){.fn = self_service_turn, .arg = s};
    self_service_turn(s);
}

void self_service_stop(struct self_service *s)
{
    if (s->timer.fn)
        exec_timer_stop(s->exec, &s->timer);
    free(s->text);
    *s = (struct self_service){0};
}
