// SPDX-License-Identifier: Apache-2.0
//
// The selector of a pod's Services and controller, for default spreading.
#include "sched/filter/owners.h"

#include "api/match/label.h"
#include "sched/core/sched_int.h"

#include "base/banned.h"

#define SERVICES_MAX 1024 // of a namespace; others are not looked at

static const struct api_kind *owners_kind(enum owner_kind k)
{
    static const char *const names[OWNER_KINDS][2] = {{"v1", "Service"},
                                                      {"v1", "ReplicationController"},
                                                      {"apps/v1", "ReplicaSet"},
                                                      {"apps/v1", "StatefulSet"}};
    return api_kind_find(str_z(names[k][0]), str_z(names[k][1]));
}

static void owners_index_namespace(const struct typed_object *o,
                                   void (*add)(void *ctx, struct str key), void *ctx)
{
    add(ctx, o->meta->namespace);
}

void owners_watch(struct sched *s)
{
    struct owners *w = &s->owners;
    for (enum owner_kind k = 0; k < OWNER_KINDS; k++) {
        const struct informer_options o = {.client = s->client, .kind = owners_kind(k)};
        if (!o.kind)
            continue;
        w->informers[k] = informer_new(&o);
        if (k == OWNER_SERVICES)
            w->by_namespace = informer_add_index(w->informers[k], owners_index_namespace);
        informer_start(w->informers[k]);
    }
}

void owners_done(struct sched *s)
{
    for (enum owner_kind k = 0; k < OWNER_KINDS; k++)
        if (s->owners.informers[k])
            informer_free(s->owners.informers[k]);
}

// --- The selector --------------------------------------------------------------------------------

struct owners_search {
    const struct api_pod *pod;
    struct arena *arena;
    struct VEC(struct api_label_selector_requirement) terms;
    size_t services;
};

// Services that select alike add a term once.
static bool owners_has_label(const struct owners_search *f, const struct api_str_entry *label)
{
    for (size_t i = 0; i < f->terms.n; i++)
        if (str_eq(f->terms.p[i].key, label->key) && f->terms.p[i].values.n == 1 &&
            str_eq(f->terms.p[i].values.p[0], label->value))
            return true;
    return false;
}

static void owners_add_labels(struct owners_search *f, const struct api_str_map *labels)
{
    for (size_t i = 0; i < labels->n; i++) {
        if (owners_has_label(f, &labels->p[i]))
            continue;
        struct str *value = arena_one(f->arena, struct str);
        *value = labels->p[i].value;
        vec_push_arena(f->arena, &f->terms,
                       ((struct api_label_selector_requirement){
                           .key = labels->p[i].key, .operator= STR("In"), .values = {value, 1}}));
    }
}

static void owners_add_service(void *arg, const struct typed_object *o)
{
    struct owners_search *f = arg;
    const struct api_service *service = o->object.value;
    if (f->services++ < SERVICES_MAX && service->spec.selector.n &&
        labels_include(&f->pod->metadata.labels, &service->spec.selector))
        owners_add_labels(f, &service->spec.selector);
}

static void owners_add_selector(struct owners_search *f, const struct api_label_selector *selector)
{
    if (!selector)
        return;
    owners_add_labels(f, &selector->match_labels);
    for (size_t i = 0; i < selector->match_expressions.n; i++)
        vec_push_arena(f->arena, &f->terms, selector->match_expressions.p[i]);
}

static void owners_add_controller(const struct sched *s, struct owners_search *f,
                                  const struct api_owner_reference *owner)
{
    for (enum owner_kind k = OWNER_REPLICATION_CONTROLLERS; k < OWNER_KINDS; k++) {
        const struct api_kind *kind = owners_kind(k);
        if (!kind || !s->owners.informers[k] || !str_eq(kind->kind, owner->kind) ||
            !str_eq(kind->api_version, owner->api_version))
            continue;
        const struct typed_object *o =
            informer_get(s->owners.informers[k], f->pod->metadata.namespace, owner->name);
        if (!o)
            return;
        if (k == OWNER_REPLICATION_CONTROLLERS)
            owners_add_labels(
                f, &((const struct api_replication_controller *)o->object.value)->spec.selector);
        else if (k == OWNER_REPLICA_SETS)
            owners_add_selector(f,
                                ((const struct api_replica_set *)o->object.value)->spec.selector);
        else
            owners_add_selector(f,
                                ((const struct api_stateful_set *)o->object.value)->spec.selector);
        return;
    }
}

const struct api_label_selector *owners_selector(const struct sched *s, const struct api_pod *pod,
                                                 struct arena *arena)
{
    struct owners_search f = {.pod = pod, .arena = arena};
    if (s->owners.informers[OWNER_SERVICES])
        informer_by(s->owners.informers[OWNER_SERVICES], s->owners.by_namespace,
                    pod->metadata.namespace, owners_add_service, &f);
    for (size_t i = 0; i < pod->metadata.owner_references.n; i++)
        if (pod->metadata.owner_references.p[i].controller)
            owners_add_controller(s, &f, &pod->metadata.owner_references.p[i]);
    if (!f.terms.n)
        return NULL;
    struct api_label_selector *selector = arena_one(arena, struct api_label_selector);
    selector->match_expressions =
        (struct api_label_selector_requirement_array){f.terms.p, f.terms.n};
    return selector;
}
