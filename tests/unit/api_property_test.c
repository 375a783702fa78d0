// SPDX-License-Identifier: Apache-2.0
//
// What must hold for any object of any kind: it survives JSON, YAML, protobuf, copying and the way
// through every other version.
#include "api_random.h"
#include "codec/yaml.h"
#include "unit.h"

#include "base/banned.h"

#define ROUNDS 8

static struct api_object make(struct random_maker *m, const struct api_kind *kind, uint64_t seed)
{
    rng_seeded_init((struct rng_seeded *)m->rng, seed);
    m->fill = 15 + (unsigned)(seed % 5) * 20;
    return random_object(m, kind);
}

static void show_failure(const struct api_object *o, const char *what, uint64_t seed)
{
    cleanup_sbuf struct sbuf text = {0};
    struct json_writer w = {.out = &text};
    if (api_json_write(o->kind->type, o->value, &w, NULL) < 0)
        sbuf_addz(&text, " (not JSON)");
    fail_msg("%.*s %.*s, seed %llu: %s\n%.*s", STR_ARG(o->kind->api_version),
             STR_ARG(o->kind->kind), (unsigned long long)seed, what,
             STR_ARG(str_upto(sbuf_str(&text), 2000)));
}

static void to_json(const struct api_object *o, struct sbuf *out)
{
    struct json_writer w = {.out = out, .html = true};
    struct err err = {0};
    if (api_json_write(o->kind->type, o->value, &w, &err) < 0)
        fail_msg("%s: %s", err.path, err.msg);
}

// same_after_reading decodes a document and compares with o, in value and in its JSON text.
static bool same_after_reading(const struct api_object *o, const struct json_doc *doc,
                               struct str text, struct arena *arena)
{
    struct api_object again;
    struct err err = {0};
    cleanup_json_strict struct json_strict strict = {0};
    cleanup_sbuf struct sbuf out = {0};
    if (api_decode_as(o->kind, doc, doc->root, arena, &strict, &again, &err) < 0)
        fail_msg("%s: %s", err.path, err.msg);
    to_json(&again, &out);
    return strict.reports.n == 0 && api_equal(o->kind->type, o->value, again.value) &&
           str_eq(sbuf_str(&out), text);
}

static bool survives_json(const struct api_object *o, struct str text, struct arena *arena)
{
    cleanup_json_doc struct json_doc doc = {0};
    return json_parse(text, NULL, &doc, NULL) == 0 && same_after_reading(o, &doc, text, arena);
}

static bool survives_yaml(const struct api_object *o, struct str text, struct arena *arena)
{
    cleanup_json_doc struct json_doc doc = {0}, back = {0};
    cleanup_sbuf struct sbuf yaml = {0};
    if (json_parse(text, NULL, &doc, NULL) < 0)
        return false;
    yaml_write(doc.root, false, &yaml);
    return yaml_parse(sbuf_str(&yaml), NULL, &back, NULL) == 0 &&
           same_after_reading(o, &back, text, arena);
}

static bool survives_proto(const struct api_object *o, struct str text, struct arena *arena)
{
    cleanup_sbuf struct sbuf wire = {0}, again = {0}, out = {0};
    struct api_object back;
    struct err err = {0};
    api_envelope_write(o, &wire);
    if (api_envelope_read(sbuf_str(&wire), arena, &back, &err) < 0)
        fail_msg("%s: %s", err.path, err.msg);
    api_envelope_write(&back, &again);
    to_json(&back, &out);
    return api_equal(o->kind->type, o->value, back.value) &&
           str_eq(sbuf_str(&wire), sbuf_str(&again)) && str_eq(sbuf_str(&out), text);
}

static bool survives_copy(const struct api_object *o, struct str text, struct arena *arena)
{
    struct api_object copy = {o->kind,
                              arena_alloc(arena, o->kind->type->size, _Alignof(max_align_t))};
    cleanup_sbuf struct sbuf out = {0};
    api_copy(o->kind->type, o->value, copy.value, arena);
    to_json(&copy, &out);
    return api_equal(o->kind->type, o->value, copy.value) && str_eq(sbuf_str(&out), text);
}

static void check_kind(const struct api_kind *kind, uint64_t seed)
{
    struct rng_seeded rng;
    cleanup_arena struct arena arena = {0};
    struct random_maker m = {.rng = &rng.rng, .arena = &arena};
    struct api_object o = make(&m, kind, seed);
    cleanup_sbuf struct sbuf text = {0};
    to_json(&o, &text);
    if (!survives_json(&o, sbuf_str(&text), &arena))
        show_failure(&o, "changed by JSON", seed);
    if (!survives_yaml(&o, sbuf_str(&text), &arena))
        show_failure(&o, "changed by YAML", seed);
    if (api_kind_in_proto(kind) && !survives_proto(&o, sbuf_str(&text), &arena))
        show_failure(&o, "changed by protobuf", seed);
    if (!survives_copy(&o, sbuf_str(&text), &arena))
        show_failure(&o, "changed by copying", seed);
}

