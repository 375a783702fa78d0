// SPDX-License-Identifier: Apache-2.0
//
// Words of claims that may have been meant otherwise: an attribute, a value or a class that is not
// published, with those that are. They are suggestions; the allocator tries them.
#include "base/nearest.h"
#include "codec/quantity.h"
#include "sched/explain/cure_int.h"
#include "sched/explain/device_words.h"

#include "base/banned.h"

#define WORDS_MAX      32
#define VALUES_MAX     16
#define VALUES_TRIED   4
#define CLASSES_TRIED  8
#define LITERAL_WITHIN 48 // bytes behind a reference

// --- What is published ---------------------------------------------------------------------------

struct published {
    struct device_reference wanted;
    bool there;                    // as it is written
    bool other_sort;               // a capacity where an attribute is meant, or the other way round
    struct nearest name;           // in the domain
    struct str domain;             // another one that has the key
    struct str driver;             // of a device that has it
    struct str values[VALUES_MAX]; // texts of an attribute
    size_t values_len;
    const struct quantity *most; // of a capacity
    int64_t most_int;            // of an attribute with whole numbers
    bool ints;
};

static void published_add_value(struct published *f, const struct api_device_attribute *a)
{
    if (a->has_int_value) {
        f->most_int = !f->ints || a->int_value > f->most_int ? a->int_value : f->most_int;
        f->ints = true;
    }
    struct str text = a->has_string_value ? a->string_value : (struct str){0};
    if (text.n && !str_listed(f->values, f->values_len, text) && f->values_len < VALUES_MAX)
        f->values[f->values_len++] = text;
}

// True: it is what the reference means.
static bool published_add_key(struct published *f, struct str driver, struct str qualified,
                              bool capacity)
{
    struct str domain, name;
    const struct device_reference *r = &f->wanted;
    if (!str_cut(qualified, '/', &domain, &name)) {
        domain = driver;
        name = qualified;
    }
    if (!str_eq(domain, r->domain)) {
        if (str_eq(name, r->key) && capacity == r->capacity && !f->domain.n)
            f->domain = domain;
        return false;
    }
    if (capacity == r->capacity)
        nearest_try(&f->name, name);
    if (!str_eq(name, r->key))
        return false;
    f->there |= capacity == r->capacity;
    f->other_sort |= capacity != r->capacity;
    if (capacity == r->capacity)
        f->driver = driver;
    return capacity == r->capacity;
}

static void published_add_slice(void *arg, const struct typed_object *o)
{
    struct published *f = arg;
    const struct api_resource_slice *s = o->object.value;
    for (size_t i = 0; i < s->spec.devices.n; i++) {
        const struct api_device *d = &s->spec.devices.p[i];
        for (size_t k = 0; k < d->attributes.n; k++)
            if (published_add_key(f, s->spec.driver, d->attributes.p[k].key, false))
                published_add_value(f, &d->attributes.p[k].value);
        for (size_t k = 0; k < d->capacity.n; k++) {
            const struct quantity *q = &d->capacity.p[k].value.value;
            if (published_add_key(f, s->spec.driver, d->capacity.p[k].key, true) &&
                (!f->most || quantity_cmp(q, f->most) > 0))
                f->most = q;
        }
    }
}

// --- Rewrites ------------------------------------------------------------------------------------

struct word_search {
    struct sched *s;
    struct arena *arena;
    struct cure_rewrites *out;
    struct alloc_rewrite at; // where it looks
    struct str expression;
    struct str class_name;
};

static void words_add(struct word_search *w, struct str expression, struct str from, struct str to,
                      size_t weight)
{
    struct alloc_rewrite r = w->at;
    if (w->out->n == WORDS_MAX)
        return;
    r.expression = expression;
    r.from = arena_str(w->arena, from);
    r.to = arena_str(w->arena, to);
    r.weight = weight;
    vec_push_arena(w->arena, w->out, r);
}

// The expression with another text from at on, n bytes long.
static struct str words_replace(struct word_search *w, size_t at, size_t n, struct str by)
{
    return arena_strf(w->arena, "%.*s%.*s%.*s", STR_ARG(str_upto(w->expression, at)), STR_ARG(by),
                      STR_ARG(str_from(w->expression, at + n)));
}

