// SPDX-License-Identifier: Apache-2.0
//
// Calls under way: each knows its callback, which is dropped when the scheduler is gone.
#include "sched/bind/bind.h"

#include "base/banned.h"

struct call *calls_begin(struct sched *s, call_fn done, void *arg)
{
    struct call *c = xcalloc(1, sizeof(*c));
    *c = (struct call){.s = s, .done = done, .arg = arg};
    list_push_back(&s->writes.calls, &c->node);
    return c;
}

void calls_on_answer(void *arg, const struct client_answer *answer)
{
    struct call *c = arg;
    struct sched *s = c->s;
    if (s) {
        list_remove(&c->node);
        if (c->done)
            c->done(s, c->arg, answer);
    }
    free(c->owned);
    free(c);
}
