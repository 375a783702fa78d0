// SPDX-License-Identifier: Apache-2.0
//
// The DRA state of a cluster as one file: a Kubernetes List that plan_world_read and kubectl read.
// What it keeps is chosen field by field, so that it can be sent to others: no environment, no
// commands, no volumes, no annotations, no opaque parameters of drivers, no Secrets or ConfigMaps
// at all.
#ifndef PLAN_SNAPSHOT_H
#define PLAN_SNAPSHOT_H

#include "plan/plan.h"

struct snapshot_about {
    struct str server; // version of the API server
    struct str taken;  // RFC 3339
};

// snapshot_write adds the JSON of a world's objects. about goes on top.
void snapshot_write(const struct plan_world *w, const struct snapshot_about *about,
                    struct sbuf *out);

// snapshot_each calls fn for each object, sanitized as in a file, in the order in which they can be
// created: nodes, classes, slices, rules, templates, claims, pods. Events are left out.
struct api_object;
void snapshot_each(const struct plan_world *w,
                   void (*fn)(void *arg, const struct api_object *o, struct arena *arena),
                   void *arg);

#endif
