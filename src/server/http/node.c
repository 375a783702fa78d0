// SPDX-License-Identifier: Apache-2.0
//
// From a pod to its node's endpoint: which address and port, which containers the pod has.
#include "server/http/node.h"

#include "api/match/node.h"
#include "api/status.h"
#include "server/http/server_int.h"

#include "base/banned.h"

#define KUBELET_PORT 10250

static const char default_types[] = "InternalIP,ExternalIP,InternalDNS,ExternalDNS,Hostname";

static void bad_request(struct exchange *ex, struct str message)
{
    answer_status(ex, api_status_bad_request(&ex->arena, message));
}

// --- The pod -------------------------------------------------------------------------------------

// All containers of a pod in the order upstream visits them.
struct container_names VEC(struct str);

static void node_list_names(const struct api_pod *pod, struct arena *a, struct container_names *ret)
{
    for (size_t i = 0; i < pod->spec.init_containers.n; i++)
        vec_push_arena(a, ret, pod->spec.init_containers.p[i].name);
    for (size_t i = 0; i < pod->spec.containers.n; i++)
        vec_push_arena(a, ret, pod->spec.containers.p[i].name);
    for (size_t i = 0; i < pod->spec.ephemeral_containers.n; i++)
        vec_push_arena(a, ret, pod->spec.ephemeral_containers.p[i].ephemeral_container_common.name);
}

static bool choose_container(struct exchange *ex, const struct api_pod *pod, struct str wanted,
                             struct str *ret)
{
    struct container_names names = {0};
    struct str pod_name = pod->metadata.name;
    node_list_names(pod, &ex->arena, &names);
    vec_foreach(&names, name) {
        if (wanted.n && str_eq(*name, wanted)) {
            *ret = *name;
            return true;
        }
    }
    if (wanted.n) {
        bad_request(ex, arena_strf(&ex->arena, "container %.*s is not valid for pod %.*s",
                                   STR_ARG(wanted), STR_ARG(pod_name)));
        return false;
    }
    if (pod->spec.containers.n == 1) {
        *ret = pod->spec.containers.p[0].name;
        return true;
    }
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text, "a container name must be specified for pod %.*s", STR_ARG(pod_name));
    if (pod->spec.containers.n)
        sbuf_addz(&text, ", choose one of: [");
    vec_foreach(&names, name)
        sbuf_addf(&text, "%s%.*s", name == names.p ? "" : " ", STR_ARG(*name));
    if (pod->spec.containers.n)
        sbuf_addc(&text, ']');
    bad_request(ex, arena_str(&ex->arena, sbuf_str(&text)));
    return false;
}

// --- The node ------------------------------------------------------------------------------------

static struct str choose_address(const struct api_node *node, struct str types)
{
    if (types.n == 0)
        types = str_z(default_types);
    while (types.n) {
        struct str type;
        str_cut(types, ',', &type, &types);
        for (size_t i = 0; i < node->status.addresses.n; i++)
            if (str_eq(node->status.addresses.p[i].type, str_trim(type)))
                return node->status.addresses.p[i].address;
    }
    return (struct str){0};
}

// The address is the node's own word: nothing that would be more than the host of a URL, or of a
// header.
static bool is_host(struct str host)
{
    for (size_t i = 0; i < host.n; i++) {
        char c = host.p[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '-' || c == '_' || c == ':'))
            return false;
    }
    return host.n > 0 && host.n < 256;
}

static const void *node_find_object(struct exchange *ex, const char *kind, struct str namespace,
                                    struct str name, struct err *err)
{
    const struct api_kind *k = api_kind_find(STR("v1"), str_z(kind));
    const struct store_key key = {
        .kind = registry_stored_kind(k), .namespace = namespace, .name = name};
    const struct object *o = store_get(ex->s->store, &key);
    struct api_object typed;
    if (!o) {
        err_record(err, ERR_NOT_FOUND, "not found");
        return NULL;
    }
    return registry_decode(o, k, &ex->arena, &typed, err) < 0 ? NULL : typed.value;
}

static void node_answer_simulated(struct exchange *ex, struct str name)
{
    answer_status(ex, api_status_bad_request(
                          &ex->arena,
                          arena_strf(&ex->arena,
                                     "node %.*s is simulated: nothing runs there, so pod %.*s has "
                                     "no logs and takes no commands; pods run on machines that "
                                     "'dray up --agent', 'dray agent' or 'dray join' make nodes",
                                     STR_ARG(name), STR_ARG(ex->route.name))));
}

static bool locate_node(struct exchange *ex, struct str name, struct node_location *ret)
{
    struct err err = {0};
    const struct api_node *node = node_find_object(ex, "Node", STR(""), name, &err);
    if (!node) {
        const struct status_subject subject = {STR(""), STR("nodes"), name};
        answer_status(ex, api_status_of(&ex->arena, &subject, &err));
        return false;
    }
    ret->host = choose_address(node, ex->s->node.to.address_types);
    int32_t port = node->status.daemon_endpoints.kubelet_endpoint.port;
    ret->port = port > 0 && port <= UINT16_MAX ? (uint16_t)port
                : ex->s->node.to.port          ? ex->s->node.to.port
                                               : KUBELET_PORT;
    if (is_host(ret->host))
        return true;
    if (ret->host.n) {
        answer_status(ex, api_status_unknown(&ex->arena,
                                             arena_strf(&ex->arena,
                                                        "the address of node %.*s is neither an IP "
                                                        "address nor a host's name",
                                                        STR_ARG(name))));
        return false;
    }
    if (node_is_simulated(node)) {
        node_answer_simulated(ex, name);
        return false;
    }
    answer_status(ex, api_status_unknown(
                          &ex->arena,
                          arena_strf(&ex->arena,
                                     "no preferred addresses found; node %.*s has %zu addresses of "
                                     "other types: see --kubelet-preferred-address-types",
                                     STR_ARG(name), node->status.addresses.n)));
    return false;
}

bool node_locate(struct exchange *ex, struct str container, bool any_container,
                 struct node_location *ret)
{
    struct err err = {0};
    *ret = (struct node_location){0};
    const struct api_pod *pod =
        node_find_object(ex, "Pod", ex->route.namespace, ex->route.name, &err);
    if (!pod) {
        answer_error(ex, &err);
        return false;
    }
    if (!any_container && !choose_container(ex, pod, container, &ret->container))
        return false;
    return pod->spec.node_name.n == 0 || locate_node(ex, pod->spec.node_name, ret);
}
