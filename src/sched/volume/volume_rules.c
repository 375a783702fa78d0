// SPDX-License-Identifier: Apache-2.0
//
// The rules for volumes: what keeps a pod from every node, and what from some. Texts are
// kube-scheduler's, with names.
#include "api/amounts.h"
#include "api/match/claim.h"
#include "api/match/label.h"
#include "api/match/node.h"
#include "sched/core/sched_int.h"
#include "sched/volume/volume_int.h"

#include "base/banned.h"

bool volume_reaches(const struct api_persistent_volume *volume, const struct api_node *node)
{
    const struct api_node_selector *s =
        volume->spec.node_affinity ? volume->spec.node_affinity->required : NULL;
    return !s || node_selector_match(s, node) > 0;
}

// --- The pod as a whole --------------------------------------------------------------------------

static bool is_made_for(const struct api_persistent_volume_claim *claim, const struct api_pod *pod)
{
    const struct api_owner_reference *r = meta_controller(&claim->metadata);
    return r && str_eq(r->uid, pod->metadata.uid);
}

// Can the claim be used at all? Else explains why not.
static bool volume_rules_claim_usable(struct attempt *a, const struct volume_ref *ref,
                                      const struct api_persistent_volume_claim *claim)
{
    struct sbuf *text = &a->text;
    if (!claim && ref->made_for.n)
        sbuf_addf(text,
                  "waiting for ephemeral volume controller to create the persistentvolumeclaim "
                  "\"%.*s\"",
                  STR_ARG(ref->name));
    else if (!claim)
        sbuf_addf(text, "persistentvolumeclaim \"%.*s\" not found", STR_ARG(ref->name));
    else if (str_eqz(claim->status.phase, "Lost"))
        sbuf_addf(text,
                  "persistentvolumeclaim \"%.*s\" bound to non-existent persistentvolume \"%.*s\"",
                  STR_ARG(ref->name), STR_ARG(claim->spec.volume_name));
    else if (claim->metadata.deletion_timestamp.set)
        sbuf_addf(text, "persistentvolumeclaim \"%.*s\" is being deleted", STR_ARG(ref->name));
    else if (ref->made_for.n && !is_made_for(claim, a->api))
        sbuf_addf(text, "PVC %.*s/%.*s was not created for pod %.*s/%.*s (pod is not owner)",
                  STR_ARG(claim->metadata.namespace), STR_ARG(ref->name),
                  STR_ARG(a->api->metadata.namespace), STR_ARG(a->api->metadata.name));
    else
        return true;
    return false;
}

// Another pod on a node that has the claim, when only one may.
static const struct sched_pod *sole_user(const struct attempt *a, const struct pod_volume *v)
{
    struct list *on_nodes = &cluster_namespace(&a->s->cluster, a->api->metadata.namespace)->pods;
    if (!api_str_listed(&v->claim->spec.access_modes, STR("ReadWriteOncePod")))
        return NULL;
    list_foreach(on_nodes, node) {
        const struct sched_pod *p = list_entry(node, struct sched_pod, on.by_namespace);
        if (p != a->pod && volumes_uses(p->api, v->claim->metadata.name))
            return p;
    }
    return NULL;
}

// An unbound claim waits for its first pod if its class demands it; one that names its volume does
// not wait.
static bool waits_for_pod(const struct pod_volume *v)
{
    return v->class && str_eqz(v->class->volume_binding_mode, "WaitForFirstConsumer") &&
           !v->claim->spec.volume_name.n;
}

static void volume_rules_inspect_claim(struct attempt *a, struct pod_volume *v)
{
    const struct sched *s = a->s;
    struct str class = volume_claim_class(v->claim);
    const struct typed_object *o =
        class.n ? volumes_get(s, VOLUME_CLASSES, (struct str){0}, class) : NULL;
    v->class = o ? o->object.value : NULL;
    v->bound = volume_is_bound(v->claim);
    o = v->claim->spec.volume_name.n
            ? volumes_get(s, VOLUME_VOLUMES, (struct str){0}, v->claim->spec.volume_name)
            : NULL;
    v->volume = o ? o->object.value : NULL;
}

