// SPDX-License-Identifier: Apache-2.0
//
// Creation.
#include "base/uuid.h"
#include "registry/stage_int.h"

#include "base/banned.h"

// As upstream: a generated name that is taken is drawn again at most so often.
#define NAME_ATTEMPTS_MAX 8

#define NAME_BASE_MAX   58
#define NAME_RANDOM_LEN 5

int create_fit_namespace(struct op *op, struct api_object_meta *meta)
{
    struct str wanted = op->stored->namespaced ? op->request->namespace : STR("");
    if (meta->namespace.n == 0 || wanted.n == 0)
        meta->namespace = wanted;
    if (!str_eq(meta->namespace, wanted))
        return fail_bad_request(op, "the namespace of the provided object does not match the "
                                    "namespace sent on the request");
    return 0;
}

struct uids MAP(bool);

void create_single_owners(struct op *op, struct api_object_meta *meta)
{
    struct api_owner_reference_array *owners = &meta->owner_references;
    if (owners->n < 2)
        return;
    struct uids seen = {0};
    cleanup_sbuf struct sbuf again = {0};
    size_t kept = 0;
    for (size_t i = 0; i < owners->n; i++) {
        bool added = false;
        bool *listed = map_put_new(&seen, owners->p[i].uid, &added);
        if (added) {
            owners->p[kept++] = owners->p[i];
            continue;
        }
        if (!*listed) {
            sbuf_addz(&again, again.n ? ", " : "");
            sbuf_add(&again, owners->p[i].uid);
        }
        *listed = true;
    }
    map_done(&seen);
    if (kept == owners->n)
        return;
    owners->n = kept;
    op_warn(op, arena_strf(op->arena,
                           ".metadata.ownerReferences contains duplicate entries; API server "
                           "dedups owner references in 1.20+, and may reject such requests as "
                           "early as 1.24; please fix your requests; duplicate UID(s) observed: "
                           "%.*s",
                           STR_ARG(sbuf_str(&again))));
}

struct str create_generate_name(struct op *op, struct str base)
{
    static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";
    char tail[NAME_RANDOM_LEN];
    for (size_t i = 0; i < NAME_RANDOM_LEN; i++)
        tail[i] = letters[rng_below(op->reg->exec->rng, sizeof(letters) - 1)];
    base = str_upto(base, NAME_BASE_MAX);
    return arena_strf(op->arena, "%.*s%.*s", STR_ARG(base), NAME_RANDOM_LEN, tail);
}

static void give_identity(struct op *op, struct api_object_meta *meta)
{
    char text[UUID_TEXT_LEN + 1];
    struct uuid uuid = uuid_random(op->reg->exec->rng);
    uuid_write(&uuid, text);
    meta->uid = arena_str(op->arena, str_make(text, UUID_TEXT_LEN));
    meta->creation_timestamp = op->now;
    meta->deletion_timestamp = (struct api_time){0};
    meta->has_deletion_grace_period_seconds = false;
    meta->deletion_grace_period_seconds = 0;
    meta->self_link = STR("");
}

int create_check_valid(struct op *op, enum api_op what, const struct api_object *object,
                       const struct api_object *old)
{
    const struct api_rules world = op_world(op, api_object_meta(object)->namespace);
    api_prepare(what, object, old, &world, op->arena);
    return create_check_prepared(op, what, object, old);
}

int create_check_prepared(struct op *op, enum api_op what, const struct api_object *object,
                          const struct api_object *old)
{
    struct causes causes = {.arena = op->arena};
    const struct api_object_meta *meta = api_object_meta(object);
    const struct api_rules world = op_world(op, meta->namespace);
    api_validate(what, object, old, op->request->kind, &world, &causes);
    certificates_check_texts(op, object, old, &causes);
    if (causes.n == 0)
        return 0;
    const struct status_subject s = {op->request->kind->group, op->request->kind->kind, meta->name};
    return fail_invalid(op, s, &causes);
}

// What is allowed but not good, and what the server sets last.
static void warn_and_settle(struct op *op, const struct api_object *object)
{
    if (object->kind->type == &api_resource_slice_type) {
        const struct api_resource_slice *slice = object->value;
        bool upper = false;
        for (size_t i = 0; i < slice->spec.driver.n; i++)
            upper |= slice->spec.driver.p[i] >= 'A' && slice->spec.driver.p[i] <= 'Z';
        cleanup_sbuf struct sbuf name = {0};
        sbuf_add_quoted(&name, slice->spec.driver);
        if (upper)
            op_warn(op, arena_strf(op->arena,
                                   "spec.driver: driver names should be lowercase; %.*s contains "
                                   "uppercase characters",
                                   STR_ARG(sbuf_str(&name))));
    }
}

// Maps are sorted by key.
static void map_set(struct op *op, struct api_str_map *map, struct str key, struct str value)
{
    size_t at = 0;
    while (at < map->n && str_cmp(map->p[at].key, key) < 0)
        at++;
    if (at < map->n && str_eq(map->p[at].key, key)) {
        map->p[at].value = value;
        return;
    }
    struct api_str_entry *all = arena_array(op->arena, struct api_str_entry, map->n + 1);
    for (size_t i = 0; i < map->n; i++)
        all[i < at ? i : i + 1] = map->p[i];
    all[at] = (struct api_str_entry){key, value};
    *map = (struct api_str_map){all, map->n + 1};
}

