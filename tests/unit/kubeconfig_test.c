// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>

#include "client/kubeconfig.h"
#include "codec/base64.h"
#include "unit.h"

#include "base/banned.h"

#define PEM(what) "-----BEGIN " what "-----\nAAAA\n-----END " what "-----\n"
#define CA_DATA   "LS0tLS1CRUdJTiBYLS0tLS0KQUFBQQotLS0tLUVORCBYLS0tLS0K"

static const char plain[] = "apiVersion: v1\n"
                            "kind: Config\n"
                            "clusters:\n"
                            "- name: c\n"
                            "  cluster:\n"
                            "    server: https://10.0.0.1:6443\n"
                            "    certificate-authority-data: " CA_DATA "\n"
                            "    tls-server-name: kubernetes\n"
                            "    proxy-url: http://proxy:3128\n"
                            "users:\n"
                            "- name: u\n"
                            "  user: {token: secret}\n"
                            "contexts:\n"
                            "- {name: x, context: {cluster: c, user: u, namespace: team}}\n"
                            "- {name: other, context: {cluster: c}}\n"
                            "current-context: x\n";

static void add(struct kubeconfig *k, const char *file, const char *text)
{
    struct err err = {0};
    if (kubeconfig_add(k, str_z(file), str_z(text), &err) < 0)
        fail_msg("%s", err.msg);
}

static void a_context_names_server_and_user(void **state)
{
    (void)state;
    struct kubeconfig k = {0};
    struct kubeconfig_target t;
    struct err err = {0};
    add(&k, "f", plain);
    assert_int_equal(kubeconfig_target(&k, STR(""), &t, &err), 0);
    assert_str(t.server, "https://10.0.0.1:6443");
    assert_str(t.server_name, "kubernetes");
    assert_str(t.proxy, "http://proxy:3128");
    assert_str(t.token, "secret");
    assert_str(t.namespace, "team");
    assert_true(str_starts(t.ca_pem, STR("-----BEGIN X")));
    assert_int_equal(kubeconfig_target(&k, STR("other"), &t, &err), 0);
    assert_int_equal(t.token.n, 0);
    assert_str(t.namespace, "default");
    assert_int_equal(kubeconfig_target(&k, STR("z"), &t, &err), -ERR_NOT_FOUND);
    assert_string_equal(err.msg, "the kubeconfig has no context 'z'; it has x");
    kubeconfig_done(&k);
}

static void the_first_file_wins(void **state)
{
    (void)state;
    struct kubeconfig k = {0};
    struct kubeconfig_target t;
    struct err err = {0};
    add(&k, "first", "clusters: [{name: c, cluster: {server: one}}]\ncurrent-context: other\n");
    add(&k, "second", plain);
    add(&k, "third", "");
    assert_int_equal(kubeconfig_target(&k, STR(""), &t, &err), 0);
    assert_str(t.server, "https://one");
    kubeconfig_done(&k);
}

