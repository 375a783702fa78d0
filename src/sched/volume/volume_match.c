// SPDX-License-Identifier: Apache-2.0
//
// Claims that wait for their first pod: a volume that exists and fits, the smallest, or one that a
// provisioner can make where the node is. What is true of a volume on every node is looked at once.
#include <stdlib.h>

#include "api/amounts.h"
#include "api/match/claim.h"
#include "api/match/label.h"
#include "api/match/node.h"
#include "sched/bind/bind_int.h"
#include "sched/volume/volume_int.h"

#include "base/banned.h"

static struct str volume_match_mode_of(bool has, struct str mode)
{
    return has ? mode : STR("Filesystem");
}

static const struct quantity *volume_match_size_of(const struct typed_object *volume)
{
    const struct api_persistent_volume *v = volume->object.value;
    return amounts_get(&v->spec.capacity, STR("storage"));
}

const struct quantity *volume_match_request_of(const struct pod_volume *v)
{
    return amounts_get(&v->claim->spec.resources.requests, STR("storage"));
}

static bool volume_match_at_least(const struct quantity *have, const struct quantity *want)
{
    static const struct quantity none = {0};
    return quantity_cmp(have ? have : &none, want ? want : &none) >= 0;
}

// --- Volumes that exist --------------------------------------------------------------------------

// The pod on its way that the volume was given to; NULL: none.
static const struct bind_volume *given_to(const struct sched *s, struct str volume)
{
    struct bind_volume **b = map_get(&s->volumes.by_volume, volume);
    return b ? *b : NULL;
}

// Given to the claim already: by the volume itself, or by a pod on its way.
static bool volume_match_is_given(const struct sched *s, const struct api_persistent_volume *volume,
                                  const struct api_persistent_volume_claim *claim)
{
    const struct bind_volume *b = given_to(s, volume->metadata.name);
    return b ? str_eq(b->uid, claim->metadata.uid) : volume_is_for(volume, claim);
}

static bool same_sort(const struct api_persistent_volume_spec *v,
                      const struct api_persistent_volume_claim_spec *c)
{
    return str_eq(volume_match_mode_of(v->has_volume_mode, v->volume_mode),
                  volume_match_mode_of(c->has_volume_mode, c->volume_mode)) &&
           str_eq(v->volume_attributes_class_name, c->volume_attributes_class_name);
}

static bool has_modes(const struct api_str_array *have, const struct api_str_array *want)
{
    for (size_t i = 0; i < want->n; i++) {
        bool found = false;
        for (size_t k = 0; k < have->n; k++)
            found = found || str_eq(have->p[k], want->p[i]);
        if (!found)
            return false;
    }
    return true;
}

static bool volume_match_is_free(const struct sched *s, const struct api_persistent_volume *v,
                                 const struct api_persistent_volume_claim *c)
{
    return !v->spec.claim_ref && !given_to(s, v->metadata.name) &&
           str_eqz(v->status.phase, "Available") &&
           (!c->spec.selector || labels_match(c->spec.selector, &v->metadata.labels) > 0) &&
           has_modes(&v->spec.access_modes, &c->spec.access_modes);
}

struct matching {
    struct attempt *a;
    struct pod_volume *v;
    struct object_vec found;
    const struct typed_object *given;
};

static void show_volume(void *arg, const struct typed_object *o)
{
    struct matching *m = arg;
    const struct api_persistent_volume *volume = o->object.value;
    const struct api_persistent_volume_claim *claim = m->v->claim;
    if (volume->metadata.deletion_timestamp.set || !same_sort(&volume->spec, &claim->spec) ||
        !volume_match_at_least(volume_match_size_of(o), volume_match_request_of(m->v)))
        return;
    if (volume_match_is_given(m->a->s, volume, claim))
        m->given = o;
    else if (volume_match_is_free(m->a->s, volume, claim))
        vec_push_arena(m->a->arena, &m->found, o);
}

static int volume_match_cmp_size(const void *x, const void *y)
{
    const struct typed_object *a = *(const struct typed_object *const *)x;
    const struct typed_object *b = *(const struct typed_object *const *)y;
    static const struct quantity none = {0};
    const struct quantity *p = volume_match_size_of(a), *q = volume_match_size_of(b);
    int order = quantity_cmp(p ? p : &none, q ? q : &none);
    return order ? order : str_cmp(a->meta->name, b->meta->name);
}

static void volume_match_find(struct attempt *a, struct pod_volume *v)
{
    const struct volumes *all = &a->s->volumes;
    struct matching m = {.a = a, .v = v};
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(v->claim->metadata.namespace),
              STR_ARG(v->claim->metadata.name));
    struct bind_volume **flight = map_get(&all->by_claim, sbuf_str(&key));
    v->selected = meta_annotation(&v->claim->metadata, STR(STORAGE_SELECTED_NODE));
    if (flight && !(*flight)->volume.n)
        v->selected = (*flight)->b->node_name;
    informer_by(all->informers[VOLUME_VOLUMES], all->by_class, volume_claim_class(v->claim),
                show_volume, &m);
    if (m.given) { // no other will do
        m.found.n = 0;
        vec_push_arena(a->arena, &m.found, m.given);
    }
    if (m.found.n)
        qsort(m.found.p, m.found.n, sizeof(*m.found.p), volume_match_cmp_size);
    volume_pins_make(a->arena, m.found.p, m.found.n, &v->pins);
}

