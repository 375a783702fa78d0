// SPDX-License-Identifier: Apache-2.0
//
// Volumes that are made for claims. Those of dray's own provisioner are folders on the node that
// the scheduler has chosen; the agent there makes them. All others are left to their provisioners,
// who look for the annotation.
#include "api/amounts.h"
#include "api/match/claim.h"
#include "ctl/volume/volume_int.h"

#include "base/banned.h"

#define PROVISIONER        "volume.kubernetes.io/storage-provisioner"
#define PROVISIONER_BEFORE "volume.beta.kubernetes.io/storage-provisioner"
#define HOSTNAME           "kubernetes.io/hostname"

static void volume_provision_reject_claim(struct volume_ctl *c, struct str key,
                                          const struct typed_object *claim, const char *why)
{
    volume_tell(c, claim, EVENT_WARNING, "ProvisioningFailed", why);
    work_done(c->work, key);
}

static void volume_provision_annotate_claim(struct volume_ctl *c, struct str key,
                                            const struct typed_object *claim,
                                            const struct api_storage_class *class)
{
    cleanup_arena struct arena arena = {0};
    struct api_persistent_volume_claim changed = *as_storage_claim(claim);
    struct api_str_map *notes = &changed.metadata.annotations;
    meta_map_put(notes, STR(PROVISIONER_BEFORE), class->provisioner, &arena);
    meta_map_put(notes, STR(PROVISIONER), class->provisioner, &arena);
    volume_write(c, key, CACHE_VOLUME_CLAIMS, &changed);
}

// The node is gone: the scheduler shall choose another.
static void forget_node(struct volume_ctl *c, struct str key, const struct typed_object *claim)
{
    cleanup_arena struct arena arena = {0};
    struct api_persistent_volume_claim changed = *as_storage_claim(claim);
    meta_map_drop(&changed.metadata.annotations, STR(STORAGE_SELECTED_NODE), &arena);
    volume_write(c, key, CACHE_VOLUME_CLAIMS, &changed);
}

// --- dray's own ----------------------------------------------------------------------------------

// The server may refuse the volume, such as one whose class names a path that is none: who waits
// for it must learn that.
static void volume_provision_record_failure(struct volume_ctl *c, struct str key,
                                            const struct err *err)
{
    struct str namespace, name;
    str_cut(str_from(key, 2), '/', &namespace, &name);
    const struct typed_object *claim = ctl_find(c->ctl, CACHE_VOLUME_CLAIMS, namespace, name);
    if (claim)
        volume_tell(c, claim, EVENT_WARNING, "ProvisioningFailed", err->msg);
}

static void volume_provision_on_created(const struct ctl_call *call, const struct client_answer *a)
{
    struct volume_ctl *c = call->owner;
    cleanup_sbuf struct sbuf text = {0};
    if (a->code != 0 && a->code != -ERR_ALREADY_EXISTS)
        volume_provision_record_failure(c, call->key, a->err);
    if (a->code != 0 || !a->object)
        return;
    sbuf_addf(&text, "Successfully provisioned volume %.*s", STR_ARG(a->object->meta->name));
    events_record_ref(c->events, as_volume(a->object)->spec.claim_ref, EVENT_NORMAL,
                      STR("ProvisioningSucceeded"), sbuf_str(&text));
}

static struct api_volume_node_affinity *only_on(struct str host, struct arena *arena)
{
    struct api_volume_node_affinity *affinity = arena_one(arena, struct api_volume_node_affinity);
    struct api_node_selector_requirement *r =
        arena_one(arena, struct api_node_selector_requirement);
    struct api_node_selector_term *term = arena_one(arena, struct api_node_selector_term);
    struct str *value = arena_one(arena, struct str);
    *value = host;
    r->key = STR(HOSTNAME);
    r->operator= STR("In");
    r->values = (struct api_str_array){value, 1};
    term->match_expressions = (struct api_node_selector_requirement_array){r, 1};
    affinity->required = arena_one(arena, struct api_node_selector);
    affinity->required->node_selector_terms = (struct api_node_selector_term_array){term, 1};
    return affinity;
}

// The volume is named after the claim's UID: made once, however often it is tried.
static struct api_persistent_volume volume_for(const struct api_persistent_volume_claim *claim,
                                               const struct api_storage_class *class,
                                               struct str host, struct arena *arena)
{
    struct str name = arena_strf(arena, "pvc-%.*s", STR_ARG(claim->metadata.uid));
    const struct str *base = api_map_find(&class->parameters, STR(STORAGE_LOCAL_PATH));
    struct str folder = base ? *base : STR(STORAGE_LOCAL_FOLDER);
    struct api_host_path_volume_source *path = arena_one(arena, struct api_host_path_volume_source);
    struct api_object_reference *ref = arena_one(arena, struct api_object_reference);
    // A folder in a folder: the outer one is closed to others on the node, whatever the class's
    // path lets in.
    *path = (struct api_host_path_volume_source){.path = arena_strf(arena, "%.*s/%.*s/data",
                                                                    STR_ARG(folder), STR_ARG(name)),
                                                 .type = STR("DirectoryOrCreate"),
                                                 .has_type = true};
    *ref = (struct api_object_reference){.kind = STR("PersistentVolumeClaim"),
                                         .api_version = STR("v1"),
                                         .namespace = claim->metadata.namespace,
                                         .name = claim->metadata.name,
                                         .uid = claim->metadata.uid,
                                         .resource_version = claim->metadata.resource_version};
    struct api_persistent_volume v = {.metadata = {.name = name}};
    v.spec = (struct api_persistent_volume_spec){
        .persistent_volume_source = {.host_path = path},
        .access_modes = claim->spec.access_modes,
        .claim_ref = ref,
        .persistent_volume_reclaim_policy =
            class->has_reclaim_policy ? class->reclaim_policy : STR("Delete"),
        .storage_class_name = class->metadata.name,
        .node_affinity = only_on(host, arena)};
    amounts_set(&v.spec.capacity, STR("storage"),
                amounts_get(&claim->spec.resources.requests, STR("storage")), arena);
    meta_map_put(&v.metadata.annotations, STR(STORAGE_PROVISIONED_BY), STR(STORAGE_LOCAL), arena);
    return v;
}

