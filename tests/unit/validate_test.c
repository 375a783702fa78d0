// SPDX-License-Identifier: Apache-2.0
//
// Claims, templates, classes, taint rules, pool status requests, metadata.
#include "validate_cases.h"

#include "base/banned.h"

#define META                        "'metadata':{'name':'a','namespace':'ns'}"
#define META_NEW                    "'metadata':{'name':'a','namespace':'ns','resourceVersion':'1'}"
#define EXACT                       "'exactly':{'deviceClassName':'c'}"
#define CLAIM(devices)              "{" META ",'spec':{'devices':{" devices "}}}"
#define CLAIM_UPDATE(meta, devices) "{'metadata':" meta ",'spec':{'devices':{" devices "}}}"
#define ONE                         "'requests':[{'name':'r'," EXACT "}]"

static void test_claim(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"plain", "v1", "ResourceClaim", API_CREATE, "", CLAIM(ONE), NULL, ""},
        {"nothing at all", "v1", "ResourceClaim", API_CREATE, "", CLAIM(""), NULL, ""},
        {"neither nor", "v1", "ResourceClaim", API_CREATE, "", CLAIM("'requests':[{'name':'r'}]"),
         NULL,
         "Required spec.devices.requests[0]: Required value: exactly one of `exactly` or "
         "`firstAvailable` is required"},
        {"both", "v1", "ResourceClaim", API_CREATE, "",
         CLAIM("'requests':[{'name':'r'," EXACT
               ",'firstAvailable':[{'name':'s','deviceClassName':'c'}]}]"),
         NULL,
         "Invalid spec.devices.requests[0]: Invalid value: null: exactly one of `exactly` or "
         "`firstAvailable` is required, but multiple fields are set"},
        {"bad names", "v1", "ResourceClaim", API_CREATE, "",
         CLAIM("'requests':[{'name':'R','exactly':{'deviceClassName':'C'}}]"), NULL,
         "Invalid spec.devices.requests[0].name: Invalid value: 'R': a lowercase RFC 1123 label\n"
         "Invalid spec.devices.requests[0].exactly.deviceClassName: Invalid value: 'C': a "
         "lowercase "
         "RFC 1123 subdomain"},
        {"no class", "v1", "ResourceClaim", API_CREATE, "",
         CLAIM("'requests':[{'name':'r','exactly':{}}]"), NULL,
         "Required spec.devices.requests[0].exactly.deviceClassName"},
        {"counts", "v1", "ResourceClaim", API_CREATE, "",
         CLAIM("'requests':[{'name':'r','exactly':{'deviceClassName':'c','count':-1}},"
               "{'name':'s','exactly':{'deviceClassName':'c','allocationMode':'All','count':1}}]"),
         NULL,
         "Invalid spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than "
         "zero\n"
         "Invalid spec.devices.requests[1].exactly.count: Invalid value: 1: must not be specified "
         "when allocationMode is 'All'"},
        {"mode is the schema's to tell", "v1", "ResourceClaim", API_CREATE, "",
         CLAIM(
             "'requests':[{'name':'r','exactly':{'deviceClassName':'c','allocationMode':'Few'}}]"),
         NULL,
         "NotSupported spec.devices.requests[0].exactly.allocationMode: Unsupported value: 'Few': "
         "supported values: 'All', 'ExactCount'"},
        {"same name twice", "v1", "ResourceClaim", API_CREATE, "",
         CLAIM("'requests':[{'name':'r'," EXACT "},{'name':'r'," EXACT "}]"), NULL,
         "Duplicate spec.devices.requests[1]: Duplicate value: "
         "{'name':'r','exactly':{'deviceClassName':'c','allocationMode':'ExactCount','count':1}}"},
        {"alternatives", "v1", "ResourceClaim", API_CREATE, "",
         CLAIM("'requests':[{'name':'r','firstAvailable':[{'name':'s'},{'name':'s',"
               "'deviceClassName':'c'}]}]"),
         NULL,
         "Duplicate spec.devices.requests[0].firstAvailable[1]\n"
         "Required spec.devices.requests[0].firstAvailable[0].deviceClassName"},
        {"constraints", "v1", "ResourceClaim", API_CREATE, "",
         CLAIM(ONE ",'constraints':[{'requests':['r','x'],'matchAttribute':'d.io/a'},{},"
                   "{'matchAttribute':'a'}]"),
         NULL,
         "Invalid spec.devices.constraints[0].requests[1]: Invalid value: 'x': must be the name of "
         "a request\n"
         "Required spec.devices.constraints[1]\n"
         "Invalid spec.devices.constraints[2].matchAttribute: Invalid value: 'a': a fully "
         "qualified name"},
        {"configuration", "v1", "ResourceClaim", API_CREATE, "",
         CLAIM(ONE ",'config':[{},{'requests':['r','r'],'opaque':{'driver':'d.io',"
                   "'parameters':1}}]"),
         NULL,
         "Required spec.devices.config[0].opaque\n"
         "Invalid spec.devices.config[1].opaque.parameters: Invalid value: '<value omitted>': must "
         "be a valid JSON object\n"
         "Duplicate spec.devices.config[1].requests[1]: Duplicate value: 'r'"},
        {"tolerations", "v1", "ResourceClaim", API_CREATE, "",
         CLAIM("'requests':[{'name':'r','exactly':{'deviceClassName':'c','tolerations':["
               "{'operator':'Exists','value':'v'},{'key':'a b','effect':'Never'}]}}]"),
         NULL,
         "Invalid spec.devices.requests[0].exactly.tolerations[0].value: Invalid value: 'v': must "
         "be empty for operator `Exists`\n"
         "Invalid spec.devices.requests[0].exactly.tolerations[1].key\n"
         "NotSupported spec.devices.requests[0].exactly.tolerations[1].effect: Unsupported value: "
         "'Never': supported values: 'NoExecute', 'NoSchedule', 'None'"},
        {"derived attributes", "v1", "ResourceClaim", API_CREATE, "DRADerivedAttributes=true",
         CLAIM("'requests':[{'name':'r','exactly':{'deviceClassName':'c','derivedAttributes':["
               "{'name':'d.io/a','expression':'1'},{'name':'d.io/b','expression':''}]}}],"
               "'constraints':[{'matchAttribute':'d.io/a'}]"),
         NULL,
         "Invalid spec.devices.requests[0].exactly.derivedAttributes[1].name: Invalid value: "
         "'d.io/b': must be referenced\n"
         "Required spec.devices.requests[0].exactly.derivedAttributes[1].expression"},
        {"status is not looked at on create", "v1", "ResourceClaim", API_CREATE, "",
         "{" META ",'spec':{'devices':{}},'status':{'reservedFor':[{}]}}", NULL, ""},
        {"old version, paths of both", "v1beta1", "ResourceClaim", API_CREATE, "",
         CLAIM("'requests':[{'name':'r','deviceClassName':'c','count':-1,"
               "'tolerations':[{'key':'a b'}]}]"),
         NULL,
         "Invalid spec.devices.requests[0].exactly.count\n"
         "Invalid spec.devices.requests[0].tolerations[0].key"},
    };
    run_rows(rows);
}

