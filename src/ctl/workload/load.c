// SPDX-License-Identifier: Apache-2.0
//
// What the controllers of all workloads share: keys by owner, adoption and release of orphans by
// labels, and writes that end a step.
#include "ctl/workload/load.h"

#include <stdlib.h>

#include "api/match/claim.h"

#include "base/banned.h"

#define TRACKING "batch.kubernetes.io/job-tracking"

static const struct {
    enum ctl_cache cache;
    enum ctl_cache dependents[2]; // CACHES: none
    const char *component;
    const char *queue;
    enum ctl_controller controller;
    void (*step)(struct load *l, struct str key, const struct typed_object *o);
} kinds[LOADS] = {
    [LOAD_REPLICA_SET] = {CACHE_REPLICA_SETS,
                          {CACHE_PODS, CACHES},
                          "replicaset-controller",
                          "replicaset",
                          CTL_REPLICA_SETS,
                          replicaset_step_key},
    [LOAD_DEPLOYMENT] = {CACHE_DEPLOYMENTS,
                         {CACHE_REPLICA_SETS, CACHES},
                         "deployment-controller",
                         "deployment",
                         CTL_DEPLOYMENTS,
                         deploy_step_key},
    [LOAD_DAEMON_SET] = {CACHE_DAEMON_SETS,
                         {CACHE_PODS, CACHE_REVISIONS},
                         "daemonset-controller",
                         "daemonset",
                         CTL_DAEMON_SETS,
                         daemon_set_step},
    [LOAD_STATEFUL_SET] = {CACHE_STATEFUL_SETS,
                           {CACHE_PODS, CACHE_REVISIONS},
                           "statefulset-controller",
                           "statefulset",
                           CTL_STATEFUL_SETS,
                           stateful_set_step},
    [LOAD_JOB] = {CACHE_JOBS, {CACHE_PODS, CACHES}, "job-controller", "job", CTL_JOBS, job_step},
};

static struct load_ctl *all_of(const struct load *l)
{
    return l->ctl->loads;
}

static bool load_kind_uses_cache(enum load_kind kind, enum ctl_cache which)
{
    return kinds[kind].dependents[0] == which || kinds[kind].dependents[1] == which;
}

static void load_write_key(const struct api_object_meta *meta, struct sbuf *out)
{
    sbuf_addf(out, "%.*s/%.*s", STR_ARG(meta->namespace), STR_ARG(meta->name));
}

static void load_add_key(struct load *l, const struct api_object_meta *meta)
{
    cleanup_sbuf struct sbuf key = {0};
    load_write_key(meta, &key);
    work_add(l->work, sbuf_str(&key));
}

// --- Steps ---------------------------------------------------------------------------------------

static void forget_failure(struct load *l, struct str key)
{
    struct load_failure *f = map_get(&l->failures, key);
    if (!f)
        return;
    struct load_failure gone = *f;
    map_del(&l->failures, key);
    free(gone.key);
    free(gone.message);
}

struct load_pause *load_pause(struct load *l, struct str key, struct str what)
{
    cleanup_sbuf struct sbuf name = {0};
    sbuf_addf(&name, "%.*s/%.*s", STR_ARG(key), STR_ARG(what));
    struct load_pause *p = map_get(&l->pauses, sbuf_str(&name));
    if (p)
        return p;
    char *copy = xstrndup(name.p, name.n);
    p = map_put(&l->pauses, str_make(copy, name.n));
    *p = (struct load_pause){.key = copy};
    return p;
}

static void forget_pauses(struct load *l, struct str key)
{
    struct load_pauses kept = {0};
    map_foreach(&l->pauses, i) {
        struct load_pause *p = map_value(&l->pauses, i);
        struct str name = str_z(p->key);
        if (str_starts(name, key) && name.p[key.n] == '/')
            free(p->key);
        else
            *map_put(&kept, name) = *p;
    }
    map_done(&l->pauses);
    l->pauses = kept;
}

