// SPDX-License-Identifier: Apache-2.0
//
// Following the key for tokens of service accounts and the CA, and the verb that rotates them.
#include "cmd/run/server_keys.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "cmd/verb.h"
#include "pki/ca_rotation.h"
#include "pki/pki.h"

#include "base/banned.h"

#define SERVER_KEYS_LOOK_NS CLOCK_NS_PER_SEC
#define SERVER_CA_AGAIN_NS  (10 * CLOCK_NS_PER_SEC) // after a failure

static struct log_module log_mod = LOG_MODULE("server");

static void server_keys_look(void *arg)
{
    struct server_keys *k = arg;
    struct file_stamp now = file_take_stamp(k->path);
    if (!file_stamp_same(&now, &k->stamp)) {
        struct err err = {0};
        char *pem = NULL;
        k->stamp = now; // before reading: what changes meanwhile is seen next time
        int r = pki_read_file(k->path, &pem, &err);
        if (r == 0)
            r = server_set_account_key(k->server, str_z(pem), &err);
        if (r < 0)
            LOG_ERROR(&log_mod,
                      "the service account key changed and is of no use; the old one stays",
                      log_z("why", err.msg));
        else
            LOG_INFO(&log_mod, "reloaded the service account key");
        free(pem);
    }
    exec_timer_start(k->exec, &k->timer, SERVER_KEYS_LOOK_NS);
}

void server_keys_follow(struct server_keys *k, struct exec *exec, struct server *server,
                        const char *folder)
{
    struct sbuf path = {0};
    sbuf_addf(&path, "%s/sa.key", folder);
    *k = (struct server_keys){.exec = exec,
                              .server = server,
                              .path = sbuf_take(&path),
                              .timer = {.fn = server_keys_look, .arg = k}};
    exec_timer_start(exec, &k->timer, 0); // at once: it may have changed since it was read
}

void server_keys_stop(struct server_keys *k)
{
    if (!k->exec)
        return;
    exec_timer_stop(k->exec, &k->timer);
    free(k->path);
    *k = (struct server_keys){0};
}

// --- The CA --------------------------------------------------------------------------------------

static void server_ca_prepare(void *arg)
{
    struct server_ca *c = arg;
    c->result = c->prepare(c->arg, &c->err);
}

static void server_ca_prepared(void *arg)
{
    struct server_ca *c = arg;
    if (c->stopped)
        return;
    int r = c->result < 0 ? c->result : c->changed(c->arg, &c->err);
    if (r < 0)
        LOG_ERROR(&log_mod, "the CA changed and cannot be taken up yet; trying again",
                  log_z("why", c->err.msg));
    else
        c->stamp = c->seen;
    exec_timer_start(loop_exec(c->loop), &c->timer,
                     r < 0 ? SERVER_CA_AGAIN_NS : SERVER_KEYS_LOOK_NS);
}

static void server_ca_look(void *arg)
{
    struct server_ca *c = arg;
    c->seen = file_take_stamp(c->path); // before reading: what changes meanwhile is seen next time
    if (file_stamp_same(&c->seen, &c->stamp)) {
        exec_timer_start(loop_exec(c->loop), &c->timer, SERVER_KEYS_LOOK_NS);
        return;
    }
    c->err = (struct err){0};
    loop_work(c->loop, server_ca_prepare, server_ca_prepared, c);
}

void server_ca_follow(struct server_ca *c, struct loop *loop, const char *path)
{
    c->loop = loop;
    c->path = path;
    c->stamp = file_take_stamp(path);
    c->timer = (struct exec_timer){.fn = server_ca_look, .arg = c};
    exec_timer_start(loop_exec(loop), &c->timer, SERVER_KEYS_LOOK_NS);
}

void server_ca_stop(struct server_ca *c)
{
    if (c->loop)
        exec_timer_stop(loop_exec(c->loop), &c->timer);
    c->stopped = true;
}

// --- dray rotate ---------------------------------------------------------------------------------

static struct {
    const char *data_dir;
    bool finish;
    bool issue;
    bool force;
} args;

static int rotate_run_accounts(void);
static int rotate_run_ca(void);
static int rotate_run_serving(void);

static const struct cli_option rotate_options[] = {
    {"--data-dir", NULL, "DIR", "rotate keys of the server with this data directory",
     .text = &args.data_dir},
    {"--finish", NULL, NULL, "drop the older keys: tokens that they signed become invalid",
     .flag = &args.finish},
};
static const struct cli_group rotate_group = CLI_GROUP("Options", rotate_options);

static const struct cli_verb rotate_accounts = {
    .name = "service-account-keys",
    .summary = "make a new key for tokens of service accounts",
    .synopsis = "service-account-keys --data-dir DIR [--finish]",
    .text =
        "Makes a new key, which signs from now on; the older keys still verify, and the key set "
        "of the server lists all. A running server takes it up within a second. When all "
        "tokens have been renewed, after an hour for those of pods, --finish drops the older "
        "keys.",
    .groups = {&rotate_group},
    .run = rotate_run_accounts,
};

static const struct cli_option rotate_serving_options[] = {
    {"--data-dir", NULL, "DIR", "rotate the certificate of the server with this data directory",
     .text = &args.data_dir},
};
static const struct cli_group rotate_serving_group = CLI_GROUP("Options", rotate_serving_options);

