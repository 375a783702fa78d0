// SPDX-License-Identifier: Apache-2.0
//
// A claim's step: it gets a volume, or an event that explains why not; a claim whose volume is gone
// is Lost.
#include "api/amounts.h"
#include "api/match/claim.h"
#include "ctl/volume/volume_int.h"

#include "base/banned.h"

// --- Binding -------------------------------------------------------------------------------------

static void volume_claim_reserve_volume(struct volume_ctl *c, struct str key,
                                        const struct typed_object *claim,
                                        const struct typed_object *volume)
{
    cleanup_arena struct arena arena = {0};
    struct api_persistent_volume changed = *as_volume(volume);
    struct api_object_reference ref = {.kind = STR("PersistentVolumeClaim"),
                                       .api_version = STR("v1"),
                                       .namespace = claim->meta->namespace,
                                       .name = claim->meta->name,
                                       .uid = claim->meta->uid,
                                       .resource_version = claim->meta->resource_version};
    if (!volume_is_for(&changed, as_storage_claim(claim)))
        meta_map_put(&changed.metadata.annotations, STR(STORAGE_BOUND_BY_CONTROLLER), STR("yes"),
                     &arena);
    changed.spec.claim_ref = &ref;
    volume_write(c, key, CACHE_VOLUMES, &changed);
}

static void volume_claim_complete_volume(struct volume_ctl *c, struct str key,
                                         const struct typed_object *claim,
                                         const struct typed_object *volume)
{
    cleanup_arena struct arena arena = {0};
    struct api_persistent_volume_claim changed = *as_storage_claim(claim);
    if (!changed.spec.volume_name.n)
        meta_map_put(&changed.metadata.annotations, STR(STORAGE_BOUND_BY_CONTROLLER), STR("yes"),
                     &arena);
    meta_map_put(&changed.metadata.annotations, STR(STORAGE_BIND_COMPLETED), STR("yes"), &arena);
    changed.spec.volume_name = volume->meta->name;
    volume_write(c, key, CACHE_VOLUME_CLAIMS, &changed);
}

static bool same_modes(const struct api_str_array *a, const struct api_str_array *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++)
        same = str_eq(a->p[i], b->p[i]);
    return same;
}

static bool status_is_right(const struct api_persistent_volume_claim *claim,
                            const struct api_persistent_volume *volume)
{
    return str_eqz(claim->status.phase, "Bound") &&
           same_modes(&claim->status.access_modes, &volume->spec.access_modes) &&
           amounts_get(&claim->status.capacity, STR("storage"));
}

// volume_claim_bind_claim makes both sides agree: the first thing that is not so is written.
static void volume_claim_bind_claim(struct volume_ctl *c, struct str key,
                                    const struct typed_object *claim,
                                    const struct typed_object *volume)
{
    const struct api_persistent_volume_claim *now = as_storage_claim(claim);
    const struct api_object_reference *ref = as_volume(volume)->spec.claim_ref;
    if (!ref || !str_eq(ref->uid, claim->meta->uid)) {
        volume_claim_reserve_volume(c, key, claim, volume);
    } else if (!str_eqz(as_volume(volume)->status.phase, "Bound")) {
        volume_set_phase(c, key, volume, STR("Bound"), STR(""));
    } else if (!volume_is_bound(now)) {
        volume_claim_complete_volume(c, key, claim, volume);
    } else if (!status_is_right(now, as_volume(volume))) {
        struct api_persistent_volume_claim changed = *now;
        changed.status.phase = STR("Bound");
        changed.status.access_modes = as_volume(volume)->spec.access_modes;
        changed.status.capacity = as_volume(volume)->spec.capacity;
        volume_write_status(c, key, CACHE_VOLUME_CLAIMS, &changed);
    } else {
        work_done(c->work, key);
    }
}

// --- Claims that have had a volume ---------------------------------------------------------------

static void volume_claim_mark_lost(struct volume_ctl *c, struct str key,
                                   const struct typed_object *claim, const char *reason,
                                   const char *text)
{
    if (str_eqz(as_storage_claim(claim)->status.phase, "Lost")) {
        work_done(c->work, key);
        return;
    }
    struct api_persistent_volume_claim changed = *as_storage_claim(claim);
    changed.status.phase = STR("Lost");
    changed.status.access_modes = (struct api_str_array){0};
    changed.status.capacity = (struct api_quantity_map){0};
    volume_tell(c, claim, EVENT_WARNING, reason, text);
    volume_write_status(c, key, CACHE_VOLUME_CLAIMS, &changed);
}

