// SPDX-License-Identifier: Apache-2.0
//
// Parameters of network devices: what is taken, what is refused and where, how class and claim merge.
#include <unistd.h>

#include "driver/net/net_plan.h"
#include "driver/net/net_record.h"
#include "driver/net_hook.h"
#include "unit.h"

#include "base/banned.h"

static const char *written(const struct net_plan *p, struct arena *a)
{
    cleanup_sbuf struct sbuf out = {0};
    struct json_writer w = {.out = &out};
    net_plan_write(p, &w);
    return arena_str(a, sbuf_str(&out)).p;
}

static void addresses(void **state)
{
    static const struct {
        const char *text;
        bool prefix, good;
        const char *again;
    } rows[] = {
        {"10.0.0.1/24", true, true, "10.0.0.1/24"},
        {"2001:DB8::1/64", true, true, "2001:db8::1/64"},
        {"::/0", true, true, "::/0"},
        {"0.0.0.0/0", true, true, "0.0.0.0/0"},
        {"10.0.0.1", false, true, "10.0.0.1"},
        {"10.0.0.1", true, false, ""},
        {"10.0.0.1/24", false, false, ""},
        {"10.0.0.1/33", true, false, ""},
        {"10.0.0.1/024", true, false, ""},
        {"10.0.0.1/-1", true, false, ""},
        {"10.0.0.1/", true, false, ""},
        {"/24", true, false, ""},
        {"10.0.0/24", true, false, ""},
        {"2001:db8::1/129", true, false, ""},
        {"fe80::1%eth0/64", true, false, ""},
        {"", false, false, ""},
    };
    (void)state;
    for (size_t i = 0; i < array_len(rows); i++) {
        struct net_ip ip = {0};
        struct err err = {0};
        char text[NET_IP_TEXT_MAX];
        int code = net_ip_parse(str_z(rows[i].text), rows[i].prefix, &ip, &err);
        assert_int_equal(code == 0, rows[i].good);
        if (code == 0) {
            net_ip_text(&ip, rows[i].prefix, text);
            assert_string_equal(text, rows[i].again);
        } else {
            assert_true(err.msg[0] != '\0');
        }
    }
}

static void masks_and_scopes(void **state)
{
    struct net_ip ip = {0};
    char text[NET_IP_TEXT_MAX];
    (void)state;
    assert_int_equal(net_ip_parse(STR("10.1.2.3/13"), true, &ip, NULL), 0);
    net_ip_mask(&ip);
    net_ip_text(&ip, true, text);
    assert_string_equal(text, "10.0.0.0/13");
    assert_int_equal(net_ip_parse(STR("2001:db8:ffff::1/33"), true, &ip, NULL), 0);
    net_ip_mask(&ip);
    net_ip_text(&ip, true, text);
    assert_string_equal(text, "2001:db8:8000::/33");
    static const char *const local[] = {"127.0.0.1", "169.254.1.1", "224.0.0.1", "0.0.0.0",
                                        "::1",       "fe80::1",     "ff02::1",   "::"};
    for (size_t i = 0; i < array_len(local); i++) {
        assert_int_equal(net_ip_parse(str_z(local[i]), false, &ip, NULL), 0);
        assert_false(net_ip_is_global(&ip));
    }
    assert_int_equal(net_ip_parse(STR("192.168.1.1"), false, &ip, NULL), 0);
    assert_true(net_ip_is_global(&ip));
    assert_int_equal(net_ip_parse(STR("fd00::1"), false, &ip, NULL), 0);
    assert_true(net_ip_is_global(&ip));
}

static void hardware_addresses(void **state)
{
    static const struct {
        const char *text;
        size_t n;
    } rows[] = {
        {"02:00:5e:10:00:0A", 6},
        {"02-00-5e-10-00-01", 6},
        {"0200.5e10.0001", 6},
        {"02:00:5e:10:00:00:00:01", 8},
        {"00:00:00:00:fe:80:00:00:00:00:00:00:02:00:5e:10:00:00:00:01", 20},
        {"02:00:5e:10:00", 0},
        {"02:00:5e:10:00:0g", 0},
        {"02:00-5e:10:00:01", 0},
        {"02005e100001", 0},
        {"02:00:5e:10:00:01:", 0},
        {"", 0},
    };
    (void)state;
    for (size_t i = 0; i < array_len(rows); i++) {
        struct net_mac mac = {0};
        int code = net_mac_parse(str_z(rows[i].text), &mac, NULL);
        assert_int_equal(code == 0, rows[i].n > 0);
        assert_int_equal(mac.n, rows[i].n);
    }
    struct net_mac a = net_mac_made(STR("claim/a")), b = net_mac_made(STR("claim/b"));
    assert_false(net_mac_equal(&a, &b));
    assert_int_equal(a.bytes[0] & 3, 2); // of nobody's making, for one
}

