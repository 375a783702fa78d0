// SPDX-License-Identifier: Apache-2.0
#include "api/api.h"
#include "api/explain.h"
#include "api/openapi.h"
#include "unit.h"

#include "base/banned.h"

// What a test decodes into; ended by done.
struct fixture {
    struct arena arena;
    struct json_doc doc;
    struct json_strict strict;
    struct api_object object;
    struct err err;
    struct sbuf out;
};

static void done(struct fixture *f)
{
    arena_done(&f->arena);
    json_doc_done(&f->doc);
    json_strict_done(&f->strict);
    sbuf_done(&f->out);
}

#define FIXTURE cleanup_with(done) struct fixture

static int decode(struct fixture *f, const char *text)
{
    struct json_options options = {.duplicates = JSON_DUPLICATES_KEEP};
    assert_int_equal(json_parse(str_z(text), &options, &f->doc, &f->err), 0);
    return api_decode(&f->doc, f->doc.root, &f->arena, &f->strict, &f->object, &f->err);
}

static void decodes(struct fixture *f, const char *text)
{
    if (decode(f, text) < 0)
        fail_msg("%s: %s", f->err.path, f->err.msg);
}

static const char *json_of(struct fixture *f, const struct api_object *o)
{
    sbuf_clear(&f->out);
    struct json_writer w = {.out = &f->out};
    if (api_json_write(o->kind->type, o->value, &w, &f->err) < 0)
        fail_msg("%s: %s", f->err.path, f->err.msg);
    return f->out.p;
}

// becomes decodes one text and wants it written as the other.
static void becomes(const char *in, const char *want)
{
    FIXTURE f = {0};
    decodes(&f, in);
    assert_string_equal(json_of(&f, &f.object), want);
}

#define CLAIM "\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceClaim\""
#define SLICE "\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceSlice\""
#define HEAD  "{\"kind\":\"ResourceClaim\",\"apiVersion\":\"resource.k8s.io/v1\","

static void writes_what_go_writes(void **state)
{
    (void)state;
    // Structs by value are always there, lists without omitempty show nil as null.
    becomes("{" CLAIM "}",
            HEAD "\"metadata\":{},\"spec\":{\"devices\":{\"requests\":null}},\"status\":{}}");
    becomes("{" CLAIM ",\"spec\":{\"devices\":{\"requests\":[]}}}",
            HEAD "\"metadata\":{},\"spec\":{\"devices\":{\"requests\":[]}},\"status\":{}}");
    // null is as good as nothing.
    becomes("{" CLAIM
            ",\"metadata\":null,\"spec\":{\"devices\":{\"requests\":null,\"config\":null}}}",
            HEAD "\"metadata\":{},\"spec\":{\"devices\":{\"requests\":null}},\"status\":{}}");
    // A pointer keeps zero; a plain value with omitempty does not.
    becomes("{" CLAIM ",\"spec\":{\"devices\":{\"requests\":[{\"name\":\"r\",\"exactly\":{"
            "\"deviceClassName\":\"\",\"count\":0,\"adminAccess\":false}}]}}}",
            HEAD "\"metadata\":{},\"spec\":{\"devices\":{\"requests\":[{\"name\":\"r\",\"exactly\":"
                 "{\"deviceClassName\":\"\",\"adminAccess\":false}}]}},\"status\":{}}");
}

static void keeps_numbers_and_raw_text(void **state)
{
    (void)state;
    FIXTURE f = {0};
    decodes(&f, "{" CLAIM ",\"spec\":{\"devices\":{\"requests\":[],\"config\":[{\"opaque\":{"
                "\"driver\":\"d\",\"parameters\":{ \"b\" : 1.0, \"a\":[1e2 ] }}}]}}}");
    struct api_resource_claim *claim = f.object.value;
    struct str raw = claim->spec.devices.config.p[0].device_configuration.opaque->parameters;
    assert_str(raw, "{ \"b\" : 1.0, \"a\":[1e2 ] }");
    // Written, it loses its white space and nothing else.
    assert_non_null(strstr(json_of(&f, &f.object), "\"parameters\":{\"b\":1.0,\"a\":[1e2]}"));
}

