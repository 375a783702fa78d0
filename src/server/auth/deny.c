// SPDX-License-Identifier: Apache-2.0
//
// The deny list: entries as normalized texts "kind value" in a map. Lists are replaced whole, so
// that a file with an error changes nothing.
#include "server/auth/deny.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/mem.h"
#include "os/file.h"

#include "base/banned.h"

#define DENY_FILE_BYTES_MAX ((size_t)4 * 1024 * 1024)
#define DENY_VALUE_MAX      1024
#define DENY_SHA256_DIGITS  64

struct deny_list {
    struct MAP(char) entries; // keys are in the arena
    struct arena arena;
};

struct deny {
    char *path;
    struct deny_list list;
    struct file_stamp stamp; // of the file when it was read last
};

static void deny_list_done(struct deny_list *l)
{
    map_done(&l->entries);
    arena_done(&l->arena);
}

// --- Entries -------------------------------------------------------------------------------------

// Digits in lower case, without colons; of numbers without zeros before them.
static bool deny_add_digits(struct str value, bool number, struct sbuf *out)
{
    size_t start = out->n;
    for (size_t i = 0; i < value.n; i++) {
        char c = value.p[i] >= 'A' && value.p[i] <= 'F' ? (char)(value.p[i] | 0x20) : value.p[i];
        if (c == ':' || (number && c == '0' && out->n == start))
            continue;
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
        sbuf_addc(out, c);
    }
    return number ? out->n > start : out->n - start == DENY_SHA256_DIGITS;
}

// deny_write_entry adds "kind value" in its normal form. False: it is not an entry.
static bool deny_write_entry(struct str kind, struct str value, struct sbuf *out)
{
    bool number = str_eqz(kind, "certificate-serial");
    sbuf_add(out, kind);
    sbuf_addc(out, ' ');
    if (value.n == 0 || value.n > DENY_VALUE_MAX || str_trim(value).n != value.n)
        return false;
    if (number || str_eqz(kind, "certificate-sha256") || str_eqz(kind, "token-sha256"))
        return deny_add_digits(value, number, out);
    for (size_t i = 0; i < value.n; i++)
        if ((unsigned char)value.p[i] < ' ' || value.p[i] == 0x7f)
            return false;
    sbuf_add(out, value);
    return str_eqz(kind, "user") || str_eqz(kind, "token-id");
}

static bool deny_put(struct deny_list *l, struct str kind, struct str value)
{
    cleanup_sbuf struct sbuf entry = {0};
    if (!deny_write_entry(kind, value, &entry))
        return false;
    if (!map_get(&l->entries, sbuf_str(&entry)))
        *map_put(&l->entries, arena_str(&l->arena, sbuf_str(&entry))) = 1;
    return true;
}

static bool deny_list_has(const struct deny_list *l, const char *kind, struct str value)
{
    cleanup_sbuf struct sbuf entry = {0};
    return value.n && deny_write_entry(str_z(kind), value, &entry) &&
           map_get(&l->entries, sbuf_str(&entry));
}

bool deny_has(const struct deny *d, const struct deny_subject *s)
{
    if (!d || map_len(&d->list.entries) == 0)
        return false;
    return deny_list_has(&d->list, "user", s->user) ||
           deny_list_has(&d->list, "certificate-serial", s->certificate_serial) ||
           deny_list_has(&d->list, "certificate-sha256", s->certificate_sha256) ||
           deny_list_has(&d->list, "token-id", s->token_id) ||
           deny_list_has(&d->list, "token-sha256", s->token_sha256);
}

// --- The file ------------------------------------------------------------------------------------

int deny_parse(struct deny *d, struct str text, struct err *err)
{
    struct deny_list list = {0};
    for (size_t number = 1; text.n; number++) {
        struct str line, kind, value;
        str_cut(text, '\n', &line, &text);
        line = str_trim(line);
        if (line.n == 0 || line.p[0] == '#')
            continue;
        str_cut(line, ' ', &kind, &value);
        if (deny_put(&list, kind, str_trim(value)))
            continue;
        deny_list_done(&list);
        return err_set(err, ERR_INVALID,
                       "line %zu: an entry is user NAME, certificate-serial HEX, "
                       "certificate-sha256 HEX, token-id JTI or token-sha256 HEX",
                       number);
    }
    deny_list_done(&d->list);
    d->list = list;
    return 0;
}

static int deny_read(struct deny *d, struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    int r = file_read(d->path, DENY_FILE_BYTES_MAX, &text, err);
    if (r < 0 && r != -ENOENT)
        return r;
    r = deny_parse(d, sbuf_str(&text), err);
    return r < 0 ? err_wrap(err, "%s", d->path) : 0;
}

int deny_follow(struct deny *d, struct err *err)
{
    struct file_stamp now = file_take_stamp(d->path);
    if (file_stamp_same(&now, &d->stamp))
        return 0;
    d->stamp = now; // before reading: what changes meanwhile is seen next time
    int r = deny_read(d, err);
    return r < 0 ? r : 1;
}

int deny_add(struct deny *d, struct str kind, struct str value, struct err *err)
{
    cleanup_sbuf struct sbuf line = {0};
    if (!deny_write_entry(kind, value, &line))
        return err_set(err, ERR_BAD_REQUEST,
                       "not an entry of a deny list: \"%.*s %.*s\"; kinds are user, "
                       "certificate-serial, certificate-sha256, token-id and token-sha256",
                       STR_ARG(str_upto(kind, 40)), STR_ARG(str_upto(value, 100)));
    if (!map_get(&d->list.entries, sbuf_str(&line))) {
        // A last line without its end must not swallow the entry.
        cleanup_sbuf struct sbuf whole = {0};
        sbuf_addf(&whole, "\n%.*s\n", STR_ARG(sbuf_str(&line)));
        int r = file_append_durable(d->path, sbuf_str(&whole), err);
        if (r < 0)
            return r;
    }
    (void)deny_put(&d->list, kind, value);
    return 0;
}

int deny_new(const char *path, struct deny **ret, struct err *err)
{
    struct deny *d = xcalloc(1, sizeof(*d));
    d->path = xstrndup(path, strlen(path));
    d->stamp = file_take_stamp(path);
    int r = deny_read(d, err);
    if (r < 0) {
        deny_free(d);
        return r;
    }
    *ret = d;
    return 0;
}

void deny_free(struct deny *d)
{
    if (!d)
        return;
    deny_list_done(&d->list);
    free(d->path);
    free(d);
}
