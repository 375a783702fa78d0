// SPDX-License-Identifier: Apache-2.0
//
// dray why --fix: carries out a remedy of an explanation.
#ifndef CMD_WHY_WHY_FIX_H
#define CMD_WHY_WHY_FIX_H

#include <stdbool.h>

#include "cmd/cluster.h"
#include "codec/json.h"

// why_fix shows what remedy number n of an explanation consists of, asks on a terminal unless yes,
// and carries it out. Returns one of VERB_*.
int why_fix(struct cluster *c, const yyjson_val *explanation, int64_t n, bool yes);

// Objects of the kinds that remedies speak of.
struct why_kind {
    const char *kind;
    const char *group; // path of the API group
    const char *plural;
    bool namespaced;
};

// why_kind_find is NULL for kinds that no remedy speaks of; a kind may be served in several
// versions, the next is found after one. why_kind_add_path adds an object's path.
const struct why_kind *why_kind_find(struct str kind, const struct why_kind *after);
void why_kind_add_path(struct sbuf *out, const struct why_kind *k, struct str namespace,
                       struct str name);

#endif