static const struct api_label_selector *selector_of(enum load_kind kind,
                                                    const struct typed_object *o)
{
    switch (kind) {
    case LOAD_REPLICA_SET:
        return as_replica_set(o)->spec.selector;
    case LOAD_DEPLOYMENT:
        return as_deployment(o)->spec.selector;
    case LOAD_DAEMON_SET:
        return as_daemon_set(o)->spec.selector;
    case LOAD_STATEFUL_SET:
        return as_stateful_set(o)->spec.selector;
    case LOAD_JOB:
        return as_job(o)->spec.selector;
    case LOADS:
        break;
    }
    return NULL;
}

static const struct api_pod_template_spec *load_template_of(enum load_kind kind,
                                                            const struct typed_object *o)
{
    switch (kind) {
    case LOAD_REPLICA_SET:
        return &as_replica_set(o)->spec.template;
    case LOAD_DEPLOYMENT:
        return &as_deployment(o)->spec.template;
    case LOAD_DAEMON_SET:
        return &as_daemon_set(o)->spec.template;
    case LOAD_STATEFUL_SET:
        return &as_stateful_set(o)->spec.template;
    case LOAD_JOB:
        return &as_job(o)->spec.template;
    case LOADS:
        break;
    }
    return NULL;
}

// load_makes_strangers: the pods of a workload would not be its own, so that it would make new ones
// without end. The server refuses such an object; one that is older may be stored.
static bool load_makes_strangers(enum load_kind kind, const struct typed_object *o)
{
    cleanup_arena struct arena arena = {0};
    struct label_selector s = {0};
    return !o->meta->deletion_timestamp.set &&
           label_selector_of(selector_of(kind, o), &arena, &s, NULL) == 0 &&
           !label_selector_everything(&s) &&
           !label_selector_matches(&s, &load_template_of(kind, o)->metadata.labels);
}

static void load_step_key(void *arg, struct str key)
{
    struct load *l = arg;
    struct str namespace;
    struct str name;
    if (!ctl_synced(l->ctl)) {
        work_retry(l->work, key);
        return;
    }
    str_cut(key, '/', &namespace, &name);
    const struct typed_object *o = ctl_find(l->ctl, l->cache, namespace, name);
    if (o && load_makes_strangers((enum load_kind)(l - all_of(l)->of), o)) {
        work_done(l->work, key); // until it changes
        return;
    }
    if (o) {
        kinds[l - all_of(l)->of].step(l, key, o);
        return;
    }
    forget_failure(l, key);
    if (map_len(&l->pauses) > 0)
        forget_pauses(l, key);
    if (l->cache != CACHE_JOBS || !job_gone(l, key))
        work_done(l->work, key);
}

void load_finish(struct load *l, struct str key, int64_t wait_s)
{
    if (wait_s == INT64_MAX)
        work_done(l->work, key);
    else
        work_again_in(l->work, key, wait_s > 0 ? wait_s : 1);
}

// --- What changed --------------------------------------------------------------------------------

static bool load_selector_matches(const struct api_label_selector *selector,
                                  const struct api_str_map *labels)
{
    cleanup_arena struct arena arena = {0};
    struct label_selector s = {0};
    return label_selector_of(selector, &arena, &s, NULL) == 0 && !label_selector_everything(&s) &&
           label_selector_matches(&s, labels);
}

struct orphan {
    struct load *load;
    enum load_kind kind;
    const struct typed_object *object;
};

static void wake_if_matching(void *arg, const struct typed_object *o)
{
    const struct orphan *orphan = arg;
    if (load_selector_matches(selector_of(orphan->kind, o), &orphan->object->meta->labels))
        load_add_key(orphan->load, o->meta);
}

