// SPDX-License-Identifier: Apache-2.0
//
// A DRA driver that prepares whatever it is asked to, for tests/e2e/kubelet_stub.py: dra_driver FOLDER. It
// listens in FOLDER/registry and FOLDER/plugins. On SIGUSR1 it reports its device dev-a as unhealthy.
#include <signal.h>

#include "dra_kit.h"

#include "base/banned.h"

static struct kit_served served;

static void on_stop(void *arg)
{
    kit_serve_stop(&served);
    loop_stop(arg);
}

static void on_report(void *arg)
{
    (void)arg;
    cleanup_sbuf struct sbuf message = {0};
    kit_health(&message, "pool/dev-a=u:hot");
    if (served.stream)
        (void)grpc_send(served.stream, sbuf_str(&message));
}

int main(int argc, char **argv)
{
    struct loop *loop;
    struct kit_driver driver = {.name = "gpu.example.com",
                                .versions = {PLUGIN_ID_DRA_V1, PLUGIN_ID_HEALTH_V1}};
    struct err err = {0};
    if (argc != 2 || loop_new(&loop, &err) < 0 ||
        loop_on_signal(loop, SIGTERM, on_stop, loop, &err) < 0 ||
        loop_on_signal(loop, SIGUSR1, on_report, loop, &err) < 0)
        return 1;
    kit_serve(&served, loop, &driver, argv[1], "gpu");
    puts("serving");
    (void)fflush(stdout);
    loop_run(loop);
    loop_free(loop);
    kit_driver_done(&driver);
    return 0;
}