static void refused(void **state)
{
    static const struct {
        const char *json, *path, *text;
    } rows[] = {
        {"{", "", ""},
        {"[]", "", ""},
        {"{\"interfaces\":{}}", "interfaces", "unknown field"},
        {"{\"profile\":\"fast\"}", "profile", "no profiles"},
        {"{\"interface\":{\"name\":\"a/b\"}}", "interface.name", "cannot be an interface's name"},
        {"{\"interface\":{\"name\":\"sixteen-letters-\"}}", "interface.name", "1 to 15"},
        {"{\"interface\":{\"name\":\"..\"}}", "interface.name", "cannot be"},
        {"{\"interface\":{\"name\":\"all\"}}", "interface.name", "cannot be"},
        {"{\"interface\":{\"addresses\":[\"10.0.0.1/8\",\"x\"]}}", "interface.addresses[1]",
         "\"x\" is not an IP address with"},
        {"{\"interface\":{\"dhcp\":true}}", "interface.dhcp", "no DHCP client"},
        {"{\"interface\":{\"mtu\":67}}", "interface.mtu", "67 is not within 68"},
        {"{\"interface\":{\"mtu\":\"1500\"}}", "interface.mtu", "int64"},
        {"{\"interface\":{\"hardwareAddr\":\"x\"}}", "interface.hardwareAddr", "hardware address"},
        {"{\"interface\":{\"gsoMaxSize\":0}}", "interface.gsoMaxSize", "not within 1"},
        {"{\"interface\":{\"arpIgnore\":4}}", "interface.arpIgnore", "not one of"},
        {"{\"interface\":{\"arpAnnounce\":3}}", "interface.arpAnnounce", "not within"},
        {"{\"interface\":{\"vrf\":{}}}", "interface.vrf.name", "is required"},
        {"{\"interface\":{\"vrf\":{\"name\":\"v\",\"table\":254}}}", "interface.vrf.table",
         "the kernel's own"},
        {"{\"routes\":[{\"gateway\":\"10.0.0.1\"}]}", "routes[0].destination", "is required"},
        {"{\"routes\":[{\"destination\":\"10.0.0.0/8\"}]}", "routes[0].gateway", "is required"},
        {"{\"routes\":[{\"destination\":\"10.0.0.0/8\",\"gateway\":\"::1\"}]}", "routes[0].gateway",
         "IPv4"},
        {"{\"routes\":[{\"destination\":\"::/0\",\"gateway\":\"::1\",\"source\":\"1.2.3.4\"}]}",
         "routes[0].source", "IPv6"},
        {"{\"routes\":[{\"destination\":\"::/0\",\"scope\":9}]}", "routes[0].scope", "neither"},
        {"{\"rules\":[{\"priority\":32768}]}", "rules[0].priority", "not within"},
        {"{\"rules\":[{\"source\":\"1.2.3.4/32\",\"destination\":\"::/0\"}]}", "rules[0]", "both"},
        {"{\"rules\":[{}],\"interface\":{\"vrf\":{\"name\":\"v\"}}}", "rules", "together"},
        {"{\"neighbors\":[{\"destination\":\"1.2.3.4\"}]}", "neighbors[0].hardwareAddr",
         "required"},
        {"{\"ethtool\":{\"features\":{\"gro\":1}}}", "ethtool.features[gro]", "bool"},
        {"{\"apiVersion\":\"v1\",\"kind\":\"X\"}", "", "not known"},
    };
    (void)state;
    for (size_t i = 0; i < array_len(rows); i++) {
        cleanup_arena struct arena arena = {0};
        struct net_plan p;
        struct err err = {0};
        net_plan_init(&p);
        assert_true(net_plan_add(&p, rows[i].json, &arena, &err) < 0);
        if (strcmp(err.path, rows[i].path) != 0 || !strstr(err.msg, rows[i].text))
            fail_msg("%s: %s: %s", rows[i].json, err.path, err.msg);
        assert_string_equal(written(&p, &arena), "{\"interface\":{}}");
    }
}

