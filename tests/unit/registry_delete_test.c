// SPDX-License-Identifier: Apache-2.0
//
// Rules of deletion, of single objects and of collections, and the end of namespaces.
#include "api/custom.h"
#include "registry_world.h"

#include "base/banned.h"

#define CLAIM_SPEC                                                                                 \
    "\"spec\":{\"devices\":{\"requests\":[{\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"c\"}" \
    "}]}}"

static void make_claim(struct world *w, const char *name)
{
    assert_ok(do_create(
        w, CLAIM(NULL),
        arena_strf(&w->arena, "{\"metadata\":{\"name\":\"%s\"}," CLAIM_SPEC "}", name).p));
}

static void make_config(struct world *w, const char *namespace, const char *name, const char *meta)
{
    struct target t = CONFIG(NULL);
    t.namespace = namespace;
    assert_ok(
        do_create(w, t, arena_strf(&w->arena, "{\"metadata\":{\"name\":\"%s\"%s}}", name, meta).p));
}

static bool exists(struct world *w, struct target t)
{
    do_get(w, t);
    return w->reply.doc.root;
}

TEST_IN_WORLD(test_some_kinds_answer_with_the_object)
{
    make_claim(w, "a");
    uint64_t made = w->reply.revision;
    assert_ok(do_delete(w, CLAIM("a"), NULL));
    assert_true(w->reply.deleted);
    assert_false(w->reply.has_status);
    assert_field(w, "metadata.name", "a");
    assert_true(w->reply.revision > made);
    assert_false(exists(w, CLAIM("a")));
}

TEST_IN_WORLD(test_others_answer_with_a_status)
{
    make_config(w, "default", "a", "");
    assert_ok(do_delete(w, CONFIG("a"), NULL));
    assert_true(w->reply.deleted);
    assert_true(w->reply.has_status);
    assert_int_equal(w->reply.http, 0);
    assert_refused(do_delete(w, CONFIG("a"), NULL), 404, "configmaps \"a\" not found");
}

TEST_IN_WORLD(test_preconditions)
{
    make_claim(w, "a");
    struct str uid = arena_strf(&w->arena, "%s", reply_field(w, "metadata.uid"));
    unsigned long long version = w->reply.revision;
    struct str want =
        arena_strf(&w->arena,
                   "Operation cannot be fulfilled on ResourceClaim.resource.k8s.io \"a\": the UID "
                   "in the precondition (u) does not match the UID in record (%s). The object "
                   "might have been deleted and then recreated",
                   uid.p);
    assert_refused(do_delete(w, CLAIM("a"), "{\"preconditions\":{\"uid\":\"u\"}}"), 409, want.p);
    want = arena_strf(&w->arena,
                      "Operation cannot be fulfilled on ResourceClaim.resource.k8s.io \"a\": the "
                      "ResourceVersion in the precondition (1) does not match the ResourceVersion "
                      "in record (%llu). The object might have been modified",
                      version);
    assert_refused(do_delete(w, CLAIM("a"), "{\"preconditions\":{\"resourceVersion\":\"1\"}}"), 409,
                   want.p);
    assert_ok(do_delete(w, CLAIM("a"),
                        arena_strf(&w->arena,
                                   "{\"preconditions\":{\"uid\":\"%s\",\"resourceVersion\":"
                                   "\"%llu\"}}",
                                   uid.p, version)
                            .p));
    assert_true(w->reply.deleted);
}

TEST_IN_WORLD(test_options_are_checked)
{
    make_claim(w, "a");
    assert_refused(do_delete(w, CLAIM("a"), "{\"propagationPolicy\":\"Never\"}"), 422,
                   "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported "
                   "value: \"Never\": supported values: \"Foreground\", \"Background\", "
                   "\"Orphan\", \"nil\"");
    do_delete(w, CLAIM("a"), "{\"propagationPolicy\":\"Orphan\",\"orphanDependents\":true}");
    assert_non_null(strstr(w->reply.message, "orphanDependents and deletionPropagation cannot be "
                                             "both set"));
    assert_refused(do_delete(w, CLAIM("a"), "{\"dryRun\":[\"Some\"]}"), 422,
                   "DeleteOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: "
                   "[\"Some\"]: supported values: \"All\"");
}

