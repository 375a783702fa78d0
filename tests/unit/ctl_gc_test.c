// SPDX-License-Identifier: Apache-2.0
//
// The garbage collector: owners that go in the background, in the foreground, and without their dependents.
#include "ctl/gc/gc_int.h"
#include "ctl_world.h"

#include "base/banned.h"

// The controllers of ctl_world collect what they cache anyway; these collect everything.
static void start(struct ctl_world *c)
{
    ctl_world_start(c, "");
    ctl_free(c->ctl);
    world_run(c->w);
    const struct ctl_options o = {.client = c->client,
                                  .exec = exec_sim_exec(c->w->sim),
                                  .features = &c->w->features,
                                  .collect_all = true,
                                  .off = {[CTL_WORKLOADS... CTL_CONTROLLERS - 1] = true}};
    c->ctl = ctl_new(&o);
    ctl_start(c->ctl);
    world_run(c->w);
}

#define TEST_GC(name)                           \
    static void name##_in(struct ctl_world *c); \
    static void name(void **state)              \
    {                                           \
        (void)state;                            \
        struct ctl_world c = {0};               \
        start(&c);                              \
        name##_in(&c);                          \
        ctl_world_end(&c);                      \
    }                                           \
    static void name##_in(struct ctl_world *c)

static struct target map_in(const char *namespace, const char *name)
{
    return (struct target){"v1", "ConfigMap", "", namespace, name};
}

static struct target map(const char *name)
{
    return map_in("default", name);
}

static bool is_there(struct ctl_world *c, struct target t)
{
    (void)do_get(c->w, t);
    return strcmp(reply_field(c->w, "metadata.uid"), "-") != 0;
}

static const char *uid_of(struct ctl_world *c, struct target t)
{
    (void)do_get(c->w, t);
    return reply_field(c->w, "metadata.uid");
}

static const char *owner_json(struct ctl_world *c, const char *kind, const char *name,
                              const char *uid, bool blocks)
{
    return arena_strf(&c->w->arena,
                      "{\"apiVersion\":\"%s\",\"kind\":\"%s\",\"name\":\"%s\",\"uid\":\"%s\","
                      "\"blockOwnerDeletion\":%s}",
                      "v1", kind, name, uid, blocks ? "true" : "false")
        .p;
}

static const char *owned_by(struct ctl_world *c, const char *owner, bool blocks)
{
    return owner_json(c, "ConfigMap", owner, uid_of(c, map(owner)), blocks);
}

// make creates a ConfigMap; owners are JSON, "" for none.
static void make(struct ctl_world *c, const char *namespace, const char *name, const char *owners)
{
    assert_ok(do_create(c->w, map_in(namespace, ""),
                        arena_strf(&c->w->arena,
                                   "{\"metadata\":{\"name\":\"%s\",\"ownerReferences\":[%s]}}",
                                   name, owners)
                            .p));
}

TEST_GC(in_the_background_dependents_follow)
{
    make(c, "default", "top", "");
    make(c, "default", "middle", owned_by(c, "top", true));
    make(c, "default", "leaf", owned_by(c, "middle", false));
    settle(c);
    assert_ok(do_delete(c->w, map("top"), "{\"propagationPolicy\":\"Background\"}"));
    settle(c);
    assert_false(is_there(c, map("middle")));
    assert_false(is_there(c, map("leaf")));
}

TEST_GC(an_owner_that_is_left_keeps)
{
    make(c, "default", "a", "");
    make(c, "default", "b", "");
    const char *both =
        arena_strf(&c->w->arena, "%s,%s", owned_by(c, "a", false), owned_by(c, "b", false)).p;
    make(c, "default", "child", both);
    assert_ok(do_delete(c->w, map("a"), "{}"));
    settle(c);
    (void)do_get(c->w, map("child")); // without the one that is gone
    assert_field(c->w, "metadata.ownerReferences[0].name", "b");
    assert_field(c->w, "metadata.ownerReferences[1].name", "-");
    assert_ok(do_delete(c->w, map("b"), "{}"));
    settle(c);
    assert_false(is_there(c, map("child")));
}

