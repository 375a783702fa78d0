// SPDX-License-Identifier: Apache-2.0
//
// NodeRestriction: what a node may write, by what it writes.
#include <stdlib.h>

#include "base/vec.h"
#include "server/auth/nodeauth.h"

#include "base/banned.h"

// A write of a node on its way through the rules.
struct writing {
    struct store *store;
    const struct registry_request *request;
    const struct api_object *object, *old; // see noderestrict
    struct str node;
    struct str name; // of the object
    struct sbuf *why;
};

// The reason is added to w->why.
#define refuse(w, ...) (sbuf_addf((w)->why, __VA_ARGS__), -ERR_FORBIDDEN)

struct labels VEC(struct str);

static const char *noderestrict_operation_name(const struct writing *w)
{
    return !w->object ? "DELETE" : w->old ? "UPDATE" : "CREATE";
}

// --- Pods ----------------------------------------------------------------------------------------

static int noderestrict_check_owner(const struct writing *w,
                                    const struct api_owner_reference_array *owners)
{
    int n = (int)w->node.n;
    const char *p = w->node.p;
    if (owners->n > 1)
        return refuse(
            w, "node \"%.*s\" can only create pods with a single owner reference set to itself", n,
            p);
    const struct api_owner_reference *o = owners->p;
    if (owners->n == 0 || !str_eqz(o->api_version, "v1") || !str_eqz(o->kind, "Node") ||
        !str_eq(o->name, w->node))
        return refuse(w, "node \"%.*s\" can only create pods with an owner reference set to itself",
                      n, p);
    if (!o->controller)
        return refuse(
            w, "node \"%.*s\" can only create pods with a controller owner reference set to itself",
            n, p);
    if (o->block_owner_deletion)
        return refuse(w, "node \"%.*s\" must not set blockOwnerDeletion on an owner reference", n,
                      p);
    const struct store_key key = {api_kind_find(STR("v1"), STR("Node")), STR(""), w->node};
    const struct object *node = store_get(w->store, &key);
    if (!node) {
        sbuf_addf(w->why, "node \"%.*s\" not found", n, p);
        return -ERR_NOT_FOUND;
    }
    if (!str_eq(o->uid, node->uid))
        return refuse(w, "node %.*s UID mismatch: expected %.*s got %.*s", n, p, STR_ARG(o->uid),
                      STR_ARG(node->uid));
    return 0;
}

static int create_pod(const struct writing *w, const struct api_pod *pod)
{
    struct str what;
    if (!pod_is_mirror(pod))
        return refuse(w,
                      "pod does not have \"kubernetes.io/config.mirror\" annotation, node "
                      "\"%.*s\" can only create mirror pods",
                      STR_ARG(w->node));
    if (!str_eq(pod->spec.node_name, w->node))
        return refuse(w, "node \"%.*s\" can only create pods with spec.nodeName set to itself",
                      STR_ARG(w->node));
    int r = noderestrict_check_owner(w, &pod->metadata.owner_references);
    if (r == 0 && pod_asks_api(pod, &what))
        r = refuse(w, "node \"%.*s\" can not create pods that reference %.*s", STR_ARG(w->node),
                   STR_ARG(what));
    return r;
}

static int write_pod(const struct writing *w)
{
    if (w->object && !w->old)
        return create_pod(w, w->object->value);
    if (w->object)
        return refuse(
            w,
            "unexpected operation \"%s\", node \"%.*s\" can only create and delete mirror "
            "pods",
            noderestrict_operation_name(w), STR_ARG(w->node));
    if (!str_eq(((const struct api_pod *)w->old->value)->spec.node_name, w->node))
        return refuse(w, "node \"%.*s\" can only delete pods with spec.nodeName set to itself",
                      STR_ARG(w->node));
    return 0;
}

static bool same_claims(const struct api_pod_resource_claim_status_array *a,
                        const struct api_pod_resource_claim_status_array *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++)
        same = str_eq(a->p[i].name, b->p[i].name) &&
               a->p[i].has_resource_claim_name == b->p[i].has_resource_claim_name &&
               str_eq(a->p[i].resource_claim_name, b->p[i].resource_claim_name);
    return same;
}

