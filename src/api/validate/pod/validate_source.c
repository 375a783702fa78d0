// SPDX-License-Identifier: Apache-2.0
//
// Volumes that other systems provide, most of them relics, and claims to persistent volumes. Nearly
// all rules are that something must be given, so they are a table.
#include "api/validate/validate_core.h"

#include "base/banned.h"

// What a source must have, as paths below it.
static const struct {
    struct str source;
    struct str required[3];
} drivers[] = {
    {STR_INIT("gitRepo"), {STR_INIT("repository")}},
    {STR_INIT("gcePersistentDisk"), {STR_INIT("pdName")}},
    {STR_INIT("awsElasticBlockStore"), {STR_INIT("volumeID")}},
    {STR_INIT("nfs"), {STR_INIT("server"), STR_INIT("path")}},
    {STR_INIT("iscsi"), {STR_INIT("targetPortal"), STR_INIT("iqn")}},
    {STR_INIT("glusterfs"), {STR_INIT("endpoints"), STR_INIT("path")}},
    {STR_INIT("flocker"), {{0}}},
    {STR_INIT("rbd"), {STR_INIT("monitors"), STR_INIT("image")}},
    {STR_INIT("cinder"), {STR_INIT("volumeID")}},
    {STR_INIT("cephfs"), {STR_INIT("monitors")}},
    {STR_INIT("quobyte"), {STR_INIT("registry"), STR_INIT("volume")}},
    {STR_INIT("fc"), {{0}}},
    {STR_INIT("flexVolume"), {STR_INIT("driver")}},
    {STR_INIT("azureFile"), {STR_INIT("secretName"), STR_INIT("shareName")}},
    {STR_INIT("vsphereVolume"), {STR_INIT("volumePath")}},
    {STR_INIT("photonPersistentDisk"), {STR_INIT("pdID")}},
    {STR_INIT("portworxVolume"), {STR_INIT("volumeID")}},
    {STR_INIT("azureDisk"), {STR_INIT("diskName"), STR_INIT("diskURI")}},
    {STR_INIT("storageos"), {STR_INIT("volumeName")}},
    {STR_INIT("scaleIO"), {STR_INIT("gateway"), STR_INIT("system"), STR_INIT("volumeName")}},
};

static bool source_is_set(const struct api_field *f, const void *owner)
{
    if (f->shape == API_LIST)
        return ((const struct api_span *)api_member_const(f, owner))->n > 0;
    return api_field_present(f, owner);
}

static void check_iscsi(struct validator *v, const struct path *at,
                        const struct api_iscsi_volume_source *s)
{
    bool known = str_starts(s->iqn, STR("iqn")) || str_starts(s->iqn, STR("eui")) ||
                 str_starts(s->iqn, STR("naa"));
    if (s->iqn.n && !known)
        cause_invalid(v->causes, AT(at, "iqn"), s->iqn,
                      STR("must be valid format starting with iqn, eui, or naa"));
    validate_between(v, AT(at, "lun"), s->lun, 0, 255);
    if ((s->chap_auth_discovery || s->chap_auth_session) && !s->secret_ref)
        cause_required(v->causes, AT(at, "secretRef"), STR(""));
}

static void check_fc(struct validator *v, const struct path *at,
                     const struct api_fc_volume_source *s)
{
    const struct path *names = AT(at, "targetWWNs");
    if (s->target_wwns.n == 0 && s->wwids.n == 0)
        cause_required(v->causes, names,
                       STR("must specify either targetWWNs or wwids, but not both"));
    if (s->target_wwns.n && s->wwids.n)
        cause_invalid_json(v->causes, names,
                           validate_show_strings(s->target_wwns.p, s->target_wwns.n, scratch(v)),
                           STR("targetWWNs and wwids can not be specified simultaneously"));
    if (s->target_wwns.n && !s->has_lun)
        cause_required(v->causes, AT(at, "lun"), STR("lun is required if targetWWNs is specified"));
    else if (s->target_wwns.n)
        validate_between(v, AT(at, "lun"), s->lun, 0, 255);
}

static void check_flocker(struct validator *v, const struct path *at,
                          const struct api_flocker_volume_source *s)
{
    if (s->dataset_name.n == 0 && s->dataset_uuid.n == 0)
        cause_required(v->causes, at, STR("one of datasetName and datasetUUID is required"));
    if (s->dataset_name.n && s->dataset_uuid.n)
        cause_invalid(v->causes, at, STR("resource"),
                      STR("datasetName and datasetUUID can not be specified simultaneously"));
    if (str_find_char(s->dataset_name, '/') >= 0)
        cause_invalid(v->causes, AT(at, "datasetName"), s->dataset_name,
                      STR("must not contain '/'"));
}