TEST_GC(an_owner_that_never_was_counts_as_gone)
{
    make(c, "default", "child", owner_json(c, "ConfigMap", "nobody", "no-such-uid", false));
    settle(c);
    assert_false(is_there(c, map("child")));
}

TEST_GC(another_object_of_the_name_is_no_owner)
{
    make(c, "default", "top", "");
    make(c, "default", "child", owner_json(c, "ConfigMap", "top", "an-older-uid", false));
    settle(c);
    assert_false(is_there(c, map("child")));
    assert_true(is_there(c, map("top")));
}

TEST_GC(an_owner_of_an_unknown_kind_keeps)
{
    make(c, "default", "child",
         "{\"apiVersion\":\"example.com/v1\",\"kind\":\"Thing\",\"name\":\"x\",\"uid\":\"u\"}");
    settle(c);
    assert_true(is_there(c, map("child")));
}

// As upstream: an owner is looked for in the object's own namespace, and people are told.
TEST_GC(an_owner_in_another_namespace_is_none)
{
    make(c, "kube-system", "top", "");
    const char *uid = uid_of(c, map_in("kube-system", "top"));
    make(c, "default", "child", owner_json(c, "ConfigMap", "top", uid, false));
    settle(c);
    assert_false(is_there(c, map("child")));
    assert_true(is_there(c, map_in("kube-system", "top")));
    const char *event = find_one(c, "v1", "Event");
    assert_non_null(event);
    (void)do_get(c->w, (struct target){"v1", "Event", "", "default", event});
    assert_field(c->w, "reason", "OwnerRefInvalidNamespace");
}

TEST_GC(nothing_without_a_namespace_is_deleted_for_something_that_has_one)
{
    make(c, "default", "top", "");
    const char *owner = owner_json(c, "ConfigMap", "top", uid_of(c, map("top")), false);
    assert_ok(do_create(
        c->w, NODE(""),
        arena_strf(&c->w->arena, "{\"metadata\":{\"name\":\"n\",\"ownerReferences\":[%s]}}", owner)
            .p));
    assert_ok(do_delete(c->w, map("top"), "{}"));
    settle(c);
    assert_true(is_there(c, NODE("n")));
}

TEST_GC(in_the_foreground_an_owner_waits_for_those_who_block)
{
    make(c, "default", "top", "");
    make(c, "default", "blocks", owned_by(c, "top", true));
    make(c, "default", "does-not", owned_by(c, "top", false));
    // Something keeps the one that blocks, and it keeps its owner.
    assert_ok(do_patch(c->w, map("blocks"), REGISTRY_PATCH_MERGE,
                       "{\"metadata\":{\"finalizers\":[\"example.com/hold\"]}}"));
    assert_ok(do_delete(c->w, map("top"), "{\"propagationPolicy\":\"Foreground\"}"));
    settle(c);
    assert_true(is_there(c, map("top")));
    (void)do_get(c->w, map("top"));
    assert_field(c->w, "metadata.finalizers[0]", "foregroundDeletion");
    assert_true(is_there(c, map("blocks")));
    assert_string_not_equal(reply_field(c->w, "metadata.deletionTimestamp"), "-");
    assert_false(is_there(c, map("does-not")));
    assert_ok(do_patch(c->w, map("blocks"), REGISTRY_PATCH_MERGE,
                       "{\"metadata\":{\"finalizers\":null}}"));
    settle(c);
    assert_false(is_there(c, map("blocks")));
    assert_false(is_there(c, map("top")));
}

TEST_GC(the_foreground_goes_all_the_way_down)
{
    make(c, "default", "top", "");
    make(c, "default", "middle", owned_by(c, "top", true));
    make(c, "default", "leaf", owned_by(c, "middle", true));
    settle(c);
    assert_ok(do_delete(c->w, map("top"), "{\"propagationPolicy\":\"Foreground\"}"));
    settle(c);
    assert_false(is_there(c, map("leaf")));
    assert_false(is_there(c, map("middle")));
    assert_false(is_there(c, map("top")));
}

