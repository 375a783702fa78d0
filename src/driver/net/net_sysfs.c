// SPDX-License-Identifier: Apache-2.0
//
// Reads an interface's PCI address, NUMA node, vendor, virtual functions and RDMA devices from
// sysfs and pci.ids.
#include "driver/net/net_sysfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/file.h"

#include "base/banned.h"

enum { FILE_MAX = 4096, PCI_IDS_MAX = 8 << 20 };

// --- Vendor names --------------------------------------------------------------------------------

struct net_pci_names {
    struct sbuf text;
};

struct net_pci_names *net_pci_names_open(const char *path)
{
    struct net_pci_names *n = xcalloc(1, sizeof(*n));
    if (file_read(path, PCI_IDS_MAX, &n->text, NULL) != 0)
        sbuf_clear(&n->text);
    return n;
}

void net_pci_names_free(struct net_pci_names *n)
{
    if (!n)
        return;
    sbuf_done(&n->text);
    free(n);
}

// The file: "vendor name" at the start of a line, "\tdevice name" below it, deeper lines for
// subsystems.
static bool is_line(struct str line, size_t tabs, struct str id, struct str *ret_name)
{
    for (size_t i = 0; i < tabs; i++)
        if (line.n <= i || line.p[i] != '\t')
            return false;
    struct str rest = str_from(line, tabs);
    if (!str_starts(rest, id) || rest.n <= id.n + 2 || rest.p[id.n] != ' ')
        return false;
    *ret_name = str_trim(str_from(rest, id.n));
    return true;
}

static void find_names(const struct net_pci_names *n, struct net_hardware *h, struct arena *a)
{
    struct str rest = n ? sbuf_str(&n->text) : STR("");
    struct str vendor = str_from(h->vendor, 2), device = str_from(h->device, 2); // behind 0x
    bool inside = false;
    while (rest.n > 0 && vendor.n == 4) {
        struct str line, name;
        (void)str_cut(rest, '\n', &line, &rest);
        if (line.n == 0 || line.p[0] == '#')
            continue;
        if (line.p[0] != '\t') {
            if (inside)
                return;
            inside = is_line(line, 0, vendor, &name);
            if (inside)
                h->vendor = arena_str(a, name);
        } else if (inside && is_line(line, 1, device, &name)) {
            h->device = arena_str(a, name);
            return;
        }
    }
}

// --- Files ---------------------------------------------------------------------------------------

static struct str net_sysfs_read_text(const char *dir, const char *file, struct arena *a)
{
    cleanup_sbuf struct sbuf path = {0};
    cleanup_sbuf struct sbuf bytes = {0};
    sbuf_addf(&path, "%s/%s", dir, file);
    if (file_read(path.p, FILE_MAX, &bytes, NULL) != 0)
        return STR("");
    return arena_str(a, str_trim(sbuf_str(&bytes)));
}

static int64_t net_sysfs_read_number(const char *dir, const char *file, struct arena *a)
{
    int64_t n = -1;
    return str_to_i64(net_sysfs_read_text(dir, file, a), &n) == 0 ? n : -1;
}

static bool net_sysfs_exists(const char *dir, const char *file)
{
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s/%s", dir, file);
    return access(path.p, F_OK) == 0;
}

static struct str first_entry(const char *dir, const char *below, struct arena *a)
{
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s/%s", dir, below);
    struct str best = {0};
    DIR *d = opendir(path.p);
    for (const struct dirent *e; d && (e = file_next_entry(d));)
        if (e->d_name[0] != '.' && (best.n == 0 || str_cmp(str_z(e->d_name), best) < 0))
            best = arena_str(a, str_z(e->d_name));
    if (d)
        (void)closedir(d);
    return best;
}

static struct str base_of_link(const char *dir, const char *file, struct arena *a)
{
    cleanup_sbuf struct sbuf path = {0};
    char target[PATH_MAX];
    sbuf_addf(&path, "%s/%s", dir, file);
    ssize_t n = readlink(path.p, target, sizeof(target));
    if (n <= 0)
        return STR("");
    struct str t = str_make(target, (size_t)n);
    ptrdiff_t slash = str_rfind_char(t, '/');
    return arena_str(a, str_from(t, (size_t)(slash + 1)));
}

// --- The PCI bus ---------------------------------------------------------------------------------

static bool net_sysfs_is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

// dddd:bb:ss.f
static bool is_pci_address(struct str s)
{
    static const char form[] = "xxxx:xx:xx.x";
    if (s.n != sizeof(form) - 1)
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (form[i] == 'x' ? !net_sysfs_is_hex(s.p[i]) : s.p[i] != form[i])
            return false;
    return true;
}

