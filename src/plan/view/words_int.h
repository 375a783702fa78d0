// SPDX-License-Identifier: Apache-2.0
//
// What the files that make claims from words share: words.c finds classes and writes YAML,
// words_condition.c finds attributes and capacities and writes CEL.
#ifndef PLAN_WORDS_INT_H
#define PLAN_WORDS_INT_H

#include "plan/words.h"

// What is being made.
struct words_making {
    const struct inventory *inv;
    const struct words *w;
    struct arena arena;
    struct sbuf *notes;
    struct words_choice {
        struct str name; // of the class
        struct str request;
        size_t devices;
    } * chosen; // by request
    struct err *err;
};

// A property that devices of a class have.
struct words_property {
    struct str domain, name;                      // as CEL needs them
    const struct api_device_attribute *attribute; // of the first device with it; NULL: a capacity
    bool shared;                                  // some device of the class can be shared
    struct str shared_key; // as that device publishes it: requests for shares compare literally
    struct str published;  // the first capacity's value
    size_t devices;
};

bool words_equal_ignoring_case(struct str a, struct str b);

// words_contain reports whether s contains word, ignoring case.
bool words_contain(struct str s, struct str word);

// words_local_name is what follows the domain of a qualified name.
struct str words_local_name(struct str name);

// words_find_property finds what devices of a class have under a name, exactly or in part. Returns
// 0 or -ERR_NOT_FOUND.
int words_find_property(struct words_making *m, struct str class_name, struct str name,
                        struct words_property *ret) MUST_USE;

// words_write_condition writes a condition as CEL. Returns 0, -ERR_NOT_FOUND or -ERR_INVALID.
int words_write_condition(struct words_making *m, struct str class_name,
                          const struct words_condition *c, struct words_property *ret_property,
                          struct sbuf *cel) MUST_USE;

#endif
