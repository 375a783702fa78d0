// SPDX-License-Identifier: Apache-2.0
//
// Images from registries, through skopeo as a process.
#ifndef NODE_IMAGE_IMAGE_PULL_H
#define NODE_IMAGE_IMAGE_PULL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

// image_pull_possible: skopeo is installed.
bool image_pull_possible(void);

// image_pull copies an image, named in full, into a new OCI layout. auths are texts of
// .dockerconfigjson, tried in order, then nothing; they are written to files in directory, which
// the caller removes. It blocks, for long. Returns 0, -ERR_NOT_FOUND, -ERR_UNAUTHORIZED,
// -ERR_UNAVAILABLE or -ERR_TIMEOUT, with skopeo's words.
int image_pull(struct str full, const struct str *auths, size_t auths_len, const char *folder,
               const char *layout, struct err *err) MUST_USE;

// image_pull_explain turns what skopeo printed into an error: the last line, as far as it is
// printable, and the code it means. The words are the registry's.
int image_pull_explain(struct str full, struct str said, struct err *err);

#endif
