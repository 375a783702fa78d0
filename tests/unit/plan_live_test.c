// SPDX-License-Identifier: Apache-2.0
//
// Plans tell the truth: what a plan says of random pods in a random cluster (node, devices, reason) is
// what the scheduler and the controllers do on the real registry when the pods come; whom a taint is
// said to evict is whom the controller then evicts.
#include <stdlib.h>

#include "ctl/ctl.h"
#include "inproc/local.h"
#include "plan/inventory.h"
#include "plan/plan.h"
#include "plan/taint.h"
#include "registry_world.h"
#include "sched/sched.h"

#include "base/banned.h"

struct live {
    struct world *w;
    struct client *client;
    struct ctl *ctl;
    struct sched *s;
    struct rng_seeded dice;
    uint64_t seed;
    int old_pods, new_pods, nodes;
    struct sbuf manifests; // of the new pods, a document each
    struct VEC(const char *) new_json;
};

static const struct registry_user user = {.name = STR_INIT("system:kube-controller-manager")};

// How often something happened, so that the test is known to test something.
static struct {
    uint64_t placed, waiting, refused, evicted, later, stayed, fits, fewer;
} seen;

static unsigned dice(struct live *l, unsigned n)
{
    return (unsigned)(rng_u64(&l->dice.rng) % n);
}

// --- The live cluster ----------------------------------------------------------------------------

static void live_control(struct live *l, bool evict)
{
    struct ctl_options o = {
        .client = l->client, .exec = exec_sim_exec(l->w->sim), .features = &l->w->features};
    for (unsigned i = 0; i < CTL_CONTROLLERS; i++)
        o.off[i] =
            i != CTL_CLAIMS && i != CTL_QUOTAS && i != CTL_VOLUMES && !(evict && i == CTL_TAINTS);
    l->ctl = ctl_new(&o);
    ctl_start(l->ctl);
    world_pass(l->w, 5);
}

static void live_schedule(struct live *l)
{
    static const struct str name = STR_INIT("default-scheduler");
    // No agent ends pods here: a victim would never leave. Plans do not preempt either.
    l->s = sched_new(&(struct sched_options){.client = l->client,
                                             .names = &name,
                                             .names_len = 1,
                                             .features = &l->w->features,
                                             .preemption = SCHED_PREEMPTION_OFF});
    sched_start(l->s);
    world_pass(l->w, 120);
}

static void live_stop(struct live *l)
{
    sched_free(l->s);
    ctl_free(l->ctl);
    l->s = NULL;
    l->ctl = NULL;
    world_run(l->w);
}

// JSON is written with single quotes for double ones. NULL when the server refuses it.
static struct reply *live_create(struct live *l, const char *version, const char *kind,
                                 const char *namespace, struct sbuf *text)
{
    for (size_t i = 0; i < text->n; i++)
        if (text->p[i] == '\'')
            text->p[i] = '"';
    return do_create(l->w, (struct target){version, kind, "", namespace, ""}, text->p);
}

static void live_must(struct live *l, const char *version, const char *kind, const char *namespace,
                      struct sbuf *text)
{
    struct reply *r = live_create(l, version, kind, namespace, text);
    if (r->code < 0)
        fail_msg("%s: %s", text->p, r->message);
}

// --- Random objects ------------------------------------------------------------------------------

static void random_node(struct live *l, int i)
{
    cleanup_sbuf struct sbuf b = {0};
    sbuf_addf(&b,
              "{'metadata':{'name':'n%02d','labels':{'kubernetes.io/hostname':'n%02d','zone':'z%u',"
              "'disk':'%s'}},'spec':{%s%s},'status':{'allocatable':{'cpu':'%u','memory':'%uGi',"
              "'pods':'%u'%s},'capacity':{'cpu':'16','memory':'64Gi','pods':'20'%s}}}",
              i, i, dice(l, 3), dice(l, 2) ? "ssd" : "hdd",
              dice(l, 8) ? "" : "'unschedulable':true,",
              dice(l, 5) ? "'taints':[]"
              : dice(l, 3)
                  ? "'taints':[{'key':'dedicated','value':'ml','effect':'NoSchedule'}]"
                  : "'taints':[{'key':'node.kubernetes.io/not-ready','effect':'NoExecute'}]",
              2 + dice(l, 8), 4 + dice(l, 28), 2 + dice(l, 8), dice(l, 3) ? "" : ",'x.io/y':'2'",
              dice(l, 3) ? "" : ",'x.io/y':'2'");
    live_must(l, "v1", "Node", "", &b);
}

