// SPDX-License-Identifier: Apache-2.0
//
// PersistentVolumeClaims and PersistentVolumes find each other, as Kubernetes' PV controller binds
// them: what is watched, which keys a change concerns, and the writes. The steps are in
// volume_claim.c and volume_step.c. Both sides say whom they are bound to; the volume's side is
// written first, in the version that was decided on, so no volume is given twice.
#include <stdlib.h>

#include "ctl/volume/volume_int.h"

#include "base/banned.h"

// --- Keys ----------------------------------------------------------------------------------------

static void volume_add_claim(struct volume_ctl *c, struct str namespace, struct str name)
{
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "c/%.*s/%.*s", STR_ARG(namespace), STR_ARG(name));
    work_add(c->work, sbuf_str(&key));
}

static void add_volume(struct volume_ctl *c, struct str name)
{
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "v/%.*s", STR_ARG(name));
    work_add(c->work, sbuf_str(&key));
}

static void add_found_claim(void *arg, const struct typed_object *o)
{
    volume_add_claim(arg, o->meta->namespace, o->meta->name);
}

static void add_found_volume(void *arg, const struct typed_object *o)
{
    add_volume(arg, o->meta->name);
}

static void add_claims_by(struct volume_ctl *c, const char *what, struct str name)
{
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%s/%.*s", what, STR_ARG(name));
    informer_by(c->ctl->caches[CACHE_VOLUME_CLAIMS], c->claims_by, sbuf_str(&key), add_found_claim,
                c);
}

static void index_claim(const struct typed_object *o, void (*add)(void *ctx, struct str key),
                        void *ctx)
{
    const struct api_persistent_volume_claim *claim = as_storage_claim(o);
    cleanup_sbuf struct sbuf key = {0};
    if (!volume_is_bound(claim)) {
        sbuf_addf(&key, "class/%.*s", STR_ARG(volume_claim_class(claim)));
        add(ctx, sbuf_str(&key));
    }
    sbuf_clear(&key);
    if (claim->spec.volume_name.n) {
        sbuf_addf(&key, "volume/%.*s", STR_ARG(claim->spec.volume_name));
        add(ctx, sbuf_str(&key));
    }
}

static void volume_index_volume(const struct typed_object *o,
                                void (*add)(void *ctx, struct str key), void *ctx)
{
    const struct api_persistent_volume *volume = as_volume(o);
    const struct api_object_reference *ref = volume->spec.claim_ref;
    cleanup_sbuf struct sbuf key = {0};
    if (ref)
        sbuf_addf(&key, "claim/%.*s/%.*s", STR_ARG(ref->namespace), STR_ARG(ref->name));
    else
        sbuf_addf(&key, "class/%.*s", STR_ARG(volume_class(volume)));
    add(ctx, sbuf_str(&key));
}

// --- What changes --------------------------------------------------------------------------------

static void volume_claim_changed(void *arg, const struct typed_object *before,
                                 const struct typed_object *after)
{
    struct volume_ctl *c = arg;
    const struct typed_object *o = after ? after : before;
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "claim/%.*s/%.*s", STR_ARG(o->meta->namespace), STR_ARG(o->meta->name));
    informer_by(c->ctl->caches[CACHE_VOLUMES], c->volumes_by, sbuf_str(&key), add_found_volume, c);
    volume_add_claim(c, o->meta->namespace, o->meta->name);
}

static void add_its_claim(struct volume_ctl *c, const struct typed_object *volume)
{
    const struct api_object_reference *ref = volume ? as_volume(volume)->spec.claim_ref : NULL;
    if (ref)
        volume_add_claim(c, ref->namespace, ref->name);
}

static bool volume_is_unbound(const struct typed_object *volume)
{
    return !as_volume(volume)->spec.claim_ref &&
           str_eqz(as_volume(volume)->status.phase, "Available");
}

