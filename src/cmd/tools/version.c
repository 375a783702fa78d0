// SPDX-License-Identifier: Apache-2.0
//
// dray version: the version of the program and, where a cluster is configured, of its API server.
#include "cmd/version.h"

#include <stdio.h>

#include "cmd/common.h"
#include "codec/json.h"

#include "base/banned.h"

static struct {
    bool client;
} args;

static int verb_version(void);

static const struct cli_option version_options[] = {
    {"--client", NULL, NULL, "do not ask the server", .flag = &args.client},
};
static const struct cli_group version_group = CLI_GROUP("Options", version_options);

const struct cli_verb version_verb = {
    .name = "version",
    .summary = "print the versions of the program and the server",
    .chapter = CLI_PROGRAM,
    .synopsis = "version [--client]",
    .text = "Prints the version of the program and the commit it is built from. Where a cluster is "
            "configured, also the version of its API server, or why that does not answer.",
    .examples = "dray version\ndray version --client",
    .groups = {&version_group, &common_connect},
    .run = verb_version,
};

static int version_ask_server(struct cluster *c, struct sbuf *ret, struct err *err)
{
    cleanup_sbuf struct sbuf body = {0};
    cleanup_json_doc struct json_doc doc = {0};
    int r = cluster_open(c, err);
    if (r == 0)
        r = cluster_get(c, "/version", &body, err);
    if (r == 0)
        r = json_parse(sbuf_str(&body), NULL, &doc, err);
    if (r == 0)
        sbuf_add(ret, json_get_str(doc.root, "gitVersion"));
    return r;
}

static void version_show_server(void)
{
    struct cluster c = {0};
    struct err err = {0};
    cleanup_sbuf struct sbuf version = {0};
    int r = common_find(&c.config, &c.target, &err);
    if (r == 0 && version_ask_server(&c, &version, &err) == 0)
        printf("server %s at %.*s\n", version.p, STR_ARG(c.target.server));
    else if (r == 0)
        (void)fprintf(stderr, "server: %s\n", err.msg);
    cluster_close(&c);
}

static int verb_version(void)
{
    printf("dray " DRAY_VERSION "%s\n", DRAY_COMMIT[0] ? " (" DRAY_COMMIT ")" : "");
    (void)fflush(stdout);
    if (!args.client)
        version_show_server();
    return VERB_OK;
}
