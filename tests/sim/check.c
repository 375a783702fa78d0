// SPDX-License-Identifier: Apache-2.0
#include "sim.h"

#include "base/banned.h"

void sim_check(struct sim *s)
{
    (void)s;
}

void sim_check_end(struct sim *s)
{
    (void)s;
}