static void reads_quantities_as_upstream(void **state)
{
    (void)state;
    FIXTURE f = {0};
    decodes(&f, "{\"apiVersion\":\"v1\",\"kind\":\"ResourceQuota\",\"spec\":{\"hard\":{"
                "\"b\":0.5,\"a\":\"1536Mi\",\"c\":2,\"d\":1e3}}}");
    struct api_resource_quota *quota = f.object.value;
    assert_int_equal(quota->spec.hard.n, 4);
    assert_str(quota->spec.hard.p[0].key, "a");
    assert_int_equal(quantity_milli(&quota->spec.hard.p[1].value), 500);
    assert_non_null(strstr(json_of(&f, &f.object),
                           "\"hard\":{\"a\":\"1536Mi\",\"b\":\"500m\",\"c\":\"2\",\"d\":\"1e3\"}"));
}

static void sorts_maps_and_keeps_the_last(void **state)
{
    (void)state;
    FIXTURE f = {0};
    decodes(&f, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"data\":{\"b\":\"1\",\"a\":\"2\","
                "\"b\":\"3\"}}");
    struct api_config_map *map = f.object.value;
    assert_int_equal(map->data.n, 2);
    assert_str(map->data.p[0].key, "a");
    assert_str(map->data.p[1].value, "3");
    assert_int_equal(f.strict.reports.n, 1);
    assert_str(f.strict.reports.p[0], "duplicate field \"data.b\"");
}

static void reports_unknown_and_repeated_fields(void **state)
{
    (void)state;
    FIXTURE f = {0};
    decodes(&f, "{" CLAIM ",\"spec\":{\"devices\":{\"requests\":[{\"name\":\"r\",\"exact\":{}},"
                "{\"name\":\"a\",\"name\":\"b\"}]},\"Devices\":1},\"bogus\":{\"x\":1}}");
    assert_int_equal(f.strict.reports.n, 4);
    assert_str(f.strict.reports.p[0], "unknown field \"spec.devices.requests[0].exact\"");
    assert_str(f.strict.reports.p[1], "duplicate field \"spec.devices.requests[1].name\"");
    assert_str(f.strict.reports.p[2], "unknown field \"spec.Devices\"");
    assert_str(f.strict.reports.p[3], "unknown field \"bogus\"");
    struct api_resource_claim *claim = f.object.value;
    assert_str(claim->spec.devices.requests.p[1].name, "b");
}

static void refuses(const char *text, const char *path, const char *what)
{
    FIXTURE f = {0};
    assert_int_equal(decode(&f, text), -ERR_BAD_REQUEST);
    assert_string_equal(f.err.path, path);
    if (!strstr(f.err.msg, what))
        fail_msg("wanted \"%s\" in: %s", what, f.err.msg);
}

static void says_where_a_value_is_wrong(void **state)
{
    (void)state;
    refuses("{" CLAIM ",\"spec\":{\"devices\":{\"requests\":[{\"name\":7}]}}}",
            "spec.devices.requests[0].name", "string");
    refuses("{" CLAIM ",\"spec\":{\"devices\":{\"requests\":{}}}}", "spec.devices.requests",
            "array");
    refuses("{" SLICE ",\"spec\":{\"pool\":{\"generation\":1.5}}}", "spec.pool.generation",
            "int64");
    refuses("{" SLICE ",\"spec\":{\"devices\":[{\"capacity\":{\"m\":{\"value\":\"5Gx\"}}}]}}",
            "spec.devices[0].capacity[m].value", "quantit");
    refuses("{" CLAIM ",\"metadata\":{\"creationTimestamp\":\"yesterday\"}}",
            "metadata.creationTimestamp", "yesterday");
    refuses("{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"data\":{\"k\":\"=\"}}", "data[k]", "");
    refuses("{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"spec\":{"
            "\"renewTime\":\"2026-11-15T12:00:00Z\"}}",
            "spec.renewTime", "six digits");
    refuses("{\"kind\":\"Pod\"}", "", "'apiVersion' is missing");
    refuses("{\"apiVersion\":\"v1\"}", "", "'Kind' is missing");
}

