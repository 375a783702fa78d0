// SPDX-License-Identifier: Apache-2.0
//
// Parts of the driver SDK: the journal, opaque parameters, names of sockets, pools, what prepare makes.
#include "driver/sdk/journal.h"
#include "driver/sdk/outcome.h"
#include "driver/sdk/pool.h"
#include "driver/sdk/sdk.h"
#include "unit.h"

#include "base/banned.h"

// --- Journal -------------------------------------------------------------------------------------

static const struct dray_amount amounts[] = {{"memory", "10Gi"}};
static const struct dray_config configs[] = {{true, "{\"a\":\"\\u00e4\"}"}, {false, "{}"}};
static const struct dray_allocated devices[] = {
    {"gpu", "gpu/big", "pool/a", "gpu-0", "share-1", false, amounts, 1, configs, 2},
    {"nic", "nic", "pool/a", "nic-0", NULL, true, NULL, 0, NULL, 0}};

static struct journal_entry entry(enum journal_step step)
{
    return (struct journal_entry){.step = step,
                                  .boot = STR("boot"),
                                  .claim = {.namespace_ = "ns",
                                            .name = "claim",
                                            .uid = "uid-1",
                                            .devices = devices,
                                            .devices_len = 2},
                                  .spec = STR("{\"kind\":\"a/b\"}")};
}

static void journals_say_what_was_written(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf text = {0};
    cleanup_arena struct arena arena = {0};
    struct journal_entry e = entry(JOURNAL_PREPARING);
    journal_write(&e, &text);
    e = entry(JOURNAL_PREPARED);
    journal_write(&e, &text);
    struct journal_entry back;
    bool damaged;
    assert_int_equal(journal_read(sbuf_str(&text), &arena, &back, &damaged), 0);
    assert_false(damaged);
    assert_int_equal(back.step, JOURNAL_PREPARED);
    assert_int_equal(back.claim.devices_len, 2);
    const struct dray_allocated *d = &back.claim.devices[0];
    assert_string_equal(d->request, "gpu");
    assert_string_equal(d->request_ref, "gpu/big");
    assert_string_equal(d->share_id, "share-1");
    assert_string_equal(d->consumed[0].quantity, "10Gi");
    assert_true(d->configs[0].from_class);
    assert_string_equal(d->configs[0].parameters, configs[0].parameters);
    assert_true(back.claim.devices[1].admin_access);
    assert_null(back.claim.devices[1].share_id);
    assert_str(back.spec, "{\"kind\":\"a/b\"}");
}

static void journals_forgive_a_torn_end(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf text = {0};
    struct journal_entry e = entry(JOURNAL_PREPARING);
    journal_write(&e, &text);
    size_t first = text.n;
    e = entry(JOURNAL_PREPARED);
    journal_write(&e, &text);
    size_t whole = text.n;
    for (size_t n = 0; n <= whole; n++) {
        cleanup_arena struct arena arena = {0};
        struct journal_entry back;
        bool damaged;
        int rc = journal_read(str_make(text.p, n), &arena, &back, &damaged);
        assert_int_equal(rc, n < first ? -ERR_NOT_FOUND : 0);
        if (rc == 0)
            assert_int_equal(back.step, n < whole ? JOURNAL_PREPARING : JOURNAL_PREPARED);
        assert_int_equal(damaged, n > 1 && n != first && n != first + 1 && n != whole);
    }
    // What is appended behind a torn line counts.
    sbuf_truncate(&text, whole - 10);
    e = entry(JOURNAL_UNPREPARING);
    journal_write(&e, &text);
    cleanup_arena struct arena arena = {0};
    struct journal_entry back;
    bool damaged;
    assert_int_equal(journal_read(sbuf_str(&text), &arena, &back, &damaged), 0);
    assert_int_equal(back.step, JOURNAL_UNPREPARING);
    assert_false(damaged);
    // A rotten bit is found.
    text.p[text.n - 20] ^= 1;
    assert_int_equal(journal_read(sbuf_str(&text), &arena, &back, &damaged), 0);
    assert_int_equal(back.step, JOURNAL_PREPARING);
    assert_true(damaged);
}

// --- Parameters ----------------------------------------------------------------------------------

