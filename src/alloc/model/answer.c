// SPDX-License-Identifier: Apache-2.0
//
// What expressions say about devices. A device's CEL record is made when an expression is first
// evaluated on it. For the index, answers are kept: for each distinct expression bitsets over kinds
// of devices, known, yes and failed, so that one is evaluated once for a kind, whatever devices of
// it come, and a rebuilt view reads bits.
//
// Every evaluation is charged to the caller's meter. With nothing left on the meter nothing is
// evaluated: the answer stays unknown, and the caller gives up for now. Since answers are kept, it
// gets further the next time.
#include "alloc/model/answer.h"

#include <stdlib.h>

#include "base/list.h"
#include "base/utf8.h"

#include "base/banned.h"

// Distinct kinds that are distinguished, and expressions whose answers are kept (twice so many,
// with those in passing): 24 KiB each at the most, and 128 KiB for one that fails everywhere, each
// time with another text.
#define KINDS_MAX       65536
#define EXPRESSIONS_MAX 1024

// What an evaluation costs beside its own cost: the call, the record, the bits.
#define COST_PER_EVALUATION 10

// Work that cost does not tell of takes about as long.
#define WORK_PER_COST 8

// Error texts kept of an expression, and how much of each.
#define ERRORS_MAX      64
#define ERROR_BYTES_MAX 1024

struct answer_bits VEC(uint64_t);

struct answer_set {
    struct list_node lru;
    struct str expression; // owned
    uint32_t reads;        // kinds must tell apart what these attributes are (cl_kinds.reads)
    struct answer_bits known, yes, failed;
    struct VEC(struct str) errors;     // distinct texts; owned
    struct VEC(uint8_t) error_of_kind; // 1 + the place of its text; 0: it is not kept
};

struct answers {
    struct arena arena; // of kinds
    struct kind_map MAP(struct device_kind *) kinds;
    struct answer_sets MAP(struct answer_set *) sets;
    struct answer_sets
        passing;         // of expressions that no object has: terms, and selectors a remedy changes
    struct list lru;     // of sets; the one asked last is first
    uint32_t generation; // kinds of older ones have other numbers
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

int alloc_cel_device_new(struct cel_shapes *shapes, struct str driver, const struct api_device *api,
                         struct cel_device **ret, struct err *err)
{
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
    int r = cel_device_new(shapes,
                           &(struct cel_device_input){.driver = driver,
                                                      .allow_multiple_allocations =
                                                          api->has_allow_multiple_allocations &&
                                                          api->allow_multiple_allocations,
                                                      .attributes = attrs,
                                                      .attribute_count = api->attributes.n,
                                                      .capacities = caps,
                                                      .capacity_count = api->capacity.n},
                           ret, err);
    arena_done(&tmp);
    return r < 0 ? err_wrap(err, "device %.*s", STR_ARG(api->name)) : 0;
}

int answer_make_record(const struct alloc_cluster *c, const struct cl_device *d, struct err *err)
{
    return alloc_cel_device_new(c->kit.shapes, d->slice->spec.driver, d->api, d->cel, err);
}

// Apart, because the room for an error is cleared whenever the function that has it is entered.
static const struct cel_device *__attribute__((noinline))
answer_build_record(const struct alloc_cluster *c, const struct cl_device *d)
{
    struct err err;
    return answer_make_record(c, d, &err) < 0 ? NULL : *d->cel;
}

const struct cel_device *answer_device_record(const struct alloc_cluster *c,
                                              const struct cl_device *d)
{
    return *d->cel ? *d->cel : answer_build_record(c, d);
}

bool answer_eval_device(const struct alloc_cluster *c, const struct cl_device *d,
                        struct cel_run *run, const struct cel_program *p, struct cel_result *ret)
{
    const struct cel_device *record = answer_device_record(c, d);
    if (record)
        return cel_eval_device(run, p, record, ret);
    *ret = (struct cel_result){.failed = true, .error = STR("the device cannot be read")};
    return false;
}

// --- Kinds ---------------------------------------------------------------------------------------

struct answers *answer_cache_new(void)
{
    struct answers *a = xcalloc(1, sizeof(*a));
    list_init(&a->lru);
    return a;
}

static void answer_set_forget(struct answer_set *s)
{
    s->known.n = 0;
    vec_foreach(&s->errors, text)
        free((void *)(uintptr_t)text->p);
    s->errors.n = 0;
    s->error_of_kind.n = 0;
}

static void set_free(struct answer_set *s)
{
    answer_set_forget(s);
    vec_done(&s->known);
    vec_done(&s->yes);
    vec_done(&s->failed);
    vec_done(&s->errors);
    vec_done(&s->error_of_kind);
    free((void *)(uintptr_t)s->expression.p);
    free(s);
}

static void answer_sets_free(struct answer_sets *sets)
{
    map_foreach(sets, i)
        set_free(*map_value(sets, i));
    map_done(sets);
    *sets = (struct answer_sets){0};
}

void answer_cache_free(struct answers *a)
{
    answer_sets_free(&a->sets);
    answer_sets_free(&a->passing);
    map_done(&a->kinds);
    arena_done(&a->arena);
    free(a);
}

uint32_t answer_begin(struct answers *a)
{
    if (map_len(&a->kinds) < KINDS_MAX)
        return a->generation;
    map_done(&a->kinds);
    a->kinds = (struct kind_map){0};
    arena_reset(&a->arena);
    map_foreach(&a->sets, i)
        answer_set_forget(*map_value(&a->sets, i));
    answer_sets_free(&a->passing);
    return ++a->generation;
}

struct device_kind *answer_kind_of(struct answers *a, uint64_t hash)
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
    struct answer_set *oldest = list_entry(a->lru.head.prev, struct answer_set, lru);
    list_remove(&oldest->lru);
    (void)map_del(&a->sets, oldest->expression);
    set_free(oldest);
}

