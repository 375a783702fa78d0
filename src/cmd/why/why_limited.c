// SPDX-License-Identifier: Apache-2.0
//
// The answer of dray why without rights on nodes, slices and classes: the cluster's own scheduler
// has left its reason in the object's status, which the user may read.
#include "cmd/why/why_limited.h"

#include <stdio.h>

#include "cmd/common.h"
#include "cmd/local.h"
#include "cmd/verb.h"
#include "codec/json.h"
#include "codec/json_writer.h"
#include "view/text.h"

#include "base/banned.h"

// What an answer about every node and device is made from.
static const struct {
    const char *name, *target;
} why_limited_lists[] = {
    {"nodes", "/api/v1/nodes"},
    {"pods", "/api/v1/pods"},
    {"namespaces", "/api/v1/namespaces"},
    {"deviceclasses", "/apis/resource.k8s.io/v1/deviceclasses"},
    {"resourceslices", "/apis/resource.k8s.io/v1/resourceslices"},
    {"resourceclaims", "/apis/resource.k8s.io/v1/resourceclaims"},
    {"resourceclaimtemplates", "/apis/resource.k8s.io/v1/resourceclaimtemplates"},
    {"devicetaintrules", "/apis/resource.k8s.io/v1/devicetaintrules"},
};

struct limited_answer {
    struct sbuf reason;    // why it waits; empty: it does not
    struct sbuf state;     // "waits", "is bound to NODE", …
    struct sbuf forbidden; // lists, by commas
    bool waits;
};

static void why_limited_find_forbidden(struct cluster *c, struct sbuf *out)
{
    for (size_t i = 0; i < array_len(why_limited_lists); i++) {
        cleanup_sbuf struct sbuf target = {0}, body = {0};
        struct err why = {0};
        sbuf_addf(&target, "%s?limit=1", why_limited_lists[i].target);
        if (cluster_get(c, target.p, &body, &why) == -ERR_FORBIDDEN)
            sbuf_addf(out, "%s%s", out->n ? ", " : "", why_limited_lists[i].name);
    }
}

static const yyjson_val *why_limited_condition(const yyjson_val *status, const char *type)
{
    const yyjson_val *all = json_get(status, STR("conditions"));
    if (!all || !json_is_array(all))
        return NULL;
    json_arr_foreach(all, c)
        if (str_eqz(json_get_str(c, "type"), type))
            return c;
    return NULL;
}

static void why_limited_read_pod(const yyjson_val *pod, struct limited_answer *ret)
{
    const yyjson_val *status = json_get(pod, STR("status"));
    const yyjson_val *condition = why_limited_condition(status, "PodScheduled");
    struct str node = json_get_str(json_get(pod, STR("spec")), "nodeName");
    struct str phase = json_get_str(status, "phase");
    ret->waits = node.n == 0;
    if (node.n)
        sbuf_addf(&ret->state, "is bound to %.*s, phase %.*s", STR_ARG(node), STR_ARG(phase));
    else
        sbuf_addz(&ret->state, "waits");
    if (ret->waits && condition)
        sbuf_add(&ret->reason, json_get_str(condition, "message"));
    else if (ret->waits)
        sbuf_addz(&ret->reason, "no scheduler has reported a reason yet");
}

static void why_limited_read_claim(const yyjson_val *claim, struct limited_answer *ret)
{
    const yyjson_val *status = json_get(claim, STR("status"));
    bool allocated = json_get(status, STR("allocation")) != NULL;
    const yyjson_val *reserved = json_get(status, STR("reservedFor"));
    size_t users = reserved && json_is_array(reserved) ? json_len(reserved) : 0;
    ret->waits = !allocated;
    if (allocated)
        sbuf_addf(&ret->state, "is allocated and used by %zu pod%s", users, users == 1 ? "" : "s");
    else
        sbuf_addz(&ret->state, "waits");
    if (!allocated)
        sbuf_addz(&ret->reason, "it is not allocated; the reason is in the status of its pod: "
                                "'dray why POD'");
}

static int why_limited_read(struct cluster *c, const struct why_question *q,
                            struct limited_answer *ret, struct err *err)
{
    cleanup_sbuf struct sbuf target = {0}, body = {0};
    cleanup_json_doc struct json_doc doc = {0};
    bool pod = str_eqz(q->kind, "Pod");
    if (!pod && !str_eqz(q->kind, "ResourceClaim"))
        return err_set(err, ERR_FORBIDDEN,
                       "you may not list %.*s, so there is no answer about a %.*s; an "
                       "administrator can run 'dray why'",
                       STR_ARG(sbuf_str(&ret->forbidden)), STR_ARG(q->kind));
    sbuf_addz(&target, pod ? "/api/v1/namespaces/" : "/apis/resource.k8s.io/v1/namespaces/");
    local_escape(&target, q->namespace);
    sbuf_addz(&target, pod ? "/pods/" : "/resourceclaims/");
    local_escape(&target, q->name);
    int r = cluster_get(c, target.p, &body, err);
    if (r == 0)
        r = json_parse(sbuf_str(&body), NULL, &doc, err);
    if (r == 0 && pod)
        why_limited_read_pod(doc.root, ret);
    else if (r == 0)
        why_limited_read_claim(doc.root, ret);
    return r;
}

static void why_limited_write_json(const struct why_question *q, const struct limited_answer *a,
                                   struct sbuf *out)
{
    struct json_writer w = {.out = out};
    json_write_object_begin(&w);
    json_write_text(&w, "kind", q->kind);
    json_write_text(&w, "namespace", q->namespace);
    json_write_text(&w, "name", q->name);
    json_write_text(&w, "state", a->waits ? STR("waiting") : STR("placed"));
    json_write_text(&w, "reason", sbuf_str(&a->reason));
    json_write_array_in(&w, "forbidden");
    for (struct str rest = sbuf_str(&a->forbidden), one; rest.n;) {
        (void)str_cut(rest, ',', &one, &rest);
        json_write_str(&w, str_trim(one));
    }
    json_write_array_end(&w);
    json_write_object_end(&w);
    sbuf_addc(out, '\n');
}

static void why_limited_write_text(const struct why_question *q, const struct limited_answer *a,
                                   struct sbuf *out)
{
    sbuf_addf(out, "%s %.*s/%.*s %s", str_eqz(q->kind, "Pod") ? "Pod" : "Claim",
              STR_ARG(q->namespace), STR_ARG(q->name), a->state.p);
    if (a->reason.n)
        sbuf_addf(out, ": %s", a->reason.p);
    sbuf_addf(out,
              "\nYou may not list %s in the whole cluster: this is what the object's own status "
              "says. For each node's answer, ask an administrator to run '%s why %.*s%.*s/%.*s'.\n",
              a->forbidden.p, "dray", STR_ARG(str_eqz(q->kind, "Pod") ? STR("") : STR("claim/")),
              STR_ARG(q->namespace), STR_ARG(q->name));
}

int why_limited(struct cluster *c, const struct why_question *q, struct err *err)
{
    struct limited_answer a = {0};
    cleanup_sbuf struct sbuf out = {0};
    why_limited_find_forbidden(c, &a.forbidden);
    int r = why_limited_read(c, q, &a, err);
    if (r == 0 && q->json)
        why_limited_write_json(q, &a, &out);
    else if (r == 0)
        why_limited_write_text(q, &a, &out);
    if (r == 0)
        r = common_print(sbuf_str(&out), err);
    sbuf_done(&a.reason);
    sbuf_done(&a.state);
    sbuf_done(&a.forbidden);
    return r < 0 ? r : a.waits ? VERB_NO : VERB_OK;
}
