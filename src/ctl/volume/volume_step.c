// SPDX-License-Identifier: Apache-2.0
//
// A volume's step: its phase follows its claim, and when the claim is gone its reclaim policy
// decides what becomes of it.
#include "api/match/claim.h"
#include "ctl/volume/volume_int.h"

#include "base/banned.h"

static void set_phase(struct volume_ctl *c, struct str key, const struct typed_object *volume,
                      struct str phase)
{
    if (str_eq(as_volume(volume)->status.phase, phase))
        work_done(c->work, key);
    else
        volume_set_phase(c, key, volume, phase, STR(""));
}

// --- Volumes without a claim ---------------------------------------------------------------------

static void claim_is_gone(void *owner, struct str uid)
{
    struct volume_ctl *c = owner;
    gone_add(&c->gone, uid);
}

// volume_step_ask_claim asks the server whether the claim is gone: caches of two kinds are not of
// one moment.
static void volume_step_ask_claim(struct volume_ctl *c, struct str key,
                                  const struct api_object_reference *ref)
{
    const struct client_key at = {ctl_kind(CACHE_VOLUME_CLAIMS), ref->namespace, ref->name};
    ctl_call_ask(ctl_call_new(&c->calls, c->work, key, CACHE_VOLUME_CLAIMS), c->ctl->client, &at,
                 ref->uid, claim_is_gone, c);
}

static bool is_to_be_deleted(const struct typed_object *volume)
{
    return str_eqz(as_volume(volume)->spec.persistent_volume_reclaim_policy, "Delete");
}

static bool is_own(const struct typed_object *volume)
{
    return str_eqz(meta_annotation(volume->meta, STR(STORAGE_PROVISIONED_BY)), STORAGE_LOCAL);
}

static bool is_provisioned(const struct typed_object *volume)
{
    return meta_annotation(volume->meta, STR(STORAGE_PROVISIONED_BY)).n > 0;
}

static void delete_volume(struct volume_ctl *c, struct str key, const struct typed_object *volume)
{
    struct api_preconditions same = {.uid = volume->meta->uid, .has_uid = true};
    const struct api_delete_options options = {.preconditions = &same};
    const struct client_key at = {ctl_kind(CACHE_VOLUMES), STR(""), volume->meta->name};
    client_delete(c->ctl->client, &at, &options, ctl_call_done,
                  ctl_call_new(&c->calls, c->work, key, CACHE_VOLUMES));
}

// Other provisioners delete their own volumes; a volume made by hand whose policy is Delete has no
// controller that could delete it.
static void volume_step_reclaim_volume(struct volume_ctl *c, struct str key,
                                       const struct typed_object *volume)
{
    cleanup_sbuf struct sbuf why = {0};
    if (volume->meta->deletion_timestamp.set || !is_to_be_deleted(volume) ||
        (is_provisioned(volume) && !is_own(volume)) ||
        str_eqz(as_volume(volume)->status.phase, "Failed")) {
        work_done(c->work, key);
    } else if (is_provisioned(volume)) {
        delete_volume(c, key, volume);
    } else {
        sbuf_addf(&why,
                  "error getting deleter volume plugin for volume \"%.*s\": no deletable volume "
                  "plugin matched",
                  STR_ARG(volume->meta->name));
        volume_tell(c, volume, EVENT_WARNING, "VolumeFailedDelete", why.p);
        volume_set_phase(c, key, volume, STR("Failed"), sbuf_str(&why));
    }
}

static void volume_step_release_volume(struct volume_ctl *c, struct str key,
                                       const struct typed_object *volume)
{
    struct str phase = as_volume(volume)->status.phase;
    if (str_eqz(phase, "Released") || str_eqz(phase, "Failed"))
        volume_step_reclaim_volume(c, key, volume);
    else
        volume_set_phase(c, key, volume, STR("Released"), STR(""));
}

// volume_step_unbind_volume takes back a reservation for a claim that has another volume: all of
// it, or, when a person made it, the UID.
static void volume_step_unbind_volume(struct volume_ctl *c, struct str key,
                                      const struct typed_object *volume)
{
    cleanup_arena struct arena arena = {0};
    struct api_persistent_volume changed = *as_volume(volume);
    struct api_object_reference ref = *changed.spec.claim_ref;
    ref.uid = ref.resource_version = STR("");
    changed.spec.claim_ref =
        meta_annotation(volume->meta, STR(STORAGE_BOUND_BY_CONTROLLER)).n ? NULL : &ref;
    meta_map_drop(&changed.metadata.annotations, STR(STORAGE_BOUND_BY_CONTROLLER), &arena);
    volume_write(c, key, CACHE_VOLUMES, &changed);
}

// --- All -----------------------------------------------------------------------------------------

void volume_step(struct volume_ctl *c, struct str key, const struct typed_object *o)
{
    const struct api_object_reference *ref = as_volume(o)->spec.claim_ref;
    if (!ref || !ref->uid.n) {
        set_phase(c, key, o, STR("Available"));
        return;
    }
    const struct typed_object *claim =
        ctl_find(c->ctl, CACHE_VOLUME_CLAIMS, ref->namespace, ref->name);
    struct str given = claim ? as_storage_claim(claim)->spec.volume_name : STR("");
    if (!claim || !str_eq(claim->meta->uid, ref->uid)) {
        if (gone_has(&c->gone, ref->uid))
            volume_step_release_volume(c, key, o);
        else
            volume_step_ask_claim(c, key, ref);
    } else if (!given.n) {
        work_done(c->work, key); // the claim's step binds them
    } else if (str_eq(given, o->meta->name)) {
        set_phase(c, key, o, STR("Bound"));
    } else if (is_provisioned(o) && is_to_be_deleted(o)) {
        volume_step_release_volume(
            c, key, o); // it was made for this claim; its provisioner waits for that phase
    } else {
        volume_step_unbind_volume(c, key, o);
    }
}
