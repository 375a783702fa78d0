// SPDX-License-Identifier: Apache-2.0
//
// A response is read as it comes, cut anywhere. The reader keeps a head until it is whole and
// passes the body on. It is as strict as the server's reader (h1_parse.c) but for line feeds
// without carriage return in a head, which some servers send and RFC 9112 lets a recipient accept.
#include "net/h1_answer.h"

#include "base/banned.h"

// Length of a body piece while chunks are decoded.
#define H1_ANSWER_PIECE ((size_t)16 * 1024)

static int h1_answer_fail(struct err *err, const char *why)
{
    return err_set(err, ERR_BAD_REQUEST, "malformed HTTP response: %s", why);
}

// --- Head ----------------------------------------------------------------------------------------

// h1_answer_take_line moves one line, or what there is of it, to the head. 1: the head is whole.
static int h1_answer_take_line(struct h1_answer *a, struct str *in, struct err *err)
{
    ptrdiff_t feed = str_find_char(*in, '\n');
    size_t n = feed < 0 ? in->n : (size_t)feed + 1;
    if (a->heads + n > H1_ANSWER_HEAD_MAX)
        return h1_answer_fail(err, "the header is too large");
    a->heads += n;
    sbuf_add(&a->head, str_upto(*in, n));
    *in = str_from(*in, n);
    // A peer of another protocol may never send a line feed.
    if (!str_starts(str_upto(sbuf_str(&a->head), 7), str_upto(STR("HTTP/1."), a->head.n)))
        return h1_answer_fail(err, "the peer does not speak HTTP/1.1");
    if (feed < 0)
        return 0;
    size_t length = a->head.n - a->line;
    bool empty = length == 1 || (length == 2 && a->head.p[a->line] == '\r');
    a->line = a->head.n;
    return empty ? 1 : 0;
}

static struct str h1_answer_next_line(struct str *text)
{
    struct str line;
    str_cut(*text, '\n', &line, text);
    if (line.n && line.p[line.n - 1] == '\r')
        line.n--;
    return line;
}

static int h1_answer_parse_status(struct h1_answer *a, struct str line, struct err *err)
{
    struct str version, rest, code, reason;
    uint64_t status = 0;
    (void)str_cut(line, ' ', &version, &rest);
    (void)str_cut(rest, ' ', &code, &reason);
    if (version.n != 8 || version.p[7] < '0' || version.p[7] > '9' || code.n != 3 ||
        str_to_u64(code, &status) < 0 || status < 100 || !h1_is_value(reason))
        return h1_answer_fail(err, "the status line is not \"HTTP/1.1 STATUS REASON\"");
    a->status = (int)status;
    a->minor = version.p[7] == '0' ? 0 : 1;
    return 0;
}

// What the fields say about the message itself.
struct h1_answer_about {
    bool length, chunked, close, keep_alive;
};

static int h1_answer_note_length(struct h1_answer *a, struct str value,
                                 struct h1_answer_about *about, struct err *err)
{
    uint64_t length = 0;
    if (str_to_u64(value, &length) < 0)
        return h1_answer_fail(err, "Content-Length is not a number");
    if (about->length && length != a->left)
        return h1_answer_fail(err, "there are two different Content-Lengths");
    about->length = true;
    a->left = length;
    return 0;
}

static int h1_answer_note_field(struct h1_answer *a, const struct http_header *f,
                                struct h1_answer_about *about, struct err *err)
{
    if (str_eqz(f->name, "content-length"))
        return h1_answer_note_length(a, f->value, about, err);
    if (str_eqz(f->name, "connection")) {
        h1_note_connection(f->value, &about->close, &about->keep_alive);
    } else if (str_eqz(f->name, "transfer-encoding")) {
        if (about->chunked || !h1_same_ignoring_case(f->value, STR("chunked")))
            return h1_answer_fail(err, "unknown Transfer-Encoding; only chunked is supported");
        about->chunked = true;
    }
    return 0;
}

static int h1_answer_choose_framing(struct h1_answer *a, const struct h1_answer_about *about,
                                    struct err *err)
{
    if (about->chunked && about->length)
        return h1_answer_fail(err, "there are both Content-Length and Transfer-Encoding");
    if (about->chunked && a->minor == 0)
        return h1_answer_fail(err, "HTTP/1.0 has no Transfer-Encoding");
    a->keep_alive = !about->close && (a->minor > 0 || about->keep_alive);
    if (a->status == 101 || (a->connect && a->status / 100 == 2)) {
        a->state = H1_ANSWER_LEFT_HTTP;
    } else if (a->head_request || a->status == 204 || a->status == 304) {
        a->state = H1_ANSWER_OVER;
    } else if (about->chunked) {
        a->state = H1_ANSWER_IN_CHUNKS;
    } else if (about->length) {
        a->state = a->left ? H1_ANSWER_IN_LENGTH : H1_ANSWER_OVER;
    } else {
        a->state = H1_ANSWER_UNTIL_EOF;
        a->keep_alive = false;
    }
    return 0;
}

static int h1_answer_parse_fields(struct h1_answer *a, struct str text, struct err *err)
{
    struct h1_answer_about about = {0};
    const char *why = "";
    a->headers = arena_array(&a->arena, struct http_header, H1_FIELDS_MAX);
    a->headers_len = 0;
    while (text.n) {
        struct str line = h1_answer_next_line(&text);
        if (line.n == 0)
            break; // the empty one
        if (a->headers_len == H1_FIELDS_MAX)
            return h1_answer_fail(err, "there are too many header fields");
        struct http_header *f = &a->headers[a->headers_len++];
        char *own = arena_dup(&a->arena, line.p, line.n, 1);
        if (h1_parse_field(own, line.n, f, &why) < 0)
            return h1_answer_fail(err, why);
        int r = h1_answer_note_field(a, f, &about, err);
        if (r < 0)
            return r;
    }
    return h1_answer_choose_framing(a, &about, err);
}

