// SPDX-License-Identifier: Apache-2.0
//
// Limits of a long-running process: signals it ignores, capabilities it drops, memory it does not
// dump.
#include "cmd/run/process.h"

#include <signal.h>
#include <unistd.h>

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/hash.h"
#include "base/rand.h"

#include "base/banned.h"

// Root's files are root's without these, but a data directory can be somebody else's.
#define CAPS_KEPT ((1U << CAP_DAC_OVERRIDE) | (1U << CAP_NET_BIND_SERVICE))

void process_begin(void)
{
    uint64_t key[2];
    rng_fill(rng_system(), key, sizeof(key));
    hash_seed(key);
}

void process_hide(void)
{
#ifndef DRAY_ASAN // the leak checker looks at its own process as a debugger does
    (void)prctl(PR_SET_DUMPABLE, 0);
#endif
}

// A process without capabilities has nothing to drop; nothing here can fail in a way that leaves
// more than there was.
static void drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &header, caps) != 0)
        return;
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    for (unsigned cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
        if (cap >= 32 || !(CAPS_KEPT & (1U << cap)))
            (void)prctl(PR_CAPBSET_DROP, cap);
    caps[0].permitted &= CAPS_KEPT;
    caps[0].effective &= CAPS_KEPT;
    caps[0].inheritable = 0;
    caps[1] = (struct __user_cap_data_struct){0};
    (void)syscall(SYS_capset, &header, caps);
}

void process_confine(void)
{
    const struct rlimit none = {0, 0};
    (void)umask(077);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    drop_capabilities();
    (void)setrlimit(RLIMIT_CORE, &none);
    process_hide();
}

bool process_ends_with(int64_t parent)
{
    return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == (pid_t)parent;
}
