// SPDX-License-Identifier: Apache-2.0
//
// dray cdi: what the CDI specs of a node offer, whether a spec is good, and what a device changes in
// a container.
#include <stdio.h>
#include <string.h>

#include "base/vec.h"
#include "cdi/apply.h"
#include "cdi/cache.h"
#include "cdi/store.h"
#include "cmd/input.h"
#include "cmd/verb.h"
#include "codec/yaml.h"

#include "base/banned.h"

const char cdi_usage[] =
    "dray cdi list [--dir DIR]... [-o json]\n"
    "dray cdi inspect [--dir DIR]... [-o yaml|json] VENDOR/CLASS=DEVICE...\n"
    "dray cdi validate FILE...\n"
    "dray cdi apply --spec CONFIG [--dir DIR]... [-o FILE] VENDOR/CLASS=DEVICE...\n\n"
    "list: the devices that the spec files offer; files that cannot be used are told on standard\n"
    "error. inspect: what devices and their specs change in a container. validate: whether files\n"
    "are good CDI specs, with every problem and its place. apply: the config.json of a container\n"
    "with the devices put in, to standard output or FILE; '-' as CONFIG reads standard input.\n"
    "--dir: where specs are, the least important first; by default /etc/cdi and /var/run/cdi.";

struct cdi_args {
    struct VEC(const char *) dirs;
    struct VEC(struct str) names;
    const char *output; // of -o
    const char *spec;
};

static void cdi_args_done(struct cdi_args *a)
{
    vec_done(&a->dirs);
    vec_done(&a->names);
}

// Takes the value of an option: "--dir X" or "--dir=X". NULL when argv[*i] is not that option.
static const char *option(char **argv, int argc, int *i, const char *name)
{
    size_t n = strlen(name);
    if (strncmp(argv[*i], name, n) != 0)
        return NULL;
    if (argv[*i][n] == '=')
        return argv[*i] + n + 1;
    if (argv[*i][n] != '\0' || *i + 1 >= argc || !argv[*i + 1])
        return NULL;
    return argv[++*i];
}

static bool parse_args(struct cdi_args *a, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *value;
        if ((value = option(argv, argc, &i, "--dir")))
            vec_push(&a->dirs, value);
        else if ((value = option(argv, argc, &i, "--spec")))
            a->spec = value;
        else if ((value = option(argv, argc, &i, "-o")))
            a->output = value;
        else if (argv[i][0] == '-' && argv[i][1] != '\0')
            return false;
        else
            vec_push(&a->names, str_z(argv[i]));
    }
    return true;
}

static void print_problem(const char *path, const struct err *err)
{
    char text[DRAY_ERR_MSG_MAX + DRAY_ERR_PATH_MAX + 64];
    char where[48] = "";
    if (err->line)
        (void)snprintf(where, sizeof(where), "%zu:%zu:", err->line, err->column);
    (void)snprintf(text, sizeof(text), "%s%s%s", err->path, err->path[0] ? ": " : "", err->msg);
    (void)fprintf(stderr, "%s:%s %s\n", path, where, text);
}

static struct cdi_cache *open_cache(const struct cdi_args *a)
{
    struct cdi_cache *cache = cdi_cache_new(a->dirs.p, a->dirs.n);
    cdi_cache_rescan(cache);
    size_t n;
    const struct cdi_file_problem *problems = cdi_cache_problems(cache, &n);
    for (size_t i = 0; i < n; i++)
        print_problem(problems[i].path.p, &problems[i].err);
    return cache;
}

// --- list ----------------------------------------------------------------------------------------

static void list_json(const struct cdi_cached_device *devices, size_t n)
{
    cleanup_sbuf struct sbuf out = {0};
    struct json_writer w = {.out = &out, .indent = 2};
    json_write_array_begin(&w);
    for (size_t i = 0; i < n; i++) {
        json_write_object_begin(&w);
        json_write_key(&w, STR("name"));
        json_write_str(&w, devices[i].name);
        json_write_key(&w, STR("path"));
        json_write_str(&w, devices[i].spec->path);
        json_write_object_end(&w);
    }
    json_write_array_end(&w);
    puts(out.p);
}

static int run_list(const struct cdi_args *a)
{
    if (a->names.n || a->spec || (a->output && strcmp(a->output, "json") != 0))
        return verb_usage_error("cdi", "list takes --dir and -o json only");
    struct cdi_cache *cache = open_cache(a);
    size_t n;
    const struct cdi_cached_device *devices = cdi_cache_devices(cache, &n);
    size_t width = 6;
    for (size_t i = 0; i < n; i++)
        width = devices[i].name.n > width ? devices[i].name.n : width;
    if (a->output) {
        list_json(devices, n);
    } else if (n > 0) {
        printf("%-*s  SPEC\n", (int)width, "DEVICE");
        for (size_t i = 0; i < n; i++)
            printf("%-*s  %s\n", (int)width, devices[i].name.p, devices[i].spec->path.p);
    } else {
        puts("no devices");
    }
    cdi_cache_free(cache);
    return VERB_OK;
}

// --- inspect -------------------------------------------------------------------------------------

static void write_inspected(struct json_writer *w, const struct cdi_cached_device *d)
{
    json_write_object_begin(w);
    json_write_key(w, STR("name"));
    json_write_str(w, d->name);
    json_write_key(w, STR("path"));
    json_write_str(w, d->spec->path);
    json_write_key(w, STR("cdiVersion"));
    json_write_str(w, d->spec->spec->version);
    json_write_key(w, STR("device"));
    cdi_write_device(w, d->device);
    if (!cdi_edits_are_empty(&d->spec->spec->edits)) {
        json_write_key(w, STR("containerEdits"));
        cdi_write_edits(w, &d->spec->spec->edits);
    }
    json_write_object_end(w);
}

