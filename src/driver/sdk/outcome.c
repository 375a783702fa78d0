// SPDX-License-Identifier: Apache-2.0
//
// What prepare made: CDI devices, metadata files and device status, collected from the callback and
// written once it succeeded.
#include "driver/sdk/outcome.h"

#include "codec/json_writer.h"

#include "base/banned.h"

void outcome_init(struct dray_outcome *o, const struct dray_claim *claim, struct arena *arena)
{
    *o = (struct dray_outcome){.arena = arena, .claim = claim};
    o->devices = arena_array(arena, struct outcome_device, claim->devices_len);
}

static void outcome_note_mistake(struct dray_outcome *o, const char *what)
{
    if (o->mistake.code == 0)
        (void)err_set(&o->mistake, ERR_INVALID, "the driver's prepare: %s", what);
}

// The device's part, NULL when there is no such device.
static struct outcome_device *outcome_get_device(struct dray_outcome *o, size_t device)
{
    if (device < o->claim->devices_len)
        return &o->devices[device];
    outcome_note_mistake(o, "a device number that the claim does not have");
    return NULL;
}

static struct cdi_edits *edits_of(struct dray_outcome *o, size_t device)
{
    static struct cdi_edits nowhere;
    if (device == DRAY_ALL)
        return &o->all;
    struct outcome_device *d = outcome_get_device(o, device);
    return d ? &d->edits : &nowhere;
}

static struct str outcome_keep_text(const struct dray_outcome *o, const char *text)
{
    return text ? arena_str(o->arena, str_z(text)) : STR("");
}

// --- What drivers call ---------------------------------------------------------------------------

void dray_env(struct dray_outcome *o, size_t device, const char *name, const char *value)
{
    if (!name || !value || !*name || strchr(name, '=')) {
        outcome_note_mistake(o, "an environment variable needs a name without '=' and a value");
        return;
    }
    struct str pair = arena_strf(o->arena, "%s=%s", name, value);
    if (device == DRAY_ALL || outcome_get_device(o, device))
        vec_push_arena(o->arena, &edits_of(o, device)->env, pair);
}

void dray_device_node(struct dray_outcome *o, size_t device, const char *path,
                      const char *host_path, const char *permissions)
{
    const struct cdi_device_node node = {.path = outcome_keep_text(o, path),
                                         .host_path = outcome_keep_text(o, host_path),
                                         .permissions = outcome_keep_text(o, permissions)};
    if (device == DRAY_ALL || outcome_get_device(o, device))
        vec_push_arena(o->arena, &edits_of(o, device)->device_nodes, node);
}

static struct cdi_texts outcome_split_list(const struct dray_outcome *o, struct str list)
{
    struct cdi_texts out = {0};
    while (list.n > 0) {
        struct str head;
        str_cut(list, ',', &head, &list);
        vec_push_arena(o->arena, &out, arena_str(o->arena, head));
    }
    return out;
}

void dray_mount(struct dray_outcome *o, size_t device, const char *host_path,
                const char *container_path, const char *options)
{
    const struct cdi_mount mount = {
        .host_path = outcome_keep_text(o, host_path),
        .container_path = outcome_keep_text(o, container_path),
        .options = outcome_split_list(o, options ? str_z(options) : STR("ro,nosuid,nodev,bind"))};
    if (device == DRAY_ALL || outcome_get_device(o, device))
        vec_push_arena(o->arena, &edits_of(o, device)->mounts, mount);
}

void dray_hook(struct dray_outcome *o, size_t device, const char *stage, const char *path,
               const char *const *args)
{
    struct cdi_hook hook = {.hook_name = outcome_keep_text(o, stage),
                            .path = outcome_keep_text(o, path)};
    for (size_t i = 0; args && args[i]; i++)
        vec_push_arena(o->arena, &hook.args, outcome_keep_text(o, args[i]));
    if (device == DRAY_ALL || outcome_get_device(o, device))
        vec_push_arena(o->arena, &edits_of(o, device)->hooks, hook);
}

void dray_net_device(struct dray_outcome *o, size_t device, const char *host_interface,
                     const char *name)
{
    const struct cdi_net_device moved = {.host_interface_name =
                                             outcome_keep_text(o, host_interface),
                                         .name = outcome_keep_text(o, name)};
    if (device == DRAY_ALL || outcome_get_device(o, device))
        vec_push_arena(o->arena, &edits_of(o, device)->net_devices, moved);
}

