// SPDX-License-Identifier: Apache-2.0
//
// Values of options: text to target, bounds and choices, and the messages about values that are not
// accepted.
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/nearest.h"
#include "cmd/engine/cli.h"

#include "base/banned.h"

bool cli_option_has_value(const struct cli_option *o)
{
    return !o->flag;
}

bool cli_option_wants_value(const struct cli_option *o)
{
    return !o->flag && !o->optional;
}

static int option_set_flag(const struct cli_option *o, const char *value, struct err *err)
{
    bool on = !value || strcmp(value, "true") == 0;
    if (!on && strcmp(value, "false") != 0)
        return err_set(err, ERR_INVALID, "%s is true or false, not '%s'", o->name, value);
    *o->flag = on != o->off;
    return o->take ? o->take(o, value, err) : 0;
}

static int option_check_choice(const struct cli_option *o, const char *value, struct err *err)
{
    struct nearest near = {.word = str_z(value)};
    cleanup_sbuf struct sbuf known = {0};
    for (struct str rest = str_z(o->choices), one; rest.n;) {
        (void)str_cut(rest, ' ', &one, &rest);
        if (str_eqz(one, value))
            return 0;
        nearest_try(&near, one);
        sbuf_addf(&known, "%s%.*s", known.n ? ", " : "", STR_ARG(one));
    }
    return err_set(err, ERR_INVALID, "%s is one of %s, not '%s'%s%.*s%s", o->name, known.p, value,
                   near.best.n ? "; did you mean '" : "", STR_ARG(near.best),
                   near.best.n ? "'?" : "");
}

static int option_set_number(const struct cli_option *o, const char *value, struct err *err)
{
    int64_t n = 0;
    if (str_to_i64(str_z(value), &n) < 0 || n < o->least || n > o->most)
        return err_set(err, ERR_INVALID, "%s needs a number from %lld to %lld, not '%s'", o->name,
                       (long long)o->least, (long long)o->most, value);
    if (o->number)
        *o->number = n;
    else
        *o->size = (size_t)n;
    return 0;
}

static int option_set_decimal(const struct cli_option *o, const char *value, struct err *err)
{
    char *end = NULL;
    double d = strtod(value, &end);
    if (end == value || *end || !isfinite(d) || d < (double)o->least || d > (double)o->most)
        return err_set(err, ERR_INVALID, "%s needs a number from %lld to %lld, not '%s'", o->name,
                       (long long)o->least, (long long)o->most, value);
    *o->decimal = d;
    return 0;
}

static int option_set_duration(const struct cli_option *o, const char *value, struct err *err)
{
    int64_t ns = 0;
    if (cli_duration(value, &ns, err) < 0)
        return err_wrap(err, "%s", o->name);
    if (ns < o->least || (o->most && ns > o->most))
        return err_set(err, ERR_INVALID, "%s needs at least %gs%s%.0g%s, not '%s'", o->name,
                       (double)o->least / (double)CLOCK_NS_PER_SEC, o->most ? " and at most " : "",
                       (double)o->most / (double)CLOCK_NS_PER_SEC, o->most ? "s" : "", value);
    *o->duration_ns = ns;
    return 0;
}

int cli_option_set(const struct cli_option *o, const char *value, struct err *err)
{
    if (o->flag)
        return option_set_flag(o, value, err);
    if (!value && !o->optional)
        return err_set(err, ERR_INVALID, "%s needs a value: %s", o->name,
                       o->choices      ? o->choices
                       : o->value_name ? o->value_name
                                       : "VALUE");
    if (value && o->choices && option_check_choice(o, value, err) < 0)
        return -ERR_INVALID;
    if (o->take)
        return o->take(o, value, err);
    if (o->number || o->size)
        return option_set_number(o, value, err);
    if (o->decimal)
        return option_set_decimal(o, value, err);
    if (o->duration_ns)
        return option_set_duration(o, value, err);
    if (o->many)
        vec_push(o->many, value);
    else
        *o->text = value;
    return 0;
}

int cli_duration(const char *text, int64_t *ret_ns, struct err *err)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {{"ms", CLOCK_NS_PER_MS},
                 {"s", CLOCK_NS_PER_SEC},
                 {"m", 60 * CLOCK_NS_PER_SEC},
                 {"h", 3600 * CLOCK_NS_PER_SEC}};
    struct str all = str_z(text);
    size_t digits = 0;
    while (digits < all.n &&
           ((all.p[digits] >= '0' && all.p[digits] <= '9') || all.p[digits] == '.'))
        digits++;
    struct str whole, part;
    bool fraction = str_cut(str_upto(all, digits), '.', &whole, &part);
    int64_t n = 0, more = 0, scale = 1;
    bool good = str_to_i64(whole, &n) == 0 && n <= 1000000 && part.n <= 6 &&
                (!fraction || str_to_i64(part, &more) == 0);
    for (size_t i = 0; i < part.n; i++)
        scale *= 10;
    for (size_t i = 0; good && i < array_len(units); i++) {
        if (!str_eqz(str_from(all, digits), units[i].name))
            continue;
        *ret_ns = n * units[i].ns + more * (units[i].ns / scale);
        return 0;
    }
    if (strcmp(text, "0") == 0)
        return *ret_ns = 0, 0;
    return err_set(err, ERR_INVALID, "'%s' is not a duration such as 500ms, 1.5s, 2m", text);
}

// --- Names ---------------------------------------------------------------------------------------

static const char *config_path; // cli_read looks at the command line itself

static const struct cli_option option_config[] = {
    {"--config", NULL, "FILE",
     "read options from a YAML or JSON file whose fields are named as the flags without dashes; "
     "flags take precedence",
     .text = &config_path},
};
static const struct cli_group option_config_group = CLI_GROUP("Configuration", option_config);

const struct cli_group *cli_group_at(const struct cli_verb *v, size_t i)
{
    size_t n = 0;
    while (n < CLI_GROUPS && v->groups[n])
        n++;
    return i < n ? v->groups[i] : i == n && v->config ? &option_config_group : NULL;
}

const struct cli_option *cli_option_find(const struct cli_verb *v, struct str name)
{
    const struct cli_group *g;
    for (size_t i = 0; (g = cli_group_at(v, i)); i++)
        for (size_t k = 0; k < g->n; k++) {
            const struct cli_option *o = &g->options[k];
            if (str_eqz(name, o->name) || (o->letter && str_eqz(name, o->letter)) ||
                (o->alias && str_eqz(name, o->alias)))
                return o;
        }
    return NULL;
}

struct str cli_option_nearest(const struct cli_verb *v, struct str name)
{
    struct nearest near = {.word = name};
    const struct cli_group *g;
    if (!str_starts(name, STR("--")))
        return (struct str){0};
    for (size_t i = 0; (g = cli_group_at(v, i)); i++)
        for (size_t k = 0; k < g->n; k++)
            if (g->options[k].help)
                nearest_try(&near, str_z(g->options[k].name));
    nearest_try(&near, STR("--help"));
    return near.best;
}
