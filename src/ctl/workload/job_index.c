// SPDX-License-Identifier: Apache-2.0
//
// Numbered pods of Jobs, and the pods themselves.
#include "ctl/workload/job_int.h"

#include "base/banned.h"

size_t job_index_of(const struct job *j, const struct typed_object *pod)
{
    int64_t index = 0;
    bool has = meta_map_int(&pod->meta->annotations, STR(JOB_INDEX), &index);
    return has && index >= 0 && (size_t)index < j->indexes ? (size_t)index : SIZE_MAX;
}

int64_t job_index_failures(const struct typed_object *pod)
{
    int64_t failures = 0;
    (void)meta_map_int(&pod->meta->annotations, STR(JOB_INDEX_FAILURE), &failures);
    return failures;
}

bool job_success_policy_met(const struct job *j)
{
    const struct api_success_policy *policy = j->was->spec.success_policy;
    for (size_t i = 0; policy && j->indexes && i < policy->rules.n; i++) {
        const struct api_success_policy_rule *rule = &policy->rules.p[i];
        uint64_t asked = j->indexes, have = job_set_count(&j->done);
        if (rule->has_succeeded_indexes) {
            const struct job_set wanted =
                job_set_read(rule->succeeded_indexes, j->indexes, j->arena);
            asked = job_set_count(&wanted);
            have = job_set_count_both(&wanted, &j->done);
        }
        if (rule->has_succeeded_count)
            asked = (uint64_t)load_not_negative(rule->succeeded_count);
        if (have >= asked)
            return true;
    }
    return false;
}

// --- Pods ----------------------------------------------------------------------------------------

static struct api_container_array with_index(const struct api_container_array *in,
                                             struct arena *arena)
{
    struct api_container *all = arena_array(arena, struct api_container, in->n + 1);
    for (size_t i = 0; i < in->n; i++) {
        all[i] = in->p[i];
        size_t n = all[i].env.n;
        struct api_env_var *env = arena_array(arena, struct api_env_var, n + 1);
        bool has = false;
        for (size_t k = 0; k < n; k++) {
            env[k] = all[i].env.p[k];
            has |= str_eqz(env[k].name, "JOB_COMPLETION_INDEX");
        }
        if (has)
            continue;
        struct api_env_var_source *from = arena_one(arena, struct api_env_var_source);
        from->field_ref = arena_one(arena, struct api_object_field_selector);
        *from->field_ref = (struct api_object_field_selector){
            .api_version = STR("v1"), .field_path = STR("metadata.labels['" JOB_INDEX "']")};
        env[n] = (struct api_env_var){.name = STR("JOB_COMPLETION_INDEX"), .value_from = from};
        all[i].env = (struct api_env_var_array){env, n + 1};
    }
    return (struct api_container_array){all, in->n};
}

// Failures of the index so far, when they are counted for each.
static void annotate_failures(const struct job *j, struct api_pod *pod, size_t index)
{
    if (!j->was->spec.has_backoff_limit_per_index)
        return;
    int64_t count = 0;
    vec_foreach(&j->failures, f) {
        int64_t next = load_next(job_index_failures(f->pod));
        if (f->index == index && next > count)
            count = next;
    }
    meta_map_put(&pod->metadata.annotations, STR(JOB_INDEX_FAILURE),
                 arena_strf(j->arena, "%lld", (long long)count), j->arena);
}

struct api_pod job_new_pod(const struct job *j, size_t index)
{
    struct str name = j->o->meta->name;
    struct api_pod pod = load_pod_of(&j->was->spec.template, j->l, j->o, j->arena);
    meta_list_add(&pod.metadata.finalizers, STR(JOB_FINALIZER), j->arena);
    pod.metadata.generate_name = load_generate_name(name, j->arena);
    if (index == SIZE_MAX)
        return pod;
    struct str number = arena_strf(j->arena, "%zu", index);
    pod.metadata.generate_name = arena_strf(j->arena, "%.*s-%.*s-", STR_ARG(name), STR_ARG(number));
    if (pod.spec.hostname.n == 0)
        pod.spec.hostname = arena_strf(j->arena, "%.*s-%.*s", STR_ARG(name), STR_ARG(number));
    meta_map_put(&pod.metadata.annotations, STR(JOB_INDEX), number, j->arena);
    meta_map_put(&pod.metadata.labels, STR(JOB_INDEX), number, j->arena);
    annotate_failures(j, &pod, index);
    pod.spec.containers = with_index(&pod.spec.containers, j->arena);
    pod.spec.init_containers = with_index(&pod.spec.init_containers, j->arena);
    return pod;
}
