// SPDX-License-Identifier: Apache-2.0

// The ResourceSlice of bench/bench_api.c, decoded and encoded by the serializers that client-go uses.
package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

const (
	rounds  = 5 // at the least; more while allNs are not over
	roundNs = 2 * time.Millisecond
	allNs   = 300 * time.Millisecond
)

func bench(name string, body func()) {
	best, first := 0.0, time.Now()
	for round := 0; round < rounds || time.Since(first) < allNs; round++ {
		runs, start := 0, time.Now()
		for time.Since(start) < roundNs {
			body()
			runs++
		}
		if each := float64(time.Since(start).Nanoseconds()) / float64(runs); round == 0 || each < best {
			best = each
		}
	}
	fmt.Printf("{\"name\":%q,\"ns\":%.3f}\n", name, best)
}

func slice() string {
	var b strings.Builder
	b.WriteString(`{"kind":"ResourceSlice","apiVersion":"resource.k8s.io/v1","metadata":{"name":"node-1-gpu.example.com-abcde","generation":1},"spec":{"driver":"gpu.example.com","pool":{"name":"node-1","generation":1,"resourceSliceCount":1},"nodeName":"node-1","devices":[`)
	for d := 0; d < 128; d++ {
		if d > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `{"name":"gpu-%03d","attributes":{`, d)
		for a := 0; a < 12; a++ {
			if a > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(&b, `"attribute%02d":`, a)
			switch a % 4 {
			case 0:
				fmt.Fprintf(&b, `{"int":%d}`, d*a)
			case 1:
				fmt.Fprintf(&b, `{"bool":%v}`, d&1 == 1)
			case 2:
				fmt.Fprintf(&b, `{"string":"value-%d-of-device-%d"}`, a, d)
			default:
				fmt.Fprintf(&b, `{"version":"%d.%d.0"}`, a, d)
			}
		}
		b.WriteString(`},"capacity":{"memory":{"value":"80Gi"}}}`)
	}
	b.WriteString("]}}")
	return b.String()
}

func main() {
	scheme := runtime.NewScheme()
	if err := resourceapi.AddToScheme(scheme); err != nil {
		panic(err)
	}
	asJSON := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{})
	asProto := protobuf.NewSerializer(scheme, scheme)
	text := []byte(slice())
	object, _, err := asJSON.Decode(text, nil, nil)
	if err != nil {
		panic(err)
	}
	var wire bytes.Buffer
	if err := asProto.Encode(object, &wire); err != nil {
		panic(err)
	}
	bench("slice from JSON", func() {
		if _, _, err := asJSON.Decode(text, nil, nil); err != nil {
			panic(err)
		}
	})
	var out bytes.Buffer
	bench("slice to JSON", func() { out.Reset(); _ = asJSON.Encode(object, &out) })
	bench("slice from protobuf", func() {
		if _, _, err := asProto.Decode(wire.Bytes(), nil, nil); err != nil {
			panic(err)
		}
	})
	bench("slice to protobuf", func() { out.Reset(); _ = asProto.Encode(object, &out) })
	bench("slice deep copy", func() { object.DeepCopyObject() })
}
