// SPDX-License-Identifier: Apache-2.0
//
// What expressions say about devices. A device's CEL record is made when an expression is first evaluated on it. For
// the index, answers are kept: for each distinct expression two bitsets over kinds of devices, known and yes, so that
// one is evaluated once for a kind, whatever devices of it come, and a view that is made anew asks for bits.
#include <stdlib.h>

#include "alloc/alloc_int.h"

#include "base/banned.h"

// Distinct kinds that are told apart, and expressions whose answers are kept: 16 MiB at the most.
#define KINDS_MAX       65536
#define EXPRESSIONS_MAX 1024

struct answer_bits VEC(uint64_t);

struct answer_set {
    struct str expression; // owned
    uint32_t reads;        // kinds must tell apart what these attributes are (cl_kinds.reads)
    uint64_t used;         // when, to find the oldest
    struct answer_bits known, yes;
};

struct answers {
    struct arena arena; // of kinds
    struct kind_map MAP(struct device_kind *) kinds;
    struct answer_sets MAP(struct answer_set *) sets;
    uint32_t generation; // kinds of older ones have other numbers
    uint64_t clock;
};

// --- Records -------------------------------------------------------------------------------------

static void attribute_input(const struct api_device_attribute *a, struct cel_attr_input *ret)
{
    ret->count = 1;
    if (a->has_int_value) {
        ret->kind = CEL_ATTR_INT;
        ret->ints = &a->int_value;
    } else if (a->has_bool_value) {
        ret->kind = CEL_ATTR_BOOL;
        ret->bools = &a->bool_value;
    } else if (a->has_string_value) {
        ret->kind = CEL_ATTR_STRING;
        ret->strings = &a->string_value;
    } else if (a->has_version_value) {
        ret->kind = CEL_ATTR_VERSION;
        ret->strings = &a->version_value;
    } else if (a->int_values.p) {
        *ret = (struct cel_attr_input){
            ret->name, CEL_ATTR_INT, true, a->int_values.n, {.ints = a->int_values.p}};
    } else if (a->bool_values.p) {
        *ret = (struct cel_attr_input){
            ret->name, CEL_ATTR_BOOL, true, a->bool_values.n, {.bools = a->bool_values.p}};
    } else if (a->string_values.p) {
        *ret = (struct cel_attr_input){
            ret->name, CEL_ATTR_STRING, true, a->string_values.n, {.strings = a->string_values.p}};
    } else if (a->version_values.p) {
        *ret = (struct cel_attr_input){ret->name,
                                       CEL_ATTR_VERSION,
                                       true,
                                       a->version_values.n,
                                       {.strings = a->version_values.p}};
    } else {
        ret->kind = CEL_ATTR_NONE;
    }
}

int device_make_record(const struct alloc_cluster *c, const struct cl_device *d, struct err *err)
{
    const struct api_device *api = d->api;
    struct arena tmp = {0};
    cleanup_sbuf struct sbuf text = {0};
    struct cel_attr_input *attrs = arena_array(&tmp, struct cel_attr_input, api->attributes.n + 1);
    struct cel_capacity_input *caps =
        arena_array(&tmp, struct cel_capacity_input, api->capacity.n + 1);
    for (size_t i = 0; i < api->attributes.n; i++) {
        attrs[i].name = api->attributes.p[i].key;
        attribute_input(&api->attributes.p[i].value, &attrs[i]);
    }
    for (size_t i = 0; i < api->capacity.n; i++) {
        sbuf_clear(&text);
        quantity_write(&api->capacity.p[i].value.value, &text);
        caps[i].name = api->capacity.p[i].key;
        caps[i].quantity = arena_str(&tmp, sbuf_str(&text));
    }
    int r = cel_device_new(c->shapes,
                           &(struct cel_device_input){.driver = d->slice->spec.driver,
                                                      .allow_multiple_allocations =
                                                          api->has_allow_multiple_allocations &&
                                                          api->allow_multiple_allocations,
                                                      .attributes = attrs,
                                                      .attribute_count = api->attributes.n,
                                                      .capacities = caps,
                                                      .capacity_count = api->capacity.n},
                           d->cel, err);
    arena_done(&tmp);
    return r < 0 ? err_wrap(err, "device %.*s", STR_ARG(api->name)) : 0;
}

// Apart, because the room for an error is cleared whenever the function that has it is entered.
static const struct cel_device *__attribute__((noinline))
make_record(const struct alloc_cluster *c, const struct cl_device *d)
{
    struct err err;
    return device_make_record(c, d, &err) < 0 ? NULL : *d->cel;
}

