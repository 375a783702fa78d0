// SPDX-License-Identifier: Apache-2.0

// Random patches and selectors with the answers of Kubernetes' own packages, one JSON array a line. See
// README.md.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

type generator struct {
	rng *rand.Rand
	out *bufio.Writer
}

func (g *generator) chance(percent int) bool { return g.rng.Intn(100) < percent }

func (g *generator) pick(words ...string) string { return words[g.rng.Intn(len(words))] }

// row writes one line.
func (g *generator) row(parts ...any) {
	line, err := json.Marshal(parts)
	if err != nil {
		panic(err)
	}
	g.out.Write(line)
	g.out.WriteByte('\n')
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// --- Any JSON ----------------------------------------------------------------------------------------

func (g *generator) key() string { return g.pick("a", "b", "c", "d", "x/y", "m~n", "0", "1", "") }

func (g *generator) value(depth int) any {
	n := g.rng.Intn(9)
	if depth > 3 {
		n = g.rng.Intn(5)
	}
	switch n {
	case 0:
		return nil
	case 1:
		return g.chance(50)
	case 2:
		return g.rng.Intn(3)
	case 3, 4:
		return g.pick("a", "b", "text", "")
	case 5, 6:
		list := make([]any, g.rng.Intn(4))
		for i := range list {
			list[i] = g.value(depth + 1)
		}
		return list
	default:
		return g.object(depth)
	}
}

func (g *generator) object(depth int) map[string]any {
	m := map[string]any{}
	for i := g.rng.Intn(5); i > 0; i-- {
		m[g.key()] = g.value(depth + 1)
	}
	return m
}

// --- JSON patch --------------------------------------------------------------------------------------

func escape(key string) string {
	out := ""
	for _, c := range key {
		switch c {
		case '~':
			out += "~0"
		case '/':
			out += "~1"
		default:
			out += string(c)
		}
	}
	return out
}

// path walks into v; now and then it goes astray.
func (g *generator) path(v any) string {
	out := ""
	for depth := 0; depth < 5; depth++ {
		if depth > 0 && g.chance(30) {
			return out
		}
		switch t := v.(type) {
		case map[string]any:
			key := g.key()
			if g.chance(85) {
				for k := range t {
					key = k
					if g.chance(50) {
						break
					}
				}
			}
			out += "/" + escape(key)
			v = t[key]
		case []any:
			switch {
			case len(t) > 0 && g.chance(70):
				i := g.rng.Intn(len(t))
				out += fmt.Sprintf("/%d", i)
				v = t[i]
			case g.chance(30):
				return out + "/-"
			default:
				return out + "/" + g.pick("-1", "-9", "7", "+0", "01", "x", "", fmt.Sprint(len(t)), "99999999999999999999")
			}
		default:
			if g.chance(20) {
				out += "/a"
			}
			return out
		}
	}
	return out
}

func (g *generator) operation(doc any) map[string]any {
	op := map[string]any{"op": g.pick("add", "add", "remove", "replace", "replace", "move", "copy", "test", "test"), "path": g.path(doc)}
	switch op["op"] {
	case "move", "copy":
		op["from"] = g.path(doc)
	case "test":
		op["value"] = g.value(2)
		if g.chance(60) {
			op["path"], op["value"] = g.real(doc)
		}
	case "add", "replace":
		// Upstream takes a null that an operation put there for something else than one that was there, when a
		// later test looks at what holds it.
		for op["value"] == nil {
			op["value"] = g.value(2)
		}
	}
	if g.chance(3) {
		op["op"] = g.pick("", "unknown", "Add")
	}
	if g.chance(3) {
		delete(op, g.pick("op", "path", "from", "value"))
	}
	if g.chance(2) {
		op["path"] = g.pick("", "a", "a/b", "/", "//")
	}
	return op
}

// real finds a path and what stands there.
func (g *generator) real(doc any) (string, any) {
	m, ok := doc.(map[string]any)
	path := ""
	for ok && len(m) > 0 {
		for k, v := range m {
			path += "/" + escape(k)
			doc = v
			break
		}
		if g.chance(50) {
			break
		}
		m, ok = doc.(map[string]any)
	}
	return path, doc
}

// quiet runs a library call; false when it panics, which upstream's libraries do for some patches.
func quiet(call func()) (ok bool) {
	defer func() { ok = recover() == nil }()
	call()
	return
}

func (g *generator) jsonPatch() {
	doc := g.object(0)
	before := text(doc)
	ops := []any{}
	for i := 1 + g.rng.Intn(4); i > 0; i-- {
		ops = append(ops, g.operation(doc))
	}
	patch := text(ops)
	if g.chance(1) {
		patch = g.pick("null", "{}", "[1]", "[null]", "3", `[{"op":1}]`)
	}
	p, err := jsonpatch.DecodePatch([]byte(patch))
	if err != nil {
		g.row("json", "", before, patch, "400", "")
		return
	}
	var result []byte
	if !quiet(func() { result, err = p.Apply([]byte(before)) }) {
		return
	}
	if err != nil {
		g.row("json", "", before, patch, "422", err.Error())
		return
	}
	g.row("json", "", before, patch, "200", string(result))
}

func (g *generator) mergePatch() {
	before, patch := text(g.object(0)), text(g.object(0))
	if g.chance(2) {
		patch = g.pick("null", "[]", "1", `["a",null]`, `{"a":{"b":null,"c":[{"d":null}]}}`)
	}
	result, err := jsonpatch.MergePatch([]byte(before), []byte(patch))
	if err != nil {
		g.row("merge", "", before, patch, "400", err.Error())
		return
	}
	g.row("merge", "", before, patch, "200", string(result))
}

func main() {
	seed := flag.Int64("seed", 1, "seed of the random rows")
	rows := flag.Int("rows", 2000, "how many rows of each kind")
	flag.Parse()
	jsonpatch.AccumulatedCopySizeLimit = 3 * 1024 * 1024
	g := &generator{rand.New(rand.NewSource(*seed)), bufio.NewWriter(os.Stdout)}
	defer g.out.Flush()
	for i := 0; i < *rows; i++ {
		g.jsonPatch()
		g.mergePatch()
		g.strategicPatch()
		g.labelSelector()
		g.fieldSelector()
	}
}
