// SPDX-License-Identifier: Apache-2.0

// What Kubernetes' conformance asks of the kinds of resource.k8s.io, in each version that is served: create, get, list, watch,
// patch in all forms, apply, update, status by update, patch and apply, delete, deletecollection; with dry run, conflicts and
// selectors.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

type object = map[string]any

var problems, steps int

func must(ok bool, format string, args ...any) {
	steps++
	if !ok {
		problems++
		fmt.Printf(format+"\n", args...)
	}
}

type kind struct {
	name, plural string
	namespaced   bool
	spec         func(version string) object
	status       object // nil: there is none
}

func request(version string) object {
	exact := object{"deviceClassName": "gpu"}
	if version == "v1beta1" {
		exact["name"] = "r"
		return exact
	}
	return object{"name": "r", "exactly": exact}
}

func claimSpec(v string) object {
	return object{"devices": object{"requests": []any{request(v)}}}
}

func device(v string) object {
	a := object{"attributes": object{"model": object{"string": "x"}}}
	if v == "v1beta1" {
		return object{"name": "d", "basic": a}
	}
	a["name"] = "d"
	return a
}

var kinds = []kind{
	{"DeviceClass", "deviceclasses", false, func(string) object {
		return object{"selectors": []any{object{"cel": object{"expression": "device.driver == 'a.example.com'"}}}}
	}, nil},
	{"ResourceClaim", "resourceclaims", true, claimSpec, object{"allocation": object{"devices": object{"results": []any{
		object{"request": "r", "driver": "a.example.com", "pool": "p", "device": "d"}}}}}},
	{"ResourceClaimTemplate", "resourceclaimtemplates", true, func(v string) object { return object{"spec": claimSpec(v)} }, nil},
	{"ResourceSlice", "resourceslices", false, func(v string) object {
		return object{"nodeName": "n", "driver": "a.example.com", "pool": object{"name": "p", "generation": int64(1), "resourceSliceCount": int64(1)},
			"devices": []any{device(v)}}
	}, nil},
	{"DeviceTaintRule", "devicetaintrules", false, func(string) object {
		return object{"deviceSelector": object{"driver": "a.example.com"}, "taint": object{"key": "k", "effect": "NoSchedule"}}
	}, object{"conditions": []any{object{"type": "EvictionInProgress", "status": "False", "reason": "X", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}}}},
}

type suite struct {
	ctx   context.Context
	kind  kind
	gv    schema.GroupVersion
	api   dynamic.ResourceInterface
	label string
}

func (s *suite) say(what string) string { return s.gv.Version + " " + s.kind.name + ": " + what }

func (s *suite) make(name string, labels object) *unstructured.Unstructured {
	l := object{"suite": s.label}
	for k, v := range labels {
		l[k] = v
	}
	return &unstructured.Unstructured{Object: object{"apiVersion": s.gv.String(), "kind": s.kind.name,
		"metadata": object{"name": name, "labels": l}, "spec": s.kind.spec(s.gv.Version)}}
}

// expect waits for an event of a type on an object that test accepts.
func expect(w watch.Interface, want watch.EventType, test func(o *unstructured.Unstructured) bool) bool {
	late := time.After(20 * time.Second)
	for {
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				return false
			}
			if o, is := e.Object.(*unstructured.Unstructured); is && e.Type == want && test(o) {
				return true
			}
		case <-late:
			return false
		}
	}
}

func named(name string) func(*unstructured.Unstructured) bool {
	return func(o *unstructured.Unstructured) bool { return o.GetName() == name }
}

func labelled(k, v string) func(*unstructured.Unstructured) bool {
	return func(o *unstructured.Unstructured) bool { return o.GetLabels()[k] == v }
}

