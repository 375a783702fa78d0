// SPDX-License-Identifier: Apache-2.0
//
// How many volumes of a CSI driver a node may have (NodeVolumeLimits): by its CSINode. Volumes are
// those of its pods.
#include "sched/core/sched_int.h"
#include "sched/volume/volume_int.h"

#include "base/banned.h"

struct handles MAP(bool); // keys in arena

// Whose volume it is and which, for a claim. False: it is none of a CSI driver.
struct attached {
    struct str driver, handle;
};

static bool attached_of(const struct sched *s, const struct api_persistent_volume_claim *claim,
                        struct arena *arena, struct attached *ret)
{
    struct str none = {0}, class = volume_claim_class(claim);
    const struct typed_object *o =
        claim->spec.volume_name.n ? volumes_get(s, VOLUME_VOLUMES, none, claim->spec.volume_name)
                                  : NULL;
    if (o) {
        const struct api_persistent_volume *v = o->object.value;
        const struct api_csi_persistent_volume_source *csi = v->spec.persistent_volume_source.csi;
        if (csi)
            *ret = (struct attached){csi->driver, csi->volume_handle};
        return csi != NULL;
    }
    o = class.n ? volumes_get(s, VOLUME_CLASSES, none, class) : NULL;
    if (!o)
        return false;
    // Not made yet: no driver can have given it a handle of this form.
    *ret = (struct attached){((const struct api_storage_class *)o->object.value)->provisioner,
                             arena_strf(arena, "<%.*s/%.*s>", STR_ARG(claim->metadata.namespace),
                                        STR_ARG(claim->metadata.name))};
    return true;
}

void volume_limits_begin(struct attempt *a)
{
    struct attached at;
    for (size_t i = 0; i < a->volume.n; i++)
        if (attached_of(a->s, a->volume.all[i].claim, a->arena, &at))
            a->volume.all[i].driver = at.driver;
}

// The driver's limit on the node, -1: none.
static int64_t limit_of(const struct sched *s, const struct sched_node *n, struct str driver)
{
    const struct typed_object *o = volumes_get(s, VOLUME_NODES, (struct str){0}, n->name);
    const struct api_csi_node *node = o ? o->object.value : NULL;
    for (size_t i = 0; node && i < node->spec.drivers.n; i++) {
        const struct api_csi_node_driver *d = &node->spec.drivers.p[i];
        if (str_eq(d->name, driver))
            return d->allocatable && d->allocatable->has_count ? d->allocatable->count : -1;
    }
    return -1;
}

static void volume_limits_add_pod(const struct sched *s, const struct api_pod *pod,
                                  struct str driver, struct arena *arena, struct handles *all)
{
    struct volume_ref ref;
    struct attached at;
    size_t i = 0;
    while (volumes_next(pod, &i, arena, &ref)) {
        const struct typed_object *o =
            volumes_get(s, VOLUME_CLAIMS, pod->metadata.namespace, ref.name);
        if (o && attached_of(s, o->object.value, arena, &at) && str_eq(at.driver, driver))
            *map_put(all, at.handle) = true;
    }
}

static bool driver_ok(struct attempt *a, const struct sched_node *n, struct str driver,
                      struct refusals *why)
{
    int64_t limit = limit_of(a->s, n, driver);
    struct handles all = {0};
    if (limit < 0)
        return true;
    for (size_t i = 0; i < n->pods.n; i++)
        volume_limits_add_pod(a->s, n->pods.p[i]->api, driver, a->arena, &all);
    size_t before = map_len(&all);
    volume_limits_add_pod(a->s, a->api, driver, a->arena, &all);
    size_t after = map_len(&all);
    map_done(&all);
    if (after == before || (int64_t)after <= limit)
        return true;
    refusal_add(a, why,
                (struct refusal){.code = REFUSED_VOLUME_COUNT,
                                 .name = driver,
                                 .number = (int64_t)before,
                                 .limit = limit});
    return false;
}

// A driver's volumes are counted once, however many of them the pod has.
static bool is_first_of_driver(const struct attempt *a, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (str_eq(a->volume.all[i].driver, a->volume.all[at].driver))
            return false;
    return a->volume.all[at].driver.n > 0;
}

bool volume_limits_ok(struct attempt *a, const struct sched_node *n, struct refusals *why)
{
    for (size_t i = 0; i < a->volume.n; i++)
        if (is_first_of_driver(a, i) && !driver_ok(a, n, a->volume.all[i].driver, why))
            return false;
    return true;
}
