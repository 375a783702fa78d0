// SPDX-License-Identifier: Apache-2.0
//
// A group that does not run gives back what it holds. Its reservation serves all its pods, so a
// fence is put up for each of them; and since one may have come that is not known here, nothing is
// taken before the watch of pods has shown a fence: what came before it has been shown then, too.
// Who comes later writes the claim before it relies on it, and that makes the taking fail.
// docs/design/scheduler.md ("Late writes").
#include "api/match/claim.h"
#include "sched/bind/bind.h"
#include "sched/bind/bind_int.h"
#include "sched/gang/gang.h"

#include "base/banned.h"

struct taken_claim {
    struct group_take *t;
    const struct typed_object *object; // the version known before the fences; referenced
    bool clear;
};

struct group_take {
    struct list_node node; // in sched.takes
    struct sched *s;
    struct sched_group *group; // which stays while this is under way
    size_t fences;             // answers to come
    uint64_t revision;         // of the newest fence
    bool failed;
    bool taking;
    size_t writes; // answers to come
    struct taken_claim *claims;
    size_t claims_len;
};

static void gang_take_free(struct group_take *t)
{
    list_remove(&t->node);
    for (size_t i = 0; i < t->claims_len; i++)
        typed_object_unref(t->claims[i].object);
    free(t->claims);
    free(t);
}

// The pods of the group come back to the queue by themselves.
static void gang_take_end(struct group_take *t)
{
    struct sched *s = t->s;
    struct sched_group *g = t->group;
    g->take = NULL;
    list_foreach(&s->writes.bindings, node) {
        struct binding *b = list_entry(node, struct binding, node);
        if (b->in.take != t)
            continue;
        b->in.take = NULL;
        bind_finish(b);
    }
    gang_take_free(t);
    groups_wake(s, g);
    groups_release(s, g);
}

// --- Claims --------------------------------------------------------------------------------------

static void gang_take_on_written(struct sched *s, void *arg, const struct client_answer *answer)
{
    struct group_take *t = arg;
    if (answer->code == 0 && answer->object) {
        const struct api_object_meta *m = answer->object->meta;
        claims_learn(&s->claims, claims_get(&s->claims, m->namespace, m->name), answer->object);
        s->stats.given_back++;
    }
    if (--t->writes == 0)
        gang_take_end(t);
}

static void gang_take_release_claim(struct group_take *t, const struct taken_claim *c)
{
    struct sched *s = t->s;
    struct arena tmp = {0};
    const struct api_resource_claim *claim = c->object->object.value;
    struct api_resource_claim changed = *claim;
    if (c->clear) {
        changed.status = (struct api_resource_claim_status){0};
    } else {
        const struct api_resource_claim_consumer_reference_array was = claim->status.reserved_for;
        struct api_resource_claim_consumer_reference *list =
            arena_array(&tmp, struct api_resource_claim_consumer_reference, was.n + 1);
        size_t n = 0;
        for (size_t i = 0; i < was.n; i++)
            if (!consumer_is_group(&was.p[i]))
                list[n++] = was.p[i];
        changed.status.reserved_for = (struct api_resource_claim_consumer_reference_array){list, n};
    }
    const struct api_object o = {sched_kind(WATCH_CLAIMS), &changed};
    t->writes++;
    client_update(s->client, &o, &(struct client_write){.subresource = STR("status")},
                  calls_on_answer, calls_begin(s, gang_take_on_written, t));
    arena_done(&tmp);
}

// Is every pod of the group one that was fenced, or runs without the claim?
static bool all_fenced(const struct group_take *t, const struct taken_claim *c)
{
    const struct sched_group *g = t->group;
    for (size_t i = 0; i < g->pods.n; i++) {
        const struct sched_pod *p = g->pods.p[i];
        if (!p->node && (!p->binding || p->binding->in.take != t))
            return false;
    }
    return !groups_uses_claim(g, c->object->meta->name);
}

static void gang_take_proceed(struct group_take *t)
{
    const struct informer *pods = t->s->watch.informers[WATCH_PODS];
    if (t->fences || t->taking)
        return;
    if (!t->failed && t->revision && informer_revision(pods) < t->revision)
        return; // the watch is behind
    t->taking = true;
    t->writes = 1; // ours, until all are sent
    for (size_t i = 0; !t->failed && i < t->claims_len; i++)
        if (all_fenced(t, &t->claims[i]))
            gang_take_release_claim(t, &t->claims[i]);
    if (--t->writes == 0)
        gang_take_end(t);
}

void gang_take_pods_advanced(struct sched *s)
{
    list_foreach(&s->writes.takes, node)
        gang_take_proceed(list_entry(node, struct group_take, node));
}

// --- Fences --------------------------------------------------------------------------------------

void gang_take_fenced(struct binding *b, bool well)
{
    struct group_take *t = b->in.take;
    t->failed |= !well;
    if (b->pod_object->revision > t->revision)
        t->revision = b->pod_object->revision;
    t->fences--;
    gang_take_proceed(t);
}

void gang_take_member_gone(struct binding *b)
{
    b->in.take = NULL; // all of it is being dropped
}