// What a folder on one node cannot be.
static const char *volume_provision_why_impossible(const struct api_persistent_volume_claim *claim,
                                                   const struct api_storage_class *class)
{
    const struct str *base = api_map_find(&class->parameters, STR(STORAGE_LOCAL_PATH));
    if (claim->spec.selector)
        return "claim.Spec.Selector is not supported for dynamic provisioning";
    if (claim->spec.has_volume_mode && !str_eqz(claim->spec.volume_mode, "Filesystem"))
        return STORAGE_LOCAL " makes folders, not raw block volumes: use volumeMode Filesystem";
    if (claim->spec.data_source || claim->spec.data_source_ref)
        return STORAGE_LOCAL " cannot fill a volume from a dataSource";
    if (api_str_listed(&claim->spec.access_modes, STR("ReadWriteMany")) ||
        api_str_listed(&claim->spec.access_modes, STR("ReadOnlyMany")))
        return STORAGE_LOCAL " makes volumes on one node: use ReadWriteOnce or ReadWriteOncePod";
    if (base && (!str_starts(*base, STR("/")) || str_contains(*base, STR("/../")) ||
                 str_ends(*base, STR("/.."))))
        return "the StorageClass's parameter " STORAGE_LOCAL_PATH
               " must be an absolute path without \"..\"";
    return NULL;
}

static void make_local(struct volume_ctl *c, struct str key, const struct typed_object *claim,
                       const struct api_storage_class *class)
{
    cleanup_arena struct arena arena = {0};
    const char *why = volume_provision_why_impossible(as_storage_claim(claim), class);
    struct str name = meta_annotation(claim->meta, STR(STORAGE_SELECTED_NODE));
    const struct typed_object *node = ctl_find(c->ctl, CACHE_NODES, STR(""), name);
    if (!why && !name.n)
        why = "a volume of " STORAGE_LOCAL " lies on one node: its StorageClass needs "
              "volumeBindingMode WaitForFirstConsumer";
    if (why || !node) {
        if (why)
            volume_provision_reject_claim(c, key, claim, why);
        else
            forget_node(c, key, claim);
        return;
    }
    const struct str *host = api_map_find(&node->meta->labels, STR(HOSTNAME));
    struct api_persistent_volume v =
        volume_for(as_storage_claim(claim), class, host ? *host : name, &arena);
    const struct api_object object = {ctl_kind(CACHE_VOLUMES), &v};
    struct ctl_call *call = ctl_call_new(&c->calls, c->work, key, CACHE_VOLUMES);
    call->ended = volume_provision_on_created;
    call->owner = c;
    api_set_type_meta(&object);
    client_create(c->ctl->client, &object, NULL, ctl_call_done, call);
}

// --- All -----------------------------------------------------------------------------------------

void volume_provision(struct volume_ctl *c, struct str key, const struct typed_object *claim)
{
    struct str name = volume_claim_class(as_storage_claim(claim));
    const struct api_storage_class *class =
        maybe_storage_class(ctl_find(c->ctl, CACHE_STORAGE_CLASSES, STR(""), name));
    cleanup_sbuf struct sbuf why = {0};
    if (!class) {
        sbuf_addf(&why, "storageclass.storage.k8s.io \"%.*s\" not found", STR_ARG(name));
        volume_provision_reject_claim(c, key, claim, why.p);
    } else if (str_starts(class->provisioner, STR("kubernetes.io/"))) {
        sbuf_addf(&why, "no volume plugin matched name: %.*s", STR_ARG(class->provisioner));
        volume_provision_reject_claim(c, key, claim, why.p);
    } else if (!str_eq(meta_annotation(claim->meta, STR(PROVISIONER)), class->provisioner)) {
        volume_provision_annotate_claim(c, key, claim, class);
    } else if (str_eqz(class->provisioner, STORAGE_LOCAL)) {
        make_local(c, key, claim, class);
    } else {
        sbuf_addf(&why,
                  "Waiting for a volume to be created either by the external provisioner '%.*s' or "
                  "manually by the system administrator. If volume creation is delayed, please "
                  "verify that the provisioner is running and correctly registered.",
                  STR_ARG(class->provisioner));
        volume_tell(c, claim, EVENT_NORMAL, "ExternalProvisioning", why.p);
        work_done(c->work, key);
    }
}