static void test_claim_update(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"no change", "v1", "ResourceClaim", API_UPDATE, "",
         CLAIM_UPDATE("{'name':'a',"
                      "'namespace':'ns','resourceVersion':'1','labels':{'x':'y'}}",
                      ONE),
         CLAIM(ONE), ""},
        {"spec changes", "v1", "ResourceClaim", API_UPDATE, "",
         CLAIM_UPDATE("{'name':'a','namespace':'ns','resourceVersion':'1'}",
                      "'requests':[{'name':'q','exactly':{}}]"),
         CLAIM(ONE), "Invalid spec: Invalid value: null: field is immutable"},
        {"spec changes, before declarative rules counted", "v1", "ResourceClaim", API_UPDATE,
         "DeclarativeValidationBeta=false",
         CLAIM_UPDATE("{'name':'a','namespace':'ns','resourceVersion':'1'}", ""), CLAIM(ONE),
         "Invalid spec: Invalid value: {'Devices':{'Requests':null,'Constraints':null,"
         "'Config':null}}: field is immutable"},
        {"no resource version", "v1", "ResourceClaim", API_UPDATE, "", CLAIM(ONE), CLAIM(ONE),
         "Invalid metadata.resourceVersion: Invalid value: '': must be specified for an update"},
        {"another name", "v1", "ResourceClaim", API_UPDATE, "",
         CLAIM_UPDATE("{'name':'b','namespace':'ns','resourceVersion':'1'}", ONE), CLAIM(ONE),
         "Invalid metadata.name: Invalid value: 'b': field is immutable"},
        {"generation is not the user's", "v1", "ResourceClaim", API_UPDATE, "",
         CLAIM_UPDATE("{'name':'a','namespace':'ns','resourceVersion':'1','generation':-4}", ONE),
         CLAIM(ONE), ""},
    };
    run_rows(rows);
}

