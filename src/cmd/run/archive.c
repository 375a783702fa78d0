// SPDX-License-Identifier: Apache-2.0
//
// The file of a backup: written from beginning to end, verified as a whole before anything is taken
// from it, restored into a directory of another name that is renamed when it is complete.
#include "cmd/run/archive.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/str.h"
#include "os/file.h"

#include "base/banned.h"

#define ARCHIVE_FORMAT     1
#define ARCHIVE_NAME_MAX   255
#define ARCHIVE_SUM_BYTES  (7 + 64 + 1) // "sha256 ", digits, newline
#define ARCHIVE_CHUNK      ((size_t)64 * 1024)
#define ARCHIVE_SQLITE     "SQLite format 3"
#define ARCHIVE_MODE       0600
#define ARCHIVE_LINE_BYTES (ARCHIVE_NAME_MAX + 32)

// --- Writing -------------------------------------------------------------------------------------

struct archive_out {
    int fd;
    EVP_MD_CTX *sum;
    const char *path;
};

static int archive_put(struct archive_out *out, const char *bytes, size_t n, struct err *err)
{
    (void)EVP_DigestUpdate(out->sum, bytes, n);
    while (n > 0) {
        ssize_t written = write(out->fd, bytes, n);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return err_set(err, errno, "cannot write %s: %m", out->path);
        bytes += written;
        n -= (size_t)written;
    }
    return 0;
}

static int archive_put_text(struct archive_out *out, struct str text, struct err *err)
{
    return archive_put(out, text.p, text.n, err);
}

// archive_put_file adds a file under a name; exactly as many bytes as it has at the beginning.
static int archive_put_file(struct archive_out *out, const char *name, const char *from,
                            struct err *err)
{
    int cleanup_fd fd = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(err, errno, "cannot read %s: %m", from);
    cleanup_sbuf struct sbuf head = {0};
    sbuf_addf(&head, "file %s %lld\n", name, (long long)st.st_size);
    int r = archive_put_text(out, sbuf_str(&head), err);
    char chunk[ARCHIVE_CHUNK];
    for (off_t left = st.st_size; r == 0 && left > 0;) {
        size_t most = left < (off_t)sizeof(chunk) ? (size_t)left : sizeof(chunk);
        ssize_t n = read(fd, chunk, most);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_set(err, n < 0 ? errno : EIO, "cannot read %s: %s", from,
                           n < 0 ? strerrordesc_np(errno) : "it became shorter");
        r = archive_put(out, chunk, (size_t)n, err);
        left -= n;
    }
    return r;
}

// archive_name_ok: no name leads out of the directory.
static bool archive_name_ok(struct str name)
{
    if (str_eqz(name, "dray.db") || str_eqz(name, "tokens.csv"))
        return true;
    if (!str_starts(name, STR("pki/")) || name.n == 4 || name.n > ARCHIVE_NAME_MAX ||
        name.p[4] == '.')
        return false;
    for (size_t i = 4; i < name.n; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-",
                    name.p[i]) ||
            name.p[i] == '\0')
            return false;
    return true;
}

static int archive_put_keys(struct archive_out *out, const char *dir, struct err *err)
{
    cleanup_sbuf struct sbuf pki = {0};
    sbuf_addf(&pki, "%s/pki", dir);
    DIR *d = opendir(pki.p);
    if (!d)
        return errno == ENOENT ? 0 : err_set(err, errno, "cannot read %s: %m", pki.p);
    int r = 0;
    const struct dirent *e;
    while (r == 0 && (e = file_next_entry(d))) {
        cleanup_sbuf struct sbuf name = {0}, from = {0};
        sbuf_addf(&name, "pki/%s", e->d_name);
        sbuf_addf(&from, "%s/%s", dir, name.p);
        struct stat st;
        if (archive_name_ok(sbuf_str(&name)) && lstat(from.p, &st) == 0 && S_ISREG(st.st_mode))
            r = archive_put_file(out, name.p, from.p, err);
    }
    (void)closedir(d);
    return r;
}

static int archive_put_all(struct archive_out *out, const char *database, const char *dir,
                           struct err *err)
{
    cleanup_sbuf struct sbuf head = {0}, tokens = {0};
    sbuf_addf(&head, "dray-backup %d\n", ARCHIVE_FORMAT);
    sbuf_addf(&tokens, "%s/tokens.csv", dir);
    int r = archive_put_text(out, sbuf_str(&head), err);
    if (r == 0)
        r = archive_put_keys(out, dir, err);
    if (r == 0 && access(tokens.p, F_OK) == 0)
        r = archive_put_file(out, "tokens.csv", tokens.p, err);
    return r == 0 ? archive_put_file(out, "dray.db", database, err) : r;
}