struct inner {
    int64_t percent;
};

struct config {
    const char *name, *size, *mode, *raw;
    bool on;
    struct inner *inner;
    struct dray_texts list;
    struct dray_map limits;
    struct dray_objects inners;
};

static const char *const modes[] = {"Slow", "Fast", NULL};
static const struct dray_field inner_fields[] = {{"percent", DRAY_INT,
                                                  .offset = offsetof(struct inner, percent),
                                                  .min = 1, .max = 100, .required = true},
                                                 {0}};
static const struct dray_field fields[] = {
    {"name", DRAY_TEXT, .offset = offsetof(struct config, name)},
    {"size", DRAY_QUANTITY, .offset = offsetof(struct config, size)},
    {"mode", DRAY_CHOICE, .offset = offsetof(struct config, mode), .choices = modes},
    {"raw", DRAY_RAW, .offset = offsetof(struct config, raw)},
    {"on", DRAY_BOOL, .offset = offsetof(struct config, on)},
    {"inner", DRAY_OBJECT, .offset = offsetof(struct config, inner), .fields = inner_fields,
     .size = sizeof(struct inner)},
    {"list", DRAY_TEXTS, .offset = offsetof(struct config, list)},
    {"limits", DRAY_MAP, .offset = offsetof(struct config, limits), .of_quantities = true},
    {"inners", DRAY_OBJECTS, .offset = offsetof(struct config, inners), .fields = inner_fields,
     .size = sizeof(struct inner)},
    {0}};
static const struct dray_schema schemas[] = {{"example.com/v1", "Config", fields,
                                              sizeof(struct config)},
                                             {NULL, NULL, inner_fields, sizeof(struct inner)}};

#define HEAD "{\"apiVersion\":\"example.com/v1\",\"kind\":\"Config\""

static void parameters_fill_structs(void **state)
{
    (void)state;
    const struct dray_schema *schema;
    struct dray_params *p;
    struct dray_error err = {0};
    assert_int_equal(
        dray_decode(HEAD ",\"name\":\"n\",\"size\":\"2Gi\",\"mode\":\"Fast\",\"raw\":{\"x\":[1]},"
                         "\"on\":true,\"inner\":{\"percent\":7},\"list\":[\"a\",\"b\"],"
                         "\"limits\":{\"0\":5},\"inners\":[{\"percent\":1},{\"percent\":2}]}",
                    schemas, 2, &schema, &p, &err),
        0);
    const struct config *c = dray_params_value(p);
    assert_ptr_equal(schema, &schemas[0]);
    assert_string_equal(c->name, "n");
    assert_string_equal(c->size, "2Gi");
    assert_string_equal(c->mode, "Fast");
    assert_string_equal(c->raw, "{\"x\":[1]}");
    assert_true(c->on);
    assert_int_equal(c->inner->percent, 7);
    assert_string_equal(c->list.p[1], "b");
    assert_string_equal(c->limits.p[0].quantity, "5");
    assert_int_equal(((const struct inner *)c->inners.p)[1].percent, 2);
    dray_params_free(p);
    assert_int_equal(dray_decode("{\"percent\":3}", schemas, 2, &schema, &p, &err), 0);
    assert_ptr_equal(schema, &schemas[1]);
    dray_params_free(p);
}