static void words_of_key(struct word_search *w, const struct published *f)
{
    const struct device_reference *r = &f->wanted;
    if (f->other_sort) {
        struct str to = r->capacity ? STR("attributes") : STR("capacity");
        struct str from = r->capacity ? STR("capacity") : STR("attributes");
        words_add(w, words_replace(w, r->sort_at, from.n, to),
                  arena_strf(w->arena, "device.%.*s", STR_ARG(from)),
                  arena_strf(w->arena, "device.%.*s for %.*s", STR_ARG(to), STR_ARG(r->key)),
                  CURE_WEIGHT_TYPO);
    }
    if (f->name.best.n && !str_eq(f->name.best, r->key))
        words_add(w, words_replace(w, r->key_at, r->key.n, f->name.best), r->key, f->name.best,
                  CURE_WEIGHT_TYPO);
    if (f->domain.n)
        words_add(w, words_replace(w, r->domain_at, r->domain.n, f->domain), r->domain, f->domain,
                  CURE_WEIGHT_TYPO);
}

// The first text in quotes behind a reference; *at is where it begins.
static bool words_find_literal(const struct word_search *w, size_t from, struct str *ret,
                               size_t *at)
{
    struct str rest = str_upto(str_from(w->expression, from), LITERAL_WITHIN);
    for (size_t i = 0; i < rest.n; i++) {
        if (rest.p[i] == '&' || rest.p[i] == '|')
            return false;
        if (rest.p[i] != '"' && rest.p[i] != '\'')
            continue;
        ptrdiff_t end = str_find_char(str_from(w->expression, from + i + 1), rest.p[i]);
        if (end < 0)
            return false;
        *at = from + i + 1;
        *ret = str_upto(str_from(w->expression, *at), (size_t)end);
        return true;
    }
    return false;
}

static void words_of_text(struct word_search *w, const struct published *f, struct str literal,
                          size_t at)
{
    struct nearest near = {.word = literal};
    size_t tried = 0;
    for (size_t i = 0; i < f->values_len; i++)
        nearest_try(&near, f->values[i]);
    for (size_t i = 0; i < f->values_len; i++) {
        bool best = str_eq(f->values[i], near.best);
        if (str_eq(f->values[i], literal) || (!best && tried++ >= VALUES_TRIED))
            continue;
        words_add(w, words_replace(w, at, literal.n, f->values[i]),
                  arena_strf(w->arena, "\"%.*s\"", STR_ARG(literal)),
                  arena_strf(w->arena, "%.*s \"%.*s\"", STR_ARG(f->wanted.key),
                             STR_ARG(f->values[i])),
                  best ? CURE_WEIGHT_TYPO : CURE_WEIGHT_SELECTOR - 10);
    }
}

static void words_of_amount(struct word_search *w, const struct published *f, struct str literal,
                            size_t at)
{
    struct quantity wanted;
    cleanup_sbuf struct sbuf most = {0};
    if (!f->most || quantity_parse(literal, w->arena, &wanted, NULL) < 0 ||
        quantity_cmp(&wanted, f->most) <= 0)
        return;
    quantity_write(f->most, &most);
    words_add(w, words_replace(w, at, literal.n, sbuf_str(&most)), literal,
              arena_strf(w->arena, "%.*s %s", STR_ARG(f->wanted.key), most.p), CURE_WEIGHT_MISTAKE);
}

// A whole number that is compared with.
static void words_of_int(struct word_search *w, const struct published *f)
{
    struct str rest = str_from(w->expression, f->wanted.end);
    size_t at = 0;
    int64_t wanted = 0;
    while (at < rest.n && (rest.p[at] == ' ' || rest.p[at] == '=' || rest.p[at] == '>'))
        at++;
    size_t n = at;
    while (n < rest.n && rest.p[n] >= '0' && rest.p[n] <= '9')
        n++;
    struct str literal = str_upto(str_from(rest, at), n - at);
    if (at == 0 || !literal.n || str_to_i64(literal, &wanted) < 0 || wanted == f->most_int)
        return;
    struct str most = arena_strf(w->arena, "%lld", (long long)f->most_int);
    words_add(w, words_replace(w, f->wanted.end + at, literal.n, most), literal,
              arena_strf(w->arena, "%.*s %.*s", STR_ARG(f->wanted.key), STR_ARG(most)),
              CURE_WEIGHT_SELECTOR - 5);
}

// --- Classes -------------------------------------------------------------------------------------

struct class_words {
    struct word_search *w;
    struct nearest near;
    struct str driver; // classes that speak of it; empty: any
    size_t n;
    struct str names[CLASSES_TRIED];
    bool own; // the request's own class is among them
};

static void class_words_add(void *arg, const struct typed_object *o)
{
    struct class_words *f = arg;
    nearest_try(&f->near, o->meta->name);
    if (f->driver.n && !device_words_mention(o->object.value, f->driver))
        return;
    f->own |= str_eq(o->meta->name, f->w->class_name);
    if (f->n < CLASSES_TRIED)
        f->names[f->n++] = o->meta->name;
}

