// SPDX-License-Identifier: Apache-2.0

// Asks sigs.k8s.io/yaml, which is what kubectl reads and writes YAML with, what it makes of the
// cases in cases.go. With "read", prints one JSON object a line: {"yaml": input, "json": answer} or
// {"yaml": input, "error": message}; with "write", {"json": input, "yaml": answer}; with "doubles",
// bit patterns and the texts of encoding/json. With "-", answers {"yaml": ...} lines from standard
// input. Run from this folder; see README.md.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"os"

	"sigs.k8s.io/yaml"
)

type row struct {
	YAML  string `json:"yaml"`
	JSON  string `json:"json,omitempty"`
	Error string `json:"error,omitempty"`
}

func read(in string) row {
	out, err := yaml.YAMLToJSON([]byte(in))
	if err != nil {
		return row{YAML: in, Error: err.Error()}
	}
	return row{YAML: in, JSON: string(out)}
}

func write(in string) row {
	out, err := yaml.JSONToYAML([]byte(in))
	if err != nil {
		return row{JSON: in, Error: err.Error()}
	}
	return row{JSON: in, YAML: string(out)}
}

func printRow(r row) {
	enc := json.NewEncoder(os.Stdout)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		panic(err)
	}
}

func printDouble(bits uint64) {
	f := math.Float64frombits(bits)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return
	}
	text, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%016x %s\n", bits, text)
}

func doubles() {
	for _, f := range []float64{0, math.Copysign(0, -1), 1, -1, 0.1, 1e-6, 9.99e-7, 1e-7, 1e20, 1e21, 1.5e21,
		123456789, 1e5, 123456.789, math.MaxFloat64, math.SmallestNonzeroFloat64, 2.2250738585072014e-308,
		9007199254740992, 9007199254740993, 5e-324, 0.3, 100, 1e22, 1e23, 4.35, 2.5e-5} {
		printDouble(math.Float64bits(f))
	}
	for e := -1074; e <= 1023; e += 7 { // powers of two, where the gaps around a number differ
		printDouble(math.Float64bits(math.Ldexp(1, e)))
	}
	r := rand.New(rand.NewSource(1))
	for i := 0; i < 600; i++ {
		printDouble(r.Uint64())
	}
	for i := 0; i < 300; i++ { // of everyday size
		printDouble(math.Float64bits(float64(r.Intn(1000000)) / math.Pow(10, float64(r.Intn(12)))))
	}
}

func main() {
	mode := ""
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	switch mode {
	case "read":
		for _, in := range readCases() {
			printRow(read(in))
		}
	case "write":
		for _, in := range writeCases() {
			printRow(write(in))
		}
	case "doubles":
		doubles()
	case "-":
		in := bufio.NewScanner(os.Stdin)
		in.Buffer(nil, 64<<20)
		for in.Scan() {
			var r row
			if err := json.Unmarshal(in.Bytes(), &r); err != nil {
				panic(err)
			}
			if r.JSON != "" {
				printRow(write(r.JSON))
			} else {
				printRow(read(r.YAML))
			}
		}
	default:
		fmt.Fprintln(os.Stderr, "usage: oracle read|write|doubles|-")
		os.Exit(2)
	}
}
