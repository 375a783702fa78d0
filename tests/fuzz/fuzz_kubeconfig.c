// SPDX-License-Identifier: Apache-2.0
//
// Kubeconfig files and what credential plugins print: every error has a text; what is accepted names a
// server, and a certificate together with its key. Files that the text names are looked for, so
// paths are taken out of it.
#include <assert.h>

#include "client/kubeconfig.h"
#include "fuzz.h"

#include "base/banned.h"

static void try_target(struct kubeconfig *k, struct str context)
{
    struct kubeconfig_target t;
    struct err err = {0};
    int r = kubeconfig_target(k, context, &t, &err);
    assert(r == 0 || (err.code == -r && err.msg[0]));
    if (r == 0) {
        assert(t.server.n > 0 && t.namespace.n > 0);
        assert((t.certificate_pem.n > 0) == (t.key_pem.n > 0));
        cleanup_sbuf struct sbuf info = {0};
        kubeconfig_exec_info(&t, &info);
        cleanup_json_doc struct json_doc doc = {0};
        r = json_parse(sbuf_str(&info), NULL, &doc, NULL);
        assert(r == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = xstrndup((const char *)data, size);
    for (size_t i = 0; i < size; i++)
        if (text[i] == '/' && i > 0 && text[i - 1] != ':' && text[i - 1] != '/')
            text[i] = '_';
    struct kubeconfig k = {0};
    struct err err = {0};
    int r = kubeconfig_add(&k, STR("/nowhere/at/all/config"), str_make(text, size), &err);
    assert(r == 0 || (err.code == -r && err.msg[0]));
    try_target(&k, (struct str){0});
    for (size_t i = 0; i < k.contexts.n && i < 16; i++)
        try_target(&k, k.contexts.p[i].name);
    kubeconfig_done(&k);

    static const struct kubeconfig_exec exec = {
        .command = STR_INIT("plugin"), .api_version = STR_INIT("client.authentication.k8s.io/v1")};
    struct arena cleanup_arena arena = {0};
    struct kubeconfig_credential c;
    r = kubeconfig_exec_answer(&exec, str_make((const char *)data, size), &arena, &c, &err);
    assert(r == 0 ? c.token.n + c.certificate_pem.n > 0 : err.msg[0] != '\0');
    free(text);
    return 0;
}
