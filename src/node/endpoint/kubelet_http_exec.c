// SPDX-License-Identifier: Apache-2.0
//
// exec and attach over a WebSocket, in the protocols of Kubernetes' remote commands: every message
// begins with the number of its channel. v5 can close the input (channel 255); the end is a Status
// on channel 3.
#include <assert.h>
#include <stdlib.h>

#include "codec/json.h"
#include "codec/json_writer.h"
#include "net/websocket.h"
#include "node/endpoint/kubelet_http_int.h"

#include "base/banned.h"

// Output that waits for a client while the runtime cannot be held up. Beyond, the command is ended.
#define OUTPUT_BYTES_MAX ((size_t)16 * 1024 * 1024)

// Input queued for a command before reading from its client stops, and how often that is checked.
#define INPUT_BYTES_HIGH ((size_t)1024 * 1024)
#define INPUT_LOOK_NS    (20 * CLOCK_NS_PER_MS)

#define COMMAND_WORDS_MAX ((size_t)1024)

static const struct str protocols[] = {
    STR_INIT("v5.channel.k8s.io"),
    STR_INIT("v4.channel.k8s.io"),
    STR_INIT("channel.k8s.io"),
};

struct session {
    struct kubelet_stream stream; // first
    struct kubelet_http *h;       // not valid after the client is gone
    struct exec *exec;
    struct runtime *runtime;
    struct http_request *q; // NULL: the client is gone
    struct ws ws;
    struct sbuf out; // frames to be sent when a callback is over
    bool v5;
    bool plain_errors; // before v4 the error channel has a text, no Status
    bool has_stdin, has_stdout, has_stderr, tty;
    bool input_ended;
    bool input_held; // the command does not read
    struct exec_timer look;
    bool over;              // too much output waits
    struct runtime_exec *x; // NULL: it has ended, or there is none
    bool running;           // done has not been called
};

// --- Output --------------------------------------------------------------------------------------

static void kubelet_exec_flush(struct session *s)
{
    if (s->out.n == 0)
        return;
    if (!s->q) {
        sbuf_clear(&s->out);
        return;
    }
    bool room = http_write(s->q, net_buf_new(&s->out));
    if (!room && !s->over) {
        s->over = true;
        const struct runtime_ops *ops = s->runtime->ops;
        if (s->x && ops->exec_hold)
            ops->exec_hold(s->x, true);
    }
}

static void kubelet_exec_send(struct session *s, enum channel channel, struct str bytes)
{
    const char number = (char)channel;
    ws_write(&s->ws, WS_BINARY, str_make(&number, 1), bytes, &s->out);
}

static void kubelet_exec_add_details(struct json_writer *w, int32_t exit_code)
{
    cleanup_sbuf struct sbuf code = {0};
    sbuf_add_i64(&code, exit_code);
    json_write_object_in(w, "details");
    json_write_array_in(w, "causes");
    json_write_object_begin(w);
    json_write_text(w, "reason", STR("ExitCode"));
    json_write_text(w, "message", sbuf_str(&code));
    json_write_object_end(w);
    json_write_array_end(w);
    json_write_object_end(w);
}

// What became of a command, as the client's library reads it.
static void kubelet_exec_send_status(struct session *s, const char *reason, struct str message,
                                     int32_t exit_code)
{
    cleanup_sbuf struct sbuf text = {0};
    if (s->plain_errors) {
        if (reason)
            kubelet_exec_send(s, CHANNEL_STATUS, message);
        return;
    }
    struct json_writer w = {.out = &text};
    json_write_object_begin(&w);
    json_write_object_in(&w, "metadata");
    json_write_object_end(&w);
    json_write_text(&w, "status", reason ? STR("Failure") : STR("Success"));
    if (reason) {
        json_write_text(&w, "message", message);
        json_write_text(&w, "reason", str_z(reason));
        if (exit_code) {
            kubelet_exec_add_details(&w, exit_code);
        } else {
            json_write_number(&w, "code", 500);
        }
    }
    json_write_object_end(&w);
    kubelet_exec_send(s, CHANNEL_STATUS, sbuf_str(&text));
}

