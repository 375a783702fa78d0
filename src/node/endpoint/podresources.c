// SPDX-License-Identifier: Apache-2.0
//
// The PodResources gRPC service: which devices and claims each container of the node has, built
// from the DRA manager and the device plugins at each call.
#include "node/podresources.h"

#include <stdlib.h>

#include "base/mem.h"
#include "driver/plugin_api.h"

#include "base/banned.h"

struct podresources {
    struct podresources_options options;
};

struct cdi_list VEC(struct plugin_cdi_device);

// A container's resources while they are put together.
struct filling {
    struct podresources *owner;
    struct arena *arena;
    struct plugin_container_resources *container;
};

// Each device comes with the CDI names of those before it in the same driver, as kubelet reports
// it.
static void podresources_add_driver(struct arena *a, const struct node_claim_driver *part,
                                    struct plugin_dynamic_resource *r)
{
    struct cdi_list names = {0};
    vec_foreach(&part->devices, device) {
        vec_foreach(&device->cdi_device_ids, id)
            vec_push_arena(a, &names, ((struct plugin_cdi_device){*id}));
        struct plugin_claim_resource one = {
            .driver_name = part->name,
            .pool_name = device->pool_name,
            .device_name = device->device_name,
            .share_id = device->share_id,
            .has_share_id = device->has_share_id,
        };
        one.cdi_devices.p = names.p;
        one.cdi_devices.n = names.n;
        vec_push_arena(a, &r->claim_resources, one);
    }
}

static void podresources_add_claim(void *arg, const struct node_claim *claim)
{
    struct filling *f = arg;
    struct plugin_dynamic_resource r = {.claim_name = claim->name,
                                        .claim_namespace = claim->namespace};
    vec_foreach(&claim->drivers, part)
        podresources_add_driver(f->arena, part, &r);
    vec_push_arena(f->arena, &f->container->dynamic_resources, r);
}

static void podresources_add_container(struct podresources *p, struct arena *a,
                                       const struct api_pod *pod, const struct api_container *c,
                                       struct plugin_pod_resources *out)
{
    struct plugin_container_resources one = {.name = c->name};
    struct filling f = {p, a, &one};
    struct err err;
    // Unknown claims are left out, as kubelet does.
    if (dra_container_claims(p->options.dra, pod, c, podresources_add_claim, &f, &err) < 0)
        one = (struct plugin_container_resources){.name = c->name};
    if (p->options.devices)
        devplug_of_container(p->options.devices, pod->metadata.uid, c->name, a, &one);
    vec_push_arena(a, &out->containers, one);
}

static struct plugin_pod_resources podresources_of_pod(struct podresources *p, struct arena *a,
                                                       const struct typed_object *o)
{
    const struct api_pod *pod = o->object.value;
    struct plugin_pod_resources r = {.name = o->meta->name, .namespace = o->meta->namespace};
    for (size_t i = 0; i < pod->spec.init_containers.n; i++) {
        const struct api_container *c = &pod->spec.init_containers.p[i];
        if (c->has_restart_policy && str_eqz(c->restart_policy, "Always"))
            podresources_add_container(p, a, pod, c, &r);
    }
    for (size_t i = 0; i < pod->spec.containers.n; i++)
        podresources_add_container(p, a, pod, &pod->spec.containers.p[i], &r);
    return r;
}

static void podresources_reply(struct grpc_call *call, const struct plugin_message *m,
                               const void *value)
{
    cleanup_proto_writer struct proto_writer w = {0};
    plugin_encode(m, value, &w);
    grpc_reply(call, proto_written(&w));
}

// --- Methods -------------------------------------------------------------------------------------

struct listing {
    struct podresources *owner;
    struct arena *arena;
    struct plugin_list_pods_response response;
    struct str name, namespace; // of Get
    const struct typed_object *found;
};

static void podresources_list_pod(void *ctx, const struct typed_object *pod)
{
    struct listing *l = ctx;
    vec_push_arena(l->arena, &l->response.pod_resources,
                   podresources_of_pod(l->owner, l->arena, pod));
}

static void podresources_on_list(void *arg, struct grpc_call *call)
{
    struct podresources *p = arg;
    struct listing l = {.owner = p, .arena = call->arena};
    (void)p->options.pods(p->options.arg, podresources_list_pod, &l);
    podresources_reply(call, &plugin_list_pods_response_message, &l.response);
}

static void podresources_on_allocatable(void *arg, struct grpc_call *call)
{
    const struct podresources *p = arg;
    struct plugin_allocatable_response r = {0};
    if (p->options.devices)
        devplug_allocatable(p->options.devices, call->arena, &r);
    podresources_reply(call, &plugin_allocatable_response_message, &r);
}

static void podresources_find_pod(void *ctx, const struct typed_object *pod)
{
    struct listing *l = ctx;
    if (str_eq(pod->meta->name, l->name) && str_eq(pod->meta->namespace, l->namespace))
        l->found = pod;
}

static void podresources_on_get(void *arg, struct grpc_call *call)
{
    struct podresources *p = arg;
    struct plugin_get_pod_request q = {0};
    struct err err = {0};
    if (plugin_decode(&plugin_get_pod_request_message, call->request, &q, call->arena, &err) < 0) {
        grpc_finish(call, GRPC_INVALID_ARGUMENT, str_z(err.msg));
        return;
    }
    struct listing l = {
        .owner = p, .arena = call->arena, .name = q.pod_name, .namespace = q.pod_namespace};
    (void)p->options.pods(p->options.arg, podresources_find_pod, &l);
    if (!l.found) {
        struct str why = arena_strf(call->arena, "pod %.*s in namespace %.*s not found",
                                    STR_ARG(q.pod_name), STR_ARG(q.pod_namespace));
        grpc_finish(call, GRPC_UNKNOWN, why);
        return;
    }
    const struct plugin_get_pod_response r = {podresources_of_pod(p, call->arena, l.found)};
    podresources_reply(call, &plugin_get_pod_response_message, &r);
}

struct podresources *podresources_new(struct grpc_server *server,
                                      const struct podresources_options *options)
{
    struct podresources *p = xcalloc(1, sizeof(*p));
    p->options = *options;
    grpc_server_handle(server, STR(PLUGIN_PODRESOURCES "List"), podresources_on_list, p);
    grpc_server_handle(server, STR(PLUGIN_PODRESOURCES "GetAllocatableResources"),
                       podresources_on_allocatable, p);
    grpc_server_handle(server, STR(PLUGIN_PODRESOURCES "Get"), podresources_on_get, p);
    return p;
}

void podresources_free(struct podresources *p)
{
    free(p);
}
