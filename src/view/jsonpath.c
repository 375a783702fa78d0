// SPDX-License-Identifier: Apache-2.0
//
// The parser of kubectl's JSONPath templates.
#include "view/jsonpath.h"

#include <stdlib.h>

#include "base/utf8.h"
#include "view/jsonpath_int.h"

#include "base/banned.h"

// A reader of a template. Texts between quotes and in filters are read by the same functions on a
// part of the text.
struct reader {
    struct str text;
    size_t at;
    size_t base; // where text starts in the template, for messages
    size_t depth;
    struct arena *arena;
    struct err *err;
};

#define bad(r, ...) (err_record((r)->err, ERR_INVALID, __VA_ARGS__), bad_at((r)))

static int bad_at(struct reader *r)
{
    if (r->err)
        (void)err_wrap(r->err, "jsonpath, at character %zu", r->base + r->at + 1);
    return -ERR_INVALID;
}

static bool jsonpath_at_end(const struct reader *r)
{
    return r->at >= r->text.n;
}

static char jsonpath_peek(const struct reader *r)
{
    return jsonpath_at_end(r) ? '\0' : r->text.p[r->at];
}

static bool jsonpath_starts_with(const struct reader *r, const char *what)
{
    return str_starts(str_from(r->text, r->at), str_z(what));
}

static bool jsonpath_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool jsonpath_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

static bool ends_name(char c)
{
    return c == '\0' || strchr(" \t\r\n.,[]$@{}", c) != NULL;
}

static struct step *jsonpath_add_step(struct reader *r, struct step_list *list, enum step_type type)
{
    vec_push_arena(r->arena, list, (struct step){.type = type});
    return vec_last(list);
}

static void jsonpath_add_text(struct reader *r, struct step_list *list, struct str text)
{
    struct step *s = jsonpath_add_step(r, list, STEP_VALUE);
    s->value.tag = ((uint64_t)text.n << YYJSON_TAG_BIT) | YYJSON_TYPE_STR;
    s->value.uni.str = text.n ? text.p : "";
}

static int read_steps(struct reader *r, struct step_list *list);

// jsonpath_read_inner reads a part of the text as steps: what stands in a filter or between commas.
static int jsonpath_read_inner(const struct reader *r, size_t from, struct str text,
                               struct step_list *list)
{
    struct reader in = {.text = text,
                        .base = r->base + from,
                        .depth = r->depth + 1,
                        .arena = r->arena,
                        .err = r->err};
    if (in.depth > JSONPATH_DEPTH_MAX)
        return bad(&in, "filters and lists may stand in each other %d deep", JSONPATH_DEPTH_MAX);
    return read_steps(&in, list);
}

// --- Steps ---------------------------------------------------------------------------------------

// jsonpath_read_field reads a name; a backslash makes the character behind it a part of it.
static int jsonpath_read_field(struct reader *r, struct step_list *list)
{
    cleanup_sbuf struct sbuf name = {0};
    while (!ends_name(jsonpath_peek(r))) {
        if (jsonpath_peek(r) == '\\' && r->at + 1 < r->text.n)
            r->at++;
        sbuf_addc(&name, jsonpath_peek(r));
        r->at++;
    }
    if (str_eqz(sbuf_str(&name), "*"))
        (void)jsonpath_add_step(r, list, STEP_WILDCARD);
    else if (name.n)
        jsonpath_add_step(r, list, STEP_FIELD)->name = arena_str(r->arena, sbuf_str(&name));
    return 0; // {.} is the value itself
}

static int read_recursive(struct reader *r, struct step_list *list)
{
    if (list->n && vec_last(list)->type == STEP_RECURSIVE)
        return bad(r, "'..' stands twice");
    r->at += 2;
    (void)jsonpath_add_step(r, list, STEP_RECURSIVE);
    return jsonpath_is_letter(jsonpath_peek(r)) || jsonpath_is_digit(jsonpath_peek(r))
               ? jsonpath_read_field(r, list)
               : 0;
}

