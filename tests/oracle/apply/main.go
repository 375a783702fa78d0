// SPDX-License-Identifier: Apache-2.0

// Rows of writes and server-side applies with the answers of Kubernetes' own field manager. Each row is a history of one
// object: creations, updates and applies by several managers; after each step the object, or why not.
//
//	go run . -rows 200 -seed 7
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// --- Random objects --------------------------------------------------------------------------------------------------

type maker struct{ *rand.Rand }

var words = []string{"a", "b", "c"}

func (m maker) fill(v reflect.Value, depth int) {
	switch x := v.Addr().Interface().(type) {
	case *metav1.Time:
		*x = metav1.Unix(int64(1700000000+m.Intn(2)), 0)
		return
	case *metav1.MicroTime:
		*x = metav1.NewMicroTime(metav1.Unix(int64(1700000000+m.Intn(2)), 0).Time)
		return
	case *resource.Quantity:
		*x = resource.MustParse([]string{"1", "2Gi"}[m.Intn(2)])
		return
	case *intstr.IntOrString:
		*x = []intstr.IntOrString{intstr.FromInt32(8), intstr.FromString("p")}[m.Intn(2)]
		return
	case *runtime.RawExtension:
		x.Raw = []byte([]string{`{"x":1}`, `{"x":2,"y":{"z":[1]}}`, `{"y":{"z":[2],"w":null}}`, `{"y":"s"}`}[m.Intn(4)])
		return
	case *metav1.ObjectMeta:
		m.meta(x)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(words[m.Intn(len(words))])
	case reflect.Bool:
		v.SetBool(m.Intn(2) == 0)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(1 + m.Intn(2)))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(1 + m.Intn(2)))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		m.fill(v.Elem(), depth)
	case reflect.Struct:
		m.fields(v, depth)
	case reflect.Slice:
		n := m.Intn(4)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := 0; i < n; i++ {
			m.fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for i, n := 0, m.Intn(3); i < n; i++ {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			m.fill(key, depth+1)
			m.fill(value, depth+1)
			v.SetMapIndex(key, value)
		}
	}
}

// Fields that identify list items are nearly always there.
func isKey(name string) bool {
	switch name {
	case "Name", "Type", "Key", "UID", "IP", "ContainerPort", "Port", "MountPath", "DevicePath", "Driver", "Device", "Pool", "TopologyKey", "WhenUnsatisfiable":
		return true
	}
	return false
}

func (m maker) fields(v reflect.Value, depth int) {
	for i := 0; i < v.NumField(); i++ {
		f := v.Type().Field(i)
		if !f.IsExported() || f.Name == "TypeMeta" {
			continue
		}
		likely := 2
		if isKey(f.Name) && f.Type.Kind() != reflect.Slice && f.Type.Kind() != reflect.Map {
			likely = 19
		} else if f.Anonymous {
			likely = 20
		} else if depth < 2 {
			likely = 8
		}
		if m.Intn(20) < likely {
			m.fill(v.Field(i), depth+1)
		}
	}
}

func (m maker) meta(x *metav1.ObjectMeta) {
	x.Name, x.Namespace = "n", "ns"
	pick := func() bool { return m.Intn(3) == 0 }
	if pick() {
		x.Labels = map[string]string{words[m.Intn(3)]: words[m.Intn(3)], words[m.Intn(3)]: "x"}
	}
	if pick() {
		x.Annotations = map[string]string{"k/" + words[m.Intn(3)]: words[m.Intn(3)]}
	}
	if pick() {
		x.Finalizers = words[:m.Intn(4)]
	}
	if pick() {
		x.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "K", Name: words[m.Intn(3)], UID: "u" + "1"}}
	}
}

// --- Histories -------------------------------------------------------------------------------------------------------

// mix takes each part of an object from one or the other.
func (m maker) mix(x, y any) any {
	a, okA := x.(map[string]any)
	b, okB := y.(map[string]any)
	if !okA || !okB {
		if m.Intn(2) == 0 {
			return x
		}
		return y
	}
	out := map[string]any{}
	for k, v := range a {
		if w, ok := b[k]; ok {
			out[k] = m.mix(v, w)
		} else if m.Intn(4) > 0 {
			out[k] = v
		}
	}
	for k, w := range b {
		if _, ok := a[k]; !ok && m.Intn(2) == 0 {
			out[k] = w
		}
	}
	return out
}

