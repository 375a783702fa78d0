// SPDX-License-Identifier: Apache-2.0
//
// dray explain KIND[.field...]: what a kind or a field means.
#include "api/explain.h"

#include <stdio.h>
#include <string.h>

#include "cmd/objects/objects.h"
#include "cmd/verb.h"

#include "base/banned.h"

static struct {
    struct cli_texts words;
    const char *version;
    bool recursive;
} args = {.version = ""};

static int verb_explain(void);

static const struct cli_option explain_options[] = {
    {"--api-version", NULL, "VERSION", "explain this version, such as v1beta1",
     .text = &args.version},
    {"--recursive", NULL, NULL, "list all fields below", .flag = &args.recursive},
};
static const struct cli_group explain_group = CLI_GROUP("Options", explain_options);

const struct cli_verb explain_verb = {
    .name = "explain",
    .summary = "explain a kind or a field",
    .chapter = CLI_OBJECTS,
    .synopsis = "explain KIND[.FIELD…] [--api-version VERSION] [--recursive]",
    .text = "Shows the documentation of a kind or a field. KIND is a kind, its plural or a short "
            "name, such as resourceclaim, "
            "pods or cm.",
    .examples = "dray explain resourceclaim.spec.devices\ndray explain pods --recursive",
    .groups = {&explain_group},
    .words = &args.words,
    .word = "KIND[.FIELD…]",
    .words_least = 1,
    .words_most = 1,
    .kinds = true,
    .run = verb_explain,
};

static int verb_explain(void)
{
    struct err err = {0};
    cleanup_sbuf struct sbuf out = {0}, path = {0};
    struct str kind, fields;
    bool deep = str_cut(str_z(args.words.p[0]), '.', &kind, &fields);
    kind = objects_plural(kind);
    sbuf_addf(&path, "%.*s%s%.*s", STR_ARG(kind), deep ? "." : "", STR_ARG(fields));
    if (api_explain(sbuf_str(&path), str_z(args.version), args.recursive, &out, &err) < 0) {
        (void)fprintf(stderr, "dray explain: %s\n", err.msg);
        return VERB_NO;
    }
    (void)fwrite(out.p, 1, out.n, stdout);
    return VERB_OK;
}
