// SPDX-License-Identifier: Apache-2.0
//
// Changes to a world before the question: devices tainted, a claim removed, and the steps of a
// drain (drain.c). Objects are copied before they are changed. The taint controller decides which
// pods a taint evicts (place.c).
#include "api/match/claim.h"
#include "api/match/device_taint.h"
#include "api/match/taint.h"
#include "plan/sim/plan_int.h"

#include "base/banned.h"

static const char *const kind_words[] = {
    [PLAN_SLICE] = "slice",   [PLAN_CLASS] = "class",       [PLAN_RULE] = "taint rule",
    [PLAN_NODE] = "node",     [PLAN_CLAIM] = "claim",       [PLAN_TEMPLATE] = "claim template",
    [PLAN_POD] = "pod",       [PLAN_WORKLOAD] = "workload", [PLAN_EVENT] = "event",
    [PLAN_RECORD] = "record", [PLAN_OTHER] = "object",
};

// "there is no node x; there are a, b, c, …"
int whatif_no_such_object(const struct plan_world *w, enum plan_kind kind, struct str name,
                          struct err *err)
{
    cleanup_sbuf struct sbuf b = {0};
    size_t n = 0;
    world_foreach(w, kind, o) if (n++ < 5)
        sbuf_addf(&b, "%s%.*s", n > 1 ? ", " : "", STR_ARG(o->name));
    if (n == 0)
        return err_set(err, ERR_NOT_FOUND, "there is no %s %.*s: the files have none",
                       kind_words[kind], STR_ARG(name));
    return err_set(err, ERR_NOT_FOUND, "there is no %s %.*s; there %s %.*s%s", kind_words[kind],
                   STR_ARG(name), n == 1 ? "is" : "are", STR_ARG(sbuf_str(&b)), n > 5 ? ", …" : "");
}

void *whatif_copy_object(struct plan_world *w, struct plan_object *o)
{
    void *to = arena_alloc(&w->arena, o->type->size, _Alignof(max_align_t));
    api_copy(o->type, o->value, to, &w->arena);
    o->value = to;
    return to;
}

// --- Nodes ---------------------------------------------------------------------------------------

static bool named_by_slice(const struct plan_world *w, struct str name)
{
    world_foreach(w, PLAN_SLICE,
                  o) if (str_eq(((const struct api_resource_slice *)o->value)->spec.node_name,
                                name)) return true;
    return false;
}

// A node that only slices name becomes an object.
struct plan_object *whatif_find_node(struct plan_world *w, struct str name)
{
    struct plan_object *o = world_find(w, PLAN_NODE, name);
    bool any = false;
    world_foreach(w, PLAN_NODE, x) any = any || x->kind == PLAN_NODE;
    if (o || any || !named_by_slice(w, name))
        return o;
    // There are no nodes yet: all that slices name have to be made, or the others would be lost.
    struct VEC(struct str) names = {0};
    world_foreach(w, PLAN_SLICE, s)
        vec_push(&names, ((const struct api_resource_slice *)s->value)->spec.node_name);
    for (size_t i = 0; i < names.n; i++) {
        if (names.p[i].n == 0 || world_find(w, PLAN_NODE, names.p[i]))
            continue;
        struct api_node *node = arena_one(&w->arena, struct api_node);
        node->metadata.name = names.p[i];
        (void)world_add(w, &(struct plan_object){.kind = PLAN_NODE,
                                                 .type = &api_node_type,
                                                 .value = node,
                                                 .name = names.p[i],
                                                 .file = STR("(slices)")});
    }
    vec_done(&names);
    return world_find(w, PLAN_NODE, name);
}

void whatif_release_claim(struct plan_world *w, struct plan_object *o)
{
    struct api_resource_claim *c = whatif_copy_object(w, o);
    c->status.allocation = NULL;
    c->status.reserved_for = (struct api_resource_claim_consumer_reference_array){0};
}

// whatif_leave takes a pod out of a claim's reservations; the last one to go frees its devices.
static void whatif_leave(struct plan_world *w, struct plan_object *o, struct str uid)
{
    struct api_resource_claim *c = whatif_copy_object(w, o);
    struct api_resource_claim_consumer_reference_array *all = &c->status.reserved_for;
    size_t n = 0;
    for (size_t i = 0; i < all->n; i++)
        if (!str_eq(all->p[i].uid, uid))
            all->p[n++] = all->p[i];
    all->n = n;
    if (n == 0)
        whatif_release_claim(w, o);
}

void whatif_move_pod(struct plan_world *w, struct plan_object *o)
{
    struct api_pod *pod = whatif_copy_object(w, o);
    world_foreach(w, PLAN_CLAIM, c)
    {
        const struct api_resource_claim *claim = c->value;
        if (!str_eq(claim->metadata.namespace, pod->metadata.namespace) || !pod->metadata.uid.n)
            continue;
        if (meta_controller(&claim->metadata) && claim_is_for(claim, pod, false))
            c->gone = true;
        else if (claim_is_reserved_for(claim, pod->metadata.uid))
            whatif_leave(w, c, pod->metadata.uid);
    }
    pod->spec.node_name = (struct str){0};
    pod->status = (struct api_pod_status){.phase = STR("Pending")};
    o->moved = true;
}

// --- Taints --------------------------------------------------------------------------------------

