// SPDX-License-Identifier: Apache-2.0
//
// Where an expression refers to an attribute or a capacity of a device.
#ifndef SCHED_EXPLAIN_DEVICE_WORDS_H
#define SCHED_EXPLAIN_DEVICE_WORDS_H

#include <stdbool.h>

#include "base/str.h"

// device.attributes["DOMAIN"].KEY or device.capacity["DOMAIN"].KEY
struct device_reference {
    struct str domain, key;
    bool capacity;
    size_t sort_at, domain_at, key_at; // where "attributes", the domain and the key begin
    size_t end;                        // behind it
};

// device_reference_find finds the next reference that begins at from or later.
bool device_reference_find(struct str expression, size_t from, struct device_reference *ret);

#endif
