// SPDX-License-Identifier: Apache-2.0
//
// Plans: bytes are a manifest. Whatever it says, a plan comes out, and what-if on the first node works
// or is refused; nothing crashes and everything ends.
#include <assert.h>

#include "api/features.h"
#include "fuzz.h"
#include "plan/plan.h"

#include "base/banned.h"

#define BYTES_MAX 20000

// A clock that moves with every look, so that no search takes long.
struct steps {
    struct clock clock;
    int64_t now;
};

static int64_t look(const struct clock *c)
{
    // The first member of struct steps; clocks are looked at through const pointers.
    struct steps *s = (struct steps *)(uintptr_t)c;
    return s->now += 10 * CLOCK_NS_PER_US;
}

static void plan(struct plan_world *w, const struct plan_options *o)
{
    struct plan *p = NULL;
    cleanup_sbuf struct sbuf out = {0};
    if (plan_make(w, o, &p, NULL) < 0)
        return;
    plan_text(p, &out);
    plan_json(p, &out);
    plan_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct steps steps = {.clock = {look, look}};
    struct features all;
    struct plan_options o = {.clock = &steps.clock, .features = &all};
    if (size > BYTES_MAX)
        return 0;
    features_init(&all, FEATURES_MINOR);
    (void)alloc_gates_add(&all, STR("all"));
    struct plan_world *w = plan_world_new();
    if (plan_world_read(w, STR("fuzz"), str_make((const char *)data, size), NULL) == 0) {
        plan(w, &o);
        (void)!plan_add_node(w, STR("like=n1,count=2"), NULL);
        (void)!plan_taint(w, STR("d.example.com=k=v:NoExecute"), NULL);
        (void)!plan_drain(w, STR("n1"), NULL);
        (void)!plan_without(w, STR("held"), NULL);
        plan(w, &o);
    }
    plan_world_free(w);
    return 0;
}
