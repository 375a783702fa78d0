// SPDX-License-Identifier: Apache-2.0
//
// A claim's end: reservations of consumers that are gone are dropped, a claim without any users
// more is deallocated, one that is being deleted may go, one whose pod is done is deleted.
#include <stdlib.h>

#include "ctl/device/claim_int.h"

#include "base/banned.h"

enum consumer_state {
    CONSUMER_USES,
    CONSUMER_GONE,
    CONSUMER_UNKNOWN, // the cache lacks it or has another of its name: ask the server
};

static enum consumer_state consumer_state(const struct claim_ctl *c,
                                          const struct api_resource_claim *claim,
                                          const struct api_resource_claim_consumer_reference *r)
{
    bool pod = consumer_is_pod(r), group = c->groups && consumer_is_group(r);
    if (!pod && !group)
        return CONSUMER_USES;
    if (gone_has(&c->gone, r->uid))
        return CONSUMER_GONE;
    const struct typed_object *o =
        ctl_find(c->ctl, pod ? CACHE_PODS : CACHE_GROUPS, claim->metadata.namespace, r->name);
    if (!o || !str_eq(o->meta->uid, r->uid))
        return CONSUMER_UNKNOWN;
    return pod && pod_is_done(as_pod(o)) ? CONSUMER_GONE : CONSUMER_USES;
}

// A claim for extended resources that a late write made or filled: its pod runs with another one,
// named in its status before it was bound, or with none. This one will never be used.
static bool is_surplus(const struct claim_ctl *c, const struct api_resource_claim *claim)
{
    const struct api_owner_reference *owner = meta_controller(&claim->metadata);
    return owner &&
           claim_is_surplus(claim, maybe_pod(ctl_find(c->ctl, CACHE_PODS, claim->metadata.namespace,
                                                      owner->name)));
}

// keep_users puts the consumers that still use the claim into out; one that is not known counts as
// a user and is *ret_unknown.
static size_t keep_users(const struct claim_ctl *c, const struct api_resource_claim *claim,
                         struct api_resource_claim_consumer_reference *out,
                         const struct api_resource_claim_consumer_reference **ret_unknown)
{
    size_t n = 0;
    for (size_t i = 0; !is_surplus(c, claim) && i < claim->status.reserved_for.n; i++) {
        const struct api_resource_claim_consumer_reference *r = &claim->status.reserved_for.p[i];
        enum consumer_state state = consumer_state(c, claim, r);
        if (state == CONSUMER_UNKNOWN)
            *ret_unknown = r;
        if (state != CONSUMER_GONE)
            out[n++] = *r;
    }
    return n;
}

// The caches of claims and of consumers need not be of the same moment: a consumer that is not in
// the cache may be newer than it.
static void consumer_is_gone(void *owner, struct str uid)
{
    struct claim_ctl *c = owner;
    gone_add(&c->gone, uid);
}

static void claim_sync_ask_consumer(struct claim_ctl *c, struct str key, struct str namespace,
                                    const struct api_resource_claim_consumer_reference *r)
{
    const struct client_key at = {ctl_kind(r->api_group.n == 0 ? CACHE_PODS : CACHE_GROUPS),
                                  namespace, r->name};
    ctl_call_ask(ctl_call_new(&c->calls, c->work, key, CACHE_CLAIMS), c->ctl->client, &at, r->uid,
                 consumer_is_gone, c);
}

// --- Writes --------------------------------------------------------------------------------------

static void claim_sync_update_claim(struct claim_ctl *c, struct str key,
                                    const struct typed_object *o,
                                    const struct api_resource_claim *changed, bool status)
{
    union {
        const struct api_resource_claim *from;
        void *to;
    } value = {.from = changed};
    const struct api_object object = {o->object.kind, value.to};
    const struct client_write how = {.subresource = status ? STR("status") : STR("")};
    client_update(c->ctl->client, &object, &how, ctl_call_done,
                  ctl_call_new(&c->calls, c->work, key, CACHE_CLAIMS));
}

static void claim_sync_remove_finalizer(struct claim_ctl *c, struct str key,
                                        const struct typed_object *o)
{
    struct arena arena = {0};
    struct api_resource_claim changed = *as_claim(o);
    const struct api_str_array all = changed.metadata.finalizers;
    struct str *kept = arena_array(&arena, struct str, all.n);
    size_t n = 0;
    for (size_t i = 0; i < all.n; i++)
        if (!str_eq(all.p[i], STR(CLAIM_FINALIZER)))
            kept[n++] = all.p[i];
    changed.metadata.finalizers = (struct api_str_array){n > 0 ? kept : NULL, n};
    claim_sync_update_claim(c, key, o, &changed, false);
    arena_done(&arena);
}

static void delete_claim(struct claim_ctl *c, struct str key,
                         const struct api_resource_claim *claim)
{
    const struct client_key at = {ctl_kind(CACHE_CLAIMS), claim->metadata.namespace,
                                  claim->metadata.name};
    struct api_preconditions same = {.uid = claim->metadata.uid, .has_uid = true};
    const struct api_delete_options options = {.preconditions = &same};
    client_delete(c->ctl->client, &at, &options, ctl_call_done,
                  ctl_call_new(&c->calls, c->work, key, CACHE_CLAIMS));
}

