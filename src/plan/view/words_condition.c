// SPDX-License-Identifier: Apache-2.0
//
// Conditions of requests made from words: attributes and capacities are looked up in the devices of
// a class and compared in CEL.
#include <strings.h>

#include "base/map.h"
#include "codec/semver.h"
#include "plan/view/words_int.h"

#include "base/banned.h"

bool words_equal_ignoring_case(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || strncasecmp(a.p, b.p, a.n) == 0);
}

bool words_contain(struct str s, struct str word)
{
    for (size_t i = 0; word.n && i + word.n <= s.n; i++)
        if (strncasecmp(s.p + i, word.p, word.n) == 0)
            return true;
    return false;
}

struct str words_local_name(struct str name)
{
    ptrdiff_t slash = str_rfind_char(name, '/');
    return str_from(name, (size_t)(slash + 1));
}

// --- Attributes and capacities -------------------------------------------------------------------

static bool takes_name(struct words_property *p, const struct inventory_device *d, struct str key,
                       struct str asked, bool exact)
{
    struct str domain, name;
    if (!str_cut(key, '/', &domain, &name)) {
        name = key;
        domain = d->id.driver;
    }
    struct str full_domain, full_name;
    bool qualified = str_cut(asked, '/', &full_domain, &full_name);
    bool yes = qualified ? str_eq(domain, full_domain) && str_eq(name, full_name)
               : exact   ? words_equal_ignoring_case(name, asked)
                         : words_contain(name, asked);
    if (!yes || (p->devices && (!str_eq(domain, p->domain) || !str_eq(name, p->name))))
        return false;
    p->domain = domain;
    p->name = name;
    p->devices++;
    return true;
}

static void words_keep_capacity(struct words_making *m, struct words_property *p,
                                const struct inventory_device *d, size_t at)
{
    if (!p->published.n) {
        cleanup_sbuf struct sbuf text = {0};
        quantity_write(&d->device->capacity.p[at].value.value, &text);
        p->published = arena_str(&m->arena, sbuf_str(&text));
    }
    if (!d->shared || p->shared)
        return;
    p->shared = true;
    p->shared_key = d->device->capacity.p[at].key;
}

static void words_match_property(struct words_making *m, struct words_property *p,
                                 const struct inventory_device *d, struct str asked, bool exact)
{
    for (size_t i = 0; i < d->device->capacity.n; i++)
        if (!p->attribute && takes_name(p, d, d->device->capacity.p[i].key, asked, exact))
            words_keep_capacity(m, p, d, i);
    for (size_t i = 0; i < d->device->attributes.n; i++)
        if ((p->attribute || !p->devices) &&
            takes_name(p, d, d->device->attributes.p[i].key, asked, exact) && !p->attribute)
            p->attribute = &d->device->attributes.p[i].value;
}

static bool words_device_has_class(const struct inventory *inv, const struct inventory_device *d,
                                   struct str name)
{
    return alloc_cluster_selects(inv->cluster, name, d->number) == ALLOC_SELECTS_YES;
}

struct seen_names MAP(bool);

// list_name adds a name to a text, once.
static void list_name(struct seen_names *seen, struct str name, struct sbuf *out)
{
    if (map_has(seen, name))
        return;
    (void)map_put(seen, name);
    if (out->n < 300)
        sbuf_addf(out, "%s%.*s", out->n ? ", " : "", STR_ARG(name));
}

static int no_property(const struct words_making *m, struct str class_name, struct str name)
{
    struct seen_names seen = {0};
    cleanup_sbuf struct sbuf names = {0};
    for (size_t i = 0; i < m->inv->devices_len; i++) {
        const struct inventory_device *d = &m->inv->devices[i];
        if (!words_device_has_class(m->inv, d, class_name))
            continue;
        for (size_t k = 0; k < d->device->capacity.n; k++)
            list_name(&seen, words_local_name(d->device->capacity.p[k].key), &names);
        for (size_t k = 0; k < d->device->attributes.n; k++)
            list_name(&seen, words_local_name(d->device->attributes.p[k].key), &names);
    }
    map_done(&seen);
    return err_set(m->err, ERR_NOT_FOUND, "devices of class %.*s have no %.*s; they have %s",
                   STR_ARG(class_name), STR_ARG(name), names.n ? names.p : "nothing to ask for");
}

