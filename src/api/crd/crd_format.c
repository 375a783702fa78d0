// SPDX-License-Identifier: Apache-2.0
//
// The formats of strings that schemas of custom resources may name, as kube-apiserver knows them.
#include <assert.h>
#include <stdatomic.h>

#include "api/crd/crd_schema.h"
#include "api/rules/mail.h"
#include "base/ip.h"
#include "cel/regex.h"
#include "cel/text.h"
#include "cel/url.h"

#include "base/banned.h"

// Names are compared without dashes.
#define FORMAT_NAME_MAX 16

// A pattern is compiled when it is first asked, and kept: that takes a thousand times as long as
// asking.
struct pattern {
    const char *text;
    _Atomic(struct cel_regex *) compiled;
};

static struct cel_regex *crd_format_compile(struct pattern *p)
{
    struct cel_regex *re = atomic_load(&p->compiled), *other = NULL;
    if (re)
        return re;
    char why[128];
    re = cel_regex_new(p->text, strlen(p->text), why, sizeof(why));
    assert(re);
    if (atomic_compare_exchange_strong(&p->compiled, &other, re))
        return re;
    cel_regex_free(re); // another thread was faster
    return other;
}

static bool crd_format_matches(struct str text, struct pattern *p)
{
    return cel_regex_match(crd_format_compile(p), text.p, text.n);
}

static bool crd_format_accept_any(struct str s)
{
    (void)s;
    return true;
}

// --- Times ---------------------------------------------------------------------------------------

static bool crd_format_read_number(struct str s, size_t at, size_t digits, int *ret)
{
    *ret = 0;
    for (size_t i = at; i < at + digits; i++) {
        if (i >= s.n || s.p[i] < '0' || s.p[i] > '9')
            return false;
        *ret = *ret * 10 + (s.p[i] - '0');
    }
    return true;
}

static bool crd_format_is_date(struct str s)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year, month, day;
    if (s.n != 10 || s.p[4] != '-' || s.p[7] != '-' || !crd_format_read_number(s, 0, 4, &year) ||
        !crd_format_read_number(s, 5, 2, &month) || !crd_format_read_number(s, 8, 2, &day))
        return false;
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month >= 1 && month <= 12 && day >= 1 &&
           day <= days[month - 1] + (month == 2 && leap ? 1 : 0);
}

// What stands behind a second T is not looked at.
static bool is_date_time(struct str s)
{
    static struct pattern clock = {
        .text = "^[0-9]{2}:[0-9]{2}:[0-9]{2}(.[0-9]+)?([zZ]|([+-][0-9]{2}:[0-9]{2}))$"};
    if (s.n < 11 || (s.p[10] != 'T' && s.p[10] != 't') || !crd_format_is_date(str_upto(s, 10)))
        return false;
    struct str time = str_from(s, 11);
    for (size_t i = 0; i < time.n; i++)
        if (time.p[i] == 't' || time.p[i] == 'T')
            time = str_upto(time, i);
    int hour, minute, second;
    if (!crd_format_matches(time, &clock) || !crd_format_read_number(time, 0, 2, &hour) ||
        !crd_format_read_number(time, 3, 2, &minute) ||
        !crd_format_read_number(time, 6, 2, &second))
        return false;
    return hour <= 23 && minute <= 59 && second <= 59;
}

// begins_with does not tell small letters from large ones; name is written in small ones.
static bool begins_with(struct str word, struct str name)
{
    for (size_t i = 0; i < name.n; i++) {
        char c = i < word.n ? word.p[i] : '\0';
        if (c != name.p[i] && !(c >= 'A' && c <= 'Z' && c + ('a' - 'A') == name.p[i]))
            return false;
    }
    return true;
}

