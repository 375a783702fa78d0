// SPDX-License-Identifier: Apache-2.0
//
// Which pod and which of its containers: for logs and exec.
#ifndef CMD_OBJECTS_PODREF_H
#define CMD_OBJECTS_PODREF_H

#include "cmd/cluster.h"
#include "cmd/objects/objects.h"

// podref_find reads NAME, pod/NAME, or KIND/NAME of something that selects pods (a deployment, a
// job), whose first pod it is. Returns 0, -ERR_INVALID or -ERR_NOT_FOUND.
int podref_find(struct cluster *c, const char *word, struct json_doc *ret,
                struct err *err) MUST_USE;

// podref_container is wanted if it is not NULL and the pod has it; else the one that the pod names
// as its default; else its first, and reports so on standard error if there are others. Returns 0
// or -ERR_INVALID with the names there are.
int podref_container(const yyjson_val *pod, const char *wanted, struct str *ret,
                     struct err *err) MUST_USE;

// podref_add_path adds the path of a pod's subresource and "?".
void podref_add_path(struct sbuf *out, const yyjson_val *pod, const char *subresource);

#endif
