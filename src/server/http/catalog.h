// SPDX-License-Identifier: Apache-2.0
//
// What is served: every resource of every group and version of the schema, with its verbs, whether
// it is switched on, and its subresources. Routes, discovery and OpenAPI all read this one table.
#ifndef SERVER_HTTP_CATALOG_H
#define SERVER_HTTP_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/table.h"
#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "server/http/notices.h"

enum verb_bit {
    VERB_CREATE = 1 << 0,
    VERB_DELETE = 1 << 1,
    VERB_DELETE_COLLECTION = 1 << 2,
    VERB_GET = 1 << 3,
    VERB_LIST = 1 << 4,
    VERB_PATCH = 1 << 5,
    VERB_UPDATE = 1 << 6,
    VERB_WATCH = 1 << 7,
};

#define VERB_BITS 8

// catalog_verb_name names a verb by the position of its bit, in the order of the alphabet.
const char *catalog_verb_name(unsigned bit);

// What can be done to a subresource, and what kind goes over the wire.
struct catalog_sub {
    struct str name;
    unsigned verbs;
    const struct api_kind *kind; // of bodies and answers
    bool connect;                // served by the node
    struct str shown;            // how discovery names it, where there is no such kind; else empty
};

#define CATALOG_SUBS_MAX 12

struct catalog_resource {
    const struct api_kind *kind;
    unsigned verbs;
    bool served;
    struct notices notices;
    struct catalog_sub subs[CATALOG_SUBS_MAX]; // by name
    size_t subs_len;
};

// A version of a group, with its resources by name.
struct catalog_version {
    struct str group;
    struct str version;
    struct VEC(struct catalog_resource *) resources;
};

struct catalog_group {
    struct str name;                             // empty: core
    struct VEC(struct catalog_version) versions; // preferred first; only served ones
};

struct catalog {
    struct VEC(struct catalog_resource) resources; // all, in order of the schema
    struct MAP(struct catalog_resource *) by_path; // group/version/plural; served ones
    struct VEC(struct catalog_group) groups;       // core first; only served ones
    struct arena arena;
    struct arena paths; // keys of by_path
    struct VEC(struct catalog_resource *)
        customs; // of kinds that users added; kept for good, requests point to them
};

// catalog_init lists what the schema has and what config switches: "resource.k8s.io/v1alpha3=true,
// apps/v1=false,api/alpha=true,resource.k8s.io/v1alpha3/devicetaintrules=false". By default every
// stable version is served, the betas of resource.k8s.io, and no alpha. Returns 0 or -ERR_INVALID.
int catalog_init(struct catalog *c, struct str config, struct err *err) MUST_USE;
void catalog_done(struct catalog *c);

// catalog_set_customs serves the kinds that are defined now, and no others, beside those of the
// schema.
struct custom_kinds;
void catalog_set_customs(struct catalog *c, const struct custom_kinds *customs);

// catalog_find finds a served resource, NULL when there is none.
const struct catalog_resource *catalog_find(const struct catalog *c, struct str group,
                                            struct str version, struct str plural);

// catalog_prefers: whether version a comes before b, as Kubernetes prefers them: stable before beta
// before alpha, then the higher number.
bool catalog_prefers(struct str a, struct str b);

// catalog_find_version and catalog_find_group find what is served; NULL when nothing is.
const struct catalog_version *catalog_find_version(const struct catalog *c, struct str group,
                                                   struct str version);
const struct catalog_group *catalog_find_group(const struct catalog *c, struct str group);

// catalog_sub finds a subresource, NULL when there is none.
const struct catalog_sub *catalog_sub(const struct catalog_resource *r, struct str name);

#endif
