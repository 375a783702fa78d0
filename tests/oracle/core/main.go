// SPDX-License-Identifier: Apache-2.0

// What the API server's own strategies say against objects, as JSON lines. See README.md.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/registry/apps/controllerrevision"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/coordination/lease"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/event"
	"k8s.io/kubernetes/pkg/registry/core/limitrange"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/podtemplate"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/registry/scheduling/podgroup"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
	"k8s.io/kubernetes/pkg/registry/scheduling/workload"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
)

type both interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
}

var kinds = map[string]both{
	"ConfigMap": configmap.Strategy, "Event": event.Strategy, "LimitRange": limitrange.Strategy, "Namespace": namespace.Strategy,
	"Node": node.Strategy, "PersistentVolumeClaim": persistentvolumeclaim.Strategy, "Pod": pod.Strategy, "PodTemplate": podtemplate.Strategy,
	"ResourceQuota": resourcequota.Strategy, "Secret": secret.Strategy, "Service": service.Strategy, "ServiceAccount": serviceaccount.Strategy,
	"PodDisruptionBudget": poddisruptionbudget.Strategy, "PriorityClass": priorityclass.Strategy, "StorageClass": storageclass.Strategy,
	"Lease": lease.Strategy, "Deployment": deployment.Strategy, "ReplicaSet": replicaset.Strategy, "DaemonSet": daemonset.Strategy,
	"PodGroup": podgroup.NewStrategy(), "Workload": workload.Strategy,
	"StatefulSet": statefulset.Strategy, "Job": job.Strategy, "CronJob": cronjob.Strategy,
	"ControllerRevision": controllerrevision.Strategy, "HorizontalPodAutoscaler": horizontalpodautoscaler.Strategy,
}

var statuses = map[string]rest.RESTUpdateStrategy{"Pod": pod.StatusStrategy, "Node": node.StatusStrategy, "Namespace": namespace.StatusStrategy,
	"PodGroup": podgroup.NewStatusStrategy(podgroup.NewStrategy()), "Deployment": deployment.StatusStrategy, "ReplicaSet": replicaset.StatusStrategy,
	"DaemonSet": daemonset.StatusStrategy, "StatefulSet": statefulset.StatusStrategy, "Job": job.StatusStrategy,
	"PodDisruptionBudget": poddisruptionbudget.StatusStrategy, "HorizontalPodAutoscaler": horizontalpodautoscaler.StatusStrategy}

type row struct {
	Name string          `json:"name"`
	Kind string          `json:"kind"`
	API  string          `json:"apiVersion"`
	Op   string          `json:"op"`
	Old  json.RawMessage `json:"old"`
	New  json.RawMessage `json:"new"`
}

type cause struct {
	Reason  string `json:"reason"`
	Field   string `json:"field"`
	Message string `json:"message"`
}

type answer struct {
	Name   string  `json:"name"`
	Causes []cause `json:"causes"`
	Error  string  `json:"error,omitempty"`
}

func decode(text []byte) (runtime.Object, error) {
	return runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), text)
}

func check(r row) error {
	s := kinds[r.Kind]
	if s == nil {
		return fmt.Errorf("no strategy for %s", r.Kind)
	}
	o, err := decode(r.New)
	if err != nil {
		return err
	}
	m, _ := meta.Accessor(o)
	ctx := request.WithNamespace(context.Background(), m.GetNamespace())
	version, _ := runtime.Decode(legacyscheme.Codecs.UniversalDeserializer(), r.New)
	gvk := version.GetObjectKind().GroupVersionKind()
	info := &request.RequestInfo{APIGroup: gvk.Group, APIVersion: gvk.Version, IsResourceRequest: true}
	ctx = request.WithRequestInfo(ctx, info)
	if r.Op == "create" {
		m.SetUID(types.UID("5f1e2d3c-0000-4000-8000-000000000001"))
		m.SetCreationTimestamp(metav1.Unix(1, 0))
		return rest.BeforeCreate(s, ctx, o)
	}
	old, err := decode(r.Old)
	if err != nil {
		return err
	}
	if r.Op == "statusUpdate" {
		info.Subresource = "status"
		return rest.BeforeUpdate(statuses[r.Kind], ctx, o, old)
	}
	return rest.BeforeUpdate(s, ctx, o, old)
}

func judge(r row) (a answer) {
	a = answer{Name: r.Name, Causes: []cause{}}
	defer func() {
		if p := recover(); p != nil {
			a.Error = fmt.Sprint("panic: ", p)
		}
	}()
	err := check(r)
	var status apierrors.APIStatus
	switch {
	case err == nil:
	case errors.As(err, &status) && status.Status().Reason == metav1.StatusReasonInvalid:
		for _, c := range status.Status().Details.Causes {
			a.Causes = append(a.Causes, cause{string(c.Type), c.Field, c.Message})
		}
	default:
		a.Error = err.Error()
	}
	return a
}

func main() {
	// As every cluster is set up: --allow-privileged.
	// Gates beyond their defaults: GATES="GenericWorkload=true".
	if gates := os.Getenv("GATES"); gates != "" {
		if err := utilfeature.DefaultMutableFeatureGate.Set(gates); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	capabilities.Initialize(capabilities.Capabilities{AllowPrivileged: true})
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	d, e := json.NewDecoder(in), json.NewEncoder(out)
	e.SetEscapeHTML(false)
	for d.More() {
		var r row
		if err := d.Decode(&r); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if err := e.Encode(judge(r)); err != nil {
			os.Exit(1)
		}
	}
}
