// SPDX-License-Identifier: Apache-2.0
//
// HTTP/1.1 syntax as pure functions over bytes: heads, targets, chunks. Strict on purpose: a
// request that two parsers could read differently is refused (request smuggling).
#include "net/http/h1_parse.h"

#include <assert.h>
#include <limits.h>

#include "base/str.h"

#include "base/banned.h"

// Classes of bytes (RFC 9110, 9112, 3986).
enum {
    TOKEN = 1,  // tchar
    TARGET = 2, // what may stand in a request target: visible ASCII but " # < > \ ^ ` { | }
    VALUE = 4,  // field values: visible, space, tab, bytes past ASCII
};

#define T (TOKEN | TARGET | VALUE)
#define K (TOKEN | VALUE)
#define R (TARGET | VALUE)
#define V VALUE
static const uint8_t classes[256] = {
    ['\t'] = V,        [' '] = V, ['!'] = T, ['"'] = V, ['#'] = K, ['$'] = T,  ['%'] = T, ['&'] = T,
    ['\''] = T,        ['('] = R, [')'] = R, ['*'] = T, ['+'] = T, [','] = R,  ['-'] = T, ['.'] = T,
    ['/'] = R,         ['0'] = T, ['1'] = T, ['2'] = T, ['3'] = T, ['4'] = T,  ['5'] = T, ['6'] = T,
    ['7'] = T,         ['8'] = T, ['9'] = T, [':'] = R, [';'] = R, ['<'] = V,  ['='] = R, ['>'] = V,
    ['?'] = R,         ['@'] = R, ['A'] = T, ['B'] = T, ['C'] = T, ['D'] = T,  ['E'] = T, ['F'] = T,
    ['G'] = T,         ['H'] = T, ['I'] = T, ['J'] = T, ['K'] = T, ['L'] = T,  ['M'] = T, ['N'] = T,
    ['O'] = T,         ['P'] = T, ['Q'] = T, ['R'] = T, ['S'] = T, ['T'] = T,  ['U'] = T, ['V'] = T,
    ['W'] = T,         ['X'] = T, ['Y'] = T, ['Z'] = T, ['['] = R, ['\\'] = V, [']'] = R, ['^'] = K,
    ['_'] = T,         ['`'] = K, ['a'] = T, ['b'] = T, ['c'] = T, ['d'] = T,  ['e'] = T, ['f'] = T,
    ['g'] = T,         ['h'] = T, ['i'] = T, ['j'] = T, ['k'] = T, ['l'] = T,  ['m'] = T, ['n'] = T,
    ['o'] = T,         ['p'] = T, ['q'] = T, ['r'] = T, ['s'] = T, ['t'] = T,  ['u'] = T, ['v'] = T,
    ['w'] = T,         ['x'] = T, ['y'] = T, ['z'] = T, ['{'] = V, ['|'] = K,  ['}'] = V, ['~'] = T,
    [128 ... 255] = V,
};
#undef T
#undef K
#undef R
#undef V

static bool is_class(char c, int class)
{
    return (classes[(unsigned char)c] & class) != 0;
}

static bool all_class(struct str s, int class)
{
    for (size_t i = 0; i < s.n; i++)
        if (!is_class(s.p[i], class))
            return false;
    return true;
}

bool h1_is_token(struct str s)
{
    return s.n > 0 && all_class(s, TOKEN);
}

bool h1_is_value(struct str s)
{
    return all_class(s, VALUE);
}

bool h1_is_target(struct str s)
{
    return s.n > 0 && all_class(s, TARGET);
}

static int h1_parse_refuse_head(int status, const char *why, const char **ret_why)
{
    assert(status >= 400 && status < 600);
    *ret_why = why;
    return -status;
}

