// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"
)

var kinds = []struct {
	name string
	make func() any
}{
	{"v1 Pod", func() any { return &corev1.Pod{} }},
	{"v1 Pod", func() any { return &corev1.Pod{} }},
	{"v1 Node", func() any { return &corev1.Node{} }},
	{"v1 Service", func() any { return &corev1.Service{} }},
	{"v1 ServiceAccount", func() any { return &corev1.ServiceAccount{} }},
	{"v1 ConfigMap", func() any { return &corev1.ConfigMap{} }},
	{"v1 Secret", func() any { return &corev1.Secret{} }},
	{"v1 Namespace", func() any { return &corev1.Namespace{} }},
	{"v1 PersistentVolumeClaim", func() any { return &corev1.PersistentVolumeClaim{} }},
	{"v1 PersistentVolume", func() any { return &corev1.PersistentVolume{} }},
	{"v1 Endpoints", func() any { return &corev1.Endpoints{} }},
	{"v1 ResourceQuota", func() any { return &corev1.ResourceQuota{} }},
	{"apps/v1 Deployment", func() any { return &appsv1.Deployment{} }},
	{"apps/v1 DaemonSet", func() any { return &appsv1.DaemonSet{} }},
	{"apps/v1 StatefulSet", func() any { return &appsv1.StatefulSet{} }},
	{"batch/v1 Job", func() any { return &batchv1.Job{} }},
	{"rbac.authorization.k8s.io/v1 ClusterRole", func() any { return &rbacv1.ClusterRole{} }},
	{"storage.k8s.io/v1 CSINode", func() any { return &storagev1.CSINode{} }},
	{"scheduling.k8s.io/v1beta1 PodGroup", func() any { return &schedulingv1beta1.PodGroup{} }},
	{"resource.k8s.io/v1 ResourceClaim", func() any { return &resourcev1.ResourceClaim{} }},
	{"resource.k8s.io/v1 ResourceClaim", func() any { return &resourcev1.ResourceClaim{} }},
	{"resource.k8s.io/v1 ResourceSlice", func() any { return &resourcev1.ResourceSlice{} }},
	{"resource.k8s.io/v1 DeviceClass", func() any { return &resourcev1.DeviceClass{} }},
	{"resource.k8s.io/v1 DeviceTaintRule", func() any { return &resourcev1.DeviceTaintRule{} }},
	{"resource.k8s.io/v1beta1 ResourceClaim", func() any { return &resourcev1beta1.ResourceClaim{} }},
	{"resource.k8s.io/v1beta1 ResourceSlice", func() any { return &resourcev1beta1.ResourceSlice{} }},
}

// --- Objects of those kinds ---------------------------------------------------------------------------

func (g *generator) special(v reflect.Value) bool {
	switch p := v.Addr().Interface().(type) {
	case *metav1.Time:
		*p = metav1.NewTime(time.Unix(g.rng.Int63n(4), 0).UTC())
	case *metav1.MicroTime:
		*p = metav1.NewMicroTime(time.Unix(g.rng.Int63n(4), 0).UTC())
	case *resource.Quantity:
		*p = resource.MustParse(g.pick("1", "2Gi", "100m"))
	case *intstr.IntOrString:
		*p = intstr.FromInt32(g.rng.Int31n(3))
	case *runtime.RawExtension:
		p.Raw = []byte(g.pick(`{"a":1}`, `{"a":{"b":2},"c":"x"}`))
	case *metav1.FieldsV1:
		p.SetRawBytes([]byte(`{"f:spec":{}}`))
	case *metav1.TypeMeta:
	default:
		return false
	}
	return true
}

// fill makes a small vocabulary, so that merge keys meet.
func (g *generator) fill(v reflect.Value, chance, depth int) {
	if g.special(v) {
		return
	}
	optional := v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice || v.Kind() == reflect.Map
	if optional && (depth > 9 || !g.chance(chance)) {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(g.pick("a", "b", "c", "d", ""))
	case reflect.Bool:
		v.SetBool(g.chance(50))
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(g.rng.Intn(3)))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		g.fill(v.Elem(), chance, depth+1)
	case reflect.Slice:
		n := g.rng.Intn(5)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := 0; i < n; i++ {
			if v.Type().Elem().Kind() == reflect.Uint8 {
				v.Index(i).SetUint(uint64(g.rng.Intn(256)))
			} else {
				g.fill(v.Index(i), chance, depth+1)
			}
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for i := 0; i < 1+g.rng.Intn(2); i++ {
			key, val := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			key.SetString(g.pick("a", "b", "c"))
			g.fill(val, chance, depth+1)
			v.SetMapIndex(key, val)
		}
	case reflect.Struct:
		for i := 0; i < v.NumField(); i++ {
			if v.Type().Field(i).IsExported() {
				g.fill(v.Field(i), chance, depth+1)
			}
		}
	}
}

// --- Patches -----------------------------------------------------------------------------------------

var mergeKeys = strings.Split("name uid type ip key containerPort port mountPath devicePath topologyKey conditionType resourceClaimName", " ")

