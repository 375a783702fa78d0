// SPDX-License-Identifier: Apache-2.0
//
// Bootstrap tokens: ID.SECRET, with which a new machine may request to become a node. Each is a
// Secret of type bootstrap.kubernetes.io/token, as kubeadm makes them. No message here holds a
// secret.
#ifndef API_BOOTSTRAP_H
#define API_BOOTSTRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/types.h"
#include "base/arena.h"
#include "base/err.h"

#define BOOTSTRAP_TYPE      "bootstrap.kubernetes.io/token"
#define BOOTSTRAP_NAMESPACE "kube-system"
#define BOOTSTRAP_PREFIX    "bootstrap-token-"
#define BOOTSTRAP_GROUP     "system:bootstrappers"
// Whose requests for a node's certificate are approved, unless a token names other groups;
// kubeadm's name for it.
#define BOOTSTRAP_NODE_GROUP "system:bootstrappers:kubeadm:default-node-token"
#define BOOTSTRAP_ID_LEN     6
#define BOOTSTRAP_SECRET_LEN 16

struct bootstrap_token {
    struct str id, secret;
};

// bootstrap_token_parse reads [a-z0-9]{6}.[a-z0-9]{16}; the parts point into text.
bool bootstrap_token_parse(struct str text, struct bootstrap_token *ret);

// The content of such a Secret. Texts point into it, or live in arena.
struct bootstrap_secret {
    struct bootstrap_token token;
    struct str description;
    int64_t expires;         // seconds since 1970; 0: never
    bool authenticates;      // may be shown to the server
    bool signs;              // signs cluster-info
    const struct str *extra; // groups besides BOOTSTRAP_GROUP
    size_t extra_len;
};

// bootstrap_secret_read reads one. Returns 0, or -ERR_INVALID with what is wrong: another type, a
// name that is not the ID's, a time or a group that is none.
int bootstrap_secret_read(const struct api_secret *secret, struct arena *arena,
                          struct bootstrap_secret *ret, struct err *err) MUST_USE;

// bootstrap_group_ok: a group that a token may put its owner into.
bool bootstrap_group_ok(struct str group);

static inline bool bootstrap_expired(const struct bootstrap_secret *s, int64_t now)
{
    return s->expires && s->expires <= now;
}

#endif
