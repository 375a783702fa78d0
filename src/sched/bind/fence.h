// SPDX-License-Identifier: Apache-2.0
//
// Fences: a change of the pod that makes every Binding decided before it fail.
#ifndef SCHED_BIND_FENCE_H
#define SCHED_BIND_FENCE_H

#include "sched/bind/bind_int.h"

struct json_writer;

// fence_send writes a fence; the answer goes to done with the binding.
void fence_send(struct binding *b, call_fn done);

// fence_look asks for the pod until there is an answer, which goes to bind_pod_is.
void fence_look(struct binding *b);

// fence_hold_pod takes a newer version of the pod for the one that this attempt knows.
void fence_hold_pod(struct binding *b, const struct typed_object *pod);

// fence_write_identity adds metadata to a patch, such that it holds for this version alone.
void fence_write_identity(struct json_writer *w, const struct api_object_meta *meta);

#endif
