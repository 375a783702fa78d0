// SPDX-License-Identifier: Apache-2.0
//
// Claims, templates and pods from words: classes, capacities and attributes are looked up in the
// inventory, and YAML is written.
#include "plan/words.h"

#include <strings.h>

#include "plan/sim/plan_int.h"

#include "base/banned.h"

#define SHOWN 6 // names in a message

void words_done(struct words *w)
{
    for (size_t i = 0; i < w->requests.n; i++)
        vec_done(&w->requests.p[i].conditions);
    vec_done(&w->requests);
    vec_done(&w->same);
    vec_done(&w->distinct);
}

static bool words_equal_ignoring_case(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || strncasecmp(a.p, b.p, a.n) == 0);
}

static bool holds_word(struct str s, struct str word)
{
    for (size_t i = 0; word.n && i + word.n <= s.n; i++)
        if (strncasecmp(s.p + i, word.p, word.n) == 0)
            return true;
    return false;
}

static struct str local_name(struct str name)
{
    ptrdiff_t slash = str_rfind_char(name, '/');
    return str_from(name, (size_t)(slash + 1));
}

// --- Classes -------------------------------------------------------------------------------------

// What is being made.
struct making {
    const struct inventory *inv;
    const struct words *w;
    struct arena arena;
    struct sbuf *notes;
    struct chosen_class {
        struct str name; // of the class
        struct str request;
        size_t devices;
    } * chosen; // by request
    struct err *err;
};

static size_t words_count_devices(const struct inventory *inv, struct str class_name,
                                  size_t *ret_free)
{
    size_t n = 0;
    *ret_free = 0;
    for (size_t i = 0; i < inv->devices_len; i++) {
        const struct inventory_device *d = &inv->devices[i];
        if (alloc_cluster_selects(inv->cluster, class_name, d->number) != ALLOC_SELECTS_YES)
            continue;
        n++;
        *ret_free += d->state == INVENTORY_FREE || d->state == INVENTORY_PART;
    }
    return n;
}

static bool driver_has_word(const struct inventory *inv, struct str class_name, struct str word)
{
    for (size_t i = 0; i < inv->devices_len; i++)
        if (holds_word(inv->devices[i].id.driver, word) &&
            alloc_cluster_selects(inv->cluster, class_name, inv->devices[i].number) ==
                ALLOC_SELECTS_YES)
            return true;
    return false;
}

// How well a class answers to a word; 0: not at all.
static int words_class_likeness(const struct inventory *inv, const struct api_device_class *c,
                                struct str word)
{
    struct str name = c->metadata.name;
    struct str head, tail;
    if (str_eq(name, word))
        return 6;
    if (c->spec.has_extended_resource_name &&
        (str_eq(c->spec.extended_resource_name, word) ||
         words_equal_ignoring_case(local_name(c->spec.extended_resource_name), word)))
        return 5;
    (void)str_cut(name, '.', &head, &tail);
    if (words_equal_ignoring_case(head, word))
        return 4;
    if (holds_word(head, word))
        return 3;
    if (holds_word(name, word))
        return 2;
    return driver_has_word(inv, name, word) ? 1 : 0;
}

static int no_class(const struct making *m, struct str word)
{
    cleanup_sbuf struct sbuf names = {0};
    size_t n = 0;
    world_foreach(m->inv->world, PLAN_CLASS, o) if (n++ < SHOWN)
        sbuf_addf(&names, "%s%.*s", n > 1 ? ", " : "", STR_ARG(o->name));
    if (n == 0)
        return err_set(m->err, ERR_NOT_FOUND,
                       "the cluster has no DeviceClass: a driver's installation brings them");
    return err_set(m->err, ERR_NOT_FOUND, "nothing is called %.*s; the classes are %s%s",
                   STR_ARG(word), names.p, n > SHOWN ? ", …" : "");
}

// Finds the class that a word means: the most alike, then the one with the most devices.
static int choose_class(struct making *m, size_t at)
{
    struct str word = m->w->requests.p[at].word;
    struct chosen_class *ret = &m->chosen[at];
    cleanup_sbuf struct sbuf others = {0};
    int best = 0;
    size_t free = 0;
    world_foreach(m->inv->world, PLAN_CLASS, o)
    {
        int like = words_class_likeness(m->inv, o->value, word);
        size_t here = 0;
        size_t n = like ? words_count_devices(m->inv, o->name, &here) : 0;
        if (like < best || like == 0 || (like == best && n <= ret->devices)) {
            if (like && like == best)
                sbuf_addf(&others, "%s%.*s", others.n ? ", " : "", STR_ARG(o->name));
            continue;
        }
        if (like > best)
            sbuf_clear(&others);
        else
            sbuf_addf(&others, "%s%.*s", others.n ? ", " : "", STR_ARG(ret->name));
        best = like;
        free = here;
        ret->name = o->name;
        ret->devices = n;
    }
    if (!best)
        return no_class(m, word);
    sbuf_addf(m->notes, "%.*s: class %.*s (%zu devices, %zu free)", STR_ARG(word),
              STR_ARG(ret->name), ret->devices, free);
    if (others.n)
        sbuf_addf(m->notes, "; also called so: %s", others.p);
    sbuf_addc(m->notes, '\n');
    return 0;
}

