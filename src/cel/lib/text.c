// SPDX-License-Identifier: Apache-2.0
//
// Numbers, durations, timestamps and addresses as text, read and written as Go does.
#include "cel/text.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/civil.h"
#include "base/str.h"
#include "cel/value.h"

#include "base/banned.h"

// The shortest decimal digits that read back as d (> 0, finite): digits without trailing zeroes,
// and where the point is: 0.DIGITS * 10^point.
struct digits {
    char text[24];
    int n;
    int point;
};

static struct digits text_shortest_digits(double d)
{
    char buf[40];
    for (int precision = 15; precision <= 17; precision++) {
        (void)snprintf(buf, sizeof(buf), "%.*e", precision - 1, d);
        if (strtod(buf, NULL) == d)
            break;
    }
    struct digits out = {.n = 0};
    const char *p = buf;
    for (; *p && *p != 'e'; p++)
        if (isdigit((unsigned char)*p))
            out.text[out.n++] = *p;
    while (out.n > 1 && out.text[out.n - 1] == '0')
        out.n--;
    int exponent = 0;
    if (*p == 'e')
        (void)sscanf(p + 1, "%d", &exponent); // NOLINT(cert-err34-c): our own text
    out.point = exponent + 1;
    return out;
}

static bool write_special(double d, struct sbuf *out)
{
    if (isnan(d))
        sbuf_addz(out, "NaN");
    else if (isinf(d))
        sbuf_addz(out, d < 0 ? "-Inf" : "+Inf");
    else if (d == 0)
        sbuf_addz(out, signbit(d) ? "-0" : "0");
    else
        return false;
    return true;
}

static void text_write_digits(const struct digits *g, struct sbuf *out)
{
    if (g->point <= 0) {
        sbuf_addz(out, "0.");
        sbuf_add_repeat(out, '0', (size_t)-g->point);
        sbuf_add(out, str_make(g->text, (size_t)g->n));
        return;
    }
    for (int i = 0; i < g->point || i < g->n; i++) {
        if (i == g->point)
            sbuf_addc(out, '.');
        sbuf_addc(out, i < g->n ? g->text[i] : '0');
    }
}

void cel_text_double(double d, struct sbuf *out)
{
    if (write_special(d, out))
        return;
    if (d < 0)
        sbuf_addc(out, '-');
    struct digits g = text_shortest_digits(fabs(d));
    int exponent = g.point - 1;
    if (exponent >= -4 && exponent < 6) {
        text_write_digits(&g, out);
        return;
    }
    sbuf_addc(out, g.text[0]);
    if (g.n > 1) {
        sbuf_addc(out, '.');
        sbuf_add(out, str_make(g.text + 1, (size_t)g.n - 1));
    }
    sbuf_addf(out, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
}

bool cel_text_read_double(struct str s, double *ret)
{
    char buf[512];
    if (s.n == 0 || s.n >= sizeof(buf) || isspace((unsigned char)s.p[0]))
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] == '(' || s.p[i] == 0)
            return false;
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        // Go reads past single underscores between digits.
        bool between = s.p[i] == '_' && i > 0 && i + 1 < s.n &&
                       isxdigit((unsigned char)s.p[i - 1]) && isxdigit((unsigned char)s.p[i + 1]);
        if (!between)
            buf[n++] = s.p[i];
    }
    buf[n] = 0;
    char *end;
    double d = strtod(buf, &end);
    if (end != buf + n)
        return false;
    const char *body = buf + (buf[0] == '+' || buf[0] == '-');
    bool named = isalpha((unsigned char)body[0]);
    // Go wants an exponent behind a hexadecimal mantissa.
    if (body[0] == '0' && (body[1] | 32) == 'x' && !strpbrk(body, "pP"))
        return false;
    if (isinf(d) && !named)
        return false;
    if (named && isnan(d) && body != buf)
        return false;
    *ret = d;
    return true;
}

void cel_text_duration(int64_t nanos, struct sbuf *out)
{
    // Go divides into whole seconds and a rest before it goes to floating point.
    int64_t whole = nanos / 1000000000;
    double seconds = (double)whole + (double)(nanos % 1000000000) / 1e9;
    if (seconds == 0) {
        sbuf_addz(out, "0s");
        return;
    }
    if (seconds < 0)
        sbuf_addc(out, '-');
    struct digits g = text_shortest_digits(fabs(seconds));
    text_write_digits(&g, out);
    sbuf_addc(out, 's');
}

