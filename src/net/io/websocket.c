// SPDX-License-Identifier: Apache-2.0
//
// WebSocket framing without I/O, for both ends: bytes in, messages and answers out. Messages are
// bounded, and a violation closes the socket with the code of RFC 6455.
#include "net/websocket.h"

#include <assert.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

#include "base/utf8.h"

#include "base/banned.h"

#define CONTROL_BYTES_MAX ((size_t)125)

static bool is_control(enum ws_op op)
{
    return op >= WS_CLOSE;
}

void ws_done(struct ws *w)
{
    sbuf_done(&w->message);
    sbuf_done(&w->control);
}

// --- Writing -------------------------------------------------------------------------------------

static void add_masked(struct sbuf *out, struct str bytes, const unsigned char *mask, size_t at)
{
    char *to = sbuf_space(out, bytes.n + 1);
    for (size_t i = 0; i < bytes.n; i++)
        to[i] = (char)((unsigned char)bytes.p[i] ^ mask[(at + i) % 4]);
    sbuf_commit(out, bytes.n);
}

static void ws_add_frame_head(struct sbuf *out, enum ws_op op, uint64_t n, bool masked)
{
    unsigned char head[10] = {(unsigned char)(0x80U | (unsigned)op)};
    unsigned char bit = masked ? 0x80 : 0;
    size_t len = 2;
    if (n < 126) {
        head[1] = (unsigned char)(bit | n);
    } else {
        size_t bytes = n <= UINT16_MAX ? 2 : 8;
        head[1] = (unsigned char)(bit | (bytes == 2 ? 126U : 127U));
        for (size_t i = 0; i < bytes; i++)
            head[2 + i] = (unsigned char)(n >> (8 * (bytes - 1 - i)));
        len += bytes;
    }
    sbuf_add(out, str_make((const char *)head, len));
}

static void ws_add_frame(struct ws *w, enum ws_op op, struct str first, struct str rest,
                         struct sbuf *out)
{
    ws_add_frame_head(out, op, (uint64_t)first.n + rest.n, w->rng != NULL);
    if (!w->rng) {
        sbuf_add(out, first);
        sbuf_add(out, rest);
        return;
    }
    unsigned char mask[4];
    rng_fill(w->rng, mask, sizeof(mask));
    sbuf_add(out, str_make((const char *)mask, sizeof(mask)));
    add_masked(out, first, mask, 0);
    add_masked(out, rest, mask, first.n);
}

void ws_write(struct ws *w, enum ws_op op, struct str first, struct str rest, struct sbuf *out)
{
    assert(op == WS_TEXT || op == WS_BINARY || first.n + rest.n <= CONTROL_BYTES_MAX);
    if (!w->closed_out)
        ws_add_frame(w, op, first, rest, out);
}

void ws_write_close(struct ws *w, int code, struct str reason, struct sbuf *out)
{
    if (w->closed_out)
        return;
    const char bytes[2] = {(char)((unsigned)code >> 8), (char)((unsigned)code & 0xff)};
    reason = str_upto(reason, CONTROL_BYTES_MAX - sizeof(bytes));
    while (reason.n && !utf8_valid(reason, NULL))
        reason.n--; // not in the middle of a character
    bool empty = code == WS_NO_CODE;
    ws_add_frame(w, WS_CLOSE, str_make(bytes, empty ? 0 : sizeof(bytes)),
                 empty ? (struct str){0} : reason, out);
    w->closed_out = true;
}

// --- Reading -------------------------------------------------------------------------------------

// Ends it with a close frame that holds the reason.
static int ws_fail(struct ws *w, int close_code, const char *why, struct sbuf *out, struct err *err)
{
    w->closed_in = true;
    ws_write_close(w, close_code, str_z(why), out);
    return err_set(err, close_code == WS_TOO_BIG ? ERR_TOO_LARGE : ERR_BAD_REQUEST,
                   "not a WebSocket as RFC 6455 has it: %s", why);
}

// How long the head is, as far as its first two bytes tell.
static size_t head_size(const unsigned char *head)
{
    unsigned n = head[1] & 0x7fU;
    return 2 + (n == 126 ? 2U : n == 127 ? 8U : 0U) + (head[1] & 0x80U ? 4U : 0U);
}

static uint64_t payload_length(const unsigned char *head, bool *ret_minimal)
{
    unsigned n = head[1] & 0x7fU;
    uint64_t long_n = 0;
    if (n < 126) {
        *ret_minimal = true;
        return n;
    }
    for (size_t i = 0; i < (n == 126 ? 2U : 8U); i++)
        long_n = long_n << 8 | head[2 + i];
    *ret_minimal = n == 126 ? long_n > 125 : long_n > UINT16_MAX && long_n <= INT64_MAX;
    return long_n;
}

