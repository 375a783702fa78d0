// SPDX-License-Identifier: Apache-2.0
//
// The lexer: numbers, strings and bytes with their escapes, identifiers and operators.
#include "cel/lex.h"

#include "base/str.h"
#include "base/utf8.h"

#include "base/banned.h"

static int lex_char_at(const struct cel_lexer *l, size_t ahead)
{
    size_t i = l->off + ahead;
    return i < l->source->text.n ? (unsigned char)l->source->text.p[i] : -1;
}

// Moves over n bytes, counting code points.
static void lex_move_ahead(struct cel_lexer *l, size_t n)
{
    struct str t = l->source->text;
    size_t end = l->off + n < t.n ? l->off + n : t.n;
    if (l->source->ascii) {
        l->pos += (uint32_t)(end - l->off);
        l->off = end;
        return;
    }
    while (l->off < end) {
        size_t len = 1;
        (void)utf8_decode(t, l->off, &len);
        l->off += len;
        l->pos++;
    }
}

static bool lex_is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static bool lex_is_hex(int c)
{
    return lex_is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_ident_start(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_ident(int c)
{
    return is_ident_start(c) || lex_is_digit(c);
}

static void lex_skip_space(struct cel_lexer *l)
{
    for (;;) {
        int c = lex_char_at(l, 0);
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f') {
            lex_move_ahead(l, 1);
        } else if (c == '/' && lex_char_at(l, 1) == '/') {
            size_t n = 2;
            while (lex_char_at(l, n) >= 0 && lex_char_at(l, n) != '\n')
                n++;
            lex_move_ahead(l, n);
        } else {
            return;
        }
    }
}

static size_t digits_from(const struct cel_lexer *l, size_t n)
{
    while (lex_is_digit(lex_char_at(l, n)))
        n++;
    return n;
}

static size_t exponent_from(const struct cel_lexer *l, size_t n)
{
    int c = lex_char_at(l, n);
    if (c != 'e' && c != 'E')
        return n;
    size_t m = n + 1;
    if (lex_char_at(l, m) == '+' || lex_char_at(l, m) == '-')
        m++;
    return lex_is_digit(lex_char_at(l, m)) ? digits_from(l, m) : n;
}

static size_t lex_number(const struct cel_lexer *l, int *ret_kind)
{
    if (lex_char_at(l, 0) == '0' && lex_char_at(l, 1) == 'x' && lex_is_hex(lex_char_at(l, 2))) {
        size_t n = 3;
        while (lex_is_hex(lex_char_at(l, n)))
            n++;
        bool u = lex_char_at(l, n) == 'u' || lex_char_at(l, n) == 'U';
        *ret_kind = u ? CEL_TOK_UINT : CEL_TOK_INT;
        return n + u;
    }
    size_t n = digits_from(l, 0);
    size_t whole = n;
    if (lex_char_at(l, n) == '.' && lex_is_digit(lex_char_at(l, n + 1)))
        n = digits_from(l, n + 1);
    n = exponent_from(l, n);
    if (n != whole) {
        *ret_kind = CEL_TOK_DOUBLE;
        return n;
    }
    bool u = lex_char_at(l, n) == 'u' || lex_char_at(l, n) == 'U';
    *ret_kind = u ? CEL_TOK_UINT : CEL_TOK_INT;
    return n + u;
}

// Length of a string that starts with a quote at `from`, or 0 when it does not end.
static size_t string_end(const struct cel_lexer *l, size_t from, bool raw)
{
    int q = lex_char_at(l, from);
    bool triple = lex_char_at(l, from + 1) == q && lex_char_at(l, from + 2) == q;
    size_t n = from + (triple ? 3 : 1);
    for (;; n++) {
        int c = lex_char_at(l, n);
        if (c < 0 || (!triple && (c == '\n' || c == '\r')))
            return 0;
        if (c == '\\' && !raw) {
            if (lex_char_at(l, n + 1) < 0)
                return 0;
            n++;
            continue;
        }
        if (c != q)
            continue;
        if (!triple)
            return n + 1;
        if (lex_char_at(l, n + 1) == q && lex_char_at(l, n + 2) == q)
            return n + 3;
    }
}

// The length of a string or bytes token here, 0 when there is none.
static size_t lex_string(const struct cel_lexer *l, int *ret_kind)
{
    size_t n = 0;
    bool bytes = false;
    bool raw = false;
    for (; n < 2; n++) {
        int c = lex_char_at(l, n);
        if ((c == 'b' || c == 'B') && !bytes && !raw)
            bytes = true;
        else if ((c == 'r' || c == 'R') && !raw)
            raw = true;
        else
            break;
    }
    if (lex_char_at(l, n) != '"' && lex_char_at(l, n) != '\'')
        return 0;
    *ret_kind = bytes ? CEL_TOK_BYTES : CEL_TOK_STRING;
    size_t end = string_end(l, n, raw);
    // An empty string is what remains of an unclosed """ or of ''' behind two quotes.
    if (!end && lex_char_at(l, n + 1) == lex_char_at(l, n))
        end = n + 2;
    return end;
}

static size_t lex_operator(const struct cel_lexer *l, int *ret_kind)
{
    static const struct {
        char text[3];
        int kind;
    } twos[] = {{"==", CEL_TOK_EQ}, {"!=", CEL_TOK_NE},  {"<=", CEL_TOK_LE},
                {">=", CEL_TOK_GE}, {"&&", CEL_TOK_AND}, {"||", CEL_TOK_OR}};
    int c = lex_char_at(l, 0);
    for (size_t i = 0; i < array_len(twos); i++) {
        if (c == twos[i].text[0] && lex_char_at(l, 1) == twos[i].text[1]) {
            *ret_kind = twos[i].kind;
            return 2;
        }
    }
    if (c > 0 && strchr("<>[]{}().,-!?:+*/%", c)) {
        *ret_kind = c;
        return 1;
    }
    return 0;
}

static size_t lex_quoted_ident(const struct cel_lexer *l)
{
    size_t n = 1;
    while (is_ident(lex_char_at(l, n)) || lex_char_at(l, n) == '.' || lex_char_at(l, n) == '-' ||
           lex_char_at(l, n) == '/' || lex_char_at(l, n) == ' ')
        n++;
    return lex_char_at(l, n) == '`' && n > 1 ? n + 1 : 0;
}

static int word_kind(struct str w)
{
    if (str_eqz(w, "true"))
        return CEL_TOK_TRUE;
    if (str_eqz(w, "false"))
        return CEL_TOK_FALSE;
    if (str_eqz(w, "null"))
        return CEL_TOK_NULL;
    return str_eqz(w, "in") ? CEL_TOK_IN : CEL_TOK_IDENT;
}

static size_t lex_one(const struct cel_lexer *l, int *ret_kind)
{
    int c = lex_char_at(l, 0);
    size_t n = lex_string(l, ret_kind);
    if (n)
        return n;
    if (lex_is_digit(c) || (c == '.' && lex_is_digit(lex_char_at(l, 1))))
        return lex_number(l, ret_kind);
    if (is_ident_start(c)) {
        n = 1;
        while (is_ident(lex_char_at(l, n)))
            n++;
        *ret_kind = word_kind(str_make(l->source->text.p + l->off, n));
        return n;
    }
    if (c == '`') {
        *ret_kind = CEL_TOK_QUOTED_IDENT;
        return lex_quoted_ident(l);
    }
    return lex_operator(l, ret_kind);
}

struct cel_token cel_lex(struct cel_lexer *l)
{
    for (;;) {
        lex_skip_space(l);
        struct cel_token t = {CEL_TOK_EOF, l->pos, {l->source->text.p + l->off, 0}};
        if (lex_char_at(l, 0) < 0)
            return t;
        size_t n = lex_one(l, &t.kind);
        if (n) {
            t.text.n = n;
            lex_move_ahead(l, n);
            return t;
        }
        // An unterminated string is skipped whole; anything else one character at a time.
        size_t len = 1;
        (void)utf8_decode(l->source->text, l->off, &len);
        int c = lex_char_at(l, 0);
        if (c == '"' || c == '\'') {
            while (lex_char_at(l, len) >= 0 && lex_char_at(l, len) != '\n')
                len++;
        }
        cel_issue(l->source, l->pos, "Syntax error: token recognition error at: '%.*s'", (int)len,
                  l->source->text.p + l->off);
        lex_move_ahead(l, len);
    }
}

// Reads n digits of a base at s[*i]; -1 when one is missing.
static int64_t read_digits(struct str s, size_t *i, size_t n, int base)
{
    int64_t v = 0;
    for (size_t k = 0; k < n; k++, (*i)++) {
        int d = *i < s.n ? str_hex_digit(s.p[*i]) : -1;
        if (d < 0 || d >= base)
            return -1;
        v = v * base + d;
    }
    return v;
}

static int simple_escape(char c)
{
    static const char from[] = "abfnrtv\\'\"`?";
    static const char to[] = "\a\b\f\n\r\t\v\\'\"`?";
    const char *at_from = c ? strchr(from, c) : NULL;
    return at_from ? (unsigned char)to[at_from - from] : -1;
}

// One escape behind the backslash at s[*i]. Adds its bytes to out.
static const char *unescape_one(struct str s, size_t *i, bool bytes, struct sbuf *out)
{
    if (*i >= s.n)
        return "unable to unescape string, found '\\' as last character";
    char c = s.p[(*i)++];
    int simple = simple_escape(c);
    if (simple >= 0) {
        sbuf_addc(out, (char)simple);
        return NULL;
    }
    int64_t v;
    switch (c) {
    case 'x':
    case 'X':
        v = read_digits(s, i, 2, 16);
        break;
    case 'u':
    case 'U':
        if (bytes)
            return "unable to unescape string";
        v = read_digits(s, i, c == 'u' ? 4 : 8, 16);
        if (v >= 0xD800 && v <= 0xDFFF)
            return "invalid unicode code point";
        break;
    case '0':
    case '1':
    case '2':
    case '3':
        (*i)--;
        v = read_digits(s, i, 3, 8);
        break;
    default:
        return "unable to unescape string";
    }
    if (v < 0)
        return "unable to unescape string";
    if (v > 0x10FFFF)
        return "invalid unicode code point";
    if (bytes)
        sbuf_addc(out, (char)v);
    else
        sbuf_add_utf8(out, (uint32_t)v);
    return NULL;
}

bool cel_unescape(struct arena *a, struct str token, bool bytes, struct str *ret,
                  const char **ret_why)
{
    bool raw = token.p[0] == 'r' || token.p[0] == 'R';
    struct str s = str_from(token, raw ? 1 : 0);
    bool triple = s.n >= 6 && s.p[1] == s.p[0] && s.p[2] == s.p[0];
    size_t quote = triple ? 3 : 1;
    s = str_make(s.p + quote, s.n - 2 * quote);
    bool plain = true;
    for (size_t i = 0; i < s.n && plain; i++)
        plain = s.p[i] != '\r' && (raw || s.p[i] != '\\') && (unsigned char)s.p[i] < 0x80;
    if (plain) {
        *ret = arena_str(a, s);
        return true;
    }
    cleanup_sbuf struct sbuf out = {0};
    for (size_t i = 0; i < s.n;) {
        if (s.p[i] == '\r') { // line ends are one newline, as in Go source
            i += i + 1 < s.n && s.p[i + 1] == '\n' ? 2 : 1;
            sbuf_addc(&out, '\n');
        } else if (s.p[i] == '\\' && !raw) {
            i++;
            *ret_why = unescape_one(s, &i, bytes, &out);
            if (*ret_why)
                return false;
        } else {
            size_t len = 1;
            uint32_t cp = utf8_decode(s, i, &len);
            sbuf_add_utf8(&out, cp);
            i += len;
        }
    }
    *ret = arena_str(a, sbuf_str(&out));
    return true;
}
