// SPDX-License-Identifier: Apache-2.0
//
// dray why on a running cluster: asks its scheduler, or looks at it as a scheduler would, and shows what that says.
#include "cmd/why_cluster.h"

#include <stdio.h>

#include "cmd/cluster.h"
#include "cmd/local.h"
#include "cmd/verb.h"
#include "codec/json.h"
#include "sched/sched.h"

#include "base/banned.h"

// Why devices do not count, by the names of the explanation's rows.
static const struct {
    const char *row;
    const char *text;
} rows[] = {
    {"classRefused", "not of the class"},
    {"selectorRefused", "refused by the selector"},
    {"selectorFailed", "the selector fails on them"},
    {"nodeRefused", "placed on other nodes"},
    {"inUse", "in use"},
    {"capacityShort", "too little capacity left"},
    {"notSupported", "need what the node does not offer"},
    {"tainted", "tainted"},
    {"countersShort", "too little left of what they share"},
    {"attributeMissing", "lack an attribute that a constraint needs"},
};

static struct str text_of(const yyjson_val *v, const char *key)
{
    const yyjson_val *t = json_get(v, str_z(key));
    return t && json_is_string(t) ? json_str(t) : (struct str){0};
}

static int64_t number_of(const yyjson_val *v, const char *key)
{
    const yyjson_val *t = json_get(v, str_z(key));
    int64_t n = 0;
    if (t)
        (void)!json_to_i64(t, &n, NULL);
    return n;
}

static void show_reasons(const yyjson_val *request, const char *row)
{
    const yyjson_val *reasons = json_get(request, STR("reasons"));
    if (!reasons || !json_is_array(reasons))
        return;
    json_arr_foreach(reasons, r) {
        struct str what = text_of(r, "what");
        struct str needs = text_of(r, "needs");
        struct str error = text_of(r, "error");
        if (!str_eqz(text_of(r, "row"), row))
            continue;
        printf("          %lld: %.*s", (long long)number_of(r, "devices"),
               STR_ARG(what.n ? what : text_of(r, "claim")));
        if (needs.n)
            printf(": needs %.*s, at most %.*s left", STR_ARG(needs), STR_ARG(text_of(r, "has")));
        printf("%s%.*s\n", error.n ? ": " : "", STR_ARG(error));
    }
}

static void show_request(const yyjson_val *r)
{
    const yyjson_val *satisfied = json_get(r, STR("satisfied"));
    bool enough = false;
    if (satisfied)
        (void)!json_to_bool(satisfied, &enough, NULL);
    printf("    request %.*s of %.*s: wants %lld, %lld of %lld published devices are usable%s\n",
           STR_ARG(text_of(r, "request")), STR_ARG(text_of(r, "claim")),
           (long long)number_of(r, "wanted"), (long long)number_of(r, "usable"),
           (long long)number_of(r, "published"), enough ? " (enough)" : "");
    for (size_t i = 0; i < array_len(rows); i++) {
        int64_t n = number_of(r, rows[i].row);
        if (n == 0)
            continue;
        printf("      %lld %s\n", (long long)n, rows[i].text);
        show_reasons(r, rows[i].row);
    }
}

static void show_group(const yyjson_val *g)
{
    const yyjson_val *names = json_get(g, STR("names"));
    const yyjson_val *requests = json_get(g, STR("requests"));
    int64_t n = number_of(g, "nodes");
    size_t shown = 0;
    printf("  %lld node%s (", (long long)n, n == 1 ? "" : "s");
    if (names && json_is_array(names)) {
        json_arr_foreach(names, name) {
            if (shown++ < 3)
                printf("%s%.*s", shown > 1 ? ", " : "", STR_ARG(json_str(name)));
        }
    }
    struct str refused = text_of(g, "refused");
    printf("%s)%s%.*s\n", (int64_t)shown < n || shown > 3 ? ", …" : "", refused.n ? ": " : "",
           STR_ARG(refused));
    if (requests && json_is_array(requests)) {
        json_arr_foreach(requests, r)
            show_request(r);
    }
    const yyjson_val *conflicts = json_get(g, STR("conflicts"));
    if (conflicts && json_is_array(conflicts)) {
        json_arr_foreach(conflicts, c)
            printf("    %.*s\n", STR_ARG(text_of(c, "text")));
    }
    struct str pools = text_of(g, "pools");
    if (pools.n)
        printf("    %.*s\n", STR_ARG(pools));
}

