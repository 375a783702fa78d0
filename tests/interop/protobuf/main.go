// SPDX-License-Identifier: Apache-2.0

// Every resource of a server is listed, watched and read once as JSON and once as protobuf, as typed objects and as metadata
// alone; both must say the same, and what was asked for as protobuf must come as protobuf. Failures must come as protobuf, too.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"strings"
	"time"

	openapi "github.com/google/gnostic-models/openapiv2"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

const protobuf = "application/vnd.kubernetes.protobuf"

var problems, lists, objects, events int

func complain(format string, args ...any) {
	problems++
	fmt.Printf(format+"\n", args...)
}

// spy notes the content type of the last answer.
type spy struct {
	http.RoundTripper
	last string
}

func (s *spy) RoundTrip(q *http.Request) (*http.Response, error) {
	a, err := s.RoundTripper.RoundTrip(q)
	if err == nil {
		s.last = a.Header.Get("Content-Type")
	}
	return a, err
}

func client(base *rest.Config, gv schema.GroupVersion, contentType string) (rest.Interface, *spy) {
	c := rest.CopyConfig(base)
	s := &spy{}
	c.Wrap(func(t http.RoundTripper) http.RoundTripper { s.RoundTripper = t; return s })
	c.GroupVersion = &gv
	c.APIPath = "/apis"
	if gv.Group == "" {
		c.APIPath = "/api"
	}
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c.AcceptContentTypes = contentType
	c.ContentType = contentType
	r, err := rest.RESTClientFor(c)
	if err != nil {
		panic(err)
	}
	return r, s
}

func text(o runtime.Object) string {
	o = o.DeepCopyObject()
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	b, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// items of a list without their kinds, which lists in protobuf leave out.
func items(list runtime.Object) []string {
	all, err := meta.ExtractList(list)
	if err != nil {
		panic(err)
	}
	var out []string
	for _, o := range all {
		out = append(out, text(o))
	}
	return out
}

func initialEvents(r rest.Interface, plural string, n int) []string {
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	yes := true
	w, err := r.Get().Resource(plural).VersionedParams(&metav1.ListOptions{
		Watch: true, SendInitialEvents: &yes, AllowWatchBookmarks: true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}, scheme.ParameterCodec).Watch(ctx)
	if err != nil {
		complain("%s: watch: %v", plural, err)
		return nil
	}
	defer w.Stop()
	var out []string
	for e := range w.ResultChan() {
		switch e.Type {
		case watch.Added, watch.Modified, watch.Deleted:
			events++
			out = append(out, text(e.Object))
		case watch.Bookmark:
			m, _ := meta.Accessor(e.Object)
			if m.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
				return out
			}
		default:
			complain("%s: event %v %v", plural, e.Type, e.Object)
			return out
		}
	}
	complain("%s: the watch ended before its initial events did", plural)
	return out
}

func same(what string, a, b []string) {
	if len(a) != len(b) {
		complain("%s: %d in JSON, %d in protobuf", what, len(a), len(b))
		return
	}
	for i := range a {
		objects++
		if a[i] != b[i] {
			complain("%s: differs\n  json     %s\n  protobuf %s", what, a[i], b[i])
		}
	}
}

func check(base *rest.Config, gv schema.GroupVersion, r metav1.APIResource) {
	j, _ := client(base, gv, "application/json")
	p, how := client(base, gv, protobuf)
	a, err := j.Get().Resource(r.Name).Do(context.Background()).Get()
	if err != nil {
		complain("%s %s: %v", gv, r.Name, err)
		return
	}
	b, err := p.Get().Resource(r.Name).Do(context.Background()).Get()
	if err != nil {
		complain("%s %s in protobuf: %v", gv, r.Name, err)
		return
	}
	if how.last != protobuf {
		complain("%s %s came as %s", gv, r.Name, how.last)
	}
	lists++
	name := gv.String() + " " + r.Name
	same(name, items(a), items(b))
	same(name+" watched", initialEvents(j, r.Name, 0), initialEvents(p, r.Name, 0))
	if how.last != protobuf+";stream=watch" {
		complain("%s: the watch came as %s", name, how.last)
	}
	m, err := metadata.NewForConfig(base)
	if err != nil {
		panic(err)
	}
	partial, err := m.Resource(gv.WithResource(r.Name)).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		complain("%s as metadata: %v", name, err)
		return
	}
	if n := len(items(a)); n != len(partial.Items) {
		complain("%s as metadata: %d of %d", name, len(partial.Items), n)
	}
}

