// SPDX-License-Identifier: Apache-2.0
//
// Admission of pods by their ServiceAccount: every pod runs as one that exists, gets its token, and
// the names of the secrets that its images are pulled with.
#include <stdlib.h>

#include "api/pod_kin.h"
#include "base/map.h"
#include "registry/stage_int.h"

#include "base/banned.h"

#define DEFAULT_ACCOUNT "default"
#define TOKEN_VOLUME    "kube-api-access-"
#define TOKEN_PATH      "/var/run/secrets/kubernetes.io/serviceaccount"

// An hour, and seven seconds by which upstream knows tokens that it mounted itself.
enum { TOKEN_SECONDS = 3607 };

// --- Pods of a node's own ------------------------------------------------------------------------

static void note_secret(void *arg, enum kin kin, struct str name)
{
    bool *any = arg;
    (void)name;
    *any |= kin == KIN_SECRET;
}

static bool projects_token(const struct api_pod *pod)
{
    for (size_t i = 0; i < pod->spec.volumes.n; i++) {
        const struct api_projected_volume_source *p =
            pod->spec.volumes.p[i].volume_source.projected;
        for (size_t k = 0; p && k < p->sources.n; k++)
            if (p->sources.p[k].service_account_token)
                return true;
    }
    return false;
}

// What a node runs of its own accord gets nothing from the API.
static int check_mirror(struct op *op, const struct api_object *object)
{
    const struct api_pod *pod = object->value;
    bool secrets = false;
    kin_of_pod(pod, op->arena, note_secret, &secrets);
    const char *what = pod->spec.service_account_name.n ? "reference service accounts"
                       : secrets                        ? "reference secrets"
                       : projects_token(pod) ? "use ServiceAccountToken volume projections"
                                             : NULL;
    return what ? fail_forbidden(op, admit_about(op, object), "a mirror pod may not %s", what) : 0;
}

// --- The account ---------------------------------------------------------------------------------

// The account that every namespace has comes from a controller. Upstream waits for it; here it is
// made on the spot, so that a pod can follow its namespace at once.
static const struct object *make_default(struct op *op)
{
    struct err err = {0};
    const struct store_key key = {op->reg->kinds.account, op->request->namespace,
                                  STR(DEFAULT_ACCOUNT)};
    if (registry_found_object(op->reg, &key, NULL, NULL, &err) < 0)
        return NULL;
    return store_head(op->reg->store, &key);
}

// find_account fills *ret; of a default account that a dry run would make, with nothing.
static int find_account(struct op *op, const struct api_object *object, struct str name,
                        struct api_service_account *ret)
{
    const struct store_key key = {op->reg->kinds.account, op->request->namespace, name};
    const struct object *o = store_head(op->reg->store, &key);
    bool usual = str_eqz(name, DEFAULT_ACCOUNT);
    if (!o && usual && op->dry_run)
        return 0;
    if (!o && usual)
        o = make_default(op);
    if (!o)
        return fail_forbidden(op, admit_about(op, object),
                              "error looking up service account %.*s/%.*s: serviceaccount "
                              "\"%.*s\" not found",
                              STR_ARG(op->request->namespace), STR_ARG(name), STR_ARG(name));
    struct api_object found = {0};
    int r = op_decode(op, o, &found);
    if (r == 0)
        *ret = *(const struct api_service_account *)found.value;
    return r;
}

// --- Its token -----------------------------------------------------------------------------------

