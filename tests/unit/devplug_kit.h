// SPDX-License-Identifier: Apache-2.0
//
// A device plugin for tests: answers what a kubelet asks and writes down what it was asked, in memory (dra_kit.h) or
// over a socket.
#ifndef UNIT_DEVPLUG_KIT_H
#define UNIT_DEVPLUG_KIT_H

#include "dra_kit.h"

struct fake_plugin {
    struct kit_driver driver; // first; hang and rpc_error count here, too
    struct sbuf log;          // "options;allocate a b;prefer 2 of a b c with a;prestart a;"
    bool pre_start, preferred;
    const char *likes;     // ids it prefers, by spaces
    bool answers_nothing;  // no container in an answer of Allocate
    const char *host_file; // mounted at /from-plugin; NULL: none
    const char *host_node; // a device node that becomes /dev/ID; NULL: none
    const char *cdi_kind;  // "vendor/class": a CDI device for each; NULL: none
};

void fake_plugin_init(struct fake_plugin *p);
void fake_plugin_done(struct fake_plugin *p);

// fake_plugin_list writes a message of ListAndWatch: "a b! c@1": b is not healthy, c is of NUMA node 1.
void fake_plugin_list(struct sbuf *out, const char *devices);

// --- Over a socket -------------------------------------------------------------------------------

struct served_plugin {
    struct fake_plugin *plugin;
    struct grpc_server *server;
    struct grpc_call *stream; // of ListAndWatch
    const char *devices;      // that a new stream is told
};

// served_plugin_listen serves at a path. Returns as grpc_server_listen.
int served_plugin_listen(struct served_plugin *s, struct loop *loop, const char *path,
                         struct err *err) MUST_USE;
void served_plugin_tell(struct served_plugin *s, const char *devices);
void served_plugin_stop(struct served_plugin *s);

#endif