// A request's name is its word, as a DNS label; the same word twice gets a number.
static void name_request(struct making *m, size_t at)
{
    cleanup_sbuf struct sbuf b = {0};
    struct str word = local_name(m->w->requests.p[at].word);
    size_t before = 0;
    for (size_t i = 0; i < word.n && b.n < 50; i++) {
        char c = word.p[i];
        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (plain || (c == '-' && b.n))
            sbuf_addc(&b, c);
        else if (b.n)
            break; // gpu of gpu.example.com
    }
    while (b.n && b.p[b.n - 1] == '-')
        sbuf_truncate(&b, b.n - 1);
    if (!b.n)
        sbuf_addz(&b, "device");
    for (size_t i = 0; i < at; i++)
        before += str_starts(m->chosen[i].request, sbuf_str(&b));
    if (before)
        sbuf_addf(&b, "-%zu", before + 1);
    m->chosen[at].request = arena_str(&m->arena, sbuf_str(&b));
}

// --- Attributes and capacities -------------------------------------------------------------------

// A property that devices of a class have.
struct property {
    struct str domain, name;                      // as CEL needs them
    const struct api_device_attribute *attribute; // of the first device with it; NULL: a capacity
    bool shared;                                  // some device of the class can be shared
    struct str
        // its name as that device publishes it: requests for shares are compared literally
        shared_key;
    size_t devices;
};

static bool takes_name(struct property *p, const struct inventory_device *d, struct str key,
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
                         : holds_word(name, asked);
    if (!yes || (p->devices && (!str_eq(domain, p->domain) || !str_eq(name, p->name))))
        return false;
    p->domain = domain;
    p->name = name;
    p->devices++;
    return true;
}

static void words_match_property(struct property *p, const struct inventory_device *d,
                                 struct str asked, bool exact)
{
    for (size_t i = 0; i < d->device->capacity.n; i++)
        if (!p->attribute && takes_name(p, d, d->device->capacity.p[i].key, asked, exact) &&
            d->shared && !p->shared) {
            p->shared = true;
            p->shared_key = d->device->capacity.p[i].key;
        }
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

static int no_property(const struct making *m, struct str class_name, struct str name)
{
    struct seen_names seen = {0};
    cleanup_sbuf struct sbuf names = {0};
    for (size_t i = 0; i < m->inv->devices_len; i++) {
        const struct inventory_device *d = &m->inv->devices[i];
        if (!words_device_has_class(m->inv, d, class_name))
            continue;
        for (size_t k = 0; k < d->device->capacity.n; k++)
            list_name(&seen, local_name(d->device->capacity.p[k].key), &names);
        for (size_t k = 0; k < d->device->attributes.n; k++)
            list_name(&seen, local_name(d->device->attributes.p[k].key), &names);
    }
    map_done(&seen);
    return err_set(m->err, ERR_NOT_FOUND, "devices of class %.*s have no %.*s; they have %s",
                   STR_ARG(class_name), STR_ARG(name), names.n ? names.p : "nothing to ask for");
}

static int find_property(const struct making *m, struct str class_name, struct str name,
                         struct property *ret)
{
    for (int exact = 1; exact >= 0; exact--) {
        *ret = (struct property){0};
        for (size_t i = 0; i < m->inv->devices_len; i++)
            if (words_device_has_class(m->inv, &m->inv->devices[i], class_name))
                words_match_property(ret, &m->inv->devices[i], name, exact != 0);
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

static void add_access(struct sbuf *out, const char *of, const struct property *p)
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
static struct str meant_text(struct making *m, struct str class_name, const struct property *p,
                             struct str value)
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
        if (has.n && holds_word(has, value) && !found.n)
            found = has;
    }
    return found.n ? found : value;
}

static int attribute_condition(struct making *m, struct str class_name, const struct property *p,
                               struct str value, struct sbuf *out)
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
    add_access(out, "attributes", p);
    if (p->attribute->has_version_value) {
        sbuf_addz(out, ".compareTo(semver(");
        add_cel_text(out, value);
        sbuf_addf(out, ")) %.*s 0", STR_ARG(op));
        return 0;
    }
    sbuf_addf(out, " %.*s ", STR_ARG(op));
    if (p->attribute->has_string_value)
        add_cel_text(out, value);
    else
        sbuf_add(out, value);
    return 0;
}

