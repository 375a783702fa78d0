// SPDX-License-Identifier: Apache-2.0
//
// Spec files: written so that a reader sees the old one or the new one and never a part, readable by
// every runtime (0644), and removed.
#ifndef CDI_STORE_H
#define CDI_STORE_H

#include "base/err.h"
#include "base/str.h"
#include "cdi/spec.h"

// cdi_store_path adds the path that name stands for in dir; without .json or .yaml behind it, it is
// a YAML file. Returns 0 or -ERR_INVALID (a name that cannot be a spec file of this folder).
int cdi_store_path(struct sbuf *out, const char *dir, struct str name, struct err *err) MUST_USE;

// cdi_store_write checks a spec and puts it into dir, making the folder if it is missing, in place of
// one of the same name. An empty version becomes the oldest that has what the spec uses. Returns 0,
// -ERR_INVALID with the field's path, or -errno; on failure what was there before still is.
int cdi_store_write(const char *dir, struct str name, const struct cdi_spec *spec,
                    struct err *err) MUST_USE;

// cdi_store_remove takes a spec away; that there is none is fine. Returns 0, -ERR_INVALID or -errno.
int cdi_store_remove(const char *dir, struct str name, struct err *err) MUST_USE;

// cdi_store_replace writes bytes to path by way of a new file beside it. Returns 0 or -errno.
int cdi_store_replace(const char *path, struct str bytes, struct err *err) MUST_USE;

#endif
