// SPDX-License-Identifier: Apache-2.0
//
// Makes images for tests: tar archives entry by entry, OCI layouts of them, one with busybox. The same bytes every
// time.
#ifndef UNIT_IMAGE_KIT_H
#define UNIT_IMAGE_KIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "node/image/image.h"

struct kit_tar {
    struct sbuf bytes;
};

// kit_tar_add adds an entry; type is tar's letter. Long names get a pax header.
void kit_tar_add(struct kit_tar *t, char type, const char *name, unsigned mode, struct str data,
                 const char *link);
void kit_tar_end(struct kit_tar *t);

// kit_gzip compresses. kit_digest writes "sha256:…" to out.
void kit_gzip(struct str in, struct sbuf *out);
void kit_digest(struct str bytes, char out[80]);

struct kit_image {
    const struct str *layers; // tar archives
    size_t layers_len;
    bool gzip;
    const char *config; // the "config" member, an object; NULL: {}
    const char *name;   // annotation ref.name; NULL: none
};

// kit_layout writes an OCI layout into a folder, which it makes; several images share it when called again.
void kit_layout(const char *folder, const struct kit_image *image);

// kit_busybox writes a layout with a busybox of the machine. False: there is no static busybox.
bool kit_busybox(const char *folder, const char *name, const char *config);

// kit_busybox_over is that with one more layer over it.
bool kit_busybox_over(const char *folder, const char *name, const char *config,
                      const struct kit_tar *over);

// kit_each_image calls fn for every image of a store; that is not a use of it.
void kit_each_image(struct image_store *s, void (*fn)(void *arg, const struct image_info *info),
                    void *arg);

void kit_write(const char *path, struct str bytes);
// kit_remove removes a folder of a test.
void kit_remove(const char *path);

#endif
