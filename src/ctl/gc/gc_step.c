// SPDX-License-Identifier: Apache-2.0
//
// What becomes of an object with owners, by the rules of Kubernetes' garbage collector. In the
// background: when all its owners are gone, it goes. In the foreground: an owner with the finalizer
// foregroundDeletion waits until no dependent blocks it. Orphaned: the references to an owner
// with the finalizer orphan are taken away, then it goes.
#include "api/partial.h"
#include "codec/json_writer.h"
#include "ctl/gc/gc_int.h"

#include "base/banned.h"

static bool gc_has_finalizer(const struct api_object_meta *meta, const char *name)
{
    for (size_t i = 0; i < meta->finalizers.n; i++)
        if (str_eqz(meta->finalizers.p[i], name))
            return true;
    return false;
}

// What a look is about.
struct look {
    struct gc_ctl *g;
    struct str key;
    const struct gc_kind *kind;
    const struct typed_object *o;
    struct gc_inquiry *inquiry; // into its owners; NULL: there is none
};

static struct ctl_call *gc_step_new_call(const struct look *l, size_t source)
{
    return ctl_call_new(&l->g->calls, l->g->work, l->key, source);
}

// --- Writes --------------------------------------------------------------------------------------

// begin_patch opens a merge patch that holds for this very version alone.
static void begin_patch(struct sbuf *out, const struct api_object_meta *meta)
{
    sbuf_addf(out, "{\"metadata\":{\"uid\":\"%.*s\",\"resourceVersion\":\"%.*s\",",
              STR_ARG(meta->uid), STR_ARG(meta->resource_version));
}

static void send_patch(const struct look *l, const struct gc_kind *k, const struct typed_object *o,
                       struct sbuf *patch)
{
    const struct client_key at = {k->kind, o->meta->namespace, o->meta->name};
    sbuf_addz(patch, "}}");
    client_patch(l->g->ctl->client, &at, CLIENT_PATCH_MERGE, sbuf_str(patch), NULL, ctl_call_done,
                 gc_step_new_call(l, k->number));
}

static void drop_finalizer(const struct look *l, const char *name)
{
    const struct api_object_meta *meta = l->o->meta;
    cleanup_sbuf struct sbuf patch = {0};
    begin_patch(&patch, meta);
    sbuf_addz(&patch, "\"finalizers\":[");
    size_t n = 0;
    for (size_t i = 0; i < meta->finalizers.n; i++) {
        if (str_eqz(meta->finalizers.p[i], name))
            continue;
        if (n++)
            sbuf_addc(&patch, ',');
        sbuf_add_quoted(&patch, meta->finalizers.p[i]);
    }
    sbuf_addc(&patch, ']');
    send_patch(l, l->kind, l->o, &patch);
}

// patch_owners writes the references that keep selects; unblock: as none that anyone waits for.
static void patch_owners(const struct look *l, const struct gc_kind *k,
                         const struct typed_object *o, bool unblock,
                         bool (*keep)(const void *arg, const struct typed_object *o, size_t i),
                         const void *arg)
{
    cleanup_sbuf struct sbuf patch = {0};
    struct json_writer w = {.out = &patch};
    begin_patch(&patch, o->meta);
    sbuf_addz(&patch, "\"ownerReferences\":[");
    size_t n = 0;
    for (size_t i = 0; i < o->meta->owner_references.n; i++) {
        struct api_owner_reference r = o->meta->owner_references.p[i];
        struct err err = {0};
        if (!keep(arg, o, i))
            continue;
        if (unblock)
            r.block_owner_deletion = false;
        if (n++)
            sbuf_addc(&patch, ',');
        w = (struct json_writer){.out = &patch};
        if (api_json_write(&api_owner_reference_type, &r, &w, &err) < 0)
            continue; // has nothing that could fail
    }
    sbuf_addc(&patch, ']');
    send_patch(l, k, o, &patch);
}