static int print_inspected(const struct cdi_cached_device *d, bool json, struct err *err)
{
    cleanup_sbuf struct sbuf text = {0}, yaml = {0};
    struct json_writer w = {.out = &text, .indent = 2};
    write_inspected(&w, d);
    if (json) {
        puts(text.p);
        return 0;
    }
    cleanup_json_doc struct json_doc doc = {0};
    int rc = json_parse(sbuf_str(&text), NULL, &doc, err);
    if (rc != 0)
        return rc;
    yaml_write(doc.root, false, &yaml);
    printf("---\n%s", yaml.p);
    return 0;
}

static int run_inspect(const struct cdi_args *a)
{
    bool json = a->output && strcmp(a->output, "json") == 0;
    if (a->names.n == 0 || a->spec || (a->output && !json && strcmp(a->output, "yaml") != 0))
        return verb_usage_error("cdi", "inspect takes names of devices, --dir and -o yaml or json");
    struct cdi_cache *cache = open_cache(a);
    cleanup_arena struct arena arena = {0};
    struct cdi_edits edits;
    struct err err = {0};
    int rc = cdi_cache_edits(cache, a->names.p, a->names.n, &arena, &edits, &err);
    for (size_t i = 0; rc == 0 && i < a->names.n; i++)
        rc = print_inspected(cdi_cache_find(cache, a->names.p[i]), json, &err);
    if (rc != 0)
        (void)fprintf(stderr, "dray cdi: %s\n", err.msg);
    cdi_cache_free(cache);
    return rc == 0 ? VERB_OK : VERB_NO;
}

// --- validate ------------------------------------------------------------------------------------

static bool validate_one(const char *path)
{
    cleanup_sbuf struct sbuf text = {0};
    cleanup_arena struct arena arena = {0};
    struct err err = {0};
    struct cdi_spec *spec = NULL;
    if (cdi_spec_read_file(path, &text, &err) != 0) {
        print_problem(path, &err);
        return false;
    }
    struct cdi_problems problems = {0};
    int rc = cdi_spec_load(sbuf_str(&text), &arena, &spec, &problems);
    vec_foreach(&problems, p)
        print_problem(path, p);
    vec_done(&problems);
    if (rc == 0)
        printf("%s: good, %.*s, version %.*s, %zu device%s\n", path, STR_ARG(spec->kind),
               STR_ARG(spec->version), spec->devices.n, spec->devices.n == 1 ? "" : "s");
    return rc == 0;
}

static int run_validate(const struct cdi_args *a)
{
    if (a->names.n == 0 || a->spec || a->output || a->dirs.n)
        return verb_usage_error("cdi", "validate takes names of files only");
    bool good = true;
    vec_foreach(&a->names, name)
        good &= validate_one(name->p);
    return good ? VERB_OK : VERB_NO;
}

// --- apply ---------------------------------------------------------------------------------------

static int apply_to(const struct cdi_args *a, const struct input *in, struct sbuf *out,
                    struct err *err)
{
    cleanup_arena struct arena arena = {0};
    cleanup_json_doc struct json_doc doc = {0};
    struct cdi_edits edits;
    struct json_writer w = {.out = out, .indent = 2};
    int rc = json_parse(sbuf_str(&in->bytes), NULL, &doc, err);
    if (rc != 0) {
        (void)err_wrap(err, "%s:%zu:%zu", in->name, err->line, err->column);
        return rc;
    }
    struct cdi_cache *cache = open_cache(a);
    rc = cdi_cache_edits(cache, a->names.p, a->names.n, &arena, &edits, err);
    if (rc == 0)
        rc = cdi_apply(&edits, doc.root, cdi_host_system(), &w, err);
    if (rc == 0)
        sbuf_addc(out, '\n');
    cdi_cache_free(cache);
    return rc;
}

static int run_apply(const struct cdi_args *a)
{
    if (!a->spec || a->names.n == 0)
        return verb_usage_error("cdi", "apply takes --spec CONFIG and names of devices");
    cleanup_input struct input in = {0};
    cleanup_sbuf struct sbuf out = {0};
    struct err err = {0};
    int rc = input_open(&in, a->spec, &err);
    if (rc != 0)
        (void)err_wrap(&err, "%s", a->spec);
    else
        rc = apply_to(a, &in, &out, &err);
    bool to_file = a->output && strcmp(a->output, "-") != 0;
    if (rc == 0 && to_file)
        rc = cdi_store_replace(a->output, sbuf_str(&out), &err);
    if (rc != 0) {
        (void)fprintf(stderr, "dray cdi: %s\n", err.msg);
        return VERB_NO;
    }
    if (!to_file)
        (void)fputs(out.p, stdout);
    return VERB_OK;
}

int verb_cdi(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(const struct cdi_args *a);
    } parts[] = {{"list", run_list},
                 {"inspect", run_inspect},
                 {"validate", run_validate},
                 {"apply", run_apply}};
    if (argc < 2)
        return verb_usage_error("cdi", "say list, inspect, validate or apply");
    for (size_t i = 0; i < array_len(parts); i++) {
        if (strcmp(parts[i].name, argv[1]) != 0)
            continue;
        cleanup_with(cdi_args_done) struct cdi_args a = {0};
        if (!parse_args(&a, argc - 1, argv + 1))
            return verb_usage_error("cdi", verb_no_sense);
        return parts[i].run(&a);
    }
    return verb_usage_error("cdi", "there are list, inspect, validate and apply");
}
