// SPDX-License-Identifier: Apache-2.0
//
// CDI specs and the configurations they are applied to: `spec NUL config`. Laws: a spec is refused
// with a reason or can be written and reads as the same; what is applied is JSON; applying it again
// changes nothing.
#include <assert.h>

#include "cdi/apply.h"
#include "fuzz.h"

#include "base/banned.h"

// Whether a node exists depends on its name alone.
static int look(void *context, struct str path, struct cdi_node_info *ret, struct err *err)
{
    (void)context;
    if (path.n % 3 == 0)
        return err_set(err, ENOENT, "no such file");
    *ret = (struct cdi_node_info){path.n % 3 == 1 ? 'c' : 'b', 10, (int64_t)path.n, 0660};
    return 0;
}

static const struct cdi_host host = {.look = look};

static void writes_and_reads(const struct cdi_spec *spec)
{
    struct arena arena = {0};
    struct sbuf once = {0}, twice = {0};
    struct cdi_spec *again = NULL;
    struct cdi_problems problems = {0};
    struct json_writer w = {.out = &once};
    cdi_write_spec(&w, spec);
    // A list that is there but empty is not written, and may have asked for a newer version.
    int rc = cdi_spec_load(sbuf_str(&once), &arena, &again, &problems);
    assert(rc == 0);
    w = (struct json_writer){.out = &twice};
    cdi_write_spec(&w, again);
    assert(str_eq(sbuf_str(&once), sbuf_str(&twice)));
    sbuf_done(&once);
    sbuf_done(&twice);
    vec_done(&problems);
    arena_done(&arena);
}

static bool apply(const struct cdi_edits *edits, struct str config, struct sbuf *out)
{
    struct json_doc doc = {0};
    struct err err = {0};
    bool done = false;
    if (json_parse(config, NULL, &doc, &err) == 0) {
        struct json_writer w = {.out = out};
        done = cdi_apply(edits, doc.root, &host, &w, &err) == 0;
        assert(done || err.msg[0]);
        assert(done || out->n == 0);
    }
    json_doc_done(&doc);
    return done;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str input = str_make((const char *)data, size), text, config;
    if (!str_cut(input, '\0', &text, &config))
        config = STR("{}");
    struct arena arena = {0};
    struct cdi_spec *spec = NULL;
    struct cdi_problems problems = {0};
    int rc = cdi_spec_load(text, &arena, &spec, &problems);
    assert((rc == 0) == (problems.n == 0));
    vec_foreach(&problems, p)
        assert(p->msg[0] && p->code);
    if (rc == 0) {
        struct cdi_edits edits = {0};
        writes_and_reads(spec);
        cdi_edits_append(&edits, &spec->edits, &arena);
        vec_foreach(&spec->devices, d)
            cdi_edits_append(&edits, &d->edits, &arena);
        struct sbuf once = {0}, twice = {0};
        if (apply(&edits, config, &once)) {
            bool again = apply(&edits, sbuf_str(&once), &twice);
            assert(again && str_eq(sbuf_str(&once), sbuf_str(&twice)));
        }
        sbuf_done(&once);
        sbuf_done(&twice);
    }
    vec_done(&problems);
    arena_done(&arena);
    return 0;
}
