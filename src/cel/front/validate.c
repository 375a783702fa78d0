// SPDX-License-Identifier: Apache-2.0
//
// Rules on checked trees that are not types: homogeneous literals, valid constant patterns, times
// and formats.
#include "cel/front/check.h"
#include "cel/lib/format.h"
#include "cel/lib/lib.h"
#include "cel/lib/pattern.h"
#include "cel/regex.h"
#include "cel/text.h"

#include "base/banned.h"

struct validator {
    const struct cel_env *env;
    struct cel_source *source;
    unsigned in_format; // nested format() calls: their literals may mix types
};

static void cel_validate_node(struct validator *v, const struct cel_node *n);

static const struct cel_node *literal_arg(const struct cel_node *n)
{
    if (n->call.args.n == 0 || n->call.args.p[0]->kind != CEL_N_LITERAL)
        return NULL;
    return n->call.args.p[0];
}

static bool literal_converts(struct cel_val v, bool duration)
{
    struct cel_run run = {.limit = UINT64_MAX};
    struct cel_val r = duration ? cel_to_duration(&run, v) : cel_to_timestamp(&run, v);
    bool ok = !cel_is_error(r);
    arena_done(&run.arena);
    return ok;
}

static void check_literals(struct validator *v, const struct cel_node *n)
{
    bool duration = str_eqz(n->call.function, "duration");
    bool timestamp = str_eqz(n->call.function, "timestamp");
    bool matches = str_eqz(n->call.function, "matches");
    if (!duration && !timestamp && !matches)
        return;
    const struct cel_node *arg = literal_arg(n);
    if (!arg)
        return;
    bool ok = true;
    if (!matches) {
        ok = literal_converts(arg->value, duration);
    } else if (arg->value.kind == CEL_STRING && !cel_pattern_of(cel_str(arg->value)).simple) {
        char why[256];
        ok = cel_source_regex(v->source, cel_str(arg->value), why, sizeof(why)) != NULL;
        if (v->source->spending && v->source->spending->refused) {
            cel_issue(v->source, arg->pos, "%s", why);
            return;
        }
    }
    if (!ok)
        cel_issue(v->source, arg->pos, "invalid %.*s argument", STR_ARG(n->call.function));
}

static bool cel_validate_kind_in(const struct cel_node *n, const enum cel_tkind *kinds,
                                 size_t count)
{
    if (n->type->kind == CEL_T_DYN)
        return true;
    for (size_t i = 0; i < count; i++)
        if (n->type->kind == kinds[i])
            return true;
    return false;
}

// The first part of a value that %s cannot show; NULL when all can.
static const struct cel_node *not_text(const struct cel_node *n)
{
    static const enum cel_tkind kinds[] = {CEL_T_LIST,     CEL_T_MAP,       CEL_T_INT,
                                           CEL_T_UINT,     CEL_T_DOUBLE,    CEL_T_BOOL,
                                           CEL_T_STRING,   CEL_T_TIMESTAMP, CEL_T_BYTES,
                                           CEL_T_DURATION, CEL_T_TYPE,      CEL_T_NULL};
    if (!cel_validate_kind_in(n, kinds, array_len(kinds)))
        return n;
    const struct cel_node *bad = NULL;
    if (n->kind == CEL_N_LIST)
        for (uint32_t i = 0; i < n->list.elems.n && !bad; i++)
            bad = not_text(n->list.elems.p[i]);
    if (n->kind == CEL_N_MAP)
        for (uint32_t i = 0; i < n->entries.n && !bad; i++) {
            bad = not_text(n->entries.keys[i]);
            if (!bad)
                bad = not_text(n->entries.values[i]);
        }
    return bad;
}

static const char *clause_misfit(char verb, const struct cel_node *arg,
                                 const struct cel_node **ret_bad)
{
    static const enum cel_tkind ints[] = {CEL_T_INT, CEL_T_UINT, CEL_T_BOOL};
    static const enum cel_tkind doubles[] = {CEL_T_DOUBLE, CEL_T_STRING};
    static const enum cel_tkind hexes[] = {CEL_T_INT, CEL_T_UINT, CEL_T_STRING, CEL_T_BYTES};
    *ret_bad = arg;
    switch (verb) {
    case 's':
        *ret_bad = not_text(arg);
        return *ret_bad ? "string clause can only be used on strings, bools, bytes, ints, doubles, "
                          "maps, lists, types, durations, and timestamps"
                        : NULL;
    case 'd':
        return cel_validate_kind_in(arg, ints, 2) ? NULL
                                                  : "decimal clause can only be used on integers";
    case 'o':
        return cel_validate_kind_in(arg, ints, 2) ? NULL
                                                  : "octal clause can only be used on integers";
    case 'b':
        return cel_validate_kind_in(arg, ints, 3)
                   ? NULL
                   : "only integers and bools can be formatted as binary";
    case 'f':
        return cel_validate_kind_in(arg, doubles, 2)
                   ? NULL
                   : "fixed-point clause can only be used on doubles";
    case 'e':
        return cel_validate_kind_in(arg, doubles, 2)
                   ? NULL
                   : "scientific clause can only be used on doubles";
    default:
        return cel_validate_kind_in(arg, hexes, 4)
                   ? NULL
                   : "only integers, byte buffers, and strings can be formatted as hex";
    }
}