static void random_slice(struct live *l, int i)
{
    cleanup_sbuf struct sbuf b = {0};
    unsigned devices = 1 + dice(l, 4);
    if (!dice(l, 6))
        return;
    sbuf_addf(&b,
              "{'metadata':{'name':'s%02d'},'spec':{'driver':'drv.io','nodeName':'n%02d','pool':{"
              "'name':'n%02d','generation':1,'resourceSliceCount':1},'devices':[",
              i, i, i);
    for (unsigned k = 0; k < devices; k++)
        sbuf_addf(&b, "%s{'name':'d%u','attributes':{'drv.io/numa':{'int':%u}}%s}", k ? "," : "", k,
                  k / 2,
                  dice(l, 10) ? ""
                              : ",'taints':[{'key':'sick','value':'yes','effect':'NoSchedule'}]");
    sbuf_addz(&b, "]}}");
    live_must(l, "resource.k8s.io/v1", "ResourceSlice", "", &b);
}

static void random_template(struct live *l, int i)
{
    static const char *const tolerations[] = {
        "", ",'tolerations':[{'key':'sick','operator':'Exists'}]",
        ",'tolerations':[{'operator':'Exists','effect':'NoExecute'}]",
        ",'tolerations':[{'key':'k','operator':'Exists'}]",
        (",'tolerations':[{'key':'k','operator':'Equal','value':'v','effect':'NoExecute',"
         "'tolerationSeconds':300}]")};
    cleanup_sbuf struct sbuf b = {0};
    sbuf_addf(&b,
              "{'metadata':{'name':'t%d','namespace':'default'},'spec':{'spec':{'devices':{"
              "'requests':[{'name':'r','exactly':{'deviceClassName':'gpu','allocationMode':"
              "'ExactCount','count':%u%s}}]%s}}}}",
              i, 1 + dice(l, 2), tolerations[dice(l, array_len(tolerations))],
              dice(l, 4) ? "" : ",'constraints':[{'matchAttribute':'drv.io/numa'}]");
    live_must(l, "resource.k8s.io/v1", "ResourceClaimTemplate", "default", &b);
}

