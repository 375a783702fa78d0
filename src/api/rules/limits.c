// SPDX-License-Identifier: Apache-2.0
//
// Defaults of LimitRanges: requests and limits of containers that have none of a resource.
#include "api/limits.h"

#include "api/amounts.h"

#include "base/banned.h"

// Adds missing amounts and lists them in out.
static void limits_fill(struct api_quantity_map *have, const struct api_quantity_map *from,
                        const char *what, struct sbuf *out, struct arena *arena)
{
    bool first = true;
    for (size_t i = 0; i < from->n; i++) {
        if (amounts_get(have, from->p[i].key))
            continue;
        sbuf_addf(out, "%s%.*s", first ? out->n ? "; " : "" : ", ", STR_ARG(from->p[i].key));
        amounts_set(have, from->p[i].key, &from->p[i].value, arena);
        first = false;
    }
    if (!first)
        sbuf_addz(out, what);
}

static void limits_fill_containers(struct api_container_array *list, const char *which,
                                   const struct api_resource_requirements *defaults,
                                   struct sbuf *out, struct arena *arena)
{
    for (size_t i = 0; i < list->n; i++) {
        struct api_container *c = &list->p[i];
        cleanup_sbuf struct sbuf request = {0}, limit = {0};
        sbuf_addf(&request, " request for %s %.*s", which, STR_ARG(c->name));
        sbuf_addf(&limit, " limit for %s %.*s", which, STR_ARG(c->name));
        // Upstream checks both, then reports requests first.
        limits_fill(&c->resources.requests, &defaults->requests, request.p, out, arena);
        limits_fill(&c->resources.limits, &defaults->limits, limit.p, out, arena);
    }
}

void limits_default_pod(struct api_pod *pod, const struct api_limit_range *range,
                        struct sbuf *added, struct arena *arena)
{
    struct api_resource_requirements defaults = {0};
    for (size_t i = 0; i < range->spec.limits.n; i++) {
        const struct api_limit_range_item *item = &range->spec.limits.p[i];
        if (!str_eqz(item->type, "Container"))
            continue;
        for (size_t k = 0; k < item->default_request.n; k++)
            amounts_set(&defaults.requests, item->default_request.p[k].key,
                        &item->default_request.p[k].value, arena);
        for (size_t k = 0; k < item->default_value.n; k++)
            amounts_set(&defaults.limits, item->default_value.p[k].key,
                        &item->default_value.p[k].value, arena);
    }
    limits_fill_containers(&pod->spec.containers, "container", &defaults, added, arena);
    limits_fill_containers(&pod->spec.init_containers, "init container", &defaults, added, arena);
}
