// SPDX-License-Identifier: Apache-2.0
//
// The kinds that a server has, as it publishes them (aggregated discovery), and which of them a
// person means by a word: a plural, a singular, a short name, a kind, with or without version and
// group; or a category, which is several.
#ifndef CLIENT_DISCOVERY_H
#define CLIENT_DISCOVERY_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

struct discovery_names VEC(struct str);

struct discovery_kind {
    struct str group, version; // group: empty for the core
    struct str plural, singular, kind;
    struct discovery_names short_names, categories, verbs;
    bool namespaced;
};

struct discovery_kinds VEC(const struct discovery_kind *);

// Zeroed, it is empty. Kinds stand in the server's order of preference.
struct discovery {
    struct arena arena;
    struct VEC(struct discovery_kind) kinds;
};

// What to send as Accept with GET /api and GET /apis.
#define DISCOVERY_ACCEPT                                                                \
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/" \
    "json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"

// discovery_read adds the kinds of an answer to /api or /apis; in this order, since the core comes
// first. Returns 0 or -ERR_BAD_REQUEST.
int discovery_read(struct discovery *d, struct str body, struct err *err) MUST_USE;

// discovery_find finds the kinds that a word means: one, or those of a category. Names and kinds
// match in any case. Returns 0 or -ERR_NOT_FOUND.
int discovery_find(const struct discovery *d, struct str word, struct arena *arena,
                   struct discovery_kinds *ret, struct err *err) MUST_USE;

// discovery_of finds the kind of an object by its apiVersion and kind. NULL: there is none.
const struct discovery_kind *discovery_of(const struct discovery *d, struct str api_version,
                                          struct str kind);

bool discovery_can(const struct discovery_kind *k, const char *verb);

// discovery_add_path adds the path of a kind's objects; namespace and name may be empty.
void discovery_add_path(struct sbuf *out, const struct discovery_kind *k, struct str namespace,
                        struct str name);

// discovery_add_name adds plural.group, as messages have it; with singular: pod, deployment.apps.
void discovery_add_name(struct sbuf *out, const struct discovery_kind *k, bool singular);

void discovery_done(struct discovery *d);

#endif