#define ALLOCATION                                                                                 \
    "'allocation':{'devices':{'results':[{'request':'r','driver':'d.io','pool':'p','device':'x'}]" \
    "}}"
#define WITH_STATUS(status) "{" META_NEW ",'spec':{'devices':{" ONE "}},'status':{" status "}}"

static void test_claim_status(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"allocate and reserve", "v1", "ResourceClaim", API_STATUS_UPDATE, "",
         WITH_STATUS(ALLOCATION ",'reservedFor':[{'resource':'pods','name':'p','uid':'1'}]"),
         WITH_STATUS(""), ""},
        {"reserve what is not allocated", "v1", "ResourceClaim", API_STATUS_UPDATE, "",
         WITH_STATUS("'reservedFor':[{'resource':'pods','name':'p','uid':'1'}]"), WITH_STATUS(""),
         "Forbidden status.reservedFor: Forbidden: may not be specified when `allocated` is not "
         "set"},
        {"incomplete consumer, and twice", "v1", "ResourceClaim", API_STATUS_UPDATE, "",
         WITH_STATUS(ALLOCATION ",'reservedFor':[{},{'resource':'pods','name':'p','uid':''}]"),
         WITH_STATUS(""),
         "Required status.reservedFor[0].resource\nRequired status.reservedFor[0].name\n"
         "Required status.reservedFor[0].uid\nRequired status.reservedFor[1].uid\n"
         "Duplicate status.reservedFor[1]"},
        {"change an allocation", "v1", "ResourceClaim", API_STATUS_UPDATE, "",
         WITH_STATUS("'allocation':{}"), WITH_STATUS(ALLOCATION),
         "Invalid status.allocation: Invalid value: null: field cannot be modified once set"},
        {"give it back", "v1", "ResourceClaim", API_STATUS_UPDATE, "", WITH_STATUS(""),
         WITH_STATUS(ALLOCATION), ""},
        {"result of an unknown request", "v1", "ResourceClaim", API_STATUS_UPDATE, "",
         WITH_STATUS("'allocation':{'devices':{'results':[{'request':'q','driver':'','pool':'P',"
                     "'device':'x'}]}}"),
         WITH_STATUS(""),
         "Invalid status.allocation.devices.results[0].request\n"
         "Required status.allocation.devices.results[0].driver\n"
         "Invalid status.allocation.devices.results[0].pool: Invalid value: 'P': segment 0: a "
         "lowercase"},
        {"device status", "v1", "ResourceClaim", API_STATUS_UPDATE, "",
         WITH_STATUS(ALLOCATION ",'devices':[{'driver':'d.io','pool':'p','device':'x',"
                                "'networkData':{'ips':['10.0.0.1/8','010.0.0.1/8','x']}},"
                                "{'driver':'d.io','pool':'p','device':'y','data':[]}]"),
         WITH_STATUS(ALLOCATION),
         "Invalid status.devices[0].networkData.ips[1]: Invalid value: '010.0.0.1/8': must be in "
         "canonical form ('10.0.0.1/8')\n"
         "Invalid status.devices[0].networkData.ips[2]: Invalid value: 'x': must be a valid "
         "address in CIDR form\n"
         "Invalid status.devices[1]: Invalid value: {'Driver':'d.io','Pool':'p','Device':'y',"
         "'ShareID':''}: must be an allocated device in the claim\n"
         "Invalid status.devices[1].data: Invalid value: '<value omitted>': must be a valid JSON "
         "object"},
        {"binding conditions", "v1", "ResourceClaim", API_STATUS_UPDATE, "",
         WITH_STATUS("'allocation':{'devices':{'results':[{'request':'r','driver':'d.io',"
                     "'pool':'p','device':'x','bindingConditions':['a'],"
                     "'bindingFailureConditions':['a','b','b']}]}}"),
         WITH_STATUS(""),
         "Invalid status.allocation.devices.results[0].bindingFailureConditions[0]: Invalid value: "
         "'a': bindingFailureConditions must not overlap with bindingConditions\n"
         "Duplicate status.allocation.devices.results[0].bindingFailureConditions[2]"},
        {"conditions", "v1", "ResourceClaim", API_STATUS_UPDATE, "",
         WITH_STATUS(ALLOCATION ",'devices':[{'driver':'d.io','pool':'p','device':'x','conditions':"
                                "[{'type':'T','status':'Maybe','reason':'-','lastTransitionTime':"
                                "'2026-01-01T00:00:00Z'}]}]"),
         WITH_STATUS(ALLOCATION),
         "NotSupported status.devices[0].conditions[0].status: Unsupported value: 'Maybe': "
         "supported values: 'False', 'True', 'Unknown'\n"
         "Invalid status.devices[0].conditions[0].reason"},
        {"node selector", "v1", "ResourceClaim", API_STATUS_UPDATE, "",
         WITH_STATUS("'allocation':{'nodeSelector':{'nodeSelectorTerms':[{'matchFields':["
                     "{'key':'spec.x','operator':'In','values':['a']},"
                     "{'key':'metadata.name','operator':'Gt','values':['-']}],'matchExpressions':["
                     "{'key':'k','operator':'In'}]}]}}"),
         WITH_STATUS(""),
         "Required status.allocation.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values\n"
         "Invalid status.allocation.nodeSelector.nodeSelectorTerms[0].matchFields[0].key\n"
         "Invalid status.allocation.nodeSelector.nodeSelectorTerms[0].matchFields[1].operator\n"
         "Invalid status.allocation.nodeSelector.nodeSelectorTerms[0].matchFields[1].values[0]"},
    };
    run_rows(rows);
}

