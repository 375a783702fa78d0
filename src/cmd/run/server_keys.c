// SPDX-License-Identifier: Apache-2.0
//
// Following the key for tokens of service accounts, and the verb that rotates it.
#include "cmd/run/server_keys.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "cmd/verb.h"
#include "pki/pki.h"

#include "base/banned.h"

#define SERVER_KEYS_LOOK_NS CLOCK_NS_PER_SEC

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

// --- dray rotate ---------------------------------------------------------------------------------

static struct {
    const char *data_dir;
    bool finish;
} args;

static int rotate_run_accounts(void);
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
static const struct cli_verb *const rotate_verbs[] = {&rotate_accounts, &rotate_serving, NULL};

const struct cli_verb rotate_verb = {
    .name = "rotate",
    .summary = "rotate keys of a server while it runs",
    .chapter = CLI_CLUSTER,
    .text = "Replaces keys in the data directory of a server on this machine.",
    .examples = "dray rotate service-account-keys --data-dir /var/lib/dray\n"
                "dray rotate service-account-keys --data-dir /var/lib/dray --finish\n"
                "dray rotate serving --data-dir /var/lib/dray",
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
