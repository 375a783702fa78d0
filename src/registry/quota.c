// SPDX-License-Identifier: Apache-2.0
//
// ResourceQuotas: an object that is created, or needs more, is counted in the same step in which it is accepted. So
// two that come at once are counted one after the other, and together never get more than there is. What goes is
// counted out by the controller.
#include "api/quota.h"

#include "api/amounts.h"
#include "registry/registry_int.h"

#include "base/banned.h"

// --- What must be known beyond the object --------------------------------------------------------

static bool decode_head(struct op *op, const char *version, const char *kind, struct str namespace,
                        struct str name, struct arena *arena, struct api_object *ret)
{
    const struct store_key key = {api_kind_find(str_z(version), str_z(kind)), namespace, name};
    const struct object *o = store_head(op->r->store, &key);
    return o && decode_stored(o, &op->now, arena, ret, NULL) == 0;
}

static struct str extended_of(void *ctx, struct str class_name, struct arena *arena)
{
    struct api_object o = {0};
    if (!decode_head(ctx, "resource.k8s.io/v1", "DeviceClass", STR(""), class_name, arena, &o))
        return STR("");
    return ((const struct api_device_class *)o.value)->spec.extended_resource_name;
}

static bool has_class(void *ctx, struct str extended)
{
    struct op *op = ctx;
    struct store_walk walk = {.kind = api_kind_find(STR("resource.k8s.io/v1"), STR("DeviceClass"))};
    bool found = false;
    if (store_walk_start(op->r->store, &walk, NULL) < 0)
        return false;
    for (const struct object *o; !found && (o = store_walk_next(op->r->store, &walk));) {
        cleanup_arena struct arena arena = {0};
        struct api_object c = {0};
        found = decode_stored(o, &op->now, &arena, &c, NULL) == 0 &&
                str_eq(((const struct api_device_class *)c.value)->spec.extended_resource_name,
                       extended);
    }
    store_walk_done(&walk);
    return found;
}

static const struct api_pod *pod_of(void *ctx, struct str namespace, struct str name,
                                    struct arena *arena)
{
    struct api_object o = {0};
    return decode_head(ctx, "v1", "Pod", namespace, name, arena, &o) ? o.value : NULL;
}

// --- Checking ------------------------------------------------------------------------------------

// One request against the quotas of its namespace.
struct checking {
    struct op *op;
    const struct api_object *object, *old;
    struct quota_world world;
    struct api_quantity_map usage; // of the object
    struct api_quantity_map more;  // than that of the old one
};

static bool ends(const struct api_object *pod)
{
    const struct api_pod_spec *s = &((const struct api_pod *)pod->value)->spec;
    return s->has_active_deadline_seconds && s->active_deadline_seconds >= 0;
}

// Whether a change of this kind can change what is used.
static bool concerns(const struct op *op, const struct api_object *object,
                     const struct api_object *old)
{
    const struct api_type *t = object->kind->type;
    struct str sub = op->request->subresource;
    if (!object->kind->namespaced || t == &api_event_type)
        return false;
    if (t == &api_pod_type && old)
        return sub.n ? str_eqz(sub, "resize") : ends(object) != ends(old);
    if (sub.n)
        return false;
    return !old || t == &api_resource_claim_type || t == &api_persistent_volume_claim_type ||
           t == &api_service_type;
}

// What the quota counts of this object, by name.
static struct api_str_array counted(const struct checking *c, const struct api_quantity_map *hard)
{
    struct VEC(struct str) list = {0};
    for (size_t i = 0; i < hard->n; i++)
        if (quota_counts(hard->p[i].key, c->object->kind, &c->world))
            vec_push_arena(c->op->arena, &list, hard->p[i].key);
    return (struct api_str_array){list.p, list.n};
}

static int check_ready(const struct checking *c, const struct api_resource_quota *q,
                       const struct api_str_array *names)
{
    struct op *op = c->op;
    cleanup_sbuf struct sbuf text = {0};
    if (c->object->kind->type == &api_pod_type)
        quota_lacks(c->object->value, names, &text);
    if (text.n)
        return fail_forbidden(op, admit_about(op, c->object),
                              "failed quota: %.*s: must specify %.*s", STR_ARG(q->metadata.name),
                              STR_ARG(sbuf_str(&text)));
    bool known = true;
    for (size_t i = 0; i < names->n; i++) {
        known &= amounts_get(&q->status.used, names->p[i]) != NULL;
        sbuf_addf(&text, "%s%.*s", i ? "," : "", STR_ARG(names->p[i]));
    }
    if (known)
        return 0;
    return fail_forbidden(op, admit_about(op, c->object),
                          "status unknown for quota: %.*s, resources: %.*s",
                          STR_ARG(q->metadata.name), STR_ARG(sbuf_str(&text)));
}

