// SPDX-License-Identifier: Apache-2.0
//
// What is watched of volumes, from when on, and whom a change can help.
#include "sched/volume/volumes.h"

#include "sched/bind/bind_int.h"

#include "base/banned.h"

static struct log_module log_mod = LOG_MODULE("volumes");

const struct api_kind *volumes_kind(enum volume_kind k)
{
    static const struct {
        struct str version, kind;
    } names[VOLUME_KINDS] = {
        [VOLUME_CLAIMS] = {STR_INIT("v1"), STR_INIT("PersistentVolumeClaim")},
        [VOLUME_VOLUMES] = {STR_INIT("v1"), STR_INIT("PersistentVolume")},
        [VOLUME_CLASSES] = {STR_INIT("storage.k8s.io/v1"), STR_INIT("StorageClass")},
        [VOLUME_NODES] = {STR_INIT("storage.k8s.io/v1"), STR_INIT("CSINode")},
        [VOLUME_DRIVERS] = {STR_INIT("storage.k8s.io/v1"), STR_INIT("CSIDriver")},
        [VOLUME_CAPACITIES] = {STR_INIT("storage.k8s.io/v1"), STR_INIT("CSIStorageCapacity")},
    };
    return api_kind_find(names[k].version, names[k].kind);
}

// --- A pod's claims ------------------------------------------------------------------------------

bool volumes_next(const struct api_pod *pod, size_t *at, struct arena *arena,
                  struct volume_ref *ret)
{
    while (*at < pod->spec.volumes.n) {
        const struct api_volume *v = &pod->spec.volumes.p[(*at)++];
        if (v->volume_source.persistent_volume_claim) {
            *ret = (struct volume_ref){v->volume_source.persistent_volume_claim->claim_name, {0}};
            return true;
        }
        if (v->volume_source.ephemeral) {
            *ret = (struct volume_ref){arena_strf(arena, "%.*s-%.*s", STR_ARG(pod->metadata.name),
                                                  STR_ARG(v->name)),
                                       v->name};
            return true;
        }
    }
    return false;
}

bool volumes_used(const struct api_pod *pod)
{
    for (size_t i = 0; i < pod->spec.volumes.n; i++) {
        const struct api_volume_source *v = &pod->spec.volumes.p[i].volume_source;
        if (v->persistent_volume_claim || v->ephemeral)
            return true;
    }
    return false;
}

// Is name that of the claim made for a volume of the pod?
static bool made_name(const struct api_pod *pod, const struct api_volume *v, struct str name)
{
    size_t n = pod->metadata.name.n;
    return name.n == n + 1 + v->name.n && str_starts(name, pod->metadata.name) &&
           name.p[n] == '-' && str_eq(str_from(name, n + 1), v->name);
}

bool volumes_uses(const struct api_pod *pod, struct str name)
{
    for (size_t i = 0; i < pod->spec.volumes.n; i++) {
        const struct api_volume *v = &pod->spec.volumes.p[i];
        const struct api_persistent_volume_claim_volume_source *c =
            v->volume_source.persistent_volume_claim;
        if ((c && str_eq(c->claim_name, name)) ||
            (v->volume_source.ephemeral && made_name(pod, v, name)))
            return true;
    }
    return false;
}

// --- What is known -------------------------------------------------------------------------------

bool volumes_known(const struct sched *s)
{
    for (size_t k = 0; k < VOLUME_KINDS; k++)
        if (s->volumes.listed[k] == VOLUME_UNKNOWN)
            return false;
    return true;
}

const struct api_kind *volumes_forbidden(const struct sched *s)
{
    for (enum volume_kind k = 0; k < VOLUME_KINDS; k++)
        if (s->volumes.listed[k] == VOLUME_FORBIDDEN)
            return volumes_kind(k);
    return NULL;
}

bool volumes_on(const struct sched *s)
{
    if (volumes_forbidden(s))
        return false;
    for (size_t k = 0; k < VOLUME_NEEDED; k++)
        if (s->volumes.listed[k] != VOLUME_LISTED)
            return false;
    return true;
}

const struct typed_object *volumes_get(const struct sched *s, enum volume_kind kind,
                                       struct str namespace, struct str name)
{
    const struct informer *all = s->volumes.informers[kind];
    return all ? informer_get(all, namespace, name) : NULL;
}

// --- Changes -------------------------------------------------------------------------------------

