// SPDX-License-Identifier: Apache-2.0
//
// The devices that the spec files of some directories offer. A later directory wins over an earlier
// one; two files of one directory that offer the same device make it unresolvable, wherever else it
// is offered, as upstream has it. An invalid file is reported as a problem and hides no other. A
// cache belongs to one thread at a time.
#ifndef CDI_CACHE_H
#define CDI_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "cdi/spec.h"

struct cdi_cache;

#define CDI_FILES_MAX 65536 // of one directory; more are a problem, and skipped

// A spec of the cache: valid, and from where. It lives until the next scan.
struct cdi_cached_spec {
    struct str path;
    size_t priority; // number of its directory
    struct str vendor, class;
    const struct cdi_spec *spec;
};

struct cdi_cached_device {
    struct str name; // vendor/class=device
    const struct cdi_cached_spec *spec;
    const struct cdi_device *device;
};

// A problem of a file or directory. err has a place when the file could be read.
struct cdi_file_problem {
    struct str path;
    struct err err;
};

// cdi_cache_new makes an empty cache over directories, the least important first; n == 0 stands for
// CDI_STATIC_DIR and CDI_DYNAMIC_DIR. The names are copied. The caller owns the result.
struct cdi_cache *cdi_cache_new(const char *const *dirs, size_t n);
void cdi_cache_free(struct cdi_cache *c);

// cdi_cache_refresh reads the directories if anything in them changed, and returns whether it did.
// Looking costs one stat a file. Everything got from the cache before is void when it did.
bool cdi_cache_refresh(struct cdi_cache *c);

// cdi_cache_rescan reads the directories in any case.
void cdi_cache_rescan(struct cdi_cache *c);

// cdi_cache_find is a device by its qualified name, or NULL.
const struct cdi_cached_device *cdi_cache_find(const struct cdi_cache *c, struct str name);

// cdi_cache_devices are all devices by name; cdi_cache_problems are the problems, by directory and
// file.
const struct cdi_cached_device *cdi_cache_devices(const struct cdi_cache *c, size_t *ret_n);
const struct cdi_file_problem *cdi_cache_problems(const struct cdi_cache *c, size_t *ret_n);

// cdi_cache_edits puts together what the named devices change: for each, once, the edits of its
// spec and then its own. Lists live in arena, texts in the cache. Returns 0, or -ERR_NOT_FOUND with
// all names that stand for no device.
int cdi_cache_edits(const struct cdi_cache *c, const struct str *names, size_t n,
                    struct arena *arena, struct cdi_edits *ret, struct err *err) MUST_USE;

#endif