TEST_IN_WORLD(test_propagation_becomes_a_finalizer)
{
    make_config(w, "default", "a", "");
    assert_ok(do_delete(w, CONFIG("a"), "{\"propagationPolicy\":\"Foreground\"}"));
    assert_false(w->reply.deleted);
    assert_false(w->reply.has_status);
    assert_field(w, "metadata.finalizers", "[\"foregroundDeletion\"]");
    uint64_t version = w->reply.revision;
    // Asked again, nothing changes.
    world_pass(w, 5);
    assert_ok(do_delete(w, CONFIG("a"), NULL));
    assert_int_equal(w->reply.revision, version);
    assert_ok(do_delete(w, CONFIG("a"), "{\"propagationPolicy\":\"Orphan\"}"));
    assert_field(w, "metadata.finalizers", "[\"orphan\"]");
    assert_field(w, "metadata.deletionTimestamp", "2027-01-15T08:00:00Z");
    assert_ok(do_delete(w, CONFIG("a"), "{\"propagationPolicy\":\"Background\"}"));
    assert_true(w->reply.deleted);
}

TEST_IN_WORLD(test_jobs_orphan_by_default)
{
    struct target t = {"batch/v1", "Job", "", "default", "j"};
    assert_ok(do_create(w, t,
                        "{\"metadata\":{\"name\":\"j\"},\"spec\":{\"template\":{\"spec\":{"
                        "\"restartPolicy\":\"Never\",\"containers\":[{\"name\":\"c\",\"image\":"
                        "\"i\"}]}}}}"));
    assert_ok(do_delete(w, t, NULL));
    assert_field(w, "metadata.finalizers", "[\"orphan\"]");
    assert_field(w, "metadata.generation", "2");
}

TEST_IN_WORLD(test_dry_run_deletes_nothing)
{
    make_claim(w, "a");
    assert_ok(do_delete(w, CLAIM("a"), "{\"dryRun\":[\"All\"]}"));
    assert_true(w->reply.deleted);
    w->dry_run = true;
    assert_ok(do_delete(w, CLAIM("a"), NULL));
    assert_true(exists(w, CLAIM("a")));
}

// --- Pods ----------------------------------------------------------------------------------------

static void make_pod(struct world *w, const char *spec)
{
    assert_ok(do_create(w, POD(NULL),
                        arena_strf(&w->arena,
                                   "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{"
                                   "\"name\":\"c\",\"image\":\"i\"}]%s}}",
                                   spec)
                            .p));
}

TEST_IN_WORLD(test_unscheduled_pods_go_at_once)
{
    make_pod(w, "");
    uint64_t made = w->reply.revision;
    assert_ok(do_delete(w, POD("p"), NULL));
    assert_true(w->reply.deleted);
    // Watchers see it marked, then gone.
    assert_int_equal(w->reply.revision, made + 2);
    assert_field(w, "metadata.deletionGracePeriodSeconds", "0");
    assert_false(exists(w, POD("p")));
}

TEST_IN_WORLD(test_running_pods_have_time)
{
    make_pod(w, ",\"nodeName\":\"n\"");
    assert_ok(do_delete(w, POD("p"), NULL));
    assert_false(w->reply.deleted);
    assert_field(w, "metadata.deletionTimestamp", "2027-01-15T08:00:30Z");
    assert_field(w, "metadata.deletionGracePeriodSeconds", "30");
    assert_field(w, "metadata.generation", "2");
    uint64_t version = w->reply.revision;
    // No more time for those who ask again.
    assert_ok(do_delete(w, POD("p"), "{\"gracePeriodSeconds\":60}"));
    assert_int_equal(w->reply.revision, version);
    assert_ok(do_delete(w, POD("p"), NULL));
    assert_int_equal(w->reply.revision, version);
    // Less is possible, but no end in the past.
    assert_ok(do_delete(w, POD("p"), "{\"gracePeriodSeconds\":10}"));
    assert_field(w, "metadata.deletionTimestamp", "2027-01-15T08:00:10Z");
    assert_field(w, "metadata.generation", "2");
    clock_fake_advance(&w->clock, 20 * CLOCK_NS_PER_SEC);
    assert_ok(do_delete(w, POD("p"), "{\"gracePeriodSeconds\":5}"));
    assert_field(w, "metadata.deletionTimestamp", "2027-01-15T08:00:20Z");
    assert_field(w, "metadata.deletionGracePeriodSeconds", "1");
    // The kubelet's last word.
    assert_ok(do_delete(w, POD("p"), "{\"gracePeriodSeconds\":0}"));
    assert_true(w->reply.deleted);
    assert_false(exists(w, POD("p")));
}

