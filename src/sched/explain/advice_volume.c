// SPDX-License-Identifier: Apache-2.0
//
// What would help a pod whose claims for storage, or their volumes, keep it from a node.
#include "api/amounts.h"
#include "api/match/claim.h"
#include "sched/bind/bind_int.h"
#include "sched/explain/advice.h"
#include "sched/volume/volume_int.h"

#include "base/banned.h"

#define NODES_SHOWN 3

// --- The pod as a whole --------------------------------------------------------------------------

static void advice_volume_add_unbound(struct advice *t, const struct sched *s,
                                      const struct api_persistent_volume_claim *claim)
{
    struct str name = claim->metadata.name, class = volume_claim_class(claim);
    if (class.n && !volumes_get(s, VOLUME_CLASSES, (struct str){0}, class))
        advice_missing(t, s->volumes.informers[VOLUME_CLASSES], "StorageClass", (struct str){0},
                       class);
    advice_add(
        t,
        "claim %.*s has to be bound first, by the persistentvolume-binder-controller of "
        "kube-controller-manager or dray up: kubectl describe pvc %.*s -n %.*s shows what it lacks",
        STR_ARG(name), STR_ARG(name), STR_ARG(claim->metadata.namespace));
}

static void advice_sole_user(struct advice *t, struct str claim)
{
    advice_add(t, "end the pod that uses claim %.*s, or give this pod a claim of its own",
               STR_ARG(claim));
}

static void advice_volume_add_claim(struct advice *t, const struct attempt *a,
                                    const struct volume_ref *ref)
{
    struct str namespace = a->api->metadata.namespace;
    const struct typed_object *o = volumes_get(a->s, VOLUME_CLAIMS, namespace, ref->name);
    const struct api_persistent_volume_claim *claim = o ? o->object.value : NULL;
    if (!claim && ref->made_for.n)
        advice_add(t,
                   "the ephemeral volume controller of kube-controller-manager makes claim %.*s: "
                   "see that it runs",
                   STR_ARG(ref->name));
    else if (!claim)
        advice_missing(t, a->s->volumes.informers[VOLUME_CLAIMS], "PersistentVolumeClaim",
                       namespace, ref->name);
    else if (str_eqz(claim->status.phase, "Lost"))
        advice_add(t, "the volume of claim %.*s is gone: delete the claim and create it again",
                   STR_ARG(ref->name));
    else if (claim->metadata.deletion_timestamp.set)
        advice_add(t, "wait until claim %.*s is gone and create it again, or name another one",
                   STR_ARG(ref->name));
    else if (ref->made_for.n && str_contains(sbuf_str(&a->text), STR("pod is not owner")))
        advice_add(t, "delete claim %.*s, which was not made for this pod, or rename the pod",
                   STR_ARG(ref->name));
    else if (!volume_is_bound(claim))
        advice_volume_add_unbound(t, a->s, claim);
    else
        advice_sole_user(t, ref->name);
}

void advice_volumes(struct advice *t, const struct attempt *a)
{
    if (a->volume.refused.name.n)
        advice_volume_add_claim(t, a, &a->volume.refused);
}

// --- A node --------------------------------------------------------------------------------------

static bool advice_volume_admits_node(const struct api_persistent_volume *volume,
                                      const struct api_node *node)
{
    return volume_reaches(volume, node) && volume_in_zone(volume, node);
}

// From which nodes can it be reached?
static void advice_volume_add_reachable(struct advice *t, const struct attempt *a,
                                        const struct api_persistent_volume *volume)
{
    const struct cluster *c = &a->s->cluster;
    cleanup_sbuf struct sbuf names = {0};
    size_t n = 0;
    for (size_t i = 0; i < c->order.n; i++)
        if (c->order.p[i] && c->order.p[i]->api &&
            advice_volume_admits_node(volume, c->order.p[i]->api) && ++n <= NODES_SHOWN)
            sbuf_addf(&names, "%s%.*s", n > 1 ? ", " : "", STR_ARG(c->order.p[i]->name));
    if (n)
        advice_add(t, "volume %.*s can be reached from %s%s: let the pod go there",
                   STR_ARG(volume->metadata.name), names.p, n > NODES_SHOWN ? ", …" : "");
    else
        advice_add(t,
                   "volume %.*s can be reached from no node that there is: see its "
                   "spec.nodeAffinity and its labels of zone and region, and bring that node back",
                   STR_ARG(volume->metadata.name));
}