static void finds_kinds(void **state)
{
    (void)state;
    assert_null(api_kind_find(STR("resource.k8s.io/v1"), STR("Pod")));
    assert_non_null(api_kind_find(STR("resource.k8s.io/v1"), STR("DeleteOptions")));
    assert_null(api_kind_find(STR("no.such/v1"), STR("DeleteOptions")));
    const struct api_kind *list =
        api_kind_find(STR("resource.k8s.io/v1beta1"), STR("DeviceClassList"));
    assert_non_null(list);
    assert_str(list->item->plural, "deviceclasses");
    assert_ptr_equal(list->item->list, list);
    const struct api_kind *claim = api_kind_by_name(STR("ResourceClaims"));
    assert_str(claim->api_version, "resource.k8s.io/v1");
    assert_str(api_kind_by_name(STR("po"))->kind, "Pod");
    assert_str(api_kind_by_name(STR("events.events.k8s.io"))->group, "events.k8s.io");
    assert_str(api_kind_by_name(STR("deviceclass.v1beta2.resource.k8s.io"))->version, "v1beta2");
    assert_null(api_kind_by_name(STR("nothing")));
    assert_null(
        api_kind_of_resource(STR("resource.k8s.io"), STR("v1beta1"), STR("devicetaintrules")));
    assert_true(api_kind_of_resource(STR(""), STR("v1"), STR("pods"))->namespaced);
}

static void converts_v1beta1(void **state)
{
    (void)state;
    FIXTURE f = {0};
    decodes(&f,
            "{\"apiVersion\":\"resource.k8s.io/v1beta1\",\"kind\":\"ResourceClaim\",\"spec\":{"
            "\"devices\":{\"requests\":[{\"name\":\"r\",\"deviceClassName\":\"c\",\"count\":2},"
            "{\"name\":\"s\",\"firstAvailable\":[{\"name\":\"x\",\"deviceClassName\":\"d\"}]}]}}}");
    struct api_object v1;
    const struct api_kind *to = api_kind_find(STR("resource.k8s.io/v1"), STR("ResourceClaim"));
    assert_int_equal(api_convert(&f.object, to, &f.arena, &v1, &f.err), 0);
    assert_string_equal(
        json_of(&f, &v1),
        HEAD "\"metadata\":{},\"spec\":{\"devices\":{\"requests\":[{\"name\":\"r\",\"exactly\":{"
             "\"deviceClassName\":\"c\",\"count\":2}},{\"name\":\"s\",\"firstAvailable\":[{"
             "\"name\":\"x\",\"deviceClassName\":\"d\"}]}]}},\"status\":{}}");
    const struct api_kind *pod = api_kind_find(STR("v1"), STR("Pod"));
    assert_int_equal(api_convert(&f.object, pod, &f.arena, &v1, &f.err), -ERR_INVALID);
}

static void converts_devices_and_node_names(void **state)
{
    (void)state;
    FIXTURE f = {0};
    decodes(&f,
            "{" SLICE ",\"spec\":{\"driver\":\"d\",\"pool\":{\"name\":\"p\"},\"nodeName\":\"n\","
            "\"devices\":[{\"name\":\"g\",\"attributes\":{\"a\":{\"int\":1}}}]}}");
    struct api_object old;
    const struct api_kind *to = api_kind_find(STR("resource.k8s.io/v1beta1"), STR("ResourceSlice"));
    assert_int_equal(api_convert(&f.object, to, &f.arena, &old, &f.err), 0);
    struct api_v1beta1_resource_slice *slice = old.value;
    assert_str(slice->api_version, "resource.k8s.io/v1beta1");
    assert_str(slice->spec.node_name, "n");
    assert_int_equal(slice->spec.devices.p[0].basic->attributes.p[0].value.int_value, 1);
}

