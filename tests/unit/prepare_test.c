// SPDX-License-Identifier: Apache-2.0
//
// Feature gates; what preparation drops, keeps and resets; the interfaces to CEL and authorization.
#include "validate_cases.h"

#include "base/banned.h"

// --- Feature gates -------------------------------------------------------------------------------

static void test_defaults(void **state)
{
    (void)state;
    struct features f;
    features_init(&f, 37);
    assert_true(features_on(&f, FEATURE_DRA_DEVICE_TAINT_RULES));
    assert_false(features_on(&f, FEATURE_DRA_LIST_TYPE_ATTRIBUTES));
    assert_false(features_on(&f, FEATURE_DRA_FRACTIONAL_CAPACITY_RANGE));
    assert_int_equal(features_check_dependencies(&f, NULL), 0);
    features_init(&f, 35);
    assert_false(features_on(&f, FEATURE_DRA_CONSUMABLE_CAPACITY));
    assert_false(features_on(&f, FEATURE_DECLARATIVE_VALIDATION_BETA));
    assert_true(features_on(&f, FEATURE_DRA_ADMIN_ACCESS));
    features_init(&f, 33);
    assert_false(features_on(&f, FEATURE_DYNAMIC_RESOURCE_ALLOCATION));
    bool locked;
    assert_int_equal(feature_stage_in(FEATURE_DRA_ADMIN_ACCESS, 34, &locked), FEATURE_BETA);
    assert_false(locked);
    assert_int_equal(feature_stage_in(FEATURE_DRA_ADMIN_ACCESS, 37, &locked), FEATURE_GA);
    assert_true(locked);
    assert_int_equal(feature_stage_in(FEATURE_DRA_DERIVED_ATTRIBUTES, 36, NULL), FEATURE_ABSENT);
}

static void test_parse(void **state)
{
    (void)state;
    struct features f;
    struct err err = {0};
    features_init(&f, 37);
    assert_int_equal(features_parse(&f, STR("AllAlpha=true, DRAListTypeAttributes=false"), &err),
                     0);
    assert_true(features_on(&f, FEATURE_DRA_DERIVED_ATTRIBUTES));
    assert_false(features_on(&f, FEATURE_DRA_LIST_TYPE_ATTRIBUTES));
    assert_int_equal(features_parse(&f, STR("NoSuch=true"), &err), -ERR_NOT_FOUND);
    assert_int_equal(features_parse(&f, STR("DRAAdminAccess=false"), &err), -ERR_INVALID);
    assert_non_null(strstr(err.msg, "locked to true"));
    assert_int_equal(features_parse(&f, STR("DRAAdminAccess=true"), &err), 0);
    assert_int_equal(features_parse(&f, STR("DRADeviceTaints"), &err), -ERR_INVALID);
    assert_int_equal(features_parse(&f, STR("DRADeviceTaints=maybe"), &err), -ERR_INVALID);
    features_init(&f, 36);
    assert_int_equal(features_parse(&f, STR("DRADerivedAttributes=true"), &err), -ERR_NOT_FOUND);
    assert_int_equal(features_parse(&f, STR("DRADeviceTaints=false"), &err), 0);
    assert_int_equal(features_parse(&f, STR("DRADeviceTaintRules=true"), &err), 0);
    assert_int_equal(features_check_dependencies(&f, &err), -ERR_INVALID);
    assert_non_null(
        strstr(err.msg, "DRADeviceTaintRules is enabled, but depends on DRADeviceTaints"));
}

static void test_versions(void **state)
{
    (void)state;
    uint32_t minor = 0;
    assert_int_equal(features_parse_version(STR("1.35"), &minor, NULL), 0);
    assert_int_equal(minor, 35);
    assert_int_equal(features_parse_version(STR("v1.36.2"), &minor, NULL), 0);
    assert_int_equal(minor, 36);
    static const char *const bad[] = {"", "1", "2.36", "1.38", "1.25", "1.x", "1.-3"};
    for (size_t i = 0; i < array_len(bad); i++)
        assert_int_equal(features_parse_version(str_z(bad[i]), &minor, NULL), -ERR_INVALID);
}

// --- Preparation ---------------------------------------------------------------------------------

struct prepared {
    const char *title, *version, *kind;
    enum api_op op;
    uint32_t minor;
    const char *gates, *object, *old;
    const char *has, *lacks; // texts in the JSON of the result; NULL: none
};

