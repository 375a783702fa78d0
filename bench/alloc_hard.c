// SPDX-License-Identifier: Apache-2.0
//
// Texts are JSON with ' for " and ` for ' so that they can be read.
#include "alloc_hard.h"

#include "base/banned.h"

#define DRIVER  "hard.example.com"
#define DEVICES 128

#define OF_KIND(k) "device.attributes[`" DRIVER "`].kind == " k

// --- Building blocks -----------------------------------------------------------------------------

static void begin_slice(struct sbuf *out, const char *name, int slices)
{
    sbuf_addf(out,
              "{'metadata':{'name':'%s'},'spec':{'driver':'" DRIVER
              "','nodeName':'n','pool':{'name':'p','generation':1,'resourceSliceCount':%d},",
              name, slices);
}

// A host of pairs: GPU and NIC (kind 0 and 1) on one of 64 roots, 8 NUMA nodes, 8 rails.
static void pairs_slice(struct sbuf *out)
{
    begin_slice(out, "s", 1);
    sbuf_addz(out, "'devices':[");
    for (int i = 0; i < DEVICES; i++)
        sbuf_addf(out,
                  "%s{'name':'d%03d','attributes':{'kind':{'int':%d},'root':{'int':%d},'numa':{"
                  "'int':%d},'rail':{'int':%d}}}",
                  i ? "," : "", i, i % 2, i / 2, i / 16, i % 16 / 2);
    sbuf_addz(out, "]}}");
}

static void request(struct sbuf *out, const char *comma, const char *name, int number, int count,
                    const char *selector)
{
    sbuf_addf(out,
              "%s{'name':'%s%d','exactly':{'deviceClassName':'c','allocationMode':'ExactCount',"
              "'count':%d",
              comma, name, number, count);
    if (selector)
        sbuf_addf(out, ",'selectors':[{'cel':{'expression':'%s'}}]", selector);
    sbuf_addz(out, "}}");
}

static void begin_claim(struct sbuf *out, int number)
{
    sbuf_addf(out, "%s{'metadata':{'name':'c%d','namespace':'ns'},'spec':{'devices':{'requests':[",
              number ? "," : "", number);
}

// A constraint over the requests g<from>, g<from + step> and so on, n of them.
static void constraint(struct sbuf *out, const char *comma, const char *kind, const char *attribute,
                       int from, int step, int n)
{
    sbuf_addf(out, "%s{'%sAttribute':'" DRIVER "/%s','requests':[", comma, kind, attribute);
    for (int i = 0; i < n; i++)
        sbuf_addf(out, "%s'g%d'", i ? "," : "", from + i * step);
    sbuf_addz(out, "]}");
}

static void pair_requests(struct sbuf *out, int pairs)
{
    for (int i = 0; i < pairs; i++) {
        request(out, i ? "," : "", "g", i, 1, OF_KIND("0"));
        request(out, ",", "n", i, 1, OF_KIND("1"));
    }
}

static void pair_constraints(struct sbuf *out, int pairs)
{
    for (int i = 0; i < pairs; i++)
        sbuf_addf(out, "%s{'matchAttribute':'" DRIVER "/root','requests':['g%d','n%d']}",
                  i ? "," : "", i, i);
}

// --- Problems ------------------------------------------------------------------------------------

// 16 pairs on one root each; the first eight on different NUMA nodes, the others on different rails.
// Without a solution, the ninth is to be on a NUMA node of its own, too.
static void write_pairs(struct sbuf *out, bool satisfiable)
{
    pairs_slice(out);
    sbuf_addz(out, "],'claims':[");
    begin_claim(out, 0);
    pair_requests(out, 16);
    sbuf_addz(out, "],'constraints':[");
    pair_constraints(out, 16);
    constraint(out, ",", "distinct", "numa", 0, 1, satisfiable ? 8 : 9);
    constraint(out, ",", "distinct", "rail", 8, 1, 8);
    sbuf_addz(out, "]}}}");
}

