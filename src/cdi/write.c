// SPDX-License-Identifier: Apache-2.0
//
// Specs as JSON, by the tables of schema.c.
#include <assert.h>

#include "cdi/schema.h"
#include "cdi/spec.h"

#include "base/banned.h"

static void cdi_write_object(struct json_writer *w, const void *from, const struct cdi_type *type);

static bool object_is_empty(const char *from, const struct cdi_type *type);

static bool field_is_empty(const struct cdi_field *f, const void *from)
{
    switch (f->shape) {
    case CDI_TEXT:
        return ((const struct str *)from)->n == 0;
    case CDI_INT:
        return *(const int64_t *)from == 0;
    case CDI_OPT_INT:
        return !((const struct cdi_opt_i64 *)from)->set;
    case CDI_OPT_U32:
        return !((const struct cdi_opt_u32 *)from)->set;
    case CDI_BOOL:
        return !*(const bool *)from;
    case CDI_TEXTS:
    case CDI_U32S:
    case CDI_PAIRS:
    case CDI_LIST:
        return ((const struct cdi_any_list *)from)->n == 0;
    case CDI_OBJECT:
        return object_is_empty(from, f->type);
    case CDI_OPT_OBJECT:
        return !*(void *const *)from;
    }
    assert(false);
    return true;
}

static bool object_is_empty(const char *from, const struct cdi_type *type)
{
    for (size_t i = 0; i < type->n; i++)
        if (!field_is_empty(&type->fields[i], from + type->fields[i].offset))
            return false;
    return true;
}

static void cdi_write_list(struct json_writer *w, const struct cdi_any_list *list,
                           const struct cdi_type *type)
{
    json_write_array_begin(w);
    for (size_t i = 0; i < list->n; i++)
        cdi_write_object(w, (const char *)list->p + i * type->size, type);
    json_write_array_end(w);
}

static void cdi_write_texts(struct json_writer *w, const struct cdi_texts *texts)
{
    json_write_array_begin(w);
    vec_foreach(texts, t)
        json_write_str(w, *t);
    json_write_array_end(w);
}

static void write_u32s(struct json_writer *w, const struct cdi_gids *gids)
{
    json_write_array_begin(w);
    vec_foreach(gids, g)
        json_write_u64(w, *g);
    json_write_array_end(w);
}

static void write_pairs(struct json_writer *w, const struct cdi_pairs *pairs)
{
    json_write_object_begin(w);
    vec_foreach(pairs, p) {
        json_write_key(w, p->key);
        json_write_str(w, p->value);
    }
    json_write_object_end(w);
}

static void cdi_write_field(struct json_writer *w, const struct cdi_field *f, const void *from)
{
    switch (f->shape) {
    case CDI_TEXT:
        json_write_str(w, *(const struct str *)from);
        return;
    case CDI_INT:
        json_write_i64(w, *(const int64_t *)from);
        return;
    case CDI_OPT_INT:
        json_write_i64(w, ((const struct cdi_opt_i64 *)from)->value);
        return;
    case CDI_OPT_U32:
        json_write_u64(w, ((const struct cdi_opt_u32 *)from)->value);
        return;
    case CDI_BOOL:
        json_write_bool(w, *(const bool *)from);
        return;
    case CDI_TEXTS:
        cdi_write_texts(w, from);
        return;
    case CDI_U32S:
        write_u32s(w, from);
        return;
    case CDI_PAIRS:
        write_pairs(w, from);
        return;
    case CDI_OBJECT:
        cdi_write_object(w, from, f->type);
        return;
    case CDI_OPT_OBJECT:
        cdi_write_object(w, *(void *const *)from, f->type);
        return;
    case CDI_LIST:
        cdi_write_list(w, from, f->type);
        return;
    }
}

static void cdi_write_object(struct json_writer *w, const void *from, const struct cdi_type *type)
{
    json_write_object_begin(w);
    for (size_t i = 0; i < type->n; i++) {
        const struct cdi_field *f = &type->fields[i];
        const char *at = (const char *)from + f->offset;
        if (!f->always && field_is_empty(f, at))
            continue;
        json_write_key(w, f->name);
        cdi_write_field(w, f, at);
    }
    json_write_object_end(w);
}

void cdi_write_spec(struct json_writer *w, const struct cdi_spec *spec)
{
    cdi_write_object(w, spec, &cdi_type_spec);
}

void cdi_write_device(struct json_writer *w, const struct cdi_device *device)
{
    cdi_write_object(w, device, &cdi_type_device);
}

void cdi_write_edits(struct json_writer *w, const struct cdi_edits *edits)
{
    cdi_write_object(w, edits, &cdi_type_edits);
}

bool cdi_edits_are_empty(const struct cdi_edits *edits)
{
    return object_is_empty((const char *)edits, &cdi_type_edits);
}

#define append(to, from, arena)                   \
    do {                                          \
        vec_foreach(from, item)                   \
            vec_push_arena((arena), (to), *item); \
    } while (0)

void cdi_edits_append(struct cdi_edits *to, const struct cdi_edits *from, struct arena *arena)
{
    append(&to->env, &from->env, arena);
    append(&to->device_nodes, &from->device_nodes, arena);
    append(&to->net_devices, &from->net_devices, arena);
    append(&to->hooks, &from->hooks, arena);
    append(&to->mounts, &from->mounts, arena);
    append(&to->additional_gids, &from->additional_gids, arena);
    if (from->intel_rdt)
        to->intel_rdt = from->intel_rdt;
}
