// SPDX-License-Identifier: Apache-2.0
//
// Drivers that are gone but still owe an unprepare: reports them as an event and as a condition of
// the node, and abandons those that never come back.
#include <stdlib.h>

#include "api/match/claim.h"
#include "codec/json_writer.h"
#include "codec/rfc3339.h"
#include "node/dra/dra_int.h"

#include "base/banned.h"

struct entry {
    char *driver;
    const char *reason;
    int64_t since_ns;
};

struct entries VEC(struct entry);

struct blocked {
    struct dra *dra; // NULL: gone; the last answer frees this
    struct entries entries;
    size_t calls;
    bool condition_true; // as it was last written
    bool written;        // the condition is up to date
    bool looking;        // for drivers to abandon
};

static struct entry *blocked_find_driver(const struct blocked *b, struct str driver)
{
    vec_foreach(&b->entries, e)
        if (str_eqz(driver, e->driver))
            return e;
    return NULL;
}

// The claims that wait for a driver.
static void blocked_add_claims(const struct dra *d, struct str driver, struct sbuf *out)
{
    map_foreach(&d->claims.by_key, i) {
        const struct node_claim *c = *map_value(&d->claims.by_key, i);
        const struct node_claim_driver *part =
            c->unpreparing ? node_claim_driver_find(c, driver) : NULL;
        if (!part || node_claim_driver_skips(part, CLAIM_SKIP_UNPREPARE))
            continue;
        if (out->n > 0)
            sbuf_addz(out, ", ");
        sbuf_add(out, c->key);
    }
}

static struct blocked *blocked_end_call(struct blocked *b)
{
    b->calls--;
    if (b->dra)
        return b;
    if (b->calls == 0)
        free(b);
    return NULL;
}

// --- The condition of the node -------------------------------------------------------------------

static void blocked_on_condition(void *arg, const struct client_answer *a)
{
    struct blocked *b = blocked_end_call(arg);
    if (b && a->code < 0)
        b->written = false; // once more with the next round
}

static void blocked_add_message(const struct blocked *b, struct sbuf *out)
{
    vec_foreach(&b->entries, e) {
        cleanup_sbuf struct sbuf claims = {0};
        blocked_add_claims(b->dra, str_z(e->driver), &claims);
        sbuf_addf(out, "%sclaims %.*s wait for driver %s to unprepare them", out->n ? "; " : "",
                  STR_ARG(sbuf_str(&claims)), e->driver);
    }
    if (b->entries.n > 0)
        sbuf_addz(out, ". Start the driver again; if its devices are free and it will never be "
                       "back, annotate the node with " DRA_ABANDON_ANNOTATION
                       "=<driver> to let the pods end");
    else
        sbuf_addz(out, "every driver has unprepared what it had to");
}

static void blocked_write_condition(struct blocked *b, struct sbuf *out)
{
    cleanup_sbuf struct sbuf now = {0}, message = {0};
    struct json_writer w = {.out = out};
    bool is = b->entries.n > 0;
    rfc3339_write_seconds(moment_from_ns(exec_wall_ns(b->dra->options.exec)), &now);
    blocked_add_message(b, &message);
    json_write_object_begin(&w);
    json_write_key(&w, STR("status"));
    json_write_object_begin(&w);
    json_write_key(&w, STR("conditions"));
    json_write_array_begin(&w);
    json_write_object_begin(&w);
    json_write_text(&w, "type", STR(DRA_BLOCKED_CONDITION));
    json_write_text(&w, "status", is ? STR("True") : STR("False"));
    json_write_text(&w, "reason", is ? str_z(b->entries.p[0].reason) : STR("DriversAnswer"));
    json_write_text(&w, "message", sbuf_str(&message));
    json_write_text(&w, "lastHeartbeatTime", sbuf_str(&now));
    if (is != b->condition_true)
        json_write_text(&w, "lastTransitionTime", sbuf_str(&now));
    json_write_object_end(&w);
    json_write_array_end(&w);
    json_write_object_end(&w);
    json_write_object_end(&w);
    b->condition_true = is;
}

static void blocked_patch_node(struct blocked *b)
{
    struct client *client = b->dra->options.client;
    if (!client || b->dra->node[0] == '\0')
        return;
    cleanup_sbuf struct sbuf body = {0};
    blocked_write_condition(b, &body);
    const struct client_key key = {.kind = api_kind_find(STR("v1"), STR("Node")),
                                   .name = str_z(b->dra->node)};
    const struct client_write how = {.subresource = STR("status")};
    b->written = true;
    b->calls++;
    client_patch(client, &key, CLIENT_PATCH_STRATEGIC, sbuf_str(&body), &how, blocked_on_condition,
                 b);
}

// --- Blocked drivers -----------------------------------------------------------------------------