// DRIVER[/POOL[/DEVICE]]=KEY[=VALUE]:EFFECT
static bool read_short(struct str text, struct api_device_taint_selector *s,
                       struct api_device_taint *t)
{
    struct str selector, taint, pool, device;
    if (!str_cut(text, '=', &selector, &taint))
        return false;
    ptrdiff_t colon = str_rfind_char(taint, ':');
    if (colon <= 0)
        return false;
    t->effect = str_from(taint, (size_t)colon + 1);
    (void)str_cut(str_upto(taint, (size_t)colon), '=', &t->key, &t->value);
    (void)str_cut(selector, '/', &s->driver, &pool);
    (void)str_cut(pool, '/', &s->pool, &device);
    s->device = device;
    return true;
}

// driver=D,pool=P,device=X,key=K,value=V,effect=E
static bool whatif_read_selector(struct str text, struct api_device_taint_selector *s,
                                 struct api_device_taint *t)
{
    while (text.n) {
        struct str one, key, value;
        (void)str_cut(text, ',', &one, &text);
        if (!str_cut(one, '=', &key, &value))
            return false;
        struct str *to = str_eqz(key, "driver")   ? &s->driver
                         : str_eqz(key, "pool")   ? &s->pool
                         : str_eqz(key, "device") ? &s->device
                         : str_eqz(key, "key")    ? &t->key
                         : str_eqz(key, "value")  ? &t->value
                         : str_eqz(key, "effect") ? &t->effect
                                                  : NULL;
        if (!to)
            return false;
        *to = value;
    }
    return true;
}

static bool any_device(const struct plan_world *w, const struct api_device_taint_selector *s)
{
    world_foreach(w, PLAN_SLICE, o)
    {
        const struct api_resource_slice_spec *spec =
            &((const struct api_resource_slice *)o->value)->spec;
        for (size_t i = 0; i < spec->devices.n; i++)
            if (device_taint_selects(s, spec->driver, spec->pool.name, &spec->devices.p[i].name))
                return true;
    }
    return false;
}

int taint_rule_parse(struct str text, struct arena *arena, struct api_device_taint_rule **ret,
                     struct err *err)
{
    struct api_device_taint_rule *rule = arena_one(arena, struct api_device_taint_rule);
    struct api_device_taint_selector *s = arena_one(arena, struct api_device_taint_selector);
    struct api_device_taint *t = &rule->spec.taint;
    struct str kept = arena_str(arena, text);
    bool ok = str_contains(text, STR("effect=")) ? whatif_read_selector(kept, s, t)
                                                 : read_short(kept, s, t);
    if (!ok || t->key.n == 0)
        return err_set(err, ERR_INVALID,
                       "want DRIVER[/POOL[/DEVICE]]=KEY[=VALUE]:EFFECT or "
                       "driver=D,pool=P,device=X,key=K,value=V,effect=E");
    if (!taint_is_hard(t->effect) && !str_eqz(t->effect, "None"))
        return err_set(err, ERR_INVALID, "the effect is one of NoSchedule, NoExecute, None");
    s->has_driver = s->driver.n > 0;
    s->has_pool = s->pool.n > 0;
    s->has_device = s->device.n > 0;
    rule->spec.device_selector = s;
    *ret = rule;
    return 0;
}

int plan_taint(struct plan_world *w, struct str text, struct err *err)
{
    struct api_device_taint_rule *rule = NULL;
    if (taint_rule_parse(text, &w->arena, &rule, err) < 0)
        return err_wrap(err, "--taint %.*s", STR_ARG(text));
    const struct api_device_taint_selector *s = rule->spec.device_selector;
    if (!any_device(w, s))
        return err_set(err, ERR_NOT_FOUND, "--taint %.*s: no device in the files is picked",
                       STR_ARG(text));
    struct str name = arena_strf(&w->arena, "--taint %.*s", STR_ARG(text));
    rule->metadata.name = name;
    (void)world_add(w, &(struct plan_object){.kind = PLAN_RULE,
                                             .type = &api_device_taint_rule_type,
                                             .value = rule,
                                             .name = name,
                                             .file = STR("(command line)")});
    w->evicts |= taint_is_evicting(rule->spec.taint.effect);
    return 0;
}

// --- Claims --------------------------------------------------------------------------------------

int plan_without(struct plan_world *w, struct str claim, struct err *err)
{
    struct str full = str_find_char(claim, '/') >= 0 || claim.n == 0
                          ? claim
                          : arena_strf(&w->arena, "default/%.*s", STR_ARG(claim));
    struct plan_object *o = world_find(w, PLAN_CLAIM, full);
    if (!o)
        return whatif_no_such_object(w, PLAN_CLAIM, full, err);
    const struct api_resource_claim *c = o->value;
    world_foreach(w, PLAN_POD, p)
    {
        const struct api_pod *pod = p->value;
        bool needs = false;
        if (!str_eq(pod->metadata.namespace, c->metadata.namespace))
            continue;
        for (size_t i = 0; i < pod->spec.resource_claims.n; i++) {
            struct str used;
            bool check;
            needs |=
                claim_name_of(pod, &pod->spec.resource_claims.p[i], &used, &check) == CLAIM_NAMED &&
                str_eq(used, c->metadata.name);
        }
        p->gone |= needs;
    }
    o->gone = true;
    return 0;
}
