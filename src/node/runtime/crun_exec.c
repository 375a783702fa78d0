// SPDX-License-Identifier: Apache-2.0
//
// Commands in running containers, and attaching to containers: `dray-monitor exec` or `attach` as a
// child of ours, its streams on the loop. When we end, it ends, and the command with it.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#include <sys/stat.h>

#include "node/monitor/monitor_plan.h"
#include "node/oci/oci.h"
#include "node/runtime/crun_int.h"
#include "os/file.h"

#include "base/banned.h"

#define CONFIG_BYTES_MAX ((size_t)64 << 20)
#define KILL_AGAIN_NS    (30 * CLOCK_NS_PER_SEC) // then the helper itself is killed

struct runtime_exec {
    struct crun *crun;
    struct runtime_exec_options options; // its texts are not kept
    char folder[4096];                   // of its own; empty: it is attached to a container
    char cgroup[4096];                   // of the container; empty: none
    uv_process_t process;
    uv_pipe_t in, out, err, control;
    bool made_in, has_in, has_process; // has_in: not at its end
    bool process_ended, out_ended, err_ended, control_ended;
    bool timed_out, killed, reported;
    bool held; // the reader of the output has paused it
    struct exec_timer timer;
    struct sbuf said; // on the control socket
    int handles;      // open ones
    struct sbuf problem;
};

// --- End -----------------------------------------------------------------------------------------

static void crun_exec_free(struct runtime_exec *x)
{
    struct crun *c = x->crun;
    if (x->folder[0])
        (void)file_remove_tree(x->folder, NULL);
    sbuf_done(&x->said);
    sbuf_done(&x->problem);
    free(x);
    crun_operation_ended(c);
}

static void crun_exec_on_closed(uv_handle_t *h)
{
    struct runtime_exec *x = h->data;
    if (--x->handles == 0)
        crun_exec_free(x);
}

static void crun_exec_close_handle(struct runtime_exec *x, void *handle)
{
    uv_handle_t *h = handle;
    h->data = x;
    if (!uv_is_closing(h))
        uv_close(h, crun_exec_on_closed);
}

static void crun_exec_report(struct runtime_exec *x)
{
    struct str said = str_trim(sbuf_str(&x->said));
    struct err err = {0};
    int r = 0;
    int64_t status = 0;
    if (x->timed_out) {
        r = err_set(&err, ERR_TIMEOUT, "command timed out after %lld ms",
                    (long long)(x->options.timeout_ns / CLOCK_NS_PER_MS));
    } else if (x->problem.n) {
        r = err_set(&err, ERR_INTERNAL, "%s", x->problem.p);
    } else if (str_starts(said, STR("exit ")) && str_to_i64(str_from(said, 5), &status) == 0) {
        r = 0;
    } else if (str_starts(said, STR("error "))) {
        cleanup_sbuf struct sbuf why = {0};
        crun_runtime_error(str_from(said, 6), &why);
        r = err_set(&err, ERR_INTERNAL, "%s", why.p);
    } else {
        r = err_set(&err, ERR_INTERNAL, "the command's monitor was killed");
    }
    x->options.done(x->options.arg, r, (int32_t)status, r < 0 ? &err : NULL);
}

static void crun_exec_end_if_over(struct runtime_exec *x)
{
    if (x->reported || !x->process_ended || !x->out_ended || !x->err_ended || !x->control_ended)
        return;
    x->reported = true;
    exec_timer_stop(x->crun->exec, &x->timer);
    crun_exec_report(x);
    if (x->made_in)
        crun_exec_close_handle(x, &x->in);
    crun_exec_close_handle(x, &x->out);
    crun_exec_close_handle(x, &x->err);
    crun_exec_close_handle(x, &x->control);
    if (x->has_process)
        crun_exec_close_handle(x, &x->process);
}

// --- Streams -------------------------------------------------------------------------------------

static void crun_exec_alloc_buffer(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    (void)h;
    (void)suggested;
    *buf = uv_buf_init(xmalloc(16384), 16384);
}

static void crun_exec_on_output(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct runtime_exec *x = s->data;
    bool is_err = (void *)s == (void *)&x->err;
    if (n > 0 && x->options.output && !x->reported)
        x->options.output(x->options.arg, is_err ? 2 : 1, str_make(buf->base, (size_t)n));
    free(buf->base);
    if (n >= 0)
        return;
    (void)uv_read_stop(s);
    *(is_err ? &x->err_ended : &x->out_ended) = true;
    crun_exec_end_if_over(x);
}

