// SPDX-License-Identifier: Apache-2.0
//
// The garbage collector: owners that go in the background, in the foreground, and without their dependents.
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
                                  .collect_all = true};
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
                                  .collect_all = true};
    c->ctl = ctl_new(&o);
    ctl_start(c->ctl);
    settle(c);
    assert_false(is_there(c, map("child")));
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
