// SPDX-License-Identifier: Apache-2.0
//
// The terminal: its width and whether it takes colors.
#include "view/term.h"

#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/ioctl.h>

#include "base/str.h"

#include "base/banned.h"

#define COLUMNS_DEFAULT 80
#define ROWS_DEFAULT    24

static const char *term_get_variable(const char *name)
{
    const char *v = getenv(name); // NOLINT(concurrency-mt-unsafe): nothing sets it
    return v && v[0] ? v : NULL;
}

static size_t size_setting(const char *name)
{
    uint64_t n = 0;
    const char *v = term_get_variable(name);
    return v && str_to_u64(str_z(v), &n) == 0 && n <= 10000 ? (size_t)n : 0;
}

struct view_term view_term_of(int fd, enum view_when color)
{
    struct view_term t = {.tty = isatty(fd) == 1};
    struct winsize size = {0};
    const char *kind = term_get_variable("TERM");
    bool dumb = kind && str_eqz(str_z(kind), "dumb");
    t.color = color == VIEW_ALWAYS ||
              (color == VIEW_AUTO && t.tty && !term_get_variable("NO_COLOR") && !dumb);
    if (t.tty) {
        bool known = ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
        t.columns = known ? size.ws_col : COLUMNS_DEFAULT;
        t.rows = known && size.ws_row > 0 ? size.ws_row : ROWS_DEFAULT;
    } else if (color == VIEW_ALWAYS) {
        t.columns = size_setting("COLUMNS");
    }
    return t;
}

int view_when_parse(const char *text, enum view_when *ret, struct err *err)
{
    static const char *const names[] = {
        [VIEW_AUTO] = "auto", [VIEW_ALWAYS] = "always", [VIEW_NEVER] = "never"};
    if (!text)
        text = "auto";
    for (size_t i = 0; i < array_len(names); i++) {
        if (str_eqz(str_z(text), names[i])) {
            *ret = (enum view_when)i;
            return 0;
        }
    }
    return err_set(err, ERR_INVALID, "--color is auto, always or never, not '%s'", text);
}
