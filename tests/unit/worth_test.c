// SPDX-License-Identifier: Apache-2.0
//
// Worth: prices of parts where the answer is known, and what nodes are worth because of them.
#include <math.h>

#include "alloc/fleet/worth.h"
#include "unit.h"

#include "base/banned.h"

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-6)

static struct worth_prices prices_for(const uint32_t *sizes, const double *counts, size_t n)
{
    double demand[WORTH_WHOLE + 1] = {0};
    struct worth_prices p;
    for (size_t i = 0; i < n; i++)
        demand[sizes[i]] = counts[i];
    worth_price(demand, &p);
    return p;
}

static void parts_that_share_a_device_share_its_price(void **state)
{
    (void)state;
    struct worth_prices half = prices_for((uint32_t[]){500}, (double[]){7}, 1);
    NEAR(half.price[500], 0.5 + 0.025);
    NEAR(half.value[1000], 1.05);
    NEAR(half.value[999], 0.525);
    NEAR(half.value[499], 0);
    struct worth_prices third = prices_for((uint32_t[]){300}, (double[]){1}, 1);
    NEAR(third.price[300], 1.0 / 3 + 0.015);
}

static void a_part_beside_which_nothing_fits_costs_the_device(void **state)
{
    (void)state;
    struct worth_prices p = prices_for((uint32_t[]){510}, (double[]){3}, 1);
    NEAR(p.price[510], 1 + 0.0255);
    NEAR(p.value[490], 0);
    NEAR(p.value[510], p.price[510]);
}

static void parts_that_complete_each_other_cost_one_device(void **state)
{
    (void)state;
    // As many of 600 as of 400: each device holds one of both.
    struct worth_prices p = prices_for((uint32_t[]){400, 600}, (double[]){10, 10}, 2);
    NEAR(p.price[400] + p.price[600], 1.05);
    // With many more of 400, two of which share a device, a part of 400 costs half, one of 600 the rest.
    p = prices_for((uint32_t[]){400, 600}, (double[]){100, 10}, 2);
    NEAR(p.price[400], 0.5 + 0.02);
    NEAR(p.price[600], 0.5 + 0.03);
    // With many more of 600, 400 comes for nothing: it fits beside them.
    p = prices_for((uint32_t[]){400, 600}, (double[]){10, 100}, 2);
    NEAR(p.price[400], 0.02);
    NEAR(p.price[600], 1 + 0.03);
}

static void without_parts_a_device_is_worth_its_size(void **state)
{
    (void)state;
    struct worth_prices p = prices_for((uint32_t[]){1000}, (double[]){5}, 1);
    NEAR(p.value[400], 0.42);
    NEAR(p.price[1000], 1.05);
}

static void any_number_of_sizes_is_priced(void **state)
{
    (void)state;
    double demand[WORTH_WHOLE + 1] = {0};
    struct worth_prices p;
    for (uint32_t s = 1; s < WORTH_WHOLE; s++)
        demand[s] = 1 + s % 7;
    worth_price(demand, &p);
    for (uint32_t s = 1; s <= WORTH_WHOLE; s++) {
        assert_true(p.value[s] >= p.value[s - 1]);
        assert_true(p.value[s] <= 1.06);
    }
    NEAR(p.value[0], 0);
}

// --- Nodes ---------------------------------------------------------------------------------------

struct node {
    struct worth_unit units[8];
    struct worth_state state;
};

static void make_node(struct worth *w, struct node *n, uint32_t gpus, uint64_t kind)
{
    uint8_t type = worth_type(w, kind, 1);
    for (uint32_t i = 0; i < gpus; i++) {
        n->units[i] = (struct worth_unit){
            .type = type, .group = worth_group(w, type, gpus), .left = WORTH_WHOLE};
        worth_supply(w, n->units[i].group, 1);
    }
    n->state = (struct worth_state){64000, INT64_C(1) << 40, n->units, gpus};
}

static struct worth_request request(uint32_t num, uint16_t part, int64_t cpu)
{
    struct worth_request r = {.cpu = cpu, .memory = 1 << 30, .num = num};
    r.part[0] = r.part[1] = part;
    return r;
}

static double cost_of(const struct worth *w, const struct node *n, const struct worth_request *r)
{
    double after;
    assert_true(worth_after(w, &n->state, r, 1, &after));
    return worth_of(w, &n->state) - after;
}

