// SPDX-License-Identifier: Apache-2.0
//
// Pods that an attempt's filters see though they are not on the node, or do not see though they
// are: what would be if others had gone, or had come as they were promised. Everything that filters
// count is kept in step.
#include "sched/filter/filter_int.h"
#include "sched/volume/volume_int.h"

#include "base/banned.h"

void overlay_add(struct attempt *a, struct sched_pod *p, struct sched_node *n)
{
    cluster_show(&a->s->cluster, p, n);
    spread_update(a, p, n, 1);
    affinity_update(a, p, n, 1);
    volume_rules_update(a, p);
}

void overlay_remove(struct attempt *a, struct sched_pod *p)
{
    struct sched_node *n = p->node;
    cluster_hide(p);
    spread_update(a, p, n, -1);
    affinity_update(a, p, n, -1);
    volume_rules_update(a, p);
}

size_t overlay_add_nominated(struct attempt *a, struct sched_node *n)
{
    size_t added = 0;
    list_foreach(&n->nominated, node) {
        struct sched_pod *p = list_entry(node, struct sched_pod, on.nominated.by_node);
        if (p == a->pod || p->node || p->queue.priority < a->pod->queue.priority)
            continue;
        overlay_add(a, p, n);
        added++;
    }
    return added;
}

void overlay_remove_last(struct attempt *a, struct sched_node *n, size_t pods)
{
    while (pods--)
        overlay_remove(a, *vec_last(&n->pods));
}
