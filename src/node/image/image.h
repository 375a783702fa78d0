// SPDX-License-Identifier: Apache-2.0
//
// Images of a node: found, checked, unpacked, kept in a directory, removed. A reference is one of
//     oci:PATH[:TAG]           an OCI image layout
//     oci-archive:PATH[:TAG]   the same in a tar archive
//     docker-archive:PATH      what `docker save` writes
//     dir:PATH                 a root file system as it is; it is used, not copied
// where PATH lies in the directory of local images (authors of pods must not reach the machine's
// files), or a name as registries have it, which is looked for in a directory of local images
// (layouts and archives, by their annotations or, for those with only a tag, by their file's name)
// and then pulled with skopeo.
//
// Directory: unpacked/HEX/{rootfs,config,info}, refs/HEX (which image a reference is), tmp. An
// image appears whole, by a rename, after all its sums were right; the time of its directory is
// when it was used last. Safe from several threads; several processes must not share it.
#ifndef NODE_IMAGE_IMAGE_H
#define NODE_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "node/image/image_manifest.h"
#include "node/runtime/runtime.h"

struct image_store;

struct image_store_options {
    const char *folder;
    const char *local;         // directory of local images; NULL: none
    const struct clock *clock; // NULL: the machine's
    // measure returns size and free space of the file system in bytes; NULL: statvfs.
    // Returns 0 or -errno.
    int (*measure)(void *arg, uint64_t *ret_capacity, uint64_t *ret_available);
    void *measure_arg;
};

// image_store_new makes the directory and clears away what a crash left. Returns 0 or -errno.
int image_store_new(const struct image_store_options *options, struct image_store **ret,
                    struct err *err) MUST_USE;
void image_store_free(struct image_store *s);

// An unpacked image; texts live in the arena.
struct image_info {
    struct str id;     // "sha256:…" of its configuration
    struct str name;   // NAME@DIGEST where it came with one
    struct str rootfs; // its directory
    struct image_config config;
    uint64_t size; // of its unpacked files, in bytes; 0: not known
};

// Finding, getting and loading an image is using it.
//
// image_find is an image that is here, by reference, without pulling. Returns 0 or -ERR_NOT_FOUND.
int image_find(struct image_store *s, struct str reference, struct arena *arena,
               struct image_info *ret, struct err *err) MUST_USE;

// image_get makes it be here. It blocks, for long. Codes as runtime_ops.image_ensure.
int image_get(struct image_store *s, const struct runtime_image *image, struct arena *arena,
              struct image_info *ret, struct err *err) MUST_USE;

// image_load reads an image by its id. Returns 0, -ERR_NOT_FOUND or -ERR_INVALID.
int image_load(struct image_store *s, struct str id, struct arena *arena, struct image_info *ret,
               struct err *err) MUST_USE;

struct image_gc {
    struct runtime_image_gc rules;
    // used: a container has the image (its id, and its name where it has one), or is about to.
    bool (*used)(void *arg, struct str id, struct str name);
    void *arg;
};

// image_gc checks how full the disk is and removes unused images, the one first that was not used
// for the longest time. It blocks, for long. Returns 0, or -errno when the disk cannot be asked or
// an image not be removed; *ret is set either way.
int image_gc(struct image_store *s, const struct image_gc *how, struct image_freed *ret,
             struct err *err) MUST_USE;

// image_used_percent is how full the disk is.
unsigned image_used_percent(const struct image_freed *f);

#endif