func keyOf(item map[string]any) string {
	for _, k := range mergeKeys {
		if _, ok := item[k]; ok {
			return k
		}
	}
	return ""
}

// scribble makes a patch out of an object: parts of it, nulls and directives. present is what stands there.
func (g *generator) scribble(v, present any, depth int) any {
	switch t := v.(type) {
	case map[string]any:
		old, _ := present.(map[string]any)
		out := map[string]any{}
		for k, item := range t {
			if depth < 2 || g.chance(60) {
				out[k] = g.scribble(item, old[k], depth+1)
			}
			if g.chance(8) {
				out[k] = nil
			}
			if g.chance(2) {
				out[k] = g.value(2)
			}
			if list, ok := item.([]any); ok {
				g.listDirectives(out, k, list, old[k])
			}
		}
		for k := range old {
			if g.chance(5) {
				out[k] = nil
			}
			if list, ok := old[k].([]any); ok && g.chance(20) {
				g.listDirectives(out, k, list, list)
			}
		}
		for k := range out {
			// Which of the two comes first is random.
			if list, found := strings.CutPrefix(k, "$deleteFromPrimitiveList/"); found {
				delete(out, list)
			}
		}
		if depth > 0 && g.chance(3) {
			out["$patch"] = g.pick("replace", "delete", "merge", "other")
		}
		if g.chance(4) {
			keep := []any{}
			for k := range out {
				if g.chance(90) {
					keep = append(keep, k)
				}
			}
			out["$retainKeys"] = keep
		}
		return out
	case []any:
		out := []any{}
		for _, item := range t {
			if g.chance(80) {
				out = append(out, g.scribble(item, nil, depth+1))
			}
		}
		old, _ := present.([]any)
		for _, item := range old {
			m, ok := item.(map[string]any)
			if ok && g.chance(25) {
				if k := keyOf(m); k != "" {
					out = append(out, map[string]any{k: m[k], "$patch": "delete"})
				}
			} else if g.chance(20) {
				out = append(out, item)
			}
		}
		if g.chance(3) {
			out = append(out, map[string]any{"$patch": g.pick("replace", "replace", "merge", "delete")})
		}
		g.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		return out
	}
	return v
}

func (g *generator) listDirectives(out map[string]any, key string, list []any, present any) {
	if g.chance(15) {
		order := []any{}
		all, _ := out[key].([]any)
		old, _ := present.([]any)
		for _, item := range append(append([]any{}, all...), old...) {
			m, ok := item.(map[string]any)
			if !ok {
				order = append(order, item)
			} else if k := keyOf(m); k != "" && m["$patch"] == nil {
				order = append(order, map[string]any{k: m[k]})
			}
		}
		if g.chance(30) {
			g.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		}
		out["$setElementOrder/"+key] = order
	}
	if g.chance(8) && len(list) > 0 {
		out["$deleteFromPrimitiveList/"+key] = []any{list[g.rng.Intn(len(list))]}
	}
	if g.chance(1) {
		out[g.pick("$setElementOrder", "$deleteFromPrimitiveList", "$setElementOrder/nowhere", "$retainKeys")] = list
	}
}

func decode(s string) map[string]any {
	m := map[string]any{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(s), &m); err != nil {
		panic(err)
	}
	return m
}

// answer applies a patch as the API server does.
func answer(object any, patch string, schema any) (result string, failure string, ok bool) {
	ok = quiet(func() {
		before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			panic(err)
		}
		// Lists have no room to spare, as those of a converted object.
		after, err := strategicpatch.StrategicMergeMapPatch(runtime.DeepCopyJSON(before), runtime.DeepCopyJSON(decode(patch)), schema)
		if err != nil {
			failure = err.Error()
			return
		}
		b, err := json.Marshal(after)
		if err != nil {
			panic(err)
		}
		result = string(b)
	})
	return
}

func (g *generator) strategicPatch() {
	kind := kinds[g.rng.Intn(len(kinds))]
	chance := g.pick("40", "60", "75")
	density := map[string]int{"40": 40, "60": 60, "75": 75}[chance]
	object, other := kind.make(), kind.make()
	g.fill(reflect.ValueOf(object).Elem(), density, 0)
	g.fill(reflect.ValueOf(other).Elem(), density, 0)
	before, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	after, err := json.Marshal(other)
	if err != nil {
		panic(err)
	}
	var patch string
	if g.chance(30) {
		diff, err := strategicpatch.CreateTwoWayMergePatch(before, after, kind.make())
		if err != nil {
			return
		}
		patch = string(diff)
	} else {
		patch = text(g.scribble(decode(string(after)), decode(string(before)), 0))
	}
	result, failure, ok := answer(object, patch, kind.make())
	// Upstream visits members in random order; what that decides is not for comparing.
	for i := 0; i < 12 && ok; i++ {
		again, other, fine := answer(object, patch, kind.make())
		if !fine || again != result || (other == "") != (failure == "") {
			return
		}
		if other != failure {
			failure = "?"
		}
	}
	if !ok {
		return
	}
	if failure != "" {
		g.row("strategic", kind.name, string(before), patch, "500", failure)
		return
	}
	g.row("strategic", kind.name, string(before), patch, "200", result)
}
