// SPDX-License-Identifier: Apache-2.0
//
// A recursive-descent parser that builds cel-go's tree, macros expanded, and reports its syntax
// errors. Depth is bounded.
#include "cel/front/parse.h"

#include "base/vec.h"
#include "cel/lex.h"
#include "cel/text.h"

#include "base/banned.h"

struct parser {
    struct cel_source *source;
    struct arena *arena;
    struct cel_lexer lexer;
    struct cel_token tok;
    unsigned syntax;
    int expr_depth, relation_depth, calc_depth;
    bool failed; // one syntax error ends the parse: what follows would only be noise
};

struct node_vec VEC(struct cel_node *);

static struct cel_node *parse_expr(struct parser *p);

static void parse_next_token(struct parser *p)
{
    p->tok = cel_lex(&p->lexer);
}

static struct cel_node *error_node(struct parser *p)
{
    return cel_node_new(p->arena, CEL_N_ERROR, p->tok.pos);
}

static struct cel_node *parse_syntax_error(struct parser *p, const char *expecting)
{
    if (!p->failed) {
        struct str got = p->tok.kind == CEL_TOK_EOF ? STR("<EOF>") : p->tok.text;
        cel_issue(p->source, p->tok.pos, "Syntax error: mismatched input '%.*s' expecting %s",
                  STR_ARG(got), expecting);
    }
    p->failed = true;
    return error_node(p);
}

static bool parse_exceeds_depth(struct parser *p, int depth)
{
    if (depth <= CEL_RECURSION_MAX)
        return false;
    if (!p->failed)
        cel_issue(p->source, CEL_NO_POS, "expression recursion limit exceeded: %d",
                  CEL_RECURSION_MAX);
    p->failed = true;
    return true;
}

static bool parse_accept_token(struct parser *p, int kind)
{
    if (p->tok.kind != kind || p->failed)
        return false;
    parse_next_token(p);
    return true;
}

static void parse_expect_token(struct parser *p, int kind, const char *name)
{
    if (!parse_accept_token(p, kind))
        (void)parse_syntax_error(p, name);
}

static uint16_t height_of(const struct cel_node *n)
{
    return n ? n->height : 0;
}

static uint16_t max_height(uint16_t a, uint16_t b)
{
    return a > b ? a : b;
}

// Upstream's visitor refuses trees deeper than the limit; counted adds one level.
static struct cel_node *with_height(struct parser *p, struct cel_node *n, uint16_t below,
                                    bool counted)
{
    n->height = (uint16_t)(below + (counted ? 1 : 0));
    if (n->height > CEL_RECURSION_MAX && !p->failed) {
        cel_issue(p->source, CEL_NO_POS, "max recursion depth exceeded");
        p->failed = true;
    }
    return n;
}

static struct cel_node *call_or_macro(struct parser *p, uint32_t pos, struct str function,
                                      struct cel_node *target, struct cel_nodes args)
{
    struct cel_node_call call = {function, target, args};
    if (p->failed)
        return error_node(p);
    struct cel_node *n = cel_macro_expand(p->source, p->syntax, pos, &call);
    return n ? n : cel_node_call(p->arena, pos, function, target, args);
}

static struct cel_node *parse_new_binary(struct parser *p, uint32_t pos, const char *function,
                                         struct cel_node *l, struct cel_node *r)
{
    struct cel_node *n =
        cel_node_call(p->arena, pos, str_z(function), NULL, cel_nodes_of(p->arena, l, r, NULL));
    return with_height(p, n, max_height(height_of(l), height_of(r)), true);
}

static uint16_t args_height(struct cel_nodes args)
{
    uint16_t h = 0;
    for (uint32_t i = 0; i < args.n; i++)
        h = max_height(h, height_of(args.p[i]));
    return h;
}

// expr (',' expr)* up to ')', which is eaten.
static struct cel_nodes parse_args(struct parser *p)
{
    struct node_vec v = {0};
    if (p->tok.kind != ')') {
        do {
            vec_push_arena(p->arena, &v, parse_expr(p));
        } while (parse_accept_token(p, ','));
    }
    parse_expect_token(p, ')', "')'");
    return (struct cel_nodes){v.p, (uint32_t)v.n};
}