// Verdicts are not kept for pods with claims: none has to be forgotten.
static void wake_all(struct sched *s)
{
    queue_wake(&s->queue, WHY_BIT(WHY_VOLUMES));
}

static void volumes_claim_changed(void *arg, const struct typed_object *before,
                                  const struct typed_object *after)
{
    struct sched *s = arg;
    const struct api_object_meta *m = after ? after->meta : before->meta;
    list_foreach(&s->queue.waiting[WHY_VOLUMES], node) {
        struct sched_pod *p = list_entry(node, struct sched_pod, queue.waits[WHY_VOLUMES]);
        if (str_eq(p->api->metadata.namespace, m->namespace) && volumes_uses(p->api, m->name))
            queue_retry(&s->queue, p);
    }
    bind_volume_claim_changed(s, m);
}

static void volumes_pv_changed(void *arg, const struct typed_object *before,
                               const struct typed_object *after)
{
    struct sched *s = arg;
    if (after)
        wake_all(s);
    bind_volume_changed(s, after ? after : before);
}

static void other_changed(void *arg, const struct typed_object *before,
                          const struct typed_object *after)
{
    (void)before;
    if (after)
        wake_all(arg);
}

// Pods that came before this was known have waited for it.
static void all_known(struct sched *s)
{
    const struct api_kind *forbidden = volumes_forbidden(s);
    if (forbidden)
        LOG_WARN(&log_mod, "pods with volumes wait: the server does not let a kind be listed",
                 log_str("kind", forbidden->kind));
    else if (!volumes_on(s))
        LOG_WARN(&log_mod, "volumes are not looked at: the server does not have their kinds");
    map_foreach(&s->cluster.pods, i) {
        struct sched_pod *p = *map_value(&s->cluster.pods, i);
        if (p->state == POD_GATED && volumes_used(p->api))
            sched_enqueue(s, p);
    }
    wake_all(s);
}

static void set_listed(struct volume_listener *l, enum volume_listed now)
{
    struct sched *s = l->s;
    enum volume_listed before = s->volumes.listed[l->kind];
    s->volumes.listed[l->kind] = now;
    if (before != now && volumes_known(s))
        all_known(s);
}

static void volumes_on_synced(void *arg)
{
    set_listed(arg, VOLUME_LISTED);
}

static void volumes_on_refused(void *arg, int code)
{
    set_listed(arg, code == -ERR_FORBIDDEN ? VOLUME_FORBIDDEN : VOLUME_ABSENT);
}

// --- Life ----------------------------------------------------------------------------------------

static void volumes_index_pv(const struct typed_object *o, void (*add)(void *ctx, struct str key),
                             void *ctx)
{
    add(ctx, volume_class(o->object.value));
}

static void index_capacity(const struct typed_object *o, void (*add)(void *ctx, struct str key),
                           void *ctx)
{
    add(ctx, ((const struct api_csi_storage_capacity *)o->object.value)->storage_class_name);
}

void volumes_init(struct sched *s)
{
    list_init(&s->volumes.sharing);
}

void volumes_done(struct sched *s)
{
    for (size_t k = 0; k < VOLUME_KINDS; k++)
        informer_free(s->volumes.informers[k]);
    map_done(&s->volumes.by_volume);
    map_done(&s->volumes.by_claim);
}

void volumes_watch(struct sched *s)
{
    struct volumes *v = &s->volumes;
    if (v->informers[0])
        return;
    for (enum volume_kind k = 0; k < VOLUME_KINDS; k++) {
        v->listeners[k] = (struct volume_listener){s, k};
        v->informers[k] =
            informer_new(&(struct informer_options){.client = s->client, .kind = volumes_kind(k)});
        informer_add_handler(
            v->informers[k],
            &(struct informer_handler){.changed = k == VOLUME_CLAIMS    ? volumes_claim_changed
                                                  : k == VOLUME_VOLUMES ? volumes_pv_changed
                                                                        : other_changed,
                                       .arg = s});
        informer_add_handler(v->informers[k],
                             &(struct informer_handler){.synced = volumes_on_synced,
                                                        .refused = volumes_on_refused,
                                                        .arg = &v->listeners[k]});
    }
    v->by_class = informer_add_index(v->informers[VOLUME_VOLUMES], volumes_index_pv);
    v->room_by_class = informer_add_index(v->informers[VOLUME_CAPACITIES], index_capacity);
    for (size_t k = 0; k < VOLUME_KINDS; k++)
        informer_start(v->informers[k]);
}
