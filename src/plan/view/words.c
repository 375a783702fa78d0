// SPDX-License-Identifier: Apache-2.0
//
// Claims, templates and pods from words: classes, capacities and attributes are looked up in the
// inventory, and YAML is written.
#include "plan/sim/plan_int.h"
#include "plan/view/words_int.h"

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

// --- Classes -------------------------------------------------------------------------------------

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
        if (words_contain(inv->devices[i].id.driver, word) &&
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
         words_equal_ignoring_case(words_local_name(c->spec.extended_resource_name), word)))
        return 5;
    (void)str_cut(name, '.', &head, &tail);
    if (words_equal_ignoring_case(head, word))
        return 4;
    if (words_contain(head, word))
        return 3;
    if (words_contain(name, word))
        return 2;
    return driver_has_word(inv, name, word) ? 1 : 0;
}

static int no_class(const struct words_making *m, struct str word)
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
static int choose_class(struct words_making *m, size_t at)
{
    struct str word = m->w->requests.p[at].word;
    struct words_choice *ret = &m->chosen[at];
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
static void name_request(struct words_making *m, size_t at)
{
    cleanup_sbuf struct sbuf b = {0};
    struct str word = words_local_name(m->w->requests.p[at].word);
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

// --- YAML ----------------------------------------------------------------------------------------

static void words_add_line(struct sbuf *out, size_t indent, const char *text)
{
    sbuf_add_repeat(out, ' ', indent);
    sbuf_addz(out, text);
    sbuf_addc(out, '\n');
}

static void words_add_selector(struct sbuf *selectors, size_t indent, struct str cel)
{
    sbuf_add_repeat(selectors, ' ', indent);
    sbuf_addz(selectors, "- cel:\n");
    sbuf_add_repeat(selectors, ' ', indent + 4);
    sbuf_addz(selectors, "expression: ");
    sbuf_add_json_str(selectors, cel, false);
    sbuf_addc(selectors, '\n');
}

static int words_add_condition(struct words_making *m, size_t at, const struct words_condition *c,
                               size_t indent, struct sbuf *selectors, struct sbuf *amounts)
{
    cleanup_sbuf struct sbuf cel = {0};
    struct words_property p;
    struct str value = c->value;
    if (!c->name.n) {
        words_add_selector(selectors, indent, value);
        return 0;
    }
    int r = words_write_condition(m, m->chosen[at].name, c, &p, &cel);
    if (r < 0)
        return r;
    if (!p.attribute && p.shared && value.n && value.p[0] >= '0' && value.p[0] <= '9') {
        sbuf_add_repeat(amounts, ' ', indent + 4);
        sbuf_addf(amounts, "%.*s: %.*s\n", STR_ARG(p.shared_key), STR_ARG(value));
        sbuf_addf(m->notes, "%.*s: a share of %.*s of a device\n", STR_ARG(p.name), STR_ARG(value));
        return 0;
    }
    sbuf_addf(m->notes, "%.*s: %s\n", STR_ARG(c->name), cel.p);
    words_add_selector(selectors, indent, sbuf_str(&cel));
    return 0;
}

// What a request asks of a device: selectors, and amounts of devices that are shared.
static int words_add_conditions(struct words_making *m, size_t at, size_t indent, struct sbuf *out)
{
    const struct words_request *r = &m->w->requests.p[at];
    cleanup_sbuf struct sbuf selectors = {0}, amounts = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r->conditions.n; i++)
        rc = words_add_condition(m, at, &r->conditions.p[i], indent, &selectors, &amounts);
    if (rc < 0)
        return rc;
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
static int common_attribute(struct words_making *m, struct str asked, struct str *ret)
{
    struct words_property first = {0};
    for (size_t i = 0; i < m->w->requests.n; i++) {
        struct words_property p;
        struct str name =
            i ? arena_strf(&m->arena, "%.*s/%.*s", STR_ARG(first.domain), STR_ARG(first.name))
              : asked;
        int r = words_find_property(m, m->chosen[i].name, name, &p);
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

static int words_add_constraints(struct words_making *m, size_t indent, struct sbuf *out)
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

static int words_add_devices(struct words_making *m, size_t indent, struct sbuf *out)
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
        struct str word = words_local_name(w->requests.p[i].word);
        if (i)
            sbuf_addc(out, '-');
        for (size_t k = 0; k < word.n && k < 20 && word.p[k] != '.'; k++) {
            char c = word.p[k];
            bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
            sbuf_addc(out, plain ? c : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : 'x');
        }
    }
}

static void words_add_head(const struct words_making *m, const char *version, const char *kind,
                           struct sbuf *out)
{
    sbuf_addf(out, "apiVersion: %s\nkind: %s\nmetadata:\n  name: ", version, kind);
    words_name(m->w, out);
    if (m->w->namespace.n)
        sbuf_addf(out, "\n  namespace: %.*s", STR_ARG(m->w->namespace));
    sbuf_addz(out, "\nspec:\n");
}

// words_add_node binds the pod to one node by its name, which labels may not tell.
static void words_add_node(const struct words_making *m, struct sbuf *out)
{
    if (m->w->node.n)
        sbuf_addf(out,
                  "  affinity:\n    nodeAffinity:\n"
                  "      requiredDuringSchedulingIgnoredDuringExecution:\n"
                  "        nodeSelectorTerms:\n        - matchFields:\n"
                  "          - {key: metadata.name, operator: In, values: [\"%.*s\"]}\n",
                  STR_ARG(m->w->node));
}

static int words_check_node(const struct words_making *m)
{
    cleanup_sbuf struct sbuf names = {0};
    size_t n = 0;
    if (!m->w->node.n)
        return 0;
    if (m->w->kind != WORDS_POD)
        return err_set(m->err, ERR_INVALID,
                       "claims and templates do not name a node: use --pod with --node");
    for (size_t i = 0; i < m->inv->nodes_len; i++) {
        if (str_eq(m->inv->nodes[i].name, m->w->node))
            return 0;
        if (n++ < SHOWN)
            sbuf_addf(&names, "%s%.*s", n > 1 ? ", " : "", STR_ARG(m->inv->nodes[i].name));
    }
    return err_set(m->err, ERR_NOT_FOUND, "there is no node %.*s; the nodes are %s%s",
                   STR_ARG(m->w->node), names.n ? names.p : "none", n > SHOWN ? ", …" : "");
}

static void words_add_pod(const struct words_making *m, struct sbuf *out)
{
    sbuf_addz(out, "---\n");
    words_add_head(m, "v1", "Pod", out);
    words_add_node(m, out);
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
    struct words_making m = {.inv = inv, .w = w, .notes = notes, .err = err};
    cleanup_sbuf struct sbuf out = {0};
    int r = words_check_node(&m);
    m.chosen = arena_array(&m.arena, struct words_choice, w->requests.n + 1);
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