#define TEMPLATE(meta, devices) \
    "{" META_NEW ",'spec':{'metadata':" meta ",'spec':{'devices':{" devices "}}}}"

static void test_template(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"labels and annotations are all", "v1", "ResourceClaimTemplate", API_CREATE, "",
         TEMPLATE("{'name':'x','uid':'1','labels':{'a':'b'},'annotations':{'c':'d'}}", ONE), NULL,
         "Forbidden spec.metadata.name: Forbidden: cannot be set\n"
         "Forbidden spec.metadata.uID: Forbidden: cannot be set"},
        {"inner spec", "v1", "ResourceClaimTemplate", API_CREATE, "",
         TEMPLATE("{}", "'requests':[{'name':'r'}]"), NULL,
         "Required spec.spec.devices.requests[0]"},
        {"immutable, shown as upstream prints its own type", "v1", "ResourceClaimTemplate",
         API_UPDATE, "", TEMPLATE("{'labels':{'a':'b'}}", ""), TEMPLATE("{}", ""),
         "Invalid spec: Invalid value: {'labels':{'a':'b'},'Spec':{'Devices':{'Requests':null,"
         "'Constraints':null,'Config':null}}}: field is immutable"},
    };
    run_rows(rows);
}

static void test_class(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"plain", "v1", "DeviceClass", API_CREATE, "", "{'metadata':{'name':'a'}}", NULL, ""},
        {"names", "v1", "DeviceClass", API_CREATE, "",
         "{'metadata':{'name':'A'},'spec':{'extendedResourceName':'gpu'}}", NULL,
         "Invalid metadata.name: Invalid value: 'A': a lowercase RFC 1123 subdomain\n"
         "Invalid spec.extendedResourceName: Invalid value: 'gpu': a name must be a "
         "domain-prefixed path"},
        {"selector without CEL", "v1", "DeviceClass", API_CREATE, "",
         "{'metadata':{'name':'a'},'spec':{'selectors':[{}]}}", NULL,
         "Required spec.selectors[0].cel"},
        {"namespace", "v1", "DeviceClass", API_CREATE, "",
         "{'metadata':{'name':'a',"
         "'namespace':'n'}}",
         NULL,
         "Forbidden metadata.namespace: Forbidden: not allowed on this "
         "type"},
        {"config kept as it was needs no driver that is right", "v1", "DeviceClass", API_UPDATE, "",
         "{'metadata':{'name':'a','resourceVersion':'1','labels':{'x':'y'}},'spec':{'config':["
         "{'opaque':{'driver':'d.io','parameters':{}}}]}}",
         "{'metadata':{'name':'a'},'spec':{'config':[{'opaque':{'driver':'d.io',"
         "'parameters':{}}}]}}",
         ""},
    };
    run_rows(rows);
}

