// SPDX-License-Identifier: Apache-2.0
//
// Talking to monitors, and watching them from the loop.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#include <sys/socket.h>
#include <sys/un.h>

#include "codec/json.h"
#include "node/monitor/monitor_plan.h"
#include "node/runtime/crun_int.h"
#include "os/file.h"

#include "base/banned.h"

// --- Talking -------------------------------------------------------------------------------------

// The folder's path may be longer than an address can be; a descriptor's is not.
int crun_monitor_say(const char *folder, const char *text)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    cleanup_fd int at = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return -errno;
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/sock", at);
    cleanup_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        send(fd, text, strlen(text), MSG_NOSIGNAL) < 0)
        return -errno;
    return fd_take(&fd);
}

ssize_t crun_monitor_hear(int fd, char *buf, size_t cap, int64_t timeout_ns)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int r;
    do
        r = poll(&p, 1, (int)(timeout_ns / CLOCK_NS_PER_MS));
    while (r < 0 && errno == EINTR);
    if (r == 0)
        return -ERR_TIMEOUT;
    ssize_t n = recv(fd, buf, cap, 0);
    return n < 0 ? -errno : n;
}

int crun_monitor_ask(const char *folder, const char *text, struct err *err)
{
    char buf[MONITOR_PACKET_MAX];
    cleanup_fd int fd = crun_monitor_say(folder, text);
    if (fd < 0)
        return err_set(err, ERR_GONE, "the container's monitor does not answer: %s",
                       strerrordesc_np(-fd));
    ssize_t n = crun_monitor_hear(fd, buf, sizeof(buf), CRUN_CALL_NS);
    if (n <= 0)
        return err_set(err, ERR_GONE, "the container's monitor did not answer");
    struct str said = str_make(buf, (size_t)n);
    if (str_eq(said, STR("ok")))
        return 0;
    cleanup_sbuf struct sbuf why = {0};
    crun_runtime_error(said, &why);
    return err_set(err, ERR_INTERNAL, "%s", why.p);
}

void crun_runtime_error(struct str said, struct sbuf *out)
{
    // The last whole JSON line with a message; else the text as it is.
    struct str rest = said, line;
    bool found = false;
    while (rest.n > 0) {
        cleanup_json_doc struct json_doc doc = {0};
        (void)str_cut(rest, '\n', &line, &rest);
        ptrdiff_t brace = str_find_char(line, '{');
        if (brace < 0 || json_parse(str_from(line, (size_t)brace), NULL, &doc, NULL) != 0)
            continue;
        const yyjson_val *message = json_get(doc.root, STR("msg"));
        if (!message || !json_is_string(message))
            continue;
        sbuf_clear(out);
        sbuf_add(out, json_str(message));
        found = true;
    }
    if (!found)
        sbuf_add(out, str_trim(said));
    if (!out->p)
        sbuf_addz(out, "the runtime gave no reason");
}

// --- Watching ------------------------------------------------------------------------------------

struct crun_watch {
    uv_poll_t poll;
    int fd;
    struct crun_box *box; // NULL: nobody cares any more
};

static void on_closed(uv_handle_t *h)
{
    struct crun_watch *w = container_of(h, struct crun_watch, poll);
    (void)close(w->fd);
    free(w);
}

void crun_watch_stop(struct crun_box *b)
{
    if (!b->watch)
        return;
    b->watch->box = NULL;
    uv_close((uv_handle_t *)&b->watch->poll, on_closed);
    b->watch = NULL;
}

void crun_heard(struct crun_box *b, struct str said)
{
    struct str word, rest;
    int64_t n[4] = {0};
    (void)str_cut(said, ' ', &word, &rest);
    for (size_t i = 0; i < 4 && rest.n > 0; i++) {
        struct str number;
        (void)str_cut(rest, ' ', &number, &rest);
        (void)!str_to_i64(number, &n[i]);
    }
    if (b->status.state == RUNTIME_EXITED)
        return;
    if (str_eq(word, STR("created"))) {
        b->status.state = RUNTIME_CREATED;
    } else if (str_eq(word, STR("running"))) {
        b->status.state = RUNTIME_RUNNING;
        b->status.started_ns = n[0];
    } else if (str_eq(word, STR("exited"))) {
        b->status.state = RUNTIME_EXITED;
        b->status.exit_code = (int32_t)n[0];
        b->status.signal = (int32_t)n[1];
        b->status.oom_killed = n[2] != 0;
        b->status.finished_ns = n[3];
    }
}

// --- A monitor that is gone ----------------------------------------------------------------------

static void look_what_is_left(struct crun_job *j)
{
    struct str cgroup = *(struct str *)j->more;
    j->code = crun_box_kill(j->crun, j->id, cgroup, &j->err);
}

static void tell_what_is_left(struct crun_job *j)
{
    struct crun_box *b = crun_box_find(j->crun, str_z(j->id));
    if (!b || b->status.state == RUNTIME_EXITED)
        return;
    cleanup_arena struct arena arena = {0};
    struct str folder = crun_box_folder(j->crun, j->id, &arena);
    if (!crun_read_end(folder.p, &b->status)) {
        b->status.state = RUNTIME_UNKNOWN;
        b->status.message = arena_str(&b->arena, str_z(j->err.msg));
    } else if (b->status.exit_code == 255) {
        b->status.message = STR("the container's monitor was killed, and the container with it");
    }
    crun_box_ended(b);
}

static void lost(struct crun_box *b)
{
    struct crun_job *j = crun_job_new(b->crun, crun_pod_find(b->crun, b->meta.pod));
    memcpy(j->id, b->id, sizeof(j->id));
    struct str *cgroup = arena_one(&j->arena, struct str);
    *cgroup = arena_str(&j->arena, b->meta.cgroup);
    j->more = cgroup;
    j->work = look_what_is_left;
    j->after = tell_what_is_left;
    crun_job_submit(j);
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct crun_watch *w = container_of(poll, struct crun_watch, poll);
    struct crun_box *b = w->box;
    char buf[MONITOR_PACKET_MAX];
    (void)status;
    (void)events;
    if (!b)
        return;
    ssize_t n = recv(w->fd, buf, sizeof(buf), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        bool had_ended = b->status.state == RUNTIME_EXITED;
        crun_heard(b, str_make(buf, (size_t)n));
        if (b->status.state == RUNTIME_EXITED && !had_ended) {
            crun_watch_stop(b);
            crun_box_ended(b);
        }
        return;
    }
    crun_watch_stop(b);
    if (b->status.state != RUNTIME_EXITED)
        lost(b);
}

void crun_watch_start(struct crun_box *b, int fd)
{
    if (b->crun->left) {
        (void)close(fd);
        return;
    }
    struct crun_watch *w = xcalloc(1, sizeof(*w));
    w->fd = fd;
    w->box = b;
    b->watch = w;
    (void)uv_poll_init(loop_uv(b->crun->loop), &w->poll, fd);
    (void)uv_poll_start(&w->poll, UV_READABLE | UV_DISCONNECT, on_ready);
}
