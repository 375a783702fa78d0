// SPDX-License-Identifier: Apache-2.0
//
// What the files of `dray kubelet-stub` share: the command line, and a DRA manager with what it
// needs.
#ifndef LAB_KUBELET_STUB_H
#define LAB_KUBELET_STUB_H

#include <stdbool.h>

#include "client/kubeconfig.h"
#include "cmd/engine/cli.h"
#include "net/loop.h"
#include "node/dra.h"

struct stub_args {
    struct cli_texts words, files, cdi_dirs;
    const char *registry, *plugins, *state, *node, *pod_resources;
    int64_t timeout_s, wait_s;
    const char *output; // json, or NULL
    bool wipe;
};

struct stub_claims VEC(const struct typed_object *);

struct stub {
    const struct stub_args *args;
    struct loop *loop;
    struct kubeconfig config;
    struct client *client; // NULL: no API server
    struct transport *transport;
    struct disk *disk;
    struct features features;
    struct dra *dra;
    struct sbuf state;         // its folder
    struct stub_claims claims; // to prepare
    size_t fetching, next;
    bool failed;
    int64_t begun_ns;
    struct err err;
    // When everything that is waited for is there, or too much time has passed, go is called once.
    bool (*ready)(struct stub *s, size_t unsettled);
    void (*go)(struct stub *s);
    int64_t give_up_ns;
    bool gone;
};

// kubelet_stub_open makes the loop, the client (if a server is named) and the manager, whose
// options can be changed by `more` before. Returns 0 or a negative code.
int kubelet_stub_open(struct stub *s, void (*more)(struct stub *s, struct dra_options *o),
                      struct err *err) MUST_USE;
void kubelet_stub_close(struct stub *s);

// kubelet_stub_has_server: an API server is named, by options or, without files, by $KUBECONFIG.
bool kubelet_stub_has_server(const struct stub_args *args);

extern struct stub_args stub_args; // of the command line

// kubelet_stub_run is the verb that stays. Returns VERB_*.
int kubelet_stub_run(void);

// kubelet_stub_show_claim prints what a claim came to: devices, CDI names and what these change in
// a container.
void kubelet_stub_show_claim(const struct stub_args *args, const struct node_claim *claim,
                             int64_t took_ns);

// kubelet_stub_show_edits prints what CDI names change; returns whether all of them are known.
bool kubelet_stub_show_edits(const struct stub_args *args, const struct str *ids, size_t n);

#endif
