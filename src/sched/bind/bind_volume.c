// SPDX-License-Identifier: Apache-2.0
//
// Claims for storage that wait for their first pod: the volume is given to the claim, or the
// provisioner gets the node; then another component, the PersistentVolume controller of Kubernetes,
// binds them, and the pod waits for that. What was written stays when the attempt fails: the next
// one finds it, and so does the controller.
#include "api/match/claim.h"
#include "codec/json_writer.h"
#include "sched/bind/bind.h"
#include "sched/bind/bind_int.h"
#include "sched/volume/volume_int.h"

#include "base/banned.h"

// --- What is decided -----------------------------------------------------------------------------

static void bind_volume_take(struct binding *b, const struct pod_volume *from)
{
    struct volumes *all = &b->s->volumes;
    const struct api_object_meta *m = from->object->meta;
    struct bind_volume *v = &b->volume.all[b->volume.n++];
    *v = (struct bind_volume){
        .b = b,
        .key = arena_strf(&b->arena, "%.*s/%.*s", STR_ARG(m->namespace), STR_ARG(m->name)),
        .uid = arena_str(&b->arena, m->uid),
        .object = typed_object_ref(from->chosen ? from->chosen : from->object)};
    v->name = str_from(v->key, m->namespace.n + 1);
    if (from->chosen)
        v->volume = arena_str(&b->arena, from->chosen->meta->name);
    v->shared = map_get(&all->by_claim, v->key) != NULL;
    if (v->shared)
        return;
    v->held = true;
    *map_put(&all->by_claim, v->key) = v;
    if (v->volume.n)
        *map_put(&all->by_volume, v->volume) = v;
}

void bind_volumes_take(struct attempt *a, struct binding *b, const struct sched_node *n)
{
    if (!a->volume.open)
        return;
    (void)volume_rules_filter(a, n, NULL); // other nodes may have been asked since
    b->volume.all = arena_array(&b->arena, struct bind_volume, a->volume.open);
    for (size_t i = 0; i < a->volume.n; i++)
        if (!a->volume.all[i].bound)
            bind_volume_take(b, &a->volume.all[i]);
}

void bind_volumes_land(struct binding *b)
{
    struct volumes *all = &b->s->volumes;
    list_remove(&b->volume.wait);
    for (size_t i = 0; i < b->volume.n; i++) {
        struct bind_volume *v = &b->volume.all[i];
        if (!v->held)
            continue;
        v->held = false;
        (void)map_del(&all->by_claim, v->key);
        if (v->volume.n)
            (void)map_del(&all->by_volume, v->volume);
    }
}

void bind_volumes_free(struct binding *b)
{
    bind_volumes_land(b);
    for (size_t i = 0; i < b->volume.n; i++)
        typed_object_unref(b->volume.all[i].object);
}

// --- Waiting -------------------------------------------------------------------------------------

static const struct api_persistent_volume_claim *claim_now(const struct bind_volume *v)
{
    const struct typed_object *o =
        volumes_get(v->b->s, VOLUME_CLAIMS, bind_pod(v->b)->metadata.namespace, v->name);
    return o && str_eq(o->meta->uid, v->uid) ? o->object.value : NULL;
}

// 1: bound, and from the node it can be reached; 0: not yet; -1: it cannot be any more, and the
// binding has failed.
static int bound_state(struct bind_volume *v, const struct api_persistent_volume_claim *claim,
                       const struct api_node *node)
{
    const struct typed_object *o =
        volumes_get(v->b->s, VOLUME_VOLUMES, (struct str){0}, claim->spec.volume_name);
    if (!o)
        return 0;
    if (volume_reaches(o->object.value, node))
        return 1;
    bind_fail(v->b, "binding volumes: pv \"%.*s\" node affinity doesn't match node \"%.*s\"",
              STR_ARG(o->meta->name), STR_ARG(v->b->node_name));
    return -1;
}

// The same while the claim is unbound: has somebody taken back what was written?
static int open_state(struct bind_volume *v, const struct api_persistent_volume_claim *claim)
{
    struct binding *b = v->b;
    struct sched *s = b->s;
    if (v->shared && map_get(&s->volumes.by_claim, v->key))
        return 0;
    const struct typed_object *o =
        v->volume.n ? volumes_get(s, VOLUME_VOLUMES, (struct str){0}, v->volume)
                    : volumes_get(s, VOLUME_CLAIMS, claim->metadata.namespace, v->name);
    if (o && o->revision < v->revision)
        return 0;
    if (v->volume.n && (!o || !volume_is_for(o->object.value, claim))) {
        bind_fail(b, "binding volumes: ClaimRef got reset for pv \"%.*s\"", STR_ARG(v->volume));
        return -1;
    }
    if (!v->volume.n &&
        !str_eq(meta_annotation(&claim->metadata, STR(STORAGE_SELECTED_NODE)), b->node_name)) {
        bind_fail(b, "binding volumes: provisioning failed for PVC \"%.*s\"", STR_ARG(v->name));
        return -1;
    }
    return 0;
}