// The way to a device names all bridges above it: the last address is the device's own.
static void net_sysfs_read_path(const char *resolved, struct net_hardware *h, struct arena *a)
{
    struct str rest = str_z(resolved);
    h->virtual = str_contains(rest, STR("/devices/virtual/"));
    while (rest.n > 0) {
        struct str part;
        (void)str_cut(rest, '/', &part, &rest);
        if (h->pcie_root.n == 0 && part.n == 10 && str_starts(part, STR("pci")) && part.p[7] == ':')
            h->pcie_root = arena_str(a, part);
        if (is_pci_address(part))
            h->pci = arena_str(a, part);
    }
}

static void read_pci(const char *dir, const struct net_pci_names *names, struct net_hardware *h,
                     struct arena *a)
{
    h->vendor = net_sysfs_read_text(dir, "vendor", a);
    h->device = net_sysfs_read_text(dir, "device", a);
    h->subsystem = str_from(net_sysfs_read_text(dir, "subsystem_device", a), 2);
    h->numa_node = net_sysfs_read_number(dir, "numa_node", a);
    h->total_vfs = net_sysfs_read_number(dir, "sriov_totalvfs", a);
    h->vfs = net_sysfs_read_number(dir, "sriov_numvfs", a);
    h->is_vf = net_sysfs_exists(dir, "physfn");
    h->driver = base_of_link(dir, "driver", a);
    find_names(names, h, a);
}

void net_hardware_read(const char *sys, const char *interface, const struct net_pci_names *names,
                       struct arena *arena, struct net_hardware *ret)
{
    cleanup_sbuf struct sbuf path = {0};
    struct net_hardware h = {.numa_node = -1, .vfs = -1, .total_vfs = -1};
    sbuf_addf(&path, "%s/class/net/%s", sys, interface);
    cleanup_free char *whole = realpath(path.p, NULL);
    if (whole)
        net_sysfs_read_path(whole, &h, arena);
    sbuf_addz(&path, "/device");
    if (h.pci.n) {
        h.rdma = first_entry(path.p, "infiniband", arena);
        sbuf_clear(&path);
        sbuf_addf(&path, "%s/bus/pci/devices/%s", sys, h.pci.p);
        read_pci(path.p, names, &h, arena);
    }
    *ret = h;
}

int net_vfs_make(const char *sys, const char *interface, int64_t n, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf path = {0};
    char text[32];
    sbuf_addf(&path, "%s/class/net/%s/device", sys, interface);
    int64_t have = net_sysfs_read_number(path.p, "sriov_numvfs", &arena);
    int64_t most = net_sysfs_read_number(path.p, "sriov_totalvfs", &arena);
    if (have < 0)
        return err_set(err, ERR_UNSUPPORTED, "%s has no virtual functions (SR-IOV)", interface);
    if (n > most)
        return err_set(err, ERR_INVALID, "%s can have %lld virtual functions at most", interface,
                       (long long)most);
    if (have >= n)
        return 0;
    if (have > 0)
        return err_set(err, EBUSY,
                       "%s has %lld virtual functions already; the kernel changes their number "
                       "only from none",
                       interface, (long long)have);
    sbuf_addz(&path, "/sriov_numvfs");
    int fd = open(path.p, O_WRONLY | O_CLOEXEC);
    int len = snprintf(text, sizeof(text), "%lld", (long long)n);
    int r = 0;
    if (fd < 0 || write(fd, text, (size_t)len) != len)
        r = err_set(err, errno, "cannot write %s: %s", path.p, strerrordesc_np(errno));
    if (fd >= 0)
        (void)close(fd);
    return r;
}

void net_rdma_nodes(const char *sys, struct str rdma, void (*fn)(void *arg, const char *path),
                    void *arg)
{
    static const char *const kinds[] = {"infiniband_verbs", "infiniband_mad"};
    cleanup_arena struct arena arena = {0};
    for (size_t i = 0; i < array_len(kinds); i++) {
        cleanup_sbuf struct sbuf dir = {0};
        cleanup_sbuf struct sbuf node = {0};
        sbuf_addf(&dir, "%s/class/infiniband/%.*s/device", sys, STR_ARG(rdma));
        struct str name = first_entry(dir.p, kinds[i], &arena);
        if (name.n == 0)
            continue;
        sbuf_addf(&node, "/dev/infiniband/%.*s", STR_ARG(name));
        fn(arg, node.p);
    }
    if (net_sysfs_exists(sys, "class/misc/rdma_cm"))
        fn(arg, "/dev/infiniband/rdma_cm");
}
