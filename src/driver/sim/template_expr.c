// SPDX-License-Identifier: Apache-2.0
//
// The expressions of templates: a recursive descent that evaluates as it reads.
#include <ctype.h>

#include "base/hash.h"
#include "base/uuid.h"
#include "driver/sim/template.h"

#include "base/banned.h"

enum { NESTING_MAX = 32, ARGUMENTS_MAX = 8 };

struct reader {
    struct str text;
    size_t at;
    size_t nesting;
    const struct template_scope *scope;
    struct arena *arena;
    struct err *err;
};

static int template_expr_set_error(struct reader *r, const char *what)
{
    return err_set(r->err, ERR_INVALID, "expression \"%.*s\", at character %zu: %s",
                   STR_ARG(r->text), r->at + 1, what);
}

static char template_expr_peek_char(struct reader *r)
{
    while (r->at < r->text.n && isspace((unsigned char)r->text.p[r->at]))
        r->at++;
    return r->at < r->text.n ? r->text.p[r->at] : '\0';
}

static bool template_expr_accept_token(struct reader *r, struct str token)
{
    template_expr_peek_char(r);
    if (!str_starts(str_from(r->text, r->at), token))
        return false;
    r->at += token.n;
    return true;
}

static struct template_value template_expr_from_number(int64_t n)
{
    return (struct template_value){.type = TEMPLATE_INT, .number = n};
}

static struct template_value template_expr_from_bool(bool b)
{
    return (struct template_value){.type = TEMPLATE_BOOL, .number = b};
}

static struct template_value template_expr_from_text(struct str s)
{
    return (struct template_value){.type = TEMPLATE_TEXT, .text = s};
}

struct template_value template_value_of(const yyjson_val *v)
{
    switch (json_type(v)) {
    case JSON_INT:
        return template_expr_from_number(v->uni.i64);
    case JSON_BOOL: {
        bool b = false;
        (void)!json_to_bool(v, &b, NULL);
        return template_expr_from_bool(b);
    }
    case JSON_STRING:
        return template_expr_from_text(json_str(v));
    case JSON_NULL:
    case JSON_UINT:
    case JSON_DOUBLE:
    case JSON_BIG:
    case JSON_ARRAY:
    case JSON_OBJECT:
        break;
    }
    return (struct template_value){.type = TEMPLATE_JSON, .json = v};
}

static int read_expr(struct reader *r, struct template_value *ret);

static int want_number(struct reader *r, const struct template_value *v, int64_t *ret)
{
    if (v->type != TEMPLATE_INT)
        return template_expr_set_error(r, "a whole number is needed here");
    *ret = v->number;
    return 0;
}

// --- Functions -----------------------------------------------------------------------------------

static int call_digits(struct reader *r, bool hex, const struct template_value *args, size_t n,
                       struct template_value *ret)
{
    int64_t value = 0;
    int64_t digits = 1;
    if (n < 1 || n > 2)
        return template_expr_set_error(
            r, "hex and pad take a number and, if need be, how many digits");
    int code = want_number(r, &args[0], &value);
    if (code == 0 && n == 2)
        code = want_number(r, &args[1], &digits);
    if (code != 0)
        return code;
    if (value < 0 || digits < 0 || digits > 64)
        return template_expr_set_error(
            r, "hex and pad take no negative number, and 64 digits at most");
    *ret = template_expr_from_text(
        hex ? arena_strf(r->arena, "%0*llx", (int)digits, (unsigned long long)value)
            : arena_strf(r->arena, "%0*lld", (int)digits, (long long)value));
    return 0;
}

// A UUID that depends on the arguments alone, so that hardware keeps its identity over restarts.
static int call_uuid(struct reader *r, const struct template_value *args, size_t n,
                     struct template_value *ret)
{
    struct sbuf all = {0};
    for (size_t i = 0; i < n; i++) {
        if (args[i].type == TEMPLATE_JSON) {
            sbuf_done(&all);
            return template_expr_set_error(r, "uuid takes texts and numbers");
        }
        if (args[i].type == TEMPLATE_TEXT)
            sbuf_add(&all, args[i].text);
        else
            sbuf_add_i64(&all, args[i].number);
        sbuf_addc(&all, '\0');
    }
    struct rng_seeded rng;
    uint64_t seed = 0xcbf29ce484222325u;
    for (size_t i = 0; i < all.n; i++)
        seed = (seed ^ (unsigned char)all.p[i]) * 0x100000001b3u;
    rng_seeded_init(&rng, seed);
    sbuf_done(&all);
    struct uuid u = uuid_random(&rng.rng);
    char out[UUID_TEXT_LEN + 1];
    uuid_write(&u, out);
    *ret = template_expr_from_text(arena_str(r->arena, str_make(out, UUID_TEXT_LEN)));
    return 0;
}

