// SPDX-License-Identifier: Apache-2.0
//
// What a scheduler says of a pod or claim, for people: the cause in the first line, then what would help, then the nodes.
#include "cmd/why_show.h"

#include <stdio.h>

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

static size_t count_reasons(const yyjson_val *reasons, const char *row)
{
    size_t n = 0;
    json_arr_foreach(reasons, r)
        n += str_eqz(text_of(r, "row"), row);
    return n;
}

static void show_reason(const yyjson_val *r)
{
    struct str what = text_of(r, "what");
    struct str needs = text_of(r, "needs");
    struct str error = text_of(r, "error");
    printf("%.*s", STR_ARG(what.n ? what : text_of(r, "claim")));
    if (needs.n)
        printf(": needs %.*s, at most %.*s left", STR_ARG(needs), STR_ARG(text_of(r, "has")));
    printf("%s%.*s\n", error.n ? ": " : "", STR_ARG(error));
}

// A row has its reason beside it, or several below.
static void show_row(const yyjson_val *request, const char *row, const char *text)
{
    const yyjson_val *reasons = json_get(request, STR("reasons"));
    bool list = reasons && json_is_array(reasons);
    size_t n = list ? count_reasons(reasons, row) : 0;
    printf("      %lld %s%s", (long long)number_of(request, row), text, n == 1 ? ": " : "\n");
    if (n == 0)
        return;
    json_arr_foreach(reasons, r) {
        if (!str_eqz(text_of(r, "row"), row))
            continue;
        if (n > 1)
            printf("          %lld: ", (long long)number_of(r, "devices"));
        show_reason(r);
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
    for (size_t i = 0; i < array_len(rows); i++)
        if (number_of(r, rows[i].row) != 0)
            show_row(r, rows[i].row, rows[i].text);
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

static void show_changes(const yyjson_val *remedy)
{
    const yyjson_val *changes = json_get(remedy, STR("changes"));
    const char *before = "  - ";
    bool node_added = false;
    if (!changes || !json_is_array(changes))
        return;
    json_arr_foreach(changes, c) {
        printf("%s%.*s", before, STR_ARG(text_of(c, "text")));
        before = " and ";
        node_added |= str_eqz(text_of(c, "kind"), "nodeAdded");
    }
    if (node_added)
        printf("\n");
    else
        printf("   (on %.*s)\n", STR_ARG(text_of(remedy, "node")));
}

static void show_help(const yyjson_val *root, const struct why_event *event)
{
    const yyjson_val *now = json_get(root, STR("now"));
    const yyjson_val *remedies = json_get(json_get(now, STR("remedies")), STR("remedies"));
    const yyjson_val *advice = json_get(root, STR("advice"));
    bool tips = advice && json_is_array(advice) && json_len(advice) > 0;
    if (tips || event->advice.n)
        printf("What would help\n");
    if (event->advice.n)
        printf("  - %s\n", event->advice.p);
    if (tips)
        json_arr_foreach(advice, line)
            printf("  - %.*s\n", STR_ARG(json_str(line)));
    if (remedies && json_is_array(remedies) && json_len(remedies) > 0) {
        printf("It would fit with\n");
        json_arr_foreach(remedies, r)
            show_changes(r);
    }
}

static void show_groups(const yyjson_val *report)
{
    const yyjson_val *groups = json_get(report, STR("groups"));
    if (!groups || !json_is_array(groups))
        return;
    printf("Nodes\n");
    json_arr_foreach(groups, g)
        show_group(g);
}

static bool show_pod(const yyjson_val *root, const struct why_event *event)
{
    struct str node = text_of(root, "node");
    struct str cause = event->cause.n ? event->cause : text_of(root, "cause");
    if (!cause.n)
        cause = text_of(root, "gate");
    printf("Pod %.*s ", STR_ARG(text_of(root, "name")));
    if (!cause.n) {
        printf("is %.*s%s%.*s\n", STR_ARG(text_of(root, "state")), node.n ? " to " : "",
               STR_ARG(node));
        return false;
    }
    printf("waits: %.*s\n", STR_ARG(cause));
    show_help(root, event);
    show_groups(json_get(json_get(root, STR("now")), STR("report")));
    return true;
}

// --- Claims --------------------------------------------------------------------------------------

static void show_devices(const yyjson_val *allocation)
{
    const yyjson_val *results = json_get(json_get(allocation, STR("devices")), STR("results"));
    if (!results || !json_is_array(results))
        return;
    json_arr_foreach(results, r)
        printf("  %.*s: %.*s/%.*s/%.*s\n", STR_ARG(text_of(r, "request")),
               STR_ARG(text_of(r, "driver")), STR_ARG(text_of(r, "pool")),
               STR_ARG(text_of(r, "device")));
}

static bool show_unused(const yyjson_val *root)
{
    int64_t fits = number_of(root, "nodesThatFit");
    printf("no pod uses it; a claim gets its devices when a pod with it gets its node\n");
    if (fits)
        printf("%lld node%s could give them now\n", (long long)fits, fits == 1 ? "" : "s");
    show_groups(json_get(root, STR("report")));
    return fits == 0;
}

static bool show_claim(const yyjson_val *root, const struct why_event *event)
{
    const yyjson_val *pods = json_get(root, STR("pods"));
    const yyjson_val *allocation = json_get(root, STR("allocation"));
    bool waits = false;
    printf("ResourceClaim %.*s is %.*s: ", STR_ARG(text_of(root, "name")),
           STR_ARG(text_of(root, "state")));
    if (allocation) {
        printf("it has its devices\n");
        show_devices(allocation);
    } else if (!pods || !json_is_array(pods) || json_len(pods) == 0) {
        return show_unused(root);
    } else {
        waits = true;
        json_arr_foreach(pods, p) {
            struct str cause = text_of(p, "cause");
            printf("%.*s\n", STR_ARG(cause.n ? cause : STR("its pod has not been tried yet")));
            break;
        }
    }
    if (pods && json_is_array(pods))
        json_arr_foreach(pods, p)
            (void)!show_pod(p, event);
    return waits;
}

bool why_show(const yyjson_val *root, const struct why_event *event)
{
    return str_eqz(text_of(root, "kind"), "ResourceClaim") ? show_claim(root, event)
                                                           : show_pod(root, event);
}

// --- Events --------------------------------------------------------------------------------------

bool why_needs_events(const yyjson_val *root)
{
    return str_eqz(text_of(root, "state"), "gated") &&
           str_contains(text_of(root, "cause"), STR("ResourceClaim not created yet")) &&
           !str_contains(text_of(root, "cause"), STR("does not exist"));
}

static void advise(struct str cause, struct str namespace, struct sbuf *out)
{
    if (str_contains(cause, STR("exceeded quota")))
        sbuf_addf(
            out,
            "raise the quota, or delete claims that count: kubectl describe resourcequota -n %.*s",
            STR_ARG(namespace));
    else if (str_contains(cause, STR("admin")))
        sbuf_addf(out,
                  "allow admin access there: kubectl label namespace %.*s "
                  "resource.kubernetes.io/admin-access=true",
                  STR_ARG(namespace));
    else
        sbuf_addz(out, "change what is refused: the claim is tried again by itself");
}

void why_read_events(const yyjson_val *list, struct str namespace, struct why_event *ret)
{
    const yyjson_val *items = json_get(list, STR("items"));
    struct str newest = {0};
    if (!items || !json_is_array(items))
        return;
    json_arr_foreach(items, e) {
        struct str at = text_of(e, "lastTimestamp");
        if (!str_eqz(text_of(e, "reason"), "FailedResourceClaimCreation") ||
            str_cmp(at, newest) < 0)
            continue;
        newest = at;
        ret->cause = text_of(e, "message");
    }
    if (ret->cause.n)
        advise(ret->cause, namespace, &ret->advice);
}
