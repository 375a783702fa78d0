// SPDX-License-Identifier: Apache-2.0
//
// The environment of a container and the facts about a pod that it, and files of downward volumes,
// can name. Pure functions: what the pod refers to has been fetched before.
#ifndef NODE_PODS_ENV_H
#define NODE_PODS_ENV_H

#include <stddef.h>

#include "api/types.h"
#include "base/arena.h"
#include "base/vec.h"
#include "node/pods/pod_refs.h"
#include "node/runtime/runtime.h"

struct env_pairs VEC(struct runtime_pair);

// What a pod's facts are taken from besides the object.
struct env_facts {
    const struct api_pod *pod;
    struct str pod_ip;           // empty: none
    struct str host_ips;         // by commas
    const struct api_node *node; // for limits that are not set: the node's allocatable. May be NULL
};

// env_field is the value of a fieldRef, in arena. Returns 0 or -ERR_INVALID with kubelet's text.
int env_field(const struct env_facts *f, struct str path, struct arena *arena, struct str *ret,
              struct err *err) MUST_USE;

// env_resource is the value of a resourceFieldRef of a container (unless it names another).
int env_resource(const struct env_facts *f, const struct api_resource_field_selector *s,
                 const struct api_container *container, struct arena *arena, struct str *ret,
                 struct err *err) MUST_USE;

// env_expand replaces $(NAME) by the value among env; what is not known stays; $$ is a $. In arena.
// *left, at first DRAY_EXPANDED_BYTES_MAX, is what may still be made for the container. Returns 0
// or -ERR_TOO_LARGE.
int env_expand(struct str text, const struct env_pairs *env, size_t *left, struct arena *arena,
               struct str *ret, struct err *err) MUST_USE;

struct env_options {
    struct env_facts facts;
    const struct pod_refs *refs;
    const struct runtime_pair *services; // variables of services, before everything else
    size_t services_len;
};

// env_make makes the variables of a container, in the order of their making, each name once.
// skipped (may be NULL) gets names that are no variable names, by ", ". Returns 0 or -ERR_… with
// kubelet's text.
int env_make(const struct env_options *o, const struct api_container *container,
             struct arena *arena, struct env_pairs *ret, struct sbuf *skipped,
             struct err *err) MUST_USE;

// env_service adds the variables of a service, as docker links: NAME_SERVICE_HOST, NAME_PORT …
void env_service(const struct api_service *service, struct arena *arena, struct env_pairs *out);

#endif
