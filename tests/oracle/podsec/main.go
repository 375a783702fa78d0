// SPDX-License-Identifier: Apache-2.0

// What Kubernetes' Pod Security says about pods and about labels, as JSON lines. See README.md.
package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

const (
	newest  = 38 // one more than there is: the newest checks apply
	randoms = 700
)

type verdict [3]any

type podRow struct {
	Pod        *corev1.Pod `json:"pod"`
	Baseline   []verdict   `json:"baseline"`
	Restricted []verdict   `json:"restricted"`
}

type labelRow struct {
	Labels map[string]string `json:"labels"`
	Policy [3]string         `json:"policy"`
	Errors []string          `json:"errors"`
}

var evaluator policy.Evaluator

func judge(pod *corev1.Pod, level api.Level) (all []verdict) {
	for minor := 0; minor <= newest+1; minor++ {
		version := api.MajorMinorVersion(1, minor)
		if minor == newest+1 {
			version = api.LatestVersion()
		}
		r := policy.AggregateCheckResults(evaluator.EvaluatePod(api.LevelVersion{Level: level, Version: version}, &pod.ObjectMeta, &pod.Spec))
		v := verdict{minor, r.ForbiddenReason(), r.ForbiddenDetail()}
		if n := len(all); n == 0 || all[n-1][1] != v[1] || all[n-1][2] != v[2] {
			all = append(all, v)
		}
	}
	return all
}

func write(row any) {
	text, err := json.Marshal(row)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

func fixtures() (pods []*corev1.Pod) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/pod-security-admission").Output()
	if err != nil {
		panic(err)
	}
	var files []string
	filepath.Walk(filepath.Join(strings.TrimSpace(string(dir)), "test", "testdata"), func(path string, info os.FileInfo, err error) error {
		if strings.HasSuffix(path, ".yaml") {
			files = append(files, path)
		}
		return err
	})
	sort.Strings(files)
	seen := map[string]bool{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			panic(err)
		}
		pod := &corev1.Pod{}
		if err := yaml.UnmarshalStrict(text, pod); err != nil {
			panic(err)
		}
		pod.Name = ""
		key, _ := json.Marshal(pod)
		if !seen[string(key)] {
			seen[string(key)] = true
			pods = append(pods, pod)
		}
	}
	return pods
}

// --- Random pods

type maker struct{ *rand.Rand }

func pick[T any](m maker, all ...T) T { return all[m.Intn(len(all))] }

func maybe[T any](m maker, all ...T) *T {
	if m.Intn(3) == 0 {
		return nil
	}
	v := pick(m, all...)
	return &v
}

func (m maker) some() bool { return m.Intn(3) == 0 }

func (m maker) seccomp() *corev1.SeccompProfile {
	if m.some() {
		return nil
	}
	return &corev1.SeccompProfile{Type: pick(m, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeUnconfined, "x\"y")}
}

func (m maker) armor() *corev1.AppArmorProfile {
	if !m.some() {
		return nil
	}
	return &corev1.AppArmorProfile{Type: pick(m, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeUnconfined, "", "é")}
}

func (m maker) selinux() *corev1.SELinuxOptions {
	if !m.some() {
		return nil
	}
	return &corev1.SELinuxOptions{User: pick(m, "", "", "u"), Role: pick(m, "", "", "r"), Level: pick(m, "", "l"), Type: pick(m, "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t", "spc_t", "a_t")}
}

func (m maker) windows() *corev1.WindowsSecurityContextOptions {
	if !m.some() {
		return nil
	}
	return &corev1.WindowsSecurityContextOptions{HostProcess: maybe(m, true, false, false)}
}

func (m maker) capabilities(all ...corev1.Capability) (list []corev1.Capability) {
	for m.Intn(2) == 0 {
		list = append(list, pick(m, all...))
	}
	return list
}

