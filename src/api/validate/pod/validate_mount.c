// SPDX-License-Identifier: Apache-2.0
//
// What comes into a container from outside: volumes, devices, environment variables.
#include "api/validate/validate_core.h"

#include "base/banned.h"

// --- Mounts --------------------------------------------------------------------------------------

// What a container's mounts, or devices, are called, and where they are. Of several with one name
// the last one counts.
struct places {
    struct seen names, paths;
};

static void places_done(struct places *p)
{
    seen_done(&p->names);
    seen_done(&p->paths);
}
#define cleanup_places cleanup_with(places_done)

static struct places places_of_devices(const struct api_container *c)
{
    struct places all = {0};
    for (size_t i = c->volume_devices.n; i-- > 0;)
        if (!seen_add(&all.names, c->volume_devices.p[i].name))
            (void)seen_add(&all.paths, c->volume_devices.p[i].device_path);
    return all;
}

static struct places places_of_mounts(const struct api_container *c)
{
    struct places all = {0};
    for (size_t i = c->volume_mounts.n; i-- > 0;)
        if (!seen_add(&all.names, c->volume_mounts.p[i].name))
            (void)seen_add(&all.paths, c->volume_mounts.p[i].mount_path);
    return all;
}

static bool is_privileged(const struct api_container *c)
{
    const struct api_security_context *sc = c->security_context;
    return sc && sc->has_privileged && sc->privileged;
}

static void check_propagation(struct validator *v, const struct path *at, struct str mode,
                              const struct api_container *c)
{
    static const struct str modes[] = {STR_INIT("Bidirectional"), STR_INIT("HostToContainer"),
                                       STR_INIT("None")};
    validate_choice(v, at, mode, CHOICES(modes));
    if (str_eqz(mode, "Bidirectional") && !is_privileged(c))
        cause_forbidden(
            v->causes, at,
            STR("Bidirectional mount propagation is available only to privileged containers"));
}

static void check_recursive_read_only(struct validator *v, const struct path *at,
                                      const struct api_volume_mount *m)
{
    static const struct str modes[] = {STR_INIT("Disabled"), STR_INIT("Enabled"),
                                       STR_INIT("IfPossible")};
    if (!m->has_recursive_read_only || str_eqz(m->recursive_read_only, "Disabled"))
        return;
    if (!validate_is_choice(CHOICES(modes), m->recursive_read_only)) {
        validate_choice(v, at, m->recursive_read_only, CHOICES(modes));
        return;
    }
    if (!m->read_only)
        cause_forbidden(v->causes, at, STR("may only be specified when readOnly is true"));
    if (m->has_mount_propagation && !str_eqz(m->mount_propagation, "None"))
        cause_forbidden(
            v->causes, at,
            STR("may only be specified when mountPropagation is None or not specified"));
}

static void check_bind_options(struct pod_rules *p, const struct path *at,
                               const struct api_volume_mount *m)
{
    static const struct str options[] = {STR_INIT("nodev"), STR_INIT("noexec"), STR_INIT("nosuid")};
    const struct api_str_array *list = &m->bind_mount_options;
    cleanup_seen struct seen seen = {0};
    for (size_t i = 0; i < list->n; i++) {
        validate_choice(p->v, AT_ITEM(at, i), list->p[i], CHOICES(options));
        if (seen_add(&seen, list->p[i]))
            cause_duplicate(p->v->causes, AT_ITEM(at, i), list->p[i]);
    }
    const struct api_volume_source *const *source = map_get(&p->volumes, m->name);
    if (list->n && source && (*source)->image)
        cause_invalid_json(p->v->causes, at, validate_show_strings(list->p, list->n, scratch(p->v)),
                           STR("bindMountOptions may not be used with image volumes"));
}

// Some places lack the index: upstream's do.
static void validate_mount_entry(struct pod_rules *p, const struct path *list, size_t i,
                                 const struct api_container *c, const struct places *devices)
{
    struct validator *v = p->v;
    const struct api_volume_mount *m = &c->volume_mounts.p[i];
    const struct path *at = AT_ITEM(list, i);
    if (map_has(&devices->names, m->name))
        cause_invalid(v->causes, AT(at, "name"), m->name,
                      STR("must not already exist in volumeDevices"));
    if (map_has(&devices->paths, m->mount_path))
        cause_invalid(v->causes, AT(at, "mountPath"), m->mount_path,
                      STR("must not already exist as a path in volumeDevices"));
    if (m->sub_path.n)
        validate_descending_path(v, AT(list, "subPath"), m->sub_path);
    if (m->sub_path_expr.n) {
        if (m->sub_path.n)
            cause_invalid(v->causes, AT(at, "subPathExpr"), m->sub_path_expr,
                          STR("subPathExpr and subPath are mutually exclusive"));
        validate_descending_path(v, AT(list, "subPathExpr"), m->sub_path_expr);
    }
    if (m->has_mount_propagation)
        check_propagation(v, AT(list, "mountPropagation"), m->mount_propagation, c);
    check_recursive_read_only(v, AT(list, "recursiveReadOnly"), m);
    check_bind_options(p, AT(at, "bindMountOptions"), m);
}

