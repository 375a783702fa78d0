// SPDX-License-Identifier: Apache-2.0
//
// Claims for pods and PodGroups: made from templates, named in the consumer's status, and reserved
// for pods that were bound without a scheduler that knows claims.
#include "api/meta.h"
#include "codec/json_writer.h"
#include "ctl/device/claim_int.h"

#include "base/banned.h"

// Longest text before the five characters that the server adds to a generated name.
enum { BASE_NAME_MAX = 57 };

// --- Making --------------------------------------------------------------------------------------

// The base of a generated name: CONSUMER-ENTRY-, or both cut in proportion when it is too long.
static struct str base_name(struct str consumer, struct str entry, struct arena *arena)
{
    size_t whole = consumer.n + 1 + entry.n + 1;
    if (whole <= BASE_NAME_MAX)
        return arena_strf(arena, "%.*s-%.*s-", STR_ARG(consumer), STR_ARG(entry));
    return arena_strf(arena, "%.*s-%.*s",
                      STR_ARG(str_upto(consumer, consumer.n * BASE_NAME_MAX / whole)),
                      STR_ARG(str_upto(entry, entry.n * BASE_NAME_MAX / whole)));
}

// The rest of the name follows from whose claim it is: one whose creation had no answer is found by
// the next attempt, not made twice. The letters are those the server would take.
static struct str own_name(struct str base, struct str uid, struct str entry, struct arena *arena)
{
    uint64_t hash = meta_hash(meta_hash(meta_hash(META_HASH_START, uid), STR("/")), entry);
    char rest[5];
    meta_hash_letters(hash, rest, sizeof(rest));
    return arena_strf(arena, "%.*s%.*s", STR_ARG(base), (int)sizeof(rest), rest);
}

static void claim_pod_make_claim(struct claim_ctl *c, struct str key, const struct consumer *who,
                                 struct str entry, const struct api_resource_claim_template *t,
                                 struct ctl_call *call)
{
    (void)key;
    struct arena arena = {0};
    struct api_resource_claim claim = {0};
    const struct api_object object = {ctl_kind(CACHE_CLAIMS), &claim};
    api_set_type_meta(&object);
    claim.metadata.namespace = who->meta->namespace;
    claim.metadata.generate_name = base_name(who->meta->name, entry, &arena);
    struct str name = own_name(claim.metadata.generate_name, who->meta->uid, entry, &arena);
    if (!ctl_find(c->ctl, CACHE_CLAIMS, who->meta->namespace, name))
        claim.metadata.name = name; // else it is taken, or on its way out: any other will do
    claim.metadata.labels = t->spec.metadata.labels;
    claim.metadata.annotations = t->spec.metadata.annotations;
    meta_map_put(&claim.metadata.annotations, STR(CLAIM_POD_ANNOTATION), entry, &arena);
    meta_own(&claim.metadata, ctl_kind(who->group ? CACHE_GROUPS : CACHE_PODS), who->meta, false,
             &arena);
    // Kept from the start: a scheduler that finds it there needs not write it first. It goes with
    // the claim, which only its pod uses.
    struct str guard = STR(CLAIM_FINALIZER);
    claim.metadata.finalizers = (struct api_str_array){&guard, 1};
    claim.spec = t->spec.spec;
    client_create(c->ctl->client, &object, NULL, ctl_call_done, call);
    arena_done(&arena);
}

// --- Telling people ------------------------------------------------------------------------------

static void claim_pod_record_failure(struct claim_ctl *c, const struct consumer *who,
                                     struct str entry, const char *why, size_t why_len)
{
    struct sbuf text = {0};
    sbuf_addf(&text, "%s %.*s: %.*s", who->group ? "PodGroupResourceClaim" : "PodResourceClaim",
              STR_ARG(entry), (int)why_len, why);
    events_record(c->ctl->events, who->object, STR("Warning"), STR("FailedResourceClaimCreation"),
                  sbuf_str(&text));
    sbuf_done(&text);
}

static struct consumer consumer_of(const struct claim_ctl *c, struct str key)
{
    struct str namespace;
    struct str name;
    str_cut(str_from(key, 2), '/', &namespace, &name);
    bool group = key.p[0] == 'g';
    const struct typed_object *o =
        ctl_find(c->ctl, group ? CACHE_GROUPS : CACHE_PODS, namespace, name);
    return (struct consumer){group, o, o ? o->meta : NULL};
}

