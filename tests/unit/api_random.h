// SPDX-License-Identifier: Apache-2.0
//
// Random values of any API type, by walking the tables. The same seed gives the same value.
#ifndef UNIT_API_RANDOM_H
#define UNIT_API_RANDOM_H

#include <stdlib.h>

#include "api/api.h"
#include "base/rand.h"

struct random_maker {
    struct rng *rng;
    struct arena *arena;
    unsigned fill;  // chance in percent that an optional field, list or map is there
    unsigned depth; // structs around the one being made
};

// Recursive types grow fast; this keeps an object well under a request's size.
#define RANDOM_DEPTH_MAX 9

static inline bool random_chance(struct random_maker *m, unsigned percent)
{
    return rng_below(m->rng, 100) < percent;
}

// Texts that formats like to get wrong stand beside plain ones.
static inline struct str random_text(struct random_maker *m)
{
    static const struct str odd[] = {
        STR_INIT("a"),           STR_INIT("true"),
        STR_INIT("null"),        STR_INIT("0123"),
        STR_INIT("1e3"),         STR_INIT("- x"),
        STR_INIT("a: b"),        STR_INIT("# no"),
        STR_INIT(" pad "),       STR_INIT("line\nend"),
        STR_INIT("\ttab"),       STR_INIT("\"quoted\""),
        STR_INIT("it's"),        STR_INIT("<&>"),
        STR_INIT("gr\303\274n"), STR_INIT("\xf0\x9f\x8d\xba"),
        STR_INIT("back\\slash"), STR_INIT("2026-11-15"),
        STR_INIT("%x"),          STR_INIT("\342\200\250"),
    };
    if (random_chance(m, 30))
        return odd[rng_below(m->rng, array_len(odd))];
    size_t n = 1 + rng_below(m->rng, 24);
    char *p = arena_alloc(m->arena, n + 1, 1);
    for (size_t i = 0; i < n; i++)
        p[i] = "abcdefghijklmnopqrstuvwxyz0123456789-./"[rng_below(m->rng, 39)];
    return str_make(p, n);
}

static inline struct quantity random_quantity(struct random_maker *m)
{
    static const char *const texts[] = {"0",      "1",    "100m",  "1500m",
                                        "2k",     "80Gi", "1.5Gi", "12e6",
                                        "3E",     "-7",   "1n",    "123456789012345678901",
                                        "81920Mi"};
    struct quantity q = {0};
    if (quantity_parse(str_z(texts[rng_below(m->rng, array_len(texts))]), m->arena, &q, NULL) < 0)
        abort();
    return q;
}

static inline struct str random_raw(struct random_maker *m)
{
    static const char *const texts[] = {"{}", "{\"a\":1}",
                                        "{\"kind\":\"X\",\"list\":[1,\"two\",null,{}]}",
                                        "{\"deep\":{\"er\":[[]],\"text\":\"a\\\"b\"},\"t\":true}"};
    return str_z(texts[rng_below(m->rng, array_len(texts))]);
}

// random_schema gives a schema as it comes out of protobuf.
static inline struct str random_schema(struct random_maker *m)
{
    static const char *const texts[] = {
        "{}",
        "{\"$ref\":\"\",\"type\":\"object\",\"default\":{\"a\":[1,null,\"x\"]},\"maximum\":1e+21,"
        "\"minimum\":-0.5,\"maxLength\":9223372036854775807,\"minLength\":-1,\"enum\":[1,null,"
        "\"x\",{}],\"required\":[\"\",\"b\"]}",
        "{\"items\":[{\"type\":\"string\"},{}],\"allOf\":[{\"not\":{\"nullable\":true}}],"
        "\"properties\":{\"\":{},\"a\":{\"items\":{\"format\":\"int32\"}}},"
        "\"additionalProperties\":false,\"dependencies\":{\"x\":[\"y\"],\"y\":{},\"z\":null},"
        "\"additionalItems\":{\"title\":\"t\"}}",
        "{\"additionalProperties\":true,\"externalDocs\":{\"url\":\"u\"},\"example\":0,"
        "\"x-kubernetes-preserve-unknown-fields\":false,\"x-kubernetes-int-or-string\":true,"
        "\"x-kubernetes-list-map-keys\":[\"k\"],\"x-kubernetes-list-type\":\"map\","
        "\"x-kubernetes-validations\":[{\"rule\":\"\"},{\"rule\":\"self\",\"message\":\"m\","
        "\"reason\":\"FieldValueInvalid\",\"optionalOldSelf\":false}]}"};
    return str_z(texts[rng_below(m->rng, array_len(texts))]);
}