static const struct cli_verb rotate_serving = {
    .name = "serving",
    .summary = "make a new key and certificate for the server",
    .synopsis = "serving --data-dir DIR",
    .text = "Makes a new key and a certificate of the same CA for the same names. A running server "
            "shows it to new connections within seconds; open ones continue.",
    .groups = {&rotate_serving_group},
    .run = rotate_run_serving,
};

static const struct cli_option rotate_ca_options[] = {
    {"--data-dir", NULL, "DIR", "rotate the CA of the server with this data directory",
     .text = &args.data_dir},
    {"--issue", NULL, NULL, "second step: the new CA signs, all certificates are renewed",
     .flag = &args.issue},
    {"--finish", NULL, NULL, "third step: drop the old CA; its certificates become invalid",
     .flag = &args.finish},
    {"--force", NULL, NULL, "with --finish: although certificates of the old CA are in use",
     .flag = &args.force},
};
static const struct cli_group rotate_ca_group = CLI_GROUP("Options", rotate_ca_options);

static const struct cli_verb rotate_ca = {
    .name = "ca",
    .summary = "replace the CA in three steps",
    .synopsis = "ca --data-dir DIR [--issue | --finish [--force]]",
    .text =
        "Makes a new CA that is trusted beside the old one; --issue signs with the new one, and "
        "the server, its kubeconfig and nodes get new certificates; --finish drops the old one. "
        "A running server takes up each step within seconds; joined nodes follow within a minute. "
        "Between the steps wait for them, and give other clients the CAs of DIR/pki/ca.crt: "
        "docs/guides/operating.md.",
    .examples = "dray rotate ca --data-dir /var/lib/dray\n"
                "dray rotate ca --data-dir /var/lib/dray --issue\n"
                "dray rotate ca --data-dir /var/lib/dray --finish",
    .groups = {&rotate_ca_group},
    .run = rotate_run_ca,
};
static const struct cli_verb *const rotate_verbs[] = {&rotate_accounts, &rotate_ca, &rotate_serving,
                                                      NULL};

const struct cli_verb rotate_verb = {
    .name = "rotate",
    .summary = "rotate keys of a server while it runs",
    .chapter = CLI_CLUSTER,
    .text = "Replaces keys in the data directory of a server on this machine.",
    .examples = "dray rotate service-account-keys --data-dir /var/lib/dray\n"
                "dray rotate service-account-keys --data-dir /var/lib/dray --finish\n"
                "dray rotate serving --data-dir /var/lib/dray\n"
                "dray rotate ca --data-dir /var/lib/dray",
    .subverbs = rotate_verbs,
};

static int rotate_run_accounts(void)
{
    if (!args.data_dir)
        return cli_usage_error("rotate", "--data-dir DIR is missing");
    cleanup_sbuf struct sbuf folder = {0};
    struct err err = {0};
    sbuf_addf(&folder, "%s/pki", args.data_dir);
    if (pki_rotate_account_key(folder.p, args.finish, &err) < 0) {
        (void)fprintf(stderr, "dray rotate: %s\n", err.msg);
        return VERB_NO;
    }
    printf("%s\n",
           args.finish ? "dropped the older keys" : "made a new key; the older ones verify");
    return VERB_OK;
}

static int rotate_run_serving(void)
{
    if (!args.data_dir)
        return cli_usage_error("rotate", "--data-dir DIR is missing");
    cleanup_sbuf struct sbuf folder = {0};
    struct err err = {0};
    sbuf_addf(&folder, "%s/pki", args.data_dir);
    int64_t now = clock_wall_ns(clock_system()) / CLOCK_NS_PER_SEC;
    if (pki_rotate_serving(folder.p, now, &err) < 0) {
        (void)fprintf(stderr, "dray rotate: %s\n", err.msg);
        return VERB_NO;
    }
    printf("made a new certificate for the server\n");
    return VERB_OK;
}

static int rotate_run_ca(void)
{
    if (!args.data_dir)
        return cli_usage_error("rotate", "--data-dir DIR is missing");
    if (args.issue && args.finish)
        return cli_usage_error("rotate", "--issue and --finish are two steps: give one of them");
    if (args.force && !args.finish)
        return cli_usage_error("rotate", "--force belongs to --finish");
    cleanup_sbuf struct sbuf folder = {0};
    struct err err = {0};
    sbuf_addf(&folder, "%s/pki", args.data_dir);
    int64_t now = clock_wall_ns(clock_system()) / CLOCK_NS_PER_SEC;
    int r = args.issue    ? ca_rotation_issue(folder.p, &err)
            : args.finish ? ca_rotation_finish(folder.p, args.force, &err)
                          : ca_rotation_begin(folder.p, now, &err);
    if (r < 0) {
        (void)fprintf(stderr, "dray rotate: %s\n", err.msg);
        return VERB_NO;
    }
    printf("%s\n", args.issue    ? "the new CA signs; the old one is still trusted"
                   : args.finish ? "dropped the old CA"
                                 : "made a new CA; both are trusted, the old one signs");
    return VERB_OK;
}