static void check_prepared(const struct prepared *p)
{
    struct run r;
    run_start(&r, p->version, p->kind, NULL);
    features_init(&r.features, p->minor ? p->minor : 37);
    assert_int_equal(features_parse(&r.features, str_z(p->gates), NULL), 0);
    r.rules.now = (struct api_time){.at = {.sec = 1767225600, .nsec = 5}, .set = true};
    run_decode(&r, p->object, &r.object);
    if (p->old)
        run_decode(&r, p->old, &r.old);
    api_prepare(p->op, &r.object, p->old ? &r.old : NULL, &r.rules, &r.arena);
    struct str text = run_object(&r);
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] == '"')
            ((char *)(uintptr_t)text.p)[i] = '\'';
    if ((p->has && !str_contains(text, str_z(p->has))) ||
        (p->lacks && str_contains(text, str_z(p->lacks))))
        fail_msg("%s: %.*s", p->title, STR_ARG(text));
    arena_done(&r.arena);
}

#define CLAIM(request, rest) \
    "{'metadata':{'name':'a'},'spec':{'devices':{'requests':[{'name':'r'," request "}]" rest "}}}"
#define TOLERANT     "'exactly':{'deviceClassName':'c','tolerations':[{'operator':'Exists'}]}"
#define PLAIN        "'exactly':{'deviceClassName':'c'}"
#define DEVICE(rest) "{'metadata':{'name':'s'},'spec':{'devices':[{'name':'x'," rest "}]}}"

static void test_drop(void **state)
{
    (void)state;
    static const struct prepared cases[] = {
        {"tolerations go", "v1", "ResourceClaim", API_CREATE, 35, "", CLAIM(TOLERANT, ""), NULL,
         NULL, "tolerations"},
        {"and come with the gate", "v1", "ResourceClaim", API_CREATE, 35, "DRADeviceTaints=true",
         CLAIM(TOLERANT, ""), NULL, "tolerations", NULL},
        {"in use they stay", "v1", "ResourceClaimTemplate", API_UPDATE, 35, "",
         "{'spec':{'spec':{'devices':{'requests':[{'name':'r'," TOLERANT "}]}}}}",
         "{'spec':{'spec':{'devices':{'requests':[{'name':'r'," TOLERANT "}]}}}}", "tolerations",
         NULL},
        {"not in use they go", "v1", "ResourceClaim", API_UPDATE, 35, "", CLAIM(TOLERANT, ""),
         CLAIM(PLAIN, ""), NULL, "tolerations"},
        {"alternatives", "v1", "ResourceClaim", API_CREATE, 33, "DRAPrioritizedList=false",
         CLAIM("'firstAvailable':[{'name':'s','deviceClassName':'c'}]", ""), NULL, NULL,
         "firstAvailable"},
        {"admin access", "v1", "ResourceClaim", API_CREATE, 34, "DRAAdminAccess=false",
         CLAIM("'exactly':{'deviceClassName':'c','adminAccess':true}", ""), NULL, NULL,
         "adminAccess"},
        {"capacity", "v1beta1", "ResourceClaim", API_CREATE, 35, "",
         CLAIM("'deviceClassName':'c','capacity':{'requests':{'m':'1'}}",
               ",'constraints':[{'distinctAttribute':'d.io/a'}]"),
         NULL, "'constraints':[{}]", "capacity"},
        {"derived attributes", "v1", "ResourceClaim", API_CREATE, 37, "",
         CLAIM("'exactly':{'deviceClassName':'c','derivedAttributes':[{'name':'a'}]}", ""), NULL,
         NULL, "derivedAttributes"},
        {"lists in attributes", "v1", "ResourceSlice", API_CREATE, 37, "",
         DEVICE("'attributes':{'a':{'ints':[1]},'b':{'int':2}}"), NULL, "'a':{},'b':{'int':2}",
         "ints"},
        {"lists in attributes, in use", "v1", "ResourceSlice", API_UPDATE, 37, "",
         DEVICE("'attributes':{'a':{'ints':[1]}}"), DEVICE("'attributes':{'a':{'ints':[2]}}"),
         "'ints':[1]", NULL},
        {"partitions", "v1", "ResourceSlice", API_CREATE, 35, "",
         "{'spec':{'perDeviceNodeSelection':true,'sharedCounters':[{'name':'c'}],'devices':[{"
         "'name':'x','allNodes':true,'consumesCounters':[{'counterSet':'c'}]}]}}",
         NULL, "'devices':[{'name':'x'}]", "ounters"},
        {"binding conditions need both gates", "v1", "ResourceSlice", API_CREATE, 36,
         "DRAResourceClaimDeviceStatus=false",
         DEVICE("'bindsToNode':true,'bindingConditions':['a'],'bindingFailureConditions':['b']"),
         NULL, NULL, "bind"},
        {"shared capacity", "v1", "ResourceSlice", API_CREATE, 35, "",
         DEVICE(
             "'allowMultipleAllocations':true,'capacity':{'m':{'value':'1','requestPolicy':{}}}"),
         NULL, "'m':{'value':'1'}", "allow"},
        {"groups", "v1", "ResourceSlice", API_CREATE, 37, "",
         DEVICE("'consumesCounters':[{'counterSet':'c','compatibilityGroups':['g']}]"), NULL,
         "consumesCounters", "compatibilityGroups"},
        {"node resources", "v1", "ResourceSlice", API_CREATE, 37, "",
         DEVICE("'nodeAllocatableResources':{'cpu':{}}"), NULL, NULL, "nodeAllocatable"},
        {"extended resource", "v1", "DeviceClass", API_CREATE, 35, "",
         "{'spec':{'extendedResourceName':'d.io/x'}}", NULL, NULL, "extended"},
        {"partition type", "v1alpha3", "ResourcePoolStatusRequest", API_CREATE, 37, "",
         "{'spec':{'driver':'d','defaultPartitionTypeAttribute':'d.io/t'}}", NULL, "'limit':100",
         "PartitionType"},
    };
    for (size_t i = 0; i < array_len(cases); i++)
        check_prepared(&cases[i]);
}

