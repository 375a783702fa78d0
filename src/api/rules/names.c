// SPDX-License-Identifier: Apache-2.0
//
// Shapes of names: labels, subdomains, identifiers, label keys and values, each with upstream's
// messages.
#include "api/names.h"

#include <assert.h>
#include <stdio.h>

#include "base/banned.h"

#define LABEL_MAX     63
#define SUBDOMAIN_MAX 253

#define LABEL_FMT     "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
#define SUBDOMAIN_FMT LABEL_FMT "(\\." LABEL_FMT ")*"
#define KEY_FMT       "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

#define KEY_RULE                                                                                \
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an " \
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "      \
    "validation is '" KEY_FMT "')"

static void names_add_message(struct name_msgs *out, struct str msg)
{
    assert(out->n < array_len(out->p));
    out->p[out->n++] = msg;
}

static void say_too_long(struct name_msgs *out, int most)
{
    names_add_message(out, arena_strf(out->arena, "must be no more than %d bytes", most));
}

static bool is_lower_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool names_is_alpha(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool names_is_alnum(char c)
{
    return is_lower_alnum(c) || (c >= 'A' && c <= 'Z');
}

// One label of any length; `ok` decides which characters count.
static bool label_shape(struct str s, bool (*ok)(char c))
{
    if (s.n == 0 || !ok(s.p[0]) || !ok(s.p[s.n - 1]))
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!ok(s.p[i]) && s.p[i] != '-')
            return false;
    return true;
}

static bool subdomain_shape(struct str s, bool (*ok)(char c))
{
    for (bool more = true; more;) {
        struct str part;
        more = str_cut(s, '.', &part, &s);
        if (!label_shape(part, ok))
            return false;
    }
    return true;
}

void name_dns_label(struct str value, struct name_msgs *out)
{
    if (value.n > LABEL_MAX)
        say_too_long(out, LABEL_MAX);
    if (label_shape(value, is_lower_alnum))
        return;
    if (subdomain_shape(value, is_lower_alnum))
        names_add_message(out, STR("must not contain dots"));
    else
        names_add_message(
            out,
            STR("a lowercase RFC 1123 label must consist of lower case alphanumeric "
                "characters or '-', and must start and end with an alphanumeric character "
                "(e.g. 'my-name',  or '123-abc', regex used for validation is '" LABEL_FMT "')"));
}

void name_dns_subdomain(struct str value, struct name_msgs *out)
{
    if (value.n > SUBDOMAIN_MAX)
        say_too_long(out, SUBDOMAIN_MAX);
    if (!subdomain_shape(value, is_lower_alnum))
        names_add_message(
            out, STR("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric "
                     "characters, '-' or '.', and must start and end with an alphanumeric "
                     "character (e.g. 'example.com', regex used for validation is '" SUBDOMAIN_FMT
                     "')"));
}

void name_dns_subdomain_caseless(struct str value, struct name_msgs *out)
{
    if (value.n > SUBDOMAIN_MAX)
        say_too_long(out, SUBDOMAIN_MAX);
    if (!subdomain_shape(value, names_is_alnum))
        names_add_message(
            out, STR("an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', "
                     "and must start and end with an alphanumeric character (e.g. 'Example.com', "
                     "regex used for validation is '" SUBDOMAIN_FMT "')"));
}

void name_dns1035_label(struct str value, struct name_msgs *out)
{
    if (value.n > LABEL_MAX)
        say_too_long(out, LABEL_MAX);
    bool starts_with_letter = value.n && value.p[0] >= 'a' && value.p[0] <= 'z';
    if (!starts_with_letter || !label_shape(value, is_lower_alnum))
        names_add_message(
            out, STR("a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
                     "start with an alphabetic character, and end with an alphanumeric character "
                     "(e.g. 'my-name',  or 'abc-123', regex used for validation is "
                     "'[a-z]([-a-z0-9]*[a-z0-9])?')"));
}

static bool key_shape(struct str s)
{
    if (s.n == 0 || !names_is_alnum(s.p[0]) || !names_is_alnum(s.p[s.n - 1]))
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!names_is_alnum(s.p[i]) && s.p[i] != '-' && s.p[i] != '_' && s.p[i] != '.')
            return false;
    return true;
}

static void check_key_prefix(struct str prefix, struct name_msgs *out)
{
    struct name_msgs inner = {.arena = out->arena};
    if (prefix.n == 0) {
        names_add_message(out, STR("prefix part must be non-empty"));
        return;
    }
    name_dns_subdomain(prefix, &inner);
    for (size_t i = 0; i < inner.n; i++)
        names_add_message(out, arena_strf(out->arena, "prefix part %.*s", STR_ARG(inner.p[i])));
}