// --- End -----------------------------------------------------------------------------------------

static void kubelet_exec_session_free(struct session *s)
{
    assert(!s->running && !s->q);
    list_remove(&s->stream.node);
    exec_timer_stop(s->exec, &s->look);
    ws_done(&s->ws);
    sbuf_done(&s->out);
    free(s);
}

// The client's side is over.
static void kubelet_exec_detach(struct session *s)
{
    exec_timer_stop(s->exec, &s->look);
    if (s->q) {
        struct http_request *q = s->q;
        s->q = NULL;
        q->closed = NULL;
        q->drained = NULL;
        http_end(q);
    }
    if (!s->running)
        kubelet_exec_session_free(s);
    else
        s->runtime->ops->exec_cancel(s->x); // done frees it
}

static void kubelet_exec_finish(struct session *s)
{
    ws_write_close(&s->ws, WS_NORMAL, STR(""), &s->out);
    kubelet_exec_flush(s);
    kubelet_exec_detach(s);
}

static void kubelet_exec_on_closed(void *arg)
{
    struct session *s = arg;
    s->q = NULL;
    kubelet_exec_detach(s);
}

static void kubelet_exec_on_end(struct kubelet_stream *stream)
{
    struct session *s = container_of(stream, struct session, stream);
    list_remove(&s->stream.node);
    ws_write_close(&s->ws, WS_GOING_AWAY, STR("the node's endpoint stops"), &s->out);
    kubelet_exec_flush(s);
    kubelet_exec_detach(s);
}

static void kubelet_exec_on_drained(void *arg)
{
    struct session *s = arg;
    const struct runtime_ops *ops = s->runtime->ops;
    s->over = false;
    if (s->x && ops->exec_hold)
        ops->exec_hold(s->x, false);
}

// --- Input ---------------------------------------------------------------------------------------

static void kubelet_exec_resize(struct session *s, struct str text)
{
    cleanup_json_doc struct json_doc doc = {0};
    int64_t columns = 0, rows = 0;
    const struct json_options options = {.max_bytes = 1024};
    if (!s->tty || !s->x || json_parse(text, &options, &doc, NULL) < 0 || !json_is_object(doc.root))
        return;
    json_obj_foreach(doc.root, key, value) {
        if (str_eqz(json_str(key), "Width"))
            (void)!json_to_i64(value, &columns, NULL);
        else if (str_eqz(json_str(key), "Height"))
            (void)!json_to_i64(value, &rows, NULL);
    }
    if (columns > 0 && columns <= UINT16_MAX && rows > 0 && rows <= UINT16_MAX)
        s->runtime->ops->exec_resize(s->x, (uint16_t)columns, (uint16_t)rows);
}

static void kubelet_exec_end_input(struct session *s)
{
    if (!s->input_ended && s->has_stdin && s->x)
        s->runtime->ops->exec_write(s->x, (struct str){0});
    s->input_ended = true;
}

// Stops reading from the client while the command does not read.
static void kubelet_exec_check_input(void *arg)
{
    struct session *s = arg;
    const struct runtime_ops *ops = s->runtime->ops;
    size_t waits = s->x && ops->exec_queued ? ops->exec_queued(s->x) : 0;
    bool hold = waits > (s->input_held ? INPUT_BYTES_HIGH / 2 : INPUT_BYTES_HIGH);
    if (s->q && hold != s->input_held)
        http_hold(s->q, hold);
    s->input_held = hold;
    if (hold)
        exec_timer_start(s->exec, &s->look, INPUT_LOOK_NS);
}

