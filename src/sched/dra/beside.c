// SPDX-License-Identifier: Apache-2.0
//
// Beside another scheduler that gives away the same devices. kube-scheduler does not look whether a
// device was given to somebody else while it was on its way to write, and forgets that one of its
// own holds a device when another claim for it is released. So a collision cannot be repaired, only
// avoided: while it has pods with claims to place we leave it the field, for a while; afterwards
// few pods are on their way at a time, each waits before its Binding for as long as a few writes
// take here, and gives way to what has come meanwhile (bind.c: stands).
//
// Two of ours need none of this: each looks before it binds (docs/design/scheduler.md, "Several
// schedulers").
#include "api/match/claim.h"
#include "sched/dra/dra_int.h"

#include "base/banned.h"

#define HOLD_MAX_NS   (10 * CLOCK_NS_PER_SEC) // then it is our turn, even if others have work
#define OURS_NS       CLOCK_NS_PER_SEC
#define LOOK_NS       (50 * CLOCK_NS_PER_MS)
#define REMEMBER_NS   (60 * CLOCK_NS_PER_SEC) // after the last pod of another scheduler
#define ROOM          8                       // pods on their way
#define SETTLE_WRITES 6                       // what another may need for its own
#define SETTLE_MAX_NS (3 * CLOCK_NS_PER_SEC)

static bool beside_gave_up(const struct api_pod *pod)
{
    for (size_t i = 0; i < pod->status.conditions.n; i++)
        if (str_eqz(pod->status.conditions.p[i].type, "PodScheduled"))
            return str_eqz(pod->status.conditions.p[i].status, "False");
    return false;
}

// Another scheduler is to give the pod devices.
static bool beside_is_foreign_claim(const struct sched *s, const struct api_pod *pod)
{
    return pod->spec.resource_claims.n && !pod->spec.node_name.n &&
           !pod->metadata.deletion_timestamp.set && !pod_is_terminal(pod) && !sched_is_mine(s, pod);
}

static void beside_set_state(struct sched *s, struct sched_pod *p, bool waits, bool tried)
{
    struct beside *b = &s->beside;
    b->waiting += waits;
    b->waiting -= p->anothers_waits;
    p->anothers_waits = waits;
    b->trying += tried;
    b->trying -= p->anothers;
    if (tried || p->anothers) {
        b->seen = true;
        b->seen_ns = exec_now_ns(s->exec);
    }
    p->anothers = tried;
}

void beside_pod(struct sched *s, struct sched_pod *p)
{
    bool anothers = beside_is_foreign_claim(s, p->api);
    beside_set_state(s, p, anothers, anothers && !beside_gave_up(p->api));
}

void beside_gone(struct sched *s, struct sched_pod *p)
{
    beside_set_state(s, p, false, false);
}

void beside_freed(struct sched *s)
{
    if (!s->beside.waiting)
        return;
    s->beside.seen = true;
    s->beside.seen_ns = exec_now_ns(s->exec);
}

static bool beside_is_remembered(const struct sched *s)
{
    const struct beside *b = &s->beside;
    return b->settle_ns && b->seen &&
           (b->trying || exec_now_ns(s->exec) - b->seen_ns < REMEMBER_NS);
}

// Whose turn it is: true, others'.
static bool beside_is_foreign_pod(struct sched *s)
{
    struct beside *b = &s->beside;
    int64_t now = exec_now_ns(s->exec);
    if (!b->trying && now - b->seen_ns >= beside_settle_ns(s)) { // its last claims have come
        b->holding_ns = 0;
        return false;
    }
    if (!b->holding_ns || now - b->holding_ns > HOLD_MAX_NS + OURS_NS)
        b->holding_ns = now;
    return now - b->holding_ns < HOLD_MAX_NS;
}

int64_t beside_wait_ns(struct sched *s)
{
    const struct sched_pod *next = queue_peek(&s->queue);
    if (!next || !next->api->spec.resource_claims.n || !beside_is_remembered(s))
        return 0;
    return beside_is_foreign_pod(s) || s->queue.binding_len >= ROOM ? LOOK_NS : 0;
}

void beside_wrote(struct sched *s, int64_t took_ns)
{
    int64_t slowest_ns = s->beside.write_ns - s->beside.write_ns / 8;
    s->beside.write_ns = took_ns > slowest_ns ? took_ns : slowest_ns;
}

int64_t beside_settle_ns(const struct sched *s)
{
    const struct beside *b = &s->beside;
    int64_t wait_ns = b->write_ns * SETTLE_WRITES;
    if (!beside_is_remembered(s))
        return 0;
    wait_ns = wait_ns < SETTLE_MAX_NS ? wait_ns : SETTLE_MAX_NS;
    return wait_ns > b->settle_ns ? wait_ns : b->settle_ns;
}