static void blocked_report_claims(struct blocked *b, const struct dra_op_batch *batch,
                                  const struct err *err)
{
    struct event_recorder *events = b->dra->options.events;
    if (!events)
        return;
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text,
              "waiting for driver %.*s: %s. Start it again; if its devices are free and it will "
              "never be back, annotate the node with " DRA_ABANDON_ANNOTATION "=%.*s",
              STR_ARG(batch->driver), err->msg, STR_ARG(batch->driver));
    vec_foreach(&batch->request.claims, c) {
        const struct api_object_reference about = {
            .kind = STR("ResourceClaim"),
            .api_version = STR("resource.k8s.io/v1"),
            .namespace = c->namespace,
            .name = c->name,
            .uid = c->uid,
        };
        events_record_ref(events, &about, EVENT_WARNING, STR("FailedUnprepareDynamicResources"),
                          sbuf_str(&text));
    }
}

void blocked_note(struct blocked *b, const struct dra_op_batch *batch, const struct err *err)
{
    if (b->dra->closing)
        return;
    const char *reason = err->code == ERR_NOT_FOUND ? "DriverNotRegistered" : "DriverNotAnswering";
    struct entry *e = blocked_find_driver(b, batch->driver);
    blocked_report_claims(b, batch, err);
    if (e) {
        e->reason = reason;
        return; // the condition is written again in the next round
    }
    LOG_WARN(&dra_log, "a driver is gone but has claims to unprepare",
             log_str("driver", batch->driver), log_z("why", err->msg));
    const struct entry fresh = {xstrndup(batch->driver.p, batch->driver.n), reason,
                                exec_wall_ns(b->dra->options.exec)};
    vec_push(&b->entries, fresh);
    blocked_patch_node(b);
}

void blocked_clear(struct blocked *b, struct str driver)
{
    struct entry *e = blocked_find_driver(b, driver);
    if (!e)
        return;
    LOG_INFO(&dra_log, "a driver unprepares again", log_str("driver", driver));
    free(e->driver);
    *e = b->entries.p[--b->entries.n];
    if (!b->dra->closing)
        blocked_patch_node(b);
}

void dra_blocked_each(const struct dra *d, void (*fn)(void *arg, const struct dra_blocked *b),
                      void *arg)
{
    vec_foreach(&d->blocked->entries, e) {
        cleanup_sbuf struct sbuf claims = {0};
        blocked_add_claims(d, str_z(e->driver), &claims);
        const struct dra_blocked view = {str_z(e->driver), str_z(e->reason), e->since_ns,
                                         sbuf_str(&claims)};
        fn(arg, &view);
    }
}

// --- Abandoning a driver -------------------------------------------------------------------------

int dra_abandon(struct dra *d, struct str driver, bool waiting_only, struct err *err)
{
    if (plugins_usable(d->plugins, driver))
        return err_set(err, ERR_CONFLICT, "driver %.*s is there: it is asked, not abandoned",
                       STR_ARG(driver));
    int claims = 0;
    map_foreach(&d->claims.by_key, i) {
        struct node_claim *c = *map_value(&d->claims.by_key, i);
        if (c->unpreparing || !waiting_only)
            claims += node_claim_driver_remove(c, driver);
    }
    if (claims > 0) {
        d->dirty = true;
        LOG_WARN(&dra_log, "a driver was abandoned: its devices count as free",
                 log_str("driver", driver), log_i64("claims", claims));
    }
    blocked_clear(d->blocked, driver);
    int r = dra_save(d, err);
    return r < 0 ? r : claims;
}

static void blocked_abandon_driver(struct dra *d, struct str names)
{
    while (names.n > 0) {
        struct str name;
        struct err err = {0};
        (void)str_cut(names, ',', &name, &names);
        name = str_trim(name);
        if (blocked_find_driver(d->blocked, name) && dra_abandon(d, name, true, &err) < 0)
            LOG_WARN(&dra_log, "a driver is not abandoned", log_str("driver", name),
                     log_z("why", err.msg));
    }
}

static void blocked_on_node(void *arg, const struct client_answer *a)
{
    struct blocked *b = blocked_end_call(arg);
    if (!b)
        return;
    b->looking = false;
    if (a->code < 0 || !a->object)
        return;
    blocked_abandon_driver(b->dra, meta_annotation(a->object->meta, STR(DRA_ABANDON_ANNOTATION)));
}

void blocked_check(struct blocked *b)
{
    struct dra *d = b->dra;
    if (!d->options.client || d->node[0] == '\0')
        return;
    if (b->entries.n > 0 || !b->written)
        blocked_patch_node(b);
    if (b->entries.n == 0 || b->looking)
        return;
    const struct client_key key = {.kind = api_kind_find(STR("v1"), STR("Node")),
                                   .name = str_z(d->node)};
    b->looking = true;
    b->calls++;
    client_get(d->options.client, &key, blocked_on_node, b);
}

// --- Construction --------------------------------------------------------------------------------

struct blocked *blocked_new(struct dra *d)
{
    struct blocked *b = xcalloc(1, sizeof(*b));
    b->dra = d;
    b->written = true; // nothing is the case
    return b;
}

void blocked_free(struct blocked *b)
{
    if (!b)
        return;
    vec_foreach(&b->entries, e)
        free(e->driver);
    vec_done(&b->entries);
    b->dra = NULL;
    if (b->calls == 0)
        free(b);
}
