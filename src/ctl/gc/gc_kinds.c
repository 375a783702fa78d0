// SPDX-License-Identifier: Apache-2.0
//
// Which kinds the garbage collector follows: those dray was built with, and those that users add,
// as their definitions come, change and go. Of the latter it sees metadata alone
// (api_kind_partial).
//
// A kind keeps its place among the kinds when its cache is given up: keys and waiting work name
// kinds by place. A place is used again by the definition of the same name, or, when there are many
// of them, by another one's.
#include <stdlib.h>

#include "api/partial.h"
#include "api/validate.h"
#include "ctl/gc/gc_int.h"

#include "base/banned.h"

// How many kinds are remembered that are not served any more.
#define PAST_MAX 64

// How long everything waits for the first list of a kind that users added: it may never come, as
// when the server cannot convert its objects.
#define LIST_WAIT_NS (30 * CLOCK_NS_PER_SEC)

typedef struct api_custom_resource_definition definition;
typedef struct api_custom_resource_definition_version version;

static struct gc_kind *new_kind(struct gc_ctl *g)
{
    struct gc_kind *k = xcalloc(1, sizeof(*k));
    k->g = g;
    k->number = g->kinds.n;
    vec_push(&g->kinds, k);
    return k;
}

// --- Kinds that users add ------------------------------------------------------------------------

static bool gc_kinds_is_established(const definition *d)
{
    for (size_t i = 0; i < d->status.conditions.n; i++)
        if (str_eqz(d->status.conditions.p[i].type, "Established"))
            return str_eqz(d->status.conditions.p[i].status, "True");
    return false;
}

// The version to ask for: the stored one, which needs no conversion, else any. NULL: none is
// served.
static const version *gc_kinds_stored_version(const definition *d)
{
    const version *found = NULL;
    for (size_t i = 0; gc_kinds_is_established(d) && i < d->spec.versions.n; i++) {
        const version *v = &d->spec.versions.p[i];
        if (v->served && (!found || v->storage))
            found = v;
    }
    return found;
}

static struct api_kind gc_kinds_definition_names(const definition *d, const version *v)
{
    return (struct api_kind){.group = d->spec.group,
                             .version = v->name,
                             .kind = d->status.accepted_names.kind,
                             .plural = d->status.accepted_names.plural,
                             .namespaced = str_eqz(d->spec.scope, "Namespaced")};
}

static bool same_names(const struct api_kind *a, const struct api_kind *b)
{
    return str_eq(a->group, b->group) && str_eq(a->version, b->version) &&
           str_eq(a->kind, b->kind) && str_eq(a->plural, b->plural) &&
           a->namespaced == b->namespaced;
}

static bool gc_kinds_is_named(const struct gc_kind *k)
{
    list_foreach(&k->g->calls, node) {
        if (list_entry(node, struct ctl_call, node)->source == k->number)
            return true;
    }
    return false;
}

// A place for the kind of a definition.
static struct gc_kind *place_for(struct gc_ctl *g, struct str name)
{
    struct gc_kind *oldest = NULL;
    size_t past = 0;
    vec_foreach(&g->kinds, at) {
        struct gc_kind *k = *at;
        if (k->cache)
            continue;
        if (str_eq(k->definition, name))
            return k;
        past++;
        if ((!oldest || k->ended < oldest->ended) && !gc_kinds_is_named(k))
            oldest = k;
    }
    return past >= PAST_MAX && oldest ? oldest : new_kind(g);
}

struct naming {
    const struct gc_kind *owner, *kind;
};

static void add_if_it_names(void *arg, const struct typed_object *o)
{
    const struct naming *n = arg;
    for (size_t i = 0; i < o->meta->owner_references.n; i++)
        if (gc_kind_of_owner(n->kind->g, &o->meta->owner_references.p[i]) == n->owner) {
            gc_add(n->kind, o->meta);
            return;
        }
}

// Those who name owners of a kind that was not known were left alone.
static void look_at_dependents(const struct gc_kind *owner)
{
    vec_foreach(&owner->g->kinds, k) {
        struct naming n = {owner, *k};
        if ((*k)->cache)
            informer_foreach((*k)->cache, add_if_it_names, &n);
    }
}

