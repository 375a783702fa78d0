// SPDX-License-Identifier: Apache-2.0
//
// Rules of creation.
#include "registry_world.h"

#include "base/banned.h"

#define CLAIM_SPEC                                                                                 \
    "\"spec\":{\"devices\":{\"requests\":[{\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"c\"}" \
    "}]}}"

TEST_IN_WORLD(test_gives_identity)
{
    assert_ok(do_create(w, CLAIM(NULL), "{\"metadata\":{\"name\":\"a\"}," CLAIM_SPEC "}"));
    assert_true(w->reply.created);
    assert_field(w, "kind", "ResourceClaim");
    assert_field(w, "apiVersion", "resource.k8s.io/v1");
    assert_field(w, "metadata.namespace", "default");
    assert_field(w, "metadata.creationTimestamp", "2027-01-15T08:00:00Z");
    assert_field(w, "metadata.generation", "-");
    assert_int_equal(strlen(reply_field(w, "metadata.uid")), 36);
    uint64_t version = 0;
    assert_int_equal(str_to_u64(str_z(reply_field(w, "metadata.resourceVersion")), &version), 0);
    assert_int_equal(version, w->reply.revision);
    assert_field(w, "spec.devices.requests[0].exactly.allocationMode", "ExactCount");
    assert_ok(do_get(w, CLAIM("a")));
    assert_field(w, "metadata.name", "a");
}

TEST_IN_WORLD(test_resets_what_only_the_server_sets)
{
    assert_ok(do_create(w, CLAIM(NULL),
                        "{\"metadata\":{\"name\":\"a\",\"uid\":\"mine\",\"selfLink\":\"/x\","
                        "\"creationTimestamp\":\"2000-01-01T00:00:00Z\",\"generation\":7,"
                        "\"deletionTimestamp\":\"2000-01-01T00:00:00Z\","
                        "\"deletionGracePeriodSeconds\":3},\"status\":{\"reservedFor\":[{"
                        "\"resource\":\"pods\",\"name\":\"p\",\"uid\":\"u\"}]}," CLAIM_SPEC "}"));
    assert_string_not_equal(reply_field(w, "metadata.uid"), "mine");
    assert_field(w, "metadata.selfLink", "-");
    assert_field(w, "metadata.deletionTimestamp", "-");
    assert_field(w, "metadata.deletionGracePeriodSeconds", "-");
    assert_field(w, "metadata.creationTimestamp", "2027-01-15T08:00:00Z");
    assert_field(w, "status.reservedFor", "-");
}

TEST_IN_WORLD(test_generates_names)
{
    assert_ok(do_create(w, CLAIM(NULL), "{\"metadata\":{\"generateName\":\"a-\"}," CLAIM_SPEC "}"));
    struct str name = str_z(reply_field(w, "metadata.name"));
    assert_int_equal(name.n, 7);
    assert_true(str_starts(name, STR("a-")));
    assert_int_equal(strspn(str_from(name, 2).p, "bcdfghjklmnpqrstvwxz2456789"), 5);
    assert_ok(do_create(w, CLAIM(NULL),
                        "{\"metadata\":{\"generateName\":\"abcdefghijabcdefghijabcdefghijabcdefghij"
                        "abcdefghijabcdefghijabcdefghij\"}," CLAIM_SPEC "}"));
    assert_int_equal(strlen(reply_field(w, "metadata.name")), 63);
}

// A generator that always draws the same.
static void draw_same(struct rng *r, void *buf, size_t n)
{
    (void)r;
    memset(buf, 0x5a, n);
}

TEST_IN_WORLD(test_generated_name_taken)
{
    struct rng same = {draw_same};
    struct exec *exec = exec_sim_exec(w->sim);
    struct rng *before = exec->rng;
    exec->rng = &same;
    const char *body = "{\"metadata\":{\"generateName\":\"a-\"}," CLAIM_SPEC "}";
    assert_ok(do_create(w, CLAIM(NULL), body));
    struct str want = arena_strf(&w->arena,
                                 "resourceclaims.resource.k8s.io \"%s\" already exists, the server "
                                 "was not able to generate a unique name for the object",
                                 reply_field(w, "metadata.name"));
    assert_refused(do_create(w, CLAIM(NULL), body), 409, want.p);
    exec->rng = before;
}