#define RULE(meta, spec) "{'metadata':" meta ",'spec':" spec "}"

static void test_taint_rule(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"plain", "v1", "DeviceTaintRule", API_CREATE, "",
         RULE("{'name':'a'}", "{'taint':{'key':'k','effect':'NoSchedule'}}"), NULL, ""},
        {"wrong all over", "v1beta2", "DeviceTaintRule", API_CREATE, "",
         RULE("{'name':'a'}", "{'deviceSelector':{'driver':'D_','pool':'','device':'x.y'},"
                              "'taint':{'key':'','value':'a b','effect':'Never'}}"),
         NULL,
         "Invalid spec.deviceSelector.driver\nRequired spec.deviceSelector.pool\n"
         "Invalid spec.deviceSelector.device: Invalid value: 'x.y': must not contain dots\n"
         "Invalid spec.taint.key: Invalid value: '': name part must be non-empty\n"
         "Invalid spec.taint.key\nInvalid spec.taint.value\nNotSupported spec.taint.effect"},
        {"an effect of tomorrow may stay", "v1", "DeviceTaintRule", API_UPDATE, "",
         RULE("{'name':'a','resourceVersion':'1','labels':{'x':'y'}}",
              "{'taint':{'key':'k','effect':'Later'}}"),
         RULE("{'name':'a'}", "{'taint':{'key':'k','effect':'Later'}}"), ""},
        {"conditions", "v1alpha3", "DeviceTaintRule", API_STATUS_UPDATE, "",
         "{'metadata':{'name':'a','resourceVersion':'1'},'spec':{'taint':{'key':'k',"
         "'effect':'None'}},'status':{'conditions':[{'type':'T','status':'True','reason':'R'}]}}",
         RULE("{'name':'a'}", "{'taint':{'key':'k','effect':'None'}}"),
         "Required status.conditions[0].lastTransitionTime"},
    };
    run_rows(rows);
}

#define POOL(rest) "{'metadata':{'name':'a','resourceVersion':'1'}," rest "}"

static void test_pool_status(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"plain", "v1alpha3", "ResourcePoolStatusRequest", API_CREATE, "",
         POOL("'spec':{'driver':'d.io'}"), NULL, ""},
        {"rules of the schema", "v1alpha3", "ResourcePoolStatusRequest", API_CREATE, "",
         POOL("'spec':{'driver':'-','poolName':'a//b','limit':1001}"), NULL,
         "Invalid spec.driver: Invalid value: '-': an RFC 1123 subdomain\n"
         "Invalid spec.poolName: Invalid value: 'a//b': segment 1: must not be empty\n"
         "Invalid spec.limit: Invalid value: 1001: must be less than or equal to 1000"},
        {"immutable", "v1alpha3", "ResourcePoolStatusRequest", API_UPDATE, "",
         POOL("'spec':{'driver':'e.io'}"), POOL("'spec':{'driver':'d.io'}"),
         "Invalid spec: Invalid value: null: field is immutable"},
        {"status", "v1alpha3", "ResourcePoolStatusRequest", API_STATUS_UPDATE, "",
         POOL("'spec':{'driver':'d.io'},'status':{'pools':[{'driver':'d.io','poolName':'p',"
              "'generation':1,'totalDevices':-1},{'generation':0}]}"),
         POOL("'spec':{'driver':'d.io'}"),
         "Required status.poolCount\n"
         "Invalid status.pools[0].totalDevices: Invalid value: -1: must be greater than or equal "
         "to "
         "0\n"
         "Required status.pools[1].driver\nRequired status.pools[1].poolName\n"
         "Required status.pools[1].generation"},
        {"status is final", "v1alpha3", "ResourcePoolStatusRequest", API_STATUS_UPDATE, "",
         POOL("'spec':{'driver':'d.io'},'status':{'poolCount':2}"),
         POOL("'spec':{'driver':'d.io'},'status':{'poolCount':1}"),
         "Invalid status: Invalid value: {'PoolCount':2,'Pools':null,'Conditions':null}: field is "
         "immutable"},
    };
    run_rows(rows);
}

