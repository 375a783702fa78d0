// SPDX-License-Identifier: Apache-2.0
//
// Device records. A shape is the layout that devices with the same attribute and capacity names
// share: which slot holds which (domain, name), which map belongs to which domain. A program
// resolves a path against a shape once and then reads a slot.
#ifndef CEL_CODE_DEVICE_H
#define CEL_CODE_DEVICE_H

#include "cel/code/code.h"
#include "cel/value.h"

struct cel_shape_key {
    uint64_t hash; // of domain and name; capacity changes it, 0 is free
    struct str domain, name;
    bool capacity;
    bool is_domain; // the entry is a domain: slot numbers a map
    uint32_t slot;
};

struct cel_shape {
    struct cel_shape *next; // in the bucket of the registry
    uint64_t text_hash;
    struct str text; // all names in order: what makes shapes the same
    struct cel_shape_key *keys;
    uint32_t mask;
    uint32_t values;
    uint32_t maps;
};

struct cel_device {
    const struct cel_shape *shape;
    const struct cel_val *values;
    const struct cel_val *maps; // inner maps by domain
    struct cel_val driver;
    struct cel_val multi;
    struct cel_val failure; // CEL_ERROR when no evaluation can succeed, else CEL_NULL
    struct cel_val root;    // the whole as a map
    struct arena arena;
    // The values follow, so that what a selector reads lies together.
};

// cel_shape_find gives the slot of a path, CEL_SLOT_NONE when the shape has no such thing.
uint32_t cel_shape_find(const struct cel_shape *s, const struct cel_path_ref *path, bool domain);

#endif
