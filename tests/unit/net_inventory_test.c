// SPDX-License-Identifier: Apache-2.0
//
// Which interfaces are given away, what is published of them. The kernel's lists are made up, sysfs is
// a folder with what a server with a two-port NIC and virtual functions has.
#include <unistd.h>

#include <sys/stat.h>

#include "driver/net/net_inventory.h"
#include "os/file.h"
#include "unit.h"

#include "base/banned.h"

static char sys[64];

static void put(const char *path, const char *text)
{
    cleanup_sbuf struct sbuf whole = {0};
    cleanup_sbuf struct sbuf dir = {0};
    sbuf_addf(&whole, "%s/%s", sys, path);
    sbuf_add(&dir, str_upto(sbuf_str(&whole), (size_t)str_rfind_char(sbuf_str(&whole), '/')));
    assert_int_equal(file_make_dirs(dir.p, 0755, NULL), 0);
    assert_int_equal(file_replace_atomic(AT_FDCWD, whole.p, str_z(text), 0644, NULL), 0);
}

static void point(const char *from, const char *to)
{
    cleanup_sbuf struct sbuf a = {0}, b = {0}, dir = {0};
    sbuf_addf(&a, "%s/%s", sys, from);
    sbuf_addf(&b, "%s/%s", sys, to);
    sbuf_add(&dir, str_upto(sbuf_str(&a), (size_t)str_rfind_char(sbuf_str(&a), '/')));
    assert_int_equal(file_make_dirs(dir.p, 0755, NULL), 0);
    assert_int_equal(symlink(b.p, a.p), 0);
}

#define NIC "devices/pci0000:80/0000:80:01.0/0000:8a:00.0"
#define VF  "devices/pci0000:80/0000:80:01.0/0000:8a:00.2"

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(sys, sizeof(sys), "/tmp/dray-sys-XXXXXX");
    assert_non_null(mkdtemp(sys));
    put(NIC "/vendor", "0x15b3\n");
    put(NIC "/device", "0x1021\n");
    put(NIC "/subsystem_device", "0x0022\n");
    put(NIC "/numa_node", "1\n");
    put(NIC "/sriov_totalvfs", "8\n");
    put(NIC "/sriov_numvfs", "0\n");
    put(NIC "/infiniband/mlx5_0/node_type", "1\n");
    put(NIC "/net/ens1/mtu", "9000\n");
    put(VF "/vendor", "0x15b3\n");
    put(VF "/device", "0x101e\n");
    put(VF "/numa_node", "1\n");
    put(VF "/net/ens1v0/mtu", "1500\n");
    put("devices/virtual/net/veth7/mtu", "1500\n");
    put("pci.ids", "# comment\n15b2  Nobody\n15b3  Mellanox Technologies\n\t1021  MT2910 Family "
                   "[ConnectX-7]\n\t\t15b3 0022  A card\n15b4  Somebody\n\t1021  Not this\n");
    point("class/net/ens1", NIC "/net/ens1");
    point("class/net/ens1v0", VF "/net/ens1v0");
    point("class/net/veth7", "devices/virtual/net/veth7");
    point(NIC "/net/ens1/device", NIC);
    point(VF "/net/ens1v0/device", VF);
    point(VF "/physfn", NIC);
    point("bus/pci/devices/0000:8a:00.0", NIC);
    point("bus/pci/devices/0000:8a:00.2", VF);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return file_remove_tree(sys, NULL);
}

static struct net_link link_of(int index, const char *name, const char *kind)
{
    struct net_link l = {.index = index, .mtu = 1500, .hardware = 1, .state = 6, .flags = IFF_UP};
    (void)snprintf(l.name, sizeof(l.name), "%s", name);
    (void)snprintf(l.kind, sizeof(l.kind), "%s", kind);
    l.mac = (struct net_mac){6, {2, 0, 0, 0, 0, (uint8_t)index}};
    return l;
}