TEST_IN_WORLD(test_name_taken)
{
    const char *body = "{\"metadata\":{\"name\":\"a\",\"finalizers\":[\"x.io/f\"]}," CLAIM_SPEC "}";
    assert_ok(do_create(w, CLAIM(NULL), body));
    assert_refused(do_create(w, CLAIM(NULL), body), 409,
                   "resourceclaims.resource.k8s.io \"a\" already exists");
    assert_string_equal(w->reply.reason, "AlreadyExists");
    assert_ok(do_delete(w, CLAIM("a"), NULL));
    assert_refused(do_create(w, CLAIM(NULL), body), 409,
                   "object is being deleted: resourceclaims.resource.k8s.io \"a\" already exists");
}

TEST_IN_WORLD(test_version_must_be_empty)
{
    assert_refused(do_create(w, CLAIM(NULL),
                             "{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"5\"}," CLAIM_SPEC
                             "}"),
                   500, "resourceVersion should not be set on objects to be created");
    assert_string_equal(w->reply.reason, "");
}

TEST_IN_WORLD(test_namespace_must_exist)
{
    struct target t = CLAIM(NULL);
    t.namespace = "nowhere";
    assert_refused(do_create(w, t, "{\"metadata\":{\"name\":\"a\"}," CLAIM_SPEC "}"), 404,
                   "namespaces \"nowhere\" not found");
}

TEST_IN_WORLD(test_namespace_of_body_and_path)
{
    assert_refused(do_create(w, CLAIM(NULL),
                             "{\"metadata\":{\"name\":\"a\",\"namespace\":\"other\"}," CLAIM_SPEC
                             "}"),
                   400,
                   "the namespace of the provided object does not match the namespace sent on the "
                   "request");
    // Of kinds without namespace it is dropped.
    struct target class_ = {"resource.k8s.io/v1", "DeviceClass", "", "", NULL};
    assert_ok(do_create(w, class_, "{\"metadata\":{\"name\":\"c\",\"namespace\":\"x\"}}"));
    assert_field(w, "metadata.namespace", "-");
    assert_field(w, "metadata.generation", "1");
}

TEST_IN_WORLD(test_invalid_objects)
{
    assert_refused(
        do_create(w, CLAIM(NULL), "{\"metadata\":{\"name\":\"A\"},\"spec\":{}}"), 422,
        "ResourceClaim.resource.k8s.io \"A\" is invalid: metadata.name: Invalid value: \"A\": a "
        "lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
        "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex "
        "used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')");
    assert_string_equal(w->reply.reason, "Invalid");
    assert_memory_equal(w->reply.causes, "FieldValueInvalid|metadata.name|Invalid value: \"A\"",
                        45);
    assert_refused(do_create(w, CLAIM(NULL), "{\"metadata\":{},\"spec\":{}}"), 422,
                   "ResourceClaim.resource.k8s.io \"\" is invalid: metadata.name: Required value: "
                   "name or generateName is required");
}

TEST_IN_WORLD(test_dry_run_stores_nothing)
{
    uint64_t before = store_revision(w->store);
    w->dry_run = true;
    assert_ok(do_create(w, CLAIM(NULL), "{\"metadata\":{\"name\":\"a\"}," CLAIM_SPEC "}"));
    assert_true(w->reply.created);
    assert_field(w, "metadata.resourceVersion", "-");
    assert_int_equal(strlen(reply_field(w, "metadata.uid")), 36);
    assert_int_equal(store_revision(w->store), before);
    do_get(w, CLAIM("a"));
    assert_null(w->reply.doc.root);
    w->dry_run = false;
    assert_ok(do_create(w, CLAIM(NULL), "{\"metadata\":{\"name\":\"a\"}," CLAIM_SPEC "}"));
    w->dry_run = true;
    assert_refused(do_create(w, CLAIM(NULL), "{\"metadata\":{\"name\":\"a\"}," CLAIM_SPEC "}"), 409,
                   "resourceclaims.resource.k8s.io \"a\" already exists");
}