const struct cel_device *device_record(const struct alloc_cluster *c, const struct cl_device *d)
{
    return *d->cel ? *d->cel : make_record(c, d);
}

bool device_eval(const struct alloc_cluster *c, const struct cl_device *d, struct cel_run *run,
                 const struct cel_program *p, struct cel_result *ret)
{
    const struct cel_device *record = device_record(c, d);
    if (record)
        return cel_eval_device(run, p, record, ret);
    *ret = (struct cel_result){.failed = true, .error = STR("the device cannot be read")};
    return false;
}

// --- Kinds ---------------------------------------------------------------------------------------

struct answers *answers_new(void)
{
    return xcalloc(1, sizeof(struct answers));
}

static void set_free(struct answer_set *s)
{
    vec_done(&s->known);
    vec_done(&s->yes);
    free((void *)(uintptr_t)s->expression.p);
    free(s);
}

void answers_free(struct answers *a)
{
    map_foreach(&a->sets, i)
        set_free(*map_value(&a->sets, i));
    map_done(&a->sets);
    map_done(&a->kinds);
    arena_done(&a->arena);
    free(a);
}

uint32_t answers_begin(struct answers *a)
{
    if (map_len(&a->kinds) < KINDS_MAX)
        return a->generation;
    map_done(&a->kinds);
    a->kinds = (struct kind_map){0};
    arena_reset(&a->arena);
    map_foreach(&a->sets, i)
        (*map_value(&a->sets, i))->known.n = 0;
    return ++a->generation;
}

struct device_kind *answers_kind(struct answers *a, uint64_t hash)
{
    struct device_kind **known = map_get(&a->kinds, str_make((const char *)&hash, sizeof(hash)));
    if (known)
        return *known;
    struct device_kind *k = arena_one(&a->arena, struct device_kind);
    k->hash = hash;
    k->number = (uint32_t)map_len(&a->kinds) + 1;
    *map_put(&a->kinds, str_make((const char *)&k->hash, sizeof(k->hash))) = k;
    return k;
}

// --- Expressions ---------------------------------------------------------------------------------

static void forget_oldest(struct answers *a)
{
    struct answer_set *oldest = NULL;
    map_foreach(&a->sets, i) {
        struct answer_set *s = *map_value(&a->sets, i);
        if (!oldest || s->used < oldest->used)
            oldest = s;
    }
    if (oldest) {
        (void)map_del(&a->sets, oldest->expression);
        set_free(oldest);
    }
}

void answers_learn(struct answers *a, struct str expression, uint32_t reads)
{
    if (map_has(&a->sets, expression))
        return;
    if (map_len(&a->sets) >= EXPRESSIONS_MAX)
        forget_oldest(a);
    struct answer_set *s = xcalloc(1, sizeof(*s));
    s->expression = str_make(xstrndup(expression.p, expression.n), expression.n);
    s->reads = reads;
    s->used = ++a->clock;
    *map_put(&a->sets, s->expression) = s;
}

struct answer_set *answers_of(const struct alloc_cluster *c, struct str expression)
{
    struct answers *a = c->answers;
    if (!a || c->kinds.generation != a->generation)
        return NULL;
    struct answer_set **s = map_get(&a->sets, expression);
    if (!s || (*s)->reads > c->kinds.reads)
        return NULL;
    (*s)->used = ++a->clock;
    return *s;
}

static void put_bit(struct answer_bits *b, uint32_t at, bool value)
{
    while (b->n <= at / 64)
        vec_push(b, 0);
    b->p[at / 64] &= ~(UINT64_C(1) << at % 64);
    b->p[at / 64] |= (uint64_t)value << at % 64;
}

enum match_state answer_find(const struct answer_set *s, const struct cl_device *d)
{
    if (!s || !d->kind_number || s->known.n <= d->kind_number / 64 ||
        !(s->known.p[d->kind_number / 64] >> d->kind_number % 64 & 1))
        return MATCH_UNKNOWN;
    return s->yes.p[d->kind_number / 64] >> d->kind_number % 64 & 1 ? MATCH_YES : MATCH_NO;
}

// An error is not kept: it is rare, and its text is wanted.
enum match_state answer_make(const struct alloc_cluster *c, struct answer_set *s,
                             const struct cl_device *d, struct cel_run *run,
                             const struct cel_program *p)
{
    struct cel_result r;
    bool yes = device_eval(c, d, run, p, &r);
    if (r.failed)
        return MATCH_ERROR;
    if (s && d->kind_number) {
        put_bit(&s->yes, d->kind_number, yes);
        put_bit(&s->known, d->kind_number, true);
    }
    return yes ? MATCH_YES : MATCH_NO;
}
