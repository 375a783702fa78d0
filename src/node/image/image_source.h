// SPDX-License-Identifier: Apache-2.0
//
// Where images come from: an OCI layout in a directory or in a tar archive, or what `docker save`
// writes. A source finds documents and blobs by name; the reader checks their digests.
#ifndef NODE_IMAGE_IMAGE_SOURCE_H
#define NODE_IMAGE_IMAGE_SOURCE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "node/image/image_blob.h"
#include "node/image/image_manifest.h"

struct image_source;

// image_source_open opens a layout's directory or an archive. Returns 0, -ERR_NOT_FOUND (nothing
// there), -ERR_INVALID (not an image), -ERR_UNSUPPORTED (a compressed archive) or -errno.
int image_source_open(const char *path, struct image_source **ret, struct err *err) MUST_USE;
void image_source_free(struct image_source *s);

// Content to unpack: the configuration, and the layers with their known digests.
struct image_layer {
    struct image_place place;
    struct str digest; // empty: not known
    enum image_compression compression;
};
struct image_layers VEC(struct image_layer);

struct image_content {
    struct str digest;      // of the manifest; empty: none
    struct str config_text; // checked
    struct image_config config;
    struct image_layers layers;
};

// image_source_find reads the manifest that a tag or name (empty: the only one) stands for, for
// this machine's platform. tag matches a whole annotation; name is a full reference. Texts live in
// arena, places in the source. Returns 0, -ERR_NOT_FOUND, or the code of a damaged image.
int image_source_find(struct image_source *s, struct str tag, struct str name, struct arena *arena,
                      struct image_content *ret, struct err *err) MUST_USE;

#endif
