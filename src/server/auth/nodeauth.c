// SPDX-License-Identifier: Apache-2.0
//
// The node authorizer: a node reads and writes its own objects and what its pods name, as
// upstream's graph authorizer decides it.
#include "server/auth/nodeauth.h"

#include <stdlib.h>

#include "base/mem.h"
#include "server/auth/roles.h"

#include "base/banned.h"

static const struct str prefix = STR_INIT("system:node:");

struct nodeauth {
    struct store *store;
    struct kinship *kinship;
    struct arena arena;
    struct api_policy_rule_array rules; // of system:node, as they come with the program
};

bool nodeauth_node(const struct registry_user *user, struct str *ret)
{
    if (!user || !str_starts(user->name, prefix))
        return false;
    for (size_t i = 0; i < user->groups_len; i++) {
        if (!str_eqz(user->groups[i], "system:nodes"))
            continue;
        *ret = str_from(user->name, prefix.n);
        return true;
    }
    return false;
}

// --- Words ---------------------------------------------------------------------------------------

// A question of a node on its way through the rules.
struct asking {
    const struct nodeauth *n;
    const struct access *q;
    struct str node;
    struct sbuf *why; // may be NULL
};

static bool nodeauth_refuse(const struct asking *a, const char *reason)
{
    if (a->why)
        sbuf_addz(a->why, reason);
    return false;
}

static bool verb_in(const struct access *q, const char *verbs)
{
    struct str rest = str_z(verbs), one;
    while (rest.n) {
        str_cut(rest, ' ', &one, &rest);
        if (str_eq(one, q->verb))
            return true;
    }
    return false;
}

static bool nodeauth_refuse_unrelated(const struct asking *a)
{
    if (a->why)
        sbuf_addf(a->why, "no relationship found between node '%.*s' and this object",
                  STR_ARG(a->node));
    return false;
}

// --- What the pods of a node need ----------------------------------------------------------------

static bool is_kin(const struct asking *a, enum kin kin)
{
    if (!a->q->name.n)
        return nodeauth_refuse(a, "No Object name found");
    return kinship_has(a->n->kinship, kin, a->q->namespace, a->q->name, a->node) ||
           nodeauth_refuse_unrelated(a);
}

// The typed form of an object that names its node itself.
static bool nodeauth_decode_object(const struct asking *a, const char *version, const char *kind,
                                   struct arena *arena, struct api_object *ret)
{
    const struct store_key key = {api_kind_find(str_z(version), str_z(kind)), STR(""), a->q->name};
    const struct object *o = store_get(a->n->store, &key);
    return o && registry_decode(o, key.kind, arena, ret, NULL) == 0;
}

static bool field_is_node(const struct asking *a, const char *version, const char *kind)
{
    struct str node = {0};
    if (!a->q->name.n)
        return nodeauth_refuse(a, "No Object name found");
    const struct store_key key = {api_kind_find(str_z(version), str_z(kind)), a->q->namespace,
                                  a->q->name};
    const struct object *o = store_get(a->n->store, &key);
    return (o && object_field(o, STR("spec.nodeName"), &node) && str_eq(node, a->node)) ||
           nodeauth_refuse_unrelated(a);
}

static bool is_get(const struct asking *a)
{
    if (!verb_in(a->q, "get"))
        return nodeauth_refuse(a, "can only get individual resources of this type");
    return a->q->subresource.n ? nodeauth_refuse(a, "cannot get subresource") : true;
}

static bool nodeauth_read_related(const struct asking *a, enum kin kin)
{
    if (!verb_in(a->q, "get list watch"))
        return nodeauth_refuse(a, "can only read resources of this type");
    if (a->q->subresource.n)
        return nodeauth_refuse(a, "cannot read subresource");
    if (!a->q->namespace.n)
        return nodeauth_refuse(a, "can only read namespaced object of this type");
    return is_kin(a, kin);
}

static bool ask_secret(const struct asking *a)
{
    return nodeauth_read_related(a, KIN_SECRET);
}

static bool ask_config_map(const struct asking *a)
{
    return nodeauth_read_related(a, KIN_CONFIG_MAP);
}

static bool ask_volume_claim(const struct asking *a)
{
    if (!str_eqz(a->q->subresource, "status"))
        return is_get(a) && is_kin(a, KIN_VOLUME_CLAIM);
    if (!verb_in(a->q, "update patch"))
        return nodeauth_refuse(a, "can only get/update/patch this type");
    return is_kin(a, KIN_VOLUME_CLAIM);
}

