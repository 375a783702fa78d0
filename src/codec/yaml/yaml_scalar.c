// SPDX-License-Identifier: Apache-2.0
//
// What a plain scalar means. The rules are go-yaml v2's, quirks included, because a manifest must
// mean here what it means to kubectl.
#include <assert.h>
#include <math.h>
#include <yyjson.h>

#include "codec/yaml/yaml_int.h"

#include "base/banned.h"

static bool yaml_scalar_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// Whether text is word in small letters, in capitals, or with a capital first letter.
static bool yaml_scalar_is_word(struct str text, const char *word)
{
    size_t n = strlen(word);
    if (text.n != n)
        return false;
    bool lower = true, upper = true, title = true;
    for (size_t i = 0; i < n; i++) {
        char big = word[i] >= 'a' && word[i] <= 'z' ? (char)(word[i] - 32) : word[i];
        lower = lower && text.p[i] == word[i];
        upper = upper && text.p[i] == big;
        title = title && text.p[i] == (i == 0 ? big : word[i]);
    }
    return lower || upper || title;
}

// .inf and .nan are spelled .inf .Inf .INF, .nan .NaN .NAN.
static bool is_special_float(struct str text, double *ret)
{
    double sign = 1;
    struct str rest = text;
    if (rest.n == 5 && (rest.p[0] == '+' || rest.p[0] == '-')) {
        sign = rest.p[0] == '-' ? -1 : 1;
        rest = str_from(rest, 1);
    }
    if (rest.n != 4 || rest.p[0] != '.')
        return false;
    rest = str_from(rest, 1);
    if (yaml_scalar_is_word(rest, "inf")) {
        *ret = sign * (double)INFINITY;
        return true;
    }
    bool nan_word = str_eqz(rest, "nan") || str_eqz(rest, "NaN") || str_eqz(rest, "NAN");
    if (!nan_word || text.n == 5)
        return false;
    *ret = (double)NAN;
    return true;
}

// The words of YAML 1.1.
static bool resolve_word(struct str text, struct yaml_scalar *ret)
{
    static const char *const yes[] = {"y", "yes", "true", "on"};
    static const char *const no[] = {"n", "no", "false", "off"};
    for (size_t i = 0; i < array_len(yes); i++) {
        bool truth = yaml_scalar_is_word(text, yes[i]);
        if (truth || yaml_scalar_is_word(text, no[i])) {
            *ret = (struct yaml_scalar){.kind = YAML_BOOL, .truth = truth};
            return true;
        }
    }
    if (text.n == 0 || str_eqz(text, "~") || yaml_scalar_is_word(text, "null")) {
        *ret = (struct yaml_scalar){.kind = YAML_NULL};
        return true;
    }
    double f;
    if (is_special_float(text, &f)) {
        *ret = (struct yaml_scalar){.kind = YAML_FLOAT, .f = f};
        return true;
    }
    return false;
}

static int digit_value(char c)
{
    if (yaml_scalar_is_digit(c))
        return c - '0';
    char low = (char)(c | 0x20);
    return low >= 'a' && low <= 'z' ? low - 'a' + 10 : 99;
}

// Digits of a base, all of s. False when something else is there or it does not fit.
static bool parse_magnitude(struct str s, unsigned base, uint64_t *ret)
{
    uint64_t v = 0;
    for (size_t i = 0; i < s.n; i++) {
        int d = digit_value(s.p[i]);
        if (d >= (int)base || __builtin_mul_overflow(v, base, &v) ||
            __builtin_add_overflow(v, (uint64_t)d, &v))
            return false;
    }
    *ret = v;
    return true;
}

// An unsigned integer with Go's prefixes; a leading 0 alone means octal.
static bool parse_prefixed(struct str s, uint64_t *ret)
{
    if (s.n == 0)
        return false;
    if (s.p[0] != '0')
        return parse_magnitude(s, 10, ret);
    char letter = s.n >= 3 ? (char)(s.p[1] | 0x20) : '\0';
    if (letter == 'b')
        return parse_magnitude(str_from(s, 2), 2, ret);
    if (letter == 'o')
        return parse_magnitude(str_from(s, 2), 8, ret);
    if (letter == 'x')
        return parse_magnitude(str_from(s, 2), 16, ret);
    return parse_magnitude(str_from(s, 1), 8, ret);
}

// A signed integer out of sign and magnitude, if it fits.
static bool make_signed(bool negative, uint64_t magnitude, struct yaml_scalar *ret)
{
    if (magnitude > (uint64_t)INT64_MAX + negative)
        return false;
    *ret = (struct yaml_scalar){.kind = YAML_INT,
                                .i = (int64_t)(negative ? 0 - magnitude : magnitude)};
    return true;
}