func (s *suite) reads(w watch.Interface) *unstructured.Unstructured {
	dry, err := s.api.Create(s.ctx, s.make("one", nil), meta.CreateOptions{DryRun: []string{"All"}})
	must(err == nil && dry.GetUID() != "", s.say("dry run: %v"), err)
	_, err = s.api.Get(s.ctx, "one", meta.GetOptions{})
	must(apierrors.IsNotFound(err), s.say("a dry run made it: %v"), err)
	made, err := s.api.Create(s.ctx, s.make("one", nil), meta.CreateOptions{FieldValidation: "Strict"})
	must(err == nil && made.GetUID() != "" && made.GetResourceVersion() != "" && !made.GetCreationTimestamp().Time.IsZero(), s.say("create: %v"), err)
	_, err = s.api.Create(s.ctx, s.make("one", nil), meta.CreateOptions{})
	must(apierrors.IsAlreadyExists(err), s.say("create again: %v"), err)
	bad := s.make("two", nil)
	bad.Object["spec"].(object)["color"] = "red"
	_, err = s.api.Create(s.ctx, bad, meta.CreateOptions{FieldValidation: "Strict"})
	must(apierrors.IsBadRequest(err), s.say("an unknown field: %v"), err)
	must(expect(w, watch.Added, named("one")), s.say("no ADDED"))
	got, err := s.api.Get(s.ctx, "one", meta.GetOptions{})
	must(err == nil && got.GetUID() == made.GetUID(), s.say("get: %v"), err)
	list, err := s.api.List(s.ctx, meta.ListOptions{LabelSelector: "suite=" + s.label})
	must(err == nil && len(list.Items) == 1 && list.GetResourceVersion() != "", s.say("list: %v"), err)
	list, err = s.api.List(s.ctx, meta.ListOptions{FieldSelector: "metadata.name=one", LabelSelector: "suite!=" + s.label})
	must(err == nil && len(list.Items) == 0, s.say("list by fields: %v"), err)
	return made
}

func (s *suite) writes(w watch.Interface) {
	o, err := s.api.Patch(s.ctx, "one", types.MergePatchType, []byte(`{"metadata":{"labels":{"merge":"1"}}}`), meta.PatchOptions{})
	must(err == nil && o.GetLabels()["merge"] == "1", s.say("merge patch: %v"), err)
	must(expect(w, watch.Modified, labelled("merge", "1")), s.say("no MODIFIED"))
	o, err = s.api.Patch(s.ctx, "one", types.JSONPatchType, []byte(`[{"op":"add","path":"/metadata/labels/json","value":"2"}]`), meta.PatchOptions{})
	must(err == nil && o.GetLabels()["json"] == "2", s.say("JSON patch: %v"), err)
	o, err = s.api.Patch(s.ctx, "one", types.StrategicMergePatchType, []byte(`{"metadata":{"labels":{"strategic":"3","merge":null}}}`), meta.PatchOptions{})
	must(err == nil && o.GetLabels()["strategic"] == "3" && o.GetLabels()["merge"] == "", s.say("strategic merge patch: %v"), err)
	stale := o.DeepCopy()
	o.SetLabels(map[string]string{"suite": s.label, "update": "4"})
	o, err = s.api.Update(s.ctx, o, meta.UpdateOptions{})
	must(err == nil && o.GetLabels()["update"] == "4", s.say("update: %v"), err)
	stale.SetLabels(map[string]string{"suite": s.label, "late": "5"})
	_, err = s.api.Update(s.ctx, stale, meta.UpdateOptions{})
	must(apierrors.IsConflict(err), s.say("an update that comes late: %v"), err)
	same, err := s.api.Update(s.ctx, o, meta.UpdateOptions{})
	must(err == nil && same.GetResourceVersion() == o.GetResourceVersion(), s.say("an update that changes nothing: %v"), err)
}

func (s *suite) applies() {
	apply := &unstructured.Unstructured{Object: object{"apiVersion": s.gv.String(), "kind": s.kind.name,
		"metadata": object{"name": "applied", "labels": object{"suite": s.label, "a": "1"}}, "spec": s.kind.spec(s.gv.Version)}}
	o, err := s.api.Apply(s.ctx, "applied", apply, meta.ApplyOptions{FieldManager: "first"})
	must(err == nil && len(o.GetManagedFields()) == 1 && o.GetManagedFields()[0].Operation == meta.ManagedFieldsOperationApply, s.say("apply: %v"), err)
	again, err := s.api.Apply(s.ctx, "applied", apply, meta.ApplyOptions{FieldManager: "first"})
	must(err == nil && again.GetResourceVersion() == o.GetResourceVersion(), s.say("apply twice: %v"), err)
	other := &unstructured.Unstructured{Object: object{"apiVersion": s.gv.String(), "kind": s.kind.name,
		"metadata": object{"name": "applied", "labels": object{"a": "2"}}}}
	_, err = s.api.Apply(s.ctx, "applied", other, meta.ApplyOptions{FieldManager: "second"})
	must(apierrors.IsConflict(err), s.say("apply over another's label: %v"), err)
	o, err = s.api.Apply(s.ctx, "applied", other, meta.ApplyOptions{FieldManager: "second", Force: true})
	must(err == nil && o.GetLabels()["a"] == "2", s.say("apply by force: %v"), err)
}

