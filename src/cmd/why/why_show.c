// SPDX-License-Identifier: Apache-2.0
//
// A scheduler's explanation of a pod or claim, for people: the cause in the first line, then what
// would help, then the nodes.
#include "cmd/why/why_show.h"

#include "base/banned.h"

#define HOLDERS_SHOWN  8
#define REMEDIES_SHOWN 6

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
    {"capacityShort", "without the capacity"},
    {"notSupported", "need what the node does not offer"},
    {"tainted", "tainted"},
    {"countersShort", "too little left of what they share"},
    {"attributeMissing", "lack an attribute that a constraint needs"},
};

static int64_t why_show_get_number(const yyjson_val *v, const char *key)
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
        n += str_eqz(json_get_str(r, "row"), row);
    return n;
}

static void show_reason(struct sbuf *out, const yyjson_val *r)
{
    struct str what = json_get_str(r, "what");
    struct str needs = json_get_str(r, "needs");
    struct str error = json_get_str(r, "error");
    sbuf_addf(out, "%.*s", STR_ARG(what.n ? what : json_get_str(r, "claim")));
    struct str shortage = json_get_str(r, "shortage");
    bool policy = str_eqz(shortage, "policy");
    if (str_eqz(shortage, "unknown"))
        sbuf_addz(out, ": they have no such capacity");
    if (needs.n)
        sbuf_addf(out,
                  policy ? ": needs %.*s, the policy allows at most %.*s"
                         : ": needs %.*s, at most %.*s left",
                  STR_ARG(needs), STR_ARG(json_get_str(r, "has")));
    if (json_get_str(r, "whole").n && !policy)
        sbuf_addf(out, " of %.*s", STR_ARG(json_get_str(r, "whole")));
    sbuf_addf(out, "%s%.*s\n", error.n ? ": " : "", STR_ARG(error));
}

// A row has its reason beside it, or several below.
static void show_row(struct sbuf *out, const yyjson_val *request, const char *row, const char *text)
{
    const yyjson_val *reasons = json_get(request, STR("reasons"));
    bool list = reasons && json_is_array(reasons);
    size_t n = list ? count_reasons(reasons, row) : 0;
    sbuf_addf(out, "      %lld %s%s", (long long)why_show_get_number(request, row), text,
              n == 1 ? ": " : "\n");
    if (n == 0)
        return;
    json_arr_foreach(reasons, r) {
        if (!str_eqz(json_get_str(r, "row"), row))
            continue;
        if (n > 1)
            sbuf_addf(out, "          %lld: ", (long long)why_show_get_number(r, "devices"));
        show_reason(out, r);
    }
}

static void show_request(struct sbuf *out, const yyjson_val *r)
{
    const yyjson_val *satisfied = json_get(r, STR("satisfied"));
    bool enough = false;
    if (satisfied)
        (void)!json_to_bool(satisfied, &enough, NULL);
    sbuf_addf(out,
              "    request %.*s of %.*s: wants %lld, %lld of %lld published devices are usable%s\n",
              STR_ARG(json_get_str(r, "request")), STR_ARG(json_get_str(r, "claim")),
              (long long)why_show_get_number(r, "wanted"),
              (long long)why_show_get_number(r, "usable"),
              (long long)why_show_get_number(r, "published"), enough ? " (enough)" : "");
    for (size_t i = 0; i < array_len(rows); i++)
        if (why_show_get_number(r, rows[i].row) != 0)
            show_row(out, r, rows[i].row, rows[i].text);
}

static void show_group(struct sbuf *out, const yyjson_val *g)
{
    const yyjson_val *names = json_get(g, STR("names"));
    const yyjson_val *requests = json_get(g, STR("requests"));
    int64_t n = why_show_get_number(g, "nodes");
    size_t shown = 0;
    sbuf_addf(out, "  %lld node%s (", (long long)n, n == 1 ? "" : "s");
    if (names && json_is_array(names)) {
        json_arr_foreach(names, name) {
            if (shown++ < 3)
                sbuf_addf(out, "%s%.*s", shown > 1 ? ", " : "", STR_ARG(json_str(name)));
        }
    }
    struct str refused = json_get_str(g, "refused");
    sbuf_addf(out, "%s)%s%.*s\n", (int64_t)shown < n || shown > 3 ? ", …" : "",
              refused.n ? ": " : "", STR_ARG(refused));
    if (requests && json_is_array(requests)) {
        json_arr_foreach(requests, r)
            show_request(out, r);
    }
    const yyjson_val *conflicts = json_get(g, STR("conflicts"));
    if (conflicts && json_is_array(conflicts)) {
        json_arr_foreach(conflicts, c)
            sbuf_addf(out, "    %.*s\n", STR_ARG(json_get_str(c, "text")));
    }
    struct str pools = json_get_str(g, "pools");
    if (pools.n)
        sbuf_addf(out, "    %.*s\n", STR_ARG(pools));
}

