// SPDX-License-Identifier: Apache-2.0
//
// A selector names an attribute that a device does not have: which one may have been meant?
#include "base/nearest.h"
#include "sched/advice.h"

#include "base/banned.h"

// device.attributes["DOMAIN"].KEY or device.capacity["DOMAIN"].KEY
struct reference {
    struct str domain, key;
    bool capacity;
};

struct key_search {
    struct reference wanted;
    struct nearest domain; // of any device
    struct nearest name;   // in the wanted domain, of the same sort
    struct str driver;     // of a device that has it
    bool other_sort; // it is a capacity where an attribute is asked for, or the other way round
};

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Takes what stands between quotes and brackets; the rest is what follows them.
static bool cut_quoted(struct str s, struct str *ret, struct str *rest)
{
    if (s.n < 4 || s.p[0] != '[' || (s.p[1] != '"' && s.p[1] != '\''))
        return false;
    ptrdiff_t end = str_find_char(str_from(s, 2), s.p[1]);
    if (end < 0 || (size_t)end + 3 >= s.n || s.p[end + 3] != ']')
        return false;
    *ret = str_upto(str_from(s, 2), (size_t)end);
    *rest = str_from(s, (size_t)end + 4);
    return true;
}

static bool cut_key(struct str s, struct str *ret)
{
    struct str rest;
    size_t n = 1;
    if (cut_quoted(s, ret, &rest))
        return true;
    if (s.n < 2 || s.p[0] != '.')
        return false;
    while (n < s.n && is_word(s.p[n]))
        n++;
    *ret = str_upto(str_from(s, 1), n - 1);
    return n > 1;
}

// Finds where a term refers to a key.
static bool find_reference(struct str term, struct str key, struct reference *ret)
{
    static const struct str sorts[] = {STR_INIT(".attributes"), STR_INIT(".capacity")};
    for (size_t i = 0; i < term.n; i++)
        for (size_t k = 0; k < array_len(sorts); k++) {
            struct reference r = {.capacity = k == 1};
            struct str rest;
            if (str_starts(str_from(term, i), sorts[k]) &&
                cut_quoted(str_from(term, i + sorts[k].n), &r.domain, &rest) &&
                cut_key(rest, &r.key) && str_eq(r.key, key)) {
                *ret = r;
                return true;
            }
        }
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

static void show_slice(void *arg, const struct client_object *o)
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

static void tell(struct advice *t, const struct key_search *f)
{
    const struct reference *r = &f->wanted;
    const char *sort = r->capacity ? "capacity" : "attribute";
    if (f->other_sort && !f->driver.n)
        advice_add(t, "%.*s is %s: write device.%s[\"%.*s\"].%.*s", STR_ARG(r->key),
                   r->capacity ? "an attribute" : "a capacity",
                   r->capacity ? "attributes" : "capacity", STR_ARG(r->domain), STR_ARG(r->key));
    else if (f->driver.n)
        advice_add(t,
                   "devices of driver %.*s have %s %.*s/%.*s, but not all of the class: take their "
                   "class, or "
                   "ask first whether a device has it: %s.?%.*s",
                   STR_ARG(f->driver), sort, STR_ARG(r->domain), STR_ARG(r->key),
                   r->capacity ? "device.capacity[…]" : "device.attributes[…]", STR_ARG(r->key));
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

void advice_key(struct advice *t, const struct sched *s, const struct alloc_reason *why)
{
    static const struct str no_key = STR_INIT("no such key: ");
    struct key_search f = {0};
    struct str error = why->error;
    struct str key, hint;
    ptrdiff_t at = str_find(error, no_key);
    if (at < 0 || !s->informers[WATCH_SLICES])
        return;
    key = str_from(error, (size_t)at + no_key.n);
    (void)str_cut(key, '.', &key, &hint);
    if (!find_reference(why->what, key, &f.wanted))
        return;
    f.domain.word = f.wanted.domain;
    f.name.word = f.wanted.key;
    informer_foreach(s->informers[WATCH_SLICES], show_slice, &f);
    tell(t, &f);
}