#define RULE(meta, effect)                                                               \
    "{'metadata':" meta ",'spec':{'taint':{'key':'k','effect':'" effect "','timeAdded':" \
    "'2025-01-01T00:00:00Z'}},'status':{'conditions':[]}}"
#define STATUS(results, devices)                                                                 \
    "{'metadata':{'name':'a','labels':{'x':'1'}},'spec':{'devices':{}},'status':{'allocation':{" \
    "'devices':{'results':[" results "]}},'devices':[" devices "]}}"
#define X "{'request':'r','driver':'d','pool':'p','device':'x'}"
#define Y "{'request':'r','driver':'d','pool':'p','device':'y'}"

static void test_reset(void **state)
{
    (void)state;
    static const struct prepared cases[] = {
        {"a new claim has no status", "v1", "ResourceClaim", API_CREATE, 37, "",
         "{'spec':{'devices':{}},'status':{'reservedFor':[{'uid':'1'}]}}", NULL, NULL,
         "reservedFor"},
        {"an update keeps the status", "v1", "ResourceClaim", API_UPDATE, 37, "",
         "{'spec':{'devices':{}}}",
         "{'spec':{'devices':{}},'status':{'reservedFor':[{'uid':'1'}]}}", "reservedFor", NULL},
        {"a status update keeps the spec and labels", "v1", "ResourceClaim", API_STATUS_UPDATE, 37,
         "", "{'metadata':{'labels':{'x':'2'}},'spec':{'devices':{'requests':[]}}}",
         "{'metadata':{'labels':{'x':'1'}},'spec':{'devices':{'requests':[{'name':'r'}]}}}",
         "'labels':{'x':'1'}},'spec':{'devices':{'requests':[{'name':'r'}]}}", NULL},
        {"status of a device goes with the device", "v1", "ResourceClaim", API_STATUS_UPDATE, 37,
         "",
         STATUS(Y, "{'driver':'d','pool':'p','device':'x'},{'driver':'d','pool':'p','device':'y'}"),
         STATUS(X "," Y, ""), "'devices':[{'driver':'d','pool':'p','device':'y'", "'device':'x'"},
        {"first generation", "v1", "DeviceClass", API_CREATE, 37, "",
         "{'metadata':{'generation':7}}", NULL, "'generation':1", NULL},
        {"next generation", "v1", "ResourceSlice", API_UPDATE, 37, "",
         "{'metadata':{'generation':99},'spec':{'driver':'e'}}",
         "{'metadata':{'generation':4},'spec':{'driver':'d'}}", "'generation':5", NULL},
        {"same generation", "v1", "ResourceSlice", API_UPDATE, 37, "",
         "{'metadata':{'generation':99},'spec':{'driver':'d'}}",
         "{'metadata':{'generation':4},'spec':{'driver':'d'}}", "'generation':4", NULL},
        {"another effect begins now", "v1", "DeviceTaintRule", API_UPDATE, 37, "",
         RULE("{}", "NoExecute"), RULE("{}", "None"), "'timeAdded':'2026-01-01T00:00:00Z'", NULL},
        {"the same effect began when it began", "v1", "DeviceTaintRule", API_UPDATE, 37, "",
         RULE("{'labels':{'a':'b'}}", "None"), RULE("{}", "None"),
         "'timeAdded':'2025-01-01T00:00:00Z'", NULL},
        {"what the server gave stays", "v1", "DeviceClass", API_UPDATE, 37, "", "{'metadata':{}}",
         "{'metadata':{'uid':'1','creationTimestamp':'2025-01-01T00:00:00Z','deletionTimestamp':"
         "'2025-01-02T00:00:00Z','deletionGracePeriodSeconds':3}}",
         "'uid':'1','creationTimestamp':'2025-01-01T00:00:00Z','deletionTimestamp':"
         "'2025-01-02T00:00:00Z','deletionGracePeriodSeconds':3",
         NULL},
        {"status update of a pod", "core", "Pod", API_STATUS_UPDATE, 37, "",
         "{'spec':{'nodeName':'m'},'status':{'reason':'R'}}", "{'spec':{'nodeName':'n'}}",
         "'nodeName':'n'", "'nodeName':'m'"},
    };
    for (size_t i = 0; i < array_len(cases); i++)
        check_prepared(&cases[i]);
}

