// SPDX-License-Identifier: Apache-2.0
//
// secure_accelerator_access and gpu_sharing of Kubernetes AI conformance. No check knows what a
// device looks like: what a claim adds to what a container without any sees is the device.
#include "api/match/node.h"
#include "lab/conform/pods.h"

#include "base/banned.h"

#define TEMPLATE "device"

static int needs_containers(struct session *s)
{
    return s->containers ? 0 : session_skip(s, "needs pods that run and logs that can be read");
}

// access_all_simulated: there are nodes, and all of them exist only in the API.
static bool access_all_simulated(struct session *s)
{
    struct answer nodes = session_call(s, "GET", "/api/v1/nodes", NULL, NULL);
    const yyjson_val *items = nodes.root ? json_get(nodes.root, STR("items")) : NULL;
    if (!items || !json_is_array(items) || json_len(items) == 0)
        return false;
    json_arr_foreach(items, item) {
        const yyjson_val *metadata = json_get(item, STR("metadata"));
        const yyjson_val *labels = metadata ? json_get(metadata, STR("labels")) : NULL;
        if (!str_eqz(json_get_str(labels, NODE_SIMULATED), "true"))
            return false;
    }
    return true;
}

int conform_check_containers(struct session *s)
{
    struct lines seen = {0};
    if (access_all_simulated(s))
        return session_skip(s, "all nodes are simulated, and nothing runs there; 'dray up --agent' "
                               "makes this machine a node");
    if (pods_baseline(s, &seen) != 0)
        return -1;
    s->containers = true;
    session_notef(s, "a container without claims sees %zu things", seen.n);
    return 0;
}

// Where every check of access begins.
static int access_begin_check(struct session *s, const char **ret_spec, struct lines *ret_baseline)
{
    if (needs_containers(s) != 0)
        return -1;
    *ret_spec = pods_claim_spec(s);
    if (!*ret_spec || pods_create_template(s, TEMPLATE, *ret_spec) != 0)
        return -1;
    return pods_baseline(s, ret_baseline);
}

// What a claim makes visible, found out once.
static int access_find_new_devices(struct session *s, const struct lines *baseline,
                                   struct lines *ret)
{
    if (s->visible) {
        *ret = *s->visible;
        return 0;
    }
    // It stays, because a claim made from a template goes with its pod.
    const struct wish w = {.name = "with-claim", .template_name = TEMPLATE, .stays = true};
    struct lines seen = {0};
    struct answer pod, claim;
    const char *why;
    if (pods_run_once(s, &w, &seen) != 0)
        return -1;
    if (pods_await_end(s, &w, 1, &why, &pod) == POD_DONE && pods_find_claim(s, &pod, &claim) != 0)
        return -1;
    struct lines *kept = arena_one(s->arena, struct lines);
    *kept = pods_subtract_lines(s, &seen, baseline);
    pods_remove(s, w.name); // the device is for others now
    if (kept->n == 0)
        return session_fail(s, "the container with a claim sees nothing that one without does not");
    s->visible = kept;
    *ret = *kept;
    return 0;
}

int conform_check_access_with_claim(struct session *s)
{
    const char *spec;
    struct lines baseline = {0}, seen = {0};
    if (access_begin_check(s, &spec, &baseline) != 0 ||
        access_find_new_devices(s, &baseline, &seen) != 0)
        return -1;
    session_notef(s, "the claim adds: %s", pods_join_lines(s, &seen));
    return 0;
}

// A container without a claim, while another pod has one.
int conform_check_access_without_claim(struct session *s)
{
    const char *spec, *why;
    struct lines baseline = {0}, seen = {0}, here = {0};
    if (access_begin_check(s, &spec, &baseline) != 0 ||
        access_find_new_devices(s, &baseline, &seen) != 0)
        return -1;
    const struct wish holder = {.name = "holder", .template_name = TEMPLATE, .stays = true};
    if (pods_create(s, &holder) != 0)
        return -1;
    if (pods_await_end(s, &holder, s->o->timeout_s, &why, NULL) != POD_DONE)
        return session_fail(s, "the pod with a claim does not run: %s", why);
    int r = pods_run_once(s, &(struct wish){.name = "onlooker"}, &here);
    pods_remove(s, holder.name);
    if (r != 0)
        return -1;
    struct lines hidden = pods_subtract_lines(s, &seen, &here);
    struct lines extra = pods_subtract_lines(s, &here, &baseline);
    session_notef(s, "beyond the first pod without claims it sees: %s", pods_join_lines(s, &extra));
    return hidden.n == seen.n
               ? 0
               : session_fail(s, "a container without a claim sees of the device: %s",
                              pods_join_lines(s, &seen));
}

