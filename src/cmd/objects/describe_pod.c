// SPDX-License-Identifier: Apache-2.0
//
// Pods and nodes in words.
#include "api/match/node.h"
#include "client/client.h"
#include "cmd/objects/describe.h"

#include "base/banned.h"

// --- Pods ----------------------------------------------------------------------------------------

static const yyjson_val *describe_pod_find_status(const yyjson_val *pod, const char *list,
                                                  struct str name)
{
    const yyjson_val *statuses = objects_list(pod, list);
    if (!statuses)
        return NULL;
    json_arr_foreach(statuses, s) {
        if (str_eq(objects_text(s, "name"), name))
            return s;
    }
    return NULL;
}

// add_state adds the state of a container in one line: running since, waiting because, ended with.
static void add_state(struct sbuf *out, const char *name, const yyjson_val *state)
{
    cleanup_sbuf struct sbuf text = {0};
    const yyjson_val *ended = objects_at(state, "terminated");
    struct str since = objects_text(state, "running.startedAt");
    struct str waiting = objects_text(state, "waiting.reason");
    if (since.n)
        sbuf_addf(&text, "running since %.*s", STR_ARG(since));
    else if (waiting.n)
        sbuf_addf(&text, "waiting: %.*s %.*s", STR_ARG(waiting),
                  STR_ARG(objects_text(state, "waiting.message")));
    if (ended) {
        sbuf_addf(&text, "ended: %.*s, exit status ", STR_ARG(objects_text(ended, "reason")));
        describe_value(&text, objects_at(ended, "exitCode"));
        sbuf_addf(&text, " %.*s", STR_ARG(objects_text(ended, "message")));
    }
    if (text.n)
        describe_field(out, 4, name, str_trim(sbuf_str(&text)));
}

static void describe_pod_add_container(struct sbuf *out, const yyjson_val *c,
                                       const yyjson_val *status)
{
    cleanup_sbuf struct sbuf requests = {0}, limits = {0}, restarts = {0};
    const yyjson_val *claims = objects_list(c, "resources.claims");
    describe_field(out, 2, "Container", objects_text(c, "name"));
    describe_field(out, 4, "Image", objects_text(c, "image"));
    describe_map_line(&requests, objects_at(c, "resources.requests"));
    describe_map_line(&limits, objects_at(c, "resources.limits"));
    if (requests.n)
        describe_field(out, 4, "Requests", sbuf_str(&requests));
    if (limits.n)
        describe_field(out, 4, "Limits", sbuf_str(&limits));
    if (claims) {
        json_arr_foreach(claims, k)
            describe_field(out, 4, "Uses claim", objects_text(k, "name"));
    }
    if (!status)
        return;
    add_state(out, "State", objects_at(status, "state"));
    add_state(out, "Before", objects_at(status, "lastState"));
    describe_value(&restarts, objects_at(status, "restartCount"));
    describe_field(out, 4, "Restarts", sbuf_str(&restarts));
}

static void describe_pod_add_containers(struct sbuf *out, const yyjson_val *pod, const char *title,
                                        const char *list, const char *statuses)
{
    const yyjson_val *containers = objects_list(pod, list);
    if (!containers || json_len(containers) == 0)
        return;
    sbuf_addf(out, "%s:\n", title);
    json_arr_foreach(containers, c)
        describe_pod_add_container(
            out, c, describe_pod_find_status(pod, statuses, objects_text(c, "name")));
}

static int describe_pod_read(struct cluster *c, const char *path, struct str name,
                             struct json_doc *ret)
{
    cleanup_sbuf struct sbuf target = {0}, body = {0};
    struct err err = {0};
    sbuf_addz(&target, path);
    client_escape(&target, name);
    int r = cluster_get(c, target.p, &body, &err);
    return r < 0 ? r : json_parse(sbuf_str(&body), NULL, ret, &err);
}

static void describe_pod_add_node(struct sbuf *out, struct cluster *c, struct str node)
{
    cleanup_json_doc struct json_doc doc = {0};
    cleanup_sbuf struct sbuf text = {0};
    sbuf_add(&text, node);
    if (node.n && describe_pod_read(c, "/api/v1/nodes/", node, &doc) == 0 &&
        str_eqz(json_get_str(objects_at(doc.root, "metadata.labels"), NODE_SIMULATED), "true"))
        sbuf_addz(&text, " (simulated)");
    describe_field(out, 0, "Node", sbuf_str(&text));
}

// describe_pod_add_devices adds the devices of a claim.
static void describe_pod_add_devices(struct sbuf *out, struct cluster *c, struct str namespace,
                                     struct str claim)
{
    cleanup_json_doc struct json_doc doc = {0};
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addz(&path, "/apis/resource.k8s.io/v1/namespaces/");
    client_escape(&path, namespace);
    sbuf_addz(&path, "/resourceclaims/");
    if (!claim.n || describe_pod_read(c, path.p, claim, &doc) < 0)
        return;
    const yyjson_val *results = objects_list(doc.root, "status.allocation.devices.results");
    if (!results)
        return;
    json_arr_foreach(results, r) {
        cleanup_sbuf struct sbuf text = {0};
        const yyjson_val *consumed = objects_at(r, "consumedCapacity");
        sbuf_addf(&text, "%.*s/%.*s/%.*s (request %.*s", STR_ARG(objects_text(r, "driver")),
                  STR_ARG(objects_text(r, "pool")), STR_ARG(objects_text(r, "device")),
                  STR_ARG(objects_text(r, "request")));
        if (consumed) {
            sbuf_addz(&text, ", ");
            describe_map_line(&text, consumed);
        }
        sbuf_addc(&text, ')');
        describe_field(out, 2, "Device", sbuf_str(&text));
    }
}

