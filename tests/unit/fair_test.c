// SPDX-License-Identifier: Apache-2.0
#include "server/flow/fair.h"
#include "unit.h"

#include "base/banned.h"

static const struct fair_level high = {STR_INIT("high"), 40, 0, 0};
static const struct fair_level low = {STR_INIT("low"), 20, 4, 10};

#define COST 1000

// serve runs n turns, each of which is over at once, and counts those of one flow's user.
struct tally {
    size_t a, b, other;
};

static struct tally serve(struct fair *f, size_t n, const struct fair_node *a,
                          const struct fair_node *b)
{
    struct tally t = {0};
    for (size_t i = 0; i < n; i++) {
        struct fair_item *item = fair_next(f);
        if (!item)
            break;
        if (item->flow == a)
            t.a++;
        else if (item->flow == b)
            t.b++;
        else
            t.other++;
        fair_charge(item, COST);
        fair_leave(item);
    }
    return t;
}

static void fill(struct fair_node *flow, struct fair_item *items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_true(fair_wait(flow, &items[i]));
}

// drain takes back what still waits.
static void drain(struct fair_item *items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fair_leave(&items[i]);
}

static void one_flow_in_order(void **state)
{
    (void)state;
    struct fair f;
    struct fair_item items[3] = {0};
    fair_init(&f, 0, 0);
    fill(fair_flow(&f, &high, STR("a"), STR("")), items, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_ptr_equal(fair_next(&f), &items[i]);
        fair_leave(&items[i]);
    }
    assert_null(fair_next(&f));
    fair_done(&f);
}

static void users_share_alike(void **state)
{
    (void)state;
    struct fair f;
    struct fair_item many[100] = {0}, few[10] = {0};
    fair_init(&f, 0, 0);
    struct fair_node *a = fair_flow(&f, &high, STR("a"), STR("")),
                     *b = fair_flow(&f, &high, STR("b"), STR(""));
    fill(a, many, 100);
    fill(b, few, 10);
    struct tally t = serve(&f, 20, a, b);
    assert_in_range(t.b, 9, 10); // whoever waits with little is through soon
    assert_in_range(t.a, 10, 11);
    drain(many, 100);
    drain(few, 10);
    fair_done(&f);
}

static void levels_share_by_weight(void **state)
{
    (void)state;
    struct fair f;
    struct fair_item x[90] = {0}, y[9] = {0};
    fair_init(&f, 0, 0);
    struct fair_node *a = fair_flow(&f, &high, STR("a"), STR("")),
                     *b = fair_flow(&f, &low, STR("b"), STR(""));
    fill(a, x, 90);
    fill(b, y, 9);
    struct tally t = serve(&f, 24, a, b); // 40 : 20
    assert_in_range(t.a, 15, 17);
    assert_in_range(t.b, 7, 9);
    drain(x, 90);
    drain(y, 9);
    fair_done(&f);
}

// A user with many namespaces gets no more than one with a single one.
static void namespaces_divide_their_users_share(void **state)
{
    (void)state;
    struct fair f;
    struct fair_item x[3][20] = {0}, y[30] = {0};
    static const char *const names[] = {"n0", "n1", "n2"};
    fair_init(&f, 0, 0);
    for (size_t i = 0; i < 3; i++)
        fill(fair_flow(&f, &high, STR("a"), str_z(names[i])), x[i], 20);
    struct fair_node *b = fair_flow(&f, &high, STR("b"), STR("")),
                     *n0 = fair_flow(&f, &high, STR("a"), STR("n0"));
    fill(b, y, 30);
    struct tally t = serve(&f, 36, n0, b);
    assert_in_range(t.b, 17, 19);
    assert_in_range(t.a, 5, 7);
    for (size_t i = 0; i < 3; i++)
        drain(x[i], 20);
    drain(y, 30);
    fair_done(&f);
}

