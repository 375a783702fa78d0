// SPDX-License-Identifier: Apache-2.0
//
// Selectors: labels, nodes, tolerations: for src/sched, and for admission on a node.
#ifndef SCHED_SELECT_H
#define SCHED_SELECT_H

#include <stdbool.h>

#include "api/match/node.h"
#include "api/types.h"

// select_labels: an absent selector matches nothing, an empty one everything.
bool select_labels(const struct api_label_selector *s, const struct api_str_map *labels);

// select_node answers 1, 0, or -1 for a selector that cannot be read. Terms are ORed; an empty term
// matches nothing.
int select_node(const struct api_node_selector *s, const struct api_node *node);
int select_node_term(const struct api_node_selector_term *t, const struct api_node *node);

// select_tolerates says whether one of the tolerations covers a taint.
bool select_tolerates(const struct api_toleration_array *ts, const struct api_taint *taint);

// select_label finds a label's value, NULL when there is none.
const struct str *select_label(const struct api_str_map *labels, struct str key);

#endif
