// SPDX-License-Identifier: Apache-2.0
//
// The named formats of Kubernetes' CEL library (dns1123Label and others) with upstream's messages.
#include "cel/lib/named_format.h"

#include <ctype.h>

#include "base/civil.h"
#include "cel/lib/lib.h"
#include "cel/url.h"

#include "base/banned.h"

static void named_format_add_message(struct cel_run *run, struct cel_list *out, const char *prefix,
                                     const char *text)
{
    struct str s = arena_strf(&run->arena, "%s%s", prefix, text);
    cel_list_push(&run->arena, out, cel_string(s));
}

static void named_format_add_length(struct cel_run *run, struct cel_list *out, const char *prefix,
                                    unsigned max)
{
    // Upstream counts characters in names and bytes in labels, at least in its messages.
    const char *what = prefix ? "bytes" : "characters";
    struct str s =
        arena_strf(&run->arena, "%smust be no more than %u %s", prefix ? prefix : "", max, what);
    cel_list_push(&run->arena, out, cel_string(s));
}

static bool lower_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || isdigit((unsigned char)c);
}

// [a-z0-9]([-a-z0-9]*[a-z0-9])? or, for RFC 1035, with a letter in front.
static bool named_format_is_label(struct str s, bool letter_first)
{
    if (s.n == 0 || !lower_alnum(s.p[0]) || !lower_alnum(s.p[s.n - 1]))
        return false;
    if (letter_first && isdigit((unsigned char)s.p[0]))
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!lower_alnum(s.p[i]) && s.p[i] != '-')
            return false;
    return true;
}

static bool is_subdomain(struct str s)
{
    struct str rest = s;
    bool more = true;
    while (more) {
        struct str label;
        more = str_cut(rest, '.', &label, &rest);
        if (!named_format_is_label(label, false))
            return false;
    }
    return true;
}

// Names that a suffix will be added to may end in a dash.
static struct str named_format_mask_name(struct cel_run *run, struct str s, bool prefix)
{
    if (!prefix || s.n < 2 || s.p[s.n - 1] != '-')
        return s;
    return arena_strf(&run->arena, "%.*sa", (int)s.n - 2, s.p);
}

#define LABEL_FMT     "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
#define SUBDOMAIN_FMT LABEL_FMT "(\\." LABEL_FMT ")*"
#define USED          "regex used for validation is '"
#define LABEL_TEXT                                                                               \
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and " \
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', " USED    \
        LABEL_FMT "')"
#define SUBDOMAIN_TEXT                                                                         \
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "  \
    "or '.', and must start and end with an alphanumeric character (e.g. 'example.com', " USED \
        SUBDOMAIN_FMT "')"
#define LABEL_1035_TEXT                                                                          \
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an " \
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or "         \
    "'abc-123', " USED "[a-z]([-a-z0-9]*[a-z0-9])?')"
#define KEY_FMT "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
#define KEY_TEXT                                                                             \
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with " \
    "an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', " USED KEY_FMT "')"
#define VALUE_TEXT                                                                              \
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or " \
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "          \
    "'my_value',  or '12345', " USED "(" KEY_FMT ")?')"

static void named_format_check_label(struct cel_run *run, struct str s, struct cel_list *out,
                                     bool prefix)
{
    s = named_format_mask_name(run, s, prefix);
    if (s.n > 63)
        named_format_add_length(run, out, NULL, 63);
    if (!named_format_is_label(s, false))
        named_format_add_message(run, out, "",
                                 is_subdomain(s) ? "must not contain dots" : LABEL_TEXT);
}

static void named_format_check_subdomain(struct cel_run *run, struct str s, struct cel_list *out,
                                         const char *prefix)
{
    if (s.n > 253)
        named_format_add_length(run, out, prefix, 253);
    if (!is_subdomain(s))
        named_format_add_message(run, out, prefix ? prefix : "", SUBDOMAIN_TEXT);
}

static void label_1035(struct cel_run *run, struct str s, struct cel_list *out, bool prefix)
{
    s = named_format_mask_name(run, s, prefix);
    if (s.n > 63)
        named_format_add_length(run, out, NULL, 63);
    if (!named_format_is_label(s, true))
        named_format_add_message(run, out, "", LABEL_1035_TEXT);
}

static void check_label(struct cel_run *run, struct str s, struct cel_list *out)
{
    named_format_check_label(run, s, out, false);
}

static void check_label_prefix(struct cel_run *run, struct str s, struct cel_list *out)
{
    named_format_check_label(run, s, out, true);
}

static void check_subdomain(struct cel_run *run, struct str s, struct cel_list *out)
{
    named_format_check_subdomain(run, s, out, NULL);
}

static void check_subdomain_prefix(struct cel_run *run, struct str s, struct cel_list *out)
{
    named_format_check_subdomain(run, named_format_mask_name(run, s, true), out, NULL);
}

