// SPDX-License-Identifier: Apache-2.0
//
// Tar archives as they come: ustar, GNU's long names, pax. Bytes come from a function, so that an
// archive in memory, in a file or behind a decompressor reads the same. Nothing is believed: header
// sums are checked, names and extended headers are bounded, and what is not understood is an error
// with its offset. GNU and pax sparse files are refused.
#ifndef NODE_IMAGE_TAR_H
#define NODE_IMAGE_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

#define TAR_BLOCK         512
#define TAR_NAME_MAX      4096               // bytes of a name or a link's target
#define TAR_EXTENDED_MAX  ((size_t)1 << 20)  // bytes of one extended header
#define TAR_ATTRIBUTE_MAX ((size_t)64 << 10) // bytes of one extended attribute
#define TAR_BYTES_MAX     ((uint64_t)1 << 50)

enum tar_type {
    TAR_FILE,
    TAR_HARD_LINK,
    TAR_SYMBOLIC_LINK,
    TAR_CHARACTER,
    TAR_BLOCK_DEVICE,
    TAR_FOLDER,
    TAR_FIFO,
    TAR_OTHER,
};

struct tar_attribute {
    struct str name, value;
};
struct tar_attributes VEC(struct tar_attribute);

// Texts live until the next tar_next; a NUL follows each.
struct tar_entry {
    enum tar_type type;
    struct str name;
    struct str link; // of links
    uint64_t size;   // of a file's data
    uint32_t mode, uid, gid;
    int64_t mtime_sec;
    struct tar_attributes attributes;
};

// tar_read_fn gives up to n bytes. Returns how many, 0 at the end, or a negative code.
typedef ssize_t (*tar_read_fn)(void *arg, void *buf, size_t n, struct err *err);

struct tar_reader {
    tar_read_fn read;
    void *arg;
    uint64_t offset;        // bytes taken from read
    uint64_t left, padding; // of the entry's data
    struct arena arena;     // of the entry's texts
    bool ended;
};

void tar_reader_init(struct tar_reader *r, tar_read_fn read, void *arg);
void tar_reader_done(struct tar_reader *r);

// tar_next goes to the next entry, skipping what is left of this one. Returns 1, 0 behind the last
// one, or -ERR_INVALID (not a tar archive, cut off), -ERR_TOO_LARGE, -ERR_UNSUPPORTED (sparse) or
// the code of read.
int tar_next(struct tar_reader *r, struct tar_entry *ret, struct err *err) MUST_USE;

// tar_data reads data of the current entry: how many bytes, 0 at its end, or a negative code.
ssize_t tar_data(struct tar_reader *r, void *buf, size_t n, struct err *err) MUST_USE;

#endif
