// SPDX-License-Identifier: Apache-2.0
//
// A command in a container over the Kubernetes API: a WebSocket with a channel for each stream, and
// a status at the end.
#include "client/remote_exec.h"

#include <stdlib.h>

#include "base/rand.h"
#include "client/remote.h"
#include "codec/base64.h"
#include "codec/json.h"
#include "net/tunnel.h"
#include "net/websocket.h"

#include "base/banned.h"

#define PROTOCOL      "v5.channel.k8s.io"
#define MESSAGE_BYTES ((size_t)32 * 1024 * 1024)

struct remote_exec {
    struct remote_exec_options o;
    struct tunnel *tunnel; // NULL: it has closed
    struct ws ws;
    struct sbuf out;
    bool opened, told, input_ended;
};

// --- The end -------------------------------------------------------------------------------------

static int exit_status_of(const yyjson_val *status)
{
    const yyjson_val *details = json_get(status, STR("details"));
    const yyjson_val *causes = details ? json_get(details, STR("causes")) : NULL;
    uint64_t n = 0;
    if (!causes || !json_is_array(causes))
        return -1;
    json_arr_foreach(causes, c) {
        const yyjson_val *reason = json_get(c, STR("reason"));
        const yyjson_val *message = json_get(c, STR("message"));
        if (reason && message && json_is_string(reason) && json_is_string(message) &&
            str_eqz(json_str(reason), "ExitCode") && str_to_u64(json_str(message), &n) == 0 &&
            n <= 255)
            return (int)n;
    }
    return -1;
}

int remote_exec_status(struct str text, int *ret_exit_status, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    if (json_parse(text, NULL, &doc, NULL) < 0)
        return err_set(err, ERR_INTERNAL, "%.*s", STR_ARG(text)); // before v4 it was plain text
    const yyjson_val *status = json_get(doc.root, STR("status"));
    const yyjson_val *message = json_get(doc.root, STR("message"));
    if (status && json_is_string(status) && str_eqz(json_str(status), "Success")) {
        *ret_exit_status = 0;
        return 0;
    }
    int code = exit_status_of(doc.root);
    if (code >= 0) {
        *ret_exit_status = code;
        return 0;
    }
    return err_set(err, ERR_INTERNAL, "%.*s",
                   STR_ARG(message && json_is_string(message) ? json_str(message)
                                                              : STR("the command failed")));
}

// remote_exec_report_end reports how it ended, once. Nothing may be touched afterwards: the owner
// may have freed it.
static void remote_exec_report_end(struct remote_exec *x, int code, int exit_status,
                                   const struct err *err)
{
    if (x->told)
        return;
    x->told = true;
    x->o.done(x->o.arg, code, exit_status, err);
}

static void remote_exec_on_status(struct remote_exec *x, struct str text)
{
    struct err err = {0};
    int exit_status = 0;
    int code = remote_exec_status(text, &exit_status, &err);
    remote_exec_report_end(x, code, exit_status, &err);
}

// --- From the server -----------------------------------------------------------------------------

static void on_message(struct remote_exec *x, const struct ws_message *m)
{
    struct err err = {0};
    if (m->op == WS_CLOSE) {
        int code = err_set(&err, ERR_UNAVAILABLE, "the server ended it: %.*s", STR_ARG(m->bytes));
        remote_exec_report_end(x, code, 0, &err);
        return;
    }
    if (m->bytes.n < 2)
        return; // a channel that has just been opened
    struct str rest = str_from(m->bytes, 1);
    switch ((unsigned char)m->bytes.p[0]) {
    case CHANNEL_STDOUT:
    case CHANNEL_STDERR:
        x->o.output(x->o.arg, m->bytes.p[0] == CHANNEL_STDERR, rest);
        break;
    case CHANNEL_STATUS:
        remote_exec_on_status(x, rest);
        break;
    default:
        break;
    }
}

static bool remote_exec_flush_output(struct remote_exec *x)
{
    bool room = true;
    if (x->out.n && x->tunnel)
        room = tunnel_write(x->tunnel, sbuf_str(&x->out));
    sbuf_clear(&x->out);
    return room;
}

