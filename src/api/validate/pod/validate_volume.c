// SPDX-License-Identifier: Apache-2.0
//
// Volumes of pods: their names, that each has one source, and the sources that Kubernetes itself
// makes files of. Drivers' sources are in validate_source.c.
#include "api/validate/validate_core.h"

#include "base/banned.h"

#define TOKEN_SECONDS_MIN 600
#define TOKEN_SECONDS_MAX ((int64_t)1 << 32)

static const struct str file_mode_rule =
    STR_INIT("must be a number between 0 and 0777 (octal), both inclusive");

static void validate_file_mode(struct validator *v, const struct path *at, bool has, int32_t mode)
{
    if (has && (mode < 0 || mode > 0777))
        cause_invalid_i64(v->causes, at, mode, file_mode_rule);
}

// --- References to fields ------------------------------------------------------------------------

// path['key'], taken apart. False when it is a plain path.
static bool split_subscript(struct str field, struct str *ret_path, struct str *ret_key)
{
    ptrdiff_t open = str_find(field, STR("['"));
    if (open <= 0 || !str_ends(field, STR("']")) || (size_t)open + 4 > field.n)
        return false;
    *ret_path = str_upto(field, (size_t)open);
    *ret_key = str_make(field.p + open + 2, field.n - (size_t)open - 4);
    return true;
}

static bool known_field(struct str field)
{
    static const struct str known[] = {
        STR_INIT("metadata.annotations"),
        STR_INIT("metadata.labels"),
        STR_INIT("metadata.name"),
        STR_INIT("metadata.namespace"),
        STR_INIT("metadata.uid"),
        STR_INIT("spec.nodeName"),
        STR_INIT("spec.restartPolicy"),
        STR_INIT("spec.serviceAccountName"),
        STR_INIT("spec.schedulerName"),
        STR_INIT("status.phase"),
        STR_INIT("status.hostIP"),
        STR_INIT("status.hostIPs"),
        STR_INIT("status.podIP"),
        STR_INIT("status.podIPs"),
        STR_INIT("spec.host"),
    };
    return validate_is_choice(CHOICES(known), field);
}

static void check_subscript(struct validator *v, const struct path *at, struct str field,
                            struct str path, struct str key)
{
    if (str_eqz(path, "metadata.annotations"))
        validate_named(v, at, validate_lower_case(key, scratch(v)), name_label_key);
    else if (str_eqz(path, "metadata.labels"))
        validate_named(v, at, key, name_label_key);
    else
        cause_invalid(v->causes, AT(at, "fieldPath"), field,
                      arena_strf(scratch(v),
                                 "error converting fieldPath: field label does not support "
                                 "subscript: %.*s",
                                 STR_ARG(field)));
}

void validate_field_ref(struct validator *v, const struct path *at,
                        const struct api_object_field_selector *ref, struct choices allowed)
{
    const struct path *field = AT(at, "fieldPath");
    struct str path, key;
    if (ref->api_version.n == 0) {
        cause_required(v->causes, AT(at, "apiVersion"), STR(""));
    } else if (ref->field_path.n == 0) {
        cause_required(v->causes, field, STR(""));
    } else if (!str_eqz(ref->api_version, "v1")) {
        cause_invalid(v->causes, field, ref->field_path,
                      arena_strf(scratch(v),
                                 "error converting fieldPath: unsupported pod version: %.*s",
                                 STR_ARG(ref->api_version)));
    } else if (split_subscript(ref->field_path, &path, &key)) {
        check_subscript(v, at, ref->field_path, path, key);
    } else if (!known_field(ref->field_path)) {
        cause_invalid(v->causes, field, ref->field_path,
                      arena_strf(scratch(v),
                                 "error converting fieldPath: field label not supported: %.*s",
                                 STR_ARG(ref->field_path)));
    } else {
        bool host = str_eqz(ref->field_path, "spec.host");
        validate_choice(v, field, host ? STR("spec.nodeName") : ref->field_path, allowed);
    }
}

