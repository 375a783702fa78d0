// SPDX-License-Identifier: Apache-2.0
//
// dray why on a running cluster: asks its scheduler, or looks at it as a scheduler would, and shows
// the answer.
#include "cmd/why/why_cluster.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "cmd/cluster.h"
#include "cmd/common.h"
#include "cmd/local.h"
#include "cmd/verb.h"
#include "cmd/why/why_fix.h"
#include "cmd/why/why_limited.h"
#include "cmd/why/why_object.h"
#include "cmd/why/why_show.h"
#include "codec/json.h"
#include "sched/sched.h"
#include "view/term.h"
#include "view/text.h"

#include "base/banned.h"

// --- Sources -------------------------------------------------------------------------------------

// events_target names the list of a pod's events, if the explanation lacks what they say.
static bool events_target(const struct why_question *q, const struct sbuf *answer,
                          struct sbuf *target)
{
    cleanup_json_doc struct json_doc doc = {0};
    if (json_parse(sbuf_str(answer), NULL, &doc, NULL) < 0 || !why_show_needs_events(doc.root))
        return false;
    sbuf_addz(target, "/api/v1/namespaces/");
    local_escape(target, q->namespace);
    sbuf_addz(target, "/events?fieldSelector=involvedObject.name%3D");
    local_escape(target, q->name);
    return true;
}

// A scheduler that has to evaluate costly selectors first wants to be asked again; it gets further
// each time.
#define ASK_AGAIN_MS 100
#define ASKS_MAX     600
#define SLICES_MAX   10000 // of a scheduler of our own

static int ask_until_known(const char *socket_path, const char *target, struct sbuf *answer,
                           struct err *err)
{
    int r = -ERR_UNAVAILABLE;
    for (int i = 0; i < ASKS_MAX && r == -ERR_UNAVAILABLE; i++) {
        if (i)
            (void)poll(NULL, 0, ASK_AGAIN_MS);
        r = local_request(socket_path, "GET", target, answer, err);
    }
    return r;
}

// ask_local asks the scheduler of a dray on this machine.
static int ask_local(struct why_question *q, struct sbuf *answer, struct sbuf *events,
                     struct err *err)
{
    cleanup_sbuf struct sbuf path = {0};
    cleanup_sbuf struct sbuf target = {0};
    if (!q->namespace.n)
        q->namespace = STR("default");
    local_socket(&path, q->socket, q->data_dir);
    sbuf_addz(&target, "/dray/explain?kind=");
    local_escape(&target, q->kind);
    sbuf_addz(&target, "&namespace=");
    local_escape(&target, q->namespace);
    sbuf_addz(&target, "&name=");
    local_escape(&target, q->name);
    int r = ask_until_known(path.p, target.p, answer, err);
    sbuf_clear(&target);
    if (r == 0 && events_target(q, answer, &target))
        (void)!local_request(path.p, "GET", target.p, events, NULL);
    return r;
}

// scheduler_of finds out who has to place a pod; empty when that is not known.
static int scheduler_of(struct cluster *c, const struct why_question *q, struct sbuf *out,
                        struct err *err)
{
    cleanup_sbuf struct sbuf target = {0}, body = {0};
    cleanup_json_doc struct json_doc doc = {0};
    if (!str_eqz(q->kind, "Pod"))
        return 0;
    sbuf_addz(&target, "/api/v1/namespaces/");
    local_escape(&target, q->namespace);
    sbuf_addz(&target, "/pods/");
    local_escape(&target, q->name);
    int r = cluster_get(c, target.p, &body, err);
    if (r == 0)
        r = json_parse(sbuf_str(&body), NULL, &doc, err);
    if (r == 0)
        sbuf_add(out, json_get_str(json_get(doc.root, STR("spec")), "schedulerName"));
    return r;
}

static bool why_cluster_is_synced(void *arg)
{
    return sched_synced(arg) || sched_is_forbidden(arg);
}