// jsonpath_read_escape adds the character behind a backslash, as Go reads it in a quoted text.
static int jsonpath_read_escape(struct reader *r, struct sbuf *out)
{
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    r->at++;
    char c = jsonpath_peek(r);
    const char *known = c ? strchr(from, c) : NULL;
    if (known) {
        r->at++;
        sbuf_addc(out, to[known - from]);
        return 0;
    }
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t value = 0;
    if (!digits || r->text.n - r->at <= digits)
        return bad(r, "there is no such escape");
    for (r->at++; digits > 0; digits--, r->at++) {
        char h = jsonpath_peek(r);
        int v = jsonpath_is_digit(h)   ? h - '0'
                : h >= 'a' && h <= 'f' ? h - 'a' + 10
                : h >= 'A' && h <= 'F' ? h - 'A' + 10
                                       : -1;
        if (v < 0)
            return bad(r, "'%c' is no hexadecimal digit", h);
        value = value << 4 | (uint32_t)v;
    }
    if (c == 'x' && value >= 0x80)
        return bad(r, "a text is UTF-8: write \\u00%02x", (unsigned)value);
    sbuf_add_utf8(out, value);
    return 0;
}

static int read_quote(struct reader *r, struct step_list *list)
{
    cleanup_sbuf struct sbuf text = {0};
    char quote = jsonpath_peek(r);
    for (r->at++; jsonpath_peek(r) != quote;) {
        if (jsonpath_at_end(r))
            return bad(r, "the text that starts with %c does not end", quote);
        if (jsonpath_peek(r) != '\\') {
            sbuf_addc(&text, r->text.p[r->at++]);
            continue;
        }
        int code = jsonpath_read_escape(r, &text);
        if (code < 0)
            return code;
    }
    r->at++;
    jsonpath_add_text(r, list, arena_str(r->arena, sbuf_str(&text)));
    return 0;
}

static int jsonpath_read_number(struct reader *r, struct step_list *list)
{
    size_t from = r->at;
    if (jsonpath_peek(r) == '+' || jsonpath_peek(r) == '-')
        r->at++;
    while (jsonpath_peek(r) == '.' || jsonpath_is_digit(jsonpath_peek(r)))
        r->at++;
    struct str text = str_make(r->text.p + from, r->at - from);
    struct str plain = text.p[0] == '+' ? str_from(text, 1) : text;
    struct step *s = jsonpath_add_step(r, list, STEP_VALUE);
    int64_t whole = 0;
    if (str_to_i64(plain, &whole) == 0) {
        s->value.tag = YYJSON_TYPE_NUM | YYJSON_SUBTYPE_SINT;
        s->value.uni.i64 = whole;
        return 0;
    }
    struct str z = arena_str(r->arena, plain);
    char *end = NULL;
    double number = strtod(z.p, &end); // digits and points only: no locale, no hex, no names
    if (end != z.p + z.n || z.n == 0)
        return bad(r, "'%.*s' is no number", STR_ARG(text));
    s->value.tag = YYJSON_TYPE_NUM | YYJSON_SUBTYPE_REAL;
    s->value.uni.f64 = number;
    return 0;
}

// jsonpath_read_word reads true and false; range and end are read where a part begins.
static int jsonpath_read_word(struct reader *r, struct step_list *list)
{
    size_t from = r->at;
    while (!ends_name(jsonpath_peek(r)))
        r->at++;
    struct str word = str_make(r->text.p + from, r->at - from);
    bool yes = str_eqz(word, "true");
    if (!yes && !str_eqz(word, "false"))
        return bad(r, "'%.*s' means nothing here; a field is written .%.*s", STR_ARG(word),
                   STR_ARG(word));
    jsonpath_add_step(r, list, STEP_VALUE)->value.tag =
        YYJSON_TYPE_BOOL | (yes ? YYJSON_SUBTYPE_TRUE : YYJSON_SUBTYPE_FALSE);
    return 0;
}

// --- Brackets ------------------------------------------------------------------------------------

// read_bound reads the i-th number of a slice, if there is one.
static int read_bound(struct reader *r, struct str text, struct slice_bound *ret)
{
    *ret = (struct slice_bound){.known = text.n > 0};
    if (text.n && str_to_i64(text, &ret->value) < 0)
        return bad(r, "'%.*s' is no index; names stand in quotes: ['name']", STR_ARG(text));
    return 0;
}

static int read_slice(struct reader *r, struct str text, struct step_list *list)
{
    struct step *s = jsonpath_add_step(r, list, STEP_SLICE);
    struct str rest = text;
    s->one = str_find_char(text, ':') < 0;
    if (s->one && !text.n)
        return bad(r, "[] needs an index, or * for all");
    int code = 0;
    for (size_t i = 0; i < 3 && code == 0; i++) {
        struct str part;
        str_cut(rest, ':', &part, &rest);
        code = read_bound(r, part, &s->bound[i]);
    }
    if (code == 0 && rest.n)
        return bad(r, "a slice has three numbers at most");
    if (code == 0 && s->bound[2].known && s->bound[2].value <= 0)
        return bad(r, "the step of a slice must be more than 0");
    return code;
}