TEST_IN_WORLD(test_versions_are_one_object)
{
    struct target old = {"resource.k8s.io/v1beta1", "ResourceClaim", "", "default", NULL};
    assert_ok(do_create(w, old,
                        "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"devices\":{\"requests\":[{"
                        "\"name\":\"r\",\"deviceClassName\":\"c\"}]}}}"));
    assert_field(w, "apiVersion", "resource.k8s.io/v1");
    assert_field(w, "spec.devices.requests[0].exactly.deviceClassName", "c");
    const struct api_kind *v1beta1 =
        api_kind_find(STR("resource.k8s.io/v1beta1"), STR("ResourceClaim"));
    const struct store_key key = {registry_stored_kind(v1beta1), STR("default"), STR("a")};
    struct sbuf json = {0};
    struct err err;
    assert_int_equal(registry_json(store_get(w->store, &key), v1beta1, false, &json, &err), 0);
    assert_true(str_contains(sbuf_str(&json), STR("\"apiVersion\":\"resource.k8s.io/v1beta1\"")));
    assert_true(str_contains(sbuf_str(&json), STR("{\"name\":\"r\",\"deviceClassName\":\"c\"")));
    sbuf_clear(&json);
    assert_int_equal(registry_json(store_get(w->store, &key), v1beta1, true, &json, &err), 0);
    assert_true(str_starts(sbuf_str(&json), STR("{\"metadata\":")));
    sbuf_clear(&json);
    assert_int_equal(registry_json(store_get(w->store, &key), key.kind, true, &json, &err), 0);
    assert_true(str_starts(sbuf_str(&json), STR("{\"metadata\":")));
    sbuf_done(&json);
}

TEST_IN_WORLD(test_events_of_both_groups_are_one)
{
    struct target t = {"events.k8s.io/v1", "Event", "", "default", NULL};
    assert_ok(do_create(w, t,
                        "{\"metadata\":{\"name\":\"e\"},\"regarding\":{\"kind\":\"Pod\",\"name\":"
                        "\"p\"},\"reportingController\":\"c\",\"reportingInstance\":\"i\","
                        "\"action\":\"A\",\"note\":\"hello\",\"reason\":\"R\",\"type\":\"Normal\","
                        "\"eventTime\":\"2027-01-15T08:00:00.000000Z\"}"));
    assert_field(w, "apiVersion", "v1");
    assert_field(w, "involvedObject.kind", "Pod");
    assert_field(w, "message", "hello");
    const struct store_key key = {api_kind_find(STR("v1"), STR("Event")), STR("default"), STR("e")};
    struct str value;
    assert_true(object_field(store_get(w->store, &key), STR("involvedObject.name"), &value));
    assert_str(value, "p");
}

TEST_IN_WORLD(test_upper_case_driver_is_warned_of)
{
    struct target t = {"resource.k8s.io/v1", "ResourceSlice", "", "", NULL};
    assert_ok(do_create(w, t,
                        "{\"metadata\":{\"generateName\":\"s-\"},\"spec\":{\"driver\":\"GPU.x.io\","
                        "\"nodeName\":\"n\",\"pool\":{\"name\":\"p\",\"resourceSliceCount\":1},"
                        "\"devices\":[{\"name\":\"d\",\"taints\":[{\"key\":\"k\",\"effect\":"
                        "\"NoExecute\"}]}]}}"));
    assert_string_equal(w->reply.warnings, "spec.driver: driver names should be lowercase; "
                                           "\"GPU.x.io\" contains uppercase characters;");
    assert_field(w, "metadata.generation", "1");
    assert_field(w, "spec.devices[0].taints[0].timeAdded", "2027-01-15T08:00:00Z");
}

TEST_IN_WORLD(test_repeated_owners_are_dropped)
{
    assert_ok(do_create(
        w, CONFIG(NULL),
        "{\"metadata\":{\"name\":\"a\",\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":"
        "\"Pod\",\"name\":\"p\",\"uid\":\"u\"},{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":"
        "\"p\",\"uid\":\"u\"}]}}"));
    assert_field(w, "metadata.ownerReferences",
                 "[{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"p\",\"uid\":\"u\"}]");
    assert_memory_equal(w->reply.warnings, ".metadata.ownerReferences contains duplicate", 44);
}

