// SPDX-License-Identifier: Apache-2.0
//
// Clients on threads of their own, the registry on another: calls, informers and answers cross over.
#include <pthread.h>
#include <stdatomic.h>

#include "api/cel_check.h"
#include "client/informer.h"
#include "inproc/local.h"
#include "thread_exec.h"
#include "unit.h"

#include "base/banned.h"

enum { CLIENTS = 2, EACH = 120, IN_FLIGHT = 16 };

struct side {
    struct thread_exec exec;
    struct registry *registry;
    pthread_t thread;
    int number;
    struct client *client;
    struct informer *informer;
    size_t created, answered, seen;
    _Atomic bool over;
};

static const struct api_kind *config_kind(void)
{
    return api_kind_find(STR("v1"), STR("ConfigMap"));
}

static void on_created(void *arg, const struct client_answer *a)
{
    struct side *s = arg;
    if (a->code < 0)
        (void)fprintf(stderr, "%s\n", a->err->msg);
    assert_int_equal(a->code, 0);
    assert_non_null(a->object);
    s->answered++;
}

static void create_next(struct side *s)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "c%d-%zu", s->number, s->created++);
    struct api_config_map map = {
        .metadata = {.name = str_z(name), .namespace = STR("default")},
    };
    struct api_object object = {config_kind(), &map};
    api_set_type_meta(&object);
    client_create(s->client, &object, NULL, on_created, s);
}

static void on_change(void *arg, const struct typed_object *before,
                      const struct typed_object *after)
{
    struct side *s = arg;
    assert_null(before);
    assert_non_null(after);
    s->seen++;
}

static void *client_main(void *arg)
{
    static const struct registry_user user = {.name = STR_INIT("tester")};
    struct side *s = arg;
    s->client = local_client_new(s->registry, &s->exec.exec, &user);
    s->informer = informer_new(&(struct informer_options){
        .client = s->client, .kind = config_kind(), .list = {.namespace = STR("default")}});
    informer_add_handler(s->informer, &(struct informer_handler){.changed = on_change, .arg = s});
    informer_start(s->informer);
    // Everyone sees what everyone made.
    while (s->answered < EACH || s->seen < (size_t)CLIENTS * EACH) {
        while (s->created < EACH && s->created - s->answered < IN_FLIGHT)
            create_next(s);
        thread_exec_step(&s->exec);
    }
    informer_free(s->informer);
    client_free(s->client);
    atomic_store(&s->over, true);
    return NULL;
}

static bool all_over(struct side *sides)
{
    for (size_t i = 0; i < CLIENTS; i++)
        if (!atomic_load(&sides[i].over))
            return false;
    return true;
}

static void clients_on_other_threads_see_everything(void **state)
{
    (void)state;
    static struct thread_exec home;
    static struct side sides[CLIENTS];
    struct features features;
    struct store *store;
    struct registry *registry;
    struct err err;
    thread_exec_init(&home);
    features_init(&features, FEATURES_MINOR);
    struct api_cel_engine *cel = api_cel_engine_new();
    assert_int_equal(store_open(&(struct store_options){.exec = &home.exec}, &store, &err), 0);
    assert_int_equal(registry_new(&(struct registry_options){.store = store,
                                                             .exec = &home.exec,
                                                             .features = &features,
                                                             .cel = api_cel_engine_rules(cel)},
                                  &registry, &err),
                     0);
    struct store_key ns = {api_kind_find(STR("v1"), STR("Namespace")), STR(""), STR("default")};
    while (!store_get(store, &ns))
        thread_exec_step(&home);
    for (int i = 0; i < CLIENTS; i++) {
        sides[i].registry = registry;
        sides[i].number = i;
        thread_exec_init(&sides[i].exec);
        assert_int_equal(pthread_create(&sides[i].thread, NULL, client_main, &sides[i]), 0);
    }
    while (!all_over(sides))
        thread_exec_step(&home);
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_join(sides[i].thread, NULL), 0);
    // What was posted either way still runs.
    for (int round = 0; round < 3; round++) {
        thread_exec_step(&home);
        for (int i = 0; i < CLIENTS; i++)
            thread_exec_step(&sides[i].exec);
    }
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(sides[i].seen, (size_t)CLIENTS * EACH);
        thread_exec_done(&sides[i].exec);
    }
    registry_free(registry);
    store_close(store);
    api_cel_engine_free(cel);
    thread_exec_done(&home);
}

RUN_TESTS(TEST_CASE(clients_on_other_threads_see_everything))