static void remote_exec_on_input(void *arg, struct str bytes)
{
    struct remote_exec *x = arg;
    struct ws_message m;
    struct err err = {0};
    int r = 0;
    while (!x->told && (r = ws_read(&x->ws, &bytes, &m, &x->out, &err)) > 0)
        on_message(x, &m);
    (void)remote_exec_flush_output(x);
    if (r < 0)
        remote_exec_report_end(x, r, 0, &err);
}

static void remote_exec_on_opened(void *arg, const struct http_header *headers, size_t headers_len)
{
    struct remote_exec *x = arg;
    (void)headers;
    (void)headers_len;
    x->opened = true;
    x->o.opened(x->o.arg);
}

static void on_refused(void *arg, int status, struct str content_type, struct str body)
{
    struct remote_exec *x = arg;
    struct err err = {0};
    (void)content_type;
    x->tunnel = NULL;
    int r = client_remote_status(status, body, &err);
    if (r == 0)
        r = err_set(&err, ERR_UNSUPPORTED, "the server answered %d and did not switch protocols",
                    status);
    remote_exec_report_end(x, r, 0, &err);
}

static void remote_exec_on_closed(void *arg, const struct err *err)
{
    struct remote_exec *x = arg;
    struct err gone = {0};
    x->tunnel = NULL;
    (void)err_set(&gone, ERR_UNAVAILABLE, "the connection ended before the command");
    remote_exec_report_end(x, err ? -err->code : -ERR_UNAVAILABLE, 0, err ? err : &gone);
}

static void remote_exec_on_drained(void *arg)
{
    struct remote_exec *x = arg;
    x->o.drained(x->o.arg);
}

// --- To the server -------------------------------------------------------------------------------

static bool send_on(struct remote_exec *x, enum channel channel, struct str bytes)
{
    const char number = (char)channel;
    ws_write(&x->ws, WS_BINARY, str_make(&number, 1), bytes, &x->out);
    return remote_exec_flush_output(x);
}

bool remote_exec_input(struct remote_exec *x, struct str bytes)
{
    static const char input = CHANNEL_STDIN;
    if (!x->opened || x->input_ended)
        return true;
    if (bytes.n)
        return send_on(x, CHANNEL_STDIN, bytes);
    x->input_ended = true;
    return send_on(x, CHANNEL_CLOSE, str_make(&input, 1));
}

void remote_exec_resize(struct remote_exec *x, size_t columns, size_t rows)
{
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text, "{\"Width\":%zu,\"Height\":%zu}", columns, rows);
    if (x->opened)
        (void)send_on(x, CHANNEL_RESIZE, sbuf_str(&text));
}

// --- Life ----------------------------------------------------------------------------------------

int remote_exec_new(struct client *c, const struct remote_exec_options *options,
                    struct remote_exec **ret, struct err *err)
{
    unsigned char random[16];
    cleanup_sbuf struct sbuf key = {0};
    rng_fill(c->exec->rng, random, sizeof(random));
    base64_encode(str_make((const char *)random, sizeof(random)), BASE64_STD, &key);
    const struct http_header headers[] = {
        {STR("Upgrade"), STR("websocket")},         {STR("Sec-WebSocket-Version"), STR("13")},
        {STR("Sec-WebSocket-Key"), sbuf_str(&key)}, {STR("Sec-WebSocket-Protocol"), STR(PROTOCOL)},
        {STR("User-Agent"), STR("dray")},
    };
    struct remote_exec *x = xcalloc(1, sizeof(*x));
    x->o = *options;
    x->ws = (struct ws){.rng = c->exec->rng, .message_max = MESSAGE_BYTES};
    const struct tunnel_options o = {.method = STR("GET"),
                                     .target = options->target,
                                     .headers = headers,
                                     .headers_len = array_len(headers),
                                     .opened = remote_exec_on_opened,
                                     .refused = on_refused,
                                     .input = remote_exec_on_input,
                                     .drained = remote_exec_on_drained,
                                     .closed = remote_exec_on_closed,
                                     .arg = x};
    int r = client_remote_tunnel(c, &o, &x->tunnel, err);
    if (r < 0) {
        free(x);
        return r;
    }
    *ret = x;
    return 0;
}

void remote_exec_free(struct remote_exec *x)
{
    if (!x)
        return;
    if (x->tunnel)
        tunnel_close(x->tunnel);
    ws_done(&x->ws);
    sbuf_done(&x->out);
    free(x);
}