bool gang_take_start(struct sched *s, struct sched_group *g, const struct take_want *wants,
                     size_t n)
{
    if (g->take || !n || !g->pods.n)
        return false;
    size_t open = 0;
    for (size_t i = 0; i < g->pods.n; i++) {
        const struct sched_pod *p = g->pods.p[i];
        open += !p->node;
        if (p->binding || (!p->node && !sched_is_mine(s, p->api)))
            return false;
    }
    if (!open)
        return false;
    struct group_take *t = xcalloc(1, sizeof(*t));
    *t = (struct group_take){.s = s, .group = g, .claims_len = n};
    t->claims = xcalloc(n, sizeof(*t->claims));
    for (size_t i = 0; i < n; i++)
        t->claims[i] =
            (struct taken_claim){t, typed_object_ref(wants[i].entry->latest), wants[i].clear};
    g->take = t;
    list_push_back(&s->writes.takes, &t->node);
    t->fences = open;
    for (size_t i = 0; i < g->pods.n; i++)
        if (!g->pods.p[i]->node)
            (void)bind_fence(s, g->pods.p[i], t);
    return true;
}

void gang_take_drop_all(struct sched *s)
{
    list_foreach(&s->writes.takes, node) {
        struct group_take *t = list_entry(node, struct group_take, node);
        t->group->take = NULL;
        gang_take_free(t);
    }
}

// --- What the group holds ------------------------------------------------------------------------

// No consumer outside the group has the claim reserved, and no pod runs with it.
static bool only_ours(const struct sched_group *g, const struct api_resource_claim *claim)
{
    for (size_t i = 0; i < claim->status.reserved_for.n; i++) {
        const struct api_resource_claim_consumer_reference *r = &claim->status.reserved_for.p[i];
        bool mine = g->api && str_eq(r->uid, g->api->metadata.uid);
        for (size_t k = 0; k < g->pods.n && !mine; k++)
            mine = str_eq(r->uid, g->pods.p[k]->api->metadata.uid);
        if (!mine)
            return false;
    }
    return true;
}

struct wants VEC(struct take_want);

static bool gang_take_is_listed(const struct wants *list, const struct sched_claim *k)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->p[i].entry == k)
            return true;
    return false;
}

static bool is_group_claim(const struct sched_group *g, const struct api_resource_claim *claim)
{
    for (size_t i = 0; i < claim->status.reserved_for.n; i++)
        if (g->api && str_eq(claim->status.reserved_for.p[i].uid, g->api->metadata.uid))
            return true;
    return false;
}

static void add_want(struct wants *out, struct sched *s, const struct sched_group *g,
                     struct sched_claim *k, enum take_rule rule)
{
    const struct api_resource_claim *claim = claims_api(k);
    if (!claim || !claim->status.allocation || k->flight || claim_is_extended(&claim->metadata) ||
        gang_take_is_listed(out, k) || !only_ours(g, claim) ||
        groups_uses_claim(g, claim->metadata.name))
        return;
    bool unavailable = k->unavailable == s->turn.gang_last;
    if (rule == TAKE_LOST ? k->lost : rule == TAKE_ALL || unavailable || is_group_claim(g, claim))
        vec_push(out, (struct take_want){k, rule != TAKE_SOME || unavailable || k->lost});
}

static void find_held_by(struct sched *s, const struct sched_pod *p, enum take_rule rule,
                         struct wants *out)
{
    for (size_t k = 0; k < p->claims_len; k++) {
        struct sched_claim **entry = map_get(&s->claims.by_key, p->claims[k]);
        if (entry)
            add_want(out, s, p->group, *entry, rule);
    }
}

// The group's own claims may be known to no pod yet: those that ask for them can be gated.
static void find_held_by_group(struct sched *s, const struct sched_group *g, enum take_rule rule,
                               struct wants *out)
{
    for (size_t i = 0; g->api && i < g->api->status.resource_claim_statuses.n; i++) {
        struct str name = g->api->status.resource_claim_statuses.p[i].resource_claim_name;
        struct sched_claim *k = claims_find(&s->claims, g->api->metadata.namespace, name);
        if (k)
            add_want(out, s, g, k, rule);
    }
}

bool gang_give_back(struct sched *s, struct sched_group *g, enum take_rule rule)
{
    struct wants held = {0};
    // As in Kubernetes, except an allocation that no pod can ever use: it is released unless a pod
    // runs with it.
    if (rule != TAKE_LOST && groups_scheduled(g) > 0)
        return false;
    for (size_t i = 0; i < g->pods.n; i++)
        find_held_by(s, g->pods.p[i], rule, &held);
    find_held_by_group(s, g, rule, &held);
    bool begun = gang_take_start(s, g, held.p, held.n);
    vec_done(&held);
    return begun;
}

bool gang_holds(struct sched *s, const struct sched_pod *p)
{
    struct wants held = {0};
    if (groups_min(p->group) > 1) {
        find_held_by(s, p, TAKE_ALL, &held);
        find_held_by_group(s, p->group, TAKE_ALL, &held);
    }
    bool any = held.n > 0 && groups_scheduled(p->group) == 0;
    vec_done(&held);
    return any;
}
