// SPDX-License-Identifier: Apache-2.0
//
// The steps of replacing a CA: which certificates ca.crt holds, and in which order.
#include "pki/ca_rotation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/file.h>

#include "os/file.h"
#include "pki/csr.h"
#include "pki/pki.h"
#include "pki/pki_int.h"

#include "base/banned.h"

#define CA_ROTATION_MAX 2 // certificates and keys: of the old CA and of the new one

// What both files hold, and which key is whose. Texts are on the heap.
struct ca_rotation {
    char *certificate_file, *key_file;
    char *certificates[CA_ROTATION_MAX], *keys[CA_ROTATION_MAX];
    size_t certificates_len, keys_len;
};

static void ca_rotation_done(struct ca_rotation *c)
{
    struct pki_key_pair pairs[CA_ROTATION_MAX];
    for (size_t i = 0; i < CA_ROTATION_MAX; i++) {
        pairs[i] = (struct pki_key_pair){c->certificates[i], c->keys[i]};
        pki_key_pair_done(&pairs[i]);
    }
    free(c->certificate_file);
    free(c->key_file);
}

// ca_rotation_cut takes the first PEM block off a text, with its last line. Empty: there is none.
static struct str ca_rotation_cut(struct str *text)
{
    struct str block = {0};
    ptrdiff_t end = str_find(*text, STR("-----END "));
    if (end < 0)
        return block;
    struct str rest = str_from(*text, (size_t)end);
    ptrdiff_t line = str_find_char(rest, '\n');
    size_t n = (size_t)end + (line < 0 ? rest.n : (size_t)line + 1);
    block = str_upto(*text, n);
    *text = str_from(*text, n);
    return block;
}

static size_t ca_rotation_split(struct str text, char *blocks[CA_ROTATION_MAX])
{
    size_t n = 0;
    for (struct str block; (block = ca_rotation_cut(&text)).n; n++)
        if (n < CA_ROTATION_MAX)
            blocks[n] = xstrndup(block.p, block.n);
    return n;
}

bool ca_rotation_pick_key(struct pki_key_pair *pair)
{
    struct str text = str_z(pair->key_pem);
    for (struct str block; (block = ca_rotation_cut(&text)).n;) {
        struct pki_key_pair one = {xstrndup(pair->certificate_pem, strlen(pair->certificate_pem)),
                                   xstrndup(block.p, block.n)};
        if (pki_key_fits(&one)) {
            pki_key_pair_done(pair);
            *pair = one;
            return true;
        }
        pki_key_pair_done(&one);
    }
    return false;
}

static char *ca_rotation_path(const char *folder, const char *name)
{
    struct sbuf path = {0};
    sbuf_addf(&path, "%s/%s", folder, name);
    return sbuf_take(&path);
}

static int ca_rotation_read_file(const char *path, char **ret, struct err *err)
{
    int r = pki_read_file(path, ret, err);
    return r == -ENOENT ? err_set(err, ENOENT, "there is no %s; start the server once", path) : r;
}

static int ca_rotation_read(const char *folder, struct ca_rotation *c, struct err *err)
{
    char *certificates = NULL, *keys = NULL;
    c->certificate_file = ca_rotation_path(folder, "ca.crt");
    c->key_file = ca_rotation_path(folder, "ca.key");
    int r = ca_rotation_read_file(c->certificate_file, &certificates, err);
    if (r == 0)
        r = ca_rotation_read_file(c->key_file, &keys, err);
    if (r == 0) {
        c->certificates_len = ca_rotation_split(str_z(certificates), c->certificates);
        c->keys_len = ca_rotation_split(str_z(keys), c->keys);
    }
    if (r == 0 && (c->certificates_len == 0 || c->certificates_len > CA_ROTATION_MAX ||
                   c->keys_len == 0 || c->keys_len > CA_ROTATION_MAX))
        r = err_set(err, ERR_INVALID,
                    "%s and its key hold %zu certificates and %zu keys: a CA, or an old one and a "
                    "new one, can be rotated",
                    c->certificate_file, c->certificates_len, c->keys_len);
    struct pki_key_pair shreds = {certificates, keys};
    pki_key_pair_done(&shreds);
    return r;
}

// ca_rotation_key_of is the place of a certificate's key, or -ERR_INVALID.
static int ca_rotation_key_of(const struct ca_rotation *c, size_t certificate, struct err *err)
{
    for (size_t i = 0; i < c->keys_len; i++)
        if (pki_pair_matches(c->certificates[certificate], c->keys[i]))
            return (int)i;
    return err_set(err, ERR_INVALID,
                   "%s does not hold the key of each certificate of %s: restore both from a backup "
                   "('dray restore')",
                   c->key_file, c->certificate_file);
}

static int ca_rotation_phase_of(const struct ca_rotation *c, struct err *err)
{
    int first = ca_rotation_key_of(c, 0, err);
    int second = c->certificates_len > 1 && first >= 0 ? ca_rotation_key_of(c, 1, err) : first;
    if (first < 0 || second < 0)
        return first < 0 ? first : second;
    return c->certificates_len == 1 ? CA_SINGLE : first == 0 ? CA_TRUSTED : CA_ISSUING;
}

