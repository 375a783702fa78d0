// SPDX-License-Identifier: Apache-2.0
//
// Asking the server that runs on this machine, over the socket in its data directory: a process
// that can open that is an administrator.
#ifndef CMD_LOCAL_H
#define CMD_LOCAL_H

#include "base/err.h"
#include "base/str.h"

// local_request sends a request without a body and adds the body of the answer to out. Returns 0
// for 200; -ERR_NOT_FOUND for 404, -ERR_UNAVAILABLE for 503, else -ERR_INTERNAL with the server's
// message; or -ECONNREFUSED with what to do.
int local_request(const char *socket_path, const char *method, const char *target, struct sbuf *out,
                  struct err *err) MUST_USE;

// local_escape adds a text as a value of a query.
void local_escape(struct sbuf *out, struct str text);

// local_socket adds the path of the socket: path itself, or that of a data directory, or of the
// default one (~/.dray).
void local_socket(struct sbuf *out, const char *path, const char *data_dir);

#endif
