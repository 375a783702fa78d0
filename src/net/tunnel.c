// SPDX-License-Identifier: Apache-2.0
#include "net/tunnel.h"

#include <assert.h>
#include <stdlib.h>

#include "base/vec.h"
#include "net/h1_parse.h"

#include "base/banned.h"

#define ANSWER_NS      (30 * CLOCK_NS_PER_SEC)
#define HEAD_BYTES_MAX ((size_t)64 * 1024)
#define FIELDS_MAX     ((size_t)128)

enum tunnel_state { WAITING, REFUSING, OPEN };

struct tunnel {
    struct tunnel_options o;
    struct exec *exec;
    struct dial *dial; // NULL: it has closed
    enum tunnel_state state;
    struct exec_timer timer;
    struct sbuf in; // the head; then the body of a refusal, as it came
    size_t heads;   // bytes of heads so far: a peer may send any number of 1xx before its answer
    struct sbuf body;
    struct h1_chunks chunks;
    struct arena arena;
    int status;
    struct str content_type;
    bool chunked, has_length;
    uint64_t left;
    bool drained_due; // was drained before it was open
    bool closed;      // nobody is told anything any more
    int busy;
};

// --- Life ----------------------------------------------------------------------------------------

static void release(struct tunnel *t)
{
    if (t->busy > 0)
        return;
    exec_timer_stop(t->exec, &t->timer);
    sbuf_done(&t->in);
    sbuf_done(&t->body);
    arena_done(&t->arena);
    free(t);
}

static void leave(struct tunnel *t)
{
    if (--t->busy == 0 && t->closed)
        release(t);
}

void tunnel_close(struct tunnel *t)
{
    t->closed = true;
    if (t->dial)
        dial_close(take_ptr(t->dial));
    release(t);
}

void tunnel_end(struct tunnel *t)
{
    t->closed = true;
    if (t->dial)
        dial_end(take_ptr(t->dial));
    release(t);
}

static void fail(struct tunnel *t, const struct err *err)
{
    if (!t->closed) {
        t->closed = true;
        t->o.closed(t->o.arg, err);
    }
    if (t->dial)
        dial_close(take_ptr(t->dial));
}

static void on_closed(void *arg, const struct err *err);

static void on_timeout(void *arg)
{
    struct tunnel *t = arg;
    struct err err = {0};
    t->busy++;
    err_record(&err, ERR_TIMEOUT, "the peer did not answer in time");
    fail(t, &err);
    leave(t);
}

bool tunnel_write(struct tunnel *t, struct str bytes)
{
    return !t->dial || dial_write(t->dial, bytes);
}

void tunnel_hold(struct tunnel *t, bool hold)
{
    if (t->dial)
        dial_hold(t->dial, hold);
}

// --- The answer ----------------------------------------------------------------------------------

struct fields VEC(struct http_header);

static int take_field(struct str line, struct arena *a, struct fields *ret, struct err *err)
{
    struct str name, value;
    if (!str_cut(line, ':', &name, &value) || !h1_is_token(name) || ret->n == FIELDS_MAX)
        return err_set(err, ERR_BAD_REQUEST, "the peer's answer has a line that is no header");
    char *lower = arena_dup(a, name.p, name.n, 1);
    for (size_t i = 0; i < name.n; i++)
        if (lower[i] >= 'A' && lower[i] <= 'Z')
            lower[i] = (char)(lower[i] + ('a' - 'A'));
    vec_push_arena(a, ret,
                   ((struct http_header){str_make(lower, name.n), arena_str(a, str_trim(value))}));
    return 0;
}

static struct str next_line(struct str *text)
{
    struct str line;
    str_cut(*text, '\n', &line, text);
    if (line.n && line.p[line.n - 1] == '\r')
        line.n--;
    return line;
}

int tunnel_parse_answer(struct str head, struct arena *a, int *ret_status,
                        const struct http_header **ret_headers, size_t *ret_len, struct err *err)
{
    struct str first = next_line(&head), word, rest;
    struct fields fields = {0};
    uint64_t status = 0;
    str_cut(first, ' ', &word, &rest);
    if (!str_starts(word, STR("HTTP/1.")) || str_to_u64(str_upto(rest, 3), &status) < 0 ||
        status < 100 || status > 599)
        return err_set(err, ERR_BAD_REQUEST, "the peer does not answer with HTTP/1.1");
    while (head.n) {
        struct str line = next_line(&head);
        int r = line.n ? take_field(line, a, &fields, err) : 0;
        if (r < 0)
            return r;
    }
    *ret_status = (int)status;
    *ret_headers = fields.p;
    *ret_len = fields.n;
    return 0;
}

static struct str find_field(const struct http_header *headers, size_t n, struct str name)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(headers[i].name, name))
            return headers[i].value;
    return (struct str){0};
}

static void refused(struct tunnel *t)
{
    if (t->closed)
        return;
    t->closed = true;
    t->o.refused(t->o.arg, t->status, t->content_type,
                 str_upto(sbuf_str(&t->body), TUNNEL_REFUSAL_BYTES));
    if (t->dial)
        dial_close(take_ptr(t->dial));
}