static bool is_reserved(struct str w)
{
    static const char *const words[] = {
        "as",        "break", "const",  "continue", "else", "false", "for",
        "function",  "if",    "import", "in",       "let",  "loop",  "package",
        "namespace", "null",  "return", "true",     "var",  "void",  "while",
    };
    for (size_t i = 0; i < array_len(words); i++)
        if (str_eqz(w, words[i]))
            return true;
    return false;
}

static struct cel_node *issue_node(struct parser *p, uint32_t pos, const char *text, struct str w)
{
    cel_issue(p->source, pos, "%s%.*s", text, STR_ARG(w));
    return cel_node_new(p->arena, CEL_N_ERROR, pos);
}

// The names of a.b.c before '{', when that is what comes: a message literal.
static bool scan_message(struct parser *p, struct str first, struct str *ret_name)
{
    struct cel_lexer saved_lexer = p->lexer;
    struct cel_token saved_tok = p->tok;
    size_t issues = p->source->issues.n;
    cleanup_sbuf struct sbuf name = {0};
    sbuf_add(&name, first);
    bool is_message = false;
    for (;;) {
        if (p->tok.kind == '{') {
            is_message = true;
            break;
        }
        if (p->tok.kind != '.')
            break;
        parse_next_token(p);
        if (p->tok.kind != CEL_TOK_IDENT)
            break;
        sbuf_addc(&name, '.');
        sbuf_add(&name, p->tok.text);
        parse_next_token(p);
    }
    if (is_message) {
        *ret_name = arena_str(p->arena, sbuf_str(&name));
        return true;
    }
    p->lexer = saved_lexer;
    p->tok = saved_tok;
    p->source->issues.n = issues;
    return false;
}

static bool optional_mark(struct parser *p)
{
    if (p->tok.kind != '?')
        return false;
    if (!(p->syntax & CEL_SYNTAX_OPTIONAL))
        cel_issue(p->source, p->tok.pos, "unsupported syntax '?'");
    parse_next_token(p);
    return true;
}

struct entry_vecs {
    struct node_vec keys, values;
    struct {
        bool *p;
        size_t n, cap;
    } optional;
    struct {
        struct str *p;
        size_t n, cap;
    } fields;
    struct {
        uint32_t *p;
        size_t n, cap;
    } pos;
};

static struct cel_node *finish_entries(struct parser *p, enum cel_node_kind kind, uint32_t pos,
                                       struct str type_name, struct entry_vecs *v)
{
    struct cel_node *n = cel_node_new(p->arena, kind, pos);
    n->entries =
        (struct cel_node_entries){type_name,     v->keys.p, v->fields.p,          v->values.p,
                                  v->optional.p, v->pos.p,  (uint32_t)v->values.n};
    uint16_t h = 0;
    for (size_t i = 0; i < v->keys.n; i++)
        h = max_height(h, height_of(v->keys.p[i]));
    for (size_t i = 0; i < v->values.n; i++)
        h = max_height(h, height_of(v->values.p[i]));
    return with_height(p, n, h, false);
}

static struct cel_node *parse_message(struct parser *p, struct str name)
{
    uint32_t pos = p->tok.pos;
    struct entry_vecs v = {0};
    parse_next_token(p);
    while (p->tok.kind != '}' && !p->failed) {
        vec_push_arena(p->arena, &v.optional, optional_mark(p));
        if (p->tok.kind != CEL_TOK_IDENT && p->tok.kind != CEL_TOK_QUOTED_IDENT)
            return parse_syntax_error(p, "IDENTIFIER");
        struct str field = p->tok.text;
        if (p->tok.kind == CEL_TOK_QUOTED_IDENT)
            field = str_make(field.p + 1, field.n - 2);
        vec_push_arena(p->arena, &v.fields, field);
        parse_next_token(p);
        vec_push_arena(p->arena, &v.pos, p->tok.pos);
        parse_expect_token(p, ':', "':'");
        vec_push_arena(p->arena, &v.values, parse_expr(p));
        if (!parse_accept_token(p, ','))
            break;
    }
    parse_expect_token(p, '}', "'}'");
    return finish_entries(p, CEL_N_STRUCT, pos, name, &v);
}

