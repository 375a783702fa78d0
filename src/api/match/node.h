// SPDX-License-Identifier: Apache-2.0
//
// Which nodes something is for: selectors and affinity of pods, of volumes, and of devices. The one
// place of these rules. Nothing here allocates. As in label.h, shapes are judged and the syntax of
// keys and values is left to validation.
#ifndef API_MATCH_NODE_H
#define API_MATCH_NODE_H

#include <stdbool.h>

#include "api/match/selection.h"
#include "api/types.h"
#include "base/err.h"

// Labels of nodes that exist only in the API; the first is a taint of theirs, too.
#define NODE_SIMULATED "dray.dev/simulated"
#define NODE_PROFILE   "dray.dev/profile"

// node_is_simulated: nothing runs on it.
bool node_is_simulated(const struct api_node *node);

// node_term_match: every requirement of a term must hold; an empty term matches nothing.
// SELECTION_INVALID comes before SELECTION_NO.
enum selection node_term_match(const struct api_node_selector_term *t, const struct api_node *node);

// node_selector_match: one of the terms must match. A term that cannot be read does not match, and
// is SELECTION_INVALID only if no other matches. For pods and volumes, where the caller is to
// ignore the difference.
enum selection node_selector_match(const struct api_node_selector *s, const struct api_node *node);

// node_takes_pod: a pod's node selector and required node affinity allow the node. Unreadable terms
// match nothing.
bool node_takes_pod(const struct api_pod_spec *spec, const struct api_node *node);

// node_required is the required node affinity of a pod, NULL when it has none.
const struct api_node_selector *node_required(const struct api_pod_spec *spec);

// node_matches reports whether the node name, all-nodes flag or selector of a slice or a device is
// for the node. Returns 1, 0, or -ERR_INVALID for a selector that cannot be read.
int node_matches(const struct api_node *node, struct str name, bool all,
                 const struct api_node_selector *selector, struct err *err) MUST_USE;

// node_is_in_topologies: one of the terms of a StorageClass is for the node, or there is none.
// Every requirement of a term must hold; an empty term matches nothing.
bool node_is_in_topologies(const struct api_topology_selector_term_array *terms,
                           const struct api_node *node);

// node_only_name is the name of the one node that a selector can match, empty when it may match
// others.
struct str node_only_name(const struct api_node_selector *selector);

#endif
