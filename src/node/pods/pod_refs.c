// SPDX-License-Identifier: Apache-2.0
//
// The objects a pod refers to: collects their names from the spec and fetches them, so that volumes
// and environment are built without waiting.
#include "node/pods/pod_refs.h"

#include <stdlib.h>

#include "api/storage.h"
#include "base/mem.h"

#include "base/banned.h"

// A token is renewed when four fifths of its life are over, or after a day.
#define TOKEN_DAY_NS (INT64_C(86400) * CLOCK_NS_PER_SEC)

// --- References of a pod -------------------------------------------------------------------------

static struct pod_ref *pod_refs_find_entry(const struct pod_refs *r, enum pod_ref_kind kind,
                                           struct str name, struct str audience,
                                           int64_t expiration_s)
{
    vec_foreach(&r->all, ref)
        if (ref->kind == kind && str_eqz(name, ref->name) &&
            (kind != REF_TOKEN ||
             (str_eqz(audience, ref->audience) && ref->expiration_s == expiration_s)))
            return ref;
    return NULL;
}

static void pod_refs_add_entry(struct pod_refs *r, enum pod_ref_kind kind, struct str name)
{
    if (name.n == 0 || pod_refs_find_entry(r, kind, name, STR(""), 0))
        return;
    vec_push(&r->all, ((struct pod_ref){.kind = kind, .name = xstrndup(name.p, name.n)}));
}

static int64_t pod_refs_token_lifetime(const struct api_service_account_token_projection *t)
{
    return t->has_expiration_seconds ? t->expiration_seconds : 3600;
}

static void pod_refs_add_token(struct pod_refs *r, const struct api_pod *pod,
                               const struct api_service_account_token_projection *t)
{
    struct str account = pod->spec.service_account_name;
    if (account.n == 0)
        account = STR("default");
    if (pod_refs_find_entry(r, REF_TOKEN, account, t->audience, pod_refs_token_lifetime(t)))
        return;
    vec_push(&r->all, ((struct pod_ref){.kind = REF_TOKEN,
                                        .name = xstrndup(account.p, account.n),
                                        .audience = xstrndup(t->audience.n ? t->audience.p : "",
                                                             t->audience.n),
                                        .expiration_s = pod_refs_token_lifetime(t)}));
}

static void pod_refs_gather_env(struct pod_refs *r, const struct api_env_from_source_array *from,
                                const struct api_env_var_array *env)
{
    for (size_t i = 0; i < from->n; i++) {
        const struct api_env_from_source *f = &from->p[i];
        if (f->config_map_ref)
            pod_refs_add_entry(r, REF_CONFIG_MAP, f->config_map_ref->local_object_reference.name);
        if (f->secret_ref)
            pod_refs_add_entry(r, REF_SECRET, f->secret_ref->local_object_reference.name);
    }
    for (size_t i = 0; i < env->n; i++) {
        const struct api_env_var_source *v = env->p[i].value_from;
        if (v && v->config_map_key_ref)
            pod_refs_add_entry(r, REF_CONFIG_MAP,
                               v->config_map_key_ref->local_object_reference.name);
        if (v && v->secret_key_ref)
            pod_refs_add_entry(r, REF_SECRET, v->secret_key_ref->local_object_reference.name);
    }
}

static void pod_refs_gather_projection(struct pod_refs *r, const struct api_pod *pod,
                                       const struct api_volume_projection *s)
{
    if (s->config_map)
        pod_refs_add_entry(r, REF_CONFIG_MAP, s->config_map->local_object_reference.name);
    if (s->secret)
        pod_refs_add_entry(r, REF_SECRET, s->secret->local_object_reference.name);
    if (s->service_account_token)
        pod_refs_add_token(r, pod, s->service_account_token);
}

void pod_refs_gather(struct pod_refs *r, const struct api_pod *pod)
{
    const struct api_pod_spec *spec = &pod->spec;
    if (!list_linked(&r->calls.head))
        list_init(&r->calls);
    for (size_t i = 0; i < spec->volumes.n; i++) {
        const struct api_volume_source *v = &spec->volumes.p[i].volume_source;
        if (v->config_map)
            pod_refs_add_entry(r, REF_CONFIG_MAP, v->config_map->local_object_reference.name);
        if (v->secret)
            pod_refs_add_entry(r, REF_SECRET, v->secret->secret_name);
        if (v->persistent_volume_claim)
            pod_refs_add_entry(r, REF_VOLUME_CLAIM, v->persistent_volume_claim->claim_name);
        for (size_t s = 0; v->projected && s < v->projected->sources.n; s++)
            pod_refs_gather_projection(r, pod, &v->projected->sources.p[s]);
    }
    for (size_t i = 0; i < spec->init_containers.n; i++)
        pod_refs_gather_env(r, &spec->init_containers.p[i].env_from,
                            &spec->init_containers.p[i].env);
    for (size_t i = 0; i < spec->containers.n; i++)
        pod_refs_gather_env(r, &spec->containers.p[i].env_from, &spec->containers.p[i].env);
    for (size_t i = 0; i < spec->ephemeral_containers.n; i++) {
        const struct api_ephemeral_container_common *c =
            &spec->ephemeral_containers.p[i].ephemeral_container_common;
        pod_refs_gather_env(r, &c->env_from, &c->env);
    }
    for (size_t i = 0; i < spec->image_pull_secrets.n; i++)
        pod_refs_add_entry(r, REF_SECRET, spec->image_pull_secrets.p[i].name);
}

