// SPDX-License-Identifier: Apache-2.0
//
// PersistentVolumeClaims and PersistentVolumes. Each test is named for the rule.
#include "ctl_kubelet.h"

#include "base/banned.h"

#define TEST_VOLUMES(name) TEST_WITH_CTLS(name, "", WITH(CTL_VOLUMES))
#define PVC(name)          ((struct target){"v1", "PersistentVolumeClaim", "", "default", name})
#define PV(name)           ((struct target){"v1", "PersistentVolume", "", "", name})
#define CLASS(name)        ((struct target){"storage.k8s.io/v1", "StorageClass", "", "", name})

#define CLAIM_WITH(name, size, rest)                                                       \
    "{\"metadata\":{\"name\":\"" name "\"},\"spec\":{\"accessModes\":[\"ReadWriteOnce\"]," \
    "\"resources\":{\"requests\":{\"storage\":\"" size "\"}}" rest "}}"
#define VOLUME_WITH(name, size, modes, rest)                                              \
    "{\"metadata\":{\"name\":\"" name "\",\"labels\":{\"name\":\"" name "\"}},\"spec\":{" \
    "\"accessModes\":[" modes "],\"capacity\":{\"storage\":\"" size "\"},\"hostPath\":{"  \
    "\"path\":\"/srv/" name "\"}" rest "}}"
#define ONCE      "\"ReadWriteOnce\""
#define MANY      "\"ReadWriteOnce\",\"ReadWriteMany\""
#define NOONE     ",\"storageClassName\":\"\""
#define OF(class) ",\"storageClassName\":\"" class "\""

#define CLASS_JSON(name, is_default, provisioner, mode)             \
    "{\"metadata\":{\"name\":\"" name "\",\"annotations\":{"        \
    "\"storageclass.kubernetes.io/is-default-class\":\"" is_default \
    "\"}},\"provisioner\":\"" provisioner "\",\"volumeBindingMode\":\"" mode "\"}"
#define LOCAL_CLASS CLASS_JSON("local", "true", "dray.dev/local", "WaitForFirstConsumer")
#define NODE_N1 \
    "{\"metadata\":{\"name\":\"n1\",\"labels\":{\"kubernetes.io/hostname\":\"host-1\"}}}"

static void make(struct ctl_world *c, struct target t, const char *json)
{
    assert_ok(do_create(c->w, t, json));
    settle(c);
}

static void merge(struct ctl_world *c, struct target t, const char *patch)
{
    assert_ok(do_patch(c->w, t, REGISTRY_PATCH_MERGE, patch));
    settle(c);
}

static void assert_phase(struct ctl_world *c, struct target t, const char *phase)
{
    (void)do_get(c->w, t);
    assert_field(c->w, "status.phase", phase);
}

static bool is_gone(struct ctl_world *c, struct target t)
{
    (void)do_get(c->w, t);
    return strcmp(reply_field(c->w, "metadata.name"), "-") == 0;
}

static const char *uid_of(struct ctl_world *c, struct target t)
{
    (void)do_get(c->w, t);
    return arena_str(&c->w->arena, str_z(reply_field(c->w, "metadata.uid"))).p;
}

static void select_node(struct ctl_world *c, const char *claim, const char *node)
{
    merge(c, PVC(claim),
          arena_strf(&c->w->arena,
                     "{\"metadata\":{\"annotations\":{\"volume.kubernetes.io/selected-node\":"
                     "\"%s\"}}}",
                     node)
              .p);
}

// --- Volumes that are there ----------------------------------------------------------------------