// --- CEL -----------------------------------------------------------------------------------------

static void fake_cel(void *ctx, const struct api_cel_question *q, struct arena *arena,
                     struct api_cel_answer *ret)
{
    (void)arena;
    ++*(size_t *)ctx;
    if (str_eqz(q->expression, "bad"))
        *ret = (struct api_cel_answer){API_CEL_INVALID, STR("compilation failed"), 0};
    else if (str_eqz(q->expression, "broken"))
        *ret = (struct api_cel_answer){API_CEL_INTERNAL, STR("oops"), 0};
    else
        ret->max_cost = str_eqz(q->expression, "dear") ? 1000001
                        : q->derived_attribute         ? 600000
                                                       : 1;
}

#define SELECT(e) "{'cel':{'expression':'" e "'}}"

static void test_cel(void **state)
{
    (void)state;
    struct run r;
    size_t calls = 0;
    struct api_cel cel = {fake_cel, &calls};
    const char *class_ =
        "{'metadata':{'name':'a','resourceVersion':'1'},'spec':{'selectors':[" SELECT(
            "good") "," SELECT("bad") "," SELECT("broken") "," SELECT("dear") "]}}";
    run_start(&r, "v1", "DeviceClass", "");
    r.rules.cel = &cel;
    run_go(&r, API_CREATE, class_, NULL);
    run_expect(
        &r, "class",
        "Invalid spec.selectors[1].cel.expression: Invalid value: 'bad': compilation failed\n"
        "InternalError spec.selectors[2].cel.expression: Internal error: oops\n"
        "Forbidden spec.selectors[3].cel.expression: Forbidden: too complex, exceeds cost "
        "limit");
    assert_int_equal(calls, 4);
    arena_done(&r.arena);

    // What is stored already is not compiled again.
    run_start(&r, "v1", "DeviceClass", "");
    r.rules.cel = &cel;
    run_go(&r, API_UPDATE, class_, class_);
    run_expect(&r, "stored", "");
    assert_int_equal(calls, 4);
    arena_done(&r.arena);

    run_start(&r, "v1", "ResourceClaim", "DRADerivedAttributes=true");
    r.rules.cel = &cel;
    run_go(&r, API_CREATE,
           "{'metadata':{'name':'a','namespace':'n'},'spec':{'devices':{'requests':[{'name':'r',"
           "'exactly':{'deviceClassName':'c','derivedAttributes':[{'name':'d.io/a','expression':"
           "'x'},{'name':'d.io/b','expression':'y'}]}}],'constraints':[{'matchAttribute':'d.io/a'},"
           "{'matchAttribute':'d.io/b'}]}}}",
           NULL);
    run_expect(&r, "sum of costs",
               "Forbidden spec.devices: Forbidden: too complex, total cost of derived attribute");
    arena_done(&r.arena);
}

// --- Access --------------------------------------------------------------------------------------

