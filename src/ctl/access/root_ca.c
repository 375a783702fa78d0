// SPDX-License-Identifier: Apache-2.0
//
// Every namespace has a ConfigMap kube-root-ca.crt: who vouches for the API server. Pods mount it
// beside their token.
#include <stdlib.h>

#include "api/meta.h"
#include "ctl/core/ctl_int.h"

#include "base/banned.h"

#define CA_NAME  "kube-root-ca.crt"
#define CA_KEY   "ca.crt"
#define NOTE_KEY "kubernetes.io/description"
#define NOTE_TEXT                                                                             \
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal " \
    "endpoints such as the internal service IP or kubernetes.default.svc. No other usage is " \
    "guaranteed across distributions of Kubernetes clusters."

struct root_ca_ctl {
    struct ctl *ctl;
    struct work *work;
    struct list calls;
    struct sbuf pem;
};

static bool root_ca_map_is_current(const struct root_ca_ctl *r, const struct api_config_map *map)
{
    const struct str *note = api_map_find(&map->metadata.annotations, STR(NOTE_KEY));
    const struct str *pem = api_map_find(&map->data, STR(CA_KEY));
    return map->data.n == 1 && pem && str_eq(*pem, sbuf_str(&r->pem)) && note && note->n;
}

static void root_ca_write_map(struct root_ca_ctl *r, struct str namespace,
                              const struct typed_object *old)
{
    cleanup_arena struct arena arena = {0};
    struct api_str_entry pem = {STR(CA_KEY), sbuf_str(&r->pem)};
    struct api_config_map map = {.metadata = {.name = STR(CA_NAME), .namespace = namespace}};
    if (old)
        map = *(const struct api_config_map *)old->object.value;
    map.data = (struct api_str_map){&pem, 1};
    meta_map_put(&map.metadata.annotations, STR(NOTE_KEY), STR(NOTE_TEXT), &arena);
    const struct api_object object = {ctl_kind(CACHE_ROOT_CAS), &map};
    api_set_type_meta(&object);
    struct ctl_call *call = ctl_call_new(&r->calls, r->work, namespace, CACHE_ROOT_CAS);
    if (old)
        client_update(r->ctl->client, &object, NULL, ctl_call_done, call);
    else
        client_create(r->ctl->client, &object, NULL, ctl_call_done, call);
}

static void root_ca_step_key(void *arg, struct str key)
{
    struct root_ca_ctl *r = arg;
    if (!ctl_synced(r->ctl)) {
        work_retry(r->work, key);
        return;
    }
    const struct typed_object *namespace = ctl_find(r->ctl, CACHE_NAMESPACES, STR(""), key);
    const struct typed_object *o = ctl_find(r->ctl, CACHE_ROOT_CAS, key, STR(CA_NAME));
    if (!namespace || namespace->meta->deletion_timestamp.set ||
        (o && root_ca_map_is_current(r, o->object.value)))
        work_done(r->work, key);
    else
        root_ca_write_map(r, key, o);
}

static void root_ca_namespace_changed(void *arg, const struct typed_object *before,
                                      const struct typed_object *after)
{
    struct root_ca_ctl *r = arg;
    if (!before && after)
        work_add(r->work, after->meta->name);
}

static void map_changed(void *arg, const struct typed_object *before,
                        const struct typed_object *after)
{
    struct root_ca_ctl *r = arg;
    work_add(r->work, (after ? after : before)->meta->namespace);
}

struct root_ca_ctl *root_ca_ctl_new(struct ctl *ctl, struct str pem)
{
    struct root_ca_ctl *r = xcalloc(1, sizeof(*r));
    r->ctl = ctl;
    r->work = ctl_work(ctl, "root_ca_cert_publisher", root_ca_step_key, r);
    list_init(&r->calls);
    sbuf_add(&r->pem, pem);
    ctl_watch(ctl, CACHE_NAMESPACES, root_ca_namespace_changed, r, r->work);
    ctl_watch(ctl, CACHE_ROOT_CAS, map_changed, r, r->work);
    return r;
}

static void root_ca_add_namespace(void *arg, const struct typed_object *o)
{
    struct root_ca_ctl *r = arg;
    work_add(r->work, o->meta->name);
}

void root_ca_ctl_set(struct root_ca_ctl *r, struct str pem)
{
    if (str_eq(sbuf_str(&r->pem), pem))
        return;
    sbuf_clear(&r->pem);
    sbuf_add(&r->pem, pem);
    informer_foreach(r->ctl->caches[CACHE_NAMESPACES], root_ca_add_namespace, r);
}

void root_ca_ctl_free(struct root_ca_ctl *r)
{
    if (!r)
        return;
    ctl_calls_drop(&r->calls);
    work_free(r->work);
    sbuf_done(&r->pem);
    free(r);
}
