// SPDX-License-Identifier: Apache-2.0
//
// The scale of workloads: their number of replicas, seen as an object of its own.
#include "api/match/label_selector.h"
#include "registry/stage_int.h"

#include "base/banned.h"

// Where a workload keeps what its Scale shows.
struct scalable {
    int32_t *replicas;
    bool *has_replicas;
    int32_t status_replicas;
    const struct api_label_selector *selector;
    const struct api_str_map *labels; // of the kind that has no expressions
};

#define SCALABLE(T)                                       \
    (struct scalable)                                     \
    {                                                     \
        .replicas = &((T *)value)->spec.replicas,         \
        .has_replicas = &((T *)value)->spec.has_replicas, \
        .status_replicas = ((T *)value)->status.replicas  \
    }

static bool find_scalable(const struct api_type *t, void *value, struct scalable *ret)
{
    if (t == &api_deployment_type) {
        *ret = SCALABLE(struct api_deployment);
        ret->selector = ((struct api_deployment *)value)->spec.selector;
    } else if (t == &api_replica_set_type) {
        *ret = SCALABLE(struct api_replica_set);
        ret->selector = ((struct api_replica_set *)value)->spec.selector;
    } else if (t == &api_stateful_set_type) {
        *ret = SCALABLE(struct api_stateful_set);
        ret->selector = ((struct api_stateful_set *)value)->spec.selector;
    } else if (t == &api_replication_controller_type) {
        *ret = SCALABLE(struct api_replication_controller);
        ret->labels = &((struct api_replication_controller *)value)->spec.selector;
    } else {
        return false;
    }
    return true;
}

static struct str scale_selector_text(const struct scalable *s, struct arena *arena)
{
    cleanup_sbuf struct sbuf b = {0};
    struct label_selector selector = {0};
    for (size_t i = 0; s->labels && i < s->labels->n; i++)
        sbuf_addf(&b, "%s%.*s=%.*s", i ? "," : "", STR_ARG(s->labels->p[i].key),
                  STR_ARG(s->labels->p[i].value));
    if (!s->labels && label_selector_of(s->selector, arena, &selector, NULL) == 0)
        label_selector_write(&selector, &b);
    return arena_str(arena, sbuf_str(&b));
}

// The version of a custom kind that defines the scale's paths.
static const struct api_custom *custom_scale_of(const struct api_kind *hub)
{
    const struct api_kind *k;
    for (size_t i = 0; (k = custom_version_at(hub, i)); i++)
        if (k->custom->has_scale)
            return k->custom;
    return NULL;
}

static int64_t scale_number_at(const struct dyn *whole, struct str path)
{
    const struct dyn *v = custom_at(whole, path);
    return v && v->type == DYN_INT ? v->number : 0;
}

static int fill_custom(const struct api_object *object, struct arena *arena, struct api_scale *ret,
                       struct err *err)
{
    const struct api_custom *c = custom_scale_of(object->kind);
    const struct custom_object *o = object->value;
    if (!c)
        return err_set(err, ERR_UNSUPPORTED, "a %.*s has no scale", STR_ARG(object->kind->kind));
    const struct dyn *selector =
        c->label_selector.n ? custom_at(&o->content, c->label_selector) : NULL;
    ret->spec.replicas = (int32_t)scale_number_at(&o->content, c->spec_replicas);
    ret->status.replicas = (int32_t)scale_number_at(&o->content, c->status_replicas);
    if (selector && selector->type == DYN_STR)
        ret->status.selector = arena_str(arena, selector->text);
    return 0;
}

// Sets a number, making the objects on the way to it.
static void set_number(struct dyn *o, struct str path, int64_t number, struct arena *arena)
{
    struct str step, rest;
    bool more = str_cut(str_from(path, path.n && path.p[0] == '.' ? 1 : 0), '.', &step, &rest);
    if (!more) {
        dyn_set(o, step, dyn_int(number), arena);
        return;
    }
    struct dyn *below = dyn_get(o, step);
    if (!below || below->type != DYN_OBJECT) {
        dyn_set(o, step, (struct dyn){.type = DYN_OBJECT}, arena);
        below = dyn_get(o, step);
    }
    set_number(below, rest, number, arena);
}

int registry_scale(const struct object *o, struct arena *arena, struct api_scale *ret,
                   struct err *err)
{
    struct api_object object = {0};
    struct scalable s = {0};
    int r = registry_decode(o, o->kind, arena, &object, err);
    if (r < 0)
        return r;
    bool custom = object.kind->custom != NULL;
    if (!custom && !find_scalable(object.kind->type, object.value, &s))
        return err_set(err, ERR_UNSUPPORTED, "a %.*s has no scale", STR_ARG(o->kind->kind));
    const struct api_object_meta *meta = api_object_meta(&object);
    *ret = (struct api_scale){
        .kind = STR("Scale"),
        .api_version = STR("autoscaling/v1"),
        .metadata = {.name = meta->name,
                     .namespace = meta->namespace,
                     .uid = meta->uid,
                     .resource_version = meta->resource_version,
                     .creation_timestamp = meta->creation_timestamp},
    };
    if (custom)
        return fill_custom(&object, arena, ret, err);
    ret->spec.replicas = *s.replicas;
    ret->status.replicas = s.status_replicas;
    ret->status.selector = scale_selector_text(&s, arena);
    return 0;
}

int scale_object(struct op *op, const struct api_scale *scale, const struct object *old)
{
    struct api_object object = {0};
    struct scalable s = {0};
    struct status_subject about = op_subject(op, op->request->name);
    about.resource = arena_strf(op->arena, "%.*s/scale", STR_ARG(about.resource));
    if (!old)
        return fail_not_found(op, about);
    int r = op_decode(op, old, &object);
    if (r < 0)
        return r;
    const struct api_custom *custom = object.kind->custom ? custom_scale_of(object.kind) : NULL;
    if (!custom && !find_scalable(object.kind->type, object.value, &s))
        return fail_unsupported(op, "a %.*s has no scale", STR_ARG(old->kind->kind));
    if (scale->spec.replicas < 0) {
        struct causes causes = {.arena = op->arena};
        struct path root = path_root(STR("spec")), at = path_field(&root, STR("replicas"));
        cause_invalid_i64(&causes, &at, scale->spec.replicas,
                          STR("must be greater than or equal to 0"));
        return fail_invalid(
            op, (struct status_subject){STR("autoscaling"), STR("Scale"), old->name}, &causes);
    }
    if (scale->metadata.uid.n && !str_eq(scale->metadata.uid, old->uid))
        return fail_conflict(op, about,
                             "Precondition failed: UID in precondition: %.*s, UID in object meta: "
                             "%.*s",
                             STR_ARG(scale->metadata.uid), STR_ARG(old->uid));
    if (custom) {
        struct custom_object *o = object.value;
        set_number(&o->content, custom->spec_replicas, scale->spec.replicas, op->arena);
    } else {
        *s.replicas = scale->spec.replicas;
        *s.has_replicas = true;
    }
    api_object_meta(&object)->resource_version = scale->metadata.resource_version;
    return update_object(op, &object, old);
}