// The parts of a status that are not a node's, compared as a whole: the other parts are made equal.
static bool same_but(const struct api_pod_status *a, const struct api_pod_status *b, bool extended)
{
    struct api_pod_status x = {0}, y = {0};
    if (extended) {
        x.extended_resource_claim_status = a->extended_resource_claim_status;
        y.extended_resource_claim_status = b->extended_resource_claim_status;
    } else {
        x.node_allocatable_resource_claim_statuses = a->node_allocatable_resource_claim_statuses;
        y.node_allocatable_resource_claim_statuses = b->node_allocatable_resource_claim_statuses;
    }
    return api_equal(&api_pod_status_type, &x, &y);
}

static bool noderestrict_same_map(const struct api_str_map *a, const struct api_str_map *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++)
        same = str_eq(a->p[i].key, b->p[i].key) && str_eq(a->p[i].value, b->p[i].value);
    return same;
}

static int noderestrict_write_pod_status(const struct writing *w)
{
    if (!w->object || !w->old)
        return refuse(w, "unexpected operation \"%s\"", noderestrict_operation_name(w));
    const struct api_pod *now = w->object->value, *old = w->old->value;
    if (!str_eq(old->spec.node_name, w->node))
        return refuse(w,
                      "node \"%.*s\" can only update pod status for pods with spec.nodeName set to "
                      "itself",
                      STR_ARG(w->node));
    if (!noderestrict_same_map(&now->metadata.labels, &old->metadata.labels))
        return refuse(w, "node \"%.*s\" cannot update labels through pod status", STR_ARG(w->node));
    if (!same_claims(&now->status.resource_claim_statuses, &old->status.resource_claim_statuses))
        return refuse(w, "node \"%.*s\" cannot update resource claim statues", STR_ARG(w->node));
    if (!same_but(&now->status, &old->status, true))
        return refuse(w, "node \"%.*s\" cannot update extended resource claim status",
                      STR_ARG(w->node));
    if (!same_but(&now->status, &old->status, false))
        return refuse(w, "node \"%.*s\" cannot update node allocatable resource claim statuses",
                      STR_ARG(w->node));
    return 0;
}

static int noderestrict_evict_pod(const struct writing *w)
{
    if (!str_eq(((const struct api_pod *)w->old->value)->spec.node_name, w->node))
        return refuse(w, "node %.*s can only evict pods with spec.nodeName set to itself",
                      STR_ARG(w->node));
    return 0;
}

static int any_pod(const struct writing *w)
{
    struct str sub = w->request->subresource;
    if (!sub.n)
        return write_pod(w);
    if (str_eqz(sub, "status"))
        return noderestrict_write_pod_status(w);
    if (str_eqz(sub, "eviction"))
        return noderestrict_evict_pod(w);
    return refuse(w,
                  "unexpected pod subresource \"%.*s\", only 'status' and 'eviction' are allowed",
                  STR_ARG(sub));
}

// --- Nodes ---------------------------------------------------------------------------------------

static bool in_domain(struct str namespace, const char *domain)
{
    struct str d = str_z(domain);
    return str_eq(namespace, d) || (namespace.n > d.n && str_ends(namespace, d) &&
                                    namespace.p[namespace.n - d.n - 1] == '.');
}

static bool may_set(struct str label)
{
    static const char *const own[] = {"kubernetes.io/hostname",
                                      "topology.kubernetes.io/zone",
                                      "topology.kubernetes.io/region",
                                      "failure-domain.beta.kubernetes.io/zone",
                                      "failure-domain.beta.kubernetes.io/region",
                                      "beta.kubernetes.io/instance-type",
                                      "node.kubernetes.io/instance-type",
                                      "kubernetes.io/os",
                                      "kubernetes.io/arch",
                                      "beta.kubernetes.io/os",
                                      "beta.kubernetes.io/arch"};
    struct str namespace, rest;
    if (!str_cut(label, '/', &namespace, &rest))
        return true;
    if (in_domain(namespace, "node-restriction.kubernetes.io"))
        return false;
    if (!in_domain(namespace, "kubernetes.io") && !in_domain(namespace, "k8s.io"))
        return true;
    for (size_t i = 0; i < array_len(own); i++)
        if (str_eqz(label, own[i]))
            return true;
    return in_domain(namespace, "kubelet.kubernetes.io") ||
           in_domain(namespace, "node.kubernetes.io");
}

// Adds the labels of a that b does not have, or not so, and that are not a node's to set.
static void add_forbidden(const struct api_str_map *a, const struct api_str_map *b,
                          struct labels *out)
{
    for (size_t i = 0, k = 0; i < a->n; i++) { // both are sorted by key
        while (k < b->n && str_cmp(b->p[k].key, a->p[i].key) < 0)
            k++;
        bool same =
            k < b->n && str_eq(a->p[i].key, b->p[k].key) && str_eq(a->p[i].value, b->p[k].value);
        if (!same && !may_set(a->p[i].key))
            vec_push(out, a->p[i].key);
    }
}

