// SPDX-License-Identifier: Apache-2.0
//
// dray backup: asks a running server, over its local socket, to copy its database.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "cmd/local.h"
#include "cmd/verb.h"

#include "base/banned.h"

const char backup_usage[] =
    "dray backup FILE --data-dir DIR [--unix PATH]\n\n"
    "Copies the database of the server that runs on DIR, whole and while writes go on, to FILE,\n"
    "which must not exist. --unix: the server's socket, if it is not DIR/dray.sock. Restore it "
    "with\n"
    "'dray server --restore FILE' and a new data folder.";

static int backup(const char *socket_path, const char *file, struct err *err)
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
    return local_ask(socket_path, "POST", target.p, &answer, err);
}

int verb_backup(int argc, char **argv)
{
    const char *file = NULL, *folder = NULL, *socket_path = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--data-dir") == 0 && i + 1 < argc)
            folder = argv[++i];
        else if (strncmp(argv[i], "--data-dir=", 11) == 0)
            folder = argv[i] + 11;
        else if (strcmp(argv[i], "--unix") == 0 && i + 1 < argc)
            socket_path = argv[++i];
        else if (strncmp(argv[i], "--unix=", 7) == 0)
            socket_path = argv[i] + 7;
        else if (argv[i][0] == '-' || file)
            return verb_usage_error("backup", verb_no_sense);
        else
            file = argv[i];
    }
    if (!file || (!folder && !socket_path))
        return verb_usage_error("backup", "say which file, and whose data: FILE --data-dir DIR");
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s%s", socket_path ? socket_path : folder, socket_path ? "" : "/dray.sock");
    struct err err = {0};
    if (backup(path.p, file, &err) < 0) {
        (void)fprintf(stderr, "dray backup: %s\n", err.msg);
        return VERB_NO;
    }
    printf("backed up to %s\n", file);
    return VERB_OK;
}
