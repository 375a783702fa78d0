// SPDX-License-Identifier: Apache-2.0
//
// What a selector speaks of, and what is published: an attribute that a device does not have, a
// value that none has, a slice that does not count.
#include "base/nearest.h"
#include "codec/quantity.h"
#include "sched/explain/advice.h"
#include "sched/explain/device_words.h"

#include "base/banned.h"

struct key_search {
    struct device_reference wanted;
    struct nearest domain; // of any device
    struct nearest name;   // in the wanted domain, of the same sort
    struct str driver;     // of a device that has it
    bool other_sort; // it is a capacity where an attribute is requested, or the other way round
    struct str class_name; // of the request
};

// Finds where a term refers to a key, to any when that is empty.
static bool find_reference(struct str term, struct str key, struct device_reference *ret)
{
    for (size_t from = 0; device_reference_find(term, from, ret); from = ret->end)
        if (!key.n || str_eq(ret->key, key))
            return true;
    return false;
}

static void show_key(struct key_search *f, struct str driver, struct str qualified, bool capacity)
{
    struct str domain;
    struct str name;
    if (!str_cut(qualified, '/', &domain, &name)) {
        domain = driver;
        name = qualified;
    }
    nearest_try(&f->domain, domain);
    if (!str_eq(domain, f->wanted.domain))
        return;
    if (capacity == f->wanted.capacity)
        nearest_try(&f->name, name);
    if (!str_eq(name, f->wanted.key))
        return;
    if (capacity == f->wanted.capacity)
        f->driver = driver;
    else
        f->other_sort = true;
}

static void show_slice(void *arg, const struct typed_object *o)
{
    struct key_search *f = arg;
    const struct api_resource_slice *s = o->object.value;
    for (size_t i = 0; i < s->spec.devices.n; i++) {
        const struct api_device *d = &s->spec.devices.p[i];
        for (size_t k = 0; k < d->attributes.n; k++)
            show_key(f, s->spec.driver, d->attributes.p[k].key, false);
        for (size_t k = 0; k < d->capacity.n; k++)
            show_key(f, s->spec.driver, d->capacity.p[k].key, true);
    }
}

// Finds the first class that speaks of a driver.
struct class_search {
    struct str driver, name;
};

static void show_class(void *arg, const struct typed_object *o)
{
    struct class_search *f = arg;
    const struct api_device_class *c = o->object.value;
    struct sbuf quoted[2] = {{0}, {0}};
    sbuf_addf(&quoted[0], "\"%.*s\"", STR_ARG(f->driver));
    sbuf_addf(&quoted[1], "'%.*s'", STR_ARG(f->driver));
    for (size_t i = 0; i < c->spec.selectors.n && !f->name.n; i++) {
        struct str e =
            c->spec.selectors.p[i].cel ? c->spec.selectors.p[i].cel->expression : STR("");
        if (str_contains(e, sbuf_str(&quoted[0])) || str_contains(e, sbuf_str(&quoted[1])))
            f->name = c->metadata.name;
    }
    sbuf_done(&quoted[0]);
    sbuf_done(&quoted[1]);
}

// Devices of another driver have it: the class is the mistake.
static void advice_key_write_class(struct advice *t, const struct sched *s,
                                   const struct key_search *f)
{
    struct class_search c = {.driver = f->driver};
    const struct device_reference *r = &f->wanted;
    if (s->watch.informers[WATCH_CLASSES])
        informer_foreach(s->watch.informers[WATCH_CLASSES], show_class, &c);
    if (f->class_name.n && !str_eq(c.name, f->class_name)) {
        advice_note(t, "devices of class %.*s do not have it, those of driver %.*s do",
                    STR_ARG(f->class_name), STR_ARG(f->driver));
        advice_add(t, "take a class of driver %.*s%s%.*s", STR_ARG(f->driver), c.name.n ? ": " : "",
                   STR_ARG(c.name));
    }
    advice_add(t,
               "devices of driver %.*s have %s %.*s/%.*s, but not all of the class: ask first "
               "whether a device has it: %s.?%.*s",
               STR_ARG(f->driver), r->capacity ? "capacity" : "attribute", STR_ARG(r->domain),
               STR_ARG(r->key), r->capacity ? "device.capacity[…]" : "device.attributes[…]",
               STR_ARG(r->key));
}

