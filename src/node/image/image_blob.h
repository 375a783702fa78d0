// SPDX-License-Identifier: Apache-2.0
//
// Bytes of an image on their way in: a part of a file, hashed as it is read, decompressed if need
// be, the result hashed again. Both sums are compared at the end: a caller that uses the bytes
// earlier must be able to undo it.
#ifndef NODE_IMAGE_IMAGE_BLOB_H
#define NODE_IMAGE_IMAGE_BLOB_H

#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"
#include "node/image/image_manifest.h"

struct image_blob;

// Where a blob lies.
struct image_place {
    int fd; // borrowed; read with offsets, so that several may share it
    uint64_t offset, size;
};

struct image_blob_options {
    struct image_place place;
    struct str digest;  // of the bytes as they lie there; empty: not checked
    struct str diff_id; // of the decompressed bytes; empty: not checked
    enum image_compression compression;
    uint64_t max_bytes; // after decompression
};

// image_blob_new begins to read. Returns 0 or -ERR_UNSUPPORTED (a compression that is not built
// in).
int image_blob_new(const struct image_blob_options *options, struct image_blob **ret,
                   struct err *err) MUST_USE;
void image_blob_free(struct image_blob *b);

// image_blob_read gives the next decompressed bytes: how many, 0 at the end, -ERR_INVALID
// (damaged), -ERR_TOO_LARGE (more than max_bytes) or -errno. Its type is tar_read_fn.
ssize_t image_blob_read(void *blob, void *buf, size_t n, struct err *err);

// image_blob_finish reads what is left and compares the sums. Returns 0, -ERR_INVALID, or as above.
int image_blob_finish(struct image_blob *b, struct err *err) MUST_USE;

// image_blob_text reads a whole small blob into out and compares the sum.
int image_blob_text(const struct image_place *place, struct str digest, size_t max,
                    struct sbuf *out, struct err *err) MUST_USE;

// image_sha256 adds the digest of bytes, as "sha256:" and 64 digits or the digits alone.
void image_sha256(struct str bytes, bool prefix, struct sbuf *out);

#endif