// What an amount may be divided by.
static void check_divisor(struct validator *v, const struct path *at,
                          const struct api_resource_field_selector *ref)
{
    static const struct str cpu[] = {STR_INIT("1"), STR_INIT("1m")};
    static const struct str bytes[] = {
        STR_INIT("1"),   STR_INIT("1k"),  STR_INIT("1M"),  STR_INIT("1G"),  STR_INIT("1T"),
        STR_INIT("1P"),  STR_INIT("1E"),  STR_INIT("1Ki"), STR_INIT("1Mi"), STR_INIT("1Gi"),
        STR_INIT("1Ti"), STR_INIT("1Pi"), STR_INIT("1Ei"),
    };
    static const struct {
        struct str name, words;
    } kinds[] = {
        {STR_INIT("memory"), STR_INIT("memory")},
        {STR_INIT("ephemeral-storage"), STR_INIT("local ephemeral storage")},
    };
    if (quantity_sign(&ref->divisor) == 0)
        return;
    struct str text = validate_quantity_text(&ref->divisor, scratch(v)), side, what;
    if (!str_cut(ref->resource, '.', &side, &what) ||
        (!str_eqz(side, "limits") && !str_eqz(side, "requests")))
        return;
    if (str_eqz(what, "cpu")) {
        if (!validate_is_choice(CHOICES(cpu), text))
            cause_invalid(
                v->causes, AT(at, "divisor"), ref->resource,
                STR("only divisor's values 1m and 1 are supported with the cpu resource"));
        return;
    }
    struct str words = resources_is_huge_page(what) ? STR("hugepages") : STR("");
    for (size_t i = 0; i < array_len(kinds); i++)
        if (str_eq(what, kinds[i].name))
            words = kinds[i].words;
    if (words.n && !validate_is_choice(CHOICES(bytes), text))
        cause_invalid(v->causes, AT(at, "divisor"), ref->resource,
                      arena_strf(scratch(v),
                                 "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, "
                                 "1Ti, 1Pi, 1Ei are supported with the %.*s resource",
                                 STR_ARG(words)));
}

void validate_resource_field_ref(struct validator *v, const struct path *at,
                                 const struct api_resource_field_selector *ref, bool in_volume)
{
    static const struct str allowed[] = {
        STR_INIT("limits.cpu"),
        STR_INIT("limits.ephemeral-storage"),
        STR_INIT("limits.memory"),
        STR_INIT("requests.cpu"),
        STR_INIT("requests.ephemeral-storage"),
        STR_INIT("requests.memory"),
    };
    bool huge = str_starts(ref->resource, STR("requests.hugepages-")) ||
                str_starts(ref->resource, STR("limits.hugepages-"));
    if (in_volume && ref->container_name.n == 0)
        cause_required(v->causes, AT(at, "containerName"), STR(""));
    else if (ref->resource.n == 0)
        cause_required(v->causes, AT(at, "resource"), STR(""));
    else if (!huge)
        validate_choice(v, AT(at, "resource"), ref->resource, CHOICES(allowed));
    check_divisor(v, at, ref);
}

// --- Sources made of objects ---------------------------------------------------------------------

static void validate_volume_items(struct validator *v, const struct path *list,
                                  const struct api_key_to_path_array *items)
{
    for (size_t i = 0; i < items->n && !causes_full(v->causes); i++) {
        const struct api_key_to_path *item = &items->p[i];
        const struct path *at = AT_ITEM(list, i);
        validate_required(v, AT(at, "key"), item->key);
        validate_required(v, AT(at, "path"), item->path);
        validate_local_path(v, AT(at, "path"), item->path);
        validate_file_mode(v, AT(at, "mode"), item->has_mode, item->mode);
        validate_user_id(v, AT(at, "user"), item->has_user, item->user);
    }
}

static void check_secret_source(struct validator *v, const struct path *at,
                                const struct api_secret_volume_source *s)
{
    validate_required(v, AT(at, "secretName"), s->secret_name);
    validate_file_mode(v, AT(at, "defaultMode"), s->has_default_mode, s->default_mode);
    validate_user_id(v, AT(at, "defaultUser"), s->has_default_user, s->default_user);
    validate_volume_items(v, AT(at, "items"), &s->items);
}

static void check_config_map_source(struct validator *v, const struct path *at,
                                    const struct api_config_map_volume_source *s)
{
    validate_required(v, AT(at, "name"), s->local_object_reference.name);
    validate_file_mode(v, AT(at, "defaultMode"), s->has_default_mode, s->default_mode);
    validate_user_id(v, AT(at, "defaultUser"), s->has_default_user, s->default_user);
    validate_volume_items(v, AT(at, "items"), &s->items);
}