// Who was away has no claim on what the others took meanwhile, and who took much has to wait.
static void debts_are_remembered(void **state)
{
    (void)state;
    struct fair f;
    struct fair_item x[50] = {0}, y[50] = {0};
    fair_init(&f, 0, 0);
    struct fair_node *a = fair_flow(&f, &high, STR("a"), STR("")),
                     *b = fair_flow(&f, &high, STR("b"), STR(""));
    for (size_t i = 0; i < 20; i++) { // both at once, a much dearer
        fair_run(a, &x[0]);
        fair_charge(&x[0], i ? 0 : 10 * COST);
        fair_leave(&x[0]);
    }
    fill(a, x, 50);
    fill(b, y, 50);
    struct tally t = serve(&f, 10, a, b);
    assert_in_range(t.b, 9, 10);
    t = serve(&f, 40, a, b);
    assert_in_range(t.a, 19, 21);
    drain(x, 50);
    drain(y, 50);
    fair_done(&f);
}

static void seats_and_queues_are_bounded(void **state)
{
    (void)state;
    struct fair f;
    struct fair_item items[15] = {0}, other = {0};
    fair_init(&f, 0, 0);
    struct fair_node *flow = fair_flow(&f, &low, STR("a"), STR("x")),
                     *same_user = fair_flow(&f, &low, STR("a"), STR("y")),
                     *b = fair_flow(&f, &low, STR("b"), STR(""));
    for (size_t i = 0; i < 4; i++) {
        assert_true(fair_may_run(flow));
        fair_run(flow, &items[i]);
    }
    assert_false(fair_may_run(flow));
    assert_false(fair_may_run(same_user));
    assert_true(fair_may_run(b));
    fill(flow, items + 4, 10);
    assert_false(fair_wait(flow, &items[14])); // the queue is full
    assert_false(fair_wait(same_user, &items[14]));
    assert_null(fair_next(&f)); // no seat
    assert_true(fair_wait(b, &other));
    assert_ptr_equal(fair_next(&f), &other); // but for others
    fair_leave(&items[0]);
    assert_ptr_equal(fair_next(&f), &items[4]); // a seat came free
    assert_null(fair_next(&f));
    drain(items, 15);
    fair_leave(&other);
    assert_int_equal(fair_waiting(&f), 0);
    assert_int_equal(f.root.seats, 0);
    fair_done(&f);
}

static void the_whole_is_bounded(void **state)
{
    (void)state;
    struct fair f;
    struct fair_item x[4] = {0};
    fair_init(&f, 1, 2);
    struct fair_node *a = fair_flow(&f, &high, STR("a"), STR("")),
                     *b = fair_flow(&f, &high, STR("b"), STR(""));
    assert_true(fair_may_run(a));
    fair_run(a, &x[0]);
    assert_false(fair_may_run(b));
    assert_true(fair_wait(b, &x[1]));
    assert_true(fair_wait(a, &x[2]));
    assert_false(fair_wait(b, &x[3]));
    assert_null(fair_next(&f));
    fair_leave(&x[1]); // gone while it waited
    fair_leave(&x[0]);
    assert_ptr_equal(fair_next(&f), &x[2]);
    fair_leave(&x[2]);
    fair_done(&f);
}

static void idle_flows_are_forgotten(void **state)
{
    (void)state;
    struct fair f;
    struct fair_item kept = {0};
    fair_init(&f, 0, 0);
    struct fair_node *keep = fair_flow(&f, &high, STR("keep"), STR("me"));
    assert_true(fair_wait(keep, &kept));
    for (unsigned i = 0; i < 3 * FAIR_NODES_MAX; i++) {
        cleanup_sbuf struct sbuf name = {0};
        sbuf_addf(&name, "ns-%u", i);
        (void)fair_flow(&f, &high, STR("spreader"), sbuf_str(&name));
        assert_true(f.nodes <= FAIR_NODES_MAX + 3);
    }
    assert_ptr_equal(fair_flow(&f, &high, STR("keep"), STR("me")), keep);
    assert_ptr_equal(fair_next(&f), &kept);
    fair_leave(&kept);
    fair_done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_flow_in_order),
        cmocka_unit_test(users_share_alike),
        cmocka_unit_test(levels_share_by_weight),
        cmocka_unit_test(namespaces_divide_their_users_share),
        cmocka_unit_test(debts_are_remembered),
        cmocka_unit_test(seats_and_queues_are_bounded),
        cmocka_unit_test(the_whole_is_bounded),
        cmocka_unit_test(idle_flows_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
