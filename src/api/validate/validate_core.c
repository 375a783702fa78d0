// SPDX-License-Identifier: Apache-2.0
//
// Rules of single values that many core kinds have.
#include "api/validate/validate_core.h"

#include <limits.h>

#include "base/banned.h"

bool validate_is_choice(struct choices c, struct str value)
{
    for (size_t i = 0; i < c.n; i++)
        if (str_eq(c.p[i], value))
            return true;
    return false;
}

void validate_required(struct validator *v, const struct path *at, struct str value)
{
    if (value.n == 0)
        cause_required(v->causes, at, STR(""));
}

void validate_choice(struct validator *v, const struct path *at, struct str value, struct choices c)
{
    if (!validate_is_choice(c, value))
        cause_not_supported(v->causes, at, value, c.p, c.n);
}

void validate_choice_required(struct validator *v, const struct path *at, struct str value,
                              struct choices c)
{
    if (value.n == 0)
        cause_required(v->causes, at, STR(""));
    else
        validate_choice(v, at, value, c);
}

void validate_not_negative(struct validator *v, const struct path *at, int64_t value)
{
    if (value < 0)
        cause_invalid_i64(v->causes, at, value, STR("must be greater than or equal to 0"));
}

void validate_positive(struct validator *v, const struct path *at, int64_t value)
{
    if (value <= 0)
        cause_invalid_i64(v->causes, at, value, STR("must be greater than zero"));
}

void validate_between(struct validator *v, const struct path *at, int64_t value, int64_t least,
                      int64_t most)
{
    if (value < least || value > most)
        cause_invalid_i64(v->causes, at, value,
                          arena_strf(scratch(v), "must be between %lld and %lld, inclusive",
                                     (long long)least, (long long)most));
}

void validate_user_id(struct validator *v, const struct path *at, bool has, int64_t id)
{
    if (has)
        validate_between(v, at, id, 0, INT32_MAX);
}

void validate_named(struct validator *v, const struct path *at, struct str value, name_check check)
{
    struct name_msgs msgs = {.arena = scratch(v)};
    check(value, &msgs);
    for (size_t i = 0; i < msgs.n; i++)
        cause_invalid(v->causes, at, value, validate_in_characters(msgs.p[i], check, scratch(v)));
}

void validate_ip(struct validator *v, const struct path *at, struct str value)
{
    validate_format(v, at, value, name_ip, NULL);
}

// --- Paths ---------------------------------------------------------------------------------------

bool validate_path_steps_back(struct str path)
{
    struct str part;
    for (bool more = true; more;) {
        more = str_cut(path, '/', &part, &path);
        if (str_eqz(part, ".."))
            return true;
    }
    return false;
}

void validate_no_backsteps(struct validator *v, const struct path *at, struct str value)
{
    if (validate_path_steps_back(value))
        cause_invalid(v->causes, at, value, STR("must not contain '..'"));
}

void validate_descending_path(struct validator *v, const struct path *at, struct str value)
{
    if (value.n && value.p[0] == '/')
        cause_invalid(v->causes, at, value, STR("must be a relative path"));
    validate_no_backsteps(v, at, value);
}

void validate_local_path(struct validator *v, const struct path *at, struct str value)
{
    validate_descending_path(v, at, value);
    if (str_starts(value, STR("..")) && !str_starts(value, STR("../")))
        cause_invalid(v->causes, at, value, STR("must not start with '..'"));
}

// --- Ports ---------------------------------------------------------------------------------------

void validate_port(struct validator *v, const struct path *at, int64_t port)
{
    validate_between(v, at, port, 1, 65535);
}

void validate_port_or_name(struct validator *v, const struct path *at,
                           const struct api_int_or_string *port)
{
    if (port->is_text)
        validate_named(v, at, port->text, name_port);
    else
        validate_port(v, at, port->number);
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
    validate_label_key(v, AT(at, "key"), r->key);
    for (size_t i = 0; i < r->values.n; i++)
        validate_named(v, AT_ITEM(values, i), r->values.p[i], name_label_value);
}

void validate_label_selector(struct validator *v, const struct path *at,
                             const struct api_label_selector *selector)
{
    if (!selector)
        return;
    validate_labels(v, AT(at, "matchLabels"), &selector->match_labels);
    const struct path *list = AT(at, "matchExpressions");
    for (size_t i = 0; i < selector->match_expressions.n; i++)
        check_selector_requirement(v, AT_ITEM(list, i), &selector->match_expressions.p[i]);
}
