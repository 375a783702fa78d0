// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// --- Labels ------------------------------------------------------------------------------------------

func (g *generator) labelText() string {
	if g.chance(30) { // any tokens
		out := ""
		for i := g.rng.Intn(9); i > 0; i-- {
			out += g.pick("a", "b", "in", "notin", "=", "==", "!=", "!", "(", ")", ",", ">", "<", " ", "\t", "x.y/z", "-a", "1", "é", "=!", "a b")
		}
		return out
	}
	parts := []string{}
	for i := g.rng.Intn(4); i > 0; i-- {
		key := g.pick("a", "b", "c", "x.example.com/n", "in", "notin", "A_b.c", "-bad", "x/y/z", strings.Repeat("k", 64))
		value := g.pick("1", "2", "v", "", "in", "a.b", "-v", "3x", strings.Repeat("v", 64))
		set := value
		for n := g.rng.Intn(3); n > 0; n-- {
			set += "," + g.pick("1", "v", "", "z", "in")
		}
		parts = append(parts, g.pick(key, "!"+key, key+"="+value, key+"=="+value, key+" != "+value, key+" in ("+set+")",
			key+" notin ("+set+")", key+">"+value, key+" < "+value, key+"=", key+" in ()", "!"+key+"=1"))
	}
	return strings.Join(parts, g.pick(",", ", ", " ,"))
}

func (g *generator) labelSelector() {
	s := g.labelText()
	selector, err := labels.Parse(s)
	if err != nil {
		g.row("label", s, false, err.Error())
		return
	}
	sets, matches := []any{}, ""
	for i := 0; i < 4; i++ {
		set := map[string]string{}
		for n := g.rng.Intn(4); n > 0; n-- {
			set[g.pick("a", "b", "c", "in", "x.example.com/n", "A_b.c")] = g.pick("1", "2", "v", "", "in", "a.b", "3x", "-5", "+2")
		}
		sets = append(sets, set)
		if selector.Matches(labels.Set(set)) {
			matches += "1"
		} else {
			matches += "0"
		}
	}
	g.row("label", s, true, selector.String(), sets, matches)
}

// --- Fields ------------------------------------------------------------------------------------------

func (g *generator) fieldSelector() {
	out := ""
	for i := g.rng.Intn(4); i > 0; i-- {
		out += g.pick("metadata.name", "spec.nodeName", "status.phase", "spec.restartPolicy")
		out += g.pick("=", "==", "!=", "", "=!", "===")
		out += g.pick("a", "", `b\,c`, `d\=e`, `f\\g`, `bad\x`, "x=y", `end\`, "ü", "a!b", `\é`)
		out += g.pick(",", ",", ",,", "", ", ")
	}
	selector, err := fields.ParseSelector(out)
	if err != nil {
		g.row("field", out, false, err.Error())
		return
	}
	for _, r := range selector.Requirements() {
		switch r.Field {
		case "metadata.name", "spec.nodeName", "status.phase", "spec.restartPolicy":
		default:
			g.row("field", out, false, "field label not supported: "+r.Field)
			return
		}
	}
	g.row("field", out, true, selector.String())
}