// What is wrong with a frame's head; NULL: nothing.
static const char *judge_head(const struct ws *w, uint64_t n, bool minimal)
{
    bool masked = (w->head[1] & 0x80U) != 0;
    if (w->head[0] & 0x70U)
        return "reserved bits are set, and no extension was agreed on";
    if (w->op > WS_PONG || (w->op > WS_BINARY && w->op < WS_CLOSE))
        return "unknown opcode";
    if (masked != (w->rng == NULL))
        return masked ? "a server's frame is masked" : "a client's frame is not masked";
    if (!minimal)
        return "a length is written longer than it must be";
    if (is_control(w->op))
        return w->fin && n <= CONTROL_BYTES_MAX ? NULL : "a control frame is cut or too long";
    if ((w->op == WS_CONTINUATION) != (w->message_op != WS_CONTINUATION))
        return w->op == WS_CONTINUATION ? "nothing to continue" : "the last message has not ended";
    return NULL;
}

// Takes a frame's head. Returns 1 when it is whole, 0 when not yet.
static int ws_read_head(struct ws *w, struct str *in, struct sbuf *out, struct err *err)
{
    while (w->head_len < 2 || w->head_len < head_size(w->head)) {
        if (in->n == 0)
            return 0;
        w->head[w->head_len++] = (unsigned char)in->p[0];
        *in = str_from(*in, 1);
    }
    bool minimal = false;
    w->fin = (w->head[0] & 0x80U) != 0;
    w->op = (enum ws_op)(w->head[0] & 0x0fU);
    w->left = payload_length(w->head, &minimal);
    const char *why = judge_head(w, w->left, minimal);
    if (why)
        return ws_fail(w, WS_PROTOCOL_ERROR, why, out, err);
    size_t most = w->message_max ? w->message_max : WS_MESSAGE_BYTES_MAX;
    if (!is_control(w->op) && w->left > most - w->message.n)
        return ws_fail(w, WS_TOO_BIG, "the message is too long", out, err);
    memcpy(w->mask, w->head + w->head_len - 4, 4); // of no meaning when it is not masked
    w->mask_at = 0;
    w->head_len = 0;
    w->in_payload = true;
    if (!is_control(w->op) && w->op != WS_CONTINUATION)
        w->message_op = w->op;
    return 1;
}

// Takes as much of a frame's payload as there is. True when it is whole.
static bool ws_read_payload(struct ws *w, struct str *in)
{
    struct sbuf *to = is_control(w->op) ? &w->control : &w->message;
    size_t n = in->n < w->left ? in->n : (size_t)w->left;
    struct str part = str_upto(*in, n);
    if (w->rng)
        sbuf_add(to, part);
    else
        add_masked(to, part, w->mask, w->mask_at);
    w->mask_at += n;
    w->left -= n;
    *in = str_from(*in, n);
    if (w->left)
        return false;
    w->in_payload = false;
    return true;
}

static bool close_code_known(int code)
{
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
           (code >= 3000 && code <= 4999);
}

static int take_close(struct ws *w, struct ws_message *ret, struct sbuf *out, struct err *err)
{
    struct str bytes = sbuf_str(&w->control);
    int code = WS_NO_CODE;
    if (bytes.n == 1)
        return ws_fail(w, WS_PROTOCOL_ERROR, "half a close code", out, err);
    if (bytes.n) {
        code = (unsigned char)bytes.p[0] << 8 | (unsigned char)bytes.p[1];
        if (!close_code_known(code))
            return ws_fail(w, WS_PROTOCOL_ERROR, "unknown close code", out, err);
        if (!utf8_valid(str_from(bytes, 2), NULL))
            return ws_fail(w, WS_NOT_UTF8, "a close's reason is not UTF-8", out, err);
    }
    w->closed_in = true;
    ws_write_close(w, code, (struct str){0}, out);
    *ret = (struct ws_message){
        .op = WS_CLOSE, .bytes = bytes.n ? str_from(bytes, 2) : bytes, .close_code = code};
    return 1;
}

// A frame is whole. Returns 1 when it ends a message.
static int take_frame(struct ws *w, struct ws_message *ret, struct sbuf *out, struct err *err)
{
    if (w->op == WS_CLOSE)
        return take_close(w, ret, out, err);
    if (w->op == WS_PING)
        ws_write(w, WS_PONG, sbuf_str(&w->control), (struct str){0}, out);
    if (is_control(w->op)) {
        sbuf_clear(&w->control);
        return 0;
    }
    if (!w->fin)
        return 0;
    *ret = (struct ws_message){.op = w->message_op, .bytes = sbuf_str(&w->message)};
    w->message_op = WS_CONTINUATION;
    w->message_taken = true;
    if (ret->op == WS_TEXT && !utf8_valid(ret->bytes, NULL))
        return ws_fail(w, WS_NOT_UTF8, "a text is not UTF-8", out, err);
    return 1;
}