static void too_many(void **state)
{
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf json = {0};
    struct net_plan p;
    struct err err = {0};
    (void)state;
    sbuf_addz(&json, "{\"interface\":{\"addresses\":[");
    for (int i = 0; i < NET_LIST_MAX + 1; i++)
        sbuf_addf(&json, "%s\"10.0.%d.1/32\"", i ? "," : "", i);
    sbuf_addz(&json, "]}}");
    net_plan_init(&p);
    assert_int_equal(net_plan_add(&p, json.p, &arena, &err), -ERR_INVALID);
    assert_string_equal(err.path, "interface.addresses[64]");
}

static void class_then_claim(void **state)
{
    cleanup_arena struct arena arena = {0};
    struct net_plan p, again;
    struct err err = {0};
    (void)state;
    net_plan_init(&p);
    assert_int_equal(
        net_plan_add(&p,
                     "{\"interface\":{\"name\":\"a\",\"mtu\":9000,\"addresses\":[\"10.0.0.1/24\"],"
                     "\"forwarding\":true,\"arpIgnore\":1},\"routes\":[{\"destination\":"
                     "\"10.1.0.9/16\",\"gateway\":\"10.0.0.2\"}],\"ethtool\":{\"features\":"
                     "{\"gro\":true,\"tso\":true}}}",
                     &arena, &err),
        0);
    assert_int_equal(
        net_plan_add(
            &p,
            "{\"interface\":{\"name\":\"b\",\"addresses\":[\"10.0.0.1/24\",\"fd00::1/64\"],"
            "\"forwarding\":false,\"arpIgnore\":0,\"vrf\":null},\"routes\":[{"
            "\"destination\":\"10.1.0.0/16\",\"gateway\":\"10.0.0.3\"},{\"destination\":"
            "\"10.1.0.0/16\",\"gateway\":\"10.0.0.4\",\"table\":7}],\"ethtool\":"
            "{\"features\":{\"gro\":false}}}",
            &arena, &err),
        0);
    const char *merged = written(&p, &arena);
    assert_string_equal(
        merged,
        "{\"interface\":{\"name\":\"b\",\"addresses\":[\"10.0.0.1/24\",\"fd00::1/"
        "64\"],\"mtu\":9000,"
        "\"forwarding\":false,\"arpIgnore\":0},\"routes\":[{\"destination\":\"10.1.0.0/16\","
        "\"gateway\":\"10.0.0.3\"},{\"destination\":\"10.1.0.0/16\",\"gateway\":\"10.0.0.4\","
        "\"table\":7}],\"ethtool\":{\"features\":{\"gro\":false,\"tso\":true},\"privateFlags\":{}}"
        "}");
    net_plan_init(&again);
    assert_int_equal(net_plan_add(&again, merged, &arena, &err), 0);
    assert_string_equal(written(&again, &arena), merged);
}

static void a_vrf_without_table_has_one_by_its_name(void **state)
{
    cleanup_arena struct arena arena = {0};
    struct net_plan p, q;
    (void)state;
    net_plan_init(&p);
    net_plan_init(&q);
    const char *json = "{\"interface\":{\"vrf\":{\"name\":\"blue\"}}}";
    assert_int_equal(net_plan_add(&p, json, &arena, NULL), 0);
    assert_int_equal(net_plan_add(&q, json, &arena, NULL), 0);
    assert_true(p.vrf_table >= NET_VRF_TABLE_FIRST);
    assert_int_equal(p.vrf_table, q.vrf_table);
}

static void states_of_containers(void **state)
{
    int pid = 0;
    struct err err = {0};
    (void)state;
    assert_int_equal(net_hook_pid(STR("{\"ociVersion\":\"1.0.2\",\"id\":\"x\",\"pid\":4711,"
                                      "\"status\":\"creating\",\"bundle\":\"/b\"}"),
                                  &pid, &err),
                     0);
    assert_int_equal(pid, 4711);
    static const char *const bad[] = {
        "",   "{}",      "{\"pid\":0}", "{\"pid\":-1}", "{\"pid\":\"1\"}", "{\"pid\":4294967296}",
        "[]", "nonsense"};
    for (size_t i = 0; i < array_len(bad); i++)
        assert_true(net_hook_pid(str_z(bad[i]), &pid, &err) < 0);
}