static void check_1035(struct cel_run *run, struct str s, struct cel_list *out)
{
    label_1035(run, s, out, false);
}

static void check_1035_prefix(struct cel_run *run, struct str s, struct cel_list *out)
{
    label_1035(run, s, out, true);
}

static bool is_key_name(struct str s)
{
    if (s.n == 0 || !isalnum((unsigned char)s.p[0]) || !isalnum((unsigned char)s.p[s.n - 1]))
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!isalnum((unsigned char)s.p[i]) && !strchr("-_.", s.p[i]))
            return false;
    return true;
}

static void check_qualified(struct cel_run *run, struct str s, struct cel_list *out)
{
    struct str prefix;
    struct str name;
    bool has_prefix = str_cut(s, '/', &prefix, &name);
    if (!has_prefix)
        name = s;
    if (has_prefix && str_find_char(name, '/') >= 0) {
        named_format_add_message(
            run, out, "a valid label key ",
            KEY_TEXT " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')");
        return;
    }
    if (has_prefix && prefix.n == 0)
        named_format_add_message(run, out, "prefix part ", "must be non-empty");
    else if (has_prefix)
        named_format_check_subdomain(run, prefix, out, "prefix part ");
    if (name.n == 0)
        named_format_add_message(run, out, "name part ", "must be non-empty");
    else if (name.n > 63)
        named_format_add_length(run, out, "name part ", 63);
    if (!is_key_name(name))
        named_format_add_message(run, out, "name part ", KEY_TEXT);
}

static void named_format_check_label_value(struct cel_run *run, struct str s, struct cel_list *out)
{
    if (s.n > 63)
        named_format_add_length(run, out, "", 63);
    if (s.n && !is_key_name(s))
        named_format_add_message(run, out, "", VALUE_TEXT);
}

static void check_uri(struct cel_run *run, struct str s, struct cel_list *out)
{
    struct err err = {0};
    if (!cel_url_valid(&run->arena, s, &err))
        named_format_add_message(run, out, "", err.msg);
}

static void check_uuid(struct cel_run *run, struct str s, struct cel_list *out)
{
    static const size_t groups[] = {8, 4, 4, 4, 12};
    size_t at = 0;
    bool ok = true;
    for (size_t g = 0; g < array_len(groups) && ok; g++) {
        if (g && at < s.n && s.p[at] == '-')
            at++;
        for (size_t i = 0; i < groups[g] && ok; i++, at++)
            ok = at < s.n && isxdigit((unsigned char)s.p[at]);
    }
    if (!ok || at != s.n)
        named_format_add_message(run, out, "", "does not match the UUID format");
}

static bool base64_char(char c)
{
    return isalnum((unsigned char)c) || c == '+' || c == '/';
}

static void check_byte(struct cel_run *run, struct str s, struct cel_list *out)
{
    bool ok = s.n && s.n % 4 == 0;
    size_t pads = 0;
    while (ok && pads < 2 && s.p[s.n - 1 - pads] == '=')
        pads++;
    for (size_t i = 0; ok && i < s.n - pads; i++)
        ok = base64_char(s.p[i]);
    if (!ok)
        named_format_add_message(run, out, "", "invalid base64");
}

static bool two_digits(struct str s, size_t at, int *ret)
{
    if (at + 2 > s.n || !isdigit((unsigned char)s.p[at]) || !isdigit((unsigned char)s.p[at + 1]))
        return false;
    *ret = (s.p[at] - '0') * 10 + s.p[at + 1] - '0';
    return true;
}

static bool named_format_is_date(struct str s)
{
    int century, year, month, day;
    if (s.n != 10 || s.p[4] != '-' || s.p[7] != '-' || !two_digits(s, 0, &century) ||
        !two_digits(s, 2, &year) || !two_digits(s, 5, &month) || !two_digits(s, 8, &day))
        return false;
    return civil_valid((struct civil_date){century * 100 + year, month, day});
}

static void check_date(struct cel_run *run, struct str s, struct cel_list *out)
{
    if (!named_format_is_date(s))
        named_format_add_message(run, out, "", "invalid date");
}

static bool is_clock(struct str s)
{
    int h, m, sec;
    if (!two_digits(s, 0, &h) || s.n < 9 || s.p[2] != ':' || !two_digits(s, 3, &m) ||
        s.p[5] != ':' || !two_digits(s, 6, &sec) || h > 23 || m > 59 || sec > 59)
        return false;
    size_t at = 8;
    // The pattern's dot is any character in front of the digits.
    if (at + 1 < s.n && isdigit((unsigned char)s.p[at + 1]) &&
        !(s.n - at == 6 && (s.p[at] == '+' || s.p[at] == '-'))) {
        at++;
        while (at < s.n && isdigit((unsigned char)s.p[at]))
            at++;
    }
    if (at + 1 == s.n && (s.p[at] == 'z' || s.p[at] == 'Z'))
        return true;
    int zone;
    return at + 6 == s.n && (s.p[at] == '+' || s.p[at] == '-') && two_digits(s, at + 1, &zone) &&
           s.p[at + 3] == ':' && two_digits(s, at + 4, &zone);
}

