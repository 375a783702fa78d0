// SPDX-License-Identifier: Apache-2.0
//
// A cluster with a policy at work: the fleet names nodes, the allocator decides, what it gives is
// in use from then on.
#include "plan/replay/replay_int.h"

#include "base/banned.h"

static const struct alloc_view *view_at(void *arg, uint32_t node)
{
    const struct replay_world *w = arg;
    return w->nodes.p[node].view;
}

void replay_stage_begin(struct stage *s, struct replay_world *w, const struct fleet_rule *rule,
                        enum alloc_policy policy)
{
    *s = (struct stage){.world = w};
    s->fleet = fleet_new(&(struct fleet_options){.rule = rule, .view = view_at, .view_arg = w});
    s->solver = alloc_solver_new(
        &(struct alloc_options){.policy = policy, .loss = fleet_loss, .loss_arg = s->fleet});
}

void replay_stage_end(struct stage *s)
{
    alloc_solver_free(s->solver);
    fleet_free(s->fleet);
    replay_world_free(s->world);
}

void replay_stage_update_node(struct stage *s, uint32_t node)
{
    struct fleet_room room = replay_world_node_room(&s->world->nodes.p[node]);
    fleet_set(s->fleet, node, &room, s->world->nodes.p[node].view);
}

static int replay_stage_check_answer(const struct stage *s, uint32_t node,
                                     const struct api_resource_claim *claim,
                                     const struct alloc_answer *a, struct err *err)
{
    cleanup_sbuf struct sbuf problems = {0};
    if (!s->check ||
        alloc_check(s->world->nodes.p[node].view, &claim, 1, a->results, a->results_len, &problems))
        return 0;
    return err_set(err, ERR_INTERNAL, "node %.*s: the checker refuses an allocation: %.*s",
                   STR_ARG(s->world->nodes.p[node].node->metadata.name),
                   STR_ARG(sbuf_str(&problems)));
}

// Asks one node. Returns 1 when the pod has its place there, 0 when not.
static int try_node(struct stage *s, uint32_t node, const struct api_resource_claim *claim,
                    const struct trace_pod *p, struct err *err)
{
    struct alloc_answer a = {0};
    if (claim) {
        fleet_at(s->fleet, node);
        alloc_solve(s->solver, s->world->nodes.p[node].view, &claim, 1, &a);
        if (a.verdict == ALLOC_ERROR)
            return err_set(err, ERR_INVALID, "pod %.*s: %.*s", STR_ARG(p->name), STR_ARG(a.error));
        if (a.verdict != ALLOC_ALLOCATED) {
            fleet_refused(s->fleet, node);
            return 0;
        }
        int r = replay_stage_check_answer(s, node, claim, &a, err);
        if (r < 0)
            return r;
    }
    int r = replay_world_allocate(s->world, node, p, claim ? a.results : NULL, err);
    if (r < 0)
        return r;
    replay_stage_update_node(s, node);
    return 1;
}

int replay_stage_place(struct stage *s, const struct api_resource_claim *claim,
                       const struct trace_pod *p, uint32_t *ret_node, struct err *err)
{
    uint32_t node;
    *ret_node = NO_NODE;
    fleet_start(s->fleet);
    while (fleet_next(s->fleet, &node)) {
        int r = try_node(s, node, claim, p, err);
        if (r < 0)
            return r;
        if (r > 0) {
            *ret_node = node;
            return 0;
        }
    }
    return 0;
}