// thin leaves parts of an object out.
func (m maker) thin(x any, depth int) any {
	switch v := x.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, w := range v {
			named := len(k) > 0 && isKey(strings.ToUpper(k[:1])+k[1:])
			if depth == 0 || m.Intn(3) > 0 || (named && m.Intn(20) > 0) {
				out[k] = m.thin(w, depth+1)
			}
		}
		return out
	case []any:
		out := []any{}
		for _, w := range v {
			if m.Intn(4) > 0 {
				out = append(out, m.thin(w, depth+1))
			}
		}
		if m.Intn(4) == 0 {
			m.Shuffle(len(out), func(i, k int) { out[i], out[k] = out[k], out[i] })
		}
		return out
	}
	if m.Intn(60) == 0 {
		return nil
	}
	return x
}

type step struct {
	Op          string          `json:"op"` // update (also creates), apply
	Manager     string          `json:"manager"`
	Force       bool            `json:"force,omitempty"`
	Subresource string          `json:"subresource,omitempty"`
	Object      json.RawMessage `json:"object"`
	Result      json.RawMessage `json:"result,omitempty"`
	Error       string          `json:"error,omitempty"`
	Conflicts   [][2]string     `json:"conflicts,omitempty"`
}

type row struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Steps      []step `json:"steps"`
}

type noDefaults struct{}

func (noDefaults) Default(runtime.Object) {}

func try(err error) {
	if err != nil {
		panic(err)
	}
}

func asMap(o runtime.Object) map[string]any {
	b, err := json.Marshal(o)
	try(err)
	out := map[string]any{}
	try(json.Unmarshal(b, &out))
	return out
}

func withoutManaged(o map[string]any) map[string]any {
	if meta, ok := o["metadata"].(map[string]any); ok {
		delete(meta, "managedFields")
	}
	return o
}

// Times of the run say nothing but before and now: they become these.
var before, now = metav1.Unix(1700000000, 0), metav1.Unix(1700000001, 0)

func retime(o runtime.Object, to func(t metav1.Time) metav1.Time) runtime.Object {
	c := o.DeepCopyObject()
	a, err := meta.Accessor(c)
	try(err)
	fields := a.GetManagedFields()
	for i := range fields {
		if fields[i].Time != nil {
			t := to(*fields[i].Time)
			fields[i].Time = &t
		}
	}
	a.SetManagedFields(fields)
	return c
}

// reread gives an object as a server reads it from its store.
func reread(o runtime.Object, gvk schema.GroupVersionKind) runtime.Object {
	b, err := json.Marshal(o)
	try(err)
	out, err := scheme.Scheme.New(gvk)
	try(err)
	try(json.Unmarshal(b, out))
	return out
}

func show(o runtime.Object) json.RawMessage {
	c := retime(o, func(t metav1.Time) metav1.Time {
		if t.Equal(&before) {
			return before
		}
		return now
	})
	b, err := json.Marshal(c)
	try(err)
	return b
}

func ignored(sub string, gv schema.GroupVersion) map[fieldpath.APIVersion]fieldpath.Filter {
	name := "status"
	if sub == "status" {
		name = "spec"
	}
	return map[fieldpath.APIVersion]fieldpath.Filter{
		fieldpath.APIVersion(gv.String()): fieldpath.NewExcludeSetFilter(fieldpath.NewSet(fieldpath.MakePathOrDie(name))),
	}
}