// is_unit: a word for a span of time; some may have endings.
static bool is_unit(struct str word)
{
    static const struct {
        struct str name;
        bool begins;
    } units[] = {
        {STR_INIT("ns"), false},   {STR_INIT("nano"), true},  {STR_INIT("us"), false},
        {STR_INIT("µs"), false},   {STR_INIT("micro"), true}, {STR_INIT("ms"), false},
        {STR_INIT("milli"), true}, {STR_INIT("s"), false},    {STR_INIT("sec"), true},
        {STR_INIT("m"), false},    {STR_INIT("min"), true},   {STR_INIT("h"), false},
        {STR_INIT("hr"), false},   {STR_INIT("hour"), true},  {STR_INIT("d"), false},
        {STR_INIT("day"), true},   {STR_INIT("w"), false},    {STR_INIT("wk"), false},
        {STR_INIT("week"), true},
    };
    for (size_t i = 0; i < array_len(units); i++)
        if (begins_with(word, units[i].name) && (units[i].begins || units[i].name.n == word.n))
            return true;
    return false;
}

static bool crd_format_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool crd_format_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r' && c != '\v');
}

// word_end is where a word that begins at `at` ends: letters and µ.
static size_t word_end(struct str s, size_t at)
{
    while (at < s.n) {
        char low = (char)(s.p[at] | 0x20);
        if (low >= 'a' && low <= 'z')
            at++;
        else if (str_starts(str_from(s, at), STR("µ")))
            at += STR("µ").n;
        else
            break;
    }
    return at;
}

// Spans in words, which may stand anywhere in the text. A number that is too large spoils all of
// it.
static bool has_span(struct str s)
{
    bool found = false;
    for (size_t at = 0; at < s.n;) {
        size_t end = at, word;
        int64_t number;
        while (end < s.n && crd_format_is_digit(s.p[end]))
            end++;
        for (word = end; word < s.n && crd_format_is_space(s.p[word]);)
            word++;
        size_t over = end > at ? word_end(s, word) : word;
        if (over == word) {
            at = end + (end == at);
            continue;
        }
        if (str_to_i64(str_upto(str_from(s, at), end - at), &number) < 0)
            return false;
        found = found || is_unit(str_upto(str_from(s, word), over - word));
        at = over;
    }
    return found;
}

static bool is_duration(struct str s)
{
    int64_t nanos;
    return cel_text_read_duration(s, &nanos) || has_span(s);
}

// --- Names and addresses -------------------------------------------------------------------------

// What a label of a hostname is made of, when letters are plain ones.
#define IN_LABEL "a-zA-Z0-9$+<=>^`|~"

// as_plain writes text with an 'a' for each letter beyond ASCII, a '$' for each symbol and a blank
// for what is neither: a pattern that knew them all would be a thousand times as large. out has
// room for as many bytes as text.
static struct str as_plain(struct str text, char *out)
{
    static struct pattern letter = {.text = "^\\p{L}$"}, symbol = {.text = "^\\p{S}$"};
    size_t n = 0;
    for (size_t at = 0, next; at < text.n; at = next) {
        next = at + 1;
        while (next < text.n && ((unsigned char)text.p[next] & 0xc0) == 0x80)
            next++;
        struct str c = str_upto(str_from(text, at), next - at);
        bool plain = (unsigned char)c.p[0] < 0x80;
        out[n++] = plain                            ? c.p[0]
                   : crd_format_matches(c, &letter) ? 'a'
                   : crd_format_matches(c, &symbol) ? '$'
                                                    : ' ';
    }
    return str_make(out, n);
}

static bool is_hostname(struct str s)
{
    static struct pattern hostname = {.text = "^([" IN_LABEL "](-?[" IN_LABEL
                                              "]{0,62})?|([" IN_LABEL "]([" IN_LABEL
                                              "-]{0,61}[" IN_LABEL "])?\\.)+[a-zA-Z]{2,63})$"};
    char plain[255];
    if (s.n > sizeof(plain))
        return false;
    for (struct str rest = s, part; rest.n;) {
        str_cut(rest, '.', &part, &rest);
        if (part.n > 63)
            return false;
    }
    return crd_format_matches(as_plain(s, plain), &hostname);
}

// Leading zeros are taken, as long ago.
static bool is_plain_ipv4(struct str s)
{
    size_t parts = 0;
    struct str rest = s, part;
    for (bool more = true; more; parts++) {
        uint64_t number = 0;
        more = str_cut(rest, '.', &part, &rest);
        if (part.n == 0 || part.n > 15 || str_to_u64(part, &number) < 0 || number > 255)
            return false;
    }
    return parts == 4;
}

