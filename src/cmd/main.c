// SPDX-License-Identifier: Apache-2.0
//
// The program: everything is in the table of verbs (program.c) and in the engine that reads it.
#include "cmd/verb.h"

#include "base/banned.h"

int main(int argc, char **argv)
{
    return cli_main(&program, argc, argv);
}
