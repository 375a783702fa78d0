// SPDX-License-Identifier: Apache-2.0
//
// The registration socket of device plugins: a gRPC server that hands requests to devplug_register.
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/mem.h"
#include "net/loop.h"
#include "node/devplug/devplug_int.h"
#include "os/fault.h"

#include "base/banned.h"

// A registration whose plugin may go before it is answered.
struct registering {
    struct grpc_call *call; // NULL: it is gone
};

static void devplug_serve_on_call_cancelled(void *arg)
{
    struct registering *r = arg;
    r->call = NULL;
}

static void devplug_serve_on_registered(void *arg, int code, const struct err *err)
{
    struct registering *r = arg;
    if (r->call && code == 0)
        grpc_reply(r->call, STR(""));
    else if (r->call)
        grpc_finish(r->call, GRPC_UNKNOWN, str_z(err->msg)); // what Go makes of an error
    free(r);
}

static void devplug_serve_on_register(void *arg, struct grpc_call *call)
{
    struct plugin_register_request q = {0};
    struct err err = {0};
    if (plugin_decode(&plugin_register_request_message, call->request, &q, call->arena, &err) < 0) {
        grpc_finish(call, GRPC_INVALID_ARGUMENT, str_z(err.msg));
        return;
    }
    struct registering *r = xcalloc(1, sizeof(*r));
    r->call = call;
    call->closed = devplug_serve_on_call_cancelled;
    call->arg = r;
    devplug_register(arg, &q, devplug_serve_on_registered, r);
}

// Plugins take the end of their socket, or a new kubelet.sock, as the sign to register again.
static void devplug_serve_remove_sockets(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *e;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of our own
    while (dir && (e = readdir(dir))) {
        struct stat st;
        if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode))
            (void)unlinkat(dirfd(dir), e->d_name, 0);
    }
    if (dir)
        (void)closedir(dir);
}

int devplug_serve(struct devplug *d, struct loop *loop, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s/%s", d->folder, DEVPLUG_SOCKET);
    int r = net_clear_path(path.p, err); // nothing is removed under the eyes of a kubelet
    if (r < 0)
        return r;
    fault_point("remove the sockets of plugins");
    devplug_serve_remove_sockets(d->folder);
    d->server = grpc_server_new(loop, NULL);
    grpc_server_handle(d->server, STR(PLUGIN_REGISTER), devplug_serve_on_register, d);
    return grpc_server_listen(d->server, path.p, err);
}
