// SPDX-License-Identifier: Apache-2.0
//
// Slices and pods.
#include "validate_cases.h"

#include "base/banned.h"

#define SLICE(rest)                                                                              \
    "{'metadata':{'name':'s','resourceVersion':'1'},'spec':{'driver':'d.io','pool':{'name':'p'," \
    "'generation':1,'resourceSliceCount':1}," rest "}}"
#define DEVICES(devices) SLICE("'nodeName':'n','devices':[" devices "]")
#define DEVICE(rest)     DEVICES("{'name':'x'," rest "}")
#define SHARED(policy)                                                                             \
    DEVICE(                                                                                        \
        "'allowMultipleAllocations':true,'capacity':{'mem':{'value':'10','requestPolicy':{" policy \
        "}}}")

static void test_slice(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"plain", "v1", "ResourceSlice", API_CREATE, "", DEVICE("'attributes':{'a':{'int':1}}"),
         NULL, ""},
        {"nothing set", "v1", "ResourceSlice", API_CREATE, "",
         "{'metadata':{'name':'s'},'spec':{}}", NULL,
         "Required spec.driver\nRequired spec.pool.name\nInvalid spec.pool.resourceSliceCount\n"
         "Required spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, "
         "`perDeviceNodeSelection` is required"},
        {"nodes three ways", "v1", "ResourceSlice", API_CREATE, "",
         SLICE("'nodeName':'n','allNodes':true,'perDeviceNodeSelection':false,'nodeSelector':"
               "{'nodeSelectorTerms':[{},{}]}"),
         NULL,
         "Invalid spec.nodeSelector.nodeSelectorTerms: Invalid value: [{'MatchExpressions':null,"
         "'MatchFields':null},{'MatchExpressions':null,'MatchFields':null}]: must have exactly one "
         "node selector term\n"
         "Invalid spec.perDeviceNodeSelection: Invalid value: false: must be either unset or set "
         "to "
         "true\n"
         "Invalid spec: Invalid value: '{`nodeName`, `nodeSelector`, `allNodes`}': exactly one of"},
        {"immutable", "v1", "ResourceSlice", API_UPDATE, "",
         "{'metadata':{'name':'s','resourceVersion':'1'},'spec':{'driver':'e.io','pool':{"
         "'name':'q','generation':1,'resourceSliceCount':1},'allNodes':true}}",
         SLICE("'nodeName':'n'"),
         "Invalid spec.pool.name: Invalid value: 'q': field is immutable\n"
         "Invalid spec.driver: Invalid value: 'e.io': field is immutable\n"
         "Invalid spec.nodeName: Invalid value: null: field is immutable"},
        {"counters and devices", "v1", "ResourceSlice", API_CREATE, "",
         SLICE("'nodeName':'n','devices':[],'sharedCounters':[{'name':'C','counters':{'a':{"
               "'value':'1'}}},{'name':'c'},{'name':'c','image':'i','counters':{'A':{'value':'1'}}}"
               "]"),
         NULL,
         "Invalid spec: Invalid value: '': only one of `sharedCounters` or `devices` is allowed\n"
         "Duplicate spec.sharedCounters[2]: Duplicate value: {'name':'c','counters':{'A':{"
         "'value':'1'}}}\n"
         "Invalid spec.sharedCounters[0].name\nRequired spec.sharedCounters[1].counters\n"
         "Invalid spec.sharedCounters[2].counters: Invalid value: 'A': a lowercase RFC 1123 label"},
        {"negative counters", "v1", "ResourceSlice", API_CREATE, "",
         SLICE("'nodeName':'n','sharedCounters':[{'name':'c','counters':{'a':{'value':'-1'},"
               "'b':{'value':'0'}}}]"),
         NULL,
         "Invalid spec.sharedCounters[0].counters[a].value: Invalid value: '-1': must be "
         "non-negative"},
        {"same device twice", "v1", "ResourceSlice", API_CREATE, "",
         DEVICES("{'name':'x'},{'name':'y'},{'name':'x'}"), NULL,
         "Duplicate spec.devices[2]: Duplicate value: 'x'"},
        {"v1beta1 hides a device in basic", "v1beta1", "ResourceSlice", API_CREATE, "",
         DEVICE("'basic':{'attributes':{'a':{}},'taints':[{'key':'k'}]}"), NULL,
         "Invalid spec.devices[0].basic.attributes[a]: Invalid value: '': must specify one of\n"
         "Required spec.devices[0].basic.taints[0].effect"},
        {"operations", "v1", "ResourceSlice", API_CREATE, "DRAOptionalNodeOperations=true",
         SLICE("'nodeName':'n','skipNodeOperations':['NodePrepareResources','Dance',"
               "'NodePrepareResources']"),
         NULL,
         "Invalid spec.skipNodeOperations: Invalid value: ['NodePrepareResources','Dance',"
         "'NodePrepareResources']: NodePrepareResources cannot be skipped\n"
         "Duplicate spec.skipNodeOperations[2]\n"
         "NotSupported spec.skipNodeOperations[1]: Unsupported value: 'Dance': supported values: "
         "'*', 'NodePrepareResources', 'NodeUnprepareResources'"},
    };
    run_rows(rows);
}