static int call_len(struct reader *r, const struct template_value *args, size_t n,
                    struct template_value *ret)
{
    if (n != 1 || (args[0].type != TEMPLATE_TEXT && args[0].type != TEMPLATE_JSON))
        return template_expr_set_error(r, "len takes one list, object or text");
    *ret = template_expr_from_number(
        (int64_t)(args[0].type == TEMPLATE_TEXT ? args[0].text.n : json_len(args[0].json)));
    return 0;
}

static int read_call(struct reader *r, struct str name, struct template_value *ret)
{
    struct template_value args[ARGUMENTS_MAX];
    size_t n = 0;
    if (template_expr_peek_char(r) != ')') {
        do {
            if (n == ARGUMENTS_MAX)
                return template_expr_set_error(r, "too many arguments");
            int code = read_expr(r, &args[n++]);
            if (code != 0)
                return code;
        } while (template_expr_accept_token(r, STR(",")));
    }
    if (!template_expr_accept_token(r, STR(")")))
        return template_expr_set_error(r, "')' is missing");
    if (str_eq(name, STR("hex")) || str_eq(name, STR("pad")))
        return call_digits(r, str_eq(name, STR("hex")), args, n, ret);
    if (str_eq(name, STR("uuid")))
        return call_uuid(r, args, n, ret);
    if (str_eq(name, STR("len")))
        return call_len(r, args, n, ret);
    return template_expr_set_error(r, "no such function (there are hex, pad, uuid, len)");
}

// --- Operands ------------------------------------------------------------------------------------

static struct str template_expr_read_name(struct reader *r)
{
    template_expr_peek_char(r);
    size_t from = r->at;
    while (r->at < r->text.n &&
           (isalnum((unsigned char)r->text.p[r->at]) || r->text.p[r->at] == '_'))
        r->at++;
    return str_make(r->text.p + from, r->at - from);
}

static int template_expr_look_up(struct reader *r, struct str name, struct template_value *ret)
{
    for (const struct template_scope *s = r->scope; s; s = s->parent) {
        if (str_eq(s->name, name)) {
            *ret = s->value;
            return 0;
        }
    }
    return err_set(r->err, ERR_INVALID, "expression \"%.*s\": nothing is called \"%.*s\" here",
                   STR_ARG(r->text), STR_ARG(name));
}

static int template_expr_read_member(struct reader *r, struct template_value *v)
{
    struct str name = template_expr_read_name(r);
    const yyjson_val *found =
        v->type == TEMPLATE_JSON && name.n > 0 ? json_get(v->json, name) : NULL;
    if (!found)
        return template_expr_set_error(r, "there is no such field");
    *v = template_value_of(found);
    return 0;
}

static int template_expr_read_index(struct reader *r, struct template_value *v)
{
    struct template_value index;
    int64_t at = 0;
    int code = read_expr(r, &index);
    if (code == 0)
        code = want_number(r, &index, &at);
    if (code != 0)
        return code;
    if (!template_expr_accept_token(r, STR("]")))
        return template_expr_set_error(r, "']' is missing");
    bool list = v->type == TEMPLATE_JSON && json_is_array(v->json);
    const yyjson_val *found = list && at >= 0 ? json_at(v->json, (size_t)at) : NULL;
    if (!found)
        return template_expr_set_error(r, "there is no such item");
    *v = template_value_of(found);
    return 0;
}

static int template_expr_read_word(struct reader *r, struct template_value *ret)
{
    struct str name = template_expr_read_name(r);
    if (name.n == 0)
        return template_expr_set_error(r, "a number, a name, 'text' or ( is needed here");
    if (str_eq(name, STR("true")) || str_eq(name, STR("false"))) {
        *ret = template_expr_from_bool(name.n == 4);
        return 0;
    }
    int code = template_expr_accept_token(r, STR("(")) ? read_call(r, name, ret)
                                                       : template_expr_look_up(r, name, ret);
    while (code == 0) {
        if (template_expr_accept_token(r, STR(".")))
            code = template_expr_read_member(r, ret);
        else if (template_expr_accept_token(r, STR("[")))
            code = template_expr_read_index(r, ret);
        else
            break;
    }
    return code;
}

static int template_expr_read_text(struct reader *r, struct template_value *ret)
{
    size_t from = r->at;
    while (r->at < r->text.n && r->text.p[r->at] != '\'')
        r->at++;
    if (r->at == r->text.n)
        return template_expr_set_error(r, "the closing ' is missing");
    *ret = template_expr_from_text(str_make(r->text.p + from, r->at - from));
    r->at++;
    return 0;
}

static int template_expr_read_number(struct reader *r, struct template_value *ret)
{
    struct str digits = template_expr_read_name(r);
    int64_t n = 0;
    if (str_to_i64(digits, &n) != 0)
        return template_expr_set_error(r, "this is not a whole number");
    *ret = template_expr_from_number(n);
    return 0;
}

