// SPDX-License-Identifier: Apache-2.0
//
// Label selectors.
#include "api/match/label_selector.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "api/rules/at.h"
#include "base/vec.h"
#include "codec/json_writer.h"

#include "base/banned.h"

// --- Requirements --------------------------------------------------------------------------------

// join_msgs puts "; " between messages.
static struct str join_msgs(const struct name_msgs *msgs)
{
    cleanup_sbuf struct sbuf all = {0};
    for (size_t i = 0; i < msgs->n; i++) {
        if (i)
            sbuf_addz(&all, "; ");
        sbuf_add(&all, msgs->p[i]);
    }
    return arena_str(msgs->arena, sbuf_str(&all));
}

// label_selector_key_error describes what is wrong with a key; empty: nothing.
static struct str label_selector_key_error(struct str key, struct arena *arena)
{
    struct name_msgs msgs = {.arena = arena};
    name_label_key(key, &msgs);
    return msgs.n ? join_msgs(&msgs) : STR("");
}

static void label_selector_check_values(struct label_requirement *r, const struct path *at,
                                        struct causes *causes)
{
    const struct path *values = AT(at, "values");
    assert(r->values || r->values_len == 0);
    struct str shown = r->values ? STR("[]") : STR("null");
    switch (r->relation) {
    case LABEL_IN:
    case LABEL_NOT_IN:
        if (r->values_len == 0)
            cause_invalid_json(causes, values, shown,
                               STR("for 'in', 'notin' operators, values set can't be empty"));
        break;
    case LABEL_EXISTS:
    case LABEL_DOES_NOT_EXIST:
        if (r->values_len > 0) {
            cleanup_sbuf struct sbuf json = {0};
            struct json_writer w = {.out = &json, .html = true};
            json_write_array_begin(&w);
            for (size_t i = 0; i < r->values_len; i++)
                json_write_str(&w, r->values[i]);
            json_write_array_end(&w);
            cause_invalid_json(causes, values, sbuf_str(&json),
                               STR("values set must be empty for exists and does not exist"));
        }
        break;
    case LABEL_GREATER:
    case LABEL_LESS: {
        assert(r->values_len == 1); // by the grammar
        if (!label_number_read(r->values[0], &r->number))
            cause_invalid(causes, AT_ITEM(values, 0), r->values[0],
                          STR("for 'Gt', 'Lt' operators, the value must be an integer"));
        break;
    }
    case LABEL_EQUALS:
    case LABEL_DOUBLE_EQUALS:
    case LABEL_NOT_EQUALS:
        assert(r->values_len == 1); // by the grammar
        break;
    }
    for (size_t i = 0; i < r->values_len; i++) {
        struct name_msgs msgs = {.arena = causes->arena};
        name_label_value(r->values[i], &msgs);
        if (msgs.n)
            cause_invalid(causes, AT_KEY(AT_ITEM(values, i), r->key), r->values[i],
                          join_msgs(&msgs));
    }
}

// check_requirement checks key, operator and values. Returns 0, or -code with all that is wrong in
// the form of an aggregate.
static int check_requirement(struct label_requirement *r, int code, struct arena *arena,
                             struct err *err)
{
    struct causes causes = {.arena = arena};
    struct str wrong = label_selector_key_error(r->key, arena);
    if (wrong.n)
        cause_invalid(&causes, AT(NULL, "key"), r->key, wrong);
    label_selector_check_values(r, NULL, &causes);
    if (causes.n == 0)
        return 0;
    cleanup_sbuf struct sbuf all = {0};
    for (size_t i = 0; i < causes.n; i++)
        sbuf_addf(&all, "%s%.*s: %.*s", i ? ", " : "", STR_ARG(causes.p[i].field),
                  STR_ARG(causes.p[i].message));
    return err_set(err, code, causes.n > 1 ? "[%s]" : "%s", all.p);
}

