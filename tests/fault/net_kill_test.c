// SPDX-License-Identifier: Apache-2.0
//
// The network driver and its hook, killed at every step of preparing, attaching and returning, and with
// a disk that is full at every step. Whatever was cut short: calling again completes it, and in the end
// the host's interfaces are exactly what they were.
#include <signal.h>
#include <unistd.h>

#include <sys/wait.h>

#include "net_kit.h"

#include "base/banned.h"

enum { POINTS_MAX = 200 };

static const char params[] =
    "{\"interface\":{\"name\":\"net0\",\"addresses\":[\"10.9.0.5/24\"],\"mtu\":1300,"
    "\"hardwareAddr\":\"02:00:00:00:09:05\"},\"routes\":[{\"destination\":\"10.11.0.0/16\","
    "\"gateway\":\"10.9.0.1\"}]}";

struct story {
    struct kit *kit;
    const struct dray_claim *claim;
    struct kit_ns pod;
    const char *before;
    const char *inside; // name in the pod
};

static void good(int code, const struct err *err)
{
    if (code != 0)
        fail_msg("%s", err->msg);
}

static void begin(struct story *s, bool made)
{
    const char *const moved[] = {"nic0", NULL};
    const char *const fresh[] = {"veth-br0-0", NULL};
    struct net_offer o;
    s->kit = kit_new();
    assert_int_equal(net_offer_parse("veth:br0=1", &o, NULL), 0);
    if (made)
        vec_push(&s->kit->filter.offers, o);
    kit_ns_new(&s->pod);
    s->before = kit_show(s->kit, &s->kit->host);
    s->claim = kit_claim(s->kit, "uid-1", params, made ? fresh : moved);
    s->inside = "net0";
}

static void end(struct story *s)
{
    kit_ns_end(&s->pod);
    kit_free(s->kit);
}

static void quiet(struct kit *k)
{
    k->steps = k->die_at = k->fail_at = 0;
}

// Runs something in a process that is killed at a step. True: it came that far.
static bool killed_at(struct story *s, int point, int (*run)(struct story *s))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        quiet(s->kit);
        s->kit->die_at = point;
        _exit(run(s) == 0 ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFSIGNALED(status) && WEXITSTATUS(status) != 0)
        fail_msg("it failed at point %d", point);
    return WIFSIGNALED(status);
}

static int go_in(struct story *s)
{
    struct err err = {0};
    int code = kit_prepare(s->kit, s->claim, &err);
    return code == 0 ? kit_attach(s->kit, s->claim, &s->pod, &err) : code;
}

static int go_out(struct story *s)
{
    struct err err = {0};
    return kit_unprepare(s->kit, s->claim, &err);
}

static void is_in_pod(struct story *s)
{
    struct net_link l;
    assert_true(kit_link(s->kit, &s->pod, s->inside, &l));
    assert_true(l.flags & IFF_UP);
    assert_int_equal(l.mtu, 1300);
    assert_true(kit_has_address(s->kit, &s->pod, s->inside, "10.9.0.5/24"));
    assert_true(kit_has_route(s->kit, &s->pod, s->inside, "10.11.0.0/16", "10.9.0.1"));
}

static void is_as_before(struct story *s, int point)
{
    struct net_link l;
    const char *now = kit_show(s->kit, &s->kit->host);
    if (strcmp(now, s->before) != 0)
        fail_msg("point %d: the host is\n%s\nand was\n%s", point, now, s->before);
    assert_false(kit_link(s->kit, &s->pod, s->inside, &l));
    assert_int_equal(kit_records(s->kit), 0);
}

// --- Killed on the way in --------------------------------------------------------------------------

