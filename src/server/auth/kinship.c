// SPDX-License-Identifier: Apache-2.0
//
// An index of what the pods of each node name (Secrets, ConfigMaps, claims, …), kept from the
// store's events: the node authorizer asks it on every request.
#include "server/auth/kinship.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"
#include "registry/registry.h"

#include "base/banned.h"

// Keys are on the heap, the map's own.
struct edges MAP(uint32_t);

// Claims by which a secret belongs to volumes: "namespace/name", one for each volume; on the heap.
struct claims VEC(char *);

struct kinship {
    struct store *store;
    struct store_watch pods, volumes;
    struct edges edges;                // "what namespace/name node"
    struct MAP(struct claims) secrets; // "namespace/name" of a secret that volumes name
};

static void kinship_add_key(struct sbuf *b, enum kin kin, struct str namespace, struct str name,
                            struct str node)
{
    // None of the parts can have a blank.
    sbuf_addf(b, "%d %.*s/%.*s %.*s", (int)kin, STR_ARG(namespace), STR_ARG(name), STR_ARG(node));
}

// --- Pods ----------------------------------------------------------------------------------------

struct counting {
    struct kinship *k;
    const struct api_pod *pod;
    bool gone; // its edges are taken away
};

static void kinship_count_name(void *arg, enum kin kin, struct str name)
{
    const struct counting *c = arg;
    struct edges *edges = &c->k->edges;
    cleanup_sbuf struct sbuf b = {0};
    kinship_add_key(&b, kin, c->pod->metadata.namespace, name, c->pod->spec.node_name);
    struct str key = sbuf_str(&b);
    size_t at = map_index_find(&edges->index, key);
    if (c->gone && at != SIZE_MAX && --*map_value(edges, at) == 0) {
        char *kept = (char *)(uintptr_t)map_key(edges, at).p;
        (void)map_del(edges, key);
        free(kept);
    } else if (!c->gone && at == SIZE_MAX) {
        *map_put(edges, str_make(xstrndup(key.p, key.n), key.n)) = 1;
    } else if (!c->gone) {
        ++*map_value(edges, at);
    }
}

static void kinship_count_pod(struct kinship *k, const struct object *o, bool gone)
{
    cleanup_arena struct arena arena = {0};
    struct api_object object;
    struct str node;
    // The fields kept beside the bytes show whether these need to be read.
    if (!o || !object_field(o, STR("spec.nodeName"), &node) || !node.n ||
        registry_decode(o, o->kind, &arena, &object, NULL) < 0)
        return;
    const struct counting c = {k, object.value, gone};
    // A node makes mirror pods itself: they must give it nothing.
    if (!pod_is_mirror(c.pod))
        kin_of_pod(c.pod, &arena, kinship_count_name, (void *)(uintptr_t)&c);
}

static void kinship_on_pod(void *arg, const struct store_event *e)
{
    kinship_count_pod(arg, e->before, true);
    if (e->type != STORE_DELETED)
        kinship_count_pod(arg, e->object, false);
}

// --- Volumes -------------------------------------------------------------------------------------

struct linking {
    struct kinship *k;
    struct str claim; // "namespace/name" of the claim that the volume is bound to
    bool gone;
};

static void unlink_secret(struct kinship *k, struct str secret, struct str claim)
{
    size_t at = map_index_find(&k->secrets.index, secret);
    struct claims *list = at == SIZE_MAX ? NULL : map_value(&k->secrets, at);
    for (size_t i = 0; list && i < list->n; i++) {
        if (!str_eqz(claim, list->p[i]))
            continue;
        free(list->p[i]);
        list->p[i] = list->p[--list->n];
        break;
    }
    if (!list || list->n)
        return;
    char *kept = (char *)(uintptr_t)map_key(&k->secrets, at).p;
    vec_done(list);
    (void)map_del(&k->secrets, secret);
    free(kept);
}

static void link_secret(const struct linking *l, struct str namespace, struct str name)
{
    cleanup_sbuf struct sbuf key = {0};
    struct kinship *k = l->k;
    if (!name.n)
        return;
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(namespace), STR_ARG(name));
    struct str secret = sbuf_str(&key);
    if (l->gone) {
        unlink_secret(k, secret, l->claim);
        return;
    }
    struct claims *list = map_get(&k->secrets, secret);
    if (!list)
        list = map_put(&k->secrets, str_make(xstrndup(secret.p, secret.n), secret.n));
    vec_push(list, xstrndup(l->claim.p, l->claim.n));
}

// A secret without a namespace is in that of the claim.
static void link_ref(const struct linking *l, const struct api_secret_reference *ref,
                     struct str fallback)
{
    if (ref)
        link_secret(l, ref->namespace.n ? ref->namespace : fallback, ref->name);
}

