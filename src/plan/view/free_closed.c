// SPDX-License-Identifier: Apache-2.0
//
// Nodes whose devices nobody can get, because they take no pod more: the scheduler says which, on a copy
// of the world in memory.
#include "plan/inventory.h"
#include "plan/sim/sim.h"

#include "base/banned.h"

struct closed_nodes MAP(bool); // keys are in the arena

struct free_closed {
    struct closed_nodes nodes;
    struct arena arena;
};

static void free_closed_add(void *arg, struct str node)
{
    struct free_closed *c = arg;
    *map_put(&c->nodes, arena_str(&c->arena, node)) = true;
}

struct free_closed *free_closed_new(struct plan_world *w)
{
    struct free_closed *c = xcalloc(1, sizeof(*c));
    struct plan p = {.world = w};
    size_t notes = w->notes.n; // what is noted about files is not for this answer
    static const struct str nobody = STR_INIT("dray.dev/nobody");
    struct sim s;
    sim_start(&s, NULL, SIM_FIXED_WALL_NS);
    sim_load_world(&p, &s, NULL, NULL);
    w->notes.n = notes;
    sim_schedule(&s, ALLOC_FIRST, &nobody, 1); // it looks, and has nothing to place
    sim_settle(&s, 1);
    sched_closed_nodes(s.sched, free_closed_add, c);
    sim_end(&s);
    vec_done(&p.nodes);
    arena_done(&p.arena);
    return c;
}

bool free_closed_has(const struct free_closed *c, struct str node)
{
    return c && map_has(&c->nodes, node);
}

void free_closed_free(struct free_closed *c)
{
    if (!c)
        return;
    map_done(&c->nodes);
    arena_done(&c->arena);
    free(c);
}
