// SPDX-License-Identifier: Apache-2.0
//
// The checkpoint, against a file that kubelet's own code has written (tests/interop/checkpoint), and the
// folder it is kept in.
#include <unistd.h>

#include <sys/stat.h>

#include "codec/json_writer.h"
#include "node/checkpoint.h"
#include "node/dra/health.h"
#include "node/machine/disk.h"
#include "unit.h"

#include "base/banned.h"

static void kubelets_file(struct sbuf *out)
{
    char path[512];
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets it
    (void)snprintf(path, sizeof(path), "%s/dra_manager_state", getenv("TEST_DATA"));
    read_file(path, out);
}

static void kubelets_checkpoint_is_understood(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf text = {0};
    struct node_claims all = {0};
    struct err err = {0};
    kubelets_file(&text);
    if (checkpoint_read(sbuf_str(&text), &all, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(map_len(&all.by_key), 2);
    const struct node_claim *c = node_claims_find(&all, STR("ns"), STR("plain"));
    assert_non_null(c);
    assert_str(c->uid, "11111111-0000-4000-8000-000000000001");
    assert_int_equal(c->pods.n, 2);
    assert_string_equal(c->pods.p[0], "pod-a");
    assert_int_equal(c->drivers.n, 2);
    const struct node_claim_driver *gpu = node_claim_driver_find(c, STR("gpu.example.com"));
    assert_non_null(gpu);
    assert_int_equal(gpu->devices.n, 2);
    assert_str(gpu->devices.p[0].pool_name, "node<1>");
    assert_int_equal(gpu->devices.p[0].cdi_device_ids.n, 2);
    assert_false(gpu->devices.p[0].has_share_id);
    assert_str(gpu->devices.p[1].share_id, "5f0f1c3e-0000-4000-8000-000000000007");
    assert_int_equal(gpu->devices.p[1].request_names.n, 0);
    const struct node_claim_driver *net = node_claim_driver_find(c, STR("net.example.com"));
    assert_true(node_claim_driver_skips(net, CLAIM_SKIP_PREPARE));
    assert_false(node_claim_driver_skips(net, CLAIM_SKIP_UNPREPARE));
    node_claims_done(&all);
}

static void what_is_written_is_kubelets_byte_for_byte(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf text = {0}, again = {0};
    struct node_claims all = {0};
    struct err err = {0};
    kubelets_file(&text);
    assert_int_equal(checkpoint_read(sbuf_str(&text), &all, &err), 0);
    checkpoint_write(&all, &again);
    assert_str(sbuf_str(&again), text.p);
    node_claims_done(&all);
}

static void an_older_or_newer_kubelets_is_understood(void **state)
{
    (void)state;
    // Fields that are missing are empty, those that nobody knows are passed over.
    static const char *const data[] = {
        "{}", "{\"ClaimInfoStateList\":null}",
        "{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v9\","
        "\"New\":[1],\"ClaimInfoStateList\":[{\"ClaimUID\":\"u\",\"ClaimName\":\"n\","
        "\"PodUIDs\":null,\"DriverState\":{\"d\":{\"Devices\":[{\"DeviceName\":\"x\",\"Other\":{}}]"
        "},"
        "\"e\":null}}]}"};
    for (size_t i = 0; i < array_len(data); i++) {
        cleanup_sbuf struct sbuf text = {0};
        struct json_writer w = {.out = &text};
        struct node_claims all = {0};
        struct err err = {0};
        json_write_object_begin(&w);
        json_write_key(&w, STR("Data"));
        json_write_str(&w, str_z(data[i]));
        json_write_key(&w, STR("Checksum"));
        json_write_u64(&w, checkpoint_crc(str_z(data[i])));
        json_write_object_end(&w);
        if (checkpoint_read(sbuf_str(&text), &all, &err) < 0)
            fail_msg("%s", err.msg);
        assert_int_equal(map_len(&all.by_key), i == 2 ? 1 : 0);
        node_claims_done(&all);
    }
}

static void every_damaged_byte_is_noticed(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf text = {0};
    kubelets_file(&text);
    for (size_t i = 0; i < text.n; i++) {
        struct node_claims all = {0};
        struct err err = {0};
        // Cut off here:
        assert_true(checkpoint_read(str_upto(sbuf_str(&text), i), &all, &err) < 0);
        assert_true(err.msg[0] != '\0');
        assert_int_equal(map_len(&all.by_key), 0);
        // One bit the other way:
        text.p[i] ^= 1;
        int rc = checkpoint_read(sbuf_str(&text), &all, &err);
        text.p[i] ^= 1;
        // The outer names may change, which leaves data or sum missing; nothing else may pass.
        assert_true(rc < 0 || map_len(&all.by_key) == 0);
        node_claims_done(&all);
    }
}

static void crc_is_that_of_everyone(void **state)
{
    (void)state;
    assert_int_equal(checkpoint_crc(STR("123456789")), 0xcbf43926);
    assert_int_equal(checkpoint_crc(STR("")), 0);
}

static void a_file_is_replaced_whole_or_not_at_all(void **state)
{
    (void)state;
    char dir[] = "/tmp/disk-test-XXXXXX", path[64];
    struct disk *d = NULL;
    struct err err = {0};
    cleanup_sbuf struct sbuf text = {0};
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/a/b", dir);
    assert_int_equal(disk_folder_new(path, &d, &err), 0);
    assert_int_equal(d->read(d, "x", &text, &err), -ENOENT);
    assert_int_equal(d->copy(d, "x", "y", &err), -ENOENT);
    assert_int_equal(d->replace(d, "x", STR("one"), &err), 0);
    assert_int_equal(d->copy(d, "x", "y", &err), 0);
    assert_int_equal(d->copy(d, "x", "y", &err), 0); // the same file under both names
    assert_int_equal(d->replace(d, "x", STR("two"), &err), 0);
    assert_int_equal(d->read(d, "x", &text, &err), 0);
    assert_int_equal(d->read(d, "y", &text, &err), 0);
    assert_string_equal(text.p, "twoone");
    char file[80];
    struct stat st;
    (void)snprintf(file, sizeof(file), "%s/x", path);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    (void)snprintf(file, sizeof(file), "%s/dir", path);
    assert_int_equal(mkdir(file, 0755), 0); // cannot be replaced by a file
    assert_true(d->replace(d, "dir", STR("three"), &err) < 0);
    disk_folder_free(d);
    char command[160];
    (void)snprintf(command, sizeof(command), "find %s -name '.*' | grep -q . ; echo $? > %s/r", dir,
                   dir);
    assert_int_equal(system(command), 0); // NOLINT(concurrency-mt-unsafe,cert-env33-c): a test
    (void)snprintf(file, sizeof(file), "%s/r", dir);
    sbuf_clear(&text);
    read_file(file, &text);
    assert_string_equal(text.p, "1\n"); // nothing temporary is left
    (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
    assert_int_equal(system(command), 0); // NOLINT(concurrency-mt-unsafe,cert-env33-c): a test
}

static void health_survives_in_kubelets_form(void **state)
{
    (void)state;
    static const char kubelets[] =
        "{\"gpu.example.com\":{\"Devices\":{\"p/a\":{\"PoolName\":\"p\",\"DeviceName\":\"a\","
        "\"Health\":\"Unhealthy\",\"LastUpdated\":\"2027-01-15T08:00:00.5+02:00\","
        "\"HealthCheckTimeout\":60000000000,\"Message\":\"hot\"}}}}";
    struct clock_fake clock;
    struct err err = {0};
    cleanup_sbuf struct sbuf text = {0};
    clock_fake_init(&clock, INT64_C(1799992800) * CLOCK_NS_PER_SEC); // 2027-01-15T06:00:00Z
    struct health *h = health_new(&clock.clock);
    assert_int_equal(health_read(h, str_z(kubelets), &err), 0);
    struct health_state s = health_of(h, STR("gpu.example.com"), STR("p"), STR("a"));
    assert_int_equal(s.health, PLUGIN_UNHEALTHY);
    assert_str(s.message, "hot");
    health_write(h, &text);
    assert_string_equal(text.p, "{\"gpu.example.com\":{\"Devices\":{\"p/a\":{\"PoolName\":\"p\","
                                "\"DeviceName\":\"a\",\"Health\":\"Unhealthy\",\"LastUpdated\":"
                                "\"2027-01-15T06:00:00.5Z\",\"HealthCheckTimeout\":60000000000,"
                                "\"Message\":\"hot\"}}}}");
    clock_fake_advance(&clock, 61 * CLOCK_NS_PER_SEC);
    s = health_of(h, STR("gpu.example.com"), STR("p"), STR("a"));
    assert_int_equal(s.health, PLUGIN_HEALTH_UNKNOWN);
    assert_true(health_read(h, STR("[]"), &err) < 0);
    health_free(h);
}

RUN_TESTS(TEST_CASE(kubelets_checkpoint_is_understood),
          TEST_CASE(what_is_written_is_kubelets_byte_for_byte),
          TEST_CASE(an_older_or_newer_kubelets_is_understood),
          TEST_CASE(every_damaged_byte_is_noticed), TEST_CASE(crc_is_that_of_everyone),
          TEST_CASE(a_file_is_replaced_whole_or_not_at_all),
          TEST_CASE(health_survives_in_kubelets_form))