int ws_read(struct ws *w, struct str *in, struct ws_message *ret, struct sbuf *out, struct err *err)
{
    if (w->message_taken) {
        w->message_taken = false;
        sbuf_clear(&w->message);
    }
    while (!w->closed_in) {
        if (!w->in_payload) {
            int r = ws_read_head(w, in, out, err);
            if (r <= 0)
                return r;
        }
        if (!ws_read_payload(w, in))
            return 0;
        int r = take_frame(w, ret, out, err);
        if (r != 0)
            return r;
    }
    *in = (struct str){0}; // the socket is closed
    return 0;
}

// --- The handshake -------------------------------------------------------------------------------

void ws_accept(struct str key, char ret[29])
{
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    cleanup_sbuf struct sbuf text = {0};
    unsigned char digest[SHA_DIGEST_LENGTH], encoded[32];
    sbuf_add(&text, key);
    sbuf_addz(&text, guid);
    (void)SHA1((const unsigned char *)text.p, text.n, digest);
    int n = EVP_EncodeBlock(encoded, digest, sizeof(digest));
    assert(n == 28);
    memcpy(ret, encoded, 29);
}

static bool ws_same_word(struct str a, struct str b)
{
    for (size_t i = 0; i < a.n && a.n == b.n; i++) {
        unsigned char x = (unsigned char)a.p[i], y = (unsigned char)b.p[i];
        x = x >= 'A' && x <= 'Z' ? (unsigned char)(x + 32) : x;
        y = y >= 'A' && y <= 'Z' ? (unsigned char)(y + 32) : y;
        if (x != y)
            return false;
    }
    return a.n == b.n;
}

bool http_has_token(const struct http_request *q, struct str name, struct str token)
{
    for (size_t i = 0; i < q->headers_len; i++) {
        struct str list = q->headers[i].value;
        if (!str_eq(q->headers[i].name, name))
            continue;
        while (list.n) {
            struct str word;
            str_cut(list, ',', &word, &list);
            if (ws_same_word(str_trim(word), token))
                return true;
        }
    }
    return false;
}

bool ws_wanted(const struct http_request *q)
{
    return http_has_token(q, STR("connection"), STR("upgrade")) &&
           http_has_token(q, STR("upgrade"), STR("websocket"));
}

// A key is 16 bytes in base64: 22 characters of them and the padding.
static bool is_key(struct str key)
{
    unsigned char bytes[20];
    return key.n == 24 && str_ends(key, STR("==")) &&
           EVP_DecodeBlock(bytes, (const unsigned char *)key.p, (int)key.n) >= 0;
}

static void choose_protocol(const struct http_request *q, const struct str *spoken,
                            size_t spoken_len, struct ws_hello *ret)
{
    for (size_t i = 0; i < q->headers_len; i++) {
        struct str list = q->headers[i].value;
        if (!str_eq(q->headers[i].name, STR("sec-websocket-protocol")))
            continue;
        ret->offered = true;
        while (list.n && ret->protocol.n == 0) {
            struct str word;
            str_cut(list, ',', &word, &list);
            word = str_trim(word);
            for (size_t k = 0; k < spoken_len; k++)
                if (str_eq(word, spoken[k]))
                    ret->protocol = spoken[k];
        }
    }
}

int ws_hello(const struct http_request *q, const struct str *spoken, size_t spoken_len,
             struct ws_hello *ret, struct err *err)
{
    struct str key = http_find_header(q, STR("sec-websocket-key"));
    *ret = (struct ws_hello){0};
    if (q->version != 1 || !ws_wanted(q))
        return err_set(err, ERR_BAD_REQUEST,
                       "you must use a WebSocket: GET over HTTP/1.1 with Upgrade: websocket");
    if (!str_eqz(q->method, "GET"))
        return err_set(err, ERR_BAD_REQUEST, "a WebSocket handshake is a GET, not %.*s",
                       STR_ARG(q->method));
    if (!str_eqz(str_trim(http_find_header(q, STR("sec-websocket-version"))), "13"))
        return err_set(err, ERR_BAD_REQUEST,
                       "the WebSocket version must be 13 (Sec-WebSocket-Version)");
    if (!is_key(str_trim(key)))
        return err_set(err, ERR_BAD_REQUEST, "Sec-WebSocket-Key must be 16 random bytes in base64");
    char *accept = arena_alloc(q->arena, 29, 1);
    ws_accept(str_trim(key), accept);
    ret->reply = (struct http_header){STR("Sec-WebSocket-Accept"), str_make(accept, 28)};
    choose_protocol(q, spoken, spoken_len, ret);
    return 0;
}
