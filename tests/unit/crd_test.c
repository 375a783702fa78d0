// SPDX-License-Identifier: Apache-2.0
//
// Schemas of custom resources: what is pruned, set by default and refused, and the kinds made of definitions.
#include "api/custom.h"
#include "api/policy.h"
#include "unit.h"

#include "base/banned.h"

struct world {
    struct arena arena;
    struct crd_schema *schema;
};

static void start(struct world *w, const char *schema)
{
    struct err err = {0};
    *w = (struct world){0};
    assert_int_equal(crd_schema_read(str_z(schema), NULL, &w->schema, &err), 0);
}

static void end(struct world *w)
{
    crd_schema_free(w->schema);
    arena_done(&w->arena);
}

static struct dyn value(struct world *w, const char *json)
{
    cleanup_json_doc struct json_doc doc = {0};
    assert_int_equal(json_parse(str_z(json), NULL, &doc, NULL), 0);
    return dyn_of(doc.root, &w->arena);
}

static void assert_json(const struct dyn *v, const char *want)
{
    cleanup_sbuf struct sbuf text = {0};
    dyn_text(v, &text);
    assert_string_equal(text.p, want);
}

// All causes as "field message" lines.
static struct str told(struct world *w, const struct causes *c)
{
    cleanup_sbuf struct sbuf b = {0};
    for (size_t i = 0; i < c->n; i++)
        sbuf_addf(&b, "%s%.*s %.*s", i ? "\n" : "", STR_ARG(c->p[i].field),
                  STR_ARG(c->p[i].message));
    return arena_str(&w->arena, sbuf_str(&b));
}

static struct str judged(struct world *w, const char *json, const char *old)
{
    struct causes causes = {.arena = &w->arena};
    struct dyn v = value(w, json), before = {0};
    if (old)
        before = value(w, old);
    crd_schema_compile(w->schema);
    crd_validate(&v, old ? &before : NULL, w->schema->root, &causes);
    return told(w, &causes);
}

#define OBJECT(properties) "{\"type\":\"object\",\"properties\":{" properties "}}"

static void test_prune(void **state)
{
    (void)state;
    struct world w;
    cleanup_json_strict struct json_strict strict = {0};
    start(&w,
          OBJECT("\"a\":{\"type\":\"object\",\"properties\":{\"b\":{\"type\":\"string\"}}},"
                 "\"free\":{\"type\":\"object\",\"x-kubernetes-preserve-unknown-fields\":true},"
                 "\"map\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}"));
    struct dyn v =
        value(&w, "{\"kind\":\"K\",\"a\":{\"b\":\"1\",\"c\":2},\"free\":{\"x\":{\"y\":1}},\"map\":{"
                  "\"k\":\"v\"},\"z\":1}");
    crd_prune(&v, w.schema->root, true, &strict);
    assert_json(
        &v,
        "{\"a\":{\"b\":\"1\"},\"free\":{\"x\":{\"y\":1}},\"kind\":\"K\",\"map\":{\"k\":\"v\"}}");
    assert_int_equal(strict.reports.n, 2);
    assert_true(str_eqz(strict.reports.p[0], "unknown field \"a.c\""));
    end(&w);
}

static void test_default(void **state)
{
    (void)state;
    struct world w;
    start(&w,
          OBJECT("\"a\":{\"type\":\"integer\",\"default\":1},\"b\":{\"type\":\"string\"},"
                 "\"n\":{\"type\":\"string\",\"nullable\":true},"
                 "\"l\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"x\":{"
                 "\"type\":\"integer\",\"default\":7}}}}"));
    struct dyn v = value(&w, "{\"a\":null,\"b\":null,\"n\":null,\"l\":[{},{\"x\":1}]}");
    crd_default(&v, w.schema->root, &w.arena);
    assert_json(&v, "{\"a\":1,\"l\":[{\"x\":7},{\"x\":1}],\"n\":null}");
    end(&w);
}

static void test_validate(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *object, *want;
    } rows[] = {
        {OBJECT("\"a\":{\"type\":\"integer\"}"), "{\"a\":\"x\"}",
         "a Invalid value: \"string\": a in body must be of type integer: \"string\""},
        {OBJECT("\"a\":{\"type\":\"integer\"}"), "{\"a\":3.0}", ""},
        {OBJECT("\"a\":{\"type\":\"integer\",\"maximum\":5,\"exclusiveMaximum\":true}"),
         "{\"a\":5}", "a Invalid value: 5: a in body should be less than 5"},
        {OBJECT("\"a\":{\"type\":\"number\",\"multipleOf\":0.5}"), "{\"a\":1.3}",
         "a Invalid value: 1.3: a in body should be a multiple of 0.5"},
        {OBJECT("\"a\":{\"type\":\"string\",\"format\":\"ipv4\"}"), "{\"a\":\"1.2.3\"}",
         "a Invalid value: \"1.2.3\": a in body must be of type ipv4: \"1.2.3\""},
        {OBJECT("\"a\":{\"type\":\"array\",\"maxItems\":1,\"items\":{\"type\":\"string\"}}"),
         "{\"a\":[\"x\",\"y\"]}", "a Too many: 2: must have at most 1 item"},
        {"{\"type\":\"object\",\"required\":[\"a\"]}", "{}", "a Required value"},
        {"{\"type\":\"object\",\"oneOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}]}",
         "{\"a\":1,\"b\":2}",
         "<nil> Invalid value: \"\": \"\" must validate one and only one schema (oneOf). Found 2 "
         "valid "
         "alternatives"},
        {OBJECT("\"a\":{\"type\":\"integer\",\"format\":\"int32\"}"), "{\"a\":3000000000}",
         "<nil> Invalid value: \"\": Checked value must be of type integer with format int32 in a"},
    };
    for (size_t i = 0; i < array_len(rows); i++) {
        struct world w;
        start(&w, rows[i].schema);
        struct str got = judged(&w, rows[i].object, NULL);
        assert_string_equal(got.p ? got.p : "", rows[i].want);
        end(&w);
    }
}