TEST_IN_WORLD(test_pods_with_finalizers_stay)
{
    assert_ok(do_create(w, POD(NULL),
                        "{\"metadata\":{\"name\":\"p\",\"finalizers\":[\"f.io/f\"]},\"spec\":{"
                        "\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}"));
    assert_ok(do_delete(w, POD("p"), NULL));
    assert_false(w->reply.deleted);
    assert_field(w, "metadata.deletionGracePeriodSeconds", "0");
    assert_ok(do_patch(w, POD("p"), REGISTRY_PATCH_MERGE, "{\"metadata\":{\"finalizers\":null}}"));
    assert_true(w->reply.deleted);
    assert_false(exists(w, POD("p")));
}

// --- Collections ---------------------------------------------------------------------------------

static bool has_label(void *arg, const struct object *o)
{
    struct str value;
    return object_label(o, str_z(arg), &value);
}

TEST_IN_WORLD(test_collections)
{
    for (int i = 0; i < 300; i++)
        make_config(w, "default", arena_strf(&w->arena, "c-%d", i).p,
                    i % 3 ? "" : ",\"labels\":{\"x\":\"y\"}");
    make_config(w, "kube-system", "other", ",\"labels\":{\"x\":\"y\"}");
    struct registry_request request = world_request(w, CONFIG(NULL));
    char label[] = "x";
    const struct registry_filter filter = {has_label, label};
    reply_done(&w->reply);
    registry_delete_collection(w->registry, &request, NULL, &filter, &w->arena, world_answered,
                               &w->reply);
    assert_ok(world_end(w));
    assert_int_equal(w->reply.objects, 100);
    assert_int_equal(store_count(w->store, request.kind, STR("default")), 200);
    reply_done(&w->reply);
    registry_delete_collection(w->registry, &request, NULL, NULL, &w->arena, world_answered,
                               &w->reply);
    assert_ok(world_end(w));
    assert_int_equal(w->reply.objects, 200);
    assert_int_equal(store_count(w->store, request.kind, STR("")), 1);
}

// --- Namespaces ----------------------------------------------------------------------------------

TEST_IN_WORLD(test_new_namespaces)
{
    assert_ok(do_create(w, NS(NULL), "{\"metadata\":{\"generateName\":\"n-\"}}"));
    assert_field(w, "spec.finalizers", "[\"kubernetes\"]");
    assert_field(w, "status.phase", "Active");
    assert_string_equal(reply_field(w, "metadata.labels[kubernetes.io/metadata.name]"),
                        reply_field(w, "metadata.name"));
}

TEST_IN_WORLD(test_immortal_namespaces)
{
    assert_refused(do_delete(w, NS("default"), NULL), 403,
                   "namespaces \"default\" is forbidden: this namespace may not be deleted");
    assert_true(exists(w, NS("kube-node-lease")));
}

TEST_IN_WORLD(test_namespaces_take_their_content_along)
{
    assert_ok(do_create(w, NS(NULL), "{\"metadata\":{\"name\":\"n\"}}"));
    make_config(w, "n", "a", "");
    make_config(w, "n", "held", ",\"finalizers\":[\"f.io/f\"]");
    w->hold = true;
    do_delete(w, NS("n"), NULL);
    w->hold = false;
    // From the moment of the request on, it is closed.
    struct target t = CONFIG(NULL);
    t.namespace = "n";
    struct registry_request request = world_request(w, t);
    struct api_object body = world_body(w, request.kind, "{\"metadata\":{\"name\":\"b\"}}");
    struct reply refused = {0};
    registry_create(w->registry, &request, &body, &w->arena, world_answered, &refused);
    world_run(w);
    assert_ok(&w->reply);
    assert_false(w->reply.deleted);
    assert_field(w, "status.phase", "Terminating");
    assert_refused(&refused, 403,
                   "configmaps \"b\" is forbidden: unable to create new content in namespace n "
                   "because it is being terminated");
    assert_string_equal(refused.causes, "NamespaceTerminating|metadata.namespace|namespace n is "
                                        "being terminated;");
    reply_done(&refused);
    world_pass(w, 1);
    t.name = "a";
    assert_false(exists(w, t));
    t.name = "held";
    assert_true(exists(w, t));
    assert_true(exists(w, NS("n")));
    assert_ok(do_delete(w, NS("n"), NULL));
    assert_field(w, "status.phase", "Terminating");
    // The last one closes the door.
    assert_ok(do_patch(w, t, REGISTRY_PATCH_JSON,
                       "[{\"op\":\"remove\",\"path\":\"/metadata/finalizers\"}]"));
    assert_true(w->reply.deleted);
    world_pass(w, 1);
    assert_false(exists(w, NS("n")));
}