static bool why_show_is_empty(const yyjson_val *list)
{
    return !list || !json_is_array(list) || json_len(list) == 0;
}

static void show_remedy(struct sbuf *out, const yyjson_val *remedy, bool fixes)
{
    const yyjson_val *changes = json_get(remedy, STR("changes"));
    struct str node = json_get_str(remedy, "node");
    const char *before = "  - ";
    bool node_added = false, can = false;
    if (why_show_is_empty(changes))
        return;
    json_arr_foreach(changes, c) {
        sbuf_addf(out, "%s%.*s", before, STR_ARG(json_get_str(c, "text")));
        before = " and ";
        node_added |= str_eqz(json_get_str(c, "kind"), "nodeAdded");
    }
    if (node.n && !node_added)
        sbuf_addf(out, "   (on %.*s)", STR_ARG(node));
    if (json_get(remedy, STR("executable")))
        (void)!json_to_bool(json_get(remedy, STR("executable")), &can, NULL);
    if (can && fixes)
        sbuf_addf(out, "   [--fix %lld]", (long long)why_show_get_number(remedy, "fix"));
    sbuf_addc(out, '\n');
}

static void show_lines(struct sbuf *out, const yyjson_val *lines, bool *headed)
{
    if (why_show_is_empty(lines))
        return;
    if (!*headed)
        sbuf_addz(out, "What would help\n");
    *headed = true;
    json_arr_foreach(lines, line)
        sbuf_addf(out, "  - %.*s\n", STR_ARG(json_str(line)));
}

static void show_help(struct sbuf *out, const yyjson_val *root, bool fixes)
{
    const yyjson_val *remedies = json_get(root, STR("remedies"));
    bool headed = false;
    show_lines(out, json_get(root, STR("urgentAdvice")), &headed);
    if (!why_show_is_empty(remedies)) {
        size_t n = 0;
        bool fits = json_get(root, STR("now")) != NULL;
        sbuf_addz(out, fits ? "It would fit with\n" : "What would help\n");
        json_arr_foreach(remedies, r)
            if (n++ < REMEDIES_SHOWN)
                show_remedy(out, r, fixes);
        headed = !fits;
    }
    show_lines(out, json_get(root, STR("advice")), &headed);
}

static void show_groups(struct sbuf *out, const yyjson_val *report)
{
    const yyjson_val *groups = json_get(report, STR("groups"));
    if (!groups || !json_is_array(groups))
        return;
    sbuf_addf(out, "Nodes\n");
    json_arr_foreach(groups, g)
        show_group(out, g);
}

// --- Pods ----------------------------------------------------------------------------------------

static void show_last_event(struct sbuf *out, const yyjson_val *root)
{
    const yyjson_val *e = json_get(root, STR("lastEvent"));
    if (!e)
        return;
    sbuf_addf(out, "Last event\n  %.*s %.*s %.*s: %.*s\n", STR_ARG(json_get_str(e, "time")),
              STR_ARG(json_get_str(e, "type")), STR_ARG(json_get_str(e, "reason")),
              STR_ARG(json_get_str(e, "message")));
}

// A pod that has its node: how far it has come.
static bool show_life(struct sbuf *out, const yyjson_val *root, bool fixes)
{
    struct str state = json_get_str(root, "state"), node = json_get_str(root, "node");
    struct str cause = json_get_str(root, "cause"), stage = json_get_str(root, "stage");
    sbuf_addf(out, "Pod %.*s ", STR_ARG(json_get_str(root, "name")));
    if (str_eqz(state, "running") || str_eqz(state, "ended")) {
        sbuf_addf(out, "is bound to %.*s and %s\n", STR_ARG(node),
                  str_eqz(state, "ended") ? "has ended well" : "runs");
        return false;
    }
    if (node.n)
        sbuf_addf(out, "is bound to %.*s and does not run: %.*s\n", STR_ARG(node), STR_ARG(cause));
    else
        sbuf_addf(out, "waits: %.*s\n", STR_ARG(cause));
    show_help(out, root, fixes);
    if (node.n)
        sbuf_addf(out, "Stage\n  %.*s (bound, claims, image, container, ready)\n", STR_ARG(stage));
    show_last_event(out, root);
    return true;
}

