// SPDX-License-Identifier: Apache-2.0
//
// Expressions with their values, errors, costs and estimates, from data/cel/cases.txt: an expression
// a line, then an indented line with what must come out. CEL_CASES_PRINT=1 prints the file as the
// engine would have it, for adding cases (read what it says before keeping it).
#include "cel/cel.h"
#include "cel/front/type.h"
#include "cel/value.h"
#include "unit.h"

#include "base/banned.h"

static const struct str model[] = {STR_INIT("A100")}, version[] = {STR_INIT("1.2.3")};
static const struct str link_names[] = {STR_INIT("l0"), STR_INIT("l1"), STR_INIT("l2")};
static const struct str versions[] = {STR_INIT("1.0.0"), STR_INIT("2.0.0-rc.1")};
static const struct str name[] = {STR_INIT("\xc3\xa4\xc3\xb6\xc3\xbc")};
static const int64_t index_value[] = {3}, nodes[] = {0, 1};
static const bool flags[] = {true, false};

static const struct cel_attr_input attributes[] = {
    {STR_INIT("model"), CEL_ATTR_STRING, false, 1, {.strings = model}},
    {STR_INIT("index"), CEL_ATTR_INT, false, 1, {.ints = index_value}},
    {STR_INIT("ecc"), CEL_ATTR_BOOL, false, 1, {.bools = flags}},
    {STR_INIT("version"), CEL_ATTR_VERSION, false, 1, {.strings = version}},
    {STR_INIT("links"), CEL_ATTR_STRING, true, 3, {.strings = link_names}},
    {STR_INIT("nodes"), CEL_ATTR_INT, true, 2, {.ints = nodes}},
    {STR_INIT("flags"), CEL_ATTR_BOOL, true, 2, {.bools = flags}},
    {STR_INIT("vers"), CEL_ATTR_VERSION, true, 2, {.strings = versions}},
    {STR_INIT("other.example.com/name"), CEL_ATTR_STRING, false, 1, {.strings = name}},
};
static const struct cel_capacity_input capacities[] = {
    {STR_INIT("memory"), STR_INIT("80Gi")},
    {STR_INIT("cores"), STR_INIT("108")},
    {STR_INIT("other.example.com/bw"), STR_INIT("1500m")},
};

struct world {
    struct cel_env *env;
    struct cel_run *run;
    struct cel_shapes *shapes;
    struct cel_device *device;
};

static struct world world_new(struct cel_env_options options)
{
    struct cel_device_input input = {.driver = STR("gpu.example.com"),
                                     .allow_multiple_allocations = true,
                                     .attributes = attributes,
                                     .attribute_count = array_len(attributes),
                                     .capacities = capacities,
                                     .capacity_count = array_len(capacities)};
    struct world w = {cel_env_new(&options), cel_run_new(), cel_shapes_new(), NULL};
    assert_int_equal(cel_device_new(w.shapes, &input, &w.device, NULL), 0);
    return w;
}

static void world_done(struct world *w)
{
    cel_device_free(w->device);
    cel_shapes_free(w->shapes);
    cel_run_free(w->run);
    cel_env_free(w->env);
}

// What the engine says about an expression, in the notation of the cases.
static void outcome(struct world *w, struct str expr, struct sbuf *out)
{
    struct cel_program *p = NULL;
    cleanup_sbuf struct sbuf issues = {0};
    if (cel_compile(w->env, expr, &p, &issues, NULL) < 0) {
        struct str text = sbuf_str(&issues);
        struct str line;
        struct str rest;
        (void)str_cut(text, '\n', &line, &rest);
        struct str prefix = STR("compilation failed: ERROR: <input>:");
        sbuf_addf(out, "compile %.*s",
                  STR_ARG(str_starts(line, prefix) ? str_from(line, prefix.n) : line));
        return;
    }
    struct cel_result r;
    cel_eval_value(w->run, p, w->device, NULL, &r);
    if (r.failed) {
        sbuf_addf(out, "error %.*s", STR_ARG(r.error));
    } else {
        sbuf_add(out, cel_type_name(*r.value));
        sbuf_addc(out, ' ');
        cel_write(*r.value, out);
    }
    sbuf_addf(out, " | %llu %llu %llu", (unsigned long long)r.cost,
              (unsigned long long)cel_program_min_cost(p),
              (unsigned long long)cel_program_max_cost(p));
    cel_program_free(p);
}