// A contradiction between the first requests and the last one, with much room between them.
static void write_far_apart(struct sbuf *out, bool satisfiable)
{
    pairs_slice(out);
    sbuf_addz(out, "],'claims':[");
    begin_claim(out, 0);
    pair_requests(out, 16);
    sbuf_addz(out, "],'constraints':[");
    pair_constraints(out, 16);
    constraint(out, ",", "match", "numa", 0, 15, 2);
    constraint(out, ",", "match", "numa", 1, 14, 2);
    if (!satisfiable)
        constraint(out, ",", "distinct", "numa", 0, 1, 2);
    constraint(out, ",", "distinct", "rail", 2, 1, 8);
    sbuf_addz(out, "]}}}");
}

// Colours of a graph: every request has a NUMA node unlike its neighbours', in a ring of cliques.
static void write_cliques(struct sbuf *out, bool satisfiable)
{
    pairs_slice(out);
    sbuf_addz(out, "],'claims':[");
    begin_claim(out, 0);
    for (int i = 0; i < 32; i++)
        request(out, i ? "," : "", "g", i, 1, "device.attributes[`" DRIVER "`].numa < 4");
    sbuf_addz(out, "],'constraints':[");
    for (int i = 0; i < 8; i++)
        constraint(out, i ? "," : "", "distinct", "numa", i * 4, 1, 4);
    for (int i = 0; i < 7; i++)
        constraint(out, ",", "match", "numa", i * 4, 4, 2);
    // The last clique's second must be like the first clique's first, whose colour its own first has.
    constraint(out, ",", "match", "numa", 0, satisfiable ? 28 : 29, 2);
    sbuf_addz(out, "]}}}");
}

static void whole_and_parts(struct sbuf *out, int sets, int small, int medium, int large)
{
    begin_slice(out, "s0", 2);
    sbuf_addz(out, "'sharedCounters':[");
    for (int i = 0; i < sets; i++)
        sbuf_addf(out, "%s{'name':'cs%d','counters':{'m':{'value':'5'}}}", i ? "," : "", i);
    sbuf_addz(out, "]}},");
    begin_slice(out, "s1", 2);
    sbuf_addz(out, "'devices':[");
    const int parts[] = {small, medium, large};
    for (int i = 0, n = 0; i < sets; i++)
        for (int size = 1; size <= 3; size++)
            for (int k = 0; k < parts[size - 1]; k++, n++)
                sbuf_addf(out,
                          "%s{'name':'d%03d','attributes':{'kind':{'int':%d},'numa':{'int':%d}},"
                          "'consumesCounters':[{'counterSet':'cs%d','counters':{'m':{'value':'%d'}}"
                          "}]}",
                          n ? "," : "", n, size, i / 4, i, size);
    sbuf_addz(out, "]}}");
}

// Sixteen mirrored counter sets of five: threes and twos fill them all.
static void write_partitions(struct sbuf *out, bool satisfiable)
{
    whole_and_parts(out, 16, 4, 2, 2);
    sbuf_addz(out, "],'claims':[");
    begin_claim(out, 0);
    for (int i = 0; i < 16; i++)
        request(out, i ? "," : "", "m", i, 1, OF_KIND("2"));
    for (int i = 0; i < 16; i++)
        request(out, ",", "l", i, 1, OF_KIND("3"));
    sbuf_addz(out, "]}}}");
    if (satisfiable)
        return;
    begin_claim(out, 1);
    request(out, "", "s", 0, 1, OF_KIND("1"));
    sbuf_addz(out, "]}}}");
}

// Claims with their partitions on one NUMA node each: a node holds two of the common ones, or one of
// the two large ones at the end and nothing else.
static void write_partition_groups(struct sbuf *out, bool satisfiable)
{
    int common = satisfiable ? 4 : 5;
    whole_and_parts(out, 16, 4, 2, 2);
    sbuf_addz(out, "],'claims':[");
    for (int c = 0; c < common + 2; c++) {
        begin_claim(out, c);
        request(out, "", "l", 0, 2, OF_KIND("3"));
        request(out, ",", "m", 0, 1, OF_KIND("2"));
        request(out, ",", "m", 1, c < common ? 1 : 2, OF_KIND("2"));
        sbuf_addz(out, "],'constraints':[{'matchAttribute':'" DRIVER "/numa'}]}}}");
    }
}

