// SPDX-License-Identifier: Apache-2.0
//
// The client in the registry's process, on a fake clock: calls, watches, informers that lose their
// watch, events.
#include "client/client.h"
#include "client/events.h"
#include "client/informer.h"
#include "inproc/local.h"
#include "registry_world.h"

#include "base/banned.h"

static const struct registry_user tester = {.name = STR_INIT("tester")};

static struct client *new_client(struct world *w)
{
    return local_client_new(w->registry, exec_sim_exec(w->sim), &tester);
}

static const struct api_kind *config_kind(void)
{
    return api_kind_find(STR("v1"), STR("ConfigMap"));
}

static struct client_key config_key(const char *name)
{
    return (struct client_key){config_kind(), STR("default"), str_z(name)};
}

struct answer {
    int calls;
    int code;
    char text[256];
    const struct typed_object *object;
};

static void note_answer(void *arg, const struct client_answer *a)
{
    struct answer *got = arg;
    got->calls++;
    got->code = a->code;
    (void)snprintf(got->text, sizeof(got->text), "%.*s", (int)sizeof(got->text) - 1,
                   a->err ? a->err->msg : "");
    typed_object_unref(got->object);
    got->object = typed_object_ref(a->object);
    assert_true((a->code == 0) == (a->err == NULL));
}

static void answer_done(struct answer *a)
{
    typed_object_unref(a->object);
    *a = (struct answer){0};
}

static struct api_object config(struct world *w, const char *name, const char *label)
{
    struct sbuf json = {0};
    sbuf_addf(&json,
              "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"%s\","
              "\"namespace\":\"default\",\"labels\":{\"colour\":\"%s\"}}}",
              name, label);
    struct api_object o = world_body(w, config_kind(), json.p);
    sbuf_done(&json);
    return o;
}

// --- Calls ---------------------------------------------------------------------------------------

TEST_IN_WORLD(calls_are_answered_once_and_later)
{
    struct client *c = new_client(w);
    struct answer a = {0};
    struct api_object o = config(w, "one", "red");
    client_create(c, &o, NULL, note_answer, &a);
    assert_int_equal(a.calls, 0);
    world_run(w);
    assert_int_equal(a.calls, 1);
    assert_int_equal(a.code, 0);
    assert_str(a.object->meta->name, "one");
    assert_true(a.object->revision > 0 && a.object->meta->uid.n == 36);
    client_create(c, &o, NULL, note_answer, &a);
    world_run(w);
    assert_int_equal(a.code, -ERR_ALREADY_EXISTS);
    assert_string_equal(a.text, "configmaps \"one\" already exists");
    assert_null(a.object);
    struct client_key key = config_key("one");
    client_patch(c, &key, CLIENT_PATCH_MERGE, STR("{\"data\":{\"k\":\"v\"}}"), NULL, note_answer,
                 &a);
    world_run(w);
    assert_int_equal(a.code, 0);
    const struct api_config_map *map = a.object->object.value;
    assert_int_equal(map->data.n, 1);
    client_get(c, &key, note_answer, &a);
    world_run(w);
    assert_int_equal(a.code, 0);
    // A change of an older version is refused.
    struct api_config_map stale = {0};
    api_copy(config_kind()->type, a.object->object.value, &stale, &w->arena);
    client_patch(c, &key, CLIENT_PATCH_MERGE, STR("{\"data\":{\"k\":\"w\"}}"), NULL, note_answer,
                 &a);
    world_run(w);
    client_update(c, &(struct api_object){config_kind(), &stale}, NULL, note_answer, &a);
    world_run(w);
    assert_int_equal(a.code, -ERR_CONFLICT);
    client_delete(c, &key, NULL, note_answer, &a);
    world_run(w);
    assert_int_equal(a.code, 0);
    client_get(c, &key, note_answer, &a);
    world_run(w);
    assert_int_equal(a.code, -ERR_NOT_FOUND);
    assert_string_equal(a.text, "configmaps \"one\" not found");
    // Freed with a call under way: it is answered all the same.
    int calls = a.calls;
    client_get(c, &key, note_answer, &a);
    client_free(c);
    world_run(w);
    assert_int_equal(a.calls, calls + 1);
    assert_int_equal(a.code, -ECANCELED);
    answer_done(&a);
}

