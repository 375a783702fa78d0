// SPDX-License-Identifier: Apache-2.0
//
// Parse and walk of ResourceSlices: bare yyjson against codec/json.h. See README.md.
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "codec/json.h"
#include "codec/json_writer.h"

#include "base/banned.h"

#define SLICES  100
#define DEVICES 128
#define ROUNDS  9

static void write_attribute(struct json_writer *w, const char *name, const char *type, int value)
{
    char text[64];
    json_write_key(w, str_z(name));
    json_write_object_begin(w);
    json_write_key(w, str_z(type));
    (void)snprintf(text, sizeof(text), "gpu-value-%d", value);
    if (type[0] == 's')
        json_write_str(w, str_z(text));
    else if (type[0] == 'i')
        json_write_i64(w, value);
    else
        json_write_bool(w, value & 1);
    json_write_object_end(w);
}

static void write_device(struct json_writer *w, int slice, int device)
{
    char text[64];
    json_write_object_begin(w);
    json_write_key(w, STR("name"));
    (void)snprintf(text, sizeof(text), "gpu-%d", device);
    json_write_str(w, str_z(text));
    json_write_key(w, STR("attributes"));
    json_write_object_begin(w);
    write_attribute(w, "type", "string", 1);
    write_attribute(w, "uuid", "string", slice * DEVICES + device);
    write_attribute(w, "index", "int", device);
    write_attribute(w, "productName", "string", 7);
    write_attribute(w, "driverVersion", "version", 0);
    write_attribute(w, "resource.kubernetes.io/pcieRoot", "string", device / 8);
    write_attribute(w, "numa", "int", device / 64);
    write_attribute(w, "migCapable", "bool", device);
    json_write_object_end(w);
    json_write_key(w, STR("capacity"));
    json_write_object_begin(w);
    json_write_key(w, STR("memory"));
    json_write_raw(w, STR("{\"value\":\"81920Mi\"}"));
    json_write_key(w, STR("cores"));
    json_write_raw(w, STR("{\"value\":\"132\"}"));
    json_write_object_end(w);
    json_write_object_end(w);
}

static void write_slice(struct json_writer *w, int slice)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "node-%05d", slice);
    json_write_raw_key(w, STR("\"metadata\""));
    json_write_object_begin(w);
    json_write_key(w, STR("name"));
    json_write_str(w, str_z(text));
    json_write_key(w, STR("generation"));
    json_write_i64(w, 1);
    json_write_object_end(w);
    json_write_key(w, STR("spec"));
    json_write_object_begin(w);
    json_write_key(w, STR("driver"));
    json_write_str(w, STR("gpu.example.com"));
    json_write_key(w, STR("nodeName"));
    json_write_str(w, str_z(text));
    json_write_key(w, STR("pool"));
    json_write_raw(w, STR("{\"name\":\"pool\",\"generation\":1,\"resourceSliceCount\":1}"));
    json_write_key(w, STR("devices"));
    json_write_array_begin(w);
    for (int d = 0; d < DEVICES; d++)
        write_device(w, slice, d);
    json_write_array_end(w);
    json_write_object_end(w);
}

static void write_list(struct sbuf *out, int slices)
{
    struct json_writer w = {.out = out};
    json_write_object_begin(&w);
    json_write_key(&w, STR("items"));
    json_write_array_begin(&w);
    for (int s = 0; s < slices; s++) {
        json_write_object_begin(&w);
        write_slice(&w, s);
        json_write_object_end(&w);
    }
    json_write_array_end(&w);
    json_write_object_end(&w);
}

// --- The same walk twice -------------------------------------------------------------------------

static size_t walk_bare(yyjson_val *v)
{
    size_t sum = 1, i, max;
    yyjson_val *key, *val;
    if (yyjson_is_obj(v)) {
        yyjson_obj_foreach(v, i, max, key, val) // NOLINT
            sum += yyjson_equals_str(key, "name") + yyjson_get_len(key) + walk_bare(val);
    } else if (yyjson_is_arr(v)) {
        yyjson_arr_foreach(v, i, max, val) // NOLINT
            sum += walk_bare(val);
    } else if (yyjson_is_str(v)) {
        sum += yyjson_get_len(v);
    }
    return sum;
}

static size_t walk_ours(const yyjson_val *v)
{
    size_t sum = 1;
    if (json_is_object(v)) {
        json_obj_foreach(v, key, val)
            sum += str_eq(json_str(key), STR("name")) + json_len(key) + walk_ours(val);
    } else if (json_is_array(v)) {
        json_arr_foreach(v, item)
            sum += walk_ours(item);
    } else if (json_is_string(v)) {
        sum += json_len(v);
    }
    return sum;
}

static size_t run_bare(struct str text)
{
    yyjson_doc *doc = yyjson_read(text.p, text.n, 0);
    size_t sum = doc ? walk_bare(yyjson_doc_get_root(doc)) : 0;
    yyjson_doc_free(doc);
    return sum;
}

// Answers 0, which no walk does, when the text does not parse.
static size_t run_ours(struct str text, enum json_duplicates duplicates)
{
    struct json_options options = {.max_bytes = SIZE_MAX, .duplicates = duplicates};
    struct json_doc doc = {0};
    struct err err = {0};
    if (json_parse(text, &options, &doc, &err) < 0) {
        (void)fprintf(stderr, "bench_json: %s\n", err.msg);
        return 0;
    }
    size_t sum = walk_ours(doc.root);
    json_doc_done(&doc);
    return sum;
}

// One measurement a line; each round does the work once, the best counts.
static void measure(const char *name, struct str text, int duplicates)
{
    double best = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t start = clock_mono_ns(clock_system());
        size_t sum =
            duplicates < 0 ? run_bare(text) : run_ours(text, (enum json_duplicates)duplicates);
        double took = (double)(clock_mono_ns(clock_system()) - start);
        bench_keep(sum);
        best = round == 0 || took < best ? took : best;
    }
    bench_print(name, best, text.n, duplicates < 0 ? NULL : "bare yyjson");
}

int main(int argc, char **argv)
{
    cleanup_sbuf struct sbuf out = {0};
    bool counting = bench_counting(argc, argv);
    write_list(&out, counting ? 1 : SLICES);
    struct str text = sbuf_str(&out);
    if (run_bare(text) != run_ours(text, JSON_DUPLICATES_REFUSE))
        return 1; // not the same walk
    if (counting) {
        COUNT("parse and walk a slice of 128 devices", 10,
              bench_keep(run_ours(text, JSON_DUPLICATES_REFUSE)));
        return 0;
    }
    measure("bare yyjson", text, -1);
    measure("codec/json, duplicates kept", text, JSON_DUPLICATES_KEEP);
    measure("codec/json, duplicates refused", text, JSON_DUPLICATES_REFUSE);
    return 0;
}