static struct cel_node *parse_map(struct parser *p)
{
    uint32_t pos = p->tok.pos;
    struct entry_vecs v = {0};
    parse_next_token(p);
    bool lone_comma = p->tok.kind == ',';
    if (lone_comma)
        parse_next_token(p);
    while (!lone_comma && p->tok.kind != '}' && !p->failed) {
        vec_push_arena(p->arena, &v.optional, optional_mark(p));
        vec_push_arena(p->arena, &v.keys, parse_expr(p));
        vec_push_arena(p->arena, &v.pos, p->tok.pos);
        parse_expect_token(p, ':', "':'");
        vec_push_arena(p->arena, &v.values, parse_expr(p));
        if (!parse_accept_token(p, ','))
            break;
    }
    parse_expect_token(p, '}', "'}'");
    return finish_entries(p, CEL_N_MAP, pos, (struct str){0}, &v);
}

static struct cel_node *parse_list(struct parser *p)
{
    struct cel_node *n = cel_node_new(p->arena, CEL_N_LIST, p->tok.pos);
    struct node_vec v = {0};
    struct {
        bool *p;
        size_t n, cap;
    } optional = {0};
    bool any = false;
    parse_next_token(p);
    bool lone_comma = p->tok.kind == ',';
    if (lone_comma)
        parse_next_token(p);
    while (!lone_comma && p->tok.kind != ']' && !p->failed) {
        bool opt = optional_mark(p);
        any = any || opt;
        vec_push_arena(p->arena, &optional, opt);
        vec_push_arena(p->arena, &v, parse_expr(p));
        if (!parse_accept_token(p, ','))
            break;
    }
    parse_expect_token(p, ']', "']'");
    n->list.elems = (struct cel_nodes){v.p, (uint32_t)v.n};
    n->list.optional = any ? optional.p : NULL;
    return with_height(p, n, args_height(n->list.elems), false);
}

static struct cel_node *parse_new_literal(struct parser *p, uint32_t pos, struct cel_val v)
{
    parse_next_token(p);
    return cel_node_literal(p->arena, pos, v);
}

static bool read_u64(struct str s, uint64_t *ret)
{
    if (!str_starts(s, STR("0x")))
        return str_to_u64(s, ret) == 0;
    uint64_t v = 0;
    for (size_t i = 2; i < s.n; i++) {
        char c = s.p[i];
        unsigned d = (unsigned)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
        if (v >> 60)
            return false;
        v = v << 4 | d;
    }
    *ret = v;
    return true;
}

static struct cel_node *parse_number_literal(struct parser *p, bool negative, uint32_t pos)
{
    struct str text = p->tok.text;
    int kind = p->tok.kind;
    parse_next_token(p);
    if (kind == CEL_TOK_DOUBLE) {
        double d;
        if (!cel_text_read_double(text, &d))
            return issue_node(p, pos, "invalid double literal", (struct str){0});
        return cel_node_literal(p->arena, pos, cel_double(negative ? -d : d));
    }
    uint64_t u;
    if (kind == CEL_TOK_UINT)
        text.n--;
    bool ok = read_u64(text, &u);
    if (kind == CEL_TOK_UINT) {
        if (!ok)
            return issue_node(p, pos, "invalid uint literal", (struct str){0});
        return cel_node_literal(p->arena, pos, cel_uint(u));
    }
    if (!ok || u > (uint64_t)INT64_MAX + (negative ? 1 : 0))
        return issue_node(p, pos, "invalid int literal", (struct str){0});
    return cel_node_literal(p->arena, pos, cel_int((int64_t)(negative ? 0 - u : u)));
}

static struct cel_node *parse_string(struct parser *p)
{
    uint32_t pos = p->tok.pos;
    bool bytes = p->tok.kind == CEL_TOK_BYTES;
    struct str value;
    const char *why = NULL;
    if (!cel_unescape(p->arena, str_from(p->tok.text, bytes ? 1 : 0), bytes, &value, &why)) {
        parse_next_token(p);
        return issue_node(p, pos, why, (struct str){0});
    }
    return parse_new_literal(p, pos, bytes ? cel_bytes(value) : cel_string(value));
}