// The labels that differ and must not, in order, each once; empty when there are none.
static void forbidden_labels(const struct api_str_map *now, const struct api_str_map *old,
                             struct sbuf *out)
{
    struct labels list = {0};
    add_forbidden(now, old, &list);
    add_forbidden(old, now, &list);
    if (list.n)
        qsort(list.p, list.n, sizeof(*list.p), str_cmp_elements);
    for (size_t i = 0; i < list.n; i++) {
        if (i && str_eq(list.p[i], list.p[i - 1]))
            continue;
        sbuf_addz(out, out->n ? ", " : "");
        sbuf_add(out, list.p[i]);
    }
    vec_done(&list);
}

static int noderestrict_change_node(const struct writing *w, const struct api_node *now,
                                    const struct api_node *old)
{
    struct api_node_spec a = {.config_source = now->spec.config_source};
    struct api_node_spec b = {.config_source = old->spec.config_source};
    if (a.config_source && !api_equal(&api_node_spec_type, &a, &b))
        return refuse(
            w, "node \"%.*s\" is not allowed to update configSource to a new non-nil configSource",
            STR_ARG(w->node));
    a = (struct api_node_spec){.taints = now->spec.taints};
    b = (struct api_node_spec){.taints = old->spec.taints};
    if (!api_equal(&api_node_spec_type, &a, &b))
        return refuse(w, "node \"%.*s\" is not allowed to modify taints", STR_ARG(w->node));
    struct api_object_meta x = {.owner_references = now->metadata.owner_references};
    struct api_object_meta y = {.owner_references = old->metadata.owner_references};
    if (!api_equal(&api_object_meta_type, &x, &y))
        return refuse(w, "node \"%.*s\" is not allowed to modify ownerReferences",
                      STR_ARG(w->node));
    cleanup_sbuf struct sbuf labels = {0};
    forbidden_labels(&now->metadata.labels, &old->metadata.labels, &labels);
    if (labels.n)
        return refuse(w, "is not allowed to modify labels: %.*s", STR_ARG(sbuf_str(&labels)));
    return 0;
}

static int any_node(const struct writing *w)
{
    static const struct api_str_map none;
    if (!str_eq(w->name, w->node))
        return refuse(w, "node \"%.*s\" is not allowed to modify node \"%.*s\"", STR_ARG(w->node),
                      STR_ARG(w->name));
    if (!w->object)
        return 0;
    const struct api_node *now = w->object->value;
    if (w->old)
        return noderestrict_change_node(w, now, w->old->value);
    if (now->spec.config_source)
        return refuse(w, "node \"%.*s\" is not allowed to create pods with a non-nil configSource",
                      STR_ARG(w->node));
    cleanup_sbuf struct sbuf labels = {0};
    forbidden_labels(&now->metadata.labels, &none, &labels);
    if (labels.n)
        return refuse(w, "node \"%.*s\" is not allowed to set the following labels: %.*s",
                      STR_ARG(w->node), STR_ARG(sbuf_str(&labels)));
    return 0;
}

// --- Others --------------------------------------------------------------------------------------

static int any_volume_claim(const struct writing *w)
{
    if (!str_eqz(w->request->subresource, "status"))
        return refuse(w, "may only update PVC status");
    if (!w->object || !w->old)
        return refuse(w, "unexpected operation \"%s\"", noderestrict_operation_name(w));
    struct api_persistent_volume_claim now =
        *(const struct api_persistent_volume_claim *)w->object->value;
    const struct api_persistent_volume_claim *old = w->old->value;
    // What a node may change, and what the server does, is made equal.
    now.metadata.resource_version = old->metadata.resource_version;
    now.metadata.managed_fields = old->metadata.managed_fields;
    now.status.capacity = old->status.capacity;
    now.status.conditions = old->status.conditions;
    now.status.allocated_resources = old->status.allocated_resources;
    now.status.allocated_resource_statuses = old->status.allocated_resource_statuses;
    if (!api_equal(w->old->kind->type, &now, old))
        return refuse(
            w,
            "node \"%.*s\" is not allowed to update fields other than status.quantity and "
            "status.conditions",
            STR_ARG(w->node));
    return 0;
}

