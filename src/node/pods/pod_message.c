// SPDX-License-Identifier: Apache-2.0
//
// The termination message of a container: its message file, or the end of its log.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/mem.h"
#include "node/pods/pods_int.h"

#include "base/banned.h"

#define MESSAGE_MAX    4096 // as kubelet
#define LOG_TAIL_BYTES 2048
#define LOG_TAIL_LINES 80

void pod_message_path(const struct pod_container *c, uint32_t attempt, struct sbuf *out)
{
    pod_directory(c->pod, out);
    sbuf_addf(out, "/containers/%s/%u", c->name, attempt);
}

// The last max bytes of a regular file; nothing of anything else.
static void pod_message_read_tail(const char *path, size_t max, struct sbuf *out)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        ((size_t)st.st_size <= max || lseek(fd, st.st_size - (off_t)max, SEEK_SET) >= 0)) {
        ssize_t n = read(fd, sbuf_space(out, max), max);
        sbuf_commit(out, n > 0 ? (size_t)n : 0);
    }
    (void)close(fd);
}

// A line of the CRI's log without time, stream and tag.
static struct str pod_message_read_file(struct str line)
{
    struct str head, rest = line;
    for (int i = 0; i < 3; i++)
        if (!str_cut(rest, ' ', &head, &rest))
            return (struct str){0};
    return rest;
}

static void pod_message_read_log(const struct pod_container *c, const struct pod_run *r,
                                 struct sbuf *out)
{
    cleanup_sbuf struct sbuf path = {0}, raw = {0}, text = {0};
    pod_log_directory(c->pod, &path);
    sbuf_addf(&path, "/%s/%u.log", c->name, r->attempt);
    pod_message_read_tail(path.p, (size_t)4 * LOG_TAIL_BYTES, &raw);
    struct str rest = sbuf_str(&raw), line;
    while (rest.n > 0) {
        (void)str_cut(rest, '\n', &line, &rest);
        struct str content = pod_message_read_file(line);
        if (content.p)
            sbuf_addf(&text, "%.*s\n", STR_ARG(content));
    }
    struct str tail = sbuf_str(&text);
    if (tail.n > LOG_TAIL_BYTES)
        tail = str_from(tail, tail.n - LOG_TAIL_BYTES);
    size_t lines = 0;
    for (size_t i = tail.n; i > 0; i--)
        if (tail.p[i - 1] == '\n' && lines++ == LOG_TAIL_LINES) {
            tail = str_from(tail, i);
            break;
        }
    sbuf_add(out, tail);
}

void pod_message_read(struct pod_container *c, struct pod_run *r)
{
    const struct api_container *spec = pod_container_spec(c);
    cleanup_sbuf struct sbuf path = {0}, text = {0};
    if (r->message_read)
        return;
    r->message_read = true;
    pod_message_path(c, r->attempt, &path);
    pod_message_read_tail(path.p, MESSAGE_MAX, &text);
    if (text.n == 0 && r->exit_code != 0 &&
        str_eqz(spec->termination_message_policy, "FallbackToLogsOnError"))
        pod_message_read_log(c, r, &text);
    if (text.n == 0)
        return;
    free(r->message);
    r->message = sbuf_take(&text);
}