static void records_that_are_damaged(void **state)
{
    cleanup_arena struct arena arena = {0};
    struct net_record r;
    struct err err = {0};
    (void)state;
    static const char good[] =
        "{\"phase\":\"attached\",\"uid\":\"u\",\"device\":\"d\",\"what\":\"move\",\"host\":{},"
        "\"plan\":{\"interface\":{\"name\":\"x\"}},\"nsInode\":7,\"pid\":3}";
    assert_int_equal(net_record_parse(str_z(good), &arena, &r, &err), 0);
    assert_int_equal(r.phase, NET_ATTACHED);
    assert_string_equal(r.plan.name, "x");
    for (size_t n = 0; n + 1 < sizeof(good) - 1; n++) // cut anywhere
        assert_true(net_record_parse(str_make(good, n), &arena, &r, &err) < 0);
    assert_true(net_record_parse(STR("{\"phase\":\"gone\",\"uid\":\"u\",\"device\":\"d\",\"what\":"
                                     "\"move\",\"host\":{},\"plan\":{}}"),
                                 &arena, &r, &err) < 0);
}

// What the kernel has is kept, though nobody may ask for it; one record that could not be read again would cost all.
static void records_keep_what_the_kernel_has(void **state)
{
    static const struct {
        const char *what;
        struct net_plan host;
    } rows[] = {
        {"a name", {.name = "wan+1@b\xc3\xbc"}},
        {"a name of everything", {.name = "all"}},
        {"a small MTU", {.name = "a", .mtu = 60}},
        {"a large MTU", {.name = "a", .mtu = INT32_MAX}},
        {"a short hardware address", {.name = "a", .mac = {4, {1, 2, 3, 4}}}},
        {"one of a byte", {.name = "a", .mac = {1, {255}}}},
        {"the longest", {.name = "a", .mac = {NET_MAC_MAX, {9}}}},
    };
    (void)state;
    for (size_t i = 0; i < array_len(rows); i++) {
        cleanup_arena struct arena arena = {0};
        struct net_record r = {.uid = STR("u"), .device = STR("d"), .kind = STR("move")}, again;
        struct net_plan asked;
        struct err err = {0};
        char dir[] = "/tmp/dray-net-plan-XXXXXX";
        net_plan_init(&r.host);
        memcpy(r.host.name, rows[i].host.name, sizeof(r.host.name));
        r.host.mtu = rows[i].host.mtu;
        r.host.mac = r.permanent = rows[i].host.mac;
        r.plan = r.host;
        assert_non_null(mkdtemp(dir));
        assert_int_equal(net_record_write(dir, &r, &err), 0);
        if (net_record_read(dir, r.device, &arena, &again, &err) != 0)
            fail_msg("%s: %s", rows[i].what, err.msg);
        assert_string_equal(again.host.name, r.host.name);
        assert_string_equal(again.plan.name, r.host.name);
        assert_int_equal(again.host.mtu, r.host.mtu);
        assert_true(net_mac_equal(&again.host.mac, &r.host.mac));
        assert_true(net_mac_equal(&again.permanent, &r.permanent));
        net_plan_init(&asked);
        if (rows[i].host.mtu != INT32_MAX && rows[i].host.mac.n != NET_MAC_MAX)
            assert_true(net_plan_add(&asked, written(&r.host, &arena), &arena, NULL) < 0);
        assert_int_equal(net_record_remove(dir, r.device, &err), 0);
        assert_int_equal(rmdir(dir), 0);
    }
}

RUN_TESTS(TEST_CASE(addresses), TEST_CASE(masks_and_scopes), TEST_CASE(hardware_addresses),
          TEST_CASE(refused), TEST_CASE(too_many), TEST_CASE(class_then_claim),
          TEST_CASE(a_vrf_without_table_has_one_by_its_name), TEST_CASE(states_of_containers),
          TEST_CASE(records_that_are_damaged), TEST_CASE(records_keep_what_the_kernel_has))