void create_annotate(struct op *op, struct api_object_meta *meta, struct str key, struct str value)
{
    map_set(op, &meta->annotations, key, value);
}

// A label that every namespace has: its name.
static void label_namespace(struct op *op, struct api_object_meta *meta)
{
    map_set(op, &meta->labels, STR("kubernetes.io/metadata.name"), meta->name);
}

void create_finish_object(struct op *op, const struct api_object *object)
{
    warn_and_settle(op, object);
    if (object->kind->type == &api_namespace_type)
        label_namespace(op, api_object_meta(object));
    if (object->kind == op->reg->kinds.definition)
        definitions_settle(op, object);
}

static bool being_deleted(struct op *op, const struct object *o)
{
    struct api_object object = {0};
    struct err err;
    return encode_read_stored(o, &op->now, op->arena, &object, &err) == 0 &&
           api_object_meta(&object)->deletion_timestamp.set;
}

// The name is drawn until it is free. *ret: the one that has it, NULL when it is free.
static const struct object *create_choose_name(struct op *op, struct api_object_meta *meta)
{
    const struct object *taken = NULL;
    if (meta->name.n || meta->generate_name.n == 0)
        return meta->name.n ? op_head(op, meta->name) : NULL;
    for (int i = 0; i < NAME_ATTEMPTS_MAX; i++) {
        meta->name = create_generate_name(op, meta->generate_name);
        taken = op_head(op, meta->name);
        if (!taken)
            break;
    }
    return taken;
}

// What is left when nothing is wrong with the object itself. taken is who has its name.
static int store_new(struct op *op, const struct api_object *object, const struct object *taken)
{
    const struct api_object_meta *meta = api_object_meta(object);
    uint64_t version = 0;
    create_finish_object(op, object);
    if (!op->dry_run && str_to_u64(meta->resource_version, &version) == 0 && version != 0)
        return fail_unknown(op, "resourceVersion should not be set on objects to be created");
    if (taken && meta->generate_name.n)
        return fail_generated(op, op_subject(op, meta->name));
    if (taken)
        return fail_exists(op, op_subject(op, meta->name), being_deleted(op, taken));
    int r = op->charges.n && !op->dry_run ? op_check_new_room(op, object) : 0;
    if (r == 0)
        r = quota_charge(op);
    return r < 0 ? r : op_write_new(op, object);
}

int create_object(struct op *op, const struct api_object *object)
{
    struct api_object_meta *meta = api_object_meta(object);
    give_identity(op, meta);
    const struct object *taken = create_choose_name(op, meta);
    int r = create_check_valid(op, API_CREATE, object, NULL);
    if (r == 0)
        r = limits_check(op, object, NULL);
    if (r == 0)
        r = admit_valid(op, object, NULL);
    if (r == 0)
        r = quota_check(op, object, NULL);
    if (r == 0)
        r = store_new(op, object, taken);
    quota_forget(op);
    return r;
}

static int fail_terminating(struct op *op)
{
    struct api_status *s = arena_one(op->arena, struct api_status);
    *s =
        (struct api_status){.status = STR("Failure"),
                            .reason = STR("MethodNotAllowed"),
                            .message = STR("create not allowed while custom resource definition is "
                                           "terminating"),
                            .code = 405};
    op->status = s;
    return -ERR_UNSUPPORTED;
}

int create_body(struct op *op, const struct api_object *body)
{
    struct api_object object = {0};
    struct api_object_meta *meta = api_object_meta(body);
    // Reviews are answered at once and never stored.
    if (!meta || str_eqz(op->stored->group, "authorization.k8s.io") ||
        str_eqz(op->stored->group, "authentication.k8s.io"))
        return fail_unsupported(op, "a %.*s is not stored", STR_ARG(body->kind->kind));
    if (op->stored->custom && op->stored->custom->terminating)
        return fail_terminating(op);
    const struct api_default_options defaults = {.now = op->now};
    api_default(body->kind->type, body->value, &defaults, op->arena);
    int r = create_fit_namespace(op, meta);
    if (r < 0)
        return r;
    create_single_owners(op, meta);
    r = encode_to_stored(op, body, &object);
    if (r < 0)
        return r;
    fields_manage(op, &object, NULL, NULL);
    r = admit_change(op, &object, NULL);
    return r < 0 ? r : create_object(op, &object);
}

static int create_any(struct op *op, const struct api_object *body)
{
    struct str sub = op->request->subresource;
    bool pod = op->stored->type == &api_pod_type;
    if (body->kind->type == &api_binding_type &&
        (op->stored->type == &api_binding_type || (pod && str_eqz(sub, "binding"))))
        return pods_bind(op, body);
    if (sub.n == 0)
        return create_body(op, body);
    if (pod && str_eqz(sub, "eviction") && body->kind->type == &api_eviction_type)
        return registry_evict_pod(op, body);
    if (str_eqz(sub, "token"))
        return fail_unsupported(op, "tokens of service accounts cannot be requested from this "
                                    "server yet; use a client certificate or a static token");
    return fail_unsupported(op, "nothing can be created in %.*s/%.*s",
                            STR_ARG(op->request->kind->plural), STR_ARG(sub));
}

void registry_create(struct registry *reg, const struct registry_request *request,
                     const struct api_object *body, struct arena *arena, registry_done_fn done,
                     void *arg)
{
    struct op *op = op_new(reg, request, VERB_CREATE, arena, done, arg);
    op_finish(op, create_any(op, body));
}
