// SPDX-License-Identifier: Apache-2.0
//
// What this machine is and has.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/statvfs.h>
#include <sys/utsname.h>

#include "net/address.h"
#include "node/machine/node.h"

#include "base/banned.h"

static void node_machine_read_file(const char *path, struct sbuf *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = read(fd, sbuf_space(out, 65536), 65536);
    sbuf_commit(out, n > 0 ? (size_t)n : 0);
    (void)close(fd);
}

static struct str node_machine_first_file(const char *const *paths, struct arena *arena)
{
    for (size_t i = 0; paths[i]; i++) {
        cleanup_sbuf struct sbuf text = {0};
        node_machine_read_file(paths[i], &text);
        struct str trimmed = str_trim(sbuf_str(&text));
        if (trimmed.n)
            return arena_str(arena, trimmed);
    }
    return STR("");
}

// A line "Key: 123 kB" of /proc/meminfo in bytes; -1 when there is none.
static int64_t node_machine_meminfo(struct str text, const char *key)
{
    while (text.n > 0) {
        struct str line, name, value;
        (void)str_cut(text, '\n', &line, &text);
        if (!str_cut(line, ':', &name, &value) || !str_eqz(name, key))
            continue;
        int64_t kib;
        struct str number;
        (void)str_cut(str_trim(value), ' ', &number, &value);
        return str_to_i64(number, &kib) == 0 ? kib * 1024 : -1;
    }
    return -1;
}

static struct str os_name(struct arena *arena)
{
    cleanup_sbuf struct sbuf text = {0};
    node_machine_read_file("/etc/os-release", &text);
    struct str rest = sbuf_str(&text);
    while (rest.n > 0) {
        struct str line, key, value;
        (void)str_cut(rest, '\n', &line, &rest);
        if (!str_cut(line, '=', &key, &value) || !str_eqz(key, "PRETTY_NAME"))
            continue;
        value = str_trim(value);
        if (value.n >= 2 && value.p[0] == '"')
            value = str_upto(str_from(value, 1), value.n - 2);
        return arena_str(arena, value);
    }
    return STR("Linux");
}

static struct str go_architecture(const char *machine)
{
    return strcmp(machine, "x86_64") == 0    ? STR("amd64")
           : strcmp(machine, "aarch64") == 0 ? STR("arm64")
                                             : str_z(machine);
}

// Addresses of the host: one of each family, IPv4 first.
static void node_machine_read_addresses(struct arena *arena, struct node_machine *m)
{
    char all[16][ADDRESS_BYTES];
    size_t n = address_machine(all, array_len(all));
    const char *v4 = NULL, *v6 = NULL;
    for (size_t i = n; i > 0; i--)
        *(strchr(all[i - 1], ':') ? &v6 : &v4) = all[i - 1];
    if (!v4 && !v6)
        v4 = "127.0.0.1";
    m->addresses = arena_strf(arena, "%s%s%s", v4 ? v4 : "", v4 && v6 ? "," : "", v6 ? v6 : "");
}

void node_machine_read(const char *folder, struct arena *arena, struct node_machine *ret)
{
    static const char *const machine_id[] = {"/etc/machine-id", "/var/lib/dbus/machine-id", NULL};
    static const char *const uuid[] = {"/sys/class/dmi/id/product_uuid",
                                       "/proc/device-tree/vm,uuid", "/etc/machine-id", NULL};
    static const char *const boot[] = {"/proc/sys/kernel/random/boot_id", NULL};
    cleanup_sbuf struct sbuf memory = {0};
    struct utsname u = {0};
    struct statvfs fs = {0};
    *ret = (struct node_machine){.machine_id = node_machine_first_file(machine_id, arena),
                                 .system_uuid = node_machine_first_file(uuid, arena),
                                 .boot_id = node_machine_first_file(boot, arena),
                                 .os_image = os_name(arena),
                                 .cpus = sysconf(_SC_NPROCESSORS_ONLN)};
    if (uname(&u) == 0) {
        ret->hostname = arena_str(arena, str_z(u.nodename));
        ret->kernel = arena_str(arena, str_z(u.release));
        ret->architecture = arena_str(arena, go_architecture(u.machine));
    }
    node_machine_read_file("/proc/meminfo", &memory);
    ret->memory_bytes = node_machine_meminfo(sbuf_str(&memory), "MemTotal");
    ret->swap_bytes = node_machine_meminfo(sbuf_str(&memory), "SwapTotal");
    if (statvfs(folder, &fs) == 0)
        ret->disk_bytes = (int64_t)(fs.f_blocks * fs.f_frsize);
    node_machine_read_addresses(arena, ret);
}

// What is left of process ids: as many as the kernel gives, less all that run.
static void node_machine_observe_pids(struct eviction_observation *ret)
{
    cleanup_sbuf struct sbuf max = {0}, threads = {0}, load = {0};
    struct str part, rest, total;
    int64_t most, most_threads, now;
    node_machine_read_file("/proc/sys/kernel/pid_max", &max);
    node_machine_read_file("/proc/sys/kernel/threads-max", &threads);
    node_machine_read_file("/proc/loadavg", &load); // 0.1 0.2 0.3 1/234 567
    rest = sbuf_str(&load);
    for (int i = 0; i < 4; i++)
        (void)str_cut(rest, ' ', &part, &rest);
    if (!str_cut(part, '/', &rest, &total) || str_to_i64(total, &now) < 0 ||
        str_to_i64(str_trim(sbuf_str(&max)), &most) < 0)
        return;
    if (str_to_i64(str_trim(sbuf_str(&threads)), &most_threads) == 0 && most_threads < most)
        most = most_threads;
    *ret = (struct eviction_observation){true, most - now, most};
}

static void node_machine_observe_disk(const char *folder, struct eviction_observation *bytes,
                                      struct eviction_observation *inodes)
{
    struct statvfs fs;
    if (statvfs(folder, &fs) != 0 || fs.f_blocks == 0)
        return;
    *bytes = (struct eviction_observation){true, (int64_t)(fs.f_bavail * fs.f_frsize),
                                           (int64_t)(fs.f_blocks * fs.f_frsize)};
    if (fs.f_files > 0) // a file system may have no fixed number
        *inodes = (struct eviction_observation){true, (int64_t)fs.f_favail, (int64_t)fs.f_files};
}

void node_machine_observe(const struct eviction_places *at, struct eviction_facts *ret)
{
    cleanup_sbuf struct sbuf memory = {0};
    *ret = (struct eviction_facts){0};
    node_machine_read_file("/proc/meminfo", &memory);
    int64_t left = node_machine_meminfo(sbuf_str(&memory), "MemAvailable");
    int64_t all = node_machine_meminfo(sbuf_str(&memory), "MemTotal");
    ret->of[EVICTION_MEMORY] = (struct eviction_observation){left >= 0 && all > 0, left, all};
    node_machine_observe_disk(at->node, &ret->of[EVICTION_NODE_DISK],
                              &ret->of[EVICTION_NODE_INODES]);
    node_machine_observe_disk(at->images, &ret->of[EVICTION_IMAGE_DISK],
                              &ret->of[EVICTION_IMAGE_INODES]);
    node_machine_observe_pids(&ret->of[EVICTION_PIDS]);
}
