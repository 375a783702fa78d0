// SPDX-License-Identifier: Apache-2.0
//
// The data directory: for its owner alone; missing keys are noticed by the list of those that were
// there.
#include "cmd/run/data_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "codec/rfc3339.h"
#include "os/file.h"

#include "base/banned.h"

static struct log_module log_mod = LOG_MODULE("data");

// Keys that sign: without them what they signed is worth nothing.
static const char *const data_dir_keys[] = {"ca.crt", "ca.key", "sa.key"};

// Certificates that are made again without harm.
static const char *const data_dir_leaves[] = {"server.crt",         "server.key",
                                              "admin.crt",          "admin.key",
                                              "kubelet-client.crt", "kubelet-client.key"};

#define DATA_DIR_MARK_BYTES_MAX ((size_t)4096)

char *data_dir_path(const char *dir, const char *name)
{
    struct sbuf b = {0};
    sbuf_addf(&b, "%s/%s", dir, name);
    return sbuf_take(&b);
}

int data_dir_prepare(const char *dir, struct err *err)
{
    struct stat st;
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return err_set(err, errno, "cannot make the data directory %s: %m", dir);
    if (stat(dir, &st) < 0)
        return err_set(err, errno, "cannot look at %s: %m", dir);
    if (!S_ISDIR(st.st_mode))
        return err_set(err, ENOTDIR, "%s is not a directory: choose another --data-dir", dir);
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return err_set(
            err, EPERM,
            "%s belongs to user %u, who could put other keys there: run as that user, or "
            "choose another --data-dir",
            dir, (unsigned)st.st_uid);
    if (st.st_mode & 022)
        return err_set(err, EPERM,
                       "others may write to %s, where keys are kept: run 'chmod 700 %s'", dir, dir);
    file_remove_temporaries(dir, STR(""));
    return 0;
}

// --- Keys ----------------------------------------------------------------------------------------

static bool data_dir_has_key(const char *dir, const char *name)
{
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s/pki/%s", dir, name);
    return access(path.p, F_OK) == 0;
}

int data_dir_note_keys(const char *dir, struct err *err)
{
    cleanup_sbuf struct sbuf text = {0}, path = {0};
    for (size_t i = 0; i < array_len(data_dir_keys); i++)
        if (data_dir_has_key(dir, data_dir_keys[i]))
            sbuf_addf(&text, "%s\n", data_dir_keys[i]);
    sbuf_addf(&path, "%s/pki.mark", dir);
    cleanup_sbuf struct sbuf before = {0};
    struct err ignored;
    if (file_read(path.p, DATA_DIR_MARK_BYTES_MAX, &before, &ignored) == 0 &&
        str_eq(sbuf_str(&before), sbuf_str(&text)))
        return 0;
    return file_replace_durable(AT_FDCWD, path.p, sbuf_str(&text), 0600, err);
}

static bool data_dir_lists(struct str list, const char *name)
{
    cleanup_sbuf struct sbuf line = {0};
    sbuf_addf(&line, "%s\n", name);
    return str_find(list, sbuf_str(&line)) >= 0;
}

int data_dir_check_keys(const char *dir, bool salvage, struct err *err)
{
    cleanup_sbuf struct sbuf list = {0}, path = {0};
    sbuf_addf(&path, "%s/pki.mark", dir);
    int r = file_read(path.p, DATA_DIR_MARK_BYTES_MAX, &list, err);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    for (size_t i = 0; i < array_len(data_dir_keys); i++) {
        const char *name = data_dir_keys[i];
        if (!data_dir_lists(sbuf_str(&list), name) || data_dir_has_key(dir, name))
            continue;
        if (!salvage)
            return err_set(err, ENOENT,
                           "%s/pki/%s is missing: a new one would invalidate every certificate or "
                           "token; restore it from a backup, or start with --salvage to create it",
                           dir, name);
        cleanup_sbuf struct sbuf finding = {0};
        sbuf_addf(&finding,
                  "pki/%s was missing and is created again; what it signed is invalid now", name);
        data_dir_note_salvage((void *)(uintptr_t)dir, finding.p);
    }
    for (size_t i = 0; i < array_len(data_dir_leaves); i++)
        if (data_dir_lists(sbuf_str(&list), "ca.key") && !data_dir_has_key(dir, data_dir_leaves[i]))
            LOG_WARN(&log_mod, "a certificate or key is missing and is created again",
                     log_z("file", data_dir_leaves[i]));
    return 0;
}

void data_dir_note_salvage(void *dir, const char *finding)
{
    cleanup_sbuf struct sbuf path = {0}, line = {0};
    struct err err = {0};
    LOG_WARN(&log_mod, "salvage", log_z("finding", finding));
    sbuf_addf(&path, "%s/salvage.log", (const char *)dir);
    rfc3339_write_seconds(moment_from_ns(clock_wall_ns(clock_system())), &line);
    sbuf_addf(&line, " %s\n", finding);
    if (file_append(path.p, sbuf_str(&line), &err) < 0)
        LOG_WARN(&log_mod, "cannot write salvage.log", log_z("reason", err.msg));
}
