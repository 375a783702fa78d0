// SPDX-License-Identifier: Apache-2.0
//
// Tables as kubectl prints them: the head, the rows, and the cells that several kinds share.
// Columns of kinds are in tables_*.c.
#include "api/tables.h"

#include <assert.h>

#include "api/crd/custom_table.h"
#include "api/match/label_selector.h"
#include "api/present/tables_int.h"
#include "api/storage.h"

#include "base/banned.h"

// --- Ages ----------------------------------------------------------------------------------------

// add_two adds "12h30m"; the second part only when it is not zero.
static void add_two(struct sbuf *out, int64_t big, char big_unit, int64_t small, char small_unit)
{
    sbuf_add_i64(out, big);
    sbuf_addc(out, big_unit);
    if (small) {
        sbuf_add_i64(out, small);
        sbuf_addc(out, small_unit);
    }
}

void sbuf_add_duration(struct sbuf *out, int64_t seconds)
{
    int64_t minutes = seconds / 60, hours = minutes / 60, days = hours / 24;
    if (seconds < 120)
        add_two(out, seconds, 's', 0, 0);
    else if (minutes < 10)
        add_two(out, minutes, 'm', seconds % 60, 's');
    else if (minutes < 180)
        add_two(out, minutes, 'm', 0, 0);
    else if (hours < 8)
        add_two(out, hours, 'h', minutes % 60, 'm');
    else if (hours < 48)
        add_two(out, hours, 'h', 0, 0);
    else if (days < 8)
        add_two(out, days, 'd', hours % 24, 'h');
    else if (days < 730)
        add_two(out, days, 'd', 0, 0);
    else if (days < 365 * 8)
        add_two(out, days / 365, 'y', days % 365, 'd');
    else
        add_two(out, days / 365, 'y', 0, 0);
}

void sbuf_add_age(struct sbuf *out, const struct api_time *since, struct moment now)
{
    if (!since->set) {
        sbuf_addz(out, "<unknown>");
        return;
    }
    // Whole seconds, cut towards zero. A clock that is a little ahead does no harm.
    int64_t seconds = now.sec - since->at.sec;
    if (seconds > 0 && now.nsec < since->at.nsec)
        seconds--;
    else if (seconds < 0 && now.nsec > since->at.nsec)
        seconds++;
    if (seconds < -1)
        sbuf_addz(out, "<invalid>");
    else
        sbuf_add_duration(out, seconds < 0 ? 0 : seconds);
}

// --- Cells ---------------------------------------------------------------------------------------

void tables_cell_text(struct cells *c, struct str text)
{
    json_write_str(c->w, text);
}

void tables_cell_text_or(struct cells *c, struct str text, const char *otherwise)
{
    json_write_str(c->w, text.n ? text : str_z(otherwise));
}

void tables_cell_z(struct cells *c, const char *text)
{
    json_write_str(c->w, str_z(text));
}

void tables_cell_number(struct cells *c, int64_t number)
{
    json_write_i64(c->w, number);
}

void tables_cell_bool(struct cells *c, bool value)
{
    json_write_bool(c->w, value);
}

void tables_cell_name(struct cells *c)
{
    tables_cell_text(c, c->meta->name);
}

void tables_cell_since(struct cells *c, const struct api_time *since)
{
    cleanup_sbuf struct sbuf text = {0};
    sbuf_add_age(&text, since, c->table->now);
    tables_cell_text(c, sbuf_str(&text));
}

void tables_cell_age(struct cells *c)
{
    tables_cell_since(c, &c->meta->creation_timestamp);
}

void tables_cell_ratio(struct cells *c, int64_t have, int64_t want)
{
    tables_cell_text(c, arena_strf(c->arena, "%lld/%lld", (long long)have, (long long)want));
}

void tables_cell_list(struct cells *c, const struct api_str_array *list, const char *between,
                      const char *otherwise)
{
    cleanup_sbuf struct sbuf text = {0};
    for (size_t i = 0; i < list->n; i++) {
        if (i)
            sbuf_addz(&text, between);
        sbuf_add(&text, list->p[i]);
    }
    tables_cell_text_or(c, sbuf_str(&text), otherwise);
}