// The Job that has to let a pod go: its owner, or, when the pod was orphaned, who made it once.
static bool tracked_by(const struct typed_object *o, struct api_object_meta *ret)
{
    const struct api_owner_reference *owner = meta_controller(o->meta);
    if (!meta_has_finalizer(o->meta, STR(TRACKING)) || (owner && !str_eqz(owner->kind, "Job")))
        return false;
    const struct str *made = api_map_find(&o->meta->labels, STR("batch.kubernetes.io/job-name"));
    *ret = (struct api_object_meta){.namespace = o->meta->namespace,
                                    .name = owner             ? owner->name
                                            : made && made->n ? *made
                                                              : STR("-")}; // no Job is called so
    return true;
}

static void wake_owner(struct load_ctl *c, enum ctl_cache which, const struct typed_object *o)
{
    const struct api_owner_reference *owner = meta_controller(o->meta);
    for (enum load_kind k = 0; k < LOADS; k++) {
        struct load *l = &c->of[k];
        if (!l->work || !load_kind_uses_cache(k, which))
            continue;
        if (!owner) {
            struct orphan orphan = {l, k, o};
            struct api_object_meta job;
            informer_by(c->ctl->caches[l->cache], l->by_namespace, o->meta->namespace,
                        wake_if_matching, &orphan);
            if (k == LOAD_JOB && which == CACHE_PODS && tracked_by(o, &job))
                load_add_key(l, &job);
            continue;
        }
        if (!str_eq(owner->kind, ctl_kind(l->cache)->kind))
            continue;
        const struct api_object_meta at = {.namespace = o->meta->namespace, .name = owner->name};
        load_add_key(l, &at);
    }
}

static void dependent_changed(struct load_ctl *c, enum ctl_cache which,
                              const struct typed_object *before, const struct typed_object *after)
{
    const struct api_owner_reference *was = before ? meta_controller(before->meta) : NULL;
    const struct api_owner_reference *is = after ? meta_controller(after->meta) : NULL;
    if (was && !(is && str_eq(was->uid, is->uid)))
        wake_owner(c, which, before);
    if (after)
        wake_owner(c, which, after);
}

static void load_pod_changed(void *arg, const struct typed_object *before,
                             const struct typed_object *after)
{
    dependent_changed(arg, CACHE_PODS, before, after);
}

static void replica_set_changed(void *arg, const struct typed_object *before,
                                const struct typed_object *after)
{
    dependent_changed(arg, CACHE_REPLICA_SETS, before, after);
}

static void revision_changed(void *arg, const struct typed_object *before,
                             const struct typed_object *after)
{
    dependent_changed(arg, CACHE_REVISIONS, before, after);
}

static void load_changed(void *arg, const struct typed_object *before,
                         const struct typed_object *after)
{
    load_add_key(arg, after ? after->meta : before->meta);
}

static void add_node_waiter(void *arg, const struct typed_object *o)
{
    load_add_key(arg, o->meta);
}

// What decides where DaemonSets run: the node's being, labels, taints, schedulability.
static void load_node_changed(void *arg, const struct typed_object *before,
                              const struct typed_object *after)
{
    struct load *l = arg;
    if (before && after &&
        api_equal(&api_node_spec_type, &as_node(before)->spec, &as_node(after)->spec) &&
        before->meta->labels.n == after->meta->labels.n &&
        api_equal(&api_object_meta_type, &(struct api_object_meta){.labels = before->meta->labels},
                  &(struct api_object_meta){.labels = after->meta->labels}))
        return;
    informer_foreach(l->ctl->caches[CACHE_DAEMON_SETS], add_node_waiter, l);
}

// --- Ownership -----------------------------------------------------------------------------------

static void index_controller(const struct typed_object *o, void (*add)(void *ctx, struct str key),
                             void *ctx)
{
    const struct api_owner_reference *owner = meta_controller(o->meta);
    if (owner)
        add(ctx, owner->uid);
}

static void index_orphans(const struct typed_object *o, void (*add)(void *ctx, struct str key),
                          void *ctx)
{
    if (!meta_controller(o->meta))
        add(ctx, o->meta->namespace);
}

