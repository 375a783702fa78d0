// SPDX-License-Identifier: Apache-2.0
//
// Which volume a claim may have.
#include "api/amounts.h"
#include "api/match/label.h"
#include "ctl/volume/volume_int.h"

#include "base/banned.h"

static struct str volume_match_mode_or_default(bool has, struct str mode)
{
    return has ? mode : STR("Filesystem");
}

static bool same_mode(const struct api_persistent_volume *volume,
                      const struct api_persistent_volume_claim *claim)
{
    return str_eq(
        volume_match_mode_or_default(volume->spec.has_volume_mode, volume->spec.volume_mode),
        volume_match_mode_or_default(claim->spec.has_volume_mode, claim->spec.volume_mode));
}

static bool same_attributes(const struct api_persistent_volume *volume,
                            const struct api_persistent_volume_claim *claim)
{
    return str_eq(volume->spec.volume_attributes_class_name,
                  claim->spec.volume_attributes_class_name);
}

static int volume_match_compare_size(const struct quantity *a, const struct quantity *b)
{
    static const struct quantity none = {0};
    return quantity_cmp(a ? a : &none, b ? b : &none);
}

static const struct quantity *volume_match_volume_size(const struct api_persistent_volume *volume)
{
    return amounts_get(&volume->spec.capacity, STR("storage"));
}

static bool is_large_enough(const struct api_persistent_volume *volume,
                            const struct api_persistent_volume_claim *claim)
{
    return volume_match_compare_size(volume_match_volume_size(volume),
                                     amounts_get(&claim->spec.resources.requests,
                                                 STR("storage"))) >= 0;
}

static bool has_access(const struct api_persistent_volume *volume,
                       const struct api_persistent_volume_claim *claim)
{
    for (size_t i = 0; i < claim->spec.access_modes.n; i++)
        if (!api_str_listed(&volume->spec.access_modes, claim->spec.access_modes.p[i]))
            return false;
    return true;
}

const char *volume_misfit(const struct api_persistent_volume *volume,
                          const struct api_persistent_volume_claim *claim)
{
    if (volume->metadata.deletion_timestamp.set)
        return "the volume is marked for deletion";
    if (!is_large_enough(volume, claim))
        return "requested PV is too small";
    if (!str_eq(volume_class(volume), volume_claim_class(claim)))
        return "storageClassName does not match";
    if (!same_attributes(volume, claim))
        return "VolumeAttributesClassName does not match";
    if (!same_mode(volume, claim))
        return "incompatible volumeMode";
    if (!has_access(volume, claim))
        return "incompatible accessMode";
    return NULL;
}

struct matching {
    const struct api_persistent_volume_claim *claim;
    const struct typed_object *reserved, *best;
};

// What every volume must have, be it reserved or not.
static bool could_do(const struct matching *m, const struct api_persistent_volume *volume)
{
    return !volume->metadata.deletion_timestamp.set && is_large_enough(volume, m->claim) &&
           same_mode(volume, m->claim) && has_access(volume, m->claim) &&
           same_attributes(volume, m->claim);
}

// One that can do no more than was requested comes first, then the smallest.
static bool is_better(const struct typed_object *a, const struct typed_object *b)
{
    size_t modes = as_volume(a)->spec.access_modes.n, others = as_volume(b)->spec.access_modes.n;
    if (modes != others)
        return modes < others;
    int order = volume_match_compare_size(volume_match_volume_size(as_volume(a)),
                                          volume_match_volume_size(as_volume(b)));
    return order ? order < 0 : str_cmp(a->meta->name, b->meta->name) < 0;
}

static void look_at_reserved(void *arg, const struct typed_object *o)
{
    struct matching *m = arg;
    if (volume_is_for(as_volume(o), m->claim) && could_do(m, as_volume(o)) &&
        (!m->reserved || is_better(o, m->reserved)))
        m->reserved = o;
}

static void look_at_free(void *arg, const struct typed_object *o)
{
    struct matching *m = arg;
    const struct api_persistent_volume *volume = as_volume(o);
    const struct api_label_selector *selector = m->claim->spec.selector;
    if (str_eqz(volume->status.phase, "Available") && could_do(m, volume) &&
        (!selector || labels_match(selector, &volume->metadata.labels) > 0) &&
        (!m->best || is_better(o, m->best)))
        m->best = o;
}

const struct typed_object *volume_match(struct volume_ctl *c,
                                        const struct api_persistent_volume_claim *claim,
                                        bool delayed)
{
    const struct informer *volumes = c->ctl->caches[CACHE_VOLUMES];
    struct matching m = {.claim = claim};
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "claim/%.*s/%.*s", STR_ARG(claim->metadata.namespace),
              STR_ARG(claim->metadata.name));
    informer_by(volumes, c->volumes_by, sbuf_str(&key), look_at_reserved, &m);
    sbuf_clear(&key);
    sbuf_addf(&key, "class/%.*s", STR_ARG(volume_claim_class(claim)));
    if (!m.reserved && !delayed)
        informer_by(volumes, c->volumes_by, sbuf_str(&key), look_at_free, &m);
    return m.reserved ? m.reserved : m.best;
}