void tables_cell_labels(struct cells *c, const struct api_str_map *labels)
{
    cleanup_sbuf struct sbuf text = {0};
    for (size_t i = 0; i < labels->n; i++) {
        if (i)
            sbuf_addc(&text, ',');
        sbuf_add(&text, labels->p[i].key);
        sbuf_addc(&text, '=');
        sbuf_add(&text, labels->p[i].value);
    }
    tables_cell_text_or(c, sbuf_str(&text), "<none>");
}

void tables_cell_selector(struct cells *c, const struct api_label_selector *selector,
                          const char *none, const char *wrong)
{
    cleanup_sbuf struct sbuf text = {0};
    struct label_selector read;
    if (label_selector_of(selector, c->arena, &read, NULL) < 0) {
        tables_cell_z(c, wrong);
        return;
    }
    label_selector_write(&read, &text);
    tables_cell_text_or(c, sbuf_str(&text), none);
}

void tables_cell_containers(struct cells *c, const struct api_container_array *containers)
{
    cleanup_sbuf struct sbuf names = {0}, images = {0};
    for (size_t i = 0; i < containers->n; i++) {
        if (i) {
            sbuf_addc(&names, ',');
            sbuf_addc(&images, ',');
        }
        sbuf_add(&names, containers->p[i].name);
        sbuf_add(&images, containers->p[i].image);
    }
    tables_cell_text(c, sbuf_str(&names));
    tables_cell_text(c, sbuf_str(&images));
}

// --- Kinds without a printer ---------------------------------------------------------------------

static const struct table_column plain_columns[] = {
    TABLE_NAME,
    {"Created At", "date", "", "When the object was stored.", 0},
};

static void tables_plain_cells(struct cells *c, const void *value)
{
    (void)value;
    cleanup_sbuf struct sbuf text = {0};
    tables_cell_name(c);
    if (c->meta->creation_timestamp.set)
        rfc3339_write_seconds(c->meta->creation_timestamp.at, &text);
    else
        sbuf_addz(&text, "0001-01-01T00:00:00Z");
    tables_cell_text(c, sbuf_str(&text));
}

static const struct table_printer plain = {NULL, plain_columns, array_len(plain_columns),
                                           tables_plain_cells};

static const struct table_printer *find_in(const struct table_printer *list, size_t n,
                                           const struct api_type *type)
{
    for (size_t i = 0; i < n; i++)
        if (list[i].type == type)
            return &list[i];
    return NULL;
}

static const struct table_printer *find_printer(const struct api_type *type)
{
    const struct {
        const struct table_printer *list;
        size_t n;
    } all[] = {{table_printers_resource, table_printers_resource_len},
               {table_printers_core, table_printers_core_len},
               {table_printers_work, table_printers_work_len},
               {table_printers_net, table_printers_net_len},
               {table_printers_control, table_printers_control_len}};
    const struct table_printer *found = NULL;
    for (size_t i = 0; i < array_len(all) && !found; i++)
        found = find_in(all[i].list, all[i].n, type);
    return found ? found : &plain;
}

// --- Tables --------------------------------------------------------------------------------------

int api_include_parse(struct str text, enum api_include *ret, struct err *err)
{
    static const char *const names[] = {"Metadata", "None", "Object"};
    *ret = API_INCLUDE_METADATA;
    for (size_t i = 0; i < array_len(names); i++) {
        if (str_eqz(text, names[i])) {
            *ret = (enum api_include)i;
            return 0;
        }
    }
    if (text.n == 0)
        return 0;
    cleanup_sbuf struct sbuf quoted = {0};
    sbuf_add_quoted(&quoted, text);
    return err_set(err, ERR_BAD_REQUEST, "unrecognized includeObject value: %s", quoted.p);
}

static void write_head(const struct api_list_meta *meta, struct json_writer *w)
{
    static const struct api_list_meta none;
    json_write_object_begin(w);
    json_write_text(w, "kind", STR("Table"));
    json_write_text(w, "apiVersion", STR("meta.k8s.io/v1"));
    json_write_key(w, STR("metadata"));
    int r = api_json_write(&api_list_meta_type, meta ? meta : &none, w, NULL);
    assert(r == 0); // it holds no raw JSON
    (void)r;
}

