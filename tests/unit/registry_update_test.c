// SPDX-License-Identifier: Apache-2.0
//
// Rules of updates, of objects and of their status.
#define WORLD_PENDING_BYTES ((size_t)4 * 1024 * 1024)
#include "registry_world.h"

#include "base/banned.h"

#define CLAIM_SPEC                                                                                 \
    "\"spec\":{\"devices\":{\"requests\":[{\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"c\"}" \
    "}]}}"
#define SLICE(driver, generation)                                                      \
    "\"spec\":{\"driver\":\"" driver "\",\"nodeName\":\"n\",\"pool\":{\"name\":\"p\"," \
    "\"generation\":" generation ",\"resourceSliceCount\":1},\"devices\":[{\"name\":\"d\"}]}"
#define SLICES(name) ((struct target){"resource.k8s.io/v1", "ResourceSlice", "", "", name})

// json puts a text with one %s, the version of the last reply, together.
static const char *with_version(struct world *w, const char *before, const char *after)
{
    return arena_strf(&w->arena, "%s\"resourceVersion\":\"%llu\"%s", before,
                      (unsigned long long)w->reply.revision, after)
        .p;
}

TEST_IN_WORLD(test_unconditional_update)
{
    assert_ok(do_create(w, CLAIM(NULL), "{\"metadata\":{\"name\":\"a\"}," CLAIM_SPEC "}"));
    uint64_t first = w->reply.revision;
    assert_ok(do_update(w, CLAIM("a"),
                        "{\"metadata\":{\"name\":\"a\",\"labels\":{\"x\":\"y\"}}," CLAIM_SPEC "}"));
    assert_true(w->reply.revision > first);
    assert_false(w->reply.created);
    assert_field(w, "metadata.labels.x", "y");
    assert_field(w, "metadata.creationTimestamp", "2027-01-15T08:00:00Z");
}

TEST_IN_WORLD(test_version_is_demanded)
{
    struct target lease = {"coordination.k8s.io/v1", "Lease", "", "default", "l"};
    assert_ok(do_create(w, lease, "{\"metadata\":{\"name\":\"l\"}}"));
    assert_refused(do_update(w, lease, "{\"metadata\":{\"name\":\"l\"}}"), 422,
                   "leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion: Invalid "
                   "value: 0: must be specified for an update");
    // One kind, two customs.
    struct target rule = {"resource.k8s.io/v1", "DeviceTaintRule", "", "", "t"};
    const char *body = "{\"metadata\":{\"name\":\"t\"},\"spec\":{\"taint\":{\"key\":\"k\","
                       "\"effect\":\"NoSchedule\"}}}";
    assert_ok(do_create(w, rule, body));
    do_update(w, rule, body);
    assert_int_equal(w->reply.http, 422);
    rule.api_version = "resource.k8s.io/v1beta2";
    assert_ok(do_update(w, rule, body));
}

TEST_IN_WORLD(test_stale_version)
{
    assert_ok(do_create(w, CLAIM(NULL), "{\"metadata\":{\"name\":\"a\"}," CLAIM_SPEC "}"));
    const char *stale = with_version(w, "{\"metadata\":{\"name\":\"a\",\"labels\":{\"n\":\"1\"},",
                                     "}," CLAIM_SPEC "}");
    assert_ok(do_update(w, CLAIM("a"), stale));
    assert_refused(do_update(w, CLAIM("a"), stale), 409,
                   "Operation cannot be fulfilled on resourceclaims.resource.k8s.io \"a\": the "
                   "object has been modified; please apply your changes to the latest version and "
                   "try again");
    assert_string_equal(w->reply.reason, "Conflict");
    assert_refused(do_update(w, CLAIM("a"),
                             "{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"x\"}," CLAIM_SPEC
                             "}"),
                   500, "strconv.ParseUint: parsing \"x\": invalid syntax");
}

// What was refused, and what a reader found at that moment.
struct refusal {
    struct world *w;
    struct reply reply;
    uint64_t visible; // revision of the object; 0: there was none
};

