// SPDX-License-Identifier: Apache-2.0
//
// Exec plugins: a program gets the cluster's data in its environment and prints an ExecCredential.
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/kubeconfig.h"
#include "codec/base64.h"
#include "codec/json_writer.h"
#include "codec/rfc3339.h"
#include "os/process.h"

#include "base/banned.h"

#define ANSWER_BYTES_MAX ((size_t)1024 * 1024)
#define RUN_NS_MAX       (60 * CLOCK_NS_PER_SEC)

void kubeconfig_exec_info(const struct kubeconfig_target *t, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    json_write_object_begin(&w);
    json_write_key(&w, STR("kind"));
    json_write_str(&w, STR("ExecCredential"));
    json_write_key(&w, STR("apiVersion"));
    json_write_str(&w, t->exec.api_version);
    json_write_key(&w, STR("spec"));
    json_write_object_begin(&w);
    if (t->exec.provide_cluster_info) {
        cleanup_sbuf struct sbuf ca = {0};
        base64_encode(t->ca_pem, BASE64_STD, &ca);
        const struct {
            const char *name;
            struct str value;
        } texts[] = {{"server", t->server},
                     {"tls-server-name", t->server_name},
                     {"certificate-authority-data", sbuf_str(&ca)},
                     {"proxy-url", t->proxy}};
        json_write_key(&w, STR("cluster"));
        json_write_object_begin(&w);
        for (size_t i = 0; i < array_len(texts); i++) {
            if (texts[i].value.n == 0)
                continue;
            json_write_key(&w, str_z(texts[i].name));
            json_write_str(&w, texts[i].value);
        }
        if (t->insecure) {
            json_write_key(&w, STR("insecure-skip-tls-verify"));
            json_write_bool(&w, true);
        }
        json_write_object_end(&w);
    }
    json_write_key(&w, STR("interactive"));
    json_write_bool(&w, false);
    json_write_object_end(&w);
    json_write_object_end(&w);
}

static int bad_answer(const struct kubeconfig_exec *exec, const char *what, struct err *err)
{
    return err_set(err, ERR_BAD_REQUEST, "the credential plugin %.*s: %s", STR_ARG(exec->command),
                   what);
}

static int kubeconfig_exec_field_text(const yyjson_val *status, const char *field,
                                      struct arena *arena, struct str *ret)
{
    const yyjson_val *v = json_get(status, str_z(field));
    if (!v || json_is_null(v))
        return 0;
    if (!json_is_string(v) || memchr(json_str(v).p, 0, json_str(v).n))
        return -ERR_BAD_REQUEST;
    *ret = arena_str(arena, json_str(v));
    return 0;
}

int kubeconfig_exec_answer(const struct kubeconfig_exec *exec, struct str text, struct arena *arena,
                           struct kubeconfig_credential *ret, struct err *err)
{
    *ret = (struct kubeconfig_credential){0};
    cleanup_json_doc struct json_doc doc = {0};
    if (json_parse(text, NULL, &doc, err) < 0)
        return err_wrap(err, "what the credential plugin %.*s printed is not JSON",
                        STR_ARG(exec->command));
    const yyjson_val *kind = json_get(doc.root, STR("kind"));
    const yyjson_val *version = json_get(doc.root, STR("apiVersion"));
    if (!kind || !json_is_string(kind) || !str_eqz(json_str(kind), "ExecCredential"))
        return bad_answer(exec, "its answer is not of kind ExecCredential", err);
    if (!version || !json_is_string(version) || !str_eq(json_str(version), exec->api_version))
        return bad_answer(exec, "its answer has another apiVersion than the kubeconfig asks for",
                          err);
    const yyjson_val *status = json_get(doc.root, STR("status"));
    if (!status || !json_is_object(status))
        return bad_answer(exec, "its answer has no status", err);
    struct str expires = {0};
    struct moment moment;
    if (kubeconfig_exec_field_text(status, "token", arena, &ret->token) < 0 ||
        kubeconfig_exec_field_text(status, "clientCertificateData", arena, &ret->certificate_pem) <
            0 ||
        kubeconfig_exec_field_text(status, "clientKeyData", arena, &ret->key_pem) < 0 ||
        kubeconfig_exec_field_text(status, "expirationTimestamp", arena, &expires) < 0)
        return bad_answer(exec, "a field of its status is not a text", err);
    if (expires.n && rfc3339_parse(expires, &moment, NULL) < 0)
        return bad_answer(exec, "its expirationTimestamp is not a time", err);
    ret->expires_s = expires.n ? moment.sec : 0;
    if ((ret->certificate_pem.n > 0) != (ret->key_pem.n > 0))
        return bad_answer(exec, "it gave a certificate without a key, or a key without one", err);
    if (ret->token.n == 0 && ret->certificate_pem.n == 0)
        return bad_answer(exec, "it gave neither a token nor a certificate", err);
    return 0;
}

