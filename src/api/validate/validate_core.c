// SPDX-License-Identifier: Apache-2.0
//
// Rules of single values that many core kinds have.
#include "api/validate/validate_core.h"

#include <limits.h>

#include "base/banned.h"

bool is_choice(struct choices c, struct str value)
{
    for (size_t i = 0; i < c.n; i++)
        if (str_eq(c.p[i], value))
            return true;
    return false;
}

void must_have(struct validator *v, const struct path *at, struct str value)
{
    if (value.n == 0)
        cause_required(v->causes, at, STR(""));
}

void check_choice(struct validator *v, const struct path *at, struct str value, struct choices c)
{
    if (!is_choice(c, value))
        cause_not_supported(v->causes, at, value, c.p, c.n);
}

void check_choice_required(struct validator *v, const struct path *at, struct str value,
                           struct choices c)
{
    if (value.n == 0)
        cause_required(v->causes, at, STR(""));
    else
        check_choice(v, at, value, c);
}

void check_not_negative(struct validator *v, const struct path *at, int64_t value)
{
    if (value < 0)
        cause_invalid_i64(v->causes, at, value, STR("must be greater than or equal to 0"));
}

void check_positive(struct validator *v, const struct path *at, int64_t value)
{
    if (value <= 0)
        cause_invalid_i64(v->causes, at, value, STR("must be greater than zero"));
}

void check_between(struct validator *v, const struct path *at, int64_t value, int64_t least,
                   int64_t most)
{
    if (value < least || value > most)
        cause_invalid_i64(v->causes, at, value,
                          arena_strf(scratch(v), "must be between %lld and %lld, inclusive",
                                     (long long)least, (long long)most));
}

void check_user_id(struct validator *v, const struct path *at, bool has, int64_t id)
{
    if (has)
        check_between(v, at, id, 0, INT32_MAX);
}

void check_named(struct validator *v, const struct path *at, struct str value, name_check check)
{
    struct name_msgs msgs = {.arena = scratch(v)};
    check(value, &msgs);
    for (size_t i = 0; i < msgs.n; i++)
        cause_invalid(v->causes, at, value, in_characters(msgs.p[i], check, scratch(v)));
}

void check_ip(struct validator *v, const struct path *at, struct str value)
{
    check_format(v, at, value, name_ip, NULL);
}

// --- Paths ---------------------------------------------------------------------------------------

bool path_steps_back(struct str path)
{
    struct str part;
    for (bool more = true; more;) {
        more = str_cut(path, '/', &part, &path);
        if (str_eqz(part, ".."))
            return true;
    }
    return false;
}

void check_no_backsteps(struct validator *v, const struct path *at, struct str value)
{
    if (path_steps_back(value))
        cause_invalid(v->causes, at, value, STR("must not contain '..'"));
}

void check_descending_path(struct validator *v, const struct path *at, struct str value)
{
    if (value.n && value.p[0] == '/')
        cause_invalid(v->causes, at, value, STR("must be a relative path"));
    check_no_backsteps(v, at, value);
}

void check_local_path(struct validator *v, const struct path *at, struct str value)
{
    check_descending_path(v, at, value);
    if (str_starts(value, STR("..")) && !str_starts(value, STR("../")))
        cause_invalid(v->causes, at, value, STR("must not start with '..'"));
}

// --- Ports ---------------------------------------------------------------------------------------

void check_port(struct validator *v, const struct path *at, int64_t port)
{
    check_between(v, at, port, 1, 65535);
}

void check_port_or_name(struct validator *v, const struct path *at,
                        const struct api_int_or_string *port)
{
    if (port->is_text)
        check_named(v, at, port->text, name_port);
    else
        check_port(v, at, port->number);
}

// --- Selectors -----------------------------------------------------------------------------------

static void check_selector_requirement(struct validator *v, const struct path *at,
                                       const struct api_label_selector_requirement *r)
{
    bool lists = str_eqz(r->operator, "In") || str_eqz(r->operator, "NotIn");
    bool exists = str_eqz(r->operator, "Exists") || str_eqz(r->operator, "DoesNotExist");
    const struct path *values = AT(at, "values");
    if (lists && r->values.n == 0)
        cause_required(v->causes, values,
                       STR("must be specified when `operator` is 'In' or 'NotIn'"));
    if (exists && r->values.n)
        cause_forbidden(v->causes, values,
                        STR("may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
    if (!lists && !exists)
        cause_invalid(v->causes, AT(at, "operator"), r->operator,
                      STR("not a valid selector operator"));
    check_label_key(v, AT(at, "key"), r->key);
    for (size_t i = 0; i < r->values.n; i++)
        check_named(v, AT_ITEM(values, i), r->values.p[i], name_label_value);
}

void check_label_selector(struct validator *v, const struct path *at,
                          const struct api_label_selector *selector)
{
    if (!selector)
        return;
    check_labels(v, AT(at, "matchLabels"), &selector->match_labels);
    const struct path *list = AT(at, "matchExpressions");
    for (size_t i = 0; i < selector->match_expressions.n; i++)
        check_selector_requirement(v, AT_ITEM(list, i), &selector->match_expressions.p[i]);
}