static void refused(void *arg, const struct registry_answer *answer)
{
    struct refusal *x = arg;
    const struct api_kind *kind = registry_stored_kind(world_request(x->w, CLAIM("a")).kind);
    const struct store_key key = {kind, STR("default"), STR("a")};
    const struct object *o = store_get(x->w->store, &key);
    x->visible = o ? o->revision : 0;
    world_answered(&x->reply, answer);
}

TEST_IN_WORLD(test_head_counts_not_what_is_visible)
{
    assert_ok(do_create(w, CLAIM(NULL), "{\"metadata\":{\"name\":\"a\"}," CLAIM_SPEC "}"));
    const char *stale = with_version(w, "{\"metadata\":{\"name\":\"a\",\"labels\":{\"n\":\"1\"},",
                                     "}," CLAIM_SPEC "}");
    struct reply one = {0};
    struct refusal two = {.w = w};
    struct registry_request request = world_request(w, CLAIM("a"));
    struct api_object b1 = world_body(w, request.kind, stale),
                      b2 = world_body(w, request.kind, stale);
    registry_update(w->registry, &request, &b1, &w->arena, world_answered, &one);
    registry_update(w->registry, &request, &b2, &w->arena, refused, &two);
    // Who is refused and reads again finds what was in the way.
    assert_int_equal(one.answers + two.reply.answers, 0);
    world_run(w);
    assert_int_equal(one.code, 0);
    assert_int_equal(two.reply.http, 409);
    assert_int_equal(two.visible, one.revision);
    reply_done(&one);
    reply_done(&two.reply);
}

TEST_IN_WORLD(test_refusals_wait_for_deletions_and_do_not_wait_for_ever)
{
    assert_ok(do_create(w, CLAIM(NULL), "{\"metadata\":{\"name\":\"a\"}," CLAIM_SPEC "}"));
    struct reply one = {0};
    struct refusal two = {.w = w, .visible = 1};
    struct registry_request request = world_request(w, CLAIM("a"));
    const struct api_delete_options none = {0};
    registry_delete(w->registry, &request, &none, &w->arena, world_answered, &one);
    registry_delete(w->registry, &request, &none, &w->arena, refused, &two);
    assert_int_equal(two.reply.answers, 0);
    world_run(w);
    assert_int_equal(two.reply.http, 404);
    assert_int_equal(two.visible, 0);
    reply_done(&one);
    reply_done(&two.reply);
    // A write that is lost: the refusal that rested on it is answered, and so are later ones.
    w->fail_commits = true;
    struct registry_request create = world_request(w, CLAIM(NULL));
    const char *body = "{\"metadata\":{\"name\":\"a\"}," CLAIM_SPEC "}";
    struct api_object b1 = world_body(w, create.kind, body), b2 = world_body(w, create.kind, body);
    registry_create(w->registry, &create, &b1, &w->arena, world_answered, &one);
    registry_create(w->registry, &create, &b2, &w->arena, refused, &two);
    world_run(w);
    assert_int_equal(one.http, 500);
    assert_int_equal(two.reply.http, 409);
    w->fail_commits = false;
    reply_done(&one);
    reply_done(&two.reply);
    do_delete(w, CLAIM("a"), NULL);
    assert_int_equal(w->reply.http, 404);
}

// The disk does not keep up: who is refused for that is told at once, and not when a revision that nobody has comes.
TEST_IN_WORLD(test_refusals_of_a_full_store_wait_for_nothing)
{
    enum { WRITES = 64, BYTES = 256 * 1024 };
    cleanup_sbuf struct sbuf body = {0};
    sbuf_addz(&body, "{\"metadata\":{\"generateName\":\"a-\"},\"data\":{\"k\":\"");
    for (size_t i = 0; i < BYTES; i++)
        sbuf_addc(&body, 'x');
    sbuf_addz(&body, "\"}}");
    struct registry_request create = world_request(w, CONFIG(NULL));
    struct reply replies[WRITES] = {0};
    size_t refused_at_once = 0, stored = 0;
    for (size_t i = 0; i < WRITES; i++) {
        struct api_object object = world_body(w, create.kind, body.p);
        registry_create(w->registry, &create, &object, &w->arena, world_answered, &replies[i]);
        refused_at_once += replies[i].answers == 1 && replies[i].http == 500;
    }
    assert_int_equal(WRITES - refused_at_once, (WORLD_PENDING_BYTES - 1) / BYTES);
    world_run(w);
    for (size_t i = 0; i < WRITES; i++) {
        assert_int_equal(replies[i].answers, 1);
        stored += replies[i].code == 0;
        reply_done(&replies[i]);
    }
    assert_int_equal(stored, WRITES - refused_at_once);
    // A refusal of another sort does not wait for what was never accepted.
    do_delete(w, CLAIM("a"), NULL);
    assert_int_equal(w->reply.http, 404);
}

