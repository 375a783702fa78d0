// SPDX-License-Identifier: Apache-2.0
//
// The history of a claim or device, from timestamps, conditions, managed fields and events.
#include "plan/past.h"

#include <stdio.h>

#include "api/match/device_history.h"
#include "codec/rfc3339.h"
#include "plan/sim/plan_int.h"

#include "base/banned.h"

void past_done(struct past *h)
{
    vec_done(&h->entries);
    vec_done(&h->holders);
    vec_done(&h->unknown);
    arena_done(&h->arena);
}

// past_rank orders entries of one second as things happen: a holder gives a device up, a claim is
// created, allocated, its pod bound and started, conditions set, deletion requested.
static int past_rank(const char *source, struct str what)
{
    static const char *const sources[] = {"taint",      "record", "metadata",   "managedFields",
                                          "allocation", "event",  "pod status", "condition"};
    if (str_starts(what, STR("deletion requested")))
        return (int)array_len(sources);
    if (str_contains(what, STR("wrote the allocation")))
        return past_rank("allocation", STR("")); // NOLINT(misc-no-recursion): once
    for (size_t i = 0; i < array_len(sources); i++)
        if (strcmp(source, sources[i]) == 0)
            return (int)i;
    return (int)array_len(sources);
}

static void past_add_entry(struct past *h, struct api_time at, const char *source, const char *fmt,
                           ...) ERR_PRINTF(4, 5);

static void past_add_entry(struct past *h, struct api_time at, const char *source, const char *fmt,
                           ...)
{
    char text[1024];
    va_list ap;
    if (!at.set)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    vec_push(&h->entries, (struct past_entry){.at = at.at,
                                              .rank = past_rank(source, str_z(text)),
                                              .what = arena_str(&h->arena, str_z(text)),
                                              .source = str_z(source)});
}

static void past_add_unknown(struct past *h, const char *text)
{
    vec_push(&h->unknown, str_z(text));
}

// --- Who wrote what ------------------------------------------------------------------------------

// The fields of a status that matter here, by their marks in managedFields.
static void past_add_fields(struct past *h, const struct api_object_meta *m)
{
    static const struct {
        const char *mark, *words;
    } fields[] = {{"\"f:allocation\"", "the allocation"},
                  {"\"f:reservedFor\"", "who may use it"},
                  {"\"f:spec\"", "requests"}};
    for (size_t i = 0; i < m->managed_fields.n; i++) {
        const struct api_managed_fields_entry *e = &m->managed_fields.p[i];
        cleanup_sbuf struct sbuf what = {0};
        for (size_t k = 0; k < array_len(fields); k++)
            if (str_contains(e->fields_v1, str_z(fields[k].mark)))
                sbuf_addf(&what, "%s%s", what.n ? ", " : "", fields[k].words);
        past_add_entry(h, e->time, "managedFields", "%.*s wrote %s for the last time",
                       STR_ARG(e->manager), what.n ? what.p : "other fields");
    }
}

static void past_add_conditions(struct past *h, const struct api_condition_array *all,
                                struct str device)
{
    for (size_t i = 0; i < all->n; i++) {
        const struct api_condition *c = &all->p[i];
        past_add_entry(h, c->last_transition_time, "condition",
                       "device %.*s: %.*s is %.*s%s%.*s%s%.*s", STR_ARG(device), STR_ARG(c->type),
                       STR_ARG(c->status), c->reason.n ? ", " : "", STR_ARG(c->reason),
                       c->message.n ? ": " : "", STR_ARG(c->message));
    }
}

static struct api_time past_event_time(const struct api_event *e)
{
    if (e->series && e->series->last_observed_time.set)
        return e->series->last_observed_time;
    return e->last_timestamp.set ? e->last_timestamp
           : e->event_time.set   ? e->event_time
                                 : e->metadata.creation_timestamp;
}

// Events about an object; returns how many.
static size_t past_add_events(struct past *h, const struct inventory *inv, const char *kind,
                              struct str namespace, struct str name)
{
    size_t n = 0;
    world_foreach(inv->world, PLAN_EVENT, o)
    {
        const struct api_event *e = o->value;
        if (!str_eqz(e->involved_object.kind, kind) || !str_eq(e->involved_object.name, name) ||
            !str_eq(e->involved_object.namespace, namespace))
            continue;
        n++;
        past_add_entry(h, past_event_time(e), "event", "%s %.*s: %.*s: %.*s%s", kind, STR_ARG(name),
                       STR_ARG(e->reason), STR_ARG(e->message), e->count > 1 ? " (repeated)" : "");
    }
    return n;
}

// --- Claims --------------------------------------------------------------------------------------

