// SPDX-License-Identifier: Apache-2.0
//
// Writes that may outlive their controller: an answer that comes after the controller was freed is
// dropped.
#include <stdlib.h>

#include "ctl/core/ctl_int.h"

#include "base/banned.h"

struct ctl_call *ctl_call_new(struct list *calls, struct work *work, struct str key, size_t source)
{
    struct ctl_call *c = xcalloc(1, sizeof(*c) + key.n);
    char *copy = (char *)(c + 1);
    if (key.n > 0)
        memcpy(copy, key.p, key.n);
    c->work = work;
    c->key = str_make(copy, key.n);
    c->source = source;
    list_push_back(calls, &c->node);
    return c;
}

void ctl_call_done(void *arg, const struct client_answer *answer)
{
    struct ctl_call *c = arg;
    bool alive = list_linked(&c->node);
    list_remove(&c->node);
    if (alive) {
        if (answer->code == 0 && c->counted)
            ++*c->counted;
        if (c->ended)
            c->ended(c, answer);
        if (answer->code == 0 && answer->object)
            work_after(c->work, c->key, c->source, answer->object->revision);
        else if (answer->code == 0 || answer->code == -ERR_NOT_FOUND)
            work_done(c->work, c->key);
        else
            work_retry(c->work, c->key);
        if (answer->code != 0 && c->failed)
            c->failed(c->owner, c->key, answer);
    }
    free(c->uid);
    free(c);
}

static void ctl_call_on_answer(void *arg, const struct client_answer *a)
{
    struct ctl_call *c = arg;
    bool alive = list_linked(&c->node);
    list_remove(&c->node);
    bool gone =
        a->code == -ERR_NOT_FOUND || (a->code == 0 && !str_eqz(a->object->meta->uid, c->uid));
    if (alive && gone) {
        // Of many that ask, each must come to use its answer before it is forgotten (gone.h).
        c->gone(c->owner, str_z(c->uid));
        work_look(c->work, c->key);
    } else if (alive) {
        work_retry(c->work, c->key);
    }
    free(c->uid);
    free(c);
}

void ctl_call_ask(struct ctl_call *c, struct client *client, const struct client_key *at,
                  struct str uid, void (*gone)(void *owner, struct str uid), void *owner)
{
    c->uid = xstrndup(uid.p, uid.n);
    c->gone = gone;
    c->owner = owner;
    client_get(client, at, ctl_call_on_answer, c);
}

void ctl_calls_drop(struct list *calls)
{
    while (list_pop_front(calls))
        ;
}
