// SPDX-License-Identifier: Apache-2.0
//
// dray driver net: its part of the verb `driver`.
#ifndef CMD_DRIVER_NET_H
#define CMD_DRIVER_NET_H

// driver_net runs it; arguments as those of the verb. Returns one of VERB_*.
int driver_net(int argc, char **argv);

#endif