static int bind_volume_state(struct bind_volume *v, const struct api_node *node)
{
    const struct api_persistent_volume_claim *claim = claim_now(v);
    if (!claim) {
        bind_fail(v->b, "binding volumes: persistentvolumeclaim \"%.*s\" not found",
                  STR_ARG(v->name));
        return -1;
    }
    return volume_is_bound(claim) ? bound_state(v, claim, node) : open_state(v, claim);
}

bool bind_volumes_left(const struct binding *b)
{
    for (size_t i = 0; i < b->volume.n; i++) {
        const struct bind_volume *v = &b->volume.all[i];
        const struct api_persistent_volume_claim *claim =
            v->held && v->volume.n ? claim_now(v) : NULL;
        if (v->held && v->volume.n && (!claim || !str_eq(claim->spec.volume_name, v->volume)))
            return true;
    }
    return false;
}

const struct bind_volume *bind_volume_open(const struct binding *b)
{
    for (size_t i = 0; b->step == BIND_VOLUMES && i < b->volume.n; i++) {
        const struct api_persistent_volume_claim *claim = claim_now(&b->volume.all[i]);
        if (!claim || !volume_is_bound(claim))
            return &b->volume.all[i];
    }
    return NULL;
}

static void bind_volume_check_all(struct binding *b)
{
    struct sched_node **n = map_get(&b->s->cluster.nodes, b->node_name);
    bool ready = true;
    if (!n || !(*n)->api)
        bind_fail(b, "binding volumes: node \"%.*s\" was deleted", STR_ARG(b->node_name));
    for (size_t i = 0; i < b->volume.n && !b->failed; i++)
        ready &= bind_volume_state(&b->volume.all[i], (*n)->api) > 0;
    const struct bind_volume *open = b->failed ? NULL : bind_volume_open(b);
    if (!b->failed && !ready && exec_now_ns(b->s->exec) >= b->volume.until_ns)
        bind_fail(b, "binding volumes: timed out: persistentvolumeclaim \"%.*s\" is not bound",
                  STR_ARG(open ? open->name : b->volume.all[0].name));
    if (b->failed)
        bind_undo(b);
    else if (!ready)
        exec_timer_start(b->s->exec, &b->timer, CONDITION_NS);
    else {
        list_remove(&b->volume.wait);
        bind_next(b);
    }
}

static void check_time(void *arg)
{
    bind_volume_check_all(arg);
}

static bool bind_volume_names_claim(const struct binding *b, struct str claim)
{
    for (size_t i = 0; i < b->volume.n; i++)
        if (str_eq(b->volume.all[i].key, claim))
            return true;
    return false;
}

// Who writes the claim is found by its name. Those that share it are set apart first: a check may
// end its binding, and those of its gang.
static void bind_volume_notify(struct sched *s, struct str claim)
{
    struct bind_volume **holder = map_get(&s->volumes.by_claim, claim);
    struct list due;
    list_init(&due);
    list_foreach(&s->volumes.sharing, node) {
        if (!bind_volume_names_claim(list_entry(node, struct binding, volume.wait), claim))
            continue;
        list_remove(node);
        list_push_back(&due, node);
    }
    if (holder && (*holder)->b->step == BIND_VOLUMES && !(*holder)->b->pending)
        bind_volume_check_all((*holder)->b);
    for (struct list_node *node; (node = list_pop_front(&due));) {
        list_push_back(&s->volumes.sharing, node);
        bind_volume_check_all(list_entry(node, struct binding, volume.wait));
    }
}

static bool bind_volume_is_unawaited(const struct sched *s)
{
    return map_len(&s->volumes.by_claim) == 0 && list_empty(&s->volumes.sharing);
}

void bind_volume_claim_changed(struct sched *s, const struct api_object_meta *claim)
{
    cleanup_sbuf struct sbuf key = {0};
    if (bind_volume_is_unawaited(s))
        return;
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(claim->namespace), STR_ARG(claim->name));
    bind_volume_notify(s, sbuf_str(&key));
}

// A volume is news for the claim that it was chosen for, and for the one that it names.
void bind_volume_changed(struct sched *s, const struct typed_object *volume)
{
    const struct api_persistent_volume *v = volume->object.value;
    struct bind_volume **holder = map_get(&s->volumes.by_volume, volume->meta->name);
    cleanup_sbuf struct sbuf chosen = {0}, named = {0};
    if (bind_volume_is_unawaited(s))
        return;
    if (holder)
        sbuf_add(&chosen, (*holder)->key);
    if (v->spec.claim_ref)
        sbuf_addf(&named, "%.*s/%.*s", STR_ARG(v->spec.claim_ref->namespace),
                  STR_ARG(v->spec.claim_ref->name));
    if (chosen.n)
        bind_volume_notify(s, sbuf_str(&chosen));
    if (named.n && !str_eq(sbuf_str(&named), sbuf_str(&chosen)))
        bind_volume_notify(s, sbuf_str(&named));
}

