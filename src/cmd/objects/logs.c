// SPDX-License-Identifier: Apache-2.0
//
// dray logs: what a container has written.
#include <stdio.h>

#include "cmd/common.h"
#include "cmd/engine/cli.h"
#include "cmd/objects/follow.h"
#include "cmd/objects/podref.h"

#include "base/banned.h"

static struct {
    struct cli_texts words;
    const char *container;
    bool follow, previous, timestamps;
    int64_t tail, since_ns;
} args = {.tail = -1};

static int verb_logs(void);

static const struct cli_option logs_options[] = {
    {"--follow", "-f", NULL, "continue with new lines until Ctrl-C", .flag = &args.follow},
    {"--container", "-c", "NAME", "show this container; default: the pod's first",
     .text = &args.container},
    {"--previous", "-p", NULL, "show the container before its last restart",
     .flag = &args.previous},
    {"--tail", NULL, "LINES", "show the last lines; default -1: all", .number = &args.tail,
     .least = -1, .most = CLI_MOST},
    {"--since", NULL, "TIME", "show lines that are not older: 10s, 5m, 1h",
     .duration_ns = &args.since_ns},
    {"--timestamps", NULL, NULL, "show when each line was written", .flag = &args.timestamps},
};
static const struct cli_group logs_group = CLI_GROUP("Options", logs_options);

const struct cli_verb logs_verb = {
    .name = "logs",
    .summary = "show the output of a container",
    .chapter = CLI_OBJECTS,
    .everyday = true,
    .synopsis = "logs POD|KIND/NAME [CONTAINER] [OPTIONS]",
    .text = "Prints the output of a container of a pod. KIND/NAME selects the first pod of a "
            "deployment, a job, and so on.",
    .examples = "dray logs trainer\n"
                "dray logs -f deployment/web -c main --tail 20\n"
                "dray logs trainer --previous",
    .groups = {&logs_group, &common_cluster},
    .words = &args.words,
    .word_names = "pods",
    .kubectl = "-l --selector --all-containers --prefix --max-log-requests --all-pods",
    .run = verb_logs,
};

static void logs_add_number(struct sbuf *query, const char *name, int64_t n)
{
    cleanup_sbuf struct sbuf text = {0};
    sbuf_add_i64(&text, n);
    follow_add_query(query, name, sbuf_str(&text));
}

static void logs_add_query(struct sbuf *query, struct str container)
{
    follow_add_query(query, "container", container);
    if (args.follow)
        follow_add_query(query, "follow", STR("true"));
    if (args.previous)
        follow_add_query(query, "previous", STR("true"));
    if (args.timestamps)
        follow_add_query(query, "timestamps", STR("true"));
    if (args.tail >= 0)
        logs_add_number(query, "tailLines", args.tail);
    if (args.since_ns > 0)
        logs_add_number(query, "sinceSeconds",
                        (args.since_ns + CLOCK_NS_PER_SEC - 1) / CLOCK_NS_PER_SEC);
}

static int logs_on_bytes(void *arg, struct str bytes, struct err *err)
{
    (void)arg;
    return common_print(bytes, err);
}

static int logs_run_verb(struct cluster *c, struct err *err)
{
    cleanup_json_doc struct json_doc pod = {0};
    cleanup_sbuf struct sbuf target = {0}, query = {0};
    struct str container = {0};
    if (args.words.n == 0 || args.words.n > 2)
        return err_set(err, ERR_INVALID, "of which pod?");
    if (args.words.n == 2 && !args.container)
        args.container = args.words.p[1];
    int r = common_open(c, err);
    if (r == 0)
        r = podref_find(c, args.words.p[0], &pod, err);
    if (r == 0)
        r = podref_container(pod.root, args.container, &container, err);
    if (r < 0)
        return r;
    podref_add_path(&target, pod.root, "log");
    logs_add_query(&query, container);
    sbuf_add(&target, sbuf_str(&query));
    const struct client_raw_request q = {
        .method = "GET", .target = sbuf_str(&target), .accept = STR("*/*")};
    return cluster_stream(c, q, 0, logs_on_bytes, NULL, err);
}

static int verb_logs(void)
{
    struct cluster c = {0};
    struct err err = {0};
    int r = VERB_OK;
    if (logs_run_verb(&c, &err) < 0)
        r = err.code == ERR_INVALID ? cli_usage_error("logs", err.msg) : common_fail("logs", &err);
    cluster_close(&c);
    return r;
}