static void create_failed(void *owner, struct str key, const struct client_answer *a)
{
    struct claim_ctl *c = owner;
    struct consumer who = consumer_of(c, key);
    c->create_failures++;
    if (who.object && a->err)
        claim_pod_record_failure(c, &who, STR("claim"), a->err->msg, strlen(a->err->msg));
}

// --- One entry -----------------------------------------------------------------------------------

struct owned_search {
    struct str entry;
    const struct typed_object *found;
    bool leaving; // there is one that goes, and only this controller holds it
};

static void match_owned(void *arg, const struct typed_object *o)
{
    struct owned_search *s = arg;
    if (!str_eq(meta_annotation(o->meta, STR(CLAIM_POD_ANNOTATION)), s->entry))
        return;
    if (!o->meta->deletion_timestamp.set)
        s->found = s->found ? s->found : o;
    else if (o->meta->finalizers.n == 1 && meta_has_finalizer(o->meta, STR(CLAIM_FINALIZER)))
        s->leaving = true;
}

static struct owned_search find_owned(const struct claim_ctl *c, struct str uid, struct str entry)
{
    struct owned_search s = {.entry = entry};
    informer_by(c->ctl->caches[CACHE_CLAIMS], c->claims_by_owner, uid, match_owned, &s);
    return s;
}

enum entry_result {
    ENTRY_FINE,    // nothing to do
    ENTRY_FOUND,   // *ret is a name that the status lacks
    ENTRY_STARTED, // a write is under way
    ENTRY_FAILED,  // try again later
};

// from_template finds or makes the claim that an entry of a consumer asks for.
static enum entry_result from_template(struct claim_ctl *c, struct str key,
                                       const struct consumer *who, struct str entry,
                                       struct str template_name, struct str *ret)
{
    const struct owned_search have = find_owned(c, who->meta->uid, entry);
    if (have.found) {
        *ret = have.found->meta->name;
        return ENTRY_FOUND;
    }
    // The next one gets its name, so that there are never two: this goes as soon as the claim's own
    // step has come to it, and its event comes back here.
    if (have.leaving)
        return ENTRY_FAILED;
    const struct api_resource_claim_template *t =
        maybe_template(ctl_find(c->ctl, CACHE_TEMPLATES, who->meta->namespace, template_name));
    if (!t) {
        struct sbuf why = {0};
        sbuf_addf(&why, "resource claim template \"%.*s\": not found", STR_ARG(template_name));
        claim_pod_record_failure(c, who, entry, why.p, why.n);
        sbuf_done(&why);
        return ENTRY_FAILED;
    }
    struct ctl_call *call = ctl_call_new(&c->calls, c->work, key, CACHE_CLAIMS);
    call->failed = create_failed;
    call->counted = &c->created;
    call->owner = c;
    claim_pod_make_claim(c, key, who, entry, t, call);
    return ENTRY_STARTED;
}

static enum entry_result pod_entry(struct claim_ctl *c, struct str key, const struct consumer *who,
                                   const struct api_pod_resource_claim *entry, struct str *ret)
{
    const struct api_pod *pod = as_pod(who->object);
    struct str name;
    bool check;
    enum claim_name state = claim_name_of(pod, entry, &name, &check);
    if (state == CLAIM_NOT_NEEDED || state == CLAIM_UNSUPPORTED)
        return ENTRY_FINE;
    if (state == CLAIM_NAMED) {
        const struct api_resource_claim *claim =
            maybe_claim(ctl_find(c->ctl, CACHE_CLAIMS, pod->metadata.namespace, name));
        if (!check || (claim && claim_is_for(claim, pod, c->groups)))
            return ENTRY_FINE;
    }
    const struct api_pod_group *group = claim_find_pod_group(c, pod);
    if (!pod_entry_is_of_group(group, entry))
        return from_template(c, key, who, entry->name, entry->resource_claim_template_name, ret);
    const struct typed_object *of_group = find_owned(c, group->metadata.uid, entry->name).found;
    if (!of_group)
        return ENTRY_FAILED; // the group's own step makes it; its claim's event comes back here
    *ret = of_group->meta->name;
    return ENTRY_FOUND;
}