static int any_lease(const struct writing *w)
{
    if (!str_eqz(w->request->namespace, "kube-node-lease"))
        return refuse(w, "can only access leases in the \"kube-node-lease\" system namespace");
    if (!str_eq(w->name, w->node))
        return refuse(w, "can only access node lease with the same name as the requesting node");
    return 0;
}

static int any_csi_node(const struct writing *w)
{
    if (!str_eq(w->name, w->node))
        return refuse(w, "can only access CSINode with the same name as the requesting node");
    if (str_eqz(w->request->subresource, "status"))
        return refuse(w, "CSIVolumeHealth feature gate is disabled");
    return 0;
}

static int any_slice(const struct writing *w)
{
    if (w->object && w->old)
        return 0; // the authorizer has looked at it, and its node cannot change
    const struct api_object *o = w->object ? w->object : w->old;
    if (!str_eq(((const struct api_resource_slice *)o->value)->spec.node_name, w->node))
        return refuse(w, "can only %s ResourceSlice with the same NodeName as the requesting node",
                      w->object ? "create" : "delete");
    return 0;
}

int noderestrict_check(struct store *store, const struct registry_request *request,
                       const struct api_object *object, const struct api_object *old,
                       struct sbuf *why)
{
    static const struct {
        const struct api_type *type;
        int (*write)(const struct writing *w);
    } kinds[] = {
        {&api_pod_type, any_pod},           {&api_node_type, any_node},
        {&api_lease_type, any_lease},       {&api_persistent_volume_claim_type, any_volume_claim},
        {&api_csi_node_type, any_csi_node}, {&api_resource_slice_type, any_slice},
    };
    struct writing w = {
        .store = store, .request = request, .object = object, .old = old, .why = why};
    if (!nodeauth_node(request->user, &w.node))
        return 0;
    if (!w.node.n)
        return refuse(&w, "could not determine node from user \"%.*s\"",
                      STR_ARG(request->user->name));
    // An eviction is about a pod.
    const struct api_object *about = old ? old : object;
    w.name = request->name.n ? request->name : api_object_meta(about)->name;
    for (size_t i = 0; i < array_len(kinds); i++)
        if (about->kind->type == kinds[i].type)
            return kinds[i].write(&w);
    return 0;
}

// --- Tokens --------------------------------------------------------------------------------------

// Whether something that a pod mounts asks for an audience, and what could not be found on the way.
struct search {
    struct store *store;
    const struct api_pod *pod;
    struct str audience;
    struct arena arena;
    struct labels missing; // messages, in arena
};

static bool noderestrict_find_object(struct search *s, const char *version, const char *kind,
                                     struct str namespace, struct str name, struct api_object *ret)
{
    const struct store_key key = {api_kind_find(str_z(version), str_z(kind)), namespace, name};
    const struct object *o = store_get(s->store, &key);
    if (o && registry_decode(o, key.kind, &s->arena, ret, NULL) == 0)
        return true;
    struct sbuf text = {0};
    for (const char *c = kind; *c; c++)
        sbuf_addc(&text, (char)(*c | 0x20));
    if (key.kind->group.n)
        sbuf_addf(&text, ".%.*s", STR_ARG(key.kind->group));
    sbuf_addf(&text, " \"%.*s\" not found", STR_ARG(name));
    struct str message = arena_str(&s->arena, sbuf_str(&text));
    sbuf_done(&text);
    for (size_t i = 0; i < s->missing.n; i++)
        if (str_eq(s->missing.p[i], message))
            return false;
    vec_push_arena(&s->arena, &s->missing, message);
    return false;
}

static bool driver_asks(struct search *s, struct str driver)
{
    struct api_object o;
    if (!driver.n ||
        !noderestrict_find_object(s, "storage.k8s.io/v1", "CSIDriver", STR(""), driver, &o))
        return false;
    const struct api_csi_driver *d = o.value;
    for (size_t i = 0; i < d->spec.token_requests.n; i++)
        if (str_eq(d->spec.token_requests.p[i].audience, s->audience))
            return true;
    return false;
}

// The CSI driver of the volume that a claim is bound to; empty when there is none.
static struct str driver_of(struct search *s, struct str claim)
{
    struct api_object o;
    if (!noderestrict_find_object(s, "v1", "PersistentVolumeClaim", s->pod->metadata.namespace,
                                  claim, &o))
        return STR("");
    const struct api_persistent_volume_claim *c = o.value;
    if (!noderestrict_find_object(s, "v1", "PersistentVolume", STR(""), c->spec.volume_name, &o))
        return STR("");
    const struct api_persistent_volume *v = o.value;
    const struct api_csi_persistent_volume_source *csi = v->spec.persistent_volume_source.csi;
    return csi ? csi->driver : STR("");
}