TEST_IN_WORLD(a_pod_is_bound_through_its_subresource)
{
    struct client *c = new_client(w);
    struct answer a = {0};
    assert_ok(do_create(w, POD("p"),
                        "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"c\","
                        "\"image\":\"i\"}]}}"));
    client_bind(c, &(struct api_object_meta){.namespace = STR("default"), .name = STR("p")},
                STR("node-1"), note_answer, &a);
    world_run(w);
    assert_string_equal(a.text, "");
    assert_int_equal(a.code, 0);
    (void)do_get(w, POD("p"));
    assert_field(w, "spec.nodeName", "node-1");
    client_bind(c, &(struct api_object_meta){.namespace = STR("default"), .name = STR("p")},
                STR("node-2"), note_answer, &a);
    world_run(w);
    assert_int_equal(a.code, -ERR_CONFLICT);
    answer_done(&a);
    client_free(c);
}

// --- Watches -------------------------------------------------------------------------------------

static void note_event(void *arg, const struct client_event *e)
{
    static const char *const names[] = {"added",  "modified", "deleted",
                                        "synced", "bookmark", "ended"};
    struct sbuf *out = arg;
    sbuf_addf(out, "%s", names[e->type]);
    if (e->object)
        sbuf_addf(out, ":%.*s", STR_ARG(e->object->meta->name));
    if (e->type == CLIENT_ENDED)
        sbuf_addf(out, ":%d", e->code);
    else
        assert_true(e->revision > 0);
    sbuf_addc(out, ' ');
}

static void set_colour(struct world *w, const char *name, const char *colour)
{
    char patch[128];
    (void)snprintf(patch, sizeof(patch), "{\"metadata\":{\"labels\":{\"colour\":\"%s\"}}}", colour);
    assert_ok(do_patch(w, CONFIG(name), REGISTRY_PATCH_MERGE, patch));
}

static void make(struct world *w, const char *name, const char *colour)
{
    char json[160];
    (void)snprintf(json, sizeof(json),
                   "{\"metadata\":{\"name\":\"%s\",\"labels\":{\"colour\":\"%s\"}}}", name, colour);
    assert_ok(do_create(w, CONFIG(name), json));
}