static void index_namespace(const struct typed_object *o, void (*add)(void *ctx, struct str key),
                            void *ctx)
{
    add(ctx, o->meta->namespace);
}

static void index_tracked(const struct typed_object *o, void (*add)(void *ctx, struct str key),
                          void *ctx)
{
    struct api_object_meta job;
    if (!tracked_by(o, &job))
        return;
    cleanup_sbuf struct sbuf key = {0};
    load_write_key(&job, &key);
    add(ctx, sbuf_str(&key));
}

static void take_first(void *arg, const struct typed_object *o)
{
    const struct typed_object **found = arg;
    if (!*found)
        *found = o;
}

const struct typed_object *load_tracked_pod(const struct load *l, struct str job)
{
    const struct typed_object *found = NULL;
    informer_by(l->ctl->caches[CACHE_PODS], all_of(l)->tracked, job, take_first, &found);
    return found;
}

struct collect {
    struct arena *arena;
    struct load_objects objects;
};

static void load_collect_object(void *arg, const struct typed_object *o)
{
    struct collect *c = arg;
    vec_push_arena(c->arena, &c->objects, o);
}

struct load_objects load_owned(const struct load *l, enum ctl_cache which,
                               const struct typed_object *o, struct arena *arena)
{
    struct collect c = {.arena = arena};
    informer_by(l->ctl->caches[which], all_of(l)->index[which].by_controller, o->meta->uid,
                load_collect_object, &c);
    return c.objects;
}

struct pick {
    const struct label_selector *selector;
    struct str member_of; // the StatefulSet whose pods it is about; empty: another kind
    bool matching;        // take one that matches, or one that does not
    enum ctl_cache which;
    const struct typed_object *found;
};

// is_member: a pod's name is that of the set and a number.
static bool is_member(struct str name, struct str set)
{
    uint64_t ordinal = 0;
    return name.n > set.n + 1 && str_starts(name, set) && name.p[set.n] == '-' &&
           str_to_u64(str_from(name, set.n + 1), &ordinal) == 0;
}

static void load_pick_orphan(void *arg, const struct typed_object *o)
{
    struct pick *p = arg;
    bool over = o->meta->deletion_timestamp.set ||
                (p->which == CACHE_PODS && p->matching && pod_is_terminal(as_pod(o)));
    bool matches = label_selector_matches(p->selector, &o->meta->labels) &&
                   (p->member_of.n == 0 || is_member(o->meta->name, p->member_of));
    if (!p->found && !over && matches == p->matching)
        p->found = o;
}

// --- Writes --------------------------------------------------------------------------------------

struct load_call {
    struct list_node node; // in load.calls
    struct load *load;
    enum ctl_cache source;
    const struct typed_object *about; // referenced; NULL: no event
    struct load_event event;          // its texts are copies
    struct arena arena;
    struct sbuf name; // of the object that is written
    struct sbuf key;
    struct sbuf patch; // of an adoption
};

static struct load_call *load_call_new(struct load *l, struct str key, enum ctl_cache source)
{
    struct load_call *c = xcalloc(1, sizeof(*c));
    c->load = l;
    c->source = source;
    sbuf_add(&c->key, key);
    list_push_back(&l->calls, &c->node);
    return c;
}

static void load_call_free(struct load_call *c)
{
    typed_object_unref(c->about);
    arena_done(&c->arena);
    sbuf_done(&c->name);
    sbuf_done(&c->key);
    sbuf_done(&c->patch);
    free(c);
}

static void remember_failure(struct load *l, const struct load_call *c, const char *message)
{
    forget_failure(l, sbuf_str(&c->key));
    char *key = xstrndup(c->key.p, c->key.n);
    *map_put(&l->failures, str_make(key, c->key.n)) =
        (struct load_failure){key, c->event.failed_reason, xstrndup(message, strlen(message))};
}

