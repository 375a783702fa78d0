// SPDX-License-Identifier: Apache-2.0
//
// Real interfaces into real network namespaces and back, and everything that can be in the way.
#include <fcntl.h>
#include <unistd.h>

#include "net_kit.h"

#include "base/banned.h"

static const char *const nic0[] = {"nic0", NULL};

static const char whole[] =
    "{\"interface\":{\"name\":\"net0\",\"addresses\":[\"10.9.0.5/24\",\"2001:db8:9::5/64\"],"
    "\"mtu\":1300,\"hardwareAddr\":\"02:00:00:00:09:05\",\"forwarding\":true,\"arpIgnore\":1,"
    "\"arpAnnounce\":2,\"gsoMaxSize\":32768},"
    "\"routes\":[{\"destination\":\"10.11.0.0/16\",\"gateway\":\"10.9.9.1\"},"
    "{\"destination\":\"10.9.9.0/24\",\"scope\":253}],"
    "\"rules\":[{\"priority\":100,\"source\":\"10.9.0.5/32\",\"table\":77}],"
    "\"neighbors\":[{\"destination\":\"10.9.0.77\",\"hardwareAddr\":\"02:00:00:00:00:77\"}],"
    "\"ethtool\":{\"features\":{\"generic-segmentation-offload\":false}}}";

static void good(int code, const struct err *err)
{
    if (code != 0)
        fail_msg("%s%s%s", err->path, err->path[0] ? ": " : "", err->msg);
}