TEST_IN_WORLD(a_watch_lists_then_follows)
{
    struct client *c = new_client(w);
    struct sbuf all = {0}, red = {0}, named = {0}, bad = {0};
    make(w, "a", "red");
    make(w, "b", "blue");
    struct client_list_options in_default = {.namespace = STR("default")};
    struct client_list_options is_red = {.label_selector = STR("colour=red")};
    struct client_list_options is_b = {.field_selector = STR("metadata.name=b")};
    struct client_list_options is_bad = {.label_selector = STR("colour in red")};
    struct client_watch *watches[] = {
        client_watch(c, config_kind(), &in_default, 0, note_event, &all),
        client_watch(c, config_kind(), &is_red, 0, note_event, &red),
        client_watch(c, config_kind(), &is_b, 0, note_event, &named),
        client_watch(c, config_kind(), &is_bad, 0, note_event, &bad),
    };
    assert_int_equal(all.n, 0);
    world_run(w);
    assert_str(sbuf_str(&all), "added:a added:b synced ");
    assert_str(sbuf_str(&red), "added:a synced ");
    assert_str(sbuf_str(&named), "added:b synced ");
    assert_int_equal(str_find(sbuf_str(&bad), STR("ended")), 0);
    sbuf_clear(&all);
    sbuf_clear(&red);
    sbuf_clear(&named);
    set_colour(w, "b", "red");
    set_colour(w, "a", "green");
    assert_ok(do_delete(w, CONFIG("a"), NULL));
    assert_ok(do_delete(w, CONFIG("b"), NULL));
    assert_str(sbuf_str(&all), "modified:b modified:a deleted:a deleted:b ");
    assert_str(sbuf_str(&red), "added:b deleted:a deleted:b ");
    assert_str(sbuf_str(&named), "modified:b deleted:b ");
    for (size_t i = 0; i < array_len(watches); i++)
        client_watch_stop(c, watches[i]);
    sbuf_clear(&all);
    make(w, "z", "red");
    assert_int_equal(all.n, 0);
    // From a revision on; from one that is not there yet; and one stopped before it began.
    struct client_watch *since =
        client_watch(c, config_kind(), NULL, store_revision(w->store) - 1, note_event, &all);
    sbuf_clear(&red);
    struct client_watch *future =
        client_watch(c, config_kind(), NULL, store_revision(w->store) + 9, note_event, &red);
    client_watch_stop(c, client_watch(c, config_kind(), NULL, 0, note_event, &named));
    sbuf_clear(&named);
    world_run(w);
    assert_str(sbuf_str(&all), "added:z ");
    char expired[32];
    (void)snprintf(expired, sizeof(expired), "ended:%d ", -ERR_EXPIRED);
    assert_str(sbuf_str(&red), expired);
    assert_int_equal(named.n, 0);
    client_watch_stop(c, since);
    client_watch_stop(c, future);
    client_free(c);
    sbuf_done(&all);
    sbuf_done(&red);
    sbuf_done(&named);
    sbuf_done(&bad);
}

static void note_object(void *arg, const struct client_event *e)
{
    const struct typed_object **out = arg;
    typed_object_unref(*out);
    *out = typed_object_ref(e->object);
}

TEST_IN_WORLD(an_event_is_decoded_once_for_all)
{
    struct client *a = new_client(w), *b = new_client(w);
    const struct typed_object *seen_a = NULL, *seen_b = NULL;
    struct client_watch *wa = client_watch(a, config_kind(), NULL, 0, note_object, &seen_a);
    struct client_watch *wb = client_watch(b, config_kind(), NULL, 0, note_object, &seen_b);
    world_run(w);
    make(w, "a", "red");
    assert_non_null(seen_a);
    assert_ptr_equal(seen_a, seen_b);
    typed_object_unref(seen_a);
    typed_object_unref(seen_b);
    client_watch_stop(a, wa);
    client_watch_stop(b, wb);
    client_free(a);
    client_free(b);
}

// A watcher that does not come to read, while megabytes change.
TEST_IN_WORLD(a_slow_watcher_is_ended_not_waited_for)
{
    struct client *c = new_client(w);
    struct sbuf got = {0};
    enum { CHANGES = 70, BYTES = 1024 * 1024 };
    struct client_watch *watch = client_watch(c, config_kind(), NULL, 0, note_event, &got);
    world_run(w);
    sbuf_clear(&got);
    make(w, "a", "red");
    struct store_key key = {config_kind(), STR("default"), STR("a")};
    struct str before = store_get(w->store, &key)->json;
    struct sbuf json = {0};
    sbuf_add(&json, str_upto(before, before.n - 1));
    sbuf_addz(&json, ",\"data\":{\"k\":\"");
    sbuf_add_repeat(&json, 'x', BYTES);
    sbuf_addz(&json, "\"}}");
    for (int n = 0; n < CHANGES; n++) { // one commit shows them all
        struct object *o =
            object_new(&(struct object_parts){.kind = config_kind(),
                                              .revision = store_next_revision(w->store),
                                              .namespace = key.namespace,
                                              .name = key.name,
                                              .json = sbuf_str(&json)});
        struct err err;
        assert_int_equal(
            store_put(w->store, o, store_head(w->store, &key)->revision, NULL, NULL, &err), 0);
        object_unref(o);
    }
    world_run(w);
    char ended[32];
    (void)snprintf(ended, sizeof(ended), "ended:%d ", -ERR_EXPIRED);
    assert_true(str_ends(sbuf_str(&got), str_z(ended)));
    client_watch_stop(c, watch);
    client_free(c);
    sbuf_done(&json);
    sbuf_done(&got);
}