static void read_cases(struct sbuf *out)
{
    cleanup_sbuf struct sbuf path = {0};
    const char *dir = getenv("TEST_DATA"); // NOLINT(concurrency-mt-unsafe): nothing sets it
    sbuf_addf(&path, "%s/cel/cases.txt", dir ? dir : "tests/unit/data");
    FILE *f = fopen(path.p, "rb");
    assert_non_null(f);
    size_t n;
    do {
        n = fread(sbuf_space(out, 65536), 1, 65536, f);
        sbuf_commit(out, n);
    } while (n);
    (void)fclose(f);
}

static void test_cases(void **state)
{
    (void)state;
    struct world w = world_new((struct cel_env_options){.kind = CEL_ENV_DRA, .any_result = true});
    cleanup_sbuf struct sbuf text = {0};
    read_cases(&text);
    struct str rest = sbuf_str(&text);
    bool print = getenv("CEL_CASES_PRINT") != NULL; // NOLINT(concurrency-mt-unsafe)
    size_t count = 0;
    while (rest.n) {
        struct str expr;
        struct str want;
        (void)str_cut(rest, '\n', &expr, &rest);
        if (str_starts(expr, STR("#"))) {
            if (print)
                printf("%.*s\n", STR_ARG(expr));
            continue;
        }
        (void)str_cut(rest, '\n', &want, &rest);
        cleanup_sbuf struct sbuf got = {0};
        outcome(&w, expr, &got);
        // A value may hold line breaks and worse; the file shows them as \\xNN.
        cleanup_sbuf struct sbuf line = {0};
        for (size_t i = 0; i < got.n; i++) {
            if ((unsigned char)got.p[i] < ' ')
                sbuf_addf(&line, "\\x%02x", (unsigned)got.p[i]);
            else
                sbuf_addc(&line, got.p[i]);
        }
        if (print) {
            printf("%.*s\n    %.*s\n", STR_ARG(expr), STR_ARG(sbuf_str(&line)));
        } else if (!str_eq(str_trim(want), str_trim(sbuf_str(&line)))) {
            fail_msg("%.*s\nwant %.*s\ngot  %.*s", STR_ARG(expr), STR_ARG(str_trim(want)),
                     STR_ARG(sbuf_str(&line)));
        }
        count++;
    }
    assert_true(count > 300);
    world_done(&w);
}

static void expect(struct cel_env_options options, const char *expr, const char *want)
{
    struct world w = world_new(options);
    cleanup_sbuf struct sbuf got = {0};
    outcome(&w, str_z(expr), &got);
    if (!str_contains(sbuf_str(&got), str_z(want)))
        fail_msg("%s\nwant %s\ngot  %s", expr, want, got.p);
    world_done(&w);
}

// Result types, gates and versions.
static void test_environments(void **state)
{
    (void)state;
    struct cel_env_options selector = {.kind = CEL_ENV_DRA};
    expect(selector, "1", "must evaluate to bool or the unknown type, not int");
    expect(selector, "device.attributes[\"gpu.example.com\"].index", "int 3");
    expect(selector, "device.allowMultipleAllocations", "bool true");
    struct cel_env_options fresh = {.kind = CEL_ENV_DRA, .new_expressions = true};
    expect(fresh, "device.allowMultipleAllocations", "undefined field");
    expect(fresh, "device.attributes[\"gpu.example.com\"].links.exists(l, l == \"l1\")",
           "cannot be range of a comprehension");
    expect(fresh, "device.attributes[\"gpu.example.com\"].model.includes(\"A100\")", "undeclared");
    fresh.consumable_capacity = true;
    expect(fresh, "device.allowMultipleAllocations", "bool true");
    fresh.list_type_attributes = true;
    expect(fresh, "device.attributes[\"gpu.example.com\"].links.includes(\"l1\")", "bool true");
    fresh.compat_minor = 31;
    expect(fresh, "semver(\"1.2.3\").major() == 1", "undeclared reference");
    expect(fresh, "[1].exists(i, v, v == 1)", "compile");
    struct cel_env_options derived = {.kind = CEL_ENV_DERIVED};
    expect(derived, "\"x\"", "string x");
    expect(derived, "[1, 2]", "list [1, 2]");
    expect(derived, "1.5", "must evaluate to a primitive scalar");
    derived.new_expressions = true;
    expect(derived, "[1, 2]", "must evaluate to a primitive scalar");
}