static int capacity_condition(struct making *m, const struct property *p, struct str value,
                              struct sbuf *out)
{
    struct str op = take_operator(&value, ">=");
    struct quantity q;
    if (quantity_parse(value, &m->arena, &q, m->err) < 0)
        return err_wrap(m->err, "%.*s %.*s", STR_ARG(p->name), STR_ARG(value));
    add_access(out, "capacity", p);
    sbuf_addz(out, ".compareTo(quantity(");
    add_cel_text(out, value);
    sbuf_addf(out, ")) %.*s 0", STR_ARG(op));
    return 0;
}

// --- YAML ----------------------------------------------------------------------------------------

static void words_add_line(struct sbuf *out, size_t indent, const char *text)
{
    sbuf_add_repeat(out, ' ', indent);
    sbuf_addz(out, text);
    sbuf_addc(out, '\n');
}

// What a request asks of a device: selectors, and amounts of devices that are shared.
static int words_add_conditions(struct making *m, size_t at, size_t indent, struct sbuf *out)
{
    const struct words_request *r = &m->w->requests.p[at];
    struct str class_name = m->chosen[at].name;
    cleanup_sbuf struct sbuf selectors = {0};
    cleanup_sbuf struct sbuf amounts = {0};
    for (size_t i = 0; i < r->conditions.n; i++) {
        cleanup_sbuf struct sbuf cel = {0};
        struct property p;
        struct str value = r->conditions.p[i].value;
        int rc = find_property(m, class_name, r->conditions.p[i].name, &p);
        if (rc == 0)
            rc = p.attribute ? attribute_condition(m, class_name, &p, value, &cel)
                             : capacity_condition(m, &p, value, &cel);
        if (rc < 0)
            return rc;
        if (!p.attribute && p.shared && value.n && value.p[0] >= '0' && value.p[0] <= '9') {
            sbuf_add_repeat(&amounts, ' ', indent + 4);
            sbuf_addf(&amounts, "%.*s: %.*s\n", STR_ARG(p.shared_key), STR_ARG(value));
            sbuf_addf(m->notes, "%.*s: a share of %.*s of a device\n", STR_ARG(p.name),
                      STR_ARG(value));
            continue;
        }
        sbuf_addf(m->notes, "%.*s: %s\n", STR_ARG(r->conditions.p[i].name), cel.p);
        sbuf_add_repeat(&selectors, ' ', indent);
        sbuf_addz(&selectors, "- cel:\n");
        sbuf_add_repeat(&selectors, ' ', indent + 4);
        sbuf_addz(&selectors, "expression: ");
        sbuf_add_json_str(&selectors, sbuf_str(&cel), false);
        sbuf_addc(&selectors, '\n');
    }
    if (selectors.n) {
        words_add_line(out, indent, "selectors:");
        sbuf_add(out, sbuf_str(&selectors));
    }
    if (amounts.n) {
        words_add_line(out, indent, "capacity:");
        words_add_line(out, indent + 2, "requests:");
        sbuf_add(out, sbuf_str(&amounts));
    }
    return 0;
}

// The qualified name of an attribute that devices of all requests have.
static int common_attribute(struct making *m, struct str asked, struct str *ret)
{
    struct property first = {0};
    for (size_t i = 0; i < m->w->requests.n; i++) {
        struct property p;
        struct str name =
            i ? arena_strf(&m->arena, "%.*s/%.*s", STR_ARG(first.domain), STR_ARG(first.name))
              : asked;
        int r = find_property(m, m->chosen[i].name, name, &p);
        if (r < 0)
            return r;
        if (!p.attribute)
            return err_set(m->err, ERR_INVALID, "%.*s is a capacity, not an attribute",
                           STR_ARG(asked));
        if (i == 0)
            first = p;
    }
    *ret = arena_strf(&m->arena, "%.*s/%.*s", STR_ARG(first.domain), STR_ARG(first.name));
    if (!str_eq(*ret, asked))
        sbuf_addf(m->notes, "%.*s: attribute %.*s\n", STR_ARG(asked), STR_ARG(*ret));
    return 0;
}