static struct cel_node *parse_name(struct parser *p)
{
    uint32_t pos = p->tok.pos;
    bool dot = parse_accept_token(p, '.');
    if (p->tok.kind != CEL_TOK_IDENT)
        return parse_syntax_error(p, "IDENTIFIER");
    struct str word = p->tok.text;
    uint32_t word_pos = p->tok.pos;
    struct str name = dot ? arena_strf(p->arena, ".%.*s", STR_ARG(word)) : word;
    parse_next_token(p);
    struct str message;
    if ((p->tok.kind == '.' || p->tok.kind == '{') && scan_message(p, name, &message))
        return parse_message(p, message);
    if (p->tok.kind == '(') {
        uint32_t open = p->tok.pos;
        parse_next_token(p);
        struct cel_nodes args = parse_args(p);
        if (is_reserved(word))
            return issue_node(p, pos, "reserved identifier: ", word);
        struct cel_node *n = call_or_macro(p, open, name, NULL, args);
        return with_height(p, n, args_height(args), false);
    }
    if (is_reserved(word))
        return issue_node(p, pos, "reserved identifier: ", word);
    return cel_node_ident(p->arena, word_pos, name);
}

static struct cel_node *parse_primary(struct parser *p)
{
    uint32_t pos = p->tok.pos;
    switch (p->tok.kind) {
    case CEL_TOK_INT:
    case CEL_TOK_UINT:
    case CEL_TOK_DOUBLE:
        return parse_number_literal(p, false, pos);
    case CEL_TOK_STRING:
    case CEL_TOK_BYTES:
        return parse_string(p);
    case CEL_TOK_TRUE:
    case CEL_TOK_FALSE:
        return parse_new_literal(p, pos, cel_bool(p->tok.kind == CEL_TOK_TRUE));
    case CEL_TOK_NULL:
        return parse_new_literal(p, pos, cel_null);
    case '(': {
        parse_next_token(p);
        struct cel_node *n = parse_expr(p);
        parse_expect_token(p, ')', "')'");
        return n;
    }
    case '[':
        return parse_list(p);
    case '{':
        return parse_map(p);
    case '.':
    case CEL_TOK_IDENT:
        return parse_name(p);
    default:
        return parse_syntax_error(
            p, "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT,"
               " NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}");
    }
}

static bool field_name(struct parser *p, struct str *ret)
{
    *ret = p->tok.text;
    if (p->tok.kind == CEL_TOK_IDENT) {
        parse_next_token(p);
        return true;
    }
    if (p->tok.kind != CEL_TOK_QUOTED_IDENT)
        return false;
    if (!(p->syntax & CEL_SYNTAX_QUOTED))
        cel_issue(p->source, p->tok.pos, "unsupported syntax: '`'");
    *ret = str_make(p->tok.text.p + 1, p->tok.text.n - 2);
    parse_next_token(p);
    return true;
}

// `true`, `false`, `null` and `in` are tokens of their own and no field names; the other reserved
// words are identifiers to the lexer and may be fields.
static struct cel_node *parse_dot(struct parser *p, struct cel_node *operand)
{
    uint32_t dot = p->tok.pos;
    parse_next_token(p);
    bool optional = p->tok.kind == '?';
    if (optional)
        parse_next_token(p);
    bool plain = p->tok.kind == CEL_TOK_IDENT;
    uint32_t name_pos = p->tok.pos;
    struct str field;
    if (!field_name(p, &field))
        return parse_syntax_error(p, "IDENTIFIER");
    if (optional && !(p->syntax & CEL_SYNTAX_OPTIONAL))
        return issue_node(p, dot, "unsupported syntax '.?'", (struct str){0});
    struct cel_node *n;
    if (!optional && plain && p->tok.kind == '(') {
        uint32_t open = p->tok.pos;
        parse_next_token(p);
        struct cel_nodes args = parse_args(p);
        n = call_or_macro(p, open, field, operand, args);
        return with_height(p, n, max_height(height_of(operand), args_height(args)), true);
    }
    if (optional) {
        struct cel_node *name = cel_node_literal(p->arena, name_pos, cel_string(field));
        n = cel_node_call(p->arena, dot, STR(CEL_OP_OPT_SELECT), NULL,
                          cel_nodes_of(p->arena, operand, name, NULL));
    } else {
        n = cel_node_new(p->arena, CEL_N_SELECT, dot);
        n->select.operand = operand;
        n->select.field = field;
    }
    return with_height(p, n, height_of(operand), true);
}