void dray_cdi(struct dray_outcome *o, size_t device, const char *qualified_name)
{
    struct outcome_device *d = outcome_get_device(o, device);
    if (d)
        vec_push_arena(o->arena, &d->ids, outcome_keep_text(o, qualified_name));
}

void dray_condition(struct dray_outcome *o, size_t device, const char *type, bool yes,
                    const char *reason, const char *message)
{
    struct outcome_device *d = outcome_get_device(o, device);
    if (!d)
        return;
    const struct outcome_condition c = {.type = outcome_keep_text(o, type),
                                        .yes = yes,
                                        .reason = reason && *reason ? outcome_keep_text(o, reason)
                                                                    : outcome_keep_text(o, type),
                                        .message = outcome_keep_text(o, message)};
    vec_foreach(&d->conditions, have) {
        if (str_eq(have->type, c.type)) { // the last word counts
            *have = c;
            return;
        }
    }
    vec_push_arena(o->arena, &d->conditions, c);
}

void dray_data(struct dray_outcome *o, size_t device, const char *json)
{
    struct outcome_device *d = outcome_get_device(o, device);
    cleanup_json_doc struct json_doc doc = {0};
    if (!d || json_parse(str_z(json), NULL, &doc, NULL) != 0 || !json_is_object(doc.root))
        outcome_note_mistake(o, "data of a device's status must be a JSON object");
    else
        d->data = outcome_keep_text(o, json);
}

void dray_network(struct dray_outcome *o, size_t device, const char *interface,
                  const char *hardware_address, const char *const *ips)
{
    struct outcome_device *d = outcome_get_device(o, device);
    if (!d)
        return;
    d->network = arena_one(o->arena, struct outcome_network);
    d->network->interface = outcome_keep_text(o, interface);
    d->network->hardware_address = outcome_keep_text(o, hardware_address);
    for (size_t i = 0; ips && ips[i]; i++)
        vec_push_arena(o->arena, &d->network->ips, outcome_keep_text(o, ips[i]));
}

void dray_describe(struct dray_outcome *o, size_t device, const char *attribute, const char *value)
{
    struct outcome_device *d = outcome_get_device(o, device);
    if (d)
        vec_push_arena(
            o->arena, &d->attributes,
            ((struct cdi_pair){outcome_keep_text(o, attribute), outcome_keep_text(o, value)}));
}

// --- JSON ----------------------------------------------------------------------------------------

