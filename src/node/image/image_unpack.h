// SPDX-License-Identifier: Apache-2.0
//
// Layers laid over each other in one directory. A layer may say anything: it can neither write nor
// remove nor link anything outside the directory, whatever names and links it has; what it may use
// is bounded. Device nodes are not made: a container's devices come from its configuration. Of
// extended attributes only user's and file capabilities are kept.
#ifndef NODE_IMAGE_IMAGE_UNPACK_H
#define NODE_IMAGE_IMAGE_UNPACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "node/image/tar.h"

#define UNPACK_BYTES_MAX   ((uint64_t)64 << 30)
#define UNPACK_ENTRIES_MAX ((uint64_t)2000000)
#define UNPACK_DEPTH_MAX   256
#define UNPACK_NAMES_MAX \
    ((size_t)128 << 20) // bytes of names of one layer, kept for opaque directories

// What an image used and may use, over all its layers.
struct unpack {
    int root; // the directory
    uint64_t bytes_left, entries_left;
    uint64_t devices; // that were left out
    bool keep_owners; // from the archive; needs root
};

// image_unpack_init sets the usual bounds.
void image_unpack_init(struct unpack *u, int root);

// image_unpack_layer applies one layer over the earlier ones. Returns 0, -ERR_INVALID (leaves the
// directory, a link to nothing), -ERR_TOO_LARGE, -errno of the disk, or as the reader.
int image_unpack_layer(struct unpack *u, struct tar_reader *r, struct err *err) MUST_USE;

#endif
