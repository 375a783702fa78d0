// SPDX-License-Identifier: Apache-2.0
#include "devplug_kit.h"

#include "base/banned.h"

static void add_ids(struct sbuf *out, const struct plugin_strs *ids, const char *between)
{
    vec_foreach(ids, id) {
        if (id != ids->p)
            sbuf_addz(out, between);
        sbuf_add(out, *id);
    }
}

static void answer_options(struct fake_plugin *p, struct proto_writer *w)
{
    const struct plugin_devices_options o = {.pre_start_required = p->pre_start,
                                             .preferred_allocation_available = p->preferred};
    sbuf_addz(&p->log, "options;");
    plugin_encode(&plugin_devices_options_message, &o, w);
}

static void allocate_one(struct fake_plugin *p, const struct plugin_device_ids *q, struct arena *a,
                         struct plugin_allocation *out)
{
    cleanup_sbuf struct sbuf ids = {0};
    add_ids(&ids, &q->ids, ",");
    struct str all = arena_str(a, sbuf_str(&ids));
    vec_push_arena(a, &out->envs, ((struct plugin_pair){STR("DEVICES"), all}));
    vec_push_arena(a, &out->annotations, ((struct plugin_pair){STR("example.com/devices"), all}));
    if (p->host_file)
        vec_push_arena(a, &out->mounts,
                       ((struct plugin_mount){STR("/from-plugin"), str_z(p->host_file), true}));
    vec_foreach(&q->ids, id) {
        if (p->host_node)
            vec_push_arena(a, &out->devices,
                           ((struct plugin_device_node){arena_strf(a, "/dev/%.*s", STR_ARG(*id)),
                                                        str_z(p->host_node), STR("rw")}));
        if (p->cdi_kind)
            vec_push_arena(
                a, &out->cdi_devices,
                ((struct plugin_cdi_device){arena_strf(a, "%s=%.*s", p->cdi_kind, STR_ARG(*id))}));
    }
}

static void answer_allocate(struct fake_plugin *p, struct str request, struct arena *a,
                            struct proto_writer *w)
{
    struct plugin_devices_by_container q = {0};
    struct plugin_allocate_response r = {0};
    assert_int_equal(plugin_decode(&plugin_devices_by_container_message, request, &q, a, NULL), 0);
    vec_foreach(&q.containers, c) {
        struct plugin_allocation one = {0};
        sbuf_addz(&p->log, "allocate ");
        add_ids(&p->log, &c->ids, " ");
        sbuf_addc(&p->log, ';');
        allocate_one(p, c, a, &one);
        if (!p->answers_nothing)
            vec_push_arena(a, &r.containers, one);
    }
    plugin_encode(&plugin_allocate_response_message, &r, w);
}

static void answer_preferred(struct fake_plugin *p, struct str request, struct arena *a,
                             struct proto_writer *w)
{
    struct plugin_preferred_request q = {0};
    struct plugin_devices_by_container r = {0};
    struct plugin_device_ids one = {0};
    struct str rest = str_z(p->likes), id;
    assert_int_equal(plugin_decode(&plugin_preferred_request_message, request, &q, a, NULL), 0);
    assert_int_equal(q.containers.n, 1);
    sbuf_addf(&p->log, "prefer %lld of ", (long long)q.containers.p[0].size);
    add_ids(&p->log, &q.containers.p[0].available, " ");
    if (q.containers.p[0].must_include.n > 0)
        sbuf_addz(&p->log, " with ");
    add_ids(&p->log, &q.containers.p[0].must_include, " ");
    sbuf_addc(&p->log, ';');
    while (rest.n > 0) {
        (void)str_cut(rest, ' ', &id, &rest);
        vec_push_arena(a, &one.ids, id);
    }
    vec_push_arena(a, &r.containers, one);
    plugin_encode(&plugin_devices_by_container_message, &r, w);
}

static void answer_pre_start(struct fake_plugin *p, struct str request, struct arena *a)
{
    struct plugin_device_ids q = {0};
    assert_int_equal(plugin_decode(&plugin_device_ids_message, request, &q, a, NULL), 0);
    sbuf_addz(&p->log, "prestart ");
    add_ids(&p->log, &q.ids, " ");
    sbuf_addc(&p->log, ';');
}

