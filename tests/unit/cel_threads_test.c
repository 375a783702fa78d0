// SPDX-License-Identifier: Apache-2.0
//
// Programs, devices and the cache are shared by threads, each with a run of its own.
#include <pthread.h>

#include "cel/cel.h"
#include "unit.h"

#include "base/banned.h"

enum { THREADS = 4, ROUNDS = 2000 };

struct shared {
    struct cel_env *env;
    struct cel_cache *cache;
    struct cel_device *device;
};

static const char *const selectors[] = {
    "device.driver == 'd' && device.attributes['d'].name.matches('^[a-z]+-[0-9]+$')",
    "device.attributes['d'].name.lowerAscii() in ['gpu-1', 'gpu-2']",
    "cel.bind(d, device.attributes['d'], has(d.name) && d.?nope.orValue(1) == 1)",
    "[1, 2, 3].map(x, x * 2).exists(y, y == 4) && device.attributes['d'].nope == 1",
};

static void *work(void *arg)
{
    const struct shared *s = arg;
    struct cel_run *run = cel_run_new();
    size_t matches = 0;
    for (size_t i = 0; i < ROUNDS; i++) {
        struct cel_program *p = NULL;
        struct cel_result r;
        if (cel_cache_get(s->cache, s->env, str_z(selectors[i % array_len(selectors)]), &p, NULL,
                          NULL) < 0)
            return NULL;
        matches += cel_eval_device(run, p, s->device, &r);
        cel_program_free(p);
    }
    cel_run_free(run);
    return (void *)matches; // NOLINT(performance-no-int-to-ptr): a count, not a pointer
}

static void test_sharing(void **state)
{
    (void)state;
    static const struct str name[] = {STR_INIT("gpu-1")};
    struct cel_attr_input attr = {STR("name"), CEL_ATTR_STRING, false, 1, {.strings = name}};
    struct cel_device_input input = {.driver = STR("d"), .attributes = &attr, .attribute_count = 1};
    struct cel_shapes *shapes = cel_shapes_new();
    // Three places for four expressions: programs come and go while others use them.
    struct shared s = {cel_env_new(&(struct cel_env_options){.kind = CEL_ENV_DRA}),
                       cel_cache_new(3), NULL};
    assert_int_equal(cel_device_new(shapes, &input, &s.device, NULL), 0);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &s), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *matches;
        assert_int_equal(pthread_join(threads[i], &matches), 0);
        assert_int_equal((uintptr_t)matches, ROUNDS / 4 * 3);
    }
    cel_device_free(s.device);
    cel_shapes_free(shapes);
    cel_cache_free(s.cache);
    cel_env_free(s.env);
}

RUN_TESTS(TEST_CASE(test_sharing))
