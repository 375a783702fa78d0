// SPDX-License-Identifier: Apache-2.0
//
// dray taint and dray untaint: DeviceTaintRules, with a look at what they do before they do it.
#include <stdio.h>

#include "api/api.h"
#include "cmd/devices/device_verb.h"

#include "base/banned.h"

static struct cli_texts words;
static const char *class_name, *rule_name;
static bool dry_run, yes;

static int verb_taint(void);
static int verb_untaint(void);

static const struct cli_option taint_options[] = {
    {"--class", NULL, "CLASS",
     "taint the devices of this class; the taint is then the only argument", .text = &class_name,
     .names = "deviceclasses"},
    {"--name", NULL, "NAME", "name the rule", .text = &rule_name},
    {"--yes", NULL, NULL, "create the rule even if it evicts pods", .flag = &yes},
    {"--dry-run", NULL, NULL, "show the effect without creating the rule", .flag = &dry_run},
    DEVICE_SNAPSHOT_OPTION,
};
static const struct cli_option untaint_options[] = {
    {"--class", NULL, "CLASS",
     "untaint the devices of this class; the taint is then the only argument", .text = &class_name,
     .names = "deviceclasses"},
    {"--dry-run", NULL, NULL, "show which rules would be deleted", .flag = &dry_run},
};
static const struct cli_group taint_group = CLI_GROUP("Options", taint_options);
static const struct cli_group untaint_group = CLI_GROUP("Options", untaint_options);

const struct cli_verb taint_verb = {
    .name = "taint",
    .summary = "taint devices and show which pods that evicts",
    .chapter = CLI_DEVICES,
    .everyday = true,
    .synopsis = "taint DRIVER[/POOL[/DEVICE]]|DEVICE KEY[=VALUE]:EFFECT [OPTIONS]\n"
                "taint --class CLASS KEY[=VALUE]:EFFECT [OPTIONS]",
    .text = "Creates a DeviceTaintRule after showing which pods it evicts. Effects: NoSchedule "
            "keeps new claims away, NoExecute "
            "evicts pods that do not tolerate it (needs --yes if there are any), None is "
            "informational.",
    .examples = "dray taint gpu-0 broken=fan:NoSchedule\n"
                "dray taint gpu.example.com/n1 maintenance:NoExecute --dry-run\n"
                "dray taint --class gpu.example.com upgrade:NoSchedule",
    .groups = {&taint_group, &common_cluster},
    .words = &words,
    .word = "KEY[=VALUE]:EFFECT",
    .words_least = 1,
    .words_most = 2,
    .word_names = "devices",
    .run = verb_taint,
};

const struct cli_verb untaint_verb = {
    .name = "untaint",
    .summary = "remove taints from devices",
    .chapter = CLI_DEVICES,
    .synopsis = "untaint RULE|DRIVER[/POOL[/DEVICE]]|DEVICE [KEY[=VALUE][:EFFECT]] [OPTIONS]\n"
                "untaint --class CLASS KEY[=VALUE][:EFFECT] [OPTIONS]",
    .text = "Deletes DeviceTaintRules: the rule of that name, or those that select exactly this "
            "driver, pool or device, or those that 'dray taint --class' creates. Takes the words "
            "of 'dray taint'; without a taint all such rules are deleted. Taints that a driver "
            "publishes itself stay; only the driver can remove them.",
    .examples = "dray untaint gpu-0\ndray untaint gpu.example.com/n1 maintenance\n"
                "dray untaint --class gpu.example.com upgrade:NoSchedule",
    .groups = {&untaint_group, &common_cluster},
    .words = &words,
    .word = "RULE or DEVICE",
    .words_least = 1,
    .words_most = 2,
    .run = verb_untaint,
};

// --- Taint ---------------------------------------------------------------------------------------

static int taint_verb_read_rules(struct device_source *s, const struct inventory *inv,
                                 struct taint_rules *ret, struct err *err)
{
    struct api_device_taint_rule *one = NULL;
    struct str selector = STR("any"); // with a class it is not looked at
    struct str taint = str_z(words.p[words.n - 1]);
    int r = class_name ? 0 : taint_selector(inv, str_z(words.p[0]), &s->arena, &selector, err);
    if (r == 0) {
        struct str text = arena_strf(&s->arena, "%.*s=%.*s", STR_ARG(selector), STR_ARG(taint));
        r = taint_parse(text, &s->arena, &one, err);
    }
    if (r < 0 || !one)
        return r;
    if (class_name)
        return taint_of_class(inv, str_z(class_name), &one->spec.taint, &s->arena, ret, err);
    ret->p = arena_array(&s->arena, struct api_device_taint_rule *, 1);
    ret->p[0] = one;
    ret->n = 1;
    return 0;
}

