// SPDX-License-Identifier: Apache-2.0

// Random CDI specs and container configurations with the answers of the CDI library. See README.md.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"go.yaml.in/yaml/v3"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

type object = map[string]any

type row struct {
	Spec       string          `json:"spec"`
	Names      []string        `json:"names"`
	Config     json.RawMessage `json:"config"`
	Read       bool            `json:"read"`
	Min        string          `json:"min,omitempty"`
	Accepted   bool            `json:"accepted"`
	Unresolved []string        `json:"unresolved,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	Why        string          `json:"why,omitempty"`
}

type generator struct{ rng *rand.Rand }

func (g *generator) chance(percent int) bool { return g.rng.Intn(100) < percent }

func (g *generator) pick(words ...any) any { return words[g.rng.Intn(len(words))] }

func (g *generator) list(max int, item func() any) []any {
	out := []any{}
	for n := g.rng.Intn(max + 1); n > 0; n-- {
		out = append(out, item())
	}
	return out
}

// good picks mostly from the first list, rarely from what is odd or wrong.
func (g *generator) good(right []any, odd ...any) any {
	if len(odd) > 0 && g.chance(2) {
		return g.pick(odd...)
	}
	return g.pick(right...)
}

// maybe sets a member with some probability.
func (g *generator) maybe(o object, percent int, key string, value func() any) {
	if g.chance(percent) {
		o[key] = value()
	}
}

func (g *generator) env() any {
	return g.good([]any{"A=1", "B=2", "A=3", "PATH=/x", "EMPTY=", "C=a=b"}, "A", "=x", "", 5, true, nil)
}

func (g *generator) path() any {
	return g.good([]any{"/a", "/a/b", "/c", "/", "/a/../c/d", "x/y", "/a//b/", "/c/d/e", "."}, "", 7, nil)
}

func (g *generator) node() any {
	o := object{"path": g.good([]any{"/dev/null", "/dev/zero", "/dev/x", "/dev/y"}, "", 3)}
	g.maybe(o, 80, "hostPath", func() any { return g.good([]any{"/dev/null", "/dev/zero"}, "/dev/missing-x", "/") })
	if g.chance(40) {
		o["type"] = g.good([]any{"c", "c", "p", "b"}, "u", "d", "", "cc")
		o["major"] = g.good([]any{1, 195, 7}, 0, -1, "1", int64(1)<<40)
	}
	g.maybe(o, 40, "minor", func() any { return g.pick(0, 3, 255) })
	g.maybe(o, 30, "fileMode", func() any { return g.good([]any{0, 0o666, 0o600}, -1, int64(1)<<32) })
	g.maybe(o, 40, "permissions", func() any { return g.good([]any{"r", "rw", "rwm", "none", "mm", ""}, "x", "rxw", "NONE") })
	g.maybe(o, 20, "uid", func() any { return g.good([]any{0, 5}, -1, "5") })
	g.maybe(o, 20, "gid", func() any { return g.good([]any{0, 6, int64(4294967295)}, int64(4294967296)) })
	g.odd(o)
	return o
}

func (g *generator) mount() any {
	o := object{"hostPath": g.path(), "containerPath": g.path()}
	g.maybe(o, 60, "options", func() any { return g.list(3, func() any { return g.pick("ro", "bind", "rbind", "idmap", "ridmap") }) })
	g.maybe(o, 30, "type", func() any { return g.pick("bind", "tmpfs", "none", "") })
	g.odd(o)
	return o
}

func (g *generator) hook() any {
	o := object{
		"hookName": g.good([]any{"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}, "", "Prestart", "before"),
		"path":     g.good([]any{"/h", "/i"}, "", nil),
	}
	g.maybe(o, 40, "args", func() any { return g.list(2, func() any { return g.pick("a", "b", 1, 0x1F, 1.5, true, "") }) })
	g.maybe(o, 30, "env", func() any { return g.list(2, g.env) })
	g.maybe(o, 30, "timeout", func() any { return g.good([]any{0, 5, -1}, "5", true) })
	g.odd(o)
	return o
}

func (g *generator) rdt() any {
	o := object{}
	g.maybe(o, 60, "closID", func() any {
		return g.good([]any{"c", "d", "/", "..."}, ".", "..", "a/b", "a\nb", strings.Repeat("x", 4096))
	})
	g.maybe(o, 30, "l3CacheSchema", func() any { return "L3:0=f" })
	g.maybe(o, 30, "memBwSchema", func() any { return "MB:0=10" })
	g.maybe(o, 30, "schemata", func() any { return g.list(2, func() any { return g.pick("L3:0=1", "MB:0=5") }) })
	g.maybe(o, 30, "enableMonitoring", func() any { return g.good([]any{true, false}, "true", 1) })
	g.odd(o)
	return o
}

func (g *generator) netDevice() any {
	o := object{"hostInterfaceName": g.good([]any{"eth1", "eth2", "eth3", "eth4"}, ""), "name": g.good([]any{"n1", "n2", "n3", "n4"}, "")}
	g.odd(o)
	return o
}

// odd makes an object wrong, rarely.
func (g *generator) odd(o object) {
	if g.chance(1) {
		o[g.pick("bogus", "Path", "hostpath").(string)] = g.pick(nil, "x", 1)
	}
}

func (g *generator) edits() any {
	o := object{}
	g.maybe(o, 60, "env", func() any { return g.list(3, g.env) })
	g.maybe(o, 40, "deviceNodes", func() any { return g.list(2, g.node) })
	g.maybe(o, 15, "netDevices", func() any { return g.list(2, g.netDevice) })
	g.maybe(o, 30, "hooks", func() any { return g.list(2, g.hook) })
	g.maybe(o, 40, "mounts", func() any { return g.list(3, g.mount) })
	g.maybe(o, 15, "intelRdt", g.rdt)
	g.maybe(o, 20, "additionalGids", func() any { return g.list(3, func() any { return g.good([]any{0, 5, 6, 44}, -1, "5") }) })
	g.odd(o)
	if g.chance(2) {
		o[g.pick("env", "mounts", "hooks", "intelRdt").(string)] = g.pick(nil, "x", 5, []any{}, object{})
	}
	return o
}

func (g *generator) annotations() any {
	return g.pick(object{}, object{"a": "b"}, object{"Not/A/key": "v", "n": 5}, object{"x": nil}, object{"": "y"})
}

func (g *generator) device() any {
	o := object{"name": g.good([]any{"a", "b", "gpu0", "0", "1:2", "x_y-z.1", 7}, "", "-a", "a-", "ä", "a/b", "a=b"), "containerEdits": g.edits()}
	if edits := o["containerEdits"].(object); edits["env"] == nil && g.chance(95) {
		edits["env"] = []any{"D=1"}
	}
	g.maybe(o, 10, "annotations", g.annotations)
	g.odd(o)
	return o
}

func (g *generator) version() any {
	if g.chance(70) {
		return g.pick("1.1.0", "v1.1.0")
	}
	return g.good([]any{"1.0.0", "0.8.0", "0.7.0", "0.6.0", "0.5.0", "0.4.0", "0.3.0"}, "0.2.0", "0.1.0", "1.2.0", "", "vv1.0.0", 1.1)
}

// rename gives devices names of their own, mostly.
func (g *generator) rename(devices []any) {
	seen := map[any]bool{}
	for i, d := range devices {
		o := d.(object)
		if seen[o["name"]] && g.chance(95) {
			o["name"] = fmt.Sprintf("%v%d", o["name"], i)
		}
		seen[o["name"]] = true
	}
}

func (g *generator) spec() object {
	o := object{
		"cdiVersion": g.version(),
		"kind":       g.good([]any{"vendor.com/gpu", "v/c", "v.w/c.d", "V_1/c-2"}, "", "v", "/c", "v/", "v/c/d", "1/c", "v/1", "v-/c", "v/c.", "v:w/c"),
		"devices":    append([]any{g.device()}, g.list(3, g.device)...),
	}
	g.rename(o["devices"].([]any))
	if g.chance(2) {
		o["devices"] = g.pick([]any{}, nil, "x", object{}, []any{nil}, []any{nil, g.device()})
	}
	g.maybe(o, 50, "containerEdits", g.edits)
	g.maybe(o, 10, "annotations", g.annotations)
	g.odd(o)
	return o
}

func (g *generator) text(spec object) string {
	encode := json.Marshal
	if g.chance(60) {
		encode = yaml.Marshal
	}
	b, err := encode(spec)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func number(v int64) *int64 { return &v }

func (g *generator) config() *oci.Spec {
	c := &oci.Spec{Version: "1.3.0", Process: &oci.Process{Cwd: "/", Env: []string{"PATH=/bin", "A=0", "HOME=/"}[:g.rng.Intn(4)]}}
	if g.chance(50) {
		c.Process.User = oci.User{UID: uint32(g.rng.Intn(3)), GID: uint32(g.rng.Intn(3))}
	}
	if g.chance(30) {
		c.Process.User.AdditionalGids = []uint32{5, 7}
	}
	for _, at := range []string{"/proc", "/a/b", "/c/d/e", "/a", "/"} {
		if g.chance(40) {
			c.Mounts = append(c.Mounts, oci.Mount{Destination: at, Source: "s", Options: []string{"rw"}})
		}
	}
	if g.chance(60) {
		c.Linux = &oci.Linux{}
		if g.chance(30) {
			c.Linux.Namespaces = []oci.LinuxNamespace{{Type: "pid"}, {Type: "user"}}
		}
		if g.chance(40) {
			c.Linux.Devices = []oci.LinuxDevice{{Path: "/dev/x", Type: "c", Major: 3}, {Path: "/dev/tty", Type: "c"}}
		}
		if g.chance(40) {
			c.Linux.Resources = &oci.LinuxResources{Devices: []oci.LinuxDeviceCgroup{{Allow: true, Type: "c", Major: number(1), Minor: number(3), Access: "rwm"}, {Access: "rwm"}}}
		}
		if g.chance(20) {
			c.Linux.NetDevices = map[string]oci.LinuxNetDevice{"eth1": {Name: "old"}, "lo": {}}
		}
	}
	if g.chance(30) {
		c.Hooks = &oci.Hooks{Prestart: []oci.Hook{{Path: "/h"}}, Poststop: []oci.Hook{{Path: "/z"}}}
	}
	return c
}

// once drops what is equal to something before it.
func once[T any](items []T) []T {
	var out []T
	seen := map[string]bool{}
	for _, item := range items {
		b, _ := json.Marshal(item)
		if !seen[string(b)] {
			out = append(out, item)
		}
		seen[string(b)] = true
	}
	return out
}

func dropRepeats(c *oci.Spec) {
	if c.Hooks != nil {
		c.Hooks.Prestart, c.Hooks.CreateRuntime, c.Hooks.CreateContainer = once(c.Hooks.Prestart), once(c.Hooks.CreateRuntime), once(c.Hooks.CreateContainer)
		c.Hooks.StartContainer, c.Hooks.Poststart, c.Hooks.Poststop = once(c.Hooks.StartContainer), once(c.Hooks.Poststart), once(c.Hooks.Poststop)
	}
	if c.Linux != nil && c.Linux.Resources != nil {
		rules, behind := c.Linux.Resources.Devices, 0
		for i, rule := range rules {
			if !rule.Allow {
				behind = i + 1
			}
		}
		c.Linux.Resources.Devices = append(rules[:behind:behind], once(rules[behind:])...)
	}
}

func marshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// minimum is the oldest version a spec needs. The library looks at the last device only where it asks for
// mount types and host paths, so it is asked device by device.
func minimum(raw *specs.Spec) string {
	least, _ := cdi.MinimumRequiredVersion(raw)
	for _, d := range raw.Devices {
		one := *raw
		one.Devices = []specs.Device{d}
		if v, _ := cdi.MinimumRequiredVersion(&one); v > least {
			least = v
		}
	}
	return least
}

// ask has the library read, judge and apply a spec. False when it crashed.
func ask(folder string, r *row, config *oci.Spec) (alive bool) {
	defer func() { alive = recover() == nil }()
	path := filepath.Join(folder, "spec.yaml")
	if err := os.WriteFile(path, []byte(r.Spec), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	raw, err := cdi.ParseSpec([]byte(r.Spec))
	if r.Read = err == nil && raw != nil; !r.Read {
		r.Why = fmt.Sprint(err)
		return true
	}
	r.Min = minimum(raw)
	if _, err = cdi.ReadSpec(path, 0); err != nil {
		r.Why = err.Error()
		return true
	}
	r.Accepted = true
	cache, _ := cdi.NewCache(cdi.WithSpecDirs(folder), cdi.WithAutoRefresh(false))
	if r.Unresolved, err = cache.InjectDevices(config, r.Names...); err != nil {
		r.Why = err.Error()
		return true
	}
	dropRepeats(config)
	r.Result = marshal(config)
	return true
}

func main() {
	rows := flag.Int("rows", 300, "how many rows")
	seed := flag.Int64("seed", 7, "of the random numbers")
	flag.Parse()
	folder, err := os.MkdirTemp("", "cdi-oracle-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer os.RemoveAll(folder)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	g := &generator{rand.New(rand.NewSource(*seed))}
	for done := 0; done < *rows; {
		spec, config := g.spec(), g.config()
		r := &row{Spec: g.text(spec), Config: marshal(config)}
		devices, _ := spec["devices"].([]any)
		for _, d := range devices {
			if d, _ := d.(object); d != nil && g.chance(70) {
				r.Names = append(r.Names, fmt.Sprintf("%v=%v", spec["kind"], d["name"]))
			}
		}
		if g.chance(5) {
			r.Names = append(r.Names, "v/c=nothing", "nonsense")
		}
		if ask(folder, r, config) {
			out.Write(marshal(r))
			out.WriteByte('\n')
			done++
		}
	}
}
