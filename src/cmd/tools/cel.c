// SPDX-License-Identifier: Apache-2.0
//
// dray cel: try expressions on devices, check them, or answer questions line by line.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "cmd/tools/cel_json.h"
#include "cmd/tools/cel_people.h"
#include "cmd/verb.h"

#include "base/banned.h"

static bool read_zone(struct str name, struct sbuf *out)
{
    cleanup_sbuf struct sbuf path = {0};
    const char *dir = getenv("ZONEINFO"); // NOLINT(concurrency-mt-unsafe): nothing sets it
    sbuf_addf(&path, "%s/%.*s", dir ? dir : "/usr/share/zoneinfo", STR_ARG(name));
    FILE *f = fopen(path.p, "rb");
    if (!f)
        return false;
    size_t n;
    do {
        n = fread(sbuf_space(out, 8192), 1, 8192, f);
        sbuf_commit(out, n);
    } while (n && out->n < 1 << 20);
    (void)fclose(f);
    return out->n > 0;
}

static bool cel_verb_get_flag(const yyjson_val *v, const char *name, bool otherwise)
{
    const yyjson_val *x = v ? json_get(v, str_z(name)) : NULL;
    bool b = otherwise;
    if (x)
        (void)json_to_bool(x, &b, NULL);
    return b;
}

static int env_options(const yyjson_val *q, struct cel_env_options *ret, struct err *err)
{
    struct str env = json_get_str(q, "env");
    const yyjson_val *features = json_get(q, STR("features"));
    *ret = (struct cel_env_options){
        .kind = CEL_ENV_DRA,
        .consumable_capacity = cel_verb_get_flag(features, "consumableCapacity", !features),
        .list_type_attributes = cel_verb_get_flag(features, "listTypeAttributes", !features),
        .any_result = cel_verb_get_flag(q, "any", false),
        .no_macros = cel_verb_get_flag(q, "disableMacros", false),
        .no_check = cel_verb_get_flag(q, "disableCheck", false),
        .container = json_get_str(q, "container"),
    };
    if (str_eqz(env, "generic"))
        ret->kind = CEL_ENV_GENERIC;
    else if (str_eqz(env, "derived"))
        ret->kind = CEL_ENV_DERIVED;
    else if (str_eqz(env, "new"))
        ret->new_expressions = true;
    else if (env.n && !str_eqz(env, "dra") && !str_eqz(env, "stored"))
        return err_set(err, ERR_BAD_REQUEST, "unknown env '%.*s'", STR_ARG(env));
    if (cel_verb_get_flag(q, "derived", false))
        ret->kind = CEL_ENV_DERIVED;
    if (cel_verb_get_flag(q, "newExpressions", false))
        ret->new_expressions = true;
    return 0;
}

// Variables' values in the order of declaration; what is bound but not declared becomes dyn.
static int read_bindings(const yyjson_val *q, struct cel_env *env, struct arena *a,
                         const struct cel_val ***ret, struct err *err)
{
    const yyjson_val *bindings = json_get(q, STR("bindings"));
    if (bindings && json_is_object(bindings)) {
        json_obj_foreach(bindings, key, unused) {
            (void)unused;
            if (!cel_env_variable(env, json_str(key)))
                cel_env_add_variable(env, json_str(key), &cel_type_dyn);
        }
    }
    const struct cel_val **vars = arena_array(a, const struct cel_val *, env->variables.n + 1);
    if (bindings && json_is_object(bindings)) {
        json_obj_foreach(bindings, key, val) {
            struct cel_val *v = arena_one(a, struct cel_val);
            int r = cel_json_read_value(val, a, v, err);
            if (r < 0)
                return err_wrap(err, "binding %.*s", STR_ARG(json_str(key)));
            for (size_t i = 0; i < env->variables.n; i++)
                if (str_eq(env->variables.p[i].name, json_str(key)))
                    vars[i] = v;
        }
    }
    *ret = vars;
    return 0;
}

static void write_cost(struct json_writer *w, const char *name, uint64_t cost)
{
    json_write_key(w, str_z(name));
    if (cost == UINT64_MAX) {
        json_write_str(w, STR("18446744073709551615"));
        return;
    }
    json_write_u64(w, cost);
}

static void write_program(struct json_writer *w, const struct cel_program *p)
{
    cleanup_sbuf struct sbuf type = {0};
    cel_type_write_go(cel_program_type(p), &type);
    json_write_key(w, STR("type"));
    json_write_str(w, sbuf_str(&type));
    write_cost(w, "minCost", cel_program_min_cost(p));
    write_cost(w, "maxCost", cel_program_max_cost(p));
}

static void write_result(struct json_writer *w, const struct cel_result *r, bool selector)
{
    write_cost(w, "cost", r->cost);
    if (r->failed) {
        json_write_key(w, STR("evalError"));
        json_write_str(w, r->error);
        return;
    }
    json_write_key(w, STR("value"));
    cel_json_write_value(w, *r->value);
    if (selector || r->value->kind == CEL_BOOL) {
        json_write_key(w, STR("match"));
        json_write_bool(w, r->match);
    }
}

struct session {
    struct cel_run *run;
};