static void random_pod(struct live *l, const char *name, bool old, struct sbuf *out)
{
    char cpu[32] = "";
    if (dice(l, 8))
        (void)snprintf(cpu, sizeof(cpu), "'cpu':'%u00m',", 1 + dice(l, old ? 10 : 40));
    sbuf_addf(out,
              "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'%s','namespace':'default',"
              "'labels':{'app':'a%u'}},'spec':{'schedulerName':'default-scheduler','containers':[{"
              "'name':'c','image':'i','resources':{'requests':{%s'memory':'%uGi'}%s}%s}]",
              name, dice(l, 3), cpu, 1 + dice(l, 8),
              !dice(l, 8)   ? ",'limits':{'x.io/y':'1'}"
              : !dice(l, 8) ? ",'limits':{'drv.io/gpu':'1'}"
                            : "",
              dice(l, 8) ? "" : ",'ports':[{'containerPort':80,'hostPort':80}]");
    if (dice(l, 3))
        sbuf_addf(out, ",'resourceClaims':[{'name':'gen','resourceClaimTemplateName':'t%u'}]",
                  dice(l, 4));
    else if (!dice(l, 4))
        sbuf_addf(out, ",'resourceClaims':[{'name':'one','resourceClaimName':'shared%u'}]",
                  dice(l, 3));
    if (!dice(l, 4))
        sbuf_addz(out, ",'nodeSelector':{'disk':'ssd'}");
    if (!dice(l, 3))
        sbuf_addz(out, ",'tolerations':[{'key':'dedicated','operator':'Exists'}]");
    if (!dice(l, 5))
        sbuf_addf(out,
                  ",'affinity':{'podAntiAffinity':{'requiredDuringSchedulingIgnoredDuringExecution'"
                  ":[{'topologyKey':'zone','labelSelector':{'matchLabels':{'app':'a%u'}}}]}}",
                  dice(l, 3));
    if (!dice(l, 5))
        sbuf_addf(out,
                  ",'topologySpreadConstraints':[{'maxSkew':1,'topologyKey':'zone',"
                  "'whenUnsatisfiable':'DoNotSchedule','labelSelector':{'matchLabels':{'app':'a%u'"
                  "}}}]",
                  dice(l, 3));
    if (!dice(l, 6))
        sbuf_addz(out, ",'volumes':[{'name':'v','persistentVolumeClaim':{'claimName':'nope'}}]");
    if (!dice(l, 6))
        sbuf_addf(out, ",'runtimeClassName':'%s'", dice(l, 4) ? "vm" : "nope");
    if (!dice(l, 4))
        sbuf_addf(out, ",'priorityClassName':'%s'", dice(l, 2) ? "high" : "low");
    sbuf_addz(out, "}}");
}

static void random_cluster(struct live *l)
{
    static const char *const prepared[][3] = {
        {"resource.k8s.io/v1", "DeviceClass",
         "{'metadata':{'name':'gpu'},'spec':{'extendedResourceName':'drv.io/gpu','selectors':"
         "[{'cel':{'expression':'device.driver == \\'drv.io\\''}}]}}"},
        {"scheduling.k8s.io/v1", "PriorityClass", "{'metadata':{'name':'high'},'value':1000}"},
        {"scheduling.k8s.io/v1", "PriorityClass", "{'metadata':{'name':'low'},'value':-5}"},
        {"node.k8s.io/v1", "RuntimeClass",
         "{'metadata':{'name':'vm'},'handler':'vm','overhead':{'podFixed':{'cpu':'1','memory':'1Gi'"
         "}},"
         "'scheduling':{'nodeSelector':{'zone':'z1'},'tolerations':[{'key':'dedicated','operator':"
         "'Exists'}]}}"},
    };
    for (size_t i = 0; i < array_len(prepared); i++) {
        cleanup_sbuf struct sbuf b = {0};
        sbuf_addz(&b, prepared[i][2]);
        live_must(l, prepared[i][0], prepared[i][1], "", &b);
    }
    l->nodes = 2 + (int)dice(l, 6);
    for (int i = 0; i < l->nodes; i++) {
        random_node(l, i);
        random_slice(l, i);
    }
    for (int i = 0; i < 4; i++)
        random_template(l, i);
    for (int i = 0; i < 2; i++) {
        cleanup_sbuf struct sbuf b = {0};
        sbuf_addf(&b,
                  "{'metadata':{'name':'shared%d','namespace':'default'},'spec':{'devices':{"
                  "'requests':[{'name':'r','exactly':{'deviceClassName':'gpu','allocationMode':"
                  "'ExactCount','count':1}}]}}}",
                  i);
        live_must(l, "resource.k8s.io/v1", "ResourceClaim", "default", &b);
    }
    if (!dice(l, 4)) {
        cleanup_sbuf struct sbuf b = {0};
        sbuf_addf(&b,
                  "{'metadata':{'name':'q','namespace':'default'},'spec':{'hard':{'pods':'%u',"
                  "'gpu.deviceclass.resource.k8s.io/devices':'%u'}}}",
                  4 + dice(l, 6), 3 + dice(l, 6));
        live_must(l, "v1", "ResourceQuota", "default", &b);
    }
    if (!dice(l, 4)) {
        cleanup_sbuf struct sbuf b = {0};
        sbuf_addz(
            &b, "{'metadata':{'name':'lr','namespace':'default'},'spec':{'limits':[{'type':"
                "'Container','defaultRequest':{'cpu':'2','memory':'2Gi'},'min':{'cpu':'300m'}}]}}");
        live_must(l, "v1", "LimitRange", "default", &b);
    }
}

