// SPDX-License-Identifier: Apache-2.0
//
// ext.Strings: functions on text, counted in code points.
#include "base/utf8.h"
#include "cel/cost/work.h"
#include "cel/lib/lib.h"

#include "base/banned.h"

static struct cel_val range_error(struct cel_run *run, int64_t i)
{
    return cel_errorf(&run->arena, "index out of range: %lld", (long long)i);
}

static bool is_string(const struct cel_val *args, unsigned n, unsigned i)
{
    return i < n && args[i].kind == CEL_STRING;
}

static bool is_int(const struct cel_val *args, unsigned n, unsigned i)
{
    return i < n && args[i].kind == CEL_INT;
}

// Byte offset of the k-th code point; k may be the count of them.
static size_t lib_strings_byte_offset(struct cel_val v, uint64_t k)
{
    if (v.flags & CEL_F_ASCII)
        return k;
    size_t off = 0;
    struct str s = cel_str(v);
    for (uint64_t i = 0; i < k && off < s.n; i++) {
        size_t len = 1;
        (void)utf8_decode(s, off, &len);
        off += len;
    }
    return off;
}

static struct cel_val lib_strings_substring(struct cel_val v, size_t from, size_t to)
{
    struct cel_val r = cel_string(str_make(v.s + from, to - from));
    return r;
}

static struct cel_val fn_char_at(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 2 || !is_string(args, n, 0) || !is_int(args, n, 1))
        return cel_run_mismatch(run, "charAt", args, n);
    int64_t i = args[1].i;
    uint64_t size = cel_size(args[0]);
    if (i < 0 || (uint64_t)i > size)
        return range_error(run, i);
    size_t from = lib_strings_byte_offset(args[0], (uint64_t)i);
    size_t to = (uint64_t)i == size ? from : lib_strings_byte_offset(args[0], (uint64_t)i + 1);
    return lib_strings_substring(args[0], from, to);
}

static uint64_t count_between(struct cel_val v, size_t bytes)
{
    return v.flags & CEL_F_ASCII ? bytes : utf8_count(str_make(v.s, bytes));
}

// First occurrence from a code point on, or last one not behind it.
static int64_t lib_strings_find(struct cel_val text, struct cel_val part_val, int64_t from,
                                bool last)
{
    struct str s = cel_str(text);
    struct str sub = cel_str(part_val);
    size_t off = lib_strings_byte_offset(text, (uint64_t)from);
    if (!last) {
        ptrdiff_t at = str_find(str_from(s, off), sub);
        return at < 0 ? -1 : (int64_t)count_between(text, off + (size_t)at);
    }
    if (sub.n > s.n)
        return -1;
    size_t at = off < s.n - sub.n ? off : s.n - sub.n;
    for (;; at--) {
        // A match never starts inside a code point: its first byte is no continuation byte.
        if (memcmp(s.p + at, sub.p, sub.n) == 0)
            return (int64_t)count_between(text, at);
        if (at == 0)
            return -1;
    }
}

static struct cel_val cel_text_index(struct cel_run *run, const struct cel_val *args, unsigned n,
                                     bool last)
{
    const char *name = last ? "lastIndexOf" : "indexOf";
    if (n > 3 || !is_string(args, n, 0) || !is_string(args, n, 1) ||
        (n == 3 && !is_int(args, n, 2)))
        return cel_run_mismatch(run, name, args, n);
    int64_t size = (int64_t)cel_size(args[0]);
    int64_t from = n == 3 ? args[2].i : 0;
    if (from < 0)
        return range_error(run, from);
    if (args[1].n == 0) {
        if (n == 2)
            return cel_int(last ? size : 0);
        return cel_int(from > size ? size : from);
    }
    if (n == 2 && last)
        from = size > 0 ? size - 1 : 0;
    if (from >= size)
        return cel_int(-1);
    // From behind, the part is compared at each place.
    if (last && args[0].n > args[1].n &&
        !cel_work_add(run, (uint64_t)(args[0].n - args[1].n) * (1 + args[1].n / 64) / 4))
        return cel_no_such_overload(); // and it ends
    return cel_int(lib_strings_find(args[0], args[1], from, last));
}

