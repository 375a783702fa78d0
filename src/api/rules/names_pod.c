// SPDX-License-Identifier: Apache-2.0
//
// The shapes of names inside pods: ports, environment variables, keys, headers, search domains.
#include <errno.h>

#include "api/names.h"

#include "base/banned.h"

#define PORT_NAME_MAX  15
#define CONFIG_KEY_MAX 253

static void names_pod_add_message(struct name_msgs *out, struct str msg)
{
    if (out->n < array_len(out->p))
        out->p[out->n++] = msg;
}

static bool names_pod_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool names_pod_is_alnum(char c)
{
    return names_pod_is_digit(c) || is_lower(c) || (c >= 'A' && c <= 'Z');
}

// Whether all of a text is made of letters and digits and the given others; an empty one is not.
static bool names_pod_has_only(struct str s, const char *others)
{
    for (size_t i = 0; i < s.n; i++)
        if (!names_pod_is_alnum(s.p[i]) && str_find_char(str_z(others), s.p[i]) < 0)
            return false;
    return s.n > 0;
}

void name_port(struct str value, struct name_msgs *out)
{
    bool charset = value.n > 0, letter = false;
    for (size_t i = 0; i < value.n; i++) {
        char c = value.p[i];
        charset = charset && (is_lower(c) || names_pod_is_digit(c) || c == '-');
        letter = letter || is_lower(c);
    }
    if (value.n > PORT_NAME_MAX)
        names_pod_add_message(out, STR("must be no more than 15 characters"));
    if (!charset)
        names_pod_add_message(
            out, STR("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"));
    if (!letter)
        names_pod_add_message(out, STR("must contain at least one letter (a-z)"));
    if (str_contains(value, STR("--")))
        names_pod_add_message(out, STR("must not contain consecutive hyphens"));
    if (value.n && (value.p[0] == '-' || value.p[value.n - 1] == '-'))
        names_pod_add_message(out, STR("must not begin or end with a hyphen"));
}

void name_env_var(struct str value, struct name_msgs *out)
{
    if (value.n == 0)
        names_pod_add_message(out, STR("environment variable name must be non-empty"));
    for (size_t i = 0; i < value.n; i++) {
        if (value.p[i] >= ' ' && value.p[i] <= '~' && value.p[i] != '=')
            continue;
        names_pod_add_message(
            out, STR("a valid environment variable name must consist only of printable ASCII "
                     "characters other than '='"));
        return;
    }
}

void name_config_key(struct str value, struct name_msgs *out)
{
    if (value.n > CONFIG_KEY_MAX)
        names_pod_add_message(out, STR("must be no more than 253 characters"));
    if (!names_pod_has_only(value, "-._"))
        names_pod_add_message(
            out, STR("a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
                     "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation "
                     "is '[-._a-zA-Z0-9]+')"));
    if (str_eqz(value, "."))
        names_pod_add_message(out, STR("must not be '.'"));
    else if (str_eqz(value, ".."))
        names_pod_add_message(out, STR("must not be '..'"));
    else if (str_starts(value, STR("..")))
        names_pod_add_message(out, STR("must not start with '..'"));
}

void name_http_header(struct str value, struct name_msgs *out)
{
    if (!names_pod_has_only(value, "-"))
        names_pod_add_message(
            out, STR("a valid HTTP header must consist of alphanumeric characters or '-' (e.g. "
                     "'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"));
}

// One label that may begin with an underscore and have more inside.
static bool search_label(struct str s)
{
    if (s.n && s.p[0] == '_')
        s = str_from(s, 1);
    if (s.n == 0)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool edge = i == 0 || i + 1 == s.n;
        if (!is_lower(c) && !names_pod_is_digit(c) && (edge || (c != '-' && c != '_')))
            return false;
    }
    return true;
}

void name_dns_search(struct str value, struct name_msgs *out)
{
    struct str rest = value, part;
    bool good = true;
    for (bool more = true; more && good;) {
        more = str_cut(rest, '.', &part, &rest);
        good = search_label(part);
    }
    if (value.n > 253)
        names_pod_add_message(out, STR("must be no more than 253 characters"));
    if (!good)
        names_pod_add_message(
            out, STR("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric "
                     "characters, '_', '-' or '.', and must start and end with an alphanumeric "
                     "character (e.g. 'example.com', regex used for validation is "
                     "'_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')"));
}
