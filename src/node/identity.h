// SPDX-License-Identifier: Apache-2.0
//
// A node's certificates: each is requested with a CertificateSigningRequest; both of a node (as a
// client, and of its endpoint) are kept in files and renewed in time. Files hold certificate and
// key together, so that a rename replaces both.
#ifndef NODE_IDENTITY_H
#define NODE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/exec.h"
#include "client/client.h"

// --- One certificate -----------------------------------------------------------------------------

struct identity_request;

struct identity_request_options {
    struct client *client; // authenticates the request
    const char *node;
    const char *const *names; // NULL: as a client; else of its endpoint, NULL-terminated
    int64_t lifetime_s;       // 0: the signer's default
    int64_t timeout_ns;
    // done is called once, unless it is cancelled before. pem: certificate and key. code: 0,
    // -ERR_FORBIDDEN (denied), -ERR_TIMEOUT (not decided in time), -ERR_INVALID (it failed), or the
    // server's error.
    void (*done)(void *arg, int code, const struct err *err, struct str pem);
    void *arg;
};

// identity_ask makes a key and asks. Names are copied. NULL: done has been called already.
struct identity_request *identity_request_new(const struct identity_request_options *options);
void identity_request_cancel(struct identity_request *q);

// --- Both, in files ------------------------------------------------------------------------------

#define IDENTITY_CA      "ca.crt"
#define IDENTITY_CLIENT  "node-client.pem"
#define IDENTITY_SERVING "node-serving.pem"

struct identity;

struct identity_options {
    struct client *client; // borrowed; reads IDENTITY_CLIENT itself when it changes
    const char *folder;    // of the files
    const char *node;
    const char *const *names; // of the endpoint, NULL-terminated
    int64_t lifetime_s;       // requested; 0: the signer's default
    int64_t renew_after_s;    // after a certificate was made; 0: 70 to 90 % of its time
    void (*say)(void *arg, const char *line);
    void (*renewed)(void *arg, bool serving); // a file was replaced
    void *arg;
};

// identity_new keeps the certificates from now on; an endpoint's that the CA has not signed is
// replaced at once.
struct identity *identity_new(const struct identity_options *options);
void identity_free(struct identity *i);

// identity_placeholder creates the endpoint's file with a self-signed certificate, unless a valid
// one exists.
int identity_placeholder(const char *folder, const char *node, int64_t now_s,
                         struct err *err) MUST_USE;

#endif
