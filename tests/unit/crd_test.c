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

// A default may be longer than what it is set for, and be set a hundred thousand times.
static void test_default_bound(void **state)
{
    (void)state;
    struct world w;
    cleanup_sbuf struct sbuf schema = {0}, json = {0};
    sbuf_addz(&schema, "{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{"
                       "\"a\":{\"type\":\"string\"},\"x\":{\"type\":\"string\",\"default\":\"");
    sbuf_add_repeat(&schema, 'd', 5000);
    sbuf_addz(&schema, "\"}}}}");
    start(&w, schema.p);
    sbuf_addz(&json, "[{\"a\":\"b\"}");
    for (size_t i = 0; i < 100000; i++)
        sbuf_addz(&json, ",{}");
    sbuf_addc(&json, ']');
    struct dyn v = value(&w, json.p);
    size_t before = w.arena.used_bytes;
    assert_false(crd_default(&v, w.schema->root, &w.arena));
    assert_true(w.arena.used_bytes - before < 2 * DRAY_OBJECT_STORED_BYTES_MAX);
    assert_int_equal(v.items[0].members_len, 2);
    assert_int_equal(v.items[100000].members_len, 0);
    end(&w);
}

// What alternatives said that did not hold is forgotten when another one does: it names the whole path, for each value below.
static void test_alternatives_bound(void **state)
{
    (void)state;
    struct world w;
    cleanup_sbuf struct sbuf json = {0};
    start(&w, OBJECT("\"m\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"object\","
                     "\"additionalProperties\":{\"x-kubernetes-int-or-string\":true,\"anyOf\":[{"
                     "\"type\":\"integer\"},{\"type\":\"string\"}]}}}"));
    sbuf_addz(&json, "{\"m\":{\"");
    sbuf_add_repeat(&json, 'k', 50000);
    sbuf_addz(&json, "\":{\"a\":1");
    for (int i = 0; i < 1000; i++)
        sbuf_addf(&json, ",\"b%d\":\"x\"", i);
    sbuf_addz(&json, "}}}");
    struct dyn v = value(&w, json.p);
    struct causes causes = {.arena = &w.arena};
    size_t before = w.arena.used_bytes;
    crd_validate(&v, NULL, w.schema->root, &causes);
    assert_int_equal(causes.n, 0);
    assert_true(w.arena.used_bytes - before < (size_t)1024 * 1024);
    end(&w);
}

// An update of the status costs what the object has, not the square of it.
static void test_status_bound(void **state)
{
    (void)state;
    struct world w;
    cleanup_sbuf struct sbuf json = {0};
    start(&w, "{\"type\":\"object\",\"x-kubernetes-preserve-unknown-fields\":true}");
    sbuf_addz(&json, "{\"status\":1");
    for (int i = 0; i < 3000; i++)
        sbuf_addf(&json, ",\"k%d\":%d,\"z%d\":%d", i, i, i, i);
    sbuf_addz(&json, "}");
    struct custom_object old = {.content = value(&w, json.p)};
    struct custom_object now = {.content = value(&w, "{\"k0\":7,\"status\":2}")};
    const struct api_object object = {NULL, &now}, before = {NULL, &old};
    size_t used = w.arena.used_bytes;
    custom_prepare(API_STATUS_UPDATE, &object, &before, NULL, &w.arena);
    assert_true(w.arena.used_bytes - used < (size_t)2 * 1024 * 1024);
    assert_int_equal(now.content.members_len, old.content.members_len);
    assert_int_equal(dyn_get(&now.content, STR("status"))->number, 2);
    assert_int_equal(dyn_get(&old.content, STR("status"))->number, 1);
    assert_int_equal(dyn_get(&now.content, STR("k0"))->number, 0);
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
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\",\"maximum\":1}},"
         "\"allOf\":[{\"properties\":{\"a\":{\"maximum\":1}}},"
         "{\"properties\":{\"a\":{\"maximum\":1}}}]}",
         "{\"a\":2}",
         "a Invalid value: 2: a in body should be less than or equal to 1\n"
         "<nil> Invalid value: \"\": \"\" must validate all the schemas (allOf). None validated"},
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
        cmocka_unit_test(test_prune),         cmocka_unit_test(test_default),
        cmocka_unit_test(test_default_bound), cmocka_unit_test(test_alternatives_bound),
        cmocka_unit_test(test_validate),      cmocka_unit_test(test_unchanged),
        cmocka_unit_test(test_schema),        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_policy),        cmocka_unit_test(test_status_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