static void random_start(struct live *l, uint64_t seed)
{
    *l = (struct live){.seed = seed};
    rng_seeded_init(&l->dice, seed);
    l->w = world_new();
    l->client = local_client_new(l->w->registry, exec_sim_exec(l->w->sim), &user);
    random_cluster(l);
    live_control(l, false);
    l->old_pods = (int)dice(l, 6);
    for (int i = 0; i < l->old_pods; i++) {
        cleanup_sbuf struct sbuf b = {0};
        char name[32];
        (void)snprintf(name, sizeof(name), "a%02d", i);
        random_pod(l, name, true, &b);
        (void)live_create(l, "v1", "Pod", "default", &b); // a quota may refuse it
    }
    world_pass(l->w, 5);
    live_schedule(l);
}

static void live_end(struct live *l)
{
    live_stop(l);
    client_free(l->client);
    world_run(l->w);
    world_free(l->w);
    for (size_t i = 0; i < l->new_json.n; i++)
        free((void *)(uintptr_t)l->new_json.p[i]);
    vec_done(&l->new_json);
    sbuf_done(&l->manifests);
}

// --- The plan ------------------------------------------------------------------------------------

// live_snapshot reads everything that the store has.
static struct plan_world *live_snapshot(struct live *l)
{
    static const char *const kinds[][2] = {
        {"v1", "Namespace"},
        {"v1", "Node"},
        {"resource.k8s.io/v1", "DeviceClass"},
        {"resource.k8s.io/v1", "ResourceSlice"},
        {"resource.k8s.io/v1", "ResourceClaimTemplate"},
        {"resource.k8s.io/v1", "ResourceClaim"},
        {"scheduling.k8s.io/v1", "PriorityClass"},
        {"v1", "ResourceQuota"},
        {"v1", "LimitRange"},
        {"node.k8s.io/v1", "RuntimeClass"},
        {"v1", "Pod"},
    };
    struct plan_world *pw = plan_world_new();
    struct err err = {0};
    for (size_t i = 0; i < array_len(kinds); i++) {
        const struct api_kind *kind = api_kind_find(str_z(kinds[i][0]), str_z(kinds[i][1]));
        struct store_walk walk = {.kind = kind};
        assert_int_equal(store_walk_start(l->w->store, &walk, &err), 0);
        for (const struct object *o; (o = store_walk_next(l->w->store, &walk));) {
            cleanup_sbuf struct sbuf json = {0};
            if (registry_json(o, kind, false, &json, &err) < 0 ||
                plan_world_read(pw, STR("live"), sbuf_str(&json), &err) < 0)
                fail_msg("%s: %s", o->json.p, err.msg);
        }
        store_walk_done(&walk);
    }
    return pw;
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// Names that are generated differ: NAME-gen-x7k2p is NAME-gen.
static void plain(struct str text, struct sbuf *out)
{
    static const char *const marks[] = {"-gen-", "-extended-resources-"};
    for (size_t i = 0; i < text.n; i++) {
        bool marked = false;
        sbuf_addc(out, text.p[i]);
        for (size_t m = 0; m < array_len(marks); m++)
            marked |= str_ends(str_upto(text, i + 1), str_z(marks[m]));
        while (marked && i + 1 < text.n && is_plain(text.p[i + 1]))
            i++;
    }
}

static struct str field(const yyjson_val *root, const char *path)
{
    bool whole = false;
    const yyjson_val *v = root ? json_at_path(root, str_z(path), &whole) : NULL;
    return v && whole && json_is_string(v) ? json_str(v) : (struct str){0};
}

// The devices of a pod as the store has them: "r: d0, d1".
static void live_devices(struct live *l, const char *pod, struct sbuf *out)
{
    struct VEC(char *) claims = {0};
    (void)do_get(l->w, POD(pod));
    struct str extended =
        field(l->w->reply.doc.root, "status.extendedResourceClaimStatus.resourceClaimName");
    struct str named = field(l->w->reply.doc.root, "spec.resourceClaims[0].resourceClaimName");
    struct str made =
        field(l->w->reply.doc.root, "status.resourceClaimStatuses[0].resourceClaimName");
    const struct str names[] = {made.n ? made : named, extended};
    for (size_t i = 0; i < array_len(names); i++)
        if (names[i].n)
            vec_push(&claims, xstrndup(names[i].p, names[i].n));
    for (size_t i = 0; i < claims.n; i++) {
        (void)do_get(l->w, CLAIM(claims.p[i]));
        const yyjson_val *results = json_at_path(
            l->w->reply.doc.root, STR("status.allocation.devices.results"), &(bool){false});
        if (results && json_is_array(results))
            json_arr_foreach(results, r)
                sbuf_addf(out, "%.*s=%.*s ", STR_ARG(json_str(json_get(r, STR("request")))),
                          STR_ARG(json_str(json_get(r, STR("device")))));
        free(claims.p[i]);
    }
    vec_done(&claims);
}

static void plan_devices(const struct plan *p, size_t at, struct sbuf *out)
{
    cleanup_sbuf struct sbuf json = {0};
    cleanup_json_doc struct json_doc doc = {0};
    plan_json(p, &json);
    assert_int_equal(json_parse(sbuf_str(&json), NULL, &doc, NULL), 0);
    const yyjson_val *claims =
        json_get(json_at(json_get(doc.root, STR("steps")), at), STR("claims"));
    json_arr_foreach(claims, c) {
        const yyjson_val *results =
            json_get(json_get(json_get(c, STR("allocation")), STR("devices")), STR("results"));
        if (results && json_is_array(results))
            json_arr_foreach(results, r)
                sbuf_addf(out, "%.*s=%.*s ", STR_ARG(json_str(json_get(r, STR("request")))),
                          STR_ARG(json_str(json_get(r, STR("device")))));
    }
}

static void check_same(struct live *l, const char *pod, const char *what, struct str live,
                       struct str planned)
{
    cleanup_sbuf struct sbuf a = {0}, b = {0};
    plain(live, &a);
    plain(planned, &b);
    if (!str_eq(sbuf_str(&a), sbuf_str(&b)))
        fail_msg("seed %llu, pod %s, %s:\n live %s\n plan %s", (unsigned long long)l->seed, pod,
                 what, a.n ? a.p : "-", b.n ? b.p : "-");
}

// A pod that waits: the live scheduler and the plan's give the same cause.
static void check_waiting(struct live *l, const char *pod, const struct plan_step *s)
{
    cleanup_sbuf struct sbuf json = {0};
    cleanup_json_doc struct json_doc mine = {0}, theirs = {0};
    struct err err = {0};
    assert_int_equal(sched_explain(l->s, STR("Pod"), STR("default"), str_z(pod), &json, &err), 0);
    assert_int_equal(json_parse(sbuf_str(&json), NULL, &theirs, &err), 0);
    if (json_parse(s->why, NULL, &mine, &err) < 0)
        fail_msg("seed %llu: no explanation of %s", (unsigned long long)l->seed, pod);
    if (str_contains(s->summary, STR("is forbidden"))) {
        struct str cause = field(theirs.root, "cause");
        seen.refused++; // its claim is: of those of templates the scheduler knows only that they are not there
        if (!str_contains(cause, STR("not created yet")) && !str_contains(cause, STR("forbidden")))
            fail_msg("seed %llu, pod %s: %.*s", (unsigned long long)l->seed, pod, STR_ARG(cause));
        return;
    }
    seen.waiting++;
    check_same(l, pod, "cause", field(theirs.root, "cause"), field(mine.root, "cause"));
    check_same(l, pod, "summary", field(theirs.root, "now.summary"),
               field(mine.root, "now.summary"));
}

static size_t step_of(const struct plan *p, const char *pod)
{
    cleanup_sbuf struct sbuf name = {0};
    sbuf_addf(&name, "pod default/%s", pod);
    for (size_t i = 0; i < plan_steps(p); i++)
        if (str_eq(plan_step_at(p, i).name, sbuf_str(&name)))
            return i;
    fail_msg("the plan has no %s", name.p);
    return 0;
}

static void check_pod(struct live *l, const struct plan *p, const char *pod, bool old)
{
    size_t at = step_of(p, pod);
    struct plan_step s = plan_step_at(p, at);
    cleanup_sbuf struct sbuf mine = {0}, theirs = {0};
    (void)do_get(l->w, POD(pod));
    struct str node = arena_str(&l->w->arena, str_z(reply_field(l->w, "spec.nodeName")));
    bool placed = s.status == PLAN_PLACED || s.status == PLAN_RUNNING;
    check_same(l, pod, "node", node, placed ? s.node : STR("-"));
    if (!placed) {
        check_waiting(l, pod, &s);
        return;
    }
    seen.placed += !old;
    plan_devices(p, at, &mine);
    live_devices(l, pod, &theirs);
    check_same(l, pod, "devices", sbuf_str(&theirs), sbuf_str(&mine));
}

// --- Properties ----------------------------------------------------------------------------------

static struct plan *make_plan(struct live *l, struct plan_world *pw)
{
    struct err err = {0};
    struct plan *p = NULL;
    const struct plan_options o = {.features = &l->w->features, .clock = &l->w->clock.clock};
    l->new_pods = 1 + (int)dice(l, 8);
    for (int i = 0; i < l->new_pods; i++) {
        cleanup_sbuf struct sbuf b = {0};
        char name[32];
        (void)snprintf(name, sizeof(name), "b%02d", i);
        random_pod(l, name, false, &b);
        for (size_t k = 0; k < b.n; k++)
            if (b.p[k] == '\'')
                b.p[k] = '"';
        if (plan_world_read(pw, STR("new"), sbuf_str(&b), &err) < 0)
            fail_msg("%s: %s", b.p, err.msg);
        vec_push(&l->new_json, xstrndup(b.p, b.n));
    }
    if (plan_make(pw, &o, &p, &err) < 0)
        fail_msg("%s", err.msg);
    return p;
}

static void check_plan(uint64_t seed)
{
    struct live l;
    random_start(&l, seed);
    live_stop(&l);
    struct plan_world *pw = live_snapshot(&l);
    struct plan *p = make_plan(&l, pw);
    bool *refused = xcalloc((size_t)l.new_pods, sizeof(*refused));
    live_control(&l, false);
    for (int i = 0; i < l.new_pods; i++) {
        struct reply *r = do_create(l.w, POD(""), l.new_json.p[i]);
        char name[32];
        (void)snprintf(name, sizeof(name), "b%02d", i);
        refused[i] = r->code < 0;
        if (refused[i])
            check_same(&l, name, "refusal", str_z(r->message),
                       plan_step_at(p, step_of(p, name)).summary);
        seen.refused += refused[i];
    }
    world_pass(l.w, 5);
    live_schedule(&l);
    for (int i = 0; i < l.new_pods; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "b%02d", i);
        if (!refused[i])
            check_pod(&l, p, name, false);
    }
    free(refused);
    plan_free(p);
    plan_world_free(pw);
    live_end(&l);
}