static void test_generic(void **state)
{
    (void)state;
    struct cel_env_options generic = {.kind = CEL_ENV_GENERIC};
    expect(generic, "[1, 'a', 2.0]", "list [1, a, 2]");
    expect(generic, "{1.0: 2}", "error unsupported key type");
    expect(generic, "{1: 1, 1: 2}", "error Failed with repeated key");
    expect(generic, "device", "undeclared reference");
    generic.no_macros = true;
    expect(generic, "has({'a': 1}.a)", "undeclared reference to 'has'");
    struct cel_env_options loose = {.kind = CEL_ENV_GENERIC, .no_check = true};
    expect(loose, "1 + 'a'", "error no such overload");
    expect(loose, "nothing(1) || true", "bool true");
}

static void test_variables(void **state)
{
    (void)state;
    struct cel_env *env = cel_env_new(
        &(struct cel_env_options){.kind = CEL_ENV_GENERIC, .container = STR("com.example")});
    cel_env_add_variable(env, STR("com.example.x"), &cel_type_int);
    cel_env_add_variable(env, STR("x"), &cel_type_string);
    cel_env_add_variable(env, STR("a.b"), &cel_type_int);
    struct cel_run *run = cel_run_new();
    struct cel_val one = cel_int(1);
    struct cel_val two = cel_string(STR("two"));
    const struct cel_val *vars[] = {&one, &two, NULL};
    static const struct {
        const char *expr, *want;
    } rows[] = {{"x + 1", "2"}, {".x", "two"}, {"[5].map(x, .x)", "[two]"}};
    for (size_t i = 0; i < array_len(rows); i++) {
        struct cel_program *p;
        struct cel_result r;
        assert_int_equal(cel_compile(env, str_z(rows[i].expr), &p, NULL, NULL), 0);
        cel_eval_value(run, p, NULL, vars, &r);
        assert_false(r.failed);
        cleanup_sbuf struct sbuf got = {0};
        cel_write(*r.value, &got);
        assert_str(sbuf_str(&got), rows[i].want);
        cel_program_free(p);
    }
    struct cel_program *p;
    struct cel_result r;
    assert_int_equal(cel_compile(env, STR("a.b"), &p, NULL, NULL), 0);
    cel_eval_value(run, p, NULL, vars, &r);
    assert_true(r.failed);
    assert_str(r.error, "no such attribute(s): a.b");
    cel_program_free(p);
    cel_run_free(run);
    cel_env_free(env);
}

// A device whose version is none fails whatever is asked; a capacity that is none is refused.
static void test_bad_devices(void **state)
{
    (void)state;
    struct cel_env *env = cel_env_new(&(struct cel_env_options){.kind = CEL_ENV_DRA});
    struct cel_run *run = cel_run_new();
    struct cel_shapes *shapes = cel_shapes_new();
    static const struct str bad[] = {STR_INIT("1.x")};
    struct cel_attr_input attr = {STR("v"), CEL_ATTR_VERSION, false, 1, {.strings = bad}};
    struct cel_device_input input = {.driver = STR("d"), .attributes = &attr, .attribute_count = 1};
    struct cel_device *d;
    assert_int_equal(cel_device_new(shapes, &input, &d, NULL), 0);
    struct cel_program *p;
    assert_int_equal(cel_compile(env, STR("true"), &p, NULL, NULL), 0);
    struct cel_result r;
    assert_false(cel_eval_device(run, p, d, &r));
    assert_true(r.failed);
    assert_true(str_starts(r.error, STR("attribute v: parse semantic version: ")));
    cel_device_free(d);
    attr.kind = CEL_ATTR_NONE;
    assert_int_equal(cel_device_new(shapes, &input, &d, NULL), 0);
    assert_false(cel_eval_device(run, p, d, &r));
    assert_str(r.error, "attribute v: unsupported attribute value");
    cel_device_free(d);
    struct cel_capacity_input cap = {STR("c"), STR("much")};
    struct cel_device_input with_cap = {
        .driver = STR("d"), .capacities = &cap, .capacity_count = 1};
    struct err err = {0};
    assert_int_equal(cel_device_new(shapes, &with_cap, &d, &err), -ERR_INVALID);
    assert_true(str_starts(str_z(err.msg), STR("capacity c: ")));
    cel_program_free(p);
    cel_shapes_free(shapes);
    cel_run_free(run);
    cel_env_free(env);
}