static void test_device(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"attributes", "v1", "ResourceSlice", API_CREATE, "",
         DEVICE("'attributes':{'a b':{'int':1},'d.io/':{'int':1},'two':{'int':1,'bool':true},"
                "'v':{'version':'1.0'}}"),
         NULL,
         "Invalid spec.devices[0].attributes: Invalid value: 'a b': a valid C identifier\n"
         "Invalid spec.devices[0].attributes: Invalid value: '': the name must not be empty\n"
         "Invalid spec.devices[0].attributes[v].version: Invalid value: '1.0': must be a string "
         "compatible with semver.org spec 2.0.0\n"
         "Invalid spec.devices[0].attributes[two]: Invalid value: '{int, bool}': must specify "
         "exactly one of: `int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, "
         "`versions`"},
        {"nodes of its own", "v1", "ResourceSlice", API_CREATE, "", DEVICE("'allNodes':true"), NULL,
         "Invalid spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` "
         "can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"},
        {"nodes for each", "v1", "ResourceSlice", API_CREATE, "",
         SLICE("'perDeviceNodeSelection':true,'devices':[{'name':'x'},{'name':'y','nodeName':''},"
               "{'name':'z','allNodes':true,'nodeName':'n'}]"),
         NULL,
         "Required spec.devices[0]\n"
         "Invalid spec.devices[1].nodeName: Invalid value: '': must not be empty\n"
         "Required spec.devices[1]\n"
         "Invalid spec.devices[2]: Invalid value: '{`nodeName`, `allNodes`}': exactly one of"},
        {"negative consumption", "v1", "ResourceSlice", API_CREATE, "",
         DEVICE("'consumesCounters':[{'counterSet':'c','counters':{'m':{'value':'-5Gi'}}}]"), NULL,
         "Invalid spec.devices[0].consumesCounters[0].counters[m].value: Invalid value: '-5Gi': "
         "must be non-negative"},
        {"a request policy ends with sharing", "v1", "ResourceSlice", API_UPDATE, "",
         DEVICE("'capacity':{'mem':{'value':'10','requestPolicy':{'default':'1',"
                "'validValues':['1']}}}"),
         SHARED("'default':'1','validValues':['1']"),
         "Forbidden spec.devices[0].capacity[mem].requestPolicy"},
        {"counters", "v1", "ResourceSlice", API_CREATE, "",
         DEVICE("'consumesCounters':[{'counterSet':'c','counters':{'m':{'value':'1'}}},"
                "{'counterSet':'c'}]"),
         NULL,
         "Duplicate spec.devices[0].consumesCounters[1]\n"
         "Required spec.devices[0].consumesCounters[1].counters"},
        {"resources of the node", "v1", "ResourceSlice", API_CREATE,
         "DRANodeAllocatableResources=true",
         DEVICE("'capacity':{'c':{'value':'1'}},'nodeAllocatableResources':{"
                "'cpu':{'mapping':{'capacityKey':'x','capacityMultiplier':'0'}},'disk':{},"
                "'memory':{'mapping':{'capacityMultiplier':'1'},'overhead':{}}}"),
         NULL,
         "NotFound spec.devices[0].nodeAllocatableResources[cpu].mapping.capacityKey: Not found: "
         "'x'\n"
         "Invalid spec.devices[0].nodeAllocatableResources[cpu].mapping.capacityMultiplier\n"
         "Invalid spec.devices[0].nodeAllocatableResources[disk]\n"
         "Required spec.devices[0].nodeAllocatableResources[disk]\n"
         "Required spec.devices[0].nodeAllocatableResources[memory].mapping.capacityKey\n"
         "Invalid spec.devices[0].nodeAllocatableResources[memory].overhead\n"
         "Invalid spec.devices[0].nodeAllocatableResources[memory].mapping: Invalid value: '': "
         "must "
         "specify one of: `capacityKey`, `deviceMultiplier`"},
        {"a taint of tomorrow may stay while its list does", "v1", "ResourceSlice", API_UPDATE,
         "DeclarativeValidationBeta=false",
         DEVICE("'taints':[{'key':'k','effect':'Later'}],'attributes':{'a':{'int':2}}"),
         DEVICE("'taints':[{'key':'k','effect':'Later'}],'attributes':{'a':{'int':1}}"), ""},
        {"but rules of the schema take a changed list of devices as new", "v1", "ResourceSlice",
         API_UPDATE, "",
         DEVICE("'taints':[{'key':'k','effect':'Later'}],'attributes':{'a':{'int':2}}"),
         DEVICE("'taints':[{'key':'k','effect':'Later'}],'attributes':{'a':{'int':1}}"),
         "NotSupported spec.devices[0].taints[0].effect"},
        {"partition type", "v1", "ResourceSlice", API_CREATE,
         "DRAResourcePoolStatus=true,DRAPartitionableDevicesType=true",
         SLICE("'nodeName':'n','partitionTypeAttribute':'d.io/t','devices':["
               "{'name':'x','attributes':{'t':{'string':'half'}},'consumesCounters':[{"
               "'counterSet':'c','counters':{'m':{'value':'1'}}}]},"
               "{'name':'y','attributes':{'t':{'int':1}},'consumesCounters':[{'counterSet':'c',"
               "'counters':{'m':{'value':'1'}}}]},{'name':'z'},"
               "{'name':'w','consumesCounters':[{'counterSet':'c','counters':{'m':{'value':'1'}}}]}"
               "]"),
         NULL,
         "Invalid spec.devices[1].attributes[d.io/t]: Invalid value: "
         "{'IntValue':1,'BoolValue':null,"
         "'StringValue':null,'VersionValue':null,'IntValues':null,'BoolValues':null,"
         "'StringValues':null,'VersionValues':null}: must be a string value\n"
         "Required spec.devices[3].attributes[d.io/t]"},
    };
    run_rows(rows);
}