// What a taint is said to do is what the controller then does, at once and later.
static void check_taint(uint64_t seed)
{
    struct live l;
    random_start(&l, seed);
    live_stop(&l);
    struct plan_world *pw = live_snapshot(&l);
    struct inventory *inv = NULL;
    struct err err = {0};
    struct arena arena = {0};
    struct api_device_taint_rule *rule = NULL;
    struct taint_effect e = {0};
    const struct inventory_options io = {.features = alloc_features_of(&l.w->features)};
    cleanup_sbuf struct sbuf text = {0}, body = {0};
    sbuf_addf(&text, dice(&l, 3) ? "drv.io=k=v:NoExecute" : "drv.io/n%02u=k=v:NoExecute",
              dice(&l, (unsigned)l.nodes));
    assert_int_equal(inventory_new(pw, &io, &inv, &err), 0);
    assert_int_equal(taint_parse(sbuf_str(&text), &arena, &rule, &err), 0);
    taint_find(inv, &(struct taint_rules){&rule, 1}, &l.w->clock.clock, &arena, &e);
    live_control(&l, true);
    struct str pool = rule->spec.device_selector->pool;
    sbuf_addf(&body,
              "{'metadata':{'name':'rule'},'spec':{'deviceSelector':{'driver':'drv.io'%s%.*s%s},"
              "'taint':{'key':'k','value':'v','effect':'NoExecute'}}}",
              pool.n ? ",'pool':'" : "", STR_ARG(pool), pool.n ? "'" : "");
    live_must(&l, "resource.k8s.io/v1", "DeviceTaintRule", "", &body);
    for (int later = 0; later < 2; later++) {
        world_pass(l.w, later ? 400 : 10);
        for (size_t i = 0; i < e.hits_len; i++) {
            const struct inventory_claim *c = &inv->claims[inv->holds[e.hits[i].hold].claim];
            bool goes = !e.hits[i].tolerates || (later && e.hits[i].for_a_while);
            bool any = false;
            for (size_t k = 0; k < c->claim->status.reserved_for.n; k++) {
                struct str pod = arena_str(&arena, c->claim->status.reserved_for.p[k].name);
                struct reply *r = do_get(l.w, POD(pod.p));
                any |= !r->doc.root || str_z(reply_field(l.w, "metadata.deletionTimestamp")).n > 1;
            }
            if (any != goes)
                fail_msg("seed %llu: claim %.*s: the plan says %s, the controller %s",
                         (unsigned long long)seed, STR_ARG(c->name), goes ? "evicted" : "stays",
                         any ? "evicted" : "stays");
            seen.evicted += any && !later;
            seen.later += any && later && e.hits[i].for_a_while;
            seen.stayed += !any;
        }
    }
    inventory_free(inv);
    arena_done(&arena);
    plan_world_free(pw);
    live_end(&l);
}

