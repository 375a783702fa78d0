// SPDX-License-Identifier: Apache-2.0
//
// Leader election on a registry in memory: who gets the lease, keeps it, loses it, and how soon another has it.
#include "client/lease.h"
#include "inproc/local.h"
#include "registry_world.h"

#include "base/banned.h"

#define MS CLOCK_NS_PER_MS

static const struct registry_user tester = {.name = STR_INIT("tester")};

struct party {
    struct world *w;
    struct client *client;
    struct lease *lease;
    int won, lost, released;
    int64_t won_ns;
    char holder[64];
    bool steadfast;
};

static void on_leading(void *arg)
{
    struct party *p = arg;
    p->won++;
    p->won_ns = p->w->clock.mono;
}

static void on_lost(void *arg)
{
    struct party *p = arg;
    p->lost++;
}

static void on_holder(void *arg, struct str identity)
{
    struct party *p = arg;
    (void)snprintf(p->holder, sizeof(p->holder), "%.*s", STR_ARG(identity));
}

static void on_released(void *arg)
{
    struct party *p = arg;
    p->released++;
}

static struct lease_options times(void)
{
    return (struct lease_options){
        .duration_ns = 2000 * MS, .renew_deadline_ns = 1500 * MS, .retry_ns = 500 * MS};
}

static void party_start(struct party *p, struct world *w, const char *identity)
{
    p->w = w;
    p->client = local_client_new(w->registry, exec_sim_exec(w->sim), &tester);
    struct lease_options o = times();
    o.client = p->client;
    o.namespace = STR("default");
    o.name = STR("who");
    o.identity = str_z(identity);
    o.steadfast = p->steadfast;
    o.leading = on_leading;
    o.lost = on_lost;
    o.holder = on_holder;
    o.arg = p;
    p->lease = lease_new(&o);
    lease_start(p->lease);
}

static void party_end(struct party *p)
{
    lease_free(take_ptr(p->lease));
    world_run(p->w);
    client_free(p->client);
    world_run(p->w);
}

static void pass_ms(struct world *w, int64_t ms)
{
    exec_sim_run(w->sim, w->clock.mono + ms * MS);
}

#define LEASE ((struct target){"coordination.k8s.io/v1", "Lease", "", "default", "who"})

TEST_IN_WORLD(the_first_makes_it_and_keeps_it)
{
    struct party a = {0}, b = {0};
    party_start(&a, w, "a");
    pass_ms(w, 10);
    assert_int_equal(a.won, 1);
    party_start(&b, w, "b");
    pass_ms(w, 60000);
    assert_int_equal(a.won, 1);
    assert_int_equal(a.lost, 0);
    assert_int_equal(b.won, 0);
    assert_string_equal(b.holder, "a");
    assert_true(lease_leading(a.lease) && !lease_leading(b.lease));
    assert_ok(do_get(w, LEASE));
    assert_field(w, "spec.holderIdentity", "a");
    assert_field(w, "spec.leaseDurationSeconds", "2");
    assert_field(w, "spec.leaseTransitions", "0");
    party_end(&a);
    party_end(&b);
}

TEST_IN_WORLD(another_has_it_when_it_was_not_renewed_for_its_duration)
{
    struct party a = {0}, b = {0};
    party_start(&a, w, "a");
    party_start(&b, w, "b");
    pass_ms(w, 10000);
    assert_int_equal(a.won + b.won, 1);
    struct party *dead = a.won ? &a : &b, *next = a.won ? &b : &a;
    int64_t died_ns = w->clock.mono;
    lease_free(take_ptr(dead->lease)); // kill -9: not a word
    pass_ms(w, 3000);
    assert_int_equal(next->won, 1);
    assert_true(next->won_ns - died_ns >= 1400 * MS && next->won_ns - died_ns < 2700 * MS);
    assert_ok(do_get(w, LEASE));
    assert_field(w, "spec.leaseTransitions", "1");
    party_end(next);
    party_end(dead);
}

TEST_IN_WORLD(a_released_lease_is_taken_at_once)
{
    struct party a = {0}, b = {0};
    party_start(&a, w, "a");
    pass_ms(w, 10);
    party_start(&b, w, "b");
    pass_ms(w, 5000);
    lease_release(a.lease, on_released, &a);
    assert_int_equal(a.released, 0);
    pass_ms(w, 20);
    assert_int_equal(a.released, 1);
    assert_false(lease_leading(a.lease));
    pass_ms(w, 700);
    assert_int_equal(b.won, 1);
    assert_int_equal(a.lost, 0); // it knows
    party_end(&a);
    party_end(&b);
}