static void converts_events_between_groups(void **state)
{
    (void)state;
    FIXTURE f = {0};
    decodes(
        &f,
        "{\"apiVersion\":\"v1\",\"kind\":\"Event\",\"metadata\":{\"name\":\"e\"},"
        "\"involvedObject\":{\"kind\":\"Pod\",\"name\":\"p\"},\"message\":\"text\",\"count\":3}");
    struct api_object other;
    const struct api_kind *to = api_kind_find(STR("events.k8s.io/v1"), STR("Event"));
    assert_int_equal(api_convert(&f.object, to, &f.arena, &other, &f.err), 0);
    struct api_events_event *event = other.value;
    assert_str(event->regarding.name, "p");
    assert_str(event->note, "text");
    assert_int_equal(event->deprecated_count, 3);
}

static void sets_defaults_of_requests(void **state)
{
    (void)state;
    FIXTURE f = {0};
    decodes(&f,
            "{" CLAIM ",\"spec\":{\"devices\":{\"requests\":[{\"name\":\"a\",\"exactly\":{}},{"
            "\"name\":\"b\",\"exactly\":{\"allocationMode\":\"All\",\"tolerations\":[{}]}}]}}}");
    api_default(f.object.kind->type, f.object.value, NULL, &f.arena);
    struct api_device_request *r =
        ((struct api_resource_claim *)f.object.value)->spec.devices.requests.p;
    assert_str(r[0].exactly->allocation_mode, "ExactCount");
    assert_int_equal(r[0].exactly->count, 1);
    assert_int_equal(r[1].exactly->count, 0);
    assert_str(r[1].exactly->tolerations.p[0].operator, "Equal");
}

static void sets_the_time_of_taints(void **state)
{
    (void)state;
    FIXTURE f = {0};
    decodes(&f,
            "{" SLICE ",\"spec\":{\"devices\":[{\"name\":\"g\",\"taints\":[{\"key\":\"k\"}]}]}}");
    struct api_device_taint *taint =
        ((struct api_resource_slice *)f.object.value)->spec.devices.p[0].taints.p;
    api_default(f.object.kind->type, f.object.value, NULL, &f.arena);
    assert_false(taint->time_added.set);
    struct api_default_options options = {.now = {{1000, 5}, true}};
    api_default(f.object.kind->type, f.object.value, &options, &f.arena);
    assert_true(taint->time_added.set);
    assert_int_equal(taint->time_added.at.sec, 1000);
    assert_int_equal(taint->time_added.at.nsec, 0);
}

static void sets_defaults_of_pods(void **state)
{
    (void)state;
    FIXTURE f = {0};
    decodes(&f,
            "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"spec\":{\"volumes\":[{\"name\":\"v\"}],"
            "\"containers\":[{\"name\":\"c\",\"image\":\"reg:5000/i\",\"resources\":{\"limits\":{"
            "\"cpu\":\"2\",\"memory\":\"1Gi\"},\"requests\":{\"cpu\":\"1\"}},\"ports\":[{"
            "\"containerPort\":80}]},{\"name\":\"d\",\"image\":\"i:1@sha256:0\"}]}}");
    api_default(f.object.kind->type, f.object.value, NULL, &f.arena);
    struct api_pod *pod = f.object.value;
    struct api_container *c = pod->spec.containers.p;
    assert_str(pod->spec.restart_policy, "Always");
    assert_int_equal(pod->spec.termination_grace_period_seconds, 30);
    assert_non_null(pod->spec.security_context);
    assert_non_null(pod->spec.volumes.p[0].volume_source.empty_dir);
    assert_str(c[0].image_pull_policy, "Always");
    assert_str(c[1].image_pull_policy, "IfNotPresent");
    assert_str(c[0].ports.p[0].protocol, "TCP");
    assert_int_equal(c[0].resources.requests.n, 2);
    assert_int_equal(quantity_value(&c[0].resources.requests.p[0].value), 1);
    assert_str(c[0].resources.requests.p[1].key, "memory");
}

