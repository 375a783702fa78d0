// SPDX-License-Identifier: Apache-2.0
//
// dray snapshot: the DRA state of a cluster as one file, and back into an empty one.
#include "plan/snapshot.h"

#include <stdio.h>
#include <unistd.h>

#include "api/api.h"
#include "base/map.h"
#include "cmd/devices/device_verb.h"
#include "net/tls.h"
#include "os/file.h"
#include "view/human.h"

#include "base/banned.h"

static struct cli_texts words;
static bool force;

static int snapshot_run_save(void);
static int snapshot_run_load(void);

static const struct cli_option load_options[] = {
    {"--force", NULL, NULL, "load into a cluster that has devices or claims", .flag = &force},
};
static const struct cli_group load_group = CLI_GROUP("Options", load_options);

static const struct cli_verb snapshot_save = {
    .name = "save",
    .summary = "write the state of devices to a file",
    .synopsis = "save [FILE] [OPTIONS]",
    .text = "Writes nodes, classes, slices, taint rules, claims, templates, pods and their events "
            "as one JSON List to FILE or standard output, with what else the scheduler looks at "
            "(quotas, priorities, volume claims). Environment, commands, contents of volumes, "
            "annotations, opaque parameters of drivers and Secrets are never included.",
    .groups = {&common_cluster},
    .words = &words,
    .words_most = 1,
    .run = snapshot_run_save,
};
static const struct cli_verb snapshot_load = {
    .name = "load",
    .summary = "create the objects of a snapshot in an empty cluster",
    .synopsis = "load FILE [OPTIONS]",
    .text =
        "Creates nodes, devices, pods and claims of a snapshot in an empty cluster; claims keep "
        "their allocations.",
    .groups = {&load_group, &common_cluster},
    .words = &words,
    .word = "FILE",
    .words_least = 1,
    .words_most = 1,
    .run = snapshot_run_load,
};
static const struct cli_verb *const snapshot_verbs[] = {&snapshot_save, &snapshot_load, NULL};

const struct cli_verb snapshot_verb = {
    .name = "snapshot",
    .summary = "save the state of devices to a file, or load it",
    .chapter = CLI_DEVICES,
    .text = "A snapshot is for --snapshot of free, who, topo, history, doctor and top, for -f of "
            "plan and why, and for bug "
            "reports.",
    .examples = "dray snapshot save bug.json\n"
                "dray plan --offline -f bug.json\n"
                "dray snapshot load bug.json --kubeconfig test.kubeconfig",
    .subverbs = snapshot_verbs,
};

// --- Save ----------------------------------------------------------------------------------------

static struct str server_version(struct device_source *s)
{
    cleanup_sbuf struct sbuf body = {0};
    cleanup_json_doc struct json_doc doc = {0};
    if (cluster_get(&s->cluster, "/version", &body, NULL) < 0 ||
        json_parse(sbuf_str(&body), NULL, &doc, NULL) < 0)
        return STR("unknown");
    const yyjson_val *v = json_get(doc.root, STR("gitVersion"));
    return v && json_is_string(v) ? arena_str(&s->arena, json_str(v)) : STR("unknown");
}

static int snapshot_verb_save(struct err *err)
{
    struct device_source s = {0};
    cleanup_sbuf struct sbuf out = {0}, taken = {0};
    if (!words.n && isatty(STDOUT_FILENO))
        return err_set(err, ERR_INVALID,
                       "a snapshot is not for a terminal: name a file, or redirect the output");
    int r = device_verb_open(&s, DEVICE_WORLD_EVENTS | DEVICE_WORLD_ALL, err);
    if (r == 0) {
        rfc3339_write_seconds(view_now(), &taken);
        const struct snapshot_about about = {.server = server_version(&s),
                                             .taken = sbuf_str(&taken)};
        snapshot_write(s.world, &about, &out);
        r = words.n ? file_replace_durable(AT_FDCWD, words.p[0], sbuf_str(&out), 0600, err)
                    : common_print(sbuf_str(&out), err);
    }
    if (r == 0 && words.n)
        (void)fprintf(stderr, "%s: %zu bytes\n", words.p[0], out.n);
    device_verb_close(&s);
    return r;
}

// --- Load ----------------------------------------------------------------------------------------

struct loading {
    struct cluster *cluster;
    struct uids MAP(struct str) pods; // new ones, by namespace/name
    struct namespaces MAP(bool) namespaces;
    struct arena arena;
    size_t created, there;
    bool statuses; // second pass
    int code;
    struct err *err;
};

