// SPDX-License-Identifier: Apache-2.0
//
// The text of audit events: audit.k8s.io/v1 Event, fields in upstream's order.
#include "server/audit/audit_event.h"

#include <stdlib.h>

#include "codec/json_writer.h"
#include "codec/rfc3339.h"

#include "base/banned.h"

// --- Objects -------------------------------------------------------------------------------------

// Where metadata with managed fields may be: in an object, in the items of a list, in the rows of a
// table.
enum event_place { PLACE_OBJECT, PLACE_METADATA, PLACE_LIST, PLACE_ROW, PLACE_OTHER };

static enum event_place event_place_of(enum event_place in, struct str key)
{
    if (in == PLACE_OBJECT && str_eqz(key, "metadata"))
        return PLACE_METADATA;
    if (in == PLACE_OBJECT && (str_eqz(key, "items") || str_eqz(key, "rows")))
        return PLACE_LIST;
    return in == PLACE_ROW && str_eqz(key, "object") ? PLACE_OBJECT : PLACE_OTHER;
}

static void event_write_value(struct json_writer *w, const yyjson_val *v, enum event_place in);

static void event_write_list(struct json_writer *w, const yyjson_val *v)
{
    json_write_array_begin(w);
    json_arr_foreach(v, item) {
        bool row = json_is_object(item) && json_get(item, STR("cells"));
        event_write_value(w, item, row ? PLACE_ROW : PLACE_OBJECT);
    }
    json_write_array_end(w);
}

// Two levels deep at most: everything else is copied as it stands.
static void event_write_value(struct json_writer *w, const yyjson_val *v, enum event_place in)
{
    if (in == PLACE_LIST && json_is_array(v)) {
        event_write_list(w, v);
        return;
    }
    if (in == PLACE_OTHER || in == PLACE_LIST || !json_is_object(v)) {
        json_write_value(w, v);
        return;
    }
    json_write_object_begin(w);
    json_obj_foreach(v, key, val) {
        if (in == PLACE_METADATA && str_eqz(json_str(key), "managedFields"))
            continue;
        json_write_key(w, json_str(key));
        event_write_value(w, val, event_place_of(in, json_str(key)));
    }
    json_write_object_end(w);
}

// Strings have no bare line ends: whatever follows one is indentation.
static struct str event_join_lines(struct arena *arena, struct str json)
{
    char *p = arena_alloc(arena, json.n + 1, 1);
    size_t n = 0;
    for (size_t i = 0; i < json.n; i++) {
        if (json.p[i] != '\n' && json.p[i] != '\r') {
            p[n++] = json.p[i];
            continue;
        }
        while (i + 1 < json.n && json.p[i + 1] == ' ')
            i++;
    }
    return str_make(p, n);
}

struct str audit_event_keep(const struct audit_trail *t, struct str json)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct json_options options = {.max_bytes = SIZE_MAX, .duplicates = JSON_DUPLICATES_KEEP};
    if (!t->choice.omit_managed || json_parse(json, &options, &doc, NULL) < 0)
        return event_join_lines(t->arena, json);
    cleanup_sbuf struct sbuf text = {0};
    struct json_writer w = {.out = &text};
    event_write_value(&w, doc.root, PLACE_OBJECT);
    return arena_str(t->arena, sbuf_str(&text));
}

// --- Events --------------------------------------------------------------------------------------

static void event_write_texts(struct json_writer *w, const char *key, const struct str *list,
                              size_t n)
{
    if (n == 0)
        return;
    json_write_array_in(w, key);
    for (size_t i = 0; i < n; i++)
        json_write_str(w, list[i]);
    json_write_array_end(w);
}

static void event_write_user(struct json_writer *w, const char *key,
                             const struct registry_user *user)
{
    json_write_object_in(w, key);
    json_write_text_if(w, "username", user->name);
    json_write_text_if(w, "uid", user->uid);
    event_write_texts(w, "groups", user->groups, user->groups_len);
    if (user->extra_len) {
        json_write_object_in(w, "extra");
        for (size_t i = 0; i < user->extra_len; i++) {
            json_write_key(w, user->extra[i].key);
            json_write_array_begin(w);
            for (size_t k = 0; k < user->extra[i].values_len; k++)
                json_write_str(w, user->extra[i].values[k]);
            json_write_array_end(w);
        }
        json_write_object_end(w);
    }
    json_write_object_end(w);
}

