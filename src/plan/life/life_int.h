// SPDX-License-Identifier: Apache-2.0
//
// What the looks at the stages of a pod share.
#ifndef PLAN_LIFE_LIFE_INT_H
#define PLAN_LIFE_LIFE_INT_H

#include "base/arena.h"
#include "plan/life.h"

struct life {
    const struct life_source *s;
    struct arena arena;
    const yyjson_val *pod;
    struct str namespace, name, node;
    struct json_doc events; // of the pod
    struct sbuf cause;      // empty: none was found
    const char *stage;      // where it stands: bound, claims, image, container, ready
    struct sbuf remedies;   // JSON objects
    size_t remedies_len;
};

// A remedy. patch: a JSON patch of the object, or for "create" the object.
struct life_fix {
    const char *kind;
    const char *action; // patch, delete, replace, create, manual
    const char *object; // kind of the object
    struct str namespace, name;
    struct str patch, command;
    bool admin;
};

// life_add_remedy adds a remedy with its text.
void life_add_remedy(struct life *l, const struct life_fix *fix, const char *fmt, ...)
    ERR_PRINTF(3, 4);

// life_fix_pod is a change of the pod by a JSON patch; life_fix_again creates it once more as it
// is.
struct life_fix life_fix_pod(struct life *l, const char *kind, struct str patch);
struct life_fix life_fix_again(struct life *l);

// life_text and life_list are parts of an object by path; empty or NULL when they are not there.
const yyjson_val *life_at(const yyjson_val *v, const char *path);
struct str life_text(const yyjson_val *v, const char *path);
const yyjson_val *life_list(const yyjson_val *v, const char *path);
int64_t life_number(const yyjson_val *v, const char *path);

// life_event is the newest event of the pod with one of these reasons; NULL: none.
const yyjson_val *life_event(const struct life *l, const char *const *reasons, size_t n);

// life_of_containers looks at images, containers and probes; life_of_references at ConfigMaps and
// Secrets that do not exist; life_of_claims at devices that were not prepared. Each returns whether
// it has found the cause.
bool life_of_containers(struct life *l);
bool life_of_references(struct life *l);
bool life_of_claims(struct life *l);

#endif