TEST_VOLUMES(a_claim_gets_the_smallest_volume_that_fits)
{
    make(c, PV(""), VOLUME_WITH("large", "10Gi", ONCE, ""));
    make(c, PV(""), VOLUME_WITH("right", "5Gi", ONCE, ""));
    make(c, PV(""), VOLUME_WITH("shared", "4Gi", MANY, ""));
    make(c, PV(""), VOLUME_WITH("small", "1Gi", ONCE, ""));
    make(c, PV(""), VOLUME_WITH("classy", "3Gi", ONCE, OF("fast")));
    assert_phase(c, PV("right"), "Available");
    make(c, PVC(""), CLAIM_WITH("data", "3Gi", ""));
    (void)do_get(c->w, PVC("data"));
    assert_field(c->w, "spec.volumeName", "right");
    assert_field(c->w, "status.phase", "Bound");
    assert_field(c->w, "status.capacity.storage", "5Gi");
    assert_field(c->w, "status.accessModes[0]", "ReadWriteOnce");
    const char *uid = uid_of(c, PVC("data"));
    (void)do_get(c->w, PV("right"));
    assert_field(c->w, "status.phase", "Bound");
    assert_field(c->w, "spec.claimRef.name", "data");
    assert_field(c->w, "spec.claimRef.kind", "PersistentVolumeClaim");
    assert_field(c->w, "spec.claimRef.uid", uid);
    // The next ones take what is left, and a third finds nothing but what can do more.
    make(c, PVC(""), CLAIM_WITH("more", "3Gi", ""));
    make(c, PVC(""), CLAIM_WITH("most", "3Gi", ""));
    make(c, PVC(""), CLAIM_WITH("none", "3Gi", ""));
    (void)do_get(c->w, PVC("more"));
    assert_field(c->w, "spec.volumeName", "large");
    (void)do_get(c->w, PVC("most"));
    assert_field(c->w, "spec.volumeName", "shared");
    assert_phase(c, PVC("none"), "Pending");
    assert_int_equal(count_events(c, "FailedBinding"), 1);
    make(c, PV(""), VOLUME_WITH("late", "3Gi", ONCE, ""));
    assert_phase(c, PVC("none"), "Bound");
}

TEST_VOLUMES(what_does_not_fit_is_not_taken)
{
    make(c, PV(""), VOLUME_WITH("block", "5Gi", ONCE, ",\"volumeMode\":\"Block\""));
    make(c, PV(""), VOLUME_WITH("other", "5Gi", "\"ReadOnlyMany\"", ""));
    make(c, PVC(""), CLAIM_WITH("data", "3Gi", ""));
    assert_phase(c, PVC("data"), "Pending");
    make(c, PV(""), VOLUME_WITH("plain", "5Gi", ONCE, ""));
    make(c, PVC(""),
         CLAIM_WITH("picky", "3Gi", ",\"selector\":{\"matchLabels\":{\"name\":\"chosen\"}}"));
    assert_phase(c, PVC("picky"), "Pending");
    make(c, PV(""), VOLUME_WITH("chosen", "9Gi", ONCE, ""));
    (void)do_get(c->w, PVC("picky"));
    assert_field(c->w, "spec.volumeName", "chosen");
}

TEST_VOLUMES(a_claim_may_name_its_volume)
{
    make(c, PVC(""), CLAIM_WITH("data", "3Gi", ",\"volumeName\":\"mine\""));
    make(c, PVC(""), CLAIM_WITH("greedy", "30Gi", ",\"volumeName\":\"small\""));
    assert_phase(c, PVC("data"), "Pending");
    make(c, PV(""), VOLUME_WITH("mine", "5Gi", ONCE, ""));
    make(c, PV(""), VOLUME_WITH("small", "5Gi", ONCE, ""));
    assert_phase(c, PVC("data"), "Bound");
    make(c, PVC(""), CLAIM_WITH("late", "3Gi", ",\"volumeName\":\"mine\""));
    assert_phase(c, PVC("late"), "Pending");
    assert_phase(c, PVC("greedy"), "Pending");
    assert_int_equal(count_events(c, "VolumeMismatch"), 1);
    assert_true(count_events(c, "FailedBinding") > 0);
    (void)do_get(c->w, PVC("data"));
    assert_field(c->w, "metadata.annotations[pv.kubernetes.io/bound-by-controller]", "-");
}

