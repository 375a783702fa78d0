// SPDX-License-Identifier: Apache-2.0
//
// Which objects a command line means: KIND, KIND,KIND, KIND NAME…, KIND/NAME…; and objects as they
// are shown.
#ifndef CMD_OBJECTS_OBJECTS_H
#define CMD_OBJECTS_OBJECTS_H

#include "cmd/cluster.h"
#include "cmd/engine/cli.h"
#include "codec/json.h"

// Objects of one kind: one by its name, or all of them.
struct target {
    const struct discovery_kind *kind;
    struct str name; // empty: all
};

struct targets VEC(struct target);

// objects_plural is what short words for the kinds that this program is about stand for: claim,
// resourceclaims. Other words stand for themselves.
struct str objects_plural(struct str word);

// objects_read finds out what words mean at a server. Returns 0, -ERR_INVALID or -ERR_NOT_FOUND.
int objects_read(struct cluster *c, const struct cli_texts *words, struct arena *arena,
                 struct targets *ret, struct err *err) MUST_USE;

// objects_add_path adds the path of a target, or of all of its kind.
void objects_add_path(struct sbuf *out, const struct target *t, struct str namespace);

// objects_get asks for one object as JSON.
int objects_get(struct cluster *c, const struct target *t, struct str namespace,
                struct json_doc *ret, struct err *err) MUST_USE;

// objects_names adds the objects of a kind that -n and -l select, each by its name. Texts are
// copied.
int objects_names(struct cluster *c, const struct discovery_kind *kind, struct arena *arena,
                  struct targets *ret, struct err *err) MUST_USE;

// objects_build copies an object as people want to see it: with its kind (of which items of a list
// say nothing), without metadata.managedFields.
int objects_build(struct json_builder *b, const yyjson_val *object, const struct discovery_kind *k,
                  struct err *err) MUST_USE;

// Parts of objects, empty or NULL when they are not there.
struct str objects_text(const yyjson_val *v, const char *path);
const yyjson_val *objects_at(const yyjson_val *v, const char *path);
const yyjson_val *objects_list(const yyjson_val *v, const char *path);

#endif