static bool resolve_int(struct str s, struct yaml_scalar *ret)
{
    bool sign = s.n && (s.p[0] == '+' || s.p[0] == '-');
    uint64_t v;
    if (parse_prefixed(str_from(s, sign), &v)) {
        if (make_signed(sign && s.p[0] == '-', v, ret))
            return true;
        if (!sign) {
            *ret = (struct yaml_scalar){.kind = YAML_UINT, .u = v};
            return true;
        }
        return false;
    }
    // A leftover of go-yaml's: a sign behind the binary prefix.
    if (s.n > 3 && str_starts(s, STR("0b")) && (s.p[2] == '-' || s.p[2] == '+'))
        return parse_magnitude(str_from(s, 3), 2, &v) && make_signed(s.p[2] == '-', v, ret);
    return false;
}

static size_t count_digits(struct str s, size_t from)
{
    size_t n = 0;
    while (from + n < s.n && yaml_scalar_is_digit(s.p[from + n]))
        n++;
    return n;
}

// [-+]? ( .digits | digits [. [digits]] ) [ [eE] [-+]? digits ], written to out as JSON wants it.
static bool to_json_number(struct str s, struct sbuf *out)
{
    assert(s.p);
    size_t i = 0;
    if (i < s.n && (s.p[i] == '-' || s.p[i] == '+')) {
        if (s.p[i] == '-')
            sbuf_addc(out, '-');
        i++;
    }
    size_t whole = count_digits(s, i);
    size_t zeroes = 0;
    while (zeroes + 1 < whole && s.p[i + zeroes] == '0')
        zeroes++;
    sbuf_add(out, whole ? str_make(s.p + i + zeroes, whole - zeroes) : STR("0"));
    i += whole;
    if (i < s.n && s.p[i] == '.') {
        size_t fraction = count_digits(s, ++i);
        if (!whole && !fraction)
            return false;
        sbuf_addc(out, '.');
        sbuf_add(out, fraction ? str_make(s.p + i, fraction) : STR("0"));
        i += fraction;
    } else if (!whole) {
        return false;
    }
    if (i < s.n && (s.p[i] == 'e' || s.p[i] == 'E')) {
        sbuf_addc(out, 'e');
        i++;
        if (i < s.n && (s.p[i] == '-' || s.p[i] == '+'))
            sbuf_addc(out, s.p[i++]);
        size_t n = count_digits(s, i);
        if (!n)
            return false;
        sbuf_add(out, str_make(s.p + i, n));
        i += n;
    }
    return i == s.n;
}

static bool resolve_float(struct str s, struct yaml_scalar *ret)
{
    cleanup_sbuf struct sbuf text = {0};
    yyjson_val v;
    // A number past the range of a double is an error to yyjson, and text to us.
    if (!to_json_number(s, &text) || !yyjson_read_number(text.p, &v, 0, NULL, NULL))
        return false;
    *ret = (struct yaml_scalar){.kind = YAML_FLOAT, .f = yyjson_get_num(&v)};
    if (text.p[0] == '-' && ret->f == 0)
        ret->f = -0.0;
    return true;
}

// Behind a leading dot, underscores must stand between digits (Go's ParseFloat).
static bool underscores_between_digits(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] == '_' && (i == 0 || i + 1 == s.n || !yaml_scalar_is_digit(s.p[i - 1]) ||
                              !yaml_scalar_is_digit(s.p[i + 1])))
            return false;
    return true;
}

static void without_underscores(struct str s, struct sbuf *out)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] != '_')
            sbuf_addc(out, s.p[i]);
}

// --- Timestamps ----------------------------------------------------------------------------------

// One or two digits at *at, at most max.
static bool take_two(struct str s, size_t *at, unsigned max, unsigned *ret)
{
    size_t n = count_digits(s, *at);
    if (n == 0)
        return false;
    n = n > 2 ? 2 : n;
    unsigned v = 0;
    for (size_t i = 0; i < n; i++)
        v = v * 10 + (unsigned)(s.p[*at + i] - '0');
    *at += n;
    *ret = v;
    return v <= max;
}

static bool yaml_scalar_take_char(struct str s, size_t *at, char c)
{
    if (*at >= s.n || s.p[*at] != c)
        return false;
    ++*at;
    return true;
}

static bool valid_date(unsigned year, unsigned month, unsigned day)
{
    static const unsigned days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (month < 1 || day < 1)
        return false;
    bool leap = month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return day <= days[month - 1] + leap;
}

// Z or +hh:mm, to the end.
static bool is_zone(struct str s, size_t at)
{
    if (str_eqz(str_from(s, at), "Z"))
        return true;
    if (s.n - at != 6 || (s.p[at] != '+' && s.p[at] != '-') || s.p[at + 3] != ':')
        return false;
    unsigned hour, minute;
    size_t i = at + 1, j = at + 4;
    return count_digits(s, i) == 2 && count_digits(s, j) == 2 && take_two(s, &i, 24, &hour) &&
           take_two(s, &j, 60, &minute);
}