static void cel_verb_evaluate(struct session *s, const yyjson_val *q,
                              const struct cel_env_options *options, struct cel_program *p,
                              const struct cel_val *const *vars, struct json_writer *w)
{
    struct cel_shapes *shapes = cel_shapes_new();
    struct cel_device *d = NULL;
    struct err err = {0};
    const yyjson_val *device = json_get(q, STR("device"));
    int r = cel_json_read_device(device && json_is_object(device) ? device : NULL, (struct str){0},
                                 shapes, &d, &err);
    if (r < 0) {
        json_write_key(w, STR("evalError"));
        json_write_str(w, str_z(err.msg));
    } else if (cel_program_runnable(p)) {
        struct cel_result result;
        bool selector = options->kind == CEL_ENV_DRA && !options->any_result;
        if (selector)
            (void)cel_eval_device(s->run, p, d, &result);
        else
            cel_eval_value(s->run, p, d, vars, &result);
        write_result(w, &result, selector);
    }
    cel_device_free(d);
    cel_shapes_free(shapes);
}

// Compiles and evaluates one question inside an environment of its own.
static void answer_in(struct session *s, const yyjson_val *q, const struct cel_env_options *options,
                      struct json_writer *w)
{
    struct arena a = {0};
    struct cel_env *env = cel_env_new(options);
    struct err err = {0};
    const yyjson_val *declared = json_get(q, STR("typeEnv"));
    const struct cel_val **vars = NULL;
    struct cel_program *p = NULL;
    cleanup_sbuf struct sbuf issues = {0};
    int r = declared && !json_is_null(declared) ? cel_json_declare(declared, env, &err) : 0;
    if (r == 0)
        r = read_bindings(q, env, &a, &vars, &err);
    if (r < 0) {
        json_write_key(w, STR("inputError"));
        json_write_str(w, str_z(err.msg));
    } else if (cel_compile(env, json_get_str(q, "expr"), &p, &issues, &err) < 0) {
        json_write_key(w, STR("compileError"));
        json_write_str(w, sbuf_str(&issues));
    } else {
        write_program(w, p);
        cel_verb_evaluate(s, q, options, p, vars, w);
    }
    cel_program_free(p);
    cel_env_free(env);
    arena_done(&a);
}

static void cel_verb_answer_line(struct session *s, struct str line, struct sbuf *out)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct json_writer w = {.out = out};
    struct err err = {0};
    struct json_options options = {.duplicates = JSON_DUPLICATES_LAST};
    json_write_object_begin(&w);
    int r = json_parse(line, &options, &doc, &err);
    if (r == 0 && !json_is_object(doc.root))
        r = err_set(&err, ERR_BAD_REQUEST, "a question must be a JSON object");
    struct cel_env_options env = {0};
    if (r == 0) {
        const yyjson_val *id = json_get(doc.root, STR("id"));
        if (id) {
            json_write_key(&w, STR("id"));
            json_write_value(&w, id);
        }
        r = env_options(doc.root, &env, &err);
    }
    if (r < 0) {
        json_write_key(&w, STR("inputError"));
        json_write_str(&w, str_z(err.msg));
    } else {
        answer_in(s, doc.root, &env, &w);
    }
    json_write_object_end(&w);
    sbuf_addc(out, '\n');
}

static int run_jsonl(void)
{
    struct session s = {.run = cel_run_new()};
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    cleanup_sbuf struct sbuf out = {0};
    while ((n = getline(&line, &cap, stdin)) >= 0) {
        struct str text = str_trim(str_make(line, (size_t)n));
        if (text.n == 0)
            continue;
        cel_verb_answer_line(&s, text, &out);
        if (out.n > 1 << 16) {
            (void)fwrite(out.p, 1, out.n, stdout);
            sbuf_clear(&out);
        }
    }
    if (out.n)
        (void)fwrite(out.p, 1, out.n, stdout);
    free(line);
    cel_run_free(s.run);
    return VERB_OK;
}

static struct {
    struct cli_texts words;
    const char *file;
    bool check, new_rules, jsonl;
} args;

static int verb_cel(void);

static const struct cli_option cel_options[] = {
    {"--filename", "-f", "FILE", "evaluate on the ResourceSlices of a file; - reads standard input",
     .text = &args.file, .excludes = "--check"},
    {"--check", NULL, NULL, "print the type and the estimated cost", .flag = &args.check},
    {"--new", NULL, NULL, "use the rules for expressions in new objects, not for stored ones",
     .flag = &args.new_rules},
    {"--jsonl", NULL, NULL, "answer questions from standard input, one JSON object a line",
     .flag = &args.jsonl, .excludes = "--filename --check --new"},
};
static const struct cli_group cel_group = CLI_GROUP("Options", cel_options);

const struct cli_verb cel_verb = {
    .name = "cel",
    .summary = "try a CEL expression on devices, or check it",
    .chapter = CLI_PLANNING,
    .synopsis = "cel 'EXPR' -f FILE [--new]\ncel --check [--new] 'EXPR'\ncel --jsonl",
    .text = "Shows which devices of the ResourceSlices in FILE an expression matches, or its type "
            "and estimated cost.",
    .examples = "kubectl get resourceslices -o yaml | dray cel 'device.driver == "
                "\"gpu.example.com\"' -f -\n"
                "dray cel --check 'device.attributes[\"gpu.example.com\"].model == \"A100\"'",
    .groups = {&cel_group},
    .words = &args.words,
    .words_most = 1,
    .dashed_words = true,
    .run = verb_cel,
};

static int verb_cel(void)
{
    cel_set_zone_reader(read_zone);
    if (args.jsonl && args.words.n == 0)
        return run_jsonl();
    if (args.jsonl || args.words.n == 0)
        return cli_usage_error("cel", args.jsonl ? "--jsonl excludes EXPR" : "EXPR is missing");
    if (args.check)
        return cel_people_check(str_z(args.words.p[0]), args.new_rules);
    if (!args.file)
        return cli_usage_error("cel", "-f FILE or --check is missing");
    return cel_people_match(str_z(args.words.p[0]), args.file, args.new_rules);
}