static void write_columns(const struct table_printer *p, struct json_writer *w)
{
    json_write_array_begin(w);
    for (size_t i = 0; i < p->columns_len; i++) {
        json_write_object_begin(w);
        json_write_text(w, "name", str_z(p->columns[i].name));
        json_write_text(w, "type", str_z(p->columns[i].type));
        json_write_text(w, "format", str_z(p->columns[i].format));
        json_write_text(w, "description", str_z(p->columns[i].doc));
        json_write_key(w, STR("priority"));
        json_write_i64(w, p->columns[i].priority);
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

void api_table_begin(const struct api_table_view *t, const struct api_list_meta *meta,
                     struct json_writer *w)
{
    write_head(meta, w);
    json_write_key(w, STR("columnDefinitions"));
    if (t->no_headers)
        json_write_null(w);
    else if (t->kind->custom)
        custom_columns(t->kind->custom, w);
    else
        write_columns(find_printer(t->kind->type), w);
    json_write_key(w, STR("rows"));
    json_write_array_begin(w);
}

void api_table_end(struct json_writer *w)
{
    json_write_array_end(w);
    json_write_object_end(w);
}

// tables_write_conditions marks pods that have ended.
static void tables_write_conditions(const struct api_table_view *t, const void *value,
                                    struct json_writer *w)
{
    if (t->kind->type != &api_pod_type)
        return;
    struct str phase = ((const struct api_pod *)value)->status.phase;
    bool failed = str_eqz(phase, "Failed");
    if (!failed && !str_eqz(phase, "Succeeded"))
        return;
    json_write_key(w, STR("conditions"));
    json_write_array_begin(w);
    json_write_object_begin(w);
    json_write_text(w, "type", STR("Completed"));
    json_write_text(w, "status", STR("True"));
    json_write_text(w, "reason", failed ? STR("Failed") : STR("Succeeded"));
    json_write_text(w, "message",
                    failed ? STR("The pod failed.") : STR("The pod has completed successfully."));
    json_write_object_end(w);
    json_write_array_end(w);
}

// tables_write_partial writes a PartialObjectMetadata with the metadata of an object.
static int tables_write_partial(const struct api_object_meta *meta, struct json_writer *w,
                                struct err *err)
{
    struct api_partial_object_metadata partial = {.kind = STR("PartialObjectMetadata"),
                                                  .api_version = STR("meta.k8s.io/v1"),
                                                  .metadata = *meta};
    return api_json_write(&api_partial_object_metadata_type, &partial, w, err);
}

static int tables_write_object(const struct api_table_view *t, const struct api_object_meta *meta,
                               const void *value, struct str json, struct json_writer *w,
                               struct err *err)
{
    json_write_key(w, STR("object"));
    switch (t->include) {
    case API_INCLUDE_METADATA:
        return tables_write_partial(meta, w, err);
    case API_INCLUDE_OBJECT:
        if (json.n == 0)
            return api_json_write(t->kind->type, value, w, err);
        json_write_raw(w, json);
        return 0;
    case API_INCLUDE_NONE:
        break;
    }
    json_write_null(w);
    return 0;
}

static const struct api_object_meta *meta_of(const struct api_type *type, const void *value)
{
    static const struct api_object_meta none;
    const struct api_field *f = api_type_field(type, STR("metadata"));
    return f && f->sub == &api_object_meta_type ? api_member_const(f, value) : &none;
}

int api_table_row(const struct api_table_view *t, const void *value, struct str json,
                  struct json_writer *w, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    const struct api_object_meta *meta = meta_of(t->kind->type, value);
    struct cells cells = {t, meta, w, &arena};
    json_write_object_begin(w);
    json_write_key(w, STR("cells"));
    json_write_array_begin(w);
    if (t->kind->custom)
        custom_cells(t, value, w, &arena);
    else
        find_printer(t->kind->type)->cells(&cells, value);
    json_write_array_end(w);
    tables_write_conditions(t, value, w);
    int r = tables_write_object(t, meta, value, json, w, err);
    json_write_object_end(w);
    return r;
}

void api_table_look(struct api_table_view *t, const void *value)
{
    if (t->kind->type == &api_storage_class_type)
        t->default_class = storage_default(t->default_class, value);
}