void pod_refs_done(struct pod_refs *r)
{
    pod_refs_cancel(r);
    vec_foreach(&r->all, ref) {
        free(ref->name);
        free(ref->audience);
        typed_object_unref(ref->object);
        typed_object_unref(ref->volume);
    }
    vec_done(&r->all);
}

// --- Fetching ------------------------------------------------------------------------------------

struct fetch {
    struct list_node node;
    struct pod_refs *refs;
    size_t index;
    struct client *client;
    bool of_claim; // the volume that a claim is bound to
    void (*done)(void *arg);
    void *arg;
};

static void pod_refs_take_answer(struct pod_ref *ref, const struct fetch *f,
                                 const struct client_answer *a)
{
    struct typed_object **slot = f->of_claim ? &ref->volume : &ref->object;
    if (a->code == 0 && a->object) {
        typed_object_unref(*slot);
        *slot = typed_object_ref(a->object);
        ref->err = (struct err){0};
        int64_t life = ref->expiration_s * CLOCK_NS_PER_SEC / 5 * 4;
        ref->renew_ns = exec_now_ns(f->client->exec) + (life < TOKEN_DAY_NS ? life : TOKEN_DAY_NS);
        return;
    }
    ref->err = *a->err;
    if (a->code == -ERR_NOT_FOUND) { // what is only out of reach stays as it was
        typed_object_unref(*slot);
        *slot = NULL;
    }
}

static void pod_refs_on_fetched(void *arg, const struct client_answer *a);

// As kubelet sees it: annotations are whose who may write the claim, its status is the
// controller's.
static bool pod_refs_claim_is_bound(const struct api_persistent_volume_claim *claim)
{
    return claim->spec.volume_name.n && str_eqz(claim->status.phase, "Bound");
}

// pod_refs_fetch_volume asks for the volume of a claim that was fetched. False: there is nothing to
// ask for.
static bool pod_refs_fetch_volume(struct pod_refs *r, const struct pod_ref *ref, struct fetch *f)
{
    if (ref->kind != REF_VOLUME_CLAIM || f->of_claim || ref->err.code != 0 || !ref->object ||
        !pod_refs_claim_is_bound(ref->object->object.value))
        return false;
    const struct api_persistent_volume_claim *claim = ref->object->object.value;
    const struct client_key key = {api_kind_find(STR("v1"), STR("PersistentVolume")), STR(""),
                                   claim->spec.volume_name};
    f->of_claim = true;
    list_push_back(&r->calls, &f->node);
    client_get(f->client, &key, pod_refs_on_fetched, f);
    return true;
}

static void pod_refs_on_fetched(void *arg, const struct client_answer *a)
{
    struct fetch *f = arg;
    struct pod_refs *r = list_linked(&f->node) ? f->refs : NULL;
    list_remove(&f->node);
    if (!r) {
        free(f);
        return;
    }
    pod_refs_take_answer(&r->all.p[f->index], f, a);
    if (pod_refs_fetch_volume(r, &r->all.p[f->index], f))
        return;
    r->waiting--;
    void (*done)(void *) = f->done;
    void *done_arg = f->arg;
    free(f);
    if (r->waiting == 0)
        done(done_arg);
}

static void pod_refs_fetch_token(struct client *client, const struct typed_object *pod,
                                 const struct pod_ref *ref, struct fetch *f)
{
    struct str audience = str_z(ref->audience);
    struct api_bound_object_reference bound = {.kind = STR("Pod"),
                                               .api_version = STR("v1"),
                                               .name = pod->meta->name,
                                               .uid = pod->meta->uid};
    struct api_token_request request = {.metadata = {.name = str_z(ref->name),
                                                     .namespace = pod->meta->namespace},
                                        .spec = {.audiences = {&audience, audience.n ? 1 : 0},
                                                 .expiration_seconds = ref->expiration_s,
                                                 .has_expiration_seconds = true,
                                                 .bound_object_ref = &bound}};
    const struct api_object object = {
        api_kind_find(STR("authentication.k8s.io/v1"), STR("TokenRequest")), &request};
    const struct client_write how = {.subresource = STR("token")};
    client_create(client, &object, &how, pod_refs_on_fetched, f);
}