static void mistakes_have_a_path(void **state)
{
    (void)state;
    static const struct {
        const char *json, *field, *words;
    } rows[] = {
        {HEAD ",\"nmae\":1}", "nmae", "unknown field; known are: name, size"},
        {HEAD ",\"name\":1}", "name", "string"},
        {HEAD ",\"size\":\"2Qx\"}", "size", ""},
        {HEAD ",\"mode\":\"fast\"}", "mode", "not one of: Slow, Fast"},
        {HEAD ",\"inner\":{\"percent\":101}}", "inner.percent", "not within 1 and 100"},
        {HEAD ",\"inner\":{}}", "inner.percent", "required"},
        {HEAD ",\"inner\":{\"percent\":1,\"x\":2}}", "inner.x", "unknown field"},
        {HEAD ",\"list\":[\"a\",2]}", "list[1]", "string"},
        {HEAD ",\"limits\":{\"gpu\":\"x\"}}", "limits[gpu]", ""},
        {HEAD ",\"inners\":[{\"percent\":1},{\"percent\":\"2\"}]}", "inners[1].percent", "int64"},
        {HEAD ",\"name\":\"a\",\"name\":\"b\"}", "", "uplicate"},
        {"{\"apiVersion\":\"example.com/v2\",\"kind\":\"Config\"}", "", "example.com/v2"},
        {"[]", "", "object"},
        {"", "", ""},
    };
    for (size_t i = 0; i < array_len(rows); i++) {
        struct dray_params *p = NULL;
        struct dray_error err = {0};
        assert_int_equal(dray_decode(rows[i].json, schemas, 2, NULL, &p, &err), -1);
        assert_string_equal(err.field, rows[i].field);
        assert_true(err.message[0] != '\0');
        if (!strstr(err.message, rows[i].words))
            fail_msg("%s: %s", rows[i].json, err.message);
    }
}

// What users write goes to code with root's rights: nothing that C would read otherwise than JSON gets there.
static void hostile_parameters_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *json, *words;
    } rows[] = {
        {HEAD ",\"limits\":{\"a\\u0000b\":\"1\"}}", "NUL"},
        {HEAD ",\"name\":\"a\\u0000b\"}", "NUL"},
        {HEAD ",\"list\":[\"a\\u0000\"]}", "NUL"},
        {HEAD ",\"inner\":{\"percent\":9223372036854775808}}", ""},
        {HEAD ",\"inner\":{\"percent\":1e400}}", ""},
        {HEAD ",\"inner\":{\"percent\":-1}}", "not within"},
        {HEAD ",\"size\":\"1e999999999\"}", ""},
        {HEAD ",\"limits\":{\"a\":\"1\",\"a\":\"2\"}}", "uplicate"},
        {HEAD "}{}", ""},
        {HEAD ",\"name\":\"\xff\"}", ""},
    };
    for (size_t i = 0; i < array_len(rows); i++) {
        struct dray_params *p = NULL;
        struct dray_error err = {0};
        if (dray_decode(rows[i].json, schemas, 2, NULL, &p, &err) != -1)
            fail_msg("%s is taken", rows[i].json);
        if (!strstr(err.message, rows[i].words))
            fail_msg("%s: %s", rows[i].json, err.message);
    }
    cleanup_sbuf struct sbuf deep = {0}, large = {0};
    sbuf_addz(&deep, HEAD ",\"raw\":");
    for (int i = 0; i < 20000; i++)
        sbuf_addc(&deep, '[');
    sbuf_addz(&large, HEAD ",\"name\":\"");
    for (int i = 0; i < 64 * 1024; i++)
        sbuf_addc(&large, 'x');
    sbuf_addz(&large, "\"}");
    const char *const texts[] = {deep.p, large.p};
    for (size_t i = 0; i < array_len(texts); i++) {
        struct dray_params *p = NULL;
        struct dray_error err = {0};
        assert_int_equal(dray_decode(texts[i], schemas, 2, NULL, &p, &err), -1);
    }
}

// --- Names of sockets ----------------------------------------------------------------------------

// The second and third are what k8s.io/dynamic-resource-allocation/kubeletplugin makes.
static void sockets_are_named_as_kubernetes_names_them(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf name = {0};
    sdk_registration_name(&name, "/var/lib/kubelet/plugins_registry", "gpu.example.com", NULL);
    assert_str(sbuf_str(&name), "gpu.example.com-reg.sock");
    sbuf_clear(&name);
    const char *uid = "12345678-1234-1234-1234-123456789abc";
    sdk_registration_name(&name, "/r", "gpu.example.com", uid);
    assert_str(sbuf_str(&name), "gpu.example.com-12345678-1234-1234-1234-123456789abc-reg.sock");
    sbuf_clear(&name);
    sdk_registration_name(&name, "/var/lib/kubelet/plugins_registry",
                          "a-driver-with-a-long-name.resource.example.com", uid);
    assert_str(sbuf_str(&name),
               "a-driver-with-a-long-name.resource.example.com-rhkI1e72uMI-reg.sock");
    sbuf_clear(&name);
    sdk_registration_name(&name, "/var/lib/kubelet/plugins_registry",
                          "a-driver-with-a-really-long-name-that-fills.resource.example.co", uid);
    assert_str(sbuf_str(&name), "dra-PcTKFsExUhx5Dxrba5zjUg-reg.sock");
}

