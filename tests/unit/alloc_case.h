// SPDX-License-Identifier: Apache-2.0
//
// Allocation problems as tests: a problem written as JSON with single quotes, its verdict, and the
// devices of each claim or a part of the error. Every one is solved with and without pruning, which
// must agree, and every allocation is given to the checker.
#ifndef UNIT_ALLOC_CASE_H
#define UNIT_ALLOC_CASE_H

#include "lab/alloc_question.h"
#include "unit.h"

#define GATES     "'default-1.37'"
#define ALL_GATES "'all'"

#define DEV(name, ...) "{'name':'" name "'" __VA_ARGS__ "}"
#define ATTR(value)    ",'attributes':{'drv.example.com/x':" value "}"
#define TAINT          ",'taints':[{'key':'k','value':'v','effect':'NoSchedule'}]"
#define SHARED(cap)    ",'allowMultipleAllocations':true,'capacity':{'mem':" cap "}"
#define DRAWS(n)       ",'consumesCounters':[{'counterSet':'cs','counters':{'m':{'value':'" n "'}}}]"
#define POOL(driver, pool, slice, count, rest)                                             \
    "{'metadata':{'name':'" slice "'},'spec':{'driver':'" driver "','pool':{'name':'" pool \
    "','generation':1,'resourceSliceCount':" count "}," rest "}}"
#define SLICE(devices) \
    POOL("drv.example.com", "p", "s", "1", "'nodeName':'n','devices':[" devices "]")
#define COUNTED(n, devices)                                                                    \
    POOL("drv.example.com", "p", "s0", "2",                                                    \
         "'nodeName':'n','sharedCounters':[{'name':'cs','counters':{'m':{'value':'" n "'}}}]") \
    "," POOL("drv.example.com", "p", "s1", "2", "'nodeName':'n','devices':[" devices "]")
#define REQ(name, ...) \
    "{'name':'" name   \
    "','exactly':{'deviceClassName':'c','allocationMode':'ExactCount','count':1" __VA_ARGS__ "}}"
#define SUB(name, ...)                                                                             \
    "{'name':'" name "','deviceClassName':'c','allocationMode':'ExactCount','count':1" __VA_ARGS__ \
    "}"
#define ANY(name, subs) "{'name':'" name "','firstAvailable':[" subs "]}"
#define COUNT(n)        ",'count':" n
#define EVERY           ",'allocationMode':'All','count':0"
#define ADMIN           ",'adminAccess':true"
#define CEL(expression) ",'selectors':[{'cel':{'expression':\"" expression "\"}}]"
#define WANTS(n)        ",'capacity':{'requests':{'mem':'" n "'}}"
#define CLAIM(name, requests, ...)                                                              \
    "{'metadata':{'name':'" name "','namespace':'ns'},'spec':{'devices':{'requests':[" requests \
    "]" __VA_ARGS__ "}}}"
#define MATCH    ",'constraints':[{'matchAttribute':'drv.example.com/x'}]"
#define DISTINCT ",'constraints':[{'distinctAttribute':'drv.example.com/x'}]"
#define IN_USE(device) \
    ",'allocated':{'devices':[{'driver':'drv.example.com','pool':'p','device':'" device "'}]}"

struct problem {
    const char *name;
    const char *gates;
    const char *slices;
    const char *claims;
    const char *more; // of the document
    enum alloc_verdict verdict;
    const char *expect; // devices, or a part of the error
};

static inline void write_document(const struct problem *p, struct sbuf *out)
{
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text,
              "{'features':[%s],'deviceClasses':[{'metadata':{'name':'c'},'spec':{}}],'node':{"
              "'metadata':{'name':'n'}},'resourceSlices':[%s],'claims':[%s]%s}",
              p->gates, p->slices, p->claims, p->more);
    // Single quotes inside a CEL text stay: they stand between double quotes already.
    bool quoted = false;
    for (size_t i = 0; i < text.n; i++) {
        quoted ^= text.p[i] == '"';
        sbuf_addc(out, text.p[i] == '\'' && !quoted ? '"' : text.p[i]);
    }
}

static inline void write_devices(const struct alloc_answer *a, struct sbuf *out)
{
    for (size_t i = 0; i < a->results_len; i++) {
        const struct api_device_request_allocation_result_array *rs =
            &a->results[i].devices.results;
        if (i)
            sbuf_addc(out, ';');
        for (size_t k = 0; k < rs->n; k++)
            sbuf_addf(out, "%s%.*s", k ? "," : "", STR_ARG(rs->p[k].device));
    }
}

// Solves a document; out gets the devices or the error. Allocations must pass the checker.
static inline enum alloc_verdict solve_text(struct str text, const struct alloc_options *options,
                                            struct sbuf *out)
{
    struct question q = {0};
    struct prepared p = {0};
    struct err err = {0};
    if (alloc_question_read(&q, text, &err) < 0 || alloc_question_prepare(&q, &p, &err) < 0)
        fail_msg("%s in %.*s", err.msg, STR_ARG(text));
    struct alloc_solver *s = alloc_solver_new(options);
    struct alloc_answer a;
    if (!p.views)
        abort(); // the test has failed already
    alloc_solve(s, p.views[0], q.claims.p, q.claims.n, &a);
    if (a.verdict == ALLOC_ALLOCATED) {
        cleanup_sbuf struct sbuf problems_found = {0};
        write_devices(&a, out);
        if (!alloc_check(p.views[0], q.claims.p, q.claims.n, a.results, a.results_len,
                         &problems_found))
            fail_msg("%.*s in %.*s", STR_ARG(sbuf_str(&problems_found)), STR_ARG(text));
    } else {
        sbuf_add(out, a.error);
    }
    alloc_solver_free(s);
    alloc_question_end(&q, &p);
    alloc_question_done(&q);
    return a.verdict;
}

static inline void test_problem(void **state)
{
    const struct problem *p = *state;
    for (int pruned = 0; pruned < 3; pruned++) {
        cleanup_sbuf struct sbuf text = {0};
        cleanup_sbuf struct sbuf got = {0};
        struct alloc_options o = {
            .policy = ALLOC_FIRST, .no_pruning = !pruned, .eager_pruning = pruned == 2};
        write_document(p, &text);
        enum alloc_verdict v = solve_text(sbuf_str(&text), &o, &got);
        assert_string_equal(alloc_verdict_name(v), alloc_verdict_name(p->verdict));
        if (v == ALLOC_ALLOCATED)
            assert_str(sbuf_str(&got), p->expect);
        else if (!str_contains(sbuf_str(&got), str_z(p->expect)))
            fail_msg("'%.*s' lacks '%s'", STR_ARG(sbuf_str(&got)), p->expect);
    }
}

#endif