int words_find_property(struct words_making *m, struct str class_name, struct str name,
                        struct words_property *ret)
{
    for (int exact = 1; exact >= 0; exact--) {
        *ret = (struct words_property){0};
        for (size_t i = 0; i < m->inv->devices_len; i++)
            if (words_device_has_class(m->inv, &m->inv->devices[i], class_name))
                words_match_property(m, ret, &m->inv->devices[i], name, exact != 0);
        if (ret->devices)
            return 0;
    }
    return no_property(m, class_name, name);
}

// --- Conditions as CEL ---------------------------------------------------------------------------

static struct str take_operator(struct str *value, const char *usual)
{
    static const char *const operators[] = {">=", "<=", "!=", "==", ">", "<", "="};
    for (size_t i = 0; i < array_len(operators); i++)
        if (str_starts(*value, str_z(operators[i]))) {
            *value = str_trim(str_from(*value, strlen(operators[i])));
            return str_eqz(str_z(operators[i]), "=") ? STR("==") : str_z(operators[i]);
        }
    return str_z(usual);
}

static void add_cel_text(struct sbuf *out, struct str s)
{
    sbuf_addc(out, '\'');
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\'' || s.p[i] == '\\')
            sbuf_addc(out, '\\');
        sbuf_addc(out, s.p[i]);
    }
    sbuf_addc(out, '\'');
}

static bool is_name(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && !(i && c >= '0' && c <= '9'))
            return false;
    }
    return s.n > 0;
}

static void add_access(struct sbuf *out, const char *of, const struct words_property *p)
{
    sbuf_addf(out, "device.%s[", of);
    add_cel_text(out, p->domain);
    sbuf_addc(out, ']');
    if (is_name(p->name)) {
        sbuf_addf(out, ".%.*s", STR_ARG(p->name));
        return;
    }
    sbuf_addc(out, '[');
    add_cel_text(out, p->name);
    sbuf_addc(out, ']');
}

// A text that no device has as it is, but that is a part of what one has: that one is meant.
static struct str meant_text(struct words_making *m, struct str class_name,
                             const struct words_property *p, struct str value)
{
    struct str found = {0};
    for (size_t i = 0; i < m->inv->devices_len; i++) {
        const struct inventory_device *d = &m->inv->devices[i];
        struct str full = arena_strf(&m->arena, "%.*s/%.*s", STR_ARG(p->domain), STR_ARG(p->name));
        const struct api_device_attribute *a =
            words_device_has_class(m->inv, d, class_name) ? inventory_attribute(d, full) : NULL;
        struct str has = a && a->has_string_value ? a->string_value : (struct str){0};
        if (str_eq(has, value))
            return value;
        if (has.n && words_contain(has, value) && !found.n)
            found = has;
    }
    return found.n ? found : value;
}

// words_compare_version compares versions. A short one such as 12.4 is completed, as nothing but
// three numbers is a version in CEL.
static int words_compare_version(struct words_making *m, const struct words_property *p,
                                 struct str op, struct str value, struct sbuf *out)
{
    cleanup_sbuf struct sbuf whole = {0};
    struct semver v;
    if (semver_parse_tolerant(value, &m->arena, &v, NULL) < 0)
        return err_set(m->err, ERR_INVALID,
                       "%.*s is a version, %.*s is none; write three numbers, such as 1.2.3",
                       STR_ARG(p->name), STR_ARG(value));
    semver_write(&v, &whole);
    if (!str_eq(sbuf_str(&whole), value))
        sbuf_addf(m->notes, "%.*s %.*s: taken as %s\n", STR_ARG(p->name), STR_ARG(value), whole.p);
    add_access(out, "attributes", p);
    sbuf_addz(out, ".compareTo(semver(");
    add_cel_text(out, sbuf_str(&whole));
    sbuf_addf(out, ")) %.*s 0", STR_ARG(op));
    return 0;
}