// --- Outcomes ------------------------------------------------------------------------------------

static void prepared_devices_become_specs(void **state)
{
    (void)state;
    cleanup_arena struct arena arena = {0};
    const struct journal_entry from = entry(JOURNAL_PREPARING);
    struct journal_entry e = from;
    struct dray_outcome o;
    struct err err = {0};
    outcome_init(&o, &e.claim, &arena);
    dray_env(&o, DRAY_ALL, "ALL", "1");
    dray_env(&o, 0, "ONE", "2");
    dray_cdi(&o, 1, "other.com/nic=0");
    dray_condition(&o, 1, "Ready", true, "", "fine");
    const char *ips[] = {"10.0.0.1/24", NULL};
    dray_network(&o, 1, "eth1", "00:11:22:33:44:55", ips);
    dray_describe(&o, 0, "model", "X");
    const struct outcome_names names = {STR("gpu.example.com"), STR("device"), STR("/m")};
    assert_int_equal(outcome_finish(&o, &names, STR("2026-01-01T00:00:00Z"), &e, &err), 0);
    assert_str(e.ids[0].p[0], "gpu.example.com/device=uid-1-gpu-0");
    assert_str(e.ids[0].p[1], "gpu.example.com/device=uid-1-metadata-gpu");
    assert_int_equal(e.ids[1].n, 3);
    assert_str(e.ids[1].p[1], "other.com/nic=0");
    assert_true(str_contains(e.status, STR("\"interfaceName\":\"eth1\"")));
    assert_true(str_contains(e.metadata, STR("metadata.resource.k8s.io/v1beta1")));
    assert_true(str_contains(
        e.spec,
        STR("dra-device-attributes/resourceclaims/claim/gpu/gpu.example.com-metadata.json")));
    // Misuse is told, not written.
    outcome_init(&o, &e.claim, &arena);
    dray_env(&o, 2, "X", "1");
    assert_int_equal(outcome_finish(&o, &names, STR(""), &e, &err), -ERR_INVALID);
    outcome_init(&o, &e.claim, &arena);
    dray_mount(&o, 0, "relative", "", NULL);
    assert_int_equal(outcome_finish(&o, &names, STR(""), &e, &err), -ERR_INVALID);
}

// --- Pools ---------------------------------------------------------------------------------------

static void pools_tell_mistakes(void **state)
{
    (void)state;
    cleanup_arena struct arena arena = {0};
    struct pool_specs specs;
    struct err err = {0};
    struct dray_pool *p = dray_pool_new(NULL);
    dray_capacity(dray_pool_device(p, "d"), "memory", "12Zq");
    assert_int_equal(pool_make(p, &arena, &specs, &err), -ERR_BAD_REQUEST);
    assert_non_null(strstr(err.path, "devices[0].capacity"));
    dray_pool_free(p);
    struct dray_error why = {0};
    assert_int_equal(dray_pool_json("p", "[{\"devces\":[]}]", &p, &why), -1);
    assert_non_null(strstr(why.message, "devces"));
    p = dray_pool_new(NULL);
    const struct dray_range range = {"1", "1", "4", "1"};
    dray_capacity_range(dray_pool_device(p, "d"), "slots", "4", &range);
    assert_int_equal(pool_make(p, &arena, &specs, &err), 0);
    assert_non_null(specs.p[0].devices.p[0].capacity.p[0].value.request_policy);
    dray_pool_free(p);
}

RUN_TESTS(TEST_CASE(journals_say_what_was_written), TEST_CASE(journals_forgive_a_torn_end),
          TEST_CASE(parameters_fill_structs), TEST_CASE(mistakes_have_a_path),
          TEST_CASE(hostile_parameters_are_refused),
          TEST_CASE(sockets_are_named_as_kubernetes_names_them),
          TEST_CASE(prepared_devices_become_specs), TEST_CASE(pools_tell_mistakes))
