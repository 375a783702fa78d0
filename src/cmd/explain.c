// SPDX-License-Identifier: Apache-2.0
//
// dray explain KIND[.field...]: what a kind or a field means.
#include "api/explain.h"

#include <stdio.h>
#include <string.h>

#include "cmd/objects.h"
#include "cmd/verb.h"

#include "base/banned.h"

const char explain_usage[] =
    "dray explain KIND[.field...] [--api-version VERSION] [--recursive]\n\n"
    "KIND: a kind, its plural or a short name, such as resourceclaim, pods or cm.\n"
    "--api-version: which version of it, such as v1beta1. --recursive: all fields below.";

int verb_explain(int argc, char **argv)
{
    const char *what = NULL, *version = "";
    bool recursive = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--recursive") == 0)
            recursive = true;
        else if (strcmp(argv[i], "--api-version") == 0 && i + 1 < argc)
            version = argv[++i];
        else if (strncmp(argv[i], "--api-version=", 14) == 0)
            version = argv[i] + 14;
        else if (argv[i][0] == '-' || what)
            return verb_usage_error("explain", verb_no_sense);
        else
            what = argv[i];
    }
    if (!what)
        return verb_usage_error("explain", "say which kind, for example resourceclaim.spec");
    struct err err = {0};
    cleanup_sbuf struct sbuf out = {0}, path = {0};
    struct str kind, fields;
    bool deep = str_cut(str_z(what), '.', &kind, &fields);
    kind = objects_plural(kind);
    sbuf_addf(&path, "%.*s%s%.*s", STR_ARG(kind), deep ? "." : "", STR_ARG(fields));
    if (api_explain(sbuf_str(&path), str_z(version), recursive, &out, &err) < 0) {
        (void)fprintf(stderr, "dray explain: %s\n", err.msg);
        return VERB_NO;
    }
    (void)fwrite(out.p, 1, out.n, stdout);
    return VERB_OK;
}