static int fail_exceeded(const struct checking *c, const struct api_resource_quota *q,
                         const struct api_quantity_map *wanted,
                         const struct api_quantity_map *exceeded)
{
    struct op *op = c->op;
    struct api_quantity_map used = {0}, hard = {0}, asked = {0};
    cleanup_sbuf struct sbuf a = {0}, b = {0}, d = {0};
    for (size_t i = 0; i < exceeded->n; i++) {
        struct str name = exceeded->p[i].key;
        const struct quantity *have = amounts_get(&q->status.used, name);
        amounts_set(&asked, name, amounts_get(wanted, name), op->arena);
        amounts_set(&hard, name, amounts_get(&q->status.hard, name), op->arena);
        if (have)
            amounts_set(&used, name, have, op->arena);
    }
    amounts_write(&asked, &a);
    amounts_write(&used, &b);
    amounts_write(&hard, &d);
    return fail_forbidden(op, admit_about(op, c->object),
                          "exceeded quota: %.*s, requested: %.*s, used: %.*s, limited: %.*s",
                          STR_ARG(q->metadata.name), STR_ARG(sbuf_str(&a)), STR_ARG(sbuf_str(&b)),
                          STR_ARG(sbuf_str(&d)));
}

// check_one refuses, or adds the quota with its new count to what op charges.
static int check_one(struct checking *c, const struct object *stored)
{
    struct op *op = c->op;
    struct api_object object = {0};
    int code = op_decode(op, stored, &object);
    if (code < 0)
        return code;
    struct api_resource_quota *q = object.value;
    struct api_str_array names = counted(c, &q->status.hard);
    if (!names.n || !quota_in_scope(q, c->object))
        return 0;
    code = check_ready(c, q, &names);
    if (code < 0)
        return code;
    const struct api_quantity_map *more =
        c->old && quota_in_scope(q, c->old) ? &c->more : &c->usage;
    struct api_quantity_map wanted = {0}, exceeded = {0}, used = q->status.used;
    for (size_t i = 0; i < q->status.hard.n; i++) {
        struct str name = q->status.hard.p[i].key;
        const struct quantity *need = amounts_get(more, name), *have = amounts_get(&used, name);
        if (!need || quantity_sign(need) <= 0)
            continue;
        struct quantity sum = *need;
        if (have)
            quantity_add(&sum, have, need, op->arena);
        amounts_set(&wanted, name, need, op->arena);
        amounts_set(&used, name, &sum, op->arena);
        if (quantity_cmp(&sum, &q->status.hard.p[i].value) > 0)
            amounts_set(&exceeded, name, &sum, op->arena);
    }
    if (exceeded.n)
        return fail_exceeded(c, q, &wanted, &exceeded);
    q->status.used = used;
    if (wanted.n)
        vec_push_arena(op->arena, &op->charges, ((struct charge){object_ref(stored), object}));
    return 0;
}

static void measure(struct checking *c)
{
    struct arena *arena = c->op->arena;
    c->usage = quota_usage(c->object, &c->world, arena);
    if (!c->old)
        return;
    struct api_quantity_map before = quota_usage(c->old, &c->world, arena);
    struct amounts grown = {0}; // in the order of usage, which is sorted
    for (size_t i = 0; i < c->usage.n; i++) {
        const struct quantity *had = amounts_get(&before, c->usage.p[i].key);
        struct quantity more = c->usage.p[i].value;
        if (had)
            quantity_sub(&more, &c->usage.p[i].value, had, arena);
        if (quantity_sign(&more) > 0)
            vec_push_arena(arena, &grown, ((struct api_quantity_entry){c->usage.p[i].key, more}));
    }
    c->more = (struct api_quantity_map){grown.p, grown.n};
}

int quota_check(struct op *op, const struct api_object *object, const struct api_object *old)
{
    struct registry *r = op->r;
    struct str namespace = op->request->namespace;
    if (!concerns(op, object, old) || store_count(r->store, r->quota_kind, namespace) == 0)
        return 0;
    struct checking c = {.op = op,
                         .object = object,
                         .old = old,
                         .world = {.features = r->features,
                                   .now = op->now,
                                   .extended_of = extended_of,
                                   .has_class = has_class,
                                   .pod_of = pod_of,
                                   .ctx = op}};
    struct store_walk walk = {.kind = r->quota_kind, .one_namespace = true, .namespace = namespace};
    int code = 0;
    measure(&c);
    if (store_walk_start(r->store, &walk, NULL) < 0)
        return 0;
    for (const struct object *o; code == 0 && (o = store_walk_next(r->store, &walk));) {
        const struct store_key key = {o->kind, o->namespace, o->name};
        const struct object *head = store_head(r->store, &key);
        if (head)
            code = check_one(&c, head);
    }
    store_walk_done(&walk);
    if (code < 0)
        quota_forget(op);
    return code;
}

int quota_charge(struct op *op)
{
    int code = 0;
    for (size_t i = 0; code == 0 && !op->dry_run && i < op->charges.n; i++)
        code = write_change(op, &op->charges.p[i].quota, op->charges.p[i].stored);
    quota_forget(op);
    return code;
}

void quota_forget(struct op *op)
{
    for (size_t i = 0; i < op->charges.n; i++)
        object_unref(op->charges.p[i].stored);
    op->charges.n = 0;
}
