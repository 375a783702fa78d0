// SPDX-License-Identifier: Apache-2.0
//
// A library to preload: the wall clock, moved by as many nanoseconds as the file named in
// CLOCK_SHIFT_FILE says, at any moment. The monotonic clock stays what it is, as when somebody sets
// a machine's time.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/time.h>

#include "base/banned.h"

#define NS_PER_SEC 1000000000LL

static const volatile int64_t *shift_ns;

__attribute__((constructor)) static void map_file(void)
{
    const char *name = getenv("CLOCK_SHIFT_FILE");
    int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *p = mmap(NULL, sizeof(*shift_ns), PROT_READ, MAP_SHARED, fd, 0);
    if (p != MAP_FAILED)
        shift_ns = p;
    (void)close(fd);
}

static int real_clock(clockid_t id, struct timespec *ts)
{
    static int (*next)(clockid_t, struct timespec *);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "clock_gettime");
    return next(id, ts);
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *ts)
{
    int r = real_clock(id, ts);
    if (r < 0 || id != CLOCK_REALTIME || !shift_ns)
        return r;
    long long at = ts->tv_sec * NS_PER_SEC + ts->tv_nsec + *shift_ns;
    ts->tv_sec = at / NS_PER_SEC;
    ts->tv_nsec = at % NS_PER_SEC;
    return 0;
}

__attribute__((visibility("default"))) time_t time(time_t *ret)
{
    struct timespec ts = {0};
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    if (ret)
        *ret = ts.tv_sec;
    return ts.tv_sec;
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict tv,
                                                        void *restrict zone)
{
    (void)zone;
    struct timespec ts = {0};
    int r = clock_gettime(CLOCK_REALTIME, &ts);
    *tv = (struct timeval){.tv_sec = ts.tv_sec, .tv_usec = ts.tv_nsec / 1000};
    return r;
}