static void any_object_survives_every_format(void **state)
{
    (void)state;
    for (size_t i = 0; i < api_kinds_len; i++)
        for (uint64_t seed = 0; seed < ROUNDS; seed++)
            check_kind(&api_kinds[i], seed * 1000 + i);
}

// --- Versions ------------------------------------------------------------------------------------

// tidy_v1 gives a v1 object the shape that v1beta1 can say: there a node name is a plain string and an
// exact request is there when one of its fields is.
static void tidy_requests(struct api_device_claim *claim)
{
    for (size_t i = 0; i < claim->requests.n; i++) {
        struct api_exact_device_request *exactly = claim->requests.p[i].exactly;
        if (exactly && exactly->device_class_name.n == 0)
            exactly->device_class_name = STR("class");
    }
}

static void tidy_slice(struct api_resource_slice *slice)
{
    slice->spec.has_node_name = slice->spec.node_name.n > 0;
    slice->spec.has_all_nodes = slice->spec.all_nodes;
}

static void tidy_v1beta1_slice(struct api_v1beta1_resource_slice *slice, struct arena *arena)
{
    for (size_t i = 0; i < slice->spec.devices.n; i++)
        if (!slice->spec.devices.p[i].basic)
            slice->spec.devices.p[i].basic = arena_one(arena, struct api_v1beta1_basic_device);
}

static void tidy(const struct api_object *o, struct arena *arena)
{
    if (o->kind->type == &api_resource_claim_type)
        tidy_requests(&((struct api_resource_claim *)o->value)->spec.devices);
    else if (o->kind->type == &api_resource_claim_template_type)
        tidy_requests(&((struct api_resource_claim_template *)o->value)->spec.spec.devices);
    else if (o->kind->type == &api_resource_slice_type)
        tidy_slice(o->value);
    else if (o->kind->type == &api_v1beta1_resource_slice_type)
        tidy_v1beta1_slice(o->value, arena);
}

static void check_conversion(const struct api_kind *from, const struct api_kind *to, uint64_t seed)
{
    struct rng_seeded rng;
    cleanup_arena struct arena arena = {0};
    struct random_maker m = {.rng = &rng.rng, .arena = &arena};
    struct api_object o = make(&m, from, seed), there, back;
    struct err err = {0};
    tidy(&o, &arena);
    assert_int_equal(api_convert(&o, to, &arena, &there, &err), 0);
    assert_true(str_eq(api_object_version(&there), to->api_version));
    assert_int_equal(api_convert(&there, from, &arena, &back, &err), 0);
    if (!api_equal(from->type, o.value, back.value))
        show_failure(&o, "changed by conversion", seed);
}

static void any_object_survives_every_version(void **state)
{
    (void)state;
    size_t pairs = 0;
    for (size_t i = 0; i < api_kinds_len; i++) {
        for (size_t j = 0; j < api_kinds_len; j++) {
            const struct api_kind *from = &api_kinds[i], *to = &api_kinds[j];
            // Lists go the same way as what they list, without the tidying.
            if (i == j || from->item || !str_eq(from->kind, to->kind) ||
                !str_eqz(from->group, "resource.k8s.io") || !str_eq(from->group, to->group))
                continue;
            pairs++;
            for (uint64_t seed = 0; seed < ROUNDS; seed++)
                check_conversion(from, to, seed * 1000 + i * 10 + j);
        }
    }
    // Four kinds in three versions, DeviceTaintRule in three.
    assert_int_equal(pairs, 30);
}

static void defaulting_twice_changes_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < api_kinds_len; i++) {
        for (uint64_t seed = 0; seed < 4; seed++) {
            struct rng_seeded rng;
            cleanup_arena struct arena arena = {0};
            struct random_maker m = {.rng = &rng.rng, .arena = &arena};
            struct api_object o = make(&m, &api_kinds[i], seed * 1000 + i);
            void *once = arena_alloc(&arena, o.kind->type->size, _Alignof(max_align_t));
            api_default(o.kind->type, o.value, NULL, &arena);
            api_copy(o.kind->type, o.value, once, &arena);
            api_default(o.kind->type, o.value, NULL, &arena);
            if (!api_equal(o.kind->type, o.value, once))
                show_failure(&o, "changed by a second defaulting", seed);
        }
    }
}

RUN_TESTS(TEST_CASE(any_object_survives_every_format), TEST_CASE(any_object_survives_every_version),
          TEST_CASE(defaulting_twice_changes_nothing))
