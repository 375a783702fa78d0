// SPDX-License-Identifier: Apache-2.0
//
// Objects in files: -f FILE, -f FOLDER, -f - (standard input). Lists are taken apart.
#ifndef CMD_OBJECTS_MANIFESTS_H
#define CMD_OBJECTS_MANIFESTS_H

#include <stdbool.h>

#include "base/err.h"
#include "cmd/cluster.h"
#include "cmd/engine/cli.h"
#include "cmd/objects/objects.h"
#include "codec/json.h"

// An object of a file.
struct manifest {
    const char *file;
    const struct json_doc *doc;
    const yyjson_val *object;
};

// manifest_find_line is the line of the field that a message is about, in the notation of
// validation (spec.containers[0].image) or of apply (.spec.containers[name="c"].image); of the
// object if it names none.
size_t manifest_find_line(const struct manifest *m, struct str message);

// manifests_each hands every object of the files to each, in their order; of folders, the YAML and
// JSON files by name, with recursive also of folders in it. each returns 0 to go on. Returns 0,
// what each returned, or a negative code with file and position.
typedef int (*manifest_fn)(void *arg, const struct manifest *m, struct err *err);
int manifests_each(const struct cli_texts *paths, bool recursive, manifest_fn each, void *arg,
                   struct err *err) MUST_USE;

// manifests_target finds out what an object's kind, name and namespace are at a server. A namespace
// that is neither in the object nor given is the context's. Texts are the object's. Returns 0,
// -ERR_INVALID or -ERR_NOT_FOUND.
int manifests_target(struct cluster *c, const yyjson_val *object, struct target *ret,
                     struct str *ret_namespace, struct err *err) MUST_USE;

#endif
