// SPDX-License-Identifier: Apache-2.0
//
// Log files of containers, which a container may have written itself: in whatever pieces they are
// read, the same text comes out, within the limit. The first byte chooses the options, the second
// the pieces.
#include <assert.h>

#include "fuzz.h"
#include "node/runtime/cri_log.h"

#include "base/banned.h"

static void read_log(struct str text, size_t piece, uint8_t options, struct sbuf *out)
{
    struct cri_log l = {.options = {.timestamps = options & 1,
                                    .no_stdout = options & 2,
                                    .no_stderr = options & 4,
                                    .limit_bytes = options & 8 ? options >> 4 : -1}};
    int stream = options & 64 ? 1 : 0;
    bool more = true;
    while (text.n && more) {
        size_t n = piece && piece < text.n ? piece : text.n;
        more = cri_log_read(&l, str_upto(text, n), stream, out);
        text = str_from(text, n);
    }
    if (more)
        cri_log_end(&l, stream, out);
    assert(l.line.n <= CRI_LOG_LINE_MAX);
    if (l.options.limit_bytes >= 0)
        assert(out->n <= (size_t)l.options.limit_bytes);
    cri_log_done(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    cleanup_sbuf struct sbuf whole = {0}, pieces = {0};
    struct str text = str_make((const char *)data + 2, size - 2);
    read_log(text, 0, data[0], &whole);
    read_log(text, data[1], data[0], &pieces);
    assert(str_eq(sbuf_str(&whole), sbuf_str(&pieces)));
    return 0;
}