static inline void random_struct(struct random_maker *m, const struct api_type *t, void *out);

static inline void random_elem(struct random_maker *m, const struct api_field *f, void *out)
{
    switch (f->elem) {
    case API_STR:
        *(struct str *)out = random_text(m);
        return;
    case API_BOOL:
        *(bool *)out = random_chance(m, 50);
        return;
    case API_I32:
        *(int32_t *)out = (int32_t)(uint32_t)rng_u64(m->rng);
        return;
    case API_I64:
        *(int64_t *)out = (int64_t)rng_u64(m->rng);
        return;
    case API_QUANTITY:
        *(struct quantity *)out = random_quantity(m);
        return;
    case API_TIME:
    case API_MICROTIME: {
        struct api_time *time = out;
        time->set = true;
        time->at.sec = (int64_t)rng_below(m->rng, 4000000000);
        time->at.nsec = f->elem == API_TIME ? 0 : (int32_t)rng_below(m->rng, 1000000) * 1000;
        return;
    }
    case API_INTSTR: {
        struct api_int_or_string *value = out;
        value->is_text = random_chance(m, 50);
        if (value->is_text)
            value->text = random_text(m);
        else
            value->number = (int32_t)rng_below(m->rng, 65536);
        return;
    }
    case API_RAW:
    case API_FIELDS:
        *(struct str *)out = f->flags & API_SCHEMA ? random_schema(m) : random_raw(m);
        return;
    case API_BYTES: {
        size_t n = 1 + rng_below(m->rng, 20);
        char *p = arena_alloc(m->arena, n, 1);
        rng_fill(m->rng, p, n);
        *(struct str *)out = str_make(p, n);
        return;
    }
    case API_STRLIST: {
        struct api_str_array *list = out;
        list->n = 1 + rng_below(m->rng, 3);
        list->p = arena_array(m->arena, struct str, list->n);
        for (size_t i = 0; i < list->n; i++)
            list->p[i] = random_text(m);
        return;
    }
    case API_STRUCT:
        random_struct(m, f->sub, out);
        return;
    case API_ELEMS:
        break;
    }
    abort();
}

static inline int random_key_cmp(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

static inline void random_span(struct random_maker *m, const struct api_field *f,
                               struct api_span *out)
{
    bool map = f->shape == API_MAP;
    size_t size = map ? api_entry_size(f) : api_elem_size(f), n = 1 + rng_below(m->rng, 3),
           kept = 0;
    struct str keys[3] = {0};
    for (size_t i = 0; map && i < n; i++)
        keys[i] = random_text(m);
    if (map)
        qsort(keys, n, sizeof(keys[0]), random_key_cmp);
    char *items = arena_alloc_array(m->arena, n, size, _Alignof(max_align_t));
    for (size_t i = 0; i < n; i++) {
        if (map && i > 0 && str_eq(keys[i], keys[i - 1]))
            continue;
        char *slot = items + kept++ * size;
        if (map)
            *(struct str *)(void *)slot = keys[i];
        random_elem(m, f, slot + (map ? API_ENTRY_VALUE : 0));
    }
    out->p = items;
    out->n = kept;
}

static inline void random_field(struct random_maker *m, const struct api_field *f, void *owner)
{
    void *member = api_member(f, owner);
    bool choose = f->shape != API_ONE && f->shape != API_INLINE;
    if (choose && (m->depth > RANDOM_DEPTH_MAX || !random_chance(m, m->fill)))
        return;
    if (f->shape == API_LIST || f->shape == API_MAP) {
        random_span(m, f, member);
        return;
    }
    if (api_field_is_pointer(f)) {
        void **target = member;
        *target = arena_alloc(m->arena, api_elem_size(f), _Alignof(max_align_t));
        member = *target;
    }
    if (f->has_offset)
        *(bool *)((char *)owner + f->has_offset) = true;
    random_elem(m, f, member);
}

// random_struct fills a zeroed struct. kind and apiVersion stay empty.
static inline void random_struct(struct random_maker *m, const struct api_type *t, void *out)
{
    m->depth++;
    for (size_t i = t->root ? 2 : 0; i < t->fields_len; i++)
        random_field(m, &t->fields[i], out);
    m->depth--;
}

static inline struct api_object random_object(struct random_maker *m, const struct api_kind *kind)
{
    struct api_object o = {kind, arena_alloc(m->arena, kind->type->size, _Alignof(max_align_t))};
    m->depth = 0;
    random_struct(m, kind->type, o.value);
    api_set_type_meta(&o);
    return o;
}

#endif