void name_label_key(struct str value, struct name_msgs *out)
{
    struct str head, name;
    if (str_cut(value, '/', &head, &name)) {
        if (str_find_char(name, '/') >= 0) {
            names_add_message(out, STR("a valid label key " KEY_RULE
                                       " with an optional DNS subdomain prefix and '/' (e.g. "
                                       "'example.com/MyName')"));
            return;
        }
        check_key_prefix(head, out);
    } else {
        name = value;
    }
    if (name.n == 0)
        names_add_message(out, STR("name part must be non-empty"));
    else if (name.n > LABEL_MAX)
        names_add_message(out, arena_strf(out->arena, "name part must be no more than %d bytes",
                                          LABEL_MAX));
    if (!key_shape(name))
        names_add_message(out, STR("name part " KEY_RULE));
}

void name_label_value(struct str value, struct name_msgs *out)
{
    if (value.n > LABEL_MAX)
        say_too_long(out, LABEL_MAX);
    if (value.n && !key_shape(value))
        names_add_message(
            out, STR("a valid label must be an empty string or consist of alphanumeric characters, "
                     "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
                     "'MyValue',  or 'my_value',  or '12345', regex used for validation is '"
                     "(" KEY_FMT ")?')"));
}

void name_c_identifier(struct str value, struct name_msgs *out)
{
    bool good = value.n && (names_is_alpha(value.p[0]) || value.p[0] == '_');
    for (size_t i = 0; good && i < value.n; i++)
        good = names_is_alnum(value.p[i]) || value.p[i] == '_';
    if (!good)
        names_add_message(
            out, STR("a valid C identifier must start with alphabetic character or '_', followed "
                     "by a string of alphanumeric characters or '_' (e.g. 'my_name',  or "
                     "'MY_NAME',  or 'MyName', regex used for validation is "
                     "'[A-Za-z_][A-Za-z0-9_]*')"));
}

void name_path_segment(struct str value, struct name_msgs *out)
{
    if (str_eq(value, STR(".")))
        names_add_message(out, STR("may not be '.'"));
    else if (str_eq(value, STR("..")))
        names_add_message(out, STR("may not be '..'"));
    if (str_find_char(value, '/') >= 0)
        names_add_message(out, STR("may not contain '/'"));
    if (str_find_char(value, '%') >= 0)
        names_add_message(out, STR("may not contain '%'"));
}

void name_extended_resource(struct str value, struct name_msgs *out)
{
    if (str_find_char(value, '/') < 0)
        names_add_message(
            out, STR("a name must be a domain-prefixed path, such as 'example.com/my-prop'"));
    else if (str_contains(value, STR("kubernetes.io/")))
        names_add_message(out, STR("must not have \"kubernetes.io/\" domain"));
    if (str_starts(value, STR("requests.")))
        names_add_message(out, STR("must not have \"requests.\" prefix"));
    name_label_key(arena_strf(out->arena, "requests.%.*s", STR_ARG(value)), out);
}

bool name_is_dns_label(struct str value)
{
    return value.n <= LABEL_MAX && label_shape(value, is_lower_alnum);
}

bool name_is_dns_subdomain(struct str value)
{
    return value.n <= SUBDOMAIN_MAX && subdomain_shape(value, is_lower_alnum);
}

bool name_is_label_key(struct str value)
{
    struct str prefix, name;
    if (!str_cut(value, '/', &prefix, &name))
        return value.n <= LABEL_MAX && key_shape(value);
    return name_is_dns_subdomain(prefix) && name.n <= LABEL_MAX && key_shape(name);
}

bool name_is_uuid(struct str value)
{
    if (value.n != 36)
        return false;
    for (size_t i = 0; i < value.n; i++) {
        char c = value.p[i];
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
    }
    return true;
}

static bool names_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool plain_number(struct str s)
{
    if (s.n == 0 || (s.n > 1 && s.p[0] == '0'))
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!names_is_digit(s.p[i]))
            return false;
    return true;
}

// Dot-separated identifiers; with `pre`, an identifier of digits alone has no leading zero.
static bool names_are_identifiers(struct str s, bool pre)
{
    for (bool more = true; more;) {
        struct str part;
        more = str_cut(s, '.', &part, &s);
        bool digits = true;
        for (size_t i = 0; i < part.n; i++) {
            if (!names_is_alnum(part.p[i]) && part.p[i] != '-')
                return false;
            digits &= names_is_digit(part.p[i]);
        }
        if (part.n == 0 || (pre && digits && !plain_number(part)))
            return false;
    }
    return true;
}

// The regular expression of semver.org, without bounds on the numbers.
bool name_is_semver(struct str value)
{
    struct str major, minor, patch, pre, build;
    bool has_build = str_cut(value, '+', &value, &build);
    bool has_pre = str_cut(value, '-', &value, &pre);
    return str_cut(value, '.', &major, &value) && str_cut(value, '.', &minor, &patch) &&
           plain_number(major) && plain_number(minor) && plain_number(patch) &&
           (!has_pre || names_are_identifiers(pre, true)) &&
           (!has_build || names_are_identifiers(build, false));
}