TEST_IN_WORLD(test_opaque_parameters_are_stored_compact)
{
    assert_ok(
        do_create(w, CLAIM(NULL),
                  "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"devices\":{\"requests\":[{"
                  "\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"c\"}}],\"config\":[{"
                  "\"opaque\":{\"driver\":\"d.io\",\"parameters\":{ \"b\" : [ 1, 2 ] }}}]}}}"));
    assert_non_null(strstr(w->reply.json, "\"parameters\":{\"b\":[1,2]}"));
}

TEST_IN_WORLD(test_admin_access_needs_the_label)
{
    const char *body = "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"devices\":{\"requests\":[{"
                       "\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"c\",\"adminAccess\":true}"
                       "}]}}}";
    struct target t = CLAIM(NULL);
    do_create(w, t, body);
    assert_int_equal(w->reply.http, 422);
    assert_non_null(strstr(w->reply.causes, "FieldValueForbidden|"));
    assert_ok(do_create(w, NS(NULL),
                        "{\"metadata\":{\"name\":\"admins\",\"labels\":{"
                        "\"resource.kubernetes.io/admin-access\":\"true\"}}}"));
    t.namespace = "admins";
    assert_ok(do_create(w, t, body));
}

TEST_IN_WORLD(test_lost_writes_are_told)
{
    w->fail_commits = true;
    do_create(w, CLAIM(NULL), "{\"metadata\":{\"name\":\"a\"}," CLAIM_SPEC "}");
    assert_int_equal(w->reply.http, 500);
    assert_string_equal(w->reply.reason, "InternalError");
    assert_non_null(strstr(w->reply.message, "the disk is broken"));
    w->fail_commits = false;
    assert_ok(do_create(w, CLAIM(NULL), "{\"metadata\":{\"name\":\"a\"}," CLAIM_SPEC "}"));
}

TEST_IN_WORLD(test_tokens_are_not_built_yet)
{
    struct target t = {"v1", "ServiceAccount", "token", "default", "sa"};
    do_create(w, t, "{\"kind\":\"TokenRequest\",\"apiVersion\":\"authentication.k8s.io/v1\"}");
    assert_int_equal(w->reply.code, -ERR_UNSUPPORTED);
}

TEST_IN_WORLD(test_reviews_are_not_stored)
{
    struct target review = {"authorization.k8s.io/v1", "SubjectAccessReview", "", "", NULL};
    do_create(w, review, "{\"metadata\":{\"name\":\"a\"}}");
    assert_int_equal(w->reply.code, -ERR_UNSUPPORTED);
}

TEST_IN_WORLD(test_bindings_are_not_stored)
{
    struct target t = {"v1", "Binding", "", "default", NULL};
    do_create(w, t,
              "{\"kind\":\"Binding\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"p\"},"
              "\"target\":{\"name\":\"n\"}}");
    assert_refused(&w->reply, 404, "pods \"p\" not found");
}

// A refusal waits for what is being written; by then the policy that it is by may be gone.
TEST_IN_WORLD(test_policy_that_goes)
{
    const struct target policy = {"admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy",
                                  "", "", "p"};
    const struct target binding = {"admissionregistration.k8s.io/v1",
                                   "ValidatingAdmissionPolicyBinding", "", "", NULL};
    w->user.name = STR("somebody");
    assert_ok(do_create(
        w, policy,
        "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"matchConstraints\":{\"resourceRules\":[{"
        "\"apiGroups\":[\"\"],\"apiVersions\":[\"v1\"],\"operations\":[\"*\"],\"resources\":["
        "\"configmaps\"]}]},\"validations\":[{\"expression\":\"false\",\"reason\":"
        "\"Unauthorized\"}]}}"));
    assert_ok(do_create(w, binding,
                        "{\"metadata\":{\"name\":\"b\"},\"spec\":{\"policyName\":\"p\","
                        "\"validationActions\":[\"Deny\"]}}"));
    const struct registry_request removal = world_request(w, policy);
    struct reply removed = {0};
    registry_delete(w->registry, &removal, NULL, &w->arena, world_answered, &removed);
    do_create(w, CONFIG(NULL), "{\"metadata\":{\"name\":\"a\"}}");
    assert_ok(&removed);
    assert_int_equal(w->reply.http, 401);
    assert_string_equal(w->reply.reason, "Unauthorized");
    reply_done(&removed);
    assert_ok(do_create(w, CONFIG(NULL), "{\"metadata\":{\"name\":\"a\"}}"));
}

