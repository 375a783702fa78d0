// SPDX-License-Identifier: Apache-2.0
//
// dray deny: asks a running server, over its local socket, to refuse a credential from now on.
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "cmd/local.h"
#include "cmd/verb.h"
#include "os/file.h"
#include "pki/certificate.h"
#include "pki/sign.h"

#include "base/banned.h"

#define DENY_FILE_BYTES_MAX ((size_t)64 * 1024)

static struct {
    struct cli_texts words;
    const char *data_dir, *socket;
} args;

static int verb_deny(void);

static const struct cli_option deny_options[] = {
    {"--data-dir", NULL, "DIR", "ask the server with this data directory", .text = &args.data_dir},
    {"--unix", NULL, "PATH", "use this socket of the server; default DIR/dray.sock",
     .text = &args.socket},
};
static const struct cli_group deny_group = CLI_GROUP("Options", deny_options);

const struct cli_verb deny_verb = {
    .name = "deny",
    .summary = "revoke a user's certificates and tokens at once",
    .chapter = CLI_CLUSTER,
    .synopsis = "deny KIND VALUE --data-dir DIR [--unix PATH]",
    .text = "Refuses credentials from now on, although they are valid, and ends their watches and "
            "streams. KIND is user (a name, with all its credentials), certificate (a PEM file), "
            "certificate-serial, certificate-sha256, token (a file with the token, - for standard "
            "input), token-id (its claim jti) or token-sha256. Entries are lines of DIR/denied, "
            "which the server follows; remove a line to allow the credential again.",
    .examples = "dray deny user alice --data-dir /var/lib/dray\n"
                "dray deny certificate /tmp/node-7.crt --data-dir /var/lib/dray\n"
                "dray deny token - --data-dir /var/lib/dray < leaked-token",
    .groups = {&deny_group},
    .words = &args.words,
    .word = "KIND VALUE",
    .words_least = 2,
    .words_most = 2,
    .run = verb_deny,
};

static int deny_read_file(const char *path, struct sbuf *out, struct err *err)
{
    if (!str_eqz(STR("-"), path))
        return file_read(path, DENY_FILE_BYTES_MAX, out, err);
    int r = file_read_fd(STDIN_FILENO, DENY_FILE_BYTES_MAX, out);
    return r < 0 ? err_set(err, -r, "cannot read standard input") : 0;
}

// deny_make_entry replaces a file by what the list has of it: secrets stay here.
static int deny_make_entry(const char **kind, const char **value, char sum[SIGN_SHA256_BYTES],
                           struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    bool token = str_eqz(STR("token"), *kind);
    if (!token && !str_eqz(STR("certificate"), *kind))
        return 0;
    int r = deny_read_file(*value, &text, err);
    if (r == 0 && token && str_trim(sbuf_str(&text)).n == 0)
        r = err_set(err, ERR_INVALID, "there is no token in it");
    if (r == 0 && token)
        sign_sha256(str_trim(sbuf_str(&text)), sum);
    else if (r == 0)
        r = pki_certificate_fingerprint(sbuf_str(&text), sum, err);
    if (r < 0)
        return err_wrap(err, "%s", *value);
    *kind = token ? "token-sha256" : "certificate-sha256";
    *value = sum;
    return 0;
}

static int verb_deny(void)
{
    const char *kind = args.words.p[0], *value = args.words.p[1];
    char sum[SIGN_SHA256_BYTES];
    if (!args.data_dir && !args.socket)
        return cli_usage_error("deny", "--data-dir DIR is missing");
    cleanup_sbuf struct sbuf path = {0}, target = {0}, answer = {0};
    struct err err = {0};
    local_socket(&path, args.socket, args.data_dir);
    int r = deny_make_entry(&kind, &value, sum, &err);
    if (r == 0) {
        sbuf_addz(&target, "/dray/deny?kind=");
        local_escape(&target, str_z(kind));
        sbuf_addz(&target, "&value=");
        local_escape(&target, str_z(value));
        r = local_request(path.p, "POST", target.p, &answer, &err);
    }
    if (r < 0) {
        (void)fprintf(stderr, "dray deny: %s\n", err.msg);
        return VERB_NO;
    }
    printf("denied: %s %s\n", kind, value);
    return VERB_OK;
}
