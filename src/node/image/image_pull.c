// SPDX-License-Identifier: Apache-2.0
//
// Pulls images by running skopeo, with each pull secret in turn and then without credentials.
#include "node/image/image_pull.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "os/file.h"
#include "os/process.h"

#include "base/banned.h"

#define PULL_NS            (30 * 60 * CLOCK_NS_PER_SEC)
#define IMAGE_PULL_WHY_MAX 350

bool image_pull_possible(void)
{
    cleanup_sbuf struct sbuf path = {0};
    return process_find("skopeo", &path);
}

static int image_pull_error_code(struct str said)
{
    if (str_contains(said, STR("no space left on device")))
        return ENOSPC;
    if (str_contains(said, STR("manifest unknown")) || str_contains(said, STR("not found")) ||
        str_contains(said, STR("name unknown")))
        return ERR_NOT_FOUND;
    if (str_contains(said, STR("unauthorized")) || str_contains(said, STR("denied")) ||
        str_contains(said, STR("authentication required")))
        return ERR_UNAUTHORIZED;
    return ERR_UNAVAILABLE;
}

// The last line, which is the error.
static struct str last_line(struct str said)
{
    said = str_trim(said);
    return str_trim(str_from(said, (size_t)(str_rfind_char(said, '\n') + 1)));
}

// image_pull_add_text adds a registry's words: at most so many bytes of whole printable characters,
// for they end in the status of a pod and on terminals.
static void image_pull_add_text(struct str text, size_t max, struct sbuf *out)
{
    for (size_t at = 0, n; at < text.n; at += n) {
        uint32_t cp;
        bool good = utf8_decode_strict(text, at, &cp, &n) && (utf8_printable(cp) || cp == ' ');
        if (!good)
            n = 1;
        if (at + n > max)
            break;
        sbuf_add(out, good ? str_make(text.p + at, n) : STR("?"));
    }
}

int image_pull_explain(struct str full, struct str said, struct err *err)
{
    cleanup_sbuf struct sbuf why = {0};
    struct str line = last_line(said);
    image_pull_add_text(line, IMAGE_PULL_WHY_MAX, &why);
    return err_set(err, image_pull_error_code(line), "skopeo cannot pull %.*s: %s", STR_ARG(full),
                   why.n ? why.p : "it gave no reason");
}

static int pull_once(struct str full, const char *auth_file, const char *layout, struct err *err)
{
    cleanup_sbuf struct sbuf from = {0}, to = {0}, said = {0}, program = {0};
    if (!process_find("skopeo", &program))
        return err_set(err, ERR_UNAVAILABLE, "there is no skopeo to pull images with");
    sbuf_addf(&from, "docker://%.*s", STR_ARG(full));
    sbuf_addf(&to, "oci:%s:image", layout);
    const char *argv[12] = {program.p, "copy", "--quiet", "--insecure-policy"};
    size_t n = 4;
    if (auth_file) {
        argv[n++] = "--authfile";
        argv[n++] = auth_file;
    } else {
        argv[n++] = "--src-no-creds";
    }
    argv[n++] = from.p;
    argv[n] = to.p;
    const struct process p = {.argv = argv, .err = PROCESS_OUTPUT, .timeout_ns = PULL_NS};
    int r = process_run(&p, &said, err);
    if (r <= 0)
        return r;
    return image_pull_explain(full, sbuf_str(&said), err);
}

int image_pull(struct str full, const struct str *auths, size_t auths_len, const char *folder,
               const char *layout, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s/auth.json", folder);
    int r = -ERR_UNAUTHORIZED;
    for (size_t i = 0; i < auths_len && r == -ERR_UNAUTHORIZED; i++) {
        cleanup_fd int fd =
            open(path.p, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 || write(fd, auths[i].p, auths[i].n) != (ssize_t)auths[i].n)
            return err_set(err, EIO, "cannot write to %s", folder);
        r = pull_once(full, path.p, layout, err);
    }
    if (r == -ERR_UNAUTHORIZED)
        r = pull_once(full, NULL, layout, err);
    return r;
}
