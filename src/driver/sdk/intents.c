// SPDX-License-Identifier: Apache-2.0
//
// Files made in advance, one for each claim that may be under way. A write to a file that exists
// cannot fail for lack of space when it matters.
#include "driver/sdk/intents.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/mem.h"
#include "os/fault.h"
#include "os/file.h"

#include "base/banned.h"

// A slot is "<uid>\n<line>\n" and zeros; a free one begins with a zero.
enum { UID_MAX_LEN = 128 };

struct intents {
    int fd;
};

static int intents_set_error(const char *what, struct err *err)
{
    return err_set(err, errno, "cannot %s the file of intents: %s", what, strerrordesc_np(errno));
}

static int write_at(int fd, struct str bytes, off_t at)
{
    while (bytes.n > 0) {
        ssize_t n = pwrite(fd, bytes.p, bytes.n, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        bytes = str_from(bytes, (size_t)n);
        at += n;
    }
    return 0;
}

static bool read_slot(const struct intents *i, size_t slot, char buf[INTENT_BYTES])
{
    return pread(i->fd, buf, INTENT_BYTES, (off_t)(slot * INTENT_BYTES)) == INTENT_BYTES &&
           buf[0] != '\0';
}

static bool parse_slot(const char buf[INTENT_BYTES], char uid[UID_MAX_LEN + 1], struct str *line)
{
    struct str head;
    struct str all = str_make(buf, strnlen(buf, INTENT_BYTES));
    if (!str_cut(all, '\n', &head, line) || head.n == 0 || head.n > UID_MAX_LEN ||
        str_find_char(head, '/') >= 0)
        return false;
    memcpy(uid, head.p, head.n);
    uid[head.n] = '\0';
    return true;
}

// Every block is written once: later writes find it there, and change nothing that the file system
// has to remember.
static int intents_fill_pool(struct intents *i, struct err *err)
{
    static const char zeros[INTENT_BYTES];
    struct stat st;
    if (fstat(i->fd, &st) != 0)
        return intents_set_error("look at", err);
    if (st.st_size >= (off_t)INTENT_SLOTS * INTENT_BYTES)
        return 0;
    for (size_t slot = 0; slot < INTENT_SLOTS; slot++)
        if (write_at(i->fd, str_make(zeros, sizeof(zeros)), (off_t)(slot * INTENT_BYTES)) != 0)
            return intents_set_error("fill", err);
    return fsync(i->fd) == 0 ? 0 : intents_set_error("sync", err);
}

int intents_open(const char *path, struct intents **ret, struct err *err)
{
    // Made with its name on the disk.
    int r = access(path, F_OK) == 0 ? 0 : file_append_durable(path, STR(""), err);
    int fd = r == 0 ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return r == 0 ? intents_set_error("open", err) : r;
    struct intents *i = xcalloc(1, sizeof(*i));
    i->fd = fd;
    r = intents_fill_pool(i, err);
    if (r != 0) {
        intents_close(i);
        return r;
    }
    *ret = i;
    return 0;
}

void intents_close(struct intents *i)
{
    if (!i)
        return;
    (void)close(i->fd);
    free(i);
}

static bool intents_is_free(const struct intents *i, size_t slot, const char *uid,
                            intents_held_fn held, void *arg)
{
    char buf[INTENT_BYTES], other[UID_MAX_LEN + 1];
    struct str line;
    return !read_slot(i, slot, buf) || !parse_slot(buf, other, &line) || strcmp(other, uid) == 0 ||
           !held(arg, other);
}

int intents_put(struct intents *i, const char *uid, struct str line, intents_held_fn held,
                void *arg, struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text, "%s\n", uid);
    sbuf_add(&text, str_trim(line));
    sbuf_addc(&text, '\n');
    sbuf_addc(&text, '\0');
    size_t slot = 0;
    while (slot < INTENT_SLOTS && !intents_is_free(i, slot, uid, held, arg))
        slot++;
    if (slot == INTENT_SLOTS || text.n > INTENT_BYTES)
        return 0;
    int r = fault_check("write an intent", err);
    if (r == 0 && write_at(i->fd, sbuf_str(&text), (off_t)(slot * INTENT_BYTES)) != 0)
        r = intents_set_error("write", err);
    if (r == 0)
        r = fault_check("sync an intent", err);
    if (r == 0 && fdatasync(i->fd) != 0)
        r = intents_set_error("sync", err);
    return r == 0 ? 1 : r;
}

void intents_each(struct intents *i, intents_fn fn, void *arg)
{
    for (size_t slot = 0; slot < INTENT_SLOTS; slot++) {
        char buf[INTENT_BYTES], uid[UID_MAX_LEN + 1];
        struct str line;
        if (read_slot(i, slot, buf) && parse_slot(buf, uid, &line))
            fn(arg, uid, line);
    }
}

void intents_clear(struct intents *i, const char *uid)
{
    for (size_t slot = 0; slot < INTENT_SLOTS; slot++) {
        char buf[INTENT_BYTES], other[UID_MAX_LEN + 1];
        struct str line;
        if (read_slot(i, slot, buf) && parse_slot(buf, other, &line) && strcmp(uid, other) == 0)
            (void)!write_at(i->fd, str_make("", 1), (off_t)(slot * INTENT_BYTES));
    }
}