static void crun_exec_on_control(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct runtime_exec *x = s->data;
    if (n > 0 && x->said.n < 4 * DRAY_ERR_MSG_MAX)
        sbuf_add(&x->said, str_make(buf->base, (size_t)n));
    free(buf->base);
    if (n >= 0)
        return;
    (void)uv_read_stop(s);
    x->control_ended = true;
    crun_exec_end_if_over(x);
}

// A helper that was killed could not kill its command.
static void crun_exec_work_sweep(struct crun_job *j)
{
    cgroup_kill_marked(&j->crun->cgroups, j->answer.p, j->more, 10 * CLOCK_NS_PER_SEC);
}

static void crun_exec_sweep(const struct runtime_exec *x)
{
    struct crun_job *j = crun_job_new(x->crun, NULL);
    const char *slash = strrchr(x->folder, '/');
    j->answer = arena_str(&j->arena, str_z(x->cgroup));
    j->more = (void *)(uintptr_t)arena_str(&j->arena, str_z(slash + 1)).p;
    j->work = crun_exec_work_sweep;
    crun_job_submit(j);
}

// Does not wait for processes that still hold the streams open.
static void crun_exec_end_streams(struct runtime_exec *x)
{
    x->out_ended = x->err_ended = x->control_ended = true;
    crun_exec_end_if_over(x);
}

// The helper ended. A background process may have kept the command's output open: it gets a moment.
// Not when the runtime goes: the loop's timers may be gone already.
static void crun_exec_on_helper_exit(uv_process_t *p, int64_t status, int signal)
{
    struct runtime_exec *x = p->data;
    (void)status;
    if (signal && x->folder[0])
        crun_exec_sweep(x);
    x->process_ended = true;
    if (x->crun->freed) {
        crun_exec_end_streams(x);
        return;
    }
    exec_timer_start(x->crun->exec, &x->timer, x->killed ? 0 : CLOCK_NS_PER_SEC);
    crun_exec_end_if_over(x);
}

struct written {
    uv_write_t request;
    char bytes[];
};

static void crun_exec_on_written(uv_write_t *request, int status)
{
    (void)status; // the command may have closed its input
    free(container_of(request, struct written, request));
}

static void crun_exec_write_pipe(uv_pipe_t *pipe, struct str bytes)
{
    struct written *w = xmalloc(sizeof(*w) + bytes.n);
    memcpy(w->bytes, bytes.p, bytes.n);
    uv_buf_t buf = uv_buf_init(w->bytes, (unsigned)bytes.n);
    if (uv_is_closing((uv_handle_t *)pipe) ||
        uv_write(&w->request, (uv_stream_t *)pipe, &buf, 1, crun_exec_on_written) != 0)
        free(w);
}

// --- Kill ----------------------------------------------------------------------------------------

static void crun_exec_kill_command(struct runtime_exec *x)
{
    if (x->process_ended || x->reported)
        return;
    if (x->killed) {
        (void)uv_process_kill(&x->process, SIGKILL);
        return;
    }
    x->killed = true;
    crun_exec_write_pipe(&x->control, STR("kill\n"));
    exec_timer_start(x->crun->exec, &x->timer, KILL_AGAIN_NS);
}

static void crun_exec_on_timer(void *arg)
{
    struct runtime_exec *x = arg;
    if (x->process_ended && x->held) { // its output is still to be read
        exec_timer_start(x->crun->exec, &x->timer, CLOCK_NS_PER_SEC);
        return;
    }
    if (x->process_ended) {
        crun_exec_end_streams(x);
        return;
    }
    x->timed_out = x->timed_out || !x->killed;
    crun_exec_kill_command(x);
}

// --- Start ---------------------------------------------------------------------------------------