static void tell_result(struct load_call *c, const struct client_answer *a)
{
    const struct load_event *e = &c->event;
    cleanup_sbuf struct sbuf text = {0};
    if (a->code == 0 && e->reason) {
        sbuf_addz(&text, e->text);
        if (str_ends(sbuf_str(&text), STR(": ")))
            sbuf_add(&text,
                     a->object && c->name.n == 0 ? a->object->meta->name : sbuf_str(&c->name));
        load_tell(c->load, c->about, EVENT_NORMAL, e->reason, sbuf_str(&text));
        forget_failure(c->load, sbuf_str(&c->key));
    } else if (a->code != 0 && a->code != -ERR_NOT_FOUND && e->failed_reason) {
        const char *message = a->err ? a->err->msg : "";
        sbuf_addf(&text, "%s%s", e->failed_text, message);
        load_tell(c->load, c->about, EVENT_WARNING, e->failed_reason, sbuf_str(&text));
        remember_failure(c->load, c, message);
    }
}

static void load_on_written(void *arg, const struct client_answer *a)
{
    struct load_call *c = arg;
    bool alive = list_linked(&c->node); // else the controller is gone, c->load with it
    list_remove(&c->node);
    if (alive) {
        struct work *work = c->load->work;
        if (c->about)
            tell_result(c, a);
        if (a->code == 0 && a->object)
            work_after(work, sbuf_str(&c->key), c->source, a->object->revision);
        else if (a->code == 0 || a->code == -ERR_NOT_FOUND)
            work_again(work, sbuf_str(&c->key), CLOCK_NS_PER_SEC); // its cache will tell before
        else
            work_retry(work, sbuf_str(&c->key));
    }
    load_call_free(c);
}

static struct load_call *told_call(struct load *l, struct str key, enum ctl_cache which,
                                   const struct typed_object *owner, const struct load_event *event)
{
    struct load_call *c = load_call_new(l, key, which);
    if (event) {
        c->about = typed_object_ref(owner);
        c->event = *event;
        c->event.text = arena_str(&c->arena, str_z(event->text)).p;
        c->event.failed_text = arena_str(&c->arena, str_z(event->failed_text)).p;
    }
    return c;
}

void load_create(struct load *l, struct str key, const struct typed_object *owner,
                 enum ctl_cache which, void *value, const struct load_event *event)
{
    const struct api_object object = {ctl_kind(which), value};
    api_set_type_meta(&object);
    client_create(l->ctl->client, &object, NULL, load_on_written,
                  told_call(l, key, which, owner, event));
}

void load_delete(struct load *l, struct str key, const struct typed_object *owner,
                 enum ctl_cache which, const struct typed_object *victim,
                 const struct load_event *event)
{
    const struct client_key at = {victim->object.kind, victim->meta->namespace, victim->meta->name};
    struct api_preconditions same = {.uid = victim->meta->uid, .has_uid = true};
    const struct api_delete_options options = {.preconditions = &same,
                                               .propagation_policy = STR("Background"),
                                               .has_propagation_policy = true};
    struct load_call *c = told_call(l, key, which, owner, event);
    sbuf_add(&c->name, victim->meta->name);
    client_delete(l->ctl->client, &at, &options, load_on_written, c);
}

void load_update(struct load *l, struct str key, const struct typed_object *owner,
                 enum ctl_cache which, const void *value, const struct load_event *event)
{
    // The client copies; the interface has one struct for what it gives and what it gets.
    union {
        const void *in;
        void *out;
    } same = {.in = value};
    const struct api_object object = {ctl_kind(which), same.out};
    client_update(l->ctl->client, &object, NULL, load_on_written,
                  told_call(l, key, which, owner, event));
}

void load_update_status(struct load *l, struct str key, const void *value)
{
    union {
        const void *in;
        void *out;
    } same = {.in = value};
    const struct api_object object = {ctl_kind(l->cache), same.out};
    const struct client_write how = {.subresource = STR("status")};
    client_update(l->ctl->client, &object, &how, load_on_written, load_call_new(l, key, l->cache));
}

