// SPDX-License-Identifier: Apache-2.0
//
// A network between the parts of a simulated control plane and its server. Requests and answers
// take their time, and so may overtake each other; requests get lost, and answers of requests that
// were carried out; watches lag and are cut. All of it follows from the seed.
#ifndef SIM_NET_H
#define SIM_NET_H

#include "base/exec.h"
#include "base/list.h"
#include "base/rand.h"
#include "client/client.h"

struct net {
    struct exec *exec; // where requests travel
    struct rng *rng;
    struct client *server; // on the server's exec; NULL: it is down
    struct list clients;
    struct list orphans; // requests of parts that are gone
    bool faulty;
    uint64_t trace;    // hash of everything that came to its end
    uint64_t messages; // how many did
    bool verbose;
};

void net_init(struct net *n, struct exec *exec, struct rng *rng);

// net_trace folds words into the trace.
void net_trace(struct net *n, uint64_t a, uint64_t b);

// net_client_new makes a client of the server that is answered on exec.
struct client *net_client_new(struct net *n, struct exec *exec, const char *who);

// net_client_kill ends a client whose owner has been freed: answers find nobody, requests that are
// on their way arrive or not. Frees it.
void net_client_kill(struct client *c);

// net_server_lost is called before the server goes: what it has not answered will not be, watches
// break. Afterwards n->server is NULL.
void net_server_lost(struct net *n);

#endif