static void test_capacity(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"not shared", "v1", "ResourceSlice", API_CREATE, "",
         DEVICE("'capacity':{'mem':{'value':'1','requestPolicy':{}}}"), NULL,
         "Forbidden spec.devices[0].capacity[mem].requestPolicy: Forbidden: "
         "allowMultipleAllocations must be true"},
        {"values", "v1", "ResourceSlice", API_CREATE, "",
         SHARED("'default':'1','validValues':['1','3','2','2','11']"), NULL,
         "Invalid spec.devices[0].capacity[mem].requestPolicy.validValues[2]: Invalid value: '2': "
         "values must be sorted in ascending order\n"
         "Invalid spec.devices[0].capacity[mem].requestPolicy.validValues[4]: Invalid value: '11': "
         "option is larger than capacity value: 10\n"
         "Duplicate spec.devices[0].capacity[mem].requestPolicy.validValues[3]: Duplicate value: "
         "'2'"},
        {"values without default", "v1", "ResourceSlice", API_CREATE, "",
         SHARED("'validValues':['1']"), NULL,
         "Required spec.devices[0].capacity[mem].requestPolicy.default: Required value: required "
         "when validValues is defined"},
        {"halves are whole numbers unless fractions are on", "v1", "ResourceSlice", API_CREATE, "",
         SHARED("'default':'1','validValues':['500m','1']"), NULL,
         "Duplicate spec.devices[0].capacity[mem].requestPolicy.validValues[1]: Duplicate value: "
         "'1'"},
        {"with fractions they differ", "v1", "ResourceSlice", API_CREATE,
         "DRAFractionalCapacityRange=true", SHARED("'default':'1','validValues':['500m','1']"),
         NULL, ""},
        {"range", "v1", "ResourceSlice", API_CREATE, "",
         SHARED("'default':'12','validRange':{'min':'1','max':'11','step':'3'}"), NULL,
         "Invalid spec.devices[0].capacity[mem].requestPolicy.validRange.max: Invalid value: '11': "
         "max is larger than capacity value: 10\n"
         "Invalid spec.devices[0].capacity[mem].requestPolicy.validRange.default: Invalid value: "
         "'12': default is more than max: 11\n"
         "Invalid spec.devices[0].capacity[mem].requestPolicy.validRange.step: Invalid value: "
         "'12': "
         "value is not a multiple of a given step (3) from (1)\n"
         "Invalid spec.devices[0].capacity[mem].requestPolicy.validRange.step: Invalid value: "
         "'11': "
         "value is not a multiple of a given step (3) from (1)"},
        {"a step of 2^64 is not nought", "v1", "ResourceSlice", API_CREATE, "",
         SHARED("'default':'1','validRange':{'min':'1','step':'18446744073709551616'}"), NULL,
         "Invalid spec.devices[0].capacity[mem].requestPolicy.validRange.step: Invalid value: "
         "'18446744073709551616': one step 18446744073709551617 is larger than capacity value: 10\n"
         "Invalid spec.devices[0].capacity[mem].requestPolicy.validRange.step: Invalid value: "
         "'18446744073709551616': must not be larger than 9223372036854775807"},
        {"fractions off the grid", "v1", "ResourceSlice", API_CREATE,
         "DRAFractionalCapacityRange=true",
         SHARED("'default':'1100m','validRange':{'min':'1','step':'250m'}"), NULL,
         "Invalid spec.devices[0].capacity[mem].requestPolicy.validRange.step: Invalid value: "
         "'1100m': value is not a multiple of a given step (250m) from (1)"},
        {"too fine", "v1", "ResourceSlice", API_CREATE, "DRAFractionalCapacityRange=true",
         SHARED("'default':'1','validRange':{'min':'1','step':'1u'}"), NULL,
         "Invalid spec.devices[0].capacity[mem].requestPolicy.validRange.step: Invalid value: "
         "'1u': value cannot be represented as a milli value"},
        {"both", "v1", "ResourceSlice", API_CREATE, "",
         SHARED("'default':'1','validValues':['1'],'validRange':{'min':'1'}"), NULL,
         "Forbidden spec.devices[0].capacity[mem].requestPolicy: Forbidden: exactly one policy"},
    };
    run_rows(rows);
}