// More of a refusal's body has come.
static void read_refusal(struct tunnel *t)
{
    struct str in = sbuf_str(&t->in);
    bool whole = false;
    if (t->chunked) {
        const char *why = "";
        whole = h1_read_chunks(&t->chunks, &in, &t->body, TUNNEL_REFUSAL_BYTES, &why) != 0;
    } else {
        size_t n = t->has_length && t->left < in.n ? (size_t)t->left : in.n;
        sbuf_add(&t->body, str_upto(in, n));
        t->left -= n;
        whole = t->has_length && t->left == 0;
    }
    sbuf_clear(&t->in);
    if (whole || t->body.n >= TUNNEL_REFUSAL_BYTES)
        refused(t);
}

// The head of the answer, without what is behind it, which t->in keeps.
static void read_answer(struct tunnel *t, struct str head)
{
    const struct http_header *headers = NULL;
    size_t n = 0;
    struct err err = {0};
    int r = tunnel_parse_answer(head, &t->arena, &t->status, &headers, &n, &err);
    if (r < 0) {
        fail(t, &err);
        return;
    }
    if (t->status == 101) {
        t->state = OPEN;
        exec_timer_stop(t->exec, &t->timer);
        t->o.opened(t->o.arg, headers, n);
        if (!t->closed && t->drained_due && t->o.drained)
            t->o.drained(t->o.arg);
        return;
    }
    if (t->status < 200) {
        t->state = WAITING; // 100 Continue: the answer is still to come
        return;
    }
    struct str length = find_field(headers, n, STR("content-length"));
    t->state = REFUSING;
    t->content_type = find_field(headers, n, STR("content-type"));
    t->has_length = length.n && str_to_u64(length, &t->left) == 0;
    t->chunked = str_eq(find_field(headers, n, STR("transfer-encoding")), STR("chunked"));
}

static void on_input(void *arg, struct str bytes)
{
    struct tunnel *t = arg;
    t->busy++;
    if (t->state == OPEN) {
        t->o.input(t->o.arg, bytes);
        leave(t);
        return;
    }
    sbuf_add(&t->in, bytes);
    while (t->state == WAITING && !t->closed) {
        ptrdiff_t end = str_find(sbuf_str(&t->in), STR("\r\n\r\n"));
        struct err err = {0};
        size_t n = end < 0 ? t->in.n : (size_t)end + 4;
        if (t->heads + n > HEAD_BYTES_MAX) {
            err_record(&err, ERR_BAD_REQUEST, "the peer's answer has too large a head");
            fail(t, &err);
            break;
        }
        if (end < 0)
            break;
        t->heads += n;
        struct sbuf all = t->in;
        t->in = (struct sbuf){0};
        sbuf_add(&t->in, str_from(sbuf_str(&all), n));
        read_answer(t, str_upto(sbuf_str(&all), n));
        sbuf_done(&all);
    }
    if (t->state == REFUSING && !t->closed)
        read_refusal(t);
    if (t->state == OPEN && !t->closed && t->in.n) {
        struct sbuf rest = t->in;
        t->in = (struct sbuf){0};
        t->o.input(t->o.arg, sbuf_str(&rest));
        sbuf_done(&rest);
    }
    leave(t);
}

static void on_closed(void *arg, const struct err *err)
{
    struct tunnel *t = arg;
    struct err early = {0};
    t->busy++;
    t->dial = NULL;
    err_record(&early, ERR_UNAVAILABLE, "the peer closed the connection without an answer");
    if (t->state == REFUSING)
        refused(t);
    else
        fail(t, err || t->state == OPEN ? err : &early);
    leave(t);
}

static void on_drained(void *arg)
{
    struct tunnel *t = arg;
    t->busy++;
    t->drained_due = t->state != OPEN;
    if (t->state == OPEN && t->o.drained)
        t->o.drained(t->o.arg);
    leave(t);
}

static void on_connected(void *arg)
{
    struct tunnel *t = arg;
    exec_timer_start(t->exec, &t->timer, t->o.timeout_ns > 0 ? t->o.timeout_ns : ANSWER_NS);
}

// --- The request ---------------------------------------------------------------------------------

static void send_request(struct tunnel *t, const struct tunnel_options *o)
{
    cleanup_sbuf struct sbuf b = {0};
    bool six = str_find_char(o->host, ':') >= 0;
    sbuf_addf(&b, "%.*s %.*s HTTP/1.1\r\nHost: %s%.*s%s:%u\r\nConnection: Upgrade\r\n",
              STR_ARG(o->method), STR_ARG(o->target), six ? "[" : "", STR_ARG(o->host),
              six ? "]" : "", (unsigned)o->port);
    if (str_eqz(o->method, "POST"))
        sbuf_addz(&b, "Content-Length: 0\r\n");
    for (size_t i = 0; i < o->headers_len; i++)
        sbuf_addf(&b, "%.*s: %.*s\r\n", STR_ARG(o->headers[i].name), STR_ARG(o->headers[i].value));
    sbuf_addz(&b, "\r\n");
    (void)dial_write(t->dial, sbuf_str(&b));
}

struct tunnel *tunnel_new(const struct tunnel_options *options)
{
    struct tunnel *t = xcalloc(1, sizeof(*t));
    t->o = *options;
    t->exec = loop_exec(options->loop);
    t->timer.fn = on_timeout;
    t->timer.arg = t;
    const struct dial_options d = {.loop = options->loop,
                                   .host = options->host,
                                   .port = options->port,
                                   .tls = options->tls,
                                   .server_name = options->server_name,
                                   .timeout_ns = options->timeout_ns,
                                   .connected = on_connected,
                                   .input = on_input,
                                   .drained = on_drained,
                                   .closed = on_closed,
                                   .arg = t};
    t->dial = dial_new(&d);
    send_request(t, options);
    return t;
}
