// SPDX-License-Identifier: Apache-2.0
//
// Config files. A value becomes the text that the same option has on the command line, so that one
// set of checks serves both.
#include "cmd/engine/config.h"

#include "cmd/input.h"

#include "base/banned.h"

// config_add_item adds one element of a list or one switch of a map.
static int config_add_item(const yyjson_val *key, const yyjson_val *v, size_t i, struct sbuf *out,
                           struct err *err)
{
    bool on = false;
    if (!key && json_is_string(v)) {
        sbuf_addf(out, "%s%.*s", i ? "," : "", STR_ARG(json_str(v)));
        return 0;
    }
    if (key && json_to_bool(v, &on, NULL) == 0) {
        sbuf_addf(out, "%s%.*s=%s", i ? "," : "", STR_ARG(json_str(key)), on ? "true" : "false");
        return 0;
    }
    (void)err_set(err, ERR_BAD_REQUEST, key ? "must be true or false" : "must be a text");
    if (key)
        err_path_field(err, json_str(key).p, json_len(key));
    else
        err_path_index(err, i);
    return -ERR_BAD_REQUEST;
}

// config_add_text makes the text of a value as it would be on the command line.
static int config_add_text(const yyjson_val *v, struct sbuf *out, struct err *err)
{
    int64_t number = 0;
    bool on = false;
    size_t i = 0;
    int r = 0;
    if (json_is_string(v)) {
        sbuf_add(out, json_str(v));
    } else if (json_to_bool(v, &on, NULL) == 0) {
        sbuf_addz(out, on ? "true" : "false");
    } else if (json_to_i64(v, &number, NULL) == 0) {
        sbuf_add_i64(out, number);
    } else if (json_is_array(v)) {
        json_arr_foreach(v, item) {
            r = r < 0 ? r : config_add_item(NULL, item, i++, out, err);
        }
    } else if (json_is_object(v)) {
        json_obj_foreach(v, key, value) {
            r = r < 0 ? r : config_add_item(key, value, i++, out, err);
        }
    } else {
        r = err_set(err, ERR_BAD_REQUEST, "must be a text");
    }
    return r;
}

static int config_set_many(const struct cli_option *o, const yyjson_val *v, struct arena *arena,
                           struct err *err)
{
    size_t i = 0;
    int r = 0;
    json_arr_foreach(v, item) {
        if (!json_is_string(item))
            r = err_set(err, ERR_BAD_REQUEST, "must be a text");
        else
            r = cli_option_set(o, arena_str(arena, json_str(item)).p, err);
        if (r < 0) {
            err_path_index(err, i);
            return r;
        }
        i++;
    }
    return 0;
}

static int config_set_value(const struct cli_option *o, const yyjson_val *v, struct arena *arena,
                            struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    bool on = false;
    if ((o->many || o->repeats) && json_is_array(v))
        return config_set_many(o, v, arena, err);
    if (o->flag && json_to_bool(v, &on, NULL) < 0)
        return err_set(err, ERR_BAD_REQUEST, "must be true or false");
    if (o->optional && json_to_bool(v, &on, NULL) == 0)
        return on ? cli_option_set(o, NULL, err) : 0;
    int r = config_add_text(v, &text, err);
    return r < 0 ? r : cli_option_set(o, arena_str(arena, sbuf_str(&text)).p, err);
}

static int config_set_member(const struct cli_verb *v, const struct cli_config_ops *ops,
                             const yyjson_val *key, const yyjson_val *value, struct arena *arena,
                             struct err *err)
{
    cleanup_sbuf struct sbuf name = {0};
    sbuf_addf(&name, "--%.*s", STR_ARG(json_str(key)));
    const struct cli_option *o = cli_option_find(v, sbuf_str(&name));
    struct str near = o ? (struct str){0} : cli_option_nearest(v, sbuf_str(&name));
    int r = 0;
    if (!o || strcmp(o->name, "--config") == 0)
        r = err_set(err, ERR_BAD_REQUEST, "there is no such setting%s%.*s%s",
                    near.n ? "; did you mean '" : "", STR_ARG(near.n ? str_from(near, 2) : near),
                    near.n ? "'?" : "");
    else if (!ops->skip(ops->arg, o))
        r = config_set_value(o, value, arena, err);
    if (r < 0)
        err_path_field(err, json_str(key).p, json_len(key));
    else
        ops->set(ops->arg, o);
    return r;
}

int cli_config_read(const char *path, const struct cli_verb *v, const struct cli_config_ops *ops,
                    struct arena *arena, struct err *err)
{
    cleanup_input struct input in = {0};
    cleanup_json_doc struct json_doc doc = {0};
    int r = input_open(&in, path, err);
    if (r == 0)
        r = input_next(&in, &doc, err);
    if (r > 0 && (!doc.root || !json_is_object(doc.root)))
        r = err_set(err, ERR_BAD_REQUEST, "must hold settings such as 'log-level: info'");
    if (r > 0) {
        json_obj_foreach(doc.root, key, value) {
            r = config_set_member(v, ops, key, value, arena, err);
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