#define POD(spec) \
    "{'metadata':{'name':'p','namespace':'ns','resourceVersion':'1'},'spec':{" spec "}}"
#define CONTAINER(use) "'containers':[{'name':'c','image':'i','resources':{'claims':[" use "]}}]"

static void test_pod(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"plain", "core", "Pod", API_CREATE, "",
         POD("'resourceClaims':[{'name':'a','resourceClaimName':'x'},{'name':'b',"
             "'resourceClaimTemplateName':'y'}]," CONTAINER(
                 "{'name':'a'},{'name':'b','request':'r'}")),
         NULL, ""},
        {"sources", "core", "Pod", API_CREATE, "",
         POD("'resourceClaims':[{'name':'a'},{'name':'a','resourceClaimName':'x',"
             "'resourceClaimTemplateName':'Y'},{'resourceClaimName':'x'}]," CONTAINER("")),
         NULL,
         "Invalid spec.resourceClaims[0]: Invalid value: {'Name':'a','ResourceClaimName':null,"
         "'ResourceClaimTemplateName':null}: must specify one of\n"
         "Duplicate spec.resourceClaims[1].name: Duplicate value: 'a'\n"
         "Invalid spec.resourceClaims[1]: Invalid value: {'Name':'a','ResourceClaimName':'x',"
         "'ResourceClaimTemplateName':'Y'}: at most one of\n"
         "Invalid spec.resourceClaims[1].resourceClaimTemplateName\n"
         "Required spec.resourceClaims[2].name"},
        {"use", "core", "Pod", API_CREATE, "",
         POD("'resourceClaims':[{'name':'b','resourceClaimName':'x'},{'name':'a',"
             "'resourceClaimName':'x'}]," CONTAINER(
                 "{'name':'a','request':'r'},{'name':'a',"
                 "'request':'r'},{'name':'a'},{'name':'a','request':'s'},{'name':'q'},{}")),
         NULL,
         "Duplicate spec.containers[0].resources.claims[1]: Duplicate value: 'a/r'\n"
         "Duplicate spec.containers[0].resources.claims[2]: Duplicate value: 'a'\n"
         "Duplicate spec.containers[0].resources.claims[3]: Duplicate value: 'a'\n"
         "NotFound spec.containers[0].resources.claims[4]: Not found: 'q': must be one of the "
         "names "
         "in pod.spec.resourceClaims: a, b\n"
         "Required spec.containers[0].resources.claims[5]"},
        {"nothing to use", "core", "Pod", API_CREATE, "", POD(CONTAINER("{'name':'q'}")), NULL,
         "NotFound spec.containers[0].resources.claims[0]: Not found: 'q': must be one of the "
         "names "
         "in pod.spec.resourceClaims which is empty"},
        {"for the whole pod", "core", "Pod", API_CREATE, "",
         POD("'resources':{'claims':[]}," CONTAINER("")), NULL,
         "Forbidden spec.resources.claims: Forbidden: claims may not be set for Resources at "
         "pod-level"},
        {"static pod", "core", "Pod", API_CREATE, "",
         "{'metadata':{'name':'p','namespace':'ns','annotations':{'kubernetes.io/config.mirror':"
         "'x'}},'spec':{'nodeName':'n','resourceClaims':[{'name':'a','resourceClaimName':'x'}]"
         "," CONTAINER("") "}}",
         NULL, "Forbidden []: Forbidden: static pods do not support resource claims"},
        {"claims do not change", "core", "Pod", API_UPDATE, "", POD(CONTAINER("")),
         POD("'resourceClaims':[{'name':'a','resourceClaimName':'x'}]," CONTAINER("")),
         "Forbidden spec: Forbidden: pod updates may not change fields other than"},
        {"template of a workload", "apps/v1", "Deployment", API_CREATE, "",
         "{'metadata':{'name':'d','namespace':'ns'},'spec':{'selector':{'matchLabels':{'a':'b'}},"
         "'template':{'metadata':{'labels':{'a':'b'}},'spec':{'resourceClaims':["
         "{'name':'A','resourceClaimName':'x'}]," CONTAINER("") "}}}}",
         NULL, "Invalid spec.template.spec.resourceClaims[0].name"},
        {"status", "core", "Pod", API_STATUS_UPDATE, "",
         "{'metadata':{'name':'p','namespace':'ns','resourceVersion':'1'},'status':{"
         "'resourceClaimStatuses':[{'name':'b'},{'name':'b','resourceClaimName':'B'}],"
         "'extendedResourceClaimStatus':{'requestMappings':[{'containerName':'c',"
         "'resourceName':'d.io/x','requestName':'r'},{'containerName':'q','requestName':'R'}]},"
         "'containerStatuses':[{'name':'c','allocatedResourcesStatus':[{'name':'claim:a/s',"
         "'resources':[{'resourceID':'1','health':'Fine'},{'resourceID':'1','health':'Healthy'}]},"
         "{'name':'claim:a'}]}]}}",
         POD("'resourceClaims':[{'name':'a','resourceClaimName':'x'}]," CONTAINER("{'name':'a'}")),
         "Invalid status.resourceClaimStatuses[0].name\n"
         "Invalid status.resourceClaimStatuses[1].name\n"
         "Duplicate status.resourceClaimStatuses[1].name\n"
         "Invalid status.resourceClaimStatuses[1].resourceClaimName\n"
         "Invalid status.extendedResourceClaimStatus.requestMappings[0].resourceName\n"
         "Invalid status.extendedResourceClaimStatus.requestMappings[1].containerName\n"
         "Invalid status.extendedResourceClaimStatus.requestName\n"
         "Required status.extendedResourceClaimStatus.resourceClaimName\n"
         "Invalid status.containerStatuses[0].allocatedResourcesStatus[0].name\n"
         "NotSupported "
         "status.containerStatuses[0].allocatedResourcesStatus[0].resources[0].health\n"
         "Duplicate "
         "status.containerStatuses[0].allocatedResourcesStatus[0].resources[1].resourceID"},
    };
    run_rows(rows);
}