static void kubelet_exec_take_message(struct session *s, struct str bytes)
{
    if (bytes.n == 0)
        return;
    unsigned char channel = (unsigned char)bytes.p[0];
    bytes = str_from(bytes, 1);
    if (channel == CHANNEL_STDIN && s->has_stdin && !s->input_ended && s->x && bytes.n)
        s->runtime->ops->exec_write(s->x, bytes);
    else if (channel == CHANNEL_RESIZE)
        kubelet_exec_resize(s, bytes);
    else if (channel == CHANNEL_CLOSE && s->v5 && bytes.n == 1 && bytes.p[0] == CHANNEL_STDIN)
        kubelet_exec_end_input(s);
}

static void kubelet_exec_on_input(void *arg, struct str bytes)
{
    struct session *s = arg;
    for (;;) {
        struct ws_message m;
        struct err err = {0};
        int r = ws_read(&s->ws, &bytes, &m, &s->out, &err);
        if (r < 0 || (r > 0 && m.op == WS_CLOSE)) {
            kubelet_exec_flush(s); // the peer hears why
            kubelet_exec_detach(s);
            return;
        }
        if (r == 0)
            break;
        kubelet_exec_take_message(s, m.bytes);
    }
    kubelet_exec_flush(s);
    // A client that sends pings and reads no answers is dropped.
    if (s->over && http_queued(s->q) > OUTPUT_BYTES_MAX)
        kubelet_exec_detach(s);
    else
        kubelet_exec_check_input(s);
}

// --- Command output ------------------------------------------------------------------------------

static void kubelet_exec_on_output(void *arg, int stream, struct str bytes)
{
    struct session *s = arg;
    if (!s->q || bytes.n == 0 || !(stream == 2 ? s->has_stderr : s->has_stdout))
        return;
    kubelet_exec_send(s, stream == 2 ? CHANNEL_STDERR : CHANNEL_STDOUT, bytes);
    kubelet_exec_flush(s);
    if (s->over && http_queued(s->q) > OUTPUT_BYTES_MAX)
        s->runtime->ops->exec_cancel(s->x);
}

static void kubelet_exec_on_done(void *arg, int code, int32_t exit_code, const struct err *err)
{
    struct session *s = arg;
    cleanup_sbuf struct sbuf text = {0};
    s->running = false;
    s->x = NULL;
    if (!s->q) {
        kubelet_exec_session_free(s);
        return;
    }
    if (code < 0) {
        sbuf_addf(&text, "error executing command in container: %s", err ? err->msg : "unknown");
        kubelet_exec_send_status(s, "InternalError", sbuf_str(&text), 0);
    } else if (exit_code != 0) {
        sbuf_addf(&text, "command terminated with non-zero exit code: exit status %d", exit_code);
        kubelet_exec_send_status(s, "NonZeroExitCode", sbuf_str(&text), exit_code);
    } else {
        kubelet_exec_send_status(s, NULL, STR(""), 0);
    }
    kubelet_exec_finish(s);
}

// --- Start ---------------------------------------------------------------------------------------

static bool kubelet_exec_query_flag(const struct query *q, const char *name)
{
    return str_eqz(query_str(q, str_z(name)), "1") || str_eqz(query_str(q, str_z(name)), "true");
}

static int kubelet_exec_read_options(const struct query *q, struct session *s, struct err *err)
{
    // kubelet's own names, and those of the API server.
    s->has_stdin = kubelet_exec_query_flag(q, "input") || kubelet_exec_query_flag(q, "stdin");
    s->has_stdout = kubelet_exec_query_flag(q, "output") || kubelet_exec_query_flag(q, "stdout");
    s->has_stderr = kubelet_exec_query_flag(q, "error") || kubelet_exec_query_flag(q, "stderr");
    s->tty = kubelet_exec_query_flag(q, "tty");
    if (s->tty)
        s->has_stderr = false; // a terminal has one output
    if (!s->has_stdin && !s->has_stdout && !s->has_stderr)
        return err_set(err, ERR_BAD_REQUEST,
                       "you must specify at least 1 of stdin, stdout, stderr");
    return 0;
}