static int words_add_constraints(struct making *m, size_t indent, struct sbuf *out)
{
    for (size_t i = 0; i < m->w->same.n + m->w->distinct.n; i++) {
        bool same = i < m->w->same.n;
        struct str name = {0};
        int r =
            common_attribute(m, same ? m->w->same.p[i] : m->w->distinct.p[i - m->w->same.n], &name);
        if (r < 0)
            return r;
        if (i == 0)
            words_add_line(out, indent, "constraints:");
        sbuf_add_repeat(out, ' ', indent);
        sbuf_addf(out, "- %s: %.*s\n", same ? "matchAttribute" : "distinctAttribute",
                  STR_ARG(name));
    }
    return 0;
}

static int words_add_devices(struct making *m, size_t indent, struct sbuf *out)
{
    int rc = 0;
    words_add_line(out, indent, "devices:");
    words_add_line(out, indent + 2, "requests:");
    for (size_t i = 0; rc == 0 && i < m->w->requests.n; i++) {
        const struct words_request *r = &m->w->requests.p[i];
        sbuf_add_repeat(out, ' ', indent + 2);
        sbuf_addf(out, "- name: %.*s\n", STR_ARG(m->chosen[i].request));
        words_add_line(out, indent + 4, "exactly:");
        sbuf_add_repeat(out, ' ', indent + 6);
        sbuf_addf(out, "deviceClassName: %.*s\n", STR_ARG(m->chosen[i].name));
        if (r->all)
            words_add_line(out, indent + 6, "allocationMode: All");
        if (r->count > 1) {
            sbuf_add_repeat(out, ' ', indent + 6);
            sbuf_addf(out, "count: %lld\n", (long long)r->count);
        }
        rc = words_add_conditions(m, i, indent + 6, out);
    }
    return rc ? rc : words_add_constraints(m, indent + 2, out);
}

void words_name(const struct words *w, struct sbuf *out)
{
    if (w->name.n) {
        sbuf_add(out, w->name);
        return;
    }
    for (size_t i = 0; i < w->requests.n && i < 3; i++) {
        struct str word = local_name(w->requests.p[i].word);
        if (i)
            sbuf_addc(out, '-');
        for (size_t k = 0; k < word.n && k < 20 && word.p[k] != '.'; k++) {
            char c = word.p[k];
            bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
            sbuf_addc(out, plain ? c : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : 'x');
        }
    }
}

static void words_add_head(const struct making *m, const char *version, const char *kind,
                           struct sbuf *out)
{
    sbuf_addf(out, "apiVersion: %s\nkind: %s\nmetadata:\n  name: ", version, kind);
    words_name(m->w, out);
    if (m->w->namespace.n)
        sbuf_addf(out, "\n  namespace: %.*s", STR_ARG(m->w->namespace));
    sbuf_addz(out, "\nspec:\n");
}

static void words_add_pod(const struct making *m, struct sbuf *out)
{
    sbuf_addz(out, "---\n");
    words_add_head(m, "v1", "Pod", out);
    sbuf_addf(out,
              "  restartPolicy: Never\n  containers:\n  - name: main\n    image: %.*s\n"
              "    command: [sleep, infinity]\n    resources:\n      claims:\n"
              "      - name: devices\n  resourceClaims:\n  - name: devices\n"
              "    resourceClaimTemplateName: ",
              STR_ARG(m->w->image.n ? m->w->image : STR("busybox")));
    words_name(m->w, out);
    sbuf_addc(out, '\n');
}

int words_make(const struct inventory *inv, const struct words *w, struct sbuf *yaml,
               struct sbuf *notes, struct err *err)
{
    struct making m = {.inv = inv, .w = w, .notes = notes, .err = err};
    cleanup_sbuf struct sbuf out = {0};
    int r = 0;
    m.chosen = arena_array(&m.arena, struct chosen_class, w->requests.n + 1);
    for (size_t i = 0; r == 0 && i < w->requests.n; i++) {
        r = choose_class(&m, i);
        name_request(&m, i);
    }
    if (w->kind == WORDS_CLAIM) {
        words_add_head(&m, "resource.k8s.io/v1", "ResourceClaim", &out);
    } else {
        words_add_head(&m, "resource.k8s.io/v1", "ResourceClaimTemplate", &out);
        sbuf_addz(&out, "  spec:\n");
    }
    if (r == 0)
        r = words_add_devices(&m, w->kind == WORDS_CLAIM ? 2 : 4, &out);
    if (r == 0 && w->kind == WORDS_POD)
        words_add_pod(&m, &out);
    if (r == 0)
        sbuf_add(yaml, sbuf_str(&out));
    arena_done(&m.arena);
    return r;
}
