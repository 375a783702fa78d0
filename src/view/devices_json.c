// SPDX-License-Identifier: Apache-2.0
//
// What -o json and yaml show of devices.
#include "codec/json_writer.h"
#include "view/devices.h"

#include "base/banned.h"

static void devices_json_write_number(struct json_writer *w, const char *key, size_t v)
{
    json_write_key(w, str_z(key));
    json_write_u64(w, v);
}

static void devices_json_begin_list(struct json_writer *w, const char *key)
{
    json_write_key(w, str_z(key));
    json_write_array_begin(w);
}

static void devices_json_write_time(struct json_writer *w, const char *key, struct moment m)
{
    cleanup_sbuf struct sbuf b = {0};
    rfc3339_write_seconds(m, &b);
    json_write_text_if(w, key, sbuf_str(&b));
}

// --- Free ----------------------------------------------------------------------------------------

static void free_row(struct json_writer *w, const struct free_row *r)
{
    devices_json_write_number(w, "devices", r->devices);
    for (size_t i = 0; i < INVENTORY_STATES; i++)
        devices_json_write_number(w, inventory_state_name((enum inventory_state)i), r->states[i]);
    devices_json_write_number(w, "fits", r->fits);
    devices_json_write_number(w, "fitsTolerant", r->fits_tolerant);
    json_write_key(w, STR("fitsMore"));
    json_write_bool(w, r->more);
    if (r->failed)
        devices_json_write_number(w, "selectorFailed", r->failed);
}

static void free_class(struct json_writer *w, const struct view_free *f)
{
    json_write_object_begin(w);
    json_write_text_if(w, "class", f->class_name);
    free_row(w, &f->answer->total);
    devices_json_begin_list(w, "nodes");
    for (size_t i = 0; i < f->answer->rows_len; i++) {
        json_write_object_begin(w);
        json_write_text_if(w, "node", f->answer->rows[i].node);
        free_row(w, &f->answer->rows[i]);
        json_write_object_end(w);
    }
    json_write_array_end(w);
    devices_json_begin_list(w, "freeDevices");
    for (size_t i = 0; i < f->answer->devices_len; i++) {
        cleanup_sbuf struct sbuf name = {0};
        inventory_name(&f->inv->devices[f->answer->devices[i]].id, &name);
        json_write_str(w, sbuf_str(&name));
    }
    json_write_array_end(w);
    json_write_object_end(w);
}

void view_free_json(struct json_writer *w, const struct view_free *all, size_t n)
{
    json_write_object_begin(w);
    devices_json_begin_list(w, "classes");
    for (size_t i = 0; i < n; i++)
        free_class(w, &all[i]);
    json_write_array_end(w);
    json_write_object_end(w);
}

// --- Who -----------------------------------------------------------------------------------------

static void devices_json_write_holder(struct json_writer *w, const struct inventory *inv,
                                      const struct inventory_hold *h)
{
    static const char *const how[] = {"unknown", "allocationTimestamp", "managedFields",
                                      "creationTimestamp"};
    const struct inventory_claim *c = &inv->claims[h->claim];
    json_write_object_begin(w);
    json_write_text_if(w, "namespace", c->claim->metadata.namespace);
    json_write_text_if(w, "claim", c->claim->metadata.name);
    json_write_text_if(w, "request", h->result->request);
    json_write_text_if(w, "pods", c->pods);
    json_write_text_if(w, "node", c->node);
    json_write_text_if(w, "shareID", h->result->share_id);
    if (c->since.set)
        devices_json_write_time(w, "since", c->since.at);
    json_write_text_if(w, "sinceFrom", str_z(how[c->since_how]));
    if (h->result->consumed_capacity.n) {
        json_write_key(w, STR("consumedCapacity"));
        json_write_object_begin(w);
        for (size_t i = 0; i < h->result->consumed_capacity.n; i++) {
            cleanup_sbuf struct sbuf q = {0};
            quantity_write(&h->result->consumed_capacity.p[i].value, &q);
            json_write_key(w, h->result->consumed_capacity.p[i].key);
            json_write_str(w, sbuf_str(&q));
        }
        json_write_object_end(w);
    }
    json_write_object_end(w);
}

