// SPDX-License-Identifier: Apache-2.0
//
// Where an expression refers to an attribute or a capacity of a device.
#ifndef SCHED_EXPLAIN_DEVICE_WORDS_H
#define SCHED_EXPLAIN_DEVICE_WORDS_H

#include <stdbool.h>

#include "api/types.h"
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

// device_words_mention: a class's selectors have a text in quotes; device_words_mentioned_in: a
// text has one of those of the class's selectors. A class without selectors speaks of all.
bool device_words_mention(const struct api_device_class *c, struct str text);
bool device_words_mentioned_in(const struct api_device_class *c, struct str text);

#endif