// ask_cluster lets a scheduler of our own look at any cluster: it stands by, so nothing is written.
static int ask_cluster(struct why_question *q, struct sbuf *answer, struct sbuf *events,
                       struct err *err)
{
    struct cluster c = {0};
    struct features features;
    struct sched *s = NULL;
    cleanup_sbuf struct sbuf name = {0};
    int r = common_open(&c, err);
    if (r == 0 && !q->namespace.n)
        q->namespace = arena_str(&q->arena, common_namespace(&c));
    if (r == 0)
        r = cluster_features(&c, &features, err);
    if (r == 0)
        r = scheduler_of(&c, q, &name, err);
    if (r == 0) {
        const struct str names[] = {sbuf_str(&name)};
        const struct sched_options o = {.client = c.client,
                                        .names = names,
                                        .names_len = name.n ? 1 : 0,
                                        .features = &features,
                                        .policy = ALLOC_PACK,
                                        .preemption = SCHED_PREEMPTION_OFF,
                                        .standby = true};
        s = sched_new(&o);
        sched_start(s);
        r = cluster_wait(&c, why_cluster_is_synced, s, err);
    }
    if (r == 0)
        r = sched_is_forbidden(s) ? -ERR_FORBIDDEN : -ERR_UNAVAILABLE;
    for (int i = 0; i < SLICES_MAX && r == -ERR_UNAVAILABLE; i++)
        r = sched_explain(s, q->kind, q->namespace, q->name, answer, err);
    sched_free(s);
    sbuf_clear(&name);
    if (r == 0 && events_target(q, answer, &name))
        (void)!cluster_get(&c, name.p, events, NULL);
    cluster_close(&c);
    return r;
}

// why_cluster_print shows a text for people: on a terminal no line is longer than that is wide.
static int why_cluster_print(const struct why_question *q, struct str text, struct err *err)
{
    enum view_when when = VIEW_AUTO;
    cleanup_sbuf struct sbuf out = {0};
    int r = view_when_parse(q->color, &when, err);
    if (r < 0)
        return r;
    struct view_term term = view_term_of(STDOUT_FILENO, when);
    view_add_wrapped(&out, text, term.tty ? term.columns : 0);
    return common_print(sbuf_str(&out), err);
}

static int show_answer(const struct why_question *q, const struct sbuf *answer, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    int r = json_parse(sbuf_str(answer), NULL, &doc, err);
    if (r < 0)
        return r;
    cleanup_sbuf struct sbuf text = {0};
    bool waits = why_show(doc.root, true, &text);
    r = why_cluster_print(q, sbuf_str(&text), err);
    return r < 0 ? r : waits ? VERB_NO : VERB_OK;
}

// --- Answers -------------------------------------------------------------------------------------

// The schedulers' kinds: those that wait for a node.
static bool is_of_scheduler(struct str kind)
{
    return str_eqz(kind, "Pod") || str_eqz(kind, "ResourceClaim") || str_eqz(kind, "PodGroup");
}

static int ask_scheduler(struct why_question *q, struct sbuf *answer, struct sbuf *events,
                         struct err *err)
{
    bool remote = q->kubeconfig || q->context || (q->any_cluster && !q->data_dir);
    int r = remote ? ask_cluster(q, answer, events, err) : ask_local(q, answer, events, err);
    if (r < 0 && !remote && q->any_cluster) {
        sbuf_clear(answer);
        sbuf_clear(events);
        r = ask_cluster(q, answer, events, err);
    }
    return r;
}

// A pod that has a node, or is over, is a matter of its node and not of the scheduler.
static bool is_placed(const struct sbuf *answer)
{
    cleanup_json_doc struct json_doc doc = {0};
    if (json_parse(sbuf_str(answer), NULL, &doc, NULL) < 0)
        return false;
    return str_eqz(json_get_str(doc.root, "kind"), "Pod") &&
           (str_eqz(json_get_str(doc.root, "state"), "bound") ||
            (str_eqz(json_get_str(doc.root, "state"), "notOurs") &&
             !json_get_str(doc.root, "cause").n));
}