static struct cel_node *parse_index(struct parser *p, struct cel_node *operand)
{
    uint32_t pos = p->tok.pos;
    parse_next_token(p);
    bool optional = parse_accept_token(p, '?');
    if (optional && !(p->syntax & CEL_SYNTAX_OPTIONAL))
        return issue_node(p, pos, "unsupported syntax '[?'", (struct str){0});
    struct cel_node *index = parse_expr(p);
    parse_expect_token(p, ']', "']'");
    return parse_new_binary(p, pos, optional ? CEL_OP_OPT_INDEX : CEL_OP_INDEX, operand, index);
}

static struct cel_node *parse_suffixes(struct parser *p, struct cel_node *n)
{
    while (!p->failed) {
        if (p->tok.kind == '.')
            n = parse_dot(p, n);
        else if (p->tok.kind == '[')
            n = parse_index(p, n);
        else
            break;
    }
    return n;
}

static struct cel_node *parse_member(struct parser *p)
{
    return parse_suffixes(p, parse_primary(p));
}

static struct cel_node *parse_new_unary(struct parser *p, uint32_t pos, const char *op,
                                        struct cel_node *x)
{
    struct cel_node *n =
        cel_node_call(p->arena, pos, str_z(op), NULL, cel_nodes_of(p->arena, x, NULL, NULL));
    return with_height(p, n, height_of(x), false);
}

static struct cel_node *parse_unary(struct parser *p)
{
    uint32_t pos = p->tok.pos;
    int op = p->tok.kind;
    if (op != '!' && op != '-')
        return parse_member(p);
    size_t count = 0;
    while (p->tok.kind == op && !p->failed) {
        count++;
        parse_next_token(p);
    }
    if (op == '-' && count == 1 && (p->tok.kind == CEL_TOK_INT || p->tok.kind == CEL_TOK_DOUBLE))
        return parse_suffixes(p, parse_number_literal(p, true, pos));
    struct cel_node *x = parse_member(p);
    if (count % 2 == 0)
        return x;
    return parse_new_unary(p, pos, op == '!' ? CEL_OP_NOT : CEL_OP_NEG, x);
}

static const char *calc_op(int kind, int *ret_prec)
{
    switch (kind) {
    case '*':
        *ret_prec = 2;
        return "_*_";
    case '/':
        *ret_prec = 2;
        return "_/_";
    case '%':
        *ret_prec = 2;
        return "_%_";
    case '+':
        *ret_prec = 1;
        return "_+_";
    case '-':
        *ret_prec = 1;
        return "_-_";
    default:
        return NULL;
    }
}

static struct cel_node *parse_calc(struct parser *p, int min_prec)
{
    if (parse_exceeds_depth(p, ++p->calc_depth)) {
        p->calc_depth--;
        return error_node(p);
    }
    struct cel_node *l = parse_unary(p);
    int prec;
    const char *op;
    while (!p->failed && (op = calc_op(p->tok.kind, &prec)) && prec >= min_prec) {
        uint32_t pos = p->tok.pos;
        parse_next_token(p);
        l = parse_new_binary(p, pos, op, l, parse_calc(p, prec + 1));
    }
    p->calc_depth--;
    return l;
}

static const char *relation_op(int kind)
{
    switch (kind) {
    case '<':
        return "_<_";
    case '>':
        return "_>_";
    case CEL_TOK_LE:
        return "_<=_";
    case CEL_TOK_GE:
        return "_>=_";
    case CEL_TOK_EQ:
        return "_==_";
    case CEL_TOK_NE:
        return "_!=_";
    case CEL_TOK_IN:
        return CEL_OP_IN;
    default:
        return NULL;
    }
}