void load_tell(struct load *l, const struct typed_object *about, struct str type,
               const char *reason, struct str text)
{
    events_record(l->events, about, type, str_z(reason), text);
}

const struct load_failure *load_failure(const struct load *l, struct str key)
{
    return map_get(&l->failures, key);
}

// --- Adoption ------------------------------------------------------------------------------------

static void load_on_owner_read(void *arg, const struct client_answer *a)
{
    struct load_call *c = arg;
    struct load *l = c->load;
    bool alive = list_linked(&c->node);
    bool there = a->code == 0 && str_eq(a->object->meta->uid, c->about->meta->uid) &&
                 !a->object->meta->deletion_timestamp.set;
    if (!alive || !there) {
        list_remove(&c->node);
        if (alive)
            work_again(l->work, sbuf_str(&c->key), CLOCK_NS_PER_SEC); // the cache is behind
        load_call_free(c);
        return;
    }
    struct str namespace = c->about->meta->namespace;
    const struct client_key at = {ctl_kind(c->source), namespace, sbuf_str(&c->name)};
    client_patch(l->ctl->client, &at, CLIENT_PATCH_STRATEGIC, sbuf_str(&c->patch), NULL,
                 load_on_written, c);
}

static void load_adopt_orphan(struct load *l, struct str key, const struct typed_object *o,
                              enum ctl_cache which, const struct typed_object *orphan)
{
    const struct api_kind *kind = ctl_kind(l->cache);
    struct load_call *c = load_call_new(l, key, which);
    c->about = typed_object_ref(o);
    sbuf_add(&c->name, orphan->meta->name);
    sbuf_addf(&c->patch,
              "{\"metadata\":{\"uid\":\"%.*s\",\"ownerReferences\":[{\"apiVersion\":\"%.*s\","
              "\"kind\":\"%.*s\",\"name\":\"%.*s\",\"uid\":\"%.*s\",\"controller\":true,"
              "\"blockOwnerDeletion\":true}]%s}}",
              STR_ARG(orphan->meta->uid), STR_ARG(kind->api_version), STR_ARG(kind->kind),
              STR_ARG(o->meta->name), STR_ARG(o->meta->uid),
              l->cache == CACHE_JOBS && which == CACHE_PODS ? ",\"finalizers\":[\"" TRACKING "\"]"
                                                            : "");
    const struct client_key at = {kind, o->meta->namespace, o->meta->name};
    client_get(l->ctl->client, &at, load_on_owner_read, c);
}

static void load_release_owned(struct load *l, struct str key, const struct typed_object *o,
                               enum ctl_cache which, const struct typed_object *owned)
{
    cleanup_sbuf struct sbuf patch = {0};
    sbuf_addf(&patch,
              "{\"metadata\":{\"uid\":\"%.*s\",\"ownerReferences\":[{\"$patch\":\"delete\","
              "\"uid\":\"%.*s\"}]%s}}",
              STR_ARG(owned->meta->uid), STR_ARG(o->meta->uid),
              l->cache == CACHE_JOBS && which == CACHE_PODS
                  ? ",\"$deleteFromPrimitiveList/finalizers\":[\"batch.kubernetes.io/"
                    "job-tracking\"]"
                  : "");
    const struct client_key at = {owned->object.kind, owned->meta->namespace, owned->meta->name};
    client_patch(l->ctl->client, &at, CLIENT_PATCH_STRATEGIC, sbuf_str(&patch), NULL,
                 load_on_written, load_call_new(l, key, which));
}

