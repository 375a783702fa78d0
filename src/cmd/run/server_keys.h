// SPDX-License-Identifier: Apache-2.0
//
// The key for tokens of service accounts and the CA, replaced on disk while the server runs (dray
// rotate).
#ifndef CMD_RUN_SERVER_KEYS_H
#define CMD_RUN_SERVER_KEYS_H

#include "base/exec.h"
#include "net/loop.h"
#include "os/file.h"
#include "server/server.h"

struct server_keys {
    struct exec *exec;
    struct server *server;
    char *path; // owned
    struct file_stamp stamp;
    struct exec_timer timer;
};

// server_keys_follow looks at folder/sa.key every second from now on. server_keys_stop may be
// called
// for one that was never started (zeroed).
void server_keys_follow(struct server_keys *k, struct exec *exec, struct server *server,
                        const char *folder);
void server_keys_stop(struct server_keys *k);

// The CA's certificates in a file.
struct server_ca {
    struct loop *loop;
    const char *path;
    struct file_stamp stamp, seen; // taken up; about to be
    struct exec_timer timer;
    // prepare writes files for what the file holds now, on another thread; changed takes them up,
    // on the loop. Return 0, or a negative code: both are called again later.
    int (*prepare)(void *arg, struct err *err);
    int (*changed)(void *arg, struct err *err);
    void *arg;
    int result; // of prepare
    struct err err;
    bool stopped;
};

// server_ca_follow looks at the file every second from now on. path is borrowed; prepare, changed
// and arg are set. server_ca_stop may be called for one that was never started (zeroed).
void server_ca_follow(struct server_ca *c, struct loop *loop, const char *path);
void server_ca_stop(struct server_ca *c);

#endif