// --- Sizes ---------------------------------------------------------------------------------------

static void expect_size(const char *item, size_t count, const char *before, const char *behind,
                        const char *want)
{
    struct run r;
    struct sbuf text = {0};
    run_start(&r, "v1", "ResourceSlice", "DRAListTypeAttributes=true");
    sbuf_addz(&text, before);
    for (size_t i = 0; i < count; i++)
        sbuf_addf(&text, "%s{'name':'d%zu'%s}", i ? "," : "", i, i == 0 ? item : "");
    sbuf_addz(&text, behind);
    run_go(&r, API_CREATE, text.p, NULL);
    run_expect(&r, item, want);
    sbuf_done(&text);
    arena_done(&r.arena);
}

static void test_sizes(void **state)
{
    (void)state;
    const char *before = "{'metadata':{'name':'s'},'spec':{'driver':'d.io','pool':{'name':'p',"
                         "'resourceSliceCount':1},'allNodes':true,'devices':[";
    const char *many = "TooMany spec.devices: Too many: 65: must have at most 64 items";
    expect_size("", 128, before, "]}}", "");
    expect_size("", 129, before, "]}}",
                "TooMany spec.devices: Too many: 129: must have at most 128 items");
    expect_size(",'taints':[{'key':'k','effect':'None'}]", 64, before, "]}}", "");
    expect_size(",'taints':[{'key':'k','effect':'None'}]", 65, before, "]}}", many);
    expect_size(",'attributes':{'a':{'ints':[1]}}", 65, before, "]}}", many);
    expect_size(",'consumesCounters':[{'counterSet':'c','counters':{'m':{'value':'1'}}}]", 65,
                before, "]}}", many);
}

// A hostile object with very many errors does not make the list of causes grow without end.
static void test_causes_bounded(void **state)
{
    (void)state;
    struct run r;
    struct sbuf text = {0};
    run_start(&r, "core", "Pod", "");
    sbuf_addz(&text, "{'metadata':{'name':'p','namespace':'ns','ownerReferences':[");
    for (size_t i = 0; i < 20000; i++)
        sbuf_addf(&text, "%s{'controller':true}", i ? "," : "");
    sbuf_addz(&text, "]},'spec':{}}");
    run_go(&r, API_CREATE, text.p, NULL);
    assert_true(r.causes.n > 10);
    assert_true(r.causes.bytes < 4 * CAUSES_BYTES_MAX);
    sbuf_done(&text);
    arena_done(&r.arena);
}

RUN_TESTS(TEST_CASE(test_slice), TEST_CASE(test_device), TEST_CASE(test_capacity),
          TEST_CASE(test_pod), TEST_CASE(test_sizes), TEST_CASE(test_causes_bounded))
