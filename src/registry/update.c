// SPDX-License-Identifier: Apache-2.0
//
// Updates of objects, their status and their other parts.
#include "registry/stage_int.h"

#include "base/banned.h"

static bool may_omit_version(const struct op *op)
{
    // Old versions of this kind did without, and must go on to.
    if (op->stored->type == &api_device_taint_rule_type)
        return str_eqz(op->request->kind->version, "v1beta2") ||
               str_eqz(op->request->kind->version, "v1alpha3");
    return !(op->rules->flags & KIND_CONDITIONAL);
}

static int fail_without_version(struct op *op, struct str name)
{
    struct causes causes = {.arena = op->arena};
    struct path root = path_root(STR("metadata")), at = path_field(&root, STR("resourceVersion"));
    cause_invalid_i64(&causes, &at, 0, STR("must be specified for an update"));
    return fail_invalid(op, op_subject(op, name), &causes);
}

static int update_check_versions(struct op *op, struct api_object_meta *meta,
                                 const struct object *old)
{
    uint64_t version = 0;
    if (meta->resource_version.n) {
        int r = str_to_u64(meta->resource_version, &version);
        cleanup_sbuf struct sbuf shown = {0};
        sbuf_add_quoted(&shown, meta->resource_version);
        if (r < 0)
            return fail_unknown(op, "strconv.ParseUint: parsing %.*s: %s",
                                STR_ARG(sbuf_str(&shown)),
                                r == -ERANGE ? "value out of range" : "invalid syntax");
    }
    if (version == 0 && !may_omit_version(op))
        return fail_without_version(op, meta->name);
    if (version != 0 && version != old->revision)
        return fail_conflict(op, op_subject(op, meta->name), API_STATUS_MODIFIED);
    meta->resource_version = arena_strf(op->arena, "%llu", (unsigned long long)old->revision);
    return 0;
}

// The key that etcd would have, for upstream's words.
static struct str storage_key(struct op *op, struct str name)
{
    static const struct {
        struct str plural, prefix;
    } special[] = {
        {STR_INIT("nodes"), STR_INIT("minions")},
        {STR_INIT("services"), STR_INIT("services/specs")},
        {STR_INIT("endpoints"), STR_INIT("services/endpoints")},
        {STR_INIT("replicationcontrollers"), STR_INIT("controllers")},
    };
    struct str prefix = op->stored->plural;
    for (size_t i = 0; i < array_len(special); i++)
        if (str_eq(prefix, special[i].plural))
            prefix = special[i].prefix;
    if (!op->stored->namespaced)
        return arena_strf(op->arena, "/registry/%.*s/%.*s", STR_ARG(prefix), STR_ARG(name));
    return arena_strf(op->arena, "/registry/%.*s/%.*s/%.*s", STR_ARG(prefix),
                      STR_ARG(op->request->namespace), STR_ARG(name));
}

int update_fail_other_uid(struct op *op, const struct api_object_meta *meta, struct str uid)
{
    struct str key = storage_key(op, meta->name);
    return fail_conflict(op, op_subject(op, meta->name),
                         "StorageError: invalid object, Code: 4, Key: %.*s, ResourceVersion: 0, "
                         "AdditionalErrorMsg: Precondition failed: UID in precondition: %.*s, UID "
                         "in object meta: %.*s",
                         STR_ARG(key), STR_ARG(meta->uid), STR_ARG(uid));
}

int update_check_name(struct op *op, const struct api_object_meta *meta)
{
    struct str name = op->request->name;
    if (meta->name.n == 0)
        return fail_bad_request(op,
                                "the name of the object (%.*s based on URL) was undeterminable: "
                                "name must be provided",
                                STR_ARG(name));
    if (!str_eq(meta->name, name))
        return fail_bad_request(op,
                                "the name of the object (%.*s) does not match the name on the URL "
                                "(%.*s)",
                                STR_ARG(meta->name), STR_ARG(name));
    return 0;
}

// --- What is updated -----------------------------------------------------------------------------

// Whether taking away the last finalizer means the end.
static bool update_is_over(const struct api_object *object, const struct api_object *old)
{
    const struct api_object_meta *meta = api_object_meta(object), *before = api_object_meta(old);
    if (object->kind->type == &api_namespace_type &&
        ((const struct api_namespace *)object->value)->spec.finalizers.n)
        return false;
    return meta->finalizers.n == 0 && before->deletion_timestamp.set &&
           (!before->has_deletion_grace_period_seconds ||
            before->deletion_grace_period_seconds == 0);
}

// The subresources that are neither the whole nor the status leave all but their part as it was;
// the rest is an update like others.
static int update_check_part(struct op *op, const struct api_object *object,
                             const struct api_object *old)
{
    struct str sub = op->request->subresource;
    if (str_eqz(sub, "resize"))
        pods_keep_but_resources(op, object->value, old->value);
    else if (str_eqz(sub, "ephemeralcontainers"))
        pods_keep_but_debuggers(op, object->value, old->value);
    if (str_eqz(sub, "approval"))
        return certificates_decide(op, object, old);
    if (!str_eqz(sub, "finalize"))
        return create_check_valid(op, API_UPDATE, object, old);
    struct api_namespace *ns = object->value;
    struct api_str_array finalizers = ns->spec.finalizers;
    int r = create_check_valid(op, API_UPDATE, object, old);
    ns->spec.finalizers = finalizers;
    return r;
}