TEST_IN_WORLD(test_no_change_keeps_version)
{
    assert_ok(do_create(w, CLAIM(NULL), "{\"metadata\":{\"name\":\"a\"}," CLAIM_SPEC "}"));
    uint64_t first = w->reply.revision, all = store_revision(w->store);
    assert_ok(do_update(w, CLAIM("a"), "{\"metadata\":{\"name\":\"a\"}," CLAIM_SPEC "}"));
    assert_int_equal(w->reply.revision, first);
    assert_int_equal(store_revision(w->store), all);
}

TEST_IN_WORLD(test_no_change_waits_for_the_write_it_saw)
{
    assert_ok(do_create(w, CLAIM(NULL), "{\"metadata\":{\"name\":\"a\"}," CLAIM_SPEC "}"));
    const char *body = "{\"metadata\":{\"name\":\"a\",\"labels\":{\"n\":\"1\"}}," CLAIM_SPEC "}";
    struct reply one = {0}, two = {0};
    struct registry_request request = world_request(w, CLAIM("a"));
    struct api_object b1 = world_body(w, request.kind, body),
                      b2 = world_body(w, request.kind, body);
    registry_update(w->registry, &request, &b1, &w->arena, world_answered, &one);
    registry_update(w->registry, &request, &b2, &w->arena, world_answered, &two);
    assert_int_equal(one.answers + two.answers, 0);
    world_run(w);
    assert_int_equal(one.answers, 1);
    assert_int_equal(two.answers, 1);
    assert_int_equal(one.revision, two.revision);
    reply_done(&one);
    reply_done(&two);
    // And shares its fate.
    w->fail_commits = true;
    const char *next = "{\"metadata\":{\"name\":\"a\",\"labels\":{\"n\":\"2\"}}," CLAIM_SPEC "}";
    b1 = world_body(w, request.kind, next);
    b2 = world_body(w, request.kind, next);
    registry_update(w->registry, &request, &b1, &w->arena, world_answered, &one);
    registry_update(w->registry, &request, &b2, &w->arena, world_answered, &two);
    world_run(w);
    assert_int_equal(one.http, 500);
    assert_int_equal(two.http, 500);
    w->fail_commits = false;
    reply_done(&one);
    reply_done(&two);
}

TEST_IN_WORLD(test_names_must_agree)
{
    assert_ok(do_create(w, CLAIM(NULL), "{\"metadata\":{\"name\":\"a\"}," CLAIM_SPEC "}"));
    assert_refused(do_update(w, CLAIM("a"), "{\"metadata\":{\"name\":\"b\"}," CLAIM_SPEC "}"), 400,
                   "the name of the object (b) does not match the name on the URL (a)");
    assert_refused(do_update(w, CLAIM("a"), "{\"metadata\":{}," CLAIM_SPEC "}"), 400,
                   "the name of the object (a based on URL) was undeterminable: name must be "
                   "provided");
}

TEST_IN_WORLD(test_uid_is_a_precondition)
{
    assert_ok(do_create(w, CLAIM(NULL), "{\"metadata\":{\"name\":\"a\"}," CLAIM_SPEC "}"));
    struct str want = arena_strf(
        &w->arena,
        "Operation cannot be fulfilled on resourceclaims.resource.k8s.io \"a\": StorageError: "
        "invalid object, Code: 4, Key: /registry/resourceclaims/default/a, ResourceVersion: 0, "
        "AdditionalErrorMsg: Precondition failed: UID in precondition: u, UID in object meta: %s",
        reply_field(w, "metadata.uid"));
    assert_refused(do_update(w, CLAIM("a"),
                             "{\"metadata\":{\"name\":\"a\",\"uid\":\"u\"}," CLAIM_SPEC "}"),
                   409, want.p);
}

