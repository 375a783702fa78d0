// SPDX-License-Identifier: Apache-2.0
#include "cmd/local.h"

#include <stdlib.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/un.h>

#include "codec/json.h"

#include "base/banned.h"

static int connect_to(const char *path, struct err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if (n >= sizeof(address.sun_path))
        return err_set(err, ENAMETOOLONG, "the path of the socket %s is too long", path);
    memcpy(address.sun_path, path, n);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_set(err, errno, "no socket: %s", strerrordesc_np(errno));
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
        int code = errno;
        (void)close(fd);
        return err_set(err, code, "cannot reach a server at %s: %s; does it run on this folder?",
                       path, strerrordesc_np(code));
    }
    return fd;
}

void local_escape(struct sbuf *out, struct str text)
{
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '/' || c == '.' || c == '-' || c == '_';
        if (plain)
            sbuf_addc(out, (char)c);
        else
            sbuf_addf(out, "%%%02X", (unsigned)c);
    }
}

static int exchange(int fd, const char *method, const char *target, struct sbuf *answer,
                    struct err *err)
{
    cleanup_sbuf struct sbuf request = {0};
    sbuf_addf(&request,
              "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
              method, target);
    for (size_t at = 0; at < request.n;) {
        ssize_t n = write(fd, request.p + at, request.n - at);
        if (n < 0)
            return err_set(err, errno, "the server hung up: %s", strerrordesc_np(errno));
        at += (size_t)n;
    }
    for (;;) {
        ssize_t n = read(fd, sbuf_space(answer, 4096), 4096);
        if (n < 0)
            return err_set(err, errno, "the server hung up: %s", strerrordesc_np(errno));
        if (n == 0)
            return 0;
        sbuf_commit(answer, (size_t)n);
    }
}

// judge finds the code, the body and, for a failure, the message of the answer.
static int judge(struct str answer, struct sbuf *out, struct err *err)
{
    struct str head;
    struct str rest;
    struct str code;
    str_cut(answer, ' ', &head, &rest);
    str_cut(rest, ' ', &code, &rest);
    ptrdiff_t at = str_find(answer, STR("\r\n\r\n"));
    struct str body = at < 0 ? (struct str){0} : str_from(answer, (size_t)at + 4);
    if (str_eq(code, STR("200"))) {
        sbuf_add(out, body);
        return 0;
    }
    cleanup_json_doc struct json_doc doc = {0};
    const yyjson_val *message = NULL;
    if (json_parse(body, NULL, &doc, NULL) == 0)
        message = json_get(doc.root, STR("message"));
    int failure = str_eq(code, STR("404"))   ? ERR_NOT_FOUND
                  : str_eq(code, STR("503")) ? ERR_UNAVAILABLE
                                             : ERR_INTERNAL;
    if (message && json_is_string(message))
        return err_set(err, failure, "%.*s", STR_ARG(json_str(message)));
    return err_set(err, failure, "the server answered %.*s", STR_ARG(code));
}

int local_ask(const char *socket_path, const char *method, const char *target, struct sbuf *out,
              struct err *err)
{
    cleanup_sbuf struct sbuf answer = {0};
    int fd = connect_to(socket_path, err);
    if (fd < 0)
        return fd;
    int r = exchange(fd, method, target, &answer, err);
    (void)close(fd);
    return r < 0 ? r : judge(sbuf_str(&answer), out, err);
}

void local_socket(struct sbuf *out, const char *path, const char *data_dir)
{
    const char *home = getenv("HOME"); // NOLINT(concurrency-mt-unsafe): nobody changes it
    if (path)
        sbuf_addz(out, path);
    else if (data_dir)
        sbuf_addf(out, "%s/dray.sock", data_dir);
    else
        sbuf_addf(out, "%s/.dray/dray.sock", home && home[0] ? home : ".");
}
