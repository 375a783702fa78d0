// SPDX-License-Identifier: Apache-2.0
//
// Rules of roles, what covers what, and the policy that comes with the program.
#include "base/arena.h"
#include "server/auth/rbac.h"
#include "server/auth/roles.h"
#include "unit.h"

#include "base/banned.h"

static struct api_str_array words(struct arena *a, const char *text)
{
    struct str rest = str_z(text);
    struct str *p = arena_array(a, struct str, 16);
    size_t n = 0;
    while (rest.n) {
        str_cut(rest, ' ', &p[n], &rest);
        if (str_eqz(p[n], "core"))
            p[n] = STR("");
        n++;
    }
    return (struct api_str_array){p, n};
}

static struct api_policy_rule rule(struct arena *a, const char *verbs, const char *groups,
                                   const char *resources, const char *names)
{
    return (struct api_policy_rule){.verbs = words(a, verbs),
                                    .api_groups = words(a, groups),
                                    .resources = words(a, resources),
                                    .resource_names = words(a, names)};
}

static struct access resource(const char *verb, const char *group, const char *what,
                              const char *name)
{
    struct access q = {.verb = str_z(verb), .group = str_z(group), .name = str_z(name)};
    (void)str_cut(str_z(what), '/', &q.resource, &q.subresource);
    return q;
}

static void a_resource_does_not_give_its_subresources(void **state)
{
    (void)state;
    cleanup_arena struct arena a = {0};
    struct api_policy_rule r = rule(&a, "get list", "core", "pods */status", "");
    struct access q = resource("get", "", "pods", "p");
    assert_true(rbac_rule_allows(&r, &q));
    q = resource("get", "", "pods/log", "p");
    assert_false(rbac_rule_allows(&r, &q));
    q = resource("get", "", "nodes/status", "n");
    assert_true(rbac_rule_allows(&r, &q));
    q = resource("get", "", "nodes", "n");
    assert_false(rbac_rule_allows(&r, &q));
    q = resource("delete", "", "pods", "p");
    assert_false(rbac_rule_allows(&r, &q));
    q = resource("get", "apps", "pods", "p");
    assert_false(rbac_rule_allows(&r, &q));
}

static void names_narrow_and_do_not_list(void **state)
{
    (void)state;
    cleanup_arena struct arena a = {0};
    struct api_policy_rule r = rule(&a, "*", "*", "configmaps", "one two");
    struct access q = resource("update", "", "configmaps", "two");
    assert_true(rbac_rule_allows(&r, &q));
    q = resource("update", "", "configmaps", "three");
    assert_false(rbac_rule_allows(&r, &q));
    q = resource("list", "", "configmaps", "");
    assert_false(rbac_rule_allows(&r, &q));
}

static void paths_end_in_a_star(void **state)
{
    (void)state;
    cleanup_arena struct arena a = {0};
    struct api_policy_rule r = {.verbs = words(&a, "get"),
                                .non_resource_urls = words(&a, "/metrics /logs/*")};
    struct access q = {.verb = STR("get"), .path = STR("/logs/x/y")};
    assert_true(rbac_rule_allows(&r, &q));
    q.path = STR("/logs");
    assert_false(rbac_rule_allows(&r, &q));
    q.path = STR("/metrics");
    assert_true(rbac_rule_allows(&r, &q));
    q.path = STR("/metrics/more");
    assert_false(rbac_rule_allows(&r, &q));
    q = resource("get", "", "pods", "");
    assert_false(rbac_rule_allows(&r, &q));
}