func failures(base *rest.Config) {
	p, how := client(base, core.SchemeGroupVersion, protobuf)
	err := p.Get().Namespace("default").Resource("pods").Name("nosuch").Do(context.Background()).Error()
	if !apierrors.IsNotFound(err) || how.last != protobuf {
		complain("a missing pod: %v, as %s", err, how.last)
	}
	c := rest.CopyConfig(base)
	c.ContentType, c.AcceptContentTypes = protobuf, protobuf
	k := kubernetes.NewForConfigOrDie(c)
	cm := &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"}, Data: map[string]string{"a": "b"}, BinaryData: map[string][]byte{"c": {0, 1, 255}}}
	made, err := k.CoreV1().ConfigMaps("default").Create(context.Background(), cm, metav1.CreateOptions{})
	if err != nil || made.Data["a"] != "b" || !bytes.Equal(made.BinaryData["c"], []byte{0, 1, 255}) {
		complain("a ConfigMap in protobuf: %v %v", made, err)
		return
	}
	token, err := k.CoreV1().ServiceAccounts("default").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		complain("service accounts: %v %v", token, err)
	}
	if err := k.CoreV1().ConfigMaps("default").Delete(context.Background(), made.Name, metav1.DeleteOptions{}); err != nil {
		complain("deleting: %v", err)
	}
}

func openapiV2(d discovery.DiscoveryInterface) {
	doc, err := d.OpenAPISchema()
	if err != nil {
		complain("OpenAPI v2: %v", err)
		return
	}
	raw, err := d.RESTClient().Get().AbsPath("/openapi/v2").SetHeader("Accept", "application/json").Do(context.Background()).Raw()
	if err != nil {
		complain("OpenAPI v2 as JSON: %v", err)
		return
	}
	want, err := openapi.ParseDocument(raw)
	if err != nil {
		complain("OpenAPI v2 as JSON: %v", err)
		return
	}
	var a, b any
	x, _ := want.YAMLValue("")
	y, _ := doc.YAMLValue("")
	if yaml.Unmarshal(x, &a) != nil || yaml.Unmarshal(y, &b) != nil || !reflect.DeepEqual(a, b) {
		complain("OpenAPI v2 differs: %d and %d bytes of YAML", len(x), len(y))
	}
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "")
	flag.Parse()
	base, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		panic(err)
	}
	base.QPS, base.Burst = 1000, 1000
	d := discovery.NewDiscoveryClientForConfigOrDie(base)
	_, all, err := d.ServerGroupsAndResources()
	if err != nil {
		panic(err)
	}
	for _, l := range all {
		gv, _ := schema.ParseGroupVersion(l.GroupVersion)
		if !scheme.Scheme.IsVersionRegistered(gv) {
			continue // custom resources have no protobuf
		}
		for _, r := range l.APIResources {
			if !strings.Contains(r.Name, "/") && len(r.Verbs) > 0 && strings.Contains(r.Verbs.String(), "list") {
				check(base, gv, r)
			}
		}
	}
	failures(base)
	openapiV2(d)
	fmt.Printf("%d resources, %d objects and %d events the same in JSON and in protobuf, %d problems\n", lists, objects, events, problems)
	if problems > 0 {
		os.Exit(1)
	}
}
