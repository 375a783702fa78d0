// SPDX-License-Identifier: Apache-2.0
//
// Which kind a word means, paths and names of kinds, and what a server says at the end of a command.
#include "client/discovery.h"
#include "client/remote_exec.h"
#include "unit.h"

#include "base/banned.h"

static const char core[] =
    "{\"kind\":\"APIGroupDiscoveryList\",\"items\":[{\"versions\":[{\"version\":\"v1\","
    "\"resources\":["
    "{\"resource\":\"pods\",\"responseKind\":{\"kind\":\"Pod\"},\"scope\":\"Namespaced\","
    "\"singularResource\":\"pod\",\"shortNames\":[\"po\"],\"categories\":[\"all\"],"
    "\"verbs\":[\"get\",\"list\"]},"
    "{\"resource\":\"events\",\"responseKind\":{\"kind\":\"Event\"},\"scope\":\"Namespaced\","
    "\"singularResource\":\"event\",\"shortNames\":[\"ev\"],\"verbs\":[\"list\"]},"
    "{\"resource\":\"nodes\",\"responseKind\":{\"kind\":\"Node\"},\"scope\":\"Cluster\","
    "\"singularResource\":\"node\"}]}]}]}";
static const char groups[] =
    "{\"items\":[{\"metadata\":{\"name\":\"apps\"},\"versions\":[{\"version\":\"v1\",\"resources\":"
    "["
    "{\"resource\":\"deployments\",\"responseKind\":{\"kind\":\"Deployment\"},\"scope\":"
    "\"Namespaced\",\"singularResource\":\"deployment\",\"shortNames\":[\"deploy\"],"
    "\"categories\":[\"all\"],\"verbs\":[\"list\"]}]},"
    "{\"version\":\"v1beta1\",\"resources\":[{\"resource\":\"deployments\",\"responseKind\":{"
    "\"kind\":\"Deployment\"},\"scope\":\"Namespaced\",\"singularResource\":\"deployment\","
    "\"categories\":[\"all\"],\"verbs\":[\"list\"]}]}]},"
    "{\"metadata\":{\"name\":\"events.k8s.io\"},\"versions\":[{\"version\":\"v1\",\"resources\":["
    "{\"resource\":\"events\",\"responseKind\":{\"kind\":\"Event\"},\"scope\":\"Namespaced\","
    "\"singularResource\":\"event\"}]}]}]}";

static void read_all(struct discovery *d)
{
    assert_int_equal(discovery_read(d, str_z(core), NULL), 0);
    assert_int_equal(discovery_read(d, str_z(groups), NULL), 0);
    assert_int_equal(d->kinds.n, 6);
}

static void words_mean_kinds(void **state)
{
    static const struct {
        const char *word, *path;
    } rows[] = {{"pods", "/api/v1/namespaces/n/pods/x"},
                {"pod", "/api/v1/namespaces/n/pods/x"},
                {"PO", "/api/v1/namespaces/n/pods/x"},
                {"Pod", "/api/v1/namespaces/n/pods/x"},
                {"pods.v1.", "/api/v1/namespaces/n/pods/x"},
                {"node", "/api/v1/nodes/x"},
                {"deploy", "/apis/apps/v1/namespaces/n/deployments/x"},
                {"deployments.apps", "/apis/apps/v1/namespaces/n/deployments/x"},
                {"deployments.v1beta1.apps", "/apis/apps/v1beta1/namespaces/n/deployments/x"},
                {"events", "/api/v1/namespaces/n/events/x"},
                {"events.events.k8s.io", "/apis/events.k8s.io/v1/namespaces/n/events/x"},
                {"frob", NULL},
                {"pods.apps", NULL},
                {"", NULL}};
    struct discovery d = {0};
    cleanup_arena struct arena arena = {0};
    (void)state;
    read_all(&d);
    for (size_t i = 0; i < array_len(rows); i++) {
        struct discovery_kinds found = {0};
        cleanup_sbuf struct sbuf path = {0};
        int r = discovery_find(&d, str_z(rows[i].word), &arena, &found, NULL);
        assert_int_equal(r, rows[i].path ? 0 : -ERR_NOT_FOUND);
        if (!rows[i].path)
            continue;
        assert_int_equal(found.n, 1);
        discovery_add_path(&path, found.p[0], STR("n"), STR("x"));
        assert_str(sbuf_str(&path), rows[i].path);
    }
    discovery_done(&d);
}

static void a_category_is_several(void **state)
{
    struct discovery d = {0};
    struct discovery_kinds all = {0};
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf name = {0};
    (void)state;
    read_all(&d);
    assert_int_equal(discovery_find(&d, STR("all"), &arena, &all, NULL), 0);
    assert_int_equal(all.n, 2); // of a kind with two versions the preferred one
    discovery_add_name(&name, all.p[1], true);
    assert_str(sbuf_str(&name), "deployment.apps");
    assert_ptr_equal(discovery_of(&d, STR("apps/v1"), STR("Deployment")), all.p[1]);
    assert_null(discovery_of(&d, STR("v2"), STR("Pod")));
    assert_true(discovery_can(all.p[0], "get"));
    assert_false(discovery_can(all.p[0], "delete"));
    assert_int_equal(discovery_read(&d, STR("{}"), NULL), -ERR_BAD_REQUEST);
    assert_int_equal(discovery_read(&d, STR("{\"items\":[7,{\"versions\":[{}]}]}"), NULL), 0);
    discovery_done(&d);
}

static void how_a_command_ended(void **state)
{
    static const struct {
        const char *text;
        int code, exit_status;
        const char *message;
    } rows[] = {
        {"{\"status\":\"Success\"}", 0, 0, ""},
        {"{\"status\":\"Failure\",\"reason\":\"NonZeroExitCode\",\"details\":{\"causes\":[{"
         "\"reason\":"
         "\"ExitCode\",\"message\":\"7\"}]}}",
         0, 7, ""},
        {"{\"status\":\"Failure\",\"message\":\"no such file\"}", -ERR_INTERNAL, 0, "no such file"},
        {"{\"status\":\"Failure\",\"details\":{\"causes\":[{\"reason\":\"ExitCode\",\"message\":"
         "\"999\"}]}}",
         -ERR_INTERNAL, 0, "the command failed"},
        {"plain words", -ERR_INTERNAL, 0, "plain words"},
    };
    (void)state;
    for (size_t i = 0; i < array_len(rows); i++) {
        struct err err = {0};
        int exit_status = 0;
        assert_int_equal(remote_exec_status(str_z(rows[i].text), &exit_status, &err), rows[i].code);
        assert_int_equal(exit_status, rows[i].exit_status);
        assert_string_equal(err.msg, rows[i].message);
    }
}

RUN_TESTS(TEST_CASE(words_mean_kinds), TEST_CASE(a_category_is_several),
          TEST_CASE(how_a_command_ended))
