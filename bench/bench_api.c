// SPDX-License-Identifier: Apache-2.0
//
// A ResourceSlice of 128 devices with 12 attributes each, between bytes and typed form. The peer under
// peers/api makes the same text and decodes it with the client's own decoder.
#include <assert.h>
#include <stdio.h>

#include "api/api.h"
#include "bench.h"
#include "codec/yaml.h"

#include "base/banned.h"

#define DEVICES    128
#define ATTRIBUTES 12

static void add_device(struct sbuf *out, int d)
{
    sbuf_addf(out, "%s{\"name\":\"gpu-%03d\",\"attributes\":{", d ? "," : "", d);
    for (int a = 0; a < ATTRIBUTES; a++) {
        sbuf_addf(out, "%s\"attribute%02d\":", a ? "," : "", a);
        if (a % 4 == 0)
            sbuf_addf(out, "{\"int\":%d}", d * a);
        else if (a % 4 == 1)
            sbuf_addf(out, "{\"bool\":%s}", d & 1 ? "true" : "false");
        else if (a % 4 == 2)
            sbuf_addf(out, "{\"string\":\"value-%d-of-device-%d\"}", a, d);
        else
            sbuf_addf(out, "{\"version\":\"%d.%d.0\"}", a, d);
    }
    sbuf_addz(out, "},\"capacity\":{\"memory\":{\"value\":\"80Gi\"}}}");
}

static void make_slice(struct sbuf *out)
{
    sbuf_addz(out, "{\"kind\":\"ResourceSlice\",\"apiVersion\":\"resource.k8s.io/v1\",\"metadata\":"
                   "{\"name\":\"node-1-gpu.example.com-abcde\",\"generation\":1},\"spec\":{"
                   "\"driver\":\"gpu.example.com\",\"pool\":{\"name\":\"node-1\",\"generation\":1,"
                   "\"resourceSliceCount\":1},\"nodeName\":\"node-1\",\"devices\":[");
    for (int d = 0; d < DEVICES; d++)
        add_device(out, d);
    sbuf_addz(out, "]}}");
}

struct state {
    struct sbuf text;
    struct sbuf proto;
    struct sbuf yaml;
    struct arena arena;
    struct arena keep;
    struct api_object object;
    struct sbuf out;
};

static void decode(struct state *s, struct arena *arena, struct api_object *ret)
{
    struct json_options options = {.duplicates = JSON_DUPLICATES_KEEP};
    cleanup_json_doc struct json_doc doc = {0};
    struct err err = {0};
    int rc = json_parse(sbuf_str(&s->text), &options, &doc, &err);
    if (rc == 0)
        rc = api_decode(&doc, doc.root, arena, NULL, ret, &err);
    if (rc < 0)
        (void)fprintf(stderr, "%s\n", err.msg);
    assert(rc == 0);
}

static void json_to_typed(struct state *s)
{
    struct api_object o;
    arena_reset(&s->arena);
    decode(s, &s->arena, &o);
}

static void yaml_to_typed(struct state *s)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct api_object o;
    arena_reset(&s->arena);
    int rc = yaml_parse(sbuf_str(&s->yaml), NULL, &doc, NULL);
    if (rc >= 0)
        rc = api_decode(&doc, doc.root, &s->arena, NULL, &o, NULL);
    assert(rc >= 0);
    (void)rc;
}

// The same slice as YAML, as kubectl writes it.
static void make_yaml(struct state *s)
{
    cleanup_json_doc struct json_doc doc = {0};
    int rc = json_parse(sbuf_str(&s->text), NULL, &doc, NULL);
    assert(rc == 0);
    (void)rc;
    yaml_write(doc.root, true, &s->yaml);
}

static void typed_to_json(struct state *s)
{
    sbuf_clear(&s->out);
    struct json_writer w = {.out = &s->out};
    int rc = api_json_write(s->object.kind->type, s->object.value, &w, NULL);
    assert(rc == 0);
}

static void proto_to_typed(struct state *s)
{
    struct api_object o;
    arena_reset(&s->arena);
    int rc = api_envelope_read(sbuf_str(&s->proto), &s->arena, &o, NULL);
    assert(rc == 0);
}

static void typed_to_proto(struct state *s)
{
    sbuf_clear(&s->out);
    api_envelope_write(&s->object, &s->out);
}

static void deep_copy(struct state *s)
{
    arena_reset(&s->arena);
    void *copy = arena_alloc(&s->arena, s->object.kind->type->size, _Alignof(max_align_t));
    api_copy(s->object.kind->type, s->object.value, copy, &s->arena);
}

static void count(struct state *s)
{
    COUNT("slice of 128 devices from JSON", 10, json_to_typed(s));
    COUNT("slice of 128 devices to JSON", 10, typed_to_json(s));
    COUNT("slice of 128 devices from protobuf", 10, proto_to_typed(s));
    COUNT("slice of 128 devices to protobuf", 10, typed_to_proto(s));
}

int main(int argc, char **argv)
{
    struct state s = {0};
    make_slice(&s.text);
    make_yaml(&s);
    decode(&s, &s.keep, &s.object);
    api_envelope_write(&s.object, &s.proto);
    if (bench_counting(argc, argv)) {
        count(&s);
        return 0;
    }
    BENCH_BYTES("slice from JSON", s.text.n, json_to_typed(&s));
    BENCH_BYTES("slice to JSON", s.text.n, typed_to_json(&s));
    BENCH_BYTES("slice from protobuf", s.proto.n, proto_to_typed(&s));
    BENCH_BYTES("slice to protobuf", s.proto.n, typed_to_proto(&s));
    BENCH_BYTES("slice from YAML", s.yaml.n, yaml_to_typed(&s));
    BENCH("slice deep copy", deep_copy(&s));
    return 0;
}