static bool ask_volume(const struct asking *a)
{
    cleanup_arena struct arena arena = {0};
    struct api_object o;
    if (!is_get(a))
        return false;
    if (!a->q->name.n)
        return nodeauth_refuse(a, "No Object name found");
    return (nodeauth_decode_object(a, "v1", "PersistentVolume", &arena, &o) &&
            kinship_has_volume(a->n->kinship, o.value, a->node)) ||
           nodeauth_refuse_unrelated(a);
}

static bool ask_resource_claim(const struct asking *a)
{
    return is_get(a) && is_kin(a, KIN_RESOURCE_CLAIM);
}

static bool ask_attachment(const struct asking *a)
{
    cleanup_arena struct arena arena = {0};
    struct api_object o;
    if (!is_get(a))
        return false;
    if (!a->q->name.n)
        return nodeauth_refuse(a, "No Object name found");
    return (nodeauth_decode_object(a, "storage.k8s.io/v1", "VolumeAttachment", &arena, &o) &&
            str_eq(((const struct api_volume_attachment *)o.value)->spec.node_name, a->node)) ||
           nodeauth_refuse_unrelated(a);
}

static bool ask_account(const struct asking *a)
{
    const struct access *q = a->q;
    if (verb_in(q, "get") && !q->subresource.n)
        return nodeauth_read_related(a, KIN_ACCOUNT);
    if (!verb_in(q, "create") || !q->name.n)
        return nodeauth_refuse(a, "can only create tokens for individual service accounts");
    if (!str_eqz(q->subresource, "token"))
        return nodeauth_refuse(a, "can only create token subresource of serviceaccount");
    return is_kin(a, KIN_ACCOUNT);
}

// --- What is a node's own ------------------------------------------------------------------------

static bool ask_lease(const struct asking *a)
{
    if (!verb_in(a->q, "get create update patch delete"))
        return nodeauth_refuse(a, "can only get, create, update, patch, or delete a node lease");
    if (!str_eqz(a->q->namespace, "kube-node-lease"))
        return nodeauth_refuse(
            a, "can only access leases in the \"kube-node-lease\" system namespace");
    // The name of what is created is not known here; NodeRestriction looks at it.
    if (!verb_in(a->q, "create") && !str_eq(a->q->name, a->node))
        return nodeauth_refuse(
            a, "can only access node lease with the same name as the requesting node");
    return true;
}

static bool ask_csi_node(const struct asking *a)
{
    if (str_eqz(a->q->subresource, "status"))
        return nodeauth_refuse(a, "CSINode status access requires CSIVolumeHealth feature");
    if (a->q->subresource.n)
        return nodeauth_refuse(a, "cannot authorize CSINode subresources");
    if (!verb_in(a->q, "get create update patch delete"))
        return nodeauth_refuse(a, "can only get, create, update, patch, or delete a CSINode");
    if (!verb_in(a->q, "create") && !str_eq(a->q->name, a->node))
        return nodeauth_refuse(a,
                               "can only access CSINode with the same name as the requesting node");
    return true;
}

static bool selects_itself(const struct asking *a)
{
    return a->q->selected_node.n && str_eq(a->q->selected_node, a->node);
}

static bool ask_slice(const struct asking *a)
{
    if (a->q->subresource.n)
        return nodeauth_refuse(a, "cannot authorize ResourceSlice subresources");
    if (verb_in(a->q, "create"))
        return true; // NodeRestriction looks at its node
    if (verb_in(a->q, "get update patch delete"))
        return field_is_node(a, "resource.k8s.io/v1", "ResourceSlice");
    if (!verb_in(a->q, "watch list deletecollection"))
        return nodeauth_refuse(
            a, "only the following verbs are allowed for a ResourceSlice: get, watch, list, "
               "create, update, patch, delete, deletecollection");
    return selects_itself(a) ||
           nodeauth_refuse(
               a, "can only list/watch/deletecollection resourceslices with nodeName field "
                  "selector");
}

static bool ask_certificate(const struct asking *a)
{
    const struct access *q = a->q;
    if (q->subresource.n)
        return nodeauth_refuse(
            a, "nodes may not access the status subresource of PodCertificateRequests");
    if (verb_in(q, "create"))
        return true;
    if (verb_in(q, "get")) // there are none here
        return q->name.n ? nodeauth_refuse_unrelated(a)
                         : nodeauth_refuse(a, "No Object name found");
    if (verb_in(q, "list watch"))
        return selects_itself(a) ||
               nodeauth_refuse(
                   a, "can only list/watch podcertificaterequests with nodeName field selector");
    if (a->why)
        sbuf_addf(a->why, "nodes may not %.*s podcertificaterequests", STR_ARG(q->verb));
    return false;
}

