// SPDX-License-Identifier: Apache-2.0
//
// A node's endpoint over a runtime that runs commands on this machine, for tests/e2e/streams.py:
//   node_endpoint CERTIFICATE KEY CLIENT_CA CONTAINERS
// CONTAINERS is a file that is read at every question: lines of
//   NAMESPACE POD CONTAINER ID STATE LOG PREVIOUS_LOG WAITING
// with STATE running or exited, and - for what there is none of. Prints the port.
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#include <sys/ioctl.h>

#include "base/hash.h"
#include "node/endpoint/kubelet_http.h"

#include "base/banned.h"

#define WORDS 8

static struct loop *loop;
static const char *containers_file;

// --- The file of containers ----------------------------------------------------------------------

struct row {
    char word[WORDS][256];
};

static bool next_row(FILE *f, struct row *ret)
{
    char line[2048];
    if (!fgets(line, sizeof(line), f))
        return false;
    struct str rest = str_trim(str_z(line));
    for (size_t i = 0; i < WORDS; i++) {
        struct str word;
        str_cut(rest, ' ', &word, &rest);
        (void)snprintf(ret->word[i], sizeof(ret->word[i]), "%.*s", STR_ARG(word));
        if (strcmp(ret->word[i], "-") == 0)
            ret->word[i][0] = '\0';
    }
    return true;
}

// Finds the row whose words from `at` on are those given, as far as they are not empty.
static bool find_row(size_t at, const struct str *want, size_t n, struct row *ret)
{
    FILE *f = fopen(containers_file, "re");
    bool found = false;
    while (f && !found && next_row(f, ret)) {
        found = true;
        for (size_t i = 0; i < n; i++)
            found &= str_eqz(want[i], ret->word[at + i]);
    }
    if (f)
        (void)fclose(f);
    return found;
}

static int find(void *arg, struct str namespace, struct str pod, struct str uid,
                struct str container, struct kubelet_container *ret, struct err *err)
{
    static struct row row;
    (void)arg, (void)uid;
    const struct str names[] = {namespace, pod, container};
    if (!find_row(0, names, 2, &row))
        return err_set(err, ERR_NOT_FOUND, "pod \"%.*s\" does not exist", STR_ARG(pod));
    if (!find_row(0, names, 3, &row))
        return err_set(err, ERR_NOT_FOUND, "container \"%.*s\" not found in pod \"%.*s\"",
                       STR_ARG(container), STR_ARG(pod));
    *ret = (struct kubelet_container){.id = str_z(row.word[3]),
                                      .running = strcmp(row.word[4], "running") == 0,
                                      .log_path = row.word[5][0] ? row.word[5] : NULL,
                                      .previous_id = row.word[6][0] ? STR("previous") : STR(""),
                                      .previous_log_path = row.word[6][0] ? row.word[6] : NULL,
                                      .waiting = str_z(row.word[7])};
    return 0;
}

static bool container_status(struct runtime *r, struct str id, struct runtime_container_status *ret)
{
    static struct row row;
    (void)r;
    *ret = (struct runtime_container_status){.id = id};
    if (!find_row(3, &id, 1, &row))
        return false;
    ret->state = strcmp(row.word[4], "running") == 0 ? RUNTIME_RUNNING : RUNTIME_EXITED;
    return true;
}

// --- Commands ------------------------------------------------------------------------------------

struct runtime_exec {
    struct runtime_exec_options o;
    uv_process_t process;
    uv_pipe_t in, out, err_out;
    int open; // handles not yet closed
    int reading;
    bool exited;
    int pty;
    int64_t status;
    int signal;
    char *argv[256];
    char buffer[16384];
};

struct write_request {
    uv_write_t uv;
    struct runtime_exec *x;
    struct sbuf bytes;
};

static void on_closed(uv_handle_t *handle)
{
    struct runtime_exec *x = handle->data;
    if (--x->open > 0)
        return;
    for (size_t i = 0; x->argv[i]; i++)
        free(x->argv[i]);
    free(x);
}

static void close_handle(void *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, on_closed);
}

static void check_end(struct runtime_exec *x)
{
    if (!x->exited || x->reading > 0)
        return;
    x->o.done(x->o.arg, 0, x->signal ? 128 + x->signal : (int32_t)x->status, NULL);
    close_handle(&x->in);
    close_handle(&x->out);
    close_handle(&x->err_out);
    close_handle(&x->process);
}

static void on_exit_of(uv_process_t *process, int64_t status, int sig)
{
    struct runtime_exec *x = process->data;
    x->exited = true;
    x->status = status;
    x->signal = sig;
    check_end(x);
}