TEST_GC(a_circle_of_those_who_wait_is_broken)
{
    make(c, "default", "a", "");
    make(c, "default", "b", owned_by(c, "a", true));
    assert_ok(do_patch(c->w, map("a"), REGISTRY_PATCH_MERGE,
                       arena_strf(&c->w->arena, "{\"metadata\":{\"ownerReferences\":[%s]}}",
                                  owned_by(c, "b", true))
                           .p));
    settle(c);
    assert_ok(do_delete(c->w, map("a"), "{\"propagationPolicy\":\"Foreground\"}"));
    world_pass(c->w, 10);
    assert_false(is_there(c, map("a")));
    assert_false(is_there(c, map("b")));
}

TEST_GC(orphans_stay_without_their_owner)
{
    make(c, "default", "top", "");
    make(c, "default", "other", "");
    const char *both =
        arena_strf(&c->w->arena, "%s,%s", owned_by(c, "top", true), owned_by(c, "other", false)).p;
    make(c, "default", "child", both);
    make(c, "default", "second", owned_by(c, "top", true));
    settle(c);
    assert_ok(do_delete(c->w, map("top"), "{\"propagationPolicy\":\"Orphan\"}"));
    settle(c);
    assert_false(is_there(c, map("top")));
    assert_true(is_there(c, map("second")));
    assert_field(c->w, "metadata.ownerReferences[0].name", "-");
    assert_true(is_there(c, map("child")));
    assert_field(c->w, "metadata.ownerReferences[0].name", "other");
    assert_field(c->w, "metadata.ownerReferences[1].name", "-");
}

TEST_GC(what_happened_while_nobody_looked_is_made_up_for)
{
    make(c, "default", "top", "");
    make(c, "default", "child", owned_by(c, "top", false));
    settle(c);
    ctl_free(c->ctl);
    world_run(c->w);
    assert_ok(do_delete(c->w, map("top"), "{}"));
    const struct ctl_options o = {.client = c->client,
                                  .exec = exec_sim_exec(c->w->sim),
                                  .features = &c->w->features,
                                  .collect_all = true,
                                  .off = {[CTL_WORKLOADS... CTL_CONTROLLERS - 1] = true}};
    c->ctl = ctl_new(&o);
    ctl_start(c->ctl);
    settle(c);
    assert_false(is_there(c, map("child")));
}

// --- Kinds that users add ------------------------------------------------------------------------

