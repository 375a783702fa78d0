// SPDX-License-Identifier: Apache-2.0
//
// Types: the built-in ones, construction of lists, maps and optionals, and their names.
#include "cel/front/type.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/banned.h"

#define SIMPLE(id, k, text) \
    const struct cel_type cel_type_##id = {.kind = CEL_T_##k, .name = STR_INIT(text)}

SIMPLE(error, ERROR, "!error!");
SIMPLE(dyn, DYN, "dyn");
SIMPLE(any, ANY, "any");
SIMPLE(null, NULL, "null_type");
SIMPLE(bool, BOOL, "bool");
SIMPLE(int, INT, "int");
SIMPLE(uint, UINT, "uint");
SIMPLE(double, DOUBLE, "double");
SIMPLE(string, STRING, "string");
SIMPLE(bytes, BYTES, "bytes");
SIMPLE(duration, DURATION, "google.protobuf.Duration");
SIMPLE(timestamp, TIMESTAMP, "google.protobuf.Timestamp");
SIMPLE(type, TYPE, "type");
SIMPLE(quantity, STRUCT, "kubernetes.Quantity");
SIMPLE(semver, STRUCT, "kubernetes.Semver");
SIMPLE(url, STRUCT, "kubernetes.URL");
SIMPLE(format, STRUCT, "kubernetes.NamedFormat");
SIMPLE(ip, OPAQUE, "net.IP");
SIMPLE(cidr, OPAQUE, "net.CIDR");

#define WRAPPER(id, k, text)                     \
    const struct cel_type cel_type_wrap_##id = { \
        .kind = CEL_T_##k, .nullable = true, .name = STR_INIT(text)}

WRAPPER(bool, BOOL, "bool");
WRAPPER(int, INT, "int");
WRAPPER(uint, UINT, "uint");
WRAPPER(double, DOUBLE, "double");
WRAPPER(string, STRING, "string");
WRAPPER(bytes, BYTES, "bytes");

const struct cel_type cel_type_list_dyn = {
    .kind = CEL_T_LIST, .params = 1, .name = STR_INIT("list"), .param = {&cel_type_dyn}};
const struct cel_type cel_type_map_dyn = {.kind = CEL_T_MAP,
                                          .params = 2,
                                          .name = STR_INIT("map"),
                                          .param = {&cel_type_dyn, &cel_type_dyn}};
const struct cel_type cel_type_optional_dyn = {
    .kind = CEL_T_OPAQUE, .params = 1, .name = STR_INIT("optional_type"), .param = {&cel_type_dyn}};
const struct cel_type cel_type_map_string_dyn = {.kind = CEL_T_MAP,
                                                 .params = 2,
                                                 .name = STR_INIT("map"),
                                                 .param = {&cel_type_string, &cel_type_dyn}};

static struct cel_type *type_create(struct arena *a, enum cel_tkind kind, struct str name)
{
    struct cel_type *t = arena_one(a, struct cel_type);
    t->kind = kind;
    t->name = name;
    return t;
}

const struct cel_type *cel_type_list(struct arena *a, const struct cel_type *elem)
{
    if (elem == &cel_type_dyn)
        return &cel_type_list_dyn;
    struct cel_type *t = type_create(a, CEL_T_LIST, STR("list"));
    t->params = 1;
    t->param[0] = elem;
    return t;
}

const struct cel_type *cel_type_map(struct arena *a, const struct cel_type *key,
                                    const struct cel_type *value)
{
    struct cel_type *t = type_create(a, CEL_T_MAP, STR("map"));
    t->params = 2;
    t->param[0] = key;
    t->param[1] = value;
    return t;
}

const struct cel_type *cel_type_optional(struct arena *a, const struct cel_type *value)
{
    struct cel_type *t = type_create(a, CEL_T_OPAQUE, STR("optional_type"));
    t->params = 1;
    t->param[0] = value;
    return t;
}

const struct cel_type *cel_type_of(struct arena *a, const struct cel_type *value)
{
    struct cel_type *t = type_create(a, CEL_T_TYPE, STR("type"));
    t->params = 1;
    t->param[0] = value;
    return t;
}

const struct cel_type *cel_type_var(struct arena *a, uint32_t var)
{
    struct cel_type *t = type_create(a, CEL_T_PARAM, STR("var"));
    t->var = var;
    return t;
}

const struct cel_type *cel_type_opaque(struct arena *a, struct str name,
                                       const struct cel_type *const *params, size_t n)
{
    assert(n <= CEL_TYPE_PARAMS_MAX);
    struct cel_type *t = type_create(a, CEL_T_OPAQUE, name);
    t->params = (uint8_t)n;
    for (size_t i = 0; i < n; i++)
        t->param[i] = params[i];
    return t;
}

