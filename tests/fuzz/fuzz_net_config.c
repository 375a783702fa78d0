// SPDX-License-Identifier: Apache-2.0
//
// Parameters of network devices, offers, records and containers' states: any text is understood or
// refused with a reason, and what was understood is written so that it is understood as the same.
#include <assert.h>
#include <stdlib.h>

#include "driver/net/net_inventory.h"
#include "driver/net_hook.h"
#include "fuzz.h"

#include "base/banned.h"

static void round_trip(const char *text)
{
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf first = {0}, second = {0};
    struct json_writer w1 = {.out = &first}, w2 = {.out = &second};
    struct net_plan p, q;
    struct err err = {0};
    net_plan_init(&p);
    net_plan_init(&q);
    if (net_plan_add(&p, text, &arena, &err) != 0) {
        assert(err.msg[0] != '\0');
        return;
    }
    net_plan_write(&p, &w1);
    int code = net_plan_add(&q, first.p, &arena, &err);
    assert(code == 0);
    net_plan_write(&q, &w2);
    assert(str_eq(sbuf_str(&first), sbuf_str(&second)));
    code = net_plan_add(&q, text, &arena, &err); // merged with itself
    assert(code == 0 || code == -ERR_INVALID);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cleanup_arena struct arena arena = {0};
    char *text = xstrndup((const char *)data, size);
    struct net_record r;
    struct net_offer o;
    struct err err = {0};
    int pid = 0;
    round_trip(text);
    if (net_record_parse(str_make(text, size), &arena, &r, &err) != 0)
        assert(err.msg[0] != '\0');
    if (net_offer_parse(text, &o, &err) == 0)
        assert(o.count >= 1);
    if (net_hook_pid(str_make(text, size), &pid, &err) == 0)
        assert(pid > 0);
    free(text);
    return 0;
}