#define CRD(name) \
    ((struct target){"apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "", name})

// define makes, or updates, a definition of a kind Widget in x.io; versions are JSON.
static const char *definition_json(struct ctl_world *c, const char *plural, const char *kind,
                                   const char *scope, const char *versions)
{
    return arena_strf(&c->w->arena,
                      "{\"metadata\":{\"name\":\"%s.x.io\"},\"spec\":{\"group\":\"x.io\","
                      "\"scope\":\"%s\",\"names\":{\"plural\":\"%s\",\"kind\":\"%s\"},"
                      "\"versions\":[%s]}}",
                      plural, scope, plural, kind, versions)
        .p;
}

#define SCHEMA                                                                                 \
    "\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\",\"properties\":{\"spec\":{\"type\":" \
    "\"object\","                                                                              \
    "\"x-kubernetes-preserve-unknown-fields\":true}}}}"
#define V1_STORED   "{\"name\":\"v1\",\"served\":true,\"storage\":true," SCHEMA "}"
#define V1_UNSERVED "{\"name\":\"v1\",\"served\":false,\"storage\":false," SCHEMA "}"
#define V2_STORED   "{\"name\":\"v2\",\"served\":true,\"storage\":true," SCHEMA "}"

static void define(struct ctl_world *c, const char *plural, const char *kind, const char *scope)
{
    assert_ok(do_create(c->w, CRD(""), definition_json(c, plural, kind, scope, V1_STORED)));
}

static struct target custom(const char *kind, const char *name)
{
    return (struct target){"x.io/v1", kind, "", "default", name};
}

static struct target widget(const char *name)
{
    return custom("Widget", name);
}

static const char *custom_owner(struct ctl_world *c, struct target t, bool blocks)
{
    return arena_strf(&c->w->arena,
                      "{\"apiVersion\":\"%s\",\"kind\":\"%s\",\"name\":\"%s\",\"uid\":\"%s\","
                      "\"blockOwnerDeletion\":%s}",
                      t.api_version, t.kind, t.name, uid_of(c, t), blocks ? "true" : "false")
        .p;
}

static void make_custom(struct ctl_world *c, struct target t, const char *owners)
{
    const char *name = t.name;
    t.name = "";
    assert_ok(do_create(c->w, t,
                        arena_strf(&c->w->arena,
                                   "{\"metadata\":{\"name\":\"%s\",\"ownerReferences\":[%s]},"
                                   "\"spec\":{\"kept\":1}}",
                                   name, owners)
                            .p));
}

TEST_GC(custom_objects_own_and_are_owned)
{
    define(c, "widgets", "Widget", "Namespaced");
    define(c, "gadgets", "Gadget", "Namespaced");
    make_custom(c, widget("top"), "");
    make_custom(c, custom("Gadget", "middle"), custom_owner(c, widget("top"), true));
    make(c, "default", "leaf", custom_owner(c, custom("Gadget", "middle"), false));
    make_custom(c, widget("below-leaf"), owned_by(c, "leaf", false));
    make(c, "default", "stays", "");
    make_custom(c, widget("stays"), owned_by(c, "stays", false));
    settle(c);
    assert_true(is_there(c, widget("below-leaf")));
    assert_ok(do_delete(c->w, widget("top"), "{\"propagationPolicy\":\"Background\"}"));
    settle(c);
    assert_false(is_there(c, custom("Gadget", "middle")));
    assert_false(is_there(c, map("leaf")));
    assert_false(is_there(c, widget("below-leaf")));
    assert_true(is_there(c, widget("stays")));
}

TEST_GC(custom_objects_wait_in_the_foreground)
{
    define(c, "widgets", "Widget", "Namespaced");
    make_custom(c, widget("top"), "");
    make_custom(c, widget("blocks"), custom_owner(c, widget("top"), true));
    make(c, "default", "blocks-too", custom_owner(c, widget("top"), true));
    assert_ok(do_patch(c->w, widget("blocks"), REGISTRY_PATCH_MERGE,
                       "{\"metadata\":{\"finalizers\":[\"example.com/hold\"]}}"));
    assert_ok(do_delete(c->w, widget("top"), "{\"propagationPolicy\":\"Foreground\"}"));
    settle(c);
    (void)do_get(c->w, widget("top"));
    assert_field(c->w, "metadata.finalizers[0]", "foregroundDeletion");
    assert_false(is_there(c, map("blocks-too")));
    assert_ok(do_patch(c->w, widget("blocks"), REGISTRY_PATCH_MERGE,
                       "{\"metadata\":{\"finalizers\":null}}"));
    settle(c);
    assert_false(is_there(c, widget("blocks")));
    assert_false(is_there(c, widget("top")));
}

TEST_GC(orphans_of_custom_objects_stay_as_they_are)
{
    define(c, "widgets", "Widget", "Namespaced");
    make_custom(c, widget("top"), "");
    make_custom(c, widget("child"), custom_owner(c, widget("top"), true));
    make(c, "default", "map", custom_owner(c, widget("top"), true));
    settle(c);
    assert_ok(do_delete(c->w, widget("top"), "{\"propagationPolicy\":\"Orphan\"}"));
    settle(c);
    assert_false(is_there(c, widget("top")));
    assert_true(is_there(c, map("map")));
    assert_true(is_there(c, widget("child")));
    assert_field(c->w, "metadata.ownerReferences[0].name", "-");
    assert_field(c->w, "spec.kept", "1"); // what the collector does not see
}

TEST_GC(custom_owners_without_a_namespace_own_everywhere)
{
    define(c, "widgets", "Widget", "Cluster");
    struct target top = {"x.io/v1", "Widget", "", "", "top"};
    make_custom(c, top, "");
    make(c, "default", "a", custom_owner(c, top, false));
    make(c, "kube-system", "b", custom_owner(c, top, false));
    settle(c);
    assert_true(is_there(c, map("a")));
    assert_ok(do_delete(c->w, top, "{}"));
    settle(c);
    assert_false(is_there(c, map("a")));
    assert_false(is_there(c, map_in("kube-system", "b")));
}

// A definition takes its objects along, and these what they own; however many they are.
TEST_GC(a_definition_that_goes_takes_what_its_objects_own)
{
    enum { MANY = GONE_MAX + 200 };
    define(c, "widgets", "Widget", "Namespaced");
    for (int i = 0; i < MANY; i++) {
        const char *name = arena_strf(&c->w->arena, "w%d", i).p;
        make_custom(c, widget(name), "");
        make(c, "default", name, custom_owner(c, widget(name), false));
    }
    settle(c);
    assert_ok(do_delete(c->w, CRD("widgets.x.io"), "{}"));
    world_pass(c->w, 60);
    assert_false(is_there(c, CRD("widgets.x.io")));
    for (int i = 0; i < MANY; i++)
        assert_false(is_there(c, map(arena_strf(&c->w->arena, "w%d", i).p)));
}

TEST_GC(those_who_named_a_kind_before_it_came_are_looked_at_when_it_comes)
{
    make(c, "default", "child",
         "{\"apiVersion\":\"x.io/v1\",\"kind\":\"Widget\",\"name\":\"x\",\"uid\":\"u\"}");
    settle(c);
    assert_true(is_there(c, map("child")));
    define(c, "widgets", "Widget", "Namespaced");
    settle(c);
    assert_false(is_there(c, map("child")));
}

TEST_GC(a_kind_is_followed_from_version_to_version)
{
    define(c, "widgets", "Widget", "Namespaced");
    make_custom(c, widget("top"), "");
    make(c, "default", "child", custom_owner(c, widget("top"), false));
    settle(c);
    assert_ok(do_patch(c->w, CRD("widgets.x.io"), REGISTRY_PATCH_MERGE,
                       "{\"spec\":{\"versions\":[" V1_UNSERVED "," V2_STORED "]}}"));
    settle(c);
    assert_true(is_there(c, map("child")));
    assert_ok(do_delete(c->w, (struct target){"x.io/v2", "Widget", "", "default", "top"}, "{}"));
    settle(c);
    assert_false(is_there(c, map("child")));
}

// Of a kind that is defined but not served nobody can know whether an owner is there.
TEST_GC(an_owner_of_a_kind_that_is_not_served_keeps)
{
    define(c, "widgets", "Widget", "Namespaced");
    make_custom(c, widget("top"), "");
    make(c, "default", "child", custom_owner(c, widget("top"), false));
    const char *owner = custom_owner(c, widget("top"), false);
    settle(c);
    assert_ok(do_patch(c->w, CRD("widgets.x.io"), REGISTRY_PATCH_MERGE,
                       "{\"spec\":{\"versions\":[{\"name\":\"v1\",\"served\":false,"
                       "\"storage\":true," SCHEMA "}]}}"));
    settle(c);
    make(c, "default", "second", owner);
    settle(c);
    assert_true(is_there(c, map("child")));
    assert_true(is_there(c, map("second")));
}

// Kinds that come and go leave at most a bounded number behind; those that stay are not mixed up with others.
TEST_GC(many_kinds_come_and_go)
{
    enum { MANY = 150 }; // more than are remembered
    define(c, "widgets", "Widget", "Namespaced");
    make_custom(c, widget("top"), "");
    for (int i = 0; i < MANY; i++) {
        const char *plural = arena_strf(&c->w->arena, "things%d", i).p;
        const char *kind = arena_strf(&c->w->arena, "Thing%d", i).p;
        define(c, plural, kind, "Namespaced");
        make_custom(c, custom(kind, "o"), "");
        make_custom(c, custom(kind, "p"), custom_owner(c, custom(kind, "o"), true));
        make(c, "default", plural, custom_owner(c, custom(kind, "o"), true));
        settle(c);
        if (i % 2)
            assert_ok(do_delete(c->w, custom(kind, "o"), "{\"propagationPolicy\":\"Foreground\"}"));
        settle(c);
        if (i % 2)
            assert_false(is_there(c, custom(kind, "p")));
        assert_ok(do_delete(c->w, CRD(arena_strf(&c->w->arena, "%s.x.io", plural).p), "{}"));
        world_pass(c->w, 5);
        assert_false(is_there(c, map(plural)));
    }
    make(c, "default", "last", custom_owner(c, widget("top"), false));
    assert_ok(do_delete(c->w, widget("top"), "{\"propagationPolicy\":\"Foreground\"}"));
    settle(c);
    assert_false(is_there(c, widget("top")));
    assert_false(is_there(c, map("last")));
    assert_true(c->ctl->garbage->kinds.n < api_kinds_len + 100);
}

// many_owners names owners that never were, more than the collector remembers; last is JSON of one more.
static const char *many_owners(struct ctl_world *c, size_t n, const char *last)
{
    struct sbuf all = {0};
    for (size_t i = 0; i < n; i++)
        sbuf_addf(&all,
                  "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"o%zu\",\"uid\":"
                  "\"5f1e2d3c-0000-4000-8000-%012zu\"}%s",
                  i, i, i + 1 < n || *last ? "," : "");
    sbuf_addz(&all, last);
    const char *text = arena_str(&c->w->arena, sbuf_str(&all)).p;
    sbuf_done(&all);
    return text;
}

TEST_GC(more_owners_than_are_remembered_are_judged)
{
    enum { OWNERS = 3 * GONE_MAX };
    make(c, "default", "left", "");
    make(c, "default", "all-gone", many_owners(c, OWNERS, ""));
    make(c, "default", "one-left", many_owners(c, OWNERS, owned_by(c, "left", false)));
    assert_true(comes_to_rest(c));
    settle(c);
    assert_false(is_there(c, map("all-gone")));
    (void)do_get(c->w, map("one-left"));
    assert_field(c->w, "metadata.ownerReferences[0].name", "left");
    assert_field(c->w, "metadata.ownerReferences[1].name", "-");
    assert_int_equal(map_len(&c->ctl->garbage->inquiries), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_the_background_dependents_follow),
        cmocka_unit_test(an_owner_that_is_left_keeps),
        cmocka_unit_test(an_owner_that_never_was_counts_as_gone),
        cmocka_unit_test(another_object_of_the_name_is_no_owner),
        cmocka_unit_test(an_owner_of_an_unknown_kind_keeps),
        cmocka_unit_test(an_owner_in_another_namespace_is_none),
        cmocka_unit_test(nothing_without_a_namespace_is_deleted_for_something_that_has_one),
        cmocka_unit_test(in_the_foreground_an_owner_waits_for_those_who_block),
        cmocka_unit_test(the_foreground_goes_all_the_way_down),
        cmocka_unit_test(a_circle_of_those_who_wait_is_broken),
        cmocka_unit_test(orphans_stay_without_their_owner),
        cmocka_unit_test(what_happened_while_nobody_looked_is_made_up_for),
        cmocka_unit_test(custom_objects_own_and_are_owned),
        cmocka_unit_test(custom_objects_wait_in_the_foreground),
        cmocka_unit_test(orphans_of_custom_objects_stay_as_they_are),
        cmocka_unit_test(custom_owners_without_a_namespace_own_everywhere),
        cmocka_unit_test(a_definition_that_goes_takes_what_its_objects_own),
        cmocka_unit_test(those_who_named_a_kind_before_it_came_are_looked_at_when_it_comes),
        cmocka_unit_test(a_kind_is_followed_from_version_to_version),
        cmocka_unit_test(an_owner_of_a_kind_that_is_not_served_keeps),
        cmocka_unit_test(many_kinds_come_and_go),
        cmocka_unit_test(more_owners_than_are_remembered_are_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