static void hardware(void **state)
{
    cleanup_arena struct arena a = {0};
    cleanup_sbuf struct sbuf ids = {0};
    struct net_hardware h;
    (void)state;
    sbuf_addf(&ids, "%s/pci.ids", sys);
    struct net_pci_names *names = net_pci_names_open(ids.p);
    net_hardware_read(sys, "ens1", names, &a, &h);
    assert_str(h.pci, "0000:8a:00.0");
    assert_str(h.pcie_root, "pci0000:80");
    assert_str(h.vendor, "Mellanox Technologies");
    assert_str(h.device, "MT2910 Family [ConnectX-7]");
    assert_str(h.subsystem, "0022");
    assert_str(h.rdma, "mlx5_0");
    assert_int_equal(h.numa_node, 1);
    assert_int_equal(h.total_vfs, 8);
    assert_false(h.is_vf || h.virtual);
    net_hardware_read(sys, "ens1v0", NULL, &a, &h);
    assert_str(h.pci, "0000:8a:00.2");
    assert_str(h.vendor, "0x15b3"); // without the file of names
    assert_true(h.is_vf);
    net_hardware_read(sys, "veth7", names, &a, &h);
    assert_true(h.virtual);
    assert_int_equal(h.pci.n, 0);
    net_hardware_read(sys, "nothing", names, &a, &h);
    assert_int_equal(h.pci.n, 0);
    net_pci_names_free(names);
}

static void virtual_functions(void **state)
{
    cleanup_sbuf struct sbuf path = {0}, text = {0};
    struct err err = {0};
    (void)state;
    assert_int_equal(net_vfs_make(sys, "veth7", 2, &err), -ERR_UNSUPPORTED);
    assert_int_equal(net_vfs_make(sys, "ens1", 9, &err), -ERR_INVALID);
    assert_int_equal(net_vfs_make(sys, "ens1", 4, &err), 0);
    sbuf_addf(&path, "%s/" NIC "/sriov_numvfs", sys);
    read_file(path.p, &text);
    assert_true(str_starts(sbuf_str(&text), STR("4")));
    put(NIC "/sriov_numvfs", "4\n");
    assert_int_equal(net_vfs_make(sys, "ens1", 3, &err), 0); // enough
    assert_int_equal(net_vfs_make(sys, "ens1", 6, &err), -EBUSY);
    put(NIC "/sriov_numvfs", "0\n");
}

struct world {
    struct arena arena;
    struct net_view view;
    struct net_filter filter;
    struct net_records records;
};

static void add(struct world *w, struct net_link l)
{
    vec_push_arena(&w->arena, &w->view.links, l);
}

static void done(struct world *w)
{
    vec_done(&w->filter.only);
    vec_done(&w->filter.skip);
    vec_done(&w->filter.allow);
    vec_done(&w->filter.offers);
    arena_done(&w->arena);
}

static const char *names_of(struct world *w)
{
    struct net_devices all = {0};
    cleanup_sbuf struct sbuf out = {0};
    w->view.sys = sys;
    net_inventory(&w->view, &w->filter, &w->records, &w->arena, &all);
    vec_foreach(&all, d)
        sbuf_addf(&out, "%.*s ", STR_ARG(d->name));
    return arena_str(&w->arena, sbuf_str(&out)).p;
}

static void fill(struct world *w)
{
    const struct net_known_route by_eth0 = {
        .index = 2, .route = {.destination = {AF_INET, 0, {0}}, .table = 254}};
    struct net_link l = link_of(1, "lo", "");
    l.flags |= IFF_LOOPBACK;
    add(w, l);
    add(w, link_of(2, "bond0.7", "vlan"));
    w->view.links.p[1].parent = 3;
    add(w, link_of(3, "bond0", "bond"));
    add(w, link_of(4, "eno1", "")); // a member of the bond
    w->view.links.p[3].master = 3;
    add(w, link_of(5, "ens1", ""));
    add(w, link_of(6, "ens1v0", ""));
    add(w, link_of(7, "veth7", "veth"));
    add(w, link_of(8, "cali123", "veth"));
    w->view.links.p[7].parent_elsewhere = true;
    add(w, link_of(9, "docker0", "bridge"));
    add(w, link_of(10, "Odd.Name", "dummy"));
    vec_push_arena(&w->arena, &w->view.routes, by_eth0);
}

