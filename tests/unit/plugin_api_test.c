// SPDX-License-Identifier: Apache-2.0
//
// Messages of kubelet's plugins against bytes that Go makes of the same values (k8s.io/kubelet
// v0.37.1, deterministic marshalling).
#include "driver/plugin_api.h"
#include "unit.h"

#include "base/banned.h"

static void assert_hex(const struct plugin_message *m, const void *value, const char *want)
{
    struct proto_writer w = {0};
    struct sbuf hex = {0};
    plugin_encode(m, value, &w);
    struct str bytes = proto_written(&w);
    for (size_t i = 0; i < bytes.n; i++)
        sbuf_addf(&hex, "%02x", (unsigned)(unsigned char)bytes.p[i]);
    assert_str(sbuf_str(&hex), want);
    sbuf_done(&hex);
    proto_writer_done(&w);
}

static struct str unhex(struct arena *a, const char *hex)
{
    size_t n = strlen(hex) / 2;
    char *out = arena_alloc(a, n + 1, 1);
    for (size_t i = 0; i < 2 * n; i++) {
        int digit = hex[i] <= '9' ? hex[i] - '0' : hex[i] - 'a' + 10;
        out[i / 2] = (char)(i % 2 ? out[i / 2] | digit : digit << 4);
    }
    return str_make(out, n);
}

// Every message is read and written again to the same bytes.
static void goes_bytes_come_back(void **state)
{
    (void)state;
    static const struct {
        const struct plugin_message *message;
        const char *hex;
    } rows[] = {
        {&plugin_info_message, "0a09445241506c7567696e120f6770752e6578616d706c652e636f6d1a0b2f702f6"
                               "472612e736f636b220c7631"
                               "2e445241506c7567696e2211763162657461312e445241506c7567696e"},
        {&plugin_registration_status_message, "0801120165"},
        {&plugin_claims_message, "0a0c0a026e73120275311a0263310a080a026e7312027532"},
        {&plugin_prepare_response_message, "0a260a02753112200a190a01720a001201701a01642205782f793d7"
                                           "a2a0573686172650a031a01650a0a0a0275"
                                           "32120412026e6f0a060a0275331200"},
        {&plugin_unprepare_response_message, "0a060a02753112000a0a0a02753212040a026e6f"},
        {&plugin_health_response_message, "0a170a060a017012016410021880e2cfaa06201e2a03686f74"},
        {&plugin_list_pods_response_message, "0a3d0a03706f6412026e731a2d0a01631a01002a251202636c1a0"
                                             "26e73221b0a070a05782f793d7a1203677075"
                                             "1a01702201642a057368617265220301ac02"},
    };
    for (size_t i = 0; i < array_len(rows); i++) {
        struct arena a = {0};
        struct err err = {0};
        // Larger than any of them.
        void *value = arena_alloc(&a, 512, 16);
        assert_int_equal(plugin_decode(rows[i].message, unhex(&a, rows[i].hex), value, &a, &err),
                         0);
        assert_hex(rows[i].message, value, rows[i].hex);
        arena_done(&a);
    }
}

static void fields_are_where_they_belong(void **state)
{
    (void)state;
    struct arena a = {0};
    struct plugin_prepare_response r = {0};
    struct str bytes =
        unhex(&a, "0a260a02753112200a190a01720a001201701a01642205782f793d7a2a0573686172650a031a0165"
                  "0a0a0a027532120412026e6f0a060a0275331200");
    assert_int_equal(plugin_decode(&plugin_prepare_response_message, bytes, &r, &a, NULL), 0);
    assert_int_equal(r.claims.n, 3);
    assert_str(r.claims.p[0].uid, "u1");
    assert_int_equal(r.claims.p[0].claim.devices.n, 2);
    const struct plugin_device *d = &r.claims.p[0].claim.devices.p[0];
    assert_int_equal(d->request_names.n, 2);
    assert_str(d->request_names.p[0], "r");
    assert_str(d->pool_name, "p");
    assert_str(d->device_name, "d");
    assert_str(d->cdi_device_ids.p[0], "x/y=z");
    assert_true(d->has_share_id);
    assert_str(d->share_id, "share");
    assert_false(r.claims.p[0].claim.devices.p[1].has_share_id);
    assert_str(r.claims.p[1].claim.error, "no");
    struct plugin_health_response h = {0};
    bytes = unhex(&a, "0a170a060a017012016410021880e2cfaa06201e2a03686f74");
    assert_int_equal(plugin_decode(&plugin_health_response_message, bytes, &h, &a, NULL), 0);
    assert_int_equal(h.devices.p[0].health, PLUGIN_UNHEALTHY);
    assert_int_equal(h.devices.p[0].last_updated_time_sec, 1700000000);
    assert_int_equal(h.devices.p[0].health_check_timeout_sec, 30);
    assert_str(h.devices.p[0].device.device_name, "d");
    arena_done(&a);
}

static void bad_bytes_are_refused(void **state)
{
    (void)state;
    static const char *const rows[] = {"0a", "0a05", "0a020a05", "08", "0a030a01ff", "0801"};
    for (size_t i = 0; i < array_len(rows); i++) {
        struct arena a = {0};
        struct err err = {0};
        struct plugin_claims value = {0};
        assert_int_equal(plugin_decode(&plugin_claims_message, unhex(&a, rows[i]), &value, &a,
                                       &err),
                         -ERR_BAD_REQUEST);
        assert_true(err.msg[0] != 0);
        arena_done(&a);
    }
    struct arena a = {0};
    struct plugin_empty empty = {0}; // fields of later versions are skipped
    assert_int_equal(plugin_decode(&plugin_empty_message, unhex(&a, "7a0161"), &empty, &a, NULL),
                     0);
    arena_done(&a);
}

// An empty entry has two bytes, and many times as many when it is read: 16 MiB of them would be a gigabyte.
static void entries_without_anything_are_bounded(void **state)
{
    cleanup_sbuf struct sbuf bytes = {0};
    cleanup_arena struct arena a = {0};
    struct plugin_prepare_response r = {0};
    struct err err = {0};
    (void)state;
    for (size_t i = 0; i < (size_t)8 << 20; i++)
        sbuf_add(&bytes, str_make("\x0a\0", 2));
    assert_int_equal(plugin_decode(&plugin_prepare_response_message, sbuf_str(&bytes), &r, &a,
                                   &err),
                     -ERR_TOO_LARGE);
    assert_true(a.used_bytes < 4 * PLUGIN_DECODE_BYTES_MAX);
}

RUN_TESTS(TEST_CASE(goes_bytes_come_back), TEST_CASE(fields_are_where_they_belong),
          TEST_CASE(bad_bytes_are_refused), TEST_CASE(entries_without_anything_are_bounded))