// Claims of eight on one NUMA node each: seven NUMA nodes have room for two, four for none.
static void write_claims(struct sbuf *out, bool satisfiable)
{
    begin_slice(out, "s", 1);
    sbuf_addz(out, "'devices':[");
    for (int i = 0; i < DEVICES; i++)
        sbuf_addf(out, "%s{'name':'d%03d','attributes':{'numa':{'int':%d}}}", i ? "," : "", i,
                  i < 16 * 7 ? i / 16 : 7 + i % 4);
    sbuf_addz(out, "]}}],'claims':[");
    for (int c = 0; c < (satisfiable ? 14 : 15); c++) {
        begin_claim(out, c);
        for (int i = 0; i < 4; i++)
            request(out, i ? "," : "", "r", i, 2, NULL);
        sbuf_addz(out, "],'constraints':[{'matchAttribute':'" DRIVER "/numa'}]}}}");
    }
}

// Bins: 20 shared devices of ten. Sixes fit one to a device, threes beside them, fives do not.
static void write_bins(struct sbuf *out, bool satisfiable)
{
    begin_slice(out, "s", 1);
    sbuf_addz(out, "'devices':[");
    for (int i = 0; i < 20; i++)
        sbuf_addf(out,
                  "%s{'name':'d%03d','allowMultipleAllocations':true,'capacity':{'mem':{'value':"
                  "'10'}}}",
                  i ? "," : "", i);
    sbuf_addz(out, "]}}],'claims':[");
    begin_claim(out, 0);
    for (int i = 0; i < 32; i++) {
        int wants = i < 8 ? 5 : i < 16 ? 3 : i < 32 - (satisfiable ? 1 : 0) ? 6 : 1;
        sbuf_addf(out,
                  "%s{'name':'r%d','exactly':{'deviceClassName':'c','allocationMode':'ExactCount',"
                  "'count':1,'capacity':{'requests':{'mem':'%d'}}}}",
                  i ? "," : "", i, wants);
    }
    sbuf_addz(out, "]}}}");
    if (satisfiable)
        return;
    begin_claim(out, 1);
    sbuf_addz(out, "{'name':'last','exactly':{'deviceClassName':'c','allocationMode':'ExactCount',"
                   "'count':1,'capacity':{'requests':{'mem':'6'}}}}]}}}");
}

const struct alloc_hard alloc_hard_problems[] = {
    {"hard pairs", write_pairs, true},
    {"hard pairs, none", write_pairs, false},
    {"hard far apart", write_far_apart, true},
    {"hard far apart, none", write_far_apart, false},
    {"hard cliques", write_cliques, true},
    {"hard cliques, none", write_cliques, false},
    {"hard partitions", write_partitions, true},
    {"hard partitions, none", write_partitions, false},
    {"hard partition groups", write_partition_groups, true},
    {"hard partition groups, none", write_partition_groups, false},
    {"hard claims", write_claims, true},
    {"hard claims, none", write_claims, false},
    {"hard bins", write_bins, true},
    {"hard bins, none", write_bins, false},
};
const size_t alloc_hard_count = sizeof(alloc_hard_problems) / sizeof(alloc_hard_problems[0]);

void alloc_hard_write(const struct alloc_hard *h, struct sbuf *out)
{
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addz(&text,
              "{'features':['default-1.37'],'deviceClasses':[{'metadata':{'name':'c'},'spec':{}}],"
              "'node':{'metadata':{'name':'n'}},'resourceSlices':[");
    h->write(&text, h->satisfiable);
    sbuf_addz(&text, "]}");
    for (size_t i = 0; i < text.n; i++)
        sbuf_addc(out, text.p[i] == '\'' ? '"' : text.p[i] == '`' ? '\'' : text.p[i]);
}