static void advice_key_write_matches(struct advice *t, const struct sched *s,
                                     const struct key_search *f)
{
    const struct device_reference *r = &f->wanted;
    const char *sort = r->capacity ? "capacity" : "attribute";
    if (f->other_sort && !f->driver.n)
        advice_add(t, "%.*s is %s: write device.%s[\"%.*s\"].%.*s", STR_ARG(r->key),
                   r->capacity ? "an attribute" : "a capacity",
                   r->capacity ? "attributes" : "capacity", STR_ARG(r->domain), STR_ARG(r->key));
    else if (f->driver.n)
        advice_key_write_class(t, s, f);
    else if (f->name.best.n)
        advice_add(t, "no device has %s %.*s/%.*s: did you mean %.*s?", sort, STR_ARG(r->domain),
                   STR_ARG(r->key), STR_ARG(f->name.best));
    else if (f->domain.best.n && f->domain.distance > 0)
        advice_add(t, "no device has attributes of %.*s: did you mean %.*s?", STR_ARG(r->domain),
                   STR_ARG(f->domain.best));
    else
        advice_add(t, "no device has %s %.*s/%.*s: see kubectl get resourceslices -o yaml", sort,
                   STR_ARG(r->domain), STR_ARG(r->key));
}

void advice_missing_key(struct advice *t, const struct sched *s, struct str class_name,
                        const struct alloc_reason *why)
{
    static const struct str no_key = STR_INIT("no such key: ");
    struct key_search f = {.class_name = class_name};
    struct str error = why->error;
    struct str key, hint;
    ptrdiff_t at = str_find(error, no_key);
    if (at < 0 || !s->watch.informers[WATCH_SLICES])
        return;
    key = str_from(error, (size_t)at + no_key.n);
    (void)str_cut(key, '.', &key, &hint);
    if (!find_reference(why->what, key, &f.wanted))
        return;
    f.domain.word = f.wanted.domain;
    f.name.word = f.wanted.key;
    informer_foreach(s->watch.informers[WATCH_SLICES], show_slice, &f);
    advice_key_write_matches(t, s, &f);
}

// --- Values --------------------------------------------------------------------------------------

#define VALUES_SHOWN 4

// What published devices have under a key.
struct value_search {
    struct device_reference wanted;
    struct str term;
    struct arena arena;
    struct str values[VALUES_SHOWN]; // of an attribute, in arena
    size_t values_len;
    bool more;
    bool there;                          // a device has the requested value
    const struct quantity *least, *most; // of a capacity
};

// advice_key_compares_text reports whether a term wants a text to be equal to one that devices
// have: then devices are not what is wrong.
static bool advice_key_compares_text(struct value_search *f, struct str text)
{
    return !str_contains(f->term, STR("!")) &&
           (str_contains(f->term, arena_strf(&f->arena, "'%.*s'", STR_ARG(text))) ||
            str_contains(f->term, arena_strf(&f->arena, "\"%.*s\"", STR_ARG(text))));
}

static void advice_key_show_value(struct value_search *f, const struct api_device_attribute *a)
{
    struct str text = a->has_string_value    ? a->string_value
                      : a->has_version_value ? a->version_value
                      : a->has_int_value  ? arena_strf(&f->arena, "%lld", (long long)a->int_value)
                      : a->has_bool_value ? (a->bool_value ? STR("true") : STR("false"))
                                          : STR("");
    for (size_t i = 0; i < f->values_len; i++)
        if (str_eq(f->values[i], text))
            return;
    f->there = f->there || (text.n && advice_key_compares_text(f, text));
    if (text.n && f->values_len < VALUES_SHOWN)
        f->values[f->values_len++] = text;
    else
        f->more = true;
}

static bool advice_key_is_wanted(const struct device_reference *r, struct str driver,
                                 struct str qualified)
{
    struct str domain, name;
    if (!str_cut(qualified, '/', &domain, &name)) {
        domain = driver;
        name = qualified;
    }
    return str_eq(domain, r->domain) && str_eq(name, r->key);
}

static void advice_key_show_values(void *arg, const struct typed_object *o)
{
    struct value_search *f = arg;
    const struct api_resource_slice *s = o->object.value;
    for (size_t i = 0; i < s->spec.devices.n; i++) {
        const struct api_device *d = &s->spec.devices.p[i];
        for (size_t k = 0; !f->wanted.capacity && k < d->attributes.n; k++)
            if (advice_key_is_wanted(&f->wanted, s->spec.driver, d->attributes.p[k].key))
                advice_key_show_value(f, &d->attributes.p[k].value);
        for (size_t k = 0; f->wanted.capacity && k < d->capacity.n; k++) {
            const struct quantity *q = &d->capacity.p[k].value.value;
            if (!advice_key_is_wanted(&f->wanted, s->spec.driver, d->capacity.p[k].key))
                continue;
            f->least = !f->least || quantity_cmp(q, f->least) < 0 ? q : f->least;
            f->most = !f->most || quantity_cmp(q, f->most) > 0 ? q : f->most;
        }
    }
}

static void advice_key_write_capacity(struct advice *t, const struct value_search *f)
{
    cleanup_sbuf struct sbuf least = {0}, most = {0};
    quantity_write(f->least, &least);
    quantity_write(f->most, &most);
    advice_note(t, "no published device has more than %s", most.p);
    advice_add(t, "ask for at most %s of %.*s/%.*s: published devices have %s%s%s", most.p,
               STR_ARG(f->wanted.domain), STR_ARG(f->wanted.key), least.p,
               quantity_cmp(f->least, f->most) ? " to " : "",
               quantity_cmp(f->least, f->most) ? most.p : "");
}