// ca_rotation_open reads the files and refuses a step whose turn it is not.
static int ca_rotation_open(const char *folder, enum ca_phase wanted, struct ca_rotation *c,
                            struct err *err)
{
    static const char *const remedies[] = {
        [CA_SINGLE] = "no rotation is under way: begin one with 'dray rotate ca'",
        [CA_TRUSTED] = "a new CA is trusted already: sign with it by 'dray rotate ca --issue'",
        [CA_ISSUING] = "the new CA signs already: drop the old one by 'dray rotate ca --finish'",
    };
    int r = ca_rotation_read(folder, c, err);
    if (r == 0)
        r = ca_rotation_phase_of(c, err);
    if (r >= 0 && r != (int)wanted)
        r = err_set(err, ERR_CONFLICT, "%s", remedies[r]);
    return r < 0 ? r : 0;
}

static int ca_rotation_write(const char *file, const char *first, const char *second,
                             struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text, "%s%s", first, second ? second : "");
    return file_replace_durable(AT_FDCWD, file, sbuf_str(&text), 0600, err);
}

int ca_rotation_phase(const char *folder, struct err *err)
{
    cleanup_with(ca_rotation_done) struct ca_rotation c = {0};
    int r = ca_rotation_read(folder, &c, err);
    return r < 0 ? r : ca_rotation_phase_of(&c, err);
}

static int ca_rotation_begin_locked(const char *folder, int64_t now, struct err *err)
{
    cleanup_with(ca_rotation_done) struct ca_rotation c = {0};
    struct pki_key_pair fresh = {0};
    int r = ca_rotation_open(folder, CA_SINGLE, &c, err);
    if (r == 0)
        r = pki_make_cluster_ca(now, &fresh, err);
    // A step that was interrupted may have left a key of no certificate beside the CA's.
    int key = r == 0 ? ca_rotation_key_of(&c, 0, err) : r;
    if (key >= 0)
        r = ca_rotation_write(c.key_file, c.keys[key], fresh.key_pem, err);
    if (r == 0)
        r = ca_rotation_write(c.certificate_file, c.certificates[0], fresh.certificate_pem, err);
    pki_key_pair_done(&fresh);
    return r;
}

// ca_rotation_lock lets one process at a time change the CA. The lock ends with the descriptor.
static int ca_rotation_lock(const char *folder, struct err *err)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX) < 0) {
        int code = errno;
        if (fd >= 0)
            (void)close(fd);
        return err_set(err, code, "cannot lock %s: %s", folder, strerrordesc_np(code));
    }
    return fd;
}

int ca_rotation_begin(const char *folder, int64_t now, struct err *err)
{
    int lock = ca_rotation_lock(folder, err);
    int r = lock < 0 ? lock : ca_rotation_begin_locked(folder, now, err);
    if (lock >= 0)
        (void)close(lock);
    return r;
}

static int ca_rotation_issue_locked(const char *folder, struct err *err)
{
    cleanup_with(ca_rotation_done) struct ca_rotation c = {0};
    int r = ca_rotation_open(folder, CA_TRUSTED, &c, err);
    return r < 0 ? r
                 : ca_rotation_write(c.certificate_file, c.certificates[1], c.certificates[0], err);
}

// ca_rotation_check_files: no certificate of folder is the old CA's.
static int ca_rotation_check_files(const struct ca_rotation *c, const char *folder, struct err *err)
{
    static const char *const names[] = {"server.crt", "admin.crt", "kubelet-client.crt", "node.crt",
                                        "kubelet.crt"};
    int r = 0;
    for (size_t i = 0; r == 0 && i < sizeof(names) / sizeof(names[0]); i++) {
        cleanup_free char *path = ca_rotation_path(folder, names[i]);
        cleanup_free char *pem = NULL;
        r = pki_read_file(path, &pem, err);
        if (r == 0 && csr_signed_by(str_z(pem), str_z(c->certificates[1])))
            r = err_set(err, ERR_CONFLICT,
                        "%s is still a certificate of the old CA: let the server run until it has "
                        "renewed it, or start it once; --force drops the old CA all the same",
                        path);
        if (r == -ENOENT)
            r = 0;
    }
    return r;
}

static int ca_rotation_finish_locked(const char *folder, bool force, struct err *err)
{
    cleanup_with(ca_rotation_done) struct ca_rotation c = {0};
    int r = ca_rotation_open(folder, CA_ISSUING, &c, err);
    if (r == 0 && !force)
        r = ca_rotation_check_files(&c, folder, err);
    int key = r == 0 ? ca_rotation_key_of(&c, 0, err) : r;
    if (key < 0)
        return key;
    r = ca_rotation_write(c.certificate_file, c.certificates[0], NULL, err);
    return r < 0 ? r : ca_rotation_write(c.key_file, c.keys[key], NULL, err);
}

int ca_rotation_issue(const char *folder, struct err *err)
{
    int lock = ca_rotation_lock(folder, err);
    int r = lock < 0 ? lock : ca_rotation_issue_locked(folder, err);
    if (lock >= 0)
        (void)close(lock);
    return r;
}

int ca_rotation_finish(const char *folder, bool force, struct err *err)
{
    int lock = ca_rotation_lock(folder, err);
    int r = lock < 0 ? lock : ca_rotation_finish_locked(folder, force, err);
    if (lock >= 0)
        (void)close(lock);
    return r;
}