static void check_volume_mounts(struct pod_rules *p, const struct path *list,
                                const struct api_container *c)
{
    struct validator *v = p->v;
    cleanup_seen struct seen points = {0};
    cleanup_places struct places devices = places_of_devices(c);
    for (size_t i = 0; i < c->volume_mounts.n && !causes_full(v->causes); i++) {
        const struct api_volume_mount *m = &c->volume_mounts.p[i];
        const struct path *at = AT_ITEM(list, i);
        validate_required(v, AT(at, "name"), m->name);
        if (!map_has(&p->volumes, m->name))
            cause_not_found(v->causes, AT(at, "name"), m->name);
        validate_required(v, AT(at, "mountPath"), m->mount_path);
        if (seen_add(&points, m->mount_path))
            cause_invalid(v->causes, AT(at, "mountPath"), m->mount_path, STR("must be unique"));
        validate_mount_entry(p, list, i, c, &devices);
    }
}

static void check_device_volume(struct pod_rules *p, const struct path *at, struct str name)
{
    const struct api_volume_source *const *source = map_get(&p->volumes, name);
    if (!source)
        cause_not_found(p->v->causes, at, name);
    else if (!(*source)->persistent_volume_claim && !(*source)->ephemeral)
        cause_invalid(p->v->causes, at, name,
                      STR("can only use volume source type of PersistentVolumeClaim or Ephemeral "
                          "for block mode"));
}

static void check_volume_devices(struct pod_rules *p, const struct path *list,
                                 const struct api_container *c)
{
    struct validator *v = p->v;
    cleanup_seen struct seen paths = {0}, names = {0};
    cleanup_places struct places mounts = places_of_mounts(c);
    for (size_t i = 0; i < c->volume_devices.n && !causes_full(v->causes); i++) {
        const struct api_volume_device *d = &c->volume_devices.p[i];
        const struct path *at = AT_ITEM(list, i);
        validate_required(v, AT(at, "name"), d->name);
        if (d->name.n && seen_add(&names, d->name))
            cause_invalid(v->causes, AT(at, "name"), d->name, STR("must be unique"));
        check_device_volume(p, AT(at, "name"), d->name);
        validate_required(v, AT(at, "devicePath"), d->device_path);
        if (map_has(&paths, d->device_path))
            cause_invalid(v->causes, AT(at, "devicePath"), d->device_path, STR("must be unique"));
        if (validate_path_steps_back(d->device_path))
            cause_invalid(v->causes, AT(at, "devicePath"), d->device_path,
                          STR("can not contain backsteps ('..')"));
        else
            (void)seen_add(&paths, d->device_path);
        if (map_has(&mounts.names, d->name))
            cause_invalid(v->causes, AT(at, "name"), d->name,
                          STR("must not already exist in volumeMounts"));
        if (map_has(&mounts.paths, d->device_path))
            cause_invalid(v->causes, AT(at, "devicePath"), d->device_path,
                          STR("must not already exist as a path in volumeMounts"));
    }
}

void validate_mounts(struct pod_rules *p, const struct path *at, const struct api_container *c)
{
    check_volume_mounts(p, AT(at, "volumeMounts"), c);
    check_volume_devices(p, AT(at, "volumeDevices"), c);
}

// --- Environment ---------------------------------------------------------------------------------

static void check_key_ref(struct validator *v, const struct path *at, struct str name,
                          struct str key)
{
    validate_named(v, AT(at, "name"), name, name_dns_subdomain);
    if (key.n == 0)
        cause_required(v->causes, AT(at, "key"), STR(""));
    else
        validate_named(v, AT(at, "key"), key, name_config_key);
}