// --- Free ----------------------------------------------------------------------------------------

// live_fill creates pods with a claim for one device of the class until the live scheduler leaves
// one waiting. Returns how many it has placed.
static size_t live_fill(struct live *l, const char *prefix, const char *tolerations)
{
    size_t placed = 0;
    for (bool fits = true; fits && placed < 100; placed += fits) {
        cleanup_sbuf struct sbuf claim = {0}, pod = {0};
        char name[32];
        (void)snprintf(name, sizeof(name), "%s%zu", prefix, placed);
        sbuf_addf(&claim,
                  "{'metadata':{'name':'%s','namespace':'fill'},'spec':{'devices':{'requests':"
                  "[{'name':'r','exactly':{'deviceClassName':'gpu'}}]}}}",
                  name);
        sbuf_addf(&pod,
                  "{'metadata':{'name':'%s','namespace':'fill'},'spec':{'containers':[{'name':'c',"
                  "'image':'i'}],'tolerations':[%s],"
                  "'resourceClaims':[{'name':'c','resourceClaimName':'%s'}]}}",
                  name, tolerations, name);
        live_must(l, "resource.k8s.io/v1", "ResourceClaim", "fill", &claim);
        live_must(l, "v1", "Pod", "fill", &pod);
        world_pass(l->w, 5);
        (void)do_get(l->w, (struct target){"v1", "Pod", "", "fill", name});
        fits = str_z(reply_field(l->w, "spec.nodeName")).n > 1;
    }
    return placed;
}