// An IPv6 address, in whose groups and IPv4 end leading zeros are taken, too.
static bool is_plain_ipv6(struct str s)
{
    char text[64];
    size_t n = 0;
    struct str rest = s, group;
    for (bool more = true; more;) {
        more = str_cut(rest, ':', &group, &rest);
        if (!more && is_plain_ipv4(group))
            group = STR("0.0.0.0");
        while (group.n > 1 && group.p[0] == '0' && group.p[1] != '.')
            group = str_from(group, 1);
        if (n + group.n + 1 > sizeof(text))
            return false;
        if (group.n)
            memcpy(text + n, group.p, group.n);
        n += group.n;
        text[n++] = ':';
    }
    return ip_is(str_make(text, n - 1), AF_INET6);
}

static bool is_ipv4(struct str s)
{
    return is_plain_ipv4(s) || (str_find_char(s, '.') >= 0 && is_plain_ipv6(s));
}

static bool crd_format_is_ipv6(struct str s)
{
    return str_find_char(s, ':') >= 0 && ip_is(s, AF_INET6);
}

static bool is_cidr(struct str s)
{
    struct str address, bits;
    uint64_t n = 0;
    if (!str_cut(s, '/', &address, &bits))
        return false;
    while (bits.n > 1 && bits.p[0] == '0')
        bits = str_from(bits, 1);
    if (bits.n > 3 || str_to_u64(bits, &n) < 0)
        return false;
    return is_plain_ipv4(address) ? n <= 32 : is_plain_ipv6(address) && n <= 128;
}

// Six, eight or twenty bytes: in pairs of digits, in fours behind dots, or without anything
// between.
#define TWO  "[0-9A-Fa-f]{2}"
#define FOUR "[0-9A-Fa-f]{4}"

static bool is_mac(struct str s)
{
    static struct pattern mac = {.text = "^(" TWO "(:" TWO "){5}((:" TWO "){2}|(:" TWO
                                         "){14})?|" TWO "(-" TWO "){5}((-" TWO "){2}|(-" TWO
                                         "){14})?|" FOUR "(\\." FOUR "){2}((\\." FOUR ")|(\\." FOUR
                                         "){7})?|(" TWO "){6}|(" TWO "){8}|(" TWO "){20})$"};
    return crd_format_matches(s, &mac);
}

static bool is_uri(struct str s)
{
    cleanup_arena struct arena arena = {0};
    struct err err;
    return cel_url_valid(&arena, s, &err);
}