TEST_IN_WORLD(test_missing_objects)
{
    assert_refused(do_update(w, CLAIM("a"), "{\"metadata\":{\"name\":\"a\"}," CLAIM_SPEC "}"), 404,
                   "resourceclaims.resource.k8s.io \"a\" not found");
    struct target lease = {"coordination.k8s.io/v1", "Lease", "", "default", "l"};
    assert_ok(do_update(w, lease, "{\"metadata\":{\"name\":\"l\"}}"));
    assert_true(w->reply.created);
    assert_int_equal(strlen(reply_field(w, "metadata.uid")), 36);
    lease.name = "k";
    do_update(w, lease, "{\"metadata\":{\"name\":\"k\",\"uid\":\"u\"}}");
    assert_int_equal(w->reply.http, 409);
}

TEST_IN_WORLD(test_generation_counts_changes)
{
    assert_ok(do_create(w, SLICES(NULL), "{\"metadata\":{\"name\":\"s\"}," SLICE("d.io", "1") "}"));
    assert_ok(
        do_update(w, SLICES("s"),
                  "{\"metadata\":{\"name\":\"s\",\"labels\":{\"a\":\"b\"},\"generation\":9}," SLICE(
                      "d.io", "1") "}"));
    assert_field(w, "metadata.generation", "1");
    assert_ok(do_update(w, SLICES("s"), "{\"metadata\":{\"name\":\"s\"}," SLICE("d.io", "2") "}"));
    assert_field(w, "metadata.generation", "2");
    do_update(w, SLICES("s"), "{\"metadata\":{\"name\":\"s\"}," SLICE("e.io", "2") "}");
    assert_int_equal(w->reply.http, 422);
}

TEST_IN_WORLD(test_deployments_count_annotations)
{
    struct target t = {"apps/v1", "Deployment", "", "default", "d"};
#define DEPLOYMENT(meta, replicas)                                                           \
    "{\"metadata\":{\"name\":\"d\"" meta "},\"spec\":{\"replicas\":" replicas                \
    ",\"selector\":{\"matchLabels\":{\"a\":\"b\"}},\"template\":{\"metadata\":{\"labels\":{" \
    "\"a\":\"b\"}},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}}}"
    assert_ok(do_create(w, t, DEPLOYMENT("", "1")));
    assert_field(w, "metadata.generation", "1");
    assert_ok(do_update(w, t, DEPLOYMENT(",\"labels\":{\"x\":\"y\"}", "1")));
    assert_field(w, "metadata.generation", "1");
    assert_ok(do_update(w, t, DEPLOYMENT(",\"annotations\":{\"x\":\"y\"}", "1")));
    assert_field(w, "metadata.generation", "2");
    // Its scale is an object of its own.
    t.sub = "scale";
    assert_ok(do_update(w, t,
                        "{\"kind\":\"Scale\",\"apiVersion\":\"autoscaling/v1\",\"metadata\":{"
                        "\"name\":\"d\"},\"spec\":{\"replicas\":5}}"));
    assert_field(w, "spec.replicas", "5");
    assert_field(w, "metadata.generation", "3");
    assert_ok(do_patch(w, t, REGISTRY_PATCH_MERGE, "{\"spec\":{\"replicas\":6}}"));
    assert_field(w, "spec.replicas", "6");
    const struct store_key key = {api_kind_find(STR("apps/v1"), STR("Deployment")), STR("default"),
                                  STR("d")};
    struct api_scale scale;
    struct err err;
    assert_int_equal(registry_scale(store_get(w->store, &key), &w->arena, &scale, &err), 0);
    assert_int_equal(scale.spec.replicas, 6);
    assert_str(scale.status.selector, "a=b");
    do_update(w, t,
              "{\"kind\":\"Scale\",\"apiVersion\":\"autoscaling/v1\",\"metadata\":{\"name\":\"d\"},"
              "\"spec\":{\"replicas\":-1}}");
    assert_int_equal(w->reply.http, 422);
}