// What the table cannot say.
static void check_driver_more(struct validator *v, const struct path *volume,
                              const struct api_volume_source *s, struct str name)
{
    const struct path *at = AT_NAME(volume, name);
    if (str_eqz(name, "gitRepo"))
        validate_descending_path(v, AT(at, "directory"), s->git_repo->directory);
    else if (str_eqz(name, "nfs") && !str_starts(s->nfs->path, STR("/")))
        cause_invalid(v->causes, AT(at, "path"), s->nfs->path, STR("must be an absolute path"));
    else if (str_eqz(name, "iscsi"))
        check_iscsi(v, at, s->iscsi);
    else if (str_eqz(name, "fc"))
        check_fc(v, at, s->fc);
    else if (str_eqz(name, "flocker"))
        check_flocker(v, at, s->flocker);
}

static void check_driver(struct validator *v, const struct path *volume,
                         const struct api_volume_source *s, size_t which)
{
    const struct api_field *f = api_type_field(&api_volume_source_type, drivers[which].source);
    const void *source = *(const void *const *)api_member_const(f, s);
    const struct path *at = AT_NAME(volume, drivers[which].source);
    for (size_t i = 0; i < array_len(drivers[which].required); i++) {
        struct str name = drivers[which].required[i];
        if (name.n && !source_is_set(api_type_field(f->sub, name), source))
            cause_required(v->causes, AT_NAME(at, name), STR(""));
    }
    check_driver_more(v, volume, s, drivers[which].source);
}

void validate_volume_drivers(struct validator *v, const struct path *at,
                             const struct api_volume_source *s, size_t *found)
{
    for (size_t i = 0; i < array_len(drivers); i++) {
        const struct api_field *f = api_type_field(&api_volume_source_type, drivers[i].source);
        if (!api_field_present(f, s))
            continue;
        if ((*found)++ > 0)
            cause_forbidden(v->causes, AT_NAME(at, drivers[i].source),
                            STR("may not specify more than 1 volume type"));
        else
            check_driver(v, at, s, i);
    }
}

// --- Claims to persistent volumes ----------------------------------------------------------------

static void check_access_modes(struct validator *v, const struct path *at,
                               const struct api_str_array *modes)
{
    static const struct str known[] = {STR_INIT("ReadOnlyMany"), STR_INIT("ReadWriteMany"),
                                       STR_INIT("ReadWriteOnce"), STR_INIT("ReadWriteOncePod")};
    bool alone = false, others = false;
    for (size_t i = 0; i < modes->n; i++) {
        validate_choice(v, at, modes->p[i], CHOICES(known));
        if (str_eqz(modes->p[i], "ReadWriteOncePod"))
            alone = true;
        else
            others = others || validate_is_choice(CHOICES(known), modes->p[i]);
    }
    if (alone && others)
        cause_forbidden(v->causes, at, STR("may not use ReadWriteOncePod with other access modes"));
}

static void check_data_source(struct validator *v, const struct path *at, struct str group,
                              struct str kind, struct str name)
{
    validate_required(v, AT(at, "name"), name);
    validate_required(v, AT(at, "kind"), kind);
    if (group.n == 0 && !str_eqz(kind, "PersistentVolumeClaim"))
        cause_invalid(v->causes, at, kind,
                      STR("must be 'PersistentVolumeClaim' when referencing the default apiGroup"));
    if (group.n)
        validate_named(v, AT(at, "apiGroup"), group, name_dns_subdomain);
}

static void check_claim_classes(struct validator *v, const struct path *at,
                                const struct api_persistent_volume_claim_spec *spec)
{
    static const struct str modes[] = {STR_INIT("Block"), STR_INIT("Filesystem")};
    if (spec->storage_class_name.n)
        validate_named(v, AT(at, "storageClassName"), spec->storage_class_name, name_dns_subdomain);
    if (spec->has_volume_mode)
        validate_choice(v, AT(at, "volumeMode"), spec->volume_mode, CHOICES(modes));
    if (spec->data_source)
        check_data_source(v, AT(at, "dataSource"), spec->data_source->api_group,
                          spec->data_source->kind, spec->data_source->name);
    if (spec->data_source_ref)
        check_data_source(v, AT(at, "dataSourceRef"), spec->data_source_ref->api_group,
                          spec->data_source_ref->kind, spec->data_source_ref->name);
    if (spec->volume_attributes_class_name.n)
        validate_named(v, AT(at, "volumeAttributesClassName"), spec->volume_attributes_class_name,
                       name_dns_subdomain);
}

void validate_volume_claim_spec(struct validator *v, const struct path *at,
                                const struct api_persistent_volume_claim_spec *spec)
{
    const struct path *storage = AT_KEY(AT(at, "resources"), STR("storage"));
    if (spec->access_modes.n == 0)
        cause_required(v->causes, AT(at, "accessModes"), STR("at least 1 access mode is required"));
    validate_label_selector(v, AT(at, "selector"), spec->selector);
    check_access_modes(v, AT(at, "accessModes"), &spec->access_modes);
    const struct quantity *amount = amounts_get(&spec->resources.requests, STR("storage"));
    if (!amount)
        cause_required(v->causes, storage, STR(""));
    else if (quantity_sign(amount) <= 0)
        cause_invalid(v->causes, storage, validate_quantity_text(amount, scratch(v)),
                      STR("must be greater than zero"));
    check_claim_classes(v, at, spec);
}