// token_volume: a token, who vouches for the server, and the pod's namespace.
static struct api_volume token_volume(struct op *op, struct str name)
{
    struct api_service_account_token_projection *token =
        arena_one(op->arena, struct api_service_account_token_projection);
    *token = (struct api_service_account_token_projection){
        .path = STR("token"), .expiration_seconds = TOKEN_SECONDS, .has_expiration_seconds = true};
    struct api_key_to_path *ca = arena_one(op->arena, struct api_key_to_path);
    *ca = (struct api_key_to_path){.key = STR("ca.crt"), .path = STR("ca.crt")};
    struct api_config_map_projection *map = arena_one(op->arena, struct api_config_map_projection);
    *map = (struct api_config_map_projection){
        .local_object_reference = {.name = STR("kube-root-ca.crt")}, .items = {ca, 1}};
    struct api_object_field_selector *field =
        arena_one(op->arena, struct api_object_field_selector);
    *field = (struct api_object_field_selector){STR("v1"), STR("metadata.namespace")};
    struct api_downward_api_volume_file *file =
        arena_one(op->arena, struct api_downward_api_volume_file);
    *file = (struct api_downward_api_volume_file){.path = STR("namespace"), .field_ref = field};
    struct api_downward_api_projection *downward =
        arena_one(op->arena, struct api_downward_api_projection);
    *downward = (struct api_downward_api_projection){.items = {file, 1}};
    struct api_volume_projection *sources = arena_array(op->arena, struct api_volume_projection, 3);
    sources[0] = (struct api_volume_projection){.service_account_token = token};
    sources[1] = (struct api_volume_projection){.config_map = map};
    sources[2] = (struct api_volume_projection){.downward_api = downward};
    struct api_projected_volume_source *all =
        arena_one(op->arena, struct api_projected_volume_source);
    *all = (struct api_projected_volume_source){
        .sources = {sources, 3}, .default_mode = 0644, .has_default_mode = true};
    return (struct api_volume){.name = name, .volume_source = {.projected = all}};
}

// mount_in adds the mount to containers that have none at its path. True: one needs the volume.
static bool mount_in(struct op *op, const struct api_container_array *containers, struct str volume)
{
    bool needed = false;
    for (size_t i = 0; i < containers->n; i++) {
        struct api_volume_mount_array *mounts = &containers->p[i].volume_mounts;
        bool has = false;
        for (size_t k = 0; k < mounts->n; k++)
            has |= str_eqz(mounts->p[k].mount_path, TOKEN_PATH);
        if (has)
            continue;
        struct api_volume_mount *all =
            arena_array(op->arena, struct api_volume_mount, mounts->n + 1);
        for (size_t k = 0; k < mounts->n; k++)
            all[k] = mounts->p[k];
        all[mounts->n] = (struct api_volume_mount){
            .name = volume, .read_only = true, .mount_path = STR(TOKEN_PATH)};
        *mounts = (struct api_volume_mount_array){all, mounts->n + 1};
        needed = true;
    }
    return needed;
}

static void mount_token(struct op *op, struct api_pod_spec *spec)
{
    struct str name = STR("");
    for (size_t i = 0; name.n == 0 && i < spec->volumes.n; i++)
        if (str_starts(spec->volumes.p[i].name, STR(TOKEN_VOLUME)))
            name = spec->volumes.p[i].name;
    bool has = name.n > 0;
    if (!has)
        name = create_generate_name(op, STR(TOKEN_VOLUME));
    bool needed = mount_in(op, &spec->init_containers, name);
    needed |= mount_in(op, &spec->containers, name);
    if (has || !needed)
        return;
    struct api_volume *all = arena_array(op->arena, struct api_volume, spec->volumes.n + 1);
    for (size_t i = 0; i < spec->volumes.n; i++)
        all[i] = spec->volumes.p[i];
    all[spec->volumes.n] = token_volume(op, name);
    spec->volumes = (struct api_volume_array){all, spec->volumes.n + 1};
}

// --- Which secrets -------------------------------------------------------------------------------

struct names MAP(bool);

struct allowed {
    const struct api_service_account *account;
    struct names secrets, pulls; // that the account names: both lists may be as long as a pod's
    struct op *op;
    const struct api_object *object;
    const char *who;      // "container", "init container"
    struct str container; // its name
};

static struct allowed allowed_new(struct op *op, const struct api_object *object,
                                  const struct api_service_account *account)
{
    struct allowed a = {.account = account, .op = op, .object = object};
    for (size_t i = 0; i < account->secrets.n; i++)
        *map_put(&a.secrets, account->secrets.p[i].name) = true;
    for (size_t i = 0; i < account->image_pull_secrets.n; i++)
        *map_put(&a.pulls, account->image_pull_secrets.p[i].name) = true;
    return a;
}

static void allowed_done(struct allowed *a)
{
    map_done(&a->secrets);
    map_done(&a->pulls);
}
#define cleanup_allowed cleanup_with(allowed_done)

static bool may_mount(const struct allowed *a, struct str secret)
{
    return map_has(&a->secrets, secret);
}

// refuse_secret: how the container names the secret is in how, such as "envFrom".
static int refuse_secret(const struct allowed *a, const char *how, struct str variable,
                         struct str secret)
{
    return fail_forbidden(a->op, admit_about(a->op, a->object),
                          "%s %.*s with %s%s%.*s referencing secret.secretName=\"%.*s\" is not "
                          "allowed because service account %.*s does not reference that secret",
                          a->who, STR_ARG(a->container), how, variable.n ? " " : "",
                          STR_ARG(variable), STR_ARG(secret), STR_ARG(a->account->metadata.name));
}