func (m maker) history(gvk schema.GroupVersionKind) row {
	converter := applyconfigurations.NewTypeConverter(scheme.Scheme)
	managers := map[string]*managedfields.FieldManager{}
	for _, sub := range []string{"", "status"} {
		f, err := managedfields.NewDefaultFieldManager(converter, runtime.UnsafeObjectConvertor(scheme.Scheme), noDefaults{}, scheme.Scheme, gvk, gvk.GroupVersion(), sub,
			ignored(sub, gvk.GroupVersion()))
		try(err)
		managers[sub] = f
	}
	out := row{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind}
	live, err := scheme.Scheme.New(gvk)
	try(err)
	live.GetObjectKind().SetGroupVersionKind(gvk)
	exists := false
	names, steps := 3, 2+m.Intn(6)
	if m.Intn(12) == 0 { // more updaters than are kept apart
		names, steps = 20, 24
	}
	for n := steps; n > 0; n-- {
		fresh, err := scheme.Scheme.New(gvk)
		try(err)
		m.fields(reflect.ValueOf(fresh).Elem(), 0)
		fresh.GetObjectKind().SetGroupVersionKind(gvk)
		sub := ""
		if exists && m.Intn(5) == 0 {
			sub = "status"
		}
		s := step{Op: "update", Manager: fmt.Sprintf("m%d", m.Intn(names)), Subresource: sub}
		base := withoutManaged(asMap(live))
		object := withoutManaged(asMap(fresh))
		if exists {
			object = m.mix(base, object).(map[string]any)
		}
		object["apiVersion"], object["kind"] = out.APIVersion, out.Kind
		if m.Intn(names) < names/2 && m.Intn(4) > 0 {
			s.Op = "apply"
			s.Force = m.Intn(3) == 0
			object = m.thin(object, 0).(map[string]any)
			object["apiVersion"], object["kind"] = out.APIVersion, out.Kind
			object["metadata"] = m.thinMeta(object["metadata"])
		}
		s.Object, err = json.Marshal(object)
		try(err)
		next, err := m.run(managers[sub], live, &s, gvk)
		switch e := err.(type) {
		case nil:
			live, exists = next, true
			a, err := meta.Accessor(live)
			try(err)
			a.SetUID("uid") // it exists from here on
			s.Result = show(live)
			live = reread(retime(live, func(metav1.Time) metav1.Time { return before }), gvk)
		case *errors.StatusError:
			s.Error = e.ErrStatus.Message
			for _, c := range e.ErrStatus.Details.Causes {
				s.Conflicts = append(s.Conflicts, [2]string{c.Message, c.Field})
			}
		default:
			s.Error = err.Error()
		}
		out.Steps = append(out.Steps, s)
	}
	return out
}

func (m maker) thinMeta(x any) any {
	meta, ok := x.(map[string]any)
	if !ok {
		meta = map[string]any{}
	}
	delete(meta, "uid")
	delete(meta, "creationTimestamp")
	meta["name"], meta["namespace"] = "n", "ns"
	return meta
}

func (m maker) run(f *managedfields.FieldManager, live runtime.Object, s *step, gvk schema.GroupVersionKind) (runtime.Object, error) {
	if s.Op == "apply" {
		patch := &unstructured.Unstructured{}
		try(json.Unmarshal(s.Object, &patch.Object))
		return f.Apply(live.DeepCopyObject(), patch, s.Manager, s.Force)
	}
	typed, err := scheme.Scheme.New(gvk)
	try(err)
	try(json.Unmarshal(s.Object, typed))
	return f.Update(live.DeepCopyObject(), typed, s.Manager)
}

func main() {
	rows := flag.Int("rows", 100, "how many histories")
	seed := flag.Int64("seed", 1, "of the randomness")
	flag.Parse()
	kinds := []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("Service"), corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		corev1.SchemeGroupVersion.WithKind("Node"), corev1.SchemeGroupVersion.WithKind("Secret"), corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
		appsv1.SchemeGroupVersion.WithKind("Deployment"), batchv1.SchemeGroupVersion.WithKind("Job"), storagev1.SchemeGroupVersion.WithKind("CSINode"),
		resourcev1.SchemeGroupVersion.WithKind("ResourceClaim"), resourcev1.SchemeGroupVersion.WithKind("ResourceSlice"),
		resourcev1.SchemeGroupVersion.WithKind("DeviceClass"), resourcev1.SchemeGroupVersion.WithKind("ResourceClaimTemplate"),
	}
	w := bufio.NewWriter(os.Stdout)
	defer w.Flush()
	for i := 0; i < *rows; i++ {
		m := maker{rand.New(rand.NewSource(*seed*1_000_003 + int64(i)))}
		b, err := json.Marshal(m.history(kinds[m.Intn(len(kinds))]))
		try(err)
		fmt.Fprintf(w, "%s\n", b)
	}
}
