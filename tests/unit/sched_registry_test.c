// SPDX-License-Identifier: Apache-2.0
//
// The scheduler on the real registry: what it writes passes validation, its patches do what they
// mean, and the store ends as it should.
#include "inproc/local.h"
#include "registry_world.h"
#include "sched/sched.h"

#include "base/banned.h"

static const struct registry_user user = {.name = STR_INIT("scheduler")};

struct house {
    struct world *w;
    struct client *client;
    struct sched *s;
};

#define NODE(name)  ((struct target){"v1", "Node", "", "", name})
#define CLASS(name) ((struct target){"resource.k8s.io/v1", "DeviceClass", "", "", name})
#define SLICE(name) ((struct target){"resource.k8s.io/v1", "ResourceSlice", "", "", name})

// JSON is written with single quotes for double ones.
static const char *quoted(struct house *h, const char *text)
{
    char *json = arena_dup(&h->w->arena, text, strlen(text) + 1, 1);
    for (char *p = json; *p; p++)
        if (*p == '\'')
            *p = '"';
    return json;
}

static void create(struct house *h, struct target t, const char *text)
{
    const char *json = quoted(h, text);
    struct reply *r = do_create(h->w, t, json);
    if (r->code < 0)
        fail_msg("%s %s: %s", t.kind, json, r->message);
}

static void start(struct house *h)
{
    h->w = world_new();
    h->client = local_client_new(h->w->registry, exec_sim_exec(h->w->sim), &user);
    h->s = sched_new(&(struct sched_options){.client = h->client});
    sched_start(h->s);
    create(
        h, CLASS("gpu"),
        "{'metadata':{'name':'gpu'},'spec':{'extendedResourceName':'example.com/gpu','selectors':"
        "[{'cel':{'expression':'device.driver == \\'drv\\''}}]}}");
    create(
        h, NODE("n"),
        "{'metadata':{'name':'n'},'status':{'allocatable':{'cpu':'4','memory':'8Gi','pods':'10'},"
        "'capacity':{'cpu':'4','memory':'8Gi','pods':'10'}}}");
    create(h, SLICE("s"),
           "{'metadata':{'name':'s'},'spec':{'driver':'drv','nodeName':'n','pool':{'name':'n',"
           "'generation':1,'resourceSliceCount':1},'devices':[{'name':'d0'},{'name':'d1'}]}}");
    world_pass(h->w, 1);
}

static void finish(struct house *h)
{
    cleanup_sbuf struct sbuf problems = {0};
    if (!sched_check(h->s, &problems))
        fail_msg("%s", problems.p);
    sched_free(h->s);
    world_run(h->w);
    client_free(h->client);
    world_run(h->w);
    world_free(h->w);
}

#define A_CLAIM(name, count)                                                                     \
    "{'metadata':{'name':'" name "','namespace':'default'},'spec':{'devices':{'requests':[{"     \
    "'name':'r','exactly':{'deviceClassName':'gpu','allocationMode':'ExactCount','count':" count \
    "}}]}}}"
#define A_POD(name, rest)                                                                   \
    "{'metadata':{'name':'" name "','namespace':'default'},'spec':{'schedulerName':'dray'," \
    "'containers':[{'name':'c','image':'i'" rest "}]"
#define WITH_CLAIM(claim) ",'resourceClaims':[{'name':'g','resourceClaimName':'" claim "'}]}}"

static void a_pod_is_bound_with_its_claim(void **state)
{
    (void)state;
    struct house h;
    start(&h);
    create(&h, CLAIM("c"), A_CLAIM("c", "2"));
    create(&h, POD("p"), A_POD("p", "") WITH_CLAIM("c"));
    world_pass(h.w, 1);
    (void)do_get(h.w, POD("p"));
    assert_field(h.w, "spec.nodeName", "n");
    (void)do_get(h.w, CLAIM("c"));
    assert_field(h.w, "status.reservedFor[0].name", "p");
    assert_field(h.w, "status.allocation.devices.results[1].device", "d1");
    assert_field(h.w, "metadata.finalizers[0]", "resource.kubernetes.io/delete-protection");
    finish(&h);
}