bool load_claim(struct load *l, struct str key, const struct typed_object *o, enum ctl_cache which,
                const struct api_label_selector *selector)
{
    cleanup_arena struct arena arena = {0};
    struct label_selector s = {0};
    if (o->meta->deletion_timestamp.set || label_selector_of(selector, &arena, &s, NULL) < 0 ||
        label_selector_everything(&s))
        return false;
    const struct load_index *index = &all_of(l)->index[which];
    bool members = l->cache == CACHE_STATEFUL_SETS && which == CACHE_PODS;
    struct pick p = {.selector = &s,
                     .member_of = members ? o->meta->name : STR(""),
                     .matching = false,
                     .which = which};
    informer_by(l->ctl->caches[which], index->by_controller, o->meta->uid, load_pick_orphan, &p);
    if (p.found) {
        load_release_owned(l, key, o, which, p.found);
        return true;
    }
    p.matching = true;
    informer_by(l->ctl->caches[which], index->orphans, o->meta->namespace, load_pick_orphan, &p);
    if (p.found)
        load_adopt_orphan(l, key, o, which, p.found);
    return p.found != NULL;
}

// --- Life ----------------------------------------------------------------------------------------

static void load_start(struct load_ctl *c, enum load_kind k)
{
    struct load *l = &c->of[k];
    l->ctl = c->ctl;
    l->cache = kinds[k].cache;
    list_init(&l->calls);
    if (c->ctl->off[kinds[k].controller])
        return;
    l->work = ctl_work(c->ctl, kinds[k].queue, load_step_key, l);
    const struct event_recorder_options events = {.client = c->ctl->client,
                                                  .component = str_z(kinds[k].component)};
    l->events = events_recorder_new(&events);
    l->by_namespace = informer_add_index(c->ctl->caches[l->cache], index_namespace);
}

struct load_ctl *load_ctl_new(struct ctl *ctl)
{
    static const struct {
        enum ctl_cache cache;
        ctl_changed_fn changed;
    } dependents[] = {{CACHE_PODS, load_pod_changed},
                      {CACHE_REPLICA_SETS, replica_set_changed},
                      {CACHE_REVISIONS, revision_changed}};
    struct load_ctl *c = xcalloc(1, sizeof(*c));
    c->ctl = ctl;
    for (enum load_kind k = 0; k < LOADS; k++)
        load_start(c, k);
    for (size_t i = 0; i < array_len(dependents); i++) {
        enum ctl_cache which = dependents[i].cache;
        struct informer *cache = ctl->caches[which];
        if (!cache)
            continue;
        c->index[which] = (struct load_index){informer_add_index(cache, index_controller),
                                              informer_add_index(cache, index_orphans)};
        const struct informer_handler h = {.changed = dependents[i].changed, .arg = c};
        informer_add_handler(cache, &h);
        for (enum load_kind k = 0; k < LOADS; k++)
            if (c->of[k].work && load_kind_uses_cache(k, which))
                ctl_watch(ctl, which, NULL, NULL, c->of[k].work);
    }
    for (enum load_kind k = 0; k < LOADS; k++)
        if (c->of[k].work)
            ctl_watch(ctl, c->of[k].cache, load_changed, &c->of[k], c->of[k].work);
    c->tracked = informer_add_index(ctl->caches[CACHE_PODS], index_tracked);
    if (c->of[LOAD_STATEFUL_SET].work)
        ctl_watch(ctl, CACHE_VOLUME_CLAIMS, NULL, NULL, c->of[LOAD_STATEFUL_SET].work);
    if (c->of[LOAD_DAEMON_SET].work)
        ctl_watch(ctl, CACHE_NODES, load_node_changed, &c->of[LOAD_DAEMON_SET],
                  c->of[LOAD_DAEMON_SET].work);
    return c;
}

static void load_done(struct load *l)
{
    ctl_calls_drop(&l->calls);
    work_free(l->work);
    events_recorder_free(l->events);
    map_foreach(&l->failures, i) {
        free(map_value(&l->failures, i)->key);
        free(map_value(&l->failures, i)->message);
    }
    map_done(&l->failures);
    map_foreach(&l->pauses, i)
        free(map_value(&l->pauses, i)->key);
    map_done(&l->pauses);
}

void load_ctl_free(struct load_ctl *c)
{
    if (!c)
        return;
    for (enum load_kind k = 0; k < LOADS; k++)
        load_done(&c->of[k]);
    free(c);
}