static void delete_it(const struct look *l, struct str policy)
{
    const struct client_key at = {l->kind->kind, l->o->meta->namespace, l->o->meta->name};
    struct api_preconditions same = {.uid = l->o->meta->uid,
                                     .has_uid = true,
                                     .resource_version = l->o->meta->resource_version,
                                     .has_resource_version = true};
    const struct api_delete_options options = {
        .preconditions = &same, .propagation_policy = policy, .has_propagation_policy = true};
    client_delete(l->g->ctl->client, &at, &options, ctl_call_done,
                  gc_step_new_call(l, l->kind->number));
}

// --- Owners --------------------------------------------------------------------------------------

enum owner {
    OWNER_SOLID,
    OWNER_GONE,
    OWNER_WAITING, // it is deleted in the foreground
    OWNER_UNKNOWN, // the server must be asked
};

// An owner in a place where no owner can be counts as gone; an event names it.
static void tell_misplaced(const struct look *l, const struct api_owner_reference *r)
{
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text,
              "ownerRef [%.*s/%.*s, namespace: %.*s, name: %.*s, uid: %.*s] does not exist in "
              "namespace \"%.*s\"",
              STR_ARG(r->api_version), STR_ARG(r->kind), STR_ARG(l->o->meta->namespace),
              STR_ARG(r->name), STR_ARG(r->uid), STR_ARG(l->o->meta->namespace));
    events_record(l->g->ctl->events, l->o, EVENT_WARNING, STR("OwnerRefInvalidNamespace"),
                  sbuf_str(&text));
}

static enum owner owner_state(const struct look *l, const struct api_owner_reference *r)
{
    const struct gc_kind *k = gc_kind_of_owner(l->g, r);
    if (!k)
        return OWNER_SOLID; // nothing here knows better
    const struct typed_object *owner = gc_by_uid(k, r->uid);
    struct str namespace = k->kind->namespaced ? l->o->meta->namespace : STR("");
    if (owner && !str_eq(owner->meta->namespace, namespace))
        tell_misplaced(l, r);
    // Nothing is deleted because of a reference that can never be right.
    if (k->kind->namespaced && !l->kind->kind->namespaced)
        return OWNER_SOLID;
    if (owner && str_eq(owner->meta->namespace, namespace) && str_eq(owner->meta->name, r->name))
        return owner->meta->deletion_timestamp.set && gc_has_finalizer(owner->meta, GC_FOREGROUND)
                   ? OWNER_WAITING
                   : OWNER_SOLID;
    return owner || gone_has(&l->g->gone, r->uid) ? OWNER_GONE : OWNER_UNKNOWN;
}

static void ask_for(const struct look *l, const struct api_owner_reference *r)
{
    const struct gc_kind *k = gc_kind_of_owner(l->g, r);
    cleanup_arena struct arena arena = {0};
    struct client_key at = {k->kind, k->kind->namespaced ? l->o->meta->namespace : STR(""),
                            r->name};
    // A definition that is gone may be back already, with other versions: ask for the one that is
    // meant.
    if (k->undefined) {
        struct api_kind names = *k->kind;
        struct str group;
        (void)str_cut(r->api_version, '/', &group, &names.version);
        at.kind = api_kind_partial(&arena, &names);
    }
    ctl_call_ask(gc_step_new_call(l, l->kind->number), l->g->ctl->client, &at, r->uid, gc_remember,
                 l->g);
}

// --- Inquiries -----------------------------------------------------------------------------------

// gc_inquiry_of finds or begins the inquiry into this version of the object.
static struct gc_inquiry *gc_inquiry_of(const struct look *l)
{
    bool added;
    struct gc_inquiry *q = map_get(&l->g->inquiries, l->key);
    if (q && q->revision == l->o->revision)
        return q;
    char *key = q ? q->key : xstrndup(l->key.p, l->key.n);
    if (q)
        bits_done(&q->gone);
    else
        q = map_put_new(&l->g->inquiries, str_make(key, l->key.n), &added);
    *q = (struct gc_inquiry){.key = key, .revision = l->o->revision};
    bits_init(&q->gone, l->o->meta->owner_references.n);
    return q;
}

