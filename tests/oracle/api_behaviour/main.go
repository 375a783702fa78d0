// SPDX-License-Identifier: Apache-2.0

// What the API server's own packages make of objects: their defaults, and their forms in other versions. See README.md.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsons "k8s.io/apimachinery/pkg/runtime/serializer/json"
	apps "k8s.io/kubernetes/pkg/apis/apps/v1"
	batch "k8s.io/kubernetes/pkg/apis/batch/v1"
	core "k8s.io/kubernetes/pkg/apis/core/v1"
	rbac "k8s.io/kubernetes/pkg/apis/rbac/v1"
	"k8s.io/kubernetes/pkg/apis/resource"
	resourcev1 "k8s.io/kubernetes/pkg/apis/resource/v1"
	resourcev1alpha3 "k8s.io/kubernetes/pkg/apis/resource/v1alpha3"
	resourcev1beta1 "k8s.io/kubernetes/pkg/apis/resource/v1beta1"
	resourcev1beta2 "k8s.io/kubernetes/pkg/apis/resource/v1beta2"
	scheduling "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	schedulingv1beta1 "k8s.io/kubernetes/pkg/apis/scheduling/v1beta1"
	storage "k8s.io/kubernetes/pkg/apis/storage/v1"
)

var versions = []string{"v1", "v1beta2", "v1beta1", "v1alpha3"}

// The clock cannot be set here; what it says is replaced afterwards.
const fixedTime = "2001-01-01T00:00:00Z"

func fixTime(text string) string {
	now := time.Now().UTC()
	for back := 0; back < 60; back++ {
		text = strings.ReplaceAll(text, now.Add(-time.Duration(back)*time.Second).Format(time.RFC3339), fixedTime)
	}
	return text
}

func marshal(object runtime.Object) string {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return fixTime(string(text))
}

func converted(scheme *runtime.Scheme, object runtime.Object, to schema.GroupVersion) string {
	internal, err := scheme.ConvertToVersion(object, schema.GroupVersion{Group: to.Group, Version: runtime.APIVersionInternal})
	if err != nil {
		panic(err)
	}
	result, err := scheme.ConvertToVersion(internal, to)
	if err != nil {
		panic(err)
	}
	return marshal(result)
}

func main() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apps.AddToScheme, batch.AddToScheme, core.AddToScheme, rbac.AddToScheme,
		resource.AddToScheme, resourcev1.AddToScheme, resourcev1alpha3.AddToScheme, resourcev1beta1.AddToScheme,
		resourcev1beta2.AddToScheme, scheduling.AddToScheme, schedulingv1beta1.AddToScheme, storage.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	decoder := jsons.NewSerializerWithOptions(jsons.DefaultMetaFactory, scheme, scheme, jsons.SerializerOptions{})
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		text, _, _ := strings.Cut(lines.Text(), "\t")
		object, kind, err := decoder.Decode([]byte(text), nil, nil)
		if err != nil {
			continue // of a group that is not registered above
		}
		for _, version := range versions {
			to := schema.GroupVersion{Group: "resource.k8s.io", Version: version}
			if kind.Group == to.Group && kind.Version != version && scheme.Recognizes(to.WithKind(kind.Kind)) {
				fmt.Printf("%s\t%s\t%s\n", to, text, converted(scheme, object, to))
			}
		}
		scheme.Default(object)
		fmt.Printf("default\t%s\t%s\n", text, marshal(object))
	}
}
