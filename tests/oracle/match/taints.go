// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/admission"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	core "k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper"
	"k8s.io/kubernetes/pkg/util/tolerations"
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
)

var (
	effects = []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}
	amounts = []string{"5", "7", "", "v", "-3", "05", "+5", "-0", "0", "9223372036854775808"}
)

func (g *generator) toleration() v1.Toleration {
	t := v1.Toleration{Key: g.pick("a", "a", "b", ""), Operator: v1.TolerationOperator(g.pick("Exists", "Equal", "", "Gt", "Lt")),
		Value: g.pick(amounts...), Effect: v1.TaintEffect(g.pick(append(effects, "", "NoExecute")...))}
	if g.chance(3) {
		t.Operator = "exists"
	}
	if g.chance(40) {
		seconds := int64(g.rng.Intn(5) - 1)
		t.TolerationSeconds = &seconds
	}
	return t
}

func (g *generator) nodeTaint(effect string) v1.Taint {
	return v1.Taint{Key: g.pick("a", "a", "b"), Value: g.pick(amounts...), Effect: v1.TaintEffect(effect)}
}

// taint: a toleration and a taint.
func (g *generator) taint() {
	t, taint := g.toleration(), g.nodeTaint(g.pick(effects...))
	if g.chance(50) { // nothing but the value is left to decide
		t.Key, t.Effect = "", ""
	}
	g.row("taint", t, taint, t.ToleratesTaint(klog.Background(), &taint, true))
}

// evicts: the tolerations of a pod and a taint that evicts; the seconds until then, -1 for never.
func (g *generator) evicts() {
	all, taint := []v1.Toleration{}, g.nodeTaint("NoExecute")
	for n := g.rng.Intn(4); n > 0; n-- {
		t := g.toleration()
		if g.chance(60) { // several that match
			t.Key, t.Operator, t.Effect = g.pick("a", ""), "Exists", v1.TaintEffect(g.pick("NoExecute", ""))
		}
		all = append(all, t)
	}
	tolerated, used := helper.GetMatchingTolerations(klog.Background(), []v1.Taint{taint}, all)
	seconds := int64(0)
	if tolerated && used[0].TolerationSeconds == nil {
		seconds = -1
	} else if tolerated {
		seconds = max(*used[0].TolerationSeconds, 0)
	}
	g.row("evicts", all, taint, seconds)
}

func internal(t v1.Toleration) core.Toleration {
	out := core.Toleration{}
	if err := corev1.Convert_v1_Toleration_To_core_Toleration(&t, &out, nil); err != nil {
		panic(err)
	}
	return out
}

// covers: two tolerations; the first tolerates all that the second does.
func (g *generator) covers() {
	by, t := g.toleration(), g.toleration()
	if g.chance(50) {
		t.Key, t.Value = by.Key, by.Value
	}
	if g.chance(50) {
		t.Effect = by.Effect
	}
	g.row("covers", by, t, tolerations.VerifyAgainstWhitelist([]core.Toleration{internal(t)}, []core.Toleration{internal(by)}))
}

// defaulted: the tolerations of a pod; whether admission takes it that they speak of nodes that are not ready.
func (g *generator) defaulted() {
	plugin := defaulttolerationseconds.NewDefaultTolerationSeconds()
	plugin.InspectFeatureGates(utilfeature.DefaultFeatureGate)
	all, pod := []v1.Toleration{}, &core.Pod{}
	for n := g.rng.Intn(3); n > 0; n-- {
		t := g.toleration()
		t.Key = g.pick(v1.TaintNodeNotReady, v1.TaintNodeUnreachable, "a", "")
		all = append(all, t)
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, internal(t))
	}
	attributes := admission.NewAttributesRecord(pod, nil, core.Kind("Pod").WithVersion("version"), "", "", core.Resource("pods").WithVersion("version"), "",
		admission.Create, nil, false, nil)
	if err := plugin.Admit(context.Background(), attributes, nil); err != nil {
		panic(err)
	}
	named := true
	for _, t := range pod.Spec.Tolerations[len(all):] {
		named = named && t.Key != v1.TaintNodeNotReady
	}
	g.row("defaulted", all, named)
}

// device: a toleration of a claim and a taint of a device.
func (g *generator) device() {
	t := resourceapi.DeviceToleration{Key: g.pick("a", "a", "b", ""), Operator: resourceapi.DeviceTolerationOperator(g.pick("Exists", "Equal", "", "Gt")),
		Value: g.pick("", "v", "w"), Effect: resourceapi.DeviceTaintEffect(g.pick("NoSchedule", "NoExecute", ""))}
	taint := resourceapi.DeviceTaint{Key: g.pick("a", "a", "b"), Value: g.pick("", "v", "w"),
		Effect: resourceapi.DeviceTaintEffect(g.pick("NoSchedule", "NoExecute", "None"))}
	g.row("device", t, taint, resourceclaim.ToleratesTaint(t, taint))
}