static void gc_inquiry_end(struct gc_ctl *g, struct str key)
{
    struct gc_inquiry *q = map_get(&g->inquiries, key);
    if (!q)
        return;
    char *owned = q->key;
    bits_done(&q->gone);
    (void)map_del(&g->inquiries, key);
    free(owned);
}

void gc_inquiries_done(struct gc_ctl *g)
{
    map_foreach(&g->inquiries, i) {
        free(map_value(&g->inquiries, i)->key);
        bits_done(&map_value(&g->inquiries, i)->gone);
    }
    map_done(&g->inquiries);
}

// gc_owner_at is the state of the owner in a position. A UID that is gone never comes back.
static enum owner gc_owner_at(const struct look *l, size_t i)
{
    if (l->inquiry && bits_test(&l->inquiry->gone, i))
        return OWNER_GONE;
    enum owner state = owner_state(l, &l->o->meta->owner_references.p[i]);
    if (l->inquiry && state == OWNER_GONE)
        bits_set(&l->inquiry->gone, i);
    return state;
}

// What owners from a position on are.
struct owner_counts {
    size_t solid, waiting;
};

// gc_inquire counts owners from a position on, or asks for the first in doubt and returns true.
static bool gc_inquire(struct look *l, size_t from, struct owner_counts *ret)
{
    *ret = (struct owner_counts){0};
    for (size_t i = from; i < l->o->meta->owner_references.n; i++) {
        enum owner state = gc_owner_at(l, i);
        ret->solid += state == OWNER_SOLID;
        ret->waiting += state == OWNER_WAITING;
        if (state != OWNER_UNKNOWN)
            continue;
        if (!l->inquiry)
            l->inquiry = gc_inquiry_of(l);
        l->inquiry->next = i;
        ask_for(l, &l->o->meta->owner_references.p[i]);
        return true;
    }
    return false;
}

static bool is_solid(const void *arg, const struct typed_object *o, size_t i)
{
    (void)o;
    return gc_owner_at(arg, i) == OWNER_SOLID;
}

static bool gc_step_stop_at_first(const void *arg, const struct typed_object *o, size_t i)
{
    (void)arg;
    (void)o;
    (void)i;
    return true;
}

// --- Dependents ----------------------------------------------------------------------------------

struct below {
    struct str uid, namespace;        // of the owner
    size_t n, blocking, waiting;      // waiting: deleted in the foreground themselves
    const struct gc_kind *first_kind; // of a dependent
    const struct typed_object *first; // NULL: there is none
};

static void count_below(void *arg, const struct gc_kind *k, const struct typed_object *o)
{
    struct below *b = arg;
    // What lies in another namespace has no owner here, whatever it names, and blocks nothing.
    if (b->namespace.n && !str_eq(b->namespace, o->meta->namespace))
        return;
    if (!b->n++) {
        b->first = o;
        b->first_kind = k;
    }
    b->waiting += o->meta->deletion_timestamp.set && gc_has_finalizer(o->meta, GC_FOREGROUND);
    for (size_t i = 0; i < o->meta->owner_references.n; i++) {
        const struct api_owner_reference *r = &o->meta->owner_references.p[i];
        if (str_eq(r->uid, b->uid) && r->has_block_owner_deletion && r->block_owner_deletion) {
            b->blocking++;
            break;
        }
    }
}

static struct below look_below(const struct look *l)
{
    struct below b = {.uid = l->o->meta->uid, .namespace = l->o->meta->namespace};
    gc_dependents(l->g, b.uid, count_below, &b);
    return b;
}

static void add_below(void *arg, const struct gc_kind *k, const struct typed_object *o)
{
    (void)arg;
    if (!o->meta->deletion_timestamp.set)
        gc_add(k, o->meta);
}

static bool is_another(const void *arg, const struct typed_object *o, size_t i)
{
    return !str_eq(*(const struct str *)arg, o->meta->owner_references.p[i].uid);
}

