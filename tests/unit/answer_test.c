// SPDX-License-Identifier: Apache-2.0
//
// Answers of selectors, kept by expression and kind of device: evaluated once for a kind, never taken from a device that
// the expression tells apart, and forgotten when kinds are numbered anew.
#include "alloc/index.h"
#include "alloc/model/answer.h"
#include "alloc/model/view_int.h"
#include "alloc_problem.h"

#include "base/banned.h"

#define NODES 300 // more pools than are looked at again with one question

struct nodes {
    struct question q;
    struct index *index;
    struct alloc_solver *solver;
};

// Nodes of one device each: mark is 'even' or 'odd', serial is unique. The first claim reads mark, the second serial.
static void begin(struct nodes *n)
{
    cleanup_sbuf struct sbuf b = {0};
    struct err err = {0};
    sbuf_addz(&b, "{\"features\":[\"all\"],\"deviceClasses\":[{\"metadata\":{\"name\":\"c\"},"
                  "\"spec\":{\"selectors\":[{\"cel\":{\"expression\":\"device.driver == "
                  "'d.example.com'\"}}]}}],\"nodes\":[");
    for (size_t i = 0; i < NODES; i++)
        sbuf_addf(&b, "%s{\"metadata\":{\"name\":\"n%zu\"}}", i ? "," : "", i);
    sbuf_addz(&b, "],\"resourceSlices\":[");
    for (size_t i = 0; i < NODES; i++)
        sbuf_addf(&b,
                  "%s{\"metadata\":{\"name\":\"s%zu\"},\"spec\":{\"driver\":\"d.example.com\","
                  "\"nodeName\":\"n%zu\",\"pool\":{\"name\":\"n%zu\",\"generation\":1,"
                  "\"resourceSliceCount\":1},\"devices\":[{\"name\":\"x\",\"attributes\":{"
                  "\"uuidMark\":{\"string\":\"%s\"},\"serial\":{\"string\":\"%zu\"}}}]}}",
                  i ? "," : "", i, i, i, i % 2 ? "odd" : "even", i);
    sbuf_addz(&b, "],\"claims\":[");
    for (size_t i = 0; i < 2; i++)
        sbuf_addf(&b,
                  "%s{\"metadata\":{\"name\":\"k%zu\",\"namespace\":\"ns\"},\"spec\":{\"devices\":{"
                  "\"requests\":[{\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"c\","
                  "\"allocationMode\":\"ExactCount\",\"count\":1,\"selectors\":[{\"cel\":{"
                  "\"expression\":\"device.attributes['d.example.com'].%s\"}}]}}]}}}",
                  i ? "," : "", i, i ? "serial == '7'" : "uuidMark == 'odd'");
    sbuf_addz(&b, "]}");
    if (alloc_question_read(&n->q, sbuf_str(&b), &err) < 0)
        fail_msg("%s", err.msg);
    n->index = index_new(&(struct index_options){.features = n->q.features});
    n->solver = alloc_solver_new(&(struct alloc_options){.policy = ALLOC_FIRST});
    index_set_class(n->index, (struct index_object){0},
                    (struct index_object){.value = n->q.classes.p[0]});
    for (uint32_t i = 0; i < NODES; i++) {
        index_set_slice(n->index, (struct index_object){0},
                        (struct index_object){.value = n->q.slices.p[i]});
        index_set_node(n->index, i, n->q.nodes.p[i]->metadata.name,
                       (struct index_object){.value = n->q.nodes.p[i]});
    }
}

static void end(struct nodes *n)
{
    alloc_solver_free(n->solver);
    index_free(n->index);
    alloc_question_done(&n->q);
}

static const struct alloc_view *view(struct nodes *n, uint32_t node)
{
    struct err err = {0};
    const struct alloc_view *v = index_view(n->index, node, &err);
    assert_non_null(v);
    return v;
}

static bool serves(struct nodes *n, uint32_t node, size_t claim)
{
    const struct api_resource_claim *c = n->q.claims.p[claim];
    struct alloc_answer a;
    alloc_solve(n->solver, view(n, node), &c, 1, &a);
    return a.verdict == ALLOC_ALLOCATED;
}