// live_delete_waiting: a pod that is retried, because a quota refuses its second claim, holds the
// devices of its first one for moments; how many fit then depends on the moment.
static void live_delete_waiting(struct live *l)
{
    for (int i = 0; i < l->old_pods; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "a%02d", i);
        if (do_get(l->w, POD(name))->code == 0 && str_z(reply_field(l->w, "spec.nodeName")).n <= 1)
            (void)do_delete(l->w, POD(name), NULL);
    }
    world_pass(l->w, 60);
}

// So many claims as `dray free` says fit does the scheduler then serve, and no more.
static void check_free(uint64_t seed)
{
    struct live l;
    random_start(&l, seed);
    live_delete_waiting(&l);
    live_stop(&l);
    struct plan_world *pw = live_snapshot(&l);
    struct arena arena = {0};
    struct inventory *inv = NULL;
    struct free_answer a = {0};
    struct err err = {0};
    cleanup_sbuf struct sbuf b = {0};
    const struct free_question q = {.class_name = STR("gpu")};
    if (free_find(pw, &q, &l.w->features, &arena, &inv, &a, &err) < 0)
        fail_msg("%s", err.msg);
    sbuf_addz(&b, "{'metadata':{'name':'fill'}}");
    live_must(&l, "v1", "Namespace", "", &b);
    live_control(&l, false);
    live_schedule(&l);
    size_t placed = live_fill(&l, "fill", "");
    if (placed != a.total.fits || a.total.more)
        fail_msg("seed %llu: %zu fit, the scheduler places %zu", (unsigned long long)seed,
                 a.total.fits, placed);
    placed += live_fill(&l, "tolerant", "{'key':'dedicated','operator':'Exists'}");
    if (placed != a.total.fits_tolerant)
        fail_msg("seed %llu: %zu tolerant ones fit, the scheduler places %zu",
                 (unsigned long long)seed, a.total.fits_tolerant, placed);
    seen.fits += placed;
    seen.fewer += placed < a.total.states[INVENTORY_FREE];
    inventory_free(inv);
    arena_done(&arena);
    plan_world_free(pw);
    live_end(&l);
}