static void past_add_allocation(struct past *h, const struct api_resource_claim *c)
{
    const struct api_allocation_result *a = c->status.allocation;
    cleanup_sbuf struct sbuf devices = {0};
    for (size_t i = 0; a && i < a->devices.results.n; i++) {
        const struct api_device_request_allocation_result *r = &a->devices.results.p[i];
        sbuf_addf(&devices, "%s%.*s/%.*s/%.*s", i ? ", " : "", STR_ARG(r->driver), STR_ARG(r->pool),
                  STR_ARG(r->device));
    }
    if (a)
        past_add_entry(h, a->allocation_timestamp, "allocation", "allocated: %s",
                       devices.n ? devices.p : "no devices");
    if (a && !a->allocation_timestamp.set)
        past_add_unknown(
            h, "when exactly it was allocated: the scheduler did not write the time down");
}

static void past_add_claim(struct past *h, const struct inventory *inv,
                           const struct api_resource_claim *c)
{
    const struct api_object_meta *m = &c->metadata;
    size_t events = past_add_events(h, inv, "ResourceClaim", m->namespace, m->name);
    past_add_entry(h, m->creation_timestamp, "metadata", "claim %.*s created", STR_ARG(m->name));
    past_add_allocation(h, c);
    past_add_fields(h, m);
    for (size_t i = 0; i < c->status.devices.n; i++)
        past_add_conditions(h, &c->status.devices.p[i].conditions, c->status.devices.p[i].device);
    for (size_t i = 0; i < c->status.reserved_for.n; i++) {
        struct str pod = c->status.reserved_for.p[i].name;
        const struct plan_object *o =
            world_find(inv->world, PLAN_POD, world_full_name(&h->arena, m->namespace, pod));
        events += past_add_events(h, inv, "Pod", m->namespace, pod);
        if (o)
            past_add_entry(h, ((const struct api_pod *)o->value)->status.start_time, "pod status",
                           "pod %.*s started on %.*s%s", STR_ARG(pod),
                           STR_ARG(((const struct api_pod *)o->value)->spec.node_name),
                           inventory_simulated(inv,
                                               ((const struct api_pod *)o->value)->spec.node_name)
                               ? INVENTORY_SIMULATED
                               : "");
    }
    past_add_entry(h, m->deletion_timestamp, "metadata", "deletion requested");
    if (!events)
        past_add_unknown(
            h, "events: there are none, or they are older than the server keeps them (an hour "
               "as a rule)");
}

// --- Past holders --------------------------------------------------------------------------------

static int past_read_moment(const yyjson_val *record, const char *key, struct moment *ret)
{
    return rfc3339_parse(json_get_str(record, key), ret, NULL);
}

// past_take_record takes a line for the device or the claim that is asked for.
static void past_take_record(struct past *h, struct str line, struct str device, struct str claim)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct past_holder p = {0};
    if (json_parse(line, NULL, &doc, NULL) < 0 || !json_is_object(doc.root) ||
        past_read_moment(doc.root, "from", &p.from) < 0 ||
        past_read_moment(doc.root, "until", &p.until) < 0)
        return;
    p.device = arena_str(&h->arena, json_get_str(doc.root, "device"));
    p.claim = arena_strf(&h->arena, "%.*s/%.*s", STR_ARG(json_get_str(doc.root, "namespace")),
                         STR_ARG(json_get_str(doc.root, "claim")));
    p.pods = arena_str(&h->arena, json_get_str(doc.root, "pods"));
    p.end = arena_str(&h->arena, json_get_str(doc.root, "end"));
    if ((!device.n || str_eq(device, p.device)) && (!claim.n || str_eq(claim, p.claim)))
        vec_push(&h->holders, p);
}

static int past_holder_cmp(const void *x, const void *y)
{
    const struct past_holder *a = x;
    const struct past_holder *b = y;
    int r = moment_cmp(a->until, b->until);
    return r ? r : str_cmp(a->device, b->device);
}

// past_add_holders adds the records about a device, or about a claim.
static void past_add_holders(struct past *h, const struct inventory *inv, struct str device,
                             struct str claim)
{
    world_foreach(inv->world, PLAN_RECORD, o)
    {
        const struct api_config_map *map = o->value;
        const struct str *text = api_map_find(&map->data, STR(DEVICE_HISTORY_KEY));
        struct str rest = text ? *text : (struct str){0}, line;
        while (rest.n) {
            (void)str_cut(rest, '\n', &line, &rest);
            past_take_record(h, line, device, claim);
        }
    }
    if (h->holders.n)
        qsort(h->holders.p, h->holders.n, sizeof(*h->holders.p), past_holder_cmp);
    for (size_t i = 0; i < h->holders.n; i++) {
        const struct past_holder *p = &h->holders.p[i];
        const struct api_time until = {.at = p->until, .set = true};
        past_add_entry(h, until, "record", "claim %.*s%s%.*s%s gave %.*s up after %lld s: %.*s",
                       STR_ARG(p->claim), p->pods.n ? " (pod " : "", STR_ARG(p->pods),
                       p->pods.n ? ")" : "", STR_ARG(device.n ? STR("it") : p->device),
                       (long long)(p->until.sec - p->from.sec), STR_ARG(p->end));
    }
}

