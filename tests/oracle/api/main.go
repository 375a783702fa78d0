// SPDX-License-Identifier: Apache-2.0

// Objects of every kind as Kubernetes' own packages write them: one line an object with its JSON and its
// protobuf in base64. See README.md.
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The kinds of src/api; names that a group does not have are skipped.
var groups = []struct {
	add   func(*runtime.Scheme) error
	from  string
	kinds string
}{
	{resourcev1.AddToScheme, "resource.k8s.io/v1", "ResourceSlice ResourceClaim ResourceClaimTemplate DeviceClass DeviceTaintRule ResourceClaimList"},
	{resourcev1beta2.AddToScheme, "resource.k8s.io/v1beta2", "ResourceSlice ResourceClaim ResourceClaimTemplate DeviceClass DeviceTaintRule"},
	{resourcev1beta1.AddToScheme, "resource.k8s.io/v1beta1", "ResourceSlice ResourceClaim ResourceClaimTemplate DeviceClass ResourceSliceList"},
	{resourcev1alpha3.AddToScheme, "resource.k8s.io/v1alpha3", "DeviceTaintRule ResourcePoolStatusRequest"},
	{corev1.AddToScheme, "v1", "Pod PodTemplate Node Namespace Event ConfigMap Secret ServiceAccount Service ResourceQuota LimitRange PersistentVolumeClaim PersistentVolume Endpoints ReplicationController Binding Status DeleteOptions"},
	{coordinationv1.AddToScheme, "coordination.k8s.io/v1", "Lease"},
	{eventsv1.AddToScheme, "events.k8s.io/v1", "Event"},
	{rbacv1.AddToScheme, "rbac.authorization.k8s.io/v1", "Role ClusterRole RoleBinding ClusterRoleBinding"},
	{appsv1.AddToScheme, "apps/v1", "Deployment ReplicaSet DaemonSet StatefulSet ControllerRevision"},
	{batchv1.AddToScheme, "batch/v1", "Job CronJob"},
	{policyv1.AddToScheme, "policy/v1", "PodDisruptionBudget Eviction"},
	{schedulingv1.AddToScheme, "scheduling.k8s.io/v1", "PriorityClass"},
	{schedulingv1alpha3.AddToScheme, "scheduling.k8s.io/v1alpha3", "CompositePodGroup"},
	{schedulingv1beta1.AddToScheme, "scheduling.k8s.io/v1beta1", "Workload PodGroup"},
	{storagev1.AddToScheme, "storage.k8s.io/v1", "StorageClass CSINode CSIDriver CSIStorageCapacity VolumeAttachment"},
	{autoscalingv1.AddToScheme, "autoscaling/v1", "Scale"},
	{authenticationv1.AddToScheme, "authentication.k8s.io/v1", "TokenRequest TokenReview"},
	{authorizationv1.AddToScheme, "authorization.k8s.io/v1", "SubjectAccessReview SelfSubjectAccessReview LocalSubjectAccessReview SelfSubjectRulesReview"},
}

type filler struct {
	rng   *rand.Rand
	fill  int // chance in percent that something optional is there
	depth int
}

func (f *filler) text() string {
	return []string{"a", "true", "b-1", "x.example.com/y", "<&>", "grün", "line\nend", "quote\""}[f.rng.Intn(8)]
}

func (f *filler) quantity() resource.Quantity {
	return resource.MustParse([]string{"0", "100m", "1.5Gi", "80Gi", "12e6", "2k", "123456789012345678901"}[f.rng.Intn(7)])
}

// special fills the types whose content is not their fields.
func (f *filler) special(v reflect.Value) bool {
	switch p := v.Addr().Interface().(type) {
	case *metav1.Time:
		*p = metav1.NewTime(time.Unix(f.rng.Int63n(2000000000), 0).UTC())
	case *metav1.MicroTime:
		*p = metav1.NewMicroTime(time.Unix(f.rng.Int63n(2000000000), f.rng.Int63n(1000000)*1000).UTC())
	case *resource.Quantity:
		*p = f.quantity()
	case *intstr.IntOrString:
		if f.rng.Intn(2) == 0 {
			*p = intstr.FromInt32(f.rng.Int31n(60000))
		} else {
			*p = intstr.FromString(f.text())
		}
	case *runtime.RawExtension:
		p.Raw = []byte([]string{`{"a":1}`, `{"kind":"X","list":[1,"two",null]}`}[f.rng.Intn(2)])
	case *metav1.FieldsV1:
		p.SetRawBytes([]byte(`{"f:spec":{}}`))
	case *metav1.TypeMeta:
	default:
		return false
	}
	return true
}

func (f *filler) value(v reflect.Value) {
	if f.special(v) {
		return
	}
	optional := v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice || v.Kind() == reflect.Map
	if optional && (f.depth > 8 || f.rng.Intn(100) >= f.fill) {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(f.text())
	case reflect.Bool:
		v.SetBool(f.rng.Intn(2) == 0)
	case reflect.Int32:
		v.SetInt(int64(int32(f.rng.Uint32())))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(f.rng.Uint64()))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.value(v.Elem())
	case reflect.Slice:
		n := 1 + f.rng.Intn(2)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := 0; i < n; i++ {
			if v.Type().Elem().Kind() == reflect.Uint8 {
				v.Index(i).SetUint(uint64(f.rng.Intn(256)))
			} else {
				f.value(v.Index(i))
			}
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for i := 0; i < 1+f.rng.Intn(2); i++ {
			key, val := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			key.SetString(f.text())
			if val.Type() == reflect.TypeOf([]byte{}) {
				// Protobuf turns nil here into an empty slice.
				val.SetBytes([]byte(f.text()))
			} else {
				f.value(val)
			}
			v.SetMapIndex(key, val)
		}
	case reflect.Struct:
		f.depth++
		for i := 0; i < v.NumField(); i++ {
			if v.Type().Field(i).IsExported() {
				f.value(v.Field(i))
			}
		}
		f.depth--
	default:
		panic(v.Type().String())
	}
}

func row(scheme *runtime.Scheme, apiVersion, kind string, fill int, seed int64) (string, error) {
	group, version, found := strings.Cut(apiVersion, "/")
	if !found {
		group, version = "", apiVersion
	}
	gvk := schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
	object, err := scheme.New(gvk)
	if err != nil {
		return "", err
	}
	if fill >= 0 {
		f := filler{rng: rand.New(rand.NewSource(seed)), fill: fill}
		f.value(reflect.ValueOf(object).Elem())
	}
	object.GetObjectKind().SetGroupVersionKind(gvk)
	text, err := json.Marshal(object)
	if err != nil {
		return "", err
	}
	var wire bytes.Buffer
	if err := protobuf.NewSerializer(scheme, scheme).Encode(object, &wire); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s\t%s", text, base64.StdEncoding.EncodeToString(wire.Bytes())), nil
}

// Rows longer than this are left out: what they hold is in shorter ones too.
const longest = 16000

func main() {
	seed := flag.Int64("seed", 0, "another one gives other objects")
	flag.Parse()
	scheme := runtime.NewScheme()
	for _, g := range groups {
		if err := g.add(scheme); err != nil {
			panic(err)
		}
	}
	for i, g := range groups {
		for j, kind := range strings.Fields(g.kinds) {
			for k, fill := range []int{-1, 20, 60, 100} {
				line, err := row(scheme, g.from, kind, fill, *seed*100000+int64(i*1000+j*10+k))
				if err != nil {
					panic(fmt.Sprint(g.from, " ", kind, ": ", err))
				}
				if len(line) <= longest {
					fmt.Println(line)
				}
			}
		}
	}
}
