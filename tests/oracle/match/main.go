// SPDX-License-Identifier: Apache-2.0

// Random questions about selectors, taints and claims with the answers of Kubernetes' own packages,
// one JSON array a line. See README.md.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"os"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	_ "k8s.io/kubernetes/pkg/features"
)

type generator struct {
	rng *rand.Rand
	out *bufio.Writer
}

func (g *generator) chance(percent int) bool { return g.rng.Intn(100) < percent }

func (g *generator) pick(words ...string) string { return words[g.rng.Intn(len(words))] }

// some is up to most of the words; nil if it is none of them.
func (g *generator) some(most int, words ...string) []string {
	var out []string
	for n := g.rng.Intn(most + 1); n > 0; n-- {
		out = append(out, g.pick(words...))
	}
	return out
}

// row writes one line.
func (g *generator) row(parts ...any) {
	line, err := json.Marshal(parts)
	if err != nil {
		panic(err)
	}
	g.out.Write(line)
	g.out.WriteByte('\n')
}

// answer is that of a selector: "invalid" if it cannot be read.
func answer(matches bool, err error) string {
	switch {
	case err != nil:
		return "invalid"
	case matches:
		return "yes"
	}
	return "no"
}

func main() {
	rows := flag.Int("rows", 1000, "how many of each kind")
	seed := flag.Int64("seed", 1, "seed of the random numbers")
	flag.Parse()
	if err := utilfeature.DefaultMutableFeatureGate.Set("TaintTolerationComparisonOperators=true"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	quiet := flag.NewFlagSet("klog", flag.PanicOnError) // every value that is no number is logged
	klog.InitFlags(quiet)
	_ = quiet.Parse([]string{"-logtostderr=false", "-stderrthreshold=FATAL"})
	klog.SetOutput(io.Discard)
	g := &generator{rand.New(rand.NewSource(*seed)), bufio.NewWriter(os.Stdout)}
	defer g.out.Flush()
	kinds := []func(){g.labels, g.syntax, g.nodes, g.required, g.taint, g.evicts, g.covers, g.defaulted, g.device,
		g.name, g.owner, g.reserved, g.consumer, g.phase}
	for i := 0; i < *rows; i++ {
		for _, kind := range kinds {
			kind()
		}
	}
}