static struct answer_set *answer_set_add(struct answer_sets *to, struct str expression)
{
    struct answer_set *s = xcalloc(1, sizeof(*s));
    s->expression = str_make(xstrndup(expression.p, expression.n), expression.n);
    *map_put(to, s->expression) = s;
    return s;
}

void answer_learn(struct answers *a, struct str expression, uint32_t reads)
{
    if (map_has(&a->sets, expression))
        return;
    if (map_len(&a->sets) >= EXPRESSIONS_MAX)
        forget_oldest(a);
    struct answer_set *s = answer_set_add(&a->sets, expression);
    s->reads = reads;
    list_push_front(&a->lru, &s->lru);
}

void answer_trim(struct answers *a)
{
    if (map_len(&a->passing) >= EXPRESSIONS_MAX)
        answer_sets_free(&a->passing);
}

// They read no more than the selectors they were made of, which the kinds of the cluster tell
// apart.
struct answer_set *answer_passing(const struct alloc_cluster *c, struct str expression)
{
    struct answers *a = c->kit.answers;
    if (!a || c->kinds.generation != a->generation || map_has(&a->sets, expression))
        return NULL; // one that is learnt is in answer_set_of, or its kinds are not distinguished
    struct answer_set **s = map_get(&a->passing, expression);
    if (s)
        return *s;
    return map_len(&a->passing) < EXPRESSIONS_MAX ? answer_set_add(&a->passing, expression) : NULL;
}

struct answer_set *answer_kept_set(const struct alloc_cluster *c, struct str expression)
{
    struct answer_set *learnt = answer_set_of(c, expression);
    return learnt ? learnt : answer_passing(c, expression);
}

struct answer_set *answer_set_of(const struct alloc_cluster *c, struct str expression)
{
    struct answers *a = c->kit.answers;
    if (!a || c->kinds.generation != a->generation)
        return NULL;
    struct answer_set **s = map_get(&a->sets, expression);
    if (!s || (*s)->reads > c->kinds.reads)
        return NULL;
    list_remove(&(*s)->lru);
    list_push_front(&a->lru, &(*s)->lru);
    return *s;
}

static void put_bit(struct answer_bits *b, uint32_t at, bool value)
{
    while (b->n <= at / 64)
        vec_push(b, 0);
    b->p[at / 64] &= ~(UINT64_C(1) << at % 64);
    b->p[at / 64] |= (uint64_t)value << at % 64;
}

static bool get_bit(const struct answer_bits *b, uint32_t at)
{
    return at / 64 < b->n && b->p[at / 64] >> at % 64 & 1;
}

enum match_state answer_find(const struct answer_set *s, const struct cl_device *d)
{
    if (!s || !d->kind_number || !get_bit(&s->known, d->kind_number))
        return MATCH_UNKNOWN;
    if (get_bit(&s->failed, d->kind_number))
        return MATCH_ERROR;
    return get_bit(&s->yes, d->kind_number) ? MATCH_YES : MATCH_NO;
}

struct str answer_failure(const struct answer_set *s, const struct cl_device *d)
{
    size_t at = d->kind_number < s->error_of_kind.n ? s->error_of_kind.p[d->kind_number] : 0;
    return at ? s->errors.p[at - 1] : STR("the expression fails");
}

// The place of a text, from 1 on; 0: there is no room for it.
static uint8_t answer_put_text(struct answer_set *s, struct str text)
{
    struct str kept = str_upto(text, ERROR_BYTES_MAX);
    size_t whole; // characters
    if (kept.n < text.n && !utf8_valid(kept, &whole))
        kept = str_upto(kept, whole);
    for (size_t i = 0; i < s->errors.n; i++)
        if (str_eq(s->errors.p[i], kept))
            return (uint8_t)(i + 1);
    if (s->errors.n == ERRORS_MAX)
        return 0;
    vec_push(&s->errors, str_make(xstrndup(kept.p ? kept.p : "", kept.n), kept.n));
    return (uint8_t)s->errors.n;
}

static void answer_keep_error(struct answer_set *s, uint32_t kind, struct str text)
{
    while (s->error_of_kind.n <= kind)
        vec_push(&s->error_of_kind, 0);
    s->error_of_kind.p[kind] = answer_put_text(s, text);
}

void answer_charge(struct alloc_meter *m, const struct cel_result *r)
{
    if (!m)
        return;
    uint64_t cost = r->cost + r->work / WORK_PER_COST + COST_PER_EVALUATION;
    m->evaluations++;
    m->spent += cost;
    m->left = m->left > cost ? m->left - cost : 0;
}

enum match_state answer_make(const struct alloc_cluster *c, struct answer_set *s,
                             const struct cl_device *d, const struct evaluator *e)
{
    struct cel_result r;
    if (meter_refuses(e->meter))
        return MATCH_UNKNOWN;
    bool yes = answer_eval_device(c, d, e->run, e->program, &r);
    answer_charge(e->meter, &r);
    if (s && d->kind_number) {
        put_bit(&s->yes, d->kind_number, yes);
        put_bit(&s->failed, d->kind_number, r.failed);
        put_bit(&s->known, d->kind_number, true);
        if (r.failed)
            answer_keep_error(s, d->kind_number, r.error);
    }
    return r.failed ? MATCH_ERROR : yes ? MATCH_YES : MATCH_NO;
}
