// SPDX-License-Identifier: Apache-2.0
//
// The store of images, for the files that keep it: image.c finds and makes, image_gc.c removes.
#ifndef NODE_IMAGE_IMAGE_INT_H
#define NODE_IMAGE_IMAGE_INT_H

#include <pthread.h>

#include "node/image/image.h"

#define IMAGE_INFO_BYTES_MAX ((size_t)64 << 10)

struct image_store {
    char *folder, *local;
    int fd;
    pthread_mutex_t lock; // of making and removing images
    // Between noting that an image is used and letting it disappear: held for moments, while `lock`
    // is held as long as a pull takes.
    pthread_mutex_t use_lock;
    unsigned long next; // number of the next temporary directory
    const struct clock *clock;
    int (*measure)(void *arg, uint64_t *ret_capacity, uint64_t *ret_available);
    void *measure_arg;
};

// image_id_ok: "sha256:" and 64 digits; the digits name the image's directory.
bool image_id_ok(struct str id);

// image_note_use records a use of the image. The time is that of its directory.
void image_note_use(struct image_store *s, struct str hex);

// image_read_info reads all but the configuration, image_load_unused everything; neither counts as
// a use.
int image_read_info(struct image_store *s, struct str hex, struct arena *arena,
                    struct image_info *ret, struct err *err) MUST_USE;
int image_load_unused(struct image_store *s, struct str id, struct arena *arena,
                      struct image_info *ret, struct err *err) MUST_USE;

#endif