// --- Running one ---------------------------------------------------------------------------------

struct strings VEC(const char *);

static bool kubeconfig_exec_replaces_variable(const struct kubeconfig_exec *exec, const char *line)
{
    struct str name, value;
    str_cut(str_z(line), '=', &name, &value);
    if (str_eqz(name, "KUBERNETES_EXEC_INFO"))
        return true;
    for (size_t i = 0; i < exec->env_len; i++)
        if (str_eq(exec->env[i].name, name))
            return true;
    return false;
}

static const char **make_environment(const struct kubeconfig_target *t, struct arena *a)
{
    struct strings all = {0};
    for (char **e = environ; *e; e++)
        if (!kubeconfig_exec_replaces_variable(&t->exec, *e))
            vec_push_arena(a, &all, *e);
    for (size_t i = 0; i < t->exec.env_len; i++) {
        const struct kubeconfig_env *e = &t->exec.env[i];
        struct str line = arena_strf(a, "%.*s=%.*s", STR_ARG(e->name), STR_ARG(e->value));
        vec_push_arena(a, &all, line.p);
    }
    cleanup_sbuf struct sbuf info = {0};
    sbuf_addz(&info, "KUBERNETES_EXEC_INFO=");
    kubeconfig_exec_info(t, &info);
    vec_push_arena(a, &all, arena_str(a, sbuf_str(&info)).p);
    vec_push_arena(a, &all, NULL);
    return all.p;
}

static const char **make_arguments(const struct kubeconfig_exec *exec, struct arena *a)
{
    struct strings all = {0};
    vec_push_arena(a, &all, arena_str(a, exec->command).p);
    for (size_t i = 0; i < exec->args_len; i++)
        vec_push_arena(a, &all, arena_str(a, exec->args[i]).p);
    vec_push_arena(a, &all, NULL);
    return all.p;
}

int kubeconfig_exec_run(const struct kubeconfig_target *t, struct arena *arena,
                        struct kubeconfig_credential *ret, struct err *err)
{
    struct arena cleanup_arena scratch = {0};
    cleanup_sbuf struct sbuf out = {0};
    struct err why = {0};
    const struct process p = {.argv = make_arguments(&t->exec, &scratch),
                              .env = make_environment(t, &scratch),
                              .err = PROCESS_OURS,
                              .timeout_ns = RUN_NS_MAX,
                              .output_max = ANSWER_BYTES_MAX,
                              .output_whole = true};
    int r = process_run(&p, &out, &why);
    if (r == -ERR_TIMEOUT || r == -ERR_TOO_LARGE)
        return err_set(err, -r, "the credential plugin %.*s: %s", STR_ARG(t->exec.command),
                       r == -ERR_TIMEOUT ? "no answer within a minute"
                                         : "its answer is larger than a megabyte");
    if (r < 0)
        return err_set(err, -r, "cannot run the credential plugin %.*s: %s%s%.*s",
                       STR_ARG(t->exec.command), strerrordesc_np(-r),
                       t->exec.install_hint.n ? "; " : "", STR_ARG(t->exec.install_hint));
    if (r > 0)
        return err_set(err, ERR_UNAUTHORIZED,
                       "the credential plugin %.*s failed (status %d); run it by hand to see why",
                       STR_ARG(t->exec.command), r);
    return kubeconfig_exec_answer(&t->exec, sbuf_str(&out), arena, ret, err);
}