// jsonpath_read_index reads what stands between brackets: a list of it, a quoted name, a slice.
static int jsonpath_read_index(struct reader *r, size_t from, struct str text,
                               struct step_list *list)
{
    text = str_trim(text);
    if (str_find_char(text, ',') >= 0) {
        struct step_lists lists = {0};
        for (struct str rest = text, one; rest.n;) {
            struct step_list steps = {0};
            str_cut(rest, ',', &one, &rest);
            int code = jsonpath_read_index(r, from, one, &steps);
            if (code < 0)
                return code;
            vec_push_arena(r->arena, &lists, steps);
        }
        jsonpath_add_step(r, list, STEP_UNION)->lists = lists;
        return 0;
    }
    if (str_eqz(text, "*"))
        return read_slice(r, STR(":"), list);
    if (text.n >= 2 && text.p[0] == '\'' && text.p[text.n - 1] == '\'') {
        // As kubectl: what stands in the quotes is read as a path, so dots in a name need a
        // backslash.
        struct str path =
            arena_strf(r->arena, ".%.*s", STR_ARG(str_upto(str_from(text, 1), text.n - 2)));
        return jsonpath_read_inner(r, from, path, list);
    }
    return read_slice(r, text, list);
}

static int read_brackets(struct reader *r, struct step_list *list)
{
    size_t from = ++r->at;
    while (!jsonpath_at_end(r) && jsonpath_peek(r) != ']')
        r->at++;
    if (jsonpath_at_end(r))
        return bad(r, "the '[' is not closed");
    struct str text = str_make(r->text.p + from, r->at - from);
    r->at++;
    return jsonpath_read_index(r, from, text, list);
}

// --- Filters -------------------------------------------------------------------------------------

// filter_end finds the ')' that closes a filter; one in quotes or in a filter within does not.
static bool filter_end(struct reader *r)
{
    char quote = '\0';
    size_t open = 1;
    for (; !jsonpath_at_end(r); r->at++) {
        char c = jsonpath_peek(r);
        if (quote) {
            if (c == '\\')
                r->at++;
            else if (c == quote)
                quote = '\0';
        } else if (c == '"' || c == '\'') {
            quote = c;
        } else if (c == '(') {
            open++;
        } else if (c == ')' && --open == 0) {
            return true;
        }
    }
    return false;
}

static bool find_op(struct str text, size_t *ret_at, size_t *ret_len, enum filter_op *ret_op)
{
    static const struct {
        const char *text;
        enum filter_op op;
    } ops[] = {{"==", FILTER_EQ}, {"!=", FILTER_NE}, {"<=", FILTER_LE},
               {">=", FILTER_GE}, {"<", FILTER_LT},  {">", FILTER_GT}};
    size_t at = 0;
    while (at < text.n && !strchr("!<>=", text.p[at]))
        at++;
    for (size_t i = 0; i < array_len(ops); i++) {
        if (!str_starts(str_from(text, at), str_z(ops[i].text)))
            continue;
        *ret_at = at;
        *ret_len = strlen(ops[i].text);
        *ret_op = ops[i].op;
        return true;
    }
    *ret_at = at;
    return false;
}

static int read_filter(struct reader *r, struct step_list *list)
{
    r->at += 3;
    size_t from = r->at, op_at = 0, op_len = 0;
    if (!filter_end(r))
        return bad(r, "the filter '[?(' is not closed");
    struct str text = str_make(r->text.p + from, r->at - from);
    r->at++;
    if (jsonpath_peek(r) != ']')
        return bad(r, "a filter ends with ')]'");
    r->at++;
    struct step s = {.type = STEP_FILTER};
    bool compares = find_op(text, &op_at, &op_len, &s.op);
    if (!compares && op_at < text.n)
        return bad(r, "a filter compares with ==, !=, <, <=, > or >=");
    int code = jsonpath_read_inner(r, from, str_upto(text, op_at), &s.left);
    if (code == 0 && compares)
        code =
            jsonpath_read_inner(r, from + op_at + op_len, str_from(text, op_at + op_len), &s.right);
    if (code == 0)
        vec_push_arena(r->arena, list, s);
    return code;
}

// --- Expressions ---------------------------------------------------------------------------------