// Its pod is there but is another one, or is done. A pod that is gone is the garbage collector's.
static bool owner_is_over(const struct claim_ctl *c, const struct api_resource_claim *claim)
{
    const struct api_owner_reference *owner = meta_controller(&claim->metadata);
    if (!owner || !str_eq(owner->kind, STR("Pod")) || !str_eq(owner->api_version, STR("v1")))
        return false;
    const struct typed_object *o =
        ctl_find(c->ctl, CACHE_PODS, claim->metadata.namespace, owner->name);
    return o &&
           (!str_eq(o->meta->uid, owner->uid) || pod_is_done(as_pod(o)) || is_surplus(c, claim));
}

static void claim_sync_forget_key(struct key_set *set, struct str key)
{
    char **copy = map_get(set, key);
    if (!copy)
        return;
    char *text = *copy;
    map_del(set, key);
    free(text);
}

static void claim_sync_remember_key(struct key_set *set, struct str key)
{
    if (map_has(set, key))
        return;
    char *copy = xstrndup(key.p, key.n);
    *map_put(set, str_z(copy)) = copy;
}

void claim_forget(struct claim_ctl *c, struct str key)
{
    claim_sync_forget_key(&c->freed, key);
    claim_sync_forget_key(&c->left, key);
}

void claim_remember_left(struct claim_ctl *c, struct str key)
{
    claim_sync_remember_key(&c->left, key);
}

static void claim_sync_release_claim(struct claim_ctl *c, struct str key,
                                     const struct typed_object *o,
                                     struct api_resource_claim_consumer_reference *users, size_t n,
                                     bool deallocate)
{
    struct api_resource_claim changed = *as_claim(o);
    changed.status.reserved_for =
        (struct api_resource_claim_consumer_reference_array){n > 0 ? users : NULL, n};
    if (deallocate) {
        changed.status.allocation = NULL;
        changed.status.devices = (struct api_allocated_device_status_array){0};
        claim_sync_remember_key(&c->freed, key);
    }
    claim_sync_update_claim(c, key, o, &changed, true);
}

void claim_step_claim(struct claim_ctl *c, struct str key, struct str namespace, struct str name)
{
    const struct typed_object *o = ctl_find(c->ctl, CACHE_CLAIMS, namespace, name);
    const struct api_resource_claim *claim = maybe_claim(o);
    if (!claim) {
        claim_forget(c, key);
        work_done(c->work, key);
        return;
    }
    struct arena arena = {0};
    const struct api_resource_claim_consumer_reference *unknown = NULL;
    struct api_resource_claim_consumer_reference *users = arena_array(
        &arena, struct api_resource_claim_consumer_reference, claim->status.reserved_for.n);
    size_t n = keep_users(c, claim, users, &unknown);
    bool guarded = meta_has_finalizer(&claim->metadata, STR(CLAIM_FINALIZER));
    bool deleting = claim->metadata.deletion_timestamp.set;
    bool fewer = n < claim->status.reserved_for.n;
    bool unused = n == 0 && guarded;
    if (claim->status.allocation || !guarded)
        claim_sync_forget_key(&c->freed, key);
    // A scheduler adds the finalizer before the allocation: one without the other is its business,
    // unless the claim is to go or was freed here.
    bool finalizer_over =
        unused && !claim->status.allocation && (deleting || map_has(&c->freed, key));
    // A scheduler that could not bind its pod leaves the allocation for the next attempt. When
    // there will be none nothing else would free the devices; a claim that was never used is left
    // alone.
    if (n > 0 || !claim->status.allocation || claim_is_wanted(c, claim))
        claim_sync_forget_key(&c->left, key);
    bool left = unused && claim->status.allocation && (deleting || map_has(&c->left, key));
    // What goes altogether needs not be emptied first.
    bool going = unused && deleting && claim->metadata.finalizers.n == 1;
    bool over = n == 0 && !deleting && owner_is_over(c, claim);
    if (going)
        claim_sync_remove_finalizer(c, key, o);
    else if (over)
        delete_claim(c, key, claim);
    else if (fewer || left)
        claim_sync_release_claim(c, key, o, users, n, unused && claim->status.allocation);
    else if (unknown)
        claim_sync_ask_consumer(c, key, namespace, unknown);
    else if (finalizer_over)
        claim_sync_remove_finalizer(c, key, o);
    else
        work_done(c->work, key);
    arena_done(&arena);
}

bool claim_ctl_check(const struct claim_ctl *c, struct sbuf *problems)
{
    const struct key_set *sets[] = {&c->freed, &c->left};
    bool good = true;
    for (size_t k = 0; k < array_len(sets); k++)
        map_foreach(sets[k], i) {
            struct str key = map_key(sets[k], i);
            struct str namespace;
            struct str name;
            str_cut(str_from(key, 2), '/', &namespace, &name);
            if (ctl_find(c->ctl, CACHE_CLAIMS, namespace, name))
                continue;
            sbuf_addf(problems, "%.*s is remembered as %s, but is gone\n", STR_ARG(key),
                      k ? "left" : "freed");
            good = false;
        }
    return good;
}

void claim_forget_all(struct claim_ctl *c)
{
    struct key_set *sets[] = {&c->freed, &c->left};
    for (size_t k = 0; k < array_len(sets); k++) {
        map_foreach(sets[k], i)
            free(*map_value(sets[k], i));
        map_done(sets[k]);
    }
}
