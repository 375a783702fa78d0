// SPDX-License-Identifier: Apache-2.0

// Kubelet's own code for its DRA checkpoint: `write FOLDER` makes one with a bit of everything, `read FOLDER` prints what is in one.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra/state"
)

const name = "dra_manager_state"

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func sample() state.ClaimInfoStateList {
	share := types.UID("5f0f1c3e-0000-4000-8000-000000000007")
	return state.ClaimInfoStateList{
		{
			ClaimUID: "11111111-0000-4000-8000-000000000001", ClaimName: "plain", Namespace: "ns",
			PodUIDs: sets.New("pod-b", "pod-a"),
			DriverState: map[string]state.DriverState{
				"net.example.com": {SkipNodeOperations: []resourceapi.SkipNodeOperation{"NodePrepareResources"}},
				"gpu.example.com": {Devices: []state.Device{
					{PoolName: "node<1>", DeviceName: "gpu-0", RequestNames: []string{"gpu"}, CDIDeviceIDs: []string{"k8s.gpu.example.com/gpu=common", "k8s.gpu.example.com/gpu=gpu-0"}},
					{PoolName: "node<1>", DeviceName: "gpu-1", ShareID: &share},
				}},
			},
		},
		{ClaimUID: "11111111-0000-4000-8000-000000000002", ClaimName: "bare", Namespace: "ns", PodUIDs: sets.New[string](), DriverState: map[string]state.DriverState{}},
	}
}

func main() {
	c, err := state.NewCheckpointer(os.Args[2], name)
	must(err)
	if os.Args[1] == "write" {
		checkpoint, err := state.NewCheckpoint(sample())
		must(err)
		must(c.Store(checkpoint))
		return
	}
	checkpoint, err := c.GetOrCreate()
	must(err)
	list, err := checkpoint.GetClaimInfoStateList()
	must(err)
	must(json.NewEncoder(os.Stdout).Encode(list))
}