// --- Status --------------------------------------------------------------------------------------

struct name_pair {
    struct str entry;
    struct str claim;
};

static int by_entry(const void *x, const void *y)
{
    return str_cmp(((const struct name_pair *)x)->entry, ((const struct name_pair *)y)->entry);
}

static void patch_names(struct claim_ctl *c, struct str key, const struct consumer *who,
                        const struct name_pair *names, size_t n)
{
    struct sbuf body = {0};
    struct json_writer w = {.out = &body};
    json_write_object_begin(&w);
    json_write_key(&w, STR("metadata"));
    json_write_object_begin(&w);
    json_write_key(&w, STR("uid"));
    json_write_str(&w, who->meta->uid);
    // A write that comes late must not name a claim that has been replaced since.
    json_write_key(&w, STR("resourceVersion"));
    json_write_str(&w, who->meta->resource_version);
    json_write_object_end(&w);
    json_write_key(&w, STR("status"));
    json_write_object_begin(&w);
    json_write_key(&w, STR("resourceClaimStatuses"));
    json_write_array_begin(&w);
    for (size_t i = 0; i < n; i++) {
        json_write_object_begin(&w);
        json_write_key(&w, STR("name"));
        json_write_str(&w, names[i].entry);
        json_write_key(&w, STR("resourceClaimName"));
        json_write_str(&w, names[i].claim);
        json_write_object_end(&w);
    }
    json_write_array_end(&w);
    json_write_object_end(&w);
    json_write_object_end(&w);
    enum ctl_cache cache = who->group ? CACHE_GROUPS : CACHE_PODS;
    const struct client_key at = {ctl_kind(cache), who->meta->namespace, who->meta->name};
    const struct client_write how = {.subresource = STR("status")};
    client_patch(c->ctl->client, &at, CLIENT_PATCH_STRATEGIC, sbuf_str(&body), &how, ctl_call_done,
                 ctl_call_new(&c->calls, c->work, key, cache));
    sbuf_done(&body);
}

// --- Reservation ---------------------------------------------------------------------------------

// claim_pod_reserve_claim adds the pod to a claim that it uses; true when a write is under way.
static bool claim_pod_reserve_claim(struct claim_ctl *c, struct str key, const struct api_pod *pod,
                                    const struct api_pod_resource_claim *entry)
{
    struct str name;
    bool check;
    if (claim_name_of(pod, entry, &name, &check) != CLAIM_NAMED)
        return false;
    const struct typed_object *o = ctl_find(c->ctl, CACHE_CLAIMS, pod->metadata.namespace, name);
    const struct api_resource_claim *claim = maybe_claim(o);
    if (!claim || !claim->status.allocation || claim->metadata.deletion_timestamp.set ||
        (check && !claim_is_for(claim, pod, c->groups)))
        return false;
    const struct api_pod_group *group = claim_find_pod_group(c, pod);
    bool as_group_member = pod_entry_is_of_group(group, entry);
    const struct api_object_meta *consumer = as_group_member ? &group->metadata : &pod->metadata;
    if (claim_is_reserved_for(claim, consumer->uid))
        return false;
    struct arena arena = {0};
    struct api_resource_claim changed = *claim;
    size_t n = claim->status.reserved_for.n;
    struct api_resource_claim_consumer_reference *all =
        arena_array(&arena, struct api_resource_claim_consumer_reference, n + 1);
    for (size_t i = 0; i < n; i++)
        all[i] = claim->status.reserved_for.p[i];
    all[n] = consumer_reference_to(consumer, as_group_member);
    changed.status.reserved_for = (struct api_resource_claim_consumer_reference_array){all, n + 1};
    const struct api_object object = {o->object.kind, &changed};
    const struct client_write how = {.subresource = STR("status")};
    client_update(c->ctl->client, &object, &how, ctl_call_done,
                  ctl_call_new(&c->calls, c->work, key, CACHE_CLAIMS));
    arena_done(&arena);
    return true;
}

// --- Steps ---------------------------------------------------------------------------------------

