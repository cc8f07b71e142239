/* The energy counter of a GPU, by NVML, which is loaded if it is there. */
#ifndef BACE_NCCL_POWER_H
#define BACE_NCCL_POWER_H

#include <stdint.h>

#include "common/common.h"

struct power;

/* bus: the PCI bus id that CUDA gives. -ENOTSUP: no library, or no counter. */
int power_open(const char *bus, struct power **out, struct bace_err *e);
/* Joules of the whole board since the driver was loaded; it is counted every 20
 * to 100 ms. Negative: cannot be read. */
double power_energy_j(const struct power *p);
const char *power_gpu_name(const struct power *p);
void power_close(struct power *p);

#endif