static struct cel_val fn_index_of(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (args[0].kind == CEL_LIST && n == 2) {
        for (uint32_t i = 0; i < args[0].list->n; i++)
            if (cel_same(args[0].list->items[i], args[1]))
                return cel_int(i);
        return cel_int(-1);
    }
    return cel_text_index(run, args, n, false);
}

static struct cel_val fn_last_index_of(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (args[0].kind == CEL_LIST && n == 2) {
        for (uint32_t i = args[0].list->n; i > 0; i--)
            if (cel_same(args[0].list->items[i - 1], args[1]))
                return cel_int((int64_t)i - 1);
        return cel_int(-1);
    }
    return cel_text_index(run, args, n, true);
}

static struct cel_val fn_join(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n > 2 || args[0].kind != CEL_LIST || (n == 2 && !is_string(args, n, 1)))
        return cel_run_mismatch(run, "join", args, n);
    const struct cel_list *l = args[0].list;
    sbuf_clear(&run->text);
    for (uint32_t i = 0; i < l->n; i++) {
        if (i && n == 2)
            sbuf_add(&run->text, cel_str(args[1]));
        if (l->items[i].kind != CEL_STRING) {
            sbuf_clear(&run->text);
            cel_work_write(run, l->items[i], &run->text);
            return cel_errorf(&run->arena, "join: invalid input: %.*s",
                              STR_ARG(sbuf_str(&run->text)));
        }
        sbuf_add(&run->text, cel_str(l->items[i]));
    }
    return cel_run_take(run);
}

static struct cel_val map_ascii(struct cel_run *run, struct cel_val v, char from, char to, int by)
{
    char *p = arena_alloc(&run->arena, (size_t)v.n + 1, 1);
    for (uint32_t i = 0; i < v.n; i++)
        p[i] = v.s[i] >= from && v.s[i] <= to ? (char)(v.s[i] + by) : v.s[i];
    v.s = p;
    return v;
}

static struct cel_val fn_lower(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || !is_string(args, n, 0))
        return cel_run_mismatch(run, "lowerAscii", args, n);
    return map_ascii(run, args[0], 'A', 'Z', 32);
}

static struct cel_val fn_upper(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || !is_string(args, n, 0))
        return cel_run_mismatch(run, "upperAscii", args, n);
    return map_ascii(run, args[0], 'a', 'z', -32);
}

// Go's strings.Replace: an empty old matches before every code point and at the end.
static void replace_empty(struct str s, struct str new_text, int64_t limit, struct sbuf *out)
{
    size_t off = 0;
    for (int64_t done = 0;; done++) {
        if (limit >= 0 && done >= limit)
            break;
        sbuf_add(out, new_text);
        if (off >= s.n)
            break;
        size_t len = 1;
        (void)utf8_decode(s, off, &len);
        sbuf_add(out, str_make(s.p + off, len));
        off += len;
    }
    sbuf_add(out, str_from(s, off));
}

static struct cel_val fn_replace(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n < 3 || n > 4 || !is_string(args, n, 0) || !is_string(args, n, 1) ||
        !is_string(args, n, 2) || (n == 4 && !is_int(args, n, 3)))
        return cel_run_mismatch(run, "replace", args, n);
    int64_t limit = n == 4 ? args[3].i : -1;
    struct str s = cel_str(args[0]);
    struct str old_text = cel_str(args[1]);
    sbuf_clear(&run->text);
    if (old_text.n == 0) {
        replace_empty(s, cel_str(args[2]), limit, &run->text);
        return cel_run_take(run);
    }
    for (int64_t done = 0; limit < 0 || done < limit; done++) {
        ptrdiff_t at = str_find(s, old_text);
        if (at < 0)
            break;
        sbuf_add(&run->text, str_upto(s, (size_t)at));
        sbuf_add(&run->text, cel_str(args[2]));
        s = str_from(s, (size_t)at + old_text.n);
    }
    sbuf_add(&run->text, s);
    return cel_run_take(run);
}

static struct cel_val split_chars(struct cel_run *run, struct str s, int64_t limit)
{
    struct cel_list *l = cel_list_new(&run->arena, 0);
    size_t off = 0;
    while (off < s.n) {
        size_t len = 1;
        (void)utf8_decode(s, off, &len);
        if (limit > 0 && (int64_t)l->n == limit - 1)
            len = s.n - off;
        cel_list_push(&run->arena, l, cel_string(str_make(s.p + off, len)));
        off += len;
    }
    return cel_list_value(l);
}