static bool noderestrict_volume_requests_token(struct search *s, const struct api_volume *volume)
{
    const struct api_volume_source *v = &volume->volume_source;
    for (size_t i = 0; v->projected && i < v->projected->sources.n; i++) {
        const struct api_service_account_token_projection *t =
            v->projected->sources.p[i].service_account_token;
        if (t && str_eq(t->audience, s->audience))
            return true;
    }
    struct str driver = v->csi ? v->csi->driver : STR("");
    if (v->persistent_volume_claim)
        driver = driver_of(s, v->persistent_volume_claim->claim_name);
    else if (v->ephemeral)
        driver = driver_of(s, arena_strf(&s->arena, "%.*s-%.*s", STR_ARG(s->pod->metadata.name),
                                         STR_ARG(volume->name)));
    return driver_asks(s, driver);
}

static int refuse_missing(const struct writing *w, const struct search *s)
{
    sbuf_addf(w->why, "error validating audience \"%.*s\": ", STR_ARG(s->audience));
    for (size_t i = 0; i < s->missing.n; i++)
        sbuf_addf(w->why, "%s%.*s",
                  i                  ? ", "
                  : s->missing.n > 1 ? "["
                                     : "",
                  STR_ARG(s->missing.p[i]));
    return refuse(w, "%s", s->missing.n > 1 ? "]" : "");
}

static int check_audience(const struct writing *w, const struct api_pod *pod,
                          const struct api_str_array *audiences,
                          bool (*allows)(void *arg, const struct access *q), void *arg)
{
    struct search s = {.store = w->store, .pod = pod};
    if (audiences->n > 1)
        return refuse(w, "node may only request 0 or 1 audiences");
    struct str audience = s.audience = audiences->n ? audiences->p[0] : STR("");
    bool asked = false;
    for (size_t i = 0; !asked && i < pod->spec.volumes.n; i++)
        asked = noderestrict_volume_requests_token(&s, &pod->spec.volumes.p[i]);
    int r = asked || !s.missing.n ? 0 : refuse_missing(w, &s);
    arena_done(&s.arena);
    if (asked || r < 0)
        return r;
    const struct access q = {.user = w->request->user,
                             .verb = STR("request-serviceaccounts-token-audience"),
                             .namespace = w->request->namespace,
                             .resource = audience,
                             .name = w->request->name};
    if (allows(arg, &q))
        return 0;
    return refuse(w, "%.*s is not authorized to request tokens for audience \"%.*s\"",
                  STR_ARG(w->request->user->name), STR_ARG(audience));
}

int noderestrict_token(struct store *store, const struct registry_request *request,
                       const struct api_token_request *token,
                       bool (*allows)(void *arg, const struct access *q), void *arg,
                       struct sbuf *why)
{
    cleanup_arena struct arena arena = {0};
    struct writing w = {.store = store, .request = request, .why = why};
    const struct api_bound_object_reference *ref = token->spec.bound_object_ref;
    struct api_object object;
    if (!nodeauth_node(request->user, &w.node))
        return 0;
    if (!w.node.n)
        return refuse(&w, "could not determine node from user \"%.*s\"",
                      STR_ARG(request->user->name));
    if (!ref || !str_eqz(ref->api_version, "v1") || !str_eqz(ref->kind, "Pod") || !ref->name.n)
        return refuse(&w, "node requested token not bound to a pod");
    if (!ref->uid.n)
        return refuse(&w, "node requested token with a pod binding without a uid");
    const struct store_key key = {api_kind_find(STR("v1"), STR("Pod")), request->namespace,
                                  ref->name};
    const struct object *o = store_get(store, &key);
    if (!o || registry_decode(o, key.kind, &arena, &object, NULL) < 0) {
        sbuf_addf(why, "pod \"%.*s\" not found", STR_ARG(ref->name));
        return -ERR_NOT_FOUND;
    }
    const struct api_pod *pod = object.value;
    if (!str_eq(ref->uid, pod->metadata.uid))
        return refuse(&w,
                      "the UID in the bound object reference (%.*s) does not match the UID in "
                      "record. The object might have been deleted and then recreated",
                      STR_ARG(ref->uid));
    if (!str_eq(pod->spec.node_name, w.node))
        return refuse(&w, "node requested token bound to a pod scheduled on a different node");
    return check_audience(&w, pod, &token->spec.audiences, allows, arg);
}