static void link_all(const struct linking *l, const struct api_persistent_volume *volume)
{
    const struct api_persistent_volume_source *s = &volume->spec.persistent_volume_source;
    struct str own = volume->spec.claim_ref->namespace;
    if (s->azure_file)
        link_secret(l, s->azure_file->secret_namespace.n ? s->azure_file->secret_namespace : own,
                    s->azure_file->secret_name);
    link_ref(l, s->cephfs ? s->cephfs->secret_ref : NULL, own);
    link_ref(l, s->cinder ? s->cinder->secret_ref : NULL, STR(""));
    link_ref(l, s->flex_volume ? s->flex_volume->secret_ref : NULL, own);
    link_ref(l, s->rbd ? s->rbd->secret_ref : NULL, own);
    link_ref(l, s->scale_io ? s->scale_io->secret_ref : NULL, own);
    link_ref(l, s->iscsi ? s->iscsi->secret_ref : NULL, own);
    if (s->storageos && s->storageos->secret_ref)
        link_secret(l, s->storageos->secret_ref->namespace, s->storageos->secret_ref->name);
    // Those of the controller's side are none of the node's business.
    link_ref(l, s->csi ? s->csi->node_publish_secret_ref : NULL, STR(""));
    link_ref(l, s->csi ? s->csi->node_stage_secret_ref : NULL, STR(""));
    link_ref(l, s->csi ? s->csi->node_expand_secret_ref : NULL, STR(""));
}

static void link_volume(struct kinship *k, const struct object *o, bool gone)
{
    cleanup_arena struct arena arena = {0};
    struct api_object object;
    if (!o || registry_decode(o, o->kind, &arena, &object, NULL) < 0)
        return;
    const struct api_persistent_volume *volume = object.value;
    const struct api_object_reference *claim = volume->spec.claim_ref;
    if (!claim)
        return;
    const struct linking l = {
        k, arena_strf(&arena, "%.*s/%.*s", STR_ARG(claim->namespace), STR_ARG(claim->name)), gone};
    link_all(&l, volume);
}

static void volume_event(void *arg, const struct store_event *e)
{
    link_volume(arg, e->before, true);
    if (e->type != STORE_DELETED)
        link_volume(arg, e->object, false);
}

// --- Questions -----------------------------------------------------------------------------------

bool kinship_has(const struct kinship *k, enum kin kin, struct str namespace, struct str name,
                 struct str node)
{
    cleanup_sbuf struct sbuf key = {0};
    kinship_add_key(&key, kin, namespace, name, node);
    if (map_has(&k->edges, sbuf_str(&key)))
        return true;
    if (kin != KIN_SECRET)
        return false;
    sbuf_clear(&key);
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(namespace), STR_ARG(name));
    const struct claims *list = map_get(&k->secrets, sbuf_str(&key));
    for (size_t i = 0; list && i < list->n; i++) {
        struct str claim_namespace, claim;
        (void)str_cut(str_z(list->p[i]), '/', &claim_namespace, &claim);
        if (kinship_has(k, KIN_VOLUME_CLAIM, claim_namespace, claim, node))
            return true;
    }
    return false;
}

bool kinship_has_volume(const struct kinship *k, const struct api_persistent_volume *volume,
                        struct str node)
{
    const struct api_object_reference *claim = volume->spec.claim_ref;
    return claim && kinship_has(k, KIN_VOLUME_CLAIM, claim->namespace, claim->name, node);
}

// --- Start ---------------------------------------------------------------------------------------

static void kinship_follow_kind(struct kinship *k, struct store_watch *w, const char *kind,
                                void (*event)(void *arg, const struct store_event *e))
{
    struct store_walk walk = {.kind = api_kind_find(STR("v1"), str_z(kind))};
    *w = (struct store_watch){.kind = walk.kind, .event = event, .arg = k};
    int r = store_walk_start(k->store, &walk, NULL);
    assert(r == 0); // what is visible now can be walked
    w->seen = walk.revision;
    for (const struct object *o; (o = store_walk_next(k->store, &walk));) {
        const struct store_event e = {.type = STORE_ADDED, .object = o};
        event(k, &e);
    }
    store_walk_done(&walk);
    r = store_watch_start(k->store, w, NULL);
    assert(r == 0);
    (void)r;
}

struct kinship *kinship_new(struct store *store)
{
    struct kinship *k = xcalloc(1, sizeof(*k));
    k->store = store;
    kinship_follow_kind(k, &k->pods, "Pod", kinship_on_pod);
    kinship_follow_kind(k, &k->volumes, "PersistentVolume", volume_event);
    return k;
}

void kinship_free(struct kinship *k)
{
    if (!k)
        return;
    store_watch_stop(k->store, &k->pods);
    store_watch_stop(k->store, &k->volumes);
    map_foreach(&k->edges, i)
        free((void *)(uintptr_t)map_key(&k->edges, i).p);
    map_done(&k->edges);
    map_foreach(&k->secrets, i) {
        struct claims *list = map_value(&k->secrets, i);
        for (size_t n = 0; n < list->n; n++)
            free(list->p[n]);
        vec_done(list);
        free((void *)(uintptr_t)map_key(&k->secrets, i).p);
    }
    map_done(&k->secrets);
    free(k);
}
