// SPDX-License-Identifier: Apache-2.0
#include "cmd/server_options.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cmd/input.h"

#include "base/banned.h"

static const struct flag {
    const char *name;
    size_t offset;
    bool is_bool;
} flags[] = {
    {"data-dir", offsetof(struct server_flags, data_dir), false},
    {"listen", offsetof(struct server_flags, listen), false},
    {"advertise-address", offsetof(struct server_flags, advertise_address), false},
    {"unix", offsetof(struct server_flags, unix_path), false},
    {"feature-gates", offsetof(struct server_flags, feature_gates), false},
    {"runtime-config", offsetof(struct server_flags, runtime_config), false},
    {"kubeconfig-out", offsetof(struct server_flags, kubeconfig_out), false},
    {"log-level", offsetof(struct server_flags, log_level), false},
    {"token-file", offsetof(struct server_flags, token_file), false},
    {"authorization-mode", offsetof(struct server_flags, authorization_mode), false},
    {"disable-admission-plugins", offsetof(struct server_flags, disable_admission_plugins), false},
    {"restore", offsetof(struct server_flags, restore), false},
    {"history-events", offsetof(struct server_flags, history_events), false},
    {"bookmark-interval", offsetof(struct server_flags, bookmark_interval), false},
    {"kubelet-certificate-authority", offsetof(struct server_flags, kubelet_ca), false},
    {"kubelet-client-certificate", offsetof(struct server_flags, kubelet_certificate), false},
    {"kubelet-client-key", offsetof(struct server_flags, kubelet_key), false},
    {"kubelet-preferred-address-types", offsetof(struct server_flags, kubelet_address_types),
     false},
    {"kubelet-insecure-tls", offsetof(struct server_flags, kubelet_insecure), true},
    {"insecure-http", offsetof(struct server_flags, insecure_http), true},
    {"anonymous-auth", offsetof(struct server_flags, anonymous_auth), true},
};

static const struct flag *flag_find(struct str name)
{
    for (size_t i = 0; i < array_len(flags); i++)
        if (str_eqz(name, flags[i].name))
            return &flags[i];
    return NULL;
}

static const char **text_of(struct server_flags *f, const struct flag *flag)
{
    return (const char **)(void *)((char *)f + flag->offset);
}

static bool *bool_of(struct server_flags *f, const struct flag *flag)
{
    return (bool *)((char *)f + flag->offset);
}

static int set_bool(struct server_flags *f, const struct flag *flag, struct str v, struct err *err)
{
    bool on = v.n == 0 || str_eq(v, STR("true"));
    if (!on && !str_eq(v, STR("false")))
        return err_set(err, ERR_INVALID, "--%s is true or false, not '%.*s'", flag->name,
                       STR_ARG(v));
    *bool_of(f, flag) = on;
    return 0;
}

// --- The file ------------------------------------------------------------------------------------

// file_text makes a flag's text of a value: a string, or for lists of switches a map of them.
static int file_text(struct server_flags *f, struct str key, const yyjson_val *v, const char **ret,
                     struct err *err)
{
    if (json_is_string(v)) {
        *ret = arena_str(&f->arena, json_str(v)).p;
        return 0;
    }
    cleanup_sbuf struct sbuf b = {0};
    int64_t number = 0;
    if (json_to_i64(v, &number, NULL) == 0) {
        sbuf_add_i64(&b, number);
    } else if (json_is_object(v)) {
        json_obj_foreach(v, name, value) {
            bool on = false;
            if (json_to_bool(value, &on, NULL) < 0)
                return err_set(err, ERR_BAD_REQUEST, "%.*s.%.*s must be true or false",
                               STR_ARG(key), STR_ARG(json_str(name)));
            sbuf_addf(&b, "%s%.*s=%s", b.n ? "," : "", STR_ARG(json_str(name)),
                      on ? "true" : "false");
        }
    } else {
        return err_set(err, ERR_BAD_REQUEST, "%.*s must be a text", STR_ARG(key));
    }
    *ret = arena_str(&f->arena, sbuf_str(&b)).p;
    return 0;
}

