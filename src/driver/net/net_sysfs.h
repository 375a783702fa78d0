// SPDX-License-Identifier: Apache-2.0
//
// What sysfs knows of an interface's hardware: its place on the PCI bus and in the machine, its
// maker, virtual functions, RDMA. Read only, but for making virtual functions.
#ifndef DRIVER_NET_NET_SYSFS_H
#define DRIVER_NET_NET_SYSFS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#define NET_PCI_IDS "/usr/share/misc/pci.ids"

// Texts live in an arena; empty or -1: not known, or not there.
struct net_hardware {
    struct str pci;       // 0000:8a:00.0
    struct str pcie_root; // pci0000:80
    struct str vendor, device, subsystem;
    struct str rdma;   // name of its RDMA device
    struct str driver; // of the kernel
    int64_t numa_node;
    int64_t vfs;       // virtual functions it has now
    int64_t total_vfs; // and could have
    bool is_vf;
    bool virtual; // no hardware at all
};

struct net_pci_names; // of makers and devices

// net_pci_names_open reads the file of names; without it numbers are given. Freed by the caller.
struct net_pci_names *net_pci_names_open(const char *path);
void net_pci_names_free(struct net_pci_names *n);

// net_hardware_read looks at an interface of the host below sys, which is /sys. What cannot be read
// is not known; there is no failure. names may be NULL.
void net_hardware_read(const char *sys, const char *interface, const struct net_pci_names *names,
                       struct arena *arena, struct net_hardware *ret);

// net_vfs_make gives an interface n virtual functions, unless it has as many. Returns 0 or -errno.
int net_vfs_make(const char *sys, const char *interface, int64_t n, struct err *err) MUST_USE;

// net_rdma_nodes calls fn with each character device of an RDMA device, such as
// /dev/infiniband/uverbs0.
void net_rdma_nodes(const char *sys, struct str rdma, void (*fn)(void *arg, const char *path),
                    void *arg);

#endif
