// SPDX-License-Identifier: Apache-2.0
//
// The building blocks of the generated API structs.
#ifndef API_TYPE_BASIC_H
#define API_TYPE_BASIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "codec/quantity.h"
#include "codec/rfc3339.h"

// metav1.Time and MicroTime. A zero time in Go and a nil pointer to one are both "not set" here:
// Kubernetes writes neither.
struct api_time {
    struct moment at; // whole seconds in a Time, whole microseconds in a MicroTime
    bool set;
};

// intstr.IntOrString: text when is_text, else number.
struct api_int_or_string {
    struct str text;
    int32_t number;
    bool is_text;
};

struct api_str_array {
    struct str *p;
    size_t n;
};

static inline bool api_str_listed(const struct api_str_array *list, struct str s)
{
    return str_listed(list->p, list->n, s);
}

#endif
