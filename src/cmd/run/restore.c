// SPDX-License-Identifier: Apache-2.0
//
// dray restore: a data directory from a backup.
#include <stdio.h>

#include <sys/stat.h>

#include "base/err.h"
#include "cmd/run/archive.h"
#include "cmd/verb.h"

#include "base/banned.h"

static struct {
    struct cli_texts words;
    const char *data_dir;
} args;

static int verb_restore(void);

static const struct cli_option restore_options[] = {
    {"--data-dir", NULL, "DIR", "make this data directory; it must not exist, or be empty",
     .text = &args.data_dir, .required = true},
};
static const struct cli_group restore_group = CLI_GROUP("Options", restore_options);

const struct cli_verb restore_verb = {
    .name = "restore",
    .summary = "make a data directory from a backup",
    .chapter = CLI_CLUSTER,
    .synopsis = "restore FILE --data-dir DIR",
    .text = "Verifies a backup of 'dray backup' and makes a data directory of it: database, CA, "
            "keys and tokens. Then start the server with that directory. A plain database, as "
            "version 0.1 made backups, is restored without keys: the start creates new ones.",
    .examples = "dray restore /backup/monday.dray --data-dir /var/lib/dray",
    .groups = {&restore_group},
    .words = &args.words,
    .word = "FILE",
    .words_least = 1,
    .words_most = 1,
    .run = verb_restore,
};

static int verb_restore(void)
{
    struct err err = {0};
    (void)umask(077);
    if (archive_restore(args.words.p[0], args.data_dir, &err) < 0) {
        (void)fprintf(stderr, "dray restore: %s\n", err.msg);
        return VERB_NO;
    }
    printf("restored to %s\n", args.data_dir);
    return VERB_OK;
}