static void check_downward_file(struct validator *v, const struct path *at,
                                const struct api_downward_api_volume_file *f)
{
    static const struct str fields[] = {
        STR_INIT("metadata.annotations"), STR_INIT("metadata.labels"), STR_INIT("metadata.name"),
        STR_INIT("metadata.namespace"),   STR_INIT("metadata.uid"),
    };
    validate_required(v, AT(at, "path"), f->path);
    validate_local_path(v, AT(at, "path"), f->path);
    if (f->field_ref)
        validate_field_ref(v, AT(at, "fieldRef"), f->field_ref, CHOICES(fields));
    if (f->field_ref && f->resource_field_ref)
        cause_invalid(v->causes, at, STR("resource"),
                      STR("fieldRef and resourceFieldRef can not be specified simultaneously"));
    else if (f->resource_field_ref)
        validate_resource_field_ref(v, AT(at, "resourceFieldRef"), f->resource_field_ref, true);
    else if (!f->field_ref)
        cause_required(v->causes, at, STR("one of fieldRef and resourceFieldRef is required"));
    validate_file_mode(v, AT(at, "mode"), f->has_mode, f->mode);
    validate_user_id(v, AT(at, "user"), f->has_user, f->user);
}

static void check_downward(struct validator *v, const struct path *at,
                           const struct api_downward_api_volume_source *s)
{
    validate_file_mode(v, AT(at, "defaultMode"), s->has_default_mode, s->default_mode);
    validate_user_id(v, AT(at, "defaultUser"), s->has_default_user, s->default_user);
    for (size_t i = 0; i < s->items.n && !causes_full(v->causes); i++)
        check_downward_file(v, at, &s->items.p[i]);
}

// --- Projections ---------------------------------------------------------------------------------

struct projection {
    struct validator *v;
    const struct path *volume;
    struct seen paths;
};

static void take_path(struct projection *p, struct str path, struct str shown)
{
    if (seen_add(&p->paths, path))
        cause_invalid(p->v->causes, p->volume, shown, STR("conflicting duplicate paths"));
}

static void check_projected_items(struct projection *p, const struct path *at, struct str name,
                                  const struct api_key_to_path_array *items)
{
    validate_required(p->v, AT(at, "name"), name);
    validate_volume_items(p->v, AT(at, "items"), items);
    for (size_t i = 0; i < items->n; i++)
        if (items->p[i].path.n)
            take_path(p, items->p[i].path, name);
}

static void validate_volume_token(struct projection *p, const struct path *at,
                                  const struct api_service_account_token_projection *t)
{
    struct validator *v = p->v;
    const struct path *expiration = AT(at, "expirationSeconds");
    if (!t->has_expiration_seconds)
        cause_required(v->causes, expiration, STR(""));
    else if (t->expiration_seconds < TOKEN_SECONDS_MIN)
        cause_invalid_i64(v->causes, expiration, t->expiration_seconds,
                          STR("may not specify a duration less than 10 minutes"));
    else if (t->expiration_seconds > TOKEN_SECONDS_MAX)
        cause_invalid_i64(v->causes, expiration, t->expiration_seconds,
                          STR("may not specify a duration larger than 2^32 seconds"));
    validate_required(v, AT(p->volume, "path"), t->path);
    if (t->path.n)
        validate_local_path(v, AT(p->volume, "path"), t->path);
    validate_user_id(v, AT(at, "user"), t->has_user, t->user);
}

static void check_projection(struct projection *p, const struct path *at,
                             const struct api_volume_projection *s)
{
    size_t n = 0;
    if (s->secret && ++n)
        check_projected_items(p, AT(at, "secret"), s->secret->local_object_reference.name,
                              &s->secret->items);
    if (s->config_map && ++n)
        check_projected_items(p, AT(at, "configMap"), s->config_map->local_object_reference.name,
                              &s->config_map->items);
    if (s->downward_api && ++n) {
        for (size_t i = 0; i < s->downward_api->items.n; i++) {
            const struct api_downward_api_volume_file *f = &s->downward_api->items.p[i];
            check_downward_file(p->v, AT(at, "downwardAPI"), f);
            if (f->path.n)
                take_path(p, f->path, f->path);
        }
    }
    if (s->service_account_token && ++n)
        validate_volume_token(p, AT(at, "serviceAccountToken"), s->service_account_token);
    // Bundles and certificates are for gates that are off; only that they are alone is checked.
    n += s->cluster_trust_bundle ? 1 : 0;
    n += s->pod_certificate ? 1 : 0;
    if (n > 1)
        cause_forbidden(p->v->causes, at,
                        STR("may not specify more than 1 volume type per source"));
}

