// SPDX-License-Identifier: Apache-2.0
//
// Pods of a group on their way together. None is bound before as many as the group needs have got
// all they need: devices written and ready. If so many cannot come any more, all go back.
#include "api/match/claim.h"
#include "sched/bind/bind.h"
#include "sched/bind/bind_int.h"
#include "sched/gang/gang.h"

#include "base/banned.h"

// How long the first may wait for the others (Permit of Kubernetes' GangScheduling).
#define QUORUM_NS (300 * CLOCK_NS_PER_SEC)

// The pods of a group that one cycle has placed, on their way together.
struct gang {
    struct list_node node; // in sched.gangs
    struct sched *s;
    struct list members; // binding.gang_node
    size_t need;         // must have come as far as the Binding before any goes on
    size_t arrived;
    bool open; // enough have: none waits any more
    bool failed;
    struct exec_timer timer;
    size_t refs; // members, and a call under way
};

static size_t gang_bind_count(const struct gang *g)
{
    size_t n = 0;
    for (const struct list_node *i = g->members.head.next; i != &g->members.head; i = i->next)
        n++;
    return n;
}

static void gang_bind_unref(struct gang *g)
{
    if (--g->refs)
        return;
    exec_timer_stop(g->s->exec, &g->timer);
    list_remove(&g->node);
    free(g);
}

void gang_drop_all(struct sched *s)
{
    list_foreach(&s->writes.gangs, node) {
        struct gang *g = list_entry(node, struct gang, node);
        exec_timer_stop(s->exec, &g->timer);
        while (!list_empty(&g->members)) {
            struct binding *b = list_entry(g->members.head.next, struct binding, in.gang_node);
            list_remove(&b->in.gang_node);
            b->in.gang = NULL;
        }
        list_remove(&g->node);
        free(g);
    }
}

static void gang_bind_detach(struct binding *b)
{
    struct gang *g = b->in.gang;
    list_remove(&b->in.gang_node);
    b->in.gang = NULL;
    gang_bind_unref(g);
}

static void fail_all(struct gang *g, const char *why)
{
    g->failed = true;
    while (!list_empty(&g->members)) {
        struct binding *b = list_entry(g->members.head.next, struct binding, in.gang_node);
        bool waiting = bind_is_waiting(b);
        gang_bind_detach(b);
        bind_fail(b, "%s", why);
        if (waiting)
            bind_undo(b);
    }
}

// Devices that are made ready, and volumes that are made or bound, may take as long as they may for
// a pod that goes alone.
static bool has_own_limit(const struct binding *b)
{
    return b->step == BIND_CONDITIONS || b->step == BIND_VOLUMES;
}

static void waited_long(void *arg)
{
    struct gang *g = arg;
    for (struct list_node *n = g->members.head.next; n != &g->members.head; n = n->next)
        if (has_own_limit(list_entry(n, struct binding, in.gang_node))) {
            exec_timer_start(g->s->exec, &g->timer, QUORUM_NS);
            return;
        }
    g->refs++;
    fail_all(g, "waiting for minCount pods from a gang to be scheduled: they took too long");
    gang_bind_unref(g);
}

bool gang_arrive(struct binding *b)
{
    struct gang *g = b->in.gang;
    if (!g || g->open)
        return true;
    if (++g->arrived < g->need) {
        if (!exec_timer_armed(&g->timer))
            exec_timer_start(g->s->exec, &g->timer, QUORUM_NS);
        return false;
    }
    g->open = true;
    exec_timer_stop(g->s->exec, &g->timer);
    // Each may leave the list while it goes on.
    for (bool more = true; more;) {
        more = false;
        for (struct list_node *n = g->members.head.next; n != &g->members.head && !more;
             n = n->next) {
            struct binding *other = list_entry(n, struct binding, in.gang_node);
            if (other == b || other->step != BIND_QUORUM)
                continue;
            bind_enter(other, BIND_CONDITIONS);
            more = true;
        }
    }
    return true;
}

void gang_leave(struct binding *b)
{
    struct gang *g = b->in.gang;
    if (!g)
        return;
    if (b->step == BIND_QUORUM && !g->open)
        g->arrived--;
    list_remove(&b->in.gang_node);
    b->in.gang = NULL; // its reference is ours until the end
    if (!g->open && !g->failed && gang_bind_count(g) < g->need) {
        cleanup_sbuf struct sbuf why = {0};
        sbuf_addz(&why, "waiting for minCount pods from a gang to be scheduled");
        if (b->error.n)
            sbuf_addf(&why, ": pod %.*s: %.*s", STR_ARG(bind_pod(b)->metadata.name),
                      STR_ARG(sbuf_str(&b->error)));
        fail_all(g, why.p);
    }
    gang_bind_unref(g);
}

// --- Start ---------------------------------------------------------------------------------------

static void begin_all(struct gang *g)
{
    for (bool more = true; more;) {
        more = false;
        for (struct list_node *n = g->members.head.next; n != &g->members.head && !more;
             n = n->next) {
            struct binding *b = list_entry(n, struct binding, in.gang_node);
            if (b->step != BIND_DECIDED)
                continue;
            bind_next(b);
            more = true;
        }
    }
}

static bool came_too_late(const struct binding *b, const struct api_pod_group *group)
{
    const struct api_time *created = &bind_pod(b)->metadata.creation_timestamp;
    const struct api_time *deleted = &group->metadata.deletion_timestamp;
    return deleted->set && !(created->set && created->at.sec < deleted->at.sec);
}

// The group is there as of now, so that it stays as long as its pods do: the controller that
// releases it has looked for pods after its deletion, and these are older.
static void group_read(struct sched *s, void *arg, const struct client_answer *answer)
{
    struct gang *g = arg;
    (void)s;
    const struct typed_object *o = answer->code == 0 ? answer->object : NULL;
    for (bool more = true; more;) {
        more = false;
        for (struct list_node *n = g->members.head.next; n != &g->members.head && !more;
             n = n->next) {
            struct binding *b = list_entry(n, struct binding, in.gang_node);
            bool there = o && str_eq(o->meta->uid, b->in.group->meta->uid) &&
                         !came_too_late(b, o->object.value);
            if (there || b->failed)
                continue;
            bind_fail(b, "pod group %.*s: %s", STR_ARG(b->in.group->meta->name),
                      o             ? "it is not what it was"
                      : answer->err ? answer->err->msg
                                    : "no answer");
            bind_undo(b);
            more = true;
        }
    }
    begin_all(g);
    gang_bind_unref(g);
}

static bool has_group_claim(const struct binding *b)
{
    for (size_t i = 0; i < b->claims_len; i++)
        if (b->claims[i].group)
            return true;
    return false;
}

void gang_start(struct sched *s, struct binding *const *all, size_t n, size_t need)
{
    struct gang *g = xcalloc(1, sizeof(*g));
    *g = (struct gang){.s = s, .need = need, .open = need == 0, .refs = n + 1};
    g->timer = (struct exec_timer){.fn = waited_long, .arg = g};
    list_init(&g->members);
    list_push_back(&s->writes.gangs, &g->node);
    bool ask = false;
    for (size_t i = 0; i < n; i++) {
        all[i]->in.gang = g;
        list_push_back(&g->members, &all[i]->in.gang_node);
        ask |= has_group_claim(all[i]);
    }
    if (!ask) {
        begin_all(g);
        gang_bind_unref(g);
        return;
    }
    const struct api_object_meta *m = all[0]->in.group->meta;
    const struct client_key key = {sched_kind(WATCH_GROUPS), m->namespace, m->name};
    client_get(s->client, &key, calls_on_answer, calls_begin(s, group_read, g));
}
