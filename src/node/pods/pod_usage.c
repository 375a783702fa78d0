// SPDX-License-Identifier: Apache-2.0
//
// What pods use: gathers on the exec where to look, and looks where it may block. Nothing of a pod
// is touched there, so that it may end meanwhile.
#include "api/amounts.h"
#include "node/pods/pods_int.h"
#include "node/volume/volume.h"

#include "base/banned.h"

bool pod_has_storage_limit(const struct api_pod *pod)
{
    cleanup_arena struct arena arena = {0};
    const struct api_quantity_map limits = pod_amounts(pod, true, &arena);
    if (amounts_get(&limits, STR("ephemeral-storage")))
        return true;
    for (size_t i = 0; i < pod->spec.volumes.n; i++) {
        const struct api_empty_dir_volume_source *e =
            pod->spec.volumes.p[i].volume_source.empty_dir;
        if (e && e->size_limit && quantity_sign(e->size_limit) > 0)
            return true;
    }
    return false;
}

// --- Gathering -----------------------------------------------------------------------------------

static void pod_usage_add_container(const struct pod_container *c, const char *logs,
                                    struct arena *arena, struct pod_usage *u)
{
    const struct pod_run *runs[] = {&c->now, &c->last};
    struct pod_usage_container one = {.name = arena_str(arena, str_z(c->name)),
                                      .logs = arena_strf(arena, "%s/%s", logs, c->name).p,
                                      .first = u->ids.n};
    for (size_t i = 0; i < array_len(runs); i++)
        if (runs[i]->id)
            vec_push_arena(arena, &u->ids, arena_str(arena, str_z(runs[i]->id)));
    one.runs = u->ids.n - one.first;
    vec_push_arena(arena, &u->containers, one);
}

static void pod_usage_add_volumes(const struct pod *p, struct arena *arena, struct pod_usage *u)
{
    const struct api_pod *pod = pod_spec_of(p);
    cleanup_sbuf struct sbuf folder = {0};
    pod_directory(p, &folder);
    for (size_t i = 0; i < pod->spec.volumes.n; i++) {
        const struct api_volume *v = &pod->spec.volumes.p[i];
        if (!v->volume_source.empty_dir)
            continue;
        const struct pod_usage_volume one = {
            .name = arena_str(arena, v->name),
            .path = volume_path(folder.p, pod, &p->refs, v->name, arena),
            .memory = str_eqz(v->volume_source.empty_dir->medium, "Memory")};
        vec_push_arena(arena, &u->volumes, one);
    }
}

void pod_usage_gather(const struct pod *p, struct arena *arena, struct pod_usage *ret)
{
    cleanup_sbuf struct sbuf logs = {0};
    *ret = (struct pod_usage){
        .uid = arena_str(arena, str_z(p->uid_text)),
        .cgroup_parent = pod_cgroup_parent(pod_spec_of(p)), // a literal
    };
    pod_log_directory(p, &logs);
    for (size_t i = 0; i < p->containers_len; i++)
        pod_usage_add_container(p->containers[i], logs.p, arena, ret);
    pod_usage_add_volumes(p, arena, ret);
}

// --- Measuring -----------------------------------------------------------------------------------

void pod_usage_measure(const struct runtime *runtime, bool disk, struct arena *arena,
                       struct pod_usage *u)
{
    struct runtime_usage got = {
        .containers = arena_array(arena, struct runtime_container_usage, u->ids.n + 1)};
    const struct runtime_measure what = {.uid = u->uid,
                                         .cgroup_parent = u->cgroup_parent,
                                         .containers = u->ids.p,
                                         .containers_len = u->ids.n,
                                         .disk = disk};
    if (runtime->ops->measure)
        runtime->ops->measure(runtime, &what, &got);
    u->memory_bytes = got.memory_bytes;
    u->processes = got.processes;
    vec_foreach(&u->containers, c) {
        for (size_t i = c->first; i < c->first + c->runs; i++) {
            c->memory_bytes += got.containers[i].memory_bytes;
            usage_add(&c->layers,
                      (struct usage){got.containers[i].disk_bytes, got.containers[i].files});
        }
        if (disk)
            usage_add_tree(c->logs, &c->log);
        usage_add(&u->disk, c->layers);
        usage_add(&u->disk, c->log);
    }
    vec_foreach(&u->volumes, v) {
        if (disk && v->path)
            usage_add_tree(v->path, &v->usage);
        if (!v->memory)
            usage_add(&u->disk, v->usage);
    }
}