static int jsonpath_read_step(struct reader *r, struct step_list *list)
{
    char c = jsonpath_peek(r);
    if (jsonpath_starts_with(r, "[?("))
        return read_filter(r, list);
    if (jsonpath_starts_with(r, ".."))
        return read_recursive(r, list);
    if (c == '[')
        return read_brackets(r, list);
    if (c == '"' || c == '\'')
        return read_quote(r, list);
    if (c == '+' || c == '-' || jsonpath_is_digit(c))
        return jsonpath_read_number(r, list);
    if (jsonpath_is_letter(c))
        return jsonpath_read_word(r, list);
    if (c != '.' && c != ' ' && c != '@' && c != '$')
        return bad(r, "unexpected '%c'", c);
    r->at++;
    return c == '.' ? jsonpath_read_field(r, list) : 0;
}

// read_steps reads up to a '}' or the end of the text.
static int read_steps(struct reader *r, struct step_list *list)
{
    int code = 0;
    while (code == 0 && !jsonpath_at_end(r) && jsonpath_peek(r) != '}')
        code = jsonpath_read_step(r, list);
    return code;
}

static bool take_word(struct reader *r, const char *word)
{
    size_t at = r->at;
    while (at < r->text.n && r->text.p[at] == ' ')
        at++;
    size_t n = strlen(word);
    struct str rest = str_from(r->text, at);
    if (!str_starts(rest, str_z(word)) || (rest.n > n && !ends_name(rest.p[n])))
        return false;
    r->at = at + n;
    return true;
}

static int read_action(struct reader *r, struct part *part)
{
    r->at++;
    if (take_word(r, "range"))
        part->type = PART_RANGE;
    else if (take_word(r, "end"))
        part->type = PART_END;
    int code = read_steps(r, &part->steps);
    if (code < 0)
        return code;
    if (jsonpath_at_end(r))
        return bad(r, "the '{' is not closed");
    if (part->type == PART_END && part->steps.n)
        return bad(r, "'end' stands alone");
    r->at++;
    return 0;
}

static void jsonpath_read_text(struct reader *r, struct part *part)
{
    size_t from = r->at;
    while (!jsonpath_at_end(r) && jsonpath_peek(r) != '{')
        r->at++;
    jsonpath_add_text(r, &part->steps, str_make(r->text.p + from, r->at - from));
}

// jsonpath_match_brackets finds the end of each range.
static int jsonpath_match_brackets(struct reader *r, struct jsonpath *path)
{
    size_t open[JSONPATH_DEPTH_MAX] = {0};
    size_t depth = 0;
    for (size_t i = 0; i < path->parts.n; i++) {
        struct part *p = &path->parts.p[i];
        p->end = path->parts.n;
        if (p->type == PART_RANGE && depth == JSONPATH_DEPTH_MAX)
            return bad(r, "ranges may stand in each other %d deep", JSONPATH_DEPTH_MAX);
        if (p->type == PART_RANGE)
            open[depth++] = i;
        if (p->type == PART_END && depth == 0)
            return bad(r, "there is an {end} without a {range}");
        if (p->type == PART_END)
            path->parts.p[open[--depth]].end = i;
    }
    return 0;
}

int jsonpath_parse(struct str text, struct arena *arena, const struct jsonpath **ret,
                   struct err *err)
{
    struct reader r = {.text = text, .arena = arena, .err = err};
    struct jsonpath *path = arena_one(arena, struct jsonpath);
    if (text.n > JSONPATH_TEXT_MAX)
        return bad(&r, "a template has %zu bytes at most", JSONPATH_TEXT_MAX);
    while (!jsonpath_at_end(&r)) {
        struct part part = {0};
        int code = 0;
        if (jsonpath_peek(&r) == '{')
            code = read_action(&r, &part);
        else
            jsonpath_read_text(&r, &part);
        if (code < 0)
            return code;
        vec_push_arena(arena, &path->parts, part);
    }
    int code = jsonpath_match_brackets(&r, path);
    if (code == 0)
        *ret = path;
    return code;
}

int jsonpath_parse_relaxed(struct str text, struct arena *arena, const struct jsonpath **ret,
                           struct err *err)
{
    text = str_trim(text);
    if (str_starts(text, STR("{")) && str_ends(text, STR("}")))
        return jsonpath_parse(text, arena, ret, err);
    const char *dot = str_starts(text, STR(".")) || str_starts(text, STR("[")) ? "" : ".";
    return jsonpath_parse(arena_strf(arena, "{%s%.*s}", dot, STR_ARG(text)), arena, ret, err);
}