static struct cel_val fn_split(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n < 2 || n > 3 || !is_string(args, n, 0) || !is_string(args, n, 1) ||
        (n == 3 && !is_int(args, n, 2)))
        return cel_run_mismatch(run, "split", args, n);
    int64_t limit = n == 3 ? args[2].i : -1;
    struct str s = cel_str(args[0]);
    struct str sep = cel_str(args[1]);
    struct cel_list *l = cel_list_new(&run->arena, 0);
    if (limit == 0)
        return cel_list_value(l);
    if (sep.n == 0)
        return split_chars(run, s, limit);
    while (limit < 0 || (int64_t)l->n < limit - 1) {
        ptrdiff_t at = str_find(s, sep);
        if (at < 0)
            break;
        cel_list_push(&run->arena, l, cel_string(str_upto(s, (size_t)at)));
        s = str_from(s, (size_t)at + sep.n);
    }
    cel_list_push(&run->arena, l, cel_string(s));
    return cel_list_value(l);
}

static struct cel_val fn_substring(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n < 2 || n > 3 || !is_string(args, n, 0) || !is_int(args, n, 1) ||
        (n == 3 && !is_int(args, n, 2)))
        return cel_run_mismatch(run, "substring", args, n);
    int64_t size = (int64_t)cel_size(args[0]);
    int64_t from = args[1].i;
    int64_t to = n == 3 ? args[2].i : size;
    if (n == 3 && from > to)
        return cel_errorf(&run->arena, "invalid substring range. start: %lld, end: %lld",
                          (long long)from, (long long)to);
    if (from < 0 || from > size)
        return range_error(run, from);
    if (to < 0 || to > size)
        return range_error(run, to);
    return lib_strings_substring(args[0], lib_strings_byte_offset(args[0], (uint64_t)from),
                                 lib_strings_byte_offset(args[0], (uint64_t)to));
}

// Unicode White_Space.
static bool lib_strings_is_space(uint32_t cp)
{
    return (cp >= 9 && cp <= 13) || cp == ' ' || cp == 0x85 || cp == 0xA0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F ||
           cp == 0x205F || cp == 0x3000;
}

static struct cel_val fn_trim(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || !is_string(args, n, 0))
        return cel_run_mismatch(run, "trim", args, n);
    struct str s = cel_str(args[0]);
    size_t from = 0;
    size_t len = 1;
    while (from < s.n && lib_strings_is_space(utf8_decode(s, from, &len)))
        from += len;
    size_t end = from;
    for (size_t off = from; off < s.n; off += len)
        if (!lib_strings_is_space(utf8_decode(s, off, &len)))
            end = off + len;
    return lib_strings_substring(args[0], from, end);
}

static struct cel_val fn_quote(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || !is_string(args, n, 0))
        return cel_run_mismatch(run, "strings.quote", args, n);
    static const char from[] = "\a\b\f\n\r\t\v\\\"";
    static const char to[] = "abfnrtv\\\"";
    struct str s = cel_str(args[0]);
    sbuf_clear(&run->text);
    sbuf_addc(&run->text, '"');
    for (size_t off = 0; off < s.n;) {
        size_t len = 1;
        uint32_t cp = utf8_decode(s, off, &len);
        const char *at = cp && cp < 0x80 ? strchr(from, (int)cp) : NULL;
        if (at) {
            sbuf_addc(&run->text, '\\');
            sbuf_addc(&run->text, to[at - from]);
        } else {
            sbuf_add_utf8(&run->text, cp);
        }
        off += len;
    }
    sbuf_addc(&run->text, '"');
    return cel_run_take(run);
}

static const struct cel_impl table[] = {
    {"charAt", fn_char_at},  {"indexOf", fn_index_of},    {"lastIndexOf", fn_last_index_of},
    {"join", fn_join},       {"lowerAscii", fn_lower},    {"upperAscii", fn_upper},
    {"replace", fn_replace}, {"split", fn_split},         {"substring", fn_substring},
    {"trim", fn_trim},       {"strings.quote", fn_quote},
};

CEL_IMPLS(strings, table);