static void on_alloc(uv_handle_t *handle, size_t n, uv_buf_t *ret)
{
    (void)n;
    struct runtime_exec *x = handle->data;
    *ret = uv_buf_init(x->buffer, sizeof(x->buffer));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct runtime_exec *x = stream->data;
    if (n > 0) {
        x->o.output(x->o.arg, stream == (uv_stream_t *)&x->err_out ? 2 : 1,
                    str_make(buf->base, (size_t)n));
    } else if (n < 0) {
        (void)uv_read_stop(stream);
        x->reading--;
        check_end(x);
    }
}

static void read_from(struct runtime_exec *x, uv_pipe_t *pipe)
{
    x->reading++;
    (void)uv_read_start((uv_stream_t *)pipe, on_alloc, on_read);
}

static void fail_later(void *arg)
{
    struct runtime_exec *x = arg;
    struct err err = {0};
    err_record(&err, ERR_NOT_FOUND, "exec failed: \"%s\": executable file not found in $PATH",
               x->argv[0]);
    x->o.done(x->o.arg, -ERR_NOT_FOUND, 0, &err);
    close_handle(&x->in);
    close_handle(&x->out);
    close_handle(&x->err_out);
    close_handle(&x->process);
}

static void set_pipes(struct runtime_exec *x, uv_stdio_container_t *stdio, int slave)
{
    if (x->o.tty) {
        for (int i = 0; i < 3; i++)
            stdio[i] = (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = slave};
        return;
    }
    stdio[0] = (uv_stdio_container_t){
        .flags = x->o.stdin ? (uv_stdio_flags)(UV_CREATE_PIPE | UV_READABLE_PIPE) : UV_IGNORE,
        .data.stream = (uv_stream_t *)&x->in};
    stdio[1] = (uv_stdio_container_t){.flags = (uv_stdio_flags)(UV_CREATE_PIPE | UV_WRITABLE_PIPE),
                                      .data.stream = (uv_stream_t *)&x->out};
    stdio[2] = (uv_stdio_container_t){.flags = (uv_stdio_flags)(UV_CREATE_PIPE | UV_WRITABLE_PIPE),
                                      .data.stream = (uv_stream_t *)&x->err_out};
}

static struct runtime_exec *exec_start(struct runtime *r, const struct runtime_exec_options *o)
{
    (void)r;
    struct runtime_exec *x = xcalloc(1, sizeof(*x));
    x->o = *o;
    x->pty = -1;
    for (size_t i = 0; i < o->command_len && i < 255; i++)
        x->argv[i] = xstrndup(o->command[i].p, o->command[i].n);
    uv_pipe_t *const pipes[] = {&x->in, &x->out, &x->err_out};
    for (size_t i = 0; i < 3; i++) {
        (void)uv_pipe_init(loop_uv(loop), pipes[i], 0);
        pipes[i]->data = x;
    }
    x->process.data = x;
    x->open = 4;
    int slave = -1;
    if (o->tty && openpty(&x->pty, &slave, NULL, NULL, NULL) < 0)
        abort();
    uv_stdio_container_t stdio[3];
    set_pipes(x, stdio, slave);
    const uv_process_options_t options = {.file = x->argv[0],
                                          .args = x->argv,
                                          .stdio = stdio,
                                          .stdio_count = 3,
                                          .flags = UV_PROCESS_DETACHED,
                                          .exit_cb = on_exit_of};
    int status = uv_spawn(loop_uv(loop), &x->process, &options);
    if (slave >= 0)
        (void)close(slave);
    if (status < 0) {
        exec_post(loop_exec(loop), fail_later, x);
        return x;
    }
    if (o->tty) {
        (void)uv_pipe_open(&x->out, x->pty);
        read_from(x, &x->out);
        return x;
    }
    read_from(x, &x->out);
    read_from(x, &x->err_out);
    return x;
}

// Every container here says the same, and then what it reads.
static struct runtime_exec *attach_start(struct runtime *r, const struct runtime_exec_options *o)
{
    static const struct str command[] = {STR_INIT("sh"), STR_INIT("-c"),
                                         STR_INIT("echo new; echo oops >&2; exec cat")};
    struct runtime_exec_options with = *o;
    with.command = command;
    with.command_len = array_len(command);
    return exec_start(r, &with);
}

static void on_written(uv_write_t *req, int status)
{
    (void)status;
    struct write_request *w = container_of(req, struct write_request, uv);
    sbuf_done(&w->bytes);
    free(w);
}

static void on_shut(uv_shutdown_t *request, int status)
{
    (void)status;
    close_handle(request->handle);
    free(request);
}

