// SPDX-License-Identifier: Apache-2.0
//
// PodGroups and their pods. A group is known from the moment its object or one of its pods is; pods
// that are over are no members. Private to src/sched.
#ifndef SCHED_GANG_GROUPS_H
#define SCHED_GANG_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "client/client.h"
#include "sched/core/cluster.h"

struct group_take;
struct sched;

struct sched_group {
    struct str key;                    // namespace/name; owned
    const struct typed_object *object; // NULL: not seen
    const struct api_pod_group *api;
    struct pod_vec pods;
    uint32_t attempts; // in a row that did not place it
    int64_t tried_ns;
    uint64_t cost; // of selectors, in the cycle that was postponed
    int64_t jitter_ns;
    struct group_take *take; // it is giving back what it holds

    // What users see: the condition PodGroupInitiallyScheduled.
    const char *reason; // NULL: nothing yet
    char *message;
    int64_t told_ns;
    struct list_node untold; // while its condition is not what it should be
};

struct groups {
    struct group_map MAP(struct sched_group *) by_key;
    struct list untold;
    struct exec_timer tell_timer;
};

void groups_init(struct sched *s);
void groups_done(struct sched *s);

// groups_find: NULL when neither the group nor a pod of it is known.
struct sched_group *groups_find(const struct sched *s, struct str namespace, struct str name);

// groups_set takes the group's newest object, NULL when it is gone.
void groups_set(struct sched *s, const struct typed_object *before,
                const struct typed_object *after);

// groups_pod puts a pod into its group, or takes it out when it is over. groups_pod_gone: it is
// gone.
void groups_pod(struct sched *s, struct sched_pod *p);
void groups_pod_gone(struct sched *s, struct sched_pod *p);

// groups_release forgets a group of which nothing is left.
void groups_release(struct sched *s, struct sched_group *g);

// groups_min is how many pods must run at once; 1 when each may run by itself.
size_t groups_min(const struct sched_group *g);

// groups_scheduled counts members that have a node, be it only decided.
size_t groups_scheduled(const struct sched_group *g);

// groups_gate reports whether the group's pods may be tried; else adds why not for this one.
bool groups_gate(const struct sched_pod *p, struct sbuf *why);

// groups_wake gives pods that wait for their group another look.
void groups_wake(struct sched *s, struct sched_group *g);

// groups_runs_with: a pod of the group that a consumer reference means runs with the claim.
bool groups_runs_with(const struct sched *s, const struct api_resource_claim_consumer_reference *r,
                      const struct api_resource_claim *claim);

// groups_uses_claim: a pod of the group has a node and names the claim.
bool groups_uses_claim(const struct sched_group *g, struct str claim);

// groups_set_condition sets the condition PodGroupInitiallyScheduled; once it is True it stays so.
void groups_set_condition(struct sched *s, struct sched_group *g, bool scheduled,
                          const char *reason, struct str message);

#endif
