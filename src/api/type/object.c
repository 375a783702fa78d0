// SPDX-License-Identifier: Apache-2.0
//
// Deep copy and semantic comparison, by the tables.
#include <assert.h>
#include <string.h>

#include "api/api.h"
#include "api/custom.h"

#include "base/banned.h"

static void copy_struct(const struct api_type *t, const void *in, void *out, struct arena *arena);

// copy_bytes keeps the difference between an absent and an empty string.
static struct str copy_bytes(struct str s, struct arena *arena)
{
    return s.p ? arena_str(arena, s) : s;
}

static void copy_strlist(const struct api_str_array *in, struct api_str_array *out,
                         struct arena *arena)
{
    if (!in->p)
        return;
    out->p = arena_array(arena, struct str, in->n);
    out->n = in->n;
    for (size_t i = 0; i < in->n; i++)
        out->p[i] = copy_bytes(in->p[i], arena);
}

static void copy_elem(const struct api_field *f, const void *in, void *out, struct arena *arena)
{
    switch (f->elem) {
    case API_BOOL:
    case API_I32:
    case API_I64:
    case API_TIME:
    case API_MICROTIME:
        memcpy(out, in, api_elem_size(f));
        return;
    case API_STR:
    case API_RAW:
    case API_FIELDS:
    case API_BYTES:
        *(struct str *)out = copy_bytes(*(const struct str *)in, arena);
        return;
    case API_QUANTITY:
        *(struct quantity *)out = quantity_copy(in, arena);
        return;
    case API_INTSTR: {
        struct api_int_or_string *value = out;
        *value = *(const struct api_int_or_string *)in;
        value->text = copy_bytes(value->text, arena);
        return;
    }
    case API_STRLIST:
        copy_strlist(in, out, arena);
        return;
    case API_STRUCT:
        copy_struct(f->sub, in, out, arena);
        return;
    case API_ELEMS:
        break;
    }
    assert(false);
}

static void copy_span(const struct api_field *f, const struct api_span *in, struct api_span *out,
                      struct arena *arena)
{
    if (!in->p)
        return;
    bool map = f->shape == API_MAP;
    size_t size = map ? api_entry_size(f) : api_elem_size(f);
    char *to = arena_alloc_array(arena, in->n, size, _Alignof(max_align_t));
    out->p = to;
    out->n = in->n;
    const char *from = in->p;
    for (size_t i = 0; i < in->n; i++, from += size, to += size) {
        if (map)
            *(struct str *)(void *)to = arena_str(arena, *(const struct str *)(const void *)from);
        copy_elem(f, from + (map ? API_ENTRY_VALUE : 0), to + (map ? API_ENTRY_VALUE : 0), arena);
    }
}

static void object_copy_field(const struct api_field *f, const void *in, void *out,
                              struct arena *arena)
{
    const void *from = api_member_const(f, in);
    void *to = api_member(f, out);
    if (f->shape == API_LIST || f->shape == API_MAP) {
        copy_span(f, from, to, arena);
        return;
    }
    if (api_field_is_pointer(f)) {
        const void *target = *(void *const *)from;
        if (target) {
            *(void **)to = arena_alloc(arena, api_elem_size(f), _Alignof(max_align_t));
            copy_elem(f, target, *(void **)to, arena);
        }
        return;
    }
    if (f->has_offset)
        *(bool *)((char *)out + f->has_offset) = *(const bool *)((const char *)in + f->has_offset);
    copy_elem(f, from, to, arena);
}

static void copy_struct(const struct api_type *t, const void *in, void *out, struct arena *arena)
{
    for (size_t i = 0; i < t->fields_len; i++)
        object_copy_field(&t->fields[i], in, out, arena);
}

void api_copy(const struct api_type *t, const void *in, void *out, struct arena *arena)
{
    memset(out, 0, t->size);
    copy_struct(t, in, out, arena);
    if (t->custom)
        custom_copy(in, out, arena);
}

// --- What a copy takes ---------------------------------------------------------------------------

static void count_struct(const struct api_type *t, const void *in, size_t *bytes);

static void count_str(struct str s, size_t *bytes)
{
    if (s.p)
        arena_count(bytes, s.n + 1, 1);
}

static void count_strlist(const struct api_str_array *in, size_t *bytes)
{
    if (!in->p)
        return;
    arena_count(bytes, in->n * sizeof(struct str), _Alignof(struct str));
    for (size_t i = 0; i < in->n; i++)
        count_str(in->p[i], bytes);
}

static void count_elem(const struct api_field *f, const void *in, size_t *bytes)
{
    switch (f->elem) {
    case API_STR:
    case API_RAW:
    case API_FIELDS:
    case API_BYTES:
        count_str(*(const struct str *)in, bytes);
        break;
    case API_QUANTITY:
        quantity_count(in, bytes);
        break;
    case API_INTSTR:
        count_str(((const struct api_int_or_string *)in)->text, bytes);
        break;
    case API_STRLIST:
        count_strlist(in, bytes);
        break;
    case API_STRUCT:
        count_struct(f->sub, in, bytes);
        break;
    case API_BOOL:
    case API_I32:
    case API_I64:
    case API_TIME:
    case API_MICROTIME:
    case API_ELEMS: // all of it is in the struct
        break;
    }
}

static void count_span(const struct api_field *f, const struct api_span *in, size_t *bytes)
{
    if (!in->p)
        return;
    bool map = f->shape == API_MAP;
    size_t size = map ? api_entry_size(f) : api_elem_size(f);
    const char *from = in->p;
    arena_count(bytes, in->n * size, _Alignof(max_align_t));
    for (size_t i = 0; i < in->n; i++, from += size) {
        if (map)
            arena_count(bytes, ((const struct str *)(const void *)from)->n + 1, 1);
        count_elem(f, from + (map ? API_ENTRY_VALUE : 0), bytes);
    }
}