// --- Informers -----------------------------------------------------------------------------------

// A client whose watches can be cut.
struct flaky {
    struct client client;
    struct client *inner;
    struct client_watch *watch;
    client_event_fn event;
    void *arg;
    const struct api_kind *kind;
    size_t watches;
    uint64_t since; // of the last watch
    bool down;      // watches only begin when it is up again
};

static void flaky_event(void *arg, const struct client_event *e)
{
    struct flaky *f = arg;
    f->event(f->arg, e);
}

static struct client_watch *flaky_watch(struct client *c, const struct api_kind *kind,
                                        const struct client_list_options *options, uint64_t since,
                                        client_event_fn event, void *arg)
{
    struct flaky *f = container_of(c, struct flaky, client);
    f->event = event;
    f->arg = arg;
    f->since = since;
    f->kind = kind;
    f->watches++;
    assert_int_equal(options->namespace.n + options->label_selector.n, 0);
    if (!f->down)
        f->watch = client_watch(f->inner, kind, NULL, since, flaky_event, f);
    return (struct client_watch *)(void *)f;
}

static void flaky_stop(struct client_watch *w)
{
    struct flaky *f = (struct flaky *)(void *)w;
    client_watch_stop(f->inner, take_ptr(f->watch));
}

static void flaky_cut(struct flaky *f, int code)
{
    struct err err;
    (void)err_set(&err, code, "cut");
    if (f->watch)
        f->event(f->arg, &(struct client_event){.type = CLIENT_ENDED, .code = -code, .err = &err});
}

static void flaky_up(struct flaky *f)
{
    f->down = false;
    f->watch = client_watch(f->inner, f->kind, NULL, f->since, flaky_event, f);
}

static const struct client_ops flaky_ops = {.watch = flaky_watch, .watch_stop = flaky_stop};

static struct informer *new_informer(struct client *c)
{
    return informer_new(&(struct informer_options){.client = c, .kind = config_kind()});
}

enum { NAMES = 20 };

// What a handler has been told.
struct mirror {
    uint64_t revisions[NAMES];
    size_t changes;
    size_t synced;
};

static size_t number_in(const struct typed_object *o)
{
    uint64_t n = 0;
    assert_int_equal(str_to_u64(str_from(o->meta->name, 1), &n), 0);
    assert_true(n < NAMES);
    return n;
}

// Each change must fit the one before: nothing doubled, nothing left out.
static void mirror_changed(void *arg, const struct typed_object *before,
                           const struct typed_object *after)
{
    struct mirror *m = arg;
    uint64_t *known = &m->revisions[number_in(before ? before : after)];
    assert_int_equal(*known, before ? before->revision : 0);
    if (before && after) {
        assert_true(before->revision < after->revision);
        assert_true(str_eq(before->meta->uid, after->meta->uid));
    }
    *known = after ? after->revision : 0;
    m->changes++;
}

static void mirror_synced(void *arg)
{
    ((struct mirror *)arg)->synced++;
}

static void by_colour(const struct typed_object *o, void (*add)(void *ctx, struct str key),
                      void *ctx)
{
    for (size_t i = 0; i < o->meta->labels.n; i++)
        if (str_eqz(o->meta->labels.p[i].key, "colour"))
            add(ctx, o->meta->labels.p[i].value);
}

static void add_name(void *arg, const struct typed_object *o)
{
    struct sbuf *out = arg;
    sbuf_addf(out, "%.*s ", STR_ARG(o->meta->name));
}

