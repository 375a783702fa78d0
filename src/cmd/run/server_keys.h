// SPDX-License-Identifier: Apache-2.0
//
// The key for tokens of service accounts, replaced on disk while the server runs (dray rotate).
#ifndef CMD_RUN_SERVER_KEYS_H
#define CMD_RUN_SERVER_KEYS_H

#include "base/exec.h"
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

#endif
