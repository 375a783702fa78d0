// SPDX-License-Identifier: Apache-2.0
//
// Reads tar archives entry by entry. Every size and name is bounded before it is used, since layers
// come from strangers.
#include "node/image/tar.h"

#include <assert.h>
#include <string.h>

#include "base/banned.h"

// A header, field by field as POSIX has it; all of it text.
struct header {
    char name[100];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char mtime[12];
    char sum[8];
    char type;
    char link[100];
    char magic[8]; // "ustar\0" "00", or "ustar  \0" for GNU
    char user[32];
    char group[32];
    char major[8];
    char minor[8];
    char prefix[155];
    char rest[12];
};
static_assert(sizeof(struct header) == TAR_BLOCK, "a tar header is one block");

// What extended headers say about the next entry.
struct extended {
    struct str name, link;
    bool has_size, has_uid, has_gid, has_mtime;
    uint64_t size, uid, gid;
    int64_t mtime_sec;
    struct tar_attributes attributes;
};

void tar_reader_init(struct tar_reader *tar, tar_read_fn read, void *arg)
{
    *tar = (struct tar_reader){.read = read, .arg = arg};
}

void tar_reader_done(struct tar_reader *tar)
{
    arena_done(&tar->arena);
}

// --- Bytes ---------------------------------------------------------------------------------------

// Reads n bytes or up to the end. Returns how many.
static ssize_t read_full(struct tar_reader *tar, void *buf, size_t n, struct err *err)
{
    size_t got = 0;
    while (got < n) {
        ssize_t one = tar->read(tar->arg, (char *)buf + got, n - got, err);
        if (one < 0)
            return one;
        if (one == 0)
            break;
        assert((size_t)one <= n - got);
        got += (size_t)one;
        tar->offset += (uint64_t)one;
    }
    return (ssize_t)got;
}

static int tar_fail_truncated(const struct tar_reader *tar, struct err *err)
{
    return err_set(err, ERR_INVALID, "the archive ends in the middle of an entry, at byte %llu",
                   (unsigned long long)tar->offset);
}

static int tar_skip(struct tar_reader *tar, uint64_t n, struct err *err)
{
    char buf[4096];
    while (n > 0) {
        size_t want = n < sizeof(buf) ? (size_t)n : sizeof(buf);
        ssize_t got = read_full(tar, buf, want, err);
        if (got < 0)
            return (int)got;
        if ((size_t)got < want)
            return tar_fail_truncated(tar, err);
        n -= want;
    }
    return 0;
}

ssize_t tar_data(struct tar_reader *tar, void *buf, size_t n, struct err *err)
{
    size_t want = tar->left < n ? (size_t)tar->left : n;
    if (want == 0)
        return 0;
    ssize_t got = read_full(tar, buf, want, err);
    if (got < 0)
        return got;
    if ((size_t)got < want)
        return tar_fail_truncated(tar, err);
    tar->left -= want;
    return got;
}

// --- Fields --------------------------------------------------------------------------------------

static struct str text_field(const char *field, size_t n)
{
    return str_make(field, strnlen(field, n));
}

// Octal digits between blanks, or, with the top bit set, a big-endian number. False: neither.
static bool number_field(const char *field, size_t n, uint64_t *ret)
{
    uint64_t v = 0;
    size_t i = 0;
    if ((unsigned char)field[0] & 0x80) {
        for (i = 0; i < n; i++) {
            uint64_t byte = (unsigned char)field[i] & (i == 0 ? 0x7fU : 0xffU);
            if (v > UINT64_MAX >> 8)
                return false;
            v = v << 8 | byte;
        }
        *ret = v;
        return true;
    }
    while (i < n && field[i] == ' ')
        i++;
    for (; i < n && field[i] >= '0' && field[i] <= '7'; i++) {
        if (v > UINT64_MAX >> 3)
            return false;
        v = v << 3 | (uint64_t)(field[i] - '0');
    }
    *ret = v;
    return i == n || field[i] == ' ' || field[i] == '\0';
}

static bool sum_is_right(const struct header *h)
{
    const unsigned char *p = (const unsigned char *)h;
    uint64_t said, sum = 0;
    int64_t signed_sum = 0; // some old programs added signed bytes
    for (size_t i = 0; i < TAR_BLOCK; i++) {
        bool in_sum = i >= offsetof(struct header, sum) && i < offsetof(struct header, type);
        unsigned char c = in_sum ? ' ' : p[i];
        sum += c;
        signed_sum += (signed char)c;
    }
    return number_field(h->sum, sizeof(h->sum), &said) &&
           (said == sum || (int64_t)said == signed_sum);
}

static bool tar_header_is_zero(const struct header *h)
{
    static const char zero[TAR_BLOCK];
    return memcmp(h, zero, TAR_BLOCK) == 0;
}

static int tar_fail(const struct tar_reader *tar, const char *what, struct err *err)
{
    return err_set(err, ERR_INVALID, "the tar header before byte %llu has a bad %s",
                   (unsigned long long)tar->offset, what);
}