static int attribute_condition(struct words_making *m, struct str class_name,
                               const struct words_property *p, struct str value, struct sbuf *out)
{
    struct str op = take_operator(&value, "==");
    int64_t number;
    if (p->attribute->has_int_value && str_to_i64(value, &number) < 0)
        return err_set(m->err, ERR_INVALID, "%.*s is a number, %.*s is none", STR_ARG(p->name),
                       STR_ARG(value));
    if (p->attribute->has_bool_value && !str_eqz(value, "true") && !str_eqz(value, "false"))
        return err_set(m->err, ERR_INVALID, "%.*s is true or false, not %.*s", STR_ARG(p->name),
                       STR_ARG(value));
    if (p->attribute->has_string_value) {
        struct str meant = meant_text(m, class_name, p, value);
        if (!str_eq(meant, value))
            sbuf_addf(m->notes, "%.*s %.*s: taken as '%.*s'\n", STR_ARG(p->name), STR_ARG(value),
                      STR_ARG(meant));
        value = meant;
    }
    if (p->attribute->has_version_value)
        return words_compare_version(m, p, op, value, out);
    add_access(out, "attributes", p);
    sbuf_addf(out, " %.*s ", STR_ARG(op));
    if (p->attribute->has_string_value)
        add_cel_text(out, value);
    else
        sbuf_add(out, value);
    return 0;
}

// words_unit is the suffix of a quantity: Gi of 40Gi; empty for plain numbers.
static struct str words_unit(struct str quantity)
{
    size_t n = quantity.n;
    while (n && !(quantity.p[n - 1] >= '0' && quantity.p[n - 1] <= '9') && quantity.p[n - 1] != '.')
        n--;
    return str_from(quantity, n);
}

static bool words_has_unit(struct str quantity)
{
    // An exponent (1e9) says as much as a unit.
    return words_unit(quantity).n || str_find_char(quantity, 'e') >= 0 ||
           str_find_char(quantity, 'E') >= 0;
}

static int capacity_condition(struct words_making *m, const struct words_property *p,
                              struct str value, struct sbuf *out)
{
    struct str op = take_operator(&value, ">=");
    struct quantity q;
    if (quantity_parse(value, &m->arena, &q, m->err) < 0)
        return err_wrap(m->err, "%.*s %.*s", STR_ARG(p->name), STR_ARG(value));
    if (!words_has_unit(value) && quantity_sign(&q) != 0 && words_has_unit(p->published))
        return err_set(m->err, ERR_INVALID,
                       "%.*s %.*s has no unit, and devices have %.*s; write %.*s%.*s, or another "
                       "unit",
                       STR_ARG(p->name), STR_ARG(value), STR_ARG(p->published), STR_ARG(value),
                       STR_ARG(words_unit(p->published)));
    add_access(out, "capacity", p);
    sbuf_addz(out, ".compareTo(quantity(");
    add_cel_text(out, value);
    sbuf_addf(out, ")) %.*s 0", STR_ARG(op));
    return 0;
}

int words_write_condition(struct words_making *m, struct str class_name,
                          const struct words_condition *c, struct words_property *ret_property,
                          struct sbuf *cel)
{
    int r = words_find_property(m, class_name, c->name, ret_property);
    if (r < 0)
        return r;
    return ret_property->attribute ? attribute_condition(m, class_name, ret_property, c->value, cel)
                                   : capacity_condition(m, ret_property, c->value, cel);
}
