// SPDX-License-Identifier: Apache-2.0
//
// Kinds of which nothing is known but their names: their objects are their metadata alone (struct
// api_partial_object_metadata). They let those who look at all kinds, as the garbage collector
// does, follow kinds that dray was not built with.
#ifndef API_PARTIAL_H
#define API_PARTIAL_H

#include "api/api.h"
#include "base/arena.h"

// api_kind_partial makes one in arena: group, version, kind, plural and namespaced are taken from
// names.
const struct api_kind *api_kind_partial(struct arena *arena, const struct api_kind *names);

bool api_kind_is_partial(const struct api_kind *kind);

// api_kind_keep is a kind that lives as long as arena: a copy of a partial one, others as they are.
const struct api_kind *api_kind_keep(struct arena *arena, const struct api_kind *kind);

#endif
