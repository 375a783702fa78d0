// SPDX-License-Identifier: Apache-2.0
//
// The users of an image: "USER[:GROUP]" of a configuration, looked up in the image's own
// /etc/passwd and /etc/group. The input is these three, with a NUL between them. Any text is
// understood or refused with a reason, and the groups stay within their bound.
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>

#include "fuzz.h"
#include "node/oci/oci.h"

#include "base/banned.h"

static int image = -1;

static void open_image(void)
{
    char path[] = "/tmp/dray-fuzz-users-XXXXXX";
    assert(mkdtemp(path));
    image = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert(image >= 0 && mkdirat(image, "etc", 0755) == 0);
    (void)unlink(path); // it is small; the system removes it
}

static void put_file(const char *name, struct str text)
{
    int fd = openat(image, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert(fd >= 0);
    ssize_t n = write(fd, text.p, text.n);
    assert(n == (ssize_t)text.n);
    (void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 65536)
        return 0;
    if (image < 0)
        open_image();
    cleanup_arena struct arena arena = {0};
    struct oci_user user;
    struct err err = {0};
    struct str rest = str_make((const char *)data, size), said, passwd, group;
    (void)str_cut(rest, '\0', &said, &rest);
    (void)str_cut(rest, '\0', &passwd, &group);
    put_file("etc/passwd", passwd);
    put_file("etc/group", group);
    if (oci_user_find(image, said, &arena, &user, &err) < 0)
        assert(err.msg[0] != '\0');
    return 0;
}
