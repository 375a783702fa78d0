// SPDX-License-Identifier: Apache-2.0
//
// Numbered pods of Jobs, and the pods themselves.
#include "ctl/job_int.h"

#include "base/banned.h"

void job_index_read(struct str text, bool *set, size_t n)
{
    while (text.n > 0) {
        struct str one, first, last;
        uint64_t from, to;
        str_cut(text, ',', &one, &text);
        bool range = str_cut(one, '-', &first, &last);
        if (str_to_u64(first, &from) < 0 || str_to_u64(range ? last : first, &to) < 0)
            continue;
        for (uint64_t i = from; i <= to && i < n; i++)
            set[i] = true;
    }
}

struct str job_index_write(const bool *set, size_t n, struct arena *arena)
{
    cleanup_sbuf struct sbuf out = {0};
    for (size_t i = 0; i < n; i++) {
        if (!set[i])
            continue;
        size_t last = i;
        while (last + 1 < n && set[last + 1])
            last++;
        sbuf_addf(&out, "%s%zu", out.n ? "," : "", i);
        if (last > i)
            sbuf_addf(&out, "%c%zu", last == i + 1 ? ',' : '-', last);
        i = last;
    }
    return arena_str(arena, sbuf_str(&out));
}

size_t job_index_count(const bool *set, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += set[i];
    return count;
}

size_t job_index_of(const struct job *j, const struct client_object *pod)
{
    int64_t index = 0;
    bool has = ctl_map_int(&pod->meta->annotations, STR(JOB_INDEX), &index);
    return has && index >= 0 && (size_t)index < j->indexes ? (size_t)index : SIZE_MAX;
}

bool job_success_policy_met(const struct job *j)
{
    const struct api_success_policy *policy = j->was->spec.success_policy;
    for (size_t i = 0; policy && j->indexes && i < policy->rules.n; i++) {
        const struct api_success_policy_rule *rule = &policy->rules.p[i];
        bool *wanted = arena_array(j->arena, bool, j->indexes);
        for (size_t k = 0; k < j->indexes && !rule->has_succeeded_indexes; k++)
            wanted[k] = true;
        job_index_read(rule->succeeded_indexes, wanted, j->indexes);
        size_t asked = job_index_count(wanted, j->indexes), have = 0;
        for (size_t k = 0; k < j->indexes; k++)
            have += wanted[k] && j->done[k];
        if (have >= (rule->has_succeeded_count ? (size_t)rule->succeeded_count : asked))
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
    const struct client_object *last = j->failed_at[index];
    if (last) {
        (void)ctl_map_int(&last->meta->annotations, STR(JOB_INDEX_FAILURE), &count);
        count++;
    }
    ctl_map_put(&pod->metadata.annotations, STR(JOB_INDEX_FAILURE),
                arena_strf(j->arena, "%lld", (long long)count), j->arena);
}

struct api_pod job_new_pod(const struct job *j, size_t index)
{
    struct str name = j->o->meta->name;
    struct api_pod pod = load_pod_of(&j->was->spec.template, j->l, j->o, j->arena);
    ctl_list_add(&pod.metadata.finalizers, STR(JOB_FINALIZER), j->arena);
    pod.metadata.generate_name = load_generate_name(name, j->arena);
    if (index == SIZE_MAX)
        return pod;
    struct str number = arena_strf(j->arena, "%zu", index);
    pod.metadata.generate_name = arena_strf(j->arena, "%.*s-%.*s-", STR_ARG(name), STR_ARG(number));
    if (pod.spec.hostname.n == 0)
        pod.spec.hostname = arena_strf(j->arena, "%.*s-%.*s", STR_ARG(name), STR_ARG(number));
    ctl_map_put(&pod.metadata.annotations, STR(JOB_INDEX), number, j->arena);
    ctl_map_put(&pod.metadata.labels, STR(JOB_INDEX), number, j->arena);
    annotate_failures(j, &pod, index);
    pod.spec.containers = with_index(&pod.spec.containers, j->arena);
    pod.spec.init_containers = with_index(&pod.spec.init_containers, j->arena);
    return pod;
}