func (m maker) security() *corev1.SecurityContext {
	if m.Intn(6) == 0 {
		return nil
	}
	s := &corev1.SecurityContext{AllowPrivilegeEscalation: maybe(m, false, false, false, true), Privileged: maybe(m, false, false, false, true), RunAsNonRoot: maybe(m, true, true, true, false),
		RunAsUser: maybe(m, int64(0), 1, 1000, 1000), ProcMount: maybe(m, corev1.DefaultProcMount, corev1.DefaultProcMount, corev1.UnmaskedProcMount, "Other"),
		SeccompProfile: m.seccomp(), AppArmorProfile: m.armor(), SELinuxOptions: m.selinux(), WindowsOptions: m.windows()}
	if m.Intn(4) > 0 {
		s.Capabilities = &corev1.Capabilities{Add: m.capabilities("NET_BIND_SERVICE", "CHOWN", "SYS_ADMIN", "NET_RAW", "ALL", "KILL"), Drop: m.capabilities("ALL", "ALL", "KILL", "all")}
	}
	return s
}

func (m maker) http() (*corev1.HTTPGetAction, *corev1.TCPSocketAction) {
	host := pick(m, "", "", "", "10.0.0.1", "localhost", "ü.example")
	return pick(m, nil, &corev1.HTTPGetAction{Host: host}), pick(m, nil, &corev1.TCPSocketAction{Host: pick(m, "", "", "127.0.0.1")})
}

func (m maker) probe() *corev1.Probe {
	if !m.some() {
		return nil
	}
	p := &corev1.Probe{}
	p.HTTPGet, p.TCPSocket = m.http()
	return p
}

func (m maker) handler() *corev1.LifecycleHandler {
	if !m.some() {
		return nil
	}
	h := &corev1.LifecycleHandler{}
	h.HTTPGet, h.TCPSocket = m.http()
	return h
}

func (m maker) container(name string) corev1.Container {
	c := corev1.Container{Name: name, Image: "image", SecurityContext: m.security(), LivenessProbe: m.probe(), ReadinessProbe: m.probe(), StartupProbe: m.probe()}
	if m.some() {
		c.Lifecycle = &corev1.Lifecycle{PostStart: m.handler(), PreStop: m.handler()}
	}
	for m.some() {
		c.Ports = append(c.Ports, corev1.ContainerPort{HostPort: pick(m, int32(0), 0, 80, 443, 8080, 9), ContainerPort: 80})
	}
	return c
}

func (m maker) volume(name string) corev1.Volume {
	v := corev1.Volume{Name: name}
	for ok := true; ok; ok = m.Intn(8) == 0 {
		s := &v.VolumeSource
		pick(m, func() { s.EmptyDir = &corev1.EmptyDirVolumeSource{} }, func() { s.ConfigMap = &corev1.ConfigMapVolumeSource{} }, func() { s.CSI = &corev1.CSIVolumeSource{} },
			func() { s.DownwardAPI = &corev1.DownwardAPIVolumeSource{} }, func() { s.Ephemeral = &corev1.EphemeralVolumeSource{} }, func() { s.Image = &corev1.ImageVolumeSource{} },
			func() { s.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{} }, func() { s.Projected = &corev1.ProjectedVolumeSource{} }, func() { s.Secret = &corev1.SecretVolumeSource{} },
			func() { s.HostPath = &corev1.HostPathVolumeSource{} }, func() { s.GCEPersistentDisk = &corev1.GCEPersistentDiskVolumeSource{} }, func() { s.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{} },
			func() { s.GitRepo = &corev1.GitRepoVolumeSource{} }, func() { s.NFS = &corev1.NFSVolumeSource{} }, func() { s.ISCSI = &corev1.ISCSIVolumeSource{} }, func() { s.Glusterfs = &corev1.GlusterfsVolumeSource{} },
			func() { s.RBD = &corev1.RBDVolumeSource{} }, func() { s.FlexVolume = &corev1.FlexVolumeSource{} }, func() { s.Cinder = &corev1.CinderVolumeSource{} }, func() { s.CephFS = &corev1.CephFSVolumeSource{} },
			func() { s.Flocker = &corev1.FlockerVolumeSource{} }, func() { s.FC = &corev1.FCVolumeSource{} }, func() { s.AzureFile = &corev1.AzureFileVolumeSource{} }, func() { s.VsphereVolume = &corev1.VsphereVirtualDiskVolumeSource{} },
			func() { s.Quobyte = &corev1.QuobyteVolumeSource{} }, func() { s.AzureDisk = &corev1.AzureDiskVolumeSource{} }, func() { s.PhotonPersistentDisk = &corev1.PhotonPersistentDiskVolumeSource{} },
			func() { s.PortworxVolume = &corev1.PortworxVolumeSource{} }, func() { s.ScaleIO = &corev1.ScaleIOVolumeSource{} }, func() { s.StorageOS = &corev1.StorageOSVolumeSource{} }, func() {})()
	}
	return v
}