static int kill_in(bool made, bool twice, bool go_on)
{
    for (int point = 1; point < POINTS_MAX; point++) {
        struct story s;
        struct err err = {0};
        begin(&s, made);
        bool killed = killed_at(&s, point, go_in);
        if (killed && twice)
            (void)killed_at(&s, point / 2 + 1, go_in);
        quiet(s.kit);
        if (go_on) { // kubelet tries again
            good(kit_prepare(s.kit, s.claim, &err), &err);
            good(kit_attach(s.kit, s.claim, &s.pod, &err), &err);
            is_in_pod(&s);
        }
        good(kit_unprepare(s.kit, s.claim, &err), &err);
        is_as_before(&s, point);
        end(&s);
        if (!killed)
            return point - 1;
    }
    fail_msg("there is no end to the steps");
    return 0;
}

static void killed_on_the_way_in(void **state)
{
    (void)state;
    int n = kill_in(false, false, true);
    print_message("%d points, moved, tried again\n", n);
    assert_true(n >= 15);
    print_message("%d points, moved, given up\n", kill_in(false, false, false));
    print_message("%d points, made, tried again\n", kill_in(true, false, true));
    print_message("%d points, made, given up\n", kill_in(true, false, false));
}

static void killed_twice_on_the_way_in(void **state)
{
    (void)state;
    print_message("%d points, moved, twice\n", kill_in(false, true, true));
}

// --- Killed on the way out -------------------------------------------------------------------------

static int kill_out(bool made, bool twice)
{
    for (int point = 1; point < POINTS_MAX; point++) {
        struct story s;
        struct err err = {0};
        begin(&s, made);
        assert_int_equal(go_in(&s), 0);
        bool killed = killed_at(&s, point, go_out);
        if (killed && twice)
            (void)killed_at(&s, point / 2 + 1, go_out);
        quiet(s.kit);
        good(kit_unprepare(s.kit, s.claim, &err), &err);
        is_as_before(&s, point);
        end(&s);
        if (!killed)
            return point - 1;
    }
    fail_msg("there is no end to the steps");
    return 0;
}

static void killed_on_the_way_out(void **state)
{
    (void)state;
    int n = kill_out(false, false);
    print_message("%d points, moved\n", n);
    assert_true(n >= 10);
    print_message("%d points, made\n", kill_out(true, false));
    print_message("%d points, moved, twice\n", kill_out(false, true));
}

// The pod's namespace ends while the driver is dead: the kernel gives hardware back under a free name.
static void killed_and_the_pod_ended(void **state)
{
    (void)state;
    for (int point = 1; point < POINTS_MAX; point++) {
        struct story s;
        struct net_link l;
        struct err err = {0};
        begin(&s, false);
        bool killed = killed_at(&s, point, go_in);
        quiet(s.kit);
        bool inside = kit_link(s.kit, &s.pod, "net0", &l) || kit_link(s.kit, &s.pod, "nic0", &l);
        if (inside)
            kit_change(s.kit, &s.pod, l.name,
                       (struct net_change){.name = "dev3", .ns_fd = s.kit->host.fd, .moves = true});
        kit_ns_end(&s.pod);
        good(kit_unprepare(s.kit, s.claim, &err), &err);
        kit_ns_new(&s.pod);
        is_as_before(&s, point);
        end(&s);
        if (!killed)
            return;
    }
}

// --- A full disk -----------------------------------------------------------------------------------

static void every_step_fails(void **state)
{
    int n = 0;
    (void)state;
    for (int point = 1; point < POINTS_MAX; point++) {
        struct story s;
        struct err err = {0};
        begin(&s, false);
        s.kit->fail_at = point;
        int code = go_in(&s);
        if (code == 0)
            code = go_out(&s);
        bool failed = s.kit->steps >= point;
        assert_true(failed || code == 0);
        quiet(s.kit);
        good(kit_unprepare(s.kit, s.claim, &err), &err);
        is_as_before(&s, point);
        end(&s);
        n = point - 1;
        if (!failed)
            break;
    }
    print_message("%d points\n", n);
    assert_true(n > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_CASE(killed_on_the_way_in),  TEST_CASE(killed_twice_on_the_way_in),
        TEST_CASE(killed_on_the_way_out), TEST_CASE(killed_and_the_pod_ended),
        TEST_CASE(every_step_fails),
    };
    const char *missing = net_kit_missing();
    if (missing) {
        (void)printf("skipped: %s\n", missing);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