static bool unit_of(struct str s, size_t *ret_len, uint64_t *ret_nanos)
{
    static const struct {
        const char *text;
        uint64_t nanos;
    } units[] = {{"ns", 1},       {"us", 1000},      {"\xc2\xb5s", 1000}, {"\xce\xbcs", 1000},
                 {"ms", 1000000}, {"s", 1000000000}, {"m", 60000000000},  {"h", 3600000000000}};
    size_t n = 0;
    while (n < s.n && s.p[n] != '.' && !isdigit((unsigned char)s.p[n]))
        n++;
    for (size_t i = 0; i < array_len(units); i++) {
        if (str_eqz(str_upto(s, n), units[i].text)) {
            *ret_len = n;
            *ret_nanos = units[i].nanos;
            return true;
        }
    }
    return false;
}

// One number with its unit at s[*at]; adds to *sum. Fractions as Go computes them.
static bool duration_part(struct str s, size_t *at, uint64_t *sum)
{
    const uint64_t limit = (uint64_t)1 << 63;
    uint64_t whole = 0;
    uint64_t fraction = 0;
    double scale = 1;
    size_t i = *at;
    size_t digits = 0;
    for (; i < s.n && isdigit((unsigned char)s.p[i]); i++, digits++) {
        if (whole > limit / 10)
            return false;
        whole = whole * 10 + (uint64_t)(s.p[i] - '0');
        if (whole > limit)
            return false;
    }
    bool overflow = false;
    if (i < s.n && s.p[i] == '.') {
        for (i++; i < s.n && isdigit((unsigned char)s.p[i]); i++, digits++) {
            if (overflow || fraction > (limit - 1) / 10) {
                overflow = true;
                continue;
            }
            uint64_t y = fraction * 10 + (uint64_t)(s.p[i] - '0');
            if (y > limit) {
                overflow = true;
                continue;
            }
            fraction = y;
            scale *= 10;
        }
    }
    size_t len;
    uint64_t unit;
    if (digits == 0 || !unit_of(str_from(s, i), &len, &unit) || whole > limit / unit)
        return false;
    uint64_t v = whole * unit;
    if (fraction > 0)
        v += (uint64_t)((double)fraction * ((double)unit / scale));
    *at = i + len;
    *sum += v;
    return v <= limit && *sum <= limit;
}

bool cel_text_read_duration(struct str s, int64_t *ret_nanos)
{
    bool negative = s.n && s.p[0] == '-';
    if (s.n && (s.p[0] == '-' || s.p[0] == '+'))
        s = str_from(s, 1);
    if (str_eqz(s, "0")) {
        *ret_nanos = 0;
        return true;
    }
    if (s.n == 0)
        return false;
    uint64_t sum = 0;
    for (size_t at = 0; at < s.n;)
        if (!duration_part(s, &at, &sum))
            return false;
    if (sum > INT64_MAX && !negative)
        return false;
    *ret_nanos = (int64_t)(negative ? 0 - sum : sum);
    return true;
}

void cel_text_timestamp(int64_t seconds, uint32_t nanos, int offset_minutes, struct sbuf *out)
{
    seconds += (int64_t)offset_minutes * 60;
    int64_t days = seconds / 86400;
    int64_t rest = seconds % 86400;
    if (rest < 0) {
        rest += 86400;
        days--;
    }
    struct civil_date d = civil_from_days(days);
    sbuf_addf(out, "%04lld-%02d-%02dT%02d:%02d:%02d", (long long)d.year, d.month, d.day,
              (int)(rest / 3600), (int)(rest / 60 % 60), (int)(rest % 60));
    if (nanos) {
        char frac[16];
        int n = snprintf(frac, sizeof(frac), ".%09u", nanos);
        while (n > 1 && frac[n - 1] == '0')
            n--;
        sbuf_add(out, str_make(frac, (size_t)n));
    }
    if (offset_minutes == 0) {
        sbuf_addc(out, 'Z');
        return;
    }
    int m = abs(offset_minutes);
    sbuf_addf(out, "%c%02d:%02d", offset_minutes < 0 ? '-' : '+', m / 60, m % 60);
}

