// SPDX-License-Identifier: Apache-2.0
//
// dray cdi: what the CDI specs of a node offer, whether a spec is good, and what a device changes
// in a container.
#include <stdio.h>
#include <string.h>

#include "base/vec.h"
#include "cdi/apply.h"
#include "cdi/cache.h"
#include "cmd/input.h"
#include "cmd/verb.h"
#include "codec/yaml.h"
#include "os/file.h"

#include "base/banned.h"

struct cdi_args {
    struct cli_texts dirs, words;
    const char *output;
    const char *spec;
};

static struct cdi_args args;

static int cdi_run_list(void);
static int cdi_run_inspect(void);
static int cdi_run_validate(void);
static int cdi_run_apply(void);

#define CDI_DIR_OPTION                                                                            \
    {                                                                                             \
        "--dir", NULL, "DIR",                                                                     \
            "read specs here, the least important directory first; repeatable; default /etc/cdi " \
            "and /var/run/cdi",                                                                   \
            .many = &args.dirs                                                                    \
    }
static const struct cli_option list_options[] = {
    CDI_DIR_OPTION,
    {"--output", "-o", "json", "print JSON", .text = &args.output, .choices = "json"},
};
static const struct cli_option inspect_options[] = {
    CDI_DIR_OPTION,
    {"--output", "-o", "FORMAT", "print yaml (default) or json", .text = &args.output,
     .choices = "yaml json"},
};
static const struct cli_option apply_options[] = {
    {"--spec", NULL, "CONFIG", "edit this config.json of a container; - reads standard input",
     .text = &args.spec, .required = true},
    CDI_DIR_OPTION,
    {"--output", "-o", "FILE", "write to a file; default: standard output", .text = &args.output},
};
static const struct cli_group list_group = CLI_GROUP("Options", list_options);
static const struct cli_group inspect_group = CLI_GROUP("Options", inspect_options);
static const struct cli_group apply_group = CLI_GROUP("Options", apply_options);

static const struct cli_verb cdi_list = {
    .name = "list",
    .summary = "list the devices of the spec files",
    .synopsis = "list [--dir DIR]… [-o json]",
    .text =
        "Lists the devices of the spec files; reports files that cannot be used on standard error.",
    .groups = {&list_group},
    .run = cdi_run_list,
};
static const struct cli_verb cdi_inspect = {
    .name = "inspect",
    .summary = "show what devices change in a container",
    .synopsis = "inspect VENDOR/CLASS=DEVICE… [--dir DIR]… [-o yaml|json]",
    .text = "Shows what devices and their specs change in a container.",
    .groups = {&inspect_group},
    .words = &args.words,
    .word = "VENDOR/CLASS=DEVICE",
    .words_least = 1,
    .run = cdi_run_inspect,
};
static const struct cli_verb cdi_validate = {
    .name = "validate",
    .summary = "validate spec files",
    .synopsis = "validate FILE…",
    .text = "Validates CDI spec files and reports every problem with its position.",
    .words = &args.words,
    .word = "FILE",
    .words_least = 1,
    .run = cdi_run_validate,
};
static const struct cli_verb cdi_apply_verb = {
    .name = "apply",
    .summary = "add devices to the config.json of a container",
    .synopsis = "apply --spec CONFIG VENDOR/CLASS=DEVICE… [--dir DIR]… [-o FILE]",
    .text = "Prints the config.json of a container with the edits of the devices applied.",
    .groups = {&apply_group},
    .words = &args.words,
    .word = "VENDOR/CLASS=DEVICE",
    .words_least = 1,
    .run = cdi_run_apply,
};
static const struct cli_verb *const cdi_verbs[] = {&cdi_list, &cdi_inspect, &cdi_validate,
                                                   &cdi_apply_verb, NULL};

