// SPDX-License-Identifier: Apache-2.0
//
// Allocation problems for tests, written as JSON with single quotes.
#ifndef UNIT_ALLOC_PROBLEM_H
#define UNIT_ALLOC_PROBLEM_H

#include "lab/alloc_question.h"
#include "unit.h"

#define P_CLASSES                                                                            \
    "'deviceClasses':[{'metadata':{'name':'c'},'spec':{'selectors':[{'cel':{'expression':\"" \
    "device.driver == 'd.example.com'\"}}]}}]"
#define P_DEV(name, ...) "{'name':'" name "'" __VA_ARGS__ "}"
#define P_NUMBER(n)      ",'attributes':{'n':{'int':" n "},'k':{'string':'k" n "'}}"
#define P_TAINT          ",'taints':[{'key':'fix','value':'yes','effect':'NoSchedule'}]"
#define P_SHARED(n)      ",'allowMultipleAllocations':true,'capacity':{'mem':{'value':'" n "'}}"
#define P_DRAWS(set, n) \
    ",'consumesCounters':[{'counterSet':'" set "','counters':{'m':{'value':'" n "'}}}]"
#define P_SLICE_OF(node, slice, count, rest)                                                  \
    "{'metadata':{'name':'" slice "'},'spec':{'driver':'d.example.com','pool':{'name':'" node \
    "','generation':1,'resourceSliceCount':" count "},'nodeName':'" node "'," rest "}}"
#define P_SLICE(node, devices) P_SLICE_OF(node, "s-" node, "1", "'devices':[" devices "]")
#define P_REQ(name, count, ...)                                                                   \
    "{'name':'" name                                                                              \
    "','exactly':{'deviceClassName':'c','allocationMode':'ExactCount','count':" count __VA_ARGS__ \
    "}}"
#define P_CEL(expression) ",'selectors':[{'cel':{'expression':\"" expression "\"}}]"
#define P_CLAIM(name, requests, ...)                                                            \
    "{'metadata':{'name':'" name "','namespace':'ns'},'spec':{'devices':{'requests':[" requests \
    "]" __VA_ARGS__ "}}}"
#define P_MATCH    ",'constraints':[{'matchAttribute':'d.example.com/n'}]"
#define P_DISTINCT ",'constraints':[{'distinctAttribute':'d.example.com/n'}]"
#define P_USED_SHARE(claim, node, device, mem)                                                 \
    "{'metadata':{'name':'" claim "','namespace':'other'},'spec':{},'status':{'allocation':{'" \
    "devices':{'results':[{'request':'r',"                                                     \
    "'driver':'d.example.com','pool':'" node "','device':'" device                             \
    "','shareID':'a','consumedCapacity':{'mem':'" mem "'}}]}}}}"
#define P_USED(claim, node, device)                                                            \
    "{'metadata':{'name':'" claim "','namespace':'other'},'spec':{},'status':{'allocation':{'" \
    "devices':{'results':[{'request':'r',"                                                     \
    "'driver':'d.example.com','pool':'" node "','device':'" device "'}]}}}}"
#define P_NODE(name) "{'metadata':{'name':'" name "'}}"
#define P_PROBLEM(nodes, slices, claims, used)                                        \
    "{'features':['all']," P_CLASSES ",'nodes':[" nodes "],'resourceSlices':[" slices \
    "],'claims':[" claims "],'allocatedClaims':[" used "]}"

struct asked {
    struct question q;
    struct prepared p;
    struct alloc_solver *s;
};

// ask reads a problem and makes its snapshot and views.
static inline void ask(struct asked *a, const char *text)
{
    cleanup_sbuf struct sbuf b = {0};
    struct err err = {0};
    bool cel = false; // inside of an expression's double quotes, single ones stay
    for (; *text; text++) {
        cel ^= *text == '"';
        sbuf_addc(&b, *text == '\'' && !cel ? '"' : *text);
    }
    *a = (struct asked){0};
    if (alloc_question_read(&a->q, sbuf_str(&b), &err) < 0 ||
        alloc_question_prepare(&a->q, &a->p, &err) < 0)
        fail_msg("%s", err.msg);
    a->s = alloc_solver_new(NULL);
}

static inline void ask_done(struct asked *a)
{
    alloc_solver_free(a->s);
    alloc_question_end(&a->q, &a->p);
    alloc_question_done(&a->q);
}

static inline struct alloc_report *ask_report(struct asked *a)
{
    struct alloc_report *r = alloc_report_new();
    for (size_t i = 0; i < a->q.nodes.n; i++)
        assert_true(alloc_report_add(r, a->s, a->p.views[i], a->q.claims.p, a->q.claims.n));
    return r;
}

#define assert_has(buffer, part)                                                  \
    do {                                                                          \
        if (!str_contains(sbuf_str(buffer), STR(part)))                           \
            fail_msg("\"%s\" is not in:\n%.*s", part, STR_ARG(sbuf_str(buffer))); \
    } while (0)

#endif