static void check_datetime(struct cel_run *run, struct str s, struct cel_list *out)
{
    bool ok = s.n > 11 && (s.p[10] == 'T' || s.p[10] == 't') &&
              named_format_is_date(str_upto(s, 10)) && is_clock(str_from(s, 11));
    if (!ok)
        named_format_add_message(run, out, "", "invalid datetime");
}

#define UUID_PATTERN_SIZE     70
#define DATETIME_PATTERN_SIZE 71

static const struct cel_format formats[] = {
    {"dns1123Label", 30, check_label},
    {"dns1123Subdomain", 60, check_subdomain},
    {"dns1035Label", 30, check_1035},
    {"qualifiedName", 60, check_qualified},
    {"dns1123LabelPrefix", 30, check_label_prefix},
    {"dns1123SubdomainPrefix", 60, check_subdomain_prefix},
    {"dns1035LabelPrefix", 30, check_1035_prefix},
    {"labelValue", 40, named_format_check_label_value},
    {"uri", 1103, check_uri},
    {"uuid", UUID_PATTERN_SIZE, check_uuid},
    {"byte", 84, check_byte},
    {"date", DATETIME_PATTERN_SIZE, check_date},
    {"datetime", DATETIME_PATTERN_SIZE, check_datetime},
};

// cel_format_find finds by name; NULL when there is no such format.
static const struct cel_format *cel_format_find(struct str name)
{
    for (size_t i = 0; i < array_len(formats); i++)
        if (str_eqz(name, formats[i].name))
            return &formats[i];
    return NULL;
}

static struct cel_val format_value(const struct cel_format *f)
{
    return (struct cel_val){.kind = CEL_FORMAT, .format = f};
}

static struct cel_val fn_named(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || args[0].kind != CEL_STRING)
        return cel_run_mismatch(run, "format.named", args, n);
    const struct cel_format *f = cel_format_find(cel_str(args[0]));
    return f ? cel_optional(&run->arena, format_value(f)) : cel_none;
}

static struct cel_val fn_validate(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 2 || args[0].kind != CEL_FORMAT || args[1].kind != CEL_STRING)
        return cel_run_mismatch(run, "validate", args, n);
    struct cel_list *out = cel_list_new(&run->arena, 0);
    args[0].format->check(run, cel_str(args[1]), out);
    return out->n ? cel_optional(&run->arena, cel_list_value(out)) : cel_none;
}

#define FORMAT_FN(fn, name)                                                               \
    static struct cel_val fn(struct cel_run *run, const struct cel_val *args, unsigned n) \
    {                                                                                     \
        (void)run;                                                                        \
        (void)args;                                                                       \
        (void)n;                                                                          \
        return format_value(cel_format_find(STR(name)));                                  \
    }

FORMAT_FN(fn_label, "dns1123Label")
FORMAT_FN(fn_subdomain, "dns1123Subdomain")
FORMAT_FN(fn_1035, "dns1035Label")
FORMAT_FN(fn_qualified, "qualifiedName")
FORMAT_FN(fn_label_prefix, "dns1123LabelPrefix")
FORMAT_FN(fn_subdomain_prefix, "dns1123SubdomainPrefix")
FORMAT_FN(fn_1035_prefix, "dns1035LabelPrefix")
FORMAT_FN(fn_label_value, "labelValue")
FORMAT_FN(fn_uri, "uri")
FORMAT_FN(fn_uuid, "uuid")
FORMAT_FN(fn_byte, "byte")
FORMAT_FN(fn_date, "date")
FORMAT_FN(fn_datetime, "datetime")

static const struct cel_impl table[] = {
    {"format.named", fn_named},
    {"validate", fn_validate},
    {"format.dns1123Label", fn_label},
    {"format.dns1123Subdomain", fn_subdomain},
    {"format.dns1035Label", fn_1035},
    {"format.qualifiedName", fn_qualified},
    {"format.dns1123LabelPrefix", fn_label_prefix},
    {"format.dns1123SubdomainPrefix", fn_subdomain_prefix},
    {"format.dns1035LabelPrefix", fn_1035_prefix},
    {"format.labelValue", fn_label_value},
    {"format.uri", fn_uri},
    {"format.uuid", fn_uuid},
    {"format.byte", fn_byte},
    {"format.date", fn_date},
    {"format.datetime", fn_datetime},
};

CEL_IMPLS(named_format, table);
