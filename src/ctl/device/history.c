// SPDX-License-Identifier: Apache-2.0
//
// Past holders of devices (docs/design/controllers.md, History). When a claim gives its devices up,
// a record says which, from when until when, for which pods, and how their use ended. Records are
// kept in ConfigMaps: GROUPS of them, RECORD_BYTES each, the oldest records go first.
#include <stdio.h>
#include <stdlib.h>

#include "api/match/claim.h"
#include "api/match/device_history.h"
#include "api/meta.h"
#include "base/map.h"
#include "codec/json_writer.h"
#include "codec/rfc3339.h"
#include "ctl/core/ctl_int.h"

#include "base/banned.h"

#define GROUPS        256
#define RECORD_BYTES  (64U * 1024) // of a ConfigMap
#define PENDING_BYTES (64U * 1024) // that wait to be written, of a group
#define END_BYTES     256          // of a reason

// A claim that holds devices.
struct holder {
    char *key;  // NAMESPACE/NAME
    char *pods; // NULL: none yet
    char *end;  // how the use of a pod ended; NULL: it did not
};

struct history_ctl {
    struct ctl *ctl;
    struct work *work;
    struct list calls;
    struct holders MAP(struct holder) holders;
    struct sbuf pending[GROUPS]; // lines
};

// A read or write of a ConfigMap on its way.
struct history_call {
    struct list_node node; // in history_ctl.calls; unlinked: the controller is gone
    struct history_ctl *ctl;
    size_t group;
    size_t sent; // bytes of pending that are being written
};

// --- Holders -------------------------------------------------------------------------------------

static struct holder *history_holder(struct history_ctl *h, const struct api_object_meta *m,
                                     bool make)
{
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(m->namespace), STR_ARG(m->name));
    struct holder *found = map_get(&h->holders, sbuf_str(&key));
    if (found || !make)
        return found;
    char *own = xstrndup(key.p, key.n);
    found = map_put(&h->holders, str_make(own, key.n));
    found->key = own;
    return found;
}

static void history_free_holder(struct holder *o)
{
    free(o->pods);
    free(o->end);
    free(o->key);
}

static void history_forget(struct history_ctl *h, const struct api_object_meta *m)
{
    struct holder *o = history_holder(h, m, false);
    if (!o)
        return;
    struct holder own = *o;
    (void)map_del(&h->holders, str_z(own.key));
    history_free_holder(&own);
}

static void history_set_text(char **at, struct str text)
{
    free(*at);
    *at = xstrndup(text.p, text.n);
}

static void history_note_pods(struct history_ctl *h, const struct api_resource_claim *claim)
{
    cleanup_sbuf struct sbuf names = {0};
    for (size_t i = 0; i < claim->status.reserved_for.n && names.n < END_BYTES; i++)
        sbuf_addf(&names, "%s%.*s", i ? ", " : "", STR_ARG(claim->status.reserved_for.p[i].name));
    if (names.n)
        history_set_text(&history_holder(h, &claim->metadata, true)->pods, sbuf_str(&names));
}

// --- How pods end --------------------------------------------------------------------------------

// history_write_end writes why a pod ends; nothing while it goes on.
static void history_write_end(const struct api_pod *pod, bool gone, struct sbuf *out)
{
    for (size_t i = 0; i < pod->status.conditions.n; i++) {
        const struct api_pod_condition *c = &pod->status.conditions.p[i];
        if (!str_eqz(c->type, "DisruptionTarget") || !str_eqz(c->status, "True"))
            continue;
        sbuf_addf(out, "evicted: %.*s%s%.*s", STR_ARG(c->reason), c->message.n ? ": " : "",
                  STR_ARG(c->message));
        return;
    }
    if (pod_is_terminal(pod))
        sbuf_addz(out, str_eqz(pod->status.phase, "Failed") ? "the pod failed" : "the pod ended");
    else if (gone || pod->metadata.deletion_timestamp.set)
        sbuf_addz(out, "the pod was deleted");
}

static void history_pod_changed(void *arg, const struct typed_object *before,
                                const struct typed_object *after)
{
    struct history_ctl *h = arg;
    const struct api_pod *pod = as_pod(after ? after : before);
    cleanup_sbuf struct sbuf end = {0};
    if (pod->spec.resource_claims.n)
        history_write_end(pod, !after, &end);
    if (!end.n)
        return;
    struct str text = str_upto(sbuf_str(&end), end.n < END_BYTES ? end.n : END_BYTES);
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++) {
        struct api_object_meta m = {.namespace = pod->metadata.namespace};
        bool check;
        if (claim_name_of(pod, &pod->spec.resource_claims.p[i], &m.name, &check) != CLAIM_NAMED)
            continue;
        struct holder *o = history_holder(h, &m, false);
        // An eviction is what was decided; that the pod is deleted then follows from it.
        if (o && !(o->end && str_starts(str_z(o->end), STR("evicted"))))
            history_set_text(&o->end, text);
    }
}