static void check_by(const struct informer *i, const char *colour, const char *expected)
{
    struct sbuf got = {0};
    informer_by(i, 0, str_z(colour), add_name, &got);
    assert_str(sbuf_str(&got), expected);
    sbuf_done(&got);
}

TEST_IN_WORLD(an_informer_keeps_itself_current)
{
    struct client *c = new_client(w);
    struct mirror m = {0};
    struct informer *i = new_informer(c);
    informer_add_handler(i, &(struct informer_handler){
                                .changed = mirror_changed, .synced = mirror_synced, .arg = &m});
    assert_int_equal(informer_add_index(i, by_colour), 0);
    make(w, "n2", "red");
    make(w, "n1", "red");
    informer_start(i);
    assert_false(informer_synced(i));
    world_run(w);
    assert_true(informer_synced(i));
    assert_int_equal(m.synced, 1);
    assert_int_equal(informer_len(i), 2);
    assert_int_equal(informer_revision(i), store_revision(w->store));
    check_by(i, "red", "n1 n2 ");
    set_colour(w, "n1", "blue");
    make(w, "n3", "blue");
    assert_ok(do_delete(w, CONFIG("n2"), NULL));
    check_by(i, "red", "");
    check_by(i, "blue", "n1 n3 ");
    assert_null(informer_get(i, STR("default"), STR("n2")));
    assert_str(informer_get(i, STR("default"), STR("n3"))->meta->name, "n3");
    struct sbuf all = {0};
    informer_foreach(i, add_name, &all);
    assert_str(sbuf_str(&all), "n1 n3 ");
    sbuf_done(&all);
    informer_free(i);
    client_free(c);
}

TEST_IN_WORLD(a_lost_watch_is_resumed_an_expired_one_listed_anew)
{
    struct flaky f = {.client = {&flaky_ops, exec_sim_exec(w->sim)}, .inner = new_client(w)};
    struct mirror m = {0};
    struct informer *i = new_informer(&f.client);
    informer_add_handler(i, &(struct informer_handler){
                                .changed = mirror_changed, .synced = mirror_synced, .arg = &m});
    make(w, "n1", "red");
    make(w, "n2", "red");
    make(w, "n3", "red");
    informer_start(i);
    world_run(w);
    uint64_t revision = informer_revision(i);
    flaky_cut(&f, ERR_UNAVAILABLE);
    set_colour(w, "n1", "blue"); // runs the world: the watch comes back at once
    assert_int_equal(f.since, revision);
    assert_int_equal(m.changes, 4);
    flaky_cut(&f, ERR_EXPIRED);
    f.down = true;
    // While it is gone: one changes, one goes, one goes and comes back as another, one is new.
    size_t before = m.changes;
    set_colour(w, "n1", "green");
    assert_ok(do_delete(w, CONFIG("n2"), NULL));
    assert_ok(do_delete(w, CONFIG("n3"), NULL));
    make(w, "n3", "red");
    make(w, "n4", "red");
    assert_int_equal(m.changes, before);
    flaky_up(&f);
    world_pass(w, 5);
    assert_int_equal(f.since, 0);
    assert_int_equal(m.changes, before + 5); // n1, n2, n3 twice, n4
    assert_int_equal(m.synced, 1);
    assert_int_equal(informer_len(i), 3);
    // One that is not reached is asked often, so that it is noticed soon when it is there again.
    size_t watches = f.watches;
    for (int n = 0; n < 60; n++) {
        flaky_cut(&f, ERR_UNAVAILABLE);
        world_pass(w, 1);
    }
    assert_in_range(f.watches - watches, 20, 62);
    // One that keeps failing is asked less and less often.
    watches = f.watches;
    for (int n = 0; n < 60; n++) {
        flaky_cut(&f, ERR_INTERNAL);
        world_pass(w, 1);
    }
    assert_true(f.watches - watches < 12);
    informer_free(i);
    client_free(f.inner);
}

