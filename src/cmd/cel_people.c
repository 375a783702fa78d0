// SPDX-License-Identifier: Apache-2.0
#include "cmd/cel_people.h"

#include <stdio.h>
#include <string.h>

#include "cel/source.h"
#include "cmd/cel_json.h"
#include "cmd/verb.h"
#include "codec/docs.h"

#include "base/banned.h"

static struct cel_env *people_env(bool new_rules)
{
    struct cel_env_options options = {.kind = CEL_ENV_DRA,
                                      .new_expressions = new_rules,
                                      .consumable_capacity = true,
                                      .list_type_attributes = true};
    return cel_env_new(&options);
}

static int compile(struct cel_env *env, struct str expr, struct cel_program **ret)
{
    cleanup_sbuf struct sbuf issues = {0};
    struct err err = {0};
    if (expr.n > DRAY_CEL_EXPRESSION_BYTES_MAX) {
        (void)fprintf(stderr, "dray cel: the expression is longer than %d bytes\n",
                      DRAY_CEL_EXPRESSION_BYTES_MAX);
        return VERB_NO;
    }
    if (cel_compile(env, expr, ret, &issues, &err) == 0)
        return VERB_OK;
    (void)fprintf(stderr, "%.*s\n", STR_ARG(sbuf_str(&issues)));
    return VERB_NO;
}

int cel_people_check(struct str expr, bool new_rules)
{
    struct cel_env *env = people_env(new_rules);
    struct cel_program *p = NULL;
    int r = compile(env, expr, &p);
    if (r == VERB_OK) {
        cleanup_sbuf struct sbuf type = {0};
        cel_type_write_go(cel_program_type(p), &type);
        uint64_t max = cel_program_max_cost(p);
        printf("type: %.*s\nestimated cost: %llu to %llu (limit %d)\n", STR_ARG(sbuf_str(&type)),
               (unsigned long long)cel_program_min_cost(p), (unsigned long long)max,
               DRAY_CEL_COST_MAX);
        if (max > DRAY_CEL_COST_MAX) {
            puts("too complex: the API server refuses an expression that may cost this much");
            r = VERB_NO;
        }
    }
    cel_program_free(p);
    cel_env_free(env);
    return r;
}

struct matcher {
    struct cel_run *run;
    struct cel_program *program;
    struct cel_shapes *shapes;
    size_t devices, matches, failures;
};

static void explain(struct matcher *m, const struct cel_result *r)
{
    cleanup_sbuf struct sbuf b = {0};
    cel_source_point(cel_program_source(m->program), r->error_pos, r->error, &b);
    printf("%.*s\n", STR_ARG(sbuf_str(&b)));
    if (r->missing_key)
        puts("   hint: guard the attribute with has(...), or read it with .? and orValue(...)");
}

static void match_device(struct matcher *m, const yyjson_val *device, struct str driver,
                         struct str where)
{
    struct cel_device *d = NULL;
    struct err err = {0};
    m->devices++;
    if (cel_json_read_device(device, driver, m->shapes, &d, &err) < 0) {
        printf("%.*s: %s\n", STR_ARG(where), err.msg);
        m->failures++;
        return;
    }
    struct cel_result r;
    bool match = cel_eval_device(m->run, m->program, d, &r);
    if (r.failed) {
        printf("%.*s: error (cost %llu)\n", STR_ARG(where), (unsigned long long)r.cost);
        explain(m, &r);
        m->failures++;
    } else {
        printf("%.*s: %s (cost %llu)\n", STR_ARG(where), match ? "match" : "no match",
               (unsigned long long)r.cost);
        m->matches += match;
    }
    cel_device_free(d);
}

static struct str text_at(const yyjson_val *v, const char *name)
{
    const yyjson_val *x = v && json_is_object(v) ? json_get(v, str_z(name)) : NULL;
    return x && json_is_string(x) ? json_str(x) : (struct str){0};
}

static void match_slice(struct matcher *m, const yyjson_val *object)
{
    const yyjson_val *items = json_get(object, STR("items"));
    if (items && json_is_array(items)) {
        json_arr_foreach(items, item)
            if (json_is_object(item))
                match_slice(m, item);
        return;
    }
    if (!str_eqz(text_at(object, "kind"), "ResourceSlice"))
        return;
    const yyjson_val *spec = json_get(object, STR("spec"));
    const yyjson_val *devices = spec ? json_get(spec, STR("devices")) : NULL;
    if (!devices || !json_is_array(devices))
        return;
    struct str driver = text_at(spec, "driver");
    struct str pool = text_at(json_get(spec, STR("pool")), "name");
    json_arr_foreach(devices, d) {
        const yyjson_val *basic = json_get(d, STR("basic")); // v1beta1
        cleanup_sbuf struct sbuf where = {0};
        sbuf_addf(&where, "%.*s/%.*s/%.*s", STR_ARG(driver), STR_ARG(pool),
                  STR_ARG(text_at(d, "name")));
        match_device(m, basic ? basic : d, driver, sbuf_str(&where));
    }
}

static bool read_file(const char *path, struct sbuf *out)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (!f) {
        perror(path);
        return false;
    }
    size_t n;
    do {
        n = fread(sbuf_space(out, 65536), 1, 65536, f);
        sbuf_commit(out, n);
    } while (n && out->n <= DRAY_FILE_BYTES_MAX);
    if (f != stdin)
        (void)fclose(f);
    return true;
}

static int match_file(struct matcher *m, const char *file)
{
    cleanup_sbuf struct sbuf text = {0};
    if (!read_file(file, &text))
        return VERB_NO;
    struct json_options options = {.max_bytes = DRAY_FILE_BYTES_MAX};
    cleanup_docs_reader struct docs_reader reader = {0};
    docs_reader_init(&reader, sbuf_str(&text), &options);
    for (;;) {
        cleanup_json_doc struct json_doc doc = {0};
        struct err err = {0};
        int r = docs_next(&reader, &doc, &err);
        if (r < 0) {
            char why[1024];
            err_text(&err, why, sizeof(why));
            (void)fprintf(stderr, "dray cel: %s: %s\n", file, why);
            return VERB_NO;
        }
        if (r == 0)
            break;
        if (json_is_object(doc.root))
            match_slice(m, doc.root);
    }
    printf("%zu of %zu devices match", m->matches, m->devices);
    if (m->failures)
        printf(", %zu could not be evaluated", m->failures);
    (void)putchar('\n');
    return m->matches ? VERB_OK : VERB_NO;
}

int cel_people_match(struct str expr, const char *file, bool new_rules)
{
    struct cel_env *env = people_env(new_rules);
    struct matcher m = {.run = cel_run_new(), .shapes = cel_shapes_new()};
    int r = compile(env, expr, &m.program);
    if (r == VERB_OK)
        r = match_file(&m, file);
    cel_program_free(m.program);
    cel_shapes_free(m.shapes);
    cel_run_free(m.run);
    cel_env_free(env);
    return r;
}