static void event_write_object(struct json_writer *w, const struct audit_object *o)
{
    json_write_object_in(w, "objectRef");
    json_write_text_if(w, "resource", o->resource);
    json_write_text_if(w, "namespace", o->namespace);
    json_write_text_if(w, "name", o->name);
    json_write_text_if(w, "uid", o->uid);
    json_write_text_if(w, "apiGroup", o->group);
    json_write_text_if(w, "apiVersion", o->version);
    json_write_text_if(w, "resourceVersion", o->resource_version);
    json_write_text_if(w, "subresource", o->subresource);
    json_write_object_end(w);
}

static void event_write_status(struct json_writer *w, const struct audit_trail *t)
{
    static const struct api_status none;
    const struct api_status *s = t->status ? t->status : &none;
    json_write_object_in(w, "responseStatus");
    json_write_object_in(w, "metadata");
    json_write_object_end(w);
    json_write_text_if(w, "status", s->status);
    json_write_text_if(w, "message", s->message);
    json_write_text_if(w, "reason", s->reason);
    cleanup_sbuf struct sbuf details = {0};
    struct json_writer of_details = {.out = &details};
    if (s->details &&
        api_json_write(&api_status_details_type, s->details, &of_details, NULL) == 0) {
        json_write_key(w, STR("details"));
        json_write_raw(w, sbuf_str(&details));
    }
    json_write_number(w, "code", t->code);
    json_write_object_end(w);
}

static void event_write_time(struct json_writer *w, const char *key, int64_t ns)
{
    cleanup_sbuf struct sbuf text = {0};
    rfc3339_write_micros(moment_from_ns(ns), &text);
    json_write_text(w, key, sbuf_str(&text));
}

static void event_write_body(struct json_writer *w, const char *key, struct str json)
{
    if (json.n == 0)
        return;
    json_write_key(w, str_z(key));
    json_write_raw(w, json);
}

static int event_compare_notes(const void *a, const void *b)
{
    return str_cmp(((const struct registry_note *)a)->key, ((const struct registry_note *)b)->key);
}

void audit_event_write(struct audit_trail *t, enum audit_stage stage, struct str id, int64_t now_ns,
                       struct sbuf *out)
{
    struct json_writer w = {.out = out};
    json_write_object_begin(&w);
    json_write_text(&w, "kind", STR("Event"));
    json_write_text(&w, "apiVersion", STR("audit.k8s.io/v1"));
    json_write_text(&w, "level", str_z(audit_level_name(t->choice.level)));
    json_write_text(&w, "auditID", id);
    json_write_text(&w, "stage", str_z(audit_stage_name(stage)));
    json_write_text(&w, "requestURI", t->uri);
    json_write_text(&w, "verb", t->verb);
    event_write_user(&w, "user", &t->user);
    if (t->impersonates)
        event_write_user(&w, "impersonatedUser", &t->impersonated);
    event_write_texts(&w, "sourceIPs", t->sources.p, t->sources.n);
    json_write_text_if(&w, "userAgent", t->agent);
    if (t->object.set)
        event_write_object(&w, &t->object);
    if (t->code)
        event_write_status(&w, t);
    event_write_body(&w, "requestObject", t->request);
    event_write_body(&w, "responseObject", t->response);
    event_write_time(&w, "requestReceivedTimestamp", t->received_ns);
    event_write_time(&w, "stageTimestamp", now_ns);
    if (t->notes.n) {
        qsort(t->notes.p, t->notes.n, sizeof(*t->notes.p), event_compare_notes);
        json_write_object_in(&w, "annotations");
        for (size_t i = 0; i < t->notes.n; i++) {
            json_write_key(&w, t->notes.p[i].key);
            json_write_str(&w, t->notes.p[i].value);
        }
        json_write_object_end(&w);
    }
    json_write_object_end(&w);
    sbuf_addc(out, '\n');
}