// The smallest claims choose first, so that one that is content with little does not take a large
// volume.
static int volume_match_cmp_request(const void *x, const void *y)
{
    const struct pod_volume *a = x, *b = y;
    const struct quantity *p = volume_match_request_of(a), *q = volume_match_request_of(b);
    if (!p || !q)
        return (p != NULL) - (q != NULL);
    int order = quantity_cmp(p, q);
    return order ? order : str_cmp(a->claim->metadata.name, b->claim->metadata.name);
}

void volume_match_begin(struct attempt *a)
{
    for (size_t i = 0; i < a->volume.n; i++)
        if (!a->volume.all[i].bound) {
            volume_match_find(a, &a->volume.all[i]);
            a->volume.open++;
        }
    if (a->volume.open > 1)
        qsort(a->volume.all, a->volume.n, sizeof(*a->volume.all), volume_match_cmp_request);
}

struct chooser {
    const struct attempt *a;
    const struct pod_volume *v; // those before it have chosen
};

static bool is_left(const void *arg, const struct typed_object *volume)
{
    const struct chooser *c = arg;
    for (const struct pod_volume *v = c->a->volume.all; v < c->v; v++)
        if (v->chosen == volume)
            return false;
    return true;
}

static const struct typed_object *volume_match_choose(const struct attempt *a,
                                                      const struct pod_volume *v,
                                                      const struct api_node *node)
{
    return volume_pins_best(&v->pins, node, is_left, &(struct chooser){a, v});
}

// --- Volumes to be made --------------------------------------------------------------------------

static void show_capacity(void *arg, const struct typed_object *o)
{
    struct matching *m = arg;
    const struct api_csi_storage_capacity *c = o->object.value;
    const struct quantity *limit = c->maximum_volume_size ? c->maximum_volume_size : c->capacity;
    if (limit && quantity_cmp(limit, volume_match_request_of(m->v)) >= 0)
        vec_push_arena(m->a->arena, &m->found, o);
}

// Where there is room for it is looked for once, whichever node asks first.
static void find_rooms(struct attempt *a, struct pod_volume *v)
{
    const struct volumes *all = &a->s->volumes;
    struct matching m = {.a = a, .v = v};
    if (v->rooms_known)
        return;
    informer_by(all->informers[VOLUME_CAPACITIES], all->room_by_class, v->class->metadata.name,
                show_capacity, &m);
    v->rooms = m.found;
    v->rooms_known = true;
}

// volume_match_knows_room: the driver publishes what room it has.
static bool volume_match_knows_room(const struct attempt *a, const struct pod_volume *v)
{
    const struct typed_object *o =
        volumes_get(a->s, VOLUME_DRIVERS, (struct str){0}, v->class->provisioner);
    const struct api_csi_driver *driver = o ? o->object.value : NULL;
    return volume_match_request_of(v) && driver && driver->spec.storage_capacity &&
           a->s->volumes.listed[VOLUME_CAPACITIES] == VOLUME_LISTED;
}

const struct quantity *volume_match_room(struct attempt *a, struct pod_volume *v,
                                         const struct api_node *node)
{
    if (!volume_match_knows_room(a, v))
        return NULL;
    find_rooms(a, v);
    for (size_t i = 0; i < v->rooms.n; i++) {
        const struct api_csi_storage_capacity *c = v->rooms.p[i]->object.value;
        if (labels_match(c->node_topology, &node->metadata.labels) > 0)
            return c->capacity;
    }
    return NULL;
}

// A driver that publishes what room it has must have enough where the node is.
static bool volume_match_has_room(struct attempt *a, struct pod_volume *v,
                                  const struct api_node *node)
{
    if (!volume_match_knows_room(a, v))
        return true;
    return volume_match_room(a, v, node) != NULL;
}

// Can a volume be made for the node? Else *ret is why not.
static bool can_make(struct attempt *a, struct pod_volume *v, const struct api_node *node,
                     enum refusal_code *ret)
{
    *ret = REFUSED_VOLUME_NONE;
    if (!v->class->provisioner.n || str_eqz(v->class->provisioner, STORAGE_NO_PROVISIONER) ||
        !node_is_in_topologies(&v->class->allowed_topologies, node))
        return false;
    *ret = REFUSED_VOLUME_ROOM;
    return volume_match_has_room(a, v, node);
}

// --- A node --------------------------------------------------------------------------------------

static bool match_one(struct attempt *a, struct pod_volume *v, const struct sched_node *n,
                      struct refusals *why)
{
    enum refusal_code code = REFUSED_VOLUME_SELECTED;
    bool elsewhere = v->selected.n && !str_eq(v->selected, n->name);
    v->chosen = v->selected.n ? NULL : volume_match_choose(a, v, n->api);
    if (v->chosen || (!elsewhere && can_make(a, v, n->api, &code)))
        return true;
    refusal_add(a, why, (struct refusal){.code = code, .volume = v});
    a->volume.lacking = v;
    return false;
}

bool volume_match_node(struct attempt *a, const struct sched_node *n, struct refusals *why)
{
    for (size_t i = 0; a->volume.open && i < a->volume.n; i++)
        if (!a->volume.all[i].bound && !match_one(a, &a->volume.all[i], n, why))
            return false;
    return true;
}