static void a_pod_that_fits_nowhere_is_told(void **state)
{
    (void)state;
    struct house h;
    start(&h);
    create(&h, CLAIM("c"), A_CLAIM("c", "3"));
    create(&h, POD("p"), A_POD("p", "") WITH_CLAIM("c"));
    world_pass(h.w, 1);
    (void)do_get(h.w, POD("p"));
    assert_field(h.w, "status.conditions[0].type", "PodScheduled");
    assert_field(h.w, "status.conditions[0].status", "False");
    assert_field(h.w, "status.conditions[0].reason", "Unschedulable");
    assert_non_null(strstr(reply_field(h.w, "status.conditions[0].message"), "0/1 nodes"));
    finish(&h);
}

static void an_extended_resource_becomes_a_claim(void **state)
{
    (void)state;
    struct house h;
    start(&h);
    create(&h, POD("p"),
           A_POD("p", ",'resources':{'requests':{'example.com/gpu':'2'},'limits':"
                      "{'example.com/gpu':'2'}}") "}}");
    world_pass(h.w, 1);
    (void)do_get(h.w, POD("p"));
    assert_field(h.w, "spec.nodeName", "n");
    assert_field(h.w, "status.extendedResourceClaimStatus.requestMappings[0].requestName",
                 "container-0-request-0");
    char *claim =
        world_copy(str_z(reply_field(h.w, "status.extendedResourceClaimStatus.resourceClaimName")));
    (void)do_get(h.w, CLAIM(claim));
    assert_field(h.w, "status.reservedFor[0].name", "p");
    free(claim);
    finish(&h);
}

// The allocation of a claim that keeps its pod from the node is cleared and made anew.
static void a_stale_allocation_is_given_up(void **state)
{
    (void)state;
    struct house h;
    start(&h);
    create(&h, CLAIM("c"), A_CLAIM("c", "1"));
    struct reply *r = do_patch(
        h.w, CLAIM_STATUS("c"), REGISTRY_PATCH_MERGE,
        quoted(
            &h,
            "{'metadata':{'finalizers':['resource.kubernetes.io/delete-protection']},'status':{"
            "'allocation':{'devices':{'results':[{'request':'r','driver':'drv','pool':'gone','"
            "device':"
            "'d0'}]},'nodeSelector':{'nodeSelectorTerms':[{'matchFields':[{'key':'metadata.name',"
            "'operator':'In','values':['gone']}]}]}}}}"));
    if (r->code < 0)
        fail_msg("%s", r->message);
    create(&h, POD("p"), A_POD("p", "") WITH_CLAIM("c"));
    world_pass(h.w, 5);
    (void)do_get(h.w, POD("p"));
    assert_field(h.w, "spec.nodeName", "n");
    (void)do_get(h.w, CLAIM("c"));
    assert_field(h.w, "status.allocation.devices.results[0].pool", "n");
    finish(&h);
}

static void many_pods_share_a_claim(void **state)
{
    (void)state;
    struct house h;
    start(&h);
    create(&h, CLAIM("c"), A_CLAIM("c", "1"));
    for (int i = 0; i < 8; i++) {
        char name[8];
        cleanup_sbuf struct sbuf json = {0};
        (void)snprintf(name, sizeof(name), "p%d", i);
        sbuf_addf(&json, A_POD("%s", "") WITH_CLAIM("c"), name);
        create(&h, POD(name), json.p);
    }
    world_pass(h.w, 1);
    struct sched_stats st;
    sched_get_stats(h.s, &st);
    assert_int_equal(st.bound, 8);
    assert_int_equal(st.errors, 0);
    finish(&h);
}

RUN_TESTS(TEST_CASE(a_pod_is_bound_with_its_claim), TEST_CASE(a_pod_that_fits_nowhere_is_told),
          TEST_CASE(an_extended_resource_becomes_a_claim),
          TEST_CASE(a_stale_allocation_is_given_up), TEST_CASE(many_pods_share_a_claim))
