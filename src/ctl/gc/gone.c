// SPDX-License-Identifier: Apache-2.0
//
// A bounded memory of UIDs whose objects are known to be deleted, so that the garbage collector
// asks the server about an absent owner once.
#include "ctl/gc/gone.h"

#include "base/banned.h"

bool gone_has(const struct gone *g, struct str uid)
{
    return map_has(&g->uids, uid);
}

void gone_add(struct gone *g, struct str uid)
{
    if (uid.n == 0 || gone_has(g, uid))
        return;
    char **slot = &g->ring[g->next];
    if (*slot) {
        map_del(&g->uids, str_z(*slot));
        free(*slot);
    }
    *slot = xstrndup(uid.p, uid.n);
    *map_put(&g->uids, str_z(*slot)) = true;
    g->next = (g->next + 1) % GONE_MAX;
}

void gone_done(struct gone *g)
{
    map_done(&g->uids);
    for (size_t i = 0; i < GONE_MAX; i++)
        free(g->ring[i]);
}