// A provisioner was given a node, and no other will do.
static void advice_volume_add_elsewhere(struct advice *t, const struct attempt *a,
                                        const struct pod_volume *v)
{
    struct sched_node *const *n = map_get(&a->s->cluster.nodes, v->selected);
    struct str name = v->claim->metadata.name;
    if (n && (*n)->api)
        advice_add(t, "the volume of claim %.*s is being made where node %.*s is: make room there",
                   STR_ARG(name), STR_ARG(v->selected));
    else
        advice_add(t,
                   "node %.*s is not there: bring it back, or let the volume be made elsewhere: "
                   "kubectl annotate pvc %.*s -n %.*s " STORAGE_SELECTED_NODE "-",
                   STR_ARG(v->selected), STR_ARG(name), STR_ARG(v->claim->metadata.namespace));
}

static void advice_volume_add_open_claim(struct advice *t, const struct attempt *a,
                                         const struct pod_volume *v, const struct sched_node *n)
{
    const struct quantity *want = amounts_get(&v->claim->spec.resources.requests, STR("storage"));
    cleanup_sbuf struct sbuf size = {0};
    struct str name = v->claim->metadata.name, class = v->class->metadata.name;
    if (want)
        quantity_write(want, &size);
    if (v->selected.n)
        advice_volume_add_elsewhere(t, a, v);
    else if (str_eqz(v->class->provisioner, STORAGE_NO_PROVISIONER))
        advice_add(t,
                   "create a PersistentVolume of class %.*s with at least %.*s for claim %.*s "
                   "that can be reached from a node, such as %.*s",
                   STR_ARG(class), STR_ARG(sbuf_str(&size)), STR_ARG(name), STR_ARG(n->name));
    else
        advice_add(t,
                   "let provisioner %.*s make volumes where the nodes are: see "
                   "allowedTopologies of StorageClass %.*s and the room of the driver",
                   STR_ARG(v->class->provisioner), STR_ARG(class));
}

void advice_volume_node(struct advice *t, struct attempt *a, const struct sched_node *n)
{
    (void)volume_rules_filter(a, n, NULL); // other nodes may have been asked since
    const struct pod_volume *v = a->volume.lacking;
    if (!v) {
        advice_add(t,
                   "end a pod with volumes on %.*s, or take a claim whose volume is where there is "
                   "room",
                   STR_ARG(n->name));
        return;
    }
    if (v->sole_user) {
        advice_sole_user(t, v->claim->metadata.name);
        return;
    }
    if (!v->bound)
        advice_volume_add_open_claim(t, a, v, n);
    else if (!v->volume)
        advice_add(t, "the volume %.*s is gone: delete claim %.*s and create it again",
                   STR_ARG(v->claim->spec.volume_name), STR_ARG(v->claim->metadata.name));
    else
        advice_volume_add_reachable(t, a, v->volume);
    advice_add(t, "or give the pod another claim");
}

// --- On its way ----------------------------------------------------------------------------------

bool advice_volume_binding(struct advice *t, const struct sched_pod *p, struct sbuf *cause)
{
    const struct bind_volume *v = p->binding ? bind_volume_open(p->binding) : NULL;
    if (!v)
        return false;
    sbuf_addf(cause, "%.*s is chosen, but persistentvolumeclaim \"%.*s\" is not bound yet",
              STR_ARG(p->binding->node_name), STR_ARG(v->name));
    if (v->volume.n)
        sbuf_addf(cause, " (to volume %.*s)", STR_ARG(v->volume));
    if (p->report.reason && p->report.message && strcmp(p->report.reason, "SchedulerError") == 0)
        sbuf_addf(cause, " (the attempt before was given up: %s)", p->report.message);
    if (v->volume.n)
        advice_add(t,
                   "the persistentvolume-binder-controller of kube-controller-manager or dray up "
                   "binds it: see that it runs");
    else
        advice_add(t, "the provisioner of its StorageClass makes the volume: look at its log");
    return true;
}
