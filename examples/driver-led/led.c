// SPDX-License-Identifier: Apache-2.0
//
// A DRA driver for the LEDs of a Linux machine (/sys/class/leds), to learn from: publishes each LED,
// lights it as the claim asks, gives the container its brightness file, and switches it off at the end.
//     driver-led --node NAME [--kubeconfig FILE] [--leds DIR] [--plugins DIR] [--registry DIR] [--cdi DIR]
#include <dirent.h>
#include <dray/driver.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER "led.example.com"
static const char *leds = "/sys/class/leds";

// What a claim may ask for. Everything else in its parameters is refused, with the name of the field.
struct led_config {
    int64_t brightness; // in percent
};

static const struct dray_field led_fields[] = {
    {"brightness", DRAY_INT, offsetof(struct led_config, brightness), .min = 1, .max = 100},
    {0},
};
static const struct dray_schema led_schema = {DRIVER "/v1", "LedConfig", led_fields,
                                              sizeof(struct led_config)};

static long read_number(const char *led, const char *file)
{
    char path[512];
    long value = -1;
    snprintf(path, sizeof(path), "%s/%s/%s", leds, led, file);
    FILE *f = fopen(path, "re");
    if (f && (fscanf(f, "%ld", &value) != 1 || fclose(f) != 0))
        return -1;
    return value;
}

static int light(const char *led, long brightness, struct dray_error *err)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s/brightness", leds, led);
    FILE *f = fopen(path, "we");
    if (!f || fprintf(f, "%ld\n", brightness) < 0 || fclose(f) != 0)
        return dray_fail(err, "LED %s cannot be set to %ld", led, brightness);
    return 0;
}

// Called for a claim until it succeeds; the SDK keeps what it did over crashes and restarts.
static int prepare(void *arg, const struct dray_claim *claim, struct dray_outcome *out,
                   struct dray_error *err)
{
    (void)arg;
    for (size_t i = 0; i < claim->devices_len; i++) {
        const struct dray_allocated *led = &claim->devices[i];
        int64_t percent = 100;
        for (size_t k = 0; k < led->configs_len; k++) { // the class's first, then the claim's own
            struct dray_params *params;
            if (dray_decode(led->configs[k].parameters, &led_schema, 1, NULL, &params, err) != 0)
                return -1;
            const struct led_config *config = dray_params_value(params);
            if (config->brightness)
                percent = config->brightness;
            dray_params_free(params);
        }
        if (light(led->device, read_number(led->device, "max_brightness") * percent / 100, err) !=
            0)
            return -1;
        char host[512];
        snprintf(host, sizeof(host), "%s/%s/brightness", leds, led->device);
        dray_env(out, i, "LED_NAME", led->device);
        dray_mount(out, i, host, "/run/led/brightness", "rw,bind");
        dray_condition(out, i, "Ready", true, "Lit", "");
    }
    return 0;
}

static int unprepare(void *arg, const struct dray_claim *claim, struct dray_error *err)
{
    (void)arg;
    for (size_t i = 0; i < claim->devices_len; i++)
        if (light(claim->devices[i].device, 0, err) != 0)
            return -1;
    return 0;
}

static void trouble(void *arg, const struct dray_error *err)
{
    (void)arg;
    fprintf(stderr, DRIVER ": %s\n", err->message);
}

static int publish(struct dray_driver *driver, struct dray_error *err)
{
    struct dray_pool *pool = dray_pool_new(NULL); // the node's own
    struct dirent **found;
    int n = scandir(leds, &found, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        const char *name = found[i]->d_name;
        long max = read_number(name, "max_brightness");
        if (max > 0) { // names with other characters than DNS labels would need translation
            struct dray_device *device = dray_pool_device(pool, name);
            dray_attribute_text(device, "name", name);
            dray_attribute_int(device, "maxBrightness", max);
            dray_health(driver, NULL, name, DRAY_HEALTHY, "");
        }
        free(found[i]);
    }
    if (n >= 0)
        free(found);
    int rc = n < 0 ? dray_fail(err, "cannot read %s", leds) : dray_publish(driver, pool, err);
    dray_pool_free(pool);
    return rc;
}

int main(int argc, char **argv)
{
    struct dray_runtime_options where = {0};
    struct dray_driver_options what = {
        .name = DRIVER,
        .instance = getenv("POD_UID"), // by the downward API: rolling updates
        .health = true,
        .callbacks = {.prepare = prepare, .unprepare = unprepare, .trouble = trouble},
    };
    const struct {
        const char *flag, **value;
    } flags[] = {{"--node", &what.node},
                 {"--kubeconfig", &where.kubeconfig},
                 {"--leds", &leds},
                 {"--plugins", &what.plugins_dir},
                 {"--registry", &what.registry_dir},
                 {"--cdi", &what.cdi_dir}};
    for (int i = 1; i + 1 < argc; i += 2)
        for (size_t k = 0; k < sizeof(flags) / sizeof(flags[0]); k++)
            if (strcmp(argv[i], flags[k].flag) == 0)
                *flags[k].value = argv[i + 1];
    struct dray_runtime *runtime = NULL;
    struct dray_driver *driver;
    struct dray_error err = {0};
    int rc = dray_runtime_new(&where, &runtime, &err);
    if (rc == 0)
        rc = dray_driver_start(runtime, &what, &driver, &err);
    if (rc == 0)
        rc = publish(driver, &err);
    if (rc == 0)
        dray_runtime_run(runtime); // until SIGTERM
    else
        fprintf(stderr, DRIVER ": %s\n", err.message);
    dray_runtime_free(runtime);
    return rc == 0 ? 0 : 1;
}