static void begun_units_are_taken_from_first(void **state)
{
    (void)state;
    struct worth *w = worth_new();
    struct node n;
    uint16_t rank[WORTH_UNITS];
    struct worth_request half = request(1, 500, 1000);
    make_node(w, &n, 4, 1);
    worth_seen(w, 1, &half, 100);
    assert_true(worth_settle(w, true));
    n.units[2].left = 500;
    n.units[3].left = 300;
    worth_loss(w, &n.state, &half, rank);
    assert_int_equal(rank[3], UINT16_MAX);
    assert_true(rank[2] <= rank[0]);
    assert_int_equal(rank[0], rank[1]);
    worth_free(w);
}

static void a_rest_that_nobody_can_use_costs_nothing(void **state)
{
    (void)state;
    struct worth *w = worth_new();
    struct node n;
    uint16_t rank[WORTH_UNITS];
    struct worth_request large = request(1, 700, 1000);
    struct worth_request small = request(1, 300, 1000);
    make_node(w, &n, 2, 1);
    worth_seen(w, 1, &large, 100);
    worth_seen(w, 2, &small, 10);
    assert_true(worth_settle(w, true));
    n.units[0].left = 700; // here a large one would fit
    n.units[1].left = 300;
    worth_loss(w, &n.state, &small, rank);
    assert_int_equal(rank[1], 0);
    assert_true(rank[0] > 0);
    worth_free(w);
}

static void places_for_many_units_are_kept(void **state)
{
    (void)state;
    struct worth *w = worth_new();
    struct node large;
    struct node small;
    struct worth_request one = request(1, WORTH_WHOLE, 1000);
    struct worth_request eight = request(8, WORTH_WHOLE, 1000);
    make_node(w, &large, 8, 1);
    make_node(w, &small, 2, 1);
    worth_seen(w, 1, &one, 10);
    worth_seen(w, 2, &eight, 10);
    assert_true(worth_settle(w, true));
    worth_places_begin(w);
    worth_places(w, &large.state, 1);
    worth_places(w, &small.state, 1);
    assert_true(worth_places_end(w));
    assert_true(cost_of(w, &large, &one) > 2 * cost_of(w, &small, &one));
    // Nothing has changed since.
    worth_places_begin(w);
    worth_places(w, &large.state, 1);
    worth_places(w, &small.state, 1);
    assert_false(worth_places_end(w));
    worth_free(w);
}

// What a pod without units costs on a node, where its processors are needed beside the units.
static double cost_of_processors(int64_t cpu_wanted)
{
    struct worth *w = worth_new();
    struct node n;
    struct worth_request plain = {.cpu = 32000, .memory = 1 << 30};
    struct worth_request one = request(1, WORTH_WHOLE, 16000);
    struct worth_request other = {.cpu = cpu_wanted, .memory = 1 << 30};
    make_node(w, &n, 4, 1); // 16 processors a unit
    worth_seen(w, 1, &one, 100);
    worth_seen(w, 2, &other, 100);
    assert_true(worth_settle(w, true));
    worth_places_begin(w);
    worth_places(w, &n.state, 1);
    (void)worth_places_end(w);
    double cost = cost_of(w, &n, &plain);
    worth_free(w);
    return cost;
}

static void processors_that_run_out_cost_more(void **state)
{
    (void)state;
    struct worth *w = worth_new();
    struct node n;
    struct worth_request plain = {.cpu = 32000, .memory = 1 << 30};
    struct worth_request light = request(1, WORTH_WHOLE, 1000);
    make_node(w, &n, 4, 1);
    worth_seen(w, 1, &light, 100);
    assert_true(worth_settle(w, true));
    NEAR(cost_of(w, &n, &plain), 0); // enough stays for all units
    worth_free(w);
    // Those with units want all processors, others want some as well.
    assert_true(cost_of_processors(1) > 0);
    assert_true(cost_of_processors(4000) > 1.2 * cost_of_processors(1));
    // However many they want, that has an end.
    NEAR(cost_of_processors(64000), cost_of_processors(640000));
}

static void what_is_wanted_most_is_given_last(void **state)
{
    (void)state;
    struct worth *w = worth_new();
    struct node a;
    struct node b;
    struct worth_request any = request(1, 500, 1000);
    struct worth_request only_b = request(1, 500, 1000);
    make_node(w, &a, 4, 1);
    make_node(w, &b, 4, 2);
    only_b.part[0] = 0;
    worth_seen(w, 1, &any, 10);
    worth_seen(w, 2, &only_b, 10);
    assert_true(worth_settle(w, true));
    assert_true(worth_press(w, b.units[0].group) > worth_press(w, a.units[0].group));
    assert_true(cost_of(w, &b, &any) > cost_of(w, &a, &any));
    worth_free(w);
}

