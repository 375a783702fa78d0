// SPDX-License-Identifier: Apache-2.0
//
// What the real drivers make of opaque parameters, by driver: the kinds they accept, what they
// refuse, and what containers see of it.
#include <stdio.h>
#include <stdlib.h>

#include "driver/sim/hw.h"
#include "os/file.h"

#include "base/banned.h"

#define MEMBER(type, member) .offset = offsetof(struct type, member)

static const struct dray_field no_fields[] = {{0}};

static void hw_family_add_env(const struct hw_setting *s, const char *suffix, const char *value)
{
    cleanup_sbuf struct sbuf name = {0};
    if (!value)
        return;
    hw_env_name(s, &name);
    sbuf_addz(&name, suffix);
    dray_env(s->out, s->index, name.p, value);
}

static void env_int(const struct hw_setting *s, const char *suffix, int64_t value)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%lld", (long long)value);
    hw_family_add_env(s, suffix, text);
}

// --- Sharing: NVIDIA and the example driver
// --------------------------------------------------------

struct time_slicing {
    const char *interval;
};

struct mps {
    int64_t threads; // active thread percentage; 0: not set
    const char *memory;
    struct dray_map per_device;
    bool multi_user;
};

struct space_partitioning {
    int64_t count;
};

struct sharing {
    const char *strategy;
    struct time_slicing *time_slicing;
    struct mps *mps;
    struct space_partitioning *space;
};

struct gpu_config {
    struct sharing *sharing;
};

static const char *const intervals[] = {"Default", "Short", "Medium", "Long", NULL};
static const char *const nvidia_strategies[] = {"TimeSlicing", "MPS", NULL};
static const char *const example_strategies[] = {"TimeSlicing", "SpacePartitioning", NULL};

static const struct dray_field time_slicing_fields[] = {
    {"interval", DRAY_CHOICE, MEMBER(time_slicing, interval), .choices = intervals}, {0}};

static const struct dray_field mps_fields[] = {
    {"defaultActiveThreadPercentage", DRAY_INT, MEMBER(mps, threads), .min = 1, .max = 100},
    {"defaultPinnedDeviceMemoryLimit", DRAY_QUANTITY, MEMBER(mps, memory)},
    {"defaultPerDevicePinnedMemoryLimit", DRAY_MAP, MEMBER(mps, per_device), .of_quantities = true},
    {"multiUser", DRAY_BOOL, MEMBER(mps, multi_user)},
    {0}};

static const struct dray_field space_fields[] = {
    {"partitionCount", DRAY_INT, MEMBER(space_partitioning, count), .min = 1, .max = 1000}, {0}};

static const struct dray_field nvidia_sharing_fields[] = {
    {"strategy", DRAY_CHOICE, MEMBER(sharing, strategy), .required = true,
     .choices = nvidia_strategies},
    {"timeSlicingConfig", DRAY_OBJECT, MEMBER(sharing, time_slicing), .fields = time_slicing_fields,
     .size = sizeof(struct time_slicing)},
    {"mpsConfig", DRAY_OBJECT, MEMBER(sharing, mps), .fields = mps_fields,
     .size = sizeof(struct mps)},
    {0}};

static const struct dray_field example_sharing_fields[] = {
    {"strategy", DRAY_CHOICE, MEMBER(sharing, strategy), .required = true,
     .choices = example_strategies},
    {"timeSlicingConfig", DRAY_OBJECT, MEMBER(sharing, time_slicing), .fields = time_slicing_fields,
     .size = sizeof(struct time_slicing)},
    {"spacePartitioningConfig", DRAY_OBJECT, MEMBER(sharing, space), .fields = space_fields,
     .size = sizeof(struct space_partitioning)},
    {0}};

static const struct dray_field nvidia_gpu_fields[] = {
    {"sharing", DRAY_OBJECT, MEMBER(gpu_config, sharing), .fields = nvidia_sharing_fields,
     .size = sizeof(struct sharing)},
    {0}};

static const struct dray_field example_gpu_fields[] = {
    {"sharing", DRAY_OBJECT, MEMBER(gpu_config, sharing), .fields = example_sharing_fields,
     .size = sizeof(struct sharing)},
    {0}};