static char h1_parse_lower_char(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

bool h1_same_ignoring_case(struct str s, struct str lower_case)
{
    if (s.n != lower_case.n)
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (h1_parse_lower_char(s.p[i]) != lower_case.p[i])
            return false;
    return true;
}

// --- The head ------------------------------------------------------------------------------------

static int h1_parse_too_long(const struct h1_scan *scan, const char **ret_why)
{
    if (scan->line == scan->skip)
        return h1_parse_refuse_head(414, "the request line is too long", ret_why);
    return h1_parse_refuse_head(431, "the header fields are too large", ret_why);
}

int h1_find_head(struct str bytes, size_t limit, struct h1_scan *scan, const char **ret_why)
{
    assert(limit < INT_MAX);
    if (bytes.n && scan->seen == 0 && bytes.p[0] != '\r' && !is_class(bytes.p[0], TOKEN))
        return h1_parse_refuse_head(400, "this is not HTTP (is it TLS? then use the port without)",
                                    ret_why);
    while (scan->seen < bytes.n) {
        const char *feed = memchr(bytes.p + scan->seen, '\n', bytes.n - scan->seen);
        size_t end = feed ? (size_t)(feed - bytes.p) + 1 : bytes.n;
        if (end > limit)
            return h1_parse_too_long(scan, ret_why);
        scan->seen = end;
        if (!feed)
            break;
        if (end - scan->line < 2 || bytes.p[end - 2] != '\r')
            return h1_parse_refuse_head(400, "a line ends in a line feed without carriage return",
                                        ret_why);
        bool empty = end - scan->line == 2;
        if (!empty && bytes.p[scan->line] == '\r')
            return h1_parse_refuse_head(400, "a line begins with a carriage return", ret_why);
        if (empty && scan->line > scan->skip)
            return (int)end;
        if (empty && scan->skip > 0)
            return h1_parse_refuse_head(400, "empty lines instead of a request", ret_why);
        if (empty)
            scan->skip = end;
        scan->line = end;
    }
    return 0;
}

static int parse_version(struct str v, int *ret_minor, const char **ret_why)
{
    if (v.n != 8 || memcmp(v.p, "HTTP/", 5) != 0 || v.p[5] < '0' || v.p[5] > '9' || v.p[6] != '.' ||
        v.p[7] < '0' || v.p[7] > '9')
        return h1_parse_refuse_head(400, "the request line does not end in an HTTP version",
                                    ret_why);
    if (v.p[5] != '1')
        return h1_parse_refuse_head(505, "only HTTP/1.0, HTTP/1.1 and HTTP/2 are spoken here",
                                    ret_why);
    *ret_minor = v.p[7] == '0' ? 0 : 1;
    return 0;
}

static int parse_request_line(struct str line, struct h1_head *h, const char **ret_why)
{
    struct str rest, version;
    if (!str_cut(line, ' ', &h->method, &rest) || !str_cut(rest, ' ', &h->target, &version))
        return h1_parse_refuse_head(400, "the request line is not \"METHOD TARGET VERSION\"",
                                    ret_why);
    if (!h1_is_token(h->method))
        return h1_parse_refuse_head(400, "the method is not a token", ret_why);
    if (!h1_is_target(h->target))
        return h1_parse_refuse_head(400, "the request target has characters that must be escaped",
                                    ret_why);
    if (h->target.n > H1_TARGET_MAX)
        return h1_parse_refuse_head(414, "the request target is too long", ret_why);
    if (h->method.n > H1_METHOD_MAX)
        return h1_parse_refuse_head(501, "the method is unknown", ret_why);
    return parse_version(version, &h->minor, ret_why);
}

static struct str trim_blanks(struct str s)
{
    while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
        s = str_from(s, 1);
    while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
        s.n--;
    return s;
}

int h1_parse_field(char *line, size_t n, struct http_header *ret, const char **ret_why)
{
    struct str s = {line, n};
    ptrdiff_t colon = str_find_char(s, ':');
    if (n && (line[0] == ' ' || line[0] == '\t'))
        return h1_parse_refuse_head(400, "a header field is folded over lines", ret_why);
    if (colon <= 0)
        return h1_parse_refuse_head(400, "a header field has no name", ret_why);
    ret->name = str_upto(s, (size_t)colon);
    ret->value = trim_blanks(str_from(s, (size_t)colon + 1));
    if (!all_class(ret->name, TOKEN))
        return h1_parse_refuse_head(400, "a header field's name has characters it must not have",
                                    ret_why);
    if (!all_class(ret->value, VALUE))
        return h1_parse_refuse_head(400, "a header field's value has characters it must not have",
                                    ret_why);
    for (size_t i = 0; i < ret->name.n; i++)
        line[i] = h1_parse_lower_char(line[i]);
    return 0;
}

// What the fields say about the message itself.
struct about {
    bool host, length, chunked, close, keep_alive;
};

static int note_length(struct str value, struct h1_head *h, struct about *about,
                       const char **ret_why)
{
    uint64_t length = 0;
    if (str_to_u64(value, &length) < 0)
        return h1_parse_refuse_head(400, "Content-Length is not a number", ret_why);
    if (about->length && length != h->length)
        return h1_parse_refuse_head(400, "there are two different Content-Lengths", ret_why);
    about->length = true;
    h->length = length;
    return 0;
}

void h1_note_connection(struct str value, bool *close, bool *keep_alive)
{
    for (struct str item; value.n;) {
        (void)str_cut(value, ',', &item, &value);
        item = trim_blanks(item);
        *close |= h1_same_ignoring_case(item, STR("close"));
        *keep_alive |= h1_same_ignoring_case(item, STR("keep-alive"));
    }
}

static int note_encoding(struct str value, struct about *about, const char **ret_why)
{
    if (about->chunked)
        return h1_parse_refuse_head(400, "there are two Transfer-Encodings", ret_why);
    if (!h1_same_ignoring_case(value, STR("chunked")))
        return h1_parse_refuse_head(501, "the only transfer coding known here is chunked", ret_why);
    about->chunked = true;
    return 0;
}

static int note_field(const struct http_header *f, struct h1_head *h, struct about *about,
                      const char **ret_why)
{
    switch (f->name.n) {
    case 4:
        if (!str_eqz(f->name, "host"))
            return 0;
        if (about->host)
            return h1_parse_refuse_head(400, "there are two Host fields", ret_why);
        about->host = true;
        return 0;
    case 6:
        if (!str_eqz(f->name, "expect"))
            return 0;
        if (!h1_same_ignoring_case(f->value, STR("100-continue")))
            return h1_parse_refuse_head(417, "the only expectation known here is 100-continue",
                                        ret_why);
        h->expect_continue = true;
        return 0;
    case 10:
        if (str_eqz(f->name, "connection"))
            h1_note_connection(f->value, &about->close, &about->keep_alive);
        return 0;
    case 14:
        return str_eqz(f->name, "content-length") ? note_length(f->value, h, about, ret_why) : 0;
    case 17:
        return str_eqz(f->name, "transfer-encoding") ? note_encoding(f->value, about, ret_why) : 0;
    default:
        return 0;
    }
}

static int h1_parse_conclude_head(struct h1_head *h, const struct about *about,
                                  const char **ret_why)
{
    if (h->minor > 0 && !about->host)
        return h1_parse_refuse_head(400, "there is no Host field", ret_why);
    if (about->chunked && about->length)
        return h1_parse_refuse_head(400, "there are both Content-Length and Transfer-Encoding",
                                    ret_why);
    if (about->chunked && h->minor == 0)
        return h1_parse_refuse_head(400, "HTTP/1.0 has no Transfer-Encoding", ret_why);
    if (about->chunked)
        h->framing = H1_CHUNKED;
    else
        h->framing = h->length > 0 ? H1_LENGTH : H1_NO_BODY;
    h->keep_alive = !about->close && (h->minor > 0 || about->keep_alive);
    h->expect_continue &= h->minor > 0 && h->framing != H1_NO_BODY;
    return 0;
}

static size_t count_lines(const char *p, size_t n)
{
    size_t lines = 0;
    for (const char *end = p + n, *at = p; (at = memchr(at, '\n', (size_t)(end - at))); at++)
        lines++;
    return lines;
}

int h1_parse_head(char *bytes, size_t n, struct arena *a, struct h1_head *ret, const char **ret_why)
{
    *ret = (struct h1_head){0};
    size_t at = n >= 2 && bytes[0] == '\r' ? 2 : 0; // the empty line h1_find_head let pass
    assert(n >= at + 4 && memcmp(bytes + n - 4, "\r\n\r\n", 4) == 0);
    size_t fields = count_lines(bytes + at, n - at) - 2;
    if (fields > H1_FIELDS_MAX)
        return h1_parse_refuse_head(431, "there are too many header fields", ret_why);
    ret->headers = arena_array(a, struct http_header, fields);
    struct about about = {0};
    for (size_t line = 0; line <= fields; line++) {
        const char *feed = memchr(bytes + at, '\n', n - at);
        assert(feed);
        size_t len = (size_t)(feed - (bytes + at)) - 1;
        int r;
        if (line == 0) {
            r = parse_request_line(str_make(bytes + at, len), ret, ret_why);
        } else {
            struct http_header *f = &ret->headers[ret->headers_len++];
            r = h1_parse_field(bytes + at, len, f, ret_why);
            if (r == 0)
                r = note_field(f, ret, &about, ret_why);
        }
        if (r < 0)
            return r;
        at += len + 2;
    }
    return h1_parse_conclude_head(ret, &about, ret_why);
}

// --- The target ----------------------------------------------------------------------------------

static int h1_parse_decode_percent(struct str s, struct arena *a, struct str *ret,
                                   const char **ret_why)
{
    if (str_find_char(s, '%') < 0) {
        *ret = s;
        return 0;
    }
    char *to = arena_alloc(a, s.n, 1);
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        to[n] = s.p[i];
        if (s.p[i] == '%') {
            int high = i + 2 < s.n ? str_hex_digit(s.p[i + 1]) : -1;
            int low = i + 2 < s.n ? str_hex_digit(s.p[i + 2]) : -1;
            if (high < 0 || low < 0)
                return h1_parse_refuse_head(
                    400, "the path has a % that is not followed by two hex digits", ret_why);
            to[n] = (char)(high * 16 + low);
            i += 2;
        }
        if (to[n++] == '\0')
            return h1_parse_refuse_head(400, "the path has a NUL in it", ret_why);
    }
    *ret = str_make(to, n);
    return 0;
}