TEST_IN_WORLD(who_cannot_renew_gives_up_before_another_may_have_it)
{
    struct party a = {0};
    party_start(&a, w, "a");
    pass_ms(w, 10);
    assert_int_equal(a.won, 1);
    int64_t from = w->clock.mono;
    w->fail_commits = true;
    while (!a.lost && w->clock.mono - from < 5000 * MS)
        pass_ms(w, 10);
    assert_int_equal(a.lost, 1);
    assert_true(w->clock.mono - from <= 1520 * MS);
    assert_false(lease_leading(a.lease));
    w->fail_commits = false;
    lease_start(a.lease);
    pass_ms(w, 10);
    assert_int_equal(a.won, 2); // nobody else took it: it is ours still
    assert_ok(do_get(w, LEASE));
    assert_field(w, "spec.leaseTransitions", "0");
    party_end(&a);
}

TEST_IN_WORLD(a_steadfast_holder_goes_on_until_another_has_it)
{
    struct party a = {.steadfast = true}, b = {0};
    party_start(&a, w, "a");
    pass_ms(w, 10);
    w->fail_commits = true;
    pass_ms(w, 20000);
    assert_int_equal(a.lost, 0);
    assert_true(lease_leading(a.lease));
    w->fail_commits = false;
    pass_ms(w, 1000);
    assert_int_equal(a.won, 1); // as if nothing had been
    assert_ok(do_patch(w, LEASE, REGISTRY_PATCH_MERGE, "{\"spec\":{\"holderIdentity\":\"b\"}}"));
    party_start(&b, w, "b");
    pass_ms(w, 1000);
    assert_int_equal(a.lost, 1);
    assert_int_equal(b.won, 1);
    party_end(&a);
    party_end(&b);
}

TEST_IN_WORLD(who_was_robbed_notices_by_the_conflict)
{
    struct party a = {0};
    party_start(&a, w, "a");
    pass_ms(w, 10);
    assert_ok(
        do_patch(w, LEASE, REGISTRY_PATCH_MERGE, "{\"spec\":{\"holderIdentity\":\"thief\"}}"));
    pass_ms(w, 600);
    assert_int_equal(a.lost, 1);
    assert_string_equal(a.holder, "thief");
    party_end(&a);
}

// lose_sight deletes the lease of a holder, who cannot make it again: it knows no version of it any more.
static void lose_sight(struct world *w)
{
    assert_ok(do_delete(w, LEASE, NULL));
    w->fail_commits = true;
    pass_ms(w, 1200);
    w->fail_commits = false;
}

TEST_IN_WORLD(a_steadfast_holder_whose_lease_was_deleted_sees_who_made_it_again)
{
    struct party a = {.steadfast = true};
    party_start(&a, w, "a");
    pass_ms(w, 10);
    assert_int_equal(a.won, 1);
    lose_sight(w);
    assert_true(lease_leading(a.lease));
    assert_ok(do_create(w, LEASE,
                        "{\"metadata\":{\"name\":\"who\"},\"spec\":{\"holderIdentity\":\"b\","
                        "\"leaseDurationSeconds\":2}}"));
    pass_ms(w, 1500);
    assert_int_equal(a.lost, 1);
    assert_string_equal(a.holder, "b");
    party_end(&a);
}

TEST_IN_WORLD(a_lease_that_was_deleted_can_be_released)
{
    struct party a = {.steadfast = true};
    party_start(&a, w, "a");
    pass_ms(w, 10);
    lose_sight(w);
    assert_true(lease_leading(a.lease));
    lease_release(a.lease, on_released, &a);
    pass_ms(w, 20);
    assert_int_equal(a.released, 1);
    party_end(&a);
}

static void times_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    struct err err = {0};
    struct lease_options o = times();
    assert_int_equal(lease_check(&o, &err), 0);
    o.renew_deadline_ns = o.duration_ns;
    assert_int_equal(lease_check(&o, &err), -ERR_INVALID);
    o = times();
    o.retry_ns = 1300 * MS;
    assert_int_equal(lease_check(&o, &err), -ERR_INVALID);
    o = times();
    o.duration_ns = 2500 * MS;
    assert_int_equal(lease_check(&o, &err), -ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_makes_it_and_keeps_it),
        cmocka_unit_test(another_has_it_when_it_was_not_renewed_for_its_duration),
        cmocka_unit_test(a_released_lease_is_taken_at_once),
        cmocka_unit_test(who_cannot_renew_gives_up_before_another_may_have_it),
        cmocka_unit_test(a_steadfast_holder_goes_on_until_another_has_it),
        cmocka_unit_test(who_was_robbed_notices_by_the_conflict),
        cmocka_unit_test(a_steadfast_holder_whose_lease_was_deleted_sees_who_made_it_again),
        cmocka_unit_test(a_lease_that_was_deleted_can_be_released),
        cmocka_unit_test(times_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