static bool text_read_number(struct str s, size_t at, size_t n, int *ret)
{
    *ret = 0;
    for (size_t i = at; i < at + n; i++) {
        if (i >= s.n || !isdigit((unsigned char)s.p[i]))
            return false;
        *ret = *ret * 10 + (s.p[i] - '0');
    }
    return true;
}

static bool char_at(struct str s, size_t at, char c)
{
    return at < s.n && s.p[at] == c;
}

// The zone behind the seconds: 'Z' or ±hh:mm. The text must end with it.
static bool read_offset(struct str s, size_t at, int *ret_minutes)
{
    *ret_minutes = 0;
    if (char_at(s, at, 'Z'))
        return at + 1 == s.n;
    int h;
    int m;
    if (!(char_at(s, at, '+') || char_at(s, at, '-')) || !text_read_number(s, at + 1, 2, &h) ||
        !char_at(s, at + 3, ':') || !text_read_number(s, at + 4, 2, &m) || at + 6 != s.n ||
        h > 24 || m > 60)
        return false;
    *ret_minutes = (s.p[at] == '-' ? -1 : 1) * (h * 60 + m);
    return true;
}

bool cel_text_read_timestamp(struct str s, int64_t *ret_seconds, uint32_t *ret_nanos,
                             int *ret_offset_minutes)
{
    int year, month, day, hour, minute, second;
    size_t wide = char_at(s, 12, ':') ? 1 : 2; // Go takes an hour of one digit
    if (!text_read_number(s, 0, 4, &year) || !char_at(s, 4, '-') ||
        !text_read_number(s, 5, 2, &month) || !char_at(s, 7, '-') ||
        !text_read_number(s, 8, 2, &day) || !char_at(s, 10, 'T') ||
        !text_read_number(s, 11, wide, &hour) || !char_at(s, 11 + wide, ':') ||
        !text_read_number(s, 12 + wide, 2, &minute) || !char_at(s, 14 + wide, ':') ||
        !text_read_number(s, 15 + wide, 2, &second))
        return false;
    struct civil_date date = {year, month, day};
    if (!civil_valid(date) || hour > 23 || minute > 59 || second > 59)
        return false;
    size_t at = 17 + wide;
    uint32_t nanos = 0;
    if (char_at(s, at, '.') || char_at(s, at, ',')) {
        uint32_t unit = 100000000;
        size_t first = ++at;
        for (; at < s.n && isdigit((unsigned char)s.p[at]); at++, unit /= 10)
            nanos += (uint32_t)(s.p[at] - '0') * unit;
        if (at == first)
            return false;
    }
    int offset;
    if (!read_offset(s, at, &offset))
        return false;
    *ret_seconds =
        civil_to_days(date) * 86400 + hour * 3600 + minute * 60 + second - (int64_t)offset * 60;
    *ret_nanos = nanos;
    *ret_offset_minutes = offset;
    return true;
}

static void write_v6(const uint8_t *b, struct sbuf *out)
{
    unsigned words[8];
    for (int i = 0; i < 8; i++)
        words[i] = (unsigned)b[2 * i] << 8 | b[2 * i + 1];
    int best = -1;
    int best_len = 1; // a single zero word is not shortened
    for (int i = 0; i < 8; i++) {
        int n = 0;
        while (i + n < 8 && words[i + n] == 0)
            n++;
        if (n > best_len) {
            best = i;
            best_len = n;
        }
        if (n)
            i += n - 1;
    }
    for (int i = 0; i < 8; i++) {
        if (i == best) {
            sbuf_addz(out, "::");
            i += best_len - 1;
            continue;
        }
        if (i > 0 && i != best + best_len)
            sbuf_addc(out, ':');
        else if (i > 0 && best < 0)
            sbuf_addc(out, ':');
        sbuf_addf(out, "%x", words[i]);
    }
}

void cel_text_ip(const struct cel_ip *ip, struct sbuf *out)
{
    if (!ip->v6) {
        sbuf_addf(out, "%u.%u.%u.%u", ip->bytes[0], ip->bytes[1], ip->bytes[2], ip->bytes[3]);
        return;
    }
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (memcmp(ip->bytes, mapped, sizeof(mapped)) == 0) {
        sbuf_addf(out, "::ffff:%u.%u.%u.%u", ip->bytes[12], ip->bytes[13], ip->bytes[14],
                  ip->bytes[15]);
        return;
    }
    write_v6(ip->bytes, out);
}

