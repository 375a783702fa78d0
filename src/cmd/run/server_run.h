// SPDX-License-Identifier: Apache-2.0
//
// Running an API server in this process, alone or with the components of `dray up`.
#ifndef CMD_RUN_SERVER_RUN_H
#define CMD_RUN_SERVER_RUN_H

#include "api/features.h"
#include "base/err.h"
#include "cmd/run/server_options.h"
#include "net/loop.h"
#include "pki/pki.h"
#include "registry/registry.h"
#include "server/server.h"

// What a guest of the server's process gets to see.
struct server_host {
    struct loop *loop;
    struct registry *registry;
    struct server *server;
    const struct features *features;
    const char *url;
    const char *public_url; // as other machines reach it
    const char *kubeconfig;
    const struct pki *pki; // NULL with plain HTTP
};

struct server_guest {
    // start runs when the server listens, before its loop turns. stop runs on the loop when the
    // server begins to stop; the guest calls done(done_arg) on the loop when it has stopped. free
    // runs when the store is closed and before the registry goes, also after a start that failed.
    int (*start)(void *arg, const struct server_host *host, struct err *err);
    void (*stop)(void *arg, exec_fn done, void *done_arg);
    void (*free)(void *arg);
    // ca_changed runs on the loop when the CA was replaced and certificates have been renewed. May
    // be NULL.
    void (*ca_changed)(void *arg);
    void *arg;
};

// server_run serves with server_flags until it is stopped. Returns one of VERB_*.
int server_run(const char *verb, const struct server_guest *guest);

#endif