func (s *suite) statuses() {
	if s.kind.status == nil {
		return
	}
	o, err := s.api.Get(s.ctx, "one", meta.GetOptions{})
	must(err == nil, s.say("get: %v"), err)
	before := o.Object["spec"]
	o.Object["status"] = s.kind.status
	o, err = s.api.UpdateStatus(s.ctx, o, meta.UpdateOptions{})
	must(err == nil && o.Object["status"] != nil, s.say("update of the status: %v"), err)
	a, _ := json.Marshal(before)
	b, _ := json.Marshal(o.Object["spec"])
	must(string(a) == string(b), s.say("an update of the status changed the spec: %s %s"), a, b)
	o.Object["status"] = nil
	kept, err := s.api.Update(s.ctx, o, meta.UpdateOptions{})
	must(err == nil && kept.Object["status"] != nil, s.say("an update changed the status: %v"), err)
	empty, err := s.api.Patch(s.ctx, "one", types.MergePatchType, []byte(`{"status":null}`), meta.PatchOptions{}, "status")
	must(err == nil, s.say("patch of the status: %v %v"), empty, err)
	status := &unstructured.Unstructured{Object: object{"apiVersion": s.gv.String(), "kind": s.kind.name, "metadata": object{"name": "one"}, "status": s.kind.status}}
	applied, err := s.api.ApplyStatus(s.ctx, "one", status, meta.ApplyOptions{FieldManager: "status"})
	must(err == nil && applied.Object["status"] != nil, s.say("apply of the status: %v"), err)
	_, err = s.api.Patch(s.ctx, "one", types.MergePatchType, []byte(`{"status":null}`), meta.PatchOptions{}, "status")
	must(err == nil, s.say("patch of the status: %v"), err)
}

func (s *suite) deletes(made *unstructured.Unstructured, w watch.Interface) {
	wrong := types.UID("nobody")
	err := s.api.Delete(s.ctx, "one", meta.DeleteOptions{Preconditions: &meta.Preconditions{UID: &wrong}})
	must(apierrors.IsConflict(err), s.say("deletion of another: %v"), err)
	uid := made.GetUID()
	err = s.api.Delete(s.ctx, "one", meta.DeleteOptions{Preconditions: &meta.Preconditions{UID: &uid}})
	must(err == nil, s.say("delete: %v"), err)
	must(expect(w, watch.Deleted, named("one")), s.say("no DELETED"))
	_, err = s.api.Get(s.ctx, "one", meta.GetOptions{})
	must(apierrors.IsNotFound(err), s.say("get after delete: %v"), err)
	for _, name := range []string{"c1", "c2", "c3"} {
		_, err = s.api.Create(s.ctx, s.make(name, object{"keep": fmt.Sprint(name == "c3")}), meta.CreateOptions{})
		must(err == nil, s.say("create: %v"), err)
	}
	err = s.api.DeleteCollection(s.ctx, meta.DeleteOptions{}, meta.ListOptions{LabelSelector: "keep=false,suite=" + s.label})
	must(err == nil, s.say("deletecollection: %v"), err)
	list, err := s.api.List(s.ctx, meta.ListOptions{LabelSelector: "suite=" + s.label})
	must(err == nil && len(list.Items) == 2, s.say("after deletecollection there are %d: %v"), len(list.Items), err) // c3, applied
	err = s.api.DeleteCollection(s.ctx, meta.DeleteOptions{}, meta.ListOptions{LabelSelector: "suite=" + s.label})
	must(err == nil, s.say("deletecollection: %v"), err)
}

func (s *suite) run() {
	w, err := s.api.Watch(s.ctx, meta.ListOptions{LabelSelector: "suite=" + s.label})
	if err != nil {
		must(false, s.say("watch: %v"), err)
		return
	}
	defer w.Stop()
	made := s.reads(w)
	if made == nil {
		return
	}
	s.writes(w)
	s.applies()
	s.statuses()
	s.deletes(made, w)
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		panic(err)
	}
	config.QPS, config.Burst = 1000, 1000
	client := dynamic.NewForConfigOrDie(config)
	_, lists, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerGroupsAndResources()
	if err != nil {
		panic(err)
	}
	suites := 0
	for _, l := range lists {
		gv, _ := schema.ParseGroupVersion(l.GroupVersion)
		for _, r := range l.APIResources {
			for _, k := range kinds {
				if gv.Group != "resource.k8s.io" || r.Name != k.plural {
					continue
				}
				s := suite{ctx: context.Background(), kind: k, gv: gv, label: gv.Version + "-" + k.plural}
				if k.namespaced {
					s.api = client.Resource(gv.WithResource(k.plural)).Namespace("default")
				} else {
					s.api = client.Resource(gv.WithResource(k.plural))
				}
				suites++
				s.run()
			}
		}
	}
	fmt.Printf("%d kinds and versions of resource.k8s.io, %d steps, %d problems\n", suites, steps, problems)
	if problems > 0 || suites == 0 {
		os.Exit(1)
	}
}