static void archive_add_sum(EVP_MD_CTX *sum, struct sbuf *out)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    (void)EVP_DigestFinal_ex(sum, digest, &n);
    sbuf_addz(out, "sha256 ");
    for (unsigned i = 0; i < n; i++)
        sbuf_addf(out, "%02x", digest[i]);
    sbuf_addc(out, '\n');
}

static EVP_MD_CTX *archive_sum_new(void)
{
    EVP_MD_CTX *sum = EVP_MD_CTX_new();
    if (!sum || EVP_DigestInit_ex(sum, EVP_sha256(), NULL) != 1)
        abort();
    return sum;
}

int archive_write(const char *path, const char *database, const char *dir, struct err *err)
{
    int cleanup_fd fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, ARCHIVE_MODE);
    if (fd < 0)
        return err_set(err, errno, "cannot make %s: %m", path);
    struct archive_out out = {.fd = fd, .sum = archive_sum_new(), .path = path};
    cleanup_sbuf struct sbuf end = {0};
    int r = archive_put_all(&out, database, dir, err);
    archive_add_sum(out.sum, &end);
    EVP_MD_CTX_free(take_ptr(out.sum));
    out.sum = archive_sum_new();
    if (r == 0)
        r = archive_put_text(&out, sbuf_str(&end), err);
    EVP_MD_CTX_free(out.sum);
    if (r == 0 && fsync(fd) < 0)
        r = err_set(err, errno, "cannot write %s: %m", path);
    if (r < 0)
        (void)unlink(path);
    return r;
}

// --- Reading -------------------------------------------------------------------------------------

static int archive_fail_damaged(const char *path, const char *what, struct err *err)
{
    return err_set(err, ERR_INVALID, "the backup %s is damaged (%s): use another one", path, what);
}

// archive_verify compares the sum at the end with that of everything before it.
static int archive_verify(FILE *f, const char *path, struct err *err)
{
    char chunk[ARCHIVE_CHUNK], end[ARCHIVE_SUM_BYTES];
    off_t size = fseeko(f, 0, SEEK_END) == 0 ? ftello(f) : -1;
    if (size < (off_t)sizeof(end))
        return archive_fail_damaged(path, "it is too short", err);
    rewind(f);
    EVP_MD_CTX *sum = archive_sum_new();
    off_t left = size - (off_t)sizeof(end);
    while (left > 0) {
        size_t most = left < (off_t)sizeof(chunk) ? (size_t)left : sizeof(chunk);
        size_t n = fread(chunk, 1, most, f);
        if (n == 0)
            break;
        (void)EVP_DigestUpdate(sum, chunk, n);
        left -= (off_t)n;
    }
    cleanup_sbuf struct sbuf want = {0};
    archive_add_sum(sum, &want);
    EVP_MD_CTX_free(sum);
    bool same = left == 0 && fread(end, 1, sizeof(end), f) == sizeof(end) &&
                str_eq(sbuf_str(&want), str_make(end, sizeof(end)));
    rewind(f);
    return same ? 0 : archive_fail_damaged(path, "its checksum is wrong", err);
}

// archive_line reads a line of the archive itself.
static bool archive_line(FILE *f, char line[ARCHIVE_LINE_BYTES], struct str *ret)
{
    if (!fgets(line, ARCHIVE_LINE_BYTES, f))
        return false;
    *ret = str_z(line);
    if (!ret->n || ret->p[ret->n - 1] != '\n')
        return false;
    ret->n--;
    return true;
}

static int archive_take_file(FILE *f, const char *path, int dir, struct str name, uint64_t size,
                             struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    sbuf_add(&text, name);
    int cleanup_fd to =
        openat(dir, text.p, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, ARCHIVE_MODE);
    if (to < 0)
        return err_set(err, errno, "cannot make %s: %m", text.p);
    struct archive_out out = {.fd = to, .sum = archive_sum_new(), .path = text.p};
    char chunk[ARCHIVE_CHUNK];
    int r = 0;
    while (r == 0 && size > 0) {
        size_t n = fread(chunk, 1, size < sizeof(chunk) ? (size_t)size : sizeof(chunk), f);
        r = n ? archive_put(&out, chunk, n, err)
              : archive_fail_damaged(path, "a file is cut off", err);
        size -= n;
    }
    EVP_MD_CTX_free(out.sum);
    if (r == 0 && fsync(to) < 0)
        r = err_set(err, errno, "cannot write %s: %m", text.p);
    return r;
}