// A volume that is on its way out is given to nobody, not even to who names it.
TEST_VOLUMES(a_volume_that_goes_is_not_given)
{
    make(c, PV(""),
         "{\"metadata\":{\"name\":\"mine\",\"finalizers\":[\"example.com/stays\"]},\"spec\":{"
         "\"accessModes\":[" ONCE "],\"capacity\":{\"storage\":\"5Gi\"},\"hostPath\":{\"path\":"
         "\"/srv\"}}}");
    make(c, PV(""), VOLUME_WITH("tuned", "5Gi", ONCE, ",\"volumeAttributesClassName\":\"gold\""));
    assert_ok(do_delete(c->w, PV("mine"), NULL));
    settle(c);
    make(c, PVC(""), CLAIM_WITH("data", "3Gi", ",\"volumeName\":\"mine\""));
    make(c, PVC(""), CLAIM_WITH("plain", "3Gi", ",\"volumeName\":\"tuned\""));
    assert_phase(c, PVC("data"), "Pending");
    assert_phase(c, PVC("plain"), "Pending");
    assert_int_equal(count_events(c, "VolumeMismatch"), 2);
}

TEST_VOLUMES(a_volume_may_be_reserved_for_a_claim)
{
    make(c, PV(""),
         VOLUME_WITH("mine", "50Gi", ONCE,
                     ",\"claimRef\":{\"namespace\":\"default\",\"name\":\"data\"}"));
    make(c, PV(""), VOLUME_WITH("small", "5Gi", ONCE, ""));
    assert_phase(c, PV("mine"), "Available");
    make(c, PVC(""), CLAIM_WITH("else", "9Gi", ""));
    assert_phase(c, PVC("else"), "Pending");
    make(c, PVC(""), CLAIM_WITH("data", "3Gi", ""));
    (void)do_get(c->w, PVC("data"));
    assert_field(c->w, "spec.volumeName", "mine");
    assert_phase(c, PV("mine"), "Bound");
}