static void errors_say_where_and_what_to_do(void **state)
{
    (void)state;
    static const struct {
        const char *user, *error;
    } rows[] = {
        {"{username: joe, password: x}", "f: users[u].user.username: Kubernetes knows no passwords "
                                         "any more; use a token or a client "
                                         "certificate"},
        {"{auth-provider: {name: gcp}}",
         "f: users[u].user.auth-provider: kubectl has dropped these; use exec with the provider's "
         "plugin"},
        {"{token: 5}", "f: users[u].user.token: a text is wanted here; put it in quotes"},
        {"{client-certificate-data: " CA_DATA "}",
         "f: users[u].user.client-key: a client certificate and its key come together; this one is "
         "missing"},
        {"{client-key-data: '***'}", "f: users[u].user.client-key-data: this is not base64"},
        {"{client-key-data: AAAA}",
         "f: users[u].user.client-key-data: this is not PEM (-----BEGIN …)"},
        {"{client-key: /nowhere/key}",
         "f: users[u].user.client-key: cannot read /nowhere/key: No such file or directory"},
        {"{exec: {command: x}}",
         "f: users[u].user.exec.apiVersion: use client.authentication.k8s.io/v1 (or v1beta1)"},
        {"{exec: {apiVersion: client.authentication.k8s.io/v1}}",
         "f: users[u].user.exec.command: the program's name is missing"},
        {"{exec: {apiVersion: client.authentication.k8s.io/v1, command: x, args: [1]}}",
         "f: users[u].user.exec.args: a list of texts is wanted here"},
    };
    for (size_t i = 0; i < array_len(rows); i++) {
        struct kubeconfig k = {0};
        struct kubeconfig_target t;
        struct err err = {0};
        struct sbuf text = {0};
        sbuf_addf(&text, "users: [{name: u, user: %s}]\n", rows[i].user);
        sbuf_addz(&text, "clusters: [{name: c, cluster: {server: s}}]\n"
                         "contexts: [{name: x, context: {cluster: c, user: u}}]\n"
                         "current-context: x\n");
        add(&k, "f", text.p);
        assert_true(kubeconfig_target(&k, STR(""), &t, &err) < 0);
        assert_string_equal(err.msg, rows[i].error);
        sbuf_done(&text);
        kubeconfig_done(&k);
    }
    struct kubeconfig k = {0};
    struct err err = {0};
    assert_true(kubeconfig_add(&k, STR("f"), STR("a: [\n"), &err) < 0);
    assert_true(str_starts(str_z(err.msg), STR("f: ")) && err.line > 0);
    assert_true(kubeconfig_add(&k, STR("f"), STR("kind: Pod\n"), &err) < 0);
    assert_true(kubeconfig_add(&k, STR("f"), STR("clusters: 5\n"), &err) < 0);
    assert_true(kubeconfig_add(&k, STR("f"), STR("clusters: [{cluster: {}}]\n"), &err) < 0);
    assert_string_equal(err.msg, "f: clusters[0].name: a name is missing here");
    kubeconfig_done(&k);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

// NOLINTBEGIN(concurrency-mt-unsafe): one thread
static void files_are_found_beside_the_kubeconfig(void **state)
{
    (void)state;
    char folder[] = "/tmp/dray-kubeconfig-XXXXXX";
    assert_non_null(mkdtemp(folder));
    struct arena a = {0};
    write_file(arena_strf(&a, "%s/ca.crt", folder).p, PEM("CERTIFICATE"));
    struct str path = arena_strf(&a, "%s/config", folder);
    write_file(path.p,
               "clusters: [{name: c, cluster: {server: s, certificate-authority: ca.crt}}]\n"
               "users: [{name: u, user: {tokenFile: token}}]\n"
               "contexts: [{name: x, context: {cluster: c, user: u}}]\n"
               "current-context: x\n");
    struct kubeconfig k = {0};
    struct kubeconfig_target t;
    struct err err = {0};
    assert_int_equal(setenv("KUBECONFIG", arena_strf(&a, "/nowhere:%s", path.p).p, 1), 0);
    assert_int_equal(kubeconfig_find(&k, NULL, NULL, &t, &err), 0);
    assert_str(t.ca_pem, PEM("CERTIFICATE"));
    assert_str(t.token_file, arena_strf(&a, "%s/token", folder).p);
    assert_str(t.file, path.p);
    kubeconfig_done(&k);
    // What the variable names has to be there; only without it other places count.
    assert_int_equal(setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1", 1), 0);
    assert_int_equal(setenv("KUBERNETES_SERVICE_PORT", "443", 1), 0);
    struct str empty = arena_strf(&a, "%s/empty", folder),
               broken = arena_strf(&a, "%s/broken", folder);
    write_file(empty.p, "");
    write_file(broken.p, "clusters: [\n");
    const struct {
        struct str list;
        int code;
        const char *says;
    } rows[] = {
        {STR("/nowhere"), -ENOENT, "no file that KUBECONFIG names exists: '/nowhere'"},
        {STR("/nowhere:/neither"), -ENOENT, "'/nowhere:/neither'"},
        {STR(":"), -ENOENT, "no file that KUBECONFIG names exists: ':'"},
        {empty, -ERR_INVALID, empty.p},
        {arena_strf(&a, "/nowhere:%s", empty.p), -ERR_INVALID, "holds no cluster and no context"},
        {broken, -ERR_BAD_REQUEST, broken.p},
        {arena_strf(&a, "%s:%s", path.p, broken.p), -ERR_BAD_REQUEST, broken.p},
    };
    for (size_t i = 0; i < array_len(rows); i++) {
        k = (struct kubeconfig){0};
        assert_int_equal(setenv("KUBECONFIG", rows[i].list.p, 1), 0);
        assert_int_equal(kubeconfig_find(&k, NULL, NULL, &t, &err), rows[i].code);
        char text[DRAY_ERR_MSG_MAX + DRAY_ERR_PATH_MAX];
        err_text(&err, text, sizeof(text));
        assert_non_null(strstr(text, rows[i].says));
        kubeconfig_done(&k);
    }
    // Set and empty is not set, as for kubectl.
    assert_int_equal(setenv("KUBECONFIG", "", 1), 0);
    assert_int_equal(setenv("HOME", "/nowhere", 1), 0);
    assert_int_equal(unsetenv("KUBERNETES_SERVICE_HOST"), 0);
    assert_null(kubeconfig_env());
    k = (struct kubeconfig){0};
    assert_int_equal(kubeconfig_find(&k, NULL, NULL, &t, &err), -ERR_NOT_FOUND);
    assert_int_equal(setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1), 0);
    assert_int_equal(setenv("KUBERNETES_SERVICE_PORT", "443", 1), 0);
    assert_int_equal(kubeconfig_in_cluster(&k, folder, &t, &err), 0);
    assert_str(t.server, "https://[fd00::1]:443");
    kubeconfig_done(&k);
    assert_int_equal(unlink(path.p), 0);
    assert_int_equal(unlink(empty.p), 0);
    assert_int_equal(unlink(broken.p), 0);
    assert_int_equal(unlink(arena_strf(&a, "%s/ca.crt", folder).p), 0);
    assert_int_equal(rmdir(folder), 0);
    arena_done(&a);
}

// NOLINTEND(concurrency-mt-unsafe)

static void plugins_are_run_and_understood(void **state)
{
    (void)state;
    static const struct str args[] = {
        STR_INIT("-c"),
        STR_INIT("printf '%s' \"$KUBERNETES_EXEC_INFO\" | grep -q '\"server\":\"https://s\"' && "
                 "printf '%s' \"$ANSWER\""),
    };
    static const struct kubeconfig_env env[] = {
        {STR_INIT("ANSWER"),
         STR_INIT(
             "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\","
             "\"status\":{\"token\":\"t\",\"expirationTimestamp\":\"2030-01-01T00:00:00Z\"}}")}};
    struct kubeconfig_target t = {.server = STR("https://s"),
                                  .exec = {.command = STR("sh"),
                                           .api_version = STR("client.authentication.k8s.io/v1"),
                                           .args = args,
                                           .args_len = array_len(args),
                                           .env = env,
                                           .env_len = 1,
                                           .provide_cluster_info = true}};
    struct arena a = {0};
    struct kubeconfig_credential c;
    struct err err = {0};
    if (kubeconfig_exec_run(&t, &a, &c, &err) < 0)
        fail_msg("%s", err.msg);
    assert_str(c.token, "t");
    assert_int_equal(c.expires_s, 1893456000);
    t.exec.provide_cluster_info = false;
    assert_int_equal(kubeconfig_exec_run(&t, &a, &c, &err), -ERR_UNAUTHORIZED);
    t.exec.command = STR("/nowhere/plugin");
    t.exec.install_hint = STR("apt install it");
    assert_int_equal(kubeconfig_exec_run(&t, &a, &c, &err), -ENOENT);
    assert_non_null(strstr(err.msg, "apt install it"));
    static const char *const bad[] = {
        "",
        "[]",
        "{\"kind\":\"ExecCredential\"}",
        "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/"
        "v1\",\"status\":"
        "{}}",
        "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/"
        "v1\",\"status\":"
        "{\"clientKeyData\":\"k\"}}",
        "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/"
        "v1\",\"status\":"
        "{\"token\":\"t\",\"expirationTimestamp\":\"soon\"}}",
    };
    for (size_t i = 0; i < array_len(bad); i++)
        assert_true(kubeconfig_exec_answer(&t.exec, str_z(bad[i]), &a, &c, &err) < 0);
    arena_done(&a);
}

RUN_TESTS(TEST_CASE(a_context_names_server_and_user), TEST_CASE(the_first_file_wins),
          TEST_CASE(errors_say_where_and_what_to_do),
          TEST_CASE(files_are_found_beside_the_kubeconfig),
          TEST_CASE(plugins_are_run_and_understood))