// archive_take_next takes the next file. Returns 1, 0 behind the last one, or a negative code.
static int archive_take_next(FILE *f, const char *path, int dir, bool *has_database,
                             struct err *err)
{
    char line[ARCHIVE_LINE_BYTES];
    struct str text, name;
    uint64_t size = 0;
    if (!archive_line(f, line, &text))
        return archive_fail_damaged(path, "a line is missing", err);
    if (str_starts(text, STR("sha256 ")))
        return 0;
    ptrdiff_t space = str_rfind_char(text, ' ');
    if (!str_starts(text, STR("file ")) || space <= 5 ||
        str_to_u64(str_from(text, (size_t)space + 1), &size) < 0)
        return archive_fail_damaged(path, "a line cannot be understood", err);
    name = str_make(text.p + 5, (size_t)space - 5);
    if (!archive_name_ok(name))
        return archive_fail_damaged(path, "a name is not allowed", err);
    *has_database |= str_eqz(name, "dray.db");
    int r = archive_take_file(f, path, dir, name, size, err);
    return r < 0 ? r : 1;
}

static int archive_take_all(FILE *f, const char *path, int dir, struct err *err)
{
    char line[ARCHIVE_LINE_BYTES];
    struct str head;
    uint64_t format = 0;
    bool has_database = false;
    if (!archive_line(f, line, &head) || !str_starts(head, STR("dray-backup ")) ||
        str_to_u64(str_from(head, 12), &format) < 0)
        return err_set(err, ERR_INVALID, "%s is not a backup of dray", path);
    if (format != ARCHIVE_FORMAT)
        return err_set(err, ERR_INVALID,
                       "the backup %s was written by a newer dray (format %llu, this one knows "
                       "%d): use that one",
                       path, (unsigned long long)format, ARCHIVE_FORMAT);
    int r = archive_verify(f, path, err);
    if (r < 0)
        return r;
    (void)archive_line(f, line, &head);
    if (mkdirat(dir, "pki", 0700) < 0)
        return err_set(err, errno, "cannot make a directory for keys: %m");
    while ((r = archive_take_next(f, path, dir, &has_database, err)) > 0) {}
    if (r == 0 && !has_database)
        r = archive_fail_damaged(path, "it has no database", err);
    return r < 0 || fsync(dir) == 0 ? r : err_set(err, errno, "cannot write the directory: %m");
}

// archive_is_database: a backup as older versions made them.
static bool archive_is_database(FILE *f)
{
    char head[sizeof(ARCHIVE_SQLITE)] = {0};
    bool is = fread(head, 1, sizeof(head), f) == sizeof(head) &&
              memcmp(head, ARCHIVE_SQLITE, sizeof(head)) == 0;
    rewind(f);
    return is;
}

static int archive_restore_into(FILE *f, const char *path, const char *temporary, struct err *err)
{
    int cleanup_fd dir = open(temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return err_set(err, errno, "cannot open %s: %m", temporary);
    return archive_is_database(f) ? file_copy_durable(fileno(f), dir, "dray.db", ARCHIVE_MODE, err)
                                  : archive_take_all(f, path, dir, err);
}

int archive_restore(const char *path, const char *dir, struct err *err)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return err_set(err, errno, "cannot read the backup %s: %m", path);
    cleanup_sbuf struct sbuf temporary = {0};
    sbuf_add(&temporary, str_z(dir));
    while (temporary.n > 1 && temporary.p[temporary.n - 1] == '/')
        temporary.p[--temporary.n] = '\0';
    sbuf_addz(&temporary, ".restore-XXXXXX");
    if (!mkdtemp(temporary.p)) {
        (void)fclose(f);
        return err_set(err, errno, "cannot make a directory beside %s: %m", dir);
    }
    int r = archive_restore_into(f, path, temporary.p, err);
    (void)fclose(f);
    if (r == 0 && rename(temporary.p, dir) < 0)
        r = err_set(err, errno,
                    "%s has data already, which would be lost: restore into a new --data-dir", dir);
    if (r < 0)
        (void)file_remove_tree(temporary.p, NULL);
    return r;
}