static void kubelet_exec_start(struct session *s, const struct kubelet_target *t, struct str id,
                               bool attach)
{
    struct str words[64];
    struct str *command = words;
    size_t n = 0;
    size_t most = t->query.n < COMMAND_WORDS_MAX ? t->query.n : COMMAND_WORDS_MAX;
    if (most > array_len(words))
        command = arena_array(s->q->arena, struct str, most);
    vec_foreach(&t->query, pair)
        if (str_eqz(pair->name, "command") && n < most)
            command[n++] = pair->value;
    struct runtime *r = s->runtime;
    const struct runtime_exec_options o = {.container_id = id,
                                           .command = command,
                                           .command_len = n,
                                           .stdin = s->has_stdin,
                                           .tty = s->tty,
                                           .output = kubelet_exec_on_output,
                                           .done = kubelet_exec_on_done,
                                           .arg = s};
    s->running = true;
    s->x = attach ? r->ops->attach(r, &o) : r->ops->exec(r, &o);
}

// Sends an empty message, by which clients see that the connection is established.
static void kubelet_exec_open_channels(struct session *s)
{
    kubelet_exec_send(s,
                      s->has_stdout   ? CHANNEL_STDOUT
                      : s->has_stderr ? CHANNEL_STDERR
                                      : CHANNEL_STATUS,
                      STR(""));
    kubelet_exec_flush(s);
}

static void kubelet_exec_upgrade(struct session *s, const struct ws_hello *hello)
{
    struct http_header extra[2] = {hello->reply};
    size_t n = 1;
    if (hello->protocol.n)
        extra[n++] = (struct http_header){STR("Sec-WebSocket-Protocol"), hello->protocol};
    s->q->arg = s;
    s->q->closed = kubelet_exec_on_closed;
    s->q->drained = kubelet_exec_on_drained;
    s->q->input = kubelet_exec_on_input;
    list_push_back(&s->h->streams, &s->stream.node);
    http_upgrade(s->q, STR("websocket"), extra, n);
}

static int kubelet_exec_check(struct kubelet_http *h, const struct kubelet_target *t, bool attach,
                              struct kubelet_container *c, struct err *err)
{
    bool command = query_str(&t->query, STR("command")).n > 0;
    int r = h->o.find(h->o.arg, t->namespace, t->pod, t->uid, t->container, c, err);
    if (r < 0)
        return r;
    if (c->id.n == 0 || !c->running)
        return err_set(err, ERR_INTERNAL, "container not found (\"%.*s\")", STR_ARG(t->container));
    if (!attach && !command)
        return err_set(err, ERR_BAD_REQUEST, "you must specify at least one command");
    return 0;
}

void kubelet_exec(struct kubelet_http *h, struct http_request *q, const struct kubelet_target *t,
                  bool attach)
{
    struct session *s = xcalloc(1, sizeof(*s));
    struct kubelet_container c = {0};
    struct ws_hello hello;
    struct err err = {0};
    *s = (struct session){.stream.end = kubelet_exec_on_end,
                          .h = h,
                          .exec = h->exec,
                          .runtime = h->o.runtime,
                          .q = q,
                          .look = {.fn = kubelet_exec_check_input, .arg = s}};
    int r = kubelet_exec_read_options(&t->query, s, &err);
    if (r == 0)
        r = kubelet_exec_check(h, t, attach, &c, &err);
    if (r == 0)
        r = ws_hello(q, protocols, array_len(protocols), &hello, &err);
    if (r == 0 && hello.offered && hello.protocol.n == 0)
        r = err_set(&err, ERR_BAD_REQUEST,
                    "none of the client's protocols is spoken here; v5.channel.k8s.io is");
    if (r < 0) {
        kubelet_reply_error(q, &err);
        free(s);
        return;
    }
    s->v5 = str_eq(hello.protocol, protocols[0]);
    s->plain_errors = !s->v5 && !str_eq(hello.protocol, protocols[1]);
    cleanup_sbuf struct sbuf id = {0};
    sbuf_add(&id, c.id);
    kubelet_exec_upgrade(s, &hello);
    kubelet_exec_open_channels(s);
    kubelet_exec_start(s, t, sbuf_str(&id), attach);
}
