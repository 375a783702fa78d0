// SPDX-License-Identifier: Apache-2.0
//
// Limits of a node: eviction options, and the machine's files of subordinate ids. Any text is
// understood or refused with a reason; thresholds and ranges that were understood are within bounds.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>

#include "fuzz.h"
#include "node/eviction.h"
#include "node/limits/id_ranges.h"

#include "base/banned.h"

static void try_options(char *text)
{
    // The parts of the text are the options, in turn.
    char *parts[4] = {text, NULL, NULL, NULL};
    for (size_t i = 1; i < array_len(parts) && parts[i - 1]; i++) {
        parts[i] = strchr(parts[i - 1], '\n');
        if (parts[i])
            *parts[i]++ = '\0';
    }
    const struct eviction_texts texts = {
        .hard = parts[0], .soft = parts[1], .soft_grace = parts[2], .reclaim = parts[3]};
    struct eviction_config c;
    struct err err = {0};
    if (eviction_config_parse(&texts, &c, &err) < 0) {
        assert(err.msg[0] != '\0');
        return;
    }
    assert(c.thresholds_len <= EVICTION_THRESHOLDS_MAX);
    for (int s = 0; s < EVICTION_SIGNALS; s++)
        assert(eviction_reserved(&c, (enum eviction_signal)s, INT64_C(1) << 40) >= 0);
}

static void try_ranges(const uint8_t *data, size_t size)
{
    int fd = memfd_create("subids", MFD_CLOEXEC);
    assert(fd >= 0);
    char path[48];
    struct id_ranges ranges;
    struct err err = {0};
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    ssize_t n = write(fd, data, size);
    assert(n == (ssize_t)size);
    if (id_ranges_read(path, path, 110, &ranges, &err) < 0)
        assert(err.msg[0] != '\0');
    (void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 4096)
        return 0;
    char *text = xstrndup((const char *)data, size);
    try_ranges(data, size);
    try_options(text);
    free(text);
    return 0;
}