// --- Devices -------------------------------------------------------------------------------------

static void past_add_device(struct past *h, const struct inventory *inv, uint32_t at)
{
    const struct inventory_device *d = &inv->devices[at];
    const struct api_object_meta *m = &d->slice->metadata;
    past_add_entry(h, m->creation_timestamp, "metadata", "slice %.*s created", STR_ARG(m->name));
    for (size_t i = 0; i < m->managed_fields.n; i++)
        past_add_entry(h, m->managed_fields.p[i].time, "managedFields",
                       "%.*s published the slice as it is",
                       STR_ARG(m->managed_fields.p[i].manager));
    for (size_t i = 0; i < d->taints.n; i++)
        past_add_entry(h, d->taints.p[i].time_added, "taint", "tainted %.*s%s%.*s:%.*s",
                       STR_ARG(d->taints.p[i].key), d->taints.p[i].value.n ? "=" : "",
                       STR_ARG(d->taints.p[i].value), STR_ARG(d->taints.p[i].effect));
    for (uint32_t k = d->first_hold; k < d->first_hold + d->holds_len; k++)
        past_add_claim(h, inv, inv->claims[inv->holds[k].claim].claim);
    struct str name = arena_strf(&h->arena, "%.*s/%.*s/%.*s", STR_ARG(d->id.driver),
                                 STR_ARG(d->id.pool), STR_ARG(d->id.device));
    past_add_holders(h, inv, name, (struct str){0});
    if (!h->holders.n)
        past_add_unknown(h,
                         "who had it before: there is no record. The device-history-controller of "
                         "dray keeps the last 64 KiB of records for each of 256 groups of pools");
}

// --- Finding -------------------------------------------------------------------------------------

static int entry_cmp(const void *x, const void *y)
{
    const struct past_entry *a = x;
    const struct past_entry *b = y;
    if (a->at.sec != b->at.sec)
        return a->at.sec < b->at.sec ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    int r = moment_cmp(a->at, b->at);
    return r ? r : str_cmp(a->what, b->what);
}

static const struct plan_object *claim_named(const struct inventory *inv, struct str name,
                                             struct str namespace, struct arena *arena)
{
    struct str head, rest;
    if (str_cut(name, '/', &head, &rest))
        return world_find(inv->world, PLAN_CLAIM, name);
    return world_find(inv->world, PLAN_CLAIM, world_full_name(arena, namespace, name));
}

static void keep_first(void *arg, uint32_t device)
{
    uint32_t *first = arg;
    if (*first == UINT32_MAX)
        *first = device;
}

// past_find_gone looks for records about a claim that does not exist any more.
static bool past_find_gone(struct past *h, const struct inventory *inv, struct str name,
                           struct str namespace)
{
    struct str full =
        str_find_char(name, '/') >= 0 ? name : world_full_name(&h->arena, namespace, name);
    past_add_holders(h, inv, (struct str){0}, full);
    h->subject = arena_strf(&h->arena, "claim %.*s, which is gone", STR_ARG(full));
    return h->holders.n > 0;
}

int past_find(const struct inventory *inv, struct str name, struct str namespace, struct past *ret,
              struct err *err)
{
    struct str kind, rest;
    uint32_t first = UINT32_MAX;
    bool is_claim = str_cut(name, '/', &kind, &rest) && str_eqz(kind, "claim");
    const struct plan_object *o = claim_named(inv, is_claim ? rest : name, namespace, &ret->arena);
    size_t devices = is_claim || o ? 0 : inventory_find(inv, name, keep_first, &first);
    if (o) {
        ret->subject = arena_strf(&ret->arena, "claim %.*s", STR_ARG(o->name));
        past_add_claim(ret, inv, o->value);
        past_add_holders(ret, inv, (struct str){0}, o->name);
    } else if (devices == 1) {
        const struct alloc_device_id *id = &inv->devices[first].id;
        ret->subject = arena_strf(&ret->arena, "device %.*s/%.*s/%.*s", STR_ARG(id->driver),
                                  STR_ARG(id->pool), STR_ARG(id->device));
        past_add_device(ret, inv, first);
    } else if (devices) {
        const struct alloc_device_id *id = &inv->devices[first].id;
        return err_set(err, ERR_INVALID,
                       "%zu devices are called %.*s: say which, such as %.*s/%.*s/%.*s", devices,
                       STR_ARG(name), STR_ARG(id->driver), STR_ARG(id->pool), STR_ARG(id->device));
    } else if (past_find_gone(ret, inv, is_claim ? rest : name, namespace)) {
        past_add_unknown(ret, "more than that: the claim is gone");
    } else {
        return err_set(err, ERR_NOT_FOUND, "there is neither a device nor a claim %.*s",
                       STR_ARG(name));
    }
    if (ret->entries.n)
        qsort(ret->entries.p, ret->entries.n, sizeof(*ret->entries.p), entry_cmp);
    return 0;
}