// PLAN_SEEDS is FIRST-LAST.
static void seeds_of(uint64_t *first, uint64_t *last)
{
    const char *range = getenv("PLAN_SEEDS"); // NOLINT(concurrency-mt-unsafe): nothing sets it
    struct str a, b;
    if (!range)
        return;
    assert_true(str_cut(str_z(range), '-', &a, &b));
    assert_int_equal(str_to_u64(a, first), 0);
    assert_int_equal(str_to_u64(b, last), 0);
}

static void plans_come_true(void **state)
{
    (void)state;
    uint64_t first = 1, last = 200;
    seeds_of(&first, &last);
    for (uint64_t seed = first; seed <= last; seed++)
        check_plan(seed);
    print_message("%llu placed, %llu waiting, %llu refused\n", (unsigned long long)seen.placed,
                  (unsigned long long)seen.waiting, (unsigned long long)seen.refused);
    assert_true(last - first < 99 || (seen.placed && seen.waiting && seen.refused));
}

static void taints_evict_whom_they_are_said_to(void **state)
{
    (void)state;
    uint64_t first = 1, last = 150;
    seeds_of(&first, &last);
    for (uint64_t seed = first; seed <= last; seed++)
        check_taint(seed);
    print_message("%llu evicted, %llu later, %llu stayed\n", (unsigned long long)seen.evicted,
                  (unsigned long long)seen.later, (unsigned long long)seen.stayed);
    assert_true(last - first < 99 || (seen.evicted && seen.later && seen.stayed));
}

static void as_many_fit_as_free_says(void **state)
{
    (void)state;
    uint64_t first = 1, last = 150;
    seeds_of(&first, &last);
    for (uint64_t seed = first; seed <= last; seed++)
        check_free(seed);
    print_message("%llu fit; fewer than devices are free in %llu clusters\n",
                  (unsigned long long)seen.fits, (unsigned long long)seen.fewer);
    assert_true(last - first < 99 || (seen.fits && seen.fewer));
}

RUN_TESTS(TEST_CASE(plans_come_true), TEST_CASE(taints_evict_whom_they_are_said_to),
          TEST_CASE(as_many_fit_as_free_says))
