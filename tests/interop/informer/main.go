// SPDX-License-Identifier: Apache-2.0

// Shared informers on every kind of resource.k8s.io, and writers that keep changing claims, against a server that somebody
// else restarts. At the end the informers must agree with the server, must have seen every object added once and deleted
// once, and its versions only grow.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	resource "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

type book struct {
	sync.Mutex
	alive    map[types.UID]uint64
	gone     map[types.UID]bool
	events   int
	problems []string
}

func revision(o meta.Object) uint64 {
	var n uint64
	fmt.Sscan(o.GetResourceVersion(), &n)
	return n
}

func (b *book) complain(format string, args ...any) {
	b.problems = append(b.problems, fmt.Sprintf(format, args...))
}

func (b *book) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(x any) {
			o := x.(meta.Object)
			b.Lock()
			defer b.Unlock()
			b.events++
			if _, ok := b.alive[o.GetUID()]; ok {
				b.complain("%s added twice", o.GetName())
			}
			if b.gone[o.GetUID()] {
				b.complain("%s added after it was deleted", o.GetName())
			}
			b.alive[o.GetUID()] = revision(o)
		},
		UpdateFunc: func(y, x any) {
			before, o := y.(meta.Object), x.(meta.Object)
			b.Lock()
			defer b.Unlock()
			b.events++
			if before.GetUID() != o.GetUID() {
				// A list after a gap: what was deleted and made anew under the same name comes as an update.
				delete(b.alive, before.GetUID())
				b.gone[before.GetUID()] = true
				b.alive[o.GetUID()] = revision(o)
				return
			}
			was, ok := b.alive[o.GetUID()]
			if !ok {
				b.complain("%s updated but never added", o.GetName())
			}
			if revision(o) < was {
				b.complain("%s went back from %d to %d", o.GetName(), was, revision(o))
			}
			b.alive[o.GetUID()] = revision(o)
		},
		DeleteFunc: func(x any) {
			if tomb, ok := x.(cache.DeletedFinalStateUnknown); ok {
				x = tomb.Obj
			}
			o := x.(meta.Object)
			b.Lock()
			defer b.Unlock()
			b.events++
			if _, ok := b.alive[o.GetUID()]; !ok {
				b.complain("%s deleted but not there", o.GetName())
			}
			delete(b.alive, o.GetUID())
			b.gone[o.GetUID()] = true
		},
	}
}

// writer creates, updates and deletes claims until the time is over; the server may be away.
func writer(ctx context.Context, client kubernetes.Interface, id int, until time.Time, acknowledged *int, lock *sync.Mutex) {
	claims := client.ResourceV1().ResourceClaims("default")
	for i := 0; time.Now().Before(until); i++ {
		name := fmt.Sprintf("w%d-%d", id, i%20)
		c, err := claims.Get(ctx, name, meta.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = claims.Create(ctx, &resource.ResourceClaim{ObjectMeta: meta.ObjectMeta{Name: name},
				Spec: resource.ResourceClaimSpec{Devices: resource.DeviceClaim{Requests: []resource.DeviceRequest{
					{Name: "r", Exactly: &resource.ExactDeviceRequest{DeviceClassName: "gpu"}}}}}}, meta.CreateOptions{})
		case err == nil && i%3 == 0:
			err = claims.Delete(ctx, name, meta.DeleteOptions{Preconditions: &meta.Preconditions{UID: &c.UID}})
		case err == nil:
			c.Labels = map[string]string{"i": fmt.Sprint(i)}
			_, err = claims.Update(ctx, c, meta.UpdateOptions{})
		}
		if err == nil {
			lock.Lock()
			*acknowledged++
			lock.Unlock()
		} else if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			time.Sleep(50 * time.Millisecond)
		}
	}
}

func fail(format string, args ...any) {
	fmt.Printf(format+"\n", args...)
	os.Exit(1)
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "")
	seconds := flag.Int("seconds", 20, "")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		fail("%v", err)
	}
	config.QPS, config.Burst = 2000, 2000
	client := kubernetes.NewForConfigOrDie(config)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b := &book{alive: map[types.UID]uint64{}, gone: map[types.UID]bool{}}
	factory := informers.NewSharedInformerFactory(client, 0)
	r := factory.Resource().V1()
	all := []cache.SharedIndexInformer{r.ResourceClaims().Informer(), r.ResourceClaimTemplates().Informer(), r.ResourceSlices().Informer(),
		r.DeviceClasses().Informer(), r.DeviceTaintRules().Informer(), factory.Core().V1().Pods().Informer(), factory.Core().V1().Nodes().Informer()}
	for _, i := range all {
		i.AddEventHandler(b.handler())
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	fmt.Println("synced")
	until := time.Now().Add(time.Duration(*seconds) * time.Second)
	var wait sync.WaitGroup
	var lock sync.Mutex
	acknowledged := 0
	for id := range 4 {
		wait.Add(1)
		go func() { defer wait.Done(); writer(ctx, client, id, until, &acknowledged, &lock) }()
	}
	wait.Wait()
	settle(ctx, client, b, r.ResourceClaims().Informer().GetStore())
	if len(b.problems) > 0 {
		fail("%d problems: %v", len(b.problems), b.problems[:min(len(b.problems), 10)])
	}
	if acknowledged < 100 {
		fail("only %d writes", acknowledged)
	}
	fmt.Printf("ok: %d acknowledged writes, %d events\n", acknowledged, b.events)
}

// settle waits until the informer knows what the server has, object by object and version by version.
func settle(ctx context.Context, client kubernetes.Interface, b *book, store cache.Store) {
	var last string
	for range 300 {
		time.Sleep(100 * time.Millisecond)
		list, err := client.ResourceV1().ResourceClaims("").List(ctx, meta.ListOptions{})
		if err != nil {
			last = err.Error()
			continue
		}
		last = compare(list, b, store)
		if last == "" {
			return
		}
	}
	fail("the informer and the server do not agree: %s", last)
}

func compare(list *resource.ResourceClaimList, b *book, store cache.Store) string {
	b.Lock()
	defer b.Unlock()
	have := store.List()
	if len(have) != len(list.Items) {
		return fmt.Sprintf("%d objects, the server has %d", len(have), len(list.Items))
	}
	for _, c := range list.Items {
		x, ok, _ := store.GetByKey(c.Namespace + "/" + c.Name)
		if !ok || x.(*resource.ResourceClaim).ResourceVersion != c.ResourceVersion || b.alive[c.UID] != revision(&c) {
			return c.Name + " differs"
		}
	}
	return ""
}
