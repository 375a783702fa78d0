// SPDX-License-Identifier: Apache-2.0
//
// Joins a machine to a cluster by an address, a token and the hash of a CA: discovery, the check of
// hash and signature, a certificate, files (docs/design/join.md). The token is sent only to a
// server whose certificate the CA of that hash has signed. Blocks; for the time before an agent
// runs.
#ifndef NODE_JOIN_H
#define NODE_JOIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct join_options {
    struct str address;   // HOST:PORT
    struct str token;     // ID.SECRET
    struct str ca_hash;   // sha256:HEX
    const char *node;     // its name
    const char *data_dir; // where DIR/pki and DIR/node.kubeconfig are made
    int64_t lifetime_s;   // of the certificate; 0: the signer's default
    int64_t timeout_ns;   // for the whole
    void (*say)(void *arg, const char *line);
    void *arg;
};

// What an earlier join has left.
struct join_state {
    bool joined;            // the files are there and the certificate is good
    bool expired;           // they are there, and it is not
    struct sbuf node;       // its name there
    struct sbuf server;     // URL
    struct sbuf kubeconfig; // path
};

// join_read_state reads the files. Returns 0, or -ERR_INVALID: they are there and cannot be read.
int join_read_state(const char *data_dir, int64_t now_s, struct join_state *ret,
                    struct err *err) MUST_USE;
void join_state_done(struct join_state *s);

// join_run joins. Returns 0; -ERR_UNAVAILABLE (no answer), -ERR_CONFLICT (another CA, or a living
// node of that name), -ERR_UNAUTHORIZED (the token), -ERR_FORBIDDEN (denied), -ERR_TIMEOUT,
// -ERR_INVALID, or -errno of a file.
int join_run(const struct join_options *options, struct err *err) MUST_USE;

#endif
