// SPDX-License-Identifier: Apache-2.0
//
// Pods of templates, and the storage that StatefulSets ask for.
#include "ctl/template.h"

#include "api/meta.h"

#include "base/banned.h"

struct api_pod template_pod(const struct api_pod_template_spec *template,
                            const struct api_kind *kind, const struct api_object_meta *owner,
                            struct arena *arena)
{
    struct api_pod pod = {
        .metadata = {.namespace = owner->namespace,
                     .labels = template->metadata.labels,
                     .annotations = template->metadata.annotations,
                     .finalizers = template->metadata.finalizers},
        .spec = template->spec,
    };
    meta_own(&pod.metadata, kind, owner, true, arena);
    return pod;
}

static struct str template_claim_name(const struct api_object_meta *template, struct str pod,
                                      struct arena *arena)
{
    return arena_strf(arena, "%.*s-%.*s", STR_ARG(template->name), STR_ARG(pod));
}

void template_add_storage(const struct api_stateful_set *set, struct api_pod *pod,
                          struct arena *arena)
{
    const struct api_persistent_volume_claim_array *claims = &set->spec.volume_claim_templates;
    size_t most = pod->spec.volumes.n + claims->n, n = 0;
    struct api_volume *all = arena_array(arena, struct api_volume, most + 1);
    for (size_t i = 0; i < claims->n; i++) {
        struct api_persistent_volume_claim_volume_source *source =
            arena_one(arena, struct api_persistent_volume_claim_volume_source);
        source->claim_name = template_claim_name(&claims->p[i].metadata, pod->metadata.name, arena);
        all[n].name = claims->p[i].metadata.name;
        all[n++].volume_source.persistent_volume_claim = source;
    }
    for (size_t i = 0; i < pod->spec.volumes.n; i++) {
        bool taken = false;
        for (size_t k = 0; k < claims->n; k++)
            taken |= str_eq(pod->spec.volumes.p[i].name, claims->p[k].metadata.name);
        if (!taken)
            all[n++] = pod->spec.volumes.p[i];
    }
    pod->spec.volumes = (struct api_volume_array){n > 0 ? all : NULL, n};
}

struct api_persistent_volume_claim template_storage_claim(const struct api_stateful_set *set,
                                                          size_t i, struct str pod,
                                                          struct arena *arena)
{
    const struct api_persistent_volume_claim *from = &set->spec.volume_claim_templates.p[i];
    struct api_persistent_volume_claim claim = {.spec = from->spec};
    claim.metadata.name = template_claim_name(&from->metadata, pod, arena);
    claim.metadata.namespace = set->metadata.namespace;
    claim.metadata.annotations = from->metadata.annotations;
    claim.metadata.labels = from->metadata.labels;
    if (set->spec.selector)
        for (size_t k = 0; k < set->spec.selector->match_labels.n; k++)
            meta_map_put(&claim.metadata.labels, set->spec.selector->match_labels.p[k].key,
                         set->spec.selector->match_labels.p[k].value, arena);
    return claim;
}
