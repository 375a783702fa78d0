// SPDX-License-Identifier: Apache-2.0
//
// vec, map, bits, list, heap: each against a plain model under a long run of random operations,
// and the edges by hand.
#include "base/bits.h"
#include "base/hash.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/rand.h"
#include "base/vec.h"
#include "unit.h"

#include "base/banned.h"

struct ints VEC(int);
struct int_map MAP(int);

static void vec_grows_and_walks(void **state)
{
    (void)state;
    struct ints v = {0};
    int sum = 0;
    vec_foreach(&v, it)
        sum += *it;
    for (int i = 0; i < 1000; i++)
        vec_push(&v, i);
    vec_foreach(&v, it)
        sum += *it;
    assert_int_equal(sum, 499500);
    assert_int_equal(vec_pop(&v), 999);
    assert_int_equal(*vec_last(&v), 998);
    vec_done(&v);
    cleanup_arena struct arena a = {0};
    for (int i = 0; i < 1000; i++)
        vec_push_arena(&a, &v, i);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(v.p[i], i);
}

// Keys k0..k199 against an array of expected values, -1 for absent.
static void map_agrees_with_a_model(void **state)
{
    (void)state;
    enum { KEYS = 200 };
    static char names[KEYS][8];
    int model[KEYS];
    struct int_map m = {0};
    struct rng_seeded r;
    rng_seeded_init(&r, 1);
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "k%d", i);
        model[i] = -1;
    }
    for (int step = 0; step < 50000; step++) {
        size_t k = rng_below(&r.rng, KEYS);
        struct str key = str_z(names[k]);
        if (rng_below(&r.rng, 3) == 0) {
            assert_int_equal(map_del(&m, key), model[k] >= 0);
            model[k] = -1;
        } else {
            bool added;
            int *v = map_put_new(&m, key, &added);
            assert_int_equal(added, model[k] < 0);
            *v = model[k] = step;
        }
    }
    size_t live = 0;
    for (int i = 0; i < KEYS; i++) {
        int *v = map_get(&m, str_z(names[i]));
        assert_int_equal(v ? *v : -1, model[i]);
        live += model[i] >= 0;
    }
    assert_int_equal(map_len(&m), live);
    map_done(&m);
}

static void map_walks_in_insertion_order(void **state)
{
    (void)state;
    static const char *const keys[] = {"z", "y", "x", "w", "v", "u", "t", "s", "r", "q", "p"};
    struct int_map m = {0};
    for (size_t i = 0; i < array_len(keys); i++)
        *map_put(&m, str_z(keys[i])) = (int)i;
    assert_true(map_del(&m, STR("x")));
    assert_false(map_del(&m, STR("x")));
    assert_false(map_has(&m, STR("x")));
    *map_put(&m, STR("x")) = 99;
    cleanup_sbuf struct sbuf seen = {0};
    map_foreach(&m, i) {
        sbuf_add(&seen, map_key(&m, i));
        if (str_eq(map_key(&m, i), STR("t")))
            assert_true(map_del(&m, STR("s"))); // deleting ahead while walking is allowed
    }
    assert_string_equal(seen.p, "zywvutrqpx");
    map_done(&m);
    assert_null(map_get(&m, STR("z")));
}

static void hash_depends_on_the_key(void **state)
{
    (void)state;
    static const uint64_t other[2] = {1, 2};
    static const uint64_t usual[2] = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};
    uint64_t before = hash_str(STR("gpu-0"));
    assert_true(before == hash_str(STR("gpu-0")));
    assert_true(before != hash_str(STR("gpu-1")));
    // Trailing zero bytes count.
    assert_true(hash_str(STR("")) != hash_str(str_make("\0", 1)));
    hash_seed(other);
    assert_true(before != hash_str(STR("gpu-0")));
    hash_seed(usual);
    assert_true(before == hash_str(STR("gpu-0")));
}

static void bits_agree_with_a_model(void **state)
{
    (void)state;
    static const size_t lens[] = {0, 1, 63, 64, 65, 127, 128, 200};
    struct rng_seeded r;
    rng_seeded_init(&r, 2);
    for (size_t k = 0; k < array_len(lens); k++) {
        bool model[200] = {0};
        struct bits b;
        bits_init(&b, lens[k]);
        for (size_t i = 0; i < lens[k]; i++) {
            assert_false(bits_test(&b, i));
            model[i] = rng_below(&r.rng, 2);
            if (model[i])
                bits_set(&b, i);
        }
        for (size_t i = 0; i < lens[k]; i++)
            assert_int_equal(bits_test(&b, i), model[i]);
        bits_done(&b);
    }
}

struct item {
    int value;
    struct list_node node;
    struct heap_node place;
};

static void list_keeps_order_and_survives_removal(void **state)
{
    (void)state;
    struct list l;
    struct item items[5] = {0};
    list_init(&l);
    assert_null(list_pop_front(&l));
    for (int i = 0; i < 5; i++) {
        items[i].value = i;
        list_push_back(&l, &items[i].node);
    }
    list_remove(&items[2].node);
    list_remove(&items[2].node);
    list_push_front(&l, &items[2].node);
    int digits = 0;
    list_foreach(&l, it) {
        digits = digits * 10 + list_entry(it, struct item, node)->value;
        list_remove(it);
    }
    assert_int_equal(digits, 20134);
    assert_true(list_empty(&l));
    assert_false(list_linked(&items[0].node));
}

static bool by_value(const struct heap_node *a, const struct heap_node *b)
{
    return heap_entry(a, const struct item, place)->value <
           heap_entry(b, const struct item, place)->value;
}

static void heap_sorts_and_follows_changes(void **state)
{
    (void)state;
    enum { N = 300 };
    struct heap h;
    struct item items[N] = {0};
    struct rng_seeded r;
    rng_seeded_init(&r, 3);
    heap_init(&h, by_value);
    assert_null(heap_pop(&h));
    for (int i = 0; i < N; i++) {
        items[i].value = (int)rng_below(&r.rng, 1000);
        heap_push(&h, &items[i].place);
    }
    for (int i = 0; i < N; i += 3) {
        items[i].value = (int)rng_below(&r.rng, 1000);
        heap_update(&h, &items[i].place);
    }
    size_t removed = 0;
    for (int i = 1; i < N; i += 7, removed++)
        heap_remove(&h, &items[i].place);
    heap_remove(&h, &items[1].place); // already out
    assert_int_equal(h.n, N - removed);
    int last = -1;
    for (struct heap_node *n; (n = heap_pop(&h));) {
        struct item *it = heap_entry(n, struct item, place);
        assert_true(it->value >= last);
        assert_false(heap_linked(n));
        last = it->value;
    }
    heap_push(&h, &items[0].place);
    heap_done(&h);
    assert_false(heap_linked(&items[0].place));
}

RUN_TESTS(TEST_CASE(vec_grows_and_walks), TEST_CASE(map_agrees_with_a_model),
          TEST_CASE(map_walks_in_insertion_order), TEST_CASE(hash_depends_on_the_key),
          TEST_CASE(bits_agree_with_a_model), TEST_CASE(list_keeps_order_and_survives_removal),
          TEST_CASE(heap_sorts_and_follows_changes))
