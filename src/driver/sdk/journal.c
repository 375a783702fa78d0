// SPDX-License-Identifier: Apache-2.0
//
// The journal of a claim: what was prepared, as lines with a checksum. A torn last line is dropped
// when it is read.
#include "driver/sdk/journal.h"

#include <stdint.h>

#include "codec/json.h"
#include "codec/json_writer.h"

#include "base/banned.h"

static const char *const steps[] = {"preparing", "prepared", "unpreparing"};

// CRC-32 (IEEE): enough against torn and rotten lines, and checked by hand with common tools.
static uint32_t crc32_of(struct str bytes)
{
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
                                       0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                       0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < bytes.n; i++) {
        crc ^= (uint8_t)bytes.p[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

// --- Writing -------------------------------------------------------------------------------------

static void write_configs(struct json_writer *w, const struct dray_allocated *d)
{
    if (d->configs_len == 0)
        return;
    json_write_key(w, STR("configs"));
    json_write_array_begin(w);
    for (size_t i = 0; i < d->configs_len; i++) {
        json_write_object_begin(w);
        json_write_key(w, STR("class"));
        json_write_bool(w, d->configs[i].from_class);
        json_write_text_if(w, "parameters", str_z(d->configs[i].parameters));
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

static void journal_write_device(struct json_writer *w, const struct dray_allocated *d,
                                 const struct journal_ids *ids)
{
    json_write_object_begin(w);
    json_write_text_if(w, "request", str_z(d->request_ref));
    json_write_text_if(w, "pool", str_z(d->pool));
    json_write_text_if(w, "device", str_z(d->device));
    json_write_text_if(w, "share", str_z(d->share_id));
    if (d->admin_access) {
        json_write_key(w, STR("admin"));
        json_write_bool(w, true);
    }
    if (d->consumed_len) {
        json_write_key(w, STR("consumed"));
        json_write_object_begin(w);
        for (size_t i = 0; i < d->consumed_len; i++)
            json_write_text_if(w, d->consumed[i].name, str_z(d->consumed[i].quantity));
        json_write_object_end(w);
    }
    write_configs(w, d);
    if (ids && ids->n) {
        json_write_key(w, STR("cdi"));
        json_write_array_begin(w);
        for (size_t i = 0; i < ids->n; i++)
            json_write_str(w, ids->p[i]);
        json_write_array_end(w);
    }
    json_write_object_end(w);
}

static void journal_write_raw(struct json_writer *w, struct str key, struct str json)
{
    if (json.n == 0)
        return;
    json_write_key(w, key);
    json_write_raw(w, json);
}

void journal_write(const struct journal_entry *e, struct sbuf *out)
{
    cleanup_sbuf struct sbuf body = {0};
    struct json_writer w = {.out = &body};
    json_write_object_begin(&w);
    json_write_key(&w, STR("version"));
    json_write_i64(&w, 1);
    json_write_text_if(&w, "step", str_z(steps[e->step]));
    json_write_text_if(&w, "boot", e->boot);
    json_write_text_if(&w, "namespace", str_z(e->claim.namespace_));
    json_write_text_if(&w, "name", str_z(e->claim.name));
    json_write_text_if(&w, "uid", str_z(e->claim.uid));
    json_write_text_if(&w, "podClaim", str_z(e->claim.pod_claim_name));
    json_write_key(&w, STR("devices"));
    json_write_array_begin(&w);
    for (size_t i = 0; i < e->claim.devices_len; i++)
        journal_write_device(&w, &e->claim.devices[i], e->ids ? &e->ids[i] : NULL);
    json_write_array_end(&w);
    journal_write_raw(&w, STR("spec"), e->spec);
    journal_write_raw(&w, STR("status"), e->status);
    journal_write_raw(&w, STR("metadata"), e->metadata);
    json_write_object_end(&w);
    // The new line first: what a torn line before it left behind must not spoil this one.
    sbuf_addf(out, "\n%08x ", crc32_of(sbuf_str(&body)));
    sbuf_add(out, sbuf_str(&body));
    sbuf_addc(out, '\n');
}

// --- Reading -------------------------------------------------------------------------------------

// Texts are written when they are not empty, and end with a NUL in memory.
static bool is_text(const yyjson_val *v)
{
    return v && json_is_string(v) && json_str(v).n > 0 && str_find_char(json_str(v), '\0') < 0;
}

// A text of an object, or NULL.
static const char *journal_read_member(const yyjson_val *o, const char *key, struct arena *a)
{
    const yyjson_val *v = json_get(o, str_z(key));
    return is_text(v) ? arena_str(a, json_str(v)).p : NULL;
}

static struct str raw_member(const yyjson_val *o, const char *key, struct arena *a)
{
    const yyjson_val *v = json_get(o, str_z(key));
    if (!v)
        return STR("");
    cleanup_sbuf struct sbuf out = {0};
    struct json_writer w = {.out = &out};
    json_write_value(&w, v);
    return arena_str(a, sbuf_str(&out));
}

static bool read_consumed(const yyjson_val *o, struct arena *a, struct dray_allocated *d)
{
    const yyjson_val *v = json_get(o, STR("consumed"));
    if (!v)
        return true;
    if (!json_is_object(v))
        return false;
    struct dray_amount *all = arena_array(a, struct dray_amount, json_len(v));
    size_t n = 0;
    json_obj_foreach(v, key, value) {
        if (!is_text(key) || !is_text(value))
            return false;
        all[n++] =
            (struct dray_amount){arena_str(a, json_str(key)).p, arena_str(a, json_str(value)).p};
    }
    d->consumed = all;
    d->consumed_len = n;
    return true;
}

static bool journal_read_configs(const yyjson_val *o, struct arena *a, struct dray_allocated *d)
{
    const yyjson_val *v = json_get(o, STR("configs"));
    if (!v)
        return true;
    if (!json_is_array(v))
        return false;
    struct dray_config *all = arena_array(a, struct dray_config, json_len(v));
    size_t n = 0;
    json_arr_foreach(v, item) {
        const yyjson_val *of_class = json_get(item, STR("class"));
        all[n].parameters = journal_read_member(item, "parameters", a);
        if (!all[n].parameters || !of_class || json_to_bool(of_class, &all[n].from_class, NULL))
            return false;
        n++;
    }
    d->configs = all;
    d->configs_len = n;
    return true;
}

static bool read_ids(const yyjson_val *o, struct arena *a, struct journal_ids *ret)
{
    const yyjson_val *v = json_get(o, STR("cdi"));
    if (!v)
        return true;
    if (!json_is_array(v))
        return false;
    ret->p = arena_array(a, struct str, json_len(v));
    json_arr_foreach(v, item) {
        if (!json_is_string(item))
            return false;
        ret->p[ret->n++] = arena_str(a, json_str(item));
    }
    return true;
}

static const char *journal_base_request(const char *ref, struct arena *a)
{
    struct str head;
    struct str tail;
    str_cut(str_z(ref), '/', &head, &tail);
    return arena_str(a, head).p;
}

static bool journal_read_device(const yyjson_val *o, struct arena *a, struct dray_allocated *d,
                                struct journal_ids *ids)
{
    d->request_ref = journal_read_member(o, "request", a);
    d->pool = journal_read_member(o, "pool", a);
    d->device = journal_read_member(o, "device", a);
    d->share_id = journal_read_member(o, "share", a);
    const yyjson_val *admin = json_get(o, STR("admin"));
    if (!d->request_ref || !d->pool || !d->device ||
        (admin && json_to_bool(admin, &d->admin_access, NULL) != 0))
        return false;
    d->request = journal_base_request(d->request_ref, a);
    return read_consumed(o, a, d) && journal_read_configs(o, a, d) && read_ids(o, a, ids);
}

static bool journal_read_devices(const yyjson_val *v, struct arena *a, struct journal_entry *e)
{
    if (!v || !json_is_array(v) || json_len(v) > JOURNAL_DEVICES_MAX)
        return false;
    struct dray_allocated *all = arena_array(a, struct dray_allocated, json_len(v));
    e->ids = arena_array(a, struct journal_ids, json_len(v));
    json_arr_foreach(v, item) {
        if (!journal_read_device(item, a, &all[e->claim.devices_len],
                                 &e->ids[e->claim.devices_len]))
            return false;
        e->claim.devices_len++;
    }
    e->claim.devices = all;
    return true;
}

static bool journal_read_step(const yyjson_val *root, struct arena *a, enum journal_step *ret)
{
    const char *step = journal_read_member(root, "step", a);
    for (size_t i = 0; step && i < array_len(steps); i++) {
        if (strcmp(steps[i], step) == 0) {
            *ret = (enum journal_step)i;
            return true;
        }
    }
    return false;
}

static bool journal_read_entry(struct str body, struct arena *a, struct journal_entry *e)
{
    const struct json_options options = {.max_bytes = JOURNAL_BYTES_MAX};
    cleanup_json_doc struct json_doc doc = {0};
    if (json_parse(body, &options, &doc, NULL) != 0 || !json_is_object(doc.root))
        return false;
    int64_t version = 0;
    const yyjson_val *v = json_get(doc.root, STR("version"));
    if (!v || json_to_i64(v, &version, NULL) != 0 || version != 1)
        return false;
    *e = (struct journal_entry){0};
    const char *boot = journal_read_member(doc.root, "boot", a);
    e->claim.namespace_ = journal_read_member(doc.root, "namespace", a);
    e->claim.name = journal_read_member(doc.root, "name", a);
    e->claim.uid = journal_read_member(doc.root, "uid", a);
    e->claim.pod_claim_name = journal_read_member(doc.root, "podClaim", a);
    if (!journal_read_step(doc.root, a, &e->step) || !boot || !e->claim.namespace_ ||
        !e->claim.name || !e->claim.uid ||
        !journal_read_devices(json_get(doc.root, STR("devices")), a, e))
        return false;
    e->boot = str_z(boot);
    e->spec = raw_member(doc.root, "spec", a);
    e->status = raw_member(doc.root, "status", a);
    e->metadata = raw_member(doc.root, "metadata", a);
    return true;
}

static bool journal_read_line(struct str line, struct arena *a, struct journal_entry *e)
{
    if (line.n < 10 || line.p[8] != ' ')
        return false;
    uint32_t sum = 0;
    for (size_t i = 0; i < 8; i++) {
        char c = line.p[i];
        bool digit = c >= '0' && c <= '9';
        if (!digit && !(c >= 'a' && c <= 'f'))
            return false;
        sum = sum << 4 | (uint32_t)(digit ? c - '0' : c - 'a' + 10);
    }
    struct str body = str_from(line, 9);
    return crc32_of(body) == sum && journal_read_entry(body, a, e);
}

int journal_read(struct str text_of, struct arena *arena, struct journal_entry *ret,
                 bool *ret_damaged)
{
    *ret_damaged = false;
    while (text_of.n > 0) {
        bool whole = text_of.p[text_of.n - 1] == '\n';
        struct str rest = whole ? str_upto(text_of, text_of.n - 1) : text_of;
        ptrdiff_t start = str_rfind_char(rest, '\n');
        struct str line = start < 0 ? rest : str_from(rest, (size_t)start + 1);
        struct arena_mark mark = arena_mark(arena);
        if (whole && journal_read_line(line, arena, ret))
            return 0;
        arena_rewind(arena, mark);
        *ret_damaged = *ret_damaged || line.n > 0;
        text_of = start < 0 ? STR("") : str_upto(rest, (size_t)start + 1);
    }
    return -ERR_NOT_FOUND;
}