// The class does not exist, or (driver) devices of another have what a selector speaks of.
static void words_of_class(struct word_search *w, struct str driver)
{
    struct class_words f = {.w = w, .near = {.word = w->class_name}, .driver = driver};
    if (!w->s->watch.informers[WATCH_CLASSES])
        return;
    informer_foreach(w->s->watch.informers[WATCH_CLASSES], class_words_add, &f);
    uint32_t selector = w->at.selector;
    w->at.selector = UINT32_MAX;
    for (size_t i = 0; i < f.n && !f.own; i++)
        if (driver.n || !f.near.best.n || str_eq(f.names[i], f.near.best))
            words_add(w, f.names[i], w->class_name,
                      arena_strf(w->arena, "class %.*s", STR_ARG(f.names[i])),
                      driver.n || str_eq(f.names[i], f.near.best) ? CURE_WEIGHT_TYPO + 10
                                                                  : CURE_WEIGHT_MISTAKE + 20);
    w->at.selector = selector;
}

// --- Selectors -----------------------------------------------------------------------------------

static void words_of_selector(struct word_search *w)
{
    struct published f = {0};
    for (size_t from = 0; device_reference_find(w->expression, from, &f.wanted);
         from = f.wanted.end) {
        const struct device_reference r = f.wanted;
        struct str literal;
        size_t at = 0;
        f = (struct published){.wanted = r, .name = {.word = r.key}};
        informer_foreach(w->s->watch.informers[WATCH_SLICES], published_add_slice, &f);
        if (!f.there) {
            words_of_key(w, &f);
            continue;
        }
        words_of_class(w, f.driver);
        if (f.ints)
            words_of_int(w, &f);
        else if (!words_find_literal(w, r.end, &literal, &at))
            continue;
        else if (r.capacity)
            words_of_amount(w, &f, literal, at);
        else
            words_of_text(w, &f, literal, at);
    }
}

// Amounts of capacities that no device has.
struct capacity_names {
    struct nearest near;
    bool there;
};

static void capacity_names_add(void *arg, const struct typed_object *o)
{
    struct capacity_names *f = arg;
    const struct api_resource_slice *s = o->object.value;
    for (size_t i = 0; i < s->spec.devices.n; i++)
        for (size_t k = 0; k < s->spec.devices.p[i].capacity.n; k++) {
            f->there |= str_eq(s->spec.devices.p[i].capacity.p[k].key, f->near.word);
            nearest_try(&f->near, s->spec.devices.p[i].capacity.p[k].key);
        }
}

static void words_of_capacity(struct word_search *w, const struct api_capacity_requirements *c)
{
    for (uint32_t i = 0; c && i < c->requests.n; i++) {
        struct capacity_names f = {.near = {.word = c->requests.p[i].key}};
        informer_foreach(w->s->watch.informers[WATCH_SLICES], capacity_names_add, &f);
        if (f.there || !f.near.best.n)
            continue;
        w->at.selector = ALLOC_REWRITE_CAPACITY - i;
        words_add(w, f.near.best, c->requests.p[i].key,
                  arena_strf(w->arena, "capacity %.*s", STR_ARG(f.near.best)), CURE_WEIGHT_TYPO);
    }
}

static void words_of_request(struct word_search *w, const struct api_device_selector_array *all,
                             struct str class_name)
{
    w->class_name = class_name;
    w->at.selector = UINT32_MAX;
    if (!index_find_class(w->s->devices, class_name))
        words_of_class(w, STR(""));
    for (uint32_t i = 0; i < all->n; i++) {
        w->at.selector = i;
        w->expression = all->p[i].cel ? all->p[i].cel->expression : STR("");
        words_of_selector(w);
    }
}

void cure_find_words(struct sched *s, const struct api_resource_claim *const *claims, size_t n,
                     struct arena *arena, struct cure_rewrites *ret)
{
    struct word_search w = {.s = s, .arena = arena, .out = ret};
    if (!s->watch.informers[WATCH_SLICES])
        return;
    for (uint32_t i = 0; i < n; i++) {
        const struct api_device_request_array *rs = &claims[i]->spec.devices.requests;
        for (uint32_t k = 0; k < rs->n; k++) {
            const struct api_device_request *r = &rs->p[k];
            w.at = (struct alloc_rewrite){.claim = i, .request = k, .sub = UINT32_MAX};
            if (r->exactly)
                words_of_capacity(&w, r->exactly->capacity);
            if (r->exactly)
                words_of_request(&w, &r->exactly->selectors, r->exactly->device_class_name);
            for (uint32_t m = 0; m < r->first_available.n; m++) {
                w.at.sub = m;
                words_of_capacity(&w, r->first_available.p[m].capacity);
                words_of_request(&w, &r->first_available.p[m].selectors,
                                 r->first_available.p[m].device_class_name);
            }
        }
    }
}
