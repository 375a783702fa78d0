// SPDX-License-Identifier: Apache-2.0
//
// Reads a blob of an image, decompresses it and computes the digests of both forms on the way.
#include "node/image/image_blob.h"

#include <assert.h>
#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "base/mem.h"

#include "base/banned.h"

#define CHUNK ((size_t)128 * 1024)

struct image_blob {
    struct image_blob_options options;
    char digest[160], diff_id[160];
    uint64_t at;       // read of the place
    uint64_t produced; // decompressed
    EVP_MD_CTX *outer, *inner;
    z_stream z;
    bool z_open, z_ended, ended;
    unsigned char *in; // compressed bytes
    size_t in_at, in_len;
};

// --- Digests -------------------------------------------------------------------------------------

static EVP_MD_CTX *sum_new(const char *digest)
{
    if (!digest[0])
        return NULL;
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    const EVP_MD *kind = strncmp(digest, "sha512:", 7) == 0 ? EVP_sha512() : EVP_sha256();
    int ok = c && EVP_DigestInit_ex(c, kind, NULL) == 1;
    assert(ok); // fails only without memory
    (void)ok;
    return c;
}

static void sum_add(EVP_MD_CTX *c, const void *p, size_t n)
{
    if (c && n)
        (void)EVP_DigestUpdate(c, p, n);
}

static void add_hex(struct sbuf *out, const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sbuf_addf(out, "%02x", p[i]);
}

static int sum_check(EVP_MD_CTX *c, const char *digest, struct err *err)
{
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    cleanup_sbuf struct sbuf got = {0};
    if (!c)
        return 0;
    (void)EVP_DigestFinal_ex(c, md, &len);
    sbuf_addz(&got, len == 64 ? "sha512:" : "sha256:");
    add_hex(&got, md, len);
    if (strcmp(got.p, digest) != 0)
        return err_set(err, ERR_INVALID, "the image is damaged: %s is wanted, %s is there", digest,
                       got.p);
    return 0;
}

void image_sha256(struct str bytes, bool prefix, struct sbuf *out)
{
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    (void)EVP_Digest(bytes.n ? bytes.p : "", bytes.n, md, &len, EVP_sha256(), NULL);
    if (prefix)
        sbuf_addz(out, "sha256:");
    add_hex(out, md, len);
}

// --- Reading -------------------------------------------------------------------------------------

static void image_blob_keep_digest(char *to, size_t cap, struct str digest)
{
    size_t n = digest.n < cap - 1 ? digest.n : cap - 1;
    if (n)
        memcpy(to, digest.p, n);
    to[n] = '\0';
}

int image_blob_new(const struct image_blob_options *options, struct image_blob **ret,
                   struct err *err)
{
    if (options->compression == IMAGE_ZSTD)
        return err_set(err, ERR_UNSUPPORTED,
                       "layers compressed with zstd are not understood; use gzip or none");
    struct image_blob *b = xcalloc(1, sizeof(*b));
    b->options = *options;
    image_blob_keep_digest(b->digest, sizeof(b->digest), options->digest);
    image_blob_keep_digest(b->diff_id, sizeof(b->diff_id), options->diff_id);
    b->outer = sum_new(b->digest);
    b->inner = sum_new(b->diff_id);
    if (options->compression == IMAGE_GZIP) {
        b->in = xmalloc(CHUNK);
        // 15 bits of window, and 16 for: gzip, not zlib.
        b->z_open = inflateInit2(&b->z, 15 + 16) == Z_OK;
        assert(b->z_open);
    }
    *ret = b;
    return 0;
}

void image_blob_free(struct image_blob *b)
{
    if (!b)
        return;
    EVP_MD_CTX_free(b->outer);
    EVP_MD_CTX_free(b->inner);
    if (b->z_open)
        (void)inflateEnd(&b->z);
    free(b->in);
    free(b);
}