// Only its group can tell whose claims a pod's entries mean; the pod comes back when the group
// comes.
static bool lacks_group(const struct claim_ctl *c, const struct api_pod *pod)
{
    return c->groups && pod->spec.scheduling_group &&
           pod->spec.scheduling_group->has_pod_group_name && !claim_find_pod_group(c, pod);
}

void claim_step_pod(struct claim_ctl *c, struct str key, struct str namespace, struct str name)
{
    const struct typed_object *o = ctl_find(c->ctl, CACHE_PODS, namespace, name);
    const struct api_pod *pod = maybe_pod(o);
    if (!pod || pod->metadata.deletion_timestamp.set || pod_is_done(pod) || lacks_group(c, pod)) {
        work_done(c->work, key);
        return;
    }
    struct arena arena = {0};
    const struct consumer who = {false, o, o->meta};
    size_t entries = pod->spec.resource_claims.n;
    struct name_pair *names = arena_array(&arena, struct name_pair, entries);
    size_t found = 0;
    enum entry_result result = ENTRY_FINE;
    for (size_t i = 0; i < entries; i++) {
        const struct api_pod_resource_claim *e = &pod->spec.resource_claims.p[i];
        result = pod_entry(c, key, &who, e, &names[found].claim);
        if (result == ENTRY_STARTED || result == ENTRY_FAILED)
            break;
        if (result == ENTRY_FOUND)
            names[found++].entry = e->name;
    }
    bool started = result == ENTRY_STARTED;
    if (!started && result != ENTRY_FAILED && found > 0) {
        qsort(names, found, sizeof(*names), by_entry);
        patch_names(c, key, &who, names, found);
        started = true;
    }
    for (size_t i = 0;
         !started && result != ENTRY_FAILED && pod->spec.node_name.n > 0 && i < entries; i++)
        started = claim_pod_reserve_claim(c, key, pod, &pod->spec.resource_claims.p[i]);
    arena_done(&arena);
    if (started)
        return;
    if (result == ENTRY_FAILED)
        work_retry(c->work, key);
    else
        work_done(c->work, key);
}

static bool group_has_name(const struct claim_ctl *c, const struct api_pod_group *group,
                           struct str entry)
{
    for (size_t i = 0; i < group->status.resource_claim_statuses.n; i++) {
        const struct api_pod_group_resource_claim_status *s =
            &group->status.resource_claim_statuses.p[i];
        if (!str_eq(s->name, entry))
            continue;
        if (!s->has_resource_claim_name)
            return true;
        const struct api_resource_claim *claim = maybe_claim(
            ctl_find(c->ctl, CACHE_CLAIMS, group->metadata.namespace, s->resource_claim_name));
        const struct api_owner_reference *owner = claim ? meta_controller(&claim->metadata) : NULL;
        return owner && str_eq(owner->uid, group->metadata.uid);
    }
    return false;
}

void claim_step_group(struct claim_ctl *c, struct str key, struct str namespace, struct str name)
{
    const struct typed_object *o = ctl_find(c->ctl, CACHE_GROUPS, namespace, name);
    const struct api_pod_group *group = maybe_group(o);
    if (!group || group->metadata.deletion_timestamp.set) {
        work_done(c->work, key);
        return;
    }
    struct arena arena = {0};
    const struct consumer who = {true, o, o->meta};
    size_t entries = group->spec.resource_claims.n;
    struct name_pair *names = arena_array(&arena, struct name_pair, entries);
    size_t found = 0;
    enum entry_result result = ENTRY_FINE;
    for (size_t i = 0; i < entries && result != ENTRY_STARTED && result != ENTRY_FAILED; i++) {
        const struct api_pod_group_resource_claim *e = &group->spec.resource_claims.p[i];
        if (!e->has_resource_claim_template_name || group_has_name(c, group, e->name))
            continue;
        result = from_template(c, key, &who, e->name, e->resource_claim_template_name,
                               &names[found].claim);
        if (result == ENTRY_FOUND)
            names[found++].entry = e->name;
    }
    if (result == ENTRY_FAILED)
        work_retry(c->work, key);
    else if (result != ENTRY_STARTED && found > 0)
        patch_names(c, key, &who, names, found);
    else if (result != ENTRY_STARTED)
        work_done(c->work, key);
    arena_done(&arena);
}
