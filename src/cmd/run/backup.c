// SPDX-License-Identifier: Apache-2.0
//
// dray backup: asks a running server, over its local socket, to copy its database, and adds the
// keys and tokens of its data directory.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "cmd/local.h"
#include "cmd/run/archive.h"
#include "cmd/verb.h"

#include "base/banned.h"

static struct {
    struct cli_texts words;
    const char *data_dir, *socket;
} args;

static int verb_backup(void);

static const struct cli_option backup_options[] = {
    {"--data-dir", NULL, "DIR", "back up the server with this data directory",
     .text = &args.data_dir},
    {"--unix", NULL, "PATH", "use this socket of the server; default DIR/dray.sock",
     .text = &args.socket},
};
static const struct cli_group backup_group = CLI_GROUP("Options", backup_options);

const struct cli_verb backup_verb = {
    .name = "backup",
    .summary = "back up a running server",
    .chapter = CLI_CLUSTER,
    .synopsis = "backup FILE --data-dir DIR [--unix PATH]",
    .text = "Copies database, CA, keys and tokens of a running server, while writes go on, to "
            "FILE, which must not exist. Restore it with 'dray restore FILE --data-dir DIR'. FILE "
            "holds everything that is secret in the cluster. With --unix alone FILE is the plain "
            "database.",
    .examples = "dray backup /backup/monday.dray --data-dir /var/lib/dray",
    .groups = {&backup_group},
    .words = &args.words,
    .word = "FILE",
    .words_least = 1,
    .words_most = 1,
    .run = verb_backup,
};

static int backup_copy_database(const char *socket_path, const char *file, struct err *err)
{
    cleanup_sbuf struct sbuf absolute = {0}, answer = {0};
    char folder[PATH_MAX];
    if (file[0] != '/') {
        if (!getcwd(folder, sizeof(folder)))
            return err_set(err, errno, "the current folder has gone");
        sbuf_addf(&absolute, "%s/", folder);
    }
    sbuf_addz(&absolute, file);
    cleanup_sbuf struct sbuf target = {0};
    sbuf_addz(&target, "/dray/backup?path=");
    local_escape(&target, str_z(absolute.p));
    return local_request(socket_path, "POST", target.p, &answer, err);
}

// backup_write_file has the database copied beside file and puts it into file with the rest.
static int backup_write_file(const char *socket_path, const char *dir, const char *file,
                             struct err *err)
{
    if (!dir)
        return backup_copy_database(socket_path, file, err);
    if (access(file, F_OK) == 0)
        return err_set(err, EEXIST, "%s exists already; choose another name", file);
    cleanup_sbuf struct sbuf database = {0};
    sbuf_addf(&database, "%s.database", file);
    (void)unlink(database.p); // left by a backup that was killed
    int r = backup_copy_database(socket_path, database.p, err);
    if (r == 0)
        r = archive_write(file, database.p, dir, err);
    (void)unlink(database.p);
    return r;
}

static int verb_backup(void)
{
    const char *file = args.words.p[0];
    if (!args.data_dir && !args.socket)
        return cli_usage_error("backup", "--data-dir DIR is missing");
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s%s", args.socket ? args.socket : args.data_dir,
              args.socket ? "" : "/dray.sock");
    struct err err = {0};
    if (backup_write_file(path.p, args.data_dir, file, &err) < 0) {
        (void)fprintf(stderr, "dray backup: %s\n", err.msg);
        return VERB_NO;
    }
    printf("backed up to %s\n", file);
    return VERB_OK;
}