TEST_VOLUMES(a_claim_that_waits_for_its_pod_is_bound_by_what_the_scheduler_says)
{
    make(c, CLASS(""),
         CLASS_JSON("slow", "false", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"));
    make(c, PV(""), VOLUME_WITH("v", "5Gi", ONCE, OF("slow")));
    make(c, PVC(""), CLAIM_WITH("data", "3Gi", OF("slow")));
    assert_phase(c, PVC("data"), "Pending");
    assert_int_equal(count_events(c, "WaitForFirstConsumer"), 1);
    merge(c, PV("v"),
          arena_strf(&c->w->arena,
                     "{\"metadata\":{\"annotations\":{\"pv.kubernetes.io/bound-by-controller\":"
                     "\"yes\"}},\"spec\":{\"claimRef\":{\"kind\":\"PersistentVolumeClaim\","
                     "\"apiVersion\":\"v1\",\"namespace\":\"default\",\"name\":\"data\",\"uid\":"
                     "\"%s\"}}}",
                     uid_of(c, PVC("data")))
              .p);
    assert_phase(c, PVC("data"), "Bound");
    assert_phase(c, PV("v"), "Bound");
}

// --- The end -------------------------------------------------------------------------------------

TEST_VOLUMES(the_reclaim_policy_says_what_becomes_of_a_volume)
{
    make(c, PV(""),
         VOLUME_WITH("kept", "5Gi", ONCE, ",\"persistentVolumeReclaimPolicy\":\"Retain\""));
    make(c, PV(""),
         VOLUME_WITH("hand", "9Gi", ONCE, ",\"persistentVolumeReclaimPolicy\":\"Delete\""));
    make(c, PVC(""), CLAIM_WITH("a", "3Gi", ""));
    make(c, PVC(""), CLAIM_WITH("b", "3Gi", ""));
    assert_phase(c, PVC("b"), "Bound");
    assert_ok(do_delete(c->w, PVC("a"), NULL));
    assert_ok(do_delete(c->w, PVC("b"), NULL));
    settle(c);
    assert_phase(c, PV("kept"), "Released");
    assert_phase(c, PV("hand"), "Failed"); // nobody knows how to delete what a person made
    // A claim of the same name is another one.
    make(c, PVC(""), CLAIM_WITH("a", "3Gi", ""));
    assert_phase(c, PVC("a"), "Pending");
    assert_phase(c, PV("kept"), "Released");
    merge(c, PV("kept"), "{\"spec\":{\"claimRef\":null}}");
    assert_phase(c, PVC("a"), "Bound");
}

// Made for a claim that took another one: what a provisioner made is its to delete, and it waits for Released; what a
// person made is free again.
TEST_VOLUMES(a_volume_whose_claim_went_elsewhere_is_let_go)
{
    static const char made[] =
        "{\"metadata\":{\"name\":\"%s\",\"annotations\":{\"pv.kubernetes.io/"
        "%s\":\"x.example.com\"}}"
        ",\"spec\":{\"accessModes\":[" ONCE "],\"capacity\":{\"storage\":\"5Gi\"},\"hostPath\":{"
        "\"path\":\"/srv\"},\"persistentVolumeReclaimPolicy\":\"Delete\",\"claimRef\":{"
        "\"namespace\":\"default\",\"name\":\"data\",\"uid\":\"%s\"}}}";
    make(c, PV(""), VOLUME_WITH("first", "5Gi", ONCE, ""));
    make(c, PVC(""), CLAIM_WITH("data", "3Gi", ""));
    assert_phase(c, PVC("data"), "Bound");
    const char *uid = uid_of(c, PVC("data"));
    make(c, PV(""), arena_strf(&c->w->arena, made, "late", "provisioned-by", uid).p);
    make(c, PV(""), arena_strf(&c->w->arena, made, "hand", "bound-by-controller", uid).p);
    assert_phase(c, PV("late"), "Released");
    assert_field(c->w, "spec.claimRef.uid", uid);
    assert_phase(c, PV("hand"), "Available");
    assert_field(c->w, "spec.claimRef.name", "-");
}

TEST_VOLUMES(a_claim_whose_volume_is_gone_is_lost)
{
    make(c, PV(""), VOLUME_WITH("v", "5Gi", ONCE, ""));
    make(c, PVC(""), CLAIM_WITH("data", "3Gi", ""));
    assert_phase(c, PVC("data"), "Bound");
    assert_ok(do_delete(c->w, PV("v"), NULL));
    settle(c);
    assert_phase(c, PVC("data"), "Lost");
    assert_int_equal(count_events(c, "ClaimLost"), 1);
}

// --- Volumes that are made -----------------------------------------------------------------------

TEST_VOLUMES(a_folder_is_made_on_the_node_that_was_chosen_and_goes_with_the_claim)
{
    make(c, CLASS(""), LOCAL_CLASS);
    make(c, NODE(""), NODE_N1);
    make(c, PVC(""), CLAIM_WITH("data", "3Gi", ""));
    assert_phase(c, PVC("data"), "Pending");
    (void)do_get(c->w, PVC("data"));
    assert_field(c->w, "spec.storageClassName", "local");
    const char *volume = arena_strf(&c->w->arena, "pvc-%s", uid_of(c, PVC("data"))).p;
    select_node(c, "data", "n1");
    (void)do_get(c->w, PVC("data"));
    assert_field(c->w, "status.phase", "Bound");
    assert_field(c->w, "spec.volumeName", volume);
    assert_field(c->w, "status.capacity.storage", "3Gi");
    (void)do_get(c->w, PV(volume));
    assert_field(c->w, "status.phase", "Bound");
    assert_field(c->w, "spec.persistentVolumeReclaimPolicy", "Delete");
    assert_field(c->w, "spec.storageClassName", "local");
    assert_field(c->w, "spec.hostPath.path",
                 arena_strf(&c->w->arena, "/var/lib/dray/volumes/%s/data", volume).p);
#define EXPRESSION "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0]"
    assert_field(c->w, EXPRESSION ".key", "kubernetes.io/hostname");
    assert_field(c->w, EXPRESSION ".values[0]", "host-1");
    assert_int_equal(count_events(c, "ProvisioningSucceeded"), 1);
    ctl_world_restart(c);
    assert_phase(c, PV(volume), "Bound");
    assert_ok(do_delete(c->w, PVC("data"), NULL));
    settle(c);
    assert_true(is_gone(c, PV(volume)));
}

TEST_VOLUMES(a_node_that_is_gone_is_chosen_anew)
{
    make(c, CLASS(""), LOCAL_CLASS);
    make(c, PVC(""), CLAIM_WITH("data", "3Gi", ""));
    select_node(c, "data", "nowhere");
    (void)do_get(c->w, PVC("data"));
    assert_field(c->w, "metadata.annotations[volume.kubernetes.io/selected-node]", "-");
    assert_phase(c, PVC("data"), "Pending");
}

TEST_VOLUMES(what_a_folder_cannot_be_is_said)
{
    make(c, CLASS(""), LOCAL_CLASS);
    make(c, CLASS(""), CLASS_JSON("now", "false", "dray.dev/local", "Immediate"));
    make(c, NODE(""), NODE_N1);
    make(c, PVC(""), CLAIM_WITH("block", "3Gi", ",\"volumeMode\":\"Block\""));
    select_node(c, "block", "n1");
    assert_phase(c, PVC("block"), "Pending");
    assert_int_equal(count_events(c, "ProvisioningFailed"), 1);
    make(c, PVC(""), CLAIM_WITH("now", "3Gi", OF("now")));
    assert_phase(c, PVC("now"), "Pending");
    assert_int_equal(count_events(c, "ProvisioningFailed"), 2);
    make(c, PVC(""), CLAIM_WITH("lost", "3Gi", OF("nosuch")));
    assert_int_equal(count_events(c, "ProvisioningFailed"), 3);
    make(c, CLASS(""),
         "{\"metadata\":{\"name\":\"up\"},\"provisioner\":\"dray.dev/local\",\"volumeBindingMode\":"
         "\"WaitForFirstConsumer\",\"parameters\":{\"path\":\"/srv/../up\"}}");
    make(c, PVC(""), CLAIM_WITH("up", "3Gi", OF("up")));
    select_node(c, "up", "n1");
    assert_phase(c, PVC("up"), "Pending");
    assert_int_equal(count_events(c, "ProvisioningFailed"), 4);
}

#define POLICY(kind) ((struct target){"admissionregistration.k8s.io/v1", kind, "", "", ""})

TEST_VOLUMES(a_volume_that_the_server_does_not_take_is_said)
{
    make(c, CLASS(""), LOCAL_CLASS);
    make(c, NODE(""), NODE_N1);
    make(c, POLICY("ValidatingAdmissionPolicy"),
         "{\"metadata\":{\"name\":\"none\"},\"spec\":{\"matchConstraints\":{\"resourceRules\":[{"
         "\"apiGroups\":[\"\"],\"apiVersions\":[\"v1\"],\"operations\":[\"CREATE\"],\"resources\":["
         "\"persistentvolumes\"]}]},\"validations\":[{\"expression\":\"false\"}]}}");
    make(c, POLICY("ValidatingAdmissionPolicyBinding"),
         "{\"metadata\":{\"name\":\"none\"},\"spec\":{\"policyName\":\"none\","
         "\"validationActions\":["
         "\"Deny\"]}}");
    make(c, PVC(""), CLAIM_WITH("data", "3Gi", ""));
    select_node(c, "data", "n1");
    assert_phase(c, PVC("data"), "Pending");
    assert_true(count_events(c, "ProvisioningFailed") > 0);
}

TEST_VOLUMES(other_provisioners_are_told)
{
    make(c, CLASS(""), CLASS_JSON("csi", "false", "csi.example.com", "Immediate"));
    make(c, PVC(""), CLAIM_WITH("data", "3Gi", OF("csi")));
    (void)do_get(c->w, PVC("data"));
    assert_field(c->w, "metadata.annotations[volume.kubernetes.io/storage-provisioner]",
                 "csi.example.com");
    assert_true(count_events(c, "ExternalProvisioning") > 0);
}

// --- The default class ---------------------------------------------------------------------------

TEST_VOLUMES(claims_without_a_class_get_the_newest_default)
{
    make(c, PVC(""), CLAIM_WITH("early", "3Gi", ""));
    make(c, CLASS(""), CLASS_JSON("old", "true", "x.example.com", "WaitForFirstConsumer"));
    (void)do_get(c->w, PVC("early"));
    assert_field(c->w, "spec.storageClassName", "old"); // there was none before
    world_pass(c->w, 5);
    make(c, CLASS(""), CLASS_JSON("new", "true", "x.example.com", "WaitForFirstConsumer"));
    make(c, CLASS(""), CLASS_JSON("other", "false", "x.example.com", "WaitForFirstConsumer"));
    make(c, PVC(""), CLAIM_WITH("late", "3Gi", ""));
    (void)do_get(c->w, PVC("late"));
    assert_field(c->w, "spec.storageClassName", "new");
    make(c, PVC(""), CLAIM_WITH("plain", "3Gi", NOONE));
    (void)do_get(c->w, PVC("plain"));
    assert_field(c->w, "spec.storageClassName", "");
}

TEST_VOLUMES(an_older_annotation_counts_before_the_field)
{
    make(c, PV(""), VOLUME_WITH("plain", "3Gi", ONCE, ""));
    make(c, PV(""), VOLUME_WITH("fast", "3Gi", ONCE, OF("fast")));
    make(c, PVC(""),
         "{\"metadata\":{\"name\":\"none\",\"annotations\":{"
         "\"volume.beta.kubernetes.io/storage-class\":\"\"}},\"spec\":{\"accessModes\":[" ONCE
         "],\"resources\":{\"requests\":{\"storage\":\"1Gi\"}}" OF("fast") "}}");
    (void)do_get(c->w, PVC("none"));
    assert_field(c->w, "spec.volumeName", "plain"); // it says that there is no class
    make(c, CLASS(""), CLASS_JSON("local", "true", "x.example.com", "WaitForFirstConsumer"));
    make(c, PVC(""),
         "{\"metadata\":{\"name\":\"some\",\"annotations\":{"
         "\"volume.beta.kubernetes.io/storage-class\":\"fast\"}},\"spec\":{\"accessModes\":[" ONCE
         "],\"resources\":{\"requests\":{\"storage\":\"1Gi\"}}}}");
    (void)do_get(c->w, PVC("some"));
    assert_field(c->w, "spec.storageClassName", "-"); // and is class enough
    assert_field(c->w, "spec.volumeName", "fast");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_claim_gets_the_smallest_volume_that_fits),
        cmocka_unit_test(what_does_not_fit_is_not_taken),
        cmocka_unit_test(a_claim_may_name_its_volume),
        cmocka_unit_test(a_volume_that_goes_is_not_given),
        cmocka_unit_test(a_volume_may_be_reserved_for_a_claim),
        cmocka_unit_test(a_claim_that_waits_for_its_pod_is_bound_by_what_the_scheduler_says),
        cmocka_unit_test(the_reclaim_policy_says_what_becomes_of_a_volume),
        cmocka_unit_test(a_volume_whose_claim_went_elsewhere_is_let_go),
        cmocka_unit_test(a_claim_whose_volume_is_gone_is_lost),
        cmocka_unit_test(a_folder_is_made_on_the_node_that_was_chosen_and_goes_with_the_claim),
        cmocka_unit_test(a_node_that_is_gone_is_chosen_anew),
        cmocka_unit_test(what_a_folder_cannot_be_is_said),
        cmocka_unit_test(a_volume_that_the_server_does_not_take_is_said),
        cmocka_unit_test(other_provisioners_are_told),
        cmocka_unit_test(claims_without_a_class_get_the_newest_default),
        cmocka_unit_test(an_older_annotation_counts_before_the_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