static void target_of(struct sbuf *out, const struct api_object *o, bool named)
{
    const struct api_object_meta *m = api_object_meta(o);
    sbuf_addf(out, "%s/%.*s", o->kind->group.n ? "/apis" : "/api", STR_ARG(o->kind->api_version));
    if (o->kind->namespaced)
        sbuf_addf(out, "/namespaces/%.*s", STR_ARG(m->namespace));
    sbuf_addf(out, "/%.*s", STR_ARG(o->kind->plural));
    if (named)
        sbuf_addf(out, "/%.*s", STR_ARG(m->name));
}

static int send_object(struct loading *l, const char *method, const char *target,
                       const struct api_object *o, struct sbuf *answer)
{
    cleanup_sbuf struct sbuf body = {0};
    struct json_writer w = {.out = &body};
    int r = api_json_write(o->kind->type, o->value, &w, l->err);
    return r < 0 ? r
                 : device_verb_send(l->cluster, method, target, sbuf_str(&body), answer, l->err);
}

static void need_namespace(struct loading *l, struct str name)
{
    bool is_new = false;
    cleanup_sbuf struct sbuf body = {0};
    if (!name.n)
        return;
    (void)map_put_new(&l->namespaces, arena_str(&l->arena, name), &is_new);
    if (!is_new)
        return;
    sbuf_addf(&body,
              "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"%.*s\"}}",
              STR_ARG(name));
    // That it exists is as good; any other error shows when objects are created in it.
    (void)!device_verb_send(l->cluster, "POST", "/api/v1/namespaces", sbuf_str(&body), NULL, NULL);
}

// Pods of templates name their claims instead: the claims are loaded, not made again.
static void name_claims(struct api_pod *p, struct arena *arena)
{
    struct api_pod_resource_claim *refs =
        arena_array(arena, struct api_pod_resource_claim, p->spec.resource_claims.n + 1);
    for (size_t i = 0; i < p->spec.resource_claims.n; i++) {
        refs[i] = p->spec.resource_claims.p[i];
        for (size_t k = 0; k < p->status.resource_claim_statuses.n; k++) {
            const struct api_pod_resource_claim_status *s = &p->status.resource_claim_statuses.p[k];
            if (!str_eq(s->name, refs[i].name) || !s->has_resource_claim_name)
                continue;
            refs[i].resource_claim_name = s->resource_claim_name;
            refs[i].has_resource_claim_name = true;
            refs[i].has_resource_claim_template_name = false;
            refs[i].resource_claim_template_name = (struct str){0};
        }
    }
    p->spec.resource_claims.p = refs;
}

// What belongs to the old cluster: identities, owners, who wrote what.
static void make_new(const struct api_object *o, struct arena *arena)
{
    struct api_object_meta *m = api_object_meta(o);
    m->uid = (struct str){0};
    m->generation = 0;
    m->creation_timestamp = m->deletion_timestamp = (struct api_time){0};
    m->owner_references = (struct api_owner_reference_array){0};
    m->finalizers = (struct api_str_array){0};
    m->managed_fields = (struct api_managed_fields_entry_array){0};
    if (o->kind->type != &api_pod_type)
        return;
    name_claims(o->value, arena);
    ((struct api_pod *)o->value)->spec.volumes =
        (struct api_volume_array){0}; // they stay where they are
}

static void remember_pod(struct loading *l, const struct api_object *o, const struct sbuf *answer)
{
    cleanup_json_doc struct json_doc doc = {0};
    const struct api_object_meta *m = api_object_meta(o);
    if (o->kind->type != &api_pod_type || json_parse(sbuf_str(answer), NULL, &doc, NULL) < 0)
        return;
    const yyjson_val *uid = json_get(json_get(doc.root, STR("metadata")), STR("uid"));
    struct str key = arena_strf(&l->arena, "%.*s/%.*s", STR_ARG(m->namespace), STR_ARG(m->name));
    if (uid && json_is_string(uid))
        *map_put(&l->pods, key) = arena_str(&l->arena, json_str(uid));
}

static void snapshot_verb_create_object(struct loading *l, const struct api_object *o,
                                        struct arena *arena)
{
    cleanup_sbuf struct sbuf target = {0}, answer = {0};
    need_namespace(l, api_object_meta(o)->namespace);
    make_new(o, arena);
    target_of(&target, o, false);
    int r = send_object(l, "POST", target.p, o, &answer);
    l->created += r == 0;
    l->there += r == -ERR_ALREADY_EXISTS;
    if (r == 0)
        remember_pod(l, o, &answer);
    if (r < 0 && r != -ERR_ALREADY_EXISTS)
        l->code = err_wrap(l->err, "%.*s %.*s", STR_ARG(o->kind->kind),
                           STR_ARG(api_object_meta(o)->name));
}