static void outcome_write_conditions(struct json_writer *w, const struct outcome_device *d,
                                     struct str now)
{
    json_write_key(w, STR("conditions"));
    json_write_array_begin(w);
    vec_foreach(&d->conditions, c) {
        json_write_object_begin(w);
        json_write_text_if(w, "type", c->type);
        json_write_text_if(w, "status", c->yes ? STR("True") : STR("False"));
        json_write_text_if(w, "lastTransitionTime", now);
        json_write_text_if(w, "reason", c->reason);
        json_write_key(w, STR("message"));
        json_write_str(w, c->message);
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

static void write_network(struct json_writer *w, const struct outcome_network *n)
{
    json_write_key(w, STR("networkData"));
    json_write_object_begin(w);
    json_write_text_if(w, "interfaceName", n->interface);
    if (n->ips.n) {
        json_write_key(w, STR("ips"));
        json_write_array_begin(w);
        vec_foreach(&n->ips, ip)
            json_write_str(w, *ip);
        json_write_array_end(w);
    }
    json_write_text_if(w, "hardwareAddress", n->hardware_address);
    json_write_object_end(w);
}

static bool outcome_has_status(const struct outcome_device *d)
{
    return d->conditions.n || d->data.n || d->network;
}

static void outcome_write_status(const struct dray_outcome *o, struct str driver, struct str now,
                                 struct sbuf *out)
{
    struct json_writer w = {.out = out};
    json_write_array_begin(&w);
    for (size_t i = 0; i < o->claim->devices_len; i++) {
        const struct outcome_device *d = &o->devices[i];
        const struct dray_allocated *a = &o->claim->devices[i];
        if (!outcome_has_status(d))
            continue;
        json_write_object_begin(&w);
        json_write_text_if(&w, "driver", driver);
        json_write_text_if(&w, "pool", str_z(a->pool));
        json_write_text_if(&w, "device", str_z(a->device));
        json_write_text_if(&w, "shareID", str_z(a->share_id));
        if (d->conditions.n)
            outcome_write_conditions(&w, d, now);
        if (d->data.n) {
            json_write_key(&w, STR("data"));
            json_write_raw(&w, d->data);
        }
        if (d->network)
            write_network(&w, d->network);
        json_write_object_end(&w);
    }
    json_write_array_end(&w);
}

// --- Metadata files ------------------------------------------------------------------------------

static void write_attributes(struct json_writer *w, const struct outcome_device *d)
{
    if (d->attributes.n == 0)
        return;
    json_write_key(w, STR("attributes"));
    json_write_object_begin(w);
    vec_foreach(&d->attributes, a) {
        json_write_key(w, a->key);
        json_write_object_begin(w);
        json_write_text_if(w, "string", a->value);
        json_write_object_end(w);
    }
    json_write_object_end(w);
}

static void write_described(struct json_writer *w, const struct dray_outcome *o, struct str driver,
                            struct str request)
{
    json_write_array_begin(w);
    for (size_t i = 0; i < o->claim->devices_len; i++) {
        const struct dray_allocated *a = &o->claim->devices[i];
        if (!str_eqz(request, a->request_ref))
            continue;
        json_write_object_begin(w);
        json_write_text_if(w, "driver", driver);
        json_write_text_if(w, "pool", str_z(a->pool));
        json_write_text_if(w, "name", str_z(a->device));
        write_attributes(w, &o->devices[i]);
        if (o->devices[i].network)
            write_network(w, o->devices[i].network);
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

// outcome_metadata writes the content of a request's metadata file: the same object in each version
// of metadata.resource.k8s.io, newest first.
static void outcome_metadata(const struct dray_outcome *o, struct str driver, struct str request,
                             struct sbuf *out)
{
    static const struct str versions[] = {STR_INIT("metadata.resource.k8s.io/v1beta1"),
                                          STR_INIT("metadata.resource.k8s.io/v1alpha1")};
    for (size_t v = 0; v < array_len(versions); v++) {
        struct json_writer w = {.out = out, .indent = 2};
        json_write_object_begin(&w);
        json_write_text_if(&w, "kind", STR("DeviceMetadata"));
        json_write_text_if(&w, "apiVersion", versions[v]);
        json_write_key(&w, STR("metadata"));
        json_write_object_begin(&w);
        json_write_text_if(&w, "name", str_z(o->claim->name));
        json_write_text_if(&w, "namespace", str_z(o->claim->namespace_));
        json_write_text_if(&w, "uid", str_z(o->claim->uid));
        json_write_key(&w, STR("generation"));
        json_write_i64(&w, 1);
        json_write_object_end(&w);
        json_write_text_if(&w, "podClaimName", str_z(o->claim->pod_claim_name));
        json_write_key(&w, STR("requests"));
        json_write_array_begin(&w);
        json_write_object_begin(&w);
        json_write_text_if(&w, "name", request);
        json_write_key(&w, STR("devices"));
        write_described(&w, o, driver, request);
        json_write_object_end(&w);
        json_write_array_end(&w);
        json_write_object_end(&w);
        sbuf_addc(out, '\n');
    }
}

// --- CDI -----------------------------------------------------------------------------------------

// Whether an earlier device of the claim has the same name (in another pool, or another share).
static bool name_taken(const struct dray_claim *c, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(c->devices[k].device, c->devices[i].device) == 0)
            return true;
    return false;
}

static bool first_of_request(const struct dray_claim *c, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(c->devices[k].request_ref, c->devices[i].request_ref) == 0)
            return false;
    return true;
}

struct finish {
    const struct dray_outcome *o;
    const struct outcome_names *names;
    struct cdi_spec spec;
    struct journal_entry *ret;
    struct sbuf metadata; // JSON array
    struct json_writer w; // on metadata
};

static struct str outcome_qualify_device(const struct finish *f, struct str device)
{
    return arena_strf(f->o->arena, "%.*s=%.*s", STR_ARG(f->spec.kind), STR_ARG(device));
}

static void add_id(const struct finish *f, size_t i, struct str id)
{
    struct journal_ids *ids = &f->ret->ids[i];
    struct str *all = arena_array(f->o->arena, struct str, ids->n + 1);
    if (ids->n)
        memcpy(all, ids->p, ids->n * sizeof(*all));
    all[ids->n] = id;
    *ids = (struct journal_ids){all, ids->n + 1};
}

// A CDI device that mounts the metadata file of a request, given with its first device.
static void outcome_add_metadata(struct finish *f, size_t i)
{
    const struct dray_claim *c = f->o->claim;
    const struct dray_allocated *a = &c->devices[i];
    struct arena *arena = f->o->arena;
    struct cdi_device device = {.name = arena_strf(arena, "%s-metadata-%s", c->uid, a->request)};
    struct cdi_mount mount = {
        .host_path =
            arena_strf(arena, "%.*s/%s/metadata.json", STR_ARG(f->names->metadata_dir), a->request),
        .container_path = arena_strf(
            arena, "/var/run/kubernetes.io/dra-device-attributes/%s/%s/%s/%.*s-metadata.json",
            c->pod_claim_name ? "resourceclaimtemplates" : "resourceclaims",
            c->pod_claim_name ? c->pod_claim_name : c->name, a->request, STR_ARG(f->names->driver)),
        .options = outcome_split_list(f->o, STR("ro,bind"))};
    vec_push_arena(arena, &device.edits.mounts, mount);
    vec_push_arena(arena, &f->spec.devices, device);
    add_id(f, i, outcome_qualify_device(f, device.name));
    cleanup_sbuf struct sbuf file = {0};
    outcome_metadata(f->o, f->names->driver, str_z(a->request_ref), &file);
    json_write_object_begin(&f->w);
    json_write_text_if(&f->w, "request", str_z(a->request));
    json_write_text_if(&f->w, "file", sbuf_str(&file));
    json_write_object_end(&f->w);
}

static void outcome_add_device(struct finish *f, size_t i)
{
    const struct dray_claim *c = f->o->claim;
    const struct outcome_device *d = &f->o->devices[i];
    bool has_edits = !cdi_edits_are_empty(&d->edits) || !cdi_edits_are_empty(&f->o->all);
    if (has_edits) {
        struct cdi_device device = {.edits = d->edits};
        device.name = arena_strf(f->o->arena, "%s-%s", c->uid, c->devices[i].device);
        if (name_taken(c, i))
            device.name = arena_strf(f->o->arena, "%.*s-%zu", STR_ARG(device.name), i);
        if (cdi_edits_are_empty(&device.edits)) // a device of CDI must change something
            vec_push_arena(f->o->arena, &device.edits.env,
                           arena_strf(f->o->arena, "DRA_DEVICE_%zu=%s", i, c->devices[i].device));
        vec_push_arena(f->o->arena, &f->spec.devices, device);
        add_id(f, i, outcome_qualify_device(f, device.name));
    }
    vec_foreach(&d->ids, id)
        add_id(f, i, *id);
    if (f->names->metadata_dir.n && first_of_request(c, i))
        outcome_add_metadata(f, i);
}

int outcome_finish(const struct dray_outcome *o, const struct outcome_names *names, struct str now,
                   struct journal_entry *ret, struct err *err)
{
    if (o->mistake.code != 0) {
        if (err)
            *err = o->mistake;
        return -o->mistake.code;
    }
    struct finish f = {.o = o, .names = names, .ret = ret};
    f.w.out = &f.metadata;
    f.spec.kind = arena_strf(o->arena, "%.*s/%.*s", STR_ARG(names->driver), STR_ARG(names->class));
    f.spec.edits = o->all;
    ret->ids = arena_array(o->arena, struct journal_ids, o->claim->devices_len);
    json_write_array_begin(&f.w);
    for (size_t i = 0; i < o->claim->devices_len; i++)
        outcome_add_device(&f, i);
    json_write_array_end(&f.w);
    int r = 0;
    cleanup_sbuf struct sbuf spec = {0}, status = {0};
    if (f.spec.devices.n) {
        f.spec.version = str_z(cdi_spec_min_version(&f.spec));
        r = cdi_spec_check(&f.spec, err);
        struct json_writer w = {.out = &spec};
        cdi_write_spec(&w, &f.spec);
    }
    outcome_write_status(o, names->driver, now, &status);
    ret->spec = spec.n ? arena_str(o->arena, sbuf_str(&spec)) : STR("");
    ret->status = status.n > 2 ? arena_str(o->arena, sbuf_str(&status)) : STR("");
    ret->metadata = f.metadata.n > 2 ? arena_str(o->arena, sbuf_str(&f.metadata)) : STR("");
    sbuf_done(&f.metadata);
    return r == 0 ? 0 : err_wrap(err, "what the driver prepared makes no CDI spec");
}
