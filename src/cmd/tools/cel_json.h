// SPDX-License-Identifier: Apache-2.0
//
// CEL values, types and devices in the JSON forms that `dray cel --jsonl` speaks.
#ifndef CMD_TOOLS_CEL_JSON_H
#define CMD_TOOLS_CEL_JSON_H

#include "cel/cel.h"
#include "cel/env.h"
#include "cel/value.h"
#include "codec/json.h"
#include "codec/json_writer.h"

// cel_json_write_value writes {"int":"1"} and so on.
void cel_json_write_value(struct json_writer *w, struct cel_val v);

// cel_json_read_value reads the same form into the arena.
int cel_json_read_value(const yyjson_val *v, struct arena *a, struct cel_val *ret,
                        struct err *err) MUST_USE;

// cel_json_declare adds the variables and functions of a cel-spec type environment.
int cel_json_declare(const yyjson_val *list, struct cel_env *env, struct err *err) MUST_USE;

// cel_json_read_device reads a device with attributes and capacity as ResourceSlices have them.
// driver stands in where the value has none of its own.
int cel_json_read_device(const yyjson_val *v, struct str driver, struct cel_shapes *shapes,
                         struct cel_device **ret, struct err *err) MUST_USE;

#endif