static void gc_kinds_begin_watch(struct gc_ctl *g, const definition *d,
                                 const struct api_kind *names)
{
    struct gc_kind *k = place_for(g, d->metadata.name);
    arena_done(&k->arena);
    k->arena = (struct arena){0};
    k->definition = arena_str(&k->arena, d->metadata.name);
    k->kind = api_kind_partial(&k->arena, names);
    k->undefined = false;
    k->since_ns = exec_now_ns(g->ctl->exec);
    gc_kind_watch(k, NULL);
    informer_start(k->cache);
    if (informer_synced(g->definitions->cache)) // before that, nothing was looked at
        look_at_dependents(k);
}

static void now_gone(void *arg, const struct typed_object *o)
{
    gc_gone(arg, o->meta);
}

// gc_kinds_end_watch gives up a cache; undefined: its definition is gone, which took all objects
// along.
static void gc_kinds_end_watch(struct gc_kind *k, bool undefined)
{
    struct informer *cache = k->cache;
    k->cache = NULL;
    k->undefined = undefined;
    k->ended = ++k->g->ended;
    if (undefined)
        informer_foreach(cache, now_gone, k->g);
    informer_free(cache);
    work_forget(k->g->work, k->number);
}

static void definition_changed(void *arg, const struct typed_object *before,
                               const struct typed_object *after)
{
    struct gc_ctl *g = arg;
    const definition *d = after ? after->object.value : NULL;
    const version *v = d ? gc_kinds_stored_version(d) : NULL;
    const struct api_kind names = v ? gc_kinds_definition_names(d, v) : (struct api_kind){0};
    struct str name = (after ? after : before)->meta->name;
    vec_foreach(&g->kinds, at) {
        struct gc_kind *k = *at;
        if (!str_eq(k->definition, name))
            continue;
        if (!k->cache) // it is not served, and now it is not even defined
            k->undefined = k->undefined || !d;
        else if (v && same_names(k->kind, &names))
            return;
        else
            gc_kinds_end_watch(k, !d);
    }
    if (v)
        gc_kinds_begin_watch(g, d, &names);
}

// --- All of them ---------------------------------------------------------------------------------

static bool is_cached(const struct ctl *c, const struct api_kind *kind)
{
    for (enum ctl_cache i = 0; i < CACHES; i++)
        if (ctl_has_all(c, i) && ctl_kind(i) == kind)
            return true;
    return false;
}

// is_collected: kinds that can be listed, once each; events own nothing and end by themselves.
static bool is_collected(const struct api_kind *kind)
{
    return kind->plural.n && kind->list && api_hub_kind(kind) == kind &&
           !str_contains(kind->version, STR("alpha")) && !str_eqz(kind->kind, "Event");
}

static void gc_kinds_add_kind(struct gc_ctl *g, const struct api_kind *kind, struct informer *cache)
{
    struct gc_kind *k = new_kind(g);
    k->kind = kind;
    gc_kind_watch(k, cache);
    if (cache || !str_eqz(kind->kind, "CustomResourceDefinition"))
        return;
    const struct informer_handler handler = {.changed = definition_changed, .arg = g};
    informer_add_handler(k->cache, &handler);
    g->definitions = k;
}

void gc_kinds_init(struct gc_ctl *g)
{
    const struct ctl *ctl = g->ctl;
    for (enum ctl_cache i = 0; i < CACHES; i++)
        if (ctl_has_all(ctl, i))
            gc_kinds_add_kind(g, ctl_kind(i), ctl->caches[i]);
    for (size_t i = 0; ctl->collect_all && i < api_kinds_len; i++)
        if (is_collected(&api_kinds[i]) && !is_cached(ctl, &api_kinds[i]))
            gc_kinds_add_kind(g, &api_kinds[i], NULL);
}

void gc_kinds_done(struct gc_ctl *g)
{
    vec_foreach(&g->kinds, k) {
        if ((*k)->own)
            informer_free((*k)->cache);
        arena_done(&(*k)->arena);
        free(*k);
    }
    vec_done(&g->kinds);
}

void gc_ctl_start(struct gc_ctl *g)
{
    vec_foreach(&g->kinds, k) {
        if ((*k)->own)
            informer_start((*k)->cache);
    }
}

// Nothing is decided before all is known that the server is going to tell.
static bool is_awaited(const struct gc_kind *k)
{
    if (!k->cache || informer_synced(k->cache) || (k->own && k->refused))
        return false;
    return !k->definition.n || exec_now_ns(k->g->ctl->exec) - k->since_ns < LIST_WAIT_NS;
}

bool gc_ctl_synced(const struct gc_ctl *g)
{
    vec_foreach(&g->kinds, k) {
        if (is_awaited(*k))
            return false;
    }
    return true;
}