static int label_selector_compare_keys(const void *a, const void *b)
{
    const struct label_requirement *x = a, *y = b;
    int order = str_cmp(x->key, y->key);
    // Those with one key stay in order of their place in the array.
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

// sort_by_key sorts stably: numbers lend themselves for the places.
static void sort_by_key(struct label_requirement *p, size_t n, struct arena *arena)
{
    if (n < 2)
        return;
    struct label_requirement *sorted = arena_array(arena, struct label_requirement, n);
    memcpy(sorted, p, n * sizeof(*p));
    for (size_t i = 0; i < n; i++)
        sorted[i].number = (int64_t)i;
    qsort(sorted, n, sizeof(*sorted), label_selector_compare_keys);
    for (size_t i = 0; i < n; i++)
        sorted[i].number = p[sorted[i].number].number;
    memcpy(p, sorted, n * sizeof(*p));
}

static void sort_values(struct str *p, size_t *n, bool unique)
{
    if (*n < 2)
        return;
    qsort(p, *n, sizeof(*p), str_cmp_elements);
    size_t kept = 1;
    for (size_t i = 1; i < *n; i++)
        if (!unique || !str_eq(p[i], p[kept - 1]))
            p[kept++] = p[i];
    *n = kept;
}

// --- Reading -------------------------------------------------------------------------------------

enum token {
    TOKEN_ERROR,
    TOKEN_END,
    TOKEN_CLOSE,
    TOKEN_COMMA,
    TOKEN_NOT,
    TOKEN_DOUBLE_EQUALS,
    TOKEN_EQUALS,
    TOKEN_GREATER,
    TOKEN_WORD,
    TOKEN_IN,
    TOKEN_LESS,
    TOKEN_NOT_EQUALS,
    TOKEN_NOT_IN,
    TOKEN_OPEN,
};

static const struct {
    struct str text;
    enum token token;
} symbols[] = {
    {STR_INIT(")"), TOKEN_CLOSE},       {STR_INIT(","), TOKEN_COMMA},
    {STR_INIT("!"), TOKEN_NOT},         {STR_INIT("=="), TOKEN_DOUBLE_EQUALS},
    {STR_INIT("="), TOKEN_EQUALS},      {STR_INIT(">"), TOKEN_GREATER},
    {STR_INIT("in"), TOKEN_IN},         {STR_INIT("<"), TOKEN_LESS},
    {STR_INIT("!="), TOKEN_NOT_EQUALS}, {STR_INIT("notin"), TOKEN_NOT_IN},
    {STR_INIT("("), TOKEN_OPEN},
};

struct values VEC(struct str);

struct parser {
    struct str rest;
    enum token token; // the next one
    struct str text;  // and what it was read from, or a message for TOKEN_ERROR
    struct arena *arena;
    struct err *err;
};

static enum token symbol_of(struct str text)
{
    for (size_t i = 0; i < array_len(symbols); i++)
        if (str_eq(symbols[i].text, text))
            return symbols[i].token;
    return TOKEN_ERROR;
}

static bool label_selector_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_special(char c)
{
    return c != 0 && strchr("=!(),><", c);
}

// read_symbol takes the longest run of special characters that begins with a symbol.
static void read_symbol(struct parser *p)
{
    size_t n = 0;
    p->token = TOKEN_ERROR;
    while (n < p->rest.n && is_special(p->rest.p[n])) {
        enum token longer = symbol_of(str_upto(p->rest, n + 1));
        if (longer == TOKEN_ERROR && p->token != TOKEN_ERROR)
            break;
        p->token = longer;
        n++;
    }
    p->text = str_upto(p->rest, n);
    p->rest = str_from(p->rest, n);
    if (p->token == TOKEN_ERROR)
        p->text = arena_strf(p->arena, "error expected: keyword found '%.*s'", STR_ARG(p->text));
}

// label_selector_advance reads the next token. A NUL ends a word, and the text where a token would
// begin.
static void label_selector_advance(struct parser *p)
{
    while (p->rest.n && label_selector_is_space(p->rest.p[0]))
        p->rest = str_from(p->rest, 1);
    if (p->rest.n == 0 || p->rest.p[0] == 0) {
        p->token = TOKEN_END;
        p->text = STR("");
        return;
    }
    if (is_special(p->rest.p[0])) {
        read_symbol(p);
        return;
    }
    size_t n = 0;
    while (n < p->rest.n && p->rest.p[n] && !label_selector_is_space(p->rest.p[n]) &&
           !is_special(p->rest.p[n]))
        n++;
    p->text = str_upto(p->rest, n);
    p->token = symbol_of(p->text);
    if (p->token == TOKEN_ERROR)
        p->token = TOKEN_WORD;
    n += n < p->rest.n && p->rest.p[n] == 0;
    p->rest = str_from(p->rest, n);
}

// label_selector_at_word: in and notin are words too where no operator can stand.
static bool label_selector_at_word(const struct parser *p)
{
    return p->token == TOKEN_WORD || p->token == TOKEN_IN || p->token == TOKEN_NOT_IN;
}

static int label_selector_syntax_error(struct parser *p, const char *expected)
{
    return err_set(p->err, ERR_BAD_REQUEST, "found '%.*s'%s", STR_ARG(p->text), expected);
}

static int label_selector_read_key(struct parser *p, struct label_requirement *r, bool *ret_unary)
{
    bool absent = p->token == TOKEN_NOT;
    if (absent)
        label_selector_advance(p);
    if (!label_selector_at_word(p))
        return label_selector_syntax_error(p, ", expected: identifier");
    struct str wrong = label_selector_key_error(p->text, p->arena);
    if (wrong.n) {
        cleanup_sbuf struct sbuf quoted = {0};
        sbuf_add_quoted(&quoted, p->text);
        return err_set(p->err, ERR_BAD_REQUEST, "<nil>: Invalid value: %s: %.*s", quoted.p,
                       STR_ARG(wrong));
    }
    r->key = p->text;
    label_selector_advance(p);
    r->relation = absent ? LABEL_DOES_NOT_EXIST : LABEL_EXISTS;
    *ret_unary = absent || p->token == TOKEN_END || p->token == TOKEN_COMMA;
    return 0;
}

static int read_operator(struct parser *p, enum label_operator *ret)
{
    static const struct {
        enum token token;
        enum label_operator relation;
    } operators[] = {{TOKEN_IN, LABEL_IN},
                     {TOKEN_EQUALS, LABEL_EQUALS},
                     {TOKEN_GREATER, LABEL_GREATER},
                     {TOKEN_DOUBLE_EQUALS, LABEL_DOUBLE_EQUALS},
                     {TOKEN_LESS, LABEL_LESS},
                     {TOKEN_NOT_IN, LABEL_NOT_IN},
                     {TOKEN_NOT_EQUALS, LABEL_NOT_EQUALS}};
    for (size_t i = 0; i < array_len(operators); i++) {
        if (p->token == operators[i].token) {
            *ret = operators[i].relation;
            label_selector_advance(p);
            return 0;
        }
    }
    return label_selector_syntax_error(p, ", expected: in, notin, =, ==, !=, gt, lt");
}

// label_selector_read_list takes the values of a set up to its closing parenthesis; two commas have
// an empty value between them.
static int label_selector_read_list(struct parser *p, struct values *values)
{
    for (;;) {
        if (label_selector_at_word(p)) {
            vec_push_arena(p->arena, values, p->text);
            label_selector_advance(p);
            if (p->token == TOKEN_CLOSE)
                return 0;
            if (p->token != TOKEN_COMMA)
                return label_selector_syntax_error(p, ", expected: ',' or ')'");
        } else if (p->token == TOKEN_COMMA) {
            if (values->n == 0)
                vec_push_arena(p->arena, values, STR(""));
            label_selector_advance(p);
            if (p->token == TOKEN_CLOSE || p->token == TOKEN_COMMA)
                vec_push_arena(p->arena, values, STR(""));
            if (p->token == TOKEN_CLOSE)
                return 0;
        } else {
            return label_selector_syntax_error(p, ", expected: ',', or identifier");
        }
    }
}

static int label_selector_read_set(struct parser *p, struct values *values)
{
    if (p->token != TOKEN_OPEN)
        return label_selector_syntax_error(p, " expected: '('");
    label_selector_advance(p);
    if (p->token == TOKEN_CLOSE) {
        vec_push_arena(p->arena, values, STR(""));
    } else if (label_selector_at_word(p) || p->token == TOKEN_COMMA) {
        int r = label_selector_read_list(p, values);
        if (r < 0)
            return r;
    } else {
        return label_selector_syntax_error(p, ", expected: ',', ')' or identifier");
    }
    label_selector_advance(p);
    return 0;
}

static int label_selector_read_value(struct parser *p, struct values *values)
{
    if (p->token == TOKEN_END || p->token == TOKEN_COMMA) {
        vec_push_arena(p->arena, values, STR(""));
        return 0;
    }
    if (!label_selector_at_word(p))
        return label_selector_syntax_error(p, ", expected: identifier");
    vec_push_arena(p->arena, values, p->text);
    label_selector_advance(p);
    return 0;
}

static int read_requirement(struct parser *p, struct label_requirement *ret)
{
    struct label_requirement req = {0};
    struct values values = {0};
    bool unary = false;
    int r = label_selector_read_key(p, &req, &unary);
    if (r == 0 && !unary) {
        r = read_operator(p, &req.relation);
        if (r == 0 && (req.relation == LABEL_IN || req.relation == LABEL_NOT_IN))
            r = label_selector_read_set(p, &values);
        else if (r == 0)
            r = label_selector_read_value(p, &values);
    }
    if (r < 0)
        return r;
    sort_values(values.p, &values.n, true);
    req.values = values.p;
    req.values_len = values.n;
    *ret = req;
    return check_requirement(ret, ERR_BAD_REQUEST, p->arena, p->err);
}

int label_selector_parse(struct str text, struct arena *arena, struct label_selector *ret,
                         struct err *err)
{
    struct requirements VEC(struct label_requirement);
    struct requirements all = {0};
    struct parser p = {.rest = arena_str(arena, text), .arena = arena, .err = err};
    label_selector_advance(&p);
    while (p.token != TOKEN_END) {
        struct label_requirement r;
        if (!label_selector_at_word(&p) && p.token != TOKEN_NOT)
            return label_selector_syntax_error(&p, ", expected: !, identifier, or 'end of string'");
        if (read_requirement(&p, &r) < 0)
            return err ? err_wrap(err, "unable to parse requirement") : -ERR_BAD_REQUEST;
        vec_push_arena(arena, &all, r);
        if (p.token == TOKEN_END)
            break;
        if (p.token != TOKEN_COMMA)
            return label_selector_syntax_error(&p, ", expected: ',' or 'end of string'");
        label_selector_advance(&p);
        if (!label_selector_at_word(&p) && p.token != TOKEN_NOT)
            return label_selector_syntax_error(&p, ", expected: identifier after ','");
    }
    sort_by_key(all.p, all.n, arena);
    *ret = (struct label_selector){all.p, all.n, false};
    return 0;
}

// --- From an object ------------------------------------------------------------------------------

static int of_expression(const struct api_label_selector_requirement *in, struct arena *arena,
                         struct label_requirement *ret, struct err *err)
{
    enum label_operator relation;
    if (!label_operator_read(in->operator, false, &relation)) {
        cleanup_sbuf struct sbuf quoted = {0};
        sbuf_add_quoted(&quoted, in->operator);
        return err_set(err, ERR_INVALID, "%s is not a valid label selector operator", quoted.p);
    }
    *ret = (struct label_requirement){.key = arena_str(arena, in->key), .relation = relation};
    if (in->values.n) {
        ret->values = arena_array(arena, struct str, in->values.n);
        ret->values_len = in->values.n;
        for (size_t v = 0; v < in->values.n; v++)
            ret->values[v] = arena_str(arena, in->values.p[v]);
    }
    return check_requirement(ret, ERR_INVALID, arena, err);
}

int label_selector_of(const struct api_label_selector *in, struct arena *arena,
                      struct label_selector *ret, struct err *err)
{
    if (!in) {
        *ret = (struct label_selector){.nothing = true};
        return 0;
    }
    size_t n = 0;
    struct label_requirement *p =
        arena_array(arena, struct label_requirement, in->match_labels.n + in->match_expressions.n);
    for (size_t i = 0; i < in->match_labels.n; i++) {
        struct label_requirement *req = &p[n++];
        *req = (struct label_requirement){.key = arena_str(arena, in->match_labels.p[i].key),
                                          .relation = LABEL_EQUALS,
                                          .values = arena_one(arena, struct str),
                                          .values_len = 1};
        req->values[0] = arena_str(arena, in->match_labels.p[i].value);
        int r = check_requirement(req, ERR_INVALID, arena, err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < in->match_expressions.n; i++) {
        int r = of_expression(&in->match_expressions.p[i], arena, &p[n++], err);
        if (r < 0)
            return r;
    }
    sort_by_key(p, n, arena);
    *ret = (struct label_selector){p, n, false};
    return 0;
}

// --- Matching and writing ------------------------------------------------------------------------

bool label_selector_matches(const struct label_selector *s, const struct api_str_map *labels)
{
    if (s->nothing)
        return false;
    for (size_t i = 0; i < s->n; i++)
        if (!label_requirement_holds(&s->p[i], api_map_find(labels, s->p[i].key)))
            return false;
    return true;
}

static void write_values(const struct label_requirement *r, struct sbuf *out)
{
    cleanup_arena struct arena arena = {0};
    struct str *sorted = arena_array(&arena, struct str, r->values_len);
    if (r->values_len)
        memcpy(sorted, r->values, r->values_len * sizeof(*sorted));
    size_t n = r->values_len;
    sort_values(sorted, &n, false);
    for (size_t i = 0; i < n; i++) {
        if (i)
            sbuf_addc(out, ',');
        sbuf_add(out, sorted[i]);
    }
}

void label_selector_write(const struct label_selector *s, struct sbuf *out)
{
    static const char *const words[] = {
        [LABEL_EQUALS] = "=",  [LABEL_DOUBLE_EQUALS] = "==", [LABEL_NOT_EQUALS] = "!=",
        [LABEL_IN] = " in (",  [LABEL_NOT_IN] = " notin (",  [LABEL_EXISTS] = "",
        [LABEL_GREATER] = ">", [LABEL_LESS] = "<",           [LABEL_DOES_NOT_EXIST] = "",
    };
    for (size_t i = 0; i < s->n; i++) {
        const struct label_requirement *r = &s->p[i];
        if (i)
            sbuf_addc(out, ',');
        if (r->relation == LABEL_DOES_NOT_EXIST)
            sbuf_addc(out, '!');
        sbuf_add(out, r->key);
        sbuf_addz(out, words[r->relation]);
        write_values(r, out);
        if (r->relation == LABEL_IN || r->relation == LABEL_NOT_IN)
            sbuf_addc(out, ')');
    }
}