static void test_unchanged(void **state)
{
    (void)state;
    struct world w;
    start(&w, OBJECT("\"a\":{\"type\":\"integer\",\"maximum\":5},\"b\":{\"type\":\"integer\"}"));
    // What was bad before may stay, what is bad now may not.
    assert_int_equal(judged(&w, "{\"a\":9,\"b\":1}", "{\"a\":9,\"b\":2}").n, 0);
    assert_true(judged(&w, "{\"a\":8,\"b\":1}", "{\"a\":9,\"b\":2}").n > 0);
    end(&w);
}

static struct str checked(struct world *w)
{
    struct causes causes = {.arena = &w->arena};
    const struct path at = path_root(STR("s"));
    const struct crd_check check = {.causes = &causes, .at = &at};
    crd_schema_check(w->schema, &check);
    return told(w, &causes);
}

static void test_schema(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *want;
    } rows[] = {
        {OBJECT("\"a\":{}"),
         "s.properties[a].type Required value: must not be empty for specified object fields"},
        {OBJECT("\"a\":{\"type\":\"string\",\"default\":5}"),
         "s.properties[a].default Invalid value: \"integer\":  in body must be of type string: "
         "\"integer\""},
        {OBJECT("\"a\":{\"type\":\"array\",\"x-kubernetes-list-type\":\"map\",\"items\":{\"type\":"
                "\"object\"}}"),
         "s.properties[a].x-kubernetes-list-map-keys Required value: must not be empty if "
         "x-kubernetes-list-type is map"},
        {"{\"type\":\"object\",\"anyOf\":[{\"properties\":{\"x\":{\"minimum\":1}}}]}",
         "s.properties[x] Required value: because it is defined in s.anyOf[0].properties[x]"},
        {OBJECT("\"a\":{\"type\":\"string\",\"pattern\":\"a\"}"), ""},
    };
    for (size_t i = 0; i < array_len(rows); i++) {
        struct world w;
        start(&w, rows[i].schema);
        struct str got = checked(&w);
        assert_string_equal(got.p ? got.p : "", rows[i].want);
        end(&w);
    }
}

static void test_rules(void **state)
{
    (void)state;
    struct world w;
    start(&w,
          OBJECT("\"spec\":{\"type\":\"object\",\"properties\":{\"low\":{\"type\":\"integer\"},"
                 "\"high\":{"
                 "\"type\":\"integer\"}},\"x-kubernetes-validations\":[{\"rule\":\"self.low < "
                 "self.high\"},{\"rule\":\"self.low >= oldSelf.low\",\"message\":\"it grows\"}]}"));
    assert_int_equal(checked(&w).n, 0);
    struct causes causes = {.arena = &w.arena};
    struct dyn v = value(&w, "{\"spec\":{\"low\":3,\"high\":2}}"),
               old = value(&w, "{\"spec\":{\"low\":4,\"high\":9}}");
    crd_rules(&v, NULL, w.schema->root, &causes);
    assert_string_equal(told(&w, &causes).p,
                        "spec Invalid value: failed rule: self.low < self.high");
    causes.n = 0;
    crd_rules(&v, &old, w.schema->root, &causes);
    assert_string_equal(
        told(&w, &causes).p,
        "spec Invalid value: failed rule: self.low < self.high\nspec Invalid value: it "
        "grows");
    end(&w);
}

static void test_policy(void **state)
{
    (void)state;
    struct world w = {0};
    struct api_validation rules[] = {{.expression = STR("variables.n < 3"),
                                      .message_expression = STR("'has ' + string(variables.n)")},
                                     {.expression = STR("object.missing == 1")}};
    struct api_variable variables[] = {{STR("n"), STR("size(object.items)")}};
    struct api_validating_admission_policy_spec spec = {.validations = {rules, 2},
                                                        .variables = {variables, 1}};
    struct policy *p = policy_new(&spec);
    struct dyn object = value(&w, "{\"items\":[1,2,3]}");
    const struct policy_request q = {.object = &object};
    struct policy_verdict *verdicts = NULL;
    assert_int_equal(policy_ask(p, &q, &w.arena, &verdicts), 2);
    assert_true(str_eqz(verdicts[0].message, "has 3"));
    assert_true(
        str_eqz(verdicts[1].message,
                "expression 'object.missing == 1' resulted in error: no such key: missing"));
    policy_free(p);
    arena_done(&w.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prune),    cmocka_unit_test(test_default),
        cmocka_unit_test(test_validate), cmocka_unit_test(test_unchanged),
        cmocka_unit_test(test_schema),   cmocka_unit_test(test_rules),
        cmocka_unit_test(test_policy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