// Parameters are looked for among all objects of a namespace, and read one after the other.
TEST_IN_WORLD(test_policy_with_many_parameters)
{
    const struct target policy = {"admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy",
                                  "", "", NULL};
    const struct target binding = {"admissionregistration.k8s.io/v1",
                                   "ValidatingAdmissionPolicyBinding", "", "", NULL};
    w->user.name = STR("somebody");
    for (int i = 0; i < 40; i++) {
        cleanup_sbuf struct sbuf json = {0};
        sbuf_addf(&json,
                  "{\"metadata\":{\"name\":\"m%d\",\"labels\":{\"use\":\"%s\"}},\"data\":{\"k\":\"",
                  i, i % 2 ? "yes" : "no");
        sbuf_add_repeat(&json, 'x', 100000);
        sbuf_addf(&json, "\",\"n\":\"%d\"}}", i);
        assert_ok(do_create(w, CONFIG(NULL), json.p));
    }
    assert_ok(do_create(
        w, policy,
        "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"paramKind\":{\"apiVersion\":\"v1\",\"kind\":"
        "\"ConfigMap\"},\"matchConstraints\":{\"resourceRules\":[{\"apiGroups\":[\"\"],"
        "\"apiVersions\":[\"v1\"],\"operations\":[\"*\"],\"resources\":[\"secrets\"]}]},"
        "\"validations\":[{\"expression\":\"params.data.n != object.metadata.name\"}]}}"));
    assert_ok(
        do_create(w, binding,
                  "{\"metadata\":{\"name\":\"b\"},\"spec\":{\"policyName\":\"p\",\"paramRef\":{"
                  "\"selector\":{\"matchLabels\":{\"use\":\"yes\"}},"
                  "\"parameterNotFoundAction\":\"Deny\"},\"validationActions\":[\"Deny\"]}}"));
    const struct target secret = {"v1", "Secret", "", "default", NULL};
    size_t used = w->arena.used_bytes;
    assert_ok(do_create(w, secret, "{\"metadata\":{\"name\":\"38\"}}")); // of one that is not used
    assert_true(w->arena.used_bytes - used < (size_t)512 * 1024);
    do_create(w, secret, "{\"metadata\":{\"name\":\"39\"}}");
    assert_int_equal(w->reply.http, 422);
}

RUN_TESTS(TEST_CASE(test_gives_identity), TEST_CASE(test_resets_what_only_the_server_sets),
          TEST_CASE(test_generates_names), TEST_CASE(test_generated_name_taken),
          TEST_CASE(test_name_taken), TEST_CASE(test_version_must_be_empty),
          TEST_CASE(test_namespace_must_exist), TEST_CASE(test_namespace_of_body_and_path),
          TEST_CASE(test_invalid_objects), TEST_CASE(test_dry_run_stores_nothing),
          TEST_CASE(test_versions_are_one_object), TEST_CASE(test_events_of_both_groups_are_one),
          TEST_CASE(test_upper_case_driver_is_warned_of),
          TEST_CASE(test_repeated_owners_are_dropped),
          TEST_CASE(test_opaque_parameters_are_stored_compact),
          TEST_CASE(test_admin_access_needs_the_label), TEST_CASE(test_lost_writes_are_told),
          TEST_CASE(test_tokens_are_not_built_yet), TEST_CASE(test_reviews_are_not_stored),
          TEST_CASE(test_bindings_are_not_stored), TEST_CASE(test_policy_that_goes),
          TEST_CASE(test_policy_with_many_parameters))
