// SPDX-License-Identifier: Apache-2.0
//
// How things are done to the cluster, for those who do them.
#ifndef SIM_OPS_H
#define SIM_OPS_H

#include "sim.h"

enum {
    SPACES = 3,
    CLAIMS = 5,
    TEMPLATES = 4,
    PODS_MAX = 14,
};

const struct api_kind *op_kind(const char *kind);

// op_create takes JSON with single quotes for double ones; ` stands for a single one.
void op_create(struct sim *s, const char *kind, const char *namespace, const char *name,
               const struct sbuf *body);
void op_delete(struct sim *s, const char *kind, const char *namespace, const char *name,
               const struct api_delete_options *options);
void op_patch(struct sim *s, const char *kind, const char *namespace, const char *name,
              const char *subresource, const char *text);
void op_metadata(struct sbuf *b, const char *namespace, const char *name);

// op_with_some does something to an object that is there.
void op_with_some(struct sim *s, const char *kind,
                  void (*fn)(struct sim *s, const char *namespace, const char *name));

// op_remove_node takes a node and its slices away.
void op_remove_node(struct sim *s, const char *name);

// sim_operate_group does something to a PodGroup or its pods.
void sim_operate_group(struct sim *s, const char *space);

#endif
