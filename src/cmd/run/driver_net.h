// SPDX-License-Identifier: Apache-2.0
//
// dray driver net: its part of the verb `driver`.
#ifndef CMD_RUN_DRIVER_NET_H
#define CMD_RUN_DRIVER_NET_H

#include "cmd/engine/cli.h"

extern const struct cli_verb driver_net_verb;

#endif