// --- Records -------------------------------------------------------------------------------------

static size_t history_group(const struct api_device_request_allocation_result *r)
{
    uint64_t hash = meta_hash(META_HASH_START, r->driver);
    return (size_t)(meta_hash(hash, r->pool) % GROUPS);
}

static void history_write_time(struct json_writer *w, const char *key, struct moment at)
{
    cleanup_sbuf struct sbuf text = {0};
    rfc3339_write_micros(at, &text);
    json_write_text_if(w, key, sbuf_str(&text));
}

static void history_write_record(const struct api_resource_claim *c, const struct holder *o,
                                 const struct api_device_request_allocation_result *r,
                                 struct moment until, struct sbuf *out)
{
    cleanup_sbuf struct sbuf device = {0};
    struct json_writer w = {.out = out};
    const struct api_time *from = &c->status.allocation->allocation_timestamp;
    sbuf_addf(&device, "%.*s/%.*s/%.*s", STR_ARG(r->driver), STR_ARG(r->pool), STR_ARG(r->device));
    json_write_object_begin(&w);
    json_write_text_if(&w, "device", sbuf_str(&device));
    json_write_text_if(&w, "namespace", c->metadata.namespace);
    json_write_text_if(&w, "claim", c->metadata.name);
    json_write_text_if(&w, "pods", o && o->pods ? str_z(o->pods) : (struct str){0});
    history_write_time(&w, "from", from->set ? from->at : c->metadata.creation_timestamp.at);
    history_write_time(&w, "until", until);
    json_write_text_if(&w, "end", o && o->end ? str_z(o->end) : STR("the claim was released"));
    json_write_object_end(&w);
    sbuf_addc(out, '\n');
}

static void history_record(struct history_ctl *h, const struct api_resource_claim *c)
{
    const struct holder *o = history_holder(h, &c->metadata, false);
    const struct moment now = moment_from_ns(exec_wall_ns(h->ctl->exec));
    const struct api_device_request_allocation_result_array *all =
        &c->status.allocation->devices.results;
    for (size_t i = 0; i < all->n; i++) {
        size_t group = history_group(&all->p[i]);
        char key[16];
        if ((all->p[i].has_admin_access && all->p[i].admin_access) ||
            h->pending[group].n >= PENDING_BYTES)
            continue;
        history_write_record(c, o, &all->p[i], now, &h->pending[group]);
        (void)snprintf(key, sizeof(key), "%zu", group);
        work_add(h->work, str_z(key));
    }
}

static bool history_holds(const struct api_resource_claim *c)
{
    return c && c->status.allocation && c->status.allocation->devices.results.n;
}

static void history_claim_changed(void *arg, const struct typed_object *before,
                                  const struct typed_object *after)
{
    struct history_ctl *h = arg;
    const struct api_resource_claim *was = maybe_claim(before);
    const struct api_resource_claim *is = maybe_claim(after);
    if (history_holds(is))
        history_note_pods(h, is);
    if (!history_holds(was) || history_holds(is))
        return;
    if (!h->ctl->standby) // the one that leads records it
        history_record(h, was);
    history_forget(h, &was->metadata);
}

// --- ConfigMaps ----------------------------------------------------------------------------------

// history_merge keeps the newest lines.
static void history_merge(struct str old, struct str new, struct sbuf *out)
{
    sbuf_add(out, old);
    sbuf_add(out, new);
    if (out->n <= RECORD_BYTES)
        return;
    struct str kept = str_from(sbuf_str(out), out->n - RECORD_BYTES);
    ptrdiff_t line = str_find_char(kept, '\n');
    cleanup_sbuf struct sbuf whole = {0};
    sbuf_add(&whole, str_from(kept, line < 0 ? 0 : (size_t)line + 1));
    sbuf_clear(out);
    sbuf_add(out, sbuf_str(&whole));
}

static struct history_call *history_call_new(struct history_ctl *h, size_t group)
{
    struct history_call *c = xcalloc(1, sizeof(*c));
    c->ctl = h;
    c->group = group;
    list_push_back(&h->calls, &c->node);
    return c;
}

