// SPDX-License-Identifier: Apache-2.0
//
// The formats of strings that schemas of custom resources may name, as kube-apiserver knows them.
#include <arpa/inet.h>

#include "api/crd_schema.h"
#include "cel/regex.h"

#include "base/banned.h"

// Names are compared without dashes.
#define FORMAT_NAME_MAX 16

static bool matches(struct str text, const char *pattern)
{
    char why[128];
    struct cel_regex *re = cel_regex_new(pattern, strlen(pattern), why, sizeof(why));
    bool holds = re && cel_regex_match(re, text.p, text.n);
    cel_regex_free(re);
    return holds;
}

static bool any(struct str s)
{
    (void)s;
    return true;
}

// --- Times ---------------------------------------------------------------------------------------

static bool number_at(struct str s, size_t at, size_t digits, int *ret)
{
    *ret = 0;
    for (size_t i = at; i < at + digits; i++) {
        if (i >= s.n || s.p[i] < '0' || s.p[i] > '9')
            return false;
        *ret = *ret * 10 + (s.p[i] - '0');
    }
    return true;
}

static bool is_date(struct str s)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year, month, day;
    if (s.n != 10 || s.p[4] != '-' || s.p[7] != '-' || !number_at(s, 0, 4, &year) ||
        !number_at(s, 5, 2, &month) || !number_at(s, 8, 2, &day))
        return false;
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month >= 1 && month <= 12 && day >= 1 &&
           day <= days[month - 1] + (month == 2 && leap ? 1 : 0);
}

// What stands behind a second T is not looked at.
static bool is_date_time(struct str s)
{
    if (s.n < 11 || (s.p[10] != 'T' && s.p[10] != 't') || !is_date(str_upto(s, 10)))
        return false;
    struct str time = str_from(s, 11);
    for (size_t i = 0; i < time.n; i++)
        if (time.p[i] == 't' || time.p[i] == 'T')
            time = str_upto(time, i);
    int hour, minute, second;
    if (!matches(time, "^[0-9]{2}:[0-9]{2}:[0-9]{2}(.[0-9]+)?([zZ]|([+-][0-9]{2}:[0-9]{2}))$") ||
        !number_at(time, 0, 2, &hour) || !number_at(time, 3, 2, &minute) ||
        !number_at(time, 6, 2, &second))
        return false;
    return hour <= 23 && minute <= 59 && second <= 59;
}

// Go's durations, and Scala's, which may stand anywhere in the text.
static bool is_duration(struct str s)
{
    return matches(s, "^[+-]?(0|(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$") ||
           matches(s, "(?i)[0-9]{1,18}\\s*((ns|nano[a-zµ]*|us|µs|micro[a-zµ]*|ms|milli[a-zµ]*|s|"
                      "sec[a-zµ]*|m|min[a-zµ]*|h|hr|hour[a-zµ]*|d|day[a-zµ]*|w|wk|week[a-zµ]*)"
                      "([^A-Za-zµ]|$))");
}

// --- Names and addresses -------------------------------------------------------------------------

static bool is_hostname(struct str s)
{
    if (s.n > 255)
        return false;
    for (struct str rest = s, part; rest.n;) {
        str_cut(rest, '.', &part, &rest);
        if (part.n > 63)
            return false;
    }
    return matches(s, "^([a-zA-Z0-9\\p{S}\\p{L}]((-?[a-zA-Z0-9\\p{S}\\p{L}]{0,62})?)|([a-zA-Z0-9"
                      "\\p{S}\\p{L}](([a-zA-Z0-9-\\p{S}\\p{L}]{0,61}[a-zA-Z0-9\\p{S}\\p{L}])?)(\\"
                      ".)){1,}([a-zA-Z\\p{L}]){2,63})$");
}

