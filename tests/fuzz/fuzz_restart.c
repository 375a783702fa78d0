// SPDX-License-Identifier: Apache-2.0
//
// Whatever the registry accepts, the server can load: objects of any kind, definitions with the
// longest names and objects of them are written, changed and deleted; after a restart every object
// is there with the same bytes.
//
// A line of the input is a request: an object in JSON to create, "R" and a seed for a random object,
// "C" and two bytes for a definition with an object, "D" to delete the newest object.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../unit/api_random.h"
#include "api/cel_check.h"
#include "api/custom.h"
#include "base/exec.h"
#include "fuzz.h"
#include "os/file.h"
#include "registry/registry.h"

#include "base/banned.h"

#define FUZZ_LINES_MAX 64

struct fuzz_restart {
    char folder[64];
    struct sbuf path;
    struct clock_fake clock;
    struct rng_seeded rng;
    struct exec_sim *sim;
    struct features features;
    struct api_cel_engine *cel;
    struct store *store;
    struct registry *registry;
    struct arena arena;
    struct registry_request request;
    struct registry_request newest; // created
    bool answered, good;
};

static void restart_start(struct fuzz_restart *f)
{
    struct err err = {0};
    const struct store_options so = {
        .exec = exec_sim_exec(f->sim), .path = f->path.p, .commit_on_exec = true};
    int r = store_open(&so, &f->store, &err);
    if (r < 0)
        (void)fprintf(stderr, "cannot open: %s\n", err.msg);
    assert(r == 0);
    const struct registry_options ro = {.store = f->store,
                                        .exec = exec_sim_exec(f->sim),
                                        .features = &f->features,
                                        .cel = api_cel_engine_rules(f->cel)};
    r = registry_new(&ro, &f->registry, &err);
    if (r < 0)
        (void)fprintf(stderr, "cannot start: %s\n", err.msg);
    assert(r == 0);
    while (exec_sim_step(f->sim)) {}
}

static void restart_stop(struct fuzz_restart *f)
{
    while (exec_sim_step(f->sim)) {}
    registry_free(f->registry);
    store_close(f->store);
}

static void restart_answered(void *arg, const struct registry_answer *a)
{
    struct fuzz_restart *f = arg;
    f->answered = true;
    f->good = a->code == 0;
    if (f->good && a->created && a->object) {
        f->newest = f->request;
        f->newest.name = arena_str(&f->arena, a->object->name);
        f->newest.namespace = arena_str(&f->arena, a->object->namespace);
    }
}

static void restart_wait(struct fuzz_restart *f)
{
    while (exec_sim_step(f->sim)) {}
    assert(f->answered);
    f->answered = false;
}

static void restart_create(struct fuzz_restart *f, const struct api_object *body)
{
    static const struct registry_user user = {.name = STR_INIT("fuzz")};
    struct api_object_meta *meta = api_object_meta(body);
    f->request = (struct registry_request){.kind = body->kind, .user = &user};
    if (body->kind->namespaced) {
        meta->namespace = STR("default");
        f->request.namespace = STR("default");
    }
    registry_create(f->registry, &f->request, body, &f->arena, restart_answered, f);
    restart_wait(f);
}

static void restart_create_json(struct fuzz_restart *f, struct str text)
{
    struct json_doc doc = {0};
    struct err err = {0};
    struct api_object body = {0};
    if (json_parse(text, NULL, &doc, &err) < 0)
        return;
    struct str version = STR(""), kind = STR("");
    const yyjson_val *v = json_get(doc.root, STR("apiVersion")),
                     *k = json_get(doc.root, STR("kind"));
    if (json_is_string(v) && json_is_string(k)) {
        version = json_str(v);
        kind = json_str(k);
    }
    const struct api_kind *custom = custom_find(store_customs(f->store), version, kind);
    int r = custom ? api_decode_as(custom, &doc, doc.root, &f->arena, NULL, &body, &err)
                   : api_decode(&doc, doc.root, &f->arena, NULL, &body, &err);
    if (r == 0 && body.kind->plural.n && api_object_meta(&body))
        restart_create(f, &body);
    json_doc_done(&doc);
}

static void restart_create_random(struct fuzz_restart *f, struct str seed)
{
    struct rng_seeded rng;
    uint64_t number = 0;
    for (size_t i = 0; i < seed.n && i < 8; i++)
        number = number << 8 | (unsigned char)seed.p[i];
    rng_seeded_init(&rng, number);
    const struct api_kind *kind = &api_kinds[rng_below(&rng.rng, api_kinds_len)];
    if (!kind->plural.n || !kind->list)
        return;
    struct random_maker m = {
        .rng = &rng.rng, .arena = &f->arena, .fill = (unsigned)rng_below(&rng.rng, 40)};
    struct api_object body = random_object(&m, kind);
    struct api_object_meta *meta = api_object_meta(&body);
    if (!meta)
        return;
    *meta = (struct api_object_meta){
        .name = arena_strf(&f->arena, "r%llx", (unsigned long long)number & 0xffff)};
    restart_create(f, &body);
}