const struct cel_type *cel_type_copy(struct arena *a, const struct cel_type *t)
{
    struct cel_type *c = arena_one(a, struct cel_type);
    *c = *t;
    c->name = arena_str(a, t->name);
    for (size_t i = 0; i < t->params; i++)
        c->param[i] = cel_type_copy(a, t->param[i]);
    return c;
}

bool cel_type_is_optional(const struct cel_type *t)
{
    return t->kind == CEL_T_OPAQUE && t->params == 1 && str_eqz(t->name, "optional_type");
}

bool cel_type_same(const struct cel_type *a, const struct cel_type *b)
{
    if (a == b)
        return true;
    if (a->kind != b->kind || a->params != b->params || a->nullable != b->nullable)
        return false;
    if (a->kind == CEL_T_PARAM)
        return a->var == b->var;
    if ((a->kind == CEL_T_STRUCT || a->kind == CEL_T_OPAQUE) && !str_eq(a->name, b->name))
        return false;
    for (size_t i = 0; i < a->params; i++)
        if (!cel_type_same(a->param[i], b->param[i]))
            return false;
    return true;
}

// full: `any` by its protobuf name, as compiled results show it.
static void write_type(const struct cel_type *t, bool full, struct sbuf *out)
{
    if (t->nullable) {
        sbuf_addf(out, "wrapper(%.*s)", STR_ARG(t->name));
        return;
    }
    if (t->kind == CEL_T_PARAM) {
        sbuf_addf(out, "_var%u", t->var);
        return;
    }
    sbuf_add(out, full && t->kind == CEL_T_ANY ? STR("google.protobuf.Any") : t->name);
    if (t->params == 0)
        return;
    sbuf_addc(out, '(');
    for (size_t i = 0; i < t->params; i++) {
        if (i)
            sbuf_addz(out, ", ");
        write_type(t->param[i], full, out);
    }
    sbuf_addc(out, ')');
}

void cel_type_write(const struct cel_type *t, struct sbuf *out)
{
    write_type(t, false, out);
}

void cel_type_write_go(const struct cel_type *t, struct sbuf *out)
{
    write_type(t, true, out);
}

static const struct {
    const char *word;
    const struct cel_type *type;
} words[] = {
    {"dyn", &cel_type_dyn},
    {"any", &cel_type_any},
    {"null", &cel_type_null},
    {"bool", &cel_type_bool},
    {"int", &cel_type_int},
    {"uint", &cel_type_uint},
    {"double", &cel_type_double},
    {"string", &cel_type_string},
    {"bytes", &cel_type_bytes},
    {"Duration", &cel_type_duration},
    {"Timestamp", &cel_type_timestamp},
    {"Quantity", &cel_type_quantity},
    {"Semver", &cel_type_semver},
    {"IP", &cel_type_ip},
    {"CIDR", &cel_type_cidr},
    {"URL", &cel_type_url},
    {"NamedFormat", &cel_type_format},
};

static const struct cel_type *parse_word(struct arena *a, struct str w, struct str *letters)
{
    if (w.n == 1 && isupper((unsigned char)w.p[0])) {
        ptrdiff_t at = str_find_char(*letters, w.p[0]);
        if (at < 0) {
            struct str grown = arena_strf(a, "%.*s%c", STR_ARG(*letters), w.p[0]);
            at = (ptrdiff_t)letters->n;
            *letters = grown;
        }
        return cel_type_var(a, (uint32_t)at);
    }
    for (size_t i = 0; i < array_len(words); i++)
        if (str_eqz(w, words[i].word))
            return words[i].type;
    // Types of Kubernetes' authorizer: declared, never usable here.
    struct cel_type *t = type_create(a, CEL_T_STRUCT, arena_strf(a, "kubernetes.%.*s", STR_ARG(w)));
    return t;
}

const struct cel_type *cel_type_parse(struct arena *a, const char **text, struct str *letters)
{
    const char *p = *text;
    size_t n = strcspn(p, "(),>");
    assert(n > 0);
    struct str word = {p, n};
    p += n;
    if (*p != '(') {
        *text = p;
        return parse_word(a, word, letters);
    }
    p++;
    const struct cel_type *first = cel_type_parse(a, &p, letters);
    const struct cel_type *t = NULL;
    if (str_eqz(word, "list")) {
        t = cel_type_list(a, first);
    } else if (str_eqz(word, "optional")) {
        t = cel_type_optional(a, first);
    } else if (str_eqz(word, "type")) {
        t = cel_type_of(a, first);
    } else {
        assert(str_eqz(word, "map") && *p == ',');
        p++;
        t = cel_type_map(a, first, cel_type_parse(a, &p, letters));
    }
    assert(*p == ')');
    *text = p + 1;
    return t;
}