static bool show_pod(struct sbuf *out, const yyjson_val *root, bool fixes)
{
    struct str node = json_get_str(root, "node");
    struct str cause = json_get_str(root, "cause");
    if (json_get_str(root, "stage").n)
        return show_life(out, root, fixes);
    if (!cause.n)
        cause = json_get_str(root, "gate");
    sbuf_addf(out, "Pod %.*s ", STR_ARG(json_get_str(root, "name")));
    if (!cause.n) {
        sbuf_addf(out, "is %.*s%s%.*s\n", STR_ARG(json_get_str(root, "state")),
                  node.n ? " to " : "", STR_ARG(node));
        return false;
    }
    sbuf_addf(out, "waits: %.*s\n", STR_ARG(cause));
    show_help(out, root, fixes);
    show_groups(out, json_get(json_get(root, STR("now")), STR("report")));
    return true;
}

// --- Claims --------------------------------------------------------------------------------------

static void show_devices(struct sbuf *out, const yyjson_val *allocation)
{
    const yyjson_val *results = json_get(json_get(allocation, STR("devices")), STR("results"));
    if (!results || !json_is_array(results))
        return;
    json_arr_foreach(results, r)
        sbuf_addf(out, "  %.*s: %.*s/%.*s/%.*s\n", STR_ARG(json_get_str(r, "request")),
                  STR_ARG(json_get_str(r, "driver")), STR_ARG(json_get_str(r, "pool")),
                  STR_ARG(json_get_str(r, "device")));
}

// Who has an allocated claim, in words.
static void show_holders(struct sbuf *out, const yyjson_val *holders)
{
    size_t n = holders && json_is_array(holders) ? json_len(holders) : 0;
    size_t shown = 0;
    if (n == 0) {
        sbuf_addz(out, "no pod has it reserved, it is free for the next that uses it\n");
        return;
    }
    sbuf_addz(out, "held by ");
    json_arr_foreach(holders, h) {
        struct str resource = json_get_str(h, "resource");
        struct str node = json_get_str(h, "node");
        struct str phase = json_get_str(h, "phase");
        bool gone = json_get_str(h, "state").n > 0;
        if (shown == HOLDERS_SHOWN)
            sbuf_addf(out, " and %zu more", n - shown);
        if (shown++ >= HOLDERS_SHOWN)
            break;
        sbuf_addf(out, "%s%s %.*s", shown > 1 ? ", " : "",
                  str_eqz(resource, "podgroups") ? "PodGroup" : "pod",
                  STR_ARG(json_get_str(h, "name")));
        if (node.n)
            sbuf_addf(out, " (%.*s%son %.*s)", STR_ARG(phase), phase.n ? " " : "", STR_ARG(node));
        else if (gone)
            sbuf_addz(out, " (which is gone: the claim will be given back)");
    }
    sbuf_addc(out, '\n');
}

// A claim that no pod uses.
static bool show_claim_alone(struct sbuf *out, const yyjson_val *root, bool fixes)
{
    struct str cause = json_get_str(root, "cause");
    int64_t fits = why_show_get_number(root, "nodesThatFit");
    int64_t more =
        why_show_get_number(root, "moreThatFit") + why_show_get_number(root, "moreThatFitAtMost");
    sbuf_addf(out, "%.*s\n", STR_ARG(cause.n ? cause : STR("its devices are on their way")));
    if (fits == 0)
        show_help(out, root, fixes);
    else
        sbuf_addf(out, "%s%lld claim%s like it would fit, one beside the other\n",
                  json_get(root, STR("moreThatFit")) ? "" : "At most ", (long long)more,
                  more == 1 ? "" : "s");
    const yyjson_val *whole = fits ? root : json_get(root, STR("now"));
    show_groups(out, json_get(whole, STR("report")));
    return cause.n && fits == 0;
}

static bool show_claim(struct sbuf *out, const yyjson_val *root, bool fixes)
{
    const yyjson_val *pods = json_get(root, STR("pods"));
    const yyjson_val *allocation = json_get(root, STR("allocation"));
    sbuf_addf(out, "ResourceClaim %.*s is %.*s: ", STR_ARG(json_get_str(root, "name")),
              STR_ARG(json_get_str(root, "state")));
    if (allocation) {
        show_holders(out, json_get(root, STR("heldBy")));
        show_devices(out, allocation);
    } else if (why_show_is_empty(pods)) {
        return show_claim_alone(out, root, fixes);
    } else {
        struct str cause = json_get_str(json_at(pods, 0), "cause");
        sbuf_addf(out, "%.*s\n", STR_ARG(cause.n ? cause : STR("its pod has not been tried yet")));
    }
    if (!why_show_is_empty(pods))
        json_arr_foreach(pods, p)
            (void)!show_pod(out, p, fixes);
    return !allocation;
}

// --- Groups --------------------------------------------------------------------------------------