static void several_rules_cover_one_together(void **state)
{
    (void)state;
    cleanup_arena struct arena a = {0};
    struct api_policy_rule get = rule(&a, "get", "core apps", "*", "");
    struct api_policy_rule list = rule(&a, "list", "core", "pods", "");
    const struct api_policy_rule *have[] = {&get, &list};
    const struct api_policy_rule *missing = NULL;
    uint64_t left = 1000;
    struct api_policy_rule wanted = rule(&a, "get list", "core", "pods", "");
    assert_true(rbac_covers(have, 2, &wanted, 1, &left, &missing));
    wanted = rule(&a, "get list", "core apps", "pods", "");
    assert_false(rbac_covers(have, 2, &wanted, 1, &left, &missing));
    assert_ptr_equal(missing, &wanted);
    wanted = rule(&a, "get", "apps", "deployments/scale *", "x");
    assert_true(rbac_covers(have, 2, &wanted, 1, &left, &missing));
    // A star is covered by a star alone, all names by no names alone.
    wanted = rule(&a, "*", "core", "pods", "");
    assert_false(rbac_covers(have, 2, &wanted, 1, &left, &missing));
    struct api_policy_rule named = rule(&a, "get", "core", "pods", "one");
    const struct api_policy_rule *only[] = {&named};
    wanted = rule(&a, "get", "core", "pods", "");
    assert_false(rbac_covers(only, 1, &wanted, 1, &left, &missing));
    wanted = rule(&a, "get", "core", "pods", "one");
    assert_true(rbac_covers(only, 1, &wanted, 1, &left, &missing));
    assert_true(left > 0 && left < 1000);
}

// A thousand of each is ten thousand million questions.
static void lists_that_multiply_are_given_up(void **state)
{
    (void)state;
    enum { EACH = 1000 };
    cleanup_arena struct arena a = {0};
    struct str *verbs = arena_array(&a, struct str, EACH);
    for (size_t i = 0; i < EACH; i++)
        verbs[i] = STR("get");
    const struct api_str_array many = {verbs, EACH};
    struct api_policy_rule all = rule(&a, "*", "*", "*", "");
    const struct api_policy_rule *have[] = {&all}, *missing = NULL;
    struct api_policy_rule wanted = {
        .verbs = many, .api_groups = many, .resources = many, .resource_names = many};
    uint64_t left = 1000000;
    assert_false(rbac_covers(have, 1, &wanted, 1, &left, &missing));
    assert_int_equal(left, 0);
    assert_ptr_equal(missing, &wanted);
}

struct counts {
    size_t objects;
    size_t rules;
    bool admin_gathers;
};

static void count(void *arg, const struct api_object *o)
{
    struct counts *c = arg;
    const struct api_object_meta *m = api_object_meta(o);
    assert_true(m->name.n > 0);
    c->objects++;
    if (o->kind->type == &api_cluster_role_type) {
        const struct api_cluster_role *r = o->value;
        c->rules += r->rules.n;
        if (str_eqz(m->name, "admin"))
            c->admin_gathers = r->aggregation_rule != NULL;
    }
}

static void the_policy_of_every_cluster_can_be_read(void **state)
{
    (void)state;
    cleanup_arena struct arena a = {0};
    struct counts c = {0};
    struct err err = {0};
    assert_int_equal(roles_parse(roles_policy, &a, count, &c, &err), 0);
    assert_true(c.objects > 100 && c.rules > 300 && c.admin_gathers);
}

static void mistakes_in_a_policy_have_a_line(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "x",
        "clusterrole",
        "clusterrole a b",
        "role ns",
        "  get | core | pods",
        "clusterrole a\n  get",
        "clusterbinding a",
        "clusterbinding a b carol",
        "binding ns a b User:x",
    };
    for (size_t i = 0; i < array_len(bad); i++) {
        cleanup_arena struct arena a = {0};
        struct counts c = {0};
        struct err err = {0};
        assert_int_equal(roles_parse(str_z(bad[i]), &a, count, &c, &err), -ERR_INVALID);
        assert_memory_equal(err.msg, "line ", 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resource_does_not_give_its_subresources),
        cmocka_unit_test(names_narrow_and_do_not_list),
        cmocka_unit_test(paths_end_in_a_star),
        cmocka_unit_test(several_rules_cover_one_together),
        cmocka_unit_test(lists_that_multiply_are_given_up),
        cmocka_unit_test(the_policy_of_every_cluster_can_be_read),
        cmocka_unit_test(mistakes_in_a_policy_have_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