// h1_answer_parse_head reads a whole head. Returns 1 for one of a final response, 0 for an interim
// one.
static int h1_answer_parse_head(struct h1_answer *a, struct err *err)
{
    struct str text = sbuf_str(&a->head);
    int r = h1_answer_parse_status(a, h1_answer_next_line(&text), err);
    bool interim = r == 0 && a->status < 200 && a->status != 101;
    if (r == 0 && !interim)
        r = h1_answer_parse_fields(a, text, err);
    sbuf_clear(&a->head);
    a->line = 0;
    return r < 0 ? r : !interim;
}

static int h1_answer_read_head(struct h1_answer *a, struct str *in, struct err *err)
{
    while (in->n) {
        int r = h1_answer_take_line(a, in, err);
        if (r > 0)
            r = h1_answer_parse_head(a, err);
        if (r < 0)
            return r;
        if (r > 0)
            return H1_ANSWER_HEAD;
    }
    return H1_ANSWER_MORE;
}

// --- Body ----------------------------------------------------------------------------------------

static int h1_answer_read_chunks(struct h1_answer *a, struct str *in, struct str *ret,
                                 struct err *err)
{
    const char *why = "";
    sbuf_clear(&a->piece);
    struct str some = str_upto(*in, H1_ANSWER_PIECE), rest = some;
    int r = h1_read_chunks(&a->chunks, &rest, &a->piece, SIZE_MAX / 2, &why);
    *in = str_from(*in, some.n - rest.n);
    if (r < 0)
        return h1_answer_fail(err, why);
    if (r > 0)
        a->state = H1_ANSWER_OVER;
    *ret = sbuf_str(&a->piece);
    if (ret->n)
        return H1_ANSWER_DATA;
    return r > 0 ? H1_ANSWER_END : H1_ANSWER_MORE;
}

static int h1_answer_read_plain(struct h1_answer *a, struct str *in, struct str *ret)
{
    bool counted = a->state == H1_ANSWER_IN_LENGTH;
    size_t n = counted && a->left < in->n ? (size_t)a->left : in->n;
    *ret = str_upto(*in, n);
    *in = str_from(*in, n);
    if (counted)
        a->left -= n;
    if (counted && a->left == 0)
        a->state = H1_ANSWER_OVER;
    return H1_ANSWER_DATA;
}

int h1_answer_read(struct h1_answer *a, struct str *in, struct str *ret, struct err *err)
{
    int r = H1_ANSWER_MORE;
    *ret = (struct str){0};
    if (a->state == H1_ANSWER_OVER)
        return H1_ANSWER_END;
    if (a->state == H1_ANSWER_LEFT_HTTP)
        return H1_ANSWER_SWITCHED;
    while (in->n && r == H1_ANSWER_MORE) {
        if (a->state == H1_ANSWER_IN_HEAD)
            r = h1_answer_read_head(a, in, err);
        else if (a->state == H1_ANSWER_IN_CHUNKS)
            r = h1_answer_read_chunks(a, in, ret, err);
        else
            r = h1_answer_read_plain(a, in, ret);
    }
    return r;
}

int h1_answer_eof(const struct h1_answer *a, struct err *err)
{
    if (a->state == H1_ANSWER_OVER || a->state == H1_ANSWER_UNTIL_EOF ||
        a->state == H1_ANSWER_LEFT_HTTP)
        return 0;
    if (a->state == H1_ANSWER_IN_HEAD)
        return err_set(err, ERR_UNAVAILABLE, "the peer closed the connection without an answer");
    return err_set(err, ERR_UNAVAILABLE, "the peer closed the connection within the response");
}

struct str h1_answer_find(const struct h1_answer *a, struct str name)
{
    for (size_t i = 0; i < a->headers_len; i++)
        if (str_eq(a->headers[i].name, name))
            return a->headers[i].value;
    return (struct str){0};
}

void h1_answer_done(struct h1_answer *a)
{
    sbuf_done(&a->head);
    sbuf_done(&a->piece);
    arena_done(&a->arena);
}

// --- Requests ------------------------------------------------------------------------------------

bool h1_add_field(struct sbuf *out, struct str name, struct str value)
{
    if (!h1_is_token(name) || !h1_is_value(value))
        return false;
    sbuf_addf(out, "%.*s: ", STR_ARG(name));
    sbuf_add(out, value);
    sbuf_addz(out, "\r\n");
    return true;
}

bool h1_add_request_line(struct sbuf *out, struct str method, struct str target,
                         struct str authority)
{
    if (!h1_is_token(method) || !h1_is_target(target) || !h1_is_value(authority))
        return false;
    sbuf_addf(out, "%.*s ", STR_ARG(method));
    sbuf_add(out, target);
    sbuf_addz(out, " HTTP/1.1\r\n");
    return h1_add_field(out, STR("Host"), authority);
}

void h1_add_authority(struct sbuf *out, struct str host, uint16_t port)
{
    bool six = str_find_char(host, ':') >= 0;
    sbuf_addf(out, "%s%.*s%s:%u", six ? "[" : "", STR_ARG(host), six ? "]" : "", (unsigned)port);
}