static void show_member(struct sbuf *out, const yyjson_val *m)
{
    struct str node = json_get_str(m, "node");
    struct str would = json_get_str(m, "wouldRunOn");
    struct str cause = json_get_str(m, "cause");
    sbuf_addf(out, "  %.*s: ", STR_ARG(json_get_str(m, "name")));
    if (node.n)
        sbuf_addf(out, "has its node %.*s\n", STR_ARG(node));
    else if (would.n)
        sbuf_addf(out, "would fit on %.*s\n", STR_ARG(would));
    else
        sbuf_addf(out, "%.*s\n", STR_ARG(cause.n ? cause : json_get_str(m, "state")));
}

static bool show_pod_group(struct sbuf *out, const yyjson_val *root, bool fixes)
{
    struct str cause = json_get_str(root, "cause");
    const yyjson_val *members = json_get(root, STR("members"));
    int64_t pods = why_show_get_number(root, "pods");
    sbuf_addf(out, "PodGroup %.*s ", STR_ARG(json_get_str(root, "name")));
    if (cause.n)
        sbuf_addf(out, "waits: %.*s\n", STR_ARG(cause));
    else
        sbuf_addf(out, "runs: %lld of its %lld pod%s ha%s a node, %lld must\n",
                  (long long)why_show_get_number(root, "scheduled"), (long long)pods,
                  pods == 1 ? "" : "s", why_show_get_number(root, "scheduled") == 1 ? "s" : "ve",
                  (long long)why_show_get_number(root, "minCount"));
    if (cause.n)
        show_help(out, root, fixes);
    if (!why_show_is_empty(members)) {
        sbuf_addz(out, "Pods, placed one after the other\n");
        json_arr_foreach(members, m)
            show_member(out, m);
    }
    show_groups(out, json_get(json_get(root, STR("now")), STR("report")));
    return cause.n > 0;
}

// --- Workloads, nodes, devices -------------------------------------------------------------------

static bool show_object(struct sbuf *out, const yyjson_val *root, bool fixes)
{
    struct str kind = json_get_str(root, "kind"), cause = json_get_str(root, "cause");
    struct str note = json_get_str(root, "note");
    bool good = str_eqz(json_get_str(root, "state"), "running");
    bool node = str_eqz(kind, "Node"), device = str_eqz(kind, "Device");
    sbuf_addf(out, "%.*s %.*s ", STR_ARG(kind), STR_ARG(json_get_str(root, "name")));
    if (!good && node)
        sbuf_addf(out, "takes no pods, or not all: %.*s\n", STR_ARG(cause));
    else if (!good && device)
        sbuf_addf(out, "cannot be had: %.*s\n", STR_ARG(cause));
    else if (!good)
        sbuf_addf(out, "does not run: %.*s\n", STR_ARG(cause.n ? cause : note));
    else if (node)
        sbuf_addz(out, "is ready and takes pods\n");
    else if (device)
        sbuf_addf(out, "is %.*s%s%.*s\n", STR_ARG(json_get_str(root, "deviceState")),
                  note.n ? ": " : "", STR_ARG(note));
    else
        sbuf_addf(out, "runs: %lld of %lld pod%s\n",
                  (long long)why_show_get_number(root, "running"),
                  (long long)why_show_get_number(root, "wants"),
                  why_show_get_number(root, "wants") == 1 ? "" : "s");
    if (good)
        return false;
    show_help(out, root, fixes);
    show_last_event(out, root);
    show_groups(out, json_get(json_get(root, STR("now")), STR("report")));
    return true;
}

bool why_show(const yyjson_val *root, bool fixes, struct sbuf *out)
{
    struct str kind = json_get_str(root, "kind");
    return str_eqz(kind, "ResourceClaim") ? show_claim(out, root, fixes)
           : str_eqz(kind, "PodGroup")    ? show_pod_group(out, root, fixes)
           : str_eqz(kind, "Pod")         ? show_pod(out, root, fixes)
                                          : show_object(out, root, fixes);
}

// --- Events --------------------------------------------------------------------------------------

bool why_show_needs_events(const yyjson_val *root)
{
    return str_eqz(json_get_str(root, "state"), "gated") &&
           str_contains(json_get_str(root, "cause"), STR("ResourceClaim not created yet")) &&
           !str_contains(json_get_str(root, "cause"), STR("does not exist"));
}

static void why_show_add_advice(struct str cause, struct str namespace, struct sbuf *out)
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

void why_show_read_events(const yyjson_val *list, struct str namespace, struct why_event *ret)
{
    const yyjson_val *items = json_get(list, STR("items"));
    struct str newest = {0};
    if (!items || !json_is_array(items))
        return;
    json_arr_foreach(items, e) {
        struct str at = json_get_str(e, "lastTimestamp");
        if (!str_eqz(json_get_str(e, "reason"), "FailedResourceClaimCreation") ||
            str_cmp(at, newest) < 0)
            continue;
        newest = at;
        ret->cause = json_get_str(e, "message");
    }
    if (ret->cause.n)
        why_show_add_advice(ret->cause, namespace, &ret->advice);
}