static int taint_verb_create_rule(struct cluster *c, const char *target,
                                  struct api_device_taint_rule *rule, size_t number,
                                  struct err *err)
{
    cleanup_sbuf struct sbuf name = {0}, body = {0};
    struct json_writer w = {.out = &body};
    struct str path = str_z(target + strlen("/apis/"));
    struct str version = str_upto(path, (size_t)str_rfind_char(path, '/'));
    if (rule_name)
        sbuf_addf(&name, number ? "%s-%zu" : "%s", rule_name, number);
    else
        taint_rule_name(rule, &name);
    rule->metadata.name = sbuf_str(&name);
    rule->kind = STR("DeviceTaintRule");
    rule->api_version = version;
    int r = api_json_write(&api_device_taint_rule_type, rule, &w, err);
    if (r == 0)
        r = device_verb_send(c, "POST", target, sbuf_str(&body), NULL, err);
    if (r == -ERR_ALREADY_EXISTS)
        return err_set(err, ERR_ALREADY_EXISTS,
                       "rule %s is there already: 'dray untaint %s' first, or give --name", name.p,
                       name.p);
    if (r == 0)
        printf("devicetaintrule %s created\n", name.p);
    return r;
}

// Shows what all rules do; true when pods are evicted.
static bool taint_verb_preview(struct device_source *s, const struct inventory *inv,
                               const struct taint_rules *rules)
{
    cleanup_sbuf struct sbuf out = {0}, fitted = {0};
    bool evicts = false;
    struct taint_effect *effects = arena_array(&s->arena, struct taint_effect, rules->n);
    taint_find(inv, rules, clock_system(), &s->arena, effects);
    for (size_t i = 0; i < rules->n; i++) {
        const struct taint_effect *e = &effects[i];
        view_taint(&out, inv, e);
        for (size_t k = 0; e->evicts && k < e->hits_len; k++)
            evicts |= !e->hits[k].tolerates || e->hits[k].for_a_while;
    }
    view_add_wrapped(&fitted, sbuf_str(&out), s->layout.term.columns);
    printf("%s", fitted.n ? fitted.p : "");
    (void)fflush(stdout);
    return evicts;
}

static int taint_verb_add_taint(struct device_source *s, const struct inventory *inv,
                                struct err *err)
{
    struct taint_rules rules = {0};
    const char *target = NULL;
    int r = taint_verb_read_rules(s, inv, &rules, err);
    if (r < 0)
        return r;
    bool evicts = taint_verb_preview(s, inv, &rules);
    if (dry_run || !s->connected)
        return 0;
    if (evicts && !yes)
        return err_set(err, ERR_FORBIDDEN,
                       "nothing was done: pods would be evicted; --yes does it");
    r = device_verb_rules_target(&s->cluster, &target, err);
    for (size_t i = 0; r == 0 && i < rules.n; i++)
        r = taint_verb_create_rule(&s->cluster, target, rules.p[i], i, err);
    return r;
}

static int verb_taint(void)
{
    if (words.n != (class_name ? 1U : 2U))
        return cli_usage_error("taint",
                               class_name ? "with --class, KEY[=VALUE]:EFFECT is the only argument"
                                          : "DEVICE and KEY[=VALUE]:EFFECT are needed");
    return device_verb_run("taint", DEVICE_WORLD_DEVICES, taint_verb_add_taint);
}

// --- Untaint -------------------------------------------------------------------------------------

// The taint of the command line, KEY[=VALUE][:EFFECT]: all of it has to be the rule's.
static struct api_device_taint taint_verb_read_taint(struct str text)
{
    struct api_device_taint taint = {0};
    struct str rest, effect;
    if (!str_cut(text, ':', &rest, &effect))
        rest = text;
    else
        taint.effect = effect;
    if (!str_cut(rest, '=', &taint.key, &taint.value))
        taint.key = rest;
    return taint;
}

static int taint_verb_find_rules(struct device_source *s, const struct inventory *inv,
                                 struct taint_names *ret, struct err *err)
{
    struct api_device_taint taint = {0};
    struct taint_rules of_class = {0};
    if (class_name || words.n > 1)
        taint = taint_verb_read_taint(str_z(words.p[words.n - 1]));
    if (!class_name) {
        taint_rules_about(inv, str_z(words.p[0]), &taint, &s->arena, ret);
    } else {
        int r = taint_of_class(inv, str_z(class_name), &taint, &s->arena, &of_class, err);
        if (r < 0)
            return r;
        taint_rules_like(inv, &of_class, &taint, &s->arena, ret);
    }
    if (ret->n)
        return 0;
    return err_set(err, ERR_NOT_FOUND,
                   "no DeviceTaintRule is called %s or is about exactly that; taints that drivers "
                   "publish stay",
                   class_name ? class_name : words.p[0]);
}

static int taint_verb_remove_taint(struct device_source *s, const struct inventory *inv,
                                   struct err *err)
{
    struct taint_names names = {0};
    const char *target = NULL;
    int r = taint_verb_find_rules(s, inv, &names, err);
    if (r == 0 && !dry_run)
        r = device_verb_rules_target(&s->cluster, &target, err);
    for (size_t i = 0; r == 0 && i < names.n; i++) {
        struct str path =
            arena_strf(&s->arena, "%s/%.*s", target ? target : "", STR_ARG(names.p[i]));
        if (!dry_run)
            r = device_verb_send(&s->cluster, "DELETE", path.p, (struct str){0}, NULL, err);
        if (r == 0)
            printf("devicetaintrule %.*s %s\n", STR_ARG(names.p[i]),
                   dry_run ? "would go" : "deleted");
    }
    return r;
}

static int verb_untaint(void)
{
    return device_verb_run("untaint", DEVICE_WORLD_DEVICES, taint_verb_remove_taint);
}