static void check_projected(struct validator *v, const struct path *at,
                            const struct api_projected_volume_source *s)
{
    struct projection p = {.v = v, .volume = at};
    validate_file_mode(v, AT(at, "defaultMode"), s->has_default_mode, s->default_mode);
    validate_user_id(v, AT(at, "defaultUser"), s->has_default_user, s->default_user);
    for (size_t i = 0; i < s->sources.n && !causes_full(v->causes); i++)
        check_projection(&p, AT_ITEM(AT(at, "sources"), i), &s->sources.p[i]);
    seen_done(&p.paths);
}

// --- Other sources -------------------------------------------------------------------------------

static void check_empty_dir(struct validator *v, const struct path *at,
                            const struct api_empty_dir_volume_source *s)
{
    if (s->size_limit && quantity_sign(s->size_limit) < 0)
        cause_forbidden(v->causes, AT(at, "sizeLimit"),
                        STR("SizeLimit field must be a valid resource quantity"));
    if (s->has_mode && (s->mode < 0 || s->mode > 01777))
        cause_invalid_i64(v->causes, AT(at, "mode"), s->mode,
                          STR("must be a number between 0 and 01777 (octal), both inclusive"));
}

static void check_host_path(struct validator *v, const struct path *at,
                            const struct api_host_path_volume_source *s)
{
    static const struct str types[] = {
        STR_INIT(""),
        STR_INIT("BlockDevice"),
        STR_INIT("CharDevice"),
        STR_INIT("Directory"),
        STR_INIT("DirectoryOrCreate"),
        STR_INIT("File"),
        STR_INIT("FileOrCreate"),
        STR_INIT("Socket"),
    };
    validate_required(v, AT(at, "path"), s->path);
    if (s->path.n == 0)
        return;
    validate_no_backsteps(v, AT(at, "path"), s->path);
    if (s->has_type)
        validate_choice(v, AT(at, "type"), s->type, CHOICES(types));
}

static void check_csi(struct validator *v, const struct path *at,
                      const struct api_csi_volume_source *s)
{
    size_t from = v->causes->n;
    validate_driver_name(v, AT(at, "driver"), s->driver, OWN);
    for (size_t i = from; i < v->causes->n; i++)
        v->causes->p[i].message =
            validate_in_characters(v->causes->p[i].message, name_dns_subdomain, scratch(v));
    if (!s->node_publish_secret_ref)
        return;
    validate_required(v, AT(AT(at, "nodePublishSecretRef"), "name"),
                      s->node_publish_secret_ref->name);
    if (s->node_publish_secret_ref->name.n)
        validate_named(v, AT(at, "name"), s->node_publish_secret_ref->name, name_dns_subdomain);
}

static void validate_volume_ephemeral(struct validator *v, const struct path *volume,
                                      const struct api_ephemeral_volume_source *s,
                                      const struct api_object_meta *meta, struct str name)
{
    const struct path *at = AT(AT(volume, "ephemeral"), "volumeClaimTemplate");
    if (!s->volume_claim_template) {
        cause_required(v->causes, at, STR(""));
    } else {
        validate_template_meta(v, &s->volume_claim_template->metadata, AT(at, "metadata"));
        validate_volume_claim_spec(v, AT(at, "spec"), &s->volume_claim_template->spec);
    }
    if (!meta || meta->name.n == 0 || name.n == 0)
        return;
    struct str claim = arena_strf(scratch(v), "%.*s-%.*s", STR_ARG(meta->name), STR_ARG(name));
    struct name_msgs msgs = {.arena = scratch(v)};
    name_dns_subdomain(claim, &msgs);
    for (size_t i = 0; i < msgs.n; i++) {
        cleanup_sbuf struct sbuf b = {0};
        sbuf_addz(&b, "PVC name ");
        sbuf_add_quoted(&b, claim);
        sbuf_addf(&b, ": %.*s",
                  STR_ARG(validate_in_characters(msgs.p[i], name_dns_subdomain, scratch(v))));
        cause_invalid(v->causes, AT(volume, "name"), name, sbuf_str(&b));
    }
}

// --- One volume ----------------------------------------------------------------------------------

