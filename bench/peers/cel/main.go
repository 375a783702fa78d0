// SPDX-License-Identifier: Apache-2.0

// The peer of bench_cel: the same selectors and device through Kubernetes' own DRA compiler. "compile" is parse,
// check, program and estimate; "eval" is the bare program on variables that are built beforehand.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/api/resource"
	apiservercel "k8s.io/apiserver/pkg/cel"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

const domain = `device.attributes["gpu.nvidia.com"]`

var selectors = []struct{ name, expr string }{
	{"driver", `device.driver == "gpu.nvidia.com"`},
	{"equality", `device.driver == "gpu.nvidia.com" && ` + domain + `.type == "gpu"`},
	{"quantity", `device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0`},
	{"semver", domain + `.driverVersion.isGreaterThan(semver("535.0.0")) && ` + domain + `.cudaComputeCapability.compareTo(semver("8.0.0")) >= 0`},
	{"string-regex", domain + `.productName.lowerAscii().matches("^.*a100.*$") && ` + domain + `.uuid.startsWith("GPU-")`},
	{"in-list", domain + `.architecture in ["Turing", "Ampere", "Ada Lovelace", "Hopper", "Blackwell"]`},
	{"macros", domain + `.links.exists(l, l == "nvlink2") && device.attributes["resource.kubernetes.io"].numaNodes.all(n, n >= 0 && n < 4)`},
	{"bind", `cel.bind(gpu, ` + domain + `, gpu.type == "gpu" && gpu.index < 4 && gpu.eccEnabled)`},
	{"has-optional", `has(` + domain + `.productName) && ` + domain + `.?brand.orValue("") == "Nvidia" && !device.attributes["other.example.com"].?vendor.hasValue()`},
}

// An outer map answers an empty map for a domain it does not have.
type withDefault struct {
	traits.Mapper
	empty ref.Val
}

func (m withDefault) Find(key ref.Val) (ref.Val, bool) {
	if v, ok := m.Mapper.Find(key); ok {
		return v, true
	}
	return m.empty, true
}

func version(s string) apiservercel.Semver {
	return apiservercel.Semver{Version: semver.MustParse(s)}
}

func quantity(s string) apiservercel.Quantity {
	q := resource.MustParse(s)
	return apiservercel.Quantity{Quantity: &q}
}

func variables(adapter types.Adapter) map[string]any {
	attributes := map[string]any{
		"gpu.nvidia.com": map[string]any{
			"type": "gpu", "uuid": "GPU-18db0e85-99e9-c746-8531-ffeb86328b39", "productName": "NVIDIA A100-SXM4-80GB",
			"brand": "Nvidia", "architecture": "Ampere", "cudaComputeCapability": version("8.0.0"),
			"driverVersion": version("550.54.15"), "cudaDriverVersion": version("12.4.0"), "index": int64(3), "minor": int64(3),
			"eccEnabled": true, "links": []string{"nvlink0", "nvlink1", "nvlink2", "nvlink3"},
		},
		"resource.kubernetes.io": map[string]any{"pcieRoot": "pci0000:00", "numaNodes": []int64{0, 1}},
	}
	capacity := map[string]any{"gpu.nvidia.com": map[string]apiservercel.Quantity{
		"memory": quantity("80Gi"), "multiprocessors": quantity("108"), "copyEngines": quantity("7")}}
	empty := adapter.NativeToValue(map[string]any{})
	return map[string]any{"device": map[string]any{
		"driver": "gpu.nvidia.com", "allowMultipleAllocations": false,
		"attributes": withDefault{types.NewStringInterfaceMap(adapter, attributes), empty},
		"capacity":   withDefault{types.NewStringInterfaceMap(adapter, capacity), empty},
	}}
}

func measure(name string, body func()) {
	best, first := 0.0, time.Now()
	for round := 0; round < 5 || time.Since(first) < 300*time.Millisecond; round++ {
		start, runs := time.Now(), 0
		for time.Since(start) < 2*time.Millisecond {
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
	compiler := dracel.GetCompiler(dracel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	for _, s := range selectors {
		result := compiler.CompileCELExpression(s.expr, dracel.Options{})
		if result.Error != nil {
			fmt.Fprintln(os.Stderr, s.name, result.Error)
			os.Exit(1)
		}
		vars := variables(result.Environment.CELTypeAdapter())
		ctx := context.Background()
		if v, _, err := result.Program.ContextEval(ctx, vars); err != nil || !strings.HasPrefix(fmt.Sprint(v), "true") {
			fmt.Fprintln(os.Stderr, s.name, v, err)
			os.Exit(1)
		}
		measure("compile "+s.name, func() { compiler.CompileCELExpression(s.expr, dracel.Options{}) })
		measure("eval "+s.name, func() { _, _, _ = result.Program.ContextEval(ctx, vars) })
	}
}