static void show_remedies(const yyjson_val *now)
{
    const yyjson_val *remedies = json_get(json_get(now, STR("remedies")), STR("remedies"));
    if (!remedies || !json_is_array(remedies) || json_len(remedies) == 0)
        return;
    printf("would fit with\n");
    json_arr_foreach(remedies, r) {
        const yyjson_val *changes = json_get(r, STR("changes"));
        const char *before = "  - ";
        if (!changes || !json_is_array(changes))
            continue;
        json_arr_foreach(changes, c) {
            printf("%s%.*s", before, STR_ARG(text_of(c, "text")));
            before = " and ";
        }
        printf("   (on %.*s)\n", STR_ARG(text_of(r, "node")));
    }
}

static void show(const yyjson_val *root)
{
    struct str state = text_of(root, "state");
    struct str node = text_of(root, "node");
    printf("%.*s %.*s: %.*s%s%.*s\n", STR_ARG(text_of(root, "kind")),
           STR_ARG(text_of(root, "name")), STR_ARG(state), node.n ? " to " : "", STR_ARG(node));
    const yyjson_val *now = json_get(root, STR("now"));
    // What holds at this moment, else what the pod was told, else what gates it.
    struct str message = text_of(now ? now : root, now ? "summary" : "reason");
    if (!message.n)
        message = text_of(root, "message");
    if (!message.n)
        message = text_of(root, "gate");
    if (message.n > 0)
        printf("%.*s\n", STR_ARG(message));
    if (!now)
        return;
    const yyjson_val *groups = json_get(json_get(now, STR("report")), STR("groups"));
    if (groups && json_is_array(groups)) {
        json_arr_foreach(groups, g)
            show_group(g);
    }
    show_remedies(now);
}

// --- Whom to ask ---------------------------------------------------------------------------------

// ask_local asks the scheduler of a dray on this machine.
static int ask_local(const struct why_question *q, struct sbuf *answer, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0};
    cleanup_sbuf struct sbuf target = {0};
    local_socket(&path, q->socket, q->data_dir);
    sbuf_addz(&target, "/dray/explain?kind=");
    local_escape(&target, q->kind);
    sbuf_addz(&target, "&namespace=");
    local_escape(&target, q->namespace);
    sbuf_addz(&target, "&name=");
    local_escape(&target, q->name);
    return local_ask(path.p, "GET", target.p, answer, err);
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
        sbuf_add(out, text_of(json_get(doc.root, STR("spec")), "schedulerName"));
    return r;
}

static bool synced(void *arg)
{
    return sched_synced(arg);
}

// ask_cluster lets a scheduler of our own look at any cluster: it stands by, so nothing is written.
static int ask_cluster(const struct why_question *q, struct sbuf *answer, struct err *err)
{
    struct cluster c = {0};
    struct features features;
    struct sched *s = NULL;
    cleanup_sbuf struct sbuf name = {0};
    int r = cluster_open(&c, q->kubeconfig, q->context, err);
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
                                        .standby = true};
        s = sched_new(&o);
        sched_start(s);
        r = cluster_wait(&c, synced, s, err);
    }
    if (r == 0)
        r = sched_explain(s, q->kind, q->namespace, q->name, answer, err);
    sched_free(s);
    cluster_close(&c);
    return r;
}

int why_cluster(const struct why_question *q)
{
    cleanup_sbuf struct sbuf answer = {0};
    cleanup_json_doc struct json_doc doc = {0};
    struct err err = {0};
    bool remote = q->kubeconfig || q->context;
    int r = remote ? ask_cluster(q, &answer, &err) : ask_local(q, &answer, &err);
    if (r == 0 && !q->json)
        r = json_parse(sbuf_str(&answer), NULL, &doc, &err);
    if (r < 0) {
        (void)fprintf(stderr, "dray why: %s\n", err.msg);
        return r == -ERR_NOT_FOUND ? VERB_NO : VERB_USAGE;
    }
    if (q->json) {
        printf("%.*s\n", STR_ARG(sbuf_str(&answer)));
        return VERB_OK;
    }
    show(doc.root);
    return str_eq(text_of(doc.root, "state"), STR("unschedulable")) ? VERB_NO : VERB_OK;
}