// restart_define creates a definition whose group and kind have any length, and an object.
static void restart_define(struct fuzz_restart *f, struct str lengths)
{
    size_t group_len = lengths.n > 0 ? (unsigned char)lengths.p[0] : 0;
    size_t kind_len = 1 + (lengths.n > 1 ? (unsigned char)lengths.p[1] % 63 : 0);
    cleanup_sbuf struct sbuf group = {0}, kind = {0}, plural = {0}, json = {0};
    for (size_t i = 0; i < group_len; i++)
        sbuf_addc(&group, i % 60 == 59 ? '.' : 'g');
    sbuf_addz(&group, ".io");
    sbuf_add_repeat(&kind, 'K', kind_len);
    sbuf_add_repeat(&plural, 'k', kind_len);
    sbuf_addf(
        &json,
        "{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\","
        "\"metadata\":{\"name\":\"%s.%s\"},\"spec\":{\"group\":\"%s\",\"scope\":\"Namespaced\","
        "\"names\":{\"plural\":\"%s\",\"kind\":\"%s\"},\"versions\":[{\"name\":\"v1\","
        "\"served\":true,\"storage\":true,\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\","
        "\"x-kubernetes-preserve-unknown-fields\":true}}}]}}",
        plural.p, group.p, group.p, plural.p, kind.p);
    restart_create_json(f, sbuf_str(&json));
    sbuf_clear(&json);
    sbuf_addf(&json,
              "{\"apiVersion\":\"%s/v1\",\"kind\":\"%s\",\"metadata\":{\"name\":\"one\"},"
              "\"spec\":{\"a\":[1,2,{\"b\":null}]}}",
              group.p, kind.p);
    exec_sim_run(f->sim, f->clock.mono + CLOCK_NS_PER_SEC);
    restart_create_json(f, sbuf_str(&json));
}

static void restart_delete(struct fuzz_restart *f)
{
    if (!f->newest.kind)
        return;
    f->request = f->newest;
    f->newest.kind = NULL;
    registry_delete(f->registry, &f->request, NULL, &f->arena, restart_answered, f);
    restart_wait(f);
}

// restart_describe lists all objects with their bytes.
static void restart_describe_kind(struct fuzz_restart *f, const struct api_kind *kind,
                                  struct sbuf *out)
{
    struct store_walk walk = {.kind = kind};
    int r = store_walk_start(f->store, &walk, NULL);
    assert(r == 0);
    const struct object *o;
    while ((o = store_walk_next(f->store, &walk)))
        sbuf_addf(out, "%.*s\n", STR_ARG(o->json));
    store_walk_done(&walk);
}

static void restart_describe(struct fuzz_restart *f, struct sbuf *out)
{
    for (size_t i = 0; i < api_kinds_len; i++)
        restart_describe_kind(f, &api_kinds[i], out);
    const struct api_kind *hub;
    for (size_t i = 0; (hub = custom_hub_at(store_customs(f->store), i)); i++)
        restart_describe_kind(f, hub, out);
}

static void restart_run(struct fuzz_restart *f, struct str text)
{
    for (int i = 0; i < FUZZ_LINES_MAX && text.n; i++) {
        struct str line;
        str_cut(text, '\n', &line, &text);
        if (line.n && line.p[0] == '{')
            restart_create_json(f, line);
        else if (line.n && line.p[0] == 'R')
            restart_create_random(f, str_from(line, 1));
        else if (line.n && line.p[0] == 'C')
            restart_define(f, str_from(line, 1));
        else if (line.n && line.p[0] == 'D')
            restart_delete(f);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_restart f = {0};
    cleanup_sbuf struct sbuf before = {0}, after = {0};
    (void)snprintf(f.folder, sizeof(f.folder), "%s/fuzz-restart-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(f.folder))
        abort();
    sbuf_addf(&f.path, "%s/db", f.folder);
    clock_fake_init(&f.clock, INT64_C(1800000000) * CLOCK_NS_PER_SEC);
    rng_seeded_init(&f.rng, 1);
    f.sim = exec_sim_new(&f.clock, &f.rng.rng);
    features_init(&f.features, FEATURES_MINOR);
    f.cel = api_cel_engine_new();
    restart_start(&f);
    restart_run(&f, str_make((const char *)data, size));
    while (exec_sim_step(f.sim)) {}
    restart_describe(&f, &before);
    restart_stop(&f);
    restart_start(&f);
    restart_describe(&f, &after);
    assert(str_eq(sbuf_str(&before), sbuf_str(&after)));
    restart_stop(&f);
    api_cel_engine_free(f.cel);
    exec_sim_free(f.sim);
    arena_done(&f.arena);
    sbuf_done(&f.path);
    (void)file_remove_tree(f.folder, NULL);
    return 0;
}