const struct cli_verb cdi_verb = {
    .name = "cdi",
    .summary = "list, inspect, validate and apply CDI specs",
    .chapter = CLI_NODE,
    .text = "Shows what the CDI specs of a node offer, validates specs, and applies devices to the "
            "configuration of a container.",
    .examples = "dray cdi list\n"
                "dray cdi inspect vendor.com/gpu=0 -o json\n"
                "dray cdi validate /etc/cdi/vendor.yaml\n"
                "dray cdi apply --spec config.json vendor.com/gpu=0",
    .subverbs = cdi_verbs,
};

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

static int cdi_find_edits(struct cdi_cache *cache, const struct cdi_args *a, struct arena *arena,
                          struct cdi_edits *ret, struct err *err)
{
    struct str *names = arena_array(arena, struct str, a->words.n);
    for (size_t i = 0; i < a->words.n; i++)
        names[i] = str_z(a->words.p[i]);
    return cdi_cache_edits(cache, names, a->words.n, arena, ret, err);
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

static int cdi_run_list(void)
{
    const struct cdi_args *a = &args;
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
    int r = json_parse(sbuf_str(&text), NULL, &doc, err);
    if (r != 0)
        return r;
    yaml_write(doc.root, false, &yaml);
    printf("---\n%s", yaml.p);
    return 0;
}

static int cdi_run_inspect(void)
{
    const struct cdi_args *a = &args;
    bool json = a->output && strcmp(a->output, "json") == 0;
    struct cdi_cache *cache = open_cache(a);
    cleanup_arena struct arena arena = {0};
    struct cdi_edits edits;
    struct err err = {0};
    int r = cdi_find_edits(cache, a, &arena, &edits, &err);
    for (size_t i = 0; r == 0 && i < a->words.n; i++)
        r = print_inspected(cdi_cache_find(cache, str_z(a->words.p[i])), json, &err);
    if (r != 0)
        (void)fprintf(stderr, "dray cdi: %s\n", err.msg);
    cdi_cache_free(cache);
    return r == 0 ? VERB_OK : VERB_NO;
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
    int r = cdi_spec_load(sbuf_str(&text), &arena, &spec, &problems);
    vec_foreach(&problems, p)
        print_problem(path, p);
    vec_done(&problems);
    if (r == 0)
        printf("%s: good, %.*s, version %.*s, %zu device%s\n", path, STR_ARG(spec->kind),
               STR_ARG(spec->version), spec->devices.n, spec->devices.n == 1 ? "" : "s");
    return r == 0;
}

static int cdi_run_validate(void)
{
    const struct cdi_args *a = &args;
    bool good = true;
    vec_foreach(&a->words, name)
        good &= validate_one(*name);
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
    int r = json_parse(sbuf_str(&in->bytes), NULL, &doc, err);
    if (r != 0) {
        (void)err_wrap(err, "%s:%zu:%zu", in->name, err->line, err->column);
        return r;
    }
    struct cdi_cache *cache = open_cache(a);
    r = cdi_find_edits(cache, a, &arena, &edits, err);
    if (r == 0)
        r = cdi_apply(&edits, doc.root, cdi_host_system(), &w, err);
    if (r == 0)
        sbuf_addc(out, '\n');
    cdi_cache_free(cache);
    return r;
}

static int cdi_run_apply(void)
{
    const struct cdi_args *a = &args;
    cleanup_input struct input in = {0};
    cleanup_sbuf struct sbuf out = {0};
    struct err err = {0};
    int r = input_open(&in, a->spec, &err);
    if (r != 0)
        (void)err_wrap(&err, "%s", a->spec);
    else
        r = apply_to(a, &in, &out, &err);
    bool to_file = a->output && strcmp(a->output, "-") != 0;
    if (r == 0 && to_file)
        r = file_replace_durable(AT_FDCWD, a->output, sbuf_str(&out), 0644, &err);
    if (r != 0) {
        (void)fprintf(stderr, "dray cdi: %s\n", err.msg);
        return VERB_NO;
    }
    if (!to_file)
        (void)fputs(out.p, stdout);
    return VERB_OK;
}
