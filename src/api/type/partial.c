// SPDX-License-Identifier: Apache-2.0
//
// Kinds of which only the names are known: their type is PartialObjectMetadata.
#include "api/partial.h"

#include "base/banned.h"

const struct api_kind *api_kind_partial(struct arena *arena, const struct api_kind *names)
{
    struct api_kind *k = arena_one(arena, struct api_kind);
    k->group = arena_str(arena, names->group);
    k->version = arena_str(arena, names->version);
    k->api_version = arena_strf(arena, "%.*s%s%.*s", STR_ARG(k->group), k->group.n ? "/" : "",
                                STR_ARG(k->version));
    k->kind = arena_str(arena, names->kind);
    k->plural = arena_str(arena, names->plural);
    k->namespaced = names->namespaced;
    k->type = &api_partial_object_metadata_type;
    return k;
}

bool api_kind_is_partial(const struct api_kind *kind)
{
    return kind->type == &api_partial_object_metadata_type;
}

const struct api_kind *api_kind_keep(struct arena *arena, const struct api_kind *kind)
{
    return api_kind_is_partial(kind) ? api_kind_partial(arena, kind) : kind;
}
