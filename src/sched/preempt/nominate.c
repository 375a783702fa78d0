// SPDX-License-Identifier: Apache-2.0
//
// Nominations: the node that a pod waits for. They are in the API (status.nominatedNodeName), so
// that they survive a restart, and in memory from the decision on.
#include "sched/bind/bind.h"
#include "sched/preempt/preempt_int.h"

#include "base/banned.h"

void nominate_write(struct sched *s, const struct sched_pod *p, struct str node, struct call *call)
{
    const struct api_object_meta *m = &p->api->metadata;
    struct client_key key = {sched_kind(WATCH_PODS), m->namespace, m->name};
    cleanup_sbuf struct sbuf body = {0};
    sbuf_addz(&body, "{\"metadata\":{\"uid\":");
    sbuf_add_json_str(&body, m->uid, false);
    sbuf_addz(&body, "},\"status\":{\"nominatedNodeName\":");
    if (node.n)
        sbuf_add_json_str(&body, node, false);
    else
        sbuf_addz(&body, "null");
    sbuf_addz(&body, "}}");
    client_patch(s->client, &key, CLIENT_PATCH_STRATEGIC, sbuf_str(&body),
                 &(struct client_write){.subresource = STR("status")}, calls_on_answer, call);
}

// What a nomination kept from others is free for them.
static void nominate_end(struct sched *s, struct sched_pod *p)
{
    if (!p->on.nominated.node)
        return;
    cluster_nominate(&s->cluster, p, (struct str){0});
    sched_wake(s, sched_room_whys(p));
}

void preempt_pod_changed(struct sched *s, struct sched_pod *p)
{
    struct pod_nomination *n = &p->on.nominated;
    struct str node = p->api->status.nominated_node_name;
    if (!sched_is_mine(s, p->api)) {
        cluster_nominate(&s->cluster, p, (struct str){0}); // bound, or going
        return;
    }
    if (n->writing || p->object->revision < n->revision)
        return; // an older version
    if (node.n)
        cluster_nominate(&s->cluster, p, node);
    else
        nominate_end(s, p);
}

static void nominate_on_cleared(struct sched *s, void *arg, const struct client_answer *answer)
{
    struct sched_pod *p = cluster_pod(&s->cluster, str_z(arg));
    struct pod_nomination *n = p ? &p->on.nominated : NULL;
    if (!n || !n->writing)
        return; // another pod by now
    if (answer->code < 0 && answer->code != -ERR_NOT_FOUND && answer->code != -ERR_CONFLICT) {
        n->failed = true; // until it is stored the API's version does not count
        if (!exec_timer_armed(&s->preempt.again_timer))
            exec_timer_start(s->exec, &s->preempt.again_timer, CLOCK_NS_PER_SEC);
        return;
    }
    n->writing = false;
    if (answer->object && str_eq(answer->object->meta->uid, p->api->metadata.uid))
        n->revision = answer->object->revision;
    preempt_pod_changed(s, p);
}

void nominate_write_end(struct sched *s, struct sched_pod *p)
{
    char *whose = xstrndup(p->key.p, p->key.n);
    struct call *call = calls_begin(s, nominate_on_cleared, whose);
    call->owned = whose;
    p->on.nominated.writing = true;
    p->on.nominated.failed = false;
    nominate_write(s, p, (struct str){0}, call);
}

void nominate_write_again(void *arg)
{
    struct sched *s = arg;
    map_foreach(&s->cluster.pods, i) {
        struct sched_pod *p = *map_value(&s->cluster.pods, i);
        if (p->on.nominated.failed)
            nominate_write_end(s, p);
    }
}

void preempt_clear(struct sched *s, struct sched_pod *p)
{
    bool stored =
        p->api->status.nominated_node_name.n > 0 && p->object->revision >= p->on.nominated.revision;
    nominate_end(s, p);
    if (stored && !p->on.nominated.writing)
        nominate_write_end(s, p);
}

void nominate_displace(struct sched *s, const struct sched_pod *p)
{
    struct sched_node *n = p->on.nominated.node;
    list_foreach(&n->nominated, node) {
        struct sched_pod *other = list_entry(node, struct sched_pod, on.nominated.by_node);
        if (other->queue.priority >= p->queue.priority)
            continue;
        preempt_clear(s, other);
        if (other->state == POD_WAITING)
            queue_retry(&s->queue, other);
    }
}

void preempt_node_gone(struct sched *s, struct str name)
{
    struct sched_node **n = map_get(&s->cluster.nodes, name);
    if (!n || s->standby)
        return;
    while (!list_empty(&(*n)->nominated)) {
        struct list_node *first = (*n)->nominated.head.next;
        struct sched_pod *p = list_entry(first, struct sched_pod, on.nominated.by_node);
        bool last = first->next == &(*n)->nominated.head;
        preempt_clear(s, p);
        if (p->state == POD_WAITING)
            queue_retry(&s->queue, p);
        if (last)
            return; // the node is forgotten with it
    }
}

void preempt_room(struct sched *s, struct sched_node *n)
{
    list_foreach(&n->nominated, node) {
        struct sched_pod *p = list_entry(node, struct sched_pod, on.nominated.by_node);
        if ((p->state == POD_WAITING || p->state == POD_BACKOFF) && !preempt_is_ending(p))
            queue_activate(&s->queue, p);
    }
}