#define WITH_META(meta) "{'metadata':" meta ",'spec':{'devices':{}}}"

static void test_meta(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"no name", "v1", "ResourceClaim", API_CREATE, "", WITH_META("{'namespace':'ns'}"), NULL,
         "Required metadata.name: Required value: name or generateName is required"},
        {"labels and annotations", "v1", "ResourceClaim", API_CREATE, "",
         WITH_META("{'name':'a','namespace':'ns','labels':{'a/b/c':'x','k':'a b'},"
                   "'annotations':{'UPPER.io/x':'1','-':'2'}}"),
         NULL,
         "Invalid metadata.labels: Invalid value: 'a/b/c': a valid label key\n"
         "Invalid metadata.labels: Invalid value: 'a b': a valid label must be\n"
         "Invalid metadata.annotations: Invalid value: '-': name part must consist"},
        {"owners", "v1", "ResourceClaim", API_CREATE, "",
         WITH_META("{'name':'a','namespace':'ns','ownerReferences':[{'apiVersion':'v1',"
                   "'kind':'Event','name':'e','uid':'1'},{'apiVersion':'a/b/c','kind':'',"
                   "'name':'n','uid':'2'}]}"),
         NULL,
         "Invalid metadata.ownerReferences[0]: Invalid value: {'apiVersion':'v1','kind':'Event',"
         "'name':'e','uid':'1'}: /v1, Kind=Event is disallowed from being an owner\n"
         "Invalid metadata.ownerReferences[1].apiVersion\nRequired "
         "metadata.ownerReferences[1].kind"},
        {"two controllers", "v1", "ResourceClaim", API_CREATE, "",
         WITH_META(
             "{'name':'a','namespace':'ns','ownerReferences':[{'apiVersion':'v1','kind':'Pod',"
             "'name':'e','uid':'1','controller':true},{'apiVersion':'v1','kind':'Pod',"
             "'name':'f','uid':'2','controller':true}]}"),
         NULL, "Invalid metadata.ownerReferences"},
        {"finalizers", "v1", "ResourceClaim", API_CREATE, "",
         WITH_META("{'name':'a','namespace':'ns','finalizers':['orphan','foregroundDeletion','x',"
                   "'d.io/x']}"),
         NULL,
         "Invalid metadata.finalizers: Invalid value: "
         "['orphan','foregroundDeletion','x','d.io/x']: "
         "finalizer orphan and foregroundDeletion cannot be both set\n"
         "Invalid metadata.finalizers[2]: Invalid value: 'x': name is neither a standard"},
        {"no new finalizer while it goes", "v1", "ResourceClaim", API_UPDATE, "",
         WITH_META("{'name':'a','namespace':'ns','resourceVersion':'1','finalizers':['d.io/b',"
                   "'d.io/a']}"),
         WITH_META("{'name':'a','namespace':'ns','deletionTimestamp':'2026-01-01T00:00:00Z',"
                   "'finalizers':['d.io/a']}"),
         "Forbidden metadata.finalizers: Forbidden: no new finalizers can be added if the object "
         "is being deleted, found new finalizers []string{'d.io/b'}"},
        {"managers", "v1", "ResourceClaim", API_CREATE, "",
         WITH_META("{'name':'a','namespace':'ns','managedFields':[{'operation':'Eat',"
                   "'fieldsType':'V2','manager':'a\\u0007'},{}]}"),
         NULL,
         "NotSupported metadata.managedFields[0].operation\n"
         "Invalid metadata.managedFields[0].fieldsType\n"
         "Invalid metadata.managedFields[0].manager: Invalid value: 'a\\a': invalid character "
         "U+0007 (at position 1)\n"
         "Required metadata.managedFields[1].operation"},
        {"any kind", "rbac.authorization.k8s.io/v1", "Role", API_CREATE, "",
         "{'metadata':{'name':'a/b','namespace':'N'}}", NULL,
         "Invalid metadata.name: Invalid value: 'a/b': may not contain '/'\n"
         "Invalid metadata.namespace"},
    };
    run_rows(rows);
}

RUN_TESTS(TEST_CASE(test_claim), TEST_CASE(test_claim_update), TEST_CASE(test_claim_status),
          TEST_CASE(test_template), TEST_CASE(test_class), TEST_CASE(test_taint_rule),
          TEST_CASE(test_pool_status), TEST_CASE(test_meta))
