// SPDX-License-Identifier: Apache-2.0
//
// Profiles: any text either makes objects or says what is wrong; it ends and stays small.
#include <assert.h>

#include "driver/profile.h"
#include "fuzz.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 4096)
        return 0;
    struct profile *p = NULL;
    struct err err = {0};
    if (profile_parse(str_make((const char *)data, size), &p, &err) != 0) {
        assert(err.msg[0] != '\0');
        return 0;
    }
    struct arena arena = {0};
    struct profile_objects o;
    if (profile_node(p, STR("node-1"), 1, &arena, &o, &err) == 0)
        assert(o.node);
    else
        assert(err.msg[0] != '\0');
    err = (struct err){0};
    if (profile_shared(p, &arena, &o, &err) != 0)
        assert(err.msg[0] != '\0');
    profile_free(p);
    arena_done(&arena);
    return 0;
}