static void random_step(struct world *w, struct rng *rng)
{
    char name[8];
    (void)snprintf(name, sizeof(name), "n%u", (unsigned)rng_below(rng, NAMES));
    bool there = do_get(w, CONFIG(name))->json[0] != '\0';
    if (!there)
        make(w, name, rng_below(rng, 2) ? "red" : "blue");
    else if (rng_below(rng, 3) == 0)
        assert_ok(do_delete(w, CONFIG(name), NULL));
    else
        set_colour(w, name, rng_below(rng, 2) ? "red" : "blue");
}

static void check_mirror(struct world *w, const struct mirror *m, const struct informer *i)
{
    size_t n = 0;
    for (size_t at = 0; at < NAMES; at++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "n%zu", at);
        struct store_key key = {config_kind(), STR("default"), str_z(name)};
        const struct object *o = store_get(w->store, &key);
        assert_int_equal(m->revisions[at], o ? o->revision : 0);
        n += o != NULL;
    }
    assert_int_equal(informer_len(i), n);
}

TEST_IN_WORLD(informers_lose_and_double_nothing)
{
    struct flaky f = {.client = {&flaky_ops, exec_sim_exec(w->sim)}, .inner = new_client(w)};
    struct mirror m = {0};
    struct rng_seeded rng;
    rng_seeded_init(&rng, 5);
    struct informer *i = new_informer(&f.client);
    informer_add_handler(i, &(struct informer_handler){
                                .changed = mirror_changed, .synced = mirror_synced, .arg = &m});
    (void)informer_add_index(i, by_colour);
    informer_start(i);
    for (int round = 0; round < 120; round++) {
        for (uint64_t n = rng_below(&rng.rng, 6); n > 0; n--)
            random_step(w, &rng.rng);
        if (rng_below(&rng.rng, 3) == 0)
            flaky_cut(&f, rng_below(&rng.rng, 2) ? ERR_EXPIRED : ERR_UNAVAILABLE);
        if (rng_below(&rng.rng, 2) == 0) {
            world_pass(w, 61);
            check_mirror(w, &m, i);
        }
    }
    assert_int_equal(m.synced, 1);
    informer_free(i);
    client_free(f.inner);
}

// --- Events --------------------------------------------------------------------------------------

struct found_events {
    size_t n;
    int32_t counts;
    struct sbuf messages;
};

static void look_at_events(struct world *w, struct found_events *found)
{
    struct store_walk walk = {.kind = api_kind_find(STR("v1"), STR("Event"))};
    struct err err;
    *found = (struct found_events){.messages = found->messages};
    sbuf_clear(&found->messages);
    assert_int_equal(store_walk_start(w->store, &walk, &err), 0);
    for (const struct object *o; (o = store_walk_next(w->store, &walk));) {
        struct api_object object;
        assert_int_equal(registry_decode(o, walk.kind, &w->arena, &object, &err), 0);
        const struct api_event *e = object.value;
        found->n++;
        found->counts += e->count;
        sbuf_addf(&found->messages, "%.*s;", STR_ARG(e->message));
    }
    store_walk_done(&walk);
}

static const struct api_object_reference about_pod = {.kind = STR_INIT("Pod"),
                                                      .api_version = STR_INIT("v1"),
                                                      .namespace = STR_INIT("default"),
                                                      .name = STR_INIT("p"),
                                                      .uid = STR_INIT("u")};

static void say(struct event_recorder *r, const char *reason, const char *message)
{
    events_record_ref(r, &about_pod, EVENT_WARNING, str_z(reason), str_z(message));
}