// Half of the views are there before anything reads the attribute, the others come while most devices have not been
// looked at for it, the rest after that.
static void a_new_attribute_tells_devices_apart_at_once(void **state)
{
    (void)state;
    struct nodes n = {0};
    begin(&n);
    assert_int_equal(index_states(n.index), 1);
    for (uint32_t i = 0; i < NODES / 2; i++)
        (void)view(&n, i);
    for (size_t claim = 0; claim < 2; claim++) {
        const struct api_resource_claim *c = n.q.claims.p[claim];
        (void)index_question(n.index, claim + 1, &c, 1);
        assert_true(index_catch_up(n.index, 1)); // it is not done
        for (size_t round = 0; round < 2; round++) {
            for (uint32_t i = 0; i < NODES; i++)
                if (serves(&n, i, claim) != (claim ? i == 7 : i % 2 == 1))
                    fail_msg("node %u, claim %zu, round %zu", (unsigned)i, claim, round);
            while (index_catch_up(n.index, SIZE_MAX))
                continue;
            for (uint32_t i = 0; i < NODES; i += 3) // some are made again
                index_set_node(n.index, i, n.q.nodes.p[i]->metadata.name,
                               (struct index_object){.value = n.q.nodes.p[i]});
        }
    }
    end(&n);
}

// Class and claim are evaluated on one device of a kind; the others need no record at all.
static void an_expression_is_evaluated_once_for_a_kind(void **state)
{
    (void)state;
    struct nodes n = {0};
    size_t records = 0;
    begin(&n);
    const struct api_resource_claim *c = n.q.claims.p[0];
    (void)index_question(n.index, 1, &c, 1);
    while (index_catch_up(n.index, SIZE_MAX))
        continue;
    assert_int_equal(index_states(n.index), 2);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(serves(&n, i, 0), i % 2 == 1);
        records += *view(&n, i)->cluster->devices[0].cel != NULL;
    }
    assert_int_equal(records, 2);
    end(&n);
}

static void kinds_are_numbered_anew_when_there_are_too_many(void **state)
{
    (void)state;
    struct answers *a = answer_cache_new();
    struct alloc_cluster old = {.kit.answers = a};
    struct cl_device d = {0};
    answer_learn(a, STR("true"), 0);
    old.kinds.generation = answer_begin(a);
    d.kind_number = answer_kind_of(a, 1)->number;
    assert_int_equal(answer_kind_of(a, 1)->number, d.kind_number);
    assert_non_null(answer_set_of(&old, STR("true")));
    assert_null(answer_set_of(&old, STR("false")));
    for (uint64_t i = 2; answer_begin(a) == old.kinds.generation; i++) {
        assert_true(i < 1000000);
        (void)answer_kind_of(a, i);
    }
    assert_null(answer_set_of(&old, STR("true"))); // its numbers mean other kinds now
    struct alloc_cluster new = {.kit.answers = a, .kinds.generation = answer_begin(a)};
    assert_int_equal(answer_find(answer_set_of(&new, STR("true")), &d), MATCH_UNKNOWN);
    answer_cache_free(a);
}

// A stream of expressions that are used once pushes out others of the kind, not one that is in use.
static void expressions_in_use_stay(void **state)
{
    (void)state;
    struct answers *a = answer_cache_new();
    struct alloc_cluster c = {.kit.answers = a, .kinds.generation = answer_begin(a)};
    answer_learn(a, STR("used"), 0);
    answer_learn(a, STR("once"), 0);
    for (size_t i = 0; i < 5000; i++) {
        cleanup_sbuf struct sbuf text = {0};
        sbuf_addf(&text, "%zu", i);
        answer_learn(a, sbuf_str(&text), 0);
        assert_non_null(answer_set_of(&c, STR("used")));
    }
    assert_null(answer_set_of(&c, STR("once")));
    answer_learn(a, STR("later"), 9);
    assert_null(answer_set_of(&c, STR("later"))); // it reads what these kinds do not tell apart
    answer_cache_free(a);
}

RUN_TESTS(TEST_CASE(a_new_attribute_tells_devices_apart_at_once),
          TEST_CASE(an_expression_is_evaluated_once_for_a_kind),
          TEST_CASE(kinds_are_numbered_anew_when_there_are_too_many),
          TEST_CASE(expressions_in_use_stay))
