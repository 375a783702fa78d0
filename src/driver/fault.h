// SPDX-License-Identifier: Apache-2.0
//
// Faults of simulated hardware: a JSON file of a node that lists what is wrong. A fault is there as
// long as the file has them; the driver takes out those that a reset heals and those that happen
// once.
#ifndef DRIVER_FAULT_H
#define DRIVER_FAULT_H

#include <pthread.h>
#include <time.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

enum fault_kind {
    FAULT_XID,          // code: an error of the GPU; a reset heals it
    FAULT_LOST,         // the device does not answer; only hands heal it
    FAULT_SLOW_PREPARE, // ms
    FAULT_PREPARE,      // prepare fails
    FAULT_UNPREPARE,    // unprepare fails
    FAULT_CRASH,        // step: the driver dies at that step of the next call; once
    FAULT_ATTACH,       // attach fails
    FAULT_SLOW_ATTACH,  // ms
};

struct fault {
    enum fault_kind kind;
    struct str device; // empty: all
    int64_t code;
    int64_t ms;
    int64_t step;
};

struct faults VEC(struct fault);

#define FAULTS_MAX 1000

// fault_kind_name is the name in files and on the command line. fault_kind_parse finds it.
const char *fault_kind_name(enum fault_kind kind);
bool fault_kind_parse(struct str name, enum fault_kind *ret);

// fault_list_write adds the text of a file.
void fault_list_write(const struct faults *f, struct sbuf *out);

// fault_list_load reads a file; none is no faults. fault_list_save replaces it, creating
// directories.
int fault_list_load(const char *path, struct arena *arena, struct faults *ret,
                    struct err *err) MUST_USE;
int fault_list_save(const char *path, const struct faults *f, struct err *err) MUST_USE;

// A file that is read again when it changes; any thread may ask.
struct fault_file {
    const char *path;
    pthread_mutex_t lock;
    struct arena arena;
    struct faults faults;
    struct timespec changed;
    int64_t size;
};

void fault_file_init(struct fault_file *f, const char *path);
void fault_file_done(struct fault_file *f);

// fault_file_find finds a fault of a kind for a device (an empty one: any); texts are not given.
bool fault_file_find(struct fault_file *f, enum fault_kind kind, struct str device,
                     struct fault *ret);

// fault_file_drop takes faults of a kind and device out of the file.
void fault_file_drop(struct fault_file *f, enum fault_kind kind, struct str device);

#endif