static void devices_json_write_device(struct json_writer *w, const struct inventory *inv,
                                      const struct inventory_device *d)
{
    json_write_object_begin(w);
    json_write_text_if(w, "driver", d->id.driver);
    json_write_text_if(w, "pool", d->id.pool);
    json_write_text_if(w, "device", d->id.device);
    json_write_text_if(w, "node", d->node);
    json_write_text_if(w, "state", str_z(inventory_state_name(d->state)));
    json_write_text_if(w, "why", d->why);
    json_write_key(w, STR("unhealthy"));
    json_write_bool(w, d->unhealthy);
    if (d->left) {
        json_write_key(w, STR("left"));
        json_write_object_begin(w);
        for (size_t i = 0; i < d->device->capacity.n; i++) {
            json_write_key(w, d->device->capacity.p[i].key);
            json_write_str(w, d->left[i]);
        }
        json_write_object_end(w);
    }
    devices_json_begin_list(w, "holders");
    for (uint32_t k = d->first_hold; k < d->first_hold + d->holds_len; k++)
        devices_json_write_holder(w, inv, &inv->holds[k]);
    json_write_array_end(w);
    json_write_object_end(w);
}

void view_who_list_json(struct json_writer *w, const struct inventory *inv, const uint32_t *devices,
                        size_t n)
{
    json_write_array_begin(w);
    for (size_t i = 0; i < n; i++)
        devices_json_write_device(w, inv, &inv->devices[devices[i]]);
    json_write_array_end(w);
}

void view_who_json(struct json_writer *w, const struct inventory *inv, const uint32_t *devices,
                   size_t n)
{
    json_write_object_begin(w);
    json_write_key(w, STR("devices"));
    view_who_list_json(w, inv, devices, n);
    json_write_object_end(w);
}

// --- The others ----------------------------------------------------------------------------------

void view_topo_json(struct json_writer *w, const struct inventory *inv, const struct topo *topo)
{
    json_write_object_begin(w);
    devices_json_begin_list(w, "devices");
    for (size_t i = 0; i < topo->n; i++) {
        cleanup_sbuf struct sbuf name = {0};
        inventory_name(&inv->devices[topo->devices[i]].id, &name);
        json_write_object_begin(w);
        json_write_text_if(w, "device", sbuf_str(&name));
        if (topo->folded[i])
            devices_json_write_number(w, "parts", topo->folded[i]);
        json_write_text_if(w, "numa", topo->numa[i]);
        json_write_text_if(w, "socket", topo->socket[i]);
        json_write_text_if(w, "pcieRoot", topo->pcie[i]);
        devices_json_begin_list(w, "near");
        for (size_t k = 0; k < topo->n; k++)
            json_write_str(w, str_z(topo_word(topo->near[i * topo->n + k])));
        json_write_array_end(w);
        json_write_object_end(w);
    }
    json_write_array_end(w);
    json_write_object_end(w);
}

void view_doctor_json(struct json_writer *w, const struct doctor *d)
{
    static const char *const words[] = {"good", "warn", "bad"};
    json_write_object_begin(w);
    json_write_text_if(w, "worst", str_z(words[doctor_worst(d)]));
    devices_json_begin_list(w, "findings");
    for (size_t i = 0; i < d->findings.n; i++) {
        json_write_object_begin(w);
        json_write_text_if(w, "level", str_z(words[d->findings.p[i].level]));
        json_write_text_if(w, "check", str_z(d->findings.p[i].check));
        json_write_text_if(w, "what", d->findings.p[i].what);
        json_write_text_if(w, "remedy", d->findings.p[i].remedy);
        json_write_object_end(w);
    }
    json_write_array_end(w);
    json_write_object_end(w);
}

void view_history_json(struct json_writer *w, const struct past *h)
{
    json_write_object_begin(w);
    json_write_text_if(w, "subject", h->subject);
    devices_json_begin_list(w, "entries");
    for (size_t i = 0; i < h->entries.n; i++) {
        json_write_object_begin(w);
        devices_json_write_time(w, "at", h->entries.p[i].at);
        json_write_text_if(w, "what", h->entries.p[i].what);
        json_write_text_if(w, "source", h->entries.p[i].source);
        json_write_object_end(w);
    }
    json_write_array_end(w);
    devices_json_begin_list(w, "holders");
    for (size_t i = 0; i < h->holders.n; i++) {
        const struct past_holder *p = &h->holders.p[i];
        json_write_object_begin(w);
        json_write_text_if(w, "device", p->device);
        json_write_text_if(w, "claim", p->claim);
        json_write_text_if(w, "pods", p->pods);
        devices_json_write_time(w, "from", p->from);
        devices_json_write_time(w, "until", p->until);
        json_write_text_if(w, "end", p->end);
        json_write_object_end(w);
    }
    json_write_array_end(w);
    devices_json_begin_list(w, "unknown");
    for (size_t i = 0; i < h->unknown.n; i++)
        json_write_str(w, h->unknown.p[i]);
    json_write_array_end(w);
    json_write_object_end(w);
}