#define ALLOCATION                                                                          \
    "\"status\":{\"allocation\":{\"devices\":{\"results\":[{\"request\":\"r\",\"driver\":"  \
    "\"d.io\",\"pool\":\"p\",\"device\":\"x\"}]}},\"reservedFor\":[{\"resource\":\"pods\"," \
    "\"name\":\"p\",\"uid\":\"u\"}]}"

TEST_IN_WORLD(test_status_and_spec_are_apart)
{
    assert_ok(do_create(w, CLAIM(NULL), "{\"metadata\":{\"name\":\"a\"}," CLAIM_SPEC "}"));
    assert_ok(do_update(w, CLAIM_STATUS("a"),
                        "{\"metadata\":{\"name\":\"a\",\"labels\":{\"x\":\"y\"},\"finalizers\":["
                        "\"f.io/f\"]},\"spec\":{}," ALLOCATION "}"));
    assert_field(w, "status.allocation.devices.results[0].device", "x");
    assert_field(w, "metadata.labels", "-");
    assert_field(w, "metadata.finalizers", "-");
    assert_field(w, "spec.devices.requests[0].name", "r");
    assert_ok(do_update(w, CLAIM("a"),
                        "{\"metadata\":{\"name\":\"a\",\"labels\":{\"x\":\"y\"}}," CLAIM_SPEC
                        ",\"status\":{}}"));
    assert_field(w, "status.reservedFor[0].uid", "u");
    assert_field(w, "metadata.labels.x", "y");
    do_update(w, CLAIM("a"), "{\"metadata\":{\"name\":\"a\"},\"spec\":{}}");
    assert_int_equal(w->reply.http, 422);
    assert_non_null(strstr(w->reply.message, "field is immutable"));
}

TEST_IN_WORLD(test_status_of_other_kinds_takes_metadata)
{
    struct target node = {"v1", "Node", "", "", "n"};
    assert_ok(do_create(w, node,
                        "{\"metadata\":{\"name\":\"n\"},\"status\":{\"capacity\":{"
                        "\"cpu\":\"1\"}}}"));
    assert_field(w, "status.capacity.cpu", "1");
    node.sub = "status";
    assert_ok(do_update(w, node,
                        "{\"metadata\":{\"name\":\"n\",\"labels\":{\"x\":\"y\"}},\"spec\":"
                        "{\"unschedulable\":true},\"status\":{\"capacity\":{\"cpu\":"
                        "\"2\"}}}"));
    assert_field(w, "metadata.labels.x", "y");
    assert_field(w, "spec.unschedulable", "-");
    assert_field(w, "status.capacity.cpu", "2");
    node.sub = "";
    assert_ok(do_update(w, node,
                        "{\"metadata\":{\"name\":\"n\"},\"spec\":{\"unschedulable\":"
                        "true}}"));
    assert_field(w, "spec.unschedulable", "true");
    assert_field(w, "status.capacity.cpu", "2");
}

TEST_IN_WORLD(test_subresources_that_are_not_there)
{
    struct target t = CLAIM("a");
    t.sub = "scale";
    do_update(w, t, "{\"metadata\":{\"name\":\"a\"}}");
    assert_int_equal(w->reply.code, -ERR_UNSUPPORTED);
    t.sub = "binding";
    do_update(w, t, "{\"metadata\":{\"name\":\"a\"}}");
    assert_int_equal(w->reply.code, -ERR_UNSUPPORTED);
}

TEST_IN_WORLD(test_dry_run_changes_nothing)
{
    assert_ok(do_create(w, CLAIM(NULL), "{\"metadata\":{\"name\":\"a\"}," CLAIM_SPEC "}"));
    uint64_t before = store_revision(w->store), version = w->reply.revision;
    w->dry_run = true;
    assert_ok(do_update(w, CLAIM("a"),
                        "{\"metadata\":{\"name\":\"a\",\"labels\":{\"x\":\"y\"}}," CLAIM_SPEC "}"));
    assert_field(w, "metadata.labels.x", "y");
    assert_int_equal(w->reply.revision, version);
    assert_int_equal(store_revision(w->store), before);
    assert_ok(do_get(w, CLAIM("a")));
    assert_field(w, "metadata.labels", "-");
}

