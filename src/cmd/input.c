// SPDX-License-Identifier: Apache-2.0
//
// Files of a command line: YAML, JSON or protobuf, from a path or standard input, document by
// document.
#include "cmd/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/banned.h"

#define READ_STEP ((size_t)64 * 1024)

static int input_read_descriptor(int fd, struct sbuf *out, struct err *err)
{
    while (true) {
        ssize_t n = read(fd, sbuf_space(out, READ_STEP), READ_STEP);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set(err, errno, "cannot read: %s", strerrordesc_np(errno));
        if (n == 0)
            return 0;
        sbuf_commit(out, (size_t)n);
        if (out->n > DRAY_FILE_BYTES_MAX)
            return err_set(err, ERR_TOO_LARGE, "the file is larger than %zu bytes",
                           DRAY_FILE_BYTES_MAX);
    }
}

int input_open(struct input *in, const char *path, struct err *err)
{
    bool standard = strcmp(path, "-") == 0;
    *in = (struct input){.name = standard ? "<stdin>" : path};
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, errno, "cannot open: %s", strerrordesc_np(errno));
    int r = input_read_descriptor(fd, &in->bytes, err);
    if (!standard)
        (void)close(fd);
    return r;
}

bool input_is_proto(const struct input *in)
{
    return api_envelope_is(sbuf_str(&in->bytes));
}

int input_next(struct input *in, struct json_doc *ret, struct err *err)
{
    if (!in->started) {
        struct json_options options = {DRAY_FILE_BYTES_MAX, JSON_DUPLICATES_KEEP};
        docs_reader_init(&in->docs, sbuf_str(&in->bytes), &options);
        in->started = true;
    }
    return docs_next(&in->docs, ret, err);
}

void input_error(const struct input *in, const char *verb, const struct err *err)
{
    char where[64] = "";
    if (err->line)
        (void)snprintf(where, sizeof(where), "%zu:%zu:", err->line, err->column);
    (void)fprintf(stderr, "dray %s: %s:%s %s%s%s\n", verb, in->name, where, err->path,
                  err->path[0] ? ": " : "", err->msg);
}

void input_done(struct input *in)
{
    if (in->started)
        docs_reader_done(&in->docs);
    sbuf_done(&in->bytes);
    *in = (struct input){0};
}
