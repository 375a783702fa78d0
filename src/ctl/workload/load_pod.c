// SPDX-License-Identifier: Apache-2.0
//
// Pods of workloads: how they are made, what they count as, which goes first.
#include <stdlib.h>

#include "api/match/claim.h"
#include "ctl/template.h"
#include "ctl/workload/load.h"

#include "base/banned.h"

const struct load_event load_pod_created = {"SuccessfulCreate", "Created pod: ", "FailedCreate",
                                            "Error creating: "};
const struct load_event load_pod_deleted = {"SuccessfulDelete", "Deleted pod: ", "FailedDelete",
                                            "Error deleting: "};

struct api_pod load_pod_of(const struct api_pod_template_spec *template, const struct load *l,
                           const struct typed_object *owner, struct arena *arena)
{
    return template_pod(template, ctl_kind(l->cache), owner->meta, arena);
}

struct str load_generate_name(struct str owner, struct arena *arena)
{
    return arena_strf(arena, "%.*s-", STR_ARG(owner));
}

bool load_is_active(const struct api_pod *pod)
{
    return !pod_is_terminal(pod) && !pod->metadata.deletion_timestamp.set;
}

static const struct api_pod_condition *load_pod_find_condition(const struct api_pod *pod,
                                                               struct str type)
{
    for (size_t i = 0; i < pod->status.conditions.n; i++)
        if (str_eq(pod->status.conditions.p[i].type, type))
            return &pod->status.conditions.p[i];
    return NULL;
}

bool load_pod_has_condition(const struct api_pod *pod, struct str type)
{
    const struct api_pod_condition *c = load_pod_find_condition(pod, type);
    return c && str_eqz(c->status, "True");
}

bool load_is_ready(const struct api_pod *pod)
{
    return load_pod_has_condition(pod, STR("Ready"));
}

bool load_is_available(const struct api_pod *pod, int32_t min_ready, int64_t now_s, int64_t *wait_s)
{
    const struct api_pod_condition *ready = load_pod_find_condition(pod, STR("Ready"));
    if (!ready || !str_eqz(ready->status, "True"))
        return false;
    const struct api_time *since = &ready->last_transition_time;
    int64_t left = since->set ? since->at.sec + min_ready - now_s : min_ready;
    if (min_ready <= 0 || left <= 0)
        return true;
    if (left < *wait_s)
        *wait_s = left;
    return false;
}

// --- Which goes first ----------------------------------------------------------------------------

struct ranked {
    const struct typed_object *object;
    const struct api_pod *pod;
    size_t together; // pods of the list on its node
    int64_t cost;
};

static int phase_order(const struct api_pod *pod)
{
    if (str_eqz(pod->status.phase, "Running"))
        return 2;
    return str_eqz(pod->status.phase, "Unknown") ? 1 : 0;
}

static int64_t load_pod_count_restarts(const struct api_pod *pod)
{
    int64_t most = 0;
    for (size_t i = 0; i < pod->status.container_statuses.n; i++)
        if (pod->status.container_statuses.p[i].restart_count > most)
            most = pod->status.container_statuses.p[i].restart_count;
    return most;
}

static int64_t ready_since(const struct api_pod *pod)
{
    const struct api_pod_condition *c = load_pod_find_condition(pod, STR("Ready"));
    return c && c->last_transition_time.set ? c->last_transition_time.at.sec : 0;
}

static int load_pod_compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_rank(const void *x, const void *y)
{
    const struct ranked *a = x, *b = y;
    const int orders[] = {
        load_pod_compare_numbers(a->pod->spec.node_name.n > 0, b->pod->spec.node_name.n > 0),
        load_pod_compare_numbers(phase_order(a->pod), phase_order(b->pod)),
        load_pod_compare_numbers(load_is_ready(a->pod), load_is_ready(b->pod)),
        load_pod_compare_numbers(a->cost, b->cost),
        -load_pod_compare_numbers((int64_t)a->together, (int64_t)b->together),
        -load_pod_compare_numbers(ready_since(a->pod), ready_since(b->pod)),
        -load_pod_compare_numbers(load_pod_count_restarts(a->pod), load_pod_count_restarts(b->pod)),
        -load_pod_compare_numbers(a->object->meta->creation_timestamp.at.sec,
                                  b->object->meta->creation_timestamp.at.sec),
        str_cmp(a->object->meta->name, b->object->meta->name),
    };
    for (size_t i = 0; i < array_len(orders); i++)
        if (orders[i] != 0)
            return orders[i];
    return 0;
}

struct node_counts MAP(size_t);

void load_rank(struct load_objects *pods)
{
    struct node_counts on_node = {0};
    struct ranked *all = xcalloc(pods->n + 1, sizeof(*all));
    for (size_t i = 0; i < pods->n; i++) {
        const struct typed_object *o = pods->p[i];
        all[i] = (struct ranked){.object = o, .pod = as_pod(o)};
        (void)meta_map_int(&o->meta->annotations, STR("controller.kubernetes.io/pod-deletion-cost"),
                           &all[i].cost);
        ++*map_put(&on_node, all[i].pod->spec.node_name);
    }
    for (size_t i = 0; i < pods->n; i++)
        all[i].together = *map_put(&on_node, all[i].pod->spec.node_name);
    qsort(all, pods->n, sizeof(*all), by_rank);
    for (size_t i = 0; i < pods->n; i++)
        pods->p[i] = all[i].object;
    free(all);
    map_done(&on_node);
}

// --- Numbers and names ---------------------------------------------------------------------------

int32_t load_scaled(const struct api_int_or_string *value, int32_t total, bool up)
{
    if (!value)
        return 0;
    if (!value->is_text)
        return load_not_negative(value->number);
    int64_t percent = 0;
    if (!str_ends(value->text, STR("%")) ||
        str_to_i64(str_upto(value->text, value->text.n - 1), &percent) < 0 || percent < 0 ||
        percent > INT32_MAX)
        return 0;
    int64_t scaled = (percent * total + (up ? 99 : 0)) / 100;
    return load_not_negative(scaled);
}

struct str load_template_hash(const struct api_pod_template_spec *template, bool has_collisions,
                              int32_t collisions, struct arena *arena)
{
    enum { LETTERS = 10 };
    cleanup_sbuf struct sbuf text = {0};
    struct json_writer w = {.out = &text};
    struct err err;
    (void)!api_json_write(&api_pod_template_spec_type, template, &w, &err);
    if (has_collisions)
        sbuf_addf(&text, "#%d", collisions);
    char *letters = arena_array(arena, char, LETTERS);
    meta_hash_letters(meta_hash(META_HASH_START, sbuf_str(&text)), letters, LETTERS);
    return str_make(letters, LETTERS);
}
