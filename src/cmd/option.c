// SPDX-License-Identifier: Apache-2.0
#include "cmd/option.h"

#include "base/clock.h"
#include "base/str.h"
#include "cmd/input.h"

#include "base/banned.h"

static int set_flag(const struct option *o, const char *value, struct err *err)
{
    bool off = value && strcmp(value, "false") == 0;
    if (value && !off && strcmp(value, "true") != 0)
        return err_set(err, ERR_INVALID, "%s is true or false, not '%s'", o->name, value);
    *o->flag = off ? !o->value : o->value;
    return 0;
}

int option_set(const struct option *o, const char *value, struct err *err)
{
    if (o->flag)
        return set_flag(o, value, err);
    if (!value)
        return err_set(err, ERR_INVALID, "%s needs a value", o->name);
    if (o->duration_ns && option_duration(value, o->duration_ns, err) < 0)
        return err_wrap(err, "%s", o->name);
    if (o->number && (str_to_i64(str_z(value), o->number) < 0 || *o->number < o->least))
        return err_set(err, ERR_INVALID, "%s needs a number, at least %lld, not '%s'", o->name,
                       (long long)o->least, value);
    if (o->many)
        vec_push(o->many, value);
    if (o->text)
        *o->text = value;
    return 0;
}

bool option_take(const struct option *o, int argc, char **argv, int *i)
{
    size_t n = strlen(o->name);
    if (strncmp(argv[*i], o->name, n) != 0 || (argv[*i][n] != '\0' && argv[*i][n] != '='))
        return false;
    const char *value = argv[*i][n] == '=' ? argv[*i] + n + 1 : NULL;
    if (!value && option_needs_value(o) && *i + 1 < argc)
        value = argv[++*i];
    return option_set(o, value, NULL) == 0;
}

int option_duration(const char *text, int64_t *ret_ns, struct err *err)
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
    return err_set(err, ERR_INVALID, "'%s' is not a duration such as 500ms, 1.5s, 2m", text);
}

// --- Files ---------------------------------------------------------------------------------------

// joined makes one text of a list of texts, or of a map of switches: A=true,B=false.
static int joined(const yyjson_val *v, struct sbuf *out, struct err *err)
{
    if (json_is_array(v)) {
        size_t i = 0;
        json_arr_foreach(v, item) {
            if (!json_is_string(item)) {
                (void)err_set(err, ERR_BAD_REQUEST, "must be a text");
                err_path_index(err, i);
                return -ERR_BAD_REQUEST;
            }
            sbuf_addf(out, "%s%.*s", out->n ? "," : "", STR_ARG(json_str(item)));
            i++;
        }
        return 0;
    }
    json_obj_foreach(v, key, value) {
        bool on = false;
        if (json_to_bool(value, &on, NULL) < 0) {
            (void)err_set(err, ERR_BAD_REQUEST, "must be true or false");
            err_path_field(err, json_str(key).p, json_len(key));
            return -ERR_BAD_REQUEST;
        }
        sbuf_addf(out, "%s%.*s=%s", out->n ? "," : "", STR_ARG(json_str(key)),
                  on ? "true" : "false");
    }
    return 0;
}

static int set_many(const struct option *o, const yyjson_val *v, struct arena *arena,
                    struct err *err)
{
    size_t i = 0;
    if (!json_is_array(v))
        return err_set(err, ERR_BAD_REQUEST, "must be a list of texts");
    json_arr_foreach(v, item) {
        if (!json_is_string(item)) {
            (void)err_set(err, ERR_BAD_REQUEST, "must be a text");
            err_path_index(err, i);
            return -ERR_BAD_REQUEST;
        }
        vec_push(o->many, arena_str(arena, json_str(item)).p);
        i++;
    }
    return 0;
}

static int set_text(const struct option *o, const yyjson_val *v, struct arena *arena,
                    struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    int64_t number = 0;
    int r = 0;
    if (json_is_string(v))
        sbuf_add(&text, json_str(v));
    else if (json_to_i64(v, &number, NULL) == 0)
        sbuf_add_i64(&text, number);
    else if (json_is_container(v))
        r = joined(v, &text, err);
    else
        r = err_set(err, ERR_BAD_REQUEST, "must be a text");
    if (r == 0)
        *o->text = arena_str(arena, sbuf_str(&text)).p;
    return r;
}

static int set_value(const struct option *o, const yyjson_val *v, struct arena *arena,
                     struct err *err)
{
    bool on = false;
    if (o->many)
        return set_many(o, v, arena, err);
    if (o->text)
        return set_text(o, v, arena, err);
    if (o->duration_ns)
        return json_is_string(v) ? option_duration(json_str(v).p, o->duration_ns, err)
                                 : err_set(err, ERR_BAD_REQUEST, "must be a duration such as 1.5s");
    if (o->number && (json_to_i64(v, o->number, NULL) < 0 || *o->number < o->least))
        return err_set(err, ERR_BAD_REQUEST, "must be a number, at least %lld",
                       (long long)o->least);
    if (o->flag && json_to_bool(v, &on, NULL) < 0)
        return err_set(err, ERR_BAD_REQUEST, "must be true or false");
    if (o->flag)
        *o->flag = on == o->value;
    return 0;
}

static int set_member(const struct option *options, size_t n, const yyjson_val *key,
                      const yyjson_val *v, struct arena *arena, struct err *err)
{
    struct str name = json_str(key);
    size_t i = 0;
    while (i < n && !str_eqz(name, options[i].name + 2))
        i++;
    int r = i < n ? set_value(&options[i], v, arena, err)
                  : err_set(err, ERR_BAD_REQUEST, "there is no such setting");
    if (r < 0)
        err_path_field(err, name.p, name.n);
    return r;
}

int option_file(const char *path, const struct option *options, size_t n, struct arena *arena,
                struct err *err)
{
    cleanup_input struct input in = {0};
    cleanup_json_doc struct json_doc doc = {0};
    int r = input_open(&in, path, err);
    if (r == 0)
        r = input_next(&in, &doc, err);
    if (r > 0 && (!doc.root || !json_is_object(doc.root)))
        r = err_set(err, ERR_BAD_REQUEST, "must hold settings such as 'scheduler-name: dray'");
    if (r > 0) {
        json_obj_foreach(doc.root, key, value) {
            r = set_member(options, n, key, value, arena, err);
            if (r < 0)
                break;
        }
        if (r < 0)
            json_locate_err(&doc, err);
    }
    if (r >= 0)
        return 0;
    char text[DRAY_ERR_MSG_MAX];
    err_text(err, text, sizeof(text));
    return err_set(err, -r, "%s: %s", path, text);
}
