// SPDX-License-Identifier: Apache-2.0
//
// Rules of patches.
#include "registry_world.h"

#include "base/banned.h"

static void make(struct world *w)
{
    assert_ok(do_create(w, CONFIG(NULL),
                        "{\"metadata\":{\"name\":\"a\",\"labels\":{\"x\":\"1\",\"y\":\"2\"}},"
                        "\"data\":{\"k\":\"v\"}}"));
}

TEST_IN_WORLD(test_three_kinds)
{
    make(w);
    assert_ok(do_patch(w, CONFIG("a"), REGISTRY_PATCH_JSON,
                       "[{\"op\":\"replace\",\"path\":\"/data/k\",\"value\":\"w\"}]"));
    assert_field(w, "data.k", "w");
    assert_ok(do_patch(w, CONFIG("a"), REGISTRY_PATCH_MERGE,
                       "{\"metadata\":{\"labels\":{\"x\":null}},\"data\":{\"l\":\"m\"}}"));
    assert_field(w, "metadata.labels", "{\"y\":\"2\"}");
    assert_field(w, "data", "{\"k\":\"w\",\"l\":\"m\"}");
    assert_ok(do_patch(w, CONFIG("a"), REGISTRY_PATCH_STRATEGIC,
                       "{\"metadata\":{\"finalizers\":[\"f.io/f\"]}}"));
    assert_ok(do_patch(w, CONFIG("a"), REGISTRY_PATCH_STRATEGIC,
                       "{\"metadata\":{\"finalizers\":[\"f.io/g\"]}}"));
    assert_field(w, "metadata.finalizers", "[\"f.io/g\",\"f.io/f\"]");
}

TEST_IN_WORLD(test_empty_patch_changes_nothing)
{
    make(w);
    uint64_t version = w->reply.revision;
    assert_ok(do_patch(w, CONFIG("a"), REGISTRY_PATCH_JSON, "[]"));
    assert_int_equal(w->reply.revision, version);
    assert_ok(do_patch(w, CONFIG("a"), REGISTRY_PATCH_MERGE, "{}"));
    assert_int_equal(w->reply.revision, version);
    assert_ok(do_patch(w, CONFIG("a"), REGISTRY_PATCH_STRATEGIC, "{}"));
    assert_int_equal(w->reply.revision, version);
}

TEST_IN_WORLD(test_version_in_patch)
{
    make(w);
    do_patch(w, CONFIG("a"), REGISTRY_PATCH_MERGE,
             "{\"metadata\":{\"resourceVersion\":\"1\"},\"data\":{\"k\":\"w\"}}");
    assert_refused(&w->reply, 409,
                   "Operation cannot be fulfilled on configmaps \"a\": the object has been "
                   "modified; please apply your changes to the latest version and try again");
}

TEST_IN_WORLD(test_uid_in_patch_is_immutable)
{
    make(w);
    do_patch(w, CONFIG("a"), REGISTRY_PATCH_MERGE, "{\"metadata\":{\"uid\":\"u\"}}");
    assert_int_equal(w->reply.http, 422);
    assert_non_null(strstr(w->reply.message, "metadata.uid: Invalid value: \"u\": field is "
                                             "immutable"));
    do_patch(w, CONFIG("a"), REGISTRY_PATCH_MERGE, "{\"metadata\":{\"name\":\"b\"}}");
    assert_int_equal(w->reply.http, 400);
    do_patch(w, CONFIG("a"), REGISTRY_PATCH_MERGE, "{\"kind\":\"Secret\"}");
    assert_int_equal(w->reply.http, 422);
}

TEST_IN_WORLD(test_missing_object)
{
    assert_refused(do_patch(w, CONFIG("a"), REGISTRY_PATCH_MERGE, "{}"), 404,
                   "configmaps \"a\" not found");
    // An apply makes what is not there, if it says what.
    do_patch(w, CONFIG("a"), REGISTRY_PATCH_APPLY, "{}");
    assert_int_equal(w->reply.http, 400);
    do_patch(w, CONFIG("a"), REGISTRY_PATCH_APPLY,
             "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n");
    assert_int_equal(w->reply.code, 0);
}

TEST_IN_WORLD(test_bad_patches)
{
    make(w);
    do_patch(w, CONFIG("a"), REGISTRY_PATCH_MERGE, "{");
    assert_int_equal(w->reply.http, 400);
    do_patch(w, CONFIG("a"), REGISTRY_PATCH_JSON, "[{\"op\":\"remove\",\"path\":\"/data/none\"}]");
    assert_refused(&w->reply, 422,
                   "the server rejected our request due to an error in our request");
    do_patch(w, CONFIG("a"), REGISTRY_PATCH_MERGE, "{\"data\":5}");
    assert_int_equal(w->reply.http, 422);
    assert_memory_equal(w->reply.causes, "FieldValueInvalid|patch|", 24);
}