static void count_struct(const struct api_type *t, const void *in, size_t *bytes)
{
    for (size_t i = 0; i < t->fields_len; i++) {
        const struct api_field *f = &t->fields[i];
        const void *from = api_member_const(f, in);
        if (f->shape == API_LIST || f->shape == API_MAP) {
            count_span(f, from, bytes);
        } else if (!api_field_is_pointer(f)) {
            count_elem(f, from, bytes);
        } else if (*(void *const *)from) {
            arena_count(bytes, api_elem_size(f), _Alignof(max_align_t));
            count_elem(f, *(void *const *)from, bytes);
        }
    }
}

size_t api_copy_bytes(const struct api_type *t, const void *value)
{
    size_t bytes = 0;
    assert(!t->custom);
    arena_count(&bytes, t->size, _Alignof(max_align_t));
    count_struct(t, value, &bytes);
    return bytes;
}

// --- Comparison ----------------------------------------------------------------------------------

static bool equal_int_or_string(const struct api_int_or_string *a,
                                const struct api_int_or_string *b)
{
    if (a->is_text != b->is_text)
        return false;
    return a->is_text ? str_eq(a->text, b->text) : a->number == b->number;
}

static bool equal_time(const struct api_time *a, const struct api_time *b)
{
    return a->set == b->set && (!a->set || moment_cmp(a->at, b->at) == 0);
}

static bool equal_strlist(const struct api_str_array *a, const struct api_str_array *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!str_eq(a->p[i], b->p[i]))
            return false;
    return true;
}

static bool equal_elem(const struct api_field *f, const void *a, const void *b)
{
    switch (f->elem) {
    case API_STR:
    case API_RAW:
    case API_FIELDS:
    case API_BYTES:
        return str_eq(*(const struct str *)a, *(const struct str *)b);
    case API_BOOL:
        return *(const bool *)a == *(const bool *)b;
    case API_I32:
        return *(const int32_t *)a == *(const int32_t *)b;
    case API_I64:
        return *(const int64_t *)a == *(const int64_t *)b;
    case API_QUANTITY:
        return quantity_cmp(a, b) == 0;
    case API_TIME:
    case API_MICROTIME:
        return equal_time(a, b);
    case API_INTSTR:
        return equal_int_or_string(a, b);
    case API_STRLIST:
        return equal_strlist(a, b);
    case API_STRUCT:
        return api_equal(f->sub, a, b);
    case API_ELEMS:
        break;
    }
    assert(false);
    return false;
}

static bool equal_span(const struct api_field *f, const struct api_span *a,
                       const struct api_span *b)
{
    if (a->n != b->n)
        return false;
    bool map = f->shape == API_MAP;
    size_t size = map ? api_entry_size(f) : api_elem_size(f);
    const char *x = a->p, *y = b->p;
    for (size_t i = 0; i < a->n; i++, x += size, y += size) {
        if (map &&
            !str_eq(*(const struct str *)(const void *)x, *(const struct str *)(const void *)y))
            return false;
        if (!equal_elem(f, x + (map ? API_ENTRY_VALUE : 0), y + (map ? API_ENTRY_VALUE : 0)))
            return false;
    }
    return true;
}

bool api_field_equal(const struct api_field *f, const void *a, const void *b)
{
    const void *x = api_member_const(f, a), *y = api_member_const(f, b);
    if (f->shape == API_LIST || f->shape == API_MAP)
        return equal_span(f, x, y);
    if (f->shape == API_OPT) {
        bool present = api_field_present(f, a);
        if (present != api_field_present(f, b))
            return false;
        if (!present)
            return true;
        if (api_field_is_pointer(f))
            return equal_elem(f, *(void *const *)x, *(void *const *)y);
    }
    return equal_elem(f, x, y);
}

bool api_equal(const struct api_type *t, const void *a, const void *b)
{
    for (size_t i = 0; i < t->fields_len; i++)
        if (!api_field_equal(&t->fields[i], a, b))
            return false;
    return !t->custom || custom_equal(a, b);
}

// Up to here comparing lengths first is faster than halving: most keys differ in length.
enum { MAP_SCANNED_MAX = 12 };

void api_map_set(struct api_str_map *map, struct arena *arena, struct str key, struct str value)
{
    struct api_str_entry *all = arena_array(arena, struct api_str_entry, map->n + 1);
    size_t n = 0, i = 0;
    while (i < map->n && str_cmp(map->p[i].key, key) < 0)
        all[n++] = map->p[i++];
    all[n++] = (struct api_str_entry){key, value};
    for (i += i < map->n && str_eq(map->p[i].key, key); i < map->n; i++)
        all[n++] = map->p[i];
    *map = (struct api_str_map){all, n};
}

const struct str *api_map_find(const struct api_str_map *map, struct str key)
{
    if (map->n <= MAP_SCANNED_MAX) {
        for (size_t i = 0; i < map->n; i++)
            if (str_eq(map->p[i].key, key))
                return &map->p[i].value;
        return NULL;
    }
    size_t from = 0, to = map->n; // sorted by key
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = str_cmp(map->p[middle].key, key);
        if (order == 0)
            return &map->p[middle].value;
        from = order < 0 ? middle + 1 : from;
        to = order < 0 ? to : middle;
    }
    return NULL;
}