static bool volume_rules_claim_exists(const struct attempt *a, const struct typed_object *claim)
{
    for (size_t i = 0; i < a->volume.n; i++)
        if (a->volume.all[i].object == claim)
            return true;
    return false;
}

static const struct typed_object *find_claim(const struct attempt *a, const struct volume_ref *ref)
{
    return volumes_get(a->s, VOLUME_CLAIMS, a->api->metadata.namespace, ref->name);
}

// Claims that the pod names must exist, before anything else is reported of one of them.
static bool named_exist(struct attempt *a)
{
    struct volume_ref ref;
    size_t at = 0;
    while (volumes_next(a->api, &at, a->arena, &ref)) {
        if (ref.made_for.n || find_claim(a, &ref))
            continue;
        (void)volume_rules_claim_usable(a, &ref, NULL);
        a->refused_by = "VolumeRestrictions";
        a->volume.refused = ref;
        return false;
    }
    return true;
}

static bool volume_rules_take_claims(struct attempt *a)
{
    struct volume_ref ref;
    size_t at = 0;
    a->volume.all = arena_array(a->arena, struct pod_volume, a->api->spec.volumes.n);
    while (volumes_next(a->api, &at, a->arena, &ref)) {
        const struct typed_object *o = find_claim(a, &ref);
        if (!volume_rules_claim_usable(a, &ref, o ? o->object.value : NULL) || !o) {
            a->volume.refused = ref;
            return false;
        }
        if (volume_rules_claim_exists(a, o))
            continue;
        struct pod_volume *v = &a->volume.all[a->volume.n++];
        *v = (struct pod_volume){.object = o, .claim = o->object.value, .ref = ref};
        volume_rules_inspect_claim(a, v);
    }
    return true;
}

static bool volume_rules_check_bindable(struct attempt *a)
{
    for (size_t i = 0; i < a->volume.n; i++) {
        if (a->volume.all[i].bound || waits_for_pod(&a->volume.all[i]))
            continue;
        sbuf_addz(&a->text, "pod has unbound immediate PersistentVolumeClaims");
        a->volume.refused = a->volume.all[i].ref;
        return false;
    }
    for (size_t i = 0; i < a->volume.n; i++)
        a->volume.all[i].sole_user = sole_user(a, &a->volume.all[i]);
    return true;
}

enum dra_begin volume_rules_begin(struct attempt *a)
{
    struct sched *s = a->s;
    if (!volumes_used(a->api))
        return DRA_OK;
    volumes_watch(s);
    if (!volumes_known(s)) {
        sbuf_addz(&a->text, "waiting for what the server has of volumes");
        return DRA_WAIT;
    }
    const struct api_kind *forbidden = volumes_forbidden(s);
    if (forbidden) {
        sbuf_addf(&a->text,
                  "volumes cannot be looked at: the server does not let the scheduler list %.*s of "
                  "%.*s (its role needs get, list and watch)",
                  STR_ARG(forbidden->plural), STR_ARG(forbidden->api_version));
        a->whys = WHY_BIT(WHY_VOLUMES);
        return DRA_REFUSED;
    }
    if (!volumes_on(s))
        return DRA_OK;
    a->refused_by = "VolumeBinding";
    if (!named_exist(a) || !volume_rules_take_claims(a) || !volume_rules_check_bindable(a)) {
        a->whys = WHY_BIT(WHY_VOLUMES);
        return DRA_REFUSED;
    }
    a->refused_by = NULL;
    volume_match_begin(a);
    volume_limits_begin(a);
    return DRA_OK;
}

void volume_rules_update(struct attempt *a, const struct sched_pod *p)
{
    for (size_t i = 0; i < a->volume.n; i++) {
        struct pod_volume *v = &a->volume.all[i];
        if (str_eq(p->api->metadata.namespace, v->claim->metadata.namespace) &&
            volumes_uses(p->api, v->claim->metadata.name))
            v->sole_user = sole_user(a, v);
    }
}

// --- Nodes ---------------------------------------------------------------------------------------

// The volume's labels say in which zone and region it is; older ones have other names.
static const struct str zone_labels[] = {
    STR_INIT("topology.kubernetes.io/zone"),
    STR_INIT("topology.kubernetes.io/region"),
    STR_INIT("failure-domain.beta.kubernetes.io/zone"),
    STR_INIT("failure-domain.beta.kubernetes.io/region"),
};