TEST_IN_WORLD(test_unknown_fields)
{
    make(w);
    assert_ok(do_patch(w, CONFIG("a"), REGISTRY_PATCH_MERGE, "{\"foo\":1}"));
    assert_string_equal(w->reply.warnings, "unknown field \"foo\";");
    w->fields = REGISTRY_FIELDS_IGNORE;
    assert_ok(do_patch(w, CONFIG("a"), REGISTRY_PATCH_MERGE, "{\"foo\":1}"));
    assert_string_equal(w->reply.warnings, "");
    w->fields = REGISTRY_FIELDS_STRICT;
    do_patch(w, CONFIG("a"), REGISTRY_PATCH_MERGE, "{\"foo\":1}");
    assert_int_equal(w->reply.http, 422);
    assert_non_null(strstr(w->reply.message, "strict decoding error: unknown field \"foo\""));
}

TEST_IN_WORLD(test_patch_in_another_version)
{
    struct target v1beta1 = {"resource.k8s.io/v1beta1", "ResourceClaim", "", "default", "a"};
    assert_ok(do_create(w, CLAIM(NULL),
                        "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"devices\":{\"requests\":[{"
                        "\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"c\"}}]}}}"));
    assert_ok(do_patch(w, v1beta1, REGISTRY_PATCH_JSON,
                       "[{\"op\":\"test\",\"path\":\"/spec/devices/requests/0/deviceClassName\","
                       "\"value\":\"c\"},{\"op\":\"add\",\"path\":\"/metadata/labels\",\"value\":{"
                       "\"x\":\"y\"}}]"));
    assert_field(w, "metadata.labels.x", "y");
    assert_field(w, "spec.devices.requests[0].exactly.deviceClassName", "c");
}

TEST_IN_WORLD(test_patch_of_status)
{
    assert_ok(do_create(w, CLAIM(NULL),
                        "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"devices\":{\"requests\":[{"
                        "\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"c\"}}]}}}"));
    assert_ok(do_patch(w, CLAIM_STATUS("a"), REGISTRY_PATCH_STRATEGIC,
                       "{\"metadata\":{\"labels\":{\"x\":\"y\"}},\"status\":{\"allocation\":{"
                       "\"devices\":{\"results\":[{\"request\":\"r\",\"driver\":\"d.io\",\"pool\":"
                       "\"p\",\"device\":\"x\"}]}},\"reservedFor\":[{\"resource\":\"pods\","
                       "\"name\":\"p\",\"uid\":\"u\"}]}}"));
    assert_field(w, "metadata.labels", "-");
    assert_ok(do_patch(w, CLAIM_STATUS("a"), REGISTRY_PATCH_STRATEGIC,
                       "{\"status\":{\"reservedFor\":[{\"$patch\":\"delete\",\"uid\":\"u\"}]}}"));
    assert_field(w, "status.reservedFor", "-");
    assert_field(w, "status.allocation.devices.results[0].device", "x");
}

// Bodies are bounded, but one manager after another could go on adding to an object.
TEST_IN_WORLD(test_object_does_not_grow_for_ever)
{
    char prefix[241] = {0};
    int i = 0;
    memset(prefix, 'p', sizeof(prefix) - 1);
    for (; i < 40 && w->reply.code == 0; i++) {
        cleanup_sbuf struct sbuf config = {0};
        sbuf_addz(&config, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":"
                           "\"a\",\"labels\":{");
        for (int k = 0; k < 6000; k++)
            sbuf_addf(&config, "%s\"%s/k%d-%05d\":\"\"", k ? "," : "", prefix, i, k);
        sbuf_addz(&config, "}}}");
        struct registry_request q = world_request(w, CONFIG("a"));
        q.field_manager = arena_strf(&w->arena, "m%d", i);
        reply_done(&w->reply);
        registry_patch(w->registry, &q, REGISTRY_PATCH_APPLY, sbuf_str(&config), &w->arena,
                       world_answered, &w->reply);
        assert_true(strlen(world_end(w)->json) <= DRAY_OBJECT_STORED_BYTES_MAX);
    }
    assert_int_equal(w->reply.http, 413);
    assert_true(i > 3);
    assert_ok(do_delete(w, CONFIG("a"), NULL));
}

RUN_TESTS(TEST_CASE(test_three_kinds), TEST_CASE(test_empty_patch_changes_nothing),
          TEST_CASE(test_version_in_patch), TEST_CASE(test_uid_in_patch_is_immutable),
          TEST_CASE(test_missing_object), TEST_CASE(test_bad_patches),
          TEST_CASE(test_unknown_fields), TEST_CASE(test_patch_in_another_version),
          TEST_CASE(test_patch_of_status), TEST_CASE(test_object_does_not_grow_for_ever))