static void cel_validate_format(struct validator *v, const struct cel_node *n)
{
    const struct cel_node *target = n->call.target;
    if (!target || !str_eqz(n->call.function, "format") || target->kind != CEL_N_LITERAL ||
        target->value.kind != CEL_STRING || n->call.args.n != 1 ||
        n->call.args.p[0]->kind != CEL_N_LIST)
        return;
    struct cel_nodes args = n->call.args.p[0]->list.elems;
    cleanup_sbuf struct sbuf ignored = {0};
    size_t at = 0;
    uint32_t i = 0;
    for (;; i++) {
        struct cel_clause c;
        const char *why =
            cel_format_next(cel_str(target->value), &at, &ignored, &c, v->source->arena);
        if (!why && !c.verb)
            break;
        if (why && strcmp(why, "unexpected end of string") != 0 && i >= args.n)
            why = NULL;
        if (!why && i >= args.n) {
            cel_issue(v->source, n->pos, "index %u out of range", i);
            return;
        }
        if (why) {
            cel_issue(v->source, n->pos, "%s", why);
            return;
        }
        const struct cel_node *bad = NULL;
        const char *misfit = clause_misfit(c.verb, args.p[i], &bad);
        if (misfit) {
            cel_issue(v->source, bad->pos, "error during formatting: %s, was given %.*s", misfit,
                      STR_ARG(bad->type->name));
            return;
        }
    }
    if (args.n > i)
        cel_issue(v->source, n->pos,
                  "too many arguments supplied to string.format (expected %u, got %u)", i, args.n);
}

// Same type but for wrappers.
static bool cel_validate_types_equal(const struct cel_type *a, const struct cel_type *b)
{
    if (a->kind != b->kind || a->params != b->params || !str_eq(a->name, b->name))
        return false;
    for (size_t i = 0; i < a->params; i++)
        if (!cel_validate_types_equal(a->param[i], b->param[i]))
            return false;
    return true;
}

static const struct cel_type *entry_type(const struct cel_node *n, bool optional)
{
    return optional && n->type->params ? n->type->param[0] : n->type;
}

static bool same_type(struct validator *v, const struct cel_type *want, const struct cel_node *n,
                      const struct cel_type *got)
{
    if (cel_validate_types_equal(want, got))
        return true;
    cleanup_sbuf struct sbuf a = {0};
    cleanup_sbuf struct sbuf b = {0};
    cel_type_write(want, &a);
    cel_type_write(got, &b);
    cel_issue(v->source, n->pos, "expected type '%.*s' but found '%.*s'", STR_ARG(sbuf_str(&a)),
              STR_ARG(sbuf_str(&b)));
    return false;
}

static void cel_validate_list(struct validator *v, const struct cel_node *n)
{
    const struct cel_type *want = NULL;
    for (uint32_t i = 0; i < n->list.elems.n; i++) {
        const struct cel_node *e = n->list.elems.p[i];
        const struct cel_type *t = entry_type(e, n->list.optional && n->list.optional[i]);
        if (want && !v->in_format && !same_type(v, want, e, t))
            break;
        if (!want)
            want = t;
    }
    for (uint32_t i = 0; i < n->list.elems.n; i++)
        cel_validate_node(v, n->list.elems.p[i]);
}

static void cel_validate_map(struct validator *v, const struct cel_node *n)
{
    const struct cel_type *key = NULL;
    const struct cel_type *value = NULL;
    for (uint32_t i = 0; i < n->entries.n; i++) {
        const struct cel_type *k = n->entries.keys[i]->type;
        const struct cel_type *t = entry_type(n->entries.values[i], n->entries.optional[i]);
        if (!key) {
            key = k;
            value = t;
        } else if (!v->in_format) {
            (void)same_type(v, key, n->entries.keys[i], k);
            (void)same_type(v, value, n->entries.values[i], t);
        }
    }
    for (uint32_t i = 0; i < n->entries.n; i++) {
        cel_validate_node(v, n->entries.keys[i]);
        cel_validate_node(v, n->entries.values[i]);
    }
}

static void visit_call(struct validator *v, const struct cel_node *n)
{
    check_literals(v, n);
    cel_validate_format(v, n);
    bool format = str_eqz(n->call.function, "format");
    v->in_format += format;
    if (n->call.target)
        cel_validate_node(v, n->call.target);
    for (uint32_t i = 0; i < n->call.args.n; i++)
        cel_validate_node(v, n->call.args.p[i]);
    v->in_format -= format;
}

static void cel_validate_node(struct validator *v, const struct cel_node *n)
{
    switch (n->kind) {
    case CEL_N_ERROR:
    case CEL_N_LITERAL:
    case CEL_N_IDENT:
        break;
    case CEL_N_SELECT:
        cel_validate_node(v, n->select.operand);
        break;
    case CEL_N_CALL:
        visit_call(v, n);
        break;
    case CEL_N_LIST:
        cel_validate_list(v, n);
        break;
    case CEL_N_MAP:
        cel_validate_map(v, n);
        break;
    case CEL_N_STRUCT:
        for (uint32_t i = 0; i < n->entries.n; i++)
            cel_validate_node(v, n->entries.values[i]);
        break;
    case CEL_N_FOLD:
        cel_validate_node(v, n->fold.range);
        cel_validate_node(v, n->fold.init);
        cel_validate_node(v, n->fold.condition);
        cel_validate_node(v, n->fold.step);
        cel_validate_node(v, n->fold.result);
        break;
    }
}

bool cel_validate(const struct cel_env *env, struct cel_source *source, const struct cel_node *root)
{
    struct validator v = {.env = env, .source = source};
    cel_validate_node(&v, root);
    return source->issues.n == 0;
}
