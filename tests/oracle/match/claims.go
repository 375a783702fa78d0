// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

func (g *generator) pointer(percent int, words ...string) *string {
	if !g.chance(percent) {
		return nil
	}
	s := g.pick(words...)
	return &s
}

func (g *generator) pod() *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: g.pick("ns", "ns", "other"), UID: types.UID(g.pick("u1", "u2"))}}
	if g.chance(60) {
		pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: g.pointer(85, "g1", "g2")}
	}
	for n := g.rng.Intn(3); n > 0; n-- {
		pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses,
			v1.PodResourceClaimStatus{Name: g.pick("e1", "e2"), ResourceClaimName: g.pointer(70, "made-1", "made-2")})
	}
	return pod
}

func (g *generator) entry() v1.PodResourceClaim {
	return v1.PodResourceClaim{Name: g.pick("e1", "e2"), ResourceClaimName: g.pointer(30, "c1", "c2"), ResourceClaimTemplateName: g.pointer(60, "t1", "t2")}
}

func (g *generator) claim() *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c1", Namespace: g.pick("ns", "ns", "ns", "other")}}
	for n := g.rng.Intn(3); n > 0; n-- {
		yes := g.chance(80)
		owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: types.UID(g.pick("u1", "u2")), Controller: &yes}
		if g.chance(70) {
			owner.APIVersion = g.pick("scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1", "scheduling.k8s.io", "example.com/v1")
			owner.Kind, owner.Name, owner.UID = g.pick("PodGroup", "PodGroup", "Workload"), g.pick("g1", "g2"), "ug"
		}
		if g.chance(10) {
			owner.Controller = nil
		}
		claim.OwnerReferences = append(claim.OwnerReferences, owner)
	}
	for n := g.rng.Intn(3); n > 0; n-- {
		r := resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "p", UID: types.UID(g.pick("u1", "u2", "u3"))}
		if g.chance(60) {
			r.APIGroup, r.Resource, r.Name, r.UID = g.pick("scheduling.k8s.io", "scheduling.k8s.io", "example.com", ""), g.pick("podgroups", "podgroups", "pods"), g.pick("g1", "g2"), "ug"
		}
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, r)
	}
	return claim
}

// name: a pod and one of its entries; which claim that is, and whether its owner must be checked.
func (g *generator) name() {
	pod, entry := g.pod(), g.entry()
	name, check, err := resourceclaim.Name(pod, &entry)
	switch {
	case errors.Is(err, resourceclaim.ErrAPIUnsupported):
		g.row("name", pod, entry, "unsupported", "", false)
	case errors.Is(err, resourceclaim.ErrClaimNotFound):
		g.row("name", pod, entry, "not created", "", false)
	case err != nil:
		panic(err)
	case name == nil:
		g.row("name", pod, entry, "not needed", "", false)
	default:
		g.row("name", pod, entry, "named", *name, check)
	}
}

// owner: a claim is for a pod, or with the second answer for its group.
func (g *generator) owner() {
	pod, claim := g.pod(), g.claim()
	g.row("owner", pod, claim, resourceclaim.IsForPod(pod, claim, false) == nil, resourceclaim.IsForPod(pod, claim, true) == nil)
}

// reserved: a claim is reserved for a pod, or with the second answer for its group.
func (g *generator) reserved() {
	pod, claim := g.pod(), g.claim()
	g.row("reserved", pod, claim, resourceclaim.IsReservedForPod(pod, claim, false), resourceclaim.IsReservedForPod(pod, claim, true))
}

// consumer: a pod, its group and an entry; for whom its claim is reserved.
func (g *generator) consumer() {
	pod, entry := g.pod(), g.entry()
	group := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "g1", Namespace: pod.Namespace, UID: "ug"}}
	name := "g1"
	pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
	if entry.ResourceClaimName == nil && entry.ResourceClaimTemplateName == nil {
		entry.ResourceClaimName = &name
	}
	for n := g.rng.Intn(3); n > 0; n-- {
		e := g.entry()
		if e.ResourceClaimName != nil || e.ResourceClaimTemplateName != nil {
			group.Spec.ResourceClaims = append(group.Spec.ResourceClaims, schedulingapi.PodGroupResourceClaim{Name: e.Name,
				ResourceClaimName: e.ResourceClaimName, ResourceClaimTemplateName: e.ResourceClaimTemplateName})
		}
	}
	r, err := resourceclaim.BindTo(pod, group, &entry)
	if err != nil {
		panic(err)
	}
	g.row("consumer", pod, group, entry, r)
}

// phase: a phase of a pod is its last.
func (g *generator) phase() {
	phase := g.pick("Pending", "Running", "Succeeded", "Failed", "Unknown", "", "succeeded")
	g.row("phase", phase, podutil.IsPodPhaseTerminal(v1.PodPhase(phase)))
}