static uint64_t tar_padding(uint64_t size)
{
    return (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK;
}

// --- Extended headers ----------------------------------------------------------------------------

static int read_extended(struct tar_reader *tar, uint64_t size, struct str *ret, struct err *err)
{
    if (size > TAR_EXTENDED_MAX)
        return err_set(err, ERR_TOO_LARGE, "an extended tar header of %llu bytes, at most %zu",
                       (unsigned long long)size, TAR_EXTENDED_MAX);
    char *p = arena_array(&tar->arena, char, (size_t)size + 1);
    ssize_t got = read_full(tar, p, (size_t)size, err);
    if (got < 0)
        return (int)got;
    if ((size_t)got < size)
        return tar_fail_truncated(tar, err);
    *ret = str_make(p, (size_t)size);
    return tar_skip(tar, tar_padding(size), err);
}

static bool number_text(struct str s, uint64_t *ret)
{
    return str_to_u64(s, ret) == 0;
}

static int pax_attribute(struct tar_reader *tar, struct extended *x, struct str name,
                         struct str value, struct err *err)
{
    if (value.n > TAR_ATTRIBUTE_MAX || name.n > 255)
        return err_set(err, ERR_TOO_LARGE, "an extended attribute of %zu bytes", value.n);
    struct tar_attribute a = {arena_str(&tar->arena, name), arena_str(&tar->arena, value)};
    vec_push_arena(&tar->arena, &x->attributes, a);
    return 0;
}

static int pax_record(struct tar_reader *tar, struct extended *x, struct str key, struct str value,
                      struct err *err)
{
    struct str whole, fraction;
    int r = 0;
    if (str_eq(key, STR("path"))) {
        x->name = arena_str(&tar->arena, value);
    } else if (str_eq(key, STR("linkpath"))) {
        x->link = arena_str(&tar->arena, value);
    } else if (str_eq(key, STR("size"))) {
        x->has_size = number_text(value, &x->size);
        r = x->has_size ? 0 : tar_fail(tar, "size", err);
    } else if (str_eq(key, STR("uid"))) {
        x->has_uid = number_text(value, &x->uid);
        r = x->has_uid ? 0 : tar_fail(tar, "uid", err);
    } else if (str_eq(key, STR("gid"))) {
        x->has_gid = number_text(value, &x->gid);
        r = x->has_gid ? 0 : tar_fail(tar, "gid", err);
    } else if (str_eq(key, STR("mtime"))) {
        (void)str_cut(value, '.', &whole, &fraction);
        x->has_mtime = str_to_i64(whole, &x->mtime_sec) == 0;
    } else if (str_starts(key, STR("SCHILY.xattr."))) {
        r = pax_attribute(tar, x, str_from(key, 13), value, err);
    } else if (str_starts(key, STR("GNU.sparse."))) {
        r = err_set(err, ERR_UNSUPPORTED, "the archive has a sparse file; write it without");
    }
    return r;
}

// "LENGTH KEY=VALUE\n", where the length counts all of it.
static int read_pax(struct tar_reader *tar, struct str text, struct extended *x, struct err *err)
{
    while (text.n > 0) {
        struct str digits, rest, key, value;
        uint64_t n;
        if (!str_cut(text, ' ', &digits, &rest) || digits.n > 8 || str_to_u64(digits, &n) != 0 ||
            n <= digits.n + 1 || n > text.n || text.p[n - 1] != '\n')
            return tar_fail(tar, "pax record", err);
        struct str record = str_make(rest.p, (size_t)n - digits.n - 2);
        if (!str_cut(record, '=', &key, &value) || key.n == 0)
            return tar_fail(tar, "pax record", err);
        int r = pax_record(tar, x, key, value, err);
        if (r < 0)
            return r;
        text = str_from(text, (size_t)n);
    }
    return 0;
}

// --- Entries -------------------------------------------------------------------------------------

static enum tar_type tar_entry_type(char c)
{
    switch (c) {
    case '0':
    case '\0':
    case '7':
        return TAR_FILE;
    case '1':
        return TAR_HARD_LINK;
    case '2':
        return TAR_SYMBOLIC_LINK;
    case '3':
        return TAR_CHARACTER;
    case '4':
        return TAR_BLOCK_DEVICE;
    case '5':
        return TAR_FOLDER;
    case '6':
        return TAR_FIFO;
    default:
        return TAR_OTHER;
    }
}

static struct str header_name(struct tar_reader *tar, const struct header *h)
{
    struct str name = text_field(h->name, sizeof(h->name));
    struct str prefix = text_field(h->prefix, sizeof(h->prefix));
    // GNU's magic is followed by other things than a prefix.
    bool posix = memcmp(h->magic, "ustar\0", 6) == 0;
    if (posix && prefix.n)
        return arena_strf(&tar->arena, "%.*s/%.*s", STR_ARG(prefix), STR_ARG(name));
    return arena_str(&tar->arena, name);
}

// A name ends at its first NUL, wherever it came from.
static int tar_check_text(const struct tar_reader *tar, struct str *s, const char *what,
                          struct err *err)
{
    s->n = s->p ? strnlen(s->p, s->n) : 0;
    if (s->n > TAR_NAME_MAX)
        return err_set(err, ERR_TOO_LARGE, "a %s of %zu bytes before byte %llu, at most %d", what,
                       s->n, (unsigned long long)tar->offset, TAR_NAME_MAX);
    return 0;
}

static int tar_read_owner(struct tar_reader *tar, const char *field, bool has, uint64_t said,
                          uint32_t *ret, struct err *err)
{
    uint64_t id = said;
    if (!has && !number_field(field, 8, &id))
        return tar_fail(tar, "owner", err);
    if (id >= UINT32_MAX)
        return tar_fail(tar, "owner", err);
    *ret = (uint32_t)id;
    return 0;
}

static int tar_make_entry(struct tar_reader *tar, const struct header *h, const struct extended *x,
                          struct tar_entry *ret, struct err *err)
{
    uint64_t mode, mtime = 0;
    struct tar_entry e = {.type = tar_entry_type(h->type), .attributes = x->attributes};
    if (!number_field(h->mode, sizeof(h->mode), &mode))
        return tar_fail(tar, "mode", err);
    if (x->has_size)
        e.size = x->size;
    else if (!number_field(h->size, sizeof(h->size), &e.size))
        return tar_fail(tar, "size", err);
    (void)number_field(h->mtime, sizeof(h->mtime), &mtime);
    e.mode = (uint32_t)(mode & 07777);
    e.mtime_sec = x->has_mtime ? x->mtime_sec : mtime <= INT64_MAX ? (int64_t)mtime : 0;
    e.name = x->name.n ? x->name : header_name(tar, h);
    e.link = x->link.n ? x->link : arena_str(&tar->arena, text_field(h->link, sizeof(h->link)));
    int r = tar_read_owner(tar, h->uid, x->has_uid, x->uid, &e.uid, err);
    if (r == 0)
        r = tar_read_owner(tar, h->gid, x->has_gid, x->gid, &e.gid, err);
    if (r == 0)
        r = tar_check_text(tar, &e.name, "name", err);
    if (r == 0)
        r = tar_check_text(tar, &e.link, "link", err);
    if (r < 0)
        return r;
    if (e.size > TAR_BYTES_MAX)
        return tar_fail(tar, "size", err);
    if (e.type == TAR_FILE && str_ends(e.name, STR("/")))
        e.type = TAR_FOLDER; // of the oldest format
    // Links and the like have no data, whatever the size field; unknown kinds do.
    bool has_data = e.type == TAR_FILE || e.type == TAR_OTHER;
    tar->left = has_data ? e.size : 0;
    tar->padding = has_data ? tar_padding(e.size) : 0;
    e.size = e.type == TAR_FILE ? e.size : 0;
    *ret = e;
    return 0;
}

// One header block: 1 with *h, 0 at the end.
static int tar_read_header(struct tar_reader *tar, struct header *h, struct err *err)
{
    ssize_t got = read_full(tar, h, TAR_BLOCK, err);
    if (got < 0)
        return (int)got;
    if (got == 0 || (got == TAR_BLOCK && tar_header_is_zero(h)))
        return 0;
    if (got < TAR_BLOCK)
        return tar_fail_truncated(tar, err);
    if (!sum_is_right(h))
        return tar_fail(tar, "checksum (is it a tar archive?)", err);
    return 1;
}

int tar_next(struct tar_reader *tar, struct tar_entry *ret, struct err *err)
{
    struct header h = {0};
    struct extended x = {0};
    size_t extended_bytes = 0;
    if (tar->ended)
        return 0;
    int r = tar_skip(tar, tar->left + tar->padding, err);
    tar->left = tar->padding = 0;
    arena_reset(&tar->arena);
    while (r == 0) {
        struct str text;
        uint64_t size;
        r = tar_read_header(tar, &h, err);
        if (r <= 0) {
            tar->ended = true;
            return r;
        }
        if (h.type != 'x' && h.type != 'g' && h.type != 'L' && h.type != 'K')
            break;
        if (!number_field(h.size, sizeof(h.size), &size))
            return tar_fail(tar, "size", err);
        r = read_extended(tar, size, &text, err);
        extended_bytes += (size_t)size + TAR_BLOCK;
        if (r == 0 && extended_bytes > 2 * TAR_EXTENDED_MAX)
            r = err_set(err, ERR_TOO_LARGE, "too many extended tar headers before byte %llu",
                        (unsigned long long)tar->offset);
        if (r == 0 && h.type == 'x')
            r = read_pax(tar, text, &x, err);
        else if (r == 0 && h.type == 'L')
            x.name = text;
        else if (r == 0 && h.type == 'K')
            x.link = text;
    }
    if (r < 0)
        return r;
    if (h.type == 'S')
        return err_set(err, ERR_UNSUPPORTED, "the archive has a sparse file; write it without");
    r = tar_make_entry(tar, &h, &x, ret, err);
    return r < 0 ? r : 1;
}