TEST_IN_WORLD(events_are_counted_combined_and_cut_short)
{
    struct client *c = new_client(w);
    struct event_recorder *r = events_recorder_new(
        &(struct event_recorder_options){.client = c, .component = STR("default-scheduler")});
    struct found_events found = {0};
    for (int n = 0; n < 5; n++)
        say(r, "FailedScheduling", "no room");
    assert_false(events_recorder_idle(r));
    world_run(w);
    assert_true(events_recorder_idle(r));
    look_at_events(w, &found);
    assert_int_equal(found.n, 1);
    assert_int_equal(found.counts, 5);
    assert_str(sbuf_str(&found.messages), "no room;");
    // Ten and more different messages of one reason become one event.
    for (int n = 0; n < 15; n++) {
        char message[32];
        (void)snprintf(message, sizeof(message), "attempt %d", n);
        say(r, "Failed", message);
    }
    world_run(w);
    look_at_events(w, &found);
    assert_int_equal(found.n, 1 + 9 + 1);
    assert_int_equal(found.counts, 20);
    assert_true(str_contains(sbuf_str(&found.messages),
                             STR("(combined from similar events): attempt 14;")));
    // Twenty-five about one object; then one in five minutes.
    for (int n = 0; n < 50; n++)
        say(r, "FailedScheduling", "no room");
    world_run(w);
    look_at_events(w, &found);
    assert_int_equal(found.counts, 25);
    world_pass(w, 601);
    for (int n = 0; n < 5; n++)
        say(r, "FailedScheduling", "no room");
    world_run(w);
    look_at_events(w, &found);
    // Two more were let through; the count knows of all.
    assert_int_equal(found.counts, 20 - 5 + 5 + 50 + 2);
    sbuf_done(&found.messages);
    events_recorder_free(r);
    client_free(c);
}

TEST_IN_WORLD(a_lost_event_is_made_anew)
{
    struct client *c = new_client(w);
    struct event_recorder *r = events_recorder_new(
        &(struct event_recorder_options){.client = c, .component = STR("x"), .host = STR("h")});
    struct found_events found = {0};
    make(w, "a", "red");
    struct answer a = {0};
    struct client_key key = config_key("a");
    client_get(c, &key, note_answer, &a);
    world_run(w);
    events_record(r, a.object, EVENT_NORMAL, STR("Made"), STR("it is there"));
    world_run(w);
    look_at_events(w, &found);
    assert_int_equal(found.n, 1);
    struct store_walk walk = {.kind = api_kind_find(STR("v1"), STR("Event"))};
    struct err err;
    assert_int_equal(store_walk_start(w->store, &walk, &err), 0);
    const struct object *o = store_walk_next(w->store, &walk);
    char name[128];
    (void)snprintf(name, sizeof(name), "%.*s", STR_ARG(o->name));
    store_walk_done(&walk);
    assert_ok(do_delete(w, (struct target){"v1", "Event", "", "default", name}, NULL));
    events_record(r, a.object, EVENT_NORMAL, STR("Made"), STR("it is there"));
    events_record(r, a.object, EVENT_NORMAL, STR("Made"), STR("something else"));
    world_run(w);
    look_at_events(w, &found);
    assert_int_equal(found.n, 2);
    assert_int_equal(found.counts, 3);
    // Freed with one on its way.
    events_record(r, a.object, EVENT_NORMAL, STR("Made"), STR("too late"));
    events_recorder_free(r);
    answer_done(&a);
    client_free(c);
    world_run(w);
    sbuf_done(&found.messages);
}

RUN_TESTS(TEST_CASE(calls_are_answered_once_and_later),
          TEST_CASE(a_pod_is_bound_through_its_subresource), TEST_CASE(a_watch_lists_then_follows),
          TEST_CASE(an_event_is_decoded_once_for_all),
          TEST_CASE(a_slow_watcher_is_ended_not_waited_for),
          TEST_CASE(an_informer_keeps_itself_current),
          TEST_CASE(a_lost_watch_is_resumed_an_expired_one_listed_anew),
          TEST_CASE(informers_lose_and_double_nothing),
          TEST_CASE(events_are_counted_combined_and_cut_short),
          TEST_CASE(a_lost_event_is_made_anew))