// The identities of the pods as they are now.
static void new_consumers(struct loading *l, struct api_resource_claim *c, struct arena *arena)
{
    size_t n = 0;
    const struct api_resource_claim_consumer_reference_array *old = &c->status.reserved_for;
    struct api_resource_claim_consumer_reference *refs =
        arena_array(arena, struct api_resource_claim_consumer_reference, old->n + 1);
    for (size_t i = 0; i < old->n; i++) {
        const struct str *uid =
            map_get(&l->pods, arena_strf(arena, "%.*s/%.*s", STR_ARG(c->metadata.namespace),
                                         STR_ARG(old->p[i].name)));
        if (!uid)
            continue;
        refs[n] = old->p[i];
        refs[n++].uid = *uid;
    }
    c->status.reserved_for.p = refs;
    c->status.reserved_for.n = n;
}

static void give_status(struct loading *l, const struct api_object *o, struct arena *arena)
{
    cleanup_sbuf struct sbuf target = {0}, now = {0};
    cleanup_json_doc struct json_doc doc = {0};
    bool is_claim = o->kind->type == &api_resource_claim_type;
    if (!is_claim && o->kind->type != &api_node_type)
        return;
    make_new(o, arena);
    if (is_claim && !((struct api_resource_claim *)o->value)->status.allocation)
        return;
    if (is_claim)
        new_consumers(l, o->value, arena);
    target_of(&target, o, true);
    int r = cluster_get(l->cluster, target.p, &now, l->err);
    if (r == 0)
        r = json_parse(sbuf_str(&now), NULL, &doc, l->err);
    const yyjson_val *version =
        r == 0 ? json_get(json_get(doc.root, STR("metadata")), STR("resourceVersion")) : NULL;
    if (version && json_is_string(version))
        api_object_meta(o)->resource_version = json_str(version);
    sbuf_addz(&target, "/status");
    if (r == 0)
        r = send_object(l, "PUT", target.p, o, NULL);
    if (r < 0)
        l->code = err_wrap(l->err, "the status of %.*s %.*s", STR_ARG(o->kind->kind),
                           STR_ARG(api_object_meta(o)->name));
}

// Devices, and who holds them. Quotas, volumes and classes of the old cluster are for plans on the
// file.
static bool is_loaded(const struct api_object *o)
{
    return str_eqz(o->kind->group, "resource.k8s.io") || o->kind->type == &api_node_type ||
           o->kind->type == &api_pod_type;
}

static void load_one(void *arg, const struct api_object *o, struct arena *arena)
{
    struct loading *l = arg;
    if (l->code < 0 || !is_loaded(o))
        return;
    if (l->statuses)
        give_status(l, o, arena);
    else
        snapshot_verb_create_object(l, o, arena);
}

static int load_world(struct cluster *c, const struct plan_world *w, struct err *err)
{
    struct loading l = {.cluster = c, .err = err};
    snapshot_each(w, load_one, &l);
    l.statuses = true;
    snapshot_each(w, load_one, &l);
    if (l.code == 0)
        printf("%zu objects created, %zu were there\n", l.created, l.there);
    map_done(&l.pods);
    map_done(&l.namespaces);
    arena_done(&l.arena);
    return l.code;
}

static int snapshot_verb_load(struct err *err)
{
    struct device_source file = {0}, cluster = {0};
    struct inventory *inv = NULL;
    device_snapshot = words.p[0];
    int r = device_verb_open(&file, DEVICE_WORLD_DEVICES, err);
    device_snapshot = NULL;
    if (r == 0)
        r = device_verb_open(&cluster, DEVICE_WORLD_DEVICES, err);
    if (r == 0)
        r = device_verb_inventory(&cluster, &inv, err);
    if (r == 0 && (inv->devices_len || inv->claims_len) && !force)
        r = err_set(
            err, ERR_CONFLICT,
            "the cluster is not empty: it has %zu devices and %zu allocated claims; --force "
            "loads all the same",
            inv->devices_len, inv->claims_len);
    if (r == 0)
        r = load_world(&cluster.cluster, file.world, err);
    inventory_free(inv);
    device_verb_close(&file);
    device_verb_close(&cluster);
    return r;
}

static int snapshot_run_save(void)
{
    struct err err = {0};
    return snapshot_verb_save(&err) < 0 ? common_fail("snapshot", &err) : VERB_OK;
}

static int snapshot_run_load(void)
{
    struct err err = {0};
    return snapshot_verb_load(&err) < 0 ? common_fail("snapshot", &err) : VERB_OK;
}