// The absolute form names a host as well; which one is of no interest here.
static struct str without_authority(struct str target)
{
    struct str rest = {0};
    if (str_starts(target, STR("http://")))
        rest = str_from(target, 7);
    else if (str_starts(target, STR("https://")))
        rest = str_from(target, 8);
    else
        return target;
    size_t i = 0;
    while (i < rest.n && rest.p[i] != '/' && rest.p[i] != '?')
        i++;
    return i == 0 ? target : i == rest.n ? STR("/") : str_from(rest, i);
}

int h1_split_target(struct str method, struct str target, struct arena *a, struct str *ret_path,
                    struct str *ret_query, const char **ret_why)
{
    if (str_eqz(method, "CONNECT"))
        return h1_parse_refuse_head(501, "this is not a proxy", ret_why);
    *ret_query = (struct str){0};
    if (str_eqz(target, "*") && str_eqz(method, "OPTIONS")) {
        *ret_path = target;
        return 0;
    }
    target = without_authority(target);
    if (!all_class(target, TARGET))
        return h1_parse_refuse_head(400, "the request target has characters that must be escaped",
                                    ret_why);
    struct str path;
    (void)str_cut(target, '?', &path, ret_query);
    if (path.n == 0 && target.n > 0)
        path = STR("/"); // http://host?query
    if (path.n == 0 || path.p[0] != '/')
        return h1_parse_refuse_head(400, "the request target does not begin with a slash", ret_why);
    return h1_parse_decode_percent(path, a, ret_path, ret_why);
}