static void check_file_ref(struct validator *v, const struct path *at,
                           const struct api_file_key_selector *ref)
{
    validate_required(v, AT(at, "key"), ref->key);
    if (ref->key.n)
        validate_named(v, AT(at, "key"), ref->key, name_env_var);
    validate_required(v, AT(at, "volumeName"), ref->volume_name);
    if (ref->volume_name.n)
        validate_named(v, AT(at, "volumeName"), ref->volume_name, name_dns_label);
    validate_required(v, AT(at, "path"), ref->path);
    if (ref->path.n)
        validate_no_backsteps(v, AT(at, "path"), ref->path);
}

static void check_value_from(struct validator *v, const struct path *at,
                             const struct api_env_var *e)
{
    static const struct str fields[] = {
        STR_INIT("metadata.name"),
        STR_INIT("metadata.namespace"),
        STR_INIT("metadata.uid"),
        STR_INIT("spec.nodeName"),
        STR_INIT("spec.serviceAccountName"),
        STR_INIT("status.hostIP"),
        STR_INIT("status.hostIPs"),
        STR_INIT("status.podIP"),
        STR_INIT("status.podIPs"),
    };
    const struct api_env_var_source *s = e->value_from;
    size_t n = 0;
    if (s->field_ref && ++n)
        validate_field_ref(v, AT(at, "fieldRef"), s->field_ref, CHOICES(fields));
    if (s->resource_field_ref && ++n)
        validate_resource_field_ref(v, AT(at, "resourceFieldRef"), s->resource_field_ref, false);
    if (s->config_map_key_ref && ++n)
        check_key_ref(v, AT(at, "configMapKeyRef"),
                      s->config_map_key_ref->local_object_reference.name,
                      s->config_map_key_ref->key);
    if (s->secret_key_ref && ++n)
        check_key_ref(v, AT(at, "secretKeyRef"), s->secret_key_ref->local_object_reference.name,
                      s->secret_key_ref->key);
    if (s->file_key_ref && ++n)
        check_file_ref(v, AT(at, "fileKeyRef"), s->file_key_ref);
    if (n == 0)
        cause_invalid(v->causes, at, STR(""),
                      STR("must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, "
                          "`secretKeyRef` or `fileKeyRef`"));
    else if (e->value.n)
        cause_invalid(v->causes, at, STR(""),
                      STR("may not be specified when `value` is not empty"));
    else if (n > 1)
        cause_invalid(v->causes, at, STR(""),
                      STR("may not have more than one field specified at a time"));
}

static void check_env_from(struct validator *v, const struct path *list,
                           const struct api_env_from_source_array *sources)
{
    for (size_t i = 0; i < sources->n; i++) {
        const struct api_env_from_source *s = &sources->p[i];
        const struct path *at = AT_ITEM(list, i);
        if (s->prefix.n)
            validate_named(v, AT(at, "prefix"), s->prefix, name_env_var);
        const struct api_local_object_reference *refs[] = {
            s->config_map_ref ? &s->config_map_ref->local_object_reference : NULL,
            s->secret_ref ? &s->secret_ref->local_object_reference : NULL,
        };
        const struct path *places[] = {AT(at, "configMapRef"), AT(at, "secretRef")};
        size_t n = 0;
        for (size_t j = 0; j < array_len(refs); j++) {
            if (!refs[j])
                continue;
            n++;
            validate_required(v, AT(places[j], "name"), refs[j]->name);
            // Upstream asks for the beginning of a name here, so a dash may be the end.
            if (refs[j]->name.n)
                validate_prefix_name(v, AT(places[j], "name"), refs[j]->name, name_dns_subdomain);
        }
        if (n == 0)
            cause_invalid(v->causes, list, STR(""),
                          STR("must specify one of: `configMapRef` or `secretRef`"));
        else if (n > 1)
            cause_invalid(v->causes, list, STR(""),
                          STR("may not have more than one field specified at a time"));
    }
}

void validate_env(struct pod_rules *p, const struct path *at, const struct api_container *c)
{
    const struct path *list = AT(at, "env");
    for (size_t i = 0; i < c->env.n && !causes_full(p->v->causes); i++) {
        const struct path *item = AT_ITEM(list, i);
        validate_required(p->v, AT(item, "name"), c->env.p[i].name);
        if (c->env.p[i].name.n)
            validate_named(p->v, AT(item, "name"), c->env.p[i].name, name_env_var);
        if (c->env.p[i].value_from)
            check_value_from(p->v, AT(item, "valueFrom"), &c->env.p[i]);
    }
    check_env_from(p->v, AT(at, "envFrom"), &c->env_from);
}
