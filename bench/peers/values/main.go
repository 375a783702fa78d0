// SPDX-License-Identifier: Apache-2.0

// Quantities and versions as Kubernetes' own packages handle them; the same texts as bench/bench_values.c.
package main

import (
	"fmt"
	"time"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	rounds  = 5 // at the least; more while allNs are not over
	roundNs = 2 * time.Millisecond
	allNs   = 300 * time.Millisecond
)

var sink any

func bench(name string, body func()) {
	best, first := 0.0, time.Now()
	for round := 0; round < rounds || time.Since(first) < allNs; round++ {
		runs, start := 0, time.Now()
		for time.Since(start) < roundNs {
			for i := 0; i < 64; i++ {
				body()
			}
			runs += 64
		}
		if each := float64(time.Since(start).Nanoseconds()) / float64(runs); round == 0 || each < best {
			best = each
		}
	}
	fmt.Printf("{\"name\":%q,\"ns\":%.3f}\n", name, best)
}

func main() {
	for _, text := range []string{"80Gi", "100m", "4", "1.5", "12e6", "81920Mi", "1.5Gi", "2Pi"} {
		var q resource.Quantity
		bench("quantity parse "+text, func() { q, _ = resource.ParseQuantity(text) })
		sink = q
	}
	a, b := resource.MustParse("80Gi"), resource.MustParse("81920Mi")
	var c int
	bench("quantity cmp", func() { c += a.Cmp(b) })
	buf := make([]byte, 0, 32)
	bench("quantity write 1536Mi", func() { b.CanonicalizeBytes(buf) })
	var v semver.Version
	bench("semver parse 12.4.1-rc.1", func() { v, _ = semver.Parse("12.4.1-rc.1") })
	sink = []any{c, v}
}