static int check_pairing(const struct sharing *sh, struct dray_error *err)
{
    bool slicing = strcmp(sh->strategy, "TimeSlicing") == 0;
    if (sh->time_slicing && !slicing)
        return dray_fail(err, "sharing: timeSlicingConfig does not go with strategy %s",
                         sh->strategy);
    if (sh->mps && strcmp(sh->strategy, "MPS") != 0)
        return dray_fail(err, "sharing: mpsConfig does not go with strategy %s", sh->strategy);
    if (sh->space && strcmp(sh->strategy, "SpacePartitioning") != 0)
        return dray_fail(err, "sharing: spacePartitioningConfig does not go with strategy %s",
                         sh->strategy);
    return 0;
}

static int apply_mps(const struct hw_setting *s, const struct mps *mps, struct dray_error *err)
{
    cleanup_sbuf struct sbuf pipe = {0};
    struct err why = {0};
    sbuf_addf(&pipe, "%s/mps", s->folder);
    if (file_make_dirs(pipe.p, 0755, &why) != 0)
        return dray_fail(err, "%s", why.msg);
    dray_env(s->out, s->index, "CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps");
    dray_mount(s->out, s->index, pipe.p, "/tmp/nvidia-mps", "rw,nosuid,nodev,bind");
    if (mps && mps->threads) {
        char text[32];
        (void)snprintf(text, sizeof(text), "%lld", (long long)mps->threads);
        dray_env(s->out, s->index, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", text);
    }
    if (mps && mps->memory) {
        cleanup_sbuf struct sbuf limit = {0};
        sbuf_addf(&limit, "0=%s", mps->memory);
        dray_env(s->out, s->index, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", limit.p);
    }
    return 0;
}

static int apply_sharing(const struct hw_setting *s, const struct sharing *sh,
                         struct dray_error *err)
{
    int r = check_pairing(sh, err);
    if (r != 0)
        return r;
    sbuf_addf(s->setup, ",\"sharing\":\"%s\"", sh->strategy);
    hw_family_add_env(s, "_SHARING_STRATEGY", sh->strategy);
    if (strcmp(sh->strategy, "TimeSlicing") == 0)
        hw_family_add_env(s, "_TIMESLICE_INTERVAL",
                          sh->time_slicing && sh->time_slicing->interval
                              ? sh->time_slicing->interval
                              : "Default");
    if (sh->space)
        env_int(s, "_PARTITION_COUNT", sh->space->count);
    return strcmp(sh->strategy, "MPS") == 0 ? apply_mps(s, sh->mps, err) : 0;
}

// --- NVIDIA GPUs ---------------------------------------------------------------------------------

struct vfio_iommu {
    const char *backend;
    bool api_device;
};

struct vfio_config {
    struct vfio_iommu *iommu;
};

static const char *const backends[] = {"LegacyOnly", "PreferIommuFD", NULL};

static const struct dray_field vfio_iommu_fields[] = {
    {"backendPolicy", DRAY_CHOICE, MEMBER(vfio_iommu, backend), .choices = backends},
    {"enableAPIDevice", DRAY_BOOL, MEMBER(vfio_iommu, api_device)},
    {0}};

static const struct dray_field vfio_fields[] = {{"iommu", DRAY_OBJECT, MEMBER(vfio_config, iommu),
                                                 .fields = vfio_iommu_fields,
                                                 .size = sizeof(struct vfio_iommu)},
                                                {0}};

#define NVIDIA_VERSION "resource.nvidia.com/v1beta1"

static const struct dray_schema nvidia_schemas[] = {
    {NVIDIA_VERSION, "GpuConfig", nvidia_gpu_fields, sizeof(struct gpu_config)},
    {NVIDIA_VERSION, "MigDeviceConfig", nvidia_gpu_fields, sizeof(struct gpu_config)},
    {NVIDIA_VERSION, "VfioDeviceConfig", vfio_fields, sizeof(struct vfio_config)},
};

static int apply_nvidia(const struct hw_setting *s, const struct dray_schema *schema,
                        const void *value, struct dray_error *err)
{
    struct str type = hw_text(s->device, "type");
    if (!schema) {
        dray_env(s->out, s->index, "NVIDIA_VISIBLE_DEVICES", "void");
        return 0;
    }
    bool mig = strcmp(schema->kind, "MigDeviceConfig") == 0;
    bool vfio = strcmp(schema->kind, "VfioDeviceConfig") == 0;
    // Parameters for another type of device are meant for other requests of the claim.
    if (!str_eqz(type, mig ? "mig" : vfio ? "vfio" : "gpu") || vfio)
        return 0;
    const struct gpu_config *c = value;
    if (!c->sharing)
        return 0;
    if (mig && c->sharing->time_slicing)
        return dray_fail(err, "sharing: a MIG device has no settings for time slicing");
    return apply_sharing(s, c->sharing, err);
}

// --- NVIDIA ComputeDomains -----------------------------------------------------------------------

struct domain_config {
    const char *domain_id;
    const char *mode;
};

static const char *const channel_modes[] = {"Single", "All", "", NULL};

static const struct dray_field channel_fields[] = {
    {"domainID", DRAY_TEXT, MEMBER(domain_config, domain_id), .required = true},
    {"allocationMode", DRAY_CHOICE, MEMBER(domain_config, mode), .choices = channel_modes},
    {0}};

static const struct dray_field daemon_fields[] = {
    {"domainID", DRAY_TEXT, MEMBER(domain_config, domain_id), .required = true}, {0}};

static const struct dray_schema domain_schemas[] = {
    {NVIDIA_VERSION, "ComputeDomainChannelConfig", channel_fields, sizeof(struct domain_config)},
    {NVIDIA_VERSION, "ComputeDomainDaemonConfig", daemon_fields, sizeof(struct domain_config)},
};

static int apply_domain(const struct hw_setting *s, const struct dray_schema *schema,
                        const void *value, struct dray_error *err)
{
    (void)err;
    if (schema)
        dray_env(s->out, s->index, "COMPUTE_DOMAIN_UUID",
                 ((const struct domain_config *)value)->domain_id);
    return 0;
}

// --- The Kubernetes example driver ---------------------------------------------------------------

static const struct dray_schema example_schemas[] = {
    {"gpu.resource.example.com/v1alpha1", "GpuConfig", example_gpu_fields,
     sizeof(struct gpu_config)},
};

static int apply_example(const struct hw_setting *s, const struct dray_schema *schema,
                         const void *value, struct dray_error *err)
{
    const struct gpu_config *c = value;
    return schema && c->sharing ? apply_sharing(s, c->sharing, err) : 0;
}

struct burst {
    const char *ingress, *egress;
};

struct net_config {
    struct burst *burst;
};

static const struct dray_field burst_fields[] = {
    {"ingressBurst", DRAY_QUANTITY, MEMBER(burst, ingress)},
    {"egressBurst", DRAY_QUANTITY, MEMBER(burst, egress)},
    {0}};

static const struct dray_field example_net_fields[] = {
    {"bandwidthBurst", DRAY_OBJECT, MEMBER(net_config, burst), .fields = burst_fields,
     .size = sizeof(struct burst)},
    {0}};

static const struct dray_schema example_net_schemas[] = {
    {"net.resource.example.com/v1alpha1", "NetConfig", example_net_fields,
     sizeof(struct net_config)},
};

static int apply_example_net(const struct hw_setting *s, const struct dray_schema *schema,
                             const void *value, struct dray_error *err)
{
    const struct net_config *c = value;
    (void)err;
    if (schema && c->burst) {
        hw_family_add_env(s, "_INGRESS_BURST", c->burst->ingress);
        hw_family_add_env(s, "_EGRESS_BURST", c->burst->egress);
    }
    return 0;
}

// --- TPUs ----------------------------------------------------------------------------------------

static int check_tpu(const struct hw_driver *d, const struct dray_claim *claim,
                     struct dray_error *err)
{
    size_t chips = 0;
    vec_foreach(&d->devices, one)
        chips += !one->shared;
    size_t have = 0;
    for (size_t i = 0; i < claim->devices_len; i++) {
        const struct hw_device *one =
            hw_find(d, str_z(claim->devices[i].pool), str_z(claim->devices[i].device));
        if (claim->devices[i].admin_access || (one && one->shared))
            return 0; // a slice over several hosts has all chips anyway
        have++;
    }
    if (have == chips)
        return 0;
    return dray_fail(err, "a claim must have all %zu chips of the node, this one has %zu", chips,
                     have);
}

static void env_text(const struct hw_setting *s, const char *name, struct str value)
{
    if (value.n == 0)
        return;
    cleanup_free char *text = xstrndup(value.p, value.n);
    dray_env(s->out, s->index, name, text);
}

static int apply_tpu(const struct hw_setting *s, const struct dray_schema *schema,
                     const void *value, struct dray_error *err)
{
    (void)schema;
    (void)value;
    (void)err;
    if (s->index > 0)
        return 0; // the variables are the claim's, not the chip's
    int64_t worker = s->device->shared ? (int64_t)s->driver->index : 0;
    char text[32];
    env_text(s, "TPU_ACCELERATOR_TYPE", hw_text(s->device, "accelerator"));
    env_text(s, "TPU_TOPOLOGY", hw_text(s->device, "topology"));
    env_text(s, "TPU_CHIPS_PER_HOST_BOUNDS", hw_text(s->device, "chipsPerHostBounds"));
    env_text(s, "TPU_HOST_BOUNDS", hw_text(s->device, "hostBounds"));
    (void)snprintf(text, sizeof(text), "%lld", (long long)worker);
    dray_env(s->out, s->index, "TPU_WORKER_ID", text);
    return 0;
}

// --- DRANET --------------------------------------------------------------------------------------

struct vrf {
    const char *name;
    int64_t table;
};

struct interface {
    const char *name, *hardware_addr;
    struct dray_texts addresses;
    bool dhcp, disable_ebpf, forwarding;
    int64_t mtu, gso_max, gro_max, gso4_max, gro4_max, arp_ignore, arp_announce;
    struct vrf *vrf;
};

struct route {
    const char *destination, *gateway, *source;
    int64_t scope, table;
};

struct rule {
    const char *source, *destination;
    int64_t priority, table;
};

struct neighbor {
    const char *destination, *hardware_addr;
};

struct network_config {
    const char *profile;
    struct interface *interface;
    struct dray_objects routes, rules, neighbors;
    const char *ethtool;
};

static const struct dray_field vrf_fields[] = {
    {"name", DRAY_TEXT, MEMBER(vrf, name)}, {"table", DRAY_INT, MEMBER(vrf, table)}, {0}};

static const struct dray_field interface_fields[] = {
    {"name", DRAY_TEXT, MEMBER(interface, name)},
    {"addresses", DRAY_TEXTS, MEMBER(interface, addresses)},
    {"dhcp", DRAY_BOOL, MEMBER(interface, dhcp)},
    {"mtu", DRAY_INT, MEMBER(interface, mtu), .min = 68, .max = 65535},
    {"hardwareAddr", DRAY_TEXT, MEMBER(interface, hardware_addr)},
    {"gsoMaxSize", DRAY_INT, MEMBER(interface, gso_max)},
    {"groMaxSize", DRAY_INT, MEMBER(interface, gro_max)},
    {"gsoIPv4MaxSize", DRAY_INT, MEMBER(interface, gso4_max)},
    {"groIPv4MaxSize", DRAY_INT, MEMBER(interface, gro4_max)},
    {"disableEbpfPrograms", DRAY_BOOL, MEMBER(interface, disable_ebpf)},
    {"forwarding", DRAY_BOOL, MEMBER(interface, forwarding)},
    {"arpIgnore", DRAY_INT, MEMBER(interface, arp_ignore)},
    {"arpAnnounce", DRAY_INT, MEMBER(interface, arp_announce)},
    {"vrf", DRAY_OBJECT, MEMBER(interface, vrf), .fields = vrf_fields, .size = sizeof(struct vrf)},
    {0}};

static const struct dray_field route_fields[] = {{"destination", DRAY_TEXT,
                                                  MEMBER(route, destination), .required = true},
                                                 {"gateway", DRAY_TEXT, MEMBER(route, gateway)},
                                                 {"source", DRAY_TEXT, MEMBER(route, source)},
                                                 {"scope", DRAY_INT, MEMBER(route, scope)},
                                                 {"table", DRAY_INT, MEMBER(route, table)},
                                                 {0}};

static const struct dray_field rule_fields[] = {{"priority", DRAY_INT, MEMBER(rule, priority)},
                                                {"source", DRAY_TEXT, MEMBER(rule, source)},
                                                {"destination", DRAY_TEXT,
                                                 MEMBER(rule, destination)},
                                                {"table", DRAY_INT, MEMBER(rule, table)},
                                                {0}};

static const struct dray_field neighbor_fields[] = {
    {"destination", DRAY_TEXT, MEMBER(neighbor, destination)},
    {"hardwareAddr", DRAY_TEXT, MEMBER(neighbor, hardware_addr)},
    {0}};

static const struct dray_field network_fields[] = {
    {"profile", DRAY_TEXT, MEMBER(network_config, profile)},
    {"interface", DRAY_OBJECT, MEMBER(network_config, interface), .fields = interface_fields,
     .size = sizeof(struct interface)},
    {"routes", DRAY_OBJECTS, MEMBER(network_config, routes), .fields = route_fields,
     .size = sizeof(struct route)},
    {"rules", DRAY_OBJECTS, MEMBER(network_config, rules), .fields = rule_fields,
     .size = sizeof(struct rule)},
    {"neighbors", DRAY_OBJECTS, MEMBER(network_config, neighbors), .fields = neighbor_fields,
     .size = sizeof(struct neighbor)},
    {"ethtool", DRAY_RAW, MEMBER(network_config, ethtool)},
    {0}};

static const struct dray_schema network_schemas[] = {
    {NULL, NULL, network_fields, sizeof(struct network_config)},
};

static int apply_network(const struct hw_setting *s, const struct dray_schema *schema,
                         const void *value, struct dray_error *err)
{
    const struct network_config *c = value;
    const struct interface *i = schema ? c->interface : NULL;
    struct str name = hw_text(s->device, "ifName");
    struct str mac = hw_text(s->device, "mac");
    (void)err;
    cleanup_free char *own_name = xstrndup(name.p, name.n);
    cleanup_free char *own_mac = xstrndup(mac.p, mac.n);
    cleanup_sbuf struct sbuf address = {0};
    const char *ips[16] = {NULL};
    for (size_t k = 0; i && k < i->addresses.n && k < array_len(ips) - 1; k++)
        ips[k] = i->addresses.p[k];
    if (!ips[0]) {
        int64_t host = hw_int(s->device, "numaNode") + 2 + (int64_t)s->index;
        sbuf_addf(&address, "10.%zu.%zu.%lld/24", s->driver->index / 256 % 256,
                  s->driver->index % 256, (long long)host);
        ips[0] = address.p;
    }
    dray_network(s->out, s->index, i && i->name ? i->name : own_name,
                 i && i->hardware_addr ? i->hardware_addr : own_mac, ips);
    dray_condition(s->out, s->index, "NetworkReady", true, "NetworkReady", "");
    return 0;
}

// --- SR-IOV --------------------------------------------------------------------------------------

struct vf_config {
    const char *driver, *if_name, *attach_name, *attach_namespace;
    bool vhost;
};

static const struct dray_field vf_fields[] = {
    {"driver", DRAY_TEXT, MEMBER(vf_config, driver)},
    {"addVhostMount", DRAY_BOOL, MEMBER(vf_config, vhost)},
    {"ifName", DRAY_TEXT, MEMBER(vf_config, if_name)},
    {"netAttachDefName", DRAY_TEXT, MEMBER(vf_config, attach_name)},
    {"netAttachDefNamespace", DRAY_TEXT, MEMBER(vf_config, attach_namespace)},
    {0}};

static const struct dray_schema vf_schemas[] = {
    {"sriovnetwork.k8snetworkplumbingwg.io/v1alpha1", "VfConfig", vf_fields,
     sizeof(struct vf_config)},
};

static int apply_vf(const struct hw_setting *s, const struct dray_schema *schema, const void *value,
                    struct dray_error *err)
{
    const struct vf_config *c = value;
    (void)err;
    env_text(s, "PCIDEVICE", hw_text(s->device, "pciAddress"));
    if (schema) {
        hw_family_add_env(s, "_DRIVER", c->driver);
        dray_network(s->out, s->index, c->if_name ? c->if_name : "net1", NULL, NULL);
    }
    return 0;
}

// --- CPUs ----------------------------------------------------------------------------------------

struct cpu_settings {
    const char *cpuset;
};

struct cpu_config {
    struct cpu_settings *cpu;
};

static const struct dray_field cpu_settings_fields[] = {
    {"cpuset", DRAY_TEXT, MEMBER(cpu_settings, cpuset)}, {0}};

static const struct dray_field cpu_fields[] = {{"cpuConfig", DRAY_OBJECT, MEMBER(cpu_config, cpu),
                                                .fields = cpu_settings_fields,
                                                .size = sizeof(struct cpu_settings)},
                                               {0}};

static const struct dray_schema cpu_schemas[] = {
    {"dra.cpu/v1alpha1", "OpaqueConfig", cpu_fields, sizeof(struct cpu_config)},
};

enum { CPUS_MAX = 1024 };

// The CPUs that setups of other claims have taken, out of "first-last" in their files.
static void mark_taken(const struct hw_setting *s, bool taken[CPUS_MAX])
{
    for (size_t i = 0; i < s->texts_len; i++) {
        ptrdiff_t at = str_find(s->texts[i], STR("\"cpus\":\""));
        struct str list = at < 0 ? STR("") : str_from(s->texts[i], (size_t)at + 8);
        str_cut(list, '"', &list, &(struct str){0});
        while (list.n) {
            struct str one;
            uint64_t cpu;
            str_cut(list, ',', &one, &list);
            if (str_to_u64(one, &cpu) == 0 && cpu < CPUS_MAX)
                taken[cpu] = true;
        }
    }
}

static int64_t cpus_wanted(const struct hw_setting *s)
{
    cleanup_arena struct arena a = {0};
    struct quantity q;
    for (size_t i = 0; i < s->allocated->consumed_len; i++)
        if (str_ends(str_z(s->allocated->consumed[i].name), STR("cpu")) &&
            quantity_parse(str_z(s->allocated->consumed[i].quantity), &a, &q, NULL) == 0)
            return quantity_value(&q);
    int64_t all = hw_int(s->device, "numCPUs");
    return all < 0 ? 1 : all;
}

static int apply_cpu(const struct hw_setting *s, const struct dray_schema *schema,
                     const void *value, struct dray_error *err)
{
    const struct cpu_config *c = value;
    bool taken[CPUS_MAX] = {false};
    cleanup_sbuf struct sbuf cpus = {0}, name = {0};
    if (schema)
        return c->cpu && c->cpu->cpuset ? dray_fail(err, "cpuConfig.cpuset: the simulated driver "
                                                         "chooses CPUs itself")
                                        : 0;
    mark_taken(s, taken);
    int64_t count = hw_int(s->device, "numCPUs");
    int64_t numa = hw_int(s->device, "numaNodeID");
    int64_t single = hw_int(s->device, "cpuID");
    int64_t first = single >= 0 ? single : (numa < 0 ? 0 : numa) * (count < 0 ? 1 : count);
    int64_t wanted = cpus_wanted(s);
    int64_t end = first + (count < 0 ? 1 : count);
    for (int64_t cpu = first; cpu < end && cpu < CPUS_MAX && wanted > 0; cpu++) {
        if (taken[cpu])
            continue;
        sbuf_addf(&cpus, "%s%lld", cpus.n ? "," : "", (long long)cpu);
        wanted--;
    }
    if (wanted > 0)
        return dray_fail(err, "device %s has not enough CPUs left", s->allocated->device);
    sbuf_addf(s->setup, ",\"cpus\":\"%s\"", cpus.p);
    sbuf_addf(&name, "DRA_CPUSET_%s", s->claim->uid);
    for (char *p = name.p; *p; p++)
        if (*p == '-')
            *p = '_';
    dray_env(s->out, s->index, name.p, cpus.p);
    return 0;
}

// --- FPGAs, DPUs, cameras, CXL memory: kinds of our own
// --------------------------------------------

struct fpga_config {
    const char *bitstream, *checksum;
    int64_t clock_mhz;
};

static const struct dray_field fpga_fields[] = {
    {"bitstream", DRAY_TEXT, MEMBER(fpga_config, bitstream), .required = true},
    {"sha256", DRAY_TEXT, MEMBER(fpga_config, checksum)},
    {"clockMHz", DRAY_INT, MEMBER(fpga_config, clock_mhz), .min = 50, .max = 1000},
    {0}};

struct dpu_config {
    int64_t queues;
    const char *offload;
};

static const char *const offloads[] = {"None", "IPsec", "NVMeOF", "OVS", NULL};

static const struct dray_field dpu_fields[] = {
    {"queues", DRAY_INT, MEMBER(dpu_config, queues), .min = 1, .max = 1024},
    {"offload", DRAY_CHOICE, MEMBER(dpu_config, offload), .choices = offloads},
    {0}};

static const struct dray_schema fabric_schemas[] = {
    {"fpga.dray.dev/v1alpha1", "FpgaConfig", fpga_fields, sizeof(struct fpga_config)},
    {"dpu.dray.dev/v1alpha1", "DpuConfig", dpu_fields, sizeof(struct dpu_config)},
};

static int apply_fabric(const struct hw_setting *s, const struct dray_schema *schema,
                        const void *value, struct dray_error *err)
{
    bool fpga = str_eqz(hw_text(s->device, "kind"), "fpga");
    if (schema && schema->fields == fpga_fields && fpga) {
        const struct fpga_config *c = value;
        if (c->checksum && strlen(c->checksum) != 64)
            return dray_fail(err, "sha256: must be 64 hexadecimal digits");
        hw_family_add_env(s, "_BITSTREAM", c->bitstream);
        if (c->clock_mhz)
            env_int(s, "_CLOCK_MHZ", c->clock_mhz);
    }
    if (schema && schema->fields == dpu_fields && !fpga) {
        const struct dpu_config *c = value;
        hw_family_add_env(s, "_OFFLOAD", c->offload);
        if (c->queues)
            env_int(s, "_QUEUES", c->queues);
    }
    return 0;
}

struct camera_config {
    const char *resolution, *codec;
    int64_t fps;
};

static const char *const codecs[] = {"h264", "h265", "mjpeg", NULL};
static const char *const resolutions[] = {"720p", "1080p", "4k", NULL};

static const struct dray_field camera_fields[] = {
    {"resolution", DRAY_CHOICE, MEMBER(camera_config, resolution), .choices = resolutions},
    {"codec", DRAY_CHOICE, MEMBER(camera_config, codec), .choices = codecs},
    {"fps", DRAY_INT, MEMBER(camera_config, fps), .min = 1, .max = 120},
    {0}};

static const struct dray_schema camera_schemas[] = {
    {"camera.dray.dev/v1alpha1", "CameraConfig", camera_fields, sizeof(struct camera_config)},
};

static int apply_camera(const struct hw_setting *s, const struct dray_schema *schema,
                        const void *value, struct dray_error *err)
{
    const struct camera_config *c = value;
    (void)err;
    if (!schema) {
        env_text(s, "CAMERA_URL", hw_text(s->device, "url"));
        return 0;
    }
    hw_family_add_env(s, "_RESOLUTION", c->resolution);
    hw_family_add_env(s, "_CODEC", c->codec);
    return 0;
}

struct cxl_config {
    int64_t ways;
    const char *mode;
};

static const char *const cxl_modes[] = {"SystemRAM", "DevDax", NULL};

static const struct dray_field cxl_fields[] = {
    {"mode", DRAY_CHOICE, MEMBER(cxl_config, mode), .choices = cxl_modes},
    {"interleaveWays", DRAY_INT, MEMBER(cxl_config, ways), .min = 1, .max = 16},
    {0}};

static const struct dray_schema cxl_schemas[] = {
    {"cxl.dray.dev/v1alpha1", "CxlConfig", cxl_fields, sizeof(struct cxl_config)},
};

static int apply_cxl(const struct hw_setting *s, const struct dray_schema *schema,
                     const void *value, struct dray_error *err)
{
    const struct cxl_config *c = value;
    (void)err;
    if (schema)
        hw_family_add_env(s, "_MODE", c->mode);
    return 0;
}

// --- The table -----------------------------------------------------------------------------------

static int apply_nothing(const struct hw_setting *s, const struct dray_schema *schema,
                         const void *value, struct dray_error *err)
{
    (void)s;
    (void)schema;
    (void)value;
    (void)err;
    return 0;
}

static const struct dray_schema amd_schemas[] = {
    {"gpu.resource.amd.com/v1alpha1", "GpuConfig", no_fields, 1},
};

#define SCHEMAS(list) (list), array_len(list)

static const struct hw_family families[] = {
    {"gpu.nvidia.com", "GPU", SCHEMAS(nvidia_schemas), apply_nvidia, NULL},
    {"compute-domain.nvidia.com", "IMEX", SCHEMAS(domain_schemas), apply_domain, NULL},
    {"gpu.example.com", "GPU", SCHEMAS(example_schemas), apply_example, NULL},
    {"net.example.com", "NIC", SCHEMAS(example_net_schemas), apply_example_net, NULL},
    {"gpu.amd.com", "GPU", SCHEMAS(amd_schemas), apply_nothing, NULL},
    {"gpu.intel.com", "GPU", NULL, 0, apply_nothing, NULL},
    {"tpu.google.com", "TPU", NULL, 0, apply_tpu, check_tpu},
    {"dra.net", "NIC", SCHEMAS(network_schemas), apply_network, NULL},
    {"sriovnetwork.k8snetworkplumbingwg.io", "VF", SCHEMAS(vf_schemas), apply_vf, NULL},
    {"dra.cpu", "CPU", SCHEMAS(cpu_schemas), apply_cpu, NULL},
    {"fabric.example.com", "FABRIC", SCHEMAS(fabric_schemas), apply_fabric, NULL},
    {"fpga.dray.dev", "FPGA", SCHEMAS(fabric_schemas), apply_fabric, NULL},
    {"dpu.dray.dev", "DPU", SCHEMAS(fabric_schemas), apply_fabric, NULL},
    {"camera.dray.dev", "CAMERA", SCHEMAS(camera_schemas), apply_camera, NULL},
    {"cxl.dray.dev", "CXL", SCHEMAS(cxl_schemas), apply_cxl, NULL},
    {NULL, "DRA", NULL, 0, apply_nothing, NULL},
};

const struct hw_family *hw_family_of(const char *driver)
{
    size_t i = 0;
    while (families[i].driver && strcmp(families[i].driver, driver) != 0)
        i++;
    return &families[i];
}

struct decoded {
    const struct dray_schema *schema;
    struct dray_params *params;
};
struct decodeds VEC(struct decoded);

static int decode_all(const struct hw_setting *s, struct decodeds *ret, struct dray_error *err)
{
    const struct hw_family *f = s->driver->family;
    for (size_t i = 0; i < s->allocated->configs_len; i++) {
        struct decoded d = {0};
        if (f->schemas_len == 0)
            return dray_fail(err, "driver %s takes no parameters", s->driver->name);
        int r = dray_decode(s->allocated->configs[i].parameters, f->schemas, f->schemas_len,
                            &d.schema, &d.params, err);
        if (r != 0)
            return r;
        vec_push(ret, d);
    }
    return 0;
}

// Whether later parameters of the same kind replace these: the claim's those of the class.
static bool is_replaced(const struct decodeds *all, size_t i)
{
    for (size_t k = i + 1; k < all->n; k++)
        if (all->p[k].schema == all->p[i].schema)
            return true;
    return false;
}

int hw_configure(const struct hw_setting *s, struct dray_error *err)
{
    struct decodeds all = {0};
    int r = decode_all(s, &all, err);
    if (r == 0)
        r = s->driver->family->apply(s, NULL, NULL, err);
    for (size_t i = 0; r == 0 && i < all.n; i++)
        if (!is_replaced(&all, i))
            r = s->driver->family->apply(s, all.p[i].schema, dray_params_value(all.p[i].params),
                                         err);
    vec_foreach(&all, d)
        dray_params_free(d->params);
    vec_done(&all);
    return r;
}