static void what_certainly_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct worth *w = worth_new();
    struct node n;
    struct worth_request r = request(2, 600, 1000);
    make_node(w, &n, 2, 1);
    assert_true(worth_fits(&n.state, &r));
    n.units[1].left = 599;
    assert_false(worth_fits(&n.state, &r));
    assert_true(worth_refuses(&n.state, &r));
    n.units[1].loose = true; // it might be 600 after all
    assert_false(worth_refuses(&n.state, &r));
    worth_free(w);
}

static void placing_takes_all_shares_of_different_units(void **state)
{
    (void)state;
    struct worth *w = worth_new();
    struct node n;
    struct worth_request r = request(3, 400, 0);
    double after;
    make_node(w, &n, 3, 1);
    worth_seen(w, 1, &r, 1);
    assert_true(worth_settle(w, true));
    assert_true(worth_after(w, &n.state, &r, 1, &after));
    for (int i = 0; i < 3; i++)
        n.units[i].left = 600;
    n.state.memory -= r.memory;
    NEAR(after, worth_of(w, &n.state));
    n.units[0].left = 399;
    assert_false(worth_after(w, &n.state, &r, 1, &after));
    worth_free(w);
}

static void what_was_asked_long_ago_is_forgotten(void **state)
{
    (void)state;
    struct worth *w = worth_new();
    struct node n;
    struct worth_request old = request(1, 400, 1000);
    struct worth_request now = request(1, 600, 1000);
    make_node(w, &n, 1, 1);
    worth_seen(w, 1, &old, 10000);
    assert_true(worth_settle(w, true));
    double before = worth_price_of(w, &old);
    NEAR(before, 0.5 + 0.02);
    for (int i = 0; i < 400; i++)
        worth_seen(w, 2, &now, 1000);
    assert_true(worth_settle(w, false));
    NEAR(worth_price_of(w, &old), 0.02); // it fits beside what is asked for now
    worth_free(w);
}

// A unit of four slices: 0 to 3 are single ones, 4 and 5 are halves, 6 is all of it.
static void make_slotted(struct worth *w, struct node *n, uint32_t gpus)
{
    static const uint8_t slices[7] = {1, 2, 4, 8, 3, 12, 15};
    struct worth_geometry g = {.n = 7};
    for (int i = 0; i < 7; i++)
        for (int k = 0; k < 7; k++)
            g.excludes[i] |= (uint64_t)((slices[i] & slices[k]) != 0) << k;
    make_node(w, n, gpus, 1);
    worth_set_geometry(w, n->units[0].type, &g);
    for (uint32_t i = 0; i < gpus; i++)
        n->units[i].fits = 0x7F;
}

static struct worth_request slots(uint64_t which, uint16_t part)
{
    struct worth_request r = request(1, part, 0);
    r.slots[0] = which;
    return r;
}

static void look_at(struct worth *w, const struct node *n)
{
    assert_true(worth_settle(w, true));
    worth_places_begin(w);
    worth_places(w, &n->state, 1);
    (void)worth_places_end(w);
}

static void a_slot_costs_the_places_that_it_closes(void **state)
{
    (void)state;
    struct worth *w = worth_new();
    struct node n;
    make_slotted(w, &n, 2);
    const struct worth_request single = slots(0x0F, 250);
    const struct worth_request half = slots(0x30, 500);
    const struct worth_request all = slots(0x40, 1000);
    worth_seen(w, 1, &single, 1);
    worth_seen(w, 2, &half, 1);
    worth_seen(w, 3, &all, 1);
    assert_true(worth_settle(w, true));
    assert_true(worth_slotted(w));
    n.units[0].fits = 0x7F & ~0x51U; // slice 0 is taken: 1, 2, 3 and the second half are open
    n.units[0].left = 750;
    look_at(w, &n);
    uint16_t beside = worth_slot_loss(w, &n.units[0], 1);
    assert_true(beside < worth_slot_loss(w, &n.units[0], 2)); // breaks into a half
    assert_true(worth_slot_loss(w, &n.units[0], 2) < worth_slot_loss(w, &n.units[1], 0));
    assert_int_equal(worth_slot_loss(w, &n.units[0], 0), UINT16_MAX); // it is not open
    // The node's loss is that of the best slot.
    struct node other = n;
    other.state.units = other.units;
    other.units[0].fits &= ~UINT64_C(2);
    assert_true(cost_of(w, &n, &single) < cost_of(w, &other, &single));
    // Both halves of a unit can be had by one request.
    struct worth_request two = half;
    two.num = 3;
    assert_true(worth_fits(&n.state, &two));
    two.num = 4;
    assert_false(worth_fits(&n.state, &two));
    worth_free(w);
}

