// SPDX-License-Identifier: Apache-2.0
//
// A command in a container, through any API server: Kubernetes' remote command protocol
// (v5.channel.k8s.io) over a WebSocket.
#ifndef CLIENT_REMOTE_EXEC_H
#define CLIENT_REMOTE_EXEC_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "client/client.h"

struct remote_exec;

struct remote_exec_options {
    struct str target; // path and query of pods/exec or pods/attach
    void (*opened)(void *arg);
    void (*output)(void *arg, bool error, struct str bytes);
    void (*drained)(void *arg); // after remote_exec_input refused
    // done runs once, last: code 0 and the command's exit status, or a negative code.
    void (*done)(void *arg, int code, int exit_status, const struct err *err);
    void *arg;
};

// remote_exec_new asks for it; client must be one of client_remote_new whose last call was
// answered.
int remote_exec_new(struct client *c, const struct remote_exec_options *options,
                    struct remote_exec **ret, struct err *err) MUST_USE;

// remote_exec_input sends bytes to the command; an empty text ends its input. False: too much
// waits; hold until drained.
bool remote_exec_input(struct remote_exec *x, struct str bytes);

// remote_exec_resize sends the size of the terminal.
void remote_exec_resize(struct remote_exec *x, size_t columns, size_t rows);

// remote_exec_free ends it, before done or after. NULL is legal.
void remote_exec_free(struct remote_exec *x);

// remote_exec_status reads the server's status at the end: 0 and the exit status, or a negative
// code. For tests and fuzzers.
int remote_exec_status(struct str text, int *ret_exit_status, struct err *err) MUST_USE;

#endif