static void who_is_given_away(void **state)
{
    struct world w = {0};
    (void)state;
    fill(&w);
    assert_string_equal(names_of(&w), "net-j5sgilsomfwwk pci-0000-8a-00-0 pci-0000-8a-00-2 veth7 ");
    assert_string_equal(net_why_not(&w.view, &w.filter, &w.view.links.p[1]),
                        "the host's default route needs it");
    vec_push(&w.filter.only, "ens*");
    assert_string_equal(names_of(&w), "pci-0000-8a-00-0 pci-0000-8a-00-2 ");
    vec_push(&w.filter.skip, "*v0");
    assert_string_equal(names_of(&w), "pci-0000-8a-00-0 ");
    vec_push(&w.filter.allow, "eno1");
    assert_string_equal(names_of(&w), "eno1 pci-0000-8a-00-0 ");
    done(&w);
}

static void what_carries_the_route_from_below(void **state)
{
    struct world w = {0};
    (void)state;
    fill(&w);
    // bond0.7 has the route: bond0 below it and eno1 in that are needed as well.
    assert_non_null(net_why_not(&w.view, &w.filter, &w.view.links.p[2]));
    assert_non_null(net_why_not(&w.view, &w.filter, &w.view.links.p[3]));
    done(&w);
}

static void offers(void **state)
{
    struct world w = {0};
    struct net_offer o;
    static const char *const texts[] = {"macvlan:ens1=2", "vlan:ens1=100-101", "veth=1"};
    (void)state;
    fill(&w);
    for (size_t i = 0; i < array_len(texts); i++) {
        assert_int_equal(net_offer_parse(texts[i], &o, NULL), 0);
        vec_push(&w.filter.offers, o);
    }
    vec_push(&w.filter.only, "none");
    // ens1 itself is not given away any more.
    assert_string_equal(names_of(&w), "macvlan-ens1-0 macvlan-ens1-1 veth-host-0 vlan-ens1-100 "
                                      "vlan-ens1-101 ");
    static const char *const bad[] = {"",
                                      "tun=1",
                                      "macvlan=1",
                                      "macvlan:ens1=0",
                                      "macvlan:e=257",
                                      "vlan:ens1",
                                      "vlan:ens1=0",
                                      "vlan:e=5-4",
                                      "vlan:e=1-4095",
                                      "macvlan:a/b=1",
                                      "vlan:e=1-999",
                                      "veth:=x"};
    for (size_t i = 0; i < array_len(bad); i++) {
        struct err err = {0};
        if (net_offer_parse(bad[i], &o, &err) == 0)
            fail_msg("%s was taken", bad[i]);
        assert_non_null(strstr(err.msg, "is not an offer"));
    }
    done(&w);
}