enum { ZONE_LABELS_NOW = 2 }; // the older ones follow in the same order

// The node's label of the same name; for an older one also the newer, but not the other way round.
static const struct str *zone_of(const struct api_node *node, size_t i)
{
    const struct str *v = api_map_find(&node->metadata.labels, zone_labels[i]);
    return v || i < ZONE_LABELS_NOW
               ? v
               : api_map_find(&node->metadata.labels, zone_labels[i - ZONE_LABELS_NOW]);
}

// A volume of several zones has them joined by two underscores. A label with an empty zone
// is ignored.
static bool keeps_out(struct str zones, const struct str *zone)
{
    static const struct str joint = STR_INIT("__");
    bool found = false;
    for (;;) {
        ptrdiff_t at = str_find(zones, joint);
        struct str one = at < 0 ? zones : str_upto(zones, (size_t)at);
        if (one.n == 0)
            return false;
        found = found || (zone && str_eq(one, *zone));
        if (at < 0)
            return !found;
        zones = str_from(zones, (size_t)at + joint.n);
    }
}

bool volume_in_zone(const struct api_persistent_volume *volume, const struct api_node *node)
{
    bool zoned = false;
    for (size_t i = 0; i < array_len(zone_labels); i++)
        zoned = zoned || api_map_find(&node->metadata.labels, zone_labels[i]);
    for (size_t i = 0; zoned && i < array_len(zone_labels); i++) {
        const struct str *want = api_map_find(&volume->metadata.labels, zone_labels[i]);
        if (want && keeps_out(*want, zone_of(node, i)))
            return false;
    }
    return true;
}

// A claim that only one pod may use is used by another.
static const struct pod_volume *used_elsewhere(const struct attempt *a)
{
    for (size_t i = 0; i < a->volume.n; i++)
        if (a->volume.all[i].sole_user)
            return &a->volume.all[i];
    return NULL;
}

static bool refuse_volume(struct attempt *a, const struct pod_volume *v, enum refusal_code code,
                          struct refusals *why)
{
    refusal_add(a, why, (struct refusal){.code = code, .volume = v, .pod = v->sole_user});
    a->volume.lacking = v;
    return false;
}

// The first claim that is bound to a volume which the node does not reach.
static bool bound_ok(struct attempt *a, const struct api_node *node, struct refusals *why)
{
    for (size_t i = 0; i < a->volume.n; i++) {
        const struct pod_volume *v = &a->volume.all[i];
        if (v->bound && !v->volume)
            return refuse_volume(a, v, REFUSED_VOLUME_GONE, why);
        if (v->bound && !volume_reaches(v->volume, node))
            return refuse_volume(a, v, REFUSED_VOLUME_AFFINITY, why);
    }
    return true;
}

static bool zones_ok(struct attempt *a, const struct api_node *node, struct refusals *why)
{
    for (size_t i = 0; i < a->volume.n; i++) {
        const struct pod_volume *v = &a->volume.all[i];
        if (v->bound && v->volume && !volume_in_zone(v->volume, node))
            return refuse_volume(a, v, REFUSED_VOLUME_ZONE, why);
    }
    return true;
}

// VolumeRestrictions, NodeVolumeLimits, VolumeBinding and VolumeZone, in that order. VolumeBinding
// gives all its reasons.
enum why volume_rules_filter(struct attempt *a, const struct sched_node *n, struct refusals *why)
{
    a->volume.lacking = NULL;
    const struct pod_volume *used = used_elsewhere(a);
    if (used) {
        (void)refuse_volume(a, used, REFUSED_VOLUME_SOLE_USER, why);
        return WHY_VOLUMES;
    }
    if (!volume_limits_ok(a, n, why))
        return WHY_VOLUMES;
    bool bound = bound_ok(a, n->api, why);
    if (!bound && !why)
        return WHY_VOLUMES;
    const struct pod_volume *lacking = a->volume.lacking;
    bool matched = volume_match_node(a, n, why);
    a->volume.lacking = bound ? a->volume.lacking : lacking;
    return bound && matched && zones_ok(a, n->api, why) ? WHY_NONE : WHY_VOLUMES;
}
