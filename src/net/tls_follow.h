// SPDX-License-Identifier: Apache-2.0
//
// A server whose certificate, key or CA is replaced on disk while it runs: connections made from
// then on use the new ones.
#ifndef NET_TLS_FOLLOW_H
#define NET_TLS_FOLLOW_H

#include "base/exec.h"
#include "net/tls.h"

struct tls_follow {
    struct exec *exec;
    struct tls_server *tls;
    struct exec_timer timer;
};

// tls_follow_start looks at the files every second from now on. tls must live until
// tls_follow_stop, which may be called for one that was never started (zeroed).
void tls_follow_start(struct tls_follow *f, struct exec *exec, struct tls_server *tls);
void tls_follow_stop(struct tls_follow *f);

#endif
