// SPDX-License-Identifier: Apache-2.0
//
// What the files of dray describe share: lines of names and values, made from an object's JSON.
#ifndef CMD_OBJECTS_DESCRIBE_H
#define CMD_OBJECTS_DESCRIBE_H

#include "base/str.h"
#include "cmd/cluster.h"
#include "cmd/objects/objects.h"
#include "codec/json.h"

// describe_field adds "Name:   value", indented; an empty value is shown as <none>.
void describe_field(struct sbuf *out, size_t indent, const char *name, struct str value);

// describe_map adds a map of texts, one a line; describe_map_line the same on one line, as k=v,
// k=v.
void describe_map(struct sbuf *out, size_t indent, const char *name, const yyjson_val *map);
void describe_map_line(struct sbuf *out, const yyjson_val *map);

// describe_value adds a scalar as text, a container as one line of JSON.
void describe_value(struct sbuf *out, const yyjson_val *v);

// describe_conditions adds the table of status.conditions.
void describe_conditions(struct sbuf *out, const yyjson_val *object);

// The text of a kind after its name, labels and annotations.
typedef void (*describe_fn)(struct sbuf *out, const yyjson_val *object);
void describe_node(struct sbuf *out, const yyjson_val *node);
void describe_claim(struct sbuf *out, const yyjson_val *claim);
void describe_template(struct sbuf *out, const yyjson_val *template);
void describe_class(struct sbuf *out, const yyjson_val *class);
void describe_slice(struct sbuf *out, const yyjson_val *slice);

// describe_pod reads the pod's claims and node, too: their devices, and whether it is simulated.
// What may not be read is left out.
void describe_pod(struct sbuf *out, const yyjson_val *pod, struct cluster *c);

#endif
