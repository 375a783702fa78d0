// SPDX-License-Identifier: Apache-2.0
//
// Which hook a fault point asks: the thread's if it has one, else the process's.
#include "os/fault.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "base/banned.h"

static _Atomic(const struct fault_hook *) process_hook;
static _Thread_local const struct fault_hook *thread_hook;

static _Thread_local bool thread_asks; // a hook is running on this thread

static const struct fault_hook *fault_hook_find(void)
{
    if (thread_asks)
        return NULL;
    return thread_hook ? thread_hook : atomic_load_explicit(&process_hook, memory_order_acquire);
}

int fault_point(const char *point)
{
    const struct fault_hook *hook = fault_hook_find();
    if (!hook)
        return 0;
    thread_asks = true;
    int r = hook->fn(hook->arg, point);
    thread_asks = false;
    return r;
}

int fault_check(const char *point, struct err *err)
{
    int r = fault_point(point);
    return r == 0 ? 0 : err_set(err, -r, "%s: %s", point, strerrordesc_np(-r));
}

bool fault_armed(void)
{
    return fault_hook_find() != NULL;
}

void fault_hook_set(const struct fault_hook *hook)
{
    atomic_store_explicit(&process_hook, hook, memory_order_release);
}

const struct fault_hook *fault_scope_begin(const struct fault_hook *hook)
{
    const struct fault_hook *outer = thread_hook;
    if (hook)
        thread_hook = hook;
    return outer;
}

void fault_scope_end(const struct fault_hook **outer)
{
    thread_hook = *outer;
}