static void exec_write(struct runtime_exec *x, struct str bytes)
{
    uv_pipe_t *to = x->o.tty ? &x->out : &x->in;
    if (!bytes.p) {
        uv_shutdown_t *request = xcalloc(1, sizeof(*request));
        // What was written before still goes out.
        if (x->o.tty || uv_shutdown(request, (uv_stream_t *)&x->in, on_shut) < 0)
            free(request);
        return;
    }
    if (uv_is_closing((uv_handle_t *)to))
        return;
    struct write_request *w = xcalloc(1, sizeof(*w));
    sbuf_add(&w->bytes, bytes);
    uv_buf_t buf = uv_buf_init(w->bytes.p, (unsigned)w->bytes.n);
    if (uv_write(&w->uv, (uv_stream_t *)to, &buf, 1, on_written) < 0)
        on_written(&w->uv, 0);
}

static void exec_resize(struct runtime_exec *x, uint16_t columns, uint16_t rows)
{
    const struct winsize size = {.ws_row = rows, .ws_col = columns};
    if (x->pty >= 0)
        (void)ioctl(x->pty, TIOCSWINSZ, &size);
}

static size_t exec_queued(const struct runtime_exec *x)
{
    return uv_stream_get_write_queue_size((const uv_stream_t *)(x->o.tty ? &x->out : &x->in));
}

static void exec_hold(struct runtime_exec *x, bool hold)
{
    uv_pipe_t *const pipes[] = {&x->out, &x->err_out};
    for (size_t i = 0; i < (x->o.tty ? 1 : 2); i++) {
        if (hold)
            (void)uv_read_stop((uv_stream_t *)pipes[i]);
        else if (!uv_is_closing((uv_handle_t *)pipes[i]))
            (void)uv_read_start((uv_stream_t *)pipes[i], on_alloc, on_read);
    }
}

static void exec_cancel(struct runtime_exec *x)
{
    exec_hold(x, false); // nobody reads it any more
    if (!x->exited)
        (void)uv_kill(-x->process.pid, SIGKILL);
}

// --- Who may -------------------------------------------------------------------------------------

static void who(void *arg, struct str token, void (*done)(void *ctx, const struct kubelet_user *u),
                void *ctx)
{
    (void)arg;
    static const struct str group = STR_INIT("system:masters");
    const struct kubelet_user master = {STR("master"), &group, 1}, other = {STR("other"), NULL, 0};
    done(ctx, str_eqz(token, "master-token")  ? &master
              : str_eqz(token, "other-token") ? &other
                                              : NULL);
}

static void may(void *arg, const struct kubelet_user *u, struct str verb, struct str part,
                void (*done)(void *ctx, bool allowed), void *ctx)
{
    (void)arg;
    bool server = str_eqz(u->name, "kube-apiserver-kubelet-client"); // as roles have it
    done(ctx, server ? str_eqz(part, "proxy") : str_eqz(verb, "get") && str_eqz(part, "metrics"));
}

static void stop(void *arg)
{
    (void)arg;
    loop_stop(loop);
}

int main(int argc, char **argv)
{
    struct err err = {0};
    struct tls_server *tls = NULL;
    uint16_t port = 0;
    static const struct runtime_ops ops = {.container_status = container_status,
                                           .exec = exec_start,
                                           .attach = attach_start,
                                           .exec_write = exec_write,
                                           .exec_resize = exec_resize,
                                           .exec_cancel = exec_cancel,
                                           .exec_queued = exec_queued,
                                           .exec_hold = exec_hold};
    struct runtime runtime = {.ops = &ops};
    if (argc != 5)
        return 2;
    containers_file = argv[4];
    const struct tls_server_options to = {argv[1], argv[2], argv[3]};
    int r = loop_new(&loop, &err);
    if (r == 0)
        r = tls_server_new(&to, &tls, &err);
    if (r < 0) {
        (void)fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    const struct kubelet_http_options o = {.loop = loop,
                                           .tls = tls,
                                           .runtime = &runtime,
                                           .access = {.who = who, .may = may},
                                           .find = find};
    struct kubelet_http *h = kubelet_http_new(&o);
    r = kubelet_http_listen(h, STR("127.0.0.1:0"), &port, &err);
    if (r == 0)
        r = loop_on_signal(loop, SIGTERM, stop, NULL, &err);
    if (r < 0)
        (void)fprintf(stderr, "%s\n", err.msg);
    printf("%u\n", (unsigned)port);
    (void)fflush(stdout);
    if (r == 0)
        loop_run(loop);
    kubelet_http_free(h);
    loop_free(loop);
    tls_server_free(tls);
    return r < 0;
}