static void test_batch(void **state)
{
    (void)state;
    enum { N = 150 };
    struct cel_env *env = cel_env_new(&(struct cel_env_options){.kind = CEL_ENV_DRA});
    struct cel_run *run = cel_run_new();
    struct cel_shapes *shapes = cel_shapes_new();
    struct cel_device *devices[N];
    for (int64_t i = 0; i < N; i++) {
        // Every seventh device has another shape.
        struct cel_attr_input attr[2] = {
            {STR("n"), CEL_ATTR_INT, false, 1, {.ints = &i}},
            {STR("extra"), CEL_ATTR_INT, false, 1, {.ints = &i}},
        };
        if (i % 10 == 9)
            attr[0].name = STR("other");
        struct cel_device_input input = {
            .driver = STR("d"), .attributes = attr, .attribute_count = i % 7 == 0 ? 2 : 1};
        assert_int_equal(cel_device_new(shapes, &input, &devices[i], NULL), 0);
    }
    struct cel_program *p;
    assert_int_equal(cel_compile(env, STR("device.attributes['d'].n % 2 == 0"), &p, NULL, NULL), 0);
    uint64_t match[3];
    uint64_t failed[3];
    size_t failures;
    size_t n = cel_eval_batch(run, p, (const struct cel_device *const *)devices, N, match, failed,
                              &failures);
    assert_int_equal(n, 75);
    assert_int_equal(failures, 15);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(match[i / 64] >> i % 64 & 1, i % 10 != 9 && i % 2 == 0);
        assert_int_equal(failed[i / 64] >> i % 64 & 1, i % 10 == 9);
        cel_device_free(devices[i]);
    }
    cel_program_free(p);
    cel_shapes_free(shapes);
    cel_run_free(run);
    cel_env_free(env);
}

static void test_limits(void **state)
{
    (void)state;
    struct world w = world_new((struct cel_env_options){.kind = CEL_ENV_DRA});
    struct cel_program *p;
    struct cel_result r;
    const char *loop = "lists.range(1000).all(a, lists.range(1000).all(b, a + b >= 0))";
    assert_int_equal(cel_compile(w.env, str_z(loop), &p, NULL, NULL), 0);
    assert_false(cel_eval_device(w.run, p, w.device, &r));
    assert_str(r.error, "operation cancelled: actual cost limit exceeded");
    assert_true(r.cost > DRAY_CEL_COST_MAX && r.cost < DRAY_CEL_COST_MAX + 20);
    volatile bool stop = true;
    cel_run_set_cancel(w.run, &stop);
    assert_false(cel_eval_device(w.run, p, w.device, &r));
    assert_str(r.error, "operation interrupted");
    cel_run_set_cancel(w.run, NULL);
    cel_program_free(p);
    assert_int_equal(cel_compile(w.env, STR("1 + 1 == 2"), &p, NULL, NULL), 0);
    cel_run_set_limit(w.run, 1);
    assert_false(cel_eval_device(w.run, p, w.device, &r));
    assert_true(r.failed);
    cel_run_set_limit(w.run, 2);
    assert_true(cel_eval_device(w.run, p, w.device, &r));
    cel_program_free(p);
    world_done(&w);
}

static void test_cache(void **state)
{
    (void)state;
    struct cel_env *env = cel_env_new(&(struct cel_env_options){.kind = CEL_ENV_DRA});
    struct cel_cache *cache = cel_cache_new(2);
    struct cel_program *a, *b, *c, *again;
    assert_int_equal(cel_cache_get(cache, env, STR("true"), &a, NULL, NULL), 0);
    assert_int_equal(cel_cache_get(cache, env, STR("false"), &b, NULL, NULL), 0);
    assert_int_equal(cel_cache_get(cache, env, STR("true"), &again, NULL, NULL), 0);
    assert_ptr_equal(a, again);
    cel_program_free(again);
    // "false" was used longest ago and goes; its owner keeps it.
    assert_int_equal(cel_cache_get(cache, env, STR("1 == 1"), &c, NULL, NULL), 0);
    assert_int_equal(cel_cache_get(cache, env, STR("false"), &again, NULL, NULL), 0);
    assert_ptr_not_equal(b, again);
    struct err err = {0};
    struct cel_program *none;
    assert_int_equal(cel_cache_get(cache, env, STR("1 +"), &none, NULL, &err), -ERR_INVALID);
    cel_program_free(a);
    cel_program_free(b);
    cel_program_free(c);
    cel_program_free(again);
    cel_cache_free(cache);
    cel_env_free(env);
}

RUN_TESTS(TEST_CASE(test_cases), TEST_CASE(test_environments), TEST_CASE(test_generic),
          TEST_CASE(test_variables), TEST_CASE(test_bad_devices), TEST_CASE(test_batch),
          TEST_CASE(test_limits), TEST_CASE(test_cache))
