// SPDX-License-Identifier: Apache-2.0

package main

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

var (
	keys   = []string{"a", "b", "c", "x.example.com/n"}
	values = []string{"1", "2", "v", "", "7", "007"}
)

// set is the labels of an object. Numbers of all kinds that Go reads, and some that it does not.
func (g *generator) set() map[string]string {
	out := map[string]string{}
	for n := g.rng.Intn(5); n > 0; n-- {
		out[g.pick(keys...)] = g.pick("1", "2", "v", "", "7", "007", "3x", "-5", "+7", "+7", "9223372036854775808")
	}
	if g.chance(30) {
		out["a"] = g.pick("+7", "7", "-7")
	}
	if g.chance(5) { // more than are looked at one by one
		for i := 0; i < 20; i++ {
			out[g.pick("d", "e", "f", "g", "h")+g.pick("", "1", "2", "3", "4")] = g.pick(values...)
		}
	}
	return out
}

func (g *generator) labelSelector(keys, values []string) *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	for n := g.rng.Intn(3); n > 0; n-- {
		if s.MatchLabels == nil {
			s.MatchLabels = map[string]string{}
		}
		s.MatchLabels[g.pick(keys...)] = g.pick(values...)
	}
	for n := g.rng.Intn(3); n > 0; n-- {
		op := g.pick("In", "NotIn", "Exists", "DoesNotExist")
		if g.chance(5) {
			op = g.pick("Gt", "in", "", "Equal")
		}
		r := metav1.LabelSelectorRequirement{Key: g.pick(keys...), Operator: metav1.LabelSelectorOperator(op)}
		if op == "In" || op == "NotIn" || g.chance(5) {
			r.Values = g.some(3, values...)
		}
		s.MatchExpressions = append(s.MatchExpressions, r)
	}
	return s
}

// labels: a LabelSelector and labels.
func (g *generator) labels() {
	var s *metav1.LabelSelector
	if !g.chance(6) {
		s = g.labelSelector(keys, values)
	}
	set := g.set()
	selector, err := metav1.LabelSelectorAsSelector(s)
	g.row("labels", s, set, answer(err == nil && selector.Matches(labels.Set(set)), err))
}

// syntax: the same with keys and values that validation refuses.
func (g *generator) syntax() {
	s := g.labelSelector([]string{"a", "b", "-a", "x/y/z", ""}, []string{"1", "v", "-v", "v v"})
	set := g.set()
	selector, err := metav1.LabelSelectorAsSelector(s)
	g.row("syntax", s, set, answer(err == nil && selector.Matches(labels.Set(set)), err))
}

func (g *generator) requirement() v1.NodeSelectorRequirement {
	op := g.pick("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
	if g.chance(8) {
		op = g.pick("in", "", "Equal")
	}
	r := v1.NodeSelectorRequirement{Key: g.pick(keys...), Operator: v1.NodeSelectorOperator(op)}
	switch {
	case op == "Gt" || op == "Lt":
		r.Key, r.Values = g.pick("a", "a", "b"), []string{g.pick("1", "6", "7", "06", "0")}
		if g.chance(8) {
			r.Values = g.some(2, "1", "v", "3x")
		}
	case op == "In" || op == "NotIn" || g.chance(4):
		r.Values = g.some(3, values...)
	}
	return r
}

func (g *generator) field() v1.NodeSelectorRequirement {
	r := v1.NodeSelectorRequirement{Key: "metadata.name", Operator: v1.NodeSelectorOperator(g.pick("In", "NotIn")),
		Values: []string{g.pick("n1", "n2", "")}}
	if g.chance(5) {
		r.Key = "metadata.uid"
	}
	if g.chance(4) {
		r.Operator = v1.NodeSelectorOperator(g.pick("Exists", "Gt", ""))
	}
	if g.chance(4) {
		r.Values = g.some(2, "n1", "n2")
	}
	return r
}

func (g *generator) nodeSelector() *v1.NodeSelector {
	s := &v1.NodeSelector{}
	for n := g.rng.Intn(3); n >= 0; n-- {
		term := v1.NodeSelectorTerm{}
		for k := g.rng.Intn(4); k > 0; k-- {
			term.MatchExpressions = append(term.MatchExpressions, g.requirement())
		}
		for k := g.rng.Intn(2); k > 0; k-- {
			term.MatchFields = append(term.MatchFields, g.field())
		}
		s.NodeSelectorTerms = append(s.NodeSelectorTerms, term)
	}
	return s
}

func (g *generator) node() *v1.Node {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: g.pick("n1", "n2", "n3"), Labels: g.set()}}
	if g.chance(3) {
		node.Name = ""
	}
	return node
}

// nodes: a node selector and a node; the answer for pods and volumes, the answer for devices.
func (g *generator) nodes() {
	s, node := g.nodeSelector(), g.node()
	lazy := answer(nodeaffinity.NewLazyErrorNodeSelector(s).Match(node))
	strict, err := nodeaffinity.NewNodeSelector(s)
	g.row("nodes", s, node.Name, node.Labels, lazy, answer(err == nil && strict.Match(node), err))
}

// required: the node selector and the required affinity of a pod. Parse errors are no matches wherever it is asked.
func (g *generator) required() {
	spec := v1.PodSpec{}
	if g.chance(50) {
		spec.NodeSelector = map[string]string{g.pick(keys...): g.pick(values...)}
	}
	if g.chance(70) {
		spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: g.nodeSelector()}}
	} else if g.chance(30) {
		spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{}}
	}
	node := g.node()
	matches, _ := nodeaffinity.GetRequiredNodeAffinity(&v1.Pod{Spec: spec}).Match(node)
	g.row("required", spec, node.Name, node.Labels, answer(matches, nil))
}
