// SPDX-License-Identifier: Apache-2.0
//
// Releases memory that only the start needed: unmodified pages of programs and libraries. They come
// back by themselves when they are needed, from memory that all processes share.
#include <malloc.h>
#include <stdio.h>

#include <sys/mman.h>

#include "node/machine/node.h"

#include "base/banned.h"

// A mapping of a file, as /proc/self/smaps has it.
struct mapping {
    uint64_t from, to;
    bool file;      // of a file, not to be written
    bool unchanged; // no page is our own
};

static bool node_memory_parse_hex(struct str s, uint64_t *ret)
{
    uint64_t v = 0;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if ((c < '0' || c > '9') && (c < 'a' || c > 'f'))
            return false;
        v = v << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    *ret = v;
    return s.n > 0;
}

// "from-to r-xp offset device inode path"; false for other lines.
static bool node_memory_read_mapping(struct str line, struct mapping *m)
{
    struct str range, rest, from, to, flags;
    if (!str_cut(line, ' ', &range, &rest) || !str_cut(range, '-', &from, &to) ||
        !node_memory_parse_hex(from, &m->from) || !node_memory_parse_hex(to, &m->to))
        return false;
    (void)str_cut(rest, ' ', &flags, &rest);
    ptrdiff_t path = str_find_char(rest, '/');
    m->file =
        path >= 0 && flags.n == 4 && flags.p[0] == 'r' && flags.p[1] == '-' && flags.p[3] == 'p';
    m->unchanged = true;
    return true;
}

static void node_memory_release(const struct mapping *m)
{
    if (m->file && m->unchanged && m->to > m->from)
        // NOLINTNEXTLINE(performance-no-int-to-ptr): smaps has addresses as numbers
        (void)madvise((void *)(uintptr_t)m->from, m->to - m->from, MADV_DONTNEED);
}

void node_memory_trim(void)
{
    struct mapping m = {0};
    char line[512];
    FILE *f = fopen("/proc/self/smaps", "re");
    (void)malloc_trim(0);
    while (f && fgets(line, sizeof(line), f)) {
        struct str s = str_trim(str_z(line));
        struct mapping next = {0};
        if (node_memory_read_mapping(s, &next)) {
            node_memory_release(&m);
            m = next;
        } else if ((str_starts(s, STR("Anonymous:")) || str_starts(s, STR("Private_Dirty:"))) &&
                   !str_ends(s, STR(" 0 kB"))) {
            m.unchanged = false;
        }
    }
    node_memory_release(&m);
    if (f)
        (void)fclose(f);
}