TEST_IN_WORLD(test_last_finalizer_ends_a_deleted_object)
{
    assert_ok(do_create(w, CLAIM(NULL),
                        "{\"metadata\":{\"name\":\"a\",\"finalizers\":[\"f.io/f\"]}," CLAIM_SPEC
                        "}"));
    assert_ok(do_delete(w, CLAIM("a"), NULL));
    assert_false(w->reply.deleted);
    assert_field(w, "metadata.deletionTimestamp", "2027-01-15T08:00:00Z");
    assert_field(w, "metadata.deletionGracePeriodSeconds", "0");
    // It cannot come back, and nothing more can hold it.
    do_update(w, CLAIM("a"),
              "{\"metadata\":{\"name\":\"a\",\"finalizers\":[\"f.io/f\",\"f.io/g\"]}," CLAIM_SPEC
              "}");
    assert_int_equal(w->reply.http, 422);
    assert_non_null(strstr(w->reply.message, "no new finalizers can be added if the object is "
                                             "being deleted, found new finalizers "
                                             "[]string{\"f.io/g\"}"));
    assert_ok(do_update(w, CLAIM("a"),
                        "{\"metadata\":{\"name\":\"a\",\"labels\":{\"x\":\"y\"},\"finalizers\":["
                        "\"f.io/f\"]}," CLAIM_SPEC "}"));
    assert_field(w, "metadata.deletionTimestamp", "2027-01-15T08:00:00Z");
    uint64_t version = w->reply.revision;
    assert_ok(do_update(w, CLAIM("a"), "{\"metadata\":{\"name\":\"a\"}," CLAIM_SPEC "}"));
    assert_true(w->reply.deleted);
    assert_field(w, "metadata.finalizers", "-");
    assert_int_equal(w->reply.revision, version);
    do_get(w, CLAIM("a"));
    assert_null(w->reply.doc.root);
}

#define SERVICE(name) ((struct target){"v1", "Service", "", "default", name})

TEST_IN_WORLD(test_addresses_of_services_agree)
{
    assert_ok(do_create(w, SERVICE(NULL),
                        "{\"metadata\":{\"name\":\"s\"},\"spec\":{\"clusterIP\":\"None\"}}"));
    assert_field(w, "spec.clusterIPs", "[\"None\"]");
    assert_ok(do_update(w, SERVICE("s"),
                        "{\"metadata\":{\"name\":\"s\",\"labels\":{\"x\":\"y\"}},\"spec\":{}}"));
    assert_field(w, "spec.clusterIP", "None");
    assert_field(w, "spec.clusterIPs", "[\"None\"]");
    do_create(w, SERVICE(NULL), "{\"metadata\":{\"name\":\"t\"},\"spec\":{}}");
    assert_int_equal(w->reply.http, 422);
    assert_non_null(strstr(w->reply.message, "spec.ports: Required value"));
}

RUN_TESTS(TEST_CASE(test_unconditional_update), TEST_CASE(test_version_is_demanded),
          TEST_CASE(test_stale_version), TEST_CASE(test_head_counts_not_what_is_visible),
          TEST_CASE(test_refusals_wait_for_deletions_and_do_not_wait_for_ever),
          TEST_CASE(test_refusals_of_a_full_store_wait_for_nothing),
          TEST_CASE(test_no_change_keeps_version),
          TEST_CASE(test_no_change_waits_for_the_write_it_saw), TEST_CASE(test_names_must_agree),
          TEST_CASE(test_uid_is_a_precondition), TEST_CASE(test_missing_objects),
          TEST_CASE(test_generation_counts_changes), TEST_CASE(test_deployments_count_annotations),
          TEST_CASE(test_status_and_spec_are_apart),
          TEST_CASE(test_status_of_other_kinds_takes_metadata),
          TEST_CASE(test_subresources_that_are_not_there), TEST_CASE(test_dry_run_changes_nothing),
          TEST_CASE(test_last_finalizer_ends_a_deleted_object),
          TEST_CASE(test_addresses_of_services_agree))
