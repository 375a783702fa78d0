// SPDX-License-Identifier: Apache-2.0
//
// Any text as an expression: parse, check, estimate, generate, evaluate. The first byte chooses the
// environment; what follows is the source.
#include "cel/cel.h"
#include "fuzz.h"

#include "base/banned.h"

#define SOURCE_MAX 4096

static struct cel_env *envs[4];
static struct cel_run *run;
static struct cel_device *device;
__attribute__((used)) static struct cel_shapes *shapes; // kept, so that leak checkers see it

static void set_up(void)
{
    static const struct str text[] = {STR_INIT("A100"), STR_INIT("b")};
    static const struct str version[] = {STR_INIT("1.2.3")};
    static const int64_t ints[] = {3, 4};
    struct cel_attr_input attributes[] = {
        {STR("s"), CEL_ATTR_STRING, false, 1, {.strings = text}},
        {STR("l"), CEL_ATTR_STRING, true, 2, {.strings = text}},
        {STR("v"), CEL_ATTR_VERSION, false, 1, {.strings = version}},
        {STR("i"), CEL_ATTR_INT, false, 1, {.ints = ints}},
        {STR("x.y/n"), CEL_ATTR_INT, true, 2, {.ints = ints}},
    };
    struct cel_capacity_input capacity = {STR("m"), STR("80Gi")};
    struct cel_device_input input = {.driver = STR("d"),
                                     .attributes = attributes,
                                     .attribute_count = array_len(attributes),
                                     .capacities = &capacity,
                                     .capacity_count = 1};
    struct cel_env_options options[] = {
        {.kind = CEL_ENV_DRA, .any_result = true},
        {.kind = CEL_ENV_DRA, .new_expressions = true},
        {.kind = CEL_ENV_GENERIC},
        {.kind = CEL_ENV_GENERIC, .no_check = true},
    };
    for (size_t i = 0; i < array_len(envs); i++)
        envs[i] = cel_env_new(&options[i]);
    run = cel_run_new();
    cel_run_set_limit(run, 20000);
    shapes = cel_shapes_new();
    if (cel_device_new(shapes, &input, &device, NULL) < 0)
        __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!run)
        set_up();
    if (size < 1 || size > SOURCE_MAX)
        return 0;
    struct cel_program *p = NULL;
    struct str source = {(const char *)data + 1, size - 1};
    struct err err = {0};
    cleanup_sbuf struct sbuf issues = {0};
    if (cel_compile(envs[data[0] % array_len(envs)], source, &p, &issues, &err) < 0) {
        if (issues.n == 0)
            __builtin_trap(); // a refusal must say why
        return 0;
    }
    struct cel_result r;
    cel_eval_value(run, p, device, NULL, &r);
    if (r.failed && r.error.n == 0)
        __builtin_trap();
    cel_program_free(p);
    return 0;
}