static int check_namespace_phase(struct op *op, const struct api_namespace *ns)
{
    bool going = ns->metadata.deletion_timestamp.set;
    if (str_eqz(ns->status.phase, going ? "Terminating" : "Active"))
        return 0;
    struct causes causes = {.arena = op->arena};
    struct path root = path_root(STR("status")), at = path_field(&root, STR("Phase"));
    cause_invalid(&causes, &at, ns->status.phase,
                  going ? STR("may only be 'Terminating' if `deletionTimestamp` is not empty")
                        : STR("may only be 'Active' if `deletionTimestamp` is empty"));
    return fail_invalid(op, (struct status_subject){STR(""), STR("Namespace"), ns->metadata.name},
                        &causes);
}

int update_object(struct op *op, const struct api_object *object, const struct object *old)
{
    struct api_object before = {0};
    struct api_object_meta *meta = api_object_meta(object);
    bool status = str_eqz(op->request->subresource, "status");
    int r = op_decode(op, old, &before);
    if (r < 0)
        return r;
    fields_manage(op, object, &before, old);
    r = admit_change(op, object, &before);
    if (r == 0)
        r = update_check_versions(op, meta, old);
    if (r < 0)
        return r;
    meta->self_link = STR("");
    r = status ? create_check_valid(op, API_STATUS_UPDATE, object, &before)
               : update_check_part(op, object, &before);
    if (r == 0 && status && object->kind->type == &api_namespace_type)
        r = check_namespace_phase(op, object->value);
    if (r == 0)
        r = limits_check(op, object, &before);
    if (r == 0)
        r = admit_valid(op, object, &before);
    if (r == 0)
        r = quota_check(op, object, &before);
    if (r == 0)
        r = quota_charge(op);
    if (r < 0)
        return r;
    create_finish_object(op, object);
    fields_settle(object, &before);
    if (!update_is_over(object, &before))
        return op_write_change(op, object, old);
    // The answer is the requested state; watchers see the last stored one.
    r = op_write_nothing(op, object, old);
    return r < 0 ? r : op_write_removal(op, old, false);
}

bool registry_creates_on_update(const struct api_kind *kind)
{
    return (kinds_rules_of(registry_stored_kind(kind))->flags & KIND_CREATE_ON_UPDATE) != 0;
}

// A PUT of what is not there: a creation for some kinds.
static int update_missing(struct op *op, const struct api_object *object)
{
    struct api_object_meta *meta = api_object_meta(object);
    if (!(op->rules->flags & KIND_CREATE_ON_UPDATE) || op->request->subresource.n)
        return fail_not_found(op, op_subject(op, op->request->name));
    if (meta->uid.n)
        return update_fail_other_uid(op, meta, STR(""));
    fields_manage(op, object, NULL, NULL);
    int r = admit_change(op, object, NULL);
    return r < 0 ? r : create_object(op, object);
}

int update_body(struct op *op, const struct api_object *body, const struct object *old)
{
    struct api_object object = {0};
    struct api_object_meta *meta = api_object_meta(body);
    const struct api_default_options defaults = {.now = op->now};
    if (!meta)
        return fail_unsupported(op, "a %.*s is not stored", STR_ARG(body->kind->kind));
    api_default(body->kind->type, body->value, &defaults, op->arena);
    int r = create_fit_namespace(op, meta);
    if (r == 0)
        r = update_check_name(op, meta);
    if (r < 0)
        return r;
    create_single_owners(op, meta);
    r = encode_to_stored(op, body, &object);
    if (r < 0)
        return r;
    if (!old)
        return update_missing(op, &object);
    // A patch does not say which object it means; that its UID cannot change is for validation.
    if (op->verb == VERB_UPDATE && meta->uid.n && !str_eq(meta->uid, old->uid))
        return update_fail_other_uid(op, meta, old->uid);
    return update_object(op, &object, old);
}

int update_check_subresource(struct op *op)
{
    static const char *const writable[] = {"status", "finalize", "resize", "ephemeralcontainers",
                                           "scale",  "approval"};
    const struct api_kind *kind = op->request->kind;
    struct str sub = op->request->subresource;
    bool known = sub.n == 0;
    for (const char *const *s = kind->subresources; s && *s; s++)
        for (size_t i = 0; str_eqz(sub, *s) && i < array_len(writable); i++)
            known |= str_eqz(sub, writable[i]);
    if (known)
        return 0;
    return fail_unsupported(op, "%.*s/%.*s cannot be updated", STR_ARG(kind->plural), STR_ARG(sub));
}

static int update_any(struct op *op, const struct api_object *body)
{
    int r = update_check_subresource(op);
    if (r < 0)
        return r;
    const struct object *old = op_head(op, op->request->name);
    if (!str_eqz(op->request->subresource, "scale"))
        return update_body(op, body, old);
    if (body->kind->type != &api_scale_type)
        return fail_bad_request(op, "expected input object type to be Scale, but %.*s",
                                STR_ARG(body->kind->kind));
    return scale_object(op, body->value, old);
}

void registry_update(struct registry *reg, const struct registry_request *request,
                     const struct api_object *body, struct arena *arena, registry_done_fn done,
                     void *arg)
{
    struct op *op = op_new(reg, request, VERB_UPDATE, arena, done, arg);
    op_finish(op, update_any(op, body));
}
