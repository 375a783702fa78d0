// SPDX-License-Identifier: Apache-2.0
//
// dray backup: asks a running server, over its local socket, to copy its database.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/un.h>

#include "base/err.h"
#include "base/str.h"
#include "cmd/verb.h"
#include "codec/json.h"

#include "base/banned.h"

const char backup_usage[] =
    "dray backup FILE --data-dir DIR [--unix PATH]\n\n"
    "Copies the database of the server that runs on DIR, whole and while writes go on, to FILE,\n"
    "which must not exist. --unix: the server's socket, if it is not DIR/dray.sock. Restore it "
    "with\n"
    "'dray server --restore FILE' and a new data folder.";

static int connect_to(const char *path, struct err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if (n >= sizeof(address.sun_path))
        return err_set(err, ENAMETOOLONG, "the path of the socket %s is too long", path);
    memcpy(address.sun_path, path, n);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_set(err, errno, "no socket: %m");
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
        int r = err_set(err, errno, "cannot reach a server at %s: %m; does it run on this folder?",
                        path);
        (void)close(fd);
        return r;
    }
    return fd;
}

static void add_escaped(struct sbuf *out, const char *s)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '/' || c == '.' || c == '-' || c == '_';
        if (plain)
            sbuf_addc(out, (char)c);
        else
            sbuf_addf(out, "%%%02X", (unsigned)c);
    }
}

static int ask(int fd, const char *file, struct sbuf *answer, struct err *err)
{
    cleanup_sbuf struct sbuf request = {0};
    sbuf_addz(&request, "POST /dray/backup?path=");
    add_escaped(&request, file);
    sbuf_addz(&request, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                        "Content-Length: 0\r\n\r\n");
    for (size_t at = 0; at < request.n;) {
        ssize_t n = write(fd, request.p + at, request.n - at);
        if (n < 0)
            return err_set(err, errno, "the server hung up: %m");
        at += (size_t)n;
    }
    for (;;) {
        ssize_t n = read(fd, sbuf_space(answer, 4096), 4096);
        if (n < 0)
            return err_set(err, errno, "the server hung up: %m");
        if (n == 0)
            return 0;
        sbuf_commit(answer, (size_t)n);
    }
}

// judge finds the code, and for a failure the message, of the answer.
static int judge(struct str answer, struct err *err)
{
    struct str head, rest, code;
    str_cut(answer, ' ', &head, &rest);
    str_cut(rest, ' ', &code, &rest);
    if (str_eq(code, STR("200")))
        return 0;
    ptrdiff_t at = str_find(answer, STR("\r\n\r\n"));
    struct str body = at < 0 ? (struct str){0} : str_from(answer, (size_t)at + 4);
    cleanup_json_doc struct json_doc doc = {0};
    const yyjson_val *message = NULL;
    if (json_parse(body, NULL, &doc, NULL) == 0)
        message = json_get(doc.root, STR("message"));
    if (message && json_is_string(message))
        return err_set(err, ERR_INTERNAL, "%.*s", STR_ARG(json_str(message)));
    return err_set(err, ERR_INTERNAL, "the server answered %.*s", STR_ARG(code));
}

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
    int fd = connect_to(socket_path, err);
    if (fd < 0)
        return fd;
    int r = ask(fd, absolute.p, &answer, err);
    (void)close(fd);
    return r < 0 ? r : judge(sbuf_str(&answer), err);
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
            return verb_usage_error("backup", "these arguments make no sense");
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
