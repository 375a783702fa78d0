// SPDX-License-Identifier: Apache-2.0
//
// A link of the fault proxy: a listener, where it leads to, what is wrong with it, and the connections
// that were made through it. Bytes of a connection keep their order; those of different connections
// overtake each other as the jitter wants it.
#ifndef FAULT_PROXY_H
#define FAULT_PROXY_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/rand.h"
#include "base/str.h"
#include "base/vec.h"

enum { UP, DOWN, WAYS }; // from the client to the server, and back

// What is wrong. All zero: nothing.
struct faults {
    int64_t delay_ms, jitter_ms; // of each piece
    int64_t rate;                // bytes a second in each direction; 0: as fast as it goes
    int64_t piece;               // at most so many bytes in one write, a random number of them
    int64_t reset;               // of 1000 pieces so many end their connection
    bool stalled[WAYS]; // bytes wait until this is over, as those of a partition that heals
    bool refuse;        // new connections are reset at once
    bool hang;          // new connections are accepted and lead nowhere until this is over
};

struct piece {
    int64_t due_ns;
    size_t n, sent;
    char *p;
};

struct pieces VEC(struct piece);

// One direction of a connection.
struct way {
    struct pieces queue;
    size_t first;   // of the queue that is not sent whole
    size_t waiting; // bytes
    int64_t last_due_ns;
    bool ended, told; // the source has said all; the other side has been told
};

struct conn {
    int fd[WAYS]; // fd[UP] reads from the client, fd[DOWN] from the server (-1: not connected yet)
    struct way way[WAYS];
    bool dead;
};

struct conns VEC(struct conn *);
struct polls VEC(struct pollfd);

struct link {
    struct str name; // heap
    char *listen_at, *target;
    int listener;
    struct faults faults;
    struct conns conns;
    uint64_t accepted, refused, resets, bytes[WAYS];
};

// link_open listens. Returns it, or NULL with *ret_why set.
struct link *link_open(struct str name, struct str listen_at, struct str target,
                       const char **ret_why);

// link_close ends all connections. A Unix socket's file is left to whoever has its name now.
void link_close(struct link *l);

// link_set changes one fault, "delay=20". Returns false if that makes no sense.
bool link_set(struct faults *f, struct str word);

// link_cut resets every connection there is.
void link_cut(struct link *l);

// link_poll adds what the link waits for, and lowers *until_ns to when it has something to do.
void link_poll(const struct link *l, struct polls *polls, int64_t now_ns, int64_t *until_ns);

// link_turn moves what can be moved.
void link_turn(struct link *l, struct rng *rng, int64_t now_ns);

#endif