TEST_IN_WORLD(test_namespaces_outlast_broken_disks)
{
    assert_ok(do_create(w, NS(NULL), "{\"metadata\":{\"name\":\"n\"}}"));
    make_config(w, "n", "a", "");
    w->hold = true;
    do_delete(w, NS("n"), NULL);
    while (w->reply.answers == 0 && exec_sim_step(w->sim)) {}
    assert_ok(&w->reply);
    w->fail_commits = true;
    world_pass(w, 3);
    assert_true(exists(w, NS("n")));
    w->fail_commits = false;
    world_pass(w, 5);
    assert_false(exists(w, NS("n")));
}

TEST_IN_WORLD(test_namespace_finalize)
{
    assert_ok(do_create(w, NS(NULL),
                        "{\"metadata\":{\"name\":\"n\"},\"spec\":{\"finalizers\":["
                        "\"x.io/y\"]}}"));
    assert_field(w, "spec.finalizers", "[\"x.io/y\",\"kubernetes\"]");
    assert_ok(do_update(w, NS("n"), "{\"metadata\":{\"name\":\"n\"},\"spec\":{}}"));
    assert_field(w, "spec.finalizers", "[\"x.io/y\",\"kubernetes\"]");
    assert_ok(do_delete(w, NS("n"), NULL));
    world_pass(w, 1);
    assert_ok(do_get(w, NS("n")));
    assert_field(w, "spec.finalizers", "[\"x.io/y\"]");
    struct target t = NS("n");
    t.sub = "status";
    do_update(w, t, "{\"metadata\":{\"name\":\"n\"},\"status\":{\"phase\":\"Active\"}}");
    assert_int_equal(w->reply.http, 422);
    t.sub = "finalize";
    assert_ok(do_update(w, t, "{\"metadata\":{\"name\":\"n\"},\"spec\":{}}"));
    assert_true(w->reply.deleted);
    assert_false(exists(w, NS("n")));
}

TEST_IN_WORLD(test_namespace_preconditions)
{
    assert_ok(do_create(w, NS(NULL), "{\"metadata\":{\"name\":\"n\"}}"));
    struct str want = arena_strf(&w->arena,
                                 "Operation cannot be fulfilled on namespaces \"n\": Precondition "
                                 "failed: UID in precondition: u, UID in object meta: %s",
                                 reply_field(w, "metadata.uid"));
    assert_refused(do_delete(w, NS("n"), "{\"preconditions\":{\"uid\":\"u\"}}"), 409, want.p);
}

// --- Events --------------------------------------------------------------------------------------

#define EVENT(name) ((struct target){"v1", "Event", "", "default", name})

static void make_event(struct world *w, const char *name)
{
    assert_ok(do_create(w, EVENT(NULL),
                        arena_strf(&w->arena,
                                   "{\"metadata\":{\"name\":\"%s\"},\"involvedObject\":{"
                                   "\"namespace\":\"default\"}}",
                                   name)
                            .p));
}

TEST_IN_WORLD(test_events_go_an_hour_after_they_were_last_written)
{
    make_event(w, "once");
    make_event(w, "again");
    world_pass(w, 3000);
    assert_true(exists(w, EVENT("once")));
    assert_ok(do_patch(w, EVENT("again"), REGISTRY_PATCH_MERGE, "{\"count\":2}"));
    make_event(w, "later");
    world_pass(w, 1000);
    assert_false(exists(w, EVENT("once")));
    assert_true(exists(w, EVENT("again")));
    assert_true(exists(w, EVENT("later")));
    world_pass(w, 3000);
    assert_int_equal(store_count(w->store, api_kind_find(STR("v1"), STR("Event")), STR("")), 0);
    // More than one look deletes.
    for (int i = 0; i < 1200; i++)
        make_event(w, arena_strf(&w->arena, "e%d", i).p);
    world_pass(w, 4000);
    assert_int_equal(store_count(w->store, api_kind_find(STR("v1"), STR("Event")), STR("")), 0);
}

// --- Definitions of kinds ------------------------------------------------------------------------

