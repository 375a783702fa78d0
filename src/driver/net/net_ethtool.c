// SPDX-License-Identifier: Apache-2.0
//
// Features and private flags of an interface, as `ethtool -K` and `--set-priv-flags` set them.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "driver/net/net_attach.h"

#include "base/banned.h"

enum { STRINGS_MAX = 4096 };

// What ethtool calls several features of the kernel; a name that ends in '*' stands for all that
// begin so.
static const struct {
    const char *name;
    const char *kernel[5];
} groups[] = {
    {"rx-checksumming", {"rx-checksum"}},
    {"rx", {"rx-checksum"}},
    {"tx-checksumming", {"tx-checksum-*"}},
    {"tx", {"tx-checksum-*"}},
    {"scatter-gather", {"tx-scatter-gather*"}},
    {"sg", {"tx-scatter-gather*"}},
    {"tcp-segmentation-offload", {"tx-tcp*"}},
    {"tso", {"tx-tcp*"}},
    {"generic-segmentation-offload", {"tx-generic-segmentation"}},
    {"gso", {"tx-generic-segmentation"}},
    {"generic-receive-offload", {"rx-gro"}},
    {"gro", {"rx-gro"}},
    {"large-receive-offload", {"rx-lro"}},
    {"lro", {"rx-lro"}},
    {"rx-vlan-offload", {"rx-vlan-hw-parse"}},
    {"tx-vlan-offload", {"tx-vlan-hw-insert"}},
    {"ntuple-filters", {"rx-ntuple-filter"}},
    {"receive-hashing", {"rx-hashing"}},
};

static int net_ethtool_call(int fd, const char *name, void *command, struct err *err)
{
    struct ifreq request = {.ifr_data = command};
    (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    if (ioctl(fd, SIOCETHTOOL, &request) != 0)
        return err_set(err, errno, "ethtool on %s: %s", name, strerrordesc_np(errno));
    return 0;
}

// The names of a set: *ret is freed by the caller.
static int net_ethtool_read_names(int fd, const char *name, uint32_t set,
                                  struct ethtool_gstrings **ret, struct err *err)
{
    cleanup_free struct ethtool_sset_info *ask = xcalloc(1, sizeof(*ask) + sizeof(uint32_t));
    ask->cmd = ETHTOOL_GSSET_INFO;
    ask->sset_mask = UINT64_C(1) << set;
    int r = net_ethtool_call(fd, name, ask, err);
    if (r != 0)
        return r;
    uint32_t n = ask->sset_mask ? ask->data[0] : 0;
    if (n > STRINGS_MAX)
        return err_set(err, ERR_TOO_LARGE, "%s has more than %d features", name, STRINGS_MAX);
    struct ethtool_gstrings *names = xcalloc(1, sizeof(*names) + (size_t)n * ETH_GSTRING_LEN);
    names->cmd = ETHTOOL_GSTRINGS;
    names->string_set = set;
    names->len = n;
    r = n ? net_ethtool_call(fd, name, names, err) : 0;
    if (r != 0) {
        free(names);
        return r;
    }
    *ret = names;
    return 0;
}

static struct str name_at(const struct ethtool_gstrings *names, uint32_t i)
{
    const char *p = (const char *)names->data + (size_t)i * ETH_GSTRING_LEN;
    return str_make(p, strnlen(p, ETH_GSTRING_LEN));
}

static bool is_pattern(struct str name, const char *pattern)
{
    struct str p = str_z(pattern);
    return str_ends(p, STR("*")) ? str_starts(name, str_upto(p, p.n - 1)) : str_eq(name, p);
}

static bool net_ethtool_is_match(struct str kernel, struct str wanted)
{
    if (str_eq(kernel, wanted))
        return true;
    for (size_t g = 0; g < array_len(groups); g++) {
        if (!str_eqz(wanted, groups[g].name))
            continue;
        for (size_t k = 0; k < array_len(groups[g].kernel) && groups[g].kernel[k]; k++)
            if (is_pattern(kernel, groups[g].kernel[k]))
                return true;
    }
    return false;
}

static int net_ethtool_unknown_flag(const char *name, const char *what, struct str flag,
                                    struct err *err)
{
    return err_set(err, ERR_INVALID, "%s has no %s %.*s", name, what, STR_ARG(flag));
}

static int set_features(int fd, const char *name, const struct net_flags *flags, struct err *err)
{
    struct ethtool_gstrings *names = NULL;
    int r = net_ethtool_read_names(fd, name, ETH_SS_FEATURES, &names, err);
    if (r != 0)
        return r;
    uint32_t blocks = (names->len + 31) / 32;
    cleanup_free struct ethtool_sfeatures *set =
        xcalloc(1, sizeof(*set) + blocks * sizeof(set->features[0]));
    set->cmd = ETHTOOL_SFEATURES;
    set->size = blocks;
    for (size_t f = 0; r == 0 && f < flags->n; f++) {
        bool known = false;
        for (uint32_t i = 0; i < names->len; i++) {
            if (!net_ethtool_is_match(name_at(names, i), flags->p[f].name))
                continue;
            uint32_t bit = UINT32_C(1) << (i % 32);
            known = true;
            set->features[i / 32].valid |= bit;
            if (flags->p[f].on)
                set->features[i / 32].requested |= bit;
        }
        if (!known)
            r = net_ethtool_unknown_flag(name, "feature", flags->p[f].name, err);
    }
    free(names);
    return r == 0 ? net_ethtool_call(fd, name, set, err) : r;
}

static int set_private(int fd, const char *name, const struct net_flags *flags, struct err *err)
{
    struct ethtool_gstrings *names = NULL;
    struct ethtool_value value = {.cmd = ETHTOOL_GPFLAGS};
    int r = net_ethtool_read_names(fd, name, ETH_SS_PRIV_FLAGS, &names, err);
    if (r != 0)
        return r;
    if (names->len > 0)
        r = net_ethtool_call(fd, name, &value, err);
    for (size_t f = 0; r == 0 && f < flags->n; f++) {
        uint32_t i = 0;
        while (i < names->len && i < 32 && !str_eq(name_at(names, i), flags->p[f].name))
            i++;
        if (i == names->len || i == 32)
            r = net_ethtool_unknown_flag(name, "private flag", flags->p[f].name, err);
        else if (flags->p[f].on)
            value.data |= UINT32_C(1) << i;
        else
            value.data &= ~(UINT32_C(1) << i);
    }
    free(names);
    value.cmd = ETHTOOL_SPFLAGS;
    return r == 0 ? net_ethtool_call(fd, name, &value, err) : r;
}

int net_ethtool(int ns, const char *name, const struct net_flags *features,
                const struct net_flags *private_flags, struct err *err)
{
    int back = -1;
    int r = net_ns_enter(ns, &back, err);
    if (r != 0)
        return r;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    net_ns_leave(back);
    if (fd < 0)
        return err_set(err, errno, "no socket for ethtool: %s", strerrordesc_np(errno));
    if (features->n)
        r = set_features(fd, name, features, err);
    if (r == 0 && private_flags->n)
        r = set_private(fd, name, private_flags, err);
    (void)close(fd);
    return r;
}