static bool nodeauth_check_node(const struct asking *a)
{
    const struct access *q = a->q;
    if (str_eqz(q->subresource, "status"))
        return verb_in(q, "update patch");
    if (q->subresource.n)
        return false;
    if (verb_in(q, "create update patch"))
        return true; // NodeRestriction looks at its name
    if (!verb_in(q, "get list watch") || str_eq(q->name, a->node))
        return verb_in(q, "get list watch");
    if (a->why && q->name.n)
        sbuf_addf(a->why, "node '%.*s' cannot read '%.*s', only its own Node object",
                  STR_ARG(a->node), STR_ARG(q->name));
    else if (a->why)
        sbuf_addf(a->why, "node '%.*s' cannot read all nodes, only its own Node object",
                  STR_ARG(a->node));
    return false;
}

static bool ask_pod(const struct asking *a)
{
    const struct access *q = a->q;
    if (str_eqz(q->subresource, "status"))
        return verb_in(q, "update patch"); // NodeRestriction looks at its pod, here and below
    if (str_eqz(q->subresource, "eviction"))
        return verb_in(q, "create");
    if (q->subresource.n)
        return false;
    if (verb_in(q, "create delete"))
        return true;
    if (verb_in(q, "get"))
        return field_is_node(a, "v1", "Pod");
    if (!verb_in(q, "list watch"))
        return false;
    if (selects_itself(a))
        return true;
    return q->name.n
               ? field_is_node(a, "v1", "Pod")
               : nodeauth_refuse(a, "can only list/watch pods with spec.nodeName field selector");
}

// --- All of them ---------------------------------------------------------------------------------

static const struct subject {
    const char *group, *resource;
    bool (*ask)(const struct asking *a);
} subjects[] = {
    {"", "secrets", ask_secret},
    {"", "configmaps", ask_config_map},
    {"", "persistentvolumeclaims", ask_volume_claim},
    {"", "persistentvolumes", ask_volume},
    {"resource.k8s.io", "resourceclaims", ask_resource_claim},
    {"storage.k8s.io", "volumeattachments", ask_attachment},
    {"", "serviceaccounts", ask_account},
    {"coordination.k8s.io", "leases", ask_lease},
    {"storage.k8s.io", "csinodes", ask_csi_node},
    {"resource.k8s.io", "resourceslices", ask_slice},
    {"", "nodes", nodeauth_check_node},
    {"", "pods", ask_pod},
    {"certificates.k8s.io", "podcertificaterequests", ask_certificate},
};

bool nodeauth_allows(const struct nodeauth *n, const struct access *q, struct sbuf *why)
{
    struct asking a = {.n = n, .q = q, .why = why};
    if (!nodeauth_node(q->user, &a.node))
        return false;
    if (!a.node.n) {
        if (why)
            sbuf_addf(why, "unknown node for user \"%.*s\"", STR_ARG(q->user->name));
        return false;
    }
    for (size_t i = 0; !q->path.n && i < array_len(subjects); i++)
        if (str_eqz(q->group, subjects[i].group) && str_eqz(q->resource, subjects[i].resource))
            return subjects[i].ask(&a);
    for (size_t i = 0; i < n->rules.n; i++)
        if (rbac_rule_allows(&n->rules.p[i], q))
            return true;
    return false;
}

static void take_rules(void *arg, const struct api_object *object)
{
    struct nodeauth *n = arg;
    const struct api_cluster_role *role = object->value;
    if (object->kind->type == &api_cluster_role_type && str_eqz(role->metadata.name, "system:node"))
        n->rules = role->rules;
}

struct nodeauth *nodeauth_new(struct store *store)
{
    struct nodeauth *n = xcalloc(1, sizeof(*n));
    n->store = store;
    n->kinship = kinship_new(store);
    int r = roles_parse(roles_policy, &n->arena, take_rules, n, NULL);
    assert(r == 0 && n->rules.n); // it comes with the program, and a test reads it
    (void)r;
    return n;
}

void nodeauth_free(struct nodeauth *n)
{
    if (!n)
        return;
    kinship_free(n->kinship);
    arena_done(&n->arena);
    free(n);
}