static enum grpc_status answer(struct kit_driver *d, struct str method, struct str request,
                               struct sbuf *out)
{
    struct fake_plugin *p = container_of(d, struct fake_plugin, driver);
    cleanup_arena struct arena a = {0};
    cleanup_proto_writer struct proto_writer w = {0};
    if (d->rpc_error) {
        sbuf_addz(out, d->rpc_error);
        return GRPC_FAILED_PRECONDITION;
    }
    if (str_eqz(method, PLUGIN_DEVICES "GetDevicePluginOptions"))
        answer_options(p, &w);
    else if (str_eqz(method, PLUGIN_DEVICES "Allocate"))
        answer_allocate(p, request, &a, &w);
    else if (str_eqz(method, PLUGIN_DEVICES "GetPreferredAllocation"))
        answer_preferred(p, request, &a, &w);
    else if (str_eqz(method, PLUGIN_DEVICES "PreStartContainer"))
        answer_pre_start(p, request, &a);
    else
        return GRPC_UNIMPLEMENTED;
    sbuf_add(out, proto_written(&w));
    return GRPC_OK;
}

void fake_plugin_init(struct fake_plugin *p)
{
    *p = (struct fake_plugin){.driver = {.answer = answer}};
}

void fake_plugin_done(struct fake_plugin *p)
{
    sbuf_done(&p->log);
    kit_driver_done(&p->driver);
}

void fake_plugin_list(struct sbuf *out, const char *devices)
{
    cleanup_arena struct arena a = {0};
    cleanup_proto_writer struct proto_writer w = {0};
    struct plugin_device_list l = {0};
    struct str rest = str_z(devices), one, node;
    while (rest.n > 0) {
        struct plugin_listed_device d = {.health = STR(PLUGIN_DEVICE_HEALTHY)};
        (void)str_cut(rest, ' ', &one, &rest);
        if (str_ends(one, STR("!"))) {
            d.health = STR("Unhealthy");
            one.n--;
        }
        if (str_cut(one, '@', &d.id, &node)) {
            struct plugin_topology t = {0};
            struct plugin_numa_node n;
            assert_int_equal(str_to_i64(node, &n.id), 0);
            vec_push_arena(&a, &t.nodes, n);
            vec_push_arena(&a, &d.topology, t);
        }
        vec_push_arena(&a, &l.devices, d);
    }
    plugin_encode(&plugin_device_list_message, &l, &w);
    sbuf_add(out, proto_written(&w));
}

// --- Over a socket -------------------------------------------------------------------------------

static void on_unary(void *arg, struct grpc_call *call)
{
    struct served_plugin *s = arg;
    cleanup_sbuf struct sbuf out = {0};
    enum grpc_status status =
        kit_driver_answer(&s->plugin->driver, call->method, call->request, &out);
    if (status == GRPC_OK)
        grpc_reply(call, sbuf_str(&out));
    else
        grpc_finish(call, status, sbuf_str(&out));
}

static void on_stream_closed(void *arg)
{
    struct served_plugin *s = arg;
    s->stream = NULL;
}

void served_plugin_tell(struct served_plugin *s, const char *devices)
{
    cleanup_sbuf struct sbuf message = {0};
    s->devices = devices;
    fake_plugin_list(&message, devices);
    if (s->stream)
        (void)grpc_send(s->stream, sbuf_str(&message));
}

static void on_stream(void *arg, struct grpc_call *call)
{
    struct served_plugin *s = arg;
    call->closed = on_stream_closed;
    call->arg = s;
    s->stream = call;
    served_plugin_tell(s, s->devices);
}

int served_plugin_listen(struct served_plugin *s, struct loop *loop, const char *path,
                         struct err *err)
{
    static const char *const methods[] = {PLUGIN_DEVICES "GetDevicePluginOptions",
                                          PLUGIN_DEVICES "GetPreferredAllocation",
                                          PLUGIN_DEVICES "Allocate",
                                          PLUGIN_DEVICES "PreStartContainer"};
    s->server = grpc_server_new(loop, NULL);
    for (size_t i = 0; i < array_len(methods); i++)
        grpc_server_handle(s->server, str_z(methods[i]), on_unary, s);
    grpc_server_handle(s->server, STR(PLUGIN_DEVICES "ListAndWatch"), on_stream, s);
    return grpc_server_listen(s->server, path, err);
}

void served_plugin_stop(struct served_plugin *s)
{
    grpc_server_free(take_ptr(s->server));
}
