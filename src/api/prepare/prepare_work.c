// SPDX-License-Identifier: Apache-2.0
//
// Preparation of jobs and of requests for certificates.
#include "api/prepare/prepare_int.h"
#include "api/validate.h"

#include "base/banned.h"

// --- Jobs ----------------------------------------------------------------------------------------

// add_label puts a label into its place in a sorted map, unless there is one of that key.
static void add_label(struct arena *arena, struct api_str_map *labels, const char *key,
                      struct str value)
{
    size_t at = 0;
    while (at < labels->n && str_cmp(labels->p[at].key, str_z(key)) < 0)
        at++;
    if (at < labels->n && str_eqz(labels->p[at].key, key))
        return;
    struct api_str_entry *all = arena_array(arena, struct api_str_entry, labels->n + 1);
    for (size_t i = 0; i < labels->n; i++)
        all[i < at ? i : i + 1] = labels->p[i];
    all[at] = (struct api_str_entry){str_z(key), value};
    *labels = (struct api_str_map){all, labels->n + 1};
}

void prepare_new_job(const struct preparer *p, struct api_job *job)
{
    struct api_job_spec *spec = &job->spec;
    if (spec->has_manual_selector && spec->manual_selector)
        return;
    struct api_str_map *labels = &spec->template.metadata.labels;
    const struct api_object_meta *meta = &job->metadata;
    add_label(p->arena, labels, "job-name", meta->name);
    add_label(p->arena, labels, "batch.kubernetes.io/job-name", meta->name);
    add_label(p->arena, labels, "controller-uid", meta->uid);
    add_label(p->arena, labels, "batch.kubernetes.io/controller-uid", meta->uid);
    struct api_label_selector *selector = arena_one(p->arena, struct api_label_selector);
    if (spec->selector)
        *selector = *spec->selector;
    add_label(p->arena, &selector->match_labels, "batch.kubernetes.io/controller-uid", meta->uid);
    spec->selector = selector;
}

// --- Requests for certificates -------------------------------------------------------------------

static bool is_decision(struct str type)
{
    return str_eqz(type, "Approved") || str_eqz(type, "Denied");
}

// copy_conditions adds those of a list that are, or are not, decisions.
static void copy_conditions(struct api_certificate_signing_request_condition_array *to,
                            const struct api_certificate_signing_request_condition_array *from,
                            bool decisions)
{
    for (size_t i = 0; i < from->n; i++)
        if (is_decision(from->p[i].type) == decisions)
            to->p[to->n++] = from->p[i];
}

void prepare_certificate_status(const struct preparer *p,
                                struct api_certificate_signing_request *now,
                                const struct api_certificate_signing_request *old)
{
    size_t most = now->status.conditions.n + old->status.conditions.n + 1;
    struct api_certificate_signing_request_condition_array all = {
        arena_array(p->arena, struct api_certificate_signing_request_condition, most), 0};
    copy_conditions(&all, &old->status.conditions, true);
    copy_conditions(&all, &now->status.conditions, false);
    now->status.conditions = all;
}