// --- Chunked bodies ------------------------------------------------------------------------------

enum {
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    TRAILER_START, // of a line
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    TRAILER_END_LF,
};

static int size_byte(struct h1_chunks *c, char b, const char **ret_why)
{
    int digit = str_hex_digit(b);
    if (digit >= 0) {
        if (c->left >> 56)
            return h1_parse_refuse_head(400, "a chunk's size is too large", ret_why);
        c->left = c->left * 16 + (uint64_t)digit;
        c->any_digit = true;
        return 0;
    }
    if (!c->any_digit || (b != '\r' && b != ';'))
        return h1_parse_refuse_head(400, "a chunk's size is not a hexadecimal number", ret_why);
    c->state = b == ';' ? CHUNK_EXTENSION : CHUNK_SIZE_LF;
    return 0;
}

static int h1_parse_expect_byte(struct h1_chunks *c, char b, char wanted, int next,
                                const char **ret_why)
{
    if (b != wanted)
        return h1_parse_refuse_head(
            400, "a chunk's line does not end in carriage return and line feed", ret_why);
    c->state = next;
    return 0;
}

static int trailer_byte(struct h1_chunks *c, char b, const char **ret_why)
{
    if (c->state == TRAILER_VALUE) {
        if (b == '\r')
            c->state = TRAILER_LF;
        else if (!is_class(b, VALUE))
            return h1_parse_refuse_head(400, "a trailer's value has characters it must not have",
                                        ret_why);
        return 0;
    }
    if (c->state == TRAILER_START && b == '\r') {
        c->state = TRAILER_END_LF;
        return 0;
    }
    if (c->state == TRAILER_NAME && b == ':')
        c->state = TRAILER_VALUE;
    else if (!is_class(b, TOKEN))
        return h1_parse_refuse_head(400, "a trailer's name has characters it must not have",
                                    ret_why);
    else
        c->state = TRAILER_NAME;
    return 0;
}

