// SPDX-License-Identifier: Apache-2.0
//
// Turns on the loop: which flow a request belongs to, what it is likely to cost, when it is served.
#include "server/flow/flow.h"

#include <assert.h>

#include "server/auth/access.h"

#include "base/banned.h"

// How long requests are served as they come before the others at the door are looked at, and then
// how long those who wait are served before sockets are read again.
#define AT_ONCE_NS CLOCK_NS_PER_MS
#define SLICE_NS   (2 * CLOCK_NS_PER_MS)
#define WINDOW_NS  (5 * CLOCK_NS_PER_MS)

// What requests take, measured on a common machine; the order of magnitude matters, not the digits.
#define COST_READ_NS      20000
#define COST_WRITE_NS     90000
#define COST_DOCUMENT_NS  100000
#define COST_OBJECT_NS    1500 // of a list
#define COST_BODY_BYTE_NS 20

// Levels and their shares are those of schema/cluster.yaml.
#define USER_SEATS   200
#define USER_WAITING 300

enum level {
    LEVEL_EXEMPT,
    LEVEL_LEADERS,
    LEVEL_NODES_HIGH,
    LEVEL_SYSTEM,
    LEVEL_WORKLOAD_HIGH,
    LEVEL_WORKLOAD_LOW,
    LEVEL_DEFAULT,
    LEVEL_CATCH_ALL,
};

static const struct fair_level levels[] = {
    [LEVEL_EXEMPT] = {STR_INIT("exempt"), 1000, 0, 0},
    [LEVEL_LEADERS] = {STR_INIT("leader-election"), 10, USER_SEATS, USER_WAITING},
    [LEVEL_NODES_HIGH] = {STR_INIT("node-high"), 40, USER_SEATS, USER_WAITING},
    [LEVEL_SYSTEM] = {STR_INIT("system"), 30, USER_SEATS, USER_WAITING},
    [LEVEL_WORKLOAD_HIGH] = {STR_INIT("workload-high"), 40, USER_SEATS, USER_WAITING},
    [LEVEL_WORKLOAD_LOW] = {STR_INIT("workload-low"), 100, USER_SEATS, USER_WAITING},
    [LEVEL_DEFAULT] = {STR_INIT("global-default"), 20, USER_SEATS, USER_WAITING},
    [LEVEL_CATCH_ALL] = {STR_INIT("catch-all"), 5, USER_SEATS, USER_WAITING},
};

static bool flow_in_group(const struct registry_user *u, const char *group)
{
    for (size_t i = 0; i < u->groups_len; i++)
        if (str_eqz(u->groups[i], group))
            return true;
    return false;
}

// is_lease: the little requests by which leaders and nodes stay what they are.
static bool is_lease(const struct exchange *ex)
{
    const struct catalog_resource *r = ex->route.resource;
    return r && str_eqz(r->kind->group, "coordination.k8s.io") &&
           (ex->verb == VERB_GET || ex->verb == VERB_CREATE || ex->verb == VERB_UPDATE);
}

static bool is_node_object(const struct exchange *ex)
{
    const struct catalog_resource *r = ex->route.resource;
    return r && r->kind->type == &api_node_type;
}

static enum level level_of(const struct exchange *ex)
{
    const struct registry_user *u = &ex->user;
    if (authz_is_master(u))
        return LEVEL_EXEMPT;
    bool component = str_eqz(u->name, "system:kube-controller-manager") ||
                     str_eqz(u->name, "system:kube-scheduler") ||
                     str_starts(u->name, STR("system:serviceaccount:kube-system:"));
    if (component)
        return is_lease(ex) ? LEVEL_LEADERS : LEVEL_WORKLOAD_HIGH;
    if (flow_in_group(u, "system:nodes"))
        return is_lease(ex) || is_node_object(ex) ? LEVEL_NODES_HIGH : LEVEL_SYSTEM;
    if (flow_in_group(u, "system:serviceaccounts"))
        return LEVEL_WORKLOAD_LOW;
    return flow_in_group(u, "system:authenticated") ? LEVEL_DEFAULT : LEVEL_CATCH_ALL;
}