static struct cel_node *parse_relation(struct parser *p)
{
    if (parse_exceeds_depth(p, ++p->relation_depth)) {
        p->relation_depth--;
        return error_node(p);
    }
    struct cel_node *l = parse_calc(p, 1);
    const char *op;
    while (!p->failed && (op = relation_op(p->tok.kind))) {
        uint32_t pos = p->tok.pos;
        parse_next_token(p);
        // The right side is a relation of its own to upstream's depth count.
        p->relation_depth++;
        bool deep = parse_exceeds_depth(p, p->relation_depth);
        l = parse_new_binary(p, pos, op, l, deep ? error_node(p) : parse_calc(p, 1));
        p->relation_depth--;
    }
    p->relation_depth--;
    return l;
}

// A chain of one logical operator: terms and the operators' positions between them.
struct chain {
    struct node_vec terms;
    struct {
        uint32_t *p;
        size_t n, cap;
    } ops;
    const char *function;
};

static struct cel_node *parse_balance_chain(struct parser *p, const struct chain *c, size_t lo,
                                            size_t hi)
{
    size_t mid = (lo + hi + 1) / 2;
    struct cel_node *l = mid == lo ? c->terms.p[mid] : parse_balance_chain(p, c, lo, mid - 1);
    struct cel_node *r = mid == hi ? c->terms.p[mid + 1] : parse_balance_chain(p, c, mid + 1, hi);
    struct cel_node *n = cel_node_call(p->arena, c->ops.p[mid], str_z(c->function), NULL,
                                       cel_nodes_of(p->arena, l, r, NULL));
    n->height = max_height(height_of(l), height_of(r));
    return n;
}

static struct cel_node *parse_chain(struct parser *p, int op, const char *function,
                                    struct cel_node *(*term)(struct parser *))
{
    struct cel_node *first = term(p);
    if (p->tok.kind != op || p->failed)
        return first;
    struct chain c = {.function = function};
    vec_push_arena(p->arena, &c.terms, first);
    while (p->tok.kind == op && !p->failed) {
        vec_push_arena(p->arena, &c.ops, p->tok.pos);
        parse_next_token(p);
        vec_push_arena(p->arena, &c.terms, term(p));
    }
    return parse_balance_chain(p, &c, 0, c.ops.n - 1);
}

static struct cel_node *parse_and(struct parser *p)
{
    return parse_chain(p, CEL_TOK_AND, CEL_OP_AND, parse_relation);
}

static struct cel_node *parse_or(struct parser *p)
{
    return parse_chain(p, CEL_TOK_OR, CEL_OP_OR, parse_and);
}

static struct cel_node *parse_expr(struct parser *p)
{
    if (p->failed || parse_exceeds_depth(p, ++p->expr_depth))
        return error_node(p);
    struct cel_node *n = parse_or(p);
    if (p->tok.kind == '?' && !p->failed) {
        uint32_t pos = p->tok.pos;
        parse_next_token(p);
        struct cel_node *yes = parse_or(p);
        parse_expect_token(p, ':', "':'");
        struct cel_node *no = parse_expr(p);
        uint16_t h = max_height(height_of(n), max_height(height_of(yes), height_of(no)));
        n = cel_node_call(p->arena, pos, STR(CEL_OP_COND), NULL,
                          cel_nodes_of(p->arena, n, yes, no));
        (void)with_height(p, n, h, true);
    }
    p->expr_depth--;
    return n;
}

struct cel_node *cel_parse(struct cel_source *source, unsigned syntax)
{
    if (source->code_points > CEL_CODE_POINTS_MAX) {
        cel_issue(source, CEL_NO_POS,
                  "expression code point size exceeds limit: size: %u, limit %d",
                  source->code_points, CEL_CODE_POINTS_MAX);
        return NULL;
    }
    struct parser p = {
        .source = source, .arena = source->arena, .lexer = {source, 0, 0}, .syntax = syntax};
    parse_next_token(&p);
    struct cel_node *n = parse_expr(&p);
    if (!p.failed && p.tok.kind != CEL_TOK_EOF)
        (void)parse_syntax_error(&p, "<EOF>");
    return source->issues.n ? NULL : n;
}
