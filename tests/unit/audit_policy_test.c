// SPDX-License-Identifier: Apache-2.0
//
// Audit policies: what is refused, and which rule a request finds.
#include "server/audit/audit_policy.h"
#include "unit.h"

#include "base/banned.h"

#define HEAD "apiVersion: audit.k8s.io/v1\nkind: Policy\n"

static void test_errors(void **state)
{
    (void)state;
    static const struct {
        const char *text, *path, *message;
        size_t line;
    } cases[] = {
        {"", "", "not an audit policy", 0},
        {"[]", "", "not an audit policy", 0},
        {"apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]", "",
         "not an audit policy", 0},
        {HEAD "rules:\n- level: None\n   x: y\n", "", "invalid YAML", 5},
        {HEAD, "rules", "there are no rules", 0},
        {HEAD "rules: {}", "rules", "is of type object, not array", 0},
        {HEAD "rules: [x]", "rules[0]", "is of type string, not object", 0},
        {HEAD "rules: [{level: None}, {level: 3}]", "rules[1].level", "is of type number", 0},
        {HEAD "rules: [{level: none}]", "rules[0].level", "\"none\" is not a level", 0},
        {HEAD "rules: [{}]", "rules[0].level", "is required", 0},
        {HEAD "rules: [{level: None, verb: [a]}]", "rules[0].verb", "unknown field", 0},
        {HEAD "rule: []", "rule", "unknown field", 0},
        {HEAD "rules: [{level: None, users: [a, 1]}]", "rules[0].users[1]", "is of type number", 0},
        {HEAD "rules: [{level: None, omitStages: [Panic, X]}]", "rules[0].omitStages[1]",
         "\"X\" is not a stage", 0},
        {HEAD "rules: [{level: None, omitManagedFields: 1}]", "rules[0].omitManagedFields", "", 0},
        {HEAD "rules: [{level: None, nonResourceURLs: [a]}]", "rules[0].nonResourceURLs[0]",
         "must begin with a '/'", 0},
        {HEAD "rules: [{level: None, nonResourceURLs: [/a*/b]}]", "rules[0].nonResourceURLs[0]",
         "must be the final character", 0},
        {HEAD "rules: [{level: None, namespaces: [a], nonResourceURLs: [/a]}]",
         "rules[0].nonResourceURLs", "cannot apply to both", 0},
        {HEAD "rules: [{level: None, resources: [{group: a/v1}]}]", "rules[0].resources[0].group",
         "without a version", 0},
        {HEAD "rules: [{level: None, resources: [{resourceNames: [a]}]}]",
         "rules[0].resources[0].resourceNames", "requires at least one resource", 0},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        struct audit_policy p;
        struct err err = {0};
        assert_true(audit_policy_parse(str_z(cases[i].text), &p, &err) < 0);
        assert_string_equal(err.path, cases[i].path);
        assert_non_null(strstr(err.msg, cases[i].message));
        assert_int_equal(err.line, cases[i].line);
    }
}

static const struct str groups[] = {STR_INIT("devs"), STR_INIT("system:authenticated")};
static const struct registry_user ann = {
    .name = STR_INIT("ann"), .groups = groups, .groups_len = 2};

static enum audit_level ask(const char *rule, struct access q)
{
    cleanup_sbuf struct sbuf text = {0};
    struct audit_policy p;
    struct err err = {0};
    sbuf_addf(&text, HEAD "rules: [{level: Metadata, %s}]", rule);
    if (audit_policy_parse(sbuf_str(&text), &p, &err) < 0)
        fail_msg("%s: %s", rule, err.msg);
    q.user = &ann;
    enum audit_level level = audit_policy_choose(&p, &q).level;
    audit_policy_done(&p);
    return level;
}

static void test_matching(void **state)
{
    (void)state;
    const struct access pods = {
        .verb = STR("get"), .resource = STR("pods"), .namespace = STR("ns"), .name = STR("p")};
    const struct access log = {.verb = STR("get"),
                               .resource = STR("pods"),
                               .subresource = STR("log"),
                               .namespace = STR("ns")};
    const struct access apps = {
        .verb = STR("list"), .group = STR("apps"), .resource = STR("deployments")};
    const struct access path = {.verb = STR("get"), .path = STR("/healthz/x")};
    const struct {
        const char *rule;
        const struct access *q;
        bool matches;
    } cases[] = {
        {"users: []", &pods, true},
        {"users: [bob, ann]", &pods, true},
        {"users: [bob]", &pods, false},
        {"userGroups: [x, devs]", &path, true},
        {"userGroups: [x]", &path, false},
        {"verbs: [get]", &path, true},
        {"verbs: [list]", &pods, false},
        {"namespaces: [ns]", &pods, true},
        {"namespaces: [\"\"]", &pods, false},
        {"namespaces: [\"\"]", &apps, true},
        {"namespaces: [ns]", &path, false},
        {"resources: [{group: \"\"}]", &pods, true},
        {"resources: [{}]", &pods, true},
        {"resources: [{group: apps}]", &pods, false},
        {"resources: [{group: \"*\", resources: [deployments]}]", &apps, true},
        {"resources: [{resources: [pods]}]", &pods, true},
        {"resources: [{resources: [pods]}]", &log, false},
        {"resources: [{resources: [pods/log]}]", &log, true},
        {"resources: [{resources: [\"*\"]}]", &log, true},
        {"resources: [{resources: [\"*/log\"]}]", &log, true},
        {"resources: [{resources: [\"*/log\"]}]", &pods, false},
        {"resources: [{resources: [\"pods/*\"]}]", &log, true},
        {"resources: [{resources: [\"pods/*\"]}]", &pods, true},
        {"resources: [{resources: [pods], resourceNames: [p]}]", &pods, true},
        {"resources: [{resources: [pods], resourceNames: [q]}]", &pods, false},
        {"resources: [{resources: [pods]}]", &path, false},
        {"nonResourceURLs: [\"/healthz*\"]", &path, true},
        {"nonResourceURLs: [\"*\"]", &path, true},
        {"nonResourceURLs: [/healthz]", &path, false},
        {"nonResourceURLs: [\"*\"]", &pods, false},
    };
    for (size_t i = 0; i < array_len(cases); i++)
        if ((ask(cases[i].rule, *cases[i].q) == AUDIT_METADATA) != cases[i].matches)
            fail_msg("%s, case %zu", cases[i].rule, i);
}

static void test_choice(void **state)
{
    (void)state;
    struct audit_policy p;
    struct err err = {0};
    const struct access q = {.user = &ann, .verb = STR("get"), .path = STR("/a")};
    // The first rule decides; stages that the policy omits are omitted by every rule.
    assert_int_equal(audit_policy_parse(STR(HEAD "rules: [{level: None, users: [bob]}, {level: "
                                                 "Request, omitStages: [Panic], "
                                                 "omitManagedFields: false}, {level: "
                                                 "RequestResponse}]\nomitManagedFields: "
                                                 "true\nomitStages: [RequestReceived]"),
                                        &p, &err),
                     0);
    struct audit_choice c = audit_policy_choose(&p, &q);
    assert_int_equal(c.level, AUDIT_REQUEST);
    assert_int_equal(c.omit_stages, AUDIT_RECEIVED | AUDIT_PANIC);
    assert_false(c.omit_managed);
    audit_policy_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_matching),
        cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