static void attributes(void **state)
{
    struct world w = {0};
    struct net_devices all = {0};
    (void)state;
    fill(&w);
    const struct net_address addresses[] = {
        {5, {AF_INET, 24, {10, 0, 0, 9}}, 0, true},
        {5, {AF_INET, 24, {10, 0, 0, 10}}, 0, true},
        {5, {AF_INET, 16, {169, 254, 0, 1}}, 0, true},
        {5, {AF_INET6, 64, {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}, 0, true},
    };
    for (size_t i = 0; i < array_len(addresses); i++)
        vec_push_arena(&w.arena, &w.view.addresses, addresses[i]);
    w.view.sys = sys;
    net_inventory(&w.view, &w.filter, &w.records, &w.arena, &all);
    assert_str(all.p[1].name, "pci-0000-8a-00-0");
    assert_str(all.p[1].attributes,
               "{\"dra.net/ifName\":{\"string\":\"ens1\"},\"dra.net/"
               "mac\":{\"string\":\"02:00:00:00:00:05\"},"
               "\"dra.net/mtu\":{\"int\":1500},\"dra.net/encapsulation\":{\"string\":\"ether\"},"
               "\"dra.net/alias\":{\"string\":\"\"},\"dra.net/state\":{\"string\":\"up\"},"
               "\"dra.net/type\":{\"string\":\"device\"},"
               "\"dra.net/ipv4\":{\"string\":\"10.0.0.10/24,10.0.0.9/24\"},"
               "\"dra.net/ipv6\":{\"string\":\"fd00::1/64\"},\"dra.net/virtual\":{\"bool\":false},"
               "\"dra.net/pciAddress\":{\"string\":\"0000:8a:00.0\"},"
               "\"dra.net/pciVendor\":{\"string\":\"0x15b3\"},\"dra.net/"
               "pciDevice\":{\"string\":\"0x1021\"},"
               "\"dra.net/pciSubsystem\":{\"string\":\"0022\"},"
               "\"resource.kubernetes.io/pciBusID\":{\"string\":\"0000:8a:00.0\"},"
               "\"resource.kubernetes.io/pcieRoot\":{\"string\":\"pci0000:80\"},"
               "\"dra.net/numaNode\":{\"int\":1},\"resource.kubernetes.io/numaNode\":{\"int\":1},"
               "\"dra.net/sriov\":{\"bool\":true},\"dra.net/sriovVfs\":{\"int\":0},"
               "\"dra.net/rdma\":{\"bool\":true},\"dra.net/rdmaDevice\":{\"string\":\"mlx5_0\"}}");
    assert_non_null(strstr(all.p[2].attributes.p, "\"dra.net/isSriovVf\":{\"bool\":true}"));
    done(&w);
}

// One alias that the API would not take would cost all devices of the node.
static void an_alias_is_cut_where_a_character_ends(void **state)
{
    static const struct {
        const char *alias, *published;
    } rows[] = {
        {"plain", "plain"},
        // 1 byte, then 32 characters of 2 bytes: 65
        {"a\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
         "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
         "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9",
         "a\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
         "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
         "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"},
        {"in B\xfcro", "in B"}, // Latin-1
    };
    (void)state;
    for (size_t i = 0; i < array_len(rows); i++) {
        struct world w = {0};
        struct net_devices all = {0};
        cleanup_sbuf struct sbuf want = {0};
        add(&w, link_of(7, "veth7", "veth"));
        w.view.links.p[0].alias = str_z(rows[i].alias);
        w.view.sys = sys;
        net_inventory(&w.view, &w.filter, &w.records, &w.arena, &all);
        assert_int_equal(all.n, 1);
        sbuf_addf(&want, "\"dra.net/alias\":{\"string\":\"%s\"}", rows[i].published);
        if (!strstr(all.p[0].attributes.p, want.p))
            fail_msg("%s", all.p[0].attributes.p);
        done(&w);
    }
}

// What is in a pod stays published as it was, and is not there twice when it comes back under a mark.
static void devices_in_use(void **state)
{
    struct world w = {0};
    struct net_devices all = {0};
    (void)state;
    const struct net_record r = {.device = STR("veth7"),
                                 .kind = STR(NET_KIND_MOVE),
                                 .attributes = STR("{\"dra.net/ifName\":{\"string\":\"veth7\"}}")};
    add(&w, link_of(7, "dev0", "veth"));
    w.view.links.p[0].alias = STR("dray uid-1 veth7");
    w.view.sys = sys;
    vec_push_arena(&w.arena, &w.records, r);
    net_inventory(&w.view, &w.filter, &w.records, &w.arena, &all);
    assert_int_equal(all.n, 1);
    assert_str(all.p[0].name, "veth7");
    assert_null(all.p[0].link);
    assert_str(all.p[0].attributes, "{\"dra.net/ifName\":{\"string\":\"veth7\"}}");
    done(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_CASE(hardware),
        TEST_CASE(virtual_functions),
        TEST_CASE(who_is_given_away),
        TEST_CASE(what_carries_the_route_from_below),
        TEST_CASE(offers),
        TEST_CASE(attributes),
        TEST_CASE(an_alias_is_cut_where_a_character_ends),
        TEST_CASE(devices_in_use),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