int conform_check_access_two_containers(struct session *s)
{
    const char *spec;
    struct lines baseline = {0}, first = {0}, second = {0};
    const struct wish w = {.name = "two-containers", .template_name = TEMPLATE, .second = true};
    if (access_begin_check(s, &spec, &baseline) != 0 || pods_run_once(s, &w, &first) != 0 ||
        pods_list_devices(s, w.name, "second", &second) != 0)
        return -1;
    pods_remove(s, w.name);
    struct lines device = pods_subtract_lines(s, &first, &second);
    struct lines extra = pods_subtract_lines(s, &second, &baseline);
    session_notef(s, "only the container that names the claim sees: %s",
                  pods_join_lines(s, &device));
    if (device.n == 0)
        return session_fail(s, "the container that names the claim sees no more than the other");
    struct lines leaked = pods_subtract_lines(s, &device, &extra);
    return leaked.n == device.n && extra.n == 0
               ? 0
               : session_fail(s, "the container that does not name the claim sees %s",
                              pods_join_lines(s, &extra));
}

static const char *device_of(struct session *s, const struct answer *claim)
{
    static const char at[] = "status.allocation.devices.results[0].";
    return session_text(s, "%.*s/%.*s/%.*s",
                        STR_ARG(session_at(claim->root, session_text(s, "%sdriver", at))),
                        STR_ARG(session_at(claim->root, session_text(s, "%spool", at))),
                        STR_ARG(session_at(claim->root, session_text(s, "%sdevice", at))));
}

// Two pods with claims of their own on one node, at the same time.
int conform_check_access_other_pod(struct session *s)
{
    const char *spec, *why;
    struct lines baseline = {0}, in_a = {0}, in_b = {0};
    struct answer pod_a, pod_b, claim_a, claim_b;
    struct wish a = {.name = "pod-a", .template_name = TEMPLATE, .stays = true};
    if (access_begin_check(s, &spec, &baseline) != 0 || pods_create(s, &a) != 0)
        return -1;
    if (pods_await_end(s, &a, s->o->timeout_s, &why, &pod_a) != POD_DONE)
        return session_fail(s, "the first pod does not run: %s", why);
    const char *node = arena_str(s->arena, session_at(pod_a.root, "spec.nodeName")).p;
    struct wish b = {.name = "pod-b", .template_name = TEMPLATE, .stays = true, .node = node};
    if (pods_create(s, &b) != 0)
        return -1;
    enum pod_end end = pods_await_end(s, &b, s->o->timeout_s / 4 + 5, &why, &pod_b);
    if (end == POD_WAITING && session_at(pod_b.root, "spec.nodeName").n == 0)
        return session_skip(s, "node %s has no second device: %s", node, why);
    if (end != POD_DONE)
        return session_fail(s, "the second pod does not run: %s", why);
    if (pods_find_claim(s, &pod_a, &claim_a) != 0 || pods_find_claim(s, &pod_b, &claim_b) != 0 ||
        pods_list_devices(s, a.name, "first", &in_a) != 0 ||
        pods_list_devices(s, b.name, "first", &in_b) != 0)
        return -1;
    pods_remove(s, a.name);
    pods_remove(s, b.name);
    const char *device_a = device_of(s, &claim_a), *device_b = device_of(s, &claim_b);
    session_notef(s, "%s and %s", device_a, device_b);
    if (strcmp(device_a, device_b) == 0)
        return session_skip(s, "both claims are shares of one device, %s", device_a);
    struct lines only_a = pods_subtract_lines(s, &in_a, &in_b);
    struct lines only_b = pods_subtract_lines(s, &in_b, &in_a);
    session_notef(s, "only the first sees: %s", pods_join_lines(s, &only_a));
    session_notef(s, "only the second sees: %s", pods_join_lines(s, &only_b));
    return only_a.n && only_b.n
               ? 0
               : session_fail(s, "one of the pods sees everything that the other sees");
}

// One claim, two pods, both running and both seeing the device.
int conform_check_sharing(struct session *s)
{
    const char *spec, *why;
    struct lines baseline = {0}, in[2] = {0};
    static const char *const names[] = {"shares-1", "shares-2"};
    if (access_begin_check(s, &spec, &baseline) != 0 || pods_create_claim(s, "shared", spec) != 0)
        return -1;
    for (size_t i = 0; i < 2; i++)
        if (pods_create(
                s, &(struct wish){.name = names[i], .claim_name = "shared", .stays = true}) != 0)
            return -1;
    for (size_t i = 0; i < 2; i++) {
        const struct wish w = {.name = names[i], .claim_name = "shared", .stays = true};
        if (pods_await_end(s, &w, s->o->timeout_s, &why, NULL) != POD_DONE)
            return session_fail(s, "pod %s does not run: %s", names[i], why);
        if (pods_list_devices(s, names[i], "first", &in[i]) != 0)
            return -1;
    }
    struct lines one = pods_subtract_lines(s, &in[0], &baseline);
    struct lines two = pods_subtract_lines(s, &in[1], &baseline);
    struct lines apart = pods_subtract_lines(s, &one, &two);
    for (size_t i = 0; i < 2; i++)
        pods_remove(s, names[i]);
    session_notef(s, "both see: %s", pods_join_lines(s, &one));
    if (one.n == 0 || two.n == 0)
        return session_fail(s, "one of the two pods does not see the device");
    return apart.n == 0
               ? 0
               : session_fail(s, "the pods see different things: %s", pods_join_lines(s, &apart));
}
