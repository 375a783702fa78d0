// SPDX-License-Identifier: Apache-2.0
//
// The inside of the SDK: runtime and driver. Everything here happens on the loop's thread, but for
// the driver's own thread, which runs core and the callbacks and takes its work from a queue.
#ifndef DRIVER_SDK_SDK_H
#define DRIVER_SDK_SDK_H

#include <pthread.h>

#include "base/list.h"
#include "base/map.h"
#include "client/client.h"
#include "client/events.h"
#include "client/informer.h"
#include "client/kubeconfig.h"
#include "client/work.h"
#include "dray/driver.h"
#include "driver/plugin_api.h"
#include "driver/sdk/core.h"
#include "driver/sdk/publish.h"
#include "net/grpc.h"
#include "net/loop.h"
#include "os/fault.h"

struct dray_runtime {
    struct loop *loop;
    struct client *client;
    struct exec *exec;
    struct list drivers;
    struct kubeconfig config;
    size_t stopping; // drivers that still have calls
    int64_t minor;   // of the API server's version; 0: not known
    bool borrowed;   // loop and client are somebody else's
    bool stopped;
};

// sdk_runtime_around makes a runtime on a loop and a client that exist and outlive it: for tests
// and for programs that do more.
struct dray_runtime *sdk_runtime_around(struct loop *loop, struct client *client);

// Work for the driver's thread: run there, then done on the loop.
struct sdk_job {
    struct list_node node;
    struct dray_driver *driver;
    exec_fn run;
    exec_fn done;
    void *arg;
};

// Something that waits for an answer; the driver may be gone when that comes.
struct sdk_pending {
    struct list_node node;      // of the driver's pendings
    struct dray_driver *driver; // NULL: gone
};

struct sdk_health {
    char *pool, *device, *message;
    enum dray_health health;
    int64_t since_sec;
};

struct sdk_healths MAP(struct sdk_health);

struct dray_driver {
    struct list_node node; // of the runtime's drivers
    struct dray_runtime *runtime;
    struct arena arena;
    struct dray_driver_options o; // texts in arena, none NULL but node and instance
    const char *data_dir;
    const char *endpoint; // dra.sock
    const char *registration;
    struct core *core; // NULL without a node
    struct publisher *publisher;
    struct grpc_server *registrar, *server;
    struct event_recorder *events;
    struct list pendings; // calls of kubelet and questions to the API server
    struct list streams;  // of health
    struct sdk_healths health;
    struct exec_timer health_timer;
    struct exec_timer collect_timer;
    struct informer *claims; // of attach
    struct work *attach;
    const struct fault_hook *faults; // of the driver's thread; NULL: none
    size_t open_servers;

    struct { // the thread that runs callbacks
        pthread_t thread;
        bool has_thread;
        pthread_mutex_t lock; // guards jobs and quit
        pthread_cond_t wake;
        struct list jobs;
        bool quit;
    };
};

// sdk_driver_start is dray_driver_start with a fault hook for the driver's thread (borrowed; may be
// NULL).
int sdk_driver_start(struct dray_runtime *r, const struct dray_driver_options *options,
                     const struct fault_hook *faults, struct dray_driver **ret,
                     struct err *err) MUST_USE;

// sdk_driver_stop ends the sockets; the runtime is notified when nothing is under way.
void sdk_driver_stop(struct dray_driver *d);

// sdk_driver_end lets callbacks that run come to their end and begins none; what was posted of the
// driver may still be done. sdk_driver_free does it too.
void sdk_driver_end(struct dray_driver *d);
void sdk_driver_free(struct dray_driver *d);

// sdk_job runs run(arg) on the driver's thread, then done(arg) on the loop.
void sdk_job(struct dray_driver *d, exec_fn run, exec_fn done, void *arg);

// sdk_trouble reports a background failure to the driver.
void sdk_trouble(struct dray_driver *d, const struct err *err);

// sdk_claim makes what callbacks see of a claim out of the object, for the devices of one driver,
// in arena. Returns 0 or -ERR_INVALID: it is not allocated.
int sdk_claim(const struct api_resource_claim *object, struct str driver, struct arena *arena,
              struct dray_claim *ret, struct err *err) MUST_USE;

// --- Its parts -----------------------------------------------------------------------------------

// sdk_plugin_open opens the sockets and adds the services (plugin.c).
int sdk_plugin_open(struct dray_driver *d, struct err *err) MUST_USE;
void sdk_plugin_close(struct dray_driver *d); // ends what is under way
void sdk_registration_name(struct sbuf *out, const char *dir, const char *driver,
                           const char *instance);

// sdk_health_open adds the health services (health.c).
void sdk_health_open(struct dray_driver *d);
void sdk_health_close(struct dray_driver *d);

// sdk_attach_open watches claims (attach.c).
void sdk_attach_open(struct dray_driver *d);
void sdk_attach_look(struct dray_driver *d); // at all claims again
void sdk_attach_close(struct dray_driver *d);

// sdk_collect_open looks now and then for claims that are held but gone (collect.c).
void sdk_collect_open(struct dray_driver *d);
void sdk_collect_close(struct dray_driver *d);

// sdk_write_status merges a JSON array into a claim's status.devices. done may be NULL.
void sdk_write_status(struct dray_driver *d, const struct dray_claim *claim, struct str devices,
                      client_done_fn done, void *arg);

#endif