static void test_admin(void **state)
{
    (void)state;
    struct run r;
    run_start(&r, "v1", "ResourceClaimTemplate", "");
    r.rules.admin_namespace = false;
    run_go(&r, API_CREATE,
           "{'metadata':{'name':'a','namespace':'n'},'spec':{'spec':{'devices':{'requests':[{"
           "'name':'r','exactly':{'deviceClassName':'c','adminAccess':true}}]}}}}",
           NULL);
    run_expect(&r, "admin",
               "Forbidden spec.devices.requests[0].adminAccess: Forbidden: admin access to devices "
               "requires the `resource.kubernetes.io/admin-access: true` label");
    arena_done(&r.arena);
}

// Allows what stands in ctx as "verb subresource name".
static bool fake_authorizer(void *ctx, const struct api_authz_question *q, struct arena *arena,
                            struct str *ret_reason)
{
    struct str asked = arena_strf(arena, "%.*s %.*s %.*s", STR_ARG(q->verb),
                                  STR_ARG(q->subresource), STR_ARG(q->name));
    *ret_reason = STR("denied");
    return str_eqz(asked, ctx);
}

#define NODE                                                                                       \
    "'nodeSelector':{'nodeSelectorTerms':[{'matchFields':[{'key':'metadata.name','operator':'In'," \
    "'values':['n1']}]}]}"
#define ALLOCATED(devices)                                                                   \
    "{'metadata':{'name':'a','namespace':'ns','resourceVersion':'1'},'spec':{'devices':{"    \
    "'requests':[{'name':'r','exactly':{'deviceClassName':'c'}}]}},'status':{'allocation':{" \
    "'devices':{'results':[" X "]}," NODE "},'devices':[" devices "]}}"

static void check_access(const char *allowed, const char *user, const char *node,
                         const char *object, const char *want)
{
    struct run r;
    char text[64];
    (void)snprintf(text, sizeof(text), "%s", allowed);
    struct api_authorizer authorizer = {fake_authorizer, text};
    run_start(&r, "v1", "ResourceClaim", "");
    r.rules.authorizer = &authorizer;
    r.rules.requester = (struct api_requester){str_z(user), str_z(node), STR("update")};
    run_go(&r, API_STATUS_UPDATE, object, ALLOCATED(""));
    run_expect(&r, allowed, want);
    arena_done(&r.arena);
}

static void test_status_access(void **state)
{
    (void)state;
    const char *status = ALLOCATED("{'driver':'d','pool':'p','device':'x'}");
    const char *account = "system:serviceaccount:kube-system:driver";
    check_access("arbitrary-node:update driver d", "me", "", status, "");
    check_access("associated-node:update driver d", account, "n1", status, "");
    check_access("associated-node:update driver d", account, "n2", status,
                 "Forbidden status.devices: Forbidden: changing status.devices requires "
                 "resource='resourceclaims/driver', verb='[arbitrary-node:update]' permission: "
                 "resourceclaims.resource.k8s.io 'd' is forbidden: User "
                 "'system:serviceaccount:kube-system:driver' cannot arbitrary-node:update resource "
                 "'resourceclaims/driver' in API group 'resource.k8s.io' in the namespace 'ns': "
                 "denied");
    check_access("nothing", account, "n1", status,
                 "Forbidden status.devices: Forbidden: changing status.devices requires "
                 "resource='resourceclaims/driver', verb='[associated-node:update "
                 "arbitrary-node:update]' permission: resourceclaims.resource.k8s.io 'd' is "
                 "forbidden: User 'system:serviceaccount:kube-system:driver' cannot "
                 "associated-node:update");
    const char *released = "{'metadata':{'name':'a','namespace':'ns','resourceVersion':'1'}}";
    check_access("update binding ", "me", "", released, "");
    check_access("nothing", "me", "", released,
                 "Forbidden status.allocation: Forbidden: changing status.allocation or "
                 "status.reservedFor requires resource='resourceclaims/binding', verb='update' "
                 "permission: resourceclaims.resource.k8s.io is forbidden: User 'me' cannot update "
                 "resource 'resourceclaims/binding' in API group 'resource.k8s.io' at the cluster "
                 "scope: denied");
}

RUN_TESTS(TEST_CASE(test_defaults), TEST_CASE(test_parse), TEST_CASE(test_versions),
          TEST_CASE(test_drop), TEST_CASE(test_reset), TEST_CASE(test_cel), TEST_CASE(test_admin),
          TEST_CASE(test_status_access))