static void compares_by_meaning(void **state)
{
    (void)state;
    FIXTURE a = {0}, b = {0}, c = {0};
    decodes(&a,
            "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"labels\":{}},\"spec\":{"
            "\"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":{\"cpu\":\"1000m\"}}}]}}");
    decodes(&b, "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"spec\":{\"containers\":[{\"name\":\"c\","
                "\"resources\":{\"limits\":{\"cpu\":1}}}]}}");
    decodes(&c, "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"spec\":{\"containers\":[{\"name\":\"c\","
                "\"resources\":{\"limits\":{\"cpu\":2}}}]}}");
    assert_true(api_equal(&api_pod_type, a.object.value, b.object.value));
    assert_false(api_equal(&api_pod_type, a.object.value, c.object.value));
}

static void refuses_broken_envelopes(void **state)
{
    (void)state;
    static const struct {
        struct str body;
        int code;
    } cases[] = {
        {STR_INIT("k8s"), -ERR_BAD_REQUEST},
        {STR_INIT("{}"), -ERR_BAD_REQUEST},
        {STR_INIT("k8s\0\x0a\x7f"), -ERR_BAD_REQUEST},
        {STR_INIT("k8s\0\x0a\x09\x0a\x02v1\x12\x03XYZ"), -ERR_NOT_FOUND},
        {STR_INIT("k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x02\x0a\x05"), -ERR_BAD_REQUEST},
        // metadata.name is not UTF-8.
        {STR_INIT("k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x05\x0a\x03\x0a\x01\xff"),
         -ERR_BAD_REQUEST},
        {STR_INIT("k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x1a\x04gzip"), -ERR_BAD_REQUEST},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        FIXTURE f = {0};
        if (api_envelope_read(cases[i].body, &f.arena, &f.object, &f.err) != cases[i].code)
            fail_msg("case %zu: %d %s", i, f.err.code, f.err.msg);
    }
}

static void bounds_what_an_object_takes(void **state)
{
    (void)state;
    // Half a million empty containers: small to send, large to keep.
    FIXTURE f = {0};
    cleanup_sbuf struct sbuf text = {0}, wire = {0};
    sbuf_addz(&text, "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"spec\":{\"containers\":[{}");
    for (int i = 0; i < 500000; i++)
        sbuf_addz(&text, ",{}");
    sbuf_addz(&text, "]}}");
    assert_int_equal(decode(&f, text.p), -ERR_BAD_REQUEST);
    assert_non_null(strstr(f.err.msg, "too much memory"));
    assert_string_equal(f.err.path, "spec.containers");
    for (int i = 0; i < 500000; i++)
        sbuf_add(&wire, STR("\x12\x00"));
    struct api_pod_spec spec = {0};
    assert_int_equal(api_proto_read(&api_pod_spec_type, sbuf_str(&wire), &spec, &f.arena, &f.err),
                     -ERR_BAD_REQUEST);
    assert_string_equal(f.err.path, "containers");
}

static void merges_messages_given_twice(void **state)
{
    (void)state;
    // metadata {labels {a: 1}}, then metadata {labels {a: 2}, name: n}: as protobuf has it, one.
    struct str wire = STR("\x0a\x08\x5a\x06\x0a\x01"
                          "a\x12\x01"
                          "1"
                          "\x0a\x0b\x5a\x06\x0a\x01"
                          "a\x12\x01"
                          "2\x0a\x01"
                          "n");
    FIXTURE f = {0};
    struct api_config_map map = {0};
    if (api_proto_read(&api_config_map_type, wire, &map, &f.arena, &f.err) < 0)
        fail_msg("%s: %s", f.err.path, f.err.msg);
    assert_int_equal(map.metadata.labels.n, 1);
    assert_str(map.metadata.labels.p[0].value, "2");
    assert_str(map.metadata.name, "n");
}

static void explains_fields(void **state)
{
    (void)state;
    FIXTURE f = {0};
    assert_int_equal(api_explain(STR("resourceclaims.spec.devices.requests"), STR(""), false,
                                 &f.out, &f.err),
                     0);
    assert_non_null(strstr(f.out.p, "FIELD: requests <[]DeviceRequest>"));
    assert_non_null(strstr(f.out.p, "Items at most: 32"));
    assert_non_null(strstr(f.out.p, "exactly\t<ExactDeviceRequest>"));
    sbuf_clear(&f.out);
    assert_int_equal(api_explain(STR("resourceclaim.spec"), STR("v1beta1"), true, &f.out, &f.err),
                     0);
    assert_non_null(strstr(f.out.p, "VERSION:    v1beta1"));
    assert_non_null(strstr(f.out.p, "deviceClassName\t<string>"));
    assert_int_equal(api_explain(STR("pod.spec.nope"), STR(""), false, &f.out, &f.err),
                     -ERR_NOT_FOUND);
    assert_non_null(strstr(f.err.msg, "it has: volumes, initContainers"));
}

// refs_exist walks a document and wants every $ref to name something in it.
static void refs_exist(const yyjson_val *root, const yyjson_val *v)
{
    if (json_is_array(v)) {
        json_arr_foreach(v, item)
            refs_exist(root, item);
    } else if (json_is_object(v)) {
        json_obj_foreach(v, key, val) {
            if (!str_eqz(json_str(key), "$ref") || !json_is_string(val)) {
                refs_exist(root, val);
                continue;
            }
            struct str name = json_str(val), part = str_from(name, 2), step;
            const yyjson_val *at = root;
            while (part.n && at) {
                (void)str_cut(part, '/', &step, &part);
                at = json_get(at, step);
            }
            if (!at)
                fail_msg("%.*s leads nowhere", STR_ARG(name));
        }
    }
}

static void openapi_is_whole(void **state)
{
    (void)state;
    for (int v2 = 0; v2 < 2; v2++) {
        FIXTURE f = {0};
        if (v2)
            api_openapi_v2(NULL, NULL, NULL, &f.out);
        else
            assert_true(api_openapi_v3(STR("resource.k8s.io"), STR("v1beta2"), &f.out));
        struct json_options options = {.max_bytes = (size_t)64 << 20};
        if (json_parse(sbuf_str(&f.out), &options, &f.doc, &f.err) < 0)
            fail_msg("%s", f.err.msg);
        refs_exist(f.doc.root, f.doc.root);
        const yyjson_val *types =
            v2 ? json_get(f.doc.root, STR("definitions"))
               : json_get(json_get(f.doc.root, STR("components")), STR("schemas"));
        // Types that versions share are published under each version's name.
        const yyjson_val *request =
            json_get(types, STR("io.k8s.api.resource.v1beta2.DeviceRequest"));
        assert_non_null(json_get(json_get(request, STR("properties")), STR("exactly")));
        const yyjson_val *path = json_get(
            json_get(f.doc.root, STR("paths")),
            STR("/apis/resource.k8s.io/v1beta2/namespaces/{namespace}/resourceclaims/{name}"));
        const yyjson_val *kind =
            json_get(json_get(path, STR("patch")), STR("x-kubernetes-group-version-kind"));
        assert_str(json_str(json_get(kind, STR("kind"))), "ResourceClaim");
    }
    FIXTURE f = {0};
    assert_false(api_openapi_v3(STR("no.such"), STR("v1"), &f.out));
}

RUN_TESTS(TEST_CASE(writes_what_go_writes), TEST_CASE(keeps_numbers_and_raw_text),
          TEST_CASE(reads_quantities_as_upstream), TEST_CASE(sorts_maps_and_keeps_the_last),
          TEST_CASE(reports_unknown_and_repeated_fields), TEST_CASE(says_where_a_value_is_wrong),
          TEST_CASE(finds_kinds), TEST_CASE(converts_v1beta1),
          TEST_CASE(converts_devices_and_node_names), TEST_CASE(converts_events_between_groups),
          TEST_CASE(sets_defaults_of_requests), TEST_CASE(sets_the_time_of_taints),
          TEST_CASE(sets_defaults_of_pods), TEST_CASE(compares_by_meaning),
          TEST_CASE(refuses_broken_envelopes), TEST_CASE(bounds_what_an_object_takes),
          TEST_CASE(merges_messages_given_twice), TEST_CASE(explains_fields),
          TEST_CASE(openapi_is_whole))
