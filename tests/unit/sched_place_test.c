// SPDX-License-Identifier: Apache-2.0
#include "sched_kit.h"

#include "base/banned.h"

static void a_pod_with_a_claim_gets_node_and_device(void **state)
{
    (void)state;
    struct kit k;
    kit_start(&k);
    kit_node(&k, "n1", "");
    kit_gpus(&k, "n1", 2);
    kit_claim(&k, "c", 1);
    kit_pod(&k, "p", "'resourceClaims':[{'name':'gpu','resourceClaimName':'c'}]");
    world_run(&k.w, 100);
    assert_str(world_node_of(&k.w, "ns/p"), "n1");
    const struct api_resource_claim *c = world_claim(&k.w, "ns/c");
    assert_non_null(c->status.allocation);
    assert_str(c->status.allocation->devices.results.p[0].device, "gpu-0");
    assert_int_equal(c->status.reserved_for.n, 1);
    assert_str(c->status.reserved_for.p[0].resource, "pods");
    assert_str(c->metadata.finalizers.p[0], "resource.kubernetes.io/delete-protection");
    kit_end(&k);
}

RUN_TESTS(TEST_CASE(a_pod_with_a_claim_gets_node_and_device))