static int file_member(struct server_flags *f, struct str key, const yyjson_val *v, struct err *err)
{
    const struct flag *flag = flag_find(key);
    if (!flag)
        return err_set(err, ERR_BAD_REQUEST, "there is no setting '%.*s'; see 'dray help server'",
                       STR_ARG(key));
    bool on = false;
    if (!flag->is_bool)
        return file_text(f, key, v, text_of(f, flag), err);
    if (json_to_bool(v, &on, NULL) < 0)
        return err_set(err, ERR_BAD_REQUEST, "%.*s must be true or false", STR_ARG(key));
    *bool_of(f, flag) = on;
    return 0;
}

static int read_file_into(struct server_flags *f, const char *path, struct err *err)
{
    cleanup_input struct input in = {0};
    cleanup_json_doc struct json_doc doc = {0};
    int r = input_open(&in, path, err);
    if (r == 0)
        r = input_next(&in, &doc, err);
    if (r <= 0)
        return r < 0 ? err_wrap(err, "%s", path) : 0;
    if (!doc.root || !json_is_object(doc.root))
        return err_set(err, ERR_BAD_REQUEST, "%s: must hold settings such as 'listen: host:port'",
                       path);
    json_obj_foreach(doc.root, key, value) {
        r = file_member(f, json_str(key), value, err);
        if (r < 0)
            return err_wrap(err, "%s", path);
    }
    return 0;
}

// --- The command line ----------------------------------------------------------------------------

// next_flag takes one flag with its value. *i moves along.
static int next_flag(int argc, char **argv, int *i, struct str *ret_name, const char **ret_value,
                     struct err *err)
{
    const char *arg = argv[*i];
    if (strncmp(arg, "--", 2) != 0)
        return err_set(err, ERR_INVALID, "'%s' makes no sense here", arg);
    struct str name = str_z(arg + 2), value = {0};
    bool has_value = str_cut(name, '=', &name, &value);
    const struct flag *flag = flag_find(name);
    bool is_config = str_eq(name, STR("config"));
    if (!flag && !is_config)
        return err_set(err, ERR_INVALID, "there is no flag --%.*s", STR_ARG(name));
    *ret_name = name;
    *ret_value = has_value ? value.p : "";
    if (!has_value && (is_config || !flag->is_bool)) {
        if (*i + 1 >= argc)
            return err_set(err, ERR_INVALID, "--%.*s needs a value", STR_ARG(name));
        *ret_value = argv[++*i];
    }
    return 0;
}

// Two passes: the file that --config names first, then the arguments over it.
static int pass(int argc, char **argv, bool config, struct server_flags *f, struct err *err)
{
    for (int i = 1; i < argc; i++) {
        struct str name;
        const char *value = NULL;
        int r = next_flag(argc, argv, &i, &name, &value, err);
        if (r < 0)
            return r;
        const struct flag *flag = flag_find(name);
        if (config) {
            if (!flag)
                r = read_file_into(f, value, err);
        } else if (flag && flag->is_bool) {
            r = set_bool(f, flag, str_z(value), err);
        } else if (flag) {
            *text_of(f, flag) = value;
        }
        if (r < 0)
            return r;
    }
    return 0;
}

int server_flags_parse(int argc, char **argv, struct server_flags *ret, struct err *err)
{
    *ret = (struct server_flags){
        .listen = "127.0.0.1:6443", .feature_gates = "", .runtime_config = "", .log_level = "info"};
    int r = pass(argc, argv, true, ret, err);
    if (r == 0)
        r = pass(argc, argv, false, ret, err);
    if (r == 0 && !ret->data_dir)
        r = err_set(err, ERR_INVALID, "say where the data lives: --data-dir DIR");
    if (r < 0)
        server_flags_done(ret);
    return r;
}

void server_flags_done(struct server_flags *f)
{
    arena_done(&f->arena);
}