static void a_place_that_is_not_there_is_scarce(void **state)
{
    (void)state;
    struct worth *w = worth_new();
    struct node n;
    make_slotted(w, &n, 1);
    const struct worth_request single = slots(0x0F, 250);
    const struct worth_request all = slots(0x40, 1000);
    worth_seen(w, 1, &single, 10);
    worth_seen(w, 2, &all, 10);
    n.units[0].fits = 0x0E | 0x20;
    n.units[0].left = 750;
    look_at(w, &n); // nowhere is a place for all of a unit
    struct worth_unit whole = n.units[0];
    whole.fits = 0x7F;
    assert_true(worth_slot_loss(w, &whole, 0) > worth_slot_loss(w, &n.units[0], 1) + 1000);
    worth_free(w);
}

static void who_will_leave_counts(void **state)
{
    (void)state;
    struct worth *w = worth_new();
    struct node n;
    make_slotted(w, &n, 2);
    const struct worth_request single = slots(0x0F, 250);
    const struct worth_request all = slots(0x40, 1000);
    worth_seen(w, 1, &single, 10);
    worth_seen(w, 2, &all, 10);
    // The first half of both is in use: by two, and by one who leaves a whole unit behind.
    for (int i = 0; i < 2; i++) {
        n.units[i].fits = 0x2C;
        n.units[i].left = 500;
    }
    n.units[0].taken = 0x03;
    n.units[1].taken = 0x10;
    look_at(w, &n);
    assert_true(worth_slot_loss(w, &n.units[0], 2) < worth_slot_loss(w, &n.units[1], 2));
    // What is closed for another reason stays so when somebody leaves.
    struct worth_unit ill = n.units[1];
    n.units[0].taken = n.units[1].taken = ill.taken = 0;
    n.units[0].fits = 0x7F;
    ill.fits = 0x3F;
    assert_true(worth_slot_loss(w, &ill, 2) < worth_slot_loss(w, &n.units[0], 2));
    worth_free(w);
}

static void everything_is_bounded(void **state)
{
    (void)state;
    struct worth *w = worth_new();
    struct worth_request r = request(2, WORTH_WHOLE, 1000);
    for (uint64_t i = 0; i < 1000; i++) {
        uint8_t type = worth_type(w, i, i);
        assert_true(type < WORTH_TYPES);
        worth_supply(w, worth_group(w, type, (uint32_t)(i % 40) + 1), 1);
        worth_seen(w, i, &r, 1);
    }
    assert_int_equal(worth_types(w), WORTH_TYPES);
    assert_true(worth_settle(w, true));
    worth_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_that_share_a_device_share_its_price),
        cmocka_unit_test(a_part_beside_which_nothing_fits_costs_the_device),
        cmocka_unit_test(parts_that_complete_each_other_cost_one_device),
        cmocka_unit_test(without_parts_a_device_is_worth_its_size),
        cmocka_unit_test(any_number_of_sizes_is_priced),
        cmocka_unit_test(begun_units_are_taken_from_first),
        cmocka_unit_test(a_rest_that_nobody_can_use_costs_nothing),
        cmocka_unit_test(places_for_many_units_are_kept),
        cmocka_unit_test(processors_that_run_out_cost_more),
        cmocka_unit_test(what_is_wanted_most_is_given_last),
        cmocka_unit_test(what_certainly_does_not_fit_is_refused),
        cmocka_unit_test(placing_takes_all_shares_of_different_units),
        cmocka_unit_test(what_was_asked_long_ago_is_forgotten),
        cmocka_unit_test(a_slot_costs_the_places_that_it_closes),
        cmocka_unit_test(a_place_that_is_not_there_is_scarce),
        cmocka_unit_test(who_will_leave_counts),
        cmocka_unit_test(everything_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
