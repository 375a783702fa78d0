// SPDX-License-Identifier: Apache-2.0
//
// Snapshots: bytes are a file that somebody sent. Whatever it says, an inventory comes out, every question on it is answered
// or refused, and what is written again reads as the same.
#include <assert.h>

#include "api/features.h"
#include "fuzz.h"
#include "plan/doctor.h"
#include "plan/inventory.h"
#include "plan/past.h"
#include "plan/snapshot.h"
#include "plan/topo.h"

#include "base/banned.h"

#define BYTES_MAX 20000

// A clock that moves with every look, so that no search takes long.
static int64_t look(const struct clock *c)
{
    static int64_t now;
    (void)c;
    return now += CLOCK_NS_PER_SEC / 10;
}

static void ask(struct plan_world *w, const struct alloc_features *f)
{
    struct inventory *inv = NULL;
    const struct inventory_options o = {.features = *f};
    struct doctor d = {0};
    struct past h = {0};
    struct topo t;
    if (inventory_new(w, &o, &inv, NULL) < 0)
        return;
    doctor_inspect(&d, inv, (struct moment){.sec = 1800000000});
    if (inv->nodes_len)
        (void)!topo_find(inv, inv->nodes[0].name, true, &d.arena, &t, NULL);
    if (inv->claims_len)
        (void)!past_find(inv, inv->claims[0].name, STR("default"), &h, NULL);
    past_done(&h);
    doctor_done(&d);
    inventory_free(inv);
}

static void ask_free(struct plan_world *w)
{
    struct clock clock = {look, look};
    struct arena arena = {0};
    struct inventory *inv = NULL;
    struct free_answer a;
    struct features f;
    features_init(&f, FEATURES_MINOR);
    (void)!free_find(w, &(struct free_question){.clock = &clock}, &f, &arena, &inv, &a, NULL);
    inventory_free(inv);
    arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct alloc_features f = {0};
    const struct snapshot_about about = {STR("v"), STR("t")};
    cleanup_sbuf struct sbuf first = {0}, second = {0};
    if (size > BYTES_MAX)
        return 0;
    (void)alloc_features_add(&f, STR("all"));
    struct plan_world *w = plan_world_new();
    if (plan_world_read(w, STR("fuzz"), str_make((const char *)data, size), NULL) == 0) {
        ask(w, &f);
        ask_free(w);
        snapshot_write(w, &about, &first);
        struct plan_world *again = plan_world_new();
        if (plan_world_read(again, STR("again"), sbuf_str(&first), NULL) == 0) {
            snapshot_write(again, &about, &second);
            assert(str_eq(sbuf_str(&first), sbuf_str(&second)));
        }
        plan_world_free(again);
    }
    plan_world_free(w);
    return 0;
}
