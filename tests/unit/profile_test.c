// SPDX-License-Identifier: Apache-2.0
#include "api/cel_check.h"
#include "api/validate.h"
#include "codec/json_writer.h"
#include "codec/yaml.h"
#include "driver/profile.h"
#include "driver/sim/template.h"
#include "unit.h"

#include "base/banned.h"

// --- Templates -----------------------------------------------------------------------------------

// expanded expands YAML with node = "n1", index = 3 and gives JSON, or the error's text.
static char *expanded(const char *yaml)
{
    struct json_doc doc = {0};
    struct json_doc out = {0};
    struct err err = {0};
    struct sbuf text = {0};
    struct template_scope node = {.name = STR("node"),
                                  .value = {.type = TEMPLATE_TEXT, .text = STR("n1")}};
    struct template_scope index = {
        .parent = &node, .name = STR("index"), .value = {.type = TEMPLATE_INT, .number = 3}};
    assert_int_equal(yaml_parse(str_z(yaml), NULL, &doc, &err), 0);
    if (template_expand(&doc, doc.root, &index, &out, &err) == 0) {
        struct json_writer w = {.out = &text};
        json_write_value(&w, out.root);
    } else {
        char line[512];
        err_text(&err, line, sizeof(line));
        sbuf_addz(&text, line);
    }
    json_doc_done(&out);
    json_doc_done(&doc);
    return sbuf_take(&text);
}

static void expands(const char *yaml, const char *json)
{
    char *got = expanded(yaml);
    assert_string_equal(got, json);
    free(got);
}

static void refuses(const char *yaml, const char *what)
{
    char *got = expanded(yaml);
    if (!strstr(got, what))
        fail_msg("%s: got %s, want %s", yaml, got, what);
    free(got);
}

static void holes_take_the_type_of_what_fills_them(void **state)
{
    (void)state;
    expands("{a: '${index}', b: 'x-${index}-${node}', c: '${1 < 2}', d: 4, e: [1, null]}",
            "{\"a\":3,\"b\":\"x-3-n1\",\"c\":true,\"d\":4,\"e\":[1,null]}");
    expands("{'k-${index + 1}': '${node}'}", "{\"k-4\":\"n1\"}");
}

static void arithmetic_binds_as_usual(void **state)
{
    (void)state;
    expands("['${1 + 2 * 3}', '${(1 + 2) * 3}', '${7 / 2}', '${7 % 4}', '${-2 - -3}', '${''a'' + "
            "''b''}', '${hex(255, 4)}', '${pad(7, 3)}', '${len(''abc'')}']",
            "[7,9,3,3,1,\"ab\",\"00ff\",\"007\",3]");
    expands("['${1 == 1}', '${1 != 1}', '${2 <= 1}', '${''a'' < ''b''}']",
            "[true,false,false,true]");
}

static void items_and_entries_repeat(void **state)
{
    (void)state;
    expands("[{$for: {i: 2, j: [a, b]}, m: '${i}${j}'}]",
            "[{\"m\":\"0a\"},{\"m\":\"0b\"},{\"m\":\"1a\"},{\"m\":\"1b\"}]");
    expands("[{$for: {i: {from: 5, count: 2}}, $item: '${i}'}]", "[5,6]");
    expands("{a: 1, $each: {$for: {i: 2}, 's-${i}': '${i}'}}", "{\"a\":1,\"s-0\":0,\"s-1\":1}");
    expands("[{$for: {i: 4}, $if: '${i % 2 == 0}', $item: '${i}'}]", "[0,2]");
    expands("[{$for: {i: 0}, $item: 1}]", "[]");
}

static void uuids_depend_on_their_arguments_alone(void **state)
{
    (void)state;
    char *a = expanded("['${uuid(node, 1)}', '${uuid(node, 1)}', '${uuid(node, 2)}']");
    assert_memory_equal(a + 2, a + 41, 36);
    assert_memory_not_equal(a + 2, a + 80, 36);
    free(a);
}

static void mistakes_are_told_with_their_place(void **state)
{
    (void)state;
    refuses("a: 1\nb: '${nix}'\n", "line 2, column 4");
    refuses("b: '${nix}'", "nothing is called \"nix\"");
    refuses("b: '${1 +}'", "a number, a name, 'text' or ( is needed");
    refuses("b: '${1 2}'", "does not belong here");
    refuses("b: '${1 / 0}'", "cannot be divided");
    refuses("b: '${9223372036854775807 + 1}'", "too large");
    refuses("b: '${node.x}'", "no such field");
    refuses("b: '${index'", "closing }");
    refuses("[{$for: {i: {from: 1}}, $item: 1}]", "from: a, count: n");
    refuses("[{$for: 3, $item: 1}]", "$for takes {name: values}");
    refuses("[{$for: {i: 2000000}, $item: 1}]", "more than 1000000 values");
    refuses("b: '${((((((((((((((((((((((((((((((((((1))))))))))))))))))))))))))))))))))}'",
            "nested too deep");
}

// --- Profiles ------------------------------------------------------------------------------------

struct judge {
    struct features features;
    struct api_cel_engine *cel;
    struct api_rules rules;
    struct arena arena;
};

static void judge_start(struct judge *j)
{
    struct err err = {0};
    *j = (struct judge){0};
    features_init(&j->features, 37);
    assert_int_equal(features_parse(&j->features, STR("AllAlpha=true,AllBeta=true"), &err), 0);
    j->cel = api_cel_engine_new();
    j->rules = (struct api_rules){.features = &j->features, .cel = api_cel_engine_rules(j->cel)};
}

static void judge_end(struct judge *j)
{
    api_cel_engine_free(j->cel);
    arena_done(&j->arena);
}

