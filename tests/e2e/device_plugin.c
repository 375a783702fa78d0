// SPDX-License-Identifier: Apache-2.0
//
// A device plugin for tests/e2e/device_plugin.py: device_plugin FOLDER SOCKET RESOURCE DEVICES HOST-FILE. It serves
// at FOLDER/SOCKET, registers at FOLDER/kubelet.sock, again when that was made anew, and offers DEVICES ("a b! c"). On
// SIGUSR1 all of them are unhealthy.
#include <signal.h>
#include <stdio.h>

#include <sys/stat.h>

#include "devplug_kit.h"

#include "base/banned.h"

static struct {
    struct loop *loop;
    struct fake_plugin plugin;
    struct served_plugin served;
    struct grpc_client *kubelet;
    const char *folder, *name, *resource;
    char socket[200], own[200];
    int64_t made_ns; // of kubelet.sock, when it was last registered with
    struct exec_timer look;
} me;

static void on_registered(void *arg, const struct grpc_result *r)
{
    (void)arg;
    printf("registered: %s %.*s\n", grpc_status_name(r->status), STR_ARG(r->message));
    (void)fflush(stdout);
    if (r->status != GRPC_OK)
        me.made_ns = 0;
}

static void enrol(void)
{
    cleanup_proto_writer struct proto_writer w = {0};
    struct err err = {0};
    const struct plugin_register_request q = {.version = STR(PLUGIN_ID_DEVICES),
                                              .endpoint = str_z(me.name),
                                              .resource_name = str_z(me.resource)};
    plugin_encode(&plugin_register_request_message, &q, &w);
    // A kubelet that starts removes the sockets of plugins.
    served_plugin_stop(&me.served);
    if (served_plugin_listen(&me.served, me.loop, me.own, &err) < 0)
        fail_msg("%s", err.msg);
    if (me.kubelet)
        grpc_client_free(me.kubelet);
    const struct grpc_client_options o = {.loop = me.loop, .path = me.socket};
    me.kubelet = grpc_client_new(&o);
    const struct grpc_request call = {.method = STR(PLUGIN_REGISTER),
                                      .message = proto_written(&w),
                                      .wait_for_ready = true,
                                      .timeout_ns = 20 * CLOCK_NS_PER_SEC,
                                      .done = on_registered};
    (void)grpc_client_call(me.kubelet, &call);
}

static void on_look(void *arg)
{
    struct stat st;
    (void)arg;
    exec_timer_start(loop_exec(me.loop), &me.look, CLOCK_NS_PER_SEC / 20);
    if (stat(me.socket, &st) != 0)
        return;
    int64_t made = (int64_t)st.st_ctim.tv_sec * CLOCK_NS_PER_SEC + st.st_ctim.tv_nsec;
    if (made == me.made_ns)
        return;
    me.made_ns = made;
    enrol();
}

static void on_stop(void *arg)
{
    (void)arg;
    loop_stop(me.loop);
}

static void on_sick(void *arg)
{
    (void)arg;
    served_plugin_tell(&me.served, "a! b!");
}

int main(int argc, char **argv)
{
    struct err err = {0};
    if (argc != 6 || loop_new(&me.loop, &err) < 0 ||
        loop_on_signal(me.loop, SIGTERM, on_stop, NULL, &err) < 0 ||
        loop_on_signal(me.loop, SIGUSR1, on_sick, NULL, &err) < 0)
        return 1;
    fake_plugin_init(&me.plugin);
    me.plugin.pre_start = me.plugin.preferred = true;
    me.plugin.host_file = argv[5];
    me.plugin.host_node = "/dev/zero";
    me.served.plugin = &me.plugin;
    me.served.devices = argv[4];
    me.folder = argv[1];
    me.name = argv[2];
    me.resource = argv[3];
    (void)snprintf(me.socket, sizeof(me.socket), "%s/kubelet.sock", me.folder);
    (void)snprintf(me.own, sizeof(me.own), "%s/%s", me.folder, me.name);
    me.look = (struct exec_timer){.fn = on_look};
    exec_timer_start(loop_exec(me.loop), &me.look, 0);
    loop_run(me.loop);
    exec_timer_stop(loop_exec(me.loop), &me.look);
    if (me.kubelet)
        grpc_client_free(me.kubelet);
    served_plugin_stop(&me.served);
    loop_free(me.loop);
    fake_plugin_done(&me.plugin);
    return 0;
}