// The bytes as they lie there.
static ssize_t read_place(struct image_blob *b, void *buf, size_t n, struct err *err)
{
    const struct image_place *p = &b->options.place;
    uint64_t left = p->size - b->at;
    ssize_t got;
    if (n > left)
        n = (size_t)left;
    if (n == 0)
        return 0;
    do
        got = pread(p->fd, buf, n, (off_t)(p->offset + b->at));
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return err_set(err, errno, "cannot read a layer: %s", strerrordesc_np(errno));
    if (got == 0)
        return err_set(err, ERR_INVALID, "the image is damaged: a blob is %llu bytes short",
                       (unsigned long long)left);
    b->at += (uint64_t)got;
    sum_add(b->outer, buf, (size_t)got);
    return got;
}

static ssize_t inflate_some(struct image_blob *b, void *buf, size_t n, struct err *err)
{
    b->z.next_out = buf;
    b->z.avail_out = n > UINT32_MAX ? UINT32_MAX : (uInt)n;
    uInt room = b->z.avail_out;
    while (b->z.avail_out == room) {
        if (b->in_at == b->in_len) {
            ssize_t got = read_place(b, b->in, CHUNK, err);
            if (got < 0)
                return got;
            if (got == 0 && !b->z_ended)
                return err_set(err, ERR_INVALID,
                               "the image is damaged: a layer's gzip stream ends "
                               "in the middle");
            if (got == 0)
                return 0;
            b->in_at = 0;
            b->in_len = (size_t)got;
        }
        if (b->z_ended) { // another member follows
            (void)inflateReset(&b->z);
            b->z_ended = false;
        }
        b->z.next_in = b->in + b->in_at;
        b->z.avail_in = (uInt)(b->in_len - b->in_at);
        int r = inflate(&b->z, Z_NO_FLUSH);
        b->in_at = b->in_len - b->z.avail_in;
        if (r == Z_STREAM_END)
            b->z_ended = true;
        else if (r != Z_OK && r != Z_BUF_ERROR)
            return err_set(err, ERR_INVALID, "the image is damaged: a layer is not gzip: %s",
                           b->z.msg ? b->z.msg : "no reason given");
    }
    return (ssize_t)(room - b->z.avail_out);
}

ssize_t image_blob_read(void *blob, void *buf, size_t n, struct err *err)
{
    struct image_blob *b = blob;
    if (b->ended || n == 0)
        return 0;
    ssize_t got = b->options.compression == IMAGE_GZIP ? inflate_some(b, buf, n, err)
                                                       : read_place(b, buf, n, err);
    if (got < 0)
        return got;
    b->ended = got == 0;
    b->produced += (uint64_t)got;
    sum_add(b->inner, buf, (size_t)got);
    if (b->produced > b->options.max_bytes)
        return err_set(err, ERR_TOO_LARGE, "a layer is larger than %llu bytes",
                       (unsigned long long)b->options.max_bytes);
    return got;
}

int image_blob_finish(struct image_blob *b, struct err *err)
{
    char buf[16384];
    ssize_t got;
    do
        got = image_blob_read(b, buf, sizeof(buf), err);
    while (got > 0);
    if (got < 0)
        return (int)got;
    int r = sum_check(b->outer, b->digest, err);
    return r < 0 ? r : sum_check(b->inner, b->diff_id, err);
}

int image_blob_text(const struct image_place *place, struct str digest, size_t max,
                    struct sbuf *out, struct err *err)
{
    if (place->size > max)
        return err_set(err, ERR_TOO_LARGE, "a document of an image has %llu bytes, at most %zu",
                       (unsigned long long)place->size, max);
    struct image_blob *b;
    const struct image_blob_options o = {.place = *place, .digest = digest, .max_bytes = max};
    int r = image_blob_new(&o, &b, err);
    if (r < 0)
        return r;
    ssize_t got;
    do {
        got = image_blob_read(b, sbuf_space(out, 16384), 16384, err);
        sbuf_commit(out, got > 0 ? (size_t)got : 0);
    } while (got > 0);
    r = got < 0 ? (int)got : image_blob_finish(b, err);
    image_blob_free(b);
    return r;
}