// --- What becomes of it --------------------------------------------------------------------------

// gc_step_orphan_dependents takes the reference away from one dependent after the other.
static void gc_step_orphan_dependents(const struct look *l)
{
    struct below b = look_below(l);
    if (b.first)
        patch_owners(l, b.first_kind, b.first, false, is_another, &b.uid);
    else
        drop_finalizer(l, GC_ORPHAN);
}

static void delete_below(const struct look *l)
{
    struct below b = look_below(l);
    gc_dependents(l->g, b.uid, add_below, NULL);
    if (b.blocking)
        work_done(l->g->work, l->key); // looked at again when one of them changes
    else
        drop_finalizer(l, GC_FOREGROUND);
}

// go_too deletes an object that no owner keeps.
static void go_too(const struct look *l, bool owner_waits)
{
    const struct api_object_meta *meta = l->o->meta;
    struct below b = look_below(l);
    if (owner_waits && b.n) {
        bool blocks = false;
        for (size_t i = 0; i < meta->owner_references.n; i++)
            blocks |= meta->owner_references.p[i].has_block_owner_deletion &&
                      meta->owner_references.p[i].block_owner_deletion;
        // Those who wait for each other in a circle would wait for ever.
        if (b.waiting && blocks)
            patch_owners(l, l->kind, l->o, true, gc_step_stop_at_first, NULL);
        else
            delete_it(l, STR("Foreground"));
        return;
    }
    delete_it(l, gc_has_finalizer(meta, GC_ORPHAN)       ? STR("Orphan")
                 : gc_has_finalizer(meta, GC_FOREGROUND) ? STR("Foreground")
                                                         : STR("Background"));
}

static void look_at_owners(struct look *l)
{
    const struct api_owner_reference_array *owners = &l->o->meta->owner_references;
    struct owner_counts counts;
    l->inquiry = map_get(&l->g->inquiries, l->key);
    if (l->inquiry && l->inquiry->revision != l->o->revision)
        l->inquiry = gc_inquiry_of(l);
    // Where it was left, then all: one that was there may be gone by now.
    if ((l->inquiry && gc_inquire(l, l->inquiry->next, &counts)) || gc_inquire(l, 0, &counts))
        return;
    // The key may end with the step.
    struct gc_inquiry closed = {0};
    if (l->inquiry) {
        closed = *l->inquiry;
        (void)map_del(&l->g->inquiries, l->key);
        l->inquiry = &closed;
    }
    if (counts.solid == owners->n)
        work_done(l->g->work, l->key);
    else if (counts.solid)
        patch_owners(l, l->kind, l->o, false, is_solid, l);
    else
        go_too(l, counts.waiting > 0);
    l->inquiry = NULL;
    bits_done(&closed.gone);
    free(closed.key);
}

void gc_step(void *arg, struct str key)
{
    struct look l = {.g = arg, .key = key};
    struct str number, rest, namespace, name;
    uint64_t n = 0;
    if (!gc_ctl_synced(l.g)) {
        work_retry(l.g->work, key);
        return;
    }
    (void)str_cut(key, '/', &number, &rest);
    (void)str_cut(rest, '/', &namespace, &name);
    if (str_to_u64(number, &n) < 0 || n >= l.g->kinds.n) {
        work_done(l.g->work, key);
        return;
    }
    l.kind = l.g->kinds.p[n];
    l.o = l.kind->cache ? informer_get(l.kind->cache, namespace, name) : NULL;
    bool going = l.o && l.o->meta->deletion_timestamp.set;
    bool owned = l.o && l.o->meta->owner_references.n > 0;
    if (going || !owned)
        gc_inquiry_end(l.g, key);
    if (going && gc_has_finalizer(l.o->meta, GC_ORPHAN))
        gc_step_orphan_dependents(&l);
    else if (going && gc_has_finalizer(l.o->meta, GC_FOREGROUND))
        delete_below(&l);
    else if (going || !owned)
        work_done(l.g->work, key);
    else
        look_at_owners(&l);
}