// The four layouts go-yaml tries: a date; a date, 'T' or 't', a time and a zone; a date, a space
// and a time without zone.
static bool is_timestamp(struct str s)
{
    if (count_digits(s, 0) != 4)
        return false;
    unsigned year = 0, month, day, v;
    for (size_t i = 0; i < 4; i++)
        year = year * 10 + (unsigned)(s.p[i] - '0');
    size_t at = 4;
    if (!yaml_scalar_take_char(s, &at, '-') || !take_two(s, &at, 12, &month) ||
        !yaml_scalar_take_char(s, &at, '-') || !take_two(s, &at, 31, &day) ||
        !valid_date(year, month, day))
        return false;
    if (at == s.n)
        return true;
    char separator = s.p[at++];
    if (separator != 'T' && separator != 't' && separator != ' ')
        return false;
    if (!take_two(s, &at, 23, &v) || !yaml_scalar_take_char(s, &at, ':') ||
        !take_two(s, &at, 59, &v) || !yaml_scalar_take_char(s, &at, ':') ||
        !take_two(s, &at, 59, &v))
        return false;
    if (at + 1 < s.n && (s.p[at] == '.' || s.p[at] == ',') && yaml_scalar_is_digit(s.p[at + 1]))
        at += 1 + count_digits(s, at + 1);
    return separator == ' ' ? at == s.n : is_zone(s, at);
}

// --- Resolution ----------------------------------------------------------------------------------

static struct yaml_scalar yaml_scalar_resolve_text(struct str text, bool timestamps)
{
    struct yaml_scalar ret = {.kind = YAML_STR};
    if (resolve_word(text, &ret))
        return ret;
    char c = text.p[0];
    if (c == '.') {
        cleanup_sbuf struct sbuf plain = {0};
        without_underscores(text, &plain);
        if (underscores_between_digits(text))
            (void)resolve_float(sbuf_str(&plain), &ret);
        return ret;
    }
    if (!yaml_scalar_is_digit(c) && c != '+' && c != '-')
        return ret;
    if (timestamps && is_timestamp(text)) {
        ret.kind = YAML_TIMESTAMP;
        return ret;
    }
    cleanup_sbuf struct sbuf plain = {0};
    without_underscores(text, &plain);
    if (!resolve_int(sbuf_str(&plain), &ret))
        (void)resolve_float(sbuf_str(&plain), &ret);
    return ret;
}

struct yaml_scalar yaml_resolve(struct str text)
{
    return yaml_scalar_resolve_text(text, true);
}

static const char *kind_tag(enum yaml_kind kind)
{
    static const char *const tags[] = {
        [YAML_NULL] = "null", [YAML_BOOL] = "bool",   [YAML_INT] = "int",
        [YAML_UINT] = "int",  [YAML_FLOAT] = "float", [YAML_TIMESTAMP] = "timestamp",
        [YAML_STR] = "str",
    };
    return tags[kind];
}

int yaml_resolve_tagged(struct str tag, struct str text, struct yaml_scalar *ret, struct err *err)
{
    *ret = yaml_scalar_resolve_text(text, str_eqz(tag, "timestamp"));
    if (str_eqz(tag, kind_tag(ret->kind)))
        return 0;
    if (str_eqz(tag, "float") && ret->kind == YAML_INT) {
        *ret = (struct yaml_scalar){.kind = YAML_FLOAT, .f = (double)ret->i};
        return 0;
    }
    return err_set(err, ERR_BAD_REQUEST, "cannot decode !!%s `%.*s` as a !!%.*s",
                   kind_tag(ret->kind), STR_ARG(str_upto(text, 100)), STR_ARG(tag));
}

bool yaml_is_base60(struct str text)
{
    size_t at = text.n && (text.p[0] == '-' || text.p[0] == '+');
    if (at >= text.n || !yaml_scalar_is_digit(text.p[at]))
        return false;
    while (at < text.n && (yaml_scalar_is_digit(text.p[at]) || text.p[at] == '_'))
        at++;
    size_t groups = 0;
    while (at < text.n && text.p[at] == ':') {
        size_t n = count_digits(text, at + 1);
        if (n == 0 || n > 2 || (n == 2 && text.p[at + 1] > '5'))
            return false;
        at += 1 + n;
        groups++;
    }
    if (at < text.n && text.p[at] == '.')
        for (at++; at < text.n && (yaml_scalar_is_digit(text.p[at]) || text.p[at] == '_');)
            at++;
    return groups > 0 && at == text.n;
}