static int crun_exec_prepare(struct runtime_exec *x, const char *container_dir, struct sbuf *mark)
{
    cleanup_sbuf struct sbuf config = {0}, process = {0}, variable = {0}, path = {0};
    struct err err = {0};
    const struct runtime_exec_options *o = &x->options;
    sbuf_addf(mark, "exec-%d-%llu", (int)getpid(), (unsigned long long)x->crun->execs++);
    (void)snprintf(x->folder, sizeof(x->folder), "%s/%s", container_dir, mark->p);
    sbuf_addf(&variable, CGROUP_MARK "%s", mark->p);
    sbuf_addf(&path, "%s/config.json", container_dir);
    int r = file_read_at(AT_FDCWD, path.p, CONFIG_BYTES_MAX, &config);
    if (r == 0)
        r = oci_process_write(sbuf_str(&config), o->command, o->command_len, o->tty,
                              sbuf_str(&variable), &process, &err);
    if (r == 0 && mkdir(x->folder, 0700) != 0)
        r = -errno;
    sbuf_clear(&path);
    sbuf_addf(&path, "%s/process.json", x->folder);
    // Created, not replaced atomically: it has no other reader.
    cleanup_fd int fd = r == 0 ? open(path.p, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    if (r == 0 && (fd < 0 || write(fd, process.p, process.n) != (ssize_t)process.n))
        r = -EIO;
    if (r < 0)
        sbuf_addf(&x->problem, "cannot prepare the command: %s",
                  err.msg[0] ? err.msg : strerrordesc_np(-r));
    return r;
}

static void crun_exec_init_pipe(struct runtime_exec *x, uv_pipe_t *p)
{
    (void)uv_pipe_init(loop_uv(x->crun->loop), p, 0);
    p->data = x;
    x->handles++;
}

static int crun_exec_spawn_helper(struct runtime_exec *x, const char **argv)
{
    const struct crun *c = x->crun;
    uv_stdio_container_t stdio[4] = {
        {.flags = UV_IGNORE},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&x->out},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&x->err},
        {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE | UV_WRITABLE_PIPE,
         .data.stream = (uv_stream_t *)&x->control},
    };
    if (x->has_in)
        stdio[0] = (uv_stdio_container_t){.flags = UV_CREATE_PIPE | UV_READABLE_PIPE,
                                          .data.stream = (uv_stream_t *)&x->in};
    const uv_process_options_t options = {
        .exit_cb = crun_exec_on_helper_exit,
        .file = c->paths.monitor,
        .args = (char **)(uintptr_t)argv, // only read
        .flags = UV_PROCESS_DETACHED,
        .stdio_count = 4,
        .stdio = stdio,
    };
    int r = uv_spawn(loop_uv(c->loop), &x->process, &options);
    x->process.data = x;
    x->has_process = true;
    x->handles++;
    if (r < 0)
        sbuf_addf(&x->problem, "cannot run %s: %s", c->paths.monitor, uv_strerror(r));
    return r;
}

static void crun_exec_fail_later(void *arg)
{
    struct runtime_exec *x = arg;
    x->process_ended = x->out_ended = x->err_ended = x->control_ended = true;
    crun_exec_end_if_over(x);
}

static int crun_exec_spawn_command(struct runtime_exec *x, const struct crun_container *ct)
{
    const struct crun *c = x->crun;
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf mark = {0};
    int r = crun_exec_prepare(x, crun_container_dir(c, ct->id, &arena).p, &mark);
    if (r < 0)
        return r;
    (void)snprintf(x->cgroup, sizeof(x->cgroup), "%s",
                   c->machine.no_cgroups ? "" : ct->meta.cgroup.p);
    const struct crun_program *by = crun_program_of(c, ct->id);
    const char *argv[] = {c->paths.monitor,
                          "exec",
                          x->folder,
                          by->path,
                          by->state,
                          ct->id,
                          crun_hidden_mount(c, by),
                          x->options.tty ? "1" : "0",
                          mark.p,
                          x->cgroup,
                          NULL};
    return crun_exec_spawn_helper(x, argv);
}

static int crun_exec_spawn_attach(struct runtime_exec *x, const struct crun_container *ct)
{
    cleanup_arena struct arena arena = {0};
    const char *argv[] = {x->crun->paths.monitor, "attach",
                          crun_container_dir(x->crun, ct->id, &arena).p, NULL};
    return crun_exec_spawn_helper(x, argv);
}

