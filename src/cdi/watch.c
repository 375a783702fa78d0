// SPDX-License-Identifier: Apache-2.0
#include "cdi/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/inotify.h>

#include "base/mem.h"
#include "base/vec.h"
#include "cdi/spec.h"

#include "base/banned.h"

#define FOLDER_EVENTS                                                                        \
    (IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_DELETE_SELF | \
     IN_MOVE_SELF | IN_ONLYDIR)
#define PARENT_EVENTS (IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)

struct cdi_watch {
    int fd;
    struct VEC(char *) dirs;
};

// Watches a folder, or what is there of the way to it. Adding a watch again changes nothing.
static void arm(const struct cdi_watch *w, const char *dir)
{
    if (inotify_add_watch(w->fd, dir, FOLDER_EVENTS) >= 0)
        return;
    cleanup_free char *path = xstrndup(dir, strlen(dir));
    const char *above = ".";
    for (char *slash = strrchr(path, '/'); slash; slash = strrchr(path, '/')) {
        *slash = '\0';
        above = path[0] ? path : "/";
        if (inotify_add_watch(w->fd, above, PARENT_EVENTS | IN_MASK_ADD) >= 0)
            break;
    }
    if (above[0] == '.')
        (void)inotify_add_watch(w->fd, above, PARENT_EVENTS | IN_MASK_ADD);
    // It may have come into being just before.
    (void)inotify_add_watch(w->fd, dir, FOLDER_EVENTS);
}

static void arm_all(const struct cdi_watch *w)
{
    vec_foreach(&w->dirs, dir)
        arm(w, *dir);
}

int cdi_watch_new(const char *const *dirs, size_t n, struct cdi_watch **ret, struct err *err)
{
    static const char *const usual[] = {CDI_STATIC_DIR, CDI_DYNAMIC_DIR};
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd < 0)
        return err_set(err, errno, "cannot watch folders: %s", strerrordesc_np(errno));
    struct cdi_watch *w = xcalloc(1, sizeof(*w));
    w->fd = fd;
    if (n == 0) {
        dirs = usual;
        n = array_len(usual);
    }
    for (size_t i = 0; i < n; i++)
        vec_push(&w->dirs, xstrndup(dirs[i], strlen(dirs[i])));
    arm_all(w);
    *ret = w;
    return 0;
}

void cdi_watch_free(struct cdi_watch *w)
{
    if (!w)
        return;
    (void)close(w->fd);
    vec_foreach(&w->dirs, dir)
        free(*dir);
    vec_done(&w->dirs);
    free(w);
}

int cdi_watch_fd(const struct cdi_watch *w)
{
    return w->fd;
}

bool cdi_watch_drain(struct cdi_watch *w)
{
    char events[4096];
    bool any = false;
    while (true) {
        ssize_t n = read(w->fd, events, sizeof(events));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        any = true;
    }
    if (any)
        arm_all(w);
    return any;
}