static void history_end_step(const struct history_call *c, bool again)
{
    char key[16];
    (void)snprintf(key, sizeof(key), "%zu", c->group);
    if (again)
        work_retry(c->ctl->work, str_z(key));
    else
        work_done(c->ctl->work, str_z(key));
}

static void history_on_written(void *arg, const struct client_answer *answer)
{
    struct history_call *c = arg;
    bool alive = list_linked(&c->node);
    list_remove(&c->node);
    if (alive) {
        struct sbuf *pending = &c->ctl->pending[c->group];
        cleanup_sbuf struct sbuf rest = {0};
        if (answer->code == 0)
            sbuf_add(&rest, str_from(sbuf_str(pending), c->sent));
        history_end_step(c, answer->code != 0);
        if (answer->code == 0) {
            sbuf_clear(pending);
            sbuf_add(pending, sbuf_str(&rest));
            char key[16];
            (void)snprintf(key, sizeof(key), "%zu", c->group);
            if (pending->n)
                work_add(c->ctl->work, str_z(key));
        }
    }
    free(c);
}

static void history_write_map(struct history_call *c, const struct api_config_map *old)
{
    struct history_ctl *h = c->ctl;
    cleanup_sbuf struct sbuf text = {0};
    char name[32];
    const struct str *before = old ? api_map_find(&old->data, STR(DEVICE_HISTORY_KEY)) : NULL;
    c->sent = h->pending[c->group].n;
    history_merge(before ? *before : (struct str){0}, sbuf_str(&h->pending[c->group]), &text);
    (void)snprintf(name, sizeof(name), "dray-history-%zu", c->group);
    struct api_str_entry label = {STR(DEVICE_HISTORY_LABEL), STR(DEVICE_HISTORY_VALUE)};
    struct api_str_entry entry = {STR(DEVICE_HISTORY_KEY), sbuf_str(&text)};
    struct api_config_map map = {.metadata = {.namespace = STR(DEVICE_HISTORY_NAMESPACE),
                                              .name = str_z(name),
                                              .labels = {&label, 1}},
                                 .data = {&entry, 1}};
    const struct api_object object = {api_kind_find(STR("v1"), STR("ConfigMap")), &map};
    api_set_type_meta(&object);
    if (old) {
        map.metadata.resource_version = old->metadata.resource_version;
        client_update(h->ctl->client, &object, NULL, history_on_written, c);
    } else {
        client_create(h->ctl->client, &object, NULL, history_on_written, c);
    }
}

static void history_on_read(void *arg, const struct client_answer *answer)
{
    struct history_call *c = arg;
    if (list_linked(&c->node) && (answer->code == 0 || answer->code == -ERR_NOT_FOUND)) {
        history_write_map(c, answer->code == 0 ? answer->object->object.value : NULL);
        return;
    }
    if (list_linked(&c->node))
        history_end_step(c, true);
    list_remove(&c->node);
    free(c);
}

static void history_step_key(void *arg, struct str key)
{
    struct history_ctl *h = arg;
    int64_t group = 0;
    cleanup_sbuf struct sbuf name = {0};
    if (str_to_i64(key, &group) < 0 || group < 0 || group >= GROUPS || !h->pending[group].n) {
        work_done(h->work, key);
        return;
    }
    sbuf_addf(&name, "dray-history-%lld", (long long)group);
    const struct client_key at = {api_kind_find(STR("v1"), STR("ConfigMap")),
                                  STR(DEVICE_HISTORY_NAMESPACE), sbuf_str(&name)};
    client_get(h->ctl->client, &at, history_on_read, history_call_new(h, (size_t)group));
}

// --- Life ----------------------------------------------------------------------------------------

struct history_ctl *history_ctl_new(struct ctl *ctl)
{
    struct history_ctl *h = xcalloc(1, sizeof(*h));
    h->ctl = ctl;
    h->work = ctl_work(ctl, "device-history-controller", history_step_key, h);
    list_init(&h->calls);
    ctl_watch(ctl, CACHE_CLAIMS, history_claim_changed, h, h->work);
    ctl_watch(ctl, CACHE_PODS, history_pod_changed, h, h->work);
    return h;
}

void history_ctl_free(struct history_ctl *h)
{
    if (!h)
        return;
    ctl_calls_drop(&h->calls);
    work_free(h->work);
    map_foreach(&h->holders, i)
        history_free_holder(map_value(&h->holders, i));
    map_done(&h->holders);
    for (size_t i = 0; i < GROUPS; i++)
        sbuf_done(&h->pending[i]);
    free(h);
}