static struct runtime_exec *crun_exec_begin(struct crun *c,
                                            const struct runtime_exec_options *options,
                                            int (*helper)(struct runtime_exec *x,
                                                          const struct crun_container *ct))
{
    struct runtime_exec *x = xcalloc(1, sizeof(*x));
    const struct crun_container *ct = crun_container_find(c, options->container_id);
    x->crun = c;
    x->options = *options;
    x->has_in = x->made_in = options->stdin;
    x->timer = (struct exec_timer){.fn = crun_exec_on_timer, .arg = x};
    c->under_way++;
    crun_exec_init_pipe(x, &x->out);
    crun_exec_init_pipe(x, &x->err);
    crun_exec_init_pipe(x, &x->control);
    if (x->has_in)
        crun_exec_init_pipe(x, &x->in);
    int r = -1;
    if (!ct || ct->status.state != RUNTIME_RUNNING)
        sbuf_addz(&x->problem, "the container is not running");
    else
        r = helper(x, ct);
    if (r < 0) {
        exec_post(c->exec, crun_exec_fail_later, x);
        return x;
    }
    (void)uv_read_start((uv_stream_t *)&x->out, crun_exec_alloc_buffer, crun_exec_on_output);
    (void)uv_read_start((uv_stream_t *)&x->err, crun_exec_alloc_buffer, crun_exec_on_output);
    (void)uv_read_start((uv_stream_t *)&x->control, crun_exec_alloc_buffer, crun_exec_on_control);
    if (options->timeout_ns > 0)
        exec_timer_start(c->exec, &x->timer, options->timeout_ns);
    return x;
}

struct runtime_exec *crun_exec(struct runtime *r, const struct runtime_exec_options *options)
{
    return crun_exec_begin(crun_of(r), options, crun_exec_spawn_command);
}

struct runtime_exec *crun_attach(struct runtime *r, const struct runtime_exec_options *options)
{
    return crun_exec_begin(crun_of(r), options, crun_exec_spawn_attach);
}

static void crun_exec_on_shutdown(uv_shutdown_t *request, int status)
{
    struct runtime_exec *x = request->data;
    (void)status;
    free(request);
    crun_exec_close_handle(x, &x->in);
}

void crun_exec_write(struct runtime_exec *x, struct str bytes)
{
    if (!x->has_in || x->reported || !x->has_process)
        return;
    if (bytes.p) {
        crun_exec_write_pipe(&x->in, bytes);
        return;
    }
    // Input queued before is still delivered.
    x->has_in = false;
    uv_shutdown_t *request = xcalloc(1, sizeof(*request));
    request->data = x;
    if (uv_shutdown(request, (uv_stream_t *)&x->in, crun_exec_on_shutdown) != 0) {
        free(request);
        crun_exec_close_handle(x, &x->in);
    }
}

void crun_exec_resize(struct runtime_exec *x, uint16_t columns, uint16_t rows)
{
    cleanup_sbuf struct sbuf line = {0};
    if (x->reported || !x->has_process || x->process_ended)
        return;
    sbuf_addf(&line, "resize %u %u\n", columns, rows);
    crun_exec_write_pipe(&x->control, sbuf_str(&line));
}

size_t crun_exec_queued(const struct runtime_exec *x)
{
    return x->made_in && !x->reported ? x->in.write_queue_size : 0;
}

static void crun_exec_hold_stream(uv_pipe_t *p, bool hold, bool ended)
{
    if (ended || uv_is_closing((uv_handle_t *)p))
        return;
    if (hold)
        (void)uv_read_stop((uv_stream_t *)p);
    else
        (void)uv_read_start((uv_stream_t *)p, crun_exec_alloc_buffer, crun_exec_on_output);
}

// The pipes fill up meanwhile, and the command waits.
void crun_exec_hold(struct runtime_exec *x, bool hold)
{
    if (x->reported || !x->has_process || x->held == hold)
        return;
    x->held = hold;
    crun_exec_hold_stream(&x->out, hold, x->out_ended);
    crun_exec_hold_stream(&x->err, hold, x->err_ended);
    if (!hold && x->process_ended) // give the rest a moment again
        exec_timer_start(x->crun->exec, &x->timer, CLOCK_NS_PER_SEC);
}

void crun_exec_cancel(struct runtime_exec *x)
{
    crun_exec_hold(x, false); // its output is not read any more
    if (!x->has_process)
        return;
    crun_exec_kill_command(x);
    if (x->process_ended) { // only its output is waited for
        x->killed = true;
        exec_timer_start(x->crun->exec, &x->timer, 0);
    }
}
