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

// --- Requests to the monitor ---------------------------------------------------------------------

// The directory's path may be longer than an address can be; a descriptor's is not.
int crun_monitor_send(const char *folder, const char *text)
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

ssize_t crun_monitor_receive(int fd, char *buf, size_t cap, int64_t timeout_ns)
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

int crun_monitor_call(const char *folder, const char *text, struct err *err)
{
    char buf[MONITOR_PACKET_MAX];
    cleanup_fd int fd = crun_monitor_send(folder, text);
    if (fd < 0)
        return err_set(err, ERR_GONE, "the container's monitor does not answer: %s",
                       strerrordesc_np(-fd));
    ssize_t n = crun_monitor_receive(fd, buf, sizeof(buf), CRUN_CALL_NS);
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

// --- Watch ---------------------------------------------------------------------------------------

struct crun_watch {
    uv_poll_t poll;
    int fd;
    struct crun_container *container; // NULL: stopped
};

static void crun_monitor_on_closed(uv_handle_t *h)
{
    struct crun_watch *w = container_of(h, struct crun_watch, poll);
    (void)close(w->fd);
    free(w);
}

void crun_watch_stop(struct crun_container *ct)
{
    if (!ct->watch)
        return;
    ct->watch->container = NULL;
    uv_close((uv_handle_t *)&ct->watch->poll, crun_monitor_on_closed);
    ct->watch = NULL;
}

void crun_container_update(struct crun_container *ct, struct str said)
{
    struct str word, rest;
    int64_t n[4] = {0};
    (void)str_cut(said, ' ', &word, &rest);
    for (size_t i = 0; i < 4 && rest.n > 0; i++) {
        struct str number;
        (void)str_cut(rest, ' ', &number, &rest);
        (void)!str_to_i64(number, &n[i]);
    }
    if (ct->status.state == RUNTIME_EXITED)
        return;
    if (str_eq(word, STR("created"))) {
        ct->status.state = RUNTIME_CREATED;
    } else if (str_eq(word, STR("running"))) {
        ct->status.state = RUNTIME_RUNNING;
        ct->status.started_ns = n[0];
    } else if (str_eq(word, STR("exited"))) {
        ct->status.state = RUNTIME_EXITED;
        ct->status.exit_code = (int32_t)n[0];
        ct->status.signal = (int32_t)n[1];
        ct->status.oom_killed = n[2] != 0;
        ct->status.finished_ns = n[3];
    }
}

// --- Lost monitors -------------------------------------------------------------------------------

static void crun_monitor_work_lost(struct crun_job *j)
{
    struct str cgroup = *(struct str *)j->more;
    j->code = crun_container_kill(j->crun, j->id, cgroup, &j->err);
}

static void crun_monitor_after_lost(struct crun_job *j)
{
    struct crun_container *ct = crun_container_find(j->crun, str_z(j->id));
    if (!ct || ct->status.state == RUNTIME_EXITED)
        return;
    cleanup_arena struct arena arena = {0};
    struct str folder = crun_container_dir(j->crun, j->id, &arena);
    if (!crun_container_read_end(folder.p, &ct->status)) {
        ct->status.state = RUNTIME_UNKNOWN;
        ct->status.message = arena_str(&ct->arena, str_z(j->err.msg));
    } else if (ct->status.exit_code == 255) {
        ct->status.message = STR("the container's monitor was killed, and the container with it");
    }
    crun_container_ended(ct);
}

static void crun_monitor_lost(struct crun_container *ct)
{
    struct crun_job *j = crun_job_new(ct->crun, crun_pod_find(ct->crun, ct->meta.pod));
    memcpy(j->id, ct->id, sizeof(j->id));
    struct str *cgroup = arena_one(&j->arena, struct str);
    *cgroup = arena_str(&j->arena, ct->meta.cgroup);
    j->more = cgroup;
    j->work = crun_monitor_work_lost;
    j->after = crun_monitor_after_lost;
    crun_job_submit(j);
}

static void crun_monitor_on_ready(uv_poll_t *poll, int status, int events)
{
    struct crun_watch *w = container_of(poll, struct crun_watch, poll);
    struct crun_container *ct = w->container;
    char buf[MONITOR_PACKET_MAX];
    (void)status;
    (void)events;
    if (!ct)
        return;
    ssize_t n = recv(w->fd, buf, sizeof(buf), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        bool had_ended = ct->status.state == RUNTIME_EXITED;
        crun_container_update(ct, str_make(buf, (size_t)n));
        if (ct->status.state == RUNTIME_EXITED && !had_ended) {
            crun_watch_stop(ct);
            crun_container_ended(ct);
        }
        return;
    }
    crun_watch_stop(ct);
    if (ct->status.state != RUNTIME_EXITED)
        crun_monitor_lost(ct);
}

void crun_watch_start(struct crun_container *ct, int fd)
{
    if (ct->crun->left) {
        (void)close(fd);
        return;
    }
    struct crun_watch *w = xcalloc(1, sizeof(*w));
    w->fd = fd;
    w->container = ct;
    ct->watch = w;
    (void)uv_poll_init(loop_uv(ct->crun->loop), &w->poll, fd);
    (void)uv_poll_start(&w->poll, UV_READABLE | UV_DISCONNECT, crun_monitor_on_ready);
}