// --- Writing -------------------------------------------------------------------------------------

static void bind_volume_on_answer(struct binding *b)
{
    if (--b->pending)
        return;
    if (b->failed) {
        bind_undo(b);
        return;
    }
    for (size_t i = 0; i < b->volume.n && !list_linked(&b->volume.wait); i++)
        if (b->volume.all[i].shared)
            list_push_back(&b->s->volumes.sharing, &b->volume.wait);
    bind_volume_check_all(b);
}

static void bind_volume_on_written(struct sched *s, void *arg, const struct client_answer *answer)
{
    struct bind_volume *v = arg;
    (void)s;
    if (answer->code < 0)
        bind_fail(v->b, "binding volumes: %s", answer->err ? answer->err->msg : "no answer");
    else if (answer->object)
        v->revision = answer->object->revision;
    bind_volume_on_answer(v->b);
}

// metadata with an annotation, such that the patch holds for this version alone.
static void bind_volume_add_metadata(struct json_writer *w, const struct api_object_meta *m,
                                     const char *key, struct str value)
{
    json_write_key(w, STR("metadata"));
    json_write_object_begin(w);
    json_write_text(w, "uid", m->uid);
    json_write_text(w, "resourceVersion", m->resource_version);
    if (key) {
        json_write_key(w, STR("annotations"));
        json_write_object_begin(w);
        json_write_text(w, key, value);
        json_write_object_end(w);
    }
    json_write_object_end(w);
}

static void add_claim_ref(struct json_writer *w, const struct bind_volume *v)
{
    const struct typed_object *claim =
        volumes_get(v->b->s, VOLUME_CLAIMS, bind_pod(v->b)->metadata.namespace, v->name);
    json_write_key(w, STR("spec"));
    json_write_object_begin(w);
    json_write_key(w, STR("claimRef"));
    json_write_object_begin(w);
    json_write_text(w, "apiVersion", STR("v1"));
    json_write_text(w, "kind", STR("PersistentVolumeClaim"));
    json_write_text(w, "namespace", bind_pod(v->b)->metadata.namespace);
    json_write_text(w, "name", v->name);
    json_write_text(w, "uid", v->uid);
    if (claim)
        json_write_text(w, "resourceVersion", claim->meta->resource_version);
    json_write_object_end(w);
    json_write_object_end(w);
}

// Is it written already, by an attempt before or by somebody else?
static bool is_written(const struct bind_volume *v)
{
    if (!v->volume.n)
        return str_eq(meta_annotation(v->object->meta, STR(STORAGE_SELECTED_NODE)),
                      v->b->node_name);
    const struct api_persistent_volume *volume = v->object->object.value;
    return volume->spec.claim_ref && str_eq(volume->spec.claim_ref->uid, v->uid);
}

static void bind_volume_write_one(struct bind_volume *v)
{
    struct sched *s = v->b->s;
    const struct api_object_meta *m = v->object->meta;
    cleanup_sbuf struct sbuf body = {0};
    struct json_writer w = {.out = &body};
    struct client_key key = {volumes_kind(v->volume.n ? VOLUME_VOLUMES : VOLUME_CLAIMS),
                             m->namespace, m->name};
    json_write_object_begin(&w);
    if (v->volume.n) {
        const struct api_persistent_volume *volume = v->object->object.value;
        // Who reserved a volume for the claim by hand keeps it when the claim goes.
        bind_volume_add_metadata(&w, m, volume->spec.claim_ref ? NULL : STORAGE_BOUND_BY_CONTROLLER,
                                 STR("yes"));
        add_claim_ref(&w, v);
    } else {
        bind_volume_add_metadata(&w, m, STORAGE_SELECTED_NODE, v->b->node_name);
    }
    json_write_object_end(&w);
    v->b->pending++;
    client_patch(s->client, &key, CLIENT_PATCH_MERGE, sbuf_str(&body), NULL, calls_on_answer,
                 calls_begin(s, bind_volume_on_written, v));
}

void bind_volumes_start(struct binding *b)
{
    if (!b->volume.n) {
        bind_next(b);
        return;
    }
    b->volume.until_ns = exec_now_ns(b->s->exec) + b->s->config.binding_timeout_ns;
    b->timer = (struct exec_timer){.fn = check_time, .arg = b};
    b->pending = 1; // ours, until all are started
    for (size_t i = 0; i < b->volume.n; i++)
        if (!b->volume.all[i].shared && !is_written(&b->volume.all[i]))
            bind_volume_write_one(&b->volume.all[i]);
    bind_volume_on_answer(b);
}
