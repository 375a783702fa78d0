// SPDX-License-Identifier: Apache-2.0
//
// Network namespaces by descriptor and by identity (device and inode): a path may name another
// namespace by the time it is opened, so the identity is checked again.
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>

#include "driver/net/net_link.h"
#include "os/file.h"

#include "base/banned.h"

int net_ns_open(const char *path, int *ret_fd, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, errno, "cannot open the network namespace %s: %s", path,
                       strerrordesc_np(errno));
    *ret_fd = fd;
    return 0;
}

int net_ns_id(int fd, struct net_ns_id *ret, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return err_set(err, errno, "cannot look at a network namespace: %s",
                       strerrordesc_np(errno));
    *ret = (struct net_ns_id){st.st_dev, st.st_ino};
    return 0;
}

static bool net_ns_is_same(const char *path, struct net_ns_id id)
{
    struct stat st;
    return stat(path, &st) == 0 && st.st_dev == id.device && st.st_ino == id.inode;
}

// The file may be replaced between stat and open.
static bool try_path(const char *path, struct net_ns_id id, int *ret_fd)
{
    struct net_ns_id opened = {0};
    int fd = -1;
    if (!net_ns_is_same(path, id) || net_ns_open(path, &fd, NULL) != 0)
        return false;
    if (net_ns_id(fd, &opened, NULL) == 0 && opened.inode == id.inode &&
        opened.device == id.device) {
        *ret_fd = fd;
        return true;
    }
    (void)close(fd);
    return false;
}

static bool net_ns_scan_proc(const char *dir, const char *behind, bool numbers, struct net_ns_id id,
                             int *ret_fd)
{
    DIR *d = opendir(dir);
    bool found = false;
    if (!d)
        return false;
    for (const struct dirent *e; !found && (e = file_next_entry(d));) {
        char path[512];
        bool fits = numbers ? e->d_name[0] >= '1' && e->d_name[0] <= '9' : e->d_name[0] != '.';
        int n = snprintf(path, sizeof(path), "%s/%s%s", dir, e->d_name, behind);
        found = fits && n > 0 && (size_t)n < sizeof(path) && try_path(path, id, ret_fd);
    }
    (void)closedir(d);
    return found;
}

int net_ns_find(const char *proc, struct net_ns_id id, int pid, int *ret_fd, struct err *err)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%d/ns/net", proc, pid);
    if (pid > 0 && try_path(path, id, ret_fd))
        return 0;
    if (net_ns_scan_proc("/run/netns", "", false, id, ret_fd) ||
        net_ns_scan_proc(proc, "/ns/net", true, id, ret_fd))
        return 0;
    return err_set(err, ERR_NOT_FOUND, "the network namespace net:[%llu] is gone",
                   (unsigned long long)id.inode);
}

int net_ns_enter(int fd, int *ret_back, struct err *err)
{
    int back = -1;
    int r = net_ns_open("/proc/thread-self/ns/net", &back, err);
    if (r != 0)
        return r;
    if (setns(fd, CLONE_NEWNET) != 0) {
        r = err_set(err, errno, "cannot enter a network namespace: %s", strerrordesc_np(errno));
        (void)close(back);
        return r;
    }
    *ret_back = back;
    return 0;
}

// Going on in the wrong namespace would change the wrong interfaces.
void net_ns_leave(int back)
{
    if (setns(back, CLONE_NEWNET) != 0)
        abort();
    (void)close(back);
}
