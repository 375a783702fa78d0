// SPDX-License-Identifier: Apache-2.0
//
// Checks a server's certificate files in an interval and reloads them when they have changed, so
// that renewed certificates need no restart.
#include "net/tls_follow.h"

#include "base/log.h"

#include "base/banned.h"

#define LOOK_NS CLOCK_NS_PER_SEC

static struct log_module log_mod = LOG_MODULE("tls");

static void tls_follow_check_files(void *arg)
{
    struct tls_follow *f = arg;
    struct err err = {0};
    int r = tls_server_follow(f->tls, &err);
    if (r < 0)
        LOG_WARN(&log_mod, "the certificate's files changed and are of no use; the old ones stay",
                 log_z("why", err.msg));
    else if (r > 0)
        LOG_INFO(&log_mod, "reloaded the certificate's files");
    exec_timer_start(f->exec, &f->timer, LOOK_NS);
}

void tls_follow_start(struct tls_follow *f, struct exec *exec, struct tls_server *tls)
{
    *f = (struct tls_follow){
        .exec = exec, .tls = tls, .timer = {.fn = tls_follow_check_files, .arg = f}};
    if (tls)
        exec_timer_start(exec, &f->timer, LOOK_NS);
}

void tls_follow_stop(struct tls_follow *f)
{
    if (f->exec)
        exec_timer_stop(f->exec, &f->timer);
}