static void advice_key_write_values(struct advice *t, const struct value_search *f)
{
    cleanup_sbuf struct sbuf list = {0};
    for (size_t i = 0; i < f->values_len; i++)
        sbuf_addf(&list, "%s%.*s", i ? ", " : "", STR_ARG(f->values[i]));
    advice_add(t, "published devices have %.*s/%.*s %s%s", STR_ARG(f->wanted.domain),
               STR_ARG(f->wanted.key), list.p, f->more ? ", …" : "");
}

// A term may compare either way; who asks for more than there is does so with one of these.
static bool advice_key_wants_amount(struct str term)
{
    return str_contains(term, STR(">")) || str_contains(term, STR("isGreaterThan"));
}

void advice_refusing_term(struct advice *t, const struct sched *s, const struct alloc_reason *why)
{
    struct value_search f = {.term = why->what};
    if (!s->watch.informers[WATCH_SLICES] || !find_reference(why->what, STR(""), &f.wanted))
        return;
    informer_foreach(s->watch.informers[WATCH_SLICES], advice_key_show_values, &f);
    if (f.most && advice_key_wants_amount(why->what))
        advice_key_write_capacity(t, &f);
    else if (f.values_len && !f.there)
        advice_key_write_values(t, &f);
    arena_done(&f.arena);
}

// --- Old generations -----------------------------------------------------------------------------

// The newest generation of each pool, by DRIVER/POOL.
struct pool_generations MAP(int64_t);

struct stale_search {
    struct advice *t;
    struct pool_generations newest;
    const struct api_device_class *of; // slices of drivers that it does not speak of do not matter
};

static void stale_add_key(struct sbuf *out, const struct api_resource_slice *s)
{
    sbuf_addf(out, "%.*s/%.*s", STR_ARG(s->spec.driver), STR_ARG(s->spec.pool.name));
}

static void stale_note_newest(void *arg, const struct typed_object *o)
{
    struct stale_search *f = arg;
    const struct api_resource_slice *slice = o->object.value;
    cleanup_sbuf struct sbuf key = {0};
    stale_add_key(&key, slice);
    int64_t *newest = map_get(&f->newest, sbuf_str(&key));
    if (!newest)
        *map_put(&f->newest, arena_str(&f->t->arena, sbuf_str(&key))) = slice->spec.pool.generation;
    else if (slice->spec.pool.generation > *newest)
        *newest = slice->spec.pool.generation;
}

static void show_stale(void *arg, const struct typed_object *o)
{
    struct stale_search *f = arg;
    const struct api_resource_slice *slice = o->object.value;
    cleanup_sbuf struct sbuf key = {0};
    stale_add_key(&key, slice);
    const int64_t *newest = map_get(&f->newest, sbuf_str(&key));
    if (f->t->note.n || !newest || *newest == slice->spec.pool.generation ||
        (f->of && !device_words_mention(f->of, slice->spec.driver)))
        return;
    advice_note(f->t, "slice %.*s does not count: it is of generation %lld, its pool is at %lld",
                STR_ARG(o->meta->name), (long long)slice->spec.pool.generation, (long long)*newest);
    advice_first(
        f->t,
        "delete what is left of the old generation, if driver %.*s does not: kubectl delete "
        "resourceslice %.*s",
        STR_ARG(slice->spec.driver), STR_ARG(o->meta->name));
    advice_first(f->t, "and let the driver publish all devices of pool %.*s again: see its log",
                 STR_ARG(slice->spec.pool.name));
}

static const struct api_device_class *stale_find_class(const struct sched *s, struct str name)
{
    const struct informer *all = s->watch.informers[WATCH_CLASSES];
    const struct typed_object *o = all ? informer_get(all, STR(""), name) : NULL;
    return o ? o->object.value : NULL;
}

void advice_stale_slices(struct advice *t, const struct sched *s, struct str class_name)
{
    struct stale_search f = {.t = t, .of = stale_find_class(s, class_name)};
    if (!s->watch.informers[WATCH_SLICES] || t->note.n)
        return;
    informer_foreach(s->watch.informers[WATCH_SLICES], stale_note_newest, &f);
    informer_foreach(s->watch.informers[WATCH_SLICES], show_stale, &f);
    map_done(&f.newest);
}

// --- Pools ---------------------------------------------------------------------------------------

void advice_pools(struct advice *t, const struct sched *s, struct str class_name, struct str pools)
{
    const struct api_device_class *c = stale_find_class(s, class_name);
    if (c && !device_words_mentioned_in(c, pools))
        return;
    advice_first(t, "let the driver publish all slices of its pool: look at its pod and log (%.*s)",
                 STR_ARG(pools));
}