static void is_valid(struct judge *j, const char *profile, struct str api_version, struct str kind,
                     void *value)
{
    const struct api_object o = {api_kind_find(api_version, kind), value};
    struct causes causes = {.arena = &j->arena};
    api_prepare(API_CREATE, &o, NULL, &j->rules, &j->arena);
    api_validate(API_CREATE, &o, NULL, o.kind, &j->rules, &causes);
    if (causes.n > 0)
        fail_msg("%s: %.*s: %.*s: %.*s", profile, STR_ARG(kind), STR_ARG(causes.p[0].field),
                 STR_ARG(causes.p[0].message));
}

static void all_valid(struct judge *j, const char *name, const struct profile_objects *o)
{
    for (size_t i = 0; i < o->classes_len; i++)
        is_valid(j, name, STR("resource.k8s.io/v1"), STR("DeviceClass"), o->classes[i]);
    for (size_t i = 0; i < o->slices_len; i++)
        is_valid(j, name, STR("resource.k8s.io/v1"), STR("ResourceSlice"), o->slices[i]);
    if (o->node)
        is_valid(j, name, STR("v1"), STR("Node"), o->node);
}

static void every_profile_makes_valid_objects(void **state)
{
    (void)state;
    struct judge j;
    judge_start(&j);
    assert_true(profile_builtins_len >= 12);
    for (size_t i = 0; i < profile_builtins_len; i++) {
        const char *name = profile_builtins[i].name;
        struct profile *p = NULL;
        struct profile_objects node;
        struct profile_objects shared;
        struct err err = {0};
        if (profile_open(name, &p, &err) != 0 ||
            profile_node(p, STR("node-7"), 7, &j.arena, &node, &err) != 0 ||
            profile_shared(p, &j.arena, &shared, &err) != 0)
            fail_msg("%s: %s", name, err.msg);
        assert_true(str_eqz(profile_name(p), name));
        assert_true(profile_about(p).n > 0);
        assert_true(str_eq(node.node->metadata.name, STR("node-7")));
        assert_true(node.slices_len + shared.slices_len > 0);
        assert_true(shared.classes_len > 0);
        all_valid(&j, name, &node);
        all_valid(&j, name, &shared);
        profile_free(p);
    }
    judge_end(&j);
}

static void a_dgx_has_every_mig_placement(void **state)
{
    (void)state;
    struct profile *p = NULL;
    struct profile_objects o;
    struct err err = {0};
    struct arena arena = {0};
    assert_int_equal(profile_open("nvidia-a100-mig", &p, &err), 0);
    assert_int_equal(profile_node(p, STR("dgx"), 0, &arena, &o, &err), 0);
    assert_int_equal(o.slices_len, 9);
    assert_int_equal(o.slices[0]->spec.shared_counters.n, 8);
    size_t devices = 0;
    for (size_t i = 1; i < o.slices_len; i++)
        devices += o.slices[i]->spec.devices.n;
    assert_int_equal(devices, 208);
    assert_true(str_eq(o.slices[1]->metadata.name, STR("00001-gpu.nvidia.com-dgx")));
    assert_true(str_eq(o.slices[1]->spec.pool.name, STR("dgx")));
    assert_int_equal(o.slices[1]->spec.pool.resource_slice_count, 9);
    // 3g.20gb in the upper half takes memory slices 4 to 7.
    for (size_t i = 0; i < o.slices[1]->spec.devices.n; i++) {
        const struct api_device *d = &o.slices[1]->spec.devices.p[i];
        if (str_eq(d->name, STR("gpu-0-mig-3g20gb-9-4")))
            assert_int_equal(d->consumes_counters.p[0].counters.n, 7 + 4);
    }
    arena_done(&arena);
    profile_free(p);
}

static void unknown_names_and_broken_files_say_what_there_is(void **state)
{
    (void)state;
    struct profile *p = NULL;
    struct err err = {0};
    assert_int_equal(profile_open("nix", &p, &err), -ERR_NOT_FOUND);
    assert_non_null(strstr(err.msg, "example-gpu"));
    assert_int_equal(profile_open("./no/such/file.yaml", &p, &err), -ENOENT);
    assert_int_equal(profile_parse(STR("[]"), &p, &err), -ERR_INVALID);
    assert_int_equal(profile_parse(STR("about: x"), &p, &err), -ERR_INVALID);
    assert_int_equal(profile_parse(STR("profile: x\npols: []\n"), &p, &err), -ERR_INVALID);
    assert_int_equal(err.line, 2);
    assert_int_equal(profile_parse(STR("profile: x\npools: {}\n"), &p, &err), -ERR_INVALID);
}

static void a_wrong_field_is_named(void **state)
{
    (void)state;
    struct profile *p = NULL;
    struct profile_objects o;
    struct err err = {0};
    struct arena arena = {0};
    assert_int_equal(
        profile_parse(STR("profile: x\npools: [{driver: d, slices: [{devices: 5}]}]\n"), &p, &err),
        0);
    assert_int_equal(profile_node(p, STR("n"), 0, &arena, &o, &err), -ERR_BAD_REQUEST);
    assert_string_equal(err.path, "devices");
    assert_non_null(strstr(err.msg, "slice 0"));
    profile_free(p);
    arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holes_take_the_type_of_what_fills_them),
        cmocka_unit_test(arithmetic_binds_as_usual),
        cmocka_unit_test(items_and_entries_repeat),
        cmocka_unit_test(uuids_depend_on_their_arguments_alone),
        cmocka_unit_test(mistakes_are_told_with_their_place),
        cmocka_unit_test(every_profile_makes_valid_objects),
        cmocka_unit_test(a_dgx_has_every_mig_placement),
        cmocka_unit_test(unknown_names_and_broken_files_say_what_there_is),
        cmocka_unit_test(a_wrong_field_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
