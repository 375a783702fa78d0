// SPDX-License-Identifier: Apache-2.0
//
// The steps between decoding an object and validating it that a server takes and that neither
// preparation nor validation does.
#include "embed/judge.h"

#include "base/banned.h"

#define GENERATED_MAX 58 // of a generated name's beginning; five random letters follow

int judge_decode(const struct api_object *decoded, const struct api_rules *rules,
                 struct arena *arena, struct judged *ret, struct err *err)
{
    struct api_default_options options = {.now = rules->now};
    *ret = (struct judged){.hub = *decoded, .version = decoded->kind};
    api_default(decoded->kind->type, decoded->value, &options, arena);
    return api_convert(decoded, api_hub_kind(decoded->kind), arena, &ret->hub, err);
}

struct str judge_name(const struct judged *j, struct arena *arena)
{
    struct api_object_meta *meta = api_object_meta(&j->hub);
    if (!j->version->namespaced)
        meta->namespace = STR("");
    else if (meta->namespace.n == 0)
        meta->namespace = STR("default");
    // The server sets these.
    meta->uid = STR("");
    meta->creation_timestamp = (struct api_time){0};
    struct str name = meta->name;
    if (name.n == 0 && meta->generate_name.n)
        meta->name =
            arena_strf(arena, "%.*s00000", STR_ARG(str_upto(meta->generate_name, GENERATED_MAX)));
    return name;
}