// Everything but data, byte by byte.
static int line_byte(struct h1_chunks *c, char b, const char **ret_why)
{
    if (c->state == CHUNK_SIZE || c->state == CHUNK_EXTENSION) {
        if (++c->line > H1_CHUNK_LINE_MAX)
            return h1_parse_refuse_head(400, "a chunk's size line is too long", ret_why);
    }
    if (c->state == CHUNK_EXTENSION || c->state >= TRAILER_START) {
        if (++c->overhead > H1_CHUNK_OVERHEAD_MAX)
            return h1_parse_refuse_head(400, "a chunked body has too many extensions or trailers",
                                        ret_why);
    }
    switch (c->state) {
    case CHUNK_SIZE:
        return size_byte(c, b, ret_why);
    case CHUNK_EXTENSION:
        if (b == '\r')
            c->state = CHUNK_SIZE_LF;
        else if (!is_class(b, VALUE))
            return h1_parse_refuse_head(400, "a chunk extension has characters it must not have",
                                        ret_why);
        return 0;
    case CHUNK_SIZE_LF:
        return h1_parse_expect_byte(c, b, '\n', c->left ? CHUNK_DATA : TRAILER_START, ret_why);
    case CHUNK_DATA_CR:
        return h1_parse_expect_byte(c, b, '\r', CHUNK_DATA_LF, ret_why);
    case CHUNK_DATA_LF:
        c->any_digit = false;
        c->line = 0;
        return h1_parse_expect_byte(c, b, '\n', CHUNK_SIZE, ret_why);
    case TRAILER_LF:
        return h1_parse_expect_byte(c, b, '\n', TRAILER_START, ret_why);
    case TRAILER_END_LF:
        return b == '\n' ? 1 : h1_parse_expect_byte(c, b, '\n', TRAILER_END_LF, ret_why);
    default:
        return trailer_byte(c, b, ret_why);
    }
}

int h1_read_chunks(struct h1_chunks *c, struct str *in, struct sbuf *body, size_t limit,
                   const char **ret_why)
{
    while (in->n) {
        if (c->state == CHUNK_DATA) {
            size_t n = in->n < c->left ? in->n : (size_t)c->left;
            sbuf_add(body, str_upto(*in, n));
            *in = str_from(*in, n);
            c->left -= n;
            if (c->left == 0)
                c->state = CHUNK_DATA_CR;
            continue;
        }
        int r = line_byte(c, in->p[0], ret_why);
        *in = str_from(*in, 1);
        if (r != 0)
            return r;
        if (c->state == CHUNK_DATA && (body->n > limit || c->left > limit - body->n))
            return h1_parse_refuse_head(413, "the body is too large", ret_why);
    }
    return 0;
}
