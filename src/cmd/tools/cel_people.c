// SPDX-License-Identifier: Apache-2.0
//
// `dray cel` for people: errors with their place in the expression, and which devices of a file
// match.
#include "cmd/tools/cel_people.h"

#include <stdio.h>

#include "cel/source.h"
#include "cmd/input.h"
#include "cmd/tools/cel_json.h"
#include "cmd/verb.h"

#include "base/banned.h"

static struct cel_env *people_env(bool new_rules)
{
    struct cel_env_options options = {.kind = CEL_ENV_DRA,
                                      .new_expressions = new_rules,
                                      .consumable_capacity = true,
                                      .list_type_attributes = true};
    return cel_env_new(&options);
}

static int cel_people_compile(struct cel_env *env, struct str expr, struct cel_program **ret)
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
    int r = cel_people_compile(env, expr, &p);
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
    struct sbuf last_error; // of the device before, while it failed the same way
    size_t same_errors;     // devices since then with that error
};

// Prints how many more devices failed like the one whose error was shown.
static void end_same_errors(struct matcher *m)
{
    if (m->same_errors)
        printf("   the same for %zu more %s\n", m->same_errors,
               m->same_errors == 1 ? "device" : "devices");
    m->same_errors = 0;
}

// Shows an error with a caret under its place, once for devices in a row that fail alike.
static void cel_people_explain_match(struct matcher *m, const struct cel_result *r,
                                     struct str where)
{
    cleanup_sbuf struct sbuf b = {0};
    cel_source_point(cel_program_source(m->program), r->error_pos, r->error, &b);
    if (m->last_error.n && str_eq(sbuf_str(&b), sbuf_str(&m->last_error))) {
        m->same_errors++;
        return;
    }
    end_same_errors(m);
    printf("%.*s: error (cost %llu)\n%.*s\n", STR_ARG(where), (unsigned long long)r->cost,
           STR_ARG(sbuf_str(&b)));
    if (r->missing_key)
        puts("   hint: guard the attribute with has(...), or read it with .? and orValue(...)");
    sbuf_clear(&m->last_error);
    sbuf_add(&m->last_error, sbuf_str(&b));
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
        cel_people_explain_match(m, &r, where);
        m->failures++;
    } else {
        end_same_errors(m);
        sbuf_clear(&m->last_error);
        printf("%.*s: %s (cost %llu)\n", STR_ARG(where), match ? "match" : "no match",
               (unsigned long long)r.cost);
        m->matches += match;
    }
    cel_device_free(d);
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
    if (!str_eqz(json_get_str(object, "kind"), "ResourceSlice"))
        return;
    const yyjson_val *spec = json_get(object, STR("spec"));
    const yyjson_val *devices = spec ? json_get(spec, STR("devices")) : NULL;
    if (!devices || !json_is_array(devices))
        return;
    struct str driver = json_get_str(spec, "driver");
    struct str pool = json_get_str(json_get(spec, STR("pool")), "name");
    json_arr_foreach(devices, d) {
        const yyjson_val *basic = json_get(d, STR("basic")); // v1beta1
        cleanup_sbuf struct sbuf where = {0};
        sbuf_addf(&where, "%.*s/%.*s/%.*s", STR_ARG(driver), STR_ARG(pool),
                  STR_ARG(json_get_str(d, "name")));
        match_device(m, basic ? basic : d, driver, sbuf_str(&where));
    }
}

static int match_file(struct matcher *m, const char *file)
{
    cleanup_input struct input in = {0};
    struct json_doc doc = {0};
    struct err err = {0};
    int r = input_open(&in, file, &err);
    while (r >= 0 && (r = input_next(&in, &doc, &err)) > 0) {
        if (json_is_object(doc.root))
            match_slice(m, doc.root);
        json_doc_done(&doc);
    }
    if (r < 0) {
        input_error(&in, "cel", &err);
        return VERB_NO;
    }
    end_same_errors(m);
    if (m->devices == 0) {
        (void)fprintf(stderr, "dray cel: %s: no devices (ResourceSlices are looked at)\n", file);
        return VERB_NO;
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
    int r = cel_people_compile(env, expr, &m.program);
    if (r == VERB_OK)
        r = match_file(&m, file);
    sbuf_done(&m.last_error);
    cel_program_free(m.program);
    cel_shapes_free(m.shapes);
    cel_run_free(m.run);
    cel_env_free(env);
    return r;
}
