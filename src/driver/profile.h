// SPDX-License-Identifier: Apache-2.0
//
// Profiles: what a kind of node looks like to the API: the Node itself, the device classes of its
// drivers, and the ResourceSlices they publish. A profile is a YAML file (profiles/ has those that
// come with dray; profiles/README.md describes the form), expanded for each node by name and
// number.
#ifndef DRIVER_PROFILE_H
#define DRIVER_PROFILE_H

#include <stddef.h>

#include "api/api.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct profile;

// profile_parse reads a profile; name is for messages. Returns 0, or -ERR_INVALID or
// -ERR_BAD_REQUEST with position and what to do.
int profile_parse(struct str text, struct profile **ret, struct err *err) MUST_USE;

// profile_open finds a profile that comes with dray by its name, or reads a file when the name has
// a slash or ends in .yaml. Returns as profile_parse, -ERR_NOT_FOUND with the names there are, or
// -errno.
int profile_open(const char *name, struct profile **ret, struct err *err) MUST_USE;
void profile_free(struct profile *p);

struct str profile_name(const struct profile *p);
struct str profile_about(const struct profile *p);

// A profile that comes with dray.
struct profile_builtin {
    const char *name;
    struct str text;
};

extern const struct profile_builtin profile_builtins[];
extern const size_t profile_builtins_len;

// What a profile makes; lists in the order of the file.
struct profile_objects {
    struct api_node *node; // NULL from profile_shared
    struct api_device_class **classes;
    size_t classes_len;
    struct api_resource_slice **slices;
    size_t slices_len;
};

// profile_node makes the objects of one node: the Node and the slices of its pools. Slices have the
// names <index>-<driver>-<node>, as drivers give them, but always the same; owner references are
// the caller's business. Everything lives in arena.
int profile_node(const struct profile *p, struct str node, size_t index, struct arena *arena,
                 struct profile_objects *ret, struct err *err) MUST_USE;

// profile_shared makes what exists once in a cluster: device classes, pools that belong to no node.
int profile_shared(const struct profile *p, struct arena *arena, struct profile_objects *ret,
                   struct err *err) MUST_USE;

#endif