// Whether a source counts: a second one is reported and not checked.
static bool first_source(struct validator *v, const struct path *at, const void *given, size_t *n)
{
    if (!given)
        return false;
    if (*n > 0) {
        cause_forbidden(v->causes, at, STR("may not specify more than 1 volume type"));
        return false;
    }
    (*n)++;
    return true;
}

static void check_own_sources(struct validator *v, const struct path *at,
                              const struct api_volume_source *s, size_t *n)
{
    if (first_source(v, AT(at, "emptyDir"), s->empty_dir, n))
        check_empty_dir(v, AT(at, "emptyDir"), s->empty_dir);
    if (first_source(v, AT(at, "hostPath"), s->host_path, n))
        check_host_path(v, AT(at, "hostPath"), s->host_path);
    if (first_source(v, AT(at, "secret"), s->secret, n))
        check_secret_source(v, AT(at, "secret"), s->secret);
    if (first_source(v, AT(at, "persistentVolumeClaim"), s->persistent_volume_claim, n))
        validate_required(v, AT(AT(at, "persistentVolumeClaim"), "claimName"),
                          s->persistent_volume_claim->claim_name);
    if (first_source(v, AT(at, "downwardAPI"), s->downward_api, n))
        check_downward(v, AT(at, "downwardAPI"), s->downward_api);
    if (first_source(v, AT(at, "configMap"), s->config_map, n))
        check_config_map_source(v, AT(at, "configMap"), s->config_map);
    if (first_source(v, AT(at, "projected"), s->projected, n))
        check_projected(v, AT(at, "projected"), s->projected);
    if (first_source(v, AT(at, "csi"), s->csi, n))
        check_csi(v, AT(at, "csi"), s->csi);
}

static void check_volume(struct validator *v, const struct path *at,
                         const struct api_volume *volume, const struct api_object_meta *meta)
{
    const struct api_volume_source *s = &volume->volume_source;
    size_t n = 0;
    check_own_sources(v, at, s, &n);
    validate_volume_drivers(v, at, s, &n);
    if (first_source(v, AT(at, "ephemeral"), s->ephemeral, &n))
        validate_volume_ephemeral(v, at, s->ephemeral, meta, volume->name);
    if (first_source(v, AT(at, "image"), s->image, &n)) {
        validate_required(v, AT(AT(at, "image"), "reference"), s->image->reference);
        validate_pull_policy(v, AT(AT(at, "image"), "pullPolicy"), s->image->pull_policy);
    }
    if (n == 0)
        cause_required(v->causes, at, STR("must specify a volume type"));
}

// The claims that the pod's ephemeral volumes make.
static struct seen made_claims(struct validator *v, const struct api_volume_array *volumes,
                               const struct api_object_meta *meta)
{
    struct seen made = {0};
    for (size_t i = 0; meta && meta->name.n && i < volumes->n; i++)
        if (volumes->p[i].volume_source.ephemeral)
            (void)seen_add(&made, arena_strf(scratch(v), "%.*s-%.*s", STR_ARG(meta->name),
                                             STR_ARG(volumes->p[i].name)));
    return made;
}

void validate_volumes(struct validator *v, const struct path *list,
                      const struct api_volume_array *volumes, const struct api_object_meta *meta,
                      struct volume_map *ret)
{
    cleanup_seen struct seen made = made_claims(v, volumes, meta);
    for (size_t i = 0; i < volumes->n && !causes_full(v->causes); i++) {
        const struct api_volume *volume = &volumes->p[i];
        const struct path *at = AT_ITEM(list, i), *name = AT(at, "name");
        size_t before = v->causes->n;
        check_volume(v, at, volume, meta);
        validate_required(v, name, volume->name);
        if (volume->name.n)
            validate_named(v, name, volume->name, name_dns_label);
        if (map_has(ret, volume->name))
            cause_duplicate(v->causes, name, volume->name);
        if (v->causes->n == before)
            *map_put(ret, volume->name) = &volume->volume_source;
        const struct api_persistent_volume_claim_volume_source *claim =
            volume->volume_source.persistent_volume_claim;
        if (claim && map_has(&made, claim->claim_name))
            cause_invalid(
                v->causes, AT(AT(at, "persistentVolumeClaim"), "claimName"), claim->claim_name,
                STR("must not reference a PVC that gets created for an ephemeral volume"));
    }
}
