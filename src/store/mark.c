// SPDX-License-Identifier: Apache-2.0
//
// One line of text: "dray-database FORMAT ID REVISION open|closed".
#include "store/mark.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/str.h"
#include "os/file.h"

#include "base/banned.h"

#define MARK_HEAD      "dray-database 1 "
#define MARK_BYTES_MAX ((size_t)256)

static void mark_add_path(const char *database, struct sbuf *out)
{
    sbuf_addf(out, "%s.mark", database);
}

static bool mark_parse(struct str text, struct mark *ret)
{
    struct str head = STR(MARK_HEAD);
    if (!str_starts(text, head) || text.p[text.n - 1] != '\n')
        return false;
    text = str_make(text.p + head.n, text.n - head.n - 1);
    const size_t digits = MARK_ID_BYTES - 1;
    ptrdiff_t last = str_rfind_char(text, ' ');
    if (last <= (ptrdiff_t)digits + 1 || text.p[digits] != ' ')
        return false;
    struct str state = str_from(text, (size_t)last + 1);
    struct str revision = str_make(text.p + digits + 1, (size_t)last - digits - 1);
    memcpy(ret->id, text.p, digits);
    ret->id[digits] = '\0';
    ret->open = str_eqz(state, "open");
    return (ret->open || str_eqz(state, "closed")) && str_to_u64(revision, &ret->revision) == 0;
}

int mark_read(const char *database, struct mark *ret, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0}, text = {0};
    struct err why = {0};
    mark_add_path(database, &path);
    int r = file_read(path.p, MARK_BYTES_MAX, &text, &why);
    if (r == -ENOENT)
        return r;
    if (r < 0)
        return err_set(err, -r, "%s", why.msg);
    *ret = (struct mark){0};
    if (!mark_parse(sbuf_str(&text), ret))
        return err_set(err, ERR_INVALID,
                       "%s is damaged or of a newer dray: use that one, or start with --salvage",
                       path.p);
    return 0;
}

int mark_write(const char *database, const struct mark *mark, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0}, text = {0};
    mark_add_path(database, &path);
    sbuf_addf(&text, MARK_HEAD "%s %llu %s\n", mark->id, (unsigned long long)mark->revision,
              mark->open ? "open" : "closed");
    return file_replace_durable(AT_FDCWD, path.p, sbuf_str(&text), 0600, err);
}

int mark_remove(const char *database, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0};
    mark_add_path(database, &path);
    return file_remove(path.p, err);
}
