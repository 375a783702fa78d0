// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as what a server says of its kinds, and as what it says at the end of a command. Every kind that is read is found again by its
// plural and group.
#include <assert.h>

#include "client/discovery.h"
#include "client/remote_exec.h"
#include "fuzz.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_make((const char *)data, size);
    struct discovery d = {0};
    struct err err = {0};
    int exit_status = 0;
    if (remote_exec_status(text, &exit_status, &err) == 0)
        assert(exit_status >= 0 && exit_status <= 255);
    if (discovery_read(&d, text, &err) == 0) {
        vec_foreach(&d.kinds, k) {
            cleanup_arena struct arena arena = {0};
            cleanup_sbuf struct sbuf path = {0};
            struct discovery_kinds found = {0};
            bool plain = str_find_char(k->plural, '.') < 0;
            int r = discovery_find(&d, k->plural, &arena, &found, &err);
            assert(r == 0 || !plain);
            discovery_add_path(&path, k, STR("n"), STR("x"));
            assert(path.n > 0);
        }
    }
    discovery_done(&d);
    return 0;
}