static void volume_on_volume_changed(void *arg, const struct typed_object *before,
                                     const struct typed_object *after)
{
    struct volume_ctl *c = arg;
    const struct typed_object *o = after ? after : before;
    add_volume(c, o->meta->name);
    add_its_claim(c, before);
    add_its_claim(c, after);
    add_claims_by(c, "volume", o->meta->name);
    if (after && volume_is_unbound(after))
        add_claims_by(c, "class", volume_class(as_volume(after)));
}

static void volume_class_changed(void *arg, const struct typed_object *before,
                                 const struct typed_object *after)
{
    add_claims_by(arg, "class", (after ? after : before)->meta->name);
    add_claims_by(arg, "class", STR("")); // it may be the default now
}

// --- Writes --------------------------------------------------------------------------------------

static void write_part(struct volume_ctl *c, struct str key, enum ctl_cache which, void *value,
                       struct str part)
{
    const struct api_object object = {ctl_kind(which), value};
    const struct client_write how = {.subresource = part};
    client_update(c->ctl->client, &object, &how, ctl_call_done,
                  ctl_call_new(&c->calls, c->work, key, which));
}

void volume_write(struct volume_ctl *c, struct str key, enum ctl_cache which, void *value)
{
    write_part(c, key, which, value, STR(""));
}

void volume_write_status(struct volume_ctl *c, struct str key, enum ctl_cache which, void *value)
{
    write_part(c, key, which, value, STR("status"));
}

void volume_set_phase(struct volume_ctl *c, struct str key, const struct typed_object *volume,
                      struct str phase, struct str message)
{
    struct api_persistent_volume changed = *as_volume(volume);
    changed.status = (struct api_persistent_volume_status){
        .phase = phase, .message = message, .last_phase_transition_time = ctl_now(c->ctl)};
    volume_write_status(c, key, CACHE_VOLUMES, &changed);
}

void volume_tell(struct volume_ctl *c, const struct typed_object *about, struct str type,
                 const char *reason, const char *text)
{
    events_record(c->events, about, type, str_z(reason), str_z(text));
}

// --- The controller ------------------------------------------------------------------------------

static void volume_step_key(void *arg, struct str key)
{
    struct volume_ctl *c = arg;
    if (!ctl_synced(c->ctl)) {
        work_retry(c->work, key);
        return;
    }
    bool is_claim = str_starts(key, STR("c/"));
    struct str namespace = {0}, name = str_from(key, 2);
    if (is_claim)
        str_cut(name, '/', &namespace, &name);
    const struct typed_object *o =
        ctl_find(c->ctl, is_claim ? CACHE_VOLUME_CLAIMS : CACHE_VOLUMES, namespace, name);
    if (!o)
        work_done(c->work, key);
    else if (is_claim)
        volume_claim_step(c, key, o);
    else
        volume_step(c, key, o);
}

struct volume_ctl *volume_ctl_new(struct ctl *ctl)
{
    struct volume_ctl *c = xcalloc(1, sizeof(*c));
    const struct event_recorder_options events = {.client = ctl->client,
                                                  .component = STR("persistentvolume-controller")};
    c->ctl = ctl;
    c->events = events_recorder_new(&events);
    c->work = ctl_work(ctl, "claims", volume_step_key, c);
    list_init(&c->calls);
    c->claims_by = informer_add_index(ctl->caches[CACHE_VOLUME_CLAIMS], index_claim);
    c->volumes_by = informer_add_index(ctl->caches[CACHE_VOLUMES], volume_index_volume);
    ctl_watch(ctl, CACHE_VOLUME_CLAIMS, volume_claim_changed, c, c->work);
    ctl_watch(ctl, CACHE_VOLUMES, volume_on_volume_changed, c, c->work);
    ctl_watch(ctl, CACHE_STORAGE_CLASSES, volume_class_changed, c, c->work);
    return c;
}

void volume_ctl_free(struct volume_ctl *c)
{
    if (!c)
        return;
    ctl_calls_drop(&c->calls);
    work_free(c->work);
    events_recorder_free(c->events);
    gone_done(&c->gone);
    free(c);
}