func (m maker) annotations() map[string]string {
	all := map[string]string{}
	for m.some() {
		key := pick(m, "container.apparmor.security.beta.kubernetes.io/a", "container.apparmor.security.beta.kubernetes.io/b", "seccomp.security.alpha.kubernetes.io/pod",
			"container.seccomp.security.alpha.kubernetes.io/a", "container.seccomp.security.alpha.kubernetes.io/b", "container.seccomp.security.alpha.kubernetes.io/none", "other")
		all[key] = pick(m, "", "runtime/default", "docker/default", "localhost/x", "unconfined", "a\"\\\nü\u200b")
	}
	return all
}

func (m maker) pod() *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: m.annotations()}}
	s := &p.Spec
	s.HostNetwork, s.HostPID, s.HostIPC = m.Intn(6) == 0, m.Intn(6) == 0, m.Intn(6) == 0
	if m.some() {
		s.HostUsers = pick(m, new(bool), new(bool), func() *bool { t := true; return &t }())
	}
	if m.some() {
		s.OS = &corev1.PodOS{Name: pick(m, corev1.Windows, corev1.Linux)}
	}
	for i := 0; i == 0 || m.Intn(2) == 0; i++ {
		s.Containers = append(s.Containers, m.container(string(rune('a'+i))))
	}
	for i := 0; m.some(); i++ {
		s.InitContainers = append(s.InitContainers, m.container("i"+string(rune('a'+i))))
	}
	for i := 0; m.some(); i++ {
		c := m.container("d" + string(rune('a'+i)))
		s.EphemeralContainers = append(s.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon(c)})
	}
	for i := 0; m.some(); i++ {
		s.Volumes = append(s.Volumes, m.volume("v"+string(rune('a'+i))))
	}
	if m.Intn(5) == 0 {
		return p
	}
	s.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: maybe(m, true, true, false), RunAsUser: maybe(m, int64(0), 1, 1000), SeccompProfile: m.seccomp(), AppArmorProfile: m.armor(),
		SELinuxOptions: m.selinux(), WindowsOptions: m.windows()}
	for m.some() {
		s.SecurityContext.Sysctls = append(s.SecurityContext.Sysctls, corev1.Sysctl{Name: pick(m, "kernel.shm_rmid_forced", "net.ipv4.tcp_rmem", "net.ipv4.tcp_notsent_lowat",
			"net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_fin_timeout", "kernel.msgmax", "")})
	}
	return p
}

// --- Labels

func (m maker) labels() map[string]string {
	all := map[string]string{}
	for _, mode := range []string{"enforce", "audit", "warn"} {
		if m.Intn(3) > 0 {
			all["pod-security.kubernetes.io/"+mode] = pick(m, "privileged", "baseline", "restricted", "baseline", "restricted", "Baseline", "")
		}
		if m.Intn(2) == 0 {
			all["pod-security.kubernetes.io/"+mode+"-version"] = pick(m, "latest", "v1.0", "v1.9", "v1.10", "v1.37", "v1.38", "v1.99999", "v1.9223372036854775807",
				"v1.9223372036854775808", "v1.01", "v1.00", "v1.", "v1", "v2.1", "", "1.20", "v1.+1", "v1.-1", "v1.1a", "LATEST")
		}
	}
	return all
}

func main() {
	var err error
	evaluator, err = policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		panic(err)
	}
	m := maker{rand.New(rand.NewSource(37))}
	pods := fixtures()
	for i := 0; i < randoms; i++ {
		pods = append(pods, m.pod())
	}
	for _, p := range pods {
		write(podRow{p, judge(p, api.LevelBaseline), judge(p, api.LevelRestricted)})
	}
	privileged := api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()}
	for i := 0; i < randoms; i++ {
		row := labelRow{Labels: m.labels(), Errors: []string{}}
		p, errs := api.PolicyToEvaluate(row.Labels, api.Policy{Enforce: privileged, Audit: privileged, Warn: privileged})
		row.Policy = [3]string{p.Enforce.String(), p.Audit.String(), p.Warn.String()}
		for _, e := range errs {
			row.Errors = append(row.Errors, e.Error())
		}
		write(row)
	}
}