static int accounts_check_containers(struct allowed *a,
                                     const struct api_container_array *containers)
{
    for (size_t i = 0; i < containers->n; i++) {
        const struct api_container *c = &containers->p[i];
        a->container = c->name;
        for (size_t k = 0; k < c->env.n; k++) {
            const struct api_env_var_source *from = c->env.p[k].value_from;
            if (!from || !from->secret_key_ref)
                continue;
            struct str secret = from->secret_key_ref->local_object_reference.name;
            if (!may_mount(a, secret))
                return refuse_secret(a, "envVar", c->env.p[k].name, secret);
        }
        for (size_t k = 0; k < c->env_from.n; k++) {
            const struct api_secret_env_source *from = c->env_from.p[k].secret_ref;
            if (from && !may_mount(a, from->local_object_reference.name))
                return refuse_secret(a, "envFrom", STR(""), from->local_object_reference.name);
        }
    }
    return 0;
}

static int check_pulls(const struct allowed *a, const struct api_pod_spec *spec)
{
    for (size_t i = 0; i < spec->image_pull_secrets.n; i++) {
        if (!map_has(&a->pulls, spec->image_pull_secrets.p[i].name))
            return fail_forbidden(a->op, admit_about(a->op, a->object),
                                  "imagePullSecrets[%zu].name=\"%.*s\" is not allowed because "
                                  "service account %.*s does not reference that imagePullSecret",
                                  i, STR_ARG(spec->image_pull_secrets.p[i].name),
                                  STR_ARG(a->account->metadata.name));
    }
    return 0;
}

// check_secrets: an account may say that its pods use no secrets but those it names.
static int check_secrets(struct op *op, const struct api_object *object,
                         const struct api_service_account *account)
{
    const struct api_str_map *notes = &account->metadata.annotations;
    const struct api_pod_spec *spec = &((const struct api_pod *)object->value)->spec;
    static const char *const yes[] = {"1", "t", "T", "TRUE", "true", "True"};
    bool enforced = false;
    for (size_t i = 0; i < notes->n; i++)
        for (size_t k = 0; k < array_len(yes); k++)
            enforced |= str_eqz(notes->p[i].key, "kubernetes.io/enforce-mountable-secrets") &&
                        str_eqz(notes->p[i].value, yes[k]);
    if (!enforced)
        return 0;
    cleanup_allowed struct allowed a = allowed_new(op, object, account);
    a.who = "init container";
    for (size_t i = 0; i < spec->volumes.n; i++) {
        const struct api_secret_volume_source *s = spec->volumes.p[i].volume_source.secret;
        if (s && !may_mount(&a, s->secret_name))
            return fail_forbidden(op, admit_about(op, object),
                                  "volume with secret.secretName=\"%.*s\" is not allowed because "
                                  "service account %.*s does not reference that secret",
                                  STR_ARG(s->secret_name), STR_ARG(account->metadata.name));
    }
    int r = accounts_check_containers(&a, &spec->init_containers);
    a.who = "container";
    if (r == 0)
        r = accounts_check_containers(&a, &spec->containers);
    return r < 0 ? r : check_pulls(&a, spec);
}

// --- All of it -----------------------------------------------------------------------------------

int accounts_admit(struct op *op, const struct api_object *object, const struct api_object *old)
{
    if (object->kind->type != &api_pod_type || old)
        return 0;
    struct api_pod *pod = object->value;
    struct api_pod_spec *spec = &pod->spec;
    if (pod_is_mirror(pod))
        return check_mirror(op, object);
    if (spec->service_account_name.n == 0)
        spec->service_account_name = spec->service_account = STR(DEFAULT_ACCOUNT);
    struct api_service_account account = {0};
    int r = find_account(op, object, spec->service_account_name, &account);
    if (r < 0)
        return r;
    bool mount = spec->has_automount_service_account_token ? spec->automount_service_account_token
                 : account.has_automount_service_account_token
                     ? account.automount_service_account_token
                     : true;
    if (mount)
        mount_token(op, spec);
    if (spec->image_pull_secrets.n == 0)
        spec->image_pull_secrets = account.image_pull_secrets;
    return check_secrets(op, object, &account);
}
