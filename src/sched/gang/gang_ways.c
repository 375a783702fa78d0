// SPDX-License-Identifier: Apache-2.0
//
// Other ways to place the pods of a group than in the order they came, and a look at what would
// become of it.
#include <stdlib.h>

#include "sched/core/cycle.h"
#include "sched/gang/gang.h"
#include "sched/gang/gang_int.h"

#include "base/banned.h"

// --- Other ways ----------------------------------------------------------------------------------

// Pods that are alike and share nothing leave each other as much room in one order as in another.
static bool order_matters(struct cycle *c)
{
    struct seen MAP(bool) seen = {0};
    uint64_t like = 0;
    bool matters = false;
    for (size_t i = 0; i < c->n && !matters; i++) {
        struct sched_pod *p = c->tries[i].pod;
        struct attempt a;
        bool fresh = true;
        uint64_t signature = cycle_begin(c->s, p, &a) == DRA_OK ? cycle_signature(&a) : 0;
        cycle_end(&a);
        matters = !signature || (like && signature != like);
        like = signature;
        for (size_t k = 0; k < p->claims_len && !matters; k++) {
            (void)map_put_new(&seen, p->claims[k], &fresh);
            matters = !fresh;
        }
    }
    map_done(&seen);
    return matters;
}

void gang_drop(struct cycle *c)
{
    for (size_t i = 0; i < c->n; i++) {
        free(c->tries[i].line);
        typed_object_unref(c->tries[i].give_up);
    }
    free(c->tries);
    sbuf_done(&c->text);
}

static size_t last_refused(const struct cycle *c)
{
    size_t at = c->tried;
    while (at > 0 && !c->tries[at - 1].refused)
        at--;
    return at ? at - 1 : 0;
}

// The same pods, but a pod that found no room comes before those that left it none.
static struct cycle gang_ways_reorder(const struct cycle *c)
{
    struct cycle way = *c;
    size_t late = last_refused(c);
    way.text = (struct sbuf){0};
    way.tries = xcalloc(c->n, sizeof(*way.tries));
    way.tried = way.fits = 0;
    way.again = true;
    way.seen = NULL;
    way.tries[0].pod = c->tries[late].pod;
    for (size_t i = 0, to = 1; i < c->n; i++)
        if (i != late)
            way.tries[to++].pod = c->tries[i].pod;
    return way;
}

static struct try *first_placed(struct cycle *c)
{
    for (size_t i = 0; i < c->tried; i++)
        if (c->tries[i].node && (!c->vary || c->vary == c->tries[i].pod))
            return &c->tries[i];
    return NULL;
}

// What comes first decides where a claim is that all share: it has to go elsewhere. False: it
// cannot.
static bool gang_ways_vary(struct cycle *way)
{
    struct try *front = first_placed(way);
    if (way->failed || !front || way->avoid_len == OTHER_WAYS_MAX)
        return false;
    way->vary = front->pod;
    way->avoid[way->avoid_len++] = front->node;
    gang_revert(way);
    way->tried = way->fits = 0;
    for (size_t i = 0; i < way->n; i++)
        way->tries[i] = (struct try){.pod = way->tries[i].pod};
    return true;
}

bool gang_another_way(struct cycle *c)
{
    if (c->min == 1 || !c->fits)
        return false;
    gang_revert(c);
    if (!order_matters(c))
        return false;
    struct cycle way = gang_ways_reorder(c);
    do
        gang_try_all(&way);
    while ((way.failed || !gang_enough(&way)) && gang_ways_vary(&way));
    if (way.failed || !gang_enough(&way)) {
        gang_revert(&way);
        gang_drop(&way);
        return false;
    }
    gang_drop(c);
    *c = way;
    return true;
}

// --- A look --------------------------------------------------------------------------------------

// Where a pod was in the queue.
struct place {
    enum pod_state state;
    uint32_t whys;
};

static bool to_be_seen(const struct cycle *c, const struct sched_pod *p)
{
    return !p->node && !p->binding && sched_is_mine(c->s, p->api) &&
           !p->api->spec.scheduling_gates.n;
}

// Places that were kept in memory are given back, and every pod is where it was in the queue.
static void gang_ways_put_back(struct queue *q, struct sched_pod *p, const struct place *was)
{
    if (p->state == was->state)
        return;
    if (was->state == POD_ACTIVE)
        queue_activate(q, p);
    else if (was->state == POD_BACKOFF)
        queue_retry(q, p);
    else if (was->state == POD_WAITING)
        queue_wait(q, p, was->whys);
    else if (was->state == POD_GATED)
        queue_gate(q, p);
    else if (was->state == POD_POSTPONED)
        queue_postpone(q, p);
}

bool gang_preview(struct sched *s, struct sched_group *g, gang_seen_fn seen, void *arg,
                  struct sbuf *wrong)
{
    struct cycle c = {.s = s,
                      .g = g,
                      .min = groups_min(g),
                      .before = groups_scheduled(g),
                      .again = true,
                      .seen = seen,
                      .seen_arg = arg};
    struct place *places = xcalloc(g->pods.n + 1, sizeof(*places));
    c.tries = xcalloc(g->pods.n + 1, sizeof(*c.tries));
    for (size_t i = 0; i < g->pods.n; i++) {
        places[i] = (struct place){g->pods.p[i]->state, g->pods.p[i]->queue.whys};
        if (to_be_seen(&c, g->pods.p[i]))
            c.tries[c.n++].pod = g->pods.p[i];
    }
    gang_by_order(&c);
    bool fits = false;
    if (c.n && gang_valid(&c)) {
        s->turn.gang_last++;
        gang_try_all(&c);
        fits = gang_enough(&c) || gang_another_way(&c);
        gang_revert(&c);
    }
    sbuf_add(wrong, sbuf_str(&c.text));
    for (size_t i = 0; i < g->pods.n; i++)
        gang_ways_put_back(&s->queue, g->pods.p[i], &places[i]);
    gang_drop(&c);
    free(places);
    return fits;
}