static int64_t flow_estimate_cost(const struct exchange *ex)
{
    const struct route *r = &ex->route;
    if (r->type != ROUTE_RESOURCE)
        return COST_DOCUMENT_NS;
    if (ex->verb == VERB_GET)
        return COST_READ_NS;
    int64_t cost = ex->verb == VERB_LIST || ex->verb == VERB_WATCH ? COST_READ_NS : COST_WRITE_NS;
    if (ex->verb == VERB_LIST || ex->verb == VERB_DELETE_COLLECTION ||
        (ex->verb == VERB_WATCH && query_bool(&ex->query, STR("sendInitialEvents")))) {
        size_t n = store_count(ex->s->store, registry_stored_kind(r->resource->kind), r->namespace);
        cost += (int64_t)n * COST_OBJECT_NS;
    }
    return cost + (int64_t)ex->q->body.n * COST_BODY_BYTE_NS;
}

// --- Running -------------------------------------------------------------------------------------

static void flow_run_exchange(struct exchange *ex)
{
    struct server *s = ex->s;
    int64_t start = exec_now_ns(s->exec);
    fair_charge(&ex->fair, flow_estimate_cost(ex));
    ex->serve(ex);
    s->turns.spent_ns += exec_now_ns(s->exec) - start;
}

static void take_turns(void *arg);

static void post_turns(struct server *s)
{
    if (s->turns.posted)
        return;
    s->turns.posted = true;
    exec_post(s->exec, take_turns, s);
}

static void begin_turn(struct server *s, int64_t now_ns)
{
    s->turns.started_ns = now_ns;
    s->turns.spent_ns = 0;
}

static void take_turns(void *arg)
{
    struct server *s = arg;
    struct fair_item *item = NULL;
    s->turns.posted = false;
    begin_turn(s, exec_now_ns(s->exec));
    while (s->turns.spent_ns < SLICE_NS && (item = fair_next(&s->turns.fair))) {
        struct exchange *ex = container_of(item, struct exchange, fair);
        ex->q->closed = NULL;
        flow_run_exchange(ex);
    }
    s->turns.spent_ns = 0;
    if (item && fair_waiting(&s->turns.fair))
        post_turns(s);
}

static void waiting_closed(void *arg)
{
    struct exchange *ex = arg;
    ex->q = NULL;
    exchange_end(ex, 499);
}

static void send_away(struct exchange *ex)
{
    struct api_status_details *d = arena_one(&ex->arena, struct api_status_details);
    d->retry_after_seconds = 1;
    ex->s->turns.sent_away++;
    answer_fail(ex, 429, "TooManyRequests",
                STR("too many requests of this user are waiting, please try again later"), d);
}

void flow_admit(struct exchange *ex, void (*serve)(struct exchange *ex))
{
    struct server *s = ex->s;
    int64_t now_ns = ex->started_ns;
    struct fair_node *flow =
        fair_flow(&s->turns.fair, &levels[level_of(ex)], ex->user.name, ex->route.namespace);
    if (now_ns - s->turns.started_ns > WINDOW_NS && !s->turns.posted)
        begin_turn(s, now_ns);
    ex->serve = serve;
    if (fair_waiting(&s->turns.fair) == 0 && s->turns.spent_ns < AT_ONCE_NS && fair_may_run(flow)) {
        fair_run(flow, &ex->fair);
        flow_run_exchange(ex);
        return;
    }
    if (!fair_wait(flow, &ex->fair)) {
        send_away(ex);
        return;
    }
    ex->q->closed = waiting_closed;
    ex->q->arg = ex;
    post_turns(s);
}

void flow_release(struct exchange *ex)
{
    struct server *s = ex->s;
    if (!ex->fair.flow)
        return;
    fair_leave(&ex->fair);
    if (fair_waiting(&s->turns.fair))
        post_turns(s);
}

void flow_metrics(const struct server *s, struct sbuf *out)
{
    metrics_gauge(out, "apiserver_flowcontrol_current_executing_requests",
                  "Requests that have a seat.", s->turns.fair.root.seats);
    metrics_gauge(out, "apiserver_flowcontrol_current_inqueue_requests",
                  "Requests that wait for their turn.", s->turns.fair.root.waiting);
    metrics_counter(out, "apiserver_flowcontrol_rejected_requests_total",
                    "Requests that were sent away because too many waited.", s->turns.sent_away);
}