static bool parses(int family, struct str s)
{
    char text[64];
    unsigned char address[16];
    if (s.n == 0 || s.n >= sizeof(text) || str_find_char(s, '\0') >= 0)
        return false;
    memcpy(text, s.p, s.n);
    text[s.n] = '\0';
    return inet_pton(family, text, address) == 1;
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

static bool is_ipv4(struct str s)
{
    return is_plain_ipv4(s) || (str_find_char(s, '.') >= 0 && parses(AF_INET6, s));
}

static bool is_ipv6(struct str s)
{
    return str_find_char(s, ':') >= 0 && parses(AF_INET6, s);
}

static bool is_cidr(struct str s)
{
    struct str address, bits;
    uint64_t n = 0;
    if (!str_cut(s, '/', &address, &bits) || bits.n == 0 || bits.n > 3 || str_to_u64(bits, &n) < 0)
        return false;
    return is_plain_ipv4(address) ? n <= 32 : parses(AF_INET6, address) && n <= 128;
}

static bool is_mac(struct str s)
{
    return matches(s, "^([0-9A-Fa-f]{2}:){5}([0-9A-Fa-f]{2}|([0-9A-Fa-f]{2}:){2}[0-9A-Fa-f]{2}|(["
                      "0-9A-Fa-f]{2}:){14}[0-9A-Fa-f]{2})$|^([0-9A-Fa-f]{2}-){5}([0-9A-Fa-f]{2}|(["
                      "0-9A-Fa-f]{2}-){2}[0-9A-Fa-f]{2})$|^([0-9A-Fa-f]{4}\\.){2}[0-9A-Fa-f]{4}$|^("
                      "[0-9A-Fa-f]{4}\\.){3}[0-9A-Fa-f]{4}$");
}

static bool is_uri(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f)
            return false;
    return matches(s, "^(/|\\*$|[a-zA-Z][a-zA-Z0-9+.-]*:)") &&
           !matches(s, "%([^0-9A-Fa-f]|[0-9A-Fa-f]([^0-9A-Fa-f]|$)|$)") &&
           !matches(s, "^[a-zA-Z][a-zA-Z0-9+.-]*://[^/?]*[ <>\"]");
}

static bool is_email(struct str s)
{
    return matches(s, "^\\s*([^<>@,;:\\\\\"\\[\\]()]*<)?[A-Za-z0-9!#$%&'*+/=?^_`{|}~.\\x{80}-\\x{"
                      "10FFFF}-]+@([A-Za-z0-9!#$%&'*+/=?^_`{|}~.\\x{80}-\\x{10FFFF}-]+|\\[[^\\]]*\\"
                      "])>?\\s*$") &&
           !matches(s, "\\.\\.|^\\.|\\.@|@\\.|\\.$");
}

static bool is_short_name(struct str s)
{
    return s.n <= 63 && matches(s, "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$");
}

static bool is_long_name(struct str s)
{
    return s.n <= 253 &&
           matches(s, "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$");
}

// --- Numbers with check digits -------------------------------------------------------------------

static size_t digits_of(struct str s, const char *dropped, char *out, size_t max)
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
    if (digits_of(s, " -", d, sizeof(d)) != 10)
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
    if (digits_of(s, " -", d, sizeof(d)) != 13)
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
    char d[32];
    size_t n = 0;
    int sum = 0;
    for (size_t i = 0; i < s.n && n < sizeof(d); i++)
        if (s.p[i] >= '0' && s.p[i] <= '9')
            d[n++] = s.p[i];
    if (!matches(str_make(d, n),
                 "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47]["
                 "0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\\d{3})\\d{11})$"))
        return false;
    for (size_t i = 0; i < n; i++) {
        int digit = d[n - 1 - i] - '0';
        digit = i % 2 ? digit * 2 : digit;
        sum += digit > 9 ? digit - 9 : digit;
    }
    return sum % 10 == 0;
}

// --- Plain patterns ------------------------------------------------------------------------------

#define PATTERN(name, pattern)          \
    static bool is_##name(struct str s) \
    {                                   \
        return matches(s, pattern);     \
    }

PATTERN(uuid, "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$")
PATTERN(uuid3, "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$")
PATTERN(uuid4, "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$")
PATTERN(uuid5, "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$")
PATTERN(ssn, "^\\d{3}[- ]?\\d{2}[- ]?\\d{4}$")
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
    {"email", is_email},
    {"hostname", is_hostname},
    {"ipv4", is_ipv4},
    {"ipv6", is_ipv6},
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
    {"password", any},
    {"date", is_date},
    {"duration", is_duration},
    {"datetime", is_date_time},
    {"k8sshortname", is_short_name},
    {"k8slongname", is_long_name},
};

static ptrdiff_t find(struct str format)
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
    return find(format) >= 0;
}

bool crd_format_holds(struct str format, struct str text)
{
    ptrdiff_t at = find(format);
    return at < 0 || formats[at].holds(text);
}