static int read_operand(struct reader *r, struct template_value *ret)
{
    if (template_expr_accept_token(r, STR("-"))) {
        int64_t n = 0;
        int code = read_operand(r, ret);
        if (code == 0)
            code = want_number(r, ret, &n);
        if (code == 0 && __builtin_sub_overflow(0, n, &ret->number))
            code = template_expr_set_error(r, "the number is too large");
        return code;
    }
    if (template_expr_accept_token(r, STR("("))) {
        int code = read_expr(r, ret);
        return code == 0 && !template_expr_accept_token(r, STR(")"))
                   ? template_expr_set_error(r, "')' is missing")
                   : code;
    }
    if (template_expr_accept_token(r, STR("'")))
        return template_expr_read_text(r, ret);
    return isdigit((unsigned char)template_expr_peek_char(r)) ? template_expr_read_number(r, ret)
                                                              : template_expr_read_word(r, ret);
}

// --- Operators -----------------------------------------------------------------------------------

static int template_expr_compute_binary(struct reader *r, char op, struct template_value *a,
                                        const struct template_value *b)
{
    if (op == '+' && a->type == TEMPLATE_TEXT && b->type == TEMPLATE_TEXT) {
        a->text = arena_strf(r->arena, "%.*s%.*s", STR_ARG(a->text), STR_ARG(b->text));
        return 0;
    }
    int64_t x = 0;
    int64_t y = 0;
    int code = want_number(r, a, &x);
    if (code == 0)
        code = want_number(r, b, &y);
    if (code != 0)
        return code;
    if (op == '/' || op == '%') {
        if (y == 0 || (x == INT64_MIN && y == -1))
            return template_expr_set_error(r, "this cannot be divided");
        a->number = op == '/' ? x / y : x % y;
        return 0;
    }
    bool over = false;
    switch (op) {
    case '+':
        over = __builtin_add_overflow(x, y, &a->number);
        break;
    case '-':
        over = __builtin_sub_overflow(x, y, &a->number);
        break;
    default:
        over = __builtin_mul_overflow(x, y, &a->number);
        break;
    }
    return over ? template_expr_set_error(r, "the number is too large") : 0;
}

static int read_product(struct reader *r, struct template_value *ret)
{
    int code = read_operand(r, ret);
    while (code == 0 && (template_expr_peek_char(r) == '*' || template_expr_peek_char(r) == '/' ||
                         template_expr_peek_char(r) == '%')) {
        char op = r->text.p[r->at++];
        struct template_value right;
        code = read_operand(r, &right);
        if (code == 0)
            code = template_expr_compute_binary(r, op, ret, &right);
    }
    return code;
}

static int read_sum(struct reader *r, struct template_value *ret)
{
    int code = read_product(r, ret);
    while (code == 0 && (template_expr_peek_char(r) == '+' || template_expr_peek_char(r) == '-')) {
        char op = r->text.p[r->at++];
        struct template_value right;
        code = read_product(r, &right);
        if (code == 0)
            code = template_expr_compute_binary(r, op, ret, &right);
    }
    return code;
}

static int template_expr_compare_values(struct reader *r, struct str op, struct template_value *a,
                                        const struct template_value *b)
{
    if (a->type != b->type || a->type == TEMPLATE_JSON)
        return template_expr_set_error(
            r, "only numbers with numbers and texts with texts can be compared");
    int order = a->type == TEMPLATE_TEXT ? str_cmp(a->text, b->text)
                                         : (a->number > b->number) - (a->number < b->number);
    bool equal_counts = op.n == 2 && op.p[0] != '!';
    bool yes = op.p[0] == '<'   ? order < 0 || (equal_counts && order == 0)
               : op.p[0] == '>' ? order > 0 || (equal_counts && order == 0)
               : op.p[0] == '!' ? order != 0
                                : order == 0;
    *a = template_expr_from_bool(yes);
    return 0;
}

static int read_expr(struct reader *r, struct template_value *ret)
{
    static const struct str ops[] = {STR_INIT("=="), STR_INIT("!="), STR_INIT("<="),
                                     STR_INIT(">="), STR_INIT("<"),  STR_INIT(">")};
    if (++r->nesting > NESTING_MAX)
        return template_expr_set_error(r, "it is nested too deep");
    int code = read_sum(r, ret);
    for (size_t i = 0; code == 0 && i < array_len(ops); i++) {
        if (!template_expr_accept_token(r, ops[i]))
            continue;
        struct template_value right;
        code = read_sum(r, &right);
        if (code == 0)
            code = template_expr_compare_values(r, ops[i], ret, &right);
        break;
    }
    r->nesting--;
    return code;
}

int template_eval(struct str expr, const struct template_scope *scope, struct arena *arena,
                  struct template_value *ret, struct err *err)
{
    struct reader r = {.text = expr, .scope = scope, .arena = arena, .err = err};
    int code = read_expr(&r, ret);
    if (code == 0 && template_expr_peek_char(&r) != '\0')
        code = template_expr_set_error(&r, "this does not belong here");
    return code;
}