// describe_pod_add_claims adds which claim each of the pod's names stands for.
static void describe_pod_add_claims(struct sbuf *out, const yyjson_val *pod, struct cluster *c)
{
    struct str namespace = objects_text(pod, "metadata.namespace");
    const yyjson_val *claims = objects_list(pod, "spec.resourceClaims");
    if (!claims)
        return;
    json_arr_foreach(claims, entry) {
        cleanup_sbuf struct sbuf text = {0};
        struct str name = objects_text(entry, "name");
        struct str template = objects_text(entry, "resourceClaimTemplateName");
        const yyjson_val *made =
            describe_pod_find_status(pod, "status.resourceClaimStatuses", name);
        struct str claim = objects_text(entry, "resourceClaimName");
        if (template.n)
            claim = made ? objects_text(made, "resourceClaimName") : (struct str){0};
        sbuf_addf(&text, "%.*s: %.*s", STR_ARG(name),
                  STR_ARG(claim.n ? claim : STR("no claim yet")));
        if (template.n)
            sbuf_addf(&text, " (of template %.*s)", STR_ARG(template));
        describe_field(out, 0, "Claim", sbuf_str(&text));
        describe_pod_add_devices(out, c, namespace, claim);
    }
}

void describe_pod(struct sbuf *out, const yyjson_val *pod, struct cluster *c)
{
    struct str reason = objects_text(pod, "status.reason");
    struct str extended = objects_text(pod, "status.extendedResourceClaimStatus.resourceClaimName");
    describe_pod_add_node(out, c, objects_text(pod, "spec.nodeName"));
    describe_field(out, 0, "Status", objects_text(pod, "status.phase"));
    if (reason.n)
        describe_field(out, 0, "Reason", reason);
    if (objects_text(pod, "status.message").n)
        describe_field(out, 0, "Message", objects_text(pod, "status.message"));
    describe_field(out, 0, "IP", objects_text(pod, "status.podIP"));
    describe_field(out, 0, "Scheduler", objects_text(pod, "spec.schedulerName"));
    describe_pod_add_claims(out, pod, c);
    if (extended.n) {
        describe_field(out, 0, "Claim", extended);
        describe_pod_add_devices(out, c, objects_text(pod, "metadata.namespace"), extended);
    }
    describe_pod_add_containers(out, pod, "Init containers", "spec.initContainers",
                                "status.initContainerStatuses");
    describe_pod_add_containers(out, pod, "Containers", "spec.containers",
                                "status.containerStatuses");
    describe_conditions(out, pod);
}

// --- Nodes ---------------------------------------------------------------------------------------

static void add_addresses(struct sbuf *out, const yyjson_val *node)
{
    const yyjson_val *addresses = objects_list(node, "status.addresses");
    if (!addresses)
        return;
    json_arr_foreach(addresses, a) {
        cleanup_sbuf struct sbuf text = {0};
        sbuf_addf(&text, "%.*s (%.*s)", STR_ARG(objects_text(a, "address")),
                  STR_ARG(objects_text(a, "type")));
        describe_field(out, 0, "Address", sbuf_str(&text));
    }
}

void describe_node(struct sbuf *out, const yyjson_val *node)
{
    cleanup_sbuf struct sbuf has = {0}, gives = {0};
    const yyjson_val *taints = objects_list(node, "spec.taints");
    const yyjson_val *closed = objects_at(node, "spec.unschedulable");
    add_addresses(out, node);
    if (closed)
        describe_field(out, 0, "Takes pods", STR("no (unschedulable)"));
    if (taints) {
        json_arr_foreach(taints, t) {
            cleanup_sbuf struct sbuf text = {0};
            sbuf_addf(&text, "%.*s=%.*s:%.*s", STR_ARG(objects_text(t, "key")),
                      STR_ARG(objects_text(t, "value")), STR_ARG(objects_text(t, "effect")));
            describe_field(out, 0, "Taint", sbuf_str(&text));
        }
    }
    describe_map_line(&has, objects_at(node, "status.capacity"));
    describe_map_line(&gives, objects_at(node, "status.allocatable"));
    describe_field(out, 0, "Capacity", sbuf_str(&has));
    describe_field(out, 0, "Allocatable", sbuf_str(&gives));
    describe_field(out, 0, "System", objects_text(node, "status.nodeInfo.osImage"));
    describe_field(out, 0, "Kernel", objects_text(node, "status.nodeInfo.kernelVersion"));
    describe_field(out, 0, "Runtime",
                   objects_text(node, "status.nodeInfo.containerRuntimeVersion"));
    describe_field(out, 0, "Kubelet", objects_text(node, "status.nodeInfo.kubeletVersion"));
    describe_conditions(out, node);
}