static bool is_short_name(struct str s)
{
    static struct pattern name = {.text = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"};
    return s.n <= 63 && crd_format_matches(s, &name);
}

static bool is_long_name(struct str s)
{
    static struct pattern name = {
        .text = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"};
    return s.n <= 253 && crd_format_matches(s, &name);
}

// --- Numbers with check digits -------------------------------------------------------------------

#define BETWEEN_DIGITS " -\t\n\f\r"

static size_t crd_format_digits_of(struct str s, const char *dropped, char *out, size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (strchr(dropped, s.p[i]) && s.p[i])
            continue;
        if (n == max)
            return max + 1;
        out[n++] = s.p[i];
    }
    return n;
}

static bool is_isbn10(struct str s)
{
    char d[14];
    int sum = 0;
    if (crd_format_digits_of(s, BETWEEN_DIGITS, d, sizeof(d)) != 10)
        return false;
    for (int i = 0; i < 10; i++) {
        bool last_x = i == 9 && d[i] == 'X';
        if (!last_x && (d[i] < '0' || d[i] > '9'))
            return false;
        sum += (i + 1) * (last_x ? 10 : d[i] - '0');
    }
    return sum % 11 == 0;
}

static bool is_isbn13(struct str s)
{
    char d[14];
    int sum = 0;
    if (crd_format_digits_of(s, BETWEEN_DIGITS, d, sizeof(d)) != 13)
        return false;
    for (int i = 0; i < 13; i++) {
        if (d[i] < '0' || d[i] > '9')
            return false;
        sum += (i % 2 ? 3 : 1) * (d[i] - '0');
    }
    return sum % 10 == 0;
}

static bool is_isbn(struct str s)
{
    return is_isbn10(s) || is_isbn13(s);
}

static bool is_credit_card(struct str s)
{
    static struct pattern card = {
        .text = "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47]["
                "0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\\d{3})\\d{11})$"};
    char d[32];
    size_t n = 0;
    int sum = 0;
    for (size_t i = 0; i < s.n && n < sizeof(d); i++)
        if (s.p[i] >= '0' && s.p[i] <= '9')
            d[n++] = s.p[i];
    if (!crd_format_matches(str_make(d, n), &card))
        return false;
    for (size_t i = 0; i < n; i++) {
        int digit = d[n - 1 - i] - '0';
        digit = i % 2 ? digit * 2 : digit;
        sum += digit > 9 ? digit - 9 : digit;
    }
    return sum % 10 == 0;
}

// --- Plain patterns ------------------------------------------------------------------------------

#define PATTERN(name, words)                         \
    static bool is_##name(struct str s)              \
    {                                                \
        static struct pattern p = {.text = (words)}; \
        return crd_format_matches(s, &p);            \
    }

PATTERN(uuid, "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$")
PATTERN(uuid3, "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$")
PATTERN(uuid4, "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$")
PATTERN(uuid5, "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$")
PATTERN(ssn, "^\\d{3}[- ]\\d{2}[- ]\\d{4}$")
PATTERN(hex_color, "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$")
PATTERN(rgb_color,
        "^rgb\\(\\s*(0|[1-9]\\d?|1\\d\\d?|2[0-4]\\d|25[0-5])\\s*,\\s*(0|[1-9]\\d?|1\\d\\d?"
        "|2[0-4]\\d|25[0-5])\\s*,\\s*(0|[1-9]\\d?|1\\d\\d?|2[0-4]\\d|25[0-5])\\s*\\)$")
PATTERN(object_id, "^[0-9a-fA-F]{24}$")
PATTERN(base64,
        "^(?:[A-Za-z0-9+\\/]{4})*(?:[A-Za-z0-9+\\/]{2}==|[A-Za-z0-9+\\/]{3}=|[A-Za-z0-9+\\/]{"
        "4})$")

static const struct {
    const char *name;
    bool (*holds)(struct str s);
} formats[] = {
    {"bsonobjectid", is_object_id},
    {"uri", is_uri},
    {"email", mail_is_address},
    {"hostname", is_hostname},
    {"ipv4", is_ipv4},
    {"ipv6", crd_format_is_ipv6},
    {"cidr", is_cidr},
    {"mac", is_mac},
    {"uuid", is_uuid},
    {"uuid3", is_uuid3},
    {"uuid4", is_uuid4},
    {"uuid5", is_uuid5},
    {"isbn", is_isbn},
    {"isbn10", is_isbn10},
    {"isbn13", is_isbn13},
    {"creditcard", is_credit_card},
    {"ssn", is_ssn},
    {"hexcolor", is_hex_color},
    {"rgbcolor", is_rgb_color},
    {"byte", is_base64},
    {"password", crd_format_accept_any},
    {"date", crd_format_is_date},
    {"duration", is_duration},
    {"datetime", is_date_time},
    {"k8sshortname", is_short_name},
    {"k8slongname", is_long_name},
};

static ptrdiff_t crd_format_find(struct str format)
{
    char name[FORMAT_NAME_MAX];
    size_t n = 0;
    for (size_t i = 0; i < format.n; i++) {
        if (format.p[i] == '-')
            continue;
        if (n == sizeof(name))
            return -1;
        name[n++] = format.p[i];
    }
    for (size_t i = 0; i < array_len(formats); i++)
        if (str_eqz(str_make(name, n), formats[i].name))
            return (ptrdiff_t)i;
    return -1;
}

bool crd_format_known(struct str format)
{
    return crd_format_find(format) >= 0;
}

bool crd_format_holds(struct str format, struct str text)
{
    ptrdiff_t at = crd_format_find(format);
    return at < 0 || formats[at].holds(text);
}