static void step_bound(struct volume_ctl *c, struct str key, const struct typed_object *claim)
{
    const struct typed_object *volume =
        ctl_find(c->ctl, CACHE_VOLUMES, STR(""), as_storage_claim(claim)->spec.volume_name);
    const struct api_object_reference *ref = volume ? as_volume(volume)->spec.claim_ref : NULL;
    if (!volume)
        volume_claim_mark_lost(
            c, key, claim, "ClaimLost",
            "Bound claim has lost its PersistentVolume. Data on the volume is lost!");
    else if (!ref || volume_is_for(as_volume(volume), as_storage_claim(claim)))
        volume_claim_bind_claim(c, key, claim, volume);
    else
        volume_claim_mark_lost(
            c, key, claim, "ClaimMisbound",
            "Two claims are bound to the same volume, this one is bound incorrectly");
}

// --- Claims that have none yet -------------------------------------------------------------------

static void volume_claim_visit_class(void *arg, const struct typed_object *o)
{
    const struct api_storage_class **best = arg;
    *best = storage_default(*best, as_storage_class(o));
}

// A claim without a class that is older than the default gets it as soon as there is one. True: it
// is being written.
static bool give_default(struct volume_ctl *c, struct str key, const struct typed_object *claim)
{
    const struct api_storage_class *best = NULL;
    struct api_persistent_volume_claim changed = *as_storage_claim(claim);
    if (volume_claim_names_class(&changed))
        return false;
    informer_foreach(c->ctl->caches[CACHE_STORAGE_CLASSES], volume_claim_visit_class, &best);
    if (!best)
        return false;
    changed.spec.has_storage_class_name = true;
    changed.spec.storage_class_name = best->metadata.name;
    volume_write(c, key, CACHE_VOLUME_CLAIMS, &changed);
    return true;
}

static void step_open(struct volume_ctl *c, struct str key, const struct typed_object *o)
{
    const struct api_persistent_volume_claim *claim = as_storage_claim(o);
    struct str name = volume_claim_class(claim);
    const struct api_storage_class *class =
        maybe_storage_class(name.n ? ctl_find(c->ctl, CACHE_STORAGE_CLASSES, STR(""), name) : NULL);
    bool delayed = class && str_eqz(class->volume_binding_mode, "WaitForFirstConsumer");
    const struct typed_object *volume = volume_match(c, claim, delayed);
    if (volume) {
        volume_claim_bind_claim(c, key, o, volume);
        return;
    }
    if (give_default(c, key, o))
        return;
    if (name.n && (!delayed || meta_annotation(o->meta, STR(STORAGE_SELECTED_NODE)).n)) {
        volume_provision(c, key, o);
        return;
    }
    if (delayed)
        volume_tell(c, o, EVENT_NORMAL, "WaitForFirstConsumer",
                    "waiting for first consumer to be created before binding");
    else
        volume_tell(c, o, EVENT_NORMAL, "FailedBinding",
                    "no persistent volumes available for this claim and no storage class is set");
    work_done(c->work, key);
}

static void step_named(struct volume_ctl *c, struct str key, const struct typed_object *o)
{
    const struct api_persistent_volume_claim *claim = as_storage_claim(o);
    const struct typed_object *volume =
        ctl_find(c->ctl, CACHE_VOLUMES, STR(""), claim->spec.volume_name);
    bool is_free = volume && !as_volume(volume)->spec.claim_ref;
    const char *misfit = is_free ? volume_misfit(as_volume(volume), claim) : NULL;
    cleanup_sbuf struct sbuf why = {0};
    if (volume && !misfit && (is_free || volume_is_for(as_volume(volume), claim))) {
        volume_claim_bind_claim(c, key, o, volume);
        return;
    }
    if (misfit) {
        sbuf_addf(&why, "Cannot bind to requested volume \"%.*s\": %s",
                  STR_ARG(claim->spec.volume_name), misfit);
        volume_tell(c, o, EVENT_WARNING, "VolumeMismatch", why.p);
    } else if (volume) {
        sbuf_addf(&why, "volume \"%.*s\" already bound to a different claim.",
                  STR_ARG(claim->spec.volume_name));
        volume_tell(c, o, EVENT_WARNING, "FailedBinding", why.p);
    }
    work_done(c->work, key); // the volume's changes come back here
}

void volume_claim_step(struct volume_ctl *c, struct str key, const struct typed_object *o)
{
    const struct api_persistent_volume_claim *claim = as_storage_claim(o);
    if (volume_is_bound(claim))
        step_bound(c, key, o);
    else if (api_map_find(&claim->metadata.annotations, STR(STORAGE_BIND_COMPLETED)))
        volume_claim_mark_lost(
            c, key, o, "ClaimLost",
            "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!");
    else if (o->meta->deletion_timestamp.set)
        work_done(c->work, key);
    else if (claim->spec.volume_name.n)
        step_named(c, key, o);
    else
        step_open(c, key, o);
}