#define CRD(name) \
    ((struct target){"apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "", name})
#define CRD_JSON(plural, kind)                                                                \
    "{\"metadata\":{\"name\":\"" plural ".x.io\"},\"spec\":{\"group\":\"x.io\",\"scope\":"    \
    "\"Cluster\",\"names\":{\"plural\":\"" plural "\",\"kind\":\"" kind "\"},\"versions\":[{" \
    "\"name\":\"v1\",\"served\":true,\"storage\":true,\"schema\":{\"openAPIV3Schema\":{"      \
    "\"type\":\"object\"}}}]}}"

static const struct api_kind *custom_kind(const struct world *w, const char *kind)
{
    return custom_hub(store_customs(w->store), STR("x.io"), str_z(kind));
}

static void make_custom(struct world *w, const char *kind)
{
    static struct registry_request request;
    request = (struct registry_request){.kind = custom_version_at(custom_kind(w, kind), 0)};
    struct api_object body = world_body(w, request.kind, "{\"metadata\":{\"name\":\"o\"}}");
    reply_done(&w->reply);
    registry_create(w->registry, &request, &body, &w->arena, world_answered, &w->reply);
    assert_ok(world_end(w));
}

TEST_IN_WORLD(test_definitions_take_their_objects_along_but_nobody_elses)
{
    assert_ok(do_create(w, CRD(NULL), CRD_JSON("widgets", "Widget")));
    make_custom(w, "Widget");
    // Its kind is taken, so it has no objects; those of that kind are another's.
    assert_ok(do_create(w, CRD(NULL), CRD_JSON("gadgets", "Widget")));
    assert_ok(do_delete(w, CRD("gadgets.x.io"), NULL));
    world_pass(w, 5);
    assert_int_equal(store_count(w->store, custom_kind(w, "Widget"), STR("")), 1);
    assert_false(exists(w, CRD("gadgets.x.io")));
    assert_ok(do_delete(w, CRD("widgets.x.io"), NULL));
    world_pass(w, 5);
    assert_false(exists(w, CRD("widgets.x.io")));
    assert_int_equal(store_count(w->store, custom_kind(w, "Widget"), STR("")), 0);
}

static bool is_established(struct world *w, const char *name)
{
    const char *json = do_get(w, CRD(name))->json;
    return str_contains(str_z(json), STR("\"reason\":\"InitialNamesAccepted\""));
}

// Two that are made before either of them is visible see each other all the same.
TEST_IN_WORLD(test_of_two_definitions_made_at_once_one_gets_the_kind)
{
    w->hold = true;
    (void)do_create(w, CRD(NULL), CRD_JSON("widgets", "Widget"));
    static struct reply second;
    static struct registry_request request;
    request = world_request(w, CRD(NULL));
    struct api_object body = world_body(w, request.kind, CRD_JSON("gadgets", "Widget"));
    registry_create(w->registry, &request, &body, &w->arena, world_answered, &second);
    assert_int_equal(w->reply.answers, 0); // or they were not made at once
    world_run(w);
    w->hold = false;
    assert_int_equal(second.answers, 1);
    assert_int_equal(second.code, 0);
    reply_done(&second);
    assert_true(is_established(w, "widgets.x.io"));
    assert_false(is_established(w, "gadgets.x.io"));
    // It has it when the first is gone.
    assert_ok(do_delete(w, CRD("widgets.x.io"), NULL));
    world_pass(w, 5);
    assert_true(is_established(w, "gadgets.x.io"));
}

RUN_TESTS(TEST_CASE(test_of_two_definitions_made_at_once_one_gets_the_kind),
          TEST_CASE(test_events_go_an_hour_after_they_were_last_written),
          TEST_CASE(test_definitions_take_their_objects_along_but_nobody_elses),
          TEST_CASE(test_some_kinds_answer_with_the_object),
          TEST_CASE(test_others_answer_with_a_status), TEST_CASE(test_preconditions),
          TEST_CASE(test_options_are_checked), TEST_CASE(test_propagation_becomes_a_finalizer),
          TEST_CASE(test_jobs_orphan_by_default), TEST_CASE(test_dry_run_deletes_nothing),
          TEST_CASE(test_unscheduled_pods_go_at_once), TEST_CASE(test_running_pods_have_time),
          TEST_CASE(test_pods_with_finalizers_stay), TEST_CASE(test_collections),
          TEST_CASE(test_new_namespaces), TEST_CASE(test_immortal_namespaces),
          TEST_CASE(test_namespaces_take_their_content_along),
          TEST_CASE(test_namespaces_outlast_broken_disks), TEST_CASE(test_namespace_finalize),
          TEST_CASE(test_namespace_preconditions))