// Without rights on the whole cluster, what the pod or claim itself says has to do.
static int ask_limited(struct why_source *s, const struct why_question *q, struct sbuf *answer,
                       struct err *err)
{
    bool whole = !is_of_scheduler(s->question->kind); // it is part of an answer
    int r = why_source_open(s, err);
    if (r == 0 && str_eqz(q->kind, "Pod"))
        r = why_object_life(s, q->namespace, q->name, answer, err);
    if (r < 0 || whole || (answer->n && !str_contains(sbuf_str(answer), STR("\"waiting\""))))
        return r;
    sbuf_clear(answer);
    if (s->question->fix)
        return err_set(err, ERR_FORBIDDEN,
                       "you may not read the whole cluster, so there are no remedies to carry out");
    r = why_limited(&s->cluster, q, err);
    s->verdict = r;
    return r < 0 ? r : 0;
}

int why_cluster_explain(struct why_source *s, struct str kind, struct str namespace,
                        struct str name, struct sbuf *answer, struct err *err)
{
    struct why_question q = *s->question;
    cleanup_sbuf struct sbuf events = {0};
    q.kind = kind;
    q.namespace = namespace;
    q.name = name;
    q.arena = (struct arena){0};
    int r = ask_scheduler(&q, answer, &events, err);
    struct str where = arena_str(&s->arena, q.namespace.n ? q.namespace : STR("default"));
    arena_done(&q.arena);
    q.namespace = where;
    if (r == -ERR_FORBIDDEN) {
        sbuf_clear(answer);
        return ask_limited(s, &q, answer, err);
    }
    if (r == 0 && !is_placed(answer))
        return why_object_add_events(sbuf_str(&events), where, answer);
    if (!str_eqz(kind, "Pod") || r == -ERR_NOT_FOUND)
        return r;
    struct err other = {0};
    cleanup_sbuf struct sbuf life = {0};
    int found = why_object_life(s, where, name, &life, &other);
    if (found < 0)
        return r < 0 ? r : 0; // what the scheduler knows has to do
    sbuf_clear(answer);
    sbuf_add(answer, sbuf_str(&life));
    return 0;
}

static int why_explain(struct why_source *s, struct sbuf *answer, struct err *err)
{
    const struct why_question *q = s->question;
    if (is_of_scheduler(q->kind))
        return why_cluster_explain(s, q->kind, q->namespace, q->name, answer, err);
    int r = why_source_open(s, err);
    if (r < 0)
        return r;
    struct str namespace = q->namespace.n ? q->namespace : common_namespace(&s->cluster);
    if (str_eqz(q->kind, "Device"))
        return why_device(s, q->name, answer, err);
    if (str_eqz(q->kind, "Node"))
        return why_node(s, q->name, answer, err);
    return why_workload(s, q->kind, namespace, q->name, answer, err);
}

static int why_carry_out(struct why_source *s, const struct sbuf *answer, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    int r = json_parse(sbuf_str(answer), NULL, &doc, err);
    if (r == 0)
        r = why_source_open(s, err);
    return r < 0 ? r : why_fix(&s->cluster, doc.root, s->question->fix, s->question->yes);
}

static int why_print_json(const struct sbuf *answer, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    int r = json_parse(sbuf_str(answer), NULL, &doc, err);
    cleanup_sbuf struct sbuf text = {0};
    if (r < 0)
        return r;
    printf("%.*s\n", STR_ARG(sbuf_str(answer)));
    return why_show(doc.root, true, &text) ? VERB_NO : VERB_OK;
}

int why_cluster(const struct why_question *asked)
{
    struct why_source s = {.question = asked};
    cleanup_sbuf struct sbuf answer = {0};
    struct err err = {0};
    int r = why_explain(&s, &answer, &err);
    if (r == 0 && !answer.n)
        r = s.verdict; // it is printed already
    else if (r == 0 && asked->fix)
        r = why_carry_out(&s, &answer, &err);
    else if (r == 0 && asked->json)
        r = why_print_json(&answer, &err);
    else if (r == 0)
        r = show_answer(asked, &answer, &err);
    cluster_close(&s.cluster);
    arena_done(&s.arena);
    if (r >= 0)
        return r;
    (void)fprintf(stderr, "dray why: %s\n", err.msg);
    return VERB_NO;
}