static const struct str kind_names[] = {[REF_CONFIG_MAP] = STR_INIT("ConfigMap"),
                                        [REF_SECRET] = STR_INIT("Secret"),
                                        [REF_TOKEN] = STR_INIT("TokenRequest"),
                                        [REF_VOLUME_CLAIM] = STR_INIT("PersistentVolumeClaim")};

// Why a claim cannot be used, in kubelet's words; NULL: it can.
static const char *pod_refs_explain_claim(const struct pod_ref *ref)
{
    const struct api_persistent_volume_claim *claim = ref->object->object.value;
    if (claim->metadata.deletion_timestamp.set)
        return "PVC is being deleted";
    if (!pod_refs_claim_is_bound(claim))
        return "PVC is not bound";
    if (!ref->volume)
        return ref->err.code ? ref->err.msg : "its PersistentVolume was not fetched yet";
    if (!volume_is_for(ref->volume->object.value, claim))
        return "its PersistentVolume is bound to another claim";
    return NULL;
}

void pod_refs_fetch(struct pod_refs *r, struct client *client, const struct typed_object *pod,
                    void (*done)(void *arg), void *arg)
{
    int64_t now = exec_now_ns(client->exec);
    for (size_t i = 0; i < r->all.n; i++) {
        const struct pod_ref *ref = &r->all.p[i];
        if (ref->kind == REF_TOKEN && ref->object && ref->err.code == 0 && now < ref->renew_ns)
            continue;
        if (ref->object && ref->volume &&
            !pod_refs_explain_claim(ref)) // what a claim is bound to stays
            continue;
        struct fetch *f = xcalloc(1, sizeof(*f));
        *f = (struct fetch){.refs = r, .index = i, .client = client, .done = done, .arg = arg};
        list_push_back(&r->calls, &f->node);
        r->waiting++;
        const struct client_key key = {api_kind_find(STR("v1"), kind_names[ref->kind]),
                                       pod->meta->namespace, str_z(ref->name)};
        if (ref->kind == REF_TOKEN)
            pod_refs_fetch_token(client, pod, ref, f);
        else
            client_get(client, &key, pod_refs_on_fetched, f);
    }
}

void pod_refs_cancel(struct pod_refs *r)
{
    if (!list_linked(&r->calls.head))
        return;
    while (list_pop_front(&r->calls))
        ;
    r->waiting = 0;
}

// --- Lookup --------------------------------------------------------------------------------------

const struct pod_ref *pod_refs_token(const struct pod_refs *r, struct str audience,
                                     int64_t expiration_s)
{
    vec_foreach(&r->all, ref)
        if (ref->kind == REF_TOKEN && str_eqz(audience, ref->audience) &&
            ref->expiration_s == expiration_s)
            return ref;
    return NULL;
}

static const void *pod_refs_object(const struct pod_ref *ref, const char *plural, struct str name,
                                   struct err *err)
{
    if (ref && ref->object)
        return ref->object->object.value;
    if (ref && ref->err.code != 0 && ref->err.code != ERR_NOT_FOUND)
        *err = ref->err;
    else
        (void)err_set(err, ERR_NOT_FOUND, "%s \"%.*s\" not found", plural, STR_ARG(name));
    return NULL;
}

const struct api_config_map *pod_refs_config_map(const struct pod_refs *r, struct str name,
                                                 struct err *err)
{
    return pod_refs_object(pod_refs_find_entry(r, REF_CONFIG_MAP, name, STR(""), 0), "configmap",
                           name, err);
}

const struct api_secret *pod_refs_secret(const struct pod_refs *r, struct str name, struct err *err)
{
    return pod_refs_object(pod_refs_find_entry(r, REF_SECRET, name, STR(""), 0), "secret", name,
                           err);
}

const struct api_persistent_volume *pod_refs_volume(const struct pod_refs *r, struct str claim,
                                                    struct err *err)
{
    const struct pod_ref *ref = pod_refs_find_entry(r, REF_VOLUME_CLAIM, claim, STR(""), 0);
    const char *problem = NULL;
    if (!pod_refs_object(ref, "persistentvolumeclaim", claim, err))
        return NULL;
    problem = pod_refs_explain_claim(ref);
    if (!problem)
        return ref->volume->object.value;
    (void)err_set(err, ERR_UNAVAILABLE, "error processing PVC %.*s/%.*s: %s",
                  STR_ARG(ref->object->meta->namespace), STR_ARG(claim), problem);
    return NULL;
}
