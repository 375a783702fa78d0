// SPDX-License-Identifier: Apache-2.0
//
// ResourceQuotas: an object that is created, or needs more, is counted in the same step in which it
// is accepted. So two that come at once are counted one after the other, and together never get
// more than there is. What goes is counted out by the controller.
#include "api/quota.h"

#include "registry/stage_int.h"

#include "base/banned.h"

// --- What must be known beyond the object --------------------------------------------------------

static bool decode_head(struct op *op, const char *version, const char *kind, struct str namespace,
                        struct str name, struct arena *arena, struct api_object *ret)
{
    const struct store_key key = {api_kind_find(str_z(version), str_z(kind)), namespace, name};
    const struct object *o = store_head(op->reg->store, &key);
    return o && encode_read_stored(o, &op->now, arena, ret, NULL) == 0;
}

static struct str quota_extended_of(void *ctx, struct str class_name, struct arena *arena)
{
    struct api_object o = {0};
    if (!decode_head(ctx, "resource.k8s.io/v1", "DeviceClass", STR(""), class_name, arena, &o))
        return STR("");
    return ((const struct api_device_class *)o.value)->spec.extended_resource_name;
}

static bool quota_has_class(void *ctx, struct str extended)
{
    struct op *op = ctx;
    struct store_walk walk = {.kind = api_kind_find(STR("resource.k8s.io/v1"), STR("DeviceClass"))};
    bool found = false;
    if (store_walk_start(op->reg->store, &walk, NULL) < 0)
        return false;
    for (const struct object *o; !found && (o = store_walk_next(op->reg->store, &walk));) {
        cleanup_arena struct arena arena = {0};
        struct api_object c = {0};
        found = encode_read_stored(o, &op->now, &arena, &c, NULL) == 0 &&
                str_eq(((const struct api_device_class *)c.value)->spec.extended_resource_name,
                       extended);
    }
    store_walk_done(&walk);
    return found;
}

static const struct api_pod *quota_pod_of(void *ctx, struct str namespace, struct str name,
                                          struct arena *arena)
{
    struct api_object o = {0};
    return decode_head(ctx, "v1", "Pod", namespace, name, arena, &o) ? o.value : NULL;
}

// --- Checking ------------------------------------------------------------------------------------

static bool quota_pod_has_ended(const struct api_object *pod)
{
    const struct api_pod_spec *s = &((const struct api_pod *)pod->value)->spec;
    return s->has_active_deadline_seconds && s->active_deadline_seconds >= 0;
}

// Whether a change of this kind can change what is used.
static bool quota_applies_to(const struct op *op, const struct api_object *object,
                             const struct api_object *old)
{
    const struct api_type *t = object->kind->type;
    struct str sub = op->request->subresource;
    if (!object->kind->namespaced || t == &api_event_type)
        return false;
    if (t == &api_pod_type && old)
        return sub.n ? str_eqz(sub, "resize")
                     : quota_pod_has_ended(object) != quota_pod_has_ended(old);
    if (sub.n)
        return false;
    return !old || t == &api_resource_claim_type || t == &api_persistent_volume_claim_type ||
           t == &api_service_type;
}

// quota_check_one refuses, or adds the quota with its new count to what op charges.
static int quota_check_one(struct op *op, const struct quota_change *c, const struct object *stored)
{
    struct api_object object = {0};
    cleanup_sbuf struct sbuf why = {0};
    bool counted = false;
    int r = op_decode(op, stored, &object);
    if (r < 0)
        return r;
    if (quota_admit(object.value, c, op->arena, &counted, &why) < 0)
        return fail_forbidden(op, admit_about(op, c->object), "%.*s", STR_ARG(sbuf_str(&why)));
    if (counted)
        vec_push_arena(op->arena, &op->charges, ((struct charge){object_ref(stored), object}));
    return 0;
}

int quota_check(struct op *op, const struct api_object *object, const struct api_object *old)
{
    struct registry *reg = op->reg;
    struct str namespace = op->request->namespace;
    if (!quota_applies_to(op, object, old) ||
        store_count(reg->store, reg->kinds.quota, namespace) == 0)
        return 0;
    const struct quota_world world = {.features = reg->features,
                                      .now = op->now,
                                      .extended_of = quota_extended_of,
                                      .has_class = quota_has_class,
                                      .pod_of = quota_pod_of,
                                      .ctx = op};
    struct quota_change c = quota_change_of(object, old, &world, op->arena);
    struct store_walk walk = {
        .kind = reg->kinds.quota, .one_namespace = true, .namespace = namespace};
    int r = 0;
    if (store_walk_start(reg->store, &walk, NULL) < 0)
        return 0;
    for (const struct object *o; r == 0 && (o = store_walk_next(reg->store, &walk));) {
        const struct store_key key = {o->kind, o->namespace, o->name};
        const struct object *head = store_head(reg->store, &key);
        if (head)
            r = quota_check_one(op, &c, head);
    }
    store_walk_done(&walk);
    if (r < 0)
        quota_forget(op);
    return r;
}

int quota_charge(struct op *op)
{
    int r = 0;
    for (size_t i = 0; r == 0 && !op->dry_run && i < op->charges.n; i++)
        r = op_write_change(op, &op->charges.p[i].quota, op->charges.p[i].stored);
    quota_forget(op);
    return r;
}

void quota_forget(struct op *op)
{
    for (size_t i = 0; i < op->charges.n; i++)
        object_unref(op->charges.p[i].stored);
    op->charges.n = 0;
}