static int setting(const struct kit_ns *ns, const char *path)
{
    char text[16] = "";
    int back = -1;
    assert_int_equal(net_ns_enter(ns->fd, &back, NULL), 0);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    net_ns_leave(back);
    assert_true(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
    (void)close(fd);
    return text[0] - '0';
}

// --- The good way --------------------------------------------------------------------------------

static void moves_and_returns(void **state)
{
    struct kit *k = kit_new();
    struct kit_ns pod;
    struct net_link l;
    struct err err = {0};
    (void)state;
    kit_ns_new(&pod);
    const char *before = kit_show(k, &k->host);
    const struct dray_claim *c = kit_claim(k, "uid-1", whole, nic0);
    good(kit_prepare(k, c, &err), &err);
    assert_non_null(strstr(k->told, "\"interfaceName\":\"net0\""));
    assert_non_null(strstr(k->told, "\"ips\":[\"10.9.0.5/24\",\"2001:db8:9::5/64\"]"));
    assert_non_null(strstr(k->told, "\"hardwareAddress\":\"02:00:00:00:09:05\""));
    assert_non_null(strstr(k->told, "\"createRuntime\""));
    assert_string_equal(kit_show(k, &k->host), before); // nothing is touched yet
    good(kit_attach(k, c, &pod, &err), &err);
    assert_false(kit_link(k, &k->host, "nic0", &l));
    assert_true(kit_link(k, &pod, "net0", &l));
    assert_true(l.flags & IFF_UP);
    assert_int_equal(l.mtu, 1300);
    assert_int_equal(l.sizes[NET_GSO], 32768);
    assert_int_equal(l.mac.bytes[5], 5);
    assert_true(kit_has_address(k, &pod, "net0", "10.9.0.5/24"));
    assert_true(kit_has_address(k, &pod, "net0", "2001:db8:9::5/64"));
    assert_false(kit_has_address(k, &pod, "net0", "10.7.0.2/24"));
    assert_true(kit_has_route(k, &pod, "net0", "10.11.0.0/16", "10.9.9.1"));
    assert_int_equal(setting(&pod, "/proc/sys/net/ipv4/conf/net0/arp_ignore"), 1);
    assert_int_equal(setting(&pod, "/proc/sys/net/ipv4/conf/net0/arp_announce"), 2);
    assert_int_equal(setting(&pod, "/proc/sys/net/ipv4/conf/net0/forwarding"), 1);
    good(kit_unprepare(k, c, &err), &err);
    assert_string_equal(kit_show(k, &k->host), before);
    assert_string_equal(k->told, "");
    assert_int_equal(kit_records(k), 0);
    good(kit_unprepare(k, c, &err), &err); // again: nothing to do
    kit_ns_end(&pod);
    kit_free(k);
}

static void takes_what_the_host_had(void **state)
{
    struct kit *k = kit_new();
    struct kit_ns pod;
    struct err err = {0};
    (void)state;
    kit_ns_new(&pod);
    const struct dray_claim *c = kit_claim(k, "uid-1", NULL, nic0);
    good(kit_prepare(k, c, &err), &err);
    good(kit_attach(k, c, &pod, &err), &err);
    assert_true(kit_has_address(k, &pod, "nic0", "10.7.0.2/24"));
    assert_true(kit_has_address(k, &pod, "nic0", "2001:db8:7::2/64"));
    assert_true(kit_has_route(k, &pod, "nic0", "10.8.0.0/16", "10.7.0.1"));
    good(kit_unprepare(k, c, &err), &err);
    kit_ns_end(&pod);
    kit_free(k);
}

static void a_second_container_changes_nothing(void **state)
{
    struct kit *k = kit_new();
    struct kit_ns pod;
    struct net_link l;
    struct err err = {0};
    (void)state;
    kit_ns_new(&pod);
    const struct dray_claim *c = kit_claim(k, "uid-1", whole, nic0);
    good(kit_prepare(k, c, &err), &err);
    good(kit_attach(k, c, &pod, &err), &err);
    kit_change(k, &pod, "net0", (struct net_change){.mtu = 1280}); // the pod's own wish
    good(kit_attach(k, c, &pod, &err), &err);
    assert_true(kit_link(k, &pod, "net0", &l));
    assert_int_equal(l.mtu, 1280);
    good(kit_prepare(k, c, &err), &err); // kubelet again: as it is
    good(kit_unprepare(k, c, &err), &err);
    kit_ns_end(&pod);
    kit_free(k);
}

// --- Interfaces that are made ----------------------------------------------------------------------

static void offer(struct kit *k, const char *text)
{
    struct net_offer o;
    assert_int_equal(net_offer_parse(text, &o, NULL), 0);
    vec_push(&k->filter.offers, o);
}

// Made, found, made again in another pod when the first has ended, and taken away.
static void make_one(const char *kind, const char *what, const char *device)
{
    if (!kit_can(kind)) {
        print_message("skipped: the kernel has no %s\n", kind);
        skip();
    }
    struct kit *k = kit_new();
    struct kit_ns pod, next;
    struct net_link l, m;
    struct err err = {0};
    const char *const devices[] = {device, NULL};
    offer(k, what);
    const char *before = kit_show(k, &k->host);
    const struct dray_claim *c =
        kit_claim(k, "uid-1", "{\"interface\":{\"addresses\":[\"10.9.0.5/24\"]}}", devices);
    kit_ns_new(&pod);
    good(kit_prepare(k, c, &err), &err);
    good(kit_attach(k, c, &pod, &err), &err);
    assert_true(kit_link(k, &pod, "net1", &l));
    assert_string_equal(l.kind, kind);
    assert_true(kit_has_address(k, &pod, "net1", "10.9.0.5/24"));
    good(kit_attach(k, c, &pod, &err), &err);
    kit_ns_end(&pod);
    kit_ns_new(&next);
    good(kit_attach(k, c, &next, &err), &err);
    assert_true(kit_link(k, &next, "net1", &m));
    assert_true(net_mac_equal(&l.mac, &m.mac)); // of the claim, not of the pod
    good(kit_unprepare(k, c, &err), &err);
    assert_false(kit_link(k, &next, "net1", &m));
    assert_string_equal(kit_show(k, &k->host), before);
    kit_ns_end(&next);
    kit_free(k);
}

static void makes_veth(void **state)
{
    (void)state;
    make_one("veth", "veth:br0=2", "veth-br0-1");
}

static void makes_macvlan(void **state)
{
    (void)state;
    make_one("macvlan", "macvlan:eth1=2", "macvlan-eth1-0");
}

static void makes_ipvlan(void **state)
{
    (void)state;
    make_one("ipvlan", "ipvlan:eth1=2", "ipvlan-eth1-0");
}

static void makes_vlan(void **state)
{
    (void)state;
    make_one("vlan", "vlan:eth1=100-101", "vlan-eth1-101");
}

static void joins_a_vrf(void **state)
{
    struct err err = {0};
    (void)state;
    if (!kit_can("vrf")) {
        print_message("skipped: the kernel has no vrf\n");
        skip();
    }
    struct kit *k = kit_new();
    struct kit_ns pod;
    struct net_link l, v;
    kit_ns_new(&pod);
    const struct dray_claim *c =
        kit_claim(k, "uid-1", "{\"interface\":{\"vrf\":{\"name\":\"blue\",\"table\":42}}}", nic0);
    good(kit_prepare(k, c, &err), &err);
    good(kit_attach(k, c, &pod, &err), &err);
    assert_true(kit_link(k, &pod, "nic0", &l) && kit_link(k, &pod, "blue", &v));
    assert_int_equal(l.master, v.index);
    good(kit_unprepare(k, c, &err), &err);
    kit_ns_end(&pod);
    kit_free(k);
}

static void the_veths_host_end_joins_its_bridge(void **state)
{
    struct kit *k = kit_new();
    struct kit_ns pod;
    struct net_links links = {0};
    struct net_link bridge;
    struct net_sock *s = NULL;
    struct err err = {0};
    const char *const devices[] = {"veth-br0-0", NULL};
    (void)state;
    offer(k, "veth:br0=1");
    kit_ns_new(&pod);
    const struct dray_claim *c = kit_claim(k, "uid-1", NULL, devices);
    good(kit_prepare(k, c, &err), &err);
    good(kit_attach(k, c, &pod, &err), &err);
    assert_true(kit_link(k, &k->host, "br0", &bridge));
    assert_int_equal(net_sock_open(k->host.fd, &s, &err), 0);
    good(net_links_read(s, &k->arena, &links, &err), &err);
    net_sock_free(s);
    size_t members = 0;
    vec_foreach(&links, l)
        members += l->master == bridge.index && (l->flags & IFF_UP);
    assert_int_equal(members, 1);
    good(kit_unprepare(k, c, &err), &err);
    kit_ns_end(&pod);
    kit_free(k);
}

// --- In the way ----------------------------------------------------------------------------------

static void a_taken_name_is_told_and_undone(void **state)
{
    struct kit *k = kit_new();
    struct kit_ns pod;
    struct net_record r;
    struct err err = {0};
    (void)state;
    kit_ns_new(&pod);
    kit_add(&pod, &(struct net_new){.kind = "veth", .name = "net0", .peer = "other"});
    const char *before = kit_show(k, &k->host);
    const struct dray_claim *c = kit_claim(k, "uid-1", whole, nic0);
    good(kit_prepare(k, c, &err), &err);
    assert_int_equal(kit_attach(k, c, &pod, &err), -ERR_ALREADY_EXISTS);
    assert_string_equal(err.msg, "the pod has an interface net0 already");
    assert_string_equal(kit_show(k, &k->host), before);
    good(net_record_read(k->state, STR("nic0"), &k->arena, &r, &err), &err);
    assert_int_equal(r.phase, NET_PLANNED);
    assert_str(r.error, "the pod has an interface net0 already");
    kit_change(k, &pod, "net0", (struct net_change){.name = "free"});
    good(kit_attach(k, c, &pod, &err), &err);
    good(net_record_read(k->state, STR("nic0"), &k->arena, &r, &err), &err);
    assert_int_equal(r.error.n, 0);
    good(kit_unprepare(k, c, &err), &err);
    kit_ns_end(&pod);
    kit_free(k);
}

static void a_bad_route_is_told_and_undone(void **state)
{
    struct kit *k = kit_new();
    struct kit_ns pod;
    struct net_link l;
    struct err err = {0};
    (void)state;
    kit_ns_new(&pod);
    const char *before = kit_show(k, &k->host);
    const struct dray_claim *c =
        kit_claim(k, "uid-1",
                  "{\"interface\":{\"addresses\":[\"10.9.0.5/24\"]},\"routes\":[{\"destination\":"
                  "\"10.10.0.0/16\",\"gateway\":\"172.16.0.1\"}]}",
                  nic0);
    good(kit_prepare(k, c, &err), &err);
    assert_true(kit_attach(k, c, &pod, &err) < 0);
    assert_non_null(strstr(err.msg, "cannot add the route to 10.10.0.0/16"));
    assert_false(kit_link(k, &pod, "nic0", &l));
    assert_string_equal(kit_show(k, &k->host), before);
    good(kit_unprepare(k, c, &err), &err);
    kit_ns_end(&pod);
    kit_free(k);
}

static void an_unknown_feature_is_told_and_undone(void **state)
{
    struct kit *k = kit_new();
    struct kit_ns pod;
    struct err err = {0};
    (void)state;
    kit_ns_new(&pod);
    const char *before = kit_show(k, &k->host);
    const struct dray_claim *c =
        kit_claim(k, "uid-1", "{\"ethtool\":{\"features\":{\"warp-drive\":true}}}", nic0);
    good(kit_prepare(k, c, &err), &err);
    assert_int_equal(kit_attach(k, c, &pod, &err), -ERR_INVALID);
    assert_string_equal(err.msg, "nic0 has no feature warp-drive");
    assert_string_equal(kit_show(k, &k->host), before);
    kit_ns_end(&pod);
    kit_free(k);
}

static void two_pods_cannot_share(void **state)
{
    struct kit *k = kit_new();
    struct kit_ns a, b;
    struct net_link l;
    struct err err = {0};
    (void)state;
    k->preparer.world.wait_ns = 0;
    kit_ns_new(&a);
    kit_ns_new(&b);
    const struct dray_claim *c = kit_claim(k, "uid-1", whole, nic0);
    good(kit_prepare(k, c, &err), &err);
    good(kit_attach(k, c, &a, &err), &err);
    assert_int_equal(kit_attach(k, c, &b, &err), -ERR_CONFLICT);
    assert_true(kit_link(k, &a, "net0", &l));
    good(kit_unprepare(k, c, &err), &err);
    kit_ns_end(&a);
    kit_ns_end(&b);
    kit_free(k);
}

static void the_hosts_network_is_no_pod(void **state)
{
    struct kit *k = kit_new();
    struct err err = {0};
    (void)state;
    const char *before = kit_show(k, &k->host);
    const struct dray_claim *c = kit_claim(k, "uid-1", whole, nic0);
    good(kit_prepare(k, c, &err), &err);
    assert_int_equal(kit_attach(k, c, &k->host, &err), -ERR_INVALID);
    assert_string_equal(kit_show(k, &k->host), before);
    kit_free(k);
}

static void of_another_claim(void **state)
{
    struct kit *k = kit_new();
    struct kit_ns pod;
    struct err err = {0};
    (void)state;
    kit_ns_new(&pod);
    const struct dray_claim *one = kit_claim(k, "uid-1", whole, nic0);
    const struct dray_claim *two = kit_claim(k, "uid-2", whole, nic0);
    good(kit_prepare(k, one, &err), &err);
    assert_int_equal(kit_prepare(k, two, &err), -ERR_CONFLICT);
    assert_non_null(strstr(err.msg, "claim default/claim has it"));
    assert_int_equal(kit_attach(k, two, &pod, &err), -ERR_NOT_FOUND);
    good(kit_unprepare(k, two, &err), &err);
    assert_int_equal(kit_records(k), 1);
    assert_int_equal(net_verify(&k->preparer, one, &err), 0);
    assert_true(net_verify(&k->preparer, two, &err) < 0);
    kit_ns_end(&pod);
    kit_free(k);
}

// --- What the kernel does with a namespace that ends ------------------------------------------------

// Hardware goes back to the host by itself, under a name the kernel finds when its own is taken.
static void hardware_comes_back_by_itself(void **state)
{
    struct kit *k = kit_new();
    struct kit_ns pod;
    struct err err = {0};
    (void)state;
    const char *before = kit_show(k, &k->host);
    const struct dray_claim *c = kit_claim(k, "uid-1", whole, nic0);
    kit_ns_new(&pod);
    good(kit_prepare(k, c, &err), &err);
    good(kit_attach(k, c, &pod, &err), &err);
    kit_change(k, &pod, "net0", (struct net_change){.down = true});
    kit_change(k, &pod, "net0",
               (struct net_change){.name = "dev7", .ns_fd = k->host.fd, .moves = true});
    kit_ns_end(&pod);
    good(kit_unprepare(k, c, &err), &err);
    assert_string_equal(kit_show(k, &k->host), before);
    kit_free(k);
}

static void a_new_sandbox_finds_it(void **state)
{
    struct kit *k = kit_new();
    struct kit_ns pod, next;
    struct net_link l;
    struct err err = {0};
    (void)state;
    const char *before = kit_show(k, &k->host);
    const struct dray_claim *c = kit_claim(k, "uid-1", whole, nic0);
    kit_ns_new(&pod);
    kit_ns_new(&next);
    good(kit_prepare(k, c, &err), &err);
    good(kit_attach(k, c, &pod, &err), &err);
    kit_change(k, &pod, "net0",
               (struct net_change){.name = "dev7", .ns_fd = k->host.fd, .moves = true});
    kit_ns_end(&pod);
    good(kit_attach(k, c, &next, &err), &err);
    assert_true(kit_link(k, &next, "net0", &l));
    assert_true(kit_has_address(k, &next, "net0", "10.9.0.5/24"));
    good(kit_unprepare(k, c, &err), &err);
    assert_string_equal(kit_show(k, &k->host), before);
    kit_ns_end(&next);
    kit_free(k);
}

static void its_name_was_taken_meanwhile(void **state)
{
    struct kit *k = kit_new();
    struct kit_ns pod;
    struct net_link l;
    struct err err = {0};
    (void)state;
    const struct dray_claim *c = kit_claim(k, "uid-1", whole, nic0);
    kit_ns_new(&pod);
    good(kit_prepare(k, c, &err), &err);
    good(kit_attach(k, c, &pod, &err), &err);
    kit_add(&k->host, &(struct net_new){.kind = "veth", .name = "nic0", .peer = "thief"});
    good(kit_unprepare(k, c, &err), &err);
    assert_string_equal(k->told, "InterfaceNameTaken ");
    assert_true(kit_link(k, &k->host, "drnic0", &l));
    assert_int_equal(l.mtu, 1400);
    assert_str(l.alias, "the first");
    assert_int_equal(kit_records(k), 0);
    kit_ns_end(&pod);
    kit_free(k);
}

static void software_ends_with_its_namespace(void **state)
{
    struct kit *k = kit_new();
    struct kit_ns pod;
    struct err err = {0};
    (void)state;
    const struct dray_claim *c = kit_claim(k, "uid-1", whole, nic0);
    kit_ns_new(&pod);
    good(kit_prepare(k, c, &err), &err);
    good(kit_attach(k, c, &pod, &err), &err);
    kit_ns_end(&pod);
    good(kit_unprepare(k, c, &err), &err);
    assert_string_equal(k->told, "InterfaceLost ");
    assert_int_equal(kit_records(k), 0);
    kit_free(k);
}

// What the driver pins does not end with its pod.
static void software_in_a_pinned_namespace(void **state)
{
    struct kit *k = kit_new();
    struct kit_ns pod, next;
    struct net_ns_id id;
    struct net_link l;
    struct err err = {0};
    int pin = -1;
    (void)state;
    const char *before = kit_show(k, &k->host);
    const struct dray_claim *c = kit_claim(k, "uid-1", whole, nic0);
    kit_ns_new(&pod);
    kit_ns_new(&next);
    good(kit_prepare(k, c, &err), &err);
    good(kit_attach(k, c, &pod, &err), &err);
    good(net_ns_id(pod.fd, &id, &err), &err);
    good(net_pin(&k->preparer.world, id, pod.pid, &pin, &err), &err);
    kit_ns_end(&pod);
    good(kit_attach(k, c, &next, &err), &err); // a new sandbox takes it over
    assert_true(kit_link(k, &next, "net0", &l));
    net_unpin(&k->preparer.world, id, pin);
    good(net_ns_id(next.fd, &id, &err), &err);
    good(net_pin(&k->preparer.world, id, next.pid, &pin, &err), &err);
    kit_ns_end(&next);
    good(kit_unprepare(k, c, &err), &err);
    net_unpin(&k->preparer.world, id, pin);
    assert_string_equal(k->told, "");
    assert_string_equal(kit_show(k, &k->host), before);
    kit_free(k);
}

static void it_vanished_before_the_pod_came(void **state)
{
    struct kit *k = kit_new();
    struct kit_ns pod;
    struct net_link l;
    struct net_sock *s = NULL;
    struct err err = {0};
    (void)state;
    const struct dray_claim *c = kit_claim(k, "uid-1", whole, nic0);
    kit_ns_new(&pod);
    good(kit_prepare(k, c, &err), &err);
    assert_true(kit_link(k, &k->host, "nic0", &l));
    assert_int_equal(net_sock_open(k->host.fd, &s, &err), 0);
    good(net_link_delete(s, l.index, &err), &err);
    net_sock_free(s);
    assert_int_equal(kit_attach(k, c, &pod, &err), -ERR_NOT_FOUND);
    assert_string_equal(err.msg, "the interface nic0 of device nic0 is gone");
    // Another of the same name is not it.
    kit_add(&k->host, &(struct net_new){.kind = "veth", .name = "nic0", .peer = "nic0-far2"});
    assert_int_equal(kit_attach(k, c, &pod, &err), -ERR_NOT_FOUND);
    good(kit_unprepare(k, c, &err), &err);
    assert_true(kit_link(k, &k->host, "nic0", &l));
    kit_ns_end(&pod);
    kit_free(k);
}

static void the_pod_changed_its_mark(void **state)
{
    struct kit *k = kit_new();
    struct kit_ns pod;
    struct err err = {0};
    (void)state;
    const char *before = kit_show(k, &k->host);
    const struct dray_claim *c = kit_claim(k, "uid-1", whole, nic0);
    kit_ns_new(&pod);
    good(kit_prepare(k, c, &err), &err);
    good(kit_attach(k, c, &pod, &err), &err);
    kit_change(k, &pod, "net0", (struct net_change){.alias = "mine"});
    good(kit_unprepare(k, c, &err), &err);
    assert_string_equal(kit_show(k, &k->host), before);
    kit_ns_end(&pod);
    kit_free(k);
}

// --- Other boots, wrong parameters -----------------------------------------------------------------

static void another_boot(void **state)
{
    struct kit *k = kit_new();
    struct kit_ns pod;
    struct err err = {0};
    (void)state;
    const char *before = kit_show(k, &k->host);
    const struct dray_claim *c = kit_claim(k, "uid-1", whole, nic0);
    kit_ns_new(&pod);
    good(kit_prepare(k, c, &err), &err);
    k->preparer.world.boot_id = "boot-2";
    assert_int_equal(kit_attach(k, c, &pod, &err), -ERR_CONFLICT);
    assert_true(net_verify(&k->preparer, c, &err) < 0);
    good(kit_prepare(k, c, &err), &err);
    good(kit_attach(k, c, &pod, &err), &err);
    good(kit_unprepare(k, c, &err), &err);
    assert_string_equal(kit_show(k, &k->host), before);
    kit_ns_end(&pod);
    kit_free(k);
}

// --- What a record cannot say ----------------------------------------------------------------------

// The kernel takes names that people may not ask for.
static void an_odd_name_is_the_hosts_own(void **state)
{
    static const char *const devices[] = {"net-o5qw4kzr", NULL};
    struct kit *k = kit_new();
    struct kit_ns pod;
    struct net_link l;
    struct err err = {0};
    (void)state;
    kit_ns_new(&pod);
    kit_change(k, &k->host, "eth1", (struct net_change){.down = true});
    kit_change(k, &k->host, "eth1", (struct net_change){.name = "wan+1"});
    const char *before = kit_show(k, &k->host);
    const struct dray_claim *odd = kit_claim(k, "uid-1", NULL, devices);
    const struct dray_claim *other = kit_claim(k, "uid-2", NULL, nic0);
    good(kit_prepare(k, odd, &err), &err);
    good(kit_attach(k, odd, &pod, &err), &err);
    assert_true(kit_link(k, &pod, "wan+1", &l));
    good(kit_prepare(k, other, &err), &err);
    good(kit_unprepare(k, other, &err), &err);
    good(kit_unprepare(k, odd, &err), &err);
    assert_string_equal(kit_show(k, &k->host), before);
    kit_ns_end(&pod);
    kit_free(k);
}

// Neither forgotten nor in the way of others.
static void a_damaged_record_costs_its_own_device(void **state)
{
    static const char *const eth1[] = {"eth1", NULL};
    struct kit *k = kit_new();
    struct err err = {0};
    char path[160];
    (void)state;
    const struct dray_claim *bad = kit_claim(k, "uid-1", NULL, nic0);
    const struct dray_claim *fine = kit_claim(k, "uid-2", NULL, eth1);
    good(kit_prepare(k, bad, &err), &err);
    (void)snprintf(path, sizeof(path), "%s/nic0.json", k->state);
    assert_int_equal(truncate(path, 20), 0);
    good(kit_prepare(k, fine, &err), &err);
    good(kit_unprepare(k, fine, &err), &err);
    assert_int_equal(kit_prepare(k, bad, &err), -ERR_INVALID);
    assert_non_null(strstr(err.msg, "nic0.json"));
    assert_int_equal(kit_unprepare(k, bad, &err), -ERR_INVALID);
    assert_int_equal(unlink(path), 0);
    good(kit_unprepare(k, bad, &err), &err);
    kit_free(k);
}

static void refused(struct kit *k, const char *parameters, const char *const *devices,
                    const char *path, const char *text)
{
    struct err err = {0};
    const struct dray_claim *c = kit_claim(k, "uid-1", parameters, devices);
    assert_true(kit_prepare(k, c, &err) < 0);
    assert_string_equal(err.path, path);
    if (!strstr(err.msg, text))
        fail_msg("'%s' lacks '%s'", err.msg, text);
    assert_int_equal(kit_records(k), 0);
}

static void wrong_parameters(void **state)
{
    struct kit *k = kit_new();
    const char *const two[] = {"nic0", "nic0-far", NULL};
    const char *const made[] = {"macvlan-eth1-0", NULL};
    const char *const none[] = {"nic9", NULL};
    const char *const uplink[] = {"lo", NULL};
    (void)state;
    offer(k, "macvlan:eth1=1");
    refused(k, "{\"interface\":{\"mtu\":12}}", nic0, "interface.mtu", "12 is not within");
    refused(k, "{\"interface\":{\"nam\":\"x\"}}", nic0, "interface.nam", "unknown field");
    refused(k, "{\"interface\":{\"name\":\"net0\"}}", two, "", "would both be net0 in the pod");
    refused(k, "{\"interface\":{\"mtu\":9000}}", made, "interface.mtu", "is more than the 1500");
    refused(k, NULL, none, "", "request nic, device nic9: there is no such interface");
    refused(k, NULL, uplink, "", "there is no such interface");
    kit_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_CASE(moves_and_returns),
        TEST_CASE(takes_what_the_host_had),
        TEST_CASE(a_second_container_changes_nothing),
        TEST_CASE(makes_veth),
        TEST_CASE(makes_macvlan),
        TEST_CASE(makes_ipvlan),
        TEST_CASE(makes_vlan),
        TEST_CASE(joins_a_vrf),
        TEST_CASE(the_veths_host_end_joins_its_bridge),
        TEST_CASE(a_taken_name_is_told_and_undone),
        TEST_CASE(a_bad_route_is_told_and_undone),
        TEST_CASE(an_unknown_feature_is_told_and_undone),
        TEST_CASE(two_pods_cannot_share),
        TEST_CASE(the_hosts_network_is_no_pod),
        TEST_CASE(of_another_claim),
        TEST_CASE(hardware_comes_back_by_itself),
        TEST_CASE(a_new_sandbox_finds_it),
        TEST_CASE(its_name_was_taken_meanwhile),
        TEST_CASE(software_ends_with_its_namespace),
        TEST_CASE(software_in_a_pinned_namespace),
        TEST_CASE(it_vanished_before_the_pod_came),
        TEST_CASE(the_pod_changed_its_mark),
        TEST_CASE(another_boot),
        TEST_CASE(wrong_parameters),
        TEST_CASE(an_odd_name_is_the_hosts_own),
        TEST_CASE(a_damaged_record_costs_its_own_device),
    };
    const char *missing = net_kit_missing();
    if (missing) {
        (void)printf("skipped: %s\n", missing);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