static bool read_v4(struct str s, uint8_t out[4], const char **why)
{
    int fields = 0;
    int value = 0;
    int digits = 0;
    for (size_t i = 0; i <= s.n; i++) {
        char c = i < s.n ? s.p[i] : '.';
        if (isdigit((unsigned char)c)) {
            if (digits == 1 && value == 0) {
                *why = "IPv4 field has octet with leading zero";
                return false;
            }
            value = value * 10 + (c - '0');
            digits++;
            if (value > 255) {
                *why = "IPv4 field has value >255";
                return false;
            }
        } else if (c == '.') {
            if (i == 0 || digits == 0 || (i < s.n && i + 1 == s.n)) {
                *why = "IPv4 field must have at least one digit";
                return false;
            }
            if (fields == 4 || (fields == 3 && i < s.n)) {
                *why = "IPv4 address too long";
                return false;
            }
            out[fields++] = (uint8_t)value;
            value = digits = 0;
        } else {
            *why = "unexpected character";
            return false;
        }
    }
    if (fields < 4) {
        *why = "IPv4 address too short";
        return false;
    }
    return true;
}

static bool text_set_error(const char **why, const char *text)
{
    *why = text;
    return false;
}

static bool read_v6(struct str s, uint8_t out[16], const char **why)
{
    int n = 0;
    int ellipsis = -1;
    size_t i = 0;
    memset(out, 0, 16);
    if (s.n >= 2 && s.p[0] == ':' && s.p[1] == ':') {
        ellipsis = 0;
        i = 2;
        if (i == s.n)
            return true;
    }
    while (n < 16) {
        size_t start = i;
        unsigned acc = 0;
        for (; i < s.n && str_hex_digit(s.p[i]) >= 0; i++) {
            acc = acc << 4 | (unsigned)str_hex_digit(s.p[i]);
            if (i - start > 3)
                return text_set_error(why, "each group must have 4 or fewer digits");
        }
        if (i == start)
            return text_set_error(why, "each colon-separated field must have at least one digit");
        if (i < s.n && s.p[i] == '.') {
            if (ellipsis < 0 && n != 12)
                return text_set_error(
                    why, "embedded IPv4 address must replace the final 2 fields of the address");
            if (n + 4 > 16)
                return text_set_error(
                    why, "too many hex fields to fit an embedded IPv4 at the end of the address");
            if (!read_v4(str_from(s, start), out + n, why))
                return false;
            n += 4;
            i = s.n;
            break;
        }
        out[n] = (uint8_t)(acc >> 8);
        out[n + 1] = (uint8_t)acc;
        n += 2;
        if (i == s.n)
            break;
        if (s.p[i] != ':')
            return text_set_error(why, "unexpected character, want colon");
        if (i + 1 == s.n)
            return text_set_error(why, "colon must be followed by more characters");
        i++;
        if (s.p[i] == ':') {
            if (ellipsis >= 0)
                return text_set_error(why, "multiple :: in address");
            ellipsis = n;
            i++;
            if (i == s.n)
                break;
        }
    }
    if (i != s.n)
        return text_set_error(why, "trailing garbage after address");
    if (n < 16) {
        if (ellipsis < 0)
            return text_set_error(why, "address string too short");
        int move = n - ellipsis;
        memmove(out + 16 - move, out + ellipsis, (size_t)move);
        memset(out + ellipsis, 0, (size_t)(16 - n));
        return true;
    }
    if (ellipsis >= 0)
        return text_set_error(why, "the :: must expand to at least one field of zeros");
    return true;
}

bool cel_text_read_ip(struct str s, struct cel_ip *ret, const char **ret_why)
{
    const char *ignored;
    const char **why = ret_why ? ret_why : &ignored;
    *why = "unable to parse IP";
    memset(ret, 0, sizeof(*ret));
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '.')
            return read_v4(s, ret->bytes, why);
        if (s.p[i] == ':') {
            ret->v6 = true;
            if (str_find_char(s, '%') >= 0) {
                *why = "IPv6 zones are not supported";
                return false;
            }
            return read_v6(s, ret->bytes, why);
        }
        if (s.p[i] == '%')
            return text_set_error(why, "missing IPv6 address");
    }
    return false;
}
